// SPDX-License-Identifier: GPL-2.0

//! Packets to the network: headers, payload and checksum in one buffer.

use super::{
    checksum::PacketChecksum,
    counters::{
        Counter,
        Counters, //
    },
    direct_packet::{
        DirectPacket,
        PacketAddresses, //
    },
    loan::Loan,
    numbers::PacketReceiver,
    packet_head::PacketHead,
    path::ProvenPath, //
};
use crate::{
    kapi::{
        base::sync::SpinLockBh,
        ibdev::{
            AddressVector,
            GidProtocol, //
        },
        net::{
            netdev_ref::NetDeviceRef,
            packet::{
                NetHeader,
                Sent,
                TxPacket,
                TxRun, //
            },
            sender::Sender, //
        },
    },
    proto::{
        base::{
            time::Instant,
            verbs::Qpn, //
        },
        roce::{
            frame::{
                Frame,
                FrameError,
                Ipv4,
                Ipv6,
                RoceRoute, //
            },
            icrc::{
                icrc_of,
                ICRC_LEN, //
            },
            packet::{
                transport_len,
                RocePacket, //
            },
        },
    },
};
use kernel::prelude::*;

/// Ethernet type of RoCE v1 (RNIC-IP-04).
pub(super) const ETHERTYPE: u16 = 0x8915;

/// Do not fragment (RNIC-ICRC-09).
const DONT_FRAGMENT: u16 = 0x4000;

/// Hop limit of an address vector that has none.
const DEFAULT_HOPS: u8 = 64;

/// The IPv4 address in a mapped one.
const fn ipv4_of(gid: [u8; 16]) -> [u8; 4] {
    let [.., a, b, c, d] = gid;
    [a, b, c, d]
}

/// The first octets of a mapped IPv4 address.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// The GID of an IPv4 address.
fn mapped(ip: [u8; 4]) -> [u8; 16] {
    let mut gid = [0; 16];
    let (head, tail) = gid.split_at_mut(MAPPED.len());
    head.copy_from_slice(&MAPPED);
    tail.copy_from_slice(&ip);
    gid
}

/// Reads the headers of the network of a packet that arrived, and returns the octets from the BTH to the
/// ICRC.
///
/// # Errors
///
/// See [`FrameError`].
pub(super) fn parse_frame(header: NetHeader, octets: &[u8]) -> Result<(Frame, &[u8]), FrameError> {
    match header {
        NetHeader::Ipv4 => Frame::parse_ipv4(octets),
        NetHeader::Ipv6 => Frame::parse_ipv6(octets),
        NetHeader::Ethernet => Frame::parse_grh(octets),
    }
}

/// The addresses of a packet of the network.
pub(super) fn addresses(route: &RoceRoute) -> PacketAddresses {
    let (src, dst, protocol) = match route {
        RoceRoute::V2Ipv4(ip, _) => (mapped(ip.src), mapped(ip.dst), GidProtocol::Ipv4),
        RoceRoute::V2Ipv6(ip, _) => (ip.src, ip.dst, GidProtocol::Ipv6),
        RoceRoute::V1(ip) => (ip.src, ip.dst, GidProtocol::RoceV1),
    };
    PacketAddresses { src, dst, protocol }
}

/// What sends and counts the packets of a device.
#[derive(Clone, Copy)]
pub(super) struct Egress<'a> {
    /// Pays for the packets.
    pub(super) sender: &'a Sender,
    /// Computes the checksums of packets.
    pub(super) checksum: PacketChecksum,
    /// Whether packets of a message pass the network together (RNIC-TX-03).
    pub(super) together: bool,
    /// Counters of the device.
    pub(super) counters: &'a Counters,
}

/// How packets leave.
#[derive(Clone, Copy)]
pub(super) enum Outlet<'a> {
    /// By the network.
    Network,
    /// By the network, in memory that proves the way (RNIC-DIR-01).
    Proof {
        path: &'a SpinLockBh<ProvenPath>,
        /// The time.
        now: Instant,
        /// The number of the last change of what the way depends on.
        epoch: u64,
    },
    /// To the queue pair itself.
    Direct(&'a dyn PacketReceiver),
}

