// SPDX-License-Identifier: GPL-2.0

//! Numbers and addresses that appear in the messages of SMC-R, RFC 7609, appendix A.
//!
//! Each type knows its octets in network byte order, so no message file repeats a byte order.

use crate::proto::base::verbs::{
    Mac,
    RKey, //
};
use core::num::NonZeroU8;

/// "SMCR" in EBCDIC: identifies the TCP option (TCP-03) and encloses every CLC message (CLC-02).
pub(crate) const EYE_CATCHER: [u8; 4] = [0xe2, 0xd4, 0xc3, 0xd9];

/// Identifies a connection to the side that chose it; the peer echoes it in CDC messages (CLC-208).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AlertToken(u32);

impl AlertToken {
    /// Makes one of a number.
    pub(crate) const fn new(value: u32) -> Self {
        Self(value)
    }

    /// The number.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// Number of a link in its link group, assigned by the server (LLC-108).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkNum(u8);

impl LinkNum {
    /// Makes one of a number; 0 is never assigned but occurs in messages about all links.
    pub(crate) const fn new(value: u8) -> Self {
        Self(value)
    }

    /// The number.
    pub(crate) const fn get(self) -> u8 {
        self.0
    }
}

/// Identifies one instance of a TCP/IP stack: an instance number and the address of one of its
/// RDMA ports (CLC-12, CLC-20, CLC-21).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerId([u8; 8]);

impl PeerId {
    /// Makes one of its octets.
    pub(crate) const fn new(octets: [u8; 8]) -> Self {
        Self(octets)
    }

    /// Makes one of its two parts.
    pub(crate) const fn from_parts(instance: u16, mac: Mac) -> Self {
        let [i, j] = instance.to_be_bytes();
        let [a, b, c, d, e, f] = mac.get();
        Self([i, j, a, b, c, d, e, f])
    }

    /// The octets.
    pub(crate) const fn get(self) -> [u8; 8] {
        self.0
    }
}

/// Index of an element inside a remote memory buffer, 1 to 255 (CLC-207).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RmbeIndex(NonZeroU8);

impl RmbeIndex {
    /// Makes an index; `None` for 0, which no element has.
    pub(crate) const fn new(value: u8) -> Option<Self> {
        match NonZeroU8::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The index, counted from 1.
    pub(crate) const fn get(self) -> u8 {
        self.0.get()
    }
}

/// What a peer needs to write to a remote memory buffer on one link: key and address of its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RToken {
    /// Key on that link.
    pub(crate) rkey: RKey,
    /// Address of the start of the buffer on that link.
    pub(crate) vaddr: u64,
}

impl RToken {
    /// Address of an element of the buffer: elements lie one behind the other, counted from 1
    /// (AMB-19, RMB-09).
    ///
    /// `None` if it lies beyond the end of the address space, which no valid buffer does.
    pub(crate) fn element_addr(&self, index: RmbeIndex, size: BufSize) -> Option<u64> {
        let before = u64::from(index.get()).checked_sub(1)?;
        let skip = before.checked_mul(u64::from(size.bytes()))?;
        let start = self.vaddr.checked_add(skip)?;
        start.checked_add(u64::from(size.bytes())).map(|_| start)
    }
}

/// Size of an element of a remote memory buffer, as a power of two from 16 KiB (CLC-209).
///
/// Elements of a peer that runs Linux may be larger than any of RFC 7609, and larger than ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BufSize(u8);

impl BufSize {
    /// The smallest element, 16 KiB.
    pub(crate) const MIN: Self = Self(0);
    /// The largest element RFC 7609 knows, 512 KiB.
    pub(crate) const RFC_MAX: Self = Self(5);
    /// The largest element of ours, 4 MiB: the largest block of contiguous memory.
    pub(crate) const MAX: Self = Self(8);

    /// Reads a code of 4 bits; `None` for what is none. Codes above that of [`Self::RFC_MAX`] are not those
    /// of the RFC: Linux has elements of up to 512 MiB in every version (DEP-5).
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        if code <= 15 {
            Some(Self(code))
        } else {
            None
        }
    }

    /// The smallest size that holds `bytes`, or the largest there is.
    pub(crate) const fn for_bytes(bytes: u32) -> Self {
        let mut size = Self::MIN;
        while size.0 < Self::MAX.0 && size.bytes() < bytes {
            // Cannot overflow: smaller than `MAX`.
            size.0 = size.0.saturating_add(1);
        }
        size
    }

    /// The size to take where memory or a device does not allow this one. `None` for the sizes of the RFC,
    /// for which there is no substitute.
    pub(crate) fn smaller(self) -> Option<Self> {
        (self > Self::RFC_MAX).then_some(Self(self.0.saturating_sub(1)))
    }

    /// The code on the wire.
    pub(crate) const fn code(self) -> u8 {
        self.0
    }

    /// The size in bytes.
    pub(crate) const fn bytes(self) -> u32 {
        // Cannot lose bits: the code is at most 15.
        (16 << 10) << self.0
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_wire))]
mod tests {
    use super::*;

    // RMB-02.
    #[test]
    fn index_zero_is_no_element() {
        assert!(RmbeIndex::new(0).is_none());
        assert_eq!(RmbeIndex::new(255).map(RmbeIndex::get), Some(255));
    }

    // RMB-11, CLC-209.
    #[test]
    fn buffer_sizes_double_from_16_kib() {
        assert_eq!(BufSize::MIN.bytes(), 16 * 1024);
        assert_eq!(BufSize::RFC_MAX.bytes(), 512 * 1024);
        assert_eq!(BufSize::MAX.bytes(), 4 << 20);
        assert_eq!(BufSize::from_code(2).map(BufSize::bytes), Some(64 * 1024));
        assert_eq!(BufSize::from_code(6).map(BufSize::bytes), Some(1 << 20));
        assert_eq!(BufSize::from_code(15).map(BufSize::bytes), Some(512 << 20));
        for code in 16..=u8::MAX {
            assert!(BufSize::from_code(code).is_none());
        }
    }

    // RMB-11, WIN-12.
    #[test]
    fn buffer_size_is_rounded_up() {
        assert_eq!(BufSize::for_bytes(0), BufSize::MIN);
        assert_eq!(BufSize::for_bytes(16 * 1024).code(), 0);
        assert_eq!(BufSize::for_bytes(16 * 1024 + 1).code(), 1);
        assert_eq!(BufSize::for_bytes(u32::MAX), BufSize::MAX);
    }

    #[test]
    fn size_beyond_the_rfc_shrinks_to_the_largest_of_the_rfc() {
        let smaller = |size: BufSize| size.smaller().map(BufSize::bytes);
        assert_eq!(smaller(BufSize::MAX), Some(2 << 20));
        assert_eq!(smaller(BufSize::for_bytes(1 << 20)), Some(512 << 10));
        assert_eq!(smaller(BufSize::RFC_MAX), None);
        assert_eq!(smaller(BufSize::MIN), None);
    }

    // CLC-20, CLC-21, CLC-13, CLC-14.
    #[test]
    fn peer_id_is_instance_and_mac() {
        let id = PeerId::from_parts(0x1234, Mac::new([2, 0, 0, 0, 11, 1]));
        assert_eq!(id.get(), [0x12, 0x34, 2, 0, 0, 0, 11, 1]);
    }
}
