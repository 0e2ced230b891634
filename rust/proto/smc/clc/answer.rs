// SPDX-License-Identifier: GPL-2.0

//! CLC Accept and Confirm: the server's and the client's end of the connection, RFC 7609,
//! appendices A.2.3 and A.2.4, and what version 2 adds to them.
//!
//! The two messages are the same but for their type and a few fields: the server's flag of first
//! contact, which is reserved in a Confirm of version 1, and the client's GIDs in version 2.

use super::{
    eid::{
        Eid,
        EID_BYTES, //
    },
    endpoint::Endpoint,
    error::{
        ClcError,
        ProtocolError,
        Reserved, //
    },
    first_contact::{
        FirstContact,
        HOST_BYTES, //
    },
    header::{
        self,
        ClcHeader,
        ClcKind,
        Transport, //
    },
    terms::Version, //
};
use crate::proto::smc::wire::PeerId;
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

/// Octets 64 to 103 in version 2.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    eid: [u8; EID_BYTES],
    reserved: [u8; 8],
}

/// What version 2 adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addition {
    /// The enterprise identifier both have.
    pub(crate) eid: Eid,
    /// The terms of the link group, on first contact.
    pub(crate) first: Option<FirstContact>,
}

/// What a host says of itself on first contact, in version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct System {
    /// The enterprise identifier that both have.
    pub(crate) eid: Eid,
    /// Its operating system, as a number.
    pub(crate) os: u8,
    /// Its name.
    pub(crate) host: [u8; HOST_BYTES],
}

impl Addition {
    /// What the sender says of itself, on first contact.
    pub(crate) fn system(&self) -> Option<System> {
        let first = self.first.as_ref()?;
        Some(System {
            eid: self.eid,
            os: first.os,
            host: first.host,
        })
    }
}

/// One side's answer to the message before: that it agrees, and where its end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The sender's stack.
    pub(crate) peer: PeerId,
    /// Accept: the server makes a new link group instead of using one that exists (CLC-202).
    /// Confirm: so does the client; not set in version 1.
    pub(crate) first_contact: bool,
    /// The sender's end.
    pub(crate) endpoint: Endpoint,
    /// What there is in version 2 only.
    pub(crate) v2: Option<Addition>,
}

impl Answer {
    /// Reads the message from its parts.
    pub(super) fn parse(header: &ClcHeader, body: &[u8]) -> Result<Self, ClcError> {
        let is_confirm = header.kind == ClcKind::Confirm;
        let (end, rest) = body
            .split_at_checked(Endpoint::LEN)
            .ok_or(ProtocolError::Size)?;
        let endpoint = Endpoint::parse(end);
        let v2 = match header.version {
            header::VERSION if rest.is_empty() => None,
            header::VERSION => return Err(ProtocolError::Size.into()),
            header::VERSION_2 if header.transport != Transport::R => {
                return Err(Reserved::Transport(header.transport.bits()).into());
            }
            header::VERSION_2 => {
                let (raw, rest) = Raw::ref_from_prefix(rest).map_err(|_| ProtocolError::Size)?;
                let first = if header.flag {
                    Some(FirstContact::parse(rest, is_confirm)?)
                } else {
                    None
                };
                Some(Addition {
                    eid: Eid::from_octets(raw.eid),
                    first,
                })
            }
            later => return Err(Reserved::Version(later).into()),
        };
        Ok(Self {
            peer: header.peer,
            first_contact: header.flag && (v2.is_some() || !is_confirm),
            endpoint: endpoint?,
            v2,
        })
    }

