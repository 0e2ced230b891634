// SPDX-License-Identifier: GPL-2.0

//! CLC Confirm: the client's end of the connection, RFC 7609, appendix A.2.4.

use super::{
    endpoint::Endpoint,
    error::{
        Error,
        Reserved, //
    },
    header::{
        self,
        Header,
        Kind, //
    },
};
use crate::proto::wire::PeerId;

/// The client's answer to an Accept it agrees with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirm {
    /// The client's stack.
    pub(crate) peer: PeerId,
    /// The client's end.
    pub(crate) endpoint: Endpoint,
}

impl Confirm {
    /// Reads the message from its parts.
    pub(super) fn parse(header: &Header, body: &[u8]) -> Result<Self, Error> {
        if header.version != header::VERSION {
            return Err(Reserved::Version(header.version).into());
        }
        Ok(Self {
            peer: header.peer,
            endpoint: Endpoint::parse(body)?,
        })
    }

    /// Writes the message; gives its length, or `None` if `buf` is too short.
    pub(crate) fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        let (body, len) = header::seal(buf, Kind::Confirm, false, self.peer, Endpoint::LEN)?;
        self.endpoint.emit(body)?;
        Some(len)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_confirm))]
mod tests {
    use super::*;
    use crate::proto::{
        clc::Message,
        wire::{
            AlertToken,
            BufSize,
            Gid,
            Mac,
            Mtu,
            Psn,
            Qpn,
            RKey,
            RmbeIndex, //
        },
    };

    /// SMCR-VEC-05.
    const CONFIRM: [u8; 68] = [
        0xe2, 0xd4, 0xc3, 0xd9, 3, 0, 0x44, 0x10, 0x12, 0x34, 2, 0, 0, 0, 0x0b, 1, 0xfe, 0x80, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0x0b, 1, 2, 0, 0, 0, 0x0b, 1, 0, 0, 0x40, 0x55,
        0x66, 0x77, 0x88, 0xff, 0xb0, 0, 0, 2, 5, 0, 0, 0, 0x70, 0, 0xaa, 0, 0, 0, 0, 0x12, 0x34,
        0x56, 0xe2, 0xd4, 0xc3, 0xd9,
    ];

    // VEC-05, CLC-301..314, TST-029.
    #[test]
    fn vector_is_read_and_written() -> Result<(), &'static str> {
        let message = Message::Confirm(Confirm {
            peer: PeerId::new([0x12, 0x34, 2, 0, 0, 0, 11, 1]),
            endpoint: Endpoint {
                gid: Gid::new([
                    0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0x0b, 1,
                ]),
                mac: Mac::new([2, 0, 0, 0, 11, 1]),
                qpn: Qpn::new(0x40),
                rkey: RKey::new(0x5566_7788),
                rmbe_index: RmbeIndex::new(255).ok_or("index")?,
                alert_token: AlertToken::new(0xb000_0002),
                buf_size: BufSize::MIN,
                mtu: Some(Mtu::M4096),
                vaddr: 0x0000_7000_aa00_0000,
                psn: Psn::new(0x12_3456),
            },
        });
        assert_eq!(Message::parse(&CONFIRM), Ok(message));
        let mut buf = [0; 68];
        assert_eq!(message.emit(&mut buf), Some(68));
        assert_eq!(buf, CONFIRM);
        Ok(())
    }

    // CLC-301, CLC-34, CLC-35, GEN-09.
    #[test]
    fn flag_of_accept_is_reserved_here() {
        let mut octets = CONFIRM;
        octets[7] |= 0x0f;
        assert_eq!(Message::parse(&octets), Message::parse(&CONFIRM));
    }

    #[test]
    fn other_version_is_to_be_declined() {
        let mut octets = CONFIRM;
        octets[7] = 0x30;
        assert_eq!(Message::parse(&octets), Err(Reserved::Version(3).into()));
    }
}
