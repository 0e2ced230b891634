// SPDX-License-Identifier: GPL-2.0

//! A workqueue and the work items that run on it, at once or at a deadline.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use super::sync::is_part_of;
use crate::bindings;
#[cfg(RDMA_SOFT)]
use core::sync::atomic::AtomicU32;
use core::{
    marker::PhantomData,
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        fence,
        AtomicBool,
        AtomicPtr,
        Ordering, //
    },
};
#[cfg(RDMA_SOFT)]
use kernel::time::{
    delay::fsleep,
    Delta, //
};
use kernel::{
    container_of,
    prelude::*,
    sync::{
        Arc,
        LockClassKey, //
    },
    types::Opaque, //
};

/// A workqueue of the module's own, so that unloading can wait for it.
///
/// Every [`Deferred`] that was queued on it keeps it, as the timer of an armed one needs it, and
/// destroying a workqueue does not wait for timers. The last of these must be dropped where
/// sleeping is allowed, and not by a work item of the queue, which would wait for itself: the owner
/// of the queue should outlive all objects with work items.
#[derive(Clone)]
pub(crate) struct WorkQueue(Arc<RawQueue>);

/// The C object of a [`WorkQueue`].
///
/// # Invariants
///
/// The pointer is a workqueue owned by this object.
struct RawQueue {
    raw: NonNull<kernel::bindings::workqueue_struct>,
    /// Work items run in softirq.
    #[cfg(RDMA_SOFT)]
    is_softirq: bool,
}

// SAFETY: Work queues may be used from any thread.
unsafe impl Send for RawQueue {}
// SAFETY: Work queues may be used from any thread.
unsafe impl Sync for RawQueue {}

impl WorkQueue {
    /// Creates an unbound workqueue. Context: may sleep.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        // SAFETY: `name` is a nul-terminated string that lives forever.
        let raw = unsafe { bindings::rdma_sock_helper_alloc_workqueue(name.as_char_ptr()) };
        // SAFETY: The workqueue was just created, and nothing else has the pointer.
        unsafe { Self::own(raw, false) }
    }

    /// Creates an unbound workqueue whose work items run one after the other. Context: may sleep.
    #[cfg(RDMA_SOFT)]
    pub(crate) fn new_ordered(name: &'static CStr) -> Result<Self> {
        // SAFETY: As in `new`.
        let raw = unsafe { bindings::rdma_sock_helper_alloc_ordered_workqueue(name.as_char_ptr()) };
        // SAFETY: As in `new`.
        unsafe { Self::own(raw, false) }
    }

    /// Creates a workqueue whose work items run in softirq, on the processor that queued them.
    /// Context: may sleep.
    ///
    /// A work item of it must not sleep, unlike [`Run::run`] says.
    #[cfg(RDMA_SOFT)]
    pub(crate) fn new_softirq(name: &'static CStr) -> Result<Self> {
        // SAFETY: As in `new`.
        let raw = unsafe { bindings::rdma_sock_helper_alloc_bh_workqueue(name.as_char_ptr()) };
        // SAFETY: As in `new`.
        unsafe { Self::own(raw, true) }
    }

    /// Becomes the owner of a workqueue; `ENOMEM` for none. Context: may sleep.
    ///
    /// # Safety
    ///
    /// `raw` must be null, or a workqueue that nothing else owns.
    unsafe fn own(
        raw: *mut bindings::workqueue_struct,
        #[cfg_attr(not(RDMA_SOFT), expect(unused_variables))] is_softirq: bool,
    ) -> Result<Self> {
        // INVARIANT: The caller gives the workqueue away.
        let queue = RawQueue {
            raw: NonNull::new(raw.cast()).ok_or(ENOMEM)?,
            #[cfg(RDMA_SOFT)]
            is_softirq,
        };
        Ok(Self(Arc::new(queue, GFP_KERNEL)?))
    }

    /// Waits until everything queued before the call has run. Context: may sleep.
    pub(crate) fn flush(&self) {
        // SAFETY: By the type invariants the workqueue is valid.
        unsafe { bindings::__flush_workqueue(self.0.raw.as_ptr().cast()) }
    }
}

