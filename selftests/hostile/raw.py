# SPDX-License-Identifier: GPL-2.0
"""A host made of one packet socket: Ethernet, IPv4, TCP and RoCEv2 by a program.

The host has an address of the veth segment that no kernel has. A thread reads frames and passes them to
TCP connections and queue pairs, which answer as their behavior demands. The test's thread waits for
results.
"""

import contextlib
import ctypes
import json
import select
import socket
import struct
import threading
import time

import topology

IP, MAC = "10.9.0.66", bytes.fromhex("020000000066")
# A second device of the host, for RoCE only.
OTHER_IP, OTHER_MAC = "10.9.0.67", bytes.fromhex("020000000067")
ROCE_PORT = 4791
ETH_P_ALL = 3
SO_ATTACH_FILTER = 26
SO_RCVBUFFORCE = 33
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
SMC_OPTION = bytes.fromhex("fe06e2d4c3d90101")
# Time limit of a peer for anything it waits for.
SECONDS = 20 * topology.SLOW


def checksum(data):
    """The internet checksum."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def only_for(mac, other):
    """A classic BPF program that accepts frames to either address. The addresses differ only in their
    last octet."""
    high, low = struct.unpack("!IH", mac)
    program = b"".join(struct.pack("=HBBI", *step) for step in (
        (0x20, 0, 0, 0), (0x15, 0, 4, high), (0x28, 0, 0, 4), (0x15, 1, 0, low),
        (0x15, 0, 1, struct.unpack("!H", other[4:])[0]), (0x06, 0, 0, 0xffff), (0x06, 0, 0, 0)))
    return program


class Host(threading.Thread):
    """The host. `with` adds it to the segment and removes it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.ports, self.listeners, self.qps, self.timers = {}, {}, {}, []
        # Datagrams to ports that are of interest: the port they came from, and the octets.
        self.datagrams = {}
        self.next_port, self.next_qpn = 20000, 0x100
        self.packet_id, self.fault, self.ended = 0, None, False
        # How often the host found no frame.
        self.lulls = 0
        # As on a cable, the host gets each packet by itself.
        topology.command("ip", "-n", "rs-b", "link", "set", "dev", "vb", "gso_max_segs", "1")
        link, = json.loads(topology.command("ip", "-n", "rs-b", "-j", "link", "show", "dev", "vb"))
        self.theirs = bytes.fromhex(link["address"].replace(":", ""))
        for ip, mac in ((IP, MAC), (OTHER_IP, OTHER_MAC)):
            topology.command("ip", "-n", "rs-b", "neigh", "replace", ip, "lladdr", mac.hex(":"), "dev", "vb",
                             "nud", "permanent")
        with topology.inside("a"):
            self.raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            self.raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
            program = only_for(MAC, OTHER_MAC)
            buffer = ctypes.create_string_buffer(program, len(program))
            self.raw.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack(
                "@HL", len(program) // 8, ctypes.addressof(buffer)))
            self.raw.bind(("va", ETH_P_ALL))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *args):
        self.ended = True
        self.join()
        self.raw.close()
        if self.fault is not None and args == (None, None, None):
            raise self.fault

    def run(self):
        """Reads frames until the host ends."""
        try:
            while not self.ended:
                select.select([self.raw], [], [], 0.01)
                with self.lock:
                    for _ in range(64):
                        try:
                            frame = self.raw.recv(65536, socket.MSG_DONTWAIT)
                        except BlockingIOError:
                            self.lulls += 1
                            break
                        self.take(frame)
                    now = time.monotonic()
                    due = [timer for timer in self.timers if timer[0] <= now]
                    self.timers = [timer for timer in self.timers if timer[0] > now]
                    for _, function in due:
                        function()
                    self.changed.notify_all()
        except Exception as fault:  # pylint: disable=broad-except
            self.fault = fault

    def after(self, seconds, function):
        """Calls a function later, on the thread."""
        with self.lock:
            self.timers.append((time.monotonic() + seconds, function))

    def wait(self, condition, what, seconds=SECONDS):
        """Waits until a condition is true; its value."""
        end = time.monotonic() + seconds
        with self.changed:
            while not (value := condition()):
                if self.fault is not None:
                    raise self.fault
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError("%s: not in %d s" % (what, seconds))
                self.changed.wait(left)
            return value

    def catch_up(self):
        """Waits until the host has answered all that it was sent before. The kernel gives up a host that
        takes longer than it waits for answers."""
        with self.lock:
            before = self.lulls
        self.wait(lambda: self.lulls > before, "a host without a backlog")

    def take(self, frame):
        """Handles a frame to this host."""
        if frame[12:14] != b"\x08\x00":
            return
        packet = frame[14:14 + struct.unpack("!H", frame[16:18])[0]]
        head = (packet[0] & 15) * 4
        rest = packet[head:]
        if packet[9] == socket.IPPROTO_TCP:
            sport, dport, seq, ack, doff, flags = struct.unpack("!HHIIBB", rest[:14])
            options, data = rest[20:(doff >> 4) * 4], rest[(doff >> 4) * 4:]
            connection = self.ports.get((dport, sport))
            if flags & (SYN | ACK) == SYN and dport in self.listeners:
                # The kernel may choose a port again once its connection has ended.
                if connection is None or connection.began != seq:
                    connection = self.listeners[dport].incoming(sport)
            if connection is not None:
                connection.take(seq, ack, flags, options, data)
        elif packet[9] == socket.IPPROTO_UDP and rest[2:4] != struct.pack("!H", ROCE_PORT):
            sport, dport = struct.unpack("!HH", rest[:4])
            if dport in self.datagrams:
                self.datagrams[dport].append((sport, rest[8:]))
        elif packet[9] == socket.IPPROTO_UDP:
            bth, body = rest[8:20], rest[20:-4]
            qp = self.qps.get(int.from_bytes(bth[5:8], "big"))
            if qp is not None:
                qp.take(bth, body)

    def send_ip(self, protocol, payload, source=IP):
        """Sends a packet; the IP header, for checksums that cover it."""
        self.raw.send(MAC_HEADER % (self.theirs, MAC) + self.ip_header(protocol, len(payload), source) +
                      payload)

    def send_datagram(self, source, port, other, payload):
        """Sends a datagram from an address and a port to a port of the kernel, without a checksum."""
        with self.lock:
            head = struct.pack("!HHHH", port, other, 8 + len(payload), 0)
            self.send_ip(socket.IPPROTO_UDP, head + payload, source)

    def ip_header(self, protocol, size, source=IP):
        """The header of a packet with a payload of `size` octets."""
        self.packet_id = self.packet_id + 1 & 0xffff
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + size, self.packet_id, 0x4000, 64, protocol, 0,
                           socket.inet_aton(source), socket.inet_aton(topology.HOSTS[socket.AF_INET]["b"]))
        return head[:10] + struct.pack("!H", checksum(head)) + head[12:]

    def new_port(self):
        """An unused port."""
        with self.lock:
            self.next_port += 1
            return self.next_port

    def new_qpn(self):
        """An unused queue pair number."""
        with self.lock:
            self.next_qpn += 1
            return self.next_qpn


