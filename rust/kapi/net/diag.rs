// SPDX-License-Identifier: GPL-2.0

//! sock_diag: lists the sockets of a family for tools.
//!
//! C header: [`include/linux/sock_diag.h`](srctree/include/linux/sock_diag.h)

use super::{
    netlink::{
        is_registered,
        Dump,
        Progress, //
    },
    sock::Sock, //
};
use crate::bindings;
use core::marker::PhantomData;
use kernel::{
    bindings as kb,
    error::to_result,
    ffi,
    prelude::*, //
};

/// What lists the sockets of a family.
pub(crate) trait SocketLister: 'static {
    /// The address family.
    const FAMILY: u8;

    /// Puts sockets into a piece of a dump, from the cursor on. Each user may ask.
    /// Context: may sleep.
    fn list(dump: &mut Dump) -> Result<Progress>;
}

/// A registered [`SocketLister`]. There is one at a time.
pub(crate) struct DiagRegistration<T: SocketLister>(PhantomData<T>);

impl<T: SocketLister> DiagRegistration<T> {
    /// Registers it; `None` if another module lists the sockets of the family.
    /// Context: may sleep.
    pub(crate) fn new() -> Result<Option<Self>> {
        // SAFETY: The function is one for dumps.
        let result = to_result(unsafe {
            bindings::rdma_sock_helper_diag_register(T::FAMILY, Some(dump::<T>))
        });
        Ok(is_registered(result, EBUSY)?.then(|| Self(PhantomData)))
    }
}

impl<T: SocketLister> Drop for DiagRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: It is registered.
        unsafe { bindings::rdma_sock_helper_diag_unregister() }
    }
}

/// # Safety
///
/// Called by the core for a dump.
unsafe extern "C" fn dump<T: SocketLister>(
    skb: *mut kb::sk_buff,
    cb: *mut bindings::netlink_callback,
) -> ffi::c_int {
    // SAFETY: By this function's contract.
    unsafe { Dump::run(skb, cb, put, T::list) }
}

/// # Safety
///
/// The pointers are those of a dump.
unsafe fn put(
    skb: *mut kb::sk_buff,
    cb: *mut bindings::netlink_callback,
    _command: u8,
    body: &[u8],
) -> ffi::c_int {
    // SAFETY: By this function's contract; the body is valid for its length.
    unsafe { bindings::rdma_sock_helper_diag_put(skb, cb, body.as_ptr().cast(), body.len()) }
}

impl Sock {
    /// A number unlike that of any other socket. Context: any.
    pub(crate) fn cookie(&self) -> u64 {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_sk_cookie(self.as_raw()) }
    }

    /// The network device that the socket is bound to, or 0. Context: any.
    pub(crate) fn bound_ifindex(&self) -> u32 {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_sk_bound(self.as_raw()) }
    }

    /// What is shut down: receiving (1), sending (2). Context: any.
    pub(crate) fn shutdown_bits(&self) -> u8 {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_sk_shutdown(self.as_raw()) }
    }
}
