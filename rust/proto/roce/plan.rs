// SPDX-License-Identifier: GPL-2.0

//! From a message to packets (RNIC-PSN-03).

use super::{
    header::BTH_LEN,
    icrc::ICRC_LEN,
    opcode::{
        Companion,
        Opcode,
        Operation,
        Position,
        Service, //
    },
    packet::transport_len,
};
use crate::proto::base::verbs::Mtu;

impl Mtu {
    /// The binary logarithm of the octets.
    const fn log2(self) -> u8 {
        // No overflow: codes are at most 5.
        self.code().wrapping_add(7)
    }

    /// Octets of the payload of a full packet.
    pub(crate) const fn octets(self) -> u32 {
        1 << self.log2()
    }

    /// Packets of a message of `len` octets, at least 1 (RNIC-PSN-02).
    pub(crate) const fn packets(self, len: u32) -> u32 {
        // No overflow: the quotient is far below the largest number.
        let rest = if len & self.octets().wrapping_sub(1) == 0 {
            0
        } else {
            1
        };
        let packets = (len >> self.log2()).wrapping_add(rest);
        if packets == 0 {
            1
        } else {
            packets
        }
    }

    /// Octets of the payload of `packets` full packets.
    pub(crate) const fn octets_of(self, packets: u32) -> u32 {
        packets.saturating_mul(self.octets())
    }
}

/// A packet of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedPacket {
    /// Opcode.
    pub(crate) opcode: Opcode,
    /// Offset of the payload in the message.
    pub(crate) offset: u32,
    /// Octets of the payload.
    pub(crate) len: u32,
    /// Octets from the BTH to the ICRC, padding included, of all packets.
    pub(crate) wire_len: usize,
}

/// The packets of a message with payload: SEND, WRITE, READ response or ATOMIC WRITE. All other
/// operations have one packet without payload, and `len` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessagePlan {
    /// Service.
    pub(crate) service: Service,
    /// Operation.
    pub(crate) operation: Operation,
    /// Companion of the last packet.
    pub(crate) companion: Companion,
    /// Octets of the message.
    pub(crate) len: u32,
    /// Path MTU.
    pub(crate) mtu: Mtu,
}

impl MessagePlan {
    /// The number of packets, at least 1.
    pub(crate) const fn packets(&self) -> u32 {
        self.mtu.packets(self.len)
    }

    /// Packet `index`; `None` behind the last one, and if the service has no such operation.
    pub(crate) fn packet(&self, index: u32) -> Option<PlannedPacket> {
        self.run(index, 1)
    }

    /// `packets` packets from `index` on as a single one of any length: its opcode says whether they begin
    /// and end the message (RNIC-DIR-03). `None` as for [`Self::packet`], and without packets.
    pub(crate) fn run(&self, index: u32, packets: u32) -> Option<PlannedPacket> {
        let more = packets.checked_sub(1)?;
        let last = self.packets().checked_sub(1)?;
        let end = index.checked_add(more).filter(|end| *end <= last)?;
        let position = Position::new(index == 0, end == last);
        let opcode = Opcode::find(self.service, self.operation, position, self.companion)?;
        let offset = self.mtu.octets_of(index);
        let full = self.mtu.octets_of(packets);
        let len = self.len.saturating_sub(offset).min(full);
        let payload = usize::try_from(len).ok()?;
        // Only the first packet has the range, and only the last one what accompanies it.
        let headers = usize::try_from(more)
            .ok()?
            .checked_mul(BTH_LEN.saturating_add(ICRC_LEN))?;
        let wire_len = transport_len(opcode, payload)
            .saturating_add(ICRC_LEN)
            .saturating_add(headers);
        Some(PlannedPacket {
            opcode,
            offset,
            len,
            wire_len,
        })
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_plan))]
mod tests {
    use super::*;

    /// A message on a reliable connection with packets of 256 octets.
    fn plan(operation: Operation, companion: Companion, len: u32) -> MessagePlan {
        MessagePlan {
            service: Service::Rc,
            operation,
            companion,
            len,
            mtu: Mtu::M256,
        }
    }

