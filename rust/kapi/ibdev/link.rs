// SPDX-License-Identifier: GPL-2.0

//! Types of links, which `rdma link add NAME type TYPE netdev DEV` makes devices of.
//!
//! C header: [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)

use crate::{
    bindings,
    kapi::net::netdev_ref::NetDevice, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::from_result,
    ffi,
    prelude::*,
    types::Opaque, //
};

/// A type of links.
pub(crate) trait LinkOps: 'static {
    /// The name of the type.
    const TYPE: &'static CStr;

    /// Makes a device on a network device. Context: may sleep. The RTNL is not held.
    fn newlink(name: &CStr, netdev: &NetDevice) -> Result;
}

/// A registered [`LinkOps`]. Dropping it waits for calls that make devices.
///
/// # Invariants
///
/// `ops` is registered.
pub(crate) struct LinkRegistration<T: LinkOps> {
    ops: KBox<Opaque<bindings::rdma_link_ops>>,
    _ops: PhantomData<fn(T)>,
}

// SAFETY: A type of links may be unregistered from any thread.
unsafe impl<T: LinkOps> Send for LinkRegistration<T> {}
// SAFETY: There is nothing that can be done with a shared reference.
unsafe impl<T: LinkOps> Sync for LinkRegistration<T> {}

impl<T: LinkOps> LinkRegistration<T> {
    /// Registers the type. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. The core refuses a second type of the same name with a warning only, so a type must be
    /// registered once.
    pub(crate) fn new() -> Result<Self> {
        let ops = KBox::new(Opaque::<bindings::rdma_link_ops>::zeroed(), GFP_KERNEL)?;
        // SAFETY: The structure is ours. Zero is valid for its other fields.
        unsafe {
            (*ops.get()).type_ = T::TYPE.as_char_ptr();
            (*ops.get()).newlink = Some(Self::newlink_raw);
        }
        // SAFETY: The structure does not move and is unregistered before it is freed.
        unsafe { bindings::rdma_link_register(ops.get()) };
        // INVARIANT: Just registered.
        Ok(Self {
            ops,
            _ops: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Only for the core's netlink interface.
    unsafe extern "C" fn newlink_raw(
        name: *const ffi::c_char,
        netdev: *mut bindings::net_device,
    ) -> ffi::c_int {
        let Some(netdev) = NonNull::new(netdev) else {
            return EINVAL.to_errno();
        };
        // SAFETY: The core passes a name that ends in a nul, and a device to which it has a reference.
        let (name, netdev) = unsafe { (CStr::from_char_ptr(name), NetDevice::from_raw(netdev)) };
        from_result(|| T::newlink(name, netdev).map(|()| 0))
    }
}

impl<T: LinkOps> Drop for LinkRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_link_unregister(self.ops.get()) }
    }
}
