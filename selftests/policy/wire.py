#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Two sides of ours on the wire: their messages are those of the standard, in its order, and there are
no others."""

import socket
import sys

import ktap
import topology
from capture import ACK, FIN, SEND, SYN, WRITE, Wire
from ktap import equal
from messages import (ACCEPT, CLOSED, CONFIRM, CONFIRM_LINK, CONFIRM_RKEY, PROPOSAL,
                      TEST_LINK, read_cdc, read_llc)
from topology import all_gone, exchange, expect_smc, known, pair

OPTION = bytes.fromhex("fe06e2d4c3d9")


def is_true(value, what):
    """Fails unless the value is true."""
    if not value:
        raise AssertionError(what)


def address(family, host):
    """An address as octets."""
    return socket.inet_pton(family, host)


def sequence(wire, client):
    """The types of the CLC messages of a connection, and Proposal, Accept and Confirm."""
    found = wire.clc(client)
    equal([message["type"] for _, message in found], [PROPOSAL, ACCEPT, CONFIRM], "CLC messages")
    return found


def first_contact(family):
    """The first connection of two hosts: TCP with the option, CLC, the confirmation of the link, then
    data."""
    # GEN-01, GEN-03, TCP-10, TCP-11, TCP-16, TCP-19, CLC-01, RDV-02, RDV-03, RDV-07, LLF-01,
    # LLC-01, LLC-03, LNK-05, LNK-06, LNK-07, LNK-09, LNK-10, RMB-21, TST-008.
    topology.netns("up")
    hosts = {side: address(family, topology.HOSTS[family][side]) for side in "ab"}
    with Wire() as wire:
        client, server = pair(family)
        expect_smc(client, server)
        wire.flush()
        established = len(wire.seen)
        exchange(client, server, 5000)
        found = sequence(wire, client)
        client.close()
        server.close()
        all_gone()
        wire.flush()
        seen = list(wire.seen)
    syn, syn_ack = [what for what in seen[:established] if hasattr(what, "flags") and
                    what.flags & SYN][:2]
    is_true(OPTION in syn.options and OPTION in syn_ack.options, "the option is missing")
    (_, proposal), (_, accept), (confirm_at, confirm) = found
    equal(accept["first"], 1, "first contact flag")
    packets = [what for what in seen if hasattr(what, "qpn")]

    # Reliable connections between the two queue pairs of the CLC messages, and no others.
    ends = {hosts["a"]: (accept["qpn"], accept["mac"]), hosts["b"]: (confirm["qpn"], confirm["mac"])}
    for packet in packets:
        is_true(packet.kind in (SEND, WRITE, "ack"), "opcode %#x" % packet.opcode)
        equal((packet.qpn, int.from_bytes(packet.mac, "big")), ends[packet.source], "destination")
    # Packet numbers start at those of the messages.
    for host, psn in ((hosts["b"], accept["psn"]), (hosts["a"], confirm["psn"])):
        first = next(packet for packet in packets if packet.source == host and packet.kind == SEND)
        equal(first.psn, psn, "first packet")
    # No RDMA before the Confirm.
    is_true(seen.index(packets[0]) > seen.index(confirm_at), "RDMA before Confirm")

    sends = [packet for packet in packets if packet.kind == SEND]
    for packet in sends:
        equal(len(packet.data), 44, "length of a message")
        is_true(packet.first and packet.last, "a message in parts")
    # A request that is acknowledged or answered late is repeated.
    request, reply = sends[0], next(packet for packet in sends if packet.source == hosts["a"])
    answered = seen.index(reply)
    for packet in sends[1:sends.index(reply)]:
        equal(packet.data, request.data, "repeated request")
    equal((request.source, request.data[0], request.data[3] & 0x80), (hosts["b"], CONFIRM_LINK, 0),
          "request")
    equal((reply.source, reply.data[0], reply.data[3] & 0x80), (hosts["a"], CONFIRM_LINK, 0x80),
          "reply")
    request, reply = read_llc(request.data), read_llc(reply.data)
    for message, end in ((request, accept), (reply, confirm)):
        for name in ("mac", "gid", "qpn"):
            equal(message[name], end[name], name)
    equal(reply["number"], request["number"], "number of the link")
    is_true(request["number"] != 0, "the link has number 0")
    # No data before the confirmation of the link.
    writes = [packet for packet in packets if packet.kind == WRITE]
    is_true(seen.index(writes[0]) > answered, "data before CONFIRM LINK")
    equal(proposal["peer"] != accept["peer"], True, "both have one peer ID")
    equal(proposal["peer"], confirm["peer"], "peer ID of the client")


def data_path(family):
    """Each CDC message follows its data on the same queue pair. The data are written to the address of
    the CLC messages, without immediate data."""
    # GEN-08, CDC-04, CDC-30, CDC-31, CDC-32, CDC-33, RMB-09, RMB-10, CLC-208, CLC-307, TST-001.
    topology.netns("up")
    hosts = {side: address(family, topology.HOSTS[family][side]) for side in "ab"}
    size = 70000
    with Wire() as wire:
        client, server = pair(family)
        expect_smc(client, server)
        client.sendall(known("a", size))
        equal(topology.receive(server, size) == known("a", size), True, "data")
        _, (_, accept), (_, confirm) = sequence(wire, client)
        client.close()
        server.close()
        all_gone()
        packets = wire.packets()
    base = accept["address"] + (accept["index"] - 1) * (16384 << accept["size"])
    top = base + (16384 << accept["size"])
    to_server = [packet for packet in packets if packet.source == hosts["a"] and
                 packet.kind in (SEND, WRITE)]
    written, pending, seqs = {}, False, []
    place, left = None, 0
    numbers = set()
    for packet in to_server:
        # A retransmission for lack of an acknowledgment.
        if packet.psn in numbers:
            continue
        numbers.add(packet.psn)
        is_true(packet.opcode not in (0x03, 0x05, 0x09, 0x0b), "immediate data")
        if packet.kind == WRITE:
            if packet.first:
                equal(packet.rkey, accept["rkey"], "key")
                place, left = packet.address, packet.length
                is_true(base <= place and place + left <= top, "outside of the element")
            left -= len(packet.data)
            place += len(packet.data)
            is_true(left >= 0, "more than announced")
            written[packet.psn] = packet
            pending = True
        elif packet.is_cdc():
            message = read_cdc(packet.data)
            equal(message["token"], accept["token"], "token")
            seqs.append(message["seq"])
            equal(left, 0, "a message within data")
            pending = False
    is_true(written, "no data")
    equal(pending, False, "data without a message")
    equal(seqs, list(range(1, len(seqs) + 1)), "numbers of the messages")
    tokens = {read_cdc(packet.data)["token"] for packet in packets
              if packet.source == hosts["b"] and packet.is_cdc()}
    equal(tokens, {confirm["token"]}, "tokens to the client")


def tcp_rests(family):
    """While data use RDMA, TCP sends no octet and its sequence numbers do not change, up to the
    FINs."""
    # GEN-07, TCR-01, TCR-04, TCR-05, CLS-15, SEC-05, TST-153.
    topology.netns("up")
    with Wire() as wire:
        client, server = pair(family)
        expect_smc(client, server)
        _, _, (confirm_at, _) = sequence(wire, client)
        exchange(client, server, 300000)
        client.close()
        server.close()
        all_gone()
        ports = set(confirm_at.ports)
        topology.until(lambda: len([what for what in wire.seen if hasattr(what, "flags") and
                                    what.flags & FIN]) >= 2, "FIN")
        seen = list(wire.seen)
    before, after = seen[:seen.index(confirm_at) + 1], seen[seen.index(confirm_at) + 1:]
    # TCP repeats a segment whose acknowledgment takes 200 ms.
    said = {(what.ports, what.seq, what.data) for what in before if hasattr(what, "flags") and what.data}
    end = confirm_at.seq + len(confirm_at.data) & 0xffffffff
    for what in after:
        if not hasattr(what, "flags") or set(what.ports) != ports:
            continue
        if (what.ports, what.seq, what.data) in said:
            continue
        equal(what.data, b"", "data by TCP")
        if what.ports == confirm_at.ports:
            is_true((what.seq - end & 0xffffffff) <= 1, "sequence number")
        if what.flags & FIN:
            equal((what.seq if what.ports == confirm_at.ports else what.ack) - end & 0xffffffff <= 1,
                  True, "number of FIN")
    # SMC-R closes before TCP.
    fin = next(what for what in after if hasattr(what, "flags") and what.flags & FIN)
    closing = next(what for what in after if hasattr(what, "qpn") and what.is_cdc() and
                   read_cdc(what.data)["state_flags"] & CLOSED)
    is_true(seen.index(closing) < seen.index(fin), "FIN before the end of SMC-R")


def subsequent_contact(family):
    """The second connection: the same Proposal, no new link, and no LLC message."""
    # CLC-122, TCP-20, RDV-20, RDV-21, RDV-25, RDV-29, CLC-222, CLC-323, LGR-18, TST-114.
    topology.netns("up")
    with Wire() as wire:
        one = pair(family)
        expect_smc(*one)
        exchange(*one, 1000)
        (_, proposal), (_, accept), (_, confirm) = sequence(wire, one[0])
        start = len(wire.seen)
        two = pair(family)
        expect_smc(*two)
        # The server writes first.
        two[1].sendall(b"hello")
        equal(topology.receive(two[0], 5), b"hello", "data")
        wire.flush()
        (_, proposal2), (_, accept2), (_, confirm2) = sequence(wire, two[0])
        middle = wire.seen[start:]
        for sock in one + two:
            sock.close()
        all_gone()
    equal(bytes(proposal2), bytes(proposal), "Proposal")
    equal(accept2["first"], 0, "first contact flag")
    for new, old in ((accept2, accept), (confirm2, confirm)):
        for name in ("peer", "gid", "mac", "qpn", "mtu", "psn"):
            equal(new[name], old[name], name)
        is_true((new["rkey"], new["index"]) != (old["rkey"], old["index"]), "one element for two")
        is_true(new["token"] != old["token"], "one token for two")
    equal([packet.data[0] for packet in middle if hasattr(packet, "qpn") and packet.is_llc()
           and packet.data[0] != TEST_LINK], [], "LLC messages")


def new_buffers(family):
    """A new buffer is confirmed before a CLC message names it."""
    # CLC-226. RDV-22, RDV-23, RDV-30, LLF-60, TST-013.
    topology.netns("up")
    with Wire() as wire:
        pairs = []
        for _ in range(24):
            pairs.append(pair(family))
            expect_smc(*pairs[-1])
        known_keys = {}
        replies = {}
        checked = 0
        clc = {}
        for client, _ in pairs:
            for segment, message in wire.clc(client):
                clc[id(segment)] = message
        for what in list(wire.seen):
            if hasattr(what, "qpn"):
                if not what.is_llc() or what.data[0] != CONFIRM_RKEY:
                    continue
                message = read_llc(what.data)
                if message["reply"]:
                    equal(message["flags"] & 0x20, 0, "refusal")
                    replies[message["rkey"]] = True
                else:
                    known_keys.setdefault(message["rkey"], what)
                continue
            message = clc.get(id(what))
            if message is None or message["type"] not in (ACCEPT, CONFIRM) or message["first"]:
                continue
            if message["rkey"] in known_keys:
                is_true(message["rkey"] in replies, "named before it is confirmed")
                checked += 1
        is_true(checked > 0, "no buffer was added")
        for client, server in pairs:
            client.close()
            server.close()
        all_gone()


def keepalives(family):
    """TCP's keepalives are sent and answered, and do not disturb the stream."""
    # TCR-02, KAL-06, KAL-08, TST-139.
    topology.netns("up")
    with Wire() as wire:
        client, server = pair(family)
        expect_smc(client, server)
        start = len(wire.seen)
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

        def answered(sock):
            """Whether a probe of an end was acknowledged."""
            found = [what for what in wire.seen[start:] if hasattr(what, "flags")]
            return any(probe.is_from(sock) and not answer.is_from(sock) and answer.flags == ACK
                       and probe.flags == ACK and answer.ack == probe.seq + 1 & 0xffffffff
                       for number, probe in enumerate(found) for answer in found[number:])
        for sock in (client, server):
            topology.until(lambda s=sock: answered(s), "keepalive")
        expect_smc(client, server)
        exchange(client, server, 1000)
        client.close()
        server.close()
        all_gone()


