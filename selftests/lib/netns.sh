#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# netns.sh up    make the namespaces rs-a and rs-b, joined by a veth pair, with a soft-RoCE device on
#                each end (NO_RDMA=a, b or "a b" leaves it out there; LINK_A and LINK_B are the types
#                of link, rxe by default)
# netns.sh down  remove them
#
# rs-a has 10.9.0.1 and fd09::1 on va, with the RDMA device rs_a; rs-b has 10.9.0.2 and fd09::2 on vb,
# with rs_b.
set -eu

. "$(dirname "$0")/rxe.sh"

# All devices go first: one that goes while a namespace does makes the kernel use the namespace's
# socket for events after it was freed (kobject_uevent_net_broadcast(), for ib_core's devices in it).
down() {
	for side in a b; do
		rdma link delete rs_$side 2>/dev/null || true
	done
	for side in a b; do
		ip netns delete rs-$side 2>/dev/null || true
	done
}

rdma_device() {
	case " ${NO_RDMA:-} " in
	*" $1 "*) return 0 ;;
	esac
	LINK=${3:-rxe} add_rxe "rs-$1" "rs_$1" "v$1" "$(gid4 "0$2")" "$(gid6 "0$2")"
}

# The kernel lets IPv6 use an interface some time after the interface is up. With IPv4, the address of a
# neighbour that answers before ib_core waits for it is found after 2 seconds.
answers() {
	for address in fd09::2 10.9.0.2; do
		ip netns exec rs-a ping -nqc 1 -W 1 $address >/dev/null 2>&1 || return 1
	done
}

# The module learns the state of a port some time after the addresses of its device.
are_active() {
	for side in a b; do
		! ip netns exec rs-$side grep -sv ' state=active' /proc/net/rdma_sock/devices |
			grep -q . || return 1
	done
}

up() {
	down
	[ -d /sys/module/rdma_rxe ] || modprobe rdma_rxe
	number=1
	for side in a b; do
		ip netns add rs-$side
		ip netns exec rs-$side sysctl -qw net.ipv6.conf.default.accept_dad=0 \
			net.ipv6.conf.all.accept_dad=0
		ip -n rs-$side link set lo up
	done
	ip link add va netns rs-a type veth peer name vb netns rs-b
	for side in a b; do
		ip -n rs-$side address add 10.9.0.$number/24 dev v$side
		ip -n rs-$side address add fd09::$number/64 dev v$side nodad
		ip -n rs-$side link set v$side up
		number=$((number + 1))
	done
	rdma_device a 1 "${LINK_A:-}"
	rdma_device b 2 "${LINK_B:-}"
	until_true answers
	until_true are_active
}

case ${1-} in
up | down) "$1" ;;
*) fail "up or down?" ;;
esac
