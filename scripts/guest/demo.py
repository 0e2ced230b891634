#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""The part of scripts/demo that runs in the guests: b serves, a fetches; both go through the same
steps and note before and after each what their counters say. The programs are Debian's own."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path("/run/demo")
SERVER = os.environ["GUEST"] == "b"
PEER = os.environ["PEER"]
TOOL = "/src/build/tools/rdma-sock"
CGROUP = "/sys/fs/cgroup/vm"
LIMIT = 600
# How long a server may take to give its port back.
STOP = 60
MIB = 1 << 20

BIG = 64 * MIB
SMALL = 4 * MIB
IPERF = 16 * MIB

# Every TCP segment on the virtual wire, by direction and length of its header, so that the octets of
# payload can be told from those of headers; and the datagrams of RoCEv2 beside them.
HEADER_WORDS = range(5, 16)
RULES = """
table inet demo {
%(counters)s
	counter roce_out { }
	counter roce_in { }
	chain out {
		type filter hook output priority 1000
		oifname != net0 accept
		udp dport 4791 counter name roce_out accept
%(out)s
	}
	chain in {
		type filter hook input priority -1000
		iifname != net0 accept
		udp dport 4791 counter name roce_in accept
%(in)s
	}
}
"""


def rules():
    """The counters as an nft script."""
    ways = ("out", "in")
    return RULES % {
        "counters": "\n".join(f"\tcounter tcp_{w}_{n} {{ }}" for w in ways for n in HEADER_WORDS),
        **{w: "\n".join(f"\t\tmeta nfproto ipv4 tcp doff {n} counter name tcp_{w}_{n} accept"
                        for n in HEADER_WORDS) for w in ways},
    }


def wire():
    """What has passed on the wire: payload octets of TCP and octets of RoCEv2, by direction."""
    listing = json.loads(run("nft", "-j", "list", "counters", "table", "inet", "demo"))
    tcp = {"out": 0, "in": 0}
    roce = {"out": 0, "in": 0}
    for item in listing["nftables"]:
        counter = item.get("counter")
        if counter is None:
            continue
        kind, way, *words = counter["name"].split("_")
        if kind == "roce":
            roce[way] = counter["bytes"]
        else:
            tcp[way] += counter["bytes"] - counter["packets"] * (20 + 4 * int(words[0]))
    return {"tcp_payload": tcp, "roce": roce}


def run(*argv, **kwargs):
    """Runs a program to its end and returns what it printed; raises if it failed."""
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, timeout=LIMIT, **kwargs).stdout


def sync(name, data=""):
    """Waits for the other guest; returns its data."""
    return run("guest-sync", name, data, text=True).strip()


def module_loaded():
    """Whether this guest has our module."""
    return os.path.isdir("/sys/module/rdma_sock")


def counters():
    """The counters of our module and those of the wire."""
    now = {"wire": wire()}
    if module_loaded():
        now["module"] = json.loads(run(TOOL, "status", "--json"))
    return now


def serve(pattern, *argv, **kwargs):
    """Starts a server and waits for the line that says it listens."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, **kwargs)
    seen = []
    for line in process.stdout:
        seen.append(line)
        if re.search(pattern, line):
            return process
    sys.exit(f"{argv[0]} did not start:\n{''.join(seen)}")


def digest(data):
    """What files are compared by."""
    return hashlib.sha256(data).hexdigest()


def nginx_conf():
    """A web server with one file."""
    (HERE / "nginx.conf").write_text(
        "user root; pid /run/demo/nginx.pid; error_log stderr; worker_processes 1;\n"
        "events { }\n"
        "http { access_log off; sendfile on; server { listen 8080; root /run/demo; } }\n",
        encoding="ascii")


def prepare_server():
    """Guest b's files and keys."""
    (HERE / "big").write_bytes(os.urandom(BIG))
    (HERE / "small").write_bytes(os.urandom(SMALL))
    nginx_conf()
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-subj", "/CN=b", "-keyout", str(HERE / "tls.key"), "-out", str(HERE / "tls.crt"),
        stderr=subprocess.DEVNULL)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(HERE / "host_key"))
    host_key = (HERE / "host_key.pub").read_text(encoding="ascii").strip()
    (HERE / "authorized").write_text(sync("keys", host_key) + "\n", encoding="ascii")


def start_servers():
    """All of guest b's servers."""
    # Returns once it listens.
    run("nginx", "-c", str(HERE / "nginx.conf"))
    return [
        serve("Server listening", "iperf3", "-s", "--forceflush"),
        serve("Ready to accept", "redis-server", "--save", "", "--protected-mode", "no",
              "--bind", "0.0.0.0", cwd=HERE),
        serve("ACCEPT", "openssl", "s_server", "-accept", "8443", "-WWW", "-key", "tls.key",
              "-cert", "tls.crt", cwd=HERE),
        serve("Server listening", "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-p", "2222",
              "-h", str(HERE / "host_key"), "-o", "ListenAddress=0.0.0.0", "-o", "StrictModes=no",
              "-o", f"AuthorizedKeysFile={HERE / 'authorized'}", "-o", "UsePAM=no",
              "-o", "PermitRootLogin=prohibit-password"),
    ]


