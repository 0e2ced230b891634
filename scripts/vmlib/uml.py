# SPDX-License-Identifier: GPL-2.0

"""Guests that are User Mode Linux: the lab kernel and its debug variant."""

import os
import pathlib

LINES_BY = "tty"
SHM = "/dev/shm"


def prepare(args, script):
    """The files to boot from, made if need be."""
    modules = pathlib.Path(script("kernel", "--modules", args.kind))
    return {
        "linux": script("kernel", "--image", args.kind),
        "modules": modules / "lib" / "modules",
        "root": script("rootfs"),
        "initramfs": script("rootfs", "--initramfs", "lab"),
    }


def memory_folder(mib):
    """Where the file that is the guest's memory goes: to shared memory if that is large enough (in
    containers it often is not), so that it is not written to disk all the time."""
    try:
        room = os.statvfs(SHM)
    except FileNotFoundError:
        return "/tmp"
    return SHM if room.f_bavail * room.f_frsize > (2 * mib << 20) else "/tmp"


def start(guest, boot, args, wire, top):
    """Starts the kernel as a process of this machine."""
    fd = guest.open_lines()
    debug = args.kind == "debug"
    # Modules lie behind the memory and reach the kernel before it by 32 bit relative calls.
    mem = min(args.mem or (1200 if debug else 768), 1536)
    cpus = args.cpus or 2
    argv = [
        boot["linux"],
        f"mem={mem}M",
        f"ncpus={cpus}",
        # The ptrace way of running user space knows one processor only.
        "seccomp=on",
        f"initrd={boot['initramfs']}",
        f"vm.root={boot['root']}",
        f"vm.modules={boot['modules']}",
        f"vm.src={top}",
        f"vm.job={guest.folder}",
        f"vm.out={guest.out}",
        "umid=uml",
        f"uml_dir={guest.folder}",
        "con=null",
        f"con0=fd:{fd['console']},fd:{fd['console']}",
        f"con1=fd:{fd['output']},fd:{fd['output']}",
        f"con2=fd:{fd['control']},fd:{fd['control']}",
        "console=tty0",
        "ignore_loglevel",
        "panic=-1",
        "oops=panic",
        "kunit.enable=1",
        "kunit.autorun=1",
    ]
    if debug:
        # Without the callers of each allocation, which cost more than all else.
        argv.append("slab_debug=FZP")
    wires = []
    if wire is not None:
        number = "ab".index(guest.letter) + 1
        # A deeper queue than 64 makes the kernel complain about the NAPI weight.
        argv.append(f"vec0:transport=fd,fd={wire.fileno()},mac=02:00:00:00:77:0{number},depth=64,"
                    f"mtu={args.mtu}")
        wires.append(wire)
    argv += args.append.split()
    guest.spawn(argv, *wires, env={**os.environ, "TMPDIR": memory_folder(mem)})
