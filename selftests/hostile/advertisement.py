#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The MTU and the RMB addresses that handshakes advertise: the MTU is current, and no address reveals
where the kernel keeps its memory.

Covers SMCR-RMB-09, SMCR-RMB-20.
"""

import sys

import fixtures
import topology
from hostile_peer import HostilePeer, expect_data
from ktap import equal

# More connections than an RMB has elements, so that the group advertises a second RMB.
CONNECTIONS = 10
# MTU of the network device, and the code of the largest RDMA packet that fits.
MTUS = ((4200, 5), (2200, 4), (1500, 3))


def addresses(role):
    """Accept, Confirm and CONFIRM RKEY give each RMB the address 0, and data arrive in the right
    RMB."""
    def test(fixture, _):
        hostile = HostilePeer(fixture, role)
        ends = [hostile.connection() for _ in range(CONNECTIONS)]
        told = {conn.theirs["rkey"]: conn.theirs["address"] for conn, _ in ends}
        told.update(hostile.group.their_rmbs)
        equal(len(told) > 1, True, "several RMBs")
        equal(set(told.values()), {0}, "addresses")
        for conn, sock in ends:
            expect_data(conn, sock)
        for _, sock in ends:
            sock.close()
    return test


def mtu(fixture, _):
    """A changed MTU, which causes no event of the device, is in the next handshake."""
    found = []
    for size, _ in MTUS:
        topology.command("ip", "-n", "rs-b", "link", "set", "vb", "mtu", str(size))
        conn = fixture.new_peer().new()
        conn.connect(fixture.port)
        conn.propose()
        conn.accepted()
        found.append((size, conn.theirs["mtu"]))
        conn.drop()
    equal(tuple(found), MTUS, "MTUs")


def cases():
    """All test cases."""
    for role in "server", "client":
        yield "%s.addresses" % role, addresses(role)
    yield "mtu", mtu


if __name__ == "__main__":
    sys.exit(fixtures.run(list(cases())))
