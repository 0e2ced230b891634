// SPDX-License-Identifier: GPL-2.0

//! Unreliable connections: a message arrives whole or not at all (RNIC-UD-10).

use super::{
    fabric::Faults,
    job::{
        Job,
        RECEIVE, //
    },
    node::Buffer,
    run::{
        RoceWorld,
        Scenario, //
    },
};
use crate::proto::{
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

/// Runs node 0 until its jobs are complete and the network is empty.
fn run(seed: u64, loss: u64, damage: u64) -> (RoceWorld, super::model::ExpectedResult) {
    use WorkKind::*;
    let mut rng = Rng::new(seed);
    let scenario = Scenario {
        service: Service::Uc,
        faults: Faults {
            loss,
            damage,
            ..Faults::default()
        },
        retries: 0,
        jobs: [0, 0],
        direct: 0,
        starve: 0,
        pauses: 0,
    };
    let kinds = [Send, SendImm, Write, WriteImm, RegMr, LocalInv];
    let jobs = (0..rng.range(1, 30))
        .map(|_| {
            let kind = rng.pick(&kinds);
            let len = rng.bytes(0, RECEIVE);
            Job::random(&mut rng, kind, len)
        })
        .collect();
    let mut world = RoceWorld::new(rng, scenario);
    world.nodes[0].jobs = jobs;
    for _ in 0..world.nodes[0].jobs.len() {
        world.nodes[1].buffers.push_back(Buffer {
            capacity: RECEIVE,
            data: vec![0; RECEIVE as usize],
            fault: false,
        });
    }
    let [expected, _] = world.expected();
    world.run(|_| false);
    while world.net.next().is_some() {
        world.step();
    }
    let node = &world.nodes[0];
    assert!(node
        .completed
        .iter()
        .all(|done| done.1 == WorkStatus::Success));
    assert_eq!(node.requester.poll_timeout(), None);
    assert!(world.nodes[1].responder.poll_reply(1).is_none());
    (world, expected)
}

#[test]
fn messages_on_a_good_network_all_arrive() {
    for_seeds(300, |seed| {
        let (world, expected) = run(seed, 0, 0);
        assert_eq!(world.nodes[1].received, expected.received);
        assert!(world.nodes[1].memory == expected.memory);
    });
}

#[test]
fn messages_on_a_lossy_network_arrive_whole_or_not_at_all() {
    let mut lost = 0;
    for seed in 0..300 {
        let (world, expected) = run(seed, 8, 8);
        let mut sent = expected.received.iter();
        for received in &world.nodes[1].received {
            assert!(sent.any(|message| message == received));
        }
        lost += expected.received.len() - world.nodes[1].received.len();
    }
    assert!(lost > 100, "{lost}");
}
