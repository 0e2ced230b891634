// SPDX-License-Identifier: GPL-2.0

//! Time as the core sees it: points and spans in nanoseconds, always given by the caller.

/// A point in time: nanoseconds since a start that the caller chose, for example system start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(u64);

impl Instant {
    /// Makes one of nanoseconds.
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The point `span` later, or the last one there is.
    pub(crate) const fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The span since `earlier`; zero if that is later.
    pub(crate) const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Duration(u64);

impl Duration {
    /// No time.
    pub(crate) const ZERO: Self = Self(0);

    /// Makes one of nanoseconds.
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Makes one of microseconds; too many give the longest span there is.
    pub(crate) const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Makes one of milliseconds; too many give the longest span there is.
    pub(crate) const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Makes one of seconds; too many give the longest span there is.
    pub(crate) const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The time that a queue pair of InfiniBand has a code of 5 bits for: 4.096 us times 2^code.
    pub(crate) const fn from_ack_code(code: u8) -> Self {
        Self(4_096 << (code & 0x1f))
    }

    /// The span in nanoseconds.
    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span in whole milliseconds.
    pub(crate) const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// `times` as long, or the longest span there is.
    pub(crate) const fn saturating_mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }

    /// The sum, or the longest span there is.
    pub(crate) const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or no time if `other` is longer.
    pub(crate) const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// The earlier of two deadlines, either of which may be absent.
pub(crate) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(core::cmp::min(a, b)),
        (one, None) | (None, one) => one,
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_time))]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_wrap() {
        let late = Instant::from_nanos(u64::MAX);
        assert_eq!(late.saturating_add(Duration::from_secs(1)), late);
        assert_eq!(late.saturating_add(Duration::from_nanos(1)), late);
        assert_eq!(Instant::default().saturating_since(late), Duration::ZERO);
        assert_eq!(Duration::from_secs(u64::MAX).as_nanos(), u64::MAX);
    }

    #[test]
    fn units_agree() {
        assert_eq!(Duration::from_secs(2), Duration::from_millis(2000));
        assert_eq!(Duration::from_millis(3).as_nanos(), 3_000_000);
        assert_eq!(Duration::from_nanos(2_999_999).as_millis(), 2);
        assert_eq!(
            Duration::from_millis(5).saturating_mul(3),
            Duration::from_millis(15)
        );
        let start = Instant::from_nanos(7);
        let end = start.saturating_add(Duration::from_millis(1));
        assert_eq!(end.as_nanos(), 1_000_007);
        assert_eq!(end.saturating_since(start), Duration::from_millis(1));
    }

    #[test]
    fn the_earlier_deadline_wins() {
        let (a, b) = (Instant::from_nanos(1), Instant::from_nanos(2));
        assert_eq!(earliest(Some(a), Some(b)), Some(a));
        assert_eq!(earliest(Some(b), Some(a)), Some(a));
        assert_eq!(earliest(None, Some(b)), Some(b));
        assert_eq!(earliest(Some(a), None), Some(a));
        assert_eq!(earliest(None, None), None);
    }
}
