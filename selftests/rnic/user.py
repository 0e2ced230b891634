#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Programs of rdma-core in user space, unmodified, over devices of the type rsoft: between two of them,
and with rdma_rxe on the other side; and a program that fills its rings by hand.

Covers RNIC-UAPI-02, RNIC-UAPI-06, RNIC-UD-08, RNIC-LIM-03, RNIC-SRQ-01, RNIC-UD-10, RNIC-FLOW-04, RNIC-ERR-09,
RNIC-RSP-01, RNIC-LIM-02, RNIC-GEN-05, RNIC-NET-04, RNIC-NET-06, RNIC-EVT-01, RNIC-LIFE-04, RNIC-LIFE-08,
RNIC-ERR-04, RNIC-RUN-04, RNIC-RDA-12.
"""

import contextlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

import ktap
import topology
from ktap import equal, named
from rsoft import counter, counters
from topology import command, netns

SOFT = "rdma_soft"
FILE = topology.module_file(SOFT)
RINGS = topology.HERE / "user_rings"
DEVICES = pathlib.Path("/sys/class/infiniband")
ADDRESSES = {"4": {"a": "10.9.0.1", "b": "10.9.0.2"}, "6": {"a": "fd09::1", "b": "fd09::2"}}
SIDES = [("rsoft", "rsoft"), ("rsoft", "rxe"), ("rxe", "rsoft")]
CASES = ["bystander", "opcodes", "sizes", "elements", "handles", "indices", "shapes", "requests", "data",
         "mappings", "overwrites", "deaths", "shared queues", "shared limits", "shared sizes",
         "shared hostile", "resizes", "unreliable messages", "unreliable refusals",
         "unreliable failures", "unreliable changes", "windows of type 1", "windows of type 2", "windows refused",
         "windows of the dead", "flushes", "words", "full completions", "itself", "states", "attributes",
         "creation", "refusals", "immediates", "lost keys", "many reads", "reads behind writes", "atomics",
         "completion indices", "armed timers", "solicited", "failed rings", "unmapped memory",
         "overlaps", "polled octets", "ranges", "rights", "kernel addresses", "events", "reasons",
         "shared runs", "fair pairs", "lost peers"]

# Cases for which the way of packets matters.
PACKET_CASES = ["bystander", "states", "refusals", "immediates", "lost keys", "many reads",
                "reads behind writes", "atomics", "solicited", "shared queues", "unreliable messages",
                "windows of type 2", "flushes", "words", "reasons", "shared runs", "fair pairs",
                "lost peers"]
CGROUPS = pathlib.Path("/sys/fs/cgroup")

# A message of fewer than 64 packets. With more in flight rdma_rxe waits until some have been freed, and without an end if
# that happens before it has noted that it waits.
MODEST = "60000"

# Queue pairs of the case of late receive requests.
LATE_PAIRS = 8


def gid_index(side, family="4", kind="RoCE v2"):
    """The index of the address of a side."""
    port = DEVICES / ("rs_" + side) / "ports/1"
    want = topology.gid_text(ADDRESSES[family][side])
    for file in sorted((port / "gids").iterdir(), key=lambda file: int(file.name)):
        try:
            found = (port / "gid_attrs/types" / file.name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if found == kind and file.read_text(encoding="ascii").strip() == want:
            return file.name
    raise AssertionError("rs_%s has no %s of %s" % (side, want, kind))


def resources():
    """Queue pairs and regions of programs in user space."""
    shown = command("rdma", "resource", "show", "qp") + command("rdma", "resource", "show", "mr")
    return [line for line in shown.splitlines() if " comm [" not in line and " comm " in line]


def inside(side, *words):
    """The words of a command in the namespace of a side."""
    return ("ip", "netns", "exec", "rs-" + side) + words


def is_listening(pid):
    """Whether the process on side b has a listener of rdma_cm or of TCP."""
    listeners = command(*inside("b", "rdma", "resource", "show", "cm_id"))
    if any("state LISTEN " in line and "pid %d " % pid in line for line in listeners.splitlines()):
        return True
    return "pid=%d," % pid in command(*inside("b", "ss", "-Hltnp"))


def between(server, client):
    """Runs the server on side b and, when it listens, the client on side a. Both must succeed. What
    they print."""
    with subprocess.Popen(inside("b", *server), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as serving:
        try:
            topology.until(lambda: serving.poll() is not None or is_listening(serving.pid),
                           "listener of " + " ".join(server))
            done = subprocess.run(inside("a", "timeout", str(topology.BOUND), *client),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  check=False)
            if done.returncode != 0:
                serving.kill()
                for device in "rs_a", "rs_b":
                    print("# %s: %s" % (device, {name: count for name, count in counters(device).items() if count}))
            heard, _ = serving.communicate(timeout=topology.BOUND)
            equal(done.returncode, 0, "%s: %s\n%s" % (" ".join(client), done.stdout, heard))
            equal(serving.returncode, 0, "%s: %s" % (" ".join(server), heard))
            return done.stdout, heard
        finally:
            serving.kill()


def device_is_described(left):
    """ibv_devinfo of the provider."""
    shown = command("ibv_devinfo", "-v", "-d", "rs_a")
    for words in "PORT_ACTIVE", "Ethernet", "max_qp:":
        equal(words in shown, True, shown)
    if left == "rsoft":
        equal("65536" in shown, True, shown)
    equal("rs_a" in command("ibv_devices"), True, "ibv_devices")


def pingpong(name, port, family, kind, *words):
    """A ping-pong of libibverbs, with checks of the data."""
    common = ("-p", str(port)) + words
    said, heard = between(
        (name, "-d", "rs_b", "-g", gid_index("b", family, kind)) + common,
        (name, "-d", "rs_a", "-g", gid_index("a", family, kind)) + common +
        (ADDRESSES["4"]["b"],))
    for text in said, heard:
        equal("iters in" in text, True, text)


def ping(family):
    """rping: rdma_cm, READ and WRITE, data compared."""
    address = ADDRESSES[family]["b"]
    said, _ = between(("rping", "-s", "-a", address, "-C", "20", "-v", "-V"),
                      ("rping", "-c", "-a", address, "-C", "20", "-v", "-V"))
    equal(said.count("ping data: "), 20, said)


def cma(name):
    """ucmatose and udaddy of rdma_cm."""
    said, heard = between((name, "-b", ADDRESSES["4"]["b"], "-c", "3", "-C", "20", "-S", "1000"),
                          (name, "-s", ADDRESSES["4"]["b"], "-c", "3", "-C", "20", "-S", "1000"))
    for text in said, heard:
        equal("return status 0" in text, True, text)


def rsockets(name):
    """A program on the sockets of librdmacm, which compares the data that it gets back."""
    common = ("-p", "18700", "-S", "20000", "-C", "20", "-I", "10", "-T", "v")
    said, heard = between((name, "-b", ADDRESSES["4"]["b"]) + common,
                          (name, "-s", ADDRESSES["4"]["b"]) + common)
    for text in said, heard:
        equal("Gb/sec" in text and "custom" in text, True, text)


def benchmark(name, *words):
    """A program of perftest."""
    common = ("-p", "18600", "-F", "-n", "200", "-s", "4096") + words
    said, _ = between((name, "-d", "rs_b", "-x", gid_index("b")) + common,
                      (name, "-d", "rs_a", "-x", gid_index("a")) + common +
                      (ADDRESSES["4"]["b"],))
    equal("#bytes" in said, True, said)


def quick(*tests):
    """Tests of qperf, whose queue pairs are connected by rdma_cm. The server tells its port before it
    listens there, so a client may have to try again."""
    client = inside("a", "timeout", str(topology.BOUND), "qperf", ADDRESSES["4"]["b"], "-lp", "18800",
                    "-cm", "1", "-t", "1")

    def succeeds(test):
        done = subprocess.run(client + (test,), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode != 0:
            equal("Event rejected" in done.stdout, True, done.stdout)
            return False
        equal([word in done.stdout for word in (test + ":", "  =  ")], [True, True], done.stdout)
        return True

    with subprocess.Popen(inside("b", "qperf", "-lp", "18800")) as serving:
        try:
            topology.until(lambda: is_listening(serving.pid), "listener of qperf")
            for test in tests:
                topology.until(lambda test=test: succeeds(test), "connection of " + test)
        finally:
            serving.kill()


def atomic():
    """ib_atomic_lat has one size."""
    common = ("-p", "18600", "-F", "-n", "200")
    said, _ = between(("ib_atomic_lat", "-d", "rs_b", "-x", gid_index("b")) + common,
                      ("ib_atomic_lat", "-d", "rs_a", "-x", gid_index("a")) + common +
                      (ADDRESSES["4"]["b"],))
    equal("#bytes" in said, True, said)


def nothing_is_left():
    """All objects of user space are gone."""
    topology.until(lambda: not [line for line in resources() if "rs_" in line], "end of objects")


def rings(case):
    """A case of the program that fills its rings by hand; what it prints."""
    # The library resolves the address of a handle in its own namespace.
    words = inside("a", RINGS, "rs_a", gid_index("a"), "rs_b", gid_index("b"), case)
    done = subprocess.run(words,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=2 * topology.BOUND, check=False)
    equal(done.returncode, 0, done.stdout)
    nothing_is_left()
    return done.stdout


def late_receives_are_asked_for_once_in_a_millisecond():
    """Requests that wait are repeated, at first 8 times in a millisecond (RNIC-FLOW-04)."""
    before, since = counter("rcvd_rnr_err", "rs_a"), time.monotonic()
    rings("late receives")
    naks = counter("rcvd_rnr_err", "rs_a") - before
    most = LATE_PAIRS * (8 + 1000 * (time.monotonic() - since))
    equal(LATE_PAIRS <= naks <= most, True, "%d RNR NAKs, at most %d" % (naks, most))


def silent_states_count_what_they_drop():
    """Packets for queue pairs that do not receive (RNIC-RSP-01)."""
    before = counter("drop_qp_state")
    rings("silent states")
    # Three states, and three attempts in each.
    topology.until(lambda: counter("drop_qp_state") >= before + 9, "packets that were dropped")


def unreliable_messages_are_lost_whole():
    """A network that loses single packets (RNIC-UD-10): the module is one without runs of them."""
    words = ("qdisc", "add", "dev", "va", "root", "netem", "loss", "10%")
    command("tc", "-n", "rs-a", *words)
    try:
        rings("unreliable losses")
    finally:
        command("tc", "-n", "rs-a", "qdisc", "delete", "dev", "va", "root")


def run_has_a_budget(case, device):
    """A run of a queue pair sends 64 packets at most, and another run follows (RNIC-RUN-04)."""
    before = counters(device)
    rings(case)
    after = counters(device)
    sent, runs = (after[name] - before[name] for name in ("sent_pkts", "qp_runs"))
    # 15 messages of 256 packets.
    equal(3840 <= sent <= 64 * runs, True, "%d packets in %d runs" % (sent, runs))


def changing(case, *changes, kind="RoCE v2", family="4"):
    """A case of that program, which waits for each change."""
    words = inside("a", RINGS, "rs_a", gid_index("a", family, kind), "rs_b", gid_index("b", family, kind),
                   case)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            for change in changes:
                said = running.stdout.readline()
                equal(said, "ready\n", said + running.stdout.read() if said != "ready\n" else said)
                change()
                running.stdin.write("changed\n")
                running.stdin.flush()
            said, _ = running.communicate(timeout=2 * topology.BOUND)
            equal(running.returncode, 0, said)
        finally:
            running.kill()
    nothing_is_left()


def device_goes_away_under_a_program():
    """The removal ends though the context is open; the program's mappings stay."""
    def remove():
        with topology.bounded(60):
            command("rdma", "link", "delete", "rs_a")
    changing("removal", remove)


