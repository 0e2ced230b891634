#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Sockets of RDS over devices of the type rsoft: messages, and octets that one side reads and writes in the
memory of the other one.

Covers RNIC-MR-08, RNIC-RSP-08.
"""

import ctypes
import json
import mmap
import os
import random
import select
import socket
import struct
import sys

import kernel_wire as wire
import ktap
import topology
from ktap import equal, named
from topology import command

SOFT = "rdma_soft"
FILE = topology.module_file(SOFT)
PORT = 4000
# <linux/rds.h>.
SOL_RDS = 276
FREE_MR = 3
RDMA_ARGS, RDMA_DEST, RDMA_MAP, RDMA_STATUS = 1, 2, 3, 4
TO_REMOTE, INVALIDATE, NOTIFY_ME = 1, 4, 0x20
SIZES = [1, 100, 4096, 4097, 65536, 300000, 1000000]


def octets(seed, size):
    """Octets that a seed determines."""
    return random.Random(seed).randbytes(size)


class Memory:
    """Memory with an address that others may read and write."""

    def __init__(self, size):
        self.map = mmap.mmap(-1, size)
        self.size = size
        # Keeps the address.
        self.view = (ctypes.c_char * size).from_buffer(self.map)
        self.address = ctypes.addressof(self.view)


class End:
    """A socket of one end of the wire."""

    def __init__(self, end):
        self.end = end
        self.sock = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET, 0)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.sock.bind((end[2], PORT))
        self.sock.settimeout(topology.BOUND)

    def send(self, to, data, cmsgs=()):
        """Sends a message."""
        equal(self.sock.sendmsg([data], cmsgs, 0, (to.end[2], PORT)), len(data), "octets sent")

    def receive(self):
        """Receives a message: its octets, and the address of its sender."""
        data, _, _, sender = self.sock.recvmsg(2 << 20)
        return data, sender[0]

    def expose(self, to, memory):
        """Sends a message that lets the peer read and write memory."""
        words = struct.pack("=QQQQ", memory.address, memory.size, 0, TO_REMOTE)
        self.send(to, b"exposed", [(SOL_RDS, RDMA_MAP, words)])

    def receive_cookie(self):
        """Receives such a message: the cookie of the memory."""
        data, cmsgs, _, _ = self.sock.recvmsg(16, 256)
        equal(data, b"exposed", "message")
        (_, kind, words), = cmsgs
        equal(kind, RDMA_DEST, "kind of news")
        return struct.unpack("=Q", words[:8])[0]

    def withdraw(self, cookie):
        """Ends access by a cookie."""
        self.sock.setsockopt(SOL_RDS, FREE_MR, struct.pack("=QQ", cookie, INVALIDATE))

    def move(self, to, cookie, offset, memory, flags):
        """Writes memory to the peer's, or reads it from there, from an offset on. The status."""
        vector = (ctypes.c_uint64 * 2)(memory.address, memory.size)
        words = struct.pack("=QQQQQQQ", cookie, offset, memory.size, ctypes.addressof(vector), 1,
                            flags | NOTIFY_ME, 77)
        self.send(to, b"moved", [(SOL_RDS, RDMA_ARGS, words)])
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        equal(bool(poll.poll(topology.BOUND * 1000)), True, "status of a transfer")
        _, cmsgs, _, _ = self.sock.recvmsg(16, 256)
        (_, kind, words), = cmsgs
        equal(kind, RDMA_STATUS, "kind of news")
        token, status = struct.unpack("=Qi", words[:12])
        equal(token, 77, "token")
        return status

    def close(self):
        """Closes it."""
        self.sock.close()


class Pair:
    """The sockets of both ends."""

    def __init__(self):
        self.left = None
        self.right = None

    def open(self):
        """Opens both."""
        self.left, self.right = End(wire.HOST), End(wire.TARGET)

    def close(self):
        """Closes both."""
        self.left.close()
        self.right.close()


def messages_arrive(pair):
    """Messages of many sizes, both ways."""
    pair.open()
    with wire.carried("rsoft", sum(SIZES), sum(SIZES)):
        for size in SIZES:
            for sender, receiver in (pair.left, pair.right), (pair.right, pair.left):
                data = octets(size, size)
                sender.send(receiver, data)
                found, address = receiver.receive()
                equal(address, sender.end[2], "sender")
                equal(found == data, True, "message of %d octets" % size)
    equal("rds_rdma" in wire.owners(wire.HOST[1]), True, str(wire.owners(wire.HOST[1])))


