// SPDX-License-Identifier: GPL-2.0

//! Objects that the verbs core allocates, with a pointer to the driver's own object behind them.

use crate::{
    bindings,
    kapi::base::module::task_number, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    sync::atomic::{
        AtomicUsize,
        Ordering, //
    },
};
use kernel::{
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// The C structure of an object with a pointer to the driver's.
///
/// The verbs core allocates it filled with zeros, and frees it after the object was destroyed or
/// could not be created.
///
/// # Invariants
///
/// `core` is null, or came from [`Arc::into_raw`] and carries a reference: from the end of a successful
/// creation to the destruction.
#[repr(C)]
pub(super) struct Shell<B, T> {
    /// First, as C knows the structure by the address of this field.
    base: B,
    core: *const T,
}

impl<B, T: Send + Sync> Shell<B, T> {
    /// Octets that the verbs core must allocate.
    pub(super) const SIZE: usize = {
        assert!(core::mem::offset_of!(Self, base) == 0);
        size_of::<Self>()
    };

    /// A structure filled with zeros, for the objects that the driver allocates itself.
    ///
    /// # Safety
    ///
    /// Zero must be valid for `B`.
    pub(super) unsafe fn with_core(core: Arc<T>) -> Self {
        // INVARIANT: The reference is the shell's.
        Self {
            // SAFETY: By this function's contract.
            base: unsafe { core::mem::zeroed() },
            core: Arc::into_raw(core),
        }
    }

    /// Gives the object its core.
    ///
    /// # Safety
    ///
    /// `raw` must be an object of [`Self::SIZE`] octets that is being created.
    pub(super) unsafe fn publish(raw: *mut B, core: Arc<T>) {
        // INVARIANT: The reference is the shell's.
        // SAFETY: By this function's contract.
        unsafe { (*raw.cast::<Self>()).core = Arc::into_raw(core) };
    }

    /// The core of an object.
    ///
    /// # Safety
    ///
    /// `raw` must be an object that was created with [`Self::publish`] or [`Self::with_core`], and must
    /// not be destroyed while the result is used.
    pub(super) unsafe fn core<'a>(raw: *mut B) -> CoreRef<'a, T> {
        // SAFETY: By this function's contract and the type invariants there is a reference, which
        // outlives the result. The result does not drop it.
        let core = unsafe { Arc::from_raw((*raw.cast::<Self>()).core) };
        CoreRef {
            core: ManuallyDrop::new(core),
            _object: PhantomData,
        }
    }

    /// Takes the core of an object that is being destroyed.
    ///
    /// # Safety
    ///
    /// As for [`Self::core`], once.
    pub(super) unsafe fn take(raw: *mut B) -> Arc<T> {
        let shell = raw.cast::<Self>();
        // INVARIANT: The core is null again.
        // SAFETY: By this function's contract and the type invariants.
        unsafe {
            let core = Arc::from_raw((*shell).core);
            (*shell).core = core::ptr::null();
            core
        }
    }
}

/// The core of an object that exists for the time of a call.
pub(super) struct CoreRef<'a, T: Send + Sync> {
    core: ManuallyDrop<Arc<T>>,
    _object: PhantomData<&'a ()>,
}

impl<T: Send + Sync> core::ops::Deref for CoreRef<'_, T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.core
    }
}

/// Guards the calls of handlers that belong to an object: after it is closed there are none
/// (RNIC-LIFE-02).
///
/// An object calls its handlers from one work item, so that one runs at a time.
pub(super) struct ObjectGate {
    /// The calls that run, and [`Self::CLOSED`].
    users: AtomicUsize,
    /// The task that the handler runs in, or 0. One in softirq runs in the task that it interrupts.
    inside: AtomicUsize,
}

impl ObjectGate {
    /// Set once no further call may begin; the other bits count the calls that run.
    const CLOSED: usize = 1 << (usize::BITS - 1);

    /// An open gate.
    pub(super) const fn new() -> Self {
        Self {
            users: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
        }
    }

    /// Runs `f` unless the gate is closed. Context: any.
    pub(super) fn enter(&self, f: impl FnOnce()) {
        // `Acquire` keeps the call behind it; `Release` below before it.
        let entered = self
            .users
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |users| {
                (users & Self::CLOSED == 0).then(|| users.wrapping_add(1))
            });
        if entered.is_ok() {
            // A task that reads the number of another one is not inside.
            self.inside.store(task_number(), Ordering::Relaxed);
            f();
            self.inside.store(0, Ordering::Relaxed);
            self.users.fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether the caller is a handler of the object. Context: any.
    pub(super) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed) == task_number()
    }

    /// Whether the object cannot be destroyed, as the end would wait for the caller: the caller is its
    /// handler, or one that `waits_for_caller` is about. Then the log gets a warning, and the gate is closed,
    /// as the program may free what its handler uses. Context: any.
    pub(super) fn refuses_end(&self, waits_for_caller: bool) -> bool {
        let inside = waits_for_caller || self.is_inside();
        if inside {
            self.users.fetch_or(Self::CLOSED, Ordering::Relaxed);
            // SAFETY: The helper has no preconditions.
            unsafe { bindings::rdma_sock_helper_warn_own_handler() };
        }
        inside
    }

    /// Closes the gate and waits for calls that run. Context: may sleep. The caller is none of them.
    pub(super) fn close(&self) {
        self.users.fetch_or(Self::CLOSED, Ordering::Relaxed);
        // The calls run in softirq and are short.
        while self.users.load(Ordering::Acquire) != Self::CLOSED {
            fsleep(Delta::from_micros(20));
        }
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_kapi_gate)]
mod tests {
    use super::*;
    use crate::kapi::base::work::{
        new_deferred,
        Deferred,
        Kicked,
        Run,
        WorkQueue, //
    };
    use core::sync::atomic::AtomicBool;
    use kernel::prelude::*;

