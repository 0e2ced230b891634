// SPDX-License-Identifier: GPL-2.0

//! Timers of microseconds, which run in softirq.
//!
//! C header: [`include/linux/hrtimer.h`](srctree/include/linux/hrtimer.h)

use super::sync::is_part_of;
use crate::kapi::compat::enums::HRTIMER_NORESTART;
use core::{
    marker::PhantomData,
    ptr::null_mut,
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};
use kernel::{
    bindings,
    container_of,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

const CLOCK: bindings::clockid_t = bindings::CLOCK_MONOTONIC as bindings::clockid_t;

/// What an [`Alarm`] does.
pub(crate) trait Expire: Send + Sync + 'static {
    /// The timer expired. Context: softirq.
    fn expired(self: &Arc<Self>);
}

/// A timer embedded in the object it is for, which it keeps alive while it is armed.
///
/// # Invariants
///
/// `owner` is null, or came from [`Arc::into_raw`], and that reference belongs to the timer: the
/// timer is armed, or the caller of [`Self::arm`] that set it is about to arm it.
#[pin_data]
pub(crate) struct Alarm<T: Expire> {
    #[pin]
    timer: Opaque<bindings::hrtimer>,
    owner: AtomicPtr<T>,
    _owner: PhantomData<fn(T)>,
}

// SAFETY: Timers may be started from any thread, and `T` is `Send` and `Sync`.
unsafe impl<T: Expire> Send for Alarm<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: Expire> Sync for Alarm<T> {}

impl<T: Expire> Alarm<T> {
    /// A timer that is not armed.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            timer <- Opaque::ffi_init(|slot: *mut bindings::hrtimer| {
                // SAFETY: `slot` is valid for writes while the closure runs, and `expired_raw` is a
                // function for exactly this field.
                unsafe {
                    bindings::hrtimer_setup(
                        slot,
                        Some(Self::expired_raw),
                        CLOCK,
                        bindings::hrtimer_mode_HRTIMER_MODE_REL_SOFT,
                    )
                }
            }),
            owner: AtomicPtr::new(null_mut()),
            _owner: PhantomData,
        })
    }

    /// Arms the timer to expire in `delay` nanoseconds, unless it is armed. Context: any.
    ///
    /// `owner` must be the object this timer is a field of.
    pub(crate) fn arm(&self, owner: &Arc<T>, delay: u64) {
        // The common case, on the send path of each small write.
        if !self.owner.load(Ordering::Relaxed).is_null() {
            return;
        }
        // Outside of its owner it could be freed while it is armed.
        assert!(is_part_of(self, owner));

        let raw = Arc::into_raw(owner.clone()).cast_mut();
        // INVARIANT: The reference is for the timer that is armed below. `Release` pairs with the
        // swap in `expired_raw`.
        let taken =
            self.owner
                .compare_exchange(null_mut(), raw, Ordering::Release, Ordering::Relaxed);
        if taken.is_err() {
            // SAFETY: This is the reference made above, which was not stored.
            drop(unsafe { Arc::from_raw(raw) });
            return;
        }
        let delay = i64::try_from(delay).unwrap_or(i64::MAX);
        // SAFETY: The timer was set up by `new`, and stays valid while it is armed by the reference
        // it has. Only the caller that set `owner` starts the timer, so two never do at a time.
        unsafe {
            bindings::hrtimer_start_range_ns(
                self.timer.get(),
                delay,
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_REL_SOFT,
            )
        };
    }

    /// Arms the timer to expire in `delay` nanoseconds, also if it is armed for another time.
    /// Context: softirq.
    ///
    /// Not for two callers at a time. If the timer just expires, it is not armed again, and the caller
    /// learns of that by the expiry.
    #[cfg(RDMA_SOFT)]
    pub(crate) fn rearm(&self, owner: &Arc<T>, delay: u64) {
        self.disarm();
        self.arm(owner, delay);
    }

    /// Disarms the timer, without a wait for an expiry that runs. Context: softirq. The caller has a
    /// reference to the owner.
    #[cfg(RDMA_SOFT)]
    pub(crate) fn disarm(&self) {
        // SAFETY: The timer was set up by `new`.
        if unsafe { bindings::hrtimer_try_to_cancel(self.timer.get()) } == 1 {
            // INVARIANT: The timer was armed and is not any longer, so its reference is ours.
            let raw = self.owner.swap(null_mut(), Ordering::Acquire);
            // SAFETY: By the type invariants an armed timer has a reference.
            drop(unsafe { Arc::from_raw(raw) });
        }
    }

    /// Disarms the timer and waits for an expiry that runs. Nothing may arm it meanwhile.
    /// Context: may sleep.
    #[cfg(RDMA_SOFT)]
    pub(crate) fn cancel_sync(&self) {
        // SAFETY: The timer was set up by `new`.
        if unsafe { bindings::hrtimer_cancel(self.timer.get()) } == 1 {
            // INVARIANT: As in `disarm`.
            let raw = self.owner.swap(null_mut(), Ordering::Acquire);
            // SAFETY: By the type invariants an armed timer has a reference.
            drop(unsafe { Arc::from_raw(raw) });
        }
    }

    /// # Safety
    ///
    /// Only for the timer code, with the `timer` field of an `Alarm` of this type.
    unsafe extern "C" fn expired_raw(timer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        // SAFETY: `timer` is the field of an `Alarm`, because only `new` installs this function.
        // `Opaque` is transparent.
        let this = unsafe { &*container_of!(Opaque::cast_from(timer), Self, timer) };
        // INVARIANT: The reference is ours now. A caller that arms the timer from here on requeues
        // it while this callback still runs, which the timer code allows.
        let raw = this.owner.swap(null_mut(), Ordering::Acquire);
        // SAFETY: By the type invariants an armed timer has a reference.
        let owner = unsafe { Arc::from_raw(raw) };
        T::expired(&owner);
        // May be the last reference. After `HRTIMER_NORESTART` the timer code does not touch the
        // timer.
        drop(owner);
        HRTIMER_NORESTART
    }
}
