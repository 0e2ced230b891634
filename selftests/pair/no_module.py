#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""One of two kernels has no module: connections use TCP, and no data are lost in either direction."""

import socket
import subprocess
import sys

import guests
import topology
from guests import SERVER, PairTest, expect_mode
from ktap import Skip, equal
from topology import known, receive

SIZE = 2 << 20
# The host of the peer has no SDP: it refuses the question to its Port Mapper.
SDP_ABSENT = 0x7f000108


def unload():
    """Removes the module; a function that loads it again."""
    file, parameters = topology.module_file(), topology.module_parameters()
    if file is None:
        raise Skip("the module's file is not here, so it could not be loaded again")
    topology.until(lambda: topology.module_users() == 0, "the module is in use")
    topology.command("rmmod", "rdma_sock")
    return [str(file), *parameters]


class Absent(PairTest):
    """Base of both directions: one side unloads the module."""

    here = False
    words = None

    def prepare(self):
        """Unloads the module on one side."""
        if self.here:
            self.words = unload()
            self.smc = False

    def restore(self):
        """Loads the module again."""
        if self.words:
            subprocess.run(["insmod", *self.words], check=True)

    def check(self, sock):
        """Fails unless this side sent no octet by RDMA."""
        if not self.here:
            expect_mode(sock, "tcp")
            self.sent_by_rdma(0)

    def server(self, listening):
        """Echoes three connections."""
        self.greeted(listening)
        for _ in range(3):
            sock = self.accept(listening)
            sock.sendall(receive(sock, SIZE))
            equal(sock.recv(1), b"", "end")
            self.check(sock)
            sock.close()

    def greeted(self, listening):
        """What comes first."""

    def client(self, connect):
        """Compares the echo."""
        for number in range(3):
            sock = connect()
            data = known(number, SIZE)
            sender = topology.Child(lambda s=sock, d=data: s.sendall(d))
            equal(receive(sock, SIZE) == data, True, "data")
            sender.expect_success()
            self.check(sock)
            sock.close()


class AbsentAtTheServer(Absent):
    """The client offers SMC-R and gets no answer to the offer, or the server's host refuses the question
    for SDP."""

    here = SERVER

    def refusals(self):
        """Refusals of the question, in this test."""
        return self.increase("sdp_fallback_reason_%08x" % SDP_ABSENT)

    def greeted(self, listening):
        """Accepts until the host has refused a question in time."""
        if self.engine == "sdp":
            guests.accept_until(self, listening)

    def client(self, connect):
        """Also looks at the reason, which tells a refusal from silence."""
        if self.engine == "sdp":
            guests.connect_until(self, connect, lambda _: self.refusals() > 0, "a refusal")
        before = self.refusals()
        super().client(connect)
        if self.engine == "sdp":
            equal(self.refusals() - before, 3, "refusals")


class AbsentAtTheClient(Absent):
    """The client offers nothing."""

    here = not SERVER


class BackAgain(PairTest):
    """Both sides have the module again: connections use RDMA. A client of SDP asks a host that has refused
    again after 30 seconds."""

    def server(self, listening):
        """Echoes."""
        guests.accept_until(self, listening)
        sock = self.accept(listening)
        expect_mode(sock, "rdma")
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
        self.sent_by_rdma(5000)


if __name__ == "__main__":
    with topology.no_autoload():
        sys.exit(guests.run([AbsentAtTheServer, AbsentAtTheClient, BackAgain],
                            [socket.AF_INET, socket.AF_INET6], ("smc", "sdp")))
