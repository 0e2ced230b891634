#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The option on its path: lost segments, removed options, SYN cookies. Each connection works, by RDMA
if both sides saw the option and else by TCP."""

import select
import socket
import sys

import ktap
import topology
from ktap import equal
from topology import all_gone, command, exchange, expect_smc, expect_tcp, pair

FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}
SYN = "tcp flags & (syn | ack) == syn"
SYN_ACK = "tcp flags & (syn | ack) == syn | ack"

RULES = """
table netdev way {
	counter hit { }
	chain in {
		type filter hook ingress device %s priority 0
		%s
	}
}
"""


class Rules:
    """nft rules for frames that enter a side, during the block. They apply before the kernel processes
    the frames."""

    def __init__(self, side, rule):
        self.side, self.rule = side, rule

    def nft(self, *words):
        """Runs nft in the namespace of the side."""
        return command("ip", "netns", "exec", "rs-" + self.side, "nft", *words)

    def __enter__(self):
        path = "/run/way.nft"
        with open(path, "w", encoding="ascii") as f:
            f.write(RULES % ("v" + self.side, self.rule))
        self.nft("-f", path)
        return self

    def hits(self):
        """The number of segments that matched the rule."""
        words = self.nft("list", "counter", "netdev", "way", "hit").split()
        return int(words[words.index("packets") + 1])

    def __exit__(self, *args):
        self.nft("delete", "table", "netdev", "way")


def connection(family, check, size=100000):
    """Fails unless one connection has the expected mode, and carries data."""
    before = topology.counter("a", "tx_bytes")
    client, server = pair(family)
    check(client, server)
    exchange(client, server, size)
    equal(topology.counter("a", "tx_bytes") - before, size if check is expect_smc else 0, "bytes by RDMA")
    client.close()
    server.close()


def nothing_special(family):
    """A connection without rules, for reference."""
    connection(family, expect_smc)


def first_syn_is_lost(family):
    """The retransmitted SYN has the option too."""
    # TCP-10, AMB-37, TST-102.
    with Rules("b", SYN + " counter name hit numgen inc mod 1000 0 drop") as rules:
        connection(family, expect_smc)
        equal(rules.hits() >= 2, True, "SYNs")


def first_syn_ack_is_lost(family):
    """The retransmitted SYN-ACK has the option too."""
    with Rules("a", SYN_ACK + " counter name hit numgen inc mod 1000 0 drop") as rules:
        connection(family, expect_smc)
        equal(rules.hits() >= 2, True, "SYN-ACKs")


def option_is_removed_from_the_syn(family):
    """The server gets no option and does not answer it."""
    # TCP-18, FBK-03, TST-101. A statement removes one option, and another one of the same kind may
    # precede it.
    with Rules("b", "%s tcp option 254 exists counter name hit reset tcp option 254 "
               "reset tcp option 254" % SYN) as rules:
        connection(family, expect_tcp)
        equal(rules.hits(), 1, "SYNs with the option")
    connection(family, expect_smc)


def option_is_removed_from_the_syn_ack(family):
    """The client gets no option and sends data at once. The server must return an error or exactly
    these octets, and soon."""
    # TCP-18, FBK-03, TST-101.
    data = b"not a word of SMC, and longer than its header"
    with Rules("a", "%s tcp option 254 exists counter name hit reset tcp option 254" %
               SYN_ACK) as rules, topology.listener("b", family) as listening:
        client = topology.new_socket("a", family)
        client.settimeout(20)
        client.connect(listening.getsockname())
        equal(topology.mode("a", client)[0], "tcp", "mode of the client")
        client.sendall(data)
        equal(rules.hits(), 1, "SYN-ACKs with the option")
        listening.settimeout(1)
        readable, _, _ = select.select([client, listening], [], [], 20)
        if listening in readable:
            server, _ = listening.accept()
            server.settimeout(20)
            equal(topology.receive(server, len(data)), data, "data")
            server.close()
            equal(client.recv(1), b"", "end")
        else:
            equal(topology.error_of(client.recv, 1), "ECONNRESET", "error")
        client.close()
    connection(family, expect_smc)


def cookies(family):
    """A SYN cookie has no room for the agreement."""
    # AMB-37, TST-102.
    sysctl = ("ip", "netns", "exec", "rs-b", "sysctl", "-qw")
    command(*sysctl, "net.ipv4.tcp_syncookies=2")
    try:
        connection(family, expect_tcp)
    finally:
        command(*sysctl, "net.ipv4.tcp_syncookies=1")
    connection(family, expect_smc)


def plain_connections_have_no_option(family):
    """Plain connections to and from our sockets, and between others, have no option."""
    # TCP-17, FBK-01, TST-101.
    for smc in ((False, True), (False, False)):
        with Rules("b", "tcp option 254 exists counter name hit") as rules, \
                Rules("a", "tcp option 254 exists counter name hit") as back:
            client, server = pair(family, smc)
            exchange(client, server)
            client.close()
            server.close()
            equal((rules.hits(), back.hits()), (0, 0), "segments with the option")


def only_two_segments_have_the_option(family):
    """Only the SYN and the SYN-ACK have the option."""
    # TCP-10, TCP-11, TCP-15, AMB-05.
    with Rules("b", "tcp option 254 exists counter name hit") as rules, \
            Rules("a", "tcp option 254 exists counter name hit") as back:
        connection(family, expect_smc)
        equal((rules.hits(), back.hits()), (1, 1), "segments with the option")


TESTS = [nothing_special, first_syn_is_lost, first_syn_ack_is_lost,
         option_is_removed_from_the_syn, option_is_removed_from_the_syn_ack, cookies,
         plain_connections_have_no_option, only_two_segments_have_the_option]


def tests():
    """Makes each test for each family."""
    for function in TESTS:
        for name, family in FAMILIES.items():
            def test(function=function, family=family):
                function(family)
                all_gone()
            test.name = "%s.%s" % (name, function.__name__)
            yield test


def main():
    """Runs all tests."""
    topology.need_module()
    topology.netns("up")
    return ktap.run(list(tests()))


if __name__ == "__main__":
    sys.exit(main())
