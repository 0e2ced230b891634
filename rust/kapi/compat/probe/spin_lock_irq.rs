// SPDX-License-Identifier: GPL-2.0

//! Compiles if the kernel crate has spinlocks that are taken with interrupts off.

#![no_std]

pub use kernel::{
    new_spinlock_irq,
    sync::SpinLockIrq, //
};
