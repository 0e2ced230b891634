# SPDX-License-Identifier: GPL-2.0
"""Tests with two guest kernels: both run the same program; guest a is the server, b the client.

A test is a class with two methods: `server(self, listening)` and `client(self, connect)`. Both sides
meet before and after each, and count their counters from the first meeting.
"""

import os
import socket
import subprocess
import sys

import ktap
import topology

SERVER = os.environ.get("GUEST") == "a"
HOSTS = {socket.AF_INET: ("192.168.77.1", "192.168.77.2"),
         socket.AF_INET6: ("fd77::1", "fd77::2")}
FIRST_PORT = 5100


def sync(name, data=""):
    """Waits for the other guest; returns what it has to say."""
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
    """This guest's counters; all are 0 without the module."""
    try:
        return topology.counters(None)
    except FileNotFoundError:
        return {}


class PairTest:
    """What tests have in common. `family` and `port` are set before they run."""

    smc = True
    family = socket.AF_INET
    port = 0
    before = {}
    # Seconds for a test. When one side fails, the other may wait for it in vain.
    bound = 200

    def new_socket(self):
        """A socket of ours, or a plain one if the test is about TCP on this side."""
        return topology.new_socket(None, self.family, self.smc)

    def connect(self):
        """A connection to the server."""
        sock = self.new_socket()
        sock.settimeout(topology.BOUND)
        sock.connect((HOSTS[self.family][0], self.port))
        return sock

    @staticmethod
    def accept(listening):
        """A connection from the client."""
        listening.settimeout(topology.BOUND)
        sock, _ = listening.accept()
        sock.settimeout(topology.BOUND)
        return sock

    def increase(self, name):
        """By how much a counter has grown in this test."""
        return counters().get(name, 0) - self.before.get(name, 0)

    def sent_by_rdma(self, size):
        """Fails unless exactly so much is sent by RDMA from this side. What was written may still wait
        for the peer's window."""
        topology.until(lambda: self.increase("tx_bytes") >= size, "bytes sent by RDMA")
        ktap.equal(self.increase("tx_bytes"), size, "bytes sent by RDMA")

    def prepare(self):
        """What this side does before the first meeting."""

    def restore(self):
        """What this side does after the last meeting, however it went."""

    def run(self):
        """One side of the test."""
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


def run(classes, families=(socket.AF_INET, socket.AF_INET6)):
    """Runs each class for each family; the exit status."""
    need_guests()
    tests = []
    for cls in classes:
        for family in families:
            test = cls()
            test.family = family
            test.port = FIRST_PORT + len(tests)
            version = "ipv4" if family == socket.AF_INET else "ipv6"
            test.name = "%s.%s" % (version, cls.__name__)

            def one(test=test):
                with topology.bounded(test.bound):
                    test.run()
            one.name = test.name
            tests.append(one)
    sync(os.path.basename(sys.argv[0]))
    return ktap.run(tests)


def expect_mode(sock, want):
    """Fails unless the connection goes that way: "smc", or anything else for "tcp"."""
    mode = topology.mode(None, sock)[0]
    if want == "smc":
        ktap.equal(mode, "smc", "mode")
    else:
        ktap.equal(mode == "smc", False, "is SMC")
