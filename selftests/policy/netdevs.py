#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The choice of the RDMA device for a connection with a VLAN, a MACVLAN or a bond between address and
hardware, and the comparison of subnets."""

import contextlib
import socket
import sys

import ktap
import topology
from capture import Wire
from fallback import PREFIX, Watch, goes_by_rdma, stays_tcp
from ktap import Skip, equal
from messages import ACCEPT, CONFIRM, PROPOSAL
from topology import all_gone, await_gid, command, exchange, expect_smc, gid_text, gids, pair


def ip(side, *words, check=True):
    """Runs the ip command in a namespace."""
    return command("ip", "-n", "rs-" + side, *words, check=check)


def connect(source, host, family=socket.AF_INET):
    """A connection between two addresses."""
    listening = topology.new_socket("b", family)
    listening.bind((host, 0))
    listening.listen(4)
    client = topology.new_socket("a", family)
    client.bind((source, 0))
    client.settimeout(topology.BOUND)
    client.connect(listening.getsockname())
    listening.settimeout(topology.BOUND)
    server, _ = listening.accept()
    server.settimeout(topology.BOUND)
    listening.close()
    return client, server


def add_vlan(number):
    """Makes VLAN devices with addresses on both sides."""
    for side, host in (("a", 1), ("b", 2)):
        name = "v%s.%d" % (side, number)
        ip(side, "link", "add", "link", "v" + side, "name", name, "type", "vlan", "id", str(number))
        ip(side, "address", "add", "10.5.%d.%d/24" % (number, host), "dev", name)
        ip(side, "address", "add", "fd05:%d::%d/64" % (number, host), "dev", name, "nodad")
        ip(side, "link", "set", name, "up")
        await_gid("rs_" + side, "10.5.%d.%d" % (number, host))
        await_gid("rs_" + side, "fd05:%d::%d" % (number, host))


def vlans():
    """Each VLAN has a link group of its own by a first contact of its own. All frames of a connection
    stay in its VLAN."""
    # LGR-02, LGR-03, LGR-24, LNK-01, GEN-06, SEC-01, SEC-02, SEC-03, RDV-01, TST-146.
    topology.netns("up")
    for number in (5, 6):
        add_vlan(number)
    pairs = [pair(), connect("10.5.5.1", "10.5.5.2"), connect("10.5.6.1", "10.5.6.2")]
    for both in pairs:
        expect_smc(*both)
        exchange(*both, 20000)
    equal(len({line["lgr"] for line in topology.records("a", "conns") if "lgr" in line}), 3, "groups")
    equal(topology.counter("a", "link_groups"), 3, "link groups of a")
    equal(topology.counter("b", "link_groups"), 3, "link groups of b")
    # A second connection in each VLAN joins its group.
    more = [pair(), connect("10.5.5.1", "10.5.5.2"), connect("10.5.6.1", "10.5.6.2")]
    for both in more:
        expect_smc(*both)
    equal(topology.counter("a", "link_groups"), 3, "link groups of a")
    for sock in (sock for both in pairs + more for sock in both):
        sock.close()
    all_gone()


def vlan_carries_its_data():
    """RDMA frames of a connection in a VLAN are seen in that VLAN and nowhere else."""
    # SEC-02, GEN-06.
    topology.netns("up")
    add_vlan(5)

    def octets(name):
        """The number of octets that a network device has sent."""
        return int(command("ip", "netns", "exec", "rs-a", "cat",
                           "/sys/class/net/%s/statistics/tx_bytes" % name))
    client, server = connect("10.5.5.1", "10.5.5.2")
    expect_smc(client, server)
    before = octets("va.5")
    exchange(client, server, 500000)
    equal(octets("va.5") - before > 500000, True, "data in the VLAN")
    client.close()
    server.close()
    all_gone()


def vlan_ipv6():
    """VLANs with IPv6 addresses."""
    # LGR-24, SEC-02.
    topology.netns("up")
    add_vlan(7)
    goes_by_rdma(*connect("fd05:7::1", "fd05:7::2", socket.AF_INET6))


def vlan_of_one_side_only():
    """A connection in a VLAN whose other side has no RDMA device uses TCP."""
    topology.netns("up", NO_RDMA="b")
    for side, host in (("a", 1), ("b", 2)):
        name = "v%s.5" % side
        ip(side, "link", "add", "link", "v" + side, "name", name, "type", "vlan", "id", "5")
        ip(side, "address", "add", "10.5.5.%d/24" % host, "dev", name)
        ip(side, "link", "set", name, "up")
    await_gid("rs_a", "10.5.5.1")
    watch = Watch()
    stays_tcp(*connect("10.5.5.1", "10.5.5.2"), (None, None), watch)


@contextlib.contextmanager
def upper(kind, *options):
    """Makes a device above each end of the wire, with the addresses. RDMA devices come later."""
    topology.netns("up", NO_RDMA="a b")
    for side, host in (("a", 1), ("b", 2)):
        made = ip(side, "link", "add", "up" + side, "type", kind, *options, check=False)
        if made:
            raise Skip("the kernel has no %s: %s" % (kind, made.strip()))
        ip(side, "address", "flush", "dev", "v" + side)
        ip(side, "link", "set", "v" + side, "down")
        ip(side, "link", "set", "v" + side, "master", "up" + side)
        ip(side, "link", "set", "v" + side, "up")
        ip(side, "link", "set", "up" + side, "up")
        ip(side, "address", "add", "10.9.0.%d/24" % host, "dev", "up" + side)
        ip(side, "address", "add", "fd09::%d/64" % host, "dev", "up" + side, "nodad")
    yield


def add_rdma(side, netdev, address):
    """Adds an RDMA device on a network device of a side."""
    command("ip", "netns", "exec", "rs-" + side, "rdma", "link", "add", "rs_" + side, "type", "rxe",
            "netdev", netdev)
    await_gid("rs_" + side, address)


def device_of(side):
    """The RDMA device of the connections of a side."""
    return {line.get("dev") for line in topology.records(side, "conns") if line["mode"] == "smc"}


def bond():
    """Adds an RDMA device of the bond itself, as network cards with bonds in hardware have it."""
    with upper("bond", "mode", "active-backup", "miimon", "100"):
        for side, host in (("a", 1), ("b", 2)):
            add_rdma(side, "up" + side, "10.9.0.%d" % host)
        client, server = pair()
        expect_smc(client, server)
        equal((device_of("a"), device_of("b")), ({"rs_a"}, {"rs_b"}), "devices")
        exchange(client, server)
        client.close()
        server.close()
        all_gone()
        goes_by_rdma(*pair(socket.AF_INET6))


def device_below_a_bond():
    """An RDMA device of the active port of a bond serves the bond's addresses."""
    with upper("bond", "mode", "active-backup", "miimon", "100"):
        for side, host in (("a", 1), ("b", 2)):
            add_rdma(side, "v" + side, "10.9.0.%d" % host)
        # Soft-RoCE sends by the route of the port, which has none. The test shows that the device
        # is chosen, and that a failed CONFIRM LINK falls back to TCP.
        with Wire() as wire:
            client, server = pair()
            kinds = [message["type"] for _, message in wire.clc(client)][:3]
        equal(kinds, [PROPOSAL, ACCEPT, CONFIRM], "CLC messages")
        exchange(client, server)
        client.close()
        server.close()
        all_gone()


