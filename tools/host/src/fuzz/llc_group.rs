// SPDX-License-Identifier: GPL-2.0

//! The LLC side of a link group against a peer that sends anything: what it asks for stays within
//! reason, nothing follows its last action, and left alone it comes to rest.

use super::input::Input;
use crate::proto::{
    base::{
        time::{
            Duration,
            Instant, //
        },
        verbs::{
            Gid,
            Mac,
            Mtu,
            Psn,
            Qpn,
            RKey, //
        },
    },
    smc::{
        llc::{
            action::LlcAction,
            group::{
                Group,
                GroupConfig,
                GroupTimers, //
            },
            link::{
                LinkSlot,
                LocalLink,
                PeerLink,
                Port, //
            },
            msg::LlcBody,
            rtoken::Entry,
            DeleteReason,
            Layout,
            LinkOffer,
            LlcKind,
            RmbId,
            Role, //
        },
        wire::{
            LinkNum,
            RToken, //
        },
    },
    stream::reason::Reason, //
};

const MAC: Mac = Mac::new([2; 6]);
const GID: Gid = Gid::new([3; 16]);
const LAYOUT: Layout = Layout::Linux;

/// The group under test: both ends have the same port, so that a message copied from its own
/// output has a chance to be right.
fn config(role: Role) -> GroupConfig {
    let qpn = Qpn::new(8);
    GroupConfig {
        role,
        local: LocalLink {
            mac: MAC,
            gid: GID,
            qpn,
            uid: 1,
        },
        peer: PeerLink {
            mac: MAC,
            gid: GID,
            qpn,
        },
        number: LinkNum::new(1),
        max_links: 2,
        max_conns: 0,
        direct: true,
        layout: LAYOUT,
        timers: GroupTimers::default(),
    }
}

/// An end for another link, on one of some ports, or none.
fn offer<S>(group: &mut Group<S>, slot: LinkSlot, input: &mut Input<'_>) -> Option<LinkOffer>
where
    S: core::ops::DerefMut<Target = [Entry]>,
{
    let port = input.byte();
    for id in 0..=u8::MAX {
        let token = RToken {
            rkey: RKey::new(u32::from(id) | 0x100),
            vaddr: 0x2000,
        };
        group.set_token(RmbId(u16::from(id)), slot, token);
    }
    (port % 8 != 0).then_some(LinkOffer {
        local: LocalLink {
            mac: Mac::new([port % 4; 6]),
            gid: GID,
            qpn: Qpn::new(9),
            uid: 2,
        },
        psn: Psn::new(1),
        mtu: Mtu::M1024,
    })
}

/// Any sequence of events.
pub fn llc_group(octets: &[u8]) {
    let mut input = Input::new(octets);
    let role = if input.bool() {
        Role::Server
    } else {
        Role::Client
    };
    let (mut theirs, mut own) = ([Entry::EMPTY; 4], [Entry::EMPTY; 4]);
    let mut group = Group::new(&config(role), &mut theirs[..], &mut own[..]);
    // The link that messages come from and go to: the first, or the latest.
    let mut latest = LinkSlot::FIRST;
    let mut now = Instant::from_nanos(1);
    let mut over = false;
    // What was sent last: the peer may answer it by its echo.
    let mut last = ([0; 44], LlcKind::Reply);
    group.start(now);

    while !input.is_empty() {
        match input.byte() % 16 {
            0..=2 => {
                let octets: [u8; 44] = input.array();
                let slot = if input.bool() {
                    latest
                } else {
                    LinkSlot::FIRST
                };
                group.handle_message(now, slot, &octets);
            }
            3..=5 => {
                // The reply to what was sent, or the same as a request.
                let (mut octets, _) = last;
                octets[3] ^= input.byte();
                let slot = if input.bool() {
                    latest
                } else {
                    LinkSlot::FIRST
                };
                group.handle_message(now, slot, &octets);
            }
            6..=9 => {
                let action = group.poll_action();
                assert!(!over || action.is_none(), "something follows the end");
                match action {
                    Some(LlcAction::Send { msg, kind, .. }) => {
                        assert!(LlcBody::parse(&msg, LAYOUT).is_ok());
                        last = (msg, kind);
                    }
                    Some(LlcAction::MoveToRts { slot } | LlcAction::ConnectLink { slot, .. }) => {
                        let ok = input.byte() % 4 != 0;
                        let result = ok.then_some(()).ok_or(Reason::ReadyLink);
                        group.handle_rts(now, slot, result);
                    }
                    Some(LlcAction::OfferLink { slot, .. }) => {
                        latest = slot;
                        let offer = offer(&mut group, slot, &mut input);
                        group.offer_link(now, slot, offer);
                    }
                    Some(LlcAction::AcceptLink { slot, .. }) => {
                        latest = slot;
                        let offer = offer(&mut group, slot, &mut input);
                        group.accept_link(now, slot, offer);
                    }
                    Some(LlcAction::FirstContactFailed(_) | LlcAction::Terminate { .. }) => {
                        over = true
                    }
                    _ => {}
                }
            }
            10 => group.handle_sent(now, latest, last.1),
            11 if input.byte() < 8 => group.handle_send_failed(now, latest, last.1),
            11 if input.byte() < 8 => group.handle_link_down(now, LinkSlot::FIRST),
            12 => {
                now = now.saturating_add(Duration::from_millis(u64::from(input.short())));
                group.handle_timeout(now);
            }
            13 => {
                let token = RToken {
                    rkey: RKey::new(u32::from(input.byte())),
                    vaddr: 0x1000,
                };
                let id = RmbId(u16::from(input.byte()));
                if input.bool() {
                    let _busy = group.confirm_rkey(now, id, &[(LinkSlot::FIRST, token)]);
                } else {
                    let _found = group.delete_rkey(now, id);
                }
                if let Ok(known) = group.peer_rmb(LinkSlot::FIRST, token) {
                    assert_eq!(group.peer_token(known, LinkSlot::FIRST), Some(token));
                }
            }
            14 if input.bool() => group.test_link(now, latest, input.array()),
            14 => group.request_link(now, &[Port { mac: MAC, gid: GID }]),
            15 if input.byte() == 0 => {
                let reason = DeleteReason::Operator;
                group.terminate(now, reason, input.bool());
            }
            _ => {}
        }
    }

    // Without a peer every exchange ends in time. Testing an idle link is an exchange as well, so
    // a group that is not over ends with it.
    for _ in 0..200 {
        while let Some(action) = group.poll_action() {
            assert!(!over, "something follows the end");
            over = matches!(
                action,
                LlcAction::FirstContactFailed(_) | LlcAction::Terminate { .. }
            );
        }
        match group.poll_timeout() {
            Some(deadline) => {
                now = now.max(deadline);
                group.handle_timeout(now);
            }
            None => break,
        }
    }
    assert!(over, "the group never ends");
}
