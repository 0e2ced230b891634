// SPDX-License-Identifier: GPL-2.0

//! What connects a connection to its peer.

use super::{
    mail::Mailbox,
    messages::SdpChannelOps, //
};
use crate::kapi::verbs::{
    channel::Channel,
    cm::CmHandle, //
};
use kernel::sync::Arc;

/// An id of the connection manager, and a queue pair. Either may be missing during a set-up.
pub(super) struct SdpLink {
    /// The id of the connection manager.
    pub(super) handle: Option<CmHandle<Mailbox>>,
    /// The queue pair.
    pub(super) channel: Option<Arc<Channel<SdpChannelOps>>>,
}

impl SdpLink {
    /// Nothing so far.
    pub(super) const NONE: Self = Self {
        handle: None,
        channel: None,
    };

    /// Takes the link down, and waits for what the device still does. Context: may sleep.
    pub(super) fn take_down(&mut self) {
        if let Some(handle) = self.handle.take() {
            // A connection that is not established, or no longer, needs no request for its end.
            let _ = handle.disconnect(&[]);
        }
        if let Some(channel) = self.channel.take() {
            channel.shutdown();
        }
    }
}

impl Drop for SdpLink {
    fn drop(&mut self) {
        self.take_down();
    }
}
