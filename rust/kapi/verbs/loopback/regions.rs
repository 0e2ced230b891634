// SPDX-License-Identifier: GPL-2.0

//! Tests of the memory that peers write.

use super::{
    unless_skipped,
    with_loop, //
};
use crate::kapi::{
    compat::enums::DMA_BIDIRECTIONAL,
    mem::region::PeerMemory,
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
