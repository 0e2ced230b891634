# SPDX-License-Identifier: GPL-2.0
"""A reliable connected queue pair that speaks RoCEv2, with selectable misbehavior."""

import collections
import socket
import struct
import threading
import time
import zlib

import raw

MTU = 1024
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(6, 12)
READ_REQUEST, READ_RESPONSE_ONLY, ACKNOWLEDGE = 12, 16, 17
SEND_ONLY_INVALIDATE = 0x17
LASTS = (SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM)
WRITES = range(WRITE_FIRST, WRITE_ONLY_IMM + 1)
MASK = 0xffffff

# Syndromes of an acknowledgment.
ACK = 0x1f
RNR = 0x20
NAK_SEQUENCE, NAK_INVALID, NAK_ACCESS, NAK_OPERATIONAL = range(0x60, 0x64)

# Highest number of packets in flight.
WINDOW = 32
# Time after which an unacknowledged packet is retransmitted.
PATIENCE = 1.0


def icrc(ip, udp, rest):
    """The invariant CRC of a packet: fields that routers may change count as ones."""
    ip = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:]
    udp = udp[:6] + b"\xff\xff"
    rest = rest[:4] + b"\xff" + rest[5:]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + rest))


class Memory:
    """A memory region that the other side may write to with its key."""

    def __init__(self, rkey, address, size):
        self.rkey, self.address, self.octets = rkey, address, bytearray(size)

    def write(self, address, data):
        """Writes octets; True if they fit into the region."""
        at = address - self.address
        if at < 0 or at + len(data) > len(self.octets):
            return False
        self.octets[at:at + len(data)] = data
        return True


