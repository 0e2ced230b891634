// SPDX-License-Identifier: GPL-2.0

//! The headers of the network in front of a packet: IPv4 and IPv6 with UDP (RoCE v2), and the GRH
//! (RoCE v1). The ICRC starts with their invariant parts (RNIC-ICRC-02 to RNIC-ICRC-04).

use super::{
    crc32::Crc32,
    icrc::ICRC_LEN, //
};
use zerocopy::{
    byteorder::network_endian::{
        U16,
        U32, //
    },
    FromBytes,
    IntoBytes, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// UDP port of RoCE v2 (RNIC-IP-01).
pub(crate) const UDP_PORT: u16 = 4791;

/// Octets of a UDP header.
const UDP_LEN: u16 = 8;

/// Octets of an IPv4 header without options (RNIC-ICRC-08).
const IPV4_LEN: u16 = 20;

/// Version 4 and five words.
const IPV4_VERSION: u8 = 0x45;

/// IP protocol number of UDP.
const PROTO_UDP: u8 = 17;

/// Next header of a GRH that a BTH follows (RNIC-IP-04).
const NEXT_BTH: u8 = 0x1b;

/// More fragments, and the offset of a fragment.
const FRAGMENT: u16 = 0x3fff;

/// Do not fragment (RNIC-ICRC-09).
const DONT_FRAGMENT: u16 = 0x4000;

/// The octets of an IPv4 header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawIpv4 {
    /// Version b7-4, header length in words b3-0.
    version: u8,
    /// DSCP and ECN.
    tos: u8,
    /// Octets of the header and everything behind it.
    total_len: U16,
    /// Identification.
    ident: U16,
    /// Flags b15-13, fragment offset b12-0.
    fragment: U16,
    /// Time to live.
    ttl: u8,
    /// Protocol behind the header.
    protocol: u8,
    /// Checksum of the header.
    check: [u8; 2],
    /// Source address.
    src: [u8; 4],
    /// Destination address.
    dst: [u8; 4],
}

/// The octets of an IPv6 header or GRH.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawIpv6 {
    /// Version b31-28, traffic class b27-20, flow label b19-0.
    first: U32,
    /// Octets behind the header.
    payload_len: U16,
    /// Protocol behind the header.
    next_header: u8,
    /// Hop limit.
    hop_limit: u8,
    /// Source address or GID.
    src: [u8; 16],
    /// Destination address or GID.
    dst: [u8; 16],
}

/// The octets of a UDP header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawUdp {
    src_port: U16,
    dst_port: U16,
    len: U16,
    check: [u8; 2],
}

impl RawUdp {
    /// The header in front of `len` octets less its own, without a checksum.
    fn new(src_port: u16, len: u16) -> Self {
        Self {
            src_port: U16::new(src_port),
            dst_port: U16::new(UDP_PORT),
            len: U16::new(len),
            check: [0; 2],
        }
    }
}

/// The fields of an IPv4 header that differ between packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ipv4 {
    /// DSCP and ECN.
    pub(crate) tos: u8,
    /// Identification, which the ICRC covers.
    pub(crate) ident: u16,
    /// Flags and offset; not of a fragment.
    pub(crate) fragment: u16,
    /// Time to live.
    pub(crate) ttl: u8,
    /// Source address.
    pub(crate) src: [u8; 4],
    /// Destination address.
    pub(crate) dst: [u8; 4],
}

/// The fields of an IPv6 header or GRH that differ between packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ipv6 {
    /// Traffic class.
    pub(crate) class: u8,
    /// Flow label, 20 bits.
    pub(crate) flow: u32,
    /// Hop limit.
    pub(crate) hops: u8,
    /// Source address or GID.
    pub(crate) src: [u8; 16],
    /// Destination address or GID.
    pub(crate) dst: [u8; 16],
}

/// The protocol in front of the BTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoceRoute {
    /// RoCE v2 over IPv4, with the source port of UDP.
    V2Ipv4(Ipv4, u16),
    /// RoCE v2 over IPv6, with the source port of UDP.
    V2Ipv6(Ipv6, u16),
    /// RoCE v1: a GRH behind the Ethernet header.
    V1(Ipv6),
}

impl RoceRoute {
    /// Octets from the BTH to the ICRC that the length fields of the network count with their own.
    const fn overhead(&self) -> u16 {
        match self {
            Self::V2Ipv4(..) => IPV4_LEN.wrapping_add(UDP_LEN),
            Self::V2Ipv6(..) => UDP_LEN,
            Self::V1(_) => 0,
        }
    }

