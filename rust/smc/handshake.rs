// SPDX-License-Identifier: GPL-2.0

//! Drives the CLC handshake of a connection over its TCP connection.
//!
//! Source: RFC 7609 sections 3.5.1, 3.5.2, appendix C.1 to C.6; the decisions are in `proto::clc`.
//!
//! Nothing here waits: the work item runs when TCP has something, when the link group has changed,
//! or when a timer is due. A peer that stalls costs its own connection's memory and nothing else.

use super::{
    connection::{
        Connection,
        Mode,
        Side,
        HANDSHAKE, //
    },
    link_group::{
        LinkGroup,
        Phase, //
    },
    listen, now,
    offer::{
        self,
        Offer,
        Release, //
    },
};
use crate::{
    kapi::{
        net::sock::TcpState,
        time::jiffies_from_ns,
        work::Run, //
    },
    proto::{
        clc::{
            client::Client,
            server::Server,
            Action,
            Assembler,
            Bytes,
            LlcOutcome,
            Machine,
            Outcome,
            Request,
            Timers, //
        },
        reason::{
            Local,
            Reason, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Octets that tell the start of a message from an application's data, and some more.
const START_BYTES: usize = 8;

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
    machine: Machine,
    assembler: Assembler,
    /// A message TCP has not taken completely.
    out: Option<(Bytes, usize)>,
    /// What was reserved for the peer.
    offer: Option<Offer>,
    /// A preparation that waits for the link group.
    parked: Option<Request>,
}

impl Handshake {
    fn new(machine: Machine) -> Result<KBox<Self>> {
        Ok(KBox::new(
            Self {
                machine,
                assembler: Assembler::new(),
                out: None,
                offer: None,
                parked: None,
            },
            GFP_KERNEL,
        )?)
    }

    /// The client's side, to begin when TCP is established. Sleeps.
    fn client(connection: &Arc<Connection>) -> Result<KBox<Self>> {
        let now = now();
        let timers = Timers::DEFAULT;
        let machine = match offer::proposal(connection) {
            Ok(proposal) => Client::new(now, timers, proposal),
            Err(reason) => Client::declining(now, timers, connection.net.peer_id(None), reason),
        };
        Self::new(Machine::Client(machine))
    }

    /// The server's side. Sleeps.
    fn server(connection: &Arc<Connection>) -> Result<KBox<Self>> {
        let peer_id = connection.net.peer_id(offer::path(connection).as_ref());
        let machine = Server::new(now(), Timers::DEFAULT, peer_id);
        Self::new(Machine::Server(machine))
    }

    /// Gives TCP what it will take. `Err` when the TCP connection is gone.
    fn flush(&mut self, connection: &Connection) -> Result {
        while let Some((bytes, done)) = self.out.as_mut() {
            let rest = bytes.as_slice().get(*done..).unwrap_or_default();
            if rest.is_empty() {
                self.out = None;
                self.machine.handle_sent(now());
                break;
            }
            match connection.sk.try_send(rest) {
                Ok(count) => *done = done.saturating_add(count),
                Err(error) if error == EAGAIN => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads no more than the message that is expected. Returns whether something was read.
    fn read(&mut self, connection: &Connection) -> bool {
        let now = now();
        if self.machine.awaits_start() {
            match self.look(connection) {
                Some(true) => {}
                Some(false) => return true,
                None => return false,
            }
        }
        match connection.sk.try_recv(self.assembler.room()) {
            Ok(0) => {
                self.machine.handle_eof(now);
                true
            }
            Ok(count) => {
                let made = self.assembler.filled(count);
                self.machine.handle_octets(now, made);
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
    fn look(&mut self, connection: &Connection) -> Option<bool> {
        let mut first = [0; START_BYTES];
        match connection.sk.try_peek(&mut first) {
            Ok(count) if count > 0 => {
                let octets = first.get(..count).unwrap_or_default();
                let is_message = self.machine.handle_first(octets);
                (is_message || !self.machine.awaits_start()).then_some(is_message)
            }
            Err(error) if error == EAGAIN => None,
            // Receiving says the same.
            Ok(_) | Err(_) => Some(true),
        }
    }

    /// Prepares our end; parks the request when the link group must do something first.
    fn prepare(&mut self, connection: &Arc<Connection>, request: Request) {
        let answer = match offer::prepare(connection, &request) {
            // Nothing has been said yet, so a Decline will do (`SMCR-FBK-05`, `SMCR-FBK-06`).
            Ok(Some(offer)) if offer.group.phase() == Phase::Dead => {
                offer.release(connection, Release::Declined);
                Err(Reason::NoActiveLink)
            }
            Ok(Some(offer)) => Ok(self.offer.insert(offer).prepared),
            Ok(None) => {
                self.parked = Some(request);
                return;
            }
            Err(reason) => Err(reason),
        };
        self.machine.handle_prepared(now(), answer);
    }

    fn perform(&mut self, connection: &Arc<Connection>, action: Action) -> Option<Outcome> {
        match action {
            Action::Send(bytes) => self.out = Some((bytes, 0)),
            Action::Prepare(request) => self.prepare(connection, request),
            Action::Connect(confirm) => {
                let result = match self.offer.as_mut() {
                    Some(offer) => offer.connect(&confirm.endpoint),
                    None => Err(Reason::Internal),
                };
                self.machine.handle_connected(now(), result);
            }
            Action::StartLlc => {
                let started = match self.offer.as_ref() {
                    Some(offer) => LinkGroup::start_llc(&offer.group, connection),
                    None => Err(EINVAL),
                };
                if started.is_err() {
                    let outcome = LlcOutcome::Decline(Reason::ReadyLink);
                    self.machine.handle_llc(now(), outcome);
                }
            }
            Action::Done(outcome) => return Some(outcome),
        }
        None
    }

    /// Goes on as far as possible. Returns how it ended, if it did.
    fn advance(&mut self, connection: &Arc<Connection>) -> Option<Outcome> {
        if let Some(request) = self.parked.take() {
            self.prepare(connection, request);
        }
        loop {
            if self.flush(connection).is_err() {
                self.out = None;
                self.machine.handle_eof(now());
            }
            let llc = connection.mail.lock().llc.take();
            if let Some(outcome) = llc {
                self.machine.handle_llc(now(), outcome);
            }
            // The link of an established group died under the handshake; that of a first contact
            // is reported by `mail`.
            let lost = self.offer.as_ref().is_some_and(|offer| {
                !offer.is_first_contact() && offer.group.phase() == Phase::Dead
            });
            if lost {
                return Some(Outcome::Abort(Reason::NoActiveLink));
            }
            if self.machine.poll_timeout().is_some_and(|at| at <= now()) {
                self.machine.handle_timeout(now());
            }
            if let Some(action) = self.machine.poll_action() {
                if let Some(outcome) = self.perform(connection, action) {
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

impl Connection {
    /// TCP may have come up: begins the handshake, or falls back. Sleeps.
    fn tcp_connected(this: &Arc<Self>) {
        match this.sk.tcp_state() {
            TcpState::SynSent | TcpState::SynRecv => return,
            TcpState::Close => {
                if this.change_mode(Mode::Connecting, Mode::Tcp) {
                    this.sk.wake_state();
                }
                return;
            }
            _ => {}
        }
        if !this.sk.peer_agreed() {
            this.settle(match this.sk.peer_echoes() {
                true => Reason::Local(Local::OptionEchoed),
                false => Reason::PeerNoSmc,
            });
            return;
        }
        match Handshake::client(this) {
            Ok(handshake) => {
                *this.handshake.lock() = Some(handshake);
                if this.change_mode(Mode::Connecting, Mode::Negotiating) {
                    Self::step(this);
                }
            }
            // The peer waits for a message and will give up; without memory there is no better way.
            Err(_) => {
                this.set_mode(Mode::Tcp);
                this.sk.abort(ENOMEM);
            }
        }
    }

    /// A client's connection is TCP after all: tells who waits for `connect`.
    fn settle(&self, reason: Reason) {
        self.fall_back(reason);
        self.sk.wake_state();
        self.sk.wake_writable();
    }

    /// Begins the server's side for a child of a listener. Sleeps.
    pub(super) fn negotiate(this: &Arc<Self>) -> Result {
        let handshake = Handshake::server(this)?;
        *this.handshake.lock() = Some(handshake);
        this.set_mode(Mode::Negotiating);
        this.kick_handshake();
        Ok(())
    }

    /// Goes on with the handshake. Sleeps.
    fn step(this: &Arc<Self>) {
        let (handshake, outcome) = {
            let mut guard = this.handshake.lock();
            let Some(handshake) = (*guard).as_mut() else {
                return;
            };
            let Some(outcome) = handshake.advance(this) else {
                if let Some(at) = handshake.machine.poll_timeout() {
                    let delay = at.saturating_since(now()).as_nanos();
                    let queue = &this.engine.queue;
                    this.handshake_work.arm(this, queue, jiffies_from_ns(delay));
                }
                return;
            };
            (guard.take(), outcome)
        };
        let Some(handshake) = handshake else { return };
        let Handshake {
            assembler, offer, ..
        } = KBox::into_inner(handshake);
        // Part of a crossing message has been consumed: the stream cannot be handed to the user.
        let torn = assembler.is_started() && matches!(outcome, Outcome::Fallback { .. });
        let outcome = if torn {
            Outcome::Abort(Reason::Local(Local::ClcProtocol))
        } else {
            outcome
        };
        Self::conclude(this, offer, outcome);
    }

    /// The handshake is over.
    fn conclude(this: &Arc<Self>, offer: Option<Offer>, outcome: Outcome) {
        match (outcome, offer) {
            (Outcome::Smc, Some(offer)) => match offer.activate(this) {
                Ok(()) => {
                    this.net.count_smc(this.side);
                    Self::hand_over(this);
                }
                Err(_) => Self::fail(this),
            },
            (
                Outcome::Fallback {
                    reason,
                    by_peer,
                    out_of_sync,
                },
                offer,
            ) => {
                if let Some(offer) = offer {
                    let how = match out_of_sync {
                        true => Release::OutOfSync,
                        false => Release::Declined,
                    };
                    offer.release(this, how);
                }
                let _ = by_peer;
                this.fall_back(reason);
                Self::hand_over(this);
            }
            (Outcome::Abort(reason), offer) => {
                if let Some(offer) = offer {
                    offer.release(this, Release::Broken);
                }
                this.net.count_abort(this.side, reason);
                Self::fail(this);
            }
            (Outcome::NoProposal { silent }, _) => {
                if silent {
                    this.doubt_first();
                }
                this.fall_back(Reason::PeerNoSmc);
                Self::hand_over(this);
            }
            (Outcome::Smc, None) => {
                this.net
                    .count_abort(this.side, Reason::Local(Local::ClcProtocol));
                Self::fail(this);
            }
        }
    }

    /// The socket is ready for its user.
    fn hand_over(this: &Arc<Self>) {
        match this.side {
            Side::Client => {
                this.sk.wake_state();
                this.sk.wake_writable();
            }
            Side::Server => listen::deliver(this),
        }
    }

    /// The TCP connection cannot be saved (`SMCR-FBK-15`).
    fn fail(this: &Arc<Self>) {
        this.set_mode(Mode::Tcp);
        this.sk.abort(ECONNABORTED);
        if this.side == Side::Server {
            listen::discard(this);
        }
    }

    /// The user closes the socket while the handshake runs, or its listener goes away. Sleeps
    /// until nothing of the handshake runs any more. Returns whether it broke off a dialogue that the
    /// peer goes on with, so that TCP cannot be used.
    pub(super) fn cancel_handshake(this: &Arc<Self>) -> bool {
        this.set_mode(Mode::Tcp);
        this.handshake_work.cancel_sync();
        let handshake = this.handshake.lock().take();
        let broken_off = handshake.is_some();
        if let Some(offer) = handshake.and_then(|handshake| KBox::into_inner(handshake).offer) {
            offer.release(this, Release::Broken);
        }
        broken_off
    }
}

impl Run<HANDSHAKE> for Connection {
    fn run(this: Arc<Self>) {
        match this.mode() {
            Mode::Connecting => Connection::tcp_connected(&this),
            Mode::Negotiating => Connection::step(&this),
            Mode::Smc => Connection::watch_tcp(&this),
            Mode::Listening => listen::take_children(&this),
            Mode::Tcp => {}
        }
    }
}
