# SPDX-License-Identifier: GPL-2.0
"""Two hosts with up to four RDMA devices each, the state of their link groups, and streams with every
octet compared."""

import atexit
import hashlib
import mmap
import os
import pathlib
import select
import socket
import struct
import subprocess
import time

import ktap
import topology
from topology import Child

HERE = pathlib.Path(__file__).resolve().parent
BLOCK = 16384
SO_ZEROCOPY = 60
MSG_ZEROCOPY = 0x4000000
# Time limit for a move to another link. A test of 2 s detects a dead one; a second link whose set-up failed,
# because an answer took too long, is tried again after a minute.
SECONDS = 100 * topology.SLOW
# Pause between two blocks of a stream, without which kernels with every checker do nothing else.
PAUSE = 0.05 if topology.SLOW > 1 else 0


def wires(*words):
    """Runs wires.sh."""
    done = subprocess.run([HERE / "wires.sh", *words], check=False)
    if done.returncode != 0:
        raise AssertionError("wires.sh %s failed" % " ".join(words))


def need():
    """Ends the program as skipped where these tests cannot run."""
    topology.need_module()
    atexit.register(wires, "down")


def hosts(*devices):
    """Makes two new hosts with these RDMA devices."""
    devices = devices or ("a1", "a2", "b1", "b2")
    wires("up", max("2", *(name[1:] for name in devices)))
    for device in devices:
        wires("add", device)


def allow(side, number):
    """Sets the limit of links in new link groups of a side."""
    with topology.inside(side):
        file = pathlib.Path("/proc/sys/net/smc/smcr_max_links_per_lgr")
        file.write_text("%d\n" % number, encoding="ascii")


def one_pair(rcvbuf=None):
    """A connection that has carried data."""
    client, server = topology.pair(rcvbuf=rcvbuf)
    topology.expect_smc(client, server)
    topology.exchange(client, server)
    return client, server


def close(*pairs):
    """Closes connections and waits for their end."""
    for ends in pairs:
        for sock in ends:
            sock.close()
    topology.all_gone()


def remove(device):
    """Removes an RDMA device."""
    topology.command("rdma", "link", "delete", "rs_" + device)


def links(side):
    """The links of a side that connections may use."""
    return [line for line in topology.records(side, "links") if line["state"] == "active"]


def device_of(line):
    """The short name of the device of a record: a1, and so on."""
    return line["dev"][-2:]


def await_that(condition, what):
    """Waits for a state of the links; prints the links if the state does not come."""
    try:
        topology.until(condition, what, SECONDS)
    except AssertionError:
        for side in "ab":
            for line in topology.proc(side, "links").splitlines():
                print("# %s: %s" % (side, line))
        raise


def await_links(*devices):
    """Waits until each of these devices has exactly one link, and no other device has one."""
    def there():
        found = [device_of(line) for side in "ab" for line in links(side)]
        return sorted(found) == sorted(devices)
    await_that(there, "links on " + " ".join(devices))


def await_gone(device):
    """Waits until no link uses the device and both sides have a link without it."""
    def gone():
        return all(links(side) and device not in map(device_of, topology.records(side, "links"))
                   for side in "ab")
    await_that(gone, "end of links on " + device)


def written(side, *but):
    """Octets written by the links of one side, except those on some devices."""
    return sum(int(line["write_bytes"]) for line in topology.records(side, "links")
               if device_of(line) not in but)


def used(side):
    """The devices by which the connections of a side write."""
    return [device_of(line) for line in topology.records(side, "conns")
            if line["mode"] == "smc" and "dev" in line]


def block(number):
    """A block of a stream."""
    return hashlib.shake_128(b"%d" % number).digest(BLOCK)