def identity(family):
    """A host has one peer ID for all its devices, with the MAC of one of them. Another namespace has
    another one."""
    # CLC-12, CLC-13, CLC-14, CLC-15, CLC-20, CLC-21, LNK-04, TST-154.
    topology.netns("up")
    with Wire() as wire:
        client, server = pair(family)
        _, (_, accept), (_, confirm) = sequence(wire, client)
        client.close()
        server.close()
        all_gone()
    for side, message in (("a", confirm), ("b", accept)):
        text = topology.command("ip", "netns", "exec", "rs-" + side, "cat",
                                "/sys/class/net/v%s/address" % side)
        mac = bytes.fromhex(text.strip().replace(":", ""))
        equal(message.raw("peer")[2:], mac, "MAC of the peer ID of " + side)
    first = confirm.raw("peer"), accept.raw("peer")
    # The same hosts with other devices and other addresses.
    for side in "ab":
        topology.command("rdma", "link", "delete", "rs_" + side)
        topology.command("ip", "-n", "rs-" + side, "link", "set", "v" + side, "down")
        topology.command("ip", "-n", "rs-" + side, "link", "set", "v" + side, "address",
                         "02:00:00:00:00:0" + side)
        topology.command("ip", "-n", "rs-" + side, "link", "set", "v" + side, "up")
        topology.command("ip", "netns", "exec", "rs-" + side, "rdma", "link", "add", "rs_" + side,
                         "type", "rxe", "netdev", "v" + side)
    for side, number in (("a", 1), ("b", 2)):
        topology.await_gid("rs_" + side, "10.9.0.%d" % number)
    with Wire() as wire:
        client, server = pair(socket.AF_INET)
        expect_smc(client, server)
        _, (_, accept), (_, confirm) = sequence(wire, client)
        client.close()
        server.close()
        all_gone()
    equal((confirm.raw("peer"), accept.raw("peer")), first, "peer IDs with other devices")
    equal(confirm["mac"], 0x02000000000a, "MAC of the link")
    # New hosts.
    topology.netns("up")
    with Wire() as wire:
        client, server = pair(family)
        _, (_, accept), (_, confirm) = sequence(wire, client)
        client.close()
        server.close()
        all_gone()
    equal(len({confirm.raw("peer"), accept.raw("peer"), *first}), 4, "different peer IDs")


