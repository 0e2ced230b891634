// SPDX-License-Identifier: GPL-2.0

//! What was posted to a send queue and is not done.

use kernel::prelude::*;

/// Slots that the device owns, in the order in which they were posted: a ring.
pub(super) struct Posted {
    ring: KVec<u16>,
    head: usize,
    count: usize,
    /// How many of them will tell of their completion.
    signalled: usize,
    /// How many were posted since the last that will, or did.
    quiet: usize,
    /// Longest run of unsignalled slots.
    max_quiet: usize,
}

impl Posted {
    /// For up to `slots`, of which a run of `max_quiet` may be unsignalled. Context: may sleep.
    pub(super) fn new(slots: usize, max_quiet: usize) -> Result<Self> {
        Ok(Self {
            ring: KVec::from_elem(0, slots, GFP_KERNEL)?,
            head: 0,
            count: 0,
            signalled: 0,
            quiet: 0,
            max_quiet,
        })
    }

    /// Whether the next slot must tell of its completion for the sake of those before it. So there
    /// are never more than half of the slots posted of which nobody will tell.
    pub(super) fn must_signal(&self) -> bool {
        self.quiet >= core::cmp::min(self.ring.len() / 2, self.max_quiet)
    }

    /// Puts a slot behind the others.
    pub(super) fn push(&mut self, index: u16, signal: bool) {
        let at = self.head.wrapping_add(self.count) % self.ring.len();
        if let Some(place) = self.ring.get_mut(at) {
            *place = index;
            self.count += 1;
        }
        if signal {
            self.signalled += 1;
            self.quiet = 0;
        } else {
            self.quiet += 1;
        }
    }

    /// The one that was posted first.
    pub(super) fn pop(&mut self) -> Option<u16> {
        if self.count == 0 {
            return None;
        }
        let index = self.ring.get(self.head).copied()?;
        self.head = (self.head + 1) % self.ring.len();
        self.count -= 1;
        Some(index)
    }

    /// Whether one of them will tell of its completion.
    pub(super) fn will_tell(&self) -> bool {
        self.signalled > 0
    }

    /// One of them has told.
    pub(super) fn told(&mut self) {
        self.signalled = self.signalled.saturating_sub(1);
    }
}
