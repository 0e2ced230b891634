# SPDX-License-Identifier: GPL-2.0

"""What a soak has shown: joins the records of both ends of each connection, judges each octet that came
or did not come, and prints the table. The exit status is 0 only if nothing was lost, nothing was
reported, and nothing is left.

python3 soak.py FOLDER...   each a log folder of scripts/vm, of one guest or of a pair
"""

import collections
import errno
import json
import pathlib
import struct
import sys

import kernel_log

TOP = pathlib.Path(__file__).resolve().parents[2]
# As in selftests/soak/record.h.
RECORD = struct.Struct("<8Q4I3i5I")
Record = collections.namedtuple("Record", (
    "seed begin end progress sent sending got wrong_at server state mode ending connect_error send_error "
    "receive_error saw_end shut stuck retries pid"))
ALL_RIGHT = (1 << 64) - 1
OPEN, OVER = 2, 3
BY_RDMA, BY_TCP = 1, 2
ENDINGS = ("well", "closes", "lingers", "aborts", "killed", "stops")
PLANNED = 3
# How long a fault may show after it is mended, s: the timers of TCP and of the link are over then.
SHADOW = 60
# What may be in use at the end beyond what was after the first rounds, octets.
MEMORY_SLACK = 24 << 20
SLAB_SLACK = 4 << 20
FEW = 20


def records(folder, number):
    """All records of a round in a folder of a guest."""
    for file in sorted(folder.glob("%03d.*.records" % number)):
        yield from (Record._make(fields) for fields in RECORD.iter_unpack(file.read_bytes()))


