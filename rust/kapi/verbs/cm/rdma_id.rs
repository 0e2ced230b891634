// SPDX-License-Identifier: GPL-2.0

//! Ids of `rdma_cm`: they resolve addresses, and make connections by address.

use super::{
    data::parts,
    event::RejectReason,
    gate::HandlerGate,
    path::CmPath,
    rdma_event::{
        RdmaConnParams,
        RdmaIdEvent, //
    },
    steps, //
};
use crate::{
    bindings,
    kapi::{
        compat::errno::{
            EALREADY,
            ENOTCONN, //
        },
        net::addr::{
            Addr,
            AF_INET,
            AF_INET6, //
        },
        verbs::{
            channel::{
                Channel,
                ChannelOps, //
            },
            device::Device, //
        },
    },
};
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::{
    error::to_result,
    ffi::c_ulong,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc,
        Mutex, //
    },
};

/// A socket address as C has it.
#[repr(C, align(8))]
struct Sockaddr([u8; 128]);

impl Sockaddr {
    fn new(addr: &Addr) -> Self {
        let mut raw = [0; 128];
        let mut at = raw.iter_mut();
        let mut put = |octets: &[u8]| {
            // In this order, as the end of the octets must not take one of the address.
            for (from, to) in octets.iter().zip(at.by_ref()) {
                *to = *from;
            }
        };
        match addr {
            Addr::V4 { ip, port } => {
                put(&AF_INET.to_ne_bytes());
                put(&port.to_be_bytes());
                put(ip);
            }
            Addr::V6 { ip, port, scope } => {
                put(&AF_INET6.to_ne_bytes());
                put(&port.to_be_bytes());
                put(&[0; 4]);
                put(ip);
                put(&scope.to_ne_bytes());
            }
        }
        Self(raw)
    }

    fn as_raw(&mut self) -> *mut bindings::sockaddr {
        self.0.as_mut_ptr().cast()
    }
}

/// Keeps the device of an id registered: its removal waits for the drop of this object.
///
/// `rdma_cm` destroys an id in two steps: it lets a removal of the device go on, and then releases the
/// id's entry in the address table of the device, which may be freed in between.
///
/// # Invariants
///
/// The pointer is of a device, with a reference to its registration that this object owns.
struct KeptDevice(NonNull<bindings::ib_device>);

// SAFETY: Any task may put a reference to a registration.
unsafe impl Send for KeptDevice {}

impl Drop for KeptDevice {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_device_put(self.0.as_ptr()) };
    }
}

/// How far an id has come, and what serialises its uses.
#[pin_data]
pub(super) struct Progress {
    gate: Arc<HandlerGate>,
    /// Held while the id is bound, resolves or begins to listen; whether it has begun to resolve.
    #[pin]
    setup: Mutex<bool>,
    /// It has a device. The address does not change from then on.
    has_device: Atomic<bool>,
    /// It has a path, which does not change from then on.
    has_path: Atomic<bool>,
    /// It has begun to listen.
    listens: Atomic<bool>,
    /// Its device, from its resolution or the begin of its end on until it is destroyed.
    #[pin]
    kept: Mutex<Option<KeptDevice>>,
}

impl Progress {
    /// That of a new id, or of one that a request has brought, which has a device.
    pub(super) fn new(gate: Arc<HandlerGate>, has_device: bool) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                gate,
                setup <- new_mutex!(false, "rdma_sock_rdma_id_setup"),
                has_device: Atomic::new(has_device),
                has_path: Atomic::new(false),
                listens: Atomic::new(false),
                kept <- new_mutex!(None, "rdma_sock_rdma_id_kept"),
            }),
            GFP_KERNEL,
        )
    }

    /// The gate of the handlers.
    pub(super) fn gate(&self) -> &HandlerGate {
        &self.gate
    }

    /// Keeps the device of the id, if it has one. Context: may sleep.
    ///
    /// # Safety
    ///
    /// `raw` is the id, with its handler mutex held.
    pub(super) unsafe fn keep_device(&self, raw: NonNull<bindings::rdma_cm_id>) {
        let mut kept = self.kept.lock();
        if kept.is_none() {
            // SAFETY: By this function's contract. The device is there while it is the id's.
            let device = unsafe { bindings::rdma_sock_helper_rdma_cm_keep_device(raw.as_ptr()) };
            // INVARIANT: The helper has taken the reference for this object.
            *kept = NonNull::new(device).map(KeptDevice);
        }
    }

    /// The device is not needed any longer. Context: may sleep.
    pub(super) fn release_device(&self) {
        let kept = self.kept.lock().take();
        drop(kept);
    }

    /// Whether the id has begun to listen.
    pub(super) fn listens(&self) -> bool {
        self.listens.load(Relaxed)
    }
}

