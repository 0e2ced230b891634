# SPDX-License-Identifier: GPL-2.0
"""The network namespaces of netns.sh, with the sockets and processes in them.

The client's side is "a" (namespace rs-a, 10.9.0.1, fd09::1), the server's is "b" (rs-b, .2).
"""

import atexit
import contextlib
import ctypes
import errno
import hashlib
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import time
import traceback

import ktap

AF_SMC = 43
IPPROTO_SMC = 256
IPPROTO_SDP = 257
IPPROTO_DUAL = 258
HERE = pathlib.Path(__file__).resolve().parent
HOSTS = {socket.AF_INET: {"a": "10.9.0.1", "b": "10.9.0.2"},
         socket.AF_INET6: {"a": "fd09::1", "b": "fd09::2"}}
SMC = os.environ.get("SMC") != "0"
# Factor of time on kernels with every checker.
SLOW = 4 if pathlib.Path("/sys/kernel/debug/kmemleak").exists() else 1
# Time limit for anything that must end by itself.
BOUND = 60 * SLOW

# Protocol numbers of the engines, and what their counters begin with. Sockets of both have those of SMC.
ENGINES = {"smc": (IPPROTO_SMC, ""), "sdp": (IPPROTO_SDP, "sdp_"), "dual": (IPPROTO_DUAL, "")}
# The engine that new sockets ask for.
ENGINE = ["smc"]
# Counters that each engine has.
OF_EACH = ("active_conns", "tx_bytes", "rx_bytes", "tcp_payload_bytes", "fallback_clnt", "fallback_srv", "spins",
           "spins_in_vain")

libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def engine(name):
    """Sockets ask for that engine during the block, and counters are its own."""
    was, ENGINE[0] = ENGINE[0], name
    try:
        yield
    finally:
        ENGINE[0] = was


def by_sdp(*tests):
    """The same tests with sockets of SDP."""
    def variant(test):
        def run():
            with engine("sdp"):
                test()
        run.name = "sdp_" + (getattr(test, "name", None) or test.__name__)
        return run
    return [variant(test) for test in tests]


