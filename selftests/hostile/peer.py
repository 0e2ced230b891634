# SPDX-License-Identifier: GPL-2.0
"""An SMC-R peer all of whose messages can be changed: its link groups, and its connections as client or
server, step by step.

Each step takes changes to the message it sends: a dictionary of fields, or a function. The function
gets the message's octets and returns the octets or the list of pieces to send.
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
# The octets before the data of an element with an eye catcher.
EYE_CATCHER = b"mine"
# Both flags that announce the absence of eye catchers.
PLAIN = 3
REFUSED, NO_PATH = 0x40, 1


def changed(message, changes):
    """The pieces of a changed message."""
    if callable(changes):
        pieces = changes(bytes(message))
    else:
        pieces = bytes(message.change(changes or {}))
    return [pieces] if isinstance(pieces, bytes) else pieces


class Group:
    """A link group with one or two links."""

    def __init__(self, peer):
        self.peer, self.host, self.qp = peer, peer.host, roce.Qp(peer.host)
        # Key and address of each buffer of the kernel on one link, by its key on the other: the other
        # link, and the first one.
        self.other_qp, self.their_keys, self.their_first = None, {}, {}
        self.psn = self.qp.psn
        self.inbox, self.connections = collections.deque(), {}
        self.number, self.their_rmbs = 1, []
        self.polite = True
        # The group answers the messages of first contact itself, too.
        self.easy = False
        self.ended = False
        # The last CONFIRM LINK.
        self.asked = None
        self.qp.on_message = self.incoming

    def incoming(self, octets):
        """Handles a message of the kernel. Runs on the host's thread."""
        if octets[0] == CDC:
            message = messages.read_cdc(octets)
            connection = self.connections.get(message["token"])
            if connection is not None:
                connection.incoming(message)
            return
        if octets[0] == CONFIRM_LINK:
            # The kernel repeats it where the answer takes 2 s.
            if octets == self.asked:
                return
            self.asked = octets
        message = messages.read_llc(octets)
        kind = message["type"]
        if self.polite and not message["reply"]:
            if kind == CONFIRM_RKEY:
                here = message["rkey"], message["address"]
                there = message["rkey2"], message["address2"]
                self.their_rmbs.append(here)
                # It begins with the link that it comes by.
                if message["number2"] == self.number:
                    here, there = there, here
                self.note_buffer(here, there)
            if kind == DELETE_LINK:
                self.ended = True
            if kind in (CONFIRM_RKEY, TEST_LINK, DELETE_RKEY, DELETE_LINK):
                message["reply"] = 1
                self.qp.send(bytes(message))
                return
        if self.easy and self.first_contact(message):
            return
        self.inbox.append(message)

    def note_buffer(self, first, other):
        """Notes key and address of a buffer of the kernel on the first link and on the other one."""
        self.their_keys[first[0]], self.their_first[other[0]] = other, first

    def first_contact(self, message):
        """Handles a message of first contact; False if the message is another one."""
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

    def send_llc(self, message, changes=None):
        """Sends an LLC message."""
        for piece in changed(message, changes):
            self.qp.send(piece)

    def receive_llc(self, kind, reply=None, seconds=topology.BOUND):
        """Waits for the next LLC message of a type. A loaded machine may delay it; the message is lost
        if the kernel answers a later request first."""
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
        """Whether the kernel answers on the link."""
        data = os.urandom(16)
        self.send_llc(llc(TEST_LINK, data=data))

        def answered():
            return any(message["type"] == TEST_LINK and message["reply"] and message.raw("data") == data
                       for message in self.inbox)
        try:
            self.host.wait(answered, "TEST LINK")
        except AssertionError:
            return "does not answer either"
        return "lives"

    def confirm_link(self, reply, changes=None):
        """Sends CONFIRM LINK."""
        self.send_llc(llc(CONFIRM_LINK, reply, mac=raw.MAC, gid=GID, qpn=self.qp.qpn, number=self.number,
                          uid=self.qp.qpn, links=2, flags=self.peer.flags()), changes)

    def refuse_link(self, request, changes=None):
        """Refuses an ADD LINK: no alternate path."""
        self.send_llc(llc(ADD_LINK, True, code=NO_PATH, flags=REFUSED, mac=raw.MAC, gid=GID,
                          number=request["number"]), changes)

    def offer_link(self, changes=None):
        """Sends an ADD LINK that the kernel has to refuse, as both sides have one path only."""
        self.send_llc(llc(ADD_LINK, mac=raw.MAC, gid=GID, qpn=self.qp.qpn, number=2, mtu=MTU_CODE,
                          psn=self.psn), changes)

    def take_link(self, request, their_address):
        """Accepts the second link that the kernel offers, with an RNIC of its own. The peer's buffer
        has the same key on both links. The kernel's buffer, identified by its address on the first
        link, has another key."""
        memory = next(iter(self.qp.memories.values()))
        self.other_qp = roce.Qp(self.host, (raw.OTHER_IP, raw.OTHER_MAC))
        self.other_qp.on_message = self.incoming
        self.other_qp.memories = self.qp.memories
        self.other_qp.connect(request["qpn"], request["psn"])
        end = {"mac": raw.OTHER_MAC, "gid": OTHER_GID, "qpn": self.other_qp.qpn,
               "number": request["number"]}
        self.send_llc(llc(ADD_LINK, True, mtu=MTU_CODE, psn=self.other_qp.psn, **end))
        keys = self.receive_llc(ADD_LINK_CONT, 0)
        equal(keys["count"], 1, "buffers of the kernel")
        self.note_buffer((keys["rkey"], their_address), (keys["new_rkey"], keys["address"]))
        self.send_llc(llc(ADD_LINK_CONT, True, number=request["number"], count=1, rkey=memory.rkey,
                          new_rkey=memory.rkey, address=memory.address))
        self.receive_llc(CONFIRM_LINK, 0)
        self.other_qp.send(bytes(llc(CONFIRM_LINK, True, uid=self.other_qp.qpn, links=2, flags=PLAIN,
                                     **end)))

    def expect_alive(self):
        """Fails unless the kernel answers on the link."""
        data = os.urandom(16)
        self.send_llc(llc(TEST_LINK, data=data))
        answer = self.receive_llc(TEST_LINK, 1)
        if answer.raw("data") != data:
            raise AssertionError("TEST LINK is answered by %s" % bytes(answer).hex())

    def leave(self):
        """Sends DELETE LINK (all), so that the kernel ends the group now."""
        if self.qp.is_usable() and not self.ended:
            self.polite = False
            self.send_llc(llc(DELETE_LINK, flags=0x60, reason=0x00020000))

    def disappear(self):
        """Removes the queue pairs without a message."""
        self.qp.destroy()
        if self.other_qp is not None:
            self.other_qp.destroy()


