#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""CLC messages of SMC-Rv2 that are wrong: each field of the Proposal with its extension, of Accept and
Confirm, of what both add on first contact, and of the list of GIDs. The handshake ends in bounded time,
as far as it should, and nobody else's connection notices.

Covers SMCR-CLC-06, CLC-07, CLC-08, CLC-11.
"""

import pathlib
import sys

import fixtures
import messages
import topology
from clc import fits
from ktap import equal
from messages import ACCEPT, CONFIRM, PROPOSAL, odd_values
from peer import GID, connecting, settled
from raw import MAC, Listener

RESET, PLAIN = "reset", "tcp 03010000"
UEID = b"HOSTILE".ljust(32)
NO_UEID, NO_MODE = "tcp 03030008", "tcp 03040000"
CONNS, LINKS = "tcp 0303000a", "tcp 0303000b"
ANY = "accept|confirm|link|reset|tcp"
# The honest values, by kind.
RELEASE, MOST_CONNS = 1, 255
OFFER = {"gid": GID, "mac": MAC, "later": 0, "earlier": 2, "extension": 28, "eids": 1,
         "release": RELEASE, "gid2": GID, "conns": MOST_CONNS, "links": 1, "eid": UEID}
AGREED = {"eid": UEID, "direct": 0x80, "os": 2, "release": RELEASE, "conns": MOST_CONNS, "links": 1}
LIST = {"gids": 1, "own_gid": GID}


def frame(field, value, size):
    """What becomes of a message whose frame is changed; None if the field is no part of it."""
    if (field, value) == ("type", messages.DECLINE):
        # It is one, then.
        return ANY
    if field in ("eye", "type", "trailer"):
        return RESET
    if field == "length":
        return RESET if value < size or value > 1024 else ANY
    if field == "version":
        # Version 1 has other messages, and what is beyond the second is read as that.
        return RESET if value == 0 else ANY
    return None


def proposal(field, value):
    """What a Proposal with that field leads to."""
    if field == "eye":
        return PLAIN
    framed = frame(field, value, 156)
    if framed is not None:
        return framed
    if field == "eids":
        # Fewer names than there are, or more than fit.
        return NO_UEID if value == 0 else RESET
    if field == "eid":
        return NO_UEID
    if field in ("later", "earlier"):
        # SMC-D is not ours; networks of version 1 would be where there are none.
        return ANY
    if field in ("extension", "gid2"):
        return ANY
    if field == "conns":
        return "accept" if value >= 16 else CONNS
    if field == "links":
        return "accept" if value else LINKS
    return "accept"


def end_point(field, value):
    """What is the same in Accept and Confirm; None if it is something else."""
    if field == "index" and value == 0:
        return RESET
    if field == "mtu" and not 1 <= value <= 5:
        # Elements may have any size that can be said.
        return "tcp|reset"
    if field in ("gid", "mac", "qpn", "psn", "first", "path", "address"):
        # What is wrong shows on the link, or when there is somebody to write to it.
        return ANY
    return None


def accept(field, value):
    """What an Accept with that field leads to."""
    wanted = frame(field, value, 160) or end_point(field, value)
    if wanted is not None:
        return wanted
    if field == "eid":
        # A name that was not offered.
        return "tcp|reset"
    if field in ("release", "conns", "links", "direct"):
        # Terms that were not offered, or that nobody can live with, or through a gateway.
        return ANY
    return "confirm"


def confirm(field, value):
    """What a Confirm with that field leads to."""
    wanted = frame(field, value, 180) or end_point(field, value)
    if wanted is not None:
        return wanted
    if field in ("eid", "release", "conns", "links", "direct", "gids"):
        return ANY
    return "link"


def fields(kind, honest):
    """Every field of a message with the values that are not the honest ones."""
    for field, _, _ in messages.CLC2[kind]:
        message = messages.clc(kind, b"\0" * 8, 2, **honest)
        values = odd_values(message.width(field), message[field])
        yield field, values[:3] if fixtures.FEW else values


def try_proposal(fixture, changes):
    """A connection of the peer that begins with that Proposal."""
    conn = fixture.new_peer().new()
    conn.connect(fixture.port)
    conn.clc(PROPOSAL, changes, version=2, **OFFER)

    def outcome():
        topology.until(lambda: conn.tcp.reset or len(conn.tcp.data) >= 28 or fixture.arrived(conn),
                       "an answer", 25)
        if len(conn.tcp.data) >= 28 and conn.tcp.data[4] == ACCEPT:
            return "accept"
        return fixture.outcome_of(conn)
    return outcome


def try_confirm(fixture, changes):
    """A connection of the peer that goes on to that Confirm: whether the server then speaks on the link."""
    conn = fixture.new_peer().new()
    conn.connect(fixture.port)
    conn.clc(PROPOSAL, version=2, **OFFER)
    conn.accepted()
    equal((conn.answer["version"], len(bytes(conn.answer))), (2, 160), "version and length of Accept")
    # It is of SMC-Rv2, and nobody answers it.
    conn.group.qp.on_message = lambda octets: None
    conn.clc(CONFIRM, changes, version=2, first=1, **conn.end_point(), **AGREED, **LIST)

    def outcome():
        topology.until(lambda: conn.tcp.reset or conn.group.qp.heard or fixture.arrived(conn), "an end", 25)
        if conn.group.qp.heard:
            conn.tcp.abort()
            return "link"
        return fixture.outcome_of(conn)
    return outcome


def try_accept(fixture, changes):
    """A connection of ours to a server that answers by that Accept: whether a Confirm follows."""
    conn, listener = fixture.new_peer().new(), Listener(fixture.host)
    sock = connecting(listener.address())
    fixture.accepted[listener.port] = sock
    conn.proposed(listener)
    equal(conn.answer["version"], 2, "version of the Proposal")
    conn.use(None)
    conn.clc(ACCEPT, changes, version=2, first=1, **conn.end_point(), **AGREED)

    def outcome():
        def answered():
            return conn.tcp.reset or conn.tcp.fin or len(conn.tcp.data) >= 28
        fixture.host.wait(answered, "an answer", 30)
        if len(conn.tcp.data) >= 68 and conn.tcp.data[4] == CONFIRM:
            conn.tcp.abort()
            return "confirm"
        if settled(sock, 25) != "none":
            return RESET
        mode, reason = topology.mode("b", sock)
        return "%s %08x" % (mode, reason)
    return outcome


def matches(got, want):
    """Whether what happened is one of what may happen."""
    return any(fits(got, word) for word in want.split("|"))


def each_value(make, expect, field, values):
    """Tries all values at the same time."""
    def test(fixture, _):
        offers()
        tries = [(value, make(fixture, {field: value})) for value in values]
        wrong = []
        for value, outcome in tries:
            got, want = outcome(), expect(field, value)
            if not matches(got, want):
                wrong.append("%s %#x: %s, not %s" % (field, value, got, want))
        equal(wrong, [], "outcomes (%s)" % fixture.difference())
    return test


def offers():
    """Our side has a name in common with the peer."""
    with topology.inside("b"):
        pathlib.Path("/proc/thread-self/net/rdma_sock/ueids").write_bytes(UEID.rstrip() + b"\n")


def honest(fixture, _):
    """Nothing is changed: each step is followed by the next, or the rest of this proves nothing."""
    offers()
    for make, want in ((try_proposal, "accept"), (try_confirm, "link"), (try_accept, "confirm")):
        equal(make(fixture, {})(), want, "outcome")


def cut(make, size, want):
    """A message that ends anywhere, and nothing more comes: nobody waits for ever."""
    def test(fixture, _):
        offers()
        for outcome in [make(fixture, lambda octets, n=n: octets[:n])
                        for n in range(8, size, 64 if fixtures.FEW else 16)]:
            got = outcome()
            equal(got.split()[0] in want, True, "outcome %s" % got)
    return test


def names(count, wanted):
    """A Proposal with so many names, of which the last is the common one."""
    def test(fixture, _):
        offers()
        others = b"".join((b"NAME%d" % n).ljust(32) for n in range(count - 1))

        def longer(octets):
            octets = bytearray(octets[:120] + others + octets[120:])
            octets[80] = count
            octets[5:7] = len(octets).to_bytes(2, "big")
            return bytes(octets)
        equal(matches(try_proposal(fixture, longer)(), wanted), True, "outcome of %d names" % count)
    return test


def cases():
    """All of it."""
    yield "honest", honest
    for name, kind, make, expect, values in (
            ("proposal", PROPOSAL, try_proposal, proposal, OFFER),
            ("accept", ACCEPT, try_accept, accept, AGREED),
            ("confirm", CONFIRM, try_confirm, confirm, {**AGREED, **LIST})):
        for field, odd in fields(kind, values):
            yield "%s.%s" % (name, field), each_value(make, expect, field, odd)
    yield "proposal.cut", cut(try_proposal, 156, (RESET,))
    yield "confirm.cut", cut(try_confirm, 180, (RESET,))
    yield "accept.cut", cut(try_accept, 160, (RESET,))
    for count, wanted in ((2, "accept"), (8, "accept"), (9, RESET), (20, RESET)):
        yield "names.%d" % count, names(count, wanted)


if __name__ == "__main__":
    sys.exit(fixtures.run(list(cases())))
