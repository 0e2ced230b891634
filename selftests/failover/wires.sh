#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# wires.sh up [N]   make the namespaces rs-a and rs-b with N network devices each, 2 by default and at
#                   most 4, in one network
# wires.sh add DEV  make the soft-RoCE device of a network device: rs_a1 of va1, and so on
# wires.sh down     remove everything
#
# rs-a has 10.9.0.1 on va1, 10.9.0.3 on va2 and so on, rs-b has 10.9.0.2 on vb1, 10.9.0.4 on vb2 and so
# on. Each of them has a wire to rs-r, which forwards between them and answers ARP for all, as a switch
# would.
set -eu

devices="a1 b1 a2 b2 a3 b3 a4 b4"

# shellcheck source=../lib/rxe.sh
. "$(dirname "$0")/rxe.sh"

down() {
	for device in $devices; do
		rdma link delete rs_$device 2>/dev/null || true
	done
	for name in rs-a rs-b rs-r; do
		ip netns delete $name 2>/dev/null || true
	done
}

number_of() {
	case $1 in
	a[1-4]) echo $((${1#a} * 2 - 1)) ;;
	b[1-4]) echo $((${1#b} * 2)) ;;
	*) fail "no device $1" ;;
	esac
}

add() {
	number=$(number_of "$1")
	add_rxe "rs-${1%?}" "rs_$1" "v$1" "$(gid4 "0$number")"
}

up() {
	down
	[ -d /sys/module/rdma_rxe ] || modprobe rdma_rxe
	for name in rs-a rs-b rs-r; do
		ip netns add $name
		ip -n $name link set lo up
		ip netns exec $name sysctl -qw net.ipv4.conf.all.rp_filter=0 \
			net.ipv4.conf.default.rp_filter=0 net.ipv4.conf.all.arp_ignore=1 \
			net.ipv4.conf.all.arp_announce=2 net.ipv6.conf.default.disable_ipv6=1
	done
	ip netns exec rs-r sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.default.proxy_arp=1 \
		net.ipv4.conf.all.arp_ignore=0 \
		net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.default.send_redirects=0
	for device in $devices; do
		[ "${device#?}" -le "$1" ] || continue
		side=${device%?}
		number=$(number_of $device)
		ip link add v$device netns rs-$side type veth peer name r$device netns rs-r
		ip -n rs-$side address add 10.9.0.$number/24 dev v$device
		ip -n rs-$side link set v$device up
		ip -n rs-r link set r$device up
		ip netns exec rs-r sysctl -qw net.ipv4.neigh.r$device.proxy_delay=0
		ip -n rs-r route add 10.9.0.$number/32 dev r$device
	done
}

case ${1-} in
up) up "${2-2}" ;;
down) down ;;
add) add "$2" ;;
*) fail "up, add DEV or down?" ;;
esac
