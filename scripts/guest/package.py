#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""package.py first|again|containers|last: the part of scripts/test-package that runs in the machine on
which the packages are installed.

first       after the installation: configures and applies, and uses RDMA by unmodified programs
again       after a reboot: the same without configuring
containers  the programs are in containers of podman
last        removes and purges both packages, and looks for what they leave
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import traceback

import containers
from machine import CONFIG, DATA, PORT, SIZE, URL, counters, equal, fetch, run

UNIT = pathlib.Path("/etc/systemd/system/test-server.service")
BASELINE = pathlib.Path("/job/baseline")
SERVER_SECONDS = 60

TOML = """
ueids = ["TEST.PACKAGE"]
[sysctl]
net.smc.wmem = 262144
[devices]
soft = ["lo"]
[[accelerate]]
program = "curl"
[[accelerate]]
unit = "test-server.service"
"""
SERVER = f"""
[Unit]
After=network.target
[Service]
ExecStart=/usr/bin/python3 -m http.server --bind 127.0.0.1 --directory {DATA.parent} {PORT}
[Install]
WantedBy=multi-user.target
"""
# Files of other packages on this machine, and of the test.
NOT_OURS = re.compile(r"/__pycache__(?:/|$)|^/(?:"
                      r"(?:run|tmp|dev|proc|sys|boot|src|job|out|lost\+found|root|srv|mnt)(?:/.*)?"
                      r"|var/lib/(?:dkms(?:/mok\.(?:key|pub))?|(?:dpkg|apt|systemd|dbus|private)/.*)"
                      r"|var/(?:cache/(?!rdma-sock)|log/|tmp/).*"
                      r"|(?:etc|var)/\.updated"
                      r"|(?:var/lib|etc)/(?:containers|cni)(?:/.*)?"
                      r"|etc/(?:machine-id|ld\.so\.cache|mtab|\.pwd\.lock|resolv\.conf|adjtime)"
                      r"|(?:usr/)?lib/modules/[^/]*/(?:modules\.[^/]*|updates(?:/dkms)?)"
                      r"|etc/systemd/system/(?:test-server\.service|multi-user\.target\.wants/test-server.*)"
                      r")$")


def listens():
    """Whether the server listens; a connection would count as a fallback."""
    wanted = [f"0100007F:{PORT:04X}", "0A"]
    lines = pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()
    return any(line.split()[1:4:2] == wanted for line in lines)


def await_server():
    """Waits until the server listens: its service has no way to say so."""
    end = time.monotonic() + SERVER_SECONDS
    while not listens():
        if time.monotonic() > end:
            raise AssertionError("no listener: " + run("systemctl", "status", UNIT.name, check=False))
        time.sleep(0.2)


def test_module_was_loaded_at_boot_from_dkms():
    """modules-load.d, and the module of DKMS."""
    equal(pathlib.Path("/sys/module/rdma_sock/initstate").read_text(encoding="ascii"), "live\n", "state")
    path = run("modinfo", "-n", "rdma_sock")
    if "/updates/dkms/" not in path:
        raise AssertionError(path)


def test_modules_are_signed_by_dkms():
    """DKMS makes a key where the machine has none."""
    for module in ("rdma_sock", "rdma_soft"):
        if not run("modinfo", "-F", "signer", module):
            raise AssertionError(f"{module} has no signature")


def test_family_has_one_owner():
    """Family 43 makes a socket, and smc is not loaded for it."""
    socket.socket(43, socket.SOCK_STREAM).close()
    equal(pathlib.Path("/sys/module/smc").exists(), False, "smc")


def test_no_unit_has_failed():
    """All units of the machine are well."""
    equal(run("systemctl", "--failed", "--no-legend", "--plain"), "", "failed units")
    equal(run("systemctl", "is-active", "rdma-sock.service"), "active", "rdma-sock.service")


def test_file_of_the_package_asks_for_nothing():
    """The example is valid, and does nothing."""
    run("rdma-sock", "apply", "--check")
    equal(run("rdma-sock", "apply", "--diff"), "", "differences")


def test_mistake_in_the_file_is_named_by_its_line():
    """A file with a mistake changes nothing."""
    text = CONFIG.read_text(encoding="utf-8")
    CONFIG.write_text("\nhard = 1\n", encoding="utf-8")
    found = run("rdma-sock", "apply", check=False)
    CONFIG.write_text(text, encoding="utf-8")
    if "line 2: unknown field `hard`" not in found:
        raise AssertionError(found)


def test_file_is_applied_with_its_differences():
    """Each line of the difference is of one change; then there is none."""
    DATA.write_bytes(os.urandom(SIZE))
    UNIT.write_text(SERVER, encoding="ascii")
    CONFIG.write_text(TOML, encoding="ascii")
    diff = subprocess.run(["rdma-sock", "apply", "--diff"], stdout=subprocess.PIPE, text=True, check=False)
    equal(diff.returncode, 3, "status with differences")
    wanted = ["sysctl net.smc.wmem: 131072 -> 262144", "ueids: (none) -> TEST.PACKAGE",
              "devices: + an RDMA device on lo", "accelerate: + program curl (smc)"]
    equal(diff.stdout.splitlines(), wanted, "differences")
    run("systemctl", "daemon-reload")
    run("systemctl", "reload", "rdma-sock")
    run("systemctl", "enable", "--now", UNIT.name)
    test_applied_file_differs_no_longer()


