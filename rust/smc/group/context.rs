// SPDX-License-Identifier: GPL-2.0

//! The work queue of link groups, and numbers for groups and links.

use crate::{
    kapi::base::work::WorkQueue,
    sock::context::Context, //
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

/// The work queue of link groups, and numbers for groups and links.
pub(crate) struct GroupContext {
    /// Runs what link groups do: LLC, registrations, ends of links.
    pub(crate) links: WorkQueue,
    /// The log limit that groups share with sockets.
    sockets: Arc<Context>,
    /// Link groups made so far, for their IDs.
    groups_made: Atomic<u32>,
    /// Links made so far, for their IDs.
    links_made: Atomic<u32>,
}

impl GroupContext {
    /// A queue without work. Context: may sleep.
    pub(crate) fn new(sockets: &Arc<Context>) -> Result<Arc<Self>> {
        let context = Self {
            links: WorkQueue::new(c"rdma_sock_llc")?,
            sockets: sockets.clone(),
            groups_made: Atomic::new(0u32),
            links_made: Atomic::new(0u32),
        };
        Ok(Arc::new(context, GFP_KERNEL)?)
    }

    /// Whether a message about a peer's behaviour may be logged. Context: any.
    pub(crate) fn may_log(&self) -> bool {
        self.sockets.may_log()
    }

    /// A number for a link group. Context: any.
    pub(crate) fn next_group_id(&self) -> u32 {
        self.groups_made.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// A name for a link, unlike that of any other (`SMCR-LNK-03`). Context: any.
    pub(crate) fn next_link_id(&self) -> u32 {
        self.links_made.fetch_add(1, Relaxed).wrapping_add(1)
    }
}
