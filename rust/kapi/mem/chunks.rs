// SPDX-License-Identifier: GPL-2.0

//! Memory of one contiguous block, or of several equal ones where no large block is free.

use super::{
    block::Block,
    cgroup::MemCgroup, //
};
use kernel::{
    iov::{
        IovIterDest,
        IovIterSource, //
    },
    prelude::*, //
};

/// Equal blocks that are used as if they followed each other.
///
/// Dropped in any context.
///
/// # Invariants
///
/// There is at least one block, and each has `each` octets, which is not 0.
pub(in crate::kapi) struct Chunks {
    blocks: KVec<Block>,
    each: usize,
}

/// The part of a range that lies in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kapi) struct ChunkPart {
    /// Number of the block.
    pub(in crate::kapi) block: usize,
    /// Octets of the block in front of the part.
    pub(in crate::kapi) off: usize,
    /// Octets of the part.
    pub(in crate::kapi) len: usize,
}

/// The parts of a range, in order.
pub(in crate::kapi) struct ChunkParts {
    each: usize,
    next: ChunkPart,
}

impl ChunkParts {
    /// The parts of `len` octets at `off`, in blocks of `each` octets.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `each` is 0.
    pub(in crate::kapi) fn new(each: usize, off: usize, len: usize) -> Result<Self> {
        let block = off.checked_div(each).ok_or(EINVAL)?;
        let off = off.checked_rem(each).ok_or(EINVAL)?;
        Ok(Self {
            each,
            next: ChunkPart { block, off, len },
        })
    }
}

impl Iterator for ChunkParts {
    type Item = ChunkPart;

    fn next(&mut self) -> Option<ChunkPart> {
        let ChunkPart { block, off, len } = self.next;
        if len == 0 {
            return None;
        }
        let part = ChunkPart {
            len: len.min(self.each.saturating_sub(off)),
            ..self.next
        };
        self.next = ChunkPart {
            block: block.saturating_add(1),
            off: 0,
            len: len.saturating_sub(part.len),
        };
        Some(part)
    }
}

impl Chunks {
    /// Allocates zeroed memory of at least `bytes` octets in blocks of `each`, which is charged to
    /// `cgroup`. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM` early, so that the caller may ask for less or for smaller blocks; also above the limit of
    /// the cgroup.
    pub(in crate::kapi) fn zeroed(bytes: usize, each: usize, cgroup: &MemCgroup) -> Result<Self> {
        Self::of_blocks(bytes, each, |len| Block::zeroed(len, cgroup))
    }

    /// As [`Self::zeroed`], without zeroing: no octet may leave the kernel before it was written.
    /// Context: may sleep.
    pub(in crate::kapi) fn unset(bytes: usize, each: usize, cgroup: &MemCgroup) -> Result<Self> {
        Self::of_blocks(bytes, each, |len| Block::unset(len, cgroup))
    }

