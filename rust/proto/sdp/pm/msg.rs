// SPDX-License-Identifier: GPL-2.0

//! The message of the Port Mapper, draft 7.3 and 7.4 (SDP-PMF-*, SDP-PMT-*). All four types have
//! one format, in the bit order of the IETF whatever the layout of SDP headers (SDP-WIRE-03).

use crate::proto::base::time::Duration;
use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr, //
};
use zerocopy::{
    byteorder::network_endian::{
        U16,
        U64, //
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

/// UDP port of a Port Mapper (SDP-CONST-14).
pub(crate) const PORT: u16 = 3935;

/// Octets of a message (SDP-CONST-15).
pub(crate) const LEN: usize = 48;

/// The type of a message (SDP-PMF-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PmKind {
    /// The client asks.
    Req,
    /// The server has the service.
    Accept,
    /// The client has the answer.
    Ack,
    /// The server has not.
    Deny,
}

impl PmKind {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Req,
            1 => Self::Accept,
            2 => Self::Ack,
            _ => Self::Deny,
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Req => 0,
            Self::Accept => 1,
            Self::Ack => 2,
            Self::Deny => 3,
        }
    }
}

/// An address and a TCP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PmAddr {
    /// IP address.
    pub(crate) ip: IpAddr,
    /// TCP port.
    pub(crate) port: u16,
}

/// Why octets are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PmFault {
    /// Fewer than 48 (SDP-PMF-24). More are accepted, as `iwpmd` sends them (SDP-PMF-25).
    Length,
    /// A version other than 0 (SDP-PMF-02).
    Version,
    /// An IP version other than 4 and 6 (SDP-PMF-04).
    IpVersion,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PmMessage {
    /// Its type.
    pub(crate) kind: PmKind,
    /// How long the answer may be kept, in a coded form; of PMAccept only.
    pub(crate) time: u8,
    /// The service, or where it is by SDP (SDP-PMF-08, SDP-PMF-14).
    pub(crate) service: PmAddr,
    /// The client (SDP-PMF-10, SDP-PMF-13). Both addresses have one IP version.
    pub(crate) client: PmAddr,
    /// Tells transactions apart (SDP-PMF-11).
    pub(crate) handle: u64,
}

/// The octets of a message.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPm {
    /// Version, type, IP version.
    lead: u8,
    /// Lifetime of the answer.
    time: u8,
    /// Zero.
    reserved: U16,
    /// Port of the service.
    service_port: U16,
    /// Port of the client.
    client_port: U16,
    /// Handle of the transaction.
    handle: U64,
    /// Address of the client.
    client_ip: [u8; 16],
    /// Address of the service.
    service_ip: [u8; 16],
}

/// An address of version 4 takes the first octets, unlike in Hello (SDP-PMF-05).
fn raw_ip(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

fn read_ip(raw: [u8; 16], version: u8) -> Result<IpAddr, PmFault> {
    match version {
        4 => {
            let [a, b, c, d, ..] = raw;
            Ok(Ipv4Addr::new(a, b, c, d).into())
        }
        6 => Ok(Ipv6Addr::from(raw).into()),
        _ => Err(PmFault::IpVersion),
    }
}

impl PmMessage {
    /// Reads a datagram.
    pub(crate) fn parse(octets: &[u8]) -> Result<Self, PmFault> {
        let (raw, _) = RawPm::ref_from_prefix(octets).map_err(|_| PmFault::Length)?;
        if raw.lead >> 6 != 0 {
            return Err(PmFault::Version);
        }
        let version = raw.lead & 0xf;
        Ok(Self {
            kind: PmKind::from_bits(raw.lead >> 4),
            time: raw.time,
            service: PmAddr {
                ip: read_ip(raw.service_ip, version)?,
                port: raw.service_port.get(),
            },
            client: PmAddr {
                ip: read_ip(raw.client_ip, version)?,
                port: raw.client_port.get(),
            },
            handle: raw.handle.get(),
        })
    }

    /// The octets to send.
    pub(crate) fn emit(&self) -> [u8; LEN] {
        let version = match self.service.ip {
            IpAddr::V4(_) => 4,
            IpAddr::V6(_) => 6,
        };
        let raw = RawPm {
            lead: (self.kind.bits() << 4) | version,
            time: match self.kind {
                PmKind::Accept => self.time,
                _ => 0,
            },
            reserved: U16::ZERO,
            service_port: U16::new(self.service.port),
            client_port: U16::new(self.client.port),
            handle: U64::new(self.handle),
            client_ip: raw_ip(self.client.ip),
            service_ip: raw_ip(self.service.ip),
        };
        let mut octets = [0; LEN];
        // Cannot fail: the sizes are equal, as the tests show.
        let _ = raw.write_to(&mut octets);
        octets
    }

    /// The service that a PMReq asks for, if it is one of the address that the request was sent to.
    /// This Port Mapper answers for no other host (SDP-PM-02).
    pub(crate) fn service_at(&self, asked: IpAddr) -> Option<PmAddr> {
        let is_ours = self.kind == PmKind::Req && self.service.ip == asked;
        is_ours.then_some(self.service)
    }

    /// Whether two messages are of one transaction, as its client sees it (SDP-PMC-02).
    pub(crate) fn is_answer_to(&self, request: &Self) -> bool {
        self.handle == request.handle && self.client == request.client
    }
}

/// How long an answer may be kept (SDP-PMT-0 to SDP-PMT-3). `None`: for one connection.
pub(crate) const fn lifetime(time: u8) -> Option<PmLifetime> {
    Some(match time {
        0 => return None,
        1..=127 => PmLifetime::Span(span(time, 250)),
        128..=254 => PmLifetime::Span(span(time, 1000)),
        255 => PmLifetime::Unlimited,
    })
}

/// A number of units of `millis` milliseconds each.
const fn span(units: u8, millis: u64) -> Duration {
    let units = u64::from_le_bytes([units, 0, 0, 0, 0, 0, 0, 0]);
    Duration::from_millis(millis).saturating_mul(units)
}

/// How long an answer may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PmLifetime {
    /// For this time.
    Span(Duration),
    /// Without limit.
    Unlimited,
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_pm_msg))]
mod tests {
    use super::*;

