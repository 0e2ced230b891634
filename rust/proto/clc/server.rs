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
            (
                State::Accepting { first_contact, .. },
                Error::Reserved(value @ (Reserved::Version(_) | Reserved::BufSize(_))),
            ) if self.action.is_none() => self.refuse(now, first_contact, reserved_reason(value)),
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
        if self.action.is_some() {
            // What is waiting has not been sent; this is about something older.
            return;
        }
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

    /// The name of the state, for what tests say.
    #[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
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

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_server))]
mod tests {
    use super::*;
    use crate::proto::{
        clc::{
            handshake::examples::{
                accept,
                confirm,
                decline,
                endpoint,
                proposal,
                CLIENT,
                SERVER, //
            },
            ProtocolError,
        },
        time::Duration,
    };

    const START: Instant = Instant::from_nanos(1_000_000_000);
    const TIMERS: Timers = Timers::DEFAULT;

    /// Every state of interest, and whether an action of it was not yet taken.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum At {
        AwaitingProposal,
        Preparing,
        /// Accept not yet taken by the engine.
        AcceptQueued,
        AcceptingNew,
        AcceptingOld,
        AwaitingConfirmNew,
        AwaitingConfirmOld,
        ConnectingNew,
        ConnectingOld,
        Linking,
        /// Decline not yet taken by the engine.
        DeclineQueued,
        Declining,
        Done,
    }

    /// Everything that can happen.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Proposal,
        Accept,
        Confirm,
        ConfirmBadMtu,
        Decline,
        NoMessage,
        BadBufSize,
        BadTransport,
        Eof,
        PreparedNew,
        PreparedOld,
        NotPrepared,
        Connected,
        NotConnected,
        Ready,
        LlcDecline,
        LlcAbort,
        Sent,
        Timeout,
        Early,
    }

    /// What comes of it: the next state, and the action.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Want {
        /// State and action stay as they were.
        Same,
        /// Only the state changes.
        Go(At),
        /// The client's Proposal is acted upon.
        Prepare,
        /// An Accept is sent.
        Accept(At),
        /// The client's Confirm is acted upon.
        Connect(At),
        /// A Decline with this reason is sent.
        Decline(Reason),
        /// The link is to be confirmed.
        Link,
        /// The handshake ends.
        End(Outcome),
    }

    use At::*;
    use Want::{
        Link,
        Same, //
    };

    const SMC: Want = Want::End(Outcome::Smc);
    const PROTO: Want = abort(Reason::Local(Local::ClcProtocol));
    const CLOSED: Want = abort(Reason::Local(Local::TcpClosed));
    const LATE: Want = abort(Reason::Local(Local::ClcTimeout));
    const NO_LNK: Want = abort(Reason::TimeoutConfirmLink);
    const LLC: Want = abort(Reason::TimeoutAddLink);
    const VERS_A: Want = abort(Reason::Configuration);
    const BROKEN: Want = abort(Reason::ReadyLink);
    /// The peer declined with the reason of `decline()`.
    const PEER: Want = Want::End(Outcome::Fallback {
        reason: Reason::Memory,
        by_peer: true,
        out_of_sync: false,
    });
    /// This side declined with the reason of `Event::NotPrepared`.
    const OURS: Want = Want::End(Outcome::Fallback {
        reason: Reason::Memory,
        by_peer: false,
        out_of_sync: false,
    });
    const DECL: Want = Want::Decline(Reason::Memory);
    const BAD: Want = Want::Decline(Reason::Configuration);
    const VERS: Want = Want::Decline(Reason::VersionMismatch);
    const READY: Want = Want::Decline(Reason::ReadyLink);
    const SLOW: Want = Want::Decline(Reason::Local(Local::ClcTimeout));
    const ACC_N: Want = Want::Accept(AcceptingNew);
    const ACC_O: Want = Want::Accept(AcceptingOld);
    const CON_N: Want = Want::Connect(ConnectingNew);
    const CON_O: Want = Want::Connect(ConnectingOld);
    const PREP: Want = Want::Prepare;
    const GO_N: Want = Want::Go(AwaitingConfirmNew);
    const GO_O: Want = Want::Go(AwaitingConfirmOld);

    const fn abort(reason: Reason) -> Want {
        Want::End(Outcome::Abort(reason))
    }

    /// The states of the columns of `TABLE`.
    const COLUMNS: [At; 13] = [
        AwaitingProposal,
        Preparing,
        AcceptQueued,
        AcceptingNew,
        AcceptingOld,
        AwaitingConfirmNew,
        AwaitingConfirmOld,
        ConnectingNew,
        ConnectingOld,
        Linking,
        DeclineQueued,
        Declining,
        Done,
    ];

    /// Every transition there is.
    #[rustfmt::skip]
    static TABLE: [(Event, [Want; 13]); 20] = [
        // Event               AwaitProp Prep    AccQueue AccNew  AccOld  AwCoNew AwCoOld ConnNew ConnOld Linking DeclQue Declining Done
        (Event::Proposal,      [PREP,   PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::Accept,        [PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::Confirm,       [PROTO,  PROTO,  PROTO,  CON_N,  CON_O,  CON_N,  CON_O,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::ConfirmBadMtu, [PROTO,  PROTO,  PROTO,  BAD,    CON_O,  BAD,    CON_O,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::Decline,       [PEER,   PROTO,  PROTO,  PEER,   PEER,   PEER,   PEER,   PEER,   PROTO,  PEER,   PEER,   PROTO,  Same]),
        (Event::NoMessage,     [PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::BadBufSize,    [PROTO,  PROTO,  PROTO,  BAD,    VERS_A, BAD,    VERS_A, PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::BadTransport,  [VERS,   PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::Eof,           [CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, Same]),
        (Event::PreparedNew,   [Same,   ACC_N,  Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same]),
        (Event::PreparedOld,   [Same,   ACC_O,  Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same]),
        (Event::NotPrepared,   [Same,   DECL,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same]),
        (Event::Connected,     [Same,   Same,   Same,   Same,   Same,   Same,   Same,   Link,   SMC,    Same,   Same,   Same,   Same]),
        (Event::NotConnected,  [Same,   Same,   Same,   Same,   Same,   Same,   Same,   READY,  BROKEN, Same,   Same,   Same,   Same]),
        (Event::Ready,         [Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   SMC,    Same,   Same,   Same]),
        (Event::LlcDecline,    [Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   DECL,   Same,   Same,   Same]),
        (Event::LlcAbort,      [Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   LLC,    Same,   Same,   Same]),
        (Event::Sent,          [Same,   Same,   Same,   GO_N,   GO_O,   Same,   Same,   Same,   Same,   Same,   Same,   OURS,   Same]),
        (Event::Timeout,       [LATE,   SLOW,   LATE,   LATE,   LATE,   LATE,   LATE,   SLOW,   LATE,   NO_LNK, LATE,   LATE,   Same]),
        (Event::Early,         [Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same,   Same]),
    ];

    /// A server in this state.
    fn server(at: At) -> Server {
        use Event::{
            Confirm,
            Connected,
            Eof,
            NotPrepared,
            PreparedNew,
            PreparedOld,
            Proposal,
            Sent, //
        };
        let script: &[Event] = match at {
            AwaitingProposal => &[],
            Preparing => &[Proposal],
            AcceptQueued | AcceptingNew => &[Proposal, PreparedNew],
            AcceptingOld => &[Proposal, PreparedOld],
            AwaitingConfirmNew => &[Proposal, PreparedNew, Sent],
            AwaitingConfirmOld => &[Proposal, PreparedOld, Sent],
            ConnectingNew => &[Proposal, PreparedNew, Sent, Confirm],
            ConnectingOld => &[Proposal, PreparedOld, Sent, Confirm],
            Linking => &[Proposal, PreparedNew, Sent, Confirm, Connected],
            DeclineQueued | Declining => &[Proposal, NotPrepared],
            Done => &[Eof],
        };
        let mut server = Server::new(START, TIMERS, SERVER);
        for event in script {
            let _taken = server.poll_action();
            apply(&mut server, *event);
        }
        if !matches!(at, AcceptQueued | DeclineQueued) {
            let _taken = server.poll_action();
        }
        server
    }

    /// Lets something happen.
    fn apply(server: &mut Server, event: Event) {
        let now = START;
        match event {
            Event::Proposal => server.handle_message(now, &Message::Proposal(proposal())),
            Event::Accept => server.handle_message(now, &Message::Accept(accept(true, true))),
            Event::Confirm => server.handle_message(now, &Message::Confirm(confirm(true))),
            Event::ConfirmBadMtu => server.handle_message(now, &Message::Confirm(confirm(false))),
            Event::Decline => server.handle_message(now, &Message::Decline(decline())),
            Event::NoMessage => server.handle_error(now, ProtocolError::EyeCatcher.into()),
            Event::BadBufSize => server.handle_error(now, Reserved::BufSize(6).into()),
            Event::BadTransport => server.handle_error(now, Reserved::Transport(2).into()),
            Event::Eof => server.handle_eof(now),
            Event::PreparedNew => server.handle_prepared(now, Ok(prepared(true))),
            Event::PreparedOld => server.handle_prepared(now, Ok(prepared(false))),
            Event::NotPrepared => server.handle_prepared(now, Err(Reason::Memory)),
            Event::Connected => server.handle_connected(now, Ok(())),
            Event::NotConnected => server.handle_connected(now, Err(Reason::ReadyLink)),
            Event::Ready => server.handle_llc(now, LlcOutcome::Ready),
            Event::LlcDecline => server.handle_llc(now, LlcOutcome::Decline(Reason::Memory)),
            Event::LlcAbort => server.handle_llc(now, LlcOutcome::Abort(Reason::TimeoutAddLink)),
            Event::Sent => server.handle_sent(now),
            Event::Timeout => {
                let deadline = server.poll_timeout().unwrap_or(now);
                server.handle_timeout(deadline);
            }
            Event::Early => server.handle_timeout(now),
        }
    }

    /// This side's end.
    fn prepared(first_contact: bool) -> Prepared {
        Prepared {
            accept: endpoint(true),
            first_contact,
        }
    }

    /// Compares without the deadline.
    fn is_at(server: &Server, at: At) -> bool {
        match (server.state, at) {
            (State::AwaitingProposal { .. }, AwaitingProposal)
            | (State::Preparing { .. }, Preparing)
            | (State::Linking { .. }, Linking)
            | (State::Declining { .. }, DeclineQueued | Declining)
            | (State::Done, Done) => true,
            (State::Accepting { first_contact, .. }, AcceptQueued | AcceptingNew)
            | (State::AwaitingConfirm { first_contact, .. }, AwaitingConfirmNew)
            | (State::Connecting { first_contact, .. }, ConnectingNew) => first_contact,
            (State::Accepting { first_contact, .. }, AcceptingOld)
            | (State::AwaitingConfirm { first_contact, .. }, AwaitingConfirmOld)
            | (State::Connecting { first_contact, .. }, ConnectingOld) => !first_contact,
            _ => false,
        }
    }

    /// Reads back what is sent.
    fn sent(action: Option<Action>) -> Option<Message> {
        match action {
            Some(Action::Send(bytes)) => Message::parse(bytes.as_slice()).ok(),
            _ => None,
        }
    }

    /// Whether the transition of `before` to `after` is the wanted one.
    fn is_wanted(before: &Server, after: &mut Server, want: Want) -> bool {
        match want {
            Want::Same => after.state == before.state && after.action == before.action,
            Want::Go(at) => is_at(after, at) && after.poll_action().is_none(),
            Want::Prepare => {
                is_at(after, Preparing) && after.poll_action() == Some(Action::Prepare(proposal()))
            }
            Want::Accept(at) => {
                let message = Message::Accept(accept(at == AcceptingNew, true));
                is_at(after, at) && sent(after.poll_action()) == Some(message)
            }
            Want::Connect(at) => {
                is_at(after, at) && matches!(after.poll_action(), Some(Action::Connect(_)))
            }
            Want::Decline(reason) => {
                let diagnosis = Reason::from_code(reason.wire());
                is_at(after, Declining)
                    && sent(after.poll_action())
                        == Some(Message::Decline(Decline::new(SERVER, diagnosis)))
            }
            Want::Link => is_at(after, Linking) && after.poll_action() == Some(Action::StartLlc),
            Want::End(outcome) => {
                is_at(after, Done) && after.poll_action() == Some(Action::Done(outcome))
            }
        }
    }

    // CLC-05..08, CLC-11, CLC-410, CLC-412, CLC-414, RDV-02, FBK-04..06, FBK-13, FBK-15,
    // ERR-44, TST-104, TST-106, TST-108.
    #[test]
    fn every_transition_is_as_written() {
        for (event, row) in &TABLE {
            for (at, want) in COLUMNS.iter().zip(row) {
                let before = server(*at);
                assert!(is_at(&before, *at));
                let mut after = before.clone();
                apply(&mut after, *event);
                // Names the cell when it differs.
                let held = is_wanted(&before, &mut after, *want);
                assert_eq!(
                    (*event as u8, *at as u8, held),
                    (*event as u8, *at as u8, true)
                );
            }
        }
    }

    // CLC-10, TST-108.
    #[test]
    fn every_state_but_the_last_has_a_timer() {
        for at in COLUMNS {
            let server = server(at);
            assert_eq!(server.poll_timeout().is_none(), at == Done);
            assert!(!server.state_name().is_empty());
        }
    }

    // CLC-09.
    #[test]
    fn tcp_is_read_only_where_the_client_may_send() {
        let reading = [
            AwaitingProposal,
            AcceptQueued,
            AcceptingNew,
            AcceptingOld,
            AwaitingConfirmNew,
            AwaitingConfirmOld,
            ConnectingNew,
            Linking,
        ];
        for at in COLUMNS {
            assert_eq!(server(at).expects_message(), reading.contains(&at));
        }
    }

    // CLC-402, CLC-416, TST-107.
    #[test]
    fn out_of_sync_of_the_client_is_passed_on() {
        let mut server = server(AwaitingConfirmOld);
        let decline = Decline::new(CLIENT, Reason::OutOfSync);
        server.handle_message(START, &Message::Decline(decline));
        let outcome = Outcome::Fallback {
            reason: Reason::OutOfSync,
            by_peer: true,
            out_of_sync: true,
        };
        assert_eq!(server.poll_action(), Some(Action::Done(outcome)));
    }

    #[test]
    fn waiting_starts_anew_with_each_step() {
        let later = START.saturating_add(Duration::from_secs(5));
        let mut server = server(AcceptingNew);
        server.handle_sent(later);
        assert_eq!(
            server.poll_timeout(),
            Some(later.saturating_add(TIMERS.clc))
        );
        server.handle_message(later, &Message::Confirm(confirm(true)));
        assert_eq!(
            server.poll_timeout(),
            Some(later.saturating_add(TIMERS.prepare))
        );
        let _taken = server.poll_action();
        server.handle_connected(later, Ok(()));
        assert_eq!(
            server.poll_timeout(),
            Some(later.saturating_add(TIMERS.llc))
        );
    }
}
