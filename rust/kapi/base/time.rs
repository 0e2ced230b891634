// SPDX-License-Identifier: GPL-2.0

//! The clock that feeds the protocol core, and jiffies.
//!
//! C header: [`include/linux/jiffies.h`](srctree/include/linux/jiffies.h)

use crate::bindings;
use kernel::time::{
    delay::fsleep,
    Delta, //
};

/// Nanoseconds of the monotonic clock. Context: any.
pub(crate) fn now_ns() -> u64 {
    // SAFETY: Always safe to call.
    let now = unsafe { kernel::bindings::ktime_get() };
    now.unsigned_abs()
}

/// The same clock as of the last tick, which costs no more than reading memory. Context: any.
pub(crate) fn coarse_now_ns() -> u64 {
    // SAFETY: Always safe to call.
    let now = unsafe { bindings::rdma_sock_helper_ktime_get_coarse() };
    now.unsigned_abs()
}

/// Nanoseconds of the system clock since 1970. Context: any.
pub(crate) fn real_now_ns() -> u64 {
    // SAFETY: Always safe to call.
    unsafe { bindings::rdma_sock_helper_real_ns() }
}

/// Sleeps for some milliseconds. Context: may sleep.
pub(crate) fn sleep_ms(ms: u32) {
    fsleep(Delta::from_millis(ms.into()));
}

/// Converts nanoseconds to jiffies, rounded up by one so that a timer never fires early.
pub(crate) fn jiffies_from_ns(ns: u64) -> usize {
    // SAFETY: Always safe to call.
    let jiffies = unsafe { bindings::rdma_sock_helper_nsecs_to_jiffies(ns) };
    jiffies.saturating_add(1)
}
