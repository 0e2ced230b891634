// SPDX-License-Identifier: GPL-2.0

//! CRC-32 of Ethernet, eight octets per step (RNIC-ICRC-01, RNIC-DATA-05).
//!
//! Each step needs the result of the one before, so the processor waits for its tables most of the time. Long
//! octets go as blocks of four lanes, whose steps need nothing of each other.
//!
//! A state is the remainder without the final inversion, as `crc32_le()` of the kernel has it, so
//! that either implementation continues the state of the other.

/// The generator polynomial, bits reversed.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// The remainder of `value` after eight more bits of zero.
const fn byte_step(mut value: u32) -> u32 {
    let mut bit = 0_u32;
    while bit < 8 {
        value = if value & 1 != 0 {
            (value >> 1) ^ POLYNOMIAL
        } else {
            value >> 1
        };
        bit = bit.wrapping_add(1);
    }
    value
}

/// Remainders of an octet that 0 to 7 octets of zero follow.
#[expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler, which refuses an index that is out of range"
)]
const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut value = 0_u8;
    loop {
        let mut remainder = byte_step(u32::from_le_bytes([value, 0, 0, 0]));
        let at = u16::from_le_bytes([value, 0]);
        let mut table = 0;
        while table < 8 {
            tables[table][index(at)] = remainder;
            remainder = byte_step(remainder);
            table = table.wrapping_add(1);
        }
        if value == u8::MAX {
            break;
        }
        value = value.wrapping_add(1);
    }
    tables
};

/// Octets of a lane of a block.
const LANE: usize = 256;

/// Lanes of a block.
const LANES: usize = 4;

/// Octets of a block.
const BLOCK: usize = LANE * LANES;

/// Remainders of each octet of a state that a lane of zeros follows.
#[expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler, which refuses an index that is out of range"
)]
const LANE_TABLES: [[u32; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
    let shift = power_of_octets(LANE as u64);
    let mut value = 0_u8;
    loop {
        let at = u16::from_le_bytes([value, 0]);
        tables[0][index(at)] = multiply(u32::from_le_bytes([value, 0, 0, 0]), shift);
        tables[1][index(at)] = multiply(u32::from_le_bytes([0, value, 0, 0]), shift);
        tables[2][index(at)] = multiply(u32::from_le_bytes([0, 0, value, 0]), shift);
        tables[3][index(at)] = multiply(u32::from_le_bytes([0, 0, 0, value]), shift);
        if value == u8::MAX {
            break;
        }
        value = value.wrapping_add(1);
    }
    tables
};

/// A table index.
const fn index(at: u16) -> usize {
    let [low, high] = at.to_le_bytes();
    usize::from_le_bytes([low, high, 0, 0, 0, 0, 0, 0])
}

/// The entry of one of `tables`.
fn look<const TABLE: usize>(tables: &[[u32; 256]], value: u8) -> u32 {
    // Neither is out of range: the compiler sees both sizes and drops the checks.
    tables
        .get(TABLE)
        .and_then(|table| table.get(usize::from(value)))
        .copied()
        .unwrap_or_default()
}

/// The entry of one of [`TABLES`].
fn entry<const TABLE: usize>(value: u8) -> u32 {
    look::<TABLE>(&TABLES, value)
}

/// The remainder after eight more octets.
fn step(remainder: u32, octets: &[u8; 8]) -> u32 {
    let [a, b, c, d, e, f, g, h] = *octets;
    let [k, l, m, n] = (remainder ^ u32::from_le_bytes([a, b, c, d])).to_le_bytes();
    entry::<7>(k)
        ^ entry::<6>(l)
        ^ entry::<5>(m)
        ^ entry::<4>(n)
        ^ entry::<3>(e)
        ^ entry::<2>(f)
        ^ entry::<1>(g)
        ^ entry::<0>(h)
}

/// The remainder after a lane of zeros.
fn skip_lane(remainder: u32) -> u32 {
    let [a, b, c, d] = remainder.to_le_bytes();
    look::<0>(&LANE_TABLES, a)
        ^ look::<1>(&LANE_TABLES, b)
        ^ look::<2>(&LANE_TABLES, c)
        ^ look::<3>(&LANE_TABLES, d)
}

/// The remainder after a block: that of its lanes, each of which counts as if the others were zeros.
fn step_block(remainder: u32, block: &[u8; BLOCK]) -> u32 {
    let (first, rest) = block.split_at(LANE);
    let (second, rest) = rest.split_at(LANE);
    let (third, fourth) = rest.split_at(LANE);
    let steps = first
        .chunks_exact(8)
        .zip(second.chunks_exact(8))
        .zip(third.chunks_exact(8).zip(fourth.chunks_exact(8)));
    let (mut a, mut b, mut c, mut d) = (remainder, 0, 0, 0);
    for ((in_a, in_b), (in_c, in_d)) in steps {
        // Each has eight octets.
        if let (Some(in_a), Some(in_b), Some(in_c), Some(in_d)) = (
            in_a.first_chunk(),
            in_b.first_chunk(),
            in_c.first_chunk(),
            in_d.first_chunk(),
        ) {
            a = step(a, in_a);
            b = step(b, in_b);
            c = step(c, in_c);
            d = step(d, in_d);
        }
    }
    skip_lane(skip_lane(skip_lane(a) ^ b) ^ c) ^ d
}

/// The state of a CRC-32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crc32(u32);

impl Crc32 {
    /// The state before the first octet.
    pub(crate) const START: Self = Self(u32::MAX);

    /// Makes a state of the number that `crc32_le()` returns.
    pub(crate) const fn from_state(state: u32) -> Self {
        Self(state)
    }

    /// The number that `crc32_le()` continues from.
    pub(crate) const fn state(self) -> u32 {
        self.0
    }

    /// The state after one more octet.
    fn push(self, octet: u8) -> Self {
        let [low, ..] = self.0.to_le_bytes();
        Self((self.0 >> 8) ^ entry::<0>(low ^ octet))
    }

    /// The state after more octets.
    #[must_use]
    pub(crate) fn update(mut self, octets: &[u8]) -> Self {
        let mut rest = octets;
        while let Some((block, tail)) = rest.split_first_chunk() {
            self = Self(step_block(self.0, block));
            rest = tail;
        }
        while let Some((chunk, tail)) = rest.split_first_chunk() {
            self = Self(step(self.0, chunk));
            rest = tail;
        }
        rest.iter().fold(self, |crc, octet| crc.push(*octet))
    }

    /// The checksum.
    pub(crate) const fn value(self) -> u32 {
        !self.0
    }

    /// The state after the octets of this state, followed by the `len` octets whose own state,
    /// from [`Crc32::START`], is `tail`.
    #[must_use]
    pub(crate) fn combine(self, tail: Self, len: u64) -> Self {
        // The initial ones of `tail` stand where this state would be shifted to.
        Self(multiply(self.0 ^ u32::MAX, power_of_octets(len)) ^ tail.0)
    }
}

/// A routine that computes CRC-32.
pub(crate) trait CrcRoutine {
    /// The state after more octets.
    fn update(&self, state: Crc32, octets: &[u8]) -> Crc32;
}

/// The routine of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slicing;

impl CrcRoutine for Slicing {
    fn update(&self, state: Crc32, octets: &[u8]) -> Crc32 {
        state.update(octets)
    }
}

/// The polynomial 1, bits reversed.
const ONE: u32 = 0x8000_0000;

/// The product of two polynomials modulo the generator, bits reversed.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut mask = ONE;
    while mask != 0 {
        if a & mask != 0 {
            product ^= b;
        }
        b = if b & 1 != 0 {
            (b >> 1) ^ POLYNOMIAL
        } else {
            b >> 1
        };
        mask >>= 1;
    }
    product
}