    /// The headers in front of a packet of `transport` octets from the BTH to the padding; `None`
    /// if IP cannot carry as many.
    pub(crate) fn frame(self, transport: usize) -> Option<Frame> {
        let len = transport
            .checked_add(ICRC_LEN)?
            .checked_add(usize::from(self.overhead()))?;
        Some(Frame {
            route: self,
            len: u16::try_from(len).ok()?,
        })
    }
}

/// Why octets are not in front of a packet of RoCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// They end within a header, or before the length that a header says.
    Truncated,
    /// Another version of IP, or options (RNIC-ICRC-08).
    Version,
    /// A fragment (RNIC-ICRC-08).
    Fragment,
    /// Another protocol or port.
    Protocol,
    /// The lengths of two headers disagree (RNIC-HDR-07).
    Length,
}

/// The headers of the network in front of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Addresses and the like.
    pub(crate) route: RoceRoute,
    /// Total length of IPv4, payload length of IPv6 or GRH.
    len: u16,
}

impl Frame {
    /// Octets of the longest headers.
    pub(crate) const MAX_LEN: usize = 48;

    /// The length of UDP.
    const fn udp_len(&self) -> u16 {
        match self.route {
            RoceRoute::V2Ipv4(..) => self.len.wrapping_sub(IPV4_LEN),
            _ => self.len,
        }
    }

    /// The IPv4 header without a checksum.
    fn raw_ipv4(&self, ip: &Ipv4) -> RawIpv4 {
        RawIpv4 {
            version: IPV4_VERSION,
            tos: ip.tos,
            total_len: U16::new(self.len),
            ident: U16::new(ip.ident),
            fragment: U16::new(ip.fragment),
            ttl: ip.ttl,
            protocol: PROTO_UDP,
            check: [0; 2],
            src: ip.src,
            dst: ip.dst,
        }
    }

    /// The IPv6 header or GRH.
    fn raw_ipv6(&self, ip: &Ipv6, next_header: u8) -> RawIpv6 {
        let class = u32::from(ip.class) << 20;
        RawIpv6 {
            first: U32::new((6 << 28) | class | ip.flow & 0x000f_ffff),
            payload_len: U16::new(self.len),
            next_header,
            hop_limit: ip.hops,
            src: ip.src,
            dst: ip.dst,
        }
    }

    /// Continues a checksum with the headers, in which all fields that routers change are ones.
    pub(super) fn update_masked(&self, crc: Crc32) -> Crc32 {
        let masked_udp = |port| RawUdp {
            check: [0xff; 2],
            ..RawUdp::new(port, self.udp_len())
        };
        let masked_ipv6 = |ip: &Ipv6, next_header| {
            let ip = Ipv6 {
                class: 0xff,
                flow: u32::MAX,
                hops: 0xff,
                ..*ip
            };
            self.raw_ipv6(&ip, next_header)
        };
        match &self.route {
            RoceRoute::V2Ipv4(ip, port) => {
                let raw = RawIpv4 {
                    tos: 0xff,
                    ttl: 0xff,
                    check: [0xff; 2],
                    ..self.raw_ipv4(ip)
                };
                crc.update(raw.as_bytes())
                    .update(masked_udp(*port).as_bytes())
            }
            RoceRoute::V2Ipv6(ip, port) => crc
                .update(masked_ipv6(ip, PROTO_UDP).as_bytes())
                .update(masked_udp(*port).as_bytes()),
            RoceRoute::V1(ip) => crc.update(masked_ipv6(ip, NEXT_BTH).as_bytes()),
        }
    }

