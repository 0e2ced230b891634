#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Processes end without a close: the other side gets an error soon, and its received data are right."""

import os
import random
import select
import signal
import socket
import sys

import ktap
import topology
from ktap import equal
from topology import Child, all_gone, error_of, expect_smc, known, pair

FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}
LOST = ("ECONNRESET", "EPIPE")


def endless(sock):
    """Sends the same million octets again and again."""
    data = known("stream", 1000000)
    while True:
        sock.sendall(data)


def reader_is_killed(family):
    """The writer gets an error after its reader was killed."""
    client, server = pair(family)
    expect_smc(client, server)

    def read():
        client.close()
        while server.recv(65536):
            pass

    child = Child(read)
    server.close()
    data = known("stream", 1000000)
    for _ in range(5):
        client.sendall(data)
    child.kill()
    error = "none"
    while error == "none":
        error = error_of(client.sendall, data)
    equal(error in LOST, True, "error of the writer: %s" % error)
    client.close()


def writer_is_killed(family):
    """The reader gets unchanged data, and then an end or an error, after its writer was killed."""
    client, server = pair(family)
    expect_smc(client, server)

    def write():
        server.close()
        endless(client)

    child = Child(write)
    client.close()
    data = known("stream", 1000000)
    got = bytearray()
    while len(got) < 5000000:
        got += server.recv(65536)
    child.kill()
    try:
        while more := server.recv(65536):
            got += more
    except ConnectionResetError:
        pass
    want = data * (len(got) // len(data) + 1)
    equal(bytes(got) == want[:len(got)], True, "data")
    server.close()


def sleeping_reader_is_woken(family):
    """A peer that is killed with unread data resets the connection, which wakes a sleeping reader."""
    client, server = pair(family)
    told, tell = os.pipe()
    holder = Child(lambda: (client.close(), server.recv(1, socket.MSG_PEEK), os.write(tell, b"x"),
                            signal.pause()))
    server.close()
    client.sendall(b"never read")
    equal(os.read(told, 1), b"x", "data are there")
    os.close(told)
    os.close(tell)
    sleeper = Child(lambda: equal(error_of(client.recv, 1), "ECONNRESET", "recv"))
    holder.kill()
    sleeper.expect_success(10)
    client.close()


def many_at_any_time(family):
    """Processes are killed while they connect, send, receive or close; new connections work, and no
    state is left."""
    chance = random.Random(7)
    listening = topology.listener("b", family)

    def serve():
        listening.settimeout(None)
        while True:
            sock, _ = listening.accept()
            if os.fork() == 0:
                try:
                    while data := sock.recv(65536):
                        sock.sendall(data)
                finally:
                    os._exit(0)
            sock.close()
            while True:
                try:
                    if os.waitpid(-1, os.WNOHANG)[0] == 0:
                        break
                except ChildProcessError:
                    break

    def use():
        while True:
            sock = topology.new_socket("a", family)
            sock.connect(listening.getsockname())
            sock.sendall(known("x", 100000))
            topology.receive(sock, 50000)
            sock.close()

    server = Child(serve)
    for _ in range(40):
        child = Child(use)
        # At any point of its work.
        select.select([], [], [], chance.random() * 0.1)
        child.kill()
    client = topology.new_socket("a", family)
    client.settimeout(topology.BOUND)
    client.connect(listening.getsockname())
    equal(topology.mode("a", client)[0], "smc", "mode afterwards")
    client.sendall(b"still there")
    equal(topology.receive(client, 11), b"still there", "echo afterwards")
    client.close()
    server.kill()
    listening.close()
    all_gone()


def tests():
    """Makes each test for each family."""
    for function in (reader_is_killed, writer_is_killed, sleeping_reader_is_woken,
                     many_at_any_time):
        for name, family in FAMILIES.items():
            def test(function=function, family=family):
                function(family)
                all_gone()
            test.name = "%s.%s" % (name, function.__name__)
            yield test


def main():
    """Runs all tests."""
    topology.need_module()
    topology.netns("up")
    return ktap.run(list(tests()))


if __name__ == "__main__":
    sys.exit(main())
