// SPDX-License-Identifier: GPL-2.0

//! Tests of ids of `rdma_cm`, between two of one address.

use super::{
    carry,
    pattern,
    reply,
    with_cm,
    Alive,
    CmBench,
    CmSide,
    TestDecision,
    BACKLOG,
    PATIENCE_MS, //
};
use crate::kapi::{
    compat::errno::{
        EALREADY,
        ENOTCONN, //
    },
    net::{
        addr::Addr,
        netns::Net, //
    },
    verbs::{
        channel::Channel,
        cm::{
            PortSpace,
            RdmaConnData,
            RdmaConnParams,
            RdmaId,
            RdmaIdEvent,
            RdmaIdHandle,
            RdmaIdOps,
            RdmaIdRequest,
            RejectReason, //
        },
        loopback::{
            unless_skipped,
            Probe, //
        },
    },
};
use kernel::{
    new_condvar,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        CondVar,
        CondVarTimeoutResult,
        Mutex, //
    },
    time::msecs_to_jiffies, //
};

/// The port that is listened on.
const PORT: u16 = 4711;
/// The error code of an address without a route.
const ENETUNREACH: i32 = 101;
/// Longest resolution.
const RESOLVE_MS: u32 = 5000;

/// Whether an event is the wanted one.
type RdmaPick = fn(&RdmaIdEvent) -> bool;

struct RdmaState {
    events: KVec<RdmaIdEvent>,
    requests: KVec<RdmaConnData>,
    handle: Option<RdmaIdHandle<RdmaSide>>,
    children: KVec<Arc<RdmaSide>>,
    /// The handler drops the handle at such an event.
    drops_at: Option<RdmaPick>,
    decision: TestDecision,
}

/// One side of a connection, or the owner of a listener. Resolves the route when the address is.
#[pin_data]
struct RdmaSide {
    _alive: Alive,
    #[pin]
    state: Mutex<RdmaState>,
    #[pin]
    changed: CondVar,
}

impl RdmaSide {
    fn new(decision: TestDecision) -> Result<Arc<Self>> {
        let state = RdmaState {
            events: KVec::new(),
            requests: KVec::new(),
            handle: None,
            children: KVec::new(),
            drops_at: None,
            decision,
        };
        Arc::pin_init(
            pin_init!(Self {
                _alive: Alive::new(),
                state <- new_mutex!(state, "rdma_sock_test_rdma_side"),
                changed <- new_condvar!("rdma_sock_test_rdma_side_changed"),
            }),
            GFP_KERNEL,
        )
    }