impl Drop for RawQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the workqueue is ours. It drains before it is freed, and
        // no timer will queue on it: work items whose timer is armed hold a reference.
        unsafe { bindings::destroy_workqueue(self.raw.as_ptr().cast()) }
    }
}

/// How long a waiter for a work item of softirq sleeps before it looks again.
#[cfg(RDMA_SOFT)]
const SOFTIRQ_POLL: Delta = Delta::from_micros(20);

/// What a [`Deferred`] runs.
///
/// `ID` distinguishes several work items of one object.
pub(crate) trait Run<const ID: u64>: Send + Sync + 'static {
    /// Runs in process context and may sleep. Never runs twice at the same time.
    fn run(this: Arc<Self>);
}

/// When a work item of softirq runs that was kicked.
#[cfg(RDMA_SOFT)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kicked {
    /// It has run.
    Here,
    /// Behind the handler, the lock or the softirq that kicked it.
    Later,
    /// As a part of ksoftirqd, which the kernel wakes as interrupts are off and softirqs are not.
    Woke,
}

/// A work item embedded in the object it works on, which it keeps alive while it is queued.
///
/// # Invariants
///
/// - While the work is pending, `owner` came from [`Arc::into_raw`] and that reference belongs to
///   the pending work.
/// - `queue` is null, or came from [`Arc::into_raw`] with a reference of this object's own. It changes
///   once. The work is only ever queued there.
#[pin_data(PinnedDrop)]
pub(crate) struct Deferred<T: Run<ID>, const ID: u64 = 0> {
    #[pin]
    dwork: Opaque<kernel::bindings::delayed_work>,
    owner: AtomicPtr<T>,
    /// Where it runs, from the first time on.
    queue: AtomicPtr<RawQueue>,
    /// The work was kicked, and has not begun to run since.
    kicked: AtomicBool,
    /// Runs that have begun; wraps.
    #[cfg(RDMA_SOFT)]
    begun: AtomicU32,
    _owner: PhantomData<fn(T)>,
}

// SAFETY: Work items may be queued from any thread, and `T` is `Send` and `Sync`.
unsafe impl<T: Run<ID>, const ID: u64> Send for Deferred<T, ID> {}
// SAFETY: Work items may be queued from any thread, and `T` is `Send` and `Sync`.
unsafe impl<T: Run<ID>, const ID: u64> Sync for Deferred<T, ID> {}

/// Creates a [`Deferred`] initialiser with lock classes of its own: other ones for a work item that runs in softirq
/// by the second argument than for one that runs in tasks.
macro_rules! new_deferred {
    ($name:literal, $softirq:expr $(,)?) => {
        $crate::kapi::base::work::Deferred::new(
            ::kernel::optional_name!($name),
            if $softirq {
                ::kernel::static_lock_class!()
            } else {
                ::kernel::static_lock_class!()
            },
            ::kernel::static_lock_class!(),
        )
    };
    ($name:literal $(,)?) => {
        $crate::kapi::base::work::Deferred::new(
            ::kernel::optional_name!($name),
            ::kernel::static_lock_class!(),
            ::kernel::static_lock_class!(),
        )
    };
}
pub(crate) use new_deferred;

