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
//! message buffers, the operations and the channel's reference to itself are given up. If the device
//! does not give the queue pair up, all of these stay with it.

use super::{
    cq::Cq,
    device::Device,
    fast_reg::FastReg,
    messages::{
        Messages,
        BUFFER_BYTES,
        MESSAGE_LEN, //
    },
    mr::Mr,
    pd::Pd,
    posted::Posted,
    qp::{
        Depth,
        Qp, //
    },
    slot::{
        RecvPath,
        RecvQueue,
        RecvSlot,
        SendPath,
        SendQueue,
        SendSlot,
        WRS_PER_SLOT, //
    },
    wc::WcStatus, //
};
use crate::{
    bindings,
    kapi::mem::lent::MAX_PIECES, //
};
use core::cell::UnsafeCell;
use kernel::{
    new_mutex, new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc,
        Mutex,
        SetOnce,
        SpinLockIrq, //
    },
};

pub(crate) use super::{
    qp::Peer,
    slot::{
        Slot,
        Source,
        Write,
        MAX_WRITES, //
    },
};

/// Most receive requests that are posted again at once.
const MAX_BATCH: u16 = 16;
/// Requests besides those of the slots: one registration, and one for draining.
const EXTRA_WRS: u32 = 2;

/// What a channel tells its user.
///
/// All functions are called in softirq, or in the process that shuts the channel down. They must not
/// sleep. No lock of the channel is held, so they may reserve and post.
pub(crate) trait ChannelOps: Send + Sync + 'static {
    /// What is known of a message that was posted.
    type Tag: Send + 'static;

    /// The message of `tag`, and the writes in front of it, are done: the peer's device has them, or
    /// it is not known whether it has. Tags come in the order of their messages, except at the end.
    fn on_sent(&self, tag: Self::Tag, result: Result<(), WcStatus>);

    /// Whether [`Self::on_sent`] need not be called for `earlier`, because it will be for `later` with
    /// the same result. Any context.
    fn supersedes(later: &Self::Tag, earlier: &Self::Tag) -> bool;

    /// A message arrived; it is a private copy of at most 64 octets.
    fn on_received(&self, msg: &[u8]);

    /// A longer message arrived, on a channel that takes them.
    fn on_received_long(&self, msg: KVec<u8>);

    /// There is a free slot, after one was wanted in vain: its message has completed.
    fn on_slot_free(&self);

    /// The same, but the slot was given back unused. Called by whoever did that, with whatever locks
    /// held, so it must not reserve a slot itself.
    fn on_slot_unused(&self);

    /// The channel does not work any more. Called at most once, and not because of
    /// [`Channel::fail`] or [`Channel::shutdown`].
    fn on_broken(&self, status: WcStatus);
}

/// Properties of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Port of the device.
    pub(crate) port: u32,
    /// Index of our address in the GID table of the port.
    pub(crate) gid_index: u8,
    /// Messages that can be on their way.
    pub(crate) send_slots: u16,
    /// Messages that can arrive before any is handled. The peer must not have more on their way.
    pub(crate) recv_slots: u16,
    /// Octets of the longest message, if there are some of more than 44 to be sent, or of more than
    /// 64 to be received; else 0.
    pub(crate) long_bytes: u16,
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
}

/// The running numbers behind [`Counters`].
pub(super) struct Running {
    posts: Atomic<u64>,
    wrs: Atomic<u64>,
    cqes: Atomic<u64>,
    recvs: Atomic<u64>,
    write_bytes: Atomic<u64>,
}

impl Running {
    fn new() -> Self {
        Self {
            posts: Atomic::new(0),
            wrs: Atomic::new(0),
            cqes: Atomic::new(0),
            recvs: Atomic::new(0),
            write_bytes: Atomic::new(0),
        }
    }

