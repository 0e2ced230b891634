#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""One of the two implementations goes away under traffic: the other side gets errors in bounded time,
and connections work again when the first is back.

Covers SMCR-CLS-33, KAL-05.
"""

import pathlib
import socket
import subprocess
import sys

import case
import csmc
import topology
from case import Case, DEVICES, LAB, LINK, OURS, both_ways, carried
from ktap import equal
from topology import Child, error_of, known, receive

# Time limit for detection by retransmission, by a link test, or by TCP.
SECONDS = 100
PARAMETERS = []

SILENCE = """
table netdev silence {
	chain in {
		type filter hook ingress device net0 priority 0; policy drop;
	}
	chain out {
		type filter hook egress device net0 priority 0; policy drop;
	}
}
"""


def be_silent():
    """Drops every frame that enters or leaves this kernel."""
    subprocess.run(["nft", "-f", "-"], input=SILENCE, text=True, check=True)


def speak():
    """Lets frames pass again."""
    topology.command("nft", "delete", "table", "netdev", "silence")


def until_error(sock):
    """Sends until an error, which must be one of a lost connection."""
    sock.settimeout(SECONDS)
    error = "none"
    while error == "none":
        error = error_of(sock.sendall, known("x", 50000))
    equal(error in ("late", "EAGAIN"), False, "no error in %d s" % SECONDS)


def read_to_the_end(sock):
    """Reads until an error or the end of the stream; its name."""
    sock.settimeout(SECONDS)
    try:
        while sock.recv(65536):
            pass
    except TimeoutError as error:
        equal(bool(error.errno), True, "an error in %d s" % SECONDS)
    except OSError:
        pass
    else:
        return "end"
    return "error"


def module_goes():
    """Removes the module of this side as soon as it is unused."""
    if OURS:
        topology.until(lambda: topology.module_users() == 0, "rdma_sock is in use")
        topology.command("rmmod", "rdma_sock")
    else:
        csmc.unload()


def module_comes():
    """Loads the module of this side."""
    if OURS:
        topology.command("insmod", str(topology.module_file()), *PARAMETERS)
    else:
        csmc.load()
    case.set_ueids([LAB])
    test_soon()


def test_soon(seconds=1):
    """Sets a short test time for idle links; both implementations have a file of the same name."""
    pathlib.Path("/proc/sys/net/smc/smcr_testlink_time").write_text("%d\n" % seconds,
                                                                    encoding="ascii")


def device_goes():
    """Removes the RDMA device of this side. On the C side that ends when programs have closed its
    connections."""
    return subprocess.Popen(["rdma", "link", "delete", DEVICES[0]])


def is_gone(removal):
    """Whether the device is gone."""
    equal(removal.wait(topology.BOUND), 0, "status of the removal")


def device_comes():
    """Makes the device again."""
    topology.command("rdma", "link", "add", DEVICES[0], "type", LINK, "netdev", "net0")
    case.await_address()


class Gone(Case):
    """Base of these cases: a busy and an idle connection, then new ones."""

    bound = 300
    victim = ""
    # Whether the victim closes its connections in order.
    orderly = False

    def is_victim(self):
        """Whether this side goes away."""
        return OURS == (self.victim == "ours")

    def two(self, listening):
        """Accepts two connections, which their first octet identifies. A C server may return the second
        first, as a work item of its own handles each."""
        if listening:
            found = {}
            for _ in range(2):
                sock = self.accept(listening)
                found[receive(sock, 1)] = sock
            return found[b"b"], found[b"i"]
        busy, idle = self.connect(), self.connect()
        busy.sendall(b"b")
        idle.sendall(b"i")
        return busy, idle

    def afterwards(self, listening):
        """Fails unless new connections use SMC."""
        # The C side drops a CONFIRM LINK that overtakes its own preparations; ours repeats it.
        with (self.accept(listening) if listening else self.connect()) as sock:
            both_ways(sock, "n" + self.role, "n" + ("client" if listening else "server"), 300000)
            equal(carried(), 1, "carried by SMC")
            self.meet("after")

    def survive(self, busy, idle):
        """Fails unless both connections end with an error, or with the end of the stream on the C
        side."""
        writer = Child(lambda: until_error(busy))
        reader = Child(lambda: equal(read_to_the_end(idle) == "error" or not OURS or self.orderly,
                                     True, "an error"))
        writer.expect_success(SECONDS + 5)
        reader.expect_success(SECONDS + 5)
        busy.close()
        idle.close()

    def server(self, listening):
        """Serves."""
        self.go(listening)

    def client(self):
        """Connects."""
        self.go(None)

    def run(self):
        super().run()
        test_soon(30)

    def go(self, listening):
        """Runs one side."""
        test_soon()
        self.meet("set")
        busy, idle = self.two(listening)
        equal(carried() >= 2, True, "carried by SMC")
        self.meet("both")
        if self.is_victim():
            receive(busy, 300000)
            # A listening socket would keep the module. The client connects to a new one.
            self.die(busy, idle, listening)
        else:
            self.survive(busy, idle)
            self.meet("told")
            self.be_alone()
        if listening:
            listening.close()
            listening = self.listen(self.new_socket())
        self.meet("back")
        self.afterwards(listening)
        if listening:
            listening.close()

    def be_alone(self):
        """Runs on the survivor while the other side is away."""

    def die(self, busy, idle, listening):
        """Lets this side go away and return."""
        raise NotImplementedError


class OursReboots(Gone):
    """Our side falls silent, loses its state, and returns as a new kernel would."""

    victim = "ours"

    def die(self, busy, idle, listening):
        be_silent()
        try:
            removal = device_goes()
            for sock in (busy, idle, listening):
                if sock:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    sock.close()
            is_gone(removal)
            module_goes()
            self.meet("told")
            module_comes()
        finally:
            speak()
        device_comes()


class TheirsReboots(OursReboots):
    """The C side falls silent, loses its state, and returns."""

    victim = "c"


class OurModuleGoes(Gone):
    """Our module refuses to unload under traffic, and unloads after the close of the connections. The
    link group, kept for later connections, ends on both sides."""

    victim = "ours"
    orderly = True

    def die(self, busy, idle, listening):
        name = "rdma_sock" if OURS else "smc"
        equal("in use" in topology.command("rmmod", name, check=False), True, "rmmod with connections")
        busy.close()
        idle.close()
        if listening:
            listening.close()
        module_goes()
        self.meet("told")
        self.meet("alone")
        module_comes()

    def be_alone(self):
        topology.until(lambda: not case.groups(), "link groups are left")
        self.meet("alone")


class TheirModuleGoes(OurModuleGoes):
    """The C module refuses to unload under traffic, and unloads after the close of the connections."""

    victim = "c"


def main():
    """Runs all cases."""
    if OURS:
        PARAMETERS.extend(topology.module_parameters())
    with topology.no_autoload():
        return case.run([OurModuleGoes, TheirModuleGoes, OursReboots, TheirsReboots])


if __name__ == "__main__":
    sys.exit(main())
