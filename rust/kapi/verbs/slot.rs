// SPDX-License-Identifier: GPL-2.0

//! The work requests of a channel: what is posted, and what happens when it completes.
//!
//! A send slot is a chain of RDMA writes and the message behind them, posted at once, or one request: a
//! read (`slot/single.rs`), or a message that is gathered (`slot/gather.rs`). Only the last request is
//! ever signalled: requests complete in order, so when it is done, all are. For the same reason not every
//! message is: a completion stands for all slots that were posted before, which come back in that order.
//!
//! A slot has one owner at a time: the free list of the channel, a [`ReservedSlot`] handle, or the device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

pub(super) mod gather;
mod long;
pub(super) mod single;
mod writes;

use self::writes::SlotWrites;
pub(super) use self::writes::WriteRequests;

use super::{
    channel::{
        Channel,
        ChannelOps, //
    },
    device::Device,
    messages::Messages,
    posted::Posted,
    qp::Qp,
    read::ReadBuffer,
    sendbuf::SendMapping,
    user_pages::LentMemory,
    wc::WcStatus, //
};
use crate::{
    bindings,
    kapi::compat::errno::ESHUTDOWN, //
};
use core::{
    cell::UnsafeCell,
    mem::ManuallyDrop,
    ptr::null_mut, //
};
use kernel::{
    container_of,
    prelude::*,
    sync::Arc, //
};

/// Slots whose users are told at once.
const TOLD_AT_ONCE: usize = 8;

/// What the writes of a slot are read from, or the payload of its message.
#[derive(Clone)]
pub(crate) enum WriteSource {
    /// A send buffer.
    Buffer(Arc<SendMapping>),
    /// What a program has lent.
    Lent(Arc<LentMemory>),
}

impl WriteSource {
    /// Whether both are the same memory.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Buffer(this), Self::Buffer(other)) => Arc::ptr_eq(this, other),
            (Self::Lent(this), Self::Lent(other)) => Arc::ptr_eq(this, other),
            _ => false,
        }
    }

    /// Calls `f` with the addresses and sizes of the pieces that hold the `len` octets at `off`, and
    /// hands them to the device.
    fn for_device(
        &self,
        dev: &Arc<Device>,
        off: usize,
        len: u32,
        f: impl FnMut(u64, u32) -> Result,
    ) -> Result {
        let size = usize::try_from(len)?;
        match self {
            Self::Buffer(buffer) => buffer.for_device(dev, off, size, f),
            Self::Lent(lent) => lent.for_device(dev, off, size, f),
        }
    }
}

/// What a slot keeps until its requests are complete.
pub(super) enum Kept {
    /// What writes are read from.
    Source(#[expect(dead_code, reason = "kept for the device")] WriteSource),
    /// The sources of the payload of a message.
    Gathered(#[expect(dead_code, reason = "kept for the device")] [Option<WriteSource>; 2]),
    /// What a read is written to.
    Sink(#[expect(dead_code, reason = "kept for the device")] Arc<ReadBuffer>),
}

/// The message of a chain.
#[derive(Clone, Copy)]
pub(crate) struct SlotMessage<'a> {
    octets: &'a [u8],
    invalidate: Option<u32>,
}

impl<'a> SlotMessage<'a> {
    /// A message that invalidates a key of the peer, which sees that in [`Received::invalidated`].
    ///
    /// [`Received::invalidated`]: super::recv::Received::invalidated
    pub(crate) fn invalidating(octets: &'a [u8], rkey: u32) -> Self {
        Self {
            octets,
            invalidate: Some(rkey),
        }
    }
}

impl<'a> From<&'a [u8]> for SlotMessage<'a> {
    fn from(octets: &'a [u8]) -> Self {
        Self {
            octets,
            invalidate: None,
        }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for SlotMessage<'a> {
    fn from(octets: &'a [u8; N]) -> Self {
        octets.as_slice().into()
    }
}

/// An RDMA write from a [`WriteSource`] into the memory of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RdmaWrite {
    /// Where it starts in the source.
    pub(crate) offset: u32,
    /// Octets.
    pub(crate) len: u32,
    /// Key of the peer's memory.
    pub(crate) rkey: u32,
    /// Address in the peer's memory.
    pub(crate) raddr: u64,
}

/// The sending side of an open channel.
pub(super) struct SendPath {
    pub(super) qp: Arc<Qp>,
    pub(super) messages: Messages,
    /// Octets of the longest message in the buffer of a slot.
    pub(super) inline: u32,
}

/// The sending side of a channel, under its lock.
pub(super) struct SendQueue {
    /// Nothing is posted when it is not there.
    pub(super) path: Option<SendPath>,
    /// Slots nobody owns. Never grows beyond its capacity.
    pub(super) free: KVec<u16>,
    /// Slots that the device owns.
    pub(super) posted: Posted,
    /// Somebody did not get a slot.
    pub(super) wanted: bool,
    /// A long message is on its way.
    pub(super) long_out: bool,
}

impl SendQueue {
    /// A queue of `slots` free slots, of which a run of `max_unsignalled` may be unsignalled. Context:
    /// may sleep.
    pub(super) fn new(slots: u16, max_unsignalled: u16) -> Result<Self> {
        let mut free = KVec::with_capacity(slots.into(), GFP_KERNEL)?;
        for index in 0..slots {
            free.push(index, GFP_KERNEL)?;
        }
        Ok(Self {
            path: None,
            free,
            posted: Posted::new(slots.into(), max_unsignalled.into())?,
            wanted: false,
            long_out: false,
        })
    }

