// SPDX-License-Identifier: GPL-2.0

//! What a run of the work item tells the program.

use crate::{
    kapi::ibdev::CompletionStatus,
    proto::roce::work::WorkStatus, //
};

/// Events of a run, which are reported when the lock is released.
#[derive(Default)]
pub(super) struct PendingEvents {
    pub(super) established: bool,
    pub(super) drained: bool,
    pub(super) fatal: bool,
    pub(super) request_error: bool,
    pub(super) access_error: bool,
}

/// The status as the verbs core names it.
pub(super) const fn status_of(status: WorkStatus) -> CompletionStatus {
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
