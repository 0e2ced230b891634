// SPDX-License-Identifier: GPL-2.0

//! The sending direction: from the application's bytes to writes into the peer's element, RFC 7609,
//! 4.5 and 4.7 (WIN-*, CDC-50 to CDC-57).
//!
//! Four positions follow each other around two rings:
//!
//! ```text
//!   send ring:    freed  <=  produced  <=  accepted  <=  freed + size of the send ring
//!   peer's ring:  acked  <=  produced  <=  acked + capacity of the element
//! ```
//!
//! `accepted` moves when the application writes, `produced` when writes are handed to the link,
//! `freed` when the link has completed them or the peer has consumed them, `acked` when the peer
//! says what it has consumed. Which chains ask for a completion: [`signals`](crate::proto::stream::signals).
//!
//! Urgent data (4.7.5, 4.7.6): only the last mark counts, as in TCP. A chain ends where the mark
//! is, its message has P and U, and nothing more is written until the peer has consumed it
//! (URG-05). Messages until then have R, as some peers else report a single byte only with the next.
//! While the window is closed, a message with P alone announces a mark. Until the peer has consumed
//! an earlier mark, U alone announces another: at P some peers forget an unread byte, and never
//! report it as consumed. They take U alone for the old mark, our module for the news.
//!
//! When the connection moves to another link (4.6), one chain writes everything between `freed` and
//! `produced` again, to the same places. Its message has a new number and the producer cursor that
//! was announced last: the "combined" replay of 4.6.2 (FOV-14). A cursor never goes back, and the
//! replay does not change bytes that the peer had received.

use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    smc::cursor::{
        Cursor,
        Ring,
        Wire, //
    },
    stream::{
        coalesce::Coalescer,
        positions::{
            distance,
            Segment, //
        },
        signals::Signals,
        zerocopy::{
            LentParts,
            LentSource,
            Recalled, //
        },
    },
};

/// One RDMA write: a piece that is contiguous on both sides (CDC-56).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteSeg {
    /// Offset of the source in the send ring.
    pub(crate) src_off: u32,
    /// Offset of the destination in the peer's element.
    pub(crate) dst_off: u32,
    /// Number of bytes.
    pub(crate) len: u32,
}

/// Writes that one chain can need: each of the two rings may wrap once.
pub(crate) const MAX_WRITES: usize = 3;

/// How eagerly data is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendPolicy {
    /// Less than this waits while earlier data is in flight (WIN-10, with the completion in the
    /// part of the timer). 0 turns it off.
    pub(crate) cork_bytes: u32,
    /// The most bytes of one chain; 0 means no limit. A limit lets the peer start early.
    pub(crate) max_write: u32,
    /// The longest time that data waits for the end of corking by the application.
    pub(crate) cork_time: Duration,
}

/// What identifies a chain handed to the link, to be given back when it is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Number of the chain, from 1. Its low 16 bits are the number of the CDC message (CDC-03).
    pub(super) index: u64,
    /// Position up to which the send ring is free once this chain is completed.
    pub(super) covers: u64,
    /// Whether the message carries A.
    pub(super) abort: bool,
    /// Whether it is a failover validation message, which has no number (FOV-09).
    pub(super) validation: bool,
    /// Moves of the connection before this chain, modulo 2^32.
    moves: u32,
}

#[cfg(test)]
impl Token {
    /// Whether the chain is a validation message.
    pub(crate) const fn is_validation(self) -> bool {
        self.validation
    }
}

impl Token {
    /// Whether the completion of this chain makes the same completion of `earlier` redundant. Both
    /// are of one connection.
    pub(crate) const fn supersedes(self, earlier: Self) -> bool {
        !self.validation
            && self.moves == earlier.moves
            && self.index >= earlier.index
            && (self.abort || !earlier.abort)
    }
}

/// Whether chains may be handed to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// The connection leaves a link that works: only what makes chains come back.
    Leaving,
    /// The link is dead or about to go.
    Shut,
}

/// Urgent data that the peer must consume before more is written (URG-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Barrier {
    /// The position behind it.
    end: u64,
    /// Number of the message that announced it.
    number: u64,
}

