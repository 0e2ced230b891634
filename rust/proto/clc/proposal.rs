// SPDX-License-Identifier: GPL-2.0

//! CLC Proposal: the client tells who and where it is, RFC 7609, appendix A.2.2.

use super::{
    error::{
        Error,
        ProtocolError,
        Reserved, //
    },
    header::{
        self,
        Header,
        Kind, //
    },
};
use crate::proto::wire::{
    Gid,
    Mac,
    PeerId, //
};
use zerocopy::{
    byteorder::network_endian::U16,
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

/// Octets 16 to 39 (CLC-102 to CLC-104).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    gid: [u8; 16],
    mac: [u8; 6],
    offset: U16,
}

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
    /// The subnet of `addr` with `len` significant bits; `None` if there are not so many.
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

    /// The prefix of `addr` with `len` significant bits; `None` if there are not so many.
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
}

/// The client's offer of SMC-R. It commits nothing (CLC-123).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// The client's stack.
    pub(crate) peer: PeerId,
    /// GID of the RDMA port the client suggests (CLC-102).
    pub(crate) gid: Gid,
    /// Ethernet address of that port (CLC-103).
    pub(crate) mac: Mac,
    /// Networks of the client (CLC-106 to CLC-113).
    pub(crate) networks: Networks,
}

impl Proposal {
    /// Reads the message from its parts.
    ///
    /// Proposals of later versions are read as if they were of version 1, skipping what was added
    /// (AMB-03), unless they say that they offer no SMC-R of version 1 (DEP-4).
    pub(super) fn parse(header: &Header, body: &[u8]) -> Result<Self, Error> {
        let first_version = header.version == header::VERSION;
        // 0 means SMC-R, 3 SMC-R and another one; version 1 reserves the bits.
        if !first_version && !matches!(header.transport, 0 | 3) {
            return Err(Reserved::Transport(header.transport).into());
        }
        let (raw, rest) = Raw::ref_from_prefix(body).map_err(|_| ProtocolError::Size)?;
        let area = rest
            .get(usize::from(raw.offset.get())..)
            .ok_or(ProtocolError::Offset(raw.offset.get()))?;
        let (networks, rest) = RawNetworks::ref_from_prefix(area)
            .map_err(|_| ProtocolError::Offset(raw.offset.get()))?;
        let (networks, rest) = read_networks(networks, rest)?;
        if first_version && !rest.is_empty() {
            return Err(ProtocolError::Size.into());
        }
        Ok(Self {
            peer: header.peer,
            gid: Gid::new(raw.gid),
            mac: Mac::new(raw.mac),
            networks,
        })
    }

    /// Writes the message; gives its length, or `None` if `buf` is too short.
    pub(crate) fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        let (raw, prefixes) = match &self.networks {
            Networks::V4(prefix) => {
                let raw = RawNetworks {
                    net: prefix.addr,
                    len: prefix.len,
                    reserved: [0; 2],
                    prefixes: 0,
                };
                (raw, &[][..])
            }
            Networks::V6(list) => {
                let raw = RawNetworks {
                    net: [0; 4],
                    len: 0,
                    reserved: [0; 2],
                    prefixes: list.count,
                };
                (raw, list.as_slice())
            }
        };
        let body_len = prefixes
            .len()
            .checked_mul(size_of::<RawPrefix>())?
            .checked_add(size_of::<Raw>())?
            .checked_add(size_of::<RawNetworks>())?;
        let (body, len) = header::seal(buf, Kind::Proposal, false, self.peer, body_len)?;
        let fixed = Raw {
            gid: self.gid.get(),
            mac: self.mac.get(),
            offset: U16::new(0),
        };
        fixed.write_to_prefix(body).ok()?;
        let body = body.get_mut(size_of::<Raw>()..)?;
        raw.write_to_prefix(body).ok()?;
        let body = body.get_mut(size_of::<RawNetworks>()..)?;
        for (place, prefix) in body.chunks_exact_mut(size_of::<RawPrefix>()).zip(prefixes) {
            let raw = RawPrefix {
                addr: prefix.addr,
                len: prefix.len,
            };
            raw.write_to(place).ok()?;
        }
        Some(len)
    }
}

