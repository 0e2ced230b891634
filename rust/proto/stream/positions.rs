// SPDX-License-Identifier: GPL-2.0

//! Positions of a byte stream, and the parts of a buffer that its bytes lie in.
//!
//! A position is the number of bytes since the start of the connection and never wraps.

/// A part of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Offset of the first byte in the buffer.
    pub(crate) off: u32,
    /// Number of bytes.
    pub(crate) len: u32,
}

/// Bytes from one position to another; 0 if the second lies before the first.
pub(crate) fn distance(from: u64, to: u64) -> u32 {
    u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX)
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_stream_positions))]
mod tests {
    use super::*;

    #[test]
    fn distances_do_not_wrap() {
        assert_eq!(distance(5, 3), 0);
        assert_eq!(distance(3, 5), 2);
        assert_eq!(distance(0, u64::MAX), u32::MAX);
    }
}
