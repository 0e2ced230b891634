// SPDX-License-Identifier: GPL-2.0

//! Sending without a copy: MSG_ZEROCOPY, MSG_SPLICE_PAGES, io_uring's SEND_ZC.
//!
//! The program's pages are lent to the device; which, and for how long, the stream knows.

use super::{
    connection::{
        Connection,
        Protocol, //
    },
    stream::{
        LendTarget,
        SendFlags,
        Stream, //
    },
};
use crate::{
    kapi::{
        net::msg::{
            Notice,
            SendMsg, //
        },
        verbs::{
            sendbuf::SendBuffer,
            user_pages::LentMemory, //
        },
    },
    proto::stream::{
        positions::Segment,
        zerocopy::LEAST, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A device that takes fewer pieces in a request gets no lent memory: it would be many requests.
const LEAST_PIECES: usize = 4;

/// Lends up to `want` octets of a message; returns how many, 0 if the caller must copy them. The
/// caller holds the socket lock. Context: may sleep.
///
/// # Errors
///
/// `EPIPE` if the connection has ended meanwhile.
pub(crate) fn lend<P: Protocol>(
    connection: &Arc<Connection<P>>,
    msg: &mut SendMsg<'_>,
    want: u32,
    notice: Option<&Notice>,
    how: SendFlags,
) -> Result<usize> {
    let found = connection.look(|stream| stream.lend_target(want)).flatten();
    let Some((target, most)) = found.filter(|(target, _)| target.pieces() >= LEAST_PIECES) else {
        return Ok(0);
    };
    let range = (usize::try_from(LEAST)?, usize::try_from(most)?);
    let lent = LentMemory::take(target.device(), msg, range, target.pieces(), notice);
    let Some(lent) = lent else {
        return Ok(0);
    };
    let len = u32::try_from(lent.len())?;
    let done = connection.update(|stream, now| {
        stream.set_flags(how);
        stream.lend(now, &target, &lent)
    });
    if done == Some(true) {
        return Ok(lent.len());
    }
    // The connection has begun to move: the octets taken off the message are copied.
    let found = connection.look(|stream| {
        let (buffer, segments) = stream.send_memory(len)?;
        Some((buffer.clone(), segments))
    });
    let (buffer, segments) = found.flatten().ok_or(EPIPE)?;
    copy(&lent, 0, &buffer, &segments)?;
    let _ = connection.update(|stream, now| {
        stream.set_flags(how);
        stream.write(now, len, false);
    });
    Ok(lent.len())
}

/// Copies lent pages, from `skip` on, to a send ring. Context: may sleep.
pub(crate) fn copy(lent: &LentMemory, skip: u32, buffer: &SendBuffer, to: &[Segment; 2]) -> Result {
    let mut skip = usize::try_from(skip)?;
    for segment in to.iter().filter(|segment| segment.len != 0) {
        let len = usize::try_from(segment.len)?;
        lent.copy_to(skip, buffer, usize::try_from(segment.off)?, len)?;
        skip = skip.saturating_add(len);
    }
    Ok(())
}
