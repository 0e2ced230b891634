// SPDX-License-Identifier: GPL-2.0

//! Limits of how often something is done.

use super::time::{
    Duration,
    Instant, //
};

/// At most one event per interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimit {
    /// Least time from one event to the next.
    interval: Duration,
}

impl RateLimit {
    /// For messages of the log that peers cause.
    pub(crate) const LOG: Self = Self {
        interval: Duration::from_secs(1),
    };

    /// Whether an event is allowed now, if the one before was at `last`.
    pub(crate) fn allows(&self, last: Instant, now: Instant) -> bool {
        now.saturating_since(last) >= self.interval
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_rate))]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).saturating_add(Duration::from_millis(millis))
    }

    #[test]
    fn message_within_a_second_is_dropped() {
        for (millis, allowed) in [(5_000, false), (5_999, false), (6_000, true), (9_000, true)] {
            assert_eq!(RateLimit::LOG.allows(at(5_000), at(millis)), allowed);
        }
    }

    #[test]
    fn clock_that_seems_to_go_back_allows_nothing() {
        assert!(!RateLimit::LOG.allows(at(5_000), at(1_000)));
    }
}
