#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Peers that reserve resources without using them: link groups in first contact, buffers for a
Proposal, elements of broken handshakes. All are bounded, and other clients are served."""

import contextlib
import pathlib
import socket
import sys
import time

import fixtures
import topology
from ktap import equal
from messages import ACCEPT, DECLINE

MEMORY = 0x01010000
BUFFER = 256 << 10
# Elements of the first RMB of a group.
FIRST = 2
# Elements of broken handshakes after which a group makes no further RMB, and those that remain in
# its RMBs at that time.
MOST_RESTING = 64
SLACK = 16
# Seconds of the rest.
REST = 10


@contextlib.contextmanager
def setting(name, value):
    """Changes a setting in the server's namespace for the time of the block."""
    file = pathlib.Path("/proc/sys/net/smc", name)

    def exchange(text):
        with topology.inside("b"):
            old = file.read_text(encoding="ascii")
            file.write_text(text, encoding="ascii")
        return old
    was = exchange("%d\n" % value)
    try:
        yield
    finally:
        exchange(was)


def proposed(fixture):
    """An unknown peer sends a Proposal; the type of the answer."""
    conn = fixture.new_peer().new()
    conn.connect(fixture.port)
    conn.propose()
    answer = conn.receive_clc()
    if answer["type"] == ACCEPT:
        equal(answer["first"], 1, "first contact")
    else:
        equal((answer["type"], answer["diagnosis"]), (DECLINE, MEMORY), "answer")
    return answer["type"]


def first_contact_of_another_host():
    """A client without a link group at this address makes one."""
    def established():
        # Those in first contact may end meanwhile.
        now = topology.counters("b")
        return now["link_groups"] - now["forming_groups"]
    before = established()
    client, server = topology.pair(socket.AF_INET6)
    topology.expect_smc(client, server)
    topology.exchange(client, server)
    equal(established() >= before, True, "groups")
    client.close()
    server.close()


def proposal_gets_no_send_buffer(fixture, _):
    """Before Confirm the kernel allocates only the RMB that Accept names."""
    before = topology.counter("b", "buffer_bytes")
    equal(proposed(fixture), ACCEPT, "answer")
    equal(topology.counter("b", "buffer_bytes") - before, FIRST * BUFFER, "buffers")
    equal(topology.counter("b", "forming_groups"), 1, "groups in first contact")
    fixture.remove_peers()
    topology.until(lambda: topology.counter("b", "buffer_bytes") == before, "buffers are left")


def first_contacts_of_a_peer_are_limited(fixture, _):
    """The number of groups in first contact per host is limited, and another host is served
    meanwhile."""
    with setting("smcr_max_forming_lgrs_per_peer", 4):
        answers = [proposed(fixture) for _ in range(6)]
        equal(answers, [ACCEPT] * 4 + [DECLINE] * 2, "answers")
        equal(topology.counter("b", "forming_groups"), 4, "groups in first contact")
        first_contact_of_another_host()
        fixture.remove_peers()
        topology.until(lambda: topology.counter("b", "forming_groups") == 0, "groups are left")
        equal(proposed(fixture), ACCEPT, "answer to a peer that comes later")


def first_contacts_of_a_namespace_are_limited(fixture, _):
    """The number of groups in first contact per namespace is limited. Established groups accept
    connections meanwhile."""
    with setting("smcr_max_forming_lgrs", 2):
        equal([proposed(fixture) for _ in range(3)], [ACCEPT] * 2 + [DECLINE], "answers")
        client, server = topology.pair()
        topology.expect_smc(client, server)
        topology.exchange(client, server)
        client.close()
        server.close()


def silent_founder_holds_others_up_for_a_second(fixture, peer):
    """A handshake in first contact that stalls delays other handshakes of its host for at most a
    second. Then one of these makes a group, which the next ones join."""
    silent = peer.new()
    silent.connect(fixture.port)
    begin = time.monotonic()
    silent.propose()
    equal(silent.receive_clc()["type"], ACCEPT, "answer to the founder")
    conn = peer.new().as_client(fixture.port)
    equal(conn.first, True, "first contact of another handshake")
    took = time.monotonic() - begin
    # The founder's own time is 6 s.
    equal(0.9 < took < 5 * topology.SLOW, True, "first contact took %.1f s" % took)
    later = peer.new().as_client(fixture.port, conn.group)
    equal(later.first, False, "first contact of a third handshake")
    for each in conn, later:
        topology.until(lambda each=each: fixture.arrived(each), "the connection")
        each.write(b"to you")
        equal(topology.receive(fixture.arrived(each), 6), b"to you", "data")


def broken_handshakes_are_limited(fixture, peer):
    """The number of elements in broken handshakes of a peer is limited. The elements are usable again
    after their rest, and the memory is freed."""
    conn = peer.new().as_client(fixture.port)
    group = conn.group
    qpn = hex(conn.theirs["qpn"])

    def rmbs():
        return next(int(line["rmbs"]) for line in topology.records("b", "links") if line["qpn"] == qpn)
    ends = []

    def resting():
        # Those that ended long ago are usable again.
        return sum(time.monotonic() - end < REST for end in ends)
    while resting() < 2 * MOST_RESTING and len(ends) < 1000:
        other = peer.new()
        other.connect(fixture.port)
        other.propose()
        answer = other.receive_clc()
        other.drop()
        if answer["type"] == DECLINE:
            break
        topology.until(lambda other=other: fixture.is_over(other), "the handshake is not over")
        ends.append(time.monotonic())
    equal(MOST_RESTING <= len(ends), True, "%d handshakes" % len(ends))
    equal(resting() <= MOST_RESTING + SLACK, True, "%d elements that rest" % resting())
    fixture.background.expect_progress()
    topology.until(lambda: rmbs() == 1, "%d RMBs are left" % rmbs(), 60)
    again = peer.new().as_client(fixture.port, group)
    again.write(b"to you")
    topology.until(lambda: fixture.arrived(again), "the connection")
    equal(topology.receive(fixture.arrived(again), 6), b"to you", "data")


if __name__ == "__main__":
    sys.exit(fixtures.run([(function.__name__, function) for function in (
        proposal_gets_no_send_buffer, first_contacts_of_a_peer_are_limited,
        first_contacts_of_a_namespace_are_limited, silent_founder_holds_others_up_for_a_second,
        broken_handshakes_are_limited)]))
