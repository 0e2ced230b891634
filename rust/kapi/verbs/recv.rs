// SPDX-License-Identifier: GPL-2.0

//! The receive requests of a channel, and the messages that complete them.
//!
//! A receive slot is a buffer for one message. It has one owner at a time: the queue of idle slots, the
//! device, or a [`ReceivedBuffer`] with its [`ReceivedPart`]s.
//!
//! # Why a received message does not change
//!
//! The buffers are mapped for the device under the local key of the protection domain, which no peer
//! can name: a peer writes a buffer only by a message that consumes its receive request. Once the
//! request has completed the device is done with the buffer, and it is posted again only when its
//! [`ReceivedBuffer`] and all parts of it are dropped. All the same no reference into a buffer exists,
//! only copies out of it, so that a device that breaks these rules changes octets but breaks no rule of
//! the language. [`ReceivedBuffer::append`] writes behind the message, where no part reads.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    channel::{
        Channel,
        ChannelOps, //
    },
    config::ChannelConfig,
    messages::{
        BlockMappings,
        Buffers, //
    },
    qp::Qp,
    wc::WcStatus, //
};
use crate::{
    bindings,
    kapi::compat::errno::ESHUTDOWN, //
};
use core::{
    cell::UnsafeCell,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::null_mut, //
};
use kernel::{
    container_of,
    iov::IovIterDest,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    },
};

/// Flag of a completion: the message has invalidated a key.
const INVALIDATES: i32 = bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE as i32;

/// Octets that [`ReceivedBuffer::append`] moves at once.
const STEP: usize = 256;

/// The receiving side of a channel, under its lock.
pub(super) struct RecvQueue {
    /// Nothing is posted when it is not there.
    pub(super) qp: Option<Arc<Qp>>,
    /// Buffers with memory that are not posted and hold no message. Never grows beyond its capacity.
    pub(super) idle: KVec<u16>,
    /// As soon as this many are idle, they are posted.
    batch: usize,
    /// How many buffers were posted so far.
    posted: u64,
    /// Whether buffers are posted with their second halves, which all have.
    pub(super) halves: bool,
}

impl RecvQueue {
    /// A queue for `slots` buffers, of which those with memory are idle. Context: may sleep.
    pub(super) fn new(slots: u16, config: &ChannelConfig) -> Result<Self> {
        let mut idle = KVec::with_capacity(slots.into(), GFP_KERNEL)?;
        for index in 0..config.first_buffers()? {
            idle.push(index, GFP_KERNEL)?;
        }
        Ok(Self {
            qp: None,
            idle,
            batch: config.posted_at_once(),
            posted: 0,
            halves: false,
        })
    }
}

/// Work request of a receive slot.
pub(super) struct RecvSlot<T: ChannelOps> {
    received: bindings::ib_cqe,
    recv: bindings::ib_recv_wr,
    /// The buffer, and what is behind it, if there is anything.
    sges: [bindings::ib_sge; 2],
    /// What is behind it is its second half.
    has_half: bool,
    channel: *const Channel<T>,
    index: u16,
    /// The [`ReceivedBuffer`] of the slot, and its parts. It is 1 while there is none of either.
    users: Atomic<i32>,
}

impl<T: ChannelOps> RecvSlot<T> {
    /// `slots` slots without their requests. Context: may sleep.
    pub(super) fn new(slots: u16) -> Result<KVVec<UnsafeCell<Self>>> {
        let mut all = KVVec::with_capacity(slots.into(), GFP_KERNEL)?;
        for index in 0..slots {
            let slot = UnsafeCell::new(Self {
                received: bindings::ib_cqe {
                    done: Some(received_raw::<T>),
                },
                recv: Default::default(),
                sges: Default::default(),
                has_half: false,
                channel: null_mut(),
                index,
                users: Atomic::new(1),
            });
            all.push(slot, GFP_KERNEL)?;
        }
        Ok(all)
    }

