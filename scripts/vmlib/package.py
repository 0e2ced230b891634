# SPDX-License-Identifier: GPL-2.0

"""Boots a disk with Debian's own init in QEMU, for scripts/test-package: package.py NAME DISK KERNEL
INITRD BASELINE COMMAND. scripts/guest/service.py of the disk runs the command; the status is the command's, or
1 if the kernel reported something."""

import pathlib
import shutil
import sys
import types

import guest
import kernel_log
import qemu
import run

TOP = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 1800
MEMORY_MIB = 1536
# The root of the disk itself, and no time for the settling of devices that are not there.
APPEND = "root=/dev/vda rw"


def main(name, disk, kernel, initrd, baseline, command):
    """One boot."""
    boot = {"kernel": kernel, "initramfs": initrd, "root": disk, "writable": True}
    boot["accel"] = qemu.KVM if qemu.kvm_works(boot) else qemu.TCG
    logs = TOP / "build" / "logs" / name
    shutil.rmtree(logs, ignore_errors=True)
    machine = guest.Guest("a", logs / "a", logs / "a" / "out", prefix="")
    machine.write_job({}, {}, command)
    shutil.copy(baseline, machine.folder / "baseline")
    try:
        qemu.start(machine, boot, types.SimpleNamespace(cpus=2, mem=MEMORY_MIB, append=APPEND), None, TOP)
        status = run.until_done([machine], TIMEOUT_SECONDS, "-v" in sys.argv)
    finally:
        machine.kill()
    found = kernel_log.reports(machine.folder, TOP / "scripts" / "vm.allow")
    for excerpt in found:
        print(f"vm: the kernel reported:\n{excerpt}", file=sys.stderr)
    machine.collect_ktap()
    return status or (1 if found else 0)


if __name__ == "__main__":
    sys.exit(main(*[word for word in sys.argv[1:] if word != "-v"]))