MAC_HEADER = b"%b%b\x08\x00"


class Tcp:
    """A TCP connection over a link without loss."""

    def __init__(self, host, port, other, seq=1000):
        self.host, self.port, self.other = host, port, other
        self.seq, self.ack, self.acked = seq, 0, 0
        # The sequence number of the kernel's SYN.
        self.began = None
        self.data, self.options = bytearray(), b""
        # Segments with a sequence number that the kernel has not acknowledged: number, flags, data,
        # options.
        self.flight = []
        self.established = self.fin = self.reset = self.deaf = False
        self.answer = SMC_OPTION
        with host.lock:
            host.ports[port, other] = self

    def send(self, flags, data=b"", options=b""):
        """Sends one segment."""
        with self.host.lock:
            if data or flags & (SYN | FIN):
                self.flight.append((self.seq, flags, data, options))
            self.put(self.seq, flags, data, options)
            self.seq = self.end(self.seq, flags, data)

    @staticmethod
    def end(seq, flags, data, _=None):
        """The sequence number after a segment."""
        return seq + len(data) + bool(flags & (SYN | FIN)) & 0xffffffff

    def put(self, seq, flags, data, options):
        """Transmits one segment."""
        with self.host.lock:
            head = struct.pack("!HHIIBBHHH", self.port, self.other, seq, self.ack,
                               (20 + len(options)) // 4 << 4, flags, 64000, 0, 0)
            ip = self.host.ip_header(socket.IPPROTO_TCP, 0)
            total = checksum(ip[12:20] + struct.pack("!HH", 6, len(head) + len(options) + len(data)) +
                             head + options + data)
            head = head[:16] + struct.pack("!H", total) + head[18:]
            self.host.send_ip(socket.IPPROTO_TCP, head + options + data)

    def send_again(self):
        """Retransmits unacknowledged segments: a listener with a full queue drops segments."""
        with self.host.lock:
            for segment in self.flight:
                self.put(*segment)

    def take(self, seq, ack, flags, options, data):
        """Handles a segment of the kernel."""
        if self.deaf:
            return
        if flags & RST:
            self.reset = True
            return
        if flags & ACK:
            self.acked = ack
            # Keep segments that end after the acknowledged number, modulo 2^32.
            self.flight = [segment for segment in self.flight if 0 < self.end(*segment) - ack & 0xffffffff < 1 << 31]
        if flags & SYN:
            repeated, self.began = self.began == seq, seq
            self.ack, self.options = seq + 1 & 0xffffffff, options
            if flags & ACK:
                self.send(ACK)
                if self.established:
                    self.send_again()
                self.established = True
            elif repeated:
                self.send_again()
            else:
                self.send(SYN | ACK, options=self.answer)
            return
        self.established = True
        if seq != self.ack:
            # A repeated segment: repeat the acknowledgment.
            if data or flags & FIN:
                self.send(ACK)
            return
        self.data += data
        self.ack = self.ack + len(data) & 0xffffffff
        if flags & FIN:
            self.fin = True
            self.ack = self.ack + 1 & 0xffffffff
        if data or flags & FIN:
            self.send(ACK)

    def connect(self, options=SMC_OPTION):
        """Connects to a port of the kernel."""
        self.send(SYN, options=options)
        self.host.after(1, self.still_connecting)
        self.host.wait(lambda: self.established or self.reset, "SYN-ACK")

    def still_connecting(self):
        """Retransmits a SYN without an answer after a second, as TCP does."""
        if not (self.established or self.reset or self.deaf):
            self.send_again()
            self.host.after(1, self.still_connecting)

    def write(self, data):
        """Sends octets of the stream."""
        for at in range(0, len(data), 1400):
            self.send(PSH | ACK, data[at:at + 1400])

    def read(self, size, seconds=SECONDS):
        """Waits for `size` octets of the stream; fewer if it ends."""
        def there():
            return len(self.data) >= size or self.fin or self.reset
        self.host.wait(there, "%d octets by TCP" % size, seconds)
        with self.host.lock:
            data = bytes(self.data[:size])
            del self.data[:size]
        return data

    def close(self):
        """Ends the sending direction."""
        self.send(FIN | ACK)

    def abort(self):
        """Sends a RST."""
        # The kernel takes no number that was not its own.
        self.send(RST | ACK if self.established else RST)

    def forget(self):
        """Ignores further segments of the kernel."""
        with self.host.lock:
            self.host.ports.pop((self.port, self.other), None)


class Listener:
    """A port that accepts connections of the kernel."""

    def __init__(self, host, answer=SMC_OPTION):
        self.host, self.answer, self.new = host, answer, []
        self.port = host.new_port()
        host.listeners[self.port] = self

    def address(self):
        """The address for the kernel's connect."""
        return IP, self.port

    def incoming(self, other):
        """Starts a connection."""
        tcp = Tcp(self.host, self.port, other)
        tcp.answer = self.answer
        self.new.append(tcp)
        return tcp

    def accept(self):
        """Waits for the next established connection."""
        self.host.wait(lambda: self.new and self.new[0].established, "a connection")
        return self.new.pop(0)


@contextlib.contextmanager
def connected(host, port, options=SMC_OPTION):
    """A TCP connection to a port of the kernel, forgotten at the end of the block."""
    tcp = Tcp(host, host.new_port(), port)
    try:
        tcp.connect(options)
        yield tcp
    finally:
        tcp.forget()
