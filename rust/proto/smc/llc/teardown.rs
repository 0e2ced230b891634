// SPDX-License-Identifier: GPL-2.0

//! The end of the link group: DELETE LINK for all links, RFC 7609, section 3.5.4.

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
    group::Group,
    link::LinkSlot,
    msg::LlcBody,
    phase::LinkPhase,
    rtoken::Entry, //
};
use crate::proto::{
    base::time::Instant,
    smc::wire::LinkNum, //
};

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
        let request = DeleteLink {
            reply: false,
            all: true,
            orderly,
            number: LinkNum::new(0),
            reason,
        };
        self.send_end(now, request, cause);
    }

    /// Sends DELETE LINK for the group on some link.
    fn send_end(&mut self, now: Instant, request: DeleteLink, cause: Cause) {
        let working = || self.slots().find(|(_, link)| link.works());
        let carrier = self.active_slot().or_else(|| Some(working()?.0));
        let Some(carrier) = carrier else {
            return self.finish(LlcAction::Terminate { cause });
        };
        self.phase = LinkPhase::Ending {
            deadline: now.saturating_add(self.timers.reply),
            cause,
            request,
            carrier,
        };
        self.send(carrier, &LlcBody::DeleteLink(request), LlcKind::DeleteGroup);
    }

    /// A link has failed while the group ends: if it carried the message, the message is repeated
    /// (TMR-23).
    pub(super) fn resend_end(&mut self, now: Instant) {
        let LinkPhase::Ending {
            cause,
            request,
            carrier,
            ..
        } = self.phase
        else {
            return;
        };
        if !self.link(carrier).is_some_and(|link| link.works()) {
            self.send_end(now, request, cause);
        }
    }

    /// The timer of the end.
    pub(super) fn on_end_timeout(&mut self, now: Instant) {
        let LinkPhase::Ending { cause, carrier, .. } = self.phase else {
            return;
        };
        let other = self
            .slots()
            .any(|(slot, link)| slot != carrier && link.works());
        if self.role == Role::Client && other {
            // TMR-23.
            self.fail(now, carrier, Cause::NoReply(LlcKind::DeleteGroup));
        } else {
            // TMR-24.
            self.finish(LlcAction::Terminate { cause });
        }
    }

    /// DELETE LINK for the group has arrived at the peer.
    pub(super) fn on_delete_group_sent(&mut self) {
        if let (LinkPhase::Ending { cause, .. }, Role::Server) = (self.phase, self.role) {
            // TMR-24.
            self.finish(LlcAction::Terminate { cause });
        }
    }

    /// DELETE LINK arrived.
    pub(super) fn on_delete_link(&mut self, now: Instant, slot: LinkSlot, message: &DeleteLink) {
        if message.reply {
            self.on_delete_reply(now, message);
        } else if message.all {
            self.on_delete_group(now, slot, message);
        } else if !matches!(self.phase, LinkPhase::Ending { .. }) {
            self.on_delete_one(now, slot, message);
        }
    }

    /// The peer ends the group, or, as a client, wants it to end.
    fn on_delete_group(&mut self, now: Instant, slot: LinkSlot, message: &DeleteLink) {
        let cause = Cause::PeerDeleted(message.reason);
        if self.phase.is_first_contact() {
            // COL-13.
            return self.fail(now, slot, cause);
        }
        match (self.role, self.phase.end_cause()) {
            // LLF-44: at once; or it is what this side asked for.
            (Role::Client, own) => self.finish(LlcAction::Terminate {
                cause: own.unwrap_or(cause),
            }),
            // LLF-45.
            (Role::Server, None) => self.end_group(now, message.reason, message.orderly, cause),
            // The own DELETE LINK is in flight already.
            (Role::Server, Some(_)) => {}
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_teardown))]
mod tests {
    use super::*;
    use crate::proto::smc::llc::testing::{
        after,
        deliver,
        new,
        other,
        ready,
        sent,
        FIRST_NUMBER,
        START, //
    };

    /// DELETE LINK of the peer for the group.
    const ALL: DeleteLink = DeleteLink {
        reply: false,
        all: true,
        orderly: true,
        number: LinkNum::new(0),
        reason: DeleteReason::Operator,
    };

    /// DELETE LINK of the peer for the first link.
    const ONE: DeleteLink = DeleteLink {
        all: false,
        number: FIRST_NUMBER,
        ..ALL
    };

