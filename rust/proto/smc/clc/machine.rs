// SPDX-License-Identifier: GPL-2.0

//! One side of the handshake, whichever it is.

use super::{
    assembler::{
        Assembler,
        Start, //
    },
    client::Client,
    error::ClcError,
    handshake::LlcOutcome,
    message::ClcMessage,
    server::Server,
    steps::{
        ClcAction,
        Prepared, //
    },
};
use crate::proto::{
    base::time::Instant,
    stream::reason::Reason, //
};

/// The client's or the server's side of a handshake.
#[expect(
    clippy::large_enum_variant,
    reason = "there is no memory to put the larger one in, and there is one of them"
)]
pub(crate) enum Machine {
    /// The side that connects.
    Client(Client),
    /// The side that listens.
    Server(Server),
}

/// Passes a call on to the side it is for.
macro_rules! pass {
    ($self:ident, $machine:ident => $call:expr) => {
        match $self {
            Self::Client($machine) => $call,
            Self::Server($machine) => $call,
        }
    };
}

impl Machine {
    /// What to do next.
    #[must_use]
    pub(crate) fn poll_action(&mut self) -> Option<ClcAction> {
        pass!(self, machine => machine.poll_action())
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        pass!(self, machine => machine.poll_timeout())
    }

    /// Whether the peer may send a CLC message. The engine reads TCP only then.
    pub(crate) fn expects_message(&self) -> bool {
        pass!(self, machine => machine.expects_message())
    }

    /// Whether the client has yet to begin: what TCP has may be looked at, but not be consumed.
    pub(crate) fn awaits_start(&self) -> bool {
        match self {
            Self::Client(_) => false,
            Self::Server(machine) => machine.awaits_start(),
        }
    }

    /// The first octets TCP has, where [`Self::awaits_start`]. Says whether they may be consumed
    /// now; more of them may tell more.
    pub(crate) fn handle_first(&mut self, octets: &[u8]) -> bool {
        let Self::Server(machine) = self else {
            return true;
        };
        match Assembler::judge(octets) {
            Start::Message => machine.handle_start(),
            Start::Foreign => machine.handle_foreign(),
            Start::Unclear => return false,
        }
        !machine.awaits_start() && machine.expects_message()
    }

    /// The time of [`Self::poll_timeout`] has come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        pass!(self, machine => machine.handle_timeout(now));
    }

    /// What the assembler made of the octets that have arrived.
    pub(crate) fn handle_octets(
        &mut self,
        now: Instant,
        made: Result<Option<ClcMessage>, ClcError>,
    ) {
        match made {
            Ok(None) => {}
            Ok(Some(message)) => pass!(self, machine => machine.handle_message(now, &message)),
            Err(error) => pass!(self, machine => machine.handle_error(now, error)),
        }
    }

    /// The peer sends no more by TCP.
    pub(crate) fn handle_fin(&mut self, now: Instant) {
        pass!(self, machine => machine.handle_fin(now));
    }

    /// The TCP connection failed.
    pub(crate) fn handle_eof(&mut self, now: Instant) {
        pass!(self, machine => machine.handle_eof(now));
    }

    /// TCP has taken the octets of [`ClcAction::Send`].
    pub(crate) fn handle_sent(&mut self, now: Instant) {
        pass!(self, machine => machine.handle_sent(now));
    }

    /// Answers [`ClcAction::Prepare`].
    pub(crate) fn handle_prepared(&mut self, now: Instant, result: Result<Prepared, Reason>) {
        pass!(self, machine => machine.handle_prepared(now, result));
    }

    /// Answers [`ClcAction::Connect`], which only a server hands out.
    pub(crate) fn handle_connected(&mut self, now: Instant, result: Result<(), Reason>) {
        if let Self::Server(machine) = self {
            machine.handle_connected(now, result);
        }
    }

    /// The LLC exchange of a first contact is over.
    pub(crate) fn handle_llc(&mut self, now: Instant, outcome: LlcOutcome) {
        pass!(self, machine => machine.handle_llc(now, outcome));
    }
}
