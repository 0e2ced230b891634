// SPDX-License-Identifier: GPL-2.0

//! The memory that the messages of a channel are sent from and received in: a buffer for each slot,
//! and besides the room for one message that is longer (see `slot/long.rs`), or a second half for each
//! buffer.
//!
//! A buffer is contiguous for the device, which names it by one address. Small buffers share a block of
//! pages. A large buffer has a block of its own, so that no allocation is larger than the buffer. A second
//! half is a block of the same size, which a buffer may get later.
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
        cgroup::MemCgroup,
        OnFree, //
    },
};
use kernel::{
    iov::IovIterDest,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        SetOnce, //
    },
};

/// Buffers begin at multiples of this, so that no two share a cache line.
const ALIGN: usize = 64;

/// Octets of a block that several buffers share.
const SHARED: usize = 4 * PAGE_SIZE;

/// A part of a message, within one block.
#[derive(Clone, Copy)]
struct BlockPart {
    /// Number of the block.
    block: usize,
    /// Offset in it.
    off: usize,
    /// Octets.
    len: usize,
}

/// What is behind the buffers of the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// Room for one message that is that many octets longer than a buffer; 0 if there is none.
    Room(usize),
    /// A second half for each buffer, as large as that, without memory at the start.
    Halves,
}

/// Message buffers of all slots.
pub(super) struct Buffers {
    /// Blocks of `1 << shift` buffers, and behind them what is behind the buffers.
    /// A block that is added later comes with what ends its account.
    blocks: KVec<SetOnce<(Block, Option<OnFree>)>>,
    /// How many buffers share a block, as a power of two.
    shift: u32,
    /// Octets of a buffer.
    bytes: usize,
    /// Octets from a buffer to the next in its block.
    stride: usize,
    /// Number of the first block behind them.
    room: usize,
    /// What is there.
    behind: Behind,
}

impl Buffers {
    /// `slots` buffers of `bytes` octets, and what is `behind` them, charged to `cgroup`. Only
    /// the `first` of the buffers have memory so far. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if a buffer has no octets, or buffers share blocks and some have no memory or two halves;
    /// `ENOMEM` early, so that the caller may ask for less.
    pub(super) fn new(
        slots: usize,
        first: usize,
        bytes: usize,
        behind: Behind,
        cgroup: &MemCgroup,
    ) -> Result<Self> {
        let stride = bytes.checked_next_multiple_of(ALIGN).ok_or(EINVAL)?;
        let together = SHARED.checked_div(stride).ok_or(EINVAL)?;
        // One in a block of its own, if two do not fit.
        let shift = together.checked_ilog2().unwrap_or(0);
        let mut blocks = KVec::new();
        if (first < slots || behind == Behind::Halves) && shift > 0 {
            return Err(EINVAL);
        }
        let filled = |len: usize| -> Result<_> {
            let block = SetOnce::new();
            block.populate((Block::zeroed(len, cgroup)?, None));
            Ok(block)
        };
        let mut left = slots.min(first);
        while left > 0 {
            let count = left.min(1 << shift);
            let len = count.checked_mul(stride).ok_or(EINVAL)?;
            blocks.push(filled(len)?, GFP_KERNEL)?;
            left -= count;
        }
        for _ in first..slots {
            blocks.push(SetOnce::new(), GFP_KERNEL)?;
        }
        let room = blocks.len();
        match behind {
            Behind::Room(0) => {}
            Behind::Room(long) => blocks.push(filled(long)?, GFP_KERNEL)?,
            Behind::Halves => {
                for _ in 0..slots {
                    blocks.push(SetOnce::new(), GFP_KERNEL)?;
                }
            }
        }
        Ok(Self {
            blocks,
            shift,
            bytes,
            stride,
            room,
            behind,
        })
    }

    /// Octets of a buffer.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives the buffer of a slot memory, if it has none. `on_free` is dropped with that memory.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such slot; `ENOMEM` early.
    pub(super) fn add(&self, index: u16, cgroup: &MemCgroup, on_free: Option<OnFree>) -> Result {
        self.fill(self.buffer(index)?.block, cgroup, on_free)
    }

    /// Gives the buffer of a slot its second half, if it has none. `on_free` is dropped with that memory.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such slot, or no second halves; `ENOMEM` early.
    pub(super) fn add_half(
        &self,
        index: u16,
        cgroup: &MemCgroup,
        on_free: Option<OnFree>,
    ) -> Result {
        if self.behind != Behind::Halves {
            return Err(EINVAL);
        }
        self.fill(self.block_behind(index), cgroup, on_free)
    }

