// SPDX-License-Identifier: GPL-2.0

//! Runs of two nodes until all work is complete.

use super::{
    fabric::{
        Fabric,
        Faults, //
    },
    job::{
        jobs,
        Job,
        MEMORY,
        RECEIVE, //
    },
    model::{
        self,
        ExpectedResult, //
    },
    node::Node, //
};
use crate::proto::{
    base::{
        time::{
            earliest,
            Duration,
            Instant, //
        },
        verbs::{
            Mtu,
            Psn, //
        },
    },
    roce::{
        aeth::{
            NakCode,
            NakCounts,
            RnrTimer,
            Syndrome, //
        },
        frame::{
            Ipv4,
            Ipv6,
            RoceRoute, //
        },
        opcode::Service,
        requester::{
            ack_timeout,
            Requester,
            RequesterConfig,
            RetryLimits,
            SendRecord, //
        },
        responder::{
            RemoteAccess,
            Resource,
            Responder,
            ResponderConfig, //
        },
        work::{
            WorkKind,
            WorkStatus, //
        },
    },
    sim::{
        for_seeds,
        Rng, //
    },
};

/// Events after which a run counts as stuck.
const STUCK: u64 = 200_000;

/// The settings of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    /// Service of both queue pairs.
    pub(super) service: Service,
    /// Faults of the network.
    pub(super) faults: Faults,
    /// Retries without progress.
    pub(super) retries: u8,
    /// Jobs of each node.
    pub(super) jobs: [u64; 2],
    /// Bursts leave out the network once in this number; 0 for never.
    pub(super) direct: u64,
    /// Receive buffers are refused once in this number of requests; 0 for never.
    pub(super) starve: u64,
    /// The send queue is drained once in this number of chances; 0 for never.
    pub(super) pauses: u64,
}

/// Two nodes and the network between them.
pub(super) struct RoceWorld {
    /// All chance.
    pub(super) rng: Rng,
    /// Packets in flight.
    pub(super) net: Fabric,
    /// Both sides.
    pub(super) nodes: [Node; 2],
    /// Virtual time.
    pub(super) now: Instant,
    /// Settings.
    scenario: Scenario,
    /// The next time that the applications post work and receive buffers.
    tick: Instant,
    /// The times at which the nodes reply.
    reply_at: [Option<Instant>; 2],
}

impl RoceWorld {
    /// Makes nodes with random settings.
    pub(super) fn new(mut rng: Rng, scenario: Scenario) -> Self {
        let mtu = rng.pick(&[Mtu::M256, Mtu::M256, Mtu::M512, Mtu::M1024]);
        let route = route(&mut rng);
        let psns = [psn(&mut rng), psn(&mut rng)];
        let depth = rng.bytes(1, 4);
        let latency = rng.range(1, 20);
        let nodes = [0, 1].map(|index| {
            let requester = RequesterConfig {
                service: scenario.service,
                mtu,
                first_psn: psns[index],
                max_rd_atomic: rng.bytes(1, depth),
                retry: RetryLimits {
                    timeout: ack_timeout(rng.range(6, 9) as u8),
                    retries: scenario.retries,
                    rnr_retries: 7,
                    probe: rng.bytes(1, 4),
                },
                window_packets: rng.bytes(1, 16),
                window_octets: rng.bytes(1, 16_384),
            };
            let responder = ResponderConfig {
                service: scenario.service,
                mtu,
                first_psn: psns[1 - index],
                access: RemoteAccess {
                    write: true,
                    read: true,
                    atomic: true,
                    flush: true,
                },
                rnr_timer: RnrTimer::new(rng.range(1, 6) as u8).unwrap(),
            };
            let longest = rng.pick(&[8, 300, 1_500, RECEIVE]);
            let jobs = jobs(&mut rng, scenario.jobs[index], longest);
            // Zeros make CMP SWAP succeed.
            let memory = (0..MEMORY)
                .map(|at| if at < 256 { 0 } else { rng.next() as u8 })
                .collect();
            let mut node = Node::new(
                index,
                route,
                Requester::new(&requester, vec![SendRecord::EMPTY; 8]),
                Responder::new(&responder, vec![Resource::EMPTY; depth as usize]),
                memory,
                jobs,
            );
            node.starve = scenario.starve;
            node.direct = scenario.direct;
            node
        });
        Self {
            net: Fabric::new(scenario.faults, latency),
            rng,
            nodes,
            now: Instant::from_nanos(1),
            scenario,
            tick: Instant::from_nanos(1),
            reply_at: [None; 2],
        }
    }