    /// Writes the headers with a UDP checksum of zero and returns their octets; `None` without
    /// room.
    pub(crate) fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        let room = buf.len();
        let rest = match &self.route {
            RoceRoute::V2Ipv4(ip, port) => {
                let mut raw = self.raw_ipv4(ip);
                raw.check = ipv4_checksum(raw.as_bytes());
                let rest = put(&raw, buf)?;
                put(&RawUdp::new(*port, self.udp_len()), rest)?
            }
            RoceRoute::V2Ipv6(ip, port) => {
                let rest = put(&self.raw_ipv6(ip, PROTO_UDP), buf)?;
                put(&RawUdp::new(*port, self.udp_len()), rest)?
            }
            RoceRoute::V1(ip) => put(&self.raw_ipv6(ip, NEXT_BTH), buf)?,
        };
        room.checked_sub(rest.len())
    }

    /// Reads IPv4 and UDP, and returns the octets from the BTH to the ICRC. Octets behind the
    /// length of IP are padding of Ethernet.
    ///
    /// # Errors
    ///
    /// See [`FrameError`]. The checksums are the network stack's to verify.
    pub(crate) fn parse_ipv4(octets: &[u8]) -> Result<(Self, &[u8]), FrameError> {
        let (raw, rest) = RawIpv4::ref_from_prefix(octets).map_err(|_| FrameError::Truncated)?;
        if raw.version != IPV4_VERSION {
            return Err(FrameError::Version);
        }
        if raw.fragment.get() & FRAGMENT != 0 {
            return Err(FrameError::Fragment);
        }
        if raw.protocol != PROTO_UDP {
            return Err(FrameError::Protocol);
        }
        let len = raw.total_len.get();
        let udp_len = len.checked_sub(IPV4_LEN).ok_or(FrameError::Length)?;
        let (port, transport) = parse_udp(rest, udp_len)?;
        let ip = Ipv4 {
            tos: raw.tos,
            ident: raw.ident.get(),
            fragment: raw.fragment.get(),
            ttl: raw.ttl,
            src: raw.src,
            dst: raw.dst,
        };
        let route = RoceRoute::V2Ipv4(ip, port);
        Ok((Self { route, len }, transport))
    }

    /// Reads IPv6 and UDP, and returns the octets from the BTH to the ICRC.
    ///
    /// # Errors
    ///
    /// See [`FrameError`].
    pub(crate) fn parse_ipv6(octets: &[u8]) -> Result<(Self, &[u8]), FrameError> {
        let (ip, len, rest) = take_ipv6(octets, PROTO_UDP)?;
        let (port, transport) = parse_udp(rest, len)?;
        let route = RoceRoute::V2Ipv6(ip, port);
        Ok((Self { route, len }, transport))
    }

    /// Reads a GRH, and returns the octets from the BTH to the ICRC (RNIC-IP-05).
    ///
    /// # Errors
    ///
    /// See [`FrameError`].
    pub(crate) fn parse_grh(octets: &[u8]) -> Result<(Self, &[u8]), FrameError> {
        let (ip, len, rest) = take_ipv6(octets, NEXT_BTH)?;
        let transport = rest.get(..usize::from(len)).ok_or(FrameError::Truncated)?;
        let route = RoceRoute::V1(ip);
        Ok((Self { route, len }, transport))
    }
}

/// Writes a header and returns the rest.
fn put<'a>(
    header: &(impl IntoBytes + zerocopy::Immutable),
    buf: &'a mut [u8],
) -> Option<&'a mut [u8]> {
    let octets = header.as_bytes();
    let (room, rest) = buf.split_at_mut_checked(octets.len())?;
    room.copy_from_slice(octets);
    Some(rest)
}

/// Reads an IPv6 header or GRH: its fields, the payload length, and the octets behind it.
fn take_ipv6(octets: &[u8], next_header: u8) -> Result<(Ipv6, u16, &[u8]), FrameError> {
    let (raw, rest) = RawIpv6::ref_from_prefix(octets).map_err(|_| FrameError::Truncated)?;
    let first = raw.first.get();
    if first >> 28 != 6 {
        return Err(FrameError::Version);
    }
    if raw.next_header != next_header {
        return Err(FrameError::Protocol);
    }
    let [_, _, class_high, _] = (first >> 4).to_le_bytes();
    let ip = Ipv6 {
        class: class_high,
        flow: first & 0x000f_ffff,
        hops: raw.hop_limit,
        src: raw.src,
        dst: raw.dst,
    };
    Ok((ip, raw.payload_len.get(), rest))
}

/// Reads a UDP header in a packet of `len` octets: the source port and the octets behind it.
fn parse_udp(octets: &[u8], len: u16) -> Result<(u16, &[u8]), FrameError> {
    let octets = octets
        .get(..usize::from(len))
        .ok_or(FrameError::Truncated)?;
    let (raw, rest) = RawUdp::ref_from_prefix(octets).map_err(|_| FrameError::Truncated)?;
    if raw.dst_port.get() != UDP_PORT {
        return Err(FrameError::Protocol);
    }
    if raw.len.get() != len {
        return Err(FrameError::Length);
    }
    Ok((raw.src_port.get(), rest))
}

