# SPDX-License-Identifier: GPL-2.0
"""An established connection between a raw peer and a socket of ours, in either role. A dead link is
replaced."""

import errno
import os
import select
import socket

import messages
import raw
import topology
from ktap import equal
from peer import connecting, connect_result

ERRORS = ("ECONNRESET", "ECONNABORTED", "EPIPE", "ETIMEDOUT")


class HostilePeer:
    """A raw peer with one link. `role` is that of our side: "server" or "client". With an `origin` of
    4, elements begin with an eye catcher."""

    def __init__(self, fixture, role, origin=0):
        self.fixture, self.role, self.origin = fixture, role, origin
        self.peer = self.group = None
        self.listener = raw.Listener(fixture.host)

    def connection(self):
        """A new connection of the peer and a socket of ours; on the existing link if that is alive."""
        if self.group is None:
            self.peer = self.fixture.new_peer()
            self.peer.origin = self.origin
        conn = self.peer.new()
        if self.role == "server":
            with self.fixture.lock:
                conn.as_client(self.fixture.port, self.group)
                sock, _ = self.fixture.listening.accept()
        else:
            sock = connecting(self.listener.address())
            conn.as_server(self.listener, self.group)
            equal(connect_result(sock), "none", "connect")
        equal(topology.mode("b", sock)[0], "smc", "mode")
        sock.settimeout(raw.SECONDS)
        self.group = conn.group
        return conn, sock

    def outcome(self, conn, seconds=raw.SECONDS):
        """Tests the link; "lives" or "dead". After "dead" the next connection gets a new link."""
        group, data = conn.group, os.urandom(16)
        if group.qp.refused is None:
            group.send_llc(messages.llc(messages.TEST_LINK, data=data))

        def known():
            for message in group.inbox:
                # After DELETE LINK (all), the peer need not answer.
                if (message["type"] == messages.TEST_LINK and message.raw("data") == data and
                        not group.ended):
                    return "lives"
            return "dead" if group.qp.refused is not None or conn.tcp.reset else None
        verdict = self.fixture.host.wait(known, "life or death of the link", seconds)
        if verdict == "dead":
            self.peer = self.group = None
        return verdict


def expect_data(conn, sock):
    """Fails unless the connection carries data in both directions."""
    conn.write(b"to you")
    equal(topology.receive(sock, 6), b"to you", "data")
    sock.sendall(b"and back")
    equal(conn.take(8), b"and back", "data back")


def ended(sock, seconds=raw.SECONDS):
    """Reads a socket to its end; the error, "end", or "late"."""
    sock.settimeout(seconds)
    try:
        while True:
            if not sock.recv(65536):
                return "end"
    except TimeoutError as error:
        return errno.errorcode[error.errno] if error.errno else "late"
    except OSError as error:
        return errno.errorcode[error.errno]


def expect_error(sock, seconds=raw.SECONDS):
    """Fails unless the socket ends by an error that poll also reports."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    equal(bool(poll.poll(seconds * 1000)), True, "poll reports")
    got = ended(sock, seconds)
    equal(got in ERRORS, True, "end of the socket: %s" % got)
    equal(topology.error_of(sock.send, b"x") in ERRORS, True, "send")
    equal(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0, "error is told once")
