// SPDX-License-Identifier: GPL-2.0

//! A closed connection whose data or DisConn waits: when its peer is tested, and when it is given up.
//!
//! A peer that gives no credits may be gone. With nothing in flight the device does not notice. As TCP
//! does with a window of zero, the connection tests its peer in growing intervals. It gives the peer up
//! after as many tests as the administrator allows, even if the link works: a peer that never gives
//! credits must not keep memory of this host.

use crate::proto::base::time::{
    Duration,
    Instant, //
};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrphanStep {
    /// Nothing.
    Wait,
    /// The peer has to be tested.
    Test,
    /// The peer has had its time.
    GiveUp,
}

/// The tests of a connection that no program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrphanTests {
    /// Time to the first test. Each further one takes twice as long.
    pub(crate) first: Duration,
    /// The longest of these times.
    pub(crate) longest: Duration,
    /// Tests without any progress, before the connection is given up.
    pub(crate) most: u8,
}

impl OrphanTests {
    /// Those in use unless the engine changes them: the end comes after some two minutes.
    pub(crate) const DEFAULT: Self = Self {
        first: Duration::from_millis(250),
        longest: Duration::from_secs(120),
        most: 8,
    };

    /// The time from one test to the next, when `done` are over.
    fn interval(&self, done: u8) -> Duration {
        let times = 1_u64.checked_shl(done.into()).unwrap_or(u64::MAX);
        core::cmp::min(self.first.saturating_mul(times), self.longest)
    }
}

/// The timer of an orphan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OrphanTimer {
    /// When the next step is due; `None` while the connection waits for nothing.
    due: Option<Instant>,
    /// Tests since the last progress.
    done: u8,
    /// The progress that the tests count from.
    progress: u64,
}

impl OrphanTimer {
    /// Starts, or stops. `progress` changes with each octet that the peer gets.
    pub(super) fn rearm(&mut self, now: Instant, tests: &OrphanTests, waits: bool, progress: u64) {
        if !waits {
            *self = Self::default();
        } else if self.due.is_none() || progress != self.progress {
            *self = Self {
                due: Some(now.saturating_add(tests.interval(0))),
                done: 0,
                progress,
            };
        }
    }

    /// The timer may have expired.
    pub(super) fn handle_timeout(&mut self, now: Instant, tests: &OrphanTests) -> OrphanStep {
        if self.due.is_none_or(|due| now < due) {
            return OrphanStep::Wait;
        }
        if self.done >= tests.most {
            self.due = None;
            return OrphanStep::GiveUp;
        }
        self.done = self.done.saturating_add(1);
        self.due = Some(now.saturating_add(tests.interval(self.done)));
        OrphanStep::Test
    }

    /// When to call [`Self::handle_timeout`].
    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_sdp_orphan))]
mod tests {
    use super::*;

    const TESTS: OrphanTests = OrphanTests {
        first: Duration::from_millis(500),
        longest: Duration::from_secs(2),
        most: 4,
    };

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).saturating_add(Duration::from_millis(millis))
    }

    #[test]
    fn peer_without_progress_is_tested_in_growing_intervals_and_given_up() {
        let mut timer = OrphanTimer::default();
        timer.rearm(at(0), &TESTS, true, 7);
        for test in [500, 1500, 3500, 5500] {
            assert_eq!(timer.poll_timeout(), Some(at(test)));
            assert_eq!(timer.handle_timeout(at(test - 1), &TESTS), OrphanStep::Wait);
            assert_eq!(timer.handle_timeout(at(test), &TESTS), OrphanStep::Test);
            timer.rearm(at(test), &TESTS, true, 7);
        }
        assert_eq!(timer.handle_timeout(at(7500), &TESTS), OrphanStep::GiveUp);
        assert_eq!(timer.poll_timeout(), None);
    }

    #[test]
    fn progress_begins_the_tests_again() {
        let mut timer = OrphanTimer::default();
        timer.rearm(at(0), &TESTS, true, 7);
        assert_eq!(timer.handle_timeout(at(500), &TESTS), OrphanStep::Test);
        timer.rearm(at(600), &TESTS, true, 8);
        assert_eq!(timer.poll_timeout(), Some(at(1100)));
        assert_eq!(timer.handle_timeout(at(1100), &TESTS), OrphanStep::Test);
        assert_eq!(timer.poll_timeout(), Some(at(2100)));
    }

    #[test]
    fn connection_that_waits_for_nothing_has_no_timer() {
        let mut timer = OrphanTimer::default();
        timer.rearm(at(0), &TESTS, false, 7);
        assert_eq!(timer.poll_timeout(), None);
        timer.rearm(at(0), &TESTS, true, 7);
        timer.rearm(at(1), &TESTS, false, 7);
        assert_eq!(timer.handle_timeout(at(9000), &TESTS), OrphanStep::Wait);
    }
}
