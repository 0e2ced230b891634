// SPDX-License-Identifier: GPL-2.0

//! Sending without a copy: MSG_ZEROCOPY, MSG_SPLICE_PAGES, io_uring's SEND_ZC.
//!
//! The program's pages are lent to the link; which, and for how long, `proto::cdc` knows.

use super::{
    conn::data::Data,
    connection::Connection, //
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
    proto::{
        smc::cdc::{
            Conn,
            Segment, //
        },
        stream::zerocopy::LEAST, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A device that takes fewer pieces in a request gets no lent memory: it would be many requests.
const LEAST_PIECES: usize = 4;

/// How a message is sent.
#[derive(Clone, Copy)]
pub(super) struct SendFlags {
    /// There is more to come.
    pub(super) corked: bool,
    /// It shall not be delayed.
    pub(super) nodelay: bool,
}

impl SendFlags {
    /// Tells the core.
    pub(super) fn apply(self, core: &mut Conn) {
        core.set_corked(self.corked);
        core.set_nodelay(self.nodelay);
    }
}

/// Lends up to `want` octets of a message; returns how many, 0 if the caller must copy them. The
/// caller holds the socket lock. Context: may sleep.
///
/// # Errors
///
/// `EPIPE` if the connection has ended meanwhile.
pub(super) fn lend(
    connection: &Arc<Connection>,
    msg: &mut SendMsg<'_>,
    want: u32,
    notice: Option<&Notice>,
    how: SendFlags,
) -> Result<usize> {
    let found = connection.look(|data| {
        let channel = &data.binding.as_ref()?.route.channel;
        let most = data.core.lendable(want);
        (most != 0 && channel.pieces() >= LEAST_PIECES).then(|| (channel.clone(), most))
    });
    let Some((channel, most)) = found.flatten() else {
        return Ok(0);
    };
    let range = (usize::try_from(LEAST)?, usize::try_from(most)?);
    let Some(lent) = LentMemory::take(channel.device(), msg, range, channel.pieces(), notice)
    else {
        return Ok(0);
    };
    let len = u32::try_from(lent.len())?;
    let done = connection.update(|data, now| {
        how.apply(&mut data.core);
        let place = match data.binding.as_ref() {
            Some(binding) if Arc::ptr_eq(&binding.route.channel, &channel) => {
                data.core.lend(now, len)
            }
            _ => None,
        };
        if let Some(place) = place {
            data.lent_pages.put(place, lent.clone());
        }
        place.is_some()
    });
    if done == Some(true) {
        return Ok(lent.len());
    }
    // The connection has begun to move: the octets taken off the message are copied.
    let found = connection.look(|data| {
        let buffer = data.binding.as_ref()?.sendbuf.clone();
        Some((buffer, data.core.send_segments(len)))
    });
    let (buffer, segments) = found.flatten().ok_or(EPIPE)?;
    copy(&lent, 0, &buffer, &segments)?;
    let _ = connection.update(|data, now| {
        how.apply(&mut data.core);
        data.core.write(now, len);
    });
    Ok(lent.len())
}

/// Copies lent pages, from `skip` on, to a send ring. Context: may sleep.
fn copy(lent: &LentMemory, skip: u32, buffer: &SendBuffer, to: &[Segment; 2]) -> Result {
    let mut skip = usize::try_from(skip)?;
    for segment in to.iter().filter(|segment| segment.len != 0) {
        let len = usize::try_from(segment.len)?;
        lent.copy_to(skip, buffer, usize::try_from(segment.off)?, len)?;
        skip = skip.saturating_add(len);
    }
    Ok(())
}

impl Connection {
    /// After a move: copies pages lent to the old link into the send buffer, so that the new link
    /// can send them. Context: may sleep.
    pub(super) fn copy_recalled(self: &Arc<Self>) {
        loop {
            let found = self.look(|data: &Data| {
                let part = data.core.poll_recall()?;
                let lent = data.lent_pages.get(part.place)?.clone();
                Some((part, lent, data.binding.as_ref()?.sendbuf.clone()))
            });
            let Some((part, lent, buffer)) = found.flatten() else {
                return;
            };
            if copy(&lent, part.skip, &buffer, &part.to).is_err() {
                // Cannot be: the part and its place in the ring have the same size.
                pr_err!("lent memory does not fit its place in the send ring\n");
                let _ = self.update(|data, now| data.core.abort(now));
                return;
            }
            let _ = self.update(|data, _| data.core.handle_copied(&part));
        }
    }
}