    /// Builds the request, once the slot is at its place.
    ///
    /// # Safety
    ///
    /// `this` is valid, does not move, has no other user and is part of `channel`.
    pub(super) unsafe fn build(
        this: *mut Self,
        channel: *const Channel<T>,
        buffers: &Buffers,
        mappings: &BlockMappings,
        lkey: u32,
    ) -> Result {
        // SAFETY: `this` is valid and ours alone by this function's contract.
        unsafe {
            (*this).channel = channel;
            let first = buffers.sge(mappings, (*this).index, lkey)?;
            let rest = buffers.long_sge(mappings, lkey)?;
            (*this).recv.num_sge = 1 + i32::from(rest.is_some());
            (*this).sges = [first, rest.unwrap_or_default()];
            (*this).recv.sg_list = (&raw mut (*this).sges).cast();
            (*this).recv.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(&raw mut (*this).received);
        }
        Ok(())
    }

    /// Lets the request have a second half of its buffer.
    ///
    /// # Safety
    ///
    /// The caller owns the slot `this`, which was built.
    unsafe fn extend(this: *mut Self, half: bindings::ib_sge) {
        // SAFETY: `this` is valid and ours by this function's contract.
        unsafe {
            (*this).recv.num_sge = 2;
            (*this).sges[1] = half;
            (*this).has_half = true;
        }
    }

    /// Puts the request in front of the chain `next`.
    ///
    /// # Safety
    ///
    /// The caller owns the slot `this`, which was built.
    unsafe fn link(this: *mut Self, next: *mut bindings::ib_recv_wr) -> *mut bindings::ib_recv_wr {
        // SAFETY: `this` is valid and ours by this function's contract.
        unsafe {
            (*this).recv.next = next;
            &raw mut (*this).recv
        }
    }
}

/// A received message in the buffer it arrived in, which is given back on drop. Context of all
/// methods and of the drop: any, if not said otherwise.
///
/// The channel posts a buffer that was given back as [`RecvPosting`](super::config::RecvPosting) says.
///
/// A completion handler gets an [`Arriving`], which costs no reference to the channel. What must live
/// longer is [kept](Received::keep). It may outlive the [shutdown](Channel::shutdown) of the channel:
/// its octets stay readable. The channel has as many buffers as its configuration says, and a user that
/// keeps all of them receives nothing.
///
/// If the buffer cannot be posted again, the drop calls [`ChannelOps::on_broken`]. With
/// [`RecvPosting::OnDemand`](super::config::RecvPosting::OnDemand) it posts nothing and calls nothing, so
/// it may come with a lock of the user held.
///
/// # Invariants
///
/// This object owns the receive slot `index`, together with its parts, and is counted as a user of it.
/// The request of the slot has completed. The first `len` octets are the message and those appended to
/// it, at most as many as its buffer and the room for a long message hold.
pub(crate) struct ReceivedBuffer<T: ChannelOps, C: Deref<Target = Channel<T>> = Arc<Channel<T>>> {
    channel: C,
    index: u16,
    len: usize,
    invalidated: Option<u32>,
}

/// A message in the hands of the completion handler.
pub(crate) type Arriving<'a, T> = ReceivedBuffer<T, ArcBorrow<'a, Channel<T>>>;

#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
)]
impl<T: ChannelOps, C: Deref<Target = Channel<T>>> ReceivedBuffer<T, C> {
    /// Octets of the message, and those that were appended to it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The number of the buffer among those of its channel.
    pub(crate) fn number(&self) -> u16 {
        self.index
    }

    /// Octets that the buffer holds.
    pub(crate) fn size(&self) -> usize {
        let buffers = &self.channel.recv_buffers;
        let slot = self.channel.recv_slot(self.index);
        // SAFETY: The slot is part of the channel, and by the type invariants we own it.
        let has_half = slot.is_some_and(|slot| unsafe { (*slot).has_half });
        if has_half {
            buffers.longest()
        } else {
            buffers.bytes()
        }
    }

    /// The key of this host that the message has invalidated.
    pub(crate) fn invalidated(&self) -> Option<u32> {
        self.invalidated
    }

