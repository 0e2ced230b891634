// SPDX-License-Identifier: GPL-2.0

//! First contact on the link: CONFIRM LINK, then the attempt for a second link, RFC 7609, sections
//! 3.5.1.4 to 3.5.1.6, C.2 and C.3.
//!
//! ```text
//!         server                                  client
//!   start │ CONFIRM LINK ──────────────────────────▶ │ AwaitConfirm
//! Confirming                                      MoveToRts, handle_rts
//!         │ ◀────────────────────── CONFIRM LINK (R) │
//!   OfferLink, offer_link                         AwaitAdd
//!         │ ADD LINK ──────────────────────────────▶ │
//!  Adding │ ◀─────────────────── ADD LINK (R, Z = 1) │
//!       Ready                                      Ready
//! ```
//!
//! Until a side's own CONFIRM LINK, request or reply, has been sent successfully a failure becomes
//! an SMC Decline and the connection goes on as TCP; later it is reset (CLC-413, AMB-09).

use core::ops::DerefMut;

use super::{
    action::{Action, Cause, Fail, Kind, Role},
    add_link::{AddLink, Refusal},
    confirm_link::ConfirmLink,
    delete_link::{DeleteLink, DeleteReason},
    flow::{Request, Verdict},
    group::Group,
    link::{Slot, State},
    msg::Message,
    rtoken::Entry,
};
use crate::proto::{
    reason::Reason,
    time::Instant,
    wire::{Gid, LinkNum, Mac, Mtu, Psn, Qpn},
};

/// What a second link could use on this side (LLF-11). A server with a single device names that
/// one again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkOffer {
    /// The port.
    pub(crate) mac: Mac,
    /// The port.
    pub(crate) gid: Gid,
    /// The queue pair.
    pub(crate) qpn: Qpn,
    /// The packet number it would start with.
    pub(crate) psn: Psn,
    /// Its largest MTU.
    pub(crate) mtu: Mtu,
}

/// How far a link group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Made, not started.
    Idle,
    /// Server: CONFIRM LINK was sent, its reply is awaited (LLF-02).
    Confirming {
        /// TMR-10.
        deadline: Instant,
        /// Whether it is known to have arrived.
        delivered: bool,
    },
    /// Server: the engine has to say what a second link could use.
    AwaitOffer {
        /// When the attempt is given up.
        deadline: Instant,
    },
    /// Server: ADD LINK was sent, its reply is awaited (RDV-06).
    Adding {
        /// TMR-14.
        deadline: Instant,
        /// Number of the link in it.
        number: LinkNum,
    },
    /// Server: the client accepted a link that cannot be; DELETE LINK for it was sent (LLF-19).
    Dropping {
        /// TMR-11.
        deadline: Instant,
    },
    /// Client: CONFIRM LINK is awaited.
    AwaitConfirm {
        /// TMR-04.
        deadline: Instant,
    },
    /// Client: the engine has to move the queue pair (LNK-08).
    AwaitRts {
        /// When first contact is given up.
        deadline: Instant,
    },
    /// Client: the reply to CONFIRM LINK was sent, ADD LINK is awaited.
    AwaitAdd {
        /// TMR-13.
        deadline: Instant,
        /// Whether the reply is known to have arrived.
        delivered: bool,
    },
    /// In use.
    Ready,
    /// DELETE LINK for the group was sent.
    Ending {
        /// TMR-23, TMR-24.
        deadline: Instant,
        /// Why.
        cause: Cause,
    },
    /// Dead.
    Over,
}

impl Phase {
    /// Whether first contact is not over, one way or another.
    pub(super) const fn is_first_contact(self) -> bool {
        !matches!(self, Self::Ready | Self::Ending { .. } | Self::Over)
    }

    /// When waiting ends.
    pub(super) const fn deadline(self) -> Option<Instant> {
        match self {
            Self::Confirming { deadline, .. }
            | Self::AwaitOffer { deadline }
            | Self::Adding { deadline, .. }
            | Self::Dropping { deadline }
            | Self::AwaitConfirm { deadline }
            | Self::AwaitRts { deadline }
            | Self::AwaitAdd { deadline, .. }
            | Self::Ending { deadline, .. } => Some(deadline),
            Self::Idle | Self::Ready | Self::Over => None,
        }
    }

    /// Why the group ends, if that is decided.
    pub(super) const fn end_cause(self) -> Option<Cause> {
        match self {
            Self::Ending { cause, .. } => Some(cause),
            _ => None,
        }
    }

    /// What a failure in this phase means to the connection (CLC-413, C.3).
    pub(super) const fn verdict(self, cause: Cause) -> Fail {
        let reason = cause.reason();
        match self {
            Self::Idle
            | Self::Confirming {
                delivered: false, ..
            }
            | Self::AwaitConfirm { .. }
            | Self::AwaitRts { .. }
            | Self::AwaitAdd {
                delivered: false, ..
            } => Fail::Decline(reason),
            _ => Fail::Abort(reason),
        }
    }

