// SPDX-License-Identifier: GPL-2.0

//! Tests of the connection managers, between ids of one port.

mod connections;
mod ends;
mod rdma;

use super::{
    with_bench_that,
    Bench,
    Probe,
    PATIENCE_MS,
    PSN, //
};
use crate::kapi::{
    net::netns::Net,
    verbs::{
        channel::Channel,
        cm::{
            CmEvent,
            CmHandle,
            CmId,
            CmListenOps,
            CmListener,
            CmOps,
            CmPath,
            CmReplyParams,
            CmRequest,
            CmRequestInfo,
            CmRequestParams,
            RejectReason,
            RoceTarget, //
        },
        device::LocalGid,
        pd::Pd, //
    },
};
use core::cell::RefCell;
use kernel::{
    new_condvar, new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        CondVar,
        CondVarTimeoutResult,
        Mutex, //
    },
    time::{
        delay::fsleep,
        msecs_to_jiffies,
        Delta, //
    },
};

/// A service id of those for SDP.
const SERVICE: u64 = 0x1_4711;
/// Places in the backlog of listeners.
const BACKLOG: u32 = 8;

/// The octets of a message's private data; none is 0.
fn pattern<const N: usize>(seed: u8) -> [u8; N] {
    let mut octets = [0; N];
    for (at, octet) in octets.iter_mut().enumerate() {
        *octet = u8::try_from(at % 199).unwrap_or(0) + seed;
    }
    octets
}

/// What a listener does with requests.
#[derive(Clone, Copy)]
enum TestDecision {
    Take,
    /// Takes it, and drops the handle at once.
    TakeAndDrop,
    Reject(RejectReason),
    Ignore,
    /// Leaves it without a decision.
    Leave,
    /// Drops the listener, and takes it.
    DropListener,
}

/// Whether an event is the wanted one.
type CmPick = fn(&CmEvent) -> bool;

struct CmSideState {
    events: KVec<CmEvent>,
    handle: Option<CmHandle<CmSide>>,
    /// The handler drops the handle at such an event.
    drops_at: Option<CmPick>,
    decision: TestDecision,
    listener: Option<CmListener<CmSide>>,
    requests: KVec<CmRequestInfo>,
    children: KVec<Arc<CmSide>>,
    /// Handlers wait while it is set.
    holds: bool,
    /// A handler runs.
    inside: bool,
}

/// How many [`Alive`] exist.
static ALIVE: Atomic<i32> = Atomic::new(0);

/// A part of each context, to see that none stays.
struct Alive;

impl Alive {
    fn new() -> Self {
        ALIVE.add(1i32, Relaxed);
        Self
    }

    /// Waits until none exists. The handler that drops its own id keeps the context until it has
    /// returned.
    fn wait_for_none() -> Result {
        for _ in 0..PATIENCE_MS {
            if ALIVE.load(Relaxed) == 0 {
                return Ok(());
            }
            fsleep(Delta::from_millis(1));
        }
        Err(EBUSY)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1i32, Relaxed);
    }
}

/// One side of a connection, or the owner of a listener.
#[pin_data]
struct CmSide {
    _alive: Alive,
    #[pin]
    state: Mutex<CmSideState>,
    #[pin]
    changed: CondVar,
}

