#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The TCP option by which both ends agree on SMC-R, as seen on the wire.

Both back ends have to pass. Without the parameter option_backend=netfilter a kernel with CONFIG_SMC
uses its own back end, which lacks some features. Their tests are skipped there.
"""

import ctypes
import errno
import functools
import os
import select
import socket
import struct
import subprocess
import sys
import time

import ktap
import wire
from ktap import Skip, equal, fails
from wire import command, ACK, IPS, PSH, RST, SMC, SYN, Peer

IPPROTO_SMC = 256
TCP_FASTOPEN_CONNECT = 30
TCP_FASTOPEN = 23
TCP_SAVE_SYN = 27
TCP_SAVED_SYN = 28
TCP_MD5SIG = 14
SOL_SMC = 286
SMC_LIMIT_HS = 1
LIMIT = "/proc/sys/net/smc/limit_smc_hs"
# "SMCR" in EBCDIC, the begin of every CLC message.
EYE_CATCHER = bytes.fromhex("e2d4c3d9")
# Window scale 7, as in the SYN-ACK of a peer with options.
MSS = bytes.fromhex("020405b4")
SMC_PADDED = b"\1\1" + SMC

libc = ctypes.CDLL(None, use_errno=True)


def family_of(version):
    return socket.AF_INET if version == 4 else socket.AF_INET6


def make(version, flags=0, protocol=IPPROTO_SMC):
    """A socket of ours."""
    fd = libc.socket(int(family_of(version)), socket.SOCK_STREAM | flags, protocol)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "socket")
    return socket.socket(fileno=fd)


def listener(version, protocol=IPPROTO_SMC):
    """A listening socket on the wire's address."""
    sock = make(version, protocol=protocol)
    sock.bind((IPS[version][0], 0))
    sock.listen(16)
    return sock


def begin(peer, sock):
    """Starts a connection to the peer; returns the SYN."""
    sock.setblocking(False)
    equal(sock.connect_ex(peer.address()), errno.EINPROGRESS, "connect")
    return peer.receive(SYN)


def connected(sock):
    """Waits for the end of connect()."""
    select.select([], [sock], [], 20)
    equal(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0, "SO_ERROR")


def is_plain(peer, sock, data=b"plain data, and nothing before it"):
    """Fails unless the connection uses TCP, with no octet lost or added."""
    connected(sock)
    sock.sendall(data)
    got = b""
    while len(got) < len(data):
        got += peer.data()
    equal(got, data, "what the peer receives")
    peer.send(ACK | PSH, data=b"answer")
    select.select([sock], [], [], 20)
    equal(sock.recv(100), b"answer", "what the program receives")


def syn_to(link, version, server, port, options=MSS + SMC_PADDED):
    """A peer that has sent a SYN from that port."""
    peer = Peer(link, version, port)
    peer.other_port = server.getsockname()[1]
    peer.send(SYN, options)
    return peer


def is_offered(peer):
    """Whether the SYN-ACK has the option."""
    return peer.receive(SYN | ACK).experiments() == [SMC]


def backend(has_decoy=None, found=[]):  # pylint: disable=dangerous-default-value
    """The back end in use. Only a kernel with its own back end leaves a choice; there a SYN shows which
    one."""
    if not found:
        with open("/proc/kallsyms", encoding="ascii") as file:
            built_in = any(line.split()[2] == "tcp_have_smc" for line in file)
        found.append("netfilter" if not built_in or has_decoy else "kernel")
    return found[0]


def syn_has_option(link, version):
    # TCP-01..03, TCP-10, TCP-23, API-07.
    peer, sock = Peer(link, version, 4001), make(version)
    syn = begin(peer, sock)
    experiments = syn.experiments()
    equal(experiments[-1], SMC, "the option")
    equal(len(syn.options) <= 40, True, "length")
    if backend() == "netfilter":
        equal(len(experiments), 2, "the decoy comes with it")
        equal(experiments[0][1], 6, "length of the decoy")
    sock.close()


def plain_sockets_are_left_alone(link, version):
    # TCP-10, FBK-01.
    peer, sock = Peer(link, version, 4002), make(version, protocol=0)
    equal(begin(peer, sock).experiments(), [], "options of a plain socket")
    sock.close()
    with listener(version, protocol=0) as server:
        peer = syn_to(link, version, server, 4003)
        equal(peer.receive(SYN | ACK).experiments(), [], "options of a plain listener")
        peer.send(RST | ACK)


def repeated_syn_is_the_same(link, version):
    # TCP-10, AMB-37.
    peer, sock = Peer(link, version, 4004), make(version)
    first = begin(peer, sock)
    second = peer.receive(SYN)
    equal(second.seq, first.seq, "sequence number")
    equal(second.experiments(), first.experiments(), "options")
    equal(second.experiments()[-1], SMC, "the option")
    peer.send(SYN | ACK, MSS)
    is_plain(peer, sock)
    sock.close()


