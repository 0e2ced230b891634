#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The accounting and the limits of buffers: the memory cgroup of a socket, the limits of a namespace
and of the host. Orphaned connections are limited in number and time."""

import contextlib
import os
import pathlib
import resource
import select
import signal
import socket
import sys
import time

import ktap
import topology
from ktap import equal

TREE = pathlib.Path("/sys/fs/cgroup")
SETTINGS = pathlib.Path("/proc/sys/net/smc")
MEMORY = 0x01010000
BUFFER = 128 << 10
# Octets of a connection: its element and its send buffer.
EACH = 2 * BUFFER
MANY = 40
THOUSANDS = 10000 // topology.SLOW
SMALL = 64 << 20
# The limit of a namespace. A cgroup, of which buffers take half, has twice as much.
LIMIT = 16 * EACH


def write(side, name, value):
    """Sets a value in the namespace of a side, or in that of this process."""
    with topology.inside(side):
        (SETTINGS / name).write_text("%d\n" % value, encoding="ascii")


def read(side, name):
    """Reads a value of a side."""
    with topology.inside(side):
        return int((SETTINGS / name).read_text(encoding="ascii"))


def sides():
    """Makes both namespaces, in which every connection gets buffers of the same size."""
    topology.netns("up")
    for side in "ab":
        write(side, "smcr_share_buffers", 0)
        write(side, "wmem", BUFFER)
        write(side, "rmem", BUFFER)


class Cgroup:
    """A cgroup with a limit, and without processes."""

    def __init__(self, limit):
        if not (TREE / "cgroup.controllers").exists():
            topology.command("mount", "-t", "cgroup2", "none", str(TREE))
        (TREE / "cgroup.subtree_control").write_text("+memory\n", encoding="ascii")
        self.path = TREE / "rs-limited"
        self.path.mkdir()
        (self.path / "memory.max").write_text("%d\n" % limit, encoding="ascii")

    @contextlib.contextmanager
    def entered(self):
        """Puts this process into the cgroup during the block, so that new sockets are charged to it."""
        (self.path / "cgroup.procs").write_text("%d\n" % os.getpid(), encoding="ascii")
        try:
            yield
        finally:
            (TREE / "cgroup.procs").write_text("%d\n" % os.getpid(), encoding="ascii")

    def current(self):
        """The charged octets."""
        return int((self.path / "memory.current").read_text(encoding="ascii"))

    def events(self, name):
        """The count of an event."""
        text = (self.path / "memory.events").read_text(encoding="ascii")
        return dict(line.split() for line in text.splitlines())[name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.path.rmdir()


def connections(listening, clients):
    """Makes pairs of connected sockets."""
    pairs = []
    for one in clients:
        one.settimeout(topology.BOUND)
        one.connect(listening.getsockname())
        other, _ = listening.accept()
        other.settimeout(topology.BOUND)
        pairs.append((one, other))
    return pairs


def fresh(count):
    """Makes `count` sockets of the client's side."""
    return [topology.new_socket("a") for _ in range(count)]


def outcome(side, pairs):
    """The number of connections by SMC-R. Fails unless memory is the reason of the others."""
    at = {"a": 0, "b": 1}[side]
    modes = [topology.mode(side, pair[at]) for pair in pairs]
    equal({mode for mode in modes if mode[0] != "smc"}, {("tcp", MEMORY)}, "modes at " + side)
    return sum(mode == "smc" for mode, _ in modes)


def close(pairs):
    """Ends connections."""
    for pair in pairs:
        for sock in pair:
            sock.close()


def carry(pairs):
    """Fails unless the first and the last connection carry data."""
    for pair in (pairs[0], pairs[-1]):
        topology.exchange(*pair)


