// SPDX-License-Identifier: GPL-2.0

//! Tests of receive buffers that are posted, or made, on demand, and of messages that are appended to others.

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
    with_bench,
    with_loop_of,
    Probe, //
};
use crate::{
    bindings,
    kapi::{
        compat::enums::{
            DMA_BIDIRECTIONAL,
            DMA_FROM_DEVICE, //
        },
        mem::cgroup::MemCgroup,
        verbs::{
            channel::{
                Channel,
                ChannelConfig,
                RecvPosting,
                WriteSource, //
            },
            pd::Pd,
            recv::ReceivedBuffer, //
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
    time::msecs_to_jiffies, //
};

/// Waits for the time in which a device that breaks the rule would have acted.
fn pause() {
    // SAFETY: No requirements, and tests may sleep.
    unsafe { bindings::schedule_timeout_uninterruptible(msecs_to_jiffies(50) as isize) };
}

/// Sends two messages with `first` and `second` octets from the start of a ring and keeps both.
fn two_messages(
    channel: &Arc<Channel<Probe>>,
    probe: &Probe,
    ring: &WriteSource,
    (first, second): (u32, u32),
) -> Result<[ReceivedBuffer<Probe>; 2]> {
    probe.keeps.store(true, Relaxed);
    send(channel, 1, ring, (0, first), FLAGS)?;
    send(channel, 2, ring, (500, second), FLAGS)?;
    probe.wait(|seen| seen.kept.len() == 2)?;
    let mut kept = take_kept(probe)?;
    match (kept.pop(), kept.pop()) {
        (Some(second), Some(first)) => Ok([first, second]),
        _ => Err(ENODATA),
    }
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_pool)]
mod tests {
    use super::*;

    /// A channel of four buffers, of which two have memory at first.
    fn growing(config: &mut ChannelConfig) {
        streaming(16384, 3, 1)(config);
        config.recv_posting = RecvPosting::OnDemand {
            spares: 1,
            later: 2,
        };
    }

    #[test]
    fn added_buffers_are_posted_on_demand_and_hold_messages() -> Result {
        let result = with_loop_of(growing, |bench, _, channel, probe| {
            probe.keeps.store(true, Relaxed);
            let count = || (channel.posted_buffers(), channel.idle_buffers());
            let ring = ring(bench)?;
            let before = (count(), channel.buffer_bytes());
            let account = Arc::new(0u8, GFP_KERNEL)?;
            let add = || -> Result {
                let on_free = KBox::new(account.clone(), GFP_KERNEL)?;
                channel.add_buffer(&MemCgroup::ROOT, Some(on_free))
            };
            add()?;
            add()?;
            let added = (count(), channel.buffer_bytes() - before.1, add());
            let posted = channel.post_buffers(u16::MAX)?;
            for tag in 1..=4 {
                send(channel, tag, &ring, (0, 16000), FLAGS)?;
            }
            probe.wait(|seen| seen.kept.len() == 4)?;
            let kept = take_kept(probe)?;
            let mut intact = true;
            for (tag, message) in (1..).zip(&kept) {
                intact &= is_intact(message, tag, (0, 16000))?;
            }
            drop(kept);
            Ok((before.0, added, posted, intact, account))
        });
        let (before, added, posted, intact, account) = unless_skipped!(result);
        assert_eq!(before, (2, 0));
        assert_eq!(added, ((2, 2), 2 * 16384, Err(ENOSPC)));
        assert_eq!((posted, intact), (2, true));
        // The channel is gone, and with it the accounts of its buffers.
        assert!(Arc::into_unique_or_drop(account).is_some());
        Ok(())
    }

    #[test]
    fn small_buffers_cannot_get_memory_later() -> Result {
        let result = with_bench(false, |bench| {
            let pd = Pd::new(&bench.device)?;
            let mut config = bench.config();
            growing(&mut config);
            config.recv_bytes = 4096;
            Ok(Channel::new(&pd, &config, Probe::new()?).err())
        });
        assert_eq!(unless_skipped!(result), Some(EINVAL));
        Ok(())
    }

    #[test]
    fn dropped_buffers_are_posted_only_on_demand() -> Result {
        let result = with_loop_of(streaming(16384, 2, 1), |bench, _, channel, probe| {
            probe.keeps.store(true, Relaxed);
            let count = || (channel.posted_buffers(), channel.idle_buffers());
            let ring = ring(bench)?;
            let start = count();
            for tag in 1..=3 {
                send(channel, tag, &ring, (0, 16000), FLAGS)?;
            }
            probe.wait(|seen| seen.kept.len() == 2)?;
            let mut kept = take_kept(probe)?;
            let used = count();
            drop(kept.pop());
            pause();
            let dropped = (count(), probe.seen.lock().received);
            let posted = channel.post_buffers(1)?;
            probe.wait(|seen| seen.kept.len() == 1 && seen.sent.len() == 3)?;
            let third = take_kept(probe)?.pop().ok_or(ENODATA)?;
            let intact = is_intact(&third, 3, (0, 16000))?;
            drop((third, kept));
            // Only as many as there are.
            let rest = channel.post_buffers(u16::MAX)?;
            Ok((start, used, dropped, (posted, intact), (rest, count())))
        });
        assert_eq!(
            unless_skipped!(result),
            ((2, 1), (0, 1), ((0, 2), 2), (1, true), (3, (3, 0)))
        );
        Ok(())
    }

    #[test]
    fn spares_take_messages_while_all_others_are_held() -> Result {
        let result = with_loop_of(streaming(4096, 3, 8), |bench, _, channel, probe| {
            probe.keeps.store(true, Relaxed);
            let ring = ring(bench)?;
            let mut posted = KVec::new();
            for tag in 1..=11 {
                send(channel, tag, &ring, (u32::from(tag), 100), FLAGS)?;
                let count = usize::from(tag);
                probe.wait(|seen| seen.kept.len() == count && seen.sent.len() == count)?;
                posted.push(channel.post_buffers(1)?, GFP_KERNEL)?;
            }
            let kept = take_kept(probe)?;
            let mut numbers = 0u32;
            let mut intact = true;
            for (message, tag) in kept.iter().zip(1u8..) {
                numbers |= 1 << message.number();
                intact &= is_intact(message, tag, (tag.into(), 100))?;
            }
            let spares = posted.iter().filter(|count| **count == 1).count();
            Ok((spares, numbers, intact, channel.posted_buffers()))
        });
        assert_eq!(unless_skipped!(result), (8, (1 << 11) - 1, true, 0));
        Ok(())
    }

    #[test]
    fn small_message_is_appended_behind_a_kept_one() -> Result {
        let result = with_loop_of(streaming(4096, 4, 0), |bench, _, channel, probe| {
            let ring = ring(bench)?;
            let [mut first, second] = two_messages(channel, probe, &ring, (500, 700))?;
            let before = first.len();
            first.append(&second, HEAD, 700)?;
            drop(second);
            let idle = channel.idle_buffers();
            // The payloads follow each other in the ring. From the middle of the first on.
            let mut there = KVec::from_elem(0u8, 1000, GFP_KERNEL)?;
            let copied = with_iter(&mut there, |iter| {
                first.copy_to_iter(HEAD + 200, 1000, iter)
            })?;
            let right = (200..1200).map(ring_octet).eq(there.iter().copied());
            Ok((
                before,
                first.len(),
                idle,
                (copied, right),
                is_intact(&first, 1, (0, 1200))?,
            ))
        });
        assert_eq!(
            unless_skipped!(result),
            (HEAD + 500, HEAD + 1200, 1, (1000, true), true)
        );
        Ok(())
    }

    #[test]
    fn append_that_does_not_fit_changes_nothing() -> Result {
        let result = with_loop_of(streaming(2048, 4, 0), |bench, _, channel, probe| {
            let ring = ring(bench)?;
            let [mut first, second] = two_messages(channel, probe, &ring, (1000, 1500))?;
            let room = first.size() - first.len();
            let errors = [
                first.append(&second, HEAD, room + 1),
                first.append(&second, HEAD + 1, 1500),
                first.append(&second, usize::MAX, 1),
                first.append(&second, 0, usize::MAX),
            ];
            let same = first.len() == HEAD + 1000 && is_intact(&first, 1, (0, 1000))?;
            // Up to the last octet, it does; `second` continues elsewhere in the ring.
            first.append(&second, HEAD, room)?;
            let mut last = [0];
            first.read(2047, &mut last)?;
            let wanted = ring_octet(500 + room - 1);
            Ok((errors, same, last == [wanted], first.len()))
        });
        let errors = [EMSGSIZE, EINVAL, EINVAL, EINVAL].map(Err);
        assert_eq!(unless_skipped!(result), (errors, true, true, 2048));
        Ok(())
    }

    #[test]
    fn buffer_after_an_append_receives_whole_messages_again() -> Result {
        let result = with_loop_of(streaming(4096, 2, 0), |bench, _, channel, probe| {
            let ring = ring(bench)?;
            let [mut first, second] = two_messages(channel, probe, &ring, (1000, 1000))?;
            first.append(&second, HEAD, 1000)?;
            drop((first, second));
            let posted = channel.post_buffers(2)?;
            send(channel, 3, &ring, (9, 4000), FLAGS)?;
            send(channel, 4, &ring, (99, 10), FLAGS)?;
            probe.wait(|seen| seen.kept.len() == 2)?;
            let kept = take_kept(probe)?;
            let mut intact = kept.len() == 2;
            for (message, (tag, range)) in kept.iter().zip([(3, (9, 4000)), (4, (99, 10))]) {
                intact &= is_intact(message, tag, range)?;
            }
            Ok((posted, intact))
        });
        assert_eq!(unless_skipped!(result), (2, true));
        Ok(())
    }

    #[test]
    fn kept_messages_are_appended_and_read_after_shutdown() -> Result {
        let result = with_loop_of(streaming(65536, 4, 2), |bench, _, channel, probe| {
            let ring = ring(bench)?;
            let [mut first, second] = two_messages(channel, probe, &ring, (500, 60000))?;
            let part = second.part(HEAD, 60000)?;
            channel.shutdown();
            first.append(&second, HEAD, 700)?;
            drop(second);
            let posted = channel.post_buffers(1).is_err();
            let mut there = KVec::from_elem(0u8, 60000, GFP_KERNEL)?;
            let copied = with_iter(&mut there, |iter| part.copy_to_iter(0, 60000, iter))?;
            let right = (500..60500).map(ring_octet).eq(there.iter().copied());
            Ok((
                posted,
                (copied, right),
                is_intact(&first, 1, (0, 1200))?,
                channel.idle_buffers(),
            ))
        });
        // The spares are as they were: a channel that is shut down takes nothing back.
        assert_eq!(unless_skipped!(result), (true, (60000, true), true, 2));
        Ok(())
    }

    #[test]
    fn part_holds_the_buffer_of_a_dropped_message() -> Result {
        let result = with_loop_of(streaming(4096, 3, 0), |bench, _, channel, probe| {
            let ring = ring(bench)?;
            let [mut first, second] = two_messages(channel, probe, &ring, (500, 100))?;
            let outside = [
                first.part(HEAD + 1, 500).err(),
                first.part(usize::MAX, 1).err(),
            ];
            let parts = (first.part(HEAD, 500)?, first.part(HEAD + 400, 100)?);
            // A reader copies its part while the message grows.
            first.append(&second, HEAD, 100)?;
            drop((first, second));
            let held = channel.idle_buffers();
            let mut there = [0; 60];
            let copied = with_iter(&mut there, |iter| parts.1.copy_to_iter(30, 70, iter))?;
            let beyond = with_iter(&mut there, |iter| parts.1.copy_to_iter(30, 71, iter));
            let right = (430..490).map(ring_octet).eq(there);
            let len = parts.0.len();
            drop(parts.0);
            let still = channel.idle_buffers();
            drop(parts.1);
            let over = channel.idle_buffers();
            Ok((outside, (held, still, over), (copied, right, len), beyond))
        });
        assert_eq!(
            unless_skipped!(result),
            ([Some(EINVAL); 2], (1, 1, 2), (60, true, 500), Err(EINVAL))
        );
        Ok(())
    }

    #[test]
    fn channel_that_posts_by_itself_refuses_to_append() -> Result {
        let result = with_loop_of(
            |config| {
                streaming(4096, 4, 0)(config);
                config.recv_posting = RecvPosting::Batch(1);
            },
            |bench, _, channel, probe| {
                let ring = ring(bench)?;
                let [mut first, second] = two_messages(channel, probe, &ring, (500, 100))?;
                let refused = first.append(&second, HEAD, 100);
                drop((first, second));
                Ok((refused, channel.posted_buffers(), channel.idle_buffers()))
            },
        );
        assert_eq!(unless_skipped!(result), (Err(EINVAL), 4, 0));
        Ok(())
    }

    /// Appended octets must reach a bounce buffer, which the end of the mapping copies back.
    #[test]
    fn buffers_that_grow_are_mapped_for_both_directions() -> Result {
        let result = with_loop_of(streaming(16384, 4, 2), |_, _, channel, _| {
            let open = channel.recv_direction();
            channel.shutdown();
            Ok((open, channel.recv_direction()))
        });
        assert_eq!(unless_skipped!(result), (Some(DMA_BIDIRECTIONAL), None));
        let result = with_loop_of(|_| {}, |_, _, channel, _| Ok(channel.recv_direction()));
        assert_eq!(unless_skipped!(result), Some(DMA_FROM_DEVICE));
        Ok(())
    }

    #[test]
    fn buffers_take_the_memory_that_the_configuration_says() -> Result {
        let result = with_bench(false, |bench| {
            let pd = Pd::new(&bench.device)?;
            let mut sizes = KVec::new();
            for (bytes, slots, spares) in [
                (2048, 8, 0),
                (4096, 13, 8),
                (16384, 13, 8),
                (32768, 21, 8),
                (65536, 13, 8),
            ] {
                let mut config = bench.config();
                streaming(bytes, slots, spares)(&mut config);
                let channel = Channel::new(&pd, &config, Probe::new()?)?;
                let all = usize::from(slots + spares) * usize::try_from(bytes)?;
                let counts = (channel.posted_buffers(), channel.idle_buffers());
                let right = counts == (slots.into(), spares.into());
                sizes.push((channel.buffer_bytes() - all, right), GFP_KERNEL)?;
                channel.shutdown();
            }
            // The headers of the send slots take a page.
            let extra = sizes.iter().filter(|size| **size == (PAGE_SIZE, true));
            Ok((extra.count(), sizes.len()))
        });
        assert_eq!(unless_skipped!(result), (5, 5));
        Ok(())
    }
}
