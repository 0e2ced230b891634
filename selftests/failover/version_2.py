#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Link groups of SMC-Rv2 with several links, whose keys are in messages of more than 44 octets
(SMCR-LLF-10, SMCR-LLF-20, SMCR-LLF-24, SMCR-FOV-01..06, SMCR-RMB-20)."""

import sys

import testbed
import topology
from ktap import equal
from testbed import (allow, await_gone, await_links, close, device_of, hosts, links, one_pair, remove, wires,
                 Load)
from topology import exchange

ALL = [side + number for number in "1234" for side in "ab"]
FEW = ["a1", "b1", "a2", "b2"]


def version_2(*devices, most=2):
    """Makes hosts with a common enterprise identifier."""
    hosts(*devices)
    topology.name_both()
    for side in "ab":
        allow(side, most)


def are_second():
    """Fails unless all links are of version 2."""
    for side in "ab":
        equal({line["version"] for line in links(side)}, {"2"}, "version at " + side)


def two_links():
    """First contact adds the second link."""
    version_2(*FEW)
    ends = [one_pair()]
    await_links(*FEW)
    are_second()
    ends += [one_pair() for _ in range(5)]
    for side in "ab":
        shares = [int(line["conns"]) for line in links(side)]
        equal(shares, [3, 3], "connections by link of " + side)
        equal({line["type"] for line in links(side)}, {"symmetric"}, "type")
    close(*ends)


def one_device_at_a_side():
    """Both links end at the same port of one side."""
    for devices in ("a1", "b1", "b2"), ("a1", "a2", "b1"):
        version_2(*devices)
        ends = one_pair()
        testbed.await_that(lambda: all(len(links(side)) == 2 for side in "ab"), "two links")
        are_second()
        close(ends)


def no_other_device():
    """A failed attempt to add a link leaves the first one usable."""
    version_2("a1", "b1")
    ends = one_pair()
    await_links("a1", "b1")
    are_second()
    close(ends)


def one_link_is_agreed_on():
    """A side that permits one link gets one."""
    version_2(*FEW)
    allow("a", 1)
    ends = one_pair()
    await_links("a1", "b1")
    are_second()
    close(ends)


def later_link_knows_all_buffers():
    """A later link gets the keys of every buffer: each connection continues on it alone."""
    version_2("a1", "b1")
    ends = [one_pair(16384 << step) for step in range(5)]
    await_links("a1", "b1")
    wires("add", "a2")
    wires("add", "b2")
    await_links(*FEW)
    are_second()
    for side in "ab":
        equal(min(int(line["rmbs"]) for line in links(side)) >= 4, True, "buffers of " + side)
    for device in "a1", "b1":
        remove(device)
        await_gone(device)
    for client, server in ends:
        exchange(client, server)
        exchange(server, client)
    close(*ends)


def devices_go_under_load():
    """Two of four links end, and return."""
    version_2(*ALL, most=4)
    with Load(8) as load:
        await_links(*ALL)
        are_second()
        link_of = {device_of(line): line["link"] for line in links("a")}
        others = [device_of(line) for line in links("b")
                  if line["link"] not in (link_of["a1"], link_of["a2"])]
        gone = ["a2", others[0]]
        for device in gone:
            remove(device)
        for device in gone:
            await_gone(device)
        load.flows("data with what is left")
        for device in gone:
            wires("add", device)
        await_links(*ALL)
        load.flows("data with all links")


if __name__ == "__main__":
    sys.exit(testbed.main([two_links, one_device_at_a_side, no_other_device, one_link_is_agreed_on,
                           later_link_knows_all_buffers, devices_go_under_load]))
