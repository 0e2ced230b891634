#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# second.sh up        give each side of netns.sh a second soft-RoCE device, rs_ma and rs_mb, on a network
#                     device of its own, ma with 10.9.0.11 and fd09::11, mb with 10.9.0.12 and fd09::12
# second.sh links     wait until a link group of rs-a has two links
# second.sh lose DEV  remove a soft-RoCE device
# second.sh down      remove the second devices, and make those of netns.sh that are lost again
set -eu

fail() {
	echo "# second.sh: $*" >&2
	exit 1
}

# until_true COMMAND...: nothing tells when a device or a link is there.
until_true() {
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 1000 ] || fail "in vain: $*"
		sleep 0.01
	done
}

has_gid() {
	grep -qsx "$2" "/sys/class/infiniband/$1/ports/1/gids/"* 2>/dev/null
}

has_two_links() {
	ip netns exec rs-a cat /proc/net/rdma_sock/links |
		awk '/ state=active / { count[$1]++ } END { for (group in count) two += count[group] == 2; exit !two }'
}

# device SIDE NAME NETDEV LAST4 LAST6: the soft-RoCE device on a network device, with the last octets of its
# addresses.
device() {
	[ ! -e "/sys/class/infiniband/$2" ] || return 0
	ip netns exec "rs-$1" rdma link add "$2" type rxe netdev "$3"
	until_true has_gid "$2" "0000:0000:0000:0000:0000:ffff:0a09:00$4"
	until_true has_gid "$2" "fd09:0000:0000:0000:0000:0000:0000:00$5"
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
