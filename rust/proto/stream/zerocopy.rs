// SPDX-License-Identifier: GPL-2.0

//! Parts of what the application wrote that the link reads where the application has them, without
//! a copy (MSG_ZEROCOPY, MSG_SPLICE_PAGES).
//!
//! A part takes as many bytes of the send ring as if it had been copied there, so positions, window
//! and room are as ever; only the ring's memory is not used. A chain reads one part or copied data,
//! never both. A chain with lent bytes asks for a completion, since the application waits for it. A
//! part is over as soon as the ring is free up to its end; the link may read it for longer, and the
//! work request keeps the pages.
//!
//! A single chain replays undelivered data over another link, which may be on another device. So
//! when the connection moves, lent parts are recalled: the engine copies each to its place in the
//! ring, and no data is sent until that is done.

use super::positions::{
    distance,
    Segment, //
};

/// Parts that can be lent at a time.
pub(crate) const MAX_LENT: usize = 8;

/// Less is copied: it costs less than the pinning and mapping of pages.
pub(crate) const LEAST: u32 = 8 << 10;

/// Bytes between two positions; there are some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    start: u64,
    end: u64,
}

/// The parts, in no order; they do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LentParts {
    parts: [Option<Part>; MAX_LENT],
    /// The engine is to copy them all.
    recalled: bool,
}

/// Which part a chain is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LentSource {
    /// The number of the part, less than [`MAX_LENT`].
    pub(crate) place: usize,
    /// Bytes of the part in front of the chain's.
    pub(crate) skip: u32,
}

/// A part that the engine is to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recalled {
    /// The number of the part.
    pub(crate) place: usize,
    /// Where it begins, which no other part does.
    pub(crate) start: u64,
    /// Bytes of it that need not be copied, at its start.
    pub(crate) skip: u32,
    /// Where the others belong in the send ring. The second piece may be empty.
    pub(crate) to: [Segment; 2],
}

impl LentParts {
    pub(crate) const fn new() -> Self {
        Self {
            parts: [None; MAX_LENT],
            recalled: false,
        }
    }

    /// Whether another part can be lent.
    pub(crate) fn has_place(&self) -> bool {
        !self.recalled && self.parts.iter().any(Option::is_none)
    }

    /// Notes a part; returns its number.
    pub(crate) fn add(&mut self, start: u64, end: u64) -> Option<usize> {
        if self.recalled || start >= end {
            return None;
        }
        let place = self.parts.iter().position(Option::is_none)?;
        *self.parts.get_mut(place)? = Some(Part { start, end });
        Some(place)
    }

    /// Whether a part has this number.
    pub(crate) fn has(&self, place: usize) -> bool {
        self.parts.get(place).is_some_and(Option::is_some)
    }

    /// The part that the byte at `position` is of.
    pub(crate) fn source(&self, position: u64) -> Option<LentSource> {
        self.parts.iter().enumerate().find_map(|(place, part)| {
            let part = part.filter(|part| part.start <= position && position < part.end)?;
            Some(LentSource {
                place,
                skip: distance(part.start, position),
            })
        })
    }

    /// Where the bytes that begin at `position` end to be of the same source, if they do.
    pub(crate) fn boundary(&self, position: u64) -> Option<u64> {
        let parts = self.parts.iter().flatten();
        parts
            .flat_map(|part| [part.start, part.end])
            .filter(|&at| at > position)
            .min()
    }

    /// The send ring is free up to `position`.
    pub(crate) fn free(&mut self, position: u64) {
        self.retain(|part| part.end > position);
    }

    /// Drops the lent data behind `position`: it will not be sent.
    pub(crate) fn purge(&mut self, position: u64) {
        for part in self.parts.iter_mut().flatten() {
            part.end = core::cmp::min(part.end, position);
        }
        self.retain(|part| part.start < part.end);
    }

    /// Drops all parts: the connection sends no more data.
    pub(crate) fn clear(&mut self) {
        self.retain(|_| false);
    }

    /// Makes the engine copy all parts into the send ring.
    pub(crate) fn recall(&mut self) {
        self.recalled = true;
        self.settle();
    }

    /// Whether parts still await that copy.
    pub(crate) const fn is_recalled(&self) -> bool {
        self.recalled
    }

    /// The next part that the engine must copy: its number and positions.
    pub(crate) fn recalled(&self) -> Option<(usize, u64, u64)> {
        let mut parts = self.parts.iter().enumerate();
        let (place, part) = parts.find_map(|(place, part)| Some((place, (*part)?)))?;
        self.recalled.then_some((place, part.start, part.end))
    }

    /// The part `place` that began at `start` was copied.
    pub(crate) fn take_back(&mut self, place: usize, start: u64) {
        if let Some(part) = self.parts.get_mut(place) {
            *part = part.filter(|part| !self.recalled || part.start != start);
        }
        self.settle();
    }

    fn retain(&mut self, keep: impl Fn(&Part) -> bool) {
        for part in &mut self.parts {
            *part = part.filter(&keep);
        }
        self.settle();
    }

    /// When nothing is lent, there is nothing to be copied.
    fn settle(&mut self) {
        self.recalled &= self.parts.iter().any(Option::is_some);
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    reason = "this is a test: to panic is how it fails"
)]
mod tests {
    use super::*;
    use crate::proto::{
        base::time::Instant,
        smc::cdc::{
            Conn,
            ConnConfig,
            Transmit, //
        },
        stream::signals::tests::conn, //
    };

