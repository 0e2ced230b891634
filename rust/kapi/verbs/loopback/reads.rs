// SPDX-License-Identifier: GPL-2.0

//! Tests of RDMA reads, and of writes without octets.

use super::{
    unless_skipped,
    with_bench,
    with_loop_of,
    Bench,
    Probe, //
};
use crate::{
    bindings,
    kapi::{
        compat::errno::ESHUTDOWN,
        mem::{
            cgroup::MemCgroup,
            region::PeerMemory, //
        },
        verbs::{
            channel::{
                Channel,
                ChannelConfig, //
            },
            mr::{
                Access,
                Mr, //
            },
            pd::Pd,
            read::ReadBuffer,
            slot::single::Read,
            wc::WcStatus, //
        },
    },
};
use core::mem::MaybeUninit;
use kernel::{
    iov::IovIterDest,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// The octet at `at` of the pattern in the peer's memory; none is 0.
fn pattern(at: usize) -> u8 {
    u8::try_from(at % 251).unwrap_or(0) + 1
}

/// A region over two elements of four pages that hold the pattern.
fn region(pd: &Arc<Pd>, access: Access) -> Result<Mr> {
    let memory = PeerMemory::new(2, 4 * PAGE_SIZE)?;
    for element in 0..2 {
        let mut octets = KVec::from_elem(0u8, 4 * PAGE_SIZE, GFP_KERNEL)?;
        for (at, octet) in octets.iter_mut().enumerate() {
            *octet = pattern(element * 4 * PAGE_SIZE + at);
        }
        memory.write(element, 0, &octets)?;
    }
    Mr::with_access(pd, memory, access)
}

/// Lets the peer read, `depth` times at once.
fn reading(depth: u8) -> impl FnOnce(&mut ChannelConfig) {
    move |config| {
        config.peer_reads = true;
        config.connection.max_rd_atomic = depth;
        config.connection.max_dest_rd_atomic = depth;
    }
}

/// Posts a read and leaves its tag to the probe.
fn post(channel: &Arc<Channel<Probe>>, tag: u32, buffer: &Arc<ReadBuffer>, read: &Read) -> Result {
    let slot = channel.try_reserve(0).ok_or(EBUSY)?;
    slot.post_read(tag, buffer, read)
        .map_err(|(error, _)| error)
}

/// How a read of 100 octets from a region of `access` ends, whether the channel is broken, and whether
/// the buffer is as it was.
fn forbidden(
    bench: &Bench,
    pd: &Arc<Pd>,
    channel: &Arc<Channel<Probe>>,
    probe: &Probe,
    access: Access,
) -> Result<(Result<(), WcStatus>, usize, bool)> {
    let mr = region(pd, access)?;
    channel.activate(&mr)?;
    let buffer = ReadBuffer::new(&bench.device, PAGE_SIZE, &MemCgroup::ROOT)?;
    let read = Read {
        offset: 0,
        len: 100,
        rkey: mr.rkey(),
        raddr: mr.iova(0)?,
    };
    post(channel, 1, &buffer, &read)?;
    probe.wait(|seen| seen.sent.len() == 1 && seen.broken.len() == 1)?;
    let mut there = [9; 100];
    buffer.read(0, &mut there)?;
    let seen = probe.seen.lock();
    let (_, result) = *seen.sent.first().ok_or(ENODATA)?;
    Ok((result, seen.broken.len(), there == [0; 100]))
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_reads)]
mod tests {
    use super::*;

    #[test]
    fn read_brings_the_octets_of_the_peer() -> Result {
        let result =
            with_loop_of(reading(1), |bench, pd, channel, probe| {
                let mr = region(pd, Access::Read)?;
                channel.activate(&mr)?;
                let buffer = ReadBuffer::new(&bench.device, 3 * PAGE_SIZE, &MemCgroup::ROOT)?;
                let reads = [(1u32, 5000u32, 7u64), (6000, 3, 16381), (7000, 4096, 16384)];
                for (tag, (offset, len, from)) in (0..).zip(reads) {
                    let read = Read {
                        offset,
                        len,
                        rkey: mr.rkey(),
                        raddr: mr.iova(0)? + from,
                    };
                    post(channel, tag, &buffer, &read)?;
                }
                probe.wait(|seen| seen.sent.len() == reads.len())?;

                let mut wanted = KVec::from_elem(0u8, 3 * PAGE_SIZE, GFP_KERNEL)?;
                for (offset, len, from) in reads {
                    let (offset, len) = (usize::try_from(offset)?, usize::try_from(len)?);
                    let part = wanted.get_mut(offset..offset + len).ok_or(EINVAL)?;
                    for (at, octet) in (usize::try_from(from)?..).zip(part) {
                        *octet = pattern(at);
                    }
                }
                let mut there = KVec::from_elem(0u8, 3 * PAGE_SIZE, GFP_KERNEL)?;
                buffer.read(0, &mut there)?;
                let order = probe.seen.lock().sent.iter().copied().eq([
                    (0, Ok(())),
                    (1, Ok(())),
                    (2, Ok(())),
                ]);
                let outside = buffer.read(3 * PAGE_SIZE, &mut [0]);

                let mut copy = KVec::from_elem(0u8, 5000, GFP_KERNEL)?;
                let vec = bindings::kvec {
                    iov_base: copy.as_mut_ptr().cast(),
                    iov_len: 5000,
                };
                let mut iter = MaybeUninit::uninit();
                // SAFETY: Sets the iterator up; 0 is ITER_DEST.
                unsafe { bindings::iov_iter_kvec(iter.as_mut_ptr(), 0, &vec, 1, 5000) };
                // SAFETY: A destination that was just set up; `vec` and the memory outlive it.
                let iter = unsafe { IovIterDest::from_raw(iter.as_mut_ptr()) };
                let copied = buffer.copy_to_iter(1, 5000, iter)?;
                let same = wanted.get(1..5001) == Some(&copy[..]);
                Ok((*there == *wanted, order, outside, copied, same))
            });
        assert_eq!(
            unless_skipped!(result),
            (true, true, Err(EINVAL), 5000, true)
        );
        Ok(())
    }