    /// Writes the message as Accept or Confirm; gives its length, or `None` if `buf` is too short
    /// or what it says on first contact does not fit together.
    pub(super) fn emit(&self, buf: &mut [u8], kind: ClcKind) -> Option<usize> {
        let is_confirm = kind == ClcKind::Confirm;
        let (version, more, flag) = match &self.v2 {
            None => (Version::V1, 0, self.first_contact && !is_confirm),
            Some(Addition { first: None, .. }) if self.first_contact => return None,
            Some(Addition { first: None, .. }) => (Version::V2, size_of::<Raw>(), false),
            Some(Addition {
                first: Some(first), ..
            }) => {
                let len = size_of::<Raw>().checked_add(first.len(is_confirm)?)?;
                (Version::V2, len, true)
            }
        };
        let body_len = Endpoint::LEN.checked_add(more)?;
        let flags = header::flags(version, flag);
        let (body, len) = header::seal(buf, kind, flags, self.peer, body_len)?;
        let (end, rest) = body.split_at_mut_checked(Endpoint::LEN)?;
        self.endpoint.emit(end)?;
        if let Some(v2) = &self.v2 {
            let raw = Raw {
                eid: v2.eid.octets(),
                reserved: [0; 8],
            };
            raw.write_to_prefix(rest).ok()?;
            let rest = rest.get_mut(size_of::<Raw>()..)?;
            if let Some(first) = &v2.first {
                first.emit(rest, is_confirm)?;
            }
        }
        Some(len)
    }

    /// Version of the message.
    pub(crate) const fn version(&self) -> Version {
        match self.v2 {
            None => Version::V1,
            Some(_) => Version::V2,
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_answer))]
mod tests {
    use super::*;
    use crate::proto::{
        base::verbs::{
            Gid,
            Mac,
            Mtu,
            Psn,
            Qpn,
            RKey, //
        },
        smc::{
            clc::{
                first_contact::GidList,
                ClcMessage, //
            },
            wire::{
                AlertToken,
                BufSize,
                RmbeIndex, //
            },
        },
    };

    /// SMCR-VEC-04.
    const ACCEPT: [u8; 68] = [
        0xe2, 0xd4, 0xc3, 0xd9, 2, 0, 0x44, 0x18, 0x56, 0x78, 2, 0, 0, 0, 0x0a, 1, 0xfe, 0x80, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0x0a, 1, 2, 0, 0, 0, 0x0a, 1, 0, 0, 8, 0x11, 0x22,
        0x33, 0x44, 1, 0xa0, 0, 0, 1, 0x23, 0, 0, 0, 0x70, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd, 0xe2,
        0xd4, 0xc3, 0xd9,
    ];

    /// SMCR-VEC-05.
    const CONFIRM: [u8; 68] = [
        0xe2, 0xd4, 0xc3, 0xd9, 3, 0, 0x44, 0x10, 0x12, 0x34, 2, 0, 0, 0, 0x0b, 1, 0xfe, 0x80, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0x0b, 1, 2, 0, 0, 0, 0x0b, 1, 0, 0, 0x40, 0x55,
        0x66, 0x77, 0x88, 0xff, 0xb0, 0, 0, 2, 5, 0, 0, 0, 0x70, 0, 0xaa, 0, 0, 0, 0, 0x12, 0x34,
        0x56, 0xe2, 0xd4, 0xc3, 0xd9,
    ];

    /// The meaning of `ACCEPT`.
    fn accept() -> Option<Answer> {
        Some(Answer {
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
            v2: None,
        })
    }

