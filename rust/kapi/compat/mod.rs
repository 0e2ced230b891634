// SPDX-License-Identifier: GPL-2.0

//! Differences between the kernels that the module is built for.
//!
//! Nothing here asks for a release number. The build compiles each crate of `probe/` against the
//! kernel that it builds for, and sets `kernel_has = "NAME"` for those that compile. What a kernel
//! lacks is made up for here, under the name that newer kernels have for it. A difference of C
//! headers belongs into `rust/bindings`.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "no module needs all of it, and kernels differ"
)]

pub(crate) mod enums;
pub(crate) mod errno;
pub(crate) mod parameter;
mod spin_lock_irq;

pub(crate) use self::spin_lock_irq::{
    new_spinlock_irq,
    SpinLockIrq, //
};