def agreement_starts_the_handshake(link, version):
    # TCP-15, TCP-16, TCP-19, CLC-01, RDV-02.
    peer, sock = Peer(link, version, 4005), make(version)
    begin(peer, sock)
    peer.send(SYN | ACK, MSS + SMC_PADDED)
    peer.receive(ACK)
    equal(peer.data()[:4], EYE_CATCHER, "first octets")
    peer.send(RST | ACK)
    sock.close()


def peer_without_option(link, version):
    # TCP-16, TCP-17, FBK-02.
    peer, sock = Peer(link, version, 4006), make(version)
    begin(peer, sock)
    peer.send(SYN | ACK, MSS)
    is_plain(peer, sock)
    sock.close()


def peer_that_echoes(link, version):
    if backend() == "kernel":
        raise Skip("the kernel's back end sends no decoy")
    peer, sock = Peer(link, version, 4007), make(version)
    syn = begin(peer, sock)
    peer.send(SYN | ACK, syn.options)
    is_plain(peer, sock)
    sock.close()


def syn_ack_for_something_else(link, version):
    peer, sock = Peer(link, version, 4008), make(version)
    begin(peer, sock)
    # TCP answers the wrong acknowledgment with a RST. The agreement in it must not count.
    right, peer.ack = peer.ack, peer.ack + 1000 & 0xffffffff
    peer.send(SYN | ACK, MSS + SMC_PADDED)
    peer.receive(RST)
    peer.ack = right
    peer.seq = peer.seq - 1 & 0xffffffff
    peer.send(SYN | ACK, MSS)
    is_plain(peer, sock)
    sock.close()


def simultaneous_open(link, version):
    peer, sock = Peer(link, version, 4009), make(version)
    begin(peer, sock)
    acked, peer.ack = peer.ack, 0
    # The kernel's back end treats two SYNs with the option as an agreement.
    peer.send(SYN, MSS + (SMC_PADDED if backend() == "netfilter" else b""))
    answer = peer.receive(SYN | ACK)
    if backend() == "netfilter":
        equal(answer.experiments(), [], "options")
    peer.ack = acked
    peer.send(ACK)
    is_plain(peer, sock)
    sock.close()


def refused_connection(link, version):
    peer, sock = Peer(link, version, 4010), make(version)
    begin(peer, sock)
    peer.send(RST | ACK)
    select.select([], [sock], [], 20)
    equal(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), errno.ECONNREFUSED, "SO_ERROR")
    sock.close()


def server_answers(link, version):
    # TCP-11, TCP-12.
    with listener(version) as server:
        for options, count in ((MSS + SMC_PADDED, 1), (MSS, 0),
                               (bytes.fromhex("fe06725a1234") + SMC + MSS, 1),
                               (bytes.fromhex("fe06e2d4c3d80101"), 0),
                               # A cookie request of TCP Fast Open. (The kernel offers both.)
                               (MSS + SMC_PADDED + bytes.fromhex("22020101"),
                                int(backend() == "kernel"))):
            peer = syn_to(link, version, server, 4011, options)
            answer = peer.receive(SYN | ACK)
            equal(answer.experiments(), [SMC] * count, "answer to " + options.hex())
            peer.send(RST | ACK)


def server_repeats(link, version):
    with listener(version) as server:
        peer = syn_to(link, version, server, 4012)
        first = peer.receive(SYN | ACK)
        second = peer.receive(SYN | ACK)
        equal(second.experiments(), first.experiments(), "options")
        equal(second.experiments(), [SMC], "the option")
        peer.send(RST | ACK)


def server_without_agreement(link, version):
    # TCP-12, TCP-17.
    with listener(version) as server:
        peer = syn_to(link, version, server, 4013, MSS)
        peer.receive(SYN | ACK)
        peer.send(ACK)
        peer.send(ACK | PSH, data=b"from the first octet on")
        child, _ = server.accept()
        equal(child.recv(100), b"from the first octet on", "data")
        child.sendall(b"back")
        equal(peer.data(), b"back", "answer")
        peer.send(RST | ACK)
        child.close()


def saved_syn_is_what_came(link, version):
    # TCP_SAVE_SYN returns each octet of the SYN.
    with listener(version) as server:
        server.setsockopt(socket.IPPROTO_TCP, TCP_SAVE_SYN, 1)
        peer = Peer(link, version, 4018)
        peer.other_port = server.getsockname()[1]
        syn = peer.send(SYN, MSS + SMC_PADDED)
        first = peer.receive(SYN | ACK)
        equal(first.experiments(), [SMC], "the option")
        equal(peer.receive(SYN | ACK).options, first.options, "the SYN-ACK that is repeated")
        peer.send(ACK)
        peer.send(ACK | PSH, data=b"no message of the handshake")
        child, _ = server.accept()
        saved = child.getsockopt(socket.IPPROTO_TCP, TCP_SAVED_SYN, 512)
        # After the Ethernet header.
        equal(saved.hex(), syn.frame(*link.macs)[14:].hex(), "what was kept")
        equal(child.recv(100), b"no message of the handshake", "data")
        peer.send(RST | ACK)
        child.close()