    /// Gives a block the memory of one buffer, if it has none.
    fn fill(&self, block: usize, cgroup: &MemCgroup, on_free: Option<OnFree>) -> Result {
        let place = self.blocks.get(block).ok_or(EINVAL)?;
        if place.as_ref().is_none() {
            place.populate((Block::zeroed(self.stride, cgroup)?, on_free));
        }
        Ok(())
    }

    /// Octets of the buffer of a slot with what is behind it, as far as a device can write to them.
    pub(super) fn mapped(&self, mappings: &BlockMappings, index: u16) -> usize {
        let half = mappings.0.get(self.block_behind(index));
        match self.behind {
            Behind::Halves if half.and_then(SetOnce::as_ref).is_none() => self.bytes,
            _ => self.longest(),
        }
    }

    /// Number of the block behind the buffer of a slot.
    fn block_behind(&self, index: u16) -> usize {
        match self.behind {
            Behind::Room(_) => self.room,
            Behind::Halves => self.room.saturating_add(index.into()),
        }
    }

    /// The blocks with memory.
    fn filled(&self) -> impl Iterator<Item = &Block> {
        let blocks = self.blocks.iter().filter_map(SetOnce::as_ref);
        blocks.map(|(block, _)| block)
    }

    /// Octets of memory of all buffers and the room.
    pub(super) fn memory(&self) -> usize {
        self.filled().map(Block::len).sum()
    }

    /// Octets of the longest message that fits a buffer with what is behind it.
    pub(super) fn longest(&self) -> usize {
        self.bytes.saturating_add(match self.behind {
            Behind::Room(long) => long,
            Behind::Halves => self.bytes,
        })
    }

    /// Where the buffer of a slot begins, and its length.
    fn buffer(&self, index: u16) -> Result<BlockPart> {
        let index = usize::from(index);
        let block = index >> self.shift;
        let number = index & ((1 << self.shift) - 1);
        if block >= self.room {
            return Err(EINVAL);
        }
        Ok(BlockPart {
            block,
            off: number.saturating_mul(self.stride),
            len: self.bytes,
        })
    }

    fn block(&self, part: BlockPart) -> Result<&Block> {
        let place = self.blocks.get(part.block).ok_or(EINVAL)?;
        place.as_ref().map(|(block, _)| block).ok_or(EINVAL)
    }

    /// The parts of a message of `len` octets that begins in the buffer of a slot: from the octet
    /// `off` of the message on, the part in its buffer, and the part behind that.
    fn parts(&self, index: u16, off: usize, len: usize) -> Result<[BlockPart; 2]> {
        let end = off.checked_add(len).ok_or(EINVAL)?;
        if end > self.longest() {
            return Err(EINVAL);
        }
        let buffer = self.buffer(index)?;
        let first = (self.bytes.min(end)).saturating_sub(off);
        Ok([
            BlockPart {
                off: buffer.off.saturating_add(off.min(self.bytes)),
                len: first,
                ..buffer
            },
            BlockPart {
                block: self.block_behind(index),
                off: off.saturating_sub(self.bytes),
                len: len.saturating_sub(first),
            },
        ])
    }

    /// Copies octets of a message out that begins in the buffer of a slot. Context: any.
    pub(super) fn read(&self, index: u16, off: usize, to: &mut [u8]) -> Result {
        let [first, rest] = self.parts(index, off, to.len())?;
        let (start, end) = to.split_at_mut_checked(first.len).ok_or(EINVAL)?;
        self.block(first)?.read(first.off, start)?;
        if !end.is_empty() {
            self.block(rest)?.read(rest.off, end)?;
        }
        Ok(())
    }

