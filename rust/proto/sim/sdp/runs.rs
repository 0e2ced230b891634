// SPDX-License-Identifier: GPL-2.0

//! Seeded runs of two ends, with several kinds of peers.

use super::{
    end::{
        Habits,
        Manners, //
    },
    pair::{
        Scene,
        SdpPair, //
    },
    *,
};
use crate::proto::sdp::{
    profile::Dialect,
    teardown::EndError, //
};

/// A scene that a seed decides.
fn scene(seed: u64) -> Scene {
    let mut rng = Rng::new(seed ^ 0x5d9);
    let transport = rng.pick(&[
        SdpTransport::Annex,
        SdpTransport::Iwcm,
        SdpTransport::Strict,
    ]);
    let bufs = rng.range(3, 14) as u16;
    let size = rng.pick(&[200, 1024, 4096]);
    let mut habits = || Habits {
        manners: Manners::HalfClose,
        to_write: rng.range(0, 60_000),
        lends: !rng.one_in(4),
        cancels: rng.one_in(2),
        refuses: rng.one_in(2),
        urgent: rng.one_in(4),
        changes_mode: rng.one_in(2),
        changes_ring: rng.one_in(4),
    };
    let habits = [habits(), habits()];
    Scene {
        terms: [0, 1].map(|side| terms(transport, side, bufs, size)),
        config: SdpConfig {
            ring: 16384,
            wraps: true,
            most_buffer: 64 << 10,
            threshold: 1500,
            nudges: 0,
            timers: ConnTimers::DEFAULT,
        },
        habits,
        first: None,
        rules: [true; 2],
        most_bufs: [bufs; 2],
        breaks: false,
    }
}

/// Runs a scene in which both applications keep their manners: all arrives.
fn run_to_the_end(seed: u64, scene: &Scene) -> SdpPair {
    let mut pair = SdpPair::new(seed, scene);
    pair.run();
    for at in [0, 1] {
        let (us, them) = (&pair.ends[at], &pair.ends[1 - at]);
        assert_eq!(us.error(), None);
        assert!(us.saw_end);
        assert_eq!(us.written, us.habits.to_write);
        assert_eq!(them.read, us.written);
    }
    pair
}

// SDP-GEN-01, SDP-GEN-02, SDP-GEN-18, SDP-CLS-01, TST-080.
#[test]
fn streams_of_both_ends_arrive_complete_and_in_order() {
    for_seeds(300, |seed| drop(run_to_the_end(seed, &scene(seed))));
}

// SDP-GEN-11, SDP-BSDH-20, TST-047.
#[test]
fn streams_arrive_although_the_numbers_wrap() {
    for_seeds(60, |seed| {
        let mut scene = scene(seed);
        for side in [0, 1] {
            scene.terms[side] = terms(SdpTransport::Annex, side, 8, 1024);
        }
        scene.first = Some([u32::MAX - 20, u32::MAX - 3]);
        let pair = run_to_the_end(seed, &scene);
        let bulk = scene.habits.iter().all(|habits| habits.to_write > 40_000);
        assert!(!bulk || pair.messages.iter().all(|&count| count > 25));
    });
}

// SDP-OOB-02, SDP-OOB-08, TST-230: no mark is invented, and most arrive.
#[test]
fn urgent_octets_arrive_as_marks() {
    for_seeds(60, |seed| {
        let mut scene = scene(seed);
        for habits in &mut scene.habits {
            habits.urgent = true;
            habits.cancels = false;
            habits.to_write = 50_000;
        }
        let pair = run_to_the_end(seed, &scene);
        for at in [0, 1] {
            let (sent, found) = (pair.ends[at].urgent_sent, pair.ends[1 - at].urgent_found);
            assert!(found <= sent && (sent == 0 || found > 0));
        }
    });
}

