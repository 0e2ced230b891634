# SPDX-License-Identifier: GPL-2.0
"""iSCSI by iSER: a target of ib_isert, and an initiator of ib_iser with the programs of open-iscsi."""

import pathlib
import shutil
import subprocess

import topology
from ktap import equal
from topology import command

CONFIG = pathlib.Path("/sys/kernel/config/target")
NAME = "iqn.2026-01.lab:storage"
INITIATOR = "iqn.2026-01.lab:initiator"
PORT = "3260"
DAEMON = "/sbin/iscsid"


def is_there():
    """Whether the programs of the initiator are installed."""
    return shutil.which("iscsiadm") is not None and pathlib.Path(DAEMON).exists()


def put(folder, **values):
    """Writes attributes of a folder in their order."""
    for name, value in values.items():
        (folder / name).write_text(value, encoding="ascii")


class Target:
    """A target with one disk on a portal for RDMA."""

    def __init__(self, store, address):
        self.made = []
        self.adapter = self.folder("core/fileio_0")
        self.disk = self.folder("core/fileio_0/disk")
        size = store.path.stat().st_size
        put(self.disk, control="fd_dev_name=%s,fd_dev_size=%d,fd_buffered_io=1" % (store.path, size),
            enable="1")
        # Fails if no module of this kernel is of iSCSI.
        self.fabric = self.folder("iscsi")
        self.folder("iscsi/" + NAME)
        self.group = self.folder("iscsi/%s/tpgt_1" % NAME)
        unit = self.folder("iscsi/%s/tpgt_1/lun/lun_0" % NAME)
        self.link = unit / "disk"
        self.link.symlink_to(self.disk)
        put(self.group / "attrib", authentication="0", generate_node_acls="1", cache_dynamic_acls="1",
            demo_mode_write_protect="0")
        self.portal = self.folder("iscsi/%s/tpgt_1/np/%s:%s" % (NAME, address, PORT))
        put(self.portal, iser="1")
        put(self.group, enable="1")

    def folder(self, name):
        """Makes an object."""
        path = CONFIG / name
        path.mkdir()
        self.made.append(path)
        return path

    def remove(self):
        """Removes it. Its sessions end."""
        put(self.group, enable="0")
        self.link.unlink()
        for path in reversed(self.made):
            path.rmdir()


class Initiator:
    """The daemon of open-iscsi, and a session with the target."""

    def __init__(self, address):
        self.portal = "%s:%s" % (address, PORT)
        pathlib.Path("/etc/iscsi/initiatorname.iscsi").write_text("InitiatorName=%s\n" % INITIATOR,
                                                                  encoding="ascii")
        pathlib.Path("/run/lock").mkdir(exist_ok=True)
        # At its end it sends signals to all of its group.
        self.daemon = subprocess.Popen([DAEMON, "-f"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
        topology.until(lambda: "ISCSIADM" in pathlib.Path("/proc/net/unix").read_text(encoding="ascii"),
                       "socket of iscsid")
        self.disk = None

    def manage(self, *words, check=True):
        """A call of iscsiadm for the target."""
        return command("iscsiadm", "-m", "node", "-T", NAME, "-p", self.portal, *words, check=check)

    def login(self, **settings):
        """Makes the session. Waits for its disk."""
        self.manage("-o", "new", "-I", "iser")
        for name, value in settings.items():
            self.manage("-o", "update", "-n", name.replace("__", "."), "-v", value)
        self.manage("--login")
        topology.until(self.find_disk, "disk of the session")

    def find_disk(self):
        """Looks for the disk of the session."""
        for file in pathlib.Path("/sys/class/iscsi_session").glob("session*/device/target*/*:*/block/*"):
            self.disk = "/dev/" + file.name
        return self.disk is not None and pathlib.Path(self.disk).exists()

    def transport(self):
        """The transport of the session."""
        return command("iscsiadm", "-m", "session").split(":")[0]

    def logout(self):
        """Ends the session."""
        self.manage("--logout")
        self.manage("-o", "delete")
        topology.until(lambda: not list(pathlib.Path("/sys/class/iscsi_session").glob("session*")),
                       "end of the session")

    def end(self):
        """Ends the daemon and what is left of a session."""
        self.manage("--logout", check=False)
        self.daemon.terminate()
        self.daemon.wait(topology.BOUND)
