// SPDX-License-Identifier: GPL-2.0

//! Link groups: the set of links, RMBs and connections shared with one peer.
//!
//! Source: RFC 7609 sections 2.2, 3.5 (`SMCR-LGR-01..26`).
//!
//! Life: a group is made [`GroupPhase::Forming`] by the handshake of its first connection, becomes
//! [`GroupPhase::Ready`] when the LLC side says so, and ends [`GroupPhase::Dead`]: out of the registry, its
//! connections broken, its verbs objects gone. A dead group never comes back.
//!
//! Locks, in order: `SmcSetup::handshake`, [`LinkGroup::inner`], `LinkGroups::list`, then the
//! spinlocks (`Connection::stream`, [`LinkGroup::tokens`], [`LinkGroup::ports`], the inbox of a
//! link), none of which is held while another of them is taken, except that `data` may be held when
//! the others are.

use super::{
    completions::{
        ChainOwner,
        LinkHandler,
        LinkOwner, //
    },
    context::GroupContext,
    link::{
        Link,
        LinkConfig, //
    },
    member::{
        is_same,
        Member, //
    },
    phase::{
        GroupPhase,
        Key, //
    },
    rmb::{
        Known,
        Rmb,
        Rmbe, //
    },
    route::{
        LinkUse,
        PeerElement,
        Route, //
    },
    tokens::{
        new_table,
        GroupTokens, //
    },
};
use crate::{
    fabric::{
        ports::Path,
        quota::Payer, //
    },
    kapi::{
        base::{
            sync::{
                new_spinlock_bh,
                SpinLockBh, //
            },
            work::{
                new_deferred,
                Deferred, //
            },
        },
        compat::errno::EOPNOTSUPP,
        verbs::{
            device::Device,
            mr::Mr,
            sendbuf::SendBuffer,
            wc::WcStatus, //
        },
    },
    proto::{
        base::{
            queue::ArrayQueue,
            time::Instant,
            verbs::{
                Gid,
                Mac,
                Mtu,
                Psn,
                Qpn, //
            },
        },
        smc::{
            buffer_kind::BufferKind,
            clc::{
                System,
                Terms,
                Version, //
            },
            hosts::Hosts,
            llc::{
                balance::{
                    least_used,
                    LinkSet, //
                },
                lifetime::Lifetime,
                link::MAX_LINKS,
                rmb_pool::RmbPool,
                rtoken::Entry,
                Group,
                LinkSlot,
                PeerLink,
                PeerRmbId,
                Role, //
            },
            wire::{
                AlertToken,
                BufSize,
                RToken, //
            },
        },
    },
    smc::{
        admin::{
            pnets::Pnets,
            sysctl::Settings, //
        },
        net::{
            NetState,
            Nets, //
        },
    },
    sock::context::now, //
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

/// Work item of LLC.
pub(crate) const LLC: u64 = 0;
/// Work item of registrations of RMBs.
pub(crate) const REGISTER: u64 = 1;
/// Work item of links that have left.
pub(crate) const CLOSE: u64 = 2;

/// The LLC core with its table of the peer's RMBs.
pub(crate) type LlcGroup = Group<KVec<Entry>>;

/// Places for [`UsedPort`]s: those of the links, and as many of links that have left.
const PORTS: usize = 2 * MAX_LINKS;

/// A link that has left its group, with the registrations that peers used by it.
pub(crate) struct Retired {
    pub(crate) link: KBox<Link>,
    pub(crate) regions: KVec<Arc<Mr>>,
}

/// A port that a link of a group uses, or one that has left.
struct UsedPort {
    slot: LinkSlot,
    device: Arc<Device>,
    number: u32,
}

/// The link groups of the host, with the registries that they use.
#[pin_data]
pub(crate) struct LinkGroups {
    #[pin]
    pub(crate) list: Mutex<KVec<Arc<LinkGroup>>>,
    pub(crate) context: Arc<GroupContext>,
    pub(crate) pnets: Arc<Pnets>,
    pub(crate) nets: Arc<Nets>,
}

impl LinkGroups {
    /// No group yet. Context: may sleep.
    pub(crate) fn make(
        context: &Arc<GroupContext>,
        pnets: &Arc<Pnets>,
        nets: &Arc<Nets>,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                list <- new_mutex!(KVec::new(), "rdma_sock_groups"),
                context: context.clone(),
                pnets: pnets.clone(),
                nets: nets.clone(),
            }),
            GFP_KERNEL,
        )
    }
}

