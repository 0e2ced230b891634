#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `rdma-sock accel`: the sockets of selected programs become sockets of SMC or SDP, those of others
# stay; what was started outlives the tool and goes away without a trace. With the module loaded,
# selected programs get SMC; without, they keep TCP, and --force shows by its error that SMC was asked for.

set -u
# shellcheck source=selftests/tools/lib.sh
. "$(dirname "$0")/lib.sh"

BPF_FS=/sys/fs/bpf
PINS=$BPF_FS/rdma-sock
CGROUPS=/sys/fs/cgroup
CGROUP=$CGROUPS/rdma-sock-test
# Deep enough to need a walk over the ancestors.
INNER=$CGROUP/a/b/c

[ "$(id -u)" = 0 ] || skip_all "needs root"
[ -e /sys/kernel/btf/vmlinux ] || skip_all "this kernel has no type information for BPF"
command -v bpftool >/dev/null || skip_all "no bpftool"
grep -q ' update_socket_protocol$' /proc/kallsyms || skip_all "this kernel has no hook"

mountpoint -q $BPF_FS || mount -t bpf bpf $BPF_FS
mountpoint -q $CGROUPS || mount -t cgroup2 cgroup2 $CGROUPS

# shellcheck disable=SC2317 # called by the trap
cleanup() {
	"$TOOL" accel off
	ip netns del rs-blue 2>/dev/null
	rmdir "$INNER" "$CGROUP/a/b" "$CGROUP/a" "$CGROUP" 2>/dev/null
	rm -rf "$WORK"
}
trap cleanup EXIT
plan 57

accel() {
	# Without the module each start prints a note, which has a test of its own.
	"$TOOL" accel "$@" 2>"$WORK/stderr"
}

status() {
	accel status --json
}

# The number of our programs in the kernel.
programs() {
	bpftool prog show name rdma_sock_accel | grep -c rdma_sock_accel
}

CHOSEN=$(program rs-chosen)
SECOND=$(program rs-second)
OTHER=$(program rs-other)

if smc_is_there; then
	GUARDED=$IPPROTO_SMC
	FORCED=$IPPROTO_SMC
	TURNED=1
	LEFT=0
else
	GUARDED=$IPPROTO_TCP
	FORCED=EPROTONOSUPPORT
	TURNED=0
	LEFT=1
fi

# No rules.
accel off
same "off is no error when nothing is on" 0 $?
same "status shows that it is off" False "$(json "$(status)" 'd["attached"]')"

# Guarded rules depend on the presence of the protocol.
accel on --comm rs-chosen
same "on" 0 $?
if [ ! -d /sys/module/rdma_sock ] && [ ! -d /sys/module/smc ]; then
	contains "on prints that the module is absent" "is not loaded" "$(cat "$WORK/stderr")"
else
	same "on has nothing to complain about" "" "$(cat "$WORK/stderr")"
fi
same "selected program gets SMC if and only if the kernel has it" "$GUARDED" "$(probe "$CHOSEN")"
same "another program gets TCP" "$IPPROTO_TCP" "$(probe "$OTHER")"
counted=$(json "$(status)" '(d["attached"], d["guarded"], d["sockets_turned"], d["sockets_left_tcp"])')
same "status counts it" "(True, True, $TURNED, $LEFT)" "$counted"
same "IPv6 is guarded as well" "$GUARDED" "$(probe "$CHOSEN" AF_INET6)"

same "one program is attached" 1 "$(programs)"

# Unguarded rules show the answer of the hook with and without the module.
accel on --comm rs-chosen --force
same "on again takes the new flags" False "$(json "$(status)" 'd["guarded"]')"
same "selected program asks for SMC" "$FORCED" "$(probe "$CHOSEN")"
same "selected program asks for SMC over IPv6" "$FORCED" "$(probe "$CHOSEN" AF_INET6)"
same "flags in the type do not matter" "$FORCED" \
	"$(probe "$CHOSEN" AF_INET 'SOCK_STREAM|socket.SOCK_NONBLOCK')"
