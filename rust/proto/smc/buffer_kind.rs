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

    /// Makes a buffer of `bytes` by `make`, which gets the octets of a piece. One as large as the buffer makes
    /// it contiguous.
    ///
    /// # Errors
    ///
    /// That of the last attempt.
    pub(crate) fn make<T, E>(
        self,
        bytes: u32,
        mut make: impl FnMut(u32) -> Result<T, E>,
    ) -> Result<T, E> {
        let piece = core::cmp::min(bytes, Self::PIECE);
        match self {
            Self::Contiguous => make(bytes),
            Self::Pieces => make(piece),
            Self::Mixed if piece == bytes => make(bytes),
            Self::Mixed => make(bytes).or_else(|_| make(piece)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of pieces that are tried without success, in KiB.
    fn pieces(kind: BufferKind, kbytes: u32) -> Vec<u32> {
        let mut tried = Vec::new();
        let made: Result<(), usize> = kind.make(kbytes << 10, |piece| {
            tried.push(piece >> 10);
            Err(tried.len())
        });
        assert_eq!(made, Err(tried.len()));
        tried
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
        assert_eq!(
            BufferKind::Mixed.make(128 << 10, Ok::<u32, ()>),
            Ok(128 << 10)
        );
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