    const PEER: Cause = Cause::PeerDeleted(DeleteReason::Operator);
    const OWN: Cause = Cause::Ended(DeleteReason::Operator);

    /// LGR-23, LLF-44, TMR-24.
    // TST-121, CLS-32.
    #[test]
    fn server_ends_when_the_peer_has_been_told() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Server, &mut places);
        group.terminate(START, DeleteReason::Operator, true);
        let expected = (LlcKind::DeleteGroup, LlcBody::DeleteLink(ALL));
        assert_eq!(sent(&mut group), Some(expected));
        assert_eq!(group.poll_action(), None);
        assert!(group.is_ending());
        group.terminate(START, DeleteReason::Inactivity, true);
        assert_eq!(group.poll_action(), None);
        group.handle_sent(START, LinkSlot::FIRST, LlcKind::DeleteGroup);
        assert_eq!(
            group.poll_action(),
            Some(LlcAction::Terminate { cause: OWN })
        );
        assert!(group.is_over());
    }

    /// LLF-45, TMR-23: the client asks and waits for the server's own DELETE LINK.
    #[test]
    fn client_ends_when_the_server_agrees() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Client, &mut places);
        group.terminate(START, DeleteReason::Operator, true);
        let expected = (LlcKind::DeleteGroup, LlcBody::DeleteLink(ALL));
        assert_eq!(sent(&mut group), Some(expected));
        group.handle_sent(START, LinkSlot::FIRST, LlcKind::DeleteGroup);
        assert_eq!(group.poll_action(), None);
        deliver(&mut group, START, &LlcBody::DeleteLink(ALL));
        assert_eq!(
            group.poll_action(),
            Some(LlcAction::Terminate { cause: OWN })
        );
    }

    /// TMR-23, TMR-24: the end comes without the peer, too.
    // TST-121.
    #[test]
    fn end_does_not_depend_on_the_peer() {
        for role in [Role::Client, Role::Server] {
            for fails in [false, true] {
                let mut places = [Entry::EMPTY; 2];
                let mut group = ready(role, &mut places);
                group.terminate(START, DeleteReason::Operator, true);
                assert!(sent(&mut group).is_some());
                assert_eq!(group.poll_timeout(), Some(after(2)));
                if fails {
                    group.handle_send_failed(START, LinkSlot::FIRST, LlcKind::DeleteGroup);
                    assert!(matches!(
                        group.poll_action(),
                        Some(LlcAction::LinkDown { .. })
                    ));
                } else {
                    group.handle_timeout(after(2));
                }
                assert_eq!(
                    group.poll_action(),
                    Some(LlcAction::Terminate { cause: OWN })
                );
            }
        }
    }

    /// LLF-44.
    #[test]
    fn client_complies_at_once() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Client, &mut places);
        deliver(&mut group, START, &LlcBody::DeleteLink(ALL));
        assert_eq!(
            group.poll_action(),
            Some(LlcAction::Terminate { cause: PEER })
        );
        assert_eq!(group.poll_action(), None);
    }

    /// LLF-45.
    // TST-121.
    #[test]
    fn server_ends_the_group_for_the_client() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Server, &mut places);
        assert!(!group.is_ending());
        deliver(&mut group, START, &LlcBody::DeleteLink(ALL));
        assert!(group.is_ending());
        let expected = (LlcKind::DeleteGroup, LlcBody::DeleteLink(ALL));
        assert_eq!(sent(&mut group), Some(expected));
        // Asking again changes nothing.
        deliver(&mut group, START, &LlcBody::DeleteLink(ALL));
        assert_eq!(group.poll_action(), None);
        group.handle_sent(START, LinkSlot::FIRST, LlcKind::DeleteGroup);
        assert_eq!(
            group.poll_action(),
            Some(LlcAction::Terminate { cause: PEER })
        );
    }

    /// LLF-42, LLF-43: the client's only link.
    #[test]
    fn client_deletes_its_link_when_the_reply_is_delivered() {
        let slot = LinkSlot::FIRST;
        for lost in [false, true] {
            let mut places = [Entry::EMPTY; 2];
            let mut group = ready(Role::Client, &mut places);
            deliver(&mut group, START, &LlcBody::DeleteLink(ONE));
            let reply = DeleteLink {
                reply: true,
                reason: DeleteReason::Other(0),
                ..ONE
            };
            let expected = (LlcKind::DeleteLinkReply, LlcBody::DeleteLink(reply));
            assert_eq!(sent(&mut group), Some(expected));
            assert_eq!(group.poll_action(), None);
            if lost {
                group.handle_send_failed(START, slot, LlcKind::DeleteLinkReply);
            } else {
                group.handle_sent(START, slot, LlcKind::DeleteLinkReply);
            }
            let down = LlcAction::LinkDown { slot, cause: PEER };
            assert_eq!(group.poll_action(), Some(down));
            assert_eq!(
                group.poll_action(),
                Some(LlcAction::Terminate { cause: PEER })
            );
        }
    }

    /// LLF-40, LLF-41, LLF-46, TMR-25: a notice of the client leads to the server's own request.
    #[test]
    fn server_deletes_the_link_the_client_named() {
        let slot = LinkSlot::FIRST;
        for silent in [false, true] {
            let mut places = [Entry::EMPTY; 2];
            let mut group = ready(Role::Server, &mut places);
            deliver(&mut group, START, &LlcBody::DeleteLink(ONE));
            let expected = (LlcKind::DeleteLink, LlcBody::DeleteLink(ONE));
            assert_eq!(sent(&mut group), Some(expected));
            assert_eq!(group.poll_action(), None);
            assert_eq!(group.poll_timeout(), Some(after(2)));
            if silent {
                group.handle_timeout(after(2));
            } else {
                let reply = DeleteLink { reply: true, ..ONE };
                deliver(&mut group, START, &LlcBody::DeleteLink(reply));
            }
            let down = LlcAction::LinkDown { slot, cause: PEER };
            assert_eq!(group.poll_action(), Some(down));
            assert_eq!(
                group.poll_action(),
                Some(LlcAction::Terminate { cause: PEER })
            );
        }
    }

    /// ERR-35, ERR-36.
    #[test]
    fn unknown_link_is_reported() {
        for role in [Role::Client, Role::Server] {
            let mut places = [Entry::EMPTY; 2];
            let mut group = ready(role, &mut places);
            let request = DeleteLink {
                number: LinkNum::new(9),
                ..ONE
            };
            deliver(&mut group, START, &LlcBody::DeleteLink(request));
            let reply = DeleteLink {
                reply: true,
                reason: DeleteReason::UnknownLink,
                ..request
            };
            let expected = (LlcKind::Reply, LlcBody::DeleteLink(reply));
            assert_eq!(sent(&mut group), Some(expected));
            assert!(group.is_ready());
        }
    }

    /// COL-12: what the client wants during the attempt for a second link waits for its end.
    #[test]
    fn notice_waits_for_the_end_of_first_contact() {
        use crate::proto::smc::llc::testing::{
            add_link,
            confirm_link,
            offer,
            SECOND, //
        };
        let mut places = [Entry::EMPTY; 2];
        let mut group = new(Role::Server, &mut places);
        group.start(START);
        let reply = LlcBody::ConfirmLink(confirm_link(other(Role::Server)));
        deliver(&mut group, START, &reply);
        group.offer_link(START, SECOND, Some(offer()));
        while group.poll_action().is_some() {}
        deliver(&mut group, START, &LlcBody::DeleteLink(ONE));
        assert_eq!(group.poll_action(), None);
        let refusal = LlcBody::AddLink(add_link(Role::Client));
        deliver(&mut group, START, &refusal);
        assert_eq!(
            group.poll_action(),
            Some(LlcAction::DropLink { slot: SECOND })
        );
        assert_eq!(group.poll_action(), Some(LlcAction::Ready));
        let expected = (LlcKind::DeleteLink, LlcBody::DeleteLink(ONE));
        assert_eq!(sent(&mut group), Some(expected));
    }

    /// Before first contact is over there is nothing to end but that.
    #[test]
    fn ending_first_contact_fails_it() {
        use crate::proto::{
            smc::llc::action::Fail,
            stream::reason::Reason, //
        };
        let mut places = [Entry::EMPTY; 2];
        let mut group = new(Role::Client, &mut places);
        group.start(START);
        group.terminate(START, DeleteReason::Operator, true);
        let fail = Fail::Decline(Reason::NoActiveLink);
        let expected = LlcAction::FirstContactFailed(fail);
        assert_eq!(group.poll_action(), Some(expected));
    }
}
