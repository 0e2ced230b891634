#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Devices of rdma_soft that behave like adapters of silicon: their limits, octets and completions that come
late, and programs of the target `socket` over them, as `sockets.py` runs them.

STRICT has the numbers of the adapters. Without it one runs, another one each day.

Covers RNIC-LIM-01.
"""

import os
import re
import subprocess
import sys
import time

import ktap
import rsoft
import topology
from ktap import equal, named
from topology import command
from user import RINGS, gid_index, inside

NAMES = ["mlx5", "bnxt_re", "irdma", "hns"]
# Of each: work requests, elements, entries of a completion queue, READs in flight.
LIMITS = [(16384, 16, 32767, 16), (16384, 6, 32767, 126), (4063, 13, 32767, 127), (1024, 2, 8192, 8)]
ATTRIBUTES = ("max_qp_wr", "max_sge", "max_cqe", "max_qp_rd_atom")


def chosen():
    """The numbers of the adapters that run."""
    words = os.environ.get("STRICT", "").split()
    return [int(word) for word in words] or [int(time.time()) // 86400 % len(NAMES) + 1]


def limits_are_those_of_the_adapter(number):
    """libibverbs shows them."""
    shown = command("ibv_devinfo", "-v", "-d", "rs_a")
    found = tuple(int(re.search(name + r":\s+(\d+)", shown).group(1)) for name in ATTRIBUTES)
    equal(found, LIMITS[number - 1], "limits")


def case(name):
    """A case of the program that fills its rings by hand."""
    words = ["rs_a", gid_index("a"), "rs_b", gid_index("b"), name]
    command(*inside("a", str(RINGS), *words))


def unknown_adapters_are_refused():
    """Only those that there are can be chosen."""
    topology.netns("down")
    command("rmmod", rsoft.SOFT)
    for number in len(NAMES) + 1, 255:
        done = subprocess.run(["insmod", str(rsoft.FILE), "strict=%d" % number], check=False,
                              stderr=subprocess.PIPE, text=True)
        equal("Invalid parameters" in done.stderr, True, done.stderr)


def tests(number):
    """The tests of an adapter."""
    name = NAMES[number - 1]

    def load():
        rsoft.load(strict=number)
        topology.netns("up")
    yield named("%s: device is made" % name, load)
    yield named("%s: limits_are_those_of_the_adapter" % name, limits_are_those_of_the_adapter, number)
    for one in "bystander", "late octets", "late completions":
        yield named("%s: %s" % (name, one), case, one)
    yield named("%s: unknown_adapters_are_refused" % name, unknown_adapters_are_refused)
    yield named("%s: programs of the target socket" % name, rsoft.run_sockets,
                "strict=%d" % number)


def main():
    """Runs all tests."""
    topology.need_module()
    if rsoft.FILE is None or not RINGS.exists():
        ktap.skip_all("the module's file or a program is not here")
    return rsoft.run([test for number in chosen() for test in tests(number)])


if __name__ == "__main__":
    sys.exit(main())
