// SPDX-License-Identifier: GPL-2.0

//! Compiles if `enum dma_data_direction` is a type of its own.

#![no_std]

/// A value by its name in the type.
pub const TO: kernel::bindings::dma_data_direction =
    kernel::bindings::dma_data_direction::DMA_TO_DEVICE;
