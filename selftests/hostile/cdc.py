#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Wrong CDC messages and RDMA writes end only their connection, or the link where the queue pair fails.
A second connection on the same link shows which.

Covers SMCR-CDC-01..04, CDC-34, CDC-36, CDC-38, CDC-41..45, CDC-51, CDC-53, SEC-08, SEC-10, TST-148,
TST-149.
"""

import select
import sys
import time

import fixtures
import messages
import roce
import topology
from hostile_peer import HostilePeer, expect_data, ended, expect_error
from ktap import equal
from messages import (ABORT, BLOCKED, CLOSED, DONE, FAILOVER, REQUEST, URGENT, URGENT_PENDING,
                      odd_values)

PRODUCER = "violation_impossible_producer_cursor"
CONSUMER = "violation_impossible_consumer_cursor"
LOSS = "violation_data_lost_by_failover"
# More messages than a link has receive requests.
MANY = 1000


class Pair:
    """A connection under attack and a second one on the same link."""

    def __init__(self, fixture, role):
        self.fixture, self.hostile = fixture, HostilePeer(fixture, role)
        self.conn, self.sock = self.hostile.connection()
        self.second = self.hostile.connection()

    def again(self):
        """Makes a new connection on the same link."""
        self.sock.close()
        self.conn, self.sock = self.hostile.connection()

    def expect_only_it_ends(self):
        """Fails unless the attacked connection ended and the second one still carries data."""
        expect_error(self.sock)
        expect_data(*self.second)

    def expect_both_alive(self):
        """Fails unless both connections carry data."""
        expect_data(self.conn, self.sock)
        expect_data(*self.second)

    def expect_both_end(self):
        """Fails unless the link died and both connections ended."""
        equal(self.hostile.outcome(self.conn), "dead", "link")
        expect_error(self.sock)
        expect_error(self.second[1])

    def close(self):
        """Closes the two sockets."""
        self.sock.close()
        self.second[1].close()


def with_pair(function, *args):
    """Makes a test of a pair, for each role of our side."""
    def of(role):
        def test(fixture, _):
            pair = Pair(fixture, role)
            try:
                function(pair, *args)
            finally:
                pair.close()
        return test
    return of


def cursor(pair, field, counter):
    """Cursor values that no peer may send end the connection."""
    conn = pair.conn
    top = messages.read_cdc(bytes(44)).width(field)
    if field.endswith("wrap"):
        # One wrap ahead of the data read is a full element.
        values = [value for value in odd_values(top, 0) if (field, value) != ("produced_wrap", 1)]
    elif field == "produced":
        values = [conn.size(), conn.size() + 1, 1 << 31, (1 << 32) - 1]
    else:
        values = [7, 8, 16384, 16385, 1 << 31, (1 << 32) - 1]
    values = values[:3] if fixtures.FEW else values
    for value in values:
        # Six octets each way move both cursors.
        pair.conn.write(b"before")
        equal(topology.receive(pair.sock, 6), b"before", "data")
        pair.sock.sendall(b"before")
        equal(pair.conn.take(6), b"before", "data back")
        pair.conn.send_cdc({field: value})
        pair.expect_only_it_ends()
        pair.again()
    equal(sum(pair.fixture.increase(name) for name in counter), len(values), "violations %s" %
          pair.fixture.difference())


def backwards(pair):
    """A producer cursor that moves back ends the connection."""
    pair.conn.write(b"announced")
    equal(topology.receive(pair.sock, 9), b"announced", "data")
    pair.conn.send_cdc({"produced": 3})
    pair.expect_only_it_ends()
    pair.fixture.expect_counters(**{PRODUCER: 1})


def full_and_more(pair):
    """A producer cursor may announce a full element, but no octet more."""
    conn, size = pair.conn, pair.conn.size()
    data = topology.known("full", size)
    conn.write(data)
    pair.conn.send_cdc({"produced_wrap": 1, "produced": 1})
    expect_error_after(pair.sock, data)
    expect_data(*pair.second)
    pair.fixture.expect_counters(**{PRODUCER: 1})


def expect_error_after(sock, data):
    """Fails unless the socket ends by an error. Earlier data may be read first, but no other octet."""
    # Reading before all data have arrived would make room for more.
    poll = select.poll()
    poll.register(sock, 0)
    equal(bool(poll.poll(topology.BOUND * 1000)), True, "poll reports")
    sock.settimeout(topology.BOUND)
    got = b""
    try:
        while more := sock.recv(65536):
            got += more
        raise AssertionError("a clean end")
    except (ConnectionResetError, ConnectionAbortedError):
        pass
    equal(data.startswith(got), True, "data before the end")


def window_is_kept(pair):
    """Our side stops when the element of a peer that never consumes is full, and closes in bounded
    time."""
    pair.sock.setblocking(False)
    sent = 0
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            sent += pair.sock.send(bytes(4096))
        except BlockingIOError:
            if pair.conn.available() == 16384:
                break
            time.sleep(0.01)
    equal(pair.conn.available(), 16384, "octets in the peer's element")
    equal(pair.conn.group.qp.refused, None, "refused")
    pair.sock.settimeout(20)
    expect_data(*pair.second)


def unknown_token(pair):
    """Tokens of no connection, of the second connection and of an ended connection are ignored."""
    # CDC-37, CDC-40.
    conn = pair.conn
    theirs = conn.theirs["token"]
    for token in odd_values(32, theirs):
        if token != pair.second[0].theirs["token"]:
            conn.send_cdc({"token": token})
            conn.seq -= 1
    pair.expect_both_alive()
    pair.sock.close()
    conn.host.wait(lambda: conn.saw(state=CLOSED), "close")
    conn.send_cdc(state_flags=DONE | CLOSED)
    pair.conn, pair.sock = pair.hostile.connection()
    for _ in range(10):
        conn.send_cdc(producer_flags=BLOCKED)
    pair.expect_both_alive()
    pair.fixture.expect_counters(aborted_srv=0)


def old_numbers(pair):
    """Repeated or overtaken messages change nothing, whatever they contain."""
    conn = pair.conn
    for _ in range(3):
        expect_data(conn, pair.sock)
    for seq in (conn.seq, conn.seq - 1, 1, 0, conn.seq - 30000 & 0xffff):
        last = conn.seq
        conn.send_cdc({"seq": seq, "produced": 0xffffffff, "consumed": 0xffffffff,
                       "state_flags": ABORT | DONE | CLOSED})
        conn.seq = last
    pair.expect_both_alive()


def numbers_wrap(pair):
    """Sequence numbers may skip, and wrap after 65535."""
    conn = pair.conn
    for seq in (32767, 65530):
        conn.seq = seq - 1
        for _ in range(5):
            expect_data(conn, pair.sock)
    equal(conn.seq < 10, True, "numbers start again")


def reserved(pair):
    """Reserved fields are ignored."""
    for field in ("reserved", "reserved2", "reserved3"):
        for value in (1, (1 << 16) - 1, (1 << 144) - 1):
            pair.conn.send_cdc({field: value})
    pair.conn.send_cdc(producer_flags=0x07, state_flags=0x1f)
    pair.expect_both_alive()


def flags(pair):
    """Producer flags without a meaning at that moment are ignored."""
    for value in (BLOCKED, URGENT_PENDING, URGENT, REQUEST, BLOCKED | REQUEST | URGENT | URGENT_PENDING):
        for _ in range(3):
            pair.conn.send_cdc(producer_flags=value)
    pair.expect_both_alive()


def failover(pair):
    """A validation message with an old sequence number shows that no data was lost; one with a new
    number shows a loss."""
    conn = pair.conn
    expect_data(conn, pair.sock)
    for seq in (conn.seq, conn.seq - 1):
        last = conn.seq
        conn.send_cdc({"seq": seq, "produced": 12345, "consumed": 12345}, producer_flags=FAILOVER)
        conn.seq = last
    pair.expect_both_alive()
    conn.send_cdc(producer_flags=FAILOVER)
    pair.expect_only_it_ends()
    pair.fixture.expect_counters(**{LOSS: 1})


def data_after_the_end(pair):
    """Data after the peer's end of the stream aborts the connection."""
    pair.conn.send_cdc(state_flags=DONE)
    equal(pair.sock.recv(1), b"", "end")
    pair.conn.write(b"one more", state_flags=DONE)
    pair.conn.host.wait(lambda: pair.conn.saw(state=ABORT), "abort")
    equal(ended(pair.sock), "end", "what the reader has seen stays")
    expect_data(*pair.second)
    pair.fixture.expect_counters(**{PRODUCER: 1})


