#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Packets that a driver brings one after another, as an adapter does: GRO joins those of a message, which pass
the network together then.

Covers RNIC-RX-01, RNIC-RX-05, RNIC-SEC-13.
"""

import contextlib
import os
import pathlib
import socket
import sys

import ktap
import raw
import rsoft
import topology
from ktap import equal, named
from network import FAMILIES, TABLES, WIDTHS, runs_of_a_message
from topology import command, inside

ETH_P_ALL = 3
SO_NO_CHECK = 11
SO_RCVBUFFORCE = 33
UDP_NO_CHECK6_TX = 101
UDP_NO_CHECK6_RX = 102
# Of `plain`: packets are not joined.
NOT_JOINED = 16
# Side b forwards to this host.
HOSTS = {"4": "10.9.8.2", "6": "fd09:8::2"}
ROUTERS = {"4": "10.9.8.1", "6": "fd09:8::1"}
# First octets of packets of a WRITE.
FIRST, MIDDLE, LAST = 6, 7, 8
# A packet of another type of traffic.
OTHER_CLASS = 0x20


def fresh(**settings):
    """Makes the namespaces, with packets that GRO of each side gets one by one."""
    topology.netns("down")
    rsoft.load("2", direct=False, together=False, **settings)
    topology.netns("up")
    for side in "ab":
        command("ip", "netns", "exec", "rs-" + side, "ethtool", "-K", "v" + side, "tso", "off", "gro", "on")


def packets_of_a_message_join(family):
    """A run is taken before UDP, and the data arrive."""
    fresh()
    runs = runs_of_a_message(family)
    equal(runs > 10, True, "%d runs" % runs)


def packets_do_not_join_when_that_is_off(family):
    """With `plain=16`, and without the hook, there is no run."""
    for settings in {"plain": NOT_JOINED}, {"hook": False}:
        fresh(**settings)
        equal(runs_of_a_message(family), 0, "runs")


def joined_packets_of_a_tracked_connection_go_by_udp(family):
    """UDP separates them, and the data arrive."""
    fresh()
    with rsoft.rule(TABLES[family], "ct state new counter"):
        equal(runs_of_a_message(family), 0, "runs")


@contextlib.contextmanager
def router(family):
    """Has side b forward packets to another host. What takes its packets is a task of the first processor."""
    host, gateway = HOSTS[family], ROUTERS[family]
    command("ip", "netns", "add", "rs-c")
    try:
        command("ip", "-n", "rs-b", "link", "add", "vr", "type", "veth", "peer", "name", "vc", "netns", "rs-c")
        for name, dev, addr in ("rs-b", "vr", gateway), ("rs-c", "vc", host):
            command("ip", "-n", name, "address", "add", addr + "/" + WIDTHS[family], "dev", dev, "nodad")
            command("ip", "-n", name, "link", "set", dev, "up")
        away = topology.HOSTS[FAMILIES[family]]
        command("ip", "-n", "rs-c", "route", "add", away["a"], "via", gateway)
        command("ip", "-n", "rs-a", "route", "add", host, "via", away["b"])
        with inside("b"):
            for file in "ipv4/ip_forward", "ipv6/conf/all/forwarding":
                pathlib.Path("/proc/sys/net", file).write_text("1", encoding="ascii")
        command("ip", "netns", "exec", "rs-b", "sh", "-c", "echo 1 > /sys/class/net/vb/threaded")
        for task in command("pgrep", "napi/vb").split():
            os.sched_setaffinity(int(task), {0})
        yield
    finally:
        command("ip", "netns", "delete", "rs-c")


@contextlib.contextmanager
def before_all_others():
    """Keeps the first processor for the block, which must not wait."""
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, processors)


@contextlib.contextmanager
def sockets(family):
    """A UDP socket of side a, one of the host behind the router, and one that sees what side b gets."""
    with contextlib.ExitStack() as stack:
        seen = None
        with inside("b"):
            seen = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
        seen.bind(("vb", ETH_P_ALL))
        seen.setblocking(False)
        ends = []
        for side in "ac":
            with inside(side):
                ends.append(stack.enter_context(socket.socket(FAMILIES[family], socket.SOCK_DGRAM)))
        sender, receiver = ends
        if family == "4":
            sender.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        else:
            sender.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_TX, 1)
            receiver.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)
        receiver.bind((HOSTS[family], raw.ROCE_PORT))
        receiver.settimeout(topology.BOUND)
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
        sender.connect((HOSTS[family], raw.ROCE_PORT))
        yield sender, receiver, seen


def packet(code, number, size=600):
    """The payload of UDP of a packet with that code."""
    return bytes([code]) + topology.known("packet %d" % number, size - 1)


def frames(family, seen):
    """How many frames with such packets side b got since the last call."""
    start = {"4": b"\x08\x00\x45", "6": b"\x86\xdd"}[family]
    port = raw.ROCE_PORT.to_bytes(2, "big")
    place = {"4": 14 + 22, "6": 14 + 42}[family]
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            frame = seen.recv(1 << 17)
            count += frame[12:].startswith(start) and frame[place:place + 2] == port
    return count


def forwarded(family, sender, receiver, seen, packets):
    """Sends packets, pairs of payload and traffic class, before the first is taken, and finds that each
    arrives. Returns the frames."""
    frames(family, seen)
    option = {"4": (socket.IPPROTO_IP, socket.IP_TOS), "6": (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)}[family]
    with before_all_others():
        for payload, kind in packets:
            sender.setsockopt(*option, kind)
            sender.send(payload)
    for number, (payload, _) in enumerate(packets):
        equal(receiver.recv(1 << 16) == payload, True, "packet %d" % number)
    return frames(family, seen)


def joined_packets_that_a_host_forwards_arrive_as_they_were(family):
    """GRO cannot tell that they are for another host. Packets of a message join, others do not."""
    fresh()
    with router(family), sockets(family) as ends:
        plain = [packet(code, number) for number, code in
                 enumerate((FIRST, MIDDLE, MIDDLE, MIDDLE, LAST))]
        message = [(payload, 0) for payload in plain]
        # Finds the neighbours.
        forwarded(family, *ends, message)
        equal(forwarded(family, *ends, message), 1, "frames of a message")
        equal(forwarded(family, *ends, message + message), 2, "frames of two messages")
        short = [(packet(FIRST, 1), 0), (packet(LAST, 2, 77), 0)]
        equal(forwarded(family, *ends, short), 1, "frames of one that ends with a short packet")
        equal(forwarded(family, *ends, [short[1]] * 4), 4, "frames of packets that are messages")
        grows = [(packet(FIRST, 1), 0), (packet(MIDDLE, 2, 601), 0), (packet(LAST, 3), 0)]
        equal(forwarded(family, *ends, grows), 2, "frames with a packet that is longer than the first")
        other = [(payload, OTHER_CLASS * (number > 2)) for number, payload in enumerate(plain)]
        equal(forwarded(family, *ends, other), 2, "frames of two types of traffic")
        long = [(packet(FIRST, 0, 1400), 0)] + [(packet(MIDDLE, n, 1400), 0) for n in range(49)]
        long.append((packet(LAST, 50, 1400), 0))
        equal(forwarded(family, *ends, long), 2, "frames of one that has more than 64 KiB")


def main():
    """Runs the tests with devices of rdma_soft."""
    topology.need_module()
    tests = []
    for family in FAMILIES:
        for test in (packets_of_a_message_join, packets_do_not_join_when_that_is_off,
                     joined_packets_of_a_tracked_connection_go_by_udp,
                     joined_packets_that_a_host_forwards_arrive_as_they_were):
            tests.append(named("%s by IPv%s" % (test.__name__, family), lambda test=test, f=family: test(f)))
    return rsoft.run(tests)


if __name__ == "__main__":
    sys.exit(main())