/// A link group.
#[pin_data]
pub(crate) struct LinkGroup {
    /// Number for logs and `/proc`.
    pub(crate) id: u32,
    /// Our side; fixed for the life of the group (`SMCR-LGR-17`).
    pub(crate) role: Role,
    /// What connections that share the group have in common.
    pub(crate) key: Key,
    /// Local device, port and address of the first link.
    pub(crate) path: Path,
    /// What was agreed on in first contact.
    pub(crate) terms: Terms,
    /// What the peer said of itself, in version 2.
    #[pin]
    pub(crate) system: SpinLockBh<Option<System>>,
    /// Which hosts it is with.
    #[pin]
    pub(crate) hosts: SpinLockBh<Hosts>,
    /// Two connections may have been given the same element of the peer.
    pub(crate) conflicts: Atomic<bool>,
    /// The registry that has the group until it is dead.
    pub(crate) groups: Arc<LinkGroups>,
    pub(crate) context: Arc<GroupContext>,
    phase: Atomic<u32>,
    #[pin]
    pub(crate) inner: Mutex<Inner>,
    /// Where the links are. An entry is made before anything is made on the device, and goes when
    /// all of it is gone, so that the removal of a device finds every user.
    #[pin]
    ports: SpinLockBh<[Option<UsedPort>; PORTS]>,
    /// Ends that have left, but not their devices. A leaf lock.
    #[pin]
    pub(crate) retired: Mutex<KVec<Retired>>,
    #[pin]
    pub(crate) tokens: SpinLockBh<GroupTokens>,
    #[pin]
    pub(crate) work: Deferred<LinkGroup, LLC>,
    #[pin]
    pub(crate) register_work: Deferred<LinkGroup, REGISTER>,
    #[pin]
    pub(crate) close_work: Deferred<LinkGroup, CLOSE>,
    /// A port may have become usable.
    pub(crate) suggested: Atomic<bool>,
    /// Whether the buffers of its connections are contiguous.
    pub(crate) buffers: BufferKind,
    /// What the administrator of the namespace wants.
    pub(crate) settings: Arc<Settings>,
    /// Where it is counted.
    pub(crate) net: Arc<NetState>,
    #[pin]
    dead: Completion,
}

/// What process context works on, under the group's mutex.
pub(crate) struct Inner {
    /// The links, by slot.
    pub(crate) links: [Option<KBox<Link>>; MAX_LINKS],
    /// LLC side; exists once the peer's link is known.
    pub(crate) llc: Option<KBox<LlcGroup>>,
    pub(crate) rmbs: KVec<Arc<Rmb>>,
    pub(crate) next_rmb: u16,
    /// The first contact connection, until its LLC outcome is known.
    pub(crate) founder: Option<Arc<dyn Member>>,
    /// The handshake of the founder is over: accept finds it, or it has failed.
    pub(crate) is_founded: bool,
    /// Handshakes to be looked at again when something changed.
    pub(crate) waiters: KVec<Arc<dyn Member>>,
    /// When RMBs are made and returned.
    pub(crate) pool: RmbPool,
    /// The LLC core runs: the founder's CLC messages are out.
    pub(crate) started: bool,
    /// How long the group is kept without connections, and after its end.
    pub(crate) lifetime: Lifetime,
}

