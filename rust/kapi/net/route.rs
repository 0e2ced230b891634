// SPDX-License-Identifier: GPL-2.0

//! Routes: the next hop from one address to another.
//!
//! C headers: [`include/net/route.h`](srctree/include/net/route.h),
//! [`include/net/ip6_route.h`](srctree/include/net/ip6_route.h),
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

/// Addresses of one family, as they are sent.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// From one IPv4 address to another.
    V4([u8; 4], [u8; 4]),
    /// From one IPv6 address to another, which is no link-local one.
    V6([u8; 16], [u8; 16]),
}

/// Looks up the next hop from one address to another. Context: may sleep.
///
/// # Errors
///
/// `EAGAIN` when the address of the gateway is not known yet; it has been asked for. Another error
/// when there is no route.
pub(crate) fn next_hop(net: &NetRef, way: Way) -> Result<NextHop> {
    let (mut mac, mut gateway) = ([0; 6], false);
    let ret = match way {
        // SAFETY: The namespace is valid, and both results are valid for writes; only addresses
        // of six octets are written.
        Way::V4(from, to) => unsafe {
            bindings::rdma_sock_helper_next_hop(
                net.as_raw(),
                u32::from_ne_bytes(from),
                u32::from_ne_bytes(to),
                mac.as_mut_ptr(),
                &mut gateway,
            )
        },
        // SAFETY: As above; both addresses are 16 octets that are valid for reads.
        Way::V6(from, to) => unsafe {
            bindings::rdma_sock_helper_next_hop6(
                net.as_raw(),
                from.as_ptr(),
                to.as_ptr(),
                mac.as_mut_ptr(),
                &mut gateway,
            )
        },
    };
    to_result(ret)?;
    Ok(if gateway {
        NextHop::Gateway(mac)
    } else {
        NextHop::Host
    })
}
