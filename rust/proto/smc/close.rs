// SPDX-License-Identifier: GPL-2.0

//! How a connection ends: states and transitions of RFC 7609, 4.8 (CLS-*, ABT-*).
//!
//! ```text
//!                         CLOSED <-----------------------------+
//!   close, C sent and received | rendezvous                    |
//!                            ACTIVE                            |
//!     we end first    |            |   the peer ends first     |
//!     D or C sent     v            v   D or C received         |
//!           PeerCloseWait1       AppCloseWait1                 |
//!     D received      v            v   D sent                  |
//!           PeerCloseWait2       AppCloseWait2                 |
//!     C received,     v            v   C sent, only D received |
//!     not closed    AppFinCloseWait, PeerFinCloseWait ---------+
//!
//!   abort before C was sent: PeerAbortWait (ours), ProcessAbort (the peer's), then CLOSED
//! ```
//!
//! Where the RFC leaves room, the choice is what programs know from TCP on Linux:
//!
//! - Data received before an abort by the peer stays readable, and the end of the stream, once seen
//!   (D or C), is reported in place of the error. The RFC would purge (ABT-06).
//! - `shutdown(SHUT_RDWR)` with unread data sends D and leaves the data readable; only the release
//!   of the socket aborts then (CLS-02 would abort at once).
//! - Data that arrives after the socket was released aborts, as TCP answers it by RST.
//! - No timer runs while the application has the socket half open (CLS-30 read with FIN_WAIT2).
//! - In `PeerAbortWait` a C of the peer, which crossed our A, is as good as its A: after C the peer
//!   is silent, so that its A would never come (CLS-75 read with AMB-24).

use crate::proto::base::time::{
    earliest,
    Duration,
    Instant, //
};

/// State of a connection; names as in the RFC (figures 22 and 23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseState {
    /// Neither side has announced an end.
    Active,
    /// We announced first: D or C is out.
    PeerCloseWait1,
    /// As before, and the peer announced D.
    PeerCloseWait2,
    /// We sent D, the peer C: our application has yet to close.
    AppFinCloseWait,
    /// The peer announced D or C first.
    AppCloseWait1,
    /// As before, and we sent D.
    AppCloseWait2,
    /// The peer sent D, we C: the peer has yet to close.
    PeerFinCloseWait,
    /// We abort: A is out or about to go, the peer's A is awaited.
    PeerAbortWait,
    /// The peer aborts: our A is about to go.
    ProcessAbort,
    /// Over: the peer writes to our element no more (CLS-13).
    Closed,
}

impl CloseState {
    /// A name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::PeerCloseWait1 => "PEERCLOSEWAIT1",
            Self::PeerCloseWait2 => "PEERCLOSEWAIT2",
            Self::AppFinCloseWait => "APPFINCLOSEWAIT",
            Self::AppCloseWait1 => "APPCLOSEWAIT1",
            Self::AppCloseWait2 => "APPCLOSEWAIT2",
            Self::PeerFinCloseWait => "PEERFINCLOSEWAIT",
            Self::PeerAbortWait => "PEERABORTWAIT",
            Self::ProcessAbort => "PROCESSABORT",
            Self::Closed => "CLOSED",
        }
    }
}

/// What went wrong, as an application sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseError {
    /// The peer aborted, or a rule of the protocol was broken: `ECONNRESET`.
    Reset,
    /// The peer had ended its side before it aborted: `EPIPE`.
    Pipe,
    /// This side aborted: `ECONNABORTED`.
    Aborted,
    /// The peer, or the link, is silent: `ETIMEDOUT`.
    TimedOut,
}

/// An announcement to put into a CDC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseNotice {
    /// D: we write no more (CDC-17).
    Done,
    /// C: we are closed (CDC-18).
    Closed,
    /// A: we abort (CDC-19).
    Abort,
}

/// The announcements of one direction. Once made they are repeated in every message (CDC-43).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notices {
    /// D.
    pub(crate) done: bool,
    /// C.
    pub(crate) closed: bool,
    /// A.
    pub(crate) abort: bool,
}

/// How the engine must end the TCP connection below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tcp {
    /// Leave it alone.
    Keep,
    /// Let it end by FIN (TCR-05, DEP-11).
    Fin,
    /// Reset it (ABT-02, CLS-31).
    Reset,
}

