// SPDX-License-Identifier: GPL-2.0

//! The arguments of socket calls: messages, addresses, the flags of accept.
//!
//! C header: [`include/linux/socket.h`](srctree/include/linux/socket.h)

use super::{
    addr::{
        Addr,
        AF_INET,
        AF_INET6, //
    },
    sock::SockGuard,
    socket::Socket, //
};
use crate::{
    bindings,
    kapi::compat::errno::EOPNOTSUPP, //
};
use core::{
    ffi::c_void,
    marker::PhantomData,
    slice, //
};
use kernel::{
    bindings as kb,
    error::to_result,
    iov::{
        IovIterDest,
        IovIterSource, //
    },
    prelude::*, //
};

/// `O_NONBLOCK`.
const O_NONBLOCK: i32 = 0o4000;

/// Flags of messages (`MSG_*`) that engines read.
pub(crate) mod flag {
    /// Do not wait.
    pub(crate) const DONTWAIT: u32 = 0x40;
}

/// A message a program sends.
///
/// # Invariants
///
/// `raw` is the message of a running `sendmsg` operation.
pub(crate) struct SendMsg<'a> {
    raw: *mut kb::msghdr,
    len: usize,
    _call: PhantomData<&'a mut kb::msghdr>,
}

/// A message a program wants to receive.
///
/// # Invariants
///
/// `raw` is the message of a running `recvmsg` operation.
pub(crate) struct RecvMsg<'a> {
    raw: *mut kb::msghdr,
    len: usize,
    flags: i32,
    _call: PhantomData<&'a mut kb::msghdr>,
}

impl SendMsg<'_> {
    /// # Safety
    ///
    /// To be called with the arguments of a `sendmsg` operation, for the time it runs.
    pub(super) unsafe fn new(raw: *mut kb::msghdr, len: usize) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            raw,
            len,
            _call: PhantomData,
        }
    }

    /// The message for C.
    pub(super) fn as_raw(&self) -> *mut kb::msghdr {
        self.raw
    }

    /// The octets of the whole message.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The flags of the call, see [`flag`].
    pub(crate) fn flags(&self) -> u32 {
        // SAFETY: By the type invariants.
        unsafe { (*self.raw).msg_flags }
    }

    /// Whether the call must not wait.
    pub(crate) fn nonblock(&self) -> bool {
        self.flags() & flag::DONTWAIT != 0
    }

    /// Undoes the taking of the last `count` octets.
    ///
    /// # Safety
    ///
    /// So many were taken.
    pub(in crate::kapi) unsafe fn give_back(&mut self, count: usize) {
        // SAFETY: By the type invariants and this function's contract.
        unsafe { bindings::rdma_sock_helper_iter_revert(&raw mut (*self.raw).msg_iter, count) };
    }

    /// What is left to send.
    pub(crate) fn iter(&mut self) -> &mut IovIterSource<'_> {
        // SAFETY: By the type invariants the iterator is valid and a source, and it is only used
        // through the mutable borrow of `self`.
        unsafe { IovIterSource::from_raw(&raw mut (*self.raw).msg_iter) }
    }
}

/// Notifies a sender that its pages are free: with MSG_ZEROCOPY by the error queue, io_uring by its
/// own callback. The drop of the last clone notifies.
///
/// # Invariants
///
/// `0` is a reference to a `ubuf_info`.
pub(crate) struct Notice(core::ptr::NonNull<bindings::ubuf_info>);

// SAFETY: References may be given back by any thread.
unsafe impl Send for Notice {}
// SAFETY: As for `Send`.
unsafe impl Sync for Notice {}

impl Notice {
    /// Makes one for a call that sends `len` octets. `None` without MSG_ZEROCOPY and io_uring's
    /// callback. Without SO_ZEROCOPY the flag has no meaning. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` when too many wait to be read.
    pub(crate) fn begin(
        guard: &SockGuard<'_>,
        msg: &SendMsg<'_>,
        len: usize,
    ) -> Result<Option<Self>> {
        // SAFETY: The sock is valid and locked, the message valid by its invariants.
        let uarg =
            unsafe { bindings::rdma_sock_helper_zerocopy_begin(guard.as_raw(), msg.raw, len) };
        // INVARIANT: The reference is handed over.
        Ok(core::ptr::NonNull::new(kernel::error::from_err_ptr(uarg)?).map(Self))
    }

