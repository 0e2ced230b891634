#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Links are lost under connections: no octet is lost, doubled or changed, and no connection is reset
while a link remains (SMCR-FOV-01..06, SMCR-FOV-08, SMCR-FOV-12, SMCR-FOV-18, SMCR-FOV-20, SMCR-LLF-49,
SMCR-LLF-51, TST-010, TST-011)."""

import socket
import sys
import time

import testbed
import topology
from ktap import equal
from testbed import (await_gone, await_links, block, check_stream, close, hosts, links, one_pair, remove,
                 send_blocks, used, wires, written, BLOCK, Load, SECONDS)
from topology import Child, all_gone, command, error_of, exchange, pair

ALL = ("a1", "a2", "b1", "b2")


def lose(device, action, lend=False):
    """Removes links on a device under load in both directions; fails unless the counters of other links
    show the traffic."""
    hosts()
    with Load(lend=lend) as load:
        await_links(*ALL)
        load.flows("data with two links")
        before = written(device[0], device)
        action()
        load.flows("data without " + device)
        await_gone(device)
        equal(written(device[0], device) > before + 300000, True, "written by others")
        equal(device in used(device[0]), False, "the device is in use")


def client_loses_its_second_device():
    """rdma link delete on the client's side."""
    lose("a2", lambda: remove("a2"))


def client_loses_its_first_device():
    """rdma link delete for the link of first contact."""
    lose("a1", lambda: remove("a1"))


def server_loses_its_first_device():
    """rdma link delete on the server's side."""
    lose("b1", lambda: remove("b1"))


def memory_that_was_lent_is_sent_by_others():
    """rdma link delete under MSG_ZEROCOPY, whose pages another link sends again."""
    before = topology.counter("a", "tx_zerocopy_bytes")
    lose("a2", lambda: remove("a2"), lend=True)
    increase = topology.counter("a", "tx_zerocopy_bytes") - before
    equal(increase > 1000000, True, "sent without a copy: %d" % increase)


def both_lose_a_device_at_once():
    """Both ends of a link disappear at the same time."""
    def action():
        children = [Child(lambda name=name: remove(name)) for name in ("a2", "b2")]
        for child in children:
            child.expect_success()
    lose("a2", action)


def client_interface_goes_down():
    """ip link set down under a device of the client."""
    lose("a2", lambda: command("ip", "-n", "rs-a", "link", "set", "va2", "down"))


def server_interface_goes_down():
    """ip link set down under a device of the server."""
    lose("b2", lambda: command("ip", "-n", "rs-b", "link", "set", "vb2", "down"))


def one_after_the_other():
    """Each device in turn goes and returns, under load."""
    hosts()
    with Load() as load:
        for device in ("a1", "b2", "a2", "b1"):
            await_links(*ALL)
            remove(device)
            load.flows("data without " + device)
            wires("add", device)


