# SPDX-License-Identifier: GPL-2.0
"""Messages of the InfiniBand connection manager over RoCEv2, and the Hello of SDP in them, from hosts
that exist in these packets only."""

import collections
import socket
import struct

import raw
import roce
import topology
from ktap import equal

UD_SEND_ONLY = 0x64
GSI_KEY = 0x80010000
CM_CLASS, CLASS_VERSION, SEND = 7, 2, 3
REQUEST, REJECTION, REPLY, READY, GOODBYE = 0x10, 0x12, 0x13, 0x14, 0x15
SDP_SERVICE = 0x10000
# The time of a requester for its answer to the reply, 4.096 us times two to this power, and how often the
# reply is sent: longer than the other side may wait.
PATIENCE, RETRIES = 22, 15
# Reasons of a rejection.
NO_RESOURCES, INVALID_SERVICE, CONSUMER = 3, 8, 28


def mapped(address):
    """An IPv4 address as a GID."""
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def hello(port, source, destination, bufs=13, version=0x22):
    """A Hello in the form of InfiniBand, 92 octets."""
    head = struct.pack("!BBHIII", 0, 0, bufs, 92, 0, 0)
    rest = struct.pack("!BBBBIIHH", version, 0x40, 0, 16, 16384, 16384, port, 0)
    addresses = bytes(12) + socket.inet_aton(source) + bytes(12) + socket.inet_aton(destination)
    return (head + rest + addresses).ljust(92, b"\0")


def hello_ack(bufs, size):
    """A HelloAck in the form of InfiniBand, for `bufs` receive buffers of `size` octets."""
    head = struct.pack("!BBHIII", 1, 0, bufs, 196, 0, 0)
    return (head + struct.pack("!BBBBI", 0x22, 0, 0, 16, size)).ljust(196, b"\0")


class Request:
    """A request of the kernel for a connection."""

    def __init__(self, octets):
        self.number, _, service = struct.unpack("!IIQ", octets[:16])
        self.port = service - SDP_SERVICE
        self.qpn, self.psn = (int.from_bytes(octets[at:at + 3], "big") for at in (32, 44))
        # The host that is asked.
        self.target = socket.inet_ntoa(octets[84:88])
        self.hello = octets[140:232]
        self.bufs, = struct.unpack("!H", self.hello[2:4])
        self.source_port, = struct.unpack("!H", self.hello[28:30])


