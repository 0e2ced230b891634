# SPDX-License-Identifier: GPL-2.0

"""The command line of scripts/vm: what to boot, with what inside, and what became of it."""

import argparse
import fcntl
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import guest
import kernel_log
import qemu
import run
import uml

TOP = pathlib.Path(__file__).resolve().parents[2]
KIND = re.compile(r"(?P<kind>lab|debug|stock(?:-[a-z]+)?)(?P<pair>2?)")
TIMEOUT = {uml: 300, qemu: 900}
MODULES = ("ours", "csmc", "none")


def kind(word):
    """A kernel of scripts/kernel, maybe with the 2 of pairs."""
    if not KIND.fullmatch(word):
        raise argparse.ArgumentTypeError("give lab, debug, stock or stock-SUITE, with a 2 for two")
    return word


def backend_of(args):
    """What runs guests of this kind."""
    return qemu if args.kind.startswith("stock") else uml


def parse(argv):
    """The command line, checked; `kind` without the 2 and `pair` as a flag."""
    p = argparse.ArgumentParser(
        prog="scripts/vm",
        description="Runs a command in one guest kernel, or two commands in two guests on a virtual "
        "wire. The exit status is the command's (the first that failed), 124 after the time limit, "
        "and 1 if a kernel logged a warning, a bug or a sanitizer's report.",
        epilog="In a guest: /src is the checkout (read-only), /out is writable and stays, net0 is the "
        "network card (192.168.77.1 and .2, fd77::1 and ::2), $GUEST is a or b, and `guest-sync NAME` "
        "waits for the other guest.")
    p.add_argument("kind", type=kind,
                   help="lab: User Mode Linux; debug: the same with lockdep and the like; stock: "
                   "Debian's kernel in QEMU; stock-SUITE: the one of that Debian suite; with a 2: two "
                   "of them")
    p.add_argument("--a", metavar="CMD", help="the command of guest a (pairs)")
    p.add_argument("--b", metavar="CMD", help="the command of guest b (pairs)")
    p.add_argument("--module", choices=MODULES, default="ours",
                   help="which SMC to load: this project's, the kernel's own C one, or none")
    p.add_argument("--module-a", choices=MODULES)
    p.add_argument("--module-b", choices=MODULES)
    p.add_argument("--module-params", default="", help="parameters for our module")
    p.add_argument("--rxe", action=argparse.BooleanOptionalAction,
                   help="make the soft-RoCE device rxe0 on net0 (default: if a module is loaded)")
    p.add_argument("--rsoft", action="store_true",
                   help="make the device rsoft0 of this project's rdma_soft.ko on net0, with RoCE v2, in "
                   "place of rxe0")
    p.add_argument("--modprobe", metavar="NAME", action="append", default=[])
    p.add_argument("--keep-module", action="store_true", help="do not unload modules at the end")
    p.add_argument("--timeout", type=float, metavar="SECONDS",
                   help="time limit; a debug kernel gets four times as much")
    p.add_argument("--out", type=pathlib.Path, metavar="DIR",
                   help="the host's folder behind /out (of pairs: DIR/a and DIR/b)")
    p.add_argument("--name", help="the log folder is build/logs/NAME instead of one by date")
    p.add_argument("--mem", type=int, metavar="MIB")
    p.add_argument("--cpus", type=int)
    p.add_argument("--mtu", type=int, default=1500)
    p.add_argument("--env", metavar="NAME=VALUE", action="append", default=[])
    p.add_argument("--allow", type=pathlib.Path, metavar="FILE", default=TOP / "scripts" / "vm.allow",
                   help="known lines of the kernel's log that do not fail the run")
    p.add_argument("--append", default="", help="more words for the kernel's command line")
    p.add_argument("--no-build", action="store_true", help="take build/KIND/rdma_sock.ko as it is")
    p.add_argument("--verbose", action="store_true", help="show the consoles as well")
    split = argv.index("--") if "--" in argv else len(argv)
    args = p.parse_args(argv[:split])
    words = argv[split + 1:]
    args.kind, number = KIND.fullmatch(args.kind).group("kind", "pair")
    args.pair = bool(number)
    if args.pair:
        if words or args.a is None or args.b is None:
            p.error("two guests need --a CMD and --b CMD, and nothing after --")
        args.commands = {"a": args.a, "b": args.b}
    else:
        if not words or args.a is not None or args.b is not None:
            p.error("one guest needs its command after --")
        args.commands = {"a": words[0] if len(words) == 1 else shlex.join(words)}
    args.modules = {"a": args.module_a or args.module, "b": args.module_b or args.module}
    args.timeout = (args.timeout or TIMEOUT[backend_of(args)]) * (4 if args.kind == "debug" else 1)
    return args


