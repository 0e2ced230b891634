# SPDX-License-Identifier: GPL-2.0
"""Ethernet frames with TCP segments: parsed, checked and built; and a TCP peer made of them.

The peer is a program at the other end of a veth pair. Its address belongs to no kernel, so it can send
segments that no TCP sends.
"""

import os
import select
import socket
import struct
import subprocess
import time

ETH_P_ALL = 3
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
SMC = bytes.fromhex("fe06e2d4c3d9")
IPS = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8::2")}
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")


def command(*words):
    """Runs a command that must succeed."""
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def checksum(data):
    """The internet checksum."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Segment:
    """A TCP segment with the necessary fields of the lower layers."""

    def __init__(self, version, src, dst, sport, dport, seq, ack, flags, options=b"", data=b""):
        self.version, self.src, self.dst = version, src, dst
        self.sport, self.dport, self.seq, self.ack = sport, dport, seq, ack
        self.flags, self.options, self.data = flags, options, data

    @classmethod
    def parse(cls, frame):
        """Parses a frame; None if it has no segment, ValueError if it is malformed."""
        kind = struct.unpack("!H", frame[12:14])[0]
        packet = frame[14:]
        if kind == 0x0800 and packet[9] == socket.IPPROTO_TCP:
            length = (packet[0] & 15) * 4
            total = struct.unpack("!H", packet[2:4])[0]
            if checksum(packet[:length]):
                raise ValueError("IP checksum")
            version, src, dst = 4, packet[12:16], packet[16:20]
            tcp = packet[length:total]
            if len(packet) < total:
                raise ValueError("IP total length %d of %d" % (total, len(packet)))
        elif kind == 0x86dd and packet[6] == socket.IPPROTO_TCP:
            total = struct.unpack("!H", packet[4:6])[0]
            version, src, dst = 6, packet[8:24], packet[24:40]
            tcp = packet[40:40 + total]
            if len(tcp) != total:
                raise ValueError("IPv6 payload length %d of %d" % (total, len(tcp)))
        else:
            return None
        if checksum(cls.pseudo(version, src, dst, tcp) + tcp):
            raise ValueError("TCP checksum")
        sport, dport, seq, ack, doff, flags = struct.unpack("!HHIIBB", tcp[:14])
        header = (doff >> 4) * 4
        if not 20 <= header <= len(tcp):
            raise ValueError("TCP header length %d" % header)
        return cls(version, src, dst, sport, dport, seq, ack, flags, tcp[20:header], tcp[header:])

    @staticmethod
    def pseudo(version, src, dst, tcp):
        """The pseudo header."""
        form = "!HH" if version == 4 else "!II"
        fields = (6, len(tcp)) if version == 4 else (len(tcp), 6)
        return src + dst + struct.pack(form, *fields)

    def frame(self, to_mac, from_mac):
        """Builds the frame of the segment."""
        assert len(self.options) % 4 == 0
        tcp = struct.pack("!HHIIBBHHH", self.sport, self.dport, self.seq, self.ack,
                          (20 + len(self.options)) // 4 << 4, self.flags, 64000, 0, 0)
        tcp += self.options + self.data
        total = checksum(self.pseudo(self.version, self.src, self.dst, tcp) + tcp)
        tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
        if self.version == 4:
            head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0,
                               self.src, self.dst)
            head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
            kind = 0x0800
        else:
            head = struct.pack("!IHBB16s16s", 6 << 28, len(tcp), 6, 64, self.src, self.dst)
            kind = 0x86dd
        return to_mac + from_mac + struct.pack("!H", kind) + head + tcp

    def split_options(self):
        """The options as a list of (kind, octets of the whole option), without padding."""
        found, rest = [], self.options
        while rest and rest[0] != 0:
            if rest[0] == 1:
                rest = rest[1:]
                continue
            if len(rest) < 2 or not 2 <= rest[1] <= len(rest):
                raise ValueError("option list %s" % self.options.hex())
            found.append((rest[0], rest[:rest[1]]))
            rest = rest[rest[1]:]
        return found

    def experiments(self):
        """The experimental options (kind 254)."""
        return [octets for kind, octets in self.split_options() if kind == 254]


class Wire:
    """A veth pair: one end is a network card of this kernel, the other is this program."""

    def __init__(self):
        command("ip", "link", "add", "wire0", "address", MACS[0], "type", "veth",
                "peer", "name", "wire1", "address", MACS[1])
        for name in ("wire0", "wire1"):
            path = "/proc/sys/net/ipv6/conf/%s/" % name
            for key, value in (("accept_dad", "0"), ("autoconf", "0"), ("accept_ra", "0")):
                with open(path + key, "w", encoding="ascii") as file:
                    file.write(value)
        with open("/proc/sys/net/ipv6/conf/wire1/disable_ipv6", "w", encoding="ascii") as file:
            file.write("1")
        # The checksums on the wire must be complete.
        command("ethtool", "-K", "wire0", "tx", "off")
        command("ip", "addr", "add", IPS[4][0] + "/24", "dev", "wire0")
        command("ip", "addr", "add", IPS[6][0] + "/64", "dev", "wire0", "nodad")
        command("ip", "link", "set", "wire1", "up")
        command("ip", "link", "set", "wire0", "up")
        for version in (4, 6):
            command("ip", "neigh", "replace", IPS[version][1], "lladdr", MACS[1],
                    "dev", "wire0", "nud", "permanent")
        self.macs = [bytes.fromhex(mac.replace(":", "")) for mac in MACS]
        self.raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.raw.bind(("wire1", 0))

    def close(self):
        """Removes the pair."""
        self.raw.close()
        command("ip", "link", "del", "wire0")

    def send(self, segment):
        """Sends a segment to the kernel."""
        self.raw.send(segment.frame(*self.macs))

    def drain(self):
        """Drops all received frames, to make room for the next ones."""
        while select.select([self.raw], [], [], 0)[0]:
            self.raw.recv(65536)

    def receive(self, wanted=lambda segment: True, timeout=20):
        """Waits for a segment of the kernel that matches; TimeoutError if none comes."""
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.raw], [], [], left)[0]:
                raise TimeoutError("no segment")
            frame, address = self.raw.recvfrom(65536)
            if address[2] == socket.PACKET_OUTGOING:
                continue
            segment = Segment.parse(frame)
            if segment and wanted(segment):
                return segment


class Peer:
    """The remote end of one connection."""

    def __init__(self, wire, version, port):
        self.wire, self.version, self.port = wire, version, port
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        self.theirs, self.ours = (socket.inet_pton(family, ip) for ip in IPS[version])
        self.other_port = None
        self.seq, self.ack = struct.unpack("!I", os.urandom(4))[0], 0

    def send(self, flags, options=b"", data=b""):
        """Sends the next segment, and returns it."""
        segment = Segment(self.version, self.ours, self.theirs, self.port, self.other_port,
                          self.seq, self.ack, flags, options, data)
        self.wire.send(segment)
        self.seq = (self.seq + len(data) + bool(flags & SYN) + bool(flags & FIN)) & 0xffffffff
        return segment

    def receive(self, flags, timeout=20):
        """Waits for a segment of this connection with exactly these of SYN, ACK, RST and FIN."""
        def wanted(segment):
            return (segment.dport == self.port and segment.version == self.version and
                    self.other_port in (None, segment.sport) and
                    # Not for a connection before on this port.
                    (flags != SYN | ACK or segment.ack == self.seq) and
                    segment.flags & (SYN | ACK | RST | FIN) == flags)
        segment = self.wire.receive(wanted, timeout)
        self.other_port = segment.sport
        length = len(segment.data) + bool(flags & SYN) + bool(flags & FIN)
        self.ack = (segment.seq + length) & 0xffffffff
        return segment

    def data(self):
        """Receives and acknowledges the next octets of the kernel."""
        while True:
            segment = self.receive(ACK)
            if segment.data:
                self.send(ACK)
                return segment.data

    def address(self):
        """The address for the kernel's connect."""
        return (IPS[self.version][1], self.port)