    /// The results of the jobs of each node, by the model.
    pub(super) fn expected(&self) -> [ExpectedResult; 2] {
        [0, 1].map(|index| model::execute(&self.nodes[index].jobs, &self.nodes[1 - index].memory))
    }

    /// Runs until both nodes are done, or `end` says so.
    pub(super) fn run(&mut self, mut end: impl FnMut(&mut Self) -> bool) {
        for _ in 0..STUCK {
            if end(self) || self.nodes.iter().all(Node::is_done) {
                return;
            }
            self.step();
        }
        panic!(
            "stuck at {:?}, {:?} in flight: {:?}",
            self.now,
            self.net.next(),
            self.nodes.each_ref().map(|node| (
                node.completed.len(),
                node.posted,
                node.requester.poll_timeout(),
                node.requester.stats(),
            ))
        );
    }

    /// Goes to the next time at which something happens.
    pub(super) fn step(&mut self) {
        let mut next = Some(self.tick);
        for time in [self.net.next(), self.reply_at[0], self.reply_at[1]] {
            next = earliest(next, time);
        }
        for node in &self.nodes {
            next = earliest(next, node.requester.poll_timeout());
        }
        self.now = self.now.max(next.unwrap());
        if self.tick <= self.now {
            self.work();
        }
        while let Some((to, load)) = self.net.arrived(self.now) {
            self.nodes[to].receive(&mut self.rng, self.now, &load);
            // The batch ends now, or a little later.
            let delay = Duration::from_micros(self.rng.range(0, 3));
            self.reply_at[to].get_or_insert(self.now.saturating_add(delay));
        }
        for index in 0..2 {
            let node = &mut self.nodes[index];
            let due = |time: Option<Instant>| time.is_some_and(|time| time <= self.now);
            if due(node.requester.poll_timeout()) {
                node.requester.handle_timeout(self.now);
            }
            node.pump(&mut self.rng, &mut self.net, self.now);
            if due(self.reply_at[index]) {
                self.reply_at[index] = None;
                node.reply(&mut self.rng, &mut self.net, self.now);
            }
        }
    }

    /// The applications post.
    fn work(&mut self) {
        let pause = Duration::from_micros(self.rng.range(1, 60));
        self.tick = self.now.saturating_add(pause);
        for node in &mut self.nodes {
            // RNIC-QPS-05: a drained queue has nothing in flight, and goes on.
            if self.scenario.pauses > 0 && self.rng.one_in(self.scenario.pauses) {
                node.requester.pause();
            } else {
                node.resume();
            }
            let most = self.rng.range(0, 6);
            node.post(most);
            for _ in 0..self.rng.range(0, 3) {
                node.post_buffer();
            }
        }
    }
}

/// One of the three protocols below.
fn route(rng: &mut Rng) -> RoceRoute {
    let ipv6 = Ipv6 {
        class: 0,
        flow: 7,
        hops: 64,
        src: [0xfd; 16],
        dst: [0xfe; 16],
    };
    match rng.range(0, 2) {
        0 => RoceRoute::V2Ipv4(
            Ipv4 {
                tos: 0,
                ident: 7,
                fragment: 0x4000,
                ttl: 64,
                src: [10, 0, 0, 1],
                dst: [10, 0, 0, 2],
            },
            0xc000,
        ),
        1 => RoceRoute::V2Ipv6(ipv6, 0xc000),
        _ => RoceRoute::V1(ipv6),
    }
}

/// A first PSN, often shortly before the wrap.
fn psn(rng: &mut Rng) -> Psn {
    match rng.range(0, 2) {
        0 => Psn::new(rng.next() as u32),
        _ => Psn::new(0x100_0000 - rng.bytes(0, 40)),
    }
}

