// SPDX-License-Identifier: GPL-2.0

//! What all CLC messages have in common: 16 octets in front and an eye catcher at the end,
//! RFC 7609, appendix A.2.

use super::{
    error::{
        ClcError,
        ProtocolError, //
    },
    terms::Version, //
};
use crate::proto::smc::wire::{
    PeerId,
    EYE_CATCHER, //
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

/// The version of RFC 7609 (GEN-11).
pub(super) const VERSION: u8 = 1;

/// The version that IBM and Linux added.
pub(super) const VERSION_2: u8 = 2;

/// Octets of Accept and Confirm of version 2 that are no first contact.
const AGREEMENT_2: usize = 108;

/// Octets that tell how long a message is.
pub(super) const LEAD_LEN: usize = 8;

/// Most octets of a message that are accepted. Messages of version 1 have at most 188; later
/// versions append to the Proposal.
pub(super) const MAX_LEN: usize = 1024;

/// Flag of byte 7 that means first contact in an Accept and out of sync in a Decline (CLC-34).
const FLAG: u8 = 0x08;

/// Bits of byte 7 by which versions from 2 on name the transports offered as version 1 (DEP-4).
const TRANSPORT: u8 = 0x03;

/// Bits of byte 7 by which a Proposal names the transports offered as version 2.
const TRANSPORT_2: u8 = 0x0c;

/// The octets in front of every message (CLC-30 to CLC-36).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    lead: RawLead,
    peer: [u8; 8],
}

/// The octets that tell type and length.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawLead {
    eye_catcher: [u8; 4],
    kind: u8,
    len: U16,
    version_flags: u8,
}

/// Which message it is (CLC-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClcKind {
    /// Type 1.
    Proposal,
    /// Type 2.
    Accept,
    /// Type 3.
    Confirm,
    /// Type 4.
    Decline,
}

impl ClcKind {
    /// Reads the type octet.
    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Proposal),
            2 => Some(Self::Accept),
            3 => Some(Self::Confirm),
            4 => Some(Self::Decline),
            _ => None,
        }
    }

    /// The type octet.
    const fn code(self) -> u8 {
        match self {
            Self::Proposal => 1,
            Self::Accept => 2,
            Self::Confirm => 3,
            Self::Decline => 4,
        }
    }

    /// Whether a message of this type and `version` may have `len` octets. Later versions may be
    /// longer, and their Proposals may lack the area of subnets (AMB-03).
    const fn allows(self, version: u8, len: usize) -> bool {
        match (self, version) {
            (Self::Proposal, VERSION) => len >= 52,
            (Self::Accept | Self::Confirm, VERSION) => len == 68,
            (Self::Decline, VERSION) => len == 28,
            (Self::Proposal, _) => len >= 44,
            (Self::Accept | Self::Confirm, VERSION_2) => len >= AGREEMENT_2,
            (Self::Accept | Self::Confirm, _) => len >= 68,
            (Self::Decline, _) => len >= 28,
        }
    }
}

/// The meaning of the octets in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClcHeader {
    /// Which message it is.
    pub(super) kind: ClcKind,
    /// Version, not 0.
    pub(super) version: u8,
    /// First contact or out of sync, according to the type.
    pub(super) flag: bool,
    /// What a Proposal of a later version offers as version 1, or which transport an Accept or
    /// Confirm is about.
    pub(super) transport: Transport,
    /// What a Proposal offers as version 2.
    pub(super) transport_2: Transport,
    /// The sender.
    pub(super) peer: PeerId,
}

/// Transports, as versions from 2 on name them with two bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// SMC-R, 0.
    R,
    /// SMC-D, 1.
    D,
    /// None, 2.
    None,
    /// Both, 3.
    Both,
}

impl Transport {
    /// Reads the low two bits.
    const fn from_bits(bits: u8) -> Self {
        match bits & TRANSPORT {
            0 => Self::R,
            1 => Self::D,
            2 => Self::None,
            _ => Self::Both,
        }
    }

    /// The bits.
    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::R => 0,
            Self::D => 1,
            Self::None => 2,
            Self::Both => 3,
        }
    }

    /// Whether SMC-R is among them.
    pub(super) const fn has_r(self) -> bool {
        matches!(self, Self::R | Self::Both)
    }
}