/// The way of packets to a peer, while the network device is there.
pub(super) struct PeerPath<'a> {
    to: &'a AddressVector,
    netdev: NetDeviceRef,
    egress: Egress<'a>,
    outlet: Outlet<'a>,
    /// UDP source port.
    port: u16,
    /// The peer is a device of the same namespace.
    local: bool,
}

/// The payload could not be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PayloadFault;

impl<'a> PeerPath<'a> {
    /// The way of an address vector; `None` once its address is gone (RNIC-NET-04). `local` says whether the
    /// destination is an address of a device of the same namespace (RNIC-IP-09). Context: any.
    pub(super) fn new(
        to: &'a AddressVector,
        port: u16,
        egress: Egress<'a>,
        outlet: Outlet<'a>,
        local: bool,
    ) -> Option<Self> {
        let netdev = to.sgid.netdev()?;
        Some(Self {
            to,
            netdev,
            egress,
            outlet,
            port,
            local,
        })
    }

    /// The headers of the network.
    fn route(&self, ident: u16) -> RoceRoute {
        let (src, dst) = (self.to.sgid.gid(), self.to.dgid);
        let hops = match self.to.hop_limit {
            0 => DEFAULT_HOPS,
            hops => hops,
        };
        let ipv6 = Ipv6 {
            class: self.to.traffic_class,
            flow: self.to.flow_label,
            hops,
            src,
            dst,
        };
        match self.to.sgid.protocol() {
            GidProtocol::Ipv4 => RoceRoute::V2Ipv4(
                Ipv4 {
                    tos: self.to.traffic_class,
                    ident,
                    fragment: DONT_FRAGMENT,
                    ttl: hops,
                    src: ipv4_of(src),
                    dst: ipv4_of(dst),
                },
                self.port,
            ),
            GidProtocol::Ipv6 => RoceRoute::V2Ipv6(ipv6, self.port),
            GidProtocol::RoceV1 => RoceRoute::V1(ipv6),
        }
    }

    /// Sends a packet whose payload `fill` writes. `ident` is the identification of IPv4, unique for a
    /// time. A packet that finds no memory or no route is lost, and so may be one that finds a queue of
    /// this host full (RNIC-TX-06). Context: softirq.
    ///
    /// # Errors
    ///
    /// That of `fill`; nothing is sent.
    pub(super) fn send(
        &self,
        head: &PacketHead,
        ident: u16,
        fill: impl FnOnce(&mut [u8]) -> Result<(), PayloadFault>,
    ) -> Result<Sent, PayloadFault> {
        if let Outlet::Direct(peer) = self.outlet {
            let packet = DirectPacket::new(self.addresses(), head, fill)?;
            self.hand_over(peer, packet);
            return Ok(Sent::Taken);
        }
        match self.build(head, ident, fill) {
            Ok(packet) => Ok(self.transmit(TxRun::new(packet))),
            Err(BuildError::Memory) => {
                self.count(false, 1, 0);
                Ok(Sent::Taken)
            }
            Err(BuildError::Payload) => Err(PayloadFault),
        }
    }

    /// Begins to send packets of one message.
    pub(super) const fn run(&self) -> PacketRun<'_, 'a> {
        PacketRun {
            path: self,
            run: None,
            next: 0,
            congested: false,
        }
    }

    /// Whether packets may go together.
    fn goes_together(&self) -> bool {
        self.egress.together
            && matches!(self.outlet, Outlet::Network)
            && !matches!(self.to.sgid.protocol(), GidProtocol::RoceV1)
    }

    /// Gives packets to the network stack. What that drops is lost.
    fn transmit(&self, run: TxRun) -> Sent {
        let (packets, octets) = run.size();
        let (packet, sender) = (run.into_packet(), self.egress.sender);
        let sent = match self.to.sgid.protocol() {
            GidProtocol::Ipv4 => packet.send_ipv4(&self.netdev, sender, self.local),
            GidProtocol::Ipv6 => packet.send_ipv6(&self.netdev, sender, self.local),
            GidProtocol::RoceV1 => {
                packet.send_ethernet(&self.netdev, sender, ETHERTYPE, &self.to.dmac)
            }
        };
        if packets > 1 {
            self.egress.counters.count(Counter::SentRuns);
        }
        self.count(sent.is_ok(), packets, octets);
        sent.unwrap_or(Sent::Taken)
    }

