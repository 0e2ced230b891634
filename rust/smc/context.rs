// SPDX-License-Identifier: GPL-2.0

//! Work queues, the clock, names and the log limit: the host as all parts of the engine use it.

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

/// Work queues, names and the log limit, which all parts of the engine share.
pub(crate) struct Context {
    /// Runs handshakes and accept queues.
    pub(super) handshakes: WorkQueue,
    /// Runs timers and ends of connections.
    pub(super) closings: WorkQueue,
    /// Runs what link groups do: LLC, registrations, ends of links.
    pub(super) links: WorkQueue,
    /// Link groups made so far, for their IDs.
    groups_made: Atomic<u32>,
    /// Links made so far, for their IDs.
    links_made: Atomic<u32>,
    /// When something about a peer was logged last, in nanoseconds.
    logged: Atomic<u64>,
}

impl Context {
    /// The queues, empty. Context: may sleep.
    pub(super) fn new() -> Result<Arc<Self>> {
        let context = Self {
            handshakes: WorkQueue::new(c"rdma_sock_clc")?,
            closings: WorkQueue::new(c"rdma_sock_end")?,
            links: WorkQueue::new(c"rdma_sock_llc")?,
            groups_made: Atomic::new(0u32),
            links_made: Atomic::new(0u32),
            logged: Atomic::new(0u64),
        };
        Ok(Arc::new(context, GFP_KERNEL)?)
    }

    /// Whether a message about a peer's behaviour may be logged: one a second, whichever peer
    /// causes it. Context: any.
    pub(super) fn may_log(&self) -> bool {
        let now = now();
        let last = self.logged.load(Relaxed);
        RateLimit::LOG.allows(Instant::from_nanos(last), now)
            && self.logged.cmpxchg(last, now.as_nanos(), Relaxed).is_ok()
    }

    /// A number for a link group. Context: any.
    pub(super) fn next_group_id(&self) -> u32 {
        self.groups_made.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// A name for a link, unlike that of any other (`SMCR-LNK-03`). Context: any.
    pub(super) fn next_link_id(&self) -> u32 {
        self.links_made.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// Waits for the work that is queued. Context: may sleep.
    pub(super) fn flush(&self) {
        self.handshakes.flush();
        self.closings.flush();
        // The end of a connection may kick its link group.
        self.links.flush();
    }
}

/// The present, as the protocol core counts it. Context: any.
pub(super) fn now() -> Instant {
    Instant::from_nanos(now_ns())
}
