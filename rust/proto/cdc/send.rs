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
//! `freed` when the link has completed them, `acked` when the peer says what it has consumed.

use crate::proto::{
    cursor::{
        distance,
        Cursor,
        Ring,
        Segment,
        Wire, //
    },
    time::{
        Duration,
        Instant, //
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
pub(crate) struct Policy {
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
}

/// The state to go back to if a chain could not be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    taken: Cursor,
    produced: Cursor,
    posted: u64,
    cork_deadline: Option<Instant>,
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
    /// End of what was handed to the link, in the send ring.
    taken: Cursor,
    /// The same position in the peer's element: the producer cursor.
    produced: Cursor,
    /// What the peer has consumed, by its last message.
    acked: Cursor,
    /// Start of what the link has not completed.
    freed: u64,
    /// Number of the last chain handed to the link, and of the last one completed.
    posted: u64,
    completed: u64,
    /// Nothing before this position waits for more.
    flushed: u64,
    /// The application has more to come, and until when that may hold data back.
    corked: bool,
    cork_deadline: Option<Instant>,
    policy: Policy,
}

impl Sender {
    pub(super) const fn new(ring: Ring, peer: Ring, policy: Policy) -> Self {
        Self {
            ring,
            peer,
            accepted: ring.start(),
            taken: ring.start(),
            produced: peer.start(),
            acked: peer.start(),
            freed: 0,
            posted: 0,
            completed: 0,
            flushed: 0,
            corked: false,
            cork_deadline: None,
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

    /// Bytes the link has not completed.
    pub(super) fn uncompleted(&self) -> u32 {
        distance(self.freed, self.accepted.position())
    }

    /// Bytes the peer has not consumed.
    #[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
    pub(super) fn unconsumed(&self) -> u32 {
        distance(self.acked.position(), self.accepted.position())
    }

    /// Whether chains are on their way.
    pub(super) const fn is_in_flight(&self) -> bool {
        self.posted != self.completed
    }

    /// Space in the peer's element (WIN-01).
    pub(super) fn window(&self) -> u32 {
        self.peer
            .capacity()
            .saturating_sub(self.produced.since(self.acked))
    }

    /// Whether the peer must be told that we can write no more (WIN-07, AMB-38).
    pub(super) fn is_blocked(&self) -> bool {
        self.window() == 0
    }

    /// The producer cursor.
    pub(super) const fn produced(&self) -> Cursor {
        self.produced
    }

    /// Where the application's next bytes go.
    pub(super) fn segments(&self, want: u32) -> [Segment; 2] {
        self.ring
            .segments(self.accepted, core::cmp::min(want, self.room()))
    }

    /// The application put `count` bytes there; more than there is room for are not taken.
    pub(super) fn accept(&mut self, now: Instant, count: u32) {
        let count = core::cmp::min(count, self.room());
        // Cannot fail: the room is at most the capacity.
        if let Some(accepted) = self.ring.advance(self.accepted, count) {
            self.accepted = accepted;
        }
        self.arm_cork(now);
    }

    /// The application has more to come, or not any more. What it wrote before does not wait.
    pub(super) fn set_corked(&mut self, corked: bool) {
        if corked != self.corked {
            self.corked = corked;
            self.flush();
        }
    }

    /// Nothing accepted so far waits any longer.
    pub(super) fn flush(&mut self) {
        self.flushed = self.accepted.position();
        self.cork_deadline = None;
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

    /// Drops what was not handed to the link.
    pub(super) fn purge(&mut self) {
        self.accepted = self.taken;
        self.cork_deadline = None;
    }

    /// Bytes that may go now; `eager` overrules the application's corking.
    pub(super) fn sendable(&self, eager: bool) -> u32 {
        let unsent = self.unsent();
        let mut count = core::cmp::min(unsent, self.window());
        if self.policy.max_write != 0 {
            count = core::cmp::min(count, self.policy.max_write);
        }
        if count == 0 || eager || self.flushed > self.taken.position() {
            return count;
        }
        // Half a ring never waits, so that a full ring cannot wait for itself.
        let enough = core::cmp::min(self.policy.cork_bytes, self.ring.capacity() / 2);
        if self.corked && unsent < core::cmp::max(enough, 1) {
            return 0;
        }
        // Waits for a completion, unless the peer has consumed everything: then the link is idle
        // and its completion merely late.
        if self.is_in_flight() && count < enough && self.acked != self.produced {
            return 0;
        }
        count
    }

    /// Takes `count` bytes, which [`Self::sendable`] allowed, and the number of the next chain.
    /// Returns the writes, how many there are, and what undoes it all.
    pub(super) fn take(&mut self, count: u32) -> Option<([WriteSeg; MAX_WRITES], usize, Before)> {
        let before = Before {
            taken: self.taken,
            produced: self.produced,
            posted: self.posted,
            cork_deadline: self.cork_deadline,
        };
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
        if count > 0 {
            self.cork_deadline = None;
        }
        Some((writes, n, before))
    }

    /// The number of the last chain, for its CDC message (CDC-33).
    pub(super) fn seq(&self) -> u16 {
        let [.., high, low] = self.posted.to_be_bytes();
        u16::from_be_bytes([high, low])
    }

    /// What identifies the last chain.
    pub(super) fn token(&self, abort: bool) -> Token {
        Token {
            index: self.posted,
            covers: self.taken.position(),
            abort,
        }
    }

    /// Takes back the last chain if it is the one of `token`.
    pub(super) fn untake(&mut self, token: Token, before: Before) -> bool {
        if token.index != self.posted || token.covers != self.taken.position() {
            return false;
        }
        self.taken = before.taken;
        self.produced = before.produced;
        self.posted = before.posted;
        self.cork_deadline = before.cork_deadline;
        true
    }

    /// The chain of `token`, and with it all earlier ones, is completed. Returns whether the send
    /// ring became roomy by that.
    pub(super) fn complete(&mut self, token: Token) -> bool {
        if token.index <= self.completed || token.index > self.posted {
            return false;
        }
        let was_roomy = self.is_roomy();
        self.completed = token.index;
        self.freed = core::cmp::max(self.freed, token.covers);
        !was_roomy && self.is_roomy()
    }

    /// The consumer cursor of a message of the peer: never beyond what we produced (CDC-38).
    pub(super) fn check_acked(&self, wire: Wire) -> Option<Cursor> {
        self.peer
            .receive(self.acked, wire, self.produced.since(self.acked))
    }

    /// Notes a cursor that was checked; returns whether it brought space.
    pub(super) fn set_acked(&mut self, acked: Cursor) -> bool {
        let more = acked != self.acked;
        self.acked = acked;
        more
    }
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