    /// Whether the message that is posted next must be signalled for the sake of other slots. `last`:
    /// the next handle of its kind would not have got a slot. With few slots those that are kept for
    /// others may be half of them. Then the last one of the rest is signalled: the next handle waits
    /// for it.
    fn must_signal(&self, last: bool) -> bool {
        let last = last && !self.posted.will_tell();
        last || self.wanted || self.posted.must_signal()
    }

    /// Takes a slot back that was not posted. Says whether somebody wants to know: when slots are
    /// posted that tell of their completion, the next of them will do.
    fn give_back_unused(&mut self, index: u16) -> bool {
        self.give_back(index);
        !self.posted.will_tell() && self.is_news()
    }

    /// Takes a slot back.
    fn give_back(&mut self, index: u16) {
        let fits = self.free.push_within_capacity(index).is_ok();
        debug_assert!(fits);
    }

    /// Whether somebody wants to know of a slot that came back; said once.
    fn is_news(&mut self) -> bool {
        core::mem::take(&mut self.wanted) && self.path.is_some()
    }
}

/// Work requests of a send slot.
pub(super) struct SendSlot<T: ChannelOps> {
    sent: bindings::ib_cqe,
    wrote: bindings::ib_cqe,
    writes: SlotWrites,
    send: bindings::ib_send_wr,
    send_sge: bindings::ib_sge,
    /// Address of the buffer and flags of `send`, for messages that fit it.
    short: (u64, i32),
    /// The message is the long one.
    long: bool,
    channel: *const Channel<T>,
    index: u16,
    tag: Option<T::Tag>,
    kept: Option<Kept>,
    /// The message tells of its completion.
    signal: bool,
}

impl<T: ChannelOps> SendSlot<T> {
    /// `slots` slots without their requests. Context: may sleep.
    pub(super) fn new(slots: u16) -> Result<KVVec<UnsafeCell<Self>>> {
        let mut all = KVVec::with_capacity(slots.into(), GFP_KERNEL)?;
        for index in 0..slots {
            let slot = UnsafeCell::new(Self {
                sent: bindings::ib_cqe {
                    done: Some(sent_raw::<T>),
                },
                wrote: bindings::ib_cqe {
                    done: Some(wrote_raw::<T>),
                },
                writes: SlotWrites::NONE,
                send: Default::default(),
                send_sge: Default::default(),
                short: Default::default(),
                long: false,
                channel: null_mut(),
                index,
                tag: None,
                kept: None,
                signal: false,
            });
            all.push(slot, GFP_KERNEL)?;
        }
        Ok(all)
    }