    fn note<R>(&self, f: impl FnOnce(&mut RdmaState) -> R) -> R {
        let result = f(&mut self.state.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `found` finds something.
    fn wait<R>(&self, mut found: impl FnMut(&mut RdmaState) -> Option<R>) -> Result<R> {
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
    fn event<R>(&self, pick: impl Fn(&RdmaIdEvent) -> Option<R>) -> Result<R> {
        self.wait(|state| state.events.iter().find_map(&pick))
    }

    /// Runs `f` with the handle, which handlers leave alone meanwhile.
    fn with<R>(&self, f: impl FnOnce(&RdmaIdHandle<RdmaSide>) -> Result<R>) -> Result<R> {
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

    /// Drops all handles, so that nothing refers to this side.
    fn finish(&self) {
        self.drop_handle();
        for child in self.note(|state| core::mem::take(&mut state.children)) {
            child.finish();
        }
    }
}

impl RdmaIdOps for RdmaSide {
    fn on_event(self: &Arc<Self>, id: &RdmaId, event: RdmaIdEvent) {
        if matches!(event, RdmaIdEvent::AddrResolved) {
            let _ = id.resolve_route(RESOLVE_MS);
        }
        let handle = self.note(|state| {
            let _ = state.events.push(event, GFP_KERNEL);
            match state.drops_at {
                Some(drops) if drops(&event) => state.handle.take(),
                _ => None,
            }
        });
        drop(handle);
    }

    fn on_request(self: &Arc<Self>, request: RdmaIdRequest<'_>) {
        let data = *request.data();
        let (decision, listener) = self.note(|state| {
            let _ = state.requests.push(data, GFP_KERNEL);
            let listener = match state.decision {
                TestDecision::DropListener => state.handle.take(),
                _ => None,
            };
            (state.decision, listener)
        });
        drop(listener);
        let _ = self.decide(request, decision);
    }
}

impl RdmaSide {
    fn decide(&self, request: RdmaIdRequest<'_>, decision: TestDecision) -> Result {
        match decision {
            TestDecision::Take | TestDecision::DropListener => {
                let child = RdmaSide::new(TestDecision::Leave)?;
                let handle = request.take(child.clone())?;
                child.note(|state| state.handle = Some(handle));
                self.note(|state| state.children.push(child, GFP_KERNEL))?;
                Ok(())
            }
            TestDecision::TakeAndDrop => {
                request.take(RdmaSide::new(TestDecision::Leave)?).map(drop)
            }
            TestDecision::Reject(_) => request.reject(&pattern::<148>(3)),
            TestDecision::Ignore | TestDecision::Leave => Ok(()),
        }
    }
}

/// What a test has made.
struct RdmaBench<'a> {
    cm: &'a CmBench<'a>,
    sides: core::cell::RefCell<KVec<Arc<RdmaSide>>>,
}

impl RdmaBench<'_> {
    /// The address of the device.
    fn addr(&self, port: u16) -> Addr {
        let [.., a, b, c, d] = self.cm.gid.gid;
        Addr::V4 {
            ip: [a, b, c, d],
            port,
        }
    }

    /// A side with an id that does nothing yet.
    fn side(&self, decision: TestDecision) -> Result<Arc<RdmaSide>> {
        let side = RdmaSide::new(decision)?;
        let handle = RdmaIdHandle::new(Net::initial(), PortSpace::Tcp, side.clone())?;
        side.note(|state| state.handle = Some(handle));
        self.sides.borrow_mut().push(side.clone(), GFP_KERNEL)?;
        Ok(side)
    }

    /// A side that listens on the address of the device, or on all.
    fn listen(&self, decision: TestDecision, any: bool) -> Result<Arc<RdmaSide>> {
        let side = self.side(decision)?;
        let addr = if any {
            Addr::V4 {
                ip: [0; 4],
                port: PORT,
            }
        } else {
            self.addr(PORT)
        };
        side.with(|handle| {
            handle.bind(&addr)?;
            handle.listen(8)
        })?;
        Ok(side)
    }

    /// A side that resolves the address of the device, and then the route.
    fn resolve(&self) -> Result<Arc<RdmaSide>> {
        let side = self.side(TestDecision::Leave)?;
        side.with(|handle| handle.resolve_addr(None, &self.addr(PORT), RESOLVE_MS))?;
        Ok(side)
    }

    /// A side that has resolved both.
    fn resolved(&self) -> Result<Arc<RdmaSide>> {
        let side = self.resolve()?;
        side.event(|event| match event {
            RdmaIdEvent::RouteResolved => Some(Ok(())),
            other => other.error().map(Err),
        })??;
        Ok(side)
    }

    /// A side that has asked for a connection.
    fn connect(&self, channel: Option<&Channel<Probe>>, data: &[u8]) -> Result<Arc<RdmaSide>> {
        let side = self.resolved()?;
        side.with(|handle| handle.connect(&self.params(channel, data)))?;
        Ok(side)
    }

    fn params<'d>(&self, channel: Option<&Channel<Probe>>, data: &'d [u8]) -> RdmaConnParams<'d> {
        let params = self.cm.params(channel, data);
        RdmaConnParams {
            qpn: params.qpn,
            responder_resources: params.responder_resources,
            initiator_depth: params.initiator_depth,
            retries: params.retries,
            rnr_retries: params.rnr_retries,
            data,
        }
    }
}

