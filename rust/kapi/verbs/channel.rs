// SPDX-License-Identifier: GPL-2.0

//! A reliable connection to a peer: one queue pair with its completion queues and slots.
//!
//! # Life
//!
//! [`Channel::new`] creates everything, with the receive requests posted, so that no message of the
//! peer can come too early. `to_rtr` and `to_rts` connect it. From `new` on, the channel is *open*
//! and holds a reference to itself, since the device may call back at any time; only
//! [`Channel::shutdown`] ends that. Whoever made a channel has to call it, before the device is gone.
//!
//! # Contexts
//!
//! Completions are handled in softirq. The locks of both queues are leaves: nothing is called back
//! while one is held. The mutex `verbs` serialises what sleeps.
//!
//! # Why the handlers see valid memory
//!
//! The slots are part of the channel. Shutting down goes in this order: the paths are taken out under
//! the locks, so nothing is posted any more; the queue pair is drained, so all handlers ran; it is
//! destroyed with its completion queues, which waits for handlers that still run; only then the
//! mappings of the message buffers, the operations and the channel's reference to itself are given up.
//! If the device does not give the queue pair up, all of these stay with it.

use super::{
    cq::Cq,
    device::Device,
    fast_reg::FastReg,
    messages::{
        Behind,
        BlockMappings,
        Buffers,
        Messages, //
    },
    mr::Mr,
    pd::Pd,
    qp::Qp,
    recv::{
        RecvQueue,
        RecvSlot, //
    },
    slot::{
        SendPath,
        SendQueue,
        SendSlot,
        WriteRequests, //
    },
    wc::WcStatus, //
};
use crate::{
    bindings,
    kapi::{
        compat::{
            errno::ESHUTDOWN,
            new_spinlock_irq,
            SpinLockIrq, //
        },
        mem::{
            cgroup::MemCgroup,
            OnFree, //
        },
    },
};
use core::cell::UnsafeCell;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc,
        Mutex,
        SetOnce, //
    },
    types::ScopeGuard, //
};

pub(crate) use super::{
    config::{
        ChannelConfig,
        ConnectionConfig,
        RecvPosting, //
    },
    qp::Peer,
    recv::{
        Arriving,
        ReceivedBuffer,
        ReceivedPart, //
    },
    slot::{
        gather::{
            GatherPiece,
            SendFlags, //
        },
        RdmaWrite,
        ReservedSlot,
        SlotMessage,
        WriteSource, //
    },
};

/// What a channel tells its user.
///
/// All functions are called in softirq, or in the process that shuts the channel down. They must not
/// sleep. No lock of the channel is held, so they may reserve and post.
pub(crate) trait ChannelOps: Send + Sync + Sized + 'static {
    /// What is known of a message that was posted.
    type Tag: Send + 'static;

    /// The message of `tag`, and the writes in front of it, are done: the peer's device has them, or
    /// it is not known whether it has. Tags come in the order of their messages, except at the end.
    fn on_sent(&self, tag: Self::Tag, result: Result<(), WcStatus>);

    /// Whether [`Self::on_sent`] need not be called for `earlier`, because it will be for `later` with
    /// the same result. Any context.
    fn supersedes(later: &Self::Tag, earlier: &Self::Tag) -> bool;

    /// A message arrived. Its buffer is given back when `msg` is dropped.
    fn on_received(&self, msg: Arriving<'_, Self>);

    /// There is a free slot, after one was wanted in vain: its message has completed.
    fn on_slot_free(&self);

    /// The same, but the slot was given back unused. Called by whoever did that, with whatever locks
    /// held, so it must not reserve a slot itself.
    fn on_slot_unused(&self);

    /// The channel does not work any more. Called at most once, and not because of
    /// [`Channel::fail`] or [`Channel::shutdown`].
    fn on_broken(&self, status: WcStatus);
}

