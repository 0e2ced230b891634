# SPDX-License-Identifier: GPL-2.0
"""Cases with our module in one guest and the kernel's C implementation in the other, in both
directions.

A case is a class with `server(self, listening)` and `client(self)`. It runs with our side as the server
and then with the other one, in bounded time. Both sides set their enterprise identifiers before a case,
and compare their link groups after it.
"""

import errno
import os
import pathlib
import socket
import struct
import subprocess
import sys

import csmc
import ktap
import topology
from ktap import equal
from topology import known, receive

GUEST = os.environ.get("GUEST", "")
# The type of link of the RDMA devices, and their names.
LINK = os.environ.get("LINK", "rxe")
DEVICES = (LINK + "0", LINK + "1")
# Whether the devices have RoCE v1 only, so that both sides speak version 1 of SMC-R.
VERSION1 = os.environ.get("ROCE") == "1"
FAMILY = socket.AF_INET6 if os.environ.get("FAMILY") == "inet6" else socket.AF_INET
ADDRESSES = {socket.AF_INET: {"a": "192.168.77.1", "b": "192.168.77.2"},
             socket.AF_INET6: {"a": "fd77::1", "b": "fd77::2"}}[FAMILY]
OURS = os.path.isdir("/sys/module/rdma_sock")
UEIDS = pathlib.Path("/proc/net/rdma_sock/ueids")
LAB = "LAB.INTEROP"
FIRST_PORT = 6100
PEER_NO_SMC, NO_DEVICE, NO_UEID = 0x03010000, 0x03030000, 0x03030008


