// SPDX-License-Identifier: GPL-2.0

//! Tests of channels that have a protection domain each.

use super::{
    unless_skipped,
    with_bench,
    with_loop_of,
    Probe, //
};
use crate::kapi::{
    mem::{
        cgroup::MemCgroup,
        region::PeerMemory, //
    },
    verbs::{
        channel::Channel,
        mr::{
            Access,
            Mr, //
        },
        pd::Pd,
        read::ReadBuffer,
        slot::single::Read, //
    },
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
    time::{
        Instant,
        Monotonic, //
    },
};

/// Channels that exist at once.
const CHANNELS: u8 = 16;

/// Reads 8 octets from a region of the peer.
fn read(channel: &Arc<Channel<Probe>>, tag: u32, mr: &Mr) -> Result<Arc<ReadBuffer>> {
    let buffer = ReadBuffer::new(channel.device(), 8, &MemCgroup::ROOT)?;
    let read = Read {
        offset: 0,
        len: 8,
        rkey: mr.rkey(),
        raddr: mr.iova(0)?,
    };
    let slot = channel.try_reserve(0).ok_or(EBUSY)?;
    slot.post_read(tag, &buffer, &read)
        .map_err(|(error, _)| error)?;
    Ok(buffer)
}

/// A region that a peer may read, full of `octet`.
fn region(channel: &Channel<Probe>, pd: &Arc<Pd>, octet: u8) -> Result<Mr> {
    let memory = PeerMemory::new(1, PAGE_SIZE)?;
    memory.write(0, 0, &[octet; 8])?;
    let mr = Mr::with_access(pd, memory, Access::Read)?;
    channel.activate(&mr)?;
    Ok(mr)
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_domains)]
mod tests {
    use super::*;

    #[test]
    fn each_channel_reads_by_the_keys_of_its_own_domain() -> Result {
        let result = with_bench(false, |bench| {
            let mut config = bench.config();
            config.peer_reads = true;
            let mut ends = KVec::with_capacity(CHANNELS.into(), GFP_KERNEL)?;
            let mut nanos = (0, 0);
            let mut outcome = Ok::<_, Error>(0);
            for octet in 1..=CHANNELS {
                let end = (|| {
                    let begun = Instant::<Monotonic>::now();
                    let pd = Pd::new(&bench.device)?;
                    nanos.0 += begun.elapsed().as_nanos();
                    let begun = Instant::<Monotonic>::now();
                    let probe = Probe::new()?;
                    let channel = Channel::new(&pd, &config, probe.clone())?;
                    nanos.1 += begun.elapsed().as_nanos();
                    Ok::<_, Error>((channel, pd, probe, octet))
                })();
                match end {
                    Ok(end) => ends.push(end, GFP_KERNEL)?,
                    Err(error) => outcome = Err(error),
                }
            }
            for (channel, pd, probe, octet) in &ends {
                let read = bench.connect(channel, channel.qpn()).and_then(|()| {
                    let mr = region(channel, pd, *octet)?;
                    let buffer = read(channel, 1, &mr)?;
                    probe.wait(|seen| seen.sent.len() == 1)?;
                    let mut there = [0; 8];
                    buffer.read(0, &mut there)?;
                    Ok(usize::from(there == [*octet; 8]))
                });
                outcome = outcome.and_then(|sum| Ok(sum + read?));
            }
            for (channel, ..) in &ends {
                channel.shutdown();
            }
            let count = i64::from(CHANNELS);
            pr_info!(
                "a protection domain takes {} ns, the rest of a channel {} ns\n",
                nanos.0 / count,
                nanos.1 / count
            );
            outcome
        });
        assert_eq!(unless_skipped!(result), usize::from(CHANNELS));
        Ok(())
    }

    /// RNIC-RSP-07.
    #[test]
    fn key_of_another_domain_breaks_the_channel() -> Result {
        let result = with_loop_of(
            |config| config.peer_reads = true,
            |bench, pd, channel, probe| {
                let foreign = Pd::new(&bench.device)?;
                let mut config = bench.config();
                config.peer_reads = true;
                let second = Channel::new(&foreign, &config, Probe::new()?)?;
                let connected = bench.connect(&second, second.qpn());
                let mr = connected.and_then(|()| region(&second, &foreign, 7));
                let outcome = mr.and_then(|mr| {
                    let refused = channel.activate(&Mr::new(&foreign, PeerMemory::new(1, 4096)?)?);
                    let buffer = read(channel, 1, &mr)?;
                    probe.wait(|seen| seen.sent.len() == 1 && seen.broken.len() == 1)?;
                    let mut there = [1; 8];
                    buffer.read(0, &mut there)?;
                    Ok((refused, there))
                });
                second.shutdown();
                let outcome = outcome?;
                Ok((outcome, Arc::ptr_eq(&foreign, pd)))
            },
        );
        assert_eq!(unless_skipped!(result), ((Err(EINVAL), [0; 8]), false));
        Ok(())
    }
}
