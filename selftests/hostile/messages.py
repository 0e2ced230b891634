# SPDX-License-Identifier: GPL-2.0
"""The messages of SMC-R as tables of fields, so that tests can change every field.

A field is (name, first octet, octets) or (name, octet, bits as (shift, width)).
"""

EYE = bytes.fromhex("e2d4c3d9")
PROPOSAL, ACCEPT, CONFIRM, DECLINE = 1, 2, 3, 4
CONFIRM_LINK, ADD_LINK, ADD_LINK_CONT, DELETE_LINK = 1, 2, 3, 4
CONFIRM_RKEY, TEST_LINK, CONFIRM_RKEY_CONT, DELETE_RKEY = 6, 7, 8, 9
CDC = 0xfe

HEAD = [("eye", 0, 4), ("type", 4, 1), ("length", 5, 2), ("version", 7, (4, 4)),
        ("first", 7, (3, 1)), ("path", 7, (0, 3)), ("peer", 8, 8)]
END = [("gid", 16, 16), ("mac", 32, 6), ("qpn", 38, 3), ("rkey", 41, 4), ("index", 45, 1),
       ("token", 46, 4), ("size", 50, (4, 4)), ("mtu", 50, (0, 4)), ("reserved", 51, 1),
       ("address", 52, 8), ("reserved2", 60, 1), ("psn", 61, 3), ("trailer", 64, 4)]
CLC = {
    PROPOSAL: HEAD + [("gid", 16, 16), ("mac", 32, 6), ("offset", 38, 2), ("net", 40, 4),
                      ("mask", 44, 1), ("reserved", 45, 2), ("prefixes", 47, 1), ("trailer", 48, 4)],
    ACCEPT: HEAD + END,
    CONFIRM: HEAD + END,
    DECLINE: HEAD + [("diagnosis", 16, 4), ("reserved", 20, 4), ("trailer", 24, 4)],
}

# Version 2: a Proposal with one identifier, and the first-contact parts of Accept and Confirm.
LATER = [("eye", 0, 4), ("type", 4, 1), ("length", 5, 2), ("version", 7, (4, 4)),
         ("later", 7, (2, 2)), ("earlier", 7, (0, 2)), ("peer", 8, 8)]
ADDED = [("eid", 64, 32), ("reserved3", 96, 8), ("direct", 104, 1), ("os", 105, (4, 4)),
         ("release", 105, (0, 4)), ("reserved4", 106, 2), ("host", 108, 32), ("conns", 140, 1),
         ("links", 141, 1), ("features", 142, 2), ("vendor", 144, 4), ("reserved5", 148, 8)]
CLC2 = {
    PROPOSAL: LATER + [("gid", 16, 16), ("mac", 32, 6), ("offset", 38, 2), ("ism_gid", 40, 8),
                       ("ism_chid", 48, 2), ("extension", 50, 2), ("vendor", 52, 8),
                       ("reserved", 60, 20), ("eids", 80, 1), ("ism_gids", 81, 1),
                       ("reserved2", 82, 1), ("release", 83, (4, 4)), ("reserved3", 83, (0, 4)),
                       ("reserved4", 84, 2), ("smcd", 86, 2), ("gid2", 88, 16), ("conns", 104, 1),
                       ("links", 105, 1), ("features", 106, 2), ("reserved5", 108, 12),
                       ("eid", 120, 32), ("trailer", 152, 4)],
    ACCEPT: HEAD + END[:-1] + ADDED + [("trailer", 156, 4)],
    CONFIRM: HEAD + END[:-1] + ADDED + [("gids", 156, 1), ("reserved6", 157, 3), ("own_gid", 160, 16),
                                        ("trailer", 176, 4)],
}

LLC_HEAD = [("type", 0, 1), ("length", 1, 1), ("code", 2, 1), ("reply", 3, (7, 1)),
            ("flags", 3, (0, 7))]
LLC = {
    CONFIRM_LINK: LLC_HEAD + [("mac", 4, 6), ("gid", 10, 16), ("qpn", 26, 3), ("number", 29, 1),
                              ("uid", 30, 4), ("links", 34, 1), ("reserved", 35, 9)],
    # The layout that Linux uses.
    ADD_LINK: LLC_HEAD + [("mac", 4, 6), ("reserved", 10, 2), ("gid", 12, 16), ("qpn", 28, 3),
                          ("number", 31, 1), ("mtu", 32, (0, 4)), ("psn", 33, 3),
                          ("reserved2", 36, 8)],
    ADD_LINK_CONT: LLC_HEAD + [("number", 4, 1), ("count", 5, 1), ("reserved", 6, 2),
                               ("rkey", 8, 4), ("new_rkey", 12, 4), ("address", 16, 8),
                               ("rest", 24, 20)],
    DELETE_LINK: LLC_HEAD + [("number", 4, 1), ("reason", 5, 4), ("reserved", 9, 35)],
    CONFIRM_RKEY: LLC_HEAD + [("count", 4, 1), ("rkey", 5, 4), ("address", 9, 8),
                              ("number2", 17, 1), ("rkey2", 18, 4), ("address2", 22, 8),
                              ("rest", 30, 14)],
    TEST_LINK: LLC_HEAD + [("data", 4, 16), ("reserved", 20, 24)],
    CONFIRM_RKEY_CONT: LLC_HEAD + [("count", 4, 1), ("number", 5, 1), ("rkey", 6, 4),
                                   ("address", 10, 8), ("rest", 18, 26)],
    DELETE_RKEY: LLC_HEAD + [("count", 4, 1), ("errors", 5, 1), ("reserved", 6, 2),
                             ("rkey", 8, 4), ("rkey2", 12, 4), ("rest", 16, 28)],
}

