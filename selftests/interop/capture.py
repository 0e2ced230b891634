#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Captures the traffic between our module and the kernel's C implementation, and decodes it with
tshark. Its dissector, an independent implementation, must know every message and find none
malformed."""

import contextlib
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import case
import csmc
import ktap
import topology
from case import Case, OURS, both_ways
from ktap import equal
from urgent import await_urgent, urgent_byte

# Names that tshark gives to the required messages.
NAMES = ("[SMC-Rv2-Proposal]", "[SMC-Rv2-Accept]", "[SMC-Rv2-Confirm]", "CDC Message")
# The C side writes the length of LLC messages in its host's byte order, in which tshark knows none.
# With a C server all messages are like that; a server of ours begins with the right order.
OF_OURS = ("Confirm Link",)


@contextlib.contextmanager
def captured(file):
    """Captures a network device into a file."""
    words = ["tcpdump", "-i", "net0", "-B", "65536", "-U", "-Z", "root", "-w", str(file),
             "tcp or udp port 4791"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "listening on" in line:
                break
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.stderr.read()


def frames(file, *words):
    """The output of tshark for a capture, a line per frame."""
    # Without the option tshark takes the payload of queue pairs for remote procedure calls.
    text = topology.command("tshark", "-n", "-r", str(file), "--disable-protocol", "rpcordma", *words)
    return [line for line in text.splitlines() if not line.startswith("Running as user")]


class Decoded(Case):
    """First contact, data, urgent data, and the end of connections of both kinds."""

    def talk(self, make):
        """Runs one side of three connections."""
        for number in range(3):
            with make() as sock:
                both_ways(sock, "d" + self.role, "d" + ("client" if self.role == "server" else "server"),
                          1 + number * 70000)
                if self.role == "client":
                    sock.send(b"!", socket.MSG_OOB)
                else:
                    await_urgent(sock)
                    equal(urgent_byte(sock), b"!", "urgent data")
                self.meet("talked.%d" % number)
        self.meet("over")

    def go(self, make):
        """Runs both sides; ours captures."""
        if not OURS:
            self.meet("captured")
            return self.talk(make)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "wire.pcap")
            with captured(file):
                self.meet("captured")
                self.talk(make)
            text = "\n".join(frames(file))
            names = NAMES + OF_OURS if self.role == "server" else NAMES
            equal([name for name in names if name not in text], [], "what was not seen")
            equal(frames(file, "-Y", "_ws.malformed"), [], "malformed frames")
        return None

    def server(self, listening):
        """Serves."""
        self.go(lambda: self.accept(listening))

    def client(self):
        """Connects."""
        self.go(self.connect)


if __name__ == "__main__":
    if not shutil.which("tshark"):
        ktap.skip_all("there is no tshark")
    if not OURS:
        # A new first contact is needed.
        csmc.begin_anew()
    sys.exit(case.run([Decoded]))
