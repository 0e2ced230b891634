// SPDX-License-Identifier: GPL-2.0

//! Octets of every message in both layouts, and what is refused.

use super::*;
use crate::proto::sdp::hex::hex;

const LAYOUTS: [WireLayout; 2] = [WireLayout::IdFirst, WireLayout::IdLast];

fn message(body: Body, bufs: u16, mseq: u32, mseq_ack: u32, payload: u32) -> SdpMessage {
    SdpMessage {
        flags: BsdhFlags::default(),
        bufs,
        mseq: Serial::new(mseq),
        mseq_ack: Serial::new(mseq_ack),
        body,
        payload,
    }
}

fn mode_change(receiver_sends: bool, mode: HalfMode) -> Body {
    Body::ModeChange {
        receiver_sends,
        mode,
    }
}

/// Each message of a connection, with its octets in both layouts and its payload.
fn all() -> Vec<(SdpMessage, [Vec<u8>; 2])> {
    let src = Advert {
        len: 0x10000,
        stag: 0xaabb_ccdd,
        va: 0x0123_4567_89ab_cdef,
    };
    let sink = Body::SinkAvail {
        advert: Advert {
            len: 0x20000,
            stag: 0x1122_3344,
            va: 0x1000,
        },
        non_discards: 3,
    };
    let mut urgent = message(Body::Data, 64, 6, 4, 1);
    urgent.flags.urgent_present = true;
    urgent.flags.urgent_pending = true;
    let mut read = message(Body::RdmaRdCompl(0xffff), 10, 9, 7, 0);
    read.flags.wants_pipelined = true;
    let tail = |word: &str| hex(&format!("00000014 0000000a 00000007 {word}"));
    let both = |first: &str, last: &str, b: &[u8], l: &[u8]| {
        [[&hex(first)[..], b].concat(), [&hex(last)[..], l].concat()]
    };
    let same = |first: &str, last: &str, rest: &str| both(first, last, &hex(rest), &hex(rest));
    let bare = |body: Body, code: u8| {
        let rest = "00000010 0000000a 00000007";
        let first = format!("{code:02x}00000a");
        let last = format!("000a00{code:02x}");
        (message(body, 10, 10, 7, 0), same(&first, &last, rest))
    };
    let mode = |s, mode, b: &str, l: &str| {
        (
            message(mode_change(s, mode), 10, 10, 7, 0),
            both("0700000a", "000a0007", &tail(b), &tail(l)),
        )
    };
    let number = |body: Body, code: u8| {
        let first = format!("{code:02x}00000a");
        let last = format!("000a00{code:02x}");
        let rest = "00000014 0000000a 00000007 00012345";
        (message(body, 10, 10, 7, 0), same(&first, &last, rest))
    };
    vec![
        (
            message(Body::Data, 64, 5, 4, 5),
            same(
                "ff000040",
                "004000ff",
                "00000015 00000005 00000004 68656c6c6f",
            ),
        ),
        (
            urgent,
            same("ff030040", "004003ff", "00000011 00000006 00000004 21"),
        ),
        (
            message(Body::SrcAvail(src), 10, 7, 9, 1),
            same(
                "fe00000a",
                "000a00fe",
                "00000021 00000007 00000009 00010000 aabbccdd 01234567 89abcdef 78",
            ),
        ),
        (
            message(sink, 10, 8, 9, 0),
            same(
                "fd00000a",
                "000a00fd",
                "00000024 00000008 00000009 00020000 11223344 00000000 00001000 00000003",
            ),
        ),
        (
            read,
            same(
                "0604000a",
                "000a0406",
                "00000014 00000009 00000007 0000ffff",
            ),
        ),
        (
            message(Body::SuspComm(5001), 10, 11, 7, 0),
            both(
                "0d00000a",
                "000a000d",
                &hex("00000018 0000000b 00000007 00000000 00011389"),
                &hex("00000018 0000000b 00000007 00000000 13890001"),
            ),
        ),
        mode(false, HalfMode::Buffered, "00000000", "00000000"),
        mode(true, HalfMode::Combined, "90000000", "00000003"),
        mode(false, HalfMode::Pipelined, "20000000", "00000004"),
        mode(false, HalfMode::Combined, "10000000", "00000002"),
        bare(Body::DisConn, 0x02),
        bare(Body::AbortConn, 0x03),
        bare(Body::SendSm, 0x04),
        bare(Body::SrcAvailCancel, 0x08),
        bare(Body::SinkAvailCancel, 0x09),
        bare(Body::SinkCancelAck, 0x0a),
        bare(Body::SuspCommAck, 0x0e),
        number(Body::RdmaWrCompl(0x12345), 0x05),
        number(Body::ChRcvBuf(0x12345), 0x0b),
        number(Body::ChRcvBufAck(0x12345), 0x0c),
    ]
}