def messages_keep_their_order(pair):
    """Many messages under way."""
    for number in range(300):
        pair.left.send(pair.right, octets(number, number * 7))
    for number in range(300):
        equal(pair.right.receive()[0] == octets(number, number * 7), True, "message %d" % number)


def memory_is_written_and_read(pair):
    """The right side writes a part of the left side's memory, and reads it back."""
    size = 200000
    memory, piece = Memory(size), Memory(50000)
    memory.map[:] = octets("memory", size)
    want = bytearray(memory.map)
    pair.left.expose(pair.right, memory)
    cookie = pair.right.receive_cookie()
    data = octets("piece", piece.size)
    piece.map[:] = data
    equal(pair.right.move(pair.left, cookie, 10001, piece, TO_REMOTE), 0, "status of a write")
    equal(pair.left.receive()[0], b"moved", "message behind the write")
    want[10001:10001 + piece.size] = data
    equal(memory.map[:] == want, True, "memory after the write")
    piece.map[:] = bytes(piece.size)
    equal(pair.right.move(pair.left, cookie, 5000, piece, 0), 0, "status of a read")
    equal(pair.left.receive()[0], b"moved", "message behind the read")
    equal(piece.map[:] == want[5000:5000 + piece.size], True, "what was read")
    pair.left.withdraw(cookie)


def withdrawn_memory_stays(pair):
    """An access by a cookie that is valid no longer fails, and messages go on."""
    memory, piece = Memory(8192), Memory(4096)
    pair.left.expose(pair.right, memory)
    cookie = pair.right.receive_cookie()
    pair.left.withdraw(cookie)
    piece.map[:] = octets("late", piece.size)

    def is_refused():
        memory.map[:] = bytes(memory.size)
        return pair.right.move(pair.left, cookie, 0, piece, TO_REMOTE) != 0
    # The message that exposed the memory keeps it until it is acknowledged.
    topology.until(is_refused, "end of access")
    equal(memory.map[:], bytes(memory.size), "memory")
    pair.right.send(pair.left, b"next")
    topology.until(lambda: pair.left.receive()[0] == b"next", "message after a failure")


def device_comes_back(pair):
    """Messages wait for a device that goes and comes again."""
    with topology.bounded(60):
        command("rdma", "link", "delete", wire.TARGET[1])
    pair.left.send(pair.right, b"late")
    wire.add_link(wire.TARGET, "rsoft")
    equal(pair.right.receive()[0], b"late", "message")
    pair.right.send(pair.left, b"back")
    equal(pair.left.receive()[0], b"back", "message of the other side")
    topology.until(are_connected, "connections that are up")
    pair.close()


def are_connected():
    """Whether each device has queue pairs, all of them are connected, and no end connects anew."""
    shown = json.loads(command("rdma", "-j", "resource", "show", "qp"))
    pairs = [(row["ifname"], row["state"]) for row in shown if row["type"] == "RC"]
    ids = {row["state"] for row in json.loads(command("rdma", "-j", "resource", "show", "cm_id"))}
    return ({name for name, _ in pairs} == {wire.HOST[1], wire.TARGET[1]} and
            {state for _, state in pairs} == {"RTS"} and ids <= {"CONNECT", "LISTEN"})


def nothing_is_left():
    """All objects go with the module of RDS. A connection that is being set up again then may corrupt a list of the
    kernel, as rds_ib_destroy_nodev_conns() takes the elements of it and keeps its head."""
    command("rmmod", "rds_rdma")
    for end in wire.HOST, wire.TARGET:
        topology.until(lambda name=end[1]: wire.owners(name) <= {"ib_core"}, "end of the objects of RDS")
    wire.down()
    topology.until(lambda: topology.module_users(SOFT) == 0, "users of the module")


def main():
    """Runs the tests with the module loaded."""
    if os.geteuid() != 0:
        ktap.skip_all("needs root")
    if FILE is None:
        ktap.skip_all("the module's file is not here")
    if os.path.isdir("/sys/module/" + SOFT):
        ktap.skip_all("%s is loaded" % SOFT)
    command("modprobe", "rds_rdma", check=False)
    if not os.path.isdir("/sys/module/rds_rdma"):
        ktap.skip_all("this kernel has no RDS")
    topology.load_needed(FILE)
    command("insmod", str(FILE))
    try:
        wire.up("rsoft")
        pair = Pair()
        tests = [named(test.__name__, test, pair)
                 for test in (messages_arrive, messages_keep_their_order, memory_is_written_and_read,
                              withdrawn_memory_stays, device_comes_back)]
        return ktap.run(tests + [nothing_is_left])
    finally:
        wire.down()
        command("rmmod", SOFT, check=False)


if __name__ == "__main__":
    sys.exit(main())
