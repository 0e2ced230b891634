#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `rdma-sock status`, `explain`, `top`, `metrics` and `doctor` beside real connections: a server with a
# client over RDMA and a client over TCP, each in a network namespace.

set -u
# shellcheck source=selftests/tools/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck source=selftests/tools/sides.sh
. "$(dirname "$0")/sides.sh"
plan 47

# plain TEXT: whether a text has no colours.
plain() {
	case $1 in
	*"$(printf '\033')"*) echo colours ;;
	*) echo plain ;;
	esac
}

start b rs-server server 10.9.0.2 $PORT
SERVER=$STARTED
start a rs-rdma client 10.9.0.2 $PORT 256
RDMA=$STARTED
start a rs-tcp client 10.9.0.2 $PORT 6
TCP=$STARTED

# status
status=$(b "$TOOL" status --json)
same "sockets of the server are listed with their modes" "['listen', 'smc', 'tcp']" \
	"$(json "$status" 'sorted(c["mode"] for c in d["connections"])')"
same "each has the program" "{('rs-server', $SERVER)}" \
	"$(json "$status" '{(p["name"], p["pid"]) for c in d["connections"] for p in c["processes"]}')"
same "no socket is without a program" True \
	"$(json "$status" 'all(c["processes"] for c in d["connections"])')"
same "client has its own" "[('rs-rdma', $RDMA)]" \
	"$(json "$(a "$TOOL" status --json)" '[(p["name"], p["pid"]) for c in d["connections"] for p in c["processes"]]')"
same "connection over TCP has its reason" "['0x03010000']" \
	"$(json "$status" '[c["reason"] for c in d["connections"] if c["mode"] == "tcp"]')"
same "reason is counted" "[('smc', 'peer did not indicate SMC', 1)]" \
	"$(json "$status" '[(r["proto"], r["name"], r["count"]) for r in d["fallback_reasons"]]')"
same "port has the GID of its address" "[('rs_b', '::ffff:10.9.0.2', True)]" \
	"$(json "$status" '[(p["dev"], p["gid"], p["usable"]) for p in d["devices"]]')"
same "and all of its GIDs, of its own network device" "{'vb'}" \
	"$(json "$status" '{g["netdev"] for p in d["devices"] for g in p["gids"]}')"
same "link has the GID of the peer" True \
	"$(json "$status" 'any(l["peer_gid"] for l in d["link_groups"])')"

text=$(b "$TOOL" status)
contains "text names the program" rs-server "$text"
contains "text says why TCP" "peer did not indicate SMC" "$text"
same "pipe gets no colours" plain "$(plain "$text")"
same "--color always gives colours" colours "$(plain "$(b "$TOOL" status --color always)")"
on_terminal() {
	b python3 "$HERE/terminal.py" "$@"
}
same "terminal gets colours" colours "$(plain "$(TERM=xterm on_terminal '' "$TOOL" status)")"
same "NO_COLOR is obeyed" plain "$(plain "$(TERM=xterm NO_COLOR=1 on_terminal '' "$TOOL" status)")"

other=$(b setpriv --reuid 65534 --clear-groups "$TOOL" status --json)
same "another user sees the sockets, and not their programs" "(3, [])" \
	"$(json "$other" '(len(d["connections"]), [p for c in d["connections"] for p in c["processes"]])')"

watched=$(timeout 60 ip netns exec rs-b "$TOOL" status --watch=0.1 --json | head -n 2)
same "--watch prints a document a line" "[1, 1]" "$(printf '%s\n' "$watched" | python3 -c '
import json, sys
print([json.loads(line)["schema_version"] for line in sys.stdin])')"
refused "interval that is none is an error" "number of seconds" "$TOOL" status --watch=0

# explain
text=$(b "$TOOL" explain)
contains "explain is about the connection over TCP" "peer did not indicate SMC" "$text"
contains "and names its program" "rs-server (PID $SERVER)" "$text"
contains "and says what to do" "1. Load the module on the peer" "$text"
kinds='[(f["kind"], len(f["connections"])) for f in d["findings"]]'
same "PID chooses the sockets of a program" "[('tcp', 1), ('rdma', 1), ('listen', 1)]" \
	"$(json "$(b "$TOOL" explain --json "$SERVER")" "$kinds")"