/// What a channel did so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Chains that were posted for sending.
    pub(crate) posts: u64,
    /// Requests in them.
    pub(crate) wrs: u64,
    /// Completions that were handled.
    pub(crate) cqes: u64,
    /// Messages that were received.
    pub(crate) recvs: u64,
    /// Octets in the writes that were posted.
    pub(crate) write_bytes: u64,
    /// Octets that messages were gathered from, without their headers.
    #[cfg_attr(
        not(CONFIG_RDMA_SOCK_KUNIT_TEST),
        expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
    )]
    pub(crate) gathered_bytes: u64,
}

/// The running numbers behind [`Counters`].
pub(super) struct RunningChannel {
    posts: Atomic<u64>,
    wrs: Atomic<u64>,
    cqes: Atomic<u64>,
    recvs: Atomic<u64>,
    write_bytes: Atomic<u64>,
    gathered_bytes: Atomic<u64>,
}

impl RunningChannel {
    fn new() -> Self {
        Self {
            posts: Atomic::new(0),
            wrs: Atomic::new(0),
            cqes: Atomic::new(0),
            recvs: Atomic::new(0),
            write_bytes: Atomic::new(0),
            gathered_bytes: Atomic::new(0),
        }
    }

    pub(super) fn on_post(&self, writes: &[RdmaWrite]) {
        let mut wrs = 1;
        let mut bytes = 0;
        for write in writes {
            wrs += 1;
            bytes += u64::from(write.len);
        }
        self.posts.add(1u64, Relaxed);
        self.wrs.add(wrs, Relaxed);
        self.write_bytes.add(bytes, Relaxed);
    }

    pub(super) fn on_completion(&self) {
        self.cqes.add(1u64, Relaxed);
    }

    pub(super) fn on_gather(&self, bytes: u32) {
        self.gathered_bytes.add(u64::from(bytes), Relaxed);
    }

    pub(super) fn on_receive(&self) {
        self.recvs.add(1u64, Relaxed);
    }

    pub(super) fn received(&self) -> u64 {
        self.recvs.load(Relaxed)
    }
}

/// What a channel has while its queue pair exists.
struct Verbs<T: ChannelOps> {
    qp: Arc<Qp>,
    /// Keeps the channel for its handlers.
    this: Arc<Channel<T>>,
    /// Buffers of the sending path, once it was taken.
    messages: Option<Messages>,
    /// Receive slots that have a buffer.
    buffers: u16,
}

/// What completion handlers use.
struct ForHandlers<T: ChannelOps> {
    ops: Arc<T>,
    /// The receive buffers, mapped for the device.
    recv: BlockMappings,
}

/// A connection to a peer. After [`Self::shutdown`] it may be dropped in any context.
///
/// # Invariants
///
/// - While a queue pair of this channel exists, `verbs` holds it (or [`Self::new`] or
///   [`Self::shutdown`] is at work), and so the channel exists.
/// - `handlers` is set before anything is posted or a path is there, and until `shutdown` has taken
///   the paths and a grace period, all handlers and the completion queues have ended.
/// - A slot is accessed only by its owner, as in the description of the slots.
#[pin_data]
pub(crate) struct Channel<T: ChannelOps> {
    pub(super) device: Arc<Device>,
    /// Pieces of memory that a request can be read from.
    pieces: usize,
    config: ChannelConfig,
    qpn: SetOnce<u32>,
    #[pin]
    verbs: Mutex<Option<Verbs<T>>>,
    #[pin]
    pub(super) send: SpinLockIrq<SendQueue>,
    #[pin]
    pub(super) recv: SpinLockIrq<RecvQueue>,
    #[pin]
    fast_reg: FastReg,
    send_slots: KVVec<UnsafeCell<SendSlot<T>>>,
    writes: WriteRequests,
    recv_slots: KVVec<UnsafeCell<RecvSlot<T>>>,
    // The mapping of the handlers is dropped before.
    pub(super) recv_buffers: Buffers,
    handlers: UnsafeCell<Option<ForHandlers<T>>>,
    /// The user knows already that it does not work.
    broken: Atomic<bool>,
    pub(super) counters: RunningChannel,
    /// Ends the account of the receive buffers.
    _on_free: Option<OnFree>,
}

