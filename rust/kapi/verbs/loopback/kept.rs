// SPDX-License-Identifier: GPL-2.0

//! Tests of received messages that are kept.

use super::{
    unless_skipped,
    with_loop_of,
    Probe, //
};
use crate::{
    bindings,
    kapi::verbs::{
        channel::{
            Channel,
            RecvPosting, //
        },
        recv::ReceivedBuffer, //
    },
};
use core::mem::MaybeUninit;
use kernel::{
    iov::IovIterDest,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    time::msecs_to_jiffies, //
};

/// Octets of a message.
const BYTES: usize = 3000;

/// Sends a message of `BYTES` times `octet`.
fn send(channel: &Arc<Channel<Probe>>, octet: u8) -> Result {
    let slot = channel.try_reserve(0).ok_or(EBUSY)?;
    slot.post(octet.into(), None, &[], &[octet; BYTES], true)
        .map_err(|(error, _)| error)
}

/// Takes the kept messages out.
fn take_kept(probe: &Probe) -> Result<KVec<ReceivedBuffer<Probe>>> {
    let fresh = KVec::with_capacity(super::HISTORY, GFP_KERNEL)?;
    Ok(core::mem::replace(&mut probe.seen.lock().kept, fresh))
}

/// Whether the message consists of `octet` only.
fn consists_of(message: &ReceivedBuffer<Probe>, octet: u8) -> Result<bool> {
    let mut there = KVec::from_elem(!octet, BYTES, GFP_KERNEL)?;
    message.read(0, &mut there)?;
    Ok(message.len() == BYTES && there.iter().all(|other| *other == octet))
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_kept)]
mod tests {
    use super::*;

    #[test]
    fn kept_messages_stay_while_others_arrive() -> Result {
        let result = with_loop_of(
            |config| {
                (config.send_bytes, config.recv_bytes) = (3000, 3000);
                (config.recv_slots, config.recv_posting) = (4, RecvPosting::Batch(1));
            },
            |_, _, channel, probe| {
                probe.keeps.store(true, Relaxed);
                send(channel, 1)?;
                send(channel, 2)?;
                probe.wait(|seen| seen.kept.len() == 2)?;
                probe.keeps.store(false, Relaxed);
                for octet in 10..30 {
                    send(channel, octet)?;
                    let wanted = usize::from(octet) - 7;
                    probe.wait(|seen| seen.received == wanted && seen.sent.len() == wanted)?;
                }
                let kept = take_kept(probe)?;
                for (message, octet) in kept.iter().zip([1, 2]) {
                    assert!(consists_of(message, octet)?);
                    assert_eq!(message.read(BYTES, &mut [0]), Err(EINVAL));
                    assert_eq!(message.invalidated(), None);
                }
                Ok(kept.len())
            },
        );
        assert_eq!(unless_skipped!(result), 2);
        Ok(())
    }

    #[test]
    fn peer_waits_until_a_kept_buffer_is_posted_again() -> Result {
        let result = with_loop_of(
            |config| {
                (config.send_bytes, config.recv_bytes) = (3000, 3000);
                (config.recv_slots, config.recv_posting) = (2, RecvPosting::Batch(1));
            },
            |_, _, channel, probe| {
                probe.keeps.store(true, Relaxed);
                for octet in 1..=3 {
                    send(channel, octet)?;
                }
                probe.wait(|seen| seen.received == 2)?;
                // SAFETY: No requirements; may sleep.
                unsafe {
                    bindings::schedule_timeout_uninterruptible(msecs_to_jiffies(50) as isize)
                };
                let before = probe.seen.lock().received;
                let mut kept = take_kept(probe)?;
                drop(kept.pop());
                probe.wait(|seen| seen.received == 3 && seen.kept.len() == 1)?;
                let mut later = take_kept(probe)?;
                let intact = match (kept.pop(), later.pop()) {
                    (Some(first), Some(third)) => {
                        consists_of(&first, 1)? && consists_of(&third, 3)?
                    }
                    _ => false,
                };
                Ok((before, intact))
            },
        );
        assert_eq!(unless_skipped!(result), (2, true));
        Ok(())
    }

    #[test]
    fn kept_message_is_readable_after_shutdown() -> Result {
        let result = with_loop_of(
            |config| (config.send_bytes, config.recv_bytes) = (3000, 3000),
            |_, _, channel, probe| {
                probe.keeps.store(true, Relaxed);
                send(channel, 9)?;
                probe.wait(|seen| seen.kept.len() == 1)?;
                channel.shutdown();
                let kept = take_kept(probe)?.pop().ok_or(ENODATA)?;
                consists_of(&kept, 9)
            },
        );
        assert!(unless_skipped!(result));
        Ok(())
    }

    #[test]
    fn part_of_a_message_is_copied_to_an_iterator() -> Result {
        let result = with_loop_of(
            |config| (config.send_bytes, config.recv_bytes) = (3000, 3000),
            |_, _, channel, probe| {
                probe.keeps.store(true, Relaxed);
                send(channel, 5)?;
                probe.wait(|seen| seen.kept.len() == 1)?;
                let kept = take_kept(probe)?.pop().ok_or(ENODATA)?;
                let mut there = KVec::from_elem(0u8, BYTES, GFP_KERNEL)?;
                let vec = bindings::kvec {
                    iov_base: there.as_mut_ptr().cast(),
                    iov_len: 100,
                };
                let mut iter = MaybeUninit::uninit();
                // SAFETY: Sets the iterator up; 0 is ITER_DEST.
                unsafe { bindings::iov_iter_kvec(iter.as_mut_ptr(), 0, &vec, 1, 100) };
                // SAFETY: A destination that was just set up; `vec` and the memory outlive it.
                let iter = unsafe { IovIterDest::from_raw(iter.as_mut_ptr()) };
                let outside = kept.copy_to_iter(BYTES - 10, 11, iter);
                let copied = kept.copy_to_iter(BYTES - 200, 200, iter)?;
                let count = there.iter().filter(|octet| **octet == 5).count();
                Ok((outside, copied, count))
            },
        );
        assert_eq!(unless_skipped!(result), (Err(EINVAL), 100, 100));
        Ok(())
    }
}