impl CmSide {
    fn new(decision: TestDecision) -> Result<Arc<Self>> {
        let state = CmSideState {
            events: KVec::new(),
            handle: None,
            drops_at: None,
            decision,
            listener: None,
            requests: KVec::new(),
            children: KVec::new(),
            holds: false,
            inside: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                _alive: Alive::new(),
                state <- new_mutex!(state, "rdma_sock_test_side"),
                changed <- new_condvar!("rdma_sock_test_side_changed"),
            }),
            GFP_KERNEL,
        )
    }

    fn note<R>(&self, f: impl FnOnce(&mut CmSideState) -> R) -> R {
        let result = f(&mut self.state.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `found` finds something.
    fn wait<R>(&self, mut found: impl FnMut(&mut CmSideState) -> Option<R>) -> Result<R> {
        let mut left = msecs_to_jiffies(PATIENCE_MS);
        let mut state = self.state.lock();
        loop {
            if let Some(result) = found(&mut state) {
                return Ok(result);
            }
            match self.changed.wait_interruptible_timeout(&mut state, left) {
                CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
                CondVarTimeoutResult::Timeout => return Err(ETIMEDOUT),
                CondVarTimeoutResult::Signal { .. } => return Err(EINTR),
            }
        }
    }

    /// Waits for an event that `pick` wants.
    fn event<R>(&self, pick: impl Fn(&CmEvent) -> Option<R>) -> Result<R> {
        self.wait(|state| state.events.iter().find_map(&pick))
    }

    /// Waits for a rejection; its reason and its private data.
    fn rejection(&self) -> Result<(RejectReason, [u8; 148])> {
        self.event(|event| match event {
            CmEvent::Rejected { reason, data } => Some((*reason, data.as_bytes().try_into().ok()?)),
            _ => None,
        })
    }

    /// Connections of the listener that are not established.
    fn half_open(&self) -> u32 {
        self.note(|state| state.listener.as_ref().map_or(0, CmListener::half_open))
    }

    /// Waits for the first connection that the listener has taken.
    fn child(&self) -> Result<Arc<CmSide>> {
        self.wait(|state| state.children.first().cloned())
    }

    /// Runs `f` with the handle, which handlers leave alone meanwhile.
    fn with<R>(&self, f: impl FnOnce(&CmHandle<CmSide>) -> Result<R>) -> Result<R> {
        let handle = self.note(|state| state.handle.take()).ok_or(ENODEV)?;
        let result = f(&handle);
        self.note(|state| state.handle = Some(handle));
        result
    }

    /// Drops the handle, if there is one.
    fn drop_handle(&self) {
        let handle = self.note(|state| state.handle.take());
        drop(handle);
    }

    /// Drops everything that refers to this side.
    fn finish(&self) {
        let (listener, children) =
            self.note(|state| (state.listener.take(), core::mem::take(&mut state.children)));
        drop(listener);
        self.drop_handle();
        for child in children {
            child.finish();
        }
    }

    /// Runs on entry to a handler: waits while handlers are held.
    fn enter(&self) {
        self.note(|state| state.inside = true);
        let _ = self.wait(|state| (!state.holds).then_some(()));
    }
}

impl CmOps for CmSide {
    fn on_event(self: &Arc<Self>, _id: &CmId, event: CmEvent) {
        self.enter();
        let handle = self.note(|state| {
            let _ = state.events.push(event, GFP_KERNEL);
            match state.drops_at {
                Some(drops) if drops(&event) => state.handle.take(),
                _ => None,
            }
        });
        drop(handle);
        self.note(|state| state.inside = false);
    }
}

impl CmListenOps for CmSide {
    fn on_request(self: &Arc<Self>, request: CmRequest<'_>) {
        self.enter();
        let info = *request.info();
        let (decision, listener) = self.note(|state| {
            let _ = state.requests.push(info, GFP_KERNEL);
            let listener = match state.decision {
                TestDecision::DropListener => state.listener.take(),
                _ => None,
            };
            (state.decision, listener)
        });
        drop(listener);
        let _ = self.decide(request, decision);
        self.note(|state| state.inside = false);
    }
}

impl CmSide {
    fn decide(&self, request: CmRequest<'_>, decision: TestDecision) -> Result {
        match decision {
            TestDecision::Take | TestDecision::DropListener => {
                let child = CmSide::new(TestDecision::Leave)?;
                let handle = request.take(child.clone())?;
                child.note(|state| state.handle = Some(handle));
                self.note(|state| state.children.push(child, GFP_KERNEL))?;
                Ok(())
            }
            TestDecision::TakeAndDrop => request.take(CmSide::new(TestDecision::Leave)?).map(drop),
            TestDecision::Reject(reason) => request.reject(reason, &pattern::<148>(3)),
            TestDecision::Ignore => {
                request.ignore();
                Ok(())
            }
            TestDecision::Leave => Ok(()),
        }
    }
}

/// What a test has of a device.
struct CmBench<'a> {
    bench: &'a Bench,
    /// Made of an IPv4 address.
    gid: LocalGid,
    pd: Arc<Pd>,
    /// What the test has made, and `with_cm` ends.
    sides: RefCell<KVec<Arc<CmSide>>>,
    channels: RefCell<KVec<Arc<Channel<Probe>>>>,
}

/// Numbers that no queue pair has, one for each request.
static QPNS: Atomic<u32> = Atomic::new(0x00f0_0000);

