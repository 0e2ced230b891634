#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Both sides have two RDMA devices, and the kernel's C implementation loses one under load: the
connection moves to the other one. With our server the first link returns; a C server need not restore
it.

Covers SMCR-LLF-13, LLF-20, FOV-01, FOV-18.
"""

import subprocess
import sys

import case
import csmc
import links
import topology
from case import ADDRESSES, DEVICES, GUEST, OURS, Alike
from ktap import equal
from links import Traffic

NETWORK = "LABNET"
DEAF = """
table netdev deaf {
	chain in {
		type filter hook ingress device net0 priority 0; policy accept;
		ip daddr %s udp dport 4791 drop
	}
}
"""


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
            remove(traffic)
        self.meet("gone")
        traffic.flows("data by the other device")
        if not OURS:
            # Two links are possible again, from one device of this side to both of the other.
            equal(theirs(), [DEVICES[1]], "devices that are left")
        self.meet("moved")
        if not OURS and self.role == "client":
            links.device(DEVICES[0], "net0", ADDRESSES[GUEST])
        traffic.flows("data until the end")


def remove(traffic):
    """Removes the first device of the C side, whose last requests stay without acknowledgment. It does not
    wait for the requests of a link that it leaves. A completion after the move would free data that
    the sender has yet to repeat, and the sender would overwrite them."""
    subprocess.run(["nft", "-f", "-"], input=DEAF % ADDRESSES[GUEST], text=True, check=True)
    traffic.stands()
    topology.command("rdma", "link", "delete", DEVICES[0])
    topology.command("nft", "delete", "table", "netdev", "deaf")


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
