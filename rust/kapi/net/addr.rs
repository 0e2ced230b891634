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
    /// The length of `struct sockaddr_in6`, the larger of the two.
    pub(crate) const MAX_LEN: usize = 28;

    /// Builds an address from its IPv6 or IPv4-mapped form; `v4` says which one is meant.
    pub(super) fn from_mapped(ip: [u8; 16], port: u16, scope: u32, v4: bool) -> Self {
        match (v4, ip) {
            (true, [.., a, b, c, d]) => Addr::V4 {
                ip: [a, b, c, d],
                port,
            },
            (false, ip) => Addr::V6 { ip, port, scope },
        }
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        match *self {
            Addr::V4 { port, .. } | Addr::V6 { port, .. } => port,
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

    /// Whether the address never leaves this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        match self.as_v4() {
            Some([first, ..]) => first == 127,
            None => self.ip_mapped() == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        }
    }

    /// Whether it is the address that stands for any.
    pub(crate) fn is_unspecified(&self) -> bool {
        match self.as_v4() {
            Some(ip) => ip == [0; 4],
            None => self.ip_mapped() == [0; 16],
        }
    }

    /// Reads the octets of a `struct sockaddr_in` or `struct sockaddr_in6`.
    pub(crate) fn parse(octets: &[u8]) -> Option<Self> {
        let (family, rest) = octets.split_first_chunk()?;
        let (port, rest) = rest.split_first_chunk()?;
        let port = u16::from_be_bytes(*port);
        match u16::from_ne_bytes(*family) {
            AF_INET => Some(Addr::V4 {
                ip: *rest.first_chunk()?,
                port,
            }),
            AF_INET6 => {
                let (_flow, rest) = rest.split_first_chunk::<4>()?;
                let (ip, rest) = rest.split_first_chunk()?;
                // Old programs leave the scope away.
                let scope = rest.first_chunk().map_or(0, |s| u32::from_ne_bytes(*s));
                Some(Addr::V6 {
                    ip: *ip,
                    port,
                    scope,
                })
            }
            _ => None,
        }
    }

    /// Writes the octets of a `struct sockaddr_in` or `struct sockaddr_in6`; returns their number.
    pub(crate) fn emit(&self, to: &mut [u8; Self::MAX_LEN]) -> usize {
        *to = [0; Self::MAX_LEN];
        let (family, ip_at, ip_mapped, scope) = match *self {
            Addr::V4 { .. } => (AF_INET, 4, self.ip_mapped(), 0),
            Addr::V6 { ip, scope, .. } => (AF_INET6, 8, ip, scope),
        };
        let ip: &[u8] = match self {
            Addr::V4 { ip, .. } => ip,
            Addr::V6 { .. } => &ip_mapped,
        };
        let put = |to: &mut [u8], at: usize, octets: &[u8]| {
            if let Some(room) = to.get_mut(at..).and_then(|r| r.get_mut(..octets.len())) {
                room.copy_from_slice(octets);
            }
        };
        put(to, 0, &family.to_ne_bytes());
        put(to, 2, &self.port().to_be_bytes());
        put(to, ip_at, ip);
        match self {
            Addr::V4 { .. } => 16,
            Addr::V6 { .. } => {
                put(to, 24, &scope.to_ne_bytes());
                Self::MAX_LEN
            }
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
    fn what_is_emitted_parses_back() {
        let mut buf = [0; Addr::MAX_LEN];
        for addr in [V4, V6] {
            let len = addr.emit(&mut buf);
            assert_eq!(buf.get(..len).and_then(Addr::parse), Some(addr));
        }
    }

    #[test]
    fn truncated_addresses_are_rejected() {
        let mut buf = [0; Addr::MAX_LEN];
        V4.emit(&mut buf);
        for len in 0..8 {
            assert_eq!(buf.get(..len).and_then(Addr::parse), None);
        }
    }

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
