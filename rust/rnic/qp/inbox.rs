// SPDX-License-Identifier: GPL-2.0

//! Packets that wait for the work item of a queue pair.

use crate::{
    kapi::{
        base::sync::SpinLockBh,
        net::packet::{
            NetHeader,
            RxPacket, //
        },
    },
    rnic::{
        counters::{
            Counter,
            Counters, //
        },
        direct_packet::DirectPacket,
        receives::place_of, //
    },
};
use kernel::prelude::*;

/// Packets that wait for the work item, at most (RNIC-LIM-05).
const INBOX: usize = 1_024;

/// Octets of these packets, at most.
const INBOX_OCTETS: u64 = 4 << 20;

/// A packet that waits for the work item.
pub(super) enum Arrived {
    /// One of the network, and the header that it begins with.
    Packet(RxPacket, NetHeader),
    /// One that left out the network.
    Direct(KBox<DirectPacket>),
}

impl Arrived {
    /// Packets: more than 1 for a run that left out the network.
    pub(super) fn packets(&self) -> u32 {
        match self {
            Self::Packet(..) => 1,
            Self::Direct(packet) => packet.packets(),
        }
    }

    /// Octets from the first header on.
    fn octets(&self) -> u64 {
        match self {
            Self::Packet(packet, _) => u64::try_from(packet.octets().len()).unwrap_or(u64::MAX),
            Self::Direct(packet) => packet.octets(),
        }
    }
}

/// Leaves a packet to the work item, or drops it, and counts either. Returns whether there was a place.
/// Context: any.
pub(super) fn leave(
    inbox: &SpinLockBh<PacketInbox>,
    arrived: Arrived,
    counters: &Counters,
) -> bool {
    let (packets, octets) = (arrived.packets(), arrived.octets());
    let pushed = inbox.lock().push(arrived);
    if pushed {
        counters.add(Counter::ReceivedPackets, packets.into());
        counters.add(Counter::ReceivedOctets, octets);
    } else {
        counters.add(Counter::DropInbox, packets.into());
    }
    pushed
}

/// Packets that wait for the work item.
pub(super) struct PacketInbox {
    /// Their places, as many as were ever needed at a time.
    packets: KVVec<Option<Arrived>>,
    /// Number of the oldest packet.
    head: u64,
    /// Number of the next packet.
    tail: u64,
    /// Octets of the packets.
    octets: u64,
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
            octets: 0,
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
        let octets = self.octets.saturating_add(arrived.octets());
        if self.closed || waiting >= INBOX || octets > INBOX_OCTETS {
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
            self.octets = octets;
            return true;
        }
        let place = place_of(self.tail, self.packets.len());
        match place.and_then(|place| self.packets.get_mut(place)) {
            Some(place) => {
                *place = Some(arrived);
                self.tail = self.tail.wrapping_add(1);
                self.octets = octets;
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
        let arrived = self.packets.get_mut(place)?.take()?;
        self.octets = self.octets.saturating_sub(arrived.octets());
        Some(arrived)
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_inbox)]
mod tests {
    use super::*;
    use crate::{
        kapi::{
            base::sync::new_spinlock_bh,
            ibdev::GidProtocol, //
        },
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
        rnic::{
            direct_packet::PacketAddresses,
            packet_head::PacketHead, //
        },
    };

    /// A packet with a number.
    fn packet(number: u32) -> Result<Arrived> {
        packet_of(number, 0)
    }

    /// A packet with a number, and with that many octets of payload.
    fn packet_of(number: u32, len: usize) -> Result<Arrived> {
        let addresses = PacketAddresses {
            src: [0; 16],
            dst: [0; 16],
            protocol: GidProtocol::Ipv4,
        };
        let opcode = Opcode::RcSendOnly;
        let head = PacketHead {
            bth: Bth::new(opcode.code(), Qpn::new(2), Psn::new(number)),
            opcode,
            ext: Extensions::default(),
            len,
        };
        let made = DirectPacket::new(addresses, &head, |_| Ok::<_, Error>(()))?;
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

    /// RNIC-LIM-05: long packets wait up to the bound of octets, and are counted behind it.
    #[test]
    fn octets_beyond_the_bound_are_dropped_and_counted() -> Result {
        let inbox = KBox::pin_init(
            new_spinlock_bh!(PacketInbox::new(), "rdma_soft_test_inbox"),
            GFP_KERNEL,
        )?;
        let counters = Counters::new()?;
        let len = 20_000;
        let octets = packet_of(0, len)?.octets();
        let most = INBOX_OCTETS / octets;
        for number in 0..300 {
            let fits = u64::from(number) < most;
            assert_eq!(leave(&inbox, packet_of(number, len)?, &counters), fits);
        }
        assert_eq!(counters.value(Counter::ReceivedPackets), most);
        assert_eq!(counters.value(Counter::ReceivedOctets), most * octets);
        assert_eq!(counters.value(Counter::DropInbox), 300 - most);
        // A packet that is taken makes room for one of its length.
        assert_eq!(next(&mut inbox.lock()), Some(0));
        assert!(leave(&inbox, packet_of(300, len)?, &counters));
        assert!(!leave(&inbox, packet_of(301, len)?, &counters));
        while inbox.lock().pop().is_some() {}
        assert_eq!(inbox.lock().octets, 0);
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
