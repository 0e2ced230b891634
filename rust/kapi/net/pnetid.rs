// SPDX-License-Identifier: GPL-2.0

//! The generic netlink family of the table of physical networks, whose table of commands is in C.
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
    ptr::NonNull, //
};
use kernel::{
    bindings as kb,
    error::{
        from_result,
        to_result, //
    },
    ffi,
    prelude::*,
    str::CStrExt, //
};

/// The attributes of a request, as they came.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The id.
    pub(crate) id: Option<&'a [u8]>,
    /// The name of a network device.
    pub(crate) netdev: Option<&'a [u8]>,
    /// The name of an RDMA device.
    pub(crate) device: Option<&'a [u8]>,
    /// A port of it.
    pub(crate) port: Option<u8>,
}

/// What answers the commands of the family. Context: may sleep.
pub(crate) trait PnetCommands: 'static {
    /// Puts entries into a piece of a dump, from the cursor on. Each user may ask.
    fn dump(dump: &mut Dump) -> Result<Progress>;

    /// Puts the entries of an id into one reply. Each user may ask.
    fn find(net: &Net, id: &[u8], reply: &mut Reply) -> Result;

    /// Changes the table of a namespace, as the administrator of the host wants.
    fn change(command: u8, net: &Net, request: &Request<'_>) -> Result;
}

/// A reply that is being put together.
///
/// # Invariants
///
/// The pointer is the context of a reply, valid for the life of this object.
pub(crate) struct Reply(NonNull<ffi::c_void>);

impl Reply {
    /// Appends a message.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the buffer is full.
    pub(crate) fn put(&mut self, body: &[u8]) -> Result {
        // SAFETY: By the type invariants; the body is valid for its length.
        to_result(unsafe {
            bindings::rdma_sock_helper_pnetid_reply(
                self.0.as_ptr(),
                body.as_ptr().cast(),
                body.len(),
            )
        })
    }
}

/// The registered family.
pub(crate) struct FamilyOfPnets<T: PnetCommands>(PhantomData<T>);

impl<T: PnetCommands> FamilyOfPnets<T> {
    /// Registers the family; `None` if another module has its name. Context: may sleep.
    pub(crate) fn new() -> Result<Option<Self>> {
        // SAFETY: The functions are ones for the family.
        let result = to_result(unsafe {
            bindings::rdma_sock_helper_pnetid_register(
                Some(dump::<T>),
                Some(find::<T>),
                Some(change::<T>),
            )
        });
        Ok(is_registered(result, EEXIST)?.then(|| Self(PhantomData)))
    }
}

impl<T: PnetCommands> Drop for FamilyOfPnets<T> {
    fn drop(&mut self) {
        // SAFETY: It is registered.
        unsafe { bindings::rdma_sock_helper_pnetid_unregister() }
    }
}

/// # Safety
///
/// Called by the core for a dump of the family.
unsafe extern "C" fn dump<T: PnetCommands>(
    skb: *mut kb::sk_buff,
    cb: *mut bindings::netlink_callback,
) -> ffi::c_int {
    // SAFETY: By this function's contract.
    unsafe { Dump::run(skb, cb, put, |dump| T::dump(dump)) }
}

/// # Safety
///
/// The pointers are those of a dump of the family.
unsafe fn put(
    skb: *mut kb::sk_buff,
    cb: *mut bindings::netlink_callback,
    _command: u8,
    body: &[u8],
) -> ffi::c_int {
    // SAFETY: By this function's contract; the body is valid for its length.
    unsafe { bindings::rdma_sock_helper_pnetid_put(skb, cb, body.as_ptr().cast(), body.len()) }
}

/// # Safety
///
/// `text` is null or a string with a nul, which does not change in `'a`.
unsafe fn octets<'a>(text: *const ffi::c_char) -> Option<&'a [u8]> {
    // SAFETY: By this function's contract.
    (!text.is_null()).then(|| unsafe { <CStr as CStrExt>::from_char_ptr(text) }.to_bytes())
}

/// # Safety
///
/// Called by C with a namespace, a string with a nul, and a reply.
unsafe extern "C" fn find<T: PnetCommands>(
    net: *mut kb::net,
    id: *const ffi::c_char,
    reply: *mut ffi::c_void,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: By this function's contract; the request is a copy that does not change.
        let id = unsafe { octets(id) }.ok_or(EINVAL)?;
        // INVARIANT: By this function's contract, for the time of the call.
        let mut reply = Reply(NonNull::new(reply).ok_or(EINVAL)?);
        // SAFETY: By this function's contract. `Net` is transparent.
        T::find(unsafe { &*net.cast::<Net>() }, id, &mut reply).map(|()| 0)
    })
}

/// # Safety
///
/// Called by C with a namespace; each other pointer is null, or valid: `port` for an octet, the
/// others as a string with a nul.
unsafe extern "C" fn change<T: PnetCommands>(
    net: *mut kb::net,
    command: u8,
    id: *const ffi::c_char,
    netdev: *const ffi::c_char,
    device: *const ffi::c_char,
    port: *const u8,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: By this function's contract; the request is a copy that does not change.
        let request = unsafe {
            Request {
                id: octets(id),
                netdev: octets(netdev),
                device: octets(device),
                port: port.as_ref().copied(),
            }
        };
        // SAFETY: By this function's contract. `Net` is transparent.
        T::change(command, unsafe { &*net.cast::<Net>() }, &request).map(|()| 0)
    })
}
