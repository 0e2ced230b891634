// SPDX-License-Identifier: GPL-2.0

//! Announcing and withdrawing buffers of this side: CONFIRM RKEY with its continuations, and DELETE
//! RKEY, RFC 7609, section 3.5.5.2. The pending announcements state in [`local_rmbs`](super::own).

use core::ops::DerefMut;

use super::{
    action::{
        Cause,
        LlcAction,
        LlcKind,
        RmbId, //
    },
    confirm_rkey::{
        ConfirmRkey,
        Other, //
    },
    confirm_rkey_cont::ConfirmRkeyCont,
    delete_rkey::DeleteRkey,
    group::Group,
    link::{
        LinkSlot,
        MAX_LINKS, //
    },
    local_rmbs::{
        Busy,
        RmbPlace,
        RmbState, //
    },
    msg::LlcBody,
    rtoken::Entry, //
};
use crate::proto::{
    base::time::Instant,
    smc::wire::RToken, //
};

/// How often a buffer is announced that the peer refuses for now, each time after twice the wait
/// (LLF-65). Linux says so also when it never will take it (DEP-6).
const TRIES: u8 = 8;

/// How often a buffer is withdrawn that the peer says not to know: a peer also says so while the
/// links change (AMB-16).
const DELETE_TRIES: u8 = 3;

/// Links of which CONFIRM RKEY itself tells besides its own (LLC-608).
const FIRST_OTHERS: u8 = 2;

/// Links of which each continuation tells (LLC-806).
const MORE_OTHERS: u8 = 3;

/// Most links besides the one that carries the messages.
const MAX_OTHERS: usize = MAX_LINKS - 1;

/// How far the running exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RkeyState {
    /// There is none.
    Idle,
    /// A message was sent, its reply is awaited.
    Waiting {
        /// The buffer.
        place: RmbPlace,
        /// The link that carries the exchange.
        slot: LinkSlot,
        /// The buffer on it.
        token: RToken,
        /// Whether the peer is to forget the buffer.
        delete: bool,
        /// TMR-26, TMR-28.
        deadline: Instant,
    },
    /// Refused for now, to be begun again.
    Pausing {
        /// When.
        until: Instant,
    },
}

/// The exchange of this side about one of its buffers (COL-01).
#[derive(Debug)]
pub(super) struct Exchange {
    state: RkeyState,
    /// Where the buffer lies on the other links, as it was when the exchange began.
    others: [Other; MAX_OTHERS],
    /// How many of them there are.
    count: u8,
    /// How many of them were told.
    told: u8,
    /// The links of the exchange.
    links: u8,
}

impl Exchange {
    /// Makes one that does not run.
    pub(super) const fn new() -> Self {
        Self {
            state: RkeyState::Idle,
            others: [Other::NONE; MAX_OTHERS],
            count: 0,
            told: 0,
            links: 0,
        }
    }

