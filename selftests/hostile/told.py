#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What a peer is told of receive elements: no address that says where the kernel keeps its memory.

Covers SMCR-RMB-09, SMCR-RMB-20.
"""

import sys

import scene
from arena import Arena, carries
from ktap import equal

# Elements of an RMB, and more: the group announces another RMB.
CONNECTIONS = 10


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


def cases():
    """All of it."""
    for role in "server", "client":
        yield "%s.addresses" % role, addresses(role)


if __name__ == "__main__":
    sys.exit(scene.run(list(cases())))
