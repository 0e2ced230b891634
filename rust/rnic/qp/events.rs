// SPDX-License-Identifier: GPL-2.0

//! Events: what a run of the work item tells the program, and results of completions.

use crate::{
    kapi::ibdev::{
        Completion,
        CompletionStatus, //
    },
    proto::roce::{
        reason::Reason,
        work::WorkStatus, //
    },
};

/// Events of a run, which are reported when the lock is released.
#[derive(Default)]
pub(super) struct PendingEvents {
    /// The first packet arrived before the queue pair was ready to send.
    pub(super) established: bool,
    /// The send queue is drained.
    pub(super) drained: bool,
    /// The queue pair failed without a request to blame.
    pub(super) fatal: bool,
    /// The peer sent an invalid request.
    pub(super) request_error: bool,
    /// The peer named memory that it may not access.
    pub(super) access_error: bool,
    /// Nothing is taken from the shared receive queue any longer (RNIC-ERR-02).
    pub(super) last_receive: bool,
}

/// Gives a completion its result: status, and the code of the reason of an error (RNIC-ERR-04).
pub(super) fn set_result(completion: &mut Completion, result: Result<(), Reason>) {
    completion.status = status_of(WorkStatus::of(result));
    completion.reason = result.err().map_or(0, Reason::code);
}

/// The status as the verbs core names it.
const fn status_of(status: WorkStatus) -> CompletionStatus {
    match status {
        WorkStatus::Success => CompletionStatus::Success,
        WorkStatus::LocLenErr => CompletionStatus::LocalLength,
        WorkStatus::LocProtErr => CompletionStatus::LocalProtection,
        WorkStatus::LocQpOpErr => CompletionStatus::LocalQpOperation,
        WorkStatus::MwBindErr => CompletionStatus::WindowBind,
        WorkStatus::BadRespErr => CompletionStatus::BadResponse,
        WorkStatus::RemInvReqErr => CompletionStatus::RemoteInvalidRequest,
        WorkStatus::RemAccessErr => CompletionStatus::RemoteAccess,
        WorkStatus::RemOpErr => CompletionStatus::RemoteOperation,
        WorkStatus::RetryExcErr => CompletionStatus::RetryExceeded,
        WorkStatus::RnrRetryExcErr => CompletionStatus::RnrRetryExceeded,
        WorkStatus::WrFlushErr => CompletionStatus::Flushed,
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_events)]
mod tests {
    use super::*;

    /// RNIC-GEN-06, RNIC-ERR-03: the numbers of the core are those of the kernel's header.
    #[test]
    fn status_has_the_number_of_the_verbs_core() {
        for &status in WorkStatus::ALL {
            assert_eq!(status_of(status).code(), status.code());
        }
    }
}