    /// Calls a handler from a task of its own.
    #[pin_data]
    struct Caller {
        #[pin]
        work: Deferred<Caller>,
        gate: ObjectGate,
        began: AtomicBool,
        inside: AtomicBool,
        ended: AtomicBool,
    }

    impl Run<0> for Caller {
        fn run(this: Arc<Self>) {
            this.gate.enter(|| {
                this.inside.store(this.gate.is_inside(), Ordering::Relaxed);
                this.began.store(true, Ordering::Release);
                fsleep(Delta::from_millis(20));
                this.ended.store(true, Ordering::Release);
            });
        }
    }

    /// RNIC-LIFE-02, RNIC-EVT-02.
    #[test]
    fn closed_gate_has_waited_for_its_calls_and_lets_none_in() -> Result {
        let queue = WorkQueue::new(c"rdma_soft_test")?;
        let caller = Arc::pin_init(
            pin_init!(Caller {
                work <- new_deferred!("rdma_soft_test_caller"),
                gate: ObjectGate::new(),
                began: AtomicBool::new(false),
                inside: AtomicBool::new(false),
                ended: AtomicBool::new(false),
            }),
            GFP_KERNEL,
        )?;
        caller.work.kick(&caller, &queue);
        while !caller.began.load(Ordering::Acquire) {
            fsleep(Delta::from_micros(50));
        }
        // The handler knows itself, and no other task takes itself for it.
        assert!(caller.inside.load(Ordering::Relaxed));
        assert!(!caller.gate.refuses_end(false));
        caller.gate.close();
        assert!(caller.ended.load(Ordering::Acquire));
        let mut called = false;
        caller.gate.enter(|| called = true);
        assert!(!called);
        caller.work.cancel_sync();
        Ok(())
    }

    /// Calls a handler in softirq.
    #[pin_data]
    struct SoftirqCaller {
        #[pin]
        work: Deferred<SoftirqCaller>,
        gate: ObjectGate,
        inside: AtomicBool,
    }

    impl Run<0> for SoftirqCaller {
        fn run(this: Arc<Self>) {
            this.gate
                .enter(|| this.inside.store(this.gate.is_inside(), Ordering::Relaxed));
        }
    }

    /// RNIC-LIFE-02.
    #[test]
    fn handler_in_softirq_is_inside_and_the_interrupted_task_is_not() -> Result {
        let queue = WorkQueue::new_softirq(c"rdma_soft_test")?;
        let caller = Arc::pin_init(
            pin_init!(SoftirqCaller {
                work <- new_deferred!("rdma_soft_test_softirq_caller"),
                gate: ObjectGate::new(),
                inside: AtomicBool::new(false),
            }),
            GFP_KERNEL,
        )?;
        // It runs in this task, before this call returns.
        assert_eq!(caller.work.kick_here(&caller, &queue), Kicked::Here);
        assert!(caller.inside.load(Ordering::Relaxed));
        assert!(!caller.gate.is_inside());
        caller.gate.close();
        caller.work.cancel_sync();
        Ok(())
    }

    /// RNIC-LIFE-02.
    #[test]
    fn end_within_the_own_handler_is_refused_with_a_warning() {
        let gate = ObjectGate::new();
        // SAFETY: The helper has no preconditions.
        let warnings = unsafe { bindings::rdma_sock_helper_test_expect_warnings() };
        if warnings.is_null() {
            // The warning would count as a failure.
            return;
        }
        let mut refused = false;
        gate.enter(|| refused = gate.refuses_end(false));
        let outside = gate.refuses_end(false);
        let other = ObjectGate::new();
        refused = refused && other.refuses_end(true);
        // SAFETY: The pointer is that of the other helper.
        let count = unsafe { bindings::rdma_sock_helper_test_warnings(warnings) };
        assert!(refused && !outside);
        assert_eq!(count, 2);
        // No handler is called any longer, though the object is still there.
        let mut called = false;
        gate.enter(|| called = true);
        assert!(!called);
        // The next attempt succeeds.
        gate.close();
    }
}
