// SPDX-License-Identifier: GPL-2.0

//! The data side of a connection, and its moves between links.
//!
//! Source: RFC 7609 sections 4.3 to 4.8; the decisions are in `proto::smc::cdc`.

pub(super) mod data;
pub(super) mod ending;
mod failover;
mod messages;
mod stream;