class Connection:
    """A connection of the peer, as client or as server."""

    def __init__(self, peer):
        self.peer, self.host = peer, peer.host
        self.tcp = self.group = self.theirs = self.answer = None
        self.first = True
        self.token = peer.new_number()
        self.memory = roce.Memory(peer.new_number(), peer.new_number() << 20, SIZE)
        self.memory.octets[:peer.origin] = EYE_CATCHER[:peer.origin]
        # The link that the connection writes by, if it is not the first one of the group.
        self.qp = None
        self.seq = self.sent = self.read = 0
        self.produced = self.consumed = 0, peer.origin
        self.cdc = []

    def clc(self, kind, changes=None, **values):
        """Sends a CLC message."""
        for piece in changed(clc(kind, self.peer.ident, **values), changes):
            self.tcp.write(piece)

    def receive_clc(self, seconds=raw.SECONDS):
        """Waits for the next CLC message of the kernel; None if TCP ends."""
        head = self.tcp.read(8, seconds)
        if len(head) < 8:
            return None
        rest = self.tcp.read(struct.unpack("!H", head[5:7])[0] - 8, seconds)
        return messages.read_clc(head + rest)

    def end_point(self):
        """The fields of Accept and Confirm that describe this side."""
        return {"gid": GID, "mac": raw.MAC, "qpn": self.group.qp.qpn, "rkey": self.memory.rkey,
                "index": 1, "token": self.token, "size": SIZE_CODE, "mtu": MTU_CODE,
                "address": self.memory.address, "psn": self.group.psn}

    def use(self, group):
        """Joins a link group, a new one in first contact."""
        self.first = group is None
        self.group = group or self.peer.new_group()
        with self.host.lock:
            self.group.qp.memories[self.memory.rkey] = self.memory
            self.group.connections[self.token] = self

    def learn(self, message):
        """Notes the kernel's end."""
        self.theirs = message
        if self.first:
            self.group.qp.connect(message["qpn"], message["psn"])

    def announce(self, number):
        """Sends CONFIRM RKEY: the buffer has the same key on the link of that number."""
        key = {"rkey": self.memory.rkey, "address": self.memory.address}
        self.group.send_llc(llc(CONFIRM_RKEY, count=1, number2=number, rkey2=key["rkey"],
                                address2=key["address"], **key))
        equal(self.group.receive_llc(CONFIRM_RKEY, 1)["flags"], 0, "answer to CONFIRM RKEY")

    def write_by(self, qp):
        """Makes the connection write by a link, to the same buffer of the kernel."""
        self.qp = qp
        known = self.group.their_first if qp is self.group.qp else self.group.their_keys
        self.theirs["rkey"], self.theirs["address"] = known[self.theirs["rkey"]]

    # Data.

    def size(self):
        """Size of the kernel's element."""
        return 16384 << self.theirs["size"]

    def base(self):
        """Address of the kernel's element."""
        return self.theirs["address"] + (self.theirs["index"] - 1) * self.size()

    def room(self, size=None):
        """Number of octets for data in an element; the kernel's element if no size is given."""
        return (size or self.size()) - self.peer.origin

    def cursor(self, position, size=None):
        """The cursor of a position: wraps and offset."""
        room = self.room(size)
        return position // room & 0xffff, self.peer.origin + position % room

    def position(self, cursor, size=None):
        """The position of a cursor, if it is not too far ahead."""
        wraps, offset = cursor
        return wraps * self.room(size) + offset - self.peer.origin

    def message(self, **values):
        """Makes the CDC message with the current state."""
        self.seq = self.seq + 1 & 0xffff
        wrap, offset = self.cursor(self.sent)
        read_wrap, read = self.cursor(self.read, SIZE)
        return messages.cdc(seq=self.seq, token=self.theirs["token"], produced_wrap=wrap,
                            produced=offset, consumed_wrap=read_wrap, consumed=read, **values)

    def send_cdc(self, changes=None, **values):
        """Sends a CDC message."""
        for piece in changed(self.message(**values), changes):
            (self.qp or self.group.qp).send(piece)

    def write(self, data, notify=True, **values):
        """Writes data, which must fit into the element, and announces them."""
        at = 0
        while at < len(data):
            _, place = self.cursor(self.sent + at)
            piece = data[at:at + self.size() - place]
            (self.qp or self.group.qp).write(self.base() + place, self.theirs["rkey"], piece)
            at += len(piece)
        self.sent += len(data)
        if notify:
            self.send_cdc(**values)

    def incoming(self, message):
        """Handles a CDC message of the kernel. Runs on the host's thread."""
        self.cdc.append(message)
        self.produced = message["produced_wrap"], message["produced"]
        self.consumed = message["consumed_wrap"], message["consumed"]

    def available(self):
        """Number of received octets that were not taken."""
        return self.position(self.produced, SIZE) - self.read

    def take(self, size, notify=True):
        """Waits for `size` octets from the kernel, and consumes them."""
        data = b""
        while len(data) < size:
            self.host.wait(lambda: self.available() > 0, "data by RDMA")
            _, place = self.cursor(self.read, SIZE)
            count = min(self.available(), size - len(data), SIZE - place)
            data += bytes(self.memory.octets[place:place + count])
            self.read += count
            if notify:
                self.send_cdc()
        return data

    def saw(self, producer=0, state=0):
        """Whether the kernel's last message has these flags."""
        return bool(self.cdc) and (self.cdc[-1]["producer_flags"] & producer == producer and
                                   self.cdc[-1]["state_flags"] & state == state)

    def drop(self):
        """Resets the TCP connection."""
        if self.tcp is not None:
            if not self.tcp.reset:
                self.tcp.abort()
            self.tcp.forget()

    # As client.

    def connect(self, port, options=raw.SMC_OPTION):
        """Establishes TCP."""
        self.tcp = raw.Tcp(self.host, self.host.new_port(), port)
        self.tcp.connect(options)

    def propose(self, changes=None):
        """Sends Proposal."""
        self.clc(PROPOSAL, changes, gid=GID, mac=raw.MAC, net=socket.inet_aton("10.9.0.0"), mask=24)

    def accepted(self, group=None):
        """Receives Accept."""
        self.answer = self.receive_clc()
        if self.answer is None or self.answer["type"] != ACCEPT:
            raise AssertionError("no Accept: %s" % (self.answer and bytes(self.answer).hex()))
        self.use(None if self.answer["first"] else group)
        self.learn(self.answer)

    def confirm(self, changes=None):
        """Sends Confirm."""
        self.clc(CONFIRM, changes, **self.end_point())

    def linked(self, confirm=None, refuse=None):
        """Completes the LLC part of first contact."""
        self.group.number = self.group.receive_llc(CONFIRM_LINK, 0)["number"]
        self.group.confirm_link(True, confirm)
        self.group.refuse_link(self.group.receive_llc(ADD_LINK, 0), refuse)

    def as_client(self, port, group=None):
        """Performs a complete handshake."""
        self.connect(port)
        self.propose()
        self.accepted(group)
        self.confirm()
        if self.first:
            self.linked()
        return self

    # As server.

    def proposed(self, listener):
        """Waits for TCP and the Proposal."""
        self.tcp = listener.accept()
        self.answer = self.receive_clc()
        if self.answer is None or self.answer["type"] != PROPOSAL:
            raise AssertionError("no Proposal: %s" % (self.answer and bytes(self.answer).hex()))

    def accept(self, changes=None, group=None):
        """Sends Accept."""
        self.use(group)
        self.clc(ACCEPT, changes, first=int(self.first), **self.end_point())

    def confirmed(self):
        """Receives Confirm."""
        self.answer = self.receive_clc()
        if self.answer is None or self.answer["type"] != CONFIRM:
            raise AssertionError("no Confirm: %s" % (self.answer and bytes(self.answer).hex()))
        self.learn(self.answer)

    def link(self, confirm=None, offer=None):
        """Completes the LLC part of first contact."""
        self.group.confirm_link(False, confirm)
        self.group.receive_llc(CONFIRM_LINK, 1)
        self.group.offer_link(offer)
        self.group.receive_llc(ADD_LINK, 1)

    def as_server(self, listener, group=None):
        """Performs a complete handshake."""
        self.proposed(listener)
        self.accept(group=group)
        self.confirmed()
        if self.first:
            self.link()
        return self

    def decline(self, changes=None, diagnosis=0x03000000):
        """Sends Decline."""
        self.clc(DECLINE, changes, diagnosis=diagnosis)