    /// Builds the requests, once the slot is at its place.
    ///
    /// # Safety
    ///
    /// `this` is valid, does not move, has no other user and is part of `channel`. So are `writes`,
    /// which belong to no other slot.
    pub(super) unsafe fn build(
        this: *mut Self,
        channel: *const Channel<T>,
        path: &SendPath,
        writes: SlotWrites,
        lkey: u32,
    ) -> Result {
        let inline = path.qp.can_inline(path.inline);
        let mut flags = bindings::ib_send_flags_IB_SEND_SOLICITED;
        if inline {
            flags |= bindings::ib_send_flags_IB_SEND_INLINE;
        }
        // SAFETY: `this` is valid and ours alone by this function's contract.
        unsafe {
            (*this).channel = channel;
            (*this).writes = writes;
            for at in 0..writes.max_sges {
                (*writes.sges.add(at)).lkey = lkey;
            }
            for at in 0..writes.max_wrs {
                let write = writes.wrs.add(at);
                (*write).wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
                (*write).wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(&raw mut (*this).wrote);
            }
            (*this).send.opcode = bindings::ib_wr_opcode_IB_WR_SEND;
            (*this).send.send_flags = flags;
            (*this).send.num_sge = 1;
            (*this).send.sg_list = &raw mut (*this).send_sge;
            (*this).send.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(&raw mut (*this).sent);
            (*this).send_sge = path.messages.sge((*this).index, lkey)?;
            if inline {
                (*this).send_sge.addr = path.messages.cpu_addr((*this).index)?;
            }
            (*this).short = ((*this).send_sge.addr, flags);
        }
        Ok(())
    }

    /// Fills in a chain and returns its first request.
    ///
    /// # Safety
    ///
    /// The caller owns the slot `this`, which was built.
    unsafe fn chain(
        this: *mut Self,
        device: &Arc<Device>,
        source: Option<&WriteSource>,
        writes: &[RdmaWrite],
    ) -> Result<*const bindings::ib_send_wr> {
        // SAFETY: `this` is valid and ours by this function's contract.
        let (mut next, room) = unsafe { (&raw mut (*this).send, (*this).writes) };
        if writes.len() > room.max_wrs {
            return Err(EINVAL);
        }
        let mut used = 0;
        // From the last to the first, so that each can point to its successor.
        for (at, write) in writes.iter().enumerate().rev() {
            let source = source.ok_or(EINVAL)?;
            let off = usize::try_from(write.offset).map_err(|_| EINVAL)?;
            let first = used;
            source.for_device(device, off, write.len, |addr, len| {
                if used >= room.max_sges {
                    return Err(EINVAL);
                }
                // SAFETY: As above; there are `max_sges`.
                unsafe {
                    let sge = room.sges.add(used);
                    (*sge).addr = addr;
                    (*sge).length = len;
                }
                used += 1;
                Ok(())
            })?;
            // SAFETY: As above; `at` is less than `max_wrs` by the check.
            unsafe {
                let wr = room.wrs.add(at);
                (*wr).remote_addr = write.raddr;
                (*wr).rkey = write.rkey;
                (*wr).wr.sg_list = room.sges.add(first);
                (*wr).wr.num_sge = i32::try_from(used - first).map_err(|_| EINVAL)?;
                (*wr).wr.next = next;
                next = &raw mut (*wr).wr;
            }
        }
        Ok(next)
    }

    /// Makes a message of `len` octets in the buffer of the slot that of the slot, which invalidates a
    /// key of the peer or not.
    ///
    /// # Safety
    ///
    /// The caller owns the slot `this`.
    unsafe fn set_message(this: *mut Self, len: u32, invalidate: Option<u32>) {
        // SAFETY: `this` is valid and ours by this function's contract.
        unsafe {
            (*this).send_sge.length = len;
            (*this).send.opcode = match invalidate {
                None => bindings::ib_wr_opcode_IB_WR_SEND,
                Some(rkey) => {
                    (*this).send.ex.invalidate_rkey = ManuallyDrop::new(rkey);
                    bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV
                }
            };
        }
    }

    /// Makes the slot keep what belongs to its requests, and its message tell of its completion or
    /// not. A message that fails tells in any case.
    ///
    /// # Safety
    ///
    /// The caller owns the slot `this`.
    unsafe fn keep(this: *mut Self, tag: T::Tag, kept: Option<Kept>, signal: bool) {
        // SAFETY: `this` is valid and ours by this function's contract.
        unsafe {
            (*this).tag = Some(tag);
            (*this).kept = kept;
            (*this).signal = signal;
            if signal {
                (*this).send.send_flags |= bindings::ib_send_flags_IB_SEND_SIGNALED;
            } else {
                (*this).send.send_flags &= !bindings::ib_send_flags_IB_SEND_SIGNALED;
            }
        }
    }

    /// Takes only the tag.
    ///
    /// # Safety
    ///
    /// As for [`Self::take`].
    unsafe fn take_tag(this: *mut Self) -> Option<T::Tag> {
        // SAFETY: `this` is valid and its tag ours by this function's contract.
        unsafe { (*this).tag.take() }
    }