impl<T: Run<ID>, const ID: u64> Deferred<T, ID> {
    /// Creates a work item that is not queued. Use [`new_deferred!`].
    pub(crate) fn new(
        name: &'static CStr,
        work_key: Pin<&'static LockClassKey>,
        timer_key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            dwork <- Opaque::ffi_init(|slot: *mut kernel::bindings::delayed_work| {
                // SAFETY: `slot` is valid for writes while the closure runs, and `run_raw` is a
                // work function for exactly this field.
                unsafe {
                    kernel::bindings::init_work_with_key(
                        &raw mut (*slot).work,
                        Some(Self::run_raw),
                        false,
                        name.as_char_ptr(),
                        work_key.as_ptr(),
                    )
                }
                // SAFETY: `slot` is valid, and the timer is only used through the delayed work it
                // is embedded in.
                unsafe {
                    kernel::bindings::timer_init_key(
                        &raw mut (*slot).timer,
                        Some(kernel::bindings::delayed_work_timer_fn),
                        kernel::bindings::TIMER_IRQSAFE,
                        name.as_char_ptr(),
                        timer_key.as_ptr(),
                    )
                }
            }),
            owner: AtomicPtr::new(null_mut()),
            queue: AtomicPtr::new(null_mut()),
            kicked: AtomicBool::new(false),
            #[cfg(RDMA_SOFT)]
            begun: AtomicU32::new(0),
            _owner: PhantomData,
        })
    }

    /// Runs the work as soon as possible, also when it was armed for later. Context: any.
    ///
    /// `owner` must be the object this work item is a field of, and `queue` the same each time.
    pub(crate) fn kick(&self, owner: &Arc<T>, queue: &WorkQueue) {
        // `Release` pairs with the swap in `run_raw`: a run that takes this kick's mark away sees
        // what it is about. So the run of an earlier kick that is queued is that of this one as well.
        // One that is not queued yet may wait for a task that has no processor.
        let was_kicked = self.kicked.swap(true, Ordering::AcqRel);
        // The mark is there before the look at the queue, as a run leaves the queue before it takes
        // the mark away.
        fence(Ordering::SeqCst);
        if !was_kicked || !self.is_due() {
            self.queue(owner, queue, 0);
        }
    }

    /// Like [`Self::kick`], on a queue whose work items run in softirq. Where the caller is a task with
    /// interrupts and softirqs on, the work runs before this returns, without a task switch, unless
    /// another processor has it already.
    /// Context: any.
    #[cfg(RDMA_SOFT)]
    pub(crate) fn kick_here(&self, owner: &Arc<T>, queue: &WorkQueue) -> Kicked {
        // SAFETY: The helper has no preconditions.
        let off = unsafe { bindings::rdma_sock_helper_softirqs_off() };
        self.kick(owner, queue);
        if off {
            // SAFETY: The helper above has turned softirqs off, in this context.
            unsafe { bindings::rdma_sock_helper_softirqs_on() };
            return Kicked::Here;
        }
        // SAFETY: The helper has no preconditions.
        if unsafe { bindings::rdma_sock_helper_softirqs_wake() } {
            Kicked::Woke
        } else {
            Kicked::Later
        }
    }

    /// (Re)arms the work to run `delay` jiffies from now, replacing an earlier time, but not a
    /// kick. Context: any.
    ///
    /// As for [`Self::kick`], the work item keeps the queue.
    pub(crate) fn arm(&self, owner: &Arc<T>, queue: &WorkQueue, delay: usize) {
        self.queue(owner, queue, delay);
        // A caller that kicked before the call above has set the mark before it.
        fence(Ordering::SeqCst);
        if self.kicked.load(Ordering::Acquire) {
            // The kick may just have been put off.
            self.queue(owner, queue, 0);
        }
    }

    fn queue(&self, owner: &Arc<T>, queue: &WorkQueue, delay: usize) {
        // Outside of its owner it could be freed while it is queued.
        assert!(is_part_of(self, owner));

        let queue = self.keep(queue);
        let raw = Arc::into_raw(owner.clone()).cast_mut();
        // The value is the same every time; `Release` pairs with the load in `take_owner`.
        self.owner.store(raw, Ordering::Release);
        // SAFETY: The work was initialised by `new`, the queue is valid by its invariants, and
        // both stay valid while the work is pending: the work by the reference just taken, and the
        // queue by that of the work item.
        let was_pending = unsafe {
            bindings::rdma_sock_helper_mod_delayed_work(
                queue.raw.as_ptr().cast(),
                self.dwork.get().cast(),
                delay,
            )
        };
        if was_pending {
            // The pending work has its reference already.
            // SAFETY: This is the reference made above, which the pending work did not take.
            drop(unsafe { Arc::from_raw(raw) });
        }
        // INVARIANT: The pending work now owns exactly one reference.
    }

    /// Takes a reference to the queue, unless there is one, and returns the queue of this work
    /// item.
    fn keep(&self, queue: &WorkQueue) -> &RawQueue {
        let mut kept = self.queue.load(Ordering::Acquire);
        if kept.is_null() {
            let raw = Arc::into_raw(queue.0.clone()).cast_mut();
            // INVARIANT: The reference is the work item's from here on. `Release` pairs with
            // `Acquire` above and here, for what was made before the queue was handed over.
            kept = match self.queue.compare_exchange(
                null_mut(),
                raw,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => raw,
                Err(other) => {
                    // SAFETY: This is the reference made above, which was not handed over.
                    drop(unsafe { Arc::from_raw(raw) });
                    other
                }
            };
        }
        debug_assert!(core::ptr::eq(kept, Arc::as_ptr(&queue.0)));
        // SAFETY: By the type invariants the work item has a reference, and keeps it until it is
        // dropped.
        unsafe { &*kept }
    }

    /// Takes the work off its queue without waiting for one that runs already. Context: any.
    pub(crate) fn cancel(&self) {
        // SAFETY: The work was initialised by `new`.
        let was_pending = unsafe { bindings::cancel_delayed_work(self.dwork.get().cast()) };
        if was_pending {
            // The next kick queues the work again.
            self.kicked.store(false, Ordering::Release);
            // SAFETY: By the type invariants the work that was pending owned a reference, which
            // is ours now.
            drop(unsafe { self.take_owner() });
        }
    }

    /// Takes the work off its queue and waits for one that runs. Context: may sleep.
    ///
    /// A caller that queues it meanwhile, and the run that is waited for, must leave nothing to do.
    pub(crate) fn cancel_sync(&self) {
        // `cancel_delayed_work_sync` refuses what is queued while it waits, without an error for
        // the caller that queues: the reference that comes with it would leak.
        self.cancel();
        self.wait();
        // The run that has ended may have armed the timer.
        self.cancel();
    }

    /// Waits until the work that was queued before has run. Not for the work item itself.
    /// Context: may sleep.
    #[cfg(RDMA_SOFT)]
    pub(crate) fn flush(&self) {
        self.wait();
    }

    /// Waits until the work that was queued to run at once, or runs, has run. Context: may sleep.
    fn wait(&self) {
        #[cfg(RDMA_SOFT)]
        {
            let queue = self.queue.load(Ordering::Acquire);
            // SAFETY: By the type invariants the work item has a reference, and keeps it until it
            // is dropped.
            if !queue.is_null() && unsafe { (*queue).is_softirq } {
                self.await_softirq();
                return;
            }
        }
        // SAFETY: The work was initialised by `new`; the caller's borrow keeps it.
        unsafe { kernel::bindings::flush_work(&raw mut (*self.dwork.get()).work) };
    }

    /// Like [`Self::wait`], for a work item of softirq. Context: may sleep.
    ///
    /// `flush_work` warns if a work item of a queue with `WQ_MEM_RECLAIM` waits for one of a queue
    /// without, and a queue whose work items run in softirq cannot have that flag. Such a work item
    /// needs no memory and no task to make progress, and is done soon.
    #[cfg(RDMA_SOFT)]
    fn await_softirq(&self) {
        let begun = || self.begun.load(Ordering::Acquire);
        // Until the run that is due has begun.
        let before = begun();
        while self.is_due() && begun() == before {
            fsleep(SOFTIRQ_POLL);
        }
        // Until that run has ended: it does not run twice at the same time. It may not have counted
        // itself yet, so that only the second run from here on is another one.
        let before = begun();
        while self.is_running() && begun().wrapping_sub(before) < 2 {
            fsleep(SOFTIRQ_POLL);
        }
    }

    /// Whether the work is queued, and not for later. Context: any.
    fn is_due(&self) -> bool {
        // SAFETY: The work was initialised by `new`; the caller's borrow keeps it.
        unsafe { bindings::rdma_sock_helper_work_due(self.dwork.get().cast()) }
    }

    /// Whether the work runs. Context: any.
    #[cfg(RDMA_SOFT)]
    fn is_running(&self) -> bool {
        // SAFETY: The work was initialised by `new`; the caller's borrow keeps it.
        unsafe { bindings::rdma_sock_helper_work_running(self.dwork.get().cast()) }
    }

    /// # Safety
    ///
    /// The caller must have become the owner of the reference of a pending work.
    unsafe fn take_owner(&self) -> Arc<T> {
        // SAFETY: By the type invariants, `owner` holds a pointer from `Arc::into_raw`.
        unsafe { Arc::from_raw(self.owner.load(Ordering::Acquire)) }
    }

    /// # Safety
    ///
    /// Only for the workqueue code, with the `work` field of a `Deferred` of this type.
    unsafe extern "C" fn run_raw(work: *mut kernel::bindings::work_struct) {
        // SAFETY: `work` is the `work` field of the `delayed_work` of a `Deferred`, because only
        // `new` installs this function. `Opaque` is transparent.
        let this = unsafe {
            let dwork = container_of!(work, kernel::bindings::delayed_work, work);
            &*container_of!(Opaque::cast_from(dwork), Self, dwork)
        };
        // SAFETY: The work was pending until now and its reference passes to us.
        let owner = unsafe { this.take_owner() };
        this.kicked.swap(false, Ordering::AcqRel);
        // `Release` pairs with the loads in `await_softirq`.
        #[cfg(RDMA_SOFT)]
        this.begun.fetch_add(1, Ordering::Release);
        T::run(owner);
    }
}

