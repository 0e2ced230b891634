// SPDX-License-Identifier: GPL-2.0

//! Values of module parameters, which the kernel crate returns by value or by reference.

use core::borrow::Borrow;

/// A copy of the value of a module parameter. Context: any.
pub(crate) fn copied<T: Copy>(value: impl Borrow<T>) -> T {
    *value.borrow()
}
