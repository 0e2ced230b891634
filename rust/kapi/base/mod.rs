// SPDX-License-Identifier: GPL-2.0

//! What every module needs of the kernel, whatever it does: locks, work items, timers, clocks.

pub(crate) mod alarm;
pub(crate) mod module;
pub(crate) mod sync;
pub(crate) mod time;
pub(crate) mod work;
