// SPDX-License-Identifier: GPL-2.0

//! How a connection comes about, draft 8.1.1 (SDP-CONN-*, SDP-CS-1 to SDP-CS-9).
//!
//! ```text
//!   connecting                                   accepting
//!   Asking --mapped--> Resolving                 Listening --valid Hello--> Accepted
//!                        | resolved                  | invalid                | link up
//!                        v                           v RejectLink             v
//!                      Opening --HelloAck--> Done   Done <---------------- Established
//! ```
//!
//! Until `Established` the engine may fall back to TCP, and no program sees it. The child of a
//! listener reaches `accept` only when the link is up, so that a client that went on to TCP leaves
//! nothing there. A refusal that passes leads from Opening to Pausing, and back with another link.

use super::{
    hello::{
        HelloAddrs,
        HelloFault,
        HelloForm,
        HelloOctets,
        HelloRest,
        ReadDepths,
        SdpHello,
        SdpHelloAck,
        MAX_HELLO,
        MAX_HELLO_ACK, //
    },
    profile::{
        Dialect,
        Profile,
        SdpTransport,
        WireLayout, //
    },
};
use crate::proto::base::{
    queue::ArrayQueue,
    retry::Backoff,
    time::{
        Duration,
        Instant, //
    },
};

/// The largest message we send or buffer we post, whatever a peer says, in octets.
const SIZE_CAP: u32 = 64 << 10;
/// The smallest receive buffers we post, in octets.
const SIZE_FLOOR: u32 = 2048;

/// What this end brings to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SdpOffer {
    /// How set-up messages travel.
    pub(crate) transport: SdpTransport,
    /// Receive buffers posted before the first message.
    pub(crate) bufs: u16,
    /// Their size in octets; the acceptor may make it smaller if the peer wants less.
    pub(crate) size: u32,
    /// Size of the receive buffers that the peer should have, in octets.
    pub(crate) desired_size: u32,
    /// Adverts taken at a time.
    pub(crate) max_adverts: u16,
    /// RDMA Reads that the queue pair can have in flight.
    pub(crate) depths: ReadDepths,
    /// Whether the device takes Send with Invalidate.
    pub(crate) invalidates: bool,
    /// The addresses, as a Hello of InfiniBand carries them.
    pub(crate) addrs: HelloAddrs,
}

/// Which end opened the connection; decides conflicts (SDP-ST-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SetupRole {
    /// Sent Hello.
    Connecting,
    /// Sent HelloAck.
    Accepting,
}

/// What both ends have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SdpTerms {
    /// The profile, with the layout and the dialect of the peer.
    pub(crate) profile: Profile,
    /// Which end this is.
    pub(crate) role: SetupRole,
    /// Receive buffers that the peer has posted.
    pub(crate) peer_bufs: u16,
    /// Size of the peer's receive buffers, as far as we use it, in octets.
    pub(crate) peer_size: u32,
    /// Adverts that the peer takes at a time.
    pub(crate) peer_adverts: u16,
    /// Receive buffers that we have posted.
    pub(crate) bufs: u16,
    /// Their size in octets.
    pub(crate) size: u32,
    /// Adverts that we take at a time.
    pub(crate) adverts: u16,
    /// Our RDMA Reads in flight, and those of the peer, at most.
    pub(crate) depths: ReadDepths,
    /// Whether the peer takes Send with Invalidate.
    pub(crate) invalidates: bool,
}

/// Origin of the refusal of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetupRefusal {
    /// The Port Mapper of the peer: PMDeny.
    Denied,
    /// The host of the peer has no Port Mapper: ICMP port unreachable.
    Absent,
    /// The connection manager of the peer, or TCP below iWARP.
    Rejected,
    /// The connection manager of the peer has no listener for the service.
    NoListener,
    /// The connection manager of the peer knows an older connection with the queue pair.
    Stale,
    /// The peer has no room for another connection at the moment.
    Busy,
}

impl SetupRefusal {
    /// Whether another link may be accepted where this one was not.
    const fn passes(self) -> bool {
        match self {
            Self::Stale | Self::Busy => true,
            Self::Denied | Self::Absent | Self::Rejected | Self::NoListener => false,
        }
    }
}