    /// Whether a reply is awaited.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.state, RkeyState::Waiting { .. })
    }

    /// When something has to happen.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        match self.state {
            RkeyState::Idle => None,
            RkeyState::Waiting { deadline, .. } => Some(deadline),
            RkeyState::Pausing { until } => Some(until),
        }
    }

    /// A pause is over: what it waited for has come.
    pub(super) fn resume(&mut self) {
        if matches!(self.state, RkeyState::Pausing { .. }) {
            self.state = RkeyState::Idle;
        }
    }

    /// How many links have yet to be told.
    fn left(&self) -> u8 {
        self.count.saturating_sub(self.told)
    }

    /// Takes the next links into the places of a message.
    fn take(&mut self, places: &mut [Other]) {
        let rest = self.others.iter().skip(usize::from(self.told));
        for (place, other) in places.iter_mut().zip(rest) {
            *place = *other;
        }
    }

    /// The buffer of the exchange, if its reply may arrive on this link now.
    fn answered(&self, slot: LinkSlot, deletes: bool) -> Option<(RmbPlace, RToken)> {
        match self.state {
            RkeyState::Waiting {
                place,
                slot: link,
                token,
                delete,
                ..
            } if link == slot && delete == deletes => Some((place, token)),
            _ => None,
        }
    }
}

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// Enters a buffer of this side that the peer learns of by CLC, in first contact (LLF-35).
    ///
    /// # Errors
    ///
    /// `Busy` when there is no room (RMB-03).
    pub(crate) fn own_rmb(&mut self, id: RmbId, slot: LinkSlot, token: RToken) -> Result<(), Busy> {
        self.own.add(id, &[(slot, token)], Some(slot))
    }

    /// Enters where a buffer of this side lies on a link that is being added (LLF-11, LLF-15).
    pub(crate) fn set_token(&mut self, id: RmbId, slot: LinkSlot, token: RToken) {
        if self
            .attempts
            .adding
            .is_some_and(|adding| adding.slot == slot)
        {
            self.own.set(id, slot, token);
        }
    }

    /// Announces a new buffer of this side on all links (LLF-60). Ends in
    /// [`LlcAction::RkeyConfirmed`], in [`LlcAction::RkeyRejected`] or with the group.
    ///
    /// # Errors
    ///
    /// `Busy` when there is no room (RMB-03).
    pub(crate) fn confirm_rkey(
        &mut self,
        now: Instant,
        id: RmbId,
        tokens: &[(LinkSlot, RToken)],
    ) -> Result<(), Busy> {
        self.own.add(id, tokens, None)?;
        self.advance(now);
        Ok(())
    }

    /// Withdraws a buffer of this side (LLF-67). Ends in [`LlcAction::RkeyDeleted`] or with the group.
    /// Says whether there is one of that name.
    pub(crate) fn delete_rkey(&mut self, now: Instant, id: RmbId) -> bool {
        let found = self.own.withdraw(id);
        self.advance(now);
        found
    }

    /// The places of the active links.
    fn active_bits(&self) -> u8 {
        let active = self.slots().filter(|(_, link)| link.is_active());
        active.fold(0, |bits, (slot, _)| bits | slot.bit())
    }

    /// Begins the next exchange if it is time to.
    pub(super) fn start_rkey(&mut self, now: Instant) {
        while self.rkeys.state == RkeyState::Idle && self.is_ready() {
            let active = self.active_bits();
            let Some(place) = self.own.next_work(active).filter(|_| active != 0) else {
                return;
            };
            let delete = self.own.state(place) == RmbState::Withdrawn;
            let Some((slot, token)) = self.rkey_carrier(place, delete) else {
                // No link knows the buffer, so the peer cannot learn or have learnt of it.
                self.end_rkey(place, delete);
                continue;
            };
            self.rkeys.state = RkeyState::Waiting {
                place,
                slot,
                token,
                delete,
                deadline: now.saturating_add(self.timers.reply),
            };
            let message = if delete {
                LlcBody::DeleteRkey(DeleteRkey::request(token.rkey))
            } else {
                self.announcement(place, slot, token)
            };
            self.send(slot, &message, LlcKind::Rkey);
        }
    }

    /// The link for an exchange about a buffer; LLF-72 allows any. The peer can forget a buffer
    /// only by a key it knows.
    fn rkey_carrier(&self, place: RmbPlace, delete: bool) -> Option<(LinkSlot, RToken)> {
        self.slots().find_map(|(slot, link)| {
            let usable = link.is_active() && (!delete || self.own.is_told(place, slot));
            let token = self.own.get(place)?.token(slot);
            Some((slot, token.filter(|_| usable)?))
        })
    }

    /// The CONFIRM RKEY for a buffer (LLC-605).
    fn announcement(&mut self, place: RmbPlace, slot: LinkSlot, token: RToken) -> LlcBody {
        let mut others = [Other::NONE; MAX_OTHERS];
        let mut count = 0_u8;
        let mut links = slot.bit();
        let entry = self.own.get(place);
        let tokens = self
            .slots()
            .filter(|(other, link)| *other != slot && link.is_active())
            .filter_map(|(other, link)| Some((other, link.number, entry?.token(other)?)));
        for (spot, (other, number, token)) in others.iter_mut().zip(tokens) {
            *spot = Other { number, token };
            links |= other.bit();
            count = count.saturating_add(1);
        }
        self.rkeys.others = others;
        self.rkeys.count = count;
        self.rkeys.links = links;
        self.rkeys.told = 0;
        let mut message = ConfirmRkey {
            reply: false,
            negative: false,
            retry: false,
            count,
            token,
            others: [Other::NONE; 2],
        };
        self.rkeys.take(&mut message.others);
        self.rkeys.told = FIRST_OTHERS;
        LlcBody::ConfirmRkey(message)
    }

    /// An exchange about a buffer has come to nothing: a new one cannot be used, one that was
    /// withdrawn is forgotten, and one that is known stays so where it is.
    fn end_rkey(&mut self, place: RmbPlace, delete: bool) {
        self.rkeys.state = RkeyState::Idle;
        let Some(id) = self.own.id(place) else {
            return;
        };
        match self.own.state(place) {
            RmbState::Unused => {}
            RmbState::Confirmed => {
                // What is not told cannot be used, and is not tried again.
                let all = u8::MAX;
                let _ = self.own.set_told(place, all);
            }
            RmbState::New => {
                self.own.remove(place);
                self.act(LlcAction::RkeyRejected(id));
            }
            // It was withdrawn while it was announced: the peer may know of it all the same.
            RmbState::Withdrawn if !delete => {}
            RmbState::Withdrawn => {
                self.own.remove(place);
                self.act(LlcAction::RkeyDeleted(id));
            }
        }
    }

    /// The timer of the exchange.
    pub(super) fn on_rkey_timeout(&mut self, now: Instant) {
        match self.rkeys.state {
            RkeyState::Waiting { slot, deadline, .. } if deadline <= now => {
                let until = self.more_time(now, slot);
                match (until, &mut self.rkeys.state) {
                    (Some(until), RkeyState::Waiting { deadline, .. }) => *deadline = until,
                    // TMR-26, TMR-28.
                    _ => self.fail(now, slot, Cause::NoReply(LlcKind::Rkey)),
                }
            }
            RkeyState::Pausing { until } if until <= now => self.rkeys.state = RkeyState::Idle,
            _ => {}
        }
    }

    /// A link is gone, and with it what was sent on it (LLC-10). The exchange is begun anew on
    /// another link.
    pub(super) fn on_rkey_link_lost(&mut self, slot: LinkSlot) {
        if matches!(self.rkeys.state, RkeyState::Waiting { slot: link, .. } if link == slot) {
            self.rkeys.state = RkeyState::Idle;
        }
    }

    /// The peer has refused for now.
    fn pause_rkey(&mut self, now: Instant, tries: u8) {
        let factor = 1_u64.checked_shl(u32::from(tries.saturating_sub(1)));
        let wait = self.timers.rkey_retry.saturating_mul(factor.unwrap_or(1));
        self.rkeys.state = RkeyState::Pausing {
            until: now.saturating_add(wait),
        };
    }

    /// The peer has answered the announcement of a buffer.
    pub(super) fn on_confirm_rkey_reply(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        message: &ConfirmRkey,
    ) {
        let unexpected = Cause::Unexpected("CONFIRM RKEY");
        let first = self.rkeys.told == FIRST_OTHERS;
        let Some((place, token)) = self.rkeys.answered(slot, false).filter(|_| first) else {
            return self.fail(now, slot, unexpected);
        };
        if token != message.token {
            return self.fail(now, slot, Cause::Mismatch("CONFIRM RKEY"));
        }
        self.on_announced(now, slot, place, message.negative.then_some(message.retry));
    }

    /// The peer has answered a continuation.
    pub(super) fn on_confirm_rkey_cont_reply(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        message: &ConfirmRkeyCont,
    ) {
        let further = self.rkeys.told > FIRST_OTHERS;
        let answered = self.rkeys.answered(slot, false).filter(|_| further);
        match answered {
            // There is no bit that says for now (LLC-804).
            Some((place, _)) => {
                self.on_announced(now, slot, place, message.negative.then_some(true));
            }
            None => self.fail(now, slot, Cause::Unexpected("CONFIRM RKEY CONTINUATION")),
        }
    }

    /// The peer has taken in a part of an announcement, or `refused` it, possibly only for now.
    fn on_announced(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        place: RmbPlace,
        refused: Option<bool>,
    ) {
        if let Some(retry) = refused {
            // LLF-64: it is begun anew, with the links there are then.
            let tries = self.own.count_refusal(place);
            return if retry && tries < TRIES {
                self.pause_rkey(now, tries);
            } else {
                self.end_rkey(place, false);
            };
        }
        if self.rkeys.left() > 0 {
            return self.continue_announcement(now, slot);
        }
        self.rkeys.state = RkeyState::Idle;
        let links = self.rkeys.links;
        if let (true, Some(id)) = (self.own.set_told(place, links), self.own.id(place)) {
            self.act(LlcAction::RkeyConfirmed(id));
        }
    }

    /// Announces the buffer on the next links (LLF-62).
    fn continue_announcement(&mut self, now: Instant, slot: LinkSlot) {
        let mut message = ConfirmRkeyCont {
            reply: false,
            negative: false,
            left: self.rkeys.left(),
            others: [Other::NONE; 3],
        };
        self.rkeys.take(&mut message.others);
        self.rkeys.told = self.rkeys.told.saturating_add(MORE_OTHERS);
        if let RkeyState::Waiting { deadline, .. } = &mut self.rkeys.state {
            *deadline = now.saturating_add(self.timers.reply);
        }
        self.send(slot, &LlcBody::ConfirmRkeyCont(message), LlcKind::Rkey);
    }

    /// The peer has answered the withdrawal of a buffer.
    pub(super) fn on_delete_rkey_reply(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        message: &DeleteRkey,
    ) {
        let Some((place, _)) = self.rkeys.answered(slot, true) else {
            return self.fail(now, slot, Cause::Unexpected("DELETE RKEY"));
        };
        if message.negative {
            let tries = self.own.count_refusal(place);
            if tries < DELETE_TRIES {
                return self.pause_rkey(now, tries);
            }
        }
        // LLF-70: a buffer the peer did not know is as good as forgotten.
        self.end_rkey(place, true);
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_rkey))]
mod tests {
    use super::*;
    use crate::proto::{
        base::{
            time::Duration,
            verbs::RKey, //
        },
        smc::{
            llc::{
                action::Role,
                rtoken::TableFull,
                testing::{
                    after,
                    deliver,
                    new,
                    new_strict,
                    ready,
                    sent,
                    token,
                    TestGroup,
                    START, //
                },
            },
            wire::LinkNum, //
        },
    };

