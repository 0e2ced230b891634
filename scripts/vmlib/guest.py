# SPDX-License-Identifier: GPL-2.0

"""One guest as the host sees it: its folder, its three lines and its process."""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import time

LINES = ("console", "output", "control")


def wire():
    """The two ends of the virtual Ethernet between guests a and b."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for end in ends:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
    return dict(zip("ab", ends))


class Guest:
    """A guest that is or will be running.

    `folder` holds all that the run leaves: vars and command (to the guest); console.log and
    output.log (from its lines); dmesg.txt, kmemleak and *.ktap (written by the guest itself).
    """

    def __init__(self, letter, folder, out, prefix):
        self.letter = letter
        self.folder = folder
        self.out = out
        self.prefix = prefix
        self.process = None
        self.far = {}
        self.near = {}
        self.status = None
        self.failures = []
        folder.mkdir(parents=True)
        out.mkdir(parents=True, exist_ok=True)

    def write_job(self, values, env, command):
        """Leaves the guest its orders."""
        with open(self.folder / "vars", "w", encoding="utf-8") as f:
            for name, value in values.items():
                f.write(f"{name}={shlex.quote(str(value))}\n")
            for name, value in env.items():
                f.write(f"export {name}={shlex.quote(value)}\n")
        (self.folder / "command").write_text(command + "\n", encoding="utf-8")

    def open_lines(self):
        """Makes the lines; returns the descriptor numbers for the guest's side."""
        for name in LINES:
            self.near[name], self.far[name] = socket.socketpair()
        return {name: end.fileno() for name, end in self.far.items()}

    def spawn(self, argv, *descriptors, env=None):
        """Starts the guest's process in a group of its own, with only these descriptors."""
        fds = [end.fileno() for end in self.far.values()] + [d.fileno() for d in descriptors]
        with open(self.folder / "host.log", "wb") as log:
            log.write((shlex.join(map(str, argv)) + "\n").encode())
            log.flush()
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, pass_fds=fds,
                                            start_new_session=True, cwd=self.folder,
                                            env=env)
        for end in self.far.values():
            end.close()

    def tell(self, *words):
        """Sends a line on the control line; a guest that is gone does not matter."""
        self.note(">", " ".join(words))
        try:
            self.near["control"].sendall((" ".join(words) + "\n").encode())
        except OSError:
            pass

    def note(self, way, line):
        """Logs what passes on the control line."""
        with open(self.folder / "control.log", "a", encoding="utf-8") as f:
            f.write(f"{time.monotonic():.3f} {way} {line}\n")

    def kill(self):
        """Ends the guest and all its helper processes."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
        for end in self.near.values():
            end.close()

    def end_of_console(self):
        """The last lines of the guest's console, and what its emulator said."""
        parts = []
        for name in "console.log", "host.log":
            with contextlib.suppress(FileNotFoundError):
                parts += (self.folder / name).read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        return "\n".join(parts)

    def collect_ktap(self):
        """Saves what the command printed as KTAP, if it is KTAP."""
        try:
            text = (self.folder / "output.log").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        if re.search(r"^K?TAP version 1", text, re.M):
            (self.folder / "output.ktap").write_text(text, encoding="utf-8")
