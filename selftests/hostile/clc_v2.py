#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Wrong CLC messages of SMC-Rv2: each field of Proposal and extension, of Accept and Confirm, of their
first-contact parts, and of the GID list. The handshake ends in bounded time, and no other connection is
affected.

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
from peer import GID, connecting, connect_result
from raw import MAC, Listener

RESET, PLAIN = "reset", "tcp 03010000"
UEID = b"HOSTILE".ljust(32)
NO_UEID, NO_MODE = "tcp 03030008", "tcp 03040000"
CONNS, LINKS = "tcp 0303000a", "tcp 0303000b"
ANY = "accept|confirm|link|reset|tcp"
# The valid values, by message.
RELEASE, MOST_CONNS = 1, 255
OFFER = {"gid": GID, "mac": MAC, "later": 0, "earlier": 2, "extension": 28, "eids": 1,
         "release": RELEASE, "gid2": GID, "conns": MOST_CONNS, "links": 1, "eid": UEID}
AGREED = {"eid": UEID, "direct": 0x80, "os": 2, "release": RELEASE, "conns": MOST_CONNS, "links": 1}
LIST = {"gids": 1, "own_gid": GID}


def frame(field, value, size):
    """The outcome of a message with a changed frame; None if the field is not in the frame."""
    if (field, value) == ("type", messages.DECLINE):
        # The message is a Decline then.
        return ANY
    if field in ("eye", "type", "trailer"):
        return RESET
    if field == "length":
        return RESET if value < size or value > 1024 else ANY
    if field == "version":
        # Version 1 defines other messages. The receiver treats versions above 2 as 2.
        return RESET if value == 0 else ANY
    return None


def proposal(field, value):
    """The outcome of a Proposal with a changed field."""
    if field == "eye":
        return PLAIN
    framed = frame(field, value, 156)
    if framed is not None:
        return framed
    if field == "eids":
        # Fewer identifiers than the message has, or more than fit.
        return NO_UEID if value == 0 else RESET
    if field == "eid":
        return NO_UEID
    if field in ("later", "earlier"):
        # We do not support SMC-D. The offset of version 1 networks points to no networks.
        return ANY
    if field in ("extension", "gid2"):
        return ANY
    if field == "conns":
        return "accept" if value >= 16 else CONNS
    if field == "links":
        return "accept" if value else LINKS
    return "accept"


def end_point(field, value):
    """The outcome of a change to the part that Accept and Confirm share; None for another field."""
    if field == "index" and value == 0:
        return RESET
    if field == "mtu" and not 1 <= value <= 5:
        # Every element size that the field can express is valid.
        return "tcp|reset"
    if field in ("gid", "mac", "qpn", "psn", "first", "path", "address"):
        # The error shows on the link, or when our side writes to the element.
        return ANY
    return None


def accept(field, value):
    """The outcome of an Accept with a changed field."""
    wanted = frame(field, value, 160) or end_point(field, value)
    if wanted is not None:
        return wanted
    if field == "eid":
        # The client did not offer this identifier.
        return "tcp|reset"
    if field in ("release", "conns", "links", "direct"):
        # The client did not offer these terms, or cannot meet them, or needs a gateway.
        return ANY
    return "confirm"


def confirm(field, value):
    """The outcome of a Confirm with a changed field."""
    wanted = frame(field, value, 180) or end_point(field, value)
    if wanted is not None:
        return wanted
    if field in ("eid", "release", "conns", "links", "direct", "gids"):
        return ANY
    return "link"


def fields(kind, unchanged):
    """Every field of a message with values other than the valid one."""
    for field, _, _ in messages.CLC2[kind]:
        message = messages.clc(kind, b"\0" * 8, 2, **unchanged)
        values = odd_values(message.width(field), message[field])
        yield field, values[:3] if fixtures.FEW else values


def try_proposal(fixture, changes):
    """Starts a connection of the peer with a changed Proposal; a function that returns the outcome."""
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
    """Starts a connection of the peer with a changed Confirm; a function that returns whether the
    server then sends on the link."""
    conn = fixture.new_peer().new()
    conn.connect(fixture.port)
    conn.clc(PROPOSAL, version=2, **OFFER)
    conn.accepted()
    equal((conn.answer["version"], len(bytes(conn.answer))), (2, 160), "version and length of Accept")
    # An LLC message of SMC-Rv2, which this peer does not answer.
    conn.group.qp.on_message = lambda octets: None
    conn.clc(CONFIRM, changes, version=2, first=1, **conn.end_point(), **AGREED, **LIST)

    def outcome():
        topology.until(lambda: conn.tcp.reset or conn.group.qp.received_count or
                       fixture.arrived(conn), "an end", 25)
        if conn.group.qp.received_count:
            conn.tcp.abort()
            return "link"
        return fixture.outcome_of(conn)
    return outcome


def try_accept(fixture, changes):
    """Starts a connection of ours to a server with a changed Accept; a function that returns whether a
    Confirm follows."""
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
        if connect_result(sock, 25) != "none":
            return RESET
        mode, reason = topology.mode("b", sock)
        return "%s %08x" % (mode, reason)
    return outcome


def matches(got, want):
    """Whether an outcome is one of the permitted ones."""
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
    """Gives our side the identifier of the peer."""
    with topology.inside("b"):
        pathlib.Path("/proc/thread-self/net/rdma_sock/ueids").write_bytes(UEID.rstrip() + b"\n")


def unchanged(fixture, _):
    """Unchanged messages lead to the next step, or the other tests prove nothing."""
    offers()
    for make, want in ((try_proposal, "accept"), (try_confirm, "link"), (try_accept, "confirm")):
        equal(make(fixture, {})(), want, "outcome")


def cut(make, size, want):
    """A truncated message followed by silence ends the handshake in bounded time."""
    def test(fixture, _):
        offers()
        for outcome in [make(fixture, lambda octets, n=n: octets[:n])
                        for n in range(8, size, 64 if fixtures.FEW else 16)]:
            got = outcome()
            equal(got.split()[0] in want, True, "outcome %s" % got)
    return test


def names(count, wanted):
    """A Proposal with several identifiers, of which the last is the common one."""
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
    """All test cases."""
    yield "unchanged", unchanged
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
