#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Subsequent contact with a peer that names links and elements of others.

Covers SMCR-CLC-223..227, CLC-320..322, RMB-24, ERR-42, ERR-43, RDV-27, LLF-45, TST-107, TST-111,
TST-115.
"""

import sys

import fixtures
import topology
from hostile_peer import HostilePeer, expect_data, expect_error
from ktap import equal
from messages import ADD_LINK, CONFIRM_LINK, CONFIRM_RKEY, DECLINE, DELETE_LINK, llc
from peer import GID, OTHER_GID, connecting, connect_result
from raw import MAC, OTHER_MAC

TABLE_FULL = "09990001"
MEANINGLESS = {"psn": 5, "reserved": 255, "reserved2": 255, "mtu": 15}


def accept_of_another_link(fixture, _):
    """An Accept without first contact that matches no link makes the client decline, out of sync. The
    peer's real link stays if it is alive."""
    hostile = HostilePeer(fixture, "client")
    first = hostile.connection()
    for changes in ({"qpn": 0x123456}, {"gid": 1 << 64}, {"mac": 0x020000000067}, {"peer": 77}):
        conn, sock = hostile.peer.new(), connecting(hostile.listener.address())
        conn.proposed(hostile.listener)
        conn.accept(changes, hostile.group)
        answer = conn.receive_clc()
        equal((answer["type"], answer["first"]), (DECLINE, 1), "answer and its flag")
        equal(connect_result(sock), "none", "connect")
        equal("%s %08x" % topology.mode("b", sock), "tcp 04000000", "mode")
        sock.close()
        expect_data(*first)
    first[1].close()


def confirm_of_another_link(fixture, _):
    """A Confirm with another link than the Accept resets the connection, as it is too late to
    decline."""
    hostile = HostilePeer(fixture, "server")
    first = hostile.connection()
    changed = ({"qpn": 0x123456}, {"gid": 1 << 64}, {"mac": 0x020000000067})
    for changes in changed:
        conn = hostile.peer.new()
        conn.connect(fixture.port)
        conn.propose()
        conn.accepted(hostile.group)
        equal(conn.first, False, "first contact")
        conn.confirm(changes)
        equal(fixture.outcome_of(conn), "reset", "outcome")
        expect_data(*first)
    fixture.expect_counters(aborted_srv=len(changed), aborted_reason_030a0000=len(changed))
    first[1].close()


def joined(fixture, hostile, conn, changes):
    """Joins the peer's connection to the group of `hostile` with a changed last message; our socket."""
    if hostile.role == "server":
        conn.connect(fixture.port)
        conn.propose()
        conn.accepted(hostile.group)
        conn.confirm(changes)
        sock, _ = fixture.listening.accept()
    else:
        sock = connecting(hostile.listener.address())
        conn.proposed(hostile.listener)
        conn.accept(changes, hostile.group)
        conn.confirmed()
        equal(connect_result(sock), "none", "connect")
    sock.settimeout(20)
    return sock


def what_has_no_meaning(role):
    """Fields without a meaning in subsequent contact are ignored."""
    # CLC-221, CLC-312.
    def test(fixture, _):
        hostile = HostilePeer(fixture, role)
        first = hostile.connection()
        conn = hostile.peer.new()
        sock = joined(fixture, hostile, conn, MEANINGLESS)
        expect_data(conn, sock)
        expect_data(*first)
        sock.close()
        first[1].close()
    return test


def element_in_use(role):
    """A new connection with an element that is in use ends the old connection."""
    # RMB-22, TST-132.
    def test(fixture, _):
        hostile = HostilePeer(fixture, role)
        (old, old_sock), second = hostile.connection(), hostile.connection()
        expect_data(old, old_sock)
        conn = hostile.peer.new()
        taken = {"rkey": old.memory.rkey, "address": old.memory.address, "index": 1}
        conn.memory = old.memory
        sock = joined(fixture, hostile, conn, taken)
        expect_error(old_sock)
        expect_data(conn, sock)
        expect_data(*second)
        for each in (old_sock, sock, second[1]):
            each.close()
    return test


def data_before_confirm(fixture, _):
    """Data that arrive before the Confirm are delivered after it."""
    hostile = HostilePeer(fixture, "server")
    first = hostile.connection()
    conn = hostile.peer.new()
    conn.connect(fixture.port)
    conn.propose()
    conn.accepted(hostile.group)
    conn.write(b"too early")
    conn.group.qp.quiet()
    equal(fixture.arrived(conn), None, "accepted before the Confirm")
    conn.confirm()
    sock, _ = fixture.listening.accept()
    sock.settimeout(20)
    equal(topology.receive(sock, 9), b"too early", "data")
    expect_data(conn, sock)
    expect_data(*first)
    sock.close()
    first[1].close()


def first_contact_again(fixture, _):
    """A server that makes a second link group for a known peer gets one, and both groups work."""
    # RDV-41, LGR-21, TST-115.
    hostile = HostilePeer(fixture, "client")
    first = hostile.connection()
    conn, sock = hostile.peer.new(), connecting(hostile.listener.address())
    conn.as_server(hostile.listener)
    equal(connect_result(sock), "none", "connect")
    expect_data(conn, sock)
    expect_data(*first)
    sock.close()
    first[1].close()


