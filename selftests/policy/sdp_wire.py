#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Connections of SDP on the wire: a decoder that was written from the draft follows them, and tshark's
dissector, an independent implementation, shows the same fields."""

import contextlib
import copy
import ctypes
import dataclasses
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import ktap
import sdp_decode
import topology
from ktap import equal
from topology import known, receive

IPPROTO_SDP = 257
# Fields of tshark's dissector, and what they are called here.
BSDH = {"mid": "mid", "flags": "flags", "bufs": "bufs", "len": "length", "mseq": "mseq",
        "mseqack": "mseq_ack"}
HELLO = {"cap": "cap", "maxadverts": "adverts", "desremrcvsz": "desired", "localrcvsz": "size",
         "localport": "port", "extmaxadverts": "extended_adverts", "ipv": "ipv"}


def sdp_socket(side, family):
    """A socket of SDP in the namespace of a side."""
    with topology.inside(side):
        fd = topology.libc.socket(int(family), socket.SOCK_STREAM, IPPROTO_SDP)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "socket")
    sock = socket.socket(family, socket.SOCK_STREAM, 0, fileno=fd)
    sock.settimeout(topology.BOUND)
    return sock


def pair(family):
    """The two sockets of a connection from a to b."""
    with sdp_socket("b", family) as listening:
        listening.bind((topology.HOSTS[family]["b"], 0))
        listening.listen(1)
        client = sdp_socket("a", family)
        client.connect(listening.getsockname())
        server, _ = listening.accept()
        server.settimeout(topology.BOUND)
    return client, server


def load(file):
    """The connection in a capture, as far as it has been written; None before its set-up."""
    connection = sdp_decode.Connection(file.read_bytes())
    return connection if connection.hello and connection.hello_ack else None


def tests_in(file):
    """The tests of the link in a capture, as far as it has been written."""
    connection = load(file)
    return connection.tests if connection else 0


@contextlib.contextmanager
def captured(file):
    """Captures the device of side a into a file during the block, and until the connection is over."""
    words = ["ip", "netns", "exec", "rs-a", "tcpdump", "-i", "va", "-B", "65536", "-U", "-Z", "root",
             "-w", str(file), "udp port %d" % sdp_decode.ROCE_PORT]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "listening on" in line:
                break
        try:
            yield

            def is_over():
                connection = load(file)
                return connection is not None and connection.is_over()
            topology.until(is_over, "the end of the connection in the capture")
        finally:
            process.send_signal(signal.SIGINT)
            process.stderr.read()


@dataclasses.dataclass
class Talk:
    """A captured connection, and what its programs sent."""
    connection: sdp_decode.Connection
    sent: dict
    ports: tuple
    hosts: tuple


def talk(family, file):
    """A connection with small and large data both ways, and a half-close."""
    topology.netns("up", asks=True)
    # The ends know each other's link addresses: those of IPv6 may be later than the Port Mapper's answer.
    for sock in topology.pair(family, smc=(False, False)):
        sock.close()
    # And each other's hosts, whose first answer may take more than 150 ms.
    for sock in topology.pair_by_rdma(family=family):
        sock.close()
    topology.all_gone()
    # Far beyond the buffers of the receiver, so that credits run out and come back.
    there, back = known("there", 400000), known("back", 70000)
    with captured(file):
        client, server = pair(family)
        equal((topology.mode("a", client)[0], topology.mode("b", server)[0]), ("sdp", "sdp"), "modes")
        ends = client.getsockname(), client.getpeername()
        client.sendall(b"hello")
        equal(receive(server, 5), b"hello", "first data")
        child = topology.Child(lambda: client.sendall(there))
        # A sender without credits tests the link from time to time.
        topology.until(lambda: tests_in(file), "a test of the link in the capture")
        equal(receive(server, len(there)) == there, True, "data to the server")
        child.expect_success()
        client.shutdown(socket.SHUT_WR)
        equal(server.recv(1), b"", "end of the client")
        server.sendall(back)
        server.close()
        equal(receive(client, len(back) + 1) == back, True, "data to the client")
        client.close()
    return Talk(load(file), {"client": b"hello" + there, "server": back},
                (ends[0][1], ends[1][1]), (ends[0][0], ends[1][0]))


def is_judged(family):
    """Every message keeps the rules, and the payload is what the programs sent."""
    # SDP-BSDH-01, SDP-BSDH-16, SDP-BSDH-18..22, SDP-BUFP-04, SDP-BUFP-06, SDP-CRED-07, SDP-CRED-30,
    # SDP-ORD-01, SDP-HH-04, SDP-MID-90, SDP-DISC-02, SDP-KA-03.
    with tempfile.TemporaryDirectory() as folder:
        heard = talk(family, pathlib.Path(folder, "wire.pcap"))
    connection = heard.connection
    sdp_decode.Judge(connection).judge()
    hello = sdp_decode.Hello.parse(connection.hello.octets)
    equal(hello.port, heard.ports[0], "port of the client")
    equal(connection.service, sdp_decode.SERVICE + heard.ports[1], "service id")
    equal(tuple(map(str, hello.addresses())), heard.hosts, "addresses")
    for end in ("client", "server"):
        equal(connection.stream(end) == heard.sent[end], True, "octets of the %s" % end)
        ends = [message for sender, message in connection.messages
                if sender == end and message.mid == sdp_decode.DIS_CONN]
        equal([len(message.octets) for message in ends], [16], "DisConn of the %s" % end)
    equal(connection.rdma, 0, "RDMA reads and writes of buffered copy")
    check_judge(connection)


def check_judge(connection):
    """The judge finds each of these changes of a connection that it has passed."""
    data = next(number for number, (end, message) in enumerate(connection.messages)
                if number > 8 and message.payload and end == "client")
    changes = {
        "SDP-BSDH-20": lambda message: {"mseq": message.mseq + 1},
        "SDP-BSDH-18": lambda message: {"length": message.length - 1},
        "SDP-CRED-03": lambda message: {"mseq_ack": message.mseq_ack + 60000},
        "SDP-BSDH-16": lambda message: {"bufs": 0},
        "SDP-BSDH-02": lambda message: {"flags": 0x80},
        "SDP-BSDH-04": lambda message: {"flags": 1, "mid": 4, "octets": bytes(16), "length": 16},
        "SDP-BSDH-12": lambda message: {"flags": 4},
        "SDP-MID-91": lambda message: {"mid": 0x0f},
    }
    for rule, change in changes.items():
        other = copy.copy(connection)
        other.messages = list(connection.messages)
        end, message = other.messages[data]
        other.messages[data] = end, dataclasses.replace(message, **change(message))
        expect_fault(other, rule)
    # A window that is too small for what was sent, buffers that are, and an end that goes on.
    small = copy.copy(connection)
    small.hello_ack = dataclasses.replace(connection.hello_ack, bufs=3)
    small.messages = [(end, message) for end, message in connection.messages if end == "client"]
    expect_fault(small, "SDP-CRED-30")
    short = copy.copy(connection)
    octets = connection.hello_ack.octets
    short.hello_ack = dataclasses.replace(connection.hello_ack,
                                          octets=octets[:20] + bytes((0, 0, 0, 64)) + octets[24:])
    expect_fault(short, "SDP-BUFP-06")
    early = copy.copy(connection)
    end, message = connection.messages[data]
    early.messages = list(connection.messages)
    early.messages[data] = end, dataclasses.replace(message, mid=2, octets=message.octets[:16], length=16)
    expect_fault(early, "SDP-CLS-27")


def expect_fault(connection, rule):
    """Fails unless the judge finds that a rule is broken."""
    try:
        sdp_decode.Judge(connection).judge()
    except sdp_decode.Malformed as found:
        equal(str(found).split(":", maxsplit=1)[0], rule, "rule")
    else:
        raise AssertionError("%s: broken, and not found" % rule)


def dissected(file, prefix, names):
    """Fields of tshark's dissector by the number of the frame; only of frames that have all."""
    # Only its second pass knows the connection of the request that the connection begins with.
    words = ["tshark", "-2", "-n", "-r", str(file), "--disable-protocol", "rpcordma", "-Y",
             prefix, "-T", "fields", "-E", "separator=;", "-E", "occurrence=f", "-e", "frame.number"]
    for name in names:
        words += ["-e", "%s.%s" % (prefix, name)]
    found = {}
    for line in topology.command(*words).splitlines():
        values = line.split(";")
        if len(values) == len(names) + 1 and all(values):
            found[int(values[0])] = values[1:]
    return found