def proposal_reserves_nothing(family):
    """A server that falls back leaves the client without a link group."""
    # CLC-123, LGR-25.
    topology.netns("up")
    topology.command("ip", "-n", "rs-b", "address", "delete", "10.9.0.2/24", "dev", "vb")
    topology.command("ip", "-n", "rs-b", "address", "add", "10.9.0.2/25", "dev", "vb")
    with Wire() as wire:
        client, server = pair(socket.AF_INET)
        equal([message["type"] for _, message in wire.clc(client)], [PROPOSAL, 4], "CLC messages")
        equal(wire.packets(), [], "RDMA")
        equal((topology.proc("a", "links"), topology.proc("b", "links")), ("", ""), "link groups")
        exchange(client, server, 1000)
        client.close()
        server.close()
        all_gone()
    del family


def main():
    """Runs all tests for both versions of IP."""
    topology.need_module()
    tests = []
    for family, version in ((socket.AF_INET, "ipv4"), (socket.AF_INET6, "ipv6")):
        for test in (first_contact, data_path, tcp_rests, subsequent_contact, new_buffers,
                     keepalives, identity, proposal_reserves_nothing):
            def one(test=test, family=family):
                test(family)
            one.name = "%s.%s" % (version, test.__name__)
            tests.append(one)
    return ktap.run(tests)


if __name__ == "__main__":
    sys.exit(main())
