// SPDX-License-Identifier: GPL-2.0

//! Time, queues of fixed capacity, delays, rate limits, quotas, networks, ports and the numbers of verbs,
//! for the cores of all protocols.

pub(crate) mod network;
pub(crate) mod ports;
pub(crate) mod queue;
pub(crate) mod quota;
pub(crate) mod rate;
pub(crate) mod retry;
pub(crate) mod time;
pub(crate) mod verbs;
