#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The kernel's C implementation against our module, each with a device of rdma_soft that has RoCE v2.

Covers RNIC-GEN-03.
"""

import soft

if __name__ == "__main__":
    # Link groups stay, and keep the test time of their creation, so that the case that changes it comes
    # first. The last one leaves a device out.
    soft.main("2", ("negotiation.py", (), {}), ("data.py", (), {}), ("urgent.py", (), {}),
              ("many.py", ("Mixed", "Many"), {}), ("capture.py", (), {}), ("links.py", (), {}),
              ("devices.py", (), {}))
