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
//!
//! The client may not know that it should begin: a middlebox may have taken the option out of our
//! SYN-ACK, and this side cannot see that. As long as not even the eye catcher of a message has
//! come, the handshake has not begun, and the connection goes on as plain TCP, as the RFC wants it
//! for such a path (TCP-18, FBK-03): at once if the client sends something else, or when it has
//! been silent for as long as a message may take. Once it has begun, timeouts and wrong octets end
//! the connection (CLC-07, CLC-11).

use super::{
    answer::{
        Addition,
        Answer, //
    },
    error::{
        ClcError,
        Reserved, //
    },
    handshake::{
        reserved_reason,
        ClcOutcome,
        ClcTimers,
        LlcOutcome, //
    },
    message::ClcMessage,
    proposal::Proposal,
    steps::{
        ClcAction,
        ClcRequest,
        Prepared,
        Steps, //
    },
    terms::Version, //
};
use crate::proto::{
    base::time::Instant,
    smc::wire::PeerId,
    stream::reason::{
        LocalReason,
        Reason, //
    },
};

/// Where the handshake stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    /// The client has to begin. It has if `begun` is set: the start of a message has come.
    AwaitingProposal { begun: bool },
    /// The engine prepares this end. The client waits for us and may not send (CLC-411).
    Preparing,
    /// The engine hands the Accept to TCP.
    Accepting { first_contact: bool },
    /// The client has to answer the Accept.
    AwaitingConfirm { first_contact: bool },
    /// The engine connects the link, or checks it.
    Connecting { first_contact: bool },
    /// First contact: the link is being confirmed. A Decline of the client may still come
    /// (CLC-413).
    Linking,
    /// The engine hands our Decline to TCP.
    Declining { reason: Reason },
    /// The outcome is known.
    Done,
}

/// The server's side of the handshake.
///
/// Inputs are the `handle_` methods. After each input the engine takes actions from
/// [`Self::poll_action`] until it returns `None`, and arms its timer by [`Self::poll_timeout`]. It
/// reports the end of a `Send` before messages that arrived later.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    steps: Steps,
    state: ServerState,
    /// What the Accept said, if it was of version 2.
    agreed: Option<Addition>,
}

impl Server {
    /// Waits for the client to begin; `peer_id` names this side's stack.
    pub(crate) fn new(now: Instant, timers: ClcTimers, peer_id: PeerId) -> Self {
        Self {
            steps: Steps::new(now, timers, peer_id, timers.clc),
            state: ServerState::AwaitingProposal { begun: false },
            agreed: None,
        }
    }

    /// Whether the client has yet to begin: until then the octets of TCP may not be consumed.
    pub(crate) fn awaits_start(&self) -> bool {
        self.state == ServerState::AwaitingProposal { begun: false }
    }

    /// The first octets are the start of a message: from here on they may be consumed.
    pub(crate) fn handle_start(&mut self) {
        if self.awaits_start() {
            self.state = ServerState::AwaitingProposal { begun: true };
        }
    }

    /// The first octets are not the start of a message: the client does not know that this side
    /// would speak SMC-R.
    pub(crate) fn handle_foreign(&mut self) {
        if self.awaits_start() {
            self.finish(ClcOutcome::NoProposal { silent: false });
        }
    }