    pub(super) fn on_post(&self, writes: &[Write]) {
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

    pub(super) fn on_receive(&self) {
        self.recvs.add(1u64, Relaxed);
    }
}

/// What a channel has while its queue pair exists.
struct Verbs<T: ChannelOps> {
    qp: Arc<Qp>,
    /// Keeps the channel for its handlers.
    this: Arc<Channel<T>>,
    /// Buffers of the paths, once these were taken.
    messages: [Option<Messages>; 2],
}

/// A connection to a peer. After [`Self::shutdown`] it may be dropped in any context.
///
/// # Invariants
///
/// - While a queue pair of this channel exists, `verbs` holds it (or [`Self::new`] or
///   [`Self::shutdown`] is at work), and so the channel exists.
/// - `ops` is set until `shutdown` has taken the paths and a grace period, all handlers and the
///   completion queues have ended.
/// - A slot is accessed only by its owner, as in the description of the slots.
#[pin_data]
pub(crate) struct Channel<T: ChannelOps> {
    pub(super) device: Arc<Device>,
    /// Pieces of memory that a request can be read from.
    pieces: usize,
    config: Config,
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
    recv_slots: KVVec<UnsafeCell<RecvSlot<T>>>,
    ops: UnsafeCell<Option<Arc<T>>>,
    /// The user knows already that it does not work.
    broken: Atomic<bool>,
    pub(super) counters: Running,
}

// SAFETY: `ops` is `Send` and `Sync` and accessed as the type invariants say, slots are only accessed
// by their owner and hold tags and buffers, which are `Send`.
unsafe impl<T: ChannelOps> Send for Channel<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: ChannelOps> Sync for Channel<T> {}

impl<T: ChannelOps> Channel<T> {
    /// Creates a channel with its receive requests posted. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device cannot hold that many requests; `ENODEV` if it is being removed.
    pub(crate) fn new(pd: &Arc<Pd>, config: &Config, ops: Arc<T>) -> Result<Arc<Self>> {
        let device = pd.device();
        let batch = (config.recv_slots / 4).clamp(1, MAX_BATCH);
        // Those that wait for their batch are not posted.
        let recvs = config.recv_slots.checked_add(batch - 1).ok_or(EINVAL)?;
        let most = u32::try_from(MAX_PIECES)?;
        let pieces = device.max_send_sge().clamp(1, most);
        let depth = Depth {
            send: u32::from(config.send_slots) * WRS_PER_SLOT + EXTRA_WRS,
            recv: u32::from(recvs) + EXTRA_WRS,
            inline: MESSAGE_LEN,
            send_sges: pieces,
            recv_sges: 1 + u32::from(config.long_bytes != 0),
        };
        if config.send_slots == 0
            || config.recv_slots == 0
            || depth.send.max(depth.recv) > device.max_qp_wr().min(device.max_cqe())
        {
            return Err(EINVAL);
        }

        let mut send_slots = KVVec::with_capacity(config.send_slots.into(), GFP_KERNEL)?;
        let mut free = KVec::with_capacity(config.send_slots.into(), GFP_KERNEL)?;
        for index in 0..config.send_slots {
            send_slots.push(SendSlot::new(index), GFP_KERNEL)?;
            free.push(index, GFP_KERNEL)?;
        }
        let mut recv_slots = KVVec::with_capacity(recvs.into(), GFP_KERNEL)?;
        let mut idle = KVec::with_capacity(recvs.into(), GFP_KERNEL)?;
        for index in 0..recvs {
            recv_slots.push(RecvSlot::new(index), GFP_KERNEL)?;
            idle.push(index, GFP_KERNEL)?;
        }

        let pieces = usize::try_from(pieces)?;
        // INVARIANT: There is no queue pair yet.
        let posted = Posted::new(config.send_slots.into())?;
        let this = Arc::pin_init(
            pin_init!(Self {
                device: device.clone(),
                pieces,
                config: *config,
                qpn: SetOnce::new(),
                verbs <- new_mutex!(None, "rdma_sock_channel"),
                send <- new_spinlock_irq!(
                    SendQueue { path: None, free, posted, wanted: false, long_out: false },
                    "rdma_sock_send_queue"
                ),
                recv <- new_spinlock_irq!(
                    RecvQueue { path: None, idle, batch: batch.into() },
                    "rdma_sock_recv_queue"
                ),
                fast_reg <- FastReg::new(),
                send_slots,
                recv_slots,
                ops: UnsafeCell::new(Some(ops)),
                broken: Atomic::new(false),
                counters: Running::new(),
            }),
            GFP_KERNEL,
        )?;
        let qp = Qp::new(
            pd,
            Cq::new(pd, depth.send)?,
            Cq::new(pd, depth.recv)?,
            depth,
        )?;
        // From here on everything is undone by `shutdown`.
        *this.verbs.lock() = Some(Verbs {
            qp: qp.clone(),
            this: this.clone(),
            messages: [None, None],
        });
        match this.open(pd, qp) {
            Ok(()) => Ok(this),
            Err(err) => {
                this.shutdown();
                Err(err)
            }
        }
    }

    /// Makes the new queue pair ready for posting.
    fn open(&self, pd: &Pd, qp: Arc<Qp>) -> Result {
        let lkey = pd.lkey();
        let long = usize::from(self.config.long_bytes);
        let send = SendPath {
            qp: qp.clone(),
            messages: Messages::for_sending(&self.device, self.send_slots.len(), long)?,
        };
        for slot in &self.send_slots {
            // SAFETY: The slots do not move any more, and nobody else uses them before the path is
            // there.
            unsafe { SendSlot::build(slot.get(), self, &send, lkey)? };
        }
        let recv = RecvPath {
            qp: qp.clone(),
            messages: Messages::for_receiving(&self.device, self.recv_slots.len(), long)?,
        };
        for slot in &self.recv_slots {
            // SAFETY: As above.
            unsafe { RecvSlot::build(slot.get(), self, &recv, lkey)? };
        }
        self.qpn.populate(qp.number());
        qp.to_init(self.config.port)?;
        {
            let mut queue = self.recv.lock();
            queue.path = Some(recv);
            self.post_idle(&mut queue)?;
        }
        self.send.lock().path = Some(send);
        Ok(())
    }