def command(*words, check=True):
    """Runs a command; its output."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if check and done.returncode != 0:
        raise AssertionError("%s: status %d: %s" % (" ".join(words), done.returncode, done.stdout))
    return done.stdout


def netns(word, asks=False, **env):
    """Runs netns.sh up or down. `asks`: the test is about the question whether a host has SDP."""
    done = subprocess.run([HERE / "netns.sh", word], env={**os.environ, **env}, check=False)
    if done.returncode != 0:
        raise AssertionError("netns.sh %s failed" % word)
    if word == "up" and ENGINE[0] == "sdp" and not asks:
        skip_question()


def skip_question():
    """Has clients of SDP try a host without the question before, whose answer has to come within 150 ms:
    otherwise they would use TCP, and the host have no SDP for 30 s."""
    for side in "ab":
        with inside(side):
            pathlib.Path("/proc/sys/net/rdma_sock/sdp_probe").write_text("cm\n", encoding="ascii")


def need_module():
    """Ends the program as skipped where these tests cannot run."""
    if os.geteuid() != 0:
        ktap.skip_all("needs root")
    if not SMC:
        ktap.skip_all("is about SMC only")
    if not os.path.isdir("/sys/module/rdma_sock"):
        ktap.skip_all("there is no module rdma_sock here")
    atexit.register(netns, "down")


@contextlib.contextmanager
def inside(side):
    """Moves this thread to the namespace of a side for the block; None: the thread stays."""
    if side is None:
        yield
        return
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open("/run/netns/rs-" + side, os.O_RDONLY)
    try:
        os.setns(there, os.CLONE_NEWNET)
        yield
    finally:
        os.setns(home, os.CLONE_NEWNET)
        os.close(there)
        os.close(home)


def new_socket(side, family=socket.AF_INET, smc=True, flags=0):
    """A socket in the namespace of a side."""
    with inside(side):
        fd = libc.socket(int(family), socket.SOCK_STREAM | flags,
                         ENGINES[ENGINE[0]][0] if smc and SMC else 0)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, "socket: " + os.strerror(number))
    return socket.socket(family, socket.SOCK_STREAM, 0, fileno=fd)


def listener(side="b", family=socket.AF_INET, smc=True, backlog=256):
    """A listening socket on a free port."""
    sock = new_socket(side, family, smc)
    sock.bind((HOSTS[family][side], 0))
    sock.listen(backlog)
    return sock


def pair(family=socket.AF_INET, smc=(True, True), source=None, rcvbuf=None):
    """The two sockets of a connection from a to b. `source` is the client's address, `rcvbuf` the size
    of both receive buffers if it is not the default."""
    with listener("b", family, smc[1]) as listening:
        client = new_socket("a", family, smc[0])
        if rcvbuf:
            for sock in client, listening:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        if source:
            client.bind((source, 0))
        client.settimeout(BOUND)
        client.connect(listening.getsockname())
        listening.settimeout(BOUND)
        server, _ = listening.accept()
        server.settimeout(BOUND)
    return client, server


def pair_by_rdma(seconds=60, family=socket.AF_INET, rcvbuf=None):
    """A connection that uses RDMA, where the devices have just come, or come back. A client of SDP may not
    try for 30 s after a failure, and takes a host for silent that does not answer its first question within
    150 ms. `rcvbuf` is as in `pair`."""
    end = time.monotonic() + (seconds if ENGINE[0] == "sdp" else 0)
    while True:
        client, server = pair(family, rcvbuf=rcvbuf)
        if mode("a", client)[0] == ENGINE[0] or time.monotonic() > end:
            expect_smc(client, server)
            return client, server
        client.close()
        server.close()
        time.sleep(0.5)


def proc(side, name):
    """The text of a file of the module, as a side sees it."""
    with inside(side):
        return pathlib.Path("/proc/thread-self/net/rdma_sock", name).read_text(encoding="ascii")


def counters(side):
    """All counters of a side."""
    return {name: int(value) for name, value in
            (line.split() for line in proc(side, "stat").splitlines())}


def counter(side, name):
    """One counter, of the engine in use if each has one; 0 if the file does not list it."""
    return counters(side).get((ENGINES[ENGINE[0]][1] if name in OF_EACH else "") + name, 0)


def records(side, name):
    """The lines of a file as dictionaries."""
    return [dict(word.split("=", 1) for word in line.split() if "=" in word)
            for line in proc(side, name).splitlines()]


def mode(side, sock):
    """The mode of a connection and its reason code. The inode tells it apart: a client of SDP may have the
    port of a client of TCP to the same listener."""
    inode = os.fstat(sock.fileno()).st_ino
    for line in records(side, "conns"):
        if int(line["ino"]) == inode:
            return line["mode"], int(line["reason"], 0)
    return "none", 0


def expect_smc(client, server):
    """Fails unless both sockets use RDMA, by the engine in use."""
    ktap.equal((mode("a", client)[0], mode("b", server)[0]), (ENGINE[0], ENGINE[0]), "modes")


def expect_tcp(client, server):
    """Fails if one of the sockets uses RDMA."""
    for side, sock in (("a", client), ("b", server)):
        ktap.equal(mode(side, sock)[0] in ENGINES, False, "%s uses RDMA" % side)


def receive(sock, size):
    """Receives `size` octets; fewer at the end of the stream."""
    data = bytearray()
    while len(data) < size:
        more = sock.recv(min(size - len(data), 65536))
        if not more:
            break
        data += more
    return bytes(data)


def known(seed, size):
    """Octets that a seed determines."""
    return hashlib.shake_128(str(seed).encode()).digest(size)


def exchange(client, server, size=200000):
    """Fails unless data pass both ways unchanged, at the same time."""
    there, back = known("there", size), known("back", size)
    child = Child(lambda: (client.sendall(there), ktap.equal(receive(client, size) == back, True,
                                                            "data to the client")))
    ktap.equal(receive(server, size) == there, True, "data to the server")
    server.sendall(back)
    child.expect_success()


class Child:
    """A process that runs one function, in the namespace of its parent."""

    def __init__(self, function):
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            atexit.unregister(netns)
            status = 1
            try:
                function()
                status = 0
            except BaseException:  # pylint: disable=broad-except
                for line in traceback.format_exc().splitlines():
                    print("# child: " + line)
            sys.stdout.flush()
            os._exit(status)
        self.fd = os.pidfd_open(self.pid)
        self.status = None

    def has_ended(self, seconds=0):
        """Whether the process ends in time."""
        # select() cannot wait for descriptors above 1023.
        poll = select.poll()
        if self.status is None:
            poll.register(self.fd, select.POLLIN)
        return self.status is not None or bool(poll.poll(seconds * 1000))

    def give_up(self):
        """Kills the process if it has not ended."""
        if not self.has_ended():
            self.kill()

    def kill(self):
        """Kills the process by SIGKILL; the status."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def wait(self, seconds=BOUND):
        """Waits for the end; the status, or an AssertionError."""
        if self.status is None:
            if not self.has_ended(seconds):
                stack = pathlib.Path("/proc/%d/stack" % self.pid)
                text = stack.read_text(encoding="ascii") if stack.exists() else ""
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError("a process did not end in %d s: %s" % (seconds, text))
            os.close(self.fd)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def expect_success(self, seconds=BOUND):
        """Fails unless the process ends with success, in time."""
        ktap.equal(self.wait(seconds), 0, "status of the process")