    #[test]
    fn reads_in_flight_come_back_in_order() -> Result {
        let result = with_loop_of(reading(4), |bench, pd, channel, probe| {
            let mr = region(pd, Access::Read)?;
            channel.activate(&mr)?;
            let buffer = ReadBuffer::new(&bench.device, 8 * PAGE_SIZE, &MemCgroup::ROOT)?;
            for tag in 0..8u32 {
                let read = Read {
                    offset: tag * 4096,
                    len: 4096,
                    rkey: mr.rkey(),
                    // From the last page to the first.
                    raddr: mr.iova(0)? + u64::from(7 - tag) * 4096,
                };
                post(channel, tag, &buffer, &read)?;
            }
            probe.wait(|seen| seen.sent.len() == 8)?;
            let seen = probe.seen.lock();
            let order = (0..)
                .zip(&seen.sent)
                .all(|(tag, sent)| *sent == (tag, Ok(())));
            drop(seen);
            let mut there = KVec::from_elem(0u8, 8 * PAGE_SIZE, GFP_KERNEL)?;
            buffer.read(0, &mut there)?;
            let right = there.iter().enumerate().all(|(at, octet)| {
                let page = 7 - at / PAGE_SIZE;
                *octet == pattern(page * PAGE_SIZE + at % PAGE_SIZE)
            });
            Ok((order, right))
        });
        assert_eq!(unless_skipped!(result), (true, true));
        Ok(())
    }

    #[test]
    fn advert_of_two_mebibytes_is_read_in_pieces() -> Result {
        const PIECE: u32 = 64 * 1024;
        let result = with_loop_of(reading(4), |bench, pd, channel, probe| {
            let bytes = bench.device.max_region_bytes().min(2 << 20);
            let pieces = bytes / usize::try_from(PIECE)?;
            let memory = PeerMemory::new(pieces, usize::try_from(PIECE)?)?;
            let mut octets = KVec::from_elem(0u8, usize::try_from(PIECE)?, GFP_KERNEL)?;
            for piece in 0..pieces {
                for (at, octet) in octets.iter_mut().enumerate() {
                    *octet = pattern(piece * 7 + at);
                }
                memory.write(piece, 0, &octets)?;
            }
            let mr = Mr::with_access(pd, memory, Access::Read)?;
            channel.activate(&mr)?;
            let mut buffers = KVec::new();
            for (tag, piece) in (0u32..).zip(0..pieces) {
                let buffer =
                    ReadBuffer::new(&bench.device, usize::try_from(PIECE)?, &MemCgroup::ROOT)?;
                let read = Read {
                    offset: 0,
                    len: PIECE,
                    rkey: mr.rkey(),
                    raddr: mr.iova(piece)?,
                };
                // As many as there are slots are queued at once.
                loop {
                    let done = probe.seen.lock().sent.len();
                    match post(channel, tag, &buffer, &read) {
                        Err(EBUSY) => {}
                        other => break other?,
                    }
                    probe.wait(|seen| seen.sent.len() > done || !seen.broken.is_empty())?;
                    if !probe.seen.lock().broken.is_empty() {
                        return Err(EIO);
                    }
                }
                buffers.push(buffer, GFP_KERNEL)?;
            }
            probe.wait(|seen| seen.sent.len() == pieces)?;
            let good = |sent: &(u32, Result<(), WcStatus>)| sent.1.is_ok();
            let complete = probe.seen.lock().sent.iter().all(good);
            let mut right = pieces > 1;
            for (piece, buffer) in buffers.iter().enumerate() {
                buffer.read(0, &mut octets)?;
                right &= (piece * 7..)
                    .map(pattern)
                    .zip(&octets)
                    .all(|(a, b)| a == *b);
            }
            Ok((complete, right))
        });
        assert_eq!(unless_skipped!(result), (true, true));
        Ok(())
    }

