#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Sockets of the module behave like TCP sockets towards a peer without RDMA (here: loopback).

Every test runs on each kind of socket, and on plain TCP for comparison.
"""

import array
import ctypes
import errno
import fcntl
import functools
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

import ktap
from ktap import equal, fails

AF_SMC = 43
IPPROTO_SMC = 256
TCP_SAVE_SYN = 27
TCP_SAVED_SYN = 28
TCP_ULP = 31
IPV6_ADDRFORM = 1

libc = ctypes.CDLL(None, use_errno=True)


class Kind:
    """One kind of socket."""

    def __init__(self, name, family, protocol, ip_family):
        self.name, self.family, self.protocol, self.ip = name, family, protocol, ip_family
        self.host = "127.0.0.1" if ip_family == socket.AF_INET else "::1"

    def make(self, flags=0):
        """A new socket; Python needs the family of its addresses."""
        fd = libc.socket(self.family, socket.SOCK_STREAM | flags, self.protocol)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "socket")
        return socket.socket(self.ip, socket.SOCK_STREAM, 0, fileno=fd)

    def listener(self, backlog=16):
        """A listening socket on a free port."""
        sock = self.make()
        sock.bind((self.host, 0))
        sock.listen(backlog)
        return sock

    def pair(self):
        """Two connected sockets: client, server."""
        with self.listener() as listener:
            client = self.make()
            client.connect(listener.getsockname())
            server, _ = listener.accept()
        return client, server


KINDS = [
    Kind("tcp", socket.AF_INET, 0, socket.AF_INET),
    Kind("inet", socket.AF_INET, IPPROTO_SMC, socket.AF_INET),
    Kind("inet6", socket.AF_INET6, IPPROTO_SMC, socket.AF_INET6),
    Kind("smc", AF_SMC, 0, socket.AF_INET),
    Kind("smc6", AF_SMC, 1, socket.AF_INET6),
]
V4 = [k for k in KINDS if k.ip == socket.AF_INET]


def receive(sock, count):
    """Receives exactly `size` octets."""
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def creation(kind):
    sock = kind.make()
    equal(sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE), socket.SOCK_STREAM, "type")
    equal(sock.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN), int(kind.ip), "domain")
    equal(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL), socket.IPPROTO_TCP, "protocol")
    sock.close()


def echo(kind):
    client, server = kind.pair()
    data = os.urandom(1 << 20)
    sent = threading.Thread(target=client.sendall, args=(data,))
    sent.start()
    got = receive(server, len(data))
    sent.join()
    equal(got == data, True, "data to the server")
    server.sendmsg([b"ab", b"", b"cde"])
    equal(receive(client, 5), b"abcde", "iovecs")
    equal(client.getpeername(), server.getsockname(), "names")
    equal(server.getpeername(), client.getsockname(), "names back")
    client.close()
    equal(server.recv(10), b"", "end of stream")
    server.close()


def flags_of_recv(kind):
    client, server = kind.pair()
    client.sendall(b"0123456789")
    equal(server.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL), b"0123", "peek")
    equal(server.recv(10, socket.MSG_WAITALL), b"0123456789", "waitall")
    fails(errno.EAGAIN, server.recv, 1, socket.MSG_DONTWAIT)
    count = array.array("i", [0])
    client.sendall(b"xyz")
    select.select([server], [], [])
    fcntl.ioctl(server, termios.FIONREAD, count)
    equal(count[0], 3, "FIONREAD")
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 20000))
    equal(server.recv(3), b"xyz", "rest")
    fails(errno.EAGAIN, server.recv, 1)
    client.close()
    server.close()


def half_close(kind):
    client, server = kind.pair()
    client.sendall(b"question")
    client.shutdown(socket.SHUT_WR)
    equal(receive(server, 100), b"question", "before the end")
    fails(errno.EPIPE, client.send, b"x", socket.MSG_NOSIGNAL)
    server.sendall(b"answer")
    server.close()
    equal(receive(client, 100), b"answer", "after the end")
    client.close()


def sigpipe(kind):
    client, server = kind.pair()
    client.shutdown(socket.SHUT_WR)
    caught = []
    old = signal.signal(signal.SIGPIPE, lambda *_: caught.append(1))
    try:
        fails(errno.EPIPE, client.send, b"x")
    finally:
        signal.signal(signal.SIGPIPE, old)
    equal(caught, [1], "signals")
    client.close()
    server.close()


def polling(kind):
    client, server = kind.pair()
    poller = select.poll()
    poller.register(server, select.POLLIN | select.POLLOUT | select.POLLRDHUP)
    equal(poller.poll(0), [(server.fileno(), select.POLLOUT)], "idle")
    epoll = select.epoll()
    epoll.register(server, select.EPOLLIN | select.EPOLLET)
    equal(epoll.poll(0), [], "no edge")
    client.sendall(b"x")
    equal(epoll.poll(10), [(server.fileno(), select.EPOLLIN)], "edge")
    equal(epoll.poll(0), [], "edge only once")
    client.sendall(b"y")
    equal(epoll.poll(10), [(server.fileno(), select.EPOLLIN)], "second edge")
    equal(receive(server, 2), b"xy", "data")
    client.shutdown(socket.SHUT_WR)
    equal(epoll.poll(10), [(server.fileno(), select.EPOLLIN)], "edge of the end")
    equal(poller.poll(0), [(server.fileno(),
                            select.POLLIN | select.POLLOUT | select.POLLRDHUP)], "half closed")
    server.shutdown(socket.SHUT_WR)
    equal(receive(client, 1), b"", "end")
    equal(poller.poll(0)[0][1] & select.POLLHUP, select.POLLHUP, "closed")
    epoll.close()
    client.close()
    server.close()


def nonblocking_connect(kind):
    with kind.listener() as listener:
        client = kind.make(socket.SOCK_NONBLOCK)
        status = client.connect_ex(listener.getsockname())
        equal(status in (0, errno.EINPROGRESS), True, "status %d" % status)
        select.select([], [client], [])
        equal(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0, "SO_ERROR")
        # The first connect() after the handshake reports its end.
        equal(client.connect_ex(listener.getsockname()) in (0, errno.EISCONN), True, "told")
        fails(errno.EISCONN, client.connect, listener.getsockname())
        listener.accept()[0].close()
        client.close()


def refused(kind):
    with kind.listener() as listener:
        address = listener.getsockname()
    client = kind.make()
    fails(errno.ECONNREFUSED, client.connect, address)
    client.close()
    client = kind.make(socket.SOCK_NONBLOCK)
    status = client.connect_ex(address)
    if status == errno.EINPROGRESS:
        poller = select.poll()
        poller.register(client, select.POLLOUT)
        events = poller.poll(10000)[0][1]
        equal(events & select.POLLERR, select.POLLERR, "events %x" % events)
        equal(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), errno.ECONNREFUSED, "error")
    else:
        equal(status, errno.ECONNREFUSED, "status")
    client.close()


def reset(kind):
    client, server = kind.pair()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    poller = select.poll()
    poller.register(server, select.POLLIN)
    poller.poll(10000)
    fails(errno.ECONNRESET, server.recv, 1)
    server.close()


def accept_nonblocking(kind):
    with kind.listener() as listener:
        listener.setblocking(False)
        fails(errno.EAGAIN, listener.accept)
        client = kind.make()
        client.connect(listener.getsockname())
        select.select([listener], [], [])
        fd = libc.accept4(listener.fileno(), None, None, socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        equal(fd >= 0, True, "accept4: errno %d" % ctypes.get_errno())
        equal(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK, os.O_NONBLOCK, "flags")
        os.close(fd)
        client.close()


def accept_waits(kind):
    with kind.listener() as listener:
        result = []
        thread = threading.Thread(target=lambda: result.append(listener.accept()[0]))
        thread.start()
        client = kind.make()
        client.connect(listener.getsockname())
        thread.join(10)
        equal(len(result), 1, "accepted")
        client.sendall(b"hello")
        equal(receive(result[0], 5), b"hello", "data")
        client.close()
        result[0].close()


def accept_interrupted(kind):
    with kind.listener() as listener:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGALRM, lambda *_: os._exit(7))
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            listener.accept()
            os._exit(1)
        _, status = os.waitpid(pid, 0)
        equal(os.waitstatus_to_exitcode(status), 7, "the signal ends accept")


def listener_closed(kind):
    with kind.listener() as listener:
        pending = kind.make()
        pending.connect(listener.getsockname())
    poller = select.poll()
    poller.register(pending, select.POLLIN)
    poller.poll(10000)
    fails(errno.ECONNRESET, pending.recv, 1)
    pending.close()


def names(kind):
    sock = kind.make()
    fails(errno.ENOTCONN, sock.getpeername)
    fails(errno.ENOTCONN, sock.recv, 1)
    fails(errno.EINVAL, sock.accept)
    with kind.listener() as listener:
        fails(errno.EADDRINUSE, sock.bind, listener.getsockname())
        fails(errno.EINVAL, listener.bind, (kind.host, 0))
    sock.close()


def options(kind):
    sock = kind.make()
    for level, name in ((socket.IPPROTO_TCP, socket.TCP_NODELAY),
                        (socket.IPPROTO_TCP, socket.TCP_CORK),
                        (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                        (socket.SOL_SOCKET, socket.SO_REUSEADDR)):
        equal(sock.getsockopt(level, name), 0, "option %d before" % name)
        sock.setsockopt(level, name, 1)
        equal(sock.getsockopt(level, name) != 0, True, "option %d" % name)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
    equal(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), 77, "keepidle")
    equal(len(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)) > 100, True, "info")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    equal(sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), 131072, "rcvbuf")
    fails(errno.ENOPROTOOPT, sock.getsockopt, socket.IPPROTO_TCP, 9999)
    sock.close()


def saved_syn(kind):
    with kind.listener() as listener:
        equal(listener.getsockopt(socket.IPPROTO_TCP, TCP_SAVE_SYN), 0, "not requested")
        client = kind.make()
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        equal(server.getsockopt(socket.IPPROTO_TCP, TCP_SAVED_SYN, 512), b"", "not kept")
        client.close()
        server.close()
        listener.setsockopt(socket.IPPROTO_TCP, TCP_SAVE_SYN, 1)
        equal(listener.getsockopt(socket.IPPROTO_TCP, TCP_SAVE_SYN), 1, "asked")
        client = kind.make()
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        syn = server.getsockopt(socket.IPPROTO_TCP, TCP_SAVED_SYN, 512)
        equal(len(syn) >= 40, True, "kept")
        equal(server.getsockopt(socket.IPPROTO_TCP, TCP_SAVED_SYN, 512), b"", "given once")
        client.close()
        server.close()
        listener.setsockopt(socket.IPPROTO_TCP, TCP_SAVE_SYN, 0)
        equal(listener.getsockopt(socket.IPPROTO_TCP, TCP_SAVE_SYN), 0, "taken back")


def upper_layer(kind):
    if kind.name == "tcp":
        return
    client, server = kind.pair()
    fails(errno.EOPNOTSUPP, client.setsockopt, socket.IPPROTO_TCP, TCP_ULP, b"tls\0")
    client.close()
    server.close()


def becomes_ipv4(kind):
    if kind.ip != socket.AF_INET6:
        return
    with kind.make() as listener:
        listener.bind(("::", 0))
        listener.listen(1)
        client = kind.make()
        client.connect(("::ffff:127.0.0.1", listener.getsockname()[1]))
        server, _ = listener.accept()
        domain = socket.AF_INET
        if kind.name != "tcp":
            # The operations of the socket would become those of TCP.
            fails(errno.EOPNOTSUPP, client.setsockopt, socket.IPPROTO_IPV6, IPV6_ADDRFORM,
                  int(socket.AF_INET))
            domain = socket.AF_INET6
        else:
            client.setsockopt(socket.IPPROTO_IPV6, IPV6_ADDRFORM, int(socket.AF_INET))
        equal(client.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN), int(domain), "domain")
        client.sendall(b"v4")
        equal(receive(server, 2), b"v4", "data")
        client.close()
        server.close()


def passed_on(kind):
    client, server = kind.pair()
    left, right = socket.socketpair(socket.AF_UNIX)
    socket.send_fds(left, [b"f"], [server.fileno()])
    _, fds, _, _ = socket.recv_fds(right, 1, 1)
    server.close()
    other = socket.socket(fileno=fds[0])
    if os.fork() == 0:
        other.sendall(b"from the child")
        os._exit(0)
    os.wait()
    equal(receive(client, 14), b"from the child", "data")
    other.close()
    equal(client.recv(1), b"", "end")
    for sock in (client, left, right):
        sock.close()


def sendfile(kind):
    client, server = kind.pair()
    data = os.urandom(200000)
    file = os.memfd_create("data")
    os.write(file, data)
    got = []
    thread = threading.Thread(target=lambda: got.append(receive(server, len(data))))
    thread.start()
    at = 0
    while at < len(data):
        at += os.sendfile(client.fileno(), file, at, len(data) - at)
    thread.join()
    equal(got[0] == data, True, "file")
    client.sendall(b"spliced")
    rfd, wfd = os.pipe()
    equal(os.splice(server.fileno(), wfd, 100), 7, "splice")
    equal(os.read(rfd, 100), b"spliced", "pipe")
    for fd in (rfd, wfd, file):
        os.close(fd)
    client.close()
    server.close()


def many(kind):
    with kind.listener(128) as listener:
        clients = []
        for _ in range(100):
            client = kind.make()
            client.connect(listener.getsockname())
            clients.append(client)
        for _ in range(100):
            server, _ = listener.accept()
            server.sendall(b"hi")
            server.close()
        for client in clients:
            equal(receive(client, 10), b"hi", "data")
            client.close()


def reconnect(kind):
    with kind.listener() as listener:
        sock = kind.make()
        for _ in range(2):
            sock.connect(listener.getsockname())
            listener.accept()[0].close()
            # connect() to AF_UNSPEC dissolves the association.
            address = struct.pack("H14x", 0)
            equal(libc.connect(sock.fileno(), address, len(address)), 0, "disconnect")
        sock.close()


def wrong_arguments():
    for family, kind, protocol, error in (
            (AF_SMC, socket.SOCK_DGRAM, 0, errno.ESOCKTNOSUPPORT),
            (AF_SMC, socket.SOCK_STREAM, 2, errno.EPROTONOSUPPORT),
            (socket.AF_INET, socket.SOCK_DGRAM, IPPROTO_SMC, errno.EPROTONOSUPPORT)):
        fd = libc.socket(family, kind, protocol)
        equal((fd, ctypes.get_errno()), (-1, error), "socket(%d, %d, %d)" % (family, kind, protocol))


def references():
    with open("/sys/module/rdma_sock/refcnt", encoding="ascii") as file:
        return int(file.read())


def unload(*flags):
    return subprocess.run(["rmmod", "rdma_sock", *flags], capture_output=True, check=False)


def held_while_open():
    deadline = time.monotonic() + 30
    while references() != 0:
        equal(time.monotonic() < deadline, True, "all earlier sockets released it")
        select.select([], [], [], 0.01)
    for kind in KINDS[1:]:
        sock = kind.make()
        equal(references() > 0, True, "held by " + kind.name)
        equal(unload().returncode != 0, True, "rmmod with an open socket")
        sock.close()
        equal(references(), 0, "closed " + kind.name)


def namespace_exit():
    if not hasattr(os, "unshare"):
        os_unshare = lambda flags: libc.unshare(flags)
    else:
        os_unshare = os.unshare
    pid = os.fork()
    if pid == 0:
        os_unshare(0x40000000)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for kind in KINDS[1:]:
            client, server = kind.pair()
            client.sendall(b"x")
            equal(server.recv(1), b"x", "data")
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    equal(os.waitstatus_to_exitcode(status), 0, "status")
    held_while_open()


def per_kind(test):
    made = []
    for kind in KINDS:
        function = functools.partial(test, kind)
        function.name = "%s.%s" % (kind.name, test.__name__)
        made.append(function)
    return made


TESTS = [creation, echo, flags_of_recv, half_close, sigpipe, polling, nonblocking_connect, refused,
         reset, accept_nonblocking, accept_waits, accept_interrupted, listener_closed, names,
         options, saved_syn, upper_layer, becomes_ipv4, passed_on, sendfile, many, reconnect]


def main():
    if not os.path.exists("/sys/module/rdma_sock"):
        ktap.skip_all("the module is not loaded")
    if os.geteuid() != 0:
        ktap.skip_all("must be root")
    tests = [one for test in TESTS for one in per_kind(test)]
    return ktap.run(tests + [wrong_arguments, held_while_open, namespace_exit])


sys.exit(main())
