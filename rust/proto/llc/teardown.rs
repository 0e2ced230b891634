// SPDX-License-Identifier: GPL-2.0

//! The end of links and of the link group: DELETE LINK, RFC 7609, sections 3.5.4 and 3.5.5.1.

use core::ops::DerefMut;

use super::{
    action::{Action, Cause, Kind, Role},
    delete_link::{DeleteLink, DeleteReason},
    first_contact::Phase,
    flow::{Request, Verdict},
    group::Group,
    link::{Slot, State},
    msg::Message,
    rtoken::Entry,
};
use crate::proto::{time::Instant, wire::LinkNum};

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// Tells the peer that the group ends, and waits for as long as it takes to be sure: a server
    /// until that is delivered, a client until the server's own DELETE LINK (LLF-44, LLF-45).
    pub(super) fn end_group(
        &mut self,
        now: Instant,
        reason: DeleteReason,
        orderly: bool,
        cause: Cause,
    ) {
        let Some(slot) = self.active_slot() else {
            return self.finish(Action::Terminate { cause });
        };
        self.phase = Phase::Ending {
            deadline: now.saturating_add(self.timers.reply),
            cause,
        };
        let request = DeleteLink {
            reply: false,
            all: true,
            orderly,
            number: LinkNum::new(0),
            reason,
        };
        self.send(slot, &Message::DeleteLink(request), Kind::DeleteGroup);
    }

    /// DELETE LINK for the group has arrived at the peer.
    pub(super) fn on_delete_group_sent(&mut self) {
        if let (Phase::Ending { cause, .. }, Role::Server) = (self.phase, self.role) {
            // TMR-24.
            self.finish(Action::Terminate { cause });
        }
    }

    /// DELETE LINK arrived.
    pub(super) fn on_delete_link(&mut self, now: Instant, slot: Slot, message: &DeleteLink) {
        if message.reply {
            self.on_delete_reply(slot);
        } else if message.all {
            self.on_delete_group(now, slot, message);
        } else if !matches!(self.phase, Phase::Ending { .. }) {
            self.on_delete_one(now, slot, message);
        }
    }

    /// The client has answered DELETE LINK for one link. A reply to nothing may be the second
    /// answer to an attempt for a link and means nothing else either (LLF-42, AMB-14).
    fn on_delete_reply(&mut self, slot: Slot) {
        if self.on_attempt_deleted() {
            return;
        }
        let state = self.link(slot).map(|link| link.state);
        if let (Role::Server, Some(State::Deleting { cause, .. })) = (self.role, state) {
            self.drop_link(slot, cause);
        }
    }

    /// The peer ends the group, or, as a client, wants it to end.
    fn on_delete_group(&mut self, now: Instant, slot: Slot, message: &DeleteLink) {
        let cause = Cause::PeerDeleted(message.reason);
        if self.phase.is_first_contact() {
            // COL-13.
            return self.fail(slot, cause);
        }
        match (self.role, self.phase.end_cause()) {
            // LLF-44: at once; or it is what this side asked for.
            (Role::Client, own) => self.finish(Action::Terminate {
                cause: own.unwrap_or(cause),
            }),
            // LLF-45.
            (Role::Server, None) => self.end_group(now, message.reason, message.orderly, cause),
            // The own DELETE LINK is on its way already.
            (Role::Server, Some(_)) => {}
        }
    }

    /// The peer ends one link, or, as a client, wants it to end.
    fn on_delete_one(&mut self, now: Instant, slot: Slot, message: &DeleteLink) {
        match self.admit(Request::DeleteLink) {
            Verdict::Process => {}
            // COL-12, COL-22, COL-33; a failure of the link will show by itself.
            Verdict::Queue => return self.delay(slot, *message),
            Verdict::Refuse | Verdict::Ignore => return,
        }
        let cause = Cause::PeerDeleted(message.reason);
        let Some(target) = self.slot_of(message.number) else {
            // ERR-35, ERR-36.
            let reply = DeleteLink {
                reply: true,
                reason: DeleteReason::UnknownLink,
                ..*message
            };
            return self.send(slot, &Message::DeleteLink(reply), Kind::Reply);
        };
        if self.phase.is_first_contact() {
            return self.fail(target, cause);
        }
        if self.link(target).is_some_and(|link| link.is_deleting()) {
            return;
        }
        let deadline = now.saturating_add(self.timers.reply);
        if let Some(link) = self.link_mut(target) {
            link.state = State::Deleting { deadline, cause };
        }
        let (answer, kind) = match self.role {
            // LLF-42: always positive. The link goes when the reply is delivered.
            Role::Client => (
                DeleteLink {
                    reply: true,
                    reason: DeleteReason::Other(0),
                    ..*message
                },
                Kind::DeleteLinkReply,
            ),
            // LLF-41: not a reply but the real request. The link goes when the client replied.
            Role::Server => (*message, Kind::DeleteLink),
        };
        self.send(slot, &Message::DeleteLink(answer), kind);
    }

    /// The reply to DELETE LINK has left or never will (LLF-43).
    pub(super) fn on_delete_reply_delivered(&mut self, slot: Slot) {
        // The reply went over the link of the request, which may be another than the deleted one.
        let deleting = self
            .slots()
            .filter(|(_, link)| link.is_deleting())
            .min_by_key(|(candidate, _)| *candidate != slot)
            .map(|(slot, link)| (slot, link.state));
        if let Some((slot, State::Deleting { cause, .. })) = deleting {
            self.drop_link(slot, cause);
        }
    }
}