impl CmBench<'_> {
    /// A channel that ends with the test, and its user.
    fn channel(&self) -> Result<(Arc<Channel<Probe>>, Arc<Probe>)> {
        let probe = Probe::new()?;
        let channel = Channel::new(&self.pd, &self.bench.config(), probe.clone())?;
        let kept = self.channels.borrow_mut().push(channel.clone(), GFP_KERNEL);
        if let Err(err) = kept {
            channel.shutdown();
            return Err(err.into());
        }
        Ok((channel, probe))
    }

    /// A side that ends with the test.
    fn side(&self, decision: TestDecision) -> Result<Arc<CmSide>> {
        let side = CmSide::new(decision)?;
        self.sides.borrow_mut().push(side.clone(), GFP_KERNEL)?;
        Ok(side)
    }

    /// The owner of a listener.
    fn listen(&self, decision: TestDecision, backlog: u32) -> Result<Arc<CmSide>> {
        let host = self.side(decision)?;
        let listener = CmListener::new(&self.bench.device, SERVICE, backlog, host.clone())?;
        host.note(|state| state.listener = Some(listener));
        Ok(host)
    }

    /// The path to a GID of which the last octet may differ from the own one.
    fn path(&self, last: Option<u8>) -> Result<CmPath> {
        let mut gid = self.gid.gid;
        if let (Some(octet), Some(last)) = (gid.last_mut(), last) {
            *octet = last;
        }
        let target = RoceTarget {
            gid,
            mac: self.gid.mac,
            hop_limit: 64,
            traffic_class: 0,
        };
        CmPath::roce(&self.bench.device, self.bench.port, &self.gid, &target)
    }

    /// Parameters of a request from the queue pair of `channel`, or from none.
    fn params<'d>(&self, channel: Option<&Channel<Probe>>, data: &'d [u8]) -> CmRequestParams<'d> {
        CmRequestParams {
            service_id: SERVICE,
            qpn: channel.map_or_else(|| QPNS.fetch_add(1u32, Relaxed), Channel::qpn),
            psn: PSN,
            responder_resources: 1,
            initiator_depth: 1,
            retries: 7,
            rnr_retries: 7,
            remote_response_timeout: 16,
            local_response_timeout: 16,
            max_retries: 2,
            data,
        }
    }

    /// A side with an id that has sent no request.
    fn idle(&self) -> Result<Arc<CmSide>> {
        let side = self.side(TestDecision::Leave)?;
        let handle = CmHandle::new(&self.bench.device, side.clone())?;
        side.note(|state| state.handle = Some(handle));
        Ok(side)
    }

    /// A side that has sent a request.
    fn request(&self, channel: Option<&Channel<Probe>>, data: &[u8]) -> Result<Arc<CmSide>> {
        let side = self.idle()?;
        let params = self.params(channel, data);
        side.with(|handle| handle.request(&self.path(None)?, &params))?;
        Ok(side)
    }

    /// Has a side reply to its request.
    fn reply(&self, side: &CmSide, channel: Option<&Channel<Probe>>, data: &[u8]) -> Result {
        side.with(|handle| {
            if let Some(channel) = channel {
                handle.to_rtr(channel, PSN)?;
                handle.to_rts(channel)?;
            }
            handle.reply(&CmReplyParams {
                qpn: channel.map_or_else(|| QPNS.fetch_add(1u32, Relaxed), Channel::qpn),
                psn: PSN,
                responder_resources: 1,
                initiator_depth: 1,
                rnr_retries: 7,
                data,
            })
        })
    }

    /// A connection without queue pairs: the side that has sent the request, and the other.
    fn pair(&self, host: &CmSide) -> Result<(Arc<CmSide>, Arc<CmSide>)> {
        let before = host.note(|state| state.children.len());
        let active = self.request(None, &[])?;
        let passive = host.wait(|state| state.children.get(before).cloned())?;
        self.reply(&passive, None, &[])?;
        active.event(reply)?;
        active.with(|handle| handle.ready_to_use(&[]))?;
        passive.event(ready)?;
        Ok((active, passive))
    }
}

/// Picks the reply.
fn reply(event: &CmEvent) -> Option<(u32, [u8; 196])> {
    match event {
        CmEvent::Reply(reply) => Some((reply.qpn, reply.data.as_bytes().try_into().ok()?)),
        _ => None,
    }
}

/// Picks RTU.
fn ready(event: &CmEvent) -> Option<[u8; 224]> {
    match event {
        CmEvent::ReadyToUse(data) => data.as_bytes().try_into().ok(),
        _ => None,
    }
}

/// Picks the end of the timewait.
fn exit(event: &CmEvent) -> Option<()> {
    matches!(event, CmEvent::TimewaitExit).then_some(())
}

/// Runs `f` on the first device of the initial namespace, and drops all ids; fails if a context is
/// left. Skips the test if there is no such device.
fn with_cm<R>(f: impl FnOnce(&CmBench<'_>) -> Result<R>) -> Option<Result<R>> {
    // The tests bind addresses of the initial namespace.
    let initial = Net::initial().cookie();
    let fits = |bench: &Bench| {
        let netdev = bench.device.netdev(bench.port);
        !bench.is_doomed() && netdev.is_some_and(|netdev| netdev.net_cookie == initial)
    };
    with_bench_that(fits, |bench| {
        let gid = bench.device.ipv4_gid(bench.port).ok_or(ENODEV)?;
        let cm = CmBench {
            bench,
            gid,
            pd: Pd::new(&bench.device)?,
            sides: RefCell::new(KVec::new()),
            channels: RefCell::new(KVec::new()),
        };
        let result = f(&cm);
        for side in cm.sides.take() {
            side.finish();
        }
        for channel in cm.channels.take() {
            channel.shutdown();
        }
        Alive::wait_for_none().and(result)
    })
}

/// Posts a message on one channel, and waits for its octets on the other.
fn carry(from: &Arc<Channel<Probe>>, to: &Probe, octet: u8) -> Result<bool> {
    let slot = from.try_reserve(0).ok_or(EBUSY)?;
    slot.post(1, None, &[], &[octet; 44], true)
        .map_err(|(error, _)| error)?;
    to.wait(|seen| seen.received == 1)?;
    let seen = to.seen.lock();
    Ok(seen.octets == 44 && seen.last == [octet; 44])
}
