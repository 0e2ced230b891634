#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Rounds of random connections and random faults for a given time. scripts/soak starts this program in
a guest, or in both of a pair, and reads its files in /out.

soak.py alone|pair SECONDS SEED [ROUND...]: all rounds, or only those with these numbers.
"""

import os
import pathlib
import random
import signal
import sys
import time

import guests
import rounds
import topology
import watch

OUT = pathlib.Path(os.environ.get("SOAK_OUT", "/out"))
# Seconds of a round, without its begin and end.
ROUND = 50 if topology.SLOW == 1 else 60
IN_PAIR = sys.argv[1] == "pair"


def round_of(number, seed):
    """The round of a number, determined by the seed of the run."""
    dice = random.Random("%d/%d" % (seed, number))
    own = dice.getrandbits(60)
    if IN_PAIR:
        # The two guests have different faults.
        dice = random.Random("%d/%s" % (own, os.environ["GUEST"]))
        return rounds.Pair(number, own, dice, OUT)
    return rounds.LOCAL[number % len(rounds.LOCAL)](number, own, dice, OUT)


def one_round(number, seed):
    """Runs a round, then removes and loads the module."""
    this_round = round_of(number, seed)
    begin = time.monotonic()
    this_round.run(ROUND)
    kept = {}
    try:
        topology.until(lambda: topology.module_users() == 0, "the module is in use", rounds.PATIENCE)
        topology.command("rmmod", "rdma_sock")
        used, slab = watch.settled_memory()
        kept = {"used": used, "slab": slab}
        this_round.insert_module()
    except AssertionError as error:
        this_round.problems.append(str(error))
    this_round.report(seconds=time.monotonic() - begin, **kept)
    print("soak: round %d (%s): %d s, %d faults%s" % (
        number, this_round.name, time.monotonic() - begin, len(this_round.events),
        "".join("; PROBLEM: " + text for text in this_round.problems)))
    return not this_round.problems


def goes_on(number, chosen, end):
    """Whether there is another round. In a pair both guests must have the time."""
    if chosen:
        return number < len(chosen)
    wanted = number == 0 or time.monotonic() + ROUND < end
    if IN_PAIR:
        wanted = guests.sync("soak.more.%d" % number, str(wanted)) == "True" and wanted
    return wanted


def main():
    """Runs all rounds; 0 without a failure of the harness. The host judges the connections."""
    seconds, seed = float(sys.argv[2]), int(sys.argv[3])
    chosen = [int(word) for word in sys.argv[4:]]
    end = time.monotonic() + seconds
    # A limit for anything that hangs.
    signal.alarm(int(seconds) + 300 * topology.SLOW)
    (OUT / "rounds.jsonl").touch()
    if IN_PAIR:
        topology.command("rdma", "link", "delete", "rxe0", check=False)
    number = 0
    with topology.no_autoload():
        while goes_on(number, chosen, end):
            if not one_round(chosen[number] if chosen else number, seed):
                return 1
            number += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