def data_with_the_end(pair):
    """Data in the message that ends the stream is readable."""
    for state in (DONE, DONE | CLOSED):
        pair.conn.write(b"last words", state_flags=state)
        equal(topology.receive(pair.sock, 10), b"last words", "data")
        equal(pair.sock.recv(1), b"", "end")
        pair.again()


def after_the_close(pair):
    """Messages after the peer's close are harmless."""
    conn = pair.conn
    conn.send_cdc(state_flags=DONE | CLOSED)
    equal(pair.sock.recv(1), b"", "end")
    conn.send_cdc()
    conn.send_cdc(state_flags=ABORT)
    conn.send_cdc({"produced": 0xffffffff}, state_flags=DONE | CLOSED)
    pair.sock.close()
    expect_data(*pair.second)
    pair.conn, pair.sock = pair.hostile.connection()
    pair.expect_both_alive()


def abort_with_nonsense(pair):
    """An abort with impossible cursors is an abort."""
    pair.conn.send_cdc({"produced": 0xffffffff, "consumed": 0xffffffff}, state_flags=ABORT)
    equal(ended(pair.sock), "ECONNRESET", "end")
    expect_data(*pair.second)


def wrong_length(pair, value):
    """A CDC message with a length other than 44 breaks the link."""
    pair.conn.send_cdc({"length": value})
    pair.expect_both_end()