    /// Gives a run of packets to a receiver of this kernel, which copies the payload itself. One that finds
    /// no memory or no place is lost. Context: softirq.
    pub(super) fn lend(
        &self,
        peer: &dyn PacketReceiver,
        head: &PacketHead,
        packets: u32,
        octets: usize,
        loan: Loan,
    ) {
        let octets = u64::try_from(octets).unwrap_or(u64::MAX);
        let packet = DirectPacket::lent(self.addresses(), head, packets, octets, loan);
        self.egress.counters.count(Counter::DirectRuns);
        self.hand_over(peer, packet);
    }

    /// The addresses of packets.
    fn addresses(&self) -> PacketAddresses {
        PacketAddresses {
            src: self.to.sgid.gid(),
            dst: self.to.dgid,
            protocol: self.to.sgid.protocol(),
        }
    }

    /// Gives a packet to its receiver, unless there was no memory for it.
    fn hand_over(&self, peer: &dyn PacketReceiver, packet: Option<KBox<DirectPacket>>) {
        let Some(packet) = packet else {
            return self.count(false, 1, 0);
        };
        let (packets, octets) = (u64::from(packet.packets()), packet.octets());
        let counters = self.egress.counters;
        counters.add(Counter::SentPackets, packets);
        counters.add(Counter::SentOctets, octets);
        counters.add(Counter::DirectPackets, packets);
        counters.add(Counter::DirectOctets, octets);
        peer.receive_direct(packet);
    }

    /// Memory for a packet with that many octets of the network's headers, and behind them.
    fn alloc(&self, network: usize, rest: usize) -> Option<TxPacket> {
        if let Outlet::Proof { path, now, epoch } = self.outlet {
            let made = path.lock().packet(now, epoch, network, rest);
            if made.is_some() {
                return made;
            }
        }
        TxPacket::new(network.saturating_add(rest))
    }

    /// Counts packets of that many octets, which the network stack took or not.
    fn count(&self, taken: bool, packets: u32, octets: usize) {
        let (counters, packets) = (self.egress.counters, packets.into());
        if taken {
            let octets = u64::try_from(octets).unwrap_or(0);
            counters.add(Counter::SentPackets, packets);
            counters.add(Counter::SentOctets, octets);
        } else {
            counters.add(Counter::SendErrors, packets);
        }
    }

    /// Builds a packet.
    fn build(
        &self,
        head: &PacketHead,
        ident: u16,
        fill: impl FnOnce(&mut [u8]) -> Result<(), PayloadFault>,
    ) -> Result<TxPacket, BuildError> {
        let transport = transport_len(head.opcode, head.len);
        let frame = self
            .route(ident)
            .frame(transport)
            .ok_or(BuildError::Memory)?;
        let mut headers = [0; Frame::MAX_LEN];
        let network = frame.emit(&mut headers).ok_or(BuildError::Memory)?;
        let rest = transport.saturating_add(ICRC_LEN);
        let mut packet = self.alloc(network, rest).ok_or(BuildError::Memory)?;
        let (front, rest) = packet.split(network).ok_or(BuildError::Memory)?;
        front.copy_from_slice(headers.get(..network).ok_or(BuildError::Memory)?);
        let (body, icrc) = rest
            .split_at_mut_checked(transport)
            .ok_or(BuildError::Memory)?;
        let start = RocePacket::emit_headers(&head.bth, head.opcode, &head.ext, head.len, body)
            .ok_or(BuildError::Memory)?;
        let end = start.saturating_add(head.len);
        let payload = body.get_mut(start..end).ok_or(BuildError::Memory)?;
        fill(payload).map_err(|PayloadFault| BuildError::Payload)?;
        // The padding is zero already. The checksum covers the copy (RNIC-DATA-04).
        let sum = icrc_of(&self.egress.checksum, &frame, body).ok_or(BuildError::Memory)?;
        icrc.copy_from_slice(&sum);
        Ok(packet)
    }
}

