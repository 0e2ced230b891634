#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The agreement of our module and the kernel's C implementation, and fallback without one.

Over soft-RoCE the C side speaks version 2 only. Covers SMCR-TCP-17, FBK-01, FBK-02, FBK-05, KAL-02.
"""

import pathlib
import sys

import case
import csmc
import topology
from case import (Alike, Case, LAB, NO_DEVICE, NO_UEID, OURS, PEER_NO_SMC, VERSION1, both_ways,
                   carried, fallbacks)
from ktap import equal
from topology import known, receive

TEST_SECONDS = 1


class Terms(Alike):
    """Both sides agree on version, release and identifier, and know each other's name."""

    def go(self, sock):
        """The C side prints its link group."""
        both_ways(sock, "x", "x", 1000)
        role = "server" if self.role == "server" else "client"
        if not OURS:
            found = [group for group in csmc.Family().groups()
                     if csmc.ROLES[group["role"]] == role and group["conns"]]
            equal(len(found), 1, "groups")
            group = found[0]
            equal((group["v2"]["version"], group["v2"]["release"], group["v2"]["eid"]),
                  (2, 1, LAB), "version, release, identifier")
            equal(group["v2"]["host"] in "ab", True, "name of the host")
            equal(group["terms"]["direct"], 1, "no gateway")
        self.meet("looked")


class Version1(Alike):
    """Both sides speak version 1 of SMC-R, as their devices have RoCE v1 only."""

    def go(self, sock):
        """The C side prints no terms of version 2."""
        both_ways(sock, "x", "x", 100000)
        if not OURS:
            found = [group for group in csmc.Family().groups()
                     if csmc.ROLES[group["role"]] == self.role and group["conns"]]
            equal([group.get("v2", {}).get("version", 1) for group in found], [1], "versions of groups")
        self.meet("looked")


class SecondName(Case):
    """One common identifier is enough, at any position."""

    ueids = {"ours": ["ONE", "TWO", LAB], "c": ["THREE", LAB, "FOUR"]}

    def server(self, listening):
        """Serves."""
        with self.accept(listening) as sock:
            both_ways(sock, "x", "x", 1000)
            self.meet("there")

    def client(self):
        """Connects."""
        with self.connect() as sock:
            both_ways(sock, "x", "x", 1000)
            equal(carried() >= 1, True, "carried by SMC")
            self.meet("there")


class Tcp(Case):
    """Base of cases without SMC: data use TCP, and the reason is counted."""

    reasons = {}

    def reason(self):
        """The reason of this side's fallback, which depends on the role and the implementation."""
        server = "ours" if (self.role == "server") == OURS else "c"
        return self.reasons[server]["ours" if OURS else "c"]

    def go(self, make):
        """Runs one side."""
        reason = self.reason()
        before = fallbacks(reason) if reason else 0
        self.meet("before")
        with make() as sock:
            both_ways(sock, "t" + self.role, "t" + ("client" if self.role == "server" else "server"),
                      300000)
            equal(carried(), 0, "carried by SMC")
            if reason:
                equal(fallbacks(reason), before + 1, "fallbacks for %#x" % reason)
            self.meet("counted")

    def server(self, listening):
        """Serves."""
        self.go(lambda: self.accept(listening))

    def client(self):
        """Connects."""
        self.go(self.connect)


class OtherName(Tcp):
    """No common identifier."""

    ueids = {"ours": ["OURS"], "c": ["THEIRS"]}
    # The C side counts the peer's Decline as such.
    reasons = {"ours": {"ours": NO_UEID, "c": 0x05000000},
               "c": {"ours": NO_DEVICE, "c": NO_DEVICE}}


class NoNameHere(Tcp):
    """Our side has no identifier, so it speaks version 1 only."""

    ueids = {"ours": [], "c": [LAB]}
    reasons = {"ours": {"ours": NO_UEID, "c": 0x05000000},
               "c": {"ours": NO_DEVICE, "c": NO_DEVICE}}


class NoNameThere(Tcp):
    """The C side has no identifier, and on soft-RoCE offers nothing."""

    ueids = {"ours": [LAB], "c": []}
    reasons = {"ours": {"ours": NO_DEVICE, "c": NO_DEVICE},
               "c": {"ours": NO_DEVICE, "c": NO_DEVICE}}


class TcpClient(Tcp):
    """The client has a TCP socket."""

    smc = {"client": False, "server": True}
    reasons = {"ours": {"ours": PEER_NO_SMC, "c": 0}, "c": {"ours": 0, "c": PEER_NO_SMC}}


class TcpServer(Tcp):
    """The server has a TCP socket."""

    smc = {"client": True, "server": False}
    reasons = {"ours": {"ours": 0, "c": PEER_NO_SMC}, "c": {"ours": PEER_NO_SMC, "c": 0}}


class Idle(Case):
    """Both sides test an idle link, which carries data afterwards.

    This case comes first: a link group keeps the test time of its creation.
    """

    def run(self):
        """Ends the link group afterwards: with its test time, a side that stands still for two seconds loses
        the link."""
        super().run()
        if not OURS:
            csmc.begin_anew()
        self.meet("anew")

    def begin(self):
        """Sets a short test time; both implementations have a file of the same name."""
        pathlib.Path("/proc/sys/net/smc/smcr_testlink_time").write_text(
            "%d\n" % TEST_SECONDS, encoding="ascii")

    def end(self):
        """Restores the test time."""
        pathlib.Path("/proc/sys/net/smc/smcr_testlink_time").write_text("30\n", encoding="ascii")

    def go(self, sock):
        """Runs one side."""
        both_ways(sock, "i", "i", 5000)
        if OURS:
            def received():
                return sum(int(line["recvs"]) for line in topology.records(None, "links"))
            before = received()
            topology.until(lambda: received() >= before + 4, "tests of the link")
        self.meet("tested")
        both_ways(sock, "j", "j", 5000)

    def server(self, listening):
        """Serves."""
        self.begin()
        self.meet("set")
        try:
            with self.accept(listening) as sock:
                self.go(sock)
        finally:
            self.end()

    def client(self):
        """Connects."""
        self.begin()
        self.meet("set")
        try:
            with self.connect() as sock:
                self.go(sock)
        finally:
            self.end()


class AfterAll(Case):
    """SMC works after all these cases."""

    def server(self, listening):
        """Serves."""
        with self.accept(listening) as sock:
            sock.sendall(receive(sock, 5000))
            self.meet("there")

    def client(self):
        """Connects."""
        with self.connect() as sock:
            sock.sendall(known("after", 5000))
            equal(receive(sock, 5000) == known("after", 5000), True, "echo")
            equal(carried() >= 1, True, "carried by SMC")
            self.meet("there")


if __name__ == "__main__":
    NAMES = [Version1] if VERSION1 else [Terms, SecondName, OtherName, NoNameHere, NoNameThere]
    sys.exit(case.run([Idle, *NAMES, TcpClient, TcpServer, AfterAll]))