class Qp:
    """A queue pair. `behave` is the response to requests: "well" acknowledges, "mute" accepts without
    an acknowledgment, "dead" ignores them, and a number is the syndrome of each acknowledgment."""

    def __init__(self, host, address=(raw.IP, raw.MAC)):
        self.host, self.qpn = host, host.new_qpn()
        self.ip, self.mac = address
        self.psn = self.expected = 0x1000
        self.other = None
        self.memories, self.inbox, self.parts = {}, collections.deque(), b""
        self.flying, self.behave, self.refused = [], "well", None
        self.sent_at, self.messages, self.target = 0, 0, None
        # Numbers of complete received messages, and of writes without octets.
        self.received_count = self.tests = 0
        # How often the other side had no receive buffer, and its answers to reads.
        self.not_ready = self.responses = 0
        self.on_message = self.inbox.append
        with host.lock:
            host.qps[self.qpn] = self

    def connect(self, other, their_psn):
        """Sets the remote queue pair."""
        with self.host.lock:
            self.other, self.expected = other, their_psn

    def packet(self, opcode, psn, body, ask=False):
        """Transmits one packet."""
        pad = -len(body) % 4
        bth = struct.pack("!BBHII", opcode, pad << 4, 0xffff, self.other, ask << 31 | psn)
        rest = bth + body + bytes(pad)
        udp = struct.pack("!HHHH", 0xc123, raw.ROCE_PORT, 8 + len(rest) + 4, 0)
        ip = self.host.ip_header(socket.IPPROTO_UDP, len(udp) + len(rest) + 4, self.ip)
        self.host.raw.send(raw.MAC_HEADER % (self.host.theirs, self.mac) + ip + udp + rest +
                           icrc(ip, udp, rest))

    def is_usable(self):
        """Whether the queue pair may send."""
        return self.other is not None and self.behave == "well" and self.refused is None

    # The requester.

    def request(self, opcode, body, ask):
        """Sends a request packet when the window allows it."""
        # The host's own thread must not wait for itself.
        if threading.current_thread() is not self.host:
            self.host.wait(lambda: len(self.flying) < WINDOW or self.refused is not None, "window")
        with self.host.lock:
            packet = (opcode, self.psn, body, ask or len(self.flying) >= WINDOW // 2)
            self.psn = self.psn + 1 & MASK
            if not self.flying:
                self.sent_at = time.monotonic()
                self.host.after(PATIENCE, self.look)
            self.flying.append(packet)
            self.packet(*packet)

    def look(self):
        """Retransmits packets that were not acknowledged in time."""
        if self.flying and self.refused is None and self.behave != "dead":
            if time.monotonic() - self.sent_at >= PATIENCE * 0.9:
                self.again(self.flying[0][1])
            self.host.after(PATIENCE, self.look)

    def again(self, psn):
        """Retransmits from a packet number on."""
        self.sent_at = time.monotonic()
        for packet in self.flying:
            if (packet[1] - psn & MASK) < MASK // 2:
                self.packet(*packet)

    def send(self, payload, ask=True):
        """Sends a SEND with a payload."""
        if len(payload) <= MTU:
            self.request(SEND_ONLY, payload, ask)
            return
        pieces = [payload[at:at + MTU] for at in range(0, len(payload), MTU)]
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            opcode = SEND_FIRST if number == 0 else SEND_LAST if last else SEND_MIDDLE
            self.request(opcode, piece, ask and last)

    def write(self, address, rkey, data, size=None, immediate=b""):
        """Sends an RDMA WRITE. `size` is the length in the header. With `immediate`, four octets, it
        consumes a receive request."""
        reth = struct.pack("!QII", address & (1 << 64) - 1, rkey, len(data) if size is None else size)
        if len(data) <= MTU:
            self.request(WRITE_ONLY_IMM if immediate else WRITE_ONLY, reth + immediate + data, True)
            return
        pieces = [data[at:at + MTU] for at in range(0, len(data), MTU)]
        self.request(WRITE_FIRST, reth + pieces[0], False)
        for piece in pieces[1:-1]:
            self.request(WRITE_MIDDLE, piece, False)
        self.request(WRITE_LAST_IMM if immediate else WRITE_LAST, immediate + pieces[-1], True)

    def read_nothing(self):
        """Sends an RDMA READ without octets, which needs no memory."""
        self.request(READ_REQUEST, struct.pack("!QII", 0, 0, 0), True)

    def forget(self):
        """Pretends that the last packet was never sent."""
        with self.host.lock:
            self.psn = self.flying.pop()[1]

    def quiet(self, seconds=raw.SECONDS):
        """Waits until all packets are acknowledged, or one is refused; the syndrome of the refusal, or
        None."""
        self.host.wait(lambda: not self.flying or self.refused is not None, "acknowledgement", seconds)
        return self.refused

    def acknowledged(self, psn, syndrome):
        """Handles an acknowledgment."""
        if syndrome >> 5 == 1:
            # Receiver not ready: retransmit soon, in order.
            self.not_ready += 1
            self.host.after(0.02, lambda: self.again(psn))
            psn = psn - 1 & MASK
        elif syndrome == NAK_SEQUENCE:
            self.host.after(0, lambda: self.again(psn))
            psn = psn - 1 & MASK
        elif syndrome & 0x60:
            self.refused = syndrome
            return
        self.flying = [packet for packet in self.flying if (packet[1] - psn - 1 & MASK) < MASK // 2]
        self.sent_at = time.monotonic()

    # The responder.

    def take(self, bth, body):
        """Handles a packet of the kernel's queue pair."""
        if self.behave == "dead" or self.other is None:
            return
        opcode, psn = bth[0], int.from_bytes(bth[9:12], "big")
        pad = bth[1] >> 4 & 3
        if opcode in (ACKNOWLEDGE, READ_RESPONSE_ONLY):
            self.responses += opcode == READ_RESPONSE_ONLY
            self.acknowledged(psn, body[0])
            return
        if isinstance(self.behave, int):
            # A refusal acknowledges all packets before its own.
            if psn == self.expected:
                self.reply(psn, self.behave)
            return
        if psn != self.expected:
            late = (self.expected - psn & MASK) < MASK // 2
            self.reply(self.expected - 1 & MASK if late else self.expected,
                       ACK if late else NAK_SEQUENCE)
            return
        body = body[:len(body) - pad] if pad else body
        if opcode in WRITES:
            if not self.written(opcode, body):
                self.reply(psn, NAK_ACCESS)
                return
        else:
            self.parts += body
        self.expected = psn + 1 & MASK
        if opcode in LASTS:
            message, self.parts = self.parts, b""
            self.messages = self.messages + 1 & MASK
            self.received_count += 1
        if bth[8] & 0x80:
            self.reply(psn, ACK)
        if opcode in LASTS:
            self.on_message(message)

    def written(self, opcode, body):
        """Stores a packet of a WRITE; False if that is not allowed."""
        if opcode in (WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMM):
            address, rkey, size = struct.unpack("!QII", body[:16])
            if size == 0:
                # It needs no memory.
                self.tests += 1
                return True
            self.target, body = [rkey, address], body[16:]
        rkey, address = self.target
        memory = self.memories.get(rkey)
        self.target[1] += len(body)
        return memory is not None and memory.write(address, body)

    def reply(self, psn, syndrome):
        """Sends an acknowledgment, positive or negative."""
        if self.behave == "mute":
            return
        self.packet(ACKNOWLEDGE, psn, struct.pack("!I", syndrome << 24 | self.messages))

    def destroy(self):
        """Removes the queue pair: it responds to no packet."""
        with self.host.lock:
            self.behave = "dead"
            self.host.qps.pop(self.qpn, None)
