# SPDX-License-Identifier: GPL-2.0

"""Guests that are machines of QEMU with the stock kernel. KVM is used only after a guest was seen to
boot with it: the device node alone proves nothing (nested machines often have it in vain)."""

import os
import pathlib
import subprocess
import tempfile

LINES_BY = "virtio"
QEMU = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-machine", "pc,usb=off,vmport=off,hpet=off"]
# QEMU translates string instructions into a loop over single octets. Without the flags that say that
# they are fast, the kernel copies and clears by words, in a third of the time.
SLOW_STRINGS = "-erms,-fsrm,-fsrs,-fsrc,-fzrm"
TCG = ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", f"max,{SLOW_STRINGS}"]
KVM = ["-accel", "kvm", "-cpu", "host"]
PROBE_SECONDS = 20


def prepare(args, script):
    """The files to boot from, made if need be."""
    boot = {
        "kernel": script("kernel", "--image", args.kind),
        "initramfs": script("rootfs", "--initramfs", args.kind),
        "root": script("rootfs", "--image"),
    }
    boot["accel"] = KVM if kvm_works(boot) else TCG
    return boot


def kvm_works(boot):
    """Whether a guest really boots with KVM here; asked once per boot of this machine."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    cache = pathlib.Path(os.environ["RDMA_SOCK_CACHE"])
    this_boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    answer = cache / "stamp" / "kvm"
    try:
        known, works = answer.read_text(encoding="ascii").split()
        if known == this_boot:
            return works == "yes"
    except (FileNotFoundError, ValueError):
        pass
    works = probe(boot)
    with tempfile.NamedTemporaryFile("w", dir=answer.parent, delete=False) as f:
        f.write(f"{this_boot} {'yes' if works else 'no'}\n")
    os.replace(f.name, answer)
    return works


def probe(boot):
    """Boots the kernel with KVM as far as its first process."""
    argv = QEMU + KVM + ["-m", "512", "-kernel", boot["kernel"], "-initrd", boot["initramfs"],
                         "-serial", "stdio", "-append", "console=ttyS0 panic=-1 rdinit=/none"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return b"Kernel panic" in done.stdout


def start(guest, boot, args, wire, top):
    """Starts QEMU."""
    fd = guest.open_lines()
    pair = wire is not None
    argv = QEMU + boot["accel"] + [
        # Two processors each would only fight over those of the host.
        "-smp", str(args.cpus or (1 if pair else 2)),
        "-m", str(args.mem or 1024),
        "-kernel", boot["kernel"],
        "-initrd", boot["initramfs"],
        "-append", "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off audit=0 "
                   f"random.trust_cpu=on {args.append}".strip(),
        "-chardev", f"socket,id=console,fd={fd['console']}",
        "-serial", "chardev:console",
        "-device", "virtio-serial-pci",
        "-object", "rng-random,id=rng,filename=/dev/urandom",
        "-device", "virtio-rng-pci,rng=rng",
        "-drive", f"if=none,id=root,file={boot['root']},format=raw,file.locking=off,"
                  f"readonly={'off' if boot.get('writable') else 'on'}",
        "-device", "virtio-blk-pci,drive=root",
    ]
    for name in ("output", "control"):
        argv += ["-chardev", f"socket,id={name},fd={fd[name]}",
                 "-device", f"virtserialport,chardev={name},name={name}"]
    for tag, path, mode in (("src", top, ",readonly=on"), ("job", guest.folder, ""),
                            ("out", guest.out, "")):
        argv += ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{mode}",
                 "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    wires = []
    if pair:
        number = "ab".index(guest.letter) + 1
        argv += ["-netdev", f"dgram,id=wire,local.type=fd,local.str={wire.fileno()}",
                 "-device", f"virtio-net-pci,netdev=wire,mac=02:00:00:00:77:0{number},romfile="]
        wires.append(wire)
    guest.spawn(argv, *wires)
