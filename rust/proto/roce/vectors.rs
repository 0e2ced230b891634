// SPDX-License-Identifier: GPL-2.0

//! Whole packets as literal octets, from the header of the network to the ICRC. An independent
//! implementation reproduces all but those of RoCE v1 (RNIC-HDR-08, RNIC-ICRC-01 to RNIC-ICRC-04).

use super::{
    aeth::{
        NakCode,
        Syndrome, //
    },
    crc32::Slicing,
    crc_check::SEND,
    frame::{
        Frame,
        Ipv4,
        Ipv6,
        RoceRoute, //
    },
    header::{
        Aeth,
        Bth,
        Deth,
        Reth, //
    },
    icrc,
    opcode::Opcode,
    packet::{
        pad_of,
        Extensions,
        RocePacket, //
    },
};
use crate::proto::base::verbs::{
    Psn,
    Qpn,
    RKey, //
};

/// 10.0.0.1 to 10.0.0.2 with identification 0x1234.
const V4: RoceRoute = RoceRoute::V2Ipv4(
    Ipv4 {
        tos: 0,
        ident: 0x1234,
        fragment: 0x4000,
        ttl: 64,
        src: [10, 0, 0, 1],
        dst: [10, 0, 0, 2],
    },
    0xc0de,
);

/// fe80::ff:fe00:1 to fe80::ff:fe00:2.
const IPV6: Ipv6 = Ipv6 {
    class: 0,
    flow: 0,
    hops: 64,
    src: [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1],
    dst: [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2],
};

/// "ABCDEFGHIJKLMNOP".
const PAYLOAD: &[u8] = b"ABCDEFGHIJKLMNOP";

/// The header of a packet from a requester that asks for an acknowledgement.
const fn bth(opcode: Opcode, psn: u32) -> Bth {
    Bth {
        ack_req: true,
        ..Bth::new(opcode.code(), Qpn::new(0x10_0011), Psn::new(psn))
    }
}

/// Writes a packet, compares its octets, and reads it back.
fn check(route: RoceRoute, bth: Bth, ext: Extensions, payload: &[u8], expected: &[u8]) {
    let opcode = Opcode::from_code(bth.code);
    assert!(opcode.is_some());
    let packet = RocePacket {
        bth: Bth {
            pad: pad_of(payload.len()),
            ..bth
        },
        opcode: opcode.unwrap_or(Opcode::Cnp),
        ext,
        payload,
    };
    let mut transport = [0; 96];
    let len = packet.emit(&mut transport).unwrap_or(0);
    let transport = transport.get(..len).unwrap_or(&[]);
    let frame = route.frame(transport.len());
    let mut octets = [0; 160];
    let headers = frame.and_then(|frame| frame.emit(&mut octets));
    let icrc = frame.and_then(|frame| icrc::icrc_of(&Slicing, &frame, transport));
    let end = headers.unwrap_or(0) + len;
    let tail = transport.iter().chain(icrc.iter().flatten());
    for (to, from) in octets.iter_mut().skip(headers.unwrap_or(0)).zip(tail) {
        *to = *from;
    }
    assert_eq!(octets.get(..end + icrc::ICRC_LEN), Some(expected));

    let parsed = match route {
        RoceRoute::V2Ipv4(..) => Frame::parse_ipv4(expected),
        RoceRoute::V2Ipv6(..) => Frame::parse_ipv6(expected),
        RoceRoute::V1(_) => Frame::parse_grh(expected),
    };
    let checked =
        parsed.map(|(frame, octets)| (Some(frame), icrc::check(&Slicing, &frame, octets)));
    assert_eq!(checked, Ok((frame, Ok(transport))));
    assert_eq!(RocePacket::parse(transport), Ok(packet));
}

#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_vectors))]
mod tests {
    use super::*;

