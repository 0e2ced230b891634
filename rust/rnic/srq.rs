// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: work requests that several queue pairs take (RNIC-SRQ).

use super::{
    domain::Domain,
    limits,
    receives::PostedReceives, //
};
use crate::{
    kapi::{
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
            IbSrqOps,
            RecvWr,
            SrqAttr,
            SrqChange,
            SrqHandle, //
        },
    },
    proto::roce::state::Posting,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The work requests, and the limit.
struct SharedReceives {
    posted: PostedReceives,
    /// Work requests below which an event is due, once; 0 if it is not armed.
    limit: u32,
    /// Whether the next run reports the event.
    report: bool,
}

impl SharedReceives {
    /// Notes that work requests were taken. Returns whether an event is due (RNIC-SRQ-03).
    fn check_limit(&mut self) -> bool {
        let few = u32::try_from(self.posted.waiting()).is_ok_and(|count| count < self.limit);
        if few {
            self.limit = 0;
            self.report = true;
        }
        few
    }
}

/// A shared receive queue.
#[pin_data]
pub(crate) struct SharedQueue {
    handle: SrqHandle,
    /// The domain that the memory of its work requests belongs to (RNIC-SRQ-02).
    domain: Arc<Domain>,
    /// Elements of a work request.
    max_sge: u32,
    /// Programs post with interrupts off. Innermost.
    #[pin]
    receives: SpinLockIrq<SharedReceives>,
    /// Reports the event, without any lock.
    #[pin]
    notify: Deferred<SharedQueue>,
}

impl SharedQueue {
    /// Makes a queue. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for sizes beyond the limits, `ENOMEM`.
    pub(super) fn new(domain: &Arc<Domain>, attr: SrqAttr, handle: SrqHandle) -> Result<Arc<Self>> {
        if attr.max_wr == 0 || attr.max_wr > limits::MAX_QP_WR || attr.max_sge > limits::MAX_SGE {
            return Err(EINVAL);
        }
        let mut posted = PostedReceives::new(usize::try_from(attr.max_wr)?)?;
        posted.set_posting(Posting::Queue);
        let receives = SharedReceives {
            posted,
            limit: 0,
            report: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                handle,
                domain: domain.clone(),
                max_sge: attr.max_sge,
                receives <- new_spinlock_irq!(receives, "rdma_soft_srq"),
                notify <- new_deferred!("rdma_soft_srq_notify"),
            }),
            GFP_KERNEL,
        )
    }

    /// The domain of its work requests.
    pub(super) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Takes the oldest work request if `check`, which sees it, agrees (RNIC-SRQ-04). Context: any.
    ///
    /// # Errors
    ///
    /// That of `check`.
    pub(super) fn take_if<T, E>(
        self: &Arc<Self>,
        check: impl FnOnce(Option<&RecvWr>) -> Result<T, E>,
    ) -> Result<(Option<RecvWr>, T), E> {
        let mut receives = self.receives.lock();
        let checked = check(receives.posted.peek())?;
        let wr = receives.posted.take();
        let report = wr.is_some() && receives.check_limit();
        drop(receives);
        if report {
            self.notify.kick(self, self.domain.node.runtime().softirq());
        }
        Ok((wr, checked))
    }
}

impl Run<0> for SharedQueue {
    /// Runs in softirq.
    fn run(this: Arc<Self>) {
        let mut receives = this.receives.lock();
        let report = receives.report;
        receives.report = false;
        drop(receives);
        if report {
            this.handle.limit_reached();
        }
    }
}

impl IbSrqOps for SharedQueue {
    fn handle(&self) -> &SrqHandle {
        &self.handle
    }

    fn attr(&self) -> SrqAttr {
        let receives = self.receives.lock();
        SrqAttr {
            max_wr: u32::try_from(receives.posted.places()).unwrap_or(u32::MAX),
            max_sge: self.max_sge,
            limit: receives.limit,
        }
    }

    fn modify(&self, change: SrqChange) -> Result {
        let places = change.max_wr.unwrap_or_else(|| self.attr().max_wr);
        if places == 0 || places > limits::MAX_QP_WR {
            return Err(EINVAL);
        }
        if change.limit.is_some_and(|limit| limit > places) {
            return Err(EINVAL);
        }
        let mut spare = match change.max_wr {
            Some(_) => Some(PostedReceives::new(usize::try_from(places)?)?),
            None => None,
        };
        let mut receives = self.receives.lock();
        if let Some(spare) = &mut spare {
            // The former places are freed without the lock.
            receives.posted.exchange(spare)?;
        }
        if let Some(limit) = change.limit {
            receives.limit = limit;
        }
        drop(receives);
        drop(spare);
        Ok(())
    }

    fn post(&self, wr: RecvWr) -> Result {
        if wr.data.elements() > self.max_sge {
            return Err(EINVAL);
        }
        self.receives.lock().posted.post(wr)
    }

    fn destroy(&self) {
        self.notify.cancel_sync();
    }
}
