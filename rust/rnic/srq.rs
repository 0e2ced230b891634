// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: work requests that several queue pairs take (RNIC-SRQ).

use super::{
    domain::Domain,
    limits,
    receives::PostedReceives,
    user_queue::{
        receive_elements,
        RingReceives, //
    },
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
            NewRing,
            RecvWr,
            SrqAttr,
            SrqChange,
            SrqHandle,
            UserRing,
            UserSrqSizes, //
        },
    },
    proto::roce::{
        ring::RingShape,
        state::Posting, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The sizes of a queue of user space.
///
/// # Errors
///
/// `EINVAL` for sizes beyond the limits.
pub(super) fn user_sizes(attr: SrqAttr) -> Result<UserSrqSizes> {
    check_sizes(attr)?;
    let shape = shape_of(attr)?;
    Ok(UserSrqSizes {
        attr: SrqAttr {
            max_wr: shape.entries(),
            max_sge: receive_elements(shape),
            ..attr
        },
        ring: usize::try_from(shape.octets())?,
    })
}

/// The shape of the ring of a queue of user space. The sizes that [`user_sizes`] gives have the same.
fn shape_of(attr: SrqAttr) -> Result<RingShape> {
    RingShape::of_receives(attr.max_wr, attr.max_sge).ok_or(EINVAL)
}

/// Whether a program may ask for these sizes. Those of a ring are rounded up from there.
fn check_sizes(attr: SrqAttr) -> Result {
    if attr.max_wr == 0 || attr.max_wr > limits::MAX_QP_WR || attr.max_sge > limits::MAX_SGE {
        return Err(EINVAL);
    }
    Ok(())
}

/// Where programs post.
#[allow(
    clippy::large_enum_variant,
    reason = "a queue has one, which never moves but for a change of its size"
)]
enum Requests {
    /// Requests that a kernel program posted.
    Kernel(PostedReceives),
    /// A ring that user space fills.
    User(RingReceives),
}

impl Requests {
    /// Requests that the queue has room for.
    fn places(&self) -> u32 {
        match self {
            Self::Kernel(posted) => u32::try_from(posted.places()).unwrap_or(u32::MAX),
            Self::User(ring) => ring.places(),
        }
    }

    /// Requests that wait, which a ring says as it likes.
    fn waiting(&self) -> u32 {
        match self {
            Self::Kernel(posted) => u32::try_from(posted.waiting()).unwrap_or(u32::MAX),
            Self::User(ring) => ring.waiting(),
        }
    }

    /// The oldest request.
    fn peek(&mut self) -> Option<&RecvWr> {
        match self {
            Self::Kernel(posted) => posted.peek(),
            Self::User(ring) => ring.peek(),
        }
    }

    /// Takes the oldest request. Its slot is free from now on.
    fn take(&mut self) -> Option<RecvWr> {
        match self {
            Self::Kernel(posted) => posted.take(),
            Self::User(ring) => {
                let wr = ring.take()?;
                ring.release();
                Some(wr)
            }
        }
    }

    /// Goes on with the places of an empty queue of the same kind, which gets the former ones.
    fn exchange(&mut self, spare: &mut Self) -> Result {
        match (self, spare) {
            (Self::Kernel(posted), Self::Kernel(spare)) => posted.exchange(spare),
            (Self::User(ring), Self::User(spare)) => ring.exchange(spare),
            _ => Err(EINVAL),
        }
    }
}

/// The work requests, and the limit.
struct SharedReceives {
    requests: Requests,
    /// Work requests below which an event is due, once; 0 if it is not armed.
    limit: u32,
    /// Whether the next run reports the event.
    report: bool,
}

impl SharedReceives {
    /// Notes that work requests were taken. Returns whether an event is due (RNIC-SRQ-03).
    fn check_limit(&mut self) -> bool {
        let few = self.requests.waiting() < self.limit;
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
    /// One change of the sizes at a time.
    #[pin]
    changes: Mutex<()>,
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
    pub(super) fn new(
        domain: &Arc<Domain>,
        attr: SrqAttr,
        handle: SrqHandle,
        ring: Option<&Arc<UserRing>>,
    ) -> Result<Arc<Self>> {
        let receives = SharedReceives {
            requests: empty_requests(attr, ring)?,
            limit: 0,
            report: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                handle,
                domain: domain.clone(),
                max_sge: attr.max_sge,
                changes <- new_mutex!((), "rdma_soft_srq_changes"),
                receives <- new_spinlock_irq!(receives, "rdma_soft_srq"),
                notify <- new_deferred!("rdma_soft_srq_notify", domain.node.runtime().paths().inline),
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
        let checked = check(receives.requests.peek())?;
        let wr = receives.requests.take();
        let report = wr.is_some() && receives.check_limit();
        drop(receives);
        if report {
            self.notify.kick(self, self.domain.node.runtime().runs());
        }
        Ok((wr, checked))
    }
}

/// Requests of a queue with these sizes, in the ring of a program in user space if it has one.
fn empty_requests(attr: SrqAttr, ring: Option<&Arc<UserRing>>) -> Result<Requests> {
    if let Some(ring) = ring {
        let shape = shape_of(attr)?;
        let receives = RingReceives::new(ring.clone(), shape, attr.max_sge)?;
        return Ok(Requests::User(receives));
    }
    check_sizes(attr)?;
    let mut posted = PostedReceives::new(usize::try_from(attr.max_wr)?)?;
    posted.set_posting(Posting::Queue);
    Ok(Requests::Kernel(posted))
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
            max_wr: receives.requests.places(),
            max_sge: self.max_sge,
            limit: receives.limit,
        }
    }

    fn modify(&self, change: SrqChange, ring: Option<&NewRing>) -> Result {
        let changes = self.changes.lock();
        let mut attr = self.attr();
        attr.max_wr = change.max_wr.unwrap_or(attr.max_wr);
        let mut spare = match change.max_wr {
            Some(_) => Some(empty_requests(attr, ring.map(NewRing::ring))?),
            None => None,
        };
        let places = spare.as_ref().map_or(attr.max_wr, Requests::places);
        if change.limit.unwrap_or(attr.limit) > places {
            return Err(EINVAL);
        }
        let mut receives = self.receives.lock();
        if let Some(spare) = &mut spare {
            // The former places are freed without the lock.
            receives.requests.exchange(spare)?;
        }
        if let Some(limit) = change.limit {
            receives.limit = limit;
        }
        drop(receives);
        drop(spare);
        if let Some(ring) = ring {
            self.handle.adopt(ring);
        }
        drop(changes);
        Ok(())
    }

    fn post(&self, wr: RecvWr) -> Result {
        if wr.data.elements() > self.max_sge {
            return Err(EINVAL);
        }
        match &mut self.receives.lock().requests {
            Requests::Kernel(posted) => posted.post(wr),
            Requests::User(_) => Err(EINVAL),
        }
    }

    fn destroy(&self) {
        self.notify.cancel_sync();
    }
}
