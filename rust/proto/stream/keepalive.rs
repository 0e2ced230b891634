// SPDX-License-Identifier: GPL-2.0

//! When an idle connection asks whether its link still works: RFC 7609, section 4.5.3.
//!
//! A connection with SO_KEEPALIVE has a timer of its own, and each link knows when it was last seen
//! to work (KAL-01). The link is tested when both have been idle for that long (KAL-02); what
//! arrives for any connection of a link, or the reply to a test, is a sign of life for all of them
//! (KAL-03). What follows when a test fails is the link group's business.

use crate::proto::base::time::{
    Duration,
    Instant, //
};

/// For how long a program wants to wait for a peer that may be gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeepaliveTimes {
    /// Longest idle time before the peer is tested (SO_KEEPALIVE); `None` without.
    pub(crate) idle: Option<Duration>,
    /// Longest time for data without any progress (TCP_USER_TIMEOUT); `None` for any time.
    pub(crate) stalled: Option<Duration>,
}

/// The timer of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keepalive {
    /// Longest idle time of the connection; `None` without keepalive.
    idle: Option<Duration>,
    /// When there was last a sign of life.
    seen: Instant,
    /// When to look again.
    due: Option<Instant>,
}

impl Keepalive {
    /// Sets the idle time after which the peer is tested, counted from now; `None` for no test.
    pub(crate) fn set(&mut self, now: Instant, idle: Option<Duration>) {
        self.idle = idle;
        self.touch(now);
        self.due = idle.map(|idle| now.saturating_add(idle));
    }

    /// Takes in that the connection was seen to work: something of the peer arrived, or something
    /// of ours. The timer is not touched; that it is too early shows when it runs out.
    pub(crate) fn touch(&mut self, now: Instant) {
        self.seen = core::cmp::max(self.seen, now);
    }

    /// When the engine must call [`Self::handle_timeout`].
    pub(crate) const fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Takes in that time has passed. Calls that are too early do nothing. Returns the longest idle
    /// time if it is over: the engine then calls [`Self::touch`] with the time of the last sign of
    /// life of the link.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Option<Duration> {
        let idle = self.idle?;
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        let end = self.seen.saturating_add(idle);
        if end > now {
            self.due = Some(end);
            return None;
        }
        self.due = Some(now.saturating_add(idle));
        Some(idle)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_keepalive))]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(10);

    fn at(secs: u64) -> Instant {
        Instant::from_nanos(0).saturating_add(Duration::from_secs(secs))
    }

    /// KAL-01: no timer without the option, and none after it is taken back.
    #[test]
    fn connection_without_the_option_has_no_timer() {
        let mut timer = Keepalive::default();
        assert_eq!(timer.poll_timeout(), None);
        assert_eq!(timer.handle_timeout(at(100)), None);
        timer.set(at(100), Some(IDLE));
        assert_eq!(timer.poll_timeout(), Some(at(110)));
        timer.set(at(101), None);
        assert_eq!(timer.poll_timeout(), None);
        assert_eq!(timer.handle_timeout(at(200)), None);
    }

    /// KAL-01, KAL-02: the time counts from the last activity of the connection.
    #[test]
    fn activity_postpones_the_test() {
        let mut timer = Keepalive::default();
        timer.set(at(0), Some(IDLE));
        timer.touch(at(4));
        timer.touch(at(7));
        // Out of order, as the link may report an older time.
        timer.touch(at(5));
        assert_eq!(timer.poll_timeout(), Some(at(10)));
        assert_eq!(timer.handle_timeout(at(10)), None);
        assert_eq!(timer.poll_timeout(), Some(at(17)));
        assert_eq!(timer.handle_timeout(at(16)), None);
        assert_eq!(timer.handle_timeout(at(17)), Some(IDLE));
    }

    /// KAL-01, KAL-02: it comes back as long as there is no sign of life, and with a link that
    /// works for others when that has been silent, too.
    #[test]
    fn activity_of_the_link_postpones_the_test() {
        let mut timer = Keepalive::default();
        timer.set(at(0), Some(IDLE));
        assert_eq!(timer.handle_timeout(at(10)), Some(IDLE));
        // Another connection has used the link.
        timer.touch(at(9));
        assert_eq!(timer.handle_timeout(at(15)), None);
        assert_eq!(timer.poll_timeout(), Some(at(20)));
        assert_eq!(timer.handle_timeout(at(20)), Some(IDLE));
        assert_eq!(timer.handle_timeout(at(29)), None);
        assert_eq!(timer.handle_timeout(at(30)), Some(IDLE));
    }

    /// A new time counts from when it is set.
    #[test]
    fn new_idle_time_counts_from_its_setting() {
        let mut timer = Keepalive::default();
        timer.set(at(0), Some(IDLE));
        timer.set(at(5), Some(Duration::from_secs(1)));
        assert_eq!(timer.poll_timeout(), Some(at(6)));
        assert_eq!(timer.handle_timeout(at(6)), Some(Duration::from_secs(1)));
    }
}