    const ID: RmbId = RmbId(7);

    /// CONFIRM RKEY for a buffer on the only link.
    const fn announcement(rkey: u32) -> ConfirmRkey {
        ConfirmRkey {
            reply: false,
            negative: false,
            retry: false,
            count: 0,
            token: token(rkey),
            others: [Other::NONE; 2],
        }
    }

    /// Announces a buffer of this side and checks that it is sent.
    fn announce(group: &mut TestGroup<'_>, now: Instant, rkey: u32) {
        let tokens = [(LinkSlot::FIRST, token(rkey))];
        assert_eq!(group.confirm_rkey(now, ID, &tokens), Ok(()));
        expect_announcement(group, rkey);
    }

    /// Checks that the announcement of a buffer is sent.
    fn expect_announcement(group: &mut TestGroup<'_>, rkey: u32) {
        let expected = (LlcKind::Rkey, LlcBody::ConfirmRkey(announcement(rkey)));
        assert_eq!(sent(group), Some(expected));
        assert_eq!(group.poll_action(), None);
    }

    /// LLF-60, LLF-61, LLF-63.
    #[test]
    fn buffer_is_announced_and_confirmed() {
        for role in [Role::Client, Role::Server] {
            let mut places = [Entry::EMPTY; 2];
            let mut group = ready(role, &mut places);
            announce(&mut group, START, 5);
            assert_eq!(group.poll_timeout(), Some(after(2)));
            let reply = ConfirmRkey {
                reply: true,
                ..announcement(5)
            };
            deliver(&mut group, START, &LlcBody::ConfirmRkey(reply));
            assert_eq!(group.poll_action(), Some(LlcAction::RkeyConfirmed(ID)));
            assert_eq!(group.poll_action(), None);
        }
    }