    /// All octets were copied. Context: any.
    pub(crate) fn copied(self) {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: By the type invariants; the reference is given up.
        unsafe { bindings::rdma_sock_helper_zerocopy_put(this.0.as_ptr(), false) }
    }

    /// Takes the notification back, as the call took no octets. No clone of it may exist.
    /// Context: may sleep.
    pub(crate) fn abort(self) {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: By the type invariants; the reference is given up.
        unsafe { bindings::rdma_sock_helper_zerocopy_abort(this.0.as_ptr()) }
    }
}

impl Clone for Notice {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_zerocopy_get(self.0.as_ptr()) };
        // INVARIANT: The reference just taken.
        Self(self.0)
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; the reference is given up.
        unsafe { bindings::rdma_sock_helper_zerocopy_put(self.0.as_ptr(), true) }
    }
}

impl RecvMsg<'_> {
    /// # Safety
    ///
    /// To be called with the arguments of a `recvmsg` operation, for the time it runs.
    pub(super) unsafe fn new(raw: *mut kb::msghdr, len: usize, flags: i32) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            raw,
            len,
            flags,
            _call: PhantomData,
        }
    }

    /// The message for C.
    pub(super) fn as_raw(&self) -> *mut kb::msghdr {
        self.raw
    }

    /// How many octets the caller has room for.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The flags of the call, see [`flag`].
    pub(crate) fn flags(&self) -> u32 {
        self.flags as u32
    }

    /// Whether the call must not wait.
    pub(crate) fn nonblock(&self) -> bool {
        self.flags() & flag::DONTWAIT != 0
    }

    /// The room that is left.
    pub(crate) fn iter(&mut self) -> &mut IovIterDest<'_> {
        // SAFETY: By the type invariants the iterator is valid and a destination, and it is only
        // used through the mutable borrow of `self`.
        unsafe { IovIterDest::from_raw(&raw mut (*self.raw).msg_iter) }
    }

    /// Gives the caller flags of the message, see [`flag`].
    pub(crate) fn set_flags(&mut self, flags: u32) {
        // SAFETY: By the type invariants.
        unsafe { (*self.raw).msg_flags |= flags }
    }

    /// Copies `octets` to the caller. Context: may sleep.
    pub(crate) fn put(&mut self, octets: &[u8]) -> Result {
        match self.iter().copy_to_iter(octets) {
            count if count == octets.len() => Ok(()),
            _ => Err(EFAULT),
        }
    }

    /// Tells the caller that the message has no address.
    pub(crate) fn clear_name(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { (*self.raw).msg_namelen = 0 }
    }
}

impl Socket {
    /// sendmsg() of TCP.
    pub(crate) fn inet_sendmsg(&self, msg: &mut SendMsg<'_>) -> Result<usize> {
        let op = self.inet().sendmsg.ok_or(EOPNOTSUPP)?;
        // SAFETY: The socket is valid, the message by its invariants.
        let ret = unsafe { op(self.as_raw(), msg.raw, msg.len) };
        to_result(ret)?;
        Ok(usize::try_from(ret).unwrap_or(0))
    }

    /// recvmsg() of TCP.
    pub(crate) fn inet_recvmsg(&self, msg: &mut RecvMsg<'_>) -> Result<usize> {
        let op = self.inet().recvmsg.ok_or(EOPNOTSUPP)?;
        // SAFETY: The socket is valid, the message by its invariants.
        let ret = unsafe { op(self.as_raw(), msg.raw, msg.len, msg.flags) };
        to_result(ret)?;
        Ok(usize::try_from(ret).unwrap_or(0))
    }

    /// What a send that failed with `err` ends with: raises SIGPIPE for `EPIPE` unless the flags of
    /// the message say otherwise, and prefers a pending error of the sock.
    pub(crate) fn stream_error(&self, flags: u32, err: Error) -> Error {
        // SAFETY: The sock is valid.
        let errno =
            unsafe { bindings::sk_stream_error(self.sk().as_raw(), flags as i32, err.to_errno()) };
        to_result(errno).err().unwrap_or(err)
    }
}