class Peer:
    """A host with an SMC identity of its own."""

    count = 0

    def __init__(self, host):
        Peer.count += 1
        self.host, self.groups, self.connections = host, [], []
        self.ident = struct.pack("!H", Peer.count) + raw.MAC
        self.number = Peer.count << 12
        # Offset of data in elements: 4 with an eye catcher, else 0.
        self.origin = 0

    def flags(self):
        """The eye catcher flags in CONFIRM LINK."""
        return 0 if self.origin else PLAIN

    def new_number(self):
        """An unused number."""
        self.number += 1
        return self.number

    def new_group(self):
        """Makes a link group."""
        group = Group(self)
        self.groups.append(group)
        return group

    def new(self):
        """Makes a connection, which is not established yet."""
        connection = Connection(self)
        self.connections.append(connection)
        return connection

    def leave(self):
        """Ends all link groups by DELETE LINK."""
        for connection in self.connections:
            connection.drop()
        for group in self.groups:
            group.leave()

    def end(self):
        """Removes all connections and link groups."""
        for group in self.groups:
            group.disappear()


def connecting(address):
    """A non-blocking client of ours that connects to a peer."""
    sock = topology.new_socket("b")
    sock.setblocking(False)
    if sock.connect_ex(address) not in (0, errno.EINPROGRESS):
        raise AssertionError("connect")
    return sock


def connect_result(sock, seconds=topology.BOUND):
    """Waits for the end of a client's connect: "none", "late" or the name of the error."""
    if not select.select([], [sock], [], seconds)[1]:
        return "late"
    number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    sock.settimeout(raw.SECONDS)
    return errno.errorcode.get(number, "none")
