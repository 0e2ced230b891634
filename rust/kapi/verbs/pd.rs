// SPDX-License-Identifier: GPL-2.0

//! A protection domain: what may use what on a device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::device::{
    Device,
    Lease, //
};
use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::Arc, //
};

/// A protection domain. The last reference must be dropped where sleeping is allowed.
///
/// # Invariants
///
/// `raw` is a protection domain of the leased device, owned by this object.
pub(crate) struct Pd {
    raw: NonNull<bindings::ib_pd>,
    lease: Lease,
}

// SAFETY: Protection domains may be used from any thread.
unsafe impl Send for Pd {}
// SAFETY: As for `Send`.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates a protection domain. Sleeps.
    pub(crate) fn new(dev: &Arc<Device>) -> Result<Arc<Self>> {
        let lease = dev.lease()?;
        // SAFETY: The driver is there.
        let raw = from_err_ptr(unsafe { bindings::rdma_sock_helper_ib_alloc_pd(lease.as_raw()) })?;
        // INVARIANT: Just allocated, and handed to nobody else.
        let this = Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            lease,
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        self.lease.device()
    }

    /// The lease of the device.
    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The C object.
    pub(super) fn as_raw(&self) -> *mut bindings::ib_pd {
        self.raw.as_ptr()
    }

    /// The key by which the device may access all mapped memory for our own requests.
    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: Valid by the type invariants; reads a field.
        unsafe { bindings::rdma_sock_helper_ib_pd_local_dma_lkey(self.as_raw()) }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: By the type invariants it is ours. Everything made in it held a reference.
        unsafe { bindings::rdma_sock_helper_ib_dealloc_pd(self.as_raw()) };
    }
}
