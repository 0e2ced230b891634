# SPDX-License-Identifier: GPL-2.0
"""The part of KTAP that the tests of this folder need."""

import os
import sys
import time
import traceback

SKIP = 4
# Seconds after which a test reports its duration.
LONG = 5


class Skip(Exception):
    """Raised by a test that cannot run here, with the reason."""


def skip_all(reason):
    """Ends the program as skipped."""
    print("KTAP version 1")
    print("1..0 # SKIP " + reason)
    sys.exit(SKIP)


def named(name, function, *args):
    """Makes a test of that name: the function with these arguments."""
    def test():
        function(*args)
    test.name = name
    return test


def run(tests):
    """Runs functions as tests; returns the exit status."""
    print("KTAP version 1")
    print("1..%d" % len(tests))
    failed = 0
    for number, test in enumerate(tests, 1):
        name = getattr(test, "name", None) or test.__name__
        begin = time.monotonic()
        try:
            test()
            line = "ok %d %s" % (number, name)
        except Skip as reason:
            line = "ok %d %s # SKIP %s" % (number, name, reason)
        except Exception:  # pylint: disable=broad-except
            for text in traceback.format_exc().splitlines():
                print("# " + text)
            line = "not ok %d %s" % (number, name)
            failed += 1
        took = time.monotonic() - begin
        if took > LONG:
            print("# the next took %d s" % took)
        print(line)
        sys.stdout.flush()
    return 1 if failed else 0


def equal(got, want, what=""):
    """Fails unless both values are equal."""
    if got != want:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))


def fails(errno_value, function, *args):
    """Fails unless the call fails with that errno."""
    try:
        result = function(*args)
    except OSError as error:
        equal(error.errno, errno_value, "errno of %s" % function)
        return
    raise AssertionError("%s succeeded with %r, want %s" % (
        function, result, os.strerror(errno_value)))
