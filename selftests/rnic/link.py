#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Devices of the type rsoft: how they are made, what they report, and how they go away.

Covers RNIC-NET-01, RNIC-NET-02, RNIC-NET-03, RNIC-NET-05, RNIC-NET-07, RNIC-LIFE-05, RNIC-LIFE-06,
RNIC-SEC-12.
"""

import contextlib
import os
import pathlib
import subprocess
import sys

import ktap
import topology
from ktap import equal
from topology import command, until

SOFT = "rdma_soft"
FILE = topology.module_file(SOFT)
DEVICES = pathlib.Path("/sys/class/infiniband")
MAC = "02:11:22:33:44:55"


def is_loaded():
    """Whether the module is there."""
    return os.path.isdir("/sys/module/" + SOFT)


def exists(name):
    """Whether there is a device of that name."""
    return (DEVICES / name).exists()


def read(name, *path):
    """An attribute of a device."""
    return DEVICES.joinpath(name, *path).read_text(encoding="ascii").strip()


def add(name, netdev, *inside, check=True):
    """Makes a device; what the command says."""
    return command(*inside, "rdma", "link", "add", name, "type", "rsoft", "netdev", netdev,
                   check=check)


def gid_types(name):
    """Pairs of GID and type, without entries that are not used."""
    found = set()
    for file in (DEVICES / name / "ports/1/gid_attrs/types").glob("*"):
        with contextlib.suppress(OSError):
            kind = file.read_text(encoding="ascii").strip()
            found.add((read(name, "ports/1/gids", file.name), kind))
    return found


@contextlib.contextmanager
def dummy(name="soft0", *words):
    """A dummy device with an address, set up."""
    command("ip", "link", "add", name, "address", MAC, *words, "type", "dummy")
    try:
        command("ip", "address", "add", "10.9.8.1/24", "dev", name)
        command("ip", "link", "set", name, "up")
        yield name
    finally:
        # It would go after the network device, by a work item.
        for line in command("rdma", "link", "show").splitlines():
            if line.split()[-2:] == ["netdev", name]:
                command("rdma", "link", "delete", line.split()[1].partition("/")[0], check=False)
        command("ip", "link", "delete", name, check=False)


@contextlib.contextmanager
def namespace(name):
    """A network namespace."""
    command("ip", "netns", "add", name)
    try:
        yield name
    finally:
        command("ip", "netns", "delete", name, check=False)


def device_reports_itself():
    """Description, GUID of the network device's address, port, partition key."""
    with dummy() as netdev:
        add("r0", netdev)
        equal(read("r0", "node_desc"), "rdma_soft", "description")
        equal(read("r0", "node_guid"), "0011:22ff:fe33:4455", "GUID")
        equal(read("r0", "node_type"), "1: CA", "node type")
        equal(read("r0", "ports/1/link_layer"), "Ethernet", "link layer")
        equal(read("r0", "ports/1/pkeys/0"), "0xffff", "partition key")
        equal(read("r0", "ports/1/state"), "4: ACTIVE", "state")
        equal(read("r0", "ports/1/phys_state"), "5: LinkUp", "physical state")
        equal("Gb/sec" in read("r0", "ports/1/rate"), True, "speed")
        shown = command("rdma", "link", "show", "r0/1")
        for words in "state ACTIVE", "physical_state LINK_UP", "netdev " + netdev:
            equal(words in shown, True, shown)
        command("rdma", "link", "delete", "r0")
        equal(exists("r0"), False, "device after its removal")


def gid_table_has_both_versions():
    """Each address is there once for each version of RoCE, and goes with the address."""
    with dummy() as netdev:
        add("r0", netdev)
        want = {(topology.gid_text("10.9.8.1"), kind) for kind in ("IB/RoCE v1", "RoCE v2")}
        until(lambda: want <= gid_types("r0"), "address of the network device")
        command("ip", "address", "add", "fd08::1/64", "dev", netdev, "nodad")
        more = {(topology.gid_text("fd08::1"), kind) for kind in ("IB/RoCE v1", "RoCE v2")}
        until(lambda: more <= gid_types("r0"), "another address")
        command("ip", "address", "delete", "10.9.8.1/24", "dev", netdev)
        until(lambda: not want & gid_types("r0"), "end of an address")
        equal(more <= gid_types("r0"), True, "the other address")


