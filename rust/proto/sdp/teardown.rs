// SPDX-License-Identifier: GPL-2.0

//! How a connection ends, draft 8.2 (SDP-CLS-*, SDP-ABT-*, SDP-TS-*).
//!
//! ```text
//!                 Open ---- DisConn received ----> PeerDone
//!                  | app ends                         | app ends
//!               Draining --- DisConn received --> PeerDoneDraining
//!                  | drained, DisConn sent            | drained, DisConn sent
//!               FinSent                            LastSent
//!                  | DisConn received                 | own DisConn completed
//!               Ending ---- link down, or 1 s ----> Closed
//!
//!   abort after our DisConn: Aborting until AbortConn is completed, then Closed; before: Closed
//! ```

use super::violation::SdpViolation;
use crate::proto::base::time::{
    Duration,
    Instant, //
};

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EndState {
    /// Both directions are open.
    Open,
    /// The application has ended its direction; data is left.
    Draining,
    /// Our DisConn is sent: FIN_WAIT.
    FinSent,
    /// The peer's DisConn has come: CLOSE_WAIT.
    PeerDone,
    /// It has, and the application has ended its direction; data is left.
    PeerDoneDraining,
    /// It had come when we sent ours: LAST_ACK. We take the link down (SDP-CLS-24).
    LastSent,
    /// Ours was sent first, and the peer's has come: the peer takes the link down.
    Ending,
    /// AbortConn has to be sent or to be completed.
    Aborting {
        /// It is posted.
        is_sent: bool,
    },
    /// The link is down, or has to be taken down.
    Closed,
}

impl EndState {
    /// A name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Draining => "draining",
            Self::FinSent => "fin-wait",
            Self::PeerDone => "close-wait",
            Self::PeerDoneDraining => "close-wait-draining",
            Self::LastSent => "last-ack",
            Self::Ending => "ending",
            Self::Aborting { .. } => "aborting",
            Self::Closed => "closed",
        }
    }
}

/// Why a connection is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EndError {
    /// The peer aborted, or the link went down: `ECONNRESET` (SDP-ERRNO-4).
    Reset,
    /// This side aborted: `ECONNABORTED`.
    Aborted,
    /// The peer broke a rule: `EPROTO` (SDP-ERRNO-7).
    Protocol,
    /// The peer, or the link, is silent: `ETIMEDOUT`.
    TimedOut,
}

/// How long a connection waits for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndTimers {
    /// For credit and completion of AbortConn (SDP-TMR-6, AMB-37).
    pub(crate) abort: Duration,
    /// For the peer to take the link down after both DisConn.
    pub(crate) ending: Duration,
    /// For the peer's DisConn, or the completion of ours, when no program has the socket (SDP-TMR-5).
    pub(crate) fin: Duration,
}

impl EndTimers {
    /// The timers in use unless the engine changes them.
    pub(crate) const DEFAULT: Self = Self {
        abort: Duration::from_secs(1),
        ending: Duration::from_secs(1),
        fin: Duration::from_secs(60),
    };
}

/// The state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Teardown {
    timers: EndTimers,
    state: EndState,
    /// Our DisConn has completed.
    is_completed: bool,
    /// The peer's DisConn has come, whatever came afterwards.
    is_peer_done: bool,
    /// No program has the socket.
    is_released: bool,
    /// Why it is broken, if it is.
    error: Option<EndError>,
    /// It was aborted by either side, and did not only lose its link.
    is_aborted: bool,
    deadline: Option<Instant>,
    /// The engine has to take the link down.
    takes_down: bool,
    /// The peer may send its DisConn again: there is a new link.
    may_repeat: bool,
}

impl Teardown {
    pub(crate) const fn new(timers: EndTimers) -> Self {
        Self {
            timers,
            state: EndState::Open,
            is_completed: false,
            is_peer_done: false,
            is_released: false,
            error: None,
            is_aborted: false,
            deadline: None,
            takes_down: false,
            may_repeat: false,
        }
    }

    /// Where the connection stands.
    pub(crate) const fn state(&self) -> EndState {
        self.state
    }

    /// Whether the application may send.
    pub(crate) const fn is_open_for_sending(&self) -> bool {
        matches!(self.state, EndState::Open | EndState::PeerDone)
    }

    /// Whether messages of the connection may be posted, but for AbortConn.
    pub(crate) const fn is_live(&self) -> bool {
        !matches!(self.state, EndState::Aborting { .. } | EndState::Closed)
    }

    /// Why the connection is broken. The receiving direction is not if the peer ended it before,
    /// unless it aborted (SDP-CLS-14).
    pub(crate) const fn error(&self) -> Option<EndError> {
        self.error
    }

    /// Whether it was aborted, so that the end of the stream is no clean one (SDP-ABT-07).
    pub(crate) const fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    /// Whether our DisConn is sent.
    const fn is_sent(&self) -> bool {
        matches!(
            self.state,
            EndState::FinSent | EndState::LastSent | EndState::Ending
        )
    }

    /// The application ends its direction (SDP-CLS-04).
    pub(crate) fn end_sending(&mut self) {
        self.state = match self.state {
            EndState::Open => EndState::Draining,
            EndState::PeerDone => EndState::PeerDoneDraining,
            other => other,
        };
    }

    /// No program has the socket from now on.
    pub(crate) fn release(&mut self, now: Instant) {
        self.is_released = true;
        if self.is_sent() && self.deadline.is_none() {
            self.deadline = Some(now.saturating_add(self.timers.fin));
        }
    }

