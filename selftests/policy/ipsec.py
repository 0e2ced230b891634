#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""IPsec: connections that a policy of the socket or the namespace protects stay with TCP. Other
connections are not affected."""

import socket
import struct
import sys

import ktap
import topology
from fallback import IPSEC, PEER_NO_SMC, Watch, goes_by_rdma, stays_tcp
from ktap import equal
from topology import command, pair

IP_XFRM_POLICY = 17
IPV6_XFRM_POLICY = 35
POLICY_IN, POLICY_OUT = 0, 1
ESP = 50
USE = 1

FAMILIES = {socket.AF_INET: ("10.9.0.1", "10.9.0.2"), socket.AF_INET6: ("fd09::1", "fd09::2")}


def set_policy(sock, family, direction=POLICY_OUT):
    """Sets a policy of the socket: optional ESP, so that connections without keys work."""
    selector = struct.pack("=16s16sHHHHHBBB3xiI", b"", b"", 0, 0, 0, 0, family, 0, 0, 0, 0, 0)
    forever = struct.pack("=8Q", *[2 ** 64 - 1] * 4, 0, 0, 0, 0)
    info = selector + forever + bytes(32) + struct.pack("=IIBBBB4x", 0, 0, direction, 0, 0, 0)
    template = struct.pack("=16sIB3xH2x16sIBBBxIII", b"", 0, ESP, family, b"", 0, 0, 0, USE,
                           2 ** 32 - 1, 2 ** 32 - 1, 2 ** 32 - 1)
    equal((len(info), len(template)), (168, 64), "sizes")
    level, name = ((socket.IPPROTO_IP, IP_XFRM_POLICY) if family == socket.AF_INET else
                   (socket.IPPROTO_IPV6, IPV6_XFRM_POLICY))
    sock.setsockopt(level, name, info + template)


def add_keys(hosts, ways):
    """Adds security associations to both namespaces, for these directions of (0 to 1) and (1 to 0)."""
    for side in "ab":
        for number, way in enumerate(ways):
            command("ip", "-n", "rs-" + side, "xfrm", "state", "add", "src", hosts[way[0]],
                    "dst", hosts[way[1]], "proto", "esp", "spi", "0x%x" % (0x100 + number),
                    "mode", "transport", "enc", "ecb(cipher_null)", "", "auth", "digest_null", "")


def add_policy(side, hosts, way, direction, level="required", port=0):
    """Adds a policy of a namespace."""
    words = ["ip", "-n", "rs-" + side, "xfrm", "policy", "add", "src", hosts[way[0]], "dst",
             hosts[way[1]], "proto", "tcp"]
    if port:
        words += ["dport", str(port)]
    command(*words, "dir", direction, "tmpl", "proto", "esp", "mode", "transport", "level", level)


def policy_of_the_client(family):
    """A policy of the client's socket: the client does not offer SMC."""
    # TCP-22, SEC-06, FBK-01, TST-145.
    topology.netns("up")
    watch = Watch()
    with topology.listener("b", family) as listening:
        client = topology.new_socket("a", family)
        set_policy(client, family)
        client.connect(listening.getsockname())
        server, _ = listening.accept()
    stays_tcp(client, server, (IPSEC, PEER_NO_SMC), watch)
    goes_by_rdma(*pair(family))


def policy_of_the_listener(family):
    """Accepted sockets inherit the listener's policy: the server declines."""
    # SEC-06, TST-145.
    topology.netns("up")
    watch = Watch()
    with topology.listener("b", family) as listening:
        set_policy(listening, family)
        client = topology.new_socket("a", family)
        client.connect(listening.getsockname())
        server, _ = listening.accept()
    stays_tcp(client, server, (IPSEC, IPSEC), watch)
    goes_by_rdma(*pair(family))


def policies_of_the_namespaces(family):
    """Both sides protect all TCP between the hosts: no side offers SMC, and ESP carries the data."""
    # TCP-22, SEC-06, FBK-01, TST-145.
    hosts = FAMILIES[family]
    topology.netns("up")
    add_keys(hosts, [(0, 1), (1, 0)])
    for side, out, back in (("a", (0, 1), (1, 0)), ("b", (1, 0), (0, 1))):
        add_policy(side, hosts, out, "out")
        add_policy(side, hosts, back, "in")
    watch = Watch()
    stays_tcp(*pair(family), (IPSEC, PEER_NO_SMC), watch)
    text = command("ip", "-n", "rs-a", "-s", "xfrm", "state")
    equal("0(bytes), 0(packets)" in text, False, "ESP was not used: " + text)


def policy_of_one_namespace(family):
    """A policy protects only what the server sends: the server declines."""
    # SEC-06, TST-145.
    hosts = FAMILIES[family]
    topology.netns("up")
    add_keys(hosts, [(1, 0)])
    add_policy("b", hosts, (1, 0), "out")
    watch = Watch()
    stays_tcp(*pair(family), (IPSEC, IPSEC), watch)


def policy_for_one_port(family):
    """A policy for one port leaves other connections to RDMA."""
    # SEC-06.
    hosts = FAMILIES[family]
    topology.netns("up")
    add_keys(hosts, [(0, 1)])
    with topology.listener("b", family) as listening, topology.listener("b", family) as other:
        add_policy("a", hosts, (0, 1), "out", port=listening.getsockname()[1])
        watch = Watch()
        client = topology.new_socket("a", family)
        client.connect(listening.getsockname())
        server, _ = listening.accept()
        stays_tcp(client, server, (IPSEC, PEER_NO_SMC), watch)
        client = topology.new_socket("a", family)
        client.connect(other.getsockname())
        server, _ = other.accept()
        goes_by_rdma(client, server)


def policy_without_effect(family):
    """An optional policy without keys protects nothing, so the connection uses RDMA."""
    hosts = FAMILIES[family]
    topology.netns("up")
    add_policy("a", hosts, (0, 1), "out", level="use")
    goes_by_rdma(*pair(family))


def keys_that_come_later(family):
    """The SYN waits for the keys, and then has no option."""
    # TCP-22, SEC-06.
    hosts = FAMILIES[family]
    topology.netns("up")
    add_policy("a", hosts, (0, 1), "out")
    watch = Watch()
    with topology.listener("b", family) as listening:
        client = topology.new_socket("a", family)
        client.setblocking(False)
        client.connect_ex(listening.getsockname())
        command("ip", "-n", "rs-a", "xfrm", "state", "flush")
        add_keys(hosts, [(0, 1)])
        listening.settimeout(topology.BOUND)
        server, _ = listening.accept()
        server.settimeout(topology.BOUND)
        client.settimeout(topology.BOUND)
        topology.until(lambda: topology.error_of(client.getpeername) == "none", "connect")
    stays_tcp(client, server, (IPSEC, PEER_NO_SMC), watch)


def main():
    """Runs all tests for both versions of IP."""
    topology.need_module()
    topology.netns("up")
    text = command("ip", "-n", "rs-a", "xfrm", "policy", check=False)
    if text.strip():
        ktap.skip_all("the kernel has no IPsec: " + text.strip())
    tests = []
    for family, version in ((socket.AF_INET, "ipv4"), (socket.AF_INET6, "ipv6")):
        for test in (policy_of_the_client, policy_of_the_listener, policies_of_the_namespaces,
                     policy_of_one_namespace, policy_for_one_port, policy_without_effect,
                     keys_that_come_later):
            def one(test=test, family=family):
                test(family)
            one.name = "%s.%s" % (version, test.__name__)
            tests.append(one)
    return ktap.run(tests)


if __name__ == "__main__":
    sys.exit(main())
