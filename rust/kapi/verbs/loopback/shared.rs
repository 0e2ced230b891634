// SPDX-License-Identifier: GPL-2.0

//! Tests of shared receive queues, and of what only a queue pair without a channel shows.

mod handles;

use super::{
    unless_skipped,
    with_bench_that,
    Bench,
    PATIENCE_MS,
    PSN, //
};
use crate::{
    bindings,
    kapi::{
        compat::errno::EOPNOTSUPP,
        verbs::{
            config::ConnectionConfig,
            cq::Cq,
            dma::Mapping,
            pd::Pd,
            qp::{
                Peer,
                Qp, //
            }, //
        },
    },
};
use core::{
    mem::ManuallyDrop,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::c_void,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// Octets of a receive buffer.
const ROOM: usize = 128;
/// Octets in front of a datagram.
const GRH: usize = 40;
/// Receive buffers of a test.
const BUFFERS: usize = 16;
/// The key of queue pairs for datagrams.
const QKEY: u32 = 0x1122_3344;

/// Events that arrived.
struct Events {
    limit: Atomic<u32>,
    last: Atomic<u32>,
    all: Atomic<u32>,
    /// Whether the handler of an event uses the verbs of its object, and how often it did.
    uses: Atomic<bool>,
    used: Atomic<u32>,
}

/// Uses the verbs of an object in the handler of its event, as programs may.
///
/// # Safety
///
/// The event is one of a queue pair, or of a shared queue.
unsafe fn use_verbs(event: &bindings::ib_event) -> bool {
    if event.event == bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED {
        let (mut places, mut limit) = (0, 0);
        // SAFETY: By this function's contract, and the results are valid.
        let result = unsafe {
            let srq = *event.element.srq;
            bindings::rdma_sock_helper_test_query_srq(srq, &mut places, &mut limit)
        };
        return result == 0;
    }
    // SAFETY: By this function's contract.
    unsafe { bindings::rdma_sock_helper_test_query_qp(*event.element.qp) == 0 }
}

/// Counts an event.
///
/// # Safety
///
/// `context` is an [`Events`].
unsafe extern "C" fn on_event(event: *mut bindings::ib_event, context: *mut c_void) {
    // SAFETY: By this function's contract; the core passes an event.
    let (raw, events) = unsafe { (&*event, &*context.cast::<Events>()) };
    let event = raw.event;
    // SAFETY: The event is one of an object.
    if events.uses.load(Relaxed) && unsafe { use_verbs(raw) } {
        events.used.fetch_add(1, Relaxed);
    }
    events.all.fetch_add(1, Relaxed);
    if event == bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED {
        events.limit.fetch_add(1, Relaxed);
    }
    if event == bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED {
        events.last.fetch_add(1, Relaxed);
    }
}

/// A completion, as far as the tests look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    id: u64,
    status: bindings::ib_wc_status,
    reason: u32,
    opcode: bindings::ib_wc_opcode,
    len: u32,
    qp: *mut bindings::ib_qp,
}

/// A shared receive queue with queue pairs, and the memory of their requests. The first half of the
/// memory is received into, the other one is sent from. The fields are dropped in their order.
struct Shared<'a> {
    bench: &'a Bench,
    pairs: KVec<Qp>,
    srq: NonNull<bindings::ib_srq>,
    cq: Arc<Cq>,
    pd: Arc<Pd>,
    dma: Mapping,
    memory: NonNull<u8>,
    events: Pin<KBox<Events>>,
    _octets: KVec<u8>,
}

