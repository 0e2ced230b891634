// SPDX-License-Identifier: GPL-2.0

//! IPsec: whether the segments of a socket are, or would be, protected by it.
//!
//! C header: [`include/net/xfrm.h`](srctree/include/net/xfrm.h)

use super::{
    msg::Name,
    sock::Sock, //
};
use crate::bindings;

impl Sock {
    /// Whether the user put an IPsec policy on the socket. Context: any.
    pub(crate) fn has_ipsec_policy(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_xfrm_socket(self.as_raw()) }
    }

    /// Whether a policy of the namespace protects the path the connection takes now. Context: any.
    pub(crate) fn is_path_protected(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_xfrm_path(self.as_raw()) }
    }

    /// Whether a connection to that address would be protected, or wait for keys. An address that
    /// is none, or has no route, is not. Context: may sleep.
    pub(crate) fn would_be_protected(&self, name: &Name) -> bool {
        // SAFETY: The sock is valid, and `name` is an address of that length.
        unsafe { bindings::rdma_sock_helper_xfrm_route(self.as_raw(), name.raw, name.len) }
    }
}