// SAFETY: `handlers` is `Send` and `Sync` and accessed as the type invariants say, slots are only accessed
// by their owner and hold tags and buffers, which are `Send`.
unsafe impl<T: ChannelOps> Send for Channel<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: ChannelOps> Sync for Channel<T> {}

#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
)]
impl<T: ChannelOps> Channel<T> {
    /// Creates a channel with its receive requests posted. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device cannot hold that many requests, or a parameter is 0 that must not be;
    /// `ENODEV` if it is being removed.
    pub(crate) fn new(pd: &Arc<Pd>, config: &ChannelConfig, ops: Arc<T>) -> Result<Arc<Self>> {
        Self::charged(pd, config, &MemCgroup::ROOT, None, ops)
    }

    /// As [`Self::new`], with the buffers of messages charged to `cgroup`. `on_free` is dropped with
    /// the receive buffers, which live as long as a message in one of them. Context: may sleep.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`]; besides, `ENOMEM` above the limit of the cgroup.
    pub(crate) fn charged(
        pd: &Arc<Pd>,
        config: &ChannelConfig,
        cgroup: &MemCgroup,
        on_free: Option<OnFree>,
        ops: Arc<T>,
    ) -> Result<Arc<Self>> {
        let (depth, buffers) = (config.depth(pd.device())?, config.first_buffers()?);
        let pieces = usize::try_from(depth.send_sges)?;
        let this = Self::closed(pd.device(), config, pieces, cgroup, on_free)?;
        let qp = Qp::new(
            pd,
            Cq::new(pd, depth.send)?,
            Cq::new(pd, depth.recv)?,
            depth,
        )?;
        *this.verbs.lock() = Some(Verbs {
            qp: qp.clone(),
            this: this.clone(),
            messages: None,
            buffers,
        });
        let opening = ScopeGuard::new_with_data(this, |this| this.shutdown());
        opening.open(pd, qp, cgroup, ops)?;
        Ok(opening.dismiss())
    }

    /// A channel without a queue pair, whose requests read from `pieces` pieces of memory.
    fn closed(
        device: &Arc<Device>,
        config: &ChannelConfig,
        pieces: usize,
        cgroup: &MemCgroup,
        on_free: Option<OnFree>,
    ) -> Result<Arc<Self>> {
        let (sends, recvs) = (config.send_slots, config.recv_buffers()?);
        let first = usize::from(config.first_buffers()?);
        let send = SendQueue::new(sends, config.max_unsignalled)?;
        let recv = RecvQueue::new(recvs, config)?;
        // INVARIANT: There is no queue pair.
        Arc::pin_init(
            try_pin_init!(Self {
                device: device.clone(),
                pieces,
                config: *config,
                qpn: SetOnce::new(),
                verbs <- new_mutex!(None, "rdma_sock_channel"),
                send <- new_spinlock_irq!(send, "rdma_sock_send_queue"),
                recv <- new_spinlock_irq!(recv, "rdma_sock_recv_queue"),
                fast_reg <- FastReg::new(),
                send_slots: SendSlot::new(sends)?,
                writes: WriteRequests::new(sends.into(), config.max_writes.into(), *pieces)?,
                recv_slots: RecvSlot::new(recvs)?,
                recv_buffers: Buffers::new(
                    recvs.into(),
                    first,
                    usize::try_from(config.recv_bytes)?,
                    if config.recv_halves {
                        Behind::Halves
                    } else {
                        Behind::Room(config.long_bytes.into())
                    },
                    cgroup,
                )?,
                handlers: UnsafeCell::new(None),
                broken: Atomic::new(false),
                counters: RunningChannel::new(),
                _on_free: on_free,
            }),
            GFP_KERNEL,
        )
    }

    /// Makes the new queue pair ready for posting.
    fn open(&self, pd: &Pd, qp: Arc<Qp>, cgroup: &MemCgroup, ops: Arc<T>) -> Result {
        let send = self.send_path(pd, &qp, cgroup)?;
        let recv = self.build_recv(pd)?;
        // SAFETY: Nothing is posted and no path is there, so nothing else accesses the field.
        unsafe { *self.handlers.get() = Some(ForHandlers { ops, recv }) };
        self.qpn.populate(qp.number());
        qp.to_init(self.config.port, self.config.peer_reads)?;
        {
            let mut queue = self.recv.lock();
            queue.qp = Some(qp);
            self.post_idle(&mut queue, self.config.first_posted())?;
        }
        self.send.lock().path = Some(send);
        Ok(())
    }

