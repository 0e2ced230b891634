# SPDX-License-Identifier: GPL-2.0
"""Faults during the use of connections. Each is a function of (round, dice) that causes the fault,
waits, and repairs it. The round records its time."""

import contextlib
import pathlib
import subprocess
import time

import topology

DEBUGFS = pathlib.Path("/sys/kernel/debug")
MEMORY = [DEBUGFS / name for name in ("failslab", "fail_page_alloc")]


def tell(file, value):
    """Writes a number to a file of the kernel."""
    file.write_text("%s\n" % value, encoding="ascii")


def tool(*words):
    """Runs a command that may fail, as its object may be gone."""
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=topology.BOUND,
                   check=False)


def in_ns(name, *words):
    """Runs a command in a namespace, or in that of this process."""
    tool(*(("ip", "netns", "exec", name) if name else ()), *words)


def network(this_round, dice):
    """Packets are lost, delayed, duplicated and reordered."""
    words = ["delay", "%dus" % dice.choice((100, 1000, 5000)), "%dus" % dice.choice((0, 100, 2000))]
    if dice.random() < 0.7:
        words += ["loss", "%.2f%%" % dice.choice((0.1, 0.5, 2, 5))]
    if dice.random() < 0.5:
        words += ["duplicate", "%.2f%%" % dice.choice((0.5, 5))]
    if dice.random() < 0.5:
        words += ["reorder", "%d%%" % dice.choice((5, 30)), "50%"]
    place = dice.choice(this_round.wires)
    with this_round.fault("network", "%s %s" % (place[1], " ".join(words))):
        in_ns(place[0], "tc", "qdisc", "replace", "dev", place[1], "root", "netem", "limit", "5000",
              *words)
        this_round.rest(dice.uniform(1, 6))
        in_ns(place[0], "tc", "qdisc", "delete", "dev", place[1], "root")


def one_device(this_round, dice):
    """An RDMA device goes and returns."""
    name = dice.choice(this_round.devices)
    with this_round.fault("device", name):
        tool("rdma", "link", "delete", this_round.rdma_name(name))
        this_round.rest(dice.uniform(0, 3))
        this_round.add_device(name)


def all_devices(this_round, dice):
    """All RDMA devices of a side go at once, which breaks their connections."""
    side = dice.choice(sorted({name[0] for name in this_round.devices}))
    names = [name for name in this_round.devices if name[0] == side]
    with this_round.fault("all devices", side):
        for name in names:
            tool("rdma", "link", "delete", this_round.rdma_name(name))
        this_round.rest(dice.uniform(0, 2))
        for name in names:
            this_round.add_device(name)


def interface(this_round, dice):
    """A network interface is down for a while."""
    name = dice.choice(this_round.devices)
    place, link = this_round.interface(name)
    with this_round.fault("interface", name):
        in_ns(place, "ip", "link", "set", link, "down")
        this_round.rest(dice.uniform(0.2, 3))
        in_ns(place, "ip", "link", "set", link, "up")
        this_round.after_up(name)


def can_fail_memory():
    """Whether this kernel can make allocations fail."""
    return all((folder / "task-filter").exists() for folder in MEMORY)


def workers():
    """The kernel threads that run work items of unbound queues."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.joinpath("comm").read_text(encoding="ascii").startswith("kworker/u"):
                yield process / "make-it-fail"


def mark_workers(value):
    """Makes allocations of the kernel's workers fail, or ends that."""
    for file in workers():
        with contextlib.suppress(OSError):
            tell(file, value)


def memory(this_round, dice):
    """Allocations of the programs that permit it fail, and at times those of the kernel's workers. The
    harness itself changes nothing meanwhile."""
    chance, with_workers = dice.choice((1, 5, 20)), dice.random() < 0.5
    chosen = dice.choice((MEMORY[:1], MEMORY[1:], MEMORY))
    names = "+".join(folder.name for folder in chosen)
    with this_round.fault("memory", "%s %d%%%s" % (names, chance, " and workers" if with_workers else "")):
        for folder in chosen:
            for name, value in (("task-filter", "Y"), ("verbose", 0), ("interval", 1), ("space", 0),
                                ("ignore-gfp-wait", "N"), ("min-order", 0), ("times", -1),
                                ("probability", chance)):
                if (folder / name).exists():
                    tell(folder / name, value)
        try:
            end = time.monotonic() + dice.uniform(0.5, 4)
            while (left := end - time.monotonic()) > 0:
                # The kernel starts new workers at any time.
                mark_workers(int(with_workers))
                this_round.rest(min(left, 0.5))
        finally:
            for folder in chosen:
                tell(folder / "probability", 0)
            if with_workers:
                mark_workers(0)


def unload(this_round, _):
    """An administrator tries to remove the module, which is in use."""
    with this_round.fault("module", "rmmod", harmless=True):
        done = subprocess.run(["rmmod", "rdma_sock"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=topology.BOUND, check=False)
        if done.returncode == 0:
            this_round.insert_module()


def settings(this_round, dice):
    """An administrator changes settings."""
    side = dice.choice(this_round.sides)
    name, values = dice.choice((("wmem", (16384, 131072, 524288)), ("rmem", (16384, 131072, 524288)),
                                ("smcr_max_links_per_lgr", (1, 2, 4)), ("smcr_max_conns_per_lgr", (16, 255)),
                                ("smcr_testlink_time", (1, 30)), ("limit_smc_hs", (0, 1)),
                                ("smcr_share_buffers", (0, 1)), ("smcr_max_send_wr", (2, 48)),
                                ("smcr_max_recv_wr", (8, 128))))
    value = dice.choice(values)
    with this_round.fault("setting", "%s=%d" % (name, value), harmless=True), topology.inside(side):
        with contextlib.suppress(OSError):
            tell(pathlib.Path("/proc/sys/net/smc", name), value)


def namespaces(this_round, dice):
    """Two more namespaces appear with devices and connections, and go during their use."""
    # Their programs do not belong to the streams of this round.
    with this_round.fault("namespace", "rs-x"):
        with contextlib.suppress(AssertionError):
            this_round.foreign(dice)