impl Inner {
    /// Has a handshake kicked at the next change. It may ask again before. Context: may sleep.
    pub(crate) fn add_waiter(&mut self, waiter: Arc<dyn Member>) -> Result {
        if !self.waiters.iter().any(|known| is_same(known, &waiter)) {
            self.waiters.push(waiter, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// A link.
    pub(crate) fn link(&self, slot: LinkSlot) -> Option<&Link> {
        self.links
            .get(slot.index())?
            .as_deref()
            .filter(|link| link.slot == slot)
    }

    /// A link, to change it.
    pub(crate) fn link_mut(&mut self, slot: LinkSlot) -> Option<&mut Link> {
        self.links
            .get_mut(slot.index())?
            .as_deref_mut()
            .filter(|link| link.slot == slot)
    }

    /// The way to an element of the peer over a link (`SMCR-FOV-22`). Context: may sleep.
    pub(crate) fn route(
        &self,
        slot: LinkSlot,
        buffer: &Arc<SendBuffer>,
        element: &PeerElement,
    ) -> Result<Route> {
        let link = self.link(slot).ok_or(ENODEV)?;
        let llc = self.llc.as_ref().ok_or(ENODEV)?;
        let token = llc.peer_token(element.rmb, slot).ok_or(ENOENT)?;
        let base = token.element_addr(element.index, element.size);
        Ok(Route {
            link_use: LinkUse::new(&link.handler),
            channel: link.channel.clone(),
            source: buffer.map(&link.path.device)?,
            rkey: token.rkey.get(),
            base: base.ok_or(EINVAL)?,
        })
    }

    /// The slots of all links.
    pub(crate) fn slots(&self) -> impl Iterator<Item = LinkSlot> {
        let mut slots = ArrayQueue::<LinkSlot, MAX_LINKS>::new();
        for link in self.links.iter().flatten() {
            let _ = slots.push(link.slot);
        }
        core::iter::from_fn(move || slots.pop())
    }

    /// All links.
    pub(crate) fn handlers(&self) -> impl Iterator<Item = Arc<LinkHandler>> {
        let mut handlers = ArrayQueue::<Arc<LinkHandler>, MAX_LINKS>::new();
        for link in self.links.iter().flatten() {
            let _ = handlers.push(link.handler.clone());
        }
        core::iter::from_fn(move || handlers.pop())
    }

    /// Whether connections may write by a link.
    pub(crate) fn is_usable(&self, slot: LinkSlot) -> bool {
        let llc = self.llc.as_ref();
        self.link(slot).is_some_and(|link| !link.failed)
            && llc.is_some_and(|llc| llc.is_active(slot))
    }

    /// The link that the fewest connections write by.
    pub(crate) fn least_used(&self) -> Option<&Link> {
        self.least_used_but(LinkSet::default())
    }

    /// As [`Self::least_used`], of those that are not in `refused`.
    pub(crate) fn least_used_but(&self, refused: LinkSet) -> Option<&Link> {
        let links = self.links.iter().flatten();
        let usable = links.filter(|link| self.is_usable(link.slot) && !refused.contains(link.slot));
        let slot = least_used(usable.map(|link| (link.slot, link.handler.uses())))?;
        self.link(slot)
    }
}

/// This side's end of a link, for a CLC message.
pub(crate) struct LocalEnd {
    /// The place of a connection on the link.
    pub(crate) link_use: LinkUse,
    /// Device, port and address.
    pub(crate) path: Path,
    pub(crate) qpn: Qpn,
    pub(crate) psn: Psn,
}

impl LocalEnd {
    pub(crate) fn of(link: &Link) -> Self {
        Self {
            link_use: LinkUse::new(&link.handler),
            path: link.path.clone(),
            qpn: link.qpn(),
            psn: link.psn,
        }
    }
}

/// A link that a server named in its Accept.
pub(crate) struct NamedLink {
    pub(crate) group: Arc<LinkGroup>,
    pub(crate) slot: LinkSlot,
    /// The group is known to be with the host that named it.
    pub(crate) proven: bool,
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
    /// Makes an empty group in [`GroupPhase::Forming`]. Context: may sleep.
    #[inline(never)]
    pub(crate) fn new(
        groups: &Arc<LinkGroups>,
        role: Role,
        key: Key,
        path: Path,
        terms: Terms,
        from: [u8; 16],
    ) -> Result<Arc<Self>> {
        let tokens = new_table()?;
        let net = groups.nets.state(key.net)?;
        Arc::pin_init(
            try_pin_init!(Self {
                id: groups.context.next_group_id(),
                role,
                key,
                path,
                terms,
                system <- new_spinlock_bh!(None, "rdma_sock_group_system"),
                hosts <- new_spinlock_bh!(Hosts::new(from, now()), "rdma_sock_group_hosts"),
                conflicts: Atomic::new(false),
                groups: groups.clone(),
                context: groups.context.clone(),
                phase: Atomic::new(GroupPhase::Forming.code()),
                inner <- new_mutex!(Inner {
                    links: [const { None }; MAX_LINKS],
                    llc: None,
                    rmbs: KVec::new(),
                    next_rmb: 0,
                    founder: None,
                    is_founded: false,
                    waiters: KVec::new(),
                    pool: RmbPool::new(),
                    started: false,
                    lifetime: Lifetime::new(*role),
                }, "rdma_sock_group"),
                ports <- new_spinlock_bh!([const { None }; PORTS], "rdma_sock_group_ports"),
                retired <- new_mutex!(KVec::new(), "rdma_sock_group_retired"),
                tokens <- new_spinlock_bh!(tokens, "rdma_sock_group_tokens"),
                work <- new_deferred!("rdma_sock_group_work"),
                register_work <- new_deferred!("rdma_sock_group_register"),
                close_work <- new_deferred!("rdma_sock_group_close"),
                suggested: Atomic::new(false),
                buffers: net.settings.buffer_kind().on_device(path.device.max_send_sge()),
                settings: net.settings.clone(),
                net,
                dead <- Completion::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Where the group is in its life. Context: any.
    pub(crate) fn phase(&self) -> GroupPhase {
        // Pairs with the `Release` in `set_phase`.
        match self.phase.load(Acquire) {
            0 => GroupPhase::Forming,
            1 => GroupPhase::Ready,
            _ => GroupPhase::Dead,
        }
    }

    pub(crate) fn set_phase(&self, phase: GroupPhase) {
        self.phase.store(phase.code(), Release);
    }

    /// Runs the LLC work item soon. Context: any.
    pub(crate) fn kick(self: &Arc<Self>) {
        self.work.kick(self, &self.context.links);
    }

    /// Whether the group uses this device. Context: any.
    pub(crate) fn is_on(&self, device: &Arc<Device>) -> bool {
        let ports = self.ports.lock();
        ports
            .iter()
            .flatten()
            .any(|port| Arc::ptr_eq(&port.device, device))
    }

    /// Whether the group uses this port of the device. Context: any.
    pub(crate) fn is_on_port(&self, device: &Arc<Device>, number: u32) -> bool {
        let ports = self.ports.lock();
        ports
            .iter()
            .flatten()
            .any(|port| Arc::ptr_eq(&port.device, device) && port.number == number)
    }

    /// Enters where a link is, or that it is gone. `false` if there is no place left.
    pub(crate) fn set_port(&self, slot: LinkSlot, path: Option<&Path>) -> bool {
        let port = path.map(|path| UsedPort {
            slot,
            device: path.device.clone(),
            number: path.port,
        });
        let mut ports = self.ports.lock();
        let wanted = |known: &&mut Option<UsedPort>| match (&port, known) {
            (Some(_), known) => known.is_none(),
            (None, known) => known.as_ref().is_some_and(|known| known.slot == slot),
        };
        let old = match ports.iter_mut().find(wanted) {
            Some(place) => core::mem::replace(place, port),
            None => return false,
        };
        drop(ports);
        drop(old);
        true
    }

    /// Makes our side of a link. Context: may sleep.
    pub(crate) fn open_link(
        self: &Arc<Self>,
        inner: &mut Inner,
        slot: LinkSlot,
        path: &Path,
    ) -> Result {
        if self.buffers.on_device(path.device.max_send_sge()) != self.buffers {
            return Err(EOPNOTSUPP);
        }
        if !self.set_port(slot, Some(path)) {
            return Err(EBUSY);
        }
        let config = LinkConfig {
            send_slots: self.settings.send_slots(),
            recv_slots: self.settings.recv_slots(),
            has_long_messages: self.has_long_messages(),
            uid: self.context.next_link_id(),
        };
        let made = Link::new(self.clone(), slot, path, &config);
        match (made, inner.links.get_mut(slot.index())) {
            (Ok(link), Some(place)) => {
                *place = Some(link);
                Ok(())
            }
            (Ok(link), None) => {
                link.close(&[]);
                self.set_port(slot, None);
                Err(EINVAL)
            }
            (Err(error), _) => {
                self.set_port(slot, None);
                Err(error)
            }
        }
    }

    /// Frees our side of a link. On return all posted requests have completed, and no object is left
    /// on the device. Context: may sleep.
    pub(crate) fn close_link(&self, inner: &mut Inner, slot: LinkSlot) {
        let place = inner.links.get_mut(slot.index());
        if let Some(link) = place.and_then(|place| place.take_if(|link| link.slot == slot)) {
            link.close(&inner.rmbs);
            self.set_port(slot, None);
        }
    }

    /// Whether LLC messages may be longer than 44 octets. Context: any.
    pub(crate) fn has_long_messages(&self) -> bool {
        self.terms.version == Version::V2
    }

    /// Whether another connection may join. Context: any.
    pub(crate) fn has_room(&self) -> bool {
        let most = usize::from(self.terms.max_conns);
        self.tokens.lock().has_room(most)
    }

    /// Whether a host is known to be one that the group is with. Context: any.
    pub(crate) fn is_with(&self, host: &[u8; 16]) -> bool {
        self.hosts.lock().includes(host)
    }

    /// Whether a waiter of the host `from` may be a member, or wait to be. Its Proposal came at `since`.
    /// Context: any.
    pub(super) fn admits(&self, from: &[u8; 16], since: Instant) -> bool {
        match self.phase() {
            GroupPhase::Ready => self.is_with(from),
            GroupPhase::Forming => self.hosts.lock().is_waited_for(from, since, now()),
            GroupPhase::Dead => false,
        }
    }

    /// The link whose other end is this one. Context: may sleep.
    ///
    /// In version 2 its GID is enough: the address of the link is that of a gateway, if there is
    /// one.
    pub(crate) fn link_of_peer(&self, gid: Gid, mac: Mac, qpn: Qpn) -> Option<LinkSlot> {
        let any_mac = self.terms.version == Version::V2;
        let inner = self.inner.lock();
        let mut links = inner.links.iter().flatten();
        links
            .find(|link| {
                link.peer.as_ref().is_some_and(|peer| {
                    peer.gid == gid && (any_mac || peer.mac == mac) && peer.qpn == qpn
                })
            })
            .map(|link| link.slot)
    }

    /// Whether connections may write by a link. Context: may sleep.
    pub(crate) fn is_active(&self, slot: LinkSlot) -> bool {
        self.inner.lock().is_usable(slot)
    }

    /// Whether elements begin with an eye catcher, which both sides know when first contact is over
    /// (`SMCR-RMB-12`, `SMCR-DEP-1`). Context: may sleep.
    pub(crate) fn has_eye_catchers(&self) -> bool {
        self.inner.lock().has_eye_catchers()
    }

    /// Creates the first link and the first RMB of a forming group (`SMCR-LNK-05`).
    /// Context: may sleep.
    #[inline(never)]
    pub(crate) fn bring_up(
        self: &Arc<Self>,
        payer: &Payer,
        size: BufSize,
    ) -> Result<(Rmbe, LocalEnd)> {
        let mut inner = self.inner.lock();
        if self.phase() != GroupPhase::Forming {
            return Err(ENODEV);
        }
        self.open_link(&mut inner, LinkSlot::FIRST, &self.path)?;
        let rmb = inner.add_rmb(payer, self.rmb_plan(size, 0), Known::Confirmed)?;
        let rmbe = rmb.take().ok_or(ENOMEM)?;
        let local = inner
            .link(LinkSlot::FIRST)
            .map(LocalEnd::of)
            .ok_or(ENODEV)?;
        Ok((rmbe, local))
    }

    /// Connects the first link to the peer's: RTR, and RTS too for a server
    /// (`SMCR-LNK-06..08`). Context: may sleep.
    #[inline(never)]
    pub(crate) fn connect(&self, peer: &PeerLink, peer_psn: Psn, mtu: Mtu) -> Result {
        let mut inner = self.inner.lock();
        let link = inner.link_mut(LinkSlot::FIRST).ok_or(ENODEV)?;
        link.connect(peer, peer_psn, mtu)?;
        self.hosts.lock().set_gid(peer.gid);
        if self.role == Role::Server {
            link.start_sending()?;
        }
        self.begin_llc(&mut inner, peer)
    }

    /// Makes the protocol machine of a group whose first link is connected. Apart from
    /// [`Self::connect`], as it is large and a device's driver wants the stack.
    #[inline(never)]
    fn begin_llc(&self, inner: &mut Inner, peer: &PeerLink) -> Result {
        let link = inner.link(LinkSlot::FIRST).ok_or(ENODEV)?;
        let mut llc = self.new_llc(link, peer)?;
        for rmb in inner.rmbs.iter() {
            let token = rmb.token(LinkSlot::FIRST).ok_or(ENODEV)?;
            llc.own_rmb(rmb.id, LinkSlot::FIRST, token)
                .map_err(|_| EBUSY)?;
        }
        inner.llc = Some(llc);
        Ok(())
    }

    /// The peer's RMB behind a token of its Accept or Confirm, which names a link; `None` when it
    /// has too many. Context: may sleep.
    pub(crate) fn peer_rmb(&self, slot: LinkSlot, token: RToken) -> Option<PeerRmbId> {
        let mut inner = self.inner.lock();
        inner.llc.as_mut()?.peer_rmb(slot, token).ok()
    }

    /// The same, of an RMB that the peer has announced on the link, exactly there.
    /// Context: may sleep.
    pub(crate) fn known_rmb(&self, slot: LinkSlot, token: RToken) -> Option<PeerRmbId> {
        let inner = self.inner.lock();
        inner.llc.as_ref()?.known_rmb(slot, token)
    }

    /// Our side of the link a new connection shall use, or of any if it is not `wanted`.
    /// Context: may sleep.
    pub(crate) fn local(&self, wanted: Option<LinkSlot>) -> Option<LocalEnd> {
        let inner = self.inner.lock();
        let link = match wanted {
            Some(slot) => inner.link(slot),
            None => inner.least_used(),
        };
        link.map(LocalEnd::of)
    }

    /// The way to an element of the peer over a link, or over another if that has died.
    /// Context: may sleep.
    pub(crate) fn route(
        &self,
        slot: LinkSlot,
        buffer: &Arc<SendBuffer>,
        element: &PeerElement,
    ) -> Result<Route> {
        let inner = self.inner.lock();
        let slot = if inner.is_usable(slot) {
            slot
        } else {
            inner.least_used().ok_or(ENODEV)?.slot
        };
        inner.route(slot, buffer, element)
    }

    /// The peer says that it does not know the group, on a TCP connection that any host may have
    /// made: no more connections join, and a test of the link shows whether it is dead
    /// (`SMCR-AMB-40`). Context: may sleep.
    pub(crate) fn suspect(self: &Arc<Self>) {
        self.tokens.lock().close();
        self.test_links();
    }

    /// Lets the links be tested now. Context: may sleep.
    pub(crate) fn test_links(&self) {
        for link in self.inner.lock().links.iter().flatten() {
            link.handler.test();
        }
    }

    /// Ends the group: connections break, verbs objects go. Sleeps until that is done.
    pub(crate) fn dismantle(self: &Arc<Self>, inner: &mut Inner) {
        if self.phase() == GroupPhase::Dead {
            return;
        }
        self.set_phase(GroupPhase::Dead);
        self.groups
            .list
            .lock()
            .retain(|known| !Arc::ptr_eq(known, self));
        self.tokens.lock().close();
        inner.llc = None;
        if let Some(founder) = inner.founder.take() {
            founder.on_first_contact(crate::proto::smc::clc::LlcOutcome::Abort(
                crate::proto::stream::reason::Reason::Internal,
            ));
        }
        for waiter in inner.waiters.drain_all() {
            waiter.on_group_changed();
        }
        self.members().for_each(|member| member.link_lost());
        for slot in inner.slots() {
            self.close_link(inner, slot);
        }
        self.close_retired();
        inner.rmbs.clear();
        self.work.cancel();
        self.register_work.cancel();
        self.dead.complete_all();
    }

    /// Waits until the group has been dismantled. Context: may sleep.
    pub(crate) fn wait_dead(&self) {
        self.dead.wait_for_completion();
    }

    /// Ends the group of a first contact that failed. Returns `false`, and leaves the group alone,
    /// if first contact is over: then others may use it. Context: may sleep.
    pub(crate) fn abandon(self: &Arc<Self>) -> bool {
        let mut inner = self.inner.lock();
        if self.phase() == GroupPhase::Ready {
            return false;
        }
        inner.founder = None;
        self.dismantle(&mut inner);
        true
    }

    /// The handshake of the founder is over, so that handshakes which wait for it go on: accept finds
    /// connections in the order in which their clients made them. Context: may sleep.
    pub(crate) fn end_founding(&self) {
        let mut inner = self.inner.lock();
        inner.is_founded = true;
        Self::wake_waiters(&mut inner);
    }

    /// A connection has left; the group may become idle. Context: any.
    pub(crate) fn connection_left(self: &Arc<Self>) {
        if self.tokens.lock().live() == 0 {
            self.kick();
        }
    }
}

impl LinkOwner for LinkGroup {
    fn kick(self: Arc<Self>) {
        Self::kick(&self);
    }

    fn chain_owner(&self, token: AlertToken) -> Option<Arc<dyn ChainOwner>> {
        let member = self.tokens.lock().get(token);
        member.map(Member::chain_owner)
    }

    fn next_waiting(&self, slot: LinkSlot) -> Option<Arc<dyn ChainOwner>> {
        let member = self.tokens.lock().next_waiting(slot);
        member.map(Member::chain_owner)
    }

    fn keep_turn(&self) {
        self.tokens.lock().keep_turn();
    }

    fn on_request_failed(&self, status: WcStatus) {
        if self.context.may_log() {
            pr_warn!(
                "link group {:#x}: a work request failed: {}\n",
                self.id,
                status.name()
            );
        }
    }
}
