#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Both sides have two RDMA devices, and the kernel's C implementation loses one under load: the
connection moves to the other one. With our server the first link returns; a C server need not restore
it.

Covers SMCR-LLF-13, LLF-20, FOV-01, FOV-18.
"""

import sys

import case
import csmc
import links
import topology
from case import ADDRESSES, DEVICES, GUEST, OURS, Alike
from ktap import equal
from links import Traffic

NETWORK = "LABNET"


def theirs():
    """The devices of all links of the C side."""
    return sorted({link["device"] for link in csmc.Family().links()})


class Loses(Alike):
    """The C side loses a device, which returns."""

    bound = 240

    def run(self):
        """Runs one side. A C server adds a link only by devices that it had at the start, or much
        later."""
        if not OURS:
            begin_anew()
        super().run()

    def go(self, sock):
        """Runs one side."""
        traffic = Traffic(sock)
        traffic.flows("data")
        self.lose(traffic)
        self.meet("flows")
        traffic.end()
        equal(traffic.got, int(self.meet("count", str(traffic.sent))), "blocks")

    def lose(self, traffic):
        """Removes a device, and makes it again."""
        look = links.devices if OURS else theirs
        topology.until(lambda: look() == [*DEVICES], "two links")
        self.meet("two")
        if not OURS:
            topology.command("rdma", "link", "delete", DEVICES[0])
        self.meet("gone")
        traffic.flows("data by the other device")
        if not OURS:
            # Two links are possible again, from one device of this side to both of the other.
            equal(theirs(), [DEVICES[1]], "devices that are left")
        self.meet("moved")
        if not OURS and self.role == "client":
            links.device(DEVICES[0], "net0", ADDRESSES[GUEST])
        traffic.flows("data until the end")


def begin_anew():
    """Resets the C side, and puts both devices into one network."""
    csmc.begin_anew()
    csmc.join(NETWORK, netdev="net0")
    for name in DEVICES:
        csmc.join(NETWORK, device=name)


if __name__ == "__main__":
    case.need_both()
    links.second_device(links.SECOND if OURS else "192.168.77.12")
    sys.exit(case.run([Loses]))
