#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Peers that say too much, too fast: it costs them their own link at most. The bystander goes on
meanwhile, not only afterwards.

Covers SMCR-LLC-06, CDC-36, CDC-14, ERR-41, RMB-03, SEC-10.
"""

import sys

import lab
import messages
import scene
from arena import Arena, carries, is_over
from ktap import equal
from messages import (CONFIRM_RKEY, CONFIRM_RKEY_CONT, DELETE_LINK, DELETE_RKEY, REQUEST, TEST_LINK,
                      llc)
from peer import connecting, settled
from raw import SMC_OPTION, SYN, Listener, Tcp

COUNT = 100 if scene.FEW else 1000


def of_llc(kind, **values):
    """One kind of LLC message, each one different."""
    def test(stage, _):
        arena = Arena(stage, "server")
        conn, sock = arena.connection()
        group = conn.group
        # Nobody wants to know the answers.
        group.qp.on_message = lambda octets: None
        for number in range(COUNT):
            if not has_room(conn):
                break
            message = llc(kind, **values)
            if kind in (CONFIRM_RKEY, DELETE_RKEY):
                message["rkey"] = number
            group.qp.send(bytes(message))
            if number % 200 == 100:
                stage.bystander.goes_on()
        group.qp.on_message = group.incoming
        survived(arena, conn, sock)
    return test


def has_room(conn):
    """Waits until more may be sent; False if the link is gone, which a dead queue pair does not say."""
    qp = conn.group.qp
    conn.host.wait(lambda: len(qp.flying) < 16 or qp.refused is not None or conn.tcp.reset, "room", 40)
    return qp.refused is None and not conn.tcp.reset


def survived(arena, conn, sock):
    """The link goes on, and the connection on it, or both have ended."""
    if arena.outcome(conn, 40) == "lives":
        carries(conn, sock)
    else:
        is_over(sock)
    sock.close()


def of_updates(stage, _):
    """Each CDC message asks for an answer."""
    arena = Arena(stage, "server")
    conn, sock = arena.connection()
    for number in range(COUNT):
        if not has_room(conn):
            break
        conn.tell(producer_flags=REQUEST | messages.BLOCKED)
        if number % 200 == 100:
            stage.bystander.goes_on()
    survived(arena, conn, sock)


def of_tiny_writes(stage, _):
    """One octet a message, read one by one."""
    arena = Arena(stage, "server")
    conn, sock = arena.connection()
    for at in range(0, COUNT, 50):
        for _ in range(50):
            conn.write(b"x")
        equal(lab.receive(sock, 50), b"x" * 50, "data %d" % at)
    survived(arena, conn, sock)


def of_unknown_tokens(stage, _):
    """CDC messages for nobody."""
    arena = Arena(stage, "server")
    conn, sock = arena.connection()
    for number in range(COUNT):
        conn.group.qp.send(bytes(messages.cdc(seq=number & 0xffff, token=number << 8)))
    equal(arena.outcome(conn), "lives", "link")
    survived(arena, conn, sock)


def of_bad_cursors(stage, _):
    """One connection after the other is thrown away by a lie."""
    arena = Arena(stage, "server")
    for _ in range(10 if scene.FEW else 60):
        conn, sock = arena.connection()
        conn.tell({"produced": 0xffffffff})
        is_over(sock)
        sock.close()
    stage.bystander.goes_on()


def of_proposals(stage, _):
    """Many stacks say Proposal and nothing more. Newcomers are served meanwhile."""
    conns = []
    for _ in range(10 if scene.FEW else 60):
        conn = stage.another_peer().new()
        conn.connect(stage.port)
        conn.propose()
        conns.append(conn)
    stage.bystander.goes_on()
    client, server = lab.pair()
    lab.exchange(client, server, 1000)
    client.close()
    server.close()
    for conn in conns:
        stage.host.wait(lambda conn=conn: conn.tcp.reset or conn.tcp.fin or conn.tcp.data, "answer", 40)
    lab.until(lambda: stage.grown("aborted_srv") + stage.grown("fallback_srv") >= len(conns),
              "all handshakes are over", 60)


def of_proposals_of_one(stage, peer):
    """One stack says many Proposals at once, and nothing more: its later ones wait for the first."""
    conns = []
    for _ in range(10 if scene.FEW else 60):
        conn = peer.new()
        conn.connect(stage.port)
        conn.propose()
        conns.append(conn)
    stage.bystander.goes_on()
    lab.until(lambda: stage.grown("aborted_srv") + stage.grown("fallback_srv") >= len(conns),
              "all handshakes are over", 60)


def of_connections(stage, _):
    """TCP connections that come and go without a word."""
    tcps = []
    for number in range(COUNT // 2):
        tcp = Tcp(stage.host, stage.host.new_port(), stage.port)
        tcp.send(SYN, options=SMC_OPTION)
        tcps.append(tcp)
        if number % 50 == 49:
            for old in tcps:
                old.abort()
                old.forget()
            tcps.clear()
    stage.bystander.goes_on()
    client, server = lab.pair()
    lab.exchange(client, server, 1000)
    client.close()
    server.close()


def of_groups(stage, _):
    """A stack that makes a link group for each connection: the server has to say F, not the peer."""
    conns = []
    for _ in range(5 if scene.FEW else 20):
        conn = stage.another_peer().new().as_client(stage.port)
        sock, _ = stage.listening.accept()
        stage.accepted[conn.tcp.port] = sock
        conns.append((conn, sock))
    for conn, sock in conns:
        carries(conn, sock)


def of_servers(stage, _):
    """A server that answers each of our connections by first contact of another stack."""
    conns = []
    for _ in range(5 if scene.FEW else 20):
        listener = Listener(stage.host)
        sock = connecting(listener.address())
        conn = stage.another_peer().new().as_server(listener)
        equal(settled(sock), "none", "connect")
        stage.accepted[listener.port] = sock
        conns.append((conn, sock))
    for conn, sock in conns:
        carries(conn, sock)


def of_garbage(stage, _):
    """Octets by the thousand, on TCP and on the link."""
    data = lab.known("garbage", 44 * 400)
    arena = Arena(stage, "server")
    for at in range(0, 44 * (40 if scene.FEW else 400), 44):
        conn, sock = arena.connection()
        conn.group.qp.send(data[at:at + 44])
        if arena.outcome(conn, 40) == "dead":
            is_over(sock)
        sock.close()
        if at // 44 % 50 == 49:
            stage.bystander.goes_on()


def cases():
    """All of it."""
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
    sys.exit(scene.run(list(cases())))
