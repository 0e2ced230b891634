#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The files of /proc/sys/net/rdma_sock: names, values per network namespace, and effects on SDP."""

import errno
import pathlib
import socket
import sys

import ktap
import topology
from ktap import equal, fails
from topology import all_gone, pair

FOLDER = pathlib.Path("/proc/sys/net/rdma_sock")
DEFAULTS = {"sdp_probe": "pm", "sdp_accept": "subnet", "sdp_ports": "1-65535", "sdp_prefer": "never",
            "sdp_spin_us": "100"}
REFUSED, ABSENT, NO_LISTENER, NOT_ALLOWED = 0x7f000104, 0x7f000108, 0x7f000109, 0x7f00010c
# An address of the client outside of the subnet of the server's interface.
OUTSIDE = "10.7.0.1"


def read(side, name):
    """Reads a value of a side."""
    with topology.inside(side):
        return (FOLDER / name).read_text(encoding="ascii").rstrip("\n")


def write(side, name, value):
    """Sets a value of a side."""
    with topology.inside(side):
        (FOLDER / name).write_text(value + "\n", encoding="ascii")


def outcome(**args):
    """Makes a connection that carries data; the mode of the client and the reason."""
    client, server = pair(**args)
    topology.exchange(client, server, 20000)
    found = topology.mode("a", client)
    client.close()
    server.close()
    return found


def refusals(reason):
    """How many set-ups the server ended for a reason."""
    return topology.counters("b").get("sdp_aborted_reason_%08x" % reason, 0)


def defaults_of_each_namespace():
    """A new namespace has the defaults, and a change in one is none in another."""
    topology.netns("up", asks=True)
    for side in "ab":
        for name, value in DEFAULTS.items():
            equal(read(side, name), value, name + " at " + side)
    write("a", "sdp_accept", "any")
    write("a", "sdp_ports", " 80, 8000-8080 ,443")
    equal(read("a", "sdp_accept"), "any", "accept at a")
    equal(read("a", "sdp_ports"), "80,8000-8080,443", "ports at a")
    for side in ("b", None):
        for name, value in DEFAULTS.items():
            equal(read(side, name), value, name)
    write("a", "sdp_ports", "")
    equal(read("a", "sdp_ports"), "", "no ports")


def wrong_values():
    """A value that is none is refused and changes nothing."""
    topology.netns("up", asks=True)
    for name, values in {"sdp_probe": ("", "tcp", "pm cm", "1"), "sdp_accept": ("", "none", "subnets"),
                         "sdp_prefer": ("", "always", "known never"), "sdp_spin_us": ("", "-1", "10001", "1 2"),
                         "sdp_ports": ("0", "65536", "9-8", "80;81", "80,", ",".join(["1"] * 33),
                                       "1" * 600)}.items():
        for value in values:
            fails(errno.EINVAL, write, "a", name, value)
            equal(read("a", name), DEFAULTS[name], name)
    longest = ",".join("%d-%d" % (60000 + 2 * number, 60001 + 2 * number) for number in range(32))
    write("a", "sdp_ports", longest)
    equal(read("a", "sdp_ports"), longest, "longest list")


def accept_off():
    """A namespace that accepts none refuses new clients, known or unknown, and keeps connections."""
    topology.netns("up", asks=True)
    write("b", "sdp_accept", "off")
    equal(outcome(), ("tcp", ABSENT), "unknown host")
    write("b", "sdp_accept", "subnet")
    client, server = topology.pair_by_rdma()

    def refused():
        # An event of a device, which may be late, makes hosts unknown.
        write("b", "sdp_accept", "subnet")
        outcome()
        write("b", "sdp_accept", "off")
        return outcome() == ("tcp", NO_LISTENER)
    topology.until(refused, "a known host is refused", 100)
    equal(refusals(NOT_ALLOWED) >= 1, True, "refusals")
    topology.exchange(client, server)
    client.close()
    server.close()
    # The other direction is not concerned.
    all_gone()


def accept_subnet():
    """A client outside of the subnet uses TCP, unless all are accepted."""
    topology.netns("up", asks=True)
    topology.command("ip", "-n", "rs-a", "address", "add", OUTSIDE + "/32", "dev", "va")
    topology.command("ip", "-n", "rs-b", "route", "add", OUTSIDE + "/32", "dev", "vb")
    topology.await_gid("rs_a", OUTSIDE)
    equal(outcome()[0], "sdp", "inside")
    equal(outcome(source=OUTSIDE), ("tcp", REFUSED), "outside")
    # The request may be sent again while the answer is under way.
    equal(refusals(NOT_ALLOWED) >= 1, True, "refusals")
    write("b", "sdp_accept", "any")
    equal(outcome(source=OUTSIDE)[0], "sdp", "outside, where all are accepted")
    equal(outcome(family=socket.AF_INET6)[0], "sdp", "IPv6")
    write("b", "sdp_accept", "subnet")
    equal(outcome(family=socket.AF_INET6)[0], "sdp", "IPv6 in the subnet")
    all_gone()


def ports():
    """Listeners on other ports than those of the list use TCP."""
    topology.netns("up", asks=True)
    equal(outcome()[0], "sdp", "before")
    with topology.listener("b") as listening:
        port = listening.getsockname()[1]
    for value, wanted in (("1-%d" % (port - 1), "tcp"), ("%d-65535" % (port + 1), "tcp"),
                          ("22,%d" % port, "sdp")):
        write("b", "sdp_ports", value)
        with topology.new_socket("b") as listening, topology.new_socket("a") as client:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((topology.HOSTS[socket.AF_INET]["b"], port))
            listening.listen(1)
            client.connect(listening.getsockname())
            listening.settimeout(topology.BOUND)
            server, _ = listening.accept()
            with server:
                found = topology.mode("a", client)
                equal(found[0], wanted, "mode with the ports " + value)
                if wanted == "tcp":
                    # A late event of a device makes the host unknown: then its Port Mapper denies the port.
                    equal(found[1] in (NO_LISTENER, ABSENT), True, "reason %#x" % found[1])
    all_gone()


def probe():
    """Unknown hosts are asked, tried or left to TCP. A host that has connected by SDP is known."""
    topology.netns("up", asks=True)
    write("a", "sdp_probe", "none")
    equal(outcome(), ("tcp", NOT_ALLOWED), "unknown host")
    write("a", "sdp_probe", "cm")
    # The Port Mapper of the host says nothing.
    topology.command("ip", "netns", "exec", "rs-b", "nft", "add table ip rs; add chain ip rs in "
                     "{ type filter hook input priority 0; }; add rule ip rs in udp dport 3935 drop")
    equal(outcome()[0], "sdp", "unknown host that is tried")

    def known():
        # As above.
        write("a", "sdp_probe", "cm")
        outcome()
        write("a", "sdp_probe", "none")
        return outcome()[0] == "sdp"
    topology.until(known, "a known host is tried")
    # The server knows the client's host as well.
    write("b", "sdp_probe", "none")
    with topology.listener("a") as listening, topology.new_socket("b") as client:
        client.connect(listening.getsockname())
        server, _ = listening.accept()
        with server:
            equal(topology.mode("b", client)[0], "sdp", "the other direction")
    all_gone()


def main():
    """Runs all tests."""
    topology.need_module()
    with topology.engine("sdp"):
        return ktap.run([defaults_of_each_namespace, wrong_values, accept_off, accept_subnet, ports,
                         probe])


if __name__ == "__main__":
    sys.exit(main())
