#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Links of a group come up, are shared by connections, and come back (SMCR-LGR-02, SMCR-LGR-04,
SMCR-LGR-07, SMCR-LLF-10, SMCR-LLF-13, SMCR-LLF-14, SMCR-LLF-20, SMCR-LLF-24, SMCR-FOV-01..03,
SMCR-LNK-01, SMCR-RMB-20)."""

import sys

import testbed
from ktap import equal
from testbed import (await_gone, await_links, await_that, close, device_of, hosts, links, one_pair, remove,
                 used, wires, Load)


def symmetric():
    """TST-004, LNK-03: two devices on both sides give two links with numbers of their own."""
    hosts()
    ends = one_pair()
    await_links("a1", "a2", "b1", "b2")
    for side in "ab":
        lines = links(side)
        equal(len({line["lgr"] for line in lines}), 1, "link groups")
        equal(len({line["link"] for line in lines}), 2, "numbers of links")
        equal(len({line["uid"] for line in lines}), 2, "names of links")
        equal({line["type"] for line in lines}, {"symmetric"}, "type")
    # Both sides use the same numbers.
    numbers = {device_of(line): line["link"] for side in "ab" for line in links(side)}
    for device in "12":
        equal(numbers["a" + device], numbers["b" + device], "number")
    close(ends)


def single():
    """TST-005: one device on both sides gives one link, and connections work."""
    hosts("a1", "b1")
    ends = one_pair()
    await_links("a1", "b1")
    equal(links("a")[0]["type"], "single", "type")
    close(ends)


def asymmetric(*devices):
    """One side has a single device, on which both links end."""
    hosts(*devices)
    ends = one_pair()
    await_that(lambda: all(len(links(side)) == 2 for side in "ab"), "two links")
    equal({links(side)[0]["type"] for side in "ab"}, {"asymmetric-local", "asymmetric-peer"}, "type")
    more = [one_pair() for _ in range(3)]
    for side in "ab":
        equal({int(line["conns"]) for line in links(side)}, {2}, "connections by link of " + side)
    close(ends, *more)


def asymmetric_at_the_client():
    """TST-006: the client has one device."""
    asymmetric("a1", "b1", "b2")


def asymmetric_at_the_server():
    """TST-007: the server has one device."""
    asymmetric("a1", "a2", "b1")


def connections_share_the_links():
    """New connections and the traffic are balanced over the links."""
    hosts()
    ends = [one_pair()]
    await_links("a1", "a2", "b1", "b2")
    ends += [one_pair() for _ in range(7)]
    for side in "ab":
        shares = [int(line["conns"]) for line in links(side)]
        equal(sorted(shares), [4, 4], "connections by link of " + side)
        equal(all(int(line["write_bytes"]) > 0 for line in links(side)), True, "traffic")
    close(*ends)


def await_both_used():
    """Waits until connections of both sides write by two devices. A connection moves when all its data
    are acknowledged."""
    await_that(lambda: all(len(set(used(side))) == 2 for side in "ab"), "two devices in use")


def second_device_arrives_at_the_server():
    """SMCR-LLF-20, TST-131: the server adds a link by itself, in place of a missing one, under load
    that then uses both links."""
    hosts("a1", "b1")
    with Load() as load:
        await_links("a1", "b1")
        wires("add", "a2")
        wires("add", "b2")
        await_links("a1", "a2", "b1", "b2")
        load.flows("data with two links")
        await_both_used()


def recovery():
    """A returned device gets its link back, which carries connections again."""
    hosts()
    with Load() as load:
        await_links("a1", "a2", "b1", "b2")
        remove("a2")
        await_gone("a2")
        load.flows("data without the device")
        equal(set(used("a")), {"a1"}, "devices in use")
        wires("add", "a2")
        await_links("a1", "a2", "b1", "b2")
        load.flows("data with two links")
        await_both_used()


if __name__ == "__main__":
    sys.exit(testbed.main([symmetric, single, asymmetric_at_the_client, asymmetric_at_the_server,
                           connections_share_the_links, second_device_arrives_at_the_server, recovery]))
