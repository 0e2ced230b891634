# SPDX-License-Identifier: GPL-2.0
"""Octets on disks and in file systems, written and compared."""

import hashlib
import mmap
import os
import pathlib
import random
import select

import topology
from ktap import equal
from topology import Child, command

MIB = 1 << 20
# Octets of the data of direct transfers, where the disk has blocks for them: below a page, in the command
# itself or apart from it, pages and parts of pages, and more than one command carries.
SIZES = (512, 1024, 4096, 4608, 8192, 16384, 16896, 65536, 131072, 131072 + 512, MIB, 2 * MIB)


def octets(seed, size):
    """Octets that a seed determines."""
    return random.Random(seed).randbytes(size)


class Store:
    """The file behind a disk of a target. What it holds is seen without the disk."""

    def __init__(self, path, size):
        self.path = pathlib.Path(path)
        with open(self.path, "wb") as file:
            file.truncate(size)

    def read(self, offset, size):
        """Reads octets."""
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def write(self, offset, data):
        """Writes octets."""
        with open(self.path, "r+b") as file:
            file.seek(offset)
            file.write(data)

    def remove(self):
        """Removes the file."""
        self.path.unlink()


class Disk:
    """A disk that is read and written past the page cache."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR | os.O_DIRECT)
        block = pathlib.Path("/sys/block", pathlib.Path(path).name, "queue/logical_block_size")
        self.block = int(block.read_text(encoding="ascii"))
        # Addresses that begin a page.
        self.memory = mmap.mmap(-1, 4 * MIB)

    def write(self, offset, data, shift=0):
        """Writes octets from memory that begins `shift` octets into a page."""
        view = memoryview(self.memory)[shift:shift + len(data)]
        view[:] = data
        equal(os.pwritev(self.file, [view], offset), len(data), "octets written")

    def read(self, offset, size, shift=0):
        """Reads octets."""
        view = memoryview(self.memory)[shift:shift + size]
        equal(os.preadv(self.file, [view], offset), size, "octets read")
        return bytes(view)

    def scatter(self, offset, data, piece):
        """Writes octets from pieces of memory in reverse order, with a gap behind each."""
        views = []
        for number, start in enumerate(range(0, len(data), piece)):
            view = memoryview(self.memory)[4 * MIB - 2 * piece * (number + 1):][:piece]
            view[:] = data[start:start + piece]
            views.append(view)
        equal(os.pwritev(self.file, views, offset), len(data), "octets written")

    def close(self):
        """Closes it."""
        os.close(self.file)


def sizes_come_back(path, store):
    """Direct transfers of many sizes, in both directions, with memory that begins anywhere in a page."""
    disk = Disk(path)
    try:
        at = 0
        for size in (size for size in SIZES if size % disk.block == 0):
            for shift in (0, 512, 3584) if size < MIB else (512,):
                there, back = octets("there %d" % at, size), octets("back %d" % at, size)
                disk.write(at, there, shift)
                equal(store.read(at, size) == there, True, "%d octets to the target" % size)
                store.write(at, back)
                equal(disk.read(at, size, shift) == back, True, "%d octets from the target" % size)
                at += size
        # Memory may begin anywhere, but an element of it is whole blocks.
        for piece in disk.block, 4096, 8192:
            data = octets(piece, 16 * piece)
            disk.scatter(at, data, piece)
            equal(store.read(at, len(data)) == data, True, "pieces of %d octets" % piece)
            at += len(data)
    finally:
        disk.close()


class Files:
    """Files of many sizes in a folder."""

    def __init__(self, folder, count, largest):
        self.folder = pathlib.Path(folder)
        chance = random.Random(str(folder))
        self.sizes = [0, 1, 4095, 4097] + [chance.randrange(largest) for _ in range(count)]

    def paths(self):
        """Each file with its number and size."""
        for number, size in enumerate(self.sizes):
            yield self.folder / ("%d" % (number % 4)) / ("file%d" % number), number, size

    def write(self):
        """Writes them."""
        for path, number, size in self.paths():
            path.parent.mkdir(exist_ok=True)
            with open(path, "wb") as file:
                file.write(octets(number, size))
        command("sync", "-f", str(self.folder))

    def compare(self, folder=None):
        """Fails unless the files are what was written, here or in another folder."""
        for path, number, size in self.paths():
            if folder is not None:
                path = pathlib.Path(folder) / path.relative_to(self.folder)
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            equal(found, hashlib.sha256(octets(number, size)).hexdigest(), str(path))


def forget_pages():
    """Empties the page cache of what is not in use."""
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")


def file_system_keeps(path, folder):
    """Makes a file system on a disk, and compares its files after the page cache was emptied."""
    command("mkfs.ext4", "-q", "-F", path)
    folder.mkdir(exist_ok=True)
    files = Files(folder, 20, 300000)
    command("mount", "-t", "ext4", path, str(folder))
    try:
        files.write()
    finally:
        command("umount", str(folder))
    forget_pages()
    command("mount", "-t", "ext4", "-o", "ro", path, str(folder))
    try:
        files.compare()
    finally:
        command("umount", str(folder))
    command("e2fsck", "-f", "-n", path)


def transfers(path, number, count, ready=None):
    """Random direct transfers in a part of a disk of its own; `count` of them, or until one fails. Reads are
    compared with what was written."""
    chance = random.Random(number)
    size = MIB
    base = 8 * MIB + number * size
    disk = Disk(path)
    held = bytearray(octets(number, size))
    disk.write(base, held)
    done = 0
    while done < count:
        length = disk.block * chance.randrange(1, 80000 // disk.block)
        at = disk.block * chance.randrange((size - length) // disk.block)
        shift = 512 * chance.randrange(8)
        if chance.random() < 0.5:
            data = chance.randbytes(length)
            disk.write(base + at, data, shift)
            held[at:at + length] = data
        else:
            equal(disk.read(base + at, length, shift) == held[at:at + length], True,
                  "transfer %d of process %d" % (done, number))
        done += 1
        if done == 3 and ready is not None:
            os.write(ready, b".")
    equal(disk.read(base, size) == held, True, "all of process %d" % number)
    disk.close()


def parallel_transfers(path, processes, count):
    """Transfers of many processes at a time."""
    children = [Child(lambda number=number: transfers(path, number, count))
                for number in range(processes)]
    for child in children:
        child.expect_success()


def until_error(path, number, ready):
    """Transfers until one fails, which is an error of the disk."""
    try:
        transfers(path, number, 1 << 30, ready)
    except OSError as error:
        print("# process %d: %s" % (number, error))


class Load:
    """Processes with transfers that go on until the disk fails."""

    def __init__(self, path, processes):
        self.ready, writing = os.pipe()
        self.children = [Child(lambda number=number: until_error(path, number, writing))
                         for number in range(processes)]
        os.close(writing)

    def await_progress(self):
        """Waits until each process has done some transfers."""
        poll = select.poll()
        poll.register(self.ready, select.POLLIN)
        seen = 0
        while seen < len(self.children):
            equal(bool(poll.poll(topology.BOUND * 1000)), True, "progress of the load")
            more = len(os.read(self.ready, 64))
            equal(more > 0, True, "processes of the load are alive")
            seen += more

    def expect_errors(self):
        """Fails unless each process ends with an error of the disk."""
        for child in self.children:
            child.expect_success()
        os.close(self.ready)

    def give_up(self):
        """Ends what is left."""
        for child in self.children:
            child.give_up()