    /// Copies the octets from `off` on into private memory.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the message is shorter.
    pub(crate) fn read(&self, off: usize, to: &mut [u8]) -> Result {
        self.check(off, to.len())?;
        self.channel.recv_buffers.read(self.index, off, to)
    }

    /// Copies `len` octets from `off` on to `iter`; returns how many, which is less when `iter` is full
    /// or faults. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the message is shorter, or the range not all in its own buffer; `EFAULT` if nothing
    /// could be copied.
    pub(crate) fn copy_to_iter(
        &self,
        off: usize,
        len: usize,
        iter: &mut IovIterDest<'_>,
    ) -> Result<usize> {
        self.check(off, len)?;
        let buffers = &self.channel.recv_buffers;
        buffers.copy_to_iter(self.index, off, len, iter)
    }

    fn check(&self, off: usize, len: usize) -> Result {
        match off.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(EINVAL),
        }
    }

    /// Copies `len` octets of the message `from`, from its octet `off` on, behind the last octet of this
    /// one. The copy holds the lock of the receive queue: it is for small pieces. Context: any.
    ///
    /// # Errors
    ///
    /// Nothing has changed then: `EINVAL` if `from` is shorter, or the channel was not made for that;
    /// `EMSGSIZE` if they do not fit the buffer.
    pub(crate) fn append<D: Deref<Target = Channel<T>>>(
        &mut self,
        from: &ReceivedBuffer<T, D>,
        off: usize,
        len: usize,
    ) -> Result {
        from.check(off, len)?;
        let end = self.len.checked_add(len).ok_or(EMSGSIZE)?;
        let channel = &*self.channel;
        if !channel.may_append() {
            return Err(EINVAL);
        }
        let buffers = &channel.recv_buffers;
        if end > self.size() {
            return Err(EMSGSIZE);
        }
        let queue = channel.recv.lock();
        // After a shutdown the buffer is not mapped, and the CPU has it to itself.
        let mappings = queue.qp.as_ref().map(|_| {
            // SAFETY: The queue is locked and open, until the end of this function.
            unsafe { channel.recv_mappings() }
        });
        if let Some(mappings) = mappings {
            buffers.sync_for_cpu(mappings, self.index, self.len, len)?;
        }
        let mut chunk = [0; STEP];
        let mut done = 0;
        while done < len {
            let chunk = chunk.get_mut(..STEP.min(len - done)).ok_or(EINVAL)?;
            from.read(off + done, chunk)?;
            buffers.write(self.index, self.len + done, chunk)?;
            done += chunk.len();
        }
        if let Some(mappings) = mappings {
            // The end of the mapping must not undo the copy: the octets go to where the device sees
            // them.
            buffers.sync_for_device(mappings, self.index, self.len, len)?;
            buffers.sync_for_cpu(mappings, self.index, self.len, len)?;
        }
        drop(queue);
        // INVARIANT: The octets are there, and `end` was checked.
        self.len = end;
        Ok(())
    }
}

impl<T: ChannelOps> ReceivedBuffer<T> {
    /// A handle to `len` octets of the message from `off` on, which stay readable while it exists, even
    /// if the message is dropped. So a reader copies to its program while the engine, with a lock that
    /// the reader does not hold, appends to the message.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the message is shorter, or the range not all in its own buffer.
    pub(crate) fn part(&self, off: usize, len: usize) -> Result<ReceivedPart<T>> {
        self.check(off, len)?;
        if off.saturating_add(len) > self.size() {
            return Err(EINVAL);
        }
        let slot = self.channel.recv_slot(self.index).ok_or(EINVAL)?;
        // SAFETY: The slot is part of the channel; the field is only accessed by shared references.
        let users = unsafe { &(*slot).users };
        // INVARIANT: Counted here. Nothing is ordered by a new user: we are one.
        users.add(1i32, Relaxed);
        Ok(ReceivedPart {
            channel: self.channel.clone(),
            index: self.index,
            off,
            len,
        })
    }
}

