#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The family SMC_PNETID: tables of physical networks, and the RDMA ports that connections get by them.

Sides c and d are hosts with RDMA devices rs_c and rs_d on a wire of their own. Sides a and b are
joined by another wire, and have RDMA devices where a test says so. Side p is above a device of a.
"""

import contextlib
import errno
import os
import socket
import sys

import ktap
import netlink
import topology
from ktap import equal, fails
from netlink import Commands, Networks, attribute, attributes, network, number
from topology import Child, command, exchange, expect_smc, expect_tcp, pair

NO_DEVICE = 0x03030002
MOST = 120
OURS = topology.module_file()


def ip(side, *words):
    """Runs the ip command in a namespace."""
    return command("ip", "-n", "rs-" + side, *words)


def octets(side, netdev):
    """The number of octets that a network device has sent."""
    return int(command("ip", "netns", "exec", "rs-" + side, "cat",
                       "/sys/class/net/%s/statistics/tx_bytes" % netdev))


def connect(side="a", source="10.9.0.1", host="10.9.0.2", family=socket.AF_INET):
    """A connection of a side to b."""
    with topology.new_socket("b", family) as listening:
        listening.bind((host, 0))
        listening.listen(4)
        client = topology.new_socket(side, family)
        client.bind((source, 0))
        client.settimeout(topology.BOUND)
        client.connect(listening.getsockname())
        listening.settimeout(topology.BOUND)
        server, _ = listening.accept()
        server.settimeout(topology.BOUND)
    return client, server


def device_of(side, sock):
    """The RDMA device of a connection; None over TCP."""
    end = ":%d" % sock.getsockname()[1]
    for line in topology.records(side, "conns"):
        if line["local"].endswith(end) and line["mode"] == "smc":
            return line["dev"]
    return None


def close(*socks):
    """Closes sockets, and waits until the module has no connection."""
    for sock in socks:
        sock.close()
    topology.all_gone()


@contextlib.contextmanager
def changed(*entries):
    """Tables with entries during the block, each (side, words of Networks.add)."""
    try:
        for side, *words in entries:
            with Networks(side) as nets:
                nets.add(*words)
        yield
    finally:
        for side in {side for side, *_ in entries}:
            with Networks(side) as nets:
                nets.flush()


@contextlib.contextmanager
def hosts(no_rdma="a b"):
    """All sides but p."""
    topology.netns("up", NO_RDMA=no_rdma)
    try:
        for side in "cd":
            command("ip", "netns", "add", "rs-" + side)
        command("ip", "link", "add", "wc", "netns", "rs-c", "type", "veth", "peer", "name", "wd",
                "netns", "rs-d")
        for side, number_of in ("c", 1), ("d", 2):
            ip(side, "link", "set", "lo", "up")
            ip(side, "address", "add", "10.8.0.%d/24" % number_of, "dev", "w" + side)
            ip(side, "link", "set", "w" + side, "up")
            command("ip", "netns", "exec", "rs-" + side, "rdma", "link", "add", "rs_" + side,
                    "type", "rxe", "netdev", "w" + side)
            topology.await_gid("rs_" + side, "10.8.0.%d" % number_of)
        yield
    finally:
        for side in "cd":
            command("rdma", "link", "delete", "rs_" + side, check=False)
        for side in "cdp":
            command("ip", "netns", "delete", "rs-" + side, check=False)


# The ports of the hosts, and the devices of a and b that are in the same networks.
PORTS = ((None, "NETC", None, "rs_c"), (None, "NETD", None, "rs_d"))
BOTH = (*PORTS, ("a", "NETC", "va"), ("b", "NETD", "vb"))


def by_the_hosts(client, server, side="a"):
    """Fails unless a connection uses the RDMA devices of c and d, and their wire carries its data."""
    equal((device_of(side, client), device_of("b", server)), ("rs_c", "rs_d"), "devices")
    before = [octets("c", "wc"), octets("d", "wd"), octets("a", "va"), octets("b", "vb")]
    exchange(client, server, 500000)
    sent = [now - was for now, was in zip(
        [octets("c", "wc"), octets("d", "wd"), octets("a", "va"), octets("b", "vb")], before)]
    print("# octets of wc, wd, va, vb: %r" % sent)
    equal([many > 500000 for many in sent], [True, True, False, False], "wires %r" % sent)


def namespace_without_a_device_uses_that_of_the_host():
    """By a common id, a connection of a namespace without RDMA uses a port of another namespace, in both
    versions and families of addresses; without the id it is TCP."""
    with hosts():
        client, server = pair()
        expect_tcp(client, server)
        close(client, server)
        with changed(*BOTH):
            client, server = pair()
            by_the_hosts(client, server)
            with Commands("a") as smc:
                (group,) = smc.dump(netlink.GROUPS, 2)
                equal(group[4], b"NETC\0", "id of the group")
                equal(smc.ask(netlink.DEVICES), [], "devices of a")
            with Commands("c") as smc:
                (device,) = smc.dump(netlink.DEVICES, 6)
                port = attributes(device[8])
                equal((number(port[1]), port[2]), (1, b"NETC\0"), "id of the port")
            six = pair(socket.AF_INET6)
            equal((device_of("a", six[0]), device_of("b", six[1])), ("rs_c", "rs_d"), "of IPv6")
            exchange(*six)
            close(client, server, *six)
            topology.name_both()
            client, server = pair()
            by_the_hosts(client, server)
            versions = {line["version"] for line in topology.records("a", "links")
                        if line["state"] == "active" and line["conns"] != "0"}
            equal(versions, {"2"}, "version of the link in use")
            with Networks("a") as nets:
                nets.remove("NETC")
            late = pair()
            expect_tcp(*late)
            equal(topology.mode("a", late[0])[1], NO_DEVICE, "reason")
            # It needs no table any longer.
            exchange(client, server)
            close(client, server, *late)


def id_of_the_host_alone_changes_nothing():
    """Ids of ports without one of the network device leave a connection with TCP, and a connection with a
    device of its own with that."""
    with hosts("b"), changed(*PORTS):
        client, server = pair()
        expect_tcp(client, server)
        close(client, server)
    with hosts(""), changed(*PORTS):
        client, server = pair()
        equal((device_of("a", client), device_of("b", server)), ("rs_a", "rs_b"), "devices")
        close(client, server)


def id_bars_the_own_port_without_it():
    """A network device with an id does not use its own RDMA port unless that has the id, too; with
    another port of the id it uses that one."""
    with hosts(""):
        with changed(("a", "NETA", "va")):
            client, server = pair()
            expect_tcp(client, server)
            equal(topology.mode("a", client)[1], NO_DEVICE, "reason")
            close(client, server)
            with changed((None, "NETB", None, "rs_a")):
                client, server = pair()
                expect_tcp(client, server)
                close(client, server)
            with changed((None, "NETA", None, "rs_a")):
                client, server = pair()
                expect_smc(client, server)
                equal(device_of("a", client), "rs_a", "device")
                exchange(client, server)
                close(client, server)
        with changed(*BOTH):
            client, server = pair()
            by_the_hosts(client, server)
            close(client, server)


def device_at_the_bottom_counts():
    """The id of the lowest device counts: below a macvlan of another namespace, and below a bond."""
    with hosts(), changed(*BOTH):
        command("ip", "netns", "add", "rs-p")
        ip("a", "link", "add", "mv", "link", "va", "type", "macvlan", "mode", "bridge")
        ip("a", "link", "set", "mv", "netns", "rs-p")
        ip("p", "address", "add", "10.9.0.11/24", "dev", "mv")
        ip("p", "link", "set", "lo", "up")
        ip("p", "link", "set", "mv", "up")
        client, server = connect("p", "10.9.0.11")
        by_the_hosts(client, server, "p")
        close(client, server)
        # The id of the lowest device comes first.
        with changed(("p", "OTHER", "mv")):
            client, server = connect("p", "10.9.0.11")
            equal(device_of("p", client), "rs_c", "device")
            close(client, server)
        with Networks("a") as nets:
            nets.flush()
        with changed(("p", "NETC", "mv")):
            client, server = connect("p", "10.9.0.11")
            equal(device_of("p", client), "rs_c", "device")
            close(client, server)
        command("ip", "netns", "delete", "rs-p")
        with Networks("a") as nets:
            nets.add("NETC", "va")
        ip("a", "link", "add", "bo", "type", "bond", "mode", "active-backup", "miimon", "100")
        ip("a", "address", "flush", "dev", "va")
        ip("a", "link", "set", "va", "down")
        ip("a", "link", "set", "va", "master", "bo")
        ip("a", "link", "set", "va", "up")
        ip("a", "link", "set", "bo", "up")
        ip("a", "address", "add", "10.9.0.1/24", "dev", "bo")
        client, server = connect()
        by_the_hosts(client, server)
        close(client, server)


def vlan_needs_a_port_in_it():
    """A connection in a VLAN uses an address of the port in that VLAN, and is TCP if there is none."""
    with hosts(), changed(*BOTH):
        for side, name in ("a", "va"), ("b", "vb"), ("c", "wc"), ("d", "wd"):
            if side in "cd":
                client, server = connect(source="10.5.5.1", host="10.5.5.2")
                expect_tcp(client, server)
                close(client, server)
            ip(side, "link", "add", "link", name, "name", name + ".5", "type", "vlan", "id", "5")
            host = 1 if side in "ac" else 2
            address = "10.%d.5.%d" % (5 if side in "ab" else 4, host)
            ip(side, "address", "add", address + "/24", "dev", name + ".5")
            ip(side, "link", "set", name + ".5", "up")
            if side in "cd":
                topology.await_gid("rs_" + side, address)
        before = octets("c", "wc.5")
        client, server = connect(source="10.5.5.1", host="10.5.5.2")
        by_the_hosts(client, server)
        equal(octets("c", "wc.5") - before > 500000, True, "data in the VLAN")
        close(client, server)


def second_link_has_the_id_of_the_first():
    """Another link of a group uses a port with the same id, although others are in the network."""
    with hosts():
        # Further ports of the hosts: one without an id in the same subnet, one with it in another.
        try:
            for name, number_of in ("x", 8), ("y", 7):
                command("ip", "link", "add", name + "c", "netns", "rs-c", "type", "veth", "peer",
                        "name", name + "d", "netns", "rs-d")
                for side, host in ("c", 1), ("d", 2):
                    netdev = name + side
                    address = "10.%d.0.%d" % (number_of, host + (10 if name == "x" else 0))
                    ip(side, "address", "add", address + "/24", "dev", netdev)
                    ip(side, "link", "set", netdev, "up")
                    command("ip", "netns", "exec", "rs-" + side, "rdma", "link", "add",
                            "rs_" + netdev, "type", "rxe", "netdev", netdev)
                    topology.await_gid("rs_" + netdev, address)
            with changed(*BOTH, (None, "NETC", None, "rs_yc"), (None, "NETD", None, "rs_yd")):
                client, server = pair()
                expect_smc(client, server)

                def links(side):
                    return sorted(line["dev"] for line in topology.records(side, "links")
                                  if line["state"] == "active")
                topology.until(lambda: len(links("a")) == 2 and len(links("b")) == 2, "two links")
                equal((links("a"), links("b")), (["rs_c", "rs_yc"], ["rs_d", "rs_yd"]), "devices")
                exchange(client, server)
                close(client, server)
        finally:
            for name in "xc", "xd", "yc", "yd":
                command("rdma", "link", "delete", "rs_" + name, check=False)


NAMES = ("net1", " Net2 ", "A1B2C3D4E5F6G7H8", "", "  ", "A B", "A-B", "A\tB", "A.B",
         "A1B2C3D4E5F6G7H8I", "\x01")


def answers(side):
    """What the family answers to requests of a side, in their order. The table is empty at the end."""
    found = []
    with Networks(side) as nets:
        found.append({kind: number(nets.about[kind]) for kind in (3, 4, 5)})
        found.append(sorted(attributes(one).items() for one in attributes(nets.about[6]).values()))

        def note(function, *words):
            found.append((words, topology.error_of(function, *words), nets.listed()))

        def change(kind, data):
            note(nets.change, kind, data)
        nets.flush()
        note(nets.flush)
        for place, name in enumerate(NAMES):
            change(netlink.ADD_NET, network(name, "eth%d" % place))
        for netdev in "", "x" * 15, "x" * 16, "eth0", "va", "lo":
            change(netlink.ADD_NET, network("NET3", netdev))
        for device in "rs_a", " rs_a ", "later", "y" * 63, "y" * 64, "":
            for port in None, 1, 2, 0, 3, 255:
                change(netlink.ADD_NET, network("NET4", None, device, port))
        for words in (("NET5",), (None, "eth5"), ("NET5", "eth5", "both"), ("NET5", "eth5", "more"),
                      ("NET5", "eth6", "both"), ("NET5", "eth5", "both"), ("NET6", "eth5")):
            change(netlink.ADD_NET, network(*words))
        for kind in 1, 2, 3:
            change(netlink.ADD_NET, network("NET7", "eth7") + attribute(kind, b"AB"))
            change(netlink.ADD_NET, network("NET7", "eth7") + attribute(kind, b""))
        change(netlink.ADD_NET, network("NET7", "eth7") + attribute(4, b""))
        change(netlink.ADD_NET, network("NET8", "eth8") + attribute(9, b"AB"))
        change(netlink.ADD_NET, attribute(1, b"NET9\0more\0") + attribute(2, b"eth9\0more\0"))
        for junk in b"\xff" * 4, b"\x02\0\x01\0", b"\xff\xff\x01\0" + b"A" * 20:
            change(netlink.ADD_NET, junk)
            change(netlink.REMOVE_NET, junk)
        for name in "NET3", "net3", "NET", "NONE", "", "NET3 X", " NET3", "A1B2C3D4E5F6G7H8", "N" * 17:
            found.append((name, topology.error_of(nets.find, name)))
            if topology.error_of(nets.find, name) == "none":
                found.append(nets.find(name))
        found.append(topology.error_of(nets.ask, netlink.LIST_NETS, b"", 0))
        for name in "net4", "NONE", "", "NET3 X", "NET4", "NET4", "N" * 17:
            change(netlink.REMOVE_NET, network(name))
        change(netlink.REMOVE_NET, b"")
        change(netlink.FLUSH_NETS, network("NET5"))
        for kind in netlink.ADD_NET, netlink.REMOVE_NET, netlink.FLUSH_NETS, 5, 0:
            found.append(topology.error_of(nets.ask, kind))
        found.append(topology.error_of(nets.ask, 5, b"", 0))
        nets.flush()
        found.append(nets.listed())
    return found


def answers_are_those_of_c():
    """Entries and errors of all requests are those of smc.ko, in the first namespace and in others."""
    topology.netns("up")
    topology.all_gone()
    ours = {side: answers(side) for side in (None, "a")}
    parameters = topology.module_parameters()
    command("rmmod", "rdma_sock")
    try:
        done = command("modprobe", "smc", check=False)
        if not os.path.isdir("/sys/module/smc"):
            raise ktap.Skip("this kernel has no SMC of its own: " + done.strip())
        theirs = {side: answers(side) for side in (None, "a")}
        command("rmmod", "smc")
    finally:
        command("insmod", str(OURS), *parameters)
    for side, known in theirs.items():
        for place, (our, their) in enumerate(zip(ours[side], known)):
            equal(our, their, "side %s, answer %d" % (side, place))
        equal(len(ours[side]), len(known), "answers")
        print("# side %s: %d answers" % (side, len(known)))


def tables_belong_to_a_namespace():
    """An entry is shown in its namespace only, and goes with it. Ports have entries in the first only."""
    topology.netns("up")
    with Networks("a") as here, Networks("b") as there, Networks(None) as first:
        here.add("ONE", "va", "rs_a", 1)
        first.add("TWO", "va", "rs_a", 2)
        equal((here.shown(), there.shown()), ([("ONE", "va", "n/a", 255)], []), "entries")
        equal(first.shown(), [("TWO", "va", "n/a", 255), ("TWO", "n/a", "rs_a", 2)], "of the first")
        fails(errno.EEXIST, here.add, "ONE", None, "rs_a", 1)
        fails(errno.ENOENT, here.remove, "TWO")
        there.flush()
        equal(len(here.shown()), 1, "entries")
        first.flush()
    topology.netns("up")
    with Networks("a") as here:
        equal(here.shown(), [], "entries of a new namespace")


def invalid_request_leaves_no_entry():
    """A request with a valid and an invalid part adds nothing."""
    with Networks(None) as nets:
        fails(errno.EINVAL, nets.add, "ONE", "eth0", "rs_a", 3)
        fails(errno.EINVAL, nets.add, "\u00e9", "eth0")
        equal(nets.shown(), [], "entries")


def user_reads_and_changes_nothing():
    """Each user may read. A change needs a right in the first user namespace, which the root of another
    one does not have: an id reaches devices of other namespaces."""
    def refused(nets):
        fails(errno.EPERM, nets.add, "TWO", "vb")
        fails(errno.EPERM, nets.remove, "ONE")
        fails(errno.EPERM, nets.flush)

    def user():
        os.setuid(65534)
        with Networks(None) as nets:
            refused(nets)
            equal((len(nets.shown()), len(nets.find("ONE"))), (1, 1), "entries")

    def root_elsewhere():
        os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET)
        with Networks(None) as nets:
            refused(nets)
            equal(nets.shown(), [], "entries")

    with changed(("a", "ONE", "va")):
        with topology.inside("a"):
            child = Child(user)
        child.expect_success()
        Child(root_elsewhere).expect_success()


def table_is_bounded():
    """The table has a limit; all its entries are shown, by a dump and by a search."""
    with Networks("a") as nets:
        for count in range(MOST):
            nets.add("A1B2C3D4E5F6G7H8", "x%014d" % count)
        fails(errno.ENOSPC, nets.add, "ONE", "va")
        fails(errno.EEXIST, nets.add, "ONE", "x%014d" % 0)
        equal(len(nets.listed()), MOST, "entries")
        equal(nets.find("A1B2C3D4E5F6G7H8"), nets.listed(), "found")
        nets.remove("A1B2C3D4E5F6G7H8")
        equal(nets.shown(), [], "entries")
    with Networks(None) as nets:
        for count in range(MOST):
            nets.add("A1B2C3D4E5F6G7H8", None, "%063d" % count, 2)
        equal(nets.find("A1B2C3D4E5F6G7H8"), nets.listed(), "the longest reply")
        equal(len(nets.listed()), MOST, "entries")
        nets.flush()


def table_changes_during_connections():
    """Connections come and go while the tables change: each has a device of the tables, or is TCP."""
    def changes():
        for _ in range(60):
            with Networks("a") as here, Networks(None) as first:
                for nets, words in (here, ("NETC", "va")), (first, ("NETC", None, "rs_c")):
                    topology.error_of(nets.remove, "NETC")
                    list(nets.listed())
                    nets.add(*words)

    with hosts(), changed(*BOTH):
        child = Child(changes)
        seen = {None: 0, "rs_c": 0}
        while not child.has_ended():
            client, server = pair()
            exchange(client, server, 1000)
            seen[device_of("a", client)] += 1
            client.close()
            server.close()
        child.expect_success()
        client, server = pair()
        by_the_hosts(client, server)
        close(client, server)
        print("# connections by device: %r" % seen)


def strange_requests_are_refused():
    """Octets at random as attributes do no harm; the next request works."""
    with Networks(None) as nets:
        seed = topology.known("networks", 40000)
        for start in range(0, len(seed), 100):
            data = seed[start:start + seed[start] % 100]
            for kind in netlink.ADD_NET, netlink.REMOVE_NET:
                topology.error_of(nets.change, kind, data)
                topology.error_of(nets.change, kind, network("ONE", "eth0") + data)
        nets.flush()
        equal(nets.shown(), [], "entries")


if __name__ == "__main__":
    topology.need_module()
    topology.netns("up")
    sys.exit(ktap.run([
        answers_are_those_of_c, tables_belong_to_a_namespace, invalid_request_leaves_no_entry,
        user_reads_and_changes_nothing, table_is_bounded, strange_requests_are_refused,
        namespace_without_a_device_uses_that_of_the_host, id_of_the_host_alone_changes_nothing,
        id_bars_the_own_port_without_it, device_at_the_bottom_counts, vlan_needs_a_port_in_it,
        second_link_has_the_id_of_the_first, table_changes_during_connections]))
