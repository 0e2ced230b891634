#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The family SMC_GEN_NETLINK: what smcr and smcd show and change."""

import errno
import os
import pathlib
import select
import socket
import sys

import ktap
import netlink
import topology
from ktap import equal, fails
from netlink import Commands, attribute, attributes, eid, number
from topology import Child, exchange, expect_smc, pair

CHANGES = [netlink.ADD_EID, netlink.REMOVE_EID, netlink.FLUSH_EIDS, netlink.ENABLE_SEID,
           netlink.DISABLE_SEID, netlink.ENABLE_LIMIT, netlink.DISABLE_LIMIT]
DUMPS = [command for command in range(1, 19) if command not in CHANGES]
SINGLE, ACTIVE = 1, 3
PEER_DECLINED, PEER_NO_SMC, NO_DEVICE = 0x05000000, 0x03010000, 0x03030002


def lengths(parts):
    """Types with the lengths of their values."""
    return {kind: len(value) for kind, value in parts.items()}


def family_has_all_commands():
    """The family has each of the 18 commands, and no other."""
    with Commands("a") as smc:
        equal((number(smc.about[3]), number(smc.about[4]), number(smc.about[5])), (1, 0, 1),
              "version, size of the head, attributes")
        known = [number(attributes(operation)[1])
                 for operation in attributes(smc.about[6]).values()]
        equal(sorted(known), list(range(1, 19)), "commands")
        for command in DUMPS:
            smc.ask(command)
            fails(errno.EOPNOTSUPP, smc.ask, command, b"", 0)
        for command in netlink.SMCD_GROUPS, netlink.SMCD_DEVICES:
            equal(smc.ask(command), [], "objects of SMC-D")
        equal(smc.ask(netlink.SEID), [{}], "identifier of the system")
        for command in netlink.ENABLE_SEID, netlink.DISABLE_SEID:
            fails(errno.EOPNOTSUPP, smc.change, command)
        fails(errno.EOPNOTSUPP, smc.ask, 19)


def system_says_its_versions():
    """SMC has version 2.1, the name of the host, and no SMC-D."""
    with Commands("a") as smc:
        (parts,) = smc.dump(netlink.SYSTEM, 1)
        equal(lengths(parts), {1: 1, 2: 1, 3: 1, 4: 33, 6: 1}, "attributes")
        equal([number(parts[kind]) for kind in (1, 2, 3, 6)], [2, 1, 0, 1], "values")
        equal(parts[4], os.uname().nodename.encode().ljust(32)[:32] + b"\0", "host")


def group_shows_the_type_of_its_buffers():
    """The type is that of the side's namespace when the group was made."""
    for kinds in (0, 1), (2, 0):
        for side, kind in zip("ab", kinds):
            buffer_type(side, kind)
        client, server = pair()
        expect_smc(client, server)
        for side, kind in zip("ab", kinds):
            buffer_type(side, 0)
            with Commands(side) as smc:
                (group,) = smc.dump(netlink.GROUPS, 2)
                equal(number(group[11]), kind, "type of " + side)
        client.close()
        server.close()
        topology.netns("up")


def buffer_type(side, kind):
    """Sets the type of the buffers of new groups."""
    with topology.inside(side):
        pathlib.Path("/proc/sys/net/smc/smcr_buf_type").write_text("%d\n" % kind, encoding="ascii")


