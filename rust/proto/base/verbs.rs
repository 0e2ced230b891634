// SPDX-License-Identifier: GPL-2.0

//! Numbers and addresses of RDMA verbs, which the messages of several protocols carry.
//!
//! Each type knows its octets in network byte order, so no message file repeats a byte order.

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
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_verbs))]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_24_bits_keep_their_octets() {
        assert_eq!(Qpn::from_octets([1, 2, 3]).get(), 0x01_0203);
        assert_eq!(Qpn::new(0xff01_0203).octets(), [1, 2, 3]);
        assert_eq!(Psn::new(u32::MAX).get(), Psn::MAX);
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
}
