// SPDX-License-Identifier: GPL-2.0

//! CLC Decline: the sender wants plain TCP, RFC 7609, appendix A.2.5.

use super::{
    error::{
        Error,
        ProtocolError, //
    },
    header::{
        self,
        Header,
        Kind, //
    },
};
use crate::proto::{
    reason::Reason,
    wire::PeerId, //
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

/// Octets 16 to 23 (CLC-403, CLC-404). Later versions have more behind them.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    diagnosis: U32,
    reserved: [u8; 4],
}

/// Takes the place of the message the receiver waits for and ends the handshake (CLC-410, CLC-414).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decline {
    /// The sender's stack.
    pub(crate) peer: PeerId,
    /// The receiver has a link group that the sender does not know (CLC-402).
    pub(crate) out_of_sync: bool,
    /// Why (CLC-403).
    pub(crate) reason: Reason,
}

impl Decline {
    /// Makes a Decline of the stack `peer`; the flag follows from the reason (CLC-416).
    pub(crate) fn new(peer: PeerId, reason: Reason) -> Self {
        Self {
            peer,
            out_of_sync: reason == Reason::OutOfSync,
            reason,
        }
    }

    /// Reads the message from its parts.
    pub(super) fn parse(header: &Header, body: &[u8]) -> Result<Self, Error> {
        let (raw, _) = Raw::ref_from_prefix(body).map_err(|_| ProtocolError::Size)?;
        Ok(Self {
            peer: header.peer,
            out_of_sync: header.flag,
            reason: Reason::from_code(raw.diagnosis.get()),
        })
    }

    /// Writes the message; gives its length, or `None` if `buf` is too short.
    pub(crate) fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        let (body, len) = header::seal(
            buf,
            Kind::Decline,
            self.out_of_sync,
            self.peer,
            size_of::<Raw>(),
        )?;
        let raw = Raw {
            diagnosis: self.reason.wire().into(),
            reserved: [0; 4],
        };
        raw.write_to(body).ok()?;
        Some(len)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_decline))]
mod tests {
    use super::*;
    use crate::proto::{
        clc::Message,
        reason::Local, //
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
        let decline = Decline::new(CLIENT, Reason::OutOfSync);
        assert!(decline.out_of_sync);
        let message = Message::Decline(decline);
        assert_eq!(Message::parse(&DECLINE), Ok(message));
        let mut buf = [0; 28];
        assert_eq!(message.emit(&mut buf), Some(28));
        assert_eq!(buf, DECLINE);
    }

    // CLC-402, CLC-416.
    #[test]
    fn other_reasons_are_in_sync() {
        assert!(!Decline::new(CLIENT, Reason::Memory).out_of_sync);
    }

    // CLC-403.
    #[test]
    fn unknown_diagnosis_survives() {
        let mut octets = DECLINE;
        octets[16] = 0xab;
        let mut decline = Decline::new(CLIENT, Reason::Unknown(0xab00_0000));
        decline.out_of_sync = true;
        let message = Message::Decline(decline);
        assert_eq!(Message::parse(&octets), Ok(message));
    }

    #[test]
    fn local_reason_is_sent_as_configuration() {
        let reason = Reason::Local(Local::Policy);
        let mut buf = [0; 28];
        let decline = Decline::new(CLIENT, reason);
        assert_eq!(decline.emit(&mut buf), Some(28));
        assert_eq!(buf[16..20], [3, 0, 0, 0]);
    }

    #[test]
    fn longer_decline_of_a_later_version_is_read() {
        // The second version puts 16 octets more in front of the trailer.
        let mut octets = [0x77; 44];
        octets[..24].copy_from_slice(&DECLINE[..24]);
        octets[6] = 44;
        octets[7] = 0x28;
        octets[40..].copy_from_slice(&DECLINE[24..]);
        assert_eq!(Message::parse(&octets), Message::parse(&DECLINE));
    }
}
