// SPDX-License-Identifier: GPL-2.0

//! Where the writes of a connection go: a link, and the peer's element as that link sees it.
//!
//! Source: RFC 7609 sections 2.3, 4.6 (`SMCR-FOV-02`, `SMCR-FOV-22`). The choice concerns one
//! direction only; the peer makes its own.

use super::completions::LinkHandler;
use crate::{
    kapi::verbs::{
        channel::Channel,
        sendbuf::SendMapping, //
    },
    proto::smc::{
        llc::{
            LinkSlot,
            PeerRmbId, //
        },
        wire::{
            BufSize,
            RmbeIndex, //
        },
    },
};
use kernel::sync::{
    atomic::Relaxed,
    Arc, //
};

/// The place of a connection on a link, counted so that links share the load.
pub(crate) struct LinkUse(Arc<LinkHandler>);

impl LinkUse {
    /// Takes a place on `link`. Context: any.
    pub(crate) fn new(handler: &Arc<LinkHandler>) -> Self {
        // The number orders no other access.
        let _ = handler.uses.fetch_add(1, Relaxed);
        Self(handler.clone())
    }

    /// The link.
    pub(crate) fn handler(&self) -> &Arc<LinkHandler> {
        &self.0
    }
}

impl Drop for LinkUse {
    fn drop(&mut self) {
        let _ = self.0.uses.fetch_sub(1, Relaxed);
    }
}

/// Names an RMBE of the peer within a group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerElement {
    pub(crate) rmb: PeerRmbId,
    pub(crate) index: RmbeIndex,
    /// Size of every element of the RMB.
    pub(crate) size: BufSize,
}

/// Where the writes of a connection go. Dropped in process context, as it may be the last to know
/// the channel.
pub(crate) struct Route {
    /// The link.
    pub(crate) link_use: LinkUse,
    /// The queue pair of the link.
    pub(crate) channel: Arc<Channel<LinkHandler>>,
    /// The connection's send buffer, as the link's device sees it.
    pub(crate) source: Arc<SendMapping>,
    /// Key of the peer's RMB on the link.
    pub(crate) rkey: u32,
    /// Address of the peer's element on the link (`SMCR-RMB-09`).
    pub(crate) base: u64,
}

impl Route {
    /// The link.
    pub(crate) fn handler(&self) -> &Arc<LinkHandler> {
        self.link_use.handler()
    }

    /// The place of the link in its group.
    pub(crate) fn slot(&self) -> LinkSlot {
        self.handler().slot()
    }
}

/// The route of a connection as soon as it has no chain in flight.
pub(crate) enum Next {
    /// Over another link.
    Route(Route),
    /// Where it does now: the link that it was about to move to is gone.
    Stay,
}

impl Next {
    /// Whether that is the link `slot`.
    pub(crate) fn is_on(&self, slot: LinkSlot) -> bool {
        matches!(self, Self::Route(route) if route.slot() == slot)
    }
}
