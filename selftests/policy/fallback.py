# SPDX-License-Identifier: GPL-2.0
"""Checks of connections that stay with TCP: they work, send no octet by RDMA, and both sides count the
reason."""

import topology
from ktap import equal
from topology import exchange, expect_smc, expect_tcp

PEER_NO_SMC = 0x03010000
IPSEC = 0x03020000
NO_DEVICE = 0x03030002
OPTION = 0x03060000
PREFIX = 0x03070000


class Watch:
    """The counters of both sides, relative to the creation of this object."""

    def __init__(self):
        self.before = {side: topology.counters(side) for side in "ab"}

    def increase(self, side, name):
        """The increase of a counter."""
        return topology.counter(side, name) - self.before[side].get(name, 0)


def over():
    """Whether no connection uses RDMA. A listener may still exist."""
    topology.until(lambda: all(topology.counter(side, "active_conns") == 0 for side in "ab"),
                   "connections are left")


def stays_tcp(client, server, reasons, watch):
    """Fails unless the connection uses TCP, counted with these reasons (client, server; None: unknown
    there)."""
    expect_tcp(client, server)
    for side, sock, reason in zip("ab", (client, server), reasons):
        if reason is not None:
            equal("%#010x" % topology.mode(side, sock)[1], "%#010x" % reason, "reason at " + side)
            name = "fallback_reason_%08x" % reason
            equal(watch.increase(side, name), 1, name + " at " + side)
    exchange(client, server)
    for side in "ab":
        equal(watch.increase(side, "tx_bytes"), 0, "bytes by RDMA at " + side)
    client.close()
    server.close()
    over()


def goes_by_rdma(client, server):
    """Fails unless the connection uses RDMA and carries data."""
    expect_smc(client, server)
    exchange(client, server)
    client.close()
    server.close()
    over()
