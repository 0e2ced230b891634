#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `rdma-sock apply`: mistakes in the file, the difference between file and machine, and a second run
# that finds none.

set -u
# shellcheck source=selftests/tools/lib.sh
. "$(dirname "$0")/lib.sh"

CGROUPS=/sys/fs/cgroup
CGROUP=$CGROUPS/rdma-sock-apply
UEIDS=/proc/net/rdma_sock/ueids
WMEM=/proc/sys/net/smc/wmem
RULES=/proc/net/rdma_sock/rules
FILE=$WORK/rdma-sock.toml

[ "$(id -u)" = 0 ] || skip_all "needs root"
[ -e "$UEIDS" ] || skip_all "the module is not loaded"
[ -e /sys/kernel/btf/vmlinux ] || skip_all "this kernel has no type information for BPF"
grep -q ' update_socket_protocol$' /proc/kallsyms || skip_all "this kernel has no hook"
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
mountpoint -q $CGROUPS || mount -t cgroup2 cgroup2 $CGROUPS
mkdir -p "$CGROUP"
OLD_WMEM=$(cat $WMEM)
OLD_UEIDS=$(tr '\n' ' ' <$UEIDS)

# shellcheck disable=SC2317 # called by the trap
cleanup() {
	"$TOOL" accel off
	"$TOOL" device del rsa-veth0 2>/dev/null
	ip link del rsa-veth0 2>/dev/null
	echo "$OLD_WMEM" >$WMEM
	echo "$OLD_UEIDS" >$UEIDS
	echo >$RULES
	rmdir "$CGROUP"
	rm -rf "$WORK"
}
trap cleanup EXIT
plan 22

apply() {
	"$TOOL" apply --file "$FILE" "$@"
}

printf 'ueids = []\n\n[devices]\nhard = ["eth0"]\n' >"$FILE"
refused "unknown key is refused with its line" "line 4: unknown field \`hard\`" apply --check
refused "apply refuses it as well" "line 4" apply
printf '[sysctl]\nnet.core.wmem_max = 1\n' >"$FILE"
refused "sysctl of another part of the kernel is refused" "sysctl.net.core.wmem_max" apply
printf '[[rule]]\naction = "tcp"\ndirection = "out"\npeer = "10.9.0.1/24"\n' >"$FILE"
refused "rule that the module refuses is refused with its line" "line 4: rule.peer" apply
refused "absent file is refused by name" "cannot read /nowhere" "$TOOL" apply --file /nowhere

ip link add rsa-veth0 type veth peer name rsa-veth1
ip link set rsa-veth0 up
cat >"$FILE" <<-TOML
	ueids = ["APPLY.ONE", "APPLY.TWO"]
	[sysctl]
	net.smc.wmem = $((OLD_WMEM * 2))
	[devices]
	soft = ["rsa-veth0"]
	[[rule]]
	action = "tcp"
	direction = "out"
	peer = "192.0.2.0/24"
	port = 8000
	[[rule]]
	action = "rdma"
	direction = "any"
	[[accelerate]]
	program = "rs-applied"
	[[accelerate]]
	cgroup = "$CGROUP"
	proto = "sdp"
TOML
WANTED="sysctl net.smc.wmem: $OLD_WMEM -> $((OLD_WMEM * 2))
ueids: $(echo "${OLD_UEIDS:-(none)}" | sed 's/ $//') -> APPLY.ONE APPLY.TWO
devices: + an RDMA device on rsa-veth0
rules: (none) -> tcp out peer=192.0.2.0/24 port=8000; rdma any
accelerate: + program rs-applied (smc)
accelerate: + cgroup $CGROUP (sdp)"
"$TOOL" accel off
apply --check
same "check of a right file succeeds" 0 $?
same "diff prints each difference" "$WANTED" "$(apply --diff)"
apply --diff >/dev/null
same "status of diff tells of differences" 3 $?
same "diff changes nothing" "$OLD_WMEM" "$(cat $WMEM)"
same "apply prints each difference" "$WANTED" "$(apply 2>/dev/null)"
same "sysctl is written" "$((OLD_WMEM * 2))" "$(cat $WMEM)"
same "identifiers are written" "APPLY.ONE APPLY.TWO" "$(sort $UEIDS | paste -sd' ')"
contains "device is made" rsa-veth0 "$("$TOOL" device list)"
same "rules are written" "tcp out peer=192.0.2.0/24 port=8000;rdma any" \
	"$(sed 's/ hits=.*//' $RULES | paste -sd';')"
same "program is selected" "$IPPROTO_SMC" "$(probe "$(program rs-applied)")"
same "second run changes nothing" "" "$(apply)"
apply --diff
same "status of diff is 0 without a difference" 0 $?

# The list of selectors is the file's; a part that is absent stays.
"$TOOL" accel on --comm rs-other 2>/dev/null
printf '[[accelerate]]\nprogram = "rs-applied"\nproto = "auto"\n' >"$FILE"
WANTED="accelerate: program rs-applied: smc -> auto
accelerate: - comm rs-other (smc)
accelerate: - cgroup $CGROUP (sdp)"
same "other selectors are removed" "$WANTED" "$(apply)"
same "absent part stays" "APPLY.ONE APPLY.TWO" "$(sort $UEIDS | paste -sd' ')"

# What cannot be done keeps nothing else from being done.
printf 'ueids = []\nrule = []\n[devices]\nsoft = ["rsa-none"]\n' >"$FILE"
refused "network device that is absent is named" "no network device rsa-none" apply
same "other changes are made" "" "$(cat $UEIDS)"
same "an empty list removes the rules" "" "$(cat $RULES)"
