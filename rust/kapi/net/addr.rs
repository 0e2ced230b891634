// SPDX-License-Identifier: GPL-2.0

//! Internet socket addresses as values.
//!
//! C headers: [`include/uapi/linux/in.h`](srctree/include/uapi/linux/in.h),
//! [`include/uapi/linux/in6.h`](srctree/include/uapi/linux/in6.h)

/// The number of the address family of IPv4 sockets.
pub(crate) const AF_INET: u16 = 2;
/// The number of the address family of IPv6 sockets.
pub(crate) const AF_INET6: u16 = 10;

/// The first octets of an IPv4 address written as an IPv6 address.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// An address and a port, in host byte order where numbers are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addr {
    /// An IPv4 address.
    V4 {
        /// The octets of the address.
        ip: [u8; 4],
        /// The port.
        port: u16,
    },
    /// An IPv6 address.
    V6 {
        /// The octets of the address.
        ip: [u8; 16],
        /// The port.
        port: u16,
        /// The interface a link-local address belongs to, otherwise 0.
        scope: u32,
    },
}

impl Addr {
    /// Builds an address from its IPv6 or IPv4-mapped form; `v4` says which one is meant.
    pub(crate) fn from_mapped(ip: [u8; 16], port: u16, scope: u32, v4: bool) -> Self {
        match (v4, ip) {
            (true, [.., a, b, c, d]) => Addr::V4 {
                ip: [a, b, c, d],
                port,
            },
            (false, ip) => Addr::V6 { ip, port, scope },
        }
    }

    /// The address as an IPv6 address; an IPv4 address in its mapped form.
    pub(crate) fn ip_mapped(&self) -> [u8; 16] {
        match *self {
            Addr::V6 { ip, .. } => ip,
            Addr::V4 { ip, .. } => {
                let mut mapped = [0; 16];
                let (head, tail) = mapped.split_at_mut(MAPPED.len());
                head.copy_from_slice(&MAPPED);
                tail.copy_from_slice(&ip);
                mapped
            }
        }
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        match *self {
            Addr::V4 { port, .. } | Addr::V6 { port, .. } => port,
        }
    }

    /// The interface that a link-local address belongs to, otherwise 0.
    pub(crate) fn scope(&self) -> u32 {
        match *self {
            Addr::V6 { scope, .. } => scope,
            Addr::V4 { .. } => 0,
        }
    }

    /// The loopback address of the same protocol, in the form of [`Self::ip_mapped`].
    pub(crate) fn loopback(&self) -> [u8; 16] {
        match self.as_v4() {
            Some(_) => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1],
            None => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        }
    }

    /// The IPv4 address, also of an IPv4-mapped IPv6 address.
    pub(crate) fn as_v4(&self) -> Option<[u8; 4]> {
        match *self {
            Addr::V4 { ip, .. } => Some(ip),
            Addr::V6 { ip, .. } => match ip {
                [head @ .., a, b, c, d] if head == MAPPED => Some([a, b, c, d]),
                _ => None,
            },
        }
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_kapi_net_addr)]
mod tests {
    use super::*;

    const V4: Addr = Addr::V4 {
        ip: [192, 168, 7, 1],
        port: 4711,
    };
    const V6: Addr = Addr::V6 {
        ip: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        port: 80,
        scope: 3,
    };

    #[test]
    fn a_mapped_address_is_an_ipv4_address() {
        let mapped = Addr::V6 {
            ip: V4.ip_mapped(),
            port: 1,
            scope: 0,
        };
        assert_eq!(mapped.as_v4(), Some([192, 168, 7, 1]));
        assert_eq!(V6.as_v4(), None);
    }
}
