// SPDX-License-Identifier: GPL-2.0

//! Completion queues of the verbs core without a device, for unit tests.

use super::{
    completion::{
        CqHandle,
        PolledCompletions, //
    },
    qp::QpToken,
};
use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    ffi,
    prelude::*,
    sync::Arc, //
};

/// The handlers of a completion queue.
pub(crate) trait CqObserver: Send + Sync + 'static {
    /// The handler of completions; `in_softirq` says whether it runs there.
    fn completed(&self, in_softirq: bool);

    /// The handler of events.
    fn overflowed(&self);
}

/// A completion queue of the verbs core.
///
/// # Invariants
///
/// `cq` is this object's own, and its context is the observer.
pub(super) struct TestCq<T: CqObserver> {
    cq: NonNull<bindings::ib_cq>,
    _observer: Arc<T>,
}

// SAFETY: The queue is only passed on to handlers, and the observer may be used anywhere.
unsafe impl<T: CqObserver> Send for TestCq<T> {}
// SAFETY: As above.
unsafe impl<T: CqObserver> Sync for TestCq<T> {}

impl<T: CqObserver> Drop for TestCq<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_test_cq_free(self.cq.as_ptr()) }
    }
}

/// What keeps a queue for tests.
pub(super) trait TestMemory: Send + Sync {}

impl<T: CqObserver> TestMemory for TestCq<T> {}

/// The handle of a new completion queue with these handlers. Context: may sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn handle_of_test<T: CqObserver>(observer: &Arc<T>) -> Result<CqHandle> {
    // SAFETY: The functions are for queues with such a context, which outlives the queue.
    let cq = unsafe {
        bindings::rdma_sock_helper_test_cq_alloc(
            Some(completed_raw::<T>),
            Some(overflowed_raw::<T>),
            Arc::as_ptr(observer).cast_mut().cast(),
        )
    };
    // INVARIANT: Just made.
    let memory = TestCq {
        cq: NonNull::new(cq).ok_or(ENOMEM)?,
        _observer: observer.clone(),
    };
    let memory: Arc<dyn TestMemory> = Arc::new(memory, GFP_KERNEL)?;
    // SAFETY: The handle keeps the queue.
    Ok(unsafe { CqHandle::of_test(NonNull::new(cq).ok_or(ENOMEM)?, memory) })
}

/// # Safety
///
/// Only for queues of [`handle_of_test`].
unsafe extern "C" fn completed_raw<T: CqObserver>(
    _cq: *mut bindings::ib_cq,
    context: *mut ffi::c_void,
) {
    // SAFETY: By this function's contract the observer lives as long as the queue.
    let observer = unsafe { &*context.cast::<T>() };
    // SAFETY: The helper has no preconditions.
    observer.completed(unsafe { bindings::rdma_sock_helper_test_in_softirq() });
}

/// # Safety
///
/// As for [`completed_raw`].
unsafe extern "C" fn overflowed_raw<T: CqObserver>(
    _event: *mut bindings::ib_event,
    context: *mut ffi::c_void,
) {
    // SAFETY: By this function's contract the observer lives as long as the queue.
    unsafe { &*context.cast::<T>() }.overflowed();
}

/// The number of the next completion, if `poll` gives one, and whether it is a success.
pub(crate) fn poll_one(poll: impl FnOnce(&mut PolledCompletions)) -> Option<(u64, bool)> {
    // SAFETY: All fields are numbers or pointers.
    let mut wc: bindings::ib_wc = unsafe { core::mem::zeroed() };
    // SAFETY: There is room for one structure.
    let mut polled = unsafe { PolledCompletions::new(&mut wc, 1) };
    poll(&mut polled);
    if polled.used() == 0 {
        return None;
    }
    // SAFETY: Programs of the kernel may use either field, and this module fills in the number.
    let id = unsafe { *wc.__bindgen_anon_1.wr_id };
    Some((id, wc.status == bindings::ib_wc_status_IB_WC_SUCCESS))
}

impl QpToken {
    /// That of no queue pair.
    pub(crate) const fn of_test() -> Self {
        Self::new(core::ptr::null_mut())
    }
}
