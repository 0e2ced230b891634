// SPDX-License-Identifier: GPL-2.0

//! Addresses of memory, as programs name them to devices.
//!
//! Without a device for DMA, the verbs core maps memory by its addresses in the kernel. A
//! [`DmaDevice`], for tests, has the kernel map memory as for an adapter: bounced where it is told so,
//! and of use only between the calls that map and unmap it.
//!
//! C header: [`include/linux/dma-direct.h`](srctree/include/linux/dma-direct.h)

use crate::bindings;
use core::{
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// The device that memory is mapped for; null where addresses are those of the kernel.
static MAPPED_FOR: AtomicPtr<bindings::device> = AtomicPtr::new(null_mut());

/// A device for DMA. All devices that are registered while there is one map memory for it.
///
/// # Invariants
///
/// The pointer is a platform device that this object owns, and `MAPPED_FOR` is its device.
pub(crate) struct DmaDevice(NonNull<bindings::platform_device>);

// SAFETY: The device may be removed by any task.
unsafe impl Send for DmaDevice {}
// SAFETY: The object is only dropped.
unsafe impl Sync for DmaDevice {}

impl DmaDevice {
    /// Makes the device. Dropped only when no device of the module is left. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a kernel without DMA, `EBUSY` if there is one, `ENOMEM`.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        if !MAPPED_FOR.load(Ordering::Acquire).is_null() {
            return Err(EBUSY);
        }
        // SAFETY: The name is a nul-terminated string.
        let raw = unsafe { bindings::rdma_sock_helper_dma_device_new(name.as_char_ptr()) };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // SAFETY: The device was just made.
        let device = unsafe { bindings::rdma_sock_helper_dma_device(raw.as_ptr()) };
        // INVARIANT: Modules are loaded and unloaded one at a time.
        MAPPED_FOR.store(device, Ordering::Release);
        Ok(Self(raw))
    }
}

impl Drop for DmaDevice {
    fn drop(&mut self) {
        MAPPED_FOR.store(null_mut(), Ordering::Release);
        // SAFETY: By the type invariants the device is ours; nothing maps memory for it any longer.
        unsafe { bindings::rdma_sock_helper_dma_device_free(self.0.as_ptr()) }
    }
}

/// The device that the verbs core maps memory for, or null.
pub(super) fn mapped_for() -> *mut bindings::device {
    MAPPED_FOR.load(Ordering::Acquire)
}

/// The address in the kernel of memory that a program names; `None` if there is no memory. Only the
/// program knows whether it has mapped the memory. Context: any.
pub(super) fn to_kernel(addr: u64, len: u64) -> Option<u64> {
    let device = mapped_for();
    if device.is_null() || len == 0 {
        return Some(addr);
    }
    // SAFETY: The device is there as long as programs can name memory to devices of the module. The
    // function looks at no memory.
    let found = unsafe { bindings::rdma_sock_helper_dma_to_kernel(device, addr, len) };
    (found != 0).then_some(found)
}