/// Packets of one message, which pass the network together where they may (RNIC-TX-03). The last ones leave
/// when this is dropped.
pub(super) struct PacketRun<'p, 'a> {
    path: &'p PeerPath<'a>,
    /// Packets that have yet to leave.
    run: Option<TxRun>,
    /// The identification that the next of them must have.
    next: u16,
    /// Whether a queue of this host was full.
    congested: bool,
}

impl PacketRun<'_, '_> {
    /// Sends a packet like [`PeerPath::send`], sooner or later. Context: softirq.
    ///
    /// # Errors
    ///
    /// That of `fill`; the packet is not sent.
    pub(super) fn send(
        &mut self,
        head: &PacketHead,
        ident: u16,
        fill: impl FnOnce(&mut [u8]) -> Result<(), PayloadFault>,
    ) -> Result<(), PayloadFault> {
        if !self.path.goes_together() {
            let sent = self.path.send(head, ident, fill)?;
            self.note(sent);
            return Ok(());
        }
        match self.path.build(head, ident, fill) {
            Ok(packet) => self.push(packet, ident),
            // It is lost, and the next one does not follow those before.
            Err(BuildError::Memory) => self.path.count(false, 1, 0),
            Err(BuildError::Payload) => return Err(PayloadFault),
        }
        Ok(())
    }

    /// Adds a packet to those that leave together.
    fn push(&mut self, packet: TxPacket, ident: u16) {
        let mut alone = Some(packet);
        if let Some(run) = self.run.as_mut().filter(|_| self.next == ident) {
            alone = alone.and_then(|packet| run.push(packet).err());
        }
        if let Some(packet) = alone {
            self.flush();
            self.run = Some(TxRun::new(packet));
        }
        self.next = ident.wrapping_add(1);
    }

    /// Sends what has yet to leave.
    fn flush(&mut self) {
        if let Some(run) = self.run.take() {
            let sent = self.path.transmit(run);
            self.note(sent);
        }
    }

    /// Notes what became of packets.
    fn note(&mut self, sent: Sent) {
        self.congested |= sent == Sent::Congested;
    }

    /// Sends what has yet to leave, and returns whether a queue of this host was full. Context: softirq.
    pub(super) fn finish(mut self) -> bool {
        self.flush();
        self.congested
    }
}

impl Drop for PacketRun<'_, '_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Why no packet was built.
enum BuildError {
    /// No memory, or a packet that the network cannot carry.
    Memory,
    /// The payload could not be copied.
    Payload,
}

/// The UDP source port of a queue pair, constant for its life: from the flow label, or from both
/// numbers (RNIC-IP-01).
pub(super) fn source_port(flow_label: u32, own: Qpn, peer: Qpn) -> u16 {
    const LABEL: u64 = 0x000f_ffff;
    let label = if flow_label == 0 {
        let product = u64::from(own.get()).wrapping_mul(u64::from(peer.get()));
        (product ^ (product >> 20) ^ (product >> 40)) & LABEL
    } else {
        u64::from(flow_label) & LABEL
    };
    let [low, high, ..] = ((label & 0x3fff) ^ (label >> 14)).to_le_bytes();
    u16::from_le_bytes([low, high]) | 0xc000
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_wire)]
mod tests {
    use super::*;

    /// RNIC-IP-01.
    #[test]
    fn source_port_is_dynamic_and_constant() {
        let (own, peer) = (Qpn::new(0x10_0011), Qpn::new(0x10_0012));
        assert_eq!(source_port(0, own, peer), source_port(0, own, peer));
        for label in [0, 1, 0x3fff, 0x4000, 0xf_ffff, u32::MAX] {
            assert!(source_port(label, own, peer) >= 0xc000);
        }
        assert_eq!(source_port(1, own, peer), 0xc001);
        assert_eq!(source_port(0x4001, own, peer), 0xc000);
    }

    #[test]
    fn ipv4_address_has_a_mapped_gid() {
        let gid = mapped([10, 9, 0, 1]);
        assert_eq!(gid, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1]);
        assert_eq!(ipv4_of(gid), [10, 9, 0, 1]);
    }
}
