// SPDX-License-Identifier: GPL-2.0

//! Messages that are longer than the buffers of slots.
//!
//! They are rare, so that a channel has room for one in each direction, behind the buffers of its
//! slots. What does not fit the buffer of a receive slot goes to that room, whichever slot it is: if
//! another long message arrives before the first was handled, the end of the first is that of the
//! second. A long message that is sent has the room to itself until it is complete.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    ChannelOps,
    ReservedSlot,
    SendSlot, //
};
use crate::{
    bindings,
    kapi::compat::errno::ESHUTDOWN, //
};
use kernel::prelude::*;

impl<T: ChannelOps> SendSlot<T> {
    /// Makes the message of the slot the long one.
    ///
    /// # Safety
    ///
    /// The caller owns the slot `this`, which was built.
    unsafe fn begin_long(this: *mut Self, sge: bindings::ib_sge) {
        // SAFETY: `this` is valid and ours by this function's contract.
        unsafe {
            (*this).long = true;
            (*this).send_sge = sge;
            (*this).send.send_flags &= !bindings::ib_send_flags_IB_SEND_INLINE;
        }
    }

    /// Undoes [`Self::begin_long`], if that was done. Says whether it was.
    ///
    /// # Safety
    ///
    /// The caller owns the slot `this`, which was built.
    pub(super) unsafe fn end_long(this: *mut Self) -> bool {
        // SAFETY: `this` is valid and ours by this function's contract.
        unsafe {
            let long = core::mem::take(&mut (*this).long);
            if long {
                let (addr, flags) = (*this).short;
                (*this).send_sge.addr = addr;
                (*this).send.send_flags = flags;
            }
            long
        }
    }
}

impl<T: ChannelOps> ReservedSlot<T> {
    /// Posts a message that may be as long as the channel was made for. Otherwise as
    /// [`Self::post`].
    ///
    /// # Errors
    ///
    /// As of [`Self::post`]; besides, `EMSGSIZE` if it is too long, and `EBUSY` if another one is on
    /// its way: its completion tells when that is over.
    pub(crate) fn post_long(mut self, tag: T::Tag, msg: &[u8]) -> Result<(), (Error, T::Tag)> {
        let Some(slot) = self.channel.send_slot(self.index) else {
            return Err((EINVAL, tag));
        };
        let mut queue = self.channel.send.lock();
        let ready = (|| {
            let path = queue.path.as_ref().ok_or(ESHUTDOWN)?;
            if queue.long_out {
                return Err(EBUSY);
            }
            path.messages.put_long(msg, path.qp.pd().lkey())
        })();
        let sge = match ready {
            Ok(sge) => sge,
            Err(error) => return Err((error, tag)),
        };
        queue.long_out = true;
        // SAFETY: The handle owns the slot, which was built before the channel was opened.
        let chain = unsafe {
            SendSlot::set_message(slot, sge.length, None);
            SendSlot::begin_long(slot, sge);
            SendSlot::chain(slot, &self.channel.device, None, &[])
        };
        // SAFETY: The handle owns the slot. The path is there, so the slot is not being swept.
        unsafe { SendSlot::keep(slot, tag, None, true) };
        let posted = chain.and_then(|chain| {
            let path = queue.path.as_ref().ok_or(ESHUTDOWN)?;
            // SAFETY: A built request with a handler. The slot is part of the channel and the message
            // of the path, which both outlive the queue pair (see `Channel::shutdown`).
            unsafe { path.qp.post_send(chain) }.map_err(|(error, _)| error)
        });
        match posted {
            Ok(()) => {
                self.owned = false;
                queue.posted.push(self.index, true);
                drop(queue);
                self.channel.counters.on_post(&[]);
                Ok(())
            }
            Err(error) => {
                queue.long_out = false;
                // SAFETY: A single request was not posted, so the handle still owns the slot.
                let (_, (tag, _)) = unsafe { (SendSlot::end_long(slot), SendSlot::take(slot)) };
                drop(queue);
                match tag {
                    Some(tag) => Err((error, tag)),
                    None => Ok(()),
                }
            }
        }
    }
}