/// The last byte that the application marked as urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Urgent {
    /// The position behind it.
    end: u64,
    told: Told,
}

/// What the peer knows of urgent data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    /// P: it will come.
    Pending,
    /// P and U: it is there.
    Present,
}

/// Chains that a move to another link has yet to post.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Failover {
    /// The validation message.
    validate: bool,
    /// The replay of undelivered data.
    replay: bool,
}

/// The sending direction of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    /// Our send ring.
    ring: Ring,
    /// The peer's element.
    peer: Ring,
    /// End of what the application wrote, in the send ring.
    accepted: Cursor,
    /// End of the data handed to the link, in the send ring.
    taken: Cursor,
    /// The same position in the peer's element: the producer cursor.
    produced: Cursor,
    /// What the peer has consumed, by its last message.
    acked: Cursor,
    /// Start of what the link has not completed, in the send ring.
    freed: Cursor,
    /// Number of the last chain handed to the link.
    posted: u64,
    /// Number of the last chain that came back from the link.
    returned: u64,
    /// Number of the last chain that was delivered (the SS of FOV-07).
    completed: u64,
    /// The link has refused the last chain, which so never comes back.
    refused: bool,
    /// Which chains ask for a completion.
    signals: Signals,
    /// A message of the peer came since the last chain.
    heard: bool,
    /// Whether chains may be handed to the link.
    gate: Gate,
    /// Chains that are due after a move to another link.
    failover: Failover,
    /// Number of the last chain that was a replay.
    repeated: u64,
    /// Number of moves to another link, modulo 2^32.
    moves: u32,
    /// Position in the send ring up to which no data is held.
    flushed: u64,
    /// The application corks: it has more data to write.
    corked: bool,
    /// End of the time that corking may hold data.
    cork_deadline: Option<Instant>,
    /// The application wants no delay (TCP_NODELAY).
    nodelay: bool,
    /// Coalescing of small writes by time.
    coalescer: Coalescer,
    /// Lent parts of the send ring.
    lent: LentParts,
    /// The urgent mark, until the peer has consumed it.
    urgent: Option<Urgent>,
    /// Urgent data that stops further data.
    barrier: Option<Barrier>,
    /// Limits of chains, and of delays.
    policy: SendPolicy,
}

impl Sender {
    pub(super) const fn new(ring: Ring, peer: Ring, policy: SendPolicy) -> Self {
        Self {
            ring,
            peer,
            accepted: ring.start(),
            taken: ring.start(),
            produced: peer.start(),
            acked: peer.start(),
            freed: ring.start(),
            posted: 0,
            returned: 0,
            completed: 0,
            refused: false,
            signals: Signals::new(),
            heard: false,
            gate: Gate::Open,
            failover: Failover {
                validate: false,
                replay: false,
            },
            repeated: 0,
            moves: 0,
            flushed: 0,
            corked: false,
            cork_deadline: None,
            nodelay: false,
            coalescer: Coalescer::new(),
            lent: LentParts::new(),
            urgent: None,
            barrier: None,
            policy,
        }
    }

    /// Free bytes of the send ring.
    pub(super) fn room(&self) -> u32 {
        self.ring.capacity().saturating_sub(self.uncompleted())
    }

    /// Whether a third of the send ring is free: what poll calls writable.
    pub(super) fn is_roomy(&self) -> bool {
        self.room() >= self.ring.capacity().div_ceil(3)
    }

    /// Bytes not handed to the link.
    pub(super) fn unsent(&self) -> u32 {
        self.accepted.since(self.taken)
    }

    /// Bytes that may not have arrived.
    pub(super) fn uncompleted(&self) -> u32 {
        self.accepted.since(self.freed)
    }

    /// Bytes the peer has not consumed.
    #[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
    pub(super) fn unconsumed(&self) -> u32 {
        distance(self.acked.position(), self.accepted.position())
    }

    /// Whether the link has chains that did not come back.
    pub(super) fn is_in_flight(&self) -> bool {
        self.on_link() > self.returned
    }

