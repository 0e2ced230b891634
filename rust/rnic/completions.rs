// SPDX-License-Identifier: GPL-2.0

//! The places of a completion queue: what a program polls, or a ring that it reads.

use super::shaped_ring::ShapedRing;
use crate::{
    kapi::ibdev::{
        Completion,
        QpToken,
        UserRing, //
    },
    proto::roce::ring::{
        RingShape,
        CONSUMER_AT,
        PRODUCER_AT, //
    },
};
use core::mem::swap;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Octets of a completion in a ring.
const COMPLETION_LEN: usize = 48;

/// Completions in the order of their arrival.
pub(super) enum Completions {
    /// Those that a kernel program polls.
    Kernel(KernelCompletions),
    /// Those that user space reads.
    User(UserCompletions),
}

/// Completions that a kernel program polls.
pub(super) struct KernelCompletions {
    places: KVVec<Option<Completion>>,
    /// The place of the oldest completion.
    first: usize,
    /// Completions.
    count: usize,
    /// The newest of these, which the program does not see.
    hidden: u32,
}

/// A ring of completions that user space reads.
pub(super) struct UserCompletions {
    ring: ShapedRing,
    /// Slot of the next completion. What the ring says is never read (RNIC-CQ-02).
    producer: u32,
    /// The newest completions, which the program does not see.
    hidden: u32,
}

impl Completions {
    /// Places that a kernel program polls, for `entries` completions. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn of_kernel(entries: u32) -> Result<Self> {
        let mut places = KVVec::new();
        places.resize(usize::try_from(entries)?, None, GFP_KERNEL_ACCOUNT)?;
        Ok(Self::Kernel(KernelCompletions {
            places,
            first: 0,
            count: 0,
            hidden: 0,
        }))
    }

    /// Adds a completion, which the program does not see so far if `hide`. Returns whether there was a place.
    pub(super) fn push(&mut self, completion: &Completion, hide: bool) -> bool {
        match self {
            Self::Kernel(completions) => completions.push(completion, hide),
            Self::User(completions) => completions.push(completion, hide),
        }
    }

    /// Takes the oldest completion that a kernel program sees.
    pub(super) fn pop(&mut self) -> Option<Completion> {
        match self {
            Self::Kernel(completions) => completions.pop(),
            Self::User(_) => None,
        }
    }

    /// Whether there are completions that the program sees.
    pub(super) fn has_any(&self) -> bool {
        match self {
            Self::Kernel(completions) => completions.visible() > 0,
            Self::User(completions) => completions.count() > completions.hidden,
        }
    }

    /// Completions that the program does not see.
    pub(super) fn hidden(&self) -> u32 {
        match self {
            Self::Kernel(completions) => completions.hidden,
            Self::User(completions) => completions.hidden,
        }
    }

    /// Shows all completions to the program.
    pub(super) fn show(&mut self) {
        match self {
            Self::Kernel(completions) => completions.hidden = 0,
            Self::User(completions) => {
                // A ring that cannot be written had failed with the completion.
                let _ = completions.show();
            }
        }
    }

    /// Removes all completions of a queue pair, unless user space reads them. None is hidden.
    pub(super) fn purge(&mut self, qp: QpToken) {
        if let Self::Kernel(completions) = self {
            completions.purge(qp);
        }
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
impl Completions {
    /// Whether there is a place for a completion of a kernel program.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Self::Kernel(completions) => completions.count < completions.places.len(),
            Self::User(_) => false,
        }
    }
}

impl KernelCompletions {
    /// The place that is `offset` behind the oldest completion.
    fn place(&mut self, offset: usize) -> Option<&mut Option<Completion>> {
        let len = self.places.len();
        let index = self.first.wrapping_add(offset);
        let index = if index >= len {
            index.wrapping_sub(len)
        } else {
            index
        };
        self.places.get_mut(index)
    }

    /// Completions that the program sees.
    fn visible(&self) -> usize {
        let hidden = usize::try_from(self.hidden).unwrap_or(usize::MAX);
        self.count.saturating_sub(hidden)
    }

    /// Adds a completion. Returns whether there was a place.
    fn push(&mut self, completion: &Completion, hide: bool) -> bool {
        if self.count >= self.places.len() {
            return false;
        }
        let count = self.count;
        if let Some(place) = self.place(count) {
            *place = Some(*completion);
            self.count = count.wrapping_add(1);
            self.hidden = self.hidden.wrapping_add(u32::from(hide));
        }
        true
    }

    /// Takes the oldest completion that the program sees.
    fn pop(&mut self) -> Option<Completion> {
        if self.visible() == 0 {
            return None;
        }
        let completion = self.place(0)?.take();
        self.count = self.count.wrapping_sub(1);
        self.first = self.first.wrapping_add(1);
        if self.first >= self.places.len() {
            self.first = 0;
        }
        completion
    }

    /// Removes all completions of a queue pair. None is hidden.
    fn purge(&mut self, qp: QpToken) {
        for _ in 0..self.count {
            if let Some(completion) = self.pop().filter(|completion| completion.qp != qp) {
                // Cannot fail: one was just taken.
                self.push(&completion, false);
            }
        }
    }
}

impl UserCompletions {
    /// No completions in a new ring with room for `entries`.
    pub(super) fn new(memory: &Arc<UserRing>, entries: u32) -> Result<Self> {
        let shape = RingShape::of_completions(entries).ok_or(EINVAL)?;
        Ok(Self {
            ring: ShapedRing::new(memory.clone(), shape)?,
            producer: 0,
            hidden: 0,
        })
    }

    /// Goes on with the ring of an empty queue, which gets the former one. No completion is hidden.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are more completions than `entries`, or than it has room for; nothing changes.
    pub(super) fn exchange(&mut self, spare: &mut Self, entries: u32) -> Result {
        let count = self.count();
        if count > entries {
            return Err(EINVAL);
        }
        let ends = (self.ring.shape.before(self.producer, count), spare.producer);
        let mut slot = [0; COMPLETION_LEN];
        spare.producer = self.ring.append_to(&spare.ring, count, ends, &mut slot)?;
        swap(self, spare);
        Ok(())
    }

    /// Completions that the program has not consumed, as it says (RNIC-CQ-03).
    fn count(&self) -> u32 {
        // Cannot fail: each ring has a header.
        let consumer = self.ring.memory.load_index(CONSUMER_AT).unwrap_or_default();
        self.ring.shape.used(self.producer, consumer)
    }

    /// Adds a completion. Returns whether there was a slot.
    fn push(&mut self, completion: &Completion, hide: bool) -> bool {
        if self.count() >= self.ring.shape.entries() {
            return false;
        }
        let at = self.ring.shape.slot_at(self.producer);
        let next = self.ring.shape.after(self.producer);
        let stored = self.ring.memory.store_completion(at, completion);
        self.producer = next;
        self.hidden = self.hidden.wrapping_add(u32::from(hide));
        // The index goes last.
        stored.is_ok() && (hide || self.show())
    }

    /// Tells the program of all completions. Returns whether the ring took that.
    fn show(&mut self) -> bool {
        self.hidden = 0;
        let stored = self.ring.memory.store_index(PRODUCER_AT, self.producer);
        stored.is_ok()
    }
}
