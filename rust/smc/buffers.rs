// SPDX-License-Identifier: GPL-2.0

//! The RMBs of a link group: making, registering and announcing them, and finding room in them.
//!
//! Source: RFC 7609 sections 2.1, 3.5.5.2 (`SMCR-RMB-03`, `SMCR-RMB-20..21`, `SMCR-LLF-60..66`).
//!
//! A new RMB is registered on every link by a work item of its own, without the group's mutex: the
//! registration is a request on the link's queue pair and may have to wait behind data that a slow
//! peer takes its time for. When it is registered everywhere, the peer is told.

use super::{
    context::now,
    end::End,
    link_group::{
        Inner,
        LinkGroup,
        Phase,
        REGISTER, //
    },
    member::Member,
    quota::Payer,
    rmb::{
        Known,
        Rmb,
        Rmbe, //
    },
};
use crate::{
    kapi::base::work::Run,
    proto::{
        base::{
            queue::ArrayQueue,
            time::{
                Duration,
                Instant, //
            },
        },
        llc::RmbId,
        share,
        wire::BufSize, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// RMBs of a group (`SMCR-RMB-03`).
const MAX_RMBS: usize = 255;
/// Elements that rest; with more of them another RMB is not made. They are left behind by handshakes
/// that break off, of which a peer can have as many as it likes.
const MAX_RESTING: u32 = 64;
/// How often a group looks for RMBs that it does not need. One that was not used in between goes.
const RETURN_TIME: Duration = Duration::from_secs(10);
/// How long connections decline instead of offering another RMB to a peer that refused one.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// The size that a buffer shall have.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    /// The user has said so.
    Exactly(BufSize),
    /// This, or less for one of many connections.
    Default(BufSize),
}

impl Wanted {
    /// Rounds what the user set, which the socket layer stores doubled, or else `default`.
    pub(crate) fn of(user: Option<usize>, default: u32) -> Self {
        match user {
            Some(doubled) => {
                let bytes = u32::try_from(doubled / 2).unwrap_or(u32::MAX);
                Self::Exactly(BufSize::for_bytes(bytes))
            }
            None => Self::Default(BufSize::for_bytes(default)),
        }
    }
}

/// What a handshake gets when it asks for a receive buffer.
pub(crate) enum Taken {
    /// An element the peer knows.
    Now(Rmbe),
    /// The peer must confirm a new RMB first; the handshake is kicked when it has.
    Wait,
}

impl Inner {
    /// Makes a new RMB with a key on every link. Sleeps.
    pub(super) fn add_rmb(
        &mut self,
        payer: &Payer,
        size: BufSize,
        mut elements: usize,
        known: Known,
    ) -> Result<Arc<Rmb>> {
        let bytes = usize::try_from(size.bytes())?;
        for end in self.ends.iter().flatten() {
            elements = elements.min(end.path.device.max_region_bytes() / bytes);
        }
        elements = elements.max(1);
        let memory = loop {
            match payer.peer_memory(elements, bytes) {
                Ok(memory) => break memory,
                Err(error) if elements <= 1 => return Err(error),
                // Memory is short or fragmented, or a limit is near: a smaller RMB will do.
                Err(_) => elements = elements.div_ceil(2),
            }
        };
        let id = RmbId(self.next_rmb);
        self.next_rmb = self.next_rmb.wrapping_add(1);
        let rmb = Rmb::new(id, size, memory, payer.cgroup().clone(), known)?;
        for end in self.ends.iter().flatten() {
            end.map(&rmb)?;
        }
        self.rmbs.push(rmb.clone(), GFP_KERNEL)?;
        Ok(rmb)
    }

    /// Whether elements begin with an eye catcher (`SMCR-RMB-12`, `SMCR-DEP-1`).
    pub(super) fn has_eye_catchers(&self) -> bool {
        self.llc.as_ref().is_some_and(|llc| llc.has_eye_catchers())
    }

    /// Has the peer forget RMBs that were not used since the last look, but for the first, when it
    /// is time to. Sleeps.
    pub(super) fn return_unused(&mut self, now: Instant) {
        if self.rmbs.len() < 2 {
            self.return_at = None;
            return;
        }
        let next = now.saturating_add(RETURN_TIME);
        if *self.return_at.get_or_insert(next) > now {
            return;
        }
        self.return_at = Some(next);
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

    /// An RMB came to nothing, or the peer has forgotten it. Sleeps.
    pub(super) fn forget_rmb(&mut self, id: RmbId) {
        for end in self.ends.iter().flatten() {
            if let Some(rmb) = self.rmbs.iter().find(|rmb| rmb.id == id) {
                rmb.unmap(end.slot);
            }
        }
        self.rmbs.retain(|rmb| rmb.id != id);
    }

    /// The first RMB that is not registered on some link, with that link.
    fn unregistered(&self) -> Option<(Arc<Rmb>, &End)> {
        let mut rmbs = self
            .rmbs
            .iter()
            .filter(|rmb| rmb.known() == Known::Registering);
        rmbs.find_map(|rmb| {
            let mut ends = self.ends.iter().flatten().filter(|end| end.registers);
            let end = ends.find(|end| !rmb.is_active(end.slot))?;
            Some((rmb.clone(), &**end))
        })
    }
}

impl LinkGroup {
    /// The size of a buffer for another connection. Any context.
    pub(crate) fn buffer_size(&self, wanted: Wanted) -> BufSize {
        match wanted {
            Wanted::Default(size) if self.settings.shares_buffers() => {
                share::size(size, self.tokens.lock().live())
            }
            Wanted::Default(size) | Wanted::Exactly(size) => size,
        }
    }

    /// Takes a receive buffer for another connection (`SMCR-RDV-21..23`). Sleeps.
    pub(crate) fn take_rmbe(
        self: &Arc<Self>,
        payer: &Payer,
        wanted: Wanted,
        waiter: Arc<dyn Member>,
        now: Instant,
    ) -> Result<Taken> {
        let mut inner = self.inner.lock();
        if self.phase() != Phase::Ready {
            return Err(ENODEV);
        }
        let size = self.buffer_size(wanted);
        let confirmed = |rmb: &&Arc<Rmb>| rmb.known() == Known::Confirmed;
        // An element is used by the cgroup that is charged for it.
        let fits = |rmb: &&Arc<Rmb>| rmb.size == size && rmb.is_of(payer.cgroup());
        // What fits best; else, before another RMB is made, what is free already.
        let more = |rmb: &&Arc<Rmb>| match wanted {
            Wanted::Default(most) => {
                rmb.size > size && rmb.size <= most && rmb.is_of(payer.cgroup())
            }
            Wanted::Exactly(_) => false,
        };
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
        let refused = inner
            .refused_at
            .is_some_and(|at| now.saturating_since(at) < REFUSAL_TIME);
        if refused || inner.rmbs.len() >= MAX_RMBS {
            return Err(ENOSPC);
        }
        if !announcing {
            let resting = inner.rmbs.iter().map(|rmb| rmb.resting(now));
            if resting.fold(0, u32::saturating_add) >= MAX_RESTING {
                return Err(ENOSPC);
            }
            let elements = share::elements(size, self.tokens.lock().live());
            inner.add_rmb(payer, size, elements, Known::Registering)?;
            self.register_work.kick(self, &self.context.links);
        }
        inner.add_waiter(waiter)?;
        Ok(Taken::Wait)
    }

    /// Tells the peer of the RMBs that are registered on all links. Sleeps.
    fn announce(inner: &mut Inner) -> Result {
        let Inner {
            rmbs, llc, ends, ..
        } = inner;
        let llc = llc.as_mut().ok_or(ENODEV)?;
        for rmb in rmbs.iter().filter(|rmb| rmb.known() == Known::Registering) {
            let mut tokens = KVec::new();
            for end in ends.iter().flatten() {
                if let Some(token) = rmb.token(end.slot) {
                    tokens.push((end.slot, token), GFP_KERNEL)?;
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
    /// for the peer. Returns whether there was one. Sleeps.
    fn register_next(&self) -> bool {
        let (rmb, channel, link) = {
            let mut inner = self.inner.lock();
            if self.phase() != Phase::Ready {
                return false;
            }
            let Some((rmb, end)) = inner.unregistered() else {
                // What cannot be announced now waits for its turn.
                let _ = Self::announce(&mut inner);
                return false;
            };
            (rmb, end.channel.clone(), end.link.clone())
        };
        if rmb.activate(link.slot(), &channel).is_err() {
            if let Some(end) = self.inner.lock().end_mut(link.slot()) {
                end.registers = false;
            }
            link.broke();
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
