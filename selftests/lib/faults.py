# SPDX-License-Identifier: GPL-2.0
"""Memory with page faults that nothing resolves. A task in the kernel that reads or writes it sleeps
with the locks it holds."""

import ctypes
import mmap
import os
import pathlib
import select
import struct

import topology

PAGE = mmap.PAGESIZE
SYS_USERFAULTFD = 323
UFFDIO_API, UFFDIO_REGISTER, UFFDIO_ZEROPAGE = 0xc018aa3f, 0xc020aa00, 0xc020aa04
MODE_MISSING = 1
MESSAGE = 32


def _ioctl(fd, request, data):
    """Performs an ioctl with a structure."""
    topology.libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
    if topology.libc.ioctl(fd, request, ctypes.addressof(data)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Trap:
    """Two pages, of which only the first is present. A task that touches the second one sleeps until
    `release` or until its process is killed."""

    @staticmethod
    def allow():
        """Permits such memory to every user, as a user-space file system (FUSE) would. Needs root."""
        pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd").write_text("1", encoding="ascii")

    def __init__(self):
        self.fd = topology.libc.syscall(SYS_USERFAULTFD, os.O_CLOEXEC | os.O_NONBLOCK)
        if self.fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, "userfaultfd: " + os.strerror(number))
        _ioctl(self.fd, UFFDIO_API, ctypes.create_string_buffer(struct.pack("=QQQ", 0xaa, 0, 0)))
        self.memory = mmap.mmap(-1, 2 * PAGE)
        self.memory[0] = 0
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        area = struct.pack("=QQQQ", self.base + PAGE, PAGE, MODE_MISSING, 0)
        _ioctl(self.fd, UFFDIO_REGISTER, ctypes.create_string_buffer(area))

    def before(self, count):
        """The address of a buffer whose first `count` octets are present."""
        return self.base + PAGE - count

    def caught(self, count, seconds=topology.BOUND):
        """Waits until `count` tasks sleep in the trap."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        while count > 0:
            if not poll.poll(seconds * 1000):
                raise AssertionError("%d tasks have not come into the trap" % count)
            count -= len(os.read(self.fd, 16 * MESSAGE)) // MESSAGE

    def release(self):
        """Resolves the fault, so that all tasks continue."""
        area = struct.pack("=QQQQ", self.base + PAGE, PAGE, 0, 0)
        _ioctl(self.fd, UFFDIO_ZEROPAGE, ctypes.create_string_buffer(area))
