// SPDX-License-Identifier: GPL-2.0

//! The CLC handshake of a connection: the option, the messages, and what is reserved for it.
//!
//! Source: RFC 7609 sections 3.1, 3.5; the decisions are in `proto::smc::clc`.

pub(super) mod late_proposal;
pub(super) mod negotiation;
pub(super) mod networks;
pub(super) mod option;
pub(super) mod prepare;
pub(super) mod reservation;
pub(super) mod state;
pub(super) mod version;