/// Runs `f` as [`with_cm`] does, and drops all ids of `rdma_cm` as well.
fn with_rdma<R>(f: impl FnOnce(&RdmaBench<'_>) -> Result<R>) -> Option<Result<R>> {
    with_cm(|cm| {
        let bench = RdmaBench {
            cm,
            sides: core::cell::RefCell::new(KVec::new()),
        };
        let result = f(&bench);
        for side in bench.sides.take() {
            side.finish();
        }
        result
    })
}

/// Picks the response of the peer.
fn response(event: &RdmaIdEvent) -> Option<RdmaConnData> {
    match event {
        RdmaIdEvent::Response(data) => Some(*data),
        _ => None,
    }
}

/// Picks the establishment, which has no data on RoCE.
fn established(event: &RdmaIdEvent) -> Option<()> {
    match event {
        RdmaIdEvent::Established(peer) => peer.data.as_bytes().is_empty().then_some(()),
        _ => None,
    }
}

/// Picks the end.
fn disconnected(event: &RdmaIdEvent) -> Option<()> {
    matches!(event, RdmaIdEvent::Disconnected).then_some(())
}

/// Picks a rejection.
fn rejected(event: &RdmaIdEvent) -> Option<(i32, [u8; 148])> {
    match event {
        RdmaIdEvent::Rejected { status, data } => Some((*status, data.as_bytes().try_into().ok()?)),
        _ => None,
    }
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_id)]
mod tests {
    use super::*;

    #[test]
    fn address_resolves_to_device_port_gids_and_path() -> Result {
        let outcome = unless_skipped!(with_rdma(|rdma| {
            let (device, gid) = (&rdma.cm.bench.device, rdma.cm.gid);
            let side = rdma.side(TestDecision::Leave)?;
            let early = side.with(|handle| {
                Ok((
                    handle.is_on(device),
                    handle.port(),
                    handle.gids().err(),
                    handle.path(device).err(),
                    handle.resolve_route(RESOLVE_MS),
                ))
            })?;
            let side = rdma.resolved()?;
            let found = side.with(|handle| {
                let path = handle.path(device)?;
                Ok((
                    handle.is_on(device),
                    handle.port()? == rdma.cm.bench.port,
                    handle.gids()? == (gid.gid, gid.gid),
                    Arc::ptr_eq(path.device(), device) && path.port() == rdma.cm.bench.port,
                    (path.local_gid(), path.remote_gid()) == (gid.gid, gid.gid),
                    path.mac() == Some(gid.mac),
                ))
            })?;
            Ok((early, found))
        }));
        let none = (
            false,
            Err(ENOTCONN),
            Some(ENOTCONN),
            Some(ENOTCONN),
            Err(EINVAL),
        );
        assert_eq!(outcome.0, none);
        assert_eq!(outcome.1, (true, true, true, true, true, true));
        Ok(())
    }

    #[test]
    fn resolved_path_outlives_its_id_and_carries_a_request() -> Result {
        let data = unless_skipped!(with_rdma(|rdma| {
            let host = rdma.cm.listen(TestDecision::Take, BACKLOG)?;
            let resolver = rdma.resolved()?;
            let mut path = resolver.with(|handle| handle.path(&rdma.cm.bench.device))?;
            path.set_life_time(14)?;
            resolver.drop_handle();
            let active = rdma.cm.idle()?;
            let params = rdma.cm.params(None, &[]);
            active.with(|handle| handle.request(&path, &params))?;
            let passive: Arc<CmSide> = host.child()?;
            rdma.cm.reply(&passive, None, &pattern::<196>(2))?;
            let (_, data) = active.event(reply)?;
            Ok(data)
        }));
        assert_eq!(data, pattern::<196>(2));
        Ok(())
    }

