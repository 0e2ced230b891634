// SPDX-License-Identifier: GPL-2.0

//! Time, queues of fixed capacity, delays and rate limits, for the cores of all protocols.

pub(crate) mod queue;
pub(crate) mod rate;
pub(crate) mod retry;
pub(crate) mod time;
