// SPDX-License-Identifier: GPL-2.0

//! Alert tokens: which connection of a link group a CDC message is for.
//!
//! Source: RFC 7609 sections 1.2 and A.4 (`SMCR-CDC-36`, `SMCR-CDC-37`).
//!
//! A token is a table index in the low octet and a generation above it. A token of a connection
//! that ended matches nothing. The table also gives out the turns of connections that wait for a send
//! slot of a link.

use core::ops::DerefMut;

use super::link::{
    LinkSlot,
    MAX_LINKS, //
};
use crate::proto::smc::wire::AlertToken;

/// Most connections of a link group.
pub(crate) const MAX_CONNECTIONS: usize = 255;

const INDEX_BITS: u32 = 8;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// A place for one connection.
#[derive(Debug)]
pub(crate) struct Row<M> {
    /// Counts the connections that had the place, modulo 2^24.
    generation: u32,
    member: Option<M>,
    /// The link on which the connection waits for a send slot.
    wants: Option<LinkSlot>,
}

impl<M> Row<M> {
    /// A free place. `seed` makes the first token hard to guess for a peer.
    pub(crate) const fn new(seed: u32) -> Self {
        Self {
            generation: seed >> INDEX_BITS,
            member: None,
            wants: None,
        }
    }
}

/// The connections of a link group.
#[derive(Debug)]
pub(crate) struct Tokens<R> {
    rows: R,
    /// Number of connections.
    live: usize,
    /// Number of connections that wait for a send slot, by link.
    waiting: [usize; MAX_LINKS],
    /// Index of the row at which the search for the next waiting connection starts.
    next: usize,
    /// Index of the row that had the last turn.
    last: usize,
    closed: bool,
}

impl<M: Clone, R: DerefMut<Target = [Row<M>]>> Tokens<R> {
    /// An empty table over the engine's memory, of which [`MAX_CONNECTIONS`] rows are used.
    pub(crate) fn new(rows: R) -> Self {
        Self {
            rows,
            live: 0,
            waiting: [0; MAX_LINKS],
            next: 0,
            last: 0,
            closed: false,
        }
    }

    /// Number of connections.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Whether another connection may join a group of at most `most`.
    pub(crate) fn has_room(&self, most: usize) -> bool {
        !self.closed && self.live < most.min(self.rows.len()).min(MAX_CONNECTIONS)
    }

    /// Refuses connections from now on.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether the table refuses all connections.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Enters a connection; `None` when the table is full or closed.
    pub(crate) fn add(&mut self, member: M) -> Option<AlertToken> {
        if !self.has_room(MAX_CONNECTIONS) {
            return None;
        }
        let mut rows = self.rows.iter_mut().enumerate();
        let (index, row) = rows.find(|(_, row)| row.member.is_none())?;
        let index = u32::try_from(index).ok()?;
        row.generation = row.generation.wrapping_add(1) & (u32::MAX >> INDEX_BITS);
        row.member = Some(member);
        row.wants = None;
        self.live = self.live.saturating_add(1);
        Some(AlertToken::new((row.generation << INDEX_BITS) | index))
    }

    /// The row of a connection that has not ended.
    fn row(&mut self, token: AlertToken) -> Option<&mut Row<M>> {
        let index = usize::try_from(token.get() & INDEX_MASK).ok()?;
        let generation = token.get() >> INDEX_BITS;
        let row = self.rows.get_mut(index)?;
        (row.generation == generation && row.member.is_some()).then_some(row)
    }

    /// The connection with this token.
    pub(crate) fn get(&mut self, token: AlertToken) -> Option<M> {
        self.row(token)?.member.clone()
    }

    /// Ends a token. The caller drops the connection after it has released the lock.
    #[must_use]
    pub(crate) fn remove(&mut self, token: AlertToken) -> Option<M> {
        let row = self.row(token)?;
        let wanted = row.wants.take();
        let member = row.member.take();
        self.live = self.live.saturating_sub(1);
        if let Some(slot) = wanted {
            self.count_down(slot);
        }
        member
    }

    /// The first connection from row `first` on, and its row, to visit all without allocation.
    pub(crate) fn first_from(&self, first: usize) -> Option<(usize, M)> {
        let rows = self.rows.iter().enumerate().skip(first);
        rows.filter_map(|(index, row)| Some((index, row.member.clone()?)))
            .next()
    }

    fn count_down(&mut self, slot: LinkSlot) {
        if let Some(waiting) = self.waiting.get_mut(slot.index()) {
            *waiting = waiting.saturating_sub(1);
        }
    }

    /// Notes that a connection waits for a send slot of this link, and of no other.
    pub(crate) fn wait_for_slot(&mut self, token: AlertToken, slot: LinkSlot) {
        let Some(row) = self.row(token) else {
            return;
        };
        let before = row.wants.replace(slot);
        if let Some(before) = before {
            self.count_down(before);
        }
        if let Some(waiting) = self.waiting.get_mut(slot.index()) {
            *waiting = waiting.saturating_add(1);
        }
    }

    /// Gives the next turn to the connection that had the last one: it found no send slot.
    pub(crate) fn keep_turn(&mut self) {
        self.next = self.last;
    }