    /// A message of the client has arrived.
    pub(crate) fn handle_message(&mut self, now: Instant, message: &ClcMessage) {
        match (self.state, message) {
            (ServerState::Done, _) => {}
            (ServerState::AwaitingProposal { .. }, ClcMessage::Proposal(proposal)) => {
                self.handle_proposal(now, proposal);
            }
            (ServerState::AwaitingConfirm { first_contact }, ClcMessage::Confirm(confirm)) => {
                self.handle_confirm(now, first_contact, confirm);
            }
            // The answer may overtake the report that TCP took the Accept.
            (ServerState::Accepting { first_contact }, ClcMessage::Confirm(confirm))
                if self.steps.action.is_none() =>
            {
                self.handle_confirm(now, first_contact, confirm);
            }
            (
                ServerState::AwaitingProposal { .. }
                | ServerState::AwaitingConfirm { .. }
                | ServerState::Connecting {
                    first_contact: true,
                }
                | ServerState::Linking,
                ClcMessage::Decline(decline),
            ) => self.finish(ClcOutcome::declined_by_peer(decline)),
            (ServerState::Accepting { .. }, ClcMessage::Decline(decline))
                if self.steps.action.is_none() =>
            {
                self.finish(ClcOutcome::declined_by_peer(decline));
            }
            // Both declined, so ours is not needed. If TCP has taken it already, the client reads
            // it as application data: only a reset prevents that.
            (ServerState::Declining { .. }, ClcMessage::Decline(decline))
                if self.steps.action.is_some() =>
            {
                self.finish(ClcOutcome::declined_by_peer(decline));
            }
            // Unexpected (CLC-06), or a chase (CLC-410, CLC-412).
            _ => self.abort(LocalReason::ClcProtocol),
        }
    }

    /// The octets that arrived are no message this side understands.
    pub(crate) fn handle_error(&mut self, now: Instant, error: ClcError) {
        // What only an Accept or Confirm may hold has nothing to do with a Proposal, and the other
        // way round.
        let (in_proposal, reason) = match error {
            ClcError::Protocol(_) => (false, None),
            ClcError::Reserved(value) => {
                let in_proposal = match value {
                    Reserved::Extension => true,
                    Reserved::Transport(bits) => bits & !0x03 != 0,
                    Reserved::Version(_) => false,
                };
                (in_proposal, Some(reserved_reason(value)))
            }
        };
        match (self.state, reason) {
            (ServerState::Done, _) => {}
            (ServerState::AwaitingProposal { .. }, Some(reason)) if in_proposal => {
                // These occur in version 2 only.
                self.steps.version = Version::V2;
                self.decline(now, reason);
            }
            (ServerState::AwaitingConfirm { first_contact }, Some(reason)) if !in_proposal => {
                self.refuse(now, first_contact, reason);
            }
            (ServerState::Accepting { first_contact }, Some(reason))
                if !in_proposal && self.steps.action.is_none() =>
            {
                self.refuse(now, first_contact, reason);
            }
            _ => self.abort(LocalReason::ClcProtocol),
        }
    }

    /// The client sends no more by TCP. It may be done with the link before this side has seen its last
    /// message, and its program may have sent data and closed already.
    pub(crate) fn handle_fin(&mut self, now: Instant) {
        if self.state == ServerState::Linking {
            self.steps.note_fin();
        } else {
            self.handle_eof(now);
        }
    }

    /// The TCP connection failed.
    pub(crate) fn handle_eof(&mut self, _now: Instant) {
        match self.state {
            ServerState::Done => {}
            ServerState::AwaitingProposal { begun: false } => {
                self.finish(ClcOutcome::NoProposal { silent: false });
            }
            _ => self.abort(LocalReason::TcpClosed),
        }
    }

    /// Answers [`ClcAction::Prepare`].
    pub(crate) fn handle_prepared(&mut self, now: Instant, result: Result<Prepared, Reason>) {
        let ServerState::Preparing = self.state else {
            // Too late: the outcome was known before.
            return;
        };
        match result {
            Err(reason) => self.decline(now, reason),
            Ok(prepared) => {
                self.agreed = prepared.v2;
                let message = ClcMessage::Accept(self.steps.answer(&prepared));
                self.state = if self.steps.send(now, &message) {
                    ServerState::Accepting {
                        first_contact: prepared.first_contact,
                    }
                } else {
                    ServerState::Done
                };
            }
        }
    }

    /// Answers [`ClcAction::Connect`].
    pub(crate) fn handle_connected(&mut self, now: Instant, result: Result<(), Reason>) {
        let ServerState::Connecting { first_contact } = self.state else {
            return;
        };
        match result {
            Err(reason) => self.refuse(now, first_contact, reason),
            Ok(()) if first_contact => {
                self.state = ServerState::Linking;
                self.steps.start_llc(now);
            }
            Ok(()) => self.finish(ClcOutcome::Smc),
        }
    }