    /// RNIC-ICRC-02, RNIC-HDR-06.
    #[test]
    fn send_only_over_ipv4_has_the_octets() {
        check(
            V4,
            Bth {
                solicited: true,
                ..bth(Opcode::RcSendOnly, 0x12_3456)
            },
            Extensions::default(),
            PAYLOAD,
            &[
                0x45, 0, 0, 0x3c, 0x12, 0x34, 0x40, 0, 0x40, 0x11, 0x14, 0x7b, 0x0a, 0, 0, 1, 0x0a,
                0, 0, 2, 0xc0, 0xde, 0x12, 0xb7, 0, 0x28, 0, 0, 4, 0xc0, 0xff, 0xff, 0, 0x10, 0,
                0x11, 0x80, 0x12, 0x34, 0x56, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49,
                0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f, 0x50, 0xa5, 0xe1, 0xd1, 0xb5,
            ],
        );
    }

    /// RNIC-ICRC-02, RNIC-HDR-04.
    #[test]
    fn padded_send_over_ipv4_has_the_octets() {
        check(
            V4,
            bth(Opcode::RcSendOnly, 0xff_ffff),
            Extensions::default(),
            b"abc",
            &[
                0x45, 0, 0, 0x30, 0x12, 0x34, 0x40, 0, 0x40, 0x11, 0x14, 0x87, 0x0a, 0, 0, 1, 0x0a,
                0, 0, 2, 0xc0, 0xde, 0x12, 0xb7, 0, 0x1c, 0, 0, 4, 0x50, 0xff, 0xff, 0, 0x10, 0,
                0x11, 0x80, 0xff, 0xff, 0xff, 0x61, 0x62, 0x63, 0, 0xf1, 0xc8, 0x48, 0xbc,
            ],
        );
    }

    /// RNIC-HDR-02.
    #[test]
    fn write_only_over_ipv4_has_the_octets() {
        check(
            V4,
            bth(Opcode::RcWriteOnly, 0),
            Extensions {
                reth: Some(Reth {
                    vaddr: 0x1122_3344_5566_7788,
                    rkey: RKey::new(0xa01),
                    len: 16,
                }),
                ..Extensions::default()
            },
            PAYLOAD,
            &[
                0x45, 0, 0, 0x4c, 0x12, 0x34, 0x40, 0, 0x40, 0x11, 0x14, 0x6b, 0x0a, 0, 0, 1, 0x0a,
                0, 0, 2, 0xc0, 0xde, 0x12, 0xb7, 0, 0x38, 0, 0, 0x0a, 0x40, 0xff, 0xff, 0, 0x10, 0,
                0x11, 0x80, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0x0a, 1,
                0, 0, 0, 0x10, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b,
                0x4c, 0x4d, 0x4e, 0x4f, 0x50, 0x6b, 0x13, 0xb8, 0x30,
            ],
        );
    }

    /// RNIC-FLOW-01, RNIC-FLOW-02.
    #[test]
    fn acknowledge_over_ipv4_has_the_octets() {
        check(
            V4,
            Bth::new(0x11, Qpn::new(0x10_0012), Psn::new(0x12_3456)),
            Extensions {
                aeth: Some(Aeth {
                    syndrome: Some(Syndrome::ACK),
                    msn: 1,
                }),
                ..Extensions::default()
            },
            &[],
            &[
                0x45, 0, 0, 0x30, 0x12, 0x34, 0x40, 0, 0x40, 0x11, 0x14, 0x87, 0x0a, 0, 0, 1, 0x0a,
                0, 0, 2, 0xc0, 0xde, 0x12, 0xb7, 0, 0x1c, 0, 0, 0x11, 0x40, 0xff, 0xff, 0, 0x10, 0,
                0x12, 0, 0x12, 0x34, 0x56, 0x1f, 0, 0, 1, 0x7d, 0x19, 0xe9, 0x93,
            ],
        );
    }

