#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A hostile peer beside ordinary traffic, until SIGTERM. Its own connections are not checked: they only
disturb the others.

hostile_traffic.py SEED FILE: writes the number of each action to the file.
"""

import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import sys

import messages
import raw
import topology
from peer import Peer, connecting, connect_result

SECONDS = 5


class HostileTraffic:
    """The peer, and a listener of ours."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.host = raw.Host()
        self.host.start()
        self.listening = topology.listener("b")
        self.listening.settimeout(SECONDS)
        self.port = self.listening.getsockname()[1]
        self.peer = None
        self.kept = []

    def neighbours(self):
        """Sets the neighbor entries of the peer, which go when an interface goes down."""
        for ip, mac in ((raw.IP, raw.MAC), (raw.OTHER_IP, raw.OTHER_MAC)):
            topology.command("ip", "-n", "rs-b", "neigh", "replace", ip, "lladdr", mac.hex(":"), "dev", "vb",
                             "nud", "permanent", check=False)

    def connection(self):
        """A connection, in either role: (the peer's, our socket)."""
        conn = self.peer.new()
        group = self.peer.groups[-1] if self.peer.groups and self.dice.random() < 0.5 else None
        if self.dice.random() < 0.5:
            conn.as_client(self.port, group)
            sock, _ = self.listening.accept()
        else:
            listener = raw.Listener(self.host)
            sock = connecting(listener.address())
            try:
                conn.as_server(listener, group)
                connect_result(sock, SECONDS)
            except BaseException:
                sock.close()
                raise
        sock.settimeout(SECONDS)
        self.kept.append(sock)
        return conn, sock

    def agrees_and_is_silent(self):
        """Sends the option, and nothing else."""
        for _ in range(self.dice.randrange(1, 8)):
            raw.Tcp(self.host, self.host.new_port(), self.port).send(raw.SYN, options=raw.SMC_OPTION)

    def proposes_and_is_silent(self):
        """Sends a Proposal, and nothing else."""
        conn = self.peer.new()
        conn.connect(self.port)
        conn.propose()

    def proposes_nonsense(self):
        """Sends a Proposal with changed octets."""
        conn = self.peer.new()
        conn.connect(self.port)

        def spoil(octets):
            octets = bytearray(octets)
            for _ in range(self.dice.randrange(1, 6)):
                octets[self.dice.randrange(len(octets))] = self.dice.randrange(256)
            return bytes(octets)
        conn.propose(spoil)

    def says_garbage(self):
        """Sends random octets and changed messages on the link."""
        conn, _ = self.connection()
        for _ in range(self.dice.randrange(1, 30)):
            kind = self.dice.randrange(3)
            if kind == 0:
                conn.group.qp.send(self.dice.randbytes(44))
            elif kind == 1:
                octets = bytearray(bytes(conn.message()))
                octets[self.dice.randrange(1, 44)] ^= 1 << self.dice.randrange(8)
                conn.group.qp.send(bytes(octets))
            else:
                message = messages.llc(self.dice.choice((
                    messages.TEST_LINK, messages.CONFIRM_RKEY, messages.DELETE_RKEY)))
                conn.group.qp.send(bytes(message))

    def writes_and_goes(self):
        """Sends data, and disappears without a message."""
        conn, _ = self.connection()
        conn.write(self.dice.randbytes(self.dice.randrange(1, 16000)))
        conn.group.disappear()

    def is_mute(self):
        """Accepts all requests, and acknowledges none."""
        conn, sock = self.connection()
        conn.group.qp.behave = self.dice.choice(("mute", "dead"))
        sock.send(bytes(100000))

    def resets(self):
        """Resets TCP under a connection in use."""
        conn, sock = self.connection()
        sock.send(bytes(1000))
        conn.drop()

    def act(self):
        """Performs a random action; its name."""
        chosen = self.dice.choice((self.agrees_and_is_silent, self.proposes_and_is_silent,
                                   self.proposes_nonsense, self.says_garbage, self.writes_and_goes,
                                   self.is_mute, self.resets))
        if self.peer is None or self.dice.random() < 0.5:
            self.forget()
            self.peer = Peer(self.host)
        self.neighbours()
        chosen()
        return chosen.__name__

    def forget(self):
        """Removes the peer, and closes our sockets."""
        for sock in self.kept:
            sock.close()
        self.kept.clear()
        if self.peer is not None:
            for conn in self.peer.connections:
                # No message can be sent while the interface is down.
                with contextlib.suppress(OSError):
                    conn.drop()
            self.peer.end()
            self.peer = None


def main():
    """Performs actions until SIGTERM."""
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    done, file = collections.Counter(), pathlib.Path(sys.argv[2])
    traffic = HostileTraffic(int(sys.argv[1]))
    parent = os.getppid()
    while not stop and os.getppid() == parent:
        try:
            done[traffic.act()] += 1
        except (AssertionError, OSError, KeyError, IndexError, ValueError, TypeError, AttributeError,
                StopIteration):
            # The kernel did not answer as expected, or an allocation failed.
            done["cut short"] += 1
        if traffic.host.fault is not None:
            # The peer's own thread failed on a frame. Start again.
            done["began again"] += 1
            traffic.forget()
            traffic.host.ended = True
            traffic.host.join()
            traffic.host.raw.close()
            traffic.host = raw.Host()
            traffic.host.start()
        # The file is always complete: this process may be killed at any time.
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(done), encoding="ascii")
        fresh.replace(file)
        if not stop:
            signal.sigtimedwait([], traffic.dice.random())
    # The thread of the host does not matter.
    os._exit(0)


if __name__ == "__main__":
    main()
