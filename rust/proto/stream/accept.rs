// SPDX-License-Identifier: GPL-2.0

//! Number of concurrent handshakes of a listener, and what a full backlog does to them.
//!
//! A child whose client agreed on SMC-R waits for its handshake before `accept` sees it (TCP-19). A
//! client that stalls its handshake must cost neither other clients nor much memory. So handshakes
//! take no place of the backlog, and the listener offers SMC-R to new clients only while it has
//! few: with many, new clients get plain TCP, which `accept` sees at once.
//!
//! While the backlog is full, children stay in TCP's queue. With TCP the connect of such a client has
//! succeeded; a client that agreed on SMC-R waits for the answer to its Proposal and gives up after some
//! seconds. So a backlog that stays full holds no handshake up: see [`Fullness`].

use crate::proto::base::time::{
    Duration,
    Instant, //
};

/// Handshakes of a listener that are many if the administrator limits them, whatever its backlog.
const MANY_LIMITED: usize = 64;
/// Handshakes that are not many, however small the backlog.
const FEW: usize = 64;
/// Handshakes that are many, however large the backlog.
const MANY: usize = 1024;
/// Most handshakes, as a multiple of the number that is many. The surplus are clients that
/// got the offer before the listener withheld it: those in TCP's two queues.
const SURPLUS: usize = 4;

/// When a listener tries again to take a child that it had no memory for. No event reports that there
/// is memory again.
pub(crate) const MEMORY_RETRY: Duration = Duration::from_millis(100);

/// How long a full backlog keeps children in TCP's queue. A client gives up after 6 s.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a listener takes the next child from TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It does.
    Free,
    /// Its backlog is full: not before that time, or the next accept.
    From(Instant),
    /// Not before the next accept.
    Full,
}

/// How long the backlog of a listener has been full.
///
/// After 2 s the listener takes from TCP what its queue may hold, so that clients that agreed on SMC-R
/// get their answer in time. From then on, until a program accepts, the listener withholds its offer:
/// new clients get plain TCP and stay in TCP's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fullness {
    since: Option<Instant>,
}

impl Fullness {
    /// The backlog is not full.
    pub(crate) const NONE: Self = Self { since: None };

    /// From now on `ready` connections wait for accept.
    pub(crate) fn update(&mut self, ready: usize, backlog: usize, now: Instant) {
        // As in TCP, the backlog is full with one more than its value.
        self.since = (ready > backlog).then(|| self.since.unwrap_or(now));
    }

    /// Whether the listener takes the next child from TCP, with `ready` connections that wait for accept.
    pub(crate) fn room(&self, ready: usize, backlog: usize, now: Instant) -> Room {
        match self.since {
            None => Room::Free,
            Some(_) if self.is_overdue(now) => {
                if ready <= backlog.saturating_mul(2).saturating_add(1) {
                    Room::Free
                } else {
                    Room::Full
                }
            }
            Some(since) => Room::From(since.saturating_add(PATIENCE)),
        }
    }

    /// Whether the backlog has been full for 2 s or more, so that the listener withholds its offer.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.since
            .is_some_and(|since| now >= since.saturating_add(PATIENCE))
    }
}

/// Handshakes from which on the listener withholds its offer.
const fn many(backlog: usize) -> usize {
    if backlog < FEW {
        FEW
    } else if backlog < MANY {
        backlog
    } else {
        MANY
    }
}

/// Whether a listener with `handshakes` in progress withholds the offer from new clients for now.
/// With `limited` the administrator allows fewer handshakes than memory does.
pub(crate) const fn withholds_offer(handshakes: usize, backlog: usize, limited: bool) -> bool {
    if limited && (handshakes >= MANY_LIMITED || handshakes > backlog / 2) {
        return true;
    }
    handshakes >= many(backlog)
}

/// Whether a listener with `handshakes` in progress resets the next client that agreed on SMC-R.
pub(crate) const fn refuses_handshake(handshakes: usize, backlog: usize) -> bool {
    handshakes >= many(backlog).saturating_mul(SURPLUS)
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_accept))]
mod tests {
    use super::*;

    #[test]
    fn listener_without_memory_retries_before_its_client_gives_up() {
        // A client waits some seconds for the answer to its Proposal.
        assert!(MEMORY_RETRY < Duration::from_secs(1));
        assert!(MEMORY_RETRY > Duration::from_millis(10));
    }

    const START: Instant = Instant::from_nanos(1_000);

    #[test]
    fn full_backlog_for_a_moment_keeps_children_with_tcp() {
        let mut fullness = Fullness::NONE;
        fullness.update(4, 4, START);
        assert_eq!(fullness.room(4, 4, START), Room::Free);
        fullness.update(5, 4, START);
        let later = START.saturating_add(Duration::from_secs(1));
        fullness.update(6, 4, later);
        let due = START.saturating_add(PATIENCE);
        assert_eq!(fullness.room(6, 4, later), Room::From(due));
        assert!(!fullness.is_overdue(later));
        fullness.update(4, 4, later);
        fullness.update(5, 4, later);
        assert!(!fullness.is_overdue(due));
    }

    #[test]
    fn full_backlog_for_long_takes_what_tcp_has() {
        for backlog in [0, 4, usize::MAX - 1] {
            let mut fullness = Fullness::NONE;
            let ready = backlog.saturating_add(1);
            fullness.update(ready, backlog, START);
            let due = START.saturating_add(PATIENCE);
            assert!(fullness.is_overdue(due));
            assert_eq!(fullness.room(ready, backlog, due), Room::Free);
        }
    }

    #[test]
    fn connections_of_a_full_backlog_are_bounded() {
        let mut fullness = Fullness::NONE;
        fullness.update(5, 4, START);
        let due = START.saturating_add(PATIENCE);
        assert_eq!(fullness.room(9, 4, due), Room::Free);
        assert_eq!(fullness.room(10, 4, due), Room::Full);
    }

    #[test]
    fn full_backlog_answers_before_its_client_gives_up() {
        assert!(PATIENCE < Duration::from_secs(5));
    }

    #[test]
    fn limited_listener_with_half_its_backlog_withholds() {
        assert!(!withholds_offer(0, 0, true) && withholds_offer(1, 0, true));
        assert!(!withholds_offer(8, 16, true) && withholds_offer(9, 16, true));
        assert!(!withholds_offer(63, 4096, true) && withholds_offer(64, 4096, true));
    }

    #[test]
    fn listener_with_many_handshakes_withholds() {
        assert!(!withholds_offer(63, 8, false) && withholds_offer(64, 8, false));
        assert!(!withholds_offer(510, 511, false) && withholds_offer(511, 511, false));
        assert!(!withholds_offer(1023, 4096, false) && withholds_offer(1024, 4096, false));
    }

    #[test]
    fn handshakes_of_any_backlog_are_bounded() {
        for backlog in [0, 8, 64, 511, 4096, usize::MAX] {
            assert!(refuses_handshake(4096, backlog));
            assert!(!refuses_handshake(many(backlog), backlog));
        }
    }
}
