#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The same situations with our module and with the kernel's own SMC: both answer in the same form.

The program takes our module out, asks smc.ko and smc_diag.ko, and asks our module again after it is
loaded.
"""

import os
import sys

import ktap
import netlink
import topology
from ktap import equal
from netlink import Commands, attributes, eid, number
from topology import pair

AF_SMC = 43
OURS = topology.module_file()


def shape(octets, nests):
    """Types with lengths, or with the shape of what is inside."""
    return {kind: shape(value, nests[kind]) if kind in nests else len(value)
            for kind, value in attributes(octets).items()}


CLASSES = {kind: {} for kind in range(1, 7)}
NESTS = {
    netlink.SYSTEM: (1, {}),
    netlink.DEVICES: (6, {8: {}, 9: {}}),
    netlink.COUNTS: (7, {1: CLASSES, 2: CLASSES}),
    netlink.FALLBACKS: (8, {}),
}


def replies():
    """The shapes of the answers of both families, by situation."""
    found = {}
    with Commands("a") as smc:
        found["family"] = {kind: number(smc.about[kind]) for kind in (3, 4)}
        found["commands"] = sorted(number(attributes(one)[1])
                                   for one in attributes(smc.about[6]).values())
        for command, (kind, nests) in NESTS.items():
            found["command %d" % command] = [shape(parts[kind], nests) for parts in smc.ask(command)]
        for command in netlink.SMCD_GROUPS, netlink.SMCD_DEVICES, netlink.SEID, netlink.LIMIT:
            found["command %d" % command] = smc.ask(command)
        system = attributes(smc.ask(netlink.SYSTEM)[0][1])
        found["system"] = {kind: system[kind] for kind in (1, 2, 4, 6)}
        smc.change(netlink.FLUSH_EIDS)
        errors = [topology.error_of(smc.change, netlink.ADD_EID, data) for data in (
            eid("LAB.ALIKE"), eid("LAB.ALIKE"), eid("lab"), eid(""), b"", netlink.attribute(1, b"A\0"))]
        errors += [topology.error_of(smc.change, netlink.REMOVE_EID, data) for data in (
            eid("NONE"), b"")]
        errors += [topology.error_of(smc.change, command)
                   for command in (netlink.ENABLE_SEID, netlink.DISABLE_SEID, 19)]
        errors += [topology.error_of(smc.ask, netlink.GROUPS, netlink.attribute(1, b"A"))]
        found["errors"] = errors
        found["identifiers"] = smc.ask(netlink.EIDS)
        smc.change(netlink.FLUSH_EIDS)
    client, server = pair(smc=(True, False))
    with topology.listener("a") as listening:
        for name, sock in ("listener", listening), ("fallback", client):
            entry = netlink.find("a", sock, 0)
            found[name] = (entry.state, entry.mode, entry.fallback, entry.uid, entry.ifindex,
                           entry.inode == os.fstat(sock.fileno()).st_ino, entry.shape())
    client.close()
    server.close()
    return found


def use_family_43():
    """Sockets by the family: the C implementation shows no addresses of the other ones."""
    def new_socket(side, family=topology.socket.AF_INET, smc=True, flags=0):
        with topology.inside(side):
            if smc:
                fd = topology.libc.socket(AF_SMC, topology.socket.SOCK_STREAM | flags,
                                          int(family != topology.socket.AF_INET))
            else:
                fd = topology.libc.socket(int(family), topology.socket.SOCK_STREAM | flags, 0)
        if fd < 0:
            raise OSError("socket")
        return topology.socket.socket(family, topology.socket.SOCK_STREAM, 0, fileno=fd)
    topology.new_socket = new_socket


def answers_have_the_same_form():
    """Each answer has the attributes of C, with their lengths, and each error is the same."""
    use_family_43()
    ours = replies()
    parameters = topology.module_parameters()
    topology.all_gone()
    topology.command("rmmod", "rdma_sock")
    try:
        done = topology.command("modprobe", "-a", "smc", "smc_diag", check=False)
        if not os.path.isdir("/sys/module/smc_diag"):
            raise ktap.Skip("this kernel has no SMC of its own: " + done.strip())
        theirs = replies()
        topology.until(lambda: topology.module_users("smc") <= 1, "sockets of C are gone")
        topology.command("rmmod", "smc_diag", "smc")
    finally:
        topology.command("insmod", str(OURS), *parameters)
    # C counts its own kind of memory of SMC-D as well, and leaves out what a soft device lacks.
    for name in sorted(theirs):
        print("# %s: ours %r" % (name, ours[name]))
        print("# %s: C    %r" % (name, theirs[name]))
    for found in ours, theirs:
        for counts in found["command 7"]:
            counts.pop(1, None)
        for device in found["command 6"]:
            for kind in 3, 4, 5, 6, 7, 9:
                device.pop(kind, None)
    for name, theirs_one in theirs.items():
        if name == "command 6":
            # C shows the devices of all namespaces.
            equal(ours[name][0], theirs_one[0], name)
        elif name == "command 8":
            equal(ours[name][:1], theirs_one[:1], name)
        else:
            equal(ours[name], theirs_one, name)


if __name__ == "__main__":
    topology.need_module()
    topology.netns("up")
    sys.exit(ktap.run([answers_have_the_same_form]))
