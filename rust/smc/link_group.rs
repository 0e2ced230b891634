// SPDX-License-Identifier: GPL-2.0

//! Link groups: the set of links, RMBs and connections shared with one peer.
//!
//! Source: RFC 7609 sections 2.2, 3.5 (`SMCR-LGR-01..26`).
//!
//! Life: a group is made [`Phase::Forming`] by the handshake of its first connection, becomes
//! [`Phase::Ready`] when the LLC side says so, and ends [`Phase::Dead`]: out of the registry, its
//! connections broken, its verbs objects gone. A dead group never comes back.
//!
//! Locks, in order: `Connection::handshake`, [`LinkGroup::inner`], `Engine::groups`, then the
//! spinlocks (`Connection::data`, [`LinkGroup::tokens`], [`LinkGroup::inbox`]), none of which is
//! held while another of them is taken, except that `data` may be held when the others are.

use super::{
    connection::Connection,
    device::Path,
    link::{
        Inbox,
        Link, //
    },
    llc::LlcGroup,
    offer::PeerElement,
    rmb::{
        Known,
        Rmb,
        Rmbe,
        FIRST_ELEMENTS,
        MORE_ELEMENTS, //
    },
    tokens::{
        Tokens,
        MAX_CONNECTIONS, //
    },
    Engine, //
};
use crate::{
    kapi::{
        mem::region::PeerMemory,
        rdma::{
            channel::{
                Channel,
                Config as ChannelConfig,
                Peer as ChannelPeer, //
            },
            device::Device,
            mr::Mr,
            pd::Pd, //
        },
        sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
        work::{
            new_deferred,
            Deferred, //
        },
    },
    proto::{
        llc::{
            Kind,
            PeerLink,
            PeerRmbId,
            RmbId,
            Role,
            Slot, //
        },
        ring::ArrayQueue,
        time::{
            Duration,
            Instant, //
        },
        wire::{
            BufSize,
            Gid,
            Mac,
            Mtu,
            PeerId,
            Psn,
            Qpn,
            RToken, //
        },
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc,
        Completion,
        Mutex, //
    },
};

/// Send slots of a link. Every CDC and LLC message takes one.
const SEND_SLOTS: u16 = 32;
/// Receive slots: enough for a peer with as many send slots as common implementations have.
const RECV_SLOTS: u16 = 128;

/// RMBs of a group (`SMCR-RMB-03`).
const MAX_RMBS: usize = 255;
/// How long connections decline instead of offering another RMB to a peer that refused one.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Where a group is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// First contact is under way.
    Forming,
    /// Connections may use it.
    Ready,
    /// Over.
    Dead,
}

impl Phase {
    const fn code(self) -> u32 {
        match self {
            Self::Forming => 0,
            Self::Ready => 1,
            Self::Dead => 2,
        }
    }

    /// Text for `/proc`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Forming => "forming",
            Self::Ready => "active",
            Self::Dead => "dead",
        }
    }
}

/// What makes two connections share a group (`SMCR-LGR-02`, `SMCR-AMB-41`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// Cookie of the network namespace: groups are never shared between namespaces.
    pub(crate) net: u64,
    /// The stack at the other end.
    pub(crate) peer: PeerId,
    /// VLAN of the IP connections.
    pub(crate) vlan: Option<u16>,
}

/// A link group.
#[pin_data]
pub(crate) struct LinkGroup {
    /// Number for logs and `/proc`.
    pub(crate) id: u32,
    /// Our side; fixed for the life of the group (`SMCR-LGR-17`).
    pub(crate) role: Role,
    /// Who shares it.
    pub(crate) key: Key,
    /// Local device, port and address.
    pub(crate) path: Path,
    pub(super) engine: Arc<Engine>,
    phase: Atomic<u32>,
    #[pin]
    pub(super) inner: Mutex<Inner>,
    #[pin]
    pub(super) tokens: SpinLockBh<Tokens>,
    #[pin]
    pub(super) inbox: SpinLockBh<Inbox>,
    #[pin]
    pub(super) work: Deferred<LinkGroup>,
    /// An LLC message has found no send slot.
    pub(super) llc_waits: Atomic<bool>,
    #[pin]
    dead: Completion,
}

