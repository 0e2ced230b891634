#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Programs of the target `socket` with devices of rdma_soft in place of rdma_rxe: SMC-R with IPv4 and
IPv6, and SDP. Words like `strict=2` are parameters of the module.

Covers RNIC-GEN-03.
"""

import pathlib
import subprocess
import sys

import ktap
import rsoft
import topology

FOLDER = topology.HERE.parent / "socket"
SMC, SDP = ("inet", "inet6"), ("sdp",)
# Programs, each with the variants that run.
PROGRAMS = [("connect", SMC), ("io", SMC), ("bulk", SMC), ("close", SMC), ("connect", SDP), ("io", SDP),
            ("bulk", SDP), ("close", SDP)]
# Those that are about octets run where memory is mapped for DMA, and without fast paths.
OCTETS = [("io", ("inet",)), ("bulk", ("inet",)), ("io", SDP), ("bulk", SDP)]


def run(program, variants):
    """Runs a program in its folder, with its results nested in ours; whether it succeeded."""
    words = [word for variant in variants for word in ("-v", variant)]
    with subprocess.Popen(["./" + program, *words], cwd=FOLDER, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            print("# " + line, end="", flush=True)
    return process.returncode == 0


def main():
    """Runs all programs."""
    topology.need_module()
    settings = {name: int(value) for name, value in (word.split("=") for word in sys.argv[1:])}
    programs = OCTETS if settings.get("dma") or settings.get("plain") else PROGRAMS
    missing = [name for name, _ in programs if not pathlib.Path(FOLDER, name).exists()]
    if missing:
        ktap.skip_all("not built: " + " ".join(missing))
    rsoft.load(**settings)
    failed = 0
    try:
        print("KTAP version 1\n1..%d" % len(programs))
        for number, (program, variants) in enumerate(programs, 1):
            good = run(program, variants)
            failed += not good
            print("%s %d %s of %s" % ("ok" if good else "not ok", number, program, " ".join(variants)),
                  flush=True)
    finally:
        rsoft.unload()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
