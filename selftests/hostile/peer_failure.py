#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The queue pair or TCP connection of a peer dies under an established connection, in any state and any
way. The program gets an error in bounded time.

Covers SMCR-KAL-04, KAL-05, FOV-19, TCR-03, TST-143.
"""

import select
import socket
import sys

import fixtures
import roce
import topology
from hostile_peer import ERRORS, HostilePeer, expect_data, ended
from ktap import equal
from messages import ABORT, CLOSED, DONE, TEST_LINK

# Longer than any timer of a busy established connection.
BOUND = 75 * topology.SLOW
# Connections until one outlives three tests of its link.
TRIES = 10

WAYS = {"silent": "dead", "invalid_request": roce.NAK_INVALID, "access_error": roce.NAK_ACCESS,
        "operational_error": roce.NAK_OPERATIONAL}


def fill(sock):
    """Sends until the socket has no room; the number of octets."""
    sock.setblocking(False)
    sent = 0
    try:
        while True:
            sent += sock.send(bytes(65536))
    except BlockingIOError:
        return sent
    finally:
        sock.settimeout(BOUND)


def while_idle(conn, sock):
    """No data in flight: the next writer detects the failure."""
    yield
    sock.send(b"anybody there?")


def while_sending(conn, sock):
    """Data are in flight."""
    fill(sock)
    yield


def with_the_window_closed(conn, sock):
    """Our side waits for the peer to consume."""
    fill(sock)
    conn.host.wait(lambda: conn.available() == 16384, "full element")
    yield
    # A peer that consumes makes us write.
    if conn.group.qp.behave != "dead":
        conn.read += 8192
        conn.send_cdc()
    else:
        conn.tcp.abort()


def while_receiving(conn, sock):
    """Unread data are in the receive buffer."""
    conn.write(b"last words")
    yield
    equal(topology.receive(sock, 10), b"last words", "what had arrived")
    sock.send(b"x")


def half_closed(conn, sock):
    """Our side has shut down its writing direction."""
    sock.shutdown(1)
    conn.host.wait(lambda: conn.saw(state=DONE), "end")
    yield
    conn.tcp.abort()


def dies(moment, behave):
    """The queue pair changes its behavior under a connection in some state."""
    def test(fixture, _):
        hostile = HostilePeer(fixture, "server")
        conn, sock = hostile.connection()
        sock.settimeout(BOUND)
        steps = moment(conn, sock)
        next(steps)
        conn.group.qp.behave = behave
        for _ in steps:
            pass
        got = ended(sock, BOUND)
        equal(got in ERRORS, True, "end: %s" % got)
        sock.close()
    return test


def outlives_tests(conn, sock):
    """Sets SO_KEEPALIVE, and waits until the link was tested three times, or the connection has ended.
    Whether the link lives."""
    tests = []
    incoming = conn.group.qp.on_message

    def listen(octets):
        if octets[0] == TEST_LINK:
            tests.append(octets)
        incoming(octets)

    def has_ended():
        return bool(select.select([sock], [], [], 0)[0])
    conn.group.qp.on_message = listen
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    conn.host.wait(lambda: len(tests) >= 3 or has_ended(), "tests of the link")
    return not has_ended()


def keepalive_finds_out(role):
    """With SO_KEEPALIVE an idle connection detects a dead peer: the link is tested as often as
    TCP_KEEPIDLE demands."""
    # KAL-01, KAL-02, KAL-04, KAL-05.
    def test(fixture, _):
        # A host that the machine lets wait answers too late, and that link ends.
        for _ in range(TRIES):
            conn, sock = HostilePeer(fixture, role).connection()
            expect_data(conn, sock)
            if outlives_tests(conn, sock):
                break
            sock.close()
        else:
            raise AssertionError("no link outlived three tests")
        expect_data(conn, sock)
        conn.group.qp.behave = "dead"
        # Long before an idle link is tested without the option.
        got = ended(sock, 60 if fixtures.FEW else 20)
        equal(got in ERRORS, True, "end: %s" % got)
        sock.close()
    return test


def dies_while_closing(behave):
    """Our side has closed and the peer dies before its close: our close ends in bounded time."""
    def test(fixture, _):
        hostile = HostilePeer(fixture, "server")
        conn, sock = hostile.connection()
        expect_data(conn, sock)
        conn.group.qp.behave = behave
        sock.close()
        topology.until(lambda: fixture.is_over(conn), "the connection is left", 90)
    return test


def never_closes(fixture, _):
    """A live peer that neither closes after us nor answers costs at most a minute."""
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    sock.close()
    conn.host.wait(lambda: conn.saw(state=CLOSED), "close")
    topology.until(lambda: fixture.is_over(conn), "the connection is left", 100)


def tcp_is_reset(fixture, _):
    """A RST on the idle TCP connection ends the connection at once, and the link stays."""
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    expect_data(conn, sock)
    conn.tcp.abort()
    equal(ended(sock), "ECONNRESET", "end")
    equal(hostile.outcome(conn), "lives", "link")
    sock.close()


def data_on_idle_tcp(fixture, _):
    """Data on the idle TCP connection end the connection."""
    # TCR-03, TST-143.
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    expect_data(conn, sock)
    conn.tcp.write(b"payload where none belongs")
    equal(ended(sock) in ERRORS, True, "end")
    sock.close()


def tcp_ends_alone(fixture, _):
    """A FIN on the TCP connection without a CDC message aborts the connection after half a minute."""
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    expect_data(conn, sock)
    conn.tcp.close()
    equal(ended(sock, BOUND) in ERRORS, True, "end")
    sock.close()


def abort_is_not_answered(fixture, _):
    """Our side aborts, and the peer ignores it."""
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    conn.write(b"never read")
    equal(sock.recv(1, socket.MSG_PEEK), b"n", "data")
    sock.close()
    conn.host.wait(lambda: conn.saw(state=ABORT), "abort")
    for _ in range(20):
        conn.write(b"more")
    topology.until(lambda: fixture.is_over(conn), "the connection is left", 30)


def many_at_once(fixture, _):
    """A link with many connections dies: each gets an error."""
    hostile = HostilePeer(fixture, "server")
    pairs = [hostile.connection() for _ in range(20)]
    for _, sock in pairs:
        sock.send(b"x")
    pairs[0][0].group.qp.behave = roce.NAK_OPERATIONAL
    # The messages before may have ended the link already.
    topology.error_of(pairs[0][1].send, b"x")
    for _, sock in pairs:
        equal(ended(sock, BOUND) in ERRORS, True, "end")
        sock.close()


def cases():
    """All test cases."""
    for moment in (while_idle, while_sending, with_the_window_closed, while_receiving, half_closed):
        for name, behave in WAYS.items():
            yield "%s.%s" % (moment.__name__, name), dies(moment, behave)
    for role in ("server", "client"):
        yield role + ".keepalive_finds_out", keepalive_finds_out(role)
    for name, behave in WAYS.items():
        yield "while_closing." + name, dies_while_closing(behave)
    for function in (never_closes, tcp_is_reset, data_on_idle_tcp, tcp_ends_alone,
                     abort_is_not_answered, many_at_once):
        yield function.__name__, function


if __name__ == "__main__":
    # The tests use peers of their own, so that all can wait at the same time.
    sys.exit(fixtures.run([], list(cases())))
