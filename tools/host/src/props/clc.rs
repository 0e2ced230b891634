// SPDX-License-Identifier: GPL-2.0

//! Properties of the CLC messages.

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
            Addition,
            Answer,
            Assembler,
            ClcError,
            ClcMessage,
            Decline,
            Eid,
            EidList,
            Endpoint,
            Extension,
            FirstContact,
            GidList,
            Networks,
            Prefix4,
            Prefix6,
            Prefix6List,
            Proposal,
            Version, //
        },
        wire::{
            AlertToken,
            BufSize,
            PeerId,
            RmbeIndex, //
        },
    },
    stream::reason::Reason, //
};
use proptest::{
    collection::vec,
    prelude::*, //
};

/// Any stack.
pub(super) fn peer() -> impl Strategy<Value = PeerId> {
    any::<[u8; 8]>().prop_map(PeerId::new)
}

/// Any networks.
fn networks() -> impl Strategy<Value = Networks> {
    let v4 = (any::<[u8; 4]>(), 0..=32_u8).prop_filter_map("prefix", |(addr, len)| {
        Prefix4::new(addr, len).map(Networks::V4)
    });
    let prefix6 = (any::<[u8; 16]>(), 0..=128_u8)
        .prop_filter_map("prefix", |(addr, len)| Prefix6::new(addr, len));
    let v6 = vec(prefix6, 1..=8).prop_filter_map("list", |prefixes| {
        let (first, others) = prefixes.split_first()?;
        let mut list = Prefix6List::new(*first);
        for other in others {
            list.push(*other).ok()?;
        }
        Some(Networks::V6(list))
    });
    prop_oneof![v4, v6]
}

/// Any enterprise identifier.
fn eid() -> impl Strategy<Value = Eid> {
    any::<[u8; 32]>().prop_map(Eid::from_octets)
}

/// Any offer of version 2.
fn extension() -> impl Strategy<Value = Extension> {
    let numbers = (0..16_u8, any::<u8>(), any::<u8>(), any::<u16>());
    (any::<[u8; 16]>(), numbers, vec(eid(), 0..=8)).prop_filter_map(
        "list",
        |(gid, (release, max_conns, max_links, features), names)| {
            let mut eids = EidList::EMPTY;
            for name in names {
                eids.push(name).ok()?;
            }
            Some(Extension {
                gid: Gid::new(gid),
                release,
                max_conns,
                max_links,
                features,
                eids,
            })
        },
    )
}

/// Any Proposal of version 1.
pub(super) fn proposal() -> impl Strategy<Value = Proposal> {
    (peer(), any::<[u8; 16]>(), any::<[u8; 6]>(), networks()).prop_map(
        |(peer, gid, mac, networks)| Proposal {
            peer,
            gid: Gid::new(gid),
            mac: Mac::new(mac),
            v1: Some(networks),
            v2: None,
        },
    )
}

/// Any Proposal that offers version 2, and perhaps version 1.
fn proposal_2() -> impl Strategy<Value = Proposal> {
    (proposal(), any::<bool>(), extension()).prop_map(|(proposal, v1, v2)| Proposal {
        v1: proposal.v1.filter(|_| v1),
        v2: Some(v2),
        ..proposal
    })
}

/// What version 2 adds to an answer; a Confirm may have GIDs.
fn addition(is_confirm: bool) -> impl Strategy<Value = Addition> {
    let numbers = (any::<bool>(), 0..16_u8, 0..16_u8, any::<u8>());
    let more = (any::<u8>(), any::<u16>(), any::<[u8; 32]>());
    let gids = vec(any::<[u8; 16]>(), 0..=if is_confirm { 8 } else { 0 });
    (eid(), any::<bool>(), numbers, more, gids).prop_map(
        |(eid, is_first, (direct, os, release, max_conns), (max_links, features, host), gids)| {
            let mut list = GidList::EMPTY;
            for gid in gids {
                list.push(Gid::new(gid));
            }
            let limited = release >= 1;
            let first = FirstContact {
                direct,
                os,
                release,
                host,
                max_conns: if limited { max_conns } else { 0 },
                max_links: if limited { max_links } else { 0 },
                features: if limited { features } else { 0 },
                gids: list,
            };
            Addition {
                eid,
                first: is_first.then_some(first),
            }
        },
    )
}

/// Any Accept or Confirm.
fn answer(is_confirm: bool) -> impl Strategy<Value = Answer> {
    let v2 = prop::option::of(addition(is_confirm));
    (peer(), any::<bool>(), endpoint(), v2).prop_map(move |(peer, flag, endpoint, v2)| Answer {
        peer,
        first_contact: match &v2 {
            Some(v2) => v2.first.is_some(),
            None => flag && !is_confirm,
        },
        endpoint,
        v2,
    })
}

/// Any end of a connection.
pub(super) fn endpoint() -> impl Strategy<Value = Endpoint> {
    let port = (any::<[u8; 16]>(), any::<[u8; 6]>(), 0..=5_u8);
    let queue_pair = (any::<u32>(), any::<u32>());
    let buffer = (any::<u32>(), any::<u64>(), 1..=255_u8, 0..=5_u8);
    (port, queue_pair, buffer, any::<u32>()).prop_filter_map(
        "fields",
        |((gid, mac, mtu), (qpn, psn), (rkey, vaddr, index, size), token)| {
            Some(Endpoint {
                gid: Gid::new(gid),
                mac: Mac::new(mac),
                qpn: Qpn::new(qpn),
                rkey: RKey::new(rkey),
                rmbe_index: RmbeIndex::new(index)?,
                alert_token: AlertToken::new(token),
                buf_size: BufSize::from_code(size)?,
                mtu: Mtu::from_code(mtu),
                vaddr,
                psn: Psn::new(psn),
            })
        },
    )
}

