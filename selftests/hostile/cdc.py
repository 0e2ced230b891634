#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""CDC messages and RDMA writes that are wrong: only the connection they are about ends, or the link
where the queue pair cannot go on. A second connection on the same link tells the difference.

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
    """A connection to be abused and one beside it on the same link."""

    def __init__(self, fixture, role):
        self.fixture, self.hostile = fixture, HostilePeer(fixture, role)
        self.conn, self.sock = self.hostile.connection()
        self.beside = self.hostile.connection()

    def again(self):
        """A new connection on the same link."""
        self.sock.close()
        self.conn, self.sock = self.hostile.connection()

    def expect_only_it_ends(self):
        """The connection is over, its neighbour is not."""
        expect_error(self.sock)
        expect_data(*self.beside)

    def expect_both_alive(self):
        """Nothing has happened."""
        expect_data(self.conn, self.sock)
        expect_data(*self.beside)

    def expect_both_end(self):
        """The link is gone."""
        equal(self.hostile.outcome(self.conn), "dead", "link")
        expect_error(self.sock)
        expect_error(self.beside[1])

    def close(self):
        """Closes what is ours."""
        self.sock.close()
        self.beside[1].close()


def with_pair(function, *args):
    """A test of a pair, for each role of our side."""
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
    """Every value that the cursor must not have."""
    conn = pair.conn
    top = messages.read_cdc(bytes(44)).width(field)
    if field.endswith("wrap"):
        # One wrap ahead of what was read is a full element.
        values = [value for value in odd_values(top, 0) if (field, value) != ("produced_wrap", 1)]
    elif field == "produced":
        values = [conn.size(), conn.size() + 1, 1 << 31, (1 << 32) - 1]
    else:
        values = [7, 8, 16384, 16385, 1 << 31, (1 << 32) - 1]
    values = values[:3] if fixtures.FEW else values
    for value in values:
        # Six octets each way, so that both cursors have moved.
        pair.conn.write(b"before")
        equal(topology.receive(pair.sock, 6), b"before", "data")
        pair.sock.sendall(b"before")
        equal(pair.conn.take(6), b"before", "data back")
        pair.conn.tell({field: value})
        pair.expect_only_it_ends()
        pair.again()
    equal(sum(pair.fixture.grown(name) for name in counter), len(values), "violations %s" %
          pair.fixture.difference())


def backwards(pair):
    """A producer that takes back what it has announced."""
    pair.conn.write(b"announced")
    equal(topology.receive(pair.sock, 9), b"announced", "data")
    pair.conn.tell({"produced": 3})
    pair.expect_only_it_ends()
    pair.fixture.expect_counters(**{PRODUCER: 1})


def full_and_more(pair):
    """A full element is fine; one octet more is not."""
    conn, size = pair.conn, pair.conn.size()
    data = topology.known("full", size)
    conn.write(data)
    pair.conn.tell({"produced_wrap": 1, "produced": 1})
    expect_error_after(pair.sock, data)
    expect_data(*pair.beside)
    pair.fixture.expect_counters(**{PRODUCER: 1})


def expect_error_after(sock, data):
    """Ends by an error. What came before may be read, but no other octet."""
    # To read before all has come would make room for more.
    poll = select.poll()
    poll.register(sock, 0)
    equal(bool(poll.poll(topology.BOUND * 1000)), True, "poll tells")
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
    """A consumer that never consumes: we stop when its element is full, and close in bounded time."""
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
    expect_data(*pair.beside)


def unknown_token(pair):
    """Tokens of nobody, of the neighbour, of a connection that is over."""
    # CDC-37, CDC-40.
    conn = pair.conn
    theirs = conn.theirs["token"]
    for token in odd_values(32, theirs):
        if token != pair.beside[0].theirs["token"]:
            conn.tell({"token": token})
            conn.seq -= 1
    pair.expect_both_alive()
    pair.sock.close()
    conn.host.wait(lambda: conn.saw(state=CLOSED), "close")
    conn.tell(state_flags=DONE | CLOSED)
    pair.conn, pair.sock = pair.hostile.connection()
    for _ in range(10):
        conn.tell(producer_flags=BLOCKED)
    pair.expect_both_alive()
    pair.fixture.expect_counters(aborted_srv=0)


def old_numbers(pair):
    """Messages that are repeated or overtaken change nothing, whatever they say."""
    conn = pair.conn
    for _ in range(3):
        expect_data(conn, pair.sock)
    for seq in (conn.seq, conn.seq - 1, 1, 0, conn.seq - 30000 & 0xffff):
        last = conn.seq
        conn.tell({"seq": seq, "produced": 0xffffffff, "consumed": 0xffffffff,
                   "state_flags": ABORT | DONE | CLOSED})
        conn.seq = last
    pair.expect_both_alive()


