#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The accounting and the limits of SDP's buffers, which are those of SMC-R: one account for both. Orphaned
connections are limited in number and time."""

import contextlib
import sys
import time

import ktap
import memory
import topology
from ktap import equal
from memory import Cgroup, close, connections, fresh, read, write

# Octets of the first send buffer, of a receive buffer, and of an idle connection.
RING = 16 << 10
BUFFER = 32 << 10
EACH = RING + 4 * BUFFER
MANY = 50
FIT = 40
LIMIT = FIT * EACH
MEMORY, BUSY = 0x01010000, 0x7f00010b


def buffers(side):
    """Octets of buffers of a side."""
    return topology.counter(side, "buffer_bytes")


def nothing_is_left():
    """Waits until no connection and no buffer is left."""
    topology.all_gone()
    for side in "ab":
        topology.until(lambda side=side: buffers(side) == 0, "buffers of " + side)


def modes(side, pairs):
    """The number of connections by SDP, and the reasons of the others."""
    at = {"a": 0, "b": 1}[side]
    found = [topology.mode(side, pair[at]) for pair in pairs]
    return sum(mode == "sdp" for mode, _ in found), {code for mode, code in found if mode != "sdp"}


def opened(count):
    """Makes connections with a listener of their own."""
    with topology.listener("b") as listening:
        listening.settimeout(topology.BOUND)
        return connections(listening, fresh(count))


def namespace_has_a_limit(side, reason):
    """Buffers of a namespace stop at its limit. Further connections use TCP, and the client learns
    why."""
    def test():
        topology.netns("up")
        write(side, "smcr_max_kbytes", LIMIT >> 10)
        pairs = opened(MANY)
        equal(modes("a", pairs), (FIT, {reason}), "modes of the clients, with %d octets, servers %s"
              % (buffers(side), modes("b", pairs)))
        equal(modes("b", pairs)[0], FIT, "modes of the servers")
        equal(buffers(side), LIMIT, "octets of buffers")
        for pair in (pairs[0], pairs[-1]):
            topology.exchange(*pair)
        close(pairs)
        nothing_is_left()
        pairs = opened(2)
        equal(modes("a", pairs), (2, set()), "modes afterwards")
        close(pairs)
        nothing_is_left()
    test.name = "namespace_has_a_limit_" + side
    return test


def memory_grows_with_use():
    """Requests and answers need no more than an idle connection has. Bulk data makes the receive buffers
    of one side grow, and the send buffer of the other; without memory it still arrives."""
    topology.netns("up")
    client, server = topology.pair()
    topology.expect_smc(client, server)
    for _ in range(50):
        topology.exchange(client, server, 8000)
    equal((buffers("a"), buffers("b")), (EACH, EACH), "octets of buffers after requests")
    data = topology.known("bulk", 4 << 20)

    def have_grown():
        """Sends data. How much they grow by depends on how far the reader falls behind."""
        child = topology.Child(lambda: client.sendall(data))
        equal(topology.receive(server, len(data)) == data, True, "bulk data")
        child.expect_success()
        # Each receive buffer has a second half: the client asks for larger ones.
        wanted = EACH - RING + (128 << 10), RING + 9 * 2 * BUFFER
        return (buffers("a"), buffers("b")) == wanted
    topology.until(have_grown, "buffers for bulk data")
    another = topology.pair()
    full = buffers("a"), buffers("b")
    for side, octets in zip("ab", full):
        write(side, "smcr_max_kbytes", octets >> 10)
    child = topology.Child(lambda: another[0].sendall(data))
    equal(topology.receive(another[1], len(data)) == data, True, "bulk data without memory")
    child.expect_success()
    topology.exchange(*another)
    equal((buffers("a"), buffers("b")), full, "octets of buffers at the limit")
    close([(client, server), another])
    nothing_is_left()


def both_engines_have_one_account():
    """Buffers of SMC-R leave less for SDP, and the other way round. The host has one limit as well."""
    topology.netns("up")
    with topology.engine("smc"):
        of_smc = topology.pair()
        topology.expect_smc(*of_smc)
    used = {side: buffers(side) for side in "ab"}
    equal(used["a"] > 0, True, "buffers of SMC-R")
    write("a", "smcr_max_kbytes", (used["a"] + 2 * EACH) >> 10)
    pairs = opened(3)
    equal(modes("a", pairs), (2, {MEMORY}), "modes beside SMC-R")
    close(pairs)
    for side in "ab":
        topology.until(lambda side=side: buffers(side) == used[side], "buffers of SDP of " + side)
    write("a", "smcr_max_kbytes", 0x7fffffff)
    was = read(None, "smcr_host_max_kbytes")
    write(None, "smcr_host_max_kbytes", (used["a"] + used["b"] + EACH) >> 10)
    try:
        pairs = opened(1)
        equal(modes("a", pairs)[0], 0, "connections beyond the limit of the host")
        close(pairs)
    finally:
        write(None, "smcr_host_max_kbytes", was)
    pairs = opened(1)
    equal(modes("a", pairs)[0], 1, "connections within the limit of the host")
    close([*pairs, of_smc])
    topology.all_gone()


def cgroup_is_charged(side):
    """The cgroup of a client or of a listener pays, with a half of its limit at most."""
    def test():
        topology.netns("up")
        background = topology.pair()
        # A bit more: each connection counts as one octet besides.
        with Cgroup(2 * LIMIT + (64 << 10)) as cgroup:
            with cgroup.entered() if side == "b" else contextlib.nullcontext():
                listening = topology.listener("b")
            with cgroup.entered() if side == "a" else contextlib.nullcontext():
                clients = fresh(MANY)
            listening.settimeout(topology.BOUND)
            pairs = connections(listening, clients)
            equal(modes("a", pairs), (FIT, {MEMORY if side == "a" else BUSY}), "modes of the clients")
            charged = cgroup.current()
            equal(LIMIT * 3 // 4 <= charged <= 2 * LIMIT, True, "%d octets are charged" % charged)
            equal(cgroup.events("oom_kill"), "0", "killed processes")
            topology.exchange(*pairs[0])
            topology.exchange(*background)
            another = topology.pair()
            topology.expect_smc(*another)
            close([*pairs, another])
            listening.close()
        close([background])
        nothing_is_left()
    test.name = "cgroup_is_charged_" + side
    return test


def unread(count):
    """Makes connections whose server sends more than fits, and closes."""
    pairs = opened(count)
    equal(modes("b", pairs)[0], count, "connections by SDP")
    for _, server in pairs:
        server.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                server.send(b"x" * 65536)
        server.close()
    return [client for client, _ in pairs]


def orphans_are_limited():
    """A close with data in flight is a reset if too many other closes are in progress."""
    topology.netns("up")
    write("b", "smcr_max_orphans", 3)
    clients = unread(5)
    ends = [topology.error_of(memory.drain, client) for client in clients]
    equal(ends, ["none"] * 3 + ["ECONNRESET"] * 2, "ends of the clients")
    for client in clients:
        client.close()
    topology.until(lambda: topology.counter("b", "orphans") == 0, "orphans are left")
    nothing_is_left()


def silent_reader_does_not_hold_an_orphan():
    """A client that does not read keeps a closed connection no longer than its time."""
    topology.netns("up")
    write("b", "smcr_orphan_time", 6)
    begin = time.monotonic()
    client, = unread(1)
    equal(topology.counter("b", "orphans"), 1, "orphans")
    topology.until(lambda: topology.counter("b", "orphans") == 0, "the closed connection lives", 30)
    equal(time.monotonic() - begin >= 5.9, True, "time until the end")
    equal(topology.error_of(memory.drain, client), "ECONNRESET", "end of the client")
    client.close()
    nothing_is_left()


def main():
    """Runs all tests."""
    topology.need_module()
    with topology.engine("sdp"):
        return ktap.run([namespace_has_a_limit("a", MEMORY), namespace_has_a_limit("b", BUSY),
                         memory_grows_with_use, both_engines_have_one_account, cgroup_is_charged("a"), cgroup_is_charged("b"),
                         orphans_are_limited, silent_reader_does_not_hold_an_orphan])


if __name__ == "__main__":
    sys.exit(main())
