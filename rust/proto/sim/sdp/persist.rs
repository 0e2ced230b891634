// SPDX-License-Identifier: GPL-2.0

//! A peer that gives no credits, to a connection that its program has closed or waits for.

use super::{
    end::{
        Habits,
        Manners, //
    },
    pair::{
        Scene,
        SdpPair,
        DEVICE_TRIES, //
    },
    *,
};
use crate::proto::sdp::{
    persist::PersistTests,
    teardown::{
        EndError,
        EndState, //
    },
};

/// A writer, and a peer that neither reads nor writes, when nothing moves any longer.
fn stuck(seed: u64) -> SdpPair {
    let mut rng = Rng::new(seed ^ 0x0f);
    let habits = |manners, to_write| Habits {
        manners,
        to_write,
        lends: false,
        cancels: false,
        refuses: false,
        urgent: false,
        changes_mode: false,
        changes_ring: false,
    };
    let bufs = rng.range(3, 10) as u16;
    let scene = Scene {
        terms: [0, 1].map(|side| terms(SdpTransport::Annex, side, bufs, 1024)),
        config: SdpConfig {
            ring: 16384,
            wraps: true,
            most_buffer: 64 << 10,
            threshold: u32::MAX,
            nudges: 0,
            timers: ConnTimers::DEFAULT,
        },
        habits: [
            habits(Manners::HalfClose, u64::MAX),
            habits(Manners::Idle, 0),
        ],
        first: None,
        rules: [true; 2],
        most_bufs: [bufs; 2],
        breaks: false,
    };
    let mut pair = SdpPair::new(seed, &scene);
    while pair.step() {}
    pair
}

/// The same, when the writer has closed its socket. `cuts`: the peer has vanished by then.
fn stuck_orphan(seed: u64, cuts: bool) -> SdpPair {
    let mut pair = stuck(seed);
    if cuts {
        pair.cut();
    }
    let now = pair.now;
    pair.ends[0].close(now);
    assert_eq!(pair.ends[0].conn.state(), EndState::Draining);
    pair
}

/// Lets time pass until the writer is over; how long that took.
fn end_of(pair: &mut SdpPair) -> Duration {
    let from = pair.now;
    while pair.ends[0].conn.state() != EndState::Closed {
        assert!(pair.step() || pair.wait(), "waits without an end");
    }
    pair.now.saturating_since(from)
}

// SDP-KA-03, SDP-ERRNO-9: without credits and with nothing in flight, only a test of the link finds it.
#[test]
fn peer_that_vanished_ends_an_orphan_at_the_first_test() {
    for_seeds(100, |seed| {
        let mut pair = stuck_orphan(seed, true);
        let took = end_of(&mut pair);
        assert_eq!(pair.tests, [1, 0]);
        assert_eq!(pair.ends[0].error(), Some(EndError::TimedOut));
        let least = PersistTests::DEFAULT.first.as_nanos() + DEVICE_TRIES.as_nanos();
        assert!((least..least + 20_000_000).contains(&took.as_nanos()));
    });
}

#[test]
fn peer_that_never_gives_credits_is_given_up() {
    for_seeds(100, |seed| {
        let mut pair = stuck_orphan(seed, false);
        let took = end_of(&mut pair);
        // The end of the first may be news of data that the peer has, so that the tests begin again.
        assert!((8..=9).contains(&pair.tests[0]));
        assert_eq!(pair.ends[0].error(), Some(EndError::TimedOut));
        let least = Duration::from_millis(127_750).as_nanos();
        assert!((least..least + 300_000_000).contains(&took.as_nanos()));
    });
}

#[test]
fn peer_that_reads_at_last_gets_all_that_was_written() {
    for_seeds(100, |seed| {
        let mut pair = stuck_orphan(seed, false);
        for _ in 0..6 {
            assert!(pair.wait());
            while pair.step() {}
        }
        pair.ends[1].habits.manners = Manners::HalfClose;
        end_of(&mut pair);
        while pair.step() {}
        assert_eq!(pair.ends[0].error(), None);
        assert!(pair.ends[1].saw_end);
        assert_eq!(pair.ends[1].read, pair.ends[0].written);
    });
}

// SDP-KA-03, SDP-ERRNO-9.
#[test]
fn peer_that_vanished_ends_a_waiting_writer_at_the_next_test() {
    for_seeds(100, |seed| {
        let mut pair = stuck(seed);
        let before = pair.tests[0];
        pair.cut();
        let took = end_of(&mut pair);
        assert_eq!(pair.tests[0], before + 1);
        assert_eq!(pair.ends[0].error(), Some(EndError::TimedOut));
        assert!(took.as_nanos() >= DEVICE_TRIES.as_nanos());
    });
}

#[test]
fn peer_that_answers_tests_may_let_a_writer_wait() {
    for_seeds(20, |seed| {
        let mut pair = stuck(seed);
        let until = pair.now.saturating_add(Duration::from_secs(3600));
        while pair.now < until {
            assert!(pair.step() || pair.wait(), "nothing tests the peer");
        }
        assert_eq!(pair.ends[0].error(), None);
        // Nine in growing intervals, then one in two minutes.
        assert!((30..60).contains(&pair.tests[0]), "{} tests", pair.tests[0]);
        pair.ends[1].habits.manners = Manners::HalfClose;
        let now = pair.now;
        pair.ends[0].close(now);
        end_of(&mut pair);
        while pair.step() {}
        assert_eq!(pair.ends[1].read, pair.ends[0].written);
    });
}
