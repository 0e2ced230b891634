// SPDX-License-Identifier: GPL-2.0

//! Octets of Hello and HelloAck in all forms, and each reason to refuse them.

use super::*;
use crate::proto::sdp::hex::hex;

const FORMS: [HelloForm; 3] = [
    HelloForm::Annex,
    HelloForm::Draft(WireLayout::IdFirst),
    HelloForm::Draft(WireLayout::IdLast),
];

fn draft_hello() -> SdpHello {
    SdpHello {
        bufs: 16,
        minor: 1,
        max_adverts: 8,
        desired_size: 0x8000,
        local_size: 0x4000,
        rest: HelloRest::Draft(ReadDepths { ird: 4, ord: 2 }),
    }
}

fn annex_hello() -> SdpHello {
    SdpHello {
        bufs: 64,
        minor: 2,
        max_adverts: 16,
        desired_size: 0x4010,
        local_size: 0x4010,
        rest: HelloRest::Annex {
            invalidates: true,
            extended: true,
            addrs: HelloAddrs {
                port: 40000,
                source: Ipv4Addr::new(192, 168, 1, 1).into(),
                destination: Ipv4Addr::new(192, 168, 1, 2).into(),
            },
        },
    }
}

const ANNEX: &str = "00000040 0000005c 00000000 00000000 22430010 00004010 00004010 9c400000 \
    00000000 00000000 00000000 c0a80101 00000000 00000000 00000000 c0a80102 00000010 \
    00000000 00000000 00000000 00000000 00000000 00000000";
const DRAFT_FIRST: &str = "00000010 00000020 00000000 00000000 11000008 00008000 00004000 00020004";
const DRAFT_LAST: &str = "00100000 00000020 00000000 00000000 00080011 00008000 00004000 00040002";

// SDP-HH-02 to SDP-HH-04, SDP-HH-06, SDP-HH-08, SDP-HH-18, SDP-HH-21, SDP-WIRE-01, SDP-WIRE-02.
#[test]
fn hello_of_each_form_has_its_octets() {
    for (form, hello, octets) in [
        (FORMS[0], annex_hello(), ANNEX),
        (FORMS[1], draft_hello(), DRAFT_FIRST),
        (FORMS[2], draft_hello(), DRAFT_LAST),
    ] {
        let octets = hex(octets);
        assert_eq!(hello.emit(form.layout()).as_slice(), octets);
        assert_eq!(SdpHello::parse(&octets, true), Ok((form, hello)));
    }
}

// AMB-01: off unless the administrator asks for it.
#[test]
fn hello_with_its_identifier_last_is_refused_unless_allowed() {
    let found = SdpHello::parse(&hex(DRAFT_LAST), false);
    assert_eq!(found, Err(HelloFault::Mid));
}

#[test]
fn hello_over_ipv6_keeps_both_addresses() {
    let mut hello = annex_hello();
    if let HelloRest::Annex { addrs, .. } = &mut hello.rest {
        addrs.source = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into();
        addrs.destination = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).into();
    }
    let octets = hello.emit(WireLayout::IdFirst);
    assert_eq!(octets.as_slice()[17], 0x63);
    assert_eq!(octets.as_slice()[32..34], [0xfd, 0]);
    let found = SdpHello::parse(octets.as_slice(), false);
    assert_eq!(found, Ok((HelloForm::Annex, hello)));
}

// A stack of OFED takes one advert, has no capabilities, and may leave out the fill.
#[test]
fn hello_of_ofed_is_read_as_combined_only() {
    let mut octets = hex(ANNEX);
    octets[17] = 0x40;
    octets[19] = 1;
    octets[66..68].fill(0);
    octets[7] = 68;
    for len in [68, 92] {
        let (form, hello) = SdpHello::parse(&octets[..len], false).unwrap();
        assert_eq!(form, HelloForm::Annex);
        assert_eq!(hello.max_adverts, 1);
        assert!(!hello.is_full());
    }
    assert!(annex_hello().is_full() && draft_hello().is_full());
}

