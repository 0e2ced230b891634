#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Clients that agree on SMC-R and then stall their handshakes keep no other client from accept. The
listener offers SMC-R to new clients only while few handshakes are in progress.

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
# Number of handshakes from which a listener with that backlog withholds its offer.
MANY = 64
# Longest time from connect to accept. A stalled handshake takes 6 s at least.
PROMPT = 5 * topology.SLOW
OFFER = SMC_OPTION[2:6]


def handshakes(fixture):
    """The number of unfinished handshakes of raw peers."""
    return len([line for line in topology.records("b", "conns")
                if line["mode"] == "pending" and line.get("peer", "").startswith(raw.IP + ":")])


def client_of(listening, smc):
    """Connects a client from the other namespace."""
    client = topology.new_socket("a", smc=smc)
    client.settimeout(topology.BOUND)
    client.connect(listening.getsockname())
    return client


def newcomer(listening, smc):
    """Connects a client from the other namespace; seconds until accept returns its socket, and both
    sockets."""
    begin = time.monotonic()
    client = client_of(listening, smc)
    listening.settimeout(topology.BOUND)
    server, address = listening.accept()
    while address != client.getsockname():
        # A stalled connection that timed out.
        server.close()
        server, address = listening.accept()
    server.settimeout(topology.BOUND)
    return time.monotonic() - begin, client, server


def newcomers_are_prompt(fixture, listening, modes):
    """Fails unless a plain TCP client and one that offers SMC-R are accepted at once, and carry
    data."""
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
    """Connects `count` clients, each a host of its own, that stop at a step; their TCP connections."""
    conns = []
    for _ in range(count):
        conn = fixture.new_peer().new()
        conn.connect(listening.getsockname()[1])
        step(conn)
        conns.append(conn)
    return conns


def few_stalled_handshakes(fixture, _):
    """More handshakes than the backlog stall: new clients are accepted, and get SMC-R."""
    with topology.listener("b", backlog=BACKLOG) as listening:
        stalled(fixture, listening, nothing, 2 * BACKLOG)
        topology.until(lambda: handshakes(fixture) == 2 * BACKLOG, "handshakes are under way")
        newcomers_are_prompt(fixture, listening, ("smc",))


def tiny_backlog(fixture, _):
    """A backlog of 0 counts ready connections only, as a larger one does."""
    with topology.listener("b", backlog=0) as listening:
        for count in range(1, BACKLOG + 1):
            # TCP's queue has one place. TCP drops a SYN that finds it taken; the client retransmits
            # after 1 s.
            stalled(fixture, listening, nothing, 1)
            topology.until(lambda count=count: handshakes(fixture) == count, "a handshake is under way")
        newcomers_are_prompt(fixture, listening, ("smc",))


def no_offer_is_made(fixture, port):
    """Fails if a SYN-ACK has the option, or makes a handshake."""
    offers = 0
    for _ in range(BACKLOG):
        with connected(fixture.host, port) as tcp:
            offers += OFFER in tcp.options
            tcp.abort()
    equal(offers, 0, "SYN-ACKs with the offer")
    equal(handshakes(fixture) <= MANY, True, "handshakes")


def many_stalled_handshakes(fixture, _):
    """During a flood of silent clients the listener withholds its offer, and new clients get TCP at
    once. After the flood has timed out, new clients get SMC-R."""
    with topology.listener("b", backlog=BACKLOG) as listening:
        port = listening.getsockname()[1]
        for tries in range(5):
            stalled(fixture, listening, nothing, MANY - handshakes(fixture))
            topology.until(lambda: handshakes(fixture) == MANY, "handshakes are under way")
            try:
                no_offer_is_made(fixture, port)
                newcomers_are_prompt(fixture, listening, ("tcp",))
                break
            except AssertionError:
                # Each lasts 6 s, which may be over on a busy machine.
                if tries == 4 or handshakes(fixture) >= MANY:
                    raise
        topology.until(lambda: handshakes(fixture) == 0, "the flood has timed out")
        newcomers_are_prompt(fixture, listening, ("smc",))


def handshakes_stalled_at_each_step(fixture, _):
    """Clients that stall later in the handshake do not delay new clients either."""
    with topology.listener("b", backlog=BACKLOG) as listening:
        for step in nothing, half_a_proposal, proposal, half_a_confirm, confirm, confirm_link:
            stalled(fixture, listening, step, 2 if fixtures.FEW else 3)
        newcomers_are_prompt(fixture, listening, ("smc",))


def handshakes_prolonged_to_the_last_moment(fixture, _):
    """New clients are accepted while stalled clients answer just before each timer expires."""
    with topology.listener("b", backlog=BACKLOG) as listening:
        conns = stalled(fixture, listening, nothing, 2 * BACKLOG)
        begin = time.monotonic()
        for conn in conns:
            # A listener waits 6 s for a Proposal.
            fixture.host.after(5, conn.propose)
        rounds = 0
        while rounds < 2 or time.monotonic() - begin < 8:
            newcomers_are_prompt(fixture, listening, ("smc", "tcp"))
            rounds += 1


def ready_connections_fill_the_backlog(fixture, _):
    """Ready connections count against the backlog, as with TCP: further ones stay in TCP's queue and
    are accepted later."""
    with topology.listener("b", backlog=4) as listening:
        clients = [client_of(listening, False) for _ in range(8)]
        listening.settimeout(topology.BOUND)
        got = {listening.accept()[1] for _ in clients}
        equal(got, {client.getsockname() for client in clients}, "clients")


def full_backlog_aborts_no_handshake(fixture, _):
    """Clients that agreed on SMC-R wait for no accept of a program that is busy elsewhere: their
    connect succeeds, as with TCP."""
    backlog = 4
    with topology.listener("b", backlog=backlog) as listening:
        # As many as are ready for accept, and as many again as TCP keeps.
        clients = [client_of(listening, True) for _ in range(2 * (backlog + 1))]
        listening.settimeout(topology.BOUND)
        for client in clients:
            server, address = listening.accept()
            equal(address, client.getsockname(), "accept takes them in their order")
            server.settimeout(topology.BOUND)
            topology.exchange(client, server, 20000)
            client.close()
            server.close()
        # The listener offers SMC-R again.
        newcomers_are_prompt(fixture, listening, ("smc",))


def cases():
    """All test cases."""
    for function in (few_stalled_handshakes, tiny_backlog, many_stalled_handshakes,
                     handshakes_stalled_at_each_step, handshakes_prolonged_to_the_last_moment,
                     ready_connections_fill_the_backlog, full_backlog_aborts_no_handshake):
        yield function.__name__, function


if __name__ == "__main__":
    sys.exit(fixtures.run(list(cases())))
