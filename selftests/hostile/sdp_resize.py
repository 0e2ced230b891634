#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A peer of SDP that asks for receive buffers of another size gets what it was told, and its connection
goes on with messages of that size.

Covers SDP-RSZ-08, SDP-RSZ-09, SDP-RSZ-10, SDP-RSZ-11, SDP-RSZ-13, SDP-RSZ-14.
"""

import struct
import sys

import ktap
import raw
import topology
from cm import Requester
from ktap import equal
from sdp_peer import BSDH, CHRCVBUF, CHRCVBUF_ACK, DATA, accepted, octets

# Buffers of the peer.
BUFFERS = 16
# Octets of the buffers of ours, and the most and the least that it changes them to.
SIZE, MOST, LEAST = 32768, 65536, 2048


def ask(peer, sock, wanted):
    """Asks for buffers of `wanted` octets and sends data until the answer; the size in it."""
    answers, done = [], 0

    def answered():
        answers.extend(message.rest for message in peer.read() if message.mid == CHRCVBUF_ACK)
        return answers
    peer.send(CHRCVBUF, struct.pack("!I", wanted))
    for _ in range(64):
        peer.qp.quiet()
        if answered():
            break
        peer.send(DATA, octets(done, 100))
        equal(sock.recv(100, raw.socket.MSG_WAITALL), octets(done, 100), "data before the answer")
        done += 100
    equal(len(peer.qp.host.wait(answered, "the answer")), 1, "answers")
    return struct.unpack("!I", answers[0])[0]


def resize(wanted, size):
    """Makes a test: the answer to a request is `size`, and messages of that size arrive."""
    def run():
        with raw.Host() as host, topology.listener("b") as listening:
            requester = Requester(host)
            sock, peer = accepted(requester, listening, BUFFERS)
            equal(ask(peer, sock, wanted), size, "size in the answer")
            for _ in range(3):
                peer.send(DATA, octets(0, size - BSDH))
                equal(sock.recv(size - BSDH, raw.socket.MSG_WAITALL), octets(0, size - BSDH), "data")
                list(peer.read())
            sock.send(b"answer")
            equal(peer.data(6), b"answer", "data of ours")
            equal(peer.qp.refused, None, "refusal")
            peer.end(sock)
            requester.close()
        topology.all_gone()
    run.name = "buffers_of_%d_octets_are_answered_with_%d" % (wanted, size)
    return run


def main():
    """Runs all tests."""
    topology.need_module()
    topology.netns("up")
    with topology.engine("sdp"):
        return ktap.run([resize(wanted, size) for wanted, size in (
            (40000, MOST), (MOST, MOST), (1 << 31, MOST), (SIZE, SIZE), (8192, 8192), (37, LEAST))])


if __name__ == "__main__":
    sys.exit(main())
