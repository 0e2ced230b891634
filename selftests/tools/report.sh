#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `rdma-sock report` beside real connections: the file is whole, and without addresses if asked for.

set -u
# shellcheck source=selftests/tools/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=selftests/tools/sides.sh
. "$(dirname "$0")/sides.sh"
plan 15

start b rs-server server 10.9.0.2 $PORT
start a rs-rdma client 10.9.0.2 $PORT 256
start a rs-tcp client 10.9.0.2 $PORT 6

FILE=$WORK/report.html
b "$TOOL" report --seconds 4 "$FILE" 2>"$WORK/note"
same "report is written" 0 $?
contains "its name is printed" "$FILE" "$(cat "$WORK/note")"
same "only the user may read it" 600 "$(stat -c %a "$FILE")"
same "it is well-formed" html "$(well_formed <"$FILE")"
page=$(cat "$FILE")
contains "it has the connection" "10.9.0.2:7000" "$page"
contains "with its program" "rs-server" "$page"
contains "and the reason for TCP" "peer did not indicate SMC" "$page"
contains "it has the device" "rs_b" "$page"
contains "and the settings" "net.smc.smcr_max_conns_per_lgr" "$page"
same "it has plots" 4 "$(grep -c '<svg ' "$FILE")"
same "payload grew" True "$(printf '%s' "$page" | python3 -c '
import sys, xml.etree.ElementTree
rows = [["".join(cell.itertext()) for cell in row]
        for row in xml.etree.ElementTree.parse(sys.stdin).iter("tr")]
print([int(row[2]) > 0 for row in rows if row[0] == "tx_bytes"][0])')"
same "it refers to nothing outside" 0 "$(grep -cE 'https?:|href|src=|url\(' "$FILE")"

page=$(b "$TOOL" report --seconds 0.1 --redact -)
same "redacted report has no address" 0 "$(printf '%s' "$page" |
	grep -ciE '10\.9\.0|fd09:|ffff:a09|ffff:0a09|fe80:|([0-9a-f]{2}:){5}')"
contains "but placeholders" "IPv4-1:7000" "$page"
refused "file that cannot be written is an error" "/nowhere" \
	"$TOOL" report --seconds 0.1 /nowhere/report.html

exit "$TEST_FAILED"
