#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The sockets of a network namespace, as smcss asks for them."""

import errno
import os
import socket
import struct
import subprocess
import sys

import ktap
import netlink
import topology
from ktap import equal, fails
from netlink import CONNINFO, FALLBACK, LGRINFO, REQUEST, SHUTDOWN, Netlink, find, sockets
from topology import Child, exchange, expect_smc, pair

ACTIVE, CLOSED, LISTEN, APP_CLOSE_WAIT = 1, 7, 10, 22
SMCR, TCP = 0, 1
PEER_DECLINED, PEER_NO_SMC, NO_DEVICE = 0x05000000, 0x03010000, 0x03030002
# More than fit in one piece.
MANY = 500


def v4(address):
    """An address in the form of sock_diag."""
    return socket.inet_aton(address) + bytes(12)


def listener_is_listed():
    """A listener has its address, its inode, its user and nothing of a peer."""
    with topology.listener() as listening:
        entry = find("b", listening)
        equal((entry.family, entry.state, entry.mode), (43, LISTEN, SMCR), "state")
        equal((entry.src, entry.dst), (v4("10.9.0.2"), bytes(16)), "addresses")
        equal(entry.inode, os.fstat(listening.fileno()).st_ino, "inode")
        equal((entry.uid, entry.ifindex, entry.fallback), (0, 0, (0, 0)), "user, device, reason")
        equal(entry.shape(), {SHUTDOWN: 1, FALLBACK: 8}, "attributes")
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"vb")
        with topology.inside("b"):
            equal(find("b", listening).ifindex, socket.if_nametoindex("vb"), "bound to")


def connection_shows_its_positions():
    """A connection by RDMA has its tokens, sizes and cursors, which move with its data."""
    client, server = pair()
    expect_smc(client, server)
    exchange(client, server, 10000)
    for side, sock, role in ("a", client, 0), ("b", server, 1):
        entry = find(side, sock, 3)
        equal((entry.state, entry.mode), (ACTIVE, SMCR), "state")
        equal(entry.inode, os.fstat(sock.fileno()).st_ino, "inode")
        equal(entry.shape(), {SHUTDOWN: 1, FALLBACK: 8, CONNINFO: 76, LGRINFO: 147}, "attributes")
        info = struct.unpack("=IIII" + "HHI" * 4 + "BBBB" + "HHI" * 3, entry.parts[CONNINFO])
        equal(info[0] != 0 and min(info[1:4]) >= 16384, True, "token and sizes")
        cursors = [info[6], info[12], info[22], info[25], info[28]]
        equal(cursors[0] >= 10000 and cursors[1] >= 10000, True, "producers %r" % cursors)
        equal(cursors[2:4], [10000, 10000], "written and sent")
        equal(info[15], 10000, "consumed")
        group = entry.parts[LGRINFO]
        equal((group[1:65].rstrip(b"\0"), group[65]), (b"rs_" + side.encode(), 1), "device")
        gids = [group[at:at + 39].decode() for at in (66, 106)]
        ends = [topology.gid_text(topology.HOSTS[socket.AF_INET][end]) for end in (side, "ba"[side == "b"])]
        equal(gids[0] in topology.gids("rs_" + side), True, "address %s" % gids[0])
        equal(len(set(gids + ends)) <= 4 and group[146] == role, True, "role")
    equal(find("a", client).shape(), {SHUTDOWN: 1, FALLBACK: 8}, "attributes without a wish")
    server.shutdown(socket.SHUT_WR)
    topology.until(lambda: find("a", client).state == APP_CLOSE_WAIT, "half closed")
    equal((find("a", client).shutdown, find("b", server).shutdown), (1, 2), "shut down")
    client.close()
    server.close()


def ipv6_address_is_whole():
    """An address of IPv6 has all its octets."""
    client, server = pair(socket.AF_INET6)
    entry = find("a", client)
    equal(entry.src, socket.inet_pton(socket.AF_INET6, "fd09::1"), "source")
    equal(entry.dst, socket.inet_pton(socket.AF_INET6, "fd09::2"), "destination")
    client.close()
    server.close()


def fallback_has_its_reason():
    """A connection over TCP has the reason of this side."""
    client, server = pair(smc=(True, False))
    entry = find("a", client, 3)
    equal((entry.state, entry.mode, entry.fallback), (ACTIVE, TCP, (PEER_NO_SMC, 0)), "reason")
    equal(entry.shape(), {SHUTDOWN: 1, FALLBACK: 8}, "attributes")
    client.close()
    server.close()


def decline_of_the_peer_has_both_reasons():
    """Where the peer has declined, its reason stands beside the one that says so."""
    topology.netns("up", NO_RDMA="b")
    client, server = pair()
    equal(find("a", client).fallback, (PEER_DECLINED, NO_DEVICE), "client")
    equal(find("b", server).fallback, (NO_DEVICE, 0), "server")
    client.close()
    server.close()
    topology.netns("up")


