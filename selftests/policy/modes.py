#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The modes of RDMA devices and network namespaces: shared by all (the default), or exclusive to one
namespace."""

import atexit
import os
import pathlib
import sys

import ktap
import topology
from fallback import NO_DEVICE, Watch, goes_by_rdma, stays_tcp
from ktap import equal
from topology import command, pair


def mode(word):
    """Sets the mode, which needs the absence of namespaces."""
    topology.netns("down")
    topology.until(lambda: not [name for name in os.listdir("/sys/class/infiniband")
                                if name.startswith("rs_")], "devices are left")
    done = []

    def works():
        done[:] = [command("rdma", "system", "set", "netns", word, check=False)]
        return done[0] == ""
    # A deleted namespace disappears with a delay.
    topology.until(works, "mode %s" % word)


def give(side):
    """Moves the device of a side to its namespace, with its addresses."""
    command("rdma", "dev", "set", "rs_" + side, "netns", "rs-" + side)
    number = 1 if side == "a" else 2
    gid = topology.gid_text("10.9.0.%d" % number)

    def known():
        with topology.inside(side):
            gids = pathlib.Path("/sys/class/infiniband/rs_%s/ports/1/gids" % side)
            text = command("ip", "netns", "exec", "rs-" + side, "sh", "-c",
                           "cat %s/*" % gids, check=False)
            return gid in text
    topology.until(known, "address of rs_" + side)


def devices(side):
    """The devices that a side may use."""
    return [line["dev"] for line in topology.records(side, "devices")]


def shared():
    """Shared: all namespaces may use a device; that of its network device does."""
    topology.netns("up")
    equal(devices("a"), ["rs_a"], "devices of a")
    goes_by_rdma(*pair())


def exclusive_without_devices():
    """Exclusive: only the namespace in which the devices were made may use them."""
    mode("exclusive")
    try:
        topology.netns("up")
        equal(devices("a"), [], "devices of a")
        equal(devices("b"), [], "devices of b")
        watch = Watch()
        stays_tcp(*pair(), (NO_DEVICE, None), watch)
    finally:
        mode("shared")


def exclusive_with_devices():
    """A device works in the namespace to which it was moved."""
    mode("exclusive")
    try:
        topology.netns("up")
        for side in "ab":
            give(side)
            equal(devices(side), ["rs_" + side], "devices of " + side)
        goes_by_rdma(*pair())
    finally:
        mode("shared")


def exclusive_with_one_device():
    """A server without a device does not answer the option."""
    mode("exclusive")
    try:
        topology.netns("up")
        give("a")
        watch = Watch()
        stays_tcp(*pair(), (None, None), watch)
        equal(watch.increase("a", "fallback_clnt"), 1, "fallbacks of a")
    finally:
        mode("shared")


def shared_again():
    """Shared again: connections work as before."""
    topology.netns("up")
    goes_by_rdma(*pair())


def main():
    """Runs all tests."""
    topology.need_module()
    if "netns" not in command("rdma", "system", "show", check=False):
        ktap.skip_all("rdma has no modes")
    atexit.register(command, "rdma", "system", "set", "netns", "shared", check=False)
    return ktap.run([shared, exclusive_without_devices, exclusive_with_devices,
                     exclusive_with_one_device, shared_again])


if __name__ == "__main__":
    sys.exit(main())
