// SPDX-License-Identifier: GPL-2.0

//! Tests of the memory that peers write.

use super::{
    unless_skipped,
    with_loop, //
};
use crate::kapi::{
    compat::enums::DMA_BIDIRECTIONAL,
    mem::{
        cgroup::MemCgroup,
        region::PeerMemory, //
    },
    verbs::{
        channel::{
            RdmaWrite,
            WriteSource, //
        },
        mr::Mr,
        sendbuf::SendBuffer, //
    },
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_regions)]
mod tests {
    use super::*;

    /// What a peer is told must not name memory of the kernel.
    #[test]
    fn every_region_begins_at_address_0() -> Result {
        let (bases, landed) = unless_skipped!(with_loop(|bench, pd, channel, probe| {
            let memories = [
                PeerMemory::new(2, 4 * PAGE_SIZE)?,
                PeerMemory::new(1, PAGE_SIZE)?,
                PeerMemory::new(3, 2 * PAGE_SIZE)?,
            ];
            let mut regions = KVec::new();
            for memory in &memories {
                let region = Mr::new(pd, memory.clone())?;
                channel.activate(&region)?;
                regions.push(region, GFP_KERNEL)?;
            }
            let mut bases = 0;
            let mut writes = KVec::new();
            let buffer = SendBuffer::new(PAGE_SIZE)?;
            for (n, region) in (0u8..).zip(&regions) {
                let last = region.memory().elements() - 1;
                bases |= region.iova(0)?;
                buffer.write(usize::from(n) * 16, &[n + 1; 16])?;
                let write = RdmaWrite {
                    offset: u32::from(n) * 16,
                    len: 16,
                    rkey: region.rkey(),
                    raddr: region.iova(last)? + 40,
                };
                writes.push(write, GFP_KERNEL)?;
            }
            let source = WriteSource::Buffer(buffer.map(&bench.device)?);
            let slot = channel.try_reserve(0).ok_or(EBUSY)?;
            slot.post(1, Some(source), &writes, &[0; 44], true)
                .map_err(|(error, _)| error)?;
            probe.wait(|seen| seen.received == 1)?;

            let mut landed = true;
            for (n, region) in (0u8..).zip(&regions) {
                let last = region.memory().elements() - 1;
                let mut there = [0; 18];
                region.sync_for_cpu(last, 39, 18)?;
                region.memory().read(last, 39, &mut there)?;
                let mut wanted = [n + 1; 18];
                (wanted[0], wanted[17]) = (0, 0);
                landed &= there == wanted;
            }
            Ok((bases, landed))
        }));
        assert_eq!(bases, 0);
        assert!(landed);
        Ok(())
    }

    /// A write is gathered from the pieces of its source, and lands in those of its target.
    #[test]
    fn octets_in_pieces_arrive_in_order() -> Result {
        const PAGES: usize = 8;
        const OFFSETS: (usize, usize) = (PAGE_SIZE - 3, 2 * PAGE_SIZE - 5);
        const LEN: usize = 2 * PAGE_SIZE + 17;
        let landed = unless_skipped!(with_loop(|bench, pd, channel, probe| {
            let (bytes, root) = (PAGES * PAGE_SIZE, &MemCgroup::ROOT);
            let memory = PeerMemory::charged(2, bytes, PAGE_SIZE, root, None)?;
            let region = Mr::new(pd, memory)?;
            channel.activate(&region)?;
            let buffer = SendBuffer::charged(bytes, PAGE_SIZE, root, None)?;
            let mut data = KVec::from_elem(0u8, LEN + 2, GFP_KERNEL)?;
            for (value, byte) in (1u8..=251).cycle().zip(&mut data) {
                *byte = value;
            }
            buffer.write(OFFSETS.0 - 1, &data)?;
            let write = RdmaWrite {
                offset: u32::try_from(OFFSETS.0)?,
                len: u32::try_from(LEN)?,
                rkey: region.rkey(),
                raddr: region.iova(1)? + u64::try_from(OFFSETS.1)?,
            };
            let source = WriteSource::Buffer(buffer.map(&bench.device)?);
            let slot = channel.try_reserve(0).ok_or(EBUSY)?;
            slot.post(1, Some(source), &[write], &[0; 44], true)
                .map_err(|(error, _)| error)?;
            probe.wait(|seen| seen.received == 1)?;

            let mut there = KVec::from_elem(0u8, LEN + 2, GFP_KERNEL)?;
            region.sync_for_cpu(1, OFFSETS.1 - 1, LEN + 2)?;
            region.memory().read(1, OFFSETS.1 - 1, &mut there)?;
            // Nothing is written in front of them and behind.
            for edge in [0, LEN + 1] {
                *data.get_mut(edge).ok_or(EINVAL)? = 0;
            }
            Ok(there[..] == data[..])
        }));
        assert!(landed);
        Ok(())
    }

    /// Memory of more than the largest block can only be had in pieces.
    #[test]
    fn pieces_need_no_large_block() -> Result {
        const BYTES: usize = 32 << 20;
        let root = &MemCgroup::ROOT;
        assert!(PeerMemory::charged(1, BYTES, BYTES, root, None).is_err());
        assert!(SendBuffer::charged(BYTES, BYTES, root, None).is_err());
        let memory = PeerMemory::charged(1, BYTES, 8 * PAGE_SIZE, root, None)?;
        assert_eq!(memory.bytes(), BYTES);
        drop(memory);
        let buffer = SendBuffer::charged(BYTES, 8 * PAGE_SIZE, root, None)?;
        assert_eq!((buffer.len(), buffer.is_contiguous()), (BYTES, false));
        assert!(SendBuffer::new(PAGE_SIZE)?.is_contiguous());
        Ok(())
    }

    /// The CPU writes elements, too: wiping and the eye catcher must reach a bounce buffer.
    #[test]
    fn elements_are_mapped_for_both_directions() -> Result {
        let direction = unless_skipped!(with_loop(|_, pd, _, _| {
            Mr::new(pd, PeerMemory::new(2, PAGE_SIZE)?)?.direction(1)
        }));
        assert_eq!(direction, DMA_BIDIRECTIONAL);
        Ok(())
    }
}
