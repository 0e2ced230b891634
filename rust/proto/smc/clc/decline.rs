// SPDX-License-Identifier: GPL-2.0

//! CLC Decline: the sender wants plain TCP, RFC 7609, appendix A.2.5.

use super::{
    error::{
        ClcError,
        ProtocolError, //
    },
    header::{
        self,
        ClcHeader,
        ClcKind, //
    },
    terms::Version, //
};
use crate::proto::{
    smc::wire::PeerId,
    stream::reason::Reason, //
};
use zerocopy::{
    byteorder::network_endian::U32,
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

/// Octets 16 to 23 (CLC-403, CLC-404).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    diagnosis: U32,
    /// The operating system of the sender, from version 2 on, in the high half.
    os: u8,
    reserved: [u8; 3],
}

/// Octets that version 2 has behind those: room for further diagnoses.
const MORE_BYTES: usize = 16;

/// The operating system that Linux calls itself.
const OS_LINUX: u8 = 2;

/// Takes the place of the message the receiver waits for and ends the handshake (CLC-410, CLC-414).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decline {
    /// The sender's stack.
    pub(crate) peer: PeerId,
    /// The receiver has a link group that the sender does not know (CLC-402).
    pub(crate) out_of_sync: bool,
    /// Why (CLC-403).
    pub(crate) reason: Reason,
    /// Version of the message; the receiver understands it in any.
    pub(crate) version: Version,
}

impl Decline {
    /// Makes a Decline of the stack `peer`; the flag follows from the reason (CLC-416).
    pub(crate) fn new(peer: PeerId, reason: Reason, version: Version) -> Self {
        Self {
            peer,
            out_of_sync: reason == Reason::OutOfSync,
            reason,
            version,
        }
    }

    /// Reads the message from its parts.
    pub(super) fn parse(header: &ClcHeader, body: &[u8]) -> Result<Self, ClcError> {
        let (raw, _) = Raw::ref_from_prefix(body).map_err(|_| ProtocolError::Size)?;
        Ok(Self {
            peer: header.peer,
            out_of_sync: header.flag,
            reason: Reason::from_code(raw.diagnosis.get()),
            version: match header.version {
                header::VERSION => Version::V1,
                _ => Version::V2,
            },
        })
    }

    /// Writes the message; gives its length, or `None` if `buf` is too short.
    pub(crate) fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        let flags = header::flags(self.version, self.out_of_sync);
        let (more, os) = match self.version {
            Version::V1 => (0, 0),
            Version::V2 => (MORE_BYTES, OS_LINUX << 4),
        };
        let body_len = size_of::<Raw>().checked_add(more)?;
        let (body, len) = header::seal(buf, ClcKind::Decline, flags, self.peer, body_len)?;
        let raw = Raw {
            diagnosis: self.reason.wire().into(),
            os,
            reserved: [0; 3],
        };
        body.fill(0);
        raw.write_to_prefix(body).ok()?;
        Some(len)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_decline))]
mod tests {
    use super::*;
    use crate::proto::{
        smc::clc::ClcMessage,
        stream::reason::LocalReason, //
    };

    /// SMCR-VEC-06.
    const DECLINE: [u8; 28] = [
        0xe2, 0xd4, 0xc3, 0xd9, 4, 0, 0x1c, 0x18, 0x12, 0x34, 2, 0, 0, 0, 0x0b, 1, 4, 0, 0, 0, 0,
        0, 0, 0, 0xe2, 0xd4, 0xc3, 0xd9,
    ];
    const CLIENT: PeerId = PeerId::new([0x12, 0x34, 2, 0, 0, 0, 11, 1]);

    // VEC-06, CLC-401..405, TST-029.
    #[test]
    fn vector_is_read_and_written() {
        let decline = Decline::new(CLIENT, Reason::OutOfSync, Version::V1);
        assert!(decline.out_of_sync);
        let message = ClcMessage::Decline(decline);
        assert_eq!(ClcMessage::parse(&DECLINE), Ok(message));
        let mut buf = [0; 28];
        assert_eq!(message.emit(&mut buf), Some(28));
        assert_eq!(buf, DECLINE);
    }

    // CLC-402, CLC-416.
    #[test]
    fn other_reasons_are_in_sync() {
        assert!(!Decline::new(CLIENT, Reason::Memory, Version::V1).out_of_sync);
    }

    // CLC-403.
    #[test]
    fn unknown_diagnosis_survives() {
        let mut octets = DECLINE;
        octets[16] = 0xab;
        let mut decline = Decline::new(CLIENT, Reason::Unknown(0xab00_0000), Version::V1);
        decline.out_of_sync = true;
        let message = ClcMessage::Decline(decline);
        assert_eq!(ClcMessage::parse(&octets), Ok(message));
    }

    #[test]
    fn local_reason_is_sent_as_configuration() {
        let reason = Reason::Local(LocalReason::Policy);
        let mut buf = [0; 28];
        let decline = Decline::new(CLIENT, reason, Version::V1);
        assert_eq!(decline.emit(&mut buf), Some(28));
        assert_eq!(buf[16..20], [3, 0, 0, 0]);
    }

    #[test]
    fn longer_decline_of_a_later_version_is_read() {
        let mut octets = [0; 44];
        octets[..24].copy_from_slice(&DECLINE[..24]);
        octets[6] = 44;
        octets[7] = 0x28;
        octets[20] = 0x20;
        octets[40..].copy_from_slice(&DECLINE[24..]);
        let decline = Decline::new(CLIENT, Reason::OutOfSync, Version::V2);
        assert_eq!(ClcMessage::parse(&octets), Ok(ClcMessage::Decline(decline)));
        let mut buf = [0xff; 44];
        assert_eq!(decline.emit(&mut buf), Some(44));
        assert_eq!(buf, octets);
        // Further diagnoses are ignored, as is the length that versions to come may have.
        octets[24..40].fill(0x77);
        assert_eq!(ClcMessage::parse(&octets), Ok(ClcMessage::Decline(decline)));
    }
}
