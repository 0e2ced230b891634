#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The events of SMC-R for tracing: their form, beside the kernel's own SMC, and when they come."""

import contextlib
import os
import pathlib
import re
import socket
import sys

import ktap
import topology
from ktap import equal
from topology import command, exchange, expect_smc, pair

ROOT = pathlib.Path("/sys/kernel/tracing")
EVENTS = ROOT / "events/smc"
NAMES = ["smc_rx_recvmsg", "smc_switch_to_fallback", "smc_tx_sendmsg", "smcr_link_down"]
NO_DEVICE = 0x03030002
OURS = topology.module_file()


def need_tracing():
    """Ends the program as skipped where the kernel has no events."""
    if not EVENTS.is_dir():
        command("mount", "-t", "tracefs", "nodev", str(ROOT), check=False)
    if not (ROOT / "events").is_dir():
        ktap.skip_all("this kernel has no events")


@contextlib.contextmanager
def traced(*names):
    """Follows events during the block, after which the list has them as (name, fields)."""
    found = []
    (ROOT / "trace").write_text("", encoding="ascii")
    for name in names:
        (EVENTS / name / "enable").write_text("1", encoding="ascii")
    try:
        yield found
        for line in (ROOT / "trace").read_text(encoding="ascii").splitlines():
            event = re.search(r" (smcr?_\w+): (.*)", line)
            if event:
                # The place in the code is followed by the name of the module.
                words = [word.split("=", 1) for word in event[2].split() if "=" in word]
                found.append((event[1], dict(words)))
    finally:
        for name in names:
            (EVENTS / name / "enable").write_text("0", encoding="ascii")


def formats():
    """The form of each event, without its number."""
    return {name: re.sub(r"ID: \d+", "", (EVENTS / name / "format").read_text(encoding="ascii"))
            for name in sorted(os.listdir(EVENTS)) if (EVENTS / name).is_dir()}


def forms_are_those_of_c():
    """Each event has the name, the fields and the text of that of smc.ko."""
    ours = formats()
    equal(sorted(ours), NAMES, "events")
    topology.all_gone()
    parameters = topology.module_parameters()
    command("rmmod", "rdma_sock")
    try:
        done = command("modprobe", "smc", check=False)
        if not os.path.isdir("/sys/module/smc"):
            raise ktap.Skip("this kernel has no SMC of its own: " + done.strip())
        theirs = formats()
        command("rmmod", "smc")
    finally:
        command("insmod", str(OURS), *parameters)
    for name, form in theirs.items():
        equal(ours[name], form, name)
    equal(sorted(theirs), NAMES, "events of C")


def cookie(side):
    """The cookie of a namespace, which a socket knows."""
    with topology.new_socket(side, smc=False) as sock:
        return str(int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, 71, 8), "little"))


def octets_of_calls_are_reported():
    """What calls of a connection over RDMA move is reported with the device and the namespace."""
    topology.netns("up")
    client, server = pair()
    expect_smc(client, server)
    with traced("smc_tx_sendmsg", "smc_rx_recvmsg") as found:
        client.sendall(b"x" * 1000)
        equal(len(topology.receive(server, 1000)), 1000, "octets")
    sent = [fields for name, fields in found if name == "smc_tx_sendmsg"]
    received = [fields for name, fields in found if name == "smc_rx_recvmsg"]
    for events, side in (sent, "a"), (received, "b"):
        equal(sum(int(fields["len"]) for fields in events), 1000, "octets of " + side)
        equal({(fields["dev"], fields["net"]) for fields in events}, {("rs_" + side, cookie(side))},
              "device and namespace of " + side)
        equal(len({fields["smc"] for fields in events}), 1, "socks of " + side)
    with traced() as found:
        exchange(client, server, 1000)
    equal(found, [], "events that are off")
    client.close()
    server.close()


def fallback_is_reported_with_its_reason():
    """A connection that becomes one of TCP is reported once for each side of ours, with the reason."""
    topology.netns("up", NO_RDMA="a b")
    with traced("smc_switch_to_fallback") as found:
        client, server = pair()
        client.close()
        server.close()
    mine = [fields for _, fields in found if fields["net"] == cookie("a")]
    equal([int(fields["fallback_rsn"]) for fields in mine], [NO_DEVICE], "reasons of the client")
    equal([fields["sk"] == fields["clcsk"] for fields in mine], [True], "one sock")


def link_that_ends_is_reported():
    """A link whose port fails is reported with its device."""
    topology.netns("up")
    client, server = pair()
    expect_smc(client, server)
    with traced("smcr_link_down") as found:
        command("ip", "-n", "rs-b", "link", "set", "vb", "down")
        client.send(b"x")
        topology.until(lambda: "smcr_link_down" in (ROOT / "trace").read_text(encoding="ascii"),
                       "event")
    equal({fields["dev"] for _, fields in found} & {"rs_a", "rs_b"} != set(), True,
          "devices %r" % found)
    equal({fields["state"] for _, fields in found}, {"3"}, "states")
    client.close()
    server.close()
    topology.netns("up")


def module_goes_while_events_are_on():
    """The module can be unloaded while its events are followed, and its events are there again when it is
    loaded."""
    topology.all_gone()
    parameters = topology.module_parameters()
    with contextlib.ExitStack() as stack:
        for name in NAMES:
            (EVENTS / name / "enable").write_text("1", encoding="ascii")
        stack.callback(lambda: [(EVENTS / name / "enable").write_text("0", encoding="ascii")
                                for name in NAMES])
        command("rmmod", "rdma_sock")
        try:
            equal(EVENTS.is_dir(), False, "events without the module")
        finally:
            command("insmod", str(OURS), *parameters)
        equal(sorted(formats()), NAMES, "events")
    topology.netns("up")
    octets_of_calls_are_reported()


if __name__ == "__main__":
    topology.need_module()
    need_tracing()
    topology.netns("up")
    sys.exit(ktap.run([forms_are_those_of_c, octets_of_calls_are_reported,
                       fallback_is_reported_with_its_reason, link_that_ends_is_reported,
                       module_goes_while_events_are_on]))