/// Octets of a [`ReceivedBuffer`], for a reader. Context of all methods and of the drop: any, if not said
/// otherwise.
///
/// # Invariants
///
/// This object is counted as a user of the receive slot `index`. Its `len` octets from `off` on lie in
/// the buffer of the slot and belong to a message that was received.
pub(crate) struct ReceivedPart<T: ChannelOps> {
    channel: Arc<Channel<T>>,
    index: u16,
    off: usize,
    len: usize,
}

#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
)]
impl<T: ChannelOps> ReceivedPart<T> {
    /// Octets of the part.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Copies `len` octets from `skip` on to `iter`; returns how many, which is less when `iter` is full
    /// or faults. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the part is shorter; `EFAULT` if nothing could be copied.
    pub(crate) fn copy_to_iter(
        &self,
        skip: usize,
        len: usize,
        iter: &mut IovIterDest<'_>,
    ) -> Result<usize> {
        match skip.checked_add(len) {
            Some(end) if end <= self.len => {}
            _ => return Err(EINVAL),
        }
        let buffers = &self.channel.recv_buffers;
        buffers.copy_to_iter(self.index, self.off + skip, len, iter)
    }

    /// Copies octets from `skip` on out into private memory. Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the part is shorter.
    pub(crate) fn read(&self, skip: usize, to: &mut [u8]) -> Result {
        match skip.checked_add(to.len()) {
            Some(end) if end <= self.len => {}
            _ => return Err(EINVAL),
        }
        let buffers = &self.channel.recv_buffers;
        buffers.read(self.index, self.off + skip, to)
    }
}

impl<T: ChannelOps> Drop for ReceivedPart<T> {
    fn drop(&mut self) {
        // The length of the message is not known here: the device gets the whole buffer.
        let size = self.channel.recv_buffers.longest();
        // INVARIANT: By the type invariants we are a user, and one less from here on.
        self.channel.end_use(self.index, size);
    }
}

impl<T: ChannelOps> Arriving<'_, T> {
    /// Keeps the message beyond the handler. The part of a long message that is not in its own buffer
    /// becomes that of the next long message.
    pub(crate) fn keep(self) -> ReceivedBuffer<T> {
        let this = ManuallyDrop::new(self);
        // INVARIANT: The slot is taken over, as `this` is not dropped.
        ReceivedBuffer {
            channel: this.channel.into(),
            index: this.index,
            len: this.len,
            invalidated: this.invalidated,
        }
    }
}

impl<T: ChannelOps, C: Deref<Target = Channel<T>>> Drop for ReceivedBuffer<T, C> {
    fn drop(&mut self) {
        // INVARIANT: By the type invariants we are a user, and one less from here on.
        self.channel.end_use(self.index, self.len);
    }
}

#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
)]
impl<T: ChannelOps> Channel<T> {
    /// Posts up to `most` receive slots that are idle, and returns how many.
    ///
    /// # Errors
    ///
    /// `ESHUTDOWN` after a shutdown; an error of the device, which may have taken some.
    pub(super) fn post_idle(&self, queue: &mut RecvQueue, most: usize) -> Result<usize> {
        let Some(qp) = &queue.qp else {
            return Err(ESHUTDOWN);
        };
        let keep = queue.idle.len().saturating_sub(most);
        let mut chain = null_mut();
        for index in queue.idle.get(keep..).unwrap_or(&[]) {
            let slot = self.recv_slot(*index).ok_or(EINVAL)?;
            if queue.halves {
                // SAFETY: The queue is locked, and its queue pair is there.
                let mappings = unsafe { self.recv_mappings() };
                let half = self.recv_buffers.half_sge(mappings, *index, qp.pd().lkey());
                // SAFETY: Idle slots are owned by the queue, which the caller has locked.
                unsafe { RecvSlot::extend(slot, half.ok_or(EINVAL)?) };
            }
            // SAFETY: Idle slots are owned by the queue, which the caller has locked.
            chain = unsafe { RecvSlot::link(slot, chain) };
        }
        if chain.is_null() {
            return Ok(0);
        }
        // SAFETY: A chain of built requests. The slots and the buffers are part of the channel, and the
        // mappings are those of the handlers, which all outlive the queue pair: see
        // `Channel::shutdown`.
        let result = unsafe { qp.post_recv(chain) };
        let before = queue.idle.len();
        let left = match result {
            Ok(()) => keep,
            // The chain began with the last idle slot.
            Err((_, taken)) => before.saturating_sub(taken).max(keep),
        };
        queue.idle.truncate(left);
        let count = before - left;
        queue.posted = queue.posted.saturating_add(u64::try_from(count)?);
        result.map(|()| count).map_err(|(error, _)| error)
    }

