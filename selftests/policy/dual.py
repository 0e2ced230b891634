#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Sockets of both protocols: one listener for clients of SMC-R, SDP and TCP, and what clients do."""

import contextlib
import errno
import fcntl
import os
import pathlib
import select
import socket
import struct
import sys
import termios
import threading
import time

import ktap
import topology
from fallback import PEER_NO_SMC
from ktap import equal
from topology import BOUND, Child, all_gone, counters, exchange, until

# The listener had no room for a client of SDP.
BUSY = 0x7f00010b
KINDS = ("smc", "sdp", "tcp")
SIZE = 200000
# Time limit for what an event announces.
SOON = 5 * topology.SLOW
# Seconds for which a full backlog leaves clients with TCP.
KEPT = 2
# What clients of a kind count at either side, and their octets.
CONNS = {"smc": ("smc_clnt_conns", "smc_srv_conns"), "sdp": ("sdp_clnt_conns", "sdp_srv_conns")}
OCTETS = {"smc": ("tx_bytes", "rx_bytes"), "sdp": ("sdp_tx_bytes", "sdp_rx_bytes")}


def dual_listener(family=socket.AF_INET, backlog=256, port=0):
    """A listener of both protocols, which others may share its port with."""
    with topology.engine("dual"):
        sock = topology.new_socket("b", family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((topology.HOSTS[family]["b"], port))
    sock.listen(backlog)
    sock.settimeout(BOUND)
    return sock


def new_client(kind, family=socket.AF_INET):
    """A socket of the client's side."""
    with topology.engine("smc" if kind == "tcp" else kind):
        client = topology.new_socket("a", family, smc=kind != "tcp")
    client.settimeout(BOUND)
    return client


def connected(kind, listening):
    """A new client of that kind."""
    client = new_client(kind, listening.family)
    client.connect(listening.getsockname())
    return client


def accepted(listening, clients):
    """Accepts all clients; the server's sockets, in the same order."""
    servers = {}
    for _ in clients:
        server, peer = listening.accept()
        server.settimeout(BOUND)
        servers[peer[1]] = server
    return [servers[client.getsockname()[1]] for client in clients]


def modes(client, server):
    """The modes of both ends. A client of TCP is not listed."""
    return topology.mode("a", client)[0], topology.mode("b", server)[0]


def modes_of(kind):
    """What `modes` finds for a client."""
    return ("none", "tcp") if kind == "tcp" else (kind, kind)


def children():
    """The modes of the server's connections, without its listeners, which have no peer."""
    return sorted(line["mode"] for line in topology.records("b", "conns")
                  if not line["peer"].endswith(":0"))


def listeners():
    """The rows of the server's listeners."""
    return [line for line in topology.records("b", "conns") if line["mode"] == "listen"]


def fill(listening):
    """Fills a backlog of 1 by a client of either protocol; both clients. A child has its mode a little before
    it waits for accept."""
    clients = [connected("smc", listening), connected("sdp", listening)]
    until(lambda: [row["ready"] for row in listeners()] == ["2"], "children are ready")
    equal(children(), ["sdp", "smc"], "children")
    return clients


def close(*socks):
    """Closes sockets."""
    for sock in socks:
        sock.close()


def serves_all_clients(family):
    """One listener accepts clients of SMC-R, SDP and TCP; each uses its own path, and data arrive."""
    topology.netns("up")
    with dual_listener(family) as listening:
        equal([(row["proto"], row["also"]) for row in listeners()], [("smc", "sdp")], "row of the listener")
        before = {side: counters(side) for side in "ab"}
        clients = [connected(kind, listening) for kind in KINDS]
        servers = accepted(listening, clients)

        def grown(side, name):
            return counters(side).get(name, 0) - before[side].get(name, 0)

        for kind, client, server in zip(KINDS, clients, servers):
            equal(modes(client, server), modes_of(kind), "modes of a client of " + kind)
            equal(server.getpeername()[:2], client.getsockname()[:2], "peer of the server")
            equal(client.getpeername()[:2], server.getsockname()[:2], "peer of the client")
            # Only the counters of its own path move.
            was = {path: grown("b", names[0]) for path, names in OCTETS.items()}
            exchange(client, server, SIZE)
            for path, names in OCTETS.items():
                moved = [grown("b", name) - was[path] >= SIZE for name in names[:1]]
                equal(moved, [path == kind], "octets of %s by %s" % (kind, path))
        for kind, names in CONNS.items():
            equal((grown("a", names[0]), grown("b", names[1])), (1, 1), "connections by " + kind)
        equal(grown("b", "fallback_reason_%08x" % PEER_NO_SMC), 1, "clients of TCP")
        equal(grown("b", "sdp_fallback_srv"), 0, "clients of TCP, counted for SDP")
        close(*clients, *servers)
    all_gone()


def ipv4():
    """The same by IPv4."""
    serves_all_clients(socket.AF_INET)


def ipv6():
    """The same by IPv6."""
    serves_all_clients(socket.AF_INET6)


def calls_of_a_child():
    """A child of SDP answers the calls of its socket, as one of a listener of SDP does."""
    topology.netns("up")
    with dual_listener() as listening:
        poll = select.poll()
        poll.register(listening, select.POLLIN)
        equal(poll.poll(0), [], "poll of the listener before")
        client = connected("sdp", listening)
        equal([event for _, event in poll.poll(BOUND * 1000)], [select.POLLIN], "poll of the listener")
        server, = accepted(listening, [client])
        equal(topology.error_of(server.connect, listening.getsockname()), "EISCONN", "connect")
        equal(topology.error_of(server.bind, ("10.9.0.2", 0)), "EINVAL", "bind")
        epoll = select.epoll()
        epoll.register(server, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        equal([event for _, event in epoll.poll(BOUND)], [select.EPOLLOUT], "events before")
        client.sendall(b"octets")
        equal([event for _, event in epoll.poll(BOUND)], [select.EPOLLIN | select.EPOLLOUT], "events")
        room = bytearray(4)
        fcntl.ioctl(server, termios.FIONREAD, room)
        equal(struct.unpack("i", room)[0], 6, "FIONREAD")
        equal(server.recv(3, socket.MSG_PEEK), b"oct", "peek")
        # TCP_ESTABLISHED; the TCP underneath is closed.
        equal(server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[0], 1, "state of TCP_INFO")
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        read, write = os.pipe()
        equal(os.splice(server.fileno(), write, 6), 6, "splice")
        equal(os.read(read, 6), b"octets", "data")
        close(epoll)
        os.close(read)
        os.close(write)
        server.shutdown(socket.SHUT_WR)
        equal(client.recv(1), b"", "end")
        equal(topology.error_of(server.send, b"x"), "EPIPE", "send after the end")
        client.sendall(b"more")
        equal(topology.receive(server, 4), b"more", "data after the end of the other direction")
        close(client, server)
    all_gone()


def options_of_children():
    """Children have the options of the listener, whatever their protocol."""
    topology.netns("up")
    options = ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.SOL_SOCKET, socket.SO_OOBINLINE, 1),
               (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77))
    with dual_listener() as listening:
        for level, name, value in options:
            listening.setsockopt(level, name, value)
        clients = [connected(kind, listening) for kind in KINDS]
        servers = accepted(listening, clients)
        for kind, server in zip(KINDS, servers):
            for level, name, value in options:
                equal(server.getsockopt(level, name), value, "option %d of %s" % (name, kind))
        close(*clients, *servers)
    all_gone()


