// SPDX-License-Identifier: GPL-2.0

//! Sending: user data goes into the send ring, and from there by RDMA write.
//!
//! Source: RFC 7609 sections 4.5.2, 4.7 (`SMCR-WIN-09..13`). One copy on this side.

use super::{
    connection::Connection,
    flags::{
        MSG_MORE,
        MSG_OOB,
        MSG_SPLICE_PAGES, //
    },
    lent::{
        lend,
        Manner, //
    },
};
use crate::{
    kapi::{
        mem::sendbuf::SendBuffer,
        net::{
            msg::{
                Notice,
                SendMsg, //
            },
            socket::Socket, //
        },
    },
    proto::cdc::{
        Conn,
        Segment,
        SendError, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What a writer finds.
enum Outlook {
    /// Where to copy data to.
    Room(Arc<SendBuffer>, [Segment; 2]),
    Full,
    Broken,
}

/// What there is for a writer that wants to put `want` bytes, at least one.
fn outlook(connection: &Connection, want: u32) -> Outlook {
    let slot = connection.data.lock();
    let Some(data) = slot.data.as_ref() else {
        return Outlook::Broken;
    };
    match data.core.can_send() {
        Ok(()) if data.core.send_room() == 0 => Outlook::Full,
        Ok(()) => match data.hold.as_ref() {
            Some(hold) => Outlook::Room(hold.sendbuf.clone(), data.core.send_segments(want)),
            None => Outlook::Broken,
        },
        Err(SendError::Unreported) => Outlook::Full,
        Err(SendError::Pipe) => Outlook::Broken,
    }
}

/// Whether a writer that waits may go on.
fn may_go_on(connection: &Connection) -> bool {
    connection
        .look(|data| match data.core.can_send() {
            Ok(()) => data.core.send_room() != 0,
            Err(SendError::Pipe) => true,
            Err(SendError::Unreported) => false,
        })
        .unwrap_or(true)
}

/// sendmsg in SMC mode. Sleeps.
pub(crate) fn send(
    sock: &Socket,
    connection: &Arc<Connection>,
    msg: &mut SendMsg<'_>,
) -> Result<usize> {
    let sk = sock.sk();
    let urgent = msg.flags() & MSG_OOB != 0;
    let manner = Manner {
        corked: msg.flags() & MSG_MORE != 0 || sk.corked(),
        // Who wants no Nagle waits for a chain that is on its way, not for more data
        // (`SMCR-WIN-10`).
        nodelay: sk.nodelay(),
    };
    let mut marked = !urgent;
    let mut timeo = sk.sndtimeo(msg.nonblock());
    let total = msg.len();
    let mut sent = 0usize;
    let mut guard = sk.lock();
    msg.check_control(&guard)?;
    let notice = match total {
        0 => None,
        _ => Notice::begin(&guard, msg, total)?,
    };
    let lends = !urgent && (notice.is_some() || msg.flags() & MSG_SPLICE_PAGES != 0);
    let mut lent = 0usize;
    let result = loop {
        if sent >= total {
            // As in TCP, a write of no bytes tells, too, that there is no way to send.
            let broken = total == 0 && matches!(outlook(connection, 1), Outlook::Broken);
            break if broken { Err(EPIPE) } else { Ok(()) };
        }
        let rest = u32::try_from(total.saturating_sub(sent)).unwrap_or(u32::MAX);
        let (buffer, segments) = match outlook(connection, rest) {
            Outlook::Room(buffer, segments) => (buffer, segments),
            Outlook::Full => {
                // Also for a call that does not wait: EAGAIN promises an edge.
                connection.want_room();
                if timeo == 0 {
                    if may_go_on(connection) {
                        continue;
                    }
                    break Err(EAGAIN);
                }
                let waited = sock.wait_unlocking(&mut guard, &mut timeo, |_| may_go_on(connection));
                match waited {
                    Ok(()) => continue,
                    Err(error) => break Err(error),
                }
            }
            // The error of the sock, if there is one, comes before this.
            Outlook::Broken => break Err(EPIPE),
        };
        if lends {
            match lend(connection, msg, rest, notice.as_ref(), manner) {
                Ok(0) => {}
                Ok(count) => {
                    sent = sent.saturating_add(count);
                    lent = lent.saturating_add(count);
                    continue;
                }
                Err(error) => break Err(error),
            }
        }
        let copied = match fill(&buffer, &segments, msg) {
            Ok(copied) => copied,
            Err(error) => break Err(error),
        };
        sent = sent.saturating_add(usize::try_from(copied).unwrap_or(0));
        let _ = connection.update(|data, now| {
            let core = &mut data.core;
            manner.apply(core);
            if urgent && sent >= total {
                marked = true;
                core.write_urgent(now, copied);
            } else {
                core.write(now, copied);
            }
        });
    };
    if sent > 0 && !marked {
        // What went is urgent, though it is not all.
        let _ = connection.update(|data, now| data.core.write_urgent(now, 0));
    }
    match notice {
        Some(notice) if sent == 0 => notice.abort(),
        Some(notice) if lent == 0 => notice.copied(),
        _ => {}
    }
    drop(guard);
    match result {
        Err(error) if sent == 0 => Err(sock.stream_error(msg.flags(), error)),
        _ => Ok(sent),
    }
}

/// Copies user data to where the send ring is free; returns how much. Not less than one byte.
fn fill(buffer: &SendBuffer, segments: &[Segment; 2], msg: &mut SendMsg<'_>) -> Result<u32> {
    let mut copied = 0u32;
    for segment in segments.iter().filter(|segment| segment.len != 0) {
        let offset = usize::try_from(segment.off)?;
        let len = usize::try_from(segment.len)?;
        let count = match buffer.copy_from_iter(offset, len, msg.iter()) {
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

/// Has the core let go of something by `how`, if there is `what`.
fn let_go(connection: &Arc<Connection>, what: impl Fn(&Conn) -> bool, how: impl Fn(&mut Conn)) {
    if connection.look(|data| what(&data.core)) == Some(true) {
        let _ = connection.update(|data, _| how(&mut data.core));
    }
}

/// Lets go of what is gathered or waits for a completion: the application sleeps until the peer does
/// something, so it writes no more for now. Any context.
pub(crate) fn before_sleep(connection: &Arc<Connection>) {
    let_go(connection, Conn::holds_back, Conn::flush);
}

/// Lets go of what is gathered, as a rule: the application has looked for something to read, and does
/// not sleep. It may write on, so what waits for a completion does so. Any context.
pub(crate) fn after_look(connection: &Arc<Connection>) {
    let_go(
        connection,
        |core| core.poll_gathered().is_some(),
        Conn::on_empty_read,
    );
}

/// Lets go of what TCP_CORK or MSG_MORE held back, and of what waits for more. If it is still
/// `corked`, this is for what there is, not for what comes. Any context.
pub(crate) fn push(connection: &Arc<Connection>, corked: bool) {
    let _ = connection.update(|data, _| {
        data.core.set_corked(corked);
        data.core.flush();
    });
}
