# SPDX-License-Identifier: GPL-2.0
"""A decoder of SDP on RoCEv2 that shares nothing with the module: frames of a capture become the
messages of connections, and `Judge` follows a connection by the rules of the draft.

Layout: IDs first (SDP-WIRE-01), as on InfiniBand. Hello is in the private data of the connection
manager's REQ, HelloAck in that of its REP.
"""

import dataclasses
import ipaddress
import struct

ROCE_PORT = 4791
# Service ids of SDP: this number and the port.
SERVICE = 0x10000

# Packets of an unreliable datagram, and those of reliable connections that carry messages: whether
# one begins and ends the message, and octets between the transport header and the payload.
UD_SEND = 0x64
SENDS = {0x00: (True, False, 0), 0x01: (False, False, 0), 0x02: (False, True, 0),
         0x04: (True, True, 0), 0x16: (False, True, 4), 0x17: (True, True, 4)}
# RDMA writes and reads, with their answers, and acknowledgments.
RDMA = {0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10}
WRITE_ONLY = 0x0a
# Of the header of an RDMA write: address, key, and the number of octets.
RETH = struct.Struct("!QII")
ACK = 0x11

# The connection manager: its class, and its messages with the place of their private data.
CM_CLASS = 7
MAD_HEAD = 24
REQ, REJ, REP, RTU, DREQ, DREP = 0x10, 0x12, 0x13, 0x14, 0x15, 0x16
PRIVATE = {REQ: (140, 92), REP: (36, 196)}

HELLO, HELLO_ACK, DIS_CONN, ABORT_CONN, DATA = 0x00, 0x01, 0x02, 0x03, 0xff
# MIDs with the octets of their extended header; the others are reserved (SDP-MID-90).
EXTENDED = {HELLO: 76, HELLO_ACK: 180, DIS_CONN: 0, ABORT_CONN: 0, 0x04: 0, 0x05: 4, 0x06: 4, 0x07: 4,
            0x08: 0, 0x09: 0, 0x0a: 0, 0x0b: 4, 0x0c: 4, 0x0d: 8, 0x0e: 0, 0xfd: 20, 0xfe: 16, DATA: 0}
# Those that may have payload (SDP-BSDH-24).
WITH_PAYLOAD = {0xfd, 0xfe, DATA}
# Those in which REQ_PIPE has a meaning (SDP-BSDH-11).
WITH_REQ_PIPE = {0x05, 0x06}
OOB_PRES, OOB_PEND, REQ_PIPE = 1, 2, 4
BSDH_LEN = 16
# Least buffers (SDP-BUFP-04) and octets of each of them (SDP-BUFP-07).
LEAST_BUFFERS, LEAST_SIZE = 3, 37
# Credits that are kept from messages with payload (SDP-CRED-30).
RESERVE = 2
WRAP = 1 << 32


class Malformed(AssertionError):
    """A rule of the draft is broken; the message names it."""


def need(condition, rule, what):
    """Fails unless a rule is kept."""
    if not condition:
        raise Malformed("%s: %s" % (rule, what))


@dataclasses.dataclass
class Packet:
    """A RoCEv2 packet of a capture."""
    frame: int
    source: bytes
    dest: bytes
    opcode: int
    qpn: int
    psn: int
    payload: bytes


@dataclasses.dataclass
class Message:
    """An SDP message; `frame` is the number of the frame that it begins in."""
    frame: int
    mid: int
    flags: int
    bufs: int
    length: int
    mseq: int
    mseq_ack: int
    octets: bytes

    @classmethod
    def parse(cls, frame, octets):
        """Reads the BSDH."""
        need(len(octets) >= BSDH_LEN, "SDP-BSDH-01", "%d octets" % len(octets))
        return cls(frame, *struct.unpack("!BBHIII", octets[:BSDH_LEN]), octets)

    @property
    def payload(self):
        """The octets behind the headers."""
        return self.octets[BSDH_LEN + EXTENDED[self.mid]:]


@dataclasses.dataclass
class Hello:
    """What is behind the BSDH in a Hello."""
    version: tuple
    ipv: int
    cap: int
    adverts: int
    desired: int
    size: int
    port: int
    source: bytes
    dest: bytes
    extended_adverts: int

    @classmethod
    def parse(cls, octets):
        """Reads the octets of a Hello, with the BSDH."""
        version, ipv, _, adverts, desired, size, port = struct.unpack("!BBBBIIH", octets[16:30])
        extended = struct.unpack("!H", octets[66:68])[0]
        return cls((version >> 4, version & 15), ipv >> 4, ipv & 15, adverts, desired, size, port,
                   octets[32:48], octets[48:64], extended)

    def addresses(self):
        """Source and destination; those of IPv4 are in the last four octets."""
        if self.ipv == 4:
            need(not any(self.source[:12] + self.dest[:12]), "annex", "octets before an IPv4 address")
            return tuple(ipaddress.ip_address(octets[12:]) for octets in (self.source, self.dest))
        return tuple(ipaddress.ip_address(octets) for octets in (self.source, self.dest))