/// How long a connection waits. None has a value in the RFC (AMB-36).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CloseTimers {
    /// For the peer's C after ours (CLS-30); as long as an orphan of TCP stays in FIN_WAIT2.
    pub(crate) close: Duration,
    /// For the peer's A after ours, and for ours to leave (ABT-05).
    pub(crate) abort: Duration,
    /// For a released connection to drain some of its data.
    pub(crate) drain: Duration,
    /// For it to drain all of its data.
    pub(crate) drain_all: Duration,
    /// For C or D after the FIN of the TCP connection (TCR-09).
    pub(crate) fin: Duration,
    /// For the application to follow up on data it corked (WIN-10); as with TCP_CORK.
    pub(crate) cork: Duration,
    /// For messages of the old link to be handled, when the peer's first message over a new one
    /// announces more than they do so far (FOV-10).
    pub(crate) validation: Duration,
}

impl CloseTimers {
    /// The timers in use unless the engine changes them.
    pub(crate) const DEFAULT: Self = Self {
        close: Duration::from_secs(60),
        abort: Duration::from_secs(5),
        drain: Duration::from_secs(120),
        drain_all: Duration::from_secs(600),
        fin: Duration::from_secs(30),
        cork: Duration::from_millis(200),
        validation: Duration::from_millis(200),
    };
}

/// What the application wants the peer to know about our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WantedEnd {
    Nothing,
    Done,
    Closed,
}

/// The end of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Close {
    /// State of RFC 7609, 4.8.
    state: CloseState,
    /// The end that the application asked for; it only gets stronger.
    wanted: WantedEnd,
    /// Notices announced to the peer.
    sent: Notices,
    /// Notices of the peer.
    received: Notices,
    /// The peer's stream has ended: D or C came while the connection was alive, with all data
    /// before.
    ended: bool,
    /// A must be sent.
    abort_due: bool,
    /// The application reads no more.
    read_shut: bool,
    /// The application has released the socket.
    released: bool,
    /// The first error, which stays.
    error: Option<CloseError>,
    /// The socket has the error.
    reported: bool,
    /// The TCP connection must be reset.
    reset: bool,
    /// `Closed` was reached without a word of the peer.
    forced: bool,
    /// No link is left.
    lost: bool,
    /// Deadline for the peer's answer, or for our data to drain.
    guard: Option<Instant>,
    /// Deadline for all data of a released connection to drain.
    drained_by: Option<Instant>,
    /// What C or D must beat after a FIN.
    fin_guard: Option<Instant>,
    /// Lengths of the waits.
    timers: CloseTimers,
}

impl Close {
    /// A connection whose rendezvous is over (CLS-51).
    pub(crate) const fn new(timers: CloseTimers) -> Self {
        const NONE: Notices = Notices {
            done: false,
            closed: false,
            abort: false,
        };
        Self {
            state: CloseState::Active,
            wanted: WantedEnd::Nothing,
            sent: NONE,
            received: NONE,
            ended: false,
            abort_due: false,
            read_shut: false,
            released: false,
            error: None,
            reported: false,
            reset: false,
            forced: false,
            lost: false,
            guard: None,
            drained_by: None,
            fin_guard: None,
            timers,
        }
    }

    /// The state.
    pub(crate) const fn state(&self) -> CloseState {
        self.state
    }

    /// What our messages have announced, and repeat.
    pub(crate) const fn sent(&self) -> Notices {
        self.sent
    }

    /// Whether data may still be exchanged in some direction: no abort, not closed.
    pub(crate) const fn is_alive(&self) -> bool {
        !matches!(
            self.state,
            CloseState::PeerAbortWait | CloseState::ProcessAbort | CloseState::Closed
        )
    }

    /// Whether we may send no further message (CDC-41).
    pub(crate) const fn is_silent(&self) -> bool {
        self.lost || self.sent.closed || self.sent.abort || matches!(self.state, CloseState::Closed)
    }

    /// Whether the application may write.
    pub(crate) fn is_open_for_sending(&self) -> bool {
        self.is_alive() && self.wanted == WantedEnd::Nothing
    }

    /// Whether the peer, by its word, will send no more data.
    pub(crate) const fn peer_is_done(&self) -> bool {
        self.received.done || self.received.closed
    }