def attempt_leaves_nothing(link, version):
    # A socket whose first attempt offered SMC and failed, and whose next attempt cannot use SMC.
    for way in ("refused", "dissolved"):
        peer, sock = Peer(link, version, 4019), make(version)
        equal(begin(peer, sock).experiments()[-1], SMC, "the option")
        if way == "refused":
            peer.send(RST | ACK)
            select.select([], [sock], [], 20)
            equal(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), errno.ECONNREFUSED, "SO_ERROR")
            # Reports the failure of the attempt, as in TCP.
            equal(sock.connect_ex(peer.address()), errno.ECONNABORTED, "connect after the failure")
        else:
            unspecified = bytes(16)
            equal(libc.connect(sock.fileno(), unspecified, len(unspecified)), 0, "AF_UNSPEC")
        command("rdma", "link", "delete", "wire_rxe")
        try:
            peer = Peer(link, version, 4020)
            equal(begin(peer, sock).experiments(), [], "options of a SYN without a device")
            peer.send(SYN | ACK, MSS)
            is_plain(peer, sock)
        finally:
            command("rdma", "link", "add", "wire_rxe", "type", "rxe", "netdev", "wire0")
        peer.send(RST | ACK)
        sock.close()


def cookies(link, version):
    # AMB-37, TST-102.
    path = "/proc/sys/net/ipv4/tcp_syncookies"
    with open(path, encoding="ascii") as file:
        before = file.read()
    with open(path, "w", encoding="ascii") as file:
        file.write("2")
    try:
        with listener(version) as server:
            peer = syn_to(link, version, server, 4014)
            equal(peer.receive(SYN | ACK).experiments(), [], "options with a cookie")
            peer.send(ACK)
            peer.send(ACK | PSH, data=b"hello")
            child, _ = server.accept()
            equal(child.recv(100), b"hello", "data")
            peer.send(RST | ACK)
            child.close()
    finally:
        with open(path, "w", encoding="ascii") as file:
            file.write(before)


def flood_leaves_nothing(link, version):
    with listener(version) as server:
        for port in range(20000, 22000):
            peer = syn_to(link, version, server, port)
            link.drain()
        # One more client connects, with a cookie or without.
        peer = syn_to(link, version, server, 4015, MSS)
        peer.receive(SYN | ACK)
        peer.send(ACK)
        peer.send(ACK | PSH, data=b"alive")
        child, _ = server.accept()
        equal(child.recv(100), b"alive", "data")
        peer.send(RST | ACK)
        child.close()


def await_handshakes(count):
    """Waits for a number of handshakes in progress."""
    end = time.monotonic() + 20
    found = 0
    while found != count and time.monotonic() < end:
        with open("/proc/net/rdma_sock/conns", encoding="ascii") as file:
            found = file.read().count(" mode=pending ")
    equal(found, count, "handshakes under way")


def handshakes_are_limited(link, version):
    # A silent peer after the agreement keeps a handshake in progress.
    with listener(version) as server:
        equal(server.getsockopt(SOL_SMC, SMC_LIMIT_HS), 0, "the option at first")
        server.setsockopt(SOL_SMC, SMC_LIMIT_HS, 1)
        equal(server.getsockopt(SOL_SMC, SMC_LIMIT_HS), 1, "the option")
        waiting, peer, offered = [], None, True
        while offered and len(waiting) < 16:
            peer = syn_to(link, version, server, 4300 + len(waiting))
            offered = is_offered(peer)
            peer.send(ACK)
            if offered:
                waiting.append(peer)
                await_handshakes(len(waiting))
        # More than half of the backlog.
        equal((offered, len(waiting)), (False, 9), "offered to the last, and handshakes")
        # Clients without the offer do not wait for the stalled ones.
        peer.send(ACK | PSH, data=b"at once")
        child, _ = server.accept()
        equal(child.recv(100), b"at once", "data")
        peer.send(RST | ACK)
        child.close()
        # A listener without a limit always offers SMC-R.
        with listener(version) as other:
            last = syn_to(link, version, other, 4330)
            equal(is_offered(last), True, "offered by another")
            last.send(RST | ACK)
        for peer in waiting[4:]:
            peer.send(RST | ACK)
        port, offered, end = 4340, False, time.monotonic() + 20
        while not offered and time.monotonic() < end:
            last = syn_to(link, version, server, port)
            offered = is_offered(last)
            last.send(RST | ACK)
            port += 1
        equal(offered, True, "offered again")
        for peer in waiting[:4]:
            peer.send(RST | ACK)