    #[test]
    fn address_without_a_route_does_not_resolve() -> Result {
        let outcome = unless_skipped!(with_rdma(|rdma| {
            let addr = |ip| Addr::V4 { ip, port: PORT };
            let side = || rdma.side(TestDecision::Leave);
            // An address that this host does not have, and a peer that it has no route to.
            let (from, to) = (addr([203, 0, 113, 2]), addr([203, 0, 113, 1]));
            let foreign = side()?.with(|handle| Ok(handle.resolve_addr(Some(&from), &to, 100)))?;
            let no_route = side()?.with(|handle| Ok(handle.resolve_addr(None, &to, 100)))?;
            // Another attempt on the same id.
            let side = side()?;
            let first = side.with(|handle| Ok(handle.resolve_addr(None, &to, 100)))?;
            let again = side.with(|handle| Ok(handle.resolve_addr(None, &rdma.addr(PORT), 100)))?;
            let port = side.with(|handle| Ok(handle.port()))?;
            Ok((foreign.is_err(), no_route, first, again, port))
        }));
        let no_route = Err(Error::from_errno(-ENETUNREACH));
        let wanted = (true, no_route, no_route, Err(EALREADY), Err(ENOTCONN));
        assert_eq!(outcome, wanted);
        Ok(())
    }

    /// Connects, sends a message each way, and disconnects; the octets that both sides got.
    fn conversation(rdma: &RdmaBench<'_>, any: bool) -> Result<(RdmaConnData, RdmaConnData, bool)> {
        let host = rdma.listen(TestDecision::Take, any)?;
        let (near, near_probe) = rdma.cm.channel()?;
        let (far, far_probe) = rdma.cm.channel()?;
        let active = rdma.connect(Some(&near), &pattern::<56>(1))?;
        let passive = host.wait(|state| state.children.first().cloned())?;
        let request = host
            .note(|state| state.requests.first().copied())
            .ok_or(ENODATA)?;
        passive.with(|handle| {
            handle.to_rtr(&far)?;
            handle.to_rts(&far)?;
            handle.accept(&rdma.params(Some(&far), &pattern::<196>(2)))
        })?;
        let answer = active.event(response)?;
        active.with(|handle| {
            handle.to_rtr(&near)?;
            handle.to_rts(&near)?;
            handle.confirm()
        })?;
        passive.event(established)?;
        let mut good = carry(&near, &far_probe, 0x5a)? && carry(&far, &near_probe, 0xa5)?;
        good &= (request.qpn, answer.qpn) == (near.qpn(), far.qpn());
        good &= passive.with(|handle| {
            Ok(Arc::ptr_eq(handle.ops(), &passive)
                && handle.is_on(&rdma.cm.bench.device)
                && handle.port()? == rdma.cm.bench.port
                && handle.gids()? == (rdma.cm.gid.gid, rdma.cm.gid.gid))
        })?;
        active.with(|handle| handle.disconnect())?;
        passive.event(disconnected)?;
        passive.with(|handle| handle.disconnect())?;
        active.event(disconnected)?;
        Ok((request, answer, good))
    }

    #[test]
    fn connection_carries_private_data_and_messages_until_its_end() -> Result {
        let (request, answer, good) = unless_skipped!(with_rdma(|rdma| conversation(rdma, false)));
        assert_eq!(request.data.as_bytes(), &pattern::<56>(1)[..]);
        assert_eq!(
            (request.responder_resources, request.initiator_depth),
            (1, 1)
        );
        assert_eq!(answer.data.as_bytes(), &pattern::<196>(2)[..]);
        assert!(good);
        Ok(())
    }

    #[test]
    fn listener_on_all_addresses_gets_requests() -> Result {
        let (request, answer, good) = unless_skipped!(with_rdma(|rdma| conversation(rdma, true)));
        assert_eq!(request.data.as_bytes(), &pattern::<56>(1)[..]);
        assert_eq!(answer.data.as_bytes(), &pattern::<196>(2)[..]);
        assert!(good);
        Ok(())
    }

