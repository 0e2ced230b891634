// SPDX-License-Identifier: GPL-2.0

//! Sequence numbers of SDP messages: 32 bits that wrap (SDP-GEN-11, SDP-CRED-02).

/// A message sequence number, the `MSeq` or `MSeqAck` of a BSDH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Serial(u32);

impl Serial {
    /// Makes one of the number on the wire.
    pub(crate) const fn new(value: u32) -> Self {
        Self(value)
    }

    /// The number on the wire.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    /// The number `count` messages later (SDP-BSDH-20).
    pub(crate) const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The number `count` messages earlier.
    pub(crate) const fn minus(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }

    /// Messages from `earlier` to this number; wraps if `earlier` is later (SDP-CRED-03).
    pub(crate) const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The number of the message with this count, where `first` is the number of message 1. Count
    /// 0 gives the number before the first.
    pub(crate) const fn of_count(first: Self, count: u64) -> Self {
        let [a, b, c, d, _, _, _, _] = count.to_le_bytes();
        first.plus(u32::from_le_bytes([a, b, c, d])).minus(1)
    }

    /// The count that has this number and lies nearest to `near`, where `first` is the number of
    /// message 1. `None` if that count is negative.
    pub(crate) fn count(self, first: Self, near: u64) -> Option<u64> {
        let ahead = self.since(Self::of_count(first, near));
        if ahead < HALF {
            near.checked_add(u64::from(ahead))
        } else {
            near.checked_sub(u64::from(ahead.wrapping_neg()))
        }
    }
}

/// Half of all numbers: from here on a difference counts as negative (SDP-MT-53, AMB-29).
const HALF: u32 = 1 << 31;

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_serial))]
mod tests {
    use super::*;

    // SDP-GEN-11, SDP-BSDH-20.
    #[test]
    fn number_after_the_largest_is_zero() {
        assert_eq!(Serial::new(u32::MAX).plus(1), Serial::new(0));
        assert_eq!(Serial::new(0).minus(1), Serial::new(u32::MAX));
        assert_eq!(Serial::new(2).since(Serial::new(u32::MAX)), 3);
    }

    // SDP-CRED-02, SDP-CRED-03, TST-047.
    #[test]
    fn count_near_a_wrap_is_found_on_both_sides() {
        for first in [0, 1, 7, u32::MAX - 1] {
            let first = Serial::new(first);
            for near in [5_u64, u64::from(u32::MAX), (3 << 32) + 2] {
                for count in near - 5..near + 6 {
                    let serial = Serial::of_count(first, count);
                    assert_eq!(serial.count(first, near), Some(count));
                }
            }
        }
    }

    #[test]
    fn count_before_the_start_is_none() {
        let first = Serial::new(1);
        assert_eq!(Serial::new(u32::MAX).count(first, 3), None);
        assert_eq!(Serial::new(0).count(first, 3), Some(0));
    }
}
