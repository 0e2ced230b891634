// SPDX-License-Identifier: GPL-2.0

//! The peer moves its end of a connection to another address space or host, draft 13 (SDP-DUP-*,
//! SDP-DS-1 to SDP-DS-5). We only follow; we never ask.

use super::violation::SdpViolation;
use crate::proto::base::time::{
    Duration,
    Instant, //
};

/// Where a suspension stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SuspendState {
    /// There is none.
    Running,
    /// Reads in flight have to end (SDP-DUP-15).
    Draining,
    /// SuspCommAck is posted (SDP-DUP-16).
    Answered,
    /// The old link is or goes down, the new one has to come up (SDP-DUP-17, SDP-DUP-18).
    Moving,
}

/// A suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspend {
    state: SuspendState,
    /// Port to connect to.
    port: u16,
    /// When it began.
    since: Option<Instant>,
    /// How long it may take (SDP-TMR-9).
    patience: Duration,
    /// At most one in this time.
    interval: Duration,
    /// The engine has to connect to the port.
    connects: bool,
}

impl Suspend {
    pub(super) const fn new(patience: Duration, interval: Duration) -> Self {
        Self {
            state: SuspendState::Running,
            port: 0,
            since: None,
            patience,
            interval,
            connects: false,
        }
    }

    /// SuspComm has come (SDP-DS-1).
    pub(super) fn handle_request(&mut self, now: Instant, port: u16) -> Result<(), SdpViolation> {
        let is_soon = self
            .since
            .is_some_and(|last| now.saturating_since(last) < self.interval);
        if self.state != SuspendState::Running || is_soon {
            return Err(SdpViolation::Suspend);
        }
        self.state = SuspendState::Draining;
        self.port = port;
        self.since = Some(now);
        Ok(())
    }

    /// Whether nothing new may be sent or begun.
    pub(super) fn is_active(&self) -> bool {
        self.state != SuspendState::Running
    }

    /// Whether messages may be sent at all (SDP-DUP-16).
    pub(super) const fn is_silent(&self) -> bool {
        matches!(self.state, SuspendState::Answered | SuspendState::Moving)
    }

    /// Whether SuspCommAck has to be sent when nothing is in process (SDP-DS-2).
    pub(super) fn is_answer_due(&self) -> bool {
        self.state == SuspendState::Draining
    }

    /// SuspCommAck was posted.
    pub(super) fn on_answer_sent(&mut self) {
        self.state = SuspendState::Answered;
    }

    /// SuspCommAck has completed (SDP-DS-3).
    pub(super) fn on_answer_completed(&mut self) {
        if self.state == SuspendState::Answered {
            self.state = SuspendState::Moving;
            self.connects = true;
        }
    }

    /// The port to close the link for and to connect to, at the same address and from the same
    /// port. Only the first call says so.
    pub(super) fn poll_move(&mut self) -> Option<u16> {
        core::mem::take(&mut self.connects).then_some(self.port)
    }

    /// Whether the link may be down without an end of the connection (AMB-69).
    pub(super) fn is_moving(&self) -> bool {
        self.state == SuspendState::Moving
    }

    /// The new link is up (SDP-DS-4).
    pub(super) fn resume(&mut self) {
        self.state = SuspendState::Running;
    }

    /// There will be no new link (SDP-DS-5).
    pub(super) fn give_up(&mut self) {
        self.state = SuspendState::Running;
        self.connects = false;
    }

    /// When the connection is given up.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let since = self.since.filter(|_| self.is_active())?;
        Some(since.saturating_add(self.patience))
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_suspend))]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::from_nanos(0).saturating_add(Duration::from_secs(secs))
    }

    fn suspend() -> Suspend {
        Suspend::new(Duration::from_secs(30), Duration::from_secs(10))
    }

    // SDP-DS-1 to SDP-DS-4, SDP-DUP-15 to SDP-DUP-18.
    #[test]
    fn connection_is_silent_from_the_answer_to_the_new_link() {
        let mut suspend = suspend();
        assert_eq!(suspend.handle_request(at(5), 77), Ok(()));
        assert!(suspend.is_active() && suspend.is_answer_due() && !suspend.is_silent());
        assert_eq!(suspend.poll_timeout(), Some(at(35)));
        suspend.on_answer_completed();
        assert_eq!(suspend.poll_move(), None);
        suspend.on_answer_sent();
        assert!(suspend.is_silent() && !suspend.is_moving());
        suspend.on_answer_completed();
        assert_eq!(suspend.poll_move(), Some(77));
        assert_eq!(suspend.poll_move(), None);
        assert!(suspend.is_moving() && suspend.is_silent());
        suspend.resume();
        assert!(!suspend.is_active() && !suspend.is_silent());
        assert_eq!(suspend.poll_timeout(), None);
    }

    // SDP-ERR-19.
    #[test]
    fn second_request_at_once_is_refused() {
        let mut suspend = suspend();
        assert_eq!(suspend.handle_request(at(5), 77), Ok(()));
        let second = Err(SdpViolation::Suspend);
        assert_eq!(suspend.handle_request(at(50), 77), second);
        suspend.on_answer_sent();
        suspend.on_answer_completed();
        suspend.resume();
        assert_eq!(suspend.handle_request(at(14), 77), second);
        assert_eq!(suspend.handle_request(at(15), 77), Ok(()));
    }
}
