// SPDX-License-Identifier: GPL-2.0

//! What a side makes of words that do not fit, and of links that are not needed or not complete: RFC
//! 7609, sections 3.5.5.1.3, 4.6.2 and C.7.1.

use super::{
    pair::Seen,
    *, //
};
use crate::proto::{
    base::{
        time::Duration,
        verbs::RKey, //
    },
    smc::{
        llc::{
            add_link_cont::{
                AddLinkCont,
                RTokenPair as Keys, //
            },
            confirm_rkey::{
                ConfirmRkey,
                Other, //
            },
            test_link::TestLink, //
        },
        wire::LinkNum, //
    },
};

/// The causes of links that went down at a side.
fn causes(pair: &Pair, side: usize) -> Vec<Cause> {
    let done = pair.sides[side].done.iter();
    done.filter_map(|action| match action {
        LlcAction::LinkDown { cause, .. } => Some(*cause),
        _ => None,
    })
    .collect()
}

/// A second link of both sides.
fn second(pair: &Pair, side: usize) -> LinkSlot {
    let ends = pair.sides[side].ends.iter();
    let mut slots = ends
        .map(|end| end.slot)
        .filter(|slot| *slot != LinkSlot::FIRST);
    slots.next().expect("there is a second link")
}

/// The slot at the other side.
fn there(pair: &Pair, side: usize, slot: LinkSlot) -> LinkSlot {
    let qpn = pair.sides[side].end(slot).and_then(|end| end.peer);
    let ends = pair.sides[1 - side].ends.iter();
    let mut found = ends.filter(|end| Some(end.qpn) == qpn);
    found.next().expect("the link has two ends").slot
}

/// Gives a message to a side as if the other had sent it.
fn hand(pair: &mut Pair, side: usize, slot: LinkSlot, message: &LlcBody) {
    let octets = message.emit(pair.layout).expect("it can be written");
    pair.input(side, |group, now| group.handle_message(now, slot, &octets));
}

/// What a side has said since, by octet 0 and whether it is a reply.
fn answers(pair: &Pair, side: usize, since: usize) -> Vec<(u8, bool)> {
    let seen = pair.seen[since..].iter().filter(|seen| seen.from == side);
    seen.map(|seen| (seen.kind, seen.reply)).collect()
}

// LGR-26: no link is deleted for being idle, so that redundancy is never given up; also not the last
// that makes up for another.
#[test]
fn idle_links_stay() {
    for ports in [[2, 2], [1, 2], [2, 1]] {
        let mut pair = Pair::ready(ports, [2, 2]);
        let before = pair.seen.len();
        pair.pass(2 * 60 * 60);
        for side in &pair.sides {
            assert_eq!(side.active(), 2);
        }
        let deleted = pair.said(before).iter().any(|(_, kind, _)| *kind == DELETE);
        assert!(!deleted, "a link was deleted");
    }
}

// ERR-33: what the server wants on a link whose end the client has asked for.
#[test]
fn client_ignores_commands_on_a_link_it_gave_up() {
    for orderly in [false, true] {
        let mut pair = Pair::ready([2, 2], [2, 2]);
        // The server does not look at the notice for a while.
        pair.deaf = |from, kind, _| from == CLIENT && kind == DELETE;
        let slot = second(&pair, CLIENT);
        if orderly {
            pair.input(CLIENT, |group, now| {
                group.delete_link(now, slot, DeleteReason::Operator, true);
            });
        } else {
            pair.input(CLIENT, |group, now| group.handle_link_down(now, slot));
        }
        pair.settle();
        let before = pair.seen.len();
        let key = ConfirmRkey {
            reply: false,
            negative: false,
            retry: false,
            count: 0,
            token: token(SERVER, 9, 0x21),
            others: [Other::NONE; 2],
        };
        let test = TestLink {
            reply: false,
            user_data: [7; 16],
        };
        for message in [LlcBody::ConfirmRkey(key), LlcBody::TestLink(test)] {
            hand(&mut pair, CLIENT, slot, &message);
        }
        assert_eq!(answers(&pair, CLIENT, before), []);
        let group = &mut pair.sides[CLIENT].group;
        assert_eq!(group.rtokens.find(slot, key.token.rkey), None);
        // On the other link it is heard.
        hand(&mut pair, CLIENT, LinkSlot::FIRST, &LlcBody::TestLink(test));
        assert_eq!(answers(&pair, CLIENT, before), [(5 + 2, true)]);
        // The end of the group is heard on any link that still works.
        if orderly {
            let all = crate::proto::smc::llc::delete_link::DeleteLink {
                reply: false,
                all: true,
                orderly: true,
                number: LinkNum::new(0),
                reason: DeleteReason::Operator,
            };
            hand(&mut pair, CLIENT, slot, &LlcBody::DeleteLink(all));
            assert!(pair.sides[CLIENT].group.is_over());
        }
    }
}

