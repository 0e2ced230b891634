// SPDX-License-Identifier: GPL-2.0

//! What the cores of all protocols share: time, queues of fixed capacity, delays and rate limits.

pub(crate) mod queue;
pub(crate) mod rate;
pub(crate) mod retry;
pub(crate) mod time;
