// SPDX-License-Identifier: GPL-2.0

//! The link of a group: what completions of its queue pair mean.
//!
//! Source: RFC 7609 sections 3.3, 3.4, 4.7 (`SMCR-GEN-12`, `SMCR-CDC-30..32`).
//!
//! Everything here runs in softirq. CDC messages are handled at once, because they are the data
//! path; LLC messages and everything else that may sleep go through the [`Inbox`] to the group's
//! work item.

use crate::{
    kapi::{
        base::{
            sync::{
                new_spinlock_bh,
                SpinLockBh, //
            },
            time::coarse_now_ns, //
        },
        verbs::{
            channel::{
                Arriving,
                ChannelOps, //
            },
            device::Device,
            wc::WcStatus, //
        },
    },
    proto::{
        base::{
            queue::ArrayQueue,
            time::Instant, //
        },
        smc::{
            cdc,
            llc::{
                LinkSlot,
                LlcKind, //
            },
            wire::AlertToken, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Send slots that data leaves to LLC messages, which must get through on a busy link.
pub(crate) const LLC_SLOTS: u16 = 2;

/// Octets of a receive buffer. What is longer is an LLC message of version 2.
pub(crate) const RECV_BYTES: usize = 64;

/// First octet of a CDC message (RFC 7609 A.4).
const CDC_TYPE: u8 = 0xfe;

/// A connection as the completions of a link see it.
pub(crate) trait ChainOwner: Send + Sync {
    /// A CDC message for the connection arrived by a link. Context: softirq.
    fn on_cdc(self: Arc<Self>, msg: &cdc::Msg, link: LinkSlot);

    /// A chain came back from the link; `good` says that it was delivered. Runs in softirq, or in
    /// process context while the channel shuts down. Context: any.
    fn on_sent(self: Arc<Self>, token: cdc::Token, good: bool);

    /// It is the connection's turn to use a send slot. Returns whether there was none, and the
    /// connection waits again. The caller holds no lock. Context: any.
    fn on_turn(self: Arc<Self>) -> bool;
}

/// The link group as the completions of a link see it. Context: any.
pub(crate) trait LinkOwner: Send + Sync {
    /// Runs the work item that empties the inboxes soon.
    fn kick(self: Arc<Self>);

    /// The connection behind a token.
    fn chain_owner(&self, token: AlertToken) -> Option<Arc<dyn ChainOwner>>;

    /// The next connection, in turn, that waits for a send slot of a link.
    fn next_waiting(&self, slot: LinkSlot) -> Option<Arc<dyn ChainOwner>>;

    /// The connection that [`Self::next_waiting`] returned last has found no slot: it stays the
    /// next.
    fn keep_turn(&self);

    /// A work request failed by itself, that is, was not flushed behind another.
    fn on_request_failed(&self, status: WcStatus);
}

/// What a send slot carries until its completion.
pub(crate) enum Tag {
    /// Data and a CDC message of a connection.
    Cdc(Arc<dyn ChainOwner>, cdc::Token),
    /// An LLC message.
    Llc(LlcKind),
}

/// An LLC message. Those of version 1 have 44 octets, and most of version 2.
pub(crate) enum LlcMessage {
    Short([u8; 44]),
    Long(KVec<u8>),
}

impl LlcMessage {
    /// Its octets.
    pub(crate) fn octets(&self) -> &[u8] {
        match self {
            Self::Short(octets) => octets,
            Self::Long(octets) => octets,
        }
    }
}

/// What softirq leaves for the group's work item.
pub(crate) struct Inbox {
    /// LLC messages in order of arrival.
    pub(crate) received: ArrayQueue<LlcMessage, 32>,
    /// LLC sends that completed, and whether well.
    pub(crate) sent: ArrayQueue<(LlcKind, bool), 32>,
    /// The link is dead.
    pub(crate) broken: bool,
    /// A test of the link was requested.
    pub(crate) test: bool,
}

impl Inbox {
    const fn new() -> Self {
        Self {
            received: ArrayQueue::new(),
            sent: ArrayQueue::new(),
            broken: false,
            test: false,
        }
    }
}

/// A link, seen from the completions of its queue pair. The channel holds it until it is shut down.
#[pin_data]
pub(crate) struct LinkHandler {
    /// The link group.
    owner: Arc<dyn LinkOwner>,
    /// Slot of the link in the group.
    place: LinkSlot,
    /// LLC messages may be longer than 44 octets.
    has_long_messages: bool,
    /// Our device.
    pub(crate) device: Arc<Device>,
    /// Events that softirq leaves for the work item.
    #[pin]
    pub(crate) inbox: SpinLockBh<Inbox>,
    /// When something arrived last, by the coarse clock (`SMCR-KAL-01`).
    seen: Atomic<u64>,
    /// An LLC message has found no send slot.
    pub(crate) llc_waits: Atomic<bool>,
    /// How many connections have a [`LinkUse`](super::route::LinkUse).
    pub(crate) uses: Atomic<i32>,
}

impl LinkHandler {
    /// A link of the group `owner`. Context: may sleep.
    pub(crate) fn new(
        owner: Arc<dyn LinkOwner>,
        place: LinkSlot,
        device: &Arc<Device>,
        has_long_messages: bool,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                owner,
                place,
                has_long_messages,
                device: device.clone(),
                inbox <- new_spinlock_bh!(Inbox::new(), "rdma_sock_link_inbox"),
                seen: Atomic::new(0u64),
                llc_waits: Atomic::new(false),
                uses: Atomic::new(0i32),
            }),
            GFP_KERNEL,
        )
    }

    /// Its place in the group.
    pub(crate) fn slot(&self) -> LinkSlot {
        self.place
    }

    fn kick(&self) {
        self.owner.clone().kick();
    }

    /// When something arrived last. Context: any.
    pub(crate) fn seen(&self) -> Instant {
        Instant::from_nanos(self.seen.load(Relaxed))
    }

    /// How many connections write by it, or will. Context: any.
    pub(crate) fn uses(&self) -> i32 {
        self.uses.load(Relaxed)
    }

    /// Marks the link as dead; the work item of the group takes it down. Context: any.
    pub(crate) fn broke(&self) {
        self.inbox.lock().broken = true;
        self.kick();
    }

    /// Lets the link be tested now. Context: any.
    pub(crate) fn test(&self) {
        self.inbox.lock().test = true;
        self.kick();
    }

    /// Gives free send slots to waiting connections, in turn. The caller holds no lock.
    /// Context: any.
    pub(crate) fn serve_waiting(&self) {
        loop {
            let Some(member) = self.owner.next_waiting(self.place) else {
                break;
            };
            if member.on_turn() {
                // There are no more slots. The next that comes free is for the same one.
                self.owner.keep_turn();
                break;
            }
        }
    }

    fn receive_llc(&self, msg: Option<LlcMessage>) {
        {
            let mut inbox = self.inbox.lock();
            // Drop messages received after the link broke.
            if inbox.broken {
                return;
            }
            // A message that is too short, or a peer that floods, breaks its own link
            // (`SMCR-ERR-41`).
            let queued = msg.is_some_and(|msg| inbox.received.push(msg).is_ok());
            inbox.broken |= !queued;
        }
        self.kick();
    }

    /// An LLC message out of the buffer it arrived in.
    fn llc_message(&self, msg: &[u8]) -> Option<LlcMessage> {
        if let Ok(msg) = <[u8; 44]>::try_from(msg) {
            return Some(LlcMessage::Short(msg));
        }
        if !self.has_long_messages || msg.len() < 44 {
            return None;
        }
        let mut copy = KVec::with_capacity(msg.len(), GFP_ATOMIC).ok()?;
        copy.extend_from_slice(msg, GFP_ATOMIC).ok()?;
        Some(LlcMessage::Long(copy))
    }

    /// Copies a message that is longer than a receive buffer.
    fn receive_long(&self, msg: Arriving<'_, Self>) {
        let copy = KVec::from_elem(0, msg.len(), GFP_ATOMIC)
            .map_err(Error::from)
            .and_then(|mut copy| msg.read(0, &mut copy).map(|()| copy));
        drop(msg);
        match copy {
            // No CDC message is that long.
            Ok(copy) if copy.first() != Some(&CDC_TYPE) => {
                self.receive_llc(Some(LlcMessage::Long(copy)));
            }
            Ok(_) => self.broke(),
            Err(_) => self.on_broken(WcStatus::GENERAL),
        }
    }

    fn receive_cdc(&self, msg: &[u8]) {
        let Ok(msg) = cdc::Msg::parse(msg) else {
            self.broke();
            return;
        };
        // A token of no live connection is a late message of one that ended (`SMCR-CDC-36`).
        if let Some(member) = self.owner.chain_owner(msg.token) {
            member.on_cdc(&msg, self.slot());
        }
    }
}

