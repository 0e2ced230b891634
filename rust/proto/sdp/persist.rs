// SPDX-License-Identifier: GPL-2.0

//! The persist timer: when the peer of a connection without credits is tested, and when it is given up.
//!
//! A peer that gives no credits may be gone. With nothing in flight the device does not notice. As TCP
//! does with a window of zero, the connection tests its peer in growing intervals, as long as its
//! program waits. A closed connection gives the peer up after as many tests as the administrator
//! allows, even if the link works: a peer that never gives credits must not keep memory of this host.

use crate::proto::base::time::{
    Duration,
    Instant, //
};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PersistStep {
    /// Nothing.
    Wait,
    /// The peer has to be tested.
    Test,
    /// The peer has had its time.
    GiveUp,
}

/// The connection that waits for credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// A program has its socket, and decides how long it waits.
    Open,
    /// No program has its socket.
    Orphan,
}

/// The tests of a peer that gives no credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PersistTests {
    /// Time to the first test. Each further one takes twice as long.
    pub(crate) first: Duration,
    /// The longest of these times.
    pub(crate) longest: Duration,
    /// Tests of an orphan without any progress, before the connection is given up.
    pub(crate) most: u8,
}

impl PersistTests {
    /// Those in use unless the engine changes them: the end of an orphan comes after some two minutes.
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

/// The timer of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PersistTimer {
    /// The next step, while the connection waits.
    due: Option<Instant>,
    /// How the connection waits.
    waiter: Option<Waiter>,
    /// Tests since the last progress.
    done: u8,
    /// The progress that the tests count from.
    progress: u64,
}

impl PersistTimer {
    /// Starts, or stops when there is no `waiter`. `progress` changes with each octet that the peer
    /// gets.
    pub(super) fn rearm(
        &mut self,
        now: Instant,
        tests: &PersistTests,
        waiter: Option<Waiter>,
        progress: u64,
    ) {
        if waiter.is_none() {
            *self = Self::default();
        } else if waiter != self.waiter || progress != self.progress {
            *self = Self {
                due: Some(now.saturating_add(tests.interval(0))),
                waiter,
                done: 0,
                progress,
            };
        }
    }

    /// The timer may have expired.
    pub(super) fn handle_timeout(&mut self, now: Instant, tests: &PersistTests) -> PersistStep {
        if self.due.is_none_or(|due| now < due) {
            return PersistStep::Wait;
        }
        if self.waiter == Some(Waiter::Orphan) && self.done >= tests.most {
            self.due = None;
            return PersistStep::GiveUp;
        }
        self.done = self.done.saturating_add(1);
        self.due = Some(now.saturating_add(tests.interval(self.done)));
        PersistStep::Test
    }

    /// When to call [`Self::handle_timeout`].
    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_sdp_persist))]
mod tests {
    use super::*;

    const TESTS: PersistTests = PersistTests {
        first: Duration::from_millis(500),
        longest: Duration::from_secs(2),
        most: 4,
    };

    const ORPHAN: Option<Waiter> = Some(Waiter::Orphan);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).saturating_add(Duration::from_millis(millis))
    }

    #[test]
    fn peer_of_an_orphan_is_tested_in_growing_intervals_and_given_up() {
        let mut timer = PersistTimer::default();
        timer.rearm(at(0), &TESTS, ORPHAN, 7);
        for test in [500, 1500, 3500, 5500] {
            assert_eq!(timer.poll_timeout(), Some(at(test)));
            assert_eq!(
                timer.handle_timeout(at(test - 1), &TESTS),
                PersistStep::Wait
            );
            assert_eq!(timer.handle_timeout(at(test), &TESTS), PersistStep::Test);
            timer.rearm(at(test), &TESTS, ORPHAN, 7);
        }
        assert_eq!(timer.handle_timeout(at(7500), &TESTS), PersistStep::GiveUp);
        assert_eq!(timer.poll_timeout(), None);
    }

    #[test]
    fn progress_begins_the_tests_again() {
        let mut timer = PersistTimer::default();
        timer.rearm(at(0), &TESTS, ORPHAN, 7);
        assert_eq!(timer.handle_timeout(at(500), &TESTS), PersistStep::Test);
        timer.rearm(at(600), &TESTS, ORPHAN, 8);
        assert_eq!(timer.poll_timeout(), Some(at(1100)));
        assert_eq!(timer.handle_timeout(at(1100), &TESTS), PersistStep::Test);
        assert_eq!(timer.poll_timeout(), Some(at(2100)));
    }

    #[test]
    fn connection_that_waits_for_nothing_has_no_timer() {
        let mut timer = PersistTimer::default();
        timer.rearm(at(0), &TESTS, None, 7);
        assert_eq!(timer.poll_timeout(), None);
        timer.rearm(at(0), &TESTS, ORPHAN, 7);
        timer.rearm(at(1), &TESTS, None, 7);
        assert_eq!(timer.handle_timeout(at(9000), &TESTS), PersistStep::Wait);
    }

    #[test]
    fn peer_of_an_open_socket_is_tested_without_an_end() {
        let mut timer = PersistTimer::default();
        timer.rearm(at(0), &TESTS, Some(Waiter::Open), 7);
        let mut now = 500;
        for _ in 0..300 {
            assert_eq!(timer.poll_timeout(), Some(at(now)));
            assert_eq!(timer.handle_timeout(at(now), &TESTS), PersistStep::Test);
            now += if now == 500 { 1000 } else { 2000 };
        }
    }

    #[test]
    fn closed_socket_begins_the_tests_again() {
        let mut timer = PersistTimer::default();
        timer.rearm(at(0), &TESTS, Some(Waiter::Open), 7);
        for test in [500, 1500, 3500, 5500, 7500] {
            assert_eq!(timer.handle_timeout(at(test), &TESTS), PersistStep::Test);
        }
        timer.rearm(at(8000), &TESTS, ORPHAN, 7);
        for test in [8500, 9500, 11500, 13500] {
            assert_eq!(timer.poll_timeout(), Some(at(test)));
            assert_eq!(timer.handle_timeout(at(test), &TESTS), PersistStep::Test);
        }
        assert_eq!(timer.handle_timeout(at(15500), &TESTS), PersistStep::GiveUp);
    }
}
