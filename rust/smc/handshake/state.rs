// SPDX-License-Identifier: GPL-2.0

//! A CLC handshake under way: its machine, its messages, and what is reserved for it.
//!
//! Source: RFC 7609 sections 3.5.1, 3.5.2; the decisions are in `proto::clc`.

use super::reservation::Reservation;
use crate::{
    proto::{
        base::time::Instant,
        smc::{
            clc::{
                client::Client,
                Addition,
                Assembler,
                Bytes,
                ClcAction,
                ClcOutcome,
                ClcRequest,
                ClcTimers,
                Endpoint,
                LlcOutcome,
                Machine,
                Proposal, //
            },
            hosts, //
        },
        stream::reason::Reason, //
    },
    sock::context::now, //
};
use kernel::prelude::*;

/// Messages from others to the handshake.
pub(crate) struct Mail {
    /// How the LLC side of first contact ended.
    pub(crate) llc: Option<LlcOutcome>,
}

impl Mail {
    pub(crate) const fn new() -> Self {
        Self { llc: None }
    }
}

/// A handshake under way.
pub(crate) struct Handshake {
    /// The CLC state machine.
    pub(crate) machine: Machine,
    /// Assembles messages from the TCP stream.
    pub(crate) assembler: Assembler,
    /// A message TCP has not taken completely.
    pub(crate) out: Option<(Bytes, usize)>,
    /// Our end, reserved for the peer.
    pub(crate) reservation: Option<Reservation>,
    /// What to prepare for and since when, while that is not done: it may wait for the link group.
    pub(crate) request: Option<(ClcRequest, Instant)>,
    /// A program had the sock lock when this run wanted it.
    pub(crate) missed: bool,
}

/// An [`ClcAction`] whose bulk the [`Handshake`] holds: the kernel's stack is small, and TCP, the
/// routing tables and a device's driver are called from here.
pub(crate) enum HandshakeStep {
    Send,
    Prepare,
    Connect(Endpoint),
    StartLlc,
    Done(ClcOutcome),
}

impl Handshake {
    pub(crate) fn new(machine: Machine) -> Result<KBox<Self>> {
        Ok(KBox::new(
            Self {
                machine,
                assembler: Assembler::new(),
                out: None,
                reservation: None,
                request: None,
                missed: false,
            },
            GFP_KERNEL,
        )?)
    }

    #[inline(never)]
    pub(crate) fn proposing(proposal: &Proposal) -> Result<KBox<Self>> {
        let client = Client::new(now(), ClcTimers::DEFAULT, *proposal);
        Self::new(Machine::Client(client))
    }

    /// `count` octets have come into the assembler.
    #[inline(never)]
    pub(crate) fn received(&mut self, count: usize) {
        let made = self.assembler.filled(count);
        self.machine.handle_octets(now(), made);
    }

    /// When to prepare again if nothing happens: the first contact that this waits for may hang.
    pub(crate) fn waits_until(&self, now: Instant) -> Option<Instant> {
        let (_, since) = self.request.as_ref()?;
        Some(hosts::waits_until(*since)).filter(|at| *at > now)
    }

    /// Our end is ready, or cannot be.
    #[inline(never)]
    pub(crate) fn prepared(&mut self, result: Result<(), Reason>) {
        let reservation = self.reservation.as_ref().ok_or(Reason::Internal);
        let prepared = result
            .and(reservation)
            .map(|reservation| *reservation.prepared);
        self.machine.handle_prepared(now(), prepared);
    }

    /// The peer's end is known.
    #[inline(never)]
    pub(crate) fn connect(&mut self, peer: &Endpoint) {
        let result = match self.reservation.as_mut() {
            Some(reservation) => reservation.connect(peer),
            None => Err(Reason::Internal),
        };
        self.machine.handle_connected(now(), result);
    }

    /// What to do next.
    #[inline(never)]
    pub(crate) fn next(&mut self) -> Option<HandshakeStep> {
        Some(match self.machine.poll_action()? {
            ClcAction::Send(bytes) => {
                self.out = Some((bytes, 0));
                HandshakeStep::Send
            }
            ClcAction::Prepare(request) => {
                self.request = Some((request, now()));
                HandshakeStep::Prepare
            }
            ClcAction::Connect(confirm) => {
                let system = confirm.v2.as_ref().and_then(Addition::system);
                if let (Some(reservation), Some(system)) = (self.reservation.as_ref(), system) {
                    *reservation.group.system.lock() = Some(system);
                }
                HandshakeStep::Connect(confirm.endpoint)
            }
            ClcAction::StartLlc => HandshakeStep::StartLlc,
            ClcAction::Done(outcome) => HandshakeStep::Done(outcome),
        })
    }
}
