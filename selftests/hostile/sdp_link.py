#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The link of a connection of SDP as its peer sees it: how it is found, its receive buffers, its operations,
urgent data, and what is left of it.

Covers SDP-CONN-03, SDP-CONN-04, SDP-CONN-06, SDP-CONN-15, SDP-CONN-16, SDP-GEN-22, SDP-SOCK-07, SDP-CLS-16,
SDP-CLS-25, SDP-PMF-20, SDP-PMF-22, SDP-PMF-23, SDP-PMC-03, SDP-PMC-08.
"""

import json
import pathlib
import select
import struct
import sys
import time

import ktap
import raw
import topology
from cm import Requester
from ktap import equal
from sdp_peer import DATA, DISCONN, URGENT_HERE, URGENT_SOON, Peer, accepted, nothing_is_left, octets

BUFFERS = 16
# Octets of the receive buffers of the kernel, without the header.
SIZE = 32768 - 16
PORT_MAPPER = 3935
# An answer within these seconds is in time for certain.
SOON = 0.05
PM_REQ, PM_ACCEPT, PM_ACK = range(3)
PROBE = pathlib.Path("/proc/sys/net/rdma_sock/sdp_probe")
KINDS = ("cm_id", "cq", "mr", "pd", "qp")


def with_host(test):
    """Makes a test that gets a host, its requester and a listener of the kernel."""
    def run():
        with raw.Host() as host, topology.listener("b") as listening:
            requester = Requester(host)
            test(host, requester, listening)
            requester.close()
        nothing_is_left()
    run.name = test.__name__
    return run


def fill(peer, count):
    """Sends as many messages as there are receive buffers, without a pause; their octets."""
    for number in range(count):
        peer.send(DATA, octets(number * SIZE, SIZE), ask=number == count - 1)
    return octets(0, count * SIZE)


def server_has_the_buffers_of_its_hello_ack(_, requester, listening):
    """Messages for all of them may follow the set-up at once."""
    sock, peer = accepted(requester, listening, BUFFERS)
    bufs = requester.bufs[requester.next_id]
    equal(bufs >= 3, True, "%d buffers in HelloAck" % bufs)
    # Two are not for data.
    sent = fill(peer, bufs - 2)
    equal(topology.receive(sock, len(sent)) == sent, True, "data")
    peer.qp.quiet()
    equal(peer.qp.not_ready, 0, "messages that found no buffer")
    peer.end(sock)


def operations_of_both_kinds_are_enabled(_, requester, listening):
    """A peer may write and read, though not without a key."""
    sock, peer = accepted(requester, listening, BUFFERS)
    peer.qp.write(0, 0, b"")
    equal(peer.qp.quiet(), None, "refusal of a write")
    peer.qp.read_nothing()
    equal(peer.qp.quiet(), None, "refusal of a read")
    equal(peer.qp.responses, 1, "responses")
    peer.end(sock)


def urgent_octet_is_announced_and_marked(_, requester, listening):
    """OOB_PEND comes early, and OOB_PRES with the message that the octet ends."""
    sock, peer = accepted(requester, listening, BUFFERS)
    sock.sendall(b"front")
    sock.send(b"urgent!", raw.socket.MSG_OOB)
    sock.sendall(b"behind")
    found = peer.wait(lambda message: message.rest.endswith(b"behind"), "all data")
    marked = [number for number, message in enumerate(found) if message.flags & URGENT_HERE]
    early = [number for number, message in enumerate(found) if message.flags & URGENT_SOON]
    equal(len(marked), 1, "messages with OOB_PRES")
    equal(bool(early) and early[0] <= marked[0], True, "OOB_PEND in %s, OOB_PRES in %s" % (early, marked))
    equal(b"".join(message.rest for message in found[:marked[0] + 1]), b"fronturgent!", "up to the mark")
    peer.end(sock)


def resources():
    """How many objects of each kind the kernel's side has on its device."""
    found = {}
    for kind in KINDS:
        shown = topology.command("ip", "netns", "exec", "rs-b", "rdma", "-j", "resource", "show", kind)
        found[kind] = len([one for one in json.loads(shown or "[]") if one.get("ifname") == "rs_b"])
    return found


def closed_connection_leaves_nothing_on_the_device(_, requester, listening):
    """Whichever side ends it first."""
    before = resources()
    for peer_first in False, True:
        sock, peer = accepted(requester, listening, BUFFERS)
        during = resources()
        equal(during["qp"] > before["qp"] and during["cq"] > before["cq"], True, "objects %s" % during)
        sock.sendall(octets(0, 100))
        equal(peer.data(100), octets(0, 100), "data of ours")
        if peer_first:
            peer.send(DISCONN)
            equal(sock.recv(1), b"", "end of the peer")
            sock.close()
            peer.wait(lambda message: message.mid == DISCONN, "DisConn")
        else:
            peer.end(sock)
        topology.until(lambda: topology.counter("b", "active_conns") == 0, "the connection lives")
        topology.until(lambda: resources() == before, "objects are left")


