#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Events of ports and addresses at bad moments: while connections are set up, while they carry data, and while
they end, by SMC-R and by SDP, on devices that behave like an adapter of silicon.

STRICT has the number of the adapter. Without it another one is taken each day.

Covers RNIC-EVT-01, RNIC-NET-02.
"""

import contextlib
import errno
import sys
import threading
import time

import ktap
import rsoft
import topology
from ktap import equal
from strict import chosen
from topology import command, exchange, known, pair

# Connections of a test, and events that have to come meanwhile.
CONNECTIONS, EVENTS = 30, 20
# Octets that a connection carries while its port goes down.
LONG = 4 << 20


def addresses():
    """Other addresses come and go on both sides: events about the GIDs of the port."""
    for word in "add", "delete":
        for side in "ab":
            command("ip", "-n", "rs-" + side, "address", word, "10.9.5.%d/24" % (1 + (side == "b")), "dev",
                    "v" + side)


def flap():
    """The port of side a goes down and comes back."""
    for word in "down", "up":
        command("ip", "-n", "rs-a", "link", "set", "va", word)
    topology.await_ports("a")


class Events:
    """Runs a function again and again, in a thread, for a block."""

    def __init__(self, happen):
        self.happen, self.count, self.error = happen, 0, None
        self.stop = threading.Event()
        self.more = threading.Condition()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            while not self.stop.is_set():
                self.happen()
                with self.more:
                    self.count += 1
                    self.more.notify_all()
        except BaseException as error:  # Shown by the block.
            self.error = error
            with self.more:
                self.more.notify_all()

    def wait(self, count):
        """Waits until there were as many events in all."""
        with self.more:
            self.more.wait_for(lambda: self.error or self.count >= count, topology.BOUND)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        if self.error:
            raise self.error


def serves_afterwards():
    """Nothing of the events is left: a new connection uses RDMA."""
    topology.all_gone()
    client, server = topology.pair_by_rdma()
    with client, server:
        exchange(client, server)
    topology.all_gone()


def addresses_change_while_connections_are_set_up():
    """No connection notices: their own addresses stay."""
    by_rdma, made = 0, 0
    with Events(addresses) as events:
        while made < CONNECTIONS or events.count < EVENTS:
            client, server = pair()
            with client, server:
                by_rdma += topology.mode("a", client)[0] == topology.ENGINE[0]
                exchange(client, server, 5000)
            made += 1
            if events.error:
                break
    equal(by_rdma > 0, True, "connections by RDMA of %d" % made)
    serves_afterwards()


def addresses_change_while_data_flow():
    """No connection notices."""
    client, server = pair()
    with client, server:
        topology.expect_smc(client, server)
        with Events(addresses) as events:
            while events.count < EVENTS and not events.error:
                exchange(client, server)
    serves_afterwards()


def exchange_or_fail(client, server):
    """Some octets pass each way unchanged, or a call fails with an OSError."""
    for source, target in (client, server), (server, client):
        data = known(source.fileno(), 5000)
        source.sendall(data)
        got = b""
        while len(got) < len(data):
            try:
                more = target.recv(len(data))
            except TimeoutError as error:
                equal(error.errno, errno.ETIMEDOUT, "errno of the connection: the call waits")
                raise
            equal(more != b"", True, "no end after %d octets" % len(got))
            got += more
        equal(got == data, True, "data")


def serves_soon():
    """A new connection uses RDMA. One over a link that waits in vain for its peer, which has lost it, may fail
    before."""
    topology.all_gone()
    end = time.monotonic() + 2 * topology.BOUND
    while True:
        client, server = pair()
        with client, server, contextlib.suppress(OSError):
            by_rdma = topology.mode("a", client)[0] == topology.ENGINE[0]
            exchange_or_fail(client, server)
            if by_rdma:
                break
        equal(time.monotonic() < end, True, "a connection by RDMA carries data")
        time.sleep(0.1)
    serves_afterwards()


def port_goes_down_while_connections_are_set_up():
    """Each is made or fails, in time, and what it carries is whole."""
    made = failed = 0
    with Events(flap) as events:
        while made + failed < CONNECTIONS and not events.error:
            try:
                with topology.bounded(2 * topology.BOUND):
                    client, server = pair()
                    with client, server:
                        exchange_or_fail(client, server)
                made += 1
            except OSError:
                failed += 1
        events.wait(EVENTS)
        equal(events.count >= EVENTS, True, "%d events" % events.count)
    equal(made > 0, True, "%d connections of %d" % (made, made + failed))
    serves_soon()


def port_goes_down_while_data_flow():
    """The connection goes on or ends with an error at both ends. What has arrived is the begin of what was
    sent."""
    data = known("flow", LONG)
    for _ in range(5):
        client, server = pair()
        with client, server:
            topology.expect_smc(client, server)

            def send(client=client):
                with contextlib.suppress(OSError):
                    client.sendall(data)
                    client.close()
            sending = threading.Thread(target=send)
            sending.start()
            got = server.recv(65536)
            flap()
            with contextlib.suppress(OSError):
                while True:
                    more = server.recv(65536)
                    if not more:
                        break
                    got += more
            sending.join(2 * topology.BOUND)
            equal(sending.is_alive(), False, "the sender waits")
            equal(data.startswith(got), True, "%d octets" % len(got))
        serves_soon()


def main():
    """Runs the tests on one adapter."""
    topology.need_module()
    rsoft.load(strict=chosen()[0])
    topology.netns("up")
    tests = [addresses_change_while_connections_are_set_up, addresses_change_while_data_flow,
             port_goes_down_while_connections_are_set_up, port_goes_down_while_data_flow]
    return rsoft.run(tests + topology.by_sdp(*tests))


if __name__ == "__main__":
    sys.exit(main())
