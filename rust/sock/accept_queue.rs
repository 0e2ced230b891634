// SPDX-License-Identifier: GPL-2.0

//! The children of a listener between TCP and accept.

use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Children of a listener between TCP and accept; `C` is a connection.
pub(crate) struct AcceptQueue<C> {
    /// Ready, in order.
    pub(crate) ready: KVec<Arc<C>>,
    /// With a set-up under way.
    pub(crate) pending: KVec<Arc<C>>,
    /// The listener is gone.
    pub(crate) closed: bool,
}

impl<C> AcceptQueue<C> {
    /// An empty queue.
    pub(crate) const fn new() -> Self {
        Self {
            ready: KVec::new(),
            pending: KVec::new(),
            closed: false,
        }
    }
}
