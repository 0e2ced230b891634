# SPDX-License-Identifier: GPL-2.0
"""A peer of SMC-R whose every word can be changed: its link groups, and its side of a connection as
client or as server, step by step.

Each step takes changes to the message it sends: a dictionary of fields, or a function that gets the
message's octets and returns what is sent in their place (octets, or a list of pieces).
"""

import collections
import errno
import os
import select
import socket
import struct

import messages
import raw
import roce
import topology
from ktap import equal
from messages import (ACCEPT, ADD_LINK, ADD_LINK_CONT, CDC, CONFIRM, CONFIRM_LINK, CONFIRM_RKEY, DECLINE, DELETE_LINK,
                      DELETE_RKEY, PROPOSAL, TEST_LINK, clc, llc)

GID = bytes(10) + b"\xff\xff" + socket.inet_aton(raw.IP)
OTHER_GID = bytes(10) + b"\xff\xff" + socket.inet_aton(raw.OTHER_IP)
# Elements have 16 KiB << code.
SIZE_CODE = 0
SIZE = 16384
MTU_CODE = 3
# What is in front of an element that has some.
EYE_CATCHER = b"mine"
# Both flags that say "no eye catchers".
PLAIN = 3
REFUSED, NO_PATH = 0x40, 1


def changed(message, changes):
    """What is sent of a message: a list of pieces."""
    if callable(changes):
        pieces = changes(bytes(message))
    else:
        pieces = bytes(message.change(changes or {}))
    return [pieces] if isinstance(pieces, bytes) else pieces


