#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A peer that takes the name of another host and stalls delays nobody but itself."""

import pathlib
import socket
import sys
import time

import ktap
import lab
import raw
import scene
from ktap import equal
from messages import PROPOSAL
from peer import Peer

EYE_CATCHER = bytes.fromhex("e2d4c3d9")
ETH_P_ALL = 0x0003


def name_of_a():
    """The peer ID that host a shows in a Proposal."""
    with lab.inside("b"):
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.bind(("vb", ETH_P_ALL))
    wire.settimeout(lab.BOUND)
    client, server = lab.pair()
    lab.is_smc(client, server)
    start = EYE_CATCHER + bytes([PROPOSAL])
    while True:
        frame = wire.recv(2048)
        at = frame.find(start)
        if at > 0:
            break
    wire.close()
    client.close()
    server.close()
    lab.all_gone()
    return frame[at + 8:at + 16]


def forget_each_other():
    """No link group is left between a and b."""
    lab.command("rdma", "link", "delete", "rs_a")
    lab.until(lambda: not lab.records("b", "links"), "link groups are left")
    lab.command("ip", "netns", "exec", "rs-a", "rdma", "link", "add", "rs_a", "type", "rxe",
                "netdev", "va")
    gids = pathlib.Path("/sys/class/infiniband/rs_a/ports/1/gids")
    mine = "0000:0000:0000:0000:0000:ffff:0a09:0001"

    def known():
        texts = []
        for gid in gids.iterdir():
            try:
                texts.append(gid.read_text(encoding="ascii").strip())
            except OSError:
                # An empty place.
                continue
        return mine in texts
    lab.until(known, "rs_a gets its address")


def liar_delays_nobody():
    """First contact of the host whose name was taken succeeds while the liar stalls."""
    lab.netns("up")
    name = name_of_a()
    forget_each_other()
    with raw.Host() as host, lab.listener("b") as listening:
        liar = Peer(host)
        conn = liar.new()
        conn.connect(listening.getsockname()[1])
        conn.propose({"peer": int.from_bytes(name, "big")})
        conn.accepted()
        equal(conn.first, True, "first contact of the liar")
        begin = time.monotonic()
        client, server = lab.pair()
        took = time.monotonic() - begin
        lab.is_smc(client, server)
        lab.exchange(client, server)
        equal(took < (30 if scene.FEW else 3), True, "first contact took %.1f s" % took)
        # The liar is still where it was.
        equal(conn.tcp.reset, False, "the liar's connection is reset")
        client.close()
        server.close()
        liar.leave()
        liar.end()
    lab.all_gone()


if __name__ == "__main__":
    lab.need_module()
    sys.exit(ktap.run([liar_delays_nobody]))
