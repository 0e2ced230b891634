// SPDX-License-Identifier: GPL-2.0

//! Waiting for something to happen to a socket.
//!
//! C header: [`include/linux/wait.h`](srctree/include/linux/wait.h)

use super::{
    sock::SockGuard,
    socket::Socket, //
};
use crate::{
    bindings,
    kapi::base::time::now_ns, //
};
use kernel::{
    bindings as kb,
    prelude::*,
    types::Opaque, //
};

/// `TASK_INTERRUPTIBLE`.
const INTERRUPTIBLE: u32 = 1;

/// One sleep on the wait queue of a socket. On drop the entry leaves the queue.
///
/// # Invariants
///
/// `entry` is on the queue `head`, and neither moves.
struct Waiter {
    entry: Opaque<kb::wait_queue_entry>,
    head: *mut kb::wait_queue_head,
}

impl Waiter {
    /// Runs `f` with the current task on the queue of `socket`.
    fn with<R>(socket: &Socket, exclusive: bool, f: impl FnOnce(&Waiter) -> R) -> R {
        let waiter = Waiter {
            entry: Opaque::zeroed(),
            // SAFETY: The socket is valid.
            head: unsafe { &raw mut (*socket.as_raw()).wq.wait },
        };
        // SAFETY: The entry stays where it is until `waiter` is dropped, which takes it off the
        // queue again; the queue is the socket's, which outlives this call.
        unsafe {
            bindings::rdma_sock_helper_init_wait_func(
                waiter.entry.get().cast(),
                Some(kb::woken_wake_function),
            );
            if exclusive {
                kb::add_wait_queue_exclusive(waiter.head, waiter.entry.get());
            } else {
                kb::add_wait_queue(waiter.head, waiter.entry.get());
            }
        }
        f(&waiter)
    }

    /// Sleeps until woken, at most `timeo` jiffies; returns what is left of them.
    fn sleep(&self, timeo: isize) -> isize {
        // SAFETY: By the type invariants the entry is on a queue, of the current task.
        unsafe { kb::wait_woken(self.entry.get(), INTERRUPTIBLE, timeo) }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { kb::remove_wait_queue(self.head, self.entry.get()) }
    }
}

/// What a wait that did not succeed ends with.
fn interrupted(timeo: isize) -> Option<Error> {
    // SAFETY: Always safe to call in process context.
    let pending = unsafe { bindings::rdma_sock_helper_signal_pending() };
    // SAFETY: Always safe to call.
    pending.then(|| Error::from_errno(unsafe { bindings::rdma_sock_helper_intr_errno(timeo) }))
}

impl Socket {
    /// Waits until `cond` is true, at most `timeo` jiffies, of which those used are subtracted.
    ///
    /// Fails with `EAGAIN` after the time, or as a call that a signal interrupts. The caller must
    /// not hold the lock of the sock; `cond` may sleep. Context: may sleep.
    pub(crate) fn wait(&self, timeo: &mut isize, cond: impl FnMut() -> bool) -> Result {
        self.wait_as(false, timeo, cond)
    }

    /// Like [`Self::wait`], but one wake of readers wakes only one such waiter.
    pub(crate) fn wait_exclusive(&self, timeo: &mut isize, cond: impl FnMut() -> bool) -> Result {
        let result = self.wait_as(true, timeo, cond);
        if result.is_err() {
            // This waiter may have eaten a wake meant for another.
            // SAFETY: The queue is the socket's.
            unsafe {
                bindings::rdma_sock_helper_wake_one((&raw mut (*self.as_raw()).wq.wait).cast())
            }
        }
        result
    }

    fn wait_as(
        &self,
        exclusive: bool,
        timeo: &mut isize,
        mut cond: impl FnMut() -> bool,
    ) -> Result {
        if cond() {
            return Ok(());
        }
        Waiter::with(self, exclusive, |waiter| loop {
            if cond() {
                return Ok(());
            }
            if *timeo == 0 {
                return Err(EAGAIN);
            }
            if let Some(err) = interrupted(*timeo) {
                return Err(err);
            }
            *timeo = waiter.sleep(*timeo);
        })
    }

    /// Like [`Self::wait`] with the sock locked: the lock is released while sleeping, and `cond`
    /// runs with it.
    pub(crate) fn wait_unlocking(
        &self,
        guard: &mut SockGuard<'_>,
        timeo: &mut isize,
        mut cond: impl FnMut(&SockGuard<'_>) -> bool,
    ) -> Result {
        Waiter::with(self, false, |waiter| loop {
            if cond(guard) {
                return Ok(());
            }
            if *timeo == 0 {
                return Err(EAGAIN);
            }
            if let Some(err) = interrupted(*timeo) {
                return Err(err);
            }
            *timeo = guard.unlocked(|| waiter.sleep(*timeo));
        })
    }

    /// Looks for `cond` again and again, with the lock released, for `limit` nanoseconds at most. Ends
    /// earlier if another task wants the processor, or for a signal. Returns whether `cond` became true.
    /// `cond` may sleep. Context: may sleep.
    pub(crate) fn spin(
        &self,
        guard: &mut SockGuard<'_>,
        limit: u64,
        mut cond: impl FnMut() -> bool,
    ) -> bool {
        let end = now_ns().saturating_add(limit);
        guard.unlocked(|| loop {
            if cond() {
                return true;
            }
            // SAFETY: Always safe to call.
            let is_alone = unsafe { bindings::rdma_sock_helper_is_alone() };
            // SAFETY: This is process context.
            let is_signalled = unsafe { bindings::rdma_sock_helper_signal_pending() };
            if !is_alone || is_signalled || now_ns() >= end {
                return false;
            }
        })
    }

    /// Looks for `cond` again and again for as long as the socket wants that (SO_BUSY_POLL), which
    /// saves the time to be woken; without the option not even once. Ends earlier for a signal. The
    /// caller holds no lock. Context: may sleep.
    pub(crate) fn busy_wait(&self, mut cond: impl FnMut() -> bool) {
        let sk = self.sk().as_raw();
        // SAFETY: By the type invariants the sock is valid.
        if !unsafe { bindings::rdma_sock_helper_can_busy_loop(sk) } {
            return;
        }
        // SAFETY: Always safe to call.
        let start = unsafe { bindings::rdma_sock_helper_busy_loop_start() };
        while !cond() {
            // SAFETY: The sock is valid.
            if unsafe { bindings::rdma_sock_helper_busy_loop_end(sk, start) } {
                break;
            }
            // Another runnable task goes first, now and not at the end of the time slice: it may be
            // the driver that completes the request. SAFETY: Always safe to call.
            if !unsafe { bindings::rdma_sock_helper_is_alone() } {
                // SAFETY: This is process context, and no lock is held.
                unsafe { kb::yield_() };
            }
        }
    }
}
