// SPDX-License-Identifier: GPL-2.0

//! Feeds the LLC core of a link group and performs what it asks for.
//!
//! Source: RFC 7609 section 3.3 to 3.5, appendix C; the decisions are in `proto::llc`.

use super::{
    context::now,
    end::End,
    link::LlcMessage,
    link_group::{
        Inner,
        LinkGroup,
        LlcGroup,
        Phase,
        LLC, //
    },
    member::Member,
    rmb::Known, //
};
use crate::{
    kapi::base::{
        time::jiffies_from_ns,
        work::Run, //
    },
    proto::{
        base::time::{
            earliest,
            Duration,
            Instant, //
        },
        clc::{
            LlcOutcome,
            Version, //
        },
        llc::{
            rtoken::Entry,
            Action,
            Config,
            DeleteReason,
            Fail,
            Group,
            Kind,
            Layout,
            PeerLink,
            RmbId,
            Role,
            Slot,
            Timers,
            LONG_BYTES, //
        },
        reason::Reason,
        wire::LinkNum, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// RMBs each side may have (`SMCR-RMB-03`).
const RMBS: usize = 255;
/// A peer waits for the attempt to add a second link, unless fewer were agreed on before
/// (`SMCR-LLC-110`).
const LEAST_LINKS: u8 = 2;
/// The number of the first link; the server assigns it (`SMCR-LNK-02`).
const FIRST_LINK: LinkNum = LinkNum::new(1);
/// How long a client's queue pairs outlive the word that the group is over. A device may
/// acknowledge a message only after it has shown it, and without that the server would not know
/// that its word has arrived.
const LINGER_TIME: Duration = Duration::from_millis(10);
/// How long a server keeps a group without connections (`SMCR-LGR-22`).
const IDLE_TIME: Duration = Duration::from_secs(600);

/// Takes the long message out of the core, if it still wants to send one. Sleeps.
fn write_long(llc: &mut LlcGroup) -> Result<Option<KVec<u8>>> {
    let mut msg = KVec::from_elem(0, LONG_BYTES, GFP_KERNEL)?;
    let Some(len) = llc.write_long(&mut msg) else {
        return Ok(None);
    };
    msg.truncate(len);
    Ok(Some(msg))
}

impl LinkGroup {
    /// Makes the LLC core for a link whose other end is known. Sleeps.
    pub(super) fn new_llc(&self, first: &End, peer: &PeerLink) -> Result<KBox<LlcGroup>> {
        let config = Config {
            role: self.role,
            local: first.local(),
            peer: *peer,
            number: FIRST_LINK,
            max_links: match self.terms.has_limits() {
                true => self.terms.max_links,
                false => self.terms.max_links.max(LEAST_LINKS),
            },
            max_conns: match self.terms.version {
                Version::V1 => 0,
                Version::V2 => self.terms.max_conns,
            },
            layout: match self.terms.version {
                Version::V1 => Layout::Linux,
                Version::V2 => Layout::V2,
            },
            direct: self.terms.direct,
            timers: Timers {
                idle_test: self.settings.testlink_time(),
                ..Timers::default()
            },
        };
        let rows = || KVec::from_elem(Entry::EMPTY, RMBS, GFP_KERNEL);
        Ok(KBox::new(
            Group::new(&config, rows()?, rows()?),
            GFP_KERNEL,
        )?)
    }

    /// Starts first contact: the server confirms the link, the client waits for that. Sleeps.
    pub(crate) fn start_llc(self: &Arc<Self>, founder: Arc<dyn Member>) -> Result {
        let mut inner = self.inner.lock();
        if self.phase() != Phase::Forming {
            return Err(ENODEV);
        }
        if self.role == Role::Server {
            let first = inner.end(Slot::FIRST).ok_or(ENODEV)?;
            first.activate(&inner.rmbs)?;
        }
        self.hosts.lock().set_confirmed();
        inner.founder = Some(founder);
        inner.started = true;
        inner.llc.as_mut().ok_or(ENODEV)?.start(now());
        self.drive(&mut inner);
        self.conclude(&mut inner);
        // The peer may have been quicker.
        self.work.kick(self, &self.context.links);
        Ok(())
    }

    /// Performs what the core asks for, until it asks for nothing more. Called after every input.
    fn drive(self: &Arc<Self>, inner: &mut Inner) {
        self.perform_all(inner);
        for slot in inner.slots() {
            self.post_unsent(inner, slot);
        }
    }

    fn perform_all(self: &Arc<Self>, inner: &mut Inner) {
        // The end may take as long as a timer runs; whoever comes from when the peer can know of it
        // gets another group.
        if inner.llc.as_ref().is_some_and(|llc| llc.is_ending()) {
            self.tokens.lock().close();
        }
        while let Some(action) = inner.llc.as_mut().and_then(|llc| llc.poll_action()) {
            self.perform(inner, action);
        }
    }

    /// Posts what waits for a send slot of a link.
    fn post_unsent(self: &Arc<Self>, inner: &mut Inner, slot: Slot) {
        while let Some(kind) = inner.end_mut(slot).and_then(End::post_unsent) {
            if let Some(llc) = inner.llc.as_mut() {
                llc.handle_send_failed(now(), slot, kind);
            }
            self.perform_all(inner);
        }
    }

    fn perform(self: &Arc<Self>, inner: &mut Inner, action: Action) {
        match action {
            Action::Send { msg, kind, slot } => {
                Self::queue(inner, slot, kind, Some(LlcMessage::Short(msg)));
            }
            Action::SendLong { slot, kind } => {
                let Some(llc) = inner.llc.as_mut() else {
                    return;
                };
                match write_long(llc) {
                    Ok(Some(msg)) => Self::queue(inner, slot, kind, Some(LlcMessage::Long(msg))),
                    // It is not needed any more.
                    Ok(None) => {}
                    Err(_) => Self::queue(inner, slot, kind, None),
                }
            }
            Action::MoveToRts { slot } => {
                let result = inner.start_end(slot);
                if let Some(llc) = inner.llc.as_mut() {
                    llc.handle_rts(now(), slot, result.map_err(|_| Reason::Internal));
                }
            }
            Action::OfferLink { slot, only_new } => {
                let offer = self.add_end(inner, slot, only_new, None);
                if let Some(llc) = inner.llc.as_mut() {
                    llc.offer_link(now(), slot, offer);
                }
            }
            Action::AcceptLink {
                slot,
                peer,
                only_new,
            } => {
                let offer = self.add_end(inner, slot, only_new, Some(&peer));
                if let Some(llc) = inner.llc.as_mut() {
                    llc.accept_link(now(), slot, offer);
                }
            }
            Action::ConnectLink { slot, peer } => {
                let result = inner.connect_end(slot, &peer);
                if let Some(llc) = inner.llc.as_mut() {
                    llc.handle_rts(now(), slot, result.map_err(|_| Reason::Internal));
                }
            }
            Action::LinkUp { slot } => self.link_up(inner, slot),
            Action::DropLink { slot } => self.drop_end(inner, slot),
            Action::MoveConnections { from, orderly } => {
                self.move_connections(inner, from, orderly);
            }
            Action::SuggestLink => self.suggest_link(inner, now()),
            Action::Ready => {
                self.set_phase(Phase::Ready);
                inner.idle_since = None;
                if let Some(founder) = inner.founder.take() {
                    founder.on_first_contact(LlcOutcome::Ready);
                }
                Self::wake_waiters(inner);
            }
            Action::FirstContactFailed(fail) => {
                let outcome = match fail {
                    Fail::Decline(reason) => LlcOutcome::Decline(reason),
                    Fail::Abort(reason) => LlcOutcome::Abort(reason),
                };
                if let Some(founder) = inner.founder.take() {
                    founder.on_first_contact(outcome);
                }
                inner.over = true;
            }
            Action::RkeyConfirmed(id) => Self::rmb_known(inner, id, Known::Confirmed),
            Action::RkeyRejected(id) => {
                inner.refused_at = Some(now());
                inner.forget_rmb(id);
                Self::wake_waiters(inner);
            }
            Action::RkeyDeleted(id) => inner.forget_rmb(id),
            Action::LinkDown { slot, cause } => {
                self.net.count_link_down(cause.name());
                if self.context.may_log() {
                    pr_warn!("link group {:#x}: link down: {}\n", self.id, cause.name());
                }
                self.drop_end(inner, slot);
            }
            Action::Terminate { cause } => {
                self.net.count_group_ended();
                if self.context.may_log() {
                    pr_info!("link group {:#x}: ended: {}\n", self.id, cause.name());
                }
                inner.over = true;
                if self.role == Role::Client {
                    self.tokens.lock().close();
                    inner.linger = Some(now().saturating_add(LINGER_TIME));
                }
            }
        }
    }

    /// Queues a message on a link, if there could be one and there is room.
    fn queue(inner: &mut Inner, slot: Slot, kind: Kind, msg: Option<LlcMessage>) {
        let queued = match (inner.end_mut(slot), msg) {
            (Some(end), Some(msg)) => end.queue(kind, msg),
            _ => false,
        };
        if !queued {
            if let Some(llc) = inner.llc.as_mut() {
                llc.handle_send_failed(now(), slot, kind);
            }
        }
    }

    fn rmb_known(inner: &mut Inner, id: RmbId, known: Known) {
        if let Some(rmb) = inner.rmbs.iter().find(|rmb| rmb.id == id) {
            rmb.set_known(known);
        }
        Self::wake_waiters(inner);
    }

    fn wake_waiters(inner: &mut Inner) {
        for waiter in inner.waiters.drain_all() {
            waiter.on_group_changed();
        }
    }

    /// Ends the group if the core said so, else arms its timer.
    pub(super) fn conclude(self: &Arc<Self>, inner: &mut Inner) {
        if inner.over {
            let left = inner.linger.map(|until| until.saturating_since(now()));
            match left.filter(|left| *left > Duration::ZERO) {
                Some(left) => {
                    let delay = jiffies_from_ns(left.as_nanos());
                    self.work.arm(self, &self.context.links, delay);
                }
                None => self.dismantle(inner),
            }
            return;
        }
        let idle = inner
            .idle_since
            .map(|since| since.saturating_add(IDLE_TIME));
        let timer = inner.llc.as_ref().and_then(|llc| llc.poll_timeout());
        let unused = inner.return_at;
        if let Some(at) = earliest(earliest(timer, idle), unused) {
            let delay = at.saturating_since(now()).as_nanos();
            self.work
                .arm(self, &self.context.links, jiffies_from_ns(delay));
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
    pub(crate) fn say_goodbye(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        match inner.llc.as_mut() {
            Some(llc) => llc.terminate(now(), DeleteReason::Operator, true),
            None => inner.over = true,
        }
        self.drive(&mut inner);
        self.conclude(&mut inner);
    }
}

impl Run<LLC> for LinkGroup {
    fn run(this: Arc<Self>) {
        let mut inner = this.inner.lock();
        if this.phase() == Phase::Dead {
            return;
        }
        let now = now();
        for slot in inner.slots() {
            this.hear(&mut inner, now, slot);
        }
        if this.suggested.xchg(false, Relaxed) {
            this.suggest_link(&mut inner, now);
            this.drive(&mut inner);
        }
        if inner.started {
            if let Some(llc) = inner.llc.as_mut() {
                llc.handle_timeout(now);
            }
        }
        this.check_idle(&mut inner, now);
        if this.phase() == Phase::Ready {
            inner.return_unused(now);
        }
        this.drive(&mut inner);
        let links = inner.links();
        this.conclude(&mut inner);
        drop(inner);
        // A slot that was given back unused is announced to nobody else.
        for link in links {
            link.serve_waiting();
        }
    }
}

impl LinkGroup {
    /// Passes on what softirq left on a link.
    fn hear(self: &Arc<Self>, inner: &mut Inner, now: Instant, slot: Slot) {
        let Some(link) = inner.end(slot).map(|end| end.link.clone()) else {
            return;
        };
        let (broken, test) = {
            let mut inbox = link.inbox.lock();
            let test = core::mem::take(&mut inbox.test);
            (inbox.broken, test)
        };
        // Until the founder has said its last word in CLC, messages wait in the inbox.
        if !inner.started {
            inner.over |= broken;
            return;
        }
        if let Some(llc) = inner.llc.as_mut() {
            llc.touch(link.seen(), slot);
        }
        loop {
            let sent = link.inbox.lock().sent.pop();
            let (Some((kind, good)), Some(llc)) = (sent, inner.llc.as_mut()) else {
                break;
            };
            if good {
                llc.handle_sent(now, slot, kind);
            } else {
                llc.handle_send_failed(now, slot, kind);
            }
            self.drive(inner);
        }
        loop {
            let received = link.inbox.lock().received.pop();
            let (Some(msg), Some(llc)) = (received, inner.llc.as_mut()) else {
                break;
            };
            llc.handle_message(now, slot, msg.octets());
            self.drive(inner);
        }
        let Some(llc) = inner.llc.as_mut() else {
            return;
        };
        if test {
            llc.test_link(now, slot, [0; 16]);
            self.drive(inner);
        }
        if broken {
            self.lose_link(inner, now, slot);
        }
    }

    /// Tests a link if nothing has arrived on it for `idle`; `None` if it is gone. A link on which
    /// something has arrived is seen to work, whichever connection that was for (`SMCR-KAL-02`,
    /// `SMCR-KAL-03`). Sleeps.
    pub(super) fn test_if_idle(self: &Arc<Self>, slot: Slot, idle: Duration) -> Option<Instant> {
        let mut inner = self.inner.lock();
        let seen = inner.end(slot)?.link.seen();
        let llc = inner.llc.as_mut()?;
        llc.touch(seen, slot);
        let seen = llc.test_if_idle(now(), slot, idle);
        self.drive(&mut inner);
        self.conclude(&mut inner);
        seen
    }

    /// A link is dead, whatever showed it: stops its connections and tells the core, once. Sleeps.
    pub(super) fn lose_link(self: &Arc<Self>, inner: &mut Inner, now: Instant, slot: Slot) {
        let Some(end) = inner.end_mut(slot) else {
            return;
        };
        if core::mem::replace(&mut end.failed, true) {
            return;
        }
        end.registers = false;
        self.stop_connections(slot);
        if let Some(llc) = inner.llc.as_mut() {
            llc.handle_link_down(now, slot);
        }
        self.drive(inner);
    }
}