    /// LLF-67, LLF-70: also if the peer did not know it.
    // TST-014.
    #[test]
    fn buffer_is_withdrawn() {
        for negative in [false, true] {
            let mut places = [Entry::EMPTY; 2];
            let mut group = ready(Role::Client, &mut places);
            assert_eq!(group.own_rmb(ID, LinkSlot::FIRST, token(5)), Ok(()));
            assert!(group.delete_rkey(START, ID));
            let message = DeleteRkey::request(RKey::new(5));
            let request = Some((LlcKind::Rkey, LlcBody::DeleteRkey(message)));
            assert_eq!(sent(&mut group), request);
            let mut now = START;
            for wait in [50, 100].into_iter().filter(|_| negative) {
                // The peer may also say so because the links change (AMB-16).
                deliver(&mut group, now, &LlcBody::DeleteRkey(message.reply(0x80)));
                assert_eq!(group.poll_action(), None);
                now = now.saturating_add(Duration::from_millis(wait));
                assert_eq!(group.poll_timeout(), Some(now));
                group.handle_timeout(now);
                assert_eq!(sent(&mut group), request);
            }
            let reply = message.reply(if negative { 0x80 } else { 0 });
            deliver(&mut group, now, &LlcBody::DeleteRkey(reply));
            assert_eq!(group.poll_action(), Some(LlcAction::RkeyDeleted(ID)));
            assert!(!group.delete_rkey(now, ID));
        }
    }

