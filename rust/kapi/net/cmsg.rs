// SPDX-License-Identifier: GPL-2.0

//! Control messages and flags that a receive returns beside the data.
//!
//! C headers: [`include/linux/socket.h`](srctree/include/linux/socket.h),
//! [`include/net/scm.h`](srctree/include/net/scm.h)

use super::{
    msg::{
        RecvMsg,
        SendMsg, //
    },
    sock::{
        Sock,
        SockGuard, //
    },
};
use crate::bindings;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Which extras a receive has to report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WantedCmsgs {
    /// The program asked for a control message (`TCP_INQ`).
    inq_cmsg: bool,
    /// io_uring asked for the number itself.
    inq_field: bool,
    /// The program asked when the data came (`SO_TIMESTAMP`, `SO_TIMESTAMPING`).
    time: bool,
}

impl WantedCmsgs {
    /// What the socket, which is locked, and the call ask for.
    ///
    /// Context: any.
    pub(crate) fn of(guard: &SockGuard<'_>, msg: &RecvMsg<'_>) -> Self {
        // SAFETY: The sock is valid and locked, the message valid by its invariants.
        let (inq_cmsg, inq_field) = unsafe {
            (
                bindings::rdma_sock_helper_wants_inq(guard.as_raw()),
                bindings::rdma_sock_helper_msg_wants_inq(msg.as_raw()),
            )
        };
        Self {
            inq_cmsg,
            inq_field,
            time: guard.wants_time(),
        }
    }

    /// Whether the caller is interested in the time at which the data came.
    pub(crate) fn time(self) -> bool {
        self.time
    }

    /// Whether the caller is interested in the number of octets left.
    pub(crate) fn inq(self) -> bool {
        self.inq_cmsg || self.inq_field
    }
}

impl RecvMsg<'_> {
    /// Reports how many octets are left to read.
    ///
    /// Context: may sleep.
    pub(crate) fn report_inq(&mut self, wanted: WantedCmsgs, left: u32) {
        let left = i32::try_from(left).unwrap_or(i32::MAX);
        // SAFETY: The message is valid by its invariants; `put_cmsg` checks the caller's buffer.
        unsafe {
            bindings::rdma_sock_helper_msg_put_inq(self.as_raw(), left, wanted.inq_cmsg);
        }
    }
}

impl RecvMsg<'_> {
    /// Reports when the data came, in nanoseconds of the system clock, as the options of the socket
    /// want it.
    ///
    /// Context: may sleep.
    pub(crate) fn report_time(&mut self, sk: &Sock, time: u64) {
        // SAFETY: The sock is valid, the message by its invariants; `put_cmsg` checks the caller's
        // buffer.
        unsafe { bindings::rdma_sock_helper_msg_put_time(self.as_raw(), sk.as_raw(), time) }
    }
}

impl SendMsg<'_> {
    /// Checks the control messages of the caller, of which TCP takes those of `SOL_SOCKET`.
    ///
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a message that is malformed, unknown or not allowed.
    pub(crate) fn check_control(&mut self, guard: &SockGuard<'_>) -> Result {
        // SAFETY: The sock is valid and locked, the message valid by its invariants.
        to_result(unsafe {
            bindings::rdma_sock_helper_check_control(guard.as_raw(), self.as_raw())
        })
    }
}

impl Sock {
    /// Whether the program asked for receive timestamps. Context: any.
    pub(crate) fn wants_time(&self) -> bool {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_wants_time(self.as_raw()) }
    }
}
