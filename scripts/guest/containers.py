# SPDX-License-Identifier: GPL-2.0
"""Unmodified programs in containers of podman, for package.py: a server in a container, and curl of the
machine. The containers have no part of the packages."""

import json
import pathlib
import tarfile
import time

from machine import CONFIG, DATA, PORT, counters, equal, fetch, grow, run

IMAGE = "localhost/busybox"
BUSYBOX = "/usr/bin/busybox"
SLICE = """
[[accelerate]]
cgroup = "machine.slice"
"""


def make_image():
    """An image with a static busybox, for machines without a network."""
    file = pathlib.Path("/tmp/image.tar")
    with tarfile.open(file, mode="w") as tar:
        tar.add(BUSYBOX, "bin/busybox")
        for folder in ("srv", "tmp", "etc"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
    run("podman", "import", str(file), IMAGE)


def serve(name, address, *options):
    """Starts a container with a web server. Its number of process is returned."""
    run("podman", "run", "--detach", "--name", name, "--volume", f"{DATA.parent}:/srv:ro", *options, IMAGE,
        "/bin/busybox", "httpd", "-f", "-p", address, "-h", "/srv")
    return inspect(name)["State"]["Pid"]


def inspect(name):
    """What podman knows of a container."""
    return json.loads(run("podman", "inspect", name))[0]


def inside(pid, *words):
    """The output of a command of the machine in the network namespace of a process."""
    return run("nsenter", "-t", str(pid), "-n", *words)


def test_containers_are_selected_by_their_cgroup():
    """The slice of all containers of podman exists from the first one on."""
    make_image()
    # A container that does nothing, as a selector needs its cgroup.
    run("podman", "run", "--detach", "--name", "first", "--network", "none", IMAGE, "/bin/busybox", "sleep",
        "100000")
    CONFIG.write_text(CONFIG.read_text(encoding="ascii") + SLICE, encoding="ascii")
    equal(run("rdma-sock", "apply").splitlines(), ["accelerate: + cgroup machine.slice (smc)"], "changes")


def test_container_in_the_network_of_its_host_uses_rdma():
    """It uses the devices of the machine."""
    serve("host", f"127.0.0.1:{PORT + 1}", "--network", "host")
    fetch(f"http://127.0.0.1:{PORT + 1}/data", smc_srv_conns=1)


def test_container_in_a_network_of_its_own_uses_rdma():
    """It has a device on its own end of the bridge."""
    pid = serve("bridge", str(PORT + 2))
    network = next(iter(inspect("bridge")["NetworkSettings"]["Networks"].values()))
    run("rdma-sock", "device", "add", "podman0")
    inside(pid, "rdma-sock", "device", "add", "eth0")

    def there():
        """The counters of the container."""
        return counters(inside(pid, "cat", "/proc/self/net/rdma_sock/stat"))

    before = there()
    fetch(f"http://{network['IPAddress']}:{PORT + 2}/data", smc_srv_conns=0)
    grow(before, there(), smc_srv_conns=1, fallback_srv=0, tcp_payload_bytes=0)


def test_containers_leave_nothing():
    """The devices go with the interfaces below them: podman removes its bridge with the last container."""
    run("podman", "rm", "--force", "--ignore", "--time", "1", "first", "host", "bridge")
    end = time.monotonic() + 60
    while "podman0" in run("rdma-sock", "device", "list") and time.monotonic() < end:
        time.sleep(0.2)
    CONFIG.write_text(CONFIG.read_text(encoding="ascii").removesuffix(SLICE), encoding="ascii")
    equal(run("rdma-sock", "apply").splitlines(),
          ["accelerate: - cgroup /sys/fs/cgroup/machine.slice (smc)"], "changes")
    equal([line for line in run("rdma-sock", "device", "list").splitlines() if "podman0" in line], [],
          "devices")


TESTS = [test_containers_are_selected_by_their_cgroup, test_container_in_the_network_of_its_host_uses_rdma,
         test_container_in_a_network_of_its_own_uses_rdma, test_containers_leave_nothing]
