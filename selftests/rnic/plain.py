#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The fast paths of rdma_soft, each switched off: data arrive as before, and counters show that the path is off.

Covers RNIC-GEN-03.
"""

import socket
import subprocess
import sys

import ktap
import rsoft
import topology
from ktap import equal, named
from topology import command, exchange, expect_smc
from user import RINGS, rings

IN_TASKS, SINGLE_ACKS, SINGLE_COMPLETIONS, KERNEL_CHECKSUMS, NOT_JOINED = 1, 2, 4, 8, 16
ALL = IN_TASKS | SINGLE_ACKS | SINGLE_COMPLETIONS | KERNEL_CHECKSUMS | NOT_JOINED
# Programs of user space that fill rings by hand.
CASES = ["opcodes", "sizes", "long reads", "atomics", "shared runs", "fair pairs", "flushes"]


def load(**settings):
    """Has new devices with these parameters."""
    topology.netns("down")
    rsoft.load("2", **settings)
    topology.netns("up")


def connection_carries_data():
    """SMC-R, 1 MB each way."""
    client, server = topology.pair(socket.AF_INET)
    with client, server:
        expect_smc(client, server)
        exchange(client, server, 1000000)
    topology.all_gone()


def works(plain, direct):
    """The cases and a connection work with these parameters."""
    load(plain=plain, direct=direct)
    for name in CASES:
        rings(name)
    connection_carries_data()


def counted(*names, device="rs_a"):
    """How far counters grow while short WRITEs are sent, and the number of WRITEs."""
    before = rsoft.counters(device)
    number = int(rings("short writes"))
    now = rsoft.counters(device)
    return [now[name] - before[name] for name in names] + [number]


def post_runs_in_a_task():
    """No doorbell runs its queue pair itself."""
    for plain, at_once in (0, True), (IN_TASKS, False):
        load(direct=False, plain=plain)
        inline, queued, _ = counted("inline_posts", "queued_posts")
        equal((inline > 0, queued > 0), (at_once, not at_once), "%d posts at once, %d queued" % (inline, queued))


def each_write_has_an_acknowledgment():
    """One acknowledgment answers a burst, or each of its packets."""
    for plain, common in (0, True), (SINGLE_ACKS, False):
        load(direct=False, plain=plain)
        acknowledgments, writes = counted("sent_pkts", device="rs_b")
        equal(acknowledgments < writes, common, "%d acknowledgments for %d WRITEs" % (acknowledgments, writes))


def kernel_computes_checksums():
    """The log says so."""
    load(direct=False, plain=KERNEL_CHECKSUMS)
    said = [line for line in command("dmesg").splitlines() if "checksums of packets by" in line]
    equal("of the kernel" in said[-1], True, said[-1])


def unknown_paths_are_refused():
    """Only those that there are can be switched off."""
    topology.netns("down")
    command("rmmod", rsoft.SOFT, check=False)
    for word in "plain=%d" % (ALL + 1), "hook=2", "together=2", "direct=2":
        done = subprocess.run(["insmod", str(rsoft.FILE), word], check=False, stderr=subprocess.PIPE, text=True)
        equal("Invalid parameters" in done.stderr, True, done.stderr)


def main():
    """Runs all tests."""
    topology.need_module()
    if rsoft.FILE is None or not RINGS.exists():
        ktap.skip_all("the module's file or a program is not here")
    for name in "ib_uverbs", "rdma_ucm":
        command("modprobe", name, check=False)
    tests = [post_runs_in_a_task, each_write_has_an_acknowledgment, kernel_computes_checksums]
    for plain in IN_TASKS, SINGLE_ACKS, SINGLE_COMPLETIONS, KERNEL_CHECKSUMS, NOT_JOINED:
        tests.append(named("plain=%d works" % plain, works, plain, False))
    tests += [named("plain=%d works with direct=1" % ALL, works, ALL, True),
              named("nothing is fast: programs of the target socket", rsoft.run_sockets, "direct=0", "together=0",
                    "hook=0", "plain=%d" % ALL),
              unknown_paths_are_refused]
    return rsoft.run(tests)


if __name__ == "__main__":
    sys.exit(main())