/// The polynomial x^(8 len) modulo the generator, by repeated squaring.
const fn power_of_octets(mut len: u64) -> u32 {
    let mut power = ONE;
    // x^8.
    let mut square = ONE >> 8;
    while len != 0 {
        if len & 1 != 0 {
            power = multiply(power, square);
        }
        square = multiply(square, square);
        len >>= 1;
    }
    power
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_crc32))]
mod tests {
    use super::*;

    /// The definition, bit by bit.
    fn by_bits(octets: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for octet in octets {
            crc = byte_step(crc ^ u32::from(*octet));
        }
        !crc
    }

    /// Octets that repeat after 251.
    fn octet(at: usize) -> u8 {
        u8::try_from(at % 251).unwrap_or(0)
    }

    /// RNIC-ICRC-01: the check value of the catalogue of CRC algorithms.
    #[test]
    fn check_string_has_the_known_value() {
        assert_eq!(Crc32::START.update(b"123456789").value(), 0xcbf4_3926);
        assert_eq!(Crc32::START.value(), 0);
    }

    /// RNIC-DATA-05.
    #[test]
    fn steps_of_eight_equal_steps_of_one() {
        let mut octets = [0; 100];
        for (at, to) in octets.iter_mut().enumerate() {
            *to = octet(at * 7);
        }
        for start in 0..9 {
            for end in start..octets.len() {
                let part = octets.get(start..end).unwrap_or(&[]);
                assert_eq!(Crc32::START.update(part).value(), by_bits(part));
            }
        }
    }

    /// RNIC-ICRC-01: any split gives the same state, by continuing and by combining.
    #[test]
    fn parts_at_every_split_give_the_whole() {
        let mut octets = [0; 70];
        for (at, to) in octets.iter_mut().enumerate() {
            *to = octet(at * 31 + 5);
        }
        let whole = Crc32::START.update(&octets);
        for split in 0..=octets.len() {
            let (head, tail) = octets.split_at(split);
            let first = Crc32::START.update(head);
            assert_eq!(first.update(tail), whole);
            let second = Crc32::START.update(tail);
            let len = u64::try_from(tail.len()).unwrap_or(0);
            assert_eq!(first.combine(second, len), whole);
        }
    }

    /// RNIC-DATA-05.
    #[test]
    fn blocks_of_lanes_equal_steps_of_one() {
        let mut octets = [0; 2 * BLOCK + 40];
        for (at, to) in octets.iter_mut().enumerate() {
            *to = octet(at * 13 + at / 251);
        }
        for start in [0, 1, 7] {
            for len in [
                BLOCK - 1,
                BLOCK,
                BLOCK + 1,
                BLOCK + 13,
                2 * BLOCK - 1,
                2 * BLOCK + 9,
            ] {
                let part = octets.get(start..start + len).unwrap_or(&[]);
                assert_eq!(part.len(), len);
                assert_eq!(Crc32::START.update(part).value(), by_bits(part));
            }
        }
    }

    #[test]
    fn long_tail_is_combined() {
        let zeros = [0; 4096];
        let mut tail = Crc32::START;
        let mut whole = Crc32::START.update(b"head");
        for _ in 0..20 {
            tail = tail.update(&zeros);
            whole = whole.update(&zeros);
        }
        let head = Crc32::START.update(b"head");
        assert_eq!(head.combine(tail, 20 * 4096), whole);
    }

    #[test]
    fn state_passes_to_another_implementation_and_back() {
        let crc = Crc32::START.update(b"1234");
        let again = Crc32::from_state(crc.state());
        assert_eq!(again.update(b"56789").value(), 0xcbf4_3926);
    }
}
