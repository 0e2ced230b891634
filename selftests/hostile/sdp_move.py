#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A peer of SDP moves its end of a connection to another port of its host: the connection goes on over a new
link, and its program sees nothing of that. If the new end is not there, the connection ends.

Covers SDP-DUP-06, SDP-DUP-13, SDP-DUP-16, SDP-DUP-17, SDP-DUP-18, SDP-DUP-19, SDP-DUP-27, SDP-DUP-31, SDP-DS-5.
"""

import contextlib
import select
import sys
import time

import ktap
import raw
import topology
from cm import Requester
from ktap import equal
from sdp_peer import DATA, DISCONN, SUSPCOMM_ACK, Peer, accepted, nothing_is_left, octets

BUFFERS = 16
# The port of the new end.
PORT = 5001
# Least time between two moves.
PAUSE = 10


class Scene:
    """A connection of the kernel with a peer that moves."""

    def __init__(self, host, listening):
        self.requester = Requester(host)
        self.port = listening.getsockname()[1]
        self.sock, self.peer = accepted(self.requester, listening, BUFFERS)
        self.number = self.requester.next_id

    def suspend(self, port=PORT):
        """The peer moves; the request of the kernel to the new end."""
        self.peer.suspend(port)
        found = self.peer.wait(lambda message: message.mid == SUSPCOMM_ACK, "SuspCommAck")
        request = self.requester.next_request()
        equal(self.number in self.requester.ended_ids, True, "the old link is closed")
        equal(request.port, port, "port of the request")
        equal(request.source_port, self.port, "port of ours")
        equal(list(self.peer.read()), [], "messages after SuspCommAck")
        return request, [message for message in found if message.mid == DATA]

    def accept(self, request):
        """The new end accepts."""
        number, qp = self.requester.accept(request, BUFFERS)
        qp.host.wait(lambda: number in self.requester.ready_ids, "the new link is up")
        self.peer, self.number = Peer(qp, BUFFERS), number

    def expect(self, *data):
        """Reads octets of the stream."""
        for piece in data:
            equal(topology.receive(self.sock, len(piece)) == piece, True, "data of the peer")


def moving(test):
    """Makes a test that gets a scene."""
    def run():
        with raw.Host() as host, topology.listener("b") as listening:
            scene = Scene(host, listening)
            test(scene)
            scene.sock.close()
            scene.requester.close()
        topology.until(lambda: topology.counter("b", "active_conns") == 0, "the connection lives",
                       80 * topology.SLOW)
        nothing_is_left()
    run.name = test.__name__
    return run


def events(sock):
    """What poll() reports at once."""
    poll = select.poll()
    poll.register(sock, select.POLLIN | select.POLLOUT | select.POLLRDHUP)
    return dict(poll.poll(0)).get(sock.fileno(), 0)


def connection_goes_on_over_a_new_link(scene):
    """What has come before stays in front of what comes later, what is written meanwhile waits, and the
    socket is connected all the time."""
    before, later = octets(0, 5000), octets(5000, 7000)
    name = scene.sock.getsockname(), scene.sock.getpeername()
    scene.peer.send(DATA, before)
    scene.sock.sendall(octets(0, 3000))
    equal(scene.peer.data(3000), octets(0, 3000), "data of ours")
    request, rest = scene.suspend()
    equal(rest, [], "data before SuspCommAck")
    scene.sock.sendall(octets(3000, 500))
    equal(events(scene.sock) & ~select.POLLOUT, select.POLLIN, "events during the move")
    scene.expect(before[:1000])
    scene.accept(request)
    equal(scene.peer.data(500), octets(3000, 500), "data written meanwhile")
    # Small messages share a buffer, with the last one of the old link, too.
    for at in range(0, 7000, 100):
        scene.peer.send(DATA, later[at:at + 100], ask=at == 6900)
        list(scene.peer.read())
    scene.peer.qp.quiet()
    scene.expect(before[1000:], later)
    equal((scene.sock.getsockname(), scene.sock.getpeername()), name, "addresses")
    equal(scene.sock.getsockopt(raw.socket.SOL_SOCKET, raw.socket.SO_ERROR), 0, "error")
    scene.peer.end(scene.sock)


def connection_moves_often(scene):
    """Each move may leave data that was not read; a sender that waits for room goes on."""
    sent = written = 0
    for number in range(3):
        scene.peer.send(DATA, octets(sent, 1000))
        sent += 1000
        scene.sock.setblocking(False)
        more = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                more += scene.sock.send(octets(written + more, 65536))
        scene.sock.settimeout(topology.BOUND)
        begin = time.monotonic()
        got = scene.peer.data(more - 100000) if more > 100000 else b""
        request, rest = scene.suspend(PORT + number)
        got += b"".join(message.rest for message in rest)
        scene.accept(request)
        got += scene.peer.data(more - len(got))
        equal(got == octets(written, more), True, "data of ours")
        written += more
        if number == 1:
            scene.expect(octets(0, sent))
        if number < 2:
            # A peer that moves at once again breaks a rule.
            time.sleep(max(0, PAUSE + 0.5 - (time.monotonic() - begin)))
    scene.peer.send(DATA, octets(sent, 1000))
    scene.peer.qp.quiet()
    scene.expect(octets(2000, 2000))
    scene.peer.end(scene.sock)


def new_end_that_refuses_ends_the_connection(scene):
    """Data that has come is readable, and then there is the error."""
    scene.peer.send(DATA, octets(0, 100))
    request, _ = scene.suspend()
    scene.requester.reject(request)
    topology.until(lambda: events(scene.sock) & select.POLLERR, "the error")
    scene.expect(octets(0, 100))
    equal(topology.error_of(scene.sock.recv, 1), "ECONNRESET", "error")


def new_end_that_is_silent_ends_the_connection(scene):
    """A set-up that gets no answer is given up."""
    scene.suspend()
    equal(topology.error_of(scene.sock.recv, 1), "ECONNRESET", "error")


def closed_connection_moves_and_ends(scene):
    """Data of a program that closes its socket during a move still arrives, and the end behind it."""
    request, _ = scene.suspend()
    scene.sock.sendall(octets(0, 9000))
    scene.sock.close()
    scene.accept(request)
    equal(scene.peer.data(9000), octets(0, 9000), "data of ours")
    scene.peer.send(DISCONN)


def device_goes_during_a_move(scene):
    """The removal of the device ends a connection that waits for its new end."""
    scene.suspend()
    topology.command("rdma", "link", "delete", "rs_b")
    equal(topology.error_of(scene.sock.recv, 1), "ECONNRESET", "error")


def main():
    """Runs all tests."""
    topology.need_module()
    topology.netns("up")
    with topology.engine("sdp"):
        return ktap.run([moving(test) for test in (
            connection_goes_on_over_a_new_link, connection_moves_often,
            new_end_that_refuses_ends_the_connection, new_end_that_is_silent_ends_the_connection,
            closed_connection_moves_and_ends, device_goes_during_a_move)])


if __name__ == "__main__":
    sys.exit(main())