/// Pauses before further links, after refusals that pass.
const PAUSES: Backoff = Backoff {
    first: Duration::from_millis(10),
    most: Duration::from_millis(640),
};
/// Links after the first, or after a sign of life of the peer's host, at most. The pauses before them are
/// 1910 ms in all. A crowd of clients passes in that time, also on a slow host. The clients of a listener
/// under attack wait no longer before they use TCP.
const FURTHER_LINKS: u32 = 8;

/// How long each try to resolve the address may take. A resolver that looks for the neighbour's answer just
/// before it has come, and waits for it just after, sees it at the end of the try only.
const RESOLVES: Backoff = Backoff {
    first: Duration::from_millis(20),
    most: Duration::from_millis(320),
};

/// Why a connection has to be one of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FallBackReason {
    /// No answer of the Port Mapper in time.
    Silent,
    /// A refusal.
    Refused(SetupRefusal),
    /// The address could not be resolved in time, or not at all.
    Unresolved,
    /// The link did not come up in time.
    Timeout,
    /// The link went down.
    LinkDown,
    /// No memory for the link.
    Memory,
    /// A HelloAck that is not valid (SDP-CONN-23).
    Answer(HelloFault),
    /// A message that has no place here (SDP-CS-5).
    OutOfPlace,
}

/// What the engine is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetupStep {
    /// Ask the Port Mapper of the peer.
    AskPortMapper,
    /// Resolve address and route, the address within this time.
    Resolve(Duration),
    /// Post the receive buffers and open the link with this Hello (SDP-CONN-04, SDP-CONN-08).
    OpenLink(HelloOctets<MAX_HELLO>),
    /// Post the receive buffers and accept with this HelloAck (SDP-CONN-14 to SDP-CONN-16).
    AcceptLink(HelloOctets<MAX_HELLO_ACK>),
    /// Refuse the link; there is no message for that (SDP-CONN-33).
    RejectLink(HelloFault),
    /// Take the link down and free all that belongs to it (SDP-CONN-31).
    CloseLink,
    /// The connection is there: Combined Mode in both directions (SDP-CONN-21, SDP-CONN-28).
    Established(SdpTerms),
    /// Go on with TCP.
    FallBack(FallBackReason),
}

/// How long a set-up waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetupTimers {
    /// For the Port Mapper.
    pub(crate) probe: Duration,
    /// For address and route.
    pub(crate) resolve: Duration,
    /// For HelloAck, from the opening of the link on, or from the last sign of life of the peer's host.
    pub(crate) attempt: Duration,
    /// For HelloAck in all, if the host of the peer goes on to accept others.
    pub(crate) crowd: Duration,
    /// For Hello, where the link is up before.
    pub(crate) hello: Duration,
    /// For the link of an accepted connection to be up (SDP-CONN-34). The client may use the connection
    /// before, so a busy host needs time here, as TCP has for the end of its handshake.
    pub(crate) accept: Duration,
}

impl SetupTimers {
    /// Those of a client whose Port Mapper always answers, in a time of its own, and whose neighbour may be
    /// asked again only after a second. A host that speaks SDP and does not answer is more often busy than
    /// out of reach.
    pub(crate) const ANNEX: Self = Self {
        probe: Duration::from_secs(5),
        resolve: Duration::from_secs(2),
        attempt: Duration::from_secs(5),
        ..Self::DEFAULT
    };

    /// Those of a connection that moves to another path, of which there may be more.
    pub(crate) const MOVE: Self = Self {
        attempt: Self::DEFAULT.attempt,
        ..Self::ANNEX
    };

    /// The timers in use unless the engine changes them.
    pub(crate) const DEFAULT: Self = Self {
        probe: Duration::from_millis(150),
        resolve: Duration::from_secs(1),
        attempt: Duration::from_secs(2),
        crowd: Duration::from_secs(10),
        hello: Duration::from_secs(10),
        accept: Duration::from_secs(30),
    };
}

/// How the client learns whether the peer has SDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discovery {
    /// It asks the Port Mapper, and takes silence for no.
    Ask,
    /// It asks the Port Mapper, and tries after silence.
    AskThenTry,
    /// It tries at once.
    Try,
}

