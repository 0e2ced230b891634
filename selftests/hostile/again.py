#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Subsequent contact with a peer that names links and elements that are not its own to give.

Covers SMCR-CLC-223..227, CLC-320..322, RMB-24, ERR-42, ERR-43, RDV-27, LLF-45, TST-107, TST-111,
TST-115.
"""

import sys

import lab
import scene
from arena import Arena, carries, is_over
from ktap import equal
from messages import ADD_LINK, CONFIRM_LINK, CONFIRM_RKEY, DECLINE, DELETE_LINK, llc
from peer import GID, OTHER_GID, connecting, settled
from raw import MAC, OTHER_MAC

TABLE_FULL = "09990001"
MEANINGLESS = {"psn": 5, "reserved": 255, "reserved2": 255, "mtu": 15}


def accept_of_another_link(stage, _):
    """An Accept without first contact that matches no link: the client declines, out of sync. The link
    that it did not mean stays, if its peer is alive."""
    arena = Arena(stage, "client")
    first = arena.connection()
    for changes in ({"qpn": 0x123456}, {"gid": 1 << 64}, {"mac": 0x020000000067}, {"peer": 77}):
        conn, sock = arena.peer.new(), connecting(arena.listener.address())
        conn.proposed(arena.listener)
        conn.accept(changes, arena.group)
        answer = conn.heard()
        equal((answer["type"], answer["first"]), (DECLINE, 1), "answer and its flag")
        equal(settled(sock), "none", "connect")
        equal("%s %08x" % lab.mode("b", sock), "tcp 04000000", "mode")
        sock.close()
        carries(*first)
    first[1].close()


def confirm_of_another_link(stage, _):
    """A Confirm that names another link than the Accept: too late to decline, so it is a reset."""
    arena = Arena(stage, "server")
    first = arena.connection()
    changed = ({"qpn": 0x123456}, {"gid": 1 << 64}, {"mac": 0x020000000067})
    for changes in changed:
        conn = arena.peer.new()
        conn.connect(stage.port)
        conn.propose()
        conn.accepted(arena.group)
        equal(conn.first, False, "first contact")
        conn.confirm(changes)
        equal(stage.became(conn), "reset", "outcome")
        carries(*first)
    stage.counts(aborted_srv=len(changed), aborted_reason_030a0000=len(changed))
    first[1].close()


def joined(stage, arena, conn, changes):
    """Lets the peer's connection join the group of its arena, its last word changed: our socket."""
    if arena.role == "server":
        conn.connect(stage.port)
        conn.propose()
        conn.accepted(arena.group)
        conn.confirm(changes)
        sock, _ = stage.listening.accept()
    else:
        sock = connecting(arena.listener.address())
        conn.proposed(arena.listener)
        conn.accept(changes, arena.group)
        conn.confirmed()
        equal(settled(sock), "none", "connect")
    sock.settimeout(20)
    return sock


def what_has_no_meaning(role):
    """Fields that mean something in first contact only, or nothing at all."""
    # CLC-221, CLC-312.
    def test(stage, _):
        arena = Arena(stage, role)
        first = arena.connection()
        conn = arena.peer.new()
        sock = joined(stage, arena, conn, MEANINGLESS)
        carries(conn, sock)
        carries(*first)
        sock.close()
        first[1].close()
    return test


def element_in_use(role):
    """An element of the peer that another connection writes to: the old connection is over."""
    # RMB-22, TST-132.
    def test(stage, _):
        arena = Arena(stage, role)
        (old, old_sock), beside = arena.connection(), arena.connection()
        carries(old, old_sock)
        conn = arena.peer.new()
        taken = {"rkey": old.memory.rkey, "address": old.memory.address, "index": 1}
        conn.memory = old.memory
        sock = joined(stage, arena, conn, taken)
        is_over(old_sock)
        carries(conn, sock)
        carries(*beside)
        for each in (old_sock, sock, beside[1]):
            each.close()
    return test


def data_before_confirm(stage, _):
    """Data that is there before the Confirm is held back, and then delivered."""
    arena = Arena(stage, "server")
    first = arena.connection()
    conn = arena.peer.new()
    conn.connect(stage.port)
    conn.propose()
    conn.accepted(arena.group)
    conn.write(b"too early")
    conn.group.qp.quiet()
    equal(stage.arrived(conn), None, "accepted before the Confirm")
    conn.confirm()
    sock, _ = stage.listening.accept()
    sock.settimeout(20)
    equal(lab.receive(sock, 9), b"too early", "data")
    carries(conn, sock)
    carries(*first)
    sock.close()
    first[1].close()


