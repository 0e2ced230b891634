// SPDX-License-Identifier: GPL-2.0

//! Drives the CLC handshake of a connection over its TCP connection.
//!
//! Source: RFC 7609 sections 3.5.1, 3.5.2, appendix C.1 to C.6; the decisions are in `proto::clc`.
//!
//! Nothing here waits: the work item runs when TCP has something, when the link group has changed,
//! or when a timer is due. A peer that stalls costs its own connection's memory and nothing else.

use super::{
    prepare,
    reservation::{
        Release,
        Reservation, //
    },
    state::{
        Handshake,
        HandshakeStep, //
    },
};
use crate::{
    kapi::{
        compat::errno::ECONNABORTED,
        net::sock::TcpState, //
    },
    proto::{
        base::time::earliest,
        smc::clc::{
            client::Client,
            server::Server,
            ClcOutcome,
            ClcTimers,
            LlcOutcome,
            Machine, //
        },
        stream::reason::{
            LocalReason,
            Reason, //
        },
    },
    smc::{
        group::phase::GroupPhase,
        setup::SmcConnection, //
    },
    sock::{
        connection::Mode,
        context::now,
        listen,
        stats::Side, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Octets that distinguish the start of a message from an application's data, and some more.
const START_BYTES: usize = 8;

impl Handshake {
    /// The client's side, to begin when TCP is established. Context: may sleep.
    fn client(connection: &Arc<SmcConnection>) -> Result<KBox<Self>> {
        match prepare::proposal(connection) {
            Ok(proposal) => Self::proposing(&proposal),
            Err(reason) => Self::declining(connection, reason),
        }
    }

    #[inline(never)]
    fn declining(connection: &SmcConnection, reason: Reason) -> Result<KBox<Self>> {
        let peer_id = connection.protocol.net.peer_id(None);
        let client = Client::declining(now(), ClcTimers::DEFAULT, peer_id, reason);
        Self::new(Machine::Client(client))
    }

    /// The server's side. Context: may sleep.
    fn server(connection: &Arc<SmcConnection>) -> Result<KBox<Self>> {
        let peer_id = connection
            .protocol
            .net
            .peer_id(prepare::path(connection).as_ref());
        let machine = Server::new(now(), ClcTimers::DEFAULT, peer_id);
        Self::new(Machine::Server(machine))
    }

    /// Sends the pending message as far as TCP takes it. `Err` when the TCP connection is gone.
    fn flush(&mut self, connection: &SmcConnection) -> Result {
        while let Some((bytes, done)) = self.out.as_mut() {
            let rest = bytes.as_slice().get(*done..).unwrap_or_default();
            if rest.is_empty() {
                self.out = None;
                self.machine.handle_sent(now());
                break;
            }
            let sent = match connection.sk.try_lock() {
                Ok(mut sk) => sk.send(rest),
                Err(_) => {
                    self.missed = true;
                    break;
                }
            };
            match sent {
                Ok(count) => *done = done.saturating_add(count),
                Err(error) if error == EAGAIN => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads no more than the message that is expected. Returns whether something was read.
    fn read(&mut self, connection: &SmcConnection) -> bool {
        let now = now();
        if self.machine.awaits_start() {
            match self.look(connection) {
                Some(true) => {}
                Some(false) => return true,
                None => return false,
            }
        }
        let received = match connection.sk.try_lock() {
            Ok(mut sk) => sk.recv(self.assembler.room()),
            Err(_) => {
                self.missed = true;
                return false;
            }
        };
        match received {
            Ok(0) => {
                self.machine.handle_fin(now);
                true
            }
            Ok(count) => {
                self.received(count);
                true
            }
            Err(error) if error == EAGAIN => false,
            Err(_) => {
                self.machine.handle_eof(now);
                true
            }
        }
    }

    /// Looks at the first octets without consuming them, as they may be the application's. Returns
    /// whether they are a message's; `None` when that is not known yet.
    fn look(&mut self, connection: &SmcConnection) -> Option<bool> {
        let mut first = [0; START_BYTES];
        let peeked = match connection.sk.try_lock() {
            Ok(mut sk) => sk.peek(&mut first),
            Err(_) => {
                self.missed = true;
                return None;
            }
        };
        match peeked {
            Ok(count) if count > 0 => {
                let octets = first.get(..count).unwrap_or_default();
                let is_message = self.machine.handle_first(octets);
                (is_message || !self.machine.awaits_start()).then_some(is_message)
            }
            Err(error) if error == EAGAIN => None,
            // A receive reports the same.
            Ok(_) | Err(_) => Some(true),
        }
    }

    /// Prepares our end; the request stays when the link group must do something first.
    #[inline(never)]
    fn prepare(&mut self, connection: &Arc<SmcConnection>) {
        let Some((request, since)) = self.request.as_ref() else {
            return;
        };
        let result = match prepare::prepare(connection, request, *since) {
            // No answer was sent yet, so a Decline is allowed (`SMCR-FBK-05`, `SMCR-FBK-06`).
            Ok(Some(reservation)) if reservation.group.phase() == GroupPhase::Dead => {
                prepare::release(reservation, connection, Release::Declined);
                Err(Reason::NoActiveLink)
            }
            Ok(Some(reservation)) => {
                self.reservation = Some(reservation);
                Ok(())
            }
            Ok(None) => return,
            Err(reason) => Err(reason),
        };
        self.request = None;
        self.prepared(result);
    }

    fn perform(
        &mut self,
        connection: &Arc<SmcConnection>,
        step: HandshakeStep,
    ) -> Option<ClcOutcome> {
        match step {
            // Done by `flush`.
            HandshakeStep::Send => {}
            HandshakeStep::Prepare => self.prepare(connection),
            HandshakeStep::Connect(peer) => self.connect(&peer),
            HandshakeStep::StartLlc => {
                let started = match self.reservation.as_ref() {
                    Some(reservation) => reservation.group.start_llc(connection.clone()),
                    None => Err(EINVAL),
                };
                if started.is_err() {
                    let outcome = LlcOutcome::Decline(Reason::ReadyLink);
                    self.machine.handle_llc(now(), outcome);
                }
            }
            HandshakeStep::Done(outcome) => return Some(outcome),
        }
        None
    }

    /// Goes on as far as possible. Returns how it ended, if it did.
    fn advance(&mut self, connection: &Arc<SmcConnection>) -> Option<ClcOutcome> {
        self.missed = false;
        self.prepare(connection);
        loop {
            if self.flush(connection).is_err() {
                self.out = None;
                self.machine.handle_eof(now());
            }
            let llc = connection.protocol.mail.lock().llc.take();
            if let Some(outcome) = llc {
                self.machine.handle_llc(now(), outcome);
            }
            // The link of an established group died under the handshake; that of a first contact
            // is reported by `mail`.
            let lost = self.reservation.as_ref().is_some_and(|reservation| {
                !reservation.is_first_contact() && reservation.group.phase() == GroupPhase::Dead
            });
            if lost {
                return Some(ClcOutcome::Abort(Reason::NoActiveLink));
            }
            if self.machine.poll_timeout().is_some_and(|at| at <= now()) {
                self.machine.handle_timeout(now());
            }
            if let Some(step) = self.next() {
                if let Some(outcome) = self.perform(connection, step) {
                    return Some(outcome);
                }
                continue;
            }
            if self.out.is_some() || !self.machine.expects_message() || !self.read(connection) {
                return None;
            }
        }
    }
}

impl SmcConnection {
    /// TCP may have come up: begins the handshake, or falls back. Returns whether there is a
    /// handshake to go on with. Context: may sleep.
    #[inline(never)]
    fn tcp_connected(self: &Arc<Self>) -> bool {
        match self.sk.tcp_state() {
            TcpState::SynSent | TcpState::SynRecv => return false,
            TcpState::Close => {
                if self.change_mode(Mode::Connecting, Mode::Tcp) {
                    self.sk.wake_state();
                }
                return false;
            }
            _ => {}
        }
        if !self.sk.peer_agreed() {
            self.settle_for_tcp(if self.sk.peer_echoes() {
                Reason::Local(LocalReason::OptionEchoed)
            } else {
                Reason::PeerNoSmc
            });
            return false;
        }
        match Handshake::client(self) {
            Ok(handshake) => {
                *self.protocol.handshake.lock() = Some(handshake);
                self.change_mode(Mode::Connecting, Mode::Negotiating)
            }
            // The peer waits for a message and will give up; without memory there is no better way.
            Err(_) => {
                self.change_mode(Mode::Connecting, Mode::Negotiating);
                self.doom(ENOMEM);
                false
            }
        }
    }

    /// Begins the server's side for a child of a listener. Context: may sleep.
    pub(crate) fn begin_server(self: &Arc<Self>) -> Result {
        let handshake = Handshake::server(self)?;
        *self.protocol.handshake.lock() = Some(handshake);
        self.set_mode(Mode::Negotiating);
        self.kick_setup();
        Ok(())
    }

    /// Goes on with the handshake. Context: may sleep.
    #[inline(never)]
    fn step(self: &Arc<Self>) {
        let (handshake, outcome) = {
            let mut guard = self.protocol.handshake.lock();
            let Some(handshake) = (*guard).as_mut() else {
                return;
            };
            let Some(outcome) = handshake.advance(self) else {
                let now = now();
                let retry = if handshake.missed {
                    Some(self.setup_missed())
                } else {
                    None
                };
                let retry = earliest(retry, handshake.waits_until(now));
                if let Some(at) = earliest(handshake.machine.poll_timeout(), retry) {
                    self.arm_setup(at);
                }
                if !handshake.missed {
                    self.setup_locked();
                }
                return;
            };
            (guard.take(), outcome)
        };
        let Some(mut handshake) = handshake else {
            return;
        };
        let reservation = handshake.reservation.take();
        // Part of a crossing message has been consumed: the stream cannot be handed to the user.
        let torn =
            handshake.assembler.is_started() && matches!(outcome, ClcOutcome::Fallback { .. });
        drop(handshake);
        let outcome = if torn {
            ClcOutcome::Abort(Reason::Local(LocalReason::ClcProtocol))
        } else {
            outcome
        };
        self.conclude(reservation, outcome);
    }

    /// Both sides agree on SMC-R.
    fn establish(self: &Arc<Self>, reservation: Reservation) {
        let version = reservation.group.key.version;
        let is_founder = reservation.is_first_contact();
        let founded = is_founder.then(|| reservation.group.clone());
        if let Err(error) = prepare::activate(reservation, self) {
            // The peer believes that it is on: there is no word left but a reset.
            let reason = if error == ENOMEM {
                Reason::Memory
            } else {
                Reason::NoActiveLink
            };
            self.net.count_abort(self.side, reason);
            return self.fail();
        }
        self.net.count_established(self.side);
        self.protocol.net.count_version(self.side, version);
        self.hand_over();
        if let Some(group) = founded {
            group.end_founding();
        }
    }

    /// The handshake is over.
    #[inline(never)]
    fn conclude(self: &Arc<Self>, reservation: Option<Reservation>, outcome: ClcOutcome) {
        match (outcome, reservation) {
            (ClcOutcome::Smc, Some(reservation)) => self.establish(reservation),
            (
                ClcOutcome::Fallback {
                    reason,
                    out_of_sync,
                    by_peer,
                },
                reservation,
            ) => {
                if !by_peer {
                    // The peer may decline at the same time.
                    self.set_doubtful(true);
                }
                if let Some(reservation) = reservation {
                    let how = if out_of_sync {
                        Release::OutOfSync
                    } else {
                        Release::Declined
                    };
                    prepare::release(reservation, self, how);
                }
                self.fall_back_for(reason, by_peer);
                self.hand_over();
            }
            (ClcOutcome::Abort(reason), reservation) => {
                if let Some(reservation) = reservation {
                    prepare::release(reservation, self, Release::Broken);
                }
                self.net.count_abort(self.side, reason);
                self.fail();
            }
            (ClcOutcome::NoProposal { silent }, _) => {
                if silent {
                    self.set_doubtful(true);
                }
                self.fall_back(Reason::PeerNoSmc);
                self.hand_over();
            }
            (ClcOutcome::Smc, None) => {
                self.net
                    .count_abort(self.side, Reason::Local(LocalReason::ClcProtocol));
                self.fail();
            }
        }
    }

    /// The socket is ready for its user.
    fn hand_over(self: &Arc<Self>) {
        match self.side {
            Side::Client => self.tell_connected(),
            Side::Server => listen::deliver(self),
        }
    }

    /// The TCP connection cannot be saved (`SMCR-FBK-15`).
    fn fail(self: &Arc<Self>) {
        if self.side == Side::Server {
            // No program has the child, so its lock is free.
            self.set_mode(Mode::Tcp);
            self.sk.abort(ECONNABORTED);
            listen::discard(self);
        } else {
            self.doom(ECONNABORTED);
        }
    }

    /// Ends the handshake, whose work item does not run. Returns whether it was under way.
    /// Context: may sleep.
    pub(crate) fn cancel_handshake(&self) -> bool {
        let handshake = self.protocol.handshake.lock().take();
        let was_under_way = handshake.is_some();
        if let Some(reservation) = handshake.and_then(|mut handshake| handshake.reservation.take())
        {
            prepare::release(reservation, self, Release::Broken);
        }
        was_under_way
    }

    /// Begins the handshake when TCP is established, and goes on with it. Context: may sleep.
    pub(crate) fn run_handshake(self: &Arc<Self>) {
        if self.is_negotiating() || self.tcp_connected() {
            self.step();
        }
    }

    /// The LLC side of first contact has come to an end. Context: any.
    pub(crate) fn llc_outcome(self: &Arc<Self>, outcome: LlcOutcome) {
        self.protocol.mail.lock().llc = Some(outcome);
        self.kick_setup();
    }
}
