// SPDX-License-Identifier: GPL-2.0

//! Tests of registrations of pages: a peer reads and writes them until the key is invalidated.

use super::{
    unless_skipped,
    with_loop_of,
    Bench,
    Probe, //
};
use crate::{
    bindings,
    kapi::{
        mem::{
            block::Block,
            cgroup::MemCgroup, //
        },
        verbs::{
            channel::{
                Channel,
                ChannelConfig,
                RdmaWrite,
                WriteSource, //
            },
            mr::Access,
            pd::Pd,
            read::ReadBuffer,
            sendbuf::SendBuffer,
            slot::single::Read,
            user_pages::UserPages,
            user_region::{
                FastMr,
                UserRegion, //
            },
        },
    },
};
use core::mem::MaybeUninit;
use kernel::{
    iov::{
        IovIterDest,
        IovIterSource, //
    },
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// Where the pages' octets begin, and how many they are.
const RANGE: (usize, usize) = (100, 2 * PAGE_SIZE + 50);

/// Lets the peer read.
fn reading(config: &mut ChannelConfig) {
    config.peer_reads = true;
}

/// The part [`RANGE`] of a block of four pages, for a device to read or to write.
fn pages(bench: &Bench, block: &Block, access: Access) -> Result<UserPages> {
    let mut vec = MaybeUninit::uninit();
    let mut iter = MaybeUninit::<bindings::iov_iter>::uninit();
    let (off, len) = RANGE;
    // SAFETY: Both are set up by this. The part lies in the block, whose pages are contiguous.
    unsafe {
        bindings::rdma_sock_helper_page_iter(
            iter.as_mut_ptr(),
            vec.as_mut_ptr(),
            block.page(),
            u32::try_from(off)?,
            u32::try_from(len)?,
        );
    }
    match access {
        Access::Read => {
            // SAFETY: A source that was just set up; `vec` and the block outlive it.
            let iter = unsafe { IovIterSource::from_raw(iter.as_mut_ptr()) };
            UserPages::for_reading(&bench.device, iter, len, 4)
        }
        Access::Write => {
            // SAFETY: Set up above; it is made a destination, whose `vec` and block outlive it.
            let iter = unsafe {
                (*iter.as_mut_ptr()).data_source = false;
                IovIterDest::from_raw(iter.as_mut_ptr())
            };
            UserPages::for_writing(&bench.device, iter, len, 4)
        }
    }
}

/// Reads the last `len` octets of a region by its key into a fresh buffer.
fn read_end(
    bench: &Bench,
    channel: &Arc<Channel<Probe>>,
    tag: u32,
    (rkey, addr): (u32, u64),
    len: u32,
) -> Result<Arc<ReadBuffer>> {
    let buffer = ReadBuffer::new(&bench.device, PAGE_SIZE, &MemCgroup::ROOT)?;
    let end = addr + u64::try_from(RANGE.1)?;
    let read = Read {
        offset: 0,
        len,
        rkey,
        raddr: end - u64::from(len),
    };
    let slot = channel.try_reserve(0).ok_or(EBUSY)?;
    slot.post_read(tag, &buffer, &read)
        .map_err(|(error, _)| error)?;
    Ok(buffer)
}

/// Writes 300 octets of 8 behind the first 10 octets of a region.
fn write_start(bench: &Bench, channel: &Arc<Channel<Probe>>, region: &UserRegion) -> Result {
    let source = SendBuffer::new(PAGE_SIZE)?;
    source.write(0, &[8; 300])?;
    let write = RdmaWrite {
        offset: 0,
        len: 300,
        rkey: region.rkey(),
        raddr: region.addr() + 10,
    };
    let slot = channel.try_reserve(0).ok_or(EBUSY)?;
    let source = WriteSource::Buffer(source.map(&bench.device)?);
    slot.post(1, Some(source), &[write], &[0; 44], true)
        .map_err(|(error, _)| error)
}

/// Registers the pages of a fresh block that is full of sixes.
fn register(
    bench: &Bench,
    pd: &Arc<Pd>,
    channel: &Channel<Probe>,
    access: Access,
) -> Result<(Block, UserRegion)> {
    let block = Block::zeroed(4 * PAGE_SIZE, &MemCgroup::ROOT)?;
    let sixes = KVec::from_elem(6u8, 4 * PAGE_SIZE, GFP_KERNEL)?;
    block.write(0, &sixes)?;
    let pages = pages(bench, &block, access)?;
    let region = channel.register(FastMr::new(pd, 4)?, pages, access)?;
    Ok((block, region))
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_user_regions)]
mod tests {
    use super::*;