    /// Maps the messages of the send slots and builds their requests.
    fn send_path(&self, pd: &Pd, qp: &Arc<Qp>, cgroup: &MemCgroup) -> Result<SendPath> {
        let slots = self.send_slots.len();
        let buffers = Buffers::new(
            slots,
            slots,
            self.config.send_bytes.into(),
            Behind::Room(self.config.long_bytes.into()),
            cgroup,
        )?;
        let path = SendPath {
            qp: qp.clone(),
            messages: Messages::new(&self.device, buffers)?,
            inline: self.config.send_bytes.into(),
        };
        for (index, slot) in (0..self.config.send_slots).zip(&self.send_slots) {
            let writes = self.writes.of_slot(index)?;
            // SAFETY: The slots and the writes do not move, and have no other user before the path is
            // there.
            unsafe { SendSlot::build(slot.get(), self, &path, writes, pd.lkey())? };
        }
        Ok(path)
    }

    /// Maps the receive buffers and builds their requests.
    fn build_recv(&self, pd: &Pd) -> Result<BlockMappings> {
        let buffers = &self.recv_buffers;
        // SAFETY: The buffers are part of the channel, of which the mappings become a field that is
        // dropped before: by `shutdown`, or by our caller.
        let mappings = unsafe { buffers.map_for_writing(&self.device, self.may_append())? };
        let first = usize::from(self.config.first_buffers()?);
        for slot in self.recv_slots.iter().take(first) {
            // SAFETY: The slots do not move, and have no other user before they are posted.
            unsafe { RecvSlot::build(slot.get(), self, buffers, &mappings, pd.lkey())? };
        }
        Ok(mappings)
    }

    /// A send slot.
    pub(super) fn send_slot(&self, index: u16) -> Option<*mut SendSlot<T>> {
        Some(self.send_slots.get(usize::from(index))?.get())
    }

    /// A receive slot.
    pub(super) fn recv_slot(&self, index: u16) -> Option<*mut RecvSlot<T>> {
        Some(self.recv_slots.get(usize::from(index))?.get())
    }

    /// Whether messages of the peer may invalidate keys.
    pub(super) fn may_invalidate(&self) -> bool {
        self.config.may_invalidate
    }

    /// Whether the user may append to received messages.
    pub(super) fn may_append(&self) -> bool {
        self.config.may_append()
    }

    /// The operations, for completion handlers.
    ///
    /// # Safety
    ///
    /// Called, and the result used, only in a handler of this channel's completion queues.
    pub(super) unsafe fn ops_in_handler(&self) -> &T {
        // SAFETY: By the type invariants the field is set and does not change while handlers run.
        unsafe { &(*self.handlers.get()).as_ref().unwrap_unchecked().ops }
    }

    /// The mappings of the receive buffers.
    ///
    /// # Safety
    ///
    /// Called, and the result used, only in a handler of this channel's completion queues, or with the
    /// receive queue locked and its queue pair there.
    pub(super) unsafe fn recv_mappings(&self) -> &BlockMappings {
        // SAFETY: By the type invariants the field is set and does not change while handlers run, or
        // before the queue pair was taken out of the queue.
        unsafe { &(*self.handlers.get()).as_ref().unwrap_unchecked().recv }
    }

    /// Calls `f` with the operations, if the channel is open, so that a shutdown waits for its end.
    /// `f` must not sleep.
    pub(super) fn while_open(&self, f: impl FnOnce(Option<&T>, &SpinLockIrq<SendQueue>)) {
        let _guard = rcu::read_lock();
        let open = self.send.lock().path.is_some();
        let ops = if open {
            // SAFETY: The path was still there in this read section. By the type invariants the field
            // is set and does not change before a grace period has ended since it was taken.
            unsafe {
                (*self.handlers.get())
                    .as_ref()
                    .map(|handlers| &*handlers.ops)
            }
        } else {
            None
        };
        f(ops, &self.send);
    }