def address(word, *more):
    """Adds or deletes the address of side a."""
    command("ip", "-n", "rs-a", "address", word, ADDRESSES["4"]["a"] + "/24", "dev", "va", *more)


def lost_address_stops_its_packets(kind):
    """Those of a queue pair whose address is deleted (RNIC-NET-04)."""
    def lose():
        address("delete")
        topology.until(lambda: topology.gid_text(ADDRESSES["4"]["a"]) not in topology.gids("rs_a"),
                       "end of the address")
    try:
        changing("lost address", lose, kind=kind)
    finally:
        address("add")
    topology.await_gid("rs_a", ADDRESSES["4"]["a"])


def set_mtu(octets):
    """The MTU of both network devices."""
    for side in "ab":
        command("ip", "-n", "rs-" + side, "link", "set", "v" + side, "mtu", str(octets))


def smaller_mtu_loses_long_packets():
    """Queue pairs with a larger path MTU go on, and their long packets are lost (RNIC-NET-06)."""
    set_mtu(4200)
    try:
        changing("smaller MTU", lambda: set_mtu(1500))
    finally:
        set_mtu(1500)


def port_and_addresses_have_events():
    """A port that goes down and up, and an address that comes (RNIC-EVT-01)."""
    words = ("ip", "-n", "rs-a", "link", "set", "va")
    try:
        changing("port events", lambda: command(*words, "down"), lambda: command(*words, "up"),
                 lambda: command("ip", "-n", "rs-a", "address", "add", "10.9.5.1/24", "dev", "va"))
    finally:
        netns("up", LINK_A="rsoft", LINK_B="rsoft")


