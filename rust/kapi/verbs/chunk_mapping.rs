// SPDX-License-Identifier: GPL-2.0

//! Memory of several blocks, mapped for an RDMA device.

use super::{
    device::Device,
    dma::Mapping, //
};
use crate::kapi::mem::{
    block::Block,
    chunks::{
        ChunkPart,
        ChunkParts,
        Chunks, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The mappings of all blocks of [`Chunks`]. Dropped in any context.
///
/// # Invariants
///
/// `mappings` are those of the blocks, in their order; a block has `each` octets.
pub(super) struct ChunkMapping {
    mappings: KVec<Mapping>,
    each: usize,
}

impl ChunkMapping {
    /// Maps memory that the device reads. Context: may sleep.
    ///
    /// # Safety
    ///
    /// `chunks` are not dropped before the mapping.
    pub(super) unsafe fn to_device(dev: &Arc<Device>, chunks: &Chunks) -> Result<Self> {
        Self::of_blocks(chunks, |block| {
            // SAFETY: The block is that memory, which stays by this function's contract.
            unsafe { Mapping::to_device(dev, block.addr(), block.len()) }
        })
    }

    /// Maps memory that the device and the CPU write. Context: may sleep.
    ///
    /// # Safety
    ///
    /// As for [`Self::to_device`].
    pub(super) unsafe fn both_ways(dev: &Arc<Device>, chunks: &Chunks) -> Result<Self> {
        Self::of_blocks(chunks, |block| {
            // SAFETY: The block is that memory, which stays by this function's contract.
            unsafe { Mapping::both_ways(dev, block.addr(), block.len()) }
        })
    }

    fn of_blocks(chunks: &Chunks, map: impl Fn(&Block) -> Result<Mapping>) -> Result<Self> {
        let mut mappings = KVec::with_capacity(chunks.blocks().len(), GFP_KERNEL)?;
        for block in chunks.blocks() {
            mappings.push(map(block)?, GFP_KERNEL)?;
        }
        // INVARIANT: All blocks have just been mapped, in this order.
        Ok(Self {
            mappings,
            each: chunks.each(),
        })
    }

    /// Whether the memory is mapped for this device.
    pub(super) fn is_of(&self, dev: &Arc<Device>) -> bool {
        self.mappings
            .iter()
            .all(|mapping| Arc::ptr_eq(mapping.device(), dev))
    }

    /// The mappings of the blocks, in their order.
    pub(super) fn of_each(&self) -> &[Mapping] {
        &self.mappings
    }

    /// Calls `f` with the part in each block, and the mapping of that, of `len` octets at `off`.
    fn for_parts(
        &self,
        off: usize,
        len: usize,
        mut f: impl FnMut(&Mapping, ChunkPart) -> Result,
    ) -> Result {
        for part in ChunkParts::new(self.each, off, len)? {
            f(self.mappings.get(part.block).ok_or(EINVAL)?, part)?;
        }
        Ok(())
    }

    /// Makes what the device wrote visible to the CPU. Context: any.
    pub(super) fn sync_for_cpu(&self, off: usize, len: usize) -> Result {
        self.for_parts(off, len, |mapping, part| {
            mapping.sync_for_cpu(part.off, part.len)
        })
    }

    /// Makes what the CPU wrote visible to the device. Context: any.
    pub(super) fn sync_for_device(&self, off: usize, len: usize) -> Result {
        self.for_parts(off, len, |mapping, part| {
            mapping.sync_for_device(part.off, part.len)
        })
    }

    /// Hands `len` octets at `off` to the device, and calls `f` with the address there and the size of the
    /// part in each block. Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is not within the memory, and those of `f`.
    pub(super) fn for_device(
        &self,
        off: usize,
        len: usize,
        mut f: impl FnMut(u64, u32) -> Result,
    ) -> Result {
        self.for_parts(off, len, |mapping, part| {
            mapping.sync_for_device(part.off, part.len)?;
            f(mapping.addr(part.off)?, u32::try_from(part.len)?)
        })
    }
}
