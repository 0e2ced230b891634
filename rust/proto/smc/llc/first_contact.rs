// SPDX-License-Identifier: GPL-2.0

//! First contact on the link: CONFIRM LINK, then the attempt for a second link, RFC 7609, sections
//! 3.5.1.4 to 3.5.1.6, C.2 and C.3.
//!
//! ```text
//!         server                                  client
//!   start │ CONFIRM LINK ──────────────────────────▶ │ AwaitConfirm
//! Confirming                                      MoveToRts, handle_rts
//!         │ ◀────────────────────── CONFIRM LINK (R) │
//!  Second │ ADD LINK ──────────────────────────────▶ │ AwaitAdd
//!         ┆              see `add`                   ┆ Second
//!       Ready                                      Ready
//! ```
//!
//! Until a side's own CONFIRM LINK, request or reply, has been sent successfully a failure becomes
//! an SMC Decline and the connection goes on as TCP; later it is reset (CLC-413, AMB-09).

use core::ops::DerefMut;

use super::{
    action::{
        Cause,
        LlcAction,
        LlcKind,
        Role, //
    },
    add::AddStage,
    confirm_link::ConfirmLink,
    group::Group,
    link::{
        LinkSlot,
        RecordState, //
    },
    msg::LlcBody,
    phase::LinkPhase,
    rtoken::Entry, //
};
use crate::proto::{
    base::time::Instant,
    stream::reason::Reason, //
};

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// Begins first contact. A server's queue pair is able to send by now (LLF-02), a client's to
    /// receive (LNK-06).
    pub(crate) fn start(&mut self, now: Instant) {
        if self.phase != LinkPhase::Idle {
            // CONFIRM LINK was faster.
            return;
        }
        match self.role {
            Role::Client => {
                self.phase = LinkPhase::AwaitConfirm {
                    deadline: now.saturating_add(self.timers.client_contact),
                };
            }
            Role::Server => {
                self.phase = LinkPhase::Confirming {
                    deadline: now.saturating_add(self.timers.first_contact),
                    delivered: false,
                    repeat_at: Some(now.saturating_add(self.timers.repeat_confirm)),
                };
                self.send_confirm_link(LinkSlot::FIRST, LlcKind::ConfirmLink);
            }
        }
        self.touch(now, LinkSlot::FIRST);
    }

    /// Takes in how moving the queue pair of a link went (LNK-08, LLF-18).
    pub(crate) fn handle_rts(&mut self, now: Instant, slot: LinkSlot, result: Result<(), Reason>) {
        if self
            .attempts
            .adding
            .is_some_and(|adding| adding.slot == slot)
        {
            self.on_added_rts(now, slot, result);
        } else if matches!(self.phase, LinkPhase::AwaitRts { .. }) {
            match result {
                Ok(()) => {
                    self.activate(now, slot);
                    self.phase = LinkPhase::AwaitAdd {
                        deadline: now.saturating_add(self.timers.client_contact),
                        delivered: false,
                    };
                    self.send_confirm_link(slot, LlcKind::ConfirmLinkReply);
                }
                Err(reason) => self.fail(now, slot, Cause::NotReady(reason)),
            }
        }
        self.advance(now);
    }

    /// The link is proven, or will be by the reply that is about to be sent (LLF-01).
    pub(super) fn activate(&mut self, now: Instant, slot: LinkSlot) {
        if let Some(link) = self.link_mut(slot) {
            link.state = RecordState::Active;
            link.since = now;
        }
    }

    /// Sends CONFIRM LINK or its reply.
    pub(super) fn send_confirm_link(&mut self, slot: LinkSlot, kind: LlcKind) {
        let Some(link) = self.link(slot) else {
            return;
        };
        let message = ConfirmLink {
            reply: kind == LlcKind::ConfirmLinkReply,
            no_eye_catcher: !self.eye_catchers,
            mac: link.local.mac,
            gid: link.local.gid,
            qpn: link.local.qpn,
            number: link.number,
            uid: link.local.uid,
            max_links: self.max_links,
            max_conns: self.max_conns,
        };
        self.send(slot, &LlcBody::ConfirmLink(message), kind);
    }

    /// CONFIRM LINK arrived.
    pub(super) fn on_confirm_link(&mut self, now: Instant, slot: LinkSlot, message: &ConfirmLink) {
        if self.attempts.at(slot, AddStage::Confirming).is_some() {
            return self.on_confirm_added(now, slot, message);
        }
        if self.is_repeated(slot, message) {
            return;
        }
        let expected = match self.phase {
            LinkPhase::Confirming { .. } => message.reply,
            LinkPhase::Idle => self.role == Role::Client && !message.reply,
            LinkPhase::AwaitConfirm { .. } => !message.reply,
            _ => false,
        };
        if !expected {
            return self.fail(now, slot, Cause::Unexpected("CONFIRM LINK"));
        }
        let server = self.role == Role::Server;
        if let Err(cause) = self.check_confirm_link(slot, message) {
            return self.fail(now, slot, cause);
        }
        if let Some(link) = self.link_mut(slot) {
            link.number = message.number;
        }
        self.max_links = match message.max_links {
            // LLC-110: only a client may leave it to the server.
            0 if server => self.max_links,
            others => core::cmp::min(self.max_links, others),
        };
        let deadline = now.saturating_add(self.timers.first_contact);
        if !server {
            self.phase = LinkPhase::AwaitRts { deadline };
            return self.act(LlcAction::MoveToRts { slot });
        }
        self.activate(now, slot);
        if self.max_links < 2 {
            // LLF-23, AMB-10: the client wants no second link.
            self.become_ready();
        } else {
            self.phase = LinkPhase::Second;
            self.begin_add(now);
        }
    }

    /// Whether this repeats the CONFIRM LINK that a client is answering, or has answered: the server
    /// did not wait for the reply.
    fn is_repeated(&self, slot: LinkSlot, message: &ConfirmLink) -> bool {
        let answered = matches!(
            self.phase,
            LinkPhase::AwaitRts { .. } | LinkPhase::AwaitAdd { .. }
        );
        answered
            && !message.reply
            && self.link(slot).is_some_and(|link| {
                link.number == message.number
                    && link.peer_uid == Some(message.uid)
                    && (link.peer.gid, link.peer.qpn) == (message.gid, message.qpn)
            })
    }

    /// Whether a CONFIRM LINK is about this link (LLF-04, ERR-30, FBK-10). Notes the peer's name
    /// of the link.
    fn check_confirm_link(&mut self, slot: LinkSlot, message: &ConfirmLink) -> Result<(), Cause> {
        // The client of a first contact does not know the number yet; else it has to be the same.
        let learns = self.role == Role::Client && self.attempts.adding.is_none();
        let v2 = self.layout.is_v2();
        let Some(link) = self.link_mut(slot) else {
            return Ok(());
        };
        // In SMC-Rv2 the MAC may be that of a router.
        let same_mac = v2 || link.peer.mac == message.mac;
        let same = same_mac && (link.peer.gid, link.peer.qpn) == (message.gid, message.qpn);
        if !same || !(learns || link.number == message.number) {
            return Err(Cause::Mismatch("CONFIRM LINK"));
        }
        link.peer_uid = Some(message.uid);
        if self.attempts.adding.is_none() {
            // Said of the first link, it holds for the group (DEP-1).
            self.eye_catchers = !message.no_eye_catcher;
        }
        Ok(())
    }

    /// CONFIRM LINK arrived on a link that is being added (LLF-05).
    fn on_confirm_added(&mut self, now: Instant, slot: LinkSlot, message: &ConfirmLink) {
        let expected = message.reply == (self.role == Role::Server);
        if !expected || self.check_confirm_link(slot, message).is_err() {
            // ERR-30.
            return self.drop_added(now);
        }
        match self.role {
            Role::Server => self.link_is_up(now),
            Role::Client => {
                self.set_stage(now, AddStage::AwaitRts);
                self.act(LlcAction::MoveToRts { slot });
            }
        }
    }

    /// This side's CONFIRM LINK, or its reply to one, has arrived: it can no longer decline.
    pub(super) fn on_confirm_link_sent(&mut self) {
        match &mut self.phase {
            LinkPhase::Confirming { delivered, .. } | LinkPhase::AwaitAdd { delivered, .. } => {
                *delivered = true;
            }
            _ => return,
        }
        if self.role == Role::Client && self.max_links < 2 {
            // The server wants no second link and will not try.
            self.become_ready();
        }
    }

    /// First contact is over.
    pub(super) fn become_ready(&mut self) {
        if self.phase.is_first_contact() {
            self.phase = LinkPhase::Ready;
            self.act(LlcAction::Ready);
        }
    }

    /// The timer of the phase.
    pub(super) fn on_phase_timeout(&mut self, now: Instant) {
        match self.phase.deadline() {
            Some(deadline) if deadline <= now => {}
            _ => return self.on_repeat_timeout(now),
        }
        if let Some(fail) = self.phase.timeout_verdict() {
            self.finish(LlcAction::FirstContactFailed(fail));
        } else {
            self.on_end_timeout(now);
        }
    }

    /// No reply has come to a server's CONFIRM LINK. Linux drops one that arrives between its Confirm
    /// and the moment it begins to wait.
    fn on_repeat_timeout(&mut self, now: Instant) {
        let LinkPhase::Confirming { repeat_at, .. } = &mut self.phase else {
            return;
        };
        if repeat_at.is_some_and(|at| at <= now) {
            *repeat_at = None;
            self.send_confirm_link(LinkSlot::FIRST, LlcKind::ConfirmLink);
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_first_contact))]
mod tests {
    use super::*;
    use crate::proto::{
        base::verbs::Qpn,
        smc::{
            llc::{
                action::Fail,
                add_link::{
                    AddLink,
                    Refusal, //
                },
                delete_link::{
                    DeleteLink,
                    DeleteReason, //
                },
                testing::{
                    add_link,
                    after,
                    confirm_link,
                    deliver,
                    end,
                    new,
                    offer,
                    sent,
                    TestGroup,
                    SECOND,
                    START, //
                },
            },
            wire::LinkNum, //
        },
        stream::reason::LocalReason, //
    };