impl RawLead {
    /// Validates the octets; gives type, version and length of the whole message.
    fn check(&self) -> Result<(ClcKind, u8, usize), ProtocolError> {
        if self.eye_catcher != EYE_CATCHER {
            return Err(ProtocolError::EyeCatcher);
        }
        let kind = ClcKind::from_code(self.kind).ok_or(ProtocolError::Type(self.kind))?;
        let version = self.version_flags >> 4;
        if version == 0 {
            return Err(ProtocolError::Version);
        }
        let len = usize::from(self.len.get());
        if len > MAX_LEN || !kind.allows(version, len) {
            return Err(ProtocolError::Length(self.len.get()));
        }
        Ok((kind, version, len))
    }
}

/// The length of the message whose first octets are `lead`.
///
/// Less than [`LEAD_LEN`] octets are checked as far as they go; `None` means that more are needed.
pub(super) fn announced_len(lead: &[u8]) -> Result<Option<usize>, ProtocolError> {
    if lead.iter().zip(EYE_CATCHER).any(|(got, want)| *got != want) {
        return Err(ProtocolError::EyeCatcher);
    }
    match RawLead::ref_from_prefix(lead) {
        Ok((raw, _)) => raw.check().map(|(_, _, len)| Some(len)),
        Err(_) => Ok(None),
    }
}

/// Takes a whole message apart into its header and the octets between header and trailer.
pub(super) fn open(message: &[u8]) -> Result<(ClcHeader, &[u8]), ClcError> {
    let (raw, rest) = Raw::ref_from_prefix(message).map_err(|_| ProtocolError::Size)?;
    let (kind, version, len) = raw.lead.check()?;
    if len != message.len() {
        return Err(ProtocolError::Size.into());
    }
    let body = rest
        .strip_suffix(&EYE_CATCHER)
        .ok_or(ProtocolError::Trailer)?;
    let header = ClcHeader {
        kind,
        version,
        flag: raw.lead.version_flags & FLAG != 0,
        transport: Transport::from_bits(raw.lead.version_flags),
        transport_2: Transport::from_bits((raw.lead.version_flags & TRANSPORT_2) >> 2),
        peer: PeerId::new(raw.peer),
    };
    Ok((header, body))
}

/// Octet 7 of a message whose flag is `flag`.
pub(super) const fn flags(version: Version, flag: bool) -> u8 {
    let code = match version {
        Version::V1 => VERSION,
        Version::V2 => VERSION_2,
    };
    (code << 4) | if flag { FLAG } else { 0 }
}

/// Octet 7 of a Proposal that offers SMC-R of version 2, and that of version 1 if `v1` is set.
pub(super) const fn proposal_flags(v1: bool) -> u8 {
    let first = if v1 { Transport::R } else { Transport::None };
    (VERSION_2 << 4) | (Transport::R.bits() << 2) | first.bits()
}

/// Writes header and trailer of a message with `body_len` octets between them; `version_flags` is
/// octet 7.
///
/// Gives the place of those octets and the length of the message; `None` if `buf` is too short.
pub(super) fn seal(
    buf: &mut [u8],
    kind: ClcKind,
    version_flags: u8,
    peer: PeerId,
    body_len: usize,
) -> Option<(&mut [u8], usize)> {
    let len = size_of::<Raw>()
        .checked_add(body_len)?
        .checked_add(EYE_CATCHER.len())?;
    let (head, rest) = buf.get_mut(..len)?.split_at_mut_checked(size_of::<Raw>())?;
    let (body, tail) = rest.split_at_mut_checked(body_len)?;
    let raw = Raw {
        lead: RawLead {
            eye_catcher: EYE_CATCHER,
            kind: kind.code(),
            len: u16::try_from(len).ok()?.into(),
            version_flags,
        },
        peer: peer.get(),
    };
    raw.write_to(head).ok()?;
    EYE_CATCHER.write_to(tail).ok()?;
    Some((body, len))
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_header))]
mod tests {
    use super::*;

    /// A Decline of the smallest kind.
    const DECLINE: [u8; 28] = [
        0xe2, 0xd4, 0xc3, 0xd9, 4, 0, 28, 0x18, 0x12, 0x34, 2, 0, 0, 0, 11, 1, 4, 0, 0, 0, 0, 0, 0,
        0, 0xe2, 0xd4, 0xc3, 0xd9,
    ];

    /// `DECLINE` with one octet changed.
    fn with(at: usize, value: u8) -> [u8; 28] {
        let mut message = DECLINE;
        if let Some(octet) = message.get_mut(at) {
            *octet = value;
        }
        message
    }

