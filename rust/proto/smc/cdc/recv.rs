// SPDX-License-Identifier: GPL-2.0

//! The receiving direction: what the peer wrote into our element, and when to announce space to it,
//! RFC 7609, 4.5.1 (CDC-34, CDC-38, WIN-02 to WIN-08).

use super::msg;
use crate::proto::{
    smc::cursor::{
        Cursor,
        Ring,
        Wire, //
    },
    stream::{
        events::Fetch,
        positions::{
            distance,
            Segment, //
        },
        urgent::UrgentReader, //
    },
};

/// The receiving direction of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver {
    /// Our element.
    ring: Ring,
    /// Where the peer will write next, by its last message.
    produced: Cursor,
    /// What the application will read next.
    consumed: Cursor,
    /// The consumer cursor that the peer knows, or that a message in flight reports (WIN-08).
    reported: Cursor,
    /// Number of the last message taken in (CDC-34).
    seq: u16,
    /// The peer can write no more (B of its last message).
    blocked: bool,
    /// The peer asks for updates (R of its last message).
    requested: bool,
    /// End of urgent data that the peer waits for us to consume (WIN-05).
    urgent_end: Option<u64>,
    /// What the element holds can no longer be trusted.
    spoiled: bool,
    /// The last urgent byte. Its sender waits until it is consumed (URG-05, URG-06).
    urgent: UrgentReader,
    /// The engine has yet to get the place of an urgent byte that has just come.
    unlocated: bool,
    /// The peer has moved to another link and may repeat announcements, from an earlier cursor on.
    /// Only the new link can announce bytes beyond this position, so they end the replay: what the
    /// old link still delivers was sent into the window that the peer had before.
    replay_end: Option<u64>,
}

/// Whether to take in a message, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Newer than all before.
    New,
    /// Old, or the same again (AMB-17).
    Old,
}

/// Orders the number `seq` relative to `last`, modulo 2^16.
pub(super) const fn order(last: u16, seq: u16) -> Order {
    match seq.wrapping_sub(last) {
        1..=0x7fff => Order::New,
        _ => Order::Old,
    }
}

impl Receiver {
    pub(super) const fn new(ring: Ring) -> Self {
        Self {
            ring,
            produced: ring.start(),
            consumed: ring.start(),
            reported: ring.start(),
            seq: 0,
            blocked: false,
            requested: false,
            urgent_end: None,
            spoiled: false,
            urgent: UrgentReader::NONE,
            unlocated: false,
            replay_end: None,
        }
    }

    /// Bytes the application can read.
    pub(super) fn available(&self) -> u32 {
        if self.spoiled {
            0
        } else {
            self.produced.since(self.consumed)
        }
    }

    /// Positions of the next byte to read, and of the one behind the last that came.
    pub(super) fn positions(&self) -> (u64, u64) {
        (self.consumed.position(), self.produced.position())
    }

    /// What TCP calls the distance from the reader to the last octet that came: the urgent byte
    /// that the reader stands at counts, though a read skips it.
    pub(super) fn ahead(&self) -> u32 {
        self.available()
            .saturating_add(self.urgent.is_passed().into())
    }

    /// The part of `target` bytes that fits into the element, at least one.
    pub(super) fn reachable(&self, target: u32) -> u32 {
        core::cmp::max(core::cmp::min(target, self.ring.capacity()), 1)
    }

    /// Where up to `max` of them are, from the one after `skip` on.
    pub(super) fn segments(&self, skip: u32, max: u32) -> [Segment; 2] {
        let available = self.available();
        let skip = core::cmp::min(skip, available);
        let count = core::cmp::min(max, available.saturating_sub(skip));
        match self.ring.advance(self.consumed, skip) {
            Some(from) => self.ring.segments(from, count),
            // Cannot happen: `skip` is at most the capacity.
            None => [Segment::default(); 2],
        }
    }

    /// The application has read `count` bytes.
    pub(super) fn consume(&mut self, count: u32) {
        let count = core::cmp::min(count, self.available());
        // Cannot fail: at most the capacity is available.
        if let Some(consumed) = self.ring.advance(self.consumed, count) {
            self.consumed = consumed;
        }
        if count > 0 {
            self.urgent.advance(self.consumed.position());
        }
        self.pass();
    }

    /// Takes the urgent byte out of the stream if it is the next one.
    fn pass(&mut self) {
        if !self.spoiled && self.urgent.takes_out(self.consumed.position()) {
            // Cannot fail: the byte was produced.
            if let Some(consumed) = self.ring.advance(self.consumed, 1) {
                self.consumed = consumed;
            }
        }
    }

    /// Whether urgent bytes are part of the stream.
    pub(super) fn set_inline(&mut self, inline: bool) {
        self.urgent.set_inline(inline);
        self.pass();
    }

    /// Whether they are.
    pub(super) const fn is_inline(&self) -> bool {
        self.urgent.is_inline()
    }

    /// Whether the application stands at the mark (SIOCATMARK).
    pub(super) fn is_at_mark(&self) -> bool {
        self.urgent.is_at_mark(self.consumed.position())
    }

    /// Bytes from the one after `skip` up to the mark; `None` without one.
    pub(super) fn until_mark(&self, skip: u32) -> Option<u32> {
        self.urgent.until_mark(self.consumed.position(), skip)
    }

    /// The application goes on behind the mark it stands at.
    pub(super) fn leave_mark(&mut self) {
        self.urgent.leave_mark();
    }

