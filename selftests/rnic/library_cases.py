#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""One file of the tests of rdma-core, on one device: a line of tabulator-separated words for each case,
as it ends: its name, its outcome, and the reason.

Usage: library_cases.py DEVICE GID-INDEX FILE
"""

import importlib
import os
import sys
import unittest

# The folder that holds the package `tests` of rdma-core: see scripts/rootfs.
FOLDER = "/usr/lib/rdma-core"


class Record(unittest.TestResult):
    """Says what came of a case at once, as a case may end the process."""

    def _say(self, case, outcome, reason=""):
        print("\t".join((case.id(), outcome, " ".join(str(reason).split()))), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._say(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._say(test, "skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._say(test, "failed", err[1] or "an assertion")

    def addError(self, test, err):
        super().addError(test, err)
        self._say(test, "failed", err[1])


def main():
    """Runs the cases."""
    device, gid, name = sys.argv[1:]
    sys.path[:0] = [FOLDER, FOLDER + "/tests"]
    # The package reads its options from here, when it is loaded.
    sys.argv = [sys.argv[0], "--dev", device, "--gid", gid]
    importlib.import_module("args_parser").parser.parse_args()
    importlib.import_module("tests")
    found = unittest.defaultTestLoader.loadTestsFromName("tests." + name)
    found.run(Record())
    print("end", flush=True)
    # Objects that a case which skips has left close in any order, some after their context: not ours.
    os._exit(0)


if __name__ == "__main__":
    main()
