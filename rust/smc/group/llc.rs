// SPDX-License-Identifier: GPL-2.0

//! Feeds the LLC core of a link group and performs what it asks for.
//!
//! Source: RFC 7609 section 3.3 to 3.5, appendix C; the decisions are in `proto::llc`.

use super::{
    completions::LlcMessage,
    link::Link,
    link_group::{
        Inner,
        LinkGroup,
        LlcGroup,
        LLC, //
    },
    member::Member,
    phase::GroupPhase,
    rmb::Known, //
};
use crate::{
    kapi::{
        base::{
            time::jiffies_from_ns,
            work::Run, //
        },
        net::trace::trace_link_down,
    },
    proto::{
        base::time::{
            earliest,
            Duration,
            Instant, //
        },
        smc::{
            clc::{
                LlcOutcome,
                Version, //
            },
            llc::{
                action::Cause,
                driver::{
                    self,
                    Host,
                    HostAnswer, //
                },
                msg::Octets,
                rtoken::{
                    Entry,
                    MAX_RMBS, //
                },
                DeleteReason,
                Fail,
                Group,
                GroupConfig,
                GroupTimers,
                Layout,
                LinkOffer,
                LinkSlot,
                LlcKind,
                PeerLink,
                PeerOffer,
                RmbId,
                Role,
                LONG_BYTES, //
            },
            wire::LinkNum, //
        },
        stream::reason::Reason, //
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

/// A peer waits for the attempt to add a second link, unless fewer were agreed on before
/// (`SMCR-LLC-110`).
const LEAST_LINKS: u8 = 2;
/// The number of the first link; the server assigns it (`SMCR-LNK-02`).
const FIRST_LINK: LinkNum = LinkNum::new(1);
/// Takes the long message out of the core, if it still wants to send one. Context: may sleep.
fn write_long(llc: &mut LlcGroup) -> Result<Option<KVec<u8>>> {
    let mut msg = KVec::from_elem(0, LONG_BYTES, GFP_KERNEL)?;
    let Some(len) = llc.write_long(&mut msg) else {
        return Ok(None);
    };
    msg.truncate(len);
    Ok(Some(msg))
}

impl LinkGroup {
    /// Makes the LLC core for a link whose other end is known. Context: may sleep.
    pub(crate) fn new_llc(&self, first: &Link, peer: &PeerLink) -> Result<KBox<LlcGroup>> {
        let config = GroupConfig {
            role: self.role,
            local: first.local(),
            peer: *peer,
            number: FIRST_LINK,
            max_links: if self.terms.has_limits() {
                self.terms.max_links
            } else {
                self.terms.max_links.max(LEAST_LINKS)
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
            timers: GroupTimers {
                idle_test: self.settings.testlink_time(),
                ..GroupTimers::default()
            },
        };
        let rows = || KVec::from_elem(Entry::EMPTY, MAX_RMBS, GFP_KERNEL);
        Ok(KBox::new(
            Group::new(&config, rows()?, rows()?),
            GFP_KERNEL,
        )?)
    }

    /// Starts first contact: the server confirms the link, the client waits for that.
    /// Context: may sleep.
    pub(crate) fn start_llc(self: &Arc<Self>, founder: Arc<dyn Member>) -> Result {
        let mut inner = self.inner.lock();
        if self.phase() != GroupPhase::Forming {
            return Err(ENODEV);
        }
        if self.role == Role::Server {
            let first = inner.link(LinkSlot::FIRST).ok_or(ENODEV)?;
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
        // The end may take as long as a timer runs, and the peer may know of it: new connections join
        // or create another group.
        if inner.llc.as_ref().is_some_and(|llc| llc.is_ending()) {
            self.tokens.lock().close();
        }
        driver::drive(&mut GroupHost { group: self, inner });
    }

    /// Posts what waits for a send slot of a link.
    fn post_unsent(self: &Arc<Self>, inner: &mut Inner, slot: LinkSlot) {
        while let Some(kind) = inner.link_mut(slot).and_then(Link::post_unsent) {
            if let Some(llc) = inner.llc.as_mut() {
                llc.handle_send_failed(now(), slot, kind);
            }
            self.perform_all(inner);
        }
    }

    fn rmb_known(inner: &mut Inner, id: RmbId, known: Known) {
        if let Some(rmb) = inner.rmbs.iter().find(|rmb| rmb.id == id) {
            rmb.set_known(known);
        }
        Self::wake_waiters(inner);
    }

    pub(super) fn wake_waiters(inner: &mut Inner) {
        for waiter in inner.waiters.drain_all() {
            waiter.on_group_changed();
        }
    }

    /// Frees the group if it has ended, else arms its timer.
    pub(crate) fn conclude(self: &Arc<Self>, inner: &mut Inner) {
        let now = now();
        if inner.lifetime.is_expired(now) {
            self.dismantle(inner);
            return;
        }
        let mut timer = inner.lifetime.poll_timeout();
        if inner.lifetime.is_running() {
            timer = earliest(timer, inner.llc.as_ref().and_then(|llc| llc.poll_timeout()));
            timer = earliest(timer, inner.pool.poll_timeout());
        }
        if let Some(at) = timer {
            let delay = jiffies_from_ns(at.saturating_since(now).as_nanos());
            self.work.arm(self, &self.context.links, delay);
        }
    }

    /// Asks the core to end a group that has been without connections for too long.
    fn check_idle(&self, inner: &mut Inner, now: Instant) {
        if self.phase() != GroupPhase::Ready {
            return;
        }
        {
            let mut tokens = self.tokens.lock();
            if !inner.lifetime.is_idle_too_long(now, tokens.live()) {
                return;
            }
            // New connections create another group.
            tokens.close();
        }
        if let Some(llc) = inner.llc.as_mut() {
            llc.terminate(now, DeleteReason::Inactivity, true);
        }
    }

    /// Asks the peer to end the group, as a stack that shuts down does (`SMCR-CLS-32`). The group
    /// is dead at the latest when the core's timers have run out. Context: may sleep.
    pub(crate) fn say_goodbye(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        match inner.llc.as_mut() {
            Some(llc) => llc.terminate(now(), DeleteReason::Operator, true),
            None => inner.lifetime.fail(),
        }
        self.drive(&mut inner);
        self.conclude(&mut inner);
    }
}

/// The engine of a group's LLC core, under the group's mutex.
struct GroupHost<'a> {
    group: &'a Arc<LinkGroup>,
    inner: &'a mut Inner,
}

impl GroupHost<'_> {
    /// Queues a message on a link. `false` if the link is gone or has no room.
    fn queue(&mut self, slot: LinkSlot, kind: LlcKind, msg: LlcMessage) -> bool {
        self.inner
            .link_mut(slot)
            .is_some_and(|link| link.queue(kind, msg))
    }

    /// Gives the first connection of the group the result of first contact.
    fn tell_founder(&mut self, outcome: LlcOutcome) {
        if let Some(founder) = self.inner.founder.take() {
            founder.on_first_contact(outcome);
        }
    }
}

impl Host for GroupHost<'_> {
    type Rows = KVec<Entry>;

    fn group(&mut self) -> Option<&mut LlcGroup> {
        self.inner.llc.as_deref_mut()
    }

    fn now(&self) -> Instant {
        now()
    }

    fn send(&mut self, slot: LinkSlot, kind: LlcKind, msg: &Octets) -> bool {
        self.queue(slot, kind, LlcMessage::Short(*msg))
    }

    fn send_long(&mut self, slot: LinkSlot, kind: LlcKind) -> bool {
        match self.inner.llc.as_mut().map(|llc| write_long(llc)) {
            Some(Ok(Some(msg))) => self.queue(slot, kind, LlcMessage::Long(msg)),
            // The core has withdrawn the message.
            Some(Ok(None)) | None => true,
            Some(Err(_)) => false,
        }
    }

    fn move_to_rts(&mut self, slot: LinkSlot) -> HostAnswer<Result<(), Reason>> {
        let result = self.inner.start_link(slot);
        Some(result.map_err(|_| Reason::Internal))
    }

    fn connect_link(&mut self, slot: LinkSlot, peer: &PeerOffer) -> HostAnswer<Result<(), Reason>> {
        let result = self.inner.connect_link(slot, peer);
        Some(result.map_err(|_| Reason::Internal))
    }

    fn offer_link(&mut self, slot: LinkSlot, only_new: bool) -> HostAnswer<Option<LinkOffer>> {
        Some(self.group.add_link(self.inner, slot, only_new, None))
    }

    fn accept_link(
        &mut self,
        slot: LinkSlot,
        peer: &PeerOffer,
        only_new: bool,
    ) -> HostAnswer<Option<LinkOffer>> {
        Some(self.group.add_link(self.inner, slot, only_new, Some(peer)))
    }

    fn link_up(&mut self, slot: LinkSlot) {
        self.group.link_up(self.inner, slot);
    }

    fn drop_link(&mut self, slot: LinkSlot) {
        self.group.drop_link(self.inner, slot);
    }

    fn link_down(&mut self, slot: LinkSlot, cause: Cause) {
        self.group.net.count_link_down(cause.name());
        if let Some(link) = self.inner.link(slot) {
            let group: &LinkGroup = self.group;
            let is_active = group.phase() == GroupPhase::Ready;
            // As `smcr` shows states.
            let state = if is_active { 3 } else { 2 };
            let name = link.path.device.name();
            trace_link_down((link, group), group.key.net, state, name.as_bytes());
        }
        if self.group.context.may_log() {
            pr_warn!(
                "link group {:#x}: link down: {}\n",
                self.group.id,
                cause.name()
            );
        }
        self.group.drop_link(self.inner, slot);
    }

    fn move_connections(&mut self, from: LinkSlot, orderly: bool) {
        self.group.move_connections(self.inner, from, orderly);
    }

    fn suggest_link(&mut self) {
        self.group.suggest_link(self.inner, now());
    }

    fn ready(&mut self) {
        self.group.set_phase(GroupPhase::Ready);
        self.inner.lifetime.on_ready();
        self.tell_founder(LlcOutcome::Ready);
        LinkGroup::wake_waiters(self.inner);
    }

    fn first_contact_failed(&mut self, fail: Fail) {
        self.tell_founder(match fail {
            Fail::Decline(reason) => LlcOutcome::Decline(reason),
            Fail::Abort(reason) => LlcOutcome::Abort(reason),
        });
        self.inner.lifetime.fail();
    }

    fn rkey_confirmed(&mut self, id: RmbId) {
        LinkGroup::rmb_known(self.inner, id, Known::Confirmed);
    }

    fn rkey_rejected(&mut self, id: RmbId) {
        self.inner.pool.on_refused(now());
        self.inner.forget_rmb(id);
        LinkGroup::wake_waiters(self.inner);
    }

    fn rkey_deleted(&mut self, id: RmbId) {
        self.inner.forget_rmb(id);
    }

    fn terminate(&mut self, cause: Cause) {
        self.group.net.count_group_ended();
        if self.group.context.may_log() {
            pr_info!("link group {:#x}: ended: {}\n", self.group.id, cause.name());
        }
        // While a client lingers, new connections create another group.
        self.group.tokens.lock().close();
        self.inner.lifetime.terminate(now());
    }
}

impl Run<LLC> for LinkGroup {
    fn run(this: Arc<Self>) {
        let mut inner = this.inner.lock();
        if this.phase() == GroupPhase::Dead {
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
        if this.phase() == GroupPhase::Ready {
            inner.return_unused(now);
        }
        this.drive(&mut inner);
        let handlers = inner.handlers();
        this.conclude(&mut inner);
        drop(inner);
        // No other event announces a slot that was given back unused.
        for handler in handlers {
            handler.serve_waiting();
        }
    }
}

impl LinkGroup {
    /// Passes on what softirq left on a link.
    fn hear(self: &Arc<Self>, inner: &mut Inner, now: Instant, slot: LinkSlot) {
        let Some(handler) = inner.link(slot).map(|link| link.handler.clone()) else {
            return;
        };
        let (broken, test) = {
            let mut inbox = handler.inbox.lock();
            let test = core::mem::take(&mut inbox.test);
            (inbox.broken, test)
        };
        // Until the founder has said its last word in CLC, messages wait in the inbox.
        if !inner.started {
            if broken {
                inner.lifetime.fail();
            }
            return;
        }
        if let Some(llc) = inner.llc.as_mut() {
            llc.touch(handler.seen(), slot);
        }
        loop {
            let sent = handler.inbox.lock().sent.pop();
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
            let received = handler.inbox.lock().received.pop();
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
    /// `SMCR-KAL-03`). Context: may sleep.
    pub(crate) fn test_if_idle(
        self: &Arc<Self>,
        slot: LinkSlot,
        idle: Duration,
    ) -> Option<Instant> {
        let mut inner = self.inner.lock();
        let seen = inner.link(slot)?.handler.seen();
        let llc = inner.llc.as_mut()?;
        llc.touch(seen, slot);
        let seen = llc.test_if_idle(now(), slot, idle);
        self.drive(&mut inner);
        self.conclude(&mut inner);
        seen
    }

    /// A link is dead, whatever showed it: stops its connections and tells the core, once.
    /// Context: may sleep.
    pub(crate) fn lose_link(self: &Arc<Self>, inner: &mut Inner, now: Instant, slot: LinkSlot) {
        let Some(link) = inner.link_mut(slot) else {
            return;
        };
        if core::mem::replace(&mut link.failed, true) {
            return;
        }
        link.registers = false;
        self.stop_connections(slot);
        if let Some(llc) = inner.llc.as_mut() {
            llc.handle_link_down(now, slot);
        }
        self.drive(inner);
    }
}
