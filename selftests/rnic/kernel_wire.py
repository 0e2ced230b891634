# SPDX-License-Identifier: GPL-2.0
"""Two RDMA devices on a wire in the namespace of the kernel's own users of RDMA, and their counters.

NVMe and iSER of the kernel use the initial network namespace alone. A packet from one address of a
namespace to another one takes no wire, unless rules of routing in front of those for local addresses say
so.
"""

import contextlib
import json
import pathlib

import topology
from topology import command

# Network device, RDMA device and address. The initiator's side is the first one.
HOST = ("sta", "rs_a", "10.9.5.1")
TARGET = ("stb", "rs_b", "10.9.5.2")
# Where the rules for local addresses go.
LOCAL = "100"


def add_link(end, kind):
    """Makes the RDMA device of an end, and waits for its address."""
    command("rdma", "link", "add", end[1], "type", kind, "netdev", end[0])
    topology.await_gid(end[1], end[2])


def route(end, peer, table):
    """Packets to the peer take the wire, whatever asks for their way."""
    command("ip", "route", "add", peer[2], "dev", end[0], "src", end[2], "table", table)
    for by in ("iif", "lo"), ("oif", end[0]):
        command("ip", "rule", "add", "pref", "10", *by, "to", peer[2], "lookup", table)


def up(kind):
    """Makes both ends with RDMA devices of a type of link."""
    command("ip", "link", "add", HOST[0], "type", "veth", "peer", "name", TARGET[0])
    command("ip", "rule", "add", "pref", LOCAL, "lookup", "local")
    command("ip", "rule", "delete", "pref", "0")
    for end, peer, table in (HOST, TARGET, "501"), (TARGET, HOST, "502"):
        command("ip", "address", "add", end[2] + "/24", "dev", end[0])
        command("ip", "link", "set", end[0], "up")
        route(end, peer, table)
    for end in HOST, TARGET:
        add_link(end, kind)


def down():
    """Removes what `up` made."""
    for end in HOST, TARGET:
        command("rdma", "link", "delete", end[1], check=False)
    command("ip", "link", "delete", HOST[0], check=False)
    while "from" in command("ip", "rule", "show", "pref", "10"):
        command("ip", "rule", "delete", "pref", "10")
    if "from" in command("ip", "rule", "show", "pref", LOCAL):
        command("ip", "rule", "add", "pref", "0", "lookup", "local")
        command("ip", "rule", "delete", "pref", LOCAL)


@contextlib.contextmanager
def disturbed(*words):
    """Both ends disturb what they send for the block, as netem has it in words."""
    for end in HOST, TARGET:
        command("tc", "qdisc", "add", "dev", end[0], "root", "netem", *words)
    try:
        yield
    finally:
        for end in HOST, TARGET:
            command("tc", "qdisc", "delete", "dev", end[0], "root")


def counter(end, name):
    """A counter of the RDMA device of an end. It may be some milliseconds old."""
    file = pathlib.Path("/sys/class/infiniband", end[1], "ports/1/hw_counters", name)
    return int(file.read_text(encoding="ascii"))


@contextlib.contextmanager
def carried(kind, to_target=0, to_host=0):
    """Fails unless the RDMA devices receive that many octets, at least, for the block."""
    # rdma_rxe counts packets only, of 1024 octets of payload here.
    name, unit = ("rcvd_bytes", 1) if kind == "rsoft" else ("rcvd_pkts", 1024)
    want = {TARGET: to_target // unit, HOST: to_host // unit}
    before = {end: counter(end, name) for end in want}
    yield
    for end, least in want.items():
        topology.until(lambda end=end, least=least: counter(end, name) - before[end] >= least,
                       "%s of %s has not grown by %d" % (name, end[1], least), 10)


def owners(device):
    """The modules that have protection domains of a device."""
    shown = json.loads(command("rdma", "-j", "resource", "show", "pd", "dev", device))
    return {one["comm"] for one in shown if "comm" in one}