def while_the_window_is_closed():
    """The device goes while the buffers are full, and then the reader reads."""
    hosts()
    client, server = one_pair()
    await_links(*ALL)
    # The connection was made on the first link.
    source, sink = client, server
    source.setblocking(False)
    sent = 0
    data = block(0)
    idle = time.monotonic()
    while time.monotonic() < idle + 1:
        try:
            count = source.send(data[sent % BLOCK:])
            sent += count
            if sent % BLOCK == 0:
                data = block(sent // BLOCK)
            idle = time.monotonic()
        except BlockingIOError:
            time.sleep(0.02)
    equal(sent > 65536, True, "sent into the window: %d" % sent)
    remove(used("a")[0])
    source.settimeout(SECONDS)
    sink.settimeout(SECONDS)

    def finish():
        sink.close()
        source.sendall(data[sent % BLOCK:] if sent % BLOCK else b"")
        send_blocks(source, -(-sent // BLOCK), lambda number: number < sent // BLOCK + 50)
        source.close()
    writer = Child(finish)
    source.close()
    check_stream(sink, sent // BLOCK + 50)
    sink.close()
    writer.expect_success(SECONDS)
    all_gone()


def closing(how, device):
    """Closes a connection with data in flight, and then removes the link."""
    hosts()
    exchange_once = one_pair()
    await_links(*ALL)
    ends = [pair() for _ in range(4)]

    def keep_only(mine):
        """A process that inherits another socket would keep it open."""
        for sock in [sock for both in ends for sock in both]:
            if sock is not mine:
                sock.close()
    readers = []
    for client, server in ends:
        client.settimeout(SECONDS)
        server.settimeout(SECONDS)

        def read(server=server):
            keep_only(server)
            # Let a part of the data wait for the window.
            time.sleep(0.3)
            check_stream(server, 60)
        readers.append(Child(read))
    writers = []
    for client, _ in ends:
        def write(client=client):
            keep_only(client)
            send_blocks(client, 0, lambda number: number < 60)
            how(client)
            # The server's end of the stream.
            if client.fileno() >= 0:
                equal(client.recv(1), b"", "end")
                client.close()
        writers.append(Child(write))
    keep_only(None)
    time.sleep(0.1)
    remove(device)
    for child in writers + readers:
        child.expect_success(SECONDS)
    close(exchange_once)


def while_closing():
    """close() with data in flight: all data and the end of the stream arrive."""
    closing(lambda sock: sock.close(), "a1")


def while_shutting_down():
    """shutdown(SHUT_WR) with data in flight, and the server loses the device."""
    closing(lambda sock: sock.shutdown(socket.SHUT_WR), "b1")


def while_a_link_is_added():
    """The device of a new link goes while the link is added."""
    hosts("a1", "b1", "b2")
    with Load() as load:
        for number in range(6):
            wires("add", "a2")
            time.sleep(0.05 * number)
            remove("a2")
        load.flows("data with one device")


def first_link_goes_while_another_is_added():
    """The first link is lost while the second is added: nothing hangs, and no data are wrong. The
    outcome of a connection depends on timing."""
    for number in range(3):
        hosts("a1", "b1")
        client, server = one_pair()
        wires("add", "b2")
        wires("add", "a2")
        time.sleep(0.2 * number)

        def write():
            server.close()
            error_of(send_blocks, client, 0, lambda count: count < 200)
            client.close()
        writer = Child(write)
        client.close()
        remove("a1")
        server.settimeout(SECONDS)
        data = b""
        count = 0
        while True:
            try:
                data = topology.receive(server, BLOCK)
            except TimeoutError as error:
                if error.errno is None:
                    raise
                break
            except OSError:
                break
            if not data:
                break
            equal(data == block(count)[:len(data)], True, "piece %d" % count)
            count += 1
        server.close()
        writer.expect_success(SECONDS)
        all_gone()


def last_link_dies():
    """The last link is lost after the first: connections are reset at once, and nothing hangs."""
    hosts()
    client, server = one_pair()
    await_links(*ALL)
    remove("a1")
    exchange(client, server)

    def read(ours, other):
        other.close()
        equal(error_of(ours.recv, 1), "ECONNRESET", "recv")
    children = [Child(lambda: read(client, server)), Child(lambda: read(server, client))]
    start = time.monotonic()
    remove("a2")
    equal(time.monotonic() - start < SECONDS, True, "removal in time")
    for child in children:
        child.expect_success(SECONDS)
    equal(links("a"), [], "links")
    close((client, server))


if __name__ == "__main__":
    sys.exit(testbed.main([
        client_loses_its_second_device, client_loses_its_first_device,
        server_loses_its_first_device, memory_that_was_lent_is_sent_by_others,
        both_lose_a_device_at_once, client_interface_goes_down, server_interface_goes_down,
        one_after_the_other, while_the_window_is_closed, while_closing, while_shutting_down,
        while_a_link_is_added, first_link_goes_while_another_is_added, last_link_dies]))
