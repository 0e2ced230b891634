#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Connections of a host with itself leave by lo, whatever their address, and use an RDMA device on
lo."""

import pathlib
import socket
import sys

import ktap
import topology
from fallback import NO_DEVICE
from ktap import equal
from netdevs import ip
from topology import await_gid, command, exchange

DEVICE = "rs_lo"
# Two addresses of the wire; the RDMA device of the wire has one of them too.
OWN = {socket.AF_INET: ("10.9.0.1", "192.0.2.9"), socket.AF_INET6: ("fd09::1", "fd02::9")}
LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


def host(device=True):
    """Makes a host with several addresses, and a device on lo."""
    command("rdma", "link", "delete", DEVICE, check=False)
    topology.netns("up")
    ip("a", "address", "add", "192.0.2.9/24", "dev", "va")
    ip("a", "address", "add", "fd02::9/64", "dev", "va", "nodad")
    if device:
        command("ip", "netns", "exec", "rs-a", "rdma", "link", "add", DEVICE, "type", "rxe",
                "netdev", "lo")
        for address in LOOPBACK.values():
            await_gid(DEVICE, address)


def connect(family, source, target, spoken=None):
    """A connection within the host. `spoken` is the client's notation of the address."""
    listening = topology.new_socket("a", family)
    listening.bind((target, 0))
    listening.listen(4)
    client = topology.new_socket("a", socket.AF_INET6 if spoken else family)
    if not spoken:
        client.bind((source, 0))
    client.settimeout(topology.BOUND)
    client.connect((spoken or target, listening.getsockname()[1]))
    listening.settimeout(topology.BOUND)
    server, _ = listening.accept()
    server.settimeout(topology.BOUND)
    listening.close()
    return client, server


def goes_by_lo(client, server):
    """Fails unless both ends use the device on lo, for their data too."""
    before = topology.counter("a", "tx_bytes")
    modes = topology.mode("a", client), topology.mode("a", server)
    equal(tuple(mode[0] for mode in modes), ("smc", "smc"), "modes, of %r" % (modes,))
    exchange(client, server, 100000)
    equal(topology.counter("a", "tx_bytes") - before, 200000, "bytes by RDMA")
    ports = {":%d" % sock.getsockname()[1] for sock in (client, server)}
    used = {line["dev"] for line in topology.records("a", "conns")
            if ":" + line["local"].rsplit(":", 1)[1] in ports and line["mode"] == "smc"}
    equal(used, {DEVICE}, "devices")
    client.close()
    server.close()
    # Until both ends are gone, a connection from another address that gets the same element of the RMB
    # is declined: the group is not known to be with that address.
    topology.until(lambda: not any(":" + line["local"].rsplit(":", 1)[1] in ports
                                   for line in topology.records("a", "conns")), "both ends are gone")


def all_ways():
    """Connects every pair of own addresses, of both protocols."""
    for family, own in OWN.items():
        for source in own + (LOOPBACK[family],):
            for target in own + (LOOPBACK[family],):
                goes_by_lo(*connect(family, source, target))


def version_1():
    """Version 1: all addresses of a host are in the network of its loopback device."""
    host()
    all_ways()


def version_2():
    """Version 2: connections with an enterprise identifier."""
    host()
    with topology.inside("a"):
        pathlib.Path("/proc/net/rdma_sock/ueids").write_text("LAB.ONE", encoding="ascii")
    all_ways()
    equal({line["version"] for line in topology.records("a", "links")}, {"2"}, "versions")


def mapped_address():
    """An IPv6 client and an IPv4 server."""
    host()
    goes_by_lo(*connect(socket.AF_INET, None, "192.0.2.9", "::ffff:192.0.2.9"))


def no_device_on_lo():
    """A device on the wire does not serve connections within the host."""
    host(device=False)
    client, server = connect(socket.AF_INET, *OWN[socket.AF_INET])
    equal(topology.mode("a", client), ("tcp", NO_DEVICE), "client")
    exchange(client, server, 1000)


def main():
    """Runs all tests."""
    topology.need_module()
    try:
        return ktap.run([version_1, version_2, mapped_address, no_device_on_lo])
    finally:
        command("rdma", "link", "delete", DEVICE, check=False)


if __name__ == "__main__":
    sys.exit(main())