class Verdict:
    """Counts of all connections, and what is wrong with some."""

    def __init__(self):
        self.count = collections.Counter()
        self.causes = collections.Counter()
        self.faults = collections.Counter()
        self.totals = collections.Counter()
        self.wrong = []
        self.peak = 0
        self.first = self.last = None

    def lost(self, what, octets=0):
        """Something that must not be."""
        self.count["lost"] += 1
        self.count["bytes lost"] += octets
        self.wrong.append("LOST: " + what)

    def failed(self, what):
        """Something else that must not be."""
        self.count["failures"] += 1
        self.wrong.append(what)

    def stream(self, name, writer, reader):
        """One direction of a connection. An end of the stream that a program saw after its own call failed
        proves nothing: the error was told by that call."""
        if reader.wrong_at != ALL_RIGHT:
            self.lost("%s: octet %d is wrong" % (name, reader.wrong_at), 1)
        elif writer is None:
            if reader.got:
                self.lost("%s: %d octets of an unknown connection" % (name, reader.got), reader.got)
        elif reader.got > max(writer.sent, writer.sending):
            self.lost("%s: %d octets of %d" % (name, reader.got, writer.sent), reader.got - writer.sent)
        elif reader.saw_end and not reader.send_error and reader.got < writer.sent:
            self.lost("%s: the stream ends at %d of %d" % (name, reader.got, writer.sent),
                      writer.sent - reader.got)

    def connection(self, where, client, server, events):
        """Both ends of a connection, or the one that is known."""
        ends = [end for end in (client, server) if end]
        name = "%s, seed %d" % (where, ends[0].seed)
        self.count["connections"] += 1
        if any(end.mode == BY_RDMA for end in ends):
            self.count["by RDMA"] += 1
        elif any(end.mode == BY_TCP for end in ends):
            self.count["by TCP"] += 1
        else:
            self.count["not made"] += 1
        self.count["bytes"] += sum(end.got for end in ends)
        self.count["calls without memory"] += sum(end.retries for end in ends)
        for end in ends:
            if end.stuck and client and server and self.lost_fin(end, server if end is client else client, events):
                self.count["ends lost by TCP"] += 1
            elif end.stuck:
                self.failed("STUCK: %s: %s" % (name, "server" if end.server else "client"))
        if client and server:
            self.stream(name + ", to the server", client, server)
            self.stream(name + ", to the client", server, client)
        elif server:
            self.stream(name + ", to the server", None, server)
        elif client:
            self.stream(name + ", to the client", None, client)
        self.outcome(name, ends, client is not None and server is not None, events)

    @staticmethod
    def lost_fin(end, other, events):
        """Whether all that lacks is the end of a stream by TCP whose writer had no memory when it shut down:
        tcp_send_fin() drops the FIN then, and nothing sends it again."""
        return (end.mode == BY_TCP and other.mode == BY_TCP and other.shut and other.sent == end.got and
                not end.saw_end and any(event["kind"] == "memory" and event["begin"] <= other.end / 1000 + 1 and
                                        event.get("end", other.end) + 1 >= other.end / 1000
                                        for event in events))

    def outcome(self, name, ends, complete, events):
        """How it ended, and why."""
        def is_whole(end):
            return end.state == OVER and end.shut and (end.saw_end or end.ending in (1, 2)) and not (
                end.send_error or end.receive_error)
        if complete and all(map(is_whole, ends)):
            self.count["whole"] += 1
            return
        if any(end.ending >= PLANNED for end in ends):
            self.count["ended as planned"] += 1
            return
        begin = min(end.begin for end in ends) / 1000
        end = max(end.end or end.progress for end in ends) / 1000
        causes = sorted({event["kind"] for event in events if not event["harmless"] and
                         event["begin"] <= end + 1 and event.get("end", end) + SHADOW >= begin})
        self.count["broken"] += 1
        for cause in causes:
            self.causes[cause] += 1
        if not causes:
            errors = ["%s:%s" % (kind, errno.errorcode.get(value, value)) for each in ends
                      for kind, value in (("connect", each.connect_error), ("send", each.send_error),
                                          ("receive", each.receive_error)) if value]
            self.failed("BROKEN without a fault: %s: %s" % (name, " ".join(errors)))

    def round(self, folders, number, lines):
        """One round, of one guest or of two."""
        events = [event for line in lines for event in line["events"]]
        for event in events:
            self.faults[event["kind"]] += 1
        for line in lines:
            self.peak = max(self.peak, line["peak"])
            self.count["failovers"] += line["moved"]
            for problem in line["problems"]:
                self.failed("PROBLEM: round %d: %s" % (number, problem))
            for name, value in line["totals"].items():
                self.totals[name] += value
        ends = {}
        for folder in folders:
            for file in folder.glob("%03d.hostile.json" % number):
                self.faults["hostile acts"] += sum(json.loads(file.read_text()).values())
            for record in records(folder, number):
                if record.seed:
                    ends.setdefault(record.seed, [None, None])[record.server] = record
                elif record.wrong_at != ALL_RIGHT:
                    self.lost("round %d: the first octets of a connection" % number, 1)
                else:
                    self.count["without a word"] += 1
        for client, server in ends.values():
            self.connection("round %d" % number, client, server, events)

    def run(self, log):
        """A run of scripts/vm."""
        folders = [folder / "out" for folder in sorted(log.glob("[ab]"))]
        rounds = {}
        for folder in folders:
            lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
            for line in lines:
                rounds.setdefault(line["round"], []).append(line)
            self.memory(log.name, [line for line in lines if "used" in line])
            self.count["rounds"] += len(lines)
        for number, lines in sorted(rounds.items()):
            self.round(folders, number, lines)
        for guest in sorted(log.glob("[ab]")):
            for excerpt in kernel_log.reports(guest, TOP / "selftests" / "soak" / "allow"):
                self.count["reports"] += 1
                self.wrong.append("REPORT: %s: %s" % (guest, excerpt.splitlines()[0]))

    def memory(self, name, lines):
        """What a guest used after its rounds, when nothing ran and the module was out."""
        if len(lines) < 3:
            return
        for what, slack in ("used", MEMORY_SLACK), ("slab", SLAB_SLACK):
            values = [line[what] for line in lines]
            # Each kind of round comes once before memory is as it stays.
            warm = max(values[:max(2, len(values) // 2)])
            self.count["left, " + what] = max(self.count["left, " + what], values[-1] - warm)
            if values[-1] - warm > slack:
                self.failed("LEFT: %s: %s of memory: %s KiB" % (
                    name, what, " ".join(str(value >> 10) for value in values)))

    def table(self):
        """For people."""
        count = self.count
        rows = [("rounds", count["rounds"]), ("connections", count["connections"]),
                ("  by RDMA", count["by RDMA"]), ("  by TCP", count["by TCP"]),
                ("  not made", count["not made"]), ("  whole", count["whole"]),
                ("  reset, killed, ... as planned", count["ended as planned"]),
                ("  broken by a fault", count["broken"]),
                ("  ended before the first octet", count["without a word"]),
                ("MiB received and compared", count["bytes"] >> 20),
                ("moves to another device seen", count["failovers"]),
                ("links lost", sum(value for name, value in self.totals.items()
                                   if name.startswith("link_down_"))),
                ("ends lost by TCP, without memory", count["ends lost by TCP"]),
                ("calls without memory, tried again", count["calls without memory"])]
        rows += [("fault: " + kind, number) for kind, number in sorted(self.faults.items())]
        rows += [("broken with a fault near: " + kind, number)
                 for kind, number in sorted(self.causes.items())]
        rows += [("peak of memory in use, MiB", self.peak >> 20),
                 ("left at the end: memory, KiB", max(0, count["left, used"]) >> 10),
                 ("left at the end: slab, KiB", max(0, count["left, slab"]) >> 10),
                 ("bytes lost", count["bytes lost"]), ("streams with a loss", count["lost"]),
                 ("other failures", count["failures"]), ("reports", count["reports"])]
        return "\n".join("%-40s %12d" % row for row in rows)


def main():
    """Judges; the exit status."""
    verdict = Verdict()
    for word in sys.argv[1:]:
        verdict.run(pathlib.Path(word))
    for line in verdict.wrong[:FEW]:
        print("soak: " + line)
    if len(verdict.wrong) > FEW:
        print("soak: and %d more" % (len(verdict.wrong) - FEW))
    print(verdict.table())
    if not verdict.count["whole"]:
        print("soak: no connection was whole")
        return 1
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
