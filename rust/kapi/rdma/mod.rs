// SPDX-License-Identifier: GPL-2.0

//! RDMA devices and verbs objects.
