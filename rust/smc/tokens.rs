// SPDX-License-Identifier: GPL-2.0

//! Alert tokens: which connection of a link group a CDC message is for.
//!
//! Source: RFC 7609 sections 1.2 and A.4 (`SMCR-CDC-36`, `SMCR-CDC-37`).
//!
//! A token is a table index in the low octet and a generation above it. A token of a connection
//! that ended matches nothing.

use super::member::Member;
use crate::{
    kapi::base::module::random_u32,
    proto::{
        llc::{
            link::MAX_LINKS,
            Slot, //
        },
        wire::AlertToken, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Most connections of a link group.
pub(crate) const MAX_CONNECTIONS: usize = 255;

const INDEX_BITS: u32 = 8;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

struct Row {
    generation: u32,
    member: Option<Arc<dyn Member>>,
    /// The connection has something to send and found no free send slot on this link.
    wants: Option<Slot>,
}

/// The connections of a link group.
pub(crate) struct Tokens {
    rows: KVec<Row>,
    live: usize,
    /// How many wait for a send slot, by link.
    waiting: [usize; MAX_LINKS],
    /// Where the search for the next waiting connection starts, so that all get their turn.
    next: usize,
    /// The row that was taken last.
    last: usize,
    closed: bool,
}

impl Tokens {
    /// An empty table. Sleeps for the allocation; nothing allocates afterwards.
    pub(crate) fn new() -> Result<Self> {
        let mut rows = KVec::with_capacity(MAX_CONNECTIONS, GFP_KERNEL)?;
        for _ in 0..MAX_CONNECTIONS {
            let row = Row {
                generation: random_u32() >> INDEX_BITS,
                member: None,
                wants: None,
            };
            rows.push(row, GFP_KERNEL)?;
        }
        Ok(Self {
            rows,
            live: 0,
            waiting: [0; MAX_LINKS],
            next: 0,
            last: 0,
            closed: false,
        })
    }

    /// Number of connections.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Whether another connection fits.
    pub(crate) fn has_room(&self) -> bool {
        !self.closed && self.live < MAX_CONNECTIONS
    }

    /// Refuses connections from now on.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether connections are refused, however many there are.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Enters a connection; `None` when the table is full or closed.
    pub(crate) fn add(&mut self, member: Arc<dyn Member>) -> Option<AlertToken> {
        if !self.has_room() {
            return None;
        }
        let (index, row) = self
            .rows
            .iter_mut()
            .enumerate()
            .find(|(_, row)| row.member.is_none())?;
        row.generation = row.generation.wrapping_add(1) & (u32::MAX >> INDEX_BITS);
        row.member = Some(member);
        row.wants = None;
        self.live = self.live.saturating_add(1);
        let index = u32::try_from(index).ok()?;
        Some(AlertToken::new((row.generation << INDEX_BITS) | index))
    }

    fn row(&mut self, token: AlertToken) -> Option<&mut Row> {
        let index = usize::try_from(token.get() & INDEX_MASK).ok()?;
        let generation = token.get() >> INDEX_BITS;
        self.rows
            .get_mut(index)
            .filter(|row| row.generation == generation)
    }

    /// The connection a token stands for.
    pub(crate) fn get(&mut self, token: AlertToken) -> Option<Arc<dyn Member>> {
        self.row(token)?.member.clone()
    }

    /// Ends a token. The caller drops the connection after it has released the lock.
    #[must_use]
    pub(crate) fn remove(&mut self, token: AlertToken) -> Option<Arc<dyn Member>> {
        let row = self.row(token)?;
        let wanted = row.wants.take();
        let member = row.member.take();
        if let Some(slot) = wanted {
            self.count(slot, false);
        }
        if member.is_some() {
            self.live = self.live.saturating_sub(1);
        }
        member
    }

    /// The `n`-th row's connection, to visit them all without allocation.
    pub(crate) fn at(&self, n: usize) -> Option<Arc<dyn Member>> {
        self.rows.get(n)?.member.clone()
    }

    /// Counts one more or one less that waits for a send slot of a link.
    fn count(&mut self, slot: Slot, more: bool) {
        if let Some(waiting) = self.waiting.get_mut(slot.index()) {
            *waiting = match more {
                true => waiting.saturating_add(1),
                false => waiting.saturating_sub(1),
            };
        }
    }

    /// Notes that a connection waits for a send slot of a link, and of no other any more.
    pub(crate) fn wait_for_slot(&mut self, token: AlertToken, slot: Slot) {
        let Some(row) = self.row(token).filter(|row| row.member.is_some()) else {
            return;
        };
        let before = row.wants.replace(slot);
        if let Some(before) = before {
            self.count(before, false);
        }
        self.count(slot, true);
    }

    /// How many wait for a send slot of a link.
    fn waiting(&self, slot: Slot) -> usize {
        self.waiting.get(slot.index()).copied().unwrap_or(0)
    }

    /// The connection taken last has found no slot: it stays the next.
    pub(crate) fn keep_turn(&mut self) {
        self.next = self.last;
    }

    /// Takes the next connection that waits for a send slot of a link, in turn.
    pub(crate) fn next_waiting(&mut self, slot: Slot) -> Option<Arc<dyn Member>> {
        if self.waiting(slot) == 0 {
            return None;
        }
        let start = self.next;
        let len = self.rows.len();
        for step in 0..len {
            let index = start.wrapping_add(step) % len;
            let Some(row) = self.rows.get_mut(index) else {
                continue;
            };
            if row.wants != Some(slot) {
                continue;
            }
            row.wants = None;
            let member = row.member.clone();
            self.count(slot, false);
            self.last = index;
            self.next = index.wrapping_add(1);
            if member.is_some() {
                return member;
            }
        }
        None
    }
}