def until(condition, what, seconds=BOUND):
    """Polls a condition that no event announces."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("%s: not in %d s" % (what, seconds))
        time.sleep(0.02)


def await_ports(*sides):
    """Waits until the ports of all devices of the sides are active, which is later than their GIDs."""
    until(lambda: all(line["state"] == "active" for side in sides for line in records(side, "devices")),
          "active ports")


def gid_text(address):
    """An IPv4 or IPv6 address in the form of the address list of an RDMA device."""
    if ":" in address:
        octets = socket.inet_pton(socket.AF_INET6, address)
    else:
        octets = bytes(10) + b"\xff\xff" + socket.inet_aton(address)
    return ":".join(octets[n:n + 2].hex() for n in range(0, 16, 2))


def gids(device):
    """The address list of an RDMA device, without entries that cannot be read."""
    found = []
    for file in pathlib.Path("/sys/class/infiniband/%s/ports/1/gids" % device).glob("*"):
        with contextlib.suppress(OSError):
            found.append(file.read_text(encoding="ascii").strip())
    return found


def await_gid(device, address):
    """Waits until an RDMA device has an address. Its list follows the network device with a delay."""
    until(lambda: gid_text(address) in gids(device), "address %s of %s" % (address, device))


def await_own_gid(address):
    """Waits until any RDMA device has an address."""
    devices = pathlib.Path("/sys/class/infiniband")
    until(lambda: any(gid_text(address) in gids(device.name) for device in devices.glob("*")),
          "address %s of an RDMA device" % address)


@contextlib.contextmanager
def bounded(seconds):
    """Fails if the block takes longer, whatever it waits for."""
    seconds *= SLOW

    def late(*_):
        raise AssertionError("not over in %d s" % seconds)
    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def module_file(name="rdma_sock"):
    """A module's file in the checkout for the running kernel; None if it does not exist."""
    build = pathlib.Path("/src/build")
    suites = sorted(folder.name for folder in build.glob("stock-*"))
    for folder in ("lab", "debug", "stock", "kdir", *suites):
        file = build / folder / (name + ".ko")
        magic = command("modinfo", "-F", "vermagic", str(file), check=False)
        if file.exists() and magic.split(" ")[0] == os.uname().release:
            return file
    return None


def load_needed(file):
    """Loads the kernel's modules that a module's file needs, which insmod does not."""
    for name in command("modinfo", "-F", "depends", str(file)).strip().split(","):
        if name:
            command("modprobe", name)


def module_parameters():
    """The words for insmod to load the module with its present parameters."""
    folder = pathlib.Path("/sys/module/rdma_sock/parameters")
    if not folder.is_dir():
        return []
    return ["%s=%s" % (file.name, file.read_text(encoding="ascii").strip())
            for file in folder.iterdir()]


@contextlib.contextmanager
def no_autoload():
    """Keeps the kernel from loading its own SMC when a program asks for the protocol."""
    file = pathlib.Path("/proc/sys/kernel/modprobe")
    was = file.read_text(encoding="ascii")
    file.write_text("/bin/false\n", encoding="ascii")
    try:
        yield
    finally:
        file.write_text(was, encoding="ascii")


def module_users(name="rdma_sock"):
    """The reference count of the module, or of another one."""
    return int(pathlib.Path("/sys/module", name, "refcnt").read_text(encoding="ascii"))


def name_both(name="LAB.ONE"):
    """Gives both sides an enterprise identifier, so that they use SMC-Rv2."""
    for side in "ab":
        with inside(side):
            pathlib.Path("/proc/net/rdma_sock/ueids").write_text(name, encoding="ascii")


def remains():
    """What may keep the module: its connections, their counts, and TCP sockets, on both sides."""
    lines = ["%d users of the module" % module_users()]
    for side in "ab":
        with inside(side):
            sockets = pathlib.Path("/proc/thread-self/net/tcp").read_text(encoding="ascii")
        counts = ["%s %d" % item for item in counters(side).items() if item[1]]
        lines += ["side " + side, *proc(side, "conns").splitlines(), *counts, *sockets.splitlines()]
    return "\n".join(lines)


def module_unused(seconds=BOUND):
    """Waits until nothing uses the module; says what is left otherwise. For tests with both sides."""
    try:
        until(lambda: module_users() == 0, "the module is in use", seconds)
    except AssertionError as error:
        raise AssertionError("%s\n%s" % (error, remains())) from None


def all_gone():
    """Waits until closed connections have left the module."""
    until(lambda: all(counters(side).get(begin + "active_conns", 0) == 0 for side in "ab"
                      for _, begin in ENGINES.values()), "connections are left")
    module_unused()


def error_of(function, *args):
    """The name of the error of a call; "none" if it succeeds, "late" after the time limit."""
    try:
        function(*args)
    except TimeoutError as error:
        return errno.errorcode[error.errno] if error.errno else "late"
    except OSError as error:
        return errno.errorcode[error.errno]
    return "none"
