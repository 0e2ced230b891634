#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Network namespaces: the state of one is not visible in another, and they can be deleted at any
time."""

import os
import socket
import sys

import ktap
import topology
from ktap import equal
from topology import Child, all_gone, command, exchange, expect_smc, pair

ALL = ("smc_clnt_conns", "smc_srv_conns", "tx_bytes", "rx_bytes", "active_conns", "link_groups")


def counters_stay_apart():
    """A connection is counted on its two sides only."""
    topology.netns("up")
    command("ip", "netns", "add", "rs-other")
    try:
        client, server = pair()
        expect_smc(client, server)
        exchange(client, server, 100000)
        equal(topology.counter("a", "tx_bytes"), 100000, "sent by a")
        equal(topology.counter("a", "rx_bytes"), 100000, "received by a")
        equal(topology.counter("a", "smc_clnt_conns"), 1, "clients in a")
        equal(topology.counter("a", "smc_srv_conns"), 0, "servers in a")
        equal(topology.counter("b", "smc_srv_conns"), 1, "servers in b")
        equal({topology.counter("other", name) for name in ALL}, {0}, "counters of a third")
        equal(topology.proc("other", "conns"), "", "connections of a third")
        equal(topology.proc("other", "links"), "", "links of a third")
        equal(topology.proc("other", "devices"), "", "devices of a third")
        equal([line["dev"] for line in topology.records("a", "devices")], ["rs_a"], "devices of a")
        equal([line["role"] for line in topology.records("a", "conns")], ["client"], "seen by a")
        client.close()
        server.close()
        all_gone()
    finally:
        command("ip", "netns", "delete", "rs-other")


def no_device_of_another_namespace_is_used():
    """A connection in a namespace without RDMA does not use the device of another one."""
    topology.netns("up")
    command("ip", "netns", "add", "rs-other")
    try:
        command("ip", "-n", "rs-other", "link", "set", "lo", "up")
        listening = topology.new_socket("other")
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        client = topology.new_socket("other")
        client.connect(listening.getsockname())
        server, _ = listening.accept()
        equal(topology.mode("other", client)[0] in topology.ENGINES, False, "uses RDMA")
        client.sendall(b"x")
        equal(server.recv(1), b"x", "data")
        for sock in (client, server, listening):
            sock.close()
    finally:
        command("ip", "netns", "delete", "rs-other")
    all_gone()


def link_groups_stay_apart():
    """The namespaces of two clients have a link group each with the same server."""
    # LGR-03, RMB-08.
    topology.netns("up")
    command("ip", "netns", "add", "rs-c")
    try:
        command("ip", "-n", "rs-c", "link", "set", "lo", "up")
        command("ip", "link", "add", "vc", "netns", "rs-c", "type", "veth", "peer", "name", "vd",
                "netns", "rs-b")
        command("ip", "-n", "rs-c", "address", "add", "10.8.0.1/24", "dev", "vc")
        command("ip", "-n", "rs-b", "address", "add", "10.8.0.2/24", "dev", "vd")
        command("ip", "-n", "rs-c", "link", "set", "vc", "up")
        command("ip", "-n", "rs-b", "link", "set", "vd", "up")
        for ns, dev in (("rs-c", "vc"), ("rs-b", "vd")):
            command("ip", "netns", "exec", ns, "rdma", "link", "add", "rs_" + dev, "type", "rxe",
                    "netdev", dev)
        for dev, number in (("rs_vc", 1), ("rs_vd", 2)):
            topology.await_gid(dev, "10.8.0.%d" % number)
        topology.await_ports("b", "c")
        listening = topology.new_socket("b")
        listening.bind(("0.0.0.0", 0))
        listening.listen(4)
        port = listening.getsockname()[1]
        first, second = topology.new_socket("a"), topology.new_socket("c")
        first.connect(("10.9.0.2", port))
        server_first, _ = listening.accept()
        second.connect(("10.8.0.2", port))
        server_second, _ = listening.accept()
        equal(topology.mode("a", first)[0], "smc", "first")
        equal(topology.mode("c", second)[0], "smc", "second")
        equal(topology.counter("a", "link_groups"), 1, "groups of a")
        equal(topology.counter("c", "link_groups"), 1, "groups of c")
        equal(topology.counter("b", "link_groups"), 2, "groups of b")
        equal(len({line["lgr"] for line in topology.records("b", "conns") if "lgr" in line}), 2,
              "groups of the connections of b")
        second.sendall(b"x" * 1000)
        equal(len(topology.receive(server_second, 1000)), 1000, "data")
        equal(topology.counter("c", "tx_bytes"), 1000, "sent by c")
        equal(topology.counter("a", "tx_bytes"), 0, "sent by a")
        for sock in (first, second, server_first, server_second, listening):
            sock.close()
        all_gone()
    finally:
        command("rdma", "link", "delete", "rs_vc", check=False)
        command("rdma", "link", "delete", "rs_vd", check=False)
        command("ip", "netns", "delete", "rs-c")


def deleted_with_open_connections():
    """Programs in a namespace without a name continue. At their end the namespace goes with all its
    state."""
    topology.netns("up")
    client, server = pair()
    expect_smc(client, server)
    command("ip", "netns", "delete", "rs-b")
    client.sendall(b"still there")
    equal(topology.receive(server, 11), b"still there", "data")
    server.close()
    equal(client.recv(1), b"", "end")
    client.close()
    topology.until(lambda: topology.module_users() == 0, "the module is in use")
    topology.until(lambda: not os.path.exists("/sys/class/infiniband/rs_b"), "device is left")


def ends_with_connections_under_way():
    """All programs are killed under traffic and the namespaces deleted at once, five times."""
    for _ in range(5):
        topology.netns("up")
        children = []
        for _ in range(4):
            client, server = pair()

            def write(client=client):
                while True:
                    client.sendall(b"y" * 50000)

            def read(server=server):
                while server.recv(65536):
                    pass

            children += [Child(write), Child(read)]
            client.close()
            server.close()
        listening = topology.listener()
        early = topology.new_socket("a")
        early.setblocking(False)
        early.connect_ex(listening.getsockname())
        topology.until(lambda: topology.counter("a", "tx_bytes") > 500000, "traffic")
        for child in children:
            os.kill(child.pid, 9)
        early.close()
        listening.close()
        topology.netns("down")
        for child in children:
            child.wait()
        topology.until(lambda: topology.module_users() == 0, "the module is in use")


def closed_and_deleted():
    """Connections that were just closed do not keep the namespace."""
    topology.netns("up")
    for _ in range(10):
        client, server = pair(socket.AF_INET6)
        client.sendall(b"z" * 1000)
        client.close()
        server.close()
    topology.netns("down")
    topology.until(lambda: topology.module_users() == 0, "the module is in use")
    topology.until(lambda: not any(name.startswith("rs_")
                                   for name in os.listdir("/sys/class/infiniband")), "devices are left")


def main():
    """Runs all tests."""
    topology.need_module()
    tests = [no_device_of_another_namespace_is_used, deleted_with_open_connections,
             ends_with_connections_under_way, closed_and_deleted]
    return ktap.run([counters_stay_apart, link_groups_stay_apart, *tests, *topology.by_sdp(*tests)])


if __name__ == "__main__":
    sys.exit(main())
