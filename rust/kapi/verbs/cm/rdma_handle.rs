// SPDX-License-Identifier: GPL-2.0

//! Handles of ids of `rdma_cm`, and the events and requests that come to them.
//!
//! `rdma_cm` calls all handlers of an id with the mutex of the id held, and its destroy function takes
//! that, too. So an id owns its context by pointer, unlike those of `ib_cm`.

use super::{
    data::parts,
    event::RejectReason,
    gate::{
        Closed,
        HandlerGate,
        Visit, //
    },
    rdma_event::{
        RdmaConnData,
        RdmaIdEvent, //
    },
    rdma_id::{
        Progress,
        RdmaId, //
    },
};
use crate::{
    bindings,
    kapi::{
        compat::errno::ECANCELED,
        net::netns::Net, //
    },
};
use core::{
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::Arc,
    workqueue,
};

/// A space of ports, which an id is made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortSpace {
    /// The ports of RDMA connections by IP address; on iWARP those of TCP.
    Tcp,
    /// Ports of native InfiniBand services.
    Ib,
}

impl PortSpace {
    fn raw(self) -> bindings::rdma_ucm_port_space {
        match self {
            Self::Tcp => bindings::rdma_ucm_port_space_RDMA_PS_TCP,
            Self::Ib => bindings::rdma_ucm_port_space_RDMA_PS_IB,
        }
    }
}

/// What happens to an id.
pub(crate) trait RdmaIdOps: Send + Sync + Sized + 'static {
    /// Handles an event of `id`. Context: may sleep.
    ///
    /// Runs once at a time for an id, and must not wait for other events. It may drop the handle of the
    /// id.
    fn on_event(self: &Arc<Self>, id: &RdmaId, event: RdmaIdEvent);

    /// Handles a request for an id that listens. Context: may sleep.
    ///
    /// A request that the handler does not take is rejected.
    fn on_request(self: &Arc<Self>, request: RdmaIdRequest<'_>) {
        let (_, _) = (self, request);
    }
}

/// The context of an id. A C id with a handle owns a reference.
struct RdmaIdContext<T: RdmaIdOps> {
    ops: Arc<T>,
    progress: Arc<Progress>,
}

/// A request that waits for the decision of the handler.
///
/// # Invariants
///
/// `raw` is the id that the request has brought, valid for the lifetime. Its handler mutex is held, and
/// it has a device.
pub(crate) struct RdmaIdRequest<'a> {
    raw: NonNull<bindings::rdma_cm_id>,
    data: RdmaConnData,
    taken: &'a mut Option<Arc<HandlerGate>>,
}

impl RdmaIdRequest<'_> {
    /// What the peer says.
    pub(crate) fn data(&self) -> &RdmaConnData {
        &self.data
    }

    /// Makes it an id that the engine has to answer, now or later. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the request is rejected then.
    pub(crate) fn take<T: RdmaIdOps>(self, ops: Arc<T>) -> Result<RdmaIdHandle<T>> {
        let gate = Arc::pin_init(HandlerGate::new_inside(), GFP_KERNEL)?;
        // INVARIANT: The id has a device.
        let progress = Progress::new(gate.clone(), true)?;
        let context = RdmaIdContext {
            ops,
            progress: progress.clone(),
        };
        let context = Arc::into_raw(Arc::new(context, GFP_KERNEL)?);
        // SAFETY: Valid by the type invariants. The mutex is held, so the fields are read after the
        // handler has returned. The context is of the type that the handler expects.
        unsafe {
            bindings::rdma_sock_helper_rdma_cm_adopt(
                self.raw.as_ptr(),
                Some(handle_event::<T>),
                context.cast_mut().cast(),
            )
        };
        *self.taken = Some(gate);
        // INVARIANT: The id owns the reference to its context, and is given to this handle: the handler
        // returns an error to the connection manager only if the handle abandoned it.
        Ok(RdmaIdHandle {
            // SAFETY: Valid, and from now on as long as the handle.
            id: unsafe { RdmaId::new(self.raw, progress) },
            context,
        })
    }

    /// Rejects it. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` for more than 148 octets, and those of the transport. It is rejected anyway.
    pub(crate) fn reject(self, data: &[u8]) -> Result {
        let (data, len) = parts(data, bindings::ib_cm_data_size_IB_CM_REJ_PRIVATE_DATA_SIZE)?;
        let reason = u8::try_from(RejectReason::CONSUMER_DEFINED.code())?;
        // SAFETY: Valid by the type invariants, with the mutex held; the call copies the data.
        to_result(unsafe { bindings::rdma_reject(self.raw.as_ptr(), data, len, reason) })
    }
}

