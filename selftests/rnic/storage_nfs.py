# SPDX-License-Identifier: GPL-2.0
"""NFS over RDMA: a server of nfsd in one network namespace, and a mount in the other one."""

import os
import pathlib
import select
import struct

import topology
from topology import Child, command

CONTROL = pathlib.Path("/run/nfsd")
PIPES = pathlib.Path("/run/rpc_pipefs")
PORT = "20049"
# For good, in seconds since 1970.
NEVER = "2147483647"
# Of the export: any port of a client, no checks of folders above, and the identity that follows.
FLAGS = "%d" % (0x2 | 0x400 | 0x2000)
# The root of all that a server of NFS 4 has: identity 0, of the type of numbers.
ROOT = "1 \\x00000000"


def tell(name, text):
    """Writes a line to a file of the server, whose files are those of its namespace."""
    with open(name, "w", encoding="ascii") as file:
        file.write(text + "\n")


# The question for the version of an answerer, of <linux/nfsd/cld.h>.
GET_VERSION = 5
VERSION = 2


def keep_no_clients():
    """Answers as the daemon does that remembers clients for the next start: it knows none, so that no time has
    to pass for claims."""
    pipe = PIPES / "nfsd/cld"
    topology.until(pipe.exists, "pipe of the server")
    file = os.open(pipe, os.O_RDWR)
    poll = select.poll()
    poll.register(file, select.POLLIN)
    while poll.poll():
        question = os.read(file, 4096)
        version, kind, _, number = struct.unpack("=BBhI", question[:8])
        rest = question[8:]
        if kind == GET_VERSION:
            rest = bytes([VERSION]) + rest[1:]
        os.write(file, struct.pack("=BBhI", version, kind, 0, number) + rest)


class Server:
    """Exports a folder to one client."""

    def __init__(self, folder, client):
        for folder_of_kernel in CONTROL, PIPES:
            folder_of_kernel.mkdir(exist_ok=True)
        with topology.inside("b"):
            command("mount", "-t", "nfsd", "nfsd", str(CONTROL))
            command("mount", "-t", "rpc_pipefs", "rpc_pipefs", str(PIPES))
            self.memory = Child(keep_no_clients)
            tell(CONTROL / "versions", "-3 +4 +4.2")
            tell(CONTROL / "portlist", "rdma " + PORT)
            tell(CONTROL / "threads", "4")
            caches = "/proc/thread-self/net/rpc/%s/channel"
            tell(caches % "auth.unix.ip", "nfsd %s %s lab" % (client, NEVER))
            tell(caches % "nfsd.fh", "lab %s %s %s" % (ROOT, NEVER, folder))
            tell(caches % "nfsd.export", "lab %s %s %s 65534 65534 0" % (folder, NEVER, FLAGS))

    def remove(self):
        """Ends it."""
        with topology.inside("b"):
            tell(CONTROL / "threads", "0")
            self.memory.kill()
            command("umount", str(PIPES))
            command("umount", str(CONTROL))


class Mount:
    """The folder of the server, on the side of the client."""

    def __init__(self, folder, server, client):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.options = "vers=4.2,proto=rdma,port=%s,addr=%s,clientaddr=%s" % (PORT, server, client)
        self.server = server

    def __enter__(self):
        with topology.inside("a"):
            command("mount", "-i", "-t", "nfs", "-o", self.options, self.server + ":/", str(self.folder))
        return self.folder

    def __exit__(self, *_):
        command("umount", str(self.folder))
