// SPDX-License-Identifier: GPL-2.0

//! Sock locks that a program has when a work item wants them.
//!
//! A program keeps the lock of its sock for any time that it chooses, by a page fault under the lock
//! that it does not resolve. So no work item waits for such a lock: the item goes, the call that had
//! the lock kicks it when it returns, and a timer does so if that call never looks.

use super::{
    connection::Connection,
    now, //
};
use crate::{
    kapi::time::jiffies_from_ns,
    proto::{
        retry::Backoff,
        time::{
            earliest,
            Duration, //
        },
    },
};
use kernel::sync::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    Arc, //
};

/// When a work item that missed a sock lock tries again.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(1),
    most: Duration::from_secs(1),
};

/// The sock lock as one work item of a connection sees it.
pub(super) struct Contention {
    /// Runs in a row that found the lock taken. A run that gets the lock sets it to 0.
    misses: Atomic<u32>,
}

impl Contention {
    pub(super) const fn new() -> Self {
        Self {
            misses: Atomic::new(0u32),
        }
    }

    /// Notes that the lock was taken; returns when to try again.
    ///
    /// Context: any. Only the work item calls it.
    pub(super) fn missed(&self) -> Duration {
        BACKOFF.delay(self.misses.fetch_add(1, Relaxed))
    }

    /// Notes that the work item had the lock, or wants it no longer. Context: any.
    pub(super) fn over(&self) {
        if self.is_missed() {
            self.misses.store(0, Relaxed);
        }
    }

    fn is_missed(&self) -> bool {
        self.misses.load(Relaxed) != 0
    }
}

impl Connection {
    /// Runs the work item of the handshake again when the sock lock may be free.
    ///
    /// Context: any. Only that work item calls it.
    pub(super) fn retry_handshake(self: &Arc<Self>) {
        let delay = jiffies_from_ns(self.handshake_contention.missed().as_nanos());
        self.handshake_work
            .arm(self, &self.engine.handshakes, delay);
    }

    /// Runs the work item of the end again when the sock lock may be free.
    ///
    /// Context: any. Only that work item calls it.
    pub(super) fn retry_closing(self: &Arc<Self>) {
        let now = now();
        let at = now.saturating_add(self.closing_contention.missed());
        let mut slot = self.data.lock();
        if let Some(data) = slot.data.as_mut() {
            let at = earliest(data.armed, Some(at)).unwrap_or(at);
            data.armed = Some(at);
            let delay = at.saturating_since(now).as_nanos();
            // With the lock held: the timer is what `armed` says.
            self.work
                .arm(self, &self.engine.closings, jiffies_from_ns(delay));
        }
    }

    /// Kicks the work items that found the sock locked. A call of the program that had the lock calls
    /// it at its end.
    ///
    /// Context: any.
    pub(super) fn unlocked(self: &Arc<Self>) {
        if self.handshake_contention.is_missed() {
            self.kick_handshake();
        }
        if self.closing_contention.is_missed() {
            self.kick_closing();
        }
    }
}
