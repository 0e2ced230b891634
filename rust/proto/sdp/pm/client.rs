// SPDX-License-Identifier: GPL-2.0

//! One transaction of a Port Mapper client, draft 7.5.1 (SDP-PMC-*, SDP-PMCS-*).
//!
//! ```text
//!   Waiting --PMAccept--> Done(Found), PMAck sent
//!      |    --PMDeny----> Done(Denied)
//!      |    --ICMP------> Done(Absent)
//!      |    --no route--> Done(Unsent)
//!      +---- timer: the same PMReq again, twice as late; after the last: Done(Silent)
//! ```

use super::msg::{
    PmAddr,
    PmKind,
    PmMessage,
    LEN, //
};
use crate::proto::base::{
    retry::Backoff,
    time::{
        Duration,
        Instant, //
    },
};

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PmTimers {
    /// Time from one PMReq to the next.
    pub(crate) backoff: Backoff,
    /// PMReq in all.
    pub(crate) sends: u32,
    /// How long a connection waits for a host of which nothing is known.
    pub(crate) patience: Duration,
}

impl PmTimers {
    /// The timers in use unless the engine changes them. The draft has none (SDP-PMC-15).
    pub(crate) const DEFAULT: Self = Self {
        backoff: Backoff {
            first: Duration::from_millis(150),
            most: Duration::from_secs(1),
        },
        sends: 3,
        patience: Duration::from_millis(150),
    };
}

/// What the client has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PmOutcome {
    /// The service is there by SDP.
    Found {
        /// Where to connect to.
        at: PmAddr,
        /// Coded lifetime of that, see [`lifetime`](super::msg::lifetime).
        time: u8,
    },
    /// It is not (SDP-PMC-05, SDP-PMCS-6).
    Denied,
    /// The host has no Port Mapper.
    Absent,
    /// No answer came (SDP-PMC-09, SDP-PMCS-4).
    Silent,
    /// PMReq could not be sent, which says nothing about the host.
    Unsent,
}

/// What the engine is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PmStep {
    /// Send this to port 3935 of the service's host (SDP-PMF-20), or as an answer to where
    /// PMAccept came from (SDP-PMF-22).
    Send([u8; LEN]),
    /// The transaction is over.
    Done(PmOutcome),
}

/// A transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PmClient {
    request: PmMessage,
    timers: PmTimers,
    /// PMReq that were sent or are due.
    sends: u32,
    deadline: Instant,
    /// PMReq or PMAck is due.
    due: Option<PmMessage>,
    outcome: Option<PmOutcome>,
    /// The outcome has been given to the engine.
    is_told: bool,
}

impl PmClient {
    /// Asks for `service` on behalf of `client`, whose port is bound (SDP-PMC-14, SDP-PMCS-2).
    /// `handle` has to be unique in the host (SDP-PMC-03, SDP-PMC-07, AMB-44).
    pub(crate) fn new(
        now: Instant,
        timers: PmTimers,
        service: PmAddr,
        client: PmAddr,
        handle: u64,
    ) -> Self {
        let request = PmMessage {
            kind: PmKind::Req,
            time: 0,
            service,
            client,
            handle,
        };
        Self {
            request,
            timers,
            sends: 1,
            deadline: now.saturating_add(timers.backoff.delay(0)),
            due: Some(request),
            outcome: None,
            is_told: false,
        }
    }

    /// A datagram has come. Only the first answer counts (SDP-PMC-11 to SDP-PMC-13). An answer
    /// with another IP version than asked for is none.
    pub(crate) fn handle_message(&mut self, message: &PmMessage) {
        let fits = message.is_answer_to(&self.request)
            && message.service.ip.is_ipv4() == self.request.service.ip.is_ipv4();
        if self.outcome.is_some() || !fits {
            return;
        }
        match message.kind {
            PmKind::Accept if message.service.port != 0 => {
                // PMAck repeats PMAccept (SDP-PMF-18, SDP-PMX-03).
                self.due = Some(PmMessage {
                    kind: PmKind::Ack,
                    ..*message
                });
                self.outcome = Some(PmOutcome::Found {
                    at: message.service,
                    time: message.time,
                });
            }
            // No PMAck (SDP-PMX-05, SDP-PMX-06, AMB-42).
            PmKind::Deny => self.finish(PmOutcome::Denied),
            PmKind::Accept | PmKind::Req | PmKind::Ack => {}
        }
    }

    fn finish(&mut self, outcome: PmOutcome) {
        self.due = None;
        self.outcome = Some(outcome);
    }

    /// ICMP says that there is no Port Mapper.
    pub(crate) fn handle_unreachable(&mut self) {
        if self.outcome.is_none() {
            self.finish(PmOutcome::Absent);
        }
    }

    /// This host could not send what [`Self::poll_step`] gave, and a later try would fail as well. A
    /// lost PMAck is made up for by the connection (SDP-PMS-03).
    pub(crate) fn handle_unsent(&mut self) {
        if self.outcome.is_none() {
            self.finish(PmOutcome::Unsent);
        }
    }

