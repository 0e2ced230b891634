// SPDX-License-Identifier: GPL-2.0

//! Feeds the LLC core of a link group and performs what it asks for.
//!
//! Source: RFC 7609 section 3.3 to 3.5, appendix C; the decisions are in `proto::llc`.

use super::{
    link::{
        Link,
        Tag, //
    },
    link_group::{
        Inner,
        LinkGroup,
        Phase, //
    },
    now,
    rmb::Known, //
};
use crate::{
    kapi::{
        rdma::channel::Channel,
        time::jiffies_from_ns,
        work::Run, //
    },
    proto::{
        clc::LlcOutcome,
        llc::{
            rtoken::Entry,
            Action,
            Config,
            DeleteReason,
            Fail,
            Group,
            Layout,
            LinkOffer,
            LocalLink,
            PeerLink,
            RmbId,
            Role,
            Slot,
            Timers, //
        },
        reason::Reason,
        time::{
            earliest,
            Duration,
            Instant, //
        },
        wire::{
            Gid,
            LinkNum,
            Qpn, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// The LLC core with its table of the peer's RMBs.
pub(crate) type LlcGroup = Group<KVec<Entry>>;

/// RMBs a peer may have (`SMCR-RMB-03`).
const PEER_RMBS: usize = 255;
/// Links of a group.
const MAX_LINKS: u8 = 2;
/// The number of the first link; the server assigns it (`SMCR-LNK-02`).
const FIRST_LINK: LinkNum = LinkNum::new(1);
/// How long a server keeps a group without connections (`SMCR-LGR-22`).
const IDLE_TIME: Duration = Duration::from_secs(600);

impl LinkGroup {
    /// Makes the LLC core for a link whose other end is known. Sleeps.
    pub(super) fn new_llc(
        &self,
        channel: &Channel<Link>,
        peer: &PeerLink,
    ) -> Result<KBox<LlcGroup>> {
        let config = Config {
            role: self.role,
            local: LocalLink {
                mac: self.path.mac(),
                gid: Gid::new(self.path.gid.gid),
                qpn: Qpn::new(channel.qpn()),
                uid: self.id,
            },
            peer: *peer,
            number: FIRST_LINK,
            max_links: MAX_LINKS,
            layout: Layout::Linux,
            timers: Timers {
                idle_test: self.engine.settings(self.key.net)?.testlink_time(),
                ..Timers::default()
            },
        };
        let rows = KVec::from_elem(Entry::EMPTY, PEER_RMBS, GFP_KERNEL)?;
        Ok(KBox::new(Group::new(&config, rows), GFP_KERNEL)?)
    }

    /// Starts first contact: the server confirms the link, the client waits for that. Sleeps.
    pub(crate) fn start_llc(
        this: &Arc<Self>,
        founder: &Arc<super::connection::Connection>,
    ) -> Result {
        let mut inner = this.inner.lock();
        if this.phase() != Phase::Forming {
            return Err(ENODEV);
        }
        if this.role == Role::Server {
            Self::activate_rmbs(&mut inner)?;
        }
        inner.founder = Some(founder.clone());
        inner.started = true;
        inner.llc.as_mut().ok_or(ENODEV)?.start(now());
        this.drive(&mut inner);
        Self::conclude(this, &mut inner);
        // The peer may have been quicker.
        this.work.kick(this, &this.engine.queue);
        Ok(())
    }

    /// Registers what was prepared before the queue pair could take work.
    fn activate_rmbs(inner: &mut Inner) -> Result {
        let channel = inner.channel.clone().ok_or(ENODEV)?;
        for rmb in inner.rmbs.iter() {
            rmb.activate(&channel)?;
        }
        Ok(())
    }

    /// Posts what waits for a send slot, in order. Returns whether all of it went out.
    fn post_unsent(&self, inner: &mut Inner) -> bool {
        let Some(channel) = inner.channel.clone() else {
            return true;
        };
        // Set before the search, so that a slot that comes back meanwhile is noticed.
        self.llc_waits.store(!inner.unsent.is_empty(), Relaxed);
        while let Some(&(kind, msg)) = inner.unsent.front() {
            let Some(slot) = Channel::try_reserve(&channel, 0) else {
                return false;
            };
            let _ = inner.unsent.pop();
            if slot.post(Tag::Llc(kind), None, &[], &msg).is_err() {
                if let Some(llc) = inner.llc.as_mut() {
                    llc.handle_send_failed(now(), Slot::FIRST, kind);
                }
            }
        }
        self.llc_waits.store(false, Relaxed);
        true
    }

    /// Performs what the core asks for, until it asks for nothing more.
    fn drive(&self, inner: &mut Inner) {
        loop {
            if !self.post_unsent(inner) {
                // `on_slot_free` continues.
                break;
            }
            let Some(action) = inner.llc.as_mut().and_then(|llc| llc.poll_action()) else {
                break;
            };
            self.perform(inner, action);
        }
    }

    fn perform(&self, inner: &mut Inner, action: Action) {
        match action {
            Action::Send { msg, kind, slot } => {
                if inner.unsent.push((kind, msg)).is_err() {
                    if let Some(llc) = inner.llc.as_mut() {
                        llc.handle_send_failed(now(), slot, kind);
                    }
                }
            }
            Action::MoveToRts { slot } => {
                let result = self.move_to_rts(inner);
                if let Some(llc) = inner.llc.as_mut() {
                    llc.handle_rts(now(), slot, result.map_err(|_| Reason::Internal));
                }
            }
            Action::OfferLink => {
                // One RNIC: the offer names it again, and the client refuses a parallel link
                // (`SMCR-LLF-12`).
                let Some(channel) = inner.channel.clone() else {
                    return;
                };
                let offer = LinkOffer {
                    mac: self.path.mac(),
                    gid: Gid::new(self.path.gid.gid),
                    qpn: Qpn::new(channel.qpn()),
                    psn: inner.psn,
                    mtu: inner.mtu,
                };
                if let Some(llc) = inner.llc.as_mut() {
                    llc.offer_link(now(), offer);
                }
            }
            Action::DropOffer => {}
            Action::Ready => {
                self.set_phase(Phase::Ready);
                inner.idle_since = None;
                if let Some(founder) = inner.founder.take() {
                    founder.llc_outcome(LlcOutcome::Ready);
                }
                Self::wake_waiters(inner);
            }
            Action::FirstContactFailed(fail) => {
                let outcome = match fail {
                    Fail::Decline(reason) => LlcOutcome::Decline(reason),
                    Fail::Abort(reason) => LlcOutcome::Abort(reason),
                };
                if let Some(founder) = inner.founder.take() {
                    founder.llc_outcome(outcome);
                }
                inner.over = true;
            }
            Action::RkeyConfirmed(id) => Self::rmb_known(inner, id, Known::Confirmed),
            Action::RkeyRejected(id) => {
                inner.refused_at = Some(now());
                inner.rmbs.retain(|rmb| rmb.id != id);
                Self::wake_waiters(inner);
            }
            Action::RkeyDeleted(id) => {
                inner.rmbs.retain(|rmb| rmb.id != id);
            }
            Action::LinkDown { cause, .. } => {
                pr_warn!("link group {:#x}: link down: {}\n", self.id, cause.name());
                if let Some(channel) = inner.channel.clone() {
                    channel.fail();
                }
            }
            Action::Terminate { cause } => {
                pr_info!("link group {:#x}: ended: {}\n", self.id, cause.name());
                inner.over = true;
            }
        }
    }

    fn move_to_rts(&self, inner: &mut Inner) -> Result {
        let channel = inner.channel.clone().ok_or(ENODEV)?;
        channel.to_rts(inner.psn.get())?;
        Self::activate_rmbs(inner)
    }

    fn rmb_known(inner: &mut Inner, id: RmbId, known: Known) {
        if let Some(rmb) = inner.rmbs.iter().find(|rmb| rmb.id == id) {
            rmb.set_known(known);
        }
        Self::wake_waiters(inner);
    }

    fn wake_waiters(inner: &mut Inner) {
        for waiter in inner.waiters.drain_all() {
            waiter.kick_handshake();
        }
    }

    /// Ends the group if the core said so, else arms its timer.
    fn conclude(this: &Arc<Self>, inner: &mut Inner) {
        if inner.over {
            Self::dismantle(this, inner);
            return;
        }
        let idle = inner
            .idle_since
            .map(|since| since.saturating_add(IDLE_TIME));
        let timer = inner.llc.as_ref().and_then(|llc| llc.poll_timeout());
        if let Some(at) = earliest(timer, idle) {
            let delay = at.saturating_since(now()).as_nanos();
            this.work
                .arm(this, &this.engine.queue, jiffies_from_ns(delay));
        }
    }

    /// Looks whether the group has been without connections for too long.
    fn check_idle(&self, inner: &mut Inner, now: Instant) {
        if self.role == Role::Client || self.phase() != Phase::Ready {
            return;
        }
        {
            let mut tokens = self.tokens.lock();
            if tokens.live() != 0 {
                inner.idle_since = None;
                return;
            }
            let since = *inner.idle_since.get_or_insert(now);
            if now.saturating_since(since) < IDLE_TIME {
                return;
            }
            // Whoever comes now gets another group.
            tokens.close();
        }
        if let Some(llc) = inner.llc.as_mut() {
            llc.terminate(now, DeleteReason::Inactivity, true);
        }
    }

    /// Asks the peer to end the group, as a stack that shuts down does (`SMCR-CLS-32`). The group
    /// is dead at the latest when the core's timers have run out. Sleeps.
    pub(crate) fn say_goodbye(this: &Arc<Self>) {
        let mut inner = this.inner.lock();
        match inner.llc.as_mut() {
            Some(llc) => llc.terminate(now(), DeleteReason::Operator, true),
            None => inner.over = true,
        }
        this.drive(&mut inner);
        Self::conclude(this, &mut inner);
    }
}

impl Run<0> for LinkGroup {
    fn run(this: Arc<Self>) {
        let mut inner = this.inner.lock();
        if this.phase() == Phase::Dead {
            return;
        }
        let now = now();
        let started = inner.started;
        let (broken, test, active) = {
            let mut inbox = this.inbox.lock();
            let test = core::mem::take(&mut inbox.test);
            let active = core::mem::take(&mut inbox.active);
            (inbox.broken, test, active)
        };
        // Until the founder has said its last word in CLC, messages wait in the inbox.
        if inner.started {
            this.feed(&mut inner, now, active);
        }
        if let Some(llc) = inner.llc.as_mut().filter(|_| started) {
            if test {
                llc.test_link(now, Slot::FIRST, [0; 16]);
            }
            if broken {
                llc.handle_link_down(now, Slot::FIRST);
            }
            llc.handle_timeout(now);
        } else if broken && !started {
            inner.over = true;
        }
        this.check_idle(&mut inner, now);
        this.drive(&mut inner);
        Self::conclude(&this, &mut inner);
        drop(inner);
        // A slot that was given back unused is announced to nobody else.
        Self::serve_waiting(&this);
    }
}

impl LinkGroup {
    /// Passes on what softirq left.
    fn feed(&self, inner: &mut Inner, now: Instant, active: bool) {
        if active {
            if let Some(llc) = inner.llc.as_mut() {
                llc.touch(now, Slot::FIRST);
            }
        }
        loop {
            let sent = self.inbox.lock().sent.pop();
            let Some((kind, good)) = sent else { break };
            if let Some(llc) = inner.llc.as_mut() {
                if good {
                    llc.handle_sent(now, Slot::FIRST, kind);
                } else {
                    llc.handle_send_failed(now, Slot::FIRST, kind);
                }
            }
            self.drive(inner);
        }
        loop {
            let received = self.inbox.lock().received.pop();
            let Some(msg) = received else { break };
            if let Some(llc) = inner.llc.as_mut() {
                llc.handle_message(now, Slot::FIRST, &msg);
            }
            self.drive(inner);
        }
    }
}
