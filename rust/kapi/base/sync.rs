// SPDX-License-Identifier: GPL-2.0

//! Locks and global objects that the kernel crate does not offer.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)

use crate::bindings;
use core::{
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};
use kernel::sync::{
    lock::{
        Backend,
        Lock, //
    },
    rcu,
    Arc, //
};

/// A spinlock that is taken with bottom halves off.
///
/// For data shared between process context and the completion handlers, which run in softirq.
pub(crate) type SpinLockBh<T> = Lock<T, SpinLockBhBackend>;

/// Creates a [`SpinLockBh`] initialiser with a lock class of its own.
macro_rules! new_spinlock_bh {
    ($inner:expr, $name:literal $(,)?) => {
        $crate::kapi::base::sync::SpinLockBh::new(
            $inner,
            ::kernel::optional_name!($name),
            ::kernel::static_lock_class!(),
        )
    };
}
pub(crate) use new_spinlock_bh;

/// The lock operations of [`SpinLockBh`].
pub(crate) struct SpinLockBhBackend;

// SAFETY: The underlying `spinlock_t` ensures mutual exclusion; `relock` is the default, which
// takes the lock in the same way.
unsafe impl Backend for SpinLockBhBackend {
    type State = kernel::bindings::spinlock_t;
    type GuardState = ();

    #[inline]
    unsafe fn init(
        ptr: *mut Self::State,
        name: *const kernel::ffi::c_char,
        key: *mut kernel::bindings::lock_class_key,
    ) {
        // SAFETY: By this function's contract `ptr` is valid for writes, and `name` and `key` are
        // valid indefinitely.
        unsafe { kernel::bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: By this function's contract `ptr` is valid and initialised.
        unsafe { bindings::rdma_sock_helper_spin_lock_bh(ptr.cast()) }
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, _guard_state: &Self::GuardState) {
        // SAFETY: By this function's contract the caller holds the lock at `ptr`.
        unsafe { bindings::rdma_sock_helper_spin_unlock_bh(ptr.cast()) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        // SAFETY: By this function's contract `ptr` is valid and initialised.
        (unsafe { bindings::rdma_sock_helper_spin_trylock_bh(ptr.cast()) } != 0).then_some(())
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: By this function's contract `ptr` is valid and initialised.
        unsafe { bindings::rdma_sock_helper_assert_spin_locked(ptr.cast()) }
    }
}

/// Waits until all read sections of RCU that began before are over. Context: may sleep.
#[cfg(RDMA_SOFT)]
pub(crate) fn wait_for_readers() {
    // SAFETY: The caller may sleep, as the documentation demands.
    unsafe { bindings::rdma_sock_helper_synchronize_rcu() }
}

/// A global slot for an object that callbacks without a context of their own must find.
///
/// # Invariants
///
/// The pointer is null or came from [`Arc::into_raw`] and carries one reference.
pub(crate) struct Global<T>(AtomicPtr<T>);

impl<T: Send + Sync> Global<T> {
    /// An empty slot.
    pub(crate) const fn new() -> Self {
        // INVARIANT: The pointer is null.
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Publishes `value`. An object published before is released like in [`Self::clear`].
    ///
    /// Context: may sleep.
    pub(crate) fn set(&self, value: Arc<T>) {
        // INVARIANT: The new pointer carries the reference given by the caller. `Release` pairs
        // with the `Acquire` in `get`.
        let old = self
            .0
            .swap(Arc::into_raw(value).cast_mut(), Ordering::AcqRel);
        self.release(old);
    }

    /// Returns a reference to the published object, if there is one. Context: any.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        let _guard = rcu::read_lock();
        // `Acquire` pairs with the swap in `set`.
        let raw = self.0.load(Ordering::Acquire);
        if raw.is_null() {
            return None;
        }
        // SAFETY: By the type invariants `raw` came from `Arc::into_raw`. The reference it carries
        // is only dropped after a grace period from its removal, and this read section began
        // before that.
        let borrowed = unsafe { kernel::sync::ArcBorrow::from_raw(raw) };
        Some(Arc::from(borrowed))
    }

    /// Empties the slot. No caller of [`Self::get`] finds the object afterwards.
    /// Context: may sleep.
    pub(crate) fn clear(&self) {
        // INVARIANT: The pointer is null.
        let old = self.0.swap(ptr::null_mut(), Ordering::AcqRel);
        self.release(old);
    }

    fn release(&self, old: *mut T) {
        if old.is_null() {
            return;
        }
        // SAFETY: Called in process context without locks, as the callers document.
        unsafe { bindings::rdma_sock_helper_synchronize_rcu() };
        // SAFETY: By the type invariants `old` came from `Arc::into_raw` and its reference is now
        // ours alone: the pointer was swapped out and all readers are gone.
        drop(unsafe { Arc::from_raw(old) });
    }
}

/// Whether an object lies in another.
pub(crate) fn is_part_of<F, T>(field: &F, owner: &Arc<T>) -> bool {
    let base = Arc::as_ptr(owner) as usize;
    let field = ptr::from_ref(field) as usize;
    field >= base && field - base < core::mem::size_of::<T>()
}
