#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `rdma-sock device` and `rdma-sock status`: soft-RoCE devices come, are seen, and go.

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
	rm -rf "$WORK"
}
trap cleanup EXIT
plan 14

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

exit "$TEST_FAILED"