def group_shows_its_links():
    """A group of version 1 comes before its link, both with what the device has."""
    client, server = pair()
    expect_smc(client, server)
    for side, role in ("a", 0), ("b", 1):
        with Commands(side) as smc:
            (group,) = smc.dump(netlink.GROUPS, 2)
            equal(lengths(group), {1: 4, 2: 1, 3: 1, 4: 1, 5: 1, 6: 4, 9: 8, 11: 1, 12: 4, 13: 4},
                  "attributes of the group")
            equal(number(group[1]) & 255, 0, "low octet")
            equal([number(group[kind]) for kind in (2, 3, 5, 6)], [role, SINGLE, 0, 1], "group")
            equal(number(group[12]) >= 16384 and number(group[13]) >= 16384, True, "buffers")
            both = smc.ask(netlink.LINKS)
            equal([list(parts) for parts in both], [[2], [3]], "a group, then its link")
            equal(attributes(both[0][2]), group, "the same group")
            link = attributes(both[1][3])
            (line,) = topology.records(side, "links")
            equal(lengths(link), {1: 1, 2: 5, 3: 1, 4: 40, 5: 40, 6: 4, 7: 4, 8: 4, 9: 4, 10: 4},
                  "attributes of the link")
            equal(link[2], b"rs_" + side.encode() + b"\0", "device")
            equal([number(link[kind]) for kind in (1, 3, 6, 10)], [int(line["link"]), 1, 1, ACTIVE],
                  "number, port, connections, state")
            equal(int.from_bytes(link[8], "big"), int(line["uid"], 0), "name")
            equal(int.from_bytes(link[9], "big"), int(line["peer_uid"], 0), "name of the peer")
            equal(link[4][:39].decode() in topology.gids("rs_" + side), True, "address")
            other = "ab".replace(side, "")
            equal(link[5][:39].decode() in topology.gids("rs_" + other), True, "other address")
            with topology.inside(side):
                equal(number(link[7]), socket.if_nametoindex("v" + side), "network device")
    client.close()
    server.close()


def group_of_version_2_shows_its_peer():
    """In version 2 a group has its identifier, the peer's name and the terms."""
    topology.netns("up")
    for side in "ab":
        with Commands(side) as smc:
            smc.change(netlink.ADD_EID, eid("LAB.ADMIN"))
    client, server = pair()
    expect_smc(client, server)
    for side in "ab":
        with Commands(side) as smc:
            (group,) = smc.dump(netlink.GROUPS, 2)
            common, terms = attributes(group[7]), attributes(group[8])
            equal(lengths(common), {0: 1, 1: 1, 2: 1, 3: 33, 4: 33}, "attributes")
            equal([number(common[kind]) for kind in (0, 1, 2)], [2, 1, 2], "version, release, system")
            equal(common[3], b"LAB.ADMIN".ljust(32) + b"\0", "identifier")
            equal(common[4].startswith(os.uname().nodename.encode()[:32]), True, "host")
            equal([number(terms[kind]) for kind in (1, 2, 3)], [1, 255, 2], "terms")
    with Commands("a") as smc:
        stats = attributes(smc.dump(netlink.COUNTS, 7)[0][2])
        equal(number(stats[8]), 1, "connections of version 2")
    client.close()
    server.close()


def device_has_all_its_numbers():
    """A device has its port, and zero where it has no place on a bus; another namespace's is not
    shown."""
    topology.netns("up")
    client, server = pair()
    for side in "ab":
        with Commands(side) as smc:
            (device,) = smc.dump(netlink.DEVICES, 6)
            equal(lengths(device) | {8: 0}, {2: 1, 3: 4, 4: 2, 5: 2, 6: 2, 7: 1, 8: 0, 10: 5},
                  "attributes")
            equal(device[10], b"rs_" + side.encode() + b"\0", "name")
            equal([number(device[kind]) for kind in (2, 3, 4, 5, 6)], [1, 0, 0, 0, 0], "numbers")
            port = attributes(device[8])
            equal(lengths(port), {1: 1, 2: 1, 3: 4, 4: 1, 5: 1, 6: 4}, "attributes of the port")
            equal([number(port[kind]) for kind in (1, 4, 5, 6)], [0, 1, 1, 1], "port")
            with topology.inside(side):
                equal(number(port[3]), socket.if_nametoindex("v" + side), "network device")
    client.close()
    server.close()


def statistics(side):
    """The counts of SMC-R of a side."""
    with Commands(side) as smc:
        (counts,) = smc.dump(netlink.COUNTS, 7)
        equal(lengths(counts) | {2: 0}, {2: 0, 3: 8, 4: 8}, "attributes")
        return attributes(counts[2])


