// SPDX-License-Identifier: GPL-2.0

//! Notifications of what happens to network devices.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use super::netdev_ref::NetDevice;
use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    ffi,
    prelude::*,
    types::Opaque, //
};

/// An event of a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetdevEvent {
    /// It goes away, or to another namespace. It waits for all references to it.
    Unregister,
    /// It was set up or down, or its carrier changed.
    State,
    /// Its MTU changed.
    Mtu,
    /// Its address changed.
    Address,
}

/// A follower of network devices.
pub(crate) trait NetdevOps: 'static {
    /// Something happened to a device. The caller holds the RTNL, so nothing that waits for work
    /// that takes the RTNL may be waited for.
    fn event(dev: &NetDevice, event: NetdevEvent);
}

/// A registered [`NetdevOps`]. Dropping it reports [`NetdevEvent::Unregister`] for all devices.
///
/// # Invariants
///
/// `block` is registered.
pub(crate) struct NetdevRegistration<T: NetdevOps> {
    block: KBox<Opaque<bindings::notifier_block>>,
    _ops: PhantomData<fn(T)>,
}

// SAFETY: A notifier may be unregistered from any thread.
unsafe impl<T: NetdevOps> Send for NetdevRegistration<T> {}
// SAFETY: There is nothing that can be done with a shared reference.
unsafe impl<T: NetdevOps> Sync for NetdevRegistration<T> {}

impl<T: NetdevOps> NetdevRegistration<T> {
    /// Registers the follower. Context: may sleep.
    pub(crate) fn new() -> Result<Self> {
        let block = KBox::new(Opaque::<bindings::notifier_block>::zeroed(), GFP_KERNEL)?;
        // SAFETY: The block is ours. Zero is valid for its other fields.
        unsafe { (*block.get()).notifier_call = Some(Self::notify_raw) };
        // SAFETY: The block does not move and is unregistered before it is freed.
        to_result(unsafe { bindings::register_netdevice_notifier(block.get()) })?;
        // INVARIANT: Just registered.
        Ok(Self {
            block,
            _ops: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Only for the notifier chain of network devices.
    unsafe extern "C" fn notify_raw(
        _block: *mut bindings::notifier_block,
        event: ffi::c_ulong,
        info: *mut ffi::c_void,
    ) -> ffi::c_int {
        const DONE: ffi::c_int = 0;
        let Ok(event) = u32::try_from(event) else {
            return DONE;
        };
        let event = match event {
            bindings::rdma_sock_netdev_event_RDMA_SOCK_NETDEV_UNREGISTER => NetdevEvent::Unregister,
            bindings::rdma_sock_netdev_event_RDMA_SOCK_NETDEV_UP
            | bindings::rdma_sock_netdev_event_RDMA_SOCK_NETDEV_DOWN
            | bindings::rdma_sock_netdev_event_RDMA_SOCK_NETDEV_CHANGE => NetdevEvent::State,
            bindings::rdma_sock_netdev_event_RDMA_SOCK_NETDEV_CHANGEMTU => NetdevEvent::Mtu,
            bindings::rdma_sock_netdev_event_RDMA_SOCK_NETDEV_CHANGEADDR => NetdevEvent::Address,
            _ => return DONE,
        };
        // SAFETY: The chain passes the information about a device.
        let dev = unsafe { bindings::rdma_sock_helper_notifier_dev(info) };
        if let Some(dev) = NonNull::new(dev) {
            // SAFETY: The device is valid while the chain runs.
            T::event(unsafe { NetDevice::from_raw(dev) }, event);
        }
        DONE
    }
}

impl<T: NetdevOps> Drop for NetdevRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. The only error is that it is not registered.
        unsafe { bindings::unregister_netdevice_notifier(self.block.get()) };
    }
}
