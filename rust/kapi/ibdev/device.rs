// SPDX-License-Identifier: GPL-2.0

//! Allocation and registration of an RDMA device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    attr::PortSpeed,
    dma,
    ops::IbDeviceOps,
    shell::Shell,
    table::OpsTable, //
};
use crate::{
    bindings,
    kapi::net::netdev_ref::NetDevice, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// The C structure of a device with the driver's device.
pub(super) type DeviceShell<D> = Shell<bindings::ib_device, D>;

/// What a device says about itself once.
pub(crate) struct IbDeviceSetup {
    /// The description of the node.
    pub(crate) description: &'static CStr,
    /// GUID of the node.
    pub(crate) node_guid: [u8; 8],
    /// The local key that is valid for all of the kernel's memory.
    pub(crate) local_dma_lkey: u32,
}

/// A reference to the memory of a registered device. The device may be unregistered.
///
/// # Invariants
///
/// The pointer is a device that [`IbDevice::register`] made for a `T`, and this object owns a
/// reference to its memory.
pub(crate) struct IbDevice<T: IbDeviceOps> {
    dev: NonNull<bindings::ib_device>,
    _ops: PhantomData<fn(T)>,
}

// SAFETY: References to devices may be used and dropped anywhere.
unsafe impl<T: IbDeviceOps> Send for IbDevice<T> {}
// SAFETY: As above.
unsafe impl<T: IbDeviceOps> Sync for IbDevice<T> {}

impl<T: IbDeviceOps> IbDevice<T> {
    /// Registers a device. Context: may sleep. The caller does not hold the RTNL.
    ///
    /// The verbs core calls `core` from here on, and may have unregistered the device again when this
    /// returns. Once [`IbDeviceOps::released`] was called, it is called no more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENFILE` if there is a device of that name; those of the core's clients. In all cases
    /// [`IbDeviceOps::released`] was called, or will be.
    pub(crate) fn register(core: Arc<T>, name: &CStr, setup: &IbDeviceSetup) -> Result<Self> {
        let table = match OpsTable::new::<T>() {
            Ok(table) => table,
            Err(err) => {
                T::released(&core);
                return Err(err);
            }
        };
        // SAFETY: The size is that of a structure which begins with an `ib_device`.
        let dev = unsafe { bindings::rdma_sock_helper_ibdev_alloc(DeviceShell::<T>::SIZE) };
        let Some(dev) = NonNull::new(dev) else {
            T::released(&core);
            return Err(ENOMEM);
        };
        // SAFETY: The allocation has room for a shell. The table takes the core back when the device is
        // released.
        unsafe { DeviceShell::publish(dev.as_ptr(), core) };
        let raw_setup = bindings::rdma_sock_ibdev_setup {
            description: setup.description.as_char_ptr(),
            node_guid: setup.node_guid,
            local_dma_lkey: setup.local_dma_lkey,
        };
        // SAFETY: The device is not registered yet. The functions of the table are for a shell of `T`.
        unsafe { bindings::rdma_sock_helper_ibdev_setup(dev.as_ptr(), table.as_ptr(), &raw_setup) };
        // SAFETY: The memory is valid. Taken before the registration, as the device may be gone after it.
        unsafe { bindings::rdma_sock_helper_ibdev_get(dev.as_ptr()) };
        // INVARIANT: The reference was just taken.
        let this = Self {
            dev,
            _ops: PhantomData,
        };
        // SAFETY: The device is set up. Without a device for DMA the core passes addresses of the
        // kernel.
        let result = unsafe {
            bindings::ib_register_device(dev.as_ptr(), name.as_char_ptr(), dma::mapped_for())
        };
        if let Err(err) = to_result(result) {
            // SAFETY: The registration failed, and then the device is the caller's to free.
            unsafe { bindings::ib_dealloc_device(dev.as_ptr()) };
            return Err(err);
        }
        Ok(this)
    }

    /// Unregisters the device, or waits until it is unregistered. Context: may sleep. The caller
    /// holds neither the RTNL nor a lock that the operations of the device take.
    ///
    /// Waits for all clients to remove the device with all its objects; then
    /// [`IbDeviceOps::released`] has returned.
    pub(crate) fn unregister(&self) {
        // SAFETY: By the type invariants the memory is valid, and the device was registered. The call
        // may be repeated.
        unsafe { bindings::ib_unregister_device(self.dev.as_ptr()) }
    }

    /// Unregisters the device from a work item of the verbs core, unless that is under way.
    /// Context: may sleep.
    pub(crate) fn unregister_later(&self) {
        self.with_registered(|dev| {
            // SAFETY: The device is registered, and has a function that releases it.
            unsafe { bindings::ib_unregister_device_queued(dev) }
        });
    }

    /// Reports the state of the port to clients if it has changed. Context: may sleep.
    pub(crate) fn dispatch_port_state(&self, netdev: &NetDevice) {
        self.with_registered(|dev| {
            // SAFETY: The device is registered, and the network device is valid.
            unsafe { bindings::ib_dispatch_port_state_event(dev, netdev.as_raw()) }
        });
    }

    /// Runs `f` with the device, unless it is being unregistered.
    fn with_registered(&self, f: impl FnOnce(*mut bindings::ib_device)) {
        let dev = self.dev.as_ptr();
        // SAFETY: By the type invariants the memory is valid.
        if unsafe { bindings::rdma_sock_helper_ibdev_try_use(dev) } {
            f(dev);
            // SAFETY: Ends the use that began above.
            unsafe { bindings::ib_device_put(dev) };
        }
    }
}

impl<T: IbDeviceOps> Clone for IbDevice<T> {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariants the memory is valid.
        unsafe { bindings::rdma_sock_helper_ibdev_get(self.dev.as_ptr()) };
        // INVARIANT: The reference was just taken.
        Self {
            dev: self.dev,
            _ops: PhantomData,
        }
    }
}

impl<T: IbDeviceOps> Drop for IbDevice<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants there is a reference.
        unsafe { bindings::rdma_sock_helper_ibdev_put(self.dev.as_ptr()) }
    }
}

/// The handle of a device inside a call of [`IbDeviceOps`].
pub(crate) struct IbDeviceCall<'a>(*mut bindings::ib_device, PhantomData<&'a ()>);

impl IbDeviceCall<'_> {
    /// # Safety
    ///
    /// `dev` must be the device of the call.
    pub(super) unsafe fn new(dev: *mut bindings::ib_device) -> Self {
        Self(dev, PhantomData)
    }

    /// The speed of the network device. Context: may sleep. Takes the RTNL.
    pub(crate) fn ethernet_speed(&self) -> PortSpeed {
        let mut speed = PortSpeed::default();
        // SAFETY: The device is valid for the time of the call, and both results are.
        let result =
            unsafe { bindings::ib_get_eth_speed(self.0, 1, &mut speed.speed, &mut speed.width) };
        if result == 0 {
            speed
        } else {
            PortSpeed::default()
        }
    }
}
