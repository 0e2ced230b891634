// SPDX-License-Identifier: GPL-2.0

//! Two connections whose links die, RFC 7609, 4.6.

use super::{
    app::End,
    conn::Trouble,
    ends::{
        any_two_ends,
        ended_in_order,
        run,
        ORDERLY, //
    },
    for_seeds,
    Rng, //
};
use crate::proto::smc::cdc::{
    CloseError,
    Tcp, //
};
use std::sync::atomic::{
    AtomicU64,
    Ordering::Relaxed, //
};

// FOV-02, FOV-04, FOV-06 to FOV-14, FOV-18, FOV-21, AMB-31, AMB-32, TST-127 (a, b), TST-129
#[test]
fn nothing_is_lost_when_links_die() {
    let [lent, copied, refused] = [const { AtomicU64::new(0) }; 3];
    for_seeds(500, |seed| {
        let mut rng = Rng::new(!seed);
        let ends = rng.pick(&ORDERLY[..3]);
        let count = rng.range(1, 12);
        let world = run(seed, ends, Trouble::Failover(count));
        ended_in_order(&world);
        lent.fetch_add(world.lent, Relaxed);
        copied.fetch_add(world.copied, Relaxed);
        refused.fetch_add(world.refused, Relaxed);
    });
    // Also of what the applications have lent, some of which had to be copied in the end.
    if std::env::var_os("RDMA_SOCK_SEED").is_none() {
        assert!(lent.into_inner() > 1_000 && copied.into_inner() > 100);
        assert!(refused.into_inner() > 100);
    }
}

// FOV-04, FOV-12, ABT-01, CLS-52, CLS-53: C and A that were in flight when a link died arrive, too.
#[test]
fn any_two_ends_come_to_an_end_when_links_die() {
    for_seeds(500, |seed| {
        let mut rng = Rng::new(!seed);
        let ends = any_two_ends(&mut rng);
        let count = rng.range(1, 12);
        let world = run(seed, ends, Trouble::Failover(count));
        for side in &world.sides {
            assert!(!side.conn.is_forced(), "{}", world.log());
        }
        assert!(!world.waited, "waited for a deadline: {}", world.log());
    });
}

// FOV-07, FOV-10, FOV-15, TST-127 (c)
#[test]
fn a_link_that_swallowed_data_is_found_out() {
    for_seeds(500, |seed| {
        let ends = Rng::new(!seed).pick(&ORDERLY[..3]);
        let world = run(seed, ends, Trouble::FailoverLoss);
        let [a, b] = &world.sides;
        if world.swallowed == 0 {
            assert_eq!([a.app.read, b.app.read], [b.app.to_write, a.app.to_write]);
            return;
        }
        // Never wrong data; either nothing that mattered was swallowed, or both learn of it.
        for side in [a, b] {
            assert!(matches!(
                side.app.error,
                None | Some(CloseError::Reset | CloseError::Pipe | CloseError::Aborted)
            ));
        }
        let whole = a.app.read == b.app.to_write && b.app.read == a.app.to_write;
        assert!(
            whole || a.tcp_out == Tcp::Reset || b.tcp_out == Tcp::Reset,
            "{}",
            world.log()
        );
    });
}
