// SPDX-License-Identifier: GPL-2.0

//! Completion queues (RNIC-CQ).
//!
//! A completion is added under the lock of the ring; the handler of the program runs from a work item
//! in softirq, without any lock (RNIC-CQ-07).

use super::runtime::Runtime;
use crate::kapi::{
    base::work::{
        new_deferred,
        Deferred,
        Run, //
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
        PolledCompletions,
        QpToken, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The completion that the program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Any,
}

/// Completions in their order.
struct CompletionRing {
    places: KVVec<Option<Completion>>,
    /// The place of the oldest completion.
    first: usize,
    /// Completions.
    count: usize,
    armed: Armed,
    /// Whether a completion found no place (RNIC-ERR-09).
    overflowed: bool,
    /// Whether the handler of completions is called by the next run.
    complete: bool,
    /// Whether the overflow is reported by the next run.
    report: bool,
}

impl CompletionRing {
    /// The place that is `offset` behind the oldest completion.
    fn place(&mut self, offset: usize) -> Option<&mut Option<Completion>> {
        let len = self.places.len();
        let index = self.first.wrapping_add(offset);
        let index = if index >= len {
            index.wrapping_sub(len)
        } else {
            index
        };
        self.places.get_mut(index)
    }

    /// Adds a completion. Returns whether there was a place.
    fn push(&mut self, completion: &Completion) -> bool {
        if self.overflowed || self.count >= self.places.len() {
            return false;
        }
        let count = self.count;
        if let Some(place) = self.place(count) {
            *place = Some(*completion);
            self.count = count.wrapping_add(1);
        }
        true
    }

    /// Takes the oldest completion.
    fn pop(&mut self) -> Option<Completion> {
        if self.count == 0 {
            return None;
        }
        let completion = self.place(0)?.take();
        self.count = self.count.wrapping_sub(1);
        self.first = self.first.wrapping_add(1);
        if self.first >= self.places.len() {
            self.first = 0;
        }
        completion
    }
}

/// A completion queue.
#[pin_data]
pub(super) struct CompletionQueue {
    handle: CqHandle,
    runtime: Arc<Runtime>,
    /// Programs poll with interrupts off.
    #[pin]
    ring: SpinLockIrq<CompletionRing>,
    #[pin]
    notify: Deferred<CompletionQueue>,
}

impl CompletionQueue {
    /// Makes a queue. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no entries, `ENOMEM`.
    pub(super) fn new(runtime: &Arc<Runtime>, entries: u32, handle: CqHandle) -> Result<Arc<Self>> {
        if entries == 0 {
            return Err(EINVAL);
        }
        let mut places = KVVec::new();
        places.resize(usize::try_from(entries)?, None, GFP_KERNEL_ACCOUNT)?;
        let ring = CompletionRing {
            places,
            first: 0,
            count: 0,
            armed: Armed::No,
            overflowed: false,
            complete: false,
            report: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                handle,
                runtime: runtime.clone(),
                ring <- new_spinlock_irq!(ring, "rdma_soft_cq"),
                notify <- new_deferred!("rdma_soft_cq_notify"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a completion; `solicited` if its receiver asked for it. Returns whether there was a place:
    /// if not, the queue is broken, and its queue pairs fail. Context: any.
    pub(super) fn push(self: &Arc<Self>, completion: &Completion, solicited: bool) -> bool {
        let mut ring = self.ring.lock();
        let added = ring.push(completion);
        if added {
            // RNIC-CQ-06.
            let solicited = solicited || completion.status != CompletionStatus::Success;
            let wanted = match ring.armed {
                Armed::No => false,
                Armed::Solicited => solicited,
                Armed::Any => true,
            };
            if !wanted {
                return true;
            }
            ring.armed = Armed::No;
            ring.complete = true;
        } else if !ring.overflowed {
            ring.overflowed = true;
            ring.report = true;
        }
        drop(ring);
        self.notify.kick(self, self.runtime.softirq());
        added
    }

    /// Removes all completions of a queue pair, and waits for a handler that may know of them
    /// (RNIC-QPS-04, RNIC-QPS-09). Context: may sleep.
    pub(super) fn purge(&self, qp: QpToken) {
        let mut ring = self.ring.lock();
        for _ in 0..ring.count {
            if let Some(completion) = ring.pop() {
                if completion.qp != qp {
                    // Cannot fail: one was just taken.
                    let count = ring.count;
                    if let Some(place) = ring.place(count) {
                        *place = Some(completion);
                        ring.count = count.wrapping_add(1);
                    }
                }
            }
        }
        drop(ring);
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
            match ring.pop() {
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
        ring.count > 0
    }

    fn destroy(self: &Arc<Self>) {
        self.notify.flush();
    }
}
