# SPDX-License-Identifier: GPL-2.0
"""Captures the wire between two sockets of ours: TCP segments with their CLC messages, and RoCE
packets."""

import os
import select
import socket
import struct
import threading

import messages
import topology

ETH_P_ALL = 3
# EtherType for local experiments: a frame of it marks the end of all earlier frames.
ETH_P_MARK = 0x88b5
ROCE_PORT = 4791
SYN, FIN, RST, ACK = 2, 1, 4, 16
SEND, WRITE = "send", "write"

# Reliable connections: the operation of a packet, and whether it begins and ends a message.
RC = {0x00: (SEND, True, False), 0x01: (SEND, False, False), 0x02: (SEND, False, True),
      0x04: (SEND, True, True), 0x06: (WRITE, True, False), 0x07: (WRITE, False, False),
      0x08: (WRITE, False, True), 0x0a: (WRITE, True, True), 0x11: ("ack", True, True)}


class Segment:
    """A TCP segment."""

    def __init__(self, source, dest, tcp):
        self.ports = struct.unpack("!HH", tcp[:4])
        self.ends = (source, self.ports[0]), (dest, self.ports[1])
        self.seq, self.ack = struct.unpack("!II", tcp[4:12])
        head = (tcp[12] >> 4) * 4
        self.flags = tcp[13]
        self.options = bytes(tcp[20:head])
        self.data = bytes(tcp[head:])

    def is_from(self, sock):
        """Whether a socket sent the segment."""
        return self.ports[0] == sock.getsockname()[1]


class Packet:
    """A RoCE packet."""

    def __init__(self, frame, source, dest, octets):
        self.source_mac, self.mac, self.source, self.dest = frame[6:12], frame[:6], source, dest
        self.opcode = octets[0]
        self.qpn = int.from_bytes(octets[5:8], "big")
        self.psn = int.from_bytes(octets[9:12], "big")
        pad = octets[1] >> 4 & 3
        payload = octets[12:len(octets) - 4 - pad]
        self.kind, self.first, self.last = RC.get(self.opcode, ("other", True, True))
        self.address = self.rkey = self.length = None
        if self.kind == WRITE and self.first:
            self.address, self.rkey, self.length = struct.unpack("!QII", payload[:16])
            payload = payload[16:]
        self.data = bytes(payload)

    def is_llc(self):
        """Whether it is an LLC message."""
        return self.kind == SEND and self.data[0] != messages.CDC

    def is_cdc(self):
        """Whether it is a CDC message."""
        return self.kind == SEND and self.data[0] == messages.CDC


def parse(frame):
    """Parses a frame; None if it is neither."""
    kind = struct.unpack("!H", frame[12:14])[0]
    if kind == 0x0800:
        ip = frame[14:]
        head = (ip[0] & 15) * 4
        proto, source, dest = ip[9], bytes(ip[12:16]), bytes(ip[16:20])
        rest = ip[head:struct.unpack("!H", ip[2:4])[0]]
    elif kind == 0x86dd:
        ip = frame[14:]
        proto, source, dest = ip[6], bytes(ip[8:24]), bytes(ip[24:40])
        rest = ip[40:40 + struct.unpack("!H", ip[4:6])[0]]
    else:
        return None
    if proto == socket.IPPROTO_TCP:
        return Segment(source, dest, rest)
    if proto == socket.IPPROTO_UDP and struct.unpack("!H", rest[2:4])[0] == ROCE_PORT:
        return Packet(frame, source, dest, rest[8:])
    return None


class Wire(threading.Thread):
    """Captures at the network device of a side during the block."""

    def __init__(self, side="a"):
        super().__init__(daemon=True)
        with topology.inside(side):
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)    # SO_RCVBUFFORCE
            self.sock.bind(("v" + side, ETH_P_ALL))
        with topology.inside(side):
            self.marks = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.marks.bind(("v" + side, 0))
        self.marked = threading.Semaphore(0)
        self.seen = []
        self.wake, self.stop = os.pipe()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        os.close(self.stop)
        self.join()
        os.close(self.wake)
        self.sock.close()
        self.marks.close()

    def flush(self):
        """Waits until all earlier frames are captured."""
        self.marks.send(bytes(12) + struct.pack("!H", ETH_P_MARK) + bytes(46))
        if not self.marked.acquire(timeout=topology.BOUND):
            raise AssertionError("the wire is dead")

    def run(self):
        while True:
            ready = select.select([self.sock, self.wake], [], [])[0]
            if self.sock in ready:
                frame = self.sock.recv(70000)
                if frame[12:14] == struct.pack("!H", ETH_P_MARK):
                    self.marked.release()
                    continue
                what = parse(frame)
                if what is not None:
                    self.seen.append(what)
            elif self.wake in ready:
                return

    def segments(self, sock=None):
        """The TCP segments, or those of one connection."""
        found = [what for what in self.seen if isinstance(what, Segment)]
        if sock is not None:
            ends = {sock.getsockname()[1], sock.getpeername()[1]}
            found = [what for what in found if set(what.ports) == ends]
        return found

    def packets(self):
        """The RoCE packets."""
        self.flush()
        return [what for what in self.seen if isinstance(what, Packet)]

    def clc(self, client):
        """The CLC messages of a connection in order: (segment, message)."""
        self.flush()
        found, known = [], set()
        for segment in self.segments(client):
            # TCP repeats a segment whose acknowledgment takes 200 ms.
            key = segment.ports, segment.seq, segment.data
            if segment.data and key in known:
                continue
            known.add(key)
            data = segment.data
            while len(data) >= 7 and data[:4] == messages.EYE:
                length = struct.unpack("!H", data[5:7])[0]
                found.append((segment, messages.read_clc(data[:length])))
                data = data[length:]
        return found

    def index(self, what):
        """The position of a frame in the capture."""
        return self.seen.index(what)