/// An address a program gives.
///
/// # Invariants
///
/// `raw` is kernel memory with `len` octets, for the time of the call.
pub(crate) struct Name {
    pub(super) raw: *mut kb::sockaddr_unsized,
    pub(super) len: i32,
}

impl Name {
    fn octets(&self) -> &[u8] {
        let len = usize::try_from(self.len).unwrap_or(0);
        // SAFETY: By the type invariants.
        unsafe { slice::from_raw_parts(self.raw.cast::<u8>(), len) }
    }

    /// The address family, if the address is long enough to have one.
    pub(crate) fn family(&self) -> Option<u16> {
        self.octets().first_chunk().map(|f| u16::from_ne_bytes(*f))
    }

    /// Replaces an address family that stands for another one, as `aliases` has them.
    pub(super) fn replace_family(&mut self, aliases: &[(u16, u16)]) {
        let family = self.family();
        let alias = aliases.iter().find(|(alias, _)| Some(*alias) == family);
        if let Some((_, meant)) = alias {
            // SAFETY: By the type invariants; the address has as many octets, as it has a family.
            unsafe { self.raw.cast::<u16>().write_unaligned(*meant) };
        }
    }

    /// A copy that outlives the call.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is longer than any address.
    pub(crate) fn to_owned(&self) -> Result<OwnedName> {
        let from = self.octets();
        let mut octets = [0; NAME_ROOM];
        let room = octets.get_mut(..from.len()).ok_or(EINVAL)?;
        room.copy_from_slice(from);
        Ok(OwnedName {
            octets,
            len: self.len,
        })
    }
}

/// Octets that any socket address fits in.
const NAME_ROOM: usize = 128;

/// A copy of an address that a program gave.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct OwnedName {
    octets: [u8; NAME_ROOM],
    len: i32,
}

impl OwnedName {
    /// The pointer and the length for C.
    pub(super) fn as_raw(&mut self) -> (*mut c_void, i32) {
        (self.octets.as_mut_ptr().cast(), self.len)
    }

    /// The address, if it is one of IPv4 or IPv6.
    pub(crate) fn addr(&self) -> Option<Addr> {
        let len = usize::try_from(self.len).ok()?;
        let (family, rest) = self.octets.get(..len)?.split_first_chunk()?;
        let (port, rest) = rest.split_first_chunk()?;
        let port = u16::from_be_bytes(*port);
        match u16::from_ne_bytes(*family) {
            AF_INET => Some(Addr::V4 {
                ip: *rest.first_chunk()?,
                port,
            }),
            AF_INET6 => {
                let (_flow, rest) = rest.split_first_chunk::<4>()?;
                let (ip, rest) = rest.split_first_chunk()?;
                let scope = rest
                    .first_chunk()
                    .map_or(0, |scope| u32::from_ne_bytes(*scope));
                Some(Addr::V6 {
                    ip: *ip,
                    port,
                    scope,
                })
            }
            _ => None,
        }
    }
}

/// Room for an address a program asks for.
///
/// # Invariants
///
/// `raw` has room for a `struct sockaddr_storage`, for the time of the call.
pub(crate) struct NameBuf {
    pub(super) raw: *mut kb::sockaddr,
}

impl NameBuf {}

/// The arguments of accept().
///
/// # Invariants
///
/// `raw` is the argument of a running `accept` operation.
pub(crate) struct AcceptArg {
    pub(super) raw: *mut kb::proto_accept_arg,
}

impl AcceptArg {
    /// Whether the call must not wait.
    pub(crate) fn nonblock(&self) -> bool {
        // SAFETY: By the type invariants.
        let flags = unsafe { bindings::rdma_sock_helper_accept_flags(self.raw.cast()) };
        flags & O_NONBLOCK != 0
    }
}

/// The flags of connect().
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectFlags(pub(super) i32);

impl ConnectFlags {
    /// Whether the call must not wait.
    pub(crate) fn nonblock(self) -> bool {
        self.0 & O_NONBLOCK != 0
    }

    /// As TCP's own connect wants them.
    pub(crate) fn raw(self) -> i32 {
        self.0
    }

    /// The same without waiting.
    pub(crate) fn with_nonblock(self) -> Self {
        Self(self.0 | O_NONBLOCK)
    }
}
