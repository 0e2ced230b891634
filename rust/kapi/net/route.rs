// SPDX-License-Identifier: GPL-2.0

//! Routes: whether a gateway is on the way to a host, and which.
//!
//! C headers: [`include/net/route.h`](srctree/include/net/route.h),
//! [`include/net/neighbour.h`](srctree/include/net/neighbour.h)

use super::netns::NetRef;
use crate::bindings;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Where packets to a host go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextHop {
    /// To the host.
    Host,
    /// To a gateway with this Ethernet address.
    Gateway([u8; 6]),
}

/// The next hop on the way from one IPv4 address to another. May sleep.
///
/// # Errors
///
/// `EAGAIN` when the address of the gateway is not known yet; it has been asked for. Another error
/// when there is no route.
pub(crate) fn next_hop(net: &NetRef, from: [u8; 4], to: [u8; 4]) -> Result<NextHop> {
    let (mut mac, mut gateway) = ([0; 6], false);
    // SAFETY: The namespace is valid, and both results are valid for writes; only addresses
    // of six octets are written.
    let ret = unsafe {
        bindings::rdma_sock_helper_next_hop(
            net.as_raw(),
            u32::from_ne_bytes(from),
            u32::from_ne_bytes(to),
            mac.as_mut_ptr(),
            &mut gateway,
        )
    };
    to_result(ret)?;
    Ok(match gateway {
        true => NextHop::Gateway(mac),
        false => NextHop::Host,
    })
}
