// SPDX-License-Identifier: GPL-2.0

//! Memory that RDMA devices read and write.