def early(fixture, _):
    """Of the CDC messages before the end of the handshake the last one is used, if it is valid."""
    # RDV-27, TST-113.
    for changes, want in (({}, "smc"), ({"produced": 1 << 31}, "violation")):
        hostile = HostilePeer(fixture, "server")
        second = hostile.connection()
        conn = hostile.peer.new()
        conn.connect(fixture.port)
        conn.propose()
        conn.accepted(hostile.group)
        conn.send_cdc(changes)
        conn.confirm()
        sock, _ = fixture.listening.accept()
        sock.settimeout(20)
        if want == "smc":
            expect_data(conn, sock)
        else:
            expect_error(sock)
        sock.close()
        expect_data(*second)
        second[1].close()


# RDMA writes.

def foreign_memory(pair, rkey, address):
    """A write to foreign memory ends the link, and changes nothing."""
    # RMB-07, SEC-08, TST-148.
    conn = pair.conn
    where = {"own": conn.base(), "before": conn.theirs["address"] - 4096, "half": 1 << 63,
             "end": (1 << 64) - 8, "beyond": conn.theirs["address"] + (64 << 20)}[address]
    key = conn.theirs["rkey"]
    key = {"own": key, "zero": 0, "ones": 0xffffffff, "next": key + 1 & 0xffffffff,
           "other": key ^ 0x100, "far": key ^ 0x80000000}[rkey]
    conn.group.qp.write(where, key, b"poison!!")
    equal(conn.group.qp.quiet() is not None, True, "refused")
    pair.expect_both_end()


def lying_length(pair, said, size):
    """A write whose header has another length than the packet ends the link, or nothing."""
    conn = pair.conn
    conn.group.qp.write(conn.base(), conn.theirs["rkey"], bytes(size), said)
    conn.group.qp.quiet()
    if pair.hostile.outcome(conn) == "lives":
        pair.expect_both_alive()
    else:
        expect_error(pair.sock)
        expect_error(pair.second[1])


def other_operation(pair, opcode, body, dropped=False):
    """Operations that SMC-R does not use end the link, or nothing: read, atomics, immediate data,
    unknown opcodes."""
    conn = pair.conn
    conn.group.qp.request(opcode, body(conn), True)
    if dropped:
        # The device does not respond, and the next packet takes the sequence number.
        conn.group.qp.forget()
    if pair.hostile.outcome(conn, 30) == "lives":
        pair.expect_both_alive()
    else:
        expect_error(pair.sock)
        expect_error(pair.second[1])


def with_immediate(pair, size):
    """An RDMA write with immediate data ends the link: it consumes a receive request but brings no
    message. The old contents of the buffer are not parsed."""
    conn = pair.conn
    # Put a valid message into each receive buffer.
    for _ in range(MANY):
        conn.send_cdc()
    pair.expect_both_alive()
    conn.group.qp.write(conn.base(), conn.theirs["rkey"], bytes(size or conn.size()), immediate=bytes(4))
    pair.expect_both_end()


def invalidating(pair):
    """A message that invalidates the key of our memory ends the link."""
    conn = pair.conn
    expect_data(conn, pair.sock)
    conn.group.qp.request(roce.SEND_ONLY_INVALIDATE,
                          conn.theirs["rkey"].to_bytes(4, "big") + bytes(conn.message()), True)
    pair.expect_both_end()


def beyond_the_cursor(pair):
    """Octets that no cursor announces are never read."""
    # RMB-16.
    conn = pair.conn
    conn.group.qp.write(conn.base(), conn.theirs["rkey"], b"\xee" * conn.size())
    conn.write(b"this only")
    equal(topology.receive(pair.sock, 9), b"this only", "data")
    pair.sock.setblocking(False)
    equal(topology.error_of(pair.sock.recv, 1), "EAGAIN", "more data")
    pair.sock.settimeout(20)
    # Write over the whole RMB: its other elements also belong to this peer.
    conn.group.qp.quiet()
    pair.sock.close()
    conn.host.wait(lambda: conn.saw(state=CLOSED) or conn.saw(state=ABORT), "close")
    conn.send_cdc(state_flags=DONE | CLOSED)
    conn.group.qp.write(conn.base(), conn.theirs["rkey"], b"\xdd" * 64)
    conn.group.qp.quiet()
    pair.conn, pair.sock = pair.hostile.connection()
    pair.expect_both_alive()