CDC_FIELDS = [("type", 0, 1), ("length", 1, 1), ("seq", 2, 2), ("token", 4, 4),
              ("reserved", 8, 2), ("produced_wrap", 10, 2), ("produced", 12, 4),
              ("reserved2", 16, 2), ("consumed_wrap", 18, 2), ("consumed", 20, 4),
              ("producer_flags", 24, 1), ("state_flags", 25, 1), ("reserved3", 26, 18)]
BLOCKED, URGENT_PENDING, URGENT, REQUEST, FAILOVER = 0x80, 0x40, 0x20, 0x10, 0x08
DONE, CLOSED, ABORT = 0x80, 0x40, 0x20


class Message:
    """Octets with named fields."""

    def __init__(self, fields, octets):
        self.fields, self.octets = fields, bytearray(octets)

    def field(self, name):
        """The first octet of a field, and its mask in the integer of `size` octets."""
        for known, first, size in self.fields:
            if known == name:
                if isinstance(size, tuple):
                    shift, width = size
                    return first, 1, shift, width
                return first, size, 0, size * 8
        raise KeyError(name)

    def __getitem__(self, name):
        first, size, shift, width = self.field(name)
        value = int.from_bytes(self.octets[first:first + size], "big")
        return value >> shift & (1 << width) - 1

    def __setitem__(self, name, value):
        first, size, shift, width = self.field(name)
        if isinstance(value, bytes):
            value = int.from_bytes(value, "big")
        mask = (1 << width) - 1
        old = int.from_bytes(self.octets[first:first + size], "big")
        new = old & ~(mask << shift) | (value & mask) << shift
        self.octets[first:first + size] = new.to_bytes(size, "big")

    def raw(self, name):
        """The octets of a field that consists of whole octets."""
        first, size, _, _ = self.field(name)
        return bytes(self.octets[first:first + size])

    def change(self, changes):
        """Sets fields. A function in place of a dictionary gets the octets and returns the changed
        ones."""
        for name, value in changes.items():
            self[name] = value
        return self

    def __bytes__(self):
        return bytes(self.octets)

    def width(self, name):
        """The number of bits of a field."""
        return self.field(name)[3]


def clc(kind, peer, version=1, **values):
    """Makes a CLC message of version 1 or 2."""
    fields = (CLC if version == 1 else CLC2)[kind]
    length = max(first + size for _, first, size in fields if not isinstance(size, tuple))
    message = Message(fields, bytes(length))
    return message.change({"eye": EYE, "type": kind, "length": length, "version": version,
                           "peer": peer, "trailer": EYE, **values})


def read_clc(octets):
    """Parses a CLC message of the kernel."""
    if octets[:4] != EYE or octets[-4:] != EYE or octets[4] not in CLC:
        raise AssertionError("no CLC message: %s" % octets.hex())
    later = octets[7] >> 4 == 2 and octets[4] in (ACCEPT, CONFIRM)
    return Message((CLC2 if later else CLC)[octets[4]], octets)


def llc(kind, reply=False, **values):
    """Makes an LLC message of version 1."""
    return Message(LLC[kind], bytes(44)).change({"type": kind, "length": 44, "reply": reply, **values})


def read_llc(octets):
    """Parses an LLC message of the kernel."""
    return Message(LLC[octets[0]], octets)


def cdc(**values):
    """Makes a CDC message."""
    return Message(CDC_FIELDS, bytes(44)).change({"type": CDC, "length": 44, **values})


def read_cdc(octets):
    """Parses a CDC message of the kernel."""
    return Message(CDC_FIELDS, octets)


def odd_values(width, valid):
    """Values of a field of `bits` bits other than the valid one, with all extremes."""
    top = (1 << width) - 1
    values = [0, 1, top, top >> 1, 1 << width - 1, valid ^ 1, valid + 1 & top, valid - 1 & top]
    return [value for value in dict.fromkeys(values) if value != valid]
