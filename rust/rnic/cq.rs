// SPDX-License-Identifier: GPL-2.0

//! Completion queues (RNIC-CQ).
//!
//! A completion is added under the lock of the ring; the handler of the program runs from a work item
//! in softirq, without any lock (RNIC-CQ-07).
//!
//! With a late profile, completions of a queue stay hidden until a timer of random length has expired, or
//! there are many. So they show up in batches, and queues overtake each other.

use super::{
    completions::{
        Completions,
        UserCompletions, //
    },
    runtime::Runtime, //
};
use crate::{
    kapi::{
        base::{
            alarm::{
                Alarm,
                Expire, //
            },
            module::random_u32,
            work::{
                new_deferred,
                Deferred,
                Run, //
            },
        },
        compat::{
            new_spinlock_irq,
            SpinLockIrq, //
        },
        ibdev::{
            Completion,
            CompletionStatus,
            CqHandle,
            IbCqOps,
            NewRing,
            PolledCompletions,
            QpToken,
            UserRing, //
        },
    },
    proto::base::verbs::Qpn,
};
use core::mem::take;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// Hidden completions that show up together, at most.
const BATCH: u32 = 16;

/// Least and most nanoseconds that a completion stays hidden.
const HIDDEN: (u32, u32) = (20_000, 400_000);

/// A completion for a queue.
#[derive(Clone, Copy)]
pub(super) struct NewCompletion {
    pub(super) completion: Completion,
    /// Whether its receiver asked for an event.
    pub(super) solicited: bool,
}

/// What has to follow when completions were added.
#[derive(Default)]
struct Effects {
    /// Some stay hidden for a time.
    hides: bool,
    /// The handler has to be called.
    notifies: bool,
    /// One found no place.
    lost: bool,
}

/// The completion that the program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Any,
}

/// The state of a completion queue.
struct CompletionRing {
    completions: Completions,
    /// Whether completions are hidden at first.
    is_late: bool,
    /// Whether the receiver of a hidden one asked for it.
    hides_solicited: bool,
    armed: Armed,
    /// Whether a completion found no place (RNIC-ERR-09).
    overflowed: bool,
    /// Whether the handler of completions is called by the next run.
    complete: bool,
    /// Whether the overflow is reported by the next run.
    report: bool,
    /// Queue pairs of user space in state ERR.
    failed: KVec<Qpn>,
}

impl CompletionRing {
    /// Adds a completion, and notes in `effects` what has to follow.
    fn add(&mut self, new: &NewCompletion, effects: &mut Effects) {
        if self.overflowed || !self.completions.push(&new.completion, self.is_late) {
            effects.lost = true;
            effects.notifies |= !self.overflowed;
            self.report |= !self.overflowed;
            self.overflowed = true;
            return;
        }
        let solicited = new.solicited || new.completion.status != CompletionStatus::Success;
        if !self.is_late {
            effects.notifies |= self.appear(solicited);
            return;
        }
        self.hides_solicited |= solicited;
        if self.completions.hidden() < BATCH {
            effects.hides = true;
        } else {
            effects.notifies |= self.show();
        }
    }

    /// Completions have shown up; `solicited` if the receiver of one asked for it. Returns whether the
    /// handler has to be called (RNIC-CQ-06).
    fn appear(&mut self, solicited: bool) -> bool {
        let wanted = match self.armed {
            Armed::No => false,
            Armed::Solicited => solicited,
            Armed::Any => true,
        };
        if wanted {
            self.armed = Armed::No;
            self.complete = true;
        }
        wanted
    }

    /// Shows the hidden completions. Returns whether the handler has to be called.
    fn show(&mut self) -> bool {
        if self.completions.hidden() == 0 {
            return false;
        }
        self.completions.show();
        let solicited = take(&mut self.hides_solicited);
        self.appear(solicited)
    }
}

/// A completion queue.
#[pin_data]
pub(super) struct CompletionQueue {
    handle: CqHandle,
    runtime: Arc<Runtime>,
    /// One change of the size at a time.
    #[pin]
    changes: Mutex<()>,
    /// Programs poll with interrupts off.
    #[pin]
    ring: SpinLockIrq<CompletionRing>,
    #[pin]
    notify: Deferred<CompletionQueue>,
    /// Ends the time in which completions are hidden.
    #[pin]
    alarm: Alarm<CompletionQueue>,
}