def vlan_on_a_bond():
    """A VLAN above a bond works as one above hardware."""
    # LGR-24, SEC-02.
    with upper("bond", "mode", "active-backup", "miimon", "100"):
        for side, host in (("a", 1), ("b", 2)):
            name = "up%s.9" % side
            ip(side, "link", "add", "link", "up" + side, "name", name, "type", "vlan", "id", "9")
            ip(side, "address", "add", "10.5.9.%d/24" % host, "dev", name)
            ip(side, "link", "set", name, "up")
            add_rdma(side, "up" + side, "10.9.0.%d" % host)
            await_gid("rs_" + side, "10.5.9.%d" % host)
        one, two = pair(), connect("10.5.9.1", "10.5.9.2")
        for both in (one, two):
            expect_smc(*both)
            exchange(*both, 10000)
        equal(topology.counter("a", "link_groups"), 2, "link groups")
        for sock in one + two:
            sock.close()
        all_gone()


def address_of_another_device():
    """A source address of another device than the outgoing one has no subnet to compare, so the client
    declines."""
    # CLC-124.
    topology.netns("up")
    ip("a", "address", "add", "10.4.0.1/32", "dev", "lo")
    ip("b", "route", "add", "10.4.0.1/32", "dev", "vb")
    watch = Watch()
    stays_tcp(*connect("10.4.0.1", "10.9.0.2"), (PREFIX, PREFIX), watch)