/// What process context works on, under the group's mutex.
pub(crate) struct Inner {
    pub(super) channel: Option<Arc<Channel<Link>>>,
    pd: Option<Arc<Pd>>,
    /// LLC side; exists once the peer's link is known.
    pub(super) llc: Option<KBox<LlcGroup>>,
    pub(super) peer: Option<PeerLink>,
    pub(super) rmbs: KVec<Arc<Rmb>>,
    next_rmb: u16,
    /// The first contact connection, until its LLC outcome is known.
    pub(super) founder: Option<Arc<Connection>>,
    /// Handshakes to be looked at again when something changed.
    pub(super) waiters: KVec<Arc<Connection>>,
    /// LLC messages that found no send slot.
    pub(super) unsent: ArrayQueue<(Kind, [u8; 44]), 8>,
    /// Our initial packet sequence number.
    pub(crate) psn: Psn,
    /// The path MTU both agreed on.
    pub(super) mtu: Mtu,
    /// When the last connection left.
    pub(super) idle_since: Option<Instant>,
    /// The LLC core runs: the founder's CLC messages are out.
    pub(super) started: bool,
    /// When the peer refused an RMB last.
    pub(super) refused_at: Option<Instant>,
    /// The core has ended the group; it is dismantled when the core has been drained.
    pub(super) over: bool,
}

impl Inner {
    /// Has a handshake kicked at the next change. It may ask again before. Sleeps.
    fn add_waiter(&mut self, waiter: &Arc<Connection>) -> Result {
        if !self.waiters.iter().any(|known| Arc::ptr_eq(known, waiter)) {
            self.waiters.push(waiter.clone(), GFP_KERNEL)?;
        }
        Ok(())
    }
}

/// What a handshake gets when it asks for a receive buffer.
pub(crate) enum Taken {
    /// An element the peer knows.
    Now(Rmbe),
    /// The peer must confirm a new RMB first; the handshake is kicked when it has.
    Wait,
}

/// The group a Proposal leads to.
pub(crate) enum Join {
    /// A new group; the caller brings it up.
    New(Arc<LinkGroup>),
    /// An existing group that is ready.
    Ready(Arc<LinkGroup>),
    /// One that is being formed; the caller is kicked when that is over.
    Wait,
}

