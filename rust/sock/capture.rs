// SPDX-License-Identifier: GPL-2.0

//! The payload of connections for a tracer: `rdma-sock capture` writes it to a file.
//!
//! What a call has moved is copied a second time, in pieces, only while the event is on. Memory that is lent
//! has no copy here, so calls copy meanwhile.

use super::connection::{
    Connection,
    Protocol, //
};
use crate::{
    kapi::net::trace::{
        captures_payload,
        trace_payload,
        Moved, //
    },
    proto::stream::positions::Segment, //
};
use kernel::prelude::*;

/// Octets of one event, which a reader of the trace gets as one line.
const PIECE: usize = 2048;

/// Whether a tracer wants payload. Context: any.
pub(super) fn is_on() -> bool {
    captures_payload()
}

/// Reports the first `count` octets of `segments`, which a call has moved and which `read` copies.
/// `position` octets of the direction are in front of them. Context: may sleep.
pub(super) fn report<P: Protocol>(
    connection: &Connection<P>,
    how: Moved,
    position: u64,
    segments: &[Segment; 2],
    count: u32,
    read: impl Fn(usize, &mut [u8]) -> Result,
) {
    // Without memory the tracer misses a part, which it sees by the positions.
    let _ = try_report(connection, how, position, segments, count, read);
}

fn try_report<P: Protocol>(
    connection: &Connection<P>,
    how: Moved,
    mut position: u64,
    segments: &[Segment; 2],
    count: u32,
    read: impl Fn(usize, &mut [u8]) -> Result,
) -> Result {
    let mut room = KVec::from_elem(0u8, PIECE, GFP_KERNEL)?;
    let mut left = usize::try_from(count)?;
    for segment in segments {
        let mut off = usize::try_from(segment.off)?;
        let mut rest = left.min(usize::try_from(segment.len)?);
        left = left.saturating_sub(rest);
        while rest != 0 {
            let size = rest.min(PIECE);
            let piece = room.get_mut(..size).ok_or(EINVAL)?;
            read(off, piece)?;
            trace_payload(&connection.sk, how, position, piece);
            off = off.saturating_add(size);
            rest = rest.saturating_sub(size);
            position = position.wrapping_add(u64::try_from(size)?);
        }
    }
    Ok(())
}