def stop_servers(servers):
    """Ends them, and waits for it: the next ones take their ports."""
    nginx = int((HERE / "nginx.pid").read_text(encoding="ascii"))
    run("nginx", "-c", str(HERE / "nginx.conf"), "-s", "stop")
    for process in servers:
        process.terminate()
    for process in servers:
        process.wait(STOP)
    end = time.monotonic() + STOP
    while os.path.exists(f"/proc/{nginx}"):
        if time.monotonic() > end:
            sys.exit("nginx does not stop")
        time.sleep(0.05)


def prepare_client():
    """Guest a's keys."""
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(HERE / "key"))
    key = (HERE / "key.pub").read_text(encoding="ascii").strip()
    host_key = sync("keys", key)
    (HERE / "known").write_text(f"[{PEER}]:2222 {host_key}\n", encoding="ascii")


def curl():
    """A large file by HTTP."""
    run("curl", "-sS", "--fail", "-o", str(HERE / "fetched"), f"http://{PEER}:8080/big")
    return digest((HERE / "fetched").read_bytes()), BIG


def iperf3():
    """A stream of known length. The receiver stops counting when the sender says that it is done, so
    it may count less than was sent, also over plain TCP."""
    report = json.loads(run("iperf3", "-c", PEER, "-n", str(IPERF), "-J"))["end"]
    received = report["sum_received"]["bytes"]
    return ("counted" if report["sum_sent"]["bytes"] >= IPERF >= received > 0 else "lost"), received


def redis():
    """Many small requests, then one large value there and back."""
    run("redis-benchmark", "-h", PEER, "-c", "4", "-n", "400", "-d", "4096", "-t", "set,get", "-q")
    value = os.urandom(MIB)
    run("redis-cli", "-h", PEER, "-x", "set", "value", input=value)
    back = run("redis-cli", "-h", PEER, "get", "value")
    return ("compared" if back == value + b"\n" else "different"), 2 * MIB + 2 * 400 * 4096


def tls():
    """A file through a TLS session."""
    answer = run("openssl", "s_client", "-quiet", "-connect", f"{PEER}:8443",
                 input=b"GET /small HTTP/1.0\r\n\r\n", stderr=subprocess.DEVNULL)
    return digest(answer.split(b"\r\n\r\n", 1)[1]), SMALL


def ssh():
    """A file through an SSH session."""
    data = run("ssh", "-F", "none", "-p", "2222", "-i", str(HERE / "key"), "-o", "BatchMode=yes",
               "-o", f"UserKnownHostsFile={HERE / 'known'}", f"root@{PEER}", f"cat {HERE / 'small'}")
    return digest(data), SMALL


# Name, what the client runs, and what its verdict must be: the hash of a file or a word.
STEPS = (
    ("curl / nginx", curl, "big"),
    ("iperf3", iperf3, "counted"),
    ("redis-benchmark / redis-server", redis, "compared"),
    ("openssl s_client / s_server", tls, "small"),
    ("ssh / sshd", ssh, "small"),
)


def expected(what):
    """The verdict that `what` stands for, as the server knows it."""
    file = HERE / what
    return digest(file.read_bytes()) if file.exists() else what


def step(protocol, name, client, what):
    """One program: returns this guest's notes about it."""
    tag = f"{protocol}-" + re.sub(r"\W+", "-", name)
    wanted = sync(f"{tag}-begin", expected(what) if SERVER else "")
    notes = {"protocol": protocol, "name": name, "before": counters()}
    sync(f"{tag}-noted")
    if not SERVER:
        start = os.times().elapsed
        try:
            verdict, notes["payload"] = client()
            notes["data_ok"] = verdict == wanted
            notes["checked_by"] = "hash" if what in ("big", "small") else wanted
        except (subprocess.SubprocessError, ValueError, KeyError, IndexError) as error:
            print(f"{name}: {error}", flush=True)
            notes["payload"] = 0
            notes["data_ok"] = False
        notes["seconds"] = round(os.times().elapsed - start, 2)
        print(f"{name}: {'ok' if notes['data_ok'] else 'FAILED'} in {notes['seconds']} s", flush=True)
    sync(f"{tag}-end")
    notes["after"] = counters()
    sync(f"{tag}-done")
    return notes


def round_of(protocol):
    """All steps with the sockets of a protocol, for which the servers are started anew."""
    if module_loaded():
        run(TOOL, "accel", "on", "--cgroup", CGROUP, "--proto", protocol)
    servers = start_servers() if SERVER else []
    sync(f"{protocol}-ready")
    notes = [step(protocol, *s) for s in STEPS]
    if SERVER:
        stop_servers(servers)
    sync(f"{protocol}-over")
    return notes


def main():
    """Both rounds; the notes go to /out/steps.json, for the host to judge."""
    HERE.mkdir()
    run("nft", "-f", "-", input=rules(), text=True)
    if SERVER:
        prepare_server()
    else:
        prepare_client()
    notes = round_of("smc") + round_of("sdp")
    pathlib.Path("/out/steps.json").write_text(json.dumps(notes, indent=1), encoding="ascii")
    if module_loaded():
        run(TOOL, "accel", "off")


main()
