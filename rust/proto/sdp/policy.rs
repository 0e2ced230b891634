// SPDX-License-Identifier: GPL-2.0

//! Choices that the protocol leaves open: thresholds, and when to change modes.

use super::msg::HalfMode;

/// Refusals in a row after which Pipelined Mode is of no use (SDP-MT-04, SDP-M30-7).
const LEAVE_PIPELINED: u32 = 8;
/// Refusals in a row after which adverts are of no use (SDP-M30-4).
const LEAVE_COMBINED: u32 = 32;

/// The mode to change to after a number of refusals in a row, if it is another.
pub(super) const fn after_refusals(mode: HalfMode, refusals: u32) -> Option<HalfMode> {
    match mode {
        HalfMode::Pipelined if refusals >= LEAVE_PIPELINED => Some(HalfMode::Combined),
        HalfMode::Combined if refusals >= LEAVE_COMBINED => Some(HalfMode::Buffered),
        _ => None,
    }
}

/// Whether a reader of this size in octets makes adverts worth their cost again, as the sink in
/// Buffered Mode decides (SDP-M31-3).
pub(super) const fn suits_combined(reader: u32, threshold: u32) -> bool {
    reader >= threshold.saturating_mul(4)
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_policy))]
mod tests {
    use super::*;

    // SDP-MT-04, SDP-M30-4, SDP-M30-7.
    #[test]
    fn mode_is_left_after_its_number_of_refusals() {
        for (mode, refusals, want) in [
            (HalfMode::Pipelined, 7, None),
            (HalfMode::Pipelined, 8, Some(HalfMode::Combined)),
            (HalfMode::Combined, 31, None),
            (HalfMode::Combined, 32, Some(HalfMode::Buffered)),
            (HalfMode::Buffered, u32::MAX, None),
        ] {
            assert_eq!(after_refusals(mode, refusals), want);
        }
    }

    #[test]
    fn large_reader_suits_combined_mode() {
        assert!(suits_combined(400, 100) && !suits_combined(399, 100));
        assert!(!suits_combined(u32::MAX - 1, u32::MAX));
    }
}
