// SPDX-License-Identifier: GPL-2.0

//! Announcing and withdrawing buffers: CONFIRM RKEY and DELETE RKEY, RFC 7609, section 3.5.5.2.

use core::ops::DerefMut;

use super::{
    action::{Action, Cause, Kind, RmbId},
    confirm_rkey::{ConfirmRkey, Other},
    confirm_rkey_cont::ConfirmRkeyCont,
    delete_rkey::DeleteRkey,
    flow::{Request as Class, Verdict},
    group::Group,
    link::Slot,
    msg::Message,
    rtoken::{Entry, TableFull},
};
use crate::proto::{ring::ArrayQueue, time::Instant, wire::RToken};

/// Most requests that wait for their turn.
const REQUESTS: usize = 8;

/// How often a buffer is announced that the peer refuses for now (LLF-65). Linux says so also
/// when it never will take it (DEP-6).
const TRIES: u8 = 4;

/// Too many requests wait; the next end of one makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// What is wanted of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// To know a buffer.
    Confirm,
    /// To forget it.
    Delete,
}

/// A request of this side.
#[derive(Clone, Copy, Debug)]
struct Request {
    op: Op,
    id: RmbId,
    /// Where the buffer lies on each link.
    tokens: Entry,
    /// How often it was sent and refused.
    tries: u8,
}

/// How far the foremost request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not sent, or there is none.
    Idle,
    /// Sent on a link, waiting for the reply.
    Waiting {
        /// The link.
        slot: Slot,
        /// TMR-26, TMR-28.
        deadline: Instant,
    },
    /// Refused for now, to be sent again.
    Pausing {
        /// When.
        until: Instant,
    },
}

/// The requests of this side, one of them under way at a time (COL-01).
#[derive(Debug)]
pub(super) struct Exchange {
    queue: ArrayQueue<Request, REQUESTS>,
    state: State,
}

impl Exchange {
    /// Makes one without requests.
    pub(super) const fn new() -> Self {
        Self {
            queue: ArrayQueue::new(),
            state: State::Idle,
        }
    }

    /// Enqueues the announcement of a buffer.
    pub(super) fn confirm(&mut self, id: RmbId, tokens: &[(Slot, RToken)]) -> Result<(), Busy> {
        self.push(Op::Confirm, id, tokens)
    }

    /// Enqueues the withdrawal of a buffer.
    #[cfg(any(test, fuzzing, CONFIG_RDMA_SOCK_KUNIT_TEST))]
    pub(super) fn delete(&mut self, id: RmbId, tokens: &[(Slot, RToken)]) -> Result<(), Busy> {
        self.push(Op::Delete, id, tokens)
    }

    /// Enqueues a request.
    fn push(&mut self, op: Op, id: RmbId, tokens: &[(Slot, RToken)]) -> Result<(), Busy> {
        let mut entry = Entry::EMPTY;
        for (slot, token) in tokens {
            entry.set(*slot, *token);
        }
        let request = Request {
            op,
            id,
            tokens: entry,
            tries: 0,
        };
        self.queue.push(request).map_err(|_| Busy)
    }

