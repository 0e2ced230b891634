// SPDX-License-Identifier: GPL-2.0

//! Receiving: user data comes out of memory that the peer, or its device, has written.
//!
//! One copy on this side. The stream checks a position before a byte is read, and the engine reads by
//! copying, never by reference.

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
        Readable,
        Received,
        Stream, //
    },
    tx,
    waiting, //
};
use crate::{
    kapi::net::{
        cmsg::WantedCmsgs,
        msg::RecvMsg,
        sock::SockGuard,
        socket::Socket,
        trace::Moved,
        uapi::{
            MSG_OOB,
            MSG_PEEK,
            MSG_TRUNC,
            MSG_WAITALL, //
        },
    },
    proto::stream::events::{
        Fetch,
        Receive, //
    },
};
use core::ops::ControlFlow;
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// What a reader finds behind the `skip` bytes it has peeked at.
enum RecvState<M> {
    /// Received data, how much of it, and how much there is.
    Data(Received<M>, u32, u32),
    /// SO_OOBINLINE has changed.
    Unsettled,
    /// The urgent mark, where a read ends that has something.
    Mark,
    Nothing,
    Eof,
    Failed(Error),
}

/// How a read is done.
#[derive(Clone, Copy)]
struct ReadFlags {
    /// It does not take what it reads.
    peek: bool,
    /// Urgent bytes are part of the stream.
    inline: bool,
}

/// What there is for a read of up to `want` bytes that has nothing yet (`first`) or something.
fn recv_state<P: Protocol>(
    connection: &Connection<P>,
    skip: u32,
    want: u32,
    first: bool,
    how: ReadFlags,
) -> RecvState<<P::Stream as Stream>::Memory> {
    let mut slot = connection.stream.lock();
    let Some(stream) = slot.stream.as_mut() else {
        return RecvState::Eof;
    };
    if stream.is_inline() != how.inline {
        return RecvState::Unsettled;
    }
    let mut available = stream.recv_available().saturating_sub(skip);
    match stream.recv_until_mark(skip) {
        Some(0) if !first => return RecvState::Mark,
        Some(0) if !how.peek => stream.leave_mark(),
        Some(0) | None => {}
        Some(before) => available = available.min(before),
    }
    if available != 0 {
        let count = available.min(want);
        return RecvState::Data(stream.received(skip, count), count, available);
    }
    match stream.recv_state() {
        Receive::More => RecvState::Nothing,
        Receive::Eof => RecvState::Eof,
        Receive::Failed if !first => RecvState::Eof,
        Receive::Failed => match connection.sk.take_err() {
            Err(error) => RecvState::Failed(error),
            Ok(()) => RecvState::Eof,
        },
    }
}

/// Whether a reader that waits may go on.
fn may_go_on<P: Protocol>(connection: &Connection<P>, skip: u32) -> bool {
    connection
        .look(|stream| stream.recv_available() > skip || stream.recv_state() != Receive::More)
        .unwrap_or(true)
}

/// Waits without sleeping, if the socket wants that (SO_BUSY_POLL).
fn busy_wait<P: Protocol>(sock: &Socket, connection: &Connection<P>) {
    let mut seen = None;
    sock.busy_wait(|| {
        // Without news, the loop leaves the lock to the other side.
        let news = connection.news.load(Relaxed);
        let changed = seen.replace(news) != Some(news);
        changed && may_go_on(connection, 0)
    });
}

/// What a call reports besides the data.
#[derive(Default)]
struct Report {
    /// What the program asked for.
    wanted: WantedCmsgs,
    /// When the last of the data came.
    time: Option<u64>,
}

