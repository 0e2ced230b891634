# SPDX-License-Identifier: GPL-2.0

"""The demonstration: runs guest/demo.py in two stock guests, first with our module in both, then in
the client only, each time by SMC-R and by SDP, and judges by the counters of the module and by those
of the wire."""

import argparse
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
OUT = TOP / "build" / "demo"
COMMAND = "python3 /src/scripts/guest/demo.py"
TIMEOUT_SECONDS = 1800
# The seconds that a run of a program is measured in.
CLOCK_STEP = 0.01
# All that a connection may put on TCP before it goes to RDMA: with SMC-R its Proposal, Accept and
# Confirm; SDP does not use TCP.
HANDSHAKE_BYTES = {"smc": 256, "sdp": 0}
TITLES = {"smc": "SMC-R", "sdp": "SDP"}
# Names of the counters of the module: SMC-R's have none of their own in front.
PREFIXES = {"smc": "", "sdp": "sdp_"}
# Connections of SDP that the programs of one round make at the least.
SDP_CONNECTIONS = 4


def guests(name, module_b, device):
    """Runs the two guests; returns the notes of a and b, or None if they made none."""
    out = OUT / name
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run(
        [TOP / "scripts" / "vm", "stock2", "--no-build", "--name", f"demo-{name}", "--mtu", "4200",
         "--module-a", "ours", "--module-b", module_b, f"--{device}", "--timeout", str(TIMEOUT_SECONDS),
         "--out", out, "--a", COMMAND, "--b", COMMAND], check=False)
    if done.returncode != 0:
        return None
    try:
        return [json.loads((out / g / "steps.json").read_text(encoding="ascii")) for g in "ab"]
    except (OSError, ValueError) as error:
        print(f"demo: no result: {error}", file=sys.stderr)
        return None


def grown(notes, *path):
    """By how much a counter grew during a step; 0 for a guest without it."""
    values = []
    for when in ("before", "after"):
        value = notes[when]
        for key in path:
            value = value.get(key, {}) if isinstance(value, dict) else {}
        values.append(value if isinstance(value, int) else 0)
    return values[1] - values[0]


def row(client, server):
    """One program's figures, of both guests."""
    both = (client, server)
    protocol = client["protocol"]
    prefix = PREFIXES[protocol]

    def counted(notes, name):
        """By how much a counter of the protocol grew at an end."""
        return grown(notes, "module", "counters", prefix + name)

    return {
        "program": client["name"],
        "protocol": protocol,
        "seconds": client["seconds"],
        "data_ok": client["data_ok"],
        "checked_by": client.get("checked_by", "nothing"),
        "payload_bytes": client["payload"],
        "rdma_connections": grown(client, "module", "counters", protocol + "_clnt_conns"),
        "rdma_connections_server": grown(server, "module", "counters", protocol + "_srv_conns"),
        # Those of the other protocol, of which there is none.
        "other_connections": sum(grown(client, "module", "counters", p + "_clnt_conns")
                                 for p in PREFIXES if p != protocol),
        "fallback_connections": counted(client, "fallback_clnt"),
        # What each side sent by RDMA.
        "rdma_bytes": sum(counted(n, "tx_bytes") for n in both),
        "tcp_payload_bytes": max(counted(n, "tcp_payload_bytes") for n in both),
        # As the client's card saw it, whatever the module says.
        "wire_tcp_bytes": sum(grown(client, "wire", "tcp_payload", w) for w in ("in", "out")),
        "wire_roce_bytes": sum(grown(client, "wire", "roce", w) for w in ("in", "out")),
    }


def faults_rdma(r):
    """What is wrong with a step that should have gone by RDMA."""
    if not r["data_ok"]:
        yield "the data is not what was sent"
    title = TITLES[r["protocol"]]
    if r["rdma_connections"] == 0:
        yield f"no {title} connection"
    if r["rdma_connections"] != r["rdma_connections_server"]:
        yield f"client and server count different numbers of {title} connections"
    if r["other_connections"]:
        yield f"not all connections are of {title}"
    if r["fallback_connections"]:
        yield "connections fell back to TCP"
    if r["rdma_bytes"] < r["payload_bytes"]:
        yield "less was sent by RDMA than the program carried"
    if r["wire_roce_bytes"] < r["payload_bytes"]:
        yield "less RoCE traffic was seen on the wire than the program carried"
    if r["tcp_payload_bytes"]:
        yield "payload went over TCP"
    if r["wire_tcp_bytes"] > HANDSHAKE_BYTES[r["protocol"]] * r["rdma_connections"]:
        yield "more was seen on TCP than handshakes"


