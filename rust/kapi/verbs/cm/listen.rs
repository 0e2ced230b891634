// SPDX-License-Identifier: GPL-2.0

//! Listens on a service id of `ib_cm`.
//!
//! A listener has a backlog: the connections that its handler has taken, but that are not established.
//! While it is full, requests are dropped without an answer, so that the peer sends them again.

use super::{
    conn::{
        send_reject,
        CmHandle,
        CmOps, //
    },
    data::PrivateData,
    event::RejectReason,
    gate::{
        Closed,
        HandlerGate,
        Visit, //
    },
    ids::{
        handle_event,
        CmKey,
        CmReceiver, //
    },
};
use crate::{
    bindings,
    kapi::{
        compat::errno::ECANCELED,
        verbs::device::{
            netdev_id,
            Device,
            Lease,
            NetdevId, //
        },
    },
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::c_int,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc, //
    },
    workqueue, //
};

/// What happens at a listener.
pub(crate) trait CmListenOps: Send + Sync + Sized + 'static {
    /// Handles a request. Context: may sleep.
    ///
    /// Runs once at a time for a listener. A request that the handler neither takes, rejects nor ignores
    /// is rejected as [`RejectReason::CONSUMER_DEFINED`].
    fn on_request(self: &Arc<Self>, request: CmRequest<'_>);
}

/// Counts connections that are not established.
struct Backlog {
    limit: u32,
    now: Atomic<u32>,
}

/// A place in the backlog, until it is released or dropped.
pub(super) struct HalfOpen {
    backlog: Arc<Backlog>,
    held: Atomic<bool>,
}

impl HalfOpen {
    /// Takes a place, if one is free. Called by one handler at a time.
    fn take(backlog: &Arc<Backlog>) -> Option<Self> {
        // Nothing is ordered by the count.
        if backlog.now.load(Relaxed) >= backlog.limit {
            return None;
        }
        backlog.now.add(1u32, Relaxed);
        Some(Self {
            backlog: backlog.clone(),
            held: Atomic::new(true),
        })
    }

    /// Gives the place back.
    pub(super) fn release(&self) {
        if self.held.xchg(false, Relaxed) {
            self.backlog.now.fetch_sub(1u32, Relaxed);
        }
    }
}

impl Drop for HalfOpen {
    fn drop(&mut self) {
        self.release();
    }
}

/// A request of a peer (REQ).
#[derive(Clone, Copy, Debug)]
pub(crate) struct CmRequestInfo {
    /// The service id that it is for.
    pub(crate) service_id: u64,
    /// The port that it came to.
    pub(crate) port: u32,
    /// The GID that it was sent to.
    pub(crate) local_gid: [u8; 16],
    /// The GID that it says it is from. The address that packets go to.
    pub(crate) remote_gid: [u8; 16],
    /// The network device of the GID, if there is one that this RDMA device may be used with.
    pub(crate) netdev: Option<NetdevId>,
    /// Number of the peer's queue pair.
    pub(crate) qpn: u32,
    /// RDMA reads of this side that the peer serves at once.
    pub(crate) initiator_depth: u8,
    /// RDMA reads that the peer has in flight at most.
    pub(crate) responder_resources: u8,
    /// MTU code of the path: 1 is 256 octets, 5 is 4096.
    pub(crate) mtu_code: u8,
    /// Private data, 92 octets.
    pub(crate) data: PrivateData,
}

impl CmRequestInfo {
    /// Copies the parameters; none if the queue pair of the peer is not of the right type.
    ///
    /// # Safety
    ///
    /// The event is a request that `ib_cm` reports on `device`, whose driver is there.
    unsafe fn from_raw(
        device: *mut bindings::ib_device,
        event: &bindings::ib_cm_event,
    ) -> Option<Self> {
        // SAFETY: A request has these parameters.
        let param = unsafe { &*event.param.req_rcvd };
        if param.qp_type != bindings::ib_qp_type_IB_QPT_RC {
            return None;
        }
        // SAFETY: A request has a primary path.
        let path = unsafe { &*param.primary_path };
        let len = bindings::ib_cm_data_size_IB_CM_REQ_PRIVATE_DATA_SIZE;
        Some(Self {
            service_id: u64::from_be(path.service_id),
            port: param.port.into(),
            // SAFETY: All octets of the unions are initialised. The path is from this side's view.
            local_gid: unsafe { *path.sgid.raw },
            // SAFETY: As above.
            remote_gid: unsafe { *path.dgid.raw },
            // SAFETY: The request keeps the entry, and the driver is there by this function's contract.
            netdev: unsafe { netdev_of(device, param.ppath_sgid_attr) },
            qpn: param.remote_qpn,
            initiator_depth: param.initiator_depth,
            responder_resources: param.responder_resources,
            mtu_code: path.mtu,
            // SAFETY: The data is the last field of the received message, of this size.
            data: unsafe { PrivateData::copy(event.private_data, u8::try_from(len).ok()?) },
        })
    }
}

