#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Unloading rdma_soft.ko under load, a hundred times: two devices, a connection of SMC-R and a program of
user space, both of which send without an end.

Covers RNIC-LIFE-06.
"""

import contextlib
import subprocess
import sys

import fixtures
import ktap
import rsoft
import topology
import user
from ktap import equal
from topology import Child, all_gone, command, expect_smc, pair

LOOPS = 10 if fixtures.FEW else 100
# Loops of a test.
BATCH = 10


def load():
    """Loads the module, and makes a device on each network device."""
    command("insmod", str(rsoft.FILE))
    for side in "ab":
        command("ip", "netns", "exec", "rs-" + side, "rdma", "link", "add", "rs_" + side, "type", "rsoft",
                "netdev", "v" + side)
    for side in "ab":
        topology.await_gid("rs_" + side, user.ADDRESSES["4"][side])
    topology.await_ports(*"ab")


def connection():
    """A writer and a reader of a connection."""
    client, server = pair()

    def write():
        server.close()
        with contextlib.suppress(OSError):
            while True:
                client.sendall(topology.known("stream", 100000))

    def read():
        client.close()
        with contextlib.suppress(OSError):
            while server.recv(65536):
                pass

    with client, server:
        expect_smc(client, server)
        return [Child(write), Child(read)]


def unload_under_load():
    """The removal ends, and so do all that used the devices."""
    load()
    children = connection()
    words = user.inside("a", user.RINGS, "rs_a", user.gid_index("a"), "rs_b", user.gid_index("b"), "stream")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            said = running.stdout.readline()
            equal(said, "ready\n", "start")
            running.stdin.write("go on\n")
            running.stdin.flush()
            sent = rsoft.counters("rs_a")["sent_bytes"]
            topology.until(lambda: rsoft.counters("rs_a")["sent_bytes"] > sent + 1000000, "traffic")
            with topology.bounded(60):
                command("rmmod", rsoft.SOFT)
            said, _ = running.communicate(timeout=topology.BOUND)
            equal(running.returncode, 0, said)
        finally:
            running.kill()
    for child in children:
        child.expect_success()
    all_gone()


def unload_many_times():
    """Some of the loops."""
    for _ in range(BATCH):
        unload_under_load()


def main():
    """Runs the tests."""
    topology.need_module()
    rsoft.load()
    command("rmmod", rsoft.SOFT)
    for name in "ib_uverbs", "rdma_ucm":
        command("modprobe", name, check=False)
    try:
        topology.netns("up", NO_RDMA="a b")
        return ktap.run([ktap.named("loops %d to %d" % (first + 1, first + BATCH), unload_many_times)
                         for first in range(0, LOOPS, BATCH)])
    finally:
        rsoft.unload()


if __name__ == "__main__":
    sys.exit(main())
