# SPDX-License-Identifier: GPL-2.0
"""Devices of the type rsoft under the namespaces of netns.sh: the module, and counters of a device."""

import contextlib
import json
import os
import pathlib
import subprocess

import ktap
import topology
from topology import command

SOFT = "rdma_soft"
FILE = topology.module_file(SOFT)


def load(versions="3", direct=True, strict=0, dma=0, together=True, hook=True, plain=0):
    """Loads the module for these versions of RoCE; new namespaces get devices of it. Unless `direct`, all
    packets go by the network, and unless `together`, each by itself. Unless `hook`, UDP gets them all. `plain`
    is the sum of other fast paths that are off, and `strict` the number of the adapter that the devices behave
    like. With `dma` the kernel maps memory for them as for an adapter."""
    if FILE is None:
        ktap.skip_all("the module's file is not here")
    topology.load_needed(FILE)
    if os.path.isdir("/sys/module/" + SOFT):
        command("rmmod", SOFT)
    command("insmod", str(FILE), "roce=" + versions, "direct=%d" % direct, "strict=%d" % strict, "dma=%d" % dma,
            "together=%d" % together, "hook=%d" % hook, "plain=%d" % plain)
    os.environ.update(LINK_A="rsoft", LINK_B="rsoft")


def run_sockets(*settings):
    """Runs `sockets.py` with parameters of the module; its results are nested in ours."""
    program = topology.HERE / "sockets.py"
    with subprocess.Popen([str(program), *settings], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        for line in process.stdout:
            print("# " + line, end="", flush=True)
    ktap.equal(process.returncode, 0, "status")


def unload():
    """Removes the namespaces and the module."""
    topology.netns("down")
    command("rmmod", SOFT, check=False)


def run(tests):
    """Runs tests, removes the namespaces and the module behind them, and returns the status of the program."""
    try:
        return ktap.run(tests)
    finally:
        unload()


def counter(name, device="rs_b"):
    """A counter of a device. It may be some milliseconds old."""
    file = pathlib.Path("/sys/class/infiniband", device, "ports/1/hw_counters", name)
    return int(file.read_text(encoding="ascii"))


def counters(device="rs_b"):
    """All counters of a device, as `rdma statistic` shows them."""
    shown, = json.loads(command("rdma", "-j", "statistic", "show", "link", device + "/1"))
    return {name: value for name, value in shown.items() if isinstance(value, int)}


@contextlib.contextmanager
def rule(table, text):
    """Side b has a rule of nftables for what arrives, in a table of that family."""
    words = ("ip", "netns", "exec", "rs-b", "nft")
    command(*words, "add table %s arrival; add chain %s arrival in { type filter hook input priority 0; }; "
            "add rule %s arrival in %s" % (table, table, table, text))
    try:
        yield
    finally:
        command(*words, "delete table %s arrival" % table)


@contextlib.contextmanager
def losses(percent):
    """Both sides lose some of the packets that they send, for the block. Gives a function: the number that the
    side has lost that lost fewest. Packets that pass the network together are lost together."""
    def qdisc(verb, side, *words):
        return command("tc", "-s", "-j", "-n", "rs-" + side, "qdisc", verb, "dev", "v" + side, *words)

    def fewest():
        return min(json.loads(qdisc("show", side))[0]["drops"] for side in "ab")

    for side in "ab":
        qdisc("add", side, "root", "netem", "loss", "%d%%" % percent)
    try:
        yield fewest
    finally:
        for side in "ab":
            qdisc("delete", side, "root")


@contextlib.contextmanager
def counted(name, by, device="rs_b"):
    """Fails unless a counter grows by that number for the block, and no further. On a busy machine a side may
    repeat packets, or acknowledgments may come after that; then it may grow further."""
    def repeats():
        return [counter("completer_retry_err", one) for one in ("rs_a", "rs_b")]

    repeated, before = repeats(), counter(name, device)
    yield
    topology.until(lambda: counter(name, device) >= before + by,
                   "%s has not grown by %d" % (name, by), 10)
    if repeats() == repeated:
        ktap.equal(counter(name, device) - before, by, name)