def numbers_wrap(pair):
    """Numbers may be skipped, and start again behind 65535."""
    conn = pair.conn
    for seq in (32767, 65530):
        conn.seq = seq - 1
        for _ in range(5):
            expect_data(conn, pair.sock)
    equal(conn.seq < 10, True, "numbers start again")


def reserved(pair):
    """Reserved fields are nobody's business."""
    for field in ("reserved", "reserved2", "reserved3"):
        for value in (1, (1 << 16) - 1, (1 << 144) - 1):
            pair.conn.tell({field: value})
    pair.conn.tell(producer_flags=0x07, state_flags=0x1f)
    pair.expect_both_alive()


def flags(pair):
    """Every flag of a producer at a time when it means nothing."""
    for value in (BLOCKED, URGENT_PENDING, URGENT, REQUEST, BLOCKED | REQUEST | URGENT | URGENT_PENDING):
        for _ in range(3):
            pair.conn.tell(producer_flags=value)
    pair.expect_both_alive()


def failover(pair):
    """A validation message: an old number means that nothing was lost, a new one that it was."""
    conn = pair.conn
    expect_data(conn, pair.sock)
    for seq in (conn.seq, conn.seq - 1):
        last = conn.seq
        conn.tell({"seq": seq, "produced": 12345, "consumed": 12345}, producer_flags=FAILOVER)
        conn.seq = last
    pair.expect_both_alive()
    conn.tell(producer_flags=FAILOVER)
    pair.expect_only_it_ends()
    pair.fixture.expect_counters(**{LOSS: 1})


def data_after_the_end(pair):
    """Who has said that it writes no more must not."""
    pair.conn.tell(state_flags=DONE)
    equal(pair.sock.recv(1), b"", "end")
    pair.conn.write(b"one more", state_flags=DONE)
    pair.conn.host.wait(lambda: pair.conn.saw(state=ABORT), "abort")
    equal(ended(pair.sock), "end", "what the reader has seen stays")
    expect_data(*pair.beside)
    pair.fixture.expect_counters(**{PRODUCER: 1})


def data_with_the_end(pair):
    """Data that comes with the last word is still read."""
    for state in (DONE, DONE | CLOSED):
        pair.conn.write(b"last words", state_flags=state)
        equal(topology.receive(pair.sock, 10), b"last words", "data")
        equal(pair.sock.recv(1), b"", "end")
        pair.again()


def after_the_close(pair):
    """Whatever comes behind the peer's close."""
    conn = pair.conn
    conn.tell(state_flags=DONE | CLOSED)
    equal(pair.sock.recv(1), b"", "end")
    conn.tell()
    conn.tell(state_flags=ABORT)
    conn.tell({"produced": 0xffffffff}, state_flags=DONE | CLOSED)
    pair.sock.close()
    expect_data(*pair.beside)
    pair.conn, pair.sock = pair.hostile.connection()
    pair.expect_both_alive()


def abort_with_nonsense(pair):
    """Who aborts need not have its cursors in order."""
    pair.conn.tell({"produced": 0xffffffff, "consumed": 0xffffffff}, state_flags=ABORT)
    equal(ended(pair.sock), "ECONNRESET", "end")
    expect_data(*pair.beside)


def wrong_length(pair, value):
    """A length that is not 44 breaks the link."""
    pair.conn.tell({"length": value})
    pair.expect_both_end()


def early(fixture, _):
    """CDC messages for a connection whose handshake is not over: the last one counts, if it fits."""
    # RDV-27, TST-113.
    for changes, want in (({}, "smc"), ({"produced": 1 << 31}, "violation")):
        hostile = HostilePeer(fixture, "server")
        beside = hostile.connection()
        conn = hostile.peer.new()
        conn.connect(fixture.port)
        conn.propose()
        conn.accepted(hostile.group)
        conn.tell(changes)
        conn.confirm()
        sock, _ = fixture.listening.accept()
        sock.settimeout(20)
        if want == "smc":
            expect_data(conn, sock)
        else:
            expect_error(sock)
        sock.close()
        expect_data(*beside)
        beside[1].close()


# RDMA writes.

def foreign_memory(pair, rkey, address):
    """A write to what is not ours kills the link, and changes nothing."""
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
    """The header says another length than the packet has."""
    conn = pair.conn
    conn.group.qp.write(conn.base(), conn.theirs["rkey"], bytes(size), said)
    conn.group.qp.quiet()
    if pair.hostile.outcome(conn) == "lives":
        pair.expect_both_alive()
    else:
        expect_error(pair.sock)
        expect_error(pair.beside[1])


