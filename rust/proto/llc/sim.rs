// SPDX-License-Identifier: GPL-2.0

//! Two link groups over one simulated reliable connection, in virtual time.
//!
//! Each seed chooses how fast messages and completions are, what the two engines ask for and when,
//! and what breaks. After every step the timers are checked; at the end both sides have to agree on
//! what came out. A failure names its seed, which repeats it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap}, //
};

use super::{
    action::{Action, Fail, Kind, RmbId, Role},
    delete_link::DeleteReason,
    first_contact::LinkOffer,
    group::Group,
    link::Slot,
    msg::{Octets, MESSAGE_BYTES},
    rtoken::Entry,
    testing::{config, offer, START},
};
use crate::proto::{
    reason::Reason,
    time::{Duration, Instant},
    wire::{RKey, RToken},
};

/// Seeds of a normal run; `RDMA_SOCK_SEEDS` sets another number.
const SEEDS: u64 = 2000;

/// Steps after which a run counts as one that never ends.
const MAX_STEPS: u32 = 20_000;

/// How long a run takes at most, in virtual time.
const HORIZON: Duration = Duration::from_secs(120);

/// A generator of numbers that is good enough to choose (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }

    /// Whether something of this probability, in percent, happens.
    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Up to `max`.
    fn span(&mut self, max: Duration) -> Duration {
        Duration::from_nanos(self.below(max.as_nanos() + 1))
    }
}

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing.
    None,
    /// The wire, in both directions: sends fail when the device has given up.
    Wire,
    /// The way back of acknowledgements: what is sent arrives, but its sender never knows.
    Acknowledgements,
    /// The engine of one side stops: its device still takes messages.
    Engine(usize),
    /// Both see the link go down.
    Port,
}

/// What happens at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(usize),
    Arrive(usize, Octets),
    Complete(usize, u8, bool),
    Rts(usize, bool),
    Offer,
    Timer(usize),
    Command(usize),
    Break,
    LinkDown(usize),
}

/// What first contact, and the group behind it, came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Open,
    Ready,
    Declined,
    Aborted,
    Terminated,
}

/// One side.
struct Peer {
    group: Group<Vec<Entry>>,
    outcome: Outcome,
    was_ready: bool,
    next_rmb: u16,
    /// The own buffers the peer knows, or is about to know.
    rmbs: BTreeMap<u16, State>,
    /// Kinds of the sends under way, by number.
    sends: BTreeMap<u8, Kind>,
    next_send: u8,
    /// When the last message arrived: they keep their order.
    last_arrival: Instant,
}

/// A buffer of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Confirming,
    Confirmed,
    Deleting,
}

/// The token of a buffer.
fn token(side: usize, rmb: u16) -> RToken {
    let base = if side == 0 { 0x1000_0000 } else { 0x2000_0000 };
    RToken {
        rkey: RKey::new(base + u32::from(rmb)),
        vaddr: u64::from(rmb) << 20,
    }
}

/// A run.
struct World {
    random: Random,
    now: Instant,
    peers: [Peer; 2],
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    order: u64,
    fault: Fault,
    broken: bool,
    /// Longest way of a message.
    latency: Duration,
    /// Whether an engine did something after which the group need not live.
    disturbed: bool,
}

