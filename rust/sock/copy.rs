// SPDX-License-Identifier: GPL-2.0

//! Copies between a program and the two pieces of a ring.

use crate::proto::stream::positions::Segment;
use kernel::prelude::*;

/// Copies by `piece`, which gets an offset and a length, until a piece is not copied whole. Returns
/// the number of bytes, at least one.
///
/// # Errors
///
/// That of the first piece, or `EFAULT` without a byte.
pub(crate) fn copy(
    segments: &[Segment; 2],
    mut piece: impl FnMut(usize, usize) -> Result<usize>,
) -> Result<u32> {
    let mut copied = 0u32;
    for segment in segments.iter().filter(|segment| segment.len != 0) {
        let len = usize::try_from(segment.len)?;
        let count = match piece(usize::try_from(segment.off)?, len) {
            Ok(count) => count,
            Err(error) if copied == 0 => return Err(error),
            Err(_) => break,
        };
        copied = copied.saturating_add(u32::try_from(count)?);
        if count < len {
            break;
        }
    }
    if copied == 0 {
        return Err(EFAULT);
    }
    Ok(copied)
}
