// SPDX-License-Identifier: GPL-2.0

//! Links of a group come and go: which port another link uses, what its end needs, and which link
//! a connection writes by.
//!
//! Source: RFC 7609 sections 2.2, 2.3, 3.5.1.6, 3.5.5.1 (`SMCR-LGR-04..10`, `SMCR-LLF-10..26`,
//! `SMCR-FOV-01..06`). Whether a link is added or deleted is decided in `proto::llc`.
//!
//! A connection leaves a dead link in three steps (`SMCR-FOV-06`): it stops posting
//! ([`Member::link_down`]), the queue pair ends, by which all that was posted comes back, and it
//! goes on by another link ([`Member::reroute`]). It leaves a link that works when all that was
//! posted has completed ([`Member::migrate`]).

use super::{
    link_group::{
        Inner,
        LinkGroup,
        LinkGroups, //
    },
    member::Member,
    phase::GroupPhase,
    route::Route, //
};
use crate::{
    fabric::ports::{
        Path,
        PortUser, //
    },
    kapi::verbs::device::Device,
    proto::{
        base::{
            time::Instant,
            verbs::{
                Gid,
                Mac, //
            },
        },
        smc::llc::{
            balance::{
                LinkSet,
                LinkShare, //
            },
            LinkOffer,
            LinkSlot,
            PeerOffer,
            Port,
            Role, //
        },
    },
    sock::context::now, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

impl Inner {
    /// The best way for a connection, other than by the link `avoid`. Context: may sleep.
    fn best_route(&self, member: &dyn Member, avoid: Option<LinkSlot>) -> Option<Route> {
        let (element, buffer) = (member.peer_element()?, member.send_buffer()?);
        // The least used link; another only if the peer's buffer cannot be reached by it.
        let mut refused = LinkSet::default();
        if let Some(slot) = avoid {
            refused.add(slot);
        }
        loop {
            let link = self.least_used_but(refused)?;
            match self.route(link.slot, &buffer, &element) {
                Ok(route) => return Some(route),
                Err(_) => refused.add(link.slot),
            }
        }
    }

    /// Whether some link carries connections.
    fn has_usable(&self) -> bool {
        self.slots().any(|slot| self.is_usable(slot))
    }
}

impl LinkGroup {
    /// The connections, one by one: no lock is held between them. Context: any.
    pub(crate) fn members(&self) -> impl Iterator<Item = Arc<dyn Member>> + '_ {
        let mut next = 0;
        core::iter::from_fn(move || {
            let (row, member) = self.tokens.lock().first_from(next)?;
            next = row.saturating_add(1);
            Some(member)
        })
    }

    /// A port that no link of the group uses yet, in the network of the group, as names or subnets have it. Context: may sleep.
    fn unused_port(&self, inner: &Inner) -> Option<Path> {
        self.groups
            .pnets
            .find_other(self.key.net, &self.path, |device, port| {
                let mut links = inner.links.iter().flatten();
                links.any(|link| link.is_on_port(device, port))
            })
    }

    /// Makes another link, with a key for each RMB; towards `peer`, if that is known.
    /// Context: may sleep.
    pub(crate) fn add_link(
        self: &Arc<Self>,
        inner: &mut Inner,
        slot: LinkSlot,
        only_new: bool,
        peer: Option<&PeerOffer>,
    ) -> Option<LinkOffer> {
        // The administrator wants no other.
        if self.terms.max_links < 2 {
            return None;
        }
        // Of the ports in use that of the newest link: if one of the links is asymmetric it is self
        // one, which a symmetric one is to replace (`SMCR-LGR-08`).
        let path = self.unused_port(inner).or_else(|| {
            let links = inner.links.iter().flatten().filter(|link| !link.failed);
            let newest = links.max_by_key(|link| link.uid).filter(|_| !only_new)?;
            Some(newest.path.clone())
        })?;
        self.open_link(inner, slot, &path).ok()?;
        let offer = inner.prepare_link(slot, peer);
        if offer.is_err() {
            self.close_link(inner, slot);
        }
        offer.ok()
    }

    /// An added link is proven: it takes its share of the connections (`SMCR-FOV-03`).
    /// Context: may sleep.
    pub(crate) fn link_up(self: &Arc<Self>, inner: &mut Inner, slot: LinkSlot) {
        let Some(handler) = inner.link(slot).map(|link| link.handler.clone()) else {
            return;
        };
        // A peer may have links come and go.
        if self.context.may_log() {
            pr_info!(
                "link group {:#x}: link up on {}\n",
                self.id,
                handler.device.name().as_str()
            );
        }
        // Those whose link died while there was no other.
        self.rehome(inner);
        let usable = inner.slots().filter(|slot| inner.is_usable(*slot)).count();
        let share = LinkShare::new(self.tokens.lock().live(), usable);
        self.members().for_each(|member| {
            let from = member.slot().filter(|from| *from != slot);
            let Some(from) = from.and_then(|from| inner.link(from)) else {
                return;
            };
            if !share.moves(handler.uses(), from.handler.uses()) {
                return;
            }
            if let (Some(element), Some(buffer)) = (member.peer_element(), member.send_buffer()) {
                if let Ok(route) = inner.route(slot, &buffer, &element) {
                    member.migrate(route);
                }
            }
        });
        // RMBs that were made meanwhile may have to be registered on it.
        self.register_work.kick(self, &self.context.links);
        // There may be ports for more, one after the other (`SMCR-LLF-20`).
        if self.role == Role::Server && self.terms.max_links > 2 {
            self.suggested.store(true, Relaxed);
            self.kick();
        }
    }

    /// Moves all connections from a link to others (`SMCR-LLF-49`, `SMCR-FOV-04`).
    /// Context: may sleep.
    pub(crate) fn move_connections(&self, inner: &mut Inner, from: LinkSlot, orderly: bool) {
        if !orderly {
            self.end_link(inner, from);
            return;
        }
        self.members().for_each(|member| {
            if member.slot() != Some(from) {
                return;
            }
            // A connection without an alternative link stays until this one is down.
            if let Some(route) = inner.best_route(&*member, Some(from)) {
                member.migrate(route);
            }
        });
    }

    /// Stops the connections of a link that cannot send. Context: may sleep.
    pub(crate) fn stop_connections(&self, slot: LinkSlot) {
        self.members().for_each(|member| member.link_down(slot));
    }

    /// Ends the queue pair of a link, and lets its connections go on by others. Context: may sleep.
    fn end_link(&self, inner: &mut Inner, slot: LinkSlot) {
        if let Some(link) = inner.link_mut(slot) {
            link.failed = true;
            link.registers = false;
            let channel = link.channel.clone();
            self.stop_connections(slot);
            channel.shutdown();
            if let Some(link) = inner.link_mut(slot) {
                link.closed = true;
            }
            self.rehome(inner);
        }
    }

    /// A link is gone. Context: may sleep.
    pub(crate) fn drop_link(self: &Arc<Self>, inner: &mut Inner, slot: LinkSlot) {
        let unused = inner
            .link(slot)
            .is_some_and(|link| link.handler.uses() == 0);
        if unused && self.retire_link(inner, slot) {
            return;
        }
        self.end_link(inner, slot);
        self.close_link(inner, slot);
    }

    /// Connections whose link has ended go on by another, if there is one. Context: may sleep.
    fn rehome(&self, inner: &Inner) {
        if !inner.has_usable() {
            return;
        }
        self.members()
            .for_each(|member| self.rehome_one(inner, &member));
    }

    /// As [`Self::rehome`], of one connection.
    fn rehome_one(&self, inner: &Inner, member: &Arc<dyn Member>) {
        let Some(slot) = member.slot() else {
            return;
        };
        // Until its queue pair has ended, requests may be in flight.
        if inner.link(slot).is_some_and(|link| !link.closed) {
            return;
        }
        match inner.best_route(&**member, None) {
            Some(route) => member.clone().reroute(route),
            // A link that does not know the peer's buffer is of no use to it (`SMCR-ERR-37`).
            None => member.clone().link_lost(),
        }
    }

    /// A connection has become active: if its link has died meanwhile, it goes by another.
    /// Context: may sleep.
    pub(crate) fn settle(&self, member: &Arc<dyn Member>) {
        let inner = self.inner.lock();
        if self.phase() == GroupPhase::Dead {
            member.clone().link_lost();
            return;
        }
        let slot = member.slot();
        let gone = slot.is_some_and(|slot| inner.link(slot).is_none_or(|link| link.failed));
        if let (true, Some(slot)) = (gone, slot) {
            member.clone().link_down(slot);
            if inner.has_usable() {
                self.rehome_one(&inner, member);
            }
        }
    }

    /// Tells the core of a port that could carry another link (`SMCR-LLF-24`, `SMCR-TMR-30`).
    /// Context: may sleep.
    pub(crate) fn suggest_link(&self, inner: &mut Inner, now: Instant) {
        if self.phase() != GroupPhase::Ready {
            return;
        }
        let Some(path) = self.unused_port(inner) else {
            return;
        };
        let port = Port {
            mac: Mac::new(path.mac()),
            gid: Gid::new(path.gid.gid),
        };
        if let Some(llc) = inner.llc.as_mut() {
            llc.request_link(now, &[port]);
        }
    }

    /// Ends the links on a device, if there is another. Returns whether there was.
    /// Context: may sleep.
    fn leave_links(self: &Arc<Self>, device: &Arc<Device>) -> bool {
        let mut inner = self.inner.lock();
        let is_there =
            |inner: &Inner, slot| inner.link(slot).is_some_and(|link| link.is_on(device));
        let other = inner
            .slots()
            .any(|slot| !is_there(&inner, slot) && inner.is_usable(slot));
        if !other {
            return false;
        }
        for slot in inner.slots() {
            if is_there(&inner, slot) {
                self.lose_link(&mut inner, now(), slot);
                // Whatever the peer says to that, the device cannot wait for it.
                self.drop_link(&mut inner, slot);
            }
        }
        self.close_retired();
        self.conclude(&mut inner);
        true
    }
}