/// What may wait for the engine at a time.
const STEPS: usize = 3;

/// Where a connecting end stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectingState {
    /// The Port Mapper is asked.
    Asking { tries_anyway: bool },
    /// Address and route are resolved, after this number of tries that had no answer.
    Resolving { tries: u32 },
    /// The link is opened.
    Opening,
    /// A refusal passes meanwhile.
    Pausing,
    /// The outcome is known.
    Done,
}

/// The connecting end.
#[derive(Clone, Debug)]
pub(crate) struct Connecting {
    offer: SdpOffer,
    timers: SetupTimers,
    state: ConnectingState,
    /// The end of the state, if nothing else ends it.
    deadline: Instant,
    /// When the first link was opened, or the last sign of life of the peer's host.
    since: Instant,
    /// The end of the attempt, whatever signs there are.
    limit: Instant,
    /// Links that the peer has refused.
    refused: u32,
    /// Those of them after `since`.
    in_a_row: u32,
    steps: ArrayQueue<SetupStep, STEPS>,
}

impl Connecting {
    /// Starts (SDP-CS-1).
    pub(crate) fn new(
        now: Instant,
        timers: SetupTimers,
        offer: SdpOffer,
        discovery: Discovery,
    ) -> Self {
        let mut connecting = Self {
            offer,
            timers,
            state: ConnectingState::Done,
            deadline: now,
            since: now,
            limit: now,
            refused: 0,
            in_a_row: 0,
            steps: ArrayQueue::new(),
        };
        match discovery {
            Discovery::Ask | Discovery::AskThenTry => {
                let tries_anyway = discovery == Discovery::AskThenTry;
                connecting.state = ConnectingState::Asking { tries_anyway };
                connecting.deadline = now.saturating_add(timers.probe);
                connecting.put(SetupStep::AskPortMapper);
            }
            Discovery::Try => connecting.resolve(now),
        }
        connecting
    }

    fn put(&mut self, step: SetupStep) {
        // Always fits: no input puts more than two steps, and the engine takes them after each.
        let _ = self.steps.push(step);
    }

    fn resolve(&mut self, now: Instant) {
        self.deadline = now.saturating_add(self.timers.resolve);
        self.try_resolve(0);
    }

    fn try_resolve(&mut self, tries: u32) {
        self.state = ConnectingState::Resolving { tries };
        self.put(SetupStep::Resolve(RESOLVES.delay(tries)));
    }

    fn fall_back(&mut self, reason: FallBackReason) {
        if self.state == ConnectingState::Opening {
            self.put(SetupStep::CloseLink);
        }
        self.state = ConnectingState::Done;
        self.put(SetupStep::FallBack(reason));
    }

    /// Changes what this end offers, before the address is resolved: only then is its own known.
    pub(crate) fn set_offer(&mut self, offer: SdpOffer) {
        self.offer = offer;
    }

    /// The Port Mapper has accepted.
    pub(crate) fn handle_mapped(&mut self, now: Instant) {
        if matches!(self.state, ConnectingState::Asking { .. }) {
            self.resolve(now);
        }
    }

    /// Address and route are known.
    pub(crate) fn handle_resolved(&mut self, now: Instant) {
        if matches!(self.state, ConnectingState::Resolving { .. }) {
            self.since = now;
            self.limit = now.saturating_add(self.timers.crowd);
            self.open();
        }
    }

    /// The end of the attempt, as far as is known.
    fn end(&self) -> Instant {
        self.limit
            .min(self.since.saturating_add(self.timers.attempt))
    }

    fn open(&mut self) {
        self.state = ConnectingState::Opening;
        self.deadline = self.end();
        let hello = self.hello().emit(WireLayout::IdFirst);
        self.put(SetupStep::OpenLink(hello));
    }