    /// A request failed: tells the user, if it is news.
    pub(super) fn on_failed(&self, ops: &T, status: WcStatus) {
        // Nothing is ordered by the flag.
        if !self.broken.xchg(true, Relaxed) {
            ops.on_broken(status);
        }
    }

    /// Receive slots, with buffers or without. Any context.
    pub(crate) fn recv_slots(&self) -> u16 {
        u16::try_from(self.recv_slots.len()).unwrap_or(u16::MAX)
    }

    /// Octets of a receive buffer without its second half. Any context.
    pub(crate) fn recv_bytes(&self) -> usize {
        self.recv_buffers.bytes()
    }

    /// Octets of the next receive buffer that [`Self::add_buffer`] adds. Any context.
    pub(crate) fn added_bytes(&self) -> usize {
        if self.recv.lock().halves {
            self.recv_buffers.longest()
        } else {
            self.recv_buffers.bytes()
        }
    }

    /// Octets of a receive buffer with the second half that it has or may get. Any context.
    pub(crate) fn most_recv_bytes(&self) -> usize {
        if self.config.recv_halves {
            self.recv_buffers.longest()
        } else {
            self.recv_buffers.bytes()
        }
    }

    /// The number of the queue pair. Any context.
    pub(crate) fn qpn(&self) -> u32 {
        self.qpn.copy().unwrap_or(0)
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// In how many pieces a program may lend what is written by one request. Any context.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces
    }

    /// How many pieces of memory a message may be gathered from, besides its header: at most those of
    /// the configuration, and no more than the device allows. Context: any.
    pub(crate) fn gather_pieces(&self) -> usize {
        let with_header = self.pieces.saturating_sub(1);
        with_header.min(self.config.max_pieces.into())
    }

    /// Octets of memory of the buffers that messages are sent from and received in, once the channel is
    /// open. Context: any.
    pub(crate) fn buffer_bytes(&self) -> usize {
        let queue = self.send.lock();
        let sent_from = queue.path.as_ref().map_or(0, |path| path.messages.memory());
        sent_from.saturating_add(self.recv_buffers.memory())
    }