    /// Copies octets into the buffer of a slot and what is behind it, to its octet `off` and on.
    /// Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that ends before.
    pub(super) fn write(&self, index: u16, off: usize, octets: &[u8]) -> Result {
        let [first, rest] = self.parts(index, off, octets.len())?;
        let (start, end) = octets.split_at_checked(first.len).ok_or(EINVAL)?;
        if !start.is_empty() {
            self.block(first)?.write(first.off, start)?;
        }
        if !end.is_empty() {
            self.block(rest)?.write(rest.off, end)?;
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
        let [first, rest] = self.parts(index, off, len)?;
        if rest.len > 0 && self.behind != Behind::Halves {
            // The room may have another message by now.
            return Err(EINVAL);
        }
        let mut done = 0_usize;
        for part in [first, rest].into_iter().filter(|part| part.len > 0) {
            let copied = match self.block(part)?.copy_to_iter(part.off, part.len, iter) {
                Err(_) if done > 0 => 0,
                result => result?,
            };
            done = done.saturating_add(copied);
            if copied < part.len {
                break;
            }
        }
        Ok(done)
    }

    /// Maps the buffers for a device that writes them, or for one that writes them besides the CPU.
    ///
    /// # Safety
    ///
    /// The mappings are dropped before the buffers.
    pub(super) unsafe fn map_for_writing(
        &self,
        dev: &Arc<Device>,
        cpu_writes: bool,
    ) -> Result<BlockMappings> {
        let mappings = BlockMappings::of_none(self.blocks.len())?;
        for at in 0..self.blocks.len() {
            // SAFETY: By this function's contract.
            unsafe { self.map_block(&mappings, at, dev, cpu_writes)? };
        }
        Ok(mappings)
    }

    /// Maps a block as [`Self::map_for_writing`], if it has memory and is not mapped.
    ///
    /// # Safety
    ///
    /// As for [`Self::map_for_writing`].
    unsafe fn map_block(
        &self,
        mappings: &BlockMappings,
        at: usize,
        dev: &Arc<Device>,
        cpu_writes: bool,
    ) -> Result {
        let place = mappings.0.get(at).ok_or(EINVAL)?;
        let block = self.blocks.get(at).and_then(SetOnce::as_ref);
        let Some((block, _)) = block.filter(|_| place.as_ref().is_none()) else {
            return Ok(());
        };
        // SAFETY: The block is that memory, and by this function's contract.
        let mapping = unsafe {
            if cpu_writes {
                Mapping::both_ways(dev, block.addr(), block.len())?
            } else {
                Mapping::from_device(dev, block.addr(), block.len())?
            }
        };
        place.populate(mapping);
        Ok(())
    }

    /// Maps the buffer of a slot that has got memory, or a second half.
    ///
    /// # Safety
    ///
    /// As for [`Self::map_for_writing`].
    pub(super) unsafe fn map_added(
        &self,
        mappings: &BlockMappings,
        index: u16,
        dev: &Arc<Device>,
        cpu_writes: bool,
    ) -> Result {
        let part = self.buffer(index)?;
        // SAFETY: By this function's contract.
        unsafe { self.map_block(mappings, part.block, dev, cpu_writes)? };
        if self.behind == Behind::Halves {
            // SAFETY: As above.
            unsafe { self.map_block(mappings, self.block_behind(index), dev, cpu_writes)? };
        }
        Ok(())
    }

    /// Maps the buffers for a device that reads them.
    ///
    /// # Safety
    ///
    /// As for [`Self::map_for_writing`].
    unsafe fn map_for_reading(&self, dev: &Arc<Device>) -> Result<BlockMappings> {
        let mappings = BlockMappings::of_none(self.blocks.len())?;
        for (block, place) in self.filled().zip(&mappings.0) {
            // SAFETY: The block is that memory, and by this function's contract.
            place.populate(unsafe { Mapping::to_device(dev, block.addr(), block.len())? });
        }
        Ok(mappings)
    }

    /// The buffer of a slot, as a work request names it.
    pub(super) fn sge(
        &self,
        mappings: &BlockMappings,
        index: u16,
        lkey: u32,
    ) -> Result<bindings::ib_sge> {
        let buffer = self.buffer(index)?;
        Ok(bindings::ib_sge {
            addr: mappings.of(buffer)?.addr(buffer.off)?,
            length: u32::try_from(self.bytes)?,
            lkey,
        })
    }

    /// The room for a long message, if there is any.
    fn long_room(&self) -> Option<BlockPart> {
        match self.behind {
            Behind::Room(0) | Behind::Halves => None,
            Behind::Room(len) => Some(BlockPart {
                block: self.room,
                off: 0,
                len,
            }),
        }
    }

    /// The second half of the buffer of a slot, if it has one, as a work request names it.
    pub(super) fn half_sge(
        &self,
        mappings: &BlockMappings,
        index: u16,
        lkey: u32,
    ) -> Option<bindings::ib_sge> {
        if self.behind != Behind::Halves {
            return None;
        }
        let mapping = mappings
            .0
            .get(self.block_behind(index))
            .and_then(SetOnce::as_ref);
        Some(bindings::ib_sge {
            addr: mapping?.addr(0).ok()?,
            length: u32::try_from(self.bytes).ok()?,
            lkey,
        })
    }

    /// The room for a long message, if there is any, as a work request names it.
    pub(super) fn long_sge(
        &self,
        mappings: &BlockMappings,
        lkey: u32,
    ) -> Result<Option<bindings::ib_sge>> {
        let Some(room) = self.long_room() else {
            return Ok(None);
        };
        Ok(Some(bindings::ib_sge {
            addr: mappings.of(room)?.addr(room.off)?,
            length: u32::try_from(room.len)?,
            lkey,
        }))
    }

    /// Makes `len` octets of a message, from `off` on, that a device has written visible to the CPU.
    /// Context: any.
    pub(super) fn sync_for_cpu(
        &self,
        mappings: &BlockMappings,
        index: u16,
        off: usize,
        len: usize,
    ) -> Result {
        for part in self.parts(index, off, len)? {
            if part.len != 0 {
                mappings.of(part)?.sync_for_cpu(part.off, part.len)?;
            }
        }
        Ok(())
    }

    /// Hands the memory of `len` octets of a message, from `off` on, to the device. Context: any.
    pub(super) fn sync_for_device(
        &self,
        mappings: &BlockMappings,
        index: u16,
        off: usize,
        len: usize,
    ) -> Result {
        for part in self.parts(index, off, len)? {
            if part.len != 0 {
                mappings.of(part)?.sync_for_device(part.off, part.len)?;
            }
        }
        Ok(())
    }
}

/// The blocks of [`Buffers`] that have memory, mapped for a device, in their order. Dropped in any
/// context.
pub(super) struct BlockMappings(KVec<SetOnce<Mapping>>);

impl BlockMappings {
    /// Places for the mappings of `blocks` blocks.
    fn of_none(blocks: usize) -> Result<Self> {
        let mut places = KVec::with_capacity(blocks, GFP_KERNEL)?;
        for _ in 0..blocks {
            places.push(SetOnce::new(), GFP_KERNEL)?;
        }
        Ok(Self(places))
    }