    /// Takes the next connection that waits for a send slot of a link, in turn.
    pub(crate) fn next_waiting(&mut self, slot: LinkSlot) -> Option<M> {
        if self.waiting.get(slot.index()).copied().unwrap_or(0) == 0 {
            return None;
        }
        let (before, after) = self.rows.split_at(self.next.min(self.rows.len()));
        let start = before.len();
        let is_waiting = |row: &Row<M>| row.wants == Some(slot);
        let index = match after.iter().position(is_waiting) {
            Some(at) => start.saturating_add(at),
            None => before.iter().position(is_waiting)?,
        };
        let row = self.rows.get_mut(index)?;
        row.wants = None;
        let member = row.member.clone();
        self.count_down(slot);
        self.last = index;
        self.next = index.saturating_add(1);
        member
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkSlot = LinkSlot::FIRST;
    const OTHER: LinkSlot = super::super::testing::SECOND;

    fn table(rows: usize) -> Tokens<Vec<Row<u32>>> {
        Tokens::new((0..rows).map(|_| Row::new(0xffff_ff00)).collect())
    }

    // CDC-36.
    #[test]
    fn token_of_an_ended_connection_matches_nothing() {
        let mut tokens = table(2);
        let old = tokens.add(1).unwrap();
        assert_eq!(tokens.get(old), Some(1));
        assert_eq!(tokens.remove(old), Some(1));
        assert_eq!(tokens.get(old), None);
        assert_eq!(tokens.remove(old), None);
        let new = tokens.add(2).unwrap();
        assert_eq!(new.get() & INDEX_MASK, old.get() & INDEX_MASK);
        assert_eq!((tokens.get(old), tokens.get(new)), (None, Some(2)));
        assert_eq!(tokens.live(), 1);
    }

    #[test]
    fn generation_wraps_to_zero() {
        let mut tokens = table(1);
        let token = tokens.add(1).unwrap();
        assert_eq!(token.get(), 0);
        assert_eq!(tokens.get(token), Some(1));
    }

    #[test]
    fn token_beyond_the_table_matches_nothing() {
        let mut tokens = table(1);
        let token = tokens.add(1).unwrap();
        assert_eq!(tokens.get(AlertToken::new(token.get() | 0xff)), None);
    }

    // CDC-37.
    #[test]
    fn table_has_room_for_255_connections() {
        let mut tokens = table(300);
        for n in 0..255 {
            assert!(tokens.has_room(MAX_CONNECTIONS));
            assert!(tokens.add(n).is_some());
        }
        assert!(!tokens.has_room(usize::MAX));
        assert_eq!(tokens.add(255), None);
        assert_eq!(tokens.live(), 255);
    }

    #[test]
    fn room_ends_at_the_agreed_number() {
        let mut tokens = table(4);
        tokens.add(1).unwrap();
        assert!(tokens.has_room(2) && !tokens.has_room(1));
    }

    #[test]
    fn closed_table_refuses_connections_and_keeps_those_it_has() {
        let mut tokens = table(2);
        let token = tokens.add(1).unwrap();
        tokens.close();
        assert!(tokens.is_closed() && !tokens.has_room(2));
        assert_eq!(tokens.add(2), None);
        assert_eq!(tokens.get(token), Some(1));
    }

    #[test]
    fn visit_finds_each_connection_once_and_no_free_row() {
        let mut tokens = table(6);
        let given: Vec<_> = (0..6).map(|n| tokens.add(n).unwrap()).collect();
        for ended in [0, 3, 5] {
            assert!(tokens.remove(given[ended]).is_some());
        }
        let mut seen = Vec::new();
        let mut next = 0;
        while let Some((row, member)) = tokens.first_from(next) {
            seen.push(member);
            next = row + 1;
        }
        assert_eq!(seen, [1, 2, 4]);
        assert_eq!(tokens.first_from(usize::MAX), None);
    }

    #[test]
    fn turns_go_round_among_waiting_connections() {
        let mut tokens = table(3);
        let all = [1, 2, 3].map(|n| tokens.add(n).unwrap());
        let mut turns = Vec::new();
        for _ in 0..2 {
            for token in all {
                tokens.wait_for_slot(token, LINK);
            }
            // The first wants another turn at once.
            turns.extend(tokens.next_waiting(LINK));
            tokens.wait_for_slot(all[0], LINK);
            turns.extend(tokens.next_waiting(LINK));
            turns.extend(tokens.next_waiting(LINK));
            turns.extend(tokens.next_waiting(LINK));
            assert_eq!(tokens.next_waiting(LINK), None);
        }
        // In the second round connection 1 waits already when it asks again.
        assert_eq!(turns, [1, 2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn kept_turn_is_the_next() {
        let mut tokens = table(2);
        let all = [1, 2].map(|n| tokens.add(n).unwrap());
        for token in all {
            tokens.wait_for_slot(token, LINK);
        }
        assert_eq!(tokens.next_waiting(LINK), Some(1));
        tokens.wait_for_slot(all[0], LINK);
        tokens.keep_turn();
        assert_eq!(tokens.next_waiting(LINK), Some(1));
        assert_eq!(tokens.next_waiting(LINK), Some(2));
    }

    #[test]
    fn connection_waits_for_one_link_only() {
        let mut tokens = table(1);
        let token = tokens.add(1).unwrap();
        tokens.wait_for_slot(token, LINK);
        tokens.wait_for_slot(token, LINK);
        tokens.wait_for_slot(token, OTHER);
        assert_eq!(tokens.next_waiting(LINK), None);
        assert_eq!(tokens.next_waiting(OTHER), Some(1));
        assert_eq!(tokens.next_waiting(OTHER), None);
        assert_eq!(tokens.waiting, [0; MAX_LINKS]);
    }

    #[test]
    fn ended_connection_gets_no_turn() {
        let mut tokens = table(2);
        let all = [1, 2].map(|n| tokens.add(n).unwrap());
        for token in all {
            tokens.wait_for_slot(token, LINK);
        }
        assert_eq!(tokens.remove(all[0]), Some(1));
        tokens.wait_for_slot(all[0], LINK);
        assert_eq!(tokens.next_waiting(LINK), Some(2));
        assert_eq!(tokens.next_waiting(LINK), None);
        assert_eq!(tokens.waiting, [0; MAX_LINKS]);
    }
}
