#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Wrong CLC messages: each field out of its range, truncated, late, repeated, out of order. The
handshake ends as the protocol defines, and no other connection is affected.

Covers SMCR-CLC-06, CLC-07, CLC-08, CLC-11, CLC-410, CLC-413, CLC-08, ERR-44, TST-109, TST-110, FBK-08,
FBK-10, FBK-15, FBK-16.
"""

import sys

import fixtures
import messages
import topology
from ktap import equal
from messages import ACCEPT, CONFIRM, DECLINE, PROPOSAL, odd_values
from peer import connecting, connect_result
from raw import Listener

RESET = "reset"
BROKEN, LATE, ENDED = 0x7f000003, 0x7f000005, 0x7f000006
PREFIX, CONFIGURATION, PLAIN = "tcp 03070000", "tcp 03000000", "tcp 03010000"
SIZES = {PROPOSAL: 52, ACCEPT: 68, CONFIRM: 68, DECLINE: 28}


def framing(field, value, size, longer):
    """The outcome of a message with a changed frame; None if the field is not in the frame.

    Versions above 1 are tested with the negotiation.
    """
    if field in ("eye", "type", "trailer") or (field, value) == ("version", 0):
        return RESET
    if field == "length":
        # The receiver waits for the octets of a longer message, but not beyond the longest message.
        return RESET if value < size or value > 1024 else longer
    return None


def proposal(field, value):
    """The outcome of a Proposal with a changed field: the first word of the answer."""
    if field == "eye":
        # A client with another first word does not know SMC: TCP-18, FBK-03.
        return PLAIN
    frame = framing(field, value, 52, RESET)
    if frame is not None:
        return frame
    if field in ("offset", "prefixes"):
        return RESET
    if field == "mask":
        return RESET if value > 32 else PREFIX
    if field == "net":
        return PREFIX
    return "accept"


def confirm(field, value):
    """The outcome of a Confirm with a changed field."""
    frame = framing(field, value, 68, RESET)
    if frame is not None:
        return frame
    if field == "index" and value == 0:
        return RESET
    if field == "mtu" and not 1 <= value <= 5:
        return CONFIGURATION
    if field in ("gid", "qpn"):
        # The server's CONFIRM LINK does not arrive: FBK-08.
        return "tcp"
    if field == "mac":
        # The client's CONFIRM LINK is wrong. The server may decline (CLC-413) only before it knows
        # that its own has arrived.
        return RESET + "|tcp 7f000004"
    if field == "psn":
        # The client's CONFIRM LINK does not arrive: FBK-16.
        return RESET
    if field == "address":
        # An element must end before the address space does.
        return RESET if value + 16384 >= 1 << 64 else "smc"
    return "smc"


def accept(field, value):
    """The outcome of an Accept with a changed field."""
    if field == "first":
        # No link has this number.
        return "tcp 04000000"
    if field in ("mac", "qpn"):
        # The server's CONFIRM LINK is wrong: FBK-10.
        return "tcp"
    if field in ("gid", "psn"):
        # It does not arrive: FBK-16.
        return RESET
    return confirm(field, value)


def fields(kind):
    """Every field of a message with values other than the valid one."""
    for field, _, _ in messages.CLC[kind]:
        message = messages.clc(kind, b"\0" * 8)
        width = message.width(field)
        valid = {"mask": 24, "mtu": 3, "index": 1, "first": int(kind == ACCEPT)}.get(
            field, message[field])
        values = odd_values(width, valid)
        # Later versions define other messages.
        if field == "version":
            values = [0]
        yield field, values[:3] if fixtures.FEW else values


def fits(got, want):
    """Whether an outcome is the expected one."""
    return got in want.split("|") or want == "tcp" and got.startswith("tcp")


def each_value(make, expect, field, values):
    """Tries all values at the same time."""
    def test(fixture, _):
        tries = []
        for value in values:
            conn, outcome = make(fixture, {field: value})
            tries.append((value, conn, outcome))
        wrong = []
        for value, _, outcome in tries:
            got, want = outcome(), expect(field, value)
            if not fits(got, want):
                wrong.append("%s %#x: %s, not %s" % (field, value, got, want))
        equal(wrong, [], "outcomes (%s)" % fixture.difference())
    return test


def try_proposal(fixture, changes):
    """Starts a connection of the peer with a changed Proposal; a function that returns the outcome."""
    # A new stack makes each connection a first contact.
    conn = fixture.new_peer().new()
    conn.connect(fixture.port)
    conn.propose(changes)

    def outcome():
        topology.until(lambda: conn.tcp.reset or len(conn.tcp.data) >= 28 or fixture.arrived(conn),
                       "an answer", 25)
        if len(conn.tcp.data) >= 28 and conn.tcp.data[4] == ACCEPT:
            return "accept"
        return fixture.outcome_of(conn)
    return conn, outcome


def try_confirm(fixture, changes):
    """Starts a connection of the peer with a changed Confirm; a function that returns the outcome."""
    conn = fixture.new_peer().new()
    conn.connect(fixture.port)
    conn.propose()
    conn.accepted()
    conn.group.easy = True
    conn.confirm(changes)
    return conn, lambda: fixture.outcome_of(conn)


def try_accept(fixture, changes):
    """Starts a connection of ours to a server with a changed Accept; a function that returns the
    outcome."""
    conn, listener = fixture.new_peer().new(), Listener(fixture.host)
    sock = connecting(listener.address())
    fixture.accepted[listener.port] = sock
    conn.proposed(listener)
    conn.accept(changes)
    conn.group.easy = True

    def outcome():
        def answered():
            return conn.tcp.reset or conn.tcp.fin or len(conn.tcp.data) >= 28
        fixture.host.wait(answered, "an answer", 15)
        if len(conn.tcp.data) >= 68 and conn.tcp.data[4] == CONFIRM:
            conn.confirmed()
            conn.group.confirm_link(False)
        error = connect_result(sock, 25)
        if error != "none":
            return "reset"
        mode, reason = topology.mode("b", sock)
        return mode if mode == "smc" else "%s %08x" % (mode, reason)
    return conn, outcome


def cut(kind):
    """A truncated message, followed by the end of the TCP connection or by silence, ends the
    handshake."""
    def test(fixture, _):
        tries, said = [], 0
        for length in range(0, SIZES[kind], 16 if fixtures.FEW else 5):
            for ends in (True, False):
                make = try_proposal if kind == PROPOSAL else try_confirm
                conn, outcome = make(fixture, lambda octets, n=length: octets[:n])
                if ends:
                    conn.tcp.close()
                    if kind == CONFIRM:
                        # The groups in first contact of a peer are limited.
                        fixture.host.wait(lambda conn=conn: conn.tcp.reset, "reset")
                # A client whose message does not begin as CLC has no SMC, and may be silent.
                plain = kind == PROPOSAL and length < 4
                tries.append((length, outcome, ("tcp", RESET) if plain else (RESET,)))
                said += not plain
        for length, outcome, want in tries:
            equal(outcome().split()[0] in want, True, "outcome after %d octets" % length)
        ended, late = "aborted_reason_%08x" % ENDED, "aborted_reason_%08x" % LATE
        topology.until(lambda: fixture.increase(ended) + fixture.increase(late) >= said, "reasons", 20)
    return test


def drop_by_drop(fixture, peer):
    """Messages that arrive octet by octet are the same messages."""
    conn = peer.new()
    conn.connect(fixture.port)
    conn.propose(lambda octets: [octets[at:at + 1] for at in range(len(octets))])
    conn.accepted()
    conn.confirm(lambda octets: [octets[at:at + 1] for at in range(len(octets))])
    conn.linked()
    equal(fixture.outcome_of(conn), "smc", "outcome")


def out_of_order(sequence, want, reason=BROKEN):
    """CLC messages out of order end the handshake. The last one is the wrong one."""
    def test(fixture, peer):
        conn = peer.new()
        conn.connect(fixture.port)
        for step in sequence:
            step(conn)
        got = fixture.outcome_of(conn)
        equal(fits(got, want), True, "outcome %s" % got)
        if got == RESET:
            fixture.expect_counters(aborted_srv=1, **{"aborted_reason_%08x" % reason: 1})
    return test


def message_of(kind):
    """A message of a kind, with plausible contents."""
    def step(conn):
        if conn.group is None:
            conn.use(None)
        conn.clc(kind, **({} if kind == DECLINE else conn.end_point()))
    return step


def client_out_of_order(fixture, _):
    """A server that sends a Proposal, a Confirm, a second Accept or data ends the handshake."""
    tries = []
    for kinds in ((PROPOSAL,), (CONFIRM,), (ACCEPT, ACCEPT), (ACCEPT, PROPOSAL), (ACCEPT, CONFIRM),
                  (None,), (ACCEPT, None)):
        conn, listener = fixture.new_peer().new(), Listener(fixture.host)
        sock = connecting(listener.address())
        fixture.accepted[listener.port] = sock
        conn.proposed(listener)
        conn.use(None)
        for kind in kinds:
            if kind is None:
                conn.tcp.write(b"no word of CLC, and longer than its header")
            elif kind == PROPOSAL:
                conn.propose()
            else:
                conn.clc(kind, first=1, **conn.end_point())
        tries.append((kinds, sock))
    for kinds, sock in tries:
        equal(connect_result(sock), "ECONNABORTED", "error of connect after %s" % (kinds,))
    fixture.expect_counters(aborted_clnt=len(tries), **{"aborted_reason_%08x" % BROKEN: len(tries)})


def declined_anywhere(fixture, _):
    """A Decline is valid at each step: both sides continue by TCP."""
    def settle(conn, steps):
        conn.connect(fixture.port)
        for step in steps:
            step(conn)
        conn.decline(diagnosis=0x03030000)
        equal(fixture.outcome_of(conn), "tcp 03030000", "outcome")
        conn.tcp.data.clear()
        conn.tcp.write(b"by TCP")
        sock = fixture.arrived(conn)
        equal(topology.receive(sock, 6), b"by TCP", "data")
        sock.sendall(b"by TCP, too")
        equal(conn.tcp.read(11), b"by TCP, too", "data back")

    def go_on(conn):
        conn.accepted()
        conn.confirm()
    for steps in ([], [lambda conn: conn.propose(), lambda conn: conn.accepted()],
                  [lambda conn: conn.propose(), go_on],
                  [lambda conn: conn.propose(), go_on,
                   lambda conn: conn.group.receive_llc(messages.CONFIRM_LINK, 0)]):
        settle(fixture.new_peer().new(), steps)
    fixture.expect_counters(fallback_srv=4, fallback_reason_03030000=4)


def reasons_of_the_peer(fixture, peer):
    """Any diagnosis in a Decline is reported unchanged."""
    for code in (0, 1, 0xffffffff, 0x7f000003, 0x05000000):
        conn = peer.new()
        conn.connect(fixture.port)
        conn.decline(diagnosis=code)
        equal(fixture.outcome_of(conn).split()[0], "tcp", "mode")
    fixture.expect_counters(fallback_srv=5)


def cases():
    """All test cases."""
    for name, kind, make, expect in (("proposal", PROPOSAL, try_proposal, proposal),
                                     ("confirm", CONFIRM, try_confirm, confirm),
                                     ("accept", ACCEPT, try_accept, accept)):
        for field, values in fields(kind):
            yield "%s.%s" % (name, field), each_value(make, expect, field, values)
    yield "proposal.cut", cut(PROPOSAL)
    yield "confirm.cut", cut(CONFIRM)
    yield "drop_by_drop", drop_by_drop
    propose = [lambda conn: conn.propose()]
    accepted = propose + [lambda conn: conn.accepted()]
    for name, steps, want in (
            ("confirm_first", [message_of(CONFIRM)], RESET),
            ("accept_first", [message_of(ACCEPT)], RESET),
            ("proposal_twice", propose * 2, RESET),
            ("proposal_after_accept", accepted + propose, RESET),
            ("accept_after_accept", accepted + [message_of(ACCEPT)], RESET),
            ("confirm_twice", accepted + [message_of(CONFIRM), message_of(CONFIRM)], RESET),
            ("proposal_after_confirm", accepted + [message_of(CONFIRM)] + propose, RESET),
            ("garbage_after_confirm", accepted + [message_of(CONFIRM),
                                                  lambda conn: conn.tcp.write(b"x" * 100)], RESET)):
        yield "order." + name, out_of_order(steps, want)
    yield "order.client", client_out_of_order
    yield "declined_anywhere", declined_anywhere
    yield "reasons_of_the_peer", reasons_of_the_peer


if __name__ == "__main__":
    sys.exit(fixtures.run(list(cases())))
