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
//!
//! The server may be done with the link before this side has seen its last message. Then its program
//! may have sent data and closed already, so in `Linking` the end of the server's octets ends nothing.

use super::{
    answer::Answer,
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
enum ClientState {
    /// The engine hands the Proposal to TCP.
    Proposing,
    /// The server has to answer the Proposal.
    AwaitingAccept,
    /// The engine prepares this end. The server waits for us and may not send (CLC-410).
    Preparing { first_contact: bool },
    /// The engine hands the Confirm to TCP.
    Confirming { first_contact: bool },
    /// First contact: the link is being confirmed. A Decline of the server may still come
    /// (CLC-413).
    Linking,
    /// The engine hands our Decline to TCP.
    Declining { reason: Reason },
    /// The outcome is known.
    Done,
}

/// The client's side of the handshake.
///
/// Inputs are the `handle_` methods. After each input the engine takes actions from
/// [`Self::poll_action`] until it returns `None`, and arms its timer by [`Self::poll_timeout`]. It
/// reports the end of a `Send` before messages that arrived later.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    steps: Steps,
    state: ClientState,
    /// What was offered; nothing before a Decline in place of the Proposal.
    proposal: Option<Proposal>,
}

impl Client {
    /// Starts with a Proposal (CLC-122).
    pub(crate) fn new(now: Instant, timers: ClcTimers, proposal: Proposal) -> Self {
        let mut client = Self {
            steps: Steps::new(now, timers, proposal.peer, timers.clc),
            state: ClientState::Proposing,
            proposal: Some(proposal),
        };
        if !client.steps.send(now, &ClcMessage::Proposal(proposal)) {
            client.state = ClientState::Done;
        }
        client
    }

    /// Starts with a Decline in place of the Proposal (FBK-04), for the stack `peer_id`.
    pub(crate) fn declining(
        now: Instant,
        timers: ClcTimers,
        peer_id: PeerId,
        reason: Reason,
    ) -> Self {
        let mut client = Self {
            steps: Steps::new(now, timers, peer_id, timers.clc),
            state: ClientState::Done,
            proposal: None,
        };
        client.decline(now, reason);
        client
    }

    /// A message of the server has arrived.
    pub(crate) fn handle_message(&mut self, now: Instant, message: &ClcMessage) {
        match (self.state, message) {
            (ClientState::Done, _) => {}
            (ClientState::AwaitingAccept, ClcMessage::Accept(accept)) => {
                self.handle_accept(now, accept);
            }
            // The answer may overtake the report that TCP took the Proposal.
            (ClientState::Proposing, ClcMessage::Accept(accept)) if self.steps.action.is_none() => {
                self.handle_accept(now, accept);
            }
            (
                ClientState::Proposing
                | ClientState::AwaitingAccept
                | ClientState::Confirming {
                    first_contact: true,
                }
                | ClientState::Linking,
                ClcMessage::Decline(decline),
            ) => self.finish(ClcOutcome::declined_by_peer(decline)),
            // Both declined, so ours is not needed. If TCP has taken it already, the server reads
            // it as application data: only a reset prevents that.
            (ClientState::Declining { .. }, ClcMessage::Decline(decline))
                if self.steps.action.is_some() =>
            {
                self.finish(ClcOutcome::declined_by_peer(decline));
            }
            // Unexpected (CLC-06), or a chase (CLC-410).
            _ => self.abort(LocalReason::ClcProtocol),
        }
    }

    /// The octets that arrived are no message this side understands.
    pub(crate) fn handle_error(&mut self, now: Instant, error: ClcError) {
        let reason = match error {
            ClcError::Reserved(Reserved::Extension) | ClcError::Protocol(_) => None,
            // What a Proposal may hold.
            ClcError::Reserved(Reserved::Transport(bits)) if bits & !0x03 != 0 => None,
            ClcError::Reserved(value) => Some(reserved_reason(value)),
        };
        if matches!(
            error,
            ClcError::Reserved(Reserved::Transport(_) | Reserved::Version(_))
        ) {
            // These occur from version 2 on.
            self.steps.version = Version::V2;
        }
        match (self.state, reason) {
            (ClientState::Done, _) => {}
            (ClientState::AwaitingAccept, Some(reason)) => self.decline(now, reason),
            (ClientState::Proposing, Some(reason)) if self.steps.action.is_none() => {
                self.decline(now, reason);
            }
            _ => self.abort(LocalReason::ClcProtocol),
        }
    }

