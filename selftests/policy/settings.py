#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The files of /proc/sys/net/smc: names, limits, values per network namespace, and effects."""

import errno
import fcntl
import os
import pathlib
import socket
import struct
import sys
import time

import ktap
import topology
from ktap import equal, fails
from topology import all_gone, expect_smc, pair

DEFAULTS = {"autocorking_size": 65536, "smcr_testlink_time": 30, "wmem": 262144, "rmem": 262144,
            "smcr_max_links_per_lgr": 2, "smcr_max_conns_per_lgr": 255, "smcr_max_send_wr": 48,
            "smcr_max_recv_wr": 128, "limit_smc_hs": 0, "smcr_buf_type": 0, "smcr_share_buffers": 1,
            "smcr_max_forming_lgrs": 256, "smcr_max_forming_lgrs_per_peer": 16,
            "smcr_max_orphans": 16384, "smcr_orphan_time": 600, "smcr_spin_us": 100}
FOLDER = pathlib.Path("/proc/sys/net/smc")
RANGES = {"autocorking_size": (0, 2147483647), "smcr_testlink_time": (0, 2147483647),
          "wmem": (16384, 1073741823), "rmem": (16384, 1073741823),
          "smcr_max_links_per_lgr": (1, 8), "smcr_max_conns_per_lgr": (16, 255),
          "smcr_max_send_wr": (2, 2048), "smcr_max_recv_wr": (2, 2048),
          "limit_smc_hs": (0, 1), "smcr_buf_type": (0, 2), "smcr_share_buffers": (0, 1),
          "smcr_max_forming_lgrs": (0, 2147483647),
          "smcr_max_forming_lgrs_per_peer": (0, 2147483647),
          "smcr_max_orphans": (0, 2147483647), "smcr_orphan_time": (1, 2147483647), "smcr_spin_us": (0, 10000)}


def read(side, name):
    """Reads a value of a side."""
    with topology.inside(side):
        return int((FOLDER / name).read_text(encoding="ascii"))


def write(side, name, value):
    """Sets a value of a side."""
    with topology.inside(side):
        (FOLDER / name).write_text("%d\n" % value, encoding="ascii")


def defaults():
    """A new namespace has the values of the C implementation."""
    topology.netns("up")
    for side in "ab":
        for name, value in DEFAULTS.items():
            equal(read(side, name), value, name + " at " + side)


def limits():
    """A value out of range is refused and changes nothing."""
    topology.netns("up")
    for name, (low, high) in RANGES.items():
        for value in (low - 1, high + 1, -2147483648):
            fails(errno.EINVAL, write, "a", name, value)
            equal(read("a", name), DEFAULTS[name], name)
        for value in (low, high):
            write("a", name, value)
            equal(read("a", name), value, name)


def namespaces_have_their_own():
    """A change is visible neither on the other side nor in a later namespace."""
    topology.netns("up")
    for name in DEFAULTS:
        write("a", name, RANGES[name][0])
        equal(read("b", name), DEFAULTS[name], name + " at b")
        equal(read(None, name), DEFAULTS[name], name + " at home")
    topology.command("ip", "netns", "add", "rs-other")
    try:
        for name, value in DEFAULTS.items():
            equal(read("other", name), value, name + " in a new namespace")
    finally:
        topology.command("ip", "netns", "delete", "rs-other")


def buffers(wmem, rmem, sndbuf=None, rcvbuf=None, kind=0):
    """A connection holds exactly the sizes of its send buffer and of the peer's element."""
    topology.netns("up")
    write("a", "wmem", wmem)
    write("b", "rmem", rmem)
    for side in "ab":
        write(side, "smcr_buf_type", kind)
    with topology.listener("b") as listening:
        if rcvbuf:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        client = topology.new_socket("a")
        if sndbuf:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sndbuf)
        client.connect(listening.getsockname())
        server, _ = listening.accept()
    # As with TCP, twice the size.
    equal(client.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), 2 * (sndbuf or wmem), "SO_SNDBUF")
    equal(server.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), 2 * (rcvbuf or rmem), "SO_RCVBUF")
    takes(client, server, (sndbuf or wmem) + (rcvbuf or rmem))
    client.close()
    server.close()
    all_gone()