def masks_that_differ():
    """A network number with two prefix lengths is two subnets."""
    # CLC-126, TST-103.
    topology.netns("up")
    ip("b", "address", "delete", "10.9.0.2/24", "dev", "vb")
    topology.until(lambda: gid_text("10.9.0.2") not in gids("rs_b"), "the address stays")
    ip("b", "address", "add", "10.9.0.2/16", "dev", "vb")
    await_gid("rs_b", "10.9.0.2")
    watch = Watch()
    stays_tcp(*pair(), (PREFIX, PREFIX), watch)


def several_prefixes():
    """One common prefix of several is enough, at any position; without one the server declines."""
    # CLC-112, CLC-127, TST-103.
    topology.netns("up")
    for number in range(2, 8):
        ip("a", "address", "add", "fd0a:%d::1/64" % number, "dev", "va", "nodad")
        ip("b", "address", "add", "fd0b:%d::1/64" % number, "dev", "vb", "nodad")
    goes_by_rdma(*pair(socket.AF_INET6))
    ip("b", "route", "add", "fd0a:2::/64", "dev", "vb")
    ip("a", "address", "delete", "fd09::1/64", "dev", "va")
    ip("a", "route", "add", "fd09::/64", "dev", "va")
    topology.until(lambda: gid_text("fd09::1") not in gids("rs_a"), "the address stays")
    watch = Watch()
    stays_tcp(*connect("fd0a:2::1", "fd09::2", socket.AF_INET6), (PREFIX, PREFIX), watch)


def two_devices_of_a_host():
    """The server offers an address in the subnet of the connection, although it has another RDMA
    device."""
    # CLC-125, CLC-128.
    topology.netns("up")
    command("ip", "link", "add", "vc", "netns", "rs-a", "type", "veth", "peer", "name", "vd",
            "netns", "rs-b")
    for side, name, host in (("a", "vc", 1), ("b", "vd", 2)):
        ip(side, "address", "add", "10.8.0.%d/24" % host, "dev", name)
        ip(side, "link", "set", name, "up")
        command("ip", "netns", "exec", "rs-" + side, "rdma", "link", "add", "rs_" + name, "type",
                "rxe", "netdev", name)
        await_gid("rs_" + name, "10.8.0.%d" % host)
    try:
        for source, host, device in (("10.9.0.1", "10.9.0.2", "rs_b"),
                                     ("10.8.0.1", "10.8.0.2", "rs_vd")):
            client, server = connect(source, host)
            expect_smc(client, server)
            line = [line for line in topology.records("b", "conns")
                    if line["local"].startswith(host + ":") and line["mode"] == "smc"]
            equal([entry["dev"] for entry in line], [device], "device of the server")
            exchange(client, server, 1000)
            client.close()
            server.close()
            all_gone()
    finally:
        for name in ("rs_vc", "rs_vd"):
            command("rdma", "link", "delete", name, check=False)


def device_of_a_macvlan_comes_first():
    """The RDMA device of a MACVLAN carries its connections, and not that of the card below, which has the
    address as well."""
    topology.netns("up")
    made = []
    try:
        for side, host in (("a", 1), ("b", 2)):
            name, address = "m" + side, "10.6.0.%d" % host
            ip(side, "link", "add", "link", "v" + side, "name", name, "type", "macvlan", "mode", "bridge")
            ip(side, "address", "add", address + "/24", "dev", name)
            ip(side, "link", "set", "dev", name, "up")
            await_gid("rs_" + side, address)
            command("ip", "netns", "exec", "rs-" + side, "rdma", "link", "add", "rs_" + name, "type",
                    "rxe", "netdev", name)
            made.append("rs_" + name)
            await_gid("rs_" + name, address)
        client, server = connect("10.6.0.1", "10.6.0.2")
        expect_smc(client, server)
        equal((device_of("a"), device_of("b")), ({"rs_ma"}, {"rs_mb"}), "devices")
        exchange(client, server)
        client.close()
        server.close()
        all_gone()
    finally:
        for name in made:
            command("rdma", "link", "delete", name, check=False)


def main():
    """Runs all tests."""
    topology.need_module()
    return ktap.run([vlans, vlan_carries_its_data, vlan_ipv6, vlan_of_one_side_only, bond,
                     device_below_a_bond, vlan_on_a_bond, address_of_another_device,
                     masks_that_differ, several_prefixes, two_devices_of_a_host,
                     device_of_a_macvlan_comes_first])


if __name__ == "__main__":
    sys.exit(main())