/// An id, as long as its handle is there or its handler runs.
///
/// # Invariants
///
/// - `raw` is a valid `rdma_cm_id` while this object exists, and `progress` is that of the id.
/// - If `has_device` is set, so is the device of the id, which stays until the id is destroyed.
/// - If `has_path` is set, so are the path and the entry that it begins at, which stay, too.
pub(crate) struct RdmaId {
    raw: NonNull<bindings::rdma_cm_id>,
    progress: Arc<Progress>,
}

// SAFETY: Uses of an id are serialised by `setup` and by its handler mutex.
unsafe impl Send for RdmaId {}
// SAFETY: As for `Send`.
unsafe impl Sync for RdmaId {}

impl RdmaId {
    /// # Safety
    ///
    /// `raw` is valid while the result exists, and `progress` is that of the id.
    pub(super) unsafe fn new(raw: NonNull<bindings::rdma_cm_id>, progress: Arc<Progress>) -> Self {
        // INVARIANT: By this function's contract.
        Self { raw, progress }
    }

    /// The pointer for C.
    pub(super) fn raw(&self) -> NonNull<bindings::rdma_cm_id> {
        self.raw
    }

    /// How far it has come.
    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Runs `f` with the handler mutex of the id held; handlers hold it already. Fails for a listener:
    /// its handler holds the mutex of the id that the request has brought.
    fn with_handler_lock(&self, f: impl FnOnce(*mut bindings::rdma_cm_id) -> Result) -> Result {
        if self.progress.listens.load(Relaxed) {
            return Err(EINVAL);
        }
        let raw = self.raw.as_ptr();
        if self.progress.gate.is_inside() {
            return f(raw);
        }
        // SAFETY: Valid by the type invariants, and this task does not hold the mutex: the functions of
        // this file take it last, and handlers are inside of the gate.
        unsafe { bindings::rdma_lock_handler(raw) };
        let result = f(raw);
        // SAFETY: It was taken above.
        unsafe { bindings::rdma_unlock_handler(raw) };
        result
    }

    /// Binds the id to an address of this host, or to a port of all addresses. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`; `EADDRNOTAVAIL` or `ENODEV` if no RDMA device has the address; `EINVAL` if the id is
    /// bound.
    pub(crate) fn bind(&self, addr: &Addr) -> Result {
        let mut addr = Sockaddr::new(addr);
        let _setup = self.progress.setup.lock();
        // SAFETY: Valid by the type invariants; the address outlives the call, which copies it.
        to_result(unsafe { bindings::rdma_bind_addr(self.raw.as_ptr(), addr.as_raw()) })
    }

    /// Resolves the address of a peer, once in the life of an id; the end is an event. `from` is an
    /// address of this host for an id that is not bound. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EALREADY` if it was called before; `EINVAL` for an address of another family than the bound
    /// one; those of binding.
    pub(crate) fn resolve_addr(&self, from: Option<&Addr>, to: &Addr, timeout_ms: u32) -> Result {
        let mut from = from.map(Sockaddr::new);
        let mut to = Sockaddr::new(to);
        let mut begun = self.progress.setup.lock();
        // A second attempt would wait for the handler of the first, which may be the caller.
        if *begun {
            return Err(EALREADY);
        }
        *begun = true;
        // SAFETY: Valid by the type invariants; the addresses outlive the call, which copies them.
        to_result(unsafe {
            bindings::rdma_resolve_addr(
                self.raw.as_ptr(),
                from.as_mut().map_or(null_mut(), Sockaddr::as_raw),
                to.as_raw(),
                c_ulong::try_from(timeout_ms)?,
            )
        })
    }

