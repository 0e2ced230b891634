// SPDX-License-Identifier: GPL-2.0

//! Payload as packets of TCP in a file for Wireshark.
//!
//! There have been no such packets: the payload went by RDMA. With the addresses and ports of the
//! connection and the positions in its streams in their headers, a dissector reads the protocol above.

use anyhow::{
    Context,
    Result, //
};
use etherparse::{
    IpHeaders,
    PacketBuilder,
    PacketBuilderStep, //
};
use pcap_file::{
    pcapng::{
        blocks::{
            enhanced_packet::EnhancedPacketBlock,
            interface_description::{
                InterfaceDescriptionBlock,
                InterfaceDescriptionOption, //
            },
        },
        PcapNgWriter, //
    },
    DataLink, //
};
use std::{
    borrow::Cow,
    collections::HashMap,
    io::Write,
    net::{
        IpAddr,
        SocketAddr, //
    },
    time::Duration, //
};

use super::payload::Payload;

/// Hops and window of the headers.
const HOPS: u8 = 64;
const WINDOW: u16 = u16::MAX;
/// Nanoseconds, as negative power of ten.
const RESOLUTION: u8 = 9;

/// A file that is written.
pub(super) struct PacketFile<W: Write> {
    writer: PcapNgWriter<W>,
    /// For each socket the positions behind what was sent and received.
    next: HashMap<u64, [u64; 2]>,
}

impl<W: Write> PacketFile<W> {
    /// Writes the head of the file.
    pub(super) fn new(to: W) -> Result<Self> {
        let mut writer = PcapNgWriter::new(to).context("cannot write the head of the file")?;
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::RAW,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed("rdma-sock")),
                InterfaceDescriptionOption::IfDescription(Cow::Borrowed(
                    "payload by RDMA, in made-up packets of TCP",
                )),
                InterfaceDescriptionOption::IfTsResol(RESOLUTION),
            ],
        };
        writer
            .write_pcapng_block(interface)
            .context("cannot write the head of the file")?;
        Ok(Self {
            writer,
            next: HashMap::new(),
        })
    }

    /// Writes a packet, of this time since the epoch.
    pub(super) fn write(&mut self, time: Duration, payload: &Payload) -> Result<()> {
        let next = self.next.entry(payload.inode).or_default();
        let [sent, received] = next;
        let (own, other) = match payload.sent {
            true => (sent, received),
            false => (received, sent),
        };
        let octets = u64::try_from(payload.octets.len())?;
        *own = payload.position.wrapping_add(octets);
        let data = packet(payload, sequence(*other))?;
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: time,
            original_len: u32::try_from(data.len())?,
            data: Cow::Owned(data),
            options: Vec::new(),
        };
        self.writer
            .write_pcapng_block(block)
            .context("cannot write a packet")?;
        Ok(())
    }

    /// What the file is written to.
    pub(super) fn get_mut(&mut self) -> &mut W {
        self.writer.get_mut()
    }
}

/// The sequence number of a position: the first octet has 1, as a SYN takes 0.
fn sequence(position: u64) -> u32 {
    // Modulo 2^32, as TCP counts.
    u32::try_from(position.wrapping_add(1) & u64::from(u32::MAX)).unwrap_or(0)
}

/// The packet of a payload, with what this end has received.
fn packet(payload: &Payload, acknowledged: u32) -> Result<Vec<u8>> {
    let (from, to) = match payload.sent {
        true => (payload.local, payload.peer),
        false => (payload.peer, payload.local),
    };
    let builder = ip(from, to)
        .tcp(from.port(), to.port(), sequence(payload.position), WINDOW)
        .ack(acknowledged)
        .psh();
    let mut data = Vec::with_capacity(builder.size(payload.octets.len()));
    builder
        .write(&mut data, &payload.octets)
        .context("cannot make a packet")?;
    Ok(data)
}

fn ip(from: SocketAddr, to: SocketAddr) -> PacketBuilderStep<IpHeaders> {
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), HOPS),
        (from, to) => PacketBuilder::ipv6(inet6(from), inet6(to), HOPS),
    }
}

fn inet6(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{
        NetSlice,
        SlicedPacket,
        TransportSlice, //
    };
    use pcap_file::pcapng::{
        Block,
        PcapNgReader, //
    };

    fn payload(sent: bool, position: u64, octets: &[u8]) -> Payload {
        Payload {
            time: Duration::ZERO,
            inode: 7,
            sent,
            position,
            local: "10.9.0.1:6379".parse().unwrap(),
            peer: "10.9.0.2:40000".parse().unwrap(),
            octets: octets.to_vec(),
        }
    }

    /// Time, source port, sequence number, acknowledgment and payload of each packet.
    fn read(file: &[u8]) -> Vec<(Duration, u16, u32, u32, Vec<u8>)> {
        let mut reader = PcapNgReader::new(file).unwrap();
        let mut found = Vec::new();
        while let Some(block) = reader.next_block() {
            let Block::EnhancedPacket(packet) = block.unwrap() else {
                continue;
            };
            let sliced = SlicedPacket::from_ip(&packet.data).unwrap();
            assert!(matches!(sliced.net, Some(NetSlice::Ipv4(_))));
            let Some(TransportSlice::Tcp(tcp)) = sliced.transport else {
                panic!("no TCP");
            };
            found.push((
                packet.timestamp,
                tcp.source_port(),
                tcp.sequence_number(),
                tcp.acknowledgment_number(),
                tcp.payload().to_vec(),
            ));
        }
        found
    }

    #[test]
    fn packets_have_the_positions_of_both_streams() {
        let mut file = Vec::new();
        let mut packets = PacketFile::new(&mut file).unwrap();
        let time = Duration::new(1_790_000_000, 123_456_789);
        packets.write(time, &payload(true, 0, b"GET")).unwrap();
        packets.write(time, &payload(false, 0, b"answer")).unwrap();
        packets.write(time, &payload(true, 3, b"SET")).unwrap();
        // Events between were lost.
        packets.write(time, &payload(false, 100, b"late")).unwrap();
        drop(packets);
        let wanted = [
            (time, 6379, 1, 1, b"GET".to_vec()),
            (time, 40000, 1, 4, b"answer".to_vec()),
            (time, 6379, 4, 7, b"SET".to_vec()),
            (time, 40000, 101, 7, b"late".to_vec()),
        ];
        assert_eq!(read(&file), wanted);
    }

    #[test]
    fn sequence_numbers_wrap_as_those_of_tcp() {
        assert_eq!(sequence(0), 1);
        assert_eq!(sequence(u64::from(u32::MAX)), 0);
        assert_eq!(sequence(1 << 32), 1);
    }

    #[test]
    fn address_of_ipv6_makes_a_packet_of_ipv6() {
        let mut inet6 = payload(true, 0, b"x");
        inet6.local = "[fd00::1]:1".parse().unwrap();
        inet6.peer = "[fd00::2]:2".parse().unwrap();
        let data = packet(&inet6, 1).unwrap();
        assert_eq!(data.first().map(|octet| octet >> 4), Some(6));
    }
}
