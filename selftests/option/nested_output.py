#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Paths on which a segment passes the local output twice: for itself, and for the VRF or tunnel that
forwards it. Every connection works there by TCP, with SMC offered by both ends, one or none."""

import itertools
import socket
import sys

import ktap
import topology
from ktap import equal
from path import SYN_ACK, Rules
from topology import all_gone, command, exchange, expect_tcp

IPV4, IPV6 = socket.AF_INET, socket.AF_INET6
SIZE = 300000
VRF = "red"


def ip(side, *words):
    """Runs the ip command in a namespace."""
    return command("ip", "-n", "rs-" + side, *words)


def inside(side, *words):
    """Runs a command in a namespace."""
    return command("ip", "netns", "exec", "rs-" + side, *words)


def sent(side, device):
    """The number of packets that a device has sent."""
    path = "/sys/class/net/%s/statistics/tx_packets" % device
    return int(inside(side, "cat", path))


def new_socket(side, family, smc, device):
    """A socket bound to a device, or to none."""
    sock = topology.new_socket(side, family, smc)
    sock.settimeout(20 * topology.SLOW)
    if device:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    return sock


def connect(family, hosts, smc, devices=("", "")):
    """A connection from a to b."""
    with new_socket("b", family, smc[1], devices[1]) as listening:
        listening.bind((hosts[1], 0))
        listening.listen(4)
        client = new_socket("a", family, smc[0], devices[0])
        client.bind((hosts[0], 0))
        client.connect(listening.getsockname())
        server, _ = listening.accept()
        server.settimeout(topology.BOUND)
    return client, server


def works(client, server):
    """Fails unless both sockets show TCP, and data arrive."""
    expect_tcp(client, server)
    exchange(client, server, SIZE)
    for sock in client, server:
        sock.close()
    all_gone()


def vrf(family, ends, smc, qdisc):
    """Connections in a VRF. Soft-RoCE does not work in it, so the server has no device and declines."""
    topology.netns("up", NO_RDMA="b")
    hosts = [topology.HOSTS[family][side] for side in "ab"]
    for side in ends:
        ip(side, "link", "add", VRF, "type", "vrf", "table", "10")
        ip(side, "link", "set", VRF, "up")
        ip(side, "link", "set", "v" + side, "master", VRF)
        # A new master removes the IPv6 addresses.
        ip(side, "address", "replace", "%s/64" % topology.HOSTS[IPV6][side], "dev", "v" + side, "nodad")
        if qdisc:
            inside(side, "tc", "qdisc", "add", "dev", VRF, "root", "pfifo")
    before = {side: sent(side, VRF) for side in ends}
    with Rules("a", SYN_ACK + " tcp option 254 exists counter name hit") as rules:
        client, server = connect(family, hosts, smc, [VRF if side in ends else "" for side in "ab"])
        equal(rules.hits(), 1 if all(smc) else 0, "SYN-ACKs with the option")
    works(client, server)
    if qdisc:
        for side in ends:
            equal(sent(side, VRF) > before[side], True, "%s sends by its VRF" % side)


TUNNELS = {
    # Name: the words that make the tunnel, the family of the carrier, the families carried.
    "ipip": (("type", "ipip"), IPV4, (IPV4,)),
    "sit": (("type", "sit"), IPV4, (IPV6,)),
    "ip4ip6": (("type", "ip6tnl", "mode", "ipip6"), IPV6, (IPV4,)),
    "ip6ip6": (("type", "ip6tnl", "mode", "ip6ip6"), IPV6, (IPV6,)),
}
INNER = {IPV4: ("10.8.0.1", "10.8.0.2"), IPV6: ("fd08::1", "fd08::2")}


def tunnel(name, family, smc):
    """Connections through a tunnel, which has no RDMA device."""
    topology.netns("up")
    words, carrier, _ = TUNNELS[name]
    outer = [topology.HOSTS[carrier][side] for side in "ab"]
    for side, ends, host in (("a", outer, INNER[family][0]), ("b", outer[::-1], INNER[family][1])):
        ip(side, "link", "add", "tun", *words, "local", ends[0], "remote", ends[1])
        ip(side, "link", "set", "tun", "up")
        ip(side, "address", "add", host + ("/24" if family == IPV4 else "/64"), "dev", "tun",
           *(("nodad",) if family == IPV6 else ()))
    before = [sent(side, "tun") for side in "ab"]
    client, server = connect(family, INNER[family], smc)
    works(client, server)
    for side, count in zip("ab", before):
        equal(sent(side, "tun") > count + 2, True, "%s sends by the tunnel" % side)


def tests():
    """Tests of each path for each family, with each combination of sockets."""
    offers = [(client, server) for client in (True, False) for server in (True, False)]
    words = {True: "smc", False: "tcp"}
    named = {IPV4: "ipv4", IPV6: "ipv6"}

    for family, ends, smc in itertools.product((IPV4, IPV6), ("b", "a", "ab"), offers):
        yield ktap.named("%s.vrf_of_%s.%s_to_%s" % (named[family], ends, *(words[s] for s in smc)),
                         vrf, family, ends, smc, False)
    for family in (IPV4, IPV6):
        yield ktap.named("%s.vrf_with_qdisc" % named[family], vrf, family, "ab", (True, True), True)
    for name, (_, _, families) in TUNNELS.items():
        for family, smc in itertools.product(families, offers):
            yield ktap.named("%s.%s.%s_to_%s" % (named[family], name, *(words[s] for s in smc)),
                             tunnel, name, family, smc)


def main():
    """Runs all tests."""
    topology.need_module()
    return ktap.run(list(tests()))


if __name__ == "__main__":
    sys.exit(main())
