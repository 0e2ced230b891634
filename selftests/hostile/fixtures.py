# SPDX-License-Identifier: GPL-2.0
"""Where the hostile tests play: two honest namespaces, a bystander, a host that is none, and what must
be true at the end of every act."""

import atexit
import contextlib
import copy
import mmap
import os
import socket
import struct
import sys
import threading

import ktap
import raw
import topology
from ktap import equal
from peer import Peer

# A bystander that takes longer for a round has been disturbed.
ROUND = 20
# In a kernel full of checkers a part of the values has to do.
FEW = topology.SLOW > 1


class BackgroundTraffic:
    """A connection of two honest sockets that carries data all the time, and checks it."""

    def __init__(self):
        self.shared = mmap.mmap(-1, 4096)
        client, server = topology.pair()
        topology.expect_smc(client, server)
        self.child = topology.Child(lambda: self.work(client, server))
        client.close()
        server.close()

    def rounds(self):
        """How often it went round."""
        return struct.unpack_from("=Q", self.shared)[0]

    def work(self, client, server):
        """Round and round, until told to stop."""
        data = topology.known("bystander", 200000)
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
            equal(topology.receive(client, len(piece)) == piece, True, "data of the bystander")
            count += 1
            struct.pack_into("=Q", self.shared, 0, count)
        client.shutdown(socket.SHUT_WR)
        equal(client.recv(1), b"", "end of the bystander")
        equal(os.wait()[1], 0, "status of the bystander's other end")

    def expect_progress(self):
        """Fails unless two whole rounds happen from now on."""
        before = self.rounds()
        topology.until(lambda: self.rounds() >= before + 2 or self.child.has_ended(),
                       "the bystander stands still", ROUND)
        equal(self.child.has_ended(), False, "the bystander has ended")

    def stop(self):
        """Ends it; fails if any of its data was wrong."""
        self.shared[8] = 1
        self.child.expect_success()


class Fixture:
    """All of that, for a program's tests."""

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
        # Held by who makes a connection to the listener and accepts it.
        self.lock = threading.RLock()

    def new_peer(self):
        """A peer nobody has seen before, until the end of the test."""
        with self.lock:
            self.peers.append(Peer(self.host))
        return self.peers[-1]

    def part(self):
        """The same scene with peers of its own, for a test that runs beside others."""
        part = copy.copy(self)
        part.peers = []
        return part

    def is_over(self, conn):
        """Whether nothing is left of a connection that a peer has made to us."""
        peer = "%s:%d" % (raw.IP, conn.tcp.port)
        return all(line.get("peer") != peer for line in topology.records("b", "conns"))

    def begin(self):
        """From here on counters count."""
        self.before = topology.counters("b")

    def grown(self, name):
        """By how much a counter has grown."""
        return topology.counter("b", name) - self.before.get(name, 0)

    def expect_counters(self, **wanted):
        """Waits until counters have grown by so much."""
        for name, by in wanted.items():
            topology.until(lambda name=name, by=by: self.grown(name) >= by,
                           "%s has grown by %d, not %d; all: %s" % (name, self.grown(name), by,
                                                                    self.difference()), 20)
            equal(self.grown(name), by, name)

    def arrived(self, conn):
        """The socket that the listener gave for a connection of a peer; None if there is none yet."""
        self.drain()
        return self.accepted.get(conn.tcp.port)

    def drain(self):
        """Accepts what there is."""
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
        """What became of a connection that a peer has made to us: "reset", "smc", or "tcp" with the
        code of the reason."""
        topology.until(lambda: conn.tcp.reset or self.arrived(conn), "the end of the handshake", seconds)
        sock = self.arrived(conn)
        if sock is None:
            return "reset"
        try:
            mode, reason = topology.mode("b", sock)
        except OSError:
            # It was, and then TCP was reset.
            return "reset"
        return mode if mode == "smc" else "%s %08x" % (mode, reason)

    def close_accepted(self):
        """Closes what was accepted."""
        self.drain()
        for sock in self.accepted.values():
            sock.close()
        self.accepted.clear()

    def is_idle(self):
        """Whether only the bystander's connection is left. What the listener gets late goes, too."""
        self.close_accepted()
        return topology.counter("b", "active_conns") == 1

    def remove_peers(self):
        """The peers leave; those whom nobody listens to just vanish."""
        queue_pairs = []
        for peer in self.peers:
            peer.leave()
            queue_pairs += [group.qp for group in peer.groups if group.qp.is_usable()]
        with contextlib.suppress(AssertionError):
            self.host.wait(lambda: not any(qp.flying for qp in queue_pairs), "goodbyes", 1)
        while self.peers:
            self.peers.pop().end()

    def difference(self):
        """All counters that have changed."""
        now = topology.counters("b")
        return {name: value - self.before.get(name, 0) for name, value in now.items()
                if value != self.before.get(name, 0)}

    def test(self, function, name):
        """A test with its surroundings."""
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
            # What remains is the bystander: its two ends and the listener.
            topology.until(self.is_idle, "connections are left", 90)
        run.name = name
        return run

    def concurrent_tests(self, cases):
        """Tests that mostly wait and get along: they begin with the first of them, each on a thread, and
        are told one by one."""
        errors, threads = {}, {}

        def go(name, function):
            part = self.part()
            try:
                function(part, None)
            except Exception as error:  # pylint: disable=broad-except
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
        """Nothing is left: the module can be unloaded, and works when it is loaded again."""
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


def run(cases, beside=()):
    """Runs named functions of (scene, peer), first all of `beside` at the same time, which count
    nothing and have no peer given; the exit status."""
    def chosen(cases):
        return [(name, function) for name, function in cases
                if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    fixture = Fixture()
    tests = fixture.concurrent_tests(chosen(beside))
    tests += [fixture.test(function, name) for name, function in chosen(cases)]

    def nothing_is_left():
        fixture.last()
    return ktap.run(tests + [nothing_is_left])
