// SPDX-License-Identifier: GPL-2.0

//! A question to the Port Mapper of a host, and the connections that wait for its outcome.
//!
//! ```text
//!                +--> Send(PMReq), again after each timer
//!   begin -------+--> Release: connections use TCP, the transaction goes on for the cache
//!                +--> Done(outcome)
//! ```
//!
//! While nothing is known of a host there is one transaction with it at a time, whatever service it
//! is about: most hosts do not answer, and that is the same for all services. A host that speaks SDP
//! is asked for several services at a time.

use super::{
    client::{
        PmClient,
        PmOutcome,
        PmStep,
        PmTimers, //
    },
    msg::{
        lifetime,
        PmAddr,
        PmMessage,
        LEN, //
    },
};
use crate::proto::base::time::{
    earliest,
    Instant, //
};

/// What a connection does after an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReachAnswer {
    /// It connects there by SDP.
    Sdp(PmAddr),
    /// It uses TCP.
    Tcp,
    /// The outcome is about another service, or may be used by one connection only.
    AskAgain,
}

impl PmOutcome {
    /// The answer for a connection to `service` that has waited for the outcome about `asked`.
    /// `is_first`: no other connection to `asked` has got an answer (SDP-PMT-13).
    pub(crate) fn answer(&self, asked: PmAddr, service: PmAddr, is_first: bool) -> ReachAnswer {
        let is_same = asked == service;
        match *self {
            Self::Found { at, time } if is_same && (is_first || lifetime(time).is_some()) => {
                ReachAnswer::Sdp(at)
            }
            Self::Denied if is_same => ReachAnswer::Tcp,
            Self::Found { .. } | Self::Denied => ReachAnswer::AskAgain,
            Self::Absent | Self::Silent | Self::Unsent => ReachAnswer::Tcp,
        }
    }
}

/// What the engine does next about an inquiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InquiryStep {
    /// Send this to the Port Mapper of the host.
    Send([u8; LEN]),
    /// The connections that wait use TCP. The transaction goes on.
    Release,
    /// The transaction is over. See [`PmOutcome::answer`] for the connections that wait still.
    Done(PmOutcome),
}

/// How long connections wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// For the outcome: the host is known to answer.
    Unlimited,
    /// Until then.
    Until(Instant),
    /// It is over, and the engine does not know.
    Over,
    /// None waits any longer.
    Released,
}

/// An inquiry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PmInquiry {
    service: PmAddr,
    timers: PmTimers,
    patience: Patience,
    /// From [`Self::begin`] on.
    transaction: Option<PmClient>,
    /// The transaction could not begin, which the engine does not know.
    is_unsent: bool,
}

impl PmInquiry {
    /// A question about `service` that a connection waits for from now on. `is_speaking`: the host is
    /// known to speak SDP.
    pub(crate) fn new(now: Instant, timers: PmTimers, service: PmAddr, is_speaking: bool) -> Self {
        Self {
            service,
            timers,
            patience: if is_speaking {
                Patience::Unlimited
            } else {
                Patience::Until(now.saturating_add(timers.patience))
            },
            transaction: None,
            is_unsent: false,
        }
    }

    /// The service that is asked for.
    pub(crate) const fn service(&self) -> PmAddr {
        self.service
    }

    /// Whether a connection to `service` waits for this inquiry instead of a new one.
    pub(crate) fn covers(&self, service: PmAddr) -> bool {
        let is_host_known = self.patience == Patience::Unlimited;
        self.service == service || (!is_host_known && self.service.ip == service.ip)
    }

    /// Whether connections wait for it. If not they use TCP.
    pub(crate) fn is_waited_for(&self) -> bool {
        matches!(self.patience, Patience::Unlimited | Patience::Until(_))
    }

    /// The first PMReq can be sent: `client` is the address that the connection comes from
    /// (SDP-PMC-14), and `handle` is unique in the host (SDP-PMC-03).
    pub(crate) fn begin(&mut self, now: Instant, client: PmAddr, handle: u64) {
        if self.transaction.is_none() {
            // What this host needs before its first datagram is no silence of the peer.
            if let Patience::Until(until) = &mut self.patience {
                *until = now.saturating_add(self.timers.patience);
            }
            let client = PmClient::new(now, self.timers, self.service, client, handle);
            self.transaction = Some(client);
        }
    }