def is_dissected(family):
    """tshark finds the messages in the same frames, with the same fields."""
    if not shutil.which("tshark"):
        raise ktap.Skip("there is no tshark")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "wire.pcap")
        connection = talk(family, file).connection
        bsdh = dissected(file, "infiniband_sdp.bsdh", BSDH)
        hello = dissected(file, "infiniband_sdp.hh", (*HELLO, "majv", "minv", "src_ip", "dst_ip"))
    messages = [connection.hello, connection.hello_ack]
    messages += [message for _, message in connection.messages]
    for message in messages:
        equal(message.frame in bsdh, True, "frame %d, MID %#x, in tshark" % (message.frame, message.mid))
        for (name, own), text in zip(BSDH.items(), bsdh[message.frame]):
            equal(int(text, 0), getattr(message, own), "%s in frame %d" % (name, message.frame))
    own = sdp_decode.Hello.parse(connection.hello.octets)
    # It takes the private data of other messages, which is empty, for a Hello as well.
    equal(connection.hello.frame in hello, True, "a Hello in tshark")
    *values, major, minor, source, dest = hello[connection.hello.frame]
    for (name, field), text in zip(HELLO.items(), values):
        equal(int(text, 0), getattr(own, field), name)
    equal((int(major, 0), int(minor, 0)), own.version, "version")
    # tshark shows all 16 octets as an IPv6 address.
    for text, octets in ((source, own.source), (dest, own.dest)):
        equal(socket.inet_pton(socket.AF_INET6, text), octets, "address")


def main():
    """Runs all tests for both versions of IP."""
    topology.need_module()
    tests = []
    for family, version in ((socket.AF_INET, "ipv4"), (socket.AF_INET6, "ipv6")):
        for test in (is_judged, is_dissected):
            tests.append(ktap.named("%s.%s" % (version, test.__name__), test, family))
    return ktap.run(tests)


if __name__ == "__main__":
    os.environ.setdefault("HOME", "/tmp")
    sys.exit(main())
