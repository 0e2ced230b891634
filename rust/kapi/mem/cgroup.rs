// SPDX-License-Identifier: GPL-2.0

//! Memory cgroups, which are charged for memory.
//!
//! Work items of the kernel belong to no cgroup, so memory that they allocate for a socket is
//! charged to the cgroup of the socket by name.
//!
//! C header: [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h)

use crate::bindings;
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::page::PAGE_SIZE;

/// A reference to a memory cgroup, or the root, which has no limit. Context: any.
///
/// # Invariants
///
/// A pointer that is there is valid, and this object owns a reference.
pub(crate) struct MemCgroup(Option<NonNull<bindings::mem_cgroup>>);

// SAFETY: References to cgroups are counted atomically and may be used and dropped anywhere.
unsafe impl Send for MemCgroup {}
// SAFETY: As above.
unsafe impl Sync for MemCgroup {}

impl MemCgroup {
    /// The root.
    pub(crate) const ROOT: Self = Self(None);

    /// Takes over a reference; null is the root.
    ///
    /// # Safety
    ///
    /// If `raw` is not null it must be a memory cgroup, and the caller must own a reference to it,
    /// which it gives up.
    pub(in crate::kapi) unsafe fn from_raw(raw: *mut bindings::mem_cgroup) -> Self {
        // INVARIANT: By this function's contract.
        Self(NonNull::new(raw))
    }

    /// Whether it is the root.
    pub(crate) fn is_root(&self) -> bool {
        self.0.is_none()
    }

    /// The limit in octets: the least of this cgroup and of those that it is in.
    pub(crate) fn limit(&self) -> u64 {
        // SAFETY: By the type invariants the cgroup is valid, or null. It keeps those it is in.
        let pages = unsafe { bindings::rdma_sock_helper_memcg_limit(self.as_raw()) };
        u64::try_from(pages.saturating_mul(PAGE_SIZE)).unwrap_or(u64::MAX)
    }

    /// The pointer for C, null for the root.
    pub(super) fn as_raw(&self) -> *mut bindings::mem_cgroup {
        self.0.map_or(null_mut(), NonNull::as_ptr)
    }
}

impl Clone for MemCgroup {
    fn clone(&self) -> Self {
        if let Some(raw) = self.0 {
            // SAFETY: By the type invariants the cgroup is valid, and there is a reference.
            unsafe { bindings::rdma_sock_helper_memcg_get(raw.as_ptr()) }
        }
        // INVARIANT: The reference was just taken.
        Self(self.0)
    }
}

impl PartialEq for MemCgroup {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for MemCgroup {}

impl Drop for MemCgroup {
    fn drop(&mut self) {
        if let Some(raw) = self.0 {
            // SAFETY: By the type invariants the reference is owned.
            unsafe { bindings::rdma_sock_helper_memcg_put(raw.as_ptr()) }
        }
    }
}
