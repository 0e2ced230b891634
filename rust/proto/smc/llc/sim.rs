// SPDX-License-Identifier: GPL-2.0

//! Two link groups over simulated ports, in virtual time.
//!
//! Each seed chooses the dialect, how many ports there are and how many links both sides allow, how
//! fast messages, completions and engines are, what the two engines ask for and when, and what
//! breaks: ports, single links, the way back of acknowledgements, a whole side. After every step
//! the timers are checked; at the end, when all is quiet, both sides have to agree on the links,
//! and each has to know where the other's buffers are on every one of them. A failure names its
//! seed, which `RDMA_SOCK_SEED` repeats.

mod engine;
mod fabric;
mod host;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap}, //
};

use self::{
    engine::{
        Known,
        Outcome,
        Peer, //
    },
    fabric::QpStage,
    host::Engine, //
};
use super::{
    action::{
        LlcKind,
        Role, //
    },
    delete_link::DeleteReason,
    driver::drive,
    link::LinkSlot,
    msg::Layout,
    shape::Shape,
    testing::START, //
};
use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    stream::reason::Reason, //
};

/// Seeds of a normal run; `RDMA_SOCK_SEEDS` sets another number.
const SEEDS: u64 = 500;

/// Steps after which a run counts as one that never ends.
const MAX_STEPS: u32 = 60_000;

/// For how long the engines want things, and things break.
const BUSY: Duration = Duration::from_secs(60);

/// When the groups stop to try for another link, so that there is an end to all.
const QUIET: Duration = Duration::from_secs(150);

/// How long a run takes, in virtual time: what is under way then has come to its end.
const HORIZON: Duration = Duration::from_secs(200);

/// A generator of numbers that is good enough to choose (xorshift64*).
pub(super) struct Random(u64);

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

    /// One of some.
    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let at = self.below(from.len().max(1) as u64) as usize;
        from.get(at).copied()
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
    /// Added links and their ports, but never the first.
    Added,
    /// Any links and ports.
    Any,
    /// The way back of acknowledgements of a link.
    Acknowledgements,
    /// The engine of one side stops: its device still takes messages.
    Engine(usize),
}

/// What happens at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(usize),
    /// To this side and queue pair, from that queue pair and link.
    Arrive(usize, u32, u32, LinkSlot, Vec<u8>, u8),
    Complete(usize, LinkSlot, u8, bool),
    Rts(usize, LinkSlot, bool),
    /// The engine has an end for a link, or none.
    Offer(usize, LinkSlot, bool),
    Timer(usize),
    Command(usize),
    Break,
    LinkDown(usize, LinkSlot),
    PortUp(usize, u8),
}

/// All kinds, to keep one as a number.
const KINDS: [LlcKind; 12] = [
    LlcKind::ConfirmLink,
    LlcKind::ConfirmLinkReply,
    LlcKind::AddLink,
    LlcKind::AddLinkCont,
    LlcKind::Notice,
    LlcKind::DeleteLink,
    LlcKind::DeleteLinkReply,
    LlcKind::DeleteGroup,
    LlcKind::Rkey,
    LlcKind::TestLink,
    LlcKind::Reply,
    LlcKind::Reply,
];

/// Index of the client; the server is the other.
const CLIENT: usize = 0;

