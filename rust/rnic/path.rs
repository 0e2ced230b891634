// SPDX-License-Identifier: GPL-2.0

//! The proof of the way from a queue pair to its peer, with the packet that brings it (RNIC-DIR-01).

use crate::{
    kapi::net::packet::{
        PacketPage,
        RxPacket,
        TxPacket, //
    },
    proto::{
        base::time::Instant,
        roce::proof::PathProof, //
    },
};
use core::mem::take;

/// The proof of the way to the peer, and the memory of the packet that proves it.
pub(super) struct ProvenPath {
    pub(super) proof: PathProof,
    page: Option<PacketPage>,
    /// The packet was made.
    made: bool,
}

impl ProvenPath {
    /// Nothing is proven.
    pub(super) const fn new() -> Self {
        Self {
            proof: PathProof::new(),
            page: None,
            made: false,
        }
    }

    /// Forgets the proof: attributes of the queue pair change.
    pub(super) fn forget(&mut self) {
        self.proof = PathProof::new();
    }

    /// A packet in memory by which it is recognised. From now on it may arrive.
    pub(super) fn packet(
        &mut self,
        now: Instant,
        epoch: u64,
        head: usize,
        rest: usize,
    ) -> Option<TxPacket> {
        let packet = match self.page.as_mut().and_then(|page| page.packet(head, rest)) {
            Some(packet) => packet,
            // An earlier packet may still have that memory.
            None => self.page.insert(PacketPage::new()?).packet(head, rest)?,
        };
        self.made = true;
        self.proof.on_sent(now, epoch);
        Some(packet)
    }

    /// Whether the packet was made since the last call.
    pub(super) fn take_made(&mut self) -> bool {
        take(&mut self.made)
    }

    /// Whether a packet is the one that was made last.
    pub(super) fn is_of(&self, packet: &RxPacket) -> bool {
        self.page.as_ref().is_some_and(|page| packet.is_on(page))
    }
}
