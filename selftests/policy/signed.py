#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Connections with signed segments, and repaired ones (TCP_REPAIR), stay with TCP."""

import errno
import socket
import struct
import sys

import ktap
import topology
from fallback import IPSEC, OPTION, PEER_NO_SMC, Watch, goes_by_rdma, stays_tcp
from ktap import Skip, equal
from topology import all_gone, pair

TCP_MD5SIG = 14
TCP_REPAIR = 19
TCP_AO_ADD_KEY = 38
SECRET = b"a secret of both"


def storage(family, host):
    """struct sockaddr_storage without a port."""
    address = socket.inet_pton(family, host)
    if family == socket.AF_INET:
        return struct.pack("=HH4s120x", family, 0, address)
    return struct.pack("=HHI16sI100x", family, 0, 0, address, 0)


def md5_key(family, host):
    """struct tcp_md5sig."""
    return storage(family, host) + struct.pack("=BBHi80s", 0, 0, len(SECRET), 0, SECRET)


def ao_key(family, host):
    """struct tcp_ao_add."""
    bits = 32 if family == socket.AF_INET else 128
    return storage(family, host) + struct.pack("=64siIHBBBBBB80s", b"hmac(sha1)", 0, 0, 0, bits,
                                               100, 100, 12, 0, len(SECRET), SECRET)


def set_key(sock, option, key):
    """Sets a key; skips the test if the kernel does not support such keys."""
    try:
        sock.setsockopt(socket.IPPROTO_TCP, option, key)
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            raise Skip("the kernel has no such signatures") from error
        raise


def signed(family, option, make):
    """Both sides sign: no side offers SMC, and other connections are not affected."""
    topology.netns("up")
    watch = Watch()
    with topology.listener("b", family) as listening:
        client = topology.new_socket("a", family)
        set_key(client, option, make(family, topology.HOSTS[family]["b"]))
        set_key(listening, option, make(family, topology.HOSTS[family]["a"]))
        client.settimeout(topology.BOUND)
        client.connect(listening.getsockname())
        server, _ = listening.accept()
        server.settimeout(topology.BOUND)
    stays_tcp(client, server, (IPSEC, PEER_NO_SMC), watch)
    goes_by_rdma(*pair(family))


def md5_ipv4():
    """TCP-MD5."""
    # SEC-06.
    signed(socket.AF_INET, TCP_MD5SIG, md5_key)


def md5_ipv6():
    """TCP-MD5 over IPv6."""
    # SEC-06.
    signed(socket.AF_INET6, TCP_MD5SIG, md5_key)


def ao_ipv4():
    """TCP-AO."""
    # SEC-06.
    signed(socket.AF_INET, TCP_AO_ADD_KEY, ao_key)


def ao_ipv6():
    """TCP-AO over IPv6."""
    # SEC-06.
    signed(socket.AF_INET6, TCP_AO_ADD_KEY, ao_key)


def repaired():
    """A repaired connection has no handshake in which to agree."""
    topology.netns("up")
    watch = Watch()
    with topology.listener("b") as listening:
        client = topology.new_socket("a")
        client.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        client.bind(("10.9.0.1", 0))
        client.connect(listening.getsockname())
        equal(client.getpeername(), listening.getsockname(), "peer")
        equal(topology.mode("a", client), ("tcp", OPTION), "mode and reason")
        equal(watch.increase("a", "fallback_reason_%08x" % OPTION), 1, "counter")
        client.close()
    all_gone()
    goes_by_rdma(*pair())


def main():
    """Runs all tests."""
    topology.need_module()
    return ktap.run([md5_ipv4, md5_ipv6, ao_ipv4, ao_ipv6, repaired])


if __name__ == "__main__":
    sys.exit(main())