    /// A send slot.
    pub(super) fn send_slot(&self, index: u16) -> Option<*mut SendSlot<T>> {
        Some(self.send_slots.get(usize::from(index))?.get())
    }

    /// A receive slot.
    pub(super) fn recv_slot(&self, index: u16) -> Option<*mut RecvSlot<T>> {
        Some(self.recv_slots.get(usize::from(index))?.get())
    }

    /// Octets of the longest message that a receive request has room for.
    pub(super) fn longest(&self) -> usize {
        BUFFER_BYTES + usize::from(self.config.long_bytes)
    }

    /// The operations, for completion handlers.
    ///
    /// # Safety
    ///
    /// Called, and the result used, only in a handler of this channel's completion queues.
    pub(super) unsafe fn ops_in_handler(&self) -> &T {
        // SAFETY: By the type invariants `ops` is set and does not change while handlers run.
        unsafe { (*self.ops.get()).as_deref().unwrap_unchecked() }
    }

    /// Calls `f` with the operations, if the channel is open, so that a shutdown waits for its end.
    /// `f` must not sleep.
    pub(super) fn while_open(&self, f: impl FnOnce(Option<&T>, &SpinLockIrq<SendQueue>)) {
        let _guard = rcu::read_lock();
        let open = self.send.lock().path.is_some();
        let ops = if open {
            // SAFETY: The path was still there in this read section. By the type invariants `ops` is
            // set and does not change before a grace period has ended since it was taken.
            unsafe { (*self.ops.get()).as_deref() }
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
        }
    }

    /// Runs `f` with the queue pair, if the channel is open.
    fn with_qp<R>(&self, f: impl FnOnce(&Arc<Qp>) -> Result<R>) -> Result<R> {
        match &*self.verbs.lock() {
            Some(verbs) => f(&verbs.qp),
            None => Err(ESHUTDOWN),
        }
    }

    /// Connects to a peer; its messages are received from now on. Sleeps.
    pub(crate) fn to_rtr(&self, peer: &Peer) -> Result {
        self.with_qp(|qp| qp.to_rtr(self.config.port, self.config.gid_index, peer))
    }

    /// Makes sending possible; `sq_psn` is the sequence number of our first packet. Sleeps.
    pub(crate) fn to_rts(&self, sq_psn: u32) -> Result {
        self.with_qp(|qp| qp.to_rts(sq_psn))
    }

    /// Lets peers use `mr`, which then serves all channels of its protection domain. Does nothing if
    /// they may already. The channel must be able to send. Sleeps.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the device did not do it in time; the channel has failed then.
    pub(crate) fn activate(&self, mr: &Mr) -> Result {
        // SAFETY: `fast_reg` is pinned as a field of the channel, which is only made in an `Arc`.
        let fast_reg = unsafe { Pin::new_unchecked(&self.fast_reg) };
        fast_reg.register(
            mr,
            |wr| {
                let queue = self.send.lock();
                let path = queue.path.as_ref().ok_or(ESHUTDOWN)?;
                if !Arc::ptr_eq(path.qp.pd(), mr.pd()) {
                    return Err(EINVAL);
                }
                // SAFETY: One request with a handler. `register` waits for it, with the region and
                // what the request names.
                unsafe { path.qp.post_send(wr) }.map_err(|(err, _)| err)
            },
            || self.fail(),
        )
    }

    /// Takes a slot for sending and leaves `keep` slots to others. If there is none for this caller,
    /// [`ChannelOps::on_slot_free`] is called when one comes back. Any context.
    pub(crate) fn try_reserve(self: &Arc<Self>, keep: usize) -> Option<Slot<T>> {
        Slot::reserve(self, keep)
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
        let recv = self.recv.lock().path.take();

        verbs.qp.drain();
        // SAFETY: May sleep. Ends all read sections that saw the path.
        unsafe { bindings::synchronize_rcu() };
        // The messages are still mapped while the queue pair exists.
        for (kept, path) in verbs.messages.iter_mut().zip([
            send.map(|path| path.messages),
            recv.map(|path| path.messages),
        ]) {
            if path.is_some() {
                *kept = path;
            }
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
        let Some(Verbs { qp, this, messages }) = guard.take() else {
            return;
        };
        drop(qp);
        drop(messages);

        // SAFETY: By the type invariants `ops` may be taken now: the paths were taken, a grace period
        // and all handlers have ended, the completion queues are freed, and `verbs` is locked.
        let ops = unsafe { (*self.ops.get()).take() };
        if let Some(ops) = &ops {
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
        drop(ops);
        drop(this);
    }
}
