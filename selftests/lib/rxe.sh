# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# Soft-RoCE devices of network namespaces. For scripts that source this file.

fail() {
	echo "# ${0##*/}: $*" >&2
	exit 1
}

# until_true COMMAND...: repeat a command until it succeeds, for at most 10 s plus its run time. For
# states that no event announces.
until_true() {
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 1000 ] || fail "not in time: $*"
		sleep 0.01
	done
}

# has_gid DEVICE GID: does the address list of the RDMA device have this address?
has_gid() {
	grep -qsx "$2" "/sys/class/infiniband/$1/ports/1/gids/"* 2>/dev/null
}

# add_rxe NAMESPACE DEVICE NETDEV GID...: make a soft-RoCE device, and wait for its addresses. The
# address list follows the network device with a delay. LINK is its type, of rdma_rxe by default.
add_rxe() {
	ip netns exec "$1" rdma link add "$2" type "${LINK:-rxe}" netdev "$3"
	rxe=$2
	shift 3
	for gid in "$@"; do
		until_true has_gid "$rxe" "$gid"
	done
}

# gid4 HEX: the address list's text of 10.9.0.N, where HEX is N in two digits.
gid4() {
	echo "0000:0000:0000:0000:0000:ffff:0a09:00$1"
}

# gid6 HEX: the address list's text of fd09::HEX, of two digits.
gid6() {
	echo "fd09:0000:0000:0000:0000:0000:0000:00$1"
}
