// SPDX-License-Identifier: GPL-2.0

//! Values of C enumerations that the kernel's bindings have as constants or as constants of a type.

use kernel::bindings::hrtimer_restart;

#[cfg(kernel_has = "dma_direction_type")]
mod direction {
    use kernel::bindings::dma_data_direction as Type;

    pub(crate) const DMA_BIDIRECTIONAL: Type = Type::DMA_BIDIRECTIONAL;
    pub(crate) const DMA_FROM_DEVICE: Type = Type::DMA_FROM_DEVICE;
    pub(crate) const DMA_TO_DEVICE: Type = Type::DMA_TO_DEVICE;
}

#[cfg(not(kernel_has = "dma_direction_type"))]
mod direction {
    pub(crate) use kernel::bindings::{
        dma_data_direction_DMA_BIDIRECTIONAL as DMA_BIDIRECTIONAL,
        dma_data_direction_DMA_FROM_DEVICE as DMA_FROM_DEVICE,
        dma_data_direction_DMA_TO_DEVICE as DMA_TO_DEVICE, //
    };
}

pub(crate) use self::direction::*;

/// The timer stays as its handler left it.
#[cfg(kernel_has = "hrtimer_restart_type")]
pub(crate) const HRTIMER_NORESTART: hrtimer_restart = hrtimer_restart::HRTIMER_NORESTART;

/// The timer stays as its handler left it.
#[cfg(not(kernel_has = "hrtimer_restart_type"))]
pub(crate) const HRTIMER_NORESTART: hrtimer_restart =
    kernel::bindings::hrtimer_restart_HRTIMER_NORESTART;
