// SPDX-License-Identifier: GPL-2.0

//! The registry of link groups: finding the group for a handshake, and ending many of them.
//!
//! Source: RFC 7609 section 2.2, 3.5.1 (`SMCR-LGR-02`, `SMCR-CLC-223`).

use super::{
    link_group::{
        Join,
        LinkGroup,
        LinkGroups,
        NamedLink, //
    },
    member::Member,
    phase::{
        GroupPhase,
        Key, //
    },
};
use crate::{
    fabric::ports::Path,
    kapi::compat::errno::ENOBUFS,
    proto::{
        base::{
            quota::Forming,
            time::Instant, //
        },
        smc::{
            clc::{
                Endpoint,
                Terms, //
            },
            llc::Role, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl LinkGroups {
    /// Finds the server group for a Proposal of `waiter`, whose peer is the host `from`, or enters
    /// a new one, atomically. Context: may sleep.
    ///
    /// The peer ID of a Proposal is a claim. So a group is joined only by a host that it is known
    /// to be with, and waited for only by the host of its founder: a liar gets a group of its own.
    /// So does a waiter whose Proposal came at `since`, when it has waited long enough.
    pub(crate) fn join(
        self: &Arc<Self>,
        key: Key,
        path: &Path,
        terms: Terms,
        (waiter, from): (&Arc<dyn Member>, [u8; 16]),
        since: Instant,
    ) -> Result<Join> {
        let mut fresh = None;
        loop {
            let found = {
                let mut groups = self.list.lock();
                let found = groups.iter().find(|group| {
                    group.role == Role::Server
                        && group.key == key
                        && group.is_on_port(&path.device, path.port)
                        && group.has_room()
                        && group.admits(&from, since)
                });
                match (found, fresh.take()) {
                    (Some(group), _) => Some(group.clone()),
                    (None, Some(fresh)) => {
                        self.enter(&mut groups, &fresh, &from)?;
                        return Ok(Join::New(fresh));
                    }
                    (None, None) => None,
                }
            };
            let Some(found) = found else {
                // Made without the lock; then looked again.
                fresh = Some(LinkGroup::new(
                    self,
                    Role::Server,
                    key,
                    path.clone(),
                    terms,
                    from,
                )?);
                continue;
            };
            let mut inner = found.inner.lock();
            match found.phase() {
                GroupPhase::Ready if inner.is_founded => {
                    drop(inner);
                    return Ok(Join::Ready(found));
                }
                GroupPhase::Ready | GroupPhase::Forming => {
                    inner.add_waiter(waiter.clone())?;
                    return Ok(Join::Wait);
                }
                // The group died meanwhile: search again.
                GroupPhase::Dead => continue,
            }
        }
    }

    /// Enters a new client group. Context: may sleep.
    pub(crate) fn new_client(
        self: &Arc<Self>,
        key: Key,
        path: &Path,
        terms: Terms,
        from: [u8; 16],
    ) -> Result<Arc<LinkGroup>> {
        let group = LinkGroup::new(self, Role::Client, key, path.clone(), terms, from)?;
        self.enter(&mut self.list.lock(), &group, &from)?;
        Ok(group)
    }

    /// Enters a new group, which a TCP connection to or from `from` makes, in the registry.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` when too many are in first contact, during which the peer is not known.
    fn enter(
        &self,
        groups: &mut KVec<Arc<LinkGroup>>,
        fresh: &Arc<LinkGroup>,
        from: &[u8; 16],
    ) -> Result {
        let mut forming = Forming::default();
        let of_namespace = |group: &&Arc<LinkGroup>| {
            group.key.net == fresh.key.net && group.phase() == GroupPhase::Forming
        };
        for group in groups.iter().filter(of_namespace) {
            forming.count(group.hosts.lock().is_of_peer(from));
        }
        if !forming.allows_another(&fresh.net.accounts.caps()) {
            return Err(ENOBUFS);
        }
        groups.push(fresh.clone(), GFP_KERNEL)?;
        Ok(())
    }

    /// Finds the client group, and the link of it, that the server at `from` named in its Accept
    /// (`SMCR-CLC-223`); rather one that is known to be with that host. Context: may sleep.
    pub(crate) fn find_client(
        &self,
        key: &Key,
        end: &Endpoint,
        from: &[u8; 16],
    ) -> Option<NamedLink> {
        let candidates = {
            let groups = self.list.lock();
            let mut candidates = KVec::new();
            for group in groups.iter() {
                if group.role == Role::Client
                    && group.key == *key
                    && group.phase() != GroupPhase::Dead
                {
                    candidates.push(group.clone(), GFP_KERNEL).ok()?;
                }
            }
            candidates
        };
        let named = candidates.into_iter().filter_map(|group| {
            let slot = group.link_of_peer(end.gid, end.mac, end.qpn)?;
            Some(NamedLink {
                slot,
                proven: group.is_with(from),
                group,
            })
        });
        named.reduce(|found, other| if found.proven { found } else { other })
    }

    /// The groups that `pick` chooses; fewer without memory. Context: may sleep.
    pub(crate) fn matching(&self, pick: impl Fn(&LinkGroup) -> bool) -> KVec<Arc<LinkGroup>> {
        let groups = self.list.lock();
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
    /// at the latest when the timers of the core have run out. Context: may sleep.
    pub(crate) fn dismiss_all(&self, pick: impl Fn(&LinkGroup) -> bool) {
        let groups = self.matching(&pick);
        for group in groups.iter() {
            group.say_goodbye();
        }
        for group in groups.iter() {
            group.wait_dead();
        }
        self.terminate_all(pick);
    }

    /// Ends all matching groups at once and waits for it. Context: may sleep.
    pub(crate) fn terminate_all(&self, pick: impl Fn(&LinkGroup) -> bool) {
        loop {
            let groups = self.matching(&pick);
            if groups.is_empty() {
                break;
            }
            for group in groups {
                let mut inner = group.inner.lock();
                group.dismantle(&mut inner);
            }
        }
    }
}
