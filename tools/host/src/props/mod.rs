// SPDX-License-Identifier: GPL-2.0

//! Properties of the core that hold for all inputs, tried on random ones.
//!
//! The number of cases per property is set by `PROPTEST_CASES`.

mod clc;
mod handshake;
mod tcpopt;
