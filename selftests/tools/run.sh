#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `rdma-sock run`: the program asks for sockets of SMC or SDP, and gets TCP where the kernel has no
# such protocol.

set -u
# shellcheck source=selftests/tools/lib.sh
. "$(dirname "$0")/lib.sh"

plan 20

PYTHON=$(command -v python3)
if smc_is_there; then
	EXPECTED=$IPPROTO_SMC
else
	EXPECTED=$IPPROTO_TCP
fi

if sdp_is_there; then
	SDP=$IPPROTO_SDP
else
	SDP=$IPPROTO_TCP
fi
# Both, or SMC alone.
[ "$SDP" = "$IPPROTO_SDP" ] && AUTO=$IPPROTO_DUAL || AUTO=$EXPECTED

under_run() {
	"$TOOL" run -- "$PYTHON" -c "$PROBE" "$@"
}

under_proto() {
	"$TOOL" run --proto "$1" -- "$PYTHON" -c "$PROBE" AF_INET SOCK_STREAM 0
}

same "TCP socket becomes SMC if and only if the kernel has it" "$EXPECTED" \
	"$(under_run AF_INET SOCK_STREAM 0)"
same "IPv6 as well" "$EXPECTED" "$(under_run AF_INET6 SOCK_STREAM IPPROTO_TCP)"
same "datagrams are left alone" 17 "$(under_run AF_INET SOCK_DGRAM 0)"
same "what fails for TCP still fails in the same way" EINVAL \
	"$(under_run AF_INET 'SOCK_STREAM|0x100000' 0)"

same "--proto sdp asks for SDP" "$SDP" "$(under_proto sdp)"
same "--proto smc asks for SMC" "$EXPECTED" "$(under_proto smc)"
same "--proto auto asks for both, or for SMC if the kernel has only that" "$AUTO" "$(under_proto auto)"
same "protocol is taken from the environment" "$SDP" \
	"$(export RDMA_SOCK_PROTO=sdp && under_run AF_INET SOCK_STREAM 0)"

# Without SMC the kernel looks for a module at each call, so the library must not ask each time.
if [ "$EXPECTED" = "$IPPROTO_SMC" ]; then
	skip "protocol that the kernel lacks is not asked for again at once" "the kernel has it"
elif ! strace -o "$WORK/strace" true 2>/dev/null; then
	skip "protocol that the kernel lacks is not asked for again at once" "strace does not work"
else
	strace -f -e trace=socket -o "$WORK/strace" "$TOOL" run -- "$PYTHON" -c '
import socket
for i in range(5):
    socket.socket().close()
'
	same "protocol that the kernel lacks is not asked for again at once" "1 of 6" \
		"$(grep -c 'SOCK_STREAM.*, \(0x100\|IPPROTO_SMC\)' "$WORK/strace") of $(grep -c 'socket(AF_INET,' "$WORK/strace")"
fi

# An unmodified client and an unmodified server, octets compared.
ECHO='
import hashlib, socket, threading
data = hashlib.shake_128(b"rdma-sock").digest(1 << 20)
server = socket.create_server(("127.0.0.1", 0))
def serve():
    conn, _ = server.accept()
    with conn:
        while chunk := conn.recv(65536):
            conn.sendall(chunk)
threading.Thread(target=serve, daemon=True).start()
client = socket.socket()
client.connect(server.getsockname())
threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)),
                 daemon=True).start()
back = bytearray()
while chunk := client.recv(65536):
    back += chunk
print("same" if back == data else "different")
'
same "data come back unchanged" "same" "$(timeout 60 "$TOOL" run -- "$PYTHON" -c "$ECHO")"

same "data come back unchanged by SDP" "same" \
	"$(timeout 60 "$TOOL" run --proto sdp -- "$PYTHON" -c "$ECHO")"

"$TOOL" run -- sh -c 'exit 7'
same "status of the program is passed on" 7 $?
"$TOOL" run -- "$WORK/missing" 2>/dev/null
same "program that is not there gives 127" 127 $?
: >"$WORK/plain"
"$TOOL" run -- "$WORK/plain" 2>/dev/null
same "file that is no program gives 126" 126 $?
refused "library that is not there is an error" "$WORK/none.so" \
	"$TOOL" run --preload "$WORK/none.so" true
# shellcheck disable=SC2016 # for the inner shell
inner='printf %s "$LD_PRELOAD"'
library=$(readlink -f "$TOOLS/librdma_sock_preload.so")
same "library is preloaded from where the tool is" "$library" "$(env -u LD_PRELOAD "$TOOL" run -- sh -c "$inner")"
cp "$library" "$WORK/copy.so"
same "what is preloaded already is kept" "$library:$WORK/copy.so" \
	"$(LD_PRELOAD=$WORK/copy.so "$TOOL" run sh -c "$inner")"

# The kernel doubles the value, and the library sets it for SMC sockets only.
SIZES='
import socket
sock = socket.socket()
print(*(sock.getsockopt(socket.SOL_SOCKET, name) for name in (socket.SO_RCVBUF, socket.SO_SNDBUF)))
'
asked='
import socket
for protocol in (256, 6):
    try:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
        break
    except OSError:
        pass
if protocol == 256:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 48 << 10)
print(*(sock.getsockopt(socket.SOL_SOCKET, name) for name in (socket.SO_RCVBUF, socket.SO_SNDBUF)))
'
expected=$("$PYTHON" -c "$asked")
same "SMC sockets get the sizes of buffers that are asked for, others do not" "$expected" \
	"$("$TOOL" run -r 64K -t 49152 "$PYTHON" -c "$SIZES")"
same "sizes are taken from the environment" "$expected" \
	"$(SMC_RCVBUF=64K SMC_SNDBUF=48k "$TOOL" run "$PYTHON" -c "$SIZES")"
refused "size that is none is an error" "2047M" "$TOOL" run -r 1G true

finish