    fn hello(&self) -> SdpHello {
        let offer = &self.offer;
        SdpHello {
            bufs: offer.bufs,
            minor: 1,
            max_adverts: offer.max_adverts,
            desired_size: offer.desired_size,
            local_size: offer.size,
            rest: match offer.transport {
                SdpTransport::Annex => HelloRest::Annex {
                    invalidates: offer.invalidates,
                    extended: true,
                    addrs: offer.addrs,
                },
                SdpTransport::Iwcm | SdpTransport::Strict => HelloRest::Draft(offer.depths),
            },
        }
    }

    /// The link is up, and this came as HelloAck. `depths`: those of the connection manager, where
    /// they are not in the message.
    pub(crate) fn handle_hello_ack(&mut self, octets: &[u8], depths: ReadDepths) {
        if self.state != ConnectingState::Opening {
            return;
        }
        let profile = Profile::new(self.offer.transport);
        let form = match self.offer.transport {
            SdpTransport::Annex => HelloForm::Annex,
            SdpTransport::Iwcm | SdpTransport::Strict => HelloForm::Draft(profile.layout),
        };
        match SdpHelloAck::parse(octets, form) {
            Err(fault) => self.fall_back(FallBackReason::Answer(fault)),
            Ok(ack) => match agree(self.offer.depths, ack.depths.unwrap_or(depths)) {
                Err(fault) => self.fall_back(FallBackReason::Answer(fault)),
                Ok(depths) => self.establish(profile, &ack, depths),
            },
        }
    }

    fn establish(&mut self, mut profile: Profile, ack: &SdpHelloAck, depths: ReadDepths) {
        let is_annex = profile.transport == SdpTransport::Annex;
        if is_annex && ack.max_adverts == 1 {
            profile.dialect = Dialect::CombinedOnly;
        }
        self.state = ConnectingState::Done;
        self.put(SetupStep::Established(SdpTerms {
            profile,
            role: SetupRole::Connecting,
            peer_bufs: ack.bufs,
            peer_size: core::cmp::min(ack.actual_size, SIZE_CAP),
            peer_adverts: ack.max_adverts,
            bufs: self.offer.bufs,
            size: self.offer.size,
            adverts: self.offer.max_adverts,
            depths,
            // A HelloAck of InfiniBand has no capabilities.
            invalidates: !is_annex,
        }));
    }

    /// A Hello, or any message of a connection, came before HelloAck (SDP-CONN-32).
    pub(crate) fn handle_out_of_place(&mut self) {
        if self.state == ConnectingState::Opening {
            self.fall_back(FallBackReason::OutOfPlace);
        }
    }

    /// The peer or its host has refused (SDP-PMC-05, SDP-PMC-10, SDP-CS-3). A refusal that passes is
    /// no answer yet: another link is opened, with another queue pair.
    pub(crate) fn handle_refused(&mut self, now: Instant, refusal: SetupRefusal) {
        match self.state {
            // A link that was refused is down.
            ConnectingState::Pausing | ConnectingState::Done => {}
            ConnectingState::Opening => self.pause(now, refusal),
            ConnectingState::Asking { .. } | ConnectingState::Resolving { .. } => {
                self.fall_back(FallBackReason::Refused(refusal));
            }
        }
    }

    /// Waits for a refusal to pass, if it does and there is time.
    fn pause(&mut self, now: Instant, refusal: SetupRefusal) {
        let until = now.saturating_add(PAUSES.delay(self.refused));
        if !refusal.passes() || self.in_a_row >= FURTHER_LINKS || until >= self.end() {
            self.state = ConnectingState::Done;
            self.put(SetupStep::FallBack(FallBackReason::Refused(refusal)));
            return;
        }
        self.refused = self.refused.saturating_add(1);
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.state = ConnectingState::Pausing;
        self.deadline = until;
        self.put(SetupStep::CloseLink);
    }

    /// The address is not resolved in the time of the try.
    pub(crate) fn handle_unresolved(&mut self, now: Instant) {
        match self.state {
            ConnectingState::Resolving { tries } if now < self.deadline => {
                self.try_resolve(tries.saturating_add(1));
            }
            _ => {}
        }
    }