    /// Where the urgent byte is in the element; said once for each mark, right after the message.
    pub(super) fn urgent_offset(&mut self) -> Option<u32> {
        // It is the last byte that came (URG-08).
        core::mem::take(&mut self.unlocated)
            .then(|| self.ring.before(self.produced))
            .flatten()
    }

    /// Whether the application can fetch the urgent byte; with `take` it does.
    pub(super) fn fetch_urgent(&mut self, take: bool) -> Fetch {
        self.urgent.fetch(take)
    }

    /// Whether poll reports POLLPRI.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent.is_urgent()
    }

    /// Notes the urgent flags of a message whose cursor was taken in. Returns whether to signal it
    /// to the application (URG-04): once for each mark. A mark that was not reached is forgotten by
    /// a new one, and its byte stays in the stream, as in `tcp_check_urg()` of Linux.
    fn note_urgent(&mut self, flags: msg::Flags, count: u32) -> bool {
        let known = count == 0 && self.urgent_end == Some(self.produced.position());
        if flags.urgent_present && !flags.urgent_pending && known {
            // Another byte follows the one that the peer waits for.
            return self.urgent.announce();
        }
        if flags.urgent_present {
            let end = self.produced.position();
            let Some(at) = end.checked_sub(1) else {
                self.urgent.withdraw();
                return false;
            };
            // Said again, or read already (URG-08).
            let Some(known) = self.urgent.present(at, self.consumed.position()) else {
                return false;
            };
            self.urgent_end = Some(end);
            self.unlocated = true;
            self.pass();
            return !known;
        }
        if flags.urgent_pending {
            return self.urgent.announce();
        }
        if count > 0 {
            // URG-07.
            self.urgent.withdraw();
        }
        false
    }

    /// The consumer cursor.
    pub(super) const fn consumed(&self) -> Cursor {
        self.consumed
    }

    /// The end of what came.
    pub(super) const fn produced(&self) -> Cursor {
        self.produced
    }

    /// Bytes of our element.
    pub(super) const fn size(&self) -> u32 {
        self.ring.len()
    }

    /// The consumer cursor the peer knows.
    pub(super) const fn reported(&self) -> Cursor {
        self.reported
    }

    /// The peer will know this consumer cursor.
    pub(super) fn set_reported(&mut self, reported: Cursor) {
        self.reported = reported;
    }

    /// Makes the content of the element unreadable.
    pub(super) fn spoil(&mut self) {
        self.spoiled = true;
    }

    /// Whether the peer can write no more.
    pub(super) const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether the peer waits for us to consume something.
    pub(super) fn is_stalling(&self) -> bool {
        self.blocked && self.available() > 0
    }

    /// Whether a message to report the consumer cursor is due, though there is nothing else to
    /// send. `busy` says that messages of ours are in flight, whose completion will ask again.
    pub(super) fn is_update_due(&self, busy: bool) -> bool {
        let gain = self.consumed.since(self.reported);
        if gain == 0 {
            return false;
        }
        // WIN-04. Also answers a request that finds the cursor stale.
        if self.requested {
            return true;
        }
        // WIN-05.
        if self
            .urgent_end
            .is_some_and(|end| self.reported.position() < end && self.consumed.position() >= end)
        {
            return true;
        }
        let capacity = self.ring.capacity();
        // At least 10 %, in integers as AMB-39 has it.
        let worthwhile = gain >= capacity / 10;
        // WIN-03. While the peer is blocked everything is worth a message, so that it need not
        // probe (WIN-11); small steps only wait for the message before.
        if self.blocked {
            return worthwhile || !busy || self.available() == 0;
        }
        // WIN-02, from the sender's point of view.
        let window = capacity.saturating_sub(self.produced.since(self.reported));
        worthwhile && window < capacity.div_ceil(2)
    }

    /// Orders a message by its number (CDC-34).
    pub(super) const fn order(&self, seq: u16) -> Order {
        order(self.seq, seq)
    }

    /// The peer has moved to another link.
    pub(super) fn begin_replay(&mut self) {
        let window = u64::from(self.ring.capacity());
        self.replay_end = Some(self.reported.position().saturating_add(window));
    }

    /// The producer cursor of a message of the peer: never beyond the space it knows of (CDC-38).
    /// While the peer replays, a cursor that was announced before stands for the last one: the
    /// peers of DEP-10 go back to the last one that was completed.
    pub(super) fn check_produced(&self, wire: Wire) -> Option<Cursor> {
        if self.replay_end.is_some() && self.ring.is_behind(self.produced, wire) {
            return Some(self.produced);
        }
        let window = self
            .ring
            .capacity()
            .saturating_sub(self.produced.since(self.reported));
        self.ring.receive(self.produced, wire, window)
    }

    /// Whether a checked producer cursor announces new data.
    pub(super) const fn is_more(&self, produced: Cursor) -> bool {
        produced.position() != self.produced.position()
    }

    /// Takes in a message whose producer cursor was checked; returns the number of new bytes, and
    /// whether there is news of urgent data.
    pub(super) fn take_in(&mut self, seq: u16, produced: Cursor, flags: msg::Flags) -> (u32, bool) {
        let count = distance(self.produced.position(), produced.position());
        self.replay_end = self.replay_end.filter(|end| produced.position() <= *end);
        self.seq = seq;
        self.produced = produced;
        self.blocked = flags.blocked;
        self.requested = flags.update_requested;
        let urgent = self.note_urgent(flags, count);
        (count, urgent)
    }

    /// Notes the number of a message of which only the number counts.
    pub(super) fn set_seq(&mut self, seq: u16) {
        self.seq = seq;
    }
}
