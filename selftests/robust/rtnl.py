#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A program that makes the kernel hold the routing netlink lock delays neither handshakes nor readers
of the list of devices. Both use the cached state of ports."""

import contextlib
import ctypes
import os
import select
import struct
import sys
import threading
import time

import faults
import ktap
import topology
from ktap import equal
from topology import all_gone, exchange, expect_smc, pair

SIOCETHTOOL, ETHTOOL_GPERMADDR = 0x8946, 0x20
# Longest time to hold the lock.
SECONDS = 20 * topology.SLOW


def hold(told, over):
    """Holds the routing netlink lock until `over` ends or the time is up; `told` ends when it is held.

    The kernel reads the command of a request before it takes the lock. The rest, which does not come,
    is read with the lock held.
    """
    trap = faults.Trap()
    trap.memory[faults.PAGE - 4:faults.PAGE] = struct.pack("=I", ETHTOOL_GPERMADDR)
    request = ctypes.create_string_buffer(struct.pack("=16sQ16x", b"va", trap.before(4)))
    sock = topology.new_socket("a", smc=False)
    thread = threading.Thread(target=topology.libc.ioctl,
                              args=(sock.fileno(), SIOCETHTOOL, ctypes.addressof(request)))
    thread.start()
    trap.caught(1)
    os.close(told)
    select.select([over], [], [], SECONDS)
    trap.release()
    thread.join()


@contextlib.contextmanager
def rtnl_held():
    """Fails unless the block ends while another process holds the routing netlink lock."""
    told, over = os.pipe(), os.pipe()

    def holder():
        os.close(over[1])
        hold(told[1], over[0])
    child = topology.Child(holder)
    os.close(told[1])
    os.close(over[0])
    os.read(told[0], 1)
    os.close(told[0])
    try:
        equal(child.has_ended(), False, "the lock is held")
        begin = time.monotonic()
        yield
        equal(time.monotonic() - begin < SECONDS / 2, True, "it did not wait for the lock")
    finally:
        os.close(over[1])
        child.expect_success()


def connects():
    """Fails unless client and server find a device each, and data use them."""
    client, server = pair()
    expect_smc(client, server)
    exchange(client, server, 20000)
    client.close()
    server.close()


def first_contact_needs_no_rtnl():
    """A new link group."""
    with rtnl_held():
        connects()
    all_gone()


def later_contact_needs_no_rtnl():
    """An existing link group."""
    held = pair()
    expect_smc(*held)
    with rtnl_held():
        connects()
    for sock in held:
        sock.close()
    all_gone()


def devices_are_listed_without_rtnl():
    """The list of devices, which any user may read."""
    with rtnl_held():
        rows = topology.records("a", "devices")
    equal([(row["dev"], row["state"], row["usable"]) for row in rows], [("rs_a", "active", "1")],
          "devices")


def main():
    """Runs all tests."""
    topology.need_module()
    topology.netns("up")
    return ktap.run([first_contact_needs_no_rtnl, later_contact_needs_no_rtnl,
                     devices_are_listed_without_rtnl])


if __name__ == "__main__":
    sys.exit(main())
