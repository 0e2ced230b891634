#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Every reason for TCP that one link can show: the connection works, sends no octet by RDMA, and both
sides count the reason."""

import errno
import socket
import struct
import sys

import ktap
import topology
from ktap import Skip, equal
from topology import all_gone, command, exchange, expect_smc, expect_tcp, pair

PEER_NO_SMC = 0x03010000
IPSEC = 0x03020000
NO_DEVICE = 0x03030002
OPTION = 0x03060000
PREFIX = 0x03070000
PEER_DECLINED = 0x05000000

TCP_MD5SIG = 14


def falls_back(reasons, **how):
    """Fails unless a connection uses TCP with these reasons (client, server; None: unknown there)."""
    before = [topology.counters(side) for side in "ab"]
    client, server = pair(**how)
    expect_tcp(client, server)
    for side, sock, reason in zip("ab", (client, server), reasons):
        if reason is not None:
            equal("%#010x" % topology.mode(side, sock)[1], "%#010x" % reason, "reason at " + side)
            name = "fallback_reason_%08x" % reason
            was = before["ab".index(side)]
            equal(topology.counter(side, name), was.get(name, 0) + 1, name + " at " + side)
    exchange(client, server)
    for side, was in zip("ab", before):
        equal(topology.counter(side, "tx_bytes"), was["tx_bytes"], "bytes by RDMA at " + side)
    client.close()
    server.close()
    all_gone()


def client_without_device():
    """A client without a device does not offer SMC."""
    # FBK-01.
    topology.netns("up", NO_RDMA="a")
    falls_back((NO_DEVICE, None))


def server_without_device():
    """A server without a device does not agree."""
    # FBK-05, FBK-02.
    topology.netns("up", NO_RDMA="b")
    falls_back((None, None))


def both_without_device():
    """Two sockets of ours without any RDMA device."""
    topology.netns("up", NO_RDMA="a b")
    falls_back((NO_DEVICE, None))


def client_is_tcp():
    """The client is a TCP socket, which the listener accepts."""
    # TCP-17, FBK-01, TST-101.
    topology.netns("up")
    falls_back((None, None), smc=(False, True))


def server_is_tcp():
    """The server is a TCP socket, whose SYN-ACK has no option."""
    # TCP-17, FBK-02, TST-101.
    topology.netns("up")
    falls_back((PEER_NO_SMC, None), smc=(True, False))


def other_subnet():
    """Version 1 needs both sides in one subnet."""
    # CLC-126, CLC-414, FBK-18, TST-103.
    topology.netns("up")
    command("ip", "-n", "rs-a", "address", "add", "10.7.0.1/24", "dev", "va")
    command("ip", "-n", "rs-b", "route", "add", "10.7.0.0/24", "dev", "vb")
    topology.await_gid("rs_a", "10.7.0.1")
    falls_back((PREFIX, PREFIX), source="10.7.0.1")
    # Connections within the subnet are not affected.
    client, server = pair()
    expect_smc(client, server)
    client.close()
    server.close()


def other_subnet_ipv6():
    """Version 1 over IPv6 needs one common prefix of the client's."""
    # CLC-127, TCP-21, TST-103.
    topology.netns("up")
    command("ip", "-n", "rs-a", "address", "delete", "fd09::1/64", "dev", "va")
    command("ip", "-n", "rs-a", "route", "add", "fd09::/64", "dev", "va")
    command("ip", "-n", "rs-a", "address", "add", "fd07::1/64", "dev", "va", "nodad")
    command("ip", "-n", "rs-b", "route", "add", "fd07::/64", "dev", "vb")
    topology.await_gid("rs_a", "fd07::1")
    falls_back((PREFIX, PREFIX), family=socket.AF_INET6, source="fd07::1")


def within_one_host():
    """Loopback has no RDMA device."""
    topology.netns("up")
    listening = topology.listener("a")
    client = topology.new_socket("a")
    client.connect(listening.getsockname())
    server, _ = listening.accept()
    for sock in (client, server):
        equal(topology.mode("a", sock)[0] == "smc", False, "is SMC")
    exchange(client, server)
    equal(topology.counter("a", "tx_bytes"), 0, "bytes by RDMA")
    for sock in (client, server, listening):
        sock.close()
    all_gone()


def signed_segments():
    """TCP-MD5 protects segments, and would not protect RDMA."""
    # SEC-06.
    topology.netns("up")
    listening = topology.listener()
    client = topology.new_socket("a")

    def key(host):
        name = struct.pack("=HH4s120x", socket.AF_INET, 0, socket.inet_aton(host))
        return name + struct.pack("=BBHii80s", 0, 0, 4, 0, 0, b"key!")

    try:
        client.setsockopt(socket.IPPROTO_TCP, TCP_MD5SIG, key("10.9.0.2"))
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            raise Skip("the kernel has no TCP-MD5") from error
        raise
    listening.setsockopt(socket.IPPROTO_TCP, TCP_MD5SIG, key("10.9.0.1"))
    client.settimeout(topology.BOUND)
    client.connect(listening.getsockname())
    server, _ = listening.accept()
    expect_tcp(client, server)
    equal("%#010x" % topology.mode("a", client)[1], "%#010x" % IPSEC, "reason")
    exchange(client, server)
    for sock in (client, server, listening):
        sock.close()
    all_gone()


def data_in_the_syn():
    """TCP Fast Open and SMC exclude each other."""
    # AMB-37, TST-102.
    topology.netns("up")
    for side in "ab":
        command("ip", "netns", "exec", "rs-" + side, "sysctl", "-qw", "net.ipv4.tcp_fastopen=3")
    listening = topology.listener()
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 8)
    # The first connection fetches the cookie, the second uses it.
    for _ in range(2):
        client = topology.new_socket("a")
        equal(client.sendto(b"early", socket.MSG_FASTOPEN, listening.getsockname()), 5, "sent")
        server, _ = listening.accept()
        server.settimeout(topology.BOUND)
        equal(topology.receive(server, 5), b"early", "data of the SYN")
        expect_tcp(client, server)
        exchange(client, server)
        client.close()
        server.close()
    listening.close()
    all_gone()


def then_smc_again():
    """A fallback does not affect later connections."""
    # LGR-25, FBK-18, RDV-01.
    topology.netns("up")
    for _ in range(3):
        client, server = pair(smc=(True, False))
        expect_tcp(client, server)
        client.close()
        server.close()
        client, server = pair()
        expect_smc(client, server)
        exchange(client, server)
        client.close()
        server.close()
    all_gone()


def main():
    """Runs all tests."""
    topology.need_module()
    return ktap.run([client_without_device, server_without_device, both_without_device,
                     client_is_tcp, server_is_tcp, other_subnet, other_subnet_ipv6,
                     within_one_host, signed_segments, data_in_the_syn, then_smc_again])


if __name__ == "__main__":
    sys.exit(main())
