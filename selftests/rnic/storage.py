#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The kernel's own users of RDMA for storage over devices of the type rsoft: NVMe, iSER, and NFS over RDMA,
each with both of its sides. Data are compared beside the path, which the counters of the devices prove.

Covers RNIC-MR-01, RNIC-MR-08, RNIC-MR-12, RNIC-REQ-12, RNIC-LIFE-06.
"""

import os
import pathlib
import shutil
import sys

import ktap
import storage_data as data
import storage_iscsi as iscsi
import storage_nfs as nfs
import storage_nvme as nvme
import kernel_wire as wire
import topology
from ktap import equal, named
from topology import command, netns

SOFT = "rdma_soft"
FILE = topology.module_file(SOFT)
# In memory: the file behind a disk, and places for file systems.
FOLDER = pathlib.Path("/dev/shm")
PLACE = pathlib.Path("/run/storage")
SIZE = 96 * data.MIB


class Stand:
    """What the tests of a kind of storage share: made by the first of them, removed by the last one."""

    def __init__(self, kind):
        self.kind = kind
        self.store = None
        self.target = None
        self.host = None

    def disk(self):
        """The disk of the initiator."""
        return self.host.disk

    def carried(self, to_target=0, to_host=0):
        """See `wire.carried`."""
        return wire.carried(self.kind, to_target, to_host)


def wire_is_made(kind):
    """Devices on both ends."""
    wire.down()
    wire.up(kind)


def nothing_is_left(kind):
    """Neither side has objects of the device, and the wire can be removed."""
    for end in wire.HOST, wire.TARGET:
        topology.until(lambda end=end: wire.owners(end[1]) <= {"ib_core"}, "end of objects of " + end[1])
    wire.down()
    if kind == "rsoft":
        topology.until(lambda: topology.module_users(SOFT) == 0, "users of the module")


def file_system_keeps_its_files(stand):
    """A file system, with the page cache emptied before its files are compared."""
    with stand.carried(data.MIB, data.MIB):
        data.file_system_keeps(stand.disk(), PLACE)


def transfers_of_all_sizes_come_back(stand):
    """Each of them is in the store, and what the store has comes back."""
    octets = sum(size for size in data.SIZES if size % 4096 == 0)
    with stand.carried(octets, octets):
        data.sizes_come_back(stand.disk(), stand.store)


def parallel_transfers_keep_apart(stand):
    """Many processes, each with a part of the disk."""
    data.parallel_transfers(stand.disk(), 6, 50)


def lossy_wire_changes_nothing(stand):
    """Packets are lost, doubled and come out of order."""
    with wire.disturbed("delay", "100us", "loss", "1%", "duplicate", "1%", "reorder", "99%"):
        data.parallel_transfers(stand.disk(), 3, 15)


def connect(stand):
    """Makes a connection, which is made again soon after a failure."""
    stand.host = nvme.Host(wire.TARGET[2], reconnect_delay=1)
    equal(stand.host.state(), "live", "state")


def nvme_connects(stand):
    """A target on one end, a host on the other one."""
    stand.store = data.Store(FOLDER / "store", SIZE)
    stand.target = nvme.Target(stand.store, wire.TARGET[2])
    connect(stand)
    equal(stand.host.size(), SIZE, "octets of the disk")
    equal("nvme_rdma" in wire.owners(wire.HOST[1]), True, str(wire.owners(wire.HOST[1])))
    equal("nvmet_rdma" in wire.owners(wire.TARGET[1]), True, str(wire.owners(wire.TARGET[1])))


def nvme_comes_back_after_resets(stand):
    """Resets under load: a transfer waits for the next connection."""
    load = data.Load(stand.disk(), 3)
    try:
        load.await_progress()
        for _ in range(2):
            stand.host.reset()
        equal([child.has_ended() for child in load.children], [False] * 3, "ends of the load")
    finally:
        load.give_up()
    data.parallel_transfers(stand.disk(), 1, 10)


def nvme_comes_back_after_silence(stand):
    """A wire that carries nothing until requests fail; transfers go on when it carries again."""
    load = data.Load(stand.disk(), 3)
    try:
        load.await_progress()
        with wire.disturbed("loss", "100%"):
            stand.host.await_state("resetting", "connecting")
        stand.host.await_state("live")
        equal([child.has_ended() for child in load.children], [False] * 3, "ends of the load")
    finally:
        load.give_up()
    data.parallel_transfers(stand.disk(), 1, 10)


def host_device_goes_away_under_load(stand):
    """The controller ends with it, and transfers fail."""
    load = data.Load(stand.disk(), 3)
    try:
        load.await_progress()
        with topology.bounded(60):
            command("rdma", "link", "delete", wire.HOST[1])
        load.expect_errors()
    finally:
        load.give_up()
    stand.host.await_state("gone")
    wire.add_link(wire.HOST, stand.kind)


def target_device_comes_back_under_load(stand):
    """Transfers wait until the target listens on the device that has come in place of its first one."""
    connect(stand)
    load = data.Load(stand.disk(), 3)
    try:
        load.await_progress()
        with topology.bounded(60):
            command("rdma", "link", "delete", wire.TARGET[1])
        stand.host.await_state("resetting", "connecting")
        wire.add_link(wire.TARGET, stand.kind)
        stand.target.listen_again()
        stand.host.await_state("live")
        equal([child.has_ended() for child in load.children], [False] * 3, "ends of the load")
    finally:
        load.give_up()
    data.parallel_transfers(stand.disk(), 1, 10)


def nvme_ends(stand):
    """The host leaves, then the target."""
    stand.host.disconnect()
    stand.target.remove()
    stand.store.remove()


def iser_connects(stand):
    """A session of iSER, and no other."""
    stand.store = data.Store(FOLDER / "store", SIZE)
    stand.target = iscsi.Target(stand.store, wire.TARGET[2])
    stand.host = iscsi.Initiator(wire.TARGET[2])
    stand.host.login()
    equal(stand.host.transport(), "iser", "transport")
    equal("ib_iser" in wire.owners(wire.HOST[1]), True, str(wire.owners(wire.HOST[1])))
    equal("ib_isert" in wire.owners(wire.TARGET[1]), True, str(wire.owners(wire.TARGET[1])))


def iser_ends(stand):
    """The session ends, then the target."""
    stand.host.logout()
    stand.host.end()
    stand.target.remove()
    stand.store.remove()


def nfs_keeps_files():
    """Files by a mount, compared at the server and by another mount."""
    exported, mounted = FOLDER / "export", FOLDER / "mount"
    exported.mkdir()
    server = nfs.Server(exported, "10.9.0.1")
    try:
        files = data.Files(mounted, 8, 200000)
        with nfs.Mount(mounted, "10.9.0.2", "10.9.0.1"):
            files.write()
            files.compare(exported)
        data.forget_pages()
        with nfs.Mount(mounted, "10.9.0.2", "10.9.0.1"):
            files.compare()
    finally:
        server.remove()
        shutil.rmtree(exported)


def tests_of_nvme(kind):
    """NVMe over devices of a type."""
    stand = Stand(kind)
    found = [nvme_connects, transfers_of_all_sizes_come_back]
    if kind == "rsoft":
        found += [file_system_keeps_its_files, parallel_transfers_keep_apart, lossy_wire_changes_nothing,
                  nvme_comes_back_after_resets, nvme_comes_back_after_silence,
                  host_device_goes_away_under_load, target_device_comes_back_under_load]
    found.append(nvme_ends)
    return [named("nvme with %s: %s" % (kind, test.__name__), test, stand) for test in found]


def tests_of_iser():
    """iSER over devices of rdma_soft. Those of rdma_rxe panic the kernel now and then: the target of 7.2 releases
    its answer to a logout twice if the host has left before the acknowledgment is handled."""
    stand = Stand("rsoft")
    return [named("iser with rsoft: " + test.__name__, test, stand)
            for test in (iser_connects, transfers_of_all_sizes_come_back, file_system_keeps_its_files,
                         parallel_transfers_keep_apart, lossy_wire_changes_nothing, iser_ends)]


def tests():
    """All tests."""
    found = []
    for kind in "rsoft", "rxe":
        found.append(named("%s: wire is made" % kind, wire_is_made, kind))
        found += tests_of_nvme(kind)
        if kind == "rsoft" and iscsi.is_there():
            found += tests_of_iser()
        found.append(named("%s: nothing is left" % kind, nothing_is_left, kind))
    for left, right in ("rsoft", "rsoft"), ("rsoft", "rxe"), ("rxe", "rsoft"):
        found.append(named("nfs with %s and %s: links are made" % (left, right),
                           lambda left=left, right=right: netns("up", LINK_A=left, LINK_B=right)))
        found.append(named("nfs with %s and %s: nfs_keeps_files" % (left, right), nfs_keeps_files))
    return found


def main():
    """Runs the tests with the module loaded."""
    if os.geteuid() != 0:
        ktap.skip_all("needs root")
    if FILE is None:
        ktap.skip_all("the module's file is not here")
    if os.path.isdir("/sys/module/" + SOFT):
        ktap.skip_all("%s is loaded" % SOFT)
    for name in "nvme-rdma", "nvmet-rdma":
        if "not found" in command("modprobe", name, check=False):
            ktap.skip_all("this kernel has no " + name)
    for name in ("rdma_rxe", "sd_mod", "target_core_file", "ib_iser", "ib_isert", "rpcrdma", "nfsd",
                 "nfsv4"):
        command("modprobe", name, check=False)
    if not os.path.ismount("/sys/kernel/config"):
        command("mount", "-t", "configfs", "configfs", "/sys/kernel/config")
    topology.load_needed(FILE)
    command("insmod", str(FILE))
    try:
        return ktap.run(tests())
    finally:
        wire.down()
        netns("down")
        command("rmmod", SOFT, check=False)


if __name__ == "__main__":
    sys.exit(main())
