// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the kernel: the only place with unsafe Rust, and knowing no protocol.

pub(crate) mod alarm;
pub(crate) mod mem;
pub(crate) mod module;
pub(crate) mod net;
pub(crate) mod rdma;
pub(crate) mod sync;
pub(crate) mod time;
pub(crate) mod work;
