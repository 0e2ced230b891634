// SPDX-License-Identifier: GPL-2.0

//! References to this module, and random numbers.
//!
//! C headers: [`include/linux/module.h`](srctree/include/linux/module.h),
//! [`include/linux/random.h`](srctree/include/linux/random.h)

use crate::bindings;

/// Keeps the module loaded. For objects whose callbacks outlive the file they belong to.
pub(crate) struct ModuleRef(());

impl ModuleRef {
    /// Takes a reference; `None` while the module is going away. Any context.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: Always safe to call.
        unsafe { bindings::rdma_sock_helper_module_get() }.then_some(Self(()))
    }
}

impl Drop for ModuleRef {
    fn drop(&mut self) {
        // SAFETY: This object stands for one reference taken in `new`. The code that runs this
        // drop is on the module's workqueue or in a call whose file holds another reference, so
        // the text stays until it has returned.
        unsafe { bindings::rdma_sock_helper_module_put() }
    }
}

/// A random number, good enough for tokens and sequence numbers. Any context.
pub(crate) fn random_u32() -> u32 {
    // SAFETY: Always safe to call.
    unsafe { bindings::rdma_sock_helper_random_u32() }
}
