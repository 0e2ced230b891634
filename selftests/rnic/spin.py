#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Calls of both protocols that wait spin before they sleep: where waits are short, where the setting allows it,
and where no other task wants the processor."""

import contextlib
import os
import pathlib
import resource
import signal
import sys

import ktap
import rsoft
import topology
from ktap import equal
from topology import Child, all_gone, pair_by_rdma, receive

FILES = {"smc": "smc/smcr_spin_us", "sdp": "rdma_sock/sdp_spin_us"}
# Longer than any wait for a task that runs on the other processor, if nothing disturbs it.
LONG = 10000
# Round trips, and octets one way, between two looks at the counts.
TRIPS = 50
BULK = 1 << 20
# The smallest receive buffer. What fills it is read within a fraction of the time that spins may take.
WINDOW = 16384
# Most looks.
LOOKS = 100


def allow(micros):
    """Both sides may spin for that time."""
    for side in "ab":
        with topology.inside(side):
            pathlib.Path("/proc/sys/net", FILES[topology.ENGINE[0]]).write_text("%d\n" % micros, encoding="ascii")


@contextlib.contextmanager
def task(processor, function, *args):
    """Another process runs the function on a processor, for the block, at the end of which it is killed."""
    def run():
        os.sched_setaffinity(0, {processor})
        function(*args)

    child = Child(run)
    try:
        yield
    finally:
        child.kill()


def answer(server):
    """Sends back all that comes."""
    while True:
        server.sendall(receive(server, 1))


def drain(server):
    """Reads all that comes."""
    while server.recv(1 << 20):
        pass


def loop():
    """Wants its processor all the time."""
    while True:
        pass


def blocking_pair():
    """A connection by RDMA with small buffers whose calls wait in the kernel, as long as it takes."""
    client, server = pair_by_rdma(rcvbuf=WINDOW)
    client.setblocking(True)
    server.setblocking(True)
    return client, server


def sleeps(function, *args):
    """How often this process sleeps in a function."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    function(*args)
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before


def round_trips(client):
    """Sends single octets and awaits each answer."""
    for _ in range(TRIPS):
        client.sendall(b"x")
        equal(client.recv(1), b"x", "answer")


def expect_any(within, what, function, *args):
    """Some of several runs sleeps as often as `within` says: the machine may disturb others."""
    seen = []
    for _ in range(LOOKS):
        seen.append(sleeps(function, *args))
        if within(seen[-1]):
            return
    raise AssertionError("%s: sleeps %r" % (what, seen))


def spins():
    """Waits of the client that spun, and those of them that it did not sleep behind."""
    count = topology.counter("a", "spins")
    return count, count - topology.counter("a", "spins_in_vain")


def expect_spins(peer, function):
    """Some of the function's waits are over while they spin, and with the setting 0 none spins. Several connections
    may be necessary: spins that do not help soon become rare, and the machine may disturb any."""
    for _ in range(LOOKS):
        client, server = blocking_pair()
        with client, server, task(1, peer, server), processor(0):
            allow(LONG)
            _, before = spins()
            function(client)
            if spins()[1] == before:
                continue
            allow(0)
            before = spins()
            function(client)
            equal(spins(), before, "spins, and those that were over, with the setting 0")
            return
    raise AssertionError("no wait was over while it spun: %r of %r" % spins()[::-1])


@contextlib.contextmanager
def processor(number):
    """This process runs on that processor for the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {number})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def reader_spins_for_an_answer():
    """A call that awaits an answer spins."""
    topology.netns("up")
    expect_spins(answer, round_trips)
    all_gone()


def writer_spins_for_room():
    """A writer that outruns its reader spins."""
    topology.netns("up")
    expect_spins(drain, lambda client: client.sendall(bytes(BULK)))
    all_gone()


def call_beside_another_task_sleeps():
    """Where another task wants the processor, no call spins."""
    topology.netns("up")
    client, server = blocking_pair()
    with client, server, task(1, answer, server), processor(0), task(0, loop):
        allow(LONG)
        expect_any(lambda count: count > TRIPS // 2, "beside another task", round_trips, client)
    all_gone()


def spin_ends_by_a_signal():
    """A call that spins notices a signal as one that sleeps does."""
    topology.netns("up")
    client, server = blocking_pair()

    class Alarm(Exception):
        """The signal came."""

    def ring(_number, _frame):
        raise Alarm

    with client, server, task(1, answer, server), processor(0):
        allow(LONG)
        before = signal.signal(signal.SIGALRM, ring)
        try:
            for _ in range(LOOKS):
                round_trips(client)
                count, _ = spins()
                try:
                    signal.setitimer(signal.ITIMER_REAL, LONG / 2e6)
                    client.recv(1)
                    raise AssertionError("nothing was sent, and there is something to read")
                except Alarm:
                    pass
                if spins()[0] > count:
                    break
            else:
                raise AssertionError("no wait that a signal ended had begun with a spin")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        # The connection is as before.
        round_trips(client)
    all_gone()


def main():
    """Runs all tests."""
    topology.need_module()
    if len(os.sched_getaffinity(0)) < 2:
        ktap.skip_all("needs two processors")
    tests = [reader_spins_for_an_answer, writer_spins_for_room, call_beside_another_task_sleeps,
             spin_ends_by_a_signal]
    rsoft.load()
    return rsoft.run(tests + topology.by_sdp(*tests))


if __name__ == "__main__":
    sys.exit(main())
