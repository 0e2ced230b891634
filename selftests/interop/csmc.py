#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The kernel's own SMC implementation, through its generic netlink family SMC_GEN_NETLINK."""

import errno
import os
import socket
import struct

import topology

NETLINK_GENERIC = 16
GENL_CONTROLLER, GET_FAMILY = 16, 3
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 1, 4, 0x300
EID_BYTES = 32

GET_GROUPS, GET_LINKS, GET_STATS, GET_FALLBACKS = 2, 3, 7, 8
DUMP_UEID, ADD_UEID, REMOVE_UEID, FLUSH_UEID = 9, 10, 11, 12
# Of the family SMC_PNETID.
ADD_NETWORK = 2

# Attributes with their names and types.
V2_COMMON = {0: ("version", "u8"), 1: ("release", "u8"), 2: ("os", "u8"), 3: ("eid", "text"),
             4: ("host", "text")}
V2 = {1: ("direct", "u8"), 2: ("max_conns", "u8"), 3: ("max_links", "u8")}
GROUP = {1: ("id", "u32"), 2: ("role", "u8"), 3: ("type", "u8"), 6: ("conns", "u32"),
         7: ("v2", V2_COMMON), 8: ("terms", V2)}
LINK = {1: ("number", "u8"), 2: ("device", "text"), 4: ("gid", "text"), 5: ("peer_gid", "text"),
        6: ("conns", "u32"), 10: ("state", "u32")}
FALLBACK = {1: ("is_server", "u8"), 4: ("code", "u32"), 5: ("count", "u16")}
ROLES = {0: "client", 1: "server"}


def attribute(kind, data):
    """One encoded attribute."""
    size = 4 + len(data)
    return struct.pack("=HH", size, kind) + data + bytes(-size % 4)


def attributes(data):
    """Splits octets into attributes."""
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        if size < 4:
            return
        yield kind & 0x3fff, data[4:size]
        data = data[(size + 3) & ~3:]


def read(data, names):
    """Attributes as a dictionary."""
    found = {}
    for kind, value in attributes(data):
        name, form = names.get(kind, (None, None))
        if isinstance(form, dict):
            found[name] = read(value, form)
        elif form == "text":
            found[name] = value.rstrip(b"\0").decode("ascii", "replace").rstrip()
        elif form in ("u8", "u16", "u32", "u64"):
            found[name] = int.from_bytes(value, "little")
    return found


class Family:
    """An open socket of the family."""

    def __init__(self, name="SMC_GEN_NETLINK"):
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self.sock.settimeout(20)
        self.sock.bind((0, 0))
        self.serial = 0
        reply = self.ask(GENL_CONTROLLER, GET_FAMILY, attribute(2, name.encode() + b"\0"))
        self.number = next(struct.unpack("=H", value)[0]
                           for body in reply for kind, value in attributes(body) if kind == 1)

    def ask(self, family, command, data=b"", dump=False):
        """Sends a request; the attributes of all messages of the answer."""
        self.serial += 1
        flags = NLM_F_REQUEST | (NLM_F_DUMP if dump else NLM_F_ACK)
        size = 20 + len(data)
        header = struct.pack("=IHHII", size, family, flags, self.serial, 0)
        self.sock.send(header + struct.pack("=BBH", command, 1, 0) + data)
        bodies = []
        while True:
            octets = self.sock.recv(65536)
            while len(octets) >= 16:
                size, kind, _, serial, _ = struct.unpack_from("=IHHII", octets)
                body, octets = octets[16:size], octets[(size + 3) & ~3:]
                if serial != self.serial:
                    continue
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    if code:
                        raise OSError(code, os.strerror(code))
                    return bodies
                if kind == NLMSG_DONE:
                    return bodies
                bodies.append(body[4:])

    def dump(self, command, kind, names):
        """All objects of one type as dictionaries."""
        return [read(value, names)
                for body in self.ask(self.number, command, dump=True)
                for number, value in attributes(body) if number == kind]

    def groups(self):
        """The link groups."""
        return self.dump(GET_GROUPS, 2, GROUP)

    def links(self):
        """The links of all groups."""
        return self.dump(GET_LINKS, 3, LINK)

    def reasons(self):
        """The reasons of fallbacks: code to count, as server and as client together."""
        found = {}
        for entry in self.dump(GET_FALLBACKS, 8, FALLBACK):
            found[entry["code"]] = found.get(entry["code"], 0) + entry["count"]
        return found

    def ueids(self):
        """The enterprise identifiers."""
        found = self.ask(self.number, DUMP_UEID, dump=True)
        return [value.rstrip(b"\0").decode().rstrip()
                for body in found for kind, value in attributes(body) if kind == 1]

    def set_ueids(self, names):
        """Replaces the enterprise identifiers."""
        self.ask(self.number, FLUSH_UEID)
        for name in names:
            text = name.encode().ljust(EID_BYTES) + b"\0"
            try:
                self.ask(self.number, ADD_UEID, attribute(1, text))
            except OSError as error:
                if error.errno != errno.EEXIST:
                    raise


def join(network, netdev=None, device=None):
    """Adds a network device, or the first port of an RDMA device, to a physical network."""
    family = Family("SMC_PNETID")
    data = attribute(1, network.encode() + b"\0")
    if netdev:
        data += attribute(2, netdev.encode() + b"\0")
    if device:
        data += attribute(3, device.encode() + b"\0") + attribute(4, b"\1")
    family.ask(family.number, ADD_NETWORK, data)


def is_loaded():
    """Whether this kernel runs the C implementation."""
    return os.path.isdir("/sys/module/smc")


def unload():
    """Unloads the C implementation as soon as it is unused."""
    for name in "smc_diag", "smc":
        if os.path.isdir("/sys/module/" + name):
            topology.until(lambda name=name: topology.module_users(name) == 0, "%s is in use" % name)
            topology.command("rmmod", name)


def load():
    """Loads the C implementation."""
    topology.command("modprobe", "-a", "smc", "smc_diag")


def begin_anew():
    """Makes the C side forget its link groups and its buffers. It assumes that an old buffer is
    registered on later links, and sends the peer an invalid key."""
    unload()
    load()


if __name__ == "__main__":
    import sys
    family = Family()
    if sys.argv[1:2] == ["ueid"]:
        family.set_ueids(sys.argv[2:])
    for what in (family.ueids(), family.groups(), family.links(), family.reasons()):
        print(what)