def first_contact_again(stage, _):
    """A server that makes a second link group for a peer it knows: both work, side by side."""
    # RDV-41, LGR-21, TST-115.
    arena = Arena(stage, "client")
    first = arena.connection()
    conn, sock = arena.peer.new(), connecting(arena.listener.address())
    conn.as_server(arena.listener)
    equal(settled(sock), "none", "connect")
    carries(conn, sock)
    carries(*first)
    sock.close()
    first[1].close()


def forgotten_link(stage, _):
    """The peer has lost its queue pair without a word, and declines out of sync: the server finds out
    that the link is dead, and the next contact is a first one."""
    # TST-117.
    arena = Arena(stage, "server")
    conn, sock = arena.connection()
    sock.close()
    conn.group.vanish()
    late = arena.peer.new()
    late.connect(stage.port)
    late.propose()
    answer = late.heard()
    equal(answer["first"], 0, "first contact")
    late.decline({"first": 1}, 0x04000000)
    equal(stage.became(late), "tcp 04000000", "outcome")
    anew = arena.peer.new()

    def is_first():
        anew.connect(stage.port)
        anew.propose()
        anew.accepted(arena.group)
        if anew.first:
            return True
        anew.decline({"first": 1}, 0x04000000)
        return False
    lab.until(is_first, "first contact", 40)
    anew.confirm()
    anew.linked()
    lab.until(lambda: stage.arrived(anew), "accept")
    carries(anew, stage.arrived(anew))


def group_that_ends(stage, _):
    """A peer that ends the link group, and is gone before our answer is acknowledged, comes again at once
    and under the same name: that is a first contact, though the old group is still on its way out."""
    # LLF-45, TMR-24.
    arena = Arena(stage, "server")
    conn, sock = arena.connection()
    carries(conn, sock)
    group = conn.group
    group.qp.behave, group.polite = "mute", False
    group.say(llc(DELETE_LINK, flags=0x60, reason=0x00020000))
    group.hear(DELETE_LINK, 0)
    late = arena.peer.new().as_client(stage.port, group)
    equal(late.first, True, "first contact")
    lab.until(lambda: stage.arrived(late), "accept")
    carries(late, stage.arrived(late))
    is_over(sock)
    sock.close()


def link_of_its_own_choice(stage, peer):
    """A client whose Confirm names another link of the group than the Accept: each direction goes by the
    link that its sender has chosen."""
    # CLC-320, CLC-321, FOV-02, TST-112.
    conn = peer.new()
    conn.connect(stage.port)
    conn.propose()
    conn.accepted()
    conn.confirm()
    group = conn.group
    group.number = group.hear(CONFIRM_LINK, 0)["number"]
    group.confirm_link(True)
    group.take_link(group.hear(ADD_LINK, 0), conn.theirs["address"])
    first, _ = stage.listening.accept()
    lab.until(lambda: any(line.get("peer_qpn") == hex(group.other_qp.qpn) and
                          line["state"] == "active" for line in lab.records("b", "links")),
              "a second link")
    seen = set()
    # No more than have elements in the first buffer, whose keys on both links are known.
    for _ in range(3):
        late = peer.new()
        late.connect(stage.port)
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
        sock, _ = stage.listening.accept()
        sock.settimeout(20)
        equal(lab.mode("b", sock)[0], "smc", "mode")
        heard = {qp: qp.heard for qp in (group.qp, group.other_qp)}
        late.write_by(own)
        carries(late, sock)
        equal(theirs.heard > heard[theirs], True, "the kernel writes by the link it chose")
        equal(own.heard, heard[own], "it does not write by the peer's link")
        stage.accepted[late.tcp.port] = sock
    equal(seen, {True, False}, "the kernel uses both links")
    first.close()


def one_buffer_too_many(stage, _):
    """All 255 buffers of the peer are known, and its Accept names one more: the connection goes by TCP,
    and the others go on."""
    # RMB-03, FBK-17, TST-152.
    arena = Arena(stage, "client")
    first = arena.connection()
    for number in range(254):
        arena.group.say(llc(CONFIRM_RKEY, rkey=0x100000 + number, address=number << 20))
        equal(arena.group.hear(CONFIRM_RKEY, 1)["flags"], 0, "answer %d" % number)
    conn, sock = arena.peer.new(), connecting(arena.listener.address())
    conn.proposed(arena.listener)
    conn.accept(group=arena.group)
    equal(conn.heard()["type"], DECLINE, "answer")
    equal(settled(sock), "none", "connect")
    equal("%s %08x" % lab.mode("b", sock), "tcp " + TABLE_FULL, "mode")
    sock.close()
    carries(*first)
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
    sys.exit(scene.run(CASES))