    /// Number of the last chain that the link has got.
    fn on_link(&self) -> u64 {
        self.posted.saturating_sub(self.refused.into())
    }

    /// Whether there are chains that may not have been delivered.
    pub(super) const fn is_undelivered(&self) -> bool {
        self.posted != self.completed
    }

    /// Whether nothing may be handed to the link.
    pub(super) fn is_paused(&self) -> bool {
        self.gate == Gate::Shut
    }

    /// Whether only a message may go that makes chains come back.
    pub(super) fn is_leaving(&self) -> bool {
        self.gate == Gate::Leaving
    }

    /// Whether a completion will come by itself.
    pub(super) const fn is_completion_coming(&self) -> bool {
        self.signals.are_coming(self.returned)
    }

    /// Whether a message is due for the sake of its completion: a waiter needs that of unsignalled
    /// chains.
    pub(super) fn is_completion_due(&self) -> bool {
        let wanted = self.signals.is_wanted() || self.gate == Gate::Leaving;
        wanted && self.is_in_flight() && !self.is_completion_coming()
    }

    /// Whether the last chain asks for a completion.
    pub(super) const fn is_signalled(&self) -> bool {
        self.signals.is_last(self.posted)
    }

    /// Requests a completion of the chains in flight.
    pub(super) fn want_completion(&mut self) {
        if self.is_in_flight() {
            self.signals.want();
        }
    }

    /// Whether a validation message is due (FOV-08).
    pub(super) const fn is_validation_due(&self) -> bool {
        self.failover.validate
    }

    /// Whether a replay of undelivered chains is due (FOV-12).
    pub(super) const fn is_replay_due(&self) -> bool {
        self.failover.replay
    }

    /// Nothing is handed to the link until [`Self::switch`].
    pub(super) fn pause(&mut self) {
        self.gate = Gate::Shut;
    }

    /// Only messages that make the link complete its chains are posted until [`Self::switch`].
    pub(super) fn leave(&mut self) {
        if self.gate == Gate::Open {
            self.gate = Gate::Leaving;
        }
    }

    /// The connection goes on over another link. The old one is down: whether it delivered the
    /// chains that did not complete is unknown.
    pub(super) fn switch(&mut self) {
        self.gate = Gate::Open;
        self.lent.recall();
        self.moves = self.moves.wrapping_add(1);
        self.coalescer.forget();
        self.returned = self.posted;
        self.refused = false;
        self.failover = Failover {
            validate: true,
            replay: self.is_undelivered(),
        };
    }

    /// The send ring is free up to `position`, if that is further than before.
    fn free(&mut self, position: u64) {
        let count = distance(self.freed.position(), position);
        // Cannot fail: at most the capacity is handed to the link.
        if let Some(freed) = self.ring.advance(self.freed, count) {
            self.freed = freed;
            self.lent.free(freed.position());
        }
    }

    /// Space in the peer's element (WIN-01).
    pub(super) fn window(&self) -> u32 {
        self.peer
            .capacity()
            .saturating_sub(self.produced.since(self.acked))
    }

    /// Whether to set B: this side can write no more (WIN-07, AMB-38).
    pub(super) fn is_blocked(&self) -> bool {
        self.window() == 0
    }

    /// The producer cursor.
    pub(super) const fn produced(&self) -> Cursor {
        self.produced
    }

    /// What the peer has consumed, by its last message.
    pub(super) const fn acked(&self) -> Cursor {
        self.acked
    }

    /// Whether the peer has as many unread bytes as its element holds, as far as known.
    pub(super) fn is_peer_full(&self) -> bool {
        distance(self.acked.position(), self.produced.position()) >= self.peer.len()
    }

    /// In the send ring: the end of what was written, of what was handed to the link, of what it
    /// has completed.
    pub(super) const fn shown(&self) -> [Cursor; 3] {
        [self.accepted, self.taken, self.freed]
    }

    /// Bytes of the send ring and of the peer's element.
    pub(super) const fn sizes(&self) -> (u32, u32) {
        (self.ring.len(), self.peer.len())
    }

