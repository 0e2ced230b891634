// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams: checks before sending and after reception (RNIC-UD).

use super::{
    frame::{
        Frame,
        RoceRoute, //
    },
    opcode::Service,
    reason::Reason,
    responder::RequestHeader, //
};
use crate::proto::base::verbs::{
    Mtu,
    Qpn, //
};

/// Q_Key of the general services interface, queue pair 1 (RNIC-UD-02).
pub(crate) const GSI_QKEY: u32 = 0x8001_0000;

/// The bit of a Q_Key that asks for the one of the queue pair.
const OWN_QKEY: u32 = 0x8000_0000;

/// Octets in front of the payload in a receive buffer (RNIC-UD-03).
pub(crate) const GRH_LEN: u32 = 40;

/// Octets of an IPv4 header.
const IPV4_LEN: usize = 20;

/// The Q_Key of a datagram: that of the work request, or of the queue pair if the high bit of the
/// former is set (RNIC-UD-02).
pub(crate) const fn outgoing_qkey(requested: u32, own: u32) -> u32 {
    if requested & OWN_QKEY != 0 {
        own
    } else {
        requested
    }
}

/// Checks a datagram of `len` octets before it is sent. `same_domain` says whether address handle
/// and queue pair are of one protection domain.
///
/// # Errors
///
/// Why the work request fails (RNIC-UD-01, RNIC-UD-06).
pub(crate) fn check_send(len: u32, port_mtu: Mtu, same_domain: bool) -> Result<(), Reason> {
    if !same_domain {
        return Err(Reason::OtherDomain);
    }
    if len > port_mtu.octets() {
        return Err(Reason::TooLong);
    }
    Ok(())
}

/// Why a datagram is dropped (RNIC-UD-02, RNIC-UD-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramDrop {
    /// The opcode is not one of a datagram.
    Service,
    /// The payload is longer than the MTU of the port.
    Mtu,
    /// Another Q_Key, which is counted.
    QKey,
    /// There is no receive buffer.
    NoReceive,
    /// The receive buffer is too short.
    TooLong,
}

/// A datagram that passed its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    /// The queue pair that sent it.
    pub(crate) src_qp: Qpn,
    /// Octets of the payload.
    pub(crate) len: u32,
    /// Immediate data.
    pub(crate) imm: Option<[u8; 4]>,
    /// Whether the completion is solicited.
    pub(crate) solicited: bool,
}

impl Datagram {
    /// Checks a packet for a queue pair with a Q_Key.
    ///
    /// # Errors
    ///
    /// See [`DatagramDrop`].
    pub(crate) fn check(
        header: &RequestHeader,
        qkey: u32,
        port_mtu: Mtu,
    ) -> Result<Self, DatagramDrop> {
        if header.opcode.service() != Service::Ud {
            return Err(DatagramDrop::Service);
        }
        let deth = header.ext.deth.ok_or(DatagramDrop::Service)?;
        if header.len > port_mtu.octets() {
            return Err(DatagramDrop::Mtu);
        }
        if deth.qkey != qkey {
            return Err(DatagramDrop::QKey);
        }
        Ok(Self {
            src_qp: deth.src_qp,
            len: header.len,
            imm: header.ext.imm,
            solicited: header.solicited,
        })
    }

    /// The length of the completion, which counts the area of the GRH, if a receive buffer of
    /// `capacity` octets holds both (RNIC-UD-03, RNIC-UD-04).
    ///
    /// # Errors
    ///
    /// See [`DatagramDrop`].
    pub(crate) fn place(&self, capacity: Option<u32>) -> Result<u32, DatagramDrop> {
        let capacity = capacity.ok_or(DatagramDrop::NoReceive)?;
        let len = self.len.checked_add(GRH_LEN);
        len.filter(|len| *len <= capacity)
            .ok_or(DatagramDrop::TooLong)
    }
}

