#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# run TARGET [PROGRAM...]: run the programs of a target in this machine, as root; prints nested KTAP
# and fails if a program fails. Installed beside the targets.
set -u -o pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
TARGET=${1:?usage: run TARGET [PROGRAM...]}
shift

words=()
for program in "$@"; do
	words+=(-t "$TARGET:$program")
done
[ $# -gt 0 ] || words=(-c "$TARGET")

# Kernels with every checker are ten times slower: there three kinds of connections replace all. The
# programs that compare every call and option have kinds of their own, and are quick.
if [ -e /sys/kernel/debug/kmemleak ]; then
	words+=(-o 3000)
	for program in "$HERE/$TARGET"/*; do
		name=$(basename "$program" | tr -c '[:alnum:]\n' _ | tr '[:lower:]' '[:upper:]')
		if [ "$TARGET" = socket ] && [ "${program##*.}" != sh ] &&
			[[ "$(basename "$program")" != every_* ]]; then
			export "KSELFTEST_${name}_ARGS=-v inet -v smc6 -v tcp_to_inet6"
		fi
	done
fi

# A minimal /dev lacks these, and the runner writes to one of them.
for link in fd: stdin:/0 stdout:/1 stderr:/2; do
	[ -h "/dev/${link%%:*}" ] || ln -sfT "/proc/self/fd${link#*:}" "/dev/${link%%:*}"
done

# Output goes through a pipe: the runner opens its standard output again, which fails for a socket.
"$HERE/run_kselftest.sh" "${words[@]}" 2>&1 | cat
status=$?

# Connections that were closed last still end. Wait until they release the module.
for ((try = 0; try < 200; try++)); do
	[ "$(cat /sys/module/rdma_sock/refcnt 2>/dev/null || echo 0)" -ne 0 ] || break
	sleep 0.1
done
[ "$try" -eq 0 ] || echo "# the module was free after $((try * 100)) ms"
exit "$status"