    const NOW: Instant = Instant::from_nanos(1);

    fn lend(conn: &mut Conn, count: u32) -> usize {
        conn.lend(NOW, count).unwrap()
    }

    fn next(conn: &mut Conn) -> (Option<(usize, u32)>, u32, Transmit) {
        let transmit = conn.poll_transmit(NOW).unwrap();
        let source = transmit.source.map(|source| (source.place, source.skip));
        let count = transmit.writes().iter().map(|write| write.len).sum();
        (source, count, transmit)
    }

    #[test]
    fn no_chain_is_of_two_sources() {
        let mut a = conn(0);
        a.handle_link_paused();
        a.handle_link_switched();
        assert!(next(&mut a).2.token.is_validation());
        a.set_corked(true);
        a.write(NOW, 100);
        let first = lend(&mut a, 9_000);
        let second = lend(&mut a, 8_000);
        a.write(NOW, 50);
        a.write(NOW, 60);
        a.set_corked(false);
        let sources = [
            (None, 100),
            (Some((first, 0)), 9_000),
            (Some((second, 0)), 8_000),
        ];
        for (source, count) in sources.into_iter().chain([(None, 110)]) {
            let chain = next(&mut a);
            assert_eq!((chain.0, chain.1), (source, count));
            // A lender waits for the completion of each chain.
            assert!(chain.2.signal || source.is_none());
        }
        assert!(a.poll_transmit(NOW).is_none());
    }

    #[test]
    fn lent_part_ends_with_its_last_chain() {
        let mut a = conn(0);
        let room = a.send_room();
        let place = lend(&mut a, room);
        let mut tokens = vec![];
        let mut sum = 0;
        while let Some(transmit) = a.poll_transmit(NOW) {
            assert_eq!(transmit.source.unwrap().skip, sum);
            sum += transmit.writes().iter().map(|write| write.len).sum::<u32>();
            tokens.push(transmit.token);
        }
        for token in tokens {
            assert!(a.is_lent(place) && a.lendable(u32::MAX) == 0);
            a.handle_sent(NOW, token);
        }
        assert!(!a.is_lent(place) && a.lendable(u32::MAX) == a.send_room());
    }

    #[test]
    fn parts_too_small_or_too_many_are_not_lent() {
        let mut a = conn(0);
        assert_eq!(a.lendable(LEAST - 1), 0);
        assert_eq!(a.lendable(LEAST), LEAST);
        assert!(a.lend(NOW, a.send_room() + 1).is_none());
        assert!(a.lend(NOW, 0).is_none());
        for _ in 0..MAX_LENT {
            lend(&mut a, 1);
        }
        assert!(a.lendable(LEAST) == 0 && a.lend(NOW, 1).is_none());
        assert_eq!(a.unsent(), MAX_LENT as u32);
    }

    #[test]
    fn purged_part_ends_with_its_sent_bytes() {
        let mut lent = LentParts::new();
        let place = lent.add(100, 200).unwrap();
        lent.purge(150);
        assert!(lent.has(place));
        lent.free(150);
        assert!(!lent.has(place));
    }

    // FOV-12, FOV-14.
    #[test]
    fn lent_part_is_copied_when_the_connection_moves() {
        let mut a = conn(0);
        a.write(NOW, 1_000);
        let copied = next(&mut a).2;
        let sent = lend(&mut a, 9_000);
        assert_eq!(next(&mut a).0, Some((sent, 0)));
        a.handle_link_paused();
        assert_eq!(a.lendable(u32::MAX), 0);
        a.handle_sent(NOW, copied.token);
        a.handle_link_switched();
        assert_eq!(a.lendable(u32::MAX), 0);
        assert!(a.poll_transmit(NOW).is_none());
        let part = a.poll_recall().unwrap();
        assert_eq!((part.place, part.skip), (sent, 0));
        assert_eq!(
            [part.to[0].off, part.to[0].len, part.to[1].len],
            [1_000, 9_000, 0]
        );
        a.handle_copied(&part);
        assert!(a.wants_transmit(NOW));
        assert!(a.poll_recall().is_none() && !a.is_lent(sent));
        assert!(next(&mut a).2.token.is_validation());
        let (source, count, _) = next(&mut a);
        assert_eq!((source, count), (None, 9_000));
        assert!(a.lendable(u32::MAX) > 0);
    }

    #[test]
    fn lent_parts_are_freed_when_the_connection_ends() {
        let lost = |a: &mut Conn, _| a.handle_link_lost();
        for end in [lost, Conn::abort, Conn::handle_tcp_reset] {
            let mut a = conn(ConnConfig::CORK_BYTES);
            let sent = lend(&mut a, ConnConfig::CORK_BYTES / 2);
            let (_, count, transmit) = next(&mut a);
            assert_eq!(count, ConnConfig::CORK_BYTES / 2);
            a.set_corked(true);
            let kept = lend(&mut a, 9_000);
            end(&mut a, NOW);
            assert!(!a.is_lent(kept));
            a.handle_sent(NOW, transmit.token);
            assert!(!a.is_lent(sent));
        }
    }
}
