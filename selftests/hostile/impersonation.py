#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A liar that takes the name of another host, or names its link, harms nobody but itself."""

import contextlib
import socket
import struct
import sys
import time

import fixtures
import ktap
import raw
import topology
from ktap import equal
from messages import ACCEPT, DECLINE, PROPOSAL, read_clc
from peer import Peer, connecting, settled

EYE_CATCHER = bytes.fromhex("e2d4c3d9")
ETH_P_ALL = 0x0003


def ends(client, server):
    """Two new connected sockets of these sides."""
    with topology.listener(server) as listening:
        one = topology.new_socket(client)
        one.settimeout(topology.BOUND)
        one.connect(listening.getsockname())
        listening.settimeout(topology.BOUND)
        other, _ = listening.accept()
        other.settimeout(topology.BOUND)
    for side, sock in ((client, one), (server, other)):
        equal(topology.mode(side, sock)[0], "smc", "mode in " + side)
    return one, other


@contextlib.contextmanager
def heard(kind):
    """A function that gives the CLC message of that kind that was on the wire meanwhile."""
    with topology.inside("b"):
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.bind(("vb", ETH_P_ALL))
    wire.settimeout(topology.BOUND)

    def message():
        while True:
            frame = wire.recv(2048)
            at = frame.find(EYE_CATCHER + bytes([kind]))
            if at > 0:
                size, = struct.unpack_from("!H", frame, at + 5)
                return read_clc(frame[at:at + size])
    with wire:
        yield message


def name_of_a():
    """The peer ID that host a shows in a Proposal."""
    with heard(PROPOSAL) as message:
        client, server = topology.pair()
        topology.expect_smc(client, server)
        name = message().raw("peer")
    client.close()
    server.close()
    topology.all_gone()
    return name


def forget_each_other():
    """No link group is left between a and b."""
    topology.command("rdma", "link", "delete", "rs_a")
    topology.until(lambda: not topology.records("b", "links"), "link groups are left")
    topology.command("ip", "netns", "exec", "rs-a", "rdma", "link", "add", "rs_a", "type", "rxe",
                     "netdev", "va")
    topology.await_gid("rs_a", "10.9.0.1")


def liar_delays_nobody():
    """First contact of the host whose name was taken succeeds while the liar stalls."""
    topology.netns("up")
    name = name_of_a()
    forget_each_other()
    with raw.Host() as host, topology.listener("b") as listening:
        liar = Peer(host)
        conn = liar.new()
        conn.connect(listening.getsockname()[1])
        conn.propose({"peer": int.from_bytes(name, "big")})
        conn.accepted()
        equal(conn.first, True, "first contact of the liar")
        begin = time.monotonic()
        client, server = topology.pair()
        took = time.monotonic() - begin
        topology.expect_smc(client, server)
        topology.exchange(client, server)
        equal(took < (30 if fixtures.FEW else 3), True, "first contact took %.1f s" % took)
        # The liar is still where it was.
        equal(conn.tcp.reset, False, "the liar's connection is reset")
        client.close()
        server.close()
        liar.leave()
        liar.end()
    topology.all_gone()


def groups():
    """The numbers of the link groups of b with a."""
    return {line["lgr"] for line in topology.records("b", "links")
            if line["peer_gid"].endswith(":a09:1")}


@contextlib.contextmanager
def background_connection():
    """A connection from b to a, and what a said in its Accept. It carries data at the end as at the
    beginning, its link group is the only one with a, and others still join that."""
    topology.netns("up")
    with heard(ACCEPT) as message:
        client, server = ends("b", "a")
        accept = message()
    topology.exchange(client, server)
    before, = groups()
    yield accept
    topology.exchange(client, server)
    another = ends("b", "a")
    topology.exchange(*another)
    equal(groups(), {before}, "link groups with a")
    for sock in (client, server, *another):
        sock.close()
    topology.all_gone()


def names_a(accept, *fields):
    """Changes to a message: these fields are those of a."""
    return {name: accept[name] for name in ("peer", "gid", "mac", "qpn", *fields)}


def liar_server(host, accept, first, *fields):
    """A client of b connects to a liar that names the link of a; the liar's side of the connection,
    and the client."""
    liar = Peer(host)
    listener = raw.Listener(host)
    conn = liar.new()
    sock = connecting(listener.address())
    conn.proposed(listener)
    conn.accept(dict(names_a(accept, *fields), first=first))
    return liar, conn, sock


def first_contact_with_the_link_of_another():
    """A server says F=1 and names the link of another host: the link stays."""
    with background_connection() as accept, raw.Host() as host:
        liar, conn, sock = liar_server(host, accept, 1)
        conn.confirmed()
        # The bystander's group is as it was, while the liar's is being formed.
        equal({line["state"] for line in topology.records("b", "links")
               if line["qpn"] != hex(conn.answer["qpn"])}, {"active"}, "links with a")
        sock.close()
        liar.leave()
        liar.end()


def decline_to_a_link_of_another(*fields, **others):
    """A server says F=0 and names the link of another host, and an element."""
    with background_connection() as accept, raw.Host() as host:
        liar, conn, sock = liar_server(host, accept, 0, *fields)
        answer = conn.heard()
        equal(answer["type"], DECLINE, "answer to the liar")
        # It does not say that the link is unknown: another host may have said the truth.
        equal(answer["first"], others.get("out_of_sync", 0), "out of sync")
        equal(settled(sock), "none", "connect")
        equal(topology.mode("b", sock)[0], "tcp", "mode")
        sock.close()
        liar.leave()
        liar.end()


def unknown_buffer_on_the_link_of_another():
    """The key is none of that host: nothing is written by its link."""
    decline_to_a_link_of_another()


def buffer_of_another_at_another_address():
    """The key is that of the other host's buffer, the address is not."""
    decline_to_a_link_of_another("rkey")


def element_of_another():
    """Key, address and number of the element are those of a connection that lives."""
    decline_to_a_link_of_another("rkey", "address", "index")


def name_of_another_in_a_proposal():
    """A client takes the name of another host: it does not get into the group with that."""
    topology.netns("up")
    with heard(PROPOSAL) as message:
        client, server = ends("a", "b")
        name = message()["peer"]
    topology.exchange(client, server)
    before, = groups()
    qpns = {int(line["qpn"], 0) for line in topology.records("b", "links")}
    with raw.Host() as host, topology.listener("b") as listening:
        for _ in range(3):
            liar = Peer(host)
            conn = liar.new()
            conn.connect(listening.getsockname()[1])
            conn.propose({"peer": name})
            conn.accepted()
            equal((conn.first, conn.answer["qpn"] in qpns), (True, False), "group of the liar")
            # Had it been the other host's group, no connection could join it from here on.
            conn.decline({"first": 1, "peer": name})
            liar.leave()
            liar.end()
        topology.exchange(client, server)
        another = ends("a", "b")
        topology.exchange(*another)
        equal(groups(), {before}, "link groups with a")
        for sock in (client, server, *another):
            sock.close()
    topology.all_gone()


if __name__ == "__main__":
    topology.need_module()
    sys.exit(ktap.run([liar_delays_nobody, first_contact_with_the_link_of_another,
                       unknown_buffer_on_the_link_of_another,
                       buffer_of_another_at_another_address, element_of_another,
                       name_of_another_in_a_proposal]))