/// Any Decline.
fn decline() -> impl Strategy<Value = Decline> {
    let fields = (peer(), any::<bool>(), any::<u32>(), any::<bool>());
    fields.prop_map(|(peer, out_of_sync, code, v2)| Decline {
        peer,
        out_of_sync,
        reason: Reason::from_code(code),
        version: if v2 { Version::V2 } else { Version::V1 },
    })
}

/// Any message.
pub(super) fn message() -> impl Strategy<Value = ClcMessage> {
    prop_oneof![
        proposal().prop_map(ClcMessage::Proposal),
        proposal_2().prop_map(ClcMessage::Proposal),
        answer(false).prop_map(ClcMessage::Accept),
        answer(true).prop_map(ClcMessage::Confirm),
        decline().prop_map(ClcMessage::Decline),
    ]
}

/// The octets of a message.
pub(super) fn octets(message: &ClcMessage) -> Vec<u8> {
    let mut buf = [0; 600];
    let len = message.emit(&mut buf).expect("every message fits");
    buf[..len].to_vec()
}

proptest! {
    // CLC-02, CLC-03.
    #[test]
    fn messages_survive_the_wire(message in message()) {
        prop_assert_eq!(ClcMessage::parse(&octets(&message)), Ok(message));
    }

    #[test]
    fn messages_need_exactly_their_room(message in message()) {
        let len = octets(&message).len();
        let mut buf = [0; 600];
        prop_assert_eq!(message.emit(&mut buf[..len]), Some(len));
        prop_assert_eq!(message.emit(&mut buf[..len - 1]), None);
    }

    #[test]
    fn no_octets_make_the_parser_panic(octets in vec(any::<u8>(), 0..300)) {
        let _ = ClcMessage::parse(&octets);
    }

    // CLC-06, TST-109.
    #[test]
    fn damaged_messages_are_read_or_refused(
        message in message(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        more in vec(any::<u8>(), 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut octets = octets(&message);
        // Beyond the eye catcher and the trailer, which would hide everything else.
        let inner = octets.len() - 8;
        for (at, value) in damage {
            octets[4 + at.index(inner)] = value;
        }
        if let Ok(read) = ClcMessage::parse(&octets) {
            // What was understood keeps its meaning. Reserved fields and an area for growth may
            // be lost, so only the value is compared.
            let mut buf = [0; 600];
            let len = read.emit(&mut buf).expect("every message fits");
            prop_assert_eq!(ClcMessage::parse(&buf[..len]), Ok(read));
        }
        let cut = cut.index(octets.len());
        prop_assert!(ClcMessage::parse(&octets[..cut]).is_err());
        let len = octets.len();
        octets.extend(more);
        prop_assert!(octets.len() == len || ClcMessage::parse(&octets).is_err());
    }

    // CLC-04, CLC-01.
    #[test]
    fn assembler_takes_messages_and_nothing_else(
        messages in vec(message(), 1..4),
        rest in vec(any::<u8>(), 0..20),
        steps in vec(1..64_usize, 1..50),
    ) {
        let mut stream: Vec<u8> = messages.iter().flat_map(octets).collect();
        stream.extend(&rest);
        let mut assembler = Box::new(Assembler::new());
        let mut steps = steps.iter().cycle();
        let mut at = 0;
        for message in messages {
            let read = loop {
                let room = assembler.room();
                let count = room.len().min(*steps.next().expect("cycle"));
                room[..count].copy_from_slice(&stream[at..at + count]);
                at += count;
                if let Some(read) = assembler.filled(count).expect("valid") {
                    break read;
                }
            };
            prop_assert_eq!(read, message);
        }
        prop_assert_eq!(&stream[at..], &rest[..]);
    }

    #[test]
    fn assembler_agrees_with_the_parser(octets in vec(any::<u8>(), 0..80), kind in 1..=4_u8) {
        // A plausible start, so that not all cases end at the eye catcher.
        let mut stream = vec![0xe2, 0xd4, 0xc3, 0xd9, kind, 0];
        let total = octets.len() + 7;
        stream.push(u8::try_from(total).expect("short"));
        stream.extend(octets);
        let mut assembler = Box::new(Assembler::new());
        let mut at = 0;
        let found = loop {
            let room = assembler.room();
            let count = room.len().min(stream.len() - at);
            if count == 0 {
                break None;
            }
            room[..count].copy_from_slice(&stream[at..at + count]);
            at += count;
            match assembler.filled(count) {
                Ok(None) => {}
                done => break Some(done),
            }
        };
        match found {
            Some(Ok(message)) => prop_assert_eq!(message, ClcMessage::parse(&stream).ok()),
            Some(Err(ClcError::Reserved(value))) => {
                prop_assert_eq!(ClcMessage::parse(&stream), Err(ClcError::Reserved(value)));
            }
            Some(Err(ClcError::Protocol(_))) | None => prop_assert!(ClcMessage::parse(&stream).is_err()),
        }
    }
}
