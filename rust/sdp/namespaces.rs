// SPDX-License-Identifier: GPL-2.0

//! Follows the network namespaces.

use super::engine::engine;
use crate::kapi::net::netns::{
    Net,
    NetOps, //
};
use kernel::prelude::*;

/// Follows the network namespaces.
pub(super) struct SdpNamespaces;

impl NetOps for SdpNamespaces {
    fn init(net: &Net) -> Result {
        // The rest of the state is made by the first socket.
        engine().ok_or(ENODEV)?.sysctls.add(net)
    }

    fn exit(net: &Net) {
        if let Some(engine) = engine() {
            engine.nets.forget(net.cookie());
            engine.sysctls.remove(net.cookie());
        }
    }
}
