#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `rdma-sock bench` between two network namespaces: each transport with its path proven, and no figure
# for one that falls back.

set -u
# shellcheck source=selftests/tools/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=selftests/tools/sides.sh
. "$(dirname "$0")/sides.sh"
plan 17

background /dev/null ip netns exec rs-b "$TOOL" bench --serve
contains "server says its ports" "tcp on 7470, smc on 7471, sdp on 7472" "$NOTE"

report=$(a "$TOOL" bench 10.9.0.2 --seconds 1 --json --svg "$WORK/bench.svg")
same "bench succeeds" 0 $?
same "each transport has its own path" "[('tcp', 'tcp'), ('smc', 'smc'), ('sdp', 'sdp')]" \
	"$(json "$report" '[(r["transport"], r["mode"]) for r in d["results"]]')"
same "without errors" "[None, None, None]" "$(json "$report" '[r["error"] for r in d["results"]]')"
same "RDMA has its device" "[None, 'rs_a', 'rs_a']" \
	"$(json "$report" '[r["dev"] for r in d["results"]]')"
same "there are rounds" True "$(json "$report" 'all(r["latency"]["rounds"] > 0 for r in d["results"])')"
same "percentiles rise" True "$(json "$report" 'all(
	0 < r["latency"]["min_us"] <= r["latency"]["p50_us"] <= r["latency"]["p99_us"]
	<= r["latency"]["max_us"] for r in d["results"])')"
same "there is payload" True \
	"$(json "$report" 'all(r["throughput"]["bytes"] >= 1 << 17 for r in d["results"])')"
same "module counts the connections" True \
	"$(json "$(a "$TOOL" status --json)" 'd["counters"]["smc_clnt_conns"] >= 2 and d["counters"]["sdp_clnt_conns"] >= 2')"
same "picture is XML" svg "$(well_formed <"$WORK/bench.svg")"

# A transport that falls back has the reason in place of figures.
b sysctl -qw net.rdma_sock.sdp_accept=off
text=$(a "$TOOL" bench 10.9.0.2 --seconds 1 --transport sdp --transport tcp)
same "fallback is no failure" 0 $?
contains "it is named as such" "sdp: fell back to TCP: " "$text"
same "and has no bar" 1 "$(printf '%s\n' "$text" | grep -c '^  tcp .*█.*us$')"
b sysctl -qw net.rdma_sock.sdp_accept=subnet

# Other ends of other kinds.
same "client of another kind gets no answer" "b''" "$(a python3 -c '
import socket
with socket.create_connection(("10.9.0.2", 7470), 20) as sock:
    sock.sendall(b"GET / HTTP/1.1\r\n")
    try:
        print(sock.recv(16))
    except ConnectionResetError:
        print(bytes())')"
same "one of another version learns that of the server" 1 "$(a python3 -c '
import socket
with socket.create_connection(("10.9.0.2", 7470), 20) as sock:
    sock.sendall(b"RSbt\0\7\2".ljust(12, b"\0") + b"\0\1\0\0")
    print(int.from_bytes(sock.recv(16)[4:6], "big"))')"
same "and the server goes on" tcp "$(json \
	"$(a "$TOOL" bench 10.9.0.2 --seconds 1 --transport tcp --json)" 'd["results"][0]["mode"]')"
refused "closed port says what to run" "rdma-sock bench --serve" \
	a "$TOOL" bench 10.9.0.2 --port 9000 --transport tcp

exit "$TEST_FAILED"
