// SPDX-License-Identifier: GPL-2.0

//! Socket options and other small values that pass between a program and a socket.
//!
//! C header: [`include/linux/sockptr.h`](srctree/include/linux/sockptr.h)

use super::socket::Socket;
use crate::{
    bindings,
    kapi::compat::errno::EOPNOTSUPP, //
};
use kernel::{
    bindings as kb,
    error::to_result,
    ffi,
    prelude::*, //
};

/// Options of all sockets.
pub(crate) const SOL_SOCKET: i32 = 1;
/// Options of TCP.
pub(crate) const SOL_TCP: i32 = 6;
/// Options of IPv6.
pub(crate) const SOL_IPV6: i32 = 41;
/// Options of SMC.
pub(crate) const SOL_SMC: i32 = 286;

/// One setsockopt() call.
///
/// # Invariants
///
/// `value` is memory of the caller with `len` octets, for the time of the call.
pub(crate) struct SetOpt {
    /// The level: `SOL_SOCKET`, `SOL_TCP` and so on.
    pub(crate) level: i32,
    /// The option.
    pub(crate) name: i32,
    pub(super) value: kb::sockptr_t,
    pub(super) len: u32,
}

impl SetOpt {
    /// The value as an `int`. Context: may sleep.
    pub(crate) fn read_int(&self) -> Result<i32> {
        let mut value = 0;
        // SAFETY: By the type invariants the value is the caller's, and checked by the function.
        to_result(unsafe {
            bindings::rdma_sock_helper_sockptr_int(
                &mut value,
                (&raw const self.value).cast(),
                self.len,
            )
        })?;
        Ok(value)
    }
}

/// One getsockopt() call.
///
/// # Invariants
///
/// `value` and `len` are the caller's, for the time of the call.
pub(crate) struct GetOpt {
    /// The level: `SOL_SOCKET`, `SOL_TCP` and so on.
    pub(crate) level: i32,
    /// The option.
    pub(crate) name: i32,
    pub(super) value: *mut ffi::c_char,
    pub(super) len: *mut ffi::c_int,
}

impl GetOpt {
    /// The room the caller has, in octets. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` for a bad address, `EINVAL` for a negative size.
    pub(crate) fn room(&self) -> Result<usize> {
        let mut room = 0;
        // SAFETY: The address is the user's and checked by the function.
        to_result(unsafe { bindings::rdma_sock_helper_get_user_int(&mut room, self.len) })?;
        usize::try_from(room).map_err(|_| EINVAL)
    }

    /// Gives the caller `octets`, cut to the room there is.
    pub(crate) fn write(&mut self, octets: &[u8]) -> Result {
        let mut room = 0;
        // SAFETY: The address is the user's and checked by the functions that access it.
        unsafe {
            to_result(bindings::rdma_sock_helper_get_user_int(&mut room, self.len))?;
            let len = octets.len().min(usize::try_from(room).map_err(|_| EINVAL)?);
            let int_len = i32::try_from(len).map_err(|_| EINVAL)?;
            to_result(bindings::rdma_sock_helper_put_user_int(int_len, self.len))?;
            if kb::copy_to_user(self.value.cast(), octets.as_ptr().cast(), len) != 0 {
                return Err(EFAULT);
            }
        }
        Ok(())
    }

    /// Replaces octets of what the caller was given, from `offset` on, as far as there is room.
    ///
    /// # Errors
    ///
    /// `EFAULT` for a bad address, `EINVAL` for a negative size.
    pub(crate) fn replace(&mut self, offset: usize, octets: &[u8]) -> Result {
        let len = octets.len().min(self.room()?.saturating_sub(offset));
        let to = self.value.wrapping_byte_add(offset);
        // SAFETY: The address is the user's and checked by the function.
        match unsafe { kb::copy_to_user(to.cast(), octets.as_ptr().cast(), len) } {
            0 => Ok(()),
            _ => Err(EFAULT),
        }
    }

    /// Gives the caller an `int`.
    pub(crate) fn write_int(&mut self, value: i32) -> Result {
        self.write(&value.to_ne_bytes())
    }
}

/// Writes an `int` to the address a program gave as the argument of an ioctl.
pub(crate) fn put_user_int(to: usize, value: i32) -> Result {
    // SAFETY: The address is the user's and checked by the function.
    to_result(unsafe { bindings::rdma_sock_helper_put_user_int(value, to as *mut ffi::c_int) })
}

impl Socket {
    /// setsockopt() of TCP, all levels.
    pub(crate) fn inet_setsockopt(&self, opt: &mut SetOpt) -> Result {
        // SAFETY: `SetOpt` holds what the caller gave.
        let value = unsafe { core::ptr::read(&opt.value) };
        if opt.level == SOL_SOCKET {
            // It comes here because the socket has `SOCK_CUSTOM_SOCKOPT`.
            // SAFETY: The socket is valid, the value is the caller's.
            return to_result(unsafe {
                bindings::rdma_sock_helper_sock_setsockopt(
                    self.as_raw().cast(),
                    opt.name,
                    (&raw const value).cast(),
                    opt.len,
                )
            });
        }
        let op = self.inet().setsockopt.ok_or(EOPNOTSUPP)?;
        // SAFETY: The socket is valid, the value is the caller's.
        to_result(unsafe { op(self.as_raw(), opt.level, opt.name, value, opt.len) })
    }

    /// getsockopt() of TCP, all levels.
    pub(crate) fn inet_getsockopt(&self, opt: &mut GetOpt) -> Result {
        let op = self.inet().getsockopt.ok_or(EOPNOTSUPP)?;
        // SAFETY: The socket is valid, the addresses are the user's.
        to_result(unsafe { op(self.as_raw(), opt.level, opt.name, opt.value, opt.len) })
    }
}