    /// Where the application's next bytes go.
    pub(super) fn segments(&self, want: u32) -> [Segment; 2] {
        self.ring
            .segments(self.accepted, core::cmp::min(want, self.room()))
    }

    /// The application put `count` bytes there; more than there is room for are not taken.
    pub(super) fn accept(&mut self, now: Instant, count: u32) {
        if self.is_completion_coming() && self.acked != self.produced {
            self.signals.note_ahead();
        }
        let first = self.unsent() == 0;
        let count = core::cmp::min(count, self.room());
        // Cannot fail: the room is at most the capacity.
        if let Some(accepted) = self.ring.advance(self.accepted, count) {
            self.accepted = accepted;
        }
        self.arm_cork(now);
        let gathers = self.policy.cork_bytes != 0 && !self.nodelay && !self.corked;
        self.coalescer.note_write(now, first && gathers);
    }

    /// Whether the application may lend its next write.
    pub(super) fn can_borrow(&self) -> bool {
        self.gate == Gate::Open && self.lent.has_place()
    }

    /// The application lends the link `count` bytes, which [`Self::can_borrow`] allowed: returns
    /// the number of the part. If there is no room for them, nothing is taken.
    pub(super) fn borrow(&mut self, now: Instant, count: u32) -> Option<usize> {
        if !self.can_borrow() || count > self.room() {
            return None;
        }
        let start = self.accepted.position();
        let place = self.lent.add(start, start.checked_add(count.into())?)?;
        self.accept(now, count);
        Some(place)
    }

    /// The part that the next `count` bytes are of, if they are lent.
    pub(super) fn source(&self, count: u32) -> Option<LentSource> {
        let source = self.lent.source(self.taken.position());
        source.filter(|_| count > 0)
    }

    /// The lent parts.
    pub(super) const fn lent(&self) -> &LentParts {
        &self.lent
    }

    /// The next lent part that the engine must copy.
    pub(super) fn recalled(&self) -> Option<Recalled> {
        let (place, start, end) = self.lent.recalled()?;
        let freed = self.freed.position();
        let from = core::cmp::max(start, freed);
        let cursor = self.ring.advance(self.freed, distance(freed, from))?;
        Some(Recalled {
            place,
            start,
            skip: distance(start, from),
            to: self.ring.segments(cursor, distance(from, end)),
        })
    }

    /// A part was copied to its place.
    pub(super) fn take_back(&mut self, part: &Recalled) {
        self.lent.take_back(part.place, part.start);
    }

    /// Drops all lent parts: the connection sends no more data.
    pub(super) fn end_lending(&mut self) {
        self.lent.clear();
    }

    /// Sets whether the application corks. A change flushes the data written before.
    pub(super) fn set_corked(&mut self, corked: bool) {
        if corked != self.corked {
            self.corked = corked;
            self.flush();
        }
    }

    /// Sets TCP_NODELAY: writes are not held for more data. A chain in flight delays them in any
    /// case.
    pub(super) fn set_nodelay(&mut self, nodelay: bool) {
        self.nodelay = nodelay;
    }

    /// Flushes all data accepted so far.
    pub(super) fn flush(&mut self) {
        self.flushed = self.accepted.position();
        self.cork_deadline = None;
        self.coalescer.end();
    }

    /// Whether something waits for more of it, or for a completion.
    pub(super) fn holds_back(&self) -> bool {
        !self.corked && self.accepted.position() > self.flushed.max(self.taken.position())
    }

    /// Until when small pieces are gathered.
    pub(super) const fn gathered_until(&self) -> Option<Instant> {
        self.coalescer.until()
    }

    /// Small pieces have been gathered for long enough. They may still wait for a completion.
    pub(super) fn end_gathering(&mut self) {
        self.coalescer.end();
    }

    /// Notes a read of the application that found no data.
    pub(super) fn note_look(&mut self) {
        self.coalescer.note_look();
    }

    /// The peer has sent data.
    pub(super) fn note_answer(&mut self) {
        if self.acked == self.produced && self.unsent() == 0 {
            self.coalescer.note_answer();
        }
    }

