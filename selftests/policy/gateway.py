#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""SMC-Rv2 over IPv4 and IPv6, between hosts of one subnet and through a router."""

import contextlib
import socket
import sys

import ktap
import topology
from capture import Wire
from fallback import PREFIX, Watch, stays_tcp
from ktap import equal
from messages import ACCEPT, CONFIRM, PROPOSAL
from netdevs import add_rdma, connect, ip
from topology import await_gid, command

# The two addresses of each side behind the router, and those of the router.
FAR = {"a": ("10.9.1.1", "fd09:1::1"), "b": ("10.9.2.2", "fd09:2::2")}
NEAR = {"a": ("10.9.1.254", "fd09:1::fe"), "b": ("10.9.2.254", "fd09:2::fe")}
FAMILIES = socket.AF_INET, socket.AF_INET6


def is_answered(address):
    """Whether side a reaches an address."""
    return " 0% packet loss" in command("ip", "netns", "exec", "rs-a", "ping", "-qc", "1", "-W", "1",
                                        address, check=False)


@contextlib.contextmanager
def router():
    """Makes a router between both sides, which have RDMA devices."""
    topology.netns("up", NO_RDMA="a b")
    command("ip", "netns", "add", "rs-r")
    try:
        ip("r", "link", "set", "lo", "up")
        ip("a", "link", "delete", "va")
        for side in "ab":
            command("ip", "link", "add", "v" + side, "netns", "rs-" + side, "type", "veth", "peer",
                    "name", "r" + side, "netns", "rs-r")
            for host, name, addresses in ((side, "v" + side, FAR), ("r", "r" + side, NEAR)):
                four, six = addresses[side]
                ip(host, "address", "add", four + "/24", "dev", name)
                ip(host, "address", "add", six + "/64", "dev", name, "nodad")
                ip(host, "link", "set", name, "up")
            ip(side, "route", "add", "default", "via", NEAR[side][0])
            ip(side, "-6", "route", "add", "default", "via", NEAR[side][1])
        command("ip", "netns", "exec", "rs-r", "sysctl", "-qw", "net.ipv4.ip_forward=1",
                "net.ipv6.conf.all.forwarding=1")
        for side in "ab":
            four, six = FAR[side]
            add_rdma(side, "v" + side, four)
            await_gid("rs_" + side, six)
        # Neighbours answer later than their links are up.
        for address in FAR["b"]:
            topology.until(lambda address=address: is_answered(address), "answer of " + address)
        yield
    finally:
        command("ip", "netns", "delete", "rs-r")


def is_version_2(wire, client, direct):
    """Fails unless the handshake used version 2, with a gateway or without one."""
    said = [message for _, message in wire.clc(client)]
    equal([message["type"] for message in said], [PROPOSAL, ACCEPT, CONFIRM], "CLC messages")
    for message in said[1:]:
        equal((message["version"], message["first"]), (2, 1), "version, first contact")
        equal(message["direct"] >> 7, direct, "no gateway in between")


def agree(source, host, family, direct):
    """A first contact, and a second connection in the same group."""
    with Wire() as wire:
        client, server = connect(source, host, family)
        is_version_2(wire, client, direct)
    topology.expect_smc(client, server)
    topology.exchange(client, server)
    more = connect(source, host, family)
    equal({line["version"] for line in topology.records("a", "links")}, {"2"}, "version")
    equal(topology.counter("a", "link_groups"), 1, "link groups")
    topology.expect_smc(*more)
    topology.exchange(*more)
    for sock in (client, server, *more):
        sock.close()
    topology.all_gone()


def in_one_subnet():
    """Both hosts are in one subnet."""
    for family, (source, host) in zip(FAMILIES, (("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2"))):
        topology.netns("up")
        topology.name_both()
        agree(source, host, family, 1)


def through_a_router():
    """The other host is in another subnet, which only version 2 supports."""
    for number, family in enumerate(FAMILIES):
        with router():
            topology.name_both()
            agree(FAR["a"][number], FAR["b"][number], family, 0)


def through_a_router_without_a_name():
    """Version 1 does not work through a router."""
    # CLC-124, CLC-126.
    with router():
        for number, family in enumerate(FAMILIES):
            watch = Watch()
            stays_tcp(*connect(FAR["a"][number], FAR["b"][number], family), (PREFIX, PREFIX), watch)


def both_families_at_once():
    """The two addresses of a port give two link groups."""
    with router():
        topology.name_both()
        pairs = [connect(FAR["a"][number], FAR["b"][number], family)
                 for number, family in enumerate(FAMILIES)]
        equal(topology.counter("a", "link_groups"), 2, "link groups")
        for both in pairs:
            topology.expect_smc(*both)
            topology.exchange(*both)
        for sock in (sock for both in pairs for sock in both):
            sock.close()
        topology.all_gone()


if __name__ == "__main__":
    topology.need_module()
    sys.exit(ktap.run([in_one_subnet, through_a_router, through_a_router_without_a_name,
                       both_families_at_once]))
