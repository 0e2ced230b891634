// SPDX-License-Identifier: GPL-2.0

//! The check of a routine for CRC-32, before packets depend on it (RNIC-DATA-05).
//!
//! The sums are those of independent implementations. Routines have code of their own for short, long and
//! unaligned octets, so there are some of each.

use super::{
    crc32::{
        Crc32,
        CrcRoutine, //
    },
    frame::Frame,
    icrc, //
};

/// Octets of the pattern.
const PATTERN_LEN: usize = 4104;

/// Octets that repeat after 251.
static PATTERN: [u8; PATTERN_LEN] = pattern();

/// Parts of the pattern: where they begin, their octets, and the sum.
static SUMS: [(usize, usize, u32); 23] = [
    (0, 0, 0x0000_0000),
    (0, 1, 0xd202_ef8d),
    (1, 7, 0x70e4_6888),
    (3, 8, 0x62bc_a3dc),
    (0, 15, 0xa06c_675e),
    (1, 16, 0x094c_80f1),
    (5, 17, 0x79ef_681c),
    (2, 31, 0x063f_1092),
    (0, 63, 0xdbde_a683),
    (7, 64, 0x3e65_9ecb),
    (1, 127, 0x96a2_bd50),
    (0, 255, 0x6f7c_9956),
    (3, 256, 0xfaec_8909),
    (1, 300, 0x2b0d_5180),
    (0, 511, 0x21d6_e1a0),
    (2, 512, 0x6d5f_42d3),
    (1, 513, 0x663e_517c),
    (0, 1023, 0x5a9e_0eff),
    (4, 1024, 0xf617_58c5),
    (6, 2048, 0xf9b1_dc73),
    (1, 4095, 0xd7bb_2c4b),
    (8, 4096, 0x0931_2125),
    (0, 4104, 0x63ca_a903),
];

/// A SEND ONLY over IPv4, from the header of the network to the ICRC.
pub(crate) const SEND: &[u8] = &[
    0x45, 0, 0, 0x3c, 0x12, 0x34, 0x40, 0, 0x40, 0x11, 0x14, 0x7b, 0x0a, 0, 0, 1, 0x0a, 0, 0, 2,
    0xc0, 0xde, 0x12, 0xb7, 0, 0x28, 0, 0, 4, 0xc0, 0xff, 0xff, 0, 0x10, 0, 0x11, 0x80, 0x12, 0x34,
    0x56, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f,
    0x50, 0xa5, 0xe1, 0xd1, 0xb5,
];

#[expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler, which refuses an index that is out of range"
)]
const fn pattern() -> [u8; PATTERN_LEN] {
    let mut octets = [0; PATTERN_LEN];
    let mut at = 0_usize;
    let mut value = 0_u8;
    while at < PATTERN_LEN {
        octets[at] = value;
        at = at.wrapping_add(1);
        value = if value == 250 {
            0
        } else {
            value.wrapping_add(1)
        };
    }
    octets
}

/// Whether a routine computes the known sums, in one step and in two, and accepts a known packet.
pub(crate) fn is_right(routine: &impl CrcRoutine) -> bool {
    let sums = SUMS.iter().all(|&(start, len, sum)| {
        let end = start.saturating_add(len);
        let Some(octets) = PATTERN.get(start..end) else {
            return false;
        };
        let (head, tail) = octets.split_at(len >> 1);
        let first = routine.update(Crc32::START, head);
        routine.update(Crc32::START, octets).value() == sum
            && routine.update(first, tail).value() == sum
    });
    let packet = Frame::parse_ipv4(SEND)
        .is_ok_and(|(frame, octets)| icrc::check(routine, &frame, octets).is_ok());
    sums && packet
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_crc_check))]
mod tests {
    use super::*;
    use crate::proto::roce::crc32::Slicing;

    /// A routine that is wrong where `wrong` says so for the state and the octets.
    struct Broken(fn(Crc32, &[u8]) -> bool);

    impl CrcRoutine for Broken {
        fn update(&self, state: Crc32, octets: &[u8]) -> Crc32 {
            let right = state.update(octets);
            if (self.0)(state, octets) {
                Crc32::from_state(right.state() ^ 1)
            } else {
                right
            }
        }
    }

    /// RNIC-DATA-05.
    #[test]
    fn routine_of_this_module_is_right() {
        assert!(is_right(&Slicing));
        assert!(is_right(&Broken(|_, _| false)));
    }

    /// RNIC-DATA-05.
    #[test]
    fn routine_that_is_wrong_for_some_octets_is_refused() {
        let broken: [fn(Crc32, &[u8]) -> bool; 9] = [
            |_, _| true,
            |_, octets| octets.is_empty(),
            |_, octets| octets.len() == 1,
            |_, octets| (16..64).contains(&octets.len()),
            |_, octets| (256..512).contains(&octets.len()),
            |_, octets| octets.len() >= 1_024,
            |_, octets| octets.len() == 4_096,
            |_, octets| octets.len() % 8 == 7,
            // It forgets what came before.
            |state, _| state != Crc32::START,
        ];
        for wrong in broken {
            assert!(!is_right(&Broken(wrong)));
        }
    }

    /// RNIC-DATA-05.
    #[test]
    fn routine_with_another_polynomial_or_order_is_refused() {
        struct Zero;
        impl CrcRoutine for Zero {
            fn update(&self, state: Crc32, _octets: &[u8]) -> Crc32 {
                state
            }
        }
        struct Inverted;
        impl CrcRoutine for Inverted {
            fn update(&self, state: Crc32, octets: &[u8]) -> Crc32 {
                Crc32::from_state(Crc32::from_state(!state.state()).update(octets).value())
            }
        }
        assert!(!is_right(&Zero));
        assert!(!is_right(&Inverted));
    }
}
