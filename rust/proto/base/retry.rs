// SPDX-License-Identifier: GPL-2.0

//! When to try again what could not be done for now.

use super::time::Duration;

/// Delays that double with each try that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// Before the second try.
    pub(crate) first: Duration,
    /// Longest delay.
    pub(crate) most: Duration,
}

impl Backoff {
    /// For a lock that a program keeps for any time, and whose release kicks the one that waits.
    pub(crate) const LOCK: Self = Self {
        first: Duration::from_millis(1),
        most: Duration::from_secs(1),
    };

    /// The delay after a try that failed, and `before` others in a row before it.
    pub(crate) const fn delay(&self, before: u32) -> Duration {
        let factor = match 1u64.checked_shl(before) {
            Some(factor) => factor,
            None => u64::MAX,
        };
        let nanos = self.first.as_nanos().saturating_mul(factor);
        if nanos < self.most.as_nanos() {
            Duration::from_nanos(nanos)
        } else {
            self.most
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_retry))]
mod tests {
    use super::*;

    #[test]
    fn delay_after_each_failure_doubles() {
        for (before, millis) in [(0, 1), (1, 2), (2, 4), (9, 512)] {
            assert_eq!(Backoff::LOCK.delay(before), Duration::from_millis(millis));
        }
    }

    #[test]
    fn delay_after_many_failures_is_the_longest() {
        for before in [10, 63, 64, u32::MAX] {
            assert_eq!(Backoff::LOCK.delay(before), Duration::from_secs(1));
        }
    }
}
