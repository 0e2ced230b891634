#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Peers that send too many messages too fast lose at most their own link. The background traffic
continues meanwhile.

Covers SMCR-LLC-06, CDC-36, CDC-14, ERR-41, RMB-03, SEC-10.
"""

import sys

import fixtures
import messages
import topology
from hostile_peer import HostilePeer, expect_data, expect_error
from ktap import equal
from messages import (CONFIRM_RKEY, CONFIRM_RKEY_CONT, DELETE_LINK, DELETE_RKEY, REQUEST, TEST_LINK,
                      llc)
from peer import connecting, connect_result
from raw import SMC_OPTION, SYN, Listener, Tcp

COUNT = 100 if fixtures.FEW else 1000


def of_llc(kind, **values):
    """A flood of LLC messages of one kind, all different."""
    def test(fixture, _):
        hostile = HostilePeer(fixture, "server")
        conn, sock = hostile.connection()
        group = conn.group
        # The test ignores the answers.
        group.qp.on_message = lambda octets: None
        for number in range(COUNT):
            if not has_room(conn):
                break
            message = llc(kind, **values)
            if kind in (CONFIRM_RKEY, DELETE_RKEY):
                message["rkey"] = number
            group.qp.send(bytes(message))
            if number % 200 == 100:
                fixture.background.expect_progress()
        group.qp.on_message = group.incoming
        survived(hostile, conn, sock)
    return test


def has_room(conn):
    """Waits until the queue pair accepts a message; False if the link died. The peer learns of that
    only by a lack of answers."""
    qp = conn.group.qp
    conn.host.wait(lambda: len(qp.flying) < 16 or qp.refused is not None or conn.tcp.reset, "room", 40)
    return qp.refused is None and not conn.tcp.reset


def survived(hostile, conn, sock):
    """Fails unless the link and its connection are alive, or both have ended."""
    if hostile.outcome(conn, 40) == "lives":
        expect_data(conn, sock)
    else:
        expect_error(sock)
    sock.close()


def of_updates(fixture, _):
    """A flood of CDC messages that request an answer."""
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    for number in range(COUNT):
        if not has_room(conn):
            break
        conn.send_cdc(producer_flags=REQUEST | messages.BLOCKED)
        if number % 200 == 100:
            fixture.background.expect_progress()
    survived(hostile, conn, sock)


def of_tiny_writes(fixture, _):
    """A flood of messages with one octet each, read one by one."""
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    for at in range(0, COUNT, 50):
        for _ in range(50):
            conn.write(b"x")
        equal(topology.receive(sock, 50), b"x" * 50, "data %d" % at)
    survived(hostile, conn, sock)


def of_unknown_tokens(fixture, _):
    """A flood of CDC messages with unknown tokens."""
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    for number in range(COUNT):
        conn.group.qp.send(bytes(messages.cdc(seq=number & 0xffff, token=number << 8)))
    equal(hostile.outcome(conn), "lives", "link")
    survived(hostile, conn, sock)


def of_bad_cursors(fixture, _):
    """An impossible cursor ends one connection after the other."""
    hostile = HostilePeer(fixture, "server")
    for _ in range(10 if fixtures.FEW else 60):
        conn, sock = hostile.connection()
        conn.send_cdc({"produced": 0xffffffff})
        expect_error(sock)
        sock.close()
    fixture.background.expect_progress()


def of_proposals(fixture, _):
    """Many peers send a Proposal and nothing else. New clients are served meanwhile."""
    conns = []
    for _ in range(10 if fixtures.FEW else 60):
        conn = fixture.new_peer().new()
        conn.connect(fixture.port)
        conn.propose()
        conns.append(conn)
    fixture.background.expect_progress()
    client, server = topology.pair()
    topology.exchange(client, server, 1000)
    client.close()
    server.close()
    for conn in conns:
        fixture.host.wait(lambda conn=conn: conn.tcp.reset or conn.tcp.fin or conn.tcp.data, "answer", 40)
    topology.until(lambda: fixture.increase("aborted_srv") + fixture.increase("fallback_srv") >= len(conns),
                   "all handshakes are over", 60)


def of_proposals_of_one(fixture, peer):
    """One peer sends many Proposals at once and nothing else. Its later handshakes wait for the first
    one."""
    conns = []
    for _ in range(10 if fixtures.FEW else 60):
        conn = peer.new()
        conn.connect(fixture.port)
        conn.propose()
        conns.append(conn)
    fixture.background.expect_progress()
    topology.until(lambda: fixture.increase("aborted_srv") + fixture.increase("fallback_srv") >= len(conns),
                   "all handshakes are over", 60)


def of_connections(fixture, _):
    """TCP connections open and close without data."""
    tcps = []
    for number in range(COUNT // 2):
        tcp = Tcp(fixture.host, fixture.host.new_port(), fixture.port)
        tcp.send(SYN, options=SMC_OPTION)
        tcps.append(tcp)
        if number % 50 == 49:
            for old in tcps:
                old.abort()
                old.forget()
            tcps.clear()
    fixture.background.expect_progress()
    client, server = topology.pair()
    topology.exchange(client, server, 1000)
    client.close()
    server.close()


def of_groups(fixture, _):
    """A peer makes a link group for each connection. The server, not the peer, decides about first
    contact."""
    conns = []
    for _ in range(5 if fixtures.FEW else 20):
        conn = fixture.new_peer().new().as_client(fixture.port)
        sock, _ = fixture.listening.accept()
        fixture.accepted[conn.tcp.port] = sock
        conns.append((conn, sock))
    for conn, sock in conns:
        expect_data(conn, sock)


def of_servers(fixture, _):
    """A server answers each of our connections by first contact with another identity."""
    conns = []
    for _ in range(5 if fixtures.FEW else 20):
        listener = Listener(fixture.host)
        sock = connecting(listener.address())
        conn = fixture.new_peer().new().as_server(listener)
        equal(connect_result(sock), "none", "connect")
        fixture.accepted[listener.port] = sock
        conns.append((conn, sock))
    for conn, sock in conns:
        expect_data(conn, sock)


def of_garbage(fixture, _):
    """Thousands of arbitrary octets on TCP and on the link."""
    data = topology.known("garbage", 44 * 400)
    hostile = HostilePeer(fixture, "server")
    for at in range(0, 44 * (40 if fixtures.FEW else 400), 44):
        conn, sock = hostile.connection()
        conn.group.qp.send(data[at:at + 44])
        if hostile.outcome(conn, 40) == "dead":
            expect_error(sock)
        sock.close()
        if at // 44 % 50 == 49:
            fixture.background.expect_progress()


def cases():
    """All test cases."""
    for name, kind, values in (
            ("test_link", TEST_LINK, {}), ("test_link_replies", TEST_LINK, {"reply": 1}),
            ("confirm_rkey", CONFIRM_RKEY, {"address": 1 << 32}),
            ("confirm_rkey_cont", CONFIRM_RKEY_CONT, {"count": 1}),
            ("delete_rkey", DELETE_RKEY, {"count": 1}),
            ("delete_link", DELETE_LINK, {"number": 77, "reason": 0x00020000}),
            ("optional", TEST_LINK, {"type": 0x80})):
        yield "of_llc." + name, of_llc(kind, **values)
    for function in (of_updates, of_tiny_writes, of_unknown_tokens, of_bad_cursors, of_proposals,
                     of_proposals_of_one, of_connections, of_groups, of_servers, of_garbage):
        yield function.__name__, function


if __name__ == "__main__":
    sys.exit(fixtures.run(list(cases())))
