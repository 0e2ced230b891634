// SPDX-License-Identifier: GPL-2.0

//! CLC Proposal: the client's peer ID and addresses, and the versions of SMC-R that it offers, RFC
//! 7609, appendix A.2.2.
//!
//! ```text
//!   octet 16  GID, MAC of the client's port
//!         38  offset of the networks, from octet 40 on
//!         40  what SMC-D needs; at octet 50 the offset of the extension, from octet 52 on
//!         80  networks: if version 1 is offered
//!             extension.rs: if version 2 is offered
//! ```
//!
//! A Proposal of version 1 has its networks at octet 40 and nothing behind them. One of version 2
//! says in octet 7 which transports it offers as version 1 and as version 2, and may offer SMC-D
//! too, which is skipped.

use super::{
    error::{
        ClcError,
        ProtocolError,
        Reserved, //
    },
    extension::Extension,
    header::{
        self,
        ClcHeader,
        ClcKind, //
    },
    networks::Networks,
    terms::Version, //
};
use crate::proto::{
    base::verbs::{
        Gid,
        Mac, //
    },
    smc::wire::PeerId, //
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

/// Octets 16 to 39 (CLC-102 to CLC-104).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    gid: [u8; 16],
    mac: [u8; 6],
    offset: U16,
}

/// Octets 40 to 79 from version 2 on.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSmcd {
    ism_gid: [u8; 8],
    ism_chid: [u8; 2],
    extension: U16,
    vendor: [u8; 8],
    reserved: [u8; 20],
}

/// Octets of [`RawSmcd`] in front of those that its offset counts.
const EXTENSION_BASE: usize = 12;

/// The client's offer of SMC-R. It commits nothing (CLC-123).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// The client's stack. Zero if it offers version 2 only: deployed peers leave it out then.
    pub(crate) peer: PeerId,
    /// GID of the RDMA port the client suggests (CLC-102); zero where the stack is.
    pub(crate) gid: Gid,
    /// Ethernet address of that port (CLC-103); zero where the stack is.
    pub(crate) mac: Mac,
    /// Networks of the client (CLC-106 to CLC-113), if it offers version 1.
    pub(crate) v1: Option<Networks>,
    /// Its offer of version 2.
    pub(crate) v2: Option<Extension>,
}

impl Proposal {
    /// Reads the message from its parts.
    ///
    /// Proposals of versions beyond the second are read as if they were of that (AMB-03).
    pub(super) fn parse(header: &ClcHeader, body: &[u8]) -> Result<Self, ClcError> {
        let (raw, rest) = Raw::ref_from_prefix(body).map_err(|_| ProtocolError::Size)?;
        let is_first = header.version == header::VERSION;
        let v1 = if is_first || header.transport.has_r() {
            let offset = ProtocolError::Offset(raw.offset.get());
            let area = rest.get(usize::from(raw.offset.get())..).ok_or(offset)?;
            let (networks, behind) = Networks::parse(area).map_err(|error| match error {
                // Not even the start of the networks is in the message.
                ProtocolError::Size if area.len() < Networks::LEAST => offset,
                other => other,
            })?;
            if is_first && !behind.is_empty() {
                return Err(ProtocolError::Size.into());
            }
            Some(networks)
        } else {
            None
        };
        let v2 = if !is_first && header.transport_2.has_r() {
            Self::extension(rest)?
        } else {
            None
        };
        match (v1, v2) {
            (None, None) if header.transport_2.has_r() => Err(Reserved::Extension.into()),
            (None, None) => {
                let transports = (header.transport_2.bits() << 2) | header.transport.bits();
                Err(Reserved::Transport(transports).into())
            }
            (v1, v2) => Ok(Self {
                peer: header.peer,
                gid: Gid::new(raw.gid),
                mac: Mac::new(raw.mac),
                v1,
                v2,
            }),
        }
    }

