// SPDX-License-Identifier: GPL-2.0

//! The receiving direction: what the peer wrote into our element, and when to tell it of space,
//! RFC 7609, 4.5.1 (CDC-34, CDC-38, WIN-02 to WIN-08).

use crate::proto::{
    cdc::msg,
    cursor::{
        distance,
        Cursor,
        Ring,
        Segment,
        Wire, //
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
    /// The consumer cursor the peer knows, or will by a message on its way (WIN-08).
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
    /// The peer has moved to another link and may announce once more what it announced before,
    /// starting further back.
    replaying: bool,
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
            replaying: false,
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
        // Cannot fail: what is available is at most the capacity.
        if let Some(consumed) = self.ring.advance(self.consumed, count) {
            self.consumed = consumed;
        }
    }

    /// The consumer cursor.
    pub(super) const fn consumed(&self) -> Cursor {
        self.consumed
    }

    /// The consumer cursor the peer knows.
    pub(super) const fn reported(&self) -> Cursor {
        self.reported
    }

    /// The peer will know this consumer cursor.
    pub(super) fn set_reported(&mut self, reported: Cursor) {
        self.reported = reported;
    }

    /// Nothing in the element may be read any more.
    pub(super) fn spoil(&mut self) {
        self.spoiled = true;
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
    pub(super) fn set_replaying(&mut self) {
        self.replaying = true;
    }

    /// The producer cursor of a message of the peer: never beyond the space it knows of (CDC-38).
    /// While the peer repeats what it sent before, a cursor that we were told of already stands for
    /// the last one: the peers of DEP-10 go back to the last one that was completed.
    pub(super) fn check_produced(&self, wire: Wire) -> Option<Cursor> {
        if self.replaying && self.ring.is_behind(self.produced, wire) {
            return Some(self.produced);
        }
        let window = self
            .ring
            .capacity()
            .saturating_sub(self.produced.since(self.reported));
        self.ring.receive(self.produced, wire, window)
    }

    /// Takes in a message whose producer cursor was checked; returns the number of new bytes.
    pub(super) fn take_in(&mut self, seq: u16, produced: Cursor, flags: msg::Flags) -> u32 {
        let count = distance(self.produced.position(), produced.position());
        // Who goes on has caught up.
        self.replaying &= count == 0;
        self.seq = seq;
        self.produced = produced;
        self.blocked = flags.blocked;
        self.requested = flags.update_requested;
        if flags.urgent_present {
            self.urgent_end = Some(produced.position());
        }
        count
    }

    /// Notes the number of a message of which only the number counts.
    pub(super) fn set_seq(&mut self, seq: u16) {
        self.seq = seq;
    }
}
