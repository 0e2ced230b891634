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
    pub(super) fn on_delete_rkey(&mut self, slot: Slot, message: &DeleteRkey) {
        if message.reply {
            return match self.rkeys.answered(slot, Op::Delete) {
                // LLF-70: a buffer the peer did not know is as good as forgotten.
                Some(request) => self.end_request(Action::RkeyDeleted(request.id)),
                None => self.fail(slot, Cause::Unexpected("DELETE RKEY")),
            };
        }
        let process = self.admit(Class::Rkey) == Verdict::Process;
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
