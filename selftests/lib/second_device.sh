#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# second_device.sh up        give each side of netns.sh a second soft-RoCE device, rs_ma and rs_mb, on
#                            a network device of its own: ma with 10.9.0.11 and fd09::11, mb with
#                            10.9.0.12 and fd09::12
# second_device.sh links     wait until a link group of rs-a has two links
# second_device.sh lose DEV  remove a soft-RoCE device
# second_device.sh down      remove the second devices, and make lost devices of netns.sh again
set -eu

. "$(dirname "$0")/rxe.sh"

has_two_links() {
	ip netns exec rs-a cat /proc/net/rdma_sock/links |
		awk '/ state=active / { count[$1]++ } END { for (group in count) two += count[group] == 2; exit !two }'
}

# device SIDE NAME NETDEV LAST4 LAST6: make a missing soft-RoCE device of a network device. The last
# octets are those of its addresses.
device() {
	[ ! -e "/sys/class/infiniband/$2" ] || return 0
	add_rxe "rs-$1" "$2" "$3" "$(gid4 "$4")" "$(gid6 "$5")"
}

up() {
	number=1
	for side in a b; do
		ip -n rs-$side link add link v$side name m$side type macvlan mode bridge
		ip netns exec rs-$side sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.m$side.rp_filter=0 \
			net.ipv4.conf.v$side.rp_filter=0 net.ipv4.conf.all.arp_ignore=1 \
			net.ipv4.conf.all.arp_announce=2
		ip -n rs-$side address add 10.9.0.1$number/24 dev m$side
		ip -n rs-$side address add fd09::1$number/64 dev m$side nodad
		ip -n rs-$side link set dev m$side up
		device $side rs_m$side m$side "$(printf %02x $((10 + number)))" 1$number
		number=$((number + 1))
	done
}

down() {
	number=1
	for side in a b; do
		rdma link delete rs_m$side 2>/dev/null || true
		ip -n rs-$side link delete dev m$side 2>/dev/null || true
		device $side rs_$side v$side 0$number 0$number
		number=$((number + 1))
	done
}

case ${1-} in
up | down) "$1" ;;
links) until_true has_two_links ;;
lose) rdma link delete "$2" ;;
*) fail "up, links, lose DEV or down?" ;;
esac
