// SPDX-License-Identifier: GPL-2.0

//! The memory that a channel's messages are sent from and received in: a buffer for each slot, and
//! behind them the room for one message that is longer (see `slot/long.rs`).
//!
//! C header: [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h)

use super::{
    device::Device,
    dma::Mapping, //
};
use crate::{
    bindings,
    kapi::mem::{
        block::Block,
        cgroup::MemCgroup, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Size of a message buffer.
pub(super) const BUFFER_BYTES: usize = 64;
/// Size of a message that is sent.
pub(super) const MESSAGE_BYTES: usize = 44;
/// [`MESSAGE_BYTES`] as in work requests.
pub(super) const MESSAGE_LEN: u32 = 44;

const _: () = assert!(MESSAGE_LEN as usize == MESSAGE_BYTES && MESSAGE_BYTES <= BUFFER_BYTES);

/// Message buffers of all slots, mapped for the device.
pub(super) struct Messages {
    // Unmapped before the memory is freed: fields are dropped in order.
    mapping: Mapping,
    block: Block,
    /// Buffers of slots.
    slots: usize,
    /// Octets behind them for a long message.
    long: usize,
}

impl Messages {
    /// Room for all of that.
    fn block(slots: usize, long: usize) -> Result<Block> {
        let short = slots.checked_mul(BUFFER_BYTES).ok_or(EINVAL)?;
        Block::zeroed(short.checked_add(long).ok_or(EINVAL)?, &MemCgroup::ROOT)
    }

    /// Buffers that the device reads. Sleeps.
    pub(super) fn for_sending(dev: &Arc<Device>, slots: usize, long: usize) -> Result<Self> {
        let block = Self::block(slots, long)?;
        // SAFETY: The block is that memory, and the mapping is dropped first.
        let mapping = unsafe { Mapping::to_device(dev, block.addr(), block.len())? };
        Ok(Self {
            mapping,
            block,
            slots,
            long,
        })
    }

    /// Buffers that the device writes. Sleeps.
    pub(super) fn for_receiving(dev: &Arc<Device>, slots: usize, long: usize) -> Result<Self> {
        let block = Self::block(slots, long)?;
        // SAFETY: The block is that memory, and the mapping is dropped first.
        let mapping = unsafe { Mapping::from_device(dev, block.addr(), block.len())? };
        Ok(Self {
            mapping,
            block,
            slots,
            long,
        })
    }

    /// Address of a buffer for the device.
    pub(super) fn dma_addr(&self, index: u16) -> Result<u64> {
        self.mapping.addr(usize::from(index) * BUFFER_BYTES)
    }

    /// Address of a buffer for the CPU, as inline requests want it.
    pub(super) fn cpu_addr(&self, index: u16) -> u64 {
        (self.block.addr() as u64).wrapping_add(u64::from(index) * BUFFER_BYTES as u64)
    }

    /// Puts a message into a buffer and hands it to the device.
    pub(super) fn put(&self, index: u16, msg: &[u8; MESSAGE_BYTES]) -> Result {
        let off = usize::from(index) * BUFFER_BYTES;
        self.block.write(off, msg)?;
        self.mapping.sync_for_device(off, MESSAGE_BYTES)
    }

    /// Copies a buffer out and hands it back to the device.
    pub(super) fn take(&self, index: u16) -> Result<[u8; BUFFER_BYTES]> {
        let off = usize::from(index) * BUFFER_BYTES;
        self.mapping.sync_for_cpu(off, BUFFER_BYTES)?;
        let mut copy = [0; BUFFER_BYTES];
        self.block.read(off, &mut copy)?;
        self.mapping.sync_for_device(off, BUFFER_BYTES)?;
        Ok(copy)
    }

    /// Where the room for a long message begins.
    fn room(&self) -> usize {
        self.slots.saturating_mul(BUFFER_BYTES)
    }

    /// Its address for the device, and its size; `None` if there is none.
    pub(super) fn long_sge(&self, lkey: u32) -> Result<Option<bindings::ib_sge>> {
        if self.long == 0 {
            return Ok(None);
        }
        Ok(Some(bindings::ib_sge {
            addr: self.mapping.addr(self.room())?,
            length: u32::try_from(self.long)?,
            lkey,
        }))
    }

    /// Puts a long message there and hands it to the device.
    pub(super) fn put_long(&self, msg: &[u8]) -> Result {
        if msg.len() > self.long {
            return Err(EMSGSIZE);
        }
        self.block.write(self.room(), msg)?;
        self.mapping.sync_for_device(self.room(), msg.len())
    }

    /// Copies a message out that began in the buffer of a slot, and hands the memory back to the
    /// device.
    pub(super) fn take_long(&self, index: u16, msg: &mut [u8]) -> Result {
        let first = self.take(index)?;
        let (start, rest) = msg.split_at_mut_checked(BUFFER_BYTES).ok_or(EINVAL)?;
        start.copy_from_slice(&first);
        if rest.len() > self.long {
            return Err(EMSGSIZE);
        }
        self.mapping.sync_for_cpu(self.room(), rest.len())?;
        self.block.read(self.room(), rest)?;
        self.mapping.sync_for_device(self.room(), rest.len())
    }
}