    /// Posts up to `count` receive buffers that hold no message: those that were given back, and spares.
    /// Returns how many, which is less if other buffers still hold messages. Context: any.
    ///
    /// # Errors
    ///
    /// `ESHUTDOWN` after a shutdown; an error of the device: the channel is of no use then, and some
    /// may have been posted.
    pub(crate) fn post_buffers(&self, count: u16) -> Result<u16> {
        let posted = self.post_idle(&mut self.recv.lock(), count.into())?;
        Ok(u16::try_from(posted)?)
    }

    /// How many receive buffers are posted, and not yet used by a message of which
    /// [`ChannelOps::on_received`] was called. Without meaning when the channel is broken.
    /// Context: any.
    pub(crate) fn posted_buffers(&self) -> u64 {
        let queue = self.recv.lock();
        // Read under the lock: the buffers that it counts were posted before.
        queue.posted.saturating_sub(self.counters.received())
    }

    /// How many receive buffers [`Self::post_buffers`] could post. Context: any.
    pub(crate) fn idle_buffers(&self) -> usize {
        self.recv.lock().idle.len()
    }

    /// In which direction the receive buffers are mapped, if the channel is open. Context: any.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) fn recv_direction(&self) -> Option<bindings::dma_data_direction> {
        let queue = self.recv.lock();
        queue.qp.as_ref()?;
        // SAFETY: The queue is locked and open.
        unsafe { self.recv_mappings() }.direction()
    }

    /// A user of a received message is gone. If it was the last one, the slot is given back, of whose
    /// buffer at most `len` octets were used.
    fn end_use(&self, index: u16, len: usize) {
        let Some(slot) = self.recv_slot(index) else {
            return;
        };
        // SAFETY: The slot is part of the channel; the field is only accessed by shared references.
        let users = unsafe { &(*slot).users };
        // Acquire, or a full order: other users have read before the slot is posted again.
        // A single user cannot become two meanwhile: only the message makes parts.
        if users.load(Acquire) != 1 {
            if users.fetch_sub(1, Full) != 1 {
                return;
            }
            users.store(1, Relaxed);
        }
        if self.give_back(index, len).is_err() {
            self.while_open(|ops, _| {
                if let Some(ops) = ops {
                    self.on_failed(ops, WcStatus::GENERAL);
                }
            });
        }
    }

    /// Takes a slot back of whose buffer `len` octets were used, to be posted with its batch.
    fn give_back(&self, index: u16, len: usize) -> Result {
        let mut queue = self.recv.lock();
        if queue.qp.is_none() {
            return Ok(());
        }
        // SAFETY: The queue is locked and open.
        let mappings = unsafe { self.recv_mappings() };
        let len = len.min(self.recv_buffers.mapped(mappings, index));
        self.recv_buffers.sync_for_device(mappings, index, 0, len)?;
        let fits = queue.idle.push_within_capacity(index).is_ok();
        if fits && queue.idle.len() < queue.batch {
            return Ok(());
        }
        self.post_idle(&mut queue, usize::MAX).map(|_| ())
    }
}

