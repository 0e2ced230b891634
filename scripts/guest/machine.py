# SPDX-License-Identifier: GPL-2.0
"""The machine on which the packages are installed: its commands, the counters of the module, and what
unmodified programs fetch."""

import hashlib
import pathlib
import subprocess

STAT = pathlib.Path("/proc/net/rdma_sock/stat")
CONFIG = pathlib.Path("/etc/rdma-sock.toml")
DATA = pathlib.Path("/srv/data")
SIZE = 4 << 20
PORT = 8080
URL = f"http://127.0.0.1:{PORT}/data"


def run(*words, check=True):
    """The output of a command."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(words)}: status {done.returncode}: {done.stdout.strip()}")
    return done.stdout.strip()


def equal(found, wanted, what):
    """Fails unless both are the same."""
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, not {wanted!r}")


def counters(text=None):
    """The counters of the module, or those in a text of them."""
    lines = (text or STAT.read_text(encoding="ascii")).splitlines()
    return {name: int(value) for name, value in (line.split() for line in lines)}


def grow(before, after, **wanted):
    """Fails unless each counter has grown by its number of units."""
    for name, most in wanted.items():
        equal(after[name] - before.get(name, 0), most, name)


def fetch(url, **wanted):
    """curl fetches the data of a server; all of it goes by SMC-R. The words name other counters, and by how many
    units they grow."""
    before = counters()
    got = subprocess.run(["curl", "-sS", "--max-time", "120", url], stdout=subprocess.PIPE, check=True)
    after = counters()
    equal(hashlib.sha256(got.stdout).hexdigest(), hashlib.sha256(DATA.read_bytes()).hexdigest(), "data")
    grow(before, after, smc_clnt_conns=1, fallback_clnt=0, fallback_srv=0, tcp_payload_bytes=0, **wanted)
    received = after["rx_bytes"] - before["rx_bytes"]
    if received < SIZE:
        raise AssertionError(f"only {received} bytes by RDMA")