    /// Whether a reply is awaited.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// When something has to happen.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Idle => None,
            State::Waiting { deadline, .. } => Some(deadline),
            State::Pausing { until } => Some(until),
        }
    }

    /// Takes the foremost request out if its reply may arrive on this link now.
    fn answered(&mut self, slot: Slot, op: Op) -> Option<Request> {
        let here = matches!(self.state, State::Waiting { slot: link, .. } if link == slot);
        let request = *self
            .queue
            .front()
            .filter(|request| here && request.op == op)?;
        self.state = State::Idle;
        Some(request)
    }
}

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// Sends the next request if it is time to.
    pub(super) fn start_rkey(&mut self, now: Instant) {
        while self.rkeys.state == State::Idle && self.is_ready() {
            if self.slots().any(|(_, link)| link.is_deleting()) {
                // COL-03.
                return;
            }
            let Some(request) = self.rkeys.queue.front().copied() else {
                return;
            };
            // LLF-72 allows any link.
            let carrier = self.slots().find_map(|(slot, link)| {
                let token = request.tokens.token(slot).filter(|_| link.is_active())?;
                Some((slot, token))
            });
            let Some((slot, token)) = carrier else {
                // No link knows the buffer, so the peer cannot learn or have learnt of it.
                self.end_request(match request.op {
                    Op::Confirm => Action::RkeyRejected(request.id),
                    Op::Delete => Action::RkeyDeleted(request.id),
                });
                continue;
            };
            self.rkeys.state = State::Waiting {
                slot,
                deadline: now.saturating_add(self.timers.reply),
            };
            let message = match request.op {
                Op::Confirm => Message::ConfirmRkey(self.announcement(slot, token, &request)),
                Op::Delete => Message::DeleteRkey(DeleteRkey::request(token.rkey)),
            };
            self.send(slot, &message, Kind::Rkey);
        }
    }

    /// The CONFIRM RKEY for a buffer, to be sent on a link. All other links fit in, because a
    /// group has no more than three (LLF-62).
    fn announcement(&self, slot: Slot, token: RToken, request: &Request) -> ConfirmRkey {
        let mut others = [Other::NONE; 2];
        let mut count = 0_u8;
        let tokens = self
            .slots()
            .filter(|(other, link)| *other != slot && link.is_active())
            .filter_map(|(other, link)| Some((link.number, request.tokens.token(other)?)));
        for (place, (number, token)) in others.iter_mut().zip(tokens) {
            *place = Other { number, token };
            count = count.saturating_add(1);
        }
        ConfirmRkey {
            reply: false,
            negative: false,
            retry: false,
            count,
            token,
            others,
        }
    }

    /// The foremost request is done.
    fn end_request(&mut self, action: Action) {
        self.rkeys.state = State::Idle;
        if self.rkeys.queue.pop().is_some() {
            self.act(action);
        }
    }

    /// The timer of the foremost request.
    pub(super) fn on_rkey_timeout(&mut self, now: Instant) {
        match self.rkeys.state {
            State::Waiting { slot, deadline } if deadline <= now => {
                // TMR-26, TMR-28.
                self.fail(slot, Cause::NoReply(Kind::Rkey));
            }
            State::Pausing { until } if until <= now => self.rkeys.state = State::Idle,
            _ => {}
        }
    }

    /// A link is gone, and with it what was sent on it (LLC-10). The request is repeated on
    /// another link by the caller's call of `start_rkey`.
    pub(super) fn on_rkey_link_lost(&mut self, slot: Slot) {
        if matches!(self.rkeys.state, State::Waiting { slot: link, .. } if link == slot) {
            self.rkeys.state = State::Idle;
        }
    }

    /// CONFIRM RKEY arrived.
    pub(super) fn on_confirm_rkey(&mut self, now: Instant, slot: Slot, message: &ConfirmRkey) {
        if message.reply {
            return self.on_confirm_rkey_reply(now, slot, message);
        }
        self.continued = None;
        let mut reply = ConfirmRkey {
            reply: true,
            negative: false,
            retry: false,
            ..*message
        };
        if self.admit(Class::Rkey) == Verdict::Process {
            // LLF-65, AMB-34: no room is not a matter of time.
            reply.negative = self.learn(slot, message).is_err();
        } else {
            // COL-14, COL-24.
            reply.negative = true;
            reply.retry = true;
        }
        self.send(slot, &Message::ConfirmRkey(reply), Kind::Reply);
        if !reply.negative && usize::from(message.count) <= message.others.len() {
            self.check_keys(slot, message.token);
        }
    }

    /// Enters a buffer of the peer.
    fn learn(&mut self, slot: Slot, message: &ConfirmRkey) -> Result<(), TableFull> {
        let id = self.rtokens.insert(slot, message.token)?;
        let here = usize::from(message.count);
        for other in message.others.iter().take(here) {
            // A link that is not known is on its way out, or not yet in.
            if let Some(slot) = self.slot_of(other.number) {
                self.rtokens.set(id, slot, other.token);
            }
        }
        if here > message.others.len() {
            self.continued = Some(id);
        }
        Ok(())
    }

    /// A link for which the peer has not told the key of its new buffer is of no use (ERR-37).
    fn check_keys(&mut self, slot: Slot, token: RToken) {
        let Some(id) = self.rtokens.find(slot, token.rkey) else {
            return;
        };
        for slot in Slot::all() {
            let active = self.link(slot).is_some_and(|link| link.is_active());
            if active && self.rtokens.get(id, slot).is_none() {
                self.fail(slot, Cause::KeyMissing);
            }
        }
    }

    /// The peer has answered the announcement of a buffer.
    fn on_confirm_rkey_reply(&mut self, now: Instant, slot: Slot, message: &ConfirmRkey) {
        let Some(request) = self.rkeys.answered(slot, Op::Confirm) else {
            return self.fail(slot, Cause::Unexpected("CONFIRM RKEY"));
        };
        if request.tokens.token(slot) != Some(message.token) {
            return self.fail(slot, Cause::Mismatch("CONFIRM RKEY"));
        }
        let tries = request.tries.saturating_add(1);
        if !message.negative {
            self.end_request(Action::RkeyConfirmed(request.id));
        } else if message.retry && tries < TRIES {
            // The end of the peer's exchange is not always visible to this side.
            self.rkeys.state = State::Pausing {
                until: now.saturating_add(self.timers.rkey_retry),
            };
            if let Some(request) = self.rkeys.queue.front_mut() {
                request.tries = tries;
            }
        } else {
            self.end_request(Action::RkeyRejected(request.id));
        }
    }

    /// CONFIRM RKEY CONTINUATION arrived.
    pub(super) fn on_confirm_rkey_cont(&mut self, slot: Slot, message: &ConfirmRkeyCont) {
        if message.reply {
            return self.fail(slot, Cause::Unexpected("CONFIRM RKEY CONTINUATION"));
        }
        let here = usize::from(message.left).min(message.others.len());
        let id = self.continued;
        if let Some(id) = id {
            for other in message.others.iter().take(here) {
                if let Some(slot) = self.slot_of(other.number) {
                    self.rtokens.set(id, slot, other.token);
                }
            }
        }
        if usize::from(message.left) <= message.others.len() {
            self.continued = None;
        }
        let reply = ConfirmRkeyCont {
            reply: true,
            negative: id.is_none(),
            ..*message
        };
        self.send(slot, &Message::ConfirmRkeyCont(reply), Kind::Reply);
    }

    /// DELETE RKEY arrived.
    pub(super) fn on_delete_rkey(&mut self, slot: Slot, message: &DeleteRkey, octets: &[u8]) {
        if message.reply {
            return match self.rkeys.answered(slot, Op::Delete) {
                // LLF-70: a buffer the peer did not know is as good as forgotten.
                Some(request) => self.end_request(Action::RkeyDeleted(request.id)),
                None => self.fail(slot, Cause::Unexpected("DELETE RKEY")),
            };
        }
        let process = self.admit(Class::Rkey) == Verdict::Process;
        if self.layout.is_v2() {
            let unknown = message
                .keys()
                .map(|(key, _)| key)
                .chain(DeleteRkey::further_keys(octets))
                .take(usize::from(message.count()))
                .filter(|key| !process || !self.rtokens.remove(slot, *key))
                .fold(0_u8, |count, _| count.saturating_add(1));
            let reply = Message::DeleteRkey(message.reply_v2(unknown));
            return self.send(slot, &reply, Kind::Reply);
        }
        let mut reply = *message;
        reply.reply = true;
        // LLF-69, ERR-38; all of them during another exchange (AMB-16).
        reply.error_mask = message
            .keys()
            .filter(|(key, _)| !process || !self.rtokens.remove(slot, *key))
            .fold(0, |mask, (_, bit)| mask | bit);
        reply.negative = reply.error_mask != 0;
        self.send(slot, &Message::DeleteRkey(reply), Kind::Reply);
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_rkey))]
mod tests {
    use super::*;
    use crate::proto::{
        llc::{
            action::Role,
            testing::{after, deliver, new, ready, sent, token, TestGroup, START},
        },
        time::Duration,
        wire::{LinkNum, RKey},
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
        let tokens = [(Slot::FIRST, token(rkey))];
        assert_eq!(group.confirm_rkey(now, ID, &tokens), Ok(()));
        expect_announcement(group, rkey);
    }

