// SPDX-License-Identifier: GPL-2.0

//! Runs in which a request fails: it has the right status, all earlier ones succeed, and all later
//! ones are flushed (RNIC-ERR-01 to RNIC-ERR-03).

use super::{
    fabric::Faults,
    job::{
        Job,
        KEY,
        MEMORY,
        RECEIVE, //
    },
    model,
    run::{
        RoceWorld,
        Scenario, //
    },
};
use crate::proto::{
    base::verbs::RKey,
    roce::{
        opcode::Service,
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

/// The error that is built into one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// The peer does not know the key.
    Key,
    /// The range exceeds the region.
    Range,
    /// The word of an atomic operation is not aligned.
    Alignment,
    /// A part of the source cannot be read.
    Source,
    /// A part of the sink cannot be written.
    Sink,
    /// A local request fails.
    Local,
    /// The message is longer than the receive buffer.
    Length,
    /// The receive buffer cannot be written.
    Receive,
}

const FLAWS: [Flaw; 8] = [
    Flaw::Key,
    Flaw::Range,
    Flaw::Alignment,
    Flaw::Source,
    Flaw::Sink,
    Flaw::Local,
    Flaw::Length,
    Flaw::Receive,
];

impl Flaw {
    /// A job with the flaw.
    fn job(self, rng: &mut Rng) -> Job {
        use WorkKind::*;
        let len = rng.bytes(1, 3_000);
        let kind = match self {
            Self::Key => rng.pick(&[Write, Read, FetchAdd, AtomicWrite, Flush]),
            Self::Range => rng.pick(&[Write, Read, Flush]),
            Self::Alignment => rng.pick(&[CompareSwap, FetchAdd, AtomicWrite]),
            Self::Source => rng.pick(&[Send, Write, SendInv]),
            Self::Sink => Read,
            Self::Local => rng.pick(&[RegMr, LocalInv, BindMw]),
            Self::Length | Self::Receive => rng.pick(&[Send, SendImm]),
        };
        let len = match self {
            Self::Length => RECEIVE + rng.bytes(1, 600),
            _ => len,
        };
        let mut job = Job::random(rng, kind, len);
        match self {
            Self::Key => job.rkey = RKey::new(KEY.get() ^ 1),
            Self::Range => job.offset = MEMORY - len + 1,
            Self::Alignment => job.offset = job.offset / 8 * 8 + 4 - 8 * u32::from(job.offset > 8),
            Self::Source | Self::Sink => job.fault_at = Some(rng.bytes(0, len - 1)),
            Self::Local => job.fault_at = Some(0),
            Self::Length | Self::Receive => {}
        }
        job
    }

    /// The status at the requester.
    fn status(self) -> WorkStatus {
        match self {
            Self::Key | Self::Range => WorkStatus::RemAccessErr,
            Self::Alignment | Self::Length => WorkStatus::RemInvReqErr,
            Self::Source | Self::Sink => WorkStatus::LocProtErr,
            Self::Local => WorkStatus::LocQpOpErr,
            Self::Receive => WorkStatus::RemOpErr,
        }
    }

    /// The status of the receive buffer that the failed message took.
    fn receive_status(self) -> Option<WorkStatus> {
        match self {
            Self::Length => Some(WorkStatus::LocLenErr),
            Self::Receive => Some(WorkStatus::LocProtErr),
            _ => None,
        }
    }
}

/// Checks the completions of node 0, and returns how many jobs succeeded and how the next ended.
fn first_failure(world: &RoceWorld) -> (usize, WorkStatus) {
    let completed = &world.nodes[0].completed;
    let at = completed
        .iter()
        .position(|done| done.1 != WorkStatus::Success)
        .expect("no failure");
    for (number, done) in (0..).zip(completed) {
        assert_eq!(done.0, number);
    }
    for done in &completed[at + 1..] {
        assert_eq!((done.1, done.2), (WorkStatus::WrFlushErr, true));
    }
    assert!(completed[at].2);
    (at, completed[at].1)
}

/// One run with a flaw, on a good or bad network.
fn fail(seed: u64, faults: Faults, direct: u64) {
    let mut rng = Rng::new(seed);
    let flaw = rng.pick(&FLAWS);
    let before = rng.range(0, 12);
    let scenario = Scenario {
        service: Service::Rc,
        faults,
        retries: 7,
        jobs: [before + rng.range(0, 5), 0],
        direct,
        starve: 0,
        pauses: 0,
    };
    let job = flaw.job(&mut rng);
    let mut world = RoceWorld::new(rng, scenario);
    let bad = before as usize;
    world.nodes[0].jobs.insert(bad, job);
    let consumers = world.nodes[0].jobs[..bad]
        .iter()
        .filter(|job| job.consumes_receive())
        .count();
    if flaw == Flaw::Receive {
        world.nodes[1].faulty = Some(consumers as u64);
    }
    // The responder has executed later requests when the response to a READ cannot be stored.
    let executed = match flaw {
        Flaw::Sink => &world.nodes[0].jobs[..],
        _ => &world.nodes[0].jobs[..bad],
    };
    let expected = model::execute(executed, &world.nodes[1].memory);
    world.run(|_| false);
    let (at, status) = first_failure(&world);
    let lossless = faults.loss + faults.damage == 0;
    if lossless || (at, status) != (at, WorkStatus::RetryExcErr) {
        assert_eq!((at, status), (bad, flaw.status()), "{flaw:?}");
    }
    assert!(at <= bad);
    let peer = &world.nodes[1];
    assert!(expected.received.starts_with(&peer.received));
    if at == bad && flaw != Flaw::Sink {
        assert_eq!(peer.received, expected.received);
    }
    if lossless {
        assert_eq!(peer.receive_error, flaw.receive_status());
        // A message that failed in its middle has stored its beginning.
        let partial = matches!(flaw, Flaw::Source | Flaw::Sink);
        assert!(partial || peer.memory == expected.memory);
    }
}

/// RNIC-ERR-01, RNIC-ERR-03, RNIC-RSP-07, RNIC-RSP-09, RNIC-RSP-10, RNIC-RSP-11.
#[test]
fn failed_request_has_its_status_and_flushes_the_rest() {
    for_seeds(2_500, |seed| fail(seed, Faults::default(), 0));
}

/// RNIC-DIR-04: the same without packets.
#[test]
fn failed_direct_request_has_the_status_of_a_nak() {
    for_seeds(2_500, |seed| fail(seed, Faults::default(), 2));
}

/// RNIC-TMO-02: a lost NAK ends in exhausted retries.
#[test]
fn failed_request_on_a_lossy_network_ends_in_time() {
    let faults = Faults {
        loss: 15,
        duplication: 15,
        delay: 15,
        damage: 40,
    };
    for_seeds(2_500, |seed| fail(seed, faults, 0));
}

/// RNIC-TMO-02, RNIC-ERR-01.
#[test]
fn peer_that_falls_silent_exhausts_the_retries() {
    for_seeds(500, |seed| {
        let mut rng = Rng::new(seed);
        let scenario = Scenario {
            service: Service::Rc,
            faults: Faults::default(),
            retries: rng.range(0, 7) as u8,
            jobs: [rng.range(5, 30), rng.range(0, 10)],
            direct: 0,
            starve: 0,
            pauses: 0,
        };
        let silent_at = rng.range(0, 4) as usize;
        let mut world = RoceWorld::new(rng, scenario);
        world.run(|world| {
            let node = &mut world.nodes[0];
            if node.completed.len() >= silent_at && !world.net.cut[0] {
                world.net.cut = [true; 2];
                // Everything before may be complete, or local.
                node.jobs
                    .push(Job::random(&mut world.rng, WorkKind::Send, 1));
            }
            false
        });
        let (at, status) = first_failure(&world);
        assert!(at >= silent_at);
        assert_eq!(status, WorkStatus::RetryExcErr);
        assert_eq!(world.nodes[0].completed.len(), world.nodes[0].jobs.len());
    });
}

/// RNIC-RSP-21, RNIC-MR-07: no octet moves after the key is gone.
#[test]
fn key_that_is_revoked_in_mid_message_is_an_access_error() {
    for_seeds(300, |seed| {
        let mut rng = Rng::new(seed);
        let scenario = Scenario {
            service: Service::Rc,
            faults: Faults::default(),
            retries: 7,
            jobs: [20, 0],
            direct: 0,
            starve: 0,
            pauses: 0,
        };
        let steps = rng.range(0, 120);
        let mut world = RoceWorld::new(rng, scenario);
        let job = Flaw::Key.job(&mut world.rng);
        // The last job finds the key gone at the latest.
        world.nodes[0].jobs.push(job);
        let mut step = 0;
        let mut memory = None;
        world.run(|world| {
            step += 1;
            if step == steps {
                world.nodes[1].revoked = true;
                memory = Some(world.nodes[1].memory.clone());
            }
            false
        });
        let (_, status) = first_failure(&world);
        assert_eq!(status, WorkStatus::RemAccessErr);
        if let Some(memory) = memory {
            assert!(world.nodes[1].memory == memory);
        }
    });
}

/// RNIC-ERR-05: requests that succeeded were executed, and the peer may have executed more.
#[test]
fn queue_that_is_flushed_completes_every_request_once() {
    for_seeds(1_000, |seed| {
        let mut rng = Rng::new(seed);
        let scenario = Scenario {
            service: Service::Rc,
            faults: Faults {
                loss: 20,
                duplication: 20,
                delay: 20,
                damage: 20,
            },
            retries: u8::MAX,
            jobs: [rng.range(5, 30), 0],
            direct: 0,
            starve: 8,
            pauses: 8,
        };
        let steps = rng.range(0, 100);
        let mut world = RoceWorld::new(rng, scenario);
        let [expected, _] = world.expected();
        let mut step = 0;
        world.run(|world| {
            step += 1;
            if step == steps {
                world.nodes[0].fail();
            }
            false
        });
        let [node, peer] = &world.nodes;
        let succeeded = node
            .completed
            .iter()
            .take_while(|done| done.1 == WorkStatus::Success)
            .count();
        for (number, done) in (0..).zip(&node.completed) {
            assert_eq!(done.0, number);
            let flushed = (WorkStatus::WrFlushErr, true);
            assert!(number < succeeded as u64 || (done.1, done.2) == flushed);
        }
        let consumers = node.jobs[..succeeded]
            .iter()
            .filter(|job| job.consumes_receive())
            .count();
        assert!(peer.received.len() >= consumers);
        assert!(expected.received.starts_with(&peer.received));
        for (job, sink) in node.jobs[..succeeded].iter().zip(&expected.sinks) {
            let brings = job.work.kind == WorkKind::Read || job.work.kind.is_atomic();
            assert!(!brings || job.sink == *sink);
        }
    });
}
