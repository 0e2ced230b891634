# SPDX-License-Identifier: GPL-2.0
"""The end of a connection of SDP that exists in packets only."""

import collections
import struct

import topology
from ktap import equal

DISCONN = 0x02
CHRCVBUF, CHRCVBUF_ACK, SUSPCOMM, SUSPCOMM_ACK, DATA = 0x0b, 0x0c, 0x0d, 0x0e, 0xff
BSDH = 16
URGENT_HERE, URGENT_SOON = 1, 2

Message = collections.namedtuple("Message", "mid flags rest")


def octets(start, count):
    """Part of a stream."""
    return bytes((start + i) * 7 + (start + i >> 8) & 0xff for i in range(count))


def accepted(requester, listening, bufs):
    """A connection of the kernel's listener: its socket, and the peer, which has `bufs` receive buffers."""
    qp = requester.connect(requester.new_host(0), listening.getsockname()[1], bufs)
    listening.settimeout(topology.BOUND)
    sock, _ = listening.accept()
    sock.settimeout(topology.BOUND)
    equal(topology.mode("b", sock)[0], "sdp", "mode")
    return sock, Peer(qp, bufs)


def nothing_is_left():
    """Waits until the kernel has no connection, and its side no buffer."""
    topology.all_gone()
    topology.until(lambda: topology.counter("b", "buffer_bytes") == 0, "buffers are left")


class Peer:
    """It gives all of its `bufs` credits back with each message that it sends."""

    def __init__(self, qp, bufs):
        self.qp, self.bufs = qp, bufs
        # Messages that were sent, that have come, and those of these that the other end knows of.
        self.sent = self.heard = self.told = 0

    def read(self):
        """The messages that have come since the last call."""
        while self.qp.inbox:
            message = self.qp.inbox.popleft()
            mid, flags = struct.unpack("!BB", message[:2])
            self.heard += 1
            yield Message(mid, flags, message[BSDH:])

    def send(self, mid, rest=b"", ask=True):
        """Sends one message."""
        self.sent, self.told = self.sent + 1, self.heard
        head = struct.pack("!BBHIII", mid, 0, self.bufs, BSDH + len(rest), self.sent, self.heard)
        self.qp.send(head + rest, ask)

    def suspend(self, port):
        """Asks the other end to connect to a port."""
        self.send(SUSPCOMM, struct.pack("!IHH", 0, 1, port))

    def end(self, sock):
        """Has the program close its socket, and then ends the connection as well."""
        sock.close()
        self.wait(lambda message: message.mid == DISCONN, "DisConn", self.give_back)
        self.send(DISCONN)
        self.qp.quiet()

    def give_back(self):
        """Gives credits back once half of the buffers are used."""
        if self.heard - self.told >= self.bufs // 2:
            self.send(DATA)

    def wait(self, condition, what, then=lambda: None):
        """Reads until a message is as wanted; all messages up to it. Calls `then` after each reading."""
        found = []

        def there():
            found.extend(self.read())
            then()
            return any(condition(message) for message in found)
        self.qp.host.wait(there, what)
        return found

    def data(self, size):
        """Waits for octets of the stream, and gives credits back."""
        found = b""

        def there():
            nonlocal found
            found += b"".join(message.rest for message in self.read() if message.mid == DATA)
            self.give_back()
            return len(found) >= size
        self.qp.host.wait(there, "%d octets by SDP" % size)
        return found
