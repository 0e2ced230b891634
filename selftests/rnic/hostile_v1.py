#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Packets of RoCE v1 that no RNIC sends, with the addresses of a connection under way: each is dropped
and counted, and the connection goes on.

Covers RNIC-IP-04, RNIC-IP-05, RNIC-IP-06, RNIC-HDR-05, RNIC-HDR-07, RNIC-ICRC-06, RNIC-SEC-10.
"""

import json
import random
import socket
import struct
import sys
import time
import zlib

import fixtures
import ktap
import rsoft
import topology
from ktap import equal, named

ETHERTYPE, NEXT_BTH = 0x8915, 0x1b
SEND_ONLY, UC_SEND_ONLY = 0x04, 0x24
FLOOD = 1000 if fixtures.FEW else 10000


def gid(address):
    """The GID of an IPv4 address."""
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def mac(side):
    """The Ethernet address of a side."""
    link, = json.loads(topology.command("ip", "-n", "rs-" + side, "-j", "link", "show", "dev",
                                        "v" + side))
    return bytes.fromhex(link["address"].replace(":", ""))


def queue_pair(device):
    """The number of the device's connected queue pair."""
    shown = json.loads(topology.command("rdma", "-j", "resource", "show", "qp", "link", device + "/1"))
    number, = [pair["lqpn"] for pair in shown if pair["type"] == "RC" and pair["state"] == "RTS"]
    return number


def checksum(grh, transport):
    """The invariant CRC of a packet: fields that routers may change count as ones."""
    masked = b"\x6f\xff\xff\xff" + grh[4:7] + b"\xff" + grh[8:] + transport[:4] + b"\xff" + transport[5:]
    return zlib.crc32(b"\xff" * 8 + masked)


class Attacker:
    """A socket that sends packets of side a's addresses to the queue pair of side b."""

    def __init__(self):
        self.number = queue_pair("rs_b")
        self.ether = mac("b") + mac("a") + struct.pack("!H", ETHERTYPE)
        with topology.inside("a"):
            self.raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            self.raw.bind(("va", 0))

    def transport(self, opcode=SEND_ONLY, body=bytes(8), number=None, pkey=0xffff, flags=0):
        """The octets from the base header to the payload."""
        return struct.pack("!BBHII", opcode, flags, pkey, self.number if number is None else number, 0) + body

    @staticmethod
    def grh(size, first=0x60000000, following=NEXT_BTH, hops=64, source="10.9.0.1", to="10.9.0.2"):
        """The header of the network in front of that many octets."""
        return struct.pack("!IHBB", first, size, following, hops) + gid(source) + gid(to)

    def send(self, transport, broken=0, size=None, cut=None, **fields):
        """Sends a packet with a right checksum, or one that differs in the bits `broken`. `size` is the
        length in the header, and `cut` the number of octets behind the Ethernet header."""
        grh = self.grh(len(transport) + 4 if size is None else size, **fields)
        tail = struct.pack("<I", checksum(grh, transport) ^ broken)
        self.raw.send(self.ether + (grh + transport + tail)[:cut])


def wrong_checksum(it):
    """Every bit of the checksum."""
    for bit in range(32):
        yield it.transport(), {"broken": 1 << bit}


def network_header(it):
    """Another version, another protocol, a length beyond the packet, and no whole header."""
    for version in (0, 4, 5, 7, 15):
        yield it.transport(), {"first": version << 28}
    for following in (0, 17, 0x1a, 0xff):
        yield it.transport(), {"following": following}
    for size in (25, 100, 0xffff):
        yield it.transport(), {"size": size}
    # Shorter frames than an Ethernet's are padded, and behave as the last ones.
    for cut in range(20, 40):
        yield it.transport(), {"cut": cut}


def no_base_header(it):
    """Lengths that end in front of the payload."""
    for size in range(12):
        yield it.transport(), {"size": size}


def other_address(it):
    """Other hosts, other addresses of this one."""
    yield it.transport(), {"source": "10.9.0.99"}
    yield it.transport(), {"source": "10.9.0.2"}
    yield it.transport(), {"to": "10.9.0.99"}
    yield it.transport(), {"to": "10.9.0.1"}


