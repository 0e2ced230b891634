#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Concurrent calls: a program disconnects while the handshake succeeds, and changes the address family
while it sends."""

import contextlib
import errno
import os
import select
import socket
import sys
import time

import ktap
import topology
from ktap import equal, named
from topology import all_gone, exchange

FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
STEPS = 120 // topology.SLOW
IPV6_ADDRFORM = 1


def unspecified(sock):
    """Disconnects by AF_UNSPEC; 0 or the errno."""
    return 0 if topology.libc.connect(sock.fileno(), bytes(16), 16) == 0 else topology.ctypes.get_errno()


def time_of_connect(listening, family):
    """Seconds that a connection takes."""
    with topology.new_socket("a", family) as probe:
        begin = time.monotonic()
        probe.connect(listening.getsockname())
        took = time.monotonic() - begin
    listening.accept()[0].close()
    return took


def outcome_of_disconnect(listening, family, wait):
    """Disconnects `wait` seconds after a connection began. Either the socket is new then, and connects
    again: 0. Or the handshake was over, and the connection works: EINVAL."""
    with topology.new_socket("a", family) as client:
        client.setblocking(False)
        equal(client.connect_ex(listening.getsockname()), errno.EINPROGRESS, "connect")
        end = time.monotonic() + wait
        while time.monotonic() < end:
            pass
        error = unspecified(client)
        client.settimeout(topology.BOUND)
        if error == 0:
            client.connect(listening.getsockname())
        else:
            equal(error, errno.EINVAL, "errno of AF_UNSPEC")
            equal(topology.mode("a", client)[0], "smc", "mode of a connection that goes on")
        # The server may also have the disconnected connection.
        server, peer = listening.accept()
        while peer[:2] != client.getsockname()[:2]:
            server.close()
            server, peer = listening.accept()
        with server:
            exchange(client, server, 5000)
            equal(topology.mode("a", client)[0] == "smc", topology.mode("b", server)[0] == "smc", "modes")
            client.close()
    return error


@contextlib.contextmanager
def slow_network():
    """Packets of side a take longer than a program that is in a hurry."""
    words = ("dev", "va", "root", "netem", "delay", "200ms")
    topology.command("tc", "-n", "rs-a", "qdisc", "add", *words)
    try:
        yield
    finally:
        topology.command("tc", "-n", "rs-a", "qdisc", "del", *words)


def taken_back(family):
    """Disconnects after a time between nothing and more than a handshake."""
    with topology.listener("b", family) as listening:
        listening.settimeout(topology.BOUND)
        # The first contact takes longer. It ends here.
        warm = topology.new_socket("a", family)
        warm.connect(listening.getsockname())
        also = listening.accept()[0]
        took = min(time_of_connect(listening, family) for _ in range(5))
        results = {outcome_of_disconnect(listening, family, took * 1.5 * step / STEPS) for step in range(STEPS)}
        # On a busy machine a handshake takes longer than the shortest,
        for factor in (2, 4, 8, 16, 32, 64):
            if errno.EINVAL not in results:
                results.add(outcome_of_disconnect(listening, family, took * factor))
        # or is over before the program goes on.
        if 0 not in results:
            with slow_network():
                results.add(outcome_of_disconnect(listening, family, 0))
        equal(results, {0, errno.EINVAL}, "what came of it")
        warm.close()
        also.close()
    all_gone()


def family_while_sending():
    """An IPv6 socket keeps its family, so that each octet uses the same path."""
    data = topology.known("family", 4000000)
    with topology.new_socket("b", socket.AF_INET6) as listening:
        listening.bind(("::ffff:10.9.0.2", 0))
        listening.listen(1)
        client = topology.new_socket("a", socket.AF_INET6)
        client.settimeout(topology.BOUND)
        client.connect(listening.getsockname())
        server = listening.accept()[0]
    server.settimeout(topology.BOUND)
    topology.expect_smc(client, server)
    stop, go_on = os.pipe()
    sends, begun = os.pipe()

    def send():
        os.close(go_on)
        while not select.select([stop], [], [], 0)[0]:
            client.sendall(data)
            os.write(begun, b".")
        client.shutdown(socket.SHUT_WR)

    def check():
        os.close(go_on)
        blocks = 0
        while octets := topology.receive(server, len(data)):
            equal(octets == data, True, "data")
            blocks += 1
        equal(blocks > 0, True, "blocks")
    sender, receiver = topology.Child(send), topology.Child(check)
    os.close(begun)
    equal(select.select([sends], [], [], topology.BOUND)[0], [sends], "the first block")
    for _ in range(1000):
        ktap.fails(errno.EOPNOTSUPP, client.setsockopt, socket.IPPROTO_IPV6, IPV6_ADDRFORM,
                   int(socket.AF_INET))
    os.close(go_on)
    sender.expect_success()
    receiver.expect_success()
    os.close(stop)
    os.close(sends)
    topology.expect_smc(client, server)
    client.close()
    server.close()
    all_gone()


def main():
    """Runs all tests."""
    topology.need_module()
    topology.netns("up")
    tests = [named("family_while_sending", family_while_sending)]
    for version, family in FAMILIES.items():
        tests.append(named("ipv%d.taken_back" % version, taken_back, family))
    return ktap.run(tests)


if __name__ == "__main__":
    sys.exit(main())