/// A run.
struct World {
    random: Random,
    now: Instant,
    peers: [Peer; 2],
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    order: u64,
    fault: Fault,
    /// A side has stopped.
    stopped: Option<usize>,
    layout: Layout,
    /// Longest way of a message.
    latency: Duration,
    /// Something happened after which the group need not live.
    disturbed: bool,
    /// What was seen.
    seen: BTreeMap<String, u32>,
    /// When the timers of both sides are to go off.
    armed: [Option<Instant>; 2],
    /// Say what happens: for one seed only.
    trace: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let _ = random.next();
        let layout = match random.below(8) {
            0 | 1 => Layout::Rfc,
            2 => Layout::V2,
            3 => Layout::V2Little,
            _ => Layout::Linux,
        };
        let max_links = [1, 2, 2, 2, 2, 3, 8, 8][random.below(8) as usize];
        let fault = match random.below(12) {
            0 | 1 => Fault::None,
            2..=5 => Fault::Added,
            6..=8 => Fault::Any,
            9 => Fault::Acknowledgements,
            10 => Fault::Engine(0),
            _ => Fault::Engine(1),
        };
        let latency = Duration::from_nanos(1_000 << random.below(14));
        let peers = [Role::Client, Role::Server].map(|role| {
            let many = max_links == 8 && random.percent(60);
            let ports = [1, 2, 2, 2, 3, 4][random.below(6) as usize];
            let ports = if many { 8 } else { ports };
            // One that has learnt of the other's order begins with its own.
            let own = match (role, layout) {
                (Role::Server, Layout::V2Little) => Layout::V2,
                _ => layout,
            };
            Peer::new(role, ports, max_links, own)
        });
        let mut world = Self {
            random,
            now: START,
            peers,
            events: BinaryHeap::new(),
            order: 0,
            fault,
            stopped: None,
            layout,
            latency,
            disturbed: false,
            seen: BTreeMap::new(),
            armed: [None; 2],
            trace: std::env::var("RDMA_SOCK_SEED").is_ok(),
        };
        for side in 0..2 {
            let delay = world.random.span(latency);
            world.at(delay, Event::Start(side));
            for _ in 0..world.random.below(40) {
                let delay = world.random.span(BUSY);
                world.at(delay, Event::Command(side));
            }
            // Some things are wanted long before first contact is over.
            for _ in 0..3 {
                let delay = world.random.span(latency.saturating_mul(20));
                world.at(delay, Event::Command(side));
            }
        }
        let breaks = match fault {
            Fault::None => 0,
            Fault::Added | Fault::Any => 1 + world.random.below(6),
            _ => 1,
        };
        for _ in 0..breaks {
            let reach = if world.random.percent(60) {
                latency.saturating_mul(25)
            } else {
                BUSY
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

    /// Prints what happens, in a run of one seed.
    fn trace(&self, what: std::fmt::Arguments<'_>) {
        if self.trace {
            let at = self.now.saturating_since(START).as_nanos() / 1000;
            println!("{at} us: {what}");
        }
    }

    /// Notes something worth being seen.
    fn note(&mut self, what: &str) {
        *self.seen.entry(what.to_owned()).or_default() += 1;
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
            if when > START.saturating_add(QUIET) {
                for peer in &mut self.peers {
                    peer.group.attempts.cancel_retry();
                    peer.group.timers.add_retry = Duration::ZERO;
                }
            }
            self.step(event);
            steps += 1;
            assert!(steps < MAX_STEPS, "no end in sight");
        }
    }

    /// Lets one event happen and does what the side it concerns wants.
    fn step(&mut self, event: Event) {
        let now = self.now;
        self.trace(format_args!("{event:?}"));
        let side = match event {
            Event::Start(side)
            | Event::Arrive(side, ..)
            | Event::Complete(side, ..)
            | Event::Rts(side, ..)
            | Event::Offer(side, ..)
            | Event::Timer(side)
            | Event::Command(side)
            | Event::LinkDown(side, _)
            | Event::PortUp(side, _) => side,
            Event::Break => return self.break_down(),
        };
        if let Event::Arrive(_, qpn, from, slot, octets, kind) = event {
            return self.arrive(side, qpn, from, slot, &octets, kind);
        }
        if self.stopped == Some(side) {
            return;
        }
        let timer = matches!(event, Event::Timer(_));
        if timer {
            // It may have been set anew meanwhile.
            if self.armed[side] != Some(now) {
                return;
            }
            self.armed[side] = None;
        }
        match event {
            Event::Start(_) => self.peers[side].start(now),
            Event::Complete(_, slot, kind, good) => {
                let peer = &mut self.peers[side];
                let kind = KINDS[usize::from(kind)];
                // Now and then one is late, and the link has gone.
                if peer.device.at(slot).is_some() || self.random.percent(20) {
                    if good {
                        peer.group.handle_sent(now, slot, kind);
                    } else {
                        peer.group.handle_send_failed(now, slot, kind);
                    }
                }
            }
            Event::Rts(_, slot, good) => {
                let peer = &mut self.peers[side];
                if let Some(end) = peer.device.at(slot).filter(|_| good) {
                    end.stage = QpStage::Sends;
                }
                let result = if good { Ok(()) } else { Err(Reason::ReadyLink) };
                peer.group.handle_rts(now, slot, result);
            }
            Event::Offer(_, slot, good) => self.offer(side, slot, good),
            Event::Timer(_) => self.peers[side].group.handle_timeout(now),
            Event::Command(_) => self.command(side),
            Event::LinkDown(_, slot) => {
                self.peers[side].group.handle_link_down(now, slot);
            }
            Event::PortUp(_, port) => {
                let device = &mut self.peers[side].device;
                device.ports[usize::from(port)].alive = true;
                self.request_link(side);
            }
            Event::Arrive(..) | Event::Break => {}
        }
        self.settle(side, timer);
    }

    /// Does all a side wants, and sets its timer.
    fn settle(&mut self, side: usize, timer: bool) {
        let now = self.now;
        drive(&mut Engine { world: self, side });
        self.peers[side].check();
        // It may have become the spare one of two asymmetric links: nothing is safe then.
        self.disturbed |= self.peers[side].group.is_ready()
            && self.peers[side].device.at(LinkSlot::FIRST).is_none();
        if let Some(deadline) = self.peers[side].group.poll_timeout() {
            if timer {
                // Else the engine's timer would never stop.
                assert!(deadline > now, "timer does not move");
            }
            let due = core::cmp::max(deadline, now);
            if self.armed[side] != Some(due) {
                self.armed[side] = Some(due);
                let delay = due.saturating_since(now);
                self.at(delay, Event::Timer(side));
            }
        }
    }

    /// A message comes to a queue pair, or does not.
    fn arrive(
        &mut self,
        side: usize,
        qpn: u32,
        from: u32,
        slot: LinkSlot,
        octets: &[u8],
        kind: u8,
    ) {
        let now = self.now;
        let other = 1 - side;
        let sender = self.peers[other]
            .device
            .at(slot)
            .map(|end| (end.dead, end.deaf));
        let sender_gone = sender.is_none_or(|(dead, _)| dead);
        let receiver = self.peers[side].device.by_qpn(qpn);
        let to = receiver
            .filter(|end| !end.dead && end.peer == Some(from) && end.stage >= QpStage::Receives);
        // A device that has lost its link sends nothing.
        let to = to.map(|end| end.slot).filter(|_| !sender_gone);
        let back = self.random.span(self.latency);
        let known = to.is_some() && sender.is_some_and(|(_, deaf)| !deaf);
        // The device repeats for a while before it gives up.
        let wait = if known { back } else { Duration::from_secs(1) };
        self.at(wait, Event::Complete(other, slot, kind, known));
        if let (Some(to), false) = (to, self.stopped == Some(side)) {
            self.peers[side].group.handle_message(now, to, octets);
            self.settle(side, false);
        }
    }

    /// Sends a message.
    fn post(&mut self, side: usize, slot: LinkSlot, octets: Vec<u8>, kind: LlcKind) {
        let kind = KINDS.iter().position(|known| *known == kind);
        let kind = kind.expect("all kinds are known") as u8;
        let way = self.random.span(self.latency);
        let device = &mut self.peers[side].device;
        let end = device.at(slot).expect("the link is there");
        assert_eq!(end.stage, QpStage::Sends, "{octets:?}");
        let (qpn, peer) = (end.qpn, end.peer.expect("it is connected"));
        let arrival = core::cmp::max(self.now.saturating_add(way), self.peers[side].order_of(qpn));
        self.peers[side].last.insert(qpn, arrival);
        let way = arrival.saturating_since(self.now);
        self.at(way, Event::Arrive(1 - side, peer, qpn, slot, octets, kind));
    }

    /// The engine is asked for an end. It takes its time.
    fn ask(
        &mut self,
        side: usize,
        slot: LinkSlot,
        peer: Option<super::add::PeerOffer>,
        only_new: bool,
    ) {
        self.peers[side].asked = Some((slot, peer, only_new));
        let slow = self.random.percent(2);
        // In first contact the peer waits for less, and so does a strict one.
        self.disturbed |= slow && (self.layout == Layout::Rfc || !self.peers[side].was_ready);
        let reach = if slow {
            Duration::from_secs(8)
        } else {
            self.latency
        };
        let delay = self.random.span(reach);
        let good = !self.random.percent(5);
        self.at(delay, Event::Offer(side, slot, good));
    }

    /// The engine answers.
    fn offer(&mut self, side: usize, slot: LinkSlot, good: bool) {
        let now = self.now;
        let random = &mut self.random;
        let peer = &mut self.peers[side];
        let offer = peer.make_end(slot, good, random);
        if side == CLIENT {
            peer.group.accept_link(now, slot, offer);
        } else {
            peer.group.offer_link(now, slot, offer);
        }
    }

    /// The engine has seen ports without a link.
    fn request_link(&mut self, side: usize) {
        let now = self.now;
        let peer = &mut self.peers[side];
        let (unused, _) = peer.device.choice();
        let ports: Vec<_> = unused
            .iter()
            .map(|port| engine::port(side, *port))
            .collect();
        peer.group.request_link(now, &ports);
    }

    /// The engine of a side wants something.
    fn command(&mut self, side: usize) {
        let now = self.now;
        let choice = self.random.below(100);
        let peer = &mut self.peers[side];
        match choice {
            0..=39 => peer.announce(now, &mut self.random),
            40..=54 => peer.withdraw(now, &mut self.random),
            55..=64 => {
                let active: Vec<_> = peer.group.active().collect();
                if let Some(slot) = self.random.pick(&active) {
                    peer.group.test_link(now, slot, [7; 16]);
                }
            }
            65..=79 => self.request_link(side),
            80..=95 => {
                let active: Vec<_> = peer.group.active().collect();
                let orderly = self.random.percent(50);
                let protected = self.fault == Fault::Added;
                let links = active.len();
                if let Some(slot) = self.random.pick(&active) {
                    if links > 1 && !(protected && slot == LinkSlot::FIRST) {
                        peer.group
                            .delete_link(now, slot, DeleteReason::Operator, orderly);
                        // Both sides may take the other one away at the same time.
                        self.disturbed |= !protected;
                        self.note("deleted");
                    }
                }
            }
            96 if peer.was_ready => {
                peer.group.terminate(now, DeleteReason::Operator, true);
                self.disturbed = true;
            }
            _ => {}
        }
    }

    /// Something breaks.
    fn break_down(&mut self) {
        match self.fault {
            Fault::Engine(side) => self.stopped = Some(side),
            Fault::None => return,
            Fault::Acknowledgements => {
                let side = self.random.below(2) as usize;
                let count = self.peers[side].device.ends.len() as u64;
                if count > 0 {
                    let at = self.random.below(count) as usize;
                    self.peers[side].device.ends[at].deaf = true;
                }
            }
            Fault::Added | Fault::Any => {
                if self.random.percent(50) {
                    self.break_port();
                } else {
                    self.break_link();
                }
            }
        }
        self.disturbed |= self.fault != Fault::Added;
    }

    /// A port goes down. Its side sees that, the other one may. It comes back after a while.
    fn break_port(&mut self) {
        let side = self.random.below(2) as usize;
        let count = self.peers[side].device.ports.len() as u64;
        let port = self.random.below(count) as u8;
        if port == 0 && self.fault == Fault::Added {
            return;
        }
        self.note("port down");
        self.peers[side].device.ports[usize::from(port)].alive = false;
        let ends = self.peers[side].device.ends.clone();
        for end in ends.iter().filter(|end| end.port == port) {
            self.kill(side, end.qpn, 100);
        }
        let delay = self.random.span(Duration::from_secs(30));
        self.at(delay, Event::PortUp(side, port));
    }

    /// A single link breaks.
    fn break_link(&mut self) {
        let side = self.random.below(2) as usize;
        let protected = self.fault == Fault::Added;
        let ends = self.peers[side].device.ends.iter();
        let ends = ends.filter(|end| !(protected && end.slot == LinkSlot::FIRST));
        let qpns: Vec<_> = ends.map(|end| end.qpn).collect();
        if let Some(qpn) = self.random.pick(&qpns) {
            self.note("link broken");
            self.kill(side, qpn, 50);
        }
    }

    /// A queue pair and the one it is connected to die. The sides may notice.
    fn kill(&mut self, side: usize, qpn: u32, notices: u64) {
        let Some(end) = self.peers[side].device.by_qpn(qpn) else {
            return;
        };
        end.dead = true;
        let (slot, peer) = (end.slot, end.peer);
        if self.random.percent(notices) {
            let delay = self.random.span(self.latency);
            self.at(delay, Event::LinkDown(side, slot));
        }
        let other = 1 - side;
        let peer = peer.and_then(|qpn| self.peers[other].device.by_qpn(qpn));
        if let Some(end) = peer.filter(|end| end.peer == Some(qpn)) {
            end.dead = true;
            let slot = end.slot;
            if self.random.percent(50) {
                let delay = self.random.span(self.latency);
                self.at(delay, Event::LinkDown(other, slot));
            }
        }
    }

    /// A buffer that is confirmed is known to the peer where both use a link (LLF-71); at the end
    /// on `all` links.
    fn check_known(&mut self, side: usize, rmb: u16, all: bool) {
        let active: Vec<_> = self.peers[side].group.active().collect();
        let mut known = 0;
        for slot in active {
            let Some(end) = self.peers[side].device.at(slot) else {
                continue;
            };
            let (qpn, peer) = (end.qpn, end.peer);
            let token = engine::token(side, rmb, qpn);
            let other = &mut self.peers[1 - side];
            let there = peer.and_then(|qpn| other.device.by_qpn(qpn));
            let Some(there) = there.map(|end| end.slot) else {
                continue;
            };
            match other.group.rtokens.find(there, token.rkey) {
                Some(id) => {
                    assert_eq!(other.group.peer_token(id, there), Some(token));
                    known += 1;
                }
                None => assert!(!all, "buffer {rmb} of {side} is not known on {slot:?}"),
            }
        }
        let over = self.peers[1 - side].outcome != Outcome::Ready;
        assert!(known > 0 || over || self.stopped.is_some() || !all);
    }

    /// What has to hold at the end.
    fn check(&mut self) {
        let outcomes = self.peers.each_ref().map(|peer| peer.outcome);
        if matches!(self.fault, Fault::None | Fault::Added) && !self.disturbed {
            assert_eq!(outcomes, [Outcome::Ready; 2], "{:?}", self.layout);
        }
        // A side that goes back to TCP never meets one that has switched (AMB-09). Without an
        // attempt for a second link, a reply whose delivery is not known is the last word.
        let attempt = self.peers.iter().all(|peer| peer.group.max_links > 1);
        if attempt && outcomes.contains(&Outcome::Declined) {
            assert!(
                !self.peers.iter().any(|peer| peer.was_ready),
                "{outcomes:?}"
            );
        }
        for side in 0..2 {
            if self.stopped == Some(side) {
                continue;
            }
            let peer = &self.peers[side];
            // No first contact is left hanging, whatever happened.
            assert_ne!(peer.outcome, Outcome::Open, "{outcomes:?}");
            if peer.outcome == Outcome::Ready {
                assert_eq!(self.stopped, None, "{outcomes:?}");
                assert_eq!(outcomes, [Outcome::Ready; 2]);
                // Nothing is under way, and nothing waits without a timer.
                assert!(peer.group.poll_timeout().is_some());
                assert!(peer.group.attempts.adding.is_none());
                assert!(!peer.group.slots().any(|(_, link)| link.is_leaving()));
                assert_eq!(peer.device.ends.len(), peer.group.active().count());
                for known in peer.rmbs.values() {
                    assert_eq!(*known, Known::Confirmed);
                }
            }
        }
        if outcomes == [Outcome::Ready; 2] {
            self.check_views();
        }
    }

    /// Both sides have the same links, and know all buffers of each other on them.
    fn check_views(&mut self) {
        let views = self.peers.each_ref().map(|peer| {
            let links = peer.device.ends.iter().map(|end| {
                assert!(peer.group.is_active(end.slot));
                (end.qpn, end.peer, peer.group.number(end.slot))
            });
            links.collect::<Vec<_>>()
        });
        for (qpn, peer, number) in &views[0] {
            let same = views[1].iter().find(|(other, ..)| Some(*other) == *peer);
            assert!(
                same.is_some_and(|(_, back, other)| *back == Some(*qpn) && other == number),
                "{views:?}"
            );
        }
        assert_eq!(views[0].len(), views[1].len());
        let kinds = self.peers.each_ref().map(|peer| peer.group.kind());
        let mirrored = match kinds[0] {
            Shape::AsymmetricLocal => Shape::AsymmetricPeer,
            Shape::AsymmetricPeer => Shape::AsymmetricLocal,
            same => same,
        };
        assert_eq!(mirrored, kinds[1]);
        self.note(kinds[0].name());
        if views[0].len() > 3 {
            self.note("many links");
        }
        for side in 0..2 {
            let rmbs: Vec<_> = self.peers[side].rmbs.keys().copied().collect();
            for rmb in rmbs {
                self.check_known(side, rmb, true);
            }
        }
    }
}

/// Runs one seed.
fn run(seed: u64) -> BTreeMap<String, u32> {
    let mut world = World::new(seed);
    world.run();
    world.check();
    let outcomes = world.peers.each_ref().map(|peer| peer.outcome);
    world.note(&format!("{:?} {outcomes:?}", world.fault));
    world.note(&format!("{:?}", world.layout));
    world.seen
}

/// FOV-04, FOV-05, LLF-22, LLF-49, LLF-71, LLC-10, LGR-08, LGR-13, LGR-14, LLF-52, RMB-20, RMB-21,
/// COL-01 to COL-04, TMR-31, FOV-19, AMB-50: whatever happens, both sides come to the same links
/// and buffers.
// TST-120, TST-123, TST-151, TMR-01, LLF-22, RDV-09.
#[test]
fn two_peers_agree() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match number("RDMA_SOCK_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("RDMA_SOCK_SEEDS").unwrap_or(SEEDS),
    };
    let all = seeds.end() - seeds.start() >= SEEDS - 1;
    let mut seen = BTreeMap::<String, u32>::new();
    for seed in seeds {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(notes) => {
                for (what, count) in notes {
                    *seen.entry(what).or_default() += count;
                }
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
        "symmetric",
        "asymmetric",
        "many links",
        "moved",
        "moved orderly",
        "port down",
    ] {
        assert!(
            !all || seen.keys().any(|key| key.contains(outcome)),
            "{outcome}"
        );
    }
}
