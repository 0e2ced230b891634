// SPDX-License-Identifier: GPL-2.0

//! The applications of the simulation: what they write, how they read, how they end.
//!
//! They sleep like the callers of a socket: only an event wakes them, so that a forgotten event
//! stalls the run and is found.

use super::Rng;
use crate::proto::{
    base::time::Instant,
    smc::cdc::{
        CloseError,
        Conn,
        Receive,
        SendError,
        StreamEvents, //
    },
    stream::{
        poll::Mask,
        zerocopy::MAX_LENT, //
    },
};
use std::rc::Rc;

/// What an application has lent, by the number of the part.
pub(crate) type Parts = [Option<Rc<[u8]>>; MAX_LENT];

/// How an application ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Writes all, shuts down writing, reads to the end, closes.
    HalfClose,
    /// Writes all, reads to the end of the peer, closes.
    CloseAfterPeer,
    /// Writes all, then closes, whatever there is to read.
    CloseWhenWritten,
    /// Writes all, shuts down both directions, reads what is left, closes.
    ShutdownBoth,
    /// Closes at some time.
    CloseEarly,
    /// Aborts at some time, then closes.
    Abort,
}

/// The byte at `position` of a stream.
pub(crate) fn pattern(side: usize, position: u64) -> u8 {
    let x = (position + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ side as u64);
    (x >> 56) as u8
}

/// One application.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// Number of the side that it runs on, 0 or 1.
    side: usize,
    /// How it ends the connection.
    pub(crate) end: End,
    /// Bytes that it writes in all.
    pub(crate) to_write: u64,
    /// Most bytes of one write.
    chunk: u32,
    /// Most bytes of one read.
    read_chunk: u32,
    /// Bytes that a sleeping reader waits for.
    low_water: u32,
    /// Sleeps until a third of the send ring is free, as with poll, not until any byte is.
    polls: bool,
    /// Corks now and then.
    corks: bool,
    /// Lends some of what it writes.
    lends: bool,
    /// Bytes written so far.
    pub(crate) written: u64,
    /// Bytes read so far.
    pub(crate) read: u64,
    /// It has ended its writing direction.
    pub(crate) shut: bool,
    /// A write has failed.
    write_dead: bool,
    /// It has read the end of the peer's stream.
    pub(crate) saw_eof: bool,
    /// The error of its socket, which no call has returned.
    socket_error: Option<CloseError>,
    /// The error that a call has returned.
    pub(crate) error: Option<CloseError>,
    /// It has closed the socket.
    pub(crate) closed: bool,
    /// It sleeps until data comes.
    read_sleeps: bool,
    /// It sleeps until there is room to write.
    write_sleeps: bool,
    /// Steps until an early end.
    patience: u64,
}

impl App {
    pub(crate) fn new(rng: &mut Rng, side: usize, end: End, capacity: u32) -> Self {
        let to_write = match rng.range(0, 9) {
            0 => 0,
            1 => 1,
            2..=4 => rng.range(1, 200),
            5..=8 => rng.range(1, 20_000),
            _ => rng.range(1, 5) * u64::from(capacity),
        };
        Self {
            side,
            end,
            to_write,
            chunk: rng.pick(&[1, 7, 100, 1_000, 5_000]),
            read_chunk: rng.pick(&[1, 5, 64, 1_000, 100_000]),
            low_water: rng.pick(&[1, 1, 1, capacity.div_ceil(2), capacity]),
            polls: rng.one_in(2),
            corks: rng.one_in(4),
            lends: rng.one_in(3),
            written: 0,
            read: 0,
            shut: false,
            write_dead: false,
            saw_eof: false,
            socket_error: None,
            error: None,
            closed: false,
            read_sleeps: false,
            write_sleeps: false,
            patience: rng.range(0, 400),
        }
    }

    /// StreamEvents wake the sleepers.
    pub(crate) fn wake(&mut self, events: StreamEvents) {
        self.read_sleeps &= !events.readable;
        self.write_sleeps &= !events.writable;
    }

    /// Brings an error of the connection to the socket, as the engine does.
    pub(crate) fn report_error(&mut self, conn: &mut Conn, tcp_closed: bool) {
        if let Some(error) = conn.report_error(tcp_closed) {
            self.socket_error = Some(error);
            self.read_sleeps = false;
            self.write_sleeps = false;
        }
    }

    fn is_early(&self) -> bool {
        matches!(self.end, End::CloseEarly | End::Abort)
    }

    fn has_written(&self) -> bool {
        self.write_dead || self.shut || self.written == self.to_write
    }

    pub(crate) fn wants_write(&self) -> bool {
        !self.closed && !self.has_written() && !self.write_sleeps
    }

    pub(crate) fn wants_read(&self) -> bool {
        !self.closed && !self.saw_eof && self.error.is_none() && !self.read_sleeps
    }