    /// The server sends no more by TCP.
    pub(crate) fn handle_fin(&mut self, now: Instant) {
        match self.state {
            ClientState::Linking => self.steps.note_fin(),
            // It may have the Confirm before TCP reports that it took it.
            ClientState::Confirming {
                first_contact: true,
            } if self.steps.action.is_none() => self.steps.note_fin(),
            _ => self.handle_eof(now),
        }
    }

    /// The TCP connection failed.
    pub(crate) fn handle_eof(&mut self, _now: Instant) {
        if self.state != ClientState::Done {
            self.abort(LocalReason::TcpClosed);
        }
    }

    /// Answers [`ClcAction::Prepare`]. A reason to decline is, above all, [`Reason::OutOfSync`] when
    /// the server reuses a link this side does not have (CLC-225).
    pub(crate) fn handle_prepared(&mut self, now: Instant, result: Result<Prepared, Reason>) {
        let ClientState::Preparing { first_contact } = self.state else {
            // Too late: the outcome was known before.
            return;
        };
        match result {
            Err(reason) => self.decline(now, reason),
            // A new link where the server reuses one.
            Ok(prepared) if prepared.first_contact && !first_contact => {
                self.decline(now, Reason::OutOfSync);
            }
            // An old link where the server makes one, or what it was not asked for.
            Ok(prepared)
                if prepared.first_contact != first_contact
                    || prepared.v2.is_some() != (self.steps.version == Version::V2) =>
            {
                self.decline(now, Reason::Internal);
            }
            Ok(prepared) => {
                let message = ClcMessage::Confirm(self.steps.answer(&prepared));
                self.state = if self.steps.send(now, &message) {
                    ClientState::Confirming { first_contact }
                } else {
                    ClientState::Done
                };
            }
        }
    }

    /// TCP has taken the octets of [`ClcAction::Send`].
    pub(crate) fn handle_sent(&mut self, now: Instant) {
        if self.steps.action.is_some() {
            // What is waiting has not been sent; this is about something older.
            return;
        }
        match self.state {
            ClientState::Proposing => {
                self.state = ClientState::AwaitingAccept;
                self.steps.wait(now, self.steps.timers.clc);
            }
            ClientState::Confirming {
                first_contact: true,
            } => {
                self.state = ClientState::Linking;
                self.steps.start_llc(now);
            }
            // The point of no return of subsequent contact (FBK-13).
            ClientState::Confirming {
                first_contact: false,
            } => self.finish(ClcOutcome::Smc),
            ClientState::Declining { reason } => self.finish(ClcOutcome::declined(reason)),
            ClientState::AwaitingAccept
            | ClientState::Preparing { .. }
            | ClientState::Linking
            | ClientState::Done => {}
        }
    }

    /// The LLC exchange of a first contact is over.
    pub(crate) fn handle_llc(&mut self, now: Instant, outcome: LlcOutcome) {
        match self.state {
            // It may be over before TCP reports that it took the Confirm.
            ClientState::Linking
            | ClientState::Confirming {
                first_contact: true,
            } => match outcome {
                // Cannot be: the server does not even know this end yet.
                LlcOutcome::Ready if self.steps.action.is_some() => {
                    self.finish(ClcOutcome::Abort(Reason::Internal));
                }
                LlcOutcome::Ready => self.finish(ClcOutcome::Smc),
                LlcOutcome::Decline(reason) => self.decline(now, reason),
                LlcOutcome::Abort(reason) => self.finish(ClcOutcome::Abort(reason)),
            },
            _ => {}
        }
    }

