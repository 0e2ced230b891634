# SPDX-License-Identifier: GPL-2.0
"""Tests with two guest kernels: both run the same program, guest a as the server, b as the client.

A test is a class with two methods: `server(self, listening)` and `client(self, connect)`. Both sides
synchronize before and after each test. Counters are relative to the first of these points.
"""

import itertools
import os
import socket
import subprocess
import sys
import time

import ktap
import topology

SERVER = os.environ.get("GUEST") == "a"
HOSTS = {socket.AF_INET: ("192.168.77.1", "192.168.77.2"),
         socket.AF_INET6: ("fd77::1", "fd77::2")}
FIRST_PORT = 5100


def sync(name, data=""):
    """Waits for the other guest; returns the word that it sent."""
    done = subprocess.run(["guest-sync", name, data], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError("the other guest is gone at " + name)
    return done.stdout.strip()


def need_guests():
    """Ends the program as skipped outside of a pair with our module."""
    if os.environ.get("GUEST") not in ("a", "b"):
        ktap.skip_all("needs two guests")
    if subprocess.run(["ping", "-c1", "-W5", HOSTS[socket.AF_INET][SERVER]],
                      stdout=subprocess.DEVNULL, check=False).returncode != 0:
        ktap.skip_all("there is no other guest on the wire")
    if not os.path.isdir("/sys/module/rdma_sock"):
        ktap.skip_all("there is no module rdma_sock here")
    topology.await_own_gid(HOSTS[socket.AF_INET][not SERVER])


def counters():
    """The counters of this guest; none without the module."""
    try:
        return topology.counters(None)
    except FileNotFoundError:
        return {}


class PairTest:
    """Base of all tests. `engine`, `family` and `port` are set before they run."""

    smc = True
    engine = "smc"
    family = socket.AF_INET
    port = 0
    before = {}
    # Seconds for a test. A side may wait for the other one that failed.
    bound = 200

    def new_socket(self):
        """A socket of ours, or a TCP socket if the test is about TCP on this side."""
        return topology.new_socket(None, self.family, self.smc)

    def connect(self):
        """Connects to the server."""
        sock = self.new_socket()
        sock.settimeout(topology.BOUND)
        sock.connect((HOSTS[self.family][0], self.port))
        return sock

    @staticmethod
    def accept(listening):
        """Accepts a connection of the client."""
        listening.settimeout(topology.BOUND)
        sock, _ = listening.accept()
        sock.settimeout(topology.BOUND)
        return sock

    def increase(self, name):
        """The increase of a counter in this test, of the engine in use if each has one."""
        if name in topology.OF_EACH:
            name = topology.ENGINES[self.engine][1] + name
        return counters().get(name, 0) - self.before.get(name, 0)

    def sent_by_rdma(self, size):
        """Fails unless this side sends exactly `size` octets by RDMA. Written octets may still wait for
        the peer's window."""
        topology.until(lambda: self.increase("tx_bytes") >= size, "bytes sent by RDMA")
        ktap.equal(self.increase("tx_bytes"), size, "bytes sent by RDMA")

    def prepare(self):
        """Prepares this side before the test."""

    def restore(self):
        """Restores this side after the test, also after a failure."""

    def run(self):
        """Runs one side of the test."""
        self.prepare()
        listening = None
        name = self.name  # pylint: disable=no-member
        try:
            if SERVER:
                listening = self.new_socket()
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind((HOSTS[self.family][0], self.port))
                listening.listen(512)
            sync(name + ".begin")
            self.before = counters()
            try:
                if SERVER:
                    self.server(listening)  # pylint: disable=no-member
                else:
                    self.client(self.connect)  # pylint: disable=no-member
            finally:
                if listening is not None:
                    listening.close()
                sync(name + ".end")
        finally:
            self.restore()


def connect_until(test, connect, is_good, what):
    """Connects until a connection is good. The peer is in `accept_until`."""
    end = time.monotonic() + topology.BOUND
    number = 0
    while True:
        with connect() as sock:
            good = is_good(sock)
            ktap.equal(good or time.monotonic() < end, True, what)
            sync("%s.try.%d" % (test.name, number), str(good))
        if good:
            return
        number += 1
        time.sleep(1)


def connect_by_rdma(test, connect):
    """Connects until a connection uses RDMA."""
    connect_until(test, connect, lambda sock: topology.mode(None, sock)[0] == test.engine,
                  "a connection uses RDMA")


def accept_until(test, listening):
    """Accepts until the peer finds a connection good."""
    number = 0
    good = False
    while not good:
        with test.accept(listening):
            good = sync("%s.try.%d" % (test.name, number)) == "True"
        number += 1


class FirstContact(PairTest):
    """Connections use RDMA. A client of SDP takes a host for silent that does not answer its first question
    within 150 ms, and asks again after 30 s."""

    def server(self, listening):
        """Accepts until a connection uses RDMA."""
        accept_until(self, listening)

    def client(self, connect):
        """Connects until a connection uses RDMA."""
        connect_by_rdma(self, connect)


def run(classes, families=(socket.AF_INET, socket.AF_INET6), engines=("smc",)):
    """Runs each class for each family and engine; the exit status."""
    need_guests()
    tests = []
    for engine, cls, family in itertools.product(engines, classes, families):
        test = cls()
        test.engine = engine
        test.family = family
        test.port = FIRST_PORT + len(tests)
        version = "ipv4" if family == socket.AF_INET else "ipv6"
        test.name = "%s%s.%s" % ("" if engine == "smc" else engine + "_", version, cls.__name__)

        def one(test=test):
            with topology.engine(test.engine), topology.bounded(test.bound):
                test.run()
        one.name = test.name
        tests.append(one)
    sync(os.path.basename(sys.argv[0]))
    return ktap.run(tests)


def expect_mode(sock, want):
    """Fails unless a connection uses the engine that sockets ask for, or none of them for "tcp"."""
    mode, reason = topology.mode(None, sock)
    if want == "rdma":
        ktap.equal(mode, topology.ENGINE[0], "mode, with the reason %#x" % reason)
    else:
        ktap.equal(mode in topology.ENGINES, False, "uses RDMA")
