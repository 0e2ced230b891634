// SPDX-License-Identifier: GPL-2.0

//! The server's side of the CLC handshake, RFC 7609, sections 3.5.1 and 3.5.2 and appendix C.
//!
//! ```text
//!   AwaitingProposal --Proposal--> Preparing --prepared--> Accepting --sent--> AwaitingConfirm
//!                                                                                  |
//!             (reused link) Done(Smc) <-------------------+                     Confirm
//!                                                         |                        |
//!             (first contact)   Linking <-- connected --- Connecting <-------------+
//!                                  |
//!                                  +--LLC ready--> Done(Smc)
//! ```
//!
//! A Decline leads to `Declining` and on to `Done`, where RFC 7609 allows one: in place of the
//! Accept, and on first contact until the link is confirmed.

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
    /// Send these octets on the TCP connection, then call [`Server::handle_sent`].
    Send(Bytes),
    /// Find a link to the client's stack, or make one, and reserve memory that is ready to be
    /// written (CLC-222); then call [`Server::handle_prepared`].
    Prepare(Proposal),
    /// First contact: connect the queue pair to the client's. Otherwise: check that the client
    /// named an active link of the group (CLC-320). Then call [`Server::handle_connected`].
    Connect(Confirm),
    /// Send CONFIRM LINK on the new link; at the end of the exchange call [`Server::handle_llc`].
    StartLlc,
    /// The handshake is over. Everything reserved must be released unless this is
    /// [`Outcome::Smc`].
    Done(Outcome),
}

/// The server's end, ready for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// What the client is told of it.
    pub(crate) accept: Endpoint,
    /// The link is a new one (CLC-202).
    pub(crate) first_contact: bool,
}

/// Where the handshake stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The client has to begin.
    AwaitingProposal { deadline: Instant },
    /// The engine prepares this end. The client waits for us and may not send (CLC-411).
    Preparing { deadline: Instant },
    /// The Accept is on its way to TCP.
    Accepting {
        first_contact: bool,
        deadline: Instant,
    },
    /// The client has to answer the Accept.
    AwaitingConfirm {
        first_contact: bool,
        deadline: Instant,
    },
    /// The engine connects the link, or checks it.
    Connecting {
        first_contact: bool,
        deadline: Instant,
    },
    /// First contact: the link is being confirmed. A Decline of the client may still come (CLC-413).
    Linking { deadline: Instant },
    /// Our Decline is on its way to TCP.
    Declining { reason: Reason, deadline: Instant },
    /// The outcome is known.
    Done,
}

/// The server's side of the handshake.
///
/// Inputs are the `handle_` methods; after each of them, actions are to be taken from
/// [`Self::poll_action`] until there is none, and the timer is to be set by [`Self::poll_timeout`].
/// The end of a `Send` is to be reported before messages that arrived later.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    timers: Timers,
    peer_id: PeerId,
    state: State,
    action: Option<Action>,
}

impl Server {
    /// Waits for the client to begin; `peer_id` names this side's stack.
    pub(crate) fn new(now: Instant, timers: Timers, peer_id: PeerId) -> Self {
        Self {
            timers,
            peer_id,
            state: State::AwaitingProposal {
                deadline: now.saturating_add(timers.clc),
            },
            action: None,
        }
    }

    /// A message of the client has arrived.
    pub(crate) fn handle_message(&mut self, now: Instant, message: &Message) {
        match (self.state, message) {
            (State::Done, _) => {}
            (State::AwaitingProposal { .. }, Message::Proposal(proposal)) => {
                self.state = State::Preparing {
                    deadline: now.saturating_add(self.timers.prepare),
                };
                self.action = Some(Action::Prepare(*proposal));
            }
            (State::AwaitingConfirm { first_contact, .. }, Message::Confirm(confirm)) => {
                self.handle_confirm(now, first_contact, confirm);
            }
            // The answer may overtake the report that TCP took the Accept.
            (State::Accepting { first_contact, .. }, Message::Confirm(confirm))
                if self.action.is_none() =>
            {
                self.handle_confirm(now, first_contact, confirm);
            }
            (
                State::AwaitingProposal { .. }
                | State::AwaitingConfirm { .. }
                | State::Connecting {
                    first_contact: true,
                    ..
                }
                | State::Linking { .. },
                Message::Decline(decline),
            ) => self.finish(Outcome::declined_by_peer(decline)),
            (State::Accepting { .. }, Message::Decline(decline)) if self.action.is_none() => {
                self.finish(Outcome::declined_by_peer(decline));
            }
            // Both declined; ours is not needed anymore. When TCP has taken it already the client
            // reads it as application data, and only resetting prevents that it uses it.
            (State::Declining { .. }, Message::Decline(decline)) if self.action.is_some() => {
                self.finish(Outcome::declined_by_peer(decline));
            }
            // Unexpected (CLC-06), or a chase (CLC-410, CLC-412).
            _ => self.abort(Local::ClcProtocol),
        }
    }

    /// The octets that arrived are no message this side understands.
    pub(crate) fn handle_error(&mut self, now: Instant, error: Error) {
        match (self.state, error) {
            (State::Done, _) => {}
            (State::AwaitingProposal { .. }, Error::Reserved(value @ Reserved::Transport(_))) => {
                self.decline(now, reserved_reason(value));
            }
            (
                State::AwaitingConfirm { first_contact, .. },
                Error::Reserved(value @ (Reserved::Version(_) | Reserved::BufSize(_))),
            ) => self.refuse(now, first_contact, reserved_reason(value)),
            _ => self.abort(Local::ClcProtocol),
        }
    }

