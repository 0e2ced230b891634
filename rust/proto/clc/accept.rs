// SPDX-License-Identifier: GPL-2.0

//! CLC Accept: the server's end of the connection, RFC 7609, appendix A.2.3.

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

/// The server's answer to a Proposal it agrees with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accept {
    /// The server's stack.
    pub(crate) peer: PeerId,
    /// The server makes a new link group instead of using one that exists (CLC-202).
    pub(crate) first_contact: bool,
    /// The server's end.
    pub(crate) endpoint: Endpoint,
}

impl Accept {
    /// Reads the message from its parts.
    pub(super) fn parse(header: &Header, body: &[u8]) -> Result<Self, Error> {
        if header.version != header::VERSION {
            return Err(Reserved::Version(header.version).into());
        }
        Ok(Self {
            peer: header.peer,
            first_contact: header.flag,
            endpoint: Endpoint::parse(body)?,
        })
    }

    /// Writes the message; gives its length, or `None` if `buf` is too short.
    pub(crate) fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        let (body, len) = header::seal(
            buf,
            Kind::Accept,
            self.first_contact,
            self.peer,
            Endpoint::LEN,
        )?;
        self.endpoint.emit(body)?;
        Some(len)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_accept))]
mod tests {
    use super::*;
    use crate::proto::{
        clc::{
            Message,
            ProtocolError, //
        },
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

    /// SMCR-VEC-04.
    const ACCEPT: [u8; 68] = [
        0xe2, 0xd4, 0xc3, 0xd9, 2, 0, 0x44, 0x18, 0x56, 0x78, 2, 0, 0, 0, 0x0a, 1, 0xfe, 0x80, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0x0a, 1, 2, 0, 0, 0, 0x0a, 1, 0, 0, 8, 0x11, 0x22,
        0x33, 0x44, 1, 0xa0, 0, 0, 1, 0x23, 0, 0, 0, 0x70, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd, 0xe2,
        0xd4, 0xc3, 0xd9,
    ];

    /// The meaning of `ACCEPT`.
    fn accept() -> Option<Accept> {
        Some(Accept {
            peer: PeerId::new([0x56, 0x78, 2, 0, 0, 0, 10, 1]),
            first_contact: true,
            endpoint: Endpoint {
                gid: Gid::new([
                    0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0x0a, 1,
                ]),
                mac: Mac::new([2, 0, 0, 0, 10, 1]),
                qpn: Qpn::new(8),
                rkey: RKey::new(0x1122_3344),
                rmbe_index: RmbeIndex::new(1)?,
                alert_token: AlertToken::new(0xa000_0001),
                buf_size: BufSize::from_code(2)?,
                mtu: Some(Mtu::M1024),
                vaddr: 0x0000_7000_0000_0000,
                psn: Psn::new(0x00_abcd),
            },
        })
    }

    // VEC-04, CLC-201..215, TST-029.
    #[test]
    fn vector_is_read_and_written() -> Result<(), &'static str> {
        let message = Message::Accept(accept().ok_or("value")?);
        assert_eq!(Message::parse(&ACCEPT), Ok(message));
        let mut buf = [0; 68];
        assert_eq!(message.emit(&mut buf), Some(68));
        assert_eq!(buf, ACCEPT);
        assert!(message.emit(&mut buf[..67]).is_none());
        Ok(())
    }

    // GEN-09, CLC-35, CLC-211, CLC-213, TST-029.
    #[test]
    fn reserved_octets_are_ignored() {
        let mut octets = ACCEPT;
        octets[7] |= 0x07;
        octets[51] = 0xff;
        octets[60] = 0xff;
        assert_eq!(Message::parse(&octets), Message::parse(&ACCEPT));
    }

    // CLC-202, CLC-34.
    #[test]
    fn flag_tells_first_contact() -> Result<(), &'static str> {
        let mut octets = ACCEPT;
        octets[7] = 0x10;
        let mut accept = accept().ok_or("value")?;
        accept.first_contact = false;
        assert_eq!(Message::parse(&octets), Ok(Message::Accept(accept)));
        Ok(())
    }

    // CLC-209, CLC-08, TST-110.
    #[test]
    fn every_reserved_buffer_size_is_told() {
        for code in 0..=15 {
            let mut octets = ACCEPT;
            octets[50] = (code << 4) | 3;
            let error = Err(Reserved::BufSize(code).into());
            match code {
                0..=5 => assert!(Message::parse(&octets).is_ok()),
                _ => assert_eq!(Message::parse(&octets), error),
            }
        }
    }

    // CLC-210, CLC-221, TST-110, TST-111.
    #[test]
    fn every_reserved_mtu_is_kept_apart() {
        for code in 0..=15 {
            let mut octets = ACCEPT;
            octets[50] = 0x20 | code;
            let mtu = match Message::parse(&octets) {
                Ok(Message::Accept(accept)) => accept.endpoint.mtu,
                _ => None,
            };
            assert_eq!(mtu, Mtu::from_code(code));
            assert!(Message::parse(&octets).is_ok());
        }
    }

    // CLC-207, RMB-02, AMB-19.
    #[test]
    fn element_index_zero_is_rejected() {
        let mut octets = ACCEPT;
        octets[45] = 0;
        let error = Err(ProtocolError::ElementIndex.into());
        assert_eq!(Message::parse(&octets), error);
    }

    #[test]
    fn other_version_is_to_be_declined() {
        let mut octets = ACCEPT;
        octets[7] = 0x28;
        assert_eq!(Message::parse(&octets), Err(Reserved::Version(2).into()));
    }

    // CLC-220, LNK-09, TST-111.
    #[test]
    fn smaller_mtu_counts() -> Result<(), &'static str> {
        let mut end = accept().ok_or("value")?.endpoint;
        assert_eq!(end.path_mtu(Mtu::M4096), Mtu::M1024);
        assert_eq!(end.path_mtu(Mtu::M256), Mtu::M256);
        end.mtu = None;
        assert_eq!(end.path_mtu(Mtu::M2048), Mtu::M2048);
        Ok(())
    }

    // RMB-09, RMB-10, CLC-212, AMB-19.
    #[test]
    fn elements_lie_behind_each_other() -> Result<(), &'static str> {
        let addr = |end: &Endpoint| end.rtoken().element_addr(end.rmbe_index, end.buf_size);
        let mut end = accept().ok_or("value")?.endpoint;
        assert_eq!(addr(&end), Some(0x0000_7000_0000_0000));
        end.rmbe_index = RmbeIndex::new(3).ok_or("index")?;
        assert_eq!(addr(&end), Some(0x0000_7000_0002_0000));
        end.vaddr = u64::MAX - 0x2_ffff;
        assert_eq!(addr(&end), None);
        end.vaddr = u64::MAX - 0x3_0000;
        assert_eq!(addr(&end), Some(u64::MAX - 0x1_0000));
        Ok(())
    }
}
