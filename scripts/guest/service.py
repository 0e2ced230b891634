#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Runs /job/command in a guest with an init of its own, as scripts/guest/init does in the others, and
powers off. That file describes the two lines to the host."""

import pathlib
import subprocess
import sys
import threading

FOLDERS = {"src": "ro,cache=loose", "job": "rw", "out": "rw"}
MODULES = ("virtio_console", "9pnet_virtio", "9p")
PORTS = pathlib.Path("/sys/class/virtio-ports")


def port(name):
    """The character device of a line."""
    for entry in PORTS.iterdir():
        if (entry / "name").read_text(encoding="ascii").strip() == name:
            return open(pathlib.Path("/dev", entry.name), "r+b", buffering=0)
    sys.exit(f"no line {name}")


def mount():
    """The folders of the host."""
    for tag, options in FOLDERS.items():
        folder = pathlib.Path("/", tag)
        folder.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "9p", "-o", f"{options},trans=virtio,version=9p2000.L,msize=512000",
                        tag, folder], check=True)


class Host:
    """The control line."""

    def __init__(self):
        self.line = port("control")
        self.finish = threading.Event()
        self.bye = threading.Event()
        threading.Thread(target=self.listen, daemon=True).start()

    def tell(self, *words):
        """Sends a line."""
        self.line.write((" ".join(words) + "\n").encode())

    def listen(self):
        """Acts on the words of the host."""
        pending = b""
        while data := self.line.read(4096):
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                word = line.decode().partition(" ")[0]
                if word == "finish":
                    self.finish.set()
                elif word == "bye":
                    self.bye.set()
                elif word == "dump":
                    with open("/job/stacks.txt", "wb") as log:
                        subprocess.run(["ps", "-eo", "pid,stat,wchan,args"], stdout=log, check=False)
                    self.tell("dumped")


def main():
    """One command."""
    for name in MODULES:
        subprocess.run(["modprobe", name], check=True)
    subprocess.run(["udevadm", "settle"], check=False)
    mount()
    output = port("output")
    host = Host()
    done = subprocess.run(["sh", "/job/command"], stdin=subprocess.DEVNULL, stdout=output,
                          stderr=subprocess.STDOUT, check=False)
    host.tell("exit", str(done.returncode))
    host.finish.wait()
    with open("/job/dmesg.txt", "wb") as log:
        subprocess.run(["dmesg"], stdout=log, check=False)
    output.write(b"\0end\n")
    host.tell("end")
    host.bye.wait()
    subprocess.run(["systemctl", "poweroff", "--no-block"], check=True)


if __name__ == "__main__":
    main()
