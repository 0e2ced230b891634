// SPDX-License-Identifier: GPL-2.0

//! What the tests of the link group share: two peers, and short ways to feed them and to see what
//! they do.

use super::{
    action::{
        Cause,
        LlcAction,
        LlcKind,
        Role, //
    },
    add::LinkOffer,
    confirm_link::ConfirmLink,
    group::{
        Group,
        GroupConfig,
        GroupTimers, //
    },
    link::{
        LinkSlot,
        LocalLink,
        PeerLink, //
    },
    msg::{
        Layout,
        LlcBody, //
    },
    rtoken::Entry,
    test_link::{
        TestLink,
        UserData, //
    },
};
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
    smc::wire::{
        LinkNum,
        RToken, //
    },
};

/// A link group whose storage is the test's.
pub(super) type TestGroup<'a> = Group<&'a mut [Entry]>;

/// The place of the second link, if no other was tried before.
pub(super) const SECOND: LinkSlot = match LinkSlot::new(1, 1) {
    Some(slot) => slot,
    None => LinkSlot::FIRST,
};

/// When tests begin.
pub(super) const START: Instant = Instant::from_nanos(1_000_000_000_000);

/// The number the server gives the first link.
pub(super) const FIRST_NUMBER: LinkNum = LinkNum::new(1);

/// `secs` behind the begin.
pub(super) fn after(secs: u64) -> Instant {
    START.saturating_add(Duration::from_secs(secs))
}

/// A token.
pub(super) const fn token(rkey: u32) -> RToken {
    RToken {
        rkey: RKey::new(rkey),
        vaddr: 0x7000_0000_0000,
    }
}

/// The end of the first link that belongs to `role`.
pub(super) const fn end(role: Role) -> LocalLink {
    let (last, qpn, uid) = match role {
        Role::Client => (0x0b, 0x40, 0x202),
        Role::Server => (0x0a, 0x08, 0x101),
    };
    LocalLink {
        mac: Mac::new([2, 0, 0, 0, last, 1]),
        gid: Gid::new([
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, last, 1,
        ]),
        qpn: Qpn::new(qpn),
        uid,
    }
}

/// The other role.
pub(super) const fn other(role: Role) -> Role {
    match role {
        Role::Client => Role::Server,
        Role::Server => Role::Client,
    }
}

/// What `role` makes its group of.
pub(super) fn config(role: Role) -> GroupConfig {
    let peer = end(other(role));
    GroupConfig {
        role,
        local: end(role),
        peer: PeerLink {
            mac: peer.mac,
            gid: peer.gid,
            qpn: peer.qpn,
        },
        number: match role {
            Role::Client => LinkNum::new(0),
            Role::Server => FIRST_NUMBER,
        },
        max_links: 2,
        max_conns: 0,
        direct: true,
        layout: Layout::Linux,
        timers: GroupTimers::default(),
    }
}

/// CONFIRM LINK as `role` sends it.
pub(super) fn confirm_link(role: Role) -> ConfirmLink {
    let end = end(role);
    ConfirmLink {
        reply: role == Role::Client,
        no_eye_catcher: true,
        mac: end.mac,
        gid: end.gid,
        qpn: end.qpn,
        number: FIRST_NUMBER,
        uid: end.uid,
        max_links: 2,
        max_conns: 0,
    }
}

/// What a server with one device offers for a second link.
pub(super) fn offer() -> LinkOffer {
    LinkOffer {
        local: LocalLink {
            qpn: Qpn::new(9),
            ..end(Role::Server)
        },
        psn: Psn::new(0x777),
        mtu: Mtu::M1024,
    }
}

/// Gives a message of the peer to a group, on the first link.
pub(super) fn deliver(group: &mut TestGroup<'_>, now: Instant, message: &LlcBody) {
    deliver_on(group, now, LinkSlot::FIRST, message);
}

/// Gives a message of the peer to a group.
pub(super) fn deliver_on(
    group: &mut TestGroup<'_>,
    now: Instant,
    slot: LinkSlot,
    message: &LlcBody,
) {
    if let Some(octets) = message.emit(group.layout) {
        group.handle_message(now, slot, &octets);
    }
}

/// The next action, if it is to send a message.
pub(super) fn sent(group: &mut TestGroup<'_>) -> Option<(LlcKind, LlcBody)> {
    sent_on(group).map(|(_, kind, message)| (kind, message))
}

/// The same with the link.
pub(super) fn sent_on(group: &mut TestGroup<'_>) -> Option<(LinkSlot, LlcKind, LlcBody)> {
    match group.poll_action() {
        Some(LlcAction::Send { slot, msg, kind }) => {
            Some((slot, kind, LlcBody::parse(&msg, group.layout).ok()?))
        }
        _ => None,
    }
}

/// A group before its start, with the same room for the buffers of both sides.
pub(super) fn new(role: Role, places: &mut [Entry]) -> TestGroup<'_> {
    let (peer, own) = places.split_at_mut(places.len() / 2);
    Group::new(&config(role), peer, own)
}

/// The same toward a peer that does as the RFC says.
pub(super) fn new_strict(role: Role, places: &mut [Entry]) -> TestGroup<'_> {
    let mut group = new(role, places);
    group.layout = Layout::Rfc;
    group
}

/// A group of which first contact is over and no action is left, at [`START`].
pub(super) fn ready(role: Role, places: &mut [Entry]) -> TestGroup<'_> {
    let mut group = new(role, places);
    group.start(START);
    let confirm = LlcBody::ConfirmLink(confirm_link(other(role)));
    deliver(&mut group, START, &confirm);
    group.handle_rts(START, LinkSlot::FIRST, Ok(()));
    group.handle_sent(START, LinkSlot::FIRST, LlcKind::ConfirmLinkReply);
    group.offer_link(START, SECOND, Some(offer()));
    deliver(&mut group, START, &LlcBody::AddLink(add_link(other(role))));
    group.accept_link(START, SECOND, None);
    // A client would look for another link in time.
    group.attempts.cancel_retry();
    while group.poll_action().is_some() {}
    group
}

/// ADD LINK as `role` sends it: the server's attempt, the client's refusal.
pub(super) fn add_link(role: Role) -> super::add_link::AddLink {
    let (offer, client) = (offer(), role == Role::Client);
    super::add_link::AddLink {
        reply: client,
        refusal: client.then_some(super::add_link::Refusal::NoAlternatePath),
        mac: end(role).mac,
        gid: end(role).gid,
        qpn: if client { Qpn::new(0) } else { offer.local.qpn },
        number: LinkNum::new(2),
        mtu: (!client).then_some(offer.mtu),
        psn: if client { Psn::new(0) } else { offer.psn },
    }
}

/// What a test of a link carries.
pub(super) const DATA: UserData = [0xa5; 16];

/// A TEST LINK.
pub(super) const fn test(reply: bool, user_data: UserData) -> LlcBody {
    LlcBody::TestLink(TestLink { reply, user_data })
}

/// Checks that the group is at its end, and why.
pub(super) fn ended(group: &mut TestGroup<'_>, cause: Cause) {
    let slot = LinkSlot::FIRST;
    assert_eq!(
        group.poll_action(),
        Some(LlcAction::LinkDown { slot, cause })
    );
    assert_eq!(group.poll_action(), Some(LlcAction::Terminate { cause }));
    assert_eq!(group.poll_action(), None);
    assert_eq!(group.poll_timeout(), None);
}