    /// Address or route cannot be resolved, or the link is down (SDP-CONN-30, SDP-CS-6).
    pub(crate) fn handle_link_down(&mut self) {
        match self.state {
            ConnectingState::Resolving { .. } => self.fall_back(FallBackReason::Unresolved),
            ConnectingState::Opening => self.fall_back(FallBackReason::LinkDown),
            // The link of a pause is closed anyway.
            ConnectingState::Asking { .. } | ConnectingState::Pausing | ConnectingState::Done => {}
        }
    }

    /// The peer has not answered the opening of the link, however often it was sent.
    pub(crate) fn handle_unanswered(&mut self) {
        if self.state == ConnectingState::Opening {
            self.fall_back(FallBackReason::Timeout);
        }
    }

    /// The Port Mapper of the peer does not answer.
    pub(crate) fn handle_silence(&mut self) {
        if matches!(self.state, ConnectingState::Asking { .. }) {
            self.fall_back(FallBackReason::Silent);
        }
    }

    /// The host has no memory for the link, or a limit of it is reached: another try would fail as well.
    pub(crate) fn handle_no_memory(&mut self) {
        if self.state != ConnectingState::Done {
            self.fall_back(FallBackReason::Memory);
        }
    }

    /// The host of the peer has accepted another connection at that time: it is busy with a crowd of
    /// clients, and this one will have its turn. A host that accepts none is left for TCP sooner.
    pub(crate) fn handle_sign_of_life(&mut self, at: Instant) {
        if at <= self.since {
            return;
        }
        // Of no consequence before the first link, and behind the last.
        self.since = at;
        self.in_a_row = 0;
        if self.state == ConnectingState::Opening {
            self.deadline = self.end();
        }
    }

    /// Whether [`Self::handle_timeout`] has something to do.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.poll_timeout().is_some_and(|deadline| deadline <= now)
    }

    /// A timer may have expired.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if !self.is_due(now) {
            return;
        }
        match self.state {
            ConnectingState::Asking { tries_anyway: true } => self.resolve(now),
            ConnectingState::Asking { .. } => self.fall_back(FallBackReason::Silent),
            ConnectingState::Resolving { .. } => self.fall_back(FallBackReason::Unresolved),
            ConnectingState::Opening => self.fall_back(FallBackReason::Timeout),
            ConnectingState::Pausing => self.open(),
            ConnectingState::Done => {}
        }
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        (self.state != ConnectingState::Done).then_some(self.deadline)
    }

    /// What the engine is to do next.
    pub(crate) fn poll_step(&mut self) -> Option<SetupStep> {
        self.steps.pop()
    }
}

/// Reads in flight that both ends can have (SDP-CONN-18, SDP-CONN-19, SDP-CONN-26, SDP-CONN-27).
fn agree(own: ReadDepths, peer: ReadDepths) -> Result<ReadDepths, HelloFault> {
    if peer.ird == 0 || peer.ord == 0 {
        return Err(HelloFault::Reads);
    }
    Ok(ReadDepths {
        ird: core::cmp::min(own.ird, peer.ord),
        ord: core::cmp::min(own.ord, peer.ird),
    })
}

/// Where an accepting end stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcceptingState {
    /// No Hello has come.
    Listening,
    /// HelloAck is given to the link.
    Accepted(SdpTerms),
    /// The outcome is known.
    Done,
}

/// The accepting end: one child of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Accepting {
    offer: SdpOffer,
    timers: SetupTimers,
    /// A Hello with its identifier last is taken too.
    literal: bool,
    state: AcceptingState,
    deadline: Instant,
    steps: ArrayQueue<SetupStep, STEPS>,
}

impl Accepting {
    /// Starts with a link that has no Hello so far (SDP-CS-7).
    pub(crate) fn new(now: Instant, timers: SetupTimers, offer: SdpOffer, literal: bool) -> Self {
        Self {
            offer,
            timers,
            literal,
            state: AcceptingState::Listening,
            deadline: now.saturating_add(timers.hello),
            steps: ArrayQueue::new(),
        }
    }

    fn put(&mut self, step: SetupStep) {
        // Always fits: no input puts more than one step.
        let _ = self.steps.push(step);
    }

