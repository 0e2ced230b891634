// SPDX-License-Identifier: GPL-2.0

//! Two queue pairs on a lossy network in virtual time, compared with a model that executes every
//! request at once.
//!
//! A seed decides settings, faults and work; see [`for_seeds`](crate::proto::sim::for_seeds).

#![expect(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is a test: to panic is how it fails"
)]

mod fabric;
mod failures;
mod job;
mod model;
mod node;
mod run;
mod unreliable;
