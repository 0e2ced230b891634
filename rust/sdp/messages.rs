// SPDX-License-Identifier: GPL-2.0

//! What the channel of a connection brings: messages, completions, and its end.

use crate::{
    kapi::verbs::{
        channel::{
            Arriving,
            ChannelOps, //
        },
        wc::WcStatus,
    },
    proto::sdp::conn::SdpToken,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The connection of a channel. Context of all methods: any.
pub(super) trait ChannelUser: Send + Sync {
    /// A message of this end, and all before it, has completed.
    fn sent(self: Arc<Self>, token: SdpToken);

    /// A message has come.
    fn received(self: Arc<Self>, msg: Arriving<'_, SdpChannelOps>);

    /// There is a slot for a message.
    fn slot_free(self: Arc<Self>);

    /// There is one, and the caller may have the lock of the stream.
    fn slot_unused(self: Arc<Self>);

    /// The channel is broken, as the peer `is_silent` or for another reason. The caller has no lock.
    fn broken(self: Arc<Self>, is_silent: bool);
}

/// The user of a connection's channel. The channel holds it until it is shut down.
pub(crate) struct SdpChannelOps {
    user: Arc<dyn ChannelUser>,
}

impl SdpChannelOps {
    /// The user for a connection. Context: may sleep.
    pub(super) fn new(user: Arc<dyn ChannelUser>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { user }, GFP_KERNEL)?)
    }
}

impl ChannelOps for SdpChannelOps {
    type Tag = SdpToken;

    fn on_sent(&self, tag: SdpToken, result: Result<(), WcStatus>) {
        if result.is_ok() {
            self.user.clone().sent(tag);
        }
    }

    fn supersedes(_later: &SdpToken, _earlier: &SdpToken) -> bool {
        true
    }

    fn on_received(&self, msg: Arriving<'_, Self>) {
        self.user.clone().received(msg);
    }

    fn on_slot_free(&self) {
        self.user.clone().slot_free();
    }

    fn on_slot_unused(&self) {
        self.user.clone().slot_unused();
    }

    fn on_broken(&self, status: WcStatus) {
        self.user.clone().broken(status == WcStatus::RETRY_EXCEEDED);
    }
}
