// SPDX-License-Identifier: GPL-2.0

//! The send queue of a queue pair, as programs fill it: with interrupts off and a lock of its own.
//!
//! A work request is copied when it is posted. The work item of the queue pair takes it out and keeps
//! it; its place is counted until the work request completes.

use crate::{
    kapi::ibdev::{
        SendWr,
        UdDest, //
    },
    proto::roce::state::Posting,
    rnic::{
        domain::AddressHandle,
        receives::place_of,
        region::Region, //
    },
};
use kernel::prelude::*;

/// A send work request of a device of this module.
pub(super) type Send = SendWr<Region, AddressHandle>;

/// The destination of a datagram.
pub(super) type Destination = UdDest<AddressHandle>;

/// Send work requests that were posted.
///
/// # Invariants
///
/// `head <= taken <= tail`, and `tail - head` is at most the number of places.
pub(super) struct PostedSends {
    /// Requests from `taken` to `tail`.
    places: KVVec<Option<Send>>,
    /// Number of the oldest request that is not complete.
    head: u64,
    /// Number of the next request that the work item takes.
    taken: u64,
    /// Number of the next request that is posted.
    tail: u64,
    /// What becomes of a request that is posted now.
    posting: Posting,
}

impl PostedSends {
    /// An empty queue with that number of places. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(places: usize) -> Result<Self> {
        Ok(Self {
            places: empty_places(places)?,
            head: 0,
            taken: 0,
            tail: 0,
            posting: Posting::Refuse,
        })
    }

    /// Posts a request (RNIC-ERR-06). Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` in a state in which nothing is sent, `ENOMEM` if the queue is full.
    pub(super) fn post(&mut self, wr: Send) -> Result {
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
            // The place is empty: its last request was taken.
            *place = Some(wr);
            self.tail = self.tail.wrapping_add(1);
        }
        Ok(())
    }

    /// Takes the next request.
    pub(super) fn take(&mut self) -> Option<Send> {
        if self.taken == self.tail {
            return None;
        }
        let place = place_of(self.taken, self.places.len())?;
        self.taken = self.taken.wrapping_add(1);
        self.places.get_mut(place)?.take()
    }

    /// Frees the places of the oldest requests, which are complete.
    pub(super) fn release(&mut self, count: u64) {
        self.head = self.head.wrapping_add(count).min(self.taken);
    }

    /// Sets what becomes of requests from now on.
    pub(super) fn set_posting(&mut self, posting: Posting) {
        self.posting = posting;
    }

    /// Starts again with number 0: all requests were taken, and none completes.
    pub(super) fn restart(&mut self) {
        self.head = 0;
        self.taken = 0;
        self.tail = 0;
    }
}

/// Places for requests.
pub(super) fn empty_places(places: usize) -> Result<KVVec<Option<Send>>> {
    let mut empty = KVVec::with_capacity(places, GFP_KERNEL_ACCOUNT)?;
    for _ in 0..places {
        empty.push(None, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(empty)
}