impl ChannelOps for LinkHandler {
    type Tag = Tag;

    fn on_sent(&self, tag: Tag, result: Result<(), WcStatus>) {
        match tag {
            Tag::Cdc(member, token) => member.on_sent(token, result.is_ok()),
            Tag::Llc(kind) => {
                {
                    let mut inbox = self.inbox.lock();
                    if inbox.sent.push((kind, result.is_ok())).is_err() {
                        inbox.broken = true;
                    }
                }
                self.kick();
            }
        }
    }

    fn supersedes(later: &Tag, earlier: &Tag) -> bool {
        match (later, earlier) {
            (Tag::Cdc(one, later), Tag::Cdc(other, earlier)) => {
                // The table of methods may exist more than once; the object does not.
                core::ptr::addr_eq(&raw const **one, &raw const **other)
                    && later.supersedes(*earlier)
            }
            _ => false,
        }
    }

    fn on_received(&self, msg: Arriving<'_, Self>) {
        self.seen.store(coarse_now_ns(), Relaxed);
        let mut buffer = [0; RECV_BYTES];
        let Some(octets) = buffer.get_mut(..msg.len()) else {
            return self.receive_long(msg);
        };
        if msg.read(0, octets).is_err() {
            return self.broke();
        }
        // Posted again first: the peer may answer to what is done now.
        drop(msg);
        match octets.first() {
            Some(&CDC_TYPE) => self.receive_cdc(octets),
            _ => self.receive_llc(self.llc_message(octets)),
        }
    }

    fn on_slot_free(&self) {
        self.serve_waiting();
        // LLC messages may wait too.
        if self.llc_waits.load(Relaxed) {
            self.kick();
        }
    }

    fn on_slot_unused(&self) {
        self.kick();
    }

    fn on_broken(&self, status: WcStatus) {
        // The completion of a flushed request has no reason.
        if status != WcStatus::FLUSHED {
            self.owner.on_request_failed(status);
        }
        self.broke();
    }
}