    #[test]
    fn region_that_is_for_writing_is_not_read() -> Result {
        let result = with_loop_of(reading(1), |bench, pd, channel, probe| {
            forbidden(bench, pd, channel, probe, Access::Write)
        });
        let (result, broken, untouched) = unless_skipped!(result);
        assert!(result.is_err());
        assert_eq!((broken, untouched), (1, true));
        Ok(())
    }

    #[test]
    fn channel_without_the_right_refuses_reads_of_its_peer() -> Result {
        let result = with_loop_of(
            |_| {},
            |bench, pd, channel, probe| forbidden(bench, pd, channel, probe, Access::Read),
        );
        let (result, broken, untouched) = unless_skipped!(result);
        assert!(result.is_err());
        assert_eq!((broken, untouched), (1, true));
        Ok(())
    }

    #[test]
    fn test_of_the_link_completes_and_no_message_comes() -> Result {
        // The peer has nothing to write to, and no receive buffer is used.
        let result = with_loop_of(
            |config| config.max_writes = 0,
            |_, _, channel, probe| {
                let slot = channel.try_reserve(0).ok_or(EBUSY)?;
                slot.post_test(7).map_err(|(error, _)| error)?;
                probe.wait(|seen| !seen.sent.is_empty() || !seen.broken.is_empty())?;
                let seen = probe.seen.lock();
                let sent = seen.sent.first().copied();
                Ok((sent, seen.received, seen.broken.len()))
            },
        );
        assert_eq!(unless_skipped!(result), (Some((7, Ok(()))), 0, 0));
        Ok(())
    }

    #[test]
    fn test_of_a_link_without_a_peer_breaks_the_channel() -> Result {
        let result = with_bench(false, |bench| {
            let pd = Pd::new(&bench.device)?;
            let probe = Probe::new()?;
            let mut config = bench.config();
            // 8 ms, twice. To soft-RoCE seven times have no end.
            config.connection.ack_timeout = 11;
            config.connection.retries = 1;
            let channel = Channel::new(&pd, &config, probe.clone())?;
            let result = bench.connect(&channel, 0x00ff_fffe).and_then(|()| {
                let slot = channel.try_reserve(0).ok_or(EBUSY)?;
                slot.post_test(7).map_err(|(error, _)| error)?;
                probe.wait(|seen| !seen.broken.is_empty())
            });
            channel.shutdown();
            result?;
            let seen = probe.seen.lock();
            Ok(seen.broken.first().copied())
        });
        assert_eq!(unless_skipped!(result), Some(WcStatus::RETRY_EXCEEDED));
        Ok(())
    }

    #[test]
    fn read_outside_of_its_buffer_is_refused() -> Result {
        let result = with_loop_of(reading(1), |bench, _, channel, _| {
            let buffer = ReadBuffer::new(&bench.device, 100, &MemCgroup::ROOT)?;
            let mut refused = 0;
            for (offset, len) in [(0, 101), (100, 1), (u32::MAX, 1), (1, u32::MAX)] {
                let read = Read {
                    offset,
                    len,
                    rkey: 0,
                    raddr: 0,
                };
                refused += usize::from(post(channel, 1, &buffer, &read) == Err(EINVAL));
            }
            Ok((
                refused,
                channel.try_reserve(super::super::SLOTS.into()).is_none(),
            ))
        });
        assert_eq!(unless_skipped!(result), (4, true));
        Ok(())
    }

    #[test]
    fn shutdown_gives_the_buffer_of_a_read_back() -> Result {
        let result = with_bench(false, |bench| {
            let pd = Pd::new(&bench.device)?;
            let probe = Probe::new()?;
            let channel = bench.open(&pd, &probe)?;
            // No queue pair has that number, so the read is not answered.
            bench.connect(&channel, 0x00ff_fffe)?;
            let buffer = ReadBuffer::new(&bench.device, PAGE_SIZE, &MemCgroup::ROOT)?;
            let read = Read {
                offset: 0,
                len: 1,
                rkey: 1,
                raddr: 0,
            };
            let posted = post(&channel, 3, &buffer, &read);
            let late = channel.try_reserve(0).ok_or(EBUSY);
            channel.shutdown();
            posted?;
            let late = late?.post_read(4, &buffer, &read);
            let seen = probe.seen.lock();
            let flushed = matches!(seen.sent.first(), Some((3, Err(_))));
            let count = seen.sent.len();
            drop(seen);
            Ok((
                flushed,
                count,
                late,
                Arc::into_unique_or_drop(buffer).is_some(),
            ))
        });
        assert_eq!(
            unless_skipped!(result),
            (true, 1, Err((ESHUTDOWN, 4)), true)
        );
        Ok(())
    }
}
