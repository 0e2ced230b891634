// SPDX-License-Identifier: GPL-2.0

//! What both sides' state machines of the handshake do in the same way: hand out actions, keep the
//! timer, send messages, end.

use super::{
    answer::{
        Addition,
        Answer, //
    },
    decline::Decline,
    endpoint::Endpoint,
    handshake::{
        Bytes,
        ClcOutcome,
        ClcTimers, //
    },
    message::ClcMessage,
    proposal::Proposal,
    terms::Version, //
};
use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    smc::wire::PeerId,
    stream::reason::{
        LocalReason,
        Reason, //
    },
};

/// A peer's message for which the engine must prepare this side's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClcRequest {
    /// At the server: find a link to the client's stack, or make one, and reserve memory that is
    /// ready to be written (CLC-222).
    Proposal(Proposal),
    /// At the client: find the link the server named, or make one on first contact, and reserve
    /// memory.
    Accept(Answer),
}

/// What the engine has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClcAction {
    /// Send these octets on the TCP connection, then call `handle_sent`.
    Send(Bytes),
    /// Prepare this side's end, then call `handle_prepared`.
    Prepare(ClcRequest),
    /// At the server. First contact: connect the queue pair to the client's. Otherwise: check that
    /// the client named an active link of the group (CLC-320). Then call `handle_connected`.
    Connect(Answer),
    /// Server: send CONFIRM LINK on the new link. Client: wait for it. At the end of the exchange
    /// call `handle_llc`.
    StartLlc,
    /// The handshake is over. Everything reserved must be released unless this is
    /// [`ClcOutcome::Smc`].
    Done(ClcOutcome),
}

/// This side's end, ready for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// Addresses and key of this end, as the peer gets them.
    pub(crate) endpoint: Endpoint,
    /// The link is a new one (CLC-202). At the client this must be what the Accept said (CLC-223 to
    /// CLC-225).
    pub(crate) first_contact: bool,
    /// What the message adds in version 2; `None` means version 1. At the client the versions must
    /// be the same.
    pub(crate) v2: Option<Addition>,
}

/// What the two machines have in common.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub(super) timers: ClcTimers,
    /// This side's stack.
    peer_id: PeerId,
    /// The version of Declines: the latest one the peer has shown to know.
    pub(super) version: Version,
    /// When the current step ends at the latest; `None` at the end only.
    pub(super) deadline: Option<Instant>,
    pub(super) action: Option<ClcAction>,
    /// The peer sends no more by TCP.
    finished: bool,
}

impl Steps {
    /// Starts with a step that may take `time`.
    pub(super) fn new(now: Instant, timers: ClcTimers, peer_id: PeerId, time: Duration) -> Self {
        Self {
            timers,
            peer_id,
            version: Version::V1,
            deadline: Some(now.saturating_add(time)),
            action: None,
            finished: false,
        }
    }

    /// The next step may take `time`.
    pub(super) fn wait(&mut self, now: Instant, time: Duration) {
        self.deadline = Some(now.saturating_add(time));
    }

    /// Whether the time of the step is over.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// The peer sends no more by TCP, and the link may yet come up.
    pub(super) fn note_fin(&mut self) {
        self.finished = true;
    }

    /// Whether another message of the peer may come.
    pub(super) fn may_hear(&self) -> bool {
        !self.finished
    }

    /// Hands out a message that TCP has to take in time. Ends if there is no such message, which
    /// would be a fault of this side.
    pub(super) fn send(&mut self, now: Instant, message: &ClcMessage) -> bool {
        match Bytes::of(message) {
            Some(bytes) => {
                self.wait(now, self.timers.clc);
                self.action = Some(ClcAction::Send(bytes));
                true
            }
            None => {
                self.finish(ClcOutcome::Abort(Reason::Internal));
                false
            }
        }
    }

    /// Hands out a Decline in place of the next message. Returns whether it did: a peer that has sent all
    /// it had, and no Decline, believes in the link, so that only a reset is left.
    pub(super) fn decline(&mut self, now: Instant, reason: Reason) -> bool {
        if self.finished {
            self.finish(ClcOutcome::Abort(reason));
            return false;
        }
        let decline = Decline::new(self.peer_id, reason, self.version);
        self.send(now, &ClcMessage::Decline(decline))
    }

    /// The message by which this side agrees.
    pub(super) fn answer(&self, prepared: &Prepared) -> Answer {
        Answer {
            peer: self.peer_id,
            first_contact: prepared.first_contact,
            endpoint: prepared.endpoint,
            v2: prepared.v2,
        }
    }

    /// Has the engine prepare this side's end. The peer waits meanwhile and may not send (CLC-410,
    /// CLC-411).
    pub(super) fn prepare(&mut self, now: Instant, request: ClcRequest) {
        self.wait(now, self.timers.prepare);
        self.action = Some(ClcAction::Prepare(request));
    }

    /// Has the link confirmed.
    pub(super) fn start_llc(&mut self, now: Instant) {
        self.wait(now, self.timers.llc);
        self.action = Some(ClcAction::StartLlc);
    }

    /// Ends with a reset for a local reason.
    pub(super) fn abort(&mut self, reason: LocalReason) {
        self.finish(ClcOutcome::Abort(Reason::Local(reason)));
    }

    /// Ends. Whatever was not yet handed out is void.
    pub(super) fn finish(&mut self, outcome: ClcOutcome) {
        self.deadline = None;
        self.action = Some(ClcAction::Done(outcome));
    }
}