impl PortUser for LinkGroups {
    /// A port may have become usable: groups look whether it is good for another link.
    /// Context: may sleep.
    fn ports_added(&self) {
        for group in self.matching(|group| group.phase() == GroupPhase::Ready) {
            group.suggested.store(true, Relaxed);
            group.kick();
        }
    }

    /// Something is wrong with a port: a link on it is given up at once if there is another, and
    /// tested if there is none. Context: may sleep.
    fn port_failed(&self, device: &Arc<Device>, number: u32) {
        for group in self.matching(|group| group.is_on_port(device, number)) {
            let inner = group.inner.lock();
            let is_there = |slot| {
                let link = inner.link(slot);
                link.is_some_and(|link| link.is_on_port(device, number))
            };
            let other = inner
                .slots()
                .any(|slot| !is_there(slot) && inner.is_usable(slot));
            for slot in inner.slots().filter(|slot| is_there(*slot)) {
                match inner.link(slot) {
                    Some(link) if other => link.handler.broke(),
                    Some(link) => link.handler.test(),
                    None => {}
                }
            }
        }
    }

    /// The addresses of a port have changed: links that use one that is gone are in doubt.
    /// Context: may sleep.
    fn addresses_changed(&self, device: &Arc<Device>, number: u32) {
        let lost = |group: &LinkGroup| {
            let inner = group.inner.lock();
            let mut links = inner.links.iter().flatten();
            links.any(|link| link.is_on_port(device, number) && !link.path.is_current())
        };
        let on_port = self.matching(|group| group.is_on_port(device, number));
        if on_port.iter().any(|group| lost(group)) {
            self.port_failed(device, number);
        }
    }

