// SPDX-License-Identifier: GPL-2.0

//! The client's side of the CLC handshake, RFC 7609, sections 3.5.1 and 3.5.2 and appendix C.
//!
//! ```text
//!   Proposing --sent--> AwaitingAccept --Accept--> Preparing --prepared--> Confirming
//!                                                                 |            |
//!             (reused link) Done(Smc) <---------------------------+---- sent --+
//!                                                                              |
//!             (first contact)   Linking --LLC ready--> Done(Smc) <-------------+
//! ```
//!
//! From every state before the last a Decline leads to `Declining` and on to `Done`, where RFC 7609
//! allows one.

use super::{
    accept::Accept,
    confirm::Confirm,
    decline::Decline,
    endpoint::Endpoint,
    error::{
        Error,
        Reserved, //
    },
    handshake::{
        reserved_reason,
        Bytes,
        LlcOutcome,
        Outcome,
        Timers, //
    },
    message::Message,
    proposal::Proposal,
};
use crate::proto::{
    reason::{
        Local,
        Reason, //
    },
    time::Instant,
    wire::PeerId,
};

/// What the engine has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send these octets on the TCP connection, then call [`Client::handle_sent`].
    Send(Bytes),
    /// Find the link the server named, or make one on first contact, and reserve memory; then call
    /// [`Client::handle_prepared`].
    Prepare(Accept),
    /// Wait for the server's CONFIRM LINK on the new link; at the end of the exchange call
    /// [`Client::handle_llc`].
    StartLlc,
    /// The handshake is over. Everything reserved must be released unless this is
    /// [`Outcome::Smc`].
    Done(Outcome),
}

/// The client's end, ready for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// What the server is told of it.
    pub(crate) confirm: Endpoint,
    /// The link is a new one; must be what the Accept said (CLC-223 to CLC-225).
    pub(crate) first_contact: bool,
}

/// Where the handshake stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The Proposal is on its way to TCP.
    Proposing { deadline: Instant },
    /// The server has to answer the Proposal.
    AwaitingAccept { deadline: Instant },
    /// The engine prepares this end. The server waits for us and may not send (CLC-410).
    Preparing {
        first_contact: bool,
        deadline: Instant,
    },
    /// The Confirm is on its way to TCP.
    Confirming {
        first_contact: bool,
        deadline: Instant,
    },
    /// First contact: the link is being confirmed. A Decline of the server may still come (CLC-413).
    Linking { deadline: Instant },
    /// Our Decline is on its way to TCP.
    Declining { reason: Reason, deadline: Instant },
    /// The outcome is known.
    Done,
}

/// The client's side of the handshake.
///
/// Inputs are the `handle_` methods; after each of them, actions are to be taken from
/// [`Self::poll_action`] until there is none, and the timer is to be set by [`Self::poll_timeout`].
/// The end of a `Send` is to be reported before messages that arrived later.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    timers: Timers,
    peer_id: PeerId,
    state: State,
    action: Option<Action>,
}

impl Client {
    /// Starts with a Proposal (CLC-122).
    pub(crate) fn new(now: Instant, timers: Timers, proposal: Proposal) -> Self {
        let mut client = Self {
            timers,
            peer_id: proposal.peer,
            state: State::Proposing {
                deadline: now.saturating_add(timers.clc),
            },
            action: None,
        };
        client.send(&Message::Proposal(proposal));
        client
    }

    /// Starts with a Decline in place of the Proposal (FBK-04), for the stack `peer_id`.
    pub(crate) fn declining(now: Instant, timers: Timers, peer_id: PeerId, reason: Reason) -> Self {
        let mut client = Self {
            timers,
            peer_id,
            state: State::Done,
            action: None,
        };
        client.decline(now, reason);
        client
    }

    /// A message of the server has arrived.
    pub(crate) fn handle_message(&mut self, now: Instant, message: &Message) {
        match (self.state, message) {
            (State::Done, _) => {}
            (State::AwaitingAccept { .. }, Message::Accept(accept)) => {
                self.handle_accept(now, accept);
            }
            // The answer may overtake the report that TCP took the Proposal.
            (State::Proposing { .. }, Message::Accept(accept)) if self.action.is_none() => {
                self.handle_accept(now, accept);
            }
            (
                State::Proposing { .. }
                | State::AwaitingAccept { .. }
                | State::Confirming {
                    first_contact: true,
                    ..
                }
                | State::Linking { .. },
                Message::Decline(decline),
            ) => self.finish(Outcome::declined_by_peer(decline)),
            // Both declined; ours is not needed anymore. When TCP has taken it already the server
            // reads it as application data, and only resetting prevents that it uses it.
            (State::Declining { .. }, Message::Decline(decline)) if self.action.is_some() => {
                self.finish(Outcome::declined_by_peer(decline));
            }
            // Unexpected (CLC-06), or a chase (CLC-410).
            _ => self.abort(Local::ClcProtocol),
        }
    }

    /// The octets that arrived are no message this side understands.
    pub(crate) fn handle_error(&mut self, now: Instant, error: Error) {
        match (self.state, error) {
            (State::Done, _) => {}
            (
                State::AwaitingAccept { .. },
                Error::Reserved(value @ (Reserved::Version(_) | Reserved::BufSize(_))),
            ) => self.decline(now, reserved_reason(value)),
            _ => self.abort(Local::ClcProtocol),
        }
    }

    /// The TCP connection ended or failed.
    pub(crate) fn handle_eof(&mut self, _now: Instant) {
        if self.state != State::Done {
            self.abort(Local::TcpClosed);
        }
    }