    /// What can go wrong.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Event {
        LinkDown,
        Timeout,
        SendFailed,
        Garbage,
        DeleteGroup,
    }

    /// What a server is asked for after the first link.
    const OFFER: LlcAction = LlcAction::OfferLink {
        slot: SECOND,
        only_new: false,
    };

    const EVENTS: [Event; 5] = [
        Event::LinkDown,
        Event::Timeout,
        Event::SendFailed,
        Event::Garbage,
        Event::DeleteGroup,
    ];

    /// Takes a group `steps` steps into first contact. Step 0 is the start.
    fn advanced(role: Role, steps: u8, places: &mut [Entry]) -> TestGroup<'_> {
        let mut group = new(role, places);
        group.start(START);
        for step in 1..=steps {
            match (role, step) {
                (Role::Server, 1) => {
                    group.handle_sent(START, LinkSlot::FIRST, LlcKind::ConfirmLink)
                }
                (Role::Server, 2) => {
                    let reply = confirm_link(Role::Client);
                    deliver(&mut group, START, &LlcBody::ConfirmLink(reply));
                }
                (Role::Server, _) => group.offer_link(START, SECOND, Some(offer())),
                (Role::Client, 1) => {
                    let request = confirm_link(Role::Server);
                    deliver(&mut group, START, &LlcBody::ConfirmLink(request));
                }
                (Role::Client, 2) => group.handle_rts(START, LinkSlot::FIRST, Ok(())),
                (Role::Client, _) => {
                    group.handle_sent(START, LinkSlot::FIRST, LlcKind::ConfirmLinkReply)
                }
            }
        }
        while group.poll_action().is_some() {}
        group
    }

    /// Lets an event happen and gives what became of first contact.
    fn strike(group: &mut TestGroup<'_>, event: Event, kind: LlcKind) -> Option<Fail> {
        match event {
            Event::LinkDown => group.handle_link_down(START, LinkSlot::FIRST),
            // An engine that does not answer is not the end: the client refuses the attempt.
            Event::Timeout => {
                group.handle_timeout(after(100));
                group.handle_timeout(after(200));
            }
            Event::SendFailed => group.handle_send_failed(START, LinkSlot::FIRST, kind),
            Event::Garbage => group.handle_message(START, LinkSlot::FIRST, &[0x3f; 44]),
            Event::DeleteGroup => {
                let request = DeleteLink {
                    reply: false,
                    all: true,
                    orderly: false,
                    number: LinkNum::new(0),
                    reason: DeleteReason::LostPath,
                };
                deliver(group, START, &LlcBody::DeleteLink(request));
            }
        }
        let mut action = group.poll_action();
        while matches!(action, Some(LlcAction::Send { .. })) {
            action = group.poll_action();
        }
        assert!(group.is_over());
        assert_eq!(group.poll_action(), None);
        assert_eq!(group.poll_timeout(), None);
        match action {
            Some(LlcAction::FirstContactFailed(fail)) => Some(fail),
            _ => None,
        }
    }

    /// LLF-02, RDV-04 to RDV-06, LLF-17: the way of a server with one device.
    // FBK-11, RDV-08.
    #[test]
    fn server_confirms_then_tries_a_second_link() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = new(Role::Server, &mut places);
        assert_eq!(group.poll_timeout(), None);
        group.start(START);
        let confirm = confirm_link(Role::Server);
        let expected = (LlcKind::ConfirmLink, LlcBody::ConfirmLink(confirm));
        assert_eq!(sent(&mut group), Some(expected));
        assert_eq!(group.poll_timeout(), Some(after(2)));

        let reply = LlcBody::ConfirmLink(confirm_link(Role::Client));
        deliver(&mut group, START, &reply);
        assert_eq!(group.poll_action(), Some(OFFER));
        assert_eq!(group.peer_uid(LinkSlot::FIRST), Some(0x202));
        group.offer_link(START, SECOND, Some(offer()));
        let expected = (LlcKind::AddLink, LlcBody::AddLink(add_link(Role::Server)));
        assert_eq!(sent(&mut group), Some(expected));
        assert!(!group.is_ready());

        let refusal = LlcBody::AddLink(add_link(Role::Client));
        deliver(&mut group, START, &refusal);
        assert_eq!(
            group.poll_action(),
            Some(LlcAction::DropLink { slot: SECOND })
        );
        assert_eq!(group.poll_action(), Some(LlcAction::Ready));
        assert_eq!(group.poll_action(), None);
        assert!(group.is_ready());
    }

    /// LLF-03, LNK-08, LLF-12, LLF-16: the way of a client with one device.
    // FBK-12, TST-007.
    #[test]
    fn client_replies_then_refuses_a_second_link() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = new(Role::Client, &mut places);
        group.start(START);
        assert_eq!(group.poll_action(), None);
        assert_eq!(group.poll_timeout(), Some(after(10)));

        let request = LlcBody::ConfirmLink(confirm_link(Role::Server));
        deliver(&mut group, START, &request);
        let slot = LinkSlot::FIRST;
        assert_eq!(group.poll_action(), Some(LlcAction::MoveToRts { slot }));
        assert_eq!(group.poll_action(), None);
        group.handle_rts(START, slot, Ok(()));
        let reply = LlcBody::ConfirmLink(confirm_link(Role::Client));
        assert_eq!(sent(&mut group), Some((LlcKind::ConfirmLinkReply, reply)));
        assert_eq!(group.number(slot), Some(LinkNum::new(1)));

        let request = LlcBody::AddLink(add_link(Role::Server));
        deliver(&mut group, START, &request);
        // The same port: the link would be parallel to the first one.
        let asked = group.poll_action();
        assert!(matches!(
            asked,
            Some(LlcAction::AcceptLink {
                slot: SECOND,
                only_new: true,
                ..
            })
        ));
        group.accept_link(START, SECOND, None);
        let refusal = LlcBody::AddLink(add_link(Role::Client));
        assert_eq!(sent(&mut group), Some((LlcKind::Reply, refusal)));
        assert_eq!(group.poll_action(), Some(LlcAction::Ready));
    }

    /// A client whose engine was not ready may have dropped it: once, and not at the end of the time.
    #[test]
    fn confirm_link_is_repeated_once() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = advanced(Role::Server, 1, &mut places);
        group.handle_timeout(after(1));
        assert_eq!(group.poll_action(), None);
        group.handle_timeout(after(2));
        let confirm = LlcBody::ConfirmLink(confirm_link(Role::Server));
        assert_eq!(sent(&mut group), Some((LlcKind::ConfirmLink, confirm)));
        assert_eq!(group.poll_timeout(), Some(after(5)));
        group.handle_timeout(after(4));
        assert_eq!(group.poll_action(), None);
        deliver(
            &mut group,
            after(4),
            &LlcBody::ConfirmLink(confirm_link(Role::Client)),
        );
        assert_eq!(group.poll_action(), Some(OFFER));
    }

    /// TMR-10, TMR-13: a server that gets no reply declines, and its Decline finds a client that has
    /// not sent one of its own.
    #[test]
    fn server_gives_up_before_the_client() {
        let mut of_server = [Entry::EMPTY; 2];
        let server = advanced(Role::Server, 0, &mut of_server);
        let server_ends = server.phase.deadline();
        for steps in [0, 2] {
            let mut places = [Entry::EMPTY; 2];
            let mut client = advanced(Role::Client, steps, &mut places);
            let later = server_ends.map(|ends| ends.saturating_add(client.timers.reply));
            assert!(client.phase.deadline() > later);
            client.handle_timeout(after(6));
            assert!(!client.is_over());
        }
    }

    /// A server that has given up repeating does not wait for the rest of the time.
    #[test]
    fn late_timer_is_the_end_and_no_repetition() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = advanced(Role::Server, 1, &mut places);
        let fail = strike(&mut group, Event::Timeout, LlcKind::ConfirmLink);
        assert_eq!(fail, Some(Fail::Abort(Reason::TimeoutConfirmLink)));
    }

    /// A repeated message does no harm to a client; a different one is the end.
    #[test]
    fn repeated_confirm_link_is_passed_over() {
        let good = confirm_link(Role::Server);
        for steps in 1..=3 {
            let mut places = [Entry::EMPTY; 2];
            let mut group = advanced(Role::Client, steps, &mut places);
            deliver(&mut group, START, &LlcBody::ConfirmLink(good));
            assert_eq!(group.poll_action(), None);
            let other = ConfirmLink {
                uid: good.uid.wrapping_add(1),
                ..good
            };
            deliver(&mut group, START, &LlcBody::ConfirmLink(other));
            assert!(matches!(
                group.poll_action(),
                Some(LlcAction::FirstContactFailed(_))
            ));
        }
    }

    /// LNK-11: the server may be faster than the client's own engine.
    #[test]
    fn confirm_link_may_precede_the_start() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = new(Role::Client, &mut places);
        let request = LlcBody::ConfirmLink(confirm_link(Role::Server));
        deliver(&mut group, START, &request);
        group.start(START);
        let slot = LinkSlot::FIRST;
        assert_eq!(group.poll_action(), Some(LlcAction::MoveToRts { slot }));
    }

    /// CLC-413, TMR-03 to TMR-06, TMR-10, TMR-13, TMR-14, FBK-07 to FBK-09, FBK-14, FBK-16: every
    /// phase with every event.
    // TST-033, TST-106, TMR-02.
    #[test]
    fn failures_decline_until_the_own_confirm_link_has_arrived() {
        let phases = [
            // Role, steps, message under way, whether a Decline is possible.
            (Role::Server, 0, LlcKind::ConfirmLink, true),
            (Role::Server, 1, LlcKind::ConfirmLink, false),
            (Role::Server, 2, LlcKind::TestLink, false),
            (Role::Server, 3, LlcKind::AddLink, false),
            (Role::Client, 0, LlcKind::Reply, true),
            (Role::Client, 1, LlcKind::Reply, true),
            (Role::Client, 2, LlcKind::ConfirmLinkReply, true),
            (Role::Client, 3, LlcKind::Reply, false),
        ];
        for (role, steps, kind, may_decline) in phases {
            for event in EVENTS {
                let mut places = [Entry::EMPTY; 2];
                let mut group = advanced(role, steps, &mut places);
                let fail = strike(&mut group, event, kind);
                // TMR-04: the one timer that resets although a Decline would be possible.
                let late = (role, steps, event) == (Role::Client, 0, Event::Timeout);
                let declined = matches!(fail, Some(Fail::Decline(_)));
                let aborted = matches!(fail, Some(Fail::Abort(_)));
                let expected = may_decline && !late;
                assert_eq!((declined, aborted), (expected, !expected));
            }
        }
    }

    /// DEP-9: the diagnosis names what was waited for.
    #[test]
    fn failures_are_named() {
        let rows = [
            (Role::Server, 0, Event::Timeout, Reason::TimeoutConfirmLink),
            (
                Role::Server,
                0,
                Event::SendFailed,
                Reason::TimeoutConfirmLink,
            ),
            (Role::Server, 1, Event::Timeout, Reason::TimeoutConfirmLink),
            (Role::Server, 3, Event::Timeout, Reason::TimeoutAddLink),
            (Role::Client, 0, Event::Timeout, Reason::TimeoutConfirmLink),
            (Role::Client, 0, Event::LinkDown, Reason::NoActiveLink),
            (Role::Client, 1, Event::Timeout, Reason::ReadyLink),
            (Role::Client, 2, Event::Timeout, Reason::TimeoutConfirmLink),
            (Role::Client, 3, Event::Timeout, Reason::TimeoutAddLink),
            (
                Role::Client,
                3,
                Event::Garbage,
                Reason::Local(LocalReason::LinkProtocol),
            ),
        ];
        for (role, steps, event, expected) in rows {
            let mut places = [Entry::EMPTY; 2];
            let mut group = advanced(role, steps, &mut places);
            let kind = match role {
                Role::Server => LlcKind::ConfirmLink,
                Role::Client => LlcKind::ConfirmLinkReply,
            };
            let reason = strike(&mut group, event, kind).map(|fail| match fail {
                Fail::Decline(reason) | Fail::Abort(reason) => reason,
            });
            assert_eq!(reason, Some(expected));
        }
    }

    /// LLF-04, ERR-30, FBK-10, DEP-1.
    #[test]
    fn wrong_confirm_link_is_declined() {
        let good = confirm_link(Role::Server);
        let bad = [
            ConfirmLink {
                mac: end(Role::Client).mac,
                ..good
            },
            ConfirmLink {
                gid: end(Role::Client).gid,
                ..good
            },
            ConfirmLink {
                qpn: Qpn::new(77),
                ..good
            },
            ConfirmLink {
                reply: true,
                ..good
            },
        ];
        for message in bad {
            let mut places = [Entry::EMPTY; 2];
            let mut group = advanced(Role::Client, 0, &mut places);
            deliver(&mut group, START, &LlcBody::ConfirmLink(message));
            let reason = Reason::Local(LocalReason::LinkProtocol);
            let fail = LlcAction::FirstContactFailed(Fail::Decline(reason));
            assert_eq!(group.poll_action(), Some(fail));
        }
    }

    /// DEP-1, RMB-12: a peer that does not say that it has none has eye catchers, and the client says
    /// the same.
    #[test]
    fn peer_decides_about_eye_catchers() {
        let ours = [
            (Role::Server, 1, Role::Client),
            (Role::Client, 0, Role::Server),
        ];
        for ((role, steps, other), plain) in
            ours.into_iter().flat_map(|of| [(of, true), (of, false)])
        {
            let mut places = [Entry::EMPTY; 2];
            let mut group = advanced(role, steps, &mut places);
            let message = ConfirmLink {
                no_eye_catcher: plain,
                ..confirm_link(other)
            };
            deliver(&mut group, START, &LlcBody::ConfirmLink(message));
            assert_eq!(group.has_eye_catchers(), !plain);
        }
    }

    /// LLC-108: the client has to echo the number.
    #[test]
    fn reply_with_another_number_is_no_confirmation() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = advanced(Role::Server, 1, &mut places);
        let reply = ConfirmLink {
            number: LinkNum::new(9),
            ..confirm_link(Role::Client)
        };
        deliver(&mut group, START, &LlcBody::ConfirmLink(reply));
        let reason = Reason::Local(LocalReason::LinkProtocol);
        let fail = LlcAction::FirstContactFailed(Fail::Abort(reason));
        assert_eq!(group.poll_action(), Some(fail));
    }

    /// LGR-12, LLC-110, AMB-10: pairs of server and client limits.
    // LGR-10, LGR-11, AMB-10, TST-118.
    #[test]
    fn number_of_links_is_agreed_on() {
        for (client, tries) in [(0, true), (1, false), (2, true), (8, true)] {
            let mut places = [Entry::EMPTY; 2];
            let mut group = advanced(Role::Server, 1, &mut places);
            let reply = ConfirmLink {
                max_links: client,
                ..confirm_link(Role::Client)
            };
            deliver(&mut group, START, &LlcBody::ConfirmLink(reply));
            let first = if tries { OFFER } else { LlcAction::Ready };
            assert_eq!(group.poll_action(), Some(first));
            assert_eq!(group.max_links, if tries { 2 } else { 1 });
        }
    }

    /// A server that wants one link makes no attempt, so the client does not wait for it.
    #[test]
    fn client_does_not_wait_for_what_the_server_will_not_do() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = advanced(Role::Client, 0, &mut places);
        let request = ConfirmLink {
            max_links: 1,
            ..confirm_link(Role::Server)
        };
        deliver(&mut group, START, &LlcBody::ConfirmLink(request));
        group.handle_rts(START, LinkSlot::FIRST, Ok(()));
        while group.poll_action().is_some() {}
        group.handle_sent(START, LinkSlot::FIRST, LlcKind::ConfirmLinkReply);
        assert_eq!(group.poll_action(), Some(LlcAction::Ready));
    }

    /// ERR-31.
    #[test]
    fn reserved_mtu_is_the_reason_of_a_refusal() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = advanced(Role::Client, 3, &mut places);
        let request = AddLink {
            mtu: None,
            ..add_link(Role::Server)
        };
        deliver(&mut group, START, &LlcBody::AddLink(request));
        let refusal = AddLink {
            refusal: Some(Refusal::InvalidMtu),
            ..add_link(Role::Client)
        };
        let expected = (LlcKind::Reply, LlcBody::AddLink(refusal));
        assert_eq!(sent(&mut group), Some(expected));
    }

    /// LLF-19, TMR-11: a link that the client accepts is deleted before any data flows, whichever
    /// way the client answers that.
    #[test]
    fn accepted_link_is_deleted() {
        for by_refusal in [false, true] {
            let mut places = [Entry::EMPTY; 2];
            let mut group = advanced(Role::Server, 3, &mut places);
            let accepted = AddLink {
                refusal: None,
                ..add_link(Role::Client)
            };
            deliver(&mut group, START, &LlcBody::AddLink(accepted));
            let request = DeleteLink {
                reply: false,
                all: false,
                orderly: true,
                number: LinkNum::new(2),
                reason: DeleteReason::LostPath,
            };
            let expected = (LlcKind::DeleteLink, LlcBody::DeleteLink(request));
            assert_eq!(sent(&mut group), Some(expected));
            assert_eq!(group.poll_action(), None);
            let answer = DeleteLink {
                reply: true,
                ..request
            };
            let refusal = LlcBody::AddLink(add_link(Role::Client));
            let answers = [LlcBody::DeleteLink(answer), refusal];
            // Linux refuses late, others answer DELETE LINK, and one may do both.
            let [first, second] = answers;
            let order = if by_refusal {
                [second, first]
            } else {
                [first, second]
            };
            for answer in &order {
                deliver(&mut group, START, answer);
            }
            assert_eq!(
                group.poll_action(),
                Some(LlcAction::DropLink { slot: SECOND })
            );
            assert_eq!(group.poll_action(), Some(LlcAction::Ready));
            assert_eq!(group.poll_action(), None);
        }
    }

    /// LNK-02, AMB-35.
    // TST-119.
    #[test]
    fn numbers_are_reused_as_late_as_possible() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = new(Role::Server, &mut places);
        for expected in (2..=u8::MAX).chain(2..=3) {
            let number = group
                .attempts
                .next_number(|number| group.slot_of(number).is_some());
            assert_eq!(number.get(), expected);
            group.attempts.requested(number);
        }
    }

    /// A failure of the queue pair has its own reason.
    #[test]
    fn queue_pair_that_cannot_send_is_declined() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = advanced(Role::Client, 1, &mut places);
        group.handle_rts(START, LinkSlot::FIRST, Err(Reason::ReadyLink));
        let fail = LlcAction::FirstContactFailed(Fail::Decline(Reason::ReadyLink));
        assert_eq!(group.poll_action(), Some(fail));
    }
}