impl CompletionQueue {
    /// Makes a queue. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no entries, `ENOMEM`.
    pub(super) fn new(
        runtime: &Arc<Runtime>,
        entries: u32,
        handle: CqHandle,
        ring: Option<&Arc<UserRing>>,
    ) -> Result<Arc<Self>> {
        if entries == 0 {
            return Err(EINVAL);
        }
        let completions = match ring {
            Some(ring) => Completions::User(UserCompletions::new(ring, entries)?),
            None => Completions::of_kernel(entries)?,
        };
        let ring = CompletionRing {
            completions,
            is_late: runtime.profile().is_late,
            hides_solicited: false,
            armed: Armed::No,
            overflowed: false,
            complete: false,
            report: false,
            failed: KVec::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                handle,
                runtime: runtime.clone(),
                changes <- new_mutex!((), "rdma_soft_cq_changes"),
                ring <- new_spinlock_irq!(ring, "rdma_soft_cq"),
                notify <- new_deferred!("rdma_soft_cq_notify", runtime.paths().inline),
                alarm <- Alarm::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds completions, with one lock and at most one call of the handler (RNIC-CQ-09). Returns whether
    /// there was a place for each: if not, the queue is broken, and its queue pairs fail. Context: any.
    pub(super) fn push(self: &Arc<Self>, new: &[NewCompletion]) -> bool {
        let mut effects = Effects::default();
        let mut ring = self.ring.lock();
        for new in new {
            ring.add(new, &mut effects);
        }
        drop(ring);
        if effects.hides {
            self.hide();
        }
        if effects.notifies {
            self.notify.kick(self, self.runtime.runs());
        }
        !effects.lost
    }

    /// Completions show up in some time, if it has not begun yet. Context: any.
    fn hide(self: &Arc<Self>) {
        let (least, most) = HIDDEN;
        let more = random_u32().checked_rem(most).unwrap_or(0);
        self.alarm.arm(self, u64::from(least.saturating_add(more)));
    }

    /// A queue pair of user space has entered state ERR: it flushes its rings when the program asks for
    /// completions (RNIC-ERR-07). Context: any.
    pub(super) fn note_failed(&self, number: Qpn) {
        let mut ring = self.ring.lock();
        if !ring.failed.contains(&number) {
            // Without memory the rings are flushed by the timer and by doorbells only.
            let _ = ring.failed.push(number, GFP_ATOMIC);
        }
    }

    /// A queue pair is in state ERR no longer. Context: any.
    pub(super) fn forget_failed(&self, number: Qpn) {
        self.ring.lock().failed.retain(|other| *other != number);
    }

    /// Wakes the queue pairs of user space in state ERR. Context: may sleep.
    fn wake_failed(&self) {
        let mut index = 0_usize;
        loop {
            let number = self.ring.lock().failed.get(index).copied();
            let Some(number) = number else {
                return;
            };
            if let Some(pair) = self.runtime.numbers().find(number.get()) {
                pair.wake();
            }
            index = index.wrapping_add(1);
        }
    }

    /// Removes all completions of a queue pair, unless user space reads them, and waits for a handler
    /// that may know of them (RNIC-QPS-04, RNIC-QPS-09). Context: may sleep.
    pub(super) fn purge(self: &Arc<Self>, qp: QpToken) {
        let mut ring = self.ring.lock();
        let wanted = ring.show();
        ring.completions.purge(qp);
        drop(ring);
        if wanted {
            self.notify.kick(self, self.runtime.runs());
        }
        // A program that frees its queue next must not be called about this queue pair.
        self.notify.flush();
    }
}

impl Run<0> for CompletionQueue {
    /// Runs in softirq.
    fn run(this: Arc<Self>) {
        let mut ring = this.ring.lock();
        let (complete, report) = (ring.complete, ring.report);
        ring.complete = false;
        ring.report = false;
        drop(ring);
        if report {
            this.handle.overflow();
        }
        if complete {
            this.handle.complete();
        }
    }
}

impl IbCqOps for CompletionQueue {
    fn handle(&self) -> &CqHandle {
        &self.handle
    }

    fn poll(&self, into: &mut PolledCompletions) {
        let mut ring = self.ring.lock();
        while !into.is_full() {
            match ring.completions.pop() {
                Some(completion) => into.push(&completion),
                None => return,
            }
        }
    }

    fn request_notify(self: &Arc<Self>, solicited: bool) -> bool {
        let mut ring = self.ring.lock();
        if !solicited {
            ring.armed = Armed::Any;
        } else if ring.armed == Armed::No {
            ring.armed = Armed::Solicited;
        }
        let (pending, failed) = (ring.completions.has_any(), !ring.failed.is_empty());
        drop(ring);
        if failed {
            self.wake_failed();
        }
        pending
    }

    fn resize(self: &Arc<Self>, entries: u32, new: &NewRing) -> Result {
        let changes = self.changes.lock();
        let mut spare = UserCompletions::new(new.ring(), entries)?;
        let mut ring = self.ring.lock();
        let wanted = ring.show();
        let exchanged = match &mut ring.completions {
            Completions::Kernel(_) => Err(EINVAL),
            Completions::User(completions) => completions.exchange(&mut spare, entries),
        };
        drop(ring);
        if wanted {
            self.notify.kick(self, self.runtime.runs());
        }
        exchanged?;
        self.handle.adopt(new);
        drop(changes);
        Ok(())
    }

    fn destroy(self: &Arc<Self>) {
        // No queue pair adds a completion any longer.
        self.alarm.cancel_sync();
        self.notify.flush();
    }
}

impl Expire for CompletionQueue {
    fn expired(self: &Arc<Self>) {
        let wanted = self.ring.lock().show();
        if wanted {
            self.notify.kick(self, self.runtime.runs());
        }
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_cq)]
mod tests {
    use super::*;
    use crate::{
        kapi::ibdev::{
            handle_of_test,
            poll_one,
            CompletedOp,
            CqObserver, //
        },
        rnic::{
            checksum::PacketChecksum,
            fast_paths::FastPaths,
            profile::Profile, //
        },
    };
    use core::sync::atomic::{
        AtomicBool,
        AtomicU32,
        Ordering, //
    };
    use kernel::time::{
        delay::fsleep,
        Delta, //
    };

    /// A program with a completion queue.
    #[pin_data]
    struct Program {
        calls: AtomicU32,
        overflows: AtomicU32,
        /// Calls outside of softirq.
        elsewhere: AtomicU32,
        /// Completions that the handler has polled, if it does.
        polled: AtomicU32,
        /// Whether the handler polls, and arms the queue again.
        serves: AtomicBool,
        #[pin]
        queue: SpinLockIrq<Option<Arc<CompletionQueue>>>,
    }

    impl CqObserver for Program {
        fn completed(&self, in_softirq: bool) {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.elsewhere
                .fetch_add(u32::from(!in_softirq), Ordering::Relaxed);
            if !self.serves.load(Ordering::Relaxed) {
                return;
            }
            let queue = self.queue.lock().clone();
            if let Some(queue) = queue {
                while queue.request_notify(false) {
                    while poll_one(|into| queue.poll(into)).is_some() {
                        self.polled.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }

        fn overflowed(&self) {
            self.overflows.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A program with its queue.
    struct Bench {
        runtime: Arc<Runtime>,
        program: Arc<Program>,
        queue: Arc<CompletionQueue>,
    }

    impl Bench {
        fn new(entries: u32) -> Result<Self> {
            let profile = Profile::new(0).ok_or(EINVAL)?;
            let runtime = Runtime::new(FastPaths::ALL, profile, PacketChecksum::Own)?;
            let program = Arc::pin_init(
                pin_init!(Program {
                    calls: AtomicU32::new(0),
                    overflows: AtomicU32::new(0),
                    elsewhere: AtomicU32::new(0),
                    polled: AtomicU32::new(0),
                    serves: AtomicBool::new(false),
                    queue <- new_spinlock_irq!(None, "rdma_soft_test_program"),
                }),
                GFP_KERNEL,
            )?;
            let handle = handle_of_test(&program)?;
            let queue = CompletionQueue::new(&runtime, entries, handle, None)?;
            *program.queue.lock() = Some(queue.clone());
            Ok(Self {
                runtime,
                program,
                queue,
            })
        }

        fn push(&self, id: u64, status: CompletionStatus, solicited: bool) -> bool {
            self.queue.push(&[completion(id, status, solicited)])
        }

        fn poll(&self) -> Option<(u64, bool)> {
            poll_one(|into| self.queue.poll(into))
        }

        /// Calls of the handler so far, when none is under way.
        fn calls(&self) -> u32 {
            self.queue.notify.flush();
            self.program.calls.load(Ordering::Relaxed)
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            self.queue.destroy();
            // The program keeps the queue, and the queue the program.
            let queue = self.program.queue.lock().take();
            drop(queue);
        }
    }

    fn completion(id: u64, status: CompletionStatus, solicited: bool) -> NewCompletion {
        let completion = Completion {
            id,
            status,
            reason: 0,
            op: CompletedOp::Send,
            len: 0,
            qp: QpToken::of_test(),
            qpn: 7,
            imm: None,
            invalidated: None,
            datagram: None,
        };
        NewCompletion {
            completion,
            solicited,
        }
    }

    const GOOD: CompletionStatus = CompletionStatus::Success;

    /// RNIC-CQ-01, RNIC-ERR-09.
    #[test]
    fn queue_has_the_room_that_was_asked_for_and_breaks_beyond() -> Result {
        for entries in [1, 3, 4, 7] {
            let bench = Bench::new(entries)?;
            let entries = u64::from(entries);
            for round in 0..3 {
                for id in 0..entries {
                    assert!(bench.push(10 * round + id, GOOD, false));
                }
                for id in 0..entries {
                    assert_eq!(bench.poll(), Some((10 * round + id, true)));
                }
                assert_eq!(bench.poll(), None);
                // The next round begins at another place.
                assert!(bench.push(0, GOOD, false) && bench.poll().is_some());
            }
            for id in 0..entries {
                assert!(bench.push(id, GOOD, false));
            }
            assert_eq!(bench.program.overflows.load(Ordering::Relaxed), 0);
            assert!(!bench.push(99, GOOD, false));
            assert_eq!(bench.poll(), Some((0, true)));
            assert!(!bench.push(99, GOOD, false));
            assert_eq!(bench.calls(), 0);
            assert_eq!(bench.program.overflows.load(Ordering::Relaxed), 1);
        }
        Ok(())
    }

    /// RNIC-CQ-05, RNIC-CQ-07.
    #[test]
    fn each_arming_gives_one_call() -> Result {
        let bench = Bench::new(64)?;
        for round in 0..20 {
            // Not armed: no call.
            assert!(bench.push(1, GOOD, true));
            assert_eq!(bench.calls(), round);
            // What is there is reported, and only the next one gives a call.
            assert!(bench.queue.request_notify(false));
            assert_eq!(bench.calls(), round);
            while bench.poll().is_some() {}
            assert!(!bench.queue.request_notify(false));
            for id in 0..3 {
                assert!(bench.push(id, GOOD, false));
            }
            assert_eq!(bench.calls(), round + 1);
            while bench.poll().is_some() {}
        }
        assert_eq!(bench.program.elsewhere.load(Ordering::Relaxed), 0);
        Ok(())
    }

    /// RNIC-CQ-09.
    #[test]
    fn completions_that_come_together_give_one_call() -> Result {
        let bench = Bench::new(8)?;
        let batch = [1, 2, 3, 4, 5].map(|id| completion(id, GOOD, id == 3));
        for solicited in [false, true] {
            let before = bench.calls();
            bench.queue.request_notify(solicited);
            assert!(bench.queue.push(&batch));
            assert_eq!(bench.calls(), before + 1);
            for id in 1..=5 {
                assert_eq!(bench.poll(), Some((id, true)));
            }
            assert_eq!(bench.poll(), None);
        }
        // Without a solicited one among them there is no call.
        bench.queue.request_notify(true);
        let before = bench.calls();
        let (head, tail) = batch.split_at(2);
        assert!(bench.queue.push(head));
        assert_eq!(bench.calls(), before);
        assert!(bench.queue.push(tail));
        assert_eq!(bench.calls(), before + 1);
        Ok(())
    }

    /// RNIC-CQ-09, RNIC-ERR-09.
    #[test]
    fn batch_beyond_the_room_breaks_the_queue_behind_what_has_a_place() -> Result {
        let bench = Bench::new(3)?;
        let batch = [1, 2, 3, 4, 5].map(|id| completion(id, GOOD, false));
        assert!(!bench.queue.push(&batch));
        assert!(!bench.queue.push(&batch));
        assert_eq!(bench.calls(), 0);
        assert_eq!(bench.program.overflows.load(Ordering::Relaxed), 1);
        for id in 1..=3 {
            assert_eq!(bench.poll(), Some((id, true)));
        }
        assert_eq!(bench.poll(), None);
        Ok(())
    }

    /// RNIC-CQ-06, RNIC-ERR-08.
    #[test]
    fn wish_for_a_solicited_completion_waits_for_one_or_for_an_error() -> Result {
        let bench = Bench::new(64)?;
        bench.queue.request_notify(true);
        bench.push(1, GOOD, false);
        assert_eq!(bench.calls(), 0);
        bench.push(2, GOOD, true);
        assert_eq!(bench.calls(), 1);
        for status in [
            CompletionStatus::Flushed,
            CompletionStatus::LocalLength,
            CompletionStatus::RetryExceeded,
        ] {
            let before = bench.calls();
            bench.queue.request_notify(true);
            bench.push(3, GOOD, false);
            assert_eq!(bench.calls(), before);
            bench.push(4, status, false);
            assert_eq!(bench.calls(), before + 1);
        }
        // A weaker wish does not replace a stronger one, but the other way round.
        for wishes in [[false, true], [true, false]] {
            let before = bench.calls();
            for solicited in wishes {
                bench.queue.request_notify(solicited);
            }
            bench.push(5, GOOD, false);
            assert_eq!(bench.calls(), before + 1);
        }
        Ok(())
    }

    /// Adds completions from another task.
    #[pin_data]
    struct Producer {
        queue: Arc<CompletionQueue>,
        #[pin]
        work: Deferred<Producer>,
    }

    /// Completions that it adds.
    const MANY: u32 = 20_000;

    impl Run<0> for Producer {
        fn run(this: Arc<Self>) {
            for id in 0..MANY {
                while !this.queue.has_room() {
                    fsleep(Delta::from_micros(10));
                }
                this.queue.push(&[completion(id.into(), GOOD, false)]);
            }
        }
    }

    impl CompletionQueue {
        fn has_room(&self) -> bool {
            self.ring.lock().completions.has_room()
        }
    }

    fn new_producer(bench: &Bench) -> Result<Arc<Producer>> {
        Arc::pin_init(
            pin_init!(Producer {
                queue: bench.queue.clone(),
                work <- new_deferred!("rdma_soft_test_producer"),
            }),
            GFP_KERNEL,
        )
    }

    /// RNIC-CQ-04: by a task with interrupts on or off, while completions arrive.
    #[test]
    fn completions_are_polled_in_order_while_others_arrive() -> Result {
        let bench = Bench::new(16)?;
        let producer = new_producer(&bench)?;
        producer.work.kick(&producer, bench.runtime.timers());
        let mut next = 0;
        while next < u64::from(MANY) {
            let polled = if next % 2 == 0 {
                bench.poll()
            } else {
                let guard = bench.program.queue.lock();
                let polled = bench.poll();
                drop(guard);
                polled
            };
            match polled {
                Some(polled) => {
                    assert_eq!(polled, (next, true));
                    next += 1;
                }
                None => fsleep(Delta::from_micros(1)),
            }
        }
        producer.work.cancel_sync();
        assert_eq!(bench.poll(), None);
        Ok(())
    }

    /// RNIC-CQ-04, RNIC-CQ-05, RNIC-CQ-07: a handler that polls and arms misses none.
    #[test]
    fn handler_that_polls_and_arms_sees_all_completions() -> Result {
        let bench = Bench::new(16)?;
        bench.program.serves.store(true, Ordering::Relaxed);
        bench.queue.request_notify(false);
        let producer = new_producer(&bench)?;
        producer.work.kick(&producer, bench.runtime.timers());
        // A call that is missing leaves the queue full, and the producer waits without an end.
        producer.work.flush();
        bench.calls();
        assert_eq!(bench.program.polled.load(Ordering::Relaxed), MANY);
        assert_eq!(bench.program.elsewhere.load(Ordering::Relaxed), 0);
        Ok(())
    }

    /// RNIC-CQ-11.
    #[test]
    fn no_call_follows_the_end_of_a_queue() -> Result {
        for round in 0..200_u32 {
            let bench = Bench::new(4)?;
            bench.queue.request_notify(false);
            bench.push(1, GOOD, false);
            // Mostly the call is still to come.
            bench.queue.destroy();
            let calls = || bench.program.calls.load(Ordering::Relaxed);
            assert_eq!(calls(), 1);
            if round % 20 == 0 {
                fsleep(Delta::from_micros(200));
                assert_eq!(calls(), 1);
            }
        }
        Ok(())
    }
}