#[pinned_drop]
impl<T: Run<ID>, const ID: u64> PinnedDrop for Deferred<T, ID> {
    fn drop(self: Pin<&mut Self>) {
        let queue = self.queue.load(Ordering::Acquire);
        if !queue.is_null() {
            // SAFETY: By the type invariants this is the work item's own reference. The work is not
            // pending, as it keeps its owner.
            drop(unsafe { Arc::from_raw(queue) });
        }
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_kapi_work)]
mod tests {
    use super::*;
    use kernel::{
        new_condvar,
        new_spinlock,
        sync::{
            CondVar,
            CondVarTimeoutResult,
            SpinLock, //
        },
        time::msecs_to_jiffies, //
    };

    /// Longest wait for a run.
    const PATIENCE_MS: u32 = 20_000;

    /// Counts its runs; refers to no queue itself.
    #[pin_data]
    struct Counter {
        #[pin]
        work: Deferred<Counter>,
        #[pin]
        runs: SpinLock<u32>,
        #[pin]
        changed: CondVar,
    }

    impl Counter {
        fn new() -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    work <- new_deferred!("rdma_sock_test_work"),
                    runs <- new_spinlock!(0, "rdma_sock_test_runs"),
                    changed <- new_condvar!("rdma_sock_test_ran"),
                }),
                GFP_KERNEL,
            )
        }

        /// Waits until it has run as often as that, and is idle.
        fn wait(&self, wanted: u32) -> Result {
            let mut left = msecs_to_jiffies(PATIENCE_MS);
            let mut runs = self.runs.lock();
            while *runs < wanted {
                match self.changed.wait_interruptible_timeout(&mut runs, left) {
                    CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
                    CondVarTimeoutResult::Timeout => return Err(ETIMEDOUT),
                    CondVarTimeoutResult::Signal { .. } => return Err(EINTR),
                }
            }
            drop(runs);
            self.work.cancel_sync();
            Ok(())
        }
    }

    impl Run<0> for Counter {
        fn run(this: Arc<Self>) {
            *this.runs.lock() += 1;
            this.changed.notify_all();
        }
    }

    #[test]
    fn work_that_is_armed_keeps_its_queue() -> Result {
        let counter = Counter::new()?;
        let queue = WorkQueue::new(c"rdma_sock_test")?;
        counter.work.arm(&counter, &queue, msecs_to_jiffies(50));
        drop(queue);
        counter.wait(1)
    }

    #[test]
    fn work_that_was_cancelled_does_not_run() -> Result {
        let (counter, other) = (Counter::new()?, Counter::new()?);
        let queue = WorkQueue::new(c"rdma_sock_test")?;
        counter.work.arm(&counter, &queue, msecs_to_jiffies(10));
        counter.work.cancel();
        other.work.arm(&other, &queue, msecs_to_jiffies(50));
        other.wait(1)?;
        assert_eq!(*counter.runs.lock(), 0);
        counter
            .work
            .arm(&counter, &queue, msecs_to_jiffies(PATIENCE_MS));
        counter.work.kick(&counter, &queue);
        counter.wait(1)?;
        assert_eq!(*counter.runs.lock(), 1);
        Ok(())
    }

    /// Notes which kick its last run has seen.
    #[pin_data]
    struct Gate {
        #[pin]
        work: Deferred<Gate>,
        /// The highest number that a kick was about, and the one that a run saw.
        #[pin]
        numbers: SpinLock<(u32, u32)>,
    }

    impl Run<0> for Gate {
        fn run(this: Arc<Self>) {
            let mut numbers = this.numbers.lock();
            numbers.1 = numbers.0;
        }
    }

    #[test]
    fn kicks_of_cancelled_and_of_queued_work_are_all_seen() -> Result {
        let gate = Arc::pin_init(
            pin_init!(Gate {
                work <- new_deferred!("rdma_sock_test_work"),
                numbers <- new_spinlock!((0, 0), "rdma_sock_test_numbers"),
            }),
            GFP_KERNEL,
        )?;
        let queue = WorkQueue::new(c"rdma_sock_test")?;
        for number in 1..2000 {
            gate.numbers.lock().0 = number;
            gate.work.kick(&gate, &queue);
            if number % 7 == 0 {
                // Whether it has run or not, the next kick is as good as the first.
                gate.work.cancel();
            } else if number % 50 == 1 {
                queue.flush();
                assert_eq!(gate.numbers.lock().1, number);
            }
        }
        gate.work.cancel_sync();
        Ok(())
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_work)]
mod softirq_tests {
    use super::*;
    use crate::kapi::{
        base::sync::new_spinlock_bh,
        compat::new_spinlock_irq, //
    };

