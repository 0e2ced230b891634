// SPDX-License-Identifier: GPL-2.0

//! Rings that a program in user space fills with work requests, of a queue pair or shared
//! (RNIC-UAPI).
//!
//! A work request is copied out once, when it is taken, and checked in the copy. The program may write
//! anything to a ring at any time: the indices of this side are kept here, and its own is only masked
//! (RNIC-SEC-04, RNIC-SEC-05).

use super::{
    limits,
    shaped_ring::ShapedRing, //
};
use crate::{
    kapi::ibdev::{
        RecvWr,
        UserRing,
        WrData,
        WrSge, //
    },
    proto::roce::{
        ring::{
            RingShape,
            CONSUMER_AT,
            PRODUCER_AT, //
        },
        wqe::{
            UserElement,
            UserReceive,
            RECEIVE_HEAD,
            SGE_LEN, //
        },
    },
};
use core::mem::swap;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Octets of the head of a receive work request, of an element, and of a request with all elements.
const RECEIVE_LEN: usize = 40;
const ELEMENT_LEN: usize = 16;
const RECEIVE_MOST: usize = 296;

/// Elements of a receive work request in a ring of that shape.
pub(super) fn receive_elements(shape: RingShape) -> u32 {
    (shape.room_behind(RECEIVE_HEAD) / SGE_LEN).min(limits::MAX_SGE)
}

/// A ring that a program fills.
///
/// # Invariants
///
/// `head` and `next` are indices, and at most as many slots as the ring has entries are between them.
pub(super) struct UserQueue {
    ring: ShapedRing,
    /// Slot of the oldest request that is not complete.
    head: u32,
    /// Slot of the next request that is taken.
    next: u32,
}

impl UserQueue {
    /// The queue in a new ring of that shape.
    pub(super) fn new(memory: Arc<UserRing>, shape: RingShape) -> Result<Self> {
        Ok(Self {
            ring: ShapedRing::new(memory, shape)?,
            head: 0,
            next: 0,
        })
    }

    /// The offset of the slot of the next request, if there is one.
    pub(super) fn peek(&self) -> Option<usize> {
        // A full ring has no other request, whatever the program says (RNIC-SEC-06).
        if self.ring.shape.used(self.next, self.head) >= self.ring.shape.entries() {
            return None;
        }
        let producer = self.ring.memory.load_index(PRODUCER_AT).ok()?;
        (self.ring.shape.used(producer, self.next) > 0).then(|| self.ring.shape.slot_at(self.next))
    }

    /// Takes the request of [`Self::peek`].
    pub(super) fn advance(&mut self) {
        self.next = self.ring.shape.after(self.next);
    }

    /// Frees the slots of the oldest requests, which are complete.
    pub(super) fn release(&mut self, count: u64) {
        let taken = u64::from(self.ring.shape.used(self.next, self.head));
        for _ in 0..count.min(taken) {
            self.head = self.ring.shape.after(self.head);
        }
        self.publish();
    }

    /// Forgets all requests.
    pub(super) fn clear(&mut self) {
        // Cannot fail: each ring has a header.
        let producer = self.ring.memory.load_index(PRODUCER_AT).unwrap_or_default();
        self.next = producer & self.ring.shape.entries();
        self.head = self.next;
        self.publish();
    }

    /// Tells the program which slots are free.
    fn publish(&self) {
        // Cannot fail, as above.
        let _ = self.ring.memory.store_index(CONSUMER_AT, self.head);
    }

    /// Copies octets out.
    pub(super) fn load(&self, at: usize, to: &mut [u8]) -> Option<()> {
        self.ring.memory.load(at, to).ok()
    }

    /// Requests that wait, as the program says.
    fn waiting(&self) -> u32 {
        // Cannot fail: each ring has a header.
        let producer = self
            .ring
            .memory
            .load_index(PRODUCER_AT)
            .unwrap_or(self.next);
        self.ring.shape.used(producer, self.next)
    }

    /// Appends the requests that wait to an empty ring, each with its first `len` octets.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they do not fit.
    fn move_to(&self, to: &Self, len: usize) -> Result {
        let mut slot = [0; RECEIVE_MOST];
        let slot = slot.get_mut(..len).ok_or(EINVAL)?;
        let ends = (self.next, to.next);
        self.ring.append_to(&to.ring, self.waiting(), ends, slot)?;
        Ok(())
    }

    /// Copies elements out.
    pub(super) fn elements(&self, at: usize, count: usize) -> Result<WrData> {
        WrData::user_elements(count, |index| {
            let mut octets = [0; ELEMENT_LEN];
            let offset = index.checked_mul(ELEMENT_LEN)?.checked_add(at)?;
            self.ring.memory.load(offset, &mut octets).ok()?;
            let element = UserElement::parse(&octets)?;
            Some(WrSge::of_user(element.addr, element.len, element.lkey))
        })
    }
}

/// The ring of receive work requests.
pub(super) struct RingReceives {
    queue: UserQueue,
    /// Elements of a request.
    sges: u32,
    /// The copy of the next request, once it was looked at.
    copy: Option<RecvWr>,
}

impl RingReceives {
    /// The queue in a new ring of that shape.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a ring that is too short.
    pub(super) fn new(ring: Arc<UserRing>, shape: RingShape, sges: u32) -> Result<Self> {
        Ok(Self {
            queue: UserQueue::new(ring, shape)?,
            sges,
            copy: None,
        })
    }

    /// Requests that the ring has room for.
    pub(super) fn places(&self) -> u32 {
        self.queue.ring.shape.entries()
    }

    /// Requests that wait, as the program says.
    pub(super) fn waiting(&self) -> u32 {
        let copied = u32::from(self.copy.is_some());
        self.queue.waiting().saturating_add(copied)
    }

    /// Goes on with the ring of an empty queue for requests of the same size, which gets the former
    /// ring (RNIC-SRQ-01).
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no room for all requests that wait; nothing changes.
    pub(super) fn exchange(&mut self, spare: &mut Self) -> Result {
        let len = usize::try_from(self.sges)?.checked_mul(ELEMENT_LEN);
        let len = len.and_then(|len| len.checked_add(RECEIVE_LEN));
        self.queue.move_to(&spare.queue, len.ok_or(EINVAL)?)?;
        // The copy has no slot in the new ring.
        swap(&mut self.queue, &mut spare.queue);
        Ok(())
    }

    /// Forgets all requests.
    pub(super) fn clear(&mut self) {
        self.copy = None;
        self.queue.clear();
    }

    /// The next request.
    pub(super) fn peek(&mut self) -> Option<&RecvWr> {
        if self.copy.is_none() {
            let at = self.queue.peek()?;
            let mut head = [0; RECEIVE_LEN];
            self.queue.load(at, &mut head)?;
            let wr = UserReceive::parse(&head, self.sges);
            let elements = self.queue.elements(at.checked_add(RECEIVE_LEN)?, wr.count);
            self.queue.advance();
            self.copy = Some(RecvWr {
                id: wr.id,
                data: elements.unwrap_or(WrData::EMPTY),
            });
        }
        self.copy.as_ref()
    }

    /// Takes the next request.
    pub(super) fn take(&mut self) -> Option<RecvWr> {
        self.peek()?;
        self.copy.take()
    }

    /// Frees the slot of the oldest request, which is complete.
    pub(super) fn release(&mut self) {
        self.queue.release(1);
    }
}
