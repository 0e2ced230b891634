// SPDX-License-Identifier: GPL-2.0

//! Memory that a device reads for our RDMA writes.

use super::block::Block;
use crate::kapi::rdma::{
    device::Device,
    dma::Mapping, //
};
use kernel::{
    iov::IovIterSource,
    prelude::*,
    sync::Arc, //
};

/// A contiguous buffer mapped for reading by one device.
///
/// Writes posted from it hold a reference until they are complete. Dropped in any context.
pub(crate) struct SendBuffer {
    // Unmapped before the memory is freed: fields are dropped in order.
    mapping: Mapping,
    block: Block,
    len: usize,
}

impl SendBuffer {
    /// Allocates and maps a buffer of `len` octets for `dev`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM` early, so that the caller may ask for less; `ENODEV` if the device is being removed.
    pub(crate) fn new(dev: &Arc<Device>, len: usize) -> Result<Arc<Self>> {
        let block = Block::new(len)?;
        // SAFETY: The memory of the block is `block.len()` octets from `block.addr()`, and the
        // mapping is dropped before the block.
        let mapping = unsafe { Mapping::to_device(dev, block.addr(), block.len())? };
        Ok(Arc::new(
            Self {
                mapping,
                block,
                len,
            },
            GFP_KERNEL,
        )?)
    }

    /// Size in octets.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Copies up to `len` octets from `iter` to `off`.
    ///
    /// Returns the number copied, which is less than `len` when `iter` is empty or faults. The caller
    /// keeps track of what the device still has to read. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is not within the buffer; `EFAULT` if nothing could be copied.
    pub(crate) fn copy_from_iter(
        &self,
        off: usize,
        len: usize,
        iter: &mut IovIterSource<'_>,
    ) -> Result<usize> {
        self.check(off, len)?;
        self.block.copy_from_iter(off, len, iter)
    }

    /// Copies in from private memory. Any context.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(crate) fn write(&self, off: usize, data: &[u8]) -> Result {
        self.check(off, data.len())?;
        self.block.write(off, data)
    }

    fn check(&self, off: usize, len: usize) -> Result {
        match off.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(EINVAL),
        }
    }

    /// Hands `len` octets at `off` to the device and returns their address there. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the buffer is not mapped for `dev` or the range is not within the buffer.
    pub(in crate::kapi) fn for_device(
        &self,
        dev: &Arc<Device>,
        off: usize,
        len: usize,
    ) -> Result<u64> {
        if !Arc::ptr_eq(dev, self.mapping.device()) {
            return Err(EINVAL);
        }
        self.check(off, len)?;
        self.mapping.sync_for_device(off, len)?;
        self.mapping.addr(off)
    }
}