same "TCP by number is turned" "$FORCED" "$(probe "$CHOSEN" AF_INET SOCK_STREAM IPPROTO_TCP)"
same "datagrams are not turned" 17 "$(probe "$CHOSEN" AF_INET SOCK_DGRAM)"
same "local sockets are not turned" 0 "$(probe "$CHOSEN" AF_UNIX SOCK_STREAM)"
same "raw sockets are not turned" "$IPPROTO_TCP" "$(probe "$CHOSEN" AF_INET SOCK_RAW IPPROTO_TCP)"
same "MPTCP is not turned" 262 "$(probe "$CHOSEN" AF_INET SOCK_STREAM 262)"
same "another program still gets TCP" "$IPPROTO_TCP" "$(probe "$OTHER")"

RENAMED='
import ctypes, socket, sys, threading
def work():
    ctypes.CDLL(None).prctl(15, b"worker", 0, 0, 0)  # PR_SET_NAME
    exec(sys.argv[4], {"__name__": "probe"})
thread = threading.Thread(target=work)
thread.start()
thread.join()
'
same "thread with a name of its own belongs to its program" "$FORCED" \
	"$("$CHOSEN" -c "$RENAMED" AF_INET SOCK_STREAM 0 "$PROBE")"

# Protocols. Each selector has its own.
if sdp_is_there; then
	SDP=$IPPROTO_SDP
	GUARDED_SDP=$IPPROTO_SDP
	AUTO=$IPPROTO_DUAL
	GUARDED_AUTO=$IPPROTO_DUAL
else
	SDP=EPROTONOSUPPORT
	GUARDED_SDP=$IPPROTO_TCP
	AUTO=EPROTONOSUPPORT
	GUARDED_AUTO=$GUARDED
fi
protos() {
	json "$(status)" '[s["proto"] for s in d["selectors"]]'
}
same "selectors get SMC by default" "['smc']" "$(protos)"
before=$(json "$(status)" 'd["selectors"][0]["sockets"]')
accel on --comm rs-chosen --proto sdp --force
same "on again takes the new protocol" "['sdp']" "$(protos)"
same "and keeps the count" "$before" "$(json "$(status)" 'd["selectors"][0]["sockets"]')"
same "selected program asks for SDP" "$SDP" "$(probe "$CHOSEN")"
accel on --comm rs-second --proto auto --force
same "selectors have protocols of their own" "['sdp', 'auto']" "$(protos)"
same "auto asks for both" "$AUTO" "$(probe "$SECOND")"
accel on --comm rs-chosen --proto sdp
same "selected program gets SDP if and only if the kernel has it" "$GUARDED_SDP" \
	"$(probe "$CHOSEN")"
same "auto gets both, or SMC if the kernel has only that" "$GUARDED_AUTO" \
	"$(probe "$SECOND" AF_INET6)"
accel off --comm rs-second
accel on --comm rs-chosen --force
same "and SMC again" "$FORCED" "$(probe "$CHOSEN")"

# Several selectors, and cgroups.
accel on --comm rs-second --force
same "on again adds a selector" "['rs-chosen', 'rs-second']" \
	"$(json "$(status)" '[s["comm"] for s in d["selectors"]]')"
same "and keeps the first" "$FORCED $FORCED" "$(probe "$CHOSEN") $(probe "$SECOND")"
before=$(json "$(status)" 'd["selectors"][0]["sockets"]')
probe "$CHOSEN" >"$WORK/probe"
same "each selector has its count" $((before + 1)) \
	"$(json "$(status)" 'd["selectors"][0]["sockets"]')"

