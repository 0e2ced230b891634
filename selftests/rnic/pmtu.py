#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Forged news of ICMP that packets to a peer are too long: the host believes it, and a device with a
connection to that peer sends packets as long as before.

Covers RNIC-IP-13.
"""

import socket
import struct
import sys

import ktap
import raw
import rsoft
import topology
from ktap import equal
from topology import HOSTS, command, inside

# Fits the longest packets of RoCE.
MTU = 4200
# The least that a host believes.
TOLD = {socket.AF_INET: 576, socket.AF_INET6: 1280}
SIZE = 1 << 20
# Longer than a packet, and no more than a socket takes while its peer hears nothing.
LOST = 16000


def addresses(family):
    """The octets of the addresses of both sides."""
    return [socket.inet_pton(family, HOSTS[family][side]) for side in "ab"]


def quoted(family):
    """The begin of a long RoCE packet of side b, as an ICMP message quotes it."""
    a, b = addresses(family)
    udp = struct.pack("!HHHH", 0xc123, raw.ROCE_PORT, 4000, 0) + bytes(32)
    if family == socket.AF_INET6:
        return struct.pack("!IHBB", 6 << 28, 4000, socket.IPPROTO_UDP, 64) + b + a + udp
    header = struct.pack("!BBHHHBBH", 0x45, 0, 4020, 1, 0x4000, 64, socket.IPPROTO_UDP, 0) + b + a
    return header[:10] + struct.pack("!H", raw.checksum(header)) + header[12:] + udp


def forge(family):
    """Tells side b that packets to side a are too long."""
    with inside("a"):
        if family == socket.AF_INET6:
            # The kernel fills in the checksum.
            message = struct.pack("!BBHI", 2, 0, 0, TOLD[family]) + quoted(family)
            sender = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        else:
            message = struct.pack("!BBHHH", 3, 4, 0, 0, TOLD[family]) + quoted(family)
            message = message[:2] + struct.pack("!H", raw.checksum(message)) + message[4:]
            sender = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with sender:
        sender.sendto(message, (HOSTS[family]["b"], 0))


def believed(family):
    """What side b shows of its route to side a."""
    return command("ip", "-n", "rs-b", "route", "get", HOSTS[family]["a"])


def octets_of_ip(family):
    """Octets that side b has sent by a version of IP."""
    file, name = ("snmp6", "Ip6OutOctets") if family == socket.AF_INET6 else ("netstat", "OutOctets")
    lines = command("ip", "netns", "exec", "rs-b", "cat", "/proc/net/" + file).splitlines()
    if family == socket.AF_INET6:
        return next(int(line.split()[1]) for line in lines if line.startswith(name))
    names, values = [line.split() for line in lines if line.startswith("IpExt:")]
    return int(values[names.index(name)])


def stream(client, server):
    """Data from b to a; the mean length of the packets of b's device meanwhile."""
    before = [rsoft.counter(name) for name in ("sent_bytes", "sent_pkts")]
    data = topology.known("long", SIZE)
    child = topology.Child(lambda: server.sendall(data))
    equal(topology.receive(client, SIZE) == data, True, "data")
    child.expect_success()
    octets, packets = [rsoft.counter(name) - was
                       for name, was in zip(("sent_bytes", "sent_pkts"), before)]
    return octets // packets


def forged_news_changes_nothing(family):
    """The same packets leave before and after it."""
    topology.netns("up")
    for side in "ab":
        command("ip", "-n", "rs-" + side, "link", "set", "v" + side, "mtu", str(MTU))
    with topology.engine("sdp"):
        client, server = topology.pair_by_rdma(family=family)
        with client, server:
            before = octets_of_ip(family)
            equal(stream(client, server) > TOLD[family], True, "long packets")
            equal(octets_of_ip(family) - before >= SIZE, True, "packets of that version of IP")
            forge(family)
            topology.until(lambda: "mtu %d" % TOLD[family] in believed(family), "the host believes it")
            dropped = rsoft.counter("send_err")
            equal(stream(client, server) > TOLD[family], True, "long packets after the news")
            equal(rsoft.counter("send_err"), dropped, "packets that were not sent")
            equal("mtu %d" % TOLD[family] in believed(family), True, "the host still believes it")
        topology.all_gone()


def packet_longer_than_the_device_is_lost(family):
    """The MTU of the network device is a bound still, and no packet leaves in fragments."""
    with topology.engine("sdp"):
        client, server = topology.pair_by_rdma(family=family)
        with client, server:
            stream(client, server)
            command("ip", "-n", "rs-b", "link", "set", "vb", "mtu", "1500")
            try:
                lost = rsoft.counter("send_err")
                server.sendall(topology.known("lost", LOST))
                topology.until(lambda: rsoft.counter("send_err") > lost, "a packet that is lost")
            finally:
                command("ip", "-n", "rs-b", "link", "set", "vb", "mtu", str(MTU))
            equal(topology.receive(client, LOST) == topology.known("lost", LOST), True, "data")
        topology.all_gone()


def main():
    """Runs the tests with devices of rdma_soft."""
    topology.need_module()
    rsoft.load("2", direct=False)
    return rsoft.run([ktap.named("%s by %s" % (test.__name__, name), test, family)
                      for name, family in (("IPv4", socket.AF_INET), ("IPv6", socket.AF_INET6))
                      for test in (forged_news_changes_nothing,
                                   packet_longer_than_the_device_is_lost)])


if __name__ == "__main__":
    sys.exit(main())
