// SPDX-License-Identifier: GPL-2.0

//! Two connections that end, in every way there is.

use super::{
    app::End,
    conn::{
        Trouble,
        World, //
    },
    for_seeds,
    Rng, //
};
use crate::proto::smc::cdc::{
    CloseError,
    CloseState,
    Tcp, //
};

/// Runs a seed and returns what became of it.
pub(super) fn run(seed: u64, ends: [End; 2], trouble: Trouble) -> World {
    let mut world = World::new(seed, ends, trouble);
    world.run();
    for side in &world.sides {
        assert_eq!(side.conn.state(), CloseState::Closed);
    }
    world
}

/// Ends of two applications that want all data of both.
pub(super) const ORDERLY: [[End; 2]; 4] = [
    [End::HalfClose, End::HalfClose],
    [End::HalfClose, End::CloseAfterPeer],
    [End::CloseAfterPeer, End::HalfClose],
    [End::HalfClose, End::CloseWhenWritten],
];

/// Checks that both applications have read all that the other wrote, to its end, and that nothing
/// had to be forced or waited for.
pub(super) fn ended_in_order(world: &World) {
    let [a, b] = &world.sides;
    assert_eq!(a.app.read, b.app.to_write, "{}", world.log());
    assert_eq!(b.app.read, a.app.to_write, "{}", world.log());
    for side in [a, b] {
        assert_eq!(side.app.error, None);
        assert!(side.app.saw_eof);
        assert_eq!(side.tcp_out, Tcp::Fin);
        assert!(!side.conn.is_forced());
    }
    assert!(!world.waited, "waited for a deadline: {}", world.log());
}

// CLS-03, CLS-04, CLS-14, CDC-35, CDC-53, WIN-09, WIN-11, TST-003, TST-026.
#[test]
fn orderly_ends_deliver_everything() {
    for_seeds(600, |seed| {
        let ends = Rng::new(seed).pick(&ORDERLY[..3]);
        let world = run(seed, ends, Trouble::None);
        ended_in_order(&world);
    });
}

#[test]
fn one_way_streams_arrive_although_the_writer_is_gone() {
    for_seeds(400, |seed| {
        let mut world = World::new(
            seed,
            [End::CloseWhenWritten, End::CloseAfterPeer],
            Trouble::None,
        );
        world.sides[1].app.to_write = 0;
        world.run();
        let [a, b] = &world.sides;
        assert_eq!(b.app.read, a.app.to_write, "{}", world.log());
        assert!(b.app.saw_eof && b.app.error.is_none());
        assert_eq!([a.tcp_out, b.tcp_out], [Tcp::Fin, Tcp::Fin]);
        assert!(!world.waited, "waited for a deadline: {}", world.log());
    });
}

/// Two of all ends, such that neither waits for the other without limit.
pub(super) fn any_two_ends(rng: &mut Rng) -> [End; 2] {
    const ALL: [End; 6] = [
        End::HalfClose,
        End::CloseAfterPeer,
        End::CloseWhenWritten,
        End::ShutdownBoth,
        End::CloseEarly,
        End::Abort,
    ];
    let mut ends = [rng.pick(&ALL), rng.pick(&ALL)];
    if ends == [End::CloseAfterPeer; 2] {
        ends[0] = End::HalfClose;
    }
    ends
}

// CLS-14, CLS-30, ABT-08, TST-026, TST-027.
#[test]
fn any_two_ends_come_to_an_end() {
    for_seeds(1_500, |seed| {
        let ends = any_two_ends(&mut Rng::new(!seed));
        let world = run(seed, ends, Trouble::None);
        for side in &world.sides {
            assert!(!side.conn.is_forced(), "{}", world.log());
        }
        assert!(!world.waited, "waited for a deadline: {}", world.log());
    });
}

// TCR-06, TCR-07, ABT-01, TST-142.
#[test]
fn a_reset_of_tcp_ends_both_sides() {
    for_seeds(400, |seed| {
        let ends = Rng::new(seed).pick(&ORDERLY);
        let world = run(seed, ends, Trouble::TcpReset);
        for side in &world.sides {
            assert!(matches!(
                side.app.error,
                None | Some(CloseError::Reset | CloseError::Pipe)
            ));
        }
        assert!(!world.waited, "waited for a deadline: {}", world.log());
    });
}

// ABT-10, FOV-19, TST-130.
#[test]
fn a_lost_link_ends_both_sides() {
    for_seeds(400, |seed| {
        let ends = Rng::new(seed).pick(&ORDERLY);
        let world = run(seed, ends, Trouble::LinkLoss);
        if world.link_down {
            for side in &world.sides {
                assert!(side.lost || side.tcp_out != Tcp::Keep);
            }
        }
    });
}