    /// Finds and reads the offer of version 2; `None` if the message has none.
    fn extension(rest: &[u8]) -> Result<Option<Extension>, ProtocolError> {
        let (raw, _) = RawSmcd::ref_from_prefix(rest).map_err(|_| ProtocolError::Size)?;
        let offset = raw.extension.get();
        if offset == 0 {
            return Ok(None);
        }
        let area = EXTENSION_BASE
            .checked_add(usize::from(offset))
            .and_then(|start| rest.get(start..))
            .ok_or(ProtocolError::Offset(offset))?;
        Extension::parse(area).map(Some)
    }

    /// Writes the message; gives its length, or `None` if `buf` is too short or there is no offer.
    ///
    /// Without an offer of version 2 this is a message of version 1, as every peer knows it.
    pub(crate) fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        let networks = match &self.v1 {
            Some(networks) => networks.len()?,
            None => 0,
        };
        let smcd = size_of::<RawSmcd>();
        let (flags, offset, body_len) = match (&self.v1, &self.v2) {
            (None, None) => return None,
            (Some(_), None) => {
                let len = size_of::<Raw>().checked_add(networks)?;
                (header::flags(Version::V1, false), 0, len)
            }
            (v1, Some(extension)) => {
                let len = size_of::<Raw>()
                    .checked_add(smcd)?
                    .checked_add(networks)?
                    .checked_add(extension.len()?)?;
                let offset = if v1.is_some() { smcd } else { 0 };
                (header::proposal_flags(v1.is_some()), offset, len)
            }
        };
        let (body, len) = header::seal(buf, ClcKind::Proposal, flags, self.peer, body_len)?;
        let raw = Raw {
            gid: self.gid.get(),
            mac: self.mac.get(),
            offset: u16::try_from(offset).ok()?.into(),
        };
        raw.write_to_prefix(body).ok()?;
        let mut rest = body.get_mut(size_of::<Raw>()..)?;
        if self.v2.is_some() {
            let behind = smcd.checked_sub(EXTENSION_BASE)?.checked_add(networks)?;
            let raw = RawSmcd {
                ism_gid: [0; 8],
                ism_chid: [0; 2],
                extension: u16::try_from(behind).ok()?.into(),
                vendor: [0; 8],
                reserved: [0; 20],
            };
            raw.write_to_prefix(rest).ok()?;
            rest = rest.get_mut(smcd..)?;
        }
        if let Some(networks) = &self.v1 {
            rest = networks.emit(rest)?;
        }
        if let Some(extension) = &self.v2 {
            extension.emit(rest)?;
        }
        Some(len)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_proposal))]
