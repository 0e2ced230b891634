#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What an administrator's tools ask the kernel: sock_diag for family 43, and SMC_GEN_NETLINK."""

import os
import socket
import struct

import topology

NETLINK_SOCK_DIAG, NETLINK_GENERIC = 4, 16
SOCK_DIAG_BY_FAMILY = 20
GENL_CONTROLLER, GET_FAMILY = 16, 3
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST, MULTI, ACK, ROOT, DUMP, DUMP_INTR = 1, 2, 4, 0x100, 0x300, 0x10
CONNINFO, LGRINFO, SHUTDOWN, FALLBACK = 1, 2, 3, 5
# Octets that the tools have for an answer.
ROOM = 32768

(SYSTEM, GROUPS, LINKS, SMCD_GROUPS, SMCD_DEVICES, DEVICES, COUNTS, FALLBACKS, EIDS, ADD_EID,
 REMOVE_EID, FLUSH_EIDS, SEID, ENABLE_SEID, DISABLE_SEID, LIMIT, ENABLE_LIMIT,
 DISABLE_LIMIT) = range(1, 19)


def attribute(kind, data):
    """One encoded attribute."""
    size = 4 + len(data)
    return struct.pack("=HH", size, kind) + data + bytes(-size % 4)


def attributes(data):
    """Splits octets into attributes: type to value. Fails for octets that are none."""
    found = {}
    while data:
        if len(data) < 4:
            raise AssertionError("octets behind the last attribute: %r" % data)
        size, kind = struct.unpack_from("=HH", data)
        if not 4 <= size <= len(data):
            raise AssertionError("length %d of %d" % (size, len(data)))
        found[kind & 0x3fff] = data[4:size]
        data = data[(size + 3) & ~3:]
    return found


def number(octets):
    """A number in the host's order."""
    return int.from_bytes(octets, "little")


class Netlink:
    """A socket of a netlink protocol in the namespace of a side."""

    def __init__(self, side, protocol):
        with topology.inside(side):
            self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self.sock.settimeout(topology.BOUND)
        self.sock.bind((0, 0))
        self.serial = 123456

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, kind, flags, body):
        """Sends a request."""
        self.serial += 1
        header = struct.pack("=IHHII", 16 + len(body), kind, flags, self.serial, 0)
        self.sock.send(header + body)

    def piece(self):
        """The messages of one piece of an answer: (type, flags, body)."""
        octets = self.sock.recv(ROOM)
        while len(octets) >= 16:
            size, kind, flags, serial, _ = struct.unpack_from("=IHHII", octets)
            if not 16 <= size <= len(octets):
                raise AssertionError("length %d of %d" % (size, len(octets)))
            if serial != self.serial:
                raise AssertionError("serial %d" % serial)
            yield kind, flags, octets[16:size]
            octets = octets[(size + 3) & ~3:]

    def answers(self, is_dump):
        """All bodies of an answer; raises its error."""
        while True:
            for kind, flags, body in self.piece():
                if kind in (NLMSG_ERROR, NLMSG_DONE):
                    code = -struct.unpack_from("=i", body)[0]
                    if code:
                        raise OSError(code, os.strerror(code))
                    return
                if flags & DUMP_INTR or bool(flags & MULTI) != is_dump:
                    raise AssertionError("flags %#x" % flags)
                yield body


class Socket:
    """A socket as sock_diag shows it."""

    def __init__(self, body):
        (self.family, self.state, self.mode, zero) = body[:4]
        if zero:
            raise AssertionError("octet 3 is %d" % zero)
        self.sport, self.dport = struct.unpack_from("!HH", body, 4)
        self.src, self.dst = body[8:24], body[24:40]
        self.ifindex, low, high, self.uid, self.inode = struct.unpack_from("=IIIIQ", body, 40)
        self.cookie = high << 32 | low
        self.parts = attributes(body[64:])
        self.shutdown = number(self.parts[SHUTDOWN])
        self.fallback = struct.unpack("=II", self.parts[FALLBACK])

    def shape(self):
        """The attributes, with their lengths."""
        return {kind: len(value) for kind, value in self.parts.items()}


def request(ext=0):
    """The body of a request as smcss sends it."""
    return struct.pack("=BBBB", 43, 0, 0, ext) + bytes(48)


def sockets(side, ext=0, flags=REQUEST | ROOT):
    """The sockets of a side."""
    with Netlink(side, NETLINK_SOCK_DIAG) as diag:
        diag.send(SOCK_DIAG_BY_FAMILY, flags, request(ext))
        return [Socket(body) for body in diag.answers(True)]


def find(side, sock, ext=0):
    """The entry of a socket."""
    port = sock.getsockname()[1]
    try:
        peer = sock.getpeername()[1]
    except OSError:
        peer = 0
    found = [entry for entry in sockets(side, ext) if (entry.sport, entry.dport) == (port, peer)]
    if len(found) != 1:
        raise AssertionError("%d entries for ports %d, %d" % (len(found), port, peer))
    return found[0]


class Commands(Netlink):
    """The family SMC_GEN_NETLINK, as a side uses it."""

    def __init__(self, side, name=b"SMC_GEN_NETLINK"):
        super().__init__(side, NETLINK_GENERIC)
        body = struct.pack("=BBH", GET_FAMILY, 1, 0) + attribute(2, name + b"\0")
        self.send(GENL_CONTROLLER, REQUEST | ACK, body)
        (self.about,) = [attributes(body[4:]) for body in self.answers(False)]
        self.family = number(self.about[1])

    def ask(self, command, data=b"", flags=DUMP):
        """Sends a command; the attributes of all answers."""
        self.send(self.family, REQUEST | ACK | flags, struct.pack("=BBH", command, 1, 0) + data)
        found = []
        for body in self.answers(bool(flags)):
            if body[0] != command or body[1] != 1:
                raise AssertionError("answer of command %d, version %d" % (body[0], body[1]))
            found.append(attributes(body[4:]))
        return found

    def dump(self, command, kind):
        """The attributes of all objects of a type."""
        return [attributes(found[kind]) for found in self.ask(command)]

    def change(self, command, data=b""):
        """Changes something."""
        if self.ask(command, data, 0):
            raise AssertionError("an answer")


def eid(name):
    """The attribute of an identifier, as the tools send it."""
    return attribute(1, name.encode().ljust(32) + b"\0")
