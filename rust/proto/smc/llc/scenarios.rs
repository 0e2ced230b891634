// SPDX-License-Identifier: GPL-2.0

//! Two link groups that talk to each other step by step: the flows of RFC 7609, section 3.5 and
//! appendix C, one by one, with every message in view.

mod failures;
mod pair;

use self::pair::{
    port,
    token,
    Filter,
    Pair,
    ADD,
    CLIENT,
    CONFIRM,
    CONT,
    DELETE,
    RKEY,
    RKEY_CONT,
    SERVER, //
};
use super::{
    action::{
        Cause,
        Fail,
        LlcAction,
        LlcKind,
        RmbId, //
    },
    delete_link::DeleteReason,
    link::LinkSlot,
    msg::{
        Layout,
        LlcBody, //
    },
    shape::Shape,
    testing::after, //
};

// TST-004, TST-009, LLF-05, LLF-11, LLF-14, LLF-15, LLF-18, LLF-30, LLF-31, LLF-35, LGR-01, LGR-04,
// LGR-09, LGR-15, LGR-19, RDV-09, FOV-01.
#[test]
fn second_link_of_first_contact() {
    let mut pair = Pair::new([2, 2], [2, 2], Layout::Linux);
    pair.start();
    pair.settle();
    let talk = [
        (SERVER, CONFIRM, false),
        (CLIENT, CONFIRM, true),
        (SERVER, ADD, false),
        (CLIENT, ADD, true),
        (SERVER, CONT, false),
        (CLIENT, CONT, true),
        (SERVER, CONFIRM, false),
        (CLIENT, CONFIRM, true),
    ];
    assert_eq!(pair.said(0), talk);
    // All but the last two on the first link.
    for (n, seen) in pair.seen.iter().enumerate() {
        assert_eq!(seen.slot == LinkSlot::FIRST, n < 6);
    }
    // One buffer on each side, named by its key on the first link.
    for (n, side, qpn, new) in [(4, SERVER, 0x11, 0x21), (5, CLIENT, 0x10, 0x20)] {
        let octets = pair.seen[n].octets;
        assert_eq!(octets[5], 1);
        assert_eq!(octets[8..12], token(side, 0, qpn).rkey.get().to_be_bytes());
        assert_eq!(octets[12..16], token(side, 0, new).rkey.get().to_be_bytes());
    }
    for side in &pair.sides {
        assert_eq!(side.group.kind(), Shape::Symmetric);
        assert_eq!(side.active(), 2);
        assert_eq!(side.done.last(), Some(&LlcAction::Ready));
    }
    assert_eq!(pair.layout, Layout::Linux);
    pair.all_known();
}

// TST-007, LGR-06, LGR-13, LLF-17, TMR-31, RDV-09.
#[test]
fn one_device_on_each_side() {
    let pair = Pair::ready([1, 1], [2, 2]);
    let refusal = pair.seen.last().expect("something was said");
    assert_eq!(
        (refusal.from, refusal.kind, refusal.reply),
        (CLIENT, ADD, true)
    );
    // Z, with reason 1.
    assert_eq!(refusal.octets[3] & 0xc0, 0xc0);
    assert_eq!(refusal.octets[2] & 0x0f, 1);
    for side in &pair.sides {
        assert_eq!((side.group.kind(), side.active()), (Shape::Single, 1));
    }
}

// TST-005, TST-006, LLF-13, LLF-14, LLF-21, LLF-24, LLF-25, LLF-51, LLF-52, LGR-04, LGR-06, LGR-08,
// LGR-13, LGR-14.
#[test]
fn asymmetric_link_until_the_missing_device_comes() {
    for (ports, poor) in [([2, 1], SERVER), ([1, 2], CLIENT)] {
        let mut pair = Pair::ready(ports, [2, 2]);
        let kinds = pair.sides.each_ref().map(|side| side.group.kind());
        assert!(kinds.contains(&Shape::AsymmetricLocal) && kinds.contains(&Shape::AsymmetricPeer));
        assert_eq!(pair.sides[CLIENT].active(), 2);
        // A second asymmetric link is never made.
        let rich = 1 - poor;
        pair.add_port(rich);
        pair.pass(5);
        assert_eq!(pair.sides[CLIENT].active(), 2);
        // The missing device: first the new link, then the end of the old one.
        let before = pair.seen.len();
        pair.add_port(poor);
        pair.pass(5);
        for side in &pair.sides {
            assert_eq!((side.group.kind(), side.active()), (Shape::Symmetric, 2));
        }
        let said = pair.seen[before..].to_vec();
        let delete = said
            .iter()
            .position(|seen| seen.kind == DELETE && !seen.reply);
        let delete = delete.expect("the asymmetric link is deleted");
        assert_eq!(said[delete].from, SERVER);
        let reason = &said[delete].octets[5..9];
        assert_eq!(reason, DeleteReason::NoAsymmetric.code().to_be_bytes());
        let confirmed = said.iter().rposition(|seen| seen.kind == CONFIRM);
        assert!(confirmed.expect("the new link is confirmed") < delete);
        pair.all_known();
    }
}