/// The handler of all ids of this module whose context is of a `T`.
///
/// # Safety
///
/// Called by `rdma_cm`, with valid pointers and the handler mutex held. `raw` has a [`RdmaIdContext<T>`], which
/// is that of a listener if this is a request.
unsafe extern "C" fn handle_event<T: RdmaIdOps>(
    raw: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    let (ops, progress) = {
        // SAFETY: By this function's contract the context is valid: to destroy the id, or the listener,
        // takes the mutex, and only a handler of the id could drop the context before.
        let context =
            unsafe { &*bindings::rdma_sock_helper_rdma_cm_context(raw).cast::<RdmaIdContext<T>>() };
        (context.ops.clone(), context.progress.clone())
    };
    // SAFETY: By this function's contract.
    let event = unsafe { &*event };
    let Some(raw) = NonNull::new(raw) else {
        return 0;
    };
    if event.event == bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST {
        // SAFETY: By this function's contract.
        return unsafe { handle_request(raw, &ops, &progress, event) };
    }
    // SAFETY: It is no request, so of a connected id.
    let Some(event) = (unsafe { RdmaIdEvent::from_raw(event) }) else {
        return 0;
    };
    if matches!(event, RdmaIdEvent::AddrResolved) {
        // Also for a handle that is being dropped: its id got the device just now.
        // SAFETY: By this function's contract the handler mutex is held.
        unsafe { progress.keep_device(raw) };
    }
    let visit = progress.gate().visit(|| {
        // SAFETY: The handle was not dropped before the gate was entered. Its drop waits until the gate
        // was left, or leaves the id to this function. The progress is that of the id.
        let id = unsafe { RdmaId::new(raw, progress.clone()) };
        id.note(&event);
        T::on_event(&ops, &id, event);
    });
    match visit {
        // The handle is gone, and has left the id to the connection manager.
        Visit::Abandoned => ECANCELED.to_errno(),
        Visit::Done | Visit::Refused => 0,
    }
}

/// Handles a request for a listener.
///
/// # Safety
///
/// As for [`handle_event`]: `event` is a request that has brought `raw`.
unsafe fn handle_request<T: RdmaIdOps>(
    raw: NonNull<bindings::rdma_cm_id>,
    ops: &Arc<T>,
    progress: &Progress,
    event: &bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: By this function's contract.
    let data = unsafe { RdmaConnData::from_raw(event) };
    let mut taken = None;
    progress.gate().visit(|| {
        // INVARIANT: The id stays until this function has returned, with its mutex held. `rdma_cm` gives
        // it a device before it reports the request.
        let request = RdmaIdRequest {
            raw,
            data,
            taken: &mut taken,
        };
        T::on_request(ops, request);
    });
    match taken {
        // The connection manager rejects the request, and destroys the id.
        None => ECANCELED.to_errno(),
        Some(gate) => match gate.leave() {
            Visit::Abandoned => ECANCELED.to_errno(),
            Visit::Done | Visit::Refused => 0,
        },
    }
}

/// An id that is destroyed by its drop, which waits for its handler. Context: may sleep.
///
/// # Invariants
///
/// `raw` is a valid `rdma_cm_id` that owns a reference to `context`, owned by this object.
struct OwnedId<T: RdmaIdOps> {
    raw: NonNull<bindings::rdma_cm_id>,
    context: *const RdmaIdContext<T>,
    progress: Arc<Progress>,
}

// SAFETY: An id may be destroyed by any task, and its context is `Send` and `Sync`.
unsafe impl<T: RdmaIdOps> Send for OwnedId<T> {}

