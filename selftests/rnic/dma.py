#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Programs of the target `socket` over devices of rdma_soft whose memory the kernel maps as for an adapter,
as `sockets.py` runs them.

Started with `swiotlb=force` or `swiotlb=NUMBER,force`, the kernel has a device read and write copies of all memory: data that is not
synchronised, or in the wrong direction, is not what the other side sent.

Covers RNIC-GEN-03.
"""

import errno
import os
import pathlib
import socket
import subprocess
import sys

import ktap
import rsoft
import topology
from ktap import equal, named
from topology import command

# Octets that a program has not read when their link ends.
WAITING = 5000
BOUNCED = pathlib.Path("/sys/kernel/debug/swiotlb/io_tlb_used")


def memory_is_bounced():
    """A device has receive buffers from its first moment. They take memory for copies until it is gone."""
    before = int(BOUNCED.read_text(encoding="ascii"))
    rsoft.load(dma=1)
    topology.netns("up")
    used = int(BOUNCED.read_text(encoding="ascii"))
    equal(used > before, True, "copies in use: %d, then %d" % (before, used))
    topology.netns("down")
    command("rmmod", rsoft.SOFT)
    equal(int(BOUNCED.read_text(encoding="ascii")), before, "copies in use without the device")


def second(*words):
    """Runs second_device.sh, for devices of the module."""
    subprocess.run([topology.HERE / "second_device.sh", *words], check=True,
                   env={**os.environ, "LINK": "rsoft"})


def written(side):
    """Octets written by each link of a side."""
    return [int(line["write_bytes"]) for line in topology.records(side, "links")]


def data_come_by_either_link():
    """Each link of a group has copies of its own of the same elements, and one of them has the data. Octets that
    wait for a program survive the end of their link."""
    rsoft.load(dma=1)
    topology.netns("up")
    try:
        second("up")
        ends = [topology.pair()]
        topology.exchange(*ends[0])
        second("links")
        ends += [topology.pair() for _ in range(3)]
        for client, server in ends:
            topology.expect_smc(client, server)
            topology.exchange(client, server)
        for side in "ab":
            equal(len(written(side)) == 2 and min(written(side)) > 200000, True, "written by the links of " + side)
        for number, (client, server) in enumerate(ends):
            server.sendall(topology.known(number, WAITING))
            topology.until(lambda client=client: len(client.recv(WAITING, socket.MSG_PEEK)) == WAITING, "data")
        second("lose", "rs_ma")
        topology.until(lambda: all(line["dev"] != "rs_ma" for line in topology.records("a", "links")),
                       "the end of a link")
        for number, (client, server) in enumerate(ends):
            equal(client.recv(WAITING) == topology.known(number, WAITING), True, "data of before")
            topology.exchange(client, server)
            client.close()
            server.close()
        topology.all_gone()
    finally:
        second("down")
        rsoft.unload()


def other_numbers_are_refused():
    """The parameter is 0 or 1."""
    done = subprocess.run(["insmod", str(rsoft.FILE), "dma=2"], check=False, stderr=subprocess.PIPE,
                          text=True)
    equal(os.strerror(errno.EINVAL) in done.stderr or "Invalid parameters" in done.stderr, True, done.stderr)


def need_bounces():
    """Skips all tests unless the kernel copies the memory of devices."""
    words = pathlib.Path("/proc/cmdline").read_text(encoding="ascii").split()
    if not any(word.startswith("swiotlb=") and word.endswith("force") for word in words):
        ktap.skip_all("the kernel was not started with swiotlb=force")
    if not BOUNCED.exists():
        ktap.skip_all("the kernel does not count copies of the memory of devices")


def main():
    """Runs all tests."""
    topology.need_module()
    if rsoft.FILE is None:
        ktap.skip_all("the module's file is not here")
    need_bounces()
    return rsoft.run([named("memory_is_bounced", memory_is_bounced),
                      named("data_come_by_either_link", data_come_by_either_link),
                      named("other_numbers_are_refused", other_numbers_are_refused),
                      named("programs of the target socket", rsoft.run_sockets, "dma=1")])


if __name__ == "__main__":
    sys.exit(main())