    /// RNIC-FLOW-01.
    #[test]
    fn sequence_nak_over_ipv4_has_the_octets() {
        check(
            V4,
            Bth::new(0x11, Qpn::new(0x10_0012), Psn::new(0x12_3457)),
            Extensions {
                aeth: Some(Aeth {
                    syndrome: Some(Syndrome::Nak(NakCode::Sequence)),
                    msn: 1,
                }),
                ..Extensions::default()
            },
            &[],
            &[
                0x45, 0, 0, 0x30, 0x12, 0x34, 0x40, 0, 0x40, 0x11, 0x14, 0x87, 0x0a, 0, 0, 1, 0x0a,
                0, 0, 2, 0xc0, 0xde, 0x12, 0xb7, 0, 0x1c, 0, 0, 0x11, 0x40, 0xff, 0xff, 0, 0x10, 0,
                0x12, 0, 0x12, 0x34, 0x57, 0x60, 0, 0, 1, 7, 0x80, 0xd5, 0x9d,
            ],
        );
    }

    /// RNIC-IP-14.
    #[test]
    fn cnp_over_ipv4_has_the_octets() {
        check(
            V4,
            Bth {
                becn: true,
                ..Bth::new(0x81, Qpn::new(0x10_0011), Psn::new(0))
            },
            Extensions::default(),
            &[0; 16],
            &[
                0x45, 0, 0, 0x3c, 0x12, 0x34, 0x40, 0, 0x40, 0x11, 0x14, 0x7b, 0x0a, 0, 0, 1, 0x0a,
                0, 0, 2, 0xc0, 0xde, 0x12, 0xb7, 0, 0x28, 0, 0, 0x81, 0x40, 0xff, 0xff, 0x40, 0x10,
                0, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x47, 0x87,
                0x41, 0x63,
            ],
        );
    }

    /// RNIC-UD-02.
    #[test]
    fn datagram_over_ipv4_has_the_octets() {
        check(
            V4,
            Bth::new(0x64, Qpn::new(1), Psn::new(5)),
            Extensions {
                deth: Some(Deth {
                    qkey: 0x8001_0000,
                    src_qp: Qpn::new(1),
                }),
                ..Extensions::default()
            },
            &[0; 16],
            &[
                0x45, 0, 0, 0x44, 0x12, 0x34, 0x40, 0, 0x40, 0x11, 0x14, 0x73, 0x0a, 0, 0, 1, 0x0a,
                0, 0, 2, 0xc0, 0xde, 0x12, 0xb7, 0, 0x30, 0, 0, 0x64, 0x40, 0xff, 0xff, 0, 0, 0, 1,
                0, 0, 0, 5, 0x80, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0, 0xec, 0x3f, 0x3f, 0x45,
            ],
        );
    }

    /// RNIC-ICRC-03.
    #[test]
    fn send_only_over_ipv6_has_the_octets() {
        check(
            RoceRoute::V2Ipv6(IPV6, 0xc0de),
            Bth {
                solicited: true,
                ..bth(Opcode::RcSendOnly, 0x12_3456)
            },
            Extensions::default(),
            PAYLOAD,
            &[
                0x60, 0, 0, 0, 0, 0x28, 0x11, 0x40, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff,
                0xfe, 0, 0, 1, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2, 0xc0,
                0xde, 0x12, 0xb7, 0, 0x28, 0, 0, 4, 0xc0, 0xff, 0xff, 0, 0x10, 0, 0x11, 0x80, 0x12,
                0x34, 0x56, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c,
                0x4d, 0x4e, 0x4f, 0x50, 2, 0xdf, 0xde, 0x76,
            ],
        );
    }