    /// Counts its runs in softirq.
    #[pin_data]
    struct SoftirqCounter {
        #[pin]
        work: Deferred<SoftirqCounter>,
        runs: AtomicU32,
    }

    impl SoftirqCounter {
        fn new() -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    work <- new_deferred!("rdma_sock_test_work"),
                    runs: AtomicU32::new(0),
                }),
                GFP_KERNEL,
            )
        }
    }

    impl Run<0> for SoftirqCounter {
        fn run(this: Arc<Self>) {
            this.runs.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// RNIC-RUN-03.
    #[test]
    fn softirq_work_runs_before_its_kick_returns() -> Result {
        let queue = WorkQueue::new_softirq(c"rdma_sock_test")?;
        let counter = SoftirqCounter::new()?;
        for runs in 1..50 {
            assert_eq!(counter.work.kick_here(&counter, &queue), Kicked::Here);
            assert_eq!(counter.runs.load(Ordering::Relaxed), runs);
        }
        counter.work.cancel_sync();
        Ok(())
    }

    /// RNIC-RUN-03, RNIC-STAT-01: with softirqs off, and with interrupts off.
    #[test]
    fn softirq_work_runs_behind_the_locks_of_its_kick() -> Result {
        let queue = WorkQueue::new_softirq(c"rdma_sock_test")?;
        let counter = SoftirqCounter::new()?;
        let bh = KBox::pin_init(new_spinlock_bh!((), "rdma_sock_test_bh"), GFP_KERNEL)?;
        let irq = KBox::pin_init(new_spinlock_irq!((), "rdma_sock_test_irq"), GFP_KERNEL)?;
        for round in 0..20 {
            let guard = bh.lock();
            assert_eq!(counter.work.kick_here(&counter, &queue), Kicked::Later);
            assert_eq!(counter.runs.load(Ordering::Relaxed), 2 * round);
            drop(guard);
            counter.work.flush();
            assert_eq!(counter.runs.load(Ordering::Relaxed), 2 * round + 1);
            let guard = irq.lock();
            assert_eq!(counter.work.kick_here(&counter, &queue), Kicked::Woke);
            assert_eq!(counter.runs.load(Ordering::Relaxed), 2 * round + 1);
            drop(guard);
            counter.work.flush();
            assert_eq!(counter.runs.load(Ordering::Relaxed), 2 * round + 2);
        }
        Ok(())
    }

    /// Takes all news that were left for it with each run.
    #[pin_data]
    struct Actor {
        #[pin]
        work: Deferred<Actor>,
        news: AtomicU32,
        taken: AtomicU32,
        runs_now: AtomicU32,
        /// Runs that began while another one was under way.
        overlaps: AtomicU32,
    }

    impl Actor {
        /// Leaves news.
        fn tell(self: &Arc<Self>, queue: &WorkQueue) {
            self.news.fetch_add(1, Ordering::Relaxed);
            self.work.kick_here(self, queue);
        }
    }

    impl Run<0> for Actor {
        fn run(this: Arc<Self>) {
            let others = this.runs_now.fetch_add(1, Ordering::AcqRel);
            this.overlaps.fetch_add(others, Ordering::Relaxed);
            let news = this.news.swap(0, Ordering::AcqRel);
            this.taken.fetch_add(news, Ordering::Relaxed);
            this.runs_now.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Leaves news from a task of its own.
    #[pin_data]
    struct Teller {
        #[pin]
        work: Deferred<Teller>,
        actor: Arc<Actor>,
        queue: Arc<WorkQueue>,
    }

    /// News of each task.
    const NEWS: u32 = 20_000;

    impl Run<0> for Teller {
        fn run(this: Arc<Self>) {
            for _ in 0..NEWS {
                this.actor.tell(&this.queue);
            }
        }
    }

    /// Kicks work of softirq where it stays queued for a while, and waits for it.
    #[pin_data]
    struct Waiter {
        #[pin]
        work: Deferred<Waiter>,
        counter: Arc<SoftirqCounter>,
        queue: Arc<WorkQueue>,
        /// Waits that returned before the work had run.
        early: AtomicU32,
    }

    /// Waits of a [`Waiter`].
    const WAITS: u32 = 500;

    impl Run<0> for Waiter {
        fn run(this: Arc<Self>) {
            for wait in 1..=WAITS {
                this.counter.work.kick(&this.counter, &this.queue);
                this.counter.work.flush();
                if this.counter.runs.load(Ordering::Relaxed) < wait {
                    this.early.fetch_add(1, Ordering::Relaxed);
                }
            }
            this.counter.work.kick(&this.counter, &this.queue);
            this.counter.work.cancel_sync();
        }
    }

    /// Storage ends its queue pairs in such work items. The kernel warns if one of them waits for a queue
    /// that may need memory to make progress.
    #[test]
    fn work_that_frees_memory_waits_for_softirq_without_a_warning() -> Result {
        let tasks = WorkQueue::new_ordered(c"rdma_sock_test_tasks")?;
        let queue = Arc::new(WorkQueue::new_softirq(c"rdma_sock_test")?, GFP_KERNEL)?;
        let counter = SoftirqCounter::new()?;
        let waiter = Arc::pin_init(
            pin_init!(Waiter {
                work <- new_deferred!("rdma_sock_test_waiter"),
                counter,
                queue,
                early: AtomicU32::new(0),
            }),
            GFP_KERNEL,
        )?;
        waiter.work.kick(&waiter, &tasks);
        waiter.work.flush();
        assert_eq!(waiter.early.load(Ordering::Relaxed), 0);
        assert!(waiter.counter.runs.load(Ordering::Relaxed) >= WAITS);
        Ok(())
    }

    /// RNIC-RUN-01.
    #[test]
    fn news_of_two_tasks_are_taken_by_one_run_at_a_time() -> Result {
        let tasks = WorkQueue::new(c"rdma_sock_test_tasks")?;
        let queue = Arc::new(WorkQueue::new_softirq(c"rdma_sock_test")?, GFP_KERNEL)?;
        let actor = Arc::pin_init(
            pin_init!(Actor {
                work <- new_deferred!("rdma_sock_test_work"),
                news: AtomicU32::new(0),
                taken: AtomicU32::new(0),
                runs_now: AtomicU32::new(0),
                overlaps: AtomicU32::new(0),
            }),
            GFP_KERNEL,
        )?;
        let (other, shared) = (actor.clone(), queue.clone());
        let teller = Arc::pin_init(
            pin_init!(Teller {
                work <- new_deferred!("rdma_sock_test_teller"),
                actor: other,
                queue: shared,
            }),
            GFP_KERNEL,
        )?;
        teller.work.kick(&teller, &tasks);
        for _ in 0..NEWS {
            actor.tell(&queue);
        }
        tasks.flush();
        actor.work.flush();
        assert_eq!(actor.taken.load(Ordering::Relaxed), 2 * NEWS);
        assert_eq!(actor.overlaps.load(Ordering::Relaxed), 0);
        Ok(())
    }

    /// Two work items of one object, each of which kicks both while it runs.
    #[pin_data]
    struct Nested {
        #[pin]
        first: Deferred<Nested>,
        #[pin]
        second: Deferred<Nested, 1>,
        queue: Arc<WorkQueue>,
        runs: [AtomicU32; 2],
        depth: AtomicU32,
        /// Runs that began within another one.
        inner: AtomicU32,
    }

    /// Runs that kick.
    const ROUNDS: u32 = 100;

    impl Nested {
        fn step(self: &Arc<Self>, number: usize) {
            let around = self.depth.fetch_add(1, Ordering::Relaxed);
            self.inner.fetch_add(around, Ordering::Relaxed);
            let runs = &self.runs[number];
            if runs.fetch_add(1, Ordering::Relaxed) < ROUNDS {
                self.first.kick_here(self, &self.queue);
                self.second.kick_here(self, &self.queue);
            }
            self.depth.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl Run<0> for Nested {
        fn run(this: Arc<Self>) {
            this.step(0);
        }
    }

    impl Run<1> for Nested {
        fn run(this: Arc<Self>) {
            this.step(1);
        }
    }

    /// RNIC-RUN-06.
    #[test]
    fn work_that_a_run_kicks_runs_behind_it() -> Result {
        let queue = Arc::new(WorkQueue::new_softirq(c"rdma_sock_test")?, GFP_KERNEL)?;
        let shared = queue.clone();
        let nested = Arc::pin_init(
            pin_init!(Nested {
                first <- new_deferred!("rdma_sock_test_first"),
                second <- new_deferred!("rdma_sock_test_second"),
                queue: shared,
                runs: [const { AtomicU32::new(0) }; 2],
                depth: AtomicU32::new(0),
                inner: AtomicU32::new(0),
            }),
            GFP_KERNEL,
        )?;
        nested.first.kick_here(&nested, &queue);
        while nested
            .runs
            .iter()
            .any(|runs| runs.load(Ordering::Relaxed) <= ROUNDS)
        {
            nested.first.flush();
            nested.second.flush();
        }
        nested.first.cancel_sync();
        nested.second.cancel_sync();
        assert_eq!(nested.inner.load(Ordering::Relaxed), 0);
        Ok(())
    }
}
