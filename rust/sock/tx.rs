// SPDX-License-Identifier: GPL-2.0

//! Sending: user data goes into the send ring, and from there by RDMA.
//!
//! One copy on this side.

use super::{
    calls::{
        Direction,
        Rare, //
    },
    capture,
    connection::{
        Connection,
        Protocol, //
    },
    copy::copy,
    stream::{
        SendFlags,
        SendState,
        Stream, //
    },
    waiting,
    zerocopy::lend, //
};
use crate::{
    kapi::{
        net::{
            msg::{
                Notice,
                SendMsg, //
            },
            sock::SockGuard,
            socket::Socket,
            trace::Moved,
            uapi::{
                MSG_MORE,
                MSG_OOB,
                MSG_SPLICE_PAGES, //
            },
        },
        verbs::sendbuf::SendBuffer, //
    },
    proto::stream::positions::Segment, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What a writer finds, and where it copies to.
enum Room {
    Open(Arc<SendBuffer>, [Segment; 2]),
    Full,
    Broken,
}

/// What there is for a writer that wants to put `want` bytes, at least one.
fn room<P: Protocol>(connection: &Connection<P>, want: u32) -> Room {
    let found = connection.look(|stream| match stream.send_state() {
        SendState::Open => match stream.send_memory(want) {
            Some((buffer, segments)) => Room::Open(buffer.clone(), segments),
            None => Room::Broken,
        },
        SendState::Full => Room::Full,
        SendState::Broken => Room::Broken,
    });
    found.unwrap_or(Room::Broken)
}

/// Whether a writer that waits may go on.
fn may_go_on<P: Protocol>(connection: &Connection<P>) -> bool {
    connection.look(Stream::send_state) != Some(SendState::Full)
}

/// Whether a writer's wait is over. If not, the next room wakes it.
///
/// A wake-up ends the wish of all writers, also of those that find no room then: another one was quicker.
fn is_over_or_wanted<P: Protocol>(connection: &Connection<P>) -> bool {
    connection.want_room();
    may_go_on(connection)
}

/// sendmsg on a stream. Context: may sleep.
pub(crate) fn send<P: Protocol>(
    sock: &Socket,
    connection: &Arc<Connection<P>>,
    msg: &mut SendMsg<'_>,
) -> Result<usize> {
    let mut sending = Sending::begin(sock, connection, msg)?;
    let result = sending.run();
    sending.finish(result)
}

/// A sendmsg that runs, with the socket locked.
struct Sending<'a, 'm, P: Protocol> {
    sock: &'a Socket,
    connection: &'a Arc<Connection<P>>,
    msg: &'a mut SendMsg<'m>,
    guard: SockGuard<'a>,
    /// How the message is sent.
    how: SendFlags,
    /// How long the call may wait, in jiffies.
    timeo: isize,
    /// Bytes of the message.
    total: usize,
    /// Bytes that the core has taken.
    sent: usize,
    /// Bytes of these that were lent.
    lent: usize,
    /// The last byte is urgent.
    urgent: bool,
    /// The core knows that.
    marked: bool,
    /// Memory is lent where it can be.
    lends: bool,
    /// The notification that the program gets when its memory is free.
    notice: Option<Notice>,
}

impl<'a, 'm, P: Protocol> Sending<'a, 'm, P> {
    /// Locks the socket and reads what the call wants. Context: may sleep.
    fn begin(
        sock: &'a Socket,
        connection: &'a Arc<Connection<P>>,
        msg: &'a mut SendMsg<'m>,
    ) -> Result<Self> {
        let sk = sock.sk();
        let (flags, total) = (msg.flags(), msg.len());
        let urgent = flags & MSG_OOB != 0;
        let how = SendFlags {
            corked: flags & MSG_MORE != 0 || sk.corked(),
            // With TCP_NODELAY, a write waits for a completion but never for more data
            // (`SMCR-WIN-10`).
            nodelay: sk.nodelay(),
        };
        let timeo = sk.sndtimeo(msg.nonblock());
        let guard = sk.lock();
        msg.check_control(&guard)?;
        let notice = match total {
            0 => None,
            _ => Notice::begin(&guard, msg, total)?,
        };
        Ok(Self {
            sock,
            connection,
            guard,
            how,
            timeo,
            total,
            sent: 0,
            lent: 0,
            urgent,
            marked: false,
            lends: !urgent && (notice.is_some() || flags & MSG_SPLICE_PAGES != 0),
            notice,
            msg,
        })
    }

    /// Sends all of the message. Context: may sleep.
    fn run(&mut self) -> Result {
        while self.sent < self.total {
            self.step()?;
        }
        // As in TCP, a write of no bytes fails, too, if there is no way to send.
        if self.total == 0 && matches!(room(self.connection, 1), Room::Broken) {
            return Err(EPIPE);
        }
        Ok(())
    }

    /// Sends some of the message, or waits until that is possible. Context: may sleep.
    fn step(&mut self) -> Result {
        let rest = u32::try_from(self.total.saturating_sub(self.sent)).unwrap_or(u32::MAX);
        let (buffer, segments) = match room(self.connection, rest) {
            Room::Open(buffer, segments) => (buffer, segments),
            Room::Full => {
                P::has_no_room(self.connection);
                return self.wait_for_room();
            }
            // The error of the sock, if there is one, comes before this.
            Room::Broken => return Err(EPIPE),
        };
        let captured = capture::is_on();
        if self.lends && !captured {
            let notice = self.notice.as_ref();
            let lent = lend(self.connection, self.msg, rest, notice, self.how)?;
            if lent != 0 {
                P::moved(self.connection, Moved::Sent, lent);
                self.sent = self.sent.saturating_add(lent);
                self.lent = self.lent.saturating_add(lent);
                return Ok(());
            }
        }
        let copied = copy(&segments, |offset, len| {
            buffer.copy_from_iter(offset, len, self.msg.iter())
        })?;
        if captured {
            self.capture(&buffer, &segments, copied);
        }
        let octets = usize::try_from(copied).unwrap_or(0);
        P::moved(self.connection, Moved::Sent, octets);
        self.sent = self.sent.saturating_add(octets);
        let (how, urgent) = (self.how, self.urgent && self.sent >= self.total);
        self.marked |= urgent;
        let _ = self.connection.update(|stream, now| {
            stream.set_flags(how);
            stream.write(now, copied, urgent);
        });
        Ok(())
    }

    /// Reports what was copied, in front of which is all that was written before. Context: may sleep.
    fn capture(&self, buffer: &SendBuffer, segments: &[Segment; 2], copied: u32) {
        let written = |stream: &P::Stream| {
            stream
                .traffic()
                .tx_bytes
                .wrapping_add(stream.unsent().into())
        };
        let position = self.connection.look(written).unwrap_or(0);
        let read = |offset: usize, to: &mut [u8]| buffer.read(offset, to);
        capture::report(
            self.connection,
            Moved::Sent,
            position,
            segments,
            copied,
            read,
        );
    }

    /// Waits for room, without the lock. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EAGAIN` when the time is over, or that of a signal.
    fn wait_for_room(&mut self) -> Result {
        let connection = self.connection;
        let calls = &connection.calls;
        calls.count_rare(Rare::NoRoom);
        if connection.look(Stream::is_peer_full) == Some(true) {
            calls.count_rare(Rare::PeerFull);
        }
        if self.timeo != 0 {
            let (guard, timeo) = (&mut self.guard, &mut self.timeo);
            let is_over = || is_over_or_wanted(connection);
            return waiting::wait(self.sock, connection, Direction::Tx, guard, timeo, is_over);
        }
        // Also for a call that does not wait: EAGAIN promises an edge.
        if is_over_or_wanted(connection) {
            Ok(())
        } else {
            Err(EAGAIN)
        }
    }

    /// Unlocks the socket and says how the call ends.
    fn finish(self, result: Result) -> Result<usize> {
        if self.sent > 0 && self.urgent && !self.marked {
            // What went is urgent, though it is not all.
            let _ = self
                .connection
                .update(|stream, now| stream.write(now, 0, true));
        }
        match self.notice {
            Some(notice) if self.sent == 0 => notice.abort(),
            Some(notice) if self.lent == 0 => notice.copied(),
            _ => {}
        }
        let moved = if self.sent > 0 { self.total } else { 0 };
        let calls = &self.connection.calls;
        calls.count(Direction::Tx, moved);
        calls.judge_send(self.total);
        if self.urgent {
            calls.count_rare(Rare::Urgent);
        }
        drop(self.guard);
        match result {
            Err(error) if self.sent == 0 => Err(self.sock.stream_error(self.msg.flags(), error)),
            _ => Ok(self.sent),
        }
    }
}

/// Calls `how` if `condition` is true of the stream.
fn flush_if<P: Protocol>(
    connection: &Arc<Connection<P>>,
    condition: impl Fn(&P::Stream) -> bool,
    how: impl Fn(&mut P::Stream),
) {
    if connection.look(condition) == Some(true) {
        let _ = connection.update(|stream, _| how(stream));
    }
}

/// Flushes coalesced data, and data that waits for a completion, before the application sleeps: it
/// writes nothing until the peer acts. Context: any.
pub(crate) fn before_sleep<P: Protocol>(connection: &Arc<Connection<P>>) {
    flush_if(connection, P::Stream::holds_back, P::Stream::flush);
}

/// Flushes coalesced data, as a rule, after a read that found nothing and does not sleep. The
/// application may write on, so data that waits for a completion still waits. Context: any.
pub(crate) fn after_look<P: Protocol>(connection: &Arc<Connection<P>>) {
    flush_if(
        connection,
        |stream| stream.poll_coalesced().is_some(),
        P::Stream::on_empty_read,
    );
}

/// Flushes data that TCP_CORK or MSG_MORE held back, and coalesced data. A socket that is still
/// `corked` holds back later data. Context: any.
pub(crate) fn push<P: Protocol>(connection: &Arc<Connection<P>>, corked: bool) {
    let _ = connection.update(|stream, _| {
        stream.set_corked(corked);
        stream.flush();
    });
}