mkdir -p "$INNER"
in_cgroup() {
	sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$1" "$OTHER" -c "$PROBE" \
		AF_INET SOCK_STREAM 0
}
accel on --cgroup rdma-sock-test/a --force
same "cgroup is found below the mount and shown by its path" $CGROUP/a \
	"$(json "$(status)" '[s["path"] for s in d["selectors"] if s["kind"] == "cgroup"][0]')"
same "program in a cgroup below the selected one is selected" "$FORCED" "$(in_cgroup "$INNER")"
same "program in the cgroup above is not" "$IPPROTO_TCP" "$(in_cgroup "$CGROUP")"
refused "folder that is no cgroup is refused" "not a cgroup" "$TOOL" accel on --cgroup /tmp
refused "port is refused" "socket(2)" "$TOOL" accel on --port 80

# Processes.
mkfifo "$WORK/go"
sh -c 'read -r _ && "$@"; exit' - "$OTHER" -c "$PROBE" AF_INET SOCK_STREAM 0 <"$WORK/go" \
	>"$WORK/below" &
ABOVE=$!
exec 3>"$WORK/go"
# The name is that of this shell before.
until [ "$(cat /proc/$ABOVE/comm)" = sh ]; do sleep 0.01; done
accel on --pid $ABOVE --force
processes() {
	json "$(status)" '[(s["pid"], s["comm"]) for s in d["selectors"] if s["kind"] == "process"]'
}
same "process is shown by its name" "[($ABOVE, 'sh')]" "$(processes)"
echo go >&3
exec 3>&-
wait $ABOVE
same "program that descends from a selected process is selected" "$FORCED" "$(cat "$WORK/below")"
same "program that does not is not" "$IPPROTO_TCP" "$(probe "$OTHER")"
same "process that has ended stays in the list" "[($ABOVE, None)]" "$(processes)"
accel off --pid $ABOVE
same "off takes it away" "[]" "$(processes)"

# Network namespaces.
ip netns add rs-blue
in_blue() {
	ip netns exec rs-blue "$OTHER" -c "$PROBE" AF_INET SOCK_STREAM 0
}
namespaces() {
	json "$(status)" '[s["name"] for s in d["selectors"] if s["kind"] == "netns"]'
}
accel on --netns rs-blue --force
same "namespace is shown by its name" "['rs-blue']" "$(namespaces)"
same "program in the selected namespace is selected" "$FORCED" "$(in_blue)"
same "program in another namespace is not" "$IPPROTO_TCP" "$(probe "$OTHER")"
accel on --netns self --force
same "self is the namespace of the command" "$FORCED" "$(probe "$OTHER")"
accel off --netns self
COOKIE=$(json "$(status)" '[s["cookie"] for s in d["selectors"] if s["kind"] == "netns"][0]')
ip netns del rs-blue
ip netns add rs-blue
same "later namespace of the same name is not selected" "$IPPROTO_TCP" "$(in_blue)"
same "namespace that has ended stays in the list" "[None]" "$(namespaces)"
accel off --netns "id:$COOKIE"
same "off takes it away by its cookie" "[]" "$(namespaces)"
refused "file that is no namespace is refused" "not a network namespace" \
	"$TOOL" accel on --netns /etc/passwd

# Removal.
accel off --comm rs-second
same "off takes one selector away" "$FORCED $IPPROTO_TCP" "$(probe "$CHOSEN") $(probe "$SECOND")"
refused "off of what is not there is an error" "no selector comm rs-second" \
	"$TOOL" accel off --comm rs-second
accel off --comm rs-chosen
accel off --cgroup $CGROUP/a
same "off of the last selector detaches" False "$(json "$(status)" 'd["attached"]')"

accel on --force
same "without a selector all programs are meant" "$FORCED" "$(probe "$OTHER")"
accel off
same "off works at once" "$IPPROTO_TCP" "$(probe "$OTHER")"
same "off leaves no pin" "" "$(ls -d $PINS 2>/dev/null)"
same "and no program" 0 "$(programs)"

exit "$TEST_FAILED"
