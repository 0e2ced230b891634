// SPDX-License-Identifier: GPL-2.0

//! Packets that leave out the network: what it would carry, without its headers and the checksum.

use super::{
    loan::Loan,
    packet_head::PacketHead, //
};
use crate::{
    kapi::{
        base::octets::zeroed,
        ibdev::GidProtocol, //
    },
    proto::roce::{
        header::Bth,
        opcode::Opcode,
        packet::{
            base_header,
            transport_len,
            Extensions,
            RocePacket, //
        },
        responder::RequestHeader, //
    },
};
use kernel::prelude::*;

/// The addresses of a packet.
#[derive(Clone, Copy)]
pub(super) struct PacketAddresses {
    /// Source GID.
    pub(super) src: [u8; 16],
    /// Destination GID.
    pub(super) dst: [u8; 16],
    /// Protocol of both.
    pub(super) protocol: GidProtocol,
}

/// The payload of a packet.
enum DirectPayload {
    /// A copy of the octets.
    Copied(KVec<u8>),
    /// They are where the sender has them.
    Lent(KBox<Loan>),
}

/// A packet that leaves out the network, or a run of packets of one message.
pub(super) struct DirectPacket {
    /// Addresses.
    pub(super) addresses: PacketAddresses,
    bth: Bth,
    opcode: Opcode,
    ext: Extensions,
    /// Packets of a run, or 1.
    packets: u32,
    /// Octets of all packets, from the transport header to the padding.
    octets: u64,
    payload: DirectPayload,
}

impl DirectPacket {
    /// A packet with a copy of its payload, which `fill` writes; `None` without memory. Context: any.
    ///
    /// # Errors
    ///
    /// That of `fill`.
    pub(super) fn new<E>(
        addresses: PacketAddresses,
        head: &PacketHead,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Option<KBox<Self>>, E> {
        let Ok(mut payload) = zeroed(head.len, GFP_ATOMIC) else {
            return Ok(None);
        };
        fill(&mut payload)?;
        let octets = transport_len(head.opcode, head.len);
        let packet = Self {
            addresses,
            bth: base_header(&head.bth, head.opcode, head.len),
            opcode: head.opcode,
            ext: head.ext,
            packets: 1,
            octets: u64::try_from(octets).unwrap_or(u64::MAX),
            payload: DirectPayload::Copied(payload),
        };
        Ok(KBox::new(packet, GFP_ATOMIC).ok())
    }

    /// A run of packets, with `octets` of all, whose payload its receiver copies; `None` without memory.
    /// Context: any.
    pub(super) fn lent(
        addresses: PacketAddresses,
        head: &PacketHead,
        packets: u32,
        octets: u64,
        loan: Loan,
    ) -> Option<KBox<Self>> {
        let packet = Self {
            addresses,
            bth: head.bth,
            opcode: head.opcode,
            ext: head.ext,
            packets,
            octets,
            payload: DirectPayload::Lent(KBox::new(loan, GFP_ATOMIC).ok()?),
        };
        KBox::new(packet, GFP_ATOMIC).ok()
    }

    /// The packet as its receiver reads it, without a payload that is lent.
    pub(super) fn packet(&self) -> RocePacket<'_> {
        RocePacket {
            bth: self.bth,
            opcode: self.opcode,
            ext: self.ext,
            payload: match &self.payload {
                DirectPayload::Copied(octets) => octets,
                DirectPayload::Lent(_) => &[],
            },
        }
    }

    /// A request whose payload is lent.
    pub(super) fn lent_request(&self) -> Option<(RequestHeader, &Loan)> {
        let DirectPayload::Lent(loan) = &self.payload else {
            return None;
        };
        let header = RequestHeader {
            packets: self.packets,
            len: loan.len,
            ..RequestHeader::new(&self.packet())
        };
        Some((header, loan))
    }

    /// Packets of a run, or 1.
    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    /// Octets of all packets, from the transport header to the padding.
    pub(super) fn octets(&self) -> u64 {
        self.octets
    }
}