mod tests {
    use super::*;
    use crate::proto::smc::clc::{
        ClcMessage,
        Eid,
        EidList,
        Prefix4,
        Prefix6,
        Prefix6List, //
    };

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
            v1: Some(networks),
            v2: None,
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
        let message = ClcMessage::Proposal(proposal(Networks::V4(prefix)));
        assert_eq!(ClcMessage::parse(&IPV4), Ok(message));
        let mut buf = [0; 52];
        assert_eq!(message.emit(&mut buf), Some(52));
        assert_eq!(buf, IPV4);
        Ok(())
    }

    // VEC-03, CLC-106, CLC-107, CLC-109..113, CLC-120, TCP-21, TST-029.
    #[test]
    fn ipv6_vector_is_read_and_written() -> Result<(), &'static str> {
        let list = Prefix6List::new(prefix6(7).ok_or("prefix")?);
        let message = ClcMessage::Proposal(proposal(Networks::V6(list)));
        assert_eq!(ClcMessage::parse(&IPV6), Ok(message));
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
            let message = ClcMessage::Proposal(proposal(Networks::V6(list)));
            let mut buf = [0; 188];
            let len = message.emit(&mut buf).ok_or("no room")?;
            assert_eq!(len, 52 + 17 * (usize::from(n) - 1));
            assert_eq!(ClcMessage::parse(&buf[..len]), Ok(message));
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
        assert_eq!(ClcMessage::parse(&octets), error);
    }

    // CLC-120, CLC-06, CLC-32.
    #[test]
    fn prefix_count_must_match_the_length() {
        let mut octets = IPV6;
        octets[47] = 2;
        assert_eq!(ClcMessage::parse(&octets), Err(ProtocolError::Size.into()));
        octets[47] = 0;
        assert_eq!(ClcMessage::parse(&octets), Err(ProtocolError::Size.into()));
    }

    // CLC-107, CLC-113, CLC-06.
    #[test]
    fn impossible_prefix_lengths_are_rejected() {
        let mut octets = IPV4;
        octets[44] = 33;
        let error = Err(ProtocolError::PrefixLength(33).into());
        assert_eq!(ClcMessage::parse(&octets), error);
        let mut octets = IPV6;
        octets[64] = 129;
        let error = Err(ProtocolError::PrefixLength(129).into());
        assert_eq!(ClcMessage::parse(&octets), error);
    }

    // CLC-104, CLC-105, CLC-121, TST-030.
    #[test]
    fn networks_are_found_by_the_offset() {
        for skip in 0..=40 {
            let (buf, len) = extended(0x10, skip, 0);
            assert_eq!(ClcMessage::parse(&buf[..len]), ClcMessage::parse(&IPV4));
        }
    }

    // CLC-104, CLC-06, TST-030.
    #[test]
    fn offset_out_of_the_message_is_rejected() {
        for offset in [1, 8, 9, 0xff] {
            let mut octets = IPV4;
            octets[39] = offset;
            let error = Err(ProtocolError::Offset(u16::from(offset)).into());
            assert_eq!(ClcMessage::parse(&octets), error);
        }
        let mut octets = IPV4;
        octets[38] = 0xff;
        let error = Err(ProtocolError::Offset(0xff00).into());
        assert_eq!(ClcMessage::parse(&octets), error);
    }

    // GEN-11, CLC-33, AMB-03.
    #[test]
    fn later_versions_are_read_as_the_first() {
        for flags in [0x24, 0x27, 0x28, 0x2b, 0xf8] {
            let (buf, len) = extended(flags, 40, 30);
            assert_eq!(ClcMessage::parse(&buf[..len]), ClcMessage::parse(&IPV4));
        }
        // Nothing may follow in version 1.
        let (buf, len) = extended(0x10, 40, 30);
        assert_eq!(
            ClcMessage::parse(&buf[..len]),
            Err(ProtocolError::Size.into())
        );
    }

    #[test]
    fn offer_without_smc_r_is_declined() {
        for (flags, transport) in [(0x25, 5), (0x26, 6), (0x2a, 10), (0x39, 9)] {
            let (buf, len) = extended(flags, 40, 30);
            let error = Err(Reserved::Transport(transport).into());
            assert_eq!(ClcMessage::parse(&buf[..len]), error);
        }
    }

    // GEN-09, CLC-34, CLC-35, CLC-108, TST-029.
    #[test]
    fn reserved_bits_are_ignored() {
        let mut octets = IPV4;
        octets[7] |= 0x0f;
        octets[45] = 0xff;
        octets[46] = 0xff;
        assert_eq!(ClcMessage::parse(&octets), ClcMessage::parse(&IPV4));
    }

    /// A Proposal of version 2 as Linux writes it without SMC-D: of version 2 only, or of both.
    fn version_2(v1: bool, eids: u8) -> ([u8; 400], usize) {
        let mut octets = [0; 400];
        octets[..40].copy_from_slice(&IPV4[..40]);
        octets[7] = if v1 { 0x20 } else { 0x22 };
        let mut at = 80_usize;
        if v1 {
            octets[39] = 40;
            octets[80..88].copy_from_slice(&IPV4[40..48]);
            at = 88;
        }
        octets[51] = at.to_be_bytes()[7] - 52;
        octets[at] = eids;
        octets[at + 3] = 0x10;
        octets[at + 8 + 15] = 77;
        octets[at + 24] = 255;
        octets[at + 25] = 2;
        octets[at + 27] = 3;
        at += 40;
        for n in 0..eids {
            octets[at..at + 32].fill(b' ');
            octets[at] = b'A' + n;
            at += 32;
        }
        octets[at..at + 4].copy_from_slice(&IPV4[48..]);
        let [.., high, low] = (at + 4).to_be_bytes();
        octets[5] = high;
        octets[6] = low;
        (octets, at + 4)
    }

    /// What `version_2` means.
    fn meant(v1: bool, eids: u8) -> Option<Proposal> {
        let prefix = Prefix4::new([192, 168, 7, 1], 24)?;
        let mut list = EidList::EMPTY;
        for n in 0..eids {
            list.push(Eid::new(&[b'A' + n])?).ok()?;
        }
        let mut gid = [0; 16];
        gid[15] = 77;
        let mut proposal = proposal(Networks::V4(prefix));
        if !v1 {
            proposal.v1 = None;
        }
        proposal.v2 = Some(Extension {
            gid: Gid::new(gid),
            release: 1,
            max_conns: 255,
            max_links: 2,
            features: 3,
            eids: list,
        });
        Some(proposal)
    }

    #[test]
    fn version_2_is_read_and_written() -> Result<(), &'static str> {
        for (v1, eids) in [(false, 0), (false, 1), (true, 1), (true, 8), (false, 8)] {
            let (octets, len) = version_2(v1, eids);
            let message = ClcMessage::Proposal(meant(v1, eids).ok_or("value")?);
            assert_eq!(ClcMessage::parse(&octets[..len]), Ok(message));
            let mut buf = [0xff; 400];
            assert_eq!(message.emit(&mut buf), Some(len));
            assert_eq!(buf[..len], octets[..len]);
            assert!(message.emit(&mut buf[..len - 1]).is_none());
        }
        Ok(())
    }

    #[test]
    fn smc_d_part_is_skipped() -> Result<(), &'static str> {
        let (mut octets, len) = version_2(true, 2);
        // Both transports in both versions, and 58 octets more: an identifier and a GID.
        octets[7] = 0x2f;
        octets[40..52].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 36]);
        octets[89] = 1;
        octets[91] |= 1;
        octets[95] = 96;
        octets[len - 4..len + 54].fill(0x55);
        octets[len + 54..len + 58].copy_from_slice(&IPV4[48..]);
        let [.., high, low] = (len + 58).to_be_bytes();
        octets[5] = high;
        octets[6] = low;
        let message = ClcMessage::Proposal(meant(true, 2).ok_or("value")?);
        assert_eq!(ClcMessage::parse(&octets[..len + 58]), Ok(message));
        Ok(())
    }

    #[test]
    fn extension_out_of_the_message_is_rejected() {
        let (mut octets, len) = version_2(false, 1);
        octets[50] = 0xff;
        let error = Err(ProtocolError::Offset(0xff1c).into());
        assert_eq!(ClcMessage::parse(&octets[..len]), error);
        // The last octets of the message are no extension.
        octets[50] = 0;
        octets[51] = 72;
        let error = Err(ProtocolError::Size.into());
        assert_eq!(ClcMessage::parse(&octets[..len]), error);
    }

    #[test]
    fn missing_extension_is_declined() {
        let (mut octets, len) = version_2(false, 1);
        octets[51] = 0;
        let error = Err(Reserved::Extension.into());
        assert_eq!(ClcMessage::parse(&octets[..len]), error);
    }

    #[test]
    fn missing_extension_leaves_version_1() -> Result<(), &'static str> {
        let (mut octets, len) = version_2(true, 1);
        octets[51] = 0;
        let mut proposal = meant(true, 1).ok_or("value")?;
        proposal.v2 = None;
        let message = Ok(ClcMessage::Proposal(proposal));
        assert_eq!(ClcMessage::parse(&octets[..len]), message);
        Ok(())
    }

    #[test]
    fn nine_identifiers_are_rejected() {
        let (mut octets, len) = version_2(false, 8);
        octets[80] = 9;
        let error = Err(ProtocolError::Size.into());
        assert_eq!(ClcMessage::parse(&octets[..len]), error);
        // Room for it does not help.
        let mut long = [0; 432];
        long[..len - 4].copy_from_slice(&octets[..len - 4]);
        long[len + 28..len + 32].copy_from_slice(&IPV4[48..]);
        let [.., high, low] = (len + 32).to_be_bytes();
        long[5] = high;
        long[6] = low;
        let error = Err(ProtocolError::EidCount(9).into());
        assert_eq!(ClcMessage::parse(&long[..len + 32]), error);
    }
}
