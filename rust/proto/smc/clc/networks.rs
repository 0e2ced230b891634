// SPDX-License-Identifier: GPL-2.0

//! The networks a client says it is attached to, RFC 7609, appendix A.2.2: version 1 works within
//! one subnet only.

use super::error::ProtocolError;
use zerocopy::{
    FromBytes,
    IntoBytes, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Most IPv6 prefixes of a Proposal (CLC-109).
const MAX_PREFIXES: usize = 8;

/// What the offset leads to (CLC-106 to CLC-109).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawNetworks {
    net: [u8; 4],
    len: u8,
    reserved: [u8; 2],
    prefixes: u8,
}

/// One IPv6 prefix (CLC-112, CLC-113).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPrefix {
    addr: [u8; 16],
    len: u8,
}

impl RawPrefix {
    /// Reads it.
    fn read(&self) -> Result<Prefix6, ProtocolError> {
        Prefix6::new(self.addr, self.len).ok_or(ProtocolError::PrefixLength(self.len))
    }
}

/// An IPv4 subnet: network number and number of significant bits (AMB-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix4 {
    /// Network number.
    addr: [u8; 4],
    /// Number of significant bits.
    len: u8,
}

impl Prefix4 {
    /// The subnet of `addr` with `len` significant bits; `None` beyond 32.
    pub(crate) fn new(addr: [u8; 4], len: u8) -> Option<Self> {
        let host_bits = 32_u32.checked_sub(u32::from(len))?;
        let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
        let addr = (u32::from_be_bytes(addr) & mask).to_be_bytes();
        Some(Self { addr, len })
    }
}

/// An IPv6 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix6 {
    /// The significant bits, followed by zeros.
    addr: [u8; 16],
    /// Number of significant bits.
    len: u8,
}

impl Prefix6 {
    /// The prefix of all addresses; also fills unused places of a list.
    pub(super) const ANY: Self = Self {
        addr: [0; 16],
        len: 0,
    };

    /// The prefix of `addr` with `len` significant bits; `None` beyond 128.
    pub(crate) fn new(addr: [u8; 16], len: u8) -> Option<Self> {
        let host_bits = 128_u32.checked_sub(u32::from(len))?;
        let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
        let addr = (u128::from_be_bytes(addr) & mask).to_be_bytes();
        Some(Self { addr, len })
    }
}

/// One to eight IPv6 prefixes.
///
/// # Invariants
///
/// `count` is 1 to [`MAX_PREFIXES`]; places from `count` on are [`Prefix6::ANY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix6List {
    list: [Prefix6; MAX_PREFIXES],
    count: u8,
}

impl Prefix6List {
    /// Makes a list of one prefix.
    pub(crate) const fn new(first: Prefix6) -> Self {
        let mut list = [Prefix6::ANY; MAX_PREFIXES];
        let [place, ..] = &mut list;
        *place = first;
        // INVARIANT: One place is used.
        Self { list, count: 1 }
    }

    /// Adds a prefix, or gives it back if there are eight.
    pub(crate) fn push(&mut self, prefix: Prefix6) -> Result<(), Prefix6> {
        match self.list.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = prefix;
                // INVARIANT: `count` was less than the number of places.
                self.count = self.count.saturating_add(1);
                Ok(())
            }
            None => Err(prefix),
        }
    }

    /// The prefixes.
    pub(crate) fn as_slice(&self) -> &[Prefix6] {
        self.list.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

/// The networks the client is attached to on the interface it sends the Proposal from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Networks {
    /// The TCP connection uses IPv4.
    V4(Prefix4),
    /// The TCP connection uses IPv6.
    V6(Prefix6List),
}

impl Networks {
    /// Octets without any prefix of IPv6.
    pub(super) const LEAST: usize = size_of::<RawNetworks>();

    /// The network that all addresses of a host share with each other: the one of its loopback
    /// device. A connection of a host with itself is in no other, whichever addresses it uses.
    pub(crate) const fn of_host(v4: bool) -> Self {
        if v4 {
            return Self::V4(Prefix4 {
                addr: [127, 0, 0, 0],
                len: 8,
            });
        }
        Self::V6(Prefix6List::new(Prefix6 {
            addr: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            len: 128,
        }))
    }