    /// Checks that the announcement of a buffer is sent.
    fn expect_announcement(group: &mut TestGroup<'_>, rkey: u32) {
        let expected = (Kind::Rkey, Message::ConfirmRkey(announcement(rkey)));
        assert_eq!(sent(group), Some(expected));
        assert_eq!(group.poll_action(), None);
    }

    /// LLF-60, LLF-61, LLF-63.
    #[test]
    fn buffer_is_announced_and_confirmed() {
        for role in [Role::Client, Role::Server] {
            let mut places = [Entry::EMPTY; 1];
            let mut group = ready(role, &mut places);
            announce(&mut group, START, 5);
            assert_eq!(group.poll_timeout(), Some(after(2)));
            let reply = ConfirmRkey {
                reply: true,
                ..announcement(5)
            };
            deliver(&mut group, START, &Message::ConfirmRkey(reply));
            assert_eq!(group.poll_action(), Some(Action::RkeyConfirmed(ID)));
            assert_eq!(group.poll_action(), None);
        }
    }

    /// LLF-67, LLF-70: also if the peer did not know it.
    #[test]
    fn buffer_is_withdrawn() {
        for negative in [false, true] {
            let mut places = [Entry::EMPTY; 1];
            let mut group = ready(Role::Client, &mut places);
            let tokens = [(Slot::FIRST, token(5))];
            assert_eq!(group.delete_rkey(START, ID, &tokens), Ok(()));
            let mut message = DeleteRkey::request(RKey::new(5));
            let expected = (Kind::Rkey, Message::DeleteRkey(message));
            assert_eq!(sent(&mut group), Some(expected));
            message.reply = true;
            message.negative = negative;
            message.error_mask = if negative { 0x80 } else { 0 };
            deliver(&mut group, START, &Message::DeleteRkey(message));
            assert_eq!(group.poll_action(), Some(Action::RkeyDeleted(ID)));
        }
    }