    /// TCP has taken the octets of [`ClcAction::Send`].
    pub(crate) fn handle_sent(&mut self, now: Instant) {
        if self.steps.action.is_some() {
            // What is waiting has not been sent; this is about something older.
            return;
        }
        match self.state {
            ServerState::Accepting { first_contact } => {
                self.state = ServerState::AwaitingConfirm { first_contact };
                self.steps.wait(now, self.steps.timers.clc);
            }
            ServerState::Declining { reason } => self.finish(ClcOutcome::declined(reason)),
            ServerState::AwaitingProposal { .. }
            | ServerState::Preparing
            | ServerState::AwaitingConfirm { .. }
            | ServerState::Connecting { .. }
            | ServerState::Linking
            | ServerState::Done => {}
        }
    }

    /// The LLC exchange of a first contact is over.
    pub(crate) fn handle_llc(&mut self, now: Instant, outcome: LlcOutcome) {
        let ServerState::Linking = self.state else {
            return;
        };
        match outcome {
            LlcOutcome::Ready => self.finish(ClcOutcome::Smc),
            LlcOutcome::Decline(reason) => self.decline(now, reason),
            LlcOutcome::Abort(reason) => self.finish(ClcOutcome::Abort(reason)),
        }
    }

    /// The time of [`Self::poll_timeout`] has come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if !self.steps.is_late(now) {
            return;
        }
        let slow = Reason::Local(LocalReason::ClcTimeout);
        match self.state {
            ServerState::AwaitingProposal { begun: false } => {
                self.finish(ClcOutcome::NoProposal { silent: true });
            }
            // The client is not to blame and still waits for an answer.
            ServerState::Preparing => self.decline(now, slow),
            ServerState::Connecting { first_contact } => self.refuse(now, first_contact, slow),
            ServerState::Linking => self.finish(ClcOutcome::Abort(Reason::TimeoutConfirmLink)),
            // No fallback: TCP would not work either (CLC-11).
            _ => self.abort(LocalReason::ClcTimeout),
        }
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.steps.deadline
    }

    /// What to do next.
    #[must_use]
    pub(crate) fn poll_action(&mut self) -> Option<ClcAction> {
        self.steps.action.take()
    }

    /// Whether the client may send a CLC message. The engine reads TCP only then, as all other
    /// octets belong to the application.
    pub(crate) fn expects_message(&self) -> bool {
        self.steps.may_hear()
            && matches!(
                self.state,
                ServerState::AwaitingProposal { .. }
                    | ServerState::Accepting { .. }
                    | ServerState::AwaitingConfirm { .. }
                    | ServerState::Connecting {
                        first_contact: true,
                    }
                    | ServerState::Linking
            )
    }

    /// The name of the state, for what tests say.
    #[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
    pub(crate) const fn state_name(&self) -> &'static str {
        match self.state {
            ServerState::AwaitingProposal { .. } => "awaiting proposal",
            ServerState::Preparing => "preparing",
            ServerState::Accepting { .. } => "accepting",
            ServerState::AwaitingConfirm { .. } => "awaiting confirm",
            ServerState::Connecting { .. } => "connecting",
            ServerState::Linking => "linking",
            ServerState::Declining { .. } => "declining",
            ServerState::Done => "done",
        }
    }

    /// The client began.
    fn handle_proposal(&mut self, now: Instant, proposal: &Proposal) {
        if proposal.v2.is_some() {
            self.steps.version = Version::V2;
        }
        self.state = ServerState::Preparing;
        self.steps.prepare(now, ClcRequest::Proposal(*proposal));
    }

    /// The client agreed.
    fn handle_confirm(&mut self, now: Instant, first_contact: bool, confirm: &Answer) {
        match self.judge(first_contact, confirm) {
            Ok(()) => {
                self.state = ServerState::Connecting { first_contact };
                self.steps.wait(now, self.steps.timers.prepare);
                self.steps.action = Some(ClcAction::Connect(*confirm));
            }
            Err(reason) => self.refuse(now, first_contact, reason),
        }
    }

    /// Whether the Confirm is an answer to the Accept.
    fn judge(&self, first_contact: bool, confirm: &Answer) -> Result<(), Reason> {
        match (&self.agreed, &confirm.v2) {
            (None, None) => {}
            (Some(ours), Some(theirs)) => {
                if ours.eid != theirs.eid {
                    return Err(Reason::NoUeid);
                }
                if let Some(first) = &ours.first {
                    first.repeated_in(theirs.first.as_ref())?;
                }
            }
            _ => return Err(Reason::VersionMismatch),
        }
        // A reserved MTU matters only where a queue pair is made from it (CLC-08, CLC-221).
        if first_contact && confirm.endpoint.mtu.is_none() {
            return Err(Reason::Configuration);
        }
        Ok(())
    }

    /// Refuses a Confirm: by Decline on first contact (FBK-07), by reset otherwise, as a Decline
    /// would chase the Accept (CLC-412).
    fn refuse(&mut self, now: Instant, first_contact: bool, reason: Reason) {
        if first_contact {
            self.decline(now, reason);
        } else {
            self.finish(ClcOutcome::Abort(reason));
        }
    }

    /// Sends a Decline in place of the next message.
    fn decline(&mut self, now: Instant, reason: Reason) {
        self.state = if self.steps.decline(now, reason) {
            ServerState::Declining { reason }
        } else {
            ServerState::Done
        };
    }

    /// Ends with a reset for a local reason.
    fn abort(&mut self, reason: LocalReason) {
        self.state = ServerState::Done;
        self.steps.abort(reason);
    }

    /// Ends.
    fn finish(&mut self, outcome: ClcOutcome) {
        self.state = ServerState::Done;
        self.steps.finish(outcome);
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_server))]
mod tests {
    use super::*;
    use crate::proto::{
        base::time::Duration,
        smc::clc::{
            handshake::examples::{
                accept,
                confirm,
                decline,
                endpoint,
                proposal,
                CLIENT,
                SERVER, //
            },
            Decline,
            ProtocolError, //
        },
    };

