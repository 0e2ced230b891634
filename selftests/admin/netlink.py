#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What an administrator's tools ask the kernel: sock_diag for family 43, SMC_GEN_NETLINK and SMC_PNETID."""

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

LIST_NETS, ADD_NET, REMOVE_NET, FLUSH_NETS = range(1, 5)


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
                    # The end of a reply that is no dump has no code.
                    code = -struct.unpack_from("=i", body)[0] if body or kind == NLMSG_ERROR else 0
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


def network(name=None, netdev=None, device=None, port=None):
    """The attributes of a request about a physical network, as smc_pnet sends them."""
    texts = [attribute(kind, text.encode() + b"\0")
             for kind, text in ((1, name), (2, netdev), (3, device)) if text is not None]
    return b"".join(texts) + (b"" if port is None else attribute(4, bytes([port])))


class Networks(Commands):
    """The family SMC_PNETID, as a side uses it. Entries are octets, as they came."""

    def __init__(self, side):
        super().__init__(side, b"SMC_PNETID")

    def add(self, *words, **named):
        """Adds entries."""
        self.change(ADD_NET, network(*words, **named))

    def remove(self, name):
        """Removes the entries of a network."""
        self.change(REMOVE_NET, network(name))

    def flush(self):
        """Removes all entries."""
        self.change(FLUSH_NETS)

    def listed(self, data=b"", flags=DUMP):
        """All entries, or those that a request without a dump finds. Its acknowledgement is the last
        message, behind the one that ends the list."""
        self.send(self.family, REQUEST | ACK | flags, struct.pack("=BBH", LIST_NETS, 1, 0) + data)
        found = []
        for body in self.answers(True):
            if body[:2] != bytes([LIST_NETS, 1]):
                raise AssertionError("head %r" % body[:4])
            found.append(body[4:])
        if not flags and list(self.answers(False)):
            raise AssertionError("messages behind the end")
        return found

    def find(self, name):
        """The entries of a network."""
        return self.listed(network(name), 0)

    def shown(self):
        """All entries: name, network device, RDMA device, port."""
        return [(*(parts[kind].rstrip(b"\0").decode() for kind in (1, 2, 3)), number(parts[4]))
                for parts in map(attributes, self.listed())]
