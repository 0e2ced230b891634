// SPDX-License-Identifier: GPL-2.0

//! Tests of messages that are gathered from a header and pieces of other memory.

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
        mem::{
            block::Block,
            cgroup::MemCgroup,
            region::PeerMemory, //
        },
        verbs::{
            channel::{
                Channel,
                ChannelConfig,
                RecvPosting,
                WriteSource, //
            },
            mr::{
                Access,
                Mr, //
            },
            pd::Pd,
            recv::ReceivedBuffer,
            sendbuf::SendBuffer,
            slot::{
                gather::{
                    GatherPiece,
                    SendFlags, //
                },
                SlotMessage, //
            },
            user_pages::{
                LentMemory,
                MAX_PIECES, //
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
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// Octets of the longest header.
pub(super) const HEADER: u16 = 36;
/// The same, as a size in memory.
pub(super) const HEAD: usize = HEADER as usize;
/// Octets of the rings.
pub(super) const RING: usize = 1 << 16;
/// Solicited and signalled.
pub(super) const FLAGS: SendFlags = SendFlags {
    solicited: true,
    signal: true,
};

/// A stream's channel: its receive buffers hold `bytes` octets, `slots` of them are posted, and `spares`
/// are not.
pub(super) fn streaming(bytes: u32, slots: u16, spares: u16) -> impl FnOnce(&mut ChannelConfig) {
    move |config| {
        config.send_bytes = HEADER;
        config.recv_bytes = bytes;
        config.recv_slots = slots;
        config.recv_posting = RecvPosting::OnDemand { spares, later: 0 };
        config.long_bytes = 0;
        config.max_writes = 0;
        config.max_pieces = 3;
        config.may_invalidate = true;
        config.peer_reads = true;
    }
}

/// The octet at `at` of a ring.
pub(super) fn ring_octet(at: usize) -> u8 {
    u8::try_from(at % 251).unwrap_or(0)
}

/// A ring that is full of its octets.
pub(super) fn ring(bench: &Bench) -> Result<WriteSource> {
    let buffer = SendBuffer::new(RING)?;
    let mut octets = KVec::from_elem(0u8, RING, GFP_KERNEL)?;
    for (at, octet) in octets.iter_mut().enumerate() {
        *octet = ring_octet(at);
    }
    buffer.write(0, &octets)?;
    Ok(WriteSource::Buffer(buffer.map(&bench.device)?))
}

/// Sends a header of the octet `tag` with the octets of a ring that begin at `offset`, and wrap.
pub(super) fn send(
    channel: &Arc<Channel<Probe>>,
    tag: u8,
    ring: &WriteSource,
    (offset, len): (u32, u32),
    flags: SendFlags,
) -> Result {
    let end = u32::try_from(RING)?;
    let first = len.min(end - offset);
    let pieces = [
        GatherPiece {
            source: ring,
            offset,
            len: first,
        },
        GatherPiece {
            source: ring,
            offset: 0,
            len: len - first,
        },
    ];
    let slot = channel.try_reserve(0).ok_or(EBUSY)?;
    slot.post_gathered(tag.into(), &[tag; HEAD], &pieces, flags)
        .map_err(|(error, _)| error)
}

/// Whether a received message is the header of `tag` with that part of the ring.
pub(super) fn is_intact(
    message: &ReceivedBuffer<Probe>,
    tag: u8,
    (offset, len): (u32, u32),
) -> Result<bool> {
    let header = usize::from(HEADER);
    let (offset, len) = (usize::try_from(offset)?, usize::try_from(len)?);
    let mut there = KVec::from_elem(!tag, message.len(), GFP_KERNEL)?;
    message.read(0, &mut there)?;
    let (head, payload) = there.split_at_checked(header).ok_or(ENODATA)?;
    Ok(payload.len() == len
        && head.iter().all(|octet| *octet == tag)
        && (offset..)
            .zip(payload)
            .all(|(at, octet)| *octet == ring_octet(at % RING)))
}

/// Runs `f` with an iterator over `there`.
pub(super) fn with_iter<R>(there: &mut [u8], f: impl FnOnce(&mut IovIterDest<'_>) -> R) -> R {
    let vec = bindings::kvec {
        iov_base: there.as_mut_ptr().cast(),
        iov_len: there.len(),
    };
    let mut iter = MaybeUninit::uninit();
    // SAFETY: Sets the iterator up; 0 is ITER_DEST.
    unsafe { bindings::iov_iter_kvec(iter.as_mut_ptr(), 0, &vec, 1, there.len()) };
    // SAFETY: A destination that was just set up; `vec` and the memory outlive it.
    f(unsafe { IovIterDest::from_raw(iter.as_mut_ptr()) })
}

/// Takes the kept messages out.
pub(super) fn take_kept(probe: &Probe) -> Result<KVec<ReceivedBuffer<Probe>>> {
    let fresh = KVec::with_capacity(super::HISTORY, GFP_KERNEL)?;
    Ok(core::mem::replace(&mut probe.seen.lock().kept, fresh))
}

/// A block of four pages full of `octet`, and `len` octets of it from `off` on, lent for the device.
fn lent(bench: &Bench, octet: u8, off: usize, len: usize) -> Result<(Block, WriteSource)> {
    let block = Block::zeroed(4 * PAGE_SIZE, &MemCgroup::ROOT)?;
    let octets = KVec::from_elem(octet, 4 * PAGE_SIZE, GFP_KERNEL)?;
    block.write(0, &octets)?;
    let mut vec = MaybeUninit::uninit();
    let mut iter = MaybeUninit::<bindings::iov_iter>::uninit();
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
    // SAFETY: A source that was just set up; `vec` and the block outlive it.
    let iter = unsafe { IovIterSource::from_raw(iter.as_mut_ptr()) };
    let memory = LentMemory::of_iter(&bench.device, iter, MAX_PIECES)?;
    Ok((block, WriteSource::Lent(memory)))
}

/// A piece of a source.
fn piece(source: &WriteSource, offset: u32, len: u32) -> GatherPiece<'_> {
    GatherPiece {
        source,
        offset,
        len,
    }
}

/// The error of posting a message.
fn refusal(
    channel: &Arc<Channel<Probe>>,
    header: &[u8],
    pieces: &[GatherPiece<'_>],
) -> Result<Option<Error>> {
    let slot = channel.try_reserve(0).ok_or(EBUSY)?;
    Ok(slot
        .post_gathered(9, header, pieces, FLAGS)
        .err()
        .map(|(error, _)| error))
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_gather)]
mod tests {
    use super::*;

    #[test]
    fn ring_pieces_fill_receive_buffers_of_each_size() -> Result {
        for bytes in [2048, 4096, 16384, 32768, 65536] {
            // To the last octet of the buffer, across the end of the ring.
            let payload = (65536 - 1000, bytes - u32::from(HEADER));
            let result = with_loop_of(streaming(bytes, 8, 0), |bench, _, channel, probe| {
                probe.keeps.store(true, Relaxed);
                let ring = ring(bench)?;
                for tag in 1..=4 {
                    send(channel, tag, &ring, payload, FLAGS)?;
                }
                probe.wait(|seen| seen.kept.len() == 4 && seen.sent.len() == 4)?;
                let kept = take_kept(probe)?;
                let mut intact = true;
                for (message, tag) in kept.iter().zip(1..) {
                    intact &= is_intact(message, tag, payload)?;
                    intact &= usize::try_from(bytes) == Ok(message.size());
                }
                let counters = channel.counters();
                Ok((intact, counters, channel.posted_buffers()))
            });
            let (intact, counters, posted) = unless_skipped!(result);
            assert!(intact);
            assert_eq!((counters.posts, counters.wrs), (4, 4));
            assert_eq!((counters.cqes, counters.recvs), (8, 4));
            assert_eq!(counters.gathered_bytes, 4 * u64::from(payload.1));
            assert_eq!((counters.write_bytes, posted), (0, 4));
        }
        Ok(())
    }

    #[test]
    fn message_longer_than_the_receive_buffer_breaks_the_channel() -> Result {
        let result = with_loop_of(streaming(2048, 8, 0), |bench, _, channel, probe| {
            send(channel, 1, &ring(bench)?, (0, 2048), FLAGS)?;
            probe.wait(|seen| seen.broken.len() == 1 && seen.sent.len() == 1)?;
            let seen = probe.seen.lock();
            let failed = matches!(seen.sent.first(), Some((1, Err(_))));
            Ok((failed, seen.received))
        });
        assert_eq!(unless_skipped!(result), (true, 0));
        Ok(())
    }

    /// RNIC-REQ-10.
    #[test]
    fn lent_pages_and_ring_are_gathered_in_order() -> Result {
        let result = with_loop_of(
            |config| {
                streaming(16384, 8, 0)(config);
                config.max_pieces = 5;
            },
            |bench, _, channel, probe| {
                probe.keeps.store(true, Relaxed);
                let ring = ring(bench)?;
                // In three pages.
                let (_block, lent) = lent(bench, 0xee, 100, 2 * PAGE_SIZE)?;
                let pieces = [
                    piece(&ring, 7, 10),
                    piece(&lent, 1, 2 * 4096 - 2),
                    piece(&ring, 0, 0),
                    piece(&ring, 100, 20),
                ];
                let slot = channel.try_reserve(0).ok_or(EBUSY)?;
                slot.post_gathered(3, &[1; 16], &pieces, FLAGS)
                    .map_err(|(error, _)| error)?;
                probe.wait(|seen| seen.kept.len() == 1 && seen.sent.len() == 1)?;
                let kept = take_kept(probe)?.pop().ok_or(ENODATA)?;
                let mut there = KVec::from_elem(0u8, kept.len(), GFP_KERNEL)?;
                kept.read(0, &mut there)?;
                let pages = 2 * PAGE_SIZE - 2;
                let wanted = |at| match at {
                    ..16 => 1,
                    16..26 => ring_octet(at - 16 + 7),
                    _ if at < 26 + pages => 0xee,
                    _ => ring_octet(at - 26 - pages + 100),
                };
                let same = there.len() == 26 + pages + 20
                    && (0..).zip(&there).all(|(at, octet)| *octet == wanted(at));
                // One page more than pieces are allowed.
                let pieces = [
                    piece(&ring, 7, 10),
                    piece(&ring, 27, 10),
                    piece(&ring, 47, 10),
                    piece(&lent, 0, 2 * 4096),
                ];
                let refused = refusal(channel, &[1; 16], &pieces)?;
                Ok((same, refused, channel.gather_pieces()))
            },
        );
        assert_eq!(unless_skipped!(result), (true, Some(EMSGSIZE), 5));
        Ok(())
    }

    #[test]
    fn bad_pieces_are_refused_and_their_slots_come_back() -> Result {
        let result = with_loop_of(streaming(4096, 8, 0), |bench, _, channel, _| {
            let (ring, other, third) = (ring(bench)?, ring(bench)?, ring(bench)?);
            let outside = [(65536, 1), (65535, 2), (u32::MAX, 1), (1, u32::MAX)];
            let mut refused = 0;
            for (offset, len) in outside {
                let error = refusal(channel, &[1; 16], &[piece(&ring, offset, len)])?;
                refused += usize::from(error == Some(EINVAL));
            }
            let sources = [&ring, &other, &third].map(|source| piece(source, 0, 1));
            let sources = refusal(channel, &[1; 16], &sources)?;
            let many = refusal(channel, &[1; 16], &[piece(&ring, 0, 1); 4])?;
            let empty = refusal(channel, &[], &[piece(&ring, 0, 1)])?;
            let long = refusal(channel, &[1; 37], &[piece(&ring, 0, 1)])?;
            let mut slots = KVec::new();
            while let Some(slot) = channel.try_reserve(0) {
                slots.push(slot, GFP_KERNEL)?;
            }
            let posts = channel.counters().posts;
            Ok((refused, [sources, many, empty, long], slots.len(), posts))
        });
        let errors = [EINVAL, EMSGSIZE, EINVAL, EMSGSIZE].map(Some);
        let slots = super::super::SLOTS.into();
        assert_eq!(unless_skipped!(result), (4, errors, slots, 0));
        Ok(())
    }

    #[test]
    fn ring_stays_until_its_message_is_complete() -> Result {
        let result = with_bench(false, |bench| {
            let pd = Pd::new(&bench.device)?;
            let probe = Probe::new()?;
            let mut config = bench.config();
            streaming(4096, 8, 0)(&mut config);
            let channel = Channel::new(&pd, &config, probe.clone())?;
            // No queue pair has that number, so the message is not acknowledged.
            bench.connect(&channel, 0x00ff_fffe)?;
            let buffers = [SendBuffer::new(PAGE_SIZE)?, SendBuffer::new(PAGE_SIZE)?];
            let sources = [
                buffers[0].map(&bench.device)?,
                buffers[1].map(&bench.device)?,
            ];
            let sources = sources.map(WriteSource::Buffer);
            let pieces = [
                piece(&sources[0], 0, 8),
                piece(&sources[1], 0, 8),
                piece(&sources[0], 8, 8),
            ];
            let slot = channel.try_reserve(0).ok_or(EBUSY)?;
            let posted = slot.post_gathered(5, &[2; 16], &pieces, FLAGS);
            let late = channel.try_reserve(0).ok_or(EBUSY);
            drop(sources);
            let [first, second] = buffers;
            // The mapping, which the slot keeps, refers to it.
            let kept = Arc::into_unique_or_drop(first).is_none();
            channel.shutdown();
            posted.map_err(|(error, _)| error)?;
            let late = late?.post_gathered(6, &[2; 16], &[], FLAGS);
            let unused = Arc::into_unique_or_drop(second).is_some();
            let seen = probe.seen.lock();
            let flushed = matches!(seen.sent.first(), Some((5, Err(_))));
            Ok((flushed, seen.sent.len(), late.is_err(), kept, unused))
        });
        assert_eq!(unless_skipped!(result), (true, 1, true, true, true));
        Ok(())
    }

    #[test]
    fn unsignalled_messages_come_back_with_the_next_signalled() -> Result {
        let result = with_loop_of(streaming(4096, 8, 0), |bench, _, channel, probe| {
            let ring = ring(bench)?;
            for tag in 1..=4 {
                let flags = SendFlags {
                    solicited: false,
                    signal: tag == 4,
                };
                send(channel, tag, &ring, (0, 1000), flags)?;
            }
            probe.wait(|seen| seen.sent.len() == 4 && seen.received == 4)?;
            let order = (1..)
                .zip(&probe.seen.lock().sent)
                .all(|(tag, sent)| *sent == (tag, Ok(())));
            let counters = channel.counters();
            Ok((order, counters.cqes - counters.recvs))
        });
        assert_eq!(unless_skipped!(result), (true, 1));
        Ok(())
    }

    #[test]
    fn gathered_message_invalidates_a_key_of_its_receiver() -> Result {
        let result = with_loop_of(streaming(4096, 8, 0), |bench, pd, channel, probe| {
            probe.keeps.store(true, Relaxed);
            let mr = Mr::with_access(pd, PeerMemory::new(1, PAGE_SIZE)?, Access::Read)?;
            channel.activate(&mr)?;
            let ring = ring(bench)?;
            let bare = SlotMessage::invalidating(&[6; 20], mr.rkey());
            let slot = channel.try_reserve(0).ok_or(EBUSY)?;
            slot.post_gathered(1, bare, &[], FLAGS)
                .map_err(|(error, _)| error)?;
            send(channel, 2, &ring, (0, 50), FLAGS)?;
            probe.wait(|seen| seen.kept.len() == 2 && seen.sent.len() == 2)?;
            let kept = take_kept(probe)?;
            let (first, second) = match &kept[..] {
                [first, second] => (first, second),
                _ => return Err(ENODATA),
            };
            let mut header = [0; 20];
            first.read(0, &mut header)?;
            Ok((
                (header, first.len(), first.invalidated() == Some(mr.rkey())),
                (is_intact(second, 2, (0, 50))?, second.invalidated()),
                channel.counters().gathered_bytes,
            ))
        });
        assert_eq!(
            unless_skipped!(result),
            (([6; 20], 20, true), (true, None), 50)
        );
        Ok(())
    }
}