    const START: Instant = Instant::from_nanos(1_000_000_000);
    const TIMERS: ClcTimers = ClcTimers::DEFAULT;

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
        BadVersion,
        BadTransport,
        Eof,
        Fin,
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
        /// The link must be confirmed.
        Link,
        /// The handshake ends.
        End(ClcOutcome),
    }

    use At::*;
    use Want::{
        Link,
        Same, //
    };

    const SMC: Want = Want::End(ClcOutcome::Smc);
    const PROTO: Want = abort(Reason::Local(LocalReason::ClcProtocol));
    const CLOSED: Want = abort(Reason::Local(LocalReason::TcpClosed));
    const LATE: Want = abort(Reason::Local(LocalReason::ClcTimeout));
    const NO_LNK: Want = abort(Reason::TimeoutConfirmLink);
    const LLC: Want = abort(Reason::TimeoutAddLink);
    const VERS: Want = Want::Decline(Reason::VersionMismatch);
    const VERS_A: Want = abort(Reason::VersionMismatch);
    const BROKEN: Want = abort(Reason::ReadyLink);
    /// The peer declined with the reason of `decline()`.
    const PEER: Want = Want::End(ClcOutcome::Fallback {
        reason: Reason::Memory,
        by_peer: true,
        out_of_sync: false,
    });
    /// This side declined with the reason of `Event::NotPrepared`.
    const OURS: Want = Want::End(ClcOutcome::Fallback {
        reason: Reason::Memory,
        by_peer: false,
        out_of_sync: false,
    });
    const DECL: Want = Want::Decline(Reason::Memory);
    const BAD: Want = Want::Decline(Reason::Configuration);
    const MODE: Want = Want::Decline(Reason::ModeUnsupported);
    const READY: Want = Want::Decline(Reason::ReadyLink);
    const SLOW: Want = Want::Decline(Reason::Local(LocalReason::ClcTimeout));
    const ACC_N: Want = Want::Accept(AcceptingNew);
    const ACC_O: Want = Want::Accept(AcceptingOld);
    const CON_N: Want = Want::Connect(ConnectingNew);
    const CON_O: Want = Want::Connect(ConnectingOld);
    const PREP: Want = Want::Prepare;
    const GO_N: Want = Want::Go(AwaitingConfirmNew);
    const GO_O: Want = Want::Go(AwaitingConfirmOld);

    const fn abort(reason: Reason) -> Want {
        Want::End(ClcOutcome::Abort(reason))
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
    static TABLE: [(Event, [Want; 13]); 21] = [
        // Event               AwaitProp Prep    AccQueue AccNew  AccOld  AwCoNew AwCoOld ConnNew
        // ConnOld Linking DeclQue Declining Done
        (Event::Proposal,      [PREP,   PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::Accept,        [PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::Confirm,       [PROTO,  PROTO,  PROTO,  CON_N,  CON_O,  CON_N,  CON_O,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::ConfirmBadMtu, [PROTO,  PROTO,  PROTO,  BAD,    CON_O,  BAD,    CON_O,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::Decline,       [PEER,   PROTO,  PROTO,  PEER,   PEER,   PEER,   PEER,   PEER,   PROTO,  PEER,   PEER,   PROTO,  Same]),
        (Event::NoMessage,     [PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::BadVersion,    [PROTO,  PROTO,  PROTO,  VERS,   VERS_A, VERS,   VERS_A, PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::BadTransport,  [MODE,   PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  PROTO,  Same]),
        (Event::Eof,           [CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, Same]),
        (Event::Fin,           [CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, Same,   CLOSED, CLOSED, Same]),
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
        if at == AwaitingProposal {
            server.handle_start();
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
            Event::Proposal => server.handle_message(now, &ClcMessage::Proposal(proposal())),
            Event::Accept => server.handle_message(now, &ClcMessage::Accept(accept(true, true))),
            Event::Confirm => server.handle_message(now, &ClcMessage::Confirm(confirm(true))),
            Event::ConfirmBadMtu => {
                server.handle_message(now, &ClcMessage::Confirm(confirm(false)))
            }
            Event::Decline => server.handle_message(now, &ClcMessage::Decline(decline())),
            Event::NoMessage => server.handle_error(now, ProtocolError::EyeCatcher.into()),
            Event::BadVersion => server.handle_error(now, Reserved::Version(3).into()),
            Event::BadTransport => server.handle_error(now, Reserved::Transport(0b1010).into()),
            Event::Eof => server.handle_eof(now),
            Event::Fin => server.handle_fin(now),
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
            endpoint: endpoint(true),
            first_contact,
            v2: None,
        }
    }

    /// Compares without the deadline.
    fn is_at(server: &Server, at: At) -> bool {
        match (server.state, at) {
            (ServerState::AwaitingProposal { .. }, AwaitingProposal)
            | (ServerState::Preparing, Preparing)
            | (ServerState::Linking, Linking)
            | (ServerState::Declining { .. }, DeclineQueued | Declining)
            | (ServerState::Done, Done) => true,
            (ServerState::Accepting { first_contact }, AcceptQueued | AcceptingNew)
            | (ServerState::AwaitingConfirm { first_contact }, AwaitingConfirmNew)
            | (ServerState::Connecting { first_contact }, ConnectingNew) => first_contact,
            (ServerState::Accepting { first_contact }, AcceptingOld)
            | (ServerState::AwaitingConfirm { first_contact }, AwaitingConfirmOld)
            | (ServerState::Connecting { first_contact }, ConnectingOld) => !first_contact,
            _ => false,
        }
    }

    // TST-026.
    #[test]
    fn client_that_closes_early_ends_no_link() {
        let mut server = server(Linking);
        server.handle_fin(START);
        assert!(!server.expects_message() && server.poll_action().is_none());
        for (llc, outcome) in [
            (LlcOutcome::Ready, ClcOutcome::Smc),
            // It believes in the link, and reads nothing any longer.
            (
                LlcOutcome::Decline(Reason::Memory),
                ClcOutcome::Abort(Reason::Memory),
            ),
        ] {
            let mut server = server.clone();
            server.handle_llc(START, llc);
            assert_eq!(server.poll_action(), Some(ClcAction::Done(outcome)));
        }
    }

    /// Reads back what is sent.
    fn sent(action: Option<ClcAction>) -> Option<ClcMessage> {
        match action {
            Some(ClcAction::Send(bytes)) => ClcMessage::parse(bytes.as_slice()).ok(),
            _ => None,
        }
    }

    /// Whether the transition of `before` to `after` is the wanted one.
    fn is_wanted(before: &Server, after: &mut Server, want: Want) -> bool {
        match want {
            Want::Same => {
                after.state == before.state
                    && after.steps.action == before.steps.action
                    && after.steps.deadline == before.steps.deadline
            }
            Want::Go(at) => is_at(after, at) && after.poll_action().is_none(),
            Want::Prepare => {
                is_at(after, Preparing)
                    && after.poll_action()
                        == Some(ClcAction::Prepare(ClcRequest::Proposal(proposal())))
            }
            Want::Accept(at) => {
                let message = ClcMessage::Accept(accept(at == AcceptingNew, true));
                is_at(after, at) && sent(after.poll_action()) == Some(message)
            }
            Want::Connect(at) => {
                is_at(after, at) && matches!(after.poll_action(), Some(ClcAction::Connect(_)))
            }
            Want::Decline(reason) => {
                let diagnosis = Reason::from_code(reason.wire());
                is_at(after, Declining)
                    && matches!(sent(after.poll_action()), Some(ClcMessage::Decline(decline))
                        if decline.peer == SERVER && decline.reason == diagnosis)
            }
            Want::Link => is_at(after, Linking) && after.poll_action() == Some(ClcAction::StartLlc),
            Want::End(outcome) => {
                is_at(after, Done) && after.poll_action() == Some(ClcAction::Done(outcome))
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
    fn silent_client_gets_tcp() {
        let mut server = Server::new(START, TIMERS, SERVER);
        assert!(server.awaits_start() && server.expects_message());
        server.handle_timeout(START.saturating_add(TIMERS.clc));
        let outcome = ClcOutcome::NoProposal { silent: true };
        assert_eq!(server.poll_action(), Some(ClcAction::Done(outcome)));
        assert!(!server.awaits_start() && !server.expects_message());
    }

    #[test]
    fn client_that_sends_data_gets_tcp() {
        let mut server = Server::new(START, TIMERS, SERVER);
        server.handle_foreign();
        let outcome = ClcOutcome::NoProposal { silent: false };
        assert_eq!(server.poll_action(), Some(ClcAction::Done(outcome)));
    }

    #[test]
    fn client_that_has_begun_must_go_on() {
        let mut server = Server::new(START, TIMERS, SERVER);
        server.handle_start();
        assert!(!server.awaits_start());
        server.handle_foreign();
        assert!(server.poll_action().is_none());
        server.handle_timeout(START.saturating_add(TIMERS.clc));
        let outcome = ClcOutcome::Abort(Reason::Local(LocalReason::ClcTimeout));
        assert_eq!(server.poll_action(), Some(ClcAction::Done(outcome)));
    }

    #[test]
    fn out_of_sync_of_the_client_is_passed_on() {
        let mut server = server(AwaitingConfirmOld);
        let decline = Decline::new(CLIENT, Reason::OutOfSync, Version::V1);
        server.handle_message(START, &ClcMessage::Decline(decline));
        let outcome = ClcOutcome::Fallback {
            reason: Reason::OutOfSync,
            by_peer: true,
            out_of_sync: true,
        };
        assert_eq!(server.poll_action(), Some(ClcAction::Done(outcome)));
    }

    #[test]
    fn each_step_restarts_the_timer() {
        let later = START.saturating_add(Duration::from_secs(5));
        let mut server = server(AcceptingNew);
        server.handle_sent(later);
        assert_eq!(
            server.poll_timeout(),
            Some(later.saturating_add(TIMERS.clc))
        );
        server.handle_message(later, &ClcMessage::Confirm(confirm(true)));
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