    /// RNIC-MR-05, RNIC-MR-07.
    #[test]
    fn peer_reads_pages_until_they_are_invalidated() -> Result {
        let result = with_loop_of(reading, |bench, pd, channel, probe| {
            let (_block, region) = register(bench, pd, channel, Access::Read)?;
            let len = region.len();
            let key = (region.rkey(), region.addr());
            let before = read_end(bench, channel, 1, key, 4000)?;
            probe.wait(|seen| seen.sent.len() == 1)?;
            let mut octets = KVec::from_elem(0u8, PAGE_SIZE, GFP_KERNEL)?;
            before.read(0, &mut octets)?;
            let sixes = octets.iter().take_while(|octet| **octet == 6).count();
            let rest = octets.iter().skip(sixes).all(|octet| *octet == 0);

            let (mr, pages) = channel.invalidate(region)?;
            // The same pages again get another key.
            let region = channel.register(mr, pages, Access::Read)?;
            let fresh = region.rkey() != key.0;
            let again = read_end(bench, channel, 2, (region.rkey(), region.addr()), 1)?;
            probe.wait(|seen| seen.sent.len() == 2)?;
            let mut octet = [0];
            again.read(0, &mut octet)?;

            let stale = read_end(bench, channel, 3, key, 1)?;
            probe.wait(|seen| seen.sent.len() == 3 && seen.broken.len() == 1)?;
            let failed = matches!(probe.seen.lock().sent.last(), Some((3, Err(_))));
            let mut untouched = [1];
            stale.read(0, &mut untouched)?;
            Ok((
                (len, key.1),
                (sixes, rest),
                (fresh, octet),
                (failed, untouched),
            ))
        });
        assert_eq!(
            unless_skipped!(result),
            ((RANGE.1, 100), (4000, true), (true, [6]), (true, [0]))
        );
        Ok(())
    }

    #[test]
    fn peer_writes_pages_within_their_bounds() -> Result {
        let result = with_loop_of(reading, |bench, pd, channel, probe| {
            let (block, region) = register(bench, pd, channel, Access::Write)?;
            write_start(bench, channel, &region)?;
            probe.wait(|seen| seen.received == 1 && seen.sent.len() == 1)?;
            let (_mr, pages) = channel.invalidate(region)?;
            drop(pages);
            let mut there = KVec::from_elem(0u8, 4 * PAGE_SIZE, GFP_KERNEL)?;
            block.read(0, &mut there)?;
            let right = there.iter().enumerate().all(|(at, octet)| {
                let written = (110..410).contains(&at);
                *octet == if written { 8 } else { 6 }
            });
            Ok(right)
        });
        assert!(unless_skipped!(result));
        Ok(())
    }

    /// RNIC-RSP-07.
    #[test]
    fn access_beyond_the_region_breaks_the_channel() -> Result {
        let result = with_loop_of(reading, |bench, pd, channel, probe| {
            let (_block, region) = register(bench, pd, channel, Access::Read)?;
            let key = (region.rkey(), region.addr() + 1);
            let buffer = read_end(bench, channel, 1, key, 2)?;
            probe.wait(|seen| seen.sent.len() == 1 && seen.broken.len() == 1)?;
            let mut untouched = [1; 2];
            buffer.read(0, &mut untouched)?;
            // A broken channel cannot invalidate: the region is deregistered instead.
            let ended = channel.invalidate(region).err();
            Ok((untouched, ended))
        });
        assert_eq!(unless_skipped!(result), ([0; 2], Some(EIO)));
        Ok(())
    }

    /// RNIC-RSP-07.
    #[test]
    fn region_for_reading_is_not_written() -> Result {
        let result = with_loop_of(reading, |bench, pd, channel, probe| {
            let (block, region) = register(bench, pd, channel, Access::Read)?;
            write_start(bench, channel, &region)?;
            probe.wait(|seen| seen.sent.len() == 1 && seen.broken.len() == 1)?;
            drop(region);
            let mut there = [0; 400];
            block.read(100, &mut there)?;
            Ok(there == [6; 400])
        });
        assert!(unless_skipped!(result));
        Ok(())
    }

    #[test]
    fn registration_that_does_not_fit_is_refused() -> Result {
        let result = with_loop_of(reading, |bench, pd, channel, _| {
            let block = Block::zeroed(4 * PAGE_SIZE, &MemCgroup::ROOT)?;
            let mut errors = KVec::new();
            for (count, mapped, access) in [
                (2, Access::Read, Access::Read),
                (4, Access::Read, Access::Write),
                (4, Access::Write, Access::Read),
            ] {
                let pages = pages(bench, &block, mapped)?;
                let error = channel
                    .register(FastMr::new(pd, count)?, pages, access)
                    .err();
                errors.push(error, GFP_KERNEL)?;
            }
            let stranger = Pd::new(&bench.device)?;
            let pages = pages(bench, &block, Access::Read)?;
            let error = channel
                .register(FastMr::new(&stranger, 4)?, pages, Access::Read)
                .err();
            errors.push(error, GFP_KERNEL)?;
            let most = bench.device.max_region_bytes() / PAGE_SIZE;
            let large = FastMr::new(pd, most + 1).err();
            Ok((errors.iter().all(|error| *error == Some(EINVAL)), large))
        });
        assert_eq!(unless_skipped!(result), (true, Some(EMSGSIZE)));
        Ok(())
    }
}