/// The checksum of an IPv4 header whose checksum field is zero.
fn ipv4_checksum(header: &[u8]) -> [u8; 2] {
    let mut sum = 0_u32;
    let mut rest = header;
    while let Some((word, tail)) = rest.split_first_chunk::<2>() {
        // No overflow: ten words.
        sum = sum.wrapping_add(u32::from(u16::from_be_bytes(*word)));
        rest = tail;
    }
    let fold = |sum: u32| (sum & 0xffff).wrapping_add(sum >> 16);
    let [_, _, high, low] = (!fold(fold(sum))).to_be_bytes();
    [high, low]
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_frame))]
mod tests {
    use super::*;

    const V4: RoceRoute = RoceRoute::V2Ipv4(
        Ipv4 {
            tos: 2,
            ident: 0xffff,
            fragment: DONT_FRAGMENT,
            ttl: 64,
            src: [10, 0, 0, 1],
            dst: [10, 0, 0, 2],
        },
        0xc0de,
    );
    const IPV6: Ipv6 = Ipv6 {
        class: 0xb8,
        flow: 0x5_1234,
        hops: 3,
        src: [1; 16],
        dst: [2; 16],
    };
    const V6: RoceRoute = RoceRoute::V2Ipv6(IPV6, 0xc001);

    /// The parser of a route.
    fn parse(route: RoceRoute, octets: &[u8]) -> Result<(Frame, &[u8]), FrameError> {
        match route {
            RoceRoute::V2Ipv4(..) => Frame::parse_ipv4(octets),
            RoceRoute::V2Ipv6(..) => Frame::parse_ipv6(octets),
            RoceRoute::V1(_) => Frame::parse_grh(octets),
        }
    }

    /// RNIC-HDR-07, RNIC-HDR-08, RNIC-IP-05: 12 octets of transport, an ICRC, and Ethernet padding.
    #[test]
    fn headers_of_every_route_survive() {
        for (route, len) in [(V4, 28), (V6, 48), (RoceRoute::V1(IPV6), 40)] {
            let mut buf = [0xee; 80];
            let frame = route.frame(12);
            assert_eq!(frame.and_then(|frame| frame.emit(&mut buf)), Some(len));
            let parsed = parse(route, &buf);
            assert_eq!(parsed.ok().map(|(frame, _)| frame), frame);
            assert_eq!(parsed.map(|(_, rest)| rest.len()), Ok(16));
            for short in 0..len + 16 {
                let octets = buf.get(..short).unwrap_or(&[]);
                assert_eq!(parse(route, octets), Err(FrameError::Truncated));
            }
            let mut short = [0; 80];
            let room = short.get_mut(..len - 1).unwrap_or(&mut []);
            assert_eq!(frame.and_then(|frame| frame.emit(room)), None);
        }
    }

    /// Parses a frame of a route after a change of one octet.
    fn changed(route: RoceRoute, at: usize, value: u8) -> Option<FrameError> {
        let mut buf = [0; 80];
        route.frame(12).and_then(|frame| frame.emit(&mut buf));
        buf[at] = value;
        parse(route, &buf).err()
    }

    /// RNIC-ICRC-08, RNIC-IP-05, RNIC-HDR-07.
    #[test]
    fn header_of_something_else_is_refused() {
        let v1 = RoceRoute::V1(IPV6);
        assert_eq!(changed(V4, 0, 0x45), None);
        assert_eq!(changed(V4, 0, 0x46), Some(FrameError::Version));
        assert_eq!(changed(V4, 0, 0x65), Some(FrameError::Version));
        assert_eq!(changed(V4, 6, 0x60), Some(FrameError::Fragment));
        assert_eq!(changed(V4, 7, 1), Some(FrameError::Fragment));
        assert_eq!(changed(V4, 9, 6), Some(FrameError::Protocol));
        assert_eq!(changed(V4, 23, 0), Some(FrameError::Protocol));
        assert_eq!(changed(V4, 25, 23), Some(FrameError::Length));
        assert_eq!(changed(V4, 3, 19), Some(FrameError::Length));
        assert_eq!(changed(V6, 0, 0x45), Some(FrameError::Version));
        assert_eq!(changed(V6, 6, 0x1b), Some(FrameError::Protocol));
        assert_eq!(changed(V6, 45, 23), Some(FrameError::Length));
        assert_eq!(changed(v1, 6, 17), Some(FrameError::Protocol));
        // RNIC-IP-05: the hop limit is not checked.
        assert_eq!(changed(v1, 7, 0), None);
    }

    #[test]
    fn packet_that_ip_cannot_carry_has_no_frame() {
        assert!(V4.frame(65_535 - 32).is_some());
        assert!(V4.frame(65_535 - 31).is_none());
        assert!(RoceRoute::V1(IPV6).frame(usize::MAX).is_none());
    }
}