impl<'a> Shared<'a> {
    fn new(bench: &'a Bench, max_wr: u32) -> Result<Self> {
        let pd = Pd::new(&bench.device)?;
        let cq = Cq::polled(&pd, 64)?;
        let events = KBox::pin(
            Events {
                limit: Atomic::new(0),
                last: Atomic::new(0),
                all: Atomic::new(0),
                uses: Atomic::new(false),
                used: Atomic::new(0),
            },
            GFP_KERNEL,
        )?;
        let mut octets = KVec::from_elem(0u8, 2 * BUFFERS * ROOM, GFP_KERNEL)?;
        let memory = NonNull::new(octets.as_mut_ptr()).ok_or(ENOMEM)?;
        // SAFETY: The memory stays as long as the mapping, and the tests access it by pointer only.
        let dma = unsafe { Mapping::both_ways(&bench.device, memory.as_ptr(), octets.len())? };
        let context = (&raw const *events).cast_mut().cast();
        // SAFETY: The domain is valid; the events outlive the queue.
        let srq = from_err_ptr(unsafe {
            bindings::rdma_sock_helper_test_create_srq(
                pd.as_raw(),
                max_wr,
                1,
                Some(on_event),
                context,
            )
        })?;
        Ok(Self {
            bench,
            pairs: KVec::new(),
            srq: NonNull::new(srq).ok_or(ENOMEM)?,
            cq,
            pd,
            dma,
            memory,
            events,
            _octets: octets,
        })
    }

    /// Adds a queue pair that takes from the shared queue. Returns its sizes for receive requests.
    fn add(&mut self, kind: bindings::ib_qp_type) -> Result<(u32, u32)> {
        self.add_with(kind, self.srq.as_ptr(), 0)
    }

    /// Adds a queue pair with flags, and with a receive queue of its own if `srq` is null.
    fn add_with(
        &mut self,
        kind: bindings::ib_qp_type,
        srq: *mut bindings::ib_srq,
        create_flags: u32,
    ) -> Result<(u32, u32)> {
        let mut attr = bindings::ib_qp_init_attr {
            event_handler: Some(on_event),
            qp_context: (&raw const *self.events).cast_mut().cast(),
            send_cq: self.cq.as_raw(),
            recv_cq: self.cq.as_raw(),
            srq,
            create_flags,
            sq_sig_type: bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
            qp_type: kind,
            cap: bindings::ib_qp_cap {
                max_send_wr: 16,
                max_recv_wr: 4,
                max_send_sge: 2,
                max_recv_sge: 1,
                max_inline_data: 64,
                ..Default::default()
            },
            ..Default::default()
        };
        // SAFETY: All objects are valid and outlive the queue pair, as the order of the fields says.
        let raw = from_err_ptr(unsafe {
            bindings::rdma_sock_helper_ib_create_qp(self.pd.as_raw(), &mut attr)
        })?;
        // SAFETY: Just made.
        let pair = unsafe { Qp::from_raw(NonNull::new(raw).ok_or(ENOMEM)?, &self.pd, &self.cq) };
        self.pairs.push(pair, GFP_KERNEL)?;
        Ok((attr.cap.max_recv_wr, attr.cap.max_recv_sge))
    }

    /// Adds a reliable queue pair that is connected to itself.
    fn add_connected(&mut self) -> Result {
        self.add(bindings::ib_qp_type_IB_QPT_RC)?;
        let pair = self.pairs.last().ok_or(EINVAL)?;
        self.connect(pair, pair.number())
    }

    /// Adds two reliable queue pairs with receive queues of their own, connected to each other.
    fn add_two(&mut self) -> Result {
        for _ in 0..2 {
            self.add_with(bindings::ib_qp_type_IB_QPT_RC, null_mut(), 0)?;
        }
        let (left, right) = (self.pair(0)?, self.pair(1)?);
        self.connect(left, right.number())?;
        self.connect(right, left.number())
    }

    /// Connects a queue pair to one of the same port.
    fn connect(&self, pair: &Qp, qpn: u32) -> Result {
        let (gid, connection) = (&self.bench.gid, self.bench.config().connection);
        pair.to_init(self.bench.port, false)?;
        let peer = Peer {
            qpn,
            rq_psn: PSN,
            mtu_code: gid.mtu_code,
            gid: gid.gid,
            mac: gid.mac,
        };
        pair.to_rtr(self.bench.port, gid.index, &peer, &connection)?;
        pair.to_rts(PSN, &connection)
    }

