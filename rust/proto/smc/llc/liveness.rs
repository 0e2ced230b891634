// SPDX-License-Identifier: GPL-2.0

//! Whether links are alive: TEST LINK, and patience with a peer that is busy, RFC 7609, sections
//! 4.5.3, A.3.8 and C.7.1.
//!
//! A link on which something arrives is alive. One on which nothing does is tested after a while,
//! and has failed if nothing answers.

use core::ops::DerefMut;

use super::{
    action::{
        Cause,
        LlcKind, //
    },
    group::Group,
    link::{
        LinkSlot,
        Test, //
    },
    msg::LlcBody,
    phase::LinkPhase,
    rtoken::Entry,
    test_link::{
        TestLink,
        UserData, //
    },
};
use crate::proto::base::time::{Duration, Instant};

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// Notes that something arrived on a link. It may be called late: what counts is `now`.
    pub(crate) fn touch(&mut self, now: Instant, slot: LinkSlot) {
        if let Some(link) = self.link_mut(slot) {
            link.last_seen = core::cmp::max(link.last_seen, now);
        }
    }

    /// Tests a link, unless a test is running (LLF-80, KAL-02).
    pub(crate) fn test_link(&mut self, now: Instant, slot: LinkSlot, user_data: UserData) {
        let deadline = now.saturating_add(self.timers.reply);
        match self.link_mut(slot) {
            Some(link) if link.is_active() && link.test.is_none() => {
                link.test = Some(Test {
                    user_data,
                    deadline,
                });
                let request = TestLink {
                    reply: false,
                    user_data,
                };
                self.send(slot, &LlcBody::TestLink(request), LlcKind::TestLink);
            }
            _ => {}
        }
    }

    /// Tests a link on which nothing has arrived for `idle` (KAL-02). Gives when something did;
    /// `None` if there is no such link.
    pub(crate) fn test_if_idle(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        idle: Duration,
    ) -> Option<Instant> {
        let seen = self.link(slot)?.last_seen;
        if seen.saturating_add(idle) <= now {
            self.test_link(now, slot, [0; 16]);
        }
        Some(seen)
    }

    /// After which time without traffic links are tested.
    pub(super) const fn idle_test(&self) -> Duration {
        match self.phase {
            LinkPhase::Ready => self.timers.idle_test,
            _ => Duration::ZERO,
        }
    }

    /// TEST LINK: a request is answered whatever is going on (LLF-81).
    pub(super) fn on_test_link(&mut self, now: Instant, slot: LinkSlot, test: &TestLink) {
        if !test.reply {
            let reply = TestLink {
                reply: true,
                ..*test
            };
            return self.send(slot, &LlcBody::TestLink(reply), LlcKind::Reply);
        }
        match self.link_mut(slot).and_then(|link| link.test.take()) {
            Some(running) if running.user_data == test.user_data => {}
            // ERR-39.
            Some(_) => self.fail(now, slot, Cause::Mismatch("TEST LINK")),
            None => self.fail(now, slot, Cause::Unexpected("TEST LINK")),
        }
    }

    /// Timers of one link.
    pub(super) fn on_link_timeout(&mut self, now: Instant, slot: LinkSlot) {
        let idle = self.idle_test();
        let Some(link) = self.link(slot) else {
            return;
        };
        if link.is_leaving() {
            self.on_leave_timeout(now, slot);
        } else if link.test.is_some_and(|test| test.deadline <= now) {
            let until = self.more_time(now, slot);
            let test = self.link_mut(slot).and_then(|link| link.test.as_mut());
            match (until, test) {
                (Some(until), Some(test)) => test.deadline = until,
                _ => self.fail(now, slot, Cause::NoReply(LlcKind::TestLink)),
            }
        } else if link.idle_deadline(idle).is_some_and(|due| due <= now) {
            self.tests = self.tests.wrapping_add(1);
            let [a, b, c, d, e, f, g, h] = self.tests.to_be_bytes();
            let user_data = [a, b, c, d, e, f, g, h, 0, 0, 0, 0, 0, 0, 0, 0];
            self.test_link(now, slot, user_data);
        }
    }

    /// The reply to what was sent on a link is late: until when to wait on. A link on which other
    /// things arrive has not failed, its peer is busy; that is believed for a while. `None` if it is
    /// time to draw the consequences (TMR-15..28).
    pub(super) fn more_time(&mut self, now: Instant, slot: LinkSlot) -> Option<Instant> {
        let (reply, patience) = (self.timers.reply, self.timers.patience);
        let link = self.link_mut(slot)?;
        let since = *link.late.get_or_insert(now);
        let silent = link.last_seen.saturating_add(reply);
        let until = core::cmp::min(silent, since.saturating_add(patience));
        (until > now).then_some(until)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_liveness))]
mod tests {
    use super::*;
    use crate::proto::smc::llc::{
        action::Role,
        testing::{
            after,
            confirm_link,
            deliver,
            ended,
            new,
            ready,
            sent,
            test,
            DATA,
            SECOND,
            START, //
        },
    };