def script(name, *args):
    """Runs one of the other scripts and returns the path it prints."""
    done = subprocess.run([TOP / "scripts" / name, *args], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"vm: scripts/{name} {' '.join(args)} failed")
    return done.stdout.strip().splitlines()[-1]


def log_folder(args):
    """A fresh folder for everything this run leaves behind."""
    logs = TOP / "build" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    if args.name is None:
        stem = f"{args.kind}{'2' if args.pair else ''}-{time.strftime('%Y%m%d-%H%M%S')}-"
        return pathlib.Path(tempfile.mkdtemp(prefix=stem, dir=logs))
    folder = logs / args.name
    # Held until this process ends: two runs must not share a folder.
    lock = os.open(logs / f".{args.name}.lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"vm: another run with --name {args.name} is going on")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def variables(args, letter, backend):
    """What guest/init reads from /job/vars."""
    module = args.modules[letter]
    rxe = args.rxe if args.rxe is not None else module != "none"
    link = "rsoft" if args.rsoft else "rxe" if rxe else ""
    number = "ab".index(letter) + 1
    values = {
        "GUEST": letter,
        "KIND": args.kind,
        "NUMBER": number,
        "PEER": f"192.168.77.{3 - number}" if args.pair else "192.168.77.1",
        "MTU": args.mtu,
        "LINES_BY": backend.LINES_BY,
        "MODULE": module,
        "MODULE_PARAMS": args.module_params,
        "MODPROBE": " ".join(args.modprobe),
        "LINK": link,
        "KEEP_MODULE": int(args.keep_module),
    }
    return values, dict(e.split("=", 1) for e in args.env)


def main():
    """Boots, waits, judges."""
    args = parse(sys.argv[1:])
    backend = backend_of(args)
    if "ours" in [args.modules[x] for x in args.commands] and not args.no_build:
        script("module", args.kind)
    boot = backend.prepare(args, script)
    logs = log_folder(args)
    # A signal ends the run by way of the finally clauses.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: sys.exit(128 + n))
    wire = guest.wire() if args.pair else {}
    guests = []
    try:
        for letter, command in args.commands.items():
            out = (args.out or logs / letter / "out").absolute()
            if args.out and args.pair:
                out = out / letter
            g = guest.Guest(letter, logs / letter, out, prefix=f"{letter}: " if args.pair else "")
            values, env = variables(args, letter, backend)
            g.write_job(values, env, command)
            guests.append(g)
            backend.start(g, boot, args, wire.get(letter), TOP)
        for end in wire.values():
            end.close()
        status = run.until_done(guests, args.timeout, args.verbose)
    except KeyboardInterrupt:
        status = 130
    finally:
        for g in guests:
            g.kill()
    for g in guests:
        found = kernel_log.reports(g.folder, args.allow)
        for excerpt in found:
            print(f"vm: guest {g.letter}: the kernel reported:\n{excerpt}", file=sys.stderr)
        if g.status is None and not found:
            print(f"vm: guest {g.letter}: the end of its console:\n{g.end_of_console()}", file=sys.stderr)
        if found and status in (0, run.TIMED_OUT, run.NO_RESULT):
            status = 1
        g.collect_ktap()
    if status:
        print(f"vm: status {status}; logs in {logs}", file=sys.stderr)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
