#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The raw peer behaves: a baseline without which the other programs of this folder prove nothing."""

import sys

import fixtures
import topology
from ktap import equal
from peer import connecting, connect_result
from raw import Listener


def both_ways(conn, sock, size=60000):
    """Sends more than an element holds in both directions, and compares it."""
    there, back = topology.known("there", size), topology.known("back", size)
    child = topology.Child(lambda: (sock.sendall(back), equal(topology.receive(sock, size) == there, True,
                                                              "data to us")))
    equal(conn.take(size) == back, True, "data of ours")
    at = 0
    while at < size:
        piece = there[at:at + 5000]
        conn.host.wait(lambda: conn.sent - conn.position(conn.consumed) <= conn.room() - 5000,
                       "room")
        conn.write(piece)
        at += len(piece)
    child.expect_success()


def client(fixture, peer):
    """The raw peer connects twice on one link."""
    group = None
    for _ in range(2):
        conn = peer.new().as_client(fixture.port, group)
        sock, _ = fixture.listening.accept()
        equal(topology.mode("b", sock)[0], "smc", "mode")
        equal(conn.first, group is None, "first contact")
        both_ways(conn, sock)
        group = conn.group
        group.expect_alive()
        sock.close()
        conn.host.wait(lambda conn=conn: conn.saw(state=0x40), "close")
        conn.send_cdc(state_flags=0xc0)
        conn.tcp.close()
    fixture.expect_counters(smc_srv_conns=2, aborted_srv=0)


def server(fixture, peer):
    """Two of our sockets connect to the raw peer on one link."""
    group = None
    for _ in range(2):
        listener = Listener(fixture.host)
        sock = connecting(listener.address())
        conn = peer.new().as_server(listener, group)
        equal(connect_result(sock), "none", "connect")
        equal(topology.mode("b", sock)[0], "smc", "mode")
        both_ways(conn, sock)
        group = conn.group
        group.expect_alive()
        sock.close()
        conn.host.wait(lambda conn=conn: conn.saw(state=0x40), "close")
        conn.send_cdc(state_flags=0xc0)
        conn.tcp.close()
    fixture.expect_counters(smc_clnt_conns=2, aborted_clnt=0)


if __name__ == "__main__":
    sys.exit(fixtures.run([("client", client), ("server", server)]))