    #[test]
    fn rejection_carries_its_private_data() -> Result {
        let outcome = unless_skipped!(with_rdma(|rdma| {
            let host = rdma.listen(TestDecision::Reject(RejectReason::CONSUMER_DEFINED), false)?;
            let at_once = rdma.connect(None, &[])?.event(rejected)?;
            host.note(|state| state.decision = TestDecision::Take);
            let active = rdma.connect(None, &[])?;
            let passive = host.wait(|state| state.children.first().cloned())?;
            passive.with(|handle| handle.reject(&pattern::<148>(7)))?;
            let later = active.event(rejected)?;
            host.note(|state| state.decision = TestDecision::Leave);
            let left = rdma.connect(None, &[])?.event(rejected)?;
            host.drop_handle();
            let nowhere = rdma.connect(None, &[])?.event(rejected)?;
            Ok((at_once, later, left, nowhere.0))
        }));
        let consumer = i32::try_from(RejectReason::CONSUMER_DEFINED.code())?;
        let nowhere = i32::try_from(RejectReason::INVALID_SERVICE_ID.code())?;
        assert_eq!(outcome.0, (consumer, pattern::<148>(3)));
        assert_eq!(outcome.1, (consumer, pattern::<148>(7)));
        assert_eq!(outcome.2, (consumer, [0; 148]));
        assert_eq!(outcome.3, nowhere);
        Ok(())
    }

    #[test]
    fn rejection_of_a_response_reaches_the_acceptor() -> Result {
        let outcome = unless_skipped!(with_rdma(|rdma| {
            let host = rdma.listen(TestDecision::Take, false)?;
            let active = rdma.connect(None, &[])?;
            let passive = host.wait(|state| state.children.first().cloned())?;
            passive.with(|handle| handle.accept(&rdma.params(None, &[])))?;
            active.event(response)?;
            active.with(|handle| handle.reject(&pattern::<148>(9)))?;
            passive.event(rejected)
        }));
        assert_eq!(outcome.1, pattern::<148>(9));
        Ok(())
    }

    #[test]
    fn id_dropped_while_it_resolves_gives_its_context_back() -> Result {
        let outcome = unless_skipped!(with_rdma(|rdma| {
            let mut dropped = [0; 3];
            let drops: [Option<RdmaPick>; 3] = [
                None,
                Some(|event| matches!(event, RdmaIdEvent::AddrResolved)),
                Some(|event| matches!(event, RdmaIdEvent::RouteResolved)),
            ];
            for round in 0..10 {
                for (drops_at, dropped) in drops.iter().zip(&mut dropped) {
                    let side = rdma.side(TestDecision::Leave)?;
                    side.note(|state| state.drops_at = *drops_at);
                    // Handlers wait for the mutex, so they find the handle.
                    side.note(|state| match &state.handle {
                        Some(handle) => handle.resolve_addr(None, &rdma.addr(PORT), RESOLVE_MS),
                        None => Err(ENODEV),
                    })?;
                    if drops_at.is_some() {
                        side.wait(|state| state.handle.is_none().then_some(()))?;
                        *dropped += 1;
                        continue;
                    }
                    if round % 2 == 0 {
                        side.event(|event| {
                            matches!(event, RdmaIdEvent::AddrResolved).then_some(())
                        })?;
                    }
                    side.drop_handle();
                    *dropped += 1;
                }
            }
            Ok(dropped)
        }));
        assert_eq!(outcome, [10, 10, 10]);
        Ok(())
    }

    #[test]
    fn handler_may_drop_its_own_id() -> Result {
        let outcome = unless_skipped!(with_rdma(|rdma| {
            let host = rdma.listen(TestDecision::TakeAndDrop, false)?;
            let dropped = rdma.connect(None, &[])?.event(rejected)?;
            host.note(|state| state.decision = TestDecision::Take);
            let active = rdma.resolved()?;
            active.note(|state| {
                state.drops_at = Some(|event| matches!(event, RdmaIdEvent::Response(_)));
            });
            active.with(|handle| handle.connect(&rdma.params(None, &[])))?;
            let passive = host.wait(|state| state.children.first().cloned())?;
            passive.with(|handle| handle.accept(&rdma.params(None, &[])))?;
            let rejection = passive.event(rejected)?;
            let gone = active.note(|state| state.handle.is_none());
            Ok((dropped.0, rejection.0, gone))
        }));
        let consumer = i32::try_from(RejectReason::CONSUMER_DEFINED.code())?;
        assert_eq!(outcome, (consumer, consumer, true));
        Ok(())
    }