def counts_follow_calls():
    """Connections, calls, their sizes and their octets are counted; nothing counts backwards."""
    topology.netns("up")
    before = statistics("a")
    for kind in range(1, 5):
        equal(lengths(attributes(before[kind])), {kind: 8 for kind in range(1, 10)}, "classes")
    for kind in 5, 6:
        equal(lengths(attributes(before[kind])), {kind: 8 for kind in range(1, 8)}, "buffers")
    equal(lengths(before) | {kind: 0 for kind in range(1, 7)},
          {kind: 0 for kind in range(1, 7)} | {kind: 8 for kind in range(7, 20)} | {20: 4, 21: 4},
          "attributes")
    client, server = pair()
    expect_smc(client, server)
    client.sendall(b"x" * 100)
    client.sendall(b"x" * 9000)
    equal(len(topology.receive(server, 9100)), 9100, "octets")
    server.sendall(b"yes")
    equal(client.recv(10), b"yes", "answer")
    after, there = statistics("a"), statistics("b")
    equal([number(after[kind]) for kind in (7, 8, 9, 10)], [1, 0, 0, 0], "connections")
    equal([number(there[kind]) for kind in (7, 8, 9, 10)], [0, 0, 1, 0], "connections of the server")
    equal((number(after[16]), number(after[17])), (3, 9100), "octets")
    equal((number(there[16]), number(there[17])), (9100, 3), "octets of the server")
    equal((number(after[18]), number(after[19])), (1, 2), "calls")
    sizes = attributes(after[3])
    equal([number(sizes[kind]) for kind in (1, 2, 3)], [1, 1, 0], "sizes sent")
    equal(number(attributes(after[4])[1]), 1, "sizes received")
    equal(number(after[20]) >= 16384 and number(after[21]) >= 16384, True, "buffers in use")
    client.close()
    server.close()
    topology.all_gone()
    last = statistics("a")
    equal((number(last[20]), number(last[21])), (0, 0), "buffers in use at the end")
    equal([last[kind] for kind in range(7, 20)], [after[kind] for kind in range(7, 20)], "counts")
    equal([last[kind] for kind in (3, 4)], [after[kind] for kind in (3, 4)], "sizes")


def buffers_and_rare_calls_are_counted():
    """Buffers are counted by size when a connection gets them, and calls that found one full, or that
    set an option."""
    topology.netns("up")
    def counts(side):
        found = statistics(side)
        sizes, buffers = [[list(map(number, attributes(found[kind]).values())) for kind in kinds]
                          for kinds in ((1, 2), (5, 6))]
        return sizes, buffers, [number(found[kind]) for kind in range(11, 16)]

    equal([counts(side) for side in "ab"], [([[0] * 9] * 2, [[0] * 7] * 2, [0] * 5)] * 2, "before")
    # The buffers have 16 KiB: the client's as it asks for that, the server's by its listener.
    with topology.listener("b") as listening:
        client = topology.new_socket("a")
        for sock in client, listening:
            for option in socket.SO_SNDBUF, socket.SO_RCVBUF:
                sock.setsockopt(socket.SOL_SOCKET, option, 8192)
        client.connect(listening.getsockname())
        server, _ = listening.accept()
    expect_smc(client, server)
    sizes, buffers, rare = counts("a")
    equal(sizes, [[0, 1] + [0] * 7] * 2, "buffers of 16 KiB")
    equal(buffers, [[0, 0, 0, 0, 0, 1, 0]] * 2, "new ones")
    equal(rare, [0] * 5, "rare calls")
    client.setblocking(False)
    sent = 0
    while True:
        try:
            sent += client.send(b"x" * 20000)
        except BlockingIOError:
            if sent >= 2 * 16384 - 16:
                break
            select.select([], [client], [], 1)
    _, (tx, _), _ = counts("a")
    equal(tx[0] > 0 and tx[1] > 0, True, "larger than the buffers: %r" % tx)
    equal(tx[2] > 0 and tx[3] > 0, True, "found both full: %r" % tx)
    server.recv(100)
    _, (_, rx), _ = counts("b")
    equal(rx[1] > 0, True, "read a part: %r" % rx)
    topology.receive(server, sent - 100)
    client.setblocking(True)
    client.settimeout(topology.BOUND)
    for value in 1, 0, 1:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, value)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, value)
    client.send(b"u", socket.MSG_OOB)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    topology.until(lambda: topology.error_of(server.recv, 1, socket.MSG_OOB) == "none", "urgent byte")
    server.sendall(b"spliced")
    # A socket with a timeout does not wait in splice().
    equal(select.select([client], [], [], topology.BOUND)[0], [client], "data to splice")
    inside, outside = os.pipe()
    equal(os.splice(client.fileno(), outside, 7), 7, "octets")
    equal(os.read(inside, 10), b"spliced", "data")
    equal(counts("a")[2], [0, 1, 2, 2, 1], "sendfile, splice, cork, nodelay, urgent of a")
    equal(counts("b")[2][4] >= 1, True, "urgent of b")
    for fd in inside, outside:
        os.close(fd)
    client.close()
    server.close()
    topology.all_gone()
    before = counts("a")
    client, server = pair(rcvbuf=8192)
    expect_smc(client, server)
    sizes, buffers, rare = counts("a")
    equal(rare, before[2], "rare calls")
    equal(sum(map(sum, sizes)) - sum(map(sum, before[0])), 2, "buffers")
    for now, was in zip(buffers, before[1]):
        equal(now[4] + now[5] - was[4] - was[5], 1, "reused or new")
    client.close()
    server.close()
    topology.all_gone()


