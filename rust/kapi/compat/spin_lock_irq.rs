// SPDX-License-Identifier: GPL-2.0

//! Spinlocks that are taken with interrupts off.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)

#[cfg(kernel_has = "spin_lock_irq")]
pub(crate) use kernel::{
    new_spinlock_irq,
    sync::SpinLockIrq, //
};

#[cfg(not(kernel_has = "spin_lock_irq"))]
mod own {
    use crate::bindings;
    use kernel::{
        ffi,
        sync::lock::{
            Backend,
            Lock, //
        },
    };

    /// A spinlock that is taken with interrupts off.
    ///
    /// Guards must be dropped in the opposite order of their creation, because each restores the
    /// state of interrupts that it found.
    pub(crate) type SpinLockIrq<T> = Lock<T, SpinLockIrqBackend>;

    /// Creates a [`SpinLockIrq`] initialiser with a lock class of its own.
    macro_rules! new_spinlock_irq {
        ($inner:expr, $name:literal $(,)?) => {
            $crate::kapi::compat::SpinLockIrq::new(
                $inner,
                ::kernel::optional_name!($name),
                ::kernel::static_lock_class!(),
            )
        };
    }
    pub(crate) use new_spinlock_irq;

    /// The lock operations of [`SpinLockIrq`].
    pub(crate) struct SpinLockIrqBackend;

    // SAFETY: The underlying `spinlock_t` ensures mutual exclusion; `relock` is the default, which
    // takes the lock in the same way.
    unsafe impl Backend for SpinLockIrqBackend {
        type State = kernel::bindings::spinlock_t;
        /// The state of interrupts before the lock was taken.
        type GuardState = ffi::c_ulong;

        #[inline]
        unsafe fn init(
            ptr: *mut Self::State,
            name: *const ffi::c_char,
            key: *mut kernel::bindings::lock_class_key,
        ) {
            // SAFETY: By this function's contract `ptr` is valid for writes, and `name` and `key`
            // are valid indefinitely.
            unsafe { kernel::bindings::__spin_lock_init(ptr, name, key) }
        }

        #[inline]
        unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
            // SAFETY: By this function's contract `ptr` is valid and initialised.
            unsafe { bindings::rdma_sock_helper_spin_lock_irqsave(ptr.cast()) }
        }

        #[inline]
        unsafe fn unlock(ptr: *mut Self::State, guard_state: &Self::GuardState) {
            // SAFETY: By this function's contract the caller holds the lock at `ptr`, and the state
            // is the one that taking it returned.
            unsafe { bindings::rdma_sock_helper_spin_unlock_irqrestore(ptr.cast(), *guard_state) }
        }

        #[inline]
        unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
            let mut state = 0;
            // SAFETY: By this function's contract `ptr` is valid and initialised.
            unsafe { bindings::rdma_sock_helper_spin_trylock_irqsave(ptr.cast(), &mut state) }
                .then_some(state)
        }

        #[inline]
        unsafe fn assert_is_held(ptr: *mut Self::State) {
            // SAFETY: By this function's contract `ptr` is valid and initialised.
            unsafe { bindings::rdma_sock_helper_assert_spin_locked(ptr.cast()) }
        }
    }
}

#[cfg(not(kernel_has = "spin_lock_irq"))]
pub(crate) use self::own::{
    new_spinlock_irq,
    SpinLockIrq, //
};