same "port chooses its sockets" "[('tcp', 1), ('rdma', 1), ('listen', 1)]" \
	"$(json "$(b "$TOOL" explain --json $PORT)" "$kinds")"
same "connection over RDMA is none over TCP" "[('rdma', 1)]" \
	"$(json "$(a "$TOOL" explain --json pid:"$RDMA")" "$kinds")"
same "program without sockets of the module is not accelerated" "[('plain', 0)]" \
	"$(json "$(a "$TOOL" explain --json "$TCP")" "$kinds")"
contains "reason needs no connection" "UDP port 4791" "$("$TOOL" explain 0x02010000)"
refused "other words are an error" "--list" "$TOOL" explain nonsense
refused "port without a socket is an error" "no TCP socket" b "$TOOL" explain port:9

# top
frame=$(b "$TOOL" top --batch --interval 3)
line() {
	printf '%s\n' "$frame" | grep "$1" | head -n 1
}
contains "frame has the program with its mode" " smc " "$(line "rs-server.* smc ")"
contains "and its rate" "iB" "$(line "rs-server.* smc ")"
contains "frame says why TCP" "peer did not indicate SMC" "$(line "rs-server.* tcp ")"
contains "frame has the curves" "sent by RDMA" "$frame"
contains "frame has the link" "active" "$(line "0x[0-9a-f]* .*server")"
contains "frame has the device" "::ffff:10.9.0.2" "$(line "rs_b .*vb")"
frame=$(b "$TOOL" top --once --interval 0.1 --filter rs_b)
same "filter hides the others" "1 of 3 connections" \
	"$(printf '%s\n' "$frame" | grep -o '[0-9] of 3 connections')"
same "picture is XML" svg \
	"$(b "$TOOL" top --svg --interval 0.5 | tee /out/top.svg 2>/dev/null | well_formed)"
refused "live view without a terminal is an error" "top --batch" b "$TOOL" top
screen=$(TERM=xterm READY=rs-server on_terminal q "$TOOL" top --interval 0.2)
same "live view ends with q" 0 $?
contains "live view shows the program" rs-server "$screen"

# metrics
metrics=$(b "$TOOL" metrics)
contains "metrics count the connections" \
	'rdma_sock_connections{proto="smc",mode="smc"} 1' "$metrics"
contains "metrics end as OpenMetrics does" "# EOF" "$(printf '%s\n' "$metrics" | tail -n 1)"
b "$TOOL" metrics --textfile "$WORK/rdma_sock.prom"
contains "file has them" rdma_sock_established_total "$(cat "$WORK/rdma_sock.prom")"
mkfifo "$WORK/listening"
ip netns exec rs-b "$TOOL" metrics --listen 9815 2>"$WORK/listening" &
PROCESSES="$PROCESSES $!"
read -r note <"$WORK/listening"
contains "server prints its address" "http://127.0.0.1:9815/metrics" "$note"
contains "HTTP answers them" rdma_sock_established_total \
	"$(b curl -s -m 30 http://127.0.0.1:9815/metrics)"

# doctor
report=$(b "$TOOL" doctor --json)
same "status of doctor is that of its worst finding" \
	"$(json "$report" '{"failure": 1, "warning": 3}.get(d["level"], 0)')" \
	"$(b "$TOOL" doctor >/dev/null; echo $?)"
same "device, GID and MTU are good" "{'device': 'good', 'gid': 'good', 'mtu': 'good'}" \
	"$(json "$report" '{f["subject"]: f["level"] for f in d["findings"] if f["subject"] in ("device", "gid", "mtu")}')"
if b nft add table inet rs-test 2>/dev/null &&
	b nft 'add chain inet rs-test input { type filter hook input priority 0; }' &&
	b nft insert rule inet rs-test input ip saddr 192.0.2.1 udp dport 4791 drop; then
	contains "rule that drops RDMA is found" "drops UDP port 4791" "$(b "$TOOL" doctor)"
else
	skip "rule that drops RDMA is found" "no nftables"
fi

exit "$TEST_FAILED"
