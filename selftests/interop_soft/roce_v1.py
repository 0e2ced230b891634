#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The kernel's C implementation against our module, each with a device of rdma_soft that has RoCE v1, as
version 1 of SMC-R needs.

Covers RNIC-GEN-03, RNIC-IP-04, RNIC-IP-05.
"""

import soft

SIX = {"FAMILY": "inet6"}
DATA = ("Bulk", "PingPong", "Numbers", "ClientHalfClose", "ServerHalfClose", "Abort", "LingerZero", "Epoll")

if __name__ == "__main__":
    # Link groups stay, and keep the test time of their creation, so that the case that changes it comes
    # first. Buffers of all sizes come last.
    soft.main("1", ("negotiation.py", (), {}), ("data.py", DATA, {}), ("urgent.py", (), {}),
              ("many.py", ("Mixed", "Many"), {}), ("links.py", (), {}),
              ("data.py", ("Buffers", "Defaults"), {}),
              ("data.py", ("Bulk", "PingPong", "ClientHalfClose", "Abort", "Epoll"), SIX),
              ("urgent.py", ("OutOfBand",), SIX))