    /// The mapping of the block that the part lies in.
    fn of(&self, part: BlockPart) -> Result<&Mapping> {
        self.0
            .get(part.block)
            .and_then(SetOnce::as_ref)
            .ok_or(EINVAL)
    }

    /// In which direction all blocks are mapped, if it is one.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) fn direction(&self) -> Option<bindings::dma_data_direction> {
        let mut mapped = self.0.iter().filter_map(SetOnce::as_ref);
        let first = mapped.next()?.direction();
        let same = mapped.all(|mapping| mapping.direction() == first);
        same.then_some(first)
    }
}

/// Buffers of messages that are sent, mapped for the device.
pub(super) struct Messages {
    // Unmapped before the memory is freed: fields are dropped in order.
    mappings: BlockMappings,
    buffers: Buffers,
}

impl Messages {
    /// Maps buffers for a device that reads them. Context: may sleep.
    pub(super) fn new(dev: &Arc<Device>, buffers: Buffers) -> Result<Self> {
        // SAFETY: The mappings are dropped first.
        let mappings = unsafe { buffers.map_for_reading(dev)? };
        Ok(Self { mappings, buffers })
    }

    /// Octets of memory.
    pub(super) fn memory(&self) -> usize {
        self.buffers.memory()
    }

    /// The buffer of a slot, as a work request names it.
    pub(super) fn sge(&self, index: u16, lkey: u32) -> Result<bindings::ib_sge> {
        self.buffers.sge(&self.mappings, index, lkey)
    }

    /// Address of a buffer for the CPU, as inline requests want it.
    pub(super) fn cpu_addr(&self, index: u16) -> Result<u64> {
        let buffer = self.buffers.buffer(index)?;
        let block = self.buffers.block(buffer)?;
        Ok((block.addr() as u64).wrapping_add(buffer.off as u64))
    }

    /// Puts a message into a buffer, hands it to the device and returns its length.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if it is longer than a buffer.
    pub(super) fn put(&self, index: u16, msg: &[u8]) -> Result<u32> {
        if msg.len() > self.buffers.bytes() {
            return Err(EMSGSIZE);
        }
        self.buffers.write(index, 0, msg)?;
        let buffer = self.buffers.buffer(index)?;
        self.mappings
            .of(buffer)?
            .sync_for_device(buffer.off, msg.len())?;
        Ok(u32::try_from(msg.len())?)
    }

    /// Puts a long message into its room, hands it to the device and returns the room with the
    /// length of the message.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the room is smaller.
    pub(super) fn put_long(&self, msg: &[u8], lkey: u32) -> Result<bindings::ib_sge> {
        let buffers = &self.buffers;
        let room = buffers.long_room().ok_or(EMSGSIZE)?;
        if msg.len() > room.len {
            return Err(EMSGSIZE);
        }
        buffers.block(room)?.write(room.off, msg)?;
        let mapping = self.mappings.of(room)?;
        mapping.sync_for_device(room.off, msg.len())?;
        Ok(bindings::ib_sge {
            addr: mapping.addr(room.off)?,
            length: u32::try_from(msg.len())?,
            lkey,
        })
    }
}