    /// Takes what the slot kept. Touches nothing else of the slot.
    ///
    /// # Safety
    ///
    /// The caller owns what the slot `this` keeps: it owns the slot, or nothing is posted any more.
    pub(super) unsafe fn take(this: *mut Self) -> (Option<T::Tag>, Option<Kept>) {
        // SAFETY: `this` is valid and ours by this function's contract.
        unsafe { ((*this).tag.take(), (*this).kept.take()) }
    }
}

impl<T: ChannelOps> Channel<T> {
    /// The message of the slot `last` came to its end, and with it all that were posted before. They
    /// succeeded if it did. If it failed, those before it that did not tell have most likely
    /// succeeded; but what came back when is then of no use to anybody, so they share its result.
    fn on_slot_done(&self, ops: &T, last: u16, result: Result<(), WcStatus>) {
        let mut over = false;
        while !over {
            let wanted;
            let mut kept = [const { None }; TOLD_AT_ONCE];
            {
                let mut queue = self.send.lock();
                for place in &mut kept {
                    let Some(index) = queue.posted.pop() else {
                        over = true;
                        break;
                    };
                    if let Some(slot) = self.send_slot(index) {
                        // SAFETY: Requests complete in order, so those of this slot, too, are
                        // complete: it is ours until it is given back.
                        let (signal, long) = unsafe {
                            *place = Some(SendSlot::take(slot));
                            ((*slot).signal, SendSlot::end_long(slot))
                        };
                        queue.long_out &= !long;
                        if signal {
                            queue.posted.told();
                        }
                    }
                    queue.give_back(index);
                    if index == last {
                        over = true;
                        break;
                    }
                }
                wanted = queue.is_news();
            }
            // First those who wait: whoever is told below may have something to send as well.
            if wanted {
                ops.on_slot_free();
            }
            for at in 0..kept.len() {
                let (told, later) = kept.split_at_mut(at + 1);
                let Some((tag, _memory)) = told.last_mut().and_then(Option::take) else {
                    continue;
                };
                let Some(tag) = tag else { continue };
                let said = later.iter().flatten().any(|(later, _)| {
                    later
                        .as_ref()
                        .is_some_and(|later| T::supersedes(later, &tag))
                });
                if !said {
                    ops.on_sent(tag, result);
                }
            }
        }
    }
}

/// A send slot in the hands of the one who may use it. Dropping it gives the slot back.
///
/// Dropping it, or a failing [`Self::post`], calls [`ChannelOps::on_slot_unused`] if somebody waits for a
/// slot and no other slot is on its way of which the device will tell.
pub(crate) struct ReservedSlot<T: ChannelOps> {
    channel: Arc<Channel<T>>,
    index: u16,
    /// Owned by this handle and not by the device.
    owned: bool,
    /// The next handle of its kind would not have got a slot.
    last: bool,
}

impl<T: ChannelOps> ReservedSlot<T> {
    /// Takes a free slot, or leaves word that one is wanted.
    pub(super) fn reserve(channel: &Arc<Channel<T>>, keep: usize) -> Option<Self> {
        let mut queue = channel.send.lock();
        queue.path.as_ref()?;
        let index = if queue.free.len() > keep {
            queue.free.pop()
        } else {
            None
        };
        if index.is_none() {
            queue.wanted = true;
        }
        let last = queue.free.len() <= keep;
        drop(queue);
        Some(Self {
            channel: channel.clone(),
            index: index?,
            owned: true,
            last,
        })
    }