    /// Adds a queue pair for datagrams.
    fn add_datagrams(&mut self) -> Result {
        use bindings::{
            ib_qp_attr_mask_IB_QP_PKEY_INDEX as PKEY_INDEX,
            ib_qp_attr_mask_IB_QP_PORT as PORT,
            ib_qp_attr_mask_IB_QP_QKEY as QKEY_MASK,
            ib_qp_attr_mask_IB_QP_SQ_PSN as SQ_PSN,
            ib_qp_attr_mask_IB_QP_STATE as STATE, //
        };
        self.add(bindings::ib_qp_type_IB_QPT_UD)?;
        let pair = self.pairs.last().ok_or(EINVAL)?;
        let states = [
            (
                bindings::ib_qp_state_IB_QPS_INIT,
                STATE | PKEY_INDEX | PORT | QKEY_MASK,
            ),
            (bindings::ib_qp_state_IB_QPS_RTR, STATE),
            (bindings::ib_qp_state_IB_QPS_RTS, STATE | SQ_PSN),
        ];
        for (qp_state, mask) in states {
            let mut attr = bindings::ib_qp_attr {
                qp_state,
                qkey: QKEY,
                port_num: self.bench.port,
                ..Default::default()
            };
            pair.modify(&mut attr, mask)?;
        }
        Ok(())
    }

    fn pair(&self, index: usize) -> Result<&Qp> {
        self.pairs.get(index).ok_or(EINVAL)
    }

    /// The element of a range of the memory.
    fn element(&self, offset: usize, len: usize) -> Result<bindings::ib_sge> {
        Ok(bindings::ib_sge {
            addr: self.dma.addr(offset)?,
            length: u32::try_from(len)?,
            lkey: self.pd.lkey(),
        })
    }

    /// Posts receive buffer `index` to the shared queue, or to a queue pair.
    fn receive(&self, index: usize, pair: Option<&Qp>) -> Result {
        let mut element = self.element(index * ROOM, ROOM)?;
        let mut wr = bindings::ib_recv_wr {
            sg_list: &mut element,
            num_sge: 1,
            ..Default::default()
        };
        wr.__bindgen_anon_1.wr_id = ManuallyDrop::new(u64::try_from(index)?);
        match pair {
            // SAFETY: The request is valid, and its memory stays.
            Some(pair) => unsafe { pair.post_recv(&wr) }.map_err(|(error, _)| error),
            // SAFETY: As above.
            None => to_result(unsafe {
                bindings::rdma_sock_helper_test_post_srq(self.srq.as_ptr(), &wr)
            }),
        }
    }

    /// Sends as many octets of that value, to where an address handle leads if there is one. Numbers of
    /// sends begin with 1000.
    fn send(
        &self,
        pair: &Qp,
        octet: u8,
        len: usize,
        to: Option<NonNull<bindings::ib_ah>>,
    ) -> Result {
        let offset = (BUFFERS + usize::from(octet) % BUFFERS) * ROOM;
        // SAFETY: In the memory, a part that no request in flight uses.
        unsafe { self.memory.add(offset).write_bytes(octet, len) };
        let mut element = self.element(offset, len)?;
        let mut wr = bindings::ib_send_wr {
            sg_list: &mut element,
            num_sge: 1,
            opcode: bindings::ib_wr_opcode_IB_WR_SEND,
            ..Default::default()
        };
        wr.__bindgen_anon_1.wr_id = ManuallyDrop::new(1000 + u64::from(octet));
        match to {
            // SAFETY: The request is valid, and its memory stays.
            None => unsafe { pair.post_send(&wr) }.map_err(|(error, _)| error),
            // SAFETY: As above, with a handle of the same device.
            Some(to) => to_result(unsafe {
                bindings::rdma_sock_helper_test_send_ud(
                    pair.as_raw(),
                    to.as_ptr(),
                    pair.number(),
                    QKEY,
                    &wr,
                )
            }),
        }
    }

    /// Sends elements as they are.
    fn send_elements(&self, pair: &Qp, elements: &mut [bindings::ib_sge], flags: i32) -> Result {
        let mut wr = bindings::ib_send_wr {
            sg_list: elements.as_mut_ptr(),
            num_sge: i32::try_from(elements.len())?,
            opcode: bindings::ib_wr_opcode_IB_WR_SEND,
            send_flags: flags,
            ..Default::default()
        };
        wr.__bindgen_anon_1.wr_id = ManuallyDrop::new(1000);
        // SAFETY: The request is valid, and its memory stays.
        unsafe { pair.post_send(&wr) }.map_err(|(error, _)| error)
    }

