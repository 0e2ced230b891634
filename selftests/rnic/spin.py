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
TRIPS = 200
BULK = 16 << 20
# Sleeps of a writer that spins for room, at most.
FEW = 4
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
    """A connection by RDMA whose calls wait in the kernel, as long as it takes."""
    client, server = pair_by_rdma()
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
    """Half of the round trips and more go without a sleep, and with the setting 0 fewer do."""
    topology.netns("up")
    client, server = blocking_pair()
    with client, server, task(1, answer, server), processor(0):
        allow(LONG)
        expect_any(lambda count: count < TRIPS // 2, "with a spin", round_trips, client)
        allow(0)
        expect_any(lambda count: count > TRIPS // 2, "without", round_trips, client)
    all_gone()


def writer_spins_for_room():
    """A writer that outruns its reader hardly sleeps, and with the setting 0 it does."""
    topology.netns("up")
    client, server = blocking_pair()
    data = bytes(BULK)
    with client, server, task(1, drain, server), processor(0):
        allow(LONG)
        expect_any(lambda count: count <= FEW, "with a spin", client.sendall, data)
        allow(0)
        expect_any(lambda count: count > FEW, "without", client.sendall, data)
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
        expect_any(lambda count: count < TRIPS // 2, "with a spin", round_trips, client)
        before = signal.signal(signal.SIGALRM, ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            client.recv(1)
            raise AssertionError("nothing was sent, and there is something to read")
        except Alarm:
            pass
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
    try:
        return ktap.run(tests + topology.by_sdp(*tests))
    finally:
        rsoft.unload()


if __name__ == "__main__":
    sys.exit(main())
