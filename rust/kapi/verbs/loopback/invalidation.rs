// SPDX-License-Identifier: GPL-2.0

//! Tests of messages that invalidate a key of their receiver.

use super::{
    unless_skipped,
    with_loop_of,
    Bench,
    Probe, //
};
use crate::kapi::{
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
        slot::{
            single::Read,
            SlotMessage, //
        },
    },
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// Lets the peer read and invalidate.
fn invalidating(config: &mut ChannelConfig) {
    config.peer_reads = true;
    config.may_invalidate = true;
}

/// A region that a peer may read, filled with sevens.
fn region(pd: &Arc<Pd>, channel: &Channel<Probe>) -> Result<Mr> {
    let memory = PeerMemory::new(1, PAGE_SIZE)?;
    memory.write(0, 0, &[7; 64])?;
    let mr = Mr::with_access(pd, memory, Access::Read)?;
    channel.activate(&mr)?;
    Ok(mr)
}

/// Posts a read of 64 octets from the region.
fn post_read(
    bench: &Bench,
    channel: &Arc<Channel<Probe>>,
    tag: u32,
    mr: &Mr,
) -> Result<Arc<ReadBuffer>> {
    let buffer = ReadBuffer::new(&bench.device, 64, &MemCgroup::ROOT)?;
    let read = Read {
        offset: 0,
        len: 64,
        rkey: mr.rkey(),
        raddr: mr.iova(0)?,
    };
    let slot = channel.try_reserve(0).ok_or(EBUSY)?;
    slot.post_read(tag, &buffer, &read)
        .map_err(|(error, _)| error)?;
    Ok(buffer)
}

/// Posts a message that invalidates `rkey`.
fn post_message(channel: &Arc<Channel<Probe>>, tag: u32, rkey: u32) -> Result {
    let slot = channel.try_reserve(0).ok_or(EBUSY)?;
    slot.post(
        tag,
        None,
        &[],
        SlotMessage::invalidating(&[3; 20], rkey),
        true,
    )
    .map_err(|(error, _)| error)
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_invalidation)]
mod tests {
    use super::*;

    /// RNIC-RSP-18, RNIC-MR-07.
    #[test]
    fn receiver_sees_the_key_and_the_key_is_dead() -> Result {
        let result = with_loop_of(invalidating, |bench, pd, channel, probe| {
            probe.keeps.store(true, Relaxed);
            let mr = region(pd, channel)?;
            let before = post_read(bench, channel, 1, &mr)?;
            probe.wait(|seen| seen.sent.len() == 1)?;
            let mut octets = [0; 64];
            before.read(0, &mut octets)?;

            post_message(channel, 2, mr.rkey())?;
            probe.wait(|seen| seen.kept.len() == 1 && seen.sent.len() == 2)?;
            // A message behind it, by the same slots, invalidates nothing.
            let slot = channel.try_reserve(0).ok_or(EBUSY)?;
            slot.post(3, None, &[], &[4; 20], true)
                .map_err(|(error, _)| error)?;
            probe.wait(|seen| seen.kept.len() == 2 && seen.sent.len() == 3)?;
            let (mut first, mut keys) = ([0; 20], [None; 2]);
            {
                let seen = probe.seen.lock();
                for (key, message) in keys.iter_mut().zip(&seen.kept) {
                    *key = message.invalidated();
                }
                seen.kept.first().ok_or(ENODATA)?.read(0, &mut first)?;
            }
            let fresh = KVec::with_capacity(1, GFP_KERNEL)?;
            drop(core::mem::replace(&mut probe.seen.lock().kept, fresh));

            let after = post_read(bench, channel, 4, &mr)?;
            probe.wait(|seen| seen.sent.len() == 4 && seen.broken.len() == 1)?;
            let failed = matches!(probe.seen.lock().sent.last(), Some((4, Err(_))));
            let mut untouched = [1; 64];
            after.read(0, &mut untouched)?;
            Ok((
                octets == [7; 64],
                first == [3; 20],
                keys == [Some(mr.rkey()), None],
                failed,
                untouched == [0; 64],
            ))
        });
        assert_eq!(unless_skipped!(result), (true, true, true, true, true));
        Ok(())
    }

    #[test]
    fn channel_that_allows_no_invalidation_breaks() -> Result {
        let result = with_loop_of(
            |config| config.peer_reads = true,
            |_, pd, channel, probe| {
                let mr = region(pd, channel)?;
                post_message(channel, 1, mr.rkey())?;
                probe.wait(|seen| seen.broken.len() == 1)?;
                // The lock must not be held when the region is dropped.
                let received = probe.seen.lock().received;
                Ok(received)
            },
        );
        assert_eq!(unless_skipped!(result), 0);
        Ok(())
    }

    /// RNIC-RSP-18.
    #[test]
    fn unknown_key_breaks_the_channel() -> Result {
        let result = with_loop_of(invalidating, |_, _, channel, probe| {
            post_message(channel, 1, 0x00ff_ff00)?;
            // The message itself may succeed: `rdma_rxe` acknowledges it before its queue pair fails.
            probe.wait(|seen| seen.broken.len() == 1 && seen.sent.len() == 1)?;
            let seen = probe.seen.lock();
            let tag = seen.sent.first().map(|(tag, _)| *tag);
            Ok((seen.received, tag))
        });
        assert_eq!(unless_skipped!(result), (0, Some(1)));
        Ok(())
    }
}