/// Reads the networks; gives also what follows them.
fn read_networks<'a>(
    raw: &RawNetworks,
    rest: &'a [u8],
) -> Result<(Networks, &'a [u8]), ProtocolError> {
    let count = usize::from(raw.prefixes);
    if count > MAX_PREFIXES {
        return Err(ProtocolError::PrefixCount(raw.prefixes));
    }
    let (prefixes, rest) =
        <[RawPrefix]>::ref_from_prefix_with_elems(rest, count).map_err(|_| ProtocolError::Size)?;
    let networks = match prefixes {
        [] => Networks::V4(
            Prefix4::new(raw.net, raw.len).ok_or(ProtocolError::PrefixLength(raw.len))?,
        ),
        [first, others @ ..] => {
            let mut list = Prefix6List::new(first.read()?);
            for other in others {
                list.push(other.read()?)
                    .map_err(|_| ProtocolError::PrefixCount(raw.prefixes))?;
            }
            Networks::V6(list)
        }
    };
    Ok((networks, rest))
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_proposal))]
mod tests {
    use super::*;
    use crate::proto::clc::Message;

    /// SMCR-VEC-02.
    const IPV4: [u8; 52] = [
        0xe2, 0xd4, 0xc3, 0xd9, 1, 0, 0x34, 0x10, 0x12, 0x34, 2, 0, 0, 0, 0x0b, 1, 0xfe, 0x80, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0x0b, 1, 2, 0, 0, 0, 0x0b, 1, 0, 0, 0xc0, 0xa8, 7,
        0, 0x18, 0, 0, 0, 0xe2, 0xd4, 0xc3, 0xd9,
    ];
    /// SMCR-VEC-03.
    const IPV6: [u8; 69] = [
        0xe2, 0xd4, 0xc3, 0xd9, 1, 0, 0x45, 0x10, 0x12, 0x34, 2, 0, 0, 0, 0x0b, 1, 0xfe, 0x80, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0x0b, 1, 2, 0, 0, 0, 0x0b, 1, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 1, 0x20, 1, 0x0d, 0xb8, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0xe2, 0xd4, 0xc3,
        0xd9,
    ];

    /// The Proposal in front of its networks.
    fn proposal(networks: Networks) -> Proposal {
        Proposal {
            peer: PeerId::new([0x12, 0x34, 2, 0, 0, 0, 11, 1]),
            gid: Gid::new([
                0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0x0b, 1,
            ]),
            mac: Mac::new([2, 0, 0, 0, 11, 1]),
            networks,
        }
    }

    /// Prefix 2001:db8:N::/64.
    fn prefix6(n: u8) -> Option<Prefix6> {
        let addr = [0x20, 1, 0x0d, 0xb8, 0, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 99];
        Prefix6::new(addr, 64)
    }

    /// Octets of a Proposal whose networks begin `skip` octets later than in version 1 and are
    /// followed by `more` octets. The caller gives version and transport.
    fn extended(version_flags: u8, skip: usize, more: usize) -> ([u8; 128], usize) {
        let mut buf = [0xaa; 128];
        let len = IPV4.len() + skip + more;
        let (head, networks) = (&IPV4[..40], &IPV4[40..48]);
        buf[..40].copy_from_slice(head);
        buf[6] = len.to_be_bytes()[7];
        buf[7] = version_flags;
        buf[39] = skip.to_be_bytes()[7];
        buf[40 + skip..48 + skip].copy_from_slice(networks);
        buf[len - 4..len].copy_from_slice(&IPV4[48..]);
        (buf, len)
    }