    pub(crate) fn wants_end(&self) -> bool {
        if self.closed {
            return false;
        }
        let over = self.saw_eof || self.error.is_some();
        match self.end {
            End::CloseEarly | End::Abort => true,
            End::HalfClose | End::ShutdownBoth => {
                self.has_written() && (over || !self.shut && !self.write_dead)
            }
            End::CloseAfterPeer => self.has_written() && over,
            End::CloseWhenWritten => self.has_written(),
        }
    }

    /// Writes something, or goes to sleep. It may lend if there are `parts`.
    pub(crate) fn write(
        &mut self,
        rng: &mut Rng,
        now: Instant,
        conn: &mut Conn,
        ring: &mut [u8],
        parts: Option<&mut Parts>,
    ) {
        match conn.can_send() {
            Ok(()) => {}
            Err(SendError::Unreported) => {
                assert!(conn.unreported_error().is_some());
                self.write_sleeps = true;
                return;
            }
            Err(SendError::Pipe) => {
                self.error = self.socket_error.take().or(self.error);
                assert!(self.error.is_some() || !conn.is_connected());
                self.write_dead = true;
                return;
            }
        }
        if conn.send_room() == 0 || (self.polls && !conn.poll_mask(1).contains(Mask::WRITABLE)) {
            self.write_sleeps = true;
            return;
        }
        if self.corks {
            conn.set_corked(rng.one_in(2));
            conn.set_nodelay(rng.one_in(2));
        }
        let left = u32::try_from(self.to_write - self.written).unwrap_or(u32::MAX);
        let want = rng.bytes(1, self.chunk).min(left);
        if let Some(parts) = parts.filter(|_| self.lends && rng.one_in(2)) {
            if let Some(place) = conn.lend(now, want) {
                let end = self.written + u64::from(want);
                let octets = (self.written..end).map(|at| pattern(self.side, at));
                assert!(parts[place].replace(octets.collect()).is_none());
                self.written = end;
                return;
            }
        }
        let mut count = 0;
        for segment in conn.send_segments(want) {
            for offset in segment.off..segment.off + segment.len {
                ring[offset as usize] = pattern(self.side, self.written);
                self.written += 1;
                count += 1;
            }
        }
        assert!(count > 0 && count <= want);
        conn.write(now, count);
        if rng.one_in(10) {
            conn.flush();
        }
    }

    /// Reads something, or goes to sleep.
    pub(crate) fn read(&mut self, rng: &mut Rng, conn: &mut Conn, element: &[u8]) {
        let available = conn.recv_available();
        if available < self.low_water && conn.recv_state() == Receive::More {
            if conn.poll_coalesced().is_some() && rng.one_in(2) {
                // It does something else.
                conn.on_empty_read();
                return;
            }
            self.read_sleeps = true;
            if conn.holds_back() {
                // What was written does not wait for a completion while the program sleeps.
                conn.flush();
                assert!(!conn.holds_back());
            }
            return;
        }
        let readable = conn.poll_mask(1).contains(Mask::READABLE);
        assert!(readable || conn.unreported_error().is_some());
        if available == 0 {
            match conn.recv_state() {
                Receive::More => unreachable!("it would sleep"),
                Receive::Eof => self.saw_eof = true,
                Receive::Failed => {
                    assert!(conn.unreported_error().is_none());
                    self.error = self.socket_error.take();
                    assert!(self.error.is_some());
                }
            }
            return;
        }
        let max = rng.bytes(1, self.read_chunk);
        let skip = if rng.one_in(8) {
            rng.bytes(0, available)
        } else {
            0
        };
        let mut position = self.read + u64::from(skip);
        let mut count = 0;
        for segment in conn.recv_segments(skip, max) {
            for offset in segment.off..segment.off + segment.len {
                assert_eq!(element[offset as usize], pattern(1 - self.side, position));
                position += 1;
                count += 1;
            }
        }
        assert_eq!(count, max.min(available - skip));
        if skip > 0 {
            // It only peeked.
            return;
        }
        self.read += u64::from(count);
        conn.read(count);
    }

    /// Takes the next step towards its end.
    pub(crate) fn finish(&mut self, now: Instant, conn: &mut Conn) {
        if self.is_early() && self.patience > 0 {
            self.patience -= 1;
            return;
        }
        match self.end {
            End::HalfClose if !self.shut && !self.write_dead => {
                self.shut = true;
                conn.shutdown_write();
                // A second time changes nothing.
                let again = &mut conn.clone();
                again.take_events();
                again.shutdown_write();
                assert!(!again.take_events().closing);
            }
            End::ShutdownBoth if !self.shut && !self.write_dead => {
                self.shut = true;
                conn.shutdown_both();
            }
            End::Abort => {
                conn.abort(now);
                self.closed = true;
                conn.close(now);
            }
            _ => {
                self.closed = true;
                conn.close(now);
            }
        }
    }
}
