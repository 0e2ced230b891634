// SPDX-License-Identifier: GPL-2.0

//! Compiles if the kernel crate names the error codes of sockets.

#![no_std]

pub use kernel::error::code::{
    EADDRINUSE,
    EAFNOSUPPORT,
    EALREADY,
    ECANCELED,
    ECONNABORTED,
    ECONNREFUSED,
    ECONNRESET,
    EINPROGRESS,
    EISCONN,
    ENETDOWN,
    ENOBUFS,
    ENOPROTOOPT,
    ENOTCONN,
    EOPNOTSUPP,
    EPROTO,
    EPROTONOSUPPORT,
    ESHUTDOWN,
    ESOCKTNOSUPPORT, //
};