    /// Answers [`Action::Prepare`]. A reason to decline is, above all, [`Reason::OutOfSync`] when
    /// the server reuses a link this side does not have (CLC-225).
    pub(crate) fn handle_prepared(&mut self, now: Instant, result: Result<Prepared, Reason>) {
        let State::Preparing { first_contact, .. } = self.state else {
            // Too late: the outcome was known before.
            return;
        };
        match result {
            Err(reason) => self.decline(now, reason),
            Ok(prepared) if prepared.first_contact == first_contact => {
                self.state = State::Confirming {
                    first_contact,
                    deadline: now.saturating_add(self.timers.clc),
                };
                self.send(&Message::Confirm(Confirm {
                    peer: self.peer_id,
                    endpoint: prepared.confirm,
                }));
            }
            // A new link where the server reuses one.
            Ok(_) if !first_contact => self.decline(now, Reason::OutOfSync),
            // An old link where the server makes one.
            Ok(_) => self.decline(now, Reason::Internal),
        }
    }

    /// TCP has taken the octets of [`Action::Send`].
    pub(crate) fn handle_sent(&mut self, now: Instant) {
        match self.state {
            State::Proposing { .. } => {
                self.state = State::AwaitingAccept {
                    deadline: now.saturating_add(self.timers.clc),
                };
            }
            State::Confirming {
                first_contact: true,
                ..
            } => {
                self.state = State::Linking {
                    deadline: now.saturating_add(self.timers.llc),
                };
                self.action = Some(Action::StartLlc);
            }
            // The point of no return of subsequent contact (FBK-13).
            State::Confirming {
                first_contact: false,
                ..
            } => self.finish(Outcome::Smc),
            State::Declining { reason, .. } => self.finish(Outcome::declined(reason)),
            State::AwaitingAccept { .. }
            | State::Preparing { .. }
            | State::Linking { .. }
            | State::Done => {}
        }
    }

    /// The LLC exchange of a first contact is over.
    pub(crate) fn handle_llc(&mut self, now: Instant, outcome: LlcOutcome) {
        match self.state {
            // It may be over before TCP reports that it took the Confirm.
            State::Linking { .. }
            | State::Confirming {
                first_contact: true,
                ..
            } => match outcome {
                LlcOutcome::Ready => self.finish(Outcome::Smc),
                LlcOutcome::Decline(reason) => self.decline(now, reason),
                LlcOutcome::Abort(reason) => self.finish(Outcome::Abort(reason)),
            },
            _ => {}
        }
    }

    /// The time of [`Self::poll_timeout`] has come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.state {
            // The server is not to blame and still waits for an answer.
            State::Preparing { .. } => self.decline(now, Reason::Local(Local::ClcTimeout)),
            State::Linking { .. } => self.finish(Outcome::Abort(Reason::TimeoutConfirmLink)),
            // No fallback: TCP would not work either (CLC-11).
            _ => self.abort(Local::ClcTimeout),
        }
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Proposing { deadline }
            | State::AwaitingAccept { deadline }
            | State::Preparing { deadline, .. }
            | State::Confirming { deadline, .. }
            | State::Linking { deadline }
            | State::Declining { deadline, .. } => Some(deadline),
            State::Done => None,
        }
    }

    /// What to do next.
    #[must_use]
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    /// Whether the server may send a CLC message. TCP is to be read only then, as everything else
    /// belongs to the application.
    pub(crate) fn expects_message(&self) -> bool {
        matches!(
            self.state,
            State::Proposing { .. }
                | State::AwaitingAccept { .. }
                | State::Confirming {
                    first_contact: true,
                    ..
                }
                | State::Linking { .. }
        )
    }

    /// The name of the state, for logs.
    pub(crate) const fn state_name(&self) -> &'static str {
        match self.state {
            State::Proposing { .. } => "proposing",
            State::AwaitingAccept { .. } => "awaiting accept",
            State::Preparing { .. } => "preparing",
            State::Confirming { .. } => "confirming",
            State::Linking { .. } => "linking",
            State::Declining { .. } => "declining",
            State::Done => "done",
        }
    }

    /// The server agreed.
    fn handle_accept(&mut self, now: Instant, accept: &Accept) {
        // A reserved MTU matters only where a queue pair is made from it (CLC-08, CLC-221).
        if accept.first_contact && accept.endpoint.mtu.is_none() {
            return self.decline(now, Reason::Configuration);
        }
        self.state = State::Preparing {
            first_contact: accept.first_contact,
            deadline: now.saturating_add(self.timers.prepare),
        };
        self.action = Some(Action::Prepare(*accept));
    }

    /// Sends a Decline in place of the next message.
    fn decline(&mut self, now: Instant, reason: Reason) {
        self.state = State::Declining {
            reason,
            deadline: now.saturating_add(self.timers.clc),
        };
        self.send(&Message::Decline(Decline::new(self.peer_id, reason)));
    }

    /// Hands out a message.
    fn send(&mut self, message: &Message) {
        match Bytes::of(message) {
            Some(bytes) => self.action = Some(Action::Send(bytes)),
            None => self.finish(Outcome::Abort(Reason::Internal)),
        }
    }

    /// Ends with a reset for a local reason.
    fn abort(&mut self, reason: Local) {
        self.finish(Outcome::Abort(Reason::Local(reason)));
    }

    /// Ends. Whatever was not yet handed out is void.
    fn finish(&mut self, outcome: Outcome) {
        self.state = State::Done;
        self.action = Some(Action::Done(outcome));
    }
}