/// A server that adds a second link has announced its keys, and the client has not got the first
/// continuation. The server has `rmbs` buffers besides its first.
fn unheard_continuation(rmbs: usize) -> (Pair, Seen) {
    let mut pair = Pair::ready([1, 1], [2, 2]);
    for _ in 0..rmbs {
        pair.add_rmb(SERVER);
    }
    pair.sides[CLIENT].ports += 1;
    pair.deaf = |from, kind, _| from == SERVER && kind == CONT;
    pair.add_port(SERVER);
    let asked = pair.seen.iter().rfind(|seen| seen.kind == CONT);
    let asked = *asked.expect("the server announces its keys");
    (pair, asked)
}

// ERR-34, AMB-25: more keys than were announced are a protocol error, which is an outage of the link
// that carried them.
#[test]
fn more_keys_than_announced_are_an_outage() {
    let (mut pair, asked) = unheard_continuation(4);
    assert_eq!((asked.from, asked.octets[5]), (SERVER, 5));
    let number = LinkNum::new(asked.octets[4]);
    let said = |left| {
        LlcBody::AddLinkCont(AddLinkCont {
            reply: false,
            number,
            left,
            pairs: [Keys {
                reference: RKey::new(1),
                token: token(SERVER, 1, 1),
            }; 2],
        })
    };
    hand(&mut pair, CLIENT, LinkSlot::FIRST, &said(5));
    assert_eq!(causes(&pair, CLIENT), []);
    // Three are left; four were never announced.
    hand(&mut pair, CLIENT, LinkSlot::FIRST, &said(4));
    let cause = Cause::Mismatch("ADD LINK CONTINUATION");
    assert_eq!(causes(&pair, CLIENT), [cause]);
    assert!(pair.sides[CLIENT].group.is_over());
}

// AMB-25, DEP-8: fewer keys than were announced are borne with; a buffer without a key is of no use
// on the new link, and all others are.
#[test]
fn fewer_keys_than_announced_are_borne_with() {
    let (mut pair, asked) = unheard_continuation(2);
    let new = second(&pair, SERVER);
    let qpn = pair.sides[SERVER].end(new).expect("it is there").qpn;
    // The first message as it was, the second without the last key.
    let first = LlcBody::parse(&asked.octets, pair.layout).expect("our own message");
    hand(&mut pair, CLIENT, LinkSlot::FIRST, &first);
    let LlcBody::AddLinkCont(keys) = first else {
        panic!("no keys: {first:?}");
    };
    let rest = AddLinkCont { left: 0, ..keys };
    hand(
        &mut pair,
        CLIENT,
        LinkSlot::FIRST,
        &LlcBody::AddLinkCont(rest),
    );
    assert_eq!(causes(&pair, CLIENT), []);
    let group = &mut pair.sides[CLIENT].group;
    let slot = group.attempts.adding.expect("the link is being added").slot;
    let known: Vec<_> = (0..3)
        .map(|rmb| {
            let old = token(SERVER, rmb, 0x11).rkey;
            let id = group
                .rtokens
                .find(LinkSlot::FIRST, old)
                .expect("it is known");
            group.peer_token(id, slot)
        })
        .collect();
    let wanted = |rmb| Some(token(SERVER, rmb, qpn));
    assert_eq!(known, [wanted(0), wanted(1), None]);
}

// ERR-37: a link for which a buffer has no key has failed; the other carries on.
#[test]
fn link_without_a_key_has_failed() {
    for side in [CLIENT, SERVER] {
        for (late, fails) in [(false, false), (true, true)] {
            let mut pair = Pair::ready([2, 2], [2, 2]);
            pair.lose_first_ports();
            if late {
                // The announcement cannot be older than the link.
                pair.now = pair.now.saturating_add(Duration::from_secs(3));
            }
            let slot = second(&pair, side);
            let other = there(&pair, side, slot);
            let qpn = pair.sides[1 - side].end(other).expect("it is there").qpn;
            let key = ConfirmRkey {
                reply: false,
                negative: false,
                retry: false,
                count: 0,
                token: token(1 - side, 9, qpn),
                others: [Other::NONE; 2],
            };
            hand(&mut pair, side, slot, &LlcBody::ConfirmRkey(key));
            // It is answered well: on the link that it names the buffer is known.
            let moved = |action: &LlcAction| matches!(action, LlcAction::MoveConnections { from, orderly: false } if *from == LinkSlot::FIRST);
            assert_eq!(pair.sides[side].did(moved), fails);
            let answer = pair.seen.iter().rfind(|seen| seen.kind == RKEY);
            let answer = answer.expect("the announcement is answered");
            assert_eq!((answer.from, answer.reply), (side, true));
            assert_eq!(answer.octets[3] & 0x20, 0, "it is refused");
            // The other side has not really announced it.
            pair.wire.retain(|(_, _, octets, _)| octets[0] != RKEY);
            pair.settle();
            for both in &pair.sides {
                assert_eq!(both.active(), if fails { 1 } else { 2 });
                assert!(both.group.is_ready());
            }
        }
    }
}

