# SPDX-License-Identifier: GPL-2.0
"""A round: namespaces and devices, programs with connections, faults, an orderly or a sudden end, and
checks of the remains."""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

import faults
import guests
import topology
import watch

HERE = pathlib.Path(__file__).resolve().parent
RECORD = 112
PATIENCE = 60 if topology.SLOW == 1 else 150
PARALLEL = 16 if topology.SLOW == 1 else 6
LARGEST = 8 << 20 if topology.SLOW == 1 else 512 << 10


def rxe(namespace, name, link, address):
    """Makes a soft-RoCE device and waits for its IPv4 address, which no event announces."""
    words = ("rdma", "link", "add", name, "type", "rxe", "netdev", link)

    def there():
        # Fails while the old device exists, or for lack of memory.
        if not pathlib.Path("/sys/class/infiniband", name).exists():
            faults.in_ns(namespace, *words)
        return topology.gid_text(address) in topology.gids(name)
    topology.until(there, "device " + name)


class Program:
    """A process of the harness, or the parent of the programs with connections, in a namespace."""

    def __init__(self, side, *words, ready=False):
        end, other = os.pipe()
        words = [str(word) for word in words] + (["ready=%d" % other] if ready else [])
        with topology.inside(side):
            self.process = subprocess.Popen(words, pass_fds=[other], start_new_session=True, cwd="/tmp")
        os.close(other)
        self.fd = os.pidfd_open(self.process.pid)
        came = not ready or (select.select([end], [], [], topology.BOUND)[0] and os.read(end, 1))
        os.close(end)
        if not came:
            self.kill()
            raise AssertionError("%s is not ready" % words[:2])

    def ask(self):
        """Asks the process to end."""
        self.process.send_signal(signal.SIGTERM)

    def ended(self, seconds=0):
        """Whether the process ends in time."""
        return bool(select.select([self.fd], [], [], seconds)[0])

    def kill(self):
        """Kills the process and all its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.fd)


class Round:
    """Base of all rounds. Sides are names of topology.inside()."""

    name, sides, ipv6 = "", ("a", "b"), True
    wires, devices = (), ()
    menu = ()

    def __init__(self, number, seed, dice, out):
        self.number, self.seed, self.dice, self.out = number, seed, dice, out
        self.watch = watch.Watch(self.sides)
        self.events, self.programs, self.files = [], {}, []
        self.problems = []
        self.scratch = pathlib.Path("/tmp/soak-%d" % number)
        self.scratch.mkdir()

    # Namespaces and devices.

    def up(self):
        """Makes namespaces and devices."""

    def down(self):
        """Removes them."""

    def rdma_name(self, name):
        """The RDMA device of a short name."""
        return "rs_" + name

    def interface(self, name):
        """The network interface of a short name: (namespace, interface)."""
        return "rs-" + name[0], "v" + name

    def add_device(self, name):
        """Makes an RDMA device again."""
        raise NotImplementedError

    def after_up(self, name):
        """Repairs an interface that is up again."""

    @staticmethod
    def insert_module():
        """Loads the module again."""
        topology.command("insmod", str(topology.module_file()), *topology.module_parameters())

    # Programs.

    def begin(self, name, side, *words, ready=False):
        """Starts programs with connections, with a file of records."""
        file = self.scratch / name
        self.files.append(file)
        self.programs[name] = Program(
            side, HERE / "traffic", *words, "records=%s" % file, "largest=%d" % LARGEST,
            "ipv6=%d" % self.ipv6, "patience=%d" % PATIENCE, ready=ready)

    def start(self):
        """Starts all programs."""
        raise NotImplementedError

    def alive(self):
        """Fails unless all programs are running."""
        for name, program in self.programs.items():
            if program.ended():
                raise AssertionError("%s has ended" % name)

    def stop(self, name):
        """Ends programs in order, and slow ones by force. Their parent has reported connections that
        hang."""
        program = self.programs.pop(name)
        program.ask()
        end = time.monotonic() + PATIENCE + 30 * topology.SLOW
        looks = [end - PATIENCE + 4 * number for number in range(3)]
        while not program.ended(0.5):
            self.watch.look()
            if looks and time.monotonic() > looks[0]:
                looks.pop(0)
                self.watch.tell("%s takes its time" % name)
            if time.monotonic() > end:
                with self.fault("killed", "%s, which is slow" % name):
                    program.kill()
                return
        program.kill()

    def finish(self):
        """Ends all programs in order."""
        raise NotImplementedError

    def kill_all(self):
        """Kills all programs at once."""
        with self.fault("killed", "all programs"):
            for program in self.programs.values():
                program.kill()
            self.programs.clear()
            self.watch.count()
            self.down()

    # Faults.

    @contextlib.contextmanager
    def fault(self, kind, detail, harmless=False):
        """Records the time of a fault."""
        event = {"kind": kind, "detail": detail, "begin": time.time(), "harmless": harmless}
        self.events.append(event)
        try:
            yield
        finally:
            event["end"] = time.time()

    def rest(self, seconds):
        """Waits, and takes samples meanwhile."""
        end = time.monotonic() + seconds
        fds = [program.fd for program in self.programs.values()]
        while (left := end - time.monotonic()) > 0:
            self.watch.look()
            if select.select(fds, [], [], min(left, 0.5))[0]:
                self.alive()

    def foreign(self, dice):
        """Connections in namespaces that come and go."""
        names = ("rs-x", "rs-y")
        programs = []
        try:
            for name in names:
                topology.command("ip", "netns", "add", name)
            topology.command("ip", "link", "add", "vx", "netns", "rs-x", "type", "veth", "peer", "name", "vy",
                             "netns", "rs-y")
            for number, name in enumerate(names, 1):
                topology.command("ip", "-n", name, "address", "add", "10.8.0.%d/24" % number, "dev",
                                 "v" + name[-1])
                topology.command("ip", "-n", name, "link", "set", "v" + name[-1], "up")
                rxe(name, "rs_" + name[-1], "v" + name[-1], "10.8.0.%d" % number)
            words = ("ipv6=0", "patience=%d" % PATIENCE, "largest=%d" % LARGEST)
            programs.append(Program("y", HERE / "traffic", "serve", "records=%s" % (self.scratch / "y"),
                                    *words, ready=True))
            programs.append(Program("x", HERE / "traffic", "call", "to=10.8.0.2", "parallel=4",
                                    "seed=%d" % dice.getrandbits(60),
                                    "records=%s" % (self.scratch / "x"), *words))
            self.files += [self.scratch / "x", self.scratch / "y"]
            self.rest(dice.uniform(1, 4))
        finally:
            if dice.random() < 0.5:
                programs.reverse()
            steps = [program.kill for program in programs]
            steps += [lambda name=name: faults.tool("ip", "netns", "delete", name) for name in names]
            if dice.random() < 0.5:
                dice.shuffle(steps)
            for step in steps:
                step()
            for name in names:
                faults.tool("rdma", "link", "delete", "rs_" + name[-1])
            # A later fault may make them again.
            for file in ("x", "y"):
                self.keep(self.scratch / file, "%s.%d" % (file, len(self.events)))
            self.files = [file for file in self.files if file.name not in "xy"]

    # The sequence of a round.

    def run(self, seconds):
        """Runs the round. Failures of the harness are in `problems`."""
        self.up()
        try:
            self.start()
            end = time.monotonic() + seconds
            self.rest(3)
            menu = [fault for fault in self.menu
                    if fault is not faults.memory or faults.can_fail_memory()]
            while time.monotonic() < end:
                self.dice.choice(menu)(self, self.dice)
                self.alive()
                self.rest(self.dice.uniform(0.2, 4))
            self.end_it()
        except AssertionError as error:
            self.problems.append(str(error))
        finally:
            for program in self.programs.values():
                program.kill()
            self.down()
            for file in self.files:
                self.keep(file, file.name)
            shutil.rmtree(self.scratch)

    def end_it(self):
        """Ends the round, in order or suddenly."""
        if self.dice.random() < 0.3:
            self.kill_all()
            return
        self.finish()
        self.watch.look()
        topology.until(lambda: self.watch.left()[0] == 0, "connections are left", PATIENCE)
        self.watch.count()
        for name in self.devices:
            faults.tool("rdma", "link", "delete", self.rdma_name(name))
        topology.until(lambda: self.watch.left()[1] == 0, "link groups are left", PATIENCE)

    def keep(self, file, name):
        """Saves the records of a round."""
        if not file.exists():
            return
        octets = file.read_bytes().rstrip(b"\0")
        size = -(-len(octets) // RECORD) * RECORD
        target = self.out / ("%03d.%s.records" % (self.number, name))
        target.write_bytes(octets.ljust(size, b"\0"))
        file.unlink()

    def report(self, **more):
        """Writes the report of the round for the host."""
        with open(self.out / "rounds.jsonl", "a", encoding="ascii") as f:
            json.dump({"round": self.number, "name": self.name, "events": self.events,
                       "problems": self.problems, "peak": self.watch.peak, "moved": self.watch.moved,
                       "totals": self.watch.totals, **more}, f)
            f.write("\n")


class Failover(Round):
    """Two or more devices on each side, so that connections move."""

    name, ipv6 = "failover", False
    menu = (faults.network, faults.one_device, faults.one_device, faults.one_device, faults.interface,
            faults.interface, faults.all_devices, faults.memory, faults.memory, faults.unload,
            faults.settings, faults.namespaces)

    def up(self):
        count = self.dice.choice((2, 2, 3, 4))
        self.devices = [side + str(number) for number in range(1, count + 1) for side in "ab"]
        self.wires = [("rs-r", "r" + name) for name in self.devices]
        topology.command(HERE / "wires.sh", "up", str(count))
        for name in self.devices:
            topology.command(HERE / "wires.sh", "add", name)

    def down(self):
        topology.command(HERE / "wires.sh", "down")

    def add_device(self, name):
        number = int(name[1]) * 2 - (name[0] == "a")
        rxe("rs-" + name[0], "rs_" + name, "v" + name, "10.9.0.%d" % number)

    def start(self):
        self.begin("server", "b", "serve", ready=True)
        self.begin("client", "a", "call", "to=10.9.0.2", "seed=%d" % self.seed,
                   "parallel=%d" % PARALLEL)

    def finish(self):
        self.stop("client")
        self.stop("server")


class HostileRound(Round):
    """One device on each side, IPv6, and a hostile peer."""

    name = "hostile"
    devices = ("a", "b")
    wires = (("rs-a", "va"), ("rs-b", "vb"))
    menu = (faults.network, faults.network, faults.one_device, faults.interface, faults.memory,
            faults.memory, faults.memory, faults.unload, faults.settings, faults.namespaces)

    def up(self):
        topology.netns("up")
        for side in "ab":
            # Keep the addresses of an interface that goes down.
            faults.in_ns("rs-" + side, "sysctl", "-qw", "net.ipv6.conf.all.keep_addr_on_down=1",
                         "net.ipv6.conf.v%s.keep_addr_on_down=1" % side)

    def down(self):
        topology.netns("down")

    def add_device(self, name):
        rxe("rs-" + name, "rs_" + name, "v" + name, "10.9.0.%d" % (" ab".index(name)))

    def start(self):
        self.begin("server", "b", "serve", ready=True)
        self.begin("client", "a", "call", "to=10.9.0.2", "to6=fd09::2", "seed=%d" % self.seed,
                   "parallel=%d" % PARALLEL)
        self.begin("back", "a", "serve", ready=True)
        self.begin("client2", "b", "call", "to=10.9.0.1", "to6=fd09::1", "seed=%d" % (self.seed + (1 << 40)),
                   "parallel=%d" % (PARALLEL // 3))
        self.programs["hostile"] = Program(None, HERE / "hostile_traffic.py", self.dice.getrandbits(30),
                                           self.out / ("%03d.hostile.json" % self.number))

    def finish(self):
        self.programs["hostile"].ask()
        self.programs["hostile"].ended(2)
        self.programs.pop("hostile").kill()
        for name in ("client", "client2", "server", "back"):
            self.stop(name)


class Churn(Round):
    """The module is removed and loaded under programs that use TCP meanwhile."""

    name = "module"
    devices = ("a", "b")
    wires = (("rs-a", "va"), ("rs-b", "vb"))
    up, down, add_device = HostileRound.up, HostileRound.down, HostileRound.add_device

    def remove(self, dice):
        """Removes the module as soon as no socket holds it, and loads it again."""
        end = time.monotonic() + 10 * topology.SLOW
        while time.monotonic() < end:
            counters = self.watch.counters()
            done = subprocess.run(["rmmod", "rdma_sock"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=topology.BOUND, check=False)
            if done.returncode == 0:
                self.watch.count(counters)
                with self.fault("module", "gone", harmless=True):
                    self.rest(dice.uniform(0, 1))
                    self.insert_module()
                return
            self.watch.look()

    menu = (remove, remove, faults.network, faults.one_device, faults.settings, faults.memory)

    def start(self):
        self.begin("churn", None, "churn", "to=10.9.0.2", "to6=fd09::2", "seed=%d" % self.seed,
                   "parallel=2", "pace=50")

    def finish(self):
        self.stop("churn")


class Pair(Round):
    """Two kernels with two devices each. Each guest changes its own side only."""

    name, sides, ipv6 = "two kernels", (None,), True
    devices = ("net0", "mv0")
    wires = ((None, "net0"),)
    menu = (faults.network, faults.one_device, faults.one_device, faults.interface, faults.all_devices,
            faults.memory, faults.memory, faults.unload, faults.settings, faults.namespaces)
    own = {"a": 1, "b": 2}.get(os.environ.get("GUEST"), 1)

    def together(self, what):
        """Waits for the other guest."""
        guests.sync("soak.%d.%s" % (self.number, what))

    def up(self):
        for dev in ("all", "net0"):
            faults.tool("sysctl", "-qw", "net.ipv4.conf.%s.rp_filter=0" % dev,
                        "net.ipv4.conf.%s.arp_ignore=1" % dev, "net.ipv4.conf.%s.arp_announce=2" % dev)
        # A constant hardware address, as the other side may remember it.
        topology.command("ip", "link", "add", "mv0", "link", "net0", "address", "02:00:00:00:78:0%d" % self.own,
                         "type", "macvlan", "mode", "bridge")
        topology.command("ip", "address", "add", "192.168.77.1%d/24" % self.own, "dev", "mv0")
        topology.command("ip", "link", "set", "mv0", "up")
        faults.tool("sysctl", "-qw", "net.ipv4.conf.mv0.rp_filter=0", "net.ipv4.conf.mv0.arp_ignore=1",
                    "net.ipv4.conf.mv0.arp_announce=2")
        for name in self.devices:
            self.add_device(name)
        self.together("up")

    def down(self):
        for name in self.devices:
            faults.tool("rdma", "link", "delete", self.rdma_name(name))
        faults.tool("ip", "link", "delete", "mv0")

    def rdma_name(self, name):
        return "rs_" + name

    def interface(self, name):
        return None, "mv0"

    def add_device(self, name):
        rxe(None, self.rdma_name(name), name,
            "192.168.77.%d" % (self.own if name == "net0" else 10 + self.own))

    def start(self):
        self.begin("server", None, "serve", ready=True)
        self.together("serves")
        self.begin("client", None, "call", "to=192.168.77.%d" % (3 - self.own),
                   "to6=fd77::%d" % (3 - self.own), "seed=%d" % (self.seed + (self.own << 40)),
                   "parallel=%d" % (PARALLEL // 2))

    def finish(self):
        self.stop("client")
        self.together("called")
        self.stop("server")
        self.together("served")

    def end_it(self):
        # A sudden end of one side would be an error of the harness on the other.
        self.finish()
        self.watch.look()
        topology.until(lambda: self.watch.left()[0] == 0, "connections are left", PATIENCE)
        self.watch.count()
        self.together("ended")
        self.down()
        topology.until(lambda: self.watch.left()[1] == 0, "link groups are left", PATIENCE)


LOCAL = (Failover, HostileRound, Churn)
