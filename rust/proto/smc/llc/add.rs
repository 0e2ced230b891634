// SPDX-License-Identifier: GPL-2.0

//! Adding a link, RFC 7609, sections 3.5.1.6 and 3.5.5.1: what both sides have in common, and the
//! server's part.
//!
//! ```text
//!          server                                          client
//!   OfferLink, offer_link
//! Requested │ ADD LINK ─────────────────────────────────────▶ │ AcceptLink, accept_link
//!           │ ◀───────────────────────────────── ADD LINK (R) │
//!  ConnectLink, handle_rts
//!      Keys │ ADD LINK CONTINUATION ────────────────────────▶ │ Keys
//!           │ ◀──────────────────── ADD LINK CONTINUATION (R) │
//!           ┆          and so on until all keys are known     ┆
//! Confirming│ CONFIRM LINK, on the new link ════════════════▶ │ Waiting
//!           │                                            MoveToRts, handle_rts
//!           │ ◀═══════════════════════════════ CONFIRM LINK (R)
//!        LinkUp                                             LinkUp
//! ```
//!
//! In SMC-Rv2 the keys are in ADD LINK and its reply. If something fails behind the reply, the side
//! that notices sends DELETE LINK for the new link on an old one ([`AddStage::Dropping`]), and that is
//! all that comes of it. In first contact the same is done for the second link, and nothing else
//! flows before it is over (RDV-09).

use core::ops::DerefMut;

use super::{
    action::{
        Cause,
        Fail,
        LlcAction,
        LlcKind,
        Role, //
    },
    add_link::AddLink,
    add_link_ext,
    delete_link::{
        DeleteLink,
        DeleteReason, //
    },
    group::Group,
    link::{
        LinkRecord,
        LinkSlot,
        LocalLink,
        PeerLink,
        MAX_LINKS, //
    },
    msg::{
        Layout,
        LlcBody, //
    },
    phase::LinkPhase,
    request_add_link::RequestAddLink,
    rtoken::Entry,
    shape::{
        Ends,
        Links,
        Shape,
        ShapeVerdict, //
    },
};
use crate::proto::{
    base::{
        time::{
            Duration,
            Instant, //
        },
        verbs::{
            Mtu,
            Psn,
            Qpn, //
        },
    },
    smc::wire::LinkNum,
    stream::reason::Reason, //
};

/// An end that the engine made for another link (LLF-11, LLF-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkOffer {
    /// The port, the queue pair and the name of the link.
    pub(crate) local: LocalLink,
    /// The packet number it starts with.
    pub(crate) psn: Psn,
    /// Its largest MTU.
    pub(crate) mtu: Mtu,
}

/// The peer's end of another link, as ADD LINK told it (LNK-09).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerOffer {
    /// The port and the queue pair.
    pub(crate) link: PeerLink,
    /// The packet number the peer starts with.
    pub(crate) psn: Psn,
    /// Its largest MTU; the smaller one of both is used.
    pub(crate) mtu: Mtu,
}

impl PeerOffer {
    /// What an ADD LINK says; `None` if its MTU is reserved (ERR-31).
    pub(super) fn of(message: &AddLink) -> Option<Self> {
        Some(Self {
            link: PeerLink {
                mac: message.mac,
                gid: message.gid,
                qpn: message.qpn,
            },
            psn: message.psn,
            mtu: message.mtu?,
        })
    }
}

/// How far a link that is being added is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddStage {
    /// The engine has to make this side's end.
    Asking,
    /// Server: ADD LINK was sent, its reply is awaited.
    Requested,
    /// Server: the engine has to connect the end.
    Connecting,
    /// The keys are being told: a server waits for the reply, a client for the next request.
    Keys,
    /// Server: CONFIRM LINK was sent. Client: it is awaited.
    Confirming,
    /// Client: CONFIRM LINK arrived, the engine has to move the queue pair (LNK-08).
    AwaitRts,
    /// It failed, and the peer is told by DELETE LINK.
    Dropping,
}

