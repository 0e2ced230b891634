// SPDX-License-Identifier: GPL-2.0

//! Error codes of sockets, which the kernel crate does not name in all versions.

#[cfg(kernel_has = "socket_errno")]
pub(crate) use kernel::error::code::{
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

#[cfg(not(kernel_has = "socket_errno"))]
mod own {
    use core::num::NonZeroI32;
    use kernel::{
        bindings,
        error::Error, //
    };

    /// Makes an error of a positive error code of C.
    ///
    /// The kernel crate offers no constant function for this.
    const fn error(errno: u32) -> Error {
        assert!(errno != 0 && errno <= bindings::MAX_ERRNO);
        #[allow(
            clippy::as_conversions,
            clippy::cast_possible_wrap,
            clippy::arithmetic_side_effects,
            reason = "at most MAX_ERRNO, and evaluated at build time"
        )]
        let Some(negative) = NonZeroI32::new(-(errno as i32)) else {
            panic!()
        };
        // SAFETY: The only field of `Error` is a `NonZeroI32`, and both types have the same size, or
        // this does not compile. The value is a negated error code, as the invariant of `Error` asks.
        unsafe { core::mem::transmute::<NonZeroI32, Error>(negative) }
    }

    macro_rules! errors {
        ($($name:ident $doc:literal)*) => {
            $(
                #[doc = $doc]
                pub(crate) const $name: Error = error(bindings::$name);
            )*
        };
    }

    errors! {
        EADDRINUSE "Address already in use."
        EAFNOSUPPORT "Address family not supported by protocol."
        EALREADY "Operation already in progress."
        ECANCELED "Operation canceled."
        ECONNABORTED "Software caused connection abort."
        ECONNREFUSED "Connection refused."
        ECONNRESET "Connection reset by peer."
        EINPROGRESS "Operation now in progress."
        EISCONN "Transport endpoint is already connected."
        ENETDOWN "Network is down."
        ENOBUFS "No buffer space available."
        ENOPROTOOPT "Protocol not available."
        ENOTCONN "Transport endpoint is not connected."
        EOPNOTSUPP "Operation not supported on transport endpoint."
        EPROTO "Protocol error."
        EPROTONOSUPPORT "Protocol not supported."
        ESHUTDOWN "Cannot send after transport endpoint shutdown."
        ESOCKTNOSUPPORT "Socket type not supported."
    }
}

#[cfg(not(kernel_has = "socket_errno"))]
pub(crate) use self::own::*;