class Requester:
    """Sends requests for connections from any host, and keeps the answers by the id of the request, and the
    requests of the kernel. It is queue pair 1 of the raw host."""

    def __init__(self, host):
        self.host = host
        self.target = topology.HOSTS[socket.AF_INET]["b"]
        self.packets, self.next_id = 0, 0x5000
        # What has come: attribute, and for a rejection the reason.
        self.answers = collections.defaultdict(list)
        # Of an answered request: the id of the kernel, and its queue pair with the first packet number.
        self.theirs, self.ends = {}, {}
        # The number of receive buffers in its HelloAck.
        self.bufs = {}
        # Requests of the kernel, and what it has said about ids of ours.
        self.requests, self.ready_ids, self.ended_ids = collections.deque(), set(), set()
        self.seen = set()
        with host.lock:
            host.qps[1] = self

    def close(self):
        """Takes no packets any longer."""
        with self.host.lock:
            self.host.qps.pop(1, None)

    def new_host(self, number):
        """The address of a host of its own, which the kernel can answer to."""
        address = "10.9.0.%d" % (100 + number)
        topology.command("ip", "-n", "rs-b", "neigh", "replace", address, "lladdr", raw.MAC.hex(":"),
                         "dev", "vb", "nud", "permanent")
        return address

    def send(self, source, attribute, payload):
        """Sends one message."""
        self.packets += 1
        head = struct.pack("!BBBBHHQHHI", 1, CM_CLASS, CLASS_VERSION, SEND, 0, 0, self.packets, attribute,
                           0, 0)
        mad = (head + payload).ljust(256, b"\0")
        bth = struct.pack("!BBHII", UD_SEND_ONLY, 0, 0xffff, 1, self.packets & roce.MASK)
        rest = bth + struct.pack("!II", GSI_KEY, 1) + mad
        udp = struct.pack("!HHHH", 0xc1c1, raw.ROCE_PORT, 8 + len(rest) + 4, 0)
        with self.host.lock:
            ip = self.host.ip_header(socket.IPPROTO_UDP, len(udp) + len(rest) + 4, source)
            self.host.raw.send(raw.MAC_HEADER % (self.host.theirs, raw.MAC) + ip + udp + rest +
                               roce.icrc(ip, udp, rest))

    def request(self, source, port, octets=None):
        """Sends a request for a service; its id. `octets` are the Hello, if not the right one."""
        self.next_id += 1
        number = self.next_id
        if octets is None:
            octets = hello(20000 + number % 20000, source, self.target)
        # Another adapter for each host, and another queue pair for each request.
        guid = int.from_bytes(socket.inet_aton(source), "big") << 16 | 0x66
        payload = struct.pack("!IIQQQII", number, 0, SDP_SERVICE + port, guid, 0, number << 8 | 8, 8)
        payload += struct.pack("!II", 16 << 3 | 1, number << 8 | PATIENCE << 3 | 7)
        payload += struct.pack("!HBBHH", 0xffff, 3 << 4 | 7, RETRIES << 4, 0, 0)
        payload += mapped(source) + mapped(self.target)
        payload += struct.pack("!IBBBB", 7, 0, 64, 8, 16 << 3)
        self.send(source, REQUEST, payload.ljust(140, b"\0") + octets)
        return number

    def ready(self, source, number):
        """Says that the connection of an answered request is there."""
        self.send(source, READY, struct.pack("!II", number, self.theirs[number]))

    def take(self, bth, body):
        """Handles a message of the kernel."""
        mad = body[8:]
        attribute, = struct.unpack("!H", mad[16:18])
        theirs, number = struct.unpack("!II", mad[24:32])
        if bth[0] == UD_SEND_ONLY and attribute == REPLY:
            self.theirs[number] = theirs
            self.ends[number] = tuple(int.from_bytes(mad[at:at + 3], "big") for at in (36, 44))
            self.bufs[number], = struct.unpack("!H", mad[62:64])
            self.answers[number].append((REPLY, 0))
        elif bth[0] == UD_SEND_ONLY and attribute == REJECTION:
            self.answers[number].append((REJECTION, struct.unpack("!H", mad[34:36])[0]))
        elif bth[0] == UD_SEND_ONLY and attribute == REQUEST:
            request = Request(mad[24:])
            # It is repeated until there is an answer.
            if request.number not in self.seen:
                self.seen.add(request.number)
                self.requests.append(request)
        elif bth[0] == UD_SEND_ONLY and attribute == READY:
            self.ready_ids.add(number)
        elif bth[0] == UD_SEND_ONLY and attribute == GOODBYE:
            self.ended_ids.add(number)

    def answer(self, number):
        """Waits for the first answer to a request."""
        self.host.wait(lambda: self.answers[number], "answer to request %d" % number)
        return self.answers[number][0]

    def next_request(self):
        """Waits for the next request of the kernel."""
        self.host.wait(lambda: self.requests, "a request")
        return self.requests.popleft()

    def accept(self, request, bufs, size=16384):
        """Accepts a request; the number of the connection, and its queue pair."""
        self.next_id += 1
        number, qp = self.next_id, roce.Qp(self.host, (request.target, raw.MAC))
        # Each message names the first packet of the other side.
        payload = struct.pack("!IIIIII", number, request.number, 0, qp.qpn << 8, 0, qp.expected << 8)
        with self.host.lock:
            qp.psn = request.psn
            qp.connect(request.qpn, qp.expected)
        payload += struct.pack("!BBBBQ", 4, 4, 0, 7 << 5, 0x66)
        self.send(request.target, REPLY, payload + hello_ack(bufs, size))
        return number, qp

    def reject(self, request):
        """Refuses a request."""
        payload = struct.pack("!IIBBH", 0, request.number, 0, 0, CONSUMER)
        self.send(request.target, REJECTION, payload)

    def connect(self, source, port, bufs):
        """A connection with `bufs` receive buffers; its queue pair, which gives no credits by itself."""
        number = self.request(source, port, hello(20000, source, self.target, bufs))
        equal(self.answer(number), (REPLY, 0), "answer")
        qp = roce.Qp(self.host, (source, raw.MAC))
        other, first = self.ends[number]
        with self.host.lock:
            # The request has named the queue pair. Each message names the first packet of the other side.
            self.host.qps[number] = qp
            qp.psn = first
        qp.connect(other, number)
        self.ready(source, number)
        return qp
