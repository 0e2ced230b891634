// SPDX-License-Identifier: GPL-2.0

//! Compiles if `enum hrtimer_restart` is a type of its own.

#![no_std]

/// A value by its name in the type.
pub const NO: kernel::bindings::hrtimer_restart =
    kernel::bindings::hrtimer_restart::HRTIMER_NORESTART;
