// SPDX-License-Identifier: GPL-2.0

//! Tests of channels that are connected to themselves, on the first RoCE port that is up.
//!
//! They are skipped on a machine without one. A device called `rxe_doomed` is left alone except by
//! the test that has it removed while it is at work.

mod cm;
mod domains;
mod faults;
mod gather;
mod gids;
mod halves;
mod invalidation;
mod kept;
mod pool;
mod reads;
mod regions;
mod shared;
mod user_regions;

use super::{
    channel::{
        Arriving,
        Channel,
        ChannelConfig,
        ChannelOps,
        ConnectionConfig,
        Peer,
        RdmaWrite,
        RecvPosting,
        WriteSource, //
    },
    client::{
        ClientOps,
        ClientRegistration,
        ClientSlot,
        PortEvent, //
    },
    device::{
        Device,
        GidWant,
        LocalGid, //
    },
    mr::Mr,
    pd::Pd,
    recv::ReceivedBuffer,
    sendbuf::{
        SendBuffer,
        SendMapping, //
    },
    wc::WcStatus, //
};
use crate::{
    bindings,
    kapi::{
        compat::{
            errno::ESHUTDOWN,
            new_spinlock_irq,
            SpinLockIrq, //
        },
        mem::region::PeerMemory, //
    },
};
use kernel::{
    new_condvar,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        CondVar,
        CondVarTimeoutResult,
        SetOnce, //
    },
    time::msecs_to_jiffies, //
};

/// The device that is removed.
const DOOMED: &str = "rxe_doomed";
/// Longest wait for anything.
const PATIENCE_MS: u32 = 20_000;
/// First sequence number of both directions.
const PSN: u32 = 0x00ab_cdef;
/// Slots of the channels.
const SLOTS: u16 = 8;
/// Longest message.
const LONG: u16 = 5000;
/// Messages that are remembered.
const HISTORY: usize = 64;

/// What a channel told us.
struct Seen {
    /// Tags that came back, with how.
    sent: KVec<(u32, Result<(), WcStatus>)>,
    received: usize,
    octets: usize,
    last: [u8; 44],
    slot_free: usize,
    broken: KVec<WcStatus>,
    /// Messages that were kept.
    kept: KVec<ReceivedBuffer<Probe>>,
}

/// The user of a channel.
#[pin_data]
struct Probe {
    #[pin]
    seen: SpinLockIrq<Seen>,
    #[pin]
    changed: CondVar,
    /// When it is there, each message that is done is followed by the next.
    endless: SetOnce<(Arc<Channel<Probe>>, Arc<SendMapping>, RdmaWrite)>,
    /// Received messages are kept.
    keeps: Atomic<bool>,
}