    /// Posts writes from `source`, at most as many as the channel was made for, and a message that
    /// arrives after them.
    ///
    /// `tag` comes back through [`ChannelOps::on_sent`], and `source` is kept until then. Without
    /// `signal` that may be as late as the end of a later message, if there is one. Any context, also
    /// with interrupts off.
    ///
    /// # Errors
    ///
    /// The tag comes back at once: `ESHUTDOWN` after a shutdown; `EMSGSIZE` if the message is too long;
    /// `EINVAL` if a write is not within the source or there are too many; an error of the device; or `EIO` if only some of the writes were
    /// posted: then the channel is of no use any more.
    pub(crate) fn post<'a>(
        mut self,
        tag: T::Tag,
        source: Option<WriteSource>,
        writes: &[RdmaWrite],
        msg: impl Into<SlotMessage<'a>>,
        signal: bool,
    ) -> Result<(), (Error, T::Tag)> {
        let Some(slot) = self.channel.send_slot(self.index) else {
            return Err((EINVAL, tag));
        };
        let msg = msg.into();
        // SAFETY: The handle owns the slot, which was built before the channel was opened.
        let chain = unsafe { SendSlot::chain(slot, &self.channel.device, source.as_ref(), writes) };
        let chain = match chain {
            Ok(chain) => chain,
            Err(err) => return Err((err, tag)),
        };
        let source = source.filter(|_| !writes.is_empty());

        let mut queue = self.channel.send.lock();
        let Some(path) = &queue.path else {
            return Err((ESHUTDOWN, tag));
        };
        let len = match path.messages.put(self.index, msg.octets) {
            Ok(len) => len,
            Err(err) => return Err((err, tag)),
        };
        let signal = signal || queue.must_signal(self.last);
        // SAFETY: The handle owns the slot. The path is there, so the slot is not being swept.
        unsafe {
            SendSlot::set_message(slot, len, msg.invalidate);
            SendSlot::keep(slot, tag, source.map(Kept::Source), signal);
        }
        // SAFETY: A chain of built requests with handlers. The slot is part of the channel and the
        // message of the path, which both outlive the queue pair (see `Channel::shutdown`); the slot
        // keeps the source until its handler ran.
        let result = unsafe { path.qp.post_send(chain) };
        let returned = match result {
            // SAFETY: Nothing was posted, so the handle still owns the slot.
            Err((err, false)) => unsafe { SendSlot::take(slot) }.0.map(|tag| (err, tag)),
            // Some writes are on their way, but nothing will tell when they are done: only the end of
            // the queue pair will. Until then the slot stays with the device and keeps the source.
            // SAFETY: There will be no completion of the message, so the tag is ours.
            Err((_, true)) => unsafe { SendSlot::take_tag(slot) }.map(|tag| (EIO, tag)),
            Ok(()) => None,
        };
        self.owned = matches!(result, Err((_, false)));
        // A slot without a message on its way does not come back before the end.
        if result.is_ok() {
            queue.posted.push(self.index, signal);
        }
        drop(queue);
        if let Some(returned) = returned {
            return Err(returned);
        }
        self.channel.counters.on_post(writes);
        Ok(())
    }
}

impl<T: ChannelOps> Drop for ReservedSlot<T> {
    fn drop(&mut self) {
        if self.owned {
            self.channel.while_open(|ops, queue| {
                let wanted = queue.lock().give_back_unused(self.index);
                if let Some(ops) = ops.filter(|_| wanted) {
                    ops.on_slot_unused();
                }
            });
        }
    }
}

/// `ib_cqe::done` of messages.
///
/// # Safety
///
/// Called by the core for the completion of the message of a [`SendSlot<T>`].
unsafe extern "C" fn sent_raw<T: ChannelOps>(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: The completion is valid, and its `ib_cqe` is the field of a send slot, because only
    // `SendSlot::new` installs this function.
    let (slot, result) = unsafe {
        let cqe = *(*wc).__bindgen_anon_1.wr_cqe;
        (
            container_of!(cqe, SendSlot<T>, sent),
            WcStatus::check((*wc).status),
        )
    };
    // SAFETY: The slot is part of the channel, which lives until its completion queues are freed. The
    // field does not change after `build`.
    let channel = unsafe { &*(*slot).channel };
    // SAFETY: We are a handler of the channel's completion queue. The index does not change.
    let (ops, index) = unsafe { (channel.ops_in_handler(), (*slot).index) };
    channel.counters.on_completion();
    if let Err(status) = result {
        channel.on_failed(ops, status);
    }
    channel.on_slot_done(ops, index, result);
}

/// `ib_cqe::done` of writes, which only complete when they fail.
///
/// # Safety
///
/// Called by the core for the completion of a write of a [`SendSlot<T>`].
unsafe extern "C" fn wrote_raw<T: ChannelOps>(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: As in `sent_raw`, with the other field.
    let (slot, result) = unsafe {
        let cqe = *(*wc).__bindgen_anon_1.wr_cqe;
        (
            container_of!(cqe, SendSlot<T>, wrote),
            WcStatus::check((*wc).status),
        )
    };
    // SAFETY: As in `sent_raw`. The slot itself is still owned by the device.
    let channel = unsafe { &*(*slot).channel };
    channel.counters.on_completion();
    if let Err(status) = result {
        // SAFETY: We are a handler of the channel's completion queue.
        channel.on_failed(unsafe { channel.ops_in_handler() }, status);
    }
}