def other_namespace_sees_nothing():
    """A socket is shown in its own namespace only."""
    with topology.listener() as listening:
        find("b", listening)
        equal(sockets("a"), [], "sockets of the other side")


def any_user_may_ask():
    """A user without rights sees the sockets of all users."""
    with topology.listener() as listening:
        def ask():
            os.setuid(65534)
            with Netlink(None, netlink.NETLINK_SOCK_DIAG) as diag:
                diag.send(netlink.SOCK_DIAG_BY_FAMILY, REQUEST | netlink.ROOT, netlink.request())
                found = [netlink.Socket(body).sport for body in diag.answers(True)]
            equal(found, [listening.getsockname()[1]], "ports")
        with topology.inside("b"):
            child = Child(ask)
        child.expect_success()


def short_request_is_no_harm():
    """A request of the least length is one without wishes; a shorter one is refused."""
    with topology.listener(), Netlink("b", netlink.NETLINK_SOCK_DIAG) as diag:
        for flags in 0x100, 0x200, 0x300:
            diag.send(netlink.SOCK_DIAG_BY_FAMILY, REQUEST | flags, b"\x2b\0")
            equal(len(list(diag.answers(True))), 1, "sockets")
        diag.send(netlink.SOCK_DIAG_BY_FAMILY, REQUEST | netlink.DUMP, b"\x2b")
        fails(errno.EINVAL, list, diag.answers(True))
        diag.send(netlink.SOCK_DIAG_BY_FAMILY, REQUEST | netlink.DUMP, netlink.request(255) + bytes(4000))
        equal(len(list(diag.answers(True))), 1, "sockets")
        # No dump: nothing but the acknowledgment.
        diag.send(netlink.SOCK_DIAG_BY_FAMILY, REQUEST | netlink.ACK, netlink.request())
        equal(list(diag.answers(False)), [], "answers")


def many_listeners():
    """Listeners, more than fit in one piece of an answer."""
    return [topology.listener(backlog=1) for _ in range(MANY)]


def dump_is_whole_while_others_come_and_go():
    """A dump in pieces neither loses nor doubles a socket that lives throughout."""
    listening = many_listeners()
    ports = {sock.getsockname()[1] for sock in listening}
    ends = os.pipe()

    def come_and_go():
        os.close(ends[0])
        try:
            while True:
                with topology.listener(), topology.listener():
                    os.write(ends[1], b".")
        except BrokenPipeError:
            pass

    child = Child(come_and_go)
    os.close(ends[1])
    for _ in range(10):
        os.read(ends[0], 1)
        with Netlink("b", netlink.NETLINK_SOCK_DIAG) as diag:
            diag.send(netlink.SOCK_DIAG_BY_FAMILY, REQUEST | netlink.ROOT, netlink.request(3))
            found, pieces = [], 0
            while True:
                piece = list(diag.piece())
                pieces += 1
                found += [netlink.Socket(body) for kind, _, body in piece
                          if kind == netlink.SOCK_DIAG_BY_FAMILY]
                if piece[-1][0] == netlink.NLMSG_DONE:
                    break
                # Others change meanwhile.
                os.read(ends[0], 64)
        seen = [entry.sport for entry in found if entry.sport in ports]
        equal((len(seen), set(seen)), (MANY, ports), "ports")
        equal(len({entry.cookie for entry in found}), len(found), "cookies")
        equal(pieces > 1, True, "pieces")
    os.close(ends[0])
    child.expect_success()
    for sock in listening:
        sock.close()


def dump_holds_the_module():
    """The module stays until a dump is over, or its reader is gone."""
    for reads in True, False:
        listening = many_listeners()
        diag = Netlink("b", netlink.NETLINK_SOCK_DIAG)
        diag.send(netlink.SOCK_DIAG_BY_FAMILY, REQUEST | netlink.ROOT, netlink.request())
        for sock in listening:
            sock.close()
        topology.until(lambda: topology.module_users() <= 1, "sockets are gone")
        equal(topology.module_users(), 1, "users")
        done = subprocess.run(["rmmod", "rdma_sock"], stdout=subprocess.PIPE, check=False,
                              stderr=subprocess.STDOUT)
        equal(done.returncode, 1, "status of rmmod")
        if reads:
            list(diag.answers(True))
            topology.until(lambda: topology.module_users() == 0, "the dump is over")
        diag.sock.close()
        topology.until(lambda: topology.module_users() == 0, "the reader is gone")


if __name__ == "__main__":
    topology.need_module()
    topology.netns("up")
    sys.exit(ktap.run([
        listener_is_listed, connection_shows_its_positions, ipv6_address_is_whole,
        fallback_has_its_reason, decline_of_the_peer_has_both_reasons, other_namespace_sees_nothing,
        any_user_may_ask, short_request_is_no_harm, dump_is_whole_while_others_come_and_go,
        dump_holds_the_module]))
