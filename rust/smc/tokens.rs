// SPDX-License-Identifier: GPL-2.0

//! Alert tokens: which connection of a link group a CDC message is for.
//!
//! Source: RFC 7609 sections 1.2 and A.4 (`SMCR-CDC-36`, `SMCR-CDC-37`).
//!
//! A token is a table index in the low octet and a generation above it. A token of a connection
//! that ended matches nothing.

use super::connection::Connection;
use crate::{
    kapi::module::random_u32,
    proto::wire::AlertToken, //
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
    connection: Option<Arc<Connection>>,
    /// The connection has something to send and found no free send slot.
    wants_slot: bool,
}

/// The connections of a link group.
pub(crate) struct Tokens {
    rows: KVec<Row>,
    live: usize,
    waiting: usize,
    /// Where the search for the next waiting connection starts, so that all get their turn.
    next: usize,
    closed: bool,
}

impl Tokens {
    /// An empty table. Sleeps for the allocation; nothing allocates afterwards.
    pub(crate) fn new() -> Result<Self> {
        let mut rows = KVec::with_capacity(MAX_CONNECTIONS, GFP_KERNEL)?;
        for _ in 0..MAX_CONNECTIONS {
            let row = Row {
                generation: random_u32() >> INDEX_BITS,
                connection: None,
                wants_slot: false,
            };
            rows.push(row, GFP_KERNEL)?;
        }
        Ok(Self {
            rows,
            live: 0,
            waiting: 0,
            next: 0,
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

    /// Enters a connection; `None` when the table is full or closed.
    pub(crate) fn add(&mut self, connection: Arc<Connection>) -> Option<AlertToken> {
        if !self.has_room() {
            return None;
        }
        let (index, row) = self
            .rows
            .iter_mut()
            .enumerate()
            .find(|(_, row)| row.connection.is_none())?;
        row.generation = row.generation.wrapping_add(1) & (u32::MAX >> INDEX_BITS);
        row.connection = Some(connection);
        row.wants_slot = false;
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
    pub(crate) fn get(&mut self, token: AlertToken) -> Option<Arc<Connection>> {
        self.row(token)?.connection.clone()
    }

    /// Ends a token. The caller drops the connection after it has released the lock.
    #[must_use]
    pub(crate) fn remove(&mut self, token: AlertToken) -> Option<Arc<Connection>> {
        let row = self.row(token)?;
        let was_waiting = core::mem::take(&mut row.wants_slot);
        let connection = row.connection.take();
        if was_waiting {
            self.waiting = self.waiting.saturating_sub(1);
        }
        if connection.is_some() {
            self.live = self.live.saturating_sub(1);
        }
        connection
    }

    /// The `n`-th row's connection, to visit them all without allocation.
    pub(crate) fn at(&self, n: usize) -> Option<Arc<Connection>> {
        self.rows.get(n)?.connection.clone()
    }

    /// Notes that a connection waits for a send slot.
    pub(crate) fn wait_for_slot(&mut self, token: AlertToken) {
        if let Some(row) = self.row(token) {
            if row.connection.is_some() && !core::mem::replace(&mut row.wants_slot, true) {
                self.waiting = self.waiting.saturating_add(1);
            }
        }
    }

    /// How many wait for a send slot.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes the next connection that waits for a send slot, in turn.
    pub(crate) fn next_waiting(&mut self) -> Option<Arc<Connection>> {
        if self.waiting == 0 {
            return None;
        }
        let start = self.next;
        let len = self.rows.len();
        for step in 0..len {
            let index = start.wrapping_add(step) % len;
            let Some(row) = self.rows.get_mut(index) else {
                continue;
            };
            if core::mem::take(&mut row.wants_slot) {
                self.waiting = self.waiting.saturating_sub(1);
                self.next = index.wrapping_add(1);
                if row.connection.is_some() {
                    return row.connection.clone();
                }
            }
        }
        self.waiting = 0;
        None
    }
}