// TST-015, TST-016, LLC-306, LLF-30..34, LLF-36, TMR-30.
#[test]
fn continuations_announce_all_buffers() {
    // Buffers of server and client; the numbers in requests and replies.
    let cases: [([usize; 2], &[u8], &[u8]); 4] = [
        ([1, 5], &[1, 0, 0], &[5, 3, 1]),
        ([5, 1], &[5, 3, 1], &[1, 0, 0]),
        ([3, 4], &[3, 1], &[4, 2]),
        ([1, 1], &[1], &[1]),
    ];
    for (rmbs, requests, replies) in cases {
        let mut pair = Pair::ready([1, 1], [2, 2]);
        for (side, count) in [(SERVER, rmbs[0]), (CLIENT, rmbs[1])] {
            for _ in 1..count {
                pair.add_rmb(side);
            }
        }
        pair.sides[CLIENT].ports += 1;
        let before = pair.seen.len();
        pair.add_port(SERVER);
        let told = |from| {
            let seen = pair.seen[before..].iter();
            seen.filter(|seen| seen.kind == CONT && seen.from == from)
                .map(|seen| {
                    assert_eq!(seen.slot, LinkSlot::FIRST);
                    seen.octets[5]
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(told(SERVER), requests);
        assert_eq!(told(CLIENT), replies);
        assert_eq!(pair.sides[SERVER].group.kind(), Shape::Symmetric);
        pair.all_known();
    }
}

// LLF-20, LLF-23..27, TST-118, TST-120, LGR-10, LGR-11.
#[test]
fn no_more_links_than_agreed() {
    for (max_links, links) in [([2, 2], 2), ([3, 8], 3), ([8, 3], 3), ([8, 8], 4)] {
        let mut pair = Pair::ready([4, 4], max_links);
        for _ in 0..6 {
            pair.input(CLIENT, |group, now| {
                group.request_link(now, &[port(CLIENT, 3)])
            });
            pair.settle();
        }
        for side in &pair.sides {
            assert_eq!(side.active(), links);
        }
        if links < 4 {
            // At the limit neither side asks again.
            let before = pair.seen.len();
            pair.input(CLIENT, |group, now| {
                group.request_link(now, &[port(CLIENT, 3)])
            });
            pair.input(SERVER, |group, now| {
                group.request_link(now, &[port(SERVER, 3)])
            });
            pair.settle();
            assert_eq!(pair.said(before), []);
        }
    }
    // Without redundancy the notice makes the server add a link.
    let mut pair = Pair::ready([1, 2], [2, 2]);
    let asymmetric = pair.sides[CLIENT].active();
    assert_eq!(asymmetric, 2);
    let before = pair.seen.len();
    pair.add_port(CLIENT);
    assert_eq!(
        pair.said(before)[..2],
        [(CLIENT, ADD, false), (SERVER, ADD, false)]
    );
}

// TST-010, LLF-40, LLF-43, LLF-49, LLF-51, FOV-05, LLC-02, LLC-04.
#[test]
fn server_loses_a_link() {
    let mut pair = Pair::ready([2, 2], [2, 2]);
    let before = pair.seen.len();
    pair.lose_first_ports();
    pair.input(SERVER, |group, now| {
        group.handle_link_down(now, LinkSlot::FIRST)
    });
    // At once the connections go to the other link, and the client is told there. The end stays.
    let moved = |action: &LlcAction| matches!(action, LlcAction::MoveConnections { from, orderly: false } if *from == LinkSlot::FIRST);
    assert!(pair.sides[SERVER].did(moved));
    let request = pair.seen[before];
    assert_eq!(
        (request.from, request.kind, request.reply),
        (SERVER, DELETE, false)
    );
    assert_ne!(request.slot, LinkSlot::FIRST);
    assert_eq!(
        request.octets[5..9],
        DeleteReason::LostPath.code().to_be_bytes()
    );
    assert!(pair.sides[SERVER].end(LinkSlot::FIRST).is_some());
    pair.settle();
    let reply = pair.seen[before + 1];
    assert_eq!(
        (reply.from, reply.kind, reply.reply),
        (CLIENT, DELETE, true)
    );
    assert_eq!(
        pair.sides[CLIENT].end(reply.slot).and_then(|end| end.peer),
        pair.sides[SERVER].end(request.slot).map(|end| end.qpn)
    );
    for side in &pair.sides {
        assert!(side.did(moved));
        assert!(side.end(LinkSlot::FIRST).is_none());
        assert_eq!((side.group.kind(), side.active()), (Shape::Single, 1));
    }
}

// TST-011, LLF-41, LLF-47, LLF-49, FOV-05, LGR-19.
#[test]
fn client_loses_a_link() {
    for orderly in [false, true] {
        let mut pair = Pair::ready([2, 2], [2, 2]);
        let before = pair.seen.len();
        pair.lose_first_ports();
        if orderly {
            pair.input(CLIENT, |group, now| {
                group.delete_link(now, LinkSlot::FIRST, DeleteReason::Operator, true);
            });
        } else {
            pair.input(CLIENT, |group, now| {
                group.handle_link_down(now, LinkSlot::FIRST)
            });
        }
        pair.settle();
        let talk = [
            (CLIENT, DELETE, false),
            (SERVER, DELETE, false),
            (CLIENT, DELETE, true),
        ];
        assert_eq!(pair.said(before)[..3], talk);
        // O is the flag 0x20.
        assert_eq!(pair.seen[before].octets[3] & 0x20 != 0, orderly);
        for side in &pair.sides {
            assert_eq!(side.active(), 1);
            assert!(side.end(LinkSlot::FIRST).is_none());
        }
    }
}

// LLC-10, FOV-16, TST-151.
#[test]
fn a_message_lost_with_its_link_is_not_sent_again() {
    let mut pair = Pair::ready([2, 2], [2, 2]);
    let ends = pair.sides[CLIENT].ends.clone();
    let tokens: Vec<_> = ends
        .iter()
        .map(|end| (end.slot, token(CLIENT, 1, end.qpn)))
        .collect();
    pair.sides[CLIENT].rmbs.push(1);
    let before = pair.seen.len();
    pair.input(CLIENT, |group, now| {
        assert_eq!(group.confirm_rkey(now, RmbId(1), &tokens), Ok(()));
    });
    let first = pair.seen[before];
    assert_eq!(first.kind, RKEY);
    // It never arrives: the link is gone.
    pair.wire.clear();
    for side in [CLIENT, SERVER] {
        let slot = if side == CLIENT {
            first.slot
        } else {
            LinkSlot::FIRST
        };
        pair.input(side, |group, now| group.handle_link_down(now, slot));
    }
    pair.pass(10);
    // What is sent when the links have settled is another one, for the links there are.
    let confirmed = |action: &LlcAction| *action == LlcAction::RkeyConfirmed(RmbId(1));
    assert!(pair.sides[CLIENT].did(confirmed));
    let again = pair.seen[before + 1..]
        .iter()
        .find(|seen| seen.kind == RKEY);
    let again = again.expect("it is announced");
    assert_ne!(again.slot, first.slot);
    assert_eq!(again.octets[4], 0);
    pair.all_known();
}

// TST-012, LLF-60..62, LLF-72.
#[test]
fn buffers_are_confirmed_for_all_links() {
    for links in [1, 2, 3, 4, 8] {
        let mut pair = Pair::ready([links, links], [8, 8]);
        for _ in 0..8 {
            pair.input(SERVER, |group, now| {
                group.request_link(now, &[port(SERVER, 7)])
            });
            pair.settle();
        }
        assert_eq!(pair.sides[CLIENT].active(), usize::from(links));
        let before = pair.seen.len();
        pair.add_rmb(CLIENT);
        let seen = &pair.seen[before..];
        let others = links - 1;
        assert_eq!((seen[0].kind, seen[0].octets[4]), (RKEY, others));
        let slot = seen[0].slot;
        let qpn = pair.sides[CLIENT].end(slot).expect("it is there").qpn;
        assert_eq!(
            seen[0].octets[5..9],
            token(CLIENT, 1, qpn).rkey.get().to_be_bytes()
        );
        let conts = seen
            .iter()
            .filter(|seen| seen.kind == RKEY_CONT && !seen.reply);
        assert_eq!(
            conts.count(),
            usize::from(others.saturating_sub(2)).div_ceil(3)
        );
        pair.all_known();
    }
}

// TMR-01, TMR-12, TMR-30, TST-126.
#[test]
fn server_gets_no_confirmation_of_a_later_link() {
    let mut pair = Pair::ready([1, 1], [2, 2]);
    pair.sides[CLIENT].ports += 1;
    pair.deaf = |from, kind, reply| (from, kind, reply) == (CLIENT, CONFIRM, true);
    let before = pair.seen.len();
    pair.add_port(SERVER);
    pair.pass(20);
    let said = pair.said(before);
    assert!(said.contains(&(SERVER, DELETE, false)));
    assert!(pair.sides[SERVER].did(|action| matches!(action, LlcAction::DropLink { .. })));
    for side in &pair.sides {
        assert_eq!((side.group.kind(), side.active()), (Shape::Single, 1));
    }
    // The timer tries again.
    pair.deaf = |_, _, _| false;
    pair.pass(120);
    for side in &pair.sides {
        assert_eq!((side.group.kind(), side.active()), (Shape::Symmetric, 2));
    }
}

// TMR-15, TMR-16, TMR-19, TMR-21, TST-123.
#[test]
fn silence_in_the_middle_of_adding_a_link() {
    // The messages that get no answer, and the side that notices.
    let cases: [(Filter, usize, LlcKind); 4] = [
        (
            |from, kind, _| (from, kind) == (CLIENT, ADD),
            SERVER,
            LlcKind::AddLink,
        ),
        (
            |from, kind, _| (from, kind) == (SERVER, CONT),
            CLIENT,
            LlcKind::AddLinkCont,
        ),
        (
            |from, kind, _| (from, kind) == (CLIENT, CONT),
            SERVER,
            LlcKind::AddLinkCont,
        ),
        (
            |from, kind, _| (from, kind) == (SERVER, CONT),
            CLIENT,
            LlcKind::AddLinkCont,
        ),
    ];
    for (n, (deaf, side, kind)) in cases.into_iter().enumerate() {
        let mut pair = Pair::new([1, 1], [2, 2], Layout::Rfc);
        pair.start();
        pair.settle();
        if n == 3 {
            // The server owes more than one message.
            for _ in 0..4 {
                pair.add_rmb(SERVER);
            }
        }
        pair.sides[CLIENT].ports += 1;
        pair.deaf = deaf;
        pair.add_port(SERVER);
        // The link that carried it counts as failed, and it was the last one.
        pair.pass(20);
        let ended = |action: &LlcAction| matches!(action, LlcAction::Terminate { cause: Cause::NoReply(what) } if *what == kind);
        assert!(pair.sides[side].did(ended), "{:?}", pair.sides[side].done);
        assert!(pair.sides[side].did(|action| matches!(action, LlcAction::DropLink { .. })));
    }
}

// TMR-18, TMR-30, LLF-22.
#[test]
fn client_waits_in_vain_for_a_later_link() {
    let mut pair = Pair::ready([1, 1], [2, 2]);
    pair.sides[CLIENT].ports += 1;
    pair.deaf = |from, kind, reply| (from, kind, reply) == (SERVER, CONFIRM, false);
    let before = pair.seen.len();
    pair.add_port(SERVER);
    pair.pass(20);
    assert!(
        pair.said(before).contains(&(CLIENT, DELETE, false))
            || pair.said(before).contains(&(SERVER, DELETE, false))
    );
    let client = &pair.sides[CLIENT];
    assert!(client.did(|action| matches!(action, LlcAction::DropLink { .. })));
    // The link that carried the messages is not affected.
    assert!(client.group.is_active(LinkSlot::FIRST) && client.group.is_ready());
    assert!(!client.did(|action| matches!(action, LlcAction::MoveConnections { .. })));
    // Later it asks for its port.
    pair.deaf = |_, _, _| false;
    pair.pass(120);
    assert!(
        pair.sides[CLIENT].did(|action| *action == LlcAction::SuggestLink)
            || pair.sides[CLIENT].active() == 2
    );
}

// TMR-17, RDV-08, RDV-09, FBK-12.
#[test]
fn client_waits_in_vain_for_the_second_link_of_first_contact() {
    let mut pair = Pair::new([2, 2], [2, 2], Layout::Linux);
    let first = |pair: &Pair| pair.seen.iter().filter(|seen| seen.kind == CONFIRM).count();
    pair.deaf = |_, _, _| false;
    pair.start();
    // Up to the CONFIRM LINK of the second link, which is not looked at.
    while let Some((from, slot, octets, kind)) = pair.wire.pop_front() {
        if first(&pair) >= 3 && octets[0] == CONFIRM {
            pair.input(from, |group, now| group.handle_sent(now, slot, kind));
            break;
        }
        pair.wire.push_front((from, slot, octets, kind));
        let rest = pair.wire.split_off(1);
        pair.settle_one();
        pair.wire.extend(rest);
    }
    assert!(!pair.sides[CLIENT].did(|action| *action == LlcAction::Ready));
    let before = pair.seen.len();
    pair.pass(30);
    let said = pair.said(before);
    assert!(said.contains(&(CLIENT, DELETE, false)) || said.contains(&(SERVER, DELETE, false)));
    // First contact ends well, with one link, after the server has said so.
    for side in &pair.sides {
        assert!(
            side.did(|action| *action == LlcAction::Ready),
            "{:?}",
            side.done
        );
        assert_eq!(side.active(), 1);
    }
}

// TMR-20, FBK-11, FBK-12, FBK-14.
#[test]
fn silence_about_the_keys_in_first_contact_is_the_end() {
    let cases: [(Filter, usize); 2] = [
        (|from, kind, _| (from, kind) == (SERVER, CONT), CLIENT),
        (|from, kind, _| (from, kind) == (CLIENT, CONT), SERVER),
    ];
    for (deaf, side) in cases {
        let mut pair = Pair::new([2, 2], [2, 2], Layout::Rfc);
        pair.deaf = deaf;
        pair.start();
        pair.pass(30);
        // Behind the point of no return there is no Decline.
        let aborted =
            |action: &LlcAction| matches!(action, LlcAction::FirstContactFailed(Fail::Abort(_)));
        assert!(pair.sides[side].did(aborted), "{:?}", pair.sides[side].done);
        assert!(!pair.sides[side].did(|action| *action == LlcAction::Ready));
    }
}

// TMR-22, LLF-50.
#[test]
fn client_asks_in_vain_for_the_end_of_a_link() {
    let mut pair = Pair::ready([3, 3], [3, 3]);
    pair.input(CLIENT, |group, now| {
        group.request_link(now, &[port(CLIENT, 2)])
    });
    pair.settle();
    assert_eq!(pair.sides[CLIENT].active(), 3);
    pair.deaf = |from, kind, _| (from, kind) == (CLIENT, DELETE);
    let before = pair.seen.len();
    pair.input(CLIENT, |group, now| {
        group.handle_link_down(now, LinkSlot::FIRST)
    });
    pair.pass(30);
    let asked = pair.said(before);
    let asked = asked
        .iter()
        .filter(|said| **said == (CLIENT, DELETE, false));
    assert!(asked.count() > 1, "it is asked again");
    assert!(pair.sides[CLIENT].end(LinkSlot::FIRST).is_none());
}

// LLC-01.
#[test]
fn messages_stay_readable() {
    let pair = Pair::ready([2, 2], [2, 2]);
    for seen in &pair.seen {
        assert!(LlcBody::parse(&seen.octets, Layout::Linux).is_ok());
        assert_eq!(seen.octets[1], 44);
    }
}
