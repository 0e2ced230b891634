#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A peer that claims the identity of another host, or names its link, harms only itself."""

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
from peer import Peer, connecting, connect_result

EYE_CATCHER = bytes.fromhex("e2d4c3d9")
ETH_P_ALL = 0x0003


def ends(client, server):
    """Two connected sockets on these sides."""
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
def captured(kind):
    """A function that returns the CLC message of a type that was on the wire during the block."""
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
    """The peer ID of host a, taken from a Proposal."""
    with captured(PROPOSAL) as message:
        client, server = topology.pair()
        topology.expect_smc(client, server)
        name = message().raw("peer")
    client.close()
    server.close()
    topology.all_gone()
    return name


def forget_each_other():
    """Ends all link groups between a and b."""
    topology.command("rdma", "link", "delete", "rs_a")
    topology.until(lambda: not topology.records("b", "links"), "link groups are left")
    topology.command("ip", "netns", "exec", "rs-a", "rdma", "link", "add", "rs_a", "type", "rxe",
                     "netdev", "va")
    topology.await_gid("rs_a", "10.9.0.1")
    topology.await_ports("a")


def impersonator_stalls_first_contact_succeeds():
    """First contact of the real host succeeds while the impersonator stalls."""
    topology.netns("up")
    name = name_of_a()
    forget_each_other()
    with raw.Host() as host, topology.listener("b") as listening:
        impersonator = Peer(host)
        conn = impersonator.new()
        conn.connect(listening.getsockname()[1])
        conn.propose({"peer": int.from_bytes(name, "big")})
        conn.accepted()
        equal(conn.first, True, "first contact of the impersonator")
        begin = time.monotonic()
        client, server = topology.pair()
        took, stalls = time.monotonic() - begin, not conn.tcp.reset
        topology.expect_smc(client, server)
        topology.exchange(client, server)
        # The impersonator's handshake is still in progress.
        equal(stalls, True, "the impersonator's handshake is under way")
        equal(took < (30 if fixtures.FEW else 5), True, "first contact took %.1f s" % took)
        client.close()
        server.close()
        impersonator.leave()
        impersonator.end()
    topology.all_gone()


def groups():
    """The numbers of the link groups of b with a."""
    return {line["lgr"] for line in topology.records("b", "links")
            if line["peer_gid"].endswith(":a09:1")}


@contextlib.contextmanager
def background_connection():
    """A connection from b to a during the block; yields the Accept of a. Fails unless its link group
    stays the only one with a, carries data and accepts new connections."""
    topology.netns("up")
    with captured(ACCEPT) as message:
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
    """The values of a for the fields that identify a link, as changes to a message."""
    return {name: accept[name] for name in ("peer", "gid", "mac", "qpn", *fields)}


def impersonating_server(host, accept, first, *fields):
    """Connects a client of b to an impersonator that names the link of a; the impersonator, its side of
    the connection, and the client."""
    impersonator = Peer(host)
    listener = raw.Listener(host)
    conn = impersonator.new()
    sock = connecting(listener.address())
    conn.proposed(listener)
    conn.accept(dict(names_a(accept, *fields), first=first))
    return impersonator, conn, sock


def first_contact_with_the_link_of_another():
    """A server that sets the first-contact flag and names the link of another host does not end that
    link."""
    with background_connection() as accept, raw.Host() as host:
        impersonator, conn, sock = impersonating_server(host, accept, 1)
        conn.confirmed()
        # The impersonator's group is in first contact; the group of a is unchanged.
        equal({line["state"] for line in topology.records("b", "links")
               if line["qpn"] != hex(conn.answer["qpn"])}, {"active"}, "links with a")
        sock.close()
        impersonator.leave()
        impersonator.end()


def decline_to_a_link_of_another(*fields, **others):
    """A server without the first-contact flag names the link and an element of another host: the client
    declines."""
    with background_connection() as accept, raw.Host() as host:
        impersonator, conn, sock = impersonating_server(host, accept, 0, *fields)
        answer = conn.receive_clc()
        equal(answer["type"], DECLINE, "answer to the impersonator")
        # The answer must not state that the link is unknown, as the real host may have named it.
        equal(answer["first"], others.get("out_of_sync", 0), "out of sync")
        equal(connect_result(sock), "none", "connect")
        equal(topology.mode("b", sock)[0], "tcp", "mode")
        sock.close()
        impersonator.leave()
        impersonator.end()


def unknown_buffer_on_the_link_of_another():
    """Our side writes nothing by the named link if the key is unknown there."""
    decline_to_a_link_of_another()


def buffer_of_another_at_another_address():
    """Our side writes nothing if the key is known at another address."""
    decline_to_a_link_of_another("rkey")


def element_of_another():
    """Our side writes nothing if the element belongs to a live connection."""
    decline_to_a_link_of_another("rkey", "address", "index")


def name_of_another_in_a_proposal():
    """A client with the identity of another host does not join the group with that host."""
    topology.netns("up")
    with captured(PROPOSAL) as message:
        client, server = ends("a", "b")
        name = message()["peer"]
    topology.exchange(client, server)
    before, = groups()
    qpns = {int(line["qpn"], 0) for line in topology.records("b", "links")}
    with raw.Host() as host, topology.listener("b") as listening:
        for _ in range(3):
            impersonator = Peer(host)
            conn = impersonator.new()
            conn.connect(listening.getsockname()[1])
            conn.propose({"peer": name})
            conn.accepted()
            equal((conn.first, conn.answer["qpn"] in qpns), (True, False), "group of the impersonator")
            # A decline in the other host's group would keep new connections from it.
            conn.decline({"first": 1, "peer": name})
            impersonator.leave()
            impersonator.end()
        topology.exchange(client, server)
        another = ends("a", "b")
        topology.exchange(*another)
        equal(groups(), {before}, "link groups with a")
        for sock in (client, server, *another):
            sock.close()
    topology.all_gone()


if __name__ == "__main__":
    topology.need_module()
    sys.exit(ktap.run([impersonator_stalls_first_contact_succeeds, first_contact_with_the_link_of_another,
                       unknown_buffer_on_the_link_of_another,
                       buffer_of_another_at_another_address, element_of_another,
                       name_of_another_in_a_proposal]))
