#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Packets that no RNIC sends, to a device with connections: headers, lengths, keys, numbers. Each is
dropped and counted, or ends its own queue pair; a connection between two other hosts goes on.

Covers RNIC-HDR-05, RNIC-HDR-07, RNIC-ICRC-06, RNIC-ICRC-07, RNIC-ICRC-08, RNIC-ICRC-09, RNIC-IP-03,
RNIC-IP-06, RNIC-IP-07, RNIC-IP-08, RNIC-RSP-01, RNIC-RSP-07, RNIC-RSP-11, RNIC-SEC-01,
RNIC-SEC-10, RNIC-DATA-04, RNIC-DATA-06, RNIC-UD-02, RNIC-MR-12, RNIC-NET-06,
RNIC-STAT-01.
"""

import contextlib
import random
import socket
import struct
import sys
import time

import advertisement
import fixtures
import raw
import roce
import rsoft
import topology
from hostile_peer import HostilePeer, expect_data, expect_error
from ktap import equal
from roce import MASK, NAK_ACCESS, NAK_INVALID, NAK_SEQUENCE, SEND_ONLY

# Octets behind the base header of each opcode of a reliable connection.
EXTENSIONS = {0x00: 0, 0x01: 0, 0x02: 0, 0x03: 4, 0x04: 0, 0x05: 4, 0x06: 16, 0x07: 0, 0x08: 0, 0x09: 4,
              0x0a: 16, 0x0b: 20, 0x0c: 16, 0x0d: 4, 0x0e: 0, 0x0f: 4, 0x10: 4, 0x11: 4, 0x12: 12,
              0x13: 28, 0x14: 28, 0x16: 4, 0x17: 4, 0x1c: 20, 0x1d: 16}
# Those whose packet is an answer.
ANSWERS = range(0x0d, 0x13)
# Counters of refusals.
FATAL = {NAK_INVALID: "send_nak_invalid", NAK_ACCESS: "send_nak_access"}
UNKNOWN = (0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f)
UC, UD, CNP = range(0x20, 0x2c), (0x64, 0x65), 0x81
FETCH_ADD, FLUSH, ATOMIC_WRITE, READ, ATOMIC_ACK = 0x14, 0x1c, 0x1d, 0x0c, 0x12
READ_ONLY_RESPONSE = 0x10
GSI, GSI_QKEY = 1, 0x80010000
FLOOD = 2000 if fixtures.FEW else 20000
# Batches of changed packets, and packets of each.
BATCHES, BATCH = (4 if fixtures.FEW else 40), 150


class Attack:
    """A queue pair of a hostile peer, a socket at its other end, and the packets from it."""

    def __init__(self, fixture):
        self.fixture, self.host = fixture, fixture.host
        self.hostile = HostilePeer(fixture, "server")
        self.conn, self.sock = self.hostile.connection()
        self.qp = self.conn.group.qp

    def transport(self, opcode, body=b"", psn=None, other=None, pkey=0xffff, flags=0, ask=True):
        """The octets from the base header to the payload."""
        psn = self.qp.psn if psn is None else psn & MASK
        other = self.qp.other if other is None else other
        return struct.pack("!BBHII", opcode, flags, pkey, other, ask << 31 | psn) + body

    def send(self, transport, source=raw.IP, broken=0, cut=None, ip=None, longer=0):
        """Sends a packet with a right checksum, or one that differs in the bits `broken`. `cut` is the
        number of octets from the base header to the checksum, `longer` that of octets behind UDP,
        and `ip` changes the IP header."""
        udp = struct.pack("!HHHH", 0xc123, raw.ROCE_PORT, 12 + len(transport), 0)
        header = self.host.ip_header(socket.IPPROTO_UDP, len(udp) + len(transport) + 4 + longer, source)
        if ip is not None:
            header = ip(header)
        tail, = struct.unpack("<I", roce.icrc(header, udp, transport))
        rest = transport + struct.pack("<I", tail ^ broken)
        if cut is not None:
            rest = rest[:cut]
            udp = struct.pack("!HHHH", 0xc123, raw.ROCE_PORT, 8 + cut, 0)
            header = self.host.ip_header(socket.IPPROTO_UDP, len(udp) + cut, source)
        self.host.raw.send(raw.MAC_HEADER % (self.host.theirs, raw.MAC) + header + udp + rest +
                           bytes(longer))

    def refused(self):
        """The syndrome of the NAK that ended the queue pair."""
        self.host.wait(lambda: self.qp.refused is not None, "a fatal NAK")
        return self.qp.refused

    def expect_alive(self):
        """Fails unless the connection carries data."""
        expect_data(self.conn, self.sock)

    def close(self):
        """Closes the socket."""
        self.sock.close()


def attack(function, *args):
    """Makes a test with a connection that survives."""
    def test(fixture, _):
        it = Attack(fixture)
        try:
            function(it, *args)
            it.expect_alive()
        finally:
            it.close()
    return test


def dropped(counter, packets):
    """Makes a test of packets that a counter counts, and nothing else happens."""
    def run(it):
        made = list(packets(it))
        with rsoft.counted(counter, len(made)):
            for number, (transport, how) in enumerate(made):
                it.send(transport, **how)
                if number % 64 == 63:
                    # The host's queue of packets is limited.
                    time.sleep(0.005)
        equal(it.qp.refused, None, "NAK")
    return attack(run)


def wrong_checksum(it):
    """Every opcode, and every bit of the checksum."""
    for opcode, size in EXTENSIONS.items():
        yield it.transport(opcode, bytes(size + 8)), {"broken": 1}
    for bit in range(32):
        yield it.transport(SEND_ONLY, b"12345678"), {"broken": 1 << bit}


def no_room_for_a_checksum(it):
    """A base header alone, and up to three octets more."""
    for size in range(12, 16):
        yield it.transport(SEND_ONLY, bytes(8)), {"cut": size}


def no_base_header(it):
    """Packets that end before the number of the queue pair, or in it."""
    for size in range(12):
        yield it.transport(SEND_ONLY, bytes(8)), {"cut": size}


def short_extension(it):
    """Each opcode with fewer octets than its extension headers have."""
    for opcode, size in EXTENSIONS.items():
        for short in range(0, size, 4):
            yield it.transport(opcode, bytes(short)), {}


def wrong_padding(it):
    """Payload of an odd length, and more padding than payload."""
    for size in (1, 2, 3, 5):
        yield it.transport(SEND_ONLY, bytes(size)), {}
    for pad in (1, 2, 3):
        yield it.transport(SEND_ONLY, flags=pad << 4), {}


def wrong_version(it):
    """Another version of the transport."""
    for version in range(1, 16):
        yield it.transport(SEND_ONLY, bytes(8), flags=version), {}


def wrong_partition(it):
    """Keys of other partitions."""
    for pkey in (0, 1, 0x7ffe, 0x8000, 0x8001, 0xfffe, 0x1234):
        yield it.transport(SEND_ONLY, bytes(8), pkey=pkey), {}


def unknown_queue_pair(it):
    """Numbers that no queue pair has."""
    for number in (0, 2, 3, 0xff, 0x100000 - 1, 0xffffff, it.qp.other ^ 0x800000):
        yield it.transport(SEND_ONLY, bytes(8), other=number), {}


def other_service(it):
    """Opcodes of other services, known and unknown, to a reliable connection, and one of those to the
    general services interface."""
    for opcode in (*UC, *UD, CNP, 0x40, 0x60, 0x7f, 0x80, 0xa0, 0xc0, 0xff):
        yield it.transport(opcode, bytes(32)), {}
    yield it.transport(SEND_ONLY, bytes(64), other=GSI), {}


def broadcast(header):
    """The same packet to all hosts."""
    header = header[:10] + b"\0\0" + header[12:16] + socket.inet_aton("10.9.0.255")
    return header[:10] + struct.pack("!H", raw.checksum(header)) + header[12:]


def datagram_to_all(it):
    """A datagram to the general services interface of an address that no device has."""
    yield it.transport(UD[0], struct.pack("!II", GSI_QKEY, 1) + bytes(64), other=GSI), {"ip": broadcast}


def other_qkey(it):
    """Datagrams to the general services interface that do not have its key."""
    for qkey in (0, 1, GSI_QKEY ^ 1, 0xffffffff):
        yield it.transport(UD[0], struct.pack("!II", qkey, 1) + bytes(256), other=GSI), {}


def too_long_a_datagram(it):
    """A datagram that no receive buffer of the interface holds."""
    yield it.transport(UD[0], struct.pack("!II", GSI_QKEY, 1) + bytes(1024), other=GSI), {}


def other_address(it):
    """Packets of hosts that the queue pair is not connected to."""
    for source in ("10.9.0.99", raw.OTHER_IP, "10.9.0.1", "192.0.2.1"):
        yield it.transport(SEND_ONLY, bytes(8)), {"source": source}
    yield it.transport(SEND_ONLY, bytes(8)), {"ip": broadcast}


def options(header):
    """IP options: a header of six words."""
    longer = struct.unpack("!H", header[2:4])[0] + 4
    header = b"\x46" + header[1:2] + struct.pack("!H", longer) + header[4:10] + b"\0\0" + header[12:] + \
        b"\x01\x01\x01\x00"
    return header[:10] + struct.pack("!H", raw.checksum(header)) + header[12:]


def network_header(it):
    """IP options, and octets behind the length of UDP."""
    yield it.transport(SEND_ONLY, bytes(8)), {"ip": options}
    for longer in (4, 8, 100):
        yield it.transport(SEND_ONLY, bytes(8)), {"longer": longer}


def fragments(it):
    """A packet that arrives in two fragments, with the checksum of the whole."""
    transport = it.transport(SEND_ONLY, bytes(44))
    udp = struct.pack("!HHHH", 0xc123, raw.ROCE_PORT, 12 + len(transport), 0)
    whole = it.host.ip_header(socket.IPPROTO_UDP, len(udp) + len(transport) + 4)
    whole = whole[:6] + b"\0\0" + whole[8:]
    octets = udp + transport + roce.icrc(whole, udp, transport)
    with rsoft.counted("drop_network_header", 1):
        for first, last, flags in ((0, 32, 0x2000), (32, len(octets), 32 // 8)):
            head = whole[:2] + struct.pack("!HHH", 20 + last - first,
                                           *struct.unpack("!H", whole[4:6]), flags) + whole[8:10]
            head += b"\0\0" + whole[12:]
            head = head[:10] + struct.pack("!H", raw.checksum(head)) + head[12:]
            it.host.raw.send(raw.MAC_HEADER % (it.host.theirs, raw.MAC) + head + octets[first:last])


def earlier_numbers(it):
    """Packets with numbers that were executed: each is counted, and acknowledged or forgotten."""
    distances = (1, 2, 100, 1 << 20, (1 << 23) - 1)
    with rsoft.counted("duplicate_request", 4 * len(distances)):
        for back in distances:
            it.send(it.transport(SEND_ONLY, bytes(8), it.qp.psn - back))
            it.send(it.transport(READ, bytes(16), it.qp.psn - back))
            it.send(it.transport(FETCH_ADD, bytes(28), it.qp.psn - back))
            it.send(it.transport(ATOMIC_WRITE, bytes(24), it.qp.psn - back))


def later_numbers(it):
    """Packets behind a gap: the first one gets a NAK, and the right number goes on."""
    naks, was = [], it.qp.acknowledged
    it.qp.acknowledged = lambda psn, syndrome: naks.append((psn, syndrome))
    distances = (1, 2, 100, 1 << 20, (1 << 23) - 1)
    with rsoft.counted("out_of_seq_request", 2 * len(distances)):
        for ahead in distances:
            it.send(it.transport(SEND_ONLY, bytes(8), it.qp.psn + ahead))
            it.send(it.transport(0x1f, bytes(8), it.qp.psn + ahead))
    # None of the first is late, and no other comes.
    it.host.wait(lambda: any(syndrome != roce.ACK for _, syndrome in naks), "a NAK")
    time.sleep(0.05)
    it.qp.acknowledged = was
    # The acknowledgment of the message before may come late.
    naks = [(psn, syndrome) for psn, syndrome in naks if syndrome != roce.ACK]
    equal(naks, [(it.qp.psn, NAK_SEQUENCE)], "answers")


def answers_to_nothing(it):
    """Acknowledgments, NAKs and responses for packets that were never sent."""
    # The device's next number is the one that this side expects.
    psns = [it.qp.expected + ahead for ahead in (0, 1, 1000, 1 << 22)]
    syndromes = (roce.ACK, 0, roce.RNR, roce.RNR + 31, *range(0x60, 0x66), 0x40, 0x7f, 0xff)
    made = [it.transport(roce.ACKNOWLEDGE, struct.pack("!I", syndrome << 24), psn)
            for psn in psns for syndrome in syndromes]
    made += [it.transport(ATOMIC_ACK, struct.pack("!IQ", roce.ACK << 24, 7), psn) for psn in psns]
    made += [it.transport(READ_ONLY_RESPONSE, struct.pack("!I", roce.ACK << 24) + bytes(8), psn)
             for psn in psns]
    with rsoft.counted("ghost_answer", len(made)):
        for transport in made:
            it.send(transport)


def answers_twice(it):
    """Acknowledgments and NAKs of what was acknowledged."""
    psns = [it.qp.expected - back for back in (1, 2, 1000, 1 << 22)]
    made = [it.transport(roce.ACKNOWLEDGE, struct.pack("!I", syndrome << 24), psn)
            for psn in psns for syndrome in (roce.ACK, roce.RNR, *range(0x60, 0x64))]
    with rsoft.counted("duplicate_answer", len(made)):
        for transport in made:
            it.send(transport)


class Changed:
    """A raw socket whose frames a function changes."""

    def __init__(self, inner, change):
        self.inner, self.change = inner, change

    def send(self, frame):
        """Sends a frame."""
        self.inner.send(self.change(frame))

    def __getattr__(self, name):
        return getattr(self.inner, name)


@contextlib.contextmanager
def changed_frames(it, change):
    """Changes all frames of the host."""
    was = it.host.raw
    it.host.raw = Changed(was, change)
    try:
        yield
    finally:
        it.host.raw = was


def with_udp_checksum(frame):
    """The frame of a RoCE packet with a checksum of UDP."""
    if frame[23] != socket.IPPROTO_UDP:
        return frame
    ip, udp = frame[14:34], frame[34:]
    total = raw.checksum(ip[12:20] + struct.pack("!HH", socket.IPPROTO_UDP, len(udp)) + udp)
    return frame[:40] + struct.pack("!H", total or 0xffff) + frame[42:]


def padded_frames(it):
    """Octets that an Ethernet appends are no part of a packet."""
    with changed_frames(it, lambda frame: frame + bytes(46)):
        it.expect_alive()


def udp_checksums(it):
    """A right checksum of UDP is as good as none."""
    with changed_frames(it, with_udp_checksum):
        it.expect_alive()


def headers_of_the_device(it):
    """Fields and checksum of the packets that the device sends."""
    frames, take = [], it.host.take
    it.host.take = lambda frame: (frames.append(frame), take(frame))
    it.conn.write(b"to you")
    equal(topology.receive(it.sock, 6), b"to you", "data")
    it.sock.sendall(topology.known("headers", 5000))
    equal(it.conn.take(5000) == topology.known("headers", 5000), True, "data back")
    it.host.take = take
    packets = [frame[14:] for frame in frames
               if frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_UDP]
    equal(len(packets) > 5, True, "packets")
    for packet in packets:
        ip, udp, bth = packet[:20], packet[20:28], packet[28:40]
        length, = struct.unpack("!H", ip[2:4])
        equal((ip[0], ip[6:8], ip[8]), (0x45, b"\x40\0", 64), "version, fragments, time to live")
        equal(raw.checksum(ip), 0, "checksum of IP")
        source, to, size, check = struct.unpack("!HHHH", udp)
        equal((source >= 0xc000, to, size, check), (True, raw.ROCE_PORT, length - 20, 0), "UDP")
        equal((bth[1] & 0x4f, bth[2:4], bth[4], bth[8] & 0x7f), (0x40, b"\xff\xff", 0, 0),
              "version, MigReq, partition, congestion, reserved bits")
        equal(packet[length - 4:length], roce.icrc(ip, udp, packet[28:length - 4]), "invariant CRC")
        pad = bth[1] >> 4 & 3
        equal(packet[length - 4 - pad:length - 4], bytes(pad), "padding")


def empty_write(it):
    """The key of no octets is not checked."""
    it.qp.write(0xdead0000, 0xbad00, b"")
    equal(it.qp.quiet(), None, "NAK")


def broken_write(it):
    """A packet with a wrong checksum changes no memory."""
    conn = it.conn
    _, place = conn.cursor(conn.sent)
    body = reth(conn.base() + place, conn.theirs["rkey"], 8) + b"unwanted"
    it.send(it.transport(roce.WRITE_ONLY, body), broken=1)
    conn.sent += 8
    conn.send_cdc()
    equal(topology.receive(it.sock, 8) == b"unwanted", False, "data of the broken packet")


def packet_by_another_device(it):
    """A packet that arrives on a network device without an RDMA device."""
    command = topology.command
    command("ip", "link", "add", "vx", "type", "veth", "peer", "name", "vy", "netns", "rs-b")
    try:
        command("ip", "-n", "rs-b", "link", "set", "vy", "up")
        command("ip", "link", "set", "vx", "up")
        for name in "all", "vy":
            command("ip", "netns", "exec", "rs-b", "sysctl", "-qw",
                    "net.ipv4.conf.%s.rp_filter=0" % name)
        mac = command("ip", "netns", "exec", "rs-b", "cat", "/sys/class/net/vy/address").strip()
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as other:
            other.bind(("vx", 0))
            head = bytes.fromhex(mac.replace(":", ""))
            with rsoft.counted("drop_netdev", 1), \
                    changed_frames(it, lambda frame: frame):
                it.host.raw.inner, was = other, it.host.raw.inner
                it.host.raw.change = lambda frame: head + frame[6:]
                it.send(it.transport(SEND_ONLY, bytes(8)))
                it.host.raw.inner = was
    finally:
        command("ip", "link", "delete", "vx")


def reth(address, rkey, size):
    """The header of a range of memory."""
    return struct.pack("!QII", address & (1 << 64) - 1, rkey, size)


def fatal(syndrome, make):
    """Makes a test of requests that end their queue pair with a NAK."""
    def test(fixture, _):
        it = Attack(fixture)
        try:
            # Later messages of the peer would be repetitions.
            it.qp.flying = []
            with rsoft.counted(FATAL[syndrome], 1):
                for ahead, (opcode, body) in enumerate(make(it)):
                    it.send(it.transport(opcode, body, it.qp.psn + ahead))
                equal(it.refused(), syndrome, "syndrome")
            # Nothing is answered any longer.
            it.send(it.transport(SEND_ONLY, bytes(44)))
            expect_error(it.sock)
        finally:
            it.close()
    return test


def memory(it):
    """Address, key and size of the memory that the peer may write to."""
    return it.conn.base(), it.conn.theirs["rkey"], it.conn.size()


def refused_requests():
    """Names, syndromes and packets of requests that no device executes."""
    def of(change):
        return lambda it: change(*memory(it))
    write, first, middle, last = (roce.WRITE_ONLY, roce.WRITE_FIRST, roce.WRITE_MIDDLE, roce.WRITE_LAST)
    yield "READ without the right", NAK_INVALID, of(lambda at, key, _: [(READ, reth(at, key, 8))])
    yield "READ with a wrong key", NAK_INVALID, of(lambda at, key, _: [(READ, reth(at, key ^ 1, 8))])
    yield "FETCH ADD without the right", NAK_INVALID, of(lambda at, key, _: [
        (FETCH_ADD, struct.pack("!QIQQ", at, key, 1, 0))])
    yield "FETCH ADD at an odd address", NAK_INVALID, of(lambda at, key, _: [
        (FETCH_ADD, struct.pack("!QIQQ", at + 1, key, 1, 0))])
    yield "FLUSH", NAK_INVALID, of(lambda at, key, _: [(FLUSH, bytes(4) + reth(at, key, 8))])
    yield "ATOMIC WRITE with a wrong key", NAK_ACCESS, of(lambda at, key, _: [
        (ATOMIC_WRITE, reth(at, key ^ 0x80000000, 8) + bytes(8))])
    yield "ATOMIC WRITE of four octets", NAK_INVALID, of(lambda at, key, _: [
        (ATOMIC_WRITE, reth(at, key, 4) + bytes(4))])
    for bit in (1, 0x80, 0x100, 0x80000000):
        yield "WRITE with key bit %x wrong" % bit, NAK_ACCESS, of(lambda at, key, _, bit=bit: [
            (write, reth(at, key ^ bit, 8) + bytes(8))])
    yield "WRITE with the local key", NAK_ACCESS, of(lambda at, key, _: [
        (write, reth(at, 1, 8) + bytes(8))])
    yield "WRITE in front of the region", NAK_ACCESS, of(lambda at, key, _: [
        (write, reth(-8, key, 8) + bytes(8))])
    yield "WRITE over the end of the addresses", NAK_ACCESS, of(lambda at, key, _: [
        (write, reth(-4, key, 8) + bytes(8))])
    yield "WRITE behind the region", NAK_ACCESS, of(lambda at, key, _: [
        (write, reth(1 << 40, key, 8) + bytes(8))])
    yield "WRITE longer than the region", NAK_ACCESS, of(lambda at, key, _: [
        (first, reth(at, key, 1 << 30) + bytes(roce.MTU))])
    yield "WRITE longer than a message", NAK_INVALID, of(lambda at, key, _: [
        (first, reth(at, key, 0xffffffff) + bytes(roce.MTU))])
    yield "WRITE with less than its length", NAK_INVALID, of(lambda at, key, _: [
        (write, reth(at, key, 16) + bytes(8))])
    yield "WRITE with more than its length", NAK_INVALID, of(lambda at, key, _: [
        (write, reth(at, key, 8) + bytes(16))])
    yield "WRITE with more packets than its length", NAK_INVALID, of(lambda at, key, _: [
        (first, reth(at, key, roce.MTU + 8) + bytes(roce.MTU)), (middle, bytes(roce.MTU))])
    yield "WRITE with fewer packets than its length", NAK_INVALID, of(lambda at, key, _: [
        (first, reth(at, key, 4 * roce.MTU) + bytes(roce.MTU)), (last, bytes(8))])
    yield "first packet that is not full", NAK_INVALID, of(lambda at, key, _: [
        (first, reth(at, key, 2048) + bytes(8))])
    yield "packet that is longer than the MTU", NAK_INVALID, of(lambda *_: [
        (SEND_ONLY, bytes(roce.MTU + 4))])
    yield "middle without a first", NAK_INVALID, of(lambda *_: [(middle, bytes(roce.MTU))])
    yield "last without a first", NAK_INVALID, of(lambda *_: [(roce.SEND_LAST, bytes(8))])
    yield "first after a first", NAK_INVALID, of(lambda at, key, _: [
        (first, reth(at, key, 2048) + bytes(roce.MTU))] * 2)
    yield "SEND within a WRITE", NAK_INVALID, of(lambda at, key, _: [
        (first, reth(at, key, 2048) + bytes(roce.MTU)), (roce.SEND_LAST, bytes(8))])
    yield "SEND that is longer than its buffer", NAK_INVALID, of(lambda *_: [
        (roce.SEND_FIRST, bytes(roce.MTU))] + [(roce.SEND_MIDDLE, bytes(roce.MTU))] * 16)
    for opcode in UNKNOWN:
        yield "opcode %02x" % opcode, NAK_INVALID, of(lambda *_, opcode=opcode: [(opcode, bytes(8))])


def flood(it):
    """Requests and answers of all opcodes with numbers at random, except the one that is expected."""
    source = random.Random(1)
    for number in range(FLOOD):
        opcode = source.choice(list(EXTENSIONS))
        ahead = source.choice((1, 7, 300, 1 << 16, 1 << 22, (1 << 23) - 1)) * source.choice((1, -1))
        base = it.qp.expected if opcode in ANSWERS else it.qp.psn
        # The device may expect any of the numbers that it has not acknowledged.
        waiting = [packet[1] for packet in it.qp.flying]
        if opcode in ANSWERS or base + ahead & roce.MASK not in waiting:
            it.send(it.transport(opcode, bytes(EXTENSIONS[opcode] + 4 * source.randrange(8)), base + ahead))
        if number % 50 == 49:
            it.host.catch_up()
        if number % 500 == 499:
            it.fixture.background.expect_progress()
    equal(it.qp.refused, None, "NAK")
    # The peer's own packets, and NAKs of a gap that it did not know, are over.
    it.host.wait(lambda: not it.qp.flying, "quiet")


def mutations(fixture, _):
    """Packets with some octets changed, half of them with a right checksum. What they do to their own
    connection is unknown, so each batch has a new one."""
    source = random.Random(2)
    for _ in range(BATCHES):
        it = Attack(fixture)
        at, key, _ = memory(it)
        for number in range(BATCH):
            opcode = source.choice(list(EXTENSIONS))
            body = reth(at, key, 8) if EXTENSIONS[opcode] >= 16 else b""
            body += bytes(EXTENSIONS[opcode] - len(body) + 8)
            octets = bytearray(it.transport(opcode, body, it.qp.psn + number // 8))
            for _ in range(source.randrange(4)):
                octets[source.randrange(len(octets))] ^= 1 << source.randrange(8)
            it.send(bytes(octets), broken=source.choice((0, 1)))
        it.qp.behave = "dead"
        it.close()
        fixture.remove_peers()
        fixture.background.expect_progress()


def cases():
    """All tests."""
    for counter, packets in (
            ("rx_icrc_encapsulated", wrong_checksum), ("rx_icrc_encapsulated", no_room_for_a_checksum),
            ("drop_transport_header", no_base_header), ("drop_transport_header", short_extension),
            ("drop_transport_header", wrong_padding), ("drop_transport_header", wrong_version),
            ("drop_pkey", wrong_partition), ("drop_unknown_qp", unknown_queue_pair),
            ("drop_unknown_qp", datagram_to_all), ("drop_service", other_service), ("drop_qkey", other_qkey),
            ("drop_too_long", too_long_a_datagram), ("drop_address", other_address),
            ("drop_network_header", network_header)):
        yield packets.__name__, dropped(counter, packets)
    for function in (padded_frames, udp_checksums, headers_of_the_device, empty_write, broken_write,
                     packet_by_another_device, fragments, earlier_numbers, later_numbers,
                     answers_to_nothing, answers_twice):
        yield function.__name__, attack(function)
    for name, syndrome, make in refused_requests():
        yield name, fatal(syndrome, make)
    yield "flood", attack(flood)
    yield "mutations", mutations
    yield "mtu", advertisement.mtu


def main():
    """Runs the tests with devices of rdma_soft."""
    topology.need_module()
    rsoft.load("2")
    try:
        return fixtures.run(list(cases()))
    finally:
        rsoft.unload()


if __name__ == "__main__":
    sys.exit(main())