def backlog_is_shared():
    """Clients of both protocols fill one backlog: then those of SDP use TCP, and wait there like others."""
    topology.netns("up")
    with dual_listener(backlog=1) as listening:
        before = counters("b").get("sdp_aborted_reason_%08x" % BUSY, 0)
        clients = fill(listening)
        clients.append(connected("sdp", listening))
        equal(topology.mode("a", clients[2]), ("tcp", BUSY), "mode and reason of the third client")
        refused = counters("b").get("sdp_aborted_reason_%08x" % BUSY, 0) - before
        equal(refused >= 1, True, "refusals")
        # A backlog that stays full for 2 s takes what TCP has.
        until(lambda: children() == ["sdp", "smc", "tcp"], "the third child is taken")
        servers = accepted(listening, clients)
        for client, server in zip(clients, servers):
            exchange(client, server, SIZE)
        # With room again, new clients use SDP.
        clients.append(connected("sdp", listening))
        servers += accepted(listening, clients[3:])
        equal(modes(clients[3], servers[3]), ("sdp", "sdp"), "modes with room")
        close(*clients, *servers)
    all_gone()


def end_with_pending_children(end, kinds=KINDS):
    """Ends a listener by `end` while a client of each kind waits for accept: each of them is reset,
    later clients of these kinds are refused, and nothing is left."""
    topology.netns("up")
    listening = dual_listener()
    clients = [connected(kind, listening) for kind in KINDS]
    until(lambda: children() == ["sdp", "smc", "tcp"], "children are ready")
    name = listening.getsockname()
    end(listening)
    for kind, client in zip(KINDS, clients):
        equal(topology.error_of(client.recv, 1), "ECONNRESET", "error of a client of " + kind)
    until(lambda: children() == [], "children are left")
    for kind in kinds:
        client = new_client(kind)
        equal(topology.error_of(client.connect, name), "ECONNREFUSED", "a new client of " + kind)
        client.close()
    close(*clients)
    return listening