def test_applied_file_differs_no_longer():
    """Also with the service that runs now."""
    await_server()
    equal(run("rdma-sock", "apply", "--diff"), "", "differences")
    equal(pathlib.Path("/proc/sys/net/smc/wmem").read_text(encoding="ascii"), "262144\n", "sysctl")
    equal(pathlib.Path("/proc/net/rdma_sock/ueids").read_text(encoding="ascii").split(), ["TEST.PACKAGE"],
          "identifiers")


def test_unmodified_programs_use_rdma():
    """curl and a server of Python, by the selectors of the file."""
    await_server()
    fetch(URL, smc_srv_conns=1)


def test_service_that_starts_again_uses_rdma():
    """It has another cgroup then, and the selector of the old one is gone."""
    count = len(run("rdma-sock", "accel", "status").splitlines())
    run("systemctl", "restart", UNIT.name)
    await_server()
    fetch(URL, smc_srv_conns=1)
    equal(len(run("rdma-sock", "accel", "status").splitlines()), count, "lines of accel status")


def test_program_that_is_run_by_the_library_uses_rdma():
    """The preload library of the package is found."""
    before = counters()
    code = f"import urllib.request as u; print(len(u.urlopen('{URL}').read()))"
    equal(run("rdma-sock", "run", "--", "python3", "-c", code), str(SIZE), "octets")
    equal(counters()["smc_clnt_conns"] - before["smc_clnt_conns"], 1, "connections")


def test_manual_and_completions_are_installed():
    """What a user looks for."""
    for path in ("/usr/share/man/man1/rdma-sock.1.gz", "/usr/share/man/man5/rdma-sock.toml.5.gz",
                 "/usr/share/bash-completion/completions/rdma-sock",
                 "/usr/share/zsh/vendor-completions/_rdma-sock",
                 "/usr/share/fish/vendor_completions.d/rdma-sock.fish"):
        if not pathlib.Path(path).stat().st_size:
            raise AssertionError(f"{path} is empty")


def test_removal_ends_acceleration_and_removes_the_modules():
    """The configuration stays until the packages are purged."""
    run("systemctl", "disable", "--now", UNIT.name)
    run("apt-get", "remove", "-y", "rdma-sock", "rdma-sock-dkms")
    equal(pathlib.Path("/sys/fs/bpf/rdma-sock").exists(), False, "BPF folder")
    equal(run("dkms", "status"), "", "dkms status")
    equal(list(pathlib.Path("/lib/modules").glob("*/updates/dkms/rdma_*")), [], "modules")
    equal(CONFIG.exists(), True, "configuration")
    run("rmmod", "rdma_sock")


def test_purge_leaves_nothing():
    """The files are those from before the installation."""
    run("apt-get", "purge", "-y", "rdma-sock", "rdma-sock-dkms")
    before = set(BASELINE.read_text(encoding="utf-8").splitlines())
    now = set(run("find", "/", "-xdev", check=False).splitlines())
    left = sorted(path for path in now - before if not NOT_OURS.match(path))
    equal(left, [], "left behind")
    equal(sorted(path for path in before - now if not NOT_OURS.match(path)), [], "missing")
    run("systemctl", "daemon-reload")
    equal(run("systemctl", "--failed", "--no-legend", "--plain"), "", "failed units")


INSTALLED = [test_module_was_loaded_at_boot_from_dkms, test_modules_are_signed_by_dkms,
             test_family_has_one_owner, test_no_unit_has_failed]
USED = [test_unmodified_programs_use_rdma, test_service_that_starts_again_uses_rdma,
        test_program_that_is_run_by_the_library_uses_rdma]
STEPS = {
    "first": INSTALLED + [test_file_of_the_package_asks_for_nothing,
                          test_mistake_in_the_file_is_named_by_its_line,
                          test_file_is_applied_with_its_differences] + USED +
             [test_manual_and_completions_are_installed],
    "again": INSTALLED + [test_applied_file_differs_no_longer] + USED,
    "containers": containers.TESTS,
    "last": [test_removal_ends_acceleration_and_removes_the_modules, test_purge_leaves_nothing],
}


def main():
    """Prints KTAP."""
    failed = 0
    print("KTAP version 1", flush=True)
    steps = [(word, test) for word in sys.argv[1:] for test in STEPS[word]]
    print(f"1..{len(steps)}", flush=True)
    for number, (word, test) in enumerate(steps, 1):
        name = f"{word}_{test.__name__.removeprefix('test_')}"
        begun = time.monotonic()
        try:
            test()
            print(f"ok {number} {name} # {time.monotonic() - begun:.0f} s", flush=True)
        # Each failure is reported, and the other tests go on.
        except Exception:  # pylint: disable=broad-exception-caught
            failed += 1
            print("\n".join("# " + line for line in traceback.format_exc().splitlines()), flush=True)
            print(f"not ok {number} {name}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
