#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Our module in two kernels: streams of all shapes use RDMA, and every octet is compared."""

import random
import select
import sys
import threading

import guests
import topology
from guests import PairTest, expect_mode
from ktap import equal
from topology import error_of, known, receive

MIB = 1 << 20


class Bulk(PairTest):
    """16 MiB in each direction at the same time."""
    # GEN-01, TST-001.

    size = 16 * MIB

    def both_ways(self, sock, out, back):
        """Sends one stream and compares the other."""
        expect_mode(sock, "rdma")
        sender = threading.Thread(target=sock.sendall, args=(known(out, self.size),))
        sender.start()
        equal(receive(sock, self.size) == known(back, self.size), True, "data")
        sender.join()
        self.sent_by_rdma(self.size)
        guests.sync(self.name + ".done")
        sock.close()

    def server(self, listening):
        """The stream from a to b."""
        self.both_ways(self.accept(listening), "a", "b")

    def client(self, connect):
        """The stream from b to a."""
        self.both_ways(connect(), "b", "a")


class PingPong(PairTest):
    """A thousand requests and answers of changing sizes."""

    sizes = [random.Random(n).choice((1, 2, 63, 64, 1000, 4096, 10000)) for n in range(1000)]

    def server(self, listening):
        """Answers."""
        sock = self.accept(listening)
        for size in self.sizes:
            sock.sendall(receive(sock, size))
        equal(sock.recv(1), b"", "end")
        self.sent_by_rdma(sum(self.sizes))
        sock.close()

    def client(self, connect):
        """Sends requests."""
        sock = connect()
        expect_mode(sock, "rdma")
        data = known("ping", 10000)
        for number, size in enumerate(self.sizes):
            sock.sendall(data[:size])
            equal(receive(sock, size) == data[:size], True, "answer %d" % number)
        self.sent_by_rdma(sum(self.sizes))
        sock.close()


class Parallel(PairTest):
    """200 connections at once. A client of SDP that has no answer within 2 s uses TCP, so that a slow kernel
    gets fewer, and each makes some at a time."""
    # RMB-02, RMB-04, RDV-20, RDV-21.

    count = 200 // topology.SLOW
    size = 20000

    def server(self, listening):
        """Accepts all connections before it answers the first."""
        socks = [self.accept(listening) for _ in range(self.count)]
        for sock in socks:
            sock.sendall(receive(sock, self.size))
        for sock in socks:
            equal(sock.recv(1), b"", "end")
            sock.close()
        self.sent_by_rdma(self.count * self.size)

    def client(self, connect):
        """Connects from many threads."""
        socks = []
        wave = self.count if self.engine == "smc" else 20
        for begun in range(0, self.count, wave):
            threads = [threading.Thread(target=lambda: socks.append(connect()))
                       for _ in range(min(wave, self.count - begun))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        equal(len(socks), self.count, "connections")
        for number, sock in enumerate(socks):
            sock.sendall(known(number, self.size))
        for number, sock in enumerate(socks):
            equal(receive(sock, self.size) == known(number, self.size), True, "data %d" % number)
            sock.close()
        self.sent_by_rdma(self.count * self.size)


class Sequence(PairTest):
    """300 connections one after the other."""
    # LGR-22, RDV-20.

    count = 300

    def server(self, listening):
        """Serves one connection at a time."""
        for _ in range(self.count):
            sock = self.accept(listening)
            sock.sendall(receive(sock, 500))
            equal(sock.recv(1), b"", "end")
            sock.close()
        self.sent_by_rdma(self.count * 500)

    def client(self, connect):
        """Makes one connection at a time."""
        for number in range(self.count):
            sock = connect()
            sock.sendall(known(number, 500))
            equal(receive(sock, 500) == known(number, 500), True, "data")
            sock.close()
        self.sent_by_rdma(self.count * 500)
        equal(self.increase(self.engine + "_clnt_conns"), self.count, "connections")


class HalfClose(PairTest):
    """An answer after the end of the request."""
    # CLS-59, TST-026.

    size = 3 * MIB

    def server(self, listening):
        """Reads to the end, then answers."""
        sock = self.accept(listening)
        equal(receive(sock, 1000) == known("question", 1000), True, "question")
        equal(sock.recv(1), b"", "end of the question")
        sock.sendall(known("answer", self.size))
        sock.close()

    def client(self, connect):
        """Sends a request, shuts down and reads."""
        sock = connect()
        expect_mode(sock, "rdma")
        sock.sendall(known("question", 1000))
        sock.shutdown(1)
        equal(receive(sock, self.size) == known("answer", self.size), True, "answer")
        equal(sock.recv(1), b"", "end of the answer")
        sock.close()


class Reset(PairTest):
    """Closing a socket with unread data is an error for the peer."""
    # CLS-02, TST-141.

    def server(self, listening):
        """Does not read."""
        sock = self.accept(listening)
        equal(select.select([sock], [], [], topology.BOUND)[0], [sock], "readable")
        sock.close()

    def client(self, connect):
        """Gets an error."""
        sock = connect()
        expect_mode(sock, "rdma")
        sock.sendall(b"unread")
        equal(error_of(sock.recv, 1), "ECONNRESET", "recv")
        sock.close()


if __name__ == "__main__":
    sys.exit(guests.run([guests.FirstContact, Bulk, PingPong, Parallel, Sequence, HalfClose, Reset],
                        engines=("smc", "sdp")))