    /// When data that the application's corking holds back goes.
    pub(super) const fn cork_deadline(&self) -> Option<Instant> {
        self.cork_deadline
    }

    /// Starts the clock for data that corking holds back.
    fn arm_cork(&mut self, now: Instant) {
        if self.corked && self.cork_deadline.is_none() && self.unsent() > 0 {
            self.cork_deadline = Some(now.saturating_add(self.policy.cork_time));
        }
    }

    /// Drops the data that was not handed to the link.
    pub(super) fn purge(&mut self) {
        self.accepted = self.taken;
        self.cork_deadline = None;
        self.coalescer.end();
        let taken = self.taken.position();
        self.urgent = self.urgent.filter(|urgent| urgent.end <= taken);
        self.lent.purge(taken);
    }

    /// Marks the last accepted byte as urgent, in place of an earlier mark.
    pub(super) fn mark_urgent(&mut self) {
        self.urgent = Some(Urgent {
            end: self.accepted.position(),
            told: Told::Nothing,
        });
        self.flush();
    }

    /// Whether to announce urgent data to the peer, though no data can go (URG-03).
    pub(super) fn is_urgent_due(&self) -> bool {
        self.urgent.is_some_and(|urgent| match urgent.told {
            Told::Nothing => true,
            Told::Pending => urgent.end <= self.taken.position(),
            Told::Present => false,
        })
    }

    /// P and U for the message of the last chain, which announces the mark (URG-01, URG-02). U alone
    /// announces a mark behind one that the peer has yet to consume. The flags are clear in all
    /// other messages, because peers take a P that comes without data for another byte to come.
    pub(super) fn tell_urgent(&mut self) -> (bool, bool) {
        let Some(urgent) = self.urgent.as_mut() else {
            return (false, false);
        };
        if urgent.end > self.taken.position() {
            urgent.told = Told::Pending;
            let behind = self.barrier.is_some();
            return (!behind, behind);
        }
        let fresh = urgent.told != Told::Present;
        if fresh {
            urgent.told = Told::Present;
            self.barrier = Some(Barrier {
                end: urgent.end,
                number: self.posted,
            });
        }
        (fresh, fresh)
    }

    /// Whether the peer must report at once what it consumes (R, CDC-14): further data waits for that.
    pub(super) const fn is_stopped(&self) -> bool {
        self.barrier.is_some()
    }

    /// Bytes that may go now; `eager` overrules the application's corking.
    pub(super) fn sendable(&self, now: Instant, eager: bool) -> u32 {
        let taken = self.taken.position();
        let most = match self.lent.boundary(taken) {
            Some(end) => distance(taken, end),
            None => u32::MAX,
        };
        core::cmp::min(self.willing(now, eager), most)
    }

    /// The same, wherever the bytes are.
    fn willing(&self, now: Instant, eager: bool) -> u32 {
        let unsent = self.unsent();
        let mut count = core::cmp::min(unsent, self.window());
        if self.policy.max_write != 0 {
            count = core::cmp::min(count, self.policy.max_write);
        }
        if self.barrier.is_some() {
            return 0;
        }
        if let Some(urgent) = self.urgent {
            // The chain ends with the urgent byte.
            return core::cmp::min(count, distance(self.taken.position(), urgent.end));
        }
        if count == 0 || eager || self.flushed > self.taken.position() {
            return count;
        }
        // Half a ring never waits, so that a full ring cannot wait for itself.
        let enough = core::cmp::min(self.policy.cork_bytes, self.ring.capacity() / 2);
        if self.corked && unsent < core::cmp::max(enough, 1) {
            return 0;
        }
        // More than that goes at once, so that the link has the next part when it is done with one.
        let enough = core::cmp::min(Coalescer::BYTES, enough);
        if self.coalescer.is_on(now) && count < enough {
            return 0;
        }
        // Waits for a completion, if one is coming; unless it is the first since the peer, having
        // consumed everything, sent a message: then the link is idle, its completion merely late,
        // and the peer perhaps waits for an answer.
        let answer = self.heard && self.acked == self.produced;
        if self.is_completion_coming() && count < enough && !answer {
            return 0;
        }
        count
    }