def frames(octets):
    """The complete frames of a pcap file of Ethernet, by their number from 1."""
    if len(octets) < 24:
        return
    magic = struct.unpack("<I", octets[:4])[0]
    need(magic in (0xa1b2c3d4, 0xa1b23c4d), "pcap", "magic %#x" % magic)
    at, number = 24, 1
    while at + 16 <= len(octets):
        size = struct.unpack("<I", octets[at + 8:at + 12])[0]
        frame = octets[at + 16:at + 16 + size]
        if len(frame) < size:
            return
        yield number, frame
        at, number = at + 16 + size, number + 1


def packet_of(number, frame):
    """The RoCEv2 packet of a frame; None if it has none."""
    kind, ip = struct.unpack("!H", frame[12:14])[0], frame[14:]
    if kind == 0x0800 and ip[9] == 17:
        source, dest = ip[12:16], ip[16:20]
        udp = ip[(ip[0] & 15) * 4:struct.unpack("!H", ip[2:4])[0]]
    elif kind == 0x86dd and ip[6] == 17:
        source, dest = ip[8:24], ip[24:40]
        udp = ip[40:40 + struct.unpack("!H", ip[4:6])[0]]
    else:
        return None
    if struct.unpack("!H", udp[2:4])[0] != ROCE_PORT:
        return None
    bth = udp[8:]
    # The last four octets are a checksum, before which the payload is filled to words.
    payload = bth[12:len(bth) - 4 - (bth[1] >> 4 & 3)]
    return Packet(number, source, dest, bth[0], int.from_bytes(bth[5:8], "big"),
                  int.from_bytes(bth[9:12], "big"), payload)


class Connection:
    """A connection of SDP in a capture: its set-up, and the messages of both ends in the order in
    which they were seen, each with "client" or "server"."""

    def __init__(self, capture):
        self.hello = self.hello_ack = None
        self.messages = []
        self.cm = []
        self.rdma = 0
        # RDMA writes without octets: SDP-KA-03.
        self.tests = 0
        # Queue pairs of the receivers.
        self.ends = {}
        self.hosts = {}
        self.building = {}
        self.seen = set()
        for number, frame in frames(capture):
            packet = packet_of(number, frame)
            if packet is not None:
                self.take(packet)

    def take(self, packet):
        """Takes a packet in the order of the capture."""
        if packet.opcode == UD_SEND:
            # Behind the header of datagrams.
            self.take_mad(packet, packet.payload[8:])
        elif packet.opcode in SENDS:
            self.take_send(packet)
        elif packet.opcode == WRITE_ONLY and RETH.unpack_from(packet.payload)[2] == 0:
            need(len(packet.payload) == RETH.size, "SDP-KA-03", "a test with octets")
            self.tests += 1
        elif packet.opcode in RDMA:
            self.rdma += 1
        else:
            need(packet.opcode == ACK, "RoCE", "opcode %#x" % packet.opcode)

    def take_mad(self, packet, mad):
        """A message of the connection manager."""
        if mad[1] != CM_CLASS:
            return
        kind = struct.unpack("!H", mad[16:18])[0]
        data = mad[MAD_HEAD:]
        if kind == REQ:
            service = struct.unpack("!Q", data[8:16])[0]
            if service >> 16 != SERVICE >> 16:
                return
            if self.hello is None:
                self.hosts = {packet.source: "client", packet.dest: "server"}
                self.service = service
            need(packet.source in self.hosts and service == self.service, "capture",
                 "two connections")
            self.ends["client"] = int.from_bytes(data[32:35], "big")
        elif kind == REP and self.hello is not None:
            self.ends["server"] = int.from_bytes(data[12:15], "big")
        self.cm.append(kind)
        if kind in PRIVATE and self.hosts:
            at, size = PRIVATE[kind]
            message = Message.parse(packet.frame, data[at:at + size])
            if kind == REQ:
                self.hello = message
            else:
                self.hello_ack = message

    def take_send(self, packet):
        """A packet of a message, which may be a repetition."""
        end = self.hosts.get(packet.source)
        other = {"client": "server", "server": "client"}.get(end)
        if other is None or self.ends.get(other) != packet.qpn or (end, packet.psn) in self.seen:
            return
        self.seen.add((end, packet.psn))
        first, last, skip = SENDS[packet.opcode]
        if first:
            self.building[end] = (packet.frame, bytearray())
        frame, octets = self.building[end]
        octets += packet.payload[skip:]
        if last:
            self.messages.append((end, Message.parse(frame, bytes(octets))))

    def is_over(self):
        """Whether the connection manager has ended the connection."""
        return DREP in self.cm

    def stream(self, end):
        """The octets that an end has sent to the program of the other."""
        return b"".join(message.payload for sender, message in self.messages if sender == end)