/// Runs a scenario in which nothing fails, and compares everything with the model.
fn check(seed: u64, scenario: fn(&mut Rng) -> Scenario) {
    let mut rng = Rng::new(seed);
    let scenario = scenario(&mut rng);
    let mut world = RoceWorld::new(rng, scenario);
    let expected = world.expected();
    world.run(|_| false);
    for (index, outcome) in expected.iter().enumerate() {
        let node = &world.nodes[index];
        let peer = &world.nodes[1 - index];
        assert!(!node.failed, "{:?}", node.completed);
        let completed: Vec<_> = (0..)
            .zip(&node.jobs)
            .map(|(number, job)| (number, WorkStatus::Success, job.work.signaled))
            .collect();
        assert_eq!(node.completed, completed);
        for (job, sink) in node.jobs.iter().zip(&outcome.sinks) {
            let brings = job.work.kind == WorkKind::Read || job.work.kind.is_atomic();
            assert!(!brings || job.sink == *sink, "{:?}", job.work);
        }
        assert_eq!(peer.received, outcome.received);
        assert!(peer.memory == outcome.memory, "memory differs");
        let fatal = |nak: &&Syndrome| match nak {
            Syndrome::Nak(code) => *code != NakCode::Sequence,
            Syndrome::RnrNak(_) | Syndrome::Ack(_) => false,
        };
        assert_eq!(peer.naks.iter().find(fatal), None);
    }
}

/// Odds from rare to frequent, or never.
fn odds(rng: &mut Rng) -> u64 {
    rng.pick(&[0, 0, 200, 50, 20, 8, 4])
}

/// A bad network with frequent RNR NAKs.
fn lossy(rng: &mut Rng) -> Scenario {
    Scenario {
        service: Service::Rc,
        faults: Faults {
            loss: odds(rng),
            duplication: odds(rng),
            delay: odds(rng),
            damage: odds(rng),
        },
        retries: u8::MAX,
        jobs: [rng.range(1, 40), rng.range(0, 40)],
        direct: 0,
        starve: odds(rng),
        pauses: rng.pick(&[0, 0, 8]),
    }
}

/// RNIC-PSN, RNIC-REQ, RNIC-RSP, RNIC-RDA, RNIC-FLOW and RNIC-TMO on a bad network.
#[test]
fn requests_on_a_lossy_network_are_executed_exactly_once() {
    for_seeds(3_000, |seed| check(seed, lossy));
}

/// The simulation is worth its name: every kind of recovery happens, and often.
#[test]
fn lossy_network_causes_every_kind_of_recovery() {
    let mut sums = [0; 8];
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let scenario = lossy(&mut rng);
        let mut world = RoceWorld::new(rng, scenario);
        world.run(|_| false);
        for node in &world.nodes {
            let (sent, received) = (node.requester.stats(), node.responder.stats());
            let counts = [
                sent.timeouts,
                sent.naks.sequence,
                sent.implied_naks,
                sent.rnr_naks,
                sent.repeats,
                sent.duplicate_answers,
                received.duplicates,
                received.out_of_sequence,
            ];
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
        }
    }
    assert!(sums.iter().all(|sum| *sum >= 50), "{sums:?}");
}

/// RNIC-REQ-02: without a fault no timer expires and no packet is repeated.
#[test]
fn requests_on_a_good_network_are_never_repeated() {
    for_seeds(500, |seed| {
        let mut rng = Rng::new(seed);
        let jobs = [rng.range(1, 40), rng.range(0, 40)];
        let scenario = Scenario {
            service: Service::Rc,
            faults: Faults::default(),
            retries: 0,
            jobs,
            direct: 0,
            starve: 0,
            pauses: 0,
        };
        let mut world = RoceWorld::new(rng, scenario);
        world.run(|_| false);
        for node in &world.nodes {
            let stats = node.requester.stats();
            assert_eq!(stats.naks, NakCounts::default());
            assert_eq!(stats.timeouts + stats.implied_naks, 0);
            assert_eq!(stats.repeats, stats.rnr_naks);
            assert_eq!(node.responder.stats().duplicates, 0);
            assert!(node
                .completed
                .iter()
                .all(|done| done.1 == WorkStatus::Success));
        }
    });
}

/// RNIC-DIR-03, RNIC-DIR-04: runs and packets alternate.
#[test]
fn runs_between_packets_change_nothing() {
    for_seeds(1_500, |seed| {
        check(seed, |rng| Scenario {
            direct: rng.range(1, 4),
            ..lossy(rng)
        });
    });
}