class Group:
    """A link group with its one link, or two."""

    def __init__(self, peer):
        self.peer, self.host, self.qp = peer, peer.host, roce.Qp(peer.host)
        self.other_qp, self.their_keys, self.their_address = None, {}, 0
        self.psn = self.qp.psn
        self.inbox, self.connections = collections.deque(), {}
        self.number, self.their_rmbs = 1, []
        self.polite = True
        # First contact is answered by itself, too.
        self.easy = False
        self.ended = False
        self.qp.on_message = self.incoming

    def incoming(self, octets):
        """A message of the kernel; on the host's thread."""
        if octets[0] == CDC:
            message = messages.read_cdc(octets)
            connection = self.connections.get(message["token"])
            if connection is not None:
                connection.incoming(message)
            return
        message = messages.read_llc(octets)
        kind = message["type"]
        if self.polite and not message["reply"]:
            if kind == CONFIRM_RKEY:
                self.their_rmbs.append((message["rkey"], message["address"]))
            if kind == DELETE_LINK:
                self.ended = True
            if kind in (CONFIRM_RKEY, TEST_LINK, DELETE_RKEY, DELETE_LINK):
                message["reply"] = 1
                self.qp.send(bytes(message))
                return
        if self.easy and self.first_contact(message):
            return
        self.inbox.append(message)

    def first_contact(self, message):
        """Goes on with first contact; False if the message has nothing to do with it."""
        step = message["type"], message["reply"]
        if step == (CONFIRM_LINK, 0):
            self.number = message["number"]
            self.confirm_link(True)
        elif step == (CONFIRM_LINK, 1):
            self.offer_link()
        elif step == (ADD_LINK, 0):
            self.refuse_link(message)
        else:
            return step == (ADD_LINK, 1)
        return True

    def say(self, message, changes=None):
        """Sends an LLC message."""
        for piece in changed(message, changes):
            self.qp.send(piece)

    def hear(self, kind, reply=None, seconds=topology.BOUND):
        """The next LLC message of that kind. On a loaded machine it may be late; one that does not come
        although the link answers to what was said later is lost."""
        def found():
            for message in self.inbox:
                if message["type"] == kind and reply in (None, message["reply"]):
                    return message
            return None
        try:
            message = self.host.wait(found, "LLC message %d" % kind, seconds)
        except AssertionError as error:
            raise AssertionError("%s; the link %s, flying: %s, refused: %s" % (
                error, self.verdict(), [packet[1] for packet in self.qp.flying], self.qp.refused)) from error
        with self.host.lock:
            self.inbox.remove(message)
        return message

    def verdict(self):
        """Whether the kernel answers on the link at all."""
        data = os.urandom(16)
        self.say(llc(TEST_LINK, data=data))

        def answered():
            return any(message["type"] == TEST_LINK and message["reply"] and message.raw("data") == data
                       for message in self.inbox)
        try:
            self.host.wait(answered, "TEST LINK")
        except AssertionError:
            return "does not answer either"
        return "lives"

    def confirm_link(self, reply, changes=None):
        """Says CONFIRM LINK."""
        self.say(llc(CONFIRM_LINK, reply, mac=raw.MAC, gid=GID, qpn=self.qp.qpn, number=self.number,
                     uid=self.qp.qpn, links=2, flags=self.peer.flags()), changes)

    def refuse_link(self, request, changes=None):
        """Refuses an ADD LINK: there is no other path."""
        self.say(llc(ADD_LINK, True, code=NO_PATH, flags=REFUSED, mac=raw.MAC, gid=GID,
                     number=request["number"]), changes)

    def offer_link(self, changes=None):
        """Offers a link that the kernel has to refuse, as both sides have one path only."""
        self.say(llc(ADD_LINK, mac=raw.MAC, gid=GID, qpn=self.qp.qpn, number=2, mtu=MTU_CODE,
                     psn=self.psn), changes)

    def take_link(self, request, their_address):
        """Takes the second link that the kernel offers, at an RNIC of its own. There the one buffer of the
        peer has the same key; that of the kernel, which is known by its address on the first link, has
        another."""
        self.their_address = their_address
        memory = next(iter(self.qp.memories.values()))
        self.other_qp = roce.Qp(self.host, (raw.OTHER_IP, raw.OTHER_MAC))
        self.other_qp.on_message = self.incoming
        self.other_qp.memories = self.qp.memories
        self.other_qp.connect(request["qpn"], request["psn"])
        end = {"mac": raw.OTHER_MAC, "gid": OTHER_GID, "qpn": self.other_qp.qpn,
               "number": request["number"]}
        self.say(llc(ADD_LINK, True, mtu=MTU_CODE, psn=self.other_qp.psn, **end))
        keys = self.hear(ADD_LINK_CONT, 0)
        equal(keys["count"], 1, "buffers of the kernel")
        self.their_keys = {keys["rkey"]: (keys["new_rkey"], keys["address"])}
        self.say(llc(ADD_LINK_CONT, True, number=request["number"], count=1, rkey=memory.rkey,
                     new_rkey=memory.rkey, address=memory.address))
        self.hear(CONFIRM_LINK, 0)
        self.other_qp.send(bytes(llc(CONFIRM_LINK, True, uid=self.other_qp.qpn, links=2, flags=PLAIN,
                                     **end)))

    def expect_alive(self):
        """Fails unless the kernel still answers on the link."""
        data = os.urandom(16)
        self.say(llc(TEST_LINK, data=data))
        answer = self.hear(TEST_LINK, 1)
        if answer.raw("data") != data:
            raise AssertionError("TEST LINK is answered by %s" % bytes(answer).hex())

    def leave(self):
        """Says that the group is over, so that the kernel gives it up now."""
        if self.qp.is_usable() and not self.ended:
            self.polite = False
            self.say(llc(DELETE_LINK, flags=0x60, reason=0x00020000))

    def vanish(self):
        """The queue pairs are gone without a word."""
        self.qp.destroy()
        if self.other_qp is not None:
            self.other_qp.destroy()


