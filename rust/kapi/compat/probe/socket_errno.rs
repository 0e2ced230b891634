// SPDX-License-Identifier: GPL-2.0

//! Compiles if the kernel crate names the error codes of sockets.

#![no_std]

pub use kernel::error::code::{
    EAFNOSUPPORT,
    EALREADY,
    ECONNABORTED,
    ECONNRESET,
    EINPROGRESS,
    ENOBUFS,
    ENOPROTOOPT,
    ENOTCONN,
    EOPNOTSUPP,
    EPROTONOSUPPORT,
    ESHUTDOWN,
    ESOCKTNOSUPPORT, //
};
