#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The file /proc/net/rdma_sock/rules: which connections use RDMA, by direction, protocol, peer and port."""

import errno
import os
import socket
import sys

import ktap
import topology
from ktap import equal, fails
from topology import all_gone, by_sdp, pair

FILE = "/proc/net/rdma_sock/rules"
POLICY = 0x7f000007
NOBODY = 65534


def read(side):
    """The rules of a side, with their counts."""
    with topology.inside(side), open(FILE, encoding="ascii") as file:
        return file.read().splitlines()


def write(side, *rules):
    """Sets the rules of a side."""
    with topology.inside(side), open(FILE, "w", encoding="ascii") as file:
        file.write("\n".join(rules) + "\n")


def outcome(**args):
    """Makes a connection that carries data; the modes and reasons of client and server."""
    client, server = pair(**args)
    topology.exchange(client, server, 20000)
    found = topology.mode("a", client), topology.mode("b", server)
    client.close()
    server.close()
    return found


def expect_rdma(what, **args):
    """Makes a connection that has to use RDMA."""
    found = outcome(**args)
    equal([mode for mode, _ in found], [topology.ENGINE[0]] * 2, "%s: %s" % (what, found))


def list_is_replaced_and_is_of_one_namespace():
    """A list is read back, and is empty elsewhere. A bad list changes nothing."""
    topology.netns("up")
    equal(read("a"), [], "at first")
    write("a", "tcp  out\tpeer=10.0.0.0/8 # hosts", "", "rdma any proto=sdp port=80-90;tcp in")
    want = ["tcp out peer=10.0.0.0/8 hits=0", "rdma any proto=sdp port=80-90 hits=0", "tcp in hits=0"]
    equal(read("a"), want, "rules")
    equal((read("b"), read(None)), ([], []), "elsewhere")
    for bad in ("deny any", "tcp", "tcp out peer=10.0.0.1/8", "tcp out port=0", "tcp out x=1",
                "tcp any port=1 port=2"):
        fails(errno.EINVAL, write, "a", "rdma any", bad)
    fails(errno.E2BIG, write, "a", *["tcp in"] * 129)
    equal(read("a"), want, "rules after bad ones")
    write("a", *read("a"))
    equal(read("a"), want, "what was listed is written again")
    write("a", *["tcp in"] * 128)
    equal(len(read("a")), 128, "rules")
    write("a")
    equal(read("a"), [], "none")


def list_needs_the_capability():
    """A user may read the list, not change it."""
    topology.netns("up")
    write("a", "tcp in")
    with topology.inside("a"):
        os.seteuid(NOBODY)
        try:
            with open(FILE, encoding="ascii") as file:
                equal(file.read(), "tcp in hits=0\n", "rules")
            fails(errno.EACCES, os.open, FILE, os.O_WRONLY)
        finally:
            os.seteuid(0)
    equal(read("a"), ["tcp in hits=0"], "rules")


def client_obeys_its_rules():
    """Peer, port and protocol of a rule count; the first that fits decides, and counts."""
    topology.netns("up")
    other = "sdp" if topology.ENGINE[0] == "smc" else "smc"
    write("a", "tcp any proto=" + other, "tcp in", "tcp out port=1-1023", "tcp out peer=10.7.0.0/16",
          "tcp out peer=::/0")
    expect_rdma("none fits")
    equal([rule.split("hits=")[1] for rule in read("a")], ["0"] * 5, "hits")
    write("a", "tcp out proto=" + topology.ENGINE[0])
    (mode, reason), _ = outcome()
    equal((mode, reason), ("tcp", POLICY), "refused")
    equal(read("a")[0].split()[-1], "hits=1", "hits")
    write("a", "rdma out peer=" + topology.HOSTS[socket.AF_INET]["b"], "tcp out proto=" + topology.ENGINE[0])
    expect_rdma("the first rule allows it")
    equal([rule.split("hits=")[1] for rule in read("a")], ["1", "1"], "hits")
    write("a")
    expect_rdma("no rule")
    all_gone()


def listener_obeys_its_rules():
    """The listener declines, by peer and by its port; the client is told so and uses TCP."""
    topology.netns("up")
    write("b", "tcp out", "tcp in peer=10.7.0.0/16", "tcp in port=1-1023")
    expect_rdma("none fits")
    write("b", "tcp in peer=" + topology.HOSTS[socket.AF_INET]["a"])
    (mode, _), (server, reason) = outcome()
    equal((mode, server), ("tcp", "tcp"), "modes")
    hits = 1
    if topology.ENGINE[0] == "smc":
        equal(reason, POLICY, "reason of the listener")
    else:
        # No connection of SDP came to be: the refused set-up has the reason. The request may be sent again
        # while the answer is under way.
        hits = topology.counters("b").get("sdp_aborted_reason_%08x" % POLICY)
        equal(hits >= 1, True, "refusals")
    equal(read("b")[0].split()[-1], "hits=%d" % hits, "hits")
    topology.netns("up")
    expect_rdma("no rule")
    all_gone()


def ipv6_peer_is_judged_by_its_prefix():
    """A rule of IPv6 is for IPv6 only, also on a socket that serves both."""
    topology.netns("up")
    write("a", "tcp out peer=fd09::/64")
    expect_rdma("IPv4")
    (mode, reason), _ = outcome(family=socket.AF_INET6)
    equal((mode, reason), ("tcp", POLICY), "IPv6")
    all_gone()


def connections_that_exist_stay():
    """A rule is for later connections only."""
    topology.netns("up")
    client, server = topology.pair_by_rdma()
    write("a", "tcp any")
    write("b", "tcp any")
    topology.exchange(client, server, 20000)
    topology.expect_smc(client, server)
    client.close()
    server.close()
    all_gone()


if __name__ == "__main__":
    TESTS = [client_obeys_its_rules, listener_obeys_its_rules, ipv6_peer_is_judged_by_its_prefix,
             connections_that_exist_stay]
    sys.exit(ktap.run([list_is_replaced_and_is_of_one_namespace, list_needs_the_capability] + TESTS
                      + by_sdp(*TESTS)))
