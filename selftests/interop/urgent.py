#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Urgent data between our module and the kernel's C implementation.

Covers SMCR-URG-01, URG-03, URG-05.
"""

import fcntl
import select
import socket
import struct
import sys
import termios

import case
import topology
from case import OURS, Alike, Case, both_ways, carried
from ktap import equal
from topology import receive

SIOCATMARK = 0x8905


def at_mark(sock):
    """Whether the urgent mark is next."""
    answer = fcntl.ioctl(sock, SIOCATMARK, bytes(4))
    return struct.unpack("=i", answer)[0] == 1


def unread(sock):
    """SIOCINQ."""
    return struct.unpack("=i", fcntl.ioctl(sock, termios.FIONREAD, bytes(4)))[0]


def urgent_byte(sock):
    """Receives the announced urgent byte. It may still be in flight with nothing else to read, which a
    Python socket with a timeout would wait for."""
    found = []

    def arrived():
        try:
            found.append(sock.recv(1, socket.MSG_OOB))
        except BlockingIOError:
            pass
        return found

    sock.setblocking(False)
    topology.until(arrived, "urgent byte")
    sock.settimeout(topology.BOUND)
    return found[0]


def await_urgent(sock):
    """Waits for EPOLLPRI."""
    poller = select.poll()
    poller.register(sock, select.POLLPRI)
    events = poller.poll(topology.BOUND * 1000)
    equal(bool(events and events[0][1] & select.POLLPRI), True, "urgent data is announced")


class OutOfBand(Case):
    """One urgent byte amid others, from each side in turn, several times.

    The reader takes it before the bytes in front of it, as the C side does not skip one at its
    position.
    """

    rounds = 5

    def prepare(self, sock):
        """Prepares the socket."""

    def speak(self, sock, number):
        """Sends 1000 octets, the urgent byte, and 500 more."""
        sock.sendall(topology.known("before%d" % number, 1000))
        equal(sock.send(b"%d" % (number % 10), socket.MSG_OOB), 1, "urgent byte sent")
        sock.sendall(topology.known("after%d" % number, 500))
        equal(sock.recv(2), b"ok", "answer")

    def hear(self, sock, number):
        """Receives the urgent byte first, then the other octets without it."""
        await_urgent(sock)
        equal(urgent_byte(sock), b"%d" % (number % 10), "urgent byte")
        equal(receive(sock, 1000) == topology.known("before%d" % number, 1000), True, "data before")
        if OURS:
            # The C side has skipped it with the octets before it.
            equal(at_mark(sock), True, "at the mark")
        equal(receive(sock, 500) == topology.known("after%d" % number, 500), True, "data after")
        equal(at_mark(sock), False, "at the mark afterwards")
        sock.sendall(b"ok")

    def go(self, sock, speaks):
        """Runs one side."""
        self.prepare(sock)
        self.meet("prepared")
        for number in range(2 * self.rounds):
            if speaks == bool(number % 2):
                self.speak(sock, number)
            else:
                self.hear(sock, number)
        equal(carried() >= 1, True, "carried by SMC")
        self.meet("told")

    def server(self, listening):
        """Serves."""
        with self.accept(listening) as sock:
            self.go(sock, True)

    def client(self):
        """Connects."""
        with self.connect() as sock:
            self.go(sock, False)


class Inline(OutOfBand):
    """SO_OOBINLINE: the byte is at its position in the stream, and reads stop before it."""

    def prepare(self, sock):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)

    def hear(self, sock, number):
        """Reads up to the mark, then on."""
        await_urgent(sock)
        equal(receive(sock, 1000) == topology.known("before%d" % number, 1000), True, "data before")
        equal(at_mark(sock), True, "at the mark")
        want = b"%d" % (number % 10) + topology.known("after%d" % number, 500)
        equal(receive(sock, 501) == want, True, "urgent byte and data after")
        sock.sendall(b"ok")


class FirstAndLast(Alike):
    """Urgent bytes at the begin and at the end of the stream, with no unread data before them. Our side
    receives, as the C side does not skip such a byte."""

    def go(self, sock):
        """Runs one side."""
        if OURS:
            self.hear(sock)
        else:
            self.speak(sock)

    @staticmethod
    def hear(sock):
        """Reads each at its position."""
        await_urgent(sock)
        equal(urgent_byte(sock), b"f", "first")
        sock.sendall(b"1")
        equal(receive(sock, 3), b"mid", "in between")
        await_urgent(sock)
        equal(urgent_byte(sock), b"l", "last")
        equal(unread(sock), 0, "unread")
        sock.sendall(b"2")
        equal(sock.recv(1), b"", "end")

    @staticmethod
    def speak(sock):
        """Sends each after the one before was read."""
        equal(sock.send(b"f", socket.MSG_OOB), 1, "urgent byte sent")
        equal(receive(sock, 1), b"1", "answer")
        sock.sendall(b"mid")
        equal(sock.send(b"l", socket.MSG_OOB), 1, "urgent byte sent")
        equal(receive(sock, 1), b"2", "answer")


class SecondMark(Alike):
    """An urgent byte follows one that the reader has not read. The C side knows the first until it has
    consumed it, so that the second can be sent."""

    inline = False

    def go(self, sock):
        """Runs one side: ours speaks."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, int(self.inline))
        self.meet("prepared")
        if OURS:
            equal(sock.send(b"abcX", socket.MSG_OOB), 4, "first mark sent")
            self.meet("first")
            self.meet("there")
            equal(sock.send(b"defY", socket.MSG_OOB), 4, "second mark sent")
            sock.sendall(b"ghi")
            self.meet("second")
            equal(receive(sock, 2), b"ok", "answer")
        else:
            self.meet("first")
            await_urgent(sock)
            self.meet("there")
            self.meet("second")
            want = b"abcXdefYghi" if self.inline else b"abcdefghi"
            equal(receive(sock, len(want)), want, "data")
            sock.sendall(b"ok")


class SecondMarkInline(SecondMark):
    """The same with the urgent bytes in the stream."""

    inline = True


class AmidBulk(Case):
    """Urgent bytes during heavy traffic both ways do not disturb it."""

    size = 2 << 20

    def go(self, sock, mine, theirs):
        """Runs one side. Urgent bytes are in line, so that the content of the stream is known."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
        self.meet("inline")
        data = topology.known(mine, self.size)

        def send():
            for start in range(0, self.size, 65536):
                part = data[start:start + 65536]
                sock.sendall(part[:-1])
                sock.send(part[-1:], socket.MSG_OOB)
        child = topology.Child(send)
        equal(receive(sock, self.size) == topology.known(theirs, self.size), True, "data")
        child.expect_success()
        both_ways(sock, mine + "x", theirs + "x", 10000)

    def server(self, listening):
        """Serves."""
        with self.accept(listening) as sock:
            self.go(sock, "s", "c")

    def client(self):
        """Connects."""
        with self.connect() as sock:
            self.go(sock, "c", "s")


if __name__ == "__main__":
    sys.exit(case.run([OutOfBand, Inline, FirstAndLast, SecondMark, SecondMarkInline, AmidBulk]))
