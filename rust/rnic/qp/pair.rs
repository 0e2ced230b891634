// SPDX-License-Identifier: GPL-2.0

//! A queue pair and its protocol state.

use super::{
    batch::CompletionBatch,
    inbox::{
        leave,
        Arrived,
        PacketInbox, //
    },
    late_writes::LateWrites,
    queues::{
        empty_places,
        PostedSends,
        Send, //
    },
    rings::UserQueues,
    settings::QpSettings, //
};
use crate::{
    kapi::{
        base::{
            alarm::{
                Alarm,
                Expire, //
            },
            module::random_u32,
            sync::{
                new_spinlock_bh,
                SpinLockBh, //
            },
            work::{
                new_deferred,
                Deferred,
                Kicked,
                Run, //
            },
        },
        compat::{
            new_spinlock_irq,
            SpinLockIrq, //
        },
        ibdev::{
            AddressVector,
            IbQpType,
            QpCaps,
            QpHandle,
            QpInit,
            QpRecord,
            RecvWr, //
        },
        net::{
            packet::{
                NetHeader,
                RxPacket, //
            },
            send_room::{
                AwaitRoom,
                SendRoom, //
            },
            sender::Sender, //
        },
    },
    proto::{
        base::{
            time::Instant,
            verbs::{
                Mtu,
                Qpn, //
            },
        },
        roce::{
            opcode::Service,
            requester::{
                Requester,
                SendRecord, //
            },
            responder::{
                Resource,
                Responder, //
            },
            state::{
                Posting,
                QpState, //
            },
        },
    },
    rnic::{
        counters::Counter,
        cq::CompletionQueue,
        direct_packet::DirectPacket,
        domain::Domain,
        lender::Lender,
        numbers::PacketReceiver,
        path::ProvenPath,
        profile::Profile,
        receives::PostedReceives,
        region::PairTag,
        srq::SharedQueue,
        wire::{
            Egress,
            Outlet,
            PeerPath, //
        },
    },
};
use core::sync::atomic::{
    AtomicBool,
    Ordering, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The number of the general services interface.
const GSI: u32 = 1;

/// The protocol state of a queue pair.
pub(super) struct Core {
    /// State.
    pub(super) state: QpState,
    /// Attributes as they were set.
    pub(super) record: QpRecord,
    /// Sending half, from state RTS on.
    pub(super) requester: Option<Requester<KVVec<SendRecord>>>,
    /// Receiving half of a connection, from state RTR on.
    pub(super) responder: Option<Responder<KVVec<Resource>>>,
    /// Queues of user space.
    pub(super) rings: Option<UserQueues>,
    /// Send work requests that were taken, by the place of their number.
    pub(super) taken: KVVec<Option<Send>>,
    /// The receive work request of the message that arrives.
    pub(super) receiving: Option<RecvWr>,
    /// Room for a piece of what the peer lends.
    pub(super) piece: KVec<u8>,
    /// The way to the peer of a connection.
    pub(super) to: Option<AddressVector>,
    /// The last change of what a way depends on, if the own address was there after it.
    pub(super) addressed: Option<u64>,
    /// The last change of what a way depends on, and whether the peer's address was one of this namespace
    /// after it.
    pub(super) near: Option<(u64, bool)>,
    /// Queue pair of the peer.
    pub(super) peer: Qpn,
    /// UDP source port.
    pub(super) port: u16,
    /// Path MTU of a connection, MTU of the port otherwise.
    pub(super) mtu: Mtu,
    /// Key of a queue pair for datagrams.
    pub(super) qkey: u32,
    /// Identification of the next packet of IPv4.
    pub(super) ident: u16,
    /// The time that the timer is armed for.
    pub(super) armed: Option<Instant>,
    /// When a queue pair of user space entered state ERR.
    pub(super) failed: Option<Instant>,
    /// Until when nothing is sent, but for a proof of the way.
    pub(super) held: Option<Instant>,
    /// Octets of the peer that are not placed so far.
    pub(super) late: LateWrites,
    /// Completions of send and receive requests. None waits when the lock is released.
    pub(super) sent: CompletionBatch,
    pub(super) received: CompletionBatch,
    /// Whether the send queue is being drained.
    pub(super) draining: bool,
    /// Whether the program has asked for an event at the end of that (RNIC-QPS-05).
    pub(super) reports_drained: bool,
    /// Whether the end of receives from a shared queue was reported.
    pub(super) last_receive: bool,
    /// Whether it is destroyed.
    pub(super) dead: bool,
}

impl Core {
    /// That of a queue pair in state Reset, with room for the work requests that it will have taken.
    // Inlined, for the sake of the stack: it is large.
    #[inline(always)]
    fn new(rings: Option<UserQueues>, taken: KVVec<Option<Send>>, batch: bool) -> Self {
        Self {
            rings,
            state: QpState::Reset,
            record: QpRecord::new(),
            requester: None,
            responder: None,
            taken,
            receiving: None,
            piece: KVec::new(),
            to: None,
            addressed: None,
            near: None,
            peer: Qpn::new(0),
            port: 0,
            mtu: Mtu::M256,
            qkey: 0,
            ident: ident(),
            armed: None,
            failed: None,
            held: None,
            late: LateWrites::new(),
            sent: CompletionBatch::new(batch),
            received: CompletionBatch::new(batch),
            draining: false,
            reports_drained: false,
            last_receive: false,
            dead: false,
        }
    }
}

/// A queue pair.
#[pin_data]
pub(crate) struct QueuePair {
    pub(super) handle: QpHandle,
    pub(super) domain: Arc<Domain>,
    /// What windows of type 2 know of it.
    pub(super) tag: Arc<PairTag>,
    pub(super) kind: IbQpType,
    /// Its number.
    pub(super) number: Qpn,
    pub(super) caps: QpCaps,
    /// Whether all sends generate completions.
    pub(super) signal_all: bool,
    pub(super) send_cq: Arc<CompletionQueue>,
    pub(super) recv_cq: Arc<CompletionQueue>,
    /// The shared receive queue, in place of `receives`.
    pub(super) srq: Option<Arc<SharedQueue>>,
    /// The timer has expired.
    pub(super) expired: AtomicBool,
    #[pin]
    pub(super) sends: SpinLockIrq<PostedSends>,
    #[pin]
    pub(super) receives: SpinLockIrq<PostedReceives>,
    /// What the peer may copy of the send requests.
    pub(super) lender: Arc<Lender>,
    #[pin]
    pub(super) inbox: SpinLockBh<PacketInbox>,
    #[pin]
    pub(super) path: SpinLockBh<ProvenPath>,
    /// What the network of this host may hold of its packets (RNIC-REQ-16).
    #[pin]
    pub(super) room: SendRoom<QueuePair>,
    #[pin]
    pub(super) core: SpinLockBh<Core>,
    #[pin]
    pub(super) config: Mutex<QpSettings>,
    #[pin]
    pub(super) work: Deferred<QueuePair>,
    /// Runs the work item for the timer.
    #[pin]
    pub(super) retry: Deferred<QueuePair, 1>,
    #[pin]
    pub(super) alarm: Alarm<QueuePair>,
}

impl QueuePair {
    /// Makes a queue pair and lists it. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for sizes beyond the limits, `EEXIST` for a second general services interface, `ENOMEM`.
    // A frame of its own: that of its caller holds what is asked for.
    #[inline(never)]
    pub(crate) fn create(
        init: QpInit<Domain, CompletionQueue, SharedQueue>,
    ) -> Result<(Arc<Self>, u32)> {
        let caps = if init.handle.rings().is_some() {
            init.caps
        } else {
            checked(init.caps, init.srq.is_some(), init.pd.node.profile())?
        };
        let node = init.pd.node.clone();
        let numbers = node.runtime().numbers();
        let reserved = if init.kind == IbQpType::Gsi {
            None
        } else {
            Some(numbers.reserve()?)
        };
        let number = reserved.unwrap_or(GSI);
        let made = Self::new(init, caps, Qpn::new(number)).and_then(|pair| {
            if reserved.is_none() {
                node.set_gsi(pair.clone())?;
            }
            Ok(pair)
        });
        match (made, reserved) {
            (Ok(pair), reserved) => {
                if let Some(number) = reserved {
                    numbers.set(number, pair.clone());
                }
                Ok((pair, number))
            }
            (Err(err), reserved) => {
                if let Some(number) = reserved {
                    numbers.remove(number);
                }
                Err(err)
            }
        }
    }

    // Not inlined, for the sake of the stack.
    #[inline(never)]
    fn new(
        init: QpInit<Domain, CompletionQueue, SharedQueue>,
        caps: QpCaps,
        number: Qpn,
    ) -> Result<Arc<Self>> {
        let sends = usize::try_from(caps.max_send_wr)?;
        let receives = usize::try_from(caps.max_recv_wr)?;
        let rings = match init.handle.rings() {
            Some(rings) => Some(UserQueues::new(rings, caps, service_of(init.kind))?),
            None => None,
        };
        // User space posts to its rings only.
        let places = if rings.is_some() {
            (0, 0)
        } else {
            (sends, receives)
        };
        let tag = Arc::new(PairTag, GFP_KERNEL)?;
        let send_queue = PostedSends::new(places.0)?;
        let recv_queue = PostedReceives::new(places.1)?;
        let taken = empty_places(sends)?;
        let sender = Sender::open(init.pd.node.runtime().timers())?;
        let lender = Lender::new(&init.pd)?;
        let paths = *init.pd.node.runtime().paths();
        Arc::pin_init(
            pin_init!(Self {
                handle: init.handle,
                domain: init.pd,
                tag,
                kind: init.kind,
                number,
                caps,
                signal_all: init.signal_all,
                send_cq: init.send_cq,
                recv_cq: init.recv_cq,
                srq: init.srq,
                expired: AtomicBool::new(false),
                sends <- new_spinlock_irq!(send_queue, "rdma_soft_sends"),
                receives <- new_spinlock_irq!(recv_queue, "rdma_soft_receives"),
                lender,
                inbox <- new_spinlock_bh!(PacketInbox::new(), "rdma_soft_inbox"),
                path <- new_spinlock_bh!(ProvenPath::new(), "rdma_soft_path"),
                room <- SendRoom::new(sender),
                core <- new_spinlock_bh!(Core::new(rings, taken, paths.batch), "rdma_soft_qp"),
                config <- new_mutex!(QpSettings::new(), "rdma_soft_config"),
                work <- new_deferred!("rdma_soft_actor", paths.inline),
                retry <- new_deferred!("rdma_soft_retry"),
                alarm <- Alarm::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// What pays for its packets, and counts them.
    pub(super) fn egress(&self) -> Egress<'_> {
        Egress {
            sender: self.room.sender(),
            checksum: self.domain.node.runtime().checksum(),
            together: self.domain.node.runtime().paths().together,
            counters: self.domain.node.counters(),
        }
    }

    /// The service of its packets.
    pub(super) fn service(&self) -> Service {
        service_of(self.kind)
    }

    /// Takes the next send work request.
    pub(super) fn next_send(&self, core: &mut Core) -> Option<Send> {
        match &mut core.rings {
            Some(_) if core.state.post_send() == Posting::Refuse => None,
            Some(rings) => rings.sends.take(&self.domain),
            None => self.sends.lock().take(),
        }
    }

    /// Frees the places of the oldest send work requests.
    pub(super) fn release_sends(&self, core: &mut Core, count: u64) {
        match &mut core.rings {
            Some(rings) => rings.sends.release(count),
            None => self.sends.lock().release(count),
        }
    }

    /// Takes the next receive work request of the queue pair's own queue.
    pub(super) fn next_receive(&self, core: &mut Core) -> Option<RecvWr> {
        match &mut core.rings {
            Some(rings) => rings.receives.as_mut()?.take(),
            None => self.receives.lock().take(),
        }
    }

    /// Takes the oldest receive request if `check`, which sees it, agrees (RNIC-SRQ-02).
    ///
    /// # Errors
    ///
    /// That of `check`.
    pub(super) fn take_receive_if<T, E>(
        &self,
        core: &mut Core,
        check: impl FnOnce(Option<&RecvWr>) -> Result<T, E>,
    ) -> Result<(Option<RecvWr>, T), E> {
        if let Some(srq) = &self.srq {
            return srq.take_if(check);
        }
        let rings = core.rings.as_mut();
        if let Some(receives) = rings.and_then(|rings| rings.receives.as_mut()) {
            let checked = check(receives.peek())?;
            return Ok((receives.take(), checked));
        }
        let mut receives = self.receives.lock();
        let checked = check(receives.peek())?;
        Ok((receives.take(), checked))
    }

    /// The domain that the memory of receive requests belongs to (RNIC-SRQ-02).
    pub(super) fn receive_domain(&self) -> &Domain {
        match &self.srq {
            Some(srq) => srq.domain(),
            None => &self.domain,
        }
    }

    /// Leaves a packet to the work item. Returns whether there was a place.
    fn enqueue(&self, arrived: Arrived) -> bool {
        leave(&self.inbox, arrived, self.domain.node.counters())
    }

    /// Runs the work item for a post: at once, if the caller's context allows that (RNIC-RUN-03).
    /// Context: any.
    pub(super) fn kick_here(self: &Arc<Self>) {
        let runtime = self.domain.node.runtime();
        let queue = runtime.runs();
        if !runtime.paths().inline {
            self.work.kick(self, queue);
            return self.count(Counter::QueuedPosts);
        }
        match self.work.kick_here(self, queue) {
            Kicked::Here => self.count(Counter::InlinePosts),
            Kicked::Later => self.count(Counter::QueuedPosts),
            Kicked::Woke => {
                self.count(Counter::QueuedPosts);
                self.count(Counter::SoftirqWakes);
            }
        }
    }

    /// Runs the work item soon. Context: any.
    pub(super) fn kick(self: &Arc<Self>) {
        self.work.kick(self, self.domain.node.runtime().runs());
    }
}

impl PacketReceiver for QueuePair {
    fn receive(&self, packet: RxPacket, header: NetHeader) -> bool {
        let netdev = self.domain.node.netdev();
        if !netdev.is_some_and(|netdev| packet.reaches(&netdev)) {
            self.count(Counter::DropNetdev);
            return false;
        }
        self.enqueue(Arrived::Packet(packet, header))
    }

    fn handle(self: Arc<Self>, packets: u32) {
        if packets > 1 {
            self.count(Counter::ReceivedRuns);
        }
        self.kick();
    }

    fn receive_direct(&self, packet: KBox<DirectPacket>) -> bool {
        self.enqueue(Arrived::Direct(packet))
    }

    fn note_arrival(self: Arc<Self>, packet: &RxPacket, at: Qpn) {
        if self.confirm(packet, at) {
            self.kick();
        }
    }

    fn wake(self: Arc<Self>) {
        self.kick();
    }
}

/// The service of the packets of a type.
const fn service_of(kind: IbQpType) -> Service {
    match kind {
        IbQpType::Rc => Service::Rc,
        IbQpType::Uc => Service::Uc,
        IbQpType::Ud | IbQpType::Gsi => Service::Ud,
    }
}

/// Sizes that the device has. A shared receive queue replaces the queue pair's own (RNIC-QPS-08).
fn checked(caps: QpCaps, shares: bool, profile: &Profile) -> Result<QpCaps> {
    let caps = if shares {
        QpCaps {
            max_recv_wr: 0,
            max_recv_sge: 0,
            ..caps
        }
    } else {
        caps
    };
    if caps.max_send_wr > profile.max_qp_wr
        || caps.max_recv_wr > profile.max_qp_wr
        || caps.max_send_sge > profile.max_sge
        || caps.max_recv_sge > profile.max_sge
        || caps.max_inline > profile.max_inline
    {
        return Err(EINVAL);
    }
    Ok(QpCaps {
        max_inline: profile.max_inline,
        ..caps
    })
}

/// A random identification.
fn ident() -> u16 {
    let [a, b, ..] = random_u32().to_ne_bytes();
    u16::from_ne_bytes([a, b])
}

impl Expire for QueuePair {
    fn expired(self: &Arc<Self>) {
        self.expired.store(true, Ordering::Release);
        let queue = self.domain.node.runtime().timers();
        self.retry.kick(self, queue);
    }
}

impl AwaitRoom for QueuePair {
    fn room(self: &Arc<Self>) {
        self.kick();
    }
}

impl Run<1> for QueuePair {
    fn run(this: Arc<Self>) {
        this.kick_here();
    }
}

impl Core {
    /// The way to the peer of a connection, while its address is there.
    pub(super) fn way<'a>(
        &'a self,
        egress: Egress<'a>,
        outlet: Outlet<'a>,
    ) -> Option<PeerPath<'a>> {
        let near = self.near.is_some_and(|(_, near)| near);
        PeerPath::new(self.to.as_ref()?, self.port, egress, outlet, near)
    }
}