    /// COL-01: one at a time, in order. RMB-03.
    #[test]
    fn requests_queue_up() {
        let mut places = [Entry::EMPTY; 8];
        let mut group = ready(Role::Client, &mut places);
        let id = |rkey: u32| RmbId(u16::try_from(10 - rkey).unwrap_or(0));
        for rkey in 1..=4 {
            let tokens = [(LinkSlot::FIRST, token(rkey))];
            let id = id(rkey);
            assert_eq!(group.confirm_rkey(START, id, &tokens), Ok(()));
        }
        assert_eq!(group.confirm_rkey(START, RmbId(1), &[]), Err(Busy));
        for rkey in 1..=4 {
            expect_announcement(&mut group, rkey);
            let reply = ConfirmRkey {
                reply: true,
                ..announcement(rkey)
            };
            deliver(&mut group, START, &LlcBody::ConfirmRkey(reply));
            let id = id(rkey);
            assert_eq!(group.poll_action(), Some(LlcAction::RkeyConfirmed(id)));
        }
        assert_eq!(group.poll_action(), None);
    }

    /// A buffer withdrawn during its announcement is deleted after it.
    #[test]
    fn announced_buffer_can_be_withdrawn() {
        for refused in [false, true] {
            let mut places = [Entry::EMPTY; 2];
            let mut group = ready(Role::Client, &mut places);
            announce(&mut group, START, 1);
            assert!(group.delete_rkey(START, ID));
            assert_eq!(group.poll_action(), None);
            let reply = ConfirmRkey {
                reply: true,
                negative: refused,
                ..announcement(1)
            };
            deliver(&mut group, START, &LlcBody::ConfirmRkey(reply));
            if !refused {
                let message = DeleteRkey::request(RKey::new(1));
                let expected = (LlcKind::Rkey, LlcBody::DeleteRkey(message));
                assert_eq!(sent(&mut group), Some(expected));
                deliver(&mut group, START, &LlcBody::DeleteRkey(message.reply(0)));
            }
            assert_eq!(group.poll_action(), Some(LlcAction::RkeyDeleted(ID)));
            assert_eq!(group.poll_action(), None);
        }
    }

