// SPDX-License-Identifier: GPL-2.0

//! Locks, work items, timers and clocks: the parts of the kernel that every module needs.

pub(crate) mod alarm;
#[cfg(RDMA_SOFT)]
pub(crate) mod crc32;
pub(crate) mod module;
#[cfg(RDMA_SOFT)]
pub(crate) mod octets;
#[cfg(RDMA_SOFT)]
pub(crate) mod percpu;
pub(crate) mod sync;
pub(crate) mod time;
pub(crate) mod work;
