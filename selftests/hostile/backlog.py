#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Clients that agree on SMC-R and then stall their handshakes: they keep no other client from accept,
and the listener offers SMC-R to new clients only while few handshakes are under way.

Covers SMCR-TCP-19, SEC-10.
"""

import sys
import time

import lab
import raw
import scene
from ktap import equal
from raw import SMC_OPTION, connected
from stall import confirm, confirm_link, half_a_confirm, half_a_proposal, nothing, proposal

BACKLOG = 16
# Handshakes with which a listener of that backlog withholds its offer.
MANY = 64
# Longest time from connect to accept. A stalled handshake takes 6 s at least.
PROMPT = 2 * lab.SLOW
OFFER = SMC_OPTION[2:6]


def handshakes(stage):
    """How many children of the scene's peers have not ended their handshake."""
    return len([line for line in lab.records("b", "conns")
                if line["mode"] == "pending" and line.get("peer", "").startswith(raw.IP + ":")])


def newcomer(listening, smc):
    """A client from the other namespace: seconds until accept gives it, and both sockets."""
    begin = time.monotonic()
    client = lab.new_socket("a", smc=smc)
    client.settimeout(lab.BOUND)
    client.connect(listening.getsockname())
    listening.settimeout(lab.BOUND)
    server, address = listening.accept()
    while address != client.getsockname():
        # A stalled one whose time is over.
        server.close()
        server, address = listening.accept()
    server.settimeout(lab.BOUND)
    return time.monotonic() - begin, client, server


def newcomers_are_prompt(stage, listening, modes):
    """A plain TCP client and one that offers SMC-R are accepted at once, and carry data."""
    for smc in (False, True):
        seconds, client, server = newcomer(listening, smc)
        equal(seconds < PROMPT, True, "accept within %d s, not %.1f (%d handshakes, SMC-R %s)"
              % (PROMPT, seconds, handshakes(stage), smc))
        lab.exchange(client, server, 20000)
        if smc:
            equal(lab.mode("b", server)[0] in modes, True, "mode %s" % lab.mode("b", server)[0])
        client.close()
        server.close()


def stalled(stage, listening, step, count):
    """So many clients that stop at a step, each a host of its own; their TCP connections."""
    conns = []
    for _ in range(count):
        conn = stage.another_peer().new()
        conn.connect(listening.getsockname()[1])
        step(conn)
        conns.append(conn)
    return conns


def few_stalled_handshakes(stage, _):
    """More than the backlog stall: the next clients are accepted, and still get SMC-R."""
    with lab.listener("b", backlog=BACKLOG) as listening:
        stalled(stage, listening, nothing, 2 * BACKLOG)
        lab.until(lambda: handshakes(stage) == 2 * BACKLOG, "handshakes are under way")
        newcomers_are_prompt(stage, listening, ("smc",))


def tiny_backlog(stage, _):
    """A backlog of 0 is one of ready connections too."""
    with lab.listener("b", backlog=0) as listening:
        for count in range(1, BACKLOG + 1):
            # One place in TCP's queue: a SYN that finds it taken is dropped, and sent again after 1 s.
            stalled(stage, listening, nothing, 1)
            lab.until(lambda count=count: handshakes(stage) == count, "a handshake is under way")
        newcomers_are_prompt(stage, listening, ("smc",))


def many_stalled_handshakes(stage, _):
    """A flood of silent clients: the offer is withheld, newcomers get TCP at once. When the flood has
    timed out, newcomers get SMC-R."""
    with lab.listener("b", backlog=BACKLOG) as listening:
        port = listening.getsockname()[1]
        stalled(stage, listening, nothing, MANY)
        lab.until(lambda: handshakes(stage) == MANY, "handshakes are under way")
        offers = 0
        for _ in range(BACKLOG):
            with connected(stage.host, port) as tcp:
                offers += OFFER in tcp.options
                tcp.abort()
        equal(offers, 0, "SYN-ACKs with the offer")
        equal(handshakes(stage) <= MANY, True, "handshakes")
        newcomers_are_prompt(stage, listening, ("tcp",))
        lab.until(lambda: handshakes(stage) == 0, "the flood has timed out")
        newcomers_are_prompt(stage, listening, ("smc",))


def handshakes_stalled_at_each_step(stage, _):
    """Clients that stop later in the handshake take longer, and keep newcomers no more."""
    with lab.listener("b", backlog=BACKLOG) as listening:
        for step in nothing, half_a_proposal, proposal, half_a_confirm, confirm, confirm_link:
            stalled(stage, listening, step, 2 if scene.FEW else 3)
        newcomers_are_prompt(stage, listening, ("smc",))


def handshakes_prolonged_to_the_last_moment(stage, _):
    """Clients answer just before each timer, again and again: newcomers are accepted all the while."""
    with lab.listener("b", backlog=BACKLOG) as listening:
        conns = stalled(stage, listening, nothing, 2 * BACKLOG)
        begin = time.monotonic()
        for conn in conns:
            # A listener waits 6 s for a Proposal.
            stage.host.after(5, conn.propose)
        rounds = 0
        while time.monotonic() - begin < 8:
            newcomers_are_prompt(stage, listening, ("smc", "tcp"))
            rounds += 1
        equal(rounds > 1, True, "rounds")


def ready_connections_fill_the_backlog(stage, _):
    """Connections that are ready count against the backlog, as with TCP: the others stay in TCP's queue
    and come later."""
    with lab.listener("b", backlog=4) as listening:
        clients = []
        for _ in range(8):
            client = lab.new_socket("a", smc=False)
            client.settimeout(lab.BOUND)
            client.connect(listening.getsockname())
            clients.append(client)
        listening.settimeout(lab.BOUND)
        got = {listening.accept()[1] for _ in clients}
        equal(got, {client.getsockname() for client in clients}, "clients")


def cases():
    """All of it."""
    for function in (few_stalled_handshakes, tiny_backlog, many_stalled_handshakes,
                     handshakes_stalled_at_each_step, handshakes_prolonged_to_the_last_moment,
                     ready_connections_fill_the_backlog):
        yield function.__name__, function


if __name__ == "__main__":
    sys.exit(scene.run(list(cases())))
