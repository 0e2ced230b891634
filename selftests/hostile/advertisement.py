#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""MTUs and addresses in handshakes: the MTU is current, and no address says where the kernel keeps its
memory.

Covers SMCR-RMB-09, SMCR-RMB-20.
"""

import sys

import fixtures
import topology
from hostile_peer import HostilePeer, expect_data
from ktap import equal

# Elements of an RMB, and more: the group announces another RMB.
CONNECTIONS = 10
# MTU of the network device, and the code of the largest RDMA packet that fits.
MTUS = ((4200, 5), (2200, 4), (1500, 3))


def addresses(role):
    """Accept, Confirm and CONFIRM RKEY give each RMB from 0 on, and data land in the right one."""
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
    """A changed MTU causes no event of the device: the next handshake has it nevertheless."""
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
    """All of it."""
    for role in "server", "client":
        yield "%s.addresses" % role, addresses(role)
    yield "mtu", mtu


if __name__ == "__main__":
    sys.exit(fixtures.run(list(cases())))