    /// Whether the reader finds the end of the peer's stream behind the data that has come. D or C
    /// of an abort, or of a message behind one, ends no stream: data before it may never have come.
    pub(crate) const fn stream_has_ended(&self) -> bool {
        self.ended
    }

    /// Received data is lost: the reader finds the error, not the end of the stream.
    pub(crate) fn spoil_stream(&mut self) {
        self.ended = false;
    }

    /// Whether the application reads no more.
    pub(crate) const fn is_read_shut(&self) -> bool {
        self.read_shut
    }

    /// Whether data that arrives now has no reader and calls for a reset, as in TCP: both
    /// directions were shut by the application.
    pub(crate) fn refuses_data(&self) -> bool {
        self.read_shut && self.wanted != WantedEnd::Nothing
    }

    /// Whether the application has released the socket.
    pub(crate) const fn is_released(&self) -> bool {
        self.released
    }

    /// Whether `Closed` was reached without the peer's C or A (RMB-23).
    pub(crate) const fn is_forced(&self) -> bool {
        self.forced
    }

    /// Whether no link is left.
    pub(crate) const fn is_lost(&self) -> bool {
        self.lost
    }

    /// The error that ended the connection.
    pub(crate) const fn error(&self) -> Option<CloseError> {
        self.error
    }

    /// The error, until [`Self::report_error`].
    pub(crate) fn unreported_error(&self) -> Option<CloseError> {
        self.error.filter(|_| !self.reported)
    }

    /// Notes that the socket has the error. Returns the error the first time.
    pub(crate) fn report_error(&mut self) -> Option<CloseError> {
        let error = self.unreported_error();
        self.reported |= error.is_some();
        error
    }

    /// Whether an abort waits for its message.
    pub(crate) const fn is_abort_due(&self) -> bool {
        self.abort_due
    }

    /// How the engine must end the TCP connection, once none of our messages is in flight.
    pub(crate) const fn tcp(&self) -> Tcp {
        if self.reset {
            return Tcp::Reset;
        }
        match self.state {
            CloseState::Closed => Tcp::Fin,
            // The side that closes first also starts the end of TCP, so that TIME_WAIT is kept
            // where programs expect it (DEP-11).
            CloseState::PeerCloseWait1 | CloseState::PeerCloseWait2 if self.sent.closed => Tcp::Fin,
            _ => Tcp::Keep,
        }
    }

    /// The announcement that is due; `drained` says whether all data has been handed to the link
    /// (CLS-03, CLS-04, CLS-55).
    pub(crate) fn due(&self, drained: bool) -> Option<CloseNotice> {
        if self.is_silent() {
            None
        } else if self.abort_due {
            Some(CloseNotice::Abort)
        } else if !drained || !self.is_alive() {
            None
        } else {
            match self.wanted {
                WantedEnd::Closed => Some(CloseNotice::Closed),
                WantedEnd::Done if !self.sent.done => Some(CloseNotice::Done),
                WantedEnd::Done | WantedEnd::Nothing => None,
            }
        }
    }

    /// The application writes no more (CLS-53, CLS-61).
    pub(crate) fn shutdown_write(&mut self) {
        self.want(WantedEnd::Done);
    }

    /// The application reads no more; no message announces that (CLS-01).
    pub(crate) fn shutdown_read(&mut self) {
        self.read_shut = true;
    }

    /// Both at once: a close, except with `unread` data, which stays readable.
    pub(crate) fn shutdown_both(&mut self, unread: bool) {
        self.read_shut = true;
        self.want(if unread {
            WantedEnd::Done
        } else {
            WantedEnd::Closed
        });
    }

    /// The application has released the socket (CLS-02, CLS-08, CLS-12, CLS-16).
    pub(crate) fn close(&mut self, now: Instant, unread: bool) {
        if self.released {
            return;
        }
        self.released = true;
        self.read_shut = true;
        if !self.is_alive() || self.sent.closed {
            return;
        }
        if unread {
            // CLS-02, CLS-17, CLS-54.
            self.abort(now, CloseError::Aborted);
        } else {
            self.want(WantedEnd::Closed);
            self.drained_by = Some(now.saturating_add(self.timers.drain_all));
            self.allow_drain(now);
        }
    }

