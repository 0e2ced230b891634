#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Elements that begin with an eye catcher, as RFC 7609 defines them. The peer announces its own in
CONFIRM LINK by an absent flag. Data begin after the eye catcher on both sides, and a peer that destroys
ours loses the connection.

Covers SMCR-RMB-10, RMB-12..16, CDC-07, CDC-57, DEP-1, TST-133.
"""

import sys

import baseline
import fixtures
import topology
from hostile_peer import HostilePeer, expect_data, expect_error
from ktap import equal
from messages import BLOCKED
from peer import EYE_CATCHER

BYTES = 4
DESTROYED = "violation_eye_catcher_destroyed"


def expect_untouched(peer):
    """Fails unless the eye catchers of the peer are intact."""
    for conn in peer.connections:
        equal(bytes(conn.memory.octets[:BYTES]), EYE_CATCHER, "eye catcher of the peer")


def carried(role):
    """Two connections of a link carry several elements of data both ways."""
    def test(fixture, peer):
        peer.origin = BYTES
        role(fixture, peer)
        equal(len(peer.connections), 2, "connections")
        expect_untouched(peer)
        fixture.expect_counters(**{DESTROYED: 0})
    return test


def full(role):
    """A writer can fill all of an element but the eye catcher before the reader reads."""
    def test(fixture, _):
        hostile = HostilePeer(fixture, role, BYTES)
        conn, sock = hostile.connection()
        for number in range(3):
            data = topology.known("full %d" % number, conn.size() - BYTES)
            conn.write(data, producer_flags=BLOCKED)
            equal(topology.receive(sock, len(data)) == data, True, "a full element")
            conn.host.wait(lambda: conn.position(conn.consumed) == conn.sent, "it is consumed")
        expect_data(conn, sock)
        expect_untouched(hostile.peer)
        sock.close()
    return test


def destroyed(role, offset, size):
    """A connection whose peer overwrites the eye catcher is reset at its next message. The other
    connection on the link is not."""
    def test(fixture, _):
        hostile = HostilePeer(fixture, role, BYTES)
        conn, sock = hostile.connection()
        second = hostile.connection()
        expect_data(conn, sock)
        conn.group.qp.write(conn.base() + offset, conn.theirs["rkey"], bytes(size))
        conn.write(b"never to be seen")
        expect_error(sock)
        expect_data(*second)
        fixture.expect_counters(**{DESTROYED: 1})
        for end in sock, second[1]:
            end.close()
        # The next connection with this element finds an eye catcher again.
        another, last = hostile.connection()
        expect_data(another, last)
        last.close()
    return test


def cases():
    """All test cases."""
    for name, role in ("server", baseline.client), ("client", baseline.server):
        yield "%s.carried" % name, carried(role)
        yield "%s.full" % name, full(name)
        for offset, size in (0, BYTES), (0, 1), (BYTES - 1, 1):
            yield "%s.destroyed_%d_%d" % (name, offset, size), destroyed(name, offset, size)


if __name__ == "__main__":
    sys.exit(fixtures.run(list(cases())))