    #[test]
    fn handler_may_drop_its_own_listener() -> Result {
        for any in [false, true] {
            let outcome = unless_skipped!(with_rdma(|rdma| {
                let host = rdma.listen(TestDecision::DropListener, any)?;
                let active = rdma.connect(None, &[])?;
                let passive = host.wait(|state| state.children.first().cloned())?;
                passive.with(|handle| handle.accept(&rdma.params(None, &[])))?;
                active.event(response)?;
                let late = rdma.connect(None, &[])?.event(rejected)?;
                Ok((late.0 > 0, host.note(|state| state.requests.len())))
            }));
            assert_eq!(outcome, (true, 1));
        }
        Ok(())
    }

    #[test]
    fn sides_dropped_in_each_state_give_their_contexts_back() -> Result {
        let pairs = unless_skipped!(with_rdma(|rdma| {
            let host = rdma.listen(TestDecision::Take, false)?;
            let mut pairs = 0;
            for step in 0..4 {
                for active_first in [false, true] {
                    let active = rdma.connect(None, &[])?;
                    let passive = host.wait(|state| state.children.pop())?;
                    if step > 0 {
                        passive.with(|handle| handle.accept(&rdma.params(None, &[])))?;
                        active.event(response)?;
                    }
                    if step > 1 {
                        active.with(|handle| handle.confirm())?;
                        passive.event(established)?;
                    }
                    if step > 2 {
                        active.with(|handle| handle.disconnect())?;
                        passive.event(disconnected)?;
                    }
                    if active_first {
                        active.drop_handle();
                    }
                    passive.drop_handle();
                    active.drop_handle();
                    pairs += 1;
                }
            }
            Ok(pairs)
        }));
        assert_eq!(pairs, 8);
        Ok(())
    }

    #[test]
    fn use_in_the_wrong_state_is_refused() -> Result {
        let outcome = unless_skipped!(with_rdma(|rdma| {
            let idle = rdma.side(TestDecision::Leave)?;
            let params = rdma.params(None, &[]);
            let (channel, _) = rdma.cm.channel()?;
            let results = idle.with(|handle| {
                Ok([
                    handle.connect(&params),
                    handle.accept(&params),
                    handle.confirm(),
                    handle.reject(&[]),
                    handle.disconnect(),
                ])
            })?;
            let refused = results.iter().filter(|result| result.is_err()).count();
            let no_device = idle.with(|handle| Ok(handle.to_rtr(&channel)))?;
            let host = rdma.listen(TestDecision::Take, false)?;
            let listener = host.with(|handle| Ok((handle.disconnect(), handle.confirm())))?;
            let taken = idle.with(|handle| Ok(handle.bind(&rdma.addr(PORT)).is_err()))?;
            let long = rdma.resolved()?.with(|handle| {
                let data = [0; 57];
                Ok(handle.connect(&rdma.params(None, &data)).is_err())
            })?;
            Ok((refused, no_device, listener, taken, long))
        }));
        let wanted = (5, Err(ENOTCONN), (Err(EINVAL), Err(EINVAL)), true, true);
        assert_eq!(outcome, wanted);
        Ok(())
    }

    #[test]
    fn port_spaces_have_ports_of_their_own() -> Result {
        let outcome = unless_skipped!(with_rdma(|rdma| {
            let tcp = rdma.listen(TestDecision::Leave, false)?;
            let side = RdmaSide::new(TestDecision::Leave)?;
            let ib = RdmaIdHandle::new(Net::initial(), PortSpace::Ib, side)?;
            let bound = ib.bind(&rdma.addr(PORT));
            let listens = ib.listen(8);
            drop(ib);
            Ok((tcp.note(|state| state.handle.is_some()), bound, listens))
        }));
        assert_eq!(outcome, (true, Ok(()), Ok(())));
        Ok(())
    }
}