def fallbacks_are_told_apart():
    """Reasons are counted by side, and those of the peer as such; the first has the totals."""
    topology.netns("up", NO_RDMA="b")
    with Commands("a") as smc:
        equal(smc.ask(netlink.FALLBACKS), [], "reasons")
    for smc_too in True, True, False:
        client, server = pair(smc=(True, smc_too))
        client.close()
        server.close()
    with Commands("a") as smc:
        first, second = smc.dump(netlink.FALLBACKS, 8)
        equal(lengths(first), {1: 1, 2: 8, 3: 8, 4: 4, 5: 2}, "attributes of the first")
        equal(lengths(second), {1: 1, 4: 4, 5: 2}, "attributes of the second")
        equal((number(first[2]), number(first[3])), (0, 3), "totals")
        found = {number(parts[4]): (number(parts[1]), number(parts[5])) for parts in (first, second)}
        equal(found, {PEER_DECLINED: (0, 2), PEER_NO_SMC: (0, 1)}, "reasons of the client")
    with Commands("b") as smc:
        (only,) = smc.dump(netlink.FALLBACKS, 8)
        equal((number(only[1]), number(only[4]), number(only[5])), (1, NO_DEVICE, 2), "of the server")
    topology.netns("up")


def names(side):
    """The identifiers of a side."""
    with Commands(side) as smc:
        found = [parts[1] for parts in smc.ask(netlink.EIDS)]
    equal([len(name) for name in found], [33] * len(found), "lengths")
    return [name.rstrip(b"\0").decode().rstrip() for name in found]


def identifiers_are_added_and_removed():
    """Identifiers come and go one by one, by namespace, with the errors that the tools know."""
    with Commands("a") as smc:
        smc.change(netlink.FLUSH_EIDS)
        smc.change(netlink.FLUSH_EIDS)
        equal(names("a"), [], "none")
        for name in "ONE", "TWO.2", "THREE-3":
            smc.change(netlink.ADD_EID, eid(name))
        equal((names("a"), names("b")), (["ONE", "TWO.2", "THREE-3"], []), "added")
        fails(errno.EEXIST, smc.change, netlink.ADD_EID, eid("ONE"))
        for wrong in eid("one"), eid(".A"), eid(""), attribute(1, b"ONE\0"), attribute(1, b"A" * 32), b"":
            fails(errno.EINVAL, smc.change, netlink.ADD_EID, wrong)
        fails(errno.ERANGE, smc.change, netlink.ADD_EID, attribute(1, b"A" * 40 + b"\0"))
        fails(errno.EINVAL, smc.change, netlink.REMOVE_EID)
        smc.change(netlink.REMOVE_EID, eid("TWO.2"))
        fails(errno.ENOENT, smc.change, netlink.REMOVE_EID, eid("TWO.2"))
        equal(names("a"), ["ONE", "THREE-3"], "removed")
        for count in range(6):
            smc.change(netlink.ADD_EID, eid("MORE%d" % count))
        fails(errno.ERANGE, smc.change, netlink.ADD_EID, eid("NINTH"))
        equal(topology.proc("a", "ueids").split(), names("a"), "file")
        smc.change(netlink.FLUSH_EIDS)
        equal(names("a"), [], "none")