    /// What the end of waiting in this phase means to the connection, if it is first contact.
    const fn timeout_verdict(self) -> Option<Fail> {
        let cause = match self {
            // Not delivered means that it could not be sent (TMR-05); else TMR-10.
            Self::Confirming { .. } => Cause::NoReply(Kind::ConfirmLink),
            // The server may be about to decline, but did not do so in time (TMR-04).
            Self::AwaitConfirm { .. } => {
                return Some(Fail::Abort(Cause::NoConfirmLink.reason()));
            }
            Self::AwaitRts { .. } => Cause::NotReady(Reason::ReadyLink),
            // TMR-06.
            Self::AwaitAdd {
                delivered: false, ..
            } => Cause::SendFailed(Kind::ConfirmLinkReply),
            // TMR-13.
            Self::AwaitAdd { .. } => Cause::NoAddLink,
            // TMR-14, TMR-11.
            Self::AwaitOffer { .. } | Self::Adding { .. } => Cause::NoReply(Kind::AddLink),
            Self::Dropping { .. } => Cause::NoReply(Kind::DeleteLink),
            Self::Idle | Self::Ready | Self::Ending { .. } | Self::Over => return None,
        };
        Some(self.verdict(cause))
    }
}

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// Begins first contact. A server's queue pair is able to send by now (LLF-02), a client's to
    /// receive (LNK-06).
    pub(crate) fn start(&mut self, now: Instant) {
        if self.phase != Phase::Idle {
            // CONFIRM LINK was faster.
            return;
        }
        match self.role {
            Role::Client => {
                self.phase = Phase::AwaitConfirm {
                    deadline: now.saturating_add(self.timers.client_confirm),
                };
            }
            Role::Server => {
                self.phase = Phase::Confirming {
                    deadline: now.saturating_add(self.timers.first_contact),
                    delivered: false,
                };
                self.send_confirm_link(Slot::FIRST, Kind::ConfirmLink);
            }
        }
        self.touch(now, Slot::FIRST);
    }

    /// Takes in how moving the queue pair went (LNK-08).
    pub(crate) fn handle_rts(&mut self, now: Instant, slot: Slot, result: Result<(), Reason>) {
        if !matches!(self.phase, Phase::AwaitRts { .. }) {
            return;
        }
        match result {
            Ok(()) => {
                self.activate(slot);
                self.phase = Phase::AwaitAdd {
                    deadline: now.saturating_add(self.timers.first_contact),
                    delivered: false,
                };
                self.send_confirm_link(slot, Kind::ConfirmLinkReply);
            }
            Err(reason) => self.fail(slot, Cause::NotReady(reason)),
        }
    }

    /// Takes in what a second link could use on this side (LLF-11).
    pub(crate) fn offer_link(&mut self, now: Instant, offer: LinkOffer) {
        let Phase::AwaitOffer { .. } = self.phase else {
            return;
        };
        let Some(slot) = self.active_slot() else {
            return;
        };
        let number = self.next_number();
        self.last_number = number;
        self.phase = Phase::Adding {
            deadline: now.saturating_add(self.timers.first_contact),
            number,
        };
        let request = AddLink {
            reply: false,
            refusal: None,
            mac: offer.mac,
            gid: offer.gid,
            qpn: offer.qpn,
            number,
            mtu: Some(offer.mtu),
            psn: offer.psn,
        };
        self.send(slot, &Message::AddLink(request), Kind::AddLink);
    }

    /// The link is proven, or will be by the reply that is about to be sent (LLF-01).
    fn activate(&mut self, slot: Slot) {
        if let Some(link) = self.link_mut(slot) {
            link.state = State::Active;
        }
    }

    /// A number no link has, and none had for as long as possible (LNK-02, AMB-35).
    fn next_number(&self) -> LinkNum {
        let after = |number: LinkNum| LinkNum::new(number.get().checked_add(1).unwrap_or(1));
        let mut number = after(self.last_number);
        while self.slot_of(number).is_some() {
            number = after(number);
        }
        number
    }

    /// Sends CONFIRM LINK or its reply.
    fn send_confirm_link(&mut self, slot: Slot, kind: Kind) {
        let Some(link) = self.link(slot) else {
            return;
        };
        let message = ConfirmLink {
            reply: kind == Kind::ConfirmLinkReply,
            no_eye_catcher: true,
            mac: link.local.mac,
            gid: link.local.gid,
            qpn: link.local.qpn,
            number: link.number,
            uid: link.local.uid,
            max_links: self.max_links,
        };
        self.send(slot, &Message::ConfirmLink(message), kind);
    }

    /// CONFIRM LINK arrived.
    pub(super) fn on_confirm_link(&mut self, now: Instant, slot: Slot, message: &ConfirmLink) {
        let expected = match self.phase {
            Phase::Confirming { .. } => message.reply,
            Phase::Idle => self.role == Role::Client && !message.reply,
            Phase::AwaitConfirm { .. } => !message.reply,
            _ => false,
        };
        if !expected {
            return self.fail(slot, Cause::Unexpected("CONFIRM LINK"));
        }
        let server = self.role == Role::Server;
        let Some(link) = self.link_mut(slot) else {
            return;
        };
        let peer = (link.peer.mac, link.peer.gid, link.peer.qpn);
        let echoed = !server || link.number == message.number;
        if peer != (message.mac, message.gid, message.qpn) || !echoed {
            // LLF-04, ERR-30, FBK-10.
            return self.fail(slot, Cause::Mismatch("CONFIRM LINK"));
        }
        if !message.no_eye_catcher {
            // DEP-1.
            return self.fail(slot, Cause::EyeCatcher);
        }
        link.peer_uid = Some(message.uid);
        link.number = message.number;
        self.max_links = match message.max_links {
            // LLC-110: only a client may leave it to the server.
            0 if server => self.max_links,
            others => core::cmp::min(self.max_links, others),
        };
        let deadline = now.saturating_add(self.timers.first_contact);
        if !server {
            self.phase = Phase::AwaitRts { deadline };
            return self.act(Action::MoveToRts { slot });
        }
        self.activate(slot);
        if self.max_links < 2 {
            // LLF-23, AMB-10: the client wants no second link.
            self.become_ready();
        } else {
            self.phase = Phase::AwaitOffer { deadline };
            self.act(Action::OfferLink);
        }
    }

    /// This side's CONFIRM LINK, or its reply to one, has arrived: it cannot decline any more.
    pub(super) fn on_confirm_link_sent(&mut self) {
        match &mut self.phase {
            Phase::Confirming { delivered, .. } | Phase::AwaitAdd { delivered, .. } => {
                *delivered = true;
            }
            _ => return,
        }
        if self.role == Role::Client && self.max_links < 2 {
            // The server wants no second link and will not try.
            self.become_ready();
        }
    }

    /// ADD LINK arrived.
    pub(super) fn on_add_link(&mut self, now: Instant, slot: Slot, message: &AddLink) {
        match (self.role, message.reply) {
            (Role::Client, false) => self.refuse_link(slot, message),
            // COL-11, and the attempt could not succeed.
            (Role::Server, false) => {}
            (Role::Server, true) => self.on_add_link_reply(now, slot, message),
            (Role::Client, true) => self.fail(slot, Cause::Unexpected("ADD LINK")),
        }
    }

    /// The server wants a second link, but this side has one device only (LLF-12, LLF-16).
    fn refuse_link(&mut self, slot: Slot, message: &AddLink) {
        if self.admit(Request::AddLink) != Verdict::Process {
            return;
        }
        let Some(link) = self.link(slot) else {
            return;
        };
        let refusal = match message.mtu {
            Some(_) => Refusal::NoAlternatePath,
            // ERR-31.
            None => Refusal::InvalidMtu,
        };
        let reply = AddLink {
            reply: true,
            refusal: Some(refusal),
            mac: link.local.mac,
            gid: link.local.gid,
            qpn: Qpn::new(0),
            number: message.number,
            mtu: None,
            psn: Psn::new(0),
        };
        self.send(slot, &Message::AddLink(reply), Kind::Reply);
        // FBK-12: from here on the connection stays with RDMA.
        if matches!(self.phase, Phase::AwaitAdd { .. }) {
            self.become_ready();
        }
    }

    /// The client has answered the attempt for a second link.
    fn on_add_link_reply(&mut self, now: Instant, slot: Slot, message: &AddLink) {
        match (self.phase, message.refusal) {
            // LLF-17. A client that noticed the end of the attempt may refuse after it accepted.
            (Phase::Adding { .. } | Phase::Dropping { .. }, Some(_)) => self.conclude_attempt(),
            // LLF-19: this side cannot take a second link up, so it never gets confirmed.
            (Phase::Adding { number, .. }, None) => {
                self.phase = Phase::Dropping {
                    deadline: now.saturating_add(self.timers.reply),
                };
                let request = DeleteLink {
                    reply: false,
                    all: false,
                    orderly: true,
                    number,
                    reason: DeleteReason::LostPath,
                };
                self.send(slot, &Message::DeleteLink(request), Kind::DeleteLink);
            }
            // Behind the end of an attempt, a client may answer both its messages.
            (Phase::Ready, Some(_)) => {}
            _ => self.fail(slot, Cause::Unexpected("ADD LINK")),
        }
    }

    /// The client has answered the deletion of the link it accepted. Says whether it was that.
    pub(super) fn on_attempt_deleted(&mut self) -> bool {
        let dropping = matches!(self.phase, Phase::Dropping { .. });
        if dropping {
            self.conclude_attempt();
        }
        dropping
    }

    /// Server: there will be no second link (RDV-09).
    fn conclude_attempt(&mut self) {
        self.act(Action::DropOffer);
        self.become_ready();
    }

    /// First contact is over.
    fn become_ready(&mut self) {
        if self.phase.is_first_contact() {
            self.phase = Phase::Ready;
            self.act(Action::Ready);
        }
    }

    /// The timer of the phase.
    pub(super) fn on_phase_timeout(&mut self, now: Instant) {
        if !self.phase.deadline().is_some_and(|due| due <= now) {
            return;
        }
        if let Some(fail) = self.phase.timeout_verdict() {
            self.finish(Action::FirstContactFailed(fail));
        } else if let Some(cause) = self.phase.end_cause() {
            self.finish(Action::Terminate { cause });
        }
    }
}
