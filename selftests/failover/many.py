#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Link groups with more than two links, as many as both sides permit (SMCR-LGR-10, SMCR-LGR-11,
SMCR-LLF-20, SMCR-FOV-01..04)."""

import sys

import testbed
import topology
from ktap import equal
from testbed import (allow, await_gone, await_links, close, device_of, hosts, links, one_pair, remove, wires,
                 Load)
from topology import exchange

ALL = [side + number for number in "1234" for side in "ab"]


def many(here, there, *devices):
    """A connection of hosts with these devices, which permit `here` and `there` links."""
    hosts(*devices)
    allow("a", here)
    allow("b", there)
    return one_pair()


def four_links():
    """Each pair of ports gets a link, and each link a share of the connections."""
    ends = [many(8, 4, *ALL)]
    await_links(*ALL)
    for side in "ab":
        lines = links(side)
        equal(len({line["link"] for line in lines}), 4, "numbers of links")
        equal({line["type"] for line in lines}, {"symmetric"}, "type")
    ends += [one_pair() for _ in range(7)]
    for side in "ab":
        shares = sorted(int(line["conns"]) for line in links(side))
        equal(shares, [2, 2, 2, 2], "connections by link of " + side)
    close(*ends)


def the_smaller_number_counts():
    """Three permitted links on one side and more on the other give three."""
    for here, there in (3, 8), (4, 3):
        ends = many(here, there, *ALL)
        testbed.await_that(lambda: all(len(links(side)) == 3 for side in "ab"), "three links")
        # More links would have come with these devices.
        exchange(*ends)
        equal([len(links(side)) for side in "ab"], [3, 3], "links")
        close(ends)


def one_is_enough():
    """A side that permits one link gets one, whatever its ports."""
    for here, there in (1, 2), (2, 1):
        ends = many(here, there, "a1", "a2", "b1", "b2")
        for side in "ab":
            equal([device_of(line) for line in links(side)], [side + "1"], "links of " + side)
            equal(len(topology.records(side, "links")), 1, "links being made at " + side)
        close(ends)


def several_go_under_load():
    """Devices of both sides go at once until one link is left, and return."""
    hosts(*ALL)
    allow("a", 4)
    allow("b", 4)
    with Load(8) as load:
        await_links(*ALL)
        peers = {device_of(line): line["link"] for line in links("b")}
        link_of = {device_of(line): line["link"] for line in links("a")}
        # One device of a, and two of b on other links.
        gone = ["a2"] + [device for device, link in sorted(peers.items())
                         if link not in (link_of["a2"], link_of["a1"])]
        equal(len(gone), 3, "devices to remove")
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
    sys.exit(testbed.main([four_links, the_smaller_number_counts, one_is_enough,
                           several_go_under_load]))