// A peer like OFED: one advert, Combined Mode, no invalidation; it drops ModeChange.
#[test]
fn peer_of_ofed_gets_only_what_it_knows() {
    for_seeds(100, |seed| {
        let mut scene = scene(seed);
        for side in [0, 1] {
            let mut terms = terms(SdpTransport::Annex, side, 8, 4096);
            terms.profile.dialect = Dialect::CombinedOnly;
            terms.peer_adverts = 1;
            terms.adverts = 1;
            terms.invalidates = false;
            scene.terms[side] = terms;
        }
        run_to_the_end(seed, &scene);
    });
}

// SDP-BSDH-17: pools of four that grow when the peer sends much, against every kind of peer.
#[test]
fn pools_that_grow_keep_up_and_are_bounded() {
    for_seeds(200, |seed| {
        let mut scene = scene(seed);
        let mut rng = Rng::new(seed ^ 0x9001);
        let is_ofed = rng.one_in(3);
        for side in [0, 1] {
            let mut terms = terms(SdpTransport::Annex, side, 4, 1024);
            if is_ofed {
                terms.profile.dialect = Dialect::CombinedOnly;
                terms.peer_adverts = 1;
                terms.adverts = 1;
                terms.invalidates = false;
            }
            scene.terms[side] = terms;
            scene.habits[side].to_write += 20_000;
        }
        scene.rules = [true, rng.one_in(2)];
        scene.most_bufs = [13; 2];
        let pair = run_to_the_end(seed, &scene);
        // A held acknowledgement is made up for by eight more, at most.
        assert!(pair.most_posted.iter().all(|&most| most > 4 && most <= 21));
    });
}

// Requests of one message, each read before its answer, need no more than the pool has at first.
#[test]
fn requests_and_answers_do_not_grow_the_pool() {
    let terms = [0, 1].map(|side| terms(SdpTransport::Annex, side, 4, 1024));
    let config = scene(0).config;
    let now = Instant::from_nanos(1);
    let mut conns = terms.map(|terms| SdpConn::new(now, config, &terms));
    for conn in &mut conns {
        conn.let_pool_grow(13);
    }
    for turn in 0..100 {
        let (from, to) = (turn % 2, 1 - turn % 2);
        conns[from].write(now, 1000);
        while let Some(out) = conns[from].poll_transmit(now) {
            let mut octets = out.header.as_slice().to_vec();
            if let PayloadFrom::Ring([a, b]) = out.payload {
                octets.resize(octets.len() + (a.len + b.len) as usize, 0);
            }
            conns[from].handle_sent(now, out.token);
            let buffer = RxBuffer {
                slot: turn as u16,
                size: 1024,
                octets: &octets,
                invalidated: None,
            };
            conns[to].handle_message(now, buffer).unwrap();
        }
        while let SinkItem::Octets { len, .. } = conns[to].next_received() {
            let _ = conns[to].consumed(now, len);
        }
        let wanted = conns[to].wanted_buffers();
        conns[to].handle_posted(wanted);
        assert_eq!(conns[to].pool_size(), 4, "turn {turn}");
    }
}

// A peer that follows the text only; with eight buffers its credits do not lock up.
#[test]
fn literal_peer_with_eight_buffers_keeps_up() {
    for_seeds(100, |seed| {
        let mut scene = scene(seed);
        for side in [0, 1] {
            scene.terms[side] = terms(SdpTransport::Annex, side, 8, 1024);
        }
        scene.rules = [true, false];
        run_to_the_end(seed, &scene);
    });
}

// SDP-ABT-04, SDP-ABT-07, SDP-CLS-14: whatever ends it, both are over and memory is free.
#[test]
fn connection_that_is_cut_ends_for_both() {
    for_seeds(300, |seed| {
        let mut scene = scene(seed);
        let mut rng = Rng::new(seed ^ 0xab0);
        let rude = [Manners::CloseEarly, Manners::Abort, Manners::HalfClose];
        for habits in &mut scene.habits {
            habits.manners = rng.pick(&rude);
        }
        scene.breaks = rng.one_in(3);
        let mut pair = SdpPair::new(seed, &scene);
        pair.run();
        for end in &pair.ends {
            assert_ne!(end.error(), Some(EndError::Protocol));
        }
    });
}