def nothing_of_others(pair):
    """A reused element holds no data of the earlier connection, even if the peer announces octets that
    it has not written."""
    # SEC-09, RMB-15, TST-134.
    conn, secret = pair.conn, b"data of the former" * 100
    conn.write(secret)
    equal(topology.receive(pair.sock, len(secret)) == secret, True, "data")
    # More than was announced, up to the end of the element.
    conn.group.qp.write(conn.base() + len(secret), conn.theirs["rkey"], b"\xee" * 5000)
    conn.group.qp.quiet()
    place = conn.theirs["rkey"], conn.base()
    pair.sock.close()
    conn.host.wait(lambda: conn.saw(state=CLOSED), "close")
    conn.send_cdc(state_flags=DONE | CLOSED)
    topology.until(lambda: pair.fixture.is_over(conn), "the connection is left")
    pair.conn, pair.sock = pair.hostile.connection()
    equal((pair.conn.theirs["rkey"], pair.conn.base()), place, "element")
    pair.conn.sent += 6000
    pair.conn.send_cdc()
    equal(topology.receive(pair.sock, 6000) == bytes(6000), True, "an element that was wiped")
    pair.expect_both_alive()


def changed_behind(pair):
    """Data that change after they were announced keep their announced length."""
    conn = pair.conn
    conn.write(b"a" * 5000)
    conn.group.qp.write(conn.base(), conn.theirs["rkey"], b"b" * 5000)
    conn.group.qp.quiet()
    got = topology.receive(pair.sock, 5000)
    equal(len(got) == 5000 and set(got) <= set(b"ab"), True, "data")
    pair.expect_both_alive()


def read_request(conn):
    """The RETH of an RDMA READ of the whole element."""
    return conn.base().to_bytes(8, "big") + conn.theirs["rkey"].to_bytes(4, "big") + \
        (1024).to_bytes(4, "big")


def both_roles(name, of):
    """The test with our side as server and as client."""
    for role in ("server",) if fixtures.FEW else ("server", "client"):
        yield "%s.%s" % (role, name), of(role)


def cases():
    """All test cases."""
    for field in ("produced", "produced_wrap"):
        yield from both_roles(field, with_pair(cursor, field, [PRODUCER]))
    for field in ("consumed", "consumed_wrap"):
        yield from both_roles(field, with_pair(cursor, field, [CONSUMER]))
    for function in (backwards, full_and_more, window_is_kept, unknown_token, old_numbers, numbers_wrap,
                     reserved, flags, failover, data_after_the_end, data_with_the_end, after_the_close,
                     abort_with_nonsense, beyond_the_cursor, nothing_of_others, changed_behind):
        yield from both_roles(function.__name__, with_pair(function))
    for value in (0, 43, 45, 255):
        yield from both_roles("wrong_length_%d" % value, with_pair(wrong_length, value))
    yield "early", early
    for rkey, address in (("own", "before"), ("own", "half"), ("own", "end"), ("own", "beyond"),
                          ("zero", "own"), ("ones", "own"), ("next", "own"), ("other", "own"),
                          ("far", "own")):
        yield from both_roles("foreign.%s_key_%s_address" % (rkey, address),
                              with_pair(foreign_memory, rkey, address))
    # Not 0 for 8 octets, as soft-RoCE itself warns of that.
    for said, size in ((16, 8), (8, 16), (1 << 31, 8), ((1 << 32) - 1, 8)):
        yield from both_roles("lying_length.%d_for_%d" % (said, size),
                              with_pair(lying_length, said, size))
    for name, opcode, body, *dropped in (
            ("read", 12, read_request),
            ("compare_and_swap", 19, lambda conn: read_request(conn)[:12] + bytes(16)),
            ("send_with_immediate", roce.SEND_ONLY_IMM, lambda conn: bytes(4) + bytes(conn.message())),
            ("middle_of_nothing", roce.WRITE_MIDDLE, lambda conn: bytes(1024)),
            ("unknown", 0x1f, lambda conn: bytes(8), True),
            ("unreliable", 0x64, lambda conn: bytes(16), True)):
        yield from both_roles("operation." + name, with_pair(other_operation, opcode, body, *dropped))
    # The size of a message, a larger size, and a whole element.
    for size in (44, 4096, 0):
        yield from both_roles("immediate.%s" % (size or "element"), with_pair(with_immediate, size))
    yield from both_roles("invalidating", with_pair(invalidating))


if __name__ == "__main__":
    sys.exit(fixtures.run(list(cases())))