    /// A device goes away: links on it end. Groups with another link go on, the others tell the
    /// peer that they end. On return nothing of any group is on the device. Context: may sleep.
    fn device_removed(&self, device: &Arc<Device>) {
        let groups = self.matching(|group| group.is_on(device));
        for group in groups.iter() {
            if !group.leave_links(device) {
                group.say_goodbye();
            }
        }
        for group in groups.iter().filter(|group| group.is_on(device)) {
            group.wait_dead();
        }
        self.terminate_all(|group| group.is_on(device));
    }

    /// Breaks the links on that device, without waiting. Context: may sleep.
    fn device_failed(&self, device: &Arc<Device>) {
        for group in self.matching(|group| group.is_on(device)) {
            let inner = group.inner.lock();
            for link in inner
                .links
                .iter()
                .flatten()
                .filter(|link| link.is_on(device))
            {
                link.handler.broke();
            }
        }
    }
}

impl Inner {
    /// Maps the RMBs for a new end, tells the core of their keys, and connects it to `peer`.
    fn prepare_link(&mut self, slot: LinkSlot, peer: Option<&PeerOffer>) -> Result<LinkOffer> {
        let Inner {
            links, rmbs, llc, ..
        } = self;
        let link = links.get_mut(slot.index()).and_then(Option::as_deref_mut);
        let link = link.ok_or(ENODEV)?;
        let llc = llc.as_mut().ok_or(ENODEV)?;
        for rmb in rmbs.iter() {
            link.map(rmb)?;
            llc.set_token(rmb.id, slot, rmb.token(slot).ok_or(ENOENT)?);
        }
        if let Some(peer) = peer {
            link.connect(&peer.link, peer.psn, link.mtu.smaller(peer.mtu))?;
        }
        Ok(LinkOffer {
            local: link.local(),
            psn: link.psn,
            mtu: link.mtu,
        })
    }

    /// Connects a link that was offered, and lets it send (`SMCR-LLF-18`). Context: may sleep.
    pub(crate) fn connect_link(&mut self, slot: LinkSlot, peer: &PeerOffer) -> Result {
        let link = self.link_mut(slot).ok_or(ENODEV)?;
        link.connect(&peer.link, peer.psn, link.mtu.smaller(peer.mtu))?;
        self.start_link(slot)
    }

    /// Lets a link send, and the peer use the RMBs by it. Context: may sleep.
    pub(crate) fn start_link(&mut self, slot: LinkSlot) -> Result {
        self.link_mut(slot).ok_or(ENODEV)?.start_sending()?;
        self.link(slot).ok_or(ENODEV)?.activate(&self.rmbs)
    }
}
