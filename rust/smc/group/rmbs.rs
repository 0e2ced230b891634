// SPDX-License-Identifier: GPL-2.0

//! The RMBs of a link group: making, registering and announcing them, and finding room in them.
//!
//! Source: RFC 7609 sections 2.1, 3.5.5.2 (`SMCR-RMB-03`, `SMCR-RMB-20..21`, `SMCR-LLF-60..66`).
//!
//! A new RMB is registered on every link by a work item of its own, without the group's mutex: the
//! registration is a request on the link's queue pair and may have to wait behind data that a slow
//! peer takes its time for. When it is registered everywhere, the peer is told.

use super::{
    link::Link,
    link_group::{
        Inner,
        LinkGroup,
        REGISTER, //
    },
    member::Member,
    phase::GroupPhase,
    rmb::{
        Known,
        Rmb,
        RmbSizes,
        Rmbe, //
    },
};
use crate::{
    fabric::quota::Payer,
    kapi::{
        base::work::Run,
        mem::region::PeerMemory, //
    },
    proto::{
        base::{
            queue::ArrayQueue,
            time::Instant, //
        },
        smc::{
            buffer_kind::BufferKind,
            buffer_sizing::{
                self,
                WantedSize, //
            },
            llc::{
                rmb_pool::RmbPool,
                RmbId, //
            },
            wire::BufSize, //
        },
    },
    sock::context::now, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The elements of a new RMB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RmbPlan {
    /// The size of each.
    pub(crate) wanted: BufSize,
    /// Most of them.
    pub(crate) elements: usize,
    /// Whether each is contiguous.
    pub(crate) kind: BufferKind,
}

/// What a handshake gets when it asks for a receive buffer.
pub(crate) enum Taken {
    /// An element the peer knows.
    Now(Rmbe),
    /// The peer must confirm a new RMB first; the handshake is kicked when it has.
    Wait,
}

impl Inner {
    /// Makes a new RMB with a key on every link, of elements of the wanted size or of the next smaller one
    /// that can be had. Context: may sleep.
    pub(crate) fn add_rmb(
        &mut self,
        payer: &Payer,
        plan: RmbPlan,
        known: Known,
    ) -> Result<Arc<Rmb>> {
        let wanted = plan.wanted;
        let mut size = wanted;
        let memory = loop {
            match self.peer_memory(payer, size, plan) {
                Ok(memory) => break memory,
                Err(error) => size = size.smaller().ok_or(error)?,
            }
        };
        let id = RmbId(self.next_rmb);
        self.next_rmb = self.next_rmb.wrapping_add(1);
        let sizes = RmbSizes { wanted, size };
        let rmb = Rmb::new(id, sizes, memory, payer.cgroup().clone(), known)?;
        for link in self.links.iter().flatten() {
            link.map(&rmb)?;
        }
        self.rmbs.push(rmb.clone(), GFP_KERNEL)?;
        Ok(rmb)
    }

    /// Memory for an RMB of elements of `size`, which the devices of all links can cover.
    fn peer_memory(&self, payer: &Payer, size: BufSize, plan: RmbPlan) -> Result<Arc<PeerMemory>> {
        let bytes = usize::try_from(size.bytes())?;
        let mut elements = plan.elements;
        for link in self.links.iter().flatten() {
            elements = elements.min(link.path.device.max_region_bytes() / bytes);
        }
        if elements == 0 {
            return Err(EMSGSIZE);
        }
        loop {
            let memory = plan.kind.make(size.bytes(), |piece| {
                payer.peer_memory(elements, bytes, usize::try_from(piece)?)
            });
            if memory.is_ok() || elements <= 1 {
                return memory;
            }
            // Memory is short or fragmented, or a limit is near: a smaller RMB will do.
            elements = elements.div_ceil(2);
        }
    }

    /// Whether elements begin with an eye catcher (`SMCR-RMB-12`, `SMCR-DEP-1`).
    pub(crate) fn has_eye_catchers(&self) -> bool {
        self.llc.as_ref().is_some_and(|llc| llc.has_eye_catchers())
    }

    /// Deletes RMBs at the peer that were not used since the last check, except for the first, when
    /// it is time to. Context: may sleep.
    pub(crate) fn return_unused(&mut self, now: Instant) {
        if !self.pool.is_search_due(now, self.rmbs.len()) {
            return;
        }
        let mut unknown = ArrayQueue::<RmbId, 8>::new();
        for rmb in self.rmbs.iter().skip(1) {
            if rmb.known() != Known::Confirmed || !rmb.was_idle(now) {
                continue;
            }
            rmb.set_known(Known::Leaving);
            let llc = self.llc.as_mut();
            if !llc.is_some_and(|llc| llc.delete_rkey(now, rmb.id)) {
                // The next look gets what finds no place here.
                let _ = unknown.push(rmb.id);
            }
        }
        while let Some(id) = unknown.pop() {
            self.forget_rmb(id);
        }
    }

    /// Drops an RMB that was not announced, or that the peer has forgotten. Context: may sleep.
    pub(crate) fn forget_rmb(&mut self, id: RmbId) {
        for link in self.links.iter().flatten() {
            if let Some(rmb) = self.rmbs.iter().find(|rmb| rmb.id == id) {
                rmb.unmap(link.slot);
            }
        }
        self.rmbs.retain(|rmb| rmb.id != id);
    }

    /// The first RMB that is not registered on some link, with that link.
    fn unregistered(&self) -> Option<(Arc<Rmb>, &Link)> {
        let mut rmbs = self
            .rmbs
            .iter()
            .filter(|rmb| rmb.known() == Known::Registering);
        rmbs.find_map(|rmb| {
            let mut links = self.links.iter().flatten().filter(|link| link.registers);
            let link = links.find(|link| !rmb.is_active(link.slot))?;
            Some((rmb.clone(), &**link))
        })
    }
}

impl LinkGroup {
    /// The size of a buffer for another connection. Context: any.
    pub(crate) fn buffer_size(&self, wanted: WantedSize) -> BufSize {
        let live = self.tokens.lock().live();
        wanted.size(self.settings.shares_buffers(), live)
    }

    /// What an RMB for connections that have `others` beside them has. Context: any.
    pub(crate) fn rmb_plan(&self, wanted: BufSize, others: usize) -> RmbPlan {
        RmbPlan {
            wanted,
            elements: buffer_sizing::elements(wanted, others),
            kind: self.buffers,
        }
    }

    /// Takes a receive buffer for another connection (`SMCR-RDV-21..23`). Context: may sleep.
    pub(crate) fn take_rmbe(
        self: &Arc<Self>,
        payer: &Payer,
        wanted: WantedSize,
        waiter: Arc<dyn Member>,
        now: Instant,
    ) -> Result<Taken> {
        let mut inner = self.inner.lock();
        if self.phase() != GroupPhase::Ready {
            return Err(ENODEV);
        }
        let size = self.buffer_size(wanted);
        let confirmed = |rmb: &&Arc<Rmb>| rmb.known() == Known::Confirmed;
        // An element is used by the cgroup that is charged for it.
        let fits = |rmb: &&Arc<Rmb>| rmb.sizes.wanted == size && rmb.is_of(payer.cgroup());
        // What fits best; else, before another RMB is made, what is free already.
        let more =
            |rmb: &&Arc<Rmb>| wanted.accepts(rmb.sizes.size, size) && rmb.is_of(payer.cgroup());
        let rmbs = || inner.rmbs.iter().filter(confirmed);
        let found = rmbs().filter(fits).find_map(Rmb::take);
        let found = found.or_else(|| rmbs().filter(more).find_map(Rmb::take));
        let coming = |rmb: &Arc<Rmb>| matches!(rmb.known(), Known::Registering | Known::Announcing);
        let announcing = inner.rmbs.iter().filter(fits).any(coming);
        if let Some(rmbe) = found {
            if inner.has_eye_catchers() {
                rmbe.mark()?;
            }
            return Ok(Taken::Now(rmbe));
        }
        if !inner.pool.may_wait(now, inner.rmbs.len()) {
            return Err(ENOSPC);
        }
        if !announcing {
            if !RmbPool::may_add(inner.rmbs.iter().map(|rmb| rmb.resting(now))) {
                return Err(ENOSPC);
            }
            let plan = self.rmb_plan(size, self.tokens.lock().live());
            inner.add_rmb(payer, plan, Known::Registering)?;
            self.register_work.kick(self, &self.context.links);
        }
        inner.add_waiter(waiter)?;
        Ok(Taken::Wait)
    }

    /// Tells the peer of the RMBs that are registered on all links. Context: may sleep.
    fn announce(inner: &mut Inner) -> Result {
        let Inner {
            rmbs, llc, links, ..
        } = inner;
        let llc = llc.as_mut().ok_or(ENODEV)?;
        for rmb in rmbs.iter().filter(|rmb| rmb.known() == Known::Registering) {
            let mut tokens = KVec::new();
            for link in links.iter().flatten() {
                if let Some(token) = rmb.token(link.slot) {
                    tokens.push((link.slot, token), GFP_KERNEL)?;
                }
            }
            // When there is no room for the request, the end of another comes back here.
            llc.confirm_rkey(now(), rmb.id, &tokens)
                .map_err(|_| EBUSY)?;
            rmb.set_known(Known::Announcing);
        }
        Ok(())
    }

    /// Registers the next RMB that is new to a link, without the group's mutex, as that may wait
    /// for the peer. Returns whether there was one. Context: may sleep.
    fn register_next(&self) -> bool {
        let (rmb, channel, handler) = {
            let mut inner = self.inner.lock();
            if self.phase() != GroupPhase::Ready {
                return false;
            }
            let Some((rmb, link)) = inner.unregistered() else {
                // What cannot be announced now waits for its turn.
                let _ = Self::announce(&mut inner);
                return false;
            };
            (rmb, link.channel.clone(), link.handler.clone())
        };
        if rmb.activate(handler.slot(), &channel).is_err() {
            if let Some(link) = self.inner.lock().link_mut(handler.slot()) {
                link.registers = false;
            }
            handler.broke();
        }
        true
    }
}

impl Run<REGISTER> for LinkGroup {
    fn run(this: Arc<Self>) {
        while this.register_next() {}
        this.kick();
    }
}
