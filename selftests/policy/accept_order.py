#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Accept finds connections in the order in which a client made them, also behind a first contact, which
ends at the client before it ends at the server."""

import contextlib
import os
import sys
import threading

import ktap
import topology
from ktap import equal
from topology import BOUND, Child, command, expect_smc, inside

# First contacts of each test.
ROUNDS = 100
# Programs that compete for each processor with the work items of the module.
BUSY = 8


def spin():
    """Reads the list of links, whose locks the work items want too, until it is killed."""
    with inside("b"):
        while True:
            topology.records("b", "links")


@contextlib.contextmanager
def busy():
    """Keeps all processors busy during the block."""
    children = [Child(spin) for _ in range(BUSY * os.cpu_count())]
    try:
        yield
    finally:
        for child in children:
            child.kill()


def accepts(listening, count, into):
    """Accepts connections one after the other."""
    for _ in range(count):
        into.append(listening.accept()[0])


def in_order():
    """Makes two connections, one after the other, from an address that has no link group yet: the first
    one is a first contact. The server accepts each as soon as it can."""
    with topology.listener() as listening:
        listening.settimeout(BOUND)
        for number in range(ROUNDS):
            source = "10.9.0.%d" % (101 + number)
            servers = []
            thread = threading.Thread(target=accepts, args=(listening, 2, servers))
            thread.start()
            clients = []
            for _ in range(2):
                client = topology.new_socket("a")
                client.bind((source, 0))
                client.settimeout(BOUND)
                client.connect(listening.getsockname())
                clients.append(client)
            thread.join()
            equal([server.getpeername() for server in servers],
                  [client.getsockname() for client in clients], "order, round %d" % number)
            expect_smc(clients[0], servers[0])
            for sock in clients + servers:
                sock.close()


def wire():
    """A client's host with an address for each round. Link groups are not tested: on processors this busy an
    answer may take too long."""
    topology.netns("up")
    for side in "ab":
        with inside(side), open("/proc/sys/net/smc/smcr_testlink_time", "w", encoding="ascii") as file:
            file.write("0")
    with inside("a"):
        for number in range(ROUNDS):
            command("ip", "address", "add", "10.9.0.%d/24" % (101 + number), "dev", "va")


def groups():
    """The number of link groups of the server."""
    return len(topology.records("b", "links"))


def behind_a_first_contact():
    """The second connection joins the link group of the first one."""
    wire()
    with busy():
        in_order()
    equal(groups(), ROUNDS, "link groups")


def main():
    """Runs all tests."""
    topology.need_module()
    return ktap.run([behind_a_first_contact])


if __name__ == "__main__":
    sys.exit(main())
