# SPDX-License-Identifier: GPL-2.0
"""Fixture for the hostile tests: two hosts, background traffic between them, a raw-packet peer, and the
checks after each test."""

import atexit
import contextlib
import copy
import mmap
import os
import socket
import struct
import sys
import threading
import traceback

import ktap
import raw
import topology
from ktap import equal
from peer import Peer

# Background traffic that needs more seconds for a round was disturbed.
ROUND = 20
# Kernels with every checker are slow: they try a part of the values.
FEW = topology.SLOW > 1


class BackgroundTraffic:
    """A connection of two ordinary sockets that carries and checks data during all tests."""

    def __init__(self):
        self.shared = mmap.mmap(-1, 4096)
        client, server = topology.pair()
        topology.expect_smc(client, server)
        self.child = topology.Child(lambda: self.work(client, server))
        client.close()
        server.close()

    def rounds(self):
        """The number of finished rounds."""
        return struct.unpack_from("=Q", self.shared)[0]

    def work(self, client, server):
        """Sends, receives and compares data until stop()."""
        data = topology.known("background", 200000)
        if os.fork() == 0:
            client.close()
            status = 1
            try:
                while piece := server.recv(65536):
                    server.sendall(piece)
                status = 0
            finally:
                os._exit(status)
        server.close()
        count = at = 0
        while not self.shared[8]:
            size = 1 + count * 7919 % 30000
            piece = data[at:at + size]
            at = (at + size) % 150000
            client.sendall(piece)
            equal(topology.receive(client, len(piece)) == piece, True, "data of the background connection")
            count += 1
            struct.pack_into("=Q", self.shared, 0, count)
        client.shutdown(socket.SHUT_WR)
        equal(client.recv(1), b"", "end of the background connection")
        equal(os.wait()[1], 0, "status of the background connection's other end")

    def expect_progress(self):
        """Fails unless two more rounds finish in time."""
        before = self.rounds()
        topology.until(lambda: self.rounds() >= before + 2 or self.child.has_ended(),
                       "the background connection makes no progress", ROUND)
        equal(self.child.has_ended(), False, "the background connection has ended")

    def stop(self):
        """Ends the traffic; fails if any of its data was wrong."""
        self.shared[8] = 1
        self.child.expect_success()


