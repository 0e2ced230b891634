// SPDX-License-Identifier: GPL-2.0

//! Whether a buffer of a connection is contiguous, or in pieces where memory is fragmented.

/// The kind of the buffers of a link group: `smcr_buf_type` when the group was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferKind {
    /// All of a buffer is contiguous.
    Contiguous,
    /// A buffer consists of pieces.
    Pieces,
    /// A buffer is contiguous if one of the wanted size is free, and in pieces if not.
    Mixed,
}

impl BufferKind {
    /// Octets of a piece. The kernel has free memory of this size even when it is fragmented.
    pub(crate) const PIECE: u32 = 32 << 10;

    /// Most octets of one chain of writes from a buffer in pieces.
    pub(crate) const PIECES_WRITE: u32 = 2 * Self::PIECE;

    /// Pieces that one write of such a chain touches at most.
    pub(crate) const TOUCHED: u32 = Self::PIECES_WRITE / Self::PIECE + 1;

    /// That of a setting.
    pub(crate) const fn of_setting(value: i32) -> Self {
        match value {
            1 => Self::Pieces,
            2 => Self::Mixed,
            _ => Self::Contiguous,
        }
    }

    /// As generic netlink names it.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Contiguous => 0,
            Self::Pieces => 1,
            Self::Mixed => 2,
        }
    }

    /// The kind on a device whose requests gather up to `gathered` pieces.
    pub(crate) const fn on_device(self, gathered: u32) -> Self {
        if gathered < Self::TOUCHED {
            Self::Contiguous
        } else {
            self
        }
    }

    /// The sizes of pieces, in octets, to try for a buffer of `bytes`, in order. One as large as the buffer
    /// makes it contiguous.
    pub(crate) fn pieces(self, bytes: u32) -> impl Iterator<Item = u32> {
        let piece = core::cmp::min(bytes, Self::PIECE);
        let (first, second) = match self {
            Self::Contiguous => (bytes, None),
            Self::Pieces => (piece, None),
            Self::Mixed => (bytes, (piece < bytes).then_some(piece)),
        };
        core::iter::once(first).chain(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(kind: BufferKind, kbytes: u32) -> Vec<u32> {
        kind.pieces(kbytes << 10).map(|piece| piece >> 10).collect()
    }

    #[test]
    fn setting_is_read_and_shown() {
        for (value, kind) in [
            (0, BufferKind::Contiguous),
            (1, BufferKind::Pieces),
            (2, BufferKind::Mixed),
        ] {
            assert_eq!(BufferKind::of_setting(value), kind);
            assert_eq!(i32::from(kind.number()), value);
        }
        assert_eq!(BufferKind::of_setting(3), BufferKind::Contiguous);
    }

    #[test]
    fn mixed_buffer_is_in_pieces_only_if_it_cannot_be_contiguous() {
        assert_eq!(pieces(BufferKind::Contiguous, 128), [128]);
        assert_eq!(pieces(BufferKind::Pieces, 128), [32]);
        assert_eq!(pieces(BufferKind::Mixed, 128), [128, 32]);
        for kind in [
            BufferKind::Contiguous,
            BufferKind::Pieces,
            BufferKind::Mixed,
        ] {
            assert_eq!(pieces(kind, 16), [16]);
            assert_eq!(pieces(kind, 32), [32]);
        }
    }

    #[test]
    fn device_that_gathers_too_little_has_contiguous_buffers() {
        let mixed = BufferKind::Mixed;
        assert_eq!(mixed.on_device(2), BufferKind::Contiguous);
        assert_eq!(mixed.on_device(3), mixed);
        // A write that begins within a piece.
        let (most, piece) = (BufferKind::PIECES_WRITE, BufferKind::PIECE);
        assert_eq!((piece - 1 + most - 1) / piece + 1, BufferKind::TOUCHED);
    }
}
