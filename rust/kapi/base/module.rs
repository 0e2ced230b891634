// SPDX-License-Identifier: GPL-2.0

//! References to this module, random numbers, the running task, and the name of the host.
//!
//! C headers: [`include/linux/module.h`](srctree/include/linux/module.h),
//! [`include/linux/random.h`](srctree/include/linux/random.h)

use crate::bindings;

/// Keeps the module loaded. For objects whose callbacks outlive the file they belong to.
pub(crate) struct ModuleRef(());

impl ModuleRef {
    /// Takes a reference; `None` while the module is going away. Context: any.
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

/// Room for the name of a host, with the nul behind it.
const HOST_BYTES: usize = 65;

/// Runs `f` with the name of the host, for people. Context: any.
pub(crate) fn with_hostname<R>(f: impl FnOnce(&[u8]) -> R) -> R {
    let mut name = [0_u8; HOST_BYTES];
    // SAFETY: The name is valid for writes of its length, all of which ends in a nul.
    unsafe { bindings::rdma_sock_helper_hostname(name.as_mut_ptr().cast(), name.len()) };
    f(name.split(|octet| *octet == 0).next().unwrap_or_default())
}

/// A number that no other task has while this one runs, and that is not 0. In softirq it is that of the task
/// that was interrupted. Context: any.
#[cfg(RDMA_SOFT)]
pub(crate) fn task_number() -> usize {
    kernel::task::Task::current_raw().addr()
}

/// The parameter of rdma_soft that says whether packets of this host leave out the network. A user may change it
/// at any time. Context: any.
#[cfg(RDMA_SOFT)]
pub(crate) fn is_direct() -> bool {
    // SAFETY: Always safe to call.
    unsafe { bindings::rdma_sock_helper_param_direct() }
}

/// Whether this task exits: it gets no signal, so nothing ends a wait of it early.
/// Context: may sleep.
pub(crate) fn is_exiting() -> bool {
    // SAFETY: Always safe to call. Only in process context the result is about the caller's task.
    unsafe { bindings::rdma_sock_helper_is_exiting() }
}

/// A random number, good enough for tokens and sequence numbers. Context: any.
pub(crate) fn random_u32() -> u32 {
    // SAFETY: Always safe to call.
    unsafe { bindings::rdma_sock_helper_random_u32() }
}
