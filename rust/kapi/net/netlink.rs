// SPDX-License-Identifier: GPL-2.0

//! Dumps on netlink: answers of many messages, given in pieces as the reader takes them.
//!
//! A dump keeps the module loaded until it is over. It goes on in calls of the reader, under a mutex
//! of the reader's own socket: a stall here delays that socket alone.
//!
//! C header: [`include/linux/netlink.h`](srctree/include/linux/netlink.h)

use super::{
    netns::Net,
    sock::Sock, //
};
use crate::bindings;
use core::slice;
use kernel::{
    bindings as kb,
    error::{
        from_result,
        to_result, //
    },
    ffi,
    prelude::*, //
};

/// The result of a registration: false if the error is `taken`, by which the core says that another
/// module has the place.
pub(super) fn is_registered(result: Result, taken: Error) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error == taken => Ok(false),
        Err(error) => Err(error),
    }
}

/// How a piece of a dump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// That was all.
    Done,
    /// The buffer is full: there is more.
    Full,
}

/// A piece of a dump.
///
/// # Invariants
///
/// Both pointers are valid for the life of this object, which alone uses them.
pub(crate) struct Dump {
    skb: *mut kb::sk_buff,
    cb: *mut bindings::netlink_callback,
    put: Put,
}

/// Appends a message: of a command if the family has such.
type Put = unsafe fn(*mut kb::sk_buff, *mut bindings::netlink_callback, u8, &[u8]) -> ffi::c_int;

impl Dump {
    /// Runs `f` for a piece of a dump. The result is what the core expects of a dump.
    ///
    /// # Safety
    ///
    /// The core called a dump with these pointers. `put` accepts them.
    pub(super) unsafe fn run(
        skb: *mut kb::sk_buff,
        cb: *mut bindings::netlink_callback,
        put: Put,
        f: impl FnOnce(&mut Dump) -> Result<Progress>,
    ) -> ffi::c_int {
        // INVARIANT: By this function's contract, for the time of the call.
        let mut dump = Dump { skb, cb, put };
        from_result(|| match f(&mut dump)? {
            Progress::Done => Ok(0),
            // A message that does not fit in an empty buffer never will.
            Progress::Full if dump.len() == 0 => Err(EMSGSIZE),
            Progress::Full => Ok(ffi::c_int::try_from(dump.len())?),
        })
    }

    /// The network namespace of the socket that asked.
    pub(crate) fn net(&self) -> &Net {
        // SAFETY: By the type invariants; a socket has a namespace, and `Net` is transparent.
        unsafe { &*bindings::rdma_sock_helper_dump_net(self.cb).cast::<Net>() }
    }

    /// The body of the request.
    pub(crate) fn request(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: By the type invariants. The core keeps the request for the dump and has checked
        // its length; its octets do not change.
        unsafe {
            let data = bindings::rdma_sock_helper_dump_request(self.cb, &mut len);
            slice::from_raw_parts(data.cast(), len)
        }
    }

    /// A number that the dump keeps from one piece to the next; 0 at its start.
    pub(crate) fn place(&mut self) -> &mut u64 {
        // SAFETY: By the type invariants. The helper's memory has room for it, and is aligned.
        unsafe { &mut *bindings::rdma_sock_helper_dump_place(self.cb) }
    }

    /// The user of a sock as the reader knows it.
    pub(crate) fn uid(&self, sk: &Sock) -> u32 {
        // SAFETY: By the type invariants; the sock is valid.
        unsafe { bindings::rdma_sock_helper_dump_uid(self.cb, sk.as_raw()) }
    }

    /// Octets in the buffer.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_skb_len(self.skb) }
    }

    /// Takes messages back, down to a former [`Self::len`].
    pub(crate) fn cut(&mut self, len: usize) {
        // SAFETY: By the type invariants; the helper only ever shortens.
        unsafe { bindings::rdma_sock_helper_skb_cut(self.skb, len) }
    }

    /// Appends a message.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the buffer is full.
    pub(crate) fn put(&mut self, command: u8, body: &[u8]) -> Result {
        // SAFETY: By the type invariants, and by the contract of `run` for the function.
        to_result(unsafe { (self.put)(self.skb, self.cb, command, body) })
    }
}