impl Probe {
    fn new() -> Result<Arc<Self>> {
        let sent = KVec::with_capacity(HISTORY, GFP_KERNEL)?;
        let broken = KVec::with_capacity(HISTORY, GFP_KERNEL)?;
        let kept = KVec::with_capacity(HISTORY, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                seen <- new_spinlock_irq!(
                    Seen {
                        sent,
                        received: 0,
                        octets: 0,
                        last: [0; 44],
                        slot_free: 0,
                        broken,
                        kept,
                    },
                    "rdma_sock_test_seen"
                ),
                changed <- new_condvar!("rdma_sock_test_changed"),
                endless: SetOnce::new(),
                keeps: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    fn note(&self, f: impl FnOnce(&mut Seen)) {
        f(&mut self.seen.lock());
        self.changed.notify_all();
    }

    /// Waits until `done`.
    fn wait(&self, mut done: impl FnMut(&Seen) -> bool) -> Result {
        let mut left = msecs_to_jiffies(PATIENCE_MS);
        let mut seen = self.seen.lock();
        while !done(&seen) {
            match self.changed.wait_interruptible_timeout(&mut seen, left) {
                CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
                CondVarTimeoutResult::Timeout => return Err(ETIMEDOUT),
                CondVarTimeoutResult::Signal { .. } => return Err(EINTR),
            }
        }
        Ok(())
    }
}

impl ChannelOps for Probe {
    type Tag = u32;

    fn on_sent(&self, tag: u32, result: Result<(), WcStatus>) {
        self.note(|seen| drop(seen.sent.push_within_capacity((tag, result))));
        if let (Ok(()), Some((channel, source, write))) = (result, self.endless.as_ref()) {
            if let Some(slot) = channel.try_reserve(0) {
                let _ = slot.post(
                    tag,
                    Some(WriteSource::Buffer(source.clone())),
                    &[*write],
                    &[1; 44],
                    true,
                );
            }
        }
    }

    fn supersedes(_later: &u32, _earlier: &u32) -> bool {
        false
    }

    fn on_received(&self, msg: Arriving<'_, Self>) {
        let mut first = [0; 44];
        let len = msg.len().min(first.len());
        let read = first.get_mut(..len).map(|part| msg.read(0, part));
        self.note(|seen| {
            seen.received += 1;
            seen.octets = msg.len();
            if read == Some(Ok(())) {
                seen.last = first;
            }
        });
        if self.keeps.load(Relaxed) {
            let kept = msg.keep();
            self.note(|seen| drop(seen.kept.push_within_capacity(kept)));
        }
    }

    fn on_slot_free(&self) {
        self.note(|seen| seen.slot_free += 1);
    }

    fn on_slot_unused(&self) {
        self.on_slot_free();
    }

    fn on_broken(&self, status: WcStatus) {
        self.note(|seen| drop(seen.broken.push_within_capacity(status)));
    }
}

/// A device that can be used for tests.
#[pin_data]
struct Bench {
    device: Arc<Device>,
    port: u32,
    gid: LocalGid,
    /// To be shut down when the device goes away.
    #[pin]
    channel: kernel::sync::Mutex<Option<Arc<Channel<Probe>>>>,
}

impl Bench {
    fn new(device: &Arc<Device>) -> Result<Arc<Self>> {
        let want = GidWant {
            v1: true,
            v2: true,
            ip: None,
            net_cookie: None,
        };
        let (port, gid) = (1..=device.phys_ports())
            .find_map(|port| device.find_port(device.netdev(port)?.ifindex, &want))
            .ok_or(ENODEV)?;
        let device = device.clone();
        Arc::pin_init(
            pin_init!(Self {
                device,
                port,
                gid,
                channel <- kernel::new_mutex!(None, "rdma_sock_test_bench"),
            }),
            GFP_KERNEL,
        )
    }

    /// Parameters of the channels.
    fn config(&self) -> ChannelConfig {
        ChannelConfig {
            port: self.port,
            gid_index: self.gid.index,
            send_slots: SLOTS,
            recv_slots: 3 * SLOTS,
            recv_posting: RecvPosting::Batch(6),
            send_bytes: 44,
            recv_bytes: 64,
            long_bytes: LONG,
            recv_halves: false,
            max_writes: 3,
            max_pieces: 0,
            max_unsignalled: 16,
            may_invalidate: false,
            peer_reads: false,
            connection: ConnectionConfig {
                ack_timeout: 16,
                retries: 7,
                rnr_retries: 7,
                min_rnr_timer: 1,
                max_rd_atomic: 1,
                max_dest_rd_atomic: 1,
                hop_limit: 64,
            },
        }
    }

    /// A channel that is not connected.
    fn open(&self, pd: &Arc<Pd>, probe: &Arc<Probe>) -> Result<Arc<Channel<Probe>>> {
        Channel::new(pd, &self.config(), probe.clone())
    }

    /// Connects a channel to the queue pair `qpn` of the same port.
    fn connect(&self, channel: &Channel<Probe>, qpn: u32) -> Result {
        channel.to_rtr(&Peer {
            qpn,
            rq_psn: PSN,
            mtu_code: self.gid.mtu_code,
            gid: self.gid.gid,
            mac: self.gid.mac,
        })?;
        channel.to_rts(PSN)
    }

    /// Whether a test may remove the device.
    fn is_doomed(&self) -> bool {
        self.device.name().as_str() == DOOMED
    }

    fn close(&self) {
        let channel = self.channel.lock().take();
        if let Some(channel) = channel {
            channel.shutdown();
        }
    }
}

kernel::sync::global_lock! {
    // SAFETY: Initialised by `with_bench` before its first use.
    unsafe(uninit) static BENCHES: Mutex<Option<KVec<Arc<Bench>>>> = None;
}

static BENCHES_READY: SetOnce<()> = SetOnce::new();

/// The client of the tests.
struct TestClient;

impl ClientOps for TestClient {
    type Data = Bench;

    fn slot() -> &'static ClientSlot {
        static SLOT: ClientSlot = ClientSlot::new();
        &SLOT
    }

    fn add(device: &Arc<Device>) -> Result<Arc<Bench>> {
        let bench = Bench::new(device)?;
        if let Some(benches) = &mut *BENCHES.lock() {
            benches.push(bench.clone(), GFP_KERNEL)?;
        }
        Ok(bench)
    }

    fn remove(bench: Arc<Bench>) {
        if let Some(benches) = &mut *BENCHES.lock() {
            benches.retain(|other| !Arc::ptr_eq(other, &bench));
        }
        bench.close();
    }

    fn event(_bench: &Arc<Bench>, _event: PortEvent) {}
}

/// Runs `f` on the first device that is called [`DOOMED`], or not. Skips the test if there is none.
fn with_bench<R>(doomed: bool, f: impl FnOnce(&Bench) -> Result<R>) -> Option<Result<R>> {
    with_bench_that(|bench| bench.is_doomed() == doomed, f)
}

/// Runs `f` on the first device that `fits`. Skips the test if there is none.
fn with_bench_that<R>(
    fits: impl Fn(&Bench) -> bool,
    f: impl FnOnce(&Bench) -> Result<R>,
) -> Option<Result<R>> {
    if BENCHES_READY.populate(()) {
        // SAFETY: Called exactly once, before the lock is used.
        unsafe { BENCHES.init() };
    }
    *BENCHES.lock() = Some(KVec::new());
    let registration = match ClientRegistration::<TestClient>::new(c"rdma_sock_test") {
        Ok(registration) => registration,
        Err(err) => return Some(Err(err)),
    };
    let bench = BENCHES
        .lock()
        .as_ref()
        .and_then(|benches| benches.iter().find(|bench| fits(bench)).cloned());
    let result = bench.map(|bench| {
        let result = f(&bench);
        bench.close();
        result
    });
    drop(registration);
    *BENCHES.lock() = None;
    if result.is_none() {
        // SAFETY: We are in a test, so there is a current one, and only its own thread sets this.
        unsafe {
            (*bindings::kunit_get_current_test()).status = bindings::kunit_status_KUNIT_SKIPPED;
        }
    }
    result
}

/// Runs `f` with a channel that is connected to itself, and shuts it down.
fn with_loop<R>(
    f: impl FnOnce(&Bench, &Arc<Pd>, &Arc<Channel<Probe>>, &Arc<Probe>) -> Result<R>,
) -> Option<Result<R>> {
    with_loop_of(|_| {}, f)
}

/// As [`with_loop`], with parameters that `change` has changed.
fn with_loop_of<R>(
    change: impl FnOnce(&mut ChannelConfig),
    f: impl FnOnce(&Bench, &Arc<Pd>, &Arc<Channel<Probe>>, &Arc<Probe>) -> Result<R>,
) -> Option<Result<R>> {
    with_bench(false, |bench| {
        let pd = Pd::new(&bench.device)?;
        let probe = Probe::new()?;
        let mut config = bench.config();
        change(&mut config);
        let channel = Channel::new(&pd, &config, probe.clone())?;
        let result = bench
            .connect(&channel, channel.qpn())
            .and_then(|()| f(bench, &pd, &channel, &probe));
        channel.shutdown();
        result
    })
}

/// Takes the value out of a test's result, or ends the test that was skipped.
macro_rules! unless_skipped {
    ($result:expr) => {
        match $result {
            Some(result) => result?,
            None => return Ok(()),
        }
    };
}
use unless_skipped;

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_loopback)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_go_one_by_one() -> Result {
        let result = with_loop(|_, _, channel, probe| {
            let long = KVec::from_elem(7, usize::from(LONG), GFP_KERNEL)?;
            for round in 1..=3 {
                let slot = channel.try_reserve(0).ok_or(EBUSY)?;
                slot.post_long(1, &long).map_err(|(error, _)| error)?;
                // The first may be over already.
                if let Some(slot) = channel.try_reserve(0) {
                    if let Err((error, tag)) = slot.post_long(2, &long) {
                        assert_eq!((error, tag), (EBUSY, 2));
                    }
                }
                let slot = channel.try_reserve(0).ok_or(EBUSY)?;
                slot.post(3, None, &[], &[9; 44], true)
                    .map_err(|(error, _)| error)?;
                // The short one comes last, and with its own octets.
                probe.wait(|seen| {
                    let shorts = seen.sent.iter().filter(|(tag, _)| *tag == 3).count();
                    shorts == round && seen.octets == 44 && seen.received >= 2 * round
                })?;
                let seen = probe.seen.lock();
                assert_eq!(seen.last, [9; 44]);
                assert!(seen.sent.iter().all(|(_, result)| result.is_ok()));
            }
            let slot = channel.try_reserve(0).ok_or(EBUSY)?;
            slot.post_long(1, &long).map_err(|(error, _)| error)?;
            probe.wait(|seen| seen.octets == usize::from(LONG) && seen.last == [7; 44])?;
            // Beyond what the channel was made for.
            let slot = channel.try_reserve(0).ok_or(EBUSY)?;
            let longer = KVec::from_elem(7, usize::from(u16::MAX), GFP_KERNEL)?;
            let posted = slot.post_long(4, &longer);
            assert!(matches!(posted, Err((EBUSY | EMSGSIZE, 4))));
            Ok(())
        });
        unless_skipped!(result);
        Ok(())
    }

    /// RNIC-RSP-08.
    #[test]
    fn writes_land_before_their_message() -> Result {
        let (seen, counters, landed) = unless_skipped!(with_loop(|bench, pd, channel, probe| {
            let memory = PeerMemory::new(2, 4 * PAGE_SIZE)?;
            let mr = Mr::new(pd, memory.clone())?;
            channel.activate(&mr)?;
            let buffer = SendBuffer::new(2 * PAGE_SIZE)?;
            let source = buffer.map(&bench.device)?;
            let mut pattern = KVec::from_elem(0u8, 2 * PAGE_SIZE, GFP_KERNEL)?;
            for (i, byte) in pattern.iter_mut().enumerate() {
                *byte = u8::try_from(i % 251).unwrap_or(0);
            }
            buffer.write(0, &pattern)?;

            let write = |offset, len, element, at: u64| -> Result<RdmaWrite> {
                Ok(RdmaWrite {
                    offset,
                    len,
                    rkey: mr.rkey(),
                    raddr: mr.iova(element)? + at,
                })
            };
            let writes = [
                write(0, 5000, 0, 7)?,
                write(5000, 3, 1, 16381)?,
                write(5003, 3000, 1, 0)?,
            ];
            let slot = channel.try_reserve(0).ok_or(EBUSY)?;
            slot.post(
                77,
                Some(WriteSource::Buffer(source.clone())),
                &writes,
                &[0x5a; 44],
                true,
            )
            .map_err(|(err, _)| err)?;
            probe.wait(|seen| seen.received == 1 && seen.sent.len() == 1)?;

            let mut landed = true;
            for (write, (element, at)) in writes.iter().zip([(0, 7), (1, 16381), (1, 0)]) {
                let len = usize::try_from(write.len).map_err(|_| EINVAL)?;
                let off = usize::try_from(write.offset).map_err(|_| EINVAL)?;
                let mut there = KVec::from_elem(0u8, len, GFP_KERNEL)?;
                mr.sync_for_cpu(element, at, len)?;
                memory.read(element, at, &mut there)?;
                landed &= pattern.get(off..off + len) == Some(&there[..]);
            }
            let seen = probe.seen.lock();
            let seen = (seen.sent.first().copied(), seen.octets, seen.last);
            Ok((seen, channel.counters(), landed))
        }));
        assert!(landed);
        assert_eq!(seen.0, Some((77, Ok(()))));
        assert_eq!(seen.1, 44);
        assert_eq!(seen.2, [0x5a; 44]);
        assert_eq!(counters.posts, 1);
        assert_eq!(counters.wrs, 4);
        assert_eq!(counters.cqes, 2);
        assert_eq!(counters.recvs, 1);
        assert_eq!(counters.write_bytes, 8003);
        Ok(())
    }

    /// RNIC-REQ-06.
    #[test]
    fn every_slot_comes_back_with_its_tag() -> Result {
        let (tags, refused, announced) = unless_skipped!(with_loop(|_, _, channel, probe| {
            let mut slots = KVec::with_capacity(SLOTS.into(), GFP_KERNEL)?;
            for _ in 0..SLOTS {
                slots.push(channel.try_reserve(0).ok_or(EBUSY)?, GFP_KERNEL)?;
            }
            let refused = channel.try_reserve(0).is_none();
            for (tag, slot) in (100u32..).zip(slots.drain_all()) {
                slot.post(tag, None, &[], &[0; 44], true)
                    .map_err(|(err, _)| err)?;
            }
            let all = usize::from(SLOTS);
            probe.wait(|seen| seen.received == all && seen.sent.len() == all)?;
            probe.wait(|seen| seen.slot_free > 0)?;
            let seen = probe.seen.lock();
            let tags = (100u32..108)
                .filter(|tag| {
                    seen.sent
                        .iter()
                        .filter(|sent| **sent == (*tag, Ok(())))
                        .count()
                        == 1
                })
                .count();
            Ok((tags, refused, seen.slot_free))
        }));
        assert_eq!(tags, usize::from(SLOTS));
        assert!(refused);
        assert_eq!(announced, 1);
        Ok(())
    }

    /// RNIC-REQ-06.
    #[test]
    fn one_completion_gives_back_all_slots_before() -> Result {
        let (quiet, tags, cqes) = unless_skipped!(with_loop(|_, _, channel, probe| {
            // Half of the slots need not tell.
            for tag in 0..u32::from(SLOTS) / 2 {
                let slot = channel.try_reserve(0).ok_or(EBUSY)?;
                slot.post(tag, None, &[], &[0; 44], false)
                    .map_err(|(err, _)| err)?;
            }
            let half = usize::from(SLOTS) / 2;
            probe.wait(|seen| seen.received == half)?;
            let quiet = probe.seen.lock().sent.is_empty();
            // The next does, though it is not asked to.
            let slot = channel.try_reserve(0).ok_or(EBUSY)?;
            slot.post(u32::from(SLOTS) / 2, None, &[], &[0; 44], false)
                .map_err(|(err, _)| err)?;
            probe.wait(|seen| seen.sent.len() == half + 1)?;
            let seen = probe.seen.lock();
            let tags = (0..)
                .zip(&seen.sent)
                .filter(|(n, sent)| **sent == (*n, Ok(())))
                .count();
            drop(seen);
            let counters = channel.counters();
            Ok((quiet, tags, counters.cqes - counters.recvs))
        }));
        assert!(quiet);
        assert_eq!(tags, usize::from(SLOTS) / 2 + 1);
        assert_eq!(cqes, 1);
        Ok(())
    }

    #[test]
    fn last_slot_that_is_not_kept_for_others_tells() -> Result {
        const KEPT: usize = SLOTS as usize / 2;
        let (quiet, announced) = unless_skipped!(with_loop(|_, _, channel, probe| {
            for tag in 0..u32::from(SLOTS) - u32::from(SLOTS) / 2 {
                let quiet = probe.seen.lock().sent.is_empty();
                let slot = channel.try_reserve(KEPT).ok_or(EBUSY)?;
                slot.post(tag, None, &[], &[0; 44], false)
                    .map_err(|(err, _)| err)?;
                if !quiet {
                    return Ok((false, 0));
                }
            }
            probe.wait(|seen| seen.sent.len() == usize::from(SLOTS) - KEPT)?;
            let announced = probe.seen.lock().slot_free;
            Ok((true, announced))
        }));
        assert!(quiet);
        assert_eq!(announced, 0);
        Ok(())
    }

    #[test]
    fn a_slot_that_is_dropped_can_be_reserved_again() -> Result {
        let (again, announced) = unless_skipped!(with_loop(|_, _, channel, probe| {
            let mut slots = KVec::with_capacity(SLOTS.into(), GFP_KERNEL)?;
            for _ in 0..SLOTS {
                slots.push(channel.try_reserve(0).ok_or(EBUSY)?, GFP_KERNEL)?;
            }
            if channel.try_reserve(0).is_some() {
                return Err(EINVAL);
            }
            drop(slots.pop());
            let announced = probe.seen.lock().slot_free;
            Ok((channel.try_reserve(0).is_some(), announced))
        }));
        assert!(again);
        assert_eq!(announced, 1);
        Ok(())
    }

    #[test]
    fn writes_outside_of_their_source_are_refused() -> Result {
        let refused = unless_skipped!(with_loop(|bench, _, channel, _| {
            let source = SendBuffer::new(PAGE_SIZE)?.map(&bench.device)?;
            let write = |offset, len| RdmaWrite {
                offset,
                len,
                rkey: 0,
                raddr: 0,
            };
            let bad: [&[RdmaWrite]; 4] = [
                &[write(1, 4096)],
                &[write(u32::MAX, 1)],
                &[write(0, 1), write(0, 1), write(0, 1), write(0, 1)],
                &[write(4097, 0)],
            ];
            let mut refused = 0;
            for writes in bad {
                let slot = channel.try_reserve(0).ok_or(EBUSY)?;
                let result = slot.post(
                    5,
                    Some(WriteSource::Buffer(source.clone())),
                    writes,
                    &[0; 44],
                    true,
                );
                refused += usize::from(matches!(result, Err((EINVAL, 5))));
            }
            let slot = channel.try_reserve(0).ok_or(EBUSY)?;
            let result = slot.post(5, None, &[write(0, 1)], &[0; 44], true);
            refused += usize::from(matches!(result, Err((EINVAL, 5))));
            Ok(refused)
        }));
        assert_eq!(refused, 5);
        Ok(())
    }

    #[test]
    fn a_wrong_key_breaks_the_channel_once() -> Result {
        let (tag, broken) = unless_skipped!(with_loop(|bench, pd, channel, probe| {
            let mr = Mr::new(pd, PeerMemory::new(1, 4 * PAGE_SIZE)?)?;
            let source = SendBuffer::new(PAGE_SIZE)?.map(&bench.device)?;
            let write = RdmaWrite {
                offset: 0,
                len: 64,
                // Allocated, but not active.
                rkey: mr.rkey(),
                raddr: mr.iova(0)?,
            };
            let slot = channel.try_reserve(0).ok_or(EBUSY)?;
            slot.post(
                9,
                Some(WriteSource::Buffer(source.clone())),
                &[write],
                &[0; 44],
                true,
            )
            .map_err(|(err, _)| err)?;
            probe.wait(|seen| !seen.broken.is_empty() && seen.sent.len() == 1)?;
            channel.shutdown();
            let seen = probe.seen.lock();
            Ok((seen.sent.first().copied(), seen.broken.len()))
        }));
        assert!(matches!(tag, Some((9, Err(_)))));
        assert_eq!(broken, 1);
        Ok(())
    }

    #[test]
    fn shutdown_returns_what_is_on_its_way() -> Result {
        let outcome = unless_skipped!(with_bench(false, |bench| {
            let pd = Pd::new(&bench.device)?;
            let probe = Probe::new()?;
            let channel = bench.open(&pd, &probe)?;
            // Nobody has that number, so nothing is acknowledged.
            bench.connect(&channel, 0x00ff_fffe)?;
            let kept = channel.try_reserve(0).ok_or(EBUSY)?;
            for tag in 1..u32::from(SLOTS) {
                let slot = channel.try_reserve(0).ok_or(EBUSY)?;
                slot.post(tag, None, &[], &[0; 44], true)
                    .map_err(|(err, _)| err)?;
            }
            let before = probe.seen.lock().sent.len();
            channel.shutdown();
            channel.shutdown();
            let seen = probe.seen.lock();
            let flushed = seen
                .sent
                .iter()
                .filter(|(_, result)| result.is_err())
                .count();
            let broken = seen.broken.len();
            drop(seen);
            let late = kept.post(50, None, &[], &[0; 44], true);
            let late = matches!(late, Err((ESHUTDOWN, 50)));
            Ok((
                before,
                flushed,
                broken,
                late,
                channel.try_reserve(0).is_none(),
            ))
        }));
        assert_eq!(outcome, (0, usize::from(SLOTS) - 1, 0, true, true));
        Ok(())
    }

    #[test]
    fn a_channel_that_was_never_connected_can_be_shut_down() -> Result {
        let open = unless_skipped!(with_bench(false, |bench| {
            let pd = Pd::new(&bench.device)?;
            let channel = bench.open(&pd, &Probe::new()?)?;
            let before = channel.is_open();
            channel.shutdown();
            Ok((before, channel.is_open()))
        }));
        assert_eq!(open, (true, false));
        Ok(())
    }

    #[test]
    fn a_region_serves_all_channels_of_its_domain() -> Result {
        let active = unless_skipped!(with_loop(|bench, pd, channel, _| {
            let mr = Mr::new(pd, PeerMemory::new(4, 4 * PAGE_SIZE)?)?;
            let second = bench.open(pd, &Probe::new()?)?;
            let result = bench
                .connect(&second, second.qpn())
                .and_then(|()| second.activate(&mr));
            second.shutdown();
            result?;
            // Does nothing.
            channel.activate(&mr)?;
            Ok(mr.is_active() && mr.iova(3)? - mr.iova(0)? == 12 * 4096)
        }));
        assert!(active);
        Ok(())
    }

    #[test]
    fn queues_that_the_device_cannot_hold_are_refused() -> Result {
        let refused = unless_skipped!(with_bench(false, |bench| {
            let pd = Pd::new(&bench.device)?;
            let probe = Probe::new()?;
            let mut refused = 0;
            for (send_slots, recv_slots) in [(0, 8), (8, 0), (u16::MAX, 8), (8, u16::MAX)] {
                let config = ChannelConfig {
                    send_slots,
                    recv_slots,
                    long_bytes: 0,
                    recv_halves: false,
                    ..bench.config()
                };
                let channel = Channel::new(&pd, &config, probe.clone());
                match channel {
                    Ok(channel) => channel.shutdown(),
                    Err(EINVAL) => refused += 1,
                    Err(_) => (),
                }
            }
            let most = bench.device.max_qp_wr().min(bench.device.max_cqe());
            Ok((refused, u32::from(u16::MAX) * 4 > most))
        }));
        // Whether the send queue is too long depends on the device.
        assert_eq!(refused.0, 3 + usize::from(refused.1));
        Ok(())
    }

    #[test]
    fn too_much_for_a_region_is_refused() -> Result {
        let refused = unless_skipped!(with_loop(|bench, pd, _, _| {
            let most = bench.device.max_region_bytes() / (64 * 1024);
            let memory = PeerMemory::new(most + 1, 64 * 1024);
            Ok(matches!(
                memory.and_then(|memory| Mr::new(pd, memory)),
                Err(EMSGSIZE)
            ))
        }));
        assert!(refused);
        Ok(())
    }

    #[test]
    fn a_busy_device_can_be_removed() -> Result {
        let outcome = unless_skipped!(with_bench(true, |bench| {
            let pd = Pd::new(&bench.device)?;
            let probe = Probe::new()?;
            let channel = bench.open(&pd, &probe)?;
            *bench.channel.lock() = Some(channel.clone());
            bench.connect(&channel, channel.qpn())?;
            let mr = Mr::new(&pd, PeerMemory::new(1, 4 * PAGE_SIZE)?)?;
            channel.activate(&mr)?;
            let source = SendBuffer::new(4 * PAGE_SIZE)?.map(&bench.device)?;
            let write = RdmaWrite {
                offset: 0,
                len: 4 * 4096,
                rkey: mr.rkey(),
                raddr: mr.iova(0)?,
            };
            probe
                .endless
                .populate((channel.clone(), source.clone(), write));
            for tag in 0..u32::from(SLOTS) {
                let slot = channel.try_reserve(0).ok_or(EBUSY)?;
                slot.post(
                    tag,
                    Some(WriteSource::Buffer(source.clone())),
                    &[write],
                    &[0; 44],
                    true,
                )
                .map_err(|(err, _)| err)?;
            }
            probe.wait(|seen| seen.received > 100)?;

            let lease = bench.device.lease()?;
            // SAFETY: The device is registered: `remove` waits for the lease.
            unsafe { bindings::ib_unregister_device_queued(lease.as_raw()) };
            // Removal begins with us shutting the channel down, and then waits for the rest.
            probe.wait(|_| !channel.is_open())?;
            let counters = channel.counters();
            let used = counters.posts > 100 && counters.write_bytes > 100 * 4096;
            let refused = matches!(bench.device.lease(), Err(ENODEV));
            drop((lease, mr, source, pd));
            Ok((used, refused))
        }));
        assert_eq!(outcome, (true, true));
        Ok(())
    }
}
