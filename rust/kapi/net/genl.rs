// SPDX-License-Identifier: GPL-2.0

//! The generic netlink family of SMC, whose table of commands is in C.
//!
//! C header: [`include/net/genetlink.h`](srctree/include/net/genetlink.h)

use super::{
    netlink::{
        is_registered,
        Dump,
        Progress, //
    },
    netns::Net, //
};
use crate::bindings;
use core::{
    marker::PhantomData,
    slice, //
};
use kernel::{
    bindings as kb,
    error::{
        from_result,
        to_result, //
    },
    ffi,
    prelude::*, //
};

/// What answers the commands of the family.
pub(crate) trait Commands: 'static {
    /// Puts replies into a piece of a dump, from the cursor on. Each user may ask. The first piece is
    /// made with a lock held that keeps families from coming and going. Context: may sleep.
    fn dump(command: u8, dump: &mut Dump) -> Result<Progress>;

    /// Changes something in a namespace, as its administrator wants. `value` is the first attribute.
    /// The same lock is held. Context: may sleep.
    fn change(command: u8, net: &Net, value: Option<&[u8]>) -> Result;
}

/// The registered family.
pub(crate) struct FamilyOfCommands<T: Commands>(PhantomData<T>);

impl<T: Commands> FamilyOfCommands<T> {
    /// Registers the family; `None` if another module has its name. Context: may sleep.
    pub(crate) fn new() -> Result<Option<Self>> {
        // SAFETY: The functions are ones for the family.
        let result = to_result(unsafe {
            bindings::rdma_sock_helper_genl_register(Some(dump::<T>), Some(change::<T>))
        });
        Ok(is_registered(result, EEXIST)?.then(|| Self(PhantomData)))
    }
}

impl<T: Commands> Drop for FamilyOfCommands<T> {
    fn drop(&mut self) {
        // SAFETY: It is registered.
        unsafe { bindings::rdma_sock_helper_genl_unregister() }
    }
}

/// # Safety
///
/// Called by the core for a dump of the family.
unsafe extern "C" fn dump<T: Commands>(
    skb: *mut kb::sk_buff,
    cb: *mut bindings::netlink_callback,
) -> ffi::c_int {
    // SAFETY: By this function's contract.
    unsafe {
        let command = bindings::rdma_sock_helper_genl_command(cb);
        Dump::run(skb, cb, put, |dump| T::dump(command, dump))
    }
}

/// # Safety
///
/// The pointers are those of a dump of the family.
unsafe fn put(
    skb: *mut kb::sk_buff,
    cb: *mut bindings::netlink_callback,
    command: u8,
    body: &[u8],
) -> ffi::c_int {
    // SAFETY: By this function's contract; the body is valid for its length.
    unsafe {
        bindings::rdma_sock_helper_genl_put(skb, cb, command, body.as_ptr().cast(), body.len())
    }
}

/// # Safety
///
/// Called by C with a namespace, and with a value of `len` octets or null.
unsafe extern "C" fn change<T: Commands>(
    net: *mut kb::net,
    command: u8,
    value: *const ffi::c_void,
    len: usize,
) -> ffi::c_int {
    from_result(|| {
        let value = if value.is_null() {
            None
        } else {
            // SAFETY: By this function's contract; the request is a copy that does not change.
            Some(unsafe { slice::from_raw_parts(value.cast::<u8>(), len) })
        };
        // SAFETY: By this function's contract. `Net` is transparent.
        T::change(command, unsafe { &*net.cast::<Net>() }, value).map(|()| 0)
    })
}