def parameter_selects_the_versions():
    """The GID table has addresses for the versions of RoCE that the module was loaded for."""
    names = {"1": {"IB/RoCE v1"}, "2": {"RoCE v2"}, "3": {"IB/RoCE v1", "RoCE v2"}}
    for versions, want in names.items():
        command("rmmod", SOFT)
        command("insmod", str(FILE), "roce=" + versions)
        with dummy() as netdev:
            add("r0", netdev)
            address = topology.gid_text("10.9.8.1")
            until(lambda: {kind for gid, kind in gid_types("r0") if gid == address} == want,
                  "addresses for roce=" + versions)
            equal({kind for _, kind in gid_types("r0")}, want, "types for roce=" + versions)
    command("rmmod", SOFT)
    for word in "roce=4", "direct=2":
        equal("Invalid" in command("insmod", str(FILE), word, check=False), True, word)
    command("insmod", str(FILE))


def port_follows_the_network_device():
    """Down and up again."""
    with dummy() as netdev:
        add("r0", netdev)
        command("ip", "link", "set", netdev, "down")
        until(lambda: read("r0", "ports/1/state") == "1: DOWN", "port down")
        equal(read("r0", "ports/1/phys_state"), "3: Disabled", "physical state")
        command("ip", "link", "set", netdev, "up")
        until(lambda: read("r0", "ports/1/state") == "4: ACTIVE", "port active")


def second_device_on_a_network_device_is_refused():
    """And so is a second device of the same name; the first one stays."""
    with dummy() as netdev, dummy("soft1") as other:
        add("r0", netdev)
        equal("File exists" in add("r1", netdev, check=False), True, "second on one network device")
        equal(exists("r1"), False, "second device")
        add("r0", other, check=False)
        equal("netdev " + netdev in command("rdma", "link", "show", "r0/1"), True, "first device")
        # The refused name left nothing behind.
        add("r1", other)
        equal(exists("r1"), True, "device of another name")