def waiting_packets(side):
    """Packets that the queue of a network device holds."""
    shown, = json.loads(command("tc", "-n", "rs-" + side, "-j", "-s", "qdisc", "show", "dev", "v" + side))
    return shown["qlen"]


def packets_under_way_hold_nothing(case, family, *words):
    """Queue pair, device and module go while packets wait in the network (RNIC-LIFE-04). Whether the queue
    pair pays for them is a matter of the words for netem."""
    netns("up", LINK_A="rsoft", LINK_B="rsoft")
    command("tc", "-n", "rs-a", "qdisc", "add", "dev", "va", "root", "netem", *words)
    try:
        with topology.bounded(60):
            command(*inside("a", str(RINGS), "rs_a", gid_index("a", family), "rs_b", gid_index("b", family),
                            case))
            for side in "ab":
                command("rdma", "link", "delete", "rs_" + side)
            command("rmmod", SOFT)
        equal(waiting_packets("a") > 0, True, "packets under way")
    finally:
        command("tc", "-n", "rs-a", "qdisc", "delete", "dev", "va", "root")
        command("insmod", str(FILE), check=False)
    netns("up", LINK_A="rsoft", LINK_B="rsoft")
    rings("bystander")


def memory_beyond_the_limit_is_refused():
    """Pinned pages count against RLIMIT_MEMLOCK (RNIC-LIM-03)."""
    def limit():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (16384, 16384))
        # The limit does not count for CAP_IPC_LOCK.
        os.setgid(65534)
        os.setuid(65534)
    for file in pathlib.Path("/dev/infiniband").glob("uverbs*"):
        file.chmod(0o666)
    done = subprocess.run([RINGS, "rs_a", gid_index("a"), "rs_b", gid_index("b"), "bystander"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          preexec_fn=limit, check=False)
    equal(done.returncode, 1, done.stdout)
    equal("side->mr (errno 12)" in done.stdout, True, done.stdout)
    nothing_is_left()


@contextlib.contextmanager
def cgroup():
    """A new cgroup for memory."""
    if not (CGROUPS / "cgroup.controllers").exists():
        command("mount", "-t", "cgroup2", "none", str(CGROUPS))
    (CGROUPS / "cgroup.subtree_control").write_text("+memory\n", encoding="ascii")
    path = CGROUPS / "rsoft"
    path.mkdir()
    try:
        yield path
    finally:
        topology.until(lambda: not (path / "cgroup.procs").read_text(encoding="ascii"), "end of the program")
        path.rmdir()


def rings_count_for_the_cgroup_of_their_program():
    """Queues that are as large as the device has them, and none is larger (RNIC-LIM-02)."""
    with cgroup() as path:
        def enter():
            (path / "cgroup.procs").write_text("%d\n" % os.getpid(), encoding="ascii")
        with subprocess.Popen([RINGS, "rs_a", gid_index("a"), "rs_b", gid_index("b"), "large rings"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              preexec_fn=enter) as running:
            try:
                octets = running.stdout.readline()
                equal(octets.strip().isdigit(), True, octets)
                charged = int((path / "memory.current").read_text(encoding="ascii"))
                equal(32 << 20 <= int(octets) <= charged, True, "%d octets of %s" % (charged, octets))
                said, _ = running.communicate("go\n", topology.BOUND)
                equal(running.returncode, 0, said)
            finally:
                running.kill()
    nothing_is_left()


def rings_without_the_direct_path():
    """The same with every optional path switched off (RNIC-GEN-05)."""
    netns("down")
    command("rmmod", SOFT)
    command("insmod", str(FILE), "direct=0", "together=0")
    netns("up", LINK_A="rsoft", LINK_B="rsoft")
    for case in PACKET_CASES:
        rings(case)
    found = {name: counter(name, "rs_a") for name in ("direct_pkts", "direct_proofs", "sent_runs")}
    equal(set(found.values()), {0}, found)


def rxe_unloads_beside():
    """rmmod of rdma_rxe unregisters all devices that share its interface, and this one comes again."""
    netns("down")
    netns("up", LINK_A="rsoft", LINK_B="rsoft")
    guids = [(DEVICES / ("rs_" + side) / "node_guid").read_text(encoding="ascii").strip().replace(":", "")
             for side in "ab"]
    with topology.bounded(60):
        command("rmmod", "rdma_rxe")
    equal((DEVICES / "rs_a").exists(), False, "device after rmmod")
    log = command("dmesg")
    for guid in guids:
        equal("device %s removed by ib_core" % guid in log, True, "line of the log")
    command("modprobe", "rdma_rxe")
    netns("up", LINK_A="rsoft", LINK_B="rsoft")
    rings("bystander")


def tests():
    """All tests."""
    found = []
    for left, right in SIDES:
        programs = [
            ("links are made", netns, "up"),
            ("device is described", device_is_described, left)]
        for family in "46":
            programs.append(("ibv_rc_pingpong by IPv" + family, pingpong, "ibv_rc_pingpong", 18515,
                             family, "RoCE v2", "-n", "300", "-c"))
        programs += [
            ("ibv_rc_pingpong with events", pingpong, "ibv_rc_pingpong", 18515, "4", "RoCE v2", "-e",
             "-n", "100", "-s", "70000" if left == right else MODEST),
            ("ibv_srq_pingpong", pingpong, "ibv_srq_pingpong", 18515, "4", "RoCE v2", "-n", "300",
             "-c"),
            ("ibv_uc_pingpong", pingpong, "ibv_uc_pingpong", 18515, "4", "RoCE v2", "-n", "300",
             "-c"),
            ("ibv_ud_pingpong", pingpong, "ibv_ud_pingpong", 18515, "4", "RoCE v2", "-n", "300",
             "-s", "512")]
        if left == right:
            programs.append(("ibv_rc_pingpong by RoCE v1", pingpong, "ibv_rc_pingpong", 18515, "4",
                             "IB/RoCE v1", "-n", "300"))
        programs += [
            ("rping by IPv4", ping, "4"), ("rping by IPv6", ping, "6"),
            ("ucmatose", cma, "ucmatose"), ("udaddy", cma, "udaddy"),
            ("rstream", rsockets, "rstream"), ("riostream", rsockets, "riostream"),
            ("ib_write_bw", benchmark, "ib_write_bw"), ("ib_read_bw", benchmark, "ib_read_bw"),
            ("ib_send_lat", benchmark, "ib_send_lat"),
            ("ib_write_lat by UC", benchmark, "ib_write_lat", "-c", "UC"), ("ib_atomic_lat", atomic),
            ("qperf", quick, "rc_lat", "rc_bi_bw", "rc_rdma_read_lat", "rc_rdma_write_bw",
             "rc_rdma_write_poll_lat", "rc_fetch_add_mr", "rc_compare_swap_mr"),
            ("nothing is left", nothing_is_left)]
        for name, function, *arguments in programs:
            environment = {}
            if function is netns:
                environment = {"LINK_A": left, "LINK_B": right}
            found.append(named("%s with %s: %s" % (left, right, name),
                               lambda function=function, arguments=arguments,
                               environment=environment: function(*arguments, **environment)))
    found.append(named("links are made again", lambda: netns("up", LINK_A="rsoft", LINK_B="rsoft")))
    for case in CASES:
        found.append(named("rings: " + case, rings, case))
    for kind in "RoCE v2", "IB/RoCE v1":
        found.append(named("lost address of " + kind, lost_address_stops_its_packets, kind))
    for case, device in ("long writes", "rs_a"), ("long reads", "rs_b"):
        found.append(named("budget of " + case, run_has_a_budget, case, device))
    for family in "46":
        found.append(named("packets under way by IPv" + family, packets_under_way_hold_nothing,
                           "packets under way", family, "delay", "100s"))
        found.append(named("packets that are paid for by IPv" + family, packets_under_way_hold_nothing,
                           "unreliable stuck", family, "slot", "100s", "100s", "packets", "1"))
    return found + [smaller_mtu_loses_long_packets, port_and_addresses_have_events,
                    late_receives_are_asked_for_once_in_a_millisecond, silent_states_count_what_they_drop,
                    rings_count_for_the_cgroup_of_their_program, rings_without_the_direct_path,
                    unreliable_messages_are_lost_whole, memory_beyond_the_limit_is_refused,
                    device_goes_away_under_a_program, rxe_unloads_beside]


def main():
    """Runs the tests with the module loaded."""
    if os.geteuid() != 0:
        ktap.skip_all("needs root")
    if FILE is None:
        ktap.skip_all("the module's file is not here")
    if os.path.isdir("/sys/module/" + SOFT):
        ktap.skip_all("%s is loaded" % SOFT)
    topology.load_needed(FILE)
    for name in "ib_uverbs", "rdma_ucm":
        command("modprobe", name, check=False)
    command("insmod", str(FILE))
    try:
        return ktap.run(tests())
    finally:
        netns("down")
        command("rmmod", SOFT, check=False)


if __name__ == "__main__":
    sys.exit(main())