def takes(client, server, want):
    """Fails unless the connection takes `size` octets and no more."""
    expect_smc(client, server)
    # A blocked writer is woken when a third of its buffer is free, as with TCP, which may be more
    # than the element takes. A non-blocking writer finds every octet.
    client.setblocking(False)
    left = [want]

    def accepted():
        try:
            left[0] -= client.send(bytes(left[0]))
        except BlockingIOError:
            pass
        return left[0] == 0

    topology.until(accepted, "the connection takes less than %d" % want)
    fails(errno.EAGAIN, client.send, b"x")
    server.settimeout(topology.BOUND)
    equal(len(topology.receive(server, want)), want, "received")


def many_share():
    """New connections get smaller buffers the more connections the link group has, unless the program
    or the administrator has set the size."""
    topology.netns("up")
    whole = DEFAULTS["wmem"]
    ends = []

    def next_takes(part, **options):
        ends.append(pair(**options))
        takes(*ends[-1], whole // part + options.get("rcvbuf", whole // part))

    for others in range(70):
        if others in (0, 3, 4, 15, 16, 63, 64, 69):
            next_takes(1 + 3 * (others >= 4) + 4 * (others >= 16) + 8 * (others >= 64))
        else:
            ends.append(pair())
    next_takes(16, rcvbuf=65536)
    for side in "a", "b":
        write(side, "smcr_share_buffers", 0)
    next_takes(1)
    for end in sum(ends, ()):
        end.close()
    all_gone()


def buffer_sizes():
    """wmem and rmem are the sizes of the send buffer and of the element."""
    # RMB-11, WIN-12.
    buffers(16384, 16384)
    buffers(131072, 32768)
    buffers(65536, 262144)


def sizes_beyond_the_rfc():
    """Where memory allows it, buffers are larger than those of the RFC; soft-RoCE covers 2 MiB at a time."""
    # DEP-5.
    for sizes in (65536, 1 << 20), (1 << 20, 65536), (65536, 2 << 20):
        # Else the kernel may have no block that is large enough. Not every kernel has both.
        for name, word in ("drop_caches", "3"), ("compact_memory", "1"):
            file = pathlib.Path("/proc/sys/vm", name)
            if file.exists():
                file.write_text(word, encoding="ascii")
        buffers(*sizes)


def buffers_in_pieces_have_their_size():
    """Buffers of type 1 need no large block of memory. They have their whole size, and carry data."""
    for size in 16384, 65536, 131072, 1 << 20:
        buffers(size, size, kind=1)
    for kinds in (1, 1), (2, 2), (0, 1), (1, 0):
        topology.netns("up")
        for side, kind in zip("ab", kinds):
            write(side, "smcr_buf_type", kind)
        client, server = pair()
        expect_smc(client, server)
        # More than a chain of writes takes, with ends that are no borders of pieces.
        for size in 1, 99991, 3000001:
            topology.exchange(client, server, size)
        client.close()
        server.close()
        all_gone()


def sizes_of_the_socket_come_first():
    """SO_SNDBUF and SO_RCVBUF override wmem and rmem."""
    # API-04, TST-144.
    buffers(16384, 16384, sndbuf=65536, rcvbuf=131072)


def posts_of(side):
    """The number of chains posted on the links of a side."""
    return sum(int(line.get("posts", 0)) for line in topology.records(side, "links"))


def idle_links_are_tested():
    """Each side tests an idle link after its own time, and answers the tests of the other side."""
    # KAL-02, KAL-03, TST-138.
    topology.netns("up")
    write("a", "smcr_testlink_time", 1)
    write("b", "smcr_testlink_time", 0)
    client, server = pair()
    expect_smc(client, server)
    before = posts_of("a"), posts_of("b")
    # Requests of a, and answers of b.
    topology.until(lambda: posts_of("a") >= before[0] + 2, "tests by a")
    topology.until(lambda: posts_of("b") >= before[1] + 2, "answers by b")
    expect_smc(client, server)
    client.close()
    server.close()
    all_gone()


def groups_hold_so_many_connections():
    """A server adds further connections to another link group."""
    topology.netns("up")
    write("b", "smcr_max_conns_per_lgr", 16)
    ends = [pair() for _ in range(20)]
    for client, server in ends:
        expect_smc(client, server)
    for side in "ab":
        shares = sorted(int(line["conns"]) for line in topology.records(side, "links"))
        equal(shares, [4, 16], "connections by link of " + side)
    for sock in sum(ends, ()):
        sock.close()
    all_gone()


def links_carry_so_many_messages():
    """A new link has the configured number of slots, and connections work with few."""
    topology.netns("up")
    write("a", "smcr_max_send_wr", 2)
    write("b", "smcr_max_send_wr", 4)
    write("b", "smcr_max_recv_wr", 2048)
    ends = [pair() for _ in range(8)]
    for client, server in ends:
        expect_smc(client, server)
    for side, slots in ("a", ("2", "128")), ("b", ("4", "2048")):
        for line in topology.records(side, "links"):
            equal((line["send_wr"], line["recv_wr"]), slots, "slots of " + side)
    for client, server in ends:
        client.sendall(b"x" * 50000)
        server.sendall(b"y" * 50000)
    for client, server in ends:
        equal(topology.receive(client, 50000), b"y" * 50000, "received by the client")
        equal(topology.receive(server, 50000), b"x" * 50000, "received by the server")
    for sock in sum(ends, ()):
        sock.close()
    all_gone()


def fewest_messages_do():
    """With the least number of messages, connections that take turns wait for each other no longer than
    the device takes."""
    topology.netns("up")
    for side in "ab":
        write(side, "smcr_max_send_wr", 2)
    ends = [pair() for _ in range(3)]
    begin = time.monotonic()
    for _ in range(100):
        for client, server in ends:
            expect_smc(client, server)
            client.sendall(b"x")
        for client, server in ends:
            equal(topology.receive(server, 1), b"x", "received by the server")
            server.sendall(b"y")
        for client, _ in ends:
            equal(topology.receive(client, 1), b"y", "received by the client")
    took = time.monotonic() - begin
    equal(took < 30 * topology.SLOW, True, "100 turns took %.1f s" % took)
    for sock in sum(ends, ()):
        sock.close()
    all_gone()


def small_data_waits_or_not():
    """With 0 each write is sent at once; otherwise a write may wait for the completion of the one
    before."""
    # WIN-09, WIN-10, TST-137.
    count = 200
    for size in (0, 65536):
        topology.netns("up")
        write("a", "autocorking_size", size)
        client, server = pair()
        expect_smc(client, server)
        before = topology.counter("a", "tx_writes")
        for _ in range(count):
            client.send(b"0123456789")
            if size == 0:
                # No data remain that could wait with the next write.
                topology.until(lambda: outq_unsent(client) == 0, "data wait")
        equal(len(topology.receive(server, 10 * count)), 10 * count, "received")
        increase = topology.counter("a", "tx_writes") - before
        if size == 0:
            equal(increase >= count, True, "%d writes for %d sends" % (increase, count))
        client.close()
        server.close()
        all_gone()


def outq_unsent(sock):
    """SIOCOUTQNSD."""
    return struct.unpack("i", fcntl.ioctl(sock, 0x894b, bytes(4)))[0]


def gone_with_the_module():
    """Unloading removes the files, and loading creates them with their defaults."""
    file = topology.module_file()
    if file is None:
        raise ktap.Skip("the module's file is not here")
    words = topology.module_parameters()
    topology.netns("up")
    write("a", "wmem", 20000)
    topology.until(lambda: topology.module_users() == 0, "the module is in use")
    topology.command("rmmod", "rdma_sock")
    try:
        with topology.inside("a"):
            equal(os.path.exists(FOLDER), False, "%s exists" % FOLDER)
    finally:
        topology.command("insmod", str(file), *words)
    equal(read("a", "wmem"), DEFAULTS["wmem"], "wmem")


def main():
    """Runs all tests."""
    topology.need_module()
    return ktap.run([defaults, limits, namespaces_have_their_own, buffer_sizes,
                     sizes_beyond_the_rfc, buffers_in_pieces_have_their_size,
                     sizes_of_the_socket_come_first, many_share, idle_links_are_tested,
                     groups_hold_so_many_connections, links_carry_so_many_messages, fewest_messages_do,
                     small_data_waits_or_not, gone_with_the_module])


if __name__ == "__main__":
    sys.exit(main())