/// The area of the GRH: the header of IPv6 or the GRH itself, or zeros and the IPv4 header
/// (RNIC-UD-03).
pub(crate) fn grh_area(frame: &Frame) -> [u8; 40] {
    let mut headers = [0; Frame::MAX_LEN];
    let mut area = [0; 40];
    // Cannot fail: there is room for the longest headers.
    let _ = frame.emit(&mut headers);
    let (zeros, len) = match frame.route {
        RoceRoute::V2Ipv4(..) => (IPV4_LEN, IPV4_LEN),
        RoceRoute::V2Ipv6(..) | RoceRoute::V1(_) => (0, area.len()),
    };
    for (to, from) in area.iter_mut().skip(zeros).zip(headers.iter().take(len)) {
        *to = *from;
    }
    area
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_datagram))]
mod tests {
    use super::*;
    use crate::proto::{
        base::verbs::Psn,
        roce::{
            frame::{
                Ipv4,
                Ipv6, //
            },
            header::Deth,
            opcode::Opcode,
            packet::Extensions, //
        },
    };

    /// A datagram for queue pair 1.
    fn datagram(opcode: Opcode, qkey: u32, len: u32) -> RequestHeader {
        RequestHeader {
            opcode,
            psn: Psn::new(0),
            packets: 1,
            ack_req: false,
            solicited: true,
            ext: Extensions {
                deth: Some(Deth {
                    qkey,
                    src_qp: Qpn::new(9),
                }),
                imm: Some([1, 2, 3, 4]),
                ..Extensions::default()
            },
            len,
        }
    }

    /// RNIC-UD-02.
    #[test]
    fn high_bit_asks_for_the_own_key() {
        assert_eq!(outgoing_qkey(0x11, 0x22), 0x11);
        assert_eq!(outgoing_qkey(GSI_QKEY, 0x22), 0x22);
    }

    /// RNIC-UD-01, RNIC-UD-06.
    #[test]
    fn datagram_longer_than_the_mtu_is_not_sent() {
        assert_eq!(check_send(1_024, Mtu::M1024, true), Ok(()));
        assert_eq!(check_send(1_025, Mtu::M1024, true), Err(Reason::TooLong));
        assert_eq!(check_send(1, Mtu::M1024, false), Err(Reason::OtherDomain));
    }

    /// RNIC-UD-02, RNIC-UD-03, RNIC-UD-04.
    #[test]
    fn datagram_needs_its_key_and_room_for_the_grh() {
        let check = |header: RequestHeader| Datagram::check(&header, GSI_QKEY, Mtu::M256);
        let good = check(datagram(Opcode::UdSendOnlyImm, GSI_QKEY, 256));
        let expected = Datagram {
            src_qp: Qpn::new(9),
            len: 256,
            imm: Some([1, 2, 3, 4]),
            solicited: true,
        };
        assert_eq!(good, Ok(expected));
        assert_eq!(expected.place(Some(296)), Ok(296));
        assert_eq!(expected.place(Some(295)), Err(DatagramDrop::TooLong));
        assert_eq!(expected.place(None), Err(DatagramDrop::NoReceive));
        assert_eq!(
            check(datagram(Opcode::UdSendOnly, GSI_QKEY, 257)),
            Err(DatagramDrop::Mtu)
        );
        assert_eq!(
            check(datagram(Opcode::UdSendOnly, 1, 4)),
            Err(DatagramDrop::QKey)
        );
        assert_eq!(
            check(datagram(Opcode::RcSendOnly, GSI_QKEY, 4)),
            Err(DatagramDrop::Service)
        );
    }

    /// RNIC-UD-03.
    #[test]
    fn area_of_the_grh_shows_the_version_of_ip() {
        let ipv4 = RoceRoute::V2Ipv4(
            Ipv4 {
                tos: 0,
                ident: 0x1234,
                fragment: 0x4000,
                ttl: 64,
                src: [10, 0, 0, 1],
                dst: [10, 0, 0, 2],
            },
            0xc0de,
        );
        let area = ipv4.frame(28).map(|frame| grh_area(&frame));
        let expected = [
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x45, 0, 0, 0x3c, 0x12,
            0x34, 0x40, 0, 0x40, 0x11, 0x14, 0x7b, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        assert_eq!(area, Some(expected));

        let ipv6 = Ipv6 {
            class: 0,
            flow: 0,
            hops: 1,
            src: [1; 16],
            dst: [2; 16],
        };
        for (route, next) in [
            (RoceRoute::V2Ipv6(ipv6, 0xc000), 17),
            (RoceRoute::V1(ipv6), 0x1b),
        ] {
            let area = route.frame(28).map(|frame| grh_area(&frame));
            let area = area.unwrap_or([0; 40]);
            assert_eq!(area.first(), Some(&0x60));
            assert_eq!(area.get(6), Some(&next));
            assert_eq!(area.last(), Some(&2));
        }
    }
}