def sync(name, data=""):
    """Waits for the other guest; returns the word that it sent."""
    done = subprocess.run(["guest-sync", name, data], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError("the other guest is gone at " + name)
    return done.stdout.strip()


def need_both():
    """Ends the program as skipped outside of a pair of the two implementations."""
    if GUEST not in ADDRESSES:
        ktap.skip_all("needs two guests")
    theirs = sync("interop.side", "ours" if OURS else "c" if csmc.is_loaded() else "none")
    if {theirs, "ours" if OURS else "c"} != {"ours", "c"}:
        ktap.skip_all("needs our module in one guest and the kernel's in the other")
    await_address()


def await_address():
    """Waits until an RDMA device of this guest has the guest's address."""
    topology.await_own_gid(ADDRESSES[GUEST])


def set_ueids(names):
    """Replaces the enterprise identifiers of this side."""
    if OURS:
        UEIDS.write_text("\n".join(names) + "\n", encoding="ascii")
        equal(UEIDS.read_text(encoding="ascii").split(), list(names), "identifiers")
    else:
        csmc.Family().set_ueids(names)


def ipv4(gid):
    """The IPv4 address in a GID, in the notation of either side."""
    high, low = gid.split(":")[-2:]
    return "%d.%d.%d.%d" % (int(high, 16) >> 8, int(high, 16) & 255,
                            int(low, 16) >> 8, int(low, 16) & 255)


def groups():
    """The groups of this side: sorted (role, connections, links with their peers)."""
    if OURS:
        found = {}
        for line in topology.records(None, "links"):
            if line["state"] != "active":
                continue
            group = found.setdefault(line["lgr"], [line["role"], 0, []])
            group[1] += int(line["conns"])
            if "peer_gid" in line:
                group[2].append(ipv4(line["peer_gid"]))
        return sorted((role, conns, tuple(sorted(peers))) for role, conns, peers in found.values())
    family = csmc.Family()
    # The C side lists the links of all groups together.
    peers = tuple(sorted(ipv4(link["peer_gid"]) for link in family.links()))
    found = [(csmc.ROLES[group["role"]], group["conns"]) for group in family.groups()]
    return sorted((role, conns, peers[:1] if len(found) == 1 else ()) for role, conns in found)


def agree(moment):
    """Fails unless both sides have the same groups: complementary roles, and equal numbers of
    connections."""
    other = {"client": "server", "server": "client"}

    def text():
        return ",".join("%s %d" % (role, conns) for role, conns, _ in groups())

    for attempt in range(100):
        mine = text()
        theirs = sync("%s.groups.%d" % (moment, attempt), mine.replace(" ", "=") or "none")
        theirs = sorted(tuple(word.split("=")) for word in theirs.split(",") if "=" in word)
        want = sorted((other[role], count) for role, count in theirs)
        got = sorted(tuple(word.split()) for word in mine.split(",") if word)
        # Connections of the case before may be about to end on both sides.
        good = got == want and all(count == "0" for _, count in got)
        if sync("%s.same.%d" % (moment, attempt), str(good)) == "True" and good:
            return
        # The two sides do not count the end of a connection at the same moment.
        topology.time.sleep(0.1)
    raise AssertionError("groups: %r here, %r there" % (got, theirs))


def all_fallbacks():
    """The reasons of this side's fallbacks: codes as in /proc, with their counts."""
    if OURS:
        return {name.rpartition("_")[2]: count for name, count in topology.counters(None).items()
                if name.startswith("fallback_reason_")}
    return {"%08x" % code: count for code, count in csmc.Family().reasons().items()}


def fallbacks(reason):
    """The number of this side's fallbacks with a reason."""
    return all_fallbacks().get("%08x" % reason, 0)


def carried():
    """The number of this side's connections that use SMC now."""
    if OURS:
        return sum(line["mode"] == "smc" for line in topology.records(None, "conns"))
    return sum(group["conns"] for group in csmc.Family().groups())


def send_number(sock, number):
    """Sends a number in eight octets."""
    sock.sendall(struct.pack("!Q", number))


def receive_number(sock):
    """Receives a number in eight octets."""
    return struct.unpack("!Q", receive(sock, 8))[0]


def error_name(function, *args):
    """The name of the error of a call, or its value."""
    try:
        return function(*args)
    except TimeoutError:
        return "late"
    except OSError as error:
        return errno.errorcode[error.errno]


def both_ways(sock, mine, theirs, size):
    """Sends and receives `size` octets at the same time; seeds determine them."""
    want = known(theirs, size)
    child = topology.Child(lambda: sock.sendall(known(mine, size)))
    equal(receive(sock, size) == want, True, "%d bytes" % size)
    child.expect_success()


class Case:
    """Base of all cases."""

    smc = {"client": True, "server": True}
    ueids = {"ours": [LAB], "c": [LAB]}
    bound = 120
    role = ""
    port = 0
    name = ""

    def new_socket(self):
        """An unbound socket of this side."""
        sock = topology.new_socket(None, FAMILY, self.smc[self.role])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.settimeout(topology.BOUND)
        return sock

    def connect(self, sock=None):
        """Connects to the server."""
        sock = sock or self.new_socket()
        sock.connect((ADDRESSES["b" if GUEST == "a" else "a"], self.port))
        return sock

    @staticmethod
    def accept(listening):
        """Accepts a connection of the client."""
        sock, _ = listening.accept()
        sock.settimeout(topology.BOUND)
        return sock

    def meet(self, moment, data=""):
        """Waits for the other side."""
        return sync("%s.%s" % (self.name, moment), data)

    def listen(self, sock):
        """Makes a socket listen at the address that the client uses."""
        sock.bind((ADDRESSES[GUEST], self.port))
        sock.listen(1024)
        return sock

    def run(self):
        """Runs one side of the case."""
        listening = None
        with topology.bounded(self.bound):
            set_ueids(self.ueids["ours" if OURS else "c"])
            if self.role == "server":
                listening = self.listen(self.new_socket())
            self.meet("begin")
            try:
                if self.role == "server":
                    self.server(listening)  # pylint: disable=no-member
                else:
                    self.client()  # pylint: disable=no-member
            except Exception:
                print("# fallbacks of this side: %s" % all_fallbacks())
                raise
            finally:
                if listening is not None:
                    listening.close()
                self.meet("end")
            agree(self.name)


class Alike(Case):
    """A case in which both sides do the same with the connection: `go(self, sock)`."""

    def server(self, listening):
        """Accepts."""
        with self.accept(listening) as sock:
            self.go(sock)  # pylint: disable=no-member

    def client(self):
        """Connects."""
        with self.connect() as sock:
            self.go(sock)  # pylint: disable=no-member


def run(cases):
    """Runs each case in both directions, or those that the arguments name; the exit status."""
    need_both()
    tests = []
    for cls in cases:
        if sys.argv[1:] and cls.__name__ not in sys.argv[1:]:
            continue
        for server in ("ours", "c"):
            case = cls()
            case.role = "server" if (server == "ours") == OURS else "client"
            case.port = FIRST_PORT + len(tests)
            case.name = "%s_serves.%s" % (server, cls.__name__)

            def one(case=case):
                case.run()
            one.name = case.name
            tests.append(one)
    sync(os.path.basename(sys.argv[0]))
    return ktap.run(tests)