    /// Whether no program has the socket.
    pub(crate) const fn is_released(&self) -> bool {
        self.is_released
    }

    /// Whether DisConn has to be sent when the stream is drained (SDP-CLS-06).
    pub(crate) const fn is_disconn_due(&self) -> bool {
        matches!(self.state, EndState::Draining | EndState::PeerDoneDraining)
    }

    /// DisConn was posted (SDP-CLS-08, SDP-CLS-22).
    pub(crate) fn on_disconn_sent(&mut self, now: Instant) {
        match self.state {
            EndState::Draining => self.state = EndState::FinSent,
            EndState::PeerDoneDraining => self.state = EndState::LastSent,
            _ => return,
        }
        if self.is_released {
            self.deadline = Some(now.saturating_add(self.timers.fin));
        }
    }

    /// Our DisConn has completed (SDP-CLS-23).
    pub(crate) fn on_disconn_completed(&mut self, now: Instant) {
        self.is_completed = true;
        match self.state {
            EndState::LastSent => self.close(None),
            EndState::Ending => self.deadline = Some(now.saturating_add(self.timers.ending)),
            _ => {}
        }
    }

    /// The peer's DisConn has come (SDP-CLS-17, SDP-CLS-18).
    pub(crate) fn handle_disconn(&mut self, now: Instant) -> Result<(), SdpViolation> {
        if core::mem::take(&mut self.may_repeat) {
            return Ok(());
        }
        self.state = match self.state {
            EndState::Open => EndState::PeerDone,
            EndState::Draining => EndState::PeerDoneDraining,
            EndState::FinSent => {
                // Ours may never arrive: a timer that runs goes on.
                if self.is_completed {
                    self.deadline = Some(now.saturating_add(self.timers.ending));
                }
                EndState::Ending
            }
            EndState::PeerDone
            | EndState::PeerDoneDraining
            | EndState::LastSent
            | EndState::Ending => return Err(SdpViolation::AfterDisConn),
            // What the peer says is of no interest.
            state @ (EndState::Aborting { .. } | EndState::Closed) => state,
        };
        self.is_peer_done = true;
        Ok(())
    }

    /// The peer's AbortConn has come (SDP-ABT-07, SDP-ERR-21, AMB-38).
    pub(crate) fn handle_abort(&mut self) {
        self.is_aborted = true;
        self.close(Some(EndError::Reset));
    }

    /// The link is down. Gracefully, if both directions had ended (SDP-CLS-14, SDP-TS-7). `broken` is
    /// the error otherwise.
    pub(crate) fn handle_link_down(&mut self, broken: EndError) {
        let error = match self.state {
            EndState::Ending | EndState::Closed => None,
            EndState::LastSent if self.is_completed => None,
            EndState::Aborting { .. } => self.error,
            _ => Some(broken),
        };
        if self.state != EndState::Closed {
            self.close(error);
        }
        self.takes_down = false;
    }

    /// A new link continues the connection: each DisConn is sent again (AMB-49).
    pub(crate) fn resume(&mut self) {
        self.state = match self.state {
            EndState::FinSent => EndState::Draining,
            EndState::LastSent | EndState::Ending => EndState::PeerDoneDraining,
            other => other,
        };
        self.deadline = None;
        self.is_completed = false;
        self.may_repeat = self.is_peer_done;
    }

    /// Whether the peer's DisConn has come.
    pub(crate) const fn is_peer_done(&self) -> bool {
        self.is_peer_done
    }

    /// This side aborts (SDP-ABT-01 to SDP-ABT-03, SDP-TS-8, SDP-TS-9).
    /// `can_say`: there is a link for AbortConn.
    pub(crate) fn abort(&mut self, now: Instant, error: EndError, can_say: bool) {
        if !self.is_live() {
            return;
        }
        self.is_aborted = true;
        if self.is_sent() && can_say {
            self.state = EndState::Aborting { is_sent: false };
            self.error = Some(error);
            self.deadline = Some(now.saturating_add(self.timers.abort));
        } else {
            self.close(Some(error));
        }
    }

    /// Whether AbortConn has to be sent.
    pub(crate) fn is_abort_due(&self) -> bool {
        self.state == (EndState::Aborting { is_sent: false })
    }

    /// AbortConn was posted.
    pub(crate) fn on_abort_sent(&mut self) {
        if self.is_abort_due() {
            self.state = EndState::Aborting { is_sent: true };
        }
    }

    /// AbortConn has completed (SDP-ABT-08).
    pub(crate) fn on_abort_completed(&mut self) {
        if matches!(self.state, EndState::Aborting { .. }) {
            self.close(self.error);
        }
    }

    fn close(&mut self, error: Option<EndError>) {
        self.state = EndState::Closed;
        self.error = error.or(self.error);
        self.deadline = None;
        self.takes_down = true;
    }

    /// A timer may have expired.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.deadline = None;
        match self.state {
            EndState::Aborting { .. } => self.close(self.error),
            EndState::Ending => self.close(None),
            EndState::FinSent | EndState::LastSent => self.abort(now, EndError::TimedOut, true),
            _ => {}
        }
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) const fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether the engine has to take the link down now. Only the first call says so.
    pub(crate) fn poll_take_down(&mut self) -> bool {
        core::mem::take(&mut self.takes_down)
    }
}

#[cfg(test)]
mod tests;