/// Index of the client; the server is the other.
const CLIENT: usize = 0;

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let _ = random.next();
        let peer = |role| Peer {
            group: Group::new(&config(role), vec![Entry::EMPTY; 12]),
            outcome: Outcome::Open,
            was_ready: false,
            next_rmb: 0,
            rmbs: BTreeMap::new(),
            sends: BTreeMap::new(),
            next_send: 0,
            last_arrival: START,
        };
        let fault = match random.below(10) {
            0 => Fault::Wire,
            1 => Fault::Acknowledgements,
            2 => Fault::Engine(0),
            3 => Fault::Engine(1),
            4 => Fault::Port,
            _ => Fault::None,
        };
        let latency = Duration::from_nanos(1_000 << random.below(14));
        let mut world = Self {
            random,
            now: START,
            peers: [peer(Role::Client), peer(Role::Server)],
            events: BinaryHeap::new(),
            order: 0,
            fault,
            broken: false,
            latency,
            disturbed: false,
        };
        for side in 0..2 {
            let delay = world.random.span(latency);
            world.at(delay, Event::Start(side));
            for _ in 0..world.random.below(30) {
                let delay = world.random.span(Duration::from_secs(60));
                world.at(delay, Event::Command(side));
            }
            // Some things are wanted long before first contact is over.
            let delay = world.random.span(latency);
            world.at(delay, Event::Command(side));
        }
        if fault != Fault::None {
            let reach = if world.random.percent(60) {
                latency.saturating_mul(8)
            } else {
                Duration::from_secs(60)
            };
            let delay = world.random.span(reach);
            world.at(delay, Event::Break);
        }
        world
    }

    /// Lets something happen `delay` from now.
    fn at(&mut self, delay: Duration, event: Event) {
        self.order += 1;
        let when = self.now.saturating_add(delay);
        self.events.push(Reverse((when, self.order, event)));
    }

    /// Whether a side does not run any more.
    fn stopped(&self, side: usize) -> bool {
        self.broken && self.fault == Fault::Engine(side)
    }

    /// Runs to the end.
    fn run(&mut self) {
        let end = START.saturating_add(HORIZON);
        let mut steps = 0;
        while let Some(Reverse((when, _, event))) = self.events.pop() {
            if when > end {
                break;
            }
            self.now = when;
            self.step(event);
            steps += 1;
            assert!(steps < MAX_STEPS, "no end in sight");
        }
    }

    /// Lets one event happen and does what the side it concerns wants.
    fn step(&mut self, event: Event) {
        let now = self.now;
        let side = match event {
            Event::Start(side)
            | Event::Arrive(side, _)
            | Event::Complete(side, ..)
            | Event::Rts(side, _)
            | Event::Timer(side)
            | Event::Command(side)
            | Event::LinkDown(side) => side,
            Event::Offer => 1 - CLIENT,
            Event::Break => return self.break_down(),
        };
        if self.stopped(side) {
            return;
        }
        let timer = matches!(event, Event::Timer(_));
        match event {
            Event::Start(_) => self.peers[side].group.start(now),
            Event::Arrive(_, octets) => {
                self.peers[side]
                    .group
                    .handle_message(now, Slot::FIRST, &octets);
            }
            Event::Complete(_, number, good) => {
                let kind = self.peers[side].sends.remove(&number);
                let kind = kind.expect("a completion belongs to a send");
                let group = &mut self.peers[side].group;
                if good {
                    group.handle_sent(now, Slot::FIRST, kind);
                } else {
                    group.handle_send_failed(now, Slot::FIRST, kind);
                }
            }
            Event::Rts(_, good) => {
                let result = if good { Ok(()) } else { Err(Reason::ReadyLink) };
                self.peers[side].group.handle_rts(now, Slot::FIRST, result);
            }
            Event::Offer => {
                let offer: LinkOffer = offer();
                self.peers[side].group.offer_link(now, offer);
            }
            Event::Timer(_) => {
                self.peers[side].group.handle_timeout(now);
            }
            Event::Command(_) => self.command(side),
            Event::LinkDown(_) => self.peers[side].group.handle_link_down(now, Slot::FIRST),
            Event::Break => {}
        }
        self.drain(side);
        let deadline = self.peers[side].group.poll_timeout();
        if let Some(deadline) = deadline {
            if timer {
                // Else the engine's timer would run for ever.
                assert!(deadline > now, "timer does not move");
            }
            let delay = deadline.saturating_since(now);
            self.at(delay, Event::Timer(side));
        }
    }

    /// The engine of a side wants something.
    fn command(&mut self, side: usize) {
        let now = self.now;
        let choice = self.random.below(100);
        let peer = &mut self.peers[side];
        if peer.group.is_over() {
            return;
        }
        match choice {
            0..60 => {
                let rmb = peer.next_rmb;
                let tokens = [(Slot::FIRST, token(side, rmb))];
                if peer.group.confirm_rkey(now, RmbId(rmb), &tokens).is_ok() {
                    peer.next_rmb += 1;
                    peer.rmbs.insert(rmb, State::Confirming);
                }
            }
            60..85 => {
                let known = peer.rmbs.iter().find(|(_, s)| **s == State::Confirmed);
                if let Some(rmb) = known.map(|(rmb, _)| *rmb) {
                    let tokens = [(Slot::FIRST, token(side, rmb))];
                    if peer.group.delete_rkey(now, RmbId(rmb), &tokens).is_ok() {
                        peer.rmbs.insert(rmb, State::Deleting);
                    }
                }
            }
            85..98 => peer.group.test_link(now, Slot::FIRST, [7; 16]),
            _ if peer.was_ready => {
                peer.group.terminate(now, DeleteReason::Operator, true);
                self.disturbed = true;
            }
            _ => {}
        }
    }

    /// What was to break breaks.
    fn break_down(&mut self) {
        self.broken = true;
        if self.fault == Fault::Port {
            for side in 0..2 {
                let delay = self.random.span(self.latency);
                self.at(delay, Event::LinkDown(side));
            }
        }
    }

    /// Does all a side wants.
    fn drain(&mut self, side: usize) {
        while let Some(action) = self.peers[side].group.poll_action() {
            let outcome = self.peers[side].outcome;
            assert!(
                matches!(outcome, Outcome::Open | Outcome::Ready),
                "{action:?} behind the last action"
            );
            self.perform(side, action);
        }
    }

    fn perform(&mut self, side: usize, action: Action) {
        let latency = self.latency;
        let peer = &mut self.peers[side];
        match action {
            Action::Send { msg, kind, slot } => {
                assert_eq!(slot, Slot::FIRST);
                assert_eq!(msg.len(), MESSAGE_BYTES);
                self.post(side, msg, kind);
            }
            Action::MoveToRts { .. } => {
                assert_eq!(side, CLIENT);
                let delay = self.random.span(latency);
                let good = !self.random.percent(2);
                self.disturbed |= !good;
                self.at(delay, Event::Rts(side, good));
            }
            Action::OfferLink => {
                let delay = self.random.span(latency);
                self.at(delay, Event::Offer);
            }
            Action::DropOffer => assert_ne!(side, CLIENT),
            Action::Ready => {
                assert_eq!(peer.outcome, Outcome::Open);
                peer.outcome = Outcome::Ready;
                peer.was_ready = true;
            }
            Action::FirstContactFailed(fail) => {
                assert_eq!(peer.outcome, Outcome::Open);
                peer.outcome = match fail {
                    Fail::Decline(_) => Outcome::Declined,
                    Fail::Abort(_) => Outcome::Aborted,
                };
            }
            Action::RkeyConfirmed(RmbId(rmb)) => {
                let before = peer.rmbs.insert(rmb, State::Confirmed);
                assert_eq!(before, Some(State::Confirming));
                self.check_known(side, rmb);
            }
            Action::RkeyRejected(RmbId(rmb)) => {
                assert_eq!(peer.rmbs.remove(&rmb), Some(State::Confirming));
                // Only for want of room.
                let token = token(side, rmb);
                let other = &mut self.peers[1 - side];
                assert!(other.group.peer_rmb(Slot::FIRST, token).is_err());
            }
            Action::RkeyDeleted(RmbId(rmb)) => {
                assert_eq!(peer.rmbs.remove(&rmb), Some(State::Deleting));
            }
            Action::LinkDown { .. } => assert_eq!(peer.outcome, Outcome::Ready),
            Action::Terminate { .. } => {
                assert_eq!(peer.outcome, Outcome::Ready);
                peer.outcome = Outcome::Terminated;
            }
        }
    }

    /// A buffer that is confirmed is known to the peer (LLF-71).
    fn check_known(&mut self, side: usize, rmb: u16) {
        let other = &mut self.peers[1 - side];
        let token = token(side, rmb);
        let id = other.group.peer_rmb(Slot::FIRST, token);
        let id = id.expect("the peer has room for what it took in");
        assert_eq!(other.group.peer_token(id, Slot::FIRST), Some(token));
    }

    /// Sends a message.
    fn post(&mut self, side: usize, msg: Octets, kind: Kind) {
        let peer = &mut self.peers[side];
        let number = peer.next_send;
        peer.next_send = number.wrapping_add(1);
        assert_eq!(peer.sends.insert(number, kind), None);
        let arrives = !(self.broken && self.fault == Fault::Wire);
        let unacknowledged =
            self.broken && matches!(self.fault, Fault::Wire | Fault::Acknowledgements);
        let way = self.random.span(self.latency);
        let back = self.random.span(self.latency);
        let arrival = core::cmp::max(
            self.now.saturating_add(way),
            self.peers[1 - side].last_arrival,
        );
        self.peers[1 - side].last_arrival = arrival;
        let way = arrival.saturating_since(self.now);
        if arrives {
            self.at(way, Event::Arrive(1 - side, msg));
        }
        let done = if unacknowledged {
            // The device repeats for a while before it gives up.
            Duration::from_secs(1)
        } else {
            Duration::from_nanos(way.as_nanos() + back.as_nanos())
        };
        self.at(done, Event::Complete(side, number, !unacknowledged));
    }

    /// What has to hold at the end.
    fn check(&self) {
        let outcomes = self.peers.each_ref().map(|peer| peer.outcome);
        if self.fault == Fault::None && !self.disturbed {
            assert_eq!(outcomes, [Outcome::Ready; 2]);
        }
        let declined = outcomes.contains(&Outcome::Declined);
        // A side that goes back to TCP never meets one that has switched (AMB-09).
        if declined {
            assert!(
                !self.peers.iter().any(|peer| peer.was_ready),
                "{outcomes:?}"
            );
        }
        for (side, peer) in self.peers.iter().enumerate() {
            if self.stopped(side) {
                continue;
            }
            // No first contact is left hanging, whatever happened, unless the peer went first and
            // its SMC Decline or RST would tell.
            assert_ne!(peer.outcome, Outcome::Open, "{outcomes:?}");
            if peer.outcome == Outcome::Ready {
                // Nothing waits without a timer.
                assert!(peer.group.poll_timeout().is_some());
                assert!(
                    !self.broken || self.peers[1 - side].outcome == Outcome::Ready,
                    "{outcomes:?}"
                );
                for state in peer.rmbs.values() {
                    assert_eq!(*state, State::Confirmed);
                }
            }
        }
    }
}

/// Runs one seed.
fn run(seed: u64) -> (Fault, [Outcome; 2]) {
    let mut world = World::new(seed);
    world.run();
    world.check();
    (world.fault, world.peers.each_ref().map(|peer| peer.outcome))
}

#[test]
fn two_peers_agree() {
    let seeds = std::env::var("RDMA_SOCK_SEEDS");
    let seeds = seeds.ok().and_then(|s| s.parse().ok()).unwrap_or(SEEDS);
    let mut seen = BTreeMap::<String, u32>::new();
    for seed in 1..=seeds {
        let result = std::panic::catch_unwind(|| run(seed));
        match result {
            Ok((fault, outcomes)) => {
                *seen.entry(format!("{fault:?} {outcomes:?}")).or_default() += 1;
            }
            Err(panic) => {
                eprintln!("seed {seed} fails");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{seen:#?}");
    // The run is worth its time only if it has seen these.
    for outcome in [
        "Ready, Ready",
        "Declined",
        "Aborted",
        "Terminated, Terminated",
    ] {
        assert!(seen.keys().any(|key| key.contains(outcome)), "{outcome}");
    }
}