def faults_tcp(r):
    """What is wrong with a step that should have gone by TCP."""
    if not r["data_ok"]:
        yield "the data is not what was sent"
    if r["rdma_connections"] or r["rdma_bytes"]:
        yield f"{TITLES[r['protocol']]} although the peer has no module"
    if r["fallback_connections"] == 0:
        yield "no connection is counted as fallen back"
    if r["wire_tcp_bytes"] < r["payload_bytes"]:
        yield "less was seen on TCP than the program carried"


def size(n):
    """A number of octets for people."""
    for unit in ("B", "KiB", "MiB"):
        if n < 1024 or unit == "MiB":
            return f"{n:.1f} {unit}" if isinstance(n, float) else f"{n} {unit}"
        n = n / 1024
    return ""


def rate(r):
    """Octets of payload per second, over the whole run of the program, with its start and its end. One
    that fails may end within a step of the clock, without payload."""
    return r["payload_bytes"] / max(r["seconds"], CLOCK_STEP)


def compare(rows):
    """Sets how the rate of each row by RDMA compares with the same program's over TCP, if that has one."""
    tcp = {(r["program"], r["protocol"]): rate(r) for r in rows if r["part"] == "fallback"}
    for r in rows:
        other = tcp.get((r["program"], r["protocol"])) if r["part"] == "rdma" else None
        r["rate_of_tcp"] = round(rate(r) / other, 2) if other else None


def table(rows):
    """The rows as text in columns."""
    heads = ("program", "asked for", "peer", "by", "connections", "payload", "by RDMA",
             "RoCE on wire", "TCP on wire", "seconds", "MiB/s", "to TCP's", "data checked")
    lines = [heads]
    for r in rows:
        title = TITLES[r["protocol"]]
        lines.append((
            r["program"], title, "module" if r["part"] == "rdma" else "no module",
            title if r["rdma_connections"] else "TCP",
            str(r["rdma_connections"] or r["fallback_connections"]), size(r["payload_bytes"]),
            size(r["rdma_bytes"]), size(r["wire_roce_bytes"]), size(r["wire_tcp_bytes"]),
            f"{r['seconds']:.2f}", f"{rate(r) / (1 << 20):.1f}",
            "-" if r["rate_of_tcp"] is None else f"{r['rate_of_tcp']:.2f}",
            r["checked_by"] if r["data_ok"] else "DIFFERENT"))
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip()
                     for line in lines)


def main():
    """Runs both parts and tells."""
    parser = argparse.ArgumentParser(prog="scripts/demo")
    parser.add_argument("device", nargs="?", choices=("rxe", "rsoft"), default="rxe",
                        help="the RDMA devices: rxe of the kernel's rdma_rxe (the default), rsoft of "
                        "rdma_soft")
    device = parser.parse_args().device
    OUT.mkdir(parents=True, exist_ok=True)
    lock = os.open(OUT / "lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("demo: another demonstration is running in this checkout")
    rows = []
    faults = []
    for part, module_b, check in (("rdma", "ours", faults_rdma), ("fallback", "none", faults_tcp)):
        print(f"demo: two machines, the module in {'both' if module_b == 'ours' else 'one'}, devices of "
              f"the type {device}", flush=True)
        notes = guests(part, module_b, device)
        if notes is None:
            faults.append(f"{part}: the guests failed")
            continue
        for client, server in zip(*notes):
            r = {"part": part, **row(client, server)}
            r["faults"] = list(check(r))
            faults += [f"{part}: {TITLES[r['protocol']]}: {r['program']}: {fault}"
                       for fault in r["faults"]]
            rows.append(r)
    compare(rows)
    print(f"\n{table(rows)}\n")
    for fault in faults:
        print(f"demo: {fault}")
    first = [r for r in rows if r["part"] == "rdma"]
    second = [r for r in rows if r["part"] == "fallback"]
    connections = {p: sum(r["rdma_connections"] for r in first if r["protocol"] == p)
                   for p in PREFIXES}
    if connections["sdp"] < SDP_CONNECTIONS:
        faults.append(f"rdma: {connections['sdp']} connections of SDP, not {SDP_CONNECTIONS} or more")
        print(f"demo: {faults[-1]}")
    result = {
        "result": "FAIL" if faults else "PASS",
        "device": device,
        "smc_connections": connections["smc"],
        "sdp_connections": connections["sdp"],
        "fallback_connections": sum(r["fallback_connections"] for r in second),
        "rdma_bytes": sum(r["rdma_bytes"] for r in first),
        "tcp_payload_bytes": sum(r["tcp_payload_bytes"] for r in first),
        "faults": faults,
        "programs": rows,
    }
    (TOP / "build" / "demo.json").write_text(json.dumps(result, indent=1) + "\n", encoding="ascii")
    print("demo: {result} smc_connections={smc_connections} fallback_connections={fallback_connections} "
          "rdma_bytes={rdma_bytes} tcp_payload_bytes={tcp_payload_bytes} "
          "sdp_connections={sdp_connections} device={device}".format(**result))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
