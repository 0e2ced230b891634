// SPDX-License-Identifier: GPL-2.0

//! Properties of the CLC messages.

use crate::proto::{
    clc::{
        Accept,
        Assembler,
        Confirm,
        Decline,
        Endpoint,
        Error,
        Message,
        Networks,
        Prefix4,
        Prefix6,
        Prefix6List,
        Proposal, //
    },
    reason::Reason,
    wire::{
        AlertToken,
        BufSize,
        Gid,
        Mac,
        Mtu,
        PeerId,
        Psn,
        Qpn,
        RKey,
        RmbeIndex, //
    },
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

/// Any Proposal.
pub(super) fn proposal() -> impl Strategy<Value = Proposal> {
    (peer(), any::<[u8; 16]>(), any::<[u8; 6]>(), networks()).prop_map(
        |(peer, gid, mac, networks)| Proposal {
            peer,
            gid: Gid::new(gid),
            mac: Mac::new(mac),
            networks,
        },
    )
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
    (peer(), any::<bool>(), any::<u32>()).prop_map(|(peer, out_of_sync, code)| Decline {
        peer,
        out_of_sync,
        reason: Reason::from_code(code),
    })
}

/// Any message.
pub(super) fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        proposal().prop_map(Message::Proposal),
        (peer(), any::<bool>(), endpoint()).prop_map(|(peer, first_contact, endpoint)| {
            Message::Accept(Accept {
                peer,
                first_contact,
                endpoint,
            })
        }),
        (peer(), endpoint())
            .prop_map(|(peer, endpoint)| Message::Confirm(Confirm { peer, endpoint })),
        decline().prop_map(Message::Decline),
    ]
}

/// The octets of a message.
pub(super) fn octets(message: &Message) -> Vec<u8> {
    let mut buf = [0; 200];
    let len = message.emit(&mut buf).expect("every message fits");
    buf[..len].to_vec()
}

proptest! {
    // CLC-02, CLC-03.
    #[test]
    fn messages_survive_the_wire(message in message()) {
        prop_assert_eq!(Message::parse(&octets(&message)), Ok(message));
    }

    #[test]
    fn messages_need_exactly_their_room(message in message()) {
        let len = octets(&message).len();
        let mut buf = [0; 200];
        prop_assert_eq!(message.emit(&mut buf[..len]), Some(len));
        prop_assert_eq!(message.emit(&mut buf[..len - 1]), None);
    }

    #[test]
    fn no_octets_make_the_parser_panic(octets in vec(any::<u8>(), 0..300)) {
        let _ = Message::parse(&octets);
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
        if let Ok(read) = Message::parse(&octets) {
            // What was understood keeps its meaning. Reserved fields and an area for growth may
            // be lost, so only the value is compared.
            let mut buf = [0; 200];
            let len = read.emit(&mut buf).expect("every message fits");
            prop_assert_eq!(Message::parse(&buf[..len]), Ok(read));
        }
        let cut = cut.index(octets.len());
        prop_assert!(Message::parse(&octets[..cut]).is_err());
        let len = octets.len();
        octets.extend(more);
        prop_assert!(octets.len() == len || Message::parse(&octets).is_err());
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
            Some(Ok(message)) => prop_assert_eq!(message, Message::parse(&stream).ok()),
            Some(Err(Error::Reserved(value))) => {
                prop_assert_eq!(Message::parse(&stream), Err(Error::Reserved(value)));
            }
            Some(Err(Error::Protocol(_))) | None => prop_assert!(Message::parse(&stream).is_err()),
        }
    }
}