    /// A Hello has come (SDP-CONN-10, SDP-CONN-11). `depths`: those of the connection manager,
    /// where they are not in the message. Gives the Hello for checks of its addresses.
    pub(crate) fn handle_hello(
        &mut self,
        now: Instant,
        octets: &[u8],
        depths: ReadDepths,
    ) -> Option<SdpHello> {
        match self.state {
            AcceptingState::Listening => {}
            // A second Hello (SDP-CONN-32, SDP-ERR-16).
            AcceptingState::Accepted(_) => {
                self.close();
                return None;
            }
            AcceptingState::Done => return None,
        }
        match self.read(octets, depths) {
            Ok((hello, terms, ack)) => {
                self.state = AcceptingState::Accepted(terms);
                self.deadline = now.saturating_add(self.timers.accept);
                self.put(SetupStep::AcceptLink(ack));
                Some(hello)
            }
            Err(fault) => {
                self.state = AcceptingState::Done;
                self.put(SetupStep::RejectLink(fault));
                None
            }
        }
    }

    fn read(
        &self,
        octets: &[u8],
        depths: ReadDepths,
    ) -> Result<(SdpHello, SdpTerms, HelloOctets<MAX_HELLO_ACK>), HelloFault> {
        let offer = &self.offer;
        let (form, hello) = SdpHello::parse(octets, self.literal)?;
        let mut profile = Profile::new(offer.transport);
        profile.layout = form.layout();
        let (peer, invalidates) = match hello.rest {
            HelloRest::Draft(depths) => (depths, true),
            HelloRest::Annex { invalidates, .. } => {
                // The form of InfiniBand counts from 1 on every transport.
                profile.first_mseq = Profile::new(SdpTransport::Annex).first_mseq;
                (depths, invalidates)
            }
        };
        if !hello.is_full() {
            profile.dialect = Dialect::CombinedOnly;
        }
        let depths = agree(offer.depths, peer)?;
        let size = accepted_size(offer.size, hello.desired_size);
        let ack = SdpHelloAck {
            bufs: offer.bufs,
            minor: hello.minor,
            max_adverts: offer.max_adverts,
            actual_size: size,
            depths: matches!(form, HelloForm::Draft(_)).then_some(depths),
        };
        let terms = SdpTerms {
            profile,
            role: SetupRole::Accepting,
            peer_bufs: hello.bufs,
            peer_size: core::cmp::min(hello.local_size, SIZE_CAP),
            peer_adverts: hello.max_adverts,
            bufs: offer.bufs,
            size,
            adverts: offer.max_adverts,
            depths,
            invalidates,
        };
        Ok((hello, terms, ack.emit(form)))
    }

    /// What both ends agree on, once HelloAck is given to the link.
    pub(crate) fn terms(&self) -> Option<SdpTerms> {
        match self.state {
            AcceptingState::Accepted(terms) => Some(terms),
            AcceptingState::Listening | AcceptingState::Done => None,
        }
    }

    fn close(&mut self) {
        self.state = AcceptingState::Done;
        self.put(SetupStep::CloseLink);
    }

    /// The link is up: RTU, or the first message (SDP-CS-8, SDP-IB-05).
    pub(crate) fn handle_link_up(&mut self) {
        if let AcceptingState::Accepted(terms) = self.state {
            self.state = AcceptingState::Done;
            self.put(SetupStep::Established(terms));
        }
    }

    /// The link is down (SDP-CONN-30, SDP-CS-9).
    pub(crate) fn handle_link_down(&mut self) {
        if self.state != AcceptingState::Done {
            self.close();
        }
    }

    /// A timer may have expired (SDP-CONN-34).
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|deadline| deadline <= now) {
            self.close();
        }
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        (self.state != AcceptingState::Done).then_some(self.deadline)
    }

    /// What the engine is to do next.
    pub(crate) fn poll_step(&mut self) -> Option<SetupStep> {
        self.steps.pop()
    }
}

/// Size of the acceptor's buffers: what it would have, or less if the peer sends less (SDP-HH-14).
fn accepted_size(own: u32, desired: u32) -> u32 {
    let desired = desired.checked_next_power_of_two().unwrap_or(SIZE_CAP);
    let desired = core::cmp::max(desired, SIZE_FLOOR);
    core::cmp::min(own, desired)
}

#[cfg(test)]
mod tests;