    /// Some data of a released connection was delivered: the rest may take more time, up to the
    /// limit of [`CloseTimers::drain_all`], so that a slow peer cannot hold the connection.
    pub(crate) fn progress(&mut self, now: Instant) {
        if self.released && self.is_alive() && !self.sent.closed {
            self.allow_drain(now);
        }
    }

    fn allow_drain(&mut self, now: Instant) {
        let next = now.saturating_add(self.timers.drain);
        self.guard = earliest(Some(next), self.drained_by);
    }

    /// This side aborts (CLS-67). After C only a reset of the TCP connection reaches the peer
    /// (ABT-09). Its C or A is still awaited then, because it may write until that reset.
    pub(crate) fn abort(&mut self, now: Instant, error: CloseError) {
        if !self.is_alive() {
            return;
        }
        self.reset = true;
        self.fail(error);
        let deadline = now.saturating_add(self.timers.abort);
        if self.sent.closed {
            self.guard = earliest(self.guard, Some(deadline));
            return;
        }
        self.guard = Some(deadline);
        self.abort_due = true;
        self.state = CloseState::PeerAbortWait;
    }

    /// The TCP connection was reset (CLS-72, TCR-06).
    pub(crate) fn handle_tcp_reset(&mut self, now: Instant) {
        let error = self.reset_error();
        self.abort(now, error);
    }

    /// The TCP connection got a FIN. It travels its own way, so only the lack of a C or D after
    /// some time means something (TCR-09, AMB-22).
    pub(crate) fn handle_tcp_fin(&mut self, now: Instant) {
        if self.is_alive() && !self.peer_is_done() && self.fin_guard.is_none() {
            self.fin_guard = Some(now.saturating_add(self.timers.fin));
        }
    }

    /// No link to the peer is left (CLS-76).
    pub(crate) fn handle_link_lost(&mut self) {
        self.lost = true;
        self.abort_due = false;
        if self.state == CloseState::Closed {
            return;
        }
        if self.is_alive() {
            let error = self.reset_error();
            self.fail(error);
        }
        self.reset = true;
        self.forced = true;
        self.finish();
    }

    /// A message of the peer has been taken in: `notices` are its announcements, `unsent` says
    /// whether some of our data has not been handed to the link.
    pub(crate) fn handle_notices(&mut self, now: Instant, notices: Notices, unsent: bool) {
        if self.is_alive() && !notices.abort {
            self.ended |= notices.done || notices.closed;
        }
        // Latched (CDC-43, AMB-18).
        self.received.done |= notices.done;
        self.received.closed |= notices.closed;
        if self.peer_is_done() {
            self.fin_guard = None;
        }
        if notices.abort && !self.received.abort {
            self.received.abort = true;
            self.handle_abort(now);
            return;
        }
        let closed = self.received.closed;
        match self.state {
            // CLS-56.
            CloseState::Active if self.peer_is_done() => self.state = CloseState::AppCloseWait1,
            // CLS-58, CLS-59.
            CloseState::PeerCloseWait1 | CloseState::PeerCloseWait2 if closed => {
                if self.sent.closed {
                    self.finish();
                } else {
                    self.state = CloseState::AppFinCloseWait;
                }
            }
            // CLS-57.
            CloseState::PeerCloseWait1 if self.received.done => {
                self.state = CloseState::PeerCloseWait2
            }
            // CLS-64.
            CloseState::PeerFinCloseWait if closed => self.finish(),
            // CLS-74, and the C that crossed our A.
            CloseState::PeerAbortWait if closed && self.sent.abort => self.finish(),
            _ => {}
        }
        if unsent {
            self.handle_unsent(now);
        }
    }

    /// There is data that was not handed to the link: if the peer has closed, it can never be
    /// delivered (CLS-05, CLS-65).
    pub(crate) fn handle_unsent(&mut self, now: Instant) {
        if self.received.closed && self.is_alive() && !self.sent.closed {
            self.abort(now, CloseError::Pipe);
        }
    }

