// SPDX-License-Identifier: GPL-2.0

//! One connection of `ib_cm`, from the request to the end of its timewait.

use super::{
    data::parts,
    event::{
        CmEvent,
        RejectReason, //
    },
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
    listen::HalfOpen,
    path::CmPath,
    steps, //
};
use crate::{
    bindings,
    kapi::{
        compat::errno::{
            EALREADY,
            ECANCELED, //
        },
        verbs::{
            channel::{
                Channel,
                ChannelOps, //
            },
            device::{
                Device,
                Lease, //
            },
        },
    },
};
use core::{
    ops::Deref,
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
    ffi::c_int,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Largest sequence number of a packet.
const MAX_PSN: u32 = 0x00ff_ffff;

/// What happens to a connection.
pub(crate) trait CmOps: Send + Sync + Sized + 'static {
    /// Handles an event of the connection `id`. Context: may sleep.
    ///
    /// Runs once at a time for a connection, and must not wait for other events. It may drop the handle
    /// of the connection.
    fn on_event(self: &Arc<Self>, id: &CmId, event: CmEvent);
}

/// A request for a connection (REQ).
#[derive(Clone, Copy, Debug)]
pub(crate) struct CmRequestParams<'a> {
    /// Service id of the listener.
    pub(crate) service_id: u64,
    /// Number of the queue pair of this side.
    pub(crate) qpn: u32,
    /// Sequence number that the peer's first packet gets.
    pub(crate) psn: u32,
    /// RDMA reads of the peer that this side serves at once.
    pub(crate) responder_resources: u8,
    /// RDMA reads that this side has in flight at most.
    pub(crate) initiator_depth: u8,
    /// Attempts of both queue pairs after a timeout, up to 7.
    pub(crate) retries: u8,
    /// Attempts of the peer's queue pair while no buffer is ready, up to 7; 7 is without end.
    pub(crate) rnr_retries: u8,
    /// Code of the time that the peer needs to answer: 4.096 µs times two to this power, up to 31.
    pub(crate) remote_response_timeout: u8,
    /// The same for this side.
    pub(crate) local_response_timeout: u8,
    /// Attempts to send the request after the first, 1 to 15.
    pub(crate) max_retries: u8,
    /// Private data, up to 92 octets.
    pub(crate) data: &'a [u8],
}

/// A reply to a request (REP).
#[derive(Clone, Copy, Debug)]
pub(crate) struct CmReplyParams<'a> {
    /// Number of the queue pair of this side.
    pub(crate) qpn: u32,
    /// Sequence number that the peer's first packet gets.
    pub(crate) psn: u32,
    /// RDMA reads of the peer that this side serves at once.
    pub(crate) responder_resources: u8,
    /// RDMA reads that this side has in flight at most.
    pub(crate) initiator_depth: u8,
    /// Attempts of the peer's queue pair while no buffer is ready, up to 7; 7 is without end.
    pub(crate) rnr_retries: u8,
    /// Private data, up to 196 octets.
    pub(crate) data: &'a [u8],
}

/// A connection, as long as its handle is there or its handler runs.
///
/// # Invariants
///
/// `raw` is a valid `ib_cm_id` while this object exists, on a leased device.
pub(crate) struct CmId {
    raw: NonNull<bindings::ib_cm_id>,
}

// SAFETY: `ib_cm` serialises the uses of an id.
unsafe impl Send for CmId {}
// SAFETY: As for `Send`.
unsafe impl Sync for CmId {}

impl CmId {
    /// # Safety
    ///
    /// `raw` is valid, on a leased device, while the result exists.
    unsafe fn new(raw: NonNull<bindings::ib_cm_id>) -> Self {
        // INVARIANT: By this function's contract.
        Self { raw }
    }

    /// Replies to the request. The queue pair must be able to receive. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no request to reply to, or a value is out of range; `EMSGSIZE` for too much
    /// data.
    pub(crate) fn reply(&self, reply: &CmReplyParams<'_>) -> Result {
        let (private_data, private_data_len) = parts(
            reply.data,
            bindings::ib_cm_data_size_IB_CM_REP_PRIVATE_DATA_SIZE,
        )?;
        if reply.qpn > MAX_PSN || reply.psn > MAX_PSN || reply.rnr_retries > 7 {
            return Err(EINVAL);
        }
        let mut param = bindings::ib_cm_rep_param {
            qp_num: reply.qpn,
            starting_psn: reply.psn,
            private_data,
            private_data_len,
            responder_resources: reply.responder_resources,
            initiator_depth: reply.initiator_depth,
            flow_control: 1,
            rnr_retry_count: reply.rnr_retries,
            ..Default::default()
        };
        // SAFETY: Valid by the type invariants; the parameters outlive the call, which copies the data.
        to_result(unsafe { bindings::ib_send_cm_rep(self.raw.as_ptr(), &mut param) })
    }