def unknown_queue_pair(it):
    """Numbers that no queue pair has."""
    for number in (0, 2, 0xffffff, it.number ^ 0x800000):
        yield it.transport(number=number), {}


def other_partition(it):
    """Keys of other partitions."""
    for pkey in (0, 0x7ffe, 0x8001):
        yield it.transport(pkey=pkey), {}


def transport_header(it):
    """Other versions of the transport, and payload of an odd length."""
    for flags in (1, 15):
        yield it.transport(flags=flags), {}
    for size in (1, 2, 3):
        yield it.transport(body=bytes(size)), {}


def other_service(it):
    """Opcodes of other services."""
    for opcode in (UC_SEND_ONLY, 0x64, 0x81, 0xff):
        yield it.transport(opcode, bytes(32)), {}
    # The hop limit, class and flow label do not matter; the rest of such packets does.
    for fields in ({"hops": 0}, {"hops": 1}, {"hops": 255}, {"first": 0x6abcdef0}):
        yield it.transport(UC_SEND_ONLY, bytes(32)), fields


def dropped(background, counter, packets):
    """Sends packets that the counter counts."""
    it = Attacker()
    made = list(packets(it))
    with it.raw, rsoft.counted(counter, len(made)):
        for transport, how in made:
            it.send(transport, **how)
    background.expect_progress()


def packet_of_the_other_version(background):
    """UDP to a queue pair of RoCE v1."""
    it = Attacker()
    with it.raw, rsoft.counted("drop_address", 1), topology.inside("a"), \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.sendto(it.transport() + bytes(4), ("10.9.0.2", 4791))
    background.expect_progress()


def headers_of_the_device(background):
    """Fields and checksum of the packets of both devices."""
    with topology.inside("a"):
        listening = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    addresses = {(mac("a"), gid("10.9.0.1")), (mac("b"), gid("10.9.0.2"))}
    with listening:
        listening.bind(("va", ETHERTYPE))
        listening.settimeout(20)
        background.expect_progress()
        # Most packets leave out the network.
        for _ in range(20):
            frame = listening.recv(65536)
            grh, transport = frame[14:54], frame[54:-4]
            first, size, following, hops = struct.unpack("!IHBB", grh[:8])
            equal((first >> 28, size, following, hops > 0), (6, len(frame) - 54, NEXT_BTH, True), "GRH")
            equal({(frame[6:12], grh[8:24]), (frame[:6], grh[24:])}, addresses, "addresses")
            equal((transport[1] & 0x4f, transport[2:4], transport[4]), (0x40, b"\xff\xff", 0), "BTH")
            equal(frame[-4:], struct.pack("<I", checksum(grh, transport)), "invariant CRC")
    background.expect_progress()


def flood(background):
    """Packets with changed octets and a wrong checksum, among those of the connection."""
    it, source = Attacker(), random.Random(3)
    with it.raw:
        for number in range(FLOOD):
            octets = bytearray(it.transport(source.randrange(256), bytes(4 * source.randrange(64))))
            octets[source.randrange(12)] ^= 1 << source.randrange(8)
            it.send(bytes(octets), broken=1)
            if number % 64 == 63:
                time.sleep(0.001)
            if number % 2000 == 1999:
                background.expect_progress()
    background.expect_progress()


def tests(background):
    """All tests."""
    for counter, packets in (
            ("rx_icrc_encapsulated", wrong_checksum), ("drop_network_header", network_header),
            ("drop_transport_header", no_base_header), ("drop_address", other_address),
            ("drop_unknown_qp", unknown_queue_pair), ("drop_pkey", other_partition),
            ("drop_transport_header", transport_header), ("drop_service", other_service)):
        yield named(packets.__name__, dropped, background, counter, packets)
    for function in packet_of_the_other_version, headers_of_the_device, flood:
        yield named(function.__name__, function, background)
    yield named("data of the connection were right", background.stop)


def main():
    """Runs the tests with devices that have version 1 only."""
    topology.need_module()
    rsoft.load("1")
    try:
        topology.netns("up")
        background = fixtures.BackgroundTraffic()
        try:
            return ktap.run(list(tests(background)))
        finally:
            background.child.give_up()
            topology.all_gone()
    finally:
        rsoft.unload()


if __name__ == "__main__":
    sys.exit(main())