    /// COL-01: one at a time, in order.
    #[test]
    fn requests_queue_up() {
        let mut places = [Entry::EMPTY; 1];
        let mut group = ready(Role::Client, &mut places);
        announce(&mut group, START, 1);
        for rkey in 2..=8 {
            let tokens = [(Slot::FIRST, token(rkey))];
            assert_eq!(group.confirm_rkey(START, ID, &tokens), Ok(()));
            assert_eq!(group.poll_action(), None);
        }
        let tokens = [(Slot::FIRST, token(9))];
        assert_eq!(group.confirm_rkey(START, ID, &tokens), Err(Busy));
        for rkey in 1..=8 {
            let reply = ConfirmRkey {
                reply: true,
                ..announcement(rkey)
            };
            deliver(&mut group, START, &Message::ConfirmRkey(reply));
            assert_eq!(group.poll_action(), Some(Action::RkeyConfirmed(ID)));
            if rkey < 8 {
                expect_announcement(&mut group, rkey + 1);
            }
        }
        assert_eq!(group.poll_action(), None);
    }

    /// COL-03: not before first contact is over.
    #[test]
    fn requests_wait_for_first_contact() {
        let mut places = [Entry::EMPTY; 1];
        let mut group = new(Role::Client, &mut places);
        group.start(START);
        let tokens = [(Slot::FIRST, token(9))];
        assert_eq!(group.confirm_rkey(START, ID, &tokens), Ok(()));
        assert_eq!(group.poll_action(), None);
    }

    /// LLF-64, LLF-65, DEP-6: repeated as long as the peer says so, but not for ever.
    #[test]
    fn refused_buffer_is_announced_again() {
        let mut places = [Entry::EMPTY; 1];
        let mut group = ready(Role::Client, &mut places);
        announce(&mut group, START, 5);
        let refusal = ConfirmRkey {
            reply: true,
            negative: true,
            retry: true,
            ..announcement(5)
        };
        let mut now = START;
        for _ in 1..TRIES {
            deliver(&mut group, now, &Message::ConfirmRkey(refusal));
            assert_eq!(group.poll_action(), None);
            now = now.saturating_add(Duration::from_millis(50));
            assert_eq!(group.poll_timeout(), Some(now));
            group.handle_timeout(now);
            expect_announcement(&mut group, 5);
        }
        deliver(&mut group, now, &Message::ConfirmRkey(refusal));
        assert_eq!(group.poll_action(), Some(Action::RkeyRejected(ID)));

        // Without the flag, not at all.
        announce(&mut group, now, 5);
        let refusal = ConfirmRkey {
            retry: false,
            ..refusal
        };
        deliver(&mut group, now, &Message::ConfirmRkey(refusal));
        assert_eq!(group.poll_action(), Some(Action::RkeyRejected(ID)));
    }

    /// TMR-26, TMR-28.
    #[test]
    fn missing_reply_is_the_end_of_the_link() {
        for delete in [false, true] {
            let mut places = [Entry::EMPTY; 1];
            let mut group = ready(Role::Server, &mut places);
            let tokens = [(Slot::FIRST, token(5))];
            let queued = if delete {
                group.delete_rkey(START, ID, &tokens)
            } else {
                group.confirm_rkey(START, ID, &tokens)
            };
            assert_eq!(queued, Ok(()));
            assert!(sent(&mut group).is_some());
            group.handle_timeout(after(2));
            let (slot, cause) = (Slot::FIRST, Cause::NoReply(Kind::Rkey));
            assert_eq!(group.poll_action(), Some(Action::LinkDown { slot, cause }));
            assert_eq!(group.poll_action(), Some(Action::Terminate { cause }));
        }
    }

