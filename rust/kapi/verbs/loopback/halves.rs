// SPDX-License-Identifier: GPL-2.0

//! Tests of receive buffers that get second halves.

use super::{
    gather::{
        is_intact,
        ring,
        ring_octet,
        send,
        streaming,
        take_kept,
        with_iter,
        FLAGS,
        HEAD, //
    },
    unless_skipped,
    with_loop_of,
    Probe, //
};
use crate::kapi::{
    mem::cgroup::MemCgroup,
    verbs::{
        channel::{
            Channel,
            ChannelConfig, //
        },
        recv::ReceivedBuffer, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// Octets of a buffer.
const BYTES: usize = 16384;

/// A channel of four buffers, of which three are posted.
fn halving(config: &mut ChannelConfig) {
    streaming(16384, 3, 1)(config);
    config.recv_halves = true;
}

/// The next `count` messages.
fn kept(probe: &Probe, count: usize) -> Result<KVec<ReceivedBuffer<Probe>>> {
    probe.wait(|seen| seen.kept.len() == count)?;
    take_kept(probe)
}

/// Gives all buffers second halves; how many, and what counts them.
fn extend(channel: &Channel<Probe>) -> Result<(u32, Arc<u8>)> {
    let account = Arc::new(0u8, GFP_KERNEL)?;
    let mut count = 0;
    channel.extend_buffers(&MemCgroup::ROOT, || {
        count += 1;
        Ok(Some(KBox::new(account.clone(), GFP_KERNEL)?))
    })?;
    Ok((count, account))
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_halves)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_fit_buffers_that_are_posted_with_second_halves() -> Result {
        let result = with_loop_of(halving, |bench, _, channel, probe| {
            probe.keeps.store(true, Relaxed);
            let ring = ring(bench)?;
            let before = (channel.added_bytes(), channel.buffer_bytes());
            let (halves, account) = extend(channel)?;
            let added = (
                halves,
                channel.added_bytes(),
                channel.buffer_bytes() - before.1,
            );
            // These were posted without.
            for tag in 1..=3 {
                send(channel, tag, &ring, (0, 16000), FLAGS)?;
            }
            let first = kept(probe, 3)?;
            let short = first.iter().all(|message| message.size() == BYTES);
            drop(first);
            let posted = channel.post_buffers(u16::MAX)?;
            let ranges = [(100, 30000), (65000, 32732), (7, 10)];
            for (tag, range) in (4..).zip(ranges) {
                send(channel, tag, &ring, range, FLAGS)?;
            }
            let second = kept(probe, 3)?;
            let mut intact = second.len() == 3;
            for (message, (tag, range)) in second.iter().zip((4..).zip(ranges)) {
                intact &= message.size() == 2 * BYTES && is_intact(message, tag, range)?;
            }
            drop(second);
            Ok((before.0, added, short, (posted, intact), account))
        });
        let (before, added, short, posted, account) = unless_skipped!(result);
        assert_eq!((before, added), (BYTES, (4, 2 * BYTES, 4 * BYTES)));
        assert!(short);
        assert_eq!(posted, (4, true));
        // The channel is gone, and with it the accounts of the halves.
        assert!(Arc::into_unique_or_drop(account).is_some());
        Ok(())
    }

    #[test]
    fn readers_and_appended_octets_cross_the_middle() -> Result {
        let result = with_loop_of(halving, |bench, _, channel, probe| {
            probe.keeps.store(true, Relaxed);
            let ring = ring(bench)?;
            extend(channel)?;
            for tag in 1..=3 {
                send(channel, tag, &ring, (0, 10), FLAGS)?;
            }
            drop(kept(probe, 3)?);
            channel.post_buffers(u16::MAX)?;
            send(channel, 4, &ring, (0, 16000), FLAGS)?;
            send(channel, 5, &ring, (16000, 1000), FLAGS)?;
            let mut both = kept(probe, 2)?;
            let next = both.pop().ok_or(ENODATA)?;
            let mut first = both.pop().ok_or(ENODATA)?;
            first.append(&next, HEAD, 1000)?;
            drop(next);
            let intact = is_intact(&first, 4, (0, 17000))?;
            let part = first.part(HEAD + 15000, 2000)?;
            drop(first);
            let mut there = KVec::from_elem(0u8, 1800, GFP_KERNEL)?;
            let copied = with_iter(&mut there, |iter| part.copy_to_iter(100, 1800, iter))?;
            let right = (15100..16900).map(ring_octet).eq(there.iter().copied());
            let mut octets = [0; 400];
            part.read(1200, &mut octets)?;
            let read = (16200..16600).map(ring_octet).eq(octets);
            drop(part);
            Ok((intact, copied, right, read, channel.idle_buffers()))
        });
        assert_eq!(unless_skipped!(result), (true, 1800, true, true, 2));
        Ok(())
    }

    #[test]
    fn halves_that_cannot_be_had_change_nothing() -> Result {
        let result = with_loop_of(halving, |bench, _, channel, probe| {
            probe.keeps.store(true, Relaxed);
            let ring = ring(bench)?;
            let mut left = 2;
            let refused = channel.extend_buffers(&MemCgroup::ROOT, || {
                left -= 1;
                if left == 0 {
                    Err(ENOMEM)
                } else {
                    Ok(None)
                }
            });
            for tag in 1..=3 {
                send(channel, tag, &ring, (0, 16000), FLAGS)?;
            }
            drop(kept(probe, 3)?);
            let posted = channel.post_buffers(u16::MAX)?;
            send(channel, 4, &ring, (0, 16000), FLAGS)?;
            let last = kept(probe, 1)?.pop().ok_or(ENODATA)?;
            Ok((refused, channel.added_bytes(), posted, last.size()))
        });
        let refused = Err(ENOMEM);
        assert_eq!(unless_skipped!(result), (refused, BYTES, 4, BYTES));
        Ok(())
    }

    #[test]
    fn channel_that_was_not_made_for_them_gets_none() -> Result {
        let result = with_loop_of(streaming(16384, 3, 1), |_, _, channel, _| {
            Ok(channel.extend_buffers(&MemCgroup::ROOT, || Ok(None)))
        });
        assert_eq!(unless_skipped!(result), Err(EINVAL));
        Ok(())
    }
}
