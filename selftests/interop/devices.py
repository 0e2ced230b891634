#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Both sides have two RDMA devices, and one of the kernel's C implementation goes under load: the
connection goes on by the other. Where ours is the server it comes back, too; a C server may leave it
at that.

Covers SMCR-LLF-13, LLF-20, FOV-01, FOV-18.
"""

import sys

import case
import csmc
import links
import topology
from case import ADDRESSES, GUEST, OURS, Alike
from ktap import equal
from links import Traffic

NETWORK = "LABNET"


def theirs():
    """The devices that the links of the C side are on, whatever their groups."""
    return sorted({link["device"] for link in csmc.Family().links()})


class Loses(Alike):
    """The C side loses a device, which comes back."""

    bound = 240

    def run(self):
        """This side of the case. A C server offers another link only by devices that it has had from
        the beginning, or much later."""
        if not OURS:
            begin_anew()
        super().run()

    def go(self, sock):
        """One side."""
        traffic = Traffic(sock)
        traffic.flows("data")
        self.lose(traffic)
        self.meet("flows")
        traffic.end()
        equal(traffic.got, int(self.meet("count", str(traffic.sent))), "blocks")

    def lose(self, traffic):
        """A device goes, and comes back."""
        look = links.devices if OURS else theirs
        topology.until(lambda: look() == ["rxe0", "rxe1"], "two links")
        self.meet("two")
        if not OURS:
            topology.command("rdma", "link", "delete", "rxe0")
        self.meet("gone")
        traffic.flows("data by the other device")
        if not OURS:
            # There may be two links again: from one device of this side to both of the other.
            equal(theirs(), ["rxe1"], "devices that are left")
        self.meet("moved")
        if not OURS and self.role == "client":
            links.device("rxe0", "net0", ADDRESSES[GUEST])
        traffic.flows("data until the end")


def begin_anew():
    """The C side begins anew, and is told that both devices are in one network."""
    csmc.begin_anew()
    csmc.join(NETWORK, netdev="net0")
    for name in "rxe0", "rxe1":
        csmc.join(NETWORK, device=name)


if __name__ == "__main__":
    case.need_both()
    links.second_device(links.SECOND if OURS else "192.168.77.12")
    sys.exit(case.run([Loses]))