    // CLC-30..36.
    #[test]
    fn fields_are_read() -> Result<(), ClcError> {
        let (header, body) = open(&DECLINE)?;
        assert_eq!(header.kind, ClcKind::Decline);
        assert_eq!(header.version, 1);
        assert!(header.flag);
        assert_eq!(header.peer.get(), [0x12, 0x34, 2, 0, 0, 0, 11, 1]);
        assert_eq!(body, [4, 0, 0, 0, 0, 0, 0, 0]);
        Ok(())
    }

    // CLC-03, CLC-06, CLC-32, TST-109.
    #[test]
    fn every_truncation_is_rejected() {
        for len in 0..DECLINE.len() {
            let cut = DECLINE.get(..len).unwrap_or(&[]);
            assert_eq!(open(cut), Err(ProtocolError::Size.into()));
            let need = announced_len(cut);
            assert_eq!(need, Ok((len >= LEAD_LEN).then_some(28)));
        }
    }

    // CLC-03, CLC-06, TST-109.
    #[test]
    fn surplus_octet_is_rejected() {
        let mut long = [0; 29];
        for (to, from) in long.iter_mut().zip(DECLINE) {
            *to = from;
        }
        assert_eq!(open(&long), Err(ProtocolError::Size.into()));
    }

    // CLC-02, CLC-30, CLC-06, TST-109.
    #[test]
    fn both_eye_catchers_are_checked() {
        for at in 0..4 {
            let error = Err(ProtocolError::EyeCatcher.into());
            assert_eq!(open(&with(at, 0)), error);
            // Even before the rest has arrived.
            let lead = with(at, 0);
            let error = Err(ProtocolError::EyeCatcher);
            assert_eq!(announced_len(lead.get(..=at).unwrap_or(&[])), error);
        }
        for at in 24..28 {
            let error = Err(ProtocolError::Trailer.into());
            assert_eq!(open(&with(at, 0)), error);
        }
    }

    // CLC-05, CLC-31, CLC-06, TST-109.
    #[test]
    fn unknown_types_are_rejected() {
        for code in 0..=u8::MAX {
            if !(1..=4).contains(&code) {
                let error = Err(ProtocolError::Type(code).into());
                assert_eq!(open(&with(4, code)), error);
            }
        }
    }

    // CLC-33, GEN-11, AMB-03.
    #[test]
    fn version_zero_is_rejected_and_later_ones_kept() -> Result<(), ClcError> {
        assert_eq!(open(&with(7, 0x08)), Err(ProtocolError::Version.into()));
        for version in 1..=15 {
            let message = with(7, version << 4);
            let (header, _) = open(&message)?;
            assert_eq!(header.version, version);
            assert!(!header.flag);
        }
        Ok(())
    }

    // CLC-03, CLC-32, CLC-120.
    #[test]
    fn lengths_are_bound_to_type_and_version() {
        let lens = [
            0, 27, 28, 29, 43, 44, 51, 52, 67, 68, 69, 107, 108, 188, 1024, 1025,
        ];
        for (kind, version, low, high) in [
            (1, 1, 52, 1024),
            (2, 1, 68, 68),
            (3, 1, 68, 68),
            (4, 1, 28, 28),
            (1, 2, 44, 1024),
            (2, 2, 108, 1024),
            (3, 2, 108, 1024),
            (2, 3, 68, 1024),
            (3, 3, 68, 1024),
            (4, 2, 28, 1024),
        ] {
            for len in lens {
                let [a, b] = u16::to_be_bytes(len);
                let lead = [0xe2, 0xd4, 0xc3, 0xd9, kind, a, b, version << 4];
                let want = if (low..=high).contains(&len) {
                    Ok(Some(usize::from(len)))
                } else {
                    Err(ProtocolError::Length(len))
                };
                assert_eq!(announced_len(&lead), want);
            }
        }
    }

    #[test]
    fn sealing_needs_room() {
        let mut buf = [0; 28];
        let peer = PeerId::new([1; 8]);
        for len in 0..28 {
            let short = buf.get_mut(..len).unwrap_or(&mut []);
            assert!(seal(short, ClcKind::Decline, 0x10, peer, 8).is_none());
        }
        assert!(seal(&mut buf, ClcKind::Decline, 0x10, peer, 8).is_some());
        assert!(seal(&mut buf, ClcKind::Decline, 0x10, peer, usize::MAX).is_none());
    }
}