fn ack(form: HelloForm) -> SdpHelloAck {
    let (minor, depths) = match form {
        HelloForm::Annex => (2, None),
        HelloForm::Draft(_) => (1, Some(ReadDepths { ird: 4, ord: 2 })),
    };
    SdpHelloAck {
        bufs: 32,
        minor,
        max_adverts: 16,
        actual_size: 0x8000,
        depths,
    }
}

fn ack_octets(form: HelloForm) -> Vec<u8> {
    match form {
        HelloForm::Annex => {
            let mut octets = hex("01000020 000000c4 00000000 00000000 22000010 00008000");
            octets.resize(196, 0);
            octets
        }
        HelloForm::Draft(WireLayout::IdFirst) => {
            hex("01000020 0000001c 00000000 00000000 11000010 00008000 00020004")
        }
        HelloForm::Draft(WireLayout::IdLast) => {
            hex("00200001 0000001c 00000000 00000000 00100011 00008000 00040002")
        }
    }
}

// SDP-HAH-01 to SDP-HAH-03, SDP-HAH-05, SDP-HAH-07, SDP-HAH-14, SDP-HAH-15.
#[test]
fn hello_ack_of_each_form_has_its_octets() {
    for form in FORMS {
        let octets = ack_octets(form);
        assert_eq!(ack(form).emit(form).as_slice(), octets);
        assert_eq!(SdpHelloAck::parse(&octets, form), Ok(ack(form)));
    }
}

/// Octets of a good message that are replaced, and why it is refused then.
type Damage<'a> = (usize, &'a [u8], HelloFault);

// SDP-HH-07, SDP-HH-12, SDP-HH-20, SDP-BUFP-07, SDP-CONN-10, AMB-07, TST-022, TST-031.
#[test]
fn hello_with_a_bad_field_is_refused() {
    let common: [Damage<'_>; 7] = [
        (0, &[1], HelloFault::Mid),
        (2, &[0, 2], HelloFault::Bufs),
        (4, &[0, 0, 0, 33], HelloFault::Length),
        (4, &[0, 0, 0, 93], HelloFault::Length),
        (16, &[0x31], HelloFault::Version),
        (24, &[0, 0, 0, 36], HelloFault::BufferSize),
        (24, &[0x80, 0, 0, 1], HelloFault::BufferSize),
    ];
    let draft: [Damage<'_>; 4] = [
        (18, &[0, 0], HelloFault::Adverts),
        (28, &[0, 0], HelloFault::Reads),
        (30, &[0, 0], HelloFault::Reads),
        (16, &[0x22], HelloFault::Version),
    ];
    let annex: [Damage<'_>; 6] = [
        (19, &[0], HelloFault::Adverts),
        (66, &[0, 0], HelloFault::Adverts),
        (17, &[0x53], HelloFault::Address),
        (28, &[0, 0], HelloFault::Address),
        (4, &[0, 0, 0, 67], HelloFault::Length),
        (16, &[0x11], HelloFault::Version),
    ];
    for (good, damages) in [(DRAFT_FIRST, &draft[..]), (ANNEX, &annex[..])] {
        for &(at, octets, fault) in damages.iter().chain(&common) {
            let mut bad = hex(good);
            bad[at..at + octets.len()].copy_from_slice(octets);
            assert_eq!(SdpHello::parse(&bad, true), Err(fault), "octet {at}");
        }
        for len in 0..hex(good).len() {
            assert!(SdpHello::parse(&hex(good)[..len], true).is_err());
        }
    }
}

// SDP-HH-05, SDP-HH-09, SDP-HH-19, SDP-CONN-12, TST-006, TST-023.
#[test]
fn numbers_reserved_fields_and_minor_version_are_no_reason_to_refuse() {
    for (good, ignored) in [
        (DRAFT_FIRST, &[8_usize, 11, 12, 15, 17][..]),
        (ANNEX, &[8, 15, 18, 30, 31, 64, 65, 68, 91][..]),
    ] {
        let (_, hello) = SdpHello::parse(&hex(good), true).unwrap();
        let mut octets = hex(good);
        for &at in ignored {
            octets[at] = 0xff;
        }
        octets[16] ^= 0x05;
        let (_, found) = SdpHello::parse(&octets, true).unwrap();
        assert_eq!(found.minor, hello.minor ^ 0x05);
        let minor = hello.minor;
        assert_eq!(SdpHello { minor, ..found }, hello);
    }
}

