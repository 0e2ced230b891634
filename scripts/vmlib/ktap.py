# SPDX-License-Identifier: GPL-2.0

"""Counts the results in KTAP documents (Documentation/dev-tools/ktap.rst of the kernel).

Leaves are counted, not the sums above them. What cannot be trusted counts as a failure: a document
or block without a plan, a plan that does not match the results, a test that failed although all its
parts passed, and a bail-out. Nested blocks may be indented, as KUnit does, or be prefixed by `# `, as
the kselftest runner does; time stamps of the kernel log are ignored.
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import sys

STAMP = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\](?:\[[^\]]*\])? ?")
LINE = re.compile(r"""^(?P<prefix>(?:\#\ |\ )*)
    (?: (?P<version>K?TAP\ version\ \d+)\s*$
      | 1\.\.(?P<plan>\d+)\s*(?P<plan_skip>\#\s*SKIP.*)?$
      | (?P<result>ok|not\ ok)\b\s*(?P<number>\d+)?(?:\s+-)?\s*(?P<name>.*)$
      | (?P<bail>Bail\ out!.*)$ )""", re.X)
SKIP = re.compile(r"#\s*SKIP\b", re.I)
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
CARGO_FAILED = re.compile(r"^test (\S+) \.\.\. FAILED$", re.M)
# How much of what a test printed is repeated when it failed.
SAID_LINES = 24


@dataclasses.dataclass
class Totals:
    """What was counted, and a line for each failure."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    complaints: list = dataclasses.field(default_factory=list)

    def fail(self, text):
        """One failure."""
        self.failed += 1
        self.complaints.append(text)


@dataclasses.dataclass
class Block:
    """A version line, a plan and results, all at the same depth."""

    depth: int
    plan: int | None = None
    skip: bool = False
    results: int = 0
    # The failures counted before the parts of the next result; None if it has no parts so far.
    parts_since: int | None = None


class Document:
    """One file's worth of KTAP."""

    def __init__(self, name, totals):
        self.name = name
        self.totals = totals
        self.blocks = []
        self.seen = False
        # What was printed since the result before.
        self.said = collections.deque(maxlen=SAID_LINES)

    def complain(self, text):
        """A failure in this document."""
        self.totals.fail(f"{self.name}: {text}")

    def feed(self, line):
        """One line of the file."""
        m = LINE.match(STAMP.sub("", line.rstrip()))
        if not m:
            self.said.append(line.rstrip())
            return
        depth = len(m["prefix"])
        if m["version"]:
            self.close(depth)
            if self.blocks and self.blocks[-1].parts_since is None:
                self.blocks[-1].parts_since = self.totals.failed
            self.blocks.append(Block(depth))
            self.seen = True
        elif m["bail"]:
            self.complain(m["bail"])
        elif not self.blocks or depth > self.blocks[-1].depth:
            # Something inside a test that only looks like KTAP, unless nothing came before.
            if not self.seen and m["result"]:
                self.blocks.append(Block(depth))
                self.seen = True
                self.result(m)
        else:
            self.close(depth + 1)
            if not self.blocks or self.blocks[-1].depth != depth:
                self.complain(f"a line outside of any block: {line.strip()}")
            elif m["plan"] is not None:
                self.blocks[-1].plan = int(m["plan"])
                self.blocks[-1].skip = bool(m["plan_skip"])
            else:
                self.result(m)

    def result(self, m):
        """A result at the depth of the innermost block."""
        block = self.blocks[-1]
        block.results += 1
        what = f"{m['name'] or 'test'}"
        if m["number"] is not None and int(m["number"]) != block.results:
            self.complain(f"result {m['number']} where {block.results} was due: {what}")
        since, block.parts_since = block.parts_since, None
        self.count(m, what, since)
        self.said.clear()

    def count(self, m, what, since):
        """A result, of a test with parts if `since` is given."""
        if m["result"] == "not ok":
            if since is None or self.totals.failed == since:
                self.complain("\n    ".join([f"not ok: {what}", *self.said]))
        elif since is None:
            if SKIP.search(what):
                self.totals.skipped += 1
            else:
                self.totals.passed += 1

    def close(self, depth):
        """Ends all blocks at `depth` or deeper."""
        while self.blocks and self.blocks[-1].depth >= depth:
            block = self.blocks.pop()
            if block.plan is None:
                self.complain(f"a block of {block.results} results has no plan")
            elif block.plan != block.results:
                self.complain(f"{block.plan} tests planned, {block.results} results")
            elif block.plan == 0:
                if block.skip:
                    self.totals.skipped += 1
                else:
                    self.complain("an empty plan")

    def end(self):
        """The end of the file."""
        if not self.seen:
            self.complain("no KTAP in it")
        self.close(0)


def count(name, text, totals):
    """Adds a KTAP document to the totals."""
    document = Document(name, totals)
    for line in text.splitlines():
        document.feed(line)
    document.end()


def count_cargo(name, text, totals):
    """Adds the log of `cargo test` to the totals."""
    sums = [CARGO.match(line) for line in text.splitlines()]
    sums = [m for m in sums if m]
    if not sums:
        totals.fail(f"{name}: no result of cargo test in it")
    failed = sum(int(m[2]) for m in sums)
    names = CARGO_FAILED.findall(text)
    for m in sums:
        totals.passed += int(m[1])
        totals.skipped += int(m[3])
    for at in range(failed):
        totals.fail(f"{name}: {names[at] if at < len(names) else 'a host test'}")


def main():
    """The command line."""
    p = argparse.ArgumentParser(prog="scripts/ktap", description="Counts test results.")
    p.add_argument("--cargo", metavar="LOG", type=pathlib.Path, action="append", default=[])
    p.add_argument("paths", metavar="FILE-OR-FOLDER", type=pathlib.Path, nargs="*")
    args = p.parse_args()
    totals = Totals()
    for path in args.cargo:
        count_cargo(path, path.read_text(encoding="utf-8", errors="replace"), totals)
    for path in args.paths:
        files = sorted(path.rglob("*.ktap")) if path.is_dir() else [path]
        if not files:
            totals.fail(f"{path}: no *.ktap in it")
        for file in files:
            count(file, file.read_text(encoding="utf-8", errors="replace"), totals)
    for text in totals.complaints:
        print(text, file=sys.stderr)
    print(f"{totals.passed} passed, {totals.failed} failed, {totals.skipped} skipped")
    return 1 if totals.failed or not totals.passed + totals.skipped else 0


if __name__ == "__main__":
    sys.exit(main())
