// SPDX-License-Identifier: GPL-2.0

//! The end of single links: which side notices, which decides, and where connections go, RFC 7609,
//! sections 2.3, 3.5.5.1.3 and 3.5.5.1.4.
//!
//! Only the server deletes links (LLF-40). A side on which one fails stops to use it at once and
//! moves its connections; a client sends a notice, a server DELETE LINK, which the client answers.
//! Until then the end of the link stays (LLF-43).

use core::ops::DerefMut;

use super::{
    action::{
        Cause,
        LlcAction,
        LlcKind,
        Role, //
    },
    delete_link::{
        DeleteLink,
        DeleteReason, //
    },
    flow::{
        FlowVerdict,
        LlcRequest, //
    },
    group::Group,
    link::{
        Leave,
        LinkSlot,
        RecordState, //
    },
    msg::LlcBody,
    rtoken::Entry, //
};
use crate::proto::base::time::Instant;

/// How often a client asks for the end of a link before it takes that for granted (LLF-50).
const NOTICES: u8 = 3;

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// Takes in that this side wants a link to go (LLF-48). The group goes with its last link.
    #[cfg_attr(
        not(any(test, fuzzing)),
        expect(
            dead_code,
            reason = "the engine gives up links only when they have failed"
        )
    )]
    pub(crate) fn delete_link(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        reason: DeleteReason,
        orderly: bool,
    ) {
        let active = self.slots().filter(|(_, link)| link.is_active()).count();
        if !self.link(slot).is_some_and(|link| link.is_active()) {
            // It goes already, or will not come.
            self.fail(now, slot, Cause::Ended(reason));
        } else if self.is_ready() && active > 1 {
            self.leave(now, slot, Cause::Ended(reason), reason, orderly);
        } else {
            self.terminate(now, reason, orderly);
        }
        self.advance(now);
    }

    /// A link has become unusable. Before first contact is over that ends it all, unless it is
    /// the second link.
    pub(super) fn fail(&mut self, now: Instant, slot: LinkSlot, cause: Cause) {
        let Some(state) = self.link(slot).map(|link| link.state) else {
            return;
        };
        if self.is_over() {
            return;
        }
        if self
            .attempts
            .adding
            .is_some_and(|adding| adding.slot == slot)
        {
            return self.on_add_link_lost(now, slot);
        }
        if self.phase.is_first_contact() {
            return self.finish(LlcAction::FirstContactFailed(self.phase.verdict(cause)));
        }
        match state {
            RecordState::Pending | RecordState::Active => {
                let reason = match cause {
                    Cause::Malformed(_)
                    | Cause::Unexpected(_)
                    | Cause::Mismatch(_)
                    | Cause::KeyMissing => DeleteReason::ProtocolViolation,
                    Cause::Ended(reason) => reason,
                    _ => DeleteReason::LostPath,
                };
                self.leave(now, slot, cause, reason, false);
            }
            RecordState::Leaving {
                orderly: true,
                stage,
                cause,
                reason,
            } => {
                if let Some(link) = self.link_mut(slot) {
                    link.state = RecordState::Leaving {
                        orderly: false,
                        stage,
                        cause,
                        reason,
                    };
                }
                self.on_carrier_lost(now, slot);
                self.check_alive(cause);
            }
            RecordState::Leaving { orderly: false, .. } => {}
        }
    }

    /// A link must not be used from now on.
    pub(super) fn leave(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        cause: Cause,
        reason: DeleteReason,
        orderly: bool,
    ) {
        let Some(link) = self.link_mut(slot) else {
            return;
        };
        link.test = None;
        link.state = RecordState::Leaving {
            stage: Leave::Queued,
            cause,
            reason,
            orderly,
        };
        if !orderly {
            self.on_carrier_lost(now, slot);
        }
        self.move_connections(now);
        self.check_alive(cause);
        if self.is_ending() {
            self.resend_end(now);
        }
    }

    /// What was sent on a link that failed does not count (LLC-10).
    fn on_carrier_lost(&mut self, now: Instant, slot: LinkSlot) {
        self.on_rkey_link_lost(slot);
        self.on_add_link_lost(now, slot);
        let mut gone = [None; 8];
        for (place, link) in gone.iter_mut().zip(self.links.iter_mut().flatten()) {
            if let RecordState::Leaving { stage, .. } = &mut link.state {
                match *stage {
                    // TMR-22, TMR-25: the message is repeated on another link.
                    Leave::Asked { carrier, .. } if carrier == slot => *stage = Leave::Queued,
                    Leave::Replied { carrier, .. } if carrier == slot => *place = Some(link.slot),
                    _ => {}
                }
            }
        }
        for slot in gone.into_iter().flatten() {
            self.drop_link(now, slot);
        }
    }

    /// Has the engine move the connections of ending links, as soon as there is a link that they can
    /// go to.
    pub(super) fn move_connections(&mut self, now: Instant) {
        if self.active_slot().is_none() || !self.is_ready() {
            return;
        }
        for index in 0..self.links.len() {
            let Some(Some(link)) = self.links.get_mut(index) else {
                continue;
            };
            if let (false, RecordState::Leaving { stage, orderly, .. }) = (link.moved, link.state) {
                link.moved = true;
                let from = link.slot;
                self.act(LlcAction::MoveConnections { from, orderly });
                if stage == Leave::Gone {
                    self.drop_link(now, from);
                }
            }
        }
    }

    /// Frees the place of a link. Says whether there was one.
    pub(super) fn free_place(&mut self, slot: LinkSlot) -> bool {
        let place = self.links.get_mut(slot.index());
        let found = place
            .filter(|place| place.is_some_and(|link| link.slot == slot))
            .and_then(Option::take)
            .is_some();
        // In SMC-Rv2 keys are there before the link is.
        if found || self.links.get(slot.index()).is_some_and(Option::is_none) {
            self.rtokens.forget_link(slot);
            self.own.forget_link(slot);
        }
        found
    }

    /// A link is gone. It keeps its place until its connections have moved.
    pub(super) fn drop_link(&mut self, now: Instant, slot: LinkSlot) {
        let Some(link) = self.link_mut(slot) else {
            return;
        };
        let RecordState::Leaving { stage, cause, .. } = &mut link.state else {
            return;
        };
        let cause = *cause;
        if !link.moved {
            *stage = Leave::Gone;
            self.rkeys.resume();
            return self.check_alive(cause);
        }
        self.free_place(slot);
        self.act(LlcAction::LinkDown { slot, cause });
        // What it carried will not be answered.
        self.on_carrier_lost(now, slot);
        self.rkeys.resume();
        // C.8: redundancy is wanted back.
        if self.role == Role::Server && cause != Cause::Ended(DeleteReason::NoAsymmetric) {
            self.attempts.wanted = true;
        }
        self.check_alive(cause);
    }

    /// The group ends when no link is left to go on with (FOV-19, TMR-26, TMR-27).
    pub(super) fn check_alive(&mut self, cause: Cause) {
        if self.phase.is_first_contact() || self.is_over() {
            return;
        }
        if self.slots().any(|(_, link)| link.works()) || self.is_hopeful() {
            return;
        }
        let last = self.slots().find_map(|(slot, link)| match link.state {
            RecordState::Leaving { cause, .. } => Some((slot, cause)),
            _ => None,
        });
        if let Some((slot, cause)) = last {
            self.act(LlcAction::LinkDown { slot, cause });
        }
        let cause = self.phase.end_cause().unwrap_or(cause);
        self.finish(LlcAction::Terminate { cause });
    }

    /// Speaks of the next link that has to go, if it is its turn. Says whether there was one.
    pub(super) fn start_delete(&mut self, now: Instant) -> bool {
        // LLF-51; the link itself if there is no other and it still works.
        let active = self.active_slot();
        let queued = self.slots().find_map(|(slot, link)| match link.state {
            RecordState::Leaving {
                stage: Leave::Queued,
                reason,
                orderly,
                ..
            } => {
                let carrier = active.or_else(|| orderly.then_some(slot))?;
                Some((slot, carrier, link.number, reason, orderly))
            }
            _ => None,
        });
        let Some((slot, carrier, number, reason, orderly)) = queued else {
            return false;
        };
        let deadline = now.saturating_add(self.timers.reply);
        if let Some(link) = self.link_mut(slot) {
            link.notices = link.notices.saturating_add(1);
        }
        self.set_leave(slot, Leave::Asked { carrier, deadline });
        let request = DeleteLink {
            reply: false,
            all: false,
            orderly,
            number,
            reason,
        };
        self.send(carrier, &LlcBody::DeleteLink(request), LlcKind::DeleteLink);
        true
    }

    /// The peer has answered DELETE LINK for one link: a client the request, a server the notice
    /// about a link it does not know (LLF-42, AMB-14). A reply to nothing may belong to an attempt
    /// for a link that is over, and means nothing.
    pub(super) fn on_delete_reply(&mut self, now: Instant, message: &DeleteLink) {
        let dropped = self.attempts.adding.filter(|adding| {
            adding.number == message.number && adding.stage == super::add::AddStage::Dropping
        });
        if dropped.is_some() {
            return self.give_up(now);
        }
        let asked = self.slots().find(|(_, link)| {
            let asked = matches!(
                link.state,
                RecordState::Leaving {
                    stage: Leave::Asked { .. },
                    ..
                }
            );
            asked && link.number == message.number
        });
        if let Some((slot, _)) = asked {
            self.drop_link(now, slot);
        }
    }

    /// The peer ends one link, or, as a client, wants it to end.
    pub(super) fn on_delete_one(&mut self, now: Instant, slot: LinkSlot, message: &DeleteLink) {
        if let Some(adding) = self
            .attempts
            .adding
            .filter(|adding| adding.number == message.number)
        {
            return self.on_delete_added(now, slot, message, adding.stage);
        }
        match self.admit(LlcRequest::DeleteLink) {
            FlowVerdict::Process => {}
            // COL-12, COL-22, COL-33; a failure of the link will show by itself.
            FlowVerdict::Queue => return self.delay(slot, *message),
            FlowVerdict::Refuse | FlowVerdict::Ignore => return,
        }
        let Some(target) = self.slot_of(message.number) else {
            // ERR-35, ERR-36.
            return self.answer_delete(slot, message, DeleteReason::UnknownLink, LlcKind::Reply);
        };
        let cause = Cause::PeerDeleted(message.reason);
        if self.phase.is_first_contact() {
            return self.fail(now, target, cause);
        }
        let active = self.link(target).is_some_and(|link| link.is_active());
        match self.role {
            // LLF-41: not a reply but the real request, when it is its turn.
            Role::Server if active => {
                self.leave(now, target, cause, message.reason, message.orderly);
            }
            // ERR-35.
            Role::Server => {}
            Role::Client => {
                // LLF-42: always positive. The link goes when the reply is delivered (LLF-43).
                let answer = DeleteReason::Other(0);
                self.answer_delete(slot, message, answer, LlcKind::DeleteLinkReply);
                if active {
                    self.leave(now, target, cause, message.reason, message.orderly);
                }
                let deadline = now.saturating_add(self.timers.reply);
                let carrier = slot;
                self.set_leave(target, Leave::Replied { carrier, deadline });
            }
        }
    }

    /// The peer gives up a link that is being added: a server says so, a client asks for it.
    fn on_delete_added(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        message: &DeleteLink,
        stage: super::add::AddStage,
    ) {
        match self.role {
            Role::Client => {
                self.answer_delete(slot, message, DeleteReason::Other(0), LlcKind::Reply);
                self.give_up(now);
            }
            // The number is not known to the client yet.
            Role::Server if stage == super::add::AddStage::Asking => {}
            Role::Server => self.drop_added(now),
        }
    }

    /// Sends the reply to DELETE LINK.
    fn answer_delete(
        &mut self,
        slot: LinkSlot,
        message: &DeleteLink,
        reason: DeleteReason,
        kind: LlcKind,
    ) {
        let reply = DeleteLink {
            reply: true,
            reason,
            ..*message
        };
        self.send(slot, &LlcBody::DeleteLink(reply), kind);
    }

    /// The reply to DELETE LINK has left or never will (LLF-43).
    pub(super) fn on_delete_reply_delivered(&mut self, now: Instant, slot: LinkSlot) {
        let replied = self.slots().find(|(_, link)| {
            matches!(
                link.state,
                RecordState::Leaving {
                    stage: Leave::Replied { carrier, .. },
                    ..
                } if carrier == slot
            )
        });
        if let Some((slot, _)) = replied {
            self.drop_link(now, slot);
        }
    }

    /// An ending link goes on to another stage.
    fn set_leave(&mut self, slot: LinkSlot, next: Leave) {
        if let Some(RecordState::Leaving { stage, .. }) =
            self.link_mut(slot).map(|link| &mut link.state)
        {
            *stage = next;
        }
    }

    /// The timer of an ending link.
    pub(super) fn on_leave_timeout(&mut self, now: Instant, slot: LinkSlot) {
        let Some(link) = self.link(slot) else {
            return;
        };
        let (notices, lenient) = (link.notices, self.is_lenient());
        let RecordState::Leaving { stage, .. } = link.state else {
            return;
        };
        match stage {
            Leave::Asked { carrier, deadline } if deadline <= now => {
                if !lenient {
                    if let Some(deadline) = self.more_time(now, carrier) {
                        return self.set_leave(slot, Leave::Asked { carrier, deadline });
                    }
                }
                // TMR-22, TMR-25: the link that carried it has failed as well. Linux may lose a
                // notice (DEP-14), so that it is repeated.
                let again = self.role == Role::Client && notices < NOTICES;
                if carrier == slot || (lenient && !again) {
                    self.drop_link(now, slot);
                } else {
                    self.set_leave(slot, Leave::Queued);
                }
                if carrier != slot {
                    self.suspect(now, carrier, Cause::NoReply(LlcKind::DeleteLink));
                }
            }
            Leave::Replied { deadline, .. } if deadline <= now => self.drop_link(now, slot),
            _ => {}
        }
    }
}
