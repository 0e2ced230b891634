// SPDX-License-Identifier: GPL-2.0

//! Positions in ring buffers and the cursors that name them on the wire, RFC 7609, 4.3 and A.4.
//!
//! Inside, a position is the number of bytes since the start of the connection and never wraps. On
//! the wire it is an offset in a buffer and a count of wraps of 16 bits. A [`Cursor`] keeps both,
//! so that neither a division nor a guess is needed; a cursor of the peer becomes one only by
//! [`Ring::receive`], which accepts no more than one buffer of progress.

use crate::proto::stream::positions::{
    distance,
    Segment, //
};

/// A buffer used as a ring: bytes `origin` to `len - 1` carry data.
///
/// # Invariants
///
/// `origin < len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    origin: u32,
    len: u32,
}

/// A position in a ring, in both forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Bytes since the start of the connection.
    position: u64,
    /// Offset in the buffer of the byte at that position.
    offset: u32,
    /// How often the ring wrapped, modulo 2^16.
    wrap: u16,
}

/// A cursor as it travels (CDC-06, CDC-07).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wire {
    /// Count of wraps.
    pub(crate) wrap: u16,
    /// Offset in the buffer.
    pub(crate) offset: u32,
}

impl Ring {
    /// Describes a buffer of `len` bytes of which the first `origin` carry no data: 4 with an eye
    /// catcher, else 0 (CDC-07, DEP-1). `None` if nothing would be left.
    pub(crate) const fn new(origin: u32, len: u32) -> Option<Self> {
        if origin < len {
            // INVARIANT: Just checked.
            Some(Self { origin, len })
        } else {
            None
        }
    }

    /// The number of bytes of the buffer.
    pub(crate) const fn len(self) -> u32 {
        self.len
    }

    /// The number of bytes that carry data (CDC-50).
    pub(crate) const fn capacity(self) -> u32 {
        // Exact, by the type invariant.
        self.len.saturating_sub(self.origin)
    }

    /// The cursor every connection starts with (CDC-07).
    pub(crate) const fn start(self) -> Cursor {
        Cursor {
            position: 0,
            offset: self.origin,
            wrap: 0,
        }
    }

    /// The cursor `count` bytes after `from` (CDC-50); `None` if that is more than the capacity.
    pub(crate) fn advance(self, from: Cursor, count: u32) -> Option<Cursor> {
        if count > self.capacity() {
            return None;
        }
        let position = from.position.checked_add(u64::from(count))?;
        let to_end = self.len.checked_sub(from.offset)?;
        Some(match count.checked_sub(to_end) {
            None => Cursor {
                position,
                offset: from.offset.checked_add(count)?,
                wrap: from.wrap,
            },
            Some(rest) => Cursor {
                position,
                offset: self.origin.checked_add(rest)?,
                wrap: from.wrap.wrapping_add(1),
            },
        })
    }

    /// Reads a cursor of the peer that must lie at or after `last`, by at most `limit` bytes and
    /// the capacity (CDC-38, CDC-51 to CDC-55). `None` for any other, which is a violation.
    pub(crate) fn receive(self, last: Cursor, wire: Wire, limit: u32) -> Option<Cursor> {
        if wire.offset < self.origin || wire.offset >= self.len {
            return None;
        }
        let count = match wire.wrap.wrapping_sub(last.wrap) {
            0 => wire.offset.checked_sub(last.offset)?,
            1 => {
                let to_end = self.len.checked_sub(last.offset)?;
                to_end.checked_add(wire.offset.checked_sub(self.origin)?)?
            }
            _ => return None,
        };
        if count > limit {
            return None;
        }
        self.advance(last, count)
    }

    /// The offset of the byte before `cursor`, if there was one.
    pub(crate) fn before(self, cursor: Cursor) -> Option<u32> {
        if cursor.position == 0 {
            None
        } else if cursor.offset == self.origin {
            self.len.checked_sub(1)
        } else {
            cursor.offset.checked_sub(1)
        }
    }

    /// Whether a cursor of the peer lies before `last`, by no more than the capacity.
    pub(crate) fn is_behind(self, last: Cursor, wire: Wire) -> bool {
        let from = Cursor {
            position: 0,
            offset: wire.offset,
            wrap: wire.wrap,
        };
        wire.offset >= self.origin
            && wire.offset < self.len
            && wire != last.wire()
            && self.receive(from, last.wire(), self.capacity()).is_some()
    }

    /// The one or two parts of the buffer that hold the `count` bytes from `from` on (CDC-56). The
    /// second is empty unless they wrap. Never more than the capacity.
    pub(crate) fn segments(self, from: Cursor, count: u32) -> [Segment; 2] {
        let count = core::cmp::min(count, self.capacity());
        let first = core::cmp::min(count, self.len.saturating_sub(from.offset));
        [
            Segment {
                off: from.offset,
                len: first,
            },
            Segment {
                off: self.origin,
                // Exact: `first` is at most `count`.
                len: count.saturating_sub(first),
            },
        ]
    }
}

impl Cursor {
    /// Bytes since the start of the connection.
    pub(crate) const fn position(self) -> u64 {
        self.position
    }

    /// The form on the wire.
    pub(crate) const fn wire(self) -> Wire {
        Wire {
            wrap: self.wrap,
            offset: self.offset,
        }
    }

