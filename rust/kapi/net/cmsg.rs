// SPDX-License-Identifier: GPL-2.0

//! What a receive tells its caller beside the data.
//!
//! C headers: [`include/linux/socket.h`](srctree/include/linux/socket.h),
//! [`include/net/scm.h`](srctree/include/net/scm.h)

use super::{
    msg::RecvMsg,
    sock::SockGuard, //
};
use crate::bindings;

/// Which extras a receive has to report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// The program asked for a control message (`TCP_INQ`).
    inq_cmsg: bool,
    /// io_uring asked for the number itself.
    inq_field: bool,
}

impl Wanted {
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
        }
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
    pub(crate) fn report_inq(&mut self, wanted: Wanted, left: u32) {
        let left = i32::try_from(left).unwrap_or(i32::MAX);
        // SAFETY: The message is valid by its invariants; `put_cmsg` checks the caller's buffer.
        unsafe {
            bindings::rdma_sock_helper_msg_put_inq(self.as_raw(), left, wanted.inq_cmsg);
        }
    }
}
