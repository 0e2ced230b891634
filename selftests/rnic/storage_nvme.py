# SPDX-License-Identifier: GPL-2.0
"""NVMe over RDMA: a target of nvmet-rdma, and a host of nvme-rdma."""

import contextlib
import pathlib

import topology
from ktap import equal

CONFIG = pathlib.Path("/sys/kernel/config/nvmet")
FABRICS = "/dev/nvme-fabrics"
NAME = "nqn.2026-01.lab:storage"
PORT = "4420"
IDENTITY = "7b1c6a4e-9a53-4c6b-8f4d-3d0a6d1f2e01"


def put(folder, **values):
    """Writes attributes of a folder in their order."""
    for name, value in values.items():
        (folder / name).write_text(value, encoding="ascii")


class Target:
    """A subsystem with one namespace on a port for RDMA."""

    def __init__(self, store, address):
        self.system = CONFIG / "subsystems" / NAME
        self.space = self.system / "namespaces/1"
        self.port = CONFIG / "ports/1"
        self.link = self.port / "subsystems" / NAME
        self.system.mkdir()
        put(self.system, attr_allow_any_host="1")
        self.space.mkdir()
        # Only files that are read and written by the page cache are seen beside the target.
        put(self.space, device_path=str(store.path), device_uuid=IDENTITY, buffered_io="1", enable="1")
        self.port.mkdir()
        put(self.port, addr_trtype="rdma", addr_adrfam="ipv4", addr_traddr=address, addr_trsvcid=PORT)
        self.link.symlink_to(self.system)

    def listen_again(self):
        """Listens on a new device: nvmet-rdma gives up a port for good when its device goes."""
        self.link.unlink()
        self.link.symlink_to(self.system)

    def remove(self):
        """Removes it. Its controllers end."""
        self.link.unlink()
        self.port.rmdir()
        put(self.space, enable="0")
        self.space.rmdir()
        self.system.rmdir()


class Host:
    """A connection to the target, and its disk."""

    def __init__(self, address, **options):
        words = {"transport": "rdma", "traddr": address, "trsvcid": PORT, "nqn": NAME,
                 "hostid": IDENTITY, "hostnqn": "nqn.2026-01.lab:host", **options}
        with open(FABRICS, "r+b", buffering=0) as fabrics:
            fabrics.write(",".join("%s=%s" % one for one in words.items()).encode("ascii"))
            answer = dict(word.split("=") for word in fabrics.read(4096).decode("ascii").strip().split(","))
        self.controller = pathlib.Path("/sys/class/nvme/nvme" + answer["instance"])
        self.disk = None
        topology.until(self.find_disk, "disk of " + self.controller.name)

    def find_disk(self):
        """Looks for the disk by its identity, which each path to it has as well."""
        for file in pathlib.Path("/sys/block").glob("nvme*/uuid"):
            path = pathlib.Path("/dev", file.parent.name)
            if file.read_text(encoding="ascii").strip() == IDENTITY and path.exists():
                self.disk = str(path)
        return self.disk is not None

    def state(self):
        """What the controller says of itself; "gone" when it has been removed."""
        try:
            return (self.controller / "state").read_text(encoding="ascii").strip()
        except OSError:
            return "gone"

    def await_state(self, *states):
        """Waits until the controller is in one of the states."""
        topology.until(lambda: self.state() in states,
                       "%s is %s, not %s" % (self.controller.name, self.state(), " or ".join(states)))

    def size(self):
        """Octets of the disk."""
        sectors = pathlib.Path("/sys/block", self.disk.removeprefix("/dev/"), "size")
        return 512 * int(sectors.read_text(encoding="ascii"))

    def reset(self):
        """Makes the connection again."""
        # A way that is not found in time is tried again later.
        with contextlib.suppress(OSError):
            (self.controller / "reset_controller").write_text("1", encoding="ascii")
        self.await_state("live")

    def disconnect(self):
        """Ends the connection, if the controller is there."""
        if self.state() != "gone":
            (self.controller / "delete_controller").write_text("1", encoding="ascii")
        self.await_state("gone")
