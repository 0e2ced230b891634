#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Hosts that begin set-ups of SDP and then stall, or that send a Hello that is wrong, delay neither TCP
nor other clients of the listener, and leave nothing.

Covers SDP-SEC-02, SDP-CONN-11, SDP-CONN-33, SDP-CONN-34.
"""

import sys
import time

import ktap
import raw
import topology
from cm import CONSUMER, INVALID_SERVICE, NO_RESOURCES, REJECTION, REPLY, Requester, hello
from ktap import equal
from sdp_peer import nothing_is_left

BACKLOG = 16
# Places of a listener, those of a host while there are others, and those that it always has.
PLACES, OF_ONE, OWN = 64, 32, 8
# Longest time from connect to accept. A stalled set-up takes 30 s.
PROMPT = 10 * topology.SLOW
# Longest life of a stalled set-up.
LIFE = 40 * topology.SLOW
TIMEOUT, BUSY, HELLO = 0x7f000105, 0x7f00010b, 0x7f000107


def under_way():
    """The number of set-ups of hosts that exist in packets only."""
    return len([line for line in topology.records("b", "conns") if line["mode"] == "pending"])


def reason_count(reason):
    """How many set-ups of the server ended for a reason."""
    return topology.counters("b").get("sdp_aborted_reason_%08x" % reason, 0)


def newcomer(listening, smc):
    """Connects a client from the other namespace, which must be accepted promptly; the mode of the
    client and its reason."""
    begin = time.monotonic()
    client = topology.new_socket("a", smc=smc)
    client.settimeout(topology.BOUND)
    client.connect(listening.getsockname())
    listening.settimeout(topology.BOUND)
    server, _ = listening.accept()
    seconds = time.monotonic() - begin
    equal(seconds < PROMPT, True, "accept within %d s, not %.1f (%d set-ups)"
          % (PROMPT, seconds, under_way()))
    server.settimeout(topology.BOUND)
    topology.exchange(client, server, 20000)
    found = topology.mode("a", client)
    client.close()
    server.close()
    return found


def serve(test):
    """Makes a test that gets a requester and a listener, and leaves no set-up behind."""
    def run():
        with raw.Host() as host, topology.listener("b", backlog=BACKLOG) as listening:
            requester = Requester(host)
            # The client's side learns that the host speaks SDP.
            topology.until(lambda: newcomer(listening, True)[0] == "sdp", "mode before", 100)
            test(requester, listening)
            topology.until(lambda: under_way() == 0, "set-ups are left", LIFE)
            topology.until(lambda: newcomer(listening, True)[0] == "sdp", "mode after", 100)
            requester.close()
        nothing_is_left()
    run.name = test.__name__
    return run


def outcomes(requester, numbers):
    """The number of requests that were accepted. Fails unless lack of room is why others were not."""
    answers = [requester.answer(number) for number in numbers]
    equal({answer for answer in answers if answer[0] != REPLY} <= {(REJECTION, NO_RESOURCES)}, True,
          "answers %s" % set(answers))
    return sum(answer[0] == REPLY for answer in answers)


def fill_own(requester, source, port):
    """Has a host take the places that it always has; the numbers of its requests."""
    numbers = [requester.request(source, port) for _ in range(OWN)]
    equal(outcomes(requester, numbers), OWN, "requests that were accepted")
    return numbers


def one_host_stalls(requester, listening):
    """A host has half of the places of a listener. Other clients still use SDP, at once."""
    port = listening.getsockname()[1]
    source, before = requester.new_host(0), reason_count(TIMEOUT)
    numbers = [requester.request(source, port) for _ in range(PLACES)]
    equal(outcomes(requester, numbers), OF_ONE, "requests that were accepted")
    equal(under_way(), OF_ONE, "set-ups")
    equal(newcomer(listening, False)[0] != "sdp", True, "a TCP client uses TCP")
    equal(newcomer(listening, True)[0], "sdp", "mode")
    topology.until(lambda: under_way() == 0, "set-ups are left", LIFE)
    equal(reason_count(TIMEOUT) - before, OF_ONE, "set-ups that timed out")


def many_hosts_stall(requester, listening):
    """Many hosts take all places. Other clients are served at once, by TCP, and learn the reason."""
    port = listening.getsockname()[1]
    sources = [requester.new_host(number) for number in range(2 * PLACES // OWN)]
    numbers = [requester.request(source, port) for source in sources for _ in range(OWN)]
    equal(outcomes(requester, numbers), PLACES, "requests that were accepted")
    equal(under_way(), PLACES, "set-ups")
    equal(newcomer(listening, False)[0] != "sdp", True, "a TCP client uses TCP")
    equal(newcomer(listening, True), ("tcp", BUSY), "mode and reason")


def wrong_requests(requester, listening):
    """A Hello that is not valid, or that names another host, is refused, and so is a service that is not
    there."""
    port, source = listening.getsockname()[1], requester.new_host(0)
    target, before = requester.target, reason_count(HELLO)
    wrong = [bytes(92), b"\xff" * 92, hello(20000, source, target, bufs=2),
             hello(20000, source, target, version=0x12), hello(0, source, target),
             hello(20000, "10.9.0.1", target), hello(20000, source, "10.9.0.77")]
    for octets in wrong:
        answer = requester.answer(requester.request(source, port, octets))
        equal(answer, (REJECTION, CONSUMER), "answer to %s" % octets.hex())
    equal(reason_count(HELLO) - before, len(wrong), "wrong requests")
    equal(requester.answer(requester.request(source, 1)), (REJECTION, INVALID_SERVICE), "no service")
    equal(under_way(), 0, "set-ups")


def late_hosts(requester, listening):
    """Hosts that answer at the last moment, and are silent from then on, become connections, which end
    soon after their close. Clients before them are served at once."""
    port, source = listening.getsockname()[1], requester.new_host(0)
    numbers = fill_own(requester, source, port)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        equal(newcomer(listening, True)[0], "sdp", "mode")
    for number in numbers:
        requester.ready(source, number)
    listening.settimeout(topology.BOUND)
    accepted = [listening.accept() for _ in numbers]
    equal({address[0] for _, address in accepted}, {source}, "addresses of the peers")
    equal(under_way(), 0, "set-ups")
    for sock, _ in accepted:
        sock.close()
    # Their packets are sent again for some seconds. Without that, the wait for the peer's close is 60 s.
    topology.until(lambda: topology.counter("b", "active_conns") == 0, "connections are left",
                   20 * topology.SLOW)


def both_closed_while_hosts_stall():
    """The close of a listener of both protocols ends set-ups that hosts have stalled, and resets children
    of the other protocol; nothing is left."""
    with raw.Host() as host:
        with topology.engine("dual"):
            listening = topology.listener("b", backlog=BACKLOG)
        requester = Requester(host)
        source, port = requester.new_host(0), listening.getsockname()[1]
        fill_own(requester, source, port)
        equal(under_way(), OWN, "set-ups")
        with topology.engine("smc"), topology.new_socket("a") as client:
            client.settimeout(topology.BOUND)
            client.connect(listening.getsockname())
            listening.close()
            topology.until(lambda: under_way() == 0, "set-ups are left", PROMPT)
            equal(topology.error_of(client.recv, 1), "ECONNRESET", "error of the client")
        requester.close()
    topology.all_gone()


def device_goes_while_hosts_stall():
    """The removal of the device ends set-ups that hosts have stalled, at once."""
    with raw.Host() as host, topology.listener("b", backlog=BACKLOG) as listening:
        requester = Requester(host)
        source, port = requester.new_host(0), listening.getsockname()[1]
        fill_own(requester, source, port)
        equal(under_way(), OWN, "set-ups")
        topology.command("rdma", "link", "delete", "rs_b")
        topology.until(lambda: under_way() == 0, "set-ups are left", PROMPT)
        requester.close()
    topology.all_gone()


def main():
    """Runs all tests."""
    topology.need_module()
    with topology.engine("sdp"):
        topology.netns("up")
        return ktap.run([*(serve(test) for test in (one_host_stalls, many_hosts_stall, wrong_requests,
                                                    late_hosts)), both_closed_while_hosts_stall,
                         device_goes_while_hosts_stall])


if __name__ == "__main__":
    sys.exit(main())