    // VEC-04, CLC-201..215, TST-029.
    #[test]
    fn accept_is_read_and_written() -> Result<(), &'static str> {
        let message = ClcMessage::Accept(accept().ok_or("value")?);
        assert_eq!(ClcMessage::parse(&ACCEPT), Ok(message));
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
        assert_eq!(ClcMessage::parse(&octets), ClcMessage::parse(&ACCEPT));
    }

    // CLC-202, CLC-34.
    #[test]
    fn flag_means_first_contact() -> Result<(), &'static str> {
        let mut octets = ACCEPT;
        octets[7] = 0x10;
        let mut accept = accept().ok_or("value")?;
        accept.first_contact = false;
        assert_eq!(ClcMessage::parse(&octets), Ok(ClcMessage::Accept(accept)));
        Ok(())
    }

    // CLC-209, DEP-5, TST-110.
    #[test]
    fn buffers_of_version_1_beyond_the_rfc_have_their_size() {
        for code in 0..=15 {
            let mut octets = ACCEPT;
            octets[50] = (code << 4) | 3;
            let bytes = match ClcMessage::parse(&octets) {
                Ok(ClcMessage::Accept(accept)) => accept.endpoint.buf_size.bytes(),
                _ => 0,
            };
            assert_eq!(bytes, (16 << 10) << code);
        }
    }

    // CLC-210, CLC-221, TST-110, TST-111.
    #[test]
    fn every_reserved_mtu_is_kept_apart() {
        for code in 0..=15 {
            let mut octets = ACCEPT;
            octets[50] = 0x20 | code;
            let mtu = match ClcMessage::parse(&octets) {
                Ok(ClcMessage::Accept(accept)) => accept.endpoint.mtu,
                _ => None,
            };
            assert_eq!(mtu, Mtu::from_code(code));
            assert!(ClcMessage::parse(&octets).is_ok());
        }
    }

    // CLC-207, RMB-02, AMB-19.
    #[test]
    fn element_index_zero_is_rejected() {
        let mut octets = ACCEPT;
        octets[45] = 0;
        let error = Err(ProtocolError::ElementIndex.into());
        assert_eq!(ClcMessage::parse(&octets), error);
    }

    #[test]
    fn later_version_is_declined() {
        let mut octets = ACCEPT;
        octets[7] = 0x38;
        assert_eq!(ClcMessage::parse(&octets), Err(Reserved::Version(3).into()));
        octets[4] = 3;
        assert_eq!(ClcMessage::parse(&octets), Err(Reserved::Version(3).into()));
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

    // VEC-05, CLC-301..314, TST-029.
    #[test]
    fn confirm_is_read_and_written() -> Result<(), &'static str> {
        let message = ClcMessage::Confirm(Answer {
            peer: PeerId::new([0x12, 0x34, 2, 0, 0, 0, 11, 1]),
            first_contact: false,
            v2: None,
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
        assert_eq!(ClcMessage::parse(&CONFIRM), Ok(message));
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
        assert_eq!(ClcMessage::parse(&octets), ClcMessage::parse(&CONFIRM));
    }

    /// An Accept or Confirm of version 2 as Linux writes it: 108 octets, of first contact 52 more
    /// and, in a Confirm, the GIDs. The low octets of `fields` are `[release, connections, links]`.
    fn version_2(kind: u8, first: bool, fields: [u8; 3], gids: u8) -> ([u8; 232], usize) {
        let mut octets = [0; 232];
        octets[..64].copy_from_slice(&ACCEPT[..64]);
        octets[4] = kind;
        octets[7] = 0x20;
        octets[64..96].copy_from_slice(b"LAB                             ");
        let mut len = 104_usize;
        if first {
            let [release, conns, links] = fields;
            octets[7] = 0x28;
            octets[104] = 0x80;
            octets[105] = 0x20 | release;
            octets[108..140].copy_from_slice(b"host                            ");
            octets[140] = conns;
            octets[141] = links;
            len = 156;
            if kind == 3 {
                octets[156] = gids;
                for n in 0..gids {
                    octets[160 + 16 * usize::from(n)] = n + 1;
                }
                len = 160 + 16 * usize::from(gids);
            }
        }
        octets[len..len + 4].copy_from_slice(&ACCEPT[64..]);
        len += 4;
        octets[6] = len.to_be_bytes()[7];
        (octets, len)
    }

    // DEP-5: Linux has elements beyond those of the RFC.
    #[test]
    fn version_2_has_larger_buffers() {
        for code in 0..=15 {
            for kind in [2, 3] {
                let (mut octets, len) = version_2(kind, false, [0; 3], 0);
                octets[50] = (code << 4) | 3;
                let size = match ClcMessage::parse(&octets[..len]) {
                    Ok(ClcMessage::Accept(answer) | ClcMessage::Confirm(answer)) => {
                        Some(answer.endpoint.buf_size.bytes())
                    }
                    _ => None,
                };
                assert_eq!(size, Some((16 << 10) << code));
            }
        }
    }

    /// What `version_2` means.
    fn meant(first: bool, fields: [u8; 3], gids: u8) -> Option<Answer> {
        let [release, max_conns, max_links] = fields;
        let mut list = GidList::EMPTY;
        for n in 0..gids {
            let mut gid = [0; 16];
            gid[0] = n + 1;
            list.push(Gid::new(gid));
        }
        let mut answer = accept()?;
        answer.first_contact = first;
        answer.v2 = Some(Addition {
            eid: Eid::new(b"LAB")?,
            first: first.then_some(FirstContact {
                direct: true,
                os: 2,
                release,
                host: *b"host                            ",
                max_conns,
                max_links,
                features: 0,
                gids: list,
            }),
        });
        Some(answer)
    }

    #[test]
    fn version_2_is_read_and_written() -> Result<(), &'static str> {
        for (kind, first, fields, gids) in [
            (2, false, [0, 0, 0], 0),
            (3, false, [0, 0, 0], 0),
            (2, true, [1, 255, 2], 0),
            (2, true, [0, 0, 0], 0),
            (3, true, [1, 16, 1], 0),
            (3, true, [1, 16, 1], 2),
            (3, true, [0, 0, 0], 1),
            (3, true, [0, 0, 0], 0),
        ] {
            let (octets, len) = version_2(kind, first, fields, gids);
            let answer = meant(first, fields, gids).ok_or("value")?;
            let message = match kind {
                2 => ClcMessage::Accept(answer),
                _ => ClcMessage::Confirm(answer),
            };
            assert_eq!(ClcMessage::parse(&octets[..len]), Ok(message));
            let mut buf = [0xff; 232];
            assert_eq!(message.emit(&mut buf), Some(len));
            assert_eq!(buf[..len], octets[..len]);
            assert!(message.emit(&mut buf[..len - 1]).is_none());
        }
        Ok(())
    }

    #[test]
    fn first_release_may_lack_the_limits() -> Result<(), &'static str> {
        for gids in 0..=3 {
            let (octets, len) = version_2(3, true, [0, 0, 0], gids);
            // The 16 octets of the limits are cut out.
            let mut short = [0; 232];
            short[..140].copy_from_slice(&octets[..140]);
            short[140..216].copy_from_slice(&octets[156..]);
            short[6] -= 16;
            let answer = meant(true, [0, 0, 0], gids).ok_or("value")?;
            let message = ClcMessage::Confirm(answer);
            assert_eq!(ClcMessage::parse(&short[..len - 16]), Ok(message));
        }
        let (octets, _) = version_2(2, true, [0, 0, 0], 0);
        let mut short = [0; 144];
        short[..140].copy_from_slice(&octets[..140]);
        short[140..].copy_from_slice(&octets[156..160]);
        short[6] = 144;
        let answer = meant(true, [0, 0, 0], 0).ok_or("value")?;
        assert_eq!(ClcMessage::parse(&short), Ok(ClcMessage::Accept(answer)));
        // From release 1 on they must be there.
        short[105] = 0x21;
        assert_eq!(ClcMessage::parse(&short), Err(ProtocolError::Size.into()));
        Ok(())
    }

    #[test]
    fn gids_must_fit_and_only_eight_are_kept() {
        let (mut octets, len) = version_2(3, true, [1, 16, 1], 4);
        octets[156] = 5;
        let error = Err(ProtocolError::Size.into());
        assert_eq!(ClcMessage::parse(&octets[..len]), error);
        octets[156] = 255;
        assert_eq!(ClcMessage::parse(&octets[..len]), error);
    }

    #[test]
    fn first_contact_without_terms_is_no_message() {
        let (mut octets, len) = version_2(2, false, [0, 0, 0], 0);
        octets[7] |= 0x08;
        let error = Err(ProtocolError::Size.into());
        assert_eq!(ClcMessage::parse(&octets[..len]), error);
    }

    #[test]
    fn other_transports_of_version_2_are_declined() {
        for transport in 1..=3 {
            let (mut octets, len) = version_2(2, false, [0, 0, 0], 0);
            octets[7] |= transport;
            let error = Err(Reserved::Transport(transport).into());
            assert_eq!(ClcMessage::parse(&octets[..len]), error);
        }
    }
}
