// SPDX-License-Identifier: GPL-2.0

//! A packet, or a run of packets, without the payload.

use crate::proto::roce::{
    header::Bth,
    opcode::Opcode,
    packet::Extensions, //
};

/// A packet, or a run of packets, without the payload.
pub(super) struct PacketHead {
    /// Base transport header.
    pub(super) bth: Bth,
    /// Opcode, which replaces that of the header.
    pub(super) opcode: Opcode,
    /// Extension headers.
    pub(super) ext: Extensions,
    /// Octets of the payload.
    pub(super) len: usize,
}
