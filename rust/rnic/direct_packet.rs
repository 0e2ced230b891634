// SPDX-License-Identifier: GPL-2.0

//! Packets that leave out the network: what it would carry, without its headers and the checksum.

use crate::{
    kapi::ibdev::GidProtocol,
    proto::roce::{
        header::Bth,
        opcode::Opcode,
        packet::{
            base_header,
            transport_len,
            Extensions,
            RocePacket, //
        },
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

/// A packet that leaves out the network.
pub(super) struct DirectPacket {
    /// Addresses.
    pub(super) addresses: PacketAddresses,
    bth: Bth,
    opcode: Opcode,
    ext: Extensions,
    payload: KVec<u8>,
}

impl DirectPacket {
    /// A packet without payload yet, of which there are `len` octets; `None` without memory.
    /// Context: any.
    pub(super) fn new(
        addresses: PacketAddresses,
        bth: &Bth,
        opcode: Opcode,
        ext: &Extensions,
        len: usize,
    ) -> Option<KBox<Self>> {
        let mut payload = KVec::new();
        payload.resize(len, 0, GFP_ATOMIC).ok()?;
        let packet = Self {
            addresses,
            bth: base_header(bth, opcode, len),
            opcode,
            ext: *ext,
            payload,
        };
        KBox::new(packet, GFP_ATOMIC).ok()
    }

    /// The payload, to be filled in.
    pub(super) fn payload(&mut self) -> &mut [u8] {
        &mut self.payload
    }

    /// The packet as its receiver reads it.
    pub(super) fn packet(&self) -> RocePacket<'_> {
        RocePacket {
            bth: self.bth,
            opcode: self.opcode,
            ext: self.ext,
            payload: &self.payload,
        }
    }

    /// Octets of the packet, from the transport header to the padding.
    pub(super) fn octets(&self) -> u64 {
        let octets = transport_len(self.opcode, self.payload.len());
        u64::try_from(octets).unwrap_or(u64::MAX)
    }
}