    /// Takes `count` bytes, which [`Self::sendable`] allowed, and the number of the next chain.
    /// Returns the writes, how many there are, and what undoes it all. The chain asks for a
    /// completion if the caller wants one, or this direction needs one.
    pub(super) fn take(
        &mut self,
        now: Instant,
        count: u32,
        signal: bool,
    ) -> Option<([WriteSeg; MAX_WRITES], usize)> {
        let lent = self.source(count).is_some();
        let alone = self.acked == self.produced || !self.is_in_flight();
        let patient = self.policy.cork_bytes != 0 && self.flushed <= self.taken.position();
        let taken = self.ring.advance(self.taken, count)?;
        let produced = self.peer.advance(self.produced, count)?;
        let posted = self.posted.checked_add(1)?;
        let (writes, n) = pair(
            self.ring.segments(self.taken, count),
            self.peer.segments(self.produced, count),
        );
        self.taken = taken;
        self.produced = produced;
        self.posted = posted;
        self.heard = false;
        if count > 0 {
            self.cork_deadline = None;
            // The window or the end of a lent part may have ended the chain.
            self.arm_cork(now);
            self.coalescer.note_chain();
            self.signals.note_data(alone);
        }
        let (end, freed) = (taken.position(), self.freed.position());
        let needed = signal
            || lent
            // The rest must not wait for the peer alone.
            || self.unsent() > 0
            || self.window() == 0
            // The next write may wait for this chain.
            || (count > 0 && patient && self.signals.is_pace_due())
            // Nor does a writer that goes on run ahead of all completions.
            || (count > 0 && self.coalescer.goes_on())
            || self.signals.is_wanted()
            // Less never keeps a writer waiting: see `signals`.
            || (count > 0 && self.signals.unsure(freed, end) >= self.ring.capacity() / 8);
        if needed {
            self.signals.ask(self.posted, end);
            self.coalescer.note_posted(now, self.posted);
        }
        Some((writes, n))
    }

    /// Takes the replay of all data that may not have been delivered, and the number of the next
    /// chain, like [`Self::take`].
    pub(super) fn retake(&mut self) -> Option<([WriteSeg; MAX_WRITES], usize)> {
        let posted = self.posted.checked_add(1)?;
        // What the peer has consumed has arrived, whatever became of its completion.
        let from = core::cmp::max(self.freed.position(), self.acked.position());
        let (freed, acked) = (self.freed.position(), self.acked.position());
        let taken = self.ring.advance(self.freed, distance(freed, from))?;
        let produced = self.peer.advance(self.acked, distance(acked, from))?;
        let count = distance(from, self.taken.position());
        let (writes, n) = pair(
            self.ring.segments(taken, count),
            self.peer.segments(produced, count),
        );
        self.posted = posted;
        self.repeated = posted;
        self.heard = false;
        self.signals.ask(posted, self.taken.position());
        self.failover.replay = false;
        let lost = |barrier: &Barrier| barrier.number > self.completed;
        if self.barrier.is_some_and(|barrier| lost(&barrier)) {
            // The peer may not have got the announcement. If it still matters, the chain repeats
            // it.
            self.barrier = None;
            if let Some(urgent) = self.urgent.as_mut() {
                urgent.told = Told::Nothing;
            }
        }
        Some((writes, n))
    }

    /// Takes the validation message: returns its number, that of the last chain that was delivered
    /// (FOV-08), and what identifies it.
    pub(super) fn take_validation(&mut self) -> (u16, Token) {
        self.failover.validate = false;
        let token = Token {
            validation: true,
            ..self.token(false)
        };
        (number(self.completed), token)
    }

    /// The number of the last chain, for its CDC message (CDC-33).
    pub(super) fn seq(&self) -> u16 {
        number(self.posted)
    }

    /// What identifies the last chain.
    pub(super) fn token(&self, abort: bool) -> Token {
        Token {
            index: self.posted,
            covers: self.taken.position(),
            abort,
            validation: false,
            moves: self.moves,
        }
    }