    /// A datagram has come from the Port Mapper that was asked.
    pub(crate) fn handle_message(&mut self, message: &PmMessage) {
        if let Some(transaction) = &mut self.transaction {
            transaction.handle_message(message);
        }
    }

    /// ICMP says that there is no Port Mapper.
    pub(crate) fn handle_unreachable(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.handle_unreachable();
        }
    }

    /// This host cannot send.
    pub(crate) fn handle_unsent(&mut self) {
        match &mut self.transaction {
            Some(transaction) => transaction.handle_unsent(),
            None => self.is_unsent = true,
        }
    }

    /// A timer may have expired.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if matches!(self.patience, Patience::Until(until) if until <= now) {
            self.patience = Patience::Over;
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.handle_timeout(now);
        }
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let patience = match self.patience {
            Patience::Until(until) => Some(until),
            Patience::Unlimited | Patience::Over | Patience::Released => None,
        };
        let transaction = self.transaction.as_ref();
        earliest(patience, transaction.and_then(PmClient::poll_timeout))
    }

    /// What the engine does next. An outcome comes before a release, which it makes needless.
    pub(crate) fn poll_step(&mut self) -> Option<InquiryStep> {
        if core::mem::take(&mut self.is_unsent) {
            return Some(InquiryStep::Done(PmOutcome::Unsent));
        }
        match self.transaction.as_mut().and_then(PmClient::poll_step) {
            Some(PmStep::Send(octets)) => return Some(InquiryStep::Send(octets)),
            Some(PmStep::Done(outcome)) => {
                self.patience = Patience::Released;
                return Some(InquiryStep::Done(outcome));
            }
            None => {}
        }
        if self.patience == Patience::Over {
            self.patience = Patience::Released;
            return Some(InquiryStep::Release);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::sdp::pm::msg::PmKind;
    use std::net::Ipv4Addr;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn addr(last: u8, port: u16) -> PmAddr {
        PmAddr {
            ip: Ipv4Addr::new(10, 0, 0, last).into(),
            port,
        }
    }

    /// The service, and where it is.
    const ASKED: fn() -> PmAddr = || addr(2, 80);
    const FOUND: fn() -> PmAddr = || addr(3, 5000);

    fn found(time: u8) -> PmOutcome {
        PmOutcome::Found { at: FOUND(), time }
    }

    fn inquiry(is_speaking: bool) -> PmInquiry {
        let mut inquiry = PmInquiry::new(at(0), PmTimers::DEFAULT, ASKED(), is_speaking);
        assert_eq!(inquiry.poll_step(), None);
        inquiry.begin(at(0), addr(1, 4000), 7);
        assert!(matches!(inquiry.poll_step(), Some(InquiryStep::Send(_))));
        assert_eq!(inquiry.poll_step(), None);
        inquiry
    }

    fn accept() -> PmMessage {
        PmMessage {
            kind: PmKind::Accept,
            time: 120,
            service: FOUND(),
            client: addr(1, 4000),
            handle: 7,
        }
    }

    // SDP-PMC-09.
    #[test]
    fn connections_to_a_silent_host_are_released_before_the_transaction_ends() {
        let mut inquiry = inquiry(false);
        inquiry.handle_timeout(at(149));
        assert!(inquiry.is_waited_for());
        assert_eq!(inquiry.poll_timeout(), Some(at(150)));
        inquiry.handle_timeout(at(150));
        assert!(!inquiry.is_waited_for());
        assert!(matches!(inquiry.poll_step(), Some(InquiryStep::Send(_))));
        assert_eq!(inquiry.poll_step(), Some(InquiryStep::Release));
        assert_eq!(inquiry.poll_timeout(), Some(at(450)));
        inquiry.handle_timeout(at(450));
        inquiry.handle_timeout(at(1050));
        let silent = InquiryStep::Done(PmOutcome::Silent);
        assert_eq!(inquiry.poll_step(), Some(silent));
        assert_eq!((inquiry.poll_step(), inquiry.poll_timeout()), (None, None));
    }

    #[test]
    fn late_answer_still_ends_the_transaction() {
        let mut inquiry = inquiry(false);
        inquiry.handle_timeout(at(150));
        while inquiry.poll_step() != Some(InquiryStep::Release) {}
        inquiry.handle_message(&accept());
        assert!(matches!(inquiry.poll_step(), Some(InquiryStep::Send(_))));
        assert_eq!(inquiry.poll_step(), Some(InquiryStep::Done(found(120))));
    }

    #[test]
    fn connections_to_a_host_that_speaks_wait_for_the_outcome() {
        let mut inquiry = inquiry(true);
        inquiry.handle_timeout(at(450));
        assert!(inquiry.is_waited_for());
        assert!(matches!(inquiry.poll_step(), Some(InquiryStep::Send(_))));
        assert_eq!(inquiry.poll_step(), None);
        assert!(inquiry.covers(ASKED()));
        assert!(!inquiry.covers(addr(2, 81)));
    }

    #[test]
    fn unknown_host_has_one_inquiry_for_all_services() {
        let inquiry = inquiry(false);
        assert!(inquiry.covers(ASKED()));
        assert!(inquiry.covers(addr(2, 81)));
        assert!(!inquiry.covers(addr(4, 80)));
    }

    #[test]
    fn outcome_at_the_end_of_patience_makes_a_release_needless() {
        let mut inquiry = inquiry(false);
        inquiry.handle_unreachable();
        inquiry.handle_timeout(at(150));
        let absent = InquiryStep::Done(PmOutcome::Absent);
        assert_eq!(inquiry.poll_step(), Some(absent));
        assert_eq!(inquiry.poll_step(), None);
        assert!(!inquiry.is_waited_for());
    }

    #[test]
    fn inquiry_that_cannot_begin_is_over() {
        let mut inquiry = PmInquiry::new(at(0), PmTimers::DEFAULT, ASKED(), false);
        inquiry.handle_unsent();
        let unsent = InquiryStep::Done(PmOutcome::Unsent);
        assert_eq!(inquiry.poll_step(), Some(unsent));
        assert_eq!(inquiry.poll_step(), None);
    }

    #[test]
    fn patience_ends_also_before_the_first_request() {
        let mut inquiry = PmInquiry::new(at(0), PmTimers::DEFAULT, ASKED(), false);
        assert_eq!(inquiry.poll_timeout(), Some(at(150)));
        inquiry.handle_timeout(at(200));
        assert_eq!(inquiry.poll_step(), Some(InquiryStep::Release));
    }

    #[test]
    fn patience_is_for_the_peer_and_not_for_this_host() {
        let mut inquiry = PmInquiry::new(at(0), PmTimers::DEFAULT, ASKED(), false);
        inquiry.begin(at(100), addr(1, 4000), 7);
        assert!(matches!(inquiry.poll_step(), Some(InquiryStep::Send(_))));
        inquiry.handle_timeout(at(249));
        assert!(inquiry.is_waited_for());
        inquiry.handle_timeout(at(250));
        assert!(!inquiry.is_waited_for());
        // A late begin does not bring them back.
        let mut inquiry = PmInquiry::new(at(0), PmTimers::DEFAULT, ASKED(), false);
        inquiry.handle_timeout(at(150));
        inquiry.begin(at(160), addr(1, 4000), 7);
        assert!(!inquiry.is_waited_for());
    }

    // SDP-PMT-13, SDP-PMC-10.
    #[test]
    fn outcome_is_for_the_connections_that_it_fits() {
        use ReachAnswer::{
            AskAgain,
            Sdp,
            Tcp, //
        };
        let other = addr(2, 81);
        for (outcome, service, is_first, answer) in [
            (found(120), ASKED(), true, Sdp(FOUND())),
            (found(120), ASKED(), false, Sdp(FOUND())),
            (found(0), ASKED(), true, Sdp(FOUND())),
            (found(0), ASKED(), false, AskAgain),
            (found(120), other, true, AskAgain),
            (PmOutcome::Denied, ASKED(), false, Tcp),
            (PmOutcome::Denied, other, true, AskAgain),
            (PmOutcome::Absent, other, true, Tcp),
            (PmOutcome::Silent, other, true, Tcp),
            (PmOutcome::Unsent, ASKED(), true, Tcp),
        ] {
            assert_eq!(outcome.answer(ASKED(), service, is_first), answer);
        }
    }
}
