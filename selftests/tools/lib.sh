# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# What the tests of the tools share: KTAP, the tools under test, and a probe that makes a socket.
# To be sourced by scripts that run in a guest as root.

HERE=$(cd "$(dirname "$0")" && pwd -P)
# The tools in the checkout, relative to this file or to the installed tests.
for TOOLS in "${RDMA_SOCK_TOOLS:-}" "$HERE/../../build/tools" "$HERE/../../tools" /src/build/tools; do
	[ ! -x "$TOOLS/rdma-sock" ] || break
done
TOOL=$TOOLS/rdma-sock
WORK=$(mktemp -d)
TEST_NUMBER=0
TEST_FAILED=0

# shellcheck disable=SC2034 # for the tests
IPPROTO_TCP=6
IPPROTO_SMC=256
# shellcheck disable=SC2034 # for the tests
IPPROTO_SDP=257
# shellcheck disable=SC2034 # for the tests
IPPROTO_DUAL=258

echo "TAP version 13"

# skip_all REASON: end the script before the plan where the tests cannot run.
skip_all() {
	echo "1..0 # SKIP $*"
	rm -rf "$WORK"
	exit 4
}

[ -x "$TOOL" ] || skip_all "no $TOOL: run scripts/tools"
command -v python3 >/dev/null || skip_all "no python3"

# plan COUNT: print the number of results.
plan() {
	echo "1..$1"
}

result() {
	TEST_NUMBER=$((TEST_NUMBER + 1))
	echo "$1 $TEST_NUMBER $2"
}

pass() {
	result ok "$1"
}

fail() {
	TEST_FAILED=1
	result "not ok" "$1"
	shift
	[ "$#" -eq 0 ] || printf '%s\n' "$*" | sed 's/^/# /'
}

skip() {
	result ok "$1 # SKIP $2"
}

# same NAME EXPECTED ACTUAL: a test that two texts are equal.
same() {
	if [ "$2" = "$3" ]; then
		pass "$1"
	else
		fail "$1" "expected: $2" "got: $3"
	fi
}

# contains NAME PART TEXT: a test that a text has a part.
contains() {
	case $3 in
	*"$2"*) pass "$1" ;;
	*) fail "$1" "no '$2' in: $3" ;;
	esac
}

# refused NAME PART CMD...: a test that a command fails and prints PART.
refused() {
	refused_name=$1
	refused_part=$2
	shift 2
	if refused_text=$("$@" 2>&1); then
		fail "$refused_name" "succeeded: $*" "$refused_text"
	else
		contains "$refused_name" "$refused_part" "$refused_text"
	fi
}

# json FILE-TEXT EXPRESSION: a value from JSON, by a Python expression on `d`.
json() {
	printf '%s' "$1" | python3 -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1]))' "$2"
}

# program NAME: make a program of this name that runs Python, and print its path.
program() {
	ln -sf "$(command -v python3)" "$WORK/$1"
	echo "$WORK/$1"
}

# The probe makes a socket by its arguments, and prints its protocol or the error. A socket of SMC
# or SDP shows itself as TCP, as its program asked for, but the module lists it once it is used.
PROBE='
import errno, os, socket, sys
family, kind, protocol = (eval("socket." + word) if word[0].isalpha() else int(word)
                          for word in sys.argv[1:4])

def listed_as(s):
    s.listen()
    with open("/proc/net/rdma_sock/conns") as conns:
        for words in map(str.split, conns):
            if f"ino={os.fstat(s.fileno()).st_ino}" in words:
                if "also=sdp" in words:
                    return 258
                return 256 if "proto=smc" in words else 257 if "proto=sdp" in words else 0
    return socket.IPPROTO_TCP

try:
    s = socket.socket(family, kind, protocol)
    answer = s.getsockopt(socket.SOL_SOCKET, 38)  # SO_PROTOCOL
    if (answer == socket.IPPROTO_TCP and s.type & 0xf == socket.SOCK_STREAM
            and os.path.exists("/proc/net/rdma_sock")):
        answer = listed_as(s)
    print(answer)
except OSError as e:
    print(errno.errorcode[e.errno])
'

# probe PROGRAM [FAMILY TYPE PROTOCOL]: the kind of socket that the program gets; TCP by default.
probe() {
	"$1" -c "$PROBE" "${2:-AF_INET}" "${3:-SOCK_STREAM}" "${4:-0}"
}

# smc_is_there: does the kernel have the protocol?
smc_is_there() {
	[ "$(probe "$(command -v python3)" AF_INET SOCK_STREAM "$IPPROTO_SMC")" = "$IPPROTO_SMC" ]
}

# sdp_is_there: the same for SDP.
sdp_is_there() {
	[ "$(probe "$(command -v python3)" AF_INET SOCK_STREAM "$IPPROTO_SDP")" = "$IPPROTO_SDP" ]
}

finish() {
	rm -rf "$WORK"
	exit "$TEST_FAILED"
}
