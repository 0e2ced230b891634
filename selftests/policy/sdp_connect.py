#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""connect() of a socket of SDP: to a host that says nothing its time covers SDP and TCP together, and a
host whose address on the link has to be asked for is reached by SDP."""

import socket
import struct
import sys
import time

import ktap
import topology
from ktap import equal

# The host was silent to the Port Mapper.
SILENT = 0x7f000103
SECONDS = 0.6
# The time that the Port Mapper has for its answer.
PROBE = 0.15
# Connections to a host whose address on the link is not known, how many of them may be late because the
# machine is slow, and what is late, in seconds: the time that a resolver may have in all is twice that.
ROUNDS, SLOW_ROUNDS, LATE = 12, 2, 1
RULES = ("add table ip rs; add chain ip rs in { type filter hook input priority 0; }; "
         "add rule ip rs in udp dport 3935 drop; add rule ip rs in tcp dport 5000 drop")


def silent_host():
    """A new host b that answers neither the Port Mapper nor TCP; a client for it."""
    topology.netns("up", asks=True)
    topology.command("ip", "netns", "exec", "rs-b", "nft", RULES)
    client = topology.new_socket("a")
    whole = int(SECONDS)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                      struct.pack("ll", whole, int((SECONDS - whole) * 1000000)))
    return client


def time_of_both():
    """SO_SNDTIMEO bounds the whole call, and does not begin again with TCP."""
    reason = "fallback_reason_%08x" % SILENT
    shortest = topology.BOUND
    # The machine may be slow once.
    for _ in range(10):
        with silent_host() as client:
            before = topology.counter("a", "sdp_" + reason)
            begin = time.monotonic()
            error = topology.error_of(client.connect, (topology.HOSTS[socket.AF_INET]["b"], 5000))
            shortest = min(shortest, time.monotonic() - begin)
            equal(error, "EINPROGRESS", "error of connect")
            topology.until(lambda was=before: topology.counter("a", "sdp_" + reason) == was + 1,
                           "SDP was tried")
        if shortest < SECONDS + PROBE / 2:
            break
    print("# connect took %.3f s" % shortest)
    equal(SECONDS - 0.02 <= shortest < SECONDS + PROBE / 2, True, "connect took %.3f s" % shortest)


def second_call_goes_on():
    """After the time, the attempt goes on: another connect() says so, and then succeeds."""
    with silent_host() as client, topology.inside("b"), socket.create_server(
            (topology.HOSTS[socket.AF_INET]["b"], 5000)) as listening:
        name = listening.getsockname()
        equal(topology.error_of(client.connect, name), "EINPROGRESS", "error of connect")
        equal(topology.error_of(client.connect, name), "EALREADY", "error of the second call")
        topology.command("nft", "delete table ip rs")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 60, 0))
        client.connect(name)
        server, _ = listening.accept()
        with server:
            equal(topology.mode("a", client)[0], "tcp", "mode")
            client.sendall(b"octets")
            equal(topology.receive(server, 6), b"octets", "data")


def neighbour_has_to_be_asked():
    """A client that does not know the address of the host on the link asks for it, and uses SDP. A resolver
    that misses the answer costs little time."""
    topology.netns("up")
    found = []
    with topology.listener("b") as listening:
        for _ in range(ROUNDS):
            topology.command("ip", "-n", "rs-a", "neigh", "flush", "all")
            with topology.new_socket("a") as client:
                begin = time.monotonic()
                client.connect(listening.getsockname())
                seconds = time.monotonic() - begin
                server, _ = listening.accept()
                found.append((topology.mode("a", client)[0], round(seconds, 3)))
                server.close()
    print("# modes and seconds of connect: %s" % found)
    prompt = [mode for mode, seconds in found if mode == "sdp" and seconds < LATE]
    equal(len(prompt) >= ROUNDS - SLOW_ROUNDS, True, "enough of %s" % found)


def main():
    """Runs all tests."""
    topology.need_module()
    with topology.engine("sdp"):
        return ktap.run([time_of_both, second_call_goes_on, neighbour_has_to_be_asked])


if __name__ == "__main__":
    sys.exit(main())