    /// RNIC-PSN-02, RNIC-PSN-03.
    #[test]
    fn packets_of_every_length_cover_the_message() {
        for mtu in [Mtu::M256, Mtu::M512, Mtu::M1024, Mtu::M2048, Mtu::M4096] {
            let full = mtu.octets();
            assert_eq!(full, 128 << mtu.code());
            for len in [0, 1, full - 1, full, full + 1, 3 * full, 3 * full + 5] {
                let plan = MessagePlan {
                    mtu,
                    ..plan(Operation::Send, Companion::Nothing, len)
                };
                let count = plan.packets();
                assert_eq!(count, len.div_ceil(full).max(1));
                let mut offset = 0;
                for index in 0..count {
                    let packet = plan.packet(index);
                    assert_eq!(packet.map(|packet| packet.offset), Some(offset));
                    let octets = packet.map_or(0, |packet| packet.len);
                    // FIRST and MIDDLE are full, LAST is not empty.
                    assert!(index + 1 == count || octets == full);
                    assert!(count == 1 || octets > 0);
                    offset += octets;
                }
                assert_eq!(offset, len);
                assert_eq!(plan.packet(count), None);
            }
        }
    }

    /// RNIC-PSN-05.
    #[test]
    fn longest_message_is_counted() {
        assert_eq!(Mtu::M256.packets(1 << 31), 1 << 23);
        assert_eq!(Mtu::M4096.packets(u32::MAX), 1 << 20);
    }

    /// RNIC-REQ-13, RNIC-HDR-02.
    #[test]
    fn opcodes_of_a_write_are_first_middle_last() {
        let plan = plan(Operation::Write, Companion::Immediate, 600);
        let at = |index| plan.packet(index).map(|packet| packet.opcode);
        assert_eq!(at(0), Some(Opcode::RcWriteFirst));
        assert_eq!(at(1), Some(Opcode::RcWriteMiddle));
        assert_eq!(at(2), Some(Opcode::RcWriteLastImm));
        assert_eq!(at(3), None);
        let wire = |index| plan.packet(index).map(|packet| packet.wire_len);
        assert_eq!(wire(0), Some(12 + 16 + 256 + 4));
        assert_eq!(wire(1), Some(12 + 256 + 4));
        assert_eq!(wire(2), Some(12 + 4 + 88 + 4));
    }

    /// RNIC-DIR-03.
    #[test]
    fn run_has_the_octets_of_its_packets() {
        let plan = plan(Operation::Write, Companion::Immediate, 600);
        for (index, packets, opcode) in [
            (0, 1, Opcode::RcWriteFirst),
            (0, 2, Opcode::RcWriteFirst),
            (0, 3, Opcode::RcWriteOnlyImm),
            (1, 1, Opcode::RcWriteMiddle),
            (1, 2, Opcode::RcWriteLastImm),
            (2, 1, Opcode::RcWriteLastImm),
        ] {
            let run = plan.run(index, packets);
            let single = |at| plan.packet(at).map_or((0, 0), |at| (at.len, at.wire_len));
            let parts = (index..index + packets).map(single);
            let (len, wire) = parts.fold((0, 0), |sum, at| (sum.0 + at.0, sum.1 + at.1));
            assert_eq!(
                run.map(|run| (run.opcode, run.offset)),
                Some((opcode, 256 * index))
            );
            assert_eq!(run.map(|run| (run.len, run.wire_len)), Some((len, wire)));
        }
        assert_eq!(plan.run(0, 0), None);
        assert_eq!(plan.run(1, 3), None);
        assert_eq!(plan.run(u32::MAX, 2), None);
    }

    #[test]
    fn operation_of_another_service_has_no_packet() {
        let plan = MessagePlan {
            service: Service::Uc,
            ..plan(Operation::ReadRequest, Companion::Nothing, 0)
        };
        assert_eq!(plan.packet(0), None);
        assert_eq!(plan.run(0, 1), None);
    }
}
