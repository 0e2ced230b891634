// SPDX-License-Identifier: GPL-2.0

//! The connections that have a queue pair, by device: they end when the device goes.

use crate::kapi::verbs::device::Device;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A connection with something on a device.
pub(super) trait DeviceUser: Send + Sync {
    /// The device goes: gives up all that the connection has on it. Context: may sleep.
    fn lose_device(self: Arc<Self>);
}

/// A connection, and the device.
struct LinkEntry {
    device: Arc<Device>,
    user: Arc<dyn DeviceUser>,
}

/// The connections of all devices. Each is there from before it makes its queue pair until it is over.
#[pin_data]
pub(super) struct SdpLinks {
    #[pin]
    list: Mutex<KVec<LinkEntry>>,
}

impl SdpLinks {
    /// No connection so far. Context: may sleep.
    pub(super) fn new() -> Result<Arc<Self>> {
        let list = new_mutex!(KVec::new(), "rdma_sock_sdp_links");
        Arc::pin_init(pin_init!(Self { list <- list }), GFP_KERNEL)
    }

    /// Enters a connection. Context: may sleep.
    pub(super) fn enter(&self, device: &Arc<Device>, user: Arc<dyn DeviceUser>) -> Result {
        let entry = LinkEntry {
            device: device.clone(),
            user,
        };
        Ok(self.list.lock().push(entry, GFP_KERNEL)?)
    }

    /// Takes a connection out, if it is there. Context: may sleep.
    pub(super) fn leave(&self, user: &dyn DeviceUser) {
        let is_its = |entry: &LinkEntry| core::ptr::addr_eq(&raw const *entry.user, user);
        let left = {
            let mut list = self.list.lock();
            let at = list.iter().position(is_its);
            at.and_then(|at| list.remove(at).ok())
        };
        drop(left);
    }

    /// The device goes: on return no connection has anything on it. Context: may sleep.
    pub(super) fn end_all(&self, device: &Arc<Device>) {
        loop {
            let ended = {
                let mut list = self.list.lock();
                let mut entries = list.iter();
                let at = entries.position(|entry| Arc::ptr_eq(&entry.device, device));
                at.and_then(|at| list.remove(at).ok())
            };
            let Some(ended) = ended else {
                return;
            };
            ended.user.lose_device();
        }
    }
}