/// recvmsg on a stream. Context: may sleep.
pub(crate) fn recv<P: Protocol>(
    sock: &Socket,
    connection: &Arc<Connection<P>>,
    msg: &mut RecvMsg<'_>,
) -> Result<usize> {
    let mut report = Report::default();
    let received = if msg.flags() & MSG_OOB == 0 {
        let mut receiving = Receiving::begin(sock, connection, msg, &mut report);
        let result = receiving.run();
        receiving.finish(result)
    } else {
        recv_urgent(sock, connection, msg, &mut report.wanted)
    }?;
    if let Some(time) = report.time {
        msg.report_time(sock.sk(), time);
    }
    if report.wanted.inq() {
        let left = connection.look(Stream::recv_hint);
        msg.report_inq(report.wanted, left.unwrap_or(0));
    }
    Ok(received)
}

/// A recvmsg without MSG_OOB that runs, with the socket locked.
struct Receiving<'a, 'm, P: Protocol> {
    sock: &'a Socket,
    connection: &'a Arc<Connection<P>>,
    msg: &'a mut RecvMsg<'m>,
    report: &'a mut Report,
    guard: SockGuard<'a>,
    /// How long the call may wait, in jiffies.
    timeo: isize,
    /// Bytes that the program has room for.
    len: usize,
    /// Bytes with which the call does not wait for more.
    target: usize,
    /// The data stays unread (MSG_PEEK).
    peek: bool,
    /// Bytes before those that are peeked at.
    start: usize,
    /// Bytes that the program got.
    copied: usize,
}

impl<'a, 'm, P: Protocol> Receiving<'a, 'm, P> {
    /// Locks the socket and reads what the call wants. Context: may sleep.
    fn begin(
        sock: &'a Socket,
        connection: &'a Arc<Connection<P>>,
        msg: &'a mut RecvMsg<'m>,
        report: &'a mut Report,
    ) -> Self {
        let (sk, flags, len) = (sock.sk(), msg.flags(), msg.len());
        let peek = flags & MSG_PEEK != 0;
        let timeo = sk.rcvtimeo(msg.nonblock());
        let target = sk.rcvlowat(flags & MSG_WAITALL != 0, len);
        msg.clear_name();
        if timeo != 0 {
            busy_wait(sock, connection);
        }
        let guard = sk.lock();
        report.wanted = WantedCmsgs::of(&guard, msg);
        Self {
            sock,
            connection,
            msg,
            report,
            guard,
            timeo,
            len,
            target,
            peek,
            start: if peek { sk.peek_offset(flags) } else { 0 },
            copied: 0,
        }
    }