    /// COL-03: not before first contact is over.
    #[test]
    fn requests_wait_for_first_contact() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = new(Role::Client, &mut places);
        group.start(START);
        let tokens = [(LinkSlot::FIRST, token(9))];
        assert_eq!(group.confirm_rkey(START, ID, &tokens), Ok(()));
        assert_eq!(group.poll_action(), None);
    }

    /// LLF-64, LLF-65, DEP-6: repeated while the peer asks for it, a limited number of times.
    #[test]
    fn refused_buffer_is_announced_again() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Client, &mut places);
        announce(&mut group, START, 5);
        let refusal = ConfirmRkey {
            reply: true,
            negative: true,
            retry: true,
            ..announcement(5)
        };
        let mut now = START;
        for tries in 1..TRIES {
            deliver(&mut group, now, &LlcBody::ConfirmRkey(refusal));
            assert_eq!(group.poll_action(), None);
            now = now.saturating_add(Duration::from_millis(25 << tries));
            assert_eq!(group.poll_timeout(), Some(now));
            group.handle_timeout(now);
            expect_announcement(&mut group, 5);
        }
        deliver(&mut group, now, &LlcBody::ConfirmRkey(refusal));
        assert_eq!(group.poll_action(), Some(LlcAction::RkeyRejected(ID)));

        // Without the flag, not at all.
        announce(&mut group, now, 5);
        let refusal = ConfirmRkey {
            retry: false,
            ..refusal
        };
        deliver(&mut group, now, &LlcBody::ConfirmRkey(refusal));
        assert_eq!(group.poll_action(), Some(LlcAction::RkeyRejected(ID)));
    }

    /// TMR-26, TMR-28.
    #[test]
    fn missing_reply_is_the_end_of_the_link() {
        for delete in [false, true] {
            let mut places = [Entry::EMPTY; 2];
            let mut group = ready(Role::Server, &mut places);
            if delete {
                assert_eq!(group.own_rmb(ID, LinkSlot::FIRST, token(5)), Ok(()));
                assert!(group.delete_rkey(START, ID));
                assert!(sent(&mut group).is_some());
            } else {
                announce(&mut group, START, 5);
            }
            group.handle_timeout(after(2));
            let (slot, cause) = (LinkSlot::FIRST, Cause::NoReply(LlcKind::Rkey));
            assert_eq!(
                group.poll_action(),
                Some(LlcAction::LinkDown { slot, cause })
            );
            assert_eq!(group.poll_action(), Some(LlcAction::Terminate { cause }));
        }
    }

    /// A peer whose data arrives is only busy.
    #[test]
    fn late_reply_is_in_time_if_the_peer_is_busy() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Server, &mut places);
        announce(&mut group, START, 5);
        group.touch(after(1), LinkSlot::FIRST);
        group.handle_timeout(after(2));
        assert_eq!(group.poll_action(), None);
        assert_eq!(group.poll_timeout(), Some(after(3)));
        let reply = ConfirmRkey {
            reply: true,
            ..announcement(5)
        };
        deliver(&mut group, after(2), &LlcBody::ConfirmRkey(reply));
        assert_eq!(group.poll_action(), Some(LlcAction::RkeyConfirmed(ID)));
    }

    /// ERR-41: a reply to nothing, and one to something else.
    #[test]
    fn wrong_reply_is_the_end_of_the_link() {
        for pending in [false, true] {
            let mut places = [Entry::EMPTY; 2];
            let mut group = ready(Role::Server, &mut places);
            if pending {
                announce(&mut group, START, 5);
            }
            let reply = ConfirmRkey {
                reply: true,
                ..announcement(6)
            };
            deliver(&mut group, START, &LlcBody::ConfirmRkey(reply));
            assert!(matches!(
                group.poll_action(),
                Some(LlcAction::LinkDown { .. })
            ));
        }
    }

    /// LLF-71, LLF-69, ERR-38, RMB-03: what the peer announces is known until it is withdrawn.
    #[test]
    fn buffers_of_the_peer_are_known() {
        let mut places = [Entry::EMPTY; 4];
        let mut group = ready(Role::Server, &mut places);
        for (rkey, negative) in [(1, false), (2, false), (3, true), (1, false)] {
            deliver(&mut group, START, &LlcBody::ConfirmRkey(announcement(rkey)));
            let reply = ConfirmRkey {
                reply: true,
                negative,
                ..announcement(rkey)
            };
            let expected = (LlcKind::Reply, LlcBody::ConfirmRkey(reply));
            assert_eq!(sent(&mut group), Some(expected));
        }
        let known = group.peer_rmb(LinkSlot::FIRST, token(1));
        assert_eq!(
            known.map(|id| group.peer_token(id, LinkSlot::FIRST)),
            Ok(Some(token(1)))
        );
        assert_eq!(group.peer_rmb(LinkSlot::FIRST, token(3)), Err(TableFull));

        for mask in [0, 0x80] {
            let request = DeleteRkey::request(RKey::new(2));
            deliver(&mut group, START, &LlcBody::DeleteRkey(request));
            let expected = (LlcKind::Reply, LlcBody::DeleteRkey(request.reply(mask)));
            assert_eq!(sent(&mut group), Some(expected));
        }
        assert!(group.peer_rmb(LinkSlot::FIRST, token(3)).is_ok());
    }

    /// COL-14, COL-24, AMB-16: while the configuration changes, keys do not.
    #[test]
    fn keys_wait_for_the_configuration() {
        use crate::proto::smc::llc::testing::confirm_link;
        let mut places = [Entry::EMPTY; 2];
        let mut group = new_strict(Role::Server, &mut places);
        group.start(START);
        let reply = LlcBody::ConfirmLink(confirm_link(Role::Client));
        deliver(&mut group, START, &reply);
        while group.poll_action().is_some() {}
        deliver(&mut group, START, &LlcBody::ConfirmRkey(announcement(1)));
        let reply = ConfirmRkey {
            reply: true,
            negative: true,
            retry: true,
            ..announcement(1)
        };
        let expected = (LlcKind::Reply, LlcBody::ConfirmRkey(reply));
        assert_eq!(sent(&mut group), Some(expected));
        let request = DeleteRkey::request(RKey::new(1));
        deliver(&mut group, START, &LlcBody::DeleteRkey(request));
        let expected = (LlcKind::Reply, LlcBody::DeleteRkey(request.reply(0x80)));
        assert_eq!(sent(&mut group), Some(expected));
    }

    /// LLF-62, AMB-12, AMB-13: tokens of links this side does not have are passed over.
    #[test]
    fn continuation_belongs_to_an_announcement() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Server, &mut places);
        let more = ConfirmRkeyCont {
            reply: false,
            negative: false,
            left: 3,
            others: [Other {
                number: LinkNum::new(4),
                token: token(4),
            }; 3],
        };
        // One without an announcement is refused.
        for negative in [true, false, true] {
            if !negative {
                let request = ConfirmRkey {
                    count: 5,
                    ..announcement(1)
                };
                deliver(&mut group, START, &LlcBody::ConfirmRkey(request));
                assert!(sent(&mut group).is_some());
            }
            deliver(&mut group, START, &LlcBody::ConfirmRkeyCont(more));
            let reply = ConfirmRkeyCont {
                reply: true,
                negative,
                ..more
            };
            let expected = (LlcKind::Reply, LlcBody::ConfirmRkeyCont(reply));
            assert_eq!(sent(&mut group), Some(expected));
        }
        assert!(group.is_ready());
    }

    /// A request for a buffer that lies on no link ends at once.
    #[test]
    fn buffer_without_a_link_is_rejected() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Server, &mut places);
        assert_eq!(group.confirm_rkey(START, ID, &[]), Ok(()));
        assert_eq!(group.poll_action(), Some(LlcAction::RkeyRejected(ID)));
        assert!(!group.delete_rkey(START, ID));
        assert_eq!(group.poll_action(), None);
    }
}