// SDP-GEN-12 to SDP-GEN-15, SDP-MID-90, SDP-BSDH-18, SDP-DATA-01, SDP-SRC-02, SDP-SNK-02,
// SDP-WRC-01, SDP-RDC-01, SDP-MCH-01, SDP-MCH-04, SDP-MCH-05, SDP-CRB-02, SDP-CRB-05, SDP-SUS-01,
// SDP-SUS-03, SDP-SUS-04, SDP-DISC-02, SDP-ABRT-03, SDP-SSM-02, SDP-SRCC-02, SDP-SNKC-02,
// SDP-SNKA-02, SDP-SCA-02, TST-001.
#[test]
fn message_of_each_type_has_the_octets_of_both_layouts() {
    for (message, octets) in all() {
        for (layout, octets) in LAYOUTS.into_iter().zip(octets) {
            let payload = message.payload as usize;
            let header = message.emit(layout);
            assert_eq!(header.as_slice(), &octets[..octets.len() - payload]);
            assert_eq!(header.as_slice().len(), message.header_len());
            assert_eq!(SdpMessage::parse(&octets, layout), Ok(message));
        }
    }
}

#[test]
fn vectors_of_all_types_but_the_set_up_exist() {
    for mid in Mid::ALL {
        let known = all().iter().any(|(message, _)| message.body.mid() == mid);
        assert_eq!(known, !matches!(mid, Mid::Hello | Mid::HelloAck));
    }
}

// SDP-BSDH-24, SDP-ERR-02.
#[test]
fn message_of_another_length_than_it_says_is_refused() {
    for (_, octets) in all() {
        for (layout, octets) in LAYOUTS.into_iter().zip(octets) {
            for len in 0..octets.len() {
                let cut = SdpMessage::parse(&octets[..len], layout);
                assert_eq!(cut, Err(Malformed::Length));
            }
            let mut long = octets.clone();
            long.push(0);
            assert_eq!(SdpMessage::parse(&long, layout), Err(Malformed::Length));
        }
    }
}

/// Says that the message has the length it has.
fn with_len(mut octets: Vec<u8>) -> Vec<u8> {
    let len = octets.len() as u32;
    octets[4..8].copy_from_slice(&len.to_be_bytes());
    octets
}

// SDP-BSDH-24, SDP-DATA-04, SDP-ERR-02.
#[test]
fn message_with_payload_it_may_not_have_is_refused() {
    for (message, [mut octets, _]) in all() {
        let mid = message.body.mid();
        octets.push(0);
        let found = SdpMessage::parse(&with_len(octets), WireLayout::IdFirst);
        if mid.may_carry_data() {
            assert_eq!(found.map(|m| m.payload), Ok(message.payload + 1))
        } else {
            assert_eq!(found, Err(Malformed::Payload))
        }
    }
}

// SDP-BSDH-24: an extended header that is cut off, though the length says so.
#[test]
fn message_shorter_than_its_headers_is_refused() {
    for (message, [octets, _]) in all() {
        for len in BSDH_LEN..message.header_len() {
            let cut = with_len(octets[..len].to_vec());
            let found = SdpMessage::parse(&cut, WireLayout::IdFirst);
            assert_eq!(found, Err(Malformed::Length));
        }
    }
}

// SDP-MID-93, SDP-ERR-01, SDP-CONN-32, SDP-ERR-16.
#[test]
fn unknown_identifiers_and_the_set_up_are_refused() {
    for code in 0..=u8::MAX {
        let octets = hex(&format!("{code:02x}00000a 00000010 00000001 00000001"));
        let found = SdpMessage::parse(&octets, WireLayout::IdFirst);
        match Mid::from_code(code) {
            None => assert_eq!(found, Err(Malformed::Mid(code))),
            Some(Mid::Hello | Mid::HelloAck) => assert_eq!(found, Err(Malformed::SetUp)),
            Some(mid) if mid.extended_len() > 0 => assert_eq!(found, Err(Malformed::Length)),
            Some(mid) => assert_eq!(found.map(|m| m.body.mid()), Ok(mid)),
        }
    }
}