    /// RNIC-ICRC-03.
    #[test]
    fn padded_send_over_ipv6_has_the_octets() {
        check(
            RoceRoute::V2Ipv6(IPV6, 0xc0de),
            bth(Opcode::RcSendOnly, 0xff_ffff),
            Extensions::default(),
            b"abc",
            &[
                0x60, 0, 0, 0, 0, 0x1c, 0x11, 0x40, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff,
                0xfe, 0, 0, 1, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2, 0xc0,
                0xde, 0x12, 0xb7, 0, 0x1c, 0, 0, 4, 0x50, 0xff, 0xff, 0, 0x10, 0, 0x11, 0x80, 0xff,
                0xff, 0xff, 0x61, 0x62, 0x63, 0, 0xfd, 0xe8, 0x10, 0x50,
            ],
        );
    }

    /// RNIC-ICRC-04, RNIC-IP-04.
    #[test]
    fn send_only_behind_grh_has_the_octets() {
        check(
            RoceRoute::V1(IPV6),
            Bth {
                solicited: true,
                ..bth(Opcode::RcSendOnly, 0x12_3456)
            },
            Extensions::default(),
            PAYLOAD,
            &[
                0x60, 0, 0, 0, 0, 0x20, 0x1b, 0x40, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff,
                0xfe, 0, 0, 1, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2, 4, 0xc0,
                0xff, 0xff, 0, 0x10, 0, 0x11, 0x80, 0x12, 0x34, 0x56, 0x41, 0x42, 0x43, 0x44, 0x45,
                0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f, 0x50, 0x8b, 0x0e, 0x74,
                0xbc,
            ],
        );
    }

    /// RNIC-ICRC-04, RNIC-IP-04.
    #[test]
    fn padded_send_behind_grh_has_the_octets() {
        check(
            RoceRoute::V1(IPV6),
            bth(Opcode::RcSendOnly, 0xff_ffff),
            Extensions::default(),
            b"abc",
            &[
                0x60, 0, 0, 0, 0, 0x14, 0x1b, 0x40, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff,
                0xfe, 0, 0, 1, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2, 4, 0x50,
                0xff, 0xff, 0, 0x10, 0, 0x11, 0x80, 0xff, 0xff, 0xff, 0x61, 0x62, 0x63, 0, 3, 0x0d,
                0x80, 0x39,
            ],
        );
    }

    /// RNIC-ICRC-02: routers and switches may change these fields.
    #[test]
    fn change_of_variant_field_keeps_the_checksum_right() {
        // TOS, TTL, both checksums, FECN and BECN.
        for at in [1, 8, 10, 11, 26, 27, 32] {
            assert_eq!(outcome_after_change(at), Some(Ok(())));
        }
    }

    /// RNIC-ICRC-06.
    #[test]
    fn change_of_any_other_octet_is_found() {
        let variant = [1, 8, 10, 11, 26, 27, 32];
        for at in (0..SEND.len()).filter(|at| !variant.contains(at)) {
            let outcome = outcome_after_change(at);
            // A header that does not parse is dropped before its checksum.
            assert!(matches!(
                outcome,
                None | Some(Err(icrc::IcrcError::Mismatch))
            ));
            assert!(outcome.is_some() || matches!(at, 0 | 2 | 3 | 6 | 7 | 9 | 22 | 23 | 24 | 25));
        }
    }

    /// The check of `SEND` with one octet inverted; `None` if its headers do not parse.
    fn outcome_after_change(at: usize) -> Option<Result<(), icrc::IcrcError>> {
        let mut octets = [0; SEND.len()];
        octets.copy_from_slice(SEND);
        octets[at] ^= 0xff;
        let (frame, rest) = Frame::parse_ipv4(&octets).ok()?;
        Some(icrc::check(&Slicing, &frame, rest).map(|_| ()))
    }

    /// RNIC-HDR-07.
    #[test]
    fn packet_without_room_for_a_checksum_is_refused() {
        let frame = V4.frame(0);
        for len in 0..16 {
            let outcome = frame.map(|frame| icrc::check(&Slicing, &frame, &[0; 16][..len]));
            assert_eq!(outcome, Some(Err(icrc::IcrcError::Truncated)));
        }
    }
}
