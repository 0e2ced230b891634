#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Several links between our module with two devices and the kernel's C implementation with one. They
start in first contact. With our server, connections move from a lost link, and the link returns. A C
server that ends a link waits for the completion of all its messages, and soft-RoCE never stops
its retries.

Covers SMCR-LGR-07, LLF-13, LLF-14, LLF-20, LLF-24, FOV-01, FOV-04.
"""

import atexit
import socket
import sys
import threading
import time

import case
import csmc
import topology
from case import ADDRESSES, DEVICES, GUEST, LINK, OURS, Alike
from ktap import equal

SIZE = 65536
SECOND = "192.168.77.11"


def shell(text):
    """Runs a command line."""
    return topology.command("sh", "-c", text)


def device(name, netdev, address):
    """Makes an RDMA device and waits until it has its address."""
    topology.command("rdma", "link", "add", name, "type", LINK, "netdev", netdev)
    topology.await_gid(name, address)


def take_down():
    """Removes the second device."""
    shell("rdma link delete %s; ip link delete mv0" % DEVICES[1])


def second_device(address=SECOND):
    """Gives this side a second interface in the same network, with an RDMA device. Its hardware address
    is constant, as the other side may remember it from an earlier test."""
    parts = tuple(int(part) for part in address.split("."))
    shell("modprobe macvlan && ip link add mv0 link net0 address 02:00:%02x:%02x:%02x:%02x "
          "type macvlan mode bridge" % parts)
    atexit.register(take_down)
    shell("for dev in all net0 mv0; do sysctl -qw net.ipv4.conf.$dev.rp_filter=0 "
          "net.ipv4.conf.$dev.arp_ignore=1 net.ipv4.conf.$dev.arp_announce=2; done")
    shell("ip addr add %s/24 dev mv0 && ip link set mv0 up" % address)
    device(DEVICES[1], "mv0", address)


def devices():
    """The devices of the links of the connection's group."""
    lines = [line for line in topology.records(None, "links") if line["state"] == "active"]
    used = {line["lgr"] for line in lines if line["conns"] != "0"}
    return sorted(line["dev"] for line in lines if line["lgr"] in used)


class Traffic:
    """Numbered blocks in both directions at the same time."""

    def __init__(self, sock):
        self.sock, self.stop = sock, threading.Event()
        self.sent = self.got = 0
        self.fault = None
        self.threads = [threading.Thread(target=self.guarded, args=(work,))
                        for work in (self.send, self.receive)]
        for thread in self.threads:
            thread.start()

    def guarded(self, work):
        """Runs a thread's function, and keeps its error."""
        try:
            work()
        except (OSError, AssertionError) as error:
            self.fault = error

    @staticmethod
    def block(number):
        """A block of the stream."""
        return (b"%08d" % number) * (SIZE // 8)

    def send(self):
        """Sends blocks until stopped."""
        while not self.stop.is_set():
            self.sock.sendall(self.block(self.sent))
            self.sent += 1
        self.sock.shutdown(socket.SHUT_WR)

    def receive(self):
        """Receives blocks until the peer stops."""
        while data := topology.receive(self.sock, SIZE):
            want = self.block(self.got)
            # A failure names the length and both ends of what came.
            equal((len(data), data[:8], data[-8:]), (SIZE, want[:8], want[-8:]), "block %d" % self.got)
            equal(data == want, True, "block %d" % self.got)
            self.got += 1

    def flows(self, what):
        """Waits for more blocks."""
        before = self.got
        topology.until(lambda: self.got > before + 20 or self.fault, what, topology.BOUND)
        equal(self.fault, None, what)

    def stands(self):
        """Waits until no block is sent for a time that is many times that of a block, or until 20 are
        sent, which shows that the connection uses the other device."""
        first = self.sent

        def over():
            before = self.sent
            time.sleep(0.2)
            return self.sent == before or self.sent > first + 20
        topology.until(over, "a sender that stands, or goes on")

    def end(self):
        """Waits for the end of both streams."""
        self.stop.set()
        for thread in self.threads:
            thread.join(topology.BOUND)
        equal(self.fault, None, "traffic")


class TwoDevices(Alike):
    """Two devices, each with a link."""

    bound = 240

    def go(self, sock):
        """Runs one side."""
        traffic = Traffic(sock)
        traffic.flows("data with two links")
        if OURS:
            topology.until(lambda: devices() == [*DEVICES], "two links")
        self.meet("two")
        if not OURS:
            def states():
                return [link["state"] for link in csmc.Family().links()]
            topology.until(lambda: len(states()) >= 2 and set(states()) == {3}, "links of the C side")
        self.meet("seen")
        if (self.role == "server") == OURS:
            self.lose(traffic)
        traffic.end()
        theirs = self.meet("count", str(traffic.sent))
        equal(traffic.got, int(theirs), "blocks")

    def lose(self, traffic):
        """Removes a device under load, and makes it again."""
        if OURS:
            topology.command("rdma", "link", "delete", DEVICES[0])
            equal(DEVICES[0] in devices(), False, "a link on the device is left")
        self.meet("gone")
        traffic.flows("data with one link")
        self.meet("flows")
        if OURS:
            device(DEVICES[0], "net0", ADDRESSES[GUEST])
            topology.until(lambda: devices() == [*DEVICES], "two links again")
        self.meet("again")
        traffic.flows("data with two links again")
        self.meet("over")


if __name__ == "__main__":
    case.need_both()
    if OURS:
        second_device()
    else:
        csmc.begin_anew()
    sys.exit(case.run([TwoDevices]))