/// How much of a message a completed receive request has brought, and the key that it invalidated.
///
/// The peer chooses by which operation it consumes the request. An RDMA write with immediate data puts
/// nothing into the buffer, and its length is that of the write; a message that invalidates a key takes
/// memory from the peer's reach, which only some protocols do.
fn received_len(
    wc: &bindings::ib_wc,
    may_invalidate: bool,
) -> Result<(usize, Option<u32>), WcStatus> {
    WcStatus::check(wc.status)?;
    let invalidates = wc.wc_flags & INVALIDATES != 0;
    if wc.opcode != bindings::ib_wc_opcode_IB_WC_RECV || invalidates && !may_invalidate {
        return Err(WcStatus::GENERAL);
    }
    let len = usize::try_from(wc.byte_len).map_err(|_| WcStatus::GENERAL)?;
    // SAFETY: Both members of the union are words that any value is good for, and the completion is
    // initialised.
    let key = || unsafe { *wc.ex.invalidate_rkey };
    Ok((len, invalidates.then(key)))
}

/// `ib_cqe::done` of received messages.
///
/// # Safety
///
/// Called by the core for the completion of a [`RecvSlot<T>`].
unsafe extern "C" fn received_raw<T: ChannelOps>(
    _cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: The completion is valid, and its `ib_cqe` is the field of a receive slot, because only
    // `RecvSlot::new` installs this function.
    let slot = unsafe {
        let cqe = *(*wc).__bindgen_anon_1.wr_cqe;
        container_of!(cqe, RecvSlot<T>, received)
    };
    // SAFETY: The slot is part of the channel, which is in an `Arc` and lives until its completion queues
    // are freed. The fields do not change after `build`.
    let (channel, index) = unsafe { (ArcBorrow::from_raw((*slot).channel), (*slot).index) };
    // SAFETY: We are a handler of the channel's completion queue.
    let (ops, mappings) = unsafe { (channel.ops_in_handler(), channel.recv_mappings()) };
    channel.counters.on_completion();
    // SAFETY: The completion is valid.
    let (len, invalidated) = match received_len(unsafe { &*wc }, channel.may_invalidate()) {
        Ok(received) => received,
        Err(status) => return channel.on_failed(ops, status),
    };
    let buffers = &channel.recv_buffers;
    // A message that is longer than the memory for it cannot be.
    if buffers.sync_for_cpu(mappings, index, 0, len).is_err() {
        return channel.on_failed(ops, WcStatus::GENERAL);
    }
    // INVARIANT: The request of the slot has completed, and its length was checked.
    let received = ReceivedBuffer {
        channel,
        index,
        len,
        invalidated,
    };
    channel.counters.on_receive();
    ops.on_received(received);
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_received)]
mod tests {
    use super::*;

    fn completion(opcode: bindings::ib_wc_opcode, flags: u32, byte_len: u32) -> bindings::ib_wc {
        let mut wc = bindings::ib_wc {
            status: bindings::ib_wc_status_IB_WC_SUCCESS,
            opcode,
            wc_flags: flags.try_into().unwrap_or_default(),
            byte_len,
            ..Default::default()
        };
        wc.ex.invalidate_rkey = ManuallyDrop::new(0x1234);
        wc
    }

    #[test]
    fn only_a_plain_message_has_a_length() {
        let message = bindings::ib_wc_opcode_IB_WC_RECV;
        let write = bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM;
        let immediate = bindings::ib_wc_flags_IB_WC_WITH_IMM;
        let invalidate = bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE;
        for (opcode, flags, wanted) in [
            (message, 0, Ok((44, None))),
            (message, immediate, Ok((44, None))),
            (message, invalidate, Err(WcStatus::GENERAL)),
            (write, immediate, Err(WcStatus::GENERAL)),
            (write, 0, Err(WcStatus::GENERAL)),
        ] {
            assert_eq!(received_len(&completion(opcode, flags, 44), false), wanted);
        }
    }

    #[test]
    fn invalidated_key_is_reported_where_it_is_allowed() {
        let message = bindings::ib_wc_opcode_IB_WC_RECV;
        let invalidate = bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE;
        let wc = completion(message, invalidate, 44);
        assert_eq!(received_len(&wc, true), Ok((44, Some(0x1234))));
        let wc = completion(message, 0, 44);
        assert_eq!(received_len(&wc, true), Ok((44, None)));
    }
}
