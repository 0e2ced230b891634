// SPDX-License-Identifier: GPL-2.0

//! Packet sequence numbers (PSNs): 24 bits, compared within half of their circle (RNIC-PSN-01).

use crate::proto::base::verbs::Psn;

impl Psn {
    /// Half of the circle: distances below are forward, the rest is backward (RNIC-PSN-01).
    pub(crate) const HALF: u32 = 0x0080_0000;

    /// The number `count` packets later.
    pub(crate) const fn after(self, count: u32) -> Self {
        Self::new(self.get().wrapping_add(count))
    }

    /// The number before this one.
    pub(crate) const fn previous(self) -> Self {
        self.after(u32::MAX)
    }

    /// The signed distance from `base`, from -2^23 to 2^23 - 1.
    pub(crate) const fn distance(self, base: Self) -> i32 {
        // The sign of the 24-bit difference becomes the sign of the word.
        let shifted = self.get().wrapping_sub(base.get()) << 8;
        i32::from_ne_bytes(shifted.to_ne_bytes()) >> 8
    }
}

/// A PSN together with the number of times the sequence wrapped.
///
/// The requester counts in these, so that comparison and subtraction need no circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExtPsn(u64);

impl ExtPsn {
    /// The first number of a queue pair. It has room below for the duplicates of a peer.
    pub(crate) const fn start(psn: Psn) -> Self {
        let [a, b, c] = psn.octets();
        Self(u64::from_be_bytes([0, 0, 0, 0, 1, a, b, c]))
    }

    /// The 24 bits that packets carry.
    pub(crate) const fn psn(self) -> Psn {
        let [_, _, _, _, _, a, b, c] = self.0.to_be_bytes();
        Psn::from_octets([a, b, c])
    }

    /// The number `count` packets later.
    pub(crate) fn after(self, count: u32) -> Self {
        Self(self.0.wrapping_add(u64::from(count)))
    }

    /// The number with the bits of `psn` that is nearest to this one.
    pub(crate) fn nearest(self, psn: Psn) -> Self {
        Self(
            self.0
                .wrapping_add_signed(i64::from(psn.distance(self.psn()))),
        )
    }

    /// Packets since `earlier`; 0 if that is later. More than `u32::MAX` do not occur.
    pub(crate) fn since(self, earlier: Self) -> u32 {
        u32::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(u32::MAX)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_psn))]
mod tests {
    use super::*;

    /// RNIC-PSN-01: all distances, around the wrap and around the middle.
    #[test]
    fn distance_at_every_offset_is_signed_difference() {
        for base in [0, 1, 0x7f_ffff, 0x80_0000, 0xff_fffe, 0xff_ffff] {
            let from = Psn::new(base);
            for offset in 0..=0xff_ffff_u32 {
                let to = from.after(offset);
                let expected = if offset < Psn::HALF {
                    i64::from(offset)
                } else {
                    i64::from(offset) - 0x100_0000
                };
                assert_eq!(i64::from(to.distance(from)), expected);
            }
        }
    }

    #[test]
    fn last_number_is_followed_by_zero() {
        assert_eq!(Psn::new(0xff_ffff).after(1), Psn::new(0));
        assert_eq!(Psn::new(0).previous(), Psn::new(0xff_ffff));
        assert_eq!(Psn::new(5).after(0x100_0000), Psn::new(5));
    }

    /// RNIC-PSN-01.
    #[test]
    fn extended_number_across_wrap_keeps_order() {
        let base = ExtPsn::start(Psn::new(0xff_fff0));
        assert_eq!(base.psn(), Psn::new(0xff_fff0));
        let wrapped = base.after(0x20);
        assert_eq!(wrapped.psn(), Psn::new(0x10));
        assert!(wrapped > base);
        assert_eq!(wrapped.since(base), 0x20);
        assert_eq!(base.since(wrapped), 0);
        assert_eq!(base.nearest(Psn::new(0x10)), wrapped);
        assert_eq!(wrapped.nearest(Psn::new(0xff_fff0)), base);
        let first = ExtPsn::start(Psn::new(0));
        let before = first.nearest(Psn::new(0xff_ffff));
        assert!(before < first);
        assert_eq!(before.psn(), Psn::new(0xff_ffff));
    }
}
