// SPDX-License-Identifier: GPL-2.0

//! Counters of a port, which `rdma statistic show` and the folder `hw_counters` list.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;
use core::{
    ffi::CStr,
    ptr::null, //
};

/// The description of a counter, as the verbs core keeps it.
#[repr(transparent)]
pub(crate) struct StatName(bindings::rdma_stat_desc);

// SAFETY: The description is constant: its text lives as long as the module, and it has no other
// pointer.
unsafe impl Sync for StatName {}

impl StatName {
    /// A counter of that name.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self(bindings::rdma_stat_desc {
            name: name.to_bytes_with_nul().as_ptr().cast(),
            flags: 0,
            priv_: null(),
        })
    }
}

/// Room for the values of all counters.
///
/// # Invariants
///
/// The pointer is a structure of the verbs core with a value for each counter of the device.
pub(crate) struct StatValues(*mut bindings::rdma_hw_stats);

impl StatValues {
    /// # Safety
    ///
    /// `stats` must be a structure that [`alloc`] made, as long as the result is used.
    pub(super) unsafe fn new(stats: *mut bindings::rdma_hw_stats) -> Self {
        // INVARIANT: By this function's contract.
        Self(stats)
    }

    /// Sets the value of the counter at an index; nothing happens if there is none.
    pub(crate) fn set(&mut self, index: u32, value: u64) {
        // SAFETY: By the type invariants. The helper checks the index.
        unsafe { bindings::rdma_sock_helper_stats_set(self.0, index, value) }
    }
}

/// Makes the structure with the values of counters; null without memory. Context: may sleep.
pub(super) fn alloc(names: &'static [StatName]) -> *mut bindings::rdma_hw_stats {
    let count = u32::try_from(names.len()).unwrap_or(0);
    // SAFETY: The descriptions are an array of that many, and outlive the device: they are constants of
    // the module, which waits for the device before it is unloaded.
    unsafe { bindings::rdma_sock_helper_stats_alloc(names.as_ptr().cast(), count) }
}
