// SPDX-License-Identifier: GPL-2.0

//! The protocol core on the host: the same files as in the module, compiled for their tests.

#![cfg_attr(not(any(test, fuzzing)), no_std)]
#![warn(missing_docs, unreachable_pub)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the engines, which use the core, exist only in the module"
)]
#![cfg_attr(
    any(test, fuzzing),
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used,
        reason = "tests may panic; without them everything is checked"
    )
)]

#[path = "../../../rust/proto/mod.rs"]
mod proto;

#[cfg(any(test, fuzzing))]
pub mod fuzz;

#[cfg(test)]
mod props;
