// SPDX-License-Identifier: GPL-2.0

//! Events for tracing: those of `net/smc` with their names, and the payload of connections.
//!
//! C header: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h)

use super::sock::Sock;
use crate::bindings;
use core::ptr::from_ref;

/// What a call did with octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It took them from the program.
    Sent,
    /// It gave them to the program.
    Received,
}

impl Moved {
    /// Whether a tracer wants to know. Context: any.
    pub(crate) fn is_traced(self) -> bool {
        // SAFETY: Both only read whether an event is on.
        unsafe {
            match self {
                Self::Sent => bindings::rdma_sock_helper_traces_sent(),
                Self::Received => bindings::rdma_sock_helper_traces_received(),
            }
        }
    }

    /// Reports the octets of a connection on an RDMA device of that name. Context: any.
    pub(crate) fn trace(self, sk: &Sock, octets: usize, device: &[u8]) {
        let (sk, name, len) = (sk.as_raw(), device.as_ptr(), device.len());
        // SAFETY: The sock is valid, and the name for its length.
        unsafe {
            match self {
                Self::Sent => bindings::rdma_sock_helper_trace_sent(sk, octets, name, len),
                Self::Received => bindings::rdma_sock_helper_trace_received(sk, octets, name, len),
            }
        }
    }
}

/// Whether a tracer wants the payload of connections. Context: any.
pub(crate) fn captures_payload() -> bool {
    // SAFETY: It only reads whether an event is on.
    unsafe { bindings::rdma_sock_helper_captures() }
}

/// Reports octets that a call has moved; `position` octets of the direction are in front of them. Context:
/// any.
pub(crate) fn trace_payload(sk: &Sock, how: Moved, position: u64, octets: &[u8]) {
    let sent = how == Moved::Sent;
    // SAFETY: The sock is valid, and the octets for their length.
    unsafe {
        bindings::rdma_sock_helper_capture(
            sk.as_raw(),
            sent,
            position,
            octets.as_ptr(),
            octets.len(),
        )
    }
}

/// Reports a connection that is one of TCP. Context: any.
pub(crate) fn trace_fallback(sk: &Sock, reason: u32) {
    // SAFETY: The sock is valid.
    unsafe { bindings::rdma_sock_helper_trace_fallback(sk.as_raw(), reason) }
}

/// Reports a link, on an RDMA device of that name, of a group of a network namespace that goes down
/// from `state`. The objects are reported by their addresses. Context: any.
pub(crate) fn trace_link_down<L, G>(
    (link, group): (&L, &G),
    net_cookie: u64,
    state: i32,
    device: &[u8],
) {
    // SAFETY: The name is valid for its length; the objects are only addresses.
    unsafe {
        bindings::rdma_sock_helper_trace_link_down(
            from_ref(link).cast(),
            from_ref(group).cast(),
            net_cookie,
            state,
            device.as_ptr(),
            device.len(),
        )
    }
}