    /// The time of [`Self::poll_timeout`] has come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if !self.steps.is_late(now) {
            return;
        }
        match self.state {
            // The server is not to blame and still waits for an answer.
            ClientState::Preparing { .. } => {
                self.decline(now, Reason::Local(LocalReason::ClcTimeout))
            }
            ClientState::Linking => self.finish(ClcOutcome::Abort(Reason::TimeoutConfirmLink)),
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

    /// Whether the server may send a CLC message. The engine reads TCP only then, as all other
    /// octets belong to the application.
    pub(crate) fn expects_message(&self) -> bool {
        self.steps.may_hear()
            && matches!(
                self.state,
                ClientState::Proposing
                    | ClientState::AwaitingAccept
                    | ClientState::Confirming {
                        first_contact: true,
                    }
                    | ClientState::Linking
            )
    }

    /// The name of the state, for what tests say.
    #[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
    pub(crate) const fn state_name(&self) -> &'static str {
        match self.state {
            ClientState::Proposing => "proposing",
            ClientState::AwaitingAccept => "awaiting accept",
            ClientState::Preparing { .. } => "preparing",
            ClientState::Confirming { .. } => "confirming",
            ClientState::Linking => "linking",
            ClientState::Declining { .. } => "declining",
            ClientState::Done => "done",
        }
    }

    /// The server agreed.
    fn handle_accept(&mut self, now: Instant, accept: &Answer) {
        self.steps.version = accept.version();
        if let Err(reason) = self.judge(accept) {
            return self.decline(now, reason);
        }
        self.state = ClientState::Preparing {
            first_contact: accept.first_contact,
        };
        self.steps.prepare(now, ClcRequest::Accept(*accept));
    }

    /// Whether the Accept is an answer to what was offered.
    fn judge(&self, accept: &Answer) -> Result<(), Reason> {
        let offer = self.proposal.as_ref();
        match &accept.v2 {
            None if offer.is_some_and(|offer| offer.v1.is_none()) => {
                return Err(Reason::ModeUnsupported);
            }
            None => {}
            Some(agreed) => {
                let own = offer.and_then(|offer| offer.v2.as_ref());
                let own = own.ok_or(Reason::VersionMismatch)?;
                if !own.eids.as_slice().contains(&agreed.eid) {
                    return Err(Reason::NoUeid);
                }
            }
        }
        // A reserved MTU matters only where a queue pair is made from it (CLC-08, CLC-221).
        if accept.first_contact && accept.endpoint.mtu.is_none() {
            return Err(Reason::Configuration);
        }
        Ok(())
    }

    /// Sends a Decline in place of the next message.
    fn decline(&mut self, now: Instant, reason: Reason) {
        self.state = if self.steps.decline(now, reason) {
            ClientState::Declining { reason }
        } else {
            ClientState::Done
        };
    }

    /// Ends with a reset for a local reason.
    fn abort(&mut self, reason: LocalReason) {
        self.state = ClientState::Done;
        self.steps.abort(reason);
    }

    /// Ends.
    fn finish(&mut self, outcome: ClcOutcome) {
        self.state = ClientState::Done;
        self.steps.finish(outcome);
    }
}
#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_client))]
mod tests {
    use super::*;
    use crate::proto::smc::clc::{
        handshake::examples::{
            accept,
            confirm,
            decline,
            endpoint,
            proposal,
            CLIENT, //
        },
        Decline,
        ProtocolError, //
    };

    const START: Instant = Instant::from_nanos(1_000_000_000);
    const TIMERS: ClcTimers = ClcTimers::DEFAULT;

    /// Every state of interest, and whether an action of it was not yet taken.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum At {
        /// Proposal not yet taken by the engine.
        ProposalQueued,
        Proposing,
        AwaitingAccept,
        PreparingNew,
        PreparingOld,
        /// Confirm not yet taken by the engine, first contact.
        ConfirmQueued,
        ConfirmingNew,
        ConfirmingOld,
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
        AcceptNew,
        AcceptOld,
        AcceptNewBadMtu,
        AcceptOldBadMtu,
        Confirm,
        Decline,
        NoMessage,
        BadVersion,
        BadTransport,
        Eof,
        Fin,
        PreparedNew,
        PreparedOld,
        NotPrepared,
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
        /// The server's Accept is acted upon.
        Prepare(At),
        /// A Confirm is sent.
        Confirm(At),
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
    const PROTOCOL: Want = abort(LocalReason::ClcProtocol);
    const CLOSED: Want = abort(LocalReason::TcpClosed);
    const LATE: Want = abort(LocalReason::ClcTimeout);
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
    const LLC: Want = Want::End(ClcOutcome::Abort(Reason::TimeoutAddLink));
    const NO_LINK: Want = Want::End(ClcOutcome::Abort(Reason::TimeoutConfirmLink));
    const FAULTY: Want = Want::End(ClcOutcome::Abort(Reason::Internal));
    const DECLINE: Want = Want::Decline(Reason::Memory);
    const BAD: Want = Want::Decline(Reason::Configuration);
    const VERSION: Want = Want::Decline(Reason::VersionMismatch);
    const MODE: Want = Want::Decline(Reason::ModeUnsupported);
    const UNSYNC: Want = Want::Decline(Reason::OutOfSync);
    const FAULT: Want = Want::Decline(Reason::Internal);
    const SLOW: Want = Want::Decline(Reason::Local(LocalReason::ClcTimeout));
    const WAITING: Want = Want::Go(AwaitingAccept);
    const NEW: Want = Want::Prepare(PreparingNew);
    const OLD: Want = Want::Prepare(PreparingOld);
    const CONF_N: Want = Want::Confirm(ConfirmingNew);
    const CONF_O: Want = Want::Confirm(ConfirmingOld);

