# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# Two network namespaces, rs-a with 10.9.0.1 and rs-b with 10.9.0.2, with programs in them that are
# killed in the end. To be sourced after lib.sh.

[ "$(id -u)" = 0 ] || skip_all "needs root"
smc_is_there || skip_all "the kernel has no SMC"
[ -d /proc/net/rdma_sock ] || skip_all "another module has SMC"
for PLACE in "$HERE" "$HERE/../lib"; do
	[ ! -x "$PLACE/netns.sh" ] || NETNS=$PLACE/netns.sh
done
"$NETNS" up || skip_all "no namespaces with RDMA devices"

PROCESSES=
# shellcheck disable=SC2317 # called by the trap
cleanup() {
	# shellcheck disable=SC2086 # a list
	[ -z "$PROCESSES" ] || kill $PROCESSES 2>/dev/null
	wait 2>/dev/null
	"$NETNS" down
	rm -rf "$WORK"
}
trap cleanup EXIT

PORT=7000
a() {
	ip netns exec rs-a "$@"
}
b() {
	ip netns exec rs-b "$@"
}

# start SIDE NAME ARGUMENT...: run a side of traffic.py under a name, wait until it is ready, and put
# its PID into STARTED.
start() {
	start_side=$1
	start_name=$2
	shift 2
	mkfifo "$WORK/$start_name.ready"
	ip netns exec "rs-$start_side" "$(program "$start_name")" "$HERE/traffic.py" "$@" \
		>"$WORK/$start_name.ready" &
	STARTED=$!
	PROCESSES="$PROCESSES $STARTED"
	# The child keeps its PID: `ip netns exec` replaces itself.
	read -r start_word <"$WORK/$start_name.ready" || start_word=ended
	[ "$start_word" = ready ] || echo "# $start_name: $start_word"
}

# background OUTPUT CMD...: run a command that says in a first line to standard error that it is ready;
# put that line into NOTE and its PID into STARTED. Its output goes to a file.
background() {
	background_output=$1
	shift
	rm -f "$WORK/note"
	mkfifo "$WORK/note"
	"$@" >"$background_output" 2>"$WORK/note" &
	STARTED=$!
	PROCESSES="$PROCESSES $STARTED"
	# Held open, so that later lines have a reader.
	exec 3<"$WORK/note"
	# shellcheck disable=SC2034 # for the tests
	read -r NOTE <&3 || NOTE=ended
}

# well_formed: print the name of the outermost element of XML from standard input.
well_formed() {
	python3 -c '
import sys, xml.etree.ElementTree
print(xml.etree.ElementTree.parse(sys.stdin).getroot().tag.split("}")[-1])'
}
