// SPDX-License-Identifier: GPL-2.0

//! Receiving: user data comes out of our RMBE, where the peer has written it.
//!
//! Source: RFC 7609 sections 4.3, 4.5.1 (`SMCR-WIN-01..08`). One copy on this side. The position
//! is checked by the core before a byte is read, and read by copying, never by reference.

use super::{
    connection::Connection,
    flags::{
        MSG_OOB,
        MSG_PEEK,
        MSG_TRUNC,
        MSG_WAITALL, //
    },
    tx, //
};
use crate::{
    kapi::{
        mem::region::PeerMemory,
        net::{
            cmsg::Wanted,
            msg::RecvMsg,
            socket::Socket, //
        },
    },
    proto::cdc::{
        Fetch,
        Receive,
        Segment, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// What a reader finds behind the `skip` bytes it has peeked at.
enum Outlook {
    Data(Found),
    /// SO_OOBINLINE has changed.
    Unsettled,
    /// The urgent mark, where a read ends that has something.
    Mark,
    Nothing,
    Eof,
    Failed(Error),
}

/// Received data: how much of an element of that memory, and where.
struct Found {
    memory: Arc<PeerMemory>,
    element: usize,
    segments: [Segment; 2],
    count: u32,
    /// When the last of it came, if the program wants to know.
    time: Option<u64>,
}

/// How a read is done.
#[derive(Clone, Copy)]
struct Manner {
    /// It does not take what it reads.
    peek: bool,
    /// Urgent bytes are part of the stream.
    inline: bool,
}

/// What there is for a read of up to `want` bytes that has nothing yet (`first`) or something.
fn outlook(connection: &Connection, skip: u32, want: u32, first: bool, how: Manner) -> Outlook {
    let mut slot = connection.data.lock();
    let Some(data) = slot.data.as_mut() else {
        return Outlook::Eof;
    };
    if data.core.is_inline() != how.inline {
        return Outlook::Unsettled;
    }
    let mut available = data.core.recv_available().saturating_sub(skip);
    match data.core.recv_until_mark(skip) {
        Some(0) if !first => return Outlook::Mark,
        Some(0) if !how.peek => data.core.leave_mark(),
        Some(0) | None => {}
        Some(before) => available = available.min(before),
    }
    match available {
        0 => match data.core.recv_state() {
            Receive::More => Outlook::Nothing,
            Receive::Eof => Outlook::Eof,
            Receive::Failed if !first => Outlook::Eof,
            Receive::Failed => match connection.sk.take_err() {
                Err(error) => Outlook::Failed(error),
                Ok(()) => Outlook::Eof,
            },
        },
        available => {
            let count = available.min(want);
            let (next, _) = data.core.recv_positions();
            let last = u64::from(skip.saturating_add(count)).saturating_sub(1);
            let time = data.arrivals.time_of(next.saturating_add(last));
            Outlook::Data(Found {
                memory: data.memory.clone(),
                element: data.element,
                segments: data.received(skip, count),
                count,
                time,
            })
        }
    }
}

/// Whether a reader that waits may go on.
fn may_go_on(connection: &Connection, skip: u32) -> bool {
    connection
        .look(|data| data.core.recv_available() > skip || data.core.recv_state() != Receive::More)
        .unwrap_or(true)
}

/// Waits without sleeping, if the socket wants that (SO_BUSY_POLL).
fn busy_wait(sock: &Socket, connection: &Connection) {
    let mut seen = None;
    sock.busy_wait(|| {
        // The lock is for those who have something to say.
        let news = connection.news.load(Relaxed);
        let changed = seen.replace(news) != Some(news);
        changed && may_go_on(connection, 0)
    });
}

/// recvmsg in SMC mode. Sleeps.
pub(crate) fn recv(
    sock: &Socket,
    connection: &Arc<Connection>,
    msg: &mut RecvMsg<'_>,
) -> Result<usize> {
    let mut wanted = Wanted::default();
    let mut time = None;
    let received = match msg.flags() & MSG_OOB {
        0 => recv_stream(sock, connection, msg, &mut wanted, &mut time),
        _ => recv_urgent(sock, connection, msg, &mut wanted),
    }?;
    if let Some(time) = time {
        msg.report_time(sock.sk(), time);
    }
    if wanted.inq() {
        let left = connection.look(|data| data.core.recv_hint());
        msg.report_inq(wanted, left.unwrap_or(0));
    }
    Ok(received)
}

/// recvmsg without MSG_OOB. Sleeps.
fn recv_stream(
    sock: &Socket,
    connection: &Arc<Connection>,
    msg: &mut RecvMsg<'_>,
    wanted: &mut Wanted,
    time: &mut Option<u64>,
) -> Result<usize> {
    let flags = msg.flags();
    let sk = sock.sk();
    let len = msg.len();
    let peek = flags & MSG_PEEK != 0;
    let mut timeo = sk.rcvtimeo(msg.nonblock());
    let target = sk.rcvlowat(flags & MSG_WAITALL != 0, len);
    let mut copied = 0usize;
    msg.clear_name();
    if timeo != 0 {
        busy_wait(sock, connection);
    }
    let mut guard = sk.lock();
    *wanted = Wanted::of(&guard, msg);
    let start = if peek { sk.peek_offset(flags) } else { 0 };
    let result = loop {
        // As in TCP, a read of no bytes waits for some all the same.
        if copied >= len && len != 0 {
            break Ok(());
        }
        let skip = if peek {
            u32::try_from(start.saturating_add(copied)).unwrap_or(u32::MAX)
        } else {
            0
        };
        let rest = u32::try_from(len.saturating_sub(copied)).unwrap_or(u32::MAX);
        let how = Manner {
            peek,
            inline: sk.urgent_inline(),
        };
        let found = match outlook(connection, skip, rest, copied == 0, how) {
            Outlook::Data(_) if len == 0 => break Ok(()),
            Outlook::Data(found) => {
                if wanted.time() {
                    // As in TCP, that of the last bytes which have one.
                    *time = found.time.or(*time);
                }
                found
            }
            Outlook::Unsettled => {
                settle_inline(connection, how.inline);
                continue;
            }
            Outlook::Mark => break Ok(()),
            Outlook::Nothing => {
                if copied >= target {
                    break Ok(());
                }
                if timeo == 0 {
                    tx::after_look(connection);
                    break Err(EAGAIN);
                }
                tx::before_sleep(connection);
                let waited =
                    sock.wait_unlocking(&mut guard, &mut timeo, |_| may_go_on(connection, skip));
                match waited {
                    Ok(()) => continue,
                    Err(error) => break Err(error),
                }
            }
            Outlook::Eof => break Ok(()),
            Outlook::Failed(error) => break Err(error),
        };
        let count = if flags & MSG_TRUNC != 0 {
            Ok(found.count)
        } else {
            drain(&found, msg)
        };
        let count = match count {
            Ok(count) => count,
            Err(error) => break Err(error),
        };
        let octets = usize::try_from(count).unwrap_or(0);
        copied = copied.saturating_add(octets);
        if peek {
            sk.peeked(octets);
        } else {
            sk.unpeeked(octets);
            let left = connection.update(|data, _| {
                let bytes = &mut data.counters.rx_bytes;
                *bytes = bytes.wrapping_add(u64::from(count));
                data.core.read(count);
                data.core.recv_available()
            });
            // Without more there is nothing to find but the end, which is for the next call.
            if copied >= target && left == Some(0) {
                break Ok(());
            }
        }
    };
    drop(guard);
    match result {
        Err(error) if copied == 0 => Err(error),
        _ => Ok(copied),
    }
}

/// Lets the core know of SO_OOBINLINE, which may have changed at any time.
fn settle_inline(connection: &Arc<Connection>, inline: bool) {
    let _ = connection.update(|data, _| data.core.set_inline(inline));
}

/// recv(MSG_OOB): the last urgent byte, once (`SMCR-URG-08`). Never waits, as in TCP.
fn recv_urgent(
    sock: &Socket,
    connection: &Arc<Connection>,
    msg: &mut RecvMsg<'_>,
    wanted: &mut Wanted,
) -> Result<usize> {
    let flags = msg.flags();
    let guard = sock.sk().lock();
    *wanted = Wanted::of(&guard, msg);
    settle_inline(connection, sock.sk().urgent_inline());
    let (fetch, byte, open) = {
        let mut slot = connection.data.lock();
        let data = slot.data.as_mut().ok_or(EINVAL)?;
        (
            data.core.fetch_urgent(flags & MSG_PEEK == 0),
            data.urgent_byte,
            data.core.recv_state() == Receive::More,
        )
    };
    drop(guard);
    match fetch {
        Fetch::Nothing => Err(EINVAL),
        Fetch::NotYet if open => Err(EAGAIN),
        Fetch::NotYet => Ok(0),
        Fetch::Here if msg.len() == 0 => {
            msg.set_flags(MSG_OOB | MSG_TRUNC);
            Ok(0)
        }
        Fetch::Here => {
            msg.set_flags(MSG_OOB);
            if flags & MSG_TRUNC == 0 {
                msg.put(&[byte])?;
            }
            Ok(1)
        }
    }
}

/// Copies received data to the user; returns how much. Not less than one byte.
fn drain(found: &Found, msg: &mut RecvMsg<'_>) -> Result<u32> {
    let mut copied = 0u32;
    for segment in found.segments.iter().filter(|segment| segment.len != 0) {
        let offset = usize::try_from(segment.off)?;
        let len = usize::try_from(segment.len)?;
        let element = found.element;
        let count = match found.memory.copy_to_iter(element, offset, len, msg.iter()) {
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
