#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""RDMA devices and links go away under connections: every call ends in time, and new connections use
TCP or the returned device."""

import errno
import socket
import sys
import time

import ktap
import topology
from ktap import equal
from topology import Child, all_gone, command, error_of, exchange, expect_smc, expect_tcp, known, pair

# Time limit for an error. Retransmission gives up after a few seconds.
SECONDS = 30


def stream_until_error(sock):
    """Sends until an error; the name of the error."""
    data = known("stream", 100000)
    error = "none"
    while error == "none":
        error = error_of(sock.sendall, data)
    return error


def read_until_end(sock):
    """Receives until the end or an error; its name."""
    try:
        while sock.recv(65536):
            pass
    except TimeoutError as error:
        return errno.errorcode[error.errno] if error.errno else "late"
    except OSError as error:
        return errno.errorcode[error.errno]
    return "end"


def both_ends_are_told(client, server, action):
    """`action` ends the connection of both sides with an error, under traffic."""
    def write():
        server.close()
        error = stream_until_error(client)
        equal(error in ("late", "EAGAIN"), False, "error of the writer: %s" % error)

    def read():
        client.close()
        error = read_until_end(server)
        equal(error in ("late", "EAGAIN", "end"), False, "error of the reader: %s" % error)

    before = topology.counter("a", "tx_bytes")
    writer = Child(write)
    reader = Child(read)
    client.close()
    server.close()
    topology.until(lambda: topology.counter("a", "tx_bytes") > before + 300000, "traffic")
    start = time.monotonic()
    action()
    equal(time.monotonic() - start < SECONDS, True, "the action was in time")
    writer.expect_success(SECONDS)
    reader.expect_success(SECONDS)


def deleted_by_the_client():
    """rdma link delete on the side that sends."""
    # GEN-04, ABT-10, CLS-33.
    deleted("a")


def deleted_by_the_server():
    """rdma link delete on the side that receives."""
    # GEN-04, ABT-10, CLS-33.
    deleted("b")


def deleted(side):
    """The device of one side is removed and returns."""
    topology.netns("up")
    client, server = pair()
    expect_smc(client, server)
    both_ends_are_told(client, server, lambda: command("rdma", "link", "delete", "rs_" + side))
    equal(topology.records(side, "devices"), [], "devices")
    # Without the device the connection uses TCP.
    client, server = pair()
    expect_tcp(client, server)
    exchange(client, server)
    client.close()
    server.close()
    all_gone()
    restore(side)
    client, server = topology.pair_by_rdma()
    exchange(client, server)
    client.close()
    server.close()
    all_gone()


def restore(side):
    """Makes the device again, with its addresses."""
    command("ip", "netns", "exec", "rs-" + side, "rdma", "link", "add", "rs_" + side, "type",
            "rxe", "netdev", "v" + side)
    topology.await_gid("rs_" + side, topology.HOSTS[socket.AF_INET][side])
    topology.await_ports(side)


def deleted_with_idle_connections():
    """The removal of a device waits for no idle connection, in whatever state."""
    topology.netns("up")
    pairs = [pair() for _ in range(5)]
    expect_smc(*pairs[0])
    pairs[1][0].shutdown(socket.SHUT_WR)
    pairs[2][0].close()
    pairs[3][0].sendall(b"unread")
    sleeper = Child(lambda: equal(error_of(pairs[4][0].recv, 1) in ("none", "late"), False, "recv"))
    start = time.monotonic()
    command("rdma", "link", "delete", "rs_b")
    equal(time.monotonic() - start < SECONDS, True, "removal in time")
    sleeper.expect_success(SECONDS)
    for ends in pairs:
        for sock in ends:
            sock.close()
    all_gone()


def network_device_is_deleted():
    """The veth pair is deleted, and with it the RDMA devices."""
    topology.netns("up")
    client, server = pair()
    expect_smc(client, server)
    both_ends_are_told(client, server, lambda: command("ip", "-n", "rs-a", "link", "delete", "va"))
    all_gone()


def link_goes_down():
    """A link that stays down ends the connections of both sides."""
    # KAL-05, CLS-33, TST-130.
    topology.netns("up")
    client, server = pair()
    expect_smc(client, server)
    both_ends_are_told(client, server,
                       lambda: command("ip", "-n", "rs-b", "link", "set", "vb", "down"))
    link_comes_up()


def link_comes_up():
    """With the link up, connections use RDMA again."""
    command("ip", "-n", "rs-b", "link", "set", "vb", "up")
    topology.await_gid("rs_b", "10.9.0.2")
    topology.await_gid("rs_a", "10.9.0.1")
    topology.await_ports("a", "b")
    client, server = pair()
    exchange(client, server)
    client.close()
    server.close()
    client, server = topology.pair_by_rdma()
    exchange(client, server)
    client.close()
    server.close()
    all_gone()


def device_comes_and_goes_under_new_connections():
    """Ten removals during connects: every connection works by RDMA or TCP, or fails with an error. None
    hangs or delivers wrong octets."""
    topology.netns("up")
    listening = topology.listener()
    data = known("churn", 30000)

    def serve():
        listening.settimeout(None)
        while True:
            sock, _ = listening.accept()
            sock.settimeout(SECONDS)
            try:
                got = topology.receive(sock, len(data))
                if got == data[:len(got)]:
                    sock.sendall(got)
                else:
                    sock.sendall(b"other bytes")
            except OSError:
                pass
            sock.close()

    def use():
        end = time.monotonic() + 15
        whole = 0
        while time.monotonic() < end:
            with topology.new_socket("a") as sock:
                sock.settimeout(SECONDS)
                try:
                    sock.connect(listening.getsockname())
                    sock.sendall(data)
                    got = topology.receive(sock, len(data))
                except TimeoutError as error:
                    if error.errno is None:
                        raise
                    continue
                except OSError:
                    continue
                equal(got == data[:len(got)], True, "data")
                whole += len(got) == len(data)
        equal(whole > 10, True, "whole connections: %d" % whole)

    server = Child(serve)
    user = Child(use)
    for number in range(10):
        side = "ab"[number % 2]
        # The removal goes on at once when what it waits for has happened, before its waker does.
        command("chrt", "--fifo", "1", "rdma", "link", "delete", "rs_" + side)
        restore(side)
    user.expect_success()
    server.kill()
    listening.close()
    all_gone()


def main():
    """Runs all tests."""
    topology.need_module()
    tests = [deleted_by_the_client, deleted_by_the_server, deleted_with_idle_connections,
             network_device_is_deleted, link_goes_down, device_comes_and_goes_under_new_connections]
    of_sdp = [test for test in tests if test != link_goes_down]
    return ktap.run(tests + topology.by_sdp(*of_sdp))


if __name__ == "__main__":
    sys.exit(main())