    /// Answers the reply of the peer with RTU. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no reply; `EMSGSIZE` for more than 224 octets.
    pub(crate) fn ready_to_use(&self, data: &[u8]) -> Result {
        let (data, len) = parts(data, bindings::ib_cm_data_size_IB_CM_RTU_PRIVATE_DATA_SIZE)?;
        // SAFETY: Valid by the type invariants; the call copies the data.
        to_result(unsafe { bindings::ib_send_cm_rtu(self.raw.as_ptr(), data, len) })
    }

    /// Rejects the request or the reply of the peer. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none, or this side waits for the peer: drop the handle to give up then.
    /// `EMSGSIZE` for more than 148 octets.
    pub(crate) fn reject(&self, reason: RejectReason, data: &[u8]) -> Result {
        // `ib_cm` would not take its own message back, and the drop of the handle would wait until all
        // attempts to send that are over.
        // SAFETY: Valid by the type invariants. The state is one aligned word; only this module's calls
        // lead into these states.
        let state = unsafe { (&raw const (*self.raw.as_ptr()).state).read_volatile() };
        if matches!(
            state,
            bindings::ib_cm_state_IB_CM_REQ_SENT
                | bindings::ib_cm_state_IB_CM_MRA_REQ_RCVD
                | bindings::ib_cm_state_IB_CM_REP_SENT
                | bindings::ib_cm_state_IB_CM_MRA_REP_RCVD
        ) {
            return Err(EINVAL);
        }
        // SAFETY: Valid by the type invariants.
        unsafe { send_reject(self.raw, reason, data) }
    }

    /// Ends the connection with DREQ. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not established; `EMSGSIZE` for more than 220 octets. After other errors the
    /// connection has ended on this side.
    pub(crate) fn disconnect(&self, data: &[u8]) -> Result {
        let (data, len) = parts(data, bindings::ib_cm_data_size_IB_CM_DREQ_PRIVATE_DATA_SIZE)?;
        // SAFETY: Valid by the type invariants; the call copies the data.
        to_result(unsafe { bindings::ib_send_cm_dreq(self.raw.as_ptr(), data, len) })
    }

    /// Answers the peer's DREQ with DREP. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none; `EMSGSIZE` for more than 224 octets. After other errors the
    /// connection has ended on this side.
    pub(crate) fn confirm_disconnect(&self, data: &[u8]) -> Result {
        let (data, len) = parts(data, bindings::ib_cm_data_size_IB_CM_DREP_PRIVATE_DATA_SIZE)?;
        // SAFETY: Valid by the type invariants; the call copies the data.
        to_result(unsafe { bindings::ib_send_cm_drep(self.raw.as_ptr(), data, len) })
    }

    /// Has duplicates of the request, or of the reply, answered with MRA: this side needs longer.
    /// Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is neither.
    pub(crate) fn delay(&self) -> Result {
        // SAFETY: Valid by the type invariants.
        to_result(unsafe { bindings::ib_prepare_cm_mra(self.raw.as_ptr()) })
    }

    /// Lets the queue pair of a channel receive, by what request and reply say. `psn` is the sequence
    /// number of the request, or of the reply that this side is about to send. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` before the peer's message is there, and those of the driver; `ESHUTDOWN` if the channel
    /// was shut down.
    pub(crate) fn to_rtr<T: ChannelOps>(&self, channel: &Channel<T>, psn: u32) -> Result {
        // SAFETY: Valid by the type invariants; attributes and mask are valid for writes.
        steps::to_rtr(channel, Some(psn), |attr, mask| unsafe {
            bindings::ib_cm_init_qp_attr(self.raw.as_ptr(), attr, mask)
        })
    }