def clients_in_tcp_are_reset():
    """The close of a listener whose backlog is full resets clients of SMC-R whose set-up has not begun: a
    poll is woken at once, and so is a blocking connect()."""
    topology.netns("up")
    tries = 0
    while not waiting_clients_are_reset():
        tries += 1
        equal(tries < 10, True, "the close comes before the listener takes clients from TCP")
    all_gone()


def waiting_clients_are_reset():
    """Returns whether the close came in time: on a busy machine the listener may have taken clients from TCP
    before, whose set-up has begun."""
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(dual_listener(backlog=1))
        name = listening.getsockname()
        for client in fill(listening):
            stack.enter_context(client)
        client = stack.enter_context(new_client("smc"))
        client.setblocking(False)
        equal(topology.error_of(client.connect, name), "EINPROGRESS", "error of connect")

        def connect():
            # This process has its own descriptor of it.
            listening.close()
            with new_client("smc") as blocking:
                blocking.settimeout(None)
                equal(topology.error_of(blocking.connect, name), "ECONNRESET", "error of connect")

        child = Child(connect)
        stack.callback(child.give_up)
        until(lambda: len([line for line in topology.records("a", "conns") if line["mode"] == "pending"]) == 2
              or time.monotonic() > begin + KEPT, "clients wait for the set-up")
        poll = select.poll()
        poll.register(client, select.POLLOUT)
        before = poll.poll(0)
        listening.close()
        if time.monotonic() > begin + KEPT:
            return False
        equal(before, [], "poll before")
        # The close does not wait for the clients.
        equal([event & select.POLLERR for _, event in poll.poll(SOON * 1000)], [select.POLLERR], "poll")
        equal(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), errno.ECONNRESET, "SO_ERROR")
        child.expect_success(SOON)
        return True


def close_of_the_listener():
    """The close of the listener resets its children."""
    end_with_pending_children(lambda listening: listening.close())
    all_gone()


def shutdown_of_the_listener():
    """So does shutdown. The socket can listen again, for clients of each kind."""
    # A client of SDP that is refused does not try SDP again for a while.
    listening = end_with_pending_children(lambda listening: listening.shutdown(socket.SHUT_RDWR),
                                          ("smc", "tcp"))
    equal(topology.error_of(listening.accept), "EINVAL", "accept")
    with listening:
        listening.listen(8)
        clients = [connected(kind, listening) for kind in KINDS]
        servers = accepted(listening, clients)
        for kind, client, server in zip(KINDS, clients, servers):
            equal(modes(client, server), modes_of(kind), "modes of a client of " + kind)
            exchange(client, server, SIZE)
        close(*clients, *servers)
    all_gone()


def dissolved_listener():
    """connect() to no address ends the listener."""
    def dissolve(listening):
        equal(topology.libc.connect(listening.fileno(), bytes(16), 16), 0, "connect to no address")
    end_with_pending_children(dissolve).close()
    all_gone()


def listeners_come_and_go():
    """Clients of each kind connect while listeners take the place of others; nothing is left."""
    topology.netns("up")
    first = listening = dual_listener()
    name = listening.getsockname()
    read, write = os.pipe()

    def keep_connecting(kind):
        # This process has its own descriptors of both.
        os.close(write)
        first.close()
        done = 0
        while not select.select([read], [], [], 0)[0]:
            with new_client(kind) as client, contextlib.suppress(OSError):
                client.connect(name)
                done += topology.mode("a", client)[0] == modes_of(kind)[0]
                client.sendall(b"octets")
                client.recv(1)
        print("# %d connections by %s" % (done, kind))
        equal(done > 0, True, "connections by " + kind)

    # The host is known to have SDP, and is not asked under load.
    with contextlib.closing(connected("sdp", listening)) as client:
        accepted(listening, [client])[0].close()
    busy = [Child(lambda kind=kind: keep_connecting(kind)) for kind in KINDS]
    os.close(read)
    try:
        for _ in range(40):
            # There always is one: a client of SDP that finds none does not try again for a while.
            fresh = dual_listener(port=name[1])
            listening.close()
            listening = fresh
            # Some are accepted, and the close finds others at any point of their set-up.
            for _ in range(4):
                server, _ = listening.accept()
                server.close()
        os.close(write)
        listening.close()
        for child in busy:
            child.expect_success()
    finally:
        for child in busy:
            child.give_up()
    until(lambda: children() == [], "children are left")
    all_gone()