    /// Whether a host on `self` and one on `other` share a link: the same IPv4 subnet, or at least
    /// one IPv6 prefix (CLC-126, CLC-127).
    pub(crate) fn shares_link_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::V4(one), Self::V4(two)) => one == two,
            (Self::V6(one), Self::V6(two)) => one
                .as_slice()
                .iter()
                .any(|prefix| two.as_slice().contains(prefix)),
            _ => false,
        }
    }

    /// Reads the octets at the start of `area`; gives also what follows them.
    pub(super) fn parse(area: &[u8]) -> Result<(Self, &[u8]), ProtocolError> {
        let (raw, rest) = RawNetworks::ref_from_prefix(area).map_err(|_| ProtocolError::Size)?;
        let count = usize::from(raw.prefixes);
        if count > MAX_PREFIXES {
            return Err(ProtocolError::PrefixCount(raw.prefixes));
        }
        let (prefixes, rest) = <[RawPrefix]>::ref_from_prefix_with_elems(rest, count)
            .map_err(|_| ProtocolError::Size)?;
        let networks = match prefixes {
            [] => Self::V4(
                Prefix4::new(raw.net, raw.len).ok_or(ProtocolError::PrefixLength(raw.len))?,
            ),
            [first, others @ ..] => {
                let mut list = Prefix6List::new(first.read()?);
                for other in others {
                    list.push(other.read()?)
                        .map_err(|_| ProtocolError::PrefixCount(raw.prefixes))?;
                }
                Self::V6(list)
            }
        };
        Ok((networks, rest))
    }

    /// The prefixes that follow the fixed octets.
    fn prefixes(&self) -> &[Prefix6] {
        match self {
            Self::V4(_) => &[],
            Self::V6(list) => list.as_slice(),
        }
    }

    /// How many octets there are.
    pub(super) fn len(&self) -> Option<usize> {
        let prefixes = self.prefixes().len().checked_mul(size_of::<RawPrefix>())?;
        size_of::<RawNetworks>().checked_add(prefixes)
    }

    /// Writes the octets to the start of `area`; gives the place behind them.
    pub(super) fn emit<'a>(&self, area: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let raw = match self {
            Self::V4(prefix) => RawNetworks {
                net: prefix.addr,
                len: prefix.len,
                reserved: [0; 2],
                prefixes: 0,
            },
            Self::V6(list) => RawNetworks {
                net: [0; 4],
                len: 0,
                reserved: [0; 2],
                prefixes: list.count,
            },
        };
        raw.write_to_prefix(area).ok()?;
        let mut rest = area.get_mut(size_of::<RawNetworks>()..)?;
        for prefix in self.prefixes() {
            let raw = RawPrefix {
                addr: prefix.addr,
                len: prefix.len,
            };
            let (place, behind) = rest.split_at_mut_checked(size_of::<RawPrefix>())?;
            raw.write_to(place).ok()?;
            rest = behind;
        }
        Some(rest)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_networks))]
mod tests {
    use super::*;

    /// Prefix 2001:db8:N::/64.
    fn prefix6(n: u8) -> Option<Prefix6> {
        let addr = [0x20, 1, 0x0d, 0xb8, 0, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 99];
        Prefix6::new(addr, 64)
    }

    // CLC-106, AMB-06.
    #[test]
    fn host_bits_do_not_count() -> Result<(), &'static str> {
        let one = Prefix4::new([10, 1, 2, 3], 8).ok_or("prefix")?;
        assert_eq!(one.addr, [10, 0, 0, 0]);
        assert_eq!(Prefix4::new([10, 9, 9, 9], 8), Some(one));
        assert_eq!(Prefix4::new([1; 4], 0).map(|p| p.addr), Some([0; 4]));
        assert_eq!(Prefix4::new([1; 4], 32).map(|p| p.addr), Some([1; 4]));
        assert_eq!(Prefix6::new([1; 16], 0).map(|p| p.addr), Some([0; 16]));
        assert_eq!(Prefix6::new([1; 16], 128).map(|p| p.addr), Some([1; 16]));
        Ok(())
    }

    #[test]
    fn network_of_a_host_is_that_of_its_loopback_addresses() -> Result<(), &'static str> {
        let one = Prefix4::new([127, 0, 0, 1], 8).map(Networks::V4);
        assert_eq!(one, Some(Networks::of_host(true)));
        let mut ip = [0; 16];
        ip[15] = 1;
        let six = Prefix6::new(ip, 128)
            .map(Prefix6List::new)
            .map(Networks::V6);
        assert_eq!(six, Some(Networks::of_host(false)));
        assert!(!Networks::of_host(true).shares_link_with(&Networks::of_host(false)));
        Ok(())
    }

    // CLC-126, CLC-127, TST-103.
    #[test]
    fn shared_links_are_found() -> Result<(), &'static str> {
        let net = |a, len| Prefix4::new([192, 168, a, 9], len).map(Networks::V4);
        let here = net(7, 24).ok_or("prefix")?;
        assert!(here.shares_link_with(&net(7, 24).ok_or("prefix")?));
        assert!(!here.shares_link_with(&net(7, 25).ok_or("prefix")?));
        assert!(!here.shares_link_with(&net(8, 24).ok_or("prefix")?));

        let mut list = Prefix6List::new(prefix6(1).ok_or("prefix")?);
        let one = Networks::V6(list);
        assert!(list.push(prefix6(2).ok_or("prefix")?).is_ok());
        let two = Networks::V6(list);
        let other = Networks::V6(Prefix6List::new(prefix6(2).ok_or("prefix")?));
        assert!(one.shares_link_with(&two));
        assert!(two.shares_link_with(&other));
        assert!(!one.shares_link_with(&other));
        assert!(!one.shares_link_with(&here));
        Ok(())
    }
}
