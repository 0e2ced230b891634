// SPDX-License-Identifier: GPL-2.0

//! The messages octet for octet, and what is no message, as tests of [`super::msg`].
//!
//! The vectors are those of the catalogue, made from the figures of RFC 7609, appendix A.3.

#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_msg))]
mod tests {
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
            llc::{
                add_link::{
                    AddLink,
                    Refusal, //
                },
                add_link_cont::{
                    AddLinkCont,
                    RTokenPair, //
                },
                confirm_link::ConfirmLink,
                confirm_rkey::{
                    ConfirmRkey,
                    Other, //
                },
                confirm_rkey_cont::ConfirmRkeyCont,
                delete_link::{
                    DeleteLink,
                    DeleteReason, //
                },
                delete_rkey::DeleteRkey,
                msg::{
                    Layout,
                    LlcBody,
                    LlcParseError,
                    Octets,
                    MESSAGE_BYTES, //
                },
                test_link::TestLink, //
            },
            wire::{
                LinkNum,
                RToken, //
            },
        },
    };

    /// `head` and zeros behind it.
    const fn padded(head: &[u8]) -> Octets {
        let mut octets = [0; MESSAGE_BYTES];
        let mut at = 0;
        while at < head.len() {
            octets[at] = head[at];
            at += 1;
        }
        octets
    }

    /// VEC-07: CONFIRM LINK req.
    const VEC_07: Octets = padded(&[
        0x01, 0x2c, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x0a, 0x01, 0xfe, 0x80, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xfe, 0x00, 0x0a, 0x01, 0x00, 0x00, 0x08, 0x01,
        0x00, 0x00, 0x01, 0x01, 0x02,
    ]);

    /// VEC-08: CONFIRM LINK rsp.
    const VEC_08: Octets = padded(&[
        0x01, 0x2c, 0x00, 0x80, 0x02, 0x00, 0x00, 0x00, 0x0b, 0x01, 0xfe, 0x80, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xfe, 0x00, 0x0b, 0x01, 0x00, 0x00, 0x40, 0x01,
        0x00, 0x00, 0x02, 0x02, 0x02,
    ]);

    /// VEC-09: ADD LINK req.
    const VEC_09: Octets = padded(&[
        0x02, 0x2c, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x0a, 0x02, 0xfe, 0x80, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xfe, 0x00, 0x0a, 0x02, 0x00, 0x00, 0x09, 0x02,
        0x03, 0x00, 0x07, 0x77,
    ]);

    /// VEC-10: ADD LINK reject.
    const VEC_10: Octets = padded(&[
        0x02, 0x2c, 0x01, 0xc0, 0x02, 0x00, 0x00, 0x00, 0x0b, 0x02, 0xfe, 0x80, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xfe, 0x00, 0x0b, 0x02, 0x00, 0x00, 0x00, 0x02,
    ]);

    /// VEC-11: ADD LINK CONT req.
    const VEC_11: Octets = padded(&[
        0x03, 0x2c, 0x00, 0x00, 0x02, 0x01, 0x00, 0x00, 0x11, 0x22, 0x33, 0x44, 0x99, 0xaa, 0xbb,
        0xcc, 0x00, 0x00, 0x71,
    ]);

    /// VEC-12: DELETE LINK req.
    const VEC_12: Octets = padded(&[0x04, 0x2c, 0x00, 0x00, 0x01, 0x00, 0x01]);

    /// VEC-13: DELETE LINK all.
    const VEC_13: Octets = padded(&[0x04, 0x2c, 0x00, 0x60, 0x00, 0x00, 0x02]);

    /// VEC-14: DELETE LINK rsp unknown.
    const VEC_14: Octets = padded(&[0x04, 0x2c, 0x00, 0x80, 0x09, 0x00, 0x10]);

    /// VEC-15: CONFIRM RKEY req.
    const VEC_15: Octets = padded(&[
        0x06, 0x2c, 0x00, 0x00, 0x01, 0xdd, 0xee, 0xff, 0x00, 0x00, 0x00, 0x72, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x02, 0xdd, 0xee, 0xff, 0x02, 0x00, 0x00, 0x72,
    ]);

    /// VEC-16: CONFIRM RKEY neg rsp.
    const VEC_16: Octets = padded(&[
        0x06, 0x2c, 0x00, 0xb0, 0x01, 0xdd, 0xee, 0xff, 0x00, 0x00, 0x00, 0x72, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x02, 0xdd, 0xee, 0xff, 0x02, 0x00, 0x00, 0x72,
    ]);

    /// VEC-17: TEST LINK req.
    const VEC_17: Octets = padded(&[
        0x07, 0x2c, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a,
        0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
    ]);

    /// VEC-18: CONFIRM RKEY CONT req.
    const VEC_18: Octets = padded(&[
        0x08, 0x2c, 0x00, 0x00, 0x03, 0x04, 0xdd, 0xee, 0xff, 0x04, 0x00, 0x00, 0x72, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x05, 0xdd, 0xee, 0xff, 0x05, 0x00, 0x00, 0x72, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x06, 0xdd, 0xee, 0xff, 0x06, 0x00, 0x00, 0x72,
    ]);

    /// VEC-19: DELETE RKEY neg rsp.
    const VEC_19: Octets = padded(&[
        0x09, 0x2c, 0x00, 0xa0, 0x04, 0x50, 0x00, 0x00, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01,
        0x02, 0x01, 0x01, 0x01, 0x03, 0x01, 0x01, 0x01, 0x04,
    ]);

    /// MAC of the port with the last two octets `last`, as in the vectors.
    const fn mac(last: [u8; 2]) -> Mac {
        let [a, b] = last;
        Mac::new([2, 0, 0, 0, a, b])
    }

    /// GID of the port with the last two octets `last`, as in the vectors.
    const fn gid(last: [u8; 2]) -> Gid {
        let [a, b] = last;
        Gid::new([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, a, b])
    }

    /// A token.
    const fn token(rkey: u32, vaddr: u64) -> RToken {
        RToken {
            rkey: RKey::new(rkey),
            vaddr,
        }
    }

    /// A token on another link.
    const fn other(number: u8, rkey: u32, vaddr: u64) -> Other {
        Other {
            number: LinkNum::new(number),
            token: token(rkey, vaddr),
        }
    }

    /// Whether `octets` mean `message`, in both directions.
    fn is(octets: &Octets, layout: Layout, message: LlcBody) -> bool {
        LlcBody::parse(octets, layout) == Ok(message) && message.emit(layout) == Some(*octets)
    }

    /// The message, if it is a CONFIRM LINK.
    fn confirm_link(octets: &Octets) -> Option<ConfirmLink> {
        match LlcBody::parse(octets, Layout::Linux) {
            Ok(LlcBody::ConfirmLink(message)) => Some(message),
            _ => None,
        }
    }

    /// The message, if it is an ADD LINK.
    fn add_link(octets: &Octets) -> Option<AddLink> {
        match LlcBody::parse(octets, Layout::Rfc) {
            Ok(LlcBody::AddLink(message)) => Some(message),
            _ => None,
        }
    }

    /// The message, if it is a DELETE RKEY.
    fn delete_rkey(octets: &Octets) -> Option<DeleteRkey> {
        match LlcBody::parse(octets, Layout::Rfc) {
            Ok(LlcBody::DeleteRkey(message)) => Some(message),
            _ => None,
        }
    }

    /// LLC-101 to LLC-111.
    // TST-031.
    #[test]
    fn confirm_link_vectors() {
        let request = ConfirmLink {
            reply: false,
            no_eye_catcher: false,
            mac: mac([0x0a, 1]),
            gid: gid([0x0a, 1]),
            qpn: Qpn::new(8),
            number: LinkNum::new(1),
            uid: 0x101,
            max_links: 2,
            max_conns: 0,
        };
        assert!(is(&VEC_07, Layout::Rfc, LlcBody::ConfirmLink(request)));
        let reply = ConfirmLink {
            reply: true,
            mac: mac([0x0b, 1]),
            gid: gid([0x0b, 1]),
            qpn: Qpn::new(0x40),
            uid: 0x202,
            ..request
        };
        assert!(is(&VEC_08, Layout::Rfc, LlcBody::ConfirmLink(reply)));
    }

    /// DEP-1.
    #[test]
    fn confirm_link_announces_eye_catchers() {
        let mut octets = VEC_07;
        for (flags, expected) in [(0, false), (1, true), (2, true), (3, true), (0x83, true)] {
            octets[3] = flags;
            let message = confirm_link(&octets);
            assert_eq!(message.map(|m| m.no_eye_catcher), Some(expected));
            assert_eq!(message.map(|m| m.reply), Some(flags & 0x80 != 0));
            let sent = message.map(|m| m.emit()[3] & 3 == 3);
            assert_eq!(sent, Some(expected));
        }
    }

    /// LLC-201 to LLC-213.
    // TST-031.
    #[test]
    fn add_link_vectors() {
        let request = AddLink {
            reply: false,
            refusal: None,
            mac: mac([0x0a, 2]),
            gid: gid([0x0a, 2]),
            qpn: Qpn::new(9),
            number: LinkNum::new(2),
            mtu: Some(Mtu::M1024),
            psn: Psn::new(0x777),
        };
        assert!(is(&VEC_09, Layout::Rfc, LlcBody::AddLink(request)));
        let refusal = AddLink {
            reply: true,
            refusal: Some(Refusal::NoAlternatePath),
            mac: mac([0x0b, 2]),
            gid: gid([0x0b, 2]),
            qpn: Qpn::new(0),
            mtu: None,
            psn: Psn::new(0),
            ..request
        };
        assert!(is(&VEC_10, Layout::Rfc, LlcBody::AddLink(refusal)));
    }

    /// DEP-2: the same fields, from the GID on two octets further back.
    #[test]
    fn add_link_of_linux_is_shifted() {
        let mut shifted = [0; MESSAGE_BYTES];
        shifted[..10].copy_from_slice(&VEC_09[..10]);
        shifted[12..36].copy_from_slice(&VEC_09[10..34]);
        let message = add_link(&VEC_09).map(LlcBody::AddLink);
        assert!(message.is_some_and(|message| is(&shifted, Layout::Linux, message)));
    }

    /// LLC-204, LLC-211: codes without a meaning are kept apart from those with one.
    #[test]
    fn add_link_keeps_unknown_codes() {
        let mut octets = VEC_10;
        for code in 0..=15_u8 {
            octets[2] = 0xf0 | code;
            octets[30] = 0xf0 | code;
            let message = add_link(&octets);
            let refusal = message.and_then(|m| m.refusal);
            let expected = match code {
                1 => Refusal::NoAlternatePath,
                2 => Refusal::InvalidMtu,
                _ => Refusal::Other(code),
            };
            assert_eq!(refusal, Some(expected));
            assert_eq!(message.map(|m| m.mtu), Some(Mtu::from_code(code)));
            assert_eq!(message.map(|m| m.emit(Layout::Rfc)[2]), Some(code));
        }
    }

    /// LLC-301 to LLC-313.
    // TST-031.
    #[test]
    fn add_link_cont_vector() {
        let message = AddLinkCont {
            reply: false,
            number: LinkNum::new(2),
            left: 1,
            pairs: [
                RTokenPair {
                    reference: RKey::new(0x1122_3344),
                    token: token(0x99aa_bbcc, 0x7100_0000_0000),
                },
                RTokenPair {
                    reference: RKey::new(0),
                    token: token(0, 0),
                },
            ],
        };
        assert!(is(&VEC_11, Layout::Rfc, LlcBody::AddLinkCont(message)));
    }

    /// LLC-306 to LLC-313: where both pairs lie.
    #[test]
    fn add_link_cont_with_two_pairs() {
        let octets = padded(&[
            3, 44, 0, 0, 2, 7, 0, 0, // Two of seven.
            1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
            0x18, // The first.
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36,
            0x37, 0x38, // The second.
        ]);
        let pair = |reference, rkey, vaddr| RTokenPair {
            reference: RKey::new(reference),
            token: token(rkey, vaddr),
        };
        let message = AddLinkCont {
            reply: false,
            number: LinkNum::new(2),
            left: 7,
            pairs: [
                pair(0x0102_0304, 0x0506_0708, 0x1112_1314_1516_1718),
                pair(0x2122_2324, 0x2526_2728, 0x3132_3334_3536_3738),
            ],
        };
        assert!(is(&octets, Layout::Rfc, LlcBody::AddLinkCont(message)));
    }

    /// LLC-401 to LLC-407.
    // TST-031.
    #[test]
    fn delete_link_vectors() {
        let one = DeleteLink {
            reply: false,
            all: false,
            orderly: false,
            number: LinkNum::new(1),
            reason: DeleteReason::LostPath,
        };
        assert!(is(&VEC_12, Layout::Rfc, LlcBody::DeleteLink(one)));
        let all = DeleteLink {
            all: true,
            orderly: true,
            number: LinkNum::new(0),
            reason: DeleteReason::Operator,
            ..one
        };
        assert!(is(&VEC_13, Layout::Rfc, LlcBody::DeleteLink(all)));
        let unknown = DeleteLink {
            reply: true,
            number: LinkNum::new(9),
            reason: DeleteReason::UnknownLink,
            ..one
        };
        assert!(is(&VEC_14, Layout::Rfc, LlcBody::DeleteLink(unknown)));
    }

    /// LLC-406, AMB-11.
    #[test]
    fn delete_reasons_survive() {
        for code in [0, 1, 2, 3, 4, 5, 6, 0x10, 0x20, 0xffff] {
            let code = code << 16;
            assert_eq!(DeleteReason::from_code(code).code(), code);
        }
        assert_eq!(DeleteReason::from_code(7), DeleteReason::Other(7));
    }

    /// LLC-601 to LLC-613.
    // TST-031.
    #[test]
    fn confirm_rkey_vectors() {
        let request = ConfirmRkey {
            reply: false,
            negative: false,
            retry: false,
            count: 1,
            token: token(0xddee_ff00, 0x7200_0000_0000),
            others: [other(2, 0xddee_ff02, 0x7200_0000_0000), Other::NONE],
        };
        assert!(is(&VEC_15, Layout::Rfc, LlcBody::ConfirmRkey(request)));
        let negative = ConfirmRkey {
            reply: true,
            negative: true,
            retry: true,
            ..request
        };
        assert!(is(&VEC_16, Layout::Rfc, LlcBody::ConfirmRkey(negative)));
    }

    /// LLC-701 to LLC-706.
    // TST-031.
    #[test]
    fn test_link_vector() {
        let message = TestLink {
            reply: false,
            user_data: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        };
        assert!(is(&VEC_17, Layout::Rfc, LlcBody::TestLink(message)));
    }

    /// LLC-801 to LLC-808, AMB-13.
    // TST-031.
    #[test]
    fn confirm_rkey_cont_vector() {
        let message = ConfirmRkeyCont {
            reply: false,
            negative: false,
            left: 3,
            others: [
                other(4, 0xddee_ff04, 0x7200_0000_0000),
                other(5, 0xddee_ff05, 0x7200_0000_0000),
                other(6, 0xddee_ff06, 0x7200_0000_0000),
            ],
        };
        assert!(is(&VEC_18, Layout::Rfc, LlcBody::ConfirmRkeyCont(message)));
    }

    /// LLC-901 to LLC-909.
    // TST-014, TST-031.
    #[test]
    fn delete_rkey_vector() {
        let message = delete_rkey(&VEC_19);
        assert!(message.is_some_and(|m| m.reply && m.negative && m.error_mask == 0x50));
        let keys = message.iter().flat_map(DeleteRkey::keys);
        let failed = keys.filter(|(_, bit)| bit & 0x50 != 0);
        assert!(failed
            .map(|(key, _)| key.get())
            .eq([0x0101_0102, 0x0101_0104]));
        assert_eq!(message.map(|m| m.keys().count()), Some(4));
        assert_eq!(message.map(|m| m.emit(Layout::Rfc)), Some(VEC_19));
    }

    /// SMC-Rv2: nine keys fit, and a reply counts those that were not known.
    #[test]
    fn delete_rkey_of_version_2_holds_nine() {
        let mut octets = padded(&[0x29, 0, 44, 0, 9]);
        octets[43] = 7;
        let keys = |octets: &[u8]| match LlcBody::parse(octets, Layout::V2) {
            Ok(LlcBody::DeleteRkey(message)) => message
                .keys()
                .last()
                .map(|(key, _)| (key.get(), message.keys().count())),
            _ => None,
        };
        assert_eq!(keys(&octets), Some((7, 9)));
        octets[4] = 2;
        assert_eq!(keys(&octets), Some((0, 2)));
        // The tenth would be behind the end.
        octets[4] = 10;
        let parsed = LlcBody::parse(&octets, Layout::V2);
        assert_eq!(parsed, Err(LlcParseError::Count));
    }

    /// GEN-08, ERR-41.
    #[test]
    fn other_lengths_are_rejected() {
        for len in 0..MESSAGE_BYTES {
            let parsed = LlcBody::parse(&VEC_07[..len], Layout::Linux);
            assert_eq!(parsed, Err(LlcParseError::Length));
        }
        assert_eq!(
            LlcBody::parse(&[1; MESSAGE_BYTES + 1], Layout::Linux),
            Err(LlcParseError::Length)
        );
        let mut octets = VEC_07;
        for length in (0..=u8::MAX).filter(|length| *length != 44) {
            octets[1] = length;
            let parsed = LlcBody::parse(&octets, Layout::Linux);
            assert_eq!(parsed, Err(LlcParseError::Length));
        }
    }

    /// LLC-06 to LLC-08, ERR-40, AMB-04.
    // GEN-12, TST-125.
    #[test]
    fn every_opcode_is_classified() {
        let mut octets = padded(&[0, 44, 0, 0, 1, 1]);
        for opcode in 0..=u8::MAX {
            octets[0] = opcode;
            let parsed = LlcBody::parse(&octets, Layout::Linux);
            match opcode {
                1..=4 | 6..=9 => assert!(parsed.is_ok()),
                0x80..=0xbf => assert_eq!(parsed, Ok(LlcBody::Optional(opcode))),
                _ => assert_eq!(parsed, Err(LlcParseError::UnknownOpcode(opcode))),
            }
        }
        // Not even the length of an optional message is checked.
        assert_eq!(
            LlcBody::parse(&[0x80], Layout::Rfc),
            Ok(LlcBody::Optional(0x80))
        );
        assert_eq!(LlcBody::Optional(0x80).emit(Layout::Rfc), None);
    }

    /// LLC-605, LLC-905.
    #[test]
    fn impossible_counts_are_rejected() {
        let (mut confirm, mut delete) = (VEC_15, VEC_19);
        for count in 0..=u8::MAX {
            confirm[4] = count;
            let parsed = LlcBody::parse(&confirm, Layout::Rfc);
            assert_eq!(parsed.is_ok(), (0..=7).contains(&count));
            delete[4] = count;
            let parsed = LlcBody::parse(&delete, Layout::Rfc);
            assert_eq!(parsed.is_ok(), (1..=8).contains(&count));
        }
    }

    /// SMC-Rv2: the opcode shows the version, and the length may be in either order of octets.
    #[test]
    fn version_2_differs_in_the_header() {
        for (layout, a, b) in [(Layout::V2, 0, 44), (Layout::V2Little, 44, 0)] {
            for vector in [
                VEC_07, VEC_08, VEC_12, VEC_13, VEC_14, VEC_15, VEC_16, VEC_17,
            ] {
                let message = LlcBody::parse(&vector, Layout::Rfc);
                let mut octets = vector;
                octets[0] |= 0x20;
                octets[1] = a;
                octets[2] = b;
                assert_eq!(LlcBody::parse(&octets, Layout::V2), message);
                assert_eq!(LlcBody::parse(&octets, Layout::V2Little), message);
                let sent = message.ok().and_then(|message| message.emit(layout));
                assert_eq!(sent, Some(octets));
                assert_eq!(Layout::V2.shown_by(&octets), layout);
                assert_eq!(Layout::V2Little.shown_by(&octets), layout);
                assert_eq!(Layout::Linux.shown_by(&octets), Layout::Linux);
                // Each version is foreign to the other.
                assert!(LlcBody::parse(&octets, Layout::Linux).is_err());
                assert!(LlcBody::parse(&vector, Layout::V2).is_err());
                octets[2] ^= 1;
                assert_eq!(
                    LlcBody::parse(&octets, Layout::V2),
                    Err(LlcParseError::Length)
                );
            }
        }
        assert_eq!(Layout::V2.value([1, 2]), 0x0102);
        assert_eq!(Layout::V2Little.value([1, 2]), 0x0201);
    }

    /// SMC-Rv2: ADD LINK CONTINUATION does not exist, optional messages do.
    #[test]
    fn version_2_knows_its_opcodes() {
        let mut octets = padded(&[0, 0, 44, 0, 1, 1]);
        for opcode in 0..=u8::MAX {
            octets[0] = opcode;
            let parsed = LlcBody::parse(&octets, Layout::V2);
            match opcode {
                0x21 | 0x22 | 0x24..=0x29 => assert!(parsed.is_ok()),
                0x80..=0xbf => assert_eq!(parsed, Ok(LlcBody::Optional(opcode))),
                _ => assert_eq!(parsed, Err(LlcParseError::UnknownOpcode(opcode))),
            }
        }
    }

    /// SMC-Rv2: Linux refuses a link with the start of the request, in whose length it puts a reason.
    // LLF-16, DEP-2.
    #[test]
    fn refusal_of_linux_has_another_length() {
        // The request had 88 octets; 1 is the reason.
        let head = [0x22, 0x58, 0x01, 0xc0, 2, 0, 0, 0, 0, 1];
        let refusal = padded(&head);
        for layout in [Layout::V2, Layout::V2Little] {
            let message = LlcBody::parse(&refusal, layout);
            assert!(matches!(
                message,
                Ok(LlcBody::AddLink(AddLink {
                    reply: true,
                    refusal: Some(_),
                    ..
                }))
            ));
            // It shows nothing of the order of octets.
            assert_eq!(layout.shown_by(&refusal), layout);
            // No other message may do so.
            for (at, value) in [(0, 0x21), (3, 0x80)] {
                let mut other = refusal;
                if let Some(octet) = other.get_mut(at) {
                    *octet = value;
                }
                assert_eq!(LlcBody::parse(&other, layout), Err(LlcParseError::Length));
            }
            let longer: [u8; 60] = core::array::from_fn(|at| refusal.get(at).copied().unwrap_or(0));
            assert_eq!(LlcBody::parse(&longer, layout), Err(LlcParseError::Length));
        }
    }

    /// SMC-Rv2: there is no place for the reason.
    #[test]
    fn refusal_of_version_2_has_no_reason() {
        let mut octets = padded(&[0x22, 0, 44, 0xc0]);
        octets[31] = 2;
        let message = LlcBody::parse(&octets, Layout::V2);
        assert_eq!(message.map(|m| m.emit(Layout::V2)), Ok(Some(octets)));
        let refusal = match message {
            Ok(LlcBody::AddLink(message)) => message.refusal,
            _ => None,
        };
        assert_eq!(refusal, Some(Refusal::Other(0)));
    }

    /// GEN-10: reserved octets are neither checked nor sent.
    #[test]
    fn reserved_octets_are_ignored() {
        let mut octets = VEC_17;
        octets[2] = 0xff;
        octets[3] = 0x7f;
        octets[20..].fill(0xff);
        let parsed = LlcBody::parse(&octets, Layout::Rfc);
        assert_eq!(parsed, LlcBody::parse(&VEC_17, Layout::Rfc));
    }
}
