// SPDX-License-Identifier: GPL-2.0

//! Numbers and addresses that appear in the messages of SMC-R, RFC 7609, appendix A.
//!
//! Each type knows its octets in network byte order, so no message file repeats a byte order.

use core::num::NonZeroU8;

/// "SMCR" in EBCDIC: identifies the TCP option (TCP-03) and encloses every CLC message (CLC-02).
pub(crate) const EYE_CATCHER: [u8; 4] = [0xe2, 0xd4, 0xc3, 0xd9];

/// Defines a number of 24 bits.
macro_rules! number24 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(u32);

        impl $name {
            /// The largest value.
            pub(crate) const MAX: u32 = 0x00ff_ffff;

            /// Makes one of the low 24 bits of `value`; higher bits are dropped.
            pub(crate) const fn new(value: u32) -> Self {
                Self(value & Self::MAX)
            }

            /// The value.
            pub(crate) const fn get(self) -> u32 {
                self.0
            }

            /// Reads one from its octets.
            pub(crate) const fn from_octets(octets: [u8; 3]) -> Self {
                let [a, b, c] = octets;
                Self(u32::from_be_bytes([0, a, b, c]))
            }

            /// The octets as sent.
            pub(crate) const fn octets(self) -> [u8; 3] {
                let [_, a, b, c] = self.0.to_be_bytes();
                [a, b, c]
            }
        }
    };
}

number24! {
    /// Queue pair number of a reliable connection (CLC-205).
    Qpn
}

number24! {
    /// Packet sequence number a queue pair starts to send with (CLC-214).
    Psn
}

/// Remote key of a registered memory region (CLC-206).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RKey(u32);

impl RKey {
    /// Makes a key of the number the device gave.
    pub(crate) const fn new(value: u32) -> Self {
        Self(value)
    }

    /// The number.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// Global identifier of an RDMA port, in the form of an IPv6 address (CLC-102).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gid([u8; 16]);

impl Gid {
    /// Makes one of its octets.
    pub(crate) const fn new(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// The octets.
    pub(crate) const fn get(self) -> [u8; 16] {
        self.0
    }
}

/// Ethernet address of an RDMA port (CLC-103).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mac([u8; 6]);

impl Mac {
    /// Makes one of its octets.
    pub(crate) const fn new(octets: [u8; 6]) -> Self {
        Self(octets)
    }

    /// The octets.
    pub(crate) const fn get(self) -> [u8; 6] {
        self.0
    }
}

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
        let [a, b, c, d, e, f] = mac.0;
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
/// Elements of ours are of the sizes of RFC 7609. Those of a peer that speaks version 2 may be
/// larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BufSize(u8);

impl BufSize {
    /// The smallest element, 16 KiB.
    pub(crate) const MIN: Self = Self(0);
    /// The largest element RFC 7609 knows, 512 KiB.
    pub(crate) const MAX: Self = Self(5);

    /// Reads a code; `None` for one of the values 6 to 15, which the RFC reserves.
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        if code <= Self::MAX.0 {
            Some(Self(code))
        } else {
            None
        }
    }

    /// Reads a code of version 2, where Linux has elements of up to 512 MiB (DEP-5); `None` for
    /// what is no code.
    pub(crate) const fn from_long_code(code: u8) -> Option<Self> {
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

/// Path MTU of a queue pair (CLC-210).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mtu {
    /// 256 bytes, code 1.
    M256,
    /// 512 bytes, code 2.
    M512,
    /// 1024 bytes, code 3.
    M1024,
    /// 2048 bytes, code 4.
    M2048,
    /// 4096 bytes, code 5.
    M4096,
}

impl Mtu {
    /// Reads a code; `None` for the reserved values 0 and from 6 on.
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::M256),
            2 => Some(Self::M512),
            3 => Some(Self::M1024),
            4 => Some(Self::M2048),
            5 => Some(Self::M4096),
            _ => None,
        }
    }

    /// The code on the wire, which is also the one of the verbs.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::M256 => 1,
            Self::M512 => 2,
            Self::M1024 => 3,
            Self::M2048 => 4,
            Self::M4096 => 5,
        }
    }

    /// The smaller of two, which is what both sides of a queue pair use (CLC-220).
    pub(crate) fn smaller(self, other: Self) -> Self {
        core::cmp::min(self, other)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_wire))]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_24_bits_keep_their_octets() {
        assert_eq!(Qpn::from_octets([1, 2, 3]).get(), 0x01_0203);
        assert_eq!(Qpn::new(0xff01_0203).octets(), [1, 2, 3]);
        assert_eq!(Psn::new(u32::MAX).get(), Psn::MAX);
    }

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
        assert_eq!(BufSize::MAX.bytes(), 512 * 1024);
        assert_eq!(BufSize::from_code(2).map(BufSize::bytes), Some(64 * 1024));
        for code in 6..=u8::MAX {
            assert!(BufSize::from_code(code).is_none());
        }
    }

    // RMB-11, WIN-12.
    #[test]
    fn buffer_size_is_rounded_up() {
        assert_eq!(
            BufSize::from_long_code(6).map(BufSize::bytes),
            Some(1 << 20)
        );
        assert_eq!(
            BufSize::from_long_code(15).map(BufSize::bytes),
            Some(512 << 20)
        );
        assert!(BufSize::from_long_code(16).is_none());
        assert_eq!(BufSize::for_bytes(0), BufSize::MIN);
        assert_eq!(BufSize::for_bytes(16 * 1024).code(), 0);
        assert_eq!(BufSize::for_bytes(16 * 1024 + 1).code(), 1);
        assert_eq!(BufSize::for_bytes(u32::MAX), BufSize::MAX);
    }

    // CLC-210.
    #[test]
    fn mtu_codes_are_those_of_the_rfc() {
        for code in 0..=u8::MAX {
            match Mtu::from_code(code) {
                Some(mtu) => assert_eq!(mtu.code(), code),
                None => assert!(code == 0 || code > 5),
            }
        }
        assert_eq!(Mtu::from_code(1), Some(Mtu::M256));
        assert_eq!(Mtu::from_code(5), Some(Mtu::M4096));
        assert_eq!(Mtu::M4096.smaller(Mtu::M1024), Mtu::M1024);
        assert_eq!(Mtu::M256.smaller(Mtu::M1024), Mtu::M256);
    }

    // CLC-20, CLC-21, CLC-13, CLC-14.
    #[test]
    fn peer_id_is_instance_and_mac() {
        let id = PeerId::from_parts(0x1234, Mac::new([2, 0, 0, 0, 11, 1]));
        assert_eq!(id.get(), [0x12, 0x34, 2, 0, 0, 0, 11, 1]);
    }
}
