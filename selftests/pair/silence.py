#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The other kernel falls silent, as if its power had gone: nothing it sends arrives any more, and
nothing arrives there. Both sides are told in bounded time; afterwards connections work again."""

import socket
import sys

import guests
import topology
from guests import PairTest, expect_mode, sync
from ktap import equal
from topology import Child, error_of, known, receive

# The peer's silence is found by retransmission, or by a test of the idle link after 30 seconds.
SECONDS = 100

SILENCE = """
table netdev silence {
	chain in {
		type filter hook ingress device net0 priority 0; policy drop;
	}
	chain out {
		type filter hook egress device net0 priority 0; policy drop;
	}
}
"""


def be_silent():
    """No frame leaves or enters this kernel."""
    with open("/run/silence.nft", "w", encoding="ascii") as f:
        f.write(SILENCE)
    topology.command("nft", "-f", "/run/silence.nft")


def speak():
    """Frames pass again."""
    topology.command("nft", "delete", "table", "netdev", "silence")


def stream_until_error(sock):
    """Sends until an error, which has to be one of the connection."""
    sock.settimeout(SECONDS)
    error = "none"
    while error == "none":
        error = error_of(sock.sendall, known("x", 50000))
    equal(error == "late", False, "no error in %d s" % SECONDS)


def wait_for_error(sock):
    """Sleeps in recv() until an error."""
    sock.settimeout(SECONDS)
    equal(error_of(sock.recv, 1) in ("none", "late"), False, "an error in %d s" % SECONDS)


class Silence(PairTest):
    """a falls silent while b sends on one connection and waits on another."""
    # CLS-33, KAL-04, KAL-05.

    def server(self, listening):
        """Reads a while, then falls silent; is told as well."""
        busy, idle = self.accept(listening), self.accept(listening)
        expect_mode(busy, "smc")
        receive(busy, 500000)
        be_silent()
        try:
            sleeper = Child(lambda: wait_for_error(idle))
            writer = Child(lambda: stream_until_error(busy))
            sleeper.expect_success(SECONDS + 5)
            writer.expect_success(SECONDS + 5)
            sync(self.name + ".told")
        finally:
            speak()
        busy.close()
        idle.close()

    def client(self, connect):
        """Sends on one, sleeps on the other."""
        busy, idle = connect(), connect()
        expect_mode(idle, "smc")
        sleeper = Child(lambda: wait_for_error(idle))
        stream_until_error(busy)
        sleeper.expect_success(SECONDS + 5)
        sync(self.name + ".told")
        busy.close()
        idle.close()


class Afterwards(PairTest):
    """New connections go by RDMA again: the dead link group is not used any more."""
    # RDV-01.

    def server(self, listening):
        """Echoes."""
        sock = self.accept(listening)
        sock.sendall(receive(sock, 5000))
        equal(sock.recv(1), b"", "end")
        sock.close()

    def client(self, connect):
        """Compares."""
        sock = connect()
        expect_mode(sock, "smc")
        sock.sendall(known(1, 5000))
        equal(receive(sock, 5000) == known(1, 5000), True, "data")
        sock.close()


if __name__ == "__main__":
    sys.exit(guests.run([Silence, Afterwards], [socket.AF_INET]))