    /// Lets the queue pair of a channel send. Context: may sleep.
    ///
    /// # Errors
    ///
    /// As for [`Self::to_rtr`].
    pub(crate) fn to_rts<T: ChannelOps>(&self, channel: &Channel<T>) -> Result {
        // SAFETY: Valid by the type invariants; attributes and mask are valid for writes.
        steps::to_rts(channel, |attr, mask| unsafe {
            bindings::ib_cm_init_qp_attr(self.raw.as_ptr(), attr, mask)
        })
    }
}

/// Sends REJ.
///
/// # Safety
///
/// `raw` is valid.
pub(super) unsafe fn send_reject(
    raw: NonNull<bindings::ib_cm_id>,
    reason: RejectReason,
    data: &[u8],
) -> Result {
    let (data, len) = parts(data, bindings::ib_cm_data_size_IB_CM_REJ_PRIVATE_DATA_SIZE)?;
    // SAFETY: By this function's contract; the call copies the data.
    to_result(unsafe {
        bindings::ib_send_cm_rej(raw.as_ptr(), reason.code(), null_mut(), 0, data, len)
    })
}

/// What events of a connection need.
struct Connected<T: CmOps> {
    ops: Arc<T>,
    gate: Arc<HandlerGate>,
    half_open: Option<HalfOpen>,
}

impl<T: CmOps> CmReceiver for Connected<T> {
    unsafe fn receive(&self, raw: *mut bindings::ib_cm_id, event: &bindings::ib_cm_event) -> c_int {
        // SAFETY: The connection manager reports the event.
        let (Some(event), Some(raw)) = (unsafe { CmEvent::from_raw(event) }, NonNull::new(raw))
        else {
            return 0;
        };
        if event.settles() {
            if let Some(half_open) = &self.half_open {
                half_open.release();
            }
        }
        let visit = self.gate.visit(|| {
            // SAFETY: The handle was not dropped before the gate was entered, so the id is there, and
            // its device is leased. Its drop waits until the gate was left, or leaves the id to this
            // function.
            let id = unsafe { CmId::new(raw) };
            T::on_event(&self.ops, &id, event);
        });
        match visit {
            // The handle is gone, and has left the id to the connection manager.
            Visit::Abandoned => ECANCELED.to_errno(),
            Visit::Done | Visit::Refused => 0,
        }
    }
}

/// The handle of a connection. Dropping it ends the connection: as the state demands, the peer gets
/// REJ or DREQ. Context: may sleep.
///
/// A message on the queue pair may come before RTU. There is no call that reports it in place of RTU:
/// `ib_cm_notify()` leaves it to a work item to take the reply back, which does not if the connection
/// ends before, and the drop then waits until all attempts to send the reply are over, some 17 s.
///
/// # Invariants
///
/// - The id has `key` as context, and is destroyed by the drop of this object only, or by the
///   connection manager if the drop abandons it.
/// - The device of the id is leased.
pub(crate) struct CmHandle<T: CmOps> {
    id: CmId,
    key: CmKey,
    held: Arc<Connected<T>>,
    /// A request was sent, or brought this id.
    requested: Atomic<bool>,
    lease: Lease,
}

impl<T: CmOps> CmHandle<T> {
    /// A connection on a device, before its request. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed; `ENOMEM`.
    pub(crate) fn new(device: &Arc<Device>, ops: Arc<T>) -> Result<Self> {
        let lease = device.lease()?;
        let held = Connected {
            ops,
            gate: Arc::pin_init(HandlerGate::new(), GFP_KERNEL)?,
            half_open: None,
        };
        let held = Arc::new(held, GFP_KERNEL)?;
        let key = CmKey::register(held.clone())?;
        // SAFETY: The driver is there, and the context is the key of a receiver, as the handler asks.
        let raw = from_err_ptr(unsafe {
            bindings::ib_create_cm_id(lease.as_raw(), Some(handle_event), key.as_context())
        })
        .and_then(|raw| NonNull::new(raw).ok_or(ENOMEM))
        .inspect_err(|_| key.remove())?;
        // INVARIANT: Just created with this key, and no other object destroys it.
        Ok(Self {
            // SAFETY: Just created; the drop of the handle destroys it.
            id: unsafe { CmId::new(raw) },
            key,
            held,
            requested: Atomic::new(false),
            lease,
        })
    }