    /// Resolves the route to the peer whose address is resolved; the end is an event. Context: may
    /// sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a resolved address, or for a timeout of 0.
    pub(crate) fn resolve_route(&self, timeout_ms: u32) -> Result {
        let _setup = self.progress.setup.lock();
        // SAFETY: Valid by the type invariants.
        to_result(unsafe {
            bindings::rdma_resolve_route(self.raw.as_ptr(), c_ulong::try_from(timeout_ms)?)
        })
    }

    /// Listens for connections to the bound address. Context: may sleep.
    ///
    /// Only iWARP knows a backlog: on InfiniBand and RoCE every request comes to the handler.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the id is connected or resolves; `EADDRINUSE`.
    pub(crate) fn listen(&self, backlog: u16) -> Result {
        let _setup = self.progress.setup.lock();
        // Before the first request, whose handler may drop the handle.
        self.progress.listens.store(true, Relaxed);
        // SAFETY: Valid by the type invariants.
        to_result(unsafe { bindings::rdma_listen(self.raw.as_ptr(), backlog.into()) })
    }

    /// Whether the id is resolved to, or its connection is on, this device. Context: any.
    pub(crate) fn is_on(&self, device: &Device) -> bool {
        self.device()
            .is_some_and(|raw| device.with(|other| Ok(other == raw)).unwrap_or(false))
    }

    fn device(&self) -> Option<*mut bindings::ib_device> {
        if !self.progress.has_device.load(Acquire) {
            return None;
        }
        // SAFETY: Valid by the type invariants; the field does not change any longer.
        Some(unsafe { bindings::rdma_sock_helper_rdma_cm_device(self.raw.as_ptr()) })
    }

    /// The port of the device. Context: any.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` before the address is resolved.
    pub(crate) fn port(&self) -> Result<u32> {
        self.device().ok_or(ENOTCONN)?;
        // SAFETY: Valid by the type invariants; the field is set with the device.
        Ok(unsafe { bindings::rdma_sock_helper_rdma_cm_port(self.raw.as_ptr()) })
    }

    /// The GIDs of both ends: of this host, of the peer. Context: any.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` before the address is resolved.
    pub(crate) fn gids(&self) -> Result<([u8; 16], [u8; 16])> {
        self.device().ok_or(ENOTCONN)?;
        let (mut local, mut remote) = (bindings::ib_gid::default(), bindings::ib_gid::default());
        // SAFETY: Valid by the type invariants; the addresses do not change any longer, and both results
        // are valid for writes.
        unsafe { bindings::rdma_read_gids(self.raw.as_ptr(), &mut local, &mut remote) };
        // SAFETY: All octets of the unions are initialised.
        Ok(unsafe { (*local.raw, *remote.raw) })
    }

    /// The path to the peer, for a request of `ib_cm`. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` before the route is resolved; `EINVAL` if it begins at another device; `ENODEV` if the
    /// device is being removed, or is of a kind that has no path.
    pub(crate) fn path(&self, device: &Arc<Device>) -> Result<CmPath> {
        if !self.progress.has_path.load(Acquire) {
            return Err(ENOTCONN);
        }
        let lease = device.lease()?;
        if self.device() != Some(lease.as_raw()) {
            return Err(EINVAL);
        }
        let port = self.port()?;
        // SAFETY: Valid by the type invariants; the path does not change any longer.
        let rec = unsafe { bindings::rdma_sock_helper_rdma_cm_path(self.raw.as_ptr()) };
        // SAFETY: As above, for the entry.
        let attr = unsafe { bindings::rdma_sock_helper_rdma_cm_sgid_attr(self.raw.as_ptr()) };
        let attr = NonNull::new(attr.cast_mut()).ok_or(ENODEV)?;
        // SAFETY: Null, or valid by the type invariants.
        let rec = unsafe { rec.as_ref() }.ok_or(ENODEV)?;
        // SAFETY: Both are of the port of this device, which the id keeps during the call.
        Ok(unsafe { CmPath::from_raw(lease, port, rec, attr) })
    }