impl LinkGroup {
    /// Makes an empty group in [`Phase::Forming`]. Sleeps.
    fn new(engine: &Arc<Engine>, role: Role, key: Key, path: Path) -> Result<Arc<Self>> {
        let tokens = Tokens::new()?;
        Arc::pin_init(
            try_pin_init!(Self {
                id: engine.next_group_id(),
                role,
                key,
                path,
                engine: engine.clone(),
                phase: Atomic::new(Phase::Forming.code()),
                inner <- new_mutex!(Inner {
                    channel: None,
                    pd: None,
                    llc: None,
                    peer: None,
                    rmbs: KVec::new(),
                    next_rmb: 0,
                    founder: None,
                    waiters: KVec::new(),
                    unsent: ArrayQueue::new(),
                    psn: Psn::new(crate::kapi::module::random_u32()),
                    mtu: Mtu::M1024,
                    idle_since: None,
                    started: false,
                    refused_at: None,
                    over: false,
                }, "rdma_sock_group"),
                tokens <- new_spinlock_bh!(tokens, "rdma_sock_group_tokens"),
                inbox <- new_spinlock_bh!(Inbox::new(), "rdma_sock_group_inbox"),
                work <- new_deferred!("rdma_sock_group_work"),
                llc_waits: Atomic::new(false),
                dead <- Completion::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Where the group is in its life. Any context.
    pub(crate) fn phase(&self) -> Phase {
        // Pairs with the `Release` in `set_phase`.
        match self.phase.load(Acquire) {
            0 => Phase::Forming,
            1 => Phase::Ready,
            _ => Phase::Dead,
        }
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase.code(), Release);
    }

    /// Whether the group uses this device.
    pub(crate) fn is_on(&self, device: &Arc<Device>) -> bool {
        Arc::ptr_eq(&self.path.device, device)
    }

    /// Whether the group uses this port of the device.
    pub(crate) fn is_on_port(&self, device: &Arc<Device>, port: u32) -> bool {
        self.is_on(device) && self.path.port == port
    }

    /// Finds the server group for a Proposal, or enters a new one, atomically. Sleeps.
    pub(crate) fn join(
        engine: &Arc<Engine>,
        key: Key,
        path: &Path,
        waiter: &Arc<Connection>,
    ) -> Result<Join> {
        let mut fresh = None;
        loop {
            let found = {
                let mut groups = engine.groups.lock();
                let found = groups.iter().find(|group| {
                    group.role == Role::Server
                        && group.key == key
                        && Arc::ptr_eq(&group.path.device, &path.device)
                        && group.path.port == path.port
                        && group.phase() != Phase::Dead
                        && group.tokens.lock().has_room()
                });
                match (found, fresh.take()) {
                    (Some(group), _) => Some(group.clone()),
                    (None, Some(fresh)) => {
                        groups.push(Arc::clone(&fresh), GFP_KERNEL)?;
                        return Ok(Join::New(fresh));
                    }
                    (None, None) => None,
                }
            };
            let Some(found) = found else {
                // Made without the lock; then looked again.
                fresh = Some(Self::new(engine, Role::Server, key, path.clone())?);
                continue;
            };
            let mut inner = found.inner.lock();
            match found.phase() {
                Phase::Ready => {
                    drop(inner);
                    return Ok(Join::Ready(found));
                }
                Phase::Forming => {
                    inner.add_waiter(waiter)?;
                    return Ok(Join::Wait);
                }
                // It died since we looked: look again.
                Phase::Dead => continue,
            }
        }
    }

    /// Enters a new client group. Sleeps.
    pub(crate) fn new_client(engine: &Arc<Engine>, key: Key, path: &Path) -> Result<Arc<Self>> {
        let group = Self::new(engine, Role::Client, key, path.clone())?;
        engine.groups.lock().push(group.clone(), GFP_KERNEL)?;
        Ok(group)
    }

    /// Finds the client group whose link the server named in its Accept (`SMCR-CLC-223`). Sleeps.
    pub(crate) fn find_client(
        engine: &Engine,
        key: &Key,
        gid: Gid,
        mac: Mac,
        qpn: Qpn,
    ) -> Option<Arc<Self>> {
        let candidates = {
            let groups = engine.groups.lock();
            let mut candidates = KVec::new();
            for group in groups.iter() {
                if group.role == Role::Client && group.key == *key && group.phase() != Phase::Dead {
                    candidates.push(group.clone(), GFP_KERNEL).ok()?;
                }
            }
            candidates
        };
        candidates
            .into_iter()
            .find(|group| group.peer_is(gid, mac, qpn))
    }

    /// Whether the other end of the link is this one. Sleeps.
    pub(crate) fn peer_is(&self, gid: Gid, mac: Mac, qpn: Qpn) -> bool {
        self.inner
            .lock()
            .peer
            .as_ref()
            .is_some_and(|peer| peer.gid == gid && peer.mac == mac && peer.qpn == qpn)
    }

    /// Creates the channel and the first RMB of a forming group (`SMCR-LNK-05`). Sleeps.
    pub(crate) fn bring_up(this: &Arc<Self>, size: BufSize) -> Result<(Rmbe, Qpn, Psn)> {
        let mut inner = this.inner.lock();
        if this.phase() != Phase::Forming {
            return Err(ENODEV);
        }
        let pd = Pd::new(&this.path.device)?;
        let config = ChannelConfig {
            port: this.path.port,
            gid_index: this.path.gid.index,
            send_slots: SEND_SLOTS,
            recv_slots: RECV_SLOTS,
        };
        let link = Arc::new(Link::new(this.clone()), GFP_KERNEL)?;
        let channel = Channel::new(&pd, &config, link)?;
        let qpn = Qpn::new(channel.qpn());
        inner.pd = Some(pd);
        inner.channel = Some(channel);
        let rmb = Self::add_rmb(&mut inner, size, FIRST_ELEMENTS, Known::Confirmed)?;
        let rmbe = Rmb::take(&rmb).ok_or(ENOMEM)?;
        let psn = inner.psn;
        Ok((rmbe, qpn, psn))
    }

    /// Connects our queue pair to the peer's: RTR, and RTS too for a server (`SMCR-LNK-06..08`).
    /// Sleeps.
    pub(crate) fn connect(&self, peer: &PeerLink, peer_psn: Psn, mtu: Mtu) -> Result {
        let mut inner = self.inner.lock();
        let channel = inner.channel.clone().ok_or(ENODEV)?;
        channel.to_rtr(&ChannelPeer {
            qpn: peer.qpn.get(),
            rq_psn: peer_psn.get(),
            mtu_code: mtu.code(),
            gid: peer.gid.get(),
            mac: peer.mac.get(),
        })?;
        if self.role == Role::Server {
            channel.to_rts(inner.psn.get())?;
        }
        inner.mtu = mtu;
        inner.peer = Some(*peer);
        inner.llc = Some(self.new_llc(&channel, peer)?);
        Ok(())
    }

    /// Registers a new RMB. The registration needs a queue pair that is at least in INIT.
    fn add_rmb(
        inner: &mut Inner,
        size: BufSize,
        mut elements: usize,
        known: Known,
    ) -> Result<Arc<Rmb>> {
        let channel = inner.channel.clone().ok_or(ENODEV)?;
        let pd = inner.pd.clone().ok_or(ENODEV)?;
        let bytes = usize::try_from(size.bytes())?;
        elements = elements.min(pd.device().max_region_bytes() / bytes).max(1);
        let memory = loop {
            match PeerMemory::new(elements, bytes) {
                Ok(memory) => break memory,
                Err(error) if elements <= 1 => return Err(error),
                // Memory is short or fragmented: a smaller RMB will do.
                Err(_) => elements = elements.div_ceil(2),
            }
        };
        let mr = Mr::new(&pd, memory)?;
        let id = RmbId(inner.next_rmb);
        inner.next_rmb = inner.next_rmb.wrapping_add(1);
        let rmb = Rmb::new(id, size, mr, known)?;
        if known == Known::Announcing {
            // The group is up, so the queue pair takes the registration at once; that of the
            // first RMB waits for RTS (`activate_rmbs`).
            rmb.activate(&channel)?;
        }
        inner.rmbs.push(rmb.clone(), GFP_KERNEL)?;
        Ok(rmb)
    }

    /// Takes a receive buffer for another connection (`SMCR-RDV-21..23`). Sleeps.
    pub(crate) fn take_rmbe(
        this: &Arc<Self>,
        size: BufSize,
        waiter: &Arc<Connection>,
        now: Instant,
    ) -> Result<Taken> {
        let mut inner = this.inner.lock();
        if this.phase() != Phase::Ready {
            return Err(ENODEV);
        }
        let fitting = inner.rmbs.iter().filter(|rmb| rmb.size == size);
        let mut announcing = false;
        let mut found = None;
        for rmb in fitting {
            match rmb.known() {
                Known::Confirmed => {
                    found = Rmb::take(rmb);
                    if found.is_some() {
                        break;
                    }
                }
                Known::Announcing => announcing = true,
            }
        }
        if let Some(rmbe) = found {
            return Ok(Taken::Now(rmbe));
        }
        let refused = inner
            .refused_at
            .is_some_and(|at| now.saturating_since(at) < REFUSAL_TIME);
        if refused || inner.rmbs.len() >= MAX_RMBS {
            return Err(ENOSPC);
        }
        if !announcing {
            let rmb = Self::add_rmb(&mut inner, size, MORE_ELEMENTS, Known::Announcing)?;
            let llc = inner.llc.as_mut().ok_or(ENODEV)?;
            if llc
                .confirm_rkey(now, rmb.id, &[(Slot::FIRST, rmb.token)])
                .is_err()
            {
                inner.rmbs.retain(|known| known.id != rmb.id);
                return Err(EBUSY);
            }
            this.work.kick(this, &this.engine.queue);
        }
        inner.add_waiter(waiter)?;
        Ok(Taken::Wait)
    }

    /// The peer's RMB behind a token of its Accept or Confirm; `None` when it has too many. Sleeps.
    pub(crate) fn peer_rmb(&self, token: RToken) -> Option<PeerRmbId> {
        let mut inner = self.inner.lock();
        inner.llc.as_mut()?.peer_rmb(Slot::FIRST, token).ok()
    }

    /// Aborts the connection that still writes to an element of the peer, if there is one
    /// (`SMCR-RMB-24`). Sleeps.
    pub(crate) fn evict(&self, element: PeerElement) {
        for n in 0..MAX_CONNECTIONS {
            let connection = self.tokens.lock().at(n);
            let Some(connection) = connection else {
                continue;
            };
            if connection.look(|data| data.peer_element == element) == Some(true) {
                let _ = Connection::with_core(&connection, |data, now| {
                    ((), data.core.handle_tcp_reset(now))
                });
            }
        }
    }

    /// The peer says, on a TCP connection that anybody may have made, that it does not know the
    /// group: no more connections join, and a test of the link shows whether it is dead
    /// (`SMCR-AMB-40`). Any context.
    pub(crate) fn doubt(this: &Arc<Self>) {
        this.tokens.lock().close();
        Self::test_link(this);
    }

    /// Lets the link be tested now. Any context.
    pub(crate) fn test_link(this: &Arc<Self>) {
        this.inbox.lock().test = true;
        this.work.kick(this, &this.engine.queue);
    }

    /// The link cannot carry messages any more; the work item draws the consequences. Any context.
    pub(crate) fn break_link(this: &Arc<Self>) {
        this.inbox.lock().broken = true;
        this.work.kick(this, &this.engine.queue);
    }

    /// The channel of the group's link, for a connection to send on. Sleeps.
    pub(crate) fn channel(&self) -> Option<Arc<Channel<Link>>> {
        self.inner.lock().channel.clone()
    }

    /// Ends the group: connections break, verbs objects go. Sleeps until that is done.
    pub(super) fn dismantle(this: &Arc<Self>, inner: &mut Inner) {
        if this.phase() == Phase::Dead {
            return;
        }
        this.set_phase(Phase::Dead);
        this.engine
            .groups
            .lock()
            .retain(|known| !Arc::ptr_eq(known, this));
        this.tokens.lock().close();
        inner.llc = None;
        if let Some(founder) = inner.founder.take() {
            founder.llc_outcome(crate::proto::clc::LlcOutcome::Abort(
                crate::proto::reason::Reason::Internal,
            ));
        }
        for waiter in inner.waiters.drain_all() {
            waiter.kick_handshake();
        }
        for n in 0..MAX_CONNECTIONS {
            let connection = this.tokens.lock().at(n);
            if let Some(connection) = connection {
                Connection::link_lost(&connection);
            }
        }
        if let Some(channel) = inner.channel.take() {
            channel.shutdown();
        }
        inner.rmbs.clear();
        inner.pd = None;
        this.work.cancel();
        this.dead.complete_all();
    }

    /// Waits until the group has been dismantled. Sleeps.
    pub(super) fn wait_dead(&self) {
        self.dead.wait_for_completion();
    }

    /// Ends the group of a first contact that failed, or one the peer says is out of sync. Sleeps.
    pub(crate) fn abandon(this: &Arc<Self>) {
        let mut inner = this.inner.lock();
        inner.founder = None;
        Self::dismantle(this, &mut inner);
    }

    fn matching(engine: &Engine, pick: impl Fn(&LinkGroup) -> bool) -> KVec<Arc<Self>> {
        let groups = engine.groups.lock();
        let mut picked = KVec::new();
        for group in groups.iter().filter(|group| pick(group)) {
            // Without memory the rest is found by the next event; removal loops until none is left.
            if picked.push(group.clone(), GFP_KERNEL).is_err() {
                break;
            }
        }
        picked
    }

    /// Tells the peers of all matching groups that it is over, and ends the groups when they know,
    /// at the latest when the timers of the core have run out. Sleeps.
    pub(crate) fn dismiss_all(engine: &Engine, pick: impl Fn(&LinkGroup) -> bool) {
        let groups = Self::matching(engine, &pick);
        for group in groups.iter() {
            Self::say_goodbye(group);
        }
        for group in groups.iter() {
            group.wait_dead();
        }
        Self::terminate_all(engine, pick);
    }

    /// Ends all matching groups at once and waits for it. Sleeps.
    pub(crate) fn terminate_all(engine: &Engine, pick: impl Fn(&LinkGroup) -> bool) {
        loop {
            let groups = Self::matching(engine, &pick);
            if groups.is_empty() {
                break;
            }
            for group in groups {
                let mut inner = group.inner.lock();
                Self::dismantle(&group, &mut inner);
            }
        }
    }

    /// Lets the links of all matching groups be tested now. Sleeps.
    pub(crate) fn test_all(engine: &Engine, pick: impl Fn(&LinkGroup) -> bool) {
        for group in Self::matching(engine, pick) {
            Self::test_link(&group);
        }
    }

    /// Breaks the links of all matching groups, without waiting. Sleeps.
    pub(crate) fn fail_all(engine: &Engine, pick: impl Fn(&LinkGroup) -> bool) {
        for group in Self::matching(engine, pick) {
            group.inbox.lock().broken = true;
            group.work.kick(&group, &engine.queue);
        }
    }

    /// A connection has left; the group may become idle. Any context.
    pub(crate) fn connection_left(this: &Arc<Self>) {
        if this.tokens.lock().live() == 0 {
            this.work.kick(this, &this.engine.queue);
        }
    }
}