    /// LLF-81.
    #[test]
    fn test_link_is_answered_at_once() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Client, &mut places);
        deliver(&mut group, START, &test(false, DATA));
        assert_eq!(sent(&mut group), Some((LlcKind::Reply, test(true, DATA))));
    }

    /// COL-10.
    #[test]
    fn test_link_is_answered_in_first_contact() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = new(Role::Server, &mut places);
        group.start(START);
        let reply = LlcBody::ConfirmLink(confirm_link(Role::Client));
        deliver(&mut group, START, &reply);
        while group.poll_action().is_some() {}
        deliver(&mut group, START, &test(false, DATA));
        assert_eq!(sent(&mut group), Some((LlcKind::Reply, test(true, DATA))));
    }

    /// KAL-02, KAL-03: a link is tested when nothing has arrived for a while.
    #[test]
    fn idle_link_is_tested() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Server, &mut places);
        assert_eq!(group.poll_timeout(), Some(after(30)));
        group.touch(after(20), LinkSlot::FIRST);
        assert_eq!(group.poll_timeout(), Some(after(50)));
        group.handle_timeout(after(30));
        assert_eq!(group.poll_action(), None);
        group.handle_timeout(after(50));
        let request = sent(&mut group);
        assert!(request.is_some());
        assert_eq!(group.poll_timeout(), Some(after(52)));
        if let Some((kind, LlcBody::TestLink(request))) = request {
            assert_eq!(kind, LlcKind::TestLink);
            deliver(&mut group, after(51), &test(true, request.user_data));
        }
        assert_eq!(group.poll_action(), None);
        assert_eq!(group.poll_timeout(), Some(after(81)));
    }

    /// KAL-01, KAL-02: what a connection asks for depends on when the link was last seen to work.
    #[test]
    fn link_is_tested_for_an_idle_connection() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Client, &mut places);
        let idle = Duration::from_secs(5);
        group.touch(after(3), LinkSlot::FIRST);
        for (now, tested) in [(4, false), (7, false), (8, true), (9, false)] {
            let seen = group.test_if_idle(after(now), LinkSlot::FIRST, idle);
            assert_eq!(seen, Some(after(3)));
            assert_eq!(sent(&mut group).is_some(), tested);
        }
        // The reply is a sign of life.
        deliver(&mut group, after(9), &test(true, [0; 16]));
        assert_eq!(group.poll_action(), None);
        let seen = group.test_if_idle(after(13), LinkSlot::FIRST, idle);
        assert_eq!(seen, Some(after(9)));
        assert_eq!(group.poll_action(), None);
        // A link that is not there has nothing to tell.
        let gone = group.test_if_idle(after(13), SECOND, idle);
        assert_eq!(gone, None);
    }

    /// LLF-82, TMR-27.
    #[test]
    fn unanswered_test_is_the_end_of_the_link() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Server, &mut places);
        group.test_link(START, LinkSlot::FIRST, DATA);
        assert_eq!(
            sent(&mut group),
            Some((LlcKind::TestLink, test(false, DATA)))
        );
        // One at a time.
        group.test_link(START, LinkSlot::FIRST, [0; 16]);
        assert_eq!(group.poll_action(), None);
        group.handle_timeout(after(2));
        ended(&mut group, Cause::NoReply(LlcKind::TestLink));
    }

    /// KAL-03: a peer whose data arrives is there, however late it answers; the patience has a limit.
    #[test]
    fn a_busy_peer_gets_more_time() {
        for answers in [false, true] {
            let mut places = [Entry::EMPTY; 2];
            let mut group = ready(Role::Server, &mut places);
            group.test_link(START, LinkSlot::FIRST, DATA);
            assert!(sent(&mut group).is_some());
            for second in 1..=31 {
                group.touch(after(second), LinkSlot::FIRST);
                group.handle_timeout(after(second));
                assert_eq!(group.poll_action(), None);
                assert!(group.poll_timeout() > Some(after(second)));
            }
            if answers {
                deliver(&mut group, after(31), &test(true, DATA));
                group.handle_timeout(after(32));
                assert_eq!(group.poll_action(), None);
                // The next one starts from the beginning.
                group.test_link(after(40), LinkSlot::FIRST, DATA);
                assert!(sent(&mut group).is_some());
                group.touch(after(41), LinkSlot::FIRST);
                group.handle_timeout(after(42));
                assert_eq!(group.poll_action(), None);
                group.handle_timeout(after(43));
            } else {
                group.touch(after(32), LinkSlot::FIRST);
                group.handle_timeout(after(32));
            }
            ended(&mut group, Cause::NoReply(LlcKind::TestLink));
        }
    }

    /// ERR-39.
    #[test]
    fn wrong_answer_to_a_test_is_the_end_of_the_link() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Server, &mut places);
        group.test_link(START, LinkSlot::FIRST, DATA);
        assert!(sent(&mut group).is_some());
        deliver(&mut group, START, &test(true, [0; 16]));
        ended(&mut group, Cause::Mismatch("TEST LINK"));
    }

    /// ERR-41.
    #[test]
    fn answer_to_no_test_is_the_end_of_the_link() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Server, &mut places);
        deliver(&mut group, START, &test(true, DATA));
        ended(&mut group, Cause::Unexpected("TEST LINK"));
    }
}
