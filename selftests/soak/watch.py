# SPDX-License-Identifier: GPL-2.0
"""The costs of a run and its remains: memory, counters of the module, and connections that move between
devices."""

import contextlib
import gc
import pathlib
import subprocess

import topology

COUNTERS = ("smc_clnt_conns", "smc_srv_conns", "fallback_clnt", "fallback_srv", "aborted_clnt",
            "aborted_srv", "tx_bytes", "rx_bytes", "groups_ended")
MIB = 1 << 20


def meminfo():
    """/proc/meminfo in octets."""
    lines = pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines}


def settled_memory():
    """The memory in use when nothing runs and caches are dropped: (all of it, unreclaimable slab)."""
    gc.collect()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
    for cache in pathlib.Path("/sys/kernel/slab").glob("*/shrink"):
        try:
            cache.write_text("1\n", encoding="ascii")
        except OSError:
            pass
    now = meminfo()
    return now["MemTotal"] - now["MemFree"] - now.get("Cached", 0), now["SUnreclaim"]


class Watch:
    """Takes samples during a round."""

    def __init__(self, sides):
        self.sides = sides
        self.peak = self.moved = 0
        self.devices = {}
        self.totals = {}
        self.failed_looks = 0

    def look(self):
        """Samples the use of memory, and counts connections that moved since the last sample."""
        now = meminfo()
        self.peak = max(self.peak, now["MemTotal"] - now["MemAvailable"])
        devices = {}
        for side in self.sides:
            try:
                lines = topology.records(side, "conns")
            except OSError:
                # The module is gone, or memory for the file is missing.
                self.failed_looks += 1
                continue
            for line in lines:
                if line["mode"] == "smc" and "dev" in line:
                    devices[side, line["local"], line.get("peer")] = line["dev"]
        self.moved += sum(device != self.devices.get(name, device) for name, device in devices.items())
        self.devices = devices

    def tell(self, why):
        """Prints the connections, their links, and the counters of the devices."""
        print("soak: %s" % why)
        for side in self.sides:
            with contextlib.suppress(OSError), topology.inside(side):
                for name in "conns", "links":
                    for line in pathlib.Path("/proc/net/rdma_sock", name).read_text("ascii").splitlines():
                        if "state=" not in line or "LISTEN" not in line:
                            print("soak:   %s: %s" % (side, line))
                done = subprocess.run(["rdma", "statistic", "show"], stdout=subprocess.PIPE, text=True,
                                      timeout=topology.BOUND, check=False)
                for line in done.stdout.splitlines():
                    print("soak:   %s: %s" % (side, line))

        for task in pathlib.Path("/proc").glob("[0-9]*/task/*"):
            with contextlib.suppress(OSError):
                if task.joinpath("comm").read_text("ascii").strip() == "traffic":
                    call = task.joinpath("syscall").read_text("ascii").strip()
                    print("soak:   task %s: system call %s" % (task.name, call))

    def counters(self):
        """The counters of all sides that are reported."""
        sums = {}
        for side in self.sides:
            try:
                found = topology.counters(side)
            except OSError:
                continue
            for name, value in found.items():
                if name in COUNTERS or name.startswith(("link_down_", "violation_", "fallback_reason_",
                                                        "aborted_reason_")):
                    sums[name] = sums.get(name, 0) + value
        return sums

    def count(self, counters=None):
        """Adds counters to the totals, before the namespace or the module goes."""
        for name, value in (counters or self.counters()).items():
            self.totals[name] = self.totals.get(name, 0) + value

    def left(self):
        """The remains of connections: (connections, link groups)."""
        found = [topology.counters(side) for side in self.sides]
        return (sum(counters["active_conns"] for counters in found),
                sum(counters["link_groups"] for counters in found))