// SDP-HAH-06, SDP-HAH-10, SDP-CONN-23, TST-024, TST-031.
#[test]
fn hello_ack_with_a_bad_field_is_refused() {
    let common: [Damage<'_>; 5] = [
        (0, &[0], HelloFault::Mid),
        (2, &[0, 2], HelloFault::Bufs),
        (4, &[0, 0, 0, 23], HelloFault::Length),
        (16, &[0x31], HelloFault::Version),
        (20, &[0, 0, 0, 36], HelloFault::BufferSize),
    ];
    let draft: [Damage<'_>; 3] = [
        (18, &[0, 0], HelloFault::Adverts),
        (24, &[0, 0], HelloFault::Reads),
        (26, &[0, 0], HelloFault::Reads),
    ];
    let annex: [Damage<'_>; 2] = [
        (19, &[0], HelloFault::Adverts),
        (4, &[0, 0, 0, 197], HelloFault::Length),
    ];
    for (form, damages) in [(FORMS[1], &draft[..]), (FORMS[0], &annex[..])] {
        for &(at, octets, fault) in damages.iter().chain(&common) {
            let mut bad = ack_octets(form);
            bad[at..at + octets.len()].copy_from_slice(octets);
            assert_eq!(SdpHelloAck::parse(&bad, form), Err(fault), "octet {at}");
        }
        for len in 0..ack_octets(form).len() {
            assert!(SdpHelloAck::parse(&ack_octets(form)[..len], form).is_err());
        }
    }
}

// A HelloAck of OFED says that it is shorter than the field it is in.
#[test]
fn short_hello_ack_of_infiniband_is_accepted() {
    let mut octets = ack_octets(HelloForm::Annex);
    octets[7] = 24;
    let found = SdpHelloAck::parse(&octets, HelloForm::Annex);
    assert_eq!(found, Ok(ack(HelloForm::Annex)));
}

// SDP-HAH-04, SDP-HAH-08, SDP-HAH-14, SDP-CONN-24, SDP-CONN-25, TST-006, TST-025.
#[test]
fn numbers_reserved_octet_and_minor_version_of_hello_ack_are_ignored() {
    for (form, version) in [(FORMS[0], 16), (FORMS[1], 16), (FORMS[2], 19)] {
        let mut octets = ack_octets(form);
        octets[8..16].fill(0xff);
        octets[if version == 16 { 17 } else { 18 }] = 0xff;
        // The minor version is the nibble that the major version is not.
        octets[version] ^= if version == 16 { 0x05 } else { 0x50 };
        let found = SdpHelloAck::parse(&octets, form).unwrap();
        assert_eq!(found.minor, ack(form).minor ^ 0x05);
        let minor = ack(form).minor;
        assert_eq!(SdpHelloAck { minor, ..found }, ack(form));
    }
}

// SDP-HH-11, SDP-HAH-09: also where the first field for it has eight bits only.
#[test]
fn number_of_adverts_has_its_whole_range() {
    for max_adverts in [1, 255, 256, 65535] {
        for (form, hello) in [(FORMS[0], annex_hello()), (FORMS[1], draft_hello())] {
            let hello = SdpHello {
                max_adverts,
                ..hello
            };
            let octets = hello.emit(form.layout());
            let found = SdpHello::parse(octets.as_slice(), false);
            assert_eq!(found, Ok((form, hello)));
            let ack = SdpHelloAck {
                max_adverts,
                ..ack(form)
            };
            let found = SdpHelloAck::parse(ack.emit(form).as_slice(), form).unwrap();
            let told = match form {
                HelloForm::Annex => max_adverts.min(255),
                HelloForm::Draft(_) => max_adverts,
            };
            assert_eq!(found.max_adverts, told);
        }
    }
}