def other_operation(pair, opcode, body, dropped=False):
    """Operations that SMC-R does not have: read, atomics, immediate data, nonsense."""
    conn = pair.conn
    conn.group.qp.request(opcode, body(conn), True)
    if dropped:
        # Nobody answers it. The next packet takes its number.
        conn.group.qp.forget()
    if pair.hostile.outcome(conn, 30) == "lives":
        pair.expect_both_alive()
    else:
        expect_error(pair.sock)
        expect_error(pair.beside[1])


def with_immediate(pair, size):
    """An RDMA write with immediate data consumes a receive request and brings no message: the link
    ends. So the contents of the buffer are never taken for one."""
    conn = pair.conn
    # Every buffer has a message in it that was honest once.
    for _ in range(MANY):
        conn.tell()
    pair.expect_both_alive()
    conn.group.qp.write(conn.base(), conn.theirs["rkey"], bytes(size or conn.size()), immediate=bytes(4))
    pair.expect_both_end()


def invalidating(pair):
    """A message that takes the key of our memory away is none: the link ends."""
    conn = pair.conn
    expect_data(conn, pair.sock)
    conn.group.qp.request(roce.SEND_ONLY_INVALIDATE,
                          conn.theirs["rkey"].to_bytes(4, "big") + bytes(conn.message()), True)
    pair.expect_both_end()


def beyond_the_cursor(pair):
    """Octets that no cursor announces are never read, by nobody."""
    # RMB-16.
    conn = pair.conn
    conn.group.qp.write(conn.base(), conn.theirs["rkey"], b"\xee" * conn.size())
    conn.write(b"this only")
    equal(topology.receive(pair.sock, 9), b"this only", "data")
    pair.sock.setblocking(False)
    equal(topology.error_of(pair.sock.recv, 1), "EAGAIN", "more data")
    pair.sock.settimeout(20)
    # The whole RMB, as far as it goes: the elements of the others are the same peer's.
    conn.group.qp.quiet()
    pair.sock.close()
    conn.host.wait(lambda: conn.saw(state=CLOSED) or conn.saw(state=ABORT), "close")
    conn.tell(state_flags=DONE | CLOSED)
    conn.group.qp.write(conn.base(), conn.theirs["rkey"], b"\xdd" * 64)
    conn.group.qp.quiet()
    pair.conn, pair.sock = pair.hostile.connection()
    pair.expect_both_alive()


def nothing_of_others(pair):
    """An element that is used again holds nothing of the connection before, even if the peer announces
    what it has not written."""
    # SEC-09, RMB-15, TST-134.
    conn, secret = pair.conn, b"secret of somebody" * 100
    conn.write(secret)
    equal(topology.receive(pair.sock, len(secret)) == secret, True, "data")
    # More than was announced, up to the end of the element.
    conn.group.qp.write(conn.base() + len(secret), conn.theirs["rkey"], b"\xee" * 5000)
    conn.group.qp.quiet()
    place = conn.theirs["rkey"], conn.base()
    pair.sock.close()
    conn.host.wait(lambda: conn.saw(state=CLOSED), "close")
    conn.tell(state_flags=DONE | CLOSED)
    topology.until(lambda: topology.counter("b", "active_conns") == 2, "the connection is left")
    pair.conn, pair.sock = pair.hostile.connection()
    equal((pair.conn.theirs["rkey"], pair.conn.base()), place, "element")
    pair.conn.sent += 6000
    pair.conn.tell()
    equal(topology.receive(pair.sock, 6000) == bytes(6000), True, "an element that was wiped")
    pair.expect_both_alive()


def changed_behind(pair):
    """Data that changes after it was announced is some data, of the announced length."""
    conn = pair.conn
    conn.write(b"a" * 5000)
    conn.group.qp.write(conn.base(), conn.theirs["rkey"], b"b" * 5000)
    conn.group.qp.quiet()
    got = topology.receive(pair.sock, 5000)
    equal(len(got) == 5000 and set(got) <= set(b"ab"), True, "data")
    pair.expect_both_alive()


def read_request(conn):
    """RETH of an RDMA READ of the whole element."""
    return conn.base().to_bytes(8, "big") + conn.theirs["rkey"].to_bytes(4, "big") + \
        (1024).to_bytes(4, "big")


def both_roles(name, of):
    """The test with our side as server and as client."""
    for role in ("server",) if fixtures.FEW else ("server", "client"):
        yield "%s.%s" % (role, name), of(role)


def cases():
    """All of it."""
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
    # Not 0 for 8: soft-RoCE itself warns of that.
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
    # As long as a message, longer than any, and all of an element.
    for size in (44, 4096, 0):
        yield from both_roles("immediate.%s" % (size or "element"), with_pair(with_immediate, size))
    yield from both_roles("invalidating", with_pair(invalidating))


if __name__ == "__main__":
    sys.exit(fixtures.run(list(cases())))
