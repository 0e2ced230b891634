// SPDX-License-Identifier: GPL-2.0

//! Receive queues, of a queue pair or shared, as programs fill them.
//!
//! A work request is copied when it is posted, and taken when a message starts.

use crate::{
    kapi::ibdev::RecvWr,
    proto::roce::state::Posting, //
};
use core::mem::swap;
use kernel::prelude::*;

/// The index of the place of an entry.
pub(super) fn place_of(number: u64, places: usize) -> Option<usize> {
    let places = u64::try_from(places).ok()?;
    usize::try_from(number.checked_rem(places)?).ok()
}

/// Receive work requests that were posted.
///
/// # Invariants
///
/// `head <= tail`, and they differ by at most the number of places.
pub(super) struct PostedReceives {
    places: KVVec<RecvWr>,
    /// Number of the oldest request.
    head: u64,
    /// Number of the next request that is posted.
    tail: u64,
    /// What becomes of a request that is posted now.
    posting: Posting,
}

impl PostedReceives {
    /// An empty queue with that number of places. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(places: usize) -> Result<Self> {
        let mut empty = KVVec::new();
        empty.resize(places, RecvWr::EMPTY, GFP_KERNEL_ACCOUNT)?;
        Ok(Self {
            places: empty,
            head: 0,
            tail: 0,
            posting: Posting::Refuse,
        })
    }

    /// Posts a request (RNIC-ERR-06). Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` in state RESET, `ENOMEM` if the queue is full.
    pub(super) fn post(&mut self, wr: RecvWr) -> Result {
        if self.posting == Posting::Refuse {
            return Err(EINVAL);
        }
        let places = self.places.len();
        let used = usize::try_from(self.tail.wrapping_sub(self.head)).unwrap_or(usize::MAX);
        if used >= places {
            return Err(ENOMEM);
        }
        let place = place_of(self.tail, places).ok_or(ENOMEM)?;
        if let Some(place) = self.places.get_mut(place) {
            *place = wr;
            self.tail = self.tail.wrapping_add(1);
        }
        Ok(())
    }

    /// The oldest request.
    pub(super) fn peek(&self) -> Option<&RecvWr> {
        if self.head == self.tail {
            return None;
        }
        self.places.get(place_of(self.head, self.places.len())?)
    }

    /// Takes the oldest request.
    pub(super) fn take(&mut self) -> Option<RecvWr> {
        let wr = self.peek().copied()?;
        self.head = self.head.wrapping_add(1);
        Some(wr)
    }

    /// Sets what becomes of requests from now on.
    pub(super) fn set_posting(&mut self, posting: Posting) {
        self.posting = posting;
    }

    /// Forgets all requests.
    pub(super) fn clear(&mut self) {
        self.head = self.tail;
    }

    /// Requests that wait.
    pub(super) fn waiting(&self) -> usize {
        usize::try_from(self.tail.wrapping_sub(self.head)).unwrap_or(usize::MAX)
    }

    /// Places for requests.
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    /// Goes on with the places of an empty queue, which gets the former ones.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are fewer of them than requests that wait; nothing changes.
    pub(super) fn exchange(&mut self, spare: &mut Self) -> Result {
        if self.waiting() > spare.places() {
            return Err(EINVAL);
        }
        spare.set_posting(self.posting);
        while let Some(wr) = self.take() {
            // Cannot fail: there is room.
            spare.post(wr)?;
        }
        swap(self, spare);
        Ok(())
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_receives)]
mod tests {
    use super::*;

    /// A receive request of that number.
    fn wr(id: u64) -> RecvWr {
        RecvWr {
            id,
            ..RecvWr::EMPTY
        }
    }

    #[test]
    fn receives_come_out_in_the_order_of_posting() -> Result {
        let mut queue = PostedReceives::new(3)?;
        queue.set_posting(Posting::Queue);
        for round in 0..5 {
            for id in 0..3 {
                queue.post(wr(10 * round + id))?;
            }
            assert_eq!(queue.post(wr(99)), Err(ENOMEM));
            for id in 0..3 {
                let next = Some(10 * round + id);
                assert_eq!(queue.peek().map(|wr| wr.id), next);
                assert_eq!(queue.take().map(|wr| wr.id), next);
            }
            assert!(queue.take().is_none());
            // The next round begins at another place.
            queue.post(wr(0))?;
            assert!(queue.take().is_some());
        }
        Ok(())
    }

    /// RNIC-ERR-06.
    #[test]
    fn receive_in_state_reset_is_refused() -> Result {
        let mut queue = PostedReceives::new(1)?;
        assert_eq!(queue.post(wr(1)), Err(EINVAL));
        queue.set_posting(Posting::Flush);
        queue.post(wr(1))?;
        queue.clear();
        assert!(queue.take().is_none());
        Ok(())
    }

    /// RNIC-SRQ-01.
    #[test]
    fn requests_stay_in_order_when_the_places_change() -> Result {
        let mut queue = PostedReceives::new(3)?;
        queue.set_posting(Posting::Queue);
        for id in 0..3 {
            queue.post(wr(id))?;
        }
        assert_eq!(queue.take().map(|wr| wr.id), Some(0));
        queue.post(wr(3))?;
        assert_eq!(queue.exchange(&mut PostedReceives::new(2)?), Err(EINVAL));
        queue.exchange(&mut PostedReceives::new(5)?)?;
        assert_eq!((queue.places(), queue.waiting()), (5, 3));
        queue.post(wr(4))?;
        for id in 1..=4 {
            assert_eq!(queue.take().map(|wr| wr.id), Some(id));
        }
        assert!(queue.take().is_none());
        Ok(())
    }

    #[test]
    fn queue_without_places_is_full() -> Result {
        let mut queue = PostedReceives::new(0)?;
        queue.set_posting(Posting::Queue);
        assert_eq!(queue.post(wr(1)), Err(ENOMEM));
        assert!(queue.take().is_none());
        Ok(())
    }
}
