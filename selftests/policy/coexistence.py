#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""SMC-R beside other features of TCP: TLS on a connection, packet filters during its handshake, and
roles in link groups."""

import ssl
import sys

import ktap
import topology
from fallback import PEER_NO_SMC, Watch, goes_by_rdma, over, stays_tcp
from ktap import Skip, equal
from topology import Child, all_gone, command, expect_smc, known, pair

KEY = b"a key that both have"


def tls():
    """A TLS session with a shared key sends its handshake and its records by RDMA."""
    # SEC-07, TCR-10, TST-147.
    if not hasattr(ssl.SSLContext, "set_psk_client_callback"):
        raise Skip("python has no TLS with shared keys")
    topology.netns("up")
    size = 300000
    client, server = pair()
    expect_smc(client, server)
    before = topology.counter("a", "tx_bytes")

    def serve():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("PSK")
        context.set_psk_server_callback(lambda _: KEY)
        with context.wrap_socket(server, server_side=True) as secure:
            data = b""
            while len(data) < size:
                data += secure.recv(65536)
            secure.sendall(data[::-1])
            secure.unwrap()

    child = Child(serve)
    server.close()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("PSK")
    context.set_psk_client_callback(lambda _: (None, KEY))
    with context.wrap_socket(client) as secure:
        secure.sendall(known("tls", size))
        data = b""
        while len(data) < size:
            data += secure.recv(65536)
        equal(data == known("tls", size)[::-1], True, "data")
        equal(topology.mode("a", secure)[0], "smc", "mode")
        equal(topology.counter("a", "tx_bytes") - before > size, True, "bytes by RDMA")
        try:
            secure.unwrap()
        except (OSError, ssl.SSLError):
            pass
    child.expect_success()
    all_gone()


def both_directions():
    """A host that is the client of one connection and the server of another has two link groups with
    the same peer."""
    # LGR-17, TST-116.
    topology.netns("up")
    one = pair()
    expect_smc(*one)
    with topology.listener("a") as listening:
        client = topology.new_socket("b")
        client.connect(listening.getsockname())
        server, _ = listening.accept()
    equal((topology.mode("b", client)[0], topology.mode("a", server)[0]), ("smc", "smc"), "modes")
    for side in "ab":
        equal(sorted(line["role"] for line in topology.records(side, "links")), ["client", "server"],
              "roles of " + side)
    client.sendall(b"from b")
    one[0].sendall(b"from a")
    equal(topology.receive(server, 6), b"from b", "data")
    equal(topology.receive(one[1], 6), b"from a", "data")
    for sock in (*one, client, server):
        sock.close()
    all_gone()


class Rules:
    """nft rules of a side, during the block."""

    def __init__(self, side, hook, *rules):
        self.side = side
        self.text = "table inet rs {\nchain c {\ntype filter hook %s; policy accept;\n%s\n}\n}" % (
            hook, "\n".join(rules))

    def nft(self, *words):
        """Runs nft on the side."""
        return command("ip", "netns", "exec", "rs-" + self.side, "nft", *words)

    def __enter__(self):
        self.nft(self.text)
        return self

    def __exit__(self, *_):
        self.nft("delete table inet rs")


def filter_refuses():
    """A rule that rejects the connection rejects it, although RDMA would work."""
    # SEC-04.
    topology.netns("up")
    with topology.listener() as listening:
        port = listening.getsockname()[1]
        with Rules("b", "input priority 0", "tcp dport %d reject with tcp reset" % port):
            client = topology.new_socket("a")
            client.settimeout(topology.BOUND)
            equal(topology.error_of(client.connect, listening.getsockname()), "ECONNREFUSED", "connect")
            client.close()
        client = topology.new_socket("a")
        client.connect(listening.getsockname())
        server, _ = listening.accept()
        goes_by_rdma(client, server)


def filter_counts():
    """Rules count the begin and the end of a connection, and none of its data."""
    # SEC-04, SEC-05, TCR-01.
    topology.netns("up")
    with topology.listener() as listening:
        port = listening.getsockname()[1]
        with Rules("b", "input priority 0", "tcp dport %d counter" % port) as rules:
            client = topology.new_socket("a")
            client.connect(listening.getsockname())
            server, _ = listening.accept()
            expect_smc(client, server)
            client.sendall(bytes(100000))
            server.settimeout(topology.BOUND)
            equal(len(topology.receive(server, 100000)), 100000, "received")
            client.close()
            server.close()
            over()
            words = rules.nft("list table inet rs").split()
            packets, octets = [int(words[words.index(word) + 1]) for word in ("packets", "bytes")]
            equal((packets >= 3, octets < 5000), (True, True), "%d packets, %d octets" % (
                packets, octets))


def filter_keeps_with_tcp():
    """An administrator keeps connections on TCP by removing the option."""
    # SEC-04, TCP-18, FBK-03, TST-101.
    topology.netns("up")
    with topology.listener() as listening, topology.listener() as other:
        port = listening.getsockname()[1]
        with Rules("b", "prerouting priority -300", "tcp dport %d reset tcp option 254" % port):
            watch = Watch()
            client = topology.new_socket("a")
            client.connect(listening.getsockname())
            server, _ = listening.accept()
            stays_tcp(client, server, (PEER_NO_SMC, PEER_NO_SMC), watch)
            client = topology.new_socket("a")
            client.connect(other.getsockname())
            server, _ = other.accept()
            goes_by_rdma(client, server)


def main():
    """Runs all tests."""
    topology.need_module()
    return ktap.run([tls, both_directions, filter_refuses, filter_counts, filter_keeps_with_tcp])


if __name__ == "__main__":
    sys.exit(main())