    /// Reads as much as the call wants. Context: may sleep.
    fn run(&mut self) -> Result {
        // As in TCP, a read of no bytes waits for some all the same.
        while self.copied < self.len || self.len == 0 {
            if self.step()?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Reads some bytes, or waits for some. The call ends with a break. Context: may sleep.
    fn step(&mut self) -> Result<ControlFlow<()>> {
        let skip = if self.peek {
            u32::try_from(self.start.saturating_add(self.copied)).unwrap_or(u32::MAX)
        } else {
            0
        };
        let rest = u32::try_from(self.len.saturating_sub(self.copied)).unwrap_or(u32::MAX);
        let how = ReadFlags {
            peek: self.peek,
            inline: self.sock.sk().urgent_inline(),
        };
        match recv_state(self.connection, skip, rest, self.copied == 0, how) {
            RecvState::Data(found, count, available) if self.len != 0 => {
                if self.copied == 0 {
                    self.connection.calls.judge_read(self.len, available);
                }
                self.take(found, count)
            }
            RecvState::Data(..) | RecvState::Mark | RecvState::Eof => Ok(ControlFlow::Break(())),
            RecvState::Failed(error) => Err(error),
            RecvState::Unsettled => {
                settle_inline(self.connection, how.inline);
                Ok(ControlFlow::Continue(()))
            }
            RecvState::Nothing => self.wait_for_data(skip),
        }
    }

    /// Gives the program what was found.
    fn take(
        &mut self,
        found: Received<<P::Stream as Stream>::Memory>,
        count: u32,
    ) -> Result<ControlFlow<()>> {
        if self.report.wanted.time() {
            // As in TCP, that of the last bytes which have one.
            self.report.time = found.time.or(self.report.time);
        }
        let count = if self.msg.flags() & MSG_TRUNC != 0 {
            count
        } else {
            copy(&found.segments, |offset, len| {
                found.memory.copy_to_iter(offset, len, self.msg.iter())
            })?
        };
        if !self.peek && capture::is_on() {
            self.capture(&found, count);
        }
        // The stream may use the memory again as soon as it knows that this is read.
        drop(found);
        let octets = usize::try_from(count).unwrap_or(0);
        P::moved(self.connection, Moved::Received, octets);
        self.copied = self.copied.saturating_add(octets);
        let sk = self.sock.sk();
        if self.peek {
            sk.peeked(octets);
            return Ok(ControlFlow::Continue(()));
        }
        sk.unpeeked(octets);
        let left = self.connection.update(|stream, _| {
            stream.read(count);
            stream.recv_available()
        });
        // Without more there is nothing to find but the end, which is for the next call.
        if self.copied >= self.target && left == Some(0) {
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reports what was read. Context: may sleep.
    fn capture(&self, found: &Received<<P::Stream as Stream>::Memory>, count: u32) {
        let before = |stream: &P::Stream| stream.traffic().rx_bytes;
        let position = self.connection.look(before).unwrap_or(0);
        let read = |offset: usize, to: &mut [u8]| found.memory.read(offset, to);
        capture::report(
            self.connection,
            Moved::Received,
            position,
            &found.segments,
            count,
            read,
        );
    }

    /// Waits for data behind `skip` bytes, without the lock, unless the call has enough.
    ///
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EAGAIN` when the time is over, or that of a signal.
    fn wait_for_data(&mut self, skip: u32) -> Result<ControlFlow<()>> {
        let connection = self.connection;
        if self.copied >= self.target {
            return Ok(ControlFlow::Break(()));
        }
        if self.timeo == 0 {
            tx::after_look(connection);
            return Err(EAGAIN);
        }
        tx::before_sleep(connection);
        let (guard, timeo) = (&mut self.guard, &mut self.timeo);
        let is_over = || may_go_on(connection, skip);
        waiting::wait(self.sock, connection, Direction::Rx, guard, timeo, is_over)?;
        Ok(ControlFlow::Continue(()))
    }

    /// Unlocks the socket and says how the call ends.
    fn finish(self, result: Result) -> Result<usize> {
        self.connection.calls.count(Direction::Rx, self.copied);
        match result {
            Err(error) if self.copied == 0 => Err(error),
            _ => Ok(self.copied),
        }
    }
}

/// Brings SO_OOBINLINE to the stream, which may have changed at any time.
fn settle_inline<P: Protocol>(connection: &Arc<Connection<P>>, inline: bool) {
    let _ = connection.update(|stream, _| stream.set_inline(inline));
}

/// recv(MSG_OOB): the last urgent byte, once (`SMCR-URG-08`). Never waits, as in TCP.
fn recv_urgent<P: Protocol>(
    sock: &Socket,
    connection: &Arc<Connection<P>>,
    msg: &mut RecvMsg<'_>,
    wanted: &mut WantedCmsgs,
) -> Result<usize> {
    let flags = msg.flags();
    let guard = sock.sk().lock();
    *wanted = WantedCmsgs::of(&guard, msg);
    settle_inline(connection, sock.sk().urgent_inline());
    connection.calls.count_rare(Rare::Urgent);
    let (fetch, byte, open) = {
        let mut slot = connection.stream.lock();
        let stream = slot.stream.as_mut().ok_or(EINVAL)?;
        let (fetch, byte) = stream.fetch_urgent(flags & MSG_PEEK == 0);
        (fetch, byte, stream.recv_state() == Receive::More)
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