    const fn abort(reason: LocalReason) -> Want {
        Want::End(ClcOutcome::Abort(Reason::Local(reason)))
    }

    /// The states of the columns of `TABLE`.
    const COLUMNS: [At; 12] = [
        ProposalQueued,
        Proposing,
        AwaitingAccept,
        PreparingNew,
        PreparingOld,
        ConfirmQueued,
        ConfirmingNew,
        ConfirmingOld,
        Linking,
        DeclineQueued,
        Declining,
        Done,
    ];

    /// Every transition there is.
    #[rustfmt::skip]
    static TABLE: [(Event, [Want; 12]); 21] = [
        // Event                  Queued    Proposing Awaiting  Prep new  Prep old  ConfQueue Conf
        // new  Conf old  Linking   DeclQueue Declining Done
        (Event::Proposal,        [PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, Same]),
        (Event::AcceptNew,       [PROTOCOL, NEW,      NEW,      PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, Same]),
        (Event::AcceptOld,       [PROTOCOL, OLD,      OLD,      PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, Same]),
        (Event::AcceptNewBadMtu, [PROTOCOL, BAD,      BAD,      PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, Same]),
        (Event::AcceptOldBadMtu, [PROTOCOL, OLD,      OLD,      PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, Same]),
        (Event::Confirm,         [PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, Same]),
        (Event::Decline,         [PEER,     PEER,     PEER,     PROTOCOL, PROTOCOL, PEER,     PEER,     PROTOCOL, PEER,     PEER,     PROTOCOL, Same]),
        (Event::NoMessage,       [PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, Same]),
        (Event::BadVersion,      [PROTOCOL, VERSION,  VERSION,  PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, Same]),
        (Event::BadTransport,    [PROTOCOL, MODE,     MODE,     PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, Same]),
        (Event::Eof,             [CLOSED,   CLOSED,   CLOSED,   CLOSED,   CLOSED,   CLOSED,   CLOSED,   CLOSED,   CLOSED,   CLOSED,   CLOSED,   Same]),
        (Event::Fin,             [CLOSED,   CLOSED,   CLOSED,   CLOSED,   CLOSED,   CLOSED,   Same,     CLOSED,   Same,     CLOSED,   CLOSED,   Same]),
        (Event::PreparedNew,     [Same,     Same,     Same,     CONF_N,   UNSYNC,   Same,     Same,     Same,     Same,     Same,     Same,     Same]),
        (Event::PreparedOld,     [Same,     Same,     Same,     FAULT,    CONF_O,   Same,     Same,     Same,     Same,     Same,     Same,     Same]),
        (Event::NotPrepared,     [Same,     Same,     Same,     DECLINE,  DECLINE,  Same,     Same,     Same,     Same,     Same,     Same,     Same]),
        (Event::Ready,           [Same,     Same,     Same,     Same,     Same,     FAULTY,   SMC,      Same,     SMC,      Same,     Same,     Same]),
        (Event::LlcDecline,      [Same,     Same,     Same,     Same,     Same,     DECLINE,  DECLINE,  Same,     DECLINE,  Same,     Same,     Same]),
        (Event::LlcAbort,        [Same,     Same,     Same,     Same,     Same,     LLC,      LLC,      Same,     LLC,      Same,     Same,     Same]),
        (Event::Sent,            [Same,     WAITING,  Same,     Same,     Same,     Same,     Link,     SMC,      Same,     Same,     OURS,     Same]),
        (Event::Timeout,         [LATE,     LATE,     LATE,     SLOW,     SLOW,     LATE,     LATE,     LATE,     NO_LINK,  LATE,     LATE,     Same]),
        (Event::Early,           [Same,     Same,     Same,     Same,     Same,     Same,     Same,     Same,     Same,     Same,     Same,     Same]),
    ];

