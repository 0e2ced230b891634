// SPDX-License-Identifier: GPL-2.0

//! The reading side of a connection: unread data, its place, and its state for poll.

use super::Conn;
use crate::proto::{
    smc::close::CloseError,
    stream::{
        events::{
            Fetch,
            Receive, //
        },
        poll,
        positions::Segment, //
    },
};

impl Conn {
    /// Bytes the application can read.
    pub(crate) fn recv_available(&self) -> u32 {
        self.rx.available()
    }

    /// Positions in the stream of the next byte to read, and of the one behind the last that came.
    pub(crate) fn recv_positions(&self) -> (u64, u64) {
        self.rx.positions()
    }

    /// The hint of `TCP_INQ`: bytes to read, with one more for an end of the stream, so that a
    /// program which reads until there are none finds it.
    pub(crate) fn recv_hint(&self) -> u32 {
        let end = self.close.stream_has_ended();
        self.rx.ahead().saturating_add(end.into())
    }

    /// Where up to `max` of them are in our element, from the one after `skip` on. The second part
    /// may be empty.
    pub(crate) fn recv_segments(&self, skip: u32, max: u32) -> [Segment; 2] {
        self.rx.segments(skip, max)
    }

    /// Takes the next `count` bytes out of the element, which the application has read.
    pub(crate) fn read(&mut self, count: u32) {
        self.rx.consume(count);
    }

    /// Whether urgent bytes are part of the stream (SO_OOBINLINE). To be kept up to date before
    /// messages are taken in and data is read.
    pub(crate) fn set_inline(&mut self, inline: bool) {
        self.rx.set_inline(inline);
    }

    /// What [`Self::set_inline`] said last.
    pub(crate) fn is_inline(&self) -> bool {
        self.rx.is_inline()
    }

    /// Whether the reader stands at the urgent mark (SIOCATMARK). Reads of some bytes end there.
    pub(crate) fn is_at_mark(&self) -> bool {
        self.rx.is_at_mark()
    }

    /// Bytes from the one after `skip` up to the urgent mark; `None` without one before the end.
    pub(crate) fn recv_until_mark(&self, skip: u32) -> Option<u32> {
        self.rx.until_mark(skip)
    }

    /// The reader at the mark goes on behind it.
    pub(crate) fn leave_mark(&mut self) {
        self.rx.leave_mark();
    }

    /// The offset in our element of an urgent byte that came with the last message, which the
    /// engine has to keep: it may be overwritten from the next [`Self::poll_transmit`] on.
    pub(crate) fn urgent_offset(&mut self) -> Option<u32> {
        self.rx.urgent_offset()
    }

    /// What recv(MSG_OOB) finds; with `take` the byte counts as fetched.
    pub(crate) fn fetch_urgent(&mut self, take: bool) -> Fetch {
        self.rx.fetch_urgent(take)
    }

    /// What a reader must do that found no data. The end of the stream, once known, wins over an
    /// error (AMB-46), as in TCP.
    pub(crate) fn recv_state(&self) -> Receive {
        if self.close.stream_has_ended() || self.close.is_read_shut() {
            return Receive::Eof;
        }
        match self.close.error() {
            Some(_) if self.close.unreported_error().is_some() => Receive::More,
            Some(_) => Receive::Failed,
            None if self.close.is_alive() => Receive::More,
            None => Receive::Eof,
        }
    }

    /// The error that ended the connection.
    #[cfg(test)]
    pub(crate) fn error(&self) -> Option<CloseError> {
        self.close.error()
    }

    /// The error, until [`Self::report_error`].
    pub(crate) fn unreported_error(&self) -> Option<CloseError> {
        self.close.unreported_error()
    }

    /// Whether the peer sends no more data, or the application reads no more.
    pub(crate) fn peer_done(&self) -> bool {
        self.close.stream_has_ended() || self.close.is_read_shut() || !self.close.is_alive()
    }

    /// What poll finds; `socket` is the part that the core does not know. A low-water mark beyond the
    /// capacity of the element counts as that capacity.
    pub(crate) fn poll_state(&self, socket: &poll::PolledSocket) -> poll::PollState {
        // A reset reaches TCP and the core one after the other.
        let failing = match self.close.error() {
            Some(_) => self.close.unreported_error().is_some(),
            None => socket.error && socket.closed && self.close.is_alive(),
        };
        if failing {
            return poll::PollState::Failing;
        }
        poll::PollState::Connected(poll::PollStream {
            data: self.rx.available() >= self.rx.reachable(socket.low_water),
            room: self.tx.is_roomy(),
            urgent: self.rx.is_urgent(),
            read_ended: self.peer_done(),
            write_ended: !self.close.is_open_for_sending(),
            error: socket.error,
            error_queue: socket.error_queue,
        })
    }

    /// What poll reports to an application that wants `low_water` bytes, of a socket without errors.
    #[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
    pub(crate) fn poll_mask(&self, low_water: u32) -> poll::Mask {
        let socket = poll::PolledSocket {
            low_water,
            ..poll::PolledSocket::default()
        };
        self.poll_state(&socket).mask()
    }
}
