#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""RDMA devices and network namespaces: shared by all, the default, or each in one namespace only."""

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
    """Sets the mode; there must be no namespace."""
    topology.netns("down")
    topology.until(lambda: not [name for name in os.listdir("/sys/class/infiniband")
                                if name.startswith("rs_")], "devices are left")
    done = []

    def works():
        done[:] = [command("rdma", "system", "set", "netns", word, check=False)]
        return done[0] == ""
    # A namespace that was deleted goes a little later.
    topology.until(works, "mode %s" % word)


def give(side):
    """The device of a side goes to the namespace of that side, with its addresses."""
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
    """What a side can use."""
    return [line["dev"] for line in topology.records(side, "devices")]


def shared():
    """All namespaces may use a device; the one its network device is in does."""
    topology.netns("up")
    equal(devices("a"), ["rs_a"], "devices of a")
    goes_by_rdma(*pair())


def exclusive_without_devices():
    """The devices are in the namespace where they were made: nobody else may use them."""
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
    """A device works in the namespace it was given to."""
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
    """The server has none: it does not answer the option."""
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
    """Back in the first mode all is as before."""
    topology.netns("up")
    goes_by_rdma(*pair())


def main():
    """All tests."""
    topology.need_module()
    if "netns" not in command("rdma", "system", "show", check=False):
        ktap.skip_all("rdma has no modes")
    atexit.register(command, "rdma", "system", "set", "netns", "shared", check=False)
    return ktap.run([shared, exclusive_without_devices, exclusive_with_devices,
                     exclusive_with_one_device, shared_again])


if __name__ == "__main__":
    sys.exit(main())