    // VEC-02, CLC-101..109, CLC-111, CLC-120, CLC-36, CLC-20, CLC-21, TST-029.
    #[test]
    fn ipv4_vector_is_read_and_written() -> Result<(), &'static str> {
        let prefix = Prefix4::new([192, 168, 7, 1], 24).ok_or("prefix")?;
        let message = Message::Proposal(proposal(Networks::V4(prefix)));
        assert_eq!(Message::parse(&IPV4), Ok(message));
        let mut buf = [0; 52];
        assert_eq!(message.emit(&mut buf), Some(52));
        assert_eq!(buf, IPV4);
        Ok(())
    }

    // VEC-03, CLC-106, CLC-107, CLC-109..113, CLC-120, TCP-21, TST-029.
    #[test]
    fn ipv6_vector_is_read_and_written() -> Result<(), &'static str> {
        let list = Prefix6List::new(prefix6(7).ok_or("prefix")?);
        let message = Message::Proposal(proposal(Networks::V6(list)));
        assert_eq!(Message::parse(&IPV6), Ok(message));
        let mut buf = [0; 69];
        assert_eq!(message.emit(&mut buf), Some(69));
        assert_eq!(buf, IPV6);
        Ok(())
    }

    // CLC-109, CLC-110, CLC-120, CLC-32, TST-030.
    #[test]
    fn one_to_eight_prefixes_survive() -> Result<(), &'static str> {
        let mut list = Prefix6List::new(prefix6(1).ok_or("prefix")?);
        for n in 2..=9 {
            let message = Message::Proposal(proposal(Networks::V6(list)));
            let mut buf = [0; 188];
            let len = message.emit(&mut buf).ok_or("no room")?;
            assert_eq!(len, 52 + 17 * (usize::from(n) - 1));
            assert_eq!(Message::parse(&buf[..len]), Ok(message));
            assert!(message.emit(&mut buf[..len - 1]).is_none());
            let next = prefix6(n).ok_or("prefix")?;
            assert_eq!(list.push(next).is_ok(), n <= 8);
        }
        assert_eq!(list.as_slice().len(), 8);
        Ok(())
    }

    // CLC-109, CLC-06, TST-030.
    #[test]
    fn nine_prefixes_are_rejected() {
        let mut octets = IPV6;
        octets[47] = 9;
        let error = Err(ProtocolError::PrefixCount(9).into());
        assert_eq!(Message::parse(&octets), error);
    }

    // CLC-120, CLC-06, CLC-32.
    #[test]
    fn prefix_count_must_match_the_length() {
        let mut octets = IPV6;
        octets[47] = 2;
        assert_eq!(Message::parse(&octets), Err(ProtocolError::Size.into()));
        octets[47] = 0;
        assert_eq!(Message::parse(&octets), Err(ProtocolError::Size.into()));
    }

    // CLC-107, CLC-113, CLC-06.
    #[test]
    fn impossible_prefix_lengths_are_rejected() {
        let mut octets = IPV4;
        octets[44] = 33;
        let error = Err(ProtocolError::PrefixLength(33).into());
        assert_eq!(Message::parse(&octets), error);
        let mut octets = IPV6;
        octets[64] = 129;
        let error = Err(ProtocolError::PrefixLength(129).into());
        assert_eq!(Message::parse(&octets), error);
    }

    // CLC-104, CLC-105, CLC-121, TST-030.
    #[test]
    fn networks_are_found_by_the_offset() {
        for skip in 0..=40 {
            let (buf, len) = extended(0x10, skip, 0);
            assert_eq!(Message::parse(&buf[..len]), Message::parse(&IPV4));
        }
    }

    // CLC-104, CLC-06, TST-030.
    #[test]
    fn offset_out_of_the_message_is_rejected() {
        for offset in [1, 8, 9, 0xff] {
            let mut octets = IPV4;
            octets[39] = offset;
            let error = Err(ProtocolError::Offset(u16::from(offset)).into());
            assert_eq!(Message::parse(&octets), error);
        }
        let mut octets = IPV4;
        octets[38] = 0xff;
        let error = Err(ProtocolError::Offset(0xff00).into());
        assert_eq!(Message::parse(&octets), error);
    }

    // GEN-11, CLC-33, AMB-03.
    #[test]
    fn later_versions_are_read_as_the_first() {
        for flags in [0x20, 0x23, 0x2c, 0xf0] {
            let (buf, len) = extended(flags, 40, 30);
            assert_eq!(Message::parse(&buf[..len]), Message::parse(&IPV4));
        }
        // Nothing may follow in version 1.
        let (buf, len) = extended(0x10, 40, 30);
        assert_eq!(Message::parse(&buf[..len]), Err(ProtocolError::Size.into()));
    }

    #[test]
    fn offer_without_first_version_is_to_be_declined() {
        for (flags, transport) in [(0x21, 1), (0x22, 2), (0x2e, 2)] {
            let (buf, len) = extended(flags, 40, 30);
            let error = Err(Reserved::Transport(transport).into());
            assert_eq!(Message::parse(&buf[..len]), error);
        }
    }

    // GEN-09, CLC-34, CLC-35, CLC-108, TST-029.
    #[test]
    fn reserved_bits_are_ignored() {
        let mut octets = IPV4;
        octets[7] |= 0x0f;
        octets[45] = 0xff;
        octets[46] = 0xff;
        assert_eq!(Message::parse(&octets), Message::parse(&IPV4));
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
