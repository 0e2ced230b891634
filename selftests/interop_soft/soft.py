# SPDX-License-Identifier: GPL-2.0
"""Programs of the target `interop` with a device of rdma_soft in each of the two guests."""

import os
import pathlib
import subprocess
import sys

import ktap
import topology
from topology import command

SOFT = "rdma_soft"
FOLDER = topology.HERE.parent / "interop"
GUEST = os.environ.get("GUEST", "")
ADDRESSES = {"a": "192.168.77.1", "b": "192.168.77.2"}
DEVICE = "rsoft0"


def load(roce):
    """Loads the module for a version of RoCE, and makes a device."""
    file = topology.module_file(SOFT)
    if file is None:
        ktap.skip_all("the module's file is not here")
    topology.load_needed(file)
    command("insmod", str(file), "roce=" + roce)
    command("rdma", "link", "add", DEVICE, "type", "rsoft", "netdev", "net0")
    topology.await_gid(DEVICE, ADDRESSES[GUEST])


def unload():
    """Removes the device and the module."""
    command("rdma", "link", "delete", DEVICE, check=False)
    command("rmmod", SOFT, check=False)


def sent():
    """Octets that the device has sent, and that left by IP."""
    file = pathlib.Path("/sys/class/infiniband", DEVICE, "ports/1/hw_counters/sent_bytes")
    names, values = [line.split() for line in pathlib.Path("/proc/net/netstat").read_text(
        encoding="ascii").splitlines() if line.startswith("IpExt:")]
    six = [int(line.split()[1]) for line in pathlib.Path("/proc/net/snmp6").read_text(
        encoding="ascii").splitlines() if line.startswith("Ip6OutOctets")]
    return int(file.read_text(encoding="ascii")), int(values[names.index("OutOctets")]) + sum(six)


def expect_version(roce, before):
    """Fails unless the device has sent data since, by IP or beside it as the version has it."""
    device, network = [now - was for now, was in zip(sent(), before)]
    ktap.equal(device > 1 << 20, True, "the device has sent %d octets" % device)
    ktap.equal(network > device, roce == "2", "%d octets left by IP, %d by the device" % (network, device))


def show_counters():
    """Prints the counters of all devices that are not 0."""
    for folder in pathlib.Path("/sys/class/infiniband").glob("*/ports/1/hw_counters"):
        values = {file.name: file.read_text(encoding="ascii").strip() for file in folder.iterdir()}
        print("# %s: %s" % (folder.parts[4], " ".join("%s=%s" % (name, value) for name, value in
                                                       sorted(values.items()) if value != "0")))


def nested(name, *words, **env):
    """Makes a test of a program, which shows its results in front of ours. Its arguments select cases."""
    def test():
        with subprocess.Popen(["./" + name, *words], cwd=FOLDER, env={**os.environ, **env},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            for line in process.stdout:
                print("# " + line, end="", flush=True)
        if process.returncode != 0:
            show_counters()
        ktap.equal(process.returncode, 0, "status")
    return ktap.named(" ".join([name, *words, *sorted(env.values())]), test)


def run(roce, programs):
    """Runs programs, each (name, arguments, environment), with devices for a version of RoCE, or those
    that the arguments of this program name; the exit status."""
    programs = [program for program in programs if not sys.argv[1:] or program[0] in sys.argv[1:]]
    if GUEST not in ADDRESSES:
        ktap.skip_all("needs two guests")
    missing = [name for name, _, _ in programs if not (FOLDER / name).exists()]
    if missing:
        ktap.skip_all("not built: " + " ".join(missing))
    load(roce)
    try:
        before = sent()
        tests = [nested(name, *words, LINK="rsoft", ROCE=roce, **env) for name, words, env in programs]
        if not sys.argv[1:]:
            data = [name for name, _, _ in programs].index("data.py")
            tests.insert(data + 1, ktap.named("the packets are of RoCE v" + roce, expect_version, roce, before))
        return ktap.run(tests)
    finally:
        unload()


def main(roce, *programs):
    """Runs programs, and ends this one."""
    sys.exit(run(roce, programs))