class Lender:
    """A writer with MSG_ZEROCOPY that reuses memory after its completion."""

    CALLS = 32

    def __init__(self, sock):
        sock.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
        self.sock = sock
        self.memory = mmap.mmap(-1, self.CALLS * BLOCK)
        self.used = self.calls = self.done = 0

    def send(self, data):
        """Sends a whole block."""
        if self.used == self.CALLS:
            self.await_all()
        place = self.used * BLOCK
        self.used += 1
        self.memory[place:place + BLOCK] = data
        rest = memoryview(self.memory)[place:place + BLOCK]
        while rest:
            rest = rest[self.sock.send(rest, MSG_ZEROCOPY):]
            self.calls += 1

    def await_all(self):
        """Waits until all calls are completed."""
        events = select.poll()
        events.register(self.sock, 0)
        while self.done < self.calls:
            if not events.poll(SECONDS * 1000):
                raise AssertionError("no completion of a zero-copy call")
            try:
                _, said, _, _ = self.sock.recvmsg(0, 512, socket.MSG_ERRQUEUE)
            except BlockingIOError:
                continue
            # The last two numbers of struct sock_extended_err are the first and the last call.
            first, last = struct.unpack_from("=II", said[0][2], 8)
            self.done += last - first + 1
        self.used = 0


def send_blocks(sock, first, more, lend=False):
    """Sends blocks while `more` is true; their number."""
    number = first
    send = Lender(sock).send if lend else sock.sendall
    while more(number):
        send(block(number))
        number += 1
        if PAUSE:
            time.sleep(PAUSE)
    return number


def check_stream(sock, at_least=0):
    """Receives a stream to its end and compares each octet."""
    number = 0
    while True:
        data = topology.receive(sock, BLOCK)
        if not data:
            break
        if data != block(number)[:len(data)]:
            raise AssertionError("piece %d of the stream is wrong" % number)
        if len(data) < BLOCK:
            raise AssertionError("piece %d of the stream is cut" % number)
        number += 1
    if number < at_least:
        raise AssertionError("only %d pieces" % number)


class Stream:
    """A connection with endless traffic in one direction."""

    def __init__(self, forth=True, lend=False):
        client, server = topology.pair()
        topology.expect_smc(client, server)
        source, sink = (client, server) if forth else (server, client)
        source.settimeout(SECONDS)
        sink.settimeout(SECONDS)
        stop, self.running = os.pipe()

        def write():
            sink.close()
            os.close(self.running)
            os.set_blocking(stop, False)

            def more(_):
                try:
                    os.read(stop, 1)
                except BlockingIOError:
                    return True
                return False
            send_blocks(source, 0, more, lend)
            source.close()

        def read():
            source.close()
            os.close(self.running)
            check_stream(sink, 1)
            sink.close()

        self.reader = Child(read)
        self.writer = Child(write)
        os.close(stop)
        client.close()
        server.close()

    def end(self):
        """Ends the traffic; fails if an octet was lost, doubled or changed."""
        os.write(self.running, b"x")
        os.close(self.running)
        self.writer.expect_success(SECONDS)
        self.reader.expect_success(SECONDS)


class Load:
    """Streams in both directions, with a copy or with MSG_ZEROCOPY. Checked at the end of the block."""

    def __init__(self, count=4, lend=False):
        self.count = count
        self.lend = lend
        self.streams = []

    def __enter__(self):
        self.streams = [Stream(number % 2 == 0, self.lend) for number in range(self.count)]
        self.flows("the first data")
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            for stream in self.streams:
                stream.end()
            topology.all_gone()
        else:
            for stream in self.streams:
                stream.writer.give_up()
                stream.reader.give_up()

    def flows(self, what):
        """Waits until both sides have sent another megabyte."""
        before = {side: topology.counter(side, "tx_bytes") for side in "ab"}
        topology.until(lambda: all(topology.counter(side, "tx_bytes") > before[side] + 1000000
                                   for side in "ab"), what, SECONDS)


def main(tests):
    """Runs the tests, and removes the hosts."""
    need()
    return ktap.run(tests)
