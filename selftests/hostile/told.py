#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""MTUs and addresses in handshakes: the MTU is current, and no address says where the kernel keeps its
memory.

Covers SMCR-RMB-09, SMCR-RMB-20.
"""

import sys

import lab
import scene
from arena import Arena, carries
from ktap import equal

# Elements of an RMB, and more: the group announces another RMB.
CONNECTIONS = 10
# MTU of the network device, and the code of the largest RDMA packet that fits.
MTUS = ((4200, 5), (2200, 4), (1500, 3))


def addresses(role):
    """Accept, Confirm and CONFIRM RKEY give each RMB from 0 on, and data land in the right one."""
    def test(stage, _):
        arena = Arena(stage, role)
        ends = [arena.connection() for _ in range(CONNECTIONS)]
        told = {conn.theirs["rkey"]: conn.theirs["address"] for conn, _ in ends}
        told.update(arena.group.their_rmbs)
        equal(len(told) > 1, True, "several RMBs")
        equal(set(told.values()), {0}, "addresses")
        for conn, sock in ends:
            carries(conn, sock)
        for _, sock in ends:
            sock.close()
    return test


def mtu(stage, _):
    """A changed MTU causes no event of the device: the next handshake has it nevertheless."""
    found = []
    for size, _ in MTUS:
        lab.command("ip", "-n", "rs-b", "link", "set", "vb", "mtu", str(size))
        conn = stage.another_peer().new()
        conn.connect(stage.port)
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
    sys.exit(scene.run(list(cases())))
