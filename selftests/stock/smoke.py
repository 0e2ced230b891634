#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Two kernels of the distribution: a connection, 8 MiB both ways by RDMA, and a fallback."""

import hashlib
import os
import socket
import sys
import threading

import guests
from guests import SERVER, PairTest, expect_mode
from ktap import equal
from topology import receive

SIZE = 8 << 20


class ByRdma(PairTest):
    """8 MiB of random octets in each direction, compared by their hashes."""

    want = "rdma"

    def both_ways(self, sock):
        """Sends and receives; then both sides exchange the hashes."""
        expect_mode(sock, self.want)
        out = os.urandom(SIZE)
        sender = threading.Thread(target=sock.sendall, args=(out,))
        sender.start()
        got = receive(sock, SIZE)
        sender.join()
        theirs = guests.sync(self.name + ".hash", hashlib.sha256(out).hexdigest())
        equal(hashlib.sha256(got).hexdigest(), theirs, "hash")
        self.sent_by_rdma(SIZE if self.want == "rdma" else 0)
        sock.close()

    def server(self, listening):
        """Runs the transfer."""
        self.both_ways(self.accept(listening))

    def client(self, connect):
        """Runs the transfer."""
        self.both_ways(connect())


class ByTcp(ByRdma):
    """One side is plain TCP, so the other side falls back."""

    want = "tcp"
    smc = SERVER


if __name__ == "__main__":
    sys.exit(guests.run([guests.FirstContact, ByRdma, ByTcp], [socket.AF_INET, socket.AF_INET6]))