/// A link that is being added.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adding {
    /// The link to be. There is no [`LinkRecord`] before the engine has made an end.
    pub(super) slot: LinkSlot,
    /// The link that carries the messages.
    pub(super) carrier: LinkSlot,
    /// Its number.
    pub(super) number: LinkNum,
    /// How far it is.
    pub(super) stage: AddStage,
    /// When waiting ends.
    pub(super) deadline: Instant,
    /// How many of the own keys were told.
    pub(super) told: u8,
    /// How many have yet to be told.
    pub(super) left: u8,
    /// How many the peer has yet to tell, once it said so (LLC-306).
    pub(super) peer_left: Option<u8>,
    /// Client: its own end has failed while the keys were told.
    pub(super) broken: bool,
    /// Client: what the server wants.
    pub(super) wanted: Option<PeerOffer>,
}

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// Whether to be lenient where Linux does not do as the RFC says.
    pub(super) const fn is_lenient(&self) -> bool {
        !matches!(self.layout, Layout::Rfc)
    }

    /// The ends of a link.
    pub(super) const fn ends(&self, local: &LocalLink, peer: &PeerLink) -> Ends {
        Ends::new(local.port(), peer.port(), self.layout.is_v2())
    }

    /// The active links, oldest first.
    pub(super) fn active_links(&self) -> Links {
        let mut links = Links::new();
        let mut last = None;
        // They are few.
        for _ in 0..MAX_LINKS {
            let next = self
                .slots()
                .filter(|(_, link)| link.is_active())
                .map(|(slot, link)| (slot.serial(), slot, self.ends(&link.local, &link.peer)))
                .filter(|(serial, ..)| last.is_none_or(|last| *serial > last))
                .min_by_key(|(serial, ..)| *serial);
            let Some((serial, slot, ends)) = next else {
                break;
            };
            last = Some(serial);
            let _ = links.push(slot, ends);
        }
        links
    }

    /// What the links are together.
    pub(crate) fn kind(&self) -> Shape {
        self.active_links().shape()
    }

    /// Whether the group may have another link now (LLF-23, LLF-26).
    pub(super) fn may_add(&self) -> bool {
        self.has_room() && self.active_slot().is_some()
    }

    /// Whether the number of links allows another one.
    pub(super) fn has_room(&self) -> bool {
        self.active_links().counted() < usize::from(self.max_links)
    }

    /// A free place for a link. The serial number is used up only by a link that is made.
    pub(super) fn free_slot(&self) -> Option<LinkSlot> {
        (0_u8..)
            .zip(self.links.iter())
            .find(|(_, link)| link.is_none())
            .and_then(|(index, _)| LinkSlot::new(index, self.next_serial))
    }

    /// Begins with a link that is asked for of the engine.
    pub(super) fn set_adding(&mut self, slot: LinkSlot, carrier: LinkSlot, deadline: Instant) {
        self.next_serial = self.next_serial.wrapping_add(1);
        self.attempts.begin(slot, carrier, deadline);
    }

    /// Goes on to another stage.
    pub(super) fn set_stage(&mut self, now: Instant, stage: AddStage) {
        let wait = self.stage_time(stage);
        if let Some(adding) = &mut self.attempts.adding {
            adding.stage = stage;
            adding.deadline = now.saturating_add(wait);
        }
    }

    /// How long to wait in a stage.
    pub(super) const fn stage_time(&self, stage: AddStage) -> Duration {
        match stage {
            // Established link groups: shorter times will do (TMR-02).
            AddStage::Requested | AddStage::Keys | AddStage::Dropping
                if !self.phase.is_first_contact() =>
            {
                self.timers.reply
            }
            _ => self.timers.first_contact,
        }
    }

    /// Enters the end the engine has made. `false` if it is not fit for a link, or the group has
    /// no room.
    pub(super) fn enter_link(&mut self, slot: LinkSlot, offer: &LinkOffer, peer: PeerLink) -> bool {
        let number = self
            .attempts
            .adding
            .map_or(LinkNum::new(0), |adding| adding.number);
        if !self.own.all_on(slot) {
            return false;
        }
        match self.links.get_mut(slot.index()) {
            Some(place) if place.is_none() => {
                *place = Some(LinkRecord::new(slot, offer.local, peer, number));
                true
            }
            _ => false,
        }
    }

    /// Whether a link between these ends may be beside the others (LGR-05, LGR-14).
    pub(super) fn fits(&self, slot: LinkSlot, local: &LocalLink, peer: &PeerLink) -> bool {
        let mut links = self.active_links();
        links.push(slot, self.ends(local, peer)) && links.verdict() != ShapeVerdict::Unfit
    }

    /// Server: begins to add a link (LLF-10, LLF-20).
    pub(super) fn begin_add(&mut self, now: Instant) {
        self.attempts.wanted = false;
        let Some(slot) = self.free_slot() else {
            return self.refuse_request();
        };
        let deadline = now.saturating_add(self.timers.first_contact);
        self.set_adding(slot, slot, deadline);
        // The client may have got a further port, so that an own port may carry another link.
        let only_new = !matches!(self.kind(), Shape::Single | Shape::AsymmetricPeer);
        self.act(LlcAction::OfferLink { slot, only_new });
    }

    /// Takes in what the engine has made for another link, if anything (LLF-11).
    pub(crate) fn offer_link(&mut self, now: Instant, slot: LinkSlot, offer: Option<LinkOffer>) {
        if self.attempts.at(slot, AddStage::Asking).is_some() && self.role == Role::Server {
            self.request_link_with(now, slot, offer);
        } else if offer.is_some() {
            // Too late.
            self.act(LlcAction::DropLink { slot });
        }
        self.advance(now);
    }

    /// Server: sends ADD LINK with what the engine has made.
    fn request_link_with(&mut self, now: Instant, slot: LinkSlot, offer: Option<LinkOffer>) {
        let number = self
            .attempts
            .next_number(|number| self.slot_of(number).is_some());
        let Some(carrier) = self.active_slot() else {
            return self.give_up(now);
        };
        if let Some(adding) = &mut self.attempts.adding {
            adding.number = number;
            adding.carrier = carrier;
        }
        let entered = offer.filter(|offer| self.enter_link(slot, offer, PeerLink::UNKNOWN));
        if offer.is_some() && entered.is_none() {
            self.act(LlcAction::DropLink { slot });
        }
        let request = match (entered, self.link(carrier)) {
            (Some(offer), _) => AddLink {
                reply: false,
                refusal: None,
                mac: offer.local.mac,
                gid: offer.local.gid,
                qpn: offer.local.qpn,
                number,
                mtu: Some(offer.mtu),
                psn: offer.psn,
            },
            // The client of a first contact waits for an attempt: one it has to refuse (ERR-31).
            (None, Some(link)) if self.phase == LinkPhase::Second => AddLink {
                reply: false,
                refusal: None,
                mac: link.local.mac,
                gid: link.local.gid,
                qpn: link.local.qpn,
                number,
                mtu: None,
                psn: Psn::new(0),
            },
            _ => {
                self.refuse_request();
                return self.give_up(now);
            }
        };
        self.attempts.requested(number);
        let listed = self.own.list(carrier, slot);
        if let Some(adding) = &mut self.attempts.adding {
            adding.left = listed;
        }
        self.set_stage(now, AddStage::Requested);
        self.send_add_link(carrier, request, LlcKind::AddLink);
    }

    /// Sends ADD LINK or its reply, in SMC-Rv2 with the keys.
    pub(super) fn send_add_link(&mut self, carrier: LinkSlot, message: AddLink, kind: LlcKind) {
        if self.layout.is_v2() && message.refusal.is_none() && message.mtu.is_some() {
            self.send_long(carrier, LlcBody::AddLink(message), kind);
        } else {
            self.send(carrier, &LlcBody::AddLink(message), kind);
        }
    }

    /// The client has answered ADD LINK.
    pub(super) fn on_add_link_reply(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        message: &AddLink,
        octets: &[u8],
    ) {
        let adding = self
            .attempts
            .adding
            .filter(|adding| adding.number == message.number && adding.carrier == slot);
        let refused = message.refusal.is_some();
        match adding.map(|adding| adding.stage) {
            // LLF-17. A client may also refuse what it had accepted, when it fails later.
            Some(stage) if refused && stage != AddStage::Asking => self.give_up(now),
            Some(AddStage::Requested) => self.on_accepted(now, message, octets),
            // It has crossed the end of the attempt.
            Some(AddStage::Dropping) => {}
            None if refused || self.attempts.is_last(message.number) => {}
            _ => self.fail(now, slot, Cause::Unexpected("ADD LINK")),
        }
    }

    /// The client has accepted the link.
    fn on_accepted(&mut self, now: Instant, message: &AddLink, octets: &[u8]) {
        let Some(Adding { slot, carrier, .. }) = self.attempts.adding else {
            return;
        };
        let local = self.link(slot).map(|link| link.local);
        let fit = PeerOffer::of(message)
            .zip(local)
            .filter(|(peer, local)| self.fits(slot, local, &peer.link));
        let Some((peer, _)) = fit else {
            // ERR-32, LLF-19.
            return self.drop_added(now);
        };
        if let Some(link) = self.link_mut(slot) {
            link.peer = peer.link;
        }
        if self.layout.is_v2() {
            self.learn_pairs(carrier, slot, octets);
        }
        self.set_stage(now, AddStage::Connecting);
        self.act(LlcAction::ConnectLink { slot, peer });
    }

    /// Takes the keys out of an ADD LINK of SMC-Rv2.
    pub(super) fn learn_pairs(&mut self, carrier: LinkSlot, slot: LinkSlot, octets: &[u8]) {
        for pair in add_link_ext::pairs(octets, self.layout.shown_by(octets)) {
            self.learn_pair(carrier, slot, &pair);
        }
    }

    /// The engine has connected a link that is being added, or has not (LLF-18).
    pub(super) fn on_added_rts(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        result: Result<(), Reason>,
    ) {
        match (self.attempts.adding.map(|adding| adding.stage), result) {
            (Some(AddStage::Connecting), Ok(())) if self.layout.is_v2() => self.confirm_added(now),
            (Some(AddStage::Connecting), Ok(())) => self.send_keys(now),
            (Some(AddStage::AwaitRts), Ok(())) => {
                self.send_confirm_link(slot, LlcKind::ConfirmLinkReply);
                self.link_is_up(now);
            }
            (Some(AddStage::Connecting | AddStage::AwaitRts), Err(_)) => self.drop_added(now),
            _ => {}
        }
    }

    /// All keys are known: a server proves the link, a client waits for that (LLF-05).
    pub(super) fn confirm_added(&mut self, now: Instant) {
        let Some(Adding { slot, broken, .. }) = self.attempts.adding else {
            return;
        };
        if broken {
            return self.drop_added(now);
        }
        self.set_stage(now, AddStage::Confirming);
        if self.role == Role::Server {
            self.send_confirm_link(slot, LlcKind::ConfirmLink);
        }
    }

    /// The new link is proven.
    pub(super) fn link_is_up(&mut self, now: Instant) {
        let Some(Adding { slot, .. }) = self.attempts.succeed() else {
            return;
        };
        self.activate(now, slot);
        self.own.listed_told(slot);
        self.touch(now, slot);
        self.act(LlcAction::LinkUp { slot });
        self.move_connections(now);
        self.end_of_attempt();
        if self.role == Role::Server {
            if let ShapeVerdict::Spare(spare) = self.active_links().verdict() {
                // LLF-52, LGR-08.
                let reason = DeleteReason::NoAsymmetric;
                self.leave(now, spare, Cause::Ended(reason), reason, true);
            }
        }
    }

    /// The attempt has failed, and the peer knows or cannot be told.
    pub(super) fn give_up(&mut self, now: Instant) {
        let Some(Adding { slot, .. }) = self.attempts.fail() else {
            return;
        };
        if self.free_place(slot) {
            self.act(LlcAction::DropLink { slot });
        }
        // TMR-30, and for a client TMR-17, TMR-18.
        self.arm_retry(now);
        self.end_of_attempt();
        self.check_alive(Cause::LinkFailed);
    }

    /// The attempt has failed, and the peer is told on an old link (LLF-19, TMR-11, TMR-12, TMR-17,
    /// TMR-18).
    pub(super) fn drop_added(&mut self, now: Instant) {
        let Some(Adding { number, stage, .. }) = self.attempts.adding else {
            return;
        };
        if stage == AddStage::Dropping {
            return;
        }
        let Some(carrier) = self.active_slot() else {
            return self.give_up(now);
        };
        if let Some(adding) = &mut self.attempts.adding {
            adding.carrier = carrier;
        }
        self.set_stage(now, AddStage::Dropping);
        let request = DeleteLink {
            reply: false,
            all: false,
            orderly: true,
            number,
            reason: DeleteReason::LostPath,
        };
        self.send(carrier, &LlcBody::DeleteLink(request), LlcKind::DeleteLink);
    }

    /// An attempt is over, one way or another. First contact is over with it (RDV-09).
    fn end_of_attempt(&mut self) {
        self.rkeys.resume();
        if self.phase == LinkPhase::Second {
            self.become_ready();
        }
    }

    /// Sets the timer for the next attempt, each time a longer one.
    pub(super) fn arm_retry(&mut self, now: Instant) {
        self.attempts.arm_retry(now, self.timers.add_retry);
    }

    /// The timer for the next attempt. It is of use only while there is no redundancy (TMR-31).
    pub(super) fn on_retry_timeout(&mut self, now: Instant) {
        if self.attempts.take_due_retry(now) && self.kind() == Shape::Single {
            match self.role {
                Role::Server => self.attempts.wanted = true,
                Role::Client => self.act(LlcAction::SuggestLink),
            }
        }
    }

    /// The timer of a link that is being added.
    pub(super) fn on_add_timeout(&mut self, now: Instant) {
        let Some(adding) = self.attempts.adding.filter(|adding| adding.deadline <= now) else {
            return;
        };
        let first = self.phase == LinkPhase::Second;
        let cause = Cause::NoReply(match adding.stage {
            AddStage::Dropping => LlcKind::DeleteLink,
            AddStage::Keys => LlcKind::AddLinkCont,
            _ => LlcKind::AddLink,
        });
        match (self.role, adding.stage) {
            // The engine is too slow.
            (Role::Server, AddStage::Asking) => self.request_link_with(now, adding.slot, None),
            (Role::Client, AddStage::Asking) => self.accept_link_with(now, adding.slot, None),
            // TMR-11, TMR-12, TMR-17, TMR-18.
            (_, AddStage::Connecting | AddStage::Confirming | AddStage::AwaitRts) => {
                self.drop_added(now)
            }
            // TMR-14, TMR-19, TMR-20, TMR-22.
            (Role::Server, AddStage::Requested | AddStage::Keys) if first => self.abort(cause),
            (_, AddStage::Keys | AddStage::Dropping) if first && !self.is_lenient() => {
                self.abort(cause)
            }
            // TMR-15, TMR-16, TMR-19, TMR-21, TMR-25. A Linux server may end an attempt without a
            // word, and a Linux client may not answer.
            (_, AddStage::Requested | AddStage::Keys | AddStage::Dropping) => {
                let until = self.more_time(now, adding.carrier);
                match (
                    until.filter(|_| !self.is_lenient()),
                    &mut self.attempts.adding,
                ) {
                    (Some(until), Some(adding)) => adding.deadline = until,
                    _ => {
                        self.give_up(now);
                        self.suspect(now, adding.carrier, cause);
                    }
                }
            }
        }
    }

    /// First contact cannot go on.
    fn abort(&mut self, cause: Cause) {
        self.finish(LlcAction::FirstContactFailed(Fail::Abort(cause.reason())));
    }

    /// A peer that gives no answer on a link cannot be reached by it. Linux has reasons not to
    /// answer, so a TEST LINK decides.
    pub(super) fn suspect(&mut self, now: Instant, slot: LinkSlot, cause: Cause) {
        if self.is_lenient() {
            self.test_link(now, slot, [0x55; 16]);
        } else {
            self.fail(now, slot, cause);
        }
    }

    /// A link failed that is being added, or that carries the messages about one.
    pub(super) fn on_add_link_lost(&mut self, now: Instant, slot: LinkSlot) {
        let Some(adding) = &mut self.attempts.adding else {
            return;
        };
        let stage = adding.stage;
        if adding.slot == slot {
            match stage {
                AddStage::Dropping | AddStage::Asking => {}
                // The server counts on the answers to the keys (TMR-19).
                AddStage::Keys if self.role == Role::Client => adding.broken = true,
                _ => self.drop_added(now),
            }
        } else if adding.carrier == slot {
            match stage {
                // What is left to do does not need it.
                AddStage::Confirming | AddStage::AwaitRts => {}
                AddStage::Asking if self.role == Role::Server => {}
                _ => self.give_up(now),
            }
        }
    }

    /// Whether the new link may still become the one to go on with.
    pub(super) fn is_hopeful(&self) -> bool {
        self.attempts.adding.is_some_and(|adding| {
            matches!(adding.stage, AddStage::Confirming | AddStage::AwaitRts)
                && self.link(adding.slot).is_some()
        })
    }

    /// The client asks for another link: by ADD LINK, or in SMC-Rv2 by REQUEST ADD LINK (LLF-25).
    pub(super) fn on_link_request(&mut self, slot: LinkSlot, v2: bool) {
        use super::flow::{
            FlowVerdict as Admit,
            LlcRequest, //
        };
        if v2 {
            self.refuse_request();
            self.attempts.ask(slot);
        }
        match self.admit(LlcRequest::AddLink) {
            Admit::Process | Admit::Queue if self.may_add() => self.attempts.wanted = true,
            // COL-11, and when there is no room for another one.
            _ => self.refuse_request(),
        }
    }

    /// Server: a client of SMC-Rv2 that has asked for a link waits for a word.
    pub(super) fn refuse_request(&mut self) {
        if let Some(slot) = self.attempts.take_asked() {
            if self.link(slot).is_some_and(LinkRecord::is_active) {
                let reply = LlcBody::RequestAddLink(RequestAddLink::REPLY);
                self.send(slot, &reply, LlcKind::Reply);
            }
        }
    }
}

/// The refusal of a link, for which nothing is known but the port of an old one.
pub(super) fn refusal(message: &AddLink, local: &LocalLink) -> AddLink {
    use super::add_link::Refusal;
    AddLink {
        reply: true,
        refusal: Some(match message.mtu {
            Some(_) => Refusal::NoAlternatePath,
            // ERR-31.
            None => Refusal::InvalidMtu,
        }),
        mac: local.mac,
        gid: local.gid,
        qpn: Qpn::new(0),
        number: message.number,
        mtu: None,
        psn: Psn::new(0),
    }
}
