#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Removal of the module: refused while a socket is open, clean afterwards, and repeated under
traffic."""

import os
import pathlib
import socket
import subprocess
import sys
import time

import ktap
import topology
from ktap import equal
from topology import Child, exchange, expect_smc, known, pair


FILE = topology.module_file()
PARAMETERS = []


def rmmod():
    """Runs rmmod; its status and output."""
    done = subprocess.run(["rmmod", "rdma_sock"], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, check=False, timeout=topology.BOUND)
    return done.returncode, done.stdout


def insmod():
    """Loads the module, which may be loaded already."""
    topology.command("insmod", str(FILE), *PARAMETERS)


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
            if topology.ENGINE[0] == "sdp":
                # Closed connections of SDP last a moment longer, in which the next would begin.
                time.sleep(0.2)

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
                 refused_with_a_fallback, absent_module_has_no_protocol, ten_times_under_churn,
                 reload_with_devices_and_without]
        variants = topology.by_sdp(*tests[:-1])
        return ktap.run(tests[:-1] + variants + tests[-1:] + topology.by_sdp(tests[-1]))


if __name__ == "__main__":
    sys.exit(main())
