// SPDX-License-Identifier: GPL-2.0

//! The link type `rsoft`, and the network devices below its devices (RNIC-NET-01, RNIC-NET-05).

use super::registry::REGISTRY;
use crate::kapi::{
    ibdev::LinkOps,
    net::{
        netdev_events::{
            NetdevEvent,
            NetdevOps, //
        },
        netdev_ref::NetDevice, //
    },
};
use kernel::prelude::*;

/// The link type of RoCE.
pub(super) struct RoceLink;

impl LinkOps for RoceLink {
    const TYPE: &'static CStr = c"rsoft";

    fn newlink(name: &CStr, netdev: &NetDevice) -> Result {
        REGISTRY.get().ok_or(ENODEV)?.add(name, netdev)
    }
}

impl NetdevOps for RoceLink {
    fn event(dev: &NetDevice, event: NetdevEvent) {
        let Some(registry) = REGISTRY.get() else {
            return;
        };
        registry.runtime().end_proofs();
        match event {
            NetdevEvent::Unregister => registry.netdev_gone(dev),
            NetdevEvent::State => registry.netdev_state(dev),
            // The port reports the MTU when it is queried (RNIC-NET-06), and the GUID stays.
            NetdevEvent::Mtu | NetdevEvent::Address => {}
        }
    }
}