def limit_is_inherited(link, version):
    # The default of new sockets, per namespace.
    del link
    with open(LIMIT, "w", encoding="ascii") as file:
        file.write("1")
    try:
        with listener(version) as server:
            equal(server.getsockopt(SOL_SMC, SMC_LIMIT_HS), 1, "the option")
    finally:
        with open(LIMIT, "w", encoding="ascii") as file:
            file.write("0")
    with listener(version) as server:
        equal(server.getsockopt(SOL_SMC, SMC_LIMIT_HS), 0, "the option")
        fails(errno.EOPNOTSUPP, server.setsockopt, SOL_SMC, 2, 1)
        fails(errno.EOPNOTSUPP, server.getsockopt, SOL_SMC, 2)
        fails(errno.EINVAL, server.setsockopt, SOL_SMC, SMC_LIMIT_HS, b"1")


def fast_open(link, version):
    # AMB-37, TST-102.
    peer, sock = Peer(link, version, 4016), make(version)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
    syn = begin(peer, sock)
    equal(syn.experiments(), [], "options")
    equal(34 in [kind for kind, _ in syn.split_options()], True, "asks for a cookie")
    peer.send(SYN | ACK, MSS)
    is_plain(peer, sock)
    sock.close()


def signed(link, version):
    # SEC-06.
    peer, sock = Peer(link, version, 4017), make(version)
    ip = socket.inet_pton(family_of(version), IPS[version][1])
    if version == 4:
        address = struct.pack("=HH4s120x", int(socket.AF_INET), 0, ip)
    else:
        address = struct.pack("=HHI16s104x", int(socket.AF_INET6), 0, 0, ip)
    key = address + struct.pack("=BBHI80s", 0, 0, 3, 0, b"key")
    try:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_MD5SIG, key)
    except OSError as error:
        raise Skip("no TCP-MD5: %s" % error)
    syn = begin(peer, sock)
    equal(syn.experiments(), [], "options")
    equal(19 in [kind for kind, _ in syn.split_options()], True, "is signed")
    sock.close()


def two_of_ours(link, version):
    # TCP-10, TCP-11, TCP-21. Both ends in this kernel over loopback, with data in both directions.
    del link
    with listener(version) as server:
        client = make(version)
        client.connect(server.getsockname())
        child, _ = server.accept()
        data = os.urandom(300000)
        if os.fork() == 0:
            client.sendall(data)
            os._exit(0)
        got = b""
        while len(got) < len(data):
            got += child.recv(65536)
        equal(got == data, True, "data")
        os.wait()
        child.sendall(b"back")
        equal(client.recv(10), b"back", "answer")
        client.close()
        child.close()


TESTS = [syn_has_option, plain_sockets_are_left_alone, repeated_syn_is_the_same,
         agreement_starts_the_handshake, peer_without_option, peer_that_echoes,
         syn_ack_for_something_else, simultaneous_open, refused_connection, server_answers,
         server_repeats, server_without_agreement, saved_syn_is_what_came, attempt_leaves_nothing,
         cookies, flood_leaves_nothing, handshakes_are_limited,
         limit_is_inherited, fast_open, signed, two_of_ours]


def main():
    if not os.path.exists("/sys/module/rdma_sock"):
        ktap.skip_all("the module is not loaded")
    if os.geteuid() != 0:
        ktap.skip_all("must be root")
    for tool in ("ip", "ethtool", "rdma"):
        if subprocess.run(["sh", "-c", "command -v " + tool], capture_output=True,
                          check=False).returncode:
            ktap.skip_all("no " + tool)
    # A new network namespace, which removes everything with it.
    os.unshare(os.CLONE_NEWNET)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    try:
        link = wire.Wire()
    except subprocess.CalledProcessError as error:
        ktap.skip_all("no veth pair: %s" % error)
    tests = []
    for test in TESTS:
        for version in (4, 6):
            function = functools.partial(test, link, version)
            function.name = "ipv%d.%s" % (version, test.__name__)
            tests.append(function)
    # A host without an RDMA device offers nothing.
    rxe = subprocess.run(["rdma", "link", "add", "wire_rxe", "type", "rxe", "netdev", "wire0"],
                         capture_output=True, check=False)
    if rxe.returncode:
        ktap.skip_all("no soft-RoCE device: " + rxe.stderr.decode().strip())
    peer, sock = Peer(link, 4, 4000), make(4)
    has_decoy = len(begin(peer, sock).experiments()) == 2
    sock.close()
    print("# back end: " + backend(has_decoy))
    status = ktap.run(tests)
    command("rdma", "link", "delete", "wire_rxe")
    link.close()
    return status


sys.exit(main())