impl<T: RdmaIdOps> Drop for OwnedId<T> {
    fn drop(&mut self) {
        let raw = self.raw.as_ptr();
        // SAFETY: By the type invariants. A handler does not drop this object.
        unsafe { bindings::rdma_lock_handler(raw) };
        // SAFETY: As above; the mutex was just taken.
        unsafe { self.progress.keep_device(self.raw) };
        // SAFETY: It was taken above.
        unsafe { bindings::rdma_unlock_handler(raw) };
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_destroy_id(raw) };
        self.progress.release_device();
        // SAFETY: By the type invariants; no handler of the id runs any longer.
        drop(unsafe { Arc::from_raw(self.context) });
    }
}

/// The handle of an id. Dropping it ends what the id does: a resolution, a listener, a connection.
/// Context: may sleep.
///
/// # Invariants
///
/// The id owns a reference to `context`. Only the drop of this object destroys the id, or the connection
/// manager if the drop abandons it.
pub(crate) struct RdmaIdHandle<T: RdmaIdOps> {
    id: RdmaId,
    context: *const RdmaIdContext<T>,
}

// SAFETY: The context is `Send` and `Sync`, and so is the id.
unsafe impl<T: RdmaIdOps> Send for RdmaIdHandle<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: RdmaIdOps> Sync for RdmaIdHandle<T> {}

impl<T: RdmaIdOps> RdmaIdHandle<T> {
    /// A new id for reliable connections, in a network namespace. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(net: &Net, space: PortSpace, ops: Arc<T>) -> Result<Self> {
        let gate = Arc::pin_init(HandlerGate::new(), GFP_KERNEL)?;
        let progress = Progress::new(gate, false)?;
        let context = RdmaIdContext {
            ops,
            progress: progress.clone(),
        };
        let context = Arc::new(context, GFP_KERNEL)?;
        // SAFETY: The namespace is valid, and the context is of the type that the handler expects. The
        // id gets a reference below, before any handler can run.
        let raw = from_err_ptr(unsafe {
            bindings::rdma_sock_helper_rdma_create_id(
                net.as_raw(),
                Some(handle_event::<T>),
                Arc::as_ptr(&context).cast_mut().cast::<c_void>(),
                space.raw(),
            )
        })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // INVARIANT: The id owns the reference from here on, and only this handle destroys it.
        Ok(Self {
            // SAFETY: Just created, and valid as long as the handle.
            id: unsafe { RdmaId::new(raw, progress) },
            context: Arc::into_raw(context),
        })
    }

    /// The context.
    pub(crate) fn ops(&self) -> &Arc<T> {
        // SAFETY: By the type invariants the context is there as long as the handle.
        unsafe { &(*self.context).ops }
    }
}

impl<T: RdmaIdOps> Deref for RdmaIdHandle<T> {
    type Target = RdmaId;

    fn deref(&self) -> &RdmaId {
        &self.id
    }
}

impl<T: RdmaIdOps> Drop for RdmaIdHandle<T> {
    fn drop(&mut self) {
        let progress = self.id.progress().clone();
        // INVARIANT: The handle is gone when this function returns.
        let owned = || OwnedId::<T> {
            raw: self.id.raw(),
            context: self.context,
            progress: progress.clone(),
        };
        match progress.gate().close() {
            Closed::Quiet => drop(owned()),
            // A listener is not the id that its handler is called for: a work item waits for the end of
            // the caller. Without memory for that the id stays.
            Closed::Inside if progress.listens() => {
                let owned = ManuallyDrop::new(owned());
                if workqueue::system_unbound()
                    .try_spawn(GFP_KERNEL, move || drop(ManuallyDrop::into_inner(owned)))
                    .is_err()
                {
                    pr_err!("no memory to destroy a listener\n");
                }
            }
            // The connection manager destroys the id when the handler has returned.
            Closed::Inside => {
                // As for an engine that returns an error to the connection manager, whose function that
                // destroys the id may run beside a removal.
                progress.release_device();
                progress.gate().abandon();
                // SAFETY: The id has owned this reference. The functions that call handlers do not use
                // the context after the handler, and the connection manager calls no other one.
                drop(unsafe { Arc::from_raw(self.context) });
            }
        }
    }
}
