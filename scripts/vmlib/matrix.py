# SPDX-License-Identifier: GPL-2.0

"""The table of scripts/matrix: the kernels of Debian's suites, and what became of the module there."""

import argparse
import collections
import os
import sys

Row = collections.namedtuple("Row", "kind release rustc bindgen result text")

BASE = "trixie-backports"
RESULTS = ("passed", "failed", "unfit")
# Versions that have to pass.
ENOUGH = 2
BEGIN = "<!-- scripts/matrix readme writes from here -->"
END = "<!-- to here -->"
HEAD = ("Debian suite", "kernel", "rustc", "bindgen", "smoke tests")


def read(text):
    """The rows of a results file."""
    rows = [Row(*line.split("\t")) for line in text.splitlines()]
    for row in rows:
        if row.result not in RESULTS:
            raise ValueError(f"{row.kind} has the unknown result {row.result}")
    return rows


def suite(kind):
    """The name of a kernel's suite."""
    return kind.removeprefix("stock-") if kind != "stock" else BASE


def cells(row):
    """What the table says of a suite."""
    said = {"passed": row.text, "failed": f"FAILED: {row.text}", "unfit": f"not tested: {row.text}"}
    return (suite(row.kind), row.release, row.rustc, row.bindgen, said[row.result])


def table(rows):
    """The table as Markdown, with columns in line."""
    lines = [HEAD, *(cells(row) for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(HEAD))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
            for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text) + "\n"


def complaint(rows):
    """Why the run did not pass; empty if it did."""
    failed = [suite(row.kind) for row in rows if row.result == "failed"]
    if failed:
        return "failed: " + ", ".join(failed)
    versions = {row.release for row in rows if row.result == "passed"}
    if len(versions) < ENOUGH:
        return f"{len(versions)} kernel version(s) passed, {ENOUGH} are needed"
    return ""


def replaced(document, text):
    """The document with `text` between its two marks."""
    before, begin, rest = document.partition(BEGIN + "\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no lines '{BEGIN}' and '{END}'")
    return f"{before}{begin}\n{text}\n{end}{after}"


def main():
    """Reads results, and prints the table or writes it into a document."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--readme", metavar="FILE")
    args = p.parse_args()
    rows = read(sys.stdin.read())
    wrong = complaint(rows)
    if args.readme:
        if wrong:
            sys.exit(f"matrix: {wrong}")
        with open(args.readme, encoding="utf-8") as file:
            document = replaced(file.read(), table(rows))
        with open(args.readme + ".new", "w", encoding="utf-8") as file:
            file.write(document)
        os.replace(args.readme + ".new", args.readme)
        return
    print(table(rows), end="", flush=True)
    if wrong:
        sys.exit(f"matrix: {wrong}")


if __name__ == "__main__":
    main()