    /// Waits for as many completions; number and status of each, in the order of the numbers.
    fn results(&self, count: usize) -> Result<KVec<(u64, bindings::ib_wc_status)>> {
        let mut results = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let done = self.wait(|| self.poll())?;
            results.push((done.id, done.status), GFP_KERNEL)?;
        }
        results.sort_unstable();
        Ok(results)
    }

    /// Waits for as many completions; number and reason of each, in the order of the numbers.
    fn reasons(&self, count: usize) -> Result<KVec<(u64, u32)>> {
        let mut reasons = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let done = self.wait(|| self.poll())?;
            reasons.push((done.id, done.reason), GFP_KERNEL)?;
        }
        reasons.sort_unstable();
        Ok(reasons)
    }

    /// The next completion, if there is one.
    fn poll(&self) -> Option<Done> {
        let mut wc = bindings::ib_wc::default();
        // SAFETY: The queue is polled by this thread only, and there is room for one completion.
        let count = unsafe { bindings::rdma_sock_helper_test_poll_cq(self.cq.as_raw(), &mut wc) };
        (count == 1).then(|| Done {
            // SAFETY: The requests have a number.
            id: unsafe { *wc.__bindgen_anon_1.wr_id },
            status: wc.status,
            reason: wc.vendor_err,
            opcode: wc.opcode,
            len: wc.byte_len,
            qp: wc.qp,
        })
    }

    /// Waits for the next completion of a receive request.
    fn received(&self) -> Result<Done> {
        self.wait(|| self.poll().filter(|done| done.id < 1000))
    }

    /// Waits until there is a result.
    fn wait<T>(&self, mut poll: impl FnMut() -> Option<T>) -> Result<T> {
        for _ in 0..PATIENCE_MS {
            if let Some(found) = poll() {
                return Ok(found);
            }
            fsleep(Delta::from_millis(1));
        }
        Err(ETIMEDOUT)
    }

    /// Whether a receive buffer has as many octets of that value, from `offset` on.
    fn has(&self, index: u64, offset: usize, octet: u8, len: usize) -> bool {
        let Ok(index) = usize::try_from(index) else {
            return false;
        };
        (offset..offset + len).all(|at| {
            // SAFETY: In the memory; the request that wrote it is complete.
            at < ROOM && unsafe { self.memory.add(index * ROOM + at).read() } == octet
        })
    }

    /// Places of the shared queue, and its limit.
    fn query(&self) -> Result<(u32, u32)> {
        let (mut places, mut limit) = (0, 0);
        // SAFETY: The queue and both results are valid.
        to_result(unsafe {
            bindings::rdma_sock_helper_test_query_srq(self.srq.as_ptr(), &mut places, &mut limit)
        })?;
        Ok((places, limit))
    }

    fn resize(&self, places: u32) -> Result {
        // SAFETY: The queue is valid.
        to_result(unsafe { bindings::rdma_sock_helper_test_resize_srq(self.srq.as_ptr(), places) })
    }

    fn arm(&self, limit: u32) -> Result {
        // SAFETY: The queue is valid.
        to_result(unsafe { bindings::rdma_sock_helper_test_arm_srq(self.srq.as_ptr(), limit) })
    }

    /// Tries to destroy the shared queue while queue pairs use it.
    fn destroy_early(&self) -> Result {
        // SAFETY: The core refuses as long as there are queue pairs.
        to_result(unsafe { bindings::rdma_sock_helper_test_destroy_srq(self.srq.as_ptr()) })
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.pairs.clear();
        // SAFETY: The queue is ours, and its queue pairs are gone.
        let result = unsafe { bindings::rdma_sock_helper_test_destroy_srq(self.srq.as_ptr()) };
        if result != 0 {
            pr_err!("shared receive queue could not be destroyed\n");
        }
    }
}