class Connection:
    """One connection of the peer, whichever side it is on."""

    def __init__(self, peer):
        self.peer, self.host = peer, peer.host
        self.tcp = self.group = self.theirs = self.answer = None
        self.first = True
        self.token = peer.new_number()
        self.memory = roce.Memory(peer.new_number(), peer.new_number() << 20, SIZE)
        self.memory.octets[:peer.origin] = EYE_CATCHER[:peer.origin]
        # The link that it writes by, if that is not the group's first.
        self.qp = None
        self.seq = self.sent = self.read = 0
        self.produced = self.consumed = 0, peer.origin
        self.cdc = []

    def clc(self, kind, changes=None, **values):
        """Sends a CLC message."""
        for piece in changed(clc(kind, self.peer.ident, **values), changes):
            self.tcp.write(piece)

    def heard(self, seconds=raw.SECONDS):
        """The next CLC message of the kernel; None if TCP ends."""
        head = self.tcp.read(8, seconds)
        if len(head) < 8:
            return None
        rest = self.tcp.read(struct.unpack("!H", head[5:7])[0] - 8, seconds)
        return messages.read_clc(head + rest)

    def end_point(self):
        """The fields of Accept and Confirm that are about this side."""
        return {"gid": GID, "mac": raw.MAC, "qpn": self.group.qp.qpn, "rkey": self.memory.rkey,
                "index": 1, "token": self.token, "size": SIZE_CODE, "mtu": MTU_CODE,
                "address": self.memory.address, "psn": self.group.psn}

    def use(self, group):
        """Takes a link group, a new one for first contact."""
        self.first = group is None
        self.group = group or self.peer.new_group()
        with self.host.lock:
            self.group.qp.memories[self.memory.rkey] = self.memory
            self.group.connections[self.token] = self

    def learn(self, message):
        """The kernel's end."""
        self.theirs = message
        if self.first:
            self.group.qp.connect(message["qpn"], message["psn"])

    def announce(self, number):
        """Says that its buffer lies on the link of that number, too, by the same key."""
        key = {"rkey": self.memory.rkey, "address": self.memory.address}
        self.group.say(llc(CONFIRM_RKEY, count=1, number2=number, rkey2=key["rkey"],
                           address2=key["address"], **key))
        equal(self.group.hear(CONFIRM_RKEY, 1)["flags"], 0, "answer to CONFIRM RKEY")

    def write_by(self, qp):
        """From now on it writes by that link, to the same buffer of the kernel."""
        self.qp, known = qp, self.group.their_keys
        if qp is not self.group.qp:
            self.theirs["rkey"], self.theirs["address"] = known[self.theirs["rkey"]]
        else:
            old, = [rkey for rkey, (new, _) in known.items() if new == self.theirs["rkey"]]
            self.theirs["rkey"], self.theirs["address"] = old, self.group.their_address

    # Data.

    def size(self):
        """Octets of the kernel's element."""
        return 16384 << self.theirs["size"]

    def base(self):
        """Where the kernel's element begins."""
        return self.theirs["address"] + (self.theirs["index"] - 1) * self.size()

    def room(self, size=None):
        """Octets of an element, of the kernel's if no size is given, that carry data."""
        return (size or self.size()) - self.peer.origin

    def cursor(self, position, size=None):
        """A cursor: wraps and offset."""
        room = self.room(size)
        return position // room & 0xffff, self.peer.origin + position % room

    def position(self, cursor, size=None):
        """What a cursor stands for, if it is not too far along."""
        wraps, offset = cursor
        return wraps * self.room(size) + offset - self.peer.origin

    def message(self, **values):
        """The CDC message that is due."""
        self.seq = self.seq + 1 & 0xffff
        wrap, offset = self.cursor(self.sent)
        read_wrap, read = self.cursor(self.read, SIZE)
        return messages.cdc(seq=self.seq, token=self.theirs["token"], produced_wrap=wrap,
                            produced=offset, consumed_wrap=read_wrap, consumed=read, **values)

    def tell(self, changes=None, **values):
        """Sends a CDC message."""
        for piece in changed(self.message(**values), changes):
            (self.qp or self.group.qp).send(piece)

    def write(self, data, tell=True, **values):
        """Sends data that there is room for."""
        at = 0
        while at < len(data):
            _, place = self.cursor(self.sent + at)
            piece = data[at:at + self.size() - place]
            (self.qp or self.group.qp).write(self.base() + place, self.theirs["rkey"], piece)
            at += len(piece)
        self.sent += len(data)
        if tell:
            self.tell(**values)

    def incoming(self, message):
        """A CDC message of the kernel; on the host's thread."""
        self.cdc.append(message)
        self.produced = message["produced_wrap"], message["produced"]
        self.consumed = message["consumed_wrap"], message["consumed"]

    def available(self):
        """Octets that the kernel has sent and that were not taken."""
        return self.position(self.produced, SIZE) - self.read

    def take(self, size, tell=True):
        """Exactly so many octets of what the kernel sends."""
        data = b""
        while len(data) < size:
            self.host.wait(lambda: self.available() > 0, "data by RDMA")
            _, place = self.cursor(self.read, SIZE)
            count = min(self.available(), size - len(data), SIZE - place)
            data += bytes(self.memory.octets[place:place + count])
            self.read += count
            if tell:
                self.tell()
        return data

    def saw(self, producer=0, state=0):
        """Whether the kernel's last message has these flags."""
        return bool(self.cdc) and (self.cdc[-1]["producer_flags"] & producer == producer and
                                   self.cdc[-1]["state_flags"] & state == state)

    def drop(self):
        """TCP ends without manners."""
        if self.tcp is not None:
            if not self.tcp.reset:
                self.tcp.abort()
            self.tcp.forget()

    # As client.

    def connect(self, port, options=raw.SMC_OPTION):
        """TCP comes up."""
        self.tcp = raw.Tcp(self.host, self.host.new_port(), port)
        self.tcp.connect(options)

    def propose(self, changes=None):
        """Says Proposal."""
        self.clc(PROPOSAL, changes, gid=GID, mac=raw.MAC, net=socket.inet_aton("10.9.0.0"), mask=24)

    def accepted(self, group=None):
        """Hears Accept."""
        self.answer = self.heard()
        if self.answer is None or self.answer["type"] != ACCEPT:
            raise AssertionError("no Accept: %s" % (self.answer and bytes(self.answer).hex()))
        self.use(None if self.answer["first"] else group)
        self.learn(self.answer)

    def confirm(self, changes=None):
        """Says Confirm."""
        self.clc(CONFIRM, changes, **self.end_point())

    def linked(self, confirm=None, refuse=None):
        """The LLC part of first contact."""
        self.group.number = self.group.hear(CONFIRM_LINK, 0)["number"]
        self.group.confirm_link(True, confirm)
        self.group.refuse_link(self.group.hear(ADD_LINK, 0), refuse)

    def as_client(self, port, group=None):
        """All of it, well."""
        self.connect(port)
        self.propose()
        self.accepted(group)
        self.confirm()
        if self.first:
            self.linked()
        return self

    # As server.

    def proposed(self, listener):
        """TCP has come up; hears Proposal."""
        self.tcp = listener.accept()
        self.answer = self.heard()
        if self.answer is None or self.answer["type"] != PROPOSAL:
            raise AssertionError("no Proposal: %s" % (self.answer and bytes(self.answer).hex()))

    def accept(self, changes=None, group=None):
        """Says Accept."""
        self.use(group)
        self.clc(ACCEPT, changes, first=int(self.first), **self.end_point())

    def confirmed(self):
        """Hears Confirm."""
        self.answer = self.heard()
        if self.answer is None or self.answer["type"] != CONFIRM:
            raise AssertionError("no Confirm: %s" % (self.answer and bytes(self.answer).hex()))
        self.learn(self.answer)

    def link(self, confirm=None, offer=None):
        """The LLC part of first contact."""
        self.group.confirm_link(False, confirm)
        self.group.hear(CONFIRM_LINK, 1)
        self.group.offer_link(offer)
        self.group.hear(ADD_LINK, 1)

    def as_server(self, listener, group=None):
        """All of it, well."""
        self.proposed(listener)
        self.accept(group=group)
        self.confirmed()
        if self.first:
            self.link()
        return self

    def decline(self, changes=None, diagnosis=0x03000000):
        """Says Decline."""
        self.clc(DECLINE, changes, diagnosis=diagnosis)


