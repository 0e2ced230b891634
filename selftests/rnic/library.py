#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The tests of rdma-core in user space (pyverbs), on a device of the type rsoft and on one of rdma_rxe:
each case that passes there passes here.

Covers RNIC-UAPI-01, RNIC-UAPI-02, RNIC-RDA-09, RNIC-RDA-10, RNIC-MR-14.
"""

import os
import pathlib
import subprocess
import sys

import ktap
import library_cases
import topology
import user
from ktap import equal, named
from topology import command, netns

TESTS = pathlib.Path(library_cases.FOLDER, "tests")
RUNNER = topology.HERE / "library_cases.py"
# For devices of one vendor, or for graphics memory.
OTHERS = ("test_mlx5", "test_efa", "test_cuda")
# What rdma_rxe may have and this device has not: multicast, and on-demand paging, which the lab kernel
# lacks too. A case is named by its beginning.
LACKS = (
    "tests.test_odp.",
    "tests.test_rdmacm.CMTestCase.test_rdmacm_async_ex_leave_multicast_traffic",
    "tests.test_rdmacm.CMTestCase.test_rdmacm_async_ex_multicast_traffic",
    "tests.test_rdmacm.CMTestCase.test_rdmacm_async_multicast_traffic",
)
# Outcomes by device, for the table.
SEEN = {"a": {}, "b": {}}


def outcomes(side, name):
    """The outcome and the reason of each case of a file on the device of a side; and how the file ended."""
    words = user.inside(side, RUNNER, "rs_" + side, user.gid_index(side), name)
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=2 * topology.BOUND, check=False)
    found = {}
    for line in done.stdout.splitlines():
        if line.count("\t") == 2:
            case, outcome, reason = line.split("\t")
            found[case] = (outcome, reason)
    SEEN[side].update(found)
    return found, done


def cases_pass(name):
    """A file on both devices."""
    ours, done = outcomes("a", name)
    equal(done.stdout.endswith("end\n"), True, "status %d: %s" % (done.returncode, done.stderr))
    theirs, _ = outcomes("b", name)
    bad = []
    for case, (outcome, reason) in sorted(ours.items()):
        other, _ = theirs.get(case, ("did not run", ""))
        if outcome == "failed" or (outcome, other) == ("skipped", "passed") and not case.startswith(LACKS):
            bad.append("%s: %s (%s); on rdma_rxe it %s" % (case, outcome, reason, other))
    equal(bad, [], "cases of " + name)
    if not any(outcome == "passed" for outcome, _ in ours.values()):
        raise ktap.Skip("; ".join(sorted({reason for _, reason in ours.values()})) or "no cases")


def most_of_the_cases_were_run():
    """The table; and that there was something to compare."""
    for side, device in ("a", "rsoft"), ("b", "rdma_rxe"):
        counts = {}
        for outcome, _ in SEEN[side].values():
            counts[outcome] = counts.get(outcome, 0) + 1
        print("# %s: %s" % (device, ", ".join("%d %s" % (count, outcome)
                                              for outcome, count in sorted(counts.items()))))
    passed = [case for case, (outcome, _) in SEEN["a"].items() if outcome == "passed"]
    equal(len(passed) >= 90, True, "%d cases passed" % len(passed))


def main():
    """Runs the tests with the module loaded."""
    if os.geteuid() != 0:
        ktap.skip_all("needs root")
    if user.FILE is None:
        ktap.skip_all("the module's file is not here")
    if os.path.isdir("/sys/module/" + user.SOFT):
        ktap.skip_all("%s is loaded" % user.SOFT)
    if not TESTS.is_dir():
        ktap.skip_all("%s is not here; scripts/rootfs gets it from the source of rdma-core" % TESTS)
    files = sorted(file.stem for file in TESTS.glob("test_*.py") if not file.name.startswith(OTHERS))
    topology.load_needed(user.FILE)
    for name in "ib_uverbs", "rdma_ucm":
        command("modprobe", name, check=False)
    command("insmod", str(user.FILE))
    try:
        tests = [named("links are made", lambda: netns("up", LINK_A="rsoft", LINK_B="rxe"))]
        tests += [named(name, cases_pass, name) for name in files]
        return ktap.run(tests + [most_of_the_cases_were_run,
                                 named("nothing is left", user.nothing_is_left)])
    finally:
        netns("down")
        command("rmmod", user.SOFT, check=False)


if __name__ == "__main__":
    sys.exit(main())
