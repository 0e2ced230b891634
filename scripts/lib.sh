# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# What the scripts share: where things are cached, how progress is told, locks, and stamps keyed by
# content. To be sourced by bash with `set -eu`. Standard output belongs to the scripts (they print
# paths on it); everything a person should read goes to standard error.

RS_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
RS_CACHE=${RDMA_SOCK_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rdma-sock}

# The Debian suite of the toolchain root, which all but kernels of other suites are built in, and the
# other suites whose kernels are built for, each in a root of its own.
RS_BASE=trixie
RS_SUITES="forky sid experimental"

mkdir -p "$RS_CACHE/lock" "$RS_CACHE/log" "$RS_CACHE/stamp"
RS_CACHE=$(cd "$RS_CACHE" && pwd -P)

# The file that says "you are inside a toolchain root", and of which suite (written by scripts/root).
RS_ROOT_MARK=/etc/rdma-sock-root

# The suite of the root that this is in, or of the one to enter.
RS_SUITE=$(cat "$RS_ROOT_MARK" 2>/dev/null || true)
RS_SUITE=${RS_SUITE:-$RS_BASE}

# rs_inside_root [SUITE]: true inside a toolchain root, of that suite if one is given.
rs_inside_root() {
	[ -e "$RS_ROOT_MARK" ] && [ "${1:-$RS_SUITE}" = "$RS_SUITE" ]
}

# rs_suite KIND: the suite that a kernel is from: stock-SUITE names one, all others are of the base.
rs_suite() {
	case $1 in
	stock-*) printf '%s\n' "${1#stock-}" ;;
	*) printf '%s\n' "$RS_BASE" ;;
	esac
}

# rs_is_stock KIND: true for stock, and for stock-SUITE of a known suite.
rs_is_stock() {
	[ "$1" = stock ] && return 0
	case $1 in
	stock-*) ;;
	*) return 1 ;;
	esac
	case " $RS_SUITES " in
	*" ${1#stock-} "*) return 0 ;;
	esac
	return 1
}

say() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die() {
	say "error: $*"
	exit 1
}

# rs_lock NAME: hold the named lock until this shell ends; nothing new if it holds it already. Says
# so when it has to wait. The descriptor is closed in what `rs_logged` starts, so that no stray child
# can keep the lock.
rs_lock() {
	local fd
	case " ${RS_LOCKS:-} " in
	*" $1 "*) return 0 ;;
	esac
	exec {fd}>"$RS_CACHE/lock/$1"
	if ! flock -n "$fd"; then
		say "waiting for another run that holds the '$1' lock"
		flock "$fd"
	fi
	RS_LOCKS="${RS_LOCKS:-} $1"
	RS_LOCK_FDS="${RS_LOCK_FDS:-} $fd"
}

# rs_close_locks: for the children: forget the locks of the parent.
rs_close_locks() {
	local fd
	for fd in ${RS_LOCK_FDS:-}; do
		eval "exec $fd>&-"
	done
}

# rs_key FILE-OR-STRING...: a short hash over the contents of the files and over the other words.
rs_key() {
	local word
	for word in "$@"; do
		if [ -f "$word" ]; then
			sha256sum <"$word"
		else
			printf '%s\n' "$word"
		fi
	done | sha256sum | cut -c1-16
}

# rs_fresh NAME KEY: true if the step NAME was completed with exactly this KEY.
rs_fresh() {
	[ "$(cat "$RS_CACHE/stamp/$1" 2>/dev/null)" = "$2" ]
}

# rs_done NAME KEY: note that the step NAME is complete. Atomic, so an interruption leaves no half.
rs_done() {
	printf '%s\n' "$2" >"$RS_CACHE/stamp/$1.$$"
	mv -f "$RS_CACHE/stamp/$1.$$" "$RS_CACHE/stamp/$1"
}

# The jobs that `rs_jobs` will run, each "NAME COMMAND WORD...", in the order in which they begin.
RS_QUEUE=()

# rs_later NAME CMD...: add a job.
rs_later() {
	RS_QUEUE+=("$(printf '%q ' "$@")")
}

# rs_jobs COUNT FOLDER ENDED: run all jobs, at most COUNT at a time, each with its output in
# FOLDER/NAME.log. Calls `ENDED NAME STATUS` when a job has ended.
rs_jobs() {
	local name words finished status
	local -A names=()
	mkdir -p "$2"
	while [ "${#RS_QUEUE[@]}" -gt 0 ] || [ "${#names[@]}" -gt 0 ]; do
		while [ "${#RS_QUEUE[@]}" -gt 0 ] && [ "${#names[@]}" -lt "$1" ]; do
			eval "words=(${RS_QUEUE[0]})"
			RS_QUEUE=("${RS_QUEUE[@]:1}")
			name=${words[0]}
			say "$name"
			"${words[@]:1}" >"$2/$name.log" 2>&1 &
			names[$!]=$name
		done
		status=0
		wait -n -p finished || status=$?
		name=${names[$finished]}
		unset "names[$finished]"
		"$3" "$name" "$status"
	done
}

# rs_logged LABEL CMD...: run a long step with its output in a log file. Tells at the start, every
# 20 seconds (time and last line) and at the end; shows the end of the log if the step fails.
rs_logged() {
	local label=$1 log start pid beat rc
	shift
	log="$RS_CACHE/log/$(printf '%s' "$label" | tr -c 'A-Za-z0-9._+-' '_').log"
	start=$SECONDS
	say "$label ..."
	: >"$log"
	(
		rs_close_locks
		exec "$@"
	) >>"$log" 2>&1 </dev/null &
	pid=$!
	(
		rs_close_locks
		while sleep 20 2>/dev/null; do
			printf '%s:   %s, %ds: %.100s\n' "${0##*/}" "$label" $((SECONDS - start)) \
				"$(tail -n 1 "$log" | tr -d '\r')" >&2
		done
	) </dev/null >/dev/null &
	beat=$!
	# shellcheck disable=SC2064 # expand now: the pids of this call
	trap "kill $pid $beat 2>/dev/null; exit 130" INT TERM HUP
	rc=0
	wait "$pid" || rc=$?
	trap - INT TERM HUP
	kill "$beat" 2>/dev/null || true
	wait "$beat" 2>/dev/null || true
	if [ "$rc" -ne 0 ]; then
		say "$label: failed with status $rc; the end of $log:"
		tail -n 40 "$log" >&2
		return "$rc"
	fi
	say "$label: done in $((SECONDS - start)) s"
}