    /// May something be posted? Any context.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(crate) fn is_open(&self) -> bool {
        self.send.lock().path.is_some()
    }

    /// Whether the queue pair is gone, and all that its handlers use is given up. Sleeps.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(crate) fn is_over(&self) -> bool {
        self.verbs.lock().is_none()
    }

    /// Makes the device refuse to destroy the queue pair, or not any longer. Sleeps.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) fn hold_qp(&self, hold: bool) -> Result {
        self.with_qp(|qp| {
            qp.hold(hold);
            Ok(())
        })
    }

    /// What it did so far. Any context.
    pub(crate) fn counters(&self) -> Counters {
        Counters {
            posts: self.counters.posts.load(Relaxed),
            wrs: self.counters.wrs.load(Relaxed),
            cqes: self.counters.cqes.load(Relaxed),
            recvs: self.counters.recvs.load(Relaxed),
            write_bytes: self.counters.write_bytes.load(Relaxed),
            gathered_bytes: self.counters.gathered_bytes.load(Relaxed),
        }
    }

    /// The parameters.
    pub(super) fn config(&self) -> &ChannelConfig {
        &self.config
    }

    /// Runs `f` with the queue pair, if the channel is open. Context: may sleep.
    pub(super) fn with_qp<R>(&self, f: impl FnOnce(&Arc<Qp>) -> Result<R>) -> Result<R> {
        match &*self.verbs.lock() {
            Some(verbs) => f(&verbs.qp),
            None => Err(ESHUTDOWN),
        }
    }

    /// Connects to a peer; its messages are received from now on. Sleeps.
    pub(crate) fn to_rtr(&self, peer: &Peer) -> Result {
        let config = &self.config;
        self.with_qp(|qp| qp.to_rtr(config.port, config.gid_index, peer, &config.connection))
    }

    /// Makes sending possible; `sq_psn` is the sequence number of our first packet. Sleeps.
    pub(crate) fn to_rts(&self, sq_psn: u32) -> Result {
        self.with_qp(|qp| qp.to_rts(sq_psn, &self.config.connection))
    }

    /// Lets peers use `mr`, which then serves all channels of its protection domain. Does nothing if
    /// they may already. The channel must be able to send. Sleeps.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the device did not do it in time; the channel has failed then.
    pub(crate) fn activate(&self, mr: &Mr) -> Result {
        self.fast_reg().register(
            mr,
            |wr| {
                // SAFETY: One request with a handler. `register` waits for it, with the region and
                // what the request names.
                unsafe { self.post_alone(mr.pd(), wr) }
            },
            || self.fail(),
        )
    }

    /// The requests that are posted one at a time and waited for.
    pub(super) fn fast_reg(&self) -> Pin<&FastReg> {
        // SAFETY: The field is pinned with the channel, which is only made in an `Arc`.
        unsafe { Pin::new_unchecked(&self.fast_reg) }
    }

    /// Posts one request that belongs to no slot, on a region of `pd`.
    ///
    /// # Safety
    ///
    /// As for [`Qp::post_send`].
    pub(super) unsafe fn post_alone(
        &self,
        pd: &Arc<Pd>,
        wr: *const bindings::ib_send_wr,
    ) -> Result {
        let queue = self.send.lock();
        let path = queue.path.as_ref().ok_or(ESHUTDOWN)?;
        if !Arc::ptr_eq(path.qp.pd(), pd) {
            return Err(EINVAL);
        }
        // SAFETY: By this function's contract.
        unsafe { path.qp.post_send(wr) }.map_err(|(err, _)| err)
    }

    /// Takes a slot for sending and leaves `keep` slots to others. If there is none for this caller,
    /// [`ChannelOps::on_slot_free`] is called when one comes back. Any context.
    pub(crate) fn try_reserve(self: &Arc<Self>, keep: usize) -> Option<ReservedSlot<T>> {
        ReservedSlot::reserve(self, keep)
    }

    /// Gives one more receive slot its buffer, charged to `cgroup`, for the next
    /// [`Self::post_buffers`]. `on_free` is dropped with the buffer. Sleeps.
    ///
    /// # Errors
    ///
    /// `ESHUTDOWN` after a shutdown; `ENOSPC` if all slots have buffers; `ENOMEM` early, and above the
    /// limit of the cgroup; `ENODEV` if the device is being removed.
    pub(crate) fn add_buffer(&self, cgroup: &MemCgroup, on_free: Option<OnFree>) -> Result {
        let mut guard = self.verbs.lock();
        let Some(verbs) = &mut *guard else {
            return Err(ESHUTDOWN);
        };
        let index = verbs.buffers;
        let slot = self.recv_slot(index).ok_or(ENOSPC)?;
        // SAFETY: `verbs` is locked and there, so no shutdown has taken the handlers, and none does so
        // before this function ends.
        let handlers = unsafe { (*self.handlers.get()).as_ref() }.ok_or(ESHUTDOWN)?;
        let (buffers, mappings) = (&self.recv_buffers, &handlers.recv);
        let halves = self.recv.lock().halves;
        if halves {
            buffers.add_half(index, cgroup, None)?;
        }
        buffers.add(index, cgroup, on_free)?;
        // SAFETY: As in `build_recv`. The slot was in no queue so far, so that it has no other user.
        unsafe {
            buffers.map_added(mappings, index, &self.device, self.may_append())?;
            RecvSlot::build(slot, self, buffers, mappings, verbs.qp.pd().lkey())?;
        }
        verbs.buffers = index.saturating_add(1);
        let fits = self.recv.lock().idle.push_within_capacity(index).is_ok();
        debug_assert!(fits);
        Ok(())
    }

    /// Gives each receive buffer its second half, charged to `cgroup`. Those that are posted from now on have
    /// it. `count` makes what is dropped with each. Sleeps.
    ///
    /// # Errors
    ///
    /// All that are posted are as before then: `EINVAL` if the channel was not made for that; `ESHUTDOWN`
    /// after a shutdown; `ENOMEM` early, and above the limit of the cgroup; an error of `count`.
    pub(crate) fn extend_buffers(
        &self,
        cgroup: &MemCgroup,
        mut count: impl FnMut() -> Result<Option<OnFree>>,
    ) -> Result {
        let guard = self.verbs.lock();
        let Some(verbs) = &*guard else {
            return Err(ESHUTDOWN);
        };
        // SAFETY: `verbs` is locked and there, so no shutdown has taken the handlers, and none does so
        // before this function ends.
        let handlers = unsafe { (*self.handlers.get()).as_ref() }.ok_or(ESHUTDOWN)?;
        let (buffers, mappings) = (&self.recv_buffers, &handlers.recv);
        for index in 0..verbs.buffers {
            buffers.add_half(index, cgroup, count()?)?;
            // SAFETY: As in `build_recv`.
            unsafe { buffers.map_added(mappings, index, &self.device, self.may_append())? };
        }
        self.recv.lock().halves = true;
        Ok(())
    }

    /// Makes all requests fail, for a channel that is of no use any more. Sleeps.
    pub(crate) fn fail(&self) {
        if let Some(verbs) = &*self.verbs.lock() {
            self.broken.store(true, Relaxed);
            if let Err(err) = verbs.qp.to_error() {
                pr_err!(
                    "queue pair {}: no way to the error state ({})\n",
                    self.qpn(),
                    err.to_errno()
                );
            }
        }
    }

    /// Ends the channel. Sleeps; not to be called by a callback.
    ///
    /// All tags come back through [`ChannelOps::on_sent`] or were superseded, then nothing is called
    /// any longer, the queue pair is gone and the reference to the operations is given up. Can be
    /// called again; a second caller waits for the first.
    ///
    /// If the driver refuses to destroy the queue pair, its handlers may still run: the channel keeps
    /// itself with all that they use, and the device its lease, until another call succeeds.
    pub(crate) fn shutdown(&self) {
        let mut guard = self.verbs.lock();
        let Some(verbs) = &mut *guard else {
            return;
        };
        self.broken.store(true, Relaxed);
        let send = self.send.lock().path.take();
        let recv = self.recv.lock().qp.take();

        verbs.qp.drain();
        // SAFETY: May sleep. Ends all read sections that saw the path.
        unsafe { bindings::synchronize_rcu() };
        drop(recv);
        // The messages are still mapped while the queue pair exists.
        if let Some(path) = send {
            verbs.messages = Some(path.messages);
        }
        // SAFETY: The paths were taken under their locks, so nothing is posted, and all else that uses
        // the queue pair has `verbs` locked. If it is gone, it is dropped below.
        if let Err(err) = unsafe { verbs.qp.destroy() } {
            pr_err!(
                "queue pair {} could not be destroyed ({})\n",
                self.qpn(),
                err.to_errno()
            );
            return;
        }
        let Some(Verbs {
            qp, this, messages, ..
        }) = guard.take()
        else {
            return;
        };
        drop(qp);
        drop(messages);

        // SAFETY: By the type invariants it may be taken now: the paths were taken, a grace period and
        // all handlers have ended, the completion queues are freed, and `verbs` is locked.
        let handlers = unsafe { (*self.handlers.get()).take() };
        if let Some(ForHandlers { ops, .. }) = &handlers {
            for slot in &self.send_slots {
                // SAFETY: Slots keep something only while the device owns them, and the queue pair is
                // gone; the path is gone too, so `post` does not make them keep anything.
                let (tag, source) = unsafe { SendSlot::take(slot.get()) };
                drop(source);
                if let Some(tag) = tag {
                    ops.on_sent(tag, Err(WcStatus::FLUSHED));
                }
            }
        }
        drop(guard);
        // May end the user of the channel, and the channel itself.
        drop(handlers);
        drop(this);
    }
}
