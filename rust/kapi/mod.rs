// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the kernel: the only place with unsafe Rust, and knowing no protocol.

pub(crate) mod base;
pub(crate) mod compat;
pub(crate) mod mem;
pub(crate) mod net;
pub(crate) mod verbs;
