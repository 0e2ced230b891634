// SPDX-License-Identifier: GPL-2.0

//! Classes of sizes, by which calls are counted.

/// Number of classes: up to 8 KiB, each the double of the one before, the last without an end.
pub(crate) const CLASSES: usize = 9;

/// The class of a size, from 0; `None` for no size at all.
pub(crate) fn class_of(size: u64) -> Option<usize> {
    let rest = size.checked_sub(1)? >> 13;
    let class = u64::BITS.saturating_sub(rest.leading_zeros());
    Some(usize::try_from(class).unwrap_or(CLASSES).min(CLASSES - 1))
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_stream_sizes))]
mod tests {
    use super::*;

    #[test]
    fn class_ends_with_its_power_of_two() {
        assert_eq!(class_of(0), None);
        let cases = [
            (1, 0),
            (8192, 0),
            (8193, 1),
            (16384, 1),
            (1 << 20, 7),
            ((1 << 20) + 1, 8),
            (u64::MAX, 8),
        ];
        for (size, class) in cases {
            assert_eq!(class_of(size), Some(class));
        }
    }
}
