// SPDX-License-Identifier: GPL-2.0

//! A completion queue, polled in softirq.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::pd::Pd;
use crate::bindings;
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::{
    error::from_err_ptr,
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

/// A completion queue. The last reference must be dropped where sleeping is allowed; on return no
/// handler runs any more.
///
/// # Invariants
///
/// `raw` is a completion queue of the device of `pd`, owned by this object.
pub(super) struct Cq {
    raw: NonNull<bindings::ib_cq>,
    _pd: Arc<Pd>,
}

// SAFETY: Completion queues may be used from any thread.
unsafe impl Send for Cq {}
// SAFETY: As for `Send`.
unsafe impl Sync for Cq {}

impl Cq {
    /// Allocates a queue for `entries` completions, on one of the device's vectors in turn. Sleeps.
    pub(super) fn new(pd: &Arc<Pd>, entries: u32) -> Result<Arc<Self>> {
        Self::with_context(pd, entries, bindings::ib_poll_context_IB_POLL_SOFTIRQ)
    }

    /// Allocates a queue that its user polls. Sleeps.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) fn polled(pd: &Arc<Pd>, entries: u32) -> Result<Arc<Self>> {
        Self::with_context(pd, entries, bindings::ib_poll_context_IB_POLL_DIRECT)
    }

    fn with_context(
        pd: &Arc<Pd>,
        entries: u32,
        context: bindings::ib_poll_context,
    ) -> Result<Arc<Self>> {
        let entries = c_int::try_from(entries).map_err(|_| EINVAL)?;
        // SAFETY: The driver is there: the protection domain has a lease.
        let raw = from_err_ptr(unsafe {
            bindings::rdma_sock_helper_ib_alloc_cq_any(
                pd.lease().as_raw(),
                null_mut(),
                entries,
                context,
            )
        })?;
        // INVARIANT: Just allocated, and handed to nobody else.
        let this = Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            _pd: pd.clone(),
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// The C object.
    pub(super) fn as_raw(&self) -> *mut bindings::ib_cq {
        self.raw.as_ptr()
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: By the type invariants it is ours. Queue pairs on it held a reference, so there is
        // none left.
        unsafe { bindings::ib_free_cq(self.as_raw()) };
    }
}