    /// The TCP connection ended or failed.
    pub(crate) fn handle_eof(&mut self, _now: Instant) {
        if self.state != State::Done {
            self.abort(Local::TcpClosed);
        }
    }

    /// Answers [`Action::Prepare`].
    pub(crate) fn handle_prepared(&mut self, now: Instant, result: Result<Prepared, Reason>) {
        let State::Preparing { .. } = self.state else {
            // Too late: the outcome was known before.
            return;
        };
        match result {
            Err(reason) => self.decline(now, reason),
            Ok(prepared) => {
                self.state = State::Accepting {
                    first_contact: prepared.first_contact,
                    deadline: now.saturating_add(self.timers.clc),
                };
                self.send(&Message::Accept(Accept {
                    peer: self.peer_id,
                    first_contact: prepared.first_contact,
                    endpoint: prepared.accept,
                }));
            }
        }
    }

    /// Answers [`Action::Connect`].
    pub(crate) fn handle_connected(&mut self, now: Instant, result: Result<(), Reason>) {
        let State::Connecting { first_contact, .. } = self.state else {
            return;
        };
        match result {
            Err(reason) => self.refuse(now, first_contact, reason),
            Ok(()) if first_contact => {
                self.state = State::Linking {
                    deadline: now.saturating_add(self.timers.llc),
                };
                self.action = Some(Action::StartLlc);
            }
            Ok(()) => self.finish(Outcome::Smc),
        }
    }

    /// TCP has taken the octets of [`Action::Send`].
    pub(crate) fn handle_sent(&mut self, now: Instant) {
        match self.state {
            State::Accepting { first_contact, .. } => {
                self.state = State::AwaitingConfirm {
                    first_contact,
                    deadline: now.saturating_add(self.timers.clc),
                };
            }
            State::Declining { reason, .. } => self.finish(Outcome::declined(reason)),
            State::AwaitingProposal { .. }
            | State::Preparing { .. }
            | State::AwaitingConfirm { .. }
            | State::Connecting { .. }
            | State::Linking { .. }
            | State::Done => {}
        }
    }

    /// The LLC exchange of a first contact is over.
    pub(crate) fn handle_llc(&mut self, now: Instant, outcome: LlcOutcome) {
        let State::Linking { .. } = self.state else {
            return;
        };
        match outcome {
            LlcOutcome::Ready => self.finish(Outcome::Smc),
            LlcOutcome::Decline(reason) => self.decline(now, reason),
            LlcOutcome::Abort(reason) => self.finish(Outcome::Abort(reason)),
        }
    }

    /// The time of [`Self::poll_timeout`] has come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|deadline| now < deadline) {
            return;
        }
        let slow = Reason::Local(Local::ClcTimeout);
        match self.state {
            // The client is not to blame and still waits for an answer.
            State::Preparing { .. } => self.decline(now, slow),
            State::Connecting { first_contact, .. } => self.refuse(now, first_contact, slow),
            State::Linking { .. } => self.finish(Outcome::Abort(Reason::TimeoutConfirmLink)),
            // No fallback: TCP would not work either (CLC-11).
            _ => self.abort(Local::ClcTimeout),
        }
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::AwaitingProposal { deadline }
            | State::Preparing { deadline }
            | State::Accepting { deadline, .. }
            | State::AwaitingConfirm { deadline, .. }
            | State::Connecting { deadline, .. }
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

    /// Whether the client may send a CLC message. TCP is to be read only then, as everything else
    /// belongs to the application.
    pub(crate) fn expects_message(&self) -> bool {
        matches!(
            self.state,
            State::AwaitingProposal { .. }
                | State::Accepting { .. }
                | State::AwaitingConfirm { .. }
                | State::Connecting {
                    first_contact: true,
                    ..
                }
                | State::Linking { .. }
        )
    }

    /// The name of the state, for logs.
    pub(crate) const fn state_name(&self) -> &'static str {
        match self.state {
            State::AwaitingProposal { .. } => "awaiting proposal",
            State::Preparing { .. } => "preparing",
            State::Accepting { .. } => "accepting",
            State::AwaitingConfirm { .. } => "awaiting confirm",
            State::Connecting { .. } => "connecting",
            State::Linking { .. } => "linking",
            State::Declining { .. } => "declining",
            State::Done => "done",
        }
    }

    /// The client agreed.
    fn handle_confirm(&mut self, now: Instant, first_contact: bool, confirm: &Confirm) {
        // A reserved MTU matters only where a queue pair is made from it (CLC-08, CLC-221).
        if first_contact && confirm.endpoint.mtu.is_none() {
            return self.decline(now, Reason::Configuration);
        }
        self.state = State::Connecting {
            first_contact,
            deadline: now.saturating_add(self.timers.prepare),
        };
        self.action = Some(Action::Connect(*confirm));
    }

    /// Refuses a Confirm: by Decline on first contact (FBK-07), by reset otherwise, as a Decline
    /// would chase the Accept (CLC-412).
    fn refuse(&mut self, now: Instant, first_contact: bool, reason: Reason) {
        if first_contact {
            self.decline(now, reason);
        } else {
            self.finish(Outcome::Abort(reason));
        }
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