class Client:
    """A socket of the kernel that connects to the host."""

    def __init__(self, port, host=raw.IP):
        self.sock = topology.new_socket("b")
        self.sock.setblocking(False)
        equal(topology.error_of(self.sock.connect, (host, port)), "EINPROGRESS", "connect")

    def connected(self, host):
        """Waits for the end of the set-up."""
        poll = select.poll()
        poll.register(self.sock, select.POLLOUT)
        host.wait(lambda: poll.poll(0), "connected")
        equal(self.sock.getsockopt(raw.socket.SOL_SOCKET, raw.socket.SO_ERROR), 0, "error")
        self.sock.settimeout(topology.BOUND)
        equal(topology.mode("b", self.sock)[0], "sdp", "mode")


def probe(how):
    """Sets how the kernel's side finds out whether a host has SDP."""
    with topology.inside("b"):
        PROBE.write_text(how + "\n", encoding="ascii")


def client_has_the_buffers_of_its_hello(host, requester, _):
    """Messages for all of them may follow the answer at once."""
    probe("cm")
    client = Client(6001)
    request = requester.next_request()
    equal(request.port, 6001, "port")
    number, qp = requester.accept(request, BUFFERS)
    peer = Peer(qp, BUFFERS)
    sent = fill(peer, request.bufs - 2)
    client.connected(host)
    equal(client.sock.getsockname()[1], request.source_port, "port in Hello")
    equal(topology.receive(client.sock, len(sent)) == sent, True, "data")
    host.wait(lambda: number in requester.ready_ids, "ready")
    peer.qp.quiet()
    equal(peer.qp.not_ready, 0, "messages that found no buffer")
    peer.end(client.sock)
    probe("pm")


class PortMapper(list):
    """The datagrams to the Port Mappers of the host's addresses. Each question is answered at once: the kernel
    waits for 150 ms. `answered` has the times, in seconds."""

    def __init__(self, host):
        super().__init__()
        self.host, self.answered = host, []

    def append(self, datagram):
        super().append(datagram)
        port, octets = datagram
        if octets[0] >> 4 == PM_REQ:
            self.host.send_datagram(raw.socket.inet_ntoa(octets[32:36]), PORT_MAPPER, port,
                                    bytes([PM_ACCEPT << 4 | 4, 20]) + octets[2:])
            self.answered.append(time.monotonic())

    def of(self, kind):
        """Those of a kind: by the handle, the address that is asked, and the port of the other side."""
        return {octets[8:16]: (raw.socket.inet_ntoa(octets[32:36]), port)
                for port, octets in self if octets[0] >> 4 == kind}


class Fallen:
    """A TCP port that does not answer, and keeps the ports of clients that have given up SDP."""

    def __init__(self):
        self.ports = set()

    def incoming(self, port):
        """A client has sent a SYN."""
        self.ports.add(port)


def port_mapper_is_asked_by_datagrams(host, requester, _):
    """Each question goes to port 3935 and has a handle of its own, and the answer to it is acknowledged where
    it came from. On a machine that is too busy to answer in time other hosts are asked."""
    mapper = host.datagrams[PORT_MAPPER] = PortMapper(host)
    fallen = host.listeners[6002] = Fallen()
    for first in range(1, 60, 2):
        mapper.clear()
        mapper.answered.clear()
        fallen.ports.clear()
        began = time.monotonic()
        clients = {address: Client(6002, address) for address in map(requester.new_host, (first, first + 1))}
        host.wait(lambda: len(requester.requests) + len(fallen.ports) >= len(clients), "the end of discovery")
        all_in_time = not fallen.ports
        if all_in_time:
            host.wait(lambda: len(mapper.of(PM_ACK)) == len(clients), "PMAck")
            equal(sorted(address for address, _ in mapper.of(PM_REQ).values()), sorted(clients), "hosts")
            equal(mapper.of(PM_ACK), mapper.of(PM_REQ), "PMAck")
        else:
            in_time = [when for when in mapper.answered if when < began + SOON]
            equal(len(in_time) < len(clients), True, "a client takes TCP in spite of an answer in time")
        while requester.requests:
            request = requester.next_request()
            client = clients.pop(request.target)
            _, qp = requester.accept(request, BUFFERS)
            client.connected(host)
            Peer(qp, BUFFERS).end(client.sock)
        for client in clients.values():
            client.sock.close()
        if all_in_time:
            return
    raise AssertionError("no answer was in time")


def main():
    """Runs all tests."""
    topology.need_module()
    topology.netns("up")
    with topology.engine("sdp"):
        return ktap.run([with_host(test) for test in (
            server_has_the_buffers_of_its_hello_ack, operations_of_both_kinds_are_enabled,
            urgent_octet_is_announced_and_marked, closed_connection_leaves_nothing_on_the_device,
            client_has_the_buffers_of_its_hello, port_mapper_is_asked_by_datagrams)])


if __name__ == "__main__":
    sys.exit(main())
