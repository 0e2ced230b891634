#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Clients that agree on SMC-R and then stall their handshakes: they keep no other client from accept,
and the listener offers SMC-R to new clients only while few handshakes are under way.

Covers SMCR-TCP-19, SEC-10.
"""

import sys
import time

import fixtures
import raw
import topology
from handshake_timeout import confirm, confirm_link, half_a_confirm, half_a_proposal, nothing, proposal
from ktap import equal
from raw import SMC_OPTION, connected

BACKLOG = 16
# Handshakes with which a listener of that backlog withholds its offer.
MANY = 64
# Longest time from connect to accept. A stalled handshake takes 6 s at least.
PROMPT = 2 * topology.SLOW
OFFER = SMC_OPTION[2:6]


def handshakes(fixture):
    """How many children of the scene's peers have not ended their handshake."""
    return len([line for line in topology.records("b", "conns")
                if line["mode"] == "pending" and line.get("peer", "").startswith(raw.IP + ":")])


def newcomer(listening, smc):
    """A client from the other namespace: seconds until accept gives it, and both sockets."""
    begin = time.monotonic()
    client = topology.new_socket("a", smc=smc)
    client.settimeout(topology.BOUND)
    client.connect(listening.getsockname())
    listening.settimeout(topology.BOUND)
    server, address = listening.accept()
    while address != client.getsockname():
        # A stalled one whose time is over.
        server.close()
        server, address = listening.accept()
    server.settimeout(topology.BOUND)
    return time.monotonic() - begin, client, server


def newcomers_are_prompt(fixture, listening, modes):
    """A plain TCP client and one that offers SMC-R are accepted at once, and carry data."""
    for smc in (False, True):
        seconds, client, server = newcomer(listening, smc)
        equal(seconds < PROMPT, True, "accept within %d s, not %.1f (%d handshakes, SMC-R %s)"
              % (PROMPT, seconds, handshakes(fixture), smc))
        topology.exchange(client, server, 20000)
        if smc:
            equal(topology.mode("b", server)[0] in modes, True, "mode %s" % topology.mode("b", server)[0])
        client.close()
        server.close()


def stalled(fixture, listening, step, count):
    """So many clients that stop at a step, each a host of its own; their TCP connections."""
    conns = []
    for _ in range(count):
        conn = fixture.new_peer().new()
        conn.connect(listening.getsockname()[1])
        step(conn)
        conns.append(conn)
    return conns


def few_stalled_handshakes(fixture, _):
    """More than the backlog stall: the next clients are accepted, and still get SMC-R."""
    with topology.listener("b", backlog=BACKLOG) as listening:
        stalled(fixture, listening, nothing, 2 * BACKLOG)
        topology.until(lambda: handshakes(fixture) == 2 * BACKLOG, "handshakes are under way")
        newcomers_are_prompt(fixture, listening, ("smc",))


def tiny_backlog(fixture, _):
    """A backlog of 0 is one of ready connections too."""
    with topology.listener("b", backlog=0) as listening:
        for count in range(1, BACKLOG + 1):
            # One place in TCP's queue: a SYN that finds it taken is dropped, and sent again after 1 s.
            stalled(fixture, listening, nothing, 1)
            topology.until(lambda count=count: handshakes(fixture) == count, "a handshake is under way")
        newcomers_are_prompt(fixture, listening, ("smc",))


def many_stalled_handshakes(fixture, _):
    """A flood of silent clients: the offer is withheld, newcomers get TCP at once. When the flood has
    timed out, newcomers get SMC-R."""
    with topology.listener("b", backlog=BACKLOG) as listening:
        port = listening.getsockname()[1]
        stalled(fixture, listening, nothing, MANY)
        topology.until(lambda: handshakes(fixture) == MANY, "handshakes are under way")
        offers = 0
        for _ in range(BACKLOG):
            with connected(fixture.host, port) as tcp:
                offers += OFFER in tcp.options
                tcp.abort()
        equal(offers, 0, "SYN-ACKs with the offer")
        equal(handshakes(fixture) <= MANY, True, "handshakes")
        newcomers_are_prompt(fixture, listening, ("tcp",))
        topology.until(lambda: handshakes(fixture) == 0, "the flood has timed out")
        newcomers_are_prompt(fixture, listening, ("smc",))


def handshakes_stalled_at_each_step(fixture, _):
    """Clients that stop later in the handshake take longer, and keep newcomers no more."""
    with topology.listener("b", backlog=BACKLOG) as listening:
        for step in nothing, half_a_proposal, proposal, half_a_confirm, confirm, confirm_link:
            stalled(fixture, listening, step, 2 if fixtures.FEW else 3)
        newcomers_are_prompt(fixture, listening, ("smc",))


def handshakes_prolonged_to_the_last_moment(fixture, _):
    """Clients answer just before each timer, again and again: newcomers are accepted all the while."""
    with topology.listener("b", backlog=BACKLOG) as listening:
        conns = stalled(fixture, listening, nothing, 2 * BACKLOG)
        begin = time.monotonic()
        for conn in conns:
            # A listener waits 6 s for a Proposal.
            fixture.host.after(5, conn.propose)
        rounds = 0
        while time.monotonic() - begin < 8:
            newcomers_are_prompt(fixture, listening, ("smc", "tcp"))
            rounds += 1
        equal(rounds > 1, True, "rounds")


def ready_connections_fill_the_backlog(fixture, _):
    """Connections that are ready count against the backlog, as with TCP: the others stay in TCP's queue
    and come later."""
    with topology.listener("b", backlog=4) as listening:
        clients = []
        for _ in range(8):
            client = topology.new_socket("a", smc=False)
            client.settimeout(topology.BOUND)
            client.connect(listening.getsockname())
            clients.append(client)
        listening.settimeout(topology.BOUND)
        got = {listening.accept()[1] for _ in clients}
        equal(got, {client.getsockname() for client in clients}, "clients")


def cases():
    """All of it."""
    for function in (few_stalled_handshakes, tiny_backlog, many_stalled_handshakes,
                     handshakes_stalled_at_each_step, handshakes_prolonged_to_the_last_moment,
                     ready_connections_fill_the_backlog):
        yield function.__name__, function


if __name__ == "__main__":
    sys.exit(fixtures.run(list(cases())))