class Fixture:
    """The hosts, the traffic and a listening socket, shared by the tests of a program."""

    def __init__(self):
        topology.need_module()
        topology.netns("up")
        self.background = BackgroundTraffic()
        atexit.register(self.background.child.give_up)
        self.host = raw.Host()
        self.host.start()
        self.listening = topology.listener("b")
        self.listening.settimeout(raw.SECONDS)
        self.port = self.listening.getsockname()[1]
        self.before, self.accepted, self.peers = {}, {}, []
        # A test that connects to the listener and accepts holds this lock meanwhile.
        self.lock = threading.RLock()

    def new_peer(self):
        """A new peer, removed at the end of the test."""
        with self.lock:
            self.peers.append(Peer(self.host))
        return self.peers[-1]

    def part(self):
        """The same fixture with peers of its own, for a test that runs in parallel."""
        part = copy.copy(self)
        part.peers = []
        return part

    def is_over(self, conn):
        """Whether the module has no trace of a peer's connection."""
        peer, local = "%s:%d" % (raw.IP, conn.tcp.port), ":%d" % conn.tcp.other
        return not any(line.get("peer") == peer and line["local"].endswith(local)
                       for line in topology.records("b", "conns"))

    def begin(self):
        """Makes the current counters the base of increase()."""
        self.before = topology.counters("b")

    def increase(self, name):
        """The increase of a counter since begin()."""
        return topology.counter("b", name) - self.before.get(name, 0)

    def expect_counters(self, **wanted):
        """Waits until counters have increased by these numbers; fails if one exceeds its number."""
        for name, by in wanted.items():
            topology.until(lambda name=name, by=by: self.increase(name) >= by,
                           "%s has grown by %d, not %d; all: %s" % (name, self.increase(name), by,
                                                                    self.difference()), 20)
            equal(self.increase(name), by, name)

    def arrived(self, conn):
        """The accepted socket of a peer's connection; None if the listener has not returned it."""
        self.drain()
        return self.accepted.get(conn.tcp.port)

    def drain(self):
        """Accepts all ready connections."""
        self.listening.setblocking(False)
        try:
            while True:
                sock, address = self.listening.accept()
                sock.settimeout(raw.SECONDS)
                self.accepted[address[1]] = sock
        except BlockingIOError:
            pass
        finally:
            self.listening.settimeout(raw.SECONDS)

    def outcome_of(self, conn, seconds=25):
        """The outcome of a peer's connection: "reset", "smc", or "tcp" with the reason code."""
        topology.until(lambda: conn.tcp.reset or self.arrived(conn), "the end of the handshake", seconds)
        sock = self.arrived(conn)
        if sock is None:
            return "reset"
        try:
            mode, reason = topology.mode("b", sock)
        except OSError:
            # TCP was reset after the connection was established.
            return "reset"
        return mode if mode == "smc" else "%s %08x" % (mode, reason)

    def close_accepted(self):
        """Closes all accepted sockets."""
        self.drain()
        for sock in self.accepted.values():
            sock.close()
        self.accepted.clear()

    def is_idle(self):
        """Whether only the background connection exists, and no handshake. Closes sockets that the listener
        returns late."""
        self.close_accepted()
        return (topology.counter("b", "active_conns") == 1 and
                all(line["mode"] != "pending" for line in topology.records("b", "conns")))

    def remove_peers(self):
        """Removes all peers. Peers whose queue pairs have failed send nothing."""
        queue_pairs = []
        for peer in self.peers:
            peer.leave()
            queue_pairs += [group.qp for group in peer.groups if group.qp.is_usable()]
        with contextlib.suppress(AssertionError):
            self.host.wait(lambda: not any(qp.flying for qp in queue_pairs), "DELETE LINK of the peers", 1)
        while self.peers:
            self.peers.pop().end()

    def difference(self):
        """All counters that have changed, with their increase."""
        now = topology.counters("b")
        return {name: value - self.before.get(name, 0) for name, value in now.items()
                if value != self.before.get(name, 0)}

    def test(self, function, name):
        """Makes a test that also checks the background traffic and the cleanup."""
        def run():
            peer = self.new_peer()
            self.begin()
            try:
                function(self, peer)
                self.background.expect_progress()
                if self.host.fault is not None:
                    raise self.host.fault
            finally:
                self.close_accepted()
                self.remove_peers()
            # The background traffic has two sockets and one listener here.
            topology.until(self.is_idle, "connections are left", 90)
        run.name = name
        return run

    def concurrent_tests(self, cases):
        """Makes tests that run in parallel: all start with the first one, each in a thread, and report
        one after the other."""
        errors, threads = {}, {}

        def go(name, function):
            part = self.part()
            try:
                function(part, None)
            except Exception as error:  # pylint: disable=broad-except
                # Its sockets would stay open, and the other tests wait for their end.
                traceback.clear_frames(error.__traceback__)
                errors[name] = error
            finally:
                part.remove_peers()

        def told(name):
            def run():
                if not threads:
                    self.begin()
                    for other, function in cases:
                        threads[other] = threading.Thread(target=go, args=(other, function))
                        threads[other].start()
                threads[name].join()
                self.background.expect_progress()
                if self.host.fault is not None:
                    raise self.host.fault
                if name in errors:
                    raise errors[name]
                if not any(thread.is_alive() for thread in threads.values()):
                    self.close_accepted()
                    topology.until(self.is_idle, "connections are left", 90)
            run.name = name
            return run
        return [told(name) for name, _ in cases]

    def last(self):
        """Fails unless the module can be unloaded after the tests, and works when loaded again."""
        self.background.expect_progress()
        self.background.stop()
        self.listening.close()
        topology.all_gone()
        parameters, file = topology.module_parameters(), topology.module_file()
        topology.command("rmmod", "rdma_sock")
        topology.command("insmod", str(file), *parameters)
        client, server = topology.pair()
        topology.expect_smc(client, server)
        topology.exchange(client, server)
        client.close()
        server.close()
        topology.all_gone()


def run(cases, parallel=()):
    """Runs named functions of (fixture, peer); the exit status. Functions in `parallel` run first and
    in parallel; they get no peer and must not use counters."""
    def chosen(cases):
        return [(name, function) for name, function in cases
                if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    fixture = Fixture()
    tests = fixture.concurrent_tests(chosen(parallel))
    tests += [fixture.test(function, name) for name, function in chosen(cases)]

    def nothing_is_left():
        fixture.last()
    return ktap.run(tests + [nothing_is_left])
