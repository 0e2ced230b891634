// SPDX-License-Identifier: GPL-2.0

//! Compiles against every kernel; if not, the build says why.

#![no_std]

pub use kernel::error::Error;
