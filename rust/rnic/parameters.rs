// SPDX-License-Identifier: GPL-2.0

//! The parameters of the module.

use kernel::prelude::*;

/// The parameters of the module.
pub(crate) struct Settings {
    /// Versions of RoCE of new devices: 1, 2, or 3 for both.
    pub(crate) roce: u8,
    /// Whether packets of a message pass the network together: 1, or 0 for one by one.
    pub(crate) together: u8,
    /// Whether packets that arrive together are taken before UDP separates them: 1, or 0.
    pub(crate) hook: u8,
    /// The number of a [`Profile`].
    pub(crate) strict: u8,
    /// Whether memory is mapped as for an adapter: 1, or 0 for the addresses of the kernel.
    pub(crate) dma: u8,
    /// Other fast paths that are off, a sum of the numbers of `fast_paths`.
    pub(crate) plain: u8,
}

/// A parameter that is 0 or 1.
///
/// # Errors
///
/// `EINVAL` for another number.
pub(super) fn flag(number: u8) -> Result<bool> {
    match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(EINVAL),
    }
}