/// Runs `f` with a shared queue on the first device that is not doomed.
fn with_shared<R>(max_wr: u32, f: impl FnOnce(&mut Shared<'_>) -> Result<R>) -> Option<Result<R>> {
    with_bench_that(
        |bench| !bench.is_doomed(),
        |bench| f(&mut Shared::new(bench, max_wr)?),
    )
}

/// As [`with_shared`], on a device of `rdma_soft` only.
fn with_soft<R>(max_wr: u32, f: impl FnOnce(&mut Shared<'_>) -> Result<R>) -> Option<Result<R>> {
    with_bench_that(
        |bench| !bench.is_doomed() && bench.device.name().as_str().starts_with("soft"),
        |bench| f(&mut Shared::new(bench, max_wr)?),
    )
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_shared)]
mod tests {
    use super::*;

    const SUCCESS: bindings::ib_wc_status = bindings::ib_wc_status_IB_WC_SUCCESS;

    /// RNIC-SRQ-01, RNIC-SRQ-02, RNIC-SRQ-04: each request serves one message, of any of both.
    #[test]
    fn queue_pairs_take_the_oldest_request_of_a_shared_queue() -> Result {
        let result = with_shared(8, |shared| {
            shared.add_connected()?;
            shared.add_connected()?;
            for index in 0..8 {
                shared.receive(index, None)?;
            }
            for number in 0..8u8 {
                let pair = shared.pair(usize::from(number % 2))?;
                shared.send(pair, 1 + number, 20 + usize::from(number), None)?;
                let done = shared.received()?;
                let right = shared.has(done.id, 0, 1 + number, 20 + usize::from(number));
                let wanted = Done {
                    id: number.into(),
                    status: SUCCESS,
                    reason: 0,
                    opcode: bindings::ib_wc_opcode_IB_WC_RECV,
                    len: 20 + u32::from(number),
                    qp: pair.as_raw(),
                };
                if (done, right) != (wanted, true) {
                    return Err(EIO);
                }
            }
            Ok(())
        });
        unless_skipped!(result);
        Ok(())
    }

    /// RNIC-SRQ-01, RNIC-QPS-08: a queue pair of a shared queue has no receive queue of its own.
    #[test]
    fn shared_queue_replaces_that_of_its_queue_pairs() -> Result {
        let result = with_soft(4, |shared| {
            let sizes = shared.add(bindings::ib_qp_type_IB_QPT_RC)?;
            shared.pair(0)?.to_init(shared.bench.port, false)?;
            let posted = shared.receive(0, Some(shared.pair(0)?));
            Ok((sizes, posted, shared.destroy_early()))
        });
        let outcome = unless_skipped!(result);
        assert_eq!(outcome, ((0, 0), Err(EINVAL), Err(EBUSY)));
        Ok(())
    }

    /// RNIC-SRQ-03, RNIC-EVT-01: one event when the count falls below the limit.
    #[test]
    fn armed_limit_is_reported_once() -> Result {
        let result = with_shared(8, |shared| {
            shared.add_connected()?;
            for index in 0..5 {
                shared.receive(index, None)?;
            }
            shared.arm(3)?;
            let armed = shared.query()?.1;
            let mut seen = [0; 4];
            for (number, seen) in (1u8..).zip(&mut seen) {
                shared.send(shared.pair(0)?, number, 8, None)?;
                shared.received()?;
                if number == 3 {
                    // Two are left, which is less than three.
                    let limit = &shared.events.limit;
                    shared.wait(|| (limit.load(Relaxed) > 0).then_some(()))?;
                }
                fsleep(Delta::from_millis(5));
                *seen = shared.events.limit.load(Relaxed);
            }
            Ok((armed, seen, shared.query()?.1))
        });
        assert_eq!(unless_skipped!(result), (3, [0, 0, 1, 1], 0));
        Ok(())
    }

    /// RNIC-SRQ-02: without a request the sender waits; one that comes later serves it.
    #[test]
    fn message_waits_for_a_request_of_the_shared_queue() -> Result {
        let result = with_shared(4, |shared| {
            shared.add_connected()?;
            shared.send(shared.pair(0)?, 7, 32, None)?;
            fsleep(Delta::from_millis(20));
            let early = shared.poll();
            shared.receive(3, None)?;
            let done = shared.received()?;
            Ok((early, done.id, done.status, shared.has(3, 0, 7, 32)))
        });
        assert_eq!(unless_skipped!(result), (None, 3, SUCCESS, true));
        Ok(())
    }

    /// RNIC-SRQ-01: requests stay when the queue gets another size.
    #[test]
    fn shared_queue_can_be_resized() -> Result {
        let result = with_soft(4, |shared| {
            shared.add_connected()?;
            for index in 0..4 {
                shared.receive(index, None)?;
            }
            let full = shared.receive(4, None);
            let less = shared.resize(3);
            shared.resize(6)?;
            let places = shared.query()?.0;
            for index in 4..6 {
                shared.receive(index, None)?;
            }
            let mut order = true;
            for number in 0..6u8 {
                shared.send(shared.pair(0)?, 1 + number, 8, None)?;
                order &= shared.received()?.id == u64::from(number);
            }
            Ok((full, less, places, order, shared.arm(7)))
        });
        let outcome = unless_skipped!(result);
        assert_eq!(outcome, (Err(ENOMEM), Err(EINVAL), 6, true, Err(EINVAL)));
        Ok(())
    }

    /// RNIC-ERR-02, RNIC-EVT-01: requests of a shared queue are not flushed with a queue pair.
    #[test]
    fn failed_queue_pair_leaves_requests_to_others() -> Result {
        let result = with_soft(4, |shared| {
            shared.add_connected()?;
            shared.add_connected()?;
            shared.receive(0, None)?;
            shared.receive(1, None)?;
            shared.pair(0)?.to_error()?;
            let last = &shared.events.last;
            shared.wait(|| (last.load(Relaxed) > 0).then_some(()))?;
            fsleep(Delta::from_millis(5));
            let flushed = shared.poll();
            shared.send(shared.pair(1)?, 9, 16, None)?;
            let done = shared.received()?;
            let times = shared.events.last.load(Relaxed);
            Ok((
                flushed,
                times,
                done.id,
                done.status,
                shared.has(0, 0, 9, 16),
            ))
        });
        assert_eq!(unless_skipped!(result), (None, 1, 0, SUCCESS, true));
        Ok(())
    }

    /// RNIC-EVT-02, RNIC-RUN-07: handlers use the verbs, which take the locks of the device.
    #[test]
    fn handlers_of_events_use_the_verbs_of_their_object() -> Result {
        let result = with_soft(4, |shared| {
            shared.events.uses.store(true, Relaxed);
            shared.add_connected()?;
            shared.receive(0, None)?;
            shared.receive(1, None)?;
            shared.arm(2)?;
            shared.send(shared.pair(0)?, 7, 16, None)?;
            shared.received()?;
            shared.pair(0)?.to_error()?;
            let events = &shared.events;
            shared.wait(|| (events.last.load(Relaxed) > 0).then_some(()))?;
            shared.wait(|| (events.limit.load(Relaxed) > 0).then_some(()))?;
            Ok((events.all.load(Relaxed), events.used.load(Relaxed)))
        });
        let (all, used) = unless_skipped!(result);
        assert!(all >= 2);
        assert_eq!(used, all);
        Ok(())
    }

    /// RNIC-LIFE-03: the timer of a request that waits, its completion, and events.
    #[test]
    fn destroyed_queue_pair_tells_nothing() -> Result {
        let result = with_soft(4, |shared| {
            for number in 0..20u8 {
                shared.add_connected()?;
                // There is no receive request, so it is repeated.
                shared.send(shared.pair(0)?, 1 + number, 16, None)?;
                fsleep(Delta::from_micros(100 * i64::from(number)));
                drop(shared.pairs.pop());
            }
            fsleep(Delta::from_millis(50));
            Ok((shared.poll(), shared.events.all.load(Relaxed)))
        });
        assert_eq!(unless_skipped!(result), (None, 0));
        Ok(())
    }

    /// RNIC-MR-01: no regions of other types.
    #[test]
    fn regions_of_other_types_are_refused() -> Result {
        let result = with_soft(4, |shared| {
            let kinds = [
                bindings::ib_mr_type_IB_MR_TYPE_DM,
                bindings::ib_mr_type_IB_MR_TYPE_USER,
                bindings::ib_mr_type_IB_MR_TYPE_DMA,
                bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY,
            ];
            // SAFETY: The domain is valid.
            Ok(kinds.map(|kind| unsafe {
                bindings::rdma_sock_helper_test_alloc_mr(shared.pd.as_raw(), kind)
            }))
        });
        let refused = EOPNOTSUPP.to_errno();
        assert_eq!(unless_skipped!(result), [refused; 4]);
        Ok(())
    }

    /// RNIC-QPS-02, RNIC-QPS-08, RNIC-IP-12: values that the device or its port does not have.
    #[test]
    fn attributes_out_of_their_range_are_refused() -> Result {
        let result = with_soft(4, |shared| {
            let kind = bindings::ib_qp_type_IB_QPT_RC;
            let flagged = shared.add_with(kind, null_mut(), 1 << 1).err();
            shared.add_with(kind, null_mut(), 0)?;
            let (pair, gid) = (shared.pair(0)?, &shared.bench.gid);
            let port = pair.to_init(shared.bench.port + 1, false);
            pair.to_init(shared.bench.port, false)?;
            let connection = shared.bench.config().connection;
            let peer = Peer {
                qpn: pair.number(),
                rq_psn: PSN,
                mtu_code: gid.mtu_code,
                gid: gid.gid,
                mac: gid.mac,
            };
            let longer = Peer {
                mtu_code: gid.mtu_code + 1,
                ..peer
            };
            let reads = ConnectionConfig {
                max_dest_rd_atomic: 129,
                ..connection
            };
            let timer = ConnectionConfig {
                min_rnr_timer: 32,
                ..connection
            };
            let (port_num, index) = (shared.bench.port, gid.index);
            let refused = [
                port,
                pair.to_rts(PSN, &connection),
                pair.to_rtr(port_num, index, &longer, &connection),
                pair.to_rtr(port_num, index, &peer, &reads),
                pair.to_rtr(port_num, index, &peer, &timer),
            ];
            // None of them changed anything.
            pair.to_rtr(port_num, index, &peer, &connection)?;
            Ok((flagged, refused))
        });
        let (flagged, refused) = unless_skipped!(result);
        assert!(flagged.is_some());
        assert!(refused.iter().all(|result| *result == Err(EINVAL)));
        Ok(())
    }

    /// RNIC-REQ-09: the octets are those at the time of the call, and their key does not matter.
    #[test]
    fn inline_data_are_taken_at_once() -> Result {
        let result = with_soft(4, |shared| {
            shared.add_connected()?;
            let mut octets = KVec::from_elem(0x5au8, 48, GFP_KERNEL)?;
            let mut element = [bindings::ib_sge {
                addr: u64::try_from(octets.as_ptr().addr())?,
                length: 48,
                lkey: 0xdead,
            }];
            let flags = bindings::ib_send_flags_IB_SEND_INLINE;
            // No receive request is there so far, so the packet is built again later.
            shared.send_elements(shared.pair(0)?, &mut element, flags)?;
            octets.iter_mut().for_each(|octet| *octet = 1);
            shared.receive(0, None)?;
            let done = shared.received()?;
            Ok((done.status, done.len, shared.has(0, 0, 0x5a, 48)))
        });
        assert_eq!(unless_skipped!(result), (SUCCESS, 48, true));
        Ok(())
    }

    /// RNIC-REQ-10, RNIC-ERR-05: a bad key of the sender; without octets it does not matter.
    #[test]
    fn bad_key_of_the_sender_ends_its_queue_pair() -> Result {
        let result = with_soft(4, |shared| {
            shared.add_two()?;
            let (left, right) = (shared.pair(0)?, shared.pair(1)?);
            for index in 0..3 {
                shared.receive(index, Some(right))?;
            }
            shared.receive(3, Some(left))?;
            let good = || shared.element(BUFFERS * ROOM, 8);
            let bad = |length| -> Result<bindings::ib_sge> {
                Ok(bindings::ib_sge {
                    length,
                    lkey: 0xdead_0000,
                    ..good()?
                })
            };
            shared.send_elements(left, &mut [bad(0)?, good()?], 0)?;
            let first = shared.results(2)?;
            shared.send_elements(left, &mut [good()?, bad(8)?], 0)?;
            // The request, and the receive request of the same queue pair.
            let second = shared.results(2)?;
            let late = shared.poll();
            Ok((first, second, late))
        });
        let (first, second, late) = unless_skipped!(result);
        let flushed = bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR;
        let fault = bindings::ib_wc_status_IB_WC_LOC_PROT_ERR;
        assert!(first[..] == [(0, SUCCESS), (1000, SUCCESS)]);
        assert!(second[..] == [(3, flushed), (1000, fault)]);
        assert_eq!(late, None);
        Ok(())
    }

    /// RNIC-RSP-10, RNIC-ERR-02, RNIC-ERR-05: a bad key of the receiver.
    #[test]
    fn bad_key_of_the_receiver_ends_both_queue_pairs() -> Result {
        let result = with_soft(4, |shared| {
            shared.add_two()?;
            let (left, right) = (shared.pair(0)?, shared.pair(1)?);
            let mut element = bindings::ib_sge {
                lkey: 0xdead_0000,
                ..shared.element(0, ROOM)?
            };
            let wr = bindings::ib_recv_wr {
                sg_list: &mut element,
                num_sge: 1,
                ..Default::default()
            };
            // SAFETY: The request is valid, and its memory stays.
            unsafe { right.post_recv(&wr) }.map_err(|(error, _)| error)?;
            shared.receive(1, Some(right))?;
            shared.receive(2, Some(left))?;
            shared.send(left, 7, 16, None)?;
            let results = shared.results(4)?;
            Ok((results, shared.has(0, 0, 0, ROOM)))
        });
        let (results, untouched) = unless_skipped!(result);
        let flushed = bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR;
        let fault = bindings::ib_wc_status_IB_WC_LOC_PROT_ERR;
        let refused = bindings::ib_wc_status_IB_WC_REM_OP_ERR;
        assert!(results[..] == [(0, fault), (1, flushed), (2, flushed), (1007, refused)]);
        assert!(untouched);
        Ok(())
    }

    /// RNIC-ERR-04: the codes are those of Documentation/soft-rnic.rst.
    #[test]
    fn failed_requests_have_a_reason() -> Result {
        let result = with_soft(4, |shared| {
            shared.add_two()?;
            let (left, right) = (shared.pair(0)?, shared.pair(1)?);
            shared.receive(0, Some(right))?;
            shared.receive(1, Some(right))?;
            shared.receive(2, Some(left))?;
            shared.send(left, 1, 16, None)?;
            let good = shared.reasons(2)?;
            // Longer than the receive request.
            shared.send_elements(left, &mut [shared.element(BUFFERS * ROOM, ROOM + 1)?], 0)?;
            Ok((good, shared.reasons(3)?))
        });
        let (good, bad) = unless_skipped!(result);
        assert!(good[..] == [(0, 0), (1001, 0)]);
        // The receive buffer is too short, a flush, and an invalid request for the peer.
        assert!(bad[..] == [(1, 0x308), (2, 0x401), (1000, 0x201)]);
        Ok(())
    }

    /// RNIC-QPS-04, RNIC-QPS-09: no completion of a queue pair outlives it, or its state.
    #[test]
    fn queue_pair_takes_its_completions_along() -> Result {
        let result = with_soft(4, |shared| {
            shared.add_two()?;
            let (left, right) = (shared.pair(0)?, shared.pair(1)?);
            for index in 0..3 {
                shared.receive(index, Some(right))?;
            }
            shared.send(left, 7, 16, None)?;
            // The octets are there, and soon both completions.
            shared.wait(|| shared.has(0, 0, 7, 16).then_some(()))?;
            fsleep(Delta::from_millis(20));
            let mut attr = bindings::ib_qp_attr {
                qp_state: bindings::ib_qp_state_IB_QPS_RESET,
                ..Default::default()
            };
            right.modify(&mut attr, bindings::ib_qp_attr_mask_IB_QP_STATE)?;
            let sent = shared.results(1)?;
            let rest = shared.poll();
            // In RESET nothing is taken.
            let posted = shared.receive(0, Some(right));
            shared.connect(right, left.number())?;
            shared.receive(0, Some(right))?;
            right.to_error()?;
            fsleep(Delta::from_millis(20));
            drop(shared.pairs.pop());
            Ok((sent.first().copied(), rest, posted, shared.poll()))
        });
        let outcome = unless_skipped!(result);
        assert_eq!(outcome, (Some((1007, SUCCESS)), None, Err(EINVAL), None));
        Ok(())
    }
}