def device_needs_the_capability():
    """A user without CAP_NET_ADMIN makes none, and deletes none."""
    def run(*words):
        return subprocess.run(words, user=65534, group=65534, extra_groups=[], check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    with dummy() as netdev:
        equal(run("rdma", "link", "add", "r0", "type", "rsoft", "netdev", netdev) != 0, True, "add")
        equal(exists("r0"), False, "device")
        add("r0", netdev)
        equal(run("rdma", "link", "delete", "r0") != 0, True, "delete")
        equal(exists("r0"), True, "device")


def vlan_is_refused():
    """A VLAN's packets are those of the device below."""
    with dummy() as netdev:
        command("ip", "link", "add", "link", netdev, "name", "soft0.7", "type", "vlan", "id", "7")
        equal("not permitted" in add("r0", "soft0.7", check=False), True, "VLAN")
        equal(exists("r0"), False, "device")


def loopback_device_has_a_device():
    """It has no Ethernet address, so the GUID is a random one."""
    with namespace("rs-soft"):
        inside = ("ip", "netns", "exec", "rs-soft")
        command(*inside, "ip", "link", "set", "lo", "up")
        add("r0", "lo", *inside)
        equal(exists("r0"), True, "device")
        equal(read("r0", "node_guid") == "0000:0000:0000:0000", False, "GUID")
        command("rdma", "link", "delete", "r0")


def removed_network_device_takes_its_device_along():
    """Both ends of a veth pair go, without a wait for references."""
    command("ip", "link", "add", "va", "type", "veth", "peer", "name", "vb")
    for name in "va", "vb":
        command("ip", "link", "set", name, "up")
        add("r" + name, name)
    with topology.bounded(30):
        command("ip", "link", "delete", "va")
    until(lambda: not exists("rva") and not exists("rvb"), "end of both devices")


def network_device_that_moves_loses_its_device():
    """For the device it is gone; a new one is possible in the other namespace."""
    with namespace("rs-soft"), dummy() as netdev:
        add("r0", netdev)
        command("ip", "link", "set", netdev, "netns", "rs-soft")
        until(lambda: not exists("r0"), "end of the device")
        inside = ("ip", "netns", "exec", "rs-soft")
        # The name of the other is free somewhat later.
        add("r1", netdev, *inside)
        equal(exists("r1"), True, "device in the other namespace")


def deleted_namespace_takes_its_devices_along():
    """The UDP ports go with it."""
    for number in range(3):
        name = "r%d" % number
        with namespace("rs-soft"):
            inside = ("ip", "netns", "exec", "rs-soft")
            command(*inside, "ip", "link", "add", "soft0", "type", "dummy")
            command(*inside, "ip", "link", "set", "soft0", "up")
            add(name, "soft0", *inside)
            ports = command(*inside, "cat", "/proc/net/udp")
            equal(":12B7 " in ports, True, ports)
        until(lambda gone=name: not exists(gone), "end of the device")


def ports_close_with_the_last_device():
    """Two devices of a namespace share the UDP ports."""
    def is_open():
        return ":12B7 " in pathlib.Path("/proc/net/udp").read_text(encoding="ascii")
    with dummy() as netdev, dummy("soft1") as other:
        equal(is_open(), False, "before")
        add("r0", netdev)
        add("r1", other)
        command("rdma", "link", "delete", "r0")
        equal(is_open(), True, "with one device left")
        command("rdma", "link", "delete", "r1")
        equal(is_open(), False, "after the last one")


def module_unloads_with_devices():
    """Each device is unregistered, and another load works."""
    for _ in range(5):
        with dummy() as netdev:
            command("ip", "link", "add", "va", "type", "veth", "peer", "name", "vb")
            add("r0", netdev)
            add("rva", "va")
            with topology.bounded(30):
                command("rmmod", SOFT)
            equal(exists("r0") or exists("rva"), False, "devices after rmmod")
            with topology.bounded(30):
                command("ip", "link", "delete", "va")
        command("insmod", str(FILE))


def removals_at_the_same_time_end():
    """rdma link delete, removal of the network device and rmmod race each other."""
    for number in range(10):
        with dummy() as netdev:
            add("r0", netdev)
            words = (["rdma", "link", "delete", "r0"], ["ip", "link", "delete", netdev],
                     ["rmmod", SOFT] if number % 2 else ["true"])
            running = [subprocess.Popen(word, stderr=subprocess.DEVNULL) for word in words]
            for process in running:
                process.wait(topology.BOUND)
            until(lambda: not exists("r0"), "end of the device")
        if not is_loaded():
            command("insmod", str(FILE))


def main():
    """All tests."""
    if os.geteuid() != 0:
        ktap.skip_all("needs root")
    if FILE is None:
        ktap.skip_all("the module's file is not here")
    if is_loaded():
        ktap.skip_all("%s is loaded" % SOFT)
    topology.load_needed(FILE)
    for name in "dummy", "veth", "8021q":
        command("modprobe", name, check=False)
    command("insmod", str(FILE))
    try:
        return ktap.run([device_reports_itself, gid_table_has_both_versions,
                         parameter_selects_the_versions,
                         port_follows_the_network_device,
                         second_device_on_a_network_device_is_refused,
                         device_needs_the_capability, vlan_is_refused,
                         loopback_device_has_a_device,
                         removed_network_device_takes_its_device_along,
                         network_device_that_moves_loses_its_device,
                         deleted_namespace_takes_its_devices_along,
                         ports_close_with_the_last_device, module_unloads_with_devices,
                         removals_at_the_same_time_end])
    finally:
        command("rmmod", SOFT, check=False)


if __name__ == "__main__":
    sys.exit(main())