    const V4: [u8; LEN] = [
        0x04, 0, 0, 0, 0x13, 0x89, 0x9c, 0x40, 1, 2, 3, 4, 5, 6, 7, 8, // numbers
        10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // client
        10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // service
    ];

    fn v4(kind: PmKind, time: u8) -> PmMessage {
        PmMessage {
            kind,
            time,
            service: PmAddr {
                ip: Ipv4Addr::new(10, 0, 0, 2).into(),
                port: 5001,
            },
            client: PmAddr {
                ip: Ipv4Addr::new(10, 0, 0, 1).into(),
                port: 40000,
            },
            handle: 0x0102_0304_0506_0708,
        }
    }

    const KINDS: [(PmKind, u8); 4] = [
        (PmKind::Req, 0x00),
        (PmKind::Accept, 0x10),
        (PmKind::Ack, 0x20),
        (PmKind::Deny, 0x30),
    ];

    // SDP-PMF-01 to SDP-PMF-06, SDP-PMF-08, SDP-PMF-10, SDP-PMF-11, SDP-PMF-13, SDP-WIRE-03,
    // TST-280.
    #[test]
    fn message_of_each_type_has_its_octets() {
        for (kind, bits) in KINDS {
            let mut octets = V4;
            octets[0] |= bits;
            let message = v4(kind, 0);
            assert_eq!(message.emit(), octets);
            assert_eq!(PmMessage::parse(&octets), Ok(message));
        }
    }

    #[test]
    fn message_over_ipv6_fills_its_addresses() {
        let mut message = v4(PmKind::Accept, 120);
        let ip = |last| Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, last).into();
        message.client.ip = ip(7);
        message.service.ip = ip(8);
        let octets = message.emit();
        assert_eq!((octets[0], octets[1]), (0x16, 120));
        assert_eq!(
            octets[16..32],
            [0xfd, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7]
        );
        assert_eq!(octets[47], 8);
        assert_eq!(PmMessage::parse(&octets), Ok(message));
    }

    // SDP-PMF-25: `iwpmd` puts a mapped port into Reserved and a mapped address behind.
    #[test]
    fn longer_request_of_iwpmd_is_read() {
        let mut octets = [0xee; 64];
        octets[..LEN].copy_from_slice(&V4);
        octets[2..4].copy_from_slice(&[0x9c, 0x41]);
        assert_eq!(PmMessage::parse(&octets), Ok(v4(PmKind::Req, 0)));
    }

    // SDP-PMF-02, SDP-PMF-04, SDP-PMF-24, TST-293.
    #[test]
    fn other_lengths_and_versions_are_refused() {
        for len in 0..LEN {
            assert_eq!(PmMessage::parse(&V4[..len]), Err(PmFault::Length));
        }
        for lead in 0..=u8::MAX {
            let mut octets = V4;
            octets[0] = lead;
            let found = PmMessage::parse(&octets);
            match (lead >> 6, lead & 0xf) {
                (0, 4 | 6) => assert!(found.is_ok()),
                (0, _) => assert_eq!(found, Err(PmFault::IpVersion)),
                _ => assert_eq!(found, Err(PmFault::Version)),
            }
        }
    }

    // SDP-PMF-05 to SDP-PMF-07, SDP-PMF-15, TST-006.
    #[test]
    fn fields_that_say_nothing_are_ignored_and_sent_as_zero() {
        let mut octets = V4;
        octets[2..4].fill(0xff);
        octets[20..32].fill(0xff);
        octets[36..48].fill(0xff);
        assert_eq!(PmMessage::parse(&octets), Ok(v4(PmKind::Req, 0)));
        for (kind, _) in KINDS {
            let time = if kind == PmKind::Accept { 9 } else { 0 };
            assert_eq!(v4(kind, 9).emit()[1], time);
        }
    }

    // SDP-IANA-01, SDP-CONST-14 to SDP-CONST-16.
    #[test]
    fn port_and_length_are_those_of_the_draft() {
        assert_eq!((PORT, LEN), (3935, 48));
        assert_eq!(v4(PmKind::Req, 0).emit()[0] >> 6, 0);
    }

    // SDP-PM-02.
    #[test]
    fn service_of_another_host_is_not_served() {
        for (kind, _) in KINDS {
            let message = v4(kind, 0);
            let ours = (kind == PmKind::Req).then_some(message.service);
            assert_eq!(message.service_at(message.service.ip), ours);
            assert_eq!(message.service_at(message.client.ip), None);
        }
    }

    // SDP-PMT-0 to SDP-PMT-3, TST-291.
    #[test]
    fn lifetime_has_the_units_of_the_draft() {
        let span = |millis| Some(PmLifetime::Span(Duration::from_millis(millis)));
        for (time, want) in [
            (0, None),
            (1, span(250)),
            (127, span(31_750)),
            (128, span(128_000)),
            (254, span(254_000)),
            (255, Some(PmLifetime::Unlimited)),
        ] {
            assert_eq!(lifetime(time), want);
        }
    }
}
