#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A SYN is retransmitted while its connection becomes established and the copy of the SYN is freed. The
module frees the copy, or TCP does with the listener, or no part of the kernel."""

import os
import socket
import subprocess
import sys

import ktap
import topology
import wire
from ktap import equal, named
from wire import ACK, IPS, PSH, RST, SYN, Peer

MSS = bytes.fromhex("020405b4")
OFFER = MSS + b"\1\1" + wire.SMC
DATA = b"no message of the handshake"
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
TCP_SAVE_SYN = 27
# Number of connections whose SYN a second processor retransmits.
ROUNDS = 400 // topology.SLOW


class Repeater:
    """A process on a processor of its own that sends given frames."""

    def __init__(self, link):
        self.link = link
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def run():
            self.ours.close()
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
            while frame := theirs.recv(2048):
                for _ in range(3):
                    link.raw.send(frame)
                theirs.send(b"sent")
        self.child = topology.Child(run)
        theirs.close()

    def send(self, segment):
        """Schedules a segment for this moment."""
        self.ours.send(segment.frame(*self.link.macs))

    def wait(self):
        """Waits until the segment is sent."""
        self.ours.recv(10)

    def close(self):
        """Ends the process."""
        self.ours.close()
        self.child.expect_success()


def repeated_syns(link, version, saving, closing):
    """Each connection works, or is reset with its listener, for every order of SYNs and ACK."""
    repeater = Repeater(link)
    family = FAMILIES[version]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    server = None
    for number in range(ROUNDS):
        if server is None:
            server = topology.new_socket(None, family)
            server.bind((IPS[version][0], 0))
            server.setsockopt(socket.IPPROTO_TCP, TCP_SAVE_SYN, saving)
            server.listen(16)
            server.settimeout(20 * topology.SLOW)
        peer = Peer(link, version, 10000 + number)
        peer.other_port = server.getsockname()[1]
        syn = peer.send(SYN, OFFER)
        answer = peer.receive(SYN | ACK)
        equal(answer.experiments(), [wire.SMC], "the option")
        repeater.send(syn)
        peer.send(ACK)
        if closing:
            # Whether TCP has made a child of the SYN or not.
            server.close()
            server = None
            repeater.wait()
        else:
            # A later SYN would start a new connection.
            repeater.wait()
            peer.send(ACK | PSH, data=DATA)
            child, _ = server.accept()
            equal(child.recv(100), DATA, "data")
            peer.send(RST | ACK)
            child.close()
        link.drain()
    repeater.close()
    if server:
        server.close()
    os.sched_setaffinity(0, range(os.cpu_count()))


def main():
    """Runs the tests with a raw peer."""
    topology.need_module()
    os.unshare(os.CLONE_NEWNET)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    link = wire.Wire()
    tests = []
    for version in FAMILIES:
        for saving, closing in ((0, False), (1, False), (0, True)):
            name = "ipv%d.repeated_syns%s%s" % (version, ".saving" if saving else "",
                                                ".closing" if closing else "")
            tests.append(named(name, repeated_syns, link, version, saving, closing))
    status = ktap.run(tests)
    link.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
