#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The way of packets through the network stack: their headers, routes and neighbours that change under a
connection, addresses of this host, L3 masters, and policies of IPsec.

Covers RNIC-IP-02, RNIC-IP-08, RNIC-IP-09, RNIC-IP-10, RNIC-IP-11, RNIC-REQ-16,
RNIC-TX-03, RNIC-RX-01, RNIC-RX-05, RNIC-SEC-13.
"""

import contextlib
import json
import socket
import struct
import sys

import ktap
import raw
import rsoft
import topology
from ktap import equal, named
from topology import HOSTS, command, exchange, expect_smc, inside, until
from user import ADDRESSES, RINGS, changing, gid_index

FAMILIES = {"4": socket.AF_INET, "6": socket.AF_INET6}
ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
UDP_SEGMENT = 103
# DSCP 46 and ECT(0), as the program of user space asks for.
CLASS = 0xba
HOPS = 33
# Neither answers.
NOBODY = "02:00:00:00:77:77"
GATEWAYS = {"4": "10.9.0.77", "6": "fd09::77"}
# The address of another network device of side a.
OTHERS = {"4": "10.9.8.1", "6": "fd09:8::1"}
# Bits of the network in an address.
WIDTHS = {"4": "24", "6": "64"}
# Families of tables of nftables.
TABLES = {"4": "ip", "6": "ip6"}
# Octets of a message that a route loses at first.
LOST = 1000


class Wire:
    """The packets that side b gets from side a, by the name of their protocol."""

    def __init__(self, family):
        with inside("b"):
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.sock.bind(("vb", 0))
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        self.family = FAMILIES[family]
        self.source = socket.inet_pton(self.family, HOSTS[self.family]["a"])

    def _read(self, packet):
        """Protocol, UDP port, traffic class and hop limit of a packet of side a."""
        if self.family == socket.AF_INET6:
            first, _, proto, hops = struct.unpack("!IHBB", packet[:8])
            source, kind, rest = packet[8:24], first >> 20 & 0xff, packet[40:]
        else:
            kind, hops, proto, source = packet[1], packet[8], packet[9], packet[12:16]
            rest = packet[20:]
        if source != self.source or len(rest) < 4:
            return None
        return proto, struct.unpack("!H", rest[2:4])[0], kind, hops

    def packets(self):
        """Those since the last call: RoCE packets as pairs of traffic class and hop limit, and the number of
        those of ESP."""
        roce, esp = [], 0
        ethertype = b"\x86\xdd" if self.family == socket.AF_INET6 else b"\x08\x00"
        with contextlib.suppress(BlockingIOError):
            while True:
                frame = self.sock.recv(65536)
                found = self._read(frame[14:]) if frame[12:14] == ethertype else None
                if found is None:
                    continue
                proto, port, kind, hops = found
                esp += proto == socket.IPPROTO_ESP
                if (proto, port) == (socket.IPPROTO_UDP, raw.ROCE_PORT):
                    roce.append((kind, hops))
        return roce, esp


def rings(family, case, peer="b", before=()):
    """A case of the program that fills its rings by hand, behind the words `before`; what it prints."""
    return command("ip", "netns", "exec", "rs-a", *before, str(RINGS), "rs_a", gid_index("a", family), "rs_" + peer,
                   gid_index(peer, family), case)


def headers_have_class_and_hop_limit(family):
    """Those of the address vector, with the bits of ECN; the hop limit is that of the route at first."""
    wire = Wire(family)
    for hops in 64, HOPS:
        if hops == HOPS:
            to = HOSTS[FAMILIES[family]]["b"]
            command("ip", "-n", "rs-a", "-" + family, "route", "add", to, "dev", "va", "hoplimit", str(HOPS))
        before = rsoft.counter("sent_pkts", "rs_a")
        said = rings(family, "marked")
        equal(int(said), hops, "hop limit of the address vector")
        roce, _ = wire.packets()
        # One packet may be an acknowledgement. Some were seen together.
        sent = rsoft.counter("sent_pkts", "rs_a") - before
        equal((sent >= 15, set(roce)), (True, {(CLASS, hops)}), "packets of side a")


@contextlib.contextmanager
def recovered(family, counter, size=LOST):
    """A connection whose data from a to b are lost for the block, which a counter of side a shows, and
    arrive behind it."""
    client, server = topology.pair(FAMILIES[family])
    with client, server:
        expect_smc(client, server)
        exchange(client, server, 10000)
        before = rsoft.counter(counter, "rs_a")

        def lose():
            client.sendall(topology.known("lost", size))
            until(lambda: rsoft.counter(counter, "rs_a") > before, "a packet that is lost")
        yield lose
        equal(topology.receive(server, size) == topology.known("lost", size), True, "data")
        exchange(client, server, 10000)
    topology.all_gone()


def neighbour_that_changes_is_followed(family):
    """The next packet goes to the Ethernet address that the stack has then."""
    host = HOSTS[FAMILIES[family]]["b"]
    with recovered(family, "completer_retry_err") as lose:
        command("ip", "-n", "rs-a", "neigh", "replace", host, "lladdr", NOBODY, "dev", "va", "nud", "permanent")
        lose()
        command("ip", "-n", "rs-a", "neigh", "delete", host, "dev", "va")


def route_that_changes_is_followed(family):
    """The next packet goes to the gateway that the route has then."""
    host, gateway = HOSTS[FAMILIES[family]]["b"], GATEWAYS[family]
    with recovered(family, "completer_retry_err") as lose:
        command("ip", "-n", "rs-a", "neigh", "replace", gateway, "lladdr", NOBODY, "dev", "va", "nud",
                "permanent")
        command("ip", "-n", "rs-a", "-" + family, "route", "add", host, "via", gateway, "dev", "va")
        lose()
        command("ip", "-n", "rs-a", "-" + family, "route", "delete", host, "via", gateway, "dev", "va")


def source_address_chooses_the_table(family):
    """A rule is followed that is for packets of the address of the device."""
    host, gateway = HOSTS[FAMILIES[family]]["b"], GATEWAYS[family]
    rule = ("from", HOSTS[FAMILIES[family]]["a"], "table", "77")
    with recovered(family, "completer_retry_err") as lose:
        command("ip", "-n", "rs-a", "neigh", "replace", gateway, "lladdr", NOBODY, "dev", "va", "nud",
                "permanent")
        command("ip", "-n", "rs-a", "-" + family, "route", "add", host, "via", gateway, "dev", "va", "table",
                "77")
        command("ip", "-n", "rs-a", "-" + family, "rule", "add", *rule)
        lose()
        command("ip", "-n", "rs-a", "-" + family, "rule", "delete", *rule)


def route_that_is_refused_loses_packets():
    """Packets without a route are lost, and are counted. IPv4 has one for each neighbour, whatever its
    tables say."""
    host = HOSTS[socket.AF_INET6]["b"]
    topology.netns("up")
    with recovered("6", "send_err") as lose:
        command("ip", "-n", "rs-a", "-6", "route", "add", "prohibit", host)
        lose()
        command("ip", "-n", "rs-a", "-6", "route", "delete", "prohibit", host)


def queue(side):
    """What the queue of a network device has done."""
    shown, = json.loads(command("tc", "-n", "rs-" + side, "-j", "-s", "qdisc", "show", "dev", "v" + side))
    return shown


def sender_waits_for_a_slow_network(family):
    """Nothing but the network limits an unreliable connection. Its queue has room for a fourth of the packets,
    takes them all, and drops none. One processor sends and receives them: two that are not equally fast change
    their order, and then their message is lost."""
    command("tc", "-n", "rs-a", "qdisc", "add", "dev", "va", "root", "netem", "limit", "600", "slot", "5ms",
            "5ms", "packets", "32")
    try:
        rings(family, "unreliable paced", before=("taskset", "--cpu-list", "0"))
    except AssertionError as error:
        raise AssertionError("%s; %s; %s; %s" % (error, queue("a"), rsoft.counters("rs_a"),
                                                 rsoft.counters("rs_b"))) from error
    shown = queue("a")
    equal((shown["drops"], shown["packets"] > 2300), (0, True), str(shown))


def frames(netdev):
    """Packets that a network device of side a has sent."""
    shown, = json.loads(command("ip", "-n", "rs-a", "-j", "-s", "link", "show", netdev))
    return shown["stats64"]["tx"]["packets"]


def add_other(family):
    """Makes another network device of side a, with an address."""
    command("ip", "-n", "rs-a", "link", "add", "other", "type", "dummy")
    command("ip", "-n", "rs-a", "link", "set", "other", "up")
    command("ip", "-n", "rs-a", "-" + family, "address", "add", OTHERS[family] + "/" + WIDTHS[family], "dev",
            "other")


def packets_to_the_own_address_take_the_loopback_device(family):
    """Those of a queue pair to itself."""
    looped = frames("lo")
    rings(family, "itself")
    equal(frames("lo") >= looped + 400, True, "packets of the loopback device")


def address_of_this_host_has_to_be_one_of_a_device():
    """A packet to another one is lost, and counted; those between two devices take the loopback device. With
    IPv4 there is no route from a device to the address of another one."""
    family = "6"
    topology.netns("up")
    add_other(family)
    lost, looped = rsoft.counters("rs_a")["send_err"], frames("lo")
    rings(family, "nowhere")
    equal(rsoft.counters("rs_a")["send_err"] >= lost + 2, True, "packets that were lost")
    equal(frames("lo"), looped, "packets of the loopback device")
    command("ip", "netns", "exec", "rs-a", "rdma", "link", "add", "rs_x", "type", "rsoft", "netdev", "other")
    try:
        topology.await_gid("rs_x", OTHERS[family])
        ADDRESSES[family]["x"] = OTHERS[family]
        rings(family, "bystander", "x")
        equal(frames("lo") >= looped + 80, True, "packets of the loopback device")
    finally:
        command("rdma", "link", "delete", "rs_x")


def route_by_another_device_loses_packets():
    """Those of IPv6, as IPv4 finds a route by the device of the address in spite of it."""
    topology.netns("up")
    add_other("6")
    before = rsoft.counters("rs_a")["send_err"]
    changing("lost route", lambda: command("ip", "-n", "rs-a", "-6", "route", "add",
                                           HOSTS[socket.AF_INET6]["b"], "dev", "other"), family="6")
    equal(rsoft.counters("rs_a")["send_err"] > before, True, "packets that were lost")


def l3_master_has_routes_of_its_own(family):
    """Packets of a device below it take them, and arrive; a route by another device of it loses them."""
    own = HOSTS[FAMILIES[family]]["a"] + "/" + WIDTHS[family]
    command("ip", "-n", "rs-a", "link", "add", "vrf9", "type", "vrf", "table", "9")
    command("ip", "-n", "rs-a", "link", "set", "vrf9", "up")
    command("ip", "netns", "exec", "rs-a", "sysctl", "-qw", "net.ipv4.udp_l3mdev_accept=1")
    add_other(family)
    for netdev in "va", "other":
        command("ip", "-n", "rs-a", "link", "set", netdev, "master", "vrf9")
    # The addresses of IPv6 are gone.
    command("ip", "-n", "rs-a", "-" + family, "address", "replace", own, "dev", "va")
    topology.await_gid("rs_a", HOSTS[FAMILIES[family]]["a"])
    wire = Wire(family)
    rings(family, "bystander")
    equal(len(wire.packets()[0]) >= 40, True, "packets of side a")
    before = rsoft.counters("rs_a")["send_err"]
    changing("lost route", lambda: command("ip", "-n", "rs-a", "-" + family, "route", "add",
                                           HOSTS[FAMILIES[family]]["b"], "dev", "other", "table", "9"),
             family=family)
    equal(rsoft.counters("rs_a")["send_err"] > before, True, "packets that were lost")


def policy(word, side, family, way, direction):
    """Adds or deletes a policy that asks for ESP of RoCE packets of one way."""
    hosts = HOSTS[FAMILIES[family]]
    words = ["ip", "-n", "rs-" + side, "xfrm", "policy", word, "src", hosts[way[0]], "dst", hosts[way[1]],
             "proto", "udp", "dport", str(raw.ROCE_PORT), "dir", direction]
    if word == "add":
        words += ["tmpl", "proto", "esp", "mode", "transport", "level", "required"]
    command(*words)


def packet_that_needs_a_key_and_has_none_is_dropped(family):
    """By the policy of the sender, and by that of the receiver; with keys on both sides it arrives."""
    wire = Wire(family)
    policy("add", "a", family, "ab", "out")
    rings(family, "isolated")
    equal(wire.packets(), ([], 0), "packets of side a without a key")
    policy("delete", "a", family, "ab", "out")
    rings(family, "bystander")
    wire.packets()
    policy("add", "b", family, "ab", "in")
    received = rsoft.counters("rs_b")["rcvd_pkts"]
    rings(family, "isolated")
    roce, esp = wire.packets()
    equal((len(roce) > 0, esp), (True, 0), "packets of side a in the clear")
    equal(rsoft.counters("rs_b")["rcvd_pkts"], received, "packets that the device got")
    policy("add", "a", family, "ab", "out")
    for side, direction in ("b", "out"), ("a", "in"):
        policy("add", side, family, "ba", direction)
    hosts = HOSTS[FAMILIES[family]]
    for side in "ab":
        for number, way in enumerate(("ab", "ba")):
            command("ip", "-n", "rs-" + side, "xfrm", "state", "add", "src", hosts[way[0]], "dst",
                    hosts[way[1]], "proto", "esp", "spi", "0x%x" % (0x100 + number), "mode", "transport",
                    "enc", "ecb(cipher_null)", "", "auth", "digest_null", "")
    wire.packets()
    rings(family, "bystander")
    roce, esp = wire.packets()
    equal((roce, esp >= 40), ([], True), "packets of side a with a key")


def message_passes_the_network(family):
    """Sends 1 MB. Returns the packets of side a by its counter, those that were seen on the wire, and the runs
    of packets."""
    def both():
        return [rsoft.counter(name, "rs_a") for name in ("sent_pkts", "sent_runs")]
    wire = Wire(family)
    client, server = topology.pair(FAMILIES[family])
    with client, server:
        expect_smc(client, server)
        before = both()
        wire.packets()
        exchange(client, server, 1000000)
        roce, _ = wire.packets()
        packets, runs = (now - then for now, then in zip(both(), before))
    topology.all_gone()
    return packets, len(roce), runs


def packets_of_a_message_pass_together(family):
    """The network stack handles some dozens of packets as one (RNIC-TX-03), and the data arrive."""
    packets, seen, runs = message_passes_the_network(family)
    equal((packets > 1000, runs > 10, seen < packets // 3), (True, True, True),
          "%d packets in %d runs, %d seen" % (packets, runs, seen))


def packets_pass_one_by_one(family):
    """With together=0 each packet is seen."""
    topology.netns("down")
    rsoft.load("2", direct=False, together=False)
    topology.netns("up")
    try:
        packets, seen, runs = message_passes_the_network(family)
        equal((packets > 1000, runs, seen > 1000), (True, 0, True), "%d packets, %d seen" % (packets, seen))
    finally:
        topology.netns("down")
        rsoft.load("2", direct=False)


def runs_of_a_message(family):
    """Sends 1 MB each way. Returns the runs of packets that side b has taken together."""
    client, server = topology.pair(FAMILIES[family])
    with client, server:
        expect_smc(client, server)
        before = rsoft.counters()["rcvd_runs"]
        exchange(client, server, 1000000)
        runs = rsoft.counters()["rcvd_runs"] - before
    topology.all_gone()
    return runs


def run_is_taken_before_udp(family):
    """Packets that arrive together are handled together (RNIC-RX-01)."""
    runs = runs_of_a_message(family)
    equal(runs > 10, True, "%d runs" % runs)


def run_of_a_tracked_connection_goes_by_udp(family):
    """The kernel confirms the connection behind the hook."""
    with rsoft.rule(TABLES[family], "ct state new counter"):
        equal(runs_of_a_message(family), 0, "runs")
    equal(runs_of_a_message(family) > 10, True, "runs")


def run_that_a_filter_drops_is_lost(family):
    """Filters come before the hook, and the data arrive behind the rule."""
    with recovered(family, "completer_retry_err", 50000) as lose:
        with rsoft.rule(TABLES[family], "udp dport 4791 drop"):
            before = rsoft.counters()
            lose()
            now = rsoft.counters()
            for name in "rcvd_pkts", "rcvd_runs":
                equal(now[name], before[name], name)


def run_goes_by_udp_without_the_hook(family):
    """With hook=0 packets arrive one by one, by the same parser (RNIC-RX-05)."""
    topology.netns("down")
    rsoft.load("2", direct=False, hook=False)
    topology.netns("up")
    try:
        equal(runs_of_a_message(family), 0, "runs")
    finally:
        topology.netns("down")
        rsoft.load("2", direct=False)


def port_elsewhere_belongs_to_its_socket(family):
    """The hook takes nothing in a namespace without devices (RNIC-SEC-13)."""
    loopback = {"4": "127.0.0.1", "6": "::1"}[family]
    with socket.socket(FAMILIES[family], socket.SOCK_DGRAM) as server, \
            socket.socket(FAMILIES[family], socket.SOCK_DGRAM) as client:
        server.bind((loopback, raw.ROCE_PORT))
        server.settimeout(topology.BOUND)
        client.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 100)
        client.sendto(topology.known("segments", 1000), (loopback, raw.ROCE_PORT))
        got = b"".join(server.recv(1000) for _ in range(10))
        equal(got == topology.known("segments", 1000), True, "datagrams")


def main():
    """Runs the tests with devices of rdma_soft."""
    topology.need_module()
    if not RINGS.exists():
        ktap.skip_all("a program is not here")
    for name in "ib_uverbs", "rdma_ucm", "vrf":
        command("modprobe", name, check=False)
    rsoft.load("2", direct=False)
    tests = []
    for family in FAMILIES:
        for test in (headers_have_class_and_hop_limit, neighbour_that_changes_is_followed,
                     route_that_changes_is_followed, sender_waits_for_a_slow_network,
                     source_address_chooses_the_table,
                     packet_that_needs_a_key_and_has_none_is_dropped,
                     packets_to_the_own_address_take_the_loopback_device, l3_master_has_routes_of_its_own,
                     packets_of_a_message_pass_together, packets_pass_one_by_one, run_is_taken_before_udp,
                     run_of_a_tracked_connection_goes_by_udp, run_that_a_filter_drops_is_lost,
                     run_goes_by_udp_without_the_hook, port_elsewhere_belongs_to_its_socket):
            def fresh(test=test, family=family):
                topology.netns("up")
                test(family)
            tests.append(named("%s by IPv%s" % (test.__name__, family), fresh))
    tests += [route_that_is_refused_loses_packets, route_by_another_device_loses_packets,
              address_of_this_host_has_to_be_one_of_a_device]
    return rsoft.run(tests)


if __name__ == "__main__":
    sys.exit(main())
