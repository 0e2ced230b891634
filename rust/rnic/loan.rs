// SPDX-License-Identifier: GPL-2.0

//! Octets that the receiver of a run of packets copies from where the sender has them (RNIC-DIR-11).

use crate::{
    kapi::ibdev::WrData,
    proto::roce::loan::LoanId, //
};
use kernel::sync::Arc;

/// The memory of a work request, or a part of it, as long as the request is not complete.
pub(super) struct Loan {
    /// The queue of the request.
    pub(super) lender: Arc<dyn LoanSource>,
    /// The request.
    pub(super) id: LoanId,
    /// Its memory.
    pub(super) data: WrData,
    /// The first octet.
    pub(super) offset: u32,
    /// Octets.
    pub(super) len: u32,
}

/// The request is complete, or its memory can no longer be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoanEnded;

/// A queue of work requests that lends their memory.
pub(super) trait LoanSource: Send + Sync {
    /// Copies the octets of a loan from `at` on. Context: any.
    ///
    /// # Errors
    ///
    /// See [`LoanEnded`].
    fn copy(&self, loan: &Loan, at: u32, to: &mut [u8]) -> Result<(), LoanEnded>;
}
