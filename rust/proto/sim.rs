// SPDX-License-Identifier: GPL-2.0

//! Simulations of two peers in virtual time, on the host only.
//!
//! Every run is decided by one seed; a failed run names it. `RDMA_SOCK_SEEDS=N` runs N seeds in
//! place of the default, `RDMA_SOCK_SEED=S` runs only seed S.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is a test: to panic is how it fails"
)]

mod abuse;
mod app;
mod conn;
mod ends;
mod failover;
mod host;
mod sdp;
mod stack;

/// A small generator of pseudo-random numbers (splitmix64), so that runs can be repeated anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Starts from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// The same, for sizes in bytes.
    pub(crate) fn bytes(&mut self, low: u32, high: u32) -> u32 {
        u32::try_from(self.range(u64::from(low), u64::from(high))).unwrap()
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next() % n == 0
    }

    /// One of several.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::try_from(self.range(0, items.len() as u64 - 1)).unwrap()]
    }
}

/// Calls `run` with each seed that the environment asks for, `default` of them without a wish.
pub(crate) fn for_seeds(default: u64, run: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|v| v.parse().expect("a number"))
    };
    let seeds = match number("RDMA_SOCK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RDMA_SOCK_SEEDS").unwrap_or(default),
    };
    for seed in seeds {
        if let Err(cause) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("failed with RDMA_SOCK_SEED={seed}");
            std::panic::resume_unwind(cause);
        }
    }
}
