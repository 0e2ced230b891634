// SPDX-License-Identifier: GPL-2.0

//! Work queues, the clock and the log limit, which all sockets of an engine share.

use crate::{
    kapi::base::{
        time::now_ns,
        work::WorkQueue, //
    },
    proto::base::{
        rate::RateLimit,
        time::Instant, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Work queues and the log limit of a protocol's sockets.
pub(crate) struct Context {
    /// Runs set-ups and accept queues.
    pub(crate) setups: WorkQueue,
    /// Runs timers and ends of connections.
    pub(crate) closings: WorkQueue,
    /// When something about a peer was logged last, in nanoseconds.
    logged: Atomic<u64>,
}

impl Context {
    /// Work queues with these names, empty. Context: may sleep.
    pub(crate) fn new(setups: &'static CStr, closings: &'static CStr) -> Result<Arc<Self>> {
        let context = Self {
            setups: WorkQueue::new(setups)?,
            closings: WorkQueue::new(closings)?,
            logged: Atomic::new(0u64),
        };
        Ok(Arc::new(context, GFP_KERNEL)?)
    }

    /// Whether a message about a peer's behaviour may be logged: one a second, whichever peer
    /// causes it. Context: any.
    pub(crate) fn may_log(&self) -> bool {
        let now = now();
        let last = self.logged.load(Relaxed);
        RateLimit::LOG.allows(Instant::from_nanos(last), now)
            && self.logged.cmpxchg(last, now.as_nanos(), Relaxed).is_ok()
    }

    /// Waits for the work that is queued. Context: may sleep.
    pub(crate) fn flush(&self) {
        self.setups.flush();
        self.closings.flush();
    }
}

/// The present, as the protocol core counts it. Context: any.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(now_ns())
}
