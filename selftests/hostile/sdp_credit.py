#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Peers of SDP that never return a credit. A connection that its program has closed tests such a peer by
writes without octets, gives it up as TCP does with a window of zero, and leaves nothing.

Covers SDP-KA-03, SDP-ERRNO-9.
"""

import contextlib
import errno
import fcntl
import pathlib
import socket
import sys
import time

import ktap
import raw
import topology
from cm import Requester
from ktap import equal
from sdp_peer import accepted

SIOCOUTQNSD = 0x894b
# Buffers of the peer: one message with payload may come, as two buffers are kept for others.
BUFFERS = 3
RETRIES = pathlib.Path("/proc/sys/net/ipv4/tcp_orphan_retries")
# Time of the first test; each further interval takes twice as long.
FIRST = 0.25
# Longest time in which a device notices that its peer does not answer, with the first test.
DEVICE = 20 * topology.SLOW


def retries(count):
    """Sets how often a peer of an orphan is tested; 0 stands for 8."""
    with topology.inside("b"):
        RETRIES.write_text("%d\n" % count, encoding="ascii")


def gone(seconds):
    """Waits until the server has no connection, and nothing of it."""
    topology.until(lambda: topology.counter("b", "active_conns") == 0, "the connection lives", seconds)
    for name in "orphans", "buffer_bytes":
        topology.until(lambda name=name: topology.counter("b", name) == 0, name)


def is_stuck(sock):
    """Writes more if there is room; whether data waits for a credit. The first message may have taken all."""
    with contextlib.suppress(BlockingIOError):
        sock.send(b"stuck")
    return int.from_bytes(fcntl.ioctl(sock, SIOCOUTQNSD, bytes(4)), sys.byteorder) > 0


def stuck(test):
    """Makes a test that gets the queue pair of a peer and a socket of ours with data that cannot go."""
    def run():
        with raw.Host() as host, topology.listener("b") as listening:
            requester = Requester(host)
            sock, peer = accepted(requester, listening, BUFFERS)
            qp = peer.qp
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    sock.send(bytes(65536))
            host.wait(lambda: qp.received_count == 1, "the message that credits allow")
            topology.until(lambda: is_stuck(sock), "data that cannot go")
            test(qp, sock)
            sock.close()
            requester.close()
        retries(0)
        topology.all_gone()
    run.name = test.__name__
    return run


def orphan_of_a_live_peer_is_given_up(qp, sock):
    """A peer whose device answers, and that gives no credit, has three tests. The open connection has tested
    it before, perhaps until the close."""
    retries(3)
    before, begin = qp.tests, time.monotonic()
    sock.close()
    after = qp.tests
    equal(topology.counter("b", "orphans"), 1, "orphans")
    gone(FIRST * 15 + 10 * topology.SLOW)
    took = time.monotonic() - begin
    equal(took > FIRST * 15 * 0.9, True, "given up after %.1f s" % took)
    equal(qp.tests - before >= 3 and qp.tests - after <= 4, True,
          "%d tests, %d to %d before" % (qp.tests, before, after))
    equal(qp.received_count, 1, "messages")


def orphan_of_a_vanished_peer_ends_soon(qp, sock):
    """A host that vanished is noticed by the first test, while eight would take two minutes."""
    qp.behave = "dead"
    sock.close()
    gone(FIRST + DEVICE)


def keepalive_needs_no_credit(qp, sock):
    """An open connection without credits tests its peer as well, and ends when no answer
    comes."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    qp.host.wait(lambda: qp.tests >= 2, "tests of an idle connection")
    equal(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0, "error of a live peer")
    qp.behave = "dead"

    def error():
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    equal(qp.host.wait(error, "the end of the connection", 1 + DEVICE), errno.ETIMEDOUT, "error")
    equal(qp.received_count, 1, "messages")


def main():
    """Runs all tests."""
    topology.need_module()
    topology.netns("up")
    with topology.engine("sdp"):
        return ktap.run([stuck(test) for test in (orphan_of_a_live_peer_is_given_up,
                                                  orphan_of_a_vanished_peer_ends_soon,
                                                  keepalive_needs_no_credit)])


if __name__ == "__main__":
    sys.exit(main())
