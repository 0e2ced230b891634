#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Removal of the module: refused while a socket is open, clean afterwards, and repeated under
traffic."""

import contextlib
import os
import pathlib
import random
import socket
import subprocess
import sys
import time

import ktap
import topology
from ktap import equal
from topology import Child, exchange, expect_smc, known, pair, receive


FILE = topology.module_file()
PARAMETERS = []
# Seconds for what is left of connections whose programs were killed: less than all attempts of ib_cm to
# send a message take.
GONE = 10 * topology.SLOW
# How often programs are killed.
ROUNDS = 20 if topology.SLOW == 1 else 5


def rmmod():
    """Runs rmmod; its status and output."""
    done = subprocess.run(["rmmod", "rdma_sock"], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, check=False, timeout=topology.BOUND)
    return done.returncode, done.stdout


def insmod():
    """Loads the module, which may be loaded already."""
    topology.command("insmod", str(FILE), *PARAMETERS)
    if topology.ENGINE[0] == "sdp":
        topology.skip_question()


def remove():
    """Removes the module as soon as it is unused."""
    topology.until(lambda: topology.module_users() == 0, "the module is in use")
    status, text = rmmod()
    equal((status, text), (0, ""), "rmmod")


def is_refused():
    """Fails unless rmmod fails at once, and because of the users."""
    status, text = rmmod()
    equal(status, 1, "status of rmmod")
    equal("in use" in text, True, text)


def refused_with_a_connection():
    """A connection holds the module from either end."""
    # TST-155.
    client, server = pair()
    expect_smc(client, server)
    is_refused()
    exchange(client, server)
    client.close()
    is_refused()
    server.close()
    remove()
    insmod()


def refused_with_a_listener():
    """A listener holds the module, with connections in its queue or without."""
    listening = topology.listener()
    is_refused()
    client = topology.new_socket("a")
    client.connect(listening.getsockname())
    listening.close()
    is_refused()
    client.close()
    remove()
    insmod()


def refused_with_a_fresh_socket():
    """An unused socket holds the module."""
    sock = topology.new_socket("a")
    is_refused()
    sock.close()
    remove()
    insmod()


def refused_with_a_fallback():
    """A connection that fell back still has the module's operations."""
    client, server = pair(smc=(True, False))
    is_refused()
    exchange(client, server)
    client.close()
    server.close()
    remove()
    insmod()


def absent_module_has_no_protocol():
    """After the removal, socket() fails and /proc has no files. After loading, both work again."""
    remove()
    try:
        equal(topology.error_of(topology.new_socket, "a"), "EPROTONOSUPPORT", "socket")
        with topology.inside("a"):
            equal(os.path.exists("/proc/thread-self/net/rdma_sock"), False, "/proc/net/rdma_sock")
    finally:
        insmod()
    client, server = pair()
    expect_smc(client, server)
    client.close()
    server.close()


def ten_times_under_churn():
    """Programs connect, transfer and close without a pause while the module is removed and loaded."""
    # TST-155.
    stop = pathlib.Path("/run/rs-stop")
    stop.unlink(missing_ok=True)
    data = known("churn", 20000)

    def listening_socket():
        """A socket with SMC if the module is loaded, else TCP, as an accelerated program would get."""
        try:
            return topology.listener("b", smc=True)
        except OSError:
            return topology.listener("b", smc=False)

    def one():
        with listening_socket() as listening:
            try:
                client = topology.new_socket("a", smc=True)
            except OSError:
                client = topology.new_socket("a", smc=False)
            client.settimeout(topology.BOUND)
            listening.settimeout(topology.BOUND)
            client.connect(listening.getsockname())
            server, _ = listening.accept()
            server.settimeout(topology.BOUND)
            client.sendall(data)
            equal(topology.receive(server, len(data)) == data, True, "data")
            client.close()
            equal(server.recv(1), b"", "end")
            server.close()

    def churn():
        while not stop.exists():
            one()

    # One program, so that no socket exists at some moments.
    child = Child(churn)
    times = 10 if topology.SLOW == 1 else 4
    removed = refused = 0
    end = time.monotonic() + 200 * topology.SLOW
    try:
        while removed < times and time.monotonic() < end:
            status, text = rmmod()
            if status == 0:
                removed += 1
                insmod()
            else:
                # The second message is that of a user that comes at this moment.
                equal("in use" in text or "temporarily unavailable" in text, True, text)
                refused += 1
        equal(removed, times, "removals (%d were refused)" % refused)
    finally:
        stop.touch()
    child.expect_success()
    # The module also uses a device that existed before it.
    client, server = pair()
    expect_smc(client, server)
    exchange(client, server)
    client.close()
    server.close()
    topology.all_gone()


def killed_round(number):
    """Programs that connect, transfer and close without a pause are killed, in some order. Soon after,
    nothing of their connections is left in the module."""
    order = random.Random(number)
    listening = [topology.listener() for _ in range(4)]
    data = known("killed", 30000)

    def serve(sock):
        while True:
            server, _ = sock.accept()
            with server:
                server.settimeout(topology.BOUND)
                # Some data stays unread at the close, and some end comes first from here.
                with contextlib.suppress(OSError):
                    server.sendall(receive(server, 10000))

    def use(sock, seed):
        choice = random.Random(seed).choice
        while True:
            with topology.new_socket("a") as client:
                client.settimeout(topology.BOUND)
                with contextlib.suppress(OSError):
                    client.connect(sock.getsockname())
                    client.sendall(data[:choice((1, 10000, 30000))])
                    if choice((False, True)):
                        client.shutdown(socket.SHUT_WR)
                        receive(client, choice((1, 10000)))

    name = topology.ENGINE[0] + "_srv_conns"
    before = topology.counter("b", name)
    children = [Child(lambda sock=sock: serve(sock)) for sock in listening]
    children += [Child(lambda n=n: use(listening[n % 4], n)) for n in range(12)]
    for sock in listening:
        sock.close()
    topology.until(lambda: topology.counter("b", name) - before > 50, "connections")
    order.shuffle(children)
    for child in children:
        child.kill()
    begin = time.monotonic()
    topology.module_unused(GONE)
    return time.monotonic() - begin


def of_killed_programs():
    """The same many times. The module can be removed then."""
    seconds = [killed_round(number) for number in range(ROUNDS)]
    print("# the module is free after at most %.1f s" % max(seconds))
    remove()
    insmod()


def reload_with_devices_and_without():
    """The module works with every state of devices at its loading."""
    topology.netns("down")
    remove()
    insmod()
    topology.netns("up")
    client, server = pair(socket.AF_INET6)
    expect_smc(client, server)
    client.close()
    server.close()
    remove()
    topology.netns("down")
    insmod()


def main():
    """Runs all tests."""
    topology.need_module()
    if FILE is None:
        ktap.skip_all("the module's file is not here, so it could not be loaded again")
    PARAMETERS.extend(topology.module_parameters())
    topology.netns("up")
    with topology.no_autoload():
        tests = [refused_with_a_connection, refused_with_a_listener, refused_with_a_fresh_socket,
                 refused_with_a_fallback, absent_module_has_no_protocol, of_killed_programs,
                 ten_times_under_churn, reload_with_devices_and_without]
        # The removal under churn, and with every state of devices, is one of the module.
        return ktap.run(topology.by_sdp(*tests[:6]) + tests)


if __name__ == "__main__":
    sys.exit(main())