    /// Takes an id over that a request has brought, in the handler of the listener: events wait until
    /// the caller of that leaves the gate, which is returned as well. Context: may sleep.
    ///
    /// # Safety
    ///
    /// `raw` is valid, and of the leased device. Only the caller knows it, and the connection manager
    /// destroys it if the gate was left as abandoned.
    pub(super) unsafe fn adopt(
        raw: NonNull<bindings::ib_cm_id>,
        lease: Lease,
        half_open: HalfOpen,
        ops: Arc<T>,
    ) -> Result<(Self, Arc<HandlerGate>)> {
        let gate = Arc::pin_init(HandlerGate::new_inside(), GFP_KERNEL)?;
        let held = Connected {
            ops,
            gate: gate.clone(),
            half_open: Some(half_open),
        };
        let held = Arc::new(held, GFP_KERNEL)?;
        let key = CmKey::register(held.clone())?;
        // SAFETY: By this function's contract; the connection manager reads the context for the next
        // event, after the handler has returned. The handler of the id is that of the listener, which
        // is the same function.
        unsafe { (*raw.as_ptr()).context = key.as_context() };
        // INVARIANT: The id has the key, and by this function's contract no other object destroys it.
        let this = Self {
            // SAFETY: By this function's contract; the drop of the handle destroys it.
            id: unsafe { CmId::new(raw) },
            key,
            held,
            requested: Atomic::new(true),
            lease,
        };
        Ok((this, gate))
    }

    /// The context.
    pub(crate) fn ops(&self) -> &Arc<T> {
        &self.held.ops
    }

    /// Sends the request, once in the life of an id. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EALREADY` if it was called before, also without success; `EINVAL` if the path is of another
    /// device, or a value is out of range; `EMSGSIZE` for too much data; those of the device.
    pub(crate) fn request(&self, path: &CmPath, request: &CmRequestParams<'_>) -> Result {
        let (private_data, private_data_len) = parts(
            request.data,
            bindings::ib_cm_data_size_IB_CM_REQ_PRIVATE_DATA_SIZE,
        )?;
        let codes = [
            request.remote_response_timeout,
            request.local_response_timeout,
        ];
        if !Arc::ptr_eq(path.device(), self.lease.device())
            || request.qpn > MAX_PSN
            || request.psn > MAX_PSN
            || request.retries.max(request.rnr_retries) > 7
            || codes.iter().any(|code| *code > 31)
            || !(1..=15).contains(&request.max_retries)
        {
            return Err(EINVAL);
        }
        // `ib_cm` does not expect a second attempt after one that failed. Nothing is ordered by the
        // flag.
        if self.requested.xchg(true, Relaxed) {
            return Err(EALREADY);
        }
        to_result(path.with_raw(|rec, sgid| {
            let mut param = bindings::ib_cm_req_param {
                primary_path: rec,
                ppath_sgid_attr: sgid,
                service_id: request.service_id.to_be(),
                qp_num: request.qpn,
                qp_type: bindings::ib_qp_type_IB_QPT_RC,
                starting_psn: request.psn,
                private_data,
                private_data_len,
                responder_resources: request.responder_resources,
                initiator_depth: request.initiator_depth,
                remote_cm_response_timeout: request.remote_response_timeout,
                flow_control: 1,
                local_cm_response_timeout: request.local_response_timeout,
                retry_count: request.retries,
                rnr_retry_count: request.rnr_retries,
                max_cm_retries: request.max_retries,
                ..Default::default()
            };
            // SAFETY: The id is valid, and by the flag this is the only call for it. The record, the
            // entry and the data outlive the call, which copies what it needs.
            unsafe { bindings::ib_send_cm_req(self.id.raw.as_ptr(), &mut param) }
        }))
    }
}

impl<T: CmOps> Deref for CmHandle<T> {
    type Target = CmId;

    fn deref(&self) -> &CmId {
        &self.id
    }
}

impl<T: CmOps> Drop for CmHandle<T> {
    fn drop(&mut self) {
        self.key.remove();
        match self.held.gate.close() {
            // SAFETY: By the type invariants the id is this object's to destroy. No handler of it runs,
            // and none will find the receiver.
            Closed::Quiet => unsafe { bindings::ib_destroy_cm_id(self.id.raw.as_ptr()) },
            // The connection manager destroys it when the handler has returned. The lease may end
            // before: the removal of a device from the connection manager waits for its handlers, and
            // comes after that from this module.
            Closed::Inside => self.held.gate.abandon(),
        }
    }
}