// FOV-22: the buffer that a connection writes to is the same one on whichever link it goes on, by the
// key and address that it has there.
#[test]
fn a_buffer_is_the_same_on_every_link() {
    for side in [CLIENT, SERVER] {
        let mut pair = Pair::ready([2, 2], [2, 2]);
        for _ in 0..3 {
            pair.add_rmb(1 - side);
        }
        let first = there(&pair, side, LinkSlot::FIRST);
        let qpn = pair.sides[1 - side].end(first).expect("it is there").qpn;
        // A connection learns of its buffer by a token on the first link.
        let writes_to: Vec<_> = (0..4)
            .map(|rmb| {
                let known = token(1 - side, rmb, qpn);
                let id = pair.sides[side].group.peer_rmb(LinkSlot::FIRST, known);
                id.expect("there is room")
            })
            .collect();
        let slot = second(&pair, side);
        let other = there(&pair, side, slot);
        let qpn = pair.sides[1 - side].end(other).expect("it is there").qpn;
        pair.lose_first_ports();
        pair.input(side, |group, now| {
            group.handle_link_down(now, LinkSlot::FIRST)
        });
        pair.settle();
        for (rmb, id) in (0..4).zip(writes_to) {
            let group = &pair.sides[side].group;
            let wanted = token(1 - side, rmb, qpn);
            assert_eq!(group.peer_token(id, slot), Some(wanted));
            assert_eq!(group.peer_token(id, LinkSlot::FIRST), None);
        }
    }
}

// LLF-27: neither side waits for an answer to the client's notice.
#[test]
fn silence_about_a_notice_is_no_error() {
    let mut pair = Pair::ready([1, 1], [2, 2]);
    pair.deaf = |from, kind, reply| from == CLIENT && kind == ADD && !reply;
    let before = pair.seen.len();
    pair.add_port(CLIENT);
    assert_eq!(pair.said(before), [(CLIENT, ADD, false)]);
    pair.pass(30);
    for side in &pair.sides {
        assert!(side.group.is_ready());
        assert_eq!(side.active(), 1);
    }
    assert_eq!(causes(&pair, CLIENT), []);
    // Meanwhile the client does what it likes.
    pair.add_rmb(CLIENT);
    pair.all_known();
}

// COL-34, LLF-64: the client's CONFIRM RKEY crosses the server's DELETE LINK. The client does as it
// is told, gets a refusal, and comes back when the links have settled.
#[test]
fn announcement_crosses_the_end_of_a_link() {
    // Toward a peer that does as the RFC says; Linux would give up what is refused.
    let mut pair = Pair::new([2, 2], [2, 2], Layout::Rfc);
    pair.start();
    pair.settle();
    let before = pair.seen.len();
    let slot = second(&pair, SERVER);
    pair.input(SERVER, |group, now| {
        group.delete_link(now, slot, DeleteReason::Operator, true);
    });
    let ends = pair.sides[CLIENT].ends.clone();
    let tokens: Vec<_> = ends
        .iter()
        .map(|end| (end.slot, token(CLIENT, 1, end.qpn)))
        .collect();
    pair.sides[CLIENT].rmbs.push(1);
    pair.input(CLIENT, |group, now| {
        assert_eq!(group.confirm_rkey(now, RmbId(1), &tokens), Ok(()));
    });
    // Both are in flight.
    let crossing = [(SERVER, DELETE, false), (CLIENT, RKEY, false)];
    assert_eq!(pair.said(before), crossing);
    pair.pass(5);
    let said = pair.said(before);
    assert!(said.contains(&(CLIENT, DELETE, true)), "{said:?}");
    let keys = pair.seen[before..].iter().filter(|seen| seen.kind == RKEY);
    let keys: Vec<_> = keys
        .map(|seen| (seen.from, seen.reply, seen.octets[3] & 0x20 != 0))
        .collect();
    let wanted = [
        (CLIENT, false, false),
        (SERVER, true, true),
        (CLIENT, false, false),
        (SERVER, true, false),
    ];
    assert_eq!(keys.get(..4), Some(&wanted[..]), "{said:?}");
    let confirmed = |action: &LlcAction| *action == LlcAction::RkeyConfirmed(RmbId(1));
    assert!(pair.sides[CLIENT].did(confirmed));
    pair.all_known();
}