fn refusal(body: Body, payload: u32) -> Option<Malformed> {
    let message = message(body, 10, 1, 1, payload);
    let mut octets = message.emit(WireLayout::IdFirst).as_slice().to_vec();
    octets.resize(octets.len() + payload as usize, 0);
    SdpMessage::parse(&octets, WireLayout::IdFirst).err()
}

// SDP-SRC-04, SDP-SNK-04, SDP-SRC-08, SDP-ERR-09.
#[test]
fn advert_that_cannot_exist_is_refused() {
    for (len, va, bad) in [
        (0, 0, true),
        (1, u64::MAX, false),
        (2, u64::MAX, true),
        (MAX_LEN, 0, false),
        (MAX_LEN, u64::MAX - u64::from(MAX_LEN) + 1, false),
        (MAX_LEN, u64::MAX - u64::from(MAX_LEN) + 2, true),
        (MAX_LEN + 1, 0, true),
        (u32::MAX, 0, true),
    ] {
        let advert = Advert { len, stag: 1, va };
        let sink = Body::SinkAvail {
            advert,
            non_discards: 0,
        };
        let want = bad.then_some(Malformed::Advert);
        assert_eq!(refusal(Body::SrcAvail(advert), 0), want);
        assert_eq!(refusal(sink, 0), want);
    }
    let advert = Advert {
        len: 5,
        stag: 1,
        va: 0,
    };
    assert_eq!(refusal(Body::SrcAvail(advert), 5), None);
    assert_eq!(refusal(Body::SrcAvail(advert), 6), Some(Malformed::Advert));
}

// SDP-RSZ-25, SDP-ERR-18, AMB-35.
#[test]
fn buffer_size_out_of_range_is_refused() {
    for (size, bad) in [
        (0, true),
        (36, true),
        (37, false),
        (MAX_LEN, false),
        (MAX_LEN + 1, true),
    ] {
        let want = bad.then_some(Malformed::BufferSize);
        assert_eq!(refusal(Body::ChRcvBuf(size), 0), want);
        assert_eq!(refusal(Body::ChRcvBufAck(size), 0), want);
    }
}

// SDP-SUS-03, SDP-SUS-04, SDP-ERR-19.
#[test]
fn suspension_with_other_constants_is_refused() {
    let good = "0d00000a 00000018 0000000b 00000007 00000000 00011389";
    for at in 16..22 {
        let mut octets = hex(good);
        octets[at] ^= 0x40;
        let found = SdpMessage::parse(&octets, WireLayout::IdFirst);
        assert_eq!(found, Err(Malformed::Suspend));
    }
    assert_eq!(refusal(Body::SuspComm(0), 0), Some(Malformed::Suspend));
}

// SDP-MCH-05, SDP-MCH-06, SDP-MCH-07.
#[test]
fn mode_change_with_reserved_mode_is_refused_and_bits_are_ignored() {
    for octet in 0..=u8::MAX {
        let octets = hex(&format!(
            "0700000a 00000014 0000000a 00000007 {octet:02x}ffffff"
        ));
        let found = SdpMessage::parse(&octets, WireLayout::IdFirst);
        let want = match (octet >> 4) & 7 {
            0 => Ok(HalfMode::Buffered),
            1 => Ok(HalfMode::Combined),
            2 => Ok(HalfMode::Pipelined),
            _ => Err(Malformed::Mode),
        };
        let want = want.map(|mode| mode_change(octet & 0x80 != 0, mode));
        assert_eq!(found.map(|message| message.body), want);
    }
}

// SDP-BSDH-03, SDP-BSDH-04, SDP-ERR-15, AMB-66.
#[test]
fn urgent_mark_belongs_to_an_octet_of_data() {
    for (message, [mut octets, _]) in all() {
        octets[1] |= 0x07;
        let found = SdpMessage::parse(&octets, WireLayout::IdFirst);
        match message.body {
            Body::Data => assert!(found.is_ok_and(|m| m.flags.urgent_present)),
            _ => assert_eq!(found, Err(Malformed::Urgent)),
        }
    }
    let empty = hex("ff01000a 00000010 00000001 00000001");
    assert_eq!(
        SdpMessage::parse(&empty, WireLayout::IdFirst),
        Err(Malformed::Urgent)
    );
}