def limit_is_the_setting():
    """The commands and net.smc.limit_smc_hs are one setting, by namespace."""
    def file():
        with topology.inside("a"):
            return int(pathlib.Path("/proc/sys/net/smc/limit_smc_hs").read_text(encoding="ascii"))

    with Commands("a") as smc, Commands("b") as other:
        for command, value in (netlink.ENABLE_LIMIT, 1), (netlink.DISABLE_LIMIT, 0):
            smc.change(command)
            equal(smc.ask(netlink.LIMIT), [{1: bytes([value])}], "shown")
            equal(file(), value, "file")
            equal(other.ask(netlink.LIMIT), [{1: b"\0"}], "elsewhere")


def user_reads_and_changes_nothing():
    """Without rights all dumps work and each change is refused."""
    def ask():
        os.setuid(65534)
        with Commands(None) as smc:
            for command in DUMPS:
                smc.ask(command)
            for command in CHANGES:
                fails(errno.EPERM, smc.change, command, eid("A") if command in (10, 11) else b"")

    with topology.inside("a"):
        child = Child(ask)
    child.expect_success()
    equal(names("a"), [], "identifiers")


def administrator_of_a_namespace_changes_it():
    """The root of a user namespace changes the network namespace that belongs to it."""
    def ask():
        os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET)
        with Commands(None) as smc:
            smc.change(netlink.ADD_EID, eid("INSIDE"))
            equal(len(smc.ask(netlink.EIDS)), 1, "identifiers")

    Child(ask).expect_success()
    equal(names("a") + names(None), [], "elsewhere")


def strange_requests_are_refused():
    """Attributes that no command has, wrong lengths and octets at random are refused; the next request
    works."""
    with Commands("a") as smc:
        for command in DUMPS:
            fails(errno.EINVAL, smc.ask, command, attribute(1, b"\0" * 4))
            fails(errno.EINVAL, smc.ask, command, attribute(9, b"\0" * 4))
        for command in CHANGES:
            fails(errno.EINVAL, smc.change, command, attribute(7, b"\0" * 4))
        for junk in b"\xff" * 4, b"\x02\0\x01\0", b"\xff\xff\x01\0" + b"A" * 20:
            fails(errno.EINVAL, smc.change, netlink.ADD_EID, junk)
        seed = topology.known("commands", 20000)
        for start in range(0, len(seed), 100):
            data = seed[start:start + seed[start] % 100]
            topology.error_of(smc.change, netlink.ADD_EID, data)
        smc.change(netlink.FLUSH_EIDS)
        equal(smc.ask(netlink.EIDS), [], "identifiers")


def groups_come_and_go_during_dumps():
    """Dumps of groups and links are well formed while groups come and go."""
    topology.netns("up")
    def traffic():
        for _ in range(10):
            client, server = pair()
            exchange(client, server, 1000)
            client.close()
            server.close()
            for side in "ab":
                topology.command("rdma", "link", "delete", "rs_" + side)
            for side in "ab":
                with topology.inside(side):
                    topology.command("rdma", "link", "add", "rs_" + side, "type", "rxe", "netdev",
                                     "v" + side)
            for side in "ab":
                topology.await_gid("rs_" + side, topology.HOSTS[socket.AF_INET][side])

    child = Child(traffic)
    seen = 0
    while not child.has_ended():
        for side in "ab":
            with Commands(side) as smc:
                for command in netlink.GROUPS, netlink.DEVICES, netlink.COUNTS:
                    smc.ask(command)
                links = [list(parts) for parts in smc.ask(netlink.LINKS)]
                seen += len(links)
                equal(links[:1] in ([], [[2]]), True, "a group first")
    child.expect_success()
    equal(seen > 0, True, "groups were seen")


if __name__ == "__main__":
    topology.need_module()
    topology.netns("up")
    sys.exit(ktap.run([
        family_has_all_commands, system_says_its_versions, group_shows_the_type_of_its_buffers,
        group_shows_its_links,
        group_of_version_2_shows_its_peer, device_has_all_its_numbers, counts_follow_calls,
        buffers_and_rare_calls_are_counted,
        fallbacks_are_told_apart, identifiers_are_added_and_removed, limit_is_the_setting,
        user_reads_and_changes_nothing, administrator_of_a_namespace_changes_it,
        strange_requests_are_refused, groups_come_and_go_during_dumps]))
