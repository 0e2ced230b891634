#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Peers whose queue pair or TCP connection dies under an established connection, at any time and in
any way: the program is told in bounded time.

Covers SMCR-KAL-04, KAL-05, FOV-19, TCR-03, TST-143.
"""

import socket
import sys

import fixtures
import roce
import topology
from hostile_peer import ERRORS, HostilePeer, expect_data, ended
from ktap import equal
from messages import ABORT, CLOSED, DONE, TEST_LINK

# Longer than any timer of an established connection that has something to do.
BOUND = 75 * topology.SLOW

WAYS = {"silent": "dead", "invalid_request": roce.NAK_INVALID, "access_error": roce.NAK_ACCESS,
        "operational_error": roce.NAK_OPERATIONAL}


def fill(sock):
    """Sends until nothing more fits; how much that was."""
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
    """Nothing is on its way: the next to send finds out."""
    yield
    sock.send(b"anybody there?")


def while_sending(conn, sock):
    """Much is on its way."""
    fill(sock)
    yield


def with_the_window_closed(conn, sock):
    """Our side waits for the peer to consume."""
    fill(sock)
    conn.host.wait(lambda: conn.available() == 16384, "full element")
    yield
    # A peer that says that it has consumed makes us write.
    if conn.group.qp.behave != "dead":
        conn.read += 8192
        conn.tell()
    else:
        conn.tcp.abort()


def while_receiving(conn, sock):
    """Data came, and is still there to be read."""
    conn.write(b"last words")
    yield
    equal(topology.receive(sock, 10), b"last words", "what had arrived")
    sock.send(b"x")


def half_closed(conn, sock):
    """We have said that we write no more."""
    sock.shutdown(1)
    conn.host.wait(lambda: conn.saw(state=DONE), "end")
    yield
    conn.tcp.abort()


def dies(moment, behave):
    """The queue pair begins to behave like that at that moment."""
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


def keepalive_finds_out(role):
    """With SO_KEEPALIVE an idle connection learns of a dead peer by itself, and its link was tested for
    that, as often as TCP_KEEPIDLE says."""
    # KAL-01, KAL-02, KAL-04, KAL-05.
    def test(fixture, _):
        hostile = HostilePeer(fixture, role)
        conn, sock = hostile.connection()
        expect_data(conn, sock)
        tests = []
        incoming = conn.group.qp.on_message

        def listen(octets):
            if octets[0] == TEST_LINK:
                tests.append(octets)
            incoming(octets)
        conn.group.qp.on_message = listen
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        conn.host.wait(lambda: len(tests) >= 3, "tests of the link")
        expect_data(conn, sock)
        conn.group.qp.behave = "dead"
        # Long before the link would be tested without the option.
        got = ended(sock, 60 if fixtures.FEW else 20)
        equal(got in ERRORS, True, "end: %s" % got)
        sock.close()
    return test


def dies_while_closing(behave):
    """Our side has closed, and waits for the peer to do it: it does not wait for ever."""
    def test(fixture, _):
        hostile = HostilePeer(fixture, "server")
        conn, sock = hostile.connection()
        expect_data(conn, sock)
        conn.group.qp.behave = behave
        sock.close()
        topology.until(lambda: fixture.is_over(conn), "the connection is left", 90)
    return test


def never_closes(fixture, _):
    """The peer lives, but does not close after us, nor answers: a minute, not more."""
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    sock.close()
    conn.host.wait(lambda: conn.saw(state=CLOSED), "close")
    topology.until(lambda: fixture.is_over(conn), "the connection is left", 100)


def tcp_is_reset(fixture, _):
    """A RST of the idle TCP connection ends the connection at once; the link stays."""
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    expect_data(conn, sock)
    conn.tcp.abort()
    equal(ended(sock), "ECONNRESET", "end")
    equal(hostile.outcome(conn), "lives", "link")
    sock.close()


def tcp_says_something(fixture, _):
    """Octets on the TCP connection that should be idle end the connection."""
    # TCR-03, TST-143.
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    expect_data(conn, sock)
    conn.tcp.write(b"payload where none belongs")
    equal(ended(sock) in ERRORS, True, "end")
    sock.close()


def tcp_ends_alone(fixture, _):
    """A FIN of TCP without a word by RDMA: half a minute, and then an abort."""
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    expect_data(conn, sock)
    conn.tcp.close()
    equal(ended(sock, BOUND) in ERRORS, True, "end")
    sock.close()


def abort_is_not_answered(fixture, _):
    """We abort, the peer does not care."""
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
    """A link with many connections dies: all are told."""
    hostile = HostilePeer(fixture, "server")
    pairs = [hostile.connection() for _ in range(20)]
    for _, sock in pairs:
        sock.send(b"x")
    pairs[0][0].group.qp.behave = roce.NAK_OPERATIONAL
    pairs[0][1].send(b"x")
    for _, sock in pairs:
        equal(ended(sock, BOUND) in ERRORS, True, "end")
        sock.close()


def cases():
    """All of it."""
    for moment in (while_idle, while_sending, with_the_window_closed, while_receiving, half_closed):
        for name, behave in WAYS.items():
            yield "%s.%s" % (moment.__name__, name), dies(moment, behave)
    for role in ("server", "client"):
        yield role + ".keepalive_finds_out", keepalive_finds_out(role)
    for name, behave in WAYS.items():
        yield "while_closing." + name, dies_while_closing(behave)
    for function in (never_closes, tcp_is_reset, tcp_says_something, tcp_ends_alone,
                     abort_is_not_answered, many_at_once):
        yield function.__name__, function


if __name__ == "__main__":
    # What one peer does is nobody else's business, so that all of them can wait at the same time.
    sys.exit(fixtures.run([], list(cases())))
