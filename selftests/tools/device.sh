#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `rdma-sock device` and `rdma-sock status`: RDMA devices in software come, are seen, and go.

set -u
# shellcheck source=selftests/tools/lib.sh
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root"
[ -d /sys/module/rdma_rxe ] || modprobe rdma_rxe 2>/dev/null || skip_all "no module rdma_rxe"
ip link add rs-veth0 type veth peer name rs-veth1 || skip_all "no veth"

# `device add --all` affects devices beyond those of the test: undo that.
devices() {
	"$TOOL" device list --json | python3 -c '
import json, sys
print(*sorted(port["device"] for port in json.load(sys.stdin)))'
}
BEFORE=$(devices)
# shellcheck disable=SC2317 # called by the trap
cleanup() {
	for device in $(devices); do
		case " $BEFORE " in
		*" $device "*) ;;
		*) "$TOOL" device del "$device" ;;
		esac
	done
	ip link del rs-veth0
	[ ! -d /sys/module/rdma_soft ] || rmmod rdma_soft
	ip netns del rs-soft 2>/dev/null
	rm -rf "$WORK"
}
trap cleanup EXIT
plan 18

# port NAME EXPRESSION: a value of the port whose device has this name.
port() {
	json "$("$TOOL" device list --json)" "[p for p in d if p['device'] == '$1'][0]['$2']"
}

ip link set rs-veth0 up
ip link set rs-veth1 up

same "add prints the name of the device" rxe_rs-veth0 "$("$TOOL" device add rs-veth0)"
same "it is on the network device" rs-veth0 "$(port rxe_rs-veth0 netdev)"
same "its port is active" active "$(port rxe_rs-veth0 state)"
contains "the kernel has it" rxe_rs-veth0 "$(ls /sys/class/infiniband)"
refused "second one on the same network device is refused, by name" \
	"rs-veth0 has the RDMA device rxe_rs-veth0" "$TOOL" device add rs-veth0
refused "unknown network device is an error" "no network device rs-nothing" \
	"$TOOL" device add rs-nothing

ip link add link rs-veth1 name rs-vlan type vlan id 5 2>/dev/null && ip link set rs-vlan up
"$TOOL" device add --all >"$WORK/all" 2>&1
same "--all succeeds, VLANs or not" 0 $?
contains "--all makes what is lacking" rxe_rs-veth1 "$(cat "$WORK/all")"
same "--all leaves alone what is there" "" "$(grep rxe_rs-veth0 "$WORK/all")"
contains "--all again has nothing to do" "no Ethernet device" "$("$TOOL" device add --all 2>&1)"

seen=$(json "$("$TOOL" status --json)" '"rxe_rs-veth0" in [p["dev"] for p in d["devices"]]')
if [ -d /sys/module/rdma_sock ] && [ ! -e /proc/net/rdma_sock/devices ]; then
	skip "status shows the device" "the module does not list devices"
else
	same "status shows the device" True "$seen"
fi
keys='sorted(d)'
same "status has all its parts" \
	"['aborted_reasons', 'acceleration', 'connections', 'counters', 'devices', 'fallback_reasons', 'link_groups', 'module', 'schema_version']" \
	"$(json "$("$TOOL" status --json)" "$keys")"

"$TOOL" device del rs-veth1 && "$TOOL" device del rxe_rs-veth0
same "del takes the name of either" "" "$(devices | tr ' ' '\n' | grep rs-veth)"
refused "del of what is not there is an error" "no RDMA device" "$TOOL" device del rs-veth0

# soft_file: the file of rdma_soft for the running kernel.
soft_file() {
	for file in /src/build/*/rdma_soft.ko; do
		case $(modinfo -F vermagic "$file" 2>/dev/null) in
		"$(uname -r) "*) echo "$file" && return ;;
		esac
	done
	return 1
}

# A namespace with devices of rdma_rxe gets one more of those, others get devices of rdma_soft.
if file=$(soft_file) && modprobe -a ib_core udp_tunnel ip6_udp_tunnel &&
	insmod "$file" roce=2 && ip netns add rs-soft &&
	ip -n rs-soft link add rs-soft0 type veth peer name rs-soft1 &&
	ip -n rs-soft link set rs-soft0 up; then
	modprobe dummy numdummies=0
	ip link add rs-first type dummy && ip link set rs-first up && rdma link add rs_first type rxe netdev rs-first
	contains "add beside devices of rdma_rxe makes one of those" "rxe_rs-veth0 is a device of rdma_rxe" \
		"$("$TOOL" device add rs-veth0 2>&1)"
	"$TOOL" device del rs-veth0 && rdma link delete rs_first && ip link del rs-first
	same "add makes a device of rdma_soft where it is loaded" rsoft_rs-soft0 \
		"$(ip netns exec rs-soft "$TOOL" device add rs-soft0 2>"$WORK/note")"
	contains "add says of which module it is" "rsoft_rs-soft0 is a device of rdma_soft" "$(cat "$WORK/note")"
	ip netns exec rs-soft "$TOOL" device del rs-soft0
	same "del removes it" "" "$(devices | tr ' ' '\n' | grep rsoft_)"
else
	for name in beside where says del; do
		skip "$name" "no module rdma_soft"
	done
fi

exit "$TEST_FAILED"
