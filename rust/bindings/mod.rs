// SPDX-License-Identifier: GPL-2.0

//! Generated bindings of the kernel's C interfaces; for `kapi` only.
//!
//! Each module has bindings of its own, with the names that its parts of `kapi` need. The kernel
//! crate binds a part of them; only the difference is generated here. The names below come first and
//! everything else is taken from the kernel crate, so a type known to both is one type. Functions and
//! macros that exist only in C headers are reached through `rdma_sock_helper_*` of `helpers_*.c`.

#![allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unknown_lints,
    unnecessary_transmutes,
    reason = "generated code"
)]

use kernel::ffi;

pub(crate) use kernel::bindings::*;

#[cfg(not(RDMA_SOFT))]
include!(concat!(env!("RDMA_SOCK_OBJ"), "/bindings_generated.rs"));
#[cfg(RDMA_SOFT)]
include!(concat!(
    env!("RDMA_SOCK_OBJ"),
    "/bindings_soft_generated.rs"
));