    /// A client in this state.
    fn client(at: At) -> Client {
        let mut client = Client::new(START, TIMERS, proposal());
        let script: &[Event] = match at {
            ProposalQueued | Proposing => &[],
            AwaitingAccept => &[Event::Sent],
            PreparingNew => &[Event::Sent, Event::AcceptNew],
            PreparingOld => &[Event::Sent, Event::AcceptOld],
            ConfirmQueued | ConfirmingNew => &[Event::Sent, Event::AcceptNew, Event::PreparedNew],
            ConfirmingOld => &[Event::Sent, Event::AcceptOld, Event::PreparedOld],
            Linking => &[
                Event::Sent,
                Event::AcceptNew,
                Event::PreparedNew,
                Event::Sent,
            ],
            DeclineQueued | Declining => &[Event::Sent, Event::AcceptNew, Event::NotPrepared],
            Done => &[Event::Eof],
        };
        for event in script {
            let _taken = client.poll_action();
            apply(&mut client, *event);
        }
        if !matches!(at, ProposalQueued | ConfirmQueued | DeclineQueued) {
            let _taken = client.poll_action();
        }
        client
    }

    /// Lets something happen.
    fn apply(client: &mut Client, event: Event) {
        let now = START;
        match event {
            Event::Proposal => client.handle_message(now, &ClcMessage::Proposal(proposal())),
            Event::AcceptNew => client.handle_message(now, &ClcMessage::Accept(accept(true, true))),
            Event::AcceptOld => {
                client.handle_message(now, &ClcMessage::Accept(accept(false, true)))
            }
            Event::AcceptNewBadMtu => {
                client.handle_message(now, &ClcMessage::Accept(accept(true, false)));
            }
            Event::AcceptOldBadMtu => {
                client.handle_message(now, &ClcMessage::Accept(accept(false, false)));
            }
            Event::Confirm => client.handle_message(now, &ClcMessage::Confirm(confirm(true))),
            Event::Decline => client.handle_message(now, &ClcMessage::Decline(decline())),
            Event::NoMessage => client.handle_error(now, ProtocolError::EyeCatcher.into()),
            Event::BadVersion => client.handle_error(now, Reserved::Version(3).into()),
            Event::BadTransport => client.handle_error(now, Reserved::Transport(2).into()),
            Event::Eof => client.handle_eof(now),
            Event::Fin => client.handle_fin(now),
            Event::PreparedNew => client.handle_prepared(now, Ok(prepared(true))),
            Event::PreparedOld => client.handle_prepared(now, Ok(prepared(false))),
            Event::NotPrepared => client.handle_prepared(now, Err(Reason::Memory)),
            Event::Ready => client.handle_llc(now, LlcOutcome::Ready),
            Event::LlcDecline => client.handle_llc(now, LlcOutcome::Decline(Reason::Memory)),
            Event::LlcAbort => client.handle_llc(now, LlcOutcome::Abort(Reason::TimeoutAddLink)),
            Event::Sent => client.handle_sent(now),
            Event::Timeout => {
                let deadline = client.poll_timeout().unwrap_or(now);
                client.handle_timeout(deadline);
            }
            Event::Early => client.handle_timeout(now),
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
    fn is_at(client: &Client, at: At) -> bool {
        match at {
            ProposalQueued | Proposing => matches!(client.state, ClientState::Proposing),
            AwaitingAccept => matches!(client.state, ClientState::AwaitingAccept),
            PreparingNew | PreparingOld => {
                matches!(client.state, ClientState::Preparing { first_contact }
                    if first_contact == (at == PreparingNew))
            }
            ConfirmQueued | ConfirmingNew | ConfirmingOld => {
                matches!(client.state, ClientState::Confirming { first_contact }
                    if first_contact == (at != ConfirmingOld))
            }
            Linking => matches!(client.state, ClientState::Linking),
            DeclineQueued | Declining => matches!(client.state, ClientState::Declining { .. }),
            Done => client.state == ClientState::Done,
        }
    }

    // TST-026.
    #[test]
    fn server_that_closes_early_ends_no_link() {
        let mut client = client(Linking);
        client.handle_fin(START);
        assert!(!client.expects_message() && client.poll_action().is_none());
        for (llc, outcome) in [
            (LlcOutcome::Ready, ClcOutcome::Smc),
            // It believes in the link, and reads nothing any longer.
            (
                LlcOutcome::Decline(Reason::Memory),
                ClcOutcome::Abort(Reason::Memory),
            ),
        ] {
            let mut client = client.clone();
            client.handle_llc(START, llc);
            assert_eq!(client.poll_action(), Some(ClcAction::Done(outcome)));
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
    fn is_wanted(before: &Client, after: &mut Client, want: Want) -> bool {
        match want {
            Want::Same => {
                after.state == before.state
                    && after.steps.action == before.steps.action
                    && after.steps.deadline == before.steps.deadline
            }
            Want::Go(at) => is_at(after, at) && after.poll_action().is_none(),
            Want::Prepare(at) => {
                is_at(after, at)
                    && matches!(
                        after.poll_action(),
                        Some(ClcAction::Prepare(ClcRequest::Accept(_)))
                    )
            }
            Want::Confirm(at) => {
                is_at(after, at)
                    && sent(after.poll_action()) == Some(ClcMessage::Confirm(confirm(true)))
            }
            Want::Decline(reason) => {
                let diagnosis = Reason::from_code(reason.wire());
                is_at(after, Declining)
                    && matches!(sent(after.poll_action()), Some(ClcMessage::Decline(decline))
                        if decline.peer == CLIENT && decline.reason == diagnosis)
            }
            Want::Link => is_at(after, Linking) && after.poll_action() == Some(ClcAction::StartLlc),
            Want::End(outcome) => {
                is_at(after, Done) && after.poll_action() == Some(ClcAction::Done(outcome))
            }
        }
    }

    // CLC-05..08, CLC-11, CLC-225, CLC-323, CLC-410..412, CLC-414, RDV-03, FBK-04..06,
    // FBK-13, FBK-15, ERR-43, ERR-44, TST-104..106, TST-108.
    #[test]
    fn every_transition_is_as_written() {
        for (event, row) in &TABLE {
            for (at, want) in COLUMNS.iter().zip(row) {
                let before = client(*at);
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
            let client = client(at);
            assert_eq!(client.poll_timeout().is_none(), at == Done);
            assert!(!client.state_name().is_empty());
        }
    }

    // CLC-09.
    #[test]
    fn tcp_is_read_only_where_the_server_may_send() {
        for (at, want) in COLUMNS.into_iter().zip([
            true, true, true, false, false, true, true, false, true, false, false, false,
        ]) {
            assert_eq!(client(at).expects_message(), want);
        }
    }

    // RDV-02, CLC-122.
    #[test]
    fn proposal_comes_first() {
        let mut client = Client::new(START, TIMERS, proposal());
        let message = ClcMessage::Proposal(proposal());
        assert_eq!(sent(client.poll_action()), Some(message));
        assert!(client.poll_action().is_none());
    }

    // CLC-410, FBK-04, TST-104.
    #[test]
    fn decline_can_take_the_place_of_the_proposal() {
        let mut client = Client::declining(START, TIMERS, CLIENT, Reason::NoSmcrDevice);
        assert!(!client.expects_message());
        let decline = Decline::new(CLIENT, Reason::NoSmcrDevice, Version::V1);
        assert_eq!(
            sent(client.poll_action()),
            Some(ClcMessage::Decline(decline))
        );
        client.handle_sent(START);
        let outcome = ClcOutcome::declined(Reason::NoSmcrDevice);
        assert_eq!(client.poll_action(), Some(ClcAction::Done(outcome)));
    }

    // CLC-402, CLC-416, TST-107.
    #[test]
    fn out_of_sync_of_the_server_is_passed_on() {
        let mut client = client(AwaitingAccept);
        let decline = Decline::new(CLIENT, Reason::OutOfSync, Version::V1);
        client.handle_message(START, &ClcMessage::Decline(decline));
        let outcome = ClcOutcome::Fallback {
            reason: Reason::OutOfSync,
            by_peer: true,
            out_of_sync: true,
        };
        assert_eq!(client.poll_action(), Some(ClcAction::Done(outcome)));
    }

    #[test]
    fn each_step_restarts_the_timer() {
        let later = START.saturating_add(crate::proto::base::time::Duration::from_secs(5));
        let mut client = client(Proposing);
        client.handle_sent(later);
        assert_eq!(
            client.poll_timeout(),
            Some(later.saturating_add(ClcTimers::DEFAULT.clc))
        );
        client.handle_message(later, &ClcMessage::Accept(accept(true, true)));
        assert_eq!(
            client.poll_timeout(),
            Some(later.saturating_add(ClcTimers::DEFAULT.prepare))
        );
    }
}
