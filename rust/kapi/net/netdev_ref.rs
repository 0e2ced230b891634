// SPDX-License-Identifier: GPL-2.0

//! References to network devices, and the properties that a device above one follows.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use super::netns::NetRef;
use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::types::{
    NotThreadSafe,
    Opaque, //
};

/// The kinds of network devices that packets of an RDMA device can travel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetdevKind {
    /// Ethernet, but no VLAN on top of another device.
    Ethernet,
    /// The loopback device of a namespace.
    Loopback,
    /// IP packets without a link layer, such as a tunnel to user space.
    RawIp,
    /// Anything else.
    Other,
}

/// A network device that is there for the time of a call.
///
/// # Invariants
///
/// The device is valid for the lifetime of the reference.
#[repr(transparent)]
pub(crate) struct NetDevice(Opaque<bindings::net_device>);

// SAFETY: All methods may be called from any thread.
unsafe impl Sync for NetDevice {}

impl NetDevice {
    /// # Safety
    ///
    /// `dev` must be valid for the lifetime of the returned reference.
    pub(in crate::kapi) unsafe fn from_raw<'a>(dev: NonNull<bindings::net_device>) -> &'a Self {
        // INVARIANT: By this function's contract.
        // SAFETY: As above; `NetDevice` is transparent.
        unsafe { dev.cast().as_ref() }
    }

    /// The pointer for C.
    pub(in crate::kapi) fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// Takes a reference. Context: any.
    pub(crate) fn hold(&self) -> NetDeviceRef {
        // SAFETY: By the type invariants the device is valid.
        unsafe { bindings::rdma_sock_helper_dev_hold(self.as_raw()) };
        // INVARIANT: The reference was just taken.
        NetDeviceRef(NonNull::from(&self.0).cast())
    }

    /// Whether both are the same device.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }

    /// The MTU in octets, without the header of the link layer.
    pub(crate) fn mtu(&self) -> u32 {
        // SAFETY: By the type invariants the device is valid.
        unsafe { bindings::rdma_sock_helper_dev_mtu(self.as_raw()) }
    }

    /// The Ethernet address, if it has one.
    pub(crate) fn address(&self) -> Option<[u8; 6]> {
        let mut mac = [0; 6];
        // SAFETY: By the type invariants the device is valid; there is room for the address.
        unsafe { bindings::rdma_sock_helper_dev_address(self.as_raw(), mac.as_mut_ptr()) }
            .then_some(mac)
    }

    /// Whether it runs and has a carrier.
    pub(crate) fn is_active(&self) -> bool {
        // SAFETY: By the type invariants the device is valid.
        unsafe { bindings::rdma_sock_helper_dev_is_active(self.as_raw()) }
    }

    /// The kind.
    pub(crate) fn kind(&self) -> NetdevKind {
        // SAFETY: By the type invariants the device is valid.
        match unsafe { bindings::rdma_sock_helper_dev_kind(self.as_raw()) } {
            bindings::rdma_sock_netdev_kind_RDMA_SOCK_NETDEV_ETHERNET => NetdevKind::Ethernet,
            bindings::rdma_sock_netdev_kind_RDMA_SOCK_NETDEV_LOOPBACK => NetdevKind::Loopback,
            bindings::rdma_sock_netdev_kind_RDMA_SOCK_NETDEV_RAW_IP => NetdevKind::RawIp,
            _ => NetdevKind::Other,
        }
    }

    /// Whether it is registered: its removal has not begun, and cannot before `rtnl` is dropped.
    pub(crate) fn is_registered(&self, _rtnl: &Rtnl) -> bool {
        // SAFETY: By the type invariants the device is valid.
        unsafe { bindings::rdma_sock_helper_dev_is_registered(self.as_raw()) }
    }

    /// The namespace it is in, which a registered device cannot leave before `rtnl` is dropped.
    pub(crate) fn net(&self, _rtnl: &Rtnl) -> NetRef {
        // SAFETY: By the type invariants the device is valid. A device always has a namespace, which
        // stays at least as long as nothing can remove the device.
        unsafe {
            let net = bindings::rdma_sock_helper_dev_get_net(self.as_raw());
            NetRef::from_owned(NonNull::new_unchecked(net))
        }
    }
}

/// A reference to a network device. Its removal waits for all references.
///
/// # Invariants
///
/// The pointer is valid and this object owns a reference.
pub(crate) struct NetDeviceRef(NonNull<bindings::net_device>);

// SAFETY: References to devices may be used and dropped anywhere.
unsafe impl Send for NetDeviceRef {}
// SAFETY: As above.
unsafe impl Sync for NetDeviceRef {}

impl NetDeviceRef {
    /// # Safety
    ///
    /// `dev` must be a device with a reference that the caller gives away.
    pub(in crate::kapi) unsafe fn from_raw(dev: NonNull<bindings::net_device>) -> Self {
        // INVARIANT: By this function's contract.
        Self(dev)
    }

    /// Gives the reference to C.
    pub(in crate::kapi) fn into_raw(self) -> *mut bindings::net_device {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl core::ops::Deref for NetDeviceRef {
    type Target = NetDevice;

    fn deref(&self) -> &NetDevice {
        // SAFETY: By the type invariants the device lives as long as this reference.
        unsafe { NetDevice::from_raw(self.0) }
    }
}

impl Clone for NetDeviceRef {
    fn clone(&self) -> Self {
        self.hold()
    }
}

impl Drop for NetDeviceRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_dev_put(self.0.as_ptr()) }
    }
}

/// The lock of the network configuration, which is held until this is dropped.
///
/// # Invariants
///
/// This task holds the lock.
pub(crate) struct Rtnl(NotThreadSafe);

impl Rtnl {
    /// Takes the lock. Context: may sleep.
    pub(crate) fn lock() -> Self {
        // SAFETY: The caller may sleep, as the documentation demands.
        unsafe { bindings::rdma_sock_helper_rtnl_lock() };
        // INVARIANT: Just taken.
        Self(PhantomData)
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; the type cannot be sent to another task.
        unsafe { bindings::rdma_sock_helper_rtnl_unlock() }
    }
}
