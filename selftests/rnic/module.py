#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Loading and unloading rdma_soft.ko: alone, many times, and beside rdma_sock.ko.

Covers RNIC-GEN-02, RNIC-LIFE-07, RNIC-DATA-05.
"""

import os
import pathlib
import struct
import subprocess
import sys

import ktap
import topology
from ktap import equal

SOFT, SOCK = "rdma_soft", "rdma_sock"
FILES = {name: topology.module_file(name) for name in (SOFT, SOCK)}
# Of rdma_sock, as the guest loaded it.
PARAMETERS = []


def is_loaded(name):
    """Whether a module is there, and ready."""
    state = pathlib.Path("/sys/module", name, "initstate")
    return state.exists() and state.read_text(encoding="ascii").strip() == "live"


def insmod(name):
    """Loads a module that is not there."""
    equal(is_loaded(name), False, "%s before insmod" % name)
    topology.command("insmod", str(FILES[name]), *(PARAMETERS if name == SOCK else []))
    equal(is_loaded(name), True, "%s after insmod" % name)


def rmmod(name):
    """Unloads a module that nothing uses."""
    equal(topology.module_users(name), 0, "users of %s" % name)
    topology.command("rmmod", name)
    equal(os.path.exists("/sys/module/" + name), False, "%s after rmmod" % name)


def modinfo(field):
    """A line of what the module says about itself."""
    return topology.command("modinfo", "-F", field, str(FILES[SOFT])).strip()


def module_has_description_and_licence():
    """modinfo prints them."""
    equal(modinfo("name"), SOFT, "name")
    equal(modinfo("license"), "GPL", "license")
    equal(modinfo("description") != "", True, "description")


def module_needs_no_other_module_of_the_tree():
    """The modules share sources, no symbols."""
    equal(SOCK in modinfo("depends").split(","), False, "depends")


def symbols_wanted(file):
    """The symbols that a module's file (ELF, 64 bits, little endian) asks the kernel for."""
    octets = file.read_bytes()
    table, = struct.unpack_from("<Q", octets, 0x28)
    size, count = struct.unpack_from("<HH", octets, 0x3a)
    # Of each section: name, type, flags, address, offset, size, link to another.
    sections = [struct.unpack_from("<IIQQQQI", octets, table + size * number)
                for number in range(count)]
    found = set()
    for section in (section for section in sections if section[1] == 2):
        names = sections[section[6]][4]
        for name, _, _, index, _, _ in struct.iter_unpack("<IBBHQQ", octets[section[4]:][:section[5]]):
            if index == 0:
                found.add(octets[names + name:octets.index(b"\0", names + name)].decode("ascii"))
    return found


def module_has_exported_symbols_only():
    """It asks for no symbols by their name, and sets no probes."""
    wanted = symbols_wanted(FILES[SOFT])
    equal("ib_register_device" in wanted, True, "ib_register_device")
    for name in "kallsyms_lookup_name", "register_kprobe", "register_ftrace_function":
        equal(name in wanted, False, name)


def nothing_is_freed_behind_the_module():
    """It leaves no function to RCU that would run after its end, or waits for that at its end."""
    wanted = symbols_wanted(FILES[SOFT])
    for name in wanted:
        if name.startswith(("call_rcu", "call_srcu")):
            equal("rcu_barrier" in wanted or "srcu_barrier" in wanted, True, "barrier for " + name)
    # What it takes from readers, it frees behind them.
    equal("synchronize_rcu" in wanted, True, "synchronize_rcu")


def module_loads_and_unloads():
    """Once."""
    insmod(SOFT)
    rmmod(SOFT)


def log_names_the_routine_for_checksums():
    """That of the kernel where it has instructions of the processor for it."""
    insmod(SOFT)
    rmmod(SOFT)
    processor = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii")
    is_fast = "User Mode Linux" not in processor and "pclmulqdq" in processor
    named = [line.split(" by ", 1)[1] for line in topology.command("dmesg").splitlines()
             if "checksums of packets by" in line]
    equal(named[-1:], ["crc32_le of the kernel" if is_fast else "slicing by 8 in four lanes"], "routine")


def second_copy_is_refused():
    """The loaded module stays."""
    insmod(SOFT)
    done = subprocess.run(["insmod", str(FILES[SOFT])], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, check=False)
    equal(done.returncode != 0 and "File exists" in done.stdout, True, done.stdout)
    equal(is_loaded(SOFT), True, "the first one")
    rmmod(SOFT)


def module_loads_and_unloads_many_times():
    """An unloaded module leaves nothing that makes a later load fail."""
    for _ in range(25):
        insmod(SOFT)
        rmmod(SOFT)


def both_modules_load_and_unload_in_any_order():
    """Neither module needs or holds the other."""
    if is_loaded(SOCK):
        rmmod(SOCK)
    for first, second in ((SOFT, SOCK), (SOCK, SOFT)):
        for leaves, stays in ((SOFT, SOCK), (SOCK, SOFT)):
            insmod(first)
            insmod(second)
            rmmod(leaves)
            equal(is_loaded(stays), True, "%s without %s" % (stays, leaves))
            rmmod(stays)
    insmod(SOCK)


def main():
    """All tests."""
    if os.geteuid() != 0:
        ktap.skip_all("needs root")
    if None in FILES.values():
        ktap.skip_all("the modules' files are not here")
    if is_loaded(SOFT):
        ktap.skip_all("%s is loaded" % SOFT)
    topology.load_needed(FILES[SOFT])
    PARAMETERS.extend(topology.module_parameters())
    # The modules that rdma_sock needs stay loaded without it.
    if not is_loaded(SOCK):
        ktap.skip_all("%s is not loaded" % SOCK)
    return ktap.run([module_has_description_and_licence, module_needs_no_other_module_of_the_tree,
                     module_has_exported_symbols_only, nothing_is_freed_behind_the_module,
                     module_loads_and_unloads, log_names_the_routine_for_checksums,
                     second_copy_is_refused,
                     module_loads_and_unloads_many_times,
                     both_modules_load_and_unload_in_any_order])


if __name__ == "__main__":
    sys.exit(main())