def calls_of_several_threads():
    """listen() and shutdown() of several threads at a time leave nothing behind."""
    topology.netns("up")
    for _ in range(50):
        listening = dual_listener()
        start = threading.Barrier(4)

        def work(function, *args, start=start):
            start.wait()
            with contextlib.suppress(OSError):
                function(*args)

        threads = [threading.Thread(target=work, args=call) for call in (
            (listening.listen, 8), (listening.shutdown, socket.SHUT_RDWR), (listening.listen, 1))]
        for thread in threads:
            thread.start()
        start.wait()
        for thread in threads:
            thread.join()
        listening.close()
    all_gone()


def write_prefer(side, word):
    """Sets when clients of both protocols prefer SDP."""
    with topology.inside(side):
        pathlib.Path("/proc/sys/net/rdma_sock/sdp_prefer").write_text(word, encoding="ascii")


def outcome(listening):
    """The mode of a client of both protocols, whose connection carries data."""
    client = connected("dual", listening)
    server, = accepted(listening, [client])
    exchange(client, server, 20000)
    found = topology.mode("a", client)[0]
    close(client, server)
    return found


def client_uses_smc():
    """A client of both protocols uses SMC-R by default, or TCP if the listener has only SDP."""
    topology.netns("up")
    with dual_listener() as listening:
        # The other side is known to speak SDP.
        client = connected("sdp", listening)
        server, = accepted(listening, [client])
        equal(modes(client, server), ("sdp", "sdp"), "modes of a client of SDP")
        close(client, server)
        equal(outcome(listening), "smc", "a listener of both")
    with topology.listener("b") as listening:
        listening.settimeout(BOUND)
        equal(outcome(listening), "smc", "a listener of SMC-R")
    with topology.engine("sdp"), topology.listener("b") as listening:
        listening.settimeout(BOUND)
        equal(outcome(listening), "tcp", "a listener of SDP")
    all_gone()


def client_prefers_sdp():
    """With the setting, it uses SMC-R first, asks meanwhile, and then uses SDP."""
    topology.netns("up")
    write_prefer("a", "known")
    with dual_listener() as listening:
        equal(outcome(listening), "smc", "nothing is known of the host")
        # A host whose devices change forgets what it knows, and asks again.
        until(lambda: outcome(listening) == "sdp", "SDP is used")
        write_prefer("a", "never")
        equal(outcome(listening), "smc", "without the setting")
    write_prefer("a", "known")
    with topology.engine("sdp"), topology.listener("b") as listening:
        listening.settimeout(BOUND)
        until(lambda: outcome(listening) == "sdp", "SDP is used with a listener of SDP")
    all_gone()


def client_prefers_what_there_is():
    """With the setting, a host that has no SDP gets SMC-R each time, without a delay."""
    topology.netns("up")
    write_prefer("a", "known")
    with topology.listener("b") as listening:
        listening.settimeout(BOUND)
        for _ in range(5):
            equal(outcome(listening), "smc", "a listener of SMC-R")
        tried = [name for name in counters("a") if name.startswith("sdp_fallback_reason")]
        equal(tried, [], "attempts by SDP")
    all_gone()


def unload():
    """The module can be unloaded afterwards, and loaded again."""
    file = topology.module_file()
    if file is None:
        raise ktap.Skip("the module's file is not here")
    words = topology.module_parameters()
    topology.netns("up")
    with dual_listener() as listening:
        clients = [connected(kind, listening) for kind in KINDS]
    close(*clients)
    all_gone()
    topology.command("rmmod", "rdma_sock")
    with topology.no_autoload():
        try:
            equal(topology.error_of(dual_listener), errno.errorcode[errno.EPROTONOSUPPORT], "socket")
        finally:
            topology.command("insmod", str(file), *words)
    serves_all_clients(socket.AF_INET)


def main():
    """Runs all tests."""
    topology.need_module()
    return ktap.run([ipv4, ipv6, calls_of_a_child, options_of_children, backlog_is_shared,
                     clients_in_tcp_are_reset,
                     close_of_the_listener, shutdown_of_the_listener, dissolved_listener,
                     listeners_come_and_go, calls_of_several_threads, client_uses_smc,
                     client_prefers_sdp, client_prefers_what_there_is, unload])


if __name__ == "__main__":
    sys.exit(main())
