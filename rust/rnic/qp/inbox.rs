// SPDX-License-Identifier: GPL-2.0

//! Packets that wait for the work item of a queue pair.

use crate::{
    kapi::net::packet::{
        NetHeader,
        RxPacket, //
    },
    rnic::{
        direct_packet::DirectPacket,
        receives::place_of, //
    },
};
use kernel::prelude::*;

/// Packets that wait for the work item, at most (RNIC-LIM-05).
const INBOX: usize = 1_024;

/// A packet that waits for the work item.
pub(super) enum Arrived {
    /// One of the network, and the header that it begins with.
    Packet(RxPacket, NetHeader),
    /// One that left out the network.
    Direct(KBox<DirectPacket>),
}

/// Packets that wait for the work item.
pub(super) struct PacketInbox {
    /// Their places, as many as were ever needed at a time.
    packets: KVVec<Option<Arrived>>,
    /// Number of the oldest packet.
    head: u64,
    /// Number of the next packet.
    tail: u64,
    /// Whether packets are dropped.
    closed: bool,
}

impl PacketInbox {
    /// No packets.
    pub(super) fn new() -> Self {
        Self {
            packets: KVVec::new(),
            head: 0,
            tail: 0,
            closed: false,
        }
    }

    /// Drops packets from now on.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Adds a packet, or drops it. Returns whether it was added.
    pub(super) fn push(&mut self, arrived: Arrived) -> bool {
        let waiting = usize::try_from(self.tail.wrapping_sub(self.head)).unwrap_or(usize::MAX);
        if self.closed || waiting >= INBOX {
            return false;
        }
        if waiting >= self.packets.len() {
            // The places are renumbered, which is possible while all are used, or none.
            let places = self.packets.len();
            let first = place_of(self.head, places.max(1)).unwrap_or(0);
            self.packets.rotate_left(first);
            if self.packets.push(Some(arrived), GFP_ATOMIC).is_err() {
                self.packets.rotate_right(first);
                return false;
            }
            self.head = 0;
            self.tail = u64::try_from(places.saturating_add(1)).unwrap_or(0);
            return true;
        }
        let place = place_of(self.tail, self.packets.len());
        match place.and_then(|place| self.packets.get_mut(place)) {
            Some(place) => {
                *place = Some(arrived);
                self.tail = self.tail.wrapping_add(1);
                true
            }
            None => false,
        }
    }

    /// Takes the oldest packet.
    pub(super) fn pop(&mut self) -> Option<Arrived> {
        if self.head == self.tail {
            return None;
        }
        let place = place_of(self.head, self.packets.len())?;
        self.head = self.head.wrapping_add(1);
        self.packets.get_mut(place)?.take()
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_inbox)]
mod tests {
    use super::*;
    use crate::{
        kapi::ibdev::GidProtocol,
        proto::{
            base::verbs::{
                Psn,
                Qpn, //
            },
            roce::{
                header::Bth,
                opcode::Opcode,
                packet::Extensions, //
            },
        },
        rnic::direct_packet::PacketAddresses, //
    };

    /// A packet with a number.
    fn packet(number: u32) -> Result<Arrived> {
        let addresses = PacketAddresses {
            src: [0; 16],
            dst: [0; 16],
            protocol: GidProtocol::Ipv4,
        };
        let opcode = Opcode::RcSendOnly;
        let bth = Bth::new(opcode.code(), Qpn::new(2), Psn::new(number));
        let made = DirectPacket::new(addresses, &bth, opcode, &Extensions::default(), 0);
        Ok(Arrived::Direct(made.ok_or(ENOMEM)?))
    }

    /// The number of the oldest packet.
    fn next(inbox: &mut PacketInbox) -> Option<u32> {
        match inbox.pop()? {
            Arrived::Direct(packet) => Some(packet.packet().bth.psn.get()),
            Arrived::Packet(..) => None,
        }
    }

    /// RNIC-RX-03, RNIC-LIM-05: packets wait in their order, up to the bound, wherever the ring begins.
    #[test]
    fn packets_beyond_the_bound_are_dropped() -> Result {
        let most = u32::try_from(INBOX)?;
        let mut inbox = PacketInbox::new();
        let (mut first, mut last) = (0, 0);
        for kept in [0, 1, most / 3, most - 1] {
            while last - first < most {
                assert!(inbox.push(packet(last)?));
                last += 1;
            }
            assert!(!inbox.push(packet(last)?));
            while last - first > kept {
                assert_eq!(next(&mut inbox), Some(first));
                first += 1;
            }
        }
        Ok(())
    }

    #[test]
    fn closed_inbox_takes_no_packet() -> Result {
        let mut inbox = PacketInbox::new();
        assert!(inbox.push(packet(7)?));
        inbox.close();
        assert!(!inbox.push(packet(8)?));
        assert_eq!(next(&mut inbox), Some(7));
        assert_eq!(next(&mut inbox), None);
        Ok(())
    }
}