class Judge:
    """Follows a connection. `judge` fails with the rule that a message breaks."""

    def __init__(self, connection):
        hello = Hello.parse(connection.hello.octets)
        self.check_hello(connection.hello, hello)
        self.check_hello_ack(connection.hello_ack)
        ack_size = struct.unpack("!I", connection.hello_ack.octets[20:24])[0]
        bufs = {"client": connection.hello.bufs, "server": connection.hello_ack.bufs}
        # Of each sender: its next number, the last that the other end has a buffer for, the size of
        # these buffers, what it has acknowledged, and whether it has sent DisConn.
        self.next = {"client": 1, "server": 1}
        self.edge = {"client": bufs["server"], "server": bufs["client"]}
        self.size = {"client": ack_size, "server": hello.size}
        self.acked = {"client": 0, "server": 0}
        self.over = set()
        self.messages = connection.messages

    @staticmethod
    def check_hello(message, hello):
        """Hello as the annex has it."""
        need(message.mid == HELLO, "SDP-MID-00", "MID %#x" % message.mid)
        need(message.flags == 0 and message.mseq == 0 and message.mseq_ack == 0, "SDP-HH-04",
             "flags or numbers")
        need(message.length == BSDH_LEN + EXTENDED[HELLO], "SDP-HH-04", "length %d" % message.length)
        need(message.bufs >= LEAST_BUFFERS, "SDP-BUFP-04", "%d buffers" % message.bufs)
        need(hello.version == (2, 2), "annex", "version %d.%d" % hello.version)
        need(hello.ipv in (4, 6), "annex", "IP version %d" % hello.ipv)
        need(hello.adverts > 0, "SDP-HH-11", "no adverts")
        need(LEAST_SIZE <= hello.size <= 1 << 31, "SDP-HH-20", "size %d" % hello.size)
        need(hello.desired <= 1 << 31, "SDP-HH-13", "desired size %d" % hello.desired)
        need(hello.port != 0, "annex", "no port")
        need(message.octets[18] == 0, "SDP-HH-18", "reserved octets")
        hello.addresses()

    @staticmethod
    def check_hello_ack(message):
        """HelloAck as the annex has it."""
        octets = message.octets
        need(message.mid == HELLO_ACK, "SDP-MID-01", "MID %#x" % message.mid)
        need(message.length == BSDH_LEN + EXTENDED[HELLO_ACK], "SDP-HAH-03",
             "length %d" % message.length)
        need(message.bufs >= LEAST_BUFFERS, "SDP-BUFP-04", "%d buffers" % message.bufs)
        need(octets[16] >> 4 == 2, "annex", "version %#x" % octets[16])
        need(octets[19] > 0, "SDP-HAH-10", "no adverts")
        size = struct.unpack("!I", octets[20:24])[0]
        need(LEAST_SIZE <= size <= 1 << 31, "SDP-HH-20", "size %d" % size)

    def judge(self):
        """Judges all messages in their order."""
        for end, message in self.messages:
            self.one(end, message)

    def one(self, end, message):
        """Judges a message of an end."""
        other = "server" if end == "client" else "client"
        mid = message.mid
        need(mid in EXTENDED and mid not in (HELLO, HELLO_ACK), "SDP-MID-91", "MID %#x" % mid)
        need(message.length == len(message.octets), "SDP-BSDH-18", "Len %d of %d octets"
             % (message.length, len(message.octets)))
        need(message.length >= BSDH_LEN + EXTENDED[mid], "SDP-BSDH-24", "Len %d" % message.length)
        need(mid in WITH_PAYLOAD or not message.payload, "SDP-BSDH-24", "payload")
        need(message.flags & ~(OOB_PRES | OOB_PEND | REQ_PIPE) == 0, "SDP-BSDH-02", "flags")
        need(mid == DATA or not message.flags & OOB_PRES, "SDP-BSDH-04", "OOB_PRES")
        need(mid in WITH_REQ_PIPE or not message.flags & REQ_PIPE, "SDP-BSDH-12", "REQ_PIPE")
        # What serves the other direction may follow (SDP-CLS-26).
        need(end not in self.over or (mid != DIS_CONN and not message.payload and mid != 0xfe),
             "SDP-CLS-27", "MID %#x behind DisConn" % mid)

        # Numbers begin at 1 on InfiniBand, and have no gap.
        need(message.mseq == self.next[end], "SDP-BSDH-20", "MSeq %d, not %d"
             % (message.mseq, self.next[end]))
        need(message.length <= self.size[end], "SDP-BUFP-06", "Len %d, buffers of %d"
             % (message.length, self.size[end]))
        # What this end could know of the buffers of the other is no more than was seen here.
        left = (self.edge[end] - message.mseq) % WRAP + 1
        need(left <= 65535, "SDP-CRED-04", "no credit")
        need(not message.payload or left > RESERVE, "SDP-CRED-30", "payload with %d credits" % left)
        self.next[end] = (message.mseq + 1) % WRAP

        # An acknowledgment of what the other end has sent, that does not go back.
        ahead = (message.mseq_ack - self.acked[end]) % WRAP
        sent = (self.next[other] - 1 - self.acked[end]) % WRAP
        need(ahead <= sent, "SDP-CRED-03", "MSeqAck %d" % message.mseq_ack)
        self.acked[end] = message.mseq_ack
        edge = (message.mseq_ack + message.bufs) % WRAP
        need((edge - self.edge[other]) % WRAP < 1 << 31, "SDP-BSDH-16", "the window shrinks")
        self.edge[other] = edge
        if mid == DIS_CONN:
            self.over.add(end)
