#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Peers that stop at any step of the handshake: silence, end of the TCP connection, or a dead queue
pair. Our side ends in bounded time, counts the reason, and delays no other peer.

Covers SMCR-TMR-02, TMR-04, TMR-10, TMR-13, TMR-14, CLC-11, FBK-08, FBK-09, FBK-16, TST-105, TST-108.
"""

import contextlib
import sys
import time

import fixtures
import roce
import topology
from ktap import equal
from messages import ADD_LINK, CONFIRM_LINK, DECLINE
from peer import connecting, connect_result
from raw import Listener

LATE, ENDED = "aborted_reason_7f000005", "aborted_reason_7f000006"
NO_CONFIRM, NO_ADD = "aborted_reason_02010000", "aborted_reason_02020000"
# A client that knows SMC speaks first.
SILENT = "fallback_reason_03010000"
DECLINED = "fallback_reason_02010000"
# Longest handshake: the sum of all its timers.
BOUND = 40 * topology.SLOW


# Steps of a client, up to the one at which it stops.

def nothing(conn):
    """TCP is established."""


def half_a_proposal(conn):
    """The second half of the Proposal is missing."""
    conn.propose(lambda octets: octets[:26])


def proposal(conn):
    """The Confirm is missing."""
    conn.propose()
    conn.accepted()


def half_a_confirm(conn):
    """The second half of the Confirm is missing."""
    proposal(conn)
    conn.confirm(lambda octets: octets[:34])


def confirm(conn):
    """CONFIRM LINK is received, but not answered."""
    proposal(conn)
    conn.confirm()
    conn.group.receive_llc(CONFIRM_LINK, 0)


def dead_queue_pair(conn):
    """CONFIRM LINK is not received."""
    proposal(conn)
    conn.group.qp.behave = "dead"
    conn.confirm()


def refusing_queue_pair(conn):
    """The queue pair refuses CONFIRM LINK."""
    proposal(conn)
    conn.group.qp.behave = roce.NAK_OPERATIONAL
    conn.confirm()


def never_ready_queue_pair(conn):
    """The queue pair has no receive request for CONFIRM LINK."""
    proposal(conn)
    conn.group.qp.behave = roce.RNR | 1
    conn.confirm()


def confirm_link(conn):
    """ADD LINK is received, but not answered."""
    confirm(conn)
    conn.group.confirm_link(True)
    conn.group.receive_llc(ADD_LINK, 0)


def dies_before_add_link(conn):
    """ADD LINK is not received."""
    confirm(conn)
    conn.group.confirm_link(True)
    conn.group.qp.quiet()
    conn.group.qp.behave = "dead"


# Steps of a server, up to the one at which it stops.

def no_accept(conn):
    """The Proposal is received, but not answered."""


def half_an_accept(conn):
    """The second half of the Accept is missing."""
    conn.accept(lambda octets: octets[:34])


def accept(conn):
    """CONFIRM LINK is missing after the Confirm."""
    conn.accept()
    conn.confirmed()


def silent_accept(conn):
    """The queue pair dies after CONFIRM LINK, so that our reply is lost."""
    conn.accept()
    conn.confirmed()
    conn.group.confirm_link(False)
    conn.group.qp.quiet()
    conn.group.qp.behave = "dead"


def no_add_link(conn):
    """ADD LINK is missing."""
    conn.accept()
    conn.confirmed()
    conn.group.confirm_link(False)
    conn.group.receive_llc(CONFIRM_LINK, 1)


# The outcome and the counter for each step at which the peer stops; two where either may happen.
CLIENT = {nothing: ("tcp", SILENT), half_a_proposal: ("reset", LATE), proposal: ("reset", LATE),
          half_a_confirm: ("reset", LATE), confirm: ("reset", NO_CONFIRM),
          dead_queue_pair: ("tcp", DECLINED), refusing_queue_pair: ("tcp", DECLINED),
          never_ready_queue_pair: ("tcp", DECLINED), confirm_link: ("reset", NO_ADD),
          dies_before_add_link: ("reset", NO_ADD)}
SERVER = {no_accept: ("reset", LATE), half_an_accept: ("reset", LATE), accept: ("reset", NO_CONFIRM),
          silent_accept: ("reset|tcp", None), no_add_link: ("reset", NO_ADD)}


def as_client(fixture, step):
    """A client that stops at a step; a function that returns the outcome."""
    conn = fixture.new_peer().new()
    conn.connect(fixture.port)
    step(conn)
    return conn, lambda: fixture.outcome_of(conn, BOUND).split()[0]


def as_server(fixture, step):
    """A server that stops at a step; a function that returns the outcome."""
    conn, listener = fixture.new_peer().new(), Listener(fixture.host)
    sock = connecting(listener.address())
    fixture.accepted[listener.port] = sock
    conn.proposed(listener)
    step(conn)

    def outcome():
        # The reset may come between the two queries.
        with contextlib.suppress(OSError):
            if connect_result(sock, BOUND) == "none":
                return topology.mode("b", sock)[0]
        return "reset"
    return conn, outcome


def others_do_not_wait(fixture):
    """Fails unless another raw peer and two ordinary sockets connect at once."""
    begin = time.monotonic()
    fixture.new_peer().new().as_client(fixture.port)
    client, server = topology.pair()
    topology.expect_smc(client, server)
    client.close()
    server.close()
    equal(time.monotonic() - begin < (30 if fixtures.FEW else 5), True, "newcomers wait")


def silence(make, steps):
    """Peers stop at each step at the same time."""
    def test(fixture, _):
        tries = [(step, make(fixture, step)[1]) for step in steps]
        others_do_not_wait(fixture)
        wrong, expect_counters = [], {}
        for step, outcome in tries:
            want, counter = steps[step]
            got = outcome()
            if got not in want.split("|"):
                wrong.append("%s: %s" % (step.__name__, got))
            if counter is not None:
                expect_counters[counter] = expect_counters.get(counter, 0) + 1
        equal(wrong, [], "outcomes (%s)" % fixture.difference())
        if None not in [counter for _, counter in steps.values()]:
            fixture.expect_counters(**expect_counters)
    return test


def tcp_ends(make, steps, how):
    """TCP ends at each step."""
    def test(fixture, _):
        tries = []
        for step in steps:
            conn, outcome = make(fixture, step)
            getattr(conn.tcp, how)()
            # The kernel sends nothing to a peer that has reset the connection.
            conn.tcp.reset = conn.tcp.reset or how == "abort"
            tries.append((step, outcome))
        others_do_not_wait(fixture)
        for step, outcome in tries:
            equal(outcome() in ("reset", "tcp"), True, "outcome of %s" % step.__name__)
    return test


def declines_cross(fixture, _):
    """Both sides decline at the same time. The peer's Decline reaches no program, but all data after it
    does."""
    conn = fixture.new_peer().new()
    conn.connect(fixture.port)
    dead_queue_pair(conn)
    equal(conn.receive_clc(BOUND)["type"], DECLINE, "message of the kernel")
    conn.clc(DECLINE)
    data = topology.known("behind", 5000)
    conn.tcp.write(data)
    topology.until(lambda: fixture.arrived(conn), "the connection")
    sock = fixture.arrived(conn)
    equal(topology.mode("b", sock)[0], "tcp", "mode")
    equal(topology.receive(sock, len(data)) == data, True, "data behind the Decline")


def client_is_done_first(fixture, _):
    """A client is done with the link, sends and closes before our server has its last message. The data
    arrive."""
    conn = fixture.new_peer().new()
    conn.connect(fixture.port)
    proposal(conn)
    conn.confirm()
    conn.group.number = conn.group.receive_llc(CONFIRM_LINK, 0)["number"]
    conn.tcp.close()
    fixture.host.wait(lambda: conn.tcp.acked == conn.tcp.seq, "acknowledgment of FIN")
    conn.group.confirm_link(True)
    conn.group.refuse_link(conn.group.receive_llc(ADD_LINK, 0))
    conn.write(b"to you")
    topology.until(lambda: fixture.arrived(conn), "the connection")
    sock = fixture.arrived(conn)
    equal(topology.mode("b", sock)[0], "smc", "mode")
    equal(topology.receive(sock, 6), b"to you", "data")


def server_is_done_first(fixture, _):
    """A server is done with the link, answers and closes before our client has its last message. connect()
    succeeds, and the data arrive."""
    conn, listener = fixture.new_peer().new(), Listener(fixture.host)
    sock = connecting(listener.address())
    conn.proposed(listener)
    conn.accept()
    conn.confirmed()
    conn.group.confirm_link(False)
    conn.group.receive_llc(CONFIRM_LINK, 1)
    conn.tcp.close()
    fixture.host.wait(lambda: conn.tcp.acked == conn.tcp.seq, "acknowledgment of FIN")
    conn.group.offer_link()
    conn.group.receive_llc(ADD_LINK, 1)
    conn.write(b"to you")
    equal(connect_result(sock), "none", "connect")
    equal(topology.mode("b", sock)[0], "smc", "mode")
    equal(topology.receive(sock, 6), b"to you", "data")
    sock.close()


def late_proposal(fixture, _):
    """A client's Proposal comes when the server has given up and its program has the connection. The
    program gets an error, and no octet of the Proposal."""
    conn = fixture.new_peer().new()
    conn.connect(fixture.port)
    topology.until(lambda: fixture.arrived(conn), "the connection", BOUND)
    sock = fixture.arrived(conn)
    equal(topology.mode("b", sock)[0], "tcp", "mode")
    sock.settimeout(BOUND)
    conn.propose()
    got = None
    try:
        got = sock.recv(16)
    except ConnectionResetError:
        pass
    equal(got, None, "octets that the program reads")
    fixture.host.wait(lambda: conn.tcp.reset, "reset", BOUND)
    fixture.expect_counters(**{SILENT: 1, LATE: 1})


def listener_goes(fixture, peer):
    """The program closes its listener while peers are at each step."""
    listening = topology.listener("b")
    port = listening.getsockname()[1]
    conns = []
    for step in CLIENT:
        conn = fixture.new_peer().new()
        conn.connect(port)
        step(conn)
        conns.append(conn)
    begin = time.monotonic()
    listening.close()
    equal(time.monotonic() - begin < 20, True, "close takes long")
    for conn in conns:
        fixture.host.wait(lambda conn=conn: conn.tcp.reset, "reset", 20)
    others_do_not_wait(fixture)


def client_goes(fixture, peer):
    """The program closes its socket while its server is at each step."""
    for step in SERVER:
        conn, listener = fixture.new_peer().new(), Listener(fixture.host)
        sock = connecting(listener.address())
        conn.proposed(listener)
        step(conn)
        begin = time.monotonic()
        sock.close()
        equal(time.monotonic() - begin < 20, True, "close takes long")
        fixture.host.wait(lambda conn=conn: conn.tcp.reset or conn.tcp.fin, "end", 20)
    others_do_not_wait(fixture)


def cases():
    """All test cases."""
    for name, make, steps in (("client", as_client, CLIENT), ("server", as_server, SERVER)):
        yield name + ".silence", silence(make, steps)
        yield name + ".tcp_reset", tcp_ends(make, steps, "abort")
        yield name + ".tcp_end", tcp_ends(make, steps, "close")
    yield "client_is_done_first", client_is_done_first
    yield "server_is_done_first", server_is_done_first
    yield "declines_cross", declines_cross
    yield "late_proposal", late_proposal
    yield "listener_goes", listener_goes
    yield "client_goes", client_goes


if __name__ == "__main__":
    sys.exit(fixtures.run(list(cases())))