    /// Whether a token is of the link in use, and of a chain that counts.
    const fn is_current(&self, token: Token) -> bool {
        token.moves == self.moves && !token.validation
    }

    /// The chain of `token`, and with it all earlier ones, is completed. Returns whether the send
    /// ring became roomy by that; `None` if it is not a chain that the link has.
    pub(super) fn complete(&mut self, now: Instant, token: Token) -> Option<bool> {
        if !self.is_current(token) || token.index <= self.returned || token.index > self.posted {
            return None;
        }
        let was_roomy = self.is_roomy();
        self.returned = token.index;
        self.completed = token.index;
        self.coalescer.note_completed(now, token.index);
        self.free(token.covers);
        if !self.is_in_flight() {
            self.signals.settle();
        }
        Some(!was_roomy && self.is_roomy())
    }

    /// The chain of `token`, and with it all earlier ones, came back without being delivered for
    /// sure: the link is dead.
    pub(super) fn flushed(&mut self, token: Token) {
        if token.moves != self.moves {
            return;
        }
        self.gate = Gate::Shut;
        if !token.validation && token.index > self.returned && token.index <= self.posted {
            self.returned = token.index;
        }
    }

    /// The link has refused the chain of `token`, the last one: it is broken.
    pub(super) fn refused(&mut self, token: Token) {
        if token.moves != self.moves {
            return;
        }
        self.gate = Gate::Shut;
        self.refused = !token.validation && token.index == self.posted;
    }

    /// The consumer cursor of a message of the peer: never beyond what we produced (CDC-38).
    pub(super) fn check_acked(&self, wire: Wire) -> Option<Cursor> {
        self.peer
            .receive(self.acked, wire, self.produced.since(self.acked))
    }

    /// Notes a cursor that was checked; returns whether it brought space, and whether the send ring
    /// became roomy by it.
    ///
    /// Data that the peer has consumed has arrived, by the writes in front of the message that
    /// announced it: the link delivers each request once and in order. If the device reads the send
    /// ring again to retransmit, as an acknowledgment was lost, the peer's device drops that as a
    /// duplicate. So the ring may be used again as if the completion had come. A peer that lies
    /// about it gets wrong bytes of this connection in place of right ones; the memory stays ours
    /// and mapped until the request is done. A replayed chain is different: it still writes bytes
    /// over the new link that the peer has got over the old one. Until that is completed the ring
    /// stays as it is.
    pub(super) fn set_acked(&mut self, acked: Cursor) -> (bool, bool) {
        let more = acked != self.acked;
        let was_roomy = self.is_roomy();
        self.acked = acked;
        self.heard = true;
        let at = acked.position();
        if !self.failover.replay && self.repeated <= self.completed {
            self.free(at);
        }
        self.barrier = self.barrier.filter(|barrier| barrier.end > at);
        self.urgent = self
            .urgent
            .filter(|urgent| urgent.end > at || urgent.told != Told::Present);
        (more, !was_roomy && self.is_roomy())
    }
}

/// The number of a message as it travels.
fn number(index: u64) -> u16 {
    let [.., high, low] = index.to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// Pairs the pieces of both rings, which are equally long in sum.
fn pair(mut src: [Segment; 2], mut dst: [Segment; 2]) -> ([WriteSeg; MAX_WRITES], usize) {
    let mut writes = [WriteSeg::default(); MAX_WRITES];
    let mut n: usize = 0;
    for write in &mut writes {
        let (Some(s), Some(d)) = (
            src.iter_mut().find(|s| s.len > 0),
            dst.iter_mut().find(|d| d.len > 0),
        ) else {
            break;
        };
        let len = core::cmp::min(s.len, d.len);
        *write = WriteSeg {
            src_off: s.off,
            dst_off: d.off,
            len,
        };
        n = n.saturating_add(1);
        // All exact: `len` is at most the length of either, and both lie inside their buffers.
        for seg in [s, d] {
            seg.off = seg.off.saturating_add(len);
            seg.len = seg.len.saturating_sub(len);
        }
    }
    (writes, n)
}
