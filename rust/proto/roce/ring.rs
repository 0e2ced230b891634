// SPDX-License-Identifier: GPL-2.0

//! Rings in memory shared with user space, in the layout of rxe's interface: sizes, offsets and
//! indices (RNIC-UAPI-01).
//!
//! A ring is a header of 384 octets and slots of equal size. One side produces, the other consumes;
//! each writes its own index only. One slot stays empty, so equal indices mean an empty ring. The
//! user may write anything at any time: this side reads the index of the user only, masked, and keeps
//! its own index elsewhere (RNIC-SEC-05).

use super::wqe::{
    RECEIVE_HEAD,
    SEND_HEAD,
    SGE_LEN, //
};

/// Octets of the header.
const HEADER: u32 = 384;
/// Octets of a slot, at least.
const SLOT_MIN: u32 = 64;
/// Octets of a completion.
const COMPLETION: u32 = 48;

/// Offset of the two words that say the size of a slot and the mask of an index.
pub(crate) const SHAPE_AT: usize = 0;
/// Offset of the producer's index.
pub(crate) const PRODUCER_AT: usize = 128;
/// Offset of the consumer's index.
pub(crate) const CONSUMER_AT: usize = 256;

/// The shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingShape {
    /// Logarithm of the octets of a slot.
    slot_bits: u32,
    /// Slots less one: a power of two less one.
    mask: u32,
    /// Octets of the whole ring.
    octets: u32,
}

impl RingShape {
    /// A ring with room for `entries` elements of `len` octets; `None` if its size does not fit 32 bits.
    fn new(entries: u32, len: u32) -> Option<Self> {
        let slots = entries.checked_add(1)?.checked_next_power_of_two()?;
        let slot = len.max(SLOT_MIN).checked_next_power_of_two()?;
        let octets = slots.checked_mul(slot)?.checked_add(HEADER)?;
        Some(Self {
            slot_bits: slot.trailing_zeros(),
            mask: slots.checked_sub(1)?,
            octets,
        })
    }

    /// A ring of completions.
    pub(crate) fn of_completions(entries: u32) -> Option<Self> {
        Self::new(entries, COMPLETION)
    }

    /// A ring of send work requests with that many scatter/gather elements, or octets of inline data.
    pub(crate) fn of_sends(entries: u32, sges: u32, inline: u32) -> Option<Self> {
        let data = sges.checked_mul(SGE_LEN)?.max(inline);
        Self::new(entries, SEND_HEAD.checked_add(data)?)
    }

    /// A ring of receive work requests with that many scatter/gather elements.
    pub(crate) fn of_receives(entries: u32, sges: u32) -> Option<Self> {
        Self::new(
            entries,
            sges.checked_mul(SGE_LEN)?.checked_add(RECEIVE_HEAD)?,
        )
    }

    /// Elements that the ring holds.
    pub(crate) const fn entries(self) -> u32 {
        self.mask
    }

    /// Octets of the ring.
    pub(crate) const fn octets(self) -> u32 {
        self.octets
    }

    /// Octets of a slot behind the first `head` ones.
    pub(crate) fn room_behind(self, head: u32) -> u32 {
        1_u32
            .checked_shl(self.slot_bits)
            .unwrap_or(0)
            .saturating_sub(head)
    }

    /// The two words at [`SHAPE_AT`], for the library only.
    pub(crate) const fn words(self) -> [u32; 2] {
        [self.slot_bits, self.mask]
    }

    /// The offset of the slot of an index, which lies in the ring for all indices.
    pub(crate) fn slot_at(self, index: u32) -> usize {
        let offset = (index & self.mask)
            .checked_shl(self.slot_bits)
            .and_then(|offset| offset.checked_add(HEADER))
            .unwrap_or(HEADER);
        usize::try_from(offset).unwrap_or_default()
    }

    /// The index that follows.
    pub(crate) const fn after(self, index: u32) -> u32 {
        index.wrapping_add(1) & self.mask
    }

    /// The index that is `count` elements before.
    pub(crate) const fn before(self, index: u32, count: u32) -> u32 {
        index.wrapping_sub(count) & self.mask
    }

    /// Elements between the index of the consumer and that of the producer: at most
    /// [`Self::entries`], for all values of both (RNIC-SEC-06).
    pub(crate) const fn used(self, producer: u32, consumer: u32) -> u32 {
        producer.wrapping_sub(consumer) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RNIC-UAPI-01.
    #[test]
    fn shape_rounds_slots_and_elements_up() {
        let shape = RingShape::of_sends(100, 1, 0).unwrap();
        assert_eq!(shape.entries(), 127);
        assert_eq!(shape.words(), [8, 127]);
        assert_eq!(shape.octets(), 384 + 128 * 256);
        assert_eq!(shape.room_behind(SEND_HEAD), 48);
        let shape = RingShape::of_sends(127, 16, 256).unwrap();
        assert_eq!(shape.words(), [9, 127]);
        let shape = RingShape::of_receives(1, 1).unwrap();
        assert_eq!(shape.words(), [6, 1]);
        assert_eq!(shape.room_behind(RECEIVE_HEAD), 24);
        let shape = RingShape::of_completions(128).unwrap();
        assert_eq!(shape.words(), [6, 255]);
    }

    /// The sizes that a program is told give the same ring again.
    #[test]
    fn shape_of_reported_sizes_is_the_same() {
        for entries in [0, 1, 2, 3, 100, 16_384] {
            for sges in 0..=16 {
                let first = RingShape::of_sends(entries, sges, 256).unwrap();
                let again = RingShape::of_sends(
                    first.entries(),
                    (first.room_behind(SEND_HEAD) / SGE_LEN).min(16),
                    first.room_behind(SEND_HEAD).min(256),
                );
                assert_eq!(again, Some(first));
                let first = RingShape::of_receives(entries, sges).unwrap();
                let room = first.room_behind(RECEIVE_HEAD) / SGE_LEN;
                assert_eq!(
                    RingShape::of_receives(first.entries(), room.min(16)),
                    Some(first)
                );
            }
        }
    }

    #[test]
    fn ring_without_entries_is_always_empty() {
        let shape = RingShape::of_receives(0, 1).unwrap();
        assert_eq!(shape.entries(), 0);
        for index in [0, 1, 7, u32::MAX] {
            assert_eq!(shape.used(index, 0), 0);
            assert_eq!(shape.slot_at(index), 384);
        }
    }

    /// RNIC-SEC-05, RNIC-SEC-06.
    #[test]
    fn index_out_of_range_stays_in_the_ring() {
        let shape = RingShape::of_sends(3, 1, 0).unwrap();
        let end = usize::try_from(shape.octets()).unwrap();
        for index in [0, 3, 4, 5, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            assert!(shape.slot_at(index) >= 384);
            assert!(shape.slot_at(index) + 256 <= end);
            for own in 0..4 {
                assert!(shape.used(index, own) <= shape.entries());
            }
        }
        assert_eq!(shape.used(1, 3), 2);
        assert_eq!(shape.after(3), 0);
        assert_eq!(shape.before(1, 3), 2);
        assert_eq!(shape.before(2, 2), 0);
    }

    #[test]
    fn ring_that_is_too_large_is_refused() {
        assert_eq!(RingShape::of_completions(u32::MAX), None);
        assert_eq!(RingShape::of_completions(1 << 26), None);
        assert_eq!(RingShape::of_sends(1, u32::MAX, 0), None);
        assert_eq!(RingShape::of_sends(1, 1, u32::MAX), None);
        assert_eq!(RingShape::of_receives(1 << 31, 1), None);
    }
}
