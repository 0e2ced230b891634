// SPDX-License-Identifier: GPL-2.0

//! Sock locks that a program has when a work item wants them.
//!
//! A program keeps the lock of its sock for any time that it chooses, by a page fault under the
//! lock that it does not resolve. So no work item waits for such a lock: the item goes, the call
//! that had the lock kicks it when it returns, and a timer does so if that call misses it.

use crate::proto::base::{
    retry::Backoff,
    time::Duration, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The sock lock as one work item of a connection sees it.
pub(crate) struct Contention {
    /// Runs in a row that found the lock taken. A run that gets the lock sets it to 0.
    misses: Atomic<u32>,
}

impl Contention {
    pub(crate) const fn new() -> Self {
        Self {
            misses: Atomic::new(0u32),
        }
    }

    /// Notes that the lock was taken; returns when to try again.
    ///
    /// Context: any. Only the work item calls it.
    pub(crate) fn missed(&self) -> Duration {
        Backoff::LOCK.delay(self.misses.fetch_add(1, Relaxed))
    }

    /// Notes that the work item had the lock, or wants it no longer. Context: any.
    pub(crate) fn over(&self) {
        if self.is_missed() {
            self.misses.store(0, Relaxed);
        }
    }

    /// Whether the last run found the lock taken. Context: any.
    pub(crate) fn is_missed(&self) -> bool {
        self.misses.load(Relaxed) != 0
    }
}
