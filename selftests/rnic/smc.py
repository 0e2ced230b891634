#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""SMC-R of rdma_sock.ko over devices of the type rsoft: between two of them, and with rdma_rxe on the
other side.

Covers RNIC-GEN-03, RNIC-MR-05, RNIC-RSP-08, RNIC-REQ-03, RNIC-REQ-14,
RNIC-LIFE-06, RNIC-TX-02, RNIC-RUN-08.
"""

import contextlib
import pathlib
import socket
import sys

import ktap
import rsoft
import topology
from ktap import equal, named
from topology import Child, all_gone, command, exchange, expect_smc, netns, pair

# Versions of RoCE, whether packets may leave out the network, and types of link of both sides. SMC-R
# prefers version 1 where a device has it, which rdma_rxe has not.
SIDES = [("3", 1, "rsoft", "rsoft"), ("3", 0, "rsoft", "rsoft"), ("2", 0, "rsoft", "rsoft"),
         ("2", 1, "rsoft", "rxe"), ("2", 1, "rxe", "rsoft")]


def data_pass_unchanged(family):
    """Data of both directions at the same time, in more than a full buffer."""
    client, server = pair(family)
    with client, server:
        expect_smc(client, server)
        exchange(client, server, 1000000)
    all_gone()


def many_connections_share_a_link():
    """Each carries its own data."""
    pairs = [pair() for _ in range(12)]
    for client, server in pairs:
        expect_smc(client, server)
        exchange(client, server, 50000)
    for client, server in pairs:
        client.close()
        server.close()
    all_gone()


def small_messages_are_answered():
    """One at a time, so nothing but its own packets moves it on."""
    client, server = pair()
    with client, server:
        expect_smc(client, server)
        for number in range(200):
            data = topology.known(number, number + 1)
            client.sendall(data)
            equal(topology.receive(server, len(data)) == data, True, "message %d" % number)
            server.sendall(data)
            equal(topology.receive(client, len(data)) == data, True, "answer %d" % number)
    all_gone()


def lost_packets_are_repeated():
    """Some of the packets do not arrive, in both directions."""
    client, server = pair()
    with client, server:
        expect_smc(client, server)
        with rsoft.losses(1) as lost:
            def passes_with_losses():
                exchange(client, server, 300000)
                return lost() > 0
            topology.until(passes_with_losses, "packets that were lost", 10 * topology.BOUND)
    all_gone()


def processors_come_and_go():
    """What a processor had to do when it went away, another one does (RNIC-RUN-08)."""
    online = pathlib.Path("/sys/devices/system/cpu/cpu1/online")
    if not online.exists():
        raise ktap.Skip("no processor can go away")
    client, server = pair()

    def work():
        for _ in range(60):
            exchange(client, server, 300000)

    with client, server:
        expect_smc(client, server)
        child, changes = Child(work), 0
        try:
            while not child.has_ended():
                online.write_text(str(changes % 2), encoding="ascii")
                changes += 1
        finally:
            online.write_text("1", encoding="ascii")
            child.give_up()
        child.expect_success()
        equal(changes > 3, True, "%d changes" % changes)
    all_gone()


def device_goes_away_under_a_connection():
    """The device's removal ends, and the other side's connection gets an error."""
    client, server = pair()
    with client, server:
        expect_smc(client, server)
        exchange(client, server, 10000)
        with topology.bounded(60):
            command("rdma", "link", "delete", "rs_a")
        equal(topology.error_of(client.sendall, b"x" * 1000) != "none" or
              topology.error_of(client.recv, 1) != "none", True, "error of the client")
    all_gone()


def module_unloads_under_a_connection(left, right):
    """rmmod ends while data flow, and the connection with an error."""
    netns("up", LINK_A=left, LINK_B=right)
    client, server = pair()

    def stream():
        server.close()
        data = topology.known("stream", 100000)
        error = "none"
        while error == "none":
            error = topology.error_of(client.sendall, data)
        equal(error in ("late", "EAGAIN"), False, "error of the writer: %s" % error)

    def read():
        client.close()
        with contextlib.suppress(OSError):
            while server.recv(65536):
                pass

    with client, server:
        expect_smc(client, server)
        before = topology.counter("a", "tx_bytes")
        children = [Child(stream), Child(read)]
    topology.until(lambda: topology.counter("a", "tx_bytes") > before + 300000, "traffic")
    with topology.bounded(60):
        command("rmmod", rsoft.SOFT)
    children[0].expect_success()
    children[1].give_up()
    all_gone()


def tests():
    """All tests, for each pair of types."""
    found = []
    for versions, direct, left, right in SIDES:
        def begin(versions=versions, direct=direct, left=left, right=right):
            netns("down")
            rsoft.load(versions, direct)
            netns("up", LINK_A=left, LINK_B=right)
        for name, function, *arguments in (
                ("links are made", begin),
                ("data pass by IPv4", data_pass_unchanged, socket.AF_INET),
                ("data pass by IPv6", data_pass_unchanged, socket.AF_INET6),
                ("many connections share a link", many_connections_share_a_link),
                ("small messages are answered", small_messages_are_answered),
                ("lost packets are repeated", lost_packets_are_repeated),
                ("processors come and go", processors_come_and_go),
                ("device goes away under a connection", device_goes_away_under_a_connection),
                ("module unloads under a connection", module_unloads_under_a_connection, left,
                 right)):
            # The direct path loses nothing.
            if function == lost_packets_are_repeated and direct and left == right:
                continue
            found.append(named("%s with %s, RoCE %s, direct=%d: %s" %
                               (left, right, versions, direct, name), function, *arguments))
    return found


def main():
    """Runs the tests with the module loaded."""
    topology.need_module()
    if rsoft.FILE is None:
        ktap.skip_all("the module's file is not here")
    return rsoft.run(tests())


if __name__ == "__main__":
    sys.exit(main())