class Peer:
    """A stack with an identity of its own."""

    count = 0

    def __init__(self, host):
        Peer.count += 1
        self.host, self.groups, self.connections = host, [], []
        self.ident = struct.pack("!H", Peer.count) + raw.MAC
        self.number = Peer.count << 12
        # Where data begins in elements: behind an eye catcher, if that is 4.
        self.origin = 0

    def flags(self):
        """What it says in CONFIRM LINK of eye catchers."""
        return 0 if self.origin else PLAIN

    def new_number(self):
        """A number nobody uses."""
        self.number += 1
        return self.number

    def new_group(self):
        """A link group."""
        group = Group(self)
        self.groups.append(group)
        return group

    def new(self):
        """A connection to be."""
        connection = Connection(self)
        self.connections.append(connection)
        return connection

    def leave(self):
        """Says that it goes."""
        for connection in self.connections:
            connection.drop()
        for group in self.groups:
            group.leave()

    def end(self):
        """Nothing is left of it."""
        for group in self.groups:
            group.vanish()


def connecting(address):
    """A client of ours that is on its way to a peer."""
    sock = topology.new_socket("b")
    sock.setblocking(False)
    if sock.connect_ex(address) not in (0, errno.EINPROGRESS):
        raise AssertionError("connect")
    return sock


def settled(sock, seconds=topology.BOUND):
    """How a client's connect ended: "none", "late" or the name of the error."""
    if not select.select([], [sock], [], seconds)[1]:
        return "late"
    number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    sock.settimeout(raw.SECONDS)
    return errno.errorcode.get(number, "none")
