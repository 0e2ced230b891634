#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `rdma-sock trace` beside real connections: a first contact that fails, a fallback, and payload by RDMA.

set -u
# shellcheck source=selftests/tools/lib.sh
. "$(dirname "$0")/lib.sh"
TRACING=/sys/kernel/tracing
[ -d "$TRACING/events" ] || mount -t tracefs nodev "$TRACING" 2>/dev/null
[ -d "$TRACING/events" ] || skip_all "the kernel has no tracefs"
# shellcheck source=selftests/tools/sides.sh
. "$(dirname "$0")/sides.sh"
plan 24

instances() {
	find "$TRACING/instances" -maxdepth 1 -name 'rdma-sock-*' | wc -l
}

# trace ARGUMENT...: trace in the background, until there were enough events.
trace() {
	background "$WORK/trace" "$TOOL" trace "$@"
	TRACER=$STARTED
}

# traced: wait for the end of the trace, and put its output into TRACED.
traced() {
	wait "$TRACER"
	TRACED=$(cat "$WORK/trace")
}

# lines TEXT EXPRESSION: a value from the JSON of several lines.
lines() {
	printf '%s\n' "$1" | python3 -c '
import json, sys
lines = [json.loads(line) for line in sys.stdin]
print(eval(sys.argv[1]))' "$2"
}

start b rs-server server 10.9.0.2 $PORT
SERVER=$STARTED

# A first contact whose RDMA packets are lost: the peers agree by TCP, and then give up.
trace --json --event fallback --count 2
contains "trace says that it is ready" "tracing 1 event" "$NOTE"
same "it has an instance of its own" 1 "$(instances)"
if b nft add table inet rs-test 2>/dev/null &&
	b nft 'add chain inet rs-test input { type filter hook input priority 0; }' &&
	b nft add rule inet rs-test input udp dport 4791 drop; then
	start a rs-lost client 10.9.0.2 $PORT 256
	LOST=$STARTED
	traced
	same "error of a first contact is reported by both sides" \
		"[('fallback', '0x02010000'), ('fallback', '0x02010000')]" "$(lines "$TRACED" \
		'[(d["event"], d["reason"]) for d in lines]')"
	same "each with its addresses" "['10.9.0.1', '10.9.0.2']" "$(lines "$TRACED" \
		'sorted(d["local"].rsplit(":", 1)[0] for d in lines)')"
	same "and in a network namespace of its own" 2 "$(lines "$TRACED" 'len({d["net"] for d in lines})')"
	b nft delete table inet rs-test
	kill "$LOST"
else
	kill "$TRACER"
	wait "$TRACER"
	for name in "error of a first contact is reported by both sides" "each with its addresses" \
		"and in a network namespace of its own"; do
		skip "$name" "no nftables"
	done
fi
same "the instance is removed" 0 "$(instances)"

# A client without SMC.
trace --json --event fallback --port $PORT --count 1
start a rs-tcp client 10.9.0.2 $PORT 6
traced
event=$TRACED
same "fallback is reported with its reason" "('fallback', '0x03010000', 'peer did not indicate SMC')" \
	"$(json "$event" '(d["event"], d["reason"], d["reason_name"])')"
same "with the address of the listener" 10.9.0.2:7000 "$(json "$event" 'd["local"]')"
contains "and that of the client" 10.9.0.1: "$(json "$event" 'd["peer"]')"
contains "and the meaning of the reason" "SMC-R" "$(json "$event" 'd["meaning"]')"

# Payload.
start a rs-rdma client 10.9.0.2 $PORT 256
RDMA=$STARTED
trace --pid "$RDMA" --event sent --count 3
traced
text=$TRACED
same "as many events as asked for" 3 "$(printf '%s\n' "$text" | wc -l)"
contains "line names the program" "rs-rdma (PID $RDMA)" "$text"
contains "and both addresses" "-> 10.9.0.2:7000" "$text"
contains "and the device" "by rs_a" "$text"
trace --pid "$SERVER" --event smc_rx_recvmsg --count 1 --json
traced
event=$TRACED
same "name of the kernel chooses an event" received "$(json "$event" 'd["event"]')"
same "its socket has the program" "['rs-server']" \
	"$(json "$event" '[p["name"] for p in d["processes"]]')"
trace --count 20 --json
traced
same "all events are followed by default" "['received', 'sent']" \
	"$(lines "$TRACED" 'sorted({d["event"] for d in lines})')"

# Where /proc shows pointers and no hashes of them, events do so too.
hashed=$(cat /proc/sys/kernel/kptr_restrict)
echo 1 >/proc/sys/kernel/kptr_restrict
trace --pid "$RDMA" --event sent --count 1 --json
traced
contains "sockets are found by pointers that are not hashed" "10.9.0.1:" \
	"$(json "$TRACED" 'd["local"]')"
echo "$hashed" >/proc/sys/kernel/kptr_restrict

# A link whose port fails, under traffic.
trace --json --event link-down --count 1
b ip link set vb down
traced
same "link that goes down is reported" "('link-down', 3)" \
	"$(json "$TRACED" '(d["event"], d["state"])')"
contains "with its device" "rs_" "$(json "$TRACED" 'd["dev"]')"

# Ends and errors.
trace --port 9
kill -TERM "$TRACER"
wait "$TRACER"
same "a signal ends it" "" "$(cat "$WORK/trace")"
same "and removes the instance" 0 "$(instances)"
refused "another user is told why not" "only root" \
	setpriv --reuid 65534 --clear-groups "$TOOL" trace
refused "unknown event is an error" "link-down" "$TOOL" trace --event odd

exit "$TEST_FAILED"
