#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `rdma-sock capture` beside real connections: tshark reads the octets of both directions from its file,
# which are those that the program has sent and received.

set -u
# shellcheck source=selftests/tools/lib.sh
. "$(dirname "$0")/lib.sh"
TRACING=/sys/kernel/tracing
[ -d "$TRACING/events" ] || mount -t tracefs nodev "$TRACING" 2>/dev/null
[ -d "$TRACING/events" ] || skip_all "the kernel has no tracefs"
command -v tshark >/dev/null || skip_all "no tshark"
# shellcheck source=selftests/tools/sides.sh
. "$(dirname "$0")/sides.sh"
plan 17

FILE=$WORK/payload.pcapng
PACKETS=$WORK/packets
ON=$TRACING/events/rdma_sock/rdma_sock_payload/enable

# capture ARGUMENT...: capture in the background, from a moment before this returns.
capture() {
	background "$WORK/capture" "$TOOL" capture "$@"
	CAPTURE=$STARTED
}

# captured: wait for the end of the capture, and put its exit status into STATUS.
captured() {
	wait "$CAPTURE"
	STATUS=$?
}

# dissected: put the packets of the file into PACKETS, a line each. tshark takes seconds to start.
dissected() {
	tshark -r "$FILE" -T fields -e ip.src -e tcp.srcport -e tcp.seq_raw -e tcp.payload >"$PACKETS" 2>/dev/null
}

# stream PORT: the octets that came from this port, if no other comes twice or is missing.
stream() {
	python3 -c '
import sys
data, begin = bytearray(), None
for line in open(sys.argv[2], encoding="ascii"):
    _, port, position, octets = line.split("\t")
    if port != sys.argv[1]:
        continue
    if begin is None:
        begin = int(position)
    if int(position) != (begin + len(data)) % 2 ** 32:
        sys.exit("octet %d is at %s" % (len(data), position))
    data += bytes.fromhex(octets.strip())
sys.stdout.buffer.write(data)' "$1" "$PACKETS"
}

# blocks FILE: whether the octets are those that traffic.py sends, from anywhere on.
blocks() {
	python3 -c '
import sys
data, word = open(sys.argv[1], "rb").read(), b"rdma-sock"
turn = data[:9] in word + word and (word + word).index(data[:9])
print(len(data) >= 100000 and (word * (len(data) // 9 + 2))[turn:][:len(data)] == data)' "$1"
}

# Of both protocols.
start b rs-server server 10.9.0.2 $PORT "$IPPROTO_DUAL"
for protocol in 256 257; do
	# Without pauses it would overflow the buffers of a capture that stands still.
	start a "rs-$protocol" client 10.9.0.2 $PORT $protocol 0.05
	CLIENT=$STARTED
	capture --netns rs-a --port $PORT --count 300 "$FILE"
	contains "capture of $protocol says that it is ready" "capturing" "$NOTE"
	captured
	dissected
	same "it ends after as many packets" "0 300" "$STATUS $(wc -l <"$PACKETS")"
	same "packets have both addresses" "10.9.0.1 10.9.0.2" \
		"$(cut -f1 "$PACKETS" | sort -u | paste -sd' ')"
	stream $PORT >"$WORK/back"
	same "what the client received is in the file" True "$(blocks "$WORK/back")"
	stream "$(cut -f2 "$PACKETS" | grep -vx $PORT | sort -u)" >"$WORK/there"
	same "and what it sent" True "$(blocks "$WORK/there")"
	kill "$CLIENT"
	wait "$CLIENT" 2>/dev/null
done

# Without traffic no event is lost.
capture --netns rs-a --peer 10.9.0.2 "$FILE"
same "the event is off for others" 0 "$(cat "$ON")"
a "$TOOL" status >/dev/null
kill -INT "$CAPTURE"
captured
same "a signal ends the capture" 0 "$STATUS"
same "and its instance is removed" 0 \
	"$(find "$TRACING/instances" -maxdepth 1 -name 'rdma-sock-*' | wc -l)"
same "the file is for its owner" 600 "$(stat -c %a "$FILE")"
# With pauses: the capture that keeps nothing reads all there is before it ends.
start a rs-client client 10.9.0.2 $PORT 256 0.05
"$TOOL" capture --netns rs-b --peer 10.9.0.9 --count 1 - >"$WORK/none" 2>"$WORK/why" &
NONE=$!
capture --netns rs-b --port $PORT --count 1 "$FILE"
captured
kill "$NONE" || cat "$WORK/why"
wait "$NONE"
same "connections of others are not in the file" "" "$(tshark -r "$WORK/none" 2>/dev/null)"
refused "connections must be chosen" "--port" "$TOOL" capture "$FILE"
refused "another user is told why not" "only root" \
	setpriv --reuid 65534 --clear-groups "$TOOL" capture --port $PORT -

exit "$TEST_FAILED"
