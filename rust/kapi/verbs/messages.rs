// SPDX-License-Identifier: GPL-2.0

//! The memory that the messages of a channel are sent from and received in: a buffer for each slot,
//! and behind them the room for one message that is longer (see `slot/long.rs`).
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
    iov::IovIterDest,
    prelude::*,
    sync::Arc, //
};

/// Buffers begin at multiples of this, so that no two share a cache line.
const ALIGN: usize = 64;

/// Message buffers of all slots, in one block.
pub(super) struct Buffers {
    block: Block,
    /// Octets of a buffer.
    bytes: usize,
    /// Octets from a buffer to the next.
    stride: usize,
    /// Where the room for a long message begins.
    room: usize,
    /// Octets of that room.
    long: usize,
}

impl Buffers {
    /// `slots` buffers of `bytes` octets, and room for a message of `long`. Context: may sleep.
    pub(super) fn new(slots: usize, bytes: usize, long: usize) -> Result<Self> {
        let stride = bytes.checked_next_multiple_of(ALIGN).ok_or(EINVAL)?;
        let room = slots.checked_mul(stride).ok_or(EINVAL)?;
        let len = room.checked_add(long).ok_or(EINVAL)?;
        Ok(Self {
            block: Block::zeroed(len, &MemCgroup::ROOT)?,
            bytes,
            stride,
            room,
            long,
        })
    }

    /// Octets of the longest message that fits a buffer with the room behind all of them.
    pub(super) fn longest(&self) -> usize {
        self.bytes.saturating_add(self.long)
    }

    /// Where the buffer of a slot begins.
    fn offset(&self, index: u16) -> usize {
        usize::from(index).saturating_mul(self.stride)
    }

    /// The parts of a message of `len` octets that begins in the buffer of a slot: from the octet
    /// `off` of the message on, where it lies and how long it is.
    fn parts(&self, index: u16, off: usize, len: usize) -> Result<[(usize, usize); 2]> {
        let end = off.checked_add(len).ok_or(EINVAL)?;
        if end > self.longest() {
            return Err(EINVAL);
        }
        let first = (self.bytes.min(end)).saturating_sub(off);
        let skip = off.saturating_sub(self.bytes);
        let begin = self.offset(index).saturating_add(off.min(self.bytes));
        Ok([
            (begin, first),
            (self.room.saturating_add(skip), len.saturating_sub(first)),
        ])
    }

    /// Copies octets of a message out that begins in the buffer of a slot. Context: any.
    pub(super) fn read(&self, index: u16, off: usize, to: &mut [u8]) -> Result {
        let [(begin, first), (rest, _)] = self.parts(index, off, to.len())?;
        let (start, end) = to.split_at_mut_checked(first).ok_or(EINVAL)?;
        self.block.read(begin, start)?;
        if !end.is_empty() {
            self.block.read(rest, end)?;
        }
        Ok(())
    }

    /// Copies `len` octets of a message, which lie in the buffer of a slot, to `iter`; returns how
    /// many, which is less on a fault in user memory. Context: may sleep.
    pub(super) fn copy_to_iter(
        &self,
        index: u16,
        off: usize,
        len: usize,
        iter: &mut IovIterDest<'_>,
    ) -> Result<usize> {
        match self.parts(index, off, len)? {
            [(begin, len), (_, 0)] => self.block.copy_to_iter(begin, len, iter),
            _ => Err(EINVAL),
        }
    }

    /// Maps the buffers for a device that writes them.
    ///
    /// # Safety
    ///
    /// The mapping is dropped before the buffers.
    pub(super) unsafe fn map_for_writing(&self, dev: &Arc<Device>) -> Result<Mapping> {
        // SAFETY: The block is that memory, and by this function's contract.
        unsafe { Mapping::from_device(dev, self.block.addr(), self.block.len()) }
    }

    /// The buffer of a slot, as a work request names it.
    pub(super) fn sge(&self, mapping: &Mapping, index: u16, lkey: u32) -> Result<bindings::ib_sge> {
        Ok(bindings::ib_sge {
            addr: mapping.addr(self.offset(index))?,
            length: u32::try_from(self.bytes)?,
            lkey,
        })
    }

    /// The room for a long message, if there is any, as a work request names it.
    pub(super) fn long_sge(
        &self,
        mapping: &Mapping,
        lkey: u32,
    ) -> Result<Option<bindings::ib_sge>> {
        if self.long == 0 {
            return Ok(None);
        }
        Ok(Some(bindings::ib_sge {
            addr: mapping.addr(self.room)?,
            length: u32::try_from(self.long)?,
            lkey,
        }))
    }

    /// Makes a message of `len` octets that a device has written visible to the CPU. Context: any.
    pub(super) fn sync_for_cpu(&self, mapping: &Mapping, index: u16, len: usize) -> Result {
        for (begin, len) in self.parts(index, 0, len)? {
            if len != 0 {
                mapping.sync_for_cpu(begin, len)?;
            }
        }
        Ok(())
    }

    /// Hands the memory of a message of `len` octets back to the device. Context: any.
    pub(super) fn sync_for_device(&self, mapping: &Mapping, index: u16, len: usize) -> Result {
        for (begin, len) in self.parts(index, 0, len)? {
            if len != 0 {
                mapping.sync_for_device(begin, len)?;
            }
        }
        Ok(())
    }
}

/// Buffers of messages that are sent, mapped for the device.
pub(super) struct Messages {
    // Unmapped before the memory is freed: fields are dropped in order.
    mapping: Mapping,
    buffers: Buffers,
}

impl Messages {
    /// Maps buffers for a device that reads them. Context: may sleep.
    pub(super) fn new(dev: &Arc<Device>, buffers: Buffers) -> Result<Self> {
        let block = &buffers.block;
        // SAFETY: The block is that memory, and the mapping is dropped first.
        let mapping = unsafe { Mapping::to_device(dev, block.addr(), block.len())? };
        Ok(Self { mapping, buffers })
    }

    /// The buffer of a slot, as a work request names it.
    pub(super) fn sge(&self, index: u16, lkey: u32) -> Result<bindings::ib_sge> {
        self.buffers.sge(&self.mapping, index, lkey)
    }

    /// Address of a buffer for the CPU, as inline requests want it.
    pub(super) fn cpu_addr(&self, index: u16) -> u64 {
        (self.buffers.block.addr() as u64).wrapping_add(self.buffers.offset(index) as u64)
    }

    /// Puts a message into a buffer, hands it to the device and returns its length.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if it is longer than a buffer.
    pub(super) fn put(&self, index: u16, msg: &[u8]) -> Result<u32> {
        if msg.len() > self.buffers.bytes {
            return Err(EMSGSIZE);
        }
        let off = self.buffers.offset(index);
        self.buffers.block.write(off, msg)?;
        self.mapping.sync_for_device(off, msg.len())?;
        Ok(u32::try_from(msg.len())?)
    }

    /// Puts a long message into its room, hands it to the device and returns the room with the
    /// length of the message.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if there is not so much room.
    pub(super) fn put_long(&self, msg: &[u8], lkey: u32) -> Result<bindings::ib_sge> {
        let buffers = &self.buffers;
        let room = buffers.long_sge(&self.mapping, lkey)?.ok_or(EMSGSIZE)?;
        if msg.len() > buffers.long {
            return Err(EMSGSIZE);
        }
        buffers.block.write(buffers.room, msg)?;
        self.mapping.sync_for_device(buffers.room, msg.len())?;
        Ok(bindings::ib_sge {
            length: u32::try_from(msg.len())?,
            ..room
        })
    }
}