    /// ERR-41: a reply to nothing, and one to something else.
    #[test]
    fn wrong_reply_is_the_end_of_the_link() {
        for pending in [false, true] {
            let mut places = [Entry::EMPTY; 1];
            let mut group = ready(Role::Server, &mut places);
            if pending {
                announce(&mut group, START, 5);
            }
            let reply = ConfirmRkey {
                reply: true,
                ..announcement(6)
            };
            deliver(&mut group, START, &Message::ConfirmRkey(reply));
            assert!(matches!(group.poll_action(), Some(Action::LinkDown { .. })));
        }
    }

    /// LLF-71, LLF-69, ERR-38, RMB-03: what the peer announces is known until it is withdrawn.
    #[test]
    fn buffers_of_the_peer_are_known() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Server, &mut places);
        for (rkey, negative) in [(1, false), (2, false), (3, true), (1, false)] {
            deliver(&mut group, START, &Message::ConfirmRkey(announcement(rkey)));
            let reply = ConfirmRkey {
                reply: true,
                negative,
                ..announcement(rkey)
            };
            let expected = (Kind::Reply, Message::ConfirmRkey(reply));
            assert_eq!(sent(&mut group), Some(expected));
        }
        let known = group.peer_rmb(Slot::FIRST, token(1));
        assert_eq!(
            known.map(|id| group.peer_token(id, Slot::FIRST)),
            Ok(Some(token(1)))
        );
        assert_eq!(group.peer_rmb(Slot::FIRST, token(3)), Err(TableFull));

        for mask in [0, 0x80] {
            let request = DeleteRkey::request(RKey::new(2));
            deliver(&mut group, START, &Message::DeleteRkey(request));
            let mut reply = request;
            reply.reply = true;
            reply.negative = mask != 0;
            reply.error_mask = mask;
            let expected = (Kind::Reply, Message::DeleteRkey(reply));
            assert_eq!(sent(&mut group), Some(expected));
        }
        assert!(group.peer_rmb(Slot::FIRST, token(3)).is_ok());
    }

    /// COL-14, COL-24, AMB-16: while the configuration changes, keys do not.
    #[test]
    fn keys_wait_for_the_configuration() {
        use crate::proto::llc::testing::confirm_link;
        let mut places = [Entry::EMPTY; 1];
        let mut group = new(Role::Server, &mut places);
        group.start(START);
        let reply = Message::ConfirmLink(confirm_link(Role::Client));
        deliver(&mut group, START, &reply);
        while group.poll_action().is_some() {}
        deliver(&mut group, START, &Message::ConfirmRkey(announcement(1)));
        let reply = ConfirmRkey {
            reply: true,
            negative: true,
            retry: true,
            ..announcement(1)
        };
        let expected = (Kind::Reply, Message::ConfirmRkey(reply));
        assert_eq!(sent(&mut group), Some(expected));
        let request = DeleteRkey::request(RKey::new(1));
        deliver(&mut group, START, &Message::DeleteRkey(request));
        let mut reply = request;
        reply.reply = true;
        reply.negative = true;
        reply.error_mask = 0x80;
        let expected = (Kind::Reply, Message::DeleteRkey(reply));
        assert_eq!(sent(&mut group), Some(expected));
    }

    /// LLF-62, AMB-12, AMB-13: tokens of links this side does not have are passed over.
    #[test]
    fn continuation_belongs_to_an_announcement() {
        let mut places = [Entry::EMPTY; 1];
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
                deliver(&mut group, START, &Message::ConfirmRkey(request));
                assert!(sent(&mut group).is_some());
            }
            deliver(&mut group, START, &Message::ConfirmRkeyCont(more));
            let reply = ConfirmRkeyCont {
                reply: true,
                negative,
                ..more
            };
            let expected = (Kind::Reply, Message::ConfirmRkeyCont(reply));
            assert_eq!(sent(&mut group), Some(expected));
        }
        assert!(group.is_ready());
    }

    /// A request for a buffer that lies on no link ends at once.
    #[test]
    fn buffer_without_a_link_is_rejected() {
        let mut places = [Entry::EMPTY; 1];
        let mut group = ready(Role::Server, &mut places);
        assert_eq!(group.confirm_rkey(START, ID, &[]), Ok(()));
        assert_eq!(group.poll_action(), Some(Action::RkeyRejected(ID)));
        assert_eq!(group.delete_rkey(START, ID, &[]), Ok(()));
        assert_eq!(group.poll_action(), Some(Action::RkeyDeleted(ID)));
    }
}