/// The network device of an entry of a GID table.
///
/// # Safety
///
/// `device` is valid, and `attr` is null or valid.
unsafe fn netdev_of(
    device: *mut bindings::ib_device,
    attr: *const bindings::ib_gid_attr,
) -> Option<NetdevId> {
    if attr.is_null() {
        return None;
    }
    let _guard = rcu::read_lock();
    // SAFETY: The entry is valid, and the read lock is held.
    let ndev = from_err_ptr(unsafe { bindings::rdma_read_gid_attr_ndev_rcu(attr) }).ok()?;
    // SAFETY: Both are valid while the read lock is held.
    unsafe { netdev_id(device, ndev) }.ok()
}

/// What a handler did with a request.
enum CmDecision {
    /// Nothing, or it was rejected.
    Reject,
    /// It gets no answer.
    Ignore,
    /// It became a connection with this gate.
    Take(Arc<HandlerGate>),
}

/// A request that waits for the decision of the handler.
///
/// # Invariants
///
/// `raw` is the id that the request has brought, valid for the lifetime, and of the leased device.
pub(crate) struct CmRequest<'a> {
    raw: NonNull<bindings::ib_cm_id>,
    info: CmRequestInfo,
    lease: Lease,
    half_open: HalfOpen,
    answer: &'a mut CmDecision,
}

impl CmRequest<'_> {
    /// The parameters.
    pub(crate) fn info(&self) -> &CmRequestInfo {
        &self.info
    }

    /// Makes it a connection that the engine has to answer, now or later. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the request gets no answer then.
    pub(crate) fn take<T: CmOps>(self, ops: Arc<T>) -> Result<CmHandle<T>> {
        let Self {
            raw,
            lease,
            half_open,
            answer,
            ..
        } = self;
        *answer = CmDecision::Ignore;
        // SAFETY: By the type invariants. The handler of the listener leaves the gate, and returns an
        // error to the connection manager if it was abandoned.
        let (handle, gate) = unsafe { CmHandle::adopt(raw, lease, half_open, ops)? };
        *answer = CmDecision::Take(gate);
        Ok(handle)
    }

    /// Rejects it. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` for more than 148 octets, and those of the device. It is rejected anyway, as
    /// [`RejectReason::CONSUMER_DEFINED`].
    pub(crate) fn reject(self, reason: RejectReason, data: &[u8]) -> Result {
        // SAFETY: Valid by the type invariants.
        unsafe { send_reject(self.raw, reason, data) }
    }

    /// Gives it no answer: the peer sends it again.
    pub(crate) fn ignore(self) {
        *self.answer = CmDecision::Ignore;
    }
}

/// What requests for a listener need.
struct Listening<T: CmListenOps> {
    ops: Arc<T>,
    gate: Arc<HandlerGate>,
    device: Arc<Device>,
    backlog: Arc<Backlog>,
}

impl<T: CmListenOps> CmReceiver for Listening<T> {
    unsafe fn receive(&self, raw: *mut bindings::ib_cm_id, event: &bindings::ib_cm_event) -> c_int {
        let reject = ECANCELED.to_errno();
        // A listener has no other events. Those for datagrams bring an id as well, which the connection
        // manager has to destroy.
        if event.event != bindings::ib_cm_event_type_IB_CM_REQ_RECEIVED {
            return reject;
        }
        // If the device is being removed, the peer gets a rejection.
        let (Some(raw), Ok(lease)) = (NonNull::new(raw), self.device.lease()) else {
            return reject;
        };
        // SAFETY: It is a request, which the connection manager reports, and the driver is there.
        let Some(info) = (unsafe { CmRequestInfo::from_raw(lease.as_raw(), event) }) else {
            return reject;
        };
        let mut answer = CmDecision::Reject;
        let visit = self.gate.visit(|| {
            let Some(half_open) = HalfOpen::take(&self.backlog) else {
                answer = CmDecision::Ignore;
                return;
            };
            // INVARIANT: The connection manager has made the id for this request, on the device of the
            // listener, and knows it until this function has returned.
            let request = CmRequest {
                raw,
                info,
                lease,
                half_open,
                answer: &mut answer,
            };
            T::on_request(&self.ops, request);
        });
        if visit == Visit::Refused {
            // The listener is about to go. If this fails, the connection manager rejects the request.
            // SAFETY: The connection manager knows the id until this function has returned.
            let _ = unsafe { send_reject(raw, RejectReason::INVALID_SERVICE_ID, &[]) };
        }
        match answer {
            CmDecision::Reject => reject,
            // Of all errors, only this one makes the connection manager forget the request.
            CmDecision::Ignore => ENOMEM.to_errno(),
            CmDecision::Take(gate) => match gate.leave() {
                // The handler has dropped the handle.
                Visit::Abandoned => reject,
                Visit::Done | Visit::Refused => 0,
            },
        }
    }
}