    fn of_blocks(bytes: usize, each: usize, new: impl Fn(usize) -> Result<Block>) -> Result<Self> {
        if bytes == 0 || each == 0 {
            return Err(EINVAL);
        }
        let count = bytes.div_ceil(each);
        let mut blocks = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            blocks.push(new(each)?, GFP_KERNEL)?;
        }
        // INVARIANT: There is a block, as `count` is not 0, and blocks of one request have one size.
        let each = blocks.first().map(Block::len).ok_or(EINVAL)?;
        Ok(Self { blocks, each })
    }

    /// Size in octets.
    pub(in crate::kapi) fn len(&self) -> usize {
        self.blocks.len().saturating_mul(self.each)
    }

    /// The blocks, for mapping.
    pub(in crate::kapi) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Octets of a block.
    pub(in crate::kapi) fn each(&self) -> usize {
        self.each
    }

    /// The blocks of `len` octets at `off`, and the parts of these octets in them.
    fn parts(
        &self,
        off: usize,
        len: usize,
    ) -> Result<impl Iterator<Item = Result<(&Block, ChunkPart)>>> {
        if off.checked_add(len).ok_or(EINVAL)? > self.len() {
            return Err(EINVAL);
        }
        let parts = ChunkParts::new(self.each, off, len)?;
        Ok(parts.map(|part| Ok((self.blocks.get(part.block).ok_or(EINVAL)?, part))))
    }

    /// Copies `len` octets at `off` by `copy`, which says how many it has copied of a part. A copy ends
    /// where that is fewer, or with an error behind some octets.
    fn copy(
        &self,
        off: usize,
        len: usize,
        mut copy: impl FnMut(&Block, ChunkPart) -> Result<usize>,
    ) -> Result<usize> {
        let mut done = 0;
        for part in self.parts(off, len)? {
            let (block, part) = part?;
            match copy(block, part) {
                Ok(count) => {
                    done += count;
                    if count < part.len {
                        break;
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Copies `len` octets at `off` to `iter`; returns how many, which is less on a fault in user
    /// memory. Context: may sleep.
    pub(in crate::kapi) fn copy_to_iter(
        &self,
        off: usize,
        len: usize,
        iter: &mut IovIterDest<'_>,
    ) -> Result<usize> {
        self.copy(off, len, |block, part| {
            block.copy_to_iter(part.off, part.len, iter)
        })
    }

    /// Copies up to `len` octets from `iter` to `off`; returns how many, which is less on a fault in
    /// user memory. Context: may sleep.
    pub(in crate::kapi) fn copy_from_iter(
        &self,
        off: usize,
        len: usize,
        iter: &mut IovIterSource<'_>,
    ) -> Result<usize> {
        self.copy(off, len, |block, part| {
            block.copy_from_iter(part.off, part.len, iter)
        })
    }

    /// Copies out into private memory; for small pieces. Context: any.
    pub(in crate::kapi) fn read(&self, off: usize, mut buf: &mut [u8]) -> Result {
        for part in self.parts(off, buf.len())? {
            let (block, part) = part?;
            let (piece, rest) = buf.split_at_mut_checked(part.len).ok_or(EINVAL)?;
            block.read(part.off, piece)?;
            buf = rest;
        }
        Ok(())
    }

    /// Copies in from private memory. Context: any.
    pub(in crate::kapi) fn write(&self, off: usize, mut data: &[u8]) -> Result {
        for part in self.parts(off, data.len())? {
            let (block, part) = part?;
            let (piece, rest) = data.split_at_checked(part.len).ok_or(EINVAL)?;
            block.write(part.off, piece)?;
            data = rest;
        }
        Ok(())
    }

    /// Zeroes all octets. Context: any.
    pub(in crate::kapi) fn zero(&self) {
        for block in &self.blocks {
            block.zero();
        }
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_kapi_chunks)]
mod tests {
    use super::*;
    use kernel::page::PAGE_SIZE;

    #[test]
    fn range_over_three_blocks_has_three_parts() -> Result {
        let mut parts = ChunkParts::new(100, 250, 160)?;
        let part = |block, off, len| Some(ChunkPart { block, off, len });
        assert_eq!(parts.next(), part(2, 50, 50));
        assert_eq!(parts.next(), part(3, 0, 100));
        assert_eq!(parts.next(), part(4, 0, 10));
        assert_eq!(parts.next(), None);
        assert_eq!(ChunkParts::new(100, 250, 0)?.next(), None);
        assert!(ChunkParts::new(0, 250, 1).is_err());
        Ok(())
    }

    #[test]
    fn octets_across_blocks_are_copied() -> Result {
        let chunks = Chunks::zeroed(3 * PAGE_SIZE, PAGE_SIZE, &MemCgroup::ROOT)?;
        assert_eq!((chunks.len(), chunks.blocks().len()), (3 * PAGE_SIZE, 3));
        let mut data = [0; 40];
        for (value, byte) in (1u8..).zip(&mut data) {
            *byte = value;
        }
        for border in [PAGE_SIZE, 2 * PAGE_SIZE] {
            for before in [0, 1, 7, 20, 39, 40] {
                chunks.zero();
                chunks.write(border - before, &data)?;
                let mut there = [0; 40];
                chunks.read(border - before, &mut there)?;
                assert_eq!(there, data);
                let mut edges = [9; 42];
                chunks.read(border - before - 1, &mut edges)?;
                assert_eq!((edges[0], edges[41]), (0, 0));
            }
        }
        Ok(())
    }

    #[test]
    fn access_outside_of_all_blocks_is_refused() -> Result {
        let chunks = Chunks::zeroed(2 * PAGE_SIZE, PAGE_SIZE, &MemCgroup::ROOT)?;
        let mut there = [0; 2];
        assert!(chunks.read(2 * PAGE_SIZE - 1, &mut there).is_err());
        assert!(chunks.read(usize::MAX, &mut there).is_err());
        assert!(chunks.write(2 * PAGE_SIZE - 1, &there).is_err());
        assert!(Chunks::zeroed(0, PAGE_SIZE, &MemCgroup::ROOT).is_err());
        assert!(Chunks::zeroed(PAGE_SIZE, 0, &MemCgroup::ROOT).is_err());
        Ok(())
    }
}
