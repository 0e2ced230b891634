// SPDX-License-Identifier: GPL-2.0

//! Network namespaces.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use crate::bindings;
use core::ptr::NonNull;
use kernel::bindings as kb;

/// A reference to a network namespace, which lives as long as there is one.
///
/// # Invariants
///
/// The pointer is valid and this object owns a reference.
pub(crate) struct NetRef(NonNull<kb::net>);

// SAFETY: References to namespaces may be used and dropped anywhere.
unsafe impl Send for NetRef {}
// SAFETY: As above.
unsafe impl Sync for NetRef {}

impl NetRef {
    /// # Safety
    ///
    /// `net` must be a namespace that somebody holds a reference to.
    pub(super) unsafe fn get(net: *mut kb::net) -> Self {
        // SAFETY: By this function's contract.
        unsafe { bindings::rdma_sock_helper_get_net(net) };
        // INVARIANT: The reference was just taken. `sock_net()` is never null.
        // SAFETY: As above.
        Self(unsafe { NonNull::new_unchecked(net) })
    }

    /// The pointer for C.
    pub(in crate::kapi) fn as_raw(&self) -> *mut kb::net {
        self.0.as_ptr()
    }

    /// The number that tells namespaces apart.
    pub(crate) fn cookie(&self) -> u64 {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_net_cookie(self.as_raw()) }
    }
}

impl Clone for NetRef {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariants there is a reference.
        unsafe { Self::get(self.as_raw()) }
    }
}

impl PartialEq for NetRef {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for NetRef {}

impl Drop for NetRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_put_net(self.as_raw()) }
    }
}