    /// The peer aborts (CLS-68, CLS-70, CLS-73).
    fn handle_abort(&mut self, now: Instant) {
        let error = self.reset_error();
        match self.state {
            CloseState::Closed | CloseState::ProcessAbort => {}
            // CLS-68; our own A is out.
            CloseState::PeerAbortWait if self.sent.abort => self.finish(),
            // Both abort, but ours has not left: it is the peer's answer now.
            CloseState::PeerAbortWait => self.state = CloseState::ProcessAbort,
            _ => {
                self.fail(error);
                self.reset = true;
                if self.sent.closed {
                    // CLS-73: C forbids an answer, and the peer does not wait for one.
                    self.finish();
                } else {
                    // CLS-70.
                    self.abort_due = true;
                    self.guard = Some(now.saturating_add(self.timers.abort));
                    self.state = CloseState::ProcessAbort;
                }
            }
        }
    }

    /// `notice` was put into a posted message.
    pub(crate) fn handle_announced(&mut self, now: Instant, notice: CloseNotice) {
        match notice {
            CloseNotice::Done => {
                self.sent.done = true;
                match self.state {
                    // CLS-53.
                    CloseState::Active => self.state = CloseState::PeerCloseWait1,
                    // CLS-61.
                    CloseState::AppCloseWait1 => self.state = CloseState::AppCloseWait2,
                    _ => {}
                }
            }
            CloseNotice::Closed => {
                self.sent.closed = true;
                self.guard = Some(now.saturating_add(self.timers.close));
                match self.state {
                    // CLS-52.
                    CloseState::Active => self.state = CloseState::PeerCloseWait1,
                    // CLS-62, CLS-63.
                    CloseState::AppCloseWait1 | CloseState::AppCloseWait2 => {
                        if self.received.closed {
                            self.finish();
                        } else {
                            self.state = CloseState::PeerFinCloseWait;
                        }
                    }
                    // CLS-60.
                    CloseState::AppFinCloseWait => self.finish(),
                    // CLS-16.
                    _ => {}
                }
            }
            CloseNotice::Abort => {
                self.sent.abort = true;
                self.abort_due = false;
                // CLS-74.
                if self.state == CloseState::PeerAbortWait && self.received.closed {
                    self.finish();
                }
            }
        }
    }

    /// The message with our A was delivered (CLS-71).
    pub(crate) fn handle_abort_sent(&mut self) {
        if self.state == CloseState::ProcessAbort {
            self.finish();
        }
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        earliest(self.guard, self.fin_guard)
    }

    /// A deadline may have passed; `stalled` says whether the peer waits for us to read, which
    /// excuses a missing D or C. Returns whether anything changed.
    pub(crate) fn handle_timeout(&mut self, now: Instant, stalled: bool) -> bool {
        let mut changed = false;
        if self.fin_guard.is_some_and(|at| at <= now) {
            self.fin_guard = None;
            if stalled {
                self.fin_guard = Some(now.saturating_add(self.timers.fin));
            } else {
                // TCR-09.
                self.abort(now, CloseError::Reset);
                changed = true;
            }
        }
        if self.guard.is_some_and(|at| at <= now) {
            self.guard = None;
            changed = true;
            match self.state {
                CloseState::Closed => {}
                // CLS-69; and a ProcessAbort that could not send its A.
                CloseState::PeerAbortWait | CloseState::ProcessAbort => {
                    self.abort_due = false;
                    self.forced = true;
                    self.finish();
                }
                // CLS-31, CLS-66.
                _ if self.sent.closed => {
                    self.reset = true;
                    self.forced = true;
                    self.finish();
                }
                // The data of a released connection does not move.
                _ => self.abort(now, CloseError::TimedOut),
            }
        }
        changed
    }

    /// Notes what the application wants, which only ever grows.
    fn want(&mut self, wanted: WantedEnd) {
        if self.is_alive() {
            self.wanted = core::cmp::max(self.wanted, wanted);
        }
    }

    /// The error of a reset: EPIPE after the peer's FIN, as in TCP's CLOSE_WAIT.
    const fn reset_error(&self) -> CloseError {
        if self.ended {
            CloseError::Pipe
        } else {
            CloseError::Reset
        }
    }

    /// Keeps the first error.
    fn fail(&mut self, error: CloseError) {
        if self.error.is_none() {
            self.error = Some(error);
        }
    }

    /// Enters `Closed`.
    fn finish(&mut self) {
        self.state = CloseState::Closed;
        self.guard = None;
        self.fin_guard = None;
    }
}

#[cfg(test)]
mod drain;
#[cfg(test)]
mod table;
