#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Many connections between our module and the kernel's C implementation.

Covers SMCR-LGR-10, LGR-22, RDV-20.
"""

import resource
import socket
import sys
import threading

import case
import topology
from case import ADDRESSES, FAMILY, GUEST, Case, carried, groups
from ktap import equal
from topology import known, receive

SIZE = 3000


class Short(Case):
    """2000 connections in sequence, on four threads."""

    each, threads = 500, 4
    bound = 400

    def server(self, listening):
        """Echoes."""
        for _ in range(self.each * self.threads):
            with self.accept(listening) as sock:
                sock.sendall(receive(sock, SIZE))

    def client(self):
        """Sends requests."""
        wrong = []

        def go():
            try:
                for number in range(self.each):
                    with self.connect() as sock:
                        data = known(number, SIZE)
                        sock.sendall(data)
                        if receive(sock, SIZE) != data:
                            wrong.append(number)
            except OSError as error:
                wrong.append(error)

        threads = [threading.Thread(target=go) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(wrong, [], "errors")


class Many(Case):
    """400 connections at once, which need two link groups."""

    count = 400
    bound = 300

    @staticmethod
    def room():
        """Raises the limit of open files."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))

    def server(self, listening):
        """Accepts all connections, then echoes."""
        self.room()
        socks = [self.accept(listening) for _ in range(self.count)]
        for sock in socks:
            sock.sendall(receive(sock, SIZE))
        self.meet("all")
        for sock in socks:
            sock.close()

    def client(self):
        """Makes all connections, then sends requests."""
        self.room()
        socks = [self.connect() for _ in range(self.count)]
        for number, sock in enumerate(socks):
            sock.sendall(known(number, SIZE))
        for number, sock in enumerate(socks):
            equal(receive(sock, SIZE) == known(number, SIZE), True, "echo %d" % number)
        equal(carried() >= self.count, True, "carried by SMC: %d" % carried())
        full = [group for group in groups() if group[1] > 100]
        equal(len(full), 2, "groups in %r" % groups())
        self.meet("all")
        for sock in socks:
            sock.close()


class Mixed(Case):
    """One listening socket and three kinds of clients at the same time: SMC and TCP from the other
    kernel, TCP from its own."""

    each = 8

    def server(self, listening):
        """Echoes on all connections until they end."""
        near = [socket.create_connection((ADDRESSES[GUEST], self.port), timeout=topology.BOUND)
                for _ in range(self.each)]
        self.meet("near")
        socks = [self.accept(listening) for _ in range(3 * self.each)]
        child = topology.Child(lambda: self.ask(near))
        for sock in near:
            sock.close()
        echoes = [threading.Thread(target=self.echo, args=(sock,)) for sock in socks]
        for echo in echoes:
            echo.start()
        self.meet("connected")
        equal(carried(), self.each, "carried by SMC")
        self.meet("counted")
        for echo in echoes:
            echo.join()
        child.expect_success()

    @staticmethod
    def echo(sock):
        """Echoes until the end."""
        with sock:
            while data := sock.recv(65536):
                sock.sendall(data)

    @staticmethod
    def ask(socks):
        """Sends on each connection in turn, and compares."""
        for number in range(20):
            data = known(number, 9000)
            for sock in socks:
                sock.sendall(data)
            for sock in socks:
                equal(receive(sock, len(data)) == data, True, "echo %d" % number)

    def client(self):
        """Sends requests on both kinds of connections."""
        self.meet("near")
        socks = []
        for _ in range(self.each):
            socks.append(self.connect())
            socks.append(self.connect(topology.new_socket(None, FAMILY, False)))
        for sock in socks:
            sock.settimeout(topology.BOUND)
        self.meet("connected")
        equal(carried(), self.each, "carried by SMC")
        self.meet("counted")
        self.ask(socks)
        for sock in socks:
            sock.close()


if __name__ == "__main__":
    sys.exit(case.run([Mixed, Short, Many]))