def forgotten_link(fixture, _):
    """A peer that has lost its queue pair declines out of sync: the server detects the dead link, and
    the next handshake is a first contact."""
    # TST-117.
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    sock.close()
    conn.group.disappear()
    late = hostile.peer.new()
    late.connect(fixture.port)
    late.propose()
    answer = late.receive_clc()
    equal(answer["first"], 0, "first contact")
    late.decline({"first": 1}, 0x04000000)
    equal(fixture.outcome_of(late), "tcp 04000000", "outcome")
    anew = hostile.peer.new()

    def is_first():
        anew.connect(fixture.port)
        anew.propose()
        anew.accepted(hostile.group)
        if anew.first:
            return True
        anew.decline({"first": 1}, 0x04000000)
        return False
    topology.until(is_first, "first contact", 40)
    anew.confirm()
    anew.linked()
    topology.until(lambda: fixture.arrived(anew), "accept")
    expect_data(anew, fixture.arrived(anew))


def group_that_ends(fixture, _):
    """A peer ends the link group, disappears before it acknowledges our answer, and connects again with
    the same identity. That is a first contact, although the old group still exists."""
    # LLF-45, TMR-24.
    hostile = HostilePeer(fixture, "server")
    conn, sock = hostile.connection()
    expect_data(conn, sock)
    group = conn.group
    group.qp.behave, group.polite = "mute", False
    group.send_llc(llc(DELETE_LINK, flags=0x60, reason=0x00020000))
    group.receive_llc(DELETE_LINK, 0)
    late = hostile.peer.new().as_client(fixture.port, group)
    equal(late.first, True, "first contact")
    topology.until(lambda: fixture.arrived(late), "accept")
    expect_data(late, fixture.arrived(late))
    expect_error(sock)
    sock.close()


def link_of_its_own_choice(fixture, peer):
    """A client whose Confirm names another link of the group than the Accept: each direction uses the
    link that its sender has chosen."""
    # CLC-320, CLC-321, FOV-02, TST-112.
    conn = peer.new()
    conn.connect(fixture.port)
    conn.propose()
    conn.accepted()
    conn.confirm()
    group = conn.group
    group.number = group.receive_llc(CONFIRM_LINK, 0)["number"]
    group.confirm_link(True)
    group.take_link(group.receive_llc(ADD_LINK, 0), conn.theirs["address"])
    first, _ = fixture.listening.accept()
    topology.until(lambda: any(line.get("peer_qpn") == hex(group.other_qp.qpn) and
                               line["state"] == "active" for line in topology.records("b", "links")),
                   "a second link")
    seen = set()
    # More connections than the first buffer has elements.
    for _ in range(3):
        late = peer.new()
        late.connect(fixture.port)
        late.propose()
        late.accepted(group)
        equal(late.first, False, "first contact")
        theirs, own = group.qp, group.other_qp
        if late.answer["qpn"] != theirs.other:
            theirs, own = own, theirs
        seen.add(own is group.qp)
        late.announce(2)
        gid, mac = (OTHER_GID, OTHER_MAC) if own is group.other_qp else (GID, MAC)
        late.confirm({"qpn": own.qpn, "gid": gid, "mac": mac})
        sock, _ = fixture.listening.accept()
        sock.settimeout(20)
        equal(topology.mode("b", sock)[0], "smc", "mode")
        received = {qp: qp.received_count for qp in (group.qp, group.other_qp)}
        late.write_by(own)
        expect_data(late, sock)
        equal(theirs.received_count > received[theirs], True, "the kernel writes by the link it chose")
        equal(own.received_count, received[own], "it does not write by the peer's link")
        fixture.accepted[late.tcp.port] = sock
    equal(seen, {True, False}, "the kernel uses both links")
    first.close()


def one_buffer_too_many(fixture, _):
    """A buffer beyond the 255 known ones makes the connection fall back to TCP; the other connections
    continue."""
    # RMB-03, FBK-17, TST-152.
    hostile = HostilePeer(fixture, "client")
    first = hostile.connection()
    for number in range(254):
        hostile.group.send_llc(llc(CONFIRM_RKEY, rkey=0x100000 + number, address=number << 20))
        equal(hostile.group.receive_llc(CONFIRM_RKEY, 1)["flags"], 0, "answer %d" % number)
    conn, sock = hostile.peer.new(), connecting(hostile.listener.address())
    conn.proposed(hostile.listener)
    conn.accept(group=hostile.group)
    equal(conn.receive_clc()["type"], DECLINE, "answer")
    equal(connect_result(sock), "none", "connect")
    equal("%s %08x" % topology.mode("b", sock), "tcp " + TABLE_FULL, "mode")
    sock.close()
    expect_data(*first)
    first[1].close()


CASES = [("accept_of_another_link", accept_of_another_link),
         ("confirm_of_another_link", confirm_of_another_link),
         ("server.what_has_no_meaning", what_has_no_meaning("server")),
         ("client.what_has_no_meaning", what_has_no_meaning("client")),
         ("server.element_in_use", element_in_use("server")),
         ("client.element_in_use", element_in_use("client")),
         ("link_of_its_own_choice", link_of_its_own_choice),
         ("one_buffer_too_many", one_buffer_too_many),
         ("data_before_confirm", data_before_confirm), ("first_contact_again", first_contact_again),
         ("forgotten_link", forgotten_link), ("group_that_ends", group_that_ends)]

if __name__ == "__main__":
    sys.exit(fixtures.run(CASES))
