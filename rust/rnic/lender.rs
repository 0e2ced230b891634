// SPDX-License-Identifier: GPL-2.0

//! A send queue that lends the memory of its work requests to a peer of this kernel (RNIC-DIR-11).
//!
//! The sender of a run of packets that leaves out the network copies nothing: it lends the memory of the
//! work request. The receiver copies from there, as long as the request is not complete. Until then the
//! program keeps the memory for the device, as it does for one that reads it late.

use super::{
    domain::Domain,
    loan::{
        Loan,
        LoanEnded,
        LoanSource, //
    },
    memory::gather, //
};
use crate::{
    kapi::{
        base::sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
        ibdev::WrData,
    },
    proto::roce::{
        loan::LoanBook,
        work::MsgId, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Requests whose memory may be read.
struct LenderState {
    /// The domain of the queue pair. `None` ends all loans: the queue pair is destroyed.
    domain: Option<Arc<Domain>>,
    /// Its requests.
    book: LoanBook,
}

/// The sending half of a queue pair, as runs of packets know it.
///
/// The lock is held while octets are copied: a request completes before or after that.
#[pin_data]
pub(super) struct Lender {
    #[pin]
    state: SpinLockBh<LenderState>,
}

impl Lender {
    /// That of a queue pair of a domain. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(domain: &Arc<Domain>) -> Result<Arc<Self>> {
        let state = LenderState {
            domain: Some(domain.clone()),
            book: LoanBook::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- new_spinlock_bh!(state, "rdma_soft_lender"),
            }),
            GFP_KERNEL,
        )
    }

    /// Lends `len` octets of a request that is not complete, from `offset` on. Context: any.
    pub(super) fn lend(self: &Arc<Self>, msg: MsgId, data: &WrData, offset: u32, len: u32) -> Loan {
        let id = self.state.lock().book.lend(msg);
        Loan {
            lender: self.clone(),
            id,
            data: *data,
            offset,
            len,
        }
    }

    /// A request completes: its memory is read no longer. Context: any.
    pub(super) fn complete(&self, msg: MsgId) {
        self.state.lock().book.complete(msg);
    }

    /// No request is left, and the next one has number 0. Context: any.
    pub(super) fn restart(&self) {
        self.state.lock().book.restart();
    }

    /// The queue pair is destroyed. Context: any.
    pub(super) fn close(&self) {
        let domain = self.state.lock().domain.take();
        // Not with the lock.
        drop(domain);
    }
}

impl LoanSource for Lender {
    fn copy(&self, loan: &Loan, at: u32, to: &mut [u8]) -> Result<(), LoanEnded> {
        let state = self.state.lock();
        let domain = state.domain.as_ref().ok_or(LoanEnded)?;
        if !state.book.permits(loan.id) {
            return Err(LoanEnded);
        }
        let offset = loan.offset.checked_add(at).ok_or(LoanEnded)?;
        gather(domain, &loan.data, offset, to).map_err(|_| LoanEnded)
    }
}
