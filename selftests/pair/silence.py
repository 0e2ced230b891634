#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A kernel falls silent as after a power failure: no frame leaves or reaches it. Both sides get errors
in bounded time, and connections work again afterwards. Of SDP, each connection has a link of its own, so
that an idle one needs SO_KEEPALIVE for that, as with TCP."""

import socket
import sys

import guests
import topology
from guests import PairTest, expect_mode, sync
from ktap import equal
from topology import Child, error_of, known, receive

# Retransmission detects the silence, or the test of an idle link after 30 seconds.
SECONDS = 100

# Every frame that enters the kernel is dropped.
DEAF = """
table netdev silence {
	chain in {
		type filter hook ingress device net0 priority 0; policy drop;
	}
}
"""
# A firewall drops every packet that enters the kernel.
FIREWALL = """
table inet silence {
	chain in {
		type filter hook input priority 0; policy drop;
	}
}
"""


def be_silent(rules, mute):
    """Drops what the rules say. `mute`: and every frame that leaves, behind the stack: a rule there would
    tell rdma_rxe, whose GSI queue pair then breaks for good."""
    with open("/run/silence.nft", "w", encoding="ascii") as f:
        f.write(rules)
    topology.command("nft", "-f", "/run/silence.nft")
    if mute:
        topology.command("tc", "qdisc", "add", "dev", "net0", "root", "netem", "loss", "100%")


def speak(rules, mute):
    """Lets frames pass again."""
    topology.command("nft", "delete", *rules.split()[:3])
    if mute:
        topology.command("tc", "qdisc", "delete", "dev", "net0", "root")


def stream_until_error(sock):
    """Sends until an error, which must be one of a lost connection."""
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
    """Guest a falls silent while b sends on one connection and waits on another."""
    # CLS-33, KAL-04, KAL-05, SDP-KA-01, SDP-KA-03, SDP-ERRNO-9.

    rules = DEAF
    # As after a power failure.
    mute = True

    def watch(self, idle):
        """Has an idle connection tested."""
        if self.engine == "sdp":
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            idle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)

    def server(self, listening):
        """Reads for a while, falls silent, and gets an error too."""
        busy, idle = self.accept(listening), self.accept(listening)
        # Of connections that are made one after the other, the second may be ready for accept first.
        if str(busy.getpeername()[1]) != sync(self.name + ".busy"):
            busy, idle = idle, busy
        expect_mode(busy, "rdma")
        self.watch(idle)
        receive(busy, 500000)
        be_silent(self.rules, self.mute)
        try:
            sleeper = Child(lambda: wait_for_error(idle))
            writer = Child(lambda: stream_until_error(busy))
            sleeper.expect_success(SECONDS + 5)
            writer.expect_success(SECONDS + 5)
            sync(self.name + ".told")
        finally:
            speak(self.rules, self.mute)
        busy.close()
        idle.close()

    def client(self, connect):
        """Sends on one connection, sleeps on the other."""
        busy, idle = connect(), connect()
        sync(self.name + ".busy", str(busy.getsockname()[1]))
        expect_mode(idle, "rdma")
        self.watch(idle)
        sleeper = Child(lambda: wait_for_error(idle))
        stream_until_error(busy)
        sleeper.expect_success(SECONDS + 5)
        sync(self.name + ".told")
        busy.close()
        idle.close()


class Firewall(Silence):
    """Guest a hears nothing, and its own packets get no answer."""

    rules = FIREWALL
    mute = False


class Afterwards(PairTest):
    """New connections use RDMA again, with a new link group."""
    # RDV-01.

    def server(self, listening):
        """Echoes."""
        guests.accept_until(self, listening)
        sock = self.accept(listening)
        sock.sendall(receive(sock, 5000))
        equal(sock.recv(1), b"", "end")
        sock.close()

    def client(self, connect):
        """Compares the echo."""
        guests.connect_by_rdma(self, connect)
        sock = connect()
        expect_mode(sock, "rdma")
        sock.sendall(known(1, 5000))
        equal(receive(sock, 5000) == known(1, 5000), True, "data")
        sock.close()


if __name__ == "__main__":
    sys.exit(guests.run([Silence, Firewall, Afterwards], [socket.AF_INET], engines=("smc", "sdp")))
