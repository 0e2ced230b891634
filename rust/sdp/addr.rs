// SPDX-License-Identifier: GPL-2.0

//! Addresses of sockets as the Port Mapper names them.

use crate::{
    kapi::net::addr::Addr,
    proto::sdp::pm::msg::PmAddr, //
};
use core::net::{
    IpAddr,
    Ipv6Addr, //
};

/// The form of the Port Mapper. `None` for an address of one link, as a message has no place for the
/// interface. An IPv4-mapped address is one of IPv4.
pub(crate) fn to_pm(addr: &Addr) -> Option<PmAddr> {
    let port = match *addr {
        Addr::V4 { port, .. } => port,
        Addr::V6 { scope, .. } if scope != 0 => return None,
        Addr::V6 { port, .. } => port,
    };
    let ip = match addr.as_v4() {
        Some(v4) => IpAddr::from(v4),
        None => IpAddr::from(addr.ip_mapped()),
    };
    let is_of_link = matches!(ip, IpAddr::V6(ip) if is_link_local(ip));
    (!is_of_link).then_some(PmAddr { ip, port })
}

const fn is_link_local(ip: Ipv6Addr) -> bool {
    let [first, ..] = ip.segments();
    first & 0xffc0 == 0xfe80
}

/// The form of a socket.
pub(crate) fn from_pm(addr: PmAddr) -> Addr {
    let port = addr.port;
    match addr.ip {
        IpAddr::V4(ip) => Addr::V4 {
            ip: ip.octets(),
            port,
        },
        IpAddr::V6(ip) => Addr::V6 {
            ip: ip.octets(),
            port,
            scope: 0,
        },
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_sdp_addr)]
mod tests {
    use super::*;

    const V4: Addr = Addr::V4 {
        ip: [192, 168, 7, 1],
        port: 4711,
    };

    fn v6(first: [u8; 2], scope: u32) -> Addr {
        let [a, b] = first;
        Addr::V6 {
            ip: [a, b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7],
            port: 80,
            scope,
        }
    }

    #[test]
    fn address_of_each_version_comes_back() {
        for addr in [V4, v6([0xfd, 0], 0), v6([0x20, 1], 0)] {
            assert!(to_pm(&addr).map(from_pm) == Some(addr));
        }
    }

    #[test]
    fn mapped_address_is_one_of_ipv4() {
        let mapped = Addr::V6 {
            ip: V4.ip_mapped(),
            port: 4711,
            scope: 0,
        };
        assert!(to_pm(&mapped) == to_pm(&V4));
        assert!(to_pm(&mapped).map(from_pm) == Some(V4));
    }

    #[test]
    fn address_of_one_link_has_no_form() {
        assert!(to_pm(&v6([0xfe, 0x80], 3)).is_none());
        assert!(to_pm(&v6([0xfe, 0x80], 0)).is_none());
        assert!(to_pm(&v6([0xfd, 0], 3)).is_none());
    }
}
