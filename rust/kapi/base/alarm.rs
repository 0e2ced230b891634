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

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_alarm)]
mod tests {
    use super::*;
    use crate::kapi::base::time::now_ns;
    use core::sync::atomic::{
        AtomicU32,
        AtomicU64, //
    };
    use kernel::time::{
        delay::fsleep,
        Delta, //
    };

    const MICROSECOND: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    /// Notes when its timer expires, and counts itself out.
    #[pin_data(PinnedDrop)]
    struct Sleeper {
        #[pin]
        alarm: Alarm<Sleeper>,
        expiries: AtomicU32,
        at: AtomicU64,
        gone: Arc<AtomicU32>,
    }

    impl Sleeper {
        fn new(gone: &Arc<AtomicU32>) -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    alarm <- Alarm::new(),
                    expiries: AtomicU32::new(0),
                    at: AtomicU64::new(0),
                    gone: gone.clone(),
                }),
                GFP_KERNEL,
            )
        }

        fn expiries(&self) -> u32 {
            self.expiries.load(Ordering::Acquire)
        }
    }

    impl Expire for Sleeper {
        fn expired(self: &Arc<Self>) {
            self.at.store(now_ns(), Ordering::Relaxed);
            self.expiries.fetch_add(1, Ordering::Release);
        }
    }

    #[pinned_drop]
    impl PinnedDrop for Sleeper {
        fn drop(self: Pin<&mut Self>) {
            self.gone.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// RNIC-FLOW-06: a timer of jiffies would take one of them at least.
    #[test]
    fn wait_of_microseconds_takes_no_jiffy() -> Result {
        let gone = Arc::new(AtomicU32::new(0), GFP_KERNEL)?;
        let sleeper = Sleeper::new(&gone)?;
        let mut least = u64::MAX;
        for round in 0..200 {
            let begin = now_ns();
            sleeper.alarm.arm(&sleeper, 10 * MICROSECOND);
            while sleeper.expiries() == round {
                assert!(now_ns() - begin < 10 * SECOND);
                core::hint::spin_loop();
            }
            let took = sleeper.at.load(Ordering::Relaxed) - begin;
            assert!(took >= 10 * MICROSECOND);
            least = least.min(took);
        }
        assert!(least < 500 * MICROSECOND);
        Ok(())
    }

    /// RNIC-TMO-06.
    #[test]
    fn timer_that_was_cancelled_neither_expires_nor_keeps_its_owner() -> Result {
        let gone = Arc::new(AtomicU32::new(0), GFP_KERNEL)?;
        for round in 0..500_u32 {
            let sleeper = Sleeper::new(&gone)?;
            // Some have expired, some are just about to, and some are late.
            let delay = MICROSECOND * u64::from(round % 50);
            let delay = if round % 10 == 0 { SECOND } else { delay };
            sleeper.alarm.arm(&sleeper, delay);
            if round % 3 == 0 {
                fsleep(Delta::from_micros(20));
            }
            sleeper.alarm.cancel_sync();
            let expiries = sleeper.expiries();
            assert!(expiries <= 1);
            if round % 20 == 0 {
                fsleep(Delta::from_micros(100));
                assert_eq!(sleeper.expiries(), expiries);
            }
            drop(sleeper);
            assert_eq!(gone.load(Ordering::Relaxed), round + 1);
        }
        Ok(())
    }
}