    /// Asks the peer for a connection; the route must be resolved. Context: may sleep.
    ///
    /// On iWARP, a driver may wait for the peer.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a route, or if the private data does not fit; those of the transport.
    pub(crate) fn connect(&self, params: &RdmaConnParams<'_>) -> Result {
        let mut param = params.raw()?;
        self.with_handler_lock(|raw| {
            // SAFETY: Valid by the type invariants, and the handler mutex is held; the data outlives
            // the call, which copies it.
            to_result(unsafe { bindings::rdma_connect_locked(raw, &mut param) })
        })
    }

    /// Accepts the request that has brought this id. The queue pair must be able to receive and to send,
    /// except on iWARP. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none; those of the transport. The request was rejected then.
    pub(crate) fn accept(&self, params: &RdmaConnParams<'_>) -> Result {
        let mut param = params.raw()?;
        self.with_handler_lock(|raw| {
            // SAFETY: Valid by the type invariants, and the handler mutex is held; the data outlives
            // the call, which copies it.
            to_result(unsafe { bindings::rdma_accept(raw, &mut param) })
        })
    }

    /// Confirms the peer's response: the connection is established. The queue pair must be able to
    /// send. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no response; those of the transport.
    pub(crate) fn confirm(&self) -> Result {
        self.with_handler_lock(|raw| {
            // SAFETY: Valid by the type invariants, and the handler mutex is held. For a response there
            // are no parameters.
            to_result(unsafe { bindings::rdma_accept(raw, null_mut()) })
        })
    }

    /// Rejects the request or the response of the peer. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none; `EMSGSIZE` for more than 148 octets.
    pub(crate) fn reject(&self, data: &[u8]) -> Result {
        let (data, len) = parts(data, bindings::ib_cm_data_size_IB_CM_REJ_PRIVATE_DATA_SIZE)?;
        let reason = u8::try_from(RejectReason::CONSUMER_DEFINED.code())?;
        self.with_handler_lock(|raw| {
            // SAFETY: Valid by the type invariants, and the handler mutex is held; the data outlives
            // the call, which copies it.
            to_result(unsafe { bindings::rdma_reject(raw, data, len, reason) })
        })
    }

    /// Ends the connection, or answers the end by the peer. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no connection.
    pub(crate) fn disconnect(&self) -> Result {
        self.with_handler_lock(|raw| {
            // SAFETY: Valid by the type invariants, and the handler mutex is held.
            to_result(unsafe { bindings::rdma_disconnect(raw) })
        })
    }

    /// Lets the queue pair of a channel receive, by what request and response say. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` before the address is resolved; `EINVAL` before the peer's message is there, and those
    /// of the driver.
    pub(crate) fn to_rtr<T: ChannelOps>(&self, channel: &Channel<T>) -> Result {
        self.device().ok_or(ENOTCONN)?;
        self.with_handler_lock(|raw| {
            // SAFETY: Valid by the type invariants, with a device; the results are valid for writes.
            steps::to_rtr(channel, None, |attr, mask| unsafe {
                bindings::rdma_init_qp_attr(raw, attr, mask)
            })
        })
    }

    /// Lets the queue pair of a channel send. Context: may sleep.
    ///
    /// # Errors
    ///
    /// As for [`Self::to_rtr`].
    pub(crate) fn to_rts<T: ChannelOps>(&self, channel: &Channel<T>) -> Result {
        self.device().ok_or(ENOTCONN)?;
        self.with_handler_lock(|raw| {
            // SAFETY: Valid by the type invariants, with a device; the results are valid for writes.
            steps::to_rts(channel, |attr, mask| unsafe {
                bindings::rdma_init_qp_attr(raw, attr, mask)
            })
        })
    }

    /// Notes what an event of this id says of its fields, before the handler uses them.
    pub(super) fn note(&self, event: &RdmaIdEvent) {
        match event {
            // INVARIANT: The address has a device from this event on.
            RdmaIdEvent::AddrResolved => self.progress.has_device.store(true, Release),
            // INVARIANT: The path is there from this event on.
            RdmaIdEvent::RouteResolved => self.progress.has_path.store(true, Release),
            _ => {}
        }
    }
}
