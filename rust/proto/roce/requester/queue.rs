// SPDX-License-Identifier: GPL-2.0

//! The send queue: a record for each posted work request, in a ring that the caller provides.

use crate::proto::{
    base::verbs::Psn,
    roce::{
        psn::ExtPsn,
        reason::Reason,
        work::{
            Work,
            WorkKind, //
        },
    },
};
use core::ops::DerefMut;

/// A posted work request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendRecord {
    /// The request as it was posted.
    pub(super) work: Work,
    /// PSN of the first packet.
    pub(super) first: ExtPsn,
    /// PSNs that the message takes; 0 for a local one (RNIC-PSN-02).
    pub(super) psns: u32,
    /// Why the request fails when its turn comes.
    pub(super) refused: Option<Reason>,
    /// Whether it was acknowledged, answered or executed.
    pub(super) done: bool,
}

impl SendRecord {
    /// A place that is not used.
    pub(crate) const EMPTY: Self = Self {
        work: Work::new(WorkKind::RegMr, 0),
        first: ExtPsn::start(Psn::new(0)),
        psns: 0,
        refused: None,
        done: false,
    };

    /// The PSN behind the last packet.
    pub(super) fn end(&self) -> ExtPsn {
        self.first.after(self.psns)
    }

    /// Whether a PSN is one of this message.
    pub(super) fn contains(&self, psn: ExtPsn) -> bool {
        self.first <= psn && psn < self.end()
    }
}

/// All places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueFull;

/// Records by their number, from the oldest incomplete one to the newest.
///
/// # Invariants
///
/// `head <= tail`, and they differ by at most the number of places.
pub(super) struct SendRing<S> {
    records: S,
    head: u64,
    tail: u64,
}

impl<S: DerefMut<Target = [SendRecord]>> SendRing<S> {
    /// Makes an empty queue with a place for each element of `records`.
    pub(super) const fn new(records: S) -> Self {
        Self {
            records,
            head: 0,
            tail: 0,
        }
    }

    /// The number of the oldest record, or of the next one if there is none.
    pub(super) const fn head(&self) -> u64 {
        self.head
    }

    /// The number of the next record.
    pub(super) const fn tail(&self) -> u64 {
        self.tail
    }

    /// The place of a record that exists.
    fn place(&self, id: u64) -> Option<usize> {
        if id < self.head || id >= self.tail {
            return None;
        }
        let places = u64::try_from(self.records.len()).ok()?;
        usize::try_from(id.checked_rem(places)?).ok()
    }

    /// The record with a number.
    pub(super) fn get(&self, id: u64) -> Option<SendRecord> {
        self.records.get(self.place(id)?).copied()
    }

    /// Marks a record as done.
    pub(super) fn set_done(&mut self, id: u64) {
        if let Some(place) = self.place(id) {
            if let Some(record) = self.records.get_mut(place) {
                record.done = true;
            }
        }
    }

    /// Appends a record and returns its number.
    pub(super) fn push(&mut self, record: SendRecord) -> Result<u64, QueueFull> {
        let places = u64::try_from(self.records.len()).unwrap_or(u64::MAX);
        if self.tail.wrapping_sub(self.head) >= places {
            return Err(QueueFull);
        }
        let id = self.tail;
        self.tail = id.wrapping_add(1);
        match self.place(id).and_then(|place| self.records.get_mut(place)) {
            Some(place) => {
                *place = record;
                Ok(id)
            }
            None => {
                self.tail = id;
                Err(QueueFull)
            }
        }
    }

    /// Removes the oldest record.
    pub(super) fn pop(&mut self) {
        if self.head < self.tail {
            self.head = self.head.wrapping_add(1);
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_queue))]
mod tests {
    use super::*;

    /// A record that its length tells apart.
    fn record(len: u32) -> SendRecord {
        SendRecord {
            work: Work::new(WorkKind::Send, len),
            ..SendRecord::EMPTY
        }
    }

    #[test]
    fn records_of_several_rounds_keep_their_numbers() {
        let mut places = [SendRecord::EMPTY; 3];
        let mut ring = SendRing::new(&mut places[..]);
        for round in 0..7 {
            assert_eq!(ring.push(record(round)), Ok(u64::from(round)));
            let len = ring.get(u64::from(round)).map(|record| record.work.len);
            assert_eq!(len, Some(round));
            ring.set_done(u64::from(round));
            assert!(ring.get(u64::from(round)).is_some_and(|record| record.done));
            ring.pop();
            assert!(ring.get(u64::from(round)).is_none());
        }
        assert_eq!((ring.head(), ring.tail()), (7, 7));
    }

    #[test]
    fn full_queue_takes_no_record() {
        let mut places = [SendRecord::EMPTY; 2];
        let mut ring = SendRing::new(&mut places[..]);
        assert_eq!(ring.push(record(0)), Ok(0));
        assert_eq!(ring.push(record(1)), Ok(1));
        assert_eq!(ring.push(record(2)), Err(QueueFull));
        ring.pop();
        assert_eq!(ring.push(record(2)), Ok(2));
        let mut none: [SendRecord; 0] = [];
        assert_eq!(SendRing::new(&mut none[..]).push(record(0)), Err(QueueFull));
    }

    #[test]
    fn pop_of_empty_queue_does_nothing() {
        let mut places = [SendRecord::EMPTY; 2];
        let mut ring = SendRing::new(&mut places[..]);
        ring.pop();
        assert_eq!(ring.push(record(0)), Ok(0));
    }
}
