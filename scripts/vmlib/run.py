# SPDX-License-Identifier: GPL-2.0

"""The event loop: carries the guests' lines to files and to the terminal, answers `guest-sync`, and
decides when a run is over."""

import os
import selectors
import sys
import time

# Time for the other guest to finish its command when one has failed.
GRACE_SECONDS = 20
# From "finish" to power-off: unloading modules, scanning for leaks.
SHUTDOWN_SECONDS = 150
# For the guests to tell what hangs, after the time limit.
DUMP_SECONDS = 10
# Ends what a guest sends on its output line.
END = "\0end"
TIMED_OUT = 124
NO_RESULT = 125


class Loop:
    """One run of one or two guests."""

    def __init__(self, guests, timeout, verbose):
        self.guests = guests
        self.verbose = verbose
        self.deadline = time.monotonic() + timeout
        self.selector = selectors.DefaultSelector()
        self.waiting = {g: {} for g in guests}
        self.pending = {}
        self.finishing = False
        self.dismissed = False
        self.timed_out = False
        self.dumped = set()
        self.alive = set(guests)
        self.ended = {g: set() for g in guests}
        self.logs = {}
        self.outputs = {}
        for g in guests:
            for name, end in g.near.items():
                end.setblocking(True)
                self.selector.register(end, selectors.EVENT_READ, (g, name))
            self.selector.register(os.pidfd_open(g.process.pid), selectors.EVENT_READ, (g, "process"))
            self.logs[g] = open(g.folder / "console.log", "wb")
            self.outputs[g] = open(g.folder / "output.log", "w", encoding="utf-8")

    def run(self):
        """Runs until all guests are gone or the time is up."""
        while self.alive:
            left = self.deadline - time.monotonic()
            if self.timed_out and (left <= 0 or self.dumped >= self.alive):
                break
            if left <= 0:
                self.time_is_up()
                continue
            for key, _ in self.selector.select(left):
                g, name = key.data
                if name == "process":
                    self.selector.unregister(key.fd)
                    os.close(key.fd)
                    self.gone(g)
                else:
                    self.readable(g, name, key.fileobj)
        for log in [*self.logs.values(), *self.outputs.values()]:
            log.close()

    def readable(self, g, name, end):
        """Bytes, or the end, of one line."""
        try:
            data = end.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(end)
            return
        if name == "control":
            self.lines(g, name, data, self.word)
            return
        if name == "output":
            self.lines(g, name, data, self.output)
            return
        self.logs[g].write(data)
        self.logs[g].flush()
        if self.verbose:
            self.lines(g, name, data, self.console)

    def lines(self, g, name, data, act):
        """Cuts a line's bytes into lines of text and acts on each."""
        data = self.pending.pop((g, name), b"") + data
        *whole, rest = data.split(b"\n")
        if rest:
            self.pending[g, name] = rest
        for line in whole:
            act(g, line.decode(errors="replace"))

    def output(self, g, line):
        """A line of the command's output, for the terminal and output.log. The last one is marked."""
        text = line.removesuffix(END)
        if text or text == line:
            print(f"{g.prefix}{text}", flush=True)
            self.outputs[g].write(text + "\n")
            self.outputs[g].flush()
        if text != line:
            self.ended[g].add("output")
            self.maybe_bye()

    @staticmethod
    def console(g, line):
        """A line of the guest's console, if one wants to see it."""
        print(f"{g.prefix}| {line.rstrip()}", file=sys.stderr, flush=True)

    def word(self, g, line):
        """A line that a guest sent on its control line."""
        g.note("<", line)
        word, _, rest = line.strip().partition(" ")
        if word == "sync":
            self.sync(g, *(rest.split(" ", 2) + ["", ""])[:3])
        elif word == "exit":
            g.status = int(rest)
            self.check_finished()
        elif word == "fail":
            g.failures.append(rest)
            print(f"vm: guest {g.letter}: {rest}", file=sys.stderr)
        elif word == "dumped":
            self.dumped.add(g)
        elif word == "end":
            self.ended[g].add("control")
            self.maybe_bye()

    def maybe_bye(self):
        """Lets the guests power off once the lines of all are empty. Together: packets that one
        still sends while it unloads its module would stay in its network card without the other."""
        if self.dismissed or not all(len(self.ended[g]) == 2 for g in self.alive):
            return
        self.dismissed = True
        for g in self.alive:
            g.tell("bye")

    def sync(self, g, ident, name, data):
        """`g` waits at the barrier `name`."""
        others = [o for o in self.guests if o is not g]
        if not others:
            g.tell("go", ident, data)
            return
        other = others[0]
        if self.waiting[other].get(name):
            other_ident, other_data = self.waiting[other][name].pop(0)
            g.tell("go", ident, other_data)
            other.tell("go", other_ident, data)
        elif other.status is not None or other not in self.alive:
            g.tell("gone", ident)
        else:
            self.waiting[g].setdefault(name, []).append((ident, data))

    def check_finished(self):
        """After a command has ended or a guest died: what now?"""
        for g in self.guests:
            if g.status is not None or g not in self.alive:
                for o in self.guests:
                    self.release(o, g)
        failed = any(g.status not in (None, 0) or (g.status is None and g not in self.alive)
                     for g in self.guests)
        if all(g.status is not None or g not in self.alive for g in self.guests):
            if not self.finishing:
                self.finishing = True
                self.deadline = time.monotonic() + SHUTDOWN_SECONDS
                for g in self.guests:
                    g.tell("finish")
        elif failed:
            self.deadline = min(self.deadline, time.monotonic() + GRACE_SECONDS)

    def release(self, g, ended):
        """Releases `g` from its barriers, as `ended` will come to none."""
        if g is ended:
            return
        for waiters in self.waiting[g].values():
            while waiters:
                g.tell("gone", waiters.pop(0)[0])

    def gone(self, g):
        """The guest's process has ended."""
        self.alive.discard(g)
        for name, end in g.near.items():
            self.drain(g, name, end)
        if g.status is None:
            print(f"vm: guest {g.letter} ended without a result", file=sys.stderr)
        self.check_finished()
        self.maybe_bye()

    def drain(self, g, name, end):
        """Reads what a dead guest left in a line."""
        end.setblocking(False)
        while end in self.selector.get_map():
            try:
                data = end.recv(65536)
            except OSError:
                data = b""
            if not data:
                self.selector.unregister(end)
                break
            if name == "console":
                self.logs[g].write(data)
            else:
                self.lines(g, name, data, self.word if name == "control" else self.output)
        if name == "output" and (g, name) in self.pending:
            self.output(g, self.pending.pop((g, name)).decode(errors="replace"))

    def time_is_up(self):
        """The time limit, or the shorter one after a failure."""
        if self.finishing:
            print("vm: a guest did not power off in time", file=sys.stderr)
        elif any(g.status not in (None, 0) for g in self.guests):
            print("vm: one guest failed, the other did not end soon after", file=sys.stderr)
        else:
            print("vm: the time limit is over", file=sys.stderr)
        self.timed_out = True
        self.deadline = time.monotonic() + DUMP_SECONDS
        for g in self.alive:
            g.tell("dump")


def until_done(guests, timeout, verbose):
    """Runs the loop; returns the exit status of the run."""
    loop = Loop(guests, timeout, verbose)
    loop.run()
    for g in guests:
        if g.status not in (None, 0):
            return g.status
    if loop.timed_out:
        return TIMED_OUT
    if any(g.status is None or g.failures for g in guests):
        return NO_RESULT
    return 0