    /// Bytes from `earlier` to this cursor, 0 if there are none; cursors of one ring never differ
    /// by more than `u32::MAX`.
    pub(crate) fn since(self, earlier: Self) -> u32 {
        distance(earlier.position, self.position)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_cursor))]
mod tests {
    use super::*;

    /// The buffer of the examples of RFC 7609, 4.7 (AMB-28).
    const RFC: Ring = Ring {
        origin: 4,
        len: 10_000,
    };

    fn wire(wrap: u16, offset: u32) -> Wire {
        Wire { wrap, offset }
    }

    /// A cursor of the RFC's buffer with any wrap count.
    fn at(wrap: u16, offset: u32) -> Cursor {
        Cursor {
            position: 1 << 40,
            offset,
            wrap,
        }
    }

    #[test]
    fn a_ring_needs_room_for_data() {
        assert!(Ring::new(0, 0).is_none());
        assert!(Ring::new(4, 4).is_none());
        assert!(Ring::new(5, 4).is_none());
        assert_eq!(Ring::new(4, 5).map(Ring::capacity), Some(1));
        assert_eq!(RFC.capacity(), 9_996);
    }

    // CDC-07, CDC-10, CDC-50, CDC-57.
    #[test]
    fn cursors_start_at_the_origin_and_wrap_to_it() -> Result<(), ()> {
        assert_eq!(RFC.start().wire(), wire(0, 4));
        let c = RFC.advance(RFC.start(), 9_995).ok_or(())?;
        assert_eq!(c.wire(), wire(0, 9_999));
        let c = RFC.advance(c, 1).ok_or(())?;
        assert_eq!(c.wire(), wire(1, 4));
        assert_eq!(c.position(), 9_996);
        let c = RFC.advance(c, 9_996).ok_or(())?;
        assert_eq!(c.wire(), wire(2, 4));
        assert!(RFC.advance(c, 9_997).is_none());
        Ok(())
    }

    // CDC-06, CDC-50, TST-003.
    #[test]
    fn wrap_count_passes_65535() -> Result<(), ()> {
        let c = at(u16::MAX, 5_000);
        let next = RFC.advance(c, 9_996).ok_or(())?;
        assert_eq!(next.wire(), wire(0, 5_000));
        assert_eq!(RFC.receive(c, wire(0, 5_000), 9_996), Some(next));
        Ok(())
    }

    // CDC-51, CDC-54, CDC-55.
    #[test]
    fn full_and_empty_differ_by_the_wrap_count() {
        // CDC-52.
        let c = at(1, 1_004);
        let full = RFC.receive(c, wire(2, 1_004), 9_996);
        assert_eq!(full.map(|f| f.since(c)), Some(9_996));
        let empty = RFC.receive(c, wire(1, 1_004), 9_996);
        assert_eq!(empty.map(|e| e.since(c)), Some(0));
    }

    // CDC-38, CDC-51, TST-149.
    #[test]
    fn impossible_cursors_are_refused() {
        let c = at(1, 1_004);
        let cap = RFC.capacity();
        // Inside the eye catcher, beyond the buffer.
        for offset in [0, 3, 10_000, 10_001, u32::MAX] {
            assert!(RFC.receive(c, wire(1, offset), cap).is_none());
            assert!(RFC.receive(c, wire(2, offset), cap).is_none());
        }
        // Backwards, more than full, and wraps that cannot be.
        assert!(RFC.receive(c, wire(1, 1_003), cap).is_none());
        assert!(RFC.receive(c, wire(2, 1_005), cap).is_none());
        assert!(RFC.receive(c, wire(3, 4), cap).is_none());
        assert!(RFC.receive(c, wire(0, 9_999), cap).is_none());
        // More than allowed.
        assert!(RFC.receive(c, wire(1, 1_104), 99).is_none());
        assert!(RFC.receive(c, wire(1, 1_104), 100).is_some());
    }

    // CDC-50, CDC-51, CDC-54, WIN-01, TST-003.
    #[test]
    fn advancing_and_receiving_agree_on_every_pair() {
        // Small enough to try all pairs of a position and an advance, with both origins.
        for origin in [0, 4] {
            let Some(ring) = Ring::new(origin, 11) else {
                assert!(origin > 11);
                continue;
            };
            let mut from = ring.start();
            for _ in 0..3 * ring.capacity() {
                for count in 0..=ring.capacity() {
                    let to = ring.advance(from, count);
                    assert!(to.is_some());
                    let to = to.unwrap_or(from);
                    assert_eq!(ring.receive(from, to.wire(), ring.capacity()), Some(to));
                    assert_eq!(to.since(from), count);
                    let [a, b] = ring.segments(from, count);
                    assert_eq!(a.len + b.len, count);
                    assert!(a.off >= origin && a.off + a.len <= 11);
                    assert!(b.len == 0 || (b.off == origin && a.off + a.len == 11));
                }
                from = ring.advance(from, 1).unwrap_or(from);
            }
        }
    }

    // RMB-17.
    #[test]
    fn bytes_that_wrap_are_in_two_parts() {
        // Figure 19: 20,000 bytes from 1004 on.
        assert_eq!(
            RFC.segments(at(1, 1_004), 20_000),
            [
                Segment {
                    off: 1_004,
                    len: 8_996
                },
                Segment { off: 4, len: 1_000 }
            ]
        );
    }
}