    /// A timer may have expired (SDP-PMC-04 to SDP-PMC-06).
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|deadline| now < deadline) {
            return;
        }
        if self.sends >= self.timers.sends {
            self.finish(PmOutcome::Silent);
            return;
        }
        self.deadline = now.saturating_add(self.timers.backoff.delay(self.sends));
        self.sends = self.sends.saturating_add(1);
        self.due = Some(self.request);
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.outcome.is_none().then_some(self.deadline)
    }

    /// What the engine is to do next.
    pub(crate) fn poll_step(&mut self) -> Option<PmStep> {
        if let Some(message) = self.due.take() {
            return Some(PmStep::Send(message.emit()));
        }
        let outcome = self.outcome.filter(|_| !self.is_told)?;
        self.is_told = true;
        Some(PmStep::Done(outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn client() -> PmClient {
        let mut client = PmClient::new(at(0), PmTimers::DEFAULT, addr(2, 80), addr(1, 4000), 7);
        assert_eq!(
            client.poll_step(),
            Some(PmStep::Send(client.request.emit()))
        );
        assert_eq!(client.poll_step(), None);
        client
    }

    fn answer(kind: PmKind) -> PmMessage {
        PmMessage {
            kind,
            time: 120,
            service: addr(3, 5000),
            client: addr(1, 4000),
            handle: 7,
        }
    }

    fn found() -> PmStep {
        PmStep::Done(PmOutcome::Found {
            at: addr(3, 5000),
            time: 120,
        })
    }

    // SDP-PMX-01, SDP-PMX-03, SDP-PMF-18, SDP-PMC-11, SDP-PMC-13, SDP-PMCS-5, TST-286.
    #[test]
    fn accepted_request_is_acknowledged_once() {
        let mut client = client();
        client.handle_message(&answer(PmKind::Accept));
        let ack = PmMessage {
            time: 0,
            ..answer(PmKind::Ack)
        };
        assert_eq!(client.poll_step(), Some(PmStep::Send(ack.emit())));
        assert_eq!(client.poll_step(), Some(found()));
        for kind in [PmKind::Accept, PmKind::Deny] {
            client.handle_message(&answer(kind));
            client.handle_unreachable();
            client.handle_timeout(at(10_000));
            assert_eq!((client.poll_step(), client.poll_timeout()), (None, None));
        }
    }

    // SDP-PMX-05, SDP-PMX-06, SDP-PMCS-6, TST-281.
    #[test]
    fn denied_request_is_over_without_acknowledgement() {
        let mut client = client();
        client.handle_message(&answer(PmKind::Deny));
        assert_eq!(client.poll_step(), Some(PmStep::Done(PmOutcome::Denied)));
        client.handle_message(&answer(PmKind::Accept));
        assert_eq!(client.poll_step(), None);
    }

    #[test]
    fn unreachable_port_means_that_there_is_no_port_mapper() {
        let mut client = client();
        client.handle_unreachable();
        assert_eq!(client.poll_step(), Some(PmStep::Done(PmOutcome::Absent)));
    }

    #[test]
    fn request_that_cannot_be_sent_ends_the_transaction() {
        let mut client = client();
        client.handle_unsent();
        assert_eq!(client.poll_step(), Some(PmStep::Done(PmOutcome::Unsent)));
        assert_eq!(client.poll_timeout(), None);
    }

    #[test]
    fn acknowledgement_that_cannot_be_sent_leaves_the_outcome() {
        let mut client = client();
        client.handle_message(&answer(PmKind::Accept));
        assert!(matches!(client.poll_step(), Some(PmStep::Send(_))));
        client.handle_unsent();
        client.handle_unreachable();
        assert_eq!(client.poll_step(), Some(found()));
    }

    // SDP-PMC-02, SDP-PMC-12, SDP-PMCS-7.
    #[test]
    fn answer_of_another_transaction_is_dropped() {
        let wrong = [
            PmMessage {
                handle: 8,
                ..answer(PmKind::Accept)
            },
            PmMessage {
                client: addr(1, 4001),
                ..answer(PmKind::Accept)
            },
            PmMessage {
                client: addr(9, 4000),
                ..answer(PmKind::Deny)
            },
            PmMessage {
                service: addr(3, 0),
                ..answer(PmKind::Accept)
            },
            answer(PmKind::Req),
            answer(PmKind::Ack),
        ];
        let mut client = client();
        for message in wrong {
            client.handle_message(&message);
            assert_eq!(client.poll_step(), None);
        }
        client.handle_message(&answer(PmKind::Accept));
        assert!(client.poll_step().is_some());
    }

    // SDP-PMC-01, SDP-PMC-04 to SDP-PMC-06, SDP-PMC-09, SDP-PMCS-3, SDP-PMCS-4, TST-282.
    #[test]
    fn request_without_an_answer_is_repeated_and_given_up() {
        let mut client = client();
        for (deadline, sends) in [(150, true), (450, true), (1050, false)] {
            assert_eq!(client.poll_timeout(), Some(at(deadline)));
            client.handle_timeout(at(deadline - 1));
            assert_eq!(client.poll_step(), None);
            client.handle_timeout(at(deadline));
            let want = if sends {
                PmStep::Send(client.request.emit())
            } else {
                PmStep::Done(PmOutcome::Silent)
            };
            assert_eq!(client.poll_step(), Some(want));
        }
        assert_eq!((client.poll_step(), client.poll_timeout()), (None, None));
    }
}