def limited(side):
    """Connections of a cgroup use SMC-R up to its limit; those of other cgroups do not stop there."""
    sides()
    background = topology.pair()
    topology.expect_smc(*background)
    with Cgroup(2 * LIMIT) as cgroup:
        with cgroup.entered() if side == "b" else contextlib.nullcontext():
            listening = topology.listener("b")
        with cgroup.entered() if side == "a" else contextlib.nullcontext():
            clients = fresh(MANY)
        listening.settimeout(topology.BOUND)
        pairs = connections(listening, clients)
        smc = outcome(side, pairs)
        equal(8 <= smc <= 17, True, "%d connections use SMC-R" % smc)
        charged = cgroup.current()
        equal(LIMIT * 3 // 4 <= charged <= 2 * LIMIT, True, "%d octets are charged" % charged)
        equal(cgroup.events("oom_kill"), "0", "killed processes")
        carry(pairs)
        topology.exchange(*background)
        another = topology.pair()
        topology.expect_smc(*another)
        topology.exchange(*another)
        close([*pairs, background, another])
        listening.close()
        topology.all_gone()


def cgroup_of_a_listener_is_charged():
    """The listener's cgroup pays for connections, also before accept()."""
    limited("b")


def cgroup_of_a_client_is_charged():
    """The client's cgroup pays for connections."""
    limited("a")


def open_many(cgroup, listening, told):
    """Runs in a process of its own: opens connections until there are THOUSANDS or no more can be
    had, reports the number, and keeps them."""
    sockets = []
    with cgroup.entered():
        with contextlib.suppress(OSError, MemoryError):
            while len(sockets) < THOUSANDS:
                sock = topology.new_socket("a")
                sock.settimeout(topology.BOUND)
                sock.connect(listening.getsockname())
                sockets.append(sock)
        os.write(told, b"%d" % len(sockets))
        signal.pause()


def accept_all(listening, child, end, each_thousand):
    """Accepts connections until the other process has reported its number or has ended; the sockets,
    and the number."""
    poll = select.poll()
    for fd in listening.fileno(), child.fd, end:
        poll.register(fd, select.POLLIN)
    sockets = []
    while (ready := {fd for fd, _ in poll.poll()}) == {listening.fileno()}:
        sockets.append(listening.accept()[0])
        if len(sockets) % 1000 == 1:
            each_thousand()
    return sockets, int(os.read(end, 16)) if end in ready else len(sockets)


def process_in_a_small_cgroup_opens_thousands():
    """A process with 64 MiB opens ten thousand connections: its limit stops it and no other process.
    Its TCP sockets alone exceed the limit, so the kernel may kill it."""
    topology.netns("up")
    resource.setrlimit(resource.RLIMIT_NOFILE, (3 * THOUSANDS, 3 * THOUSANDS))
    background = topology.pair()
    end, told = os.pipe()
    with Cgroup(SMALL) as cgroup, topology.listener("b") as listening:
        child = topology.Child(lambda: open_many(cgroup, listening, told))
        try:
            servers, opened = accept_all(listening, child, end, lambda: topology.exchange(*background))
            modes = [line["mode"] for line in topology.records("a", "conns")]
            print("# %d connections, %d by SMC-R, %s processes killed" % (
                opened, modes.count("smc"), cgroup.events("oom_kill")))
            equal(opened > 1000, True, "connections")
            equal(cgroup.current() <= SMALL, True, "octets that are charged")
            if not child.has_ended():
                equal(modes.count("smc") > SMALL // 4 // EACH, True, "connections by SMC-R")
                equal(modes.count("smc") < THOUSANDS // 2, True, "not all use SMC-R")
            # Other programs connect by RDMA as before.
            another = topology.pair()
            topology.expect_smc(*another)
            for pair in (background, another):
                topology.exchange(*pair)
        finally:
            child.kill()
    os.close(end)
    os.close(told)
    close([servers, background, another])
    topology.all_gone()


def namespace_has_a_limit():
    """Buffers of a namespace stop exactly at its limit."""
    sides()
    before = topology.counter("b", "buffer_bytes")
    write("b", "smcr_max_kbytes", (before + LIMIT) >> 10)
    with topology.listener("b") as listening:
        pairs = connections(listening, fresh(MANY))
        smc = outcome("b", pairs)
        equal(8 <= smc <= 17, True, "%d connections use SMC-R" % smc)
        used = topology.counter("b", "buffer_bytes") - before
        equal(LIMIT * 3 // 4 <= used <= LIMIT, True, "%d octets of buffers" % used)
        carry(pairs)
        close(pairs)
        # Closed connections free their elements, and the group all RMBs but its first.
        topology.until(lambda: topology.counter("b", "buffer_bytes") <= before + 4 * BUFFER,
                       "buffers are left", 90)
        pairs = connections(listening, fresh(2))
        equal([topology.mode("b", pair[1])[0] for pair in pairs], ["smc"] * 2, "modes")
        close(pairs)
    topology.all_gone()


@contextlib.contextmanager
def no_large_blocks():
    """Allocations of more than 32 KiB in one block fail, as in fragmented memory."""
    folder = pathlib.Path("/sys/kernel/debug/fail_page_alloc")
    if not folder.exists():
        raise ktap.Skip("the kernel has no fail_page_alloc")
    settings = {"task-filter": "N", "verbose": 0, "ignore-gfp-wait": "N", "min-order": 4, "times": -1,
                "probability": 100}
    for name, value in settings.items():
        (folder / name).write_text("%s\n" % value, encoding="ascii")
    try:
        yield
    finally:
        (folder / "probability").write_text("0\n", encoding="ascii")


def buffers_in_pieces_need_no_large_block():
    """Where no block of more than 32 KiB is free, a connection with contiguous buffers is one of TCP. The
    others have buffers of their whole size."""
    for kind in 0, 1, 2:
        sides()
        for side in "ab":
            write(side, "smcr_buf_type", kind)
        with topology.listener("b") as listening:
            # A group with as many connections as its first RMB has elements.
            pairs = connections(listening, fresh(4))
            with no_large_blocks():
                pairs += connections(listening, fresh(1))
        for pair in pairs[:4]:
            topology.expect_smc(*pair)
        client, server = pairs[-1]
        if kind == 0:
            equal(topology.mode("a", client), ("tcp", MEMORY), "contiguous buffers")
        else:
            topology.expect_smc(client, server)
            for sock, option in (client, socket.SO_SNDBUF), (server, socket.SO_RCVBUF):
                equal(sock.getsockopt(socket.SOL_SOCKET, option), 2 * BUFFER, "size")
        carry(pairs)
        close(pairs)
        topology.all_gone()


def initial_namespace_bounds_the_others():
    """A namespace cannot raise its limits above those of the initial one, which alone has the limit of
    all."""
    sides()
    equal((SETTINGS / "smcr_host_max_kbytes").exists(), True, "limit of the host")
    with topology.inside("b"):
        equal((SETTINGS / "smcr_host_max_kbytes").exists(), False, "limit of the host in b")
    write("b", "smcr_max_kbytes", 0x7fffffff)
    for name in ("smcr_max_kbytes", "smcr_host_max_kbytes"):
        was = read(None, name)
        write(None, name, 0)
        try:
            with topology.listener("b") as listening:
                pairs = connections(listening, fresh(1))
                equal(outcome("b", pairs), 0, "connections that use SMC-R")
                carry(pairs)
                close(pairs)
        finally:
            write(None, name, was)
    client, server = topology.pair()
    topology.expect_smc(client, server)
    close([(client, server)])
    topology.all_gone()


def unused_buffers_are_given_back():
    """Unused RMBs are freed on both sides, and can be made again."""
    sides()

    def most_rmbs(side):
        return max(int(line["rmbs"]) for line in topology.records(side, "links"))
    with topology.listener("b") as listening:
        pairs = connections(listening, fresh(20))
        equal([topology.mode("b", pair[1])[0] for pair in pairs], ["smc"] * 20, "modes")
        for side in "ab":
            equal(most_rmbs(side) > 1, True, "RMBs at " + side)
        close(pairs[1:])
        topology.until(lambda: {most_rmbs(side) for side in "ab"} == {1}, "RMBs are left", 60)
        topology.exchange(*pairs[0])
        more = connections(listening, fresh(20))
        equal([topology.mode("b", pair[1])[0] for pair in more], ["smc"] * 20, "modes")
        carry(more)
        close([pairs[0], *more])
    topology.all_gone()


def unread(count):
    """Makes connections whose server sends more than the client's buffer holds, and closes."""
    with topology.listener("b") as listening:
        pairs = connections(listening, fresh(count))
    equal({topology.mode("b", server)[0] for _, server in pairs}, {"smc"}, "modes")
    for _, server in pairs:
        server.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                server.send(b"x" * 65536)
        server.close()
    return [client for client, _ in pairs]


def orphans_are_limited():
    """A server's close with data in flight is a reset if too many other closes are in progress."""
    sides()
    write("b", "smcr_max_orphans", 3)
    clients = unread(5)
    ends = [topology.error_of(drain, client) for client in clients]
    equal(ends, ["none"] * 3 + ["ECONNRESET"] * 2, "ends of the clients")
    for client in clients:
        client.close()
    topology.until(lambda: topology.counter("b", "orphans") == 0, "orphans are left")
    # There is room again.
    clients = unread(3)
    equal([topology.error_of(drain, client) for client in clients], ["none"] * 3, "ends of the clients")
    for client in clients:
        client.close()
    topology.all_gone()


def drain(client):
    """Reads to the end."""
    while client.recv(65536):
        pass


def slow_reader_does_not_hold_an_orphan():
    """A client that reads slowly does not keep a closed connection beyond its time limit."""
    sides()
    write("b", "smcr_orphan_time", 6)
    # The data in the send buffer do not fit into the client's element.
    write("a", "rmem", 16384)
    begin = time.monotonic()
    client, = unread(1)
    equal(topology.counter("b", "orphans"), 1, "orphans")

    def over():
        client.recv(100)
        return topology.counter("b", "orphans") == 0
    topology.until(over, "the closed connection lives", 30)
    equal(time.monotonic() - begin >= 5.9, True, "time until the end")
    # Earlier data stay readable.
    equal(topology.error_of(drain, client), "ECONNRESET", "end of the client")
    client.close()
    topology.all_gone()


def main():
    """Runs all tests."""
    topology.need_module()
    return ktap.run([cgroup_of_a_listener_is_charged, cgroup_of_a_client_is_charged,
                     process_in_a_small_cgroup_opens_thousands,
                     namespace_has_a_limit, buffers_in_pieces_need_no_large_block,
                     initial_namespace_bounds_the_others,
                     unused_buffers_are_given_back, orphans_are_limited,
                     slow_reader_does_not_hold_an_orphan])


if __name__ == "__main__":
    sys.exit(main())