/// The id of a listener. Dropping it waits for its handler. Context: may sleep.
///
/// # Invariants
///
/// `raw` is a valid `ib_cm_id` of the leased device, owned by this object.
struct ListenId {
    raw: NonNull<bindings::ib_cm_id>,
    _lease: Lease,
}

// SAFETY: An id may be destroyed by any task.
unsafe impl Send for ListenId {}
// SAFETY: No function takes a shared reference.
unsafe impl Sync for ListenId {}

impl Drop for ListenId {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_destroy_cm_id(self.raw.as_ptr()) };
    }
}

/// A listener. Dropping it ends it, and waits for its handler; connections that the handler has taken
/// stay. Context: may sleep.
///
/// # Invariants
///
/// The id, if there is one, has `key` as context.
pub(crate) struct CmListener<T: CmListenOps> {
    id: Option<ListenId>,
    key: CmKey,
    held: Arc<Listening<T>>,
}

impl<T: CmListenOps> CmListener<T> {
    /// Listens on a service id of a device, with at most `backlog` connections that are not established.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the service id has a listener on this device; `ENODEV` if that is being removed;
    /// `ENOMEM`.
    pub(crate) fn new(
        device: &Arc<Device>,
        service_id: u64,
        backlog: u32,
        ops: Arc<T>,
    ) -> Result<Self> {
        let lease = device.lease()?;
        let backlog = Backlog {
            limit: backlog,
            now: Atomic::new(0),
        };
        let held = Listening {
            ops,
            gate: Arc::pin_init(HandlerGate::new(), GFP_KERNEL)?,
            device: device.clone(),
            backlog: Arc::new(backlog, GFP_KERNEL)?,
        };
        let held = Arc::new(held, GFP_KERNEL)?;
        // INVARIANT: There is no id.
        let mut this = Self {
            id: None,
            key: CmKey::register(held.clone())?,
            held,
        };
        // SAFETY: The driver is there, and the context is the key of a receiver, as the handler asks.
        let raw = from_err_ptr(unsafe {
            bindings::ib_create_cm_id(lease.as_raw(), Some(handle_event), this.key.as_context())
        })?;
        // INVARIANT: Just created with the key, and no other object destroys it.
        let id = this.id.insert(ListenId {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            _lease: lease,
        });
        // SAFETY: The id is valid.
        to_result(unsafe { bindings::ib_cm_listen(id.raw.as_ptr(), service_id.to_be()) })?;
        Ok(this)
    }

    /// Connections that the handler has taken, but that are not established.
    pub(crate) fn half_open(&self) -> u32 {
        self.held.backlog.now.load(Relaxed)
    }
}

impl<T: CmListenOps> Drop for CmListener<T> {
    fn drop(&mut self) {
        self.key.remove();
        let closed = self.held.gate.close();
        let Some(id) = self.id.take() else {
            return;
        };
        match closed {
            // Waits for a short time at most: the gate keeps handlers out.
            Closed::Quiet => drop(id),
            // The caller is the handler: a work item waits for its end. Without memory for that the
            // id stays, as to destroy it here would wait for the caller.
            Closed::Inside => {
                let id = ManuallyDrop::new(id);
                if workqueue::system_unbound()
                    .try_spawn(GFP_KERNEL, move || drop(ManuallyDrop::into_inner(id)))
                    .is_err()
                {
                    pr_err!("no memory to destroy a listener\n");
                }
            }
        }
    }
}
