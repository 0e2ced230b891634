#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A program that keeps the locks of its socks delays only its own connections: no other program, no
link group and no removal of a device."""

import atexit
import ctypes
import os
import pathlib
import resource
import select
import socket
import struct
import sys
import threading
import time

import ktap
import topology
from faults import Trap
from ktap import equal
from topology import Child, all_gone, exchange, expect_smc, pair

TCP_MD5SIG, MD5_BYTES = 14, 216
SO_ZEROCOPY, MSG_ZEROCOPY = 60, 0x4000000
RESET_AT_CLOSE = struct.pack("=ii", 1, 0)
# More than a work queue has places.
COUNT = 500 if topology.SLOW > 1 else 2000
UNPRIVILEGED = 65534
# Time limit for an operation of milliseconds.
PROMPT = 10 * topology.SLOW
# Time limit for the removal of a device. A link group waits for its peer for some seconds; a wait
# for a lock has no end.
REMOVAL = 30 * topology.SLOW


def start(function, *args):
    """Starts a daemon thread with a small stack."""
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread


def keep_lock(sock, trap):
    """Keeps the lock of a sock until the trap is released: setsockopt() reads the option with the lock
    held. The first four octets are read before."""
    topology.libc.setsockopt(sock.fileno(), socket.IPPROTO_TCP, TCP_MD5SIG,
                             ctypes.c_void_p(trap.before(4)), MD5_BYTES)


def promptly(what, function, *args):
    """Fails unless the function returns promptly; its value."""
    begin = time.monotonic()
    value = function(*args)
    seconds = time.monotonic() - begin
    equal(seconds < PROMPT, True, "%s within %d s, not %.1f" % (what, PROMPT, seconds))
    return value


def device_goes(side):
    """Fails unless the device of a side, which waits for its users, is removed promptly."""
    begin = time.monotonic()
    remover = Child(lambda: os.execvp("rdma", ["rdma", "link", "delete", "rs_" + side]))
    remover.expect_success(REMOVAL)
    print("# removal of a device: %.1f s" % (time.monotonic() - begin))


class Holder:
    """An unprivileged process that keeps locks until `stop`. `prepare` runs as root and makes sockets.
    `act` gets these and a trap, starts the threads and returns their number."""

    def __init__(self, prepare, act):
        ready, self.ready = os.pipe()
        wait, self.wait = os.pipe()
        self.child = Child(lambda: self.work(prepare, act, wait))
        atexit.register(self.child.give_up)
        os.close(self.ready)
        os.close(wait)
        equal(os.read(ready, 1), b"x", "the locks are taken")
        os.close(ready)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """Ends the process, and with it the locks."""
        os.close(self.wait)
        if kind is None:
            self.child.expect_success()
        else:
            self.child.give_up()

    def work(self, prepare, act, wait):
        """The body of the process."""
        os.close(self.wait)
        sockets = prepare()
        os.setgroups([])
        os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
        threading.stack_size(65536)
        trap = Trap()
        trap.caught(act(sockets, trap))
        os.write(self.ready, b"x")
        os.read(wait, 1)
        os._exit(0)


def many_files():
    """Raises the limit of open files of this process."""
    files = 3 * COUNT
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def others_are_served(smc=True):
    """Fails unless other programs connect, accept, exchange data and close promptly; by RDMA if
    `smc`."""
    for _ in range(3):
        client, server = promptly("connect and accept", pair)
        if smc:
            expect_smc(client, server)
        promptly("data", exchange, client, server)
        promptly("close of the client", client.close)
        promptly("close of the server", server.close)
    client, server = promptly("connect and accept by TCP", lambda: pair(smc=(False, True)))
    promptly("data by TCP", exchange, client, server, 20000)
    client.close()
    server.close()


def locked_listeners():
    """Thousands of listeners whose locks are kept, with one unaccepted connection each."""
    topology.netns("up")
    many_files()
    ports = os.memfd_create("ports")

    def listeners():
        sockets = [topology.listener("b", backlog=8) for _ in range(COUNT)]
        numbers = "\n".join(str(sock.getsockname()[1]) for sock in sockets)
        os.write(ports, numbers.encode())
        return sockets

    def lock(sockets, trap):
        for sock in sockets:
            start(keep_lock, sock, trap)
        return len(sockets)

    client, server = pair()
    waiting = []
    with Holder(listeners, lock):
        os.lseek(ports, 0, os.SEEK_SET)
        numbers = [int(line) for line in os.read(ports, 8 * COUNT).split()]
        equal(len(numbers), COUNT, "ports")
        for number in numbers:
            sock = topology.new_socket("a", smc=False)
            sock.settimeout(topology.BOUND)
            sock.connect((topology.HOSTS[socket.AF_INET]["b"], number))
            waiting.append(sock)
        others_are_served()
        # The link of the earlier connection still works.
        promptly("data of an old connection", exchange, client, server)
        client.close()
        server.close()
        device_goes("b")
        for sock in waiting:
            sock.close()
    os.close(ports)
    all_gone()


def locked_clients():
    """Clients keep their locks during their handshakes."""
    topology.netns("up")
    many_files()
    count = COUNT // 4
    listening = topology.listener("b", backlog=count)

    def clients():
        sockets = []
        for _ in range(count):
            sock = topology.new_socket("a")
            sock.setblocking(False)
            sockets.append(sock)
        return sockets

    def lock(sockets, trap):
        for sock in sockets:
            topology.error_of(sock.connect, listening.getsockname())
            start(keep_lock, sock, trap)
        return len(sockets)

    with Holder(clients, lock):
        # They may use all places of their host for first contacts; other clients use TCP at once
        # then.
        others_are_served(smc=False)
        device_goes("a")
    listening.close()
    all_gone()


def kept_in_transfer(call, side):
    """A call that copies data sleeps with the lock, and the device of its side is removed."""
    def test():
        topology.netns("up")
        client, server = pair()
        expect_smc(client, server)
        local, remote = (client, server) if side == "a" else (server, client)
        remote.sendall(b"x" * 8192)

        def transfer(_, trap):
            start(call, local, trap)
            return 1

        with Holder(remote.close, transfer):
            local.close()
            # The engine needs the lock for the reset of the peer.
            remote.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
            remote.close()
            others_are_served()
            device_goes(side)
        all_gone()
    test.name = "kept_in_%s_%s" % (call.__name__, side)
    return test


def send(sock, trap):
    """Sends from the trap."""
    topology.libc.send(sock.fileno(), ctypes.c_void_p(trap.before(16)), 4096, 0)


def recv(sock, trap):
    """Receives into the trap."""
    select.select([sock], [], [], topology.BOUND)
    topology.libc.recv(sock.fileno(), ctypes.c_void_p(trap.before(16)), 4096, 0)


def lent(sock, trap):
    """Sends from the trap with MSG_ZEROCOPY."""
    sock.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
    topology.libc.send(sock.fileno(), ctypes.c_void_p(trap.before(2048)), 6144, MSG_ZEROCOPY)


def lock_that_comes_free():
    """A reset that found the sock locked reaches the program as soon as the lock is free."""
    topology.netns("up")
    client, server = pair()
    expect_smc(client, server)
    trap = Trap()
    server.sendall(b"x" * 8192)
    reader = start(recv, client, trap)
    trap.caught(1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
    server.close()
    topology.until(lambda: topology.counter("b", "active_conns") == 0, "the server's side is over")
    trap.release()
    reader.join(topology.BOUND)
    equal(reader.is_alive(), False, "the reader waits")

    def reset():
        error = "none"
        while error == "none":
            error = topology.error_of(client.recv, 65536)
        equal(error, "ECONNRESET", "error")
    promptly("reset", reset)
    client.close()
    all_gone()


def exit_does_not_linger():
    """The exit of a killed program does not wait for SO_LINGER, as with TCP: no signal could end that
    wait."""
    topology.netns("up")
    client, server = pair()
    expect_smc(client, server)

    def work():
        server.close()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                          struct.pack("=ii", 1, 3600))
        client.setblocking(False)
        while topology.error_of(client.send, b"x" * 65536) == "none":
            pass
        os.write(full, b"x")
        signalled, _ = os.pipe()
        os.read(signalled, 1)

    got, full = os.pipe()
    child = Child(work)
    client.close()
    equal(os.read(got, 1), b"x", "the buffers are full")
    promptly("exit", child.kill)
    server.close()
    all_gone()


if __name__ == "__main__":
    topology.need_module()
    if not pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd").exists():
        ktap.skip_all("this kernel has no userfaultfd")
    Trap.allow()
    tests = [locked_listeners, locked_clients, kept_in_transfer(send, "a"),
             kept_in_transfer(recv, "a"), kept_in_transfer(recv, "b"), kept_in_transfer(lent, "a"),
             lock_that_comes_free, exit_does_not_linger]
    sys.exit(ktap.run(tests + topology.by_sdp(*tests)))
