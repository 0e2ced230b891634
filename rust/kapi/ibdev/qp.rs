// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs, their changes, and the handle of a queue pair.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    sgid::AddressVector,
    shell::ObjectGate,
    user::{
        NewRing,
        UserRing, //
    },
};
use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The rights of a memory region, or those that a queue pair gives to its peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MrAccess {
    /// Work requests of this side write.
    pub(crate) local_write: bool,
    /// The peer writes.
    pub(crate) remote_write: bool,
    /// The peer reads.
    pub(crate) remote_read: bool,
    /// The peer executes atomic operations.
    pub(crate) remote_atomic: bool,
    /// Windows may be bound to the region (RNIC-MR-14).
    pub(crate) window_bind: bool,
    /// The peer makes its writes visible to all of the host (RNIC-RDA-10).
    pub(crate) remote_flush: bool,
}

impl MrAccess {
    /// # Errors
    ///
    /// `EINVAL` for rights that the device does not know, unless they are optional (RNIC-MR-09).
    pub(super) fn new(flags: i32) -> Result<Self> {
        const KNOWN: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_READ
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
            | bindings::ib_access_flags_IB_ACCESS_MW_BIND
            | bindings::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL
            | bindings::ib_access_flags_IB_ACCESS_OPTIONAL;
        let flags = flags as u32;
        if flags & !KNOWN != 0 {
            return Err(EINVAL);
        }
        let has = |flag| flags & flag != 0;
        Ok(Self {
            local_write: has(bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE),
            remote_write: has(bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE),
            remote_read: has(bindings::ib_access_flags_IB_ACCESS_REMOTE_READ),
            remote_atomic: has(bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC),
            window_bind: has(bindings::ib_access_flags_IB_ACCESS_MW_BIND),
            remote_flush: has(bindings::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL),
        })
    }
}

/// The type of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IbQpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagrams.
    Ud,
    /// General services interface.
    Gsi,
}

impl IbQpType {
    /// Whether it has one peer, whose address is one of its attributes.
    pub(crate) const fn is_connected(self) -> bool {
        matches!(self, Self::Rc | Self::Uc)
    }
}

/// The state of a queue pair, as the verbs core names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IbQpState {
    /// RESET.
    Reset,
    /// INIT.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue drained.
    Sqd,
    /// Send queue error.
    Sqe,
    /// Error.
    Err,
}

impl IbQpState {
    const fn new(code: bindings::ib_qp_state) -> Option<Self> {
        Some(match code {
            bindings::ib_qp_state_IB_QPS_RESET => Self::Reset,
            bindings::ib_qp_state_IB_QPS_INIT => Self::Init,
            bindings::ib_qp_state_IB_QPS_RTR => Self::Rtr,
            bindings::ib_qp_state_IB_QPS_RTS => Self::Rts,
            bindings::ib_qp_state_IB_QPS_SQD => Self::Sqd,
            bindings::ib_qp_state_IB_QPS_SQE => Self::Sqe,
            bindings::ib_qp_state_IB_QPS_ERR => Self::Err,
            _ => return None,
        })
    }

    const fn code(self) -> bindings::ib_qp_state {
        match self {
            Self::Reset => bindings::ib_qp_state_IB_QPS_RESET,
            Self::Init => bindings::ib_qp_state_IB_QPS_INIT,
            Self::Rtr => bindings::ib_qp_state_IB_QPS_RTR,
            Self::Rts => bindings::ib_qp_state_IB_QPS_RTS,
            Self::Sqd => bindings::ib_qp_state_IB_QPS_SQD,
            Self::Sqe => bindings::ib_qp_state_IB_QPS_SQE,
            Self::Err => bindings::ib_qp_state_IB_QPS_ERR,
        }
    }
}

/// Sizes of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpCaps {
    /// Send work requests.
    pub(crate) max_send_wr: u32,
    /// Receive work requests.
    pub(crate) max_recv_wr: u32,
    /// Elements of a send work request.
    pub(crate) max_send_sge: u32,
    /// Elements of a receive work request.
    pub(crate) max_recv_sge: u32,
    /// Octets of inline data.
    pub(crate) max_inline: u32,
}

impl QpCaps {
    /// Reads the structure of the verbs core.
    pub(super) fn new(raw: &bindings::ib_qp_cap) -> Self {
        Self {
            max_send_wr: raw.max_send_wr,
            max_recv_wr: raw.max_recv_wr,
            max_send_sge: raw.max_send_sge,
            max_recv_sge: raw.max_recv_sge,
            max_inline: raw.max_inline_data,
        }
    }

    /// Fills in the structure of the verbs core.
    pub(super) fn fill(&self, raw: &mut bindings::ib_qp_cap) {
        raw.max_send_wr = self.max_send_wr;
        raw.max_recv_wr = self.max_recv_wr;
        raw.max_send_sge = self.max_send_sge;
        raw.max_recv_sge = self.max_recv_sge;
        raw.max_inline_data = self.max_inline;
    }
}

/// A queue pair that a program wants.
pub(crate) struct QpInit<P, C, S> {
    /// Type.
    pub(crate) kind: IbQpType,
    /// Protection domain.
    pub(crate) pd: Arc<P>,
    /// Completion queue of sends.
    pub(crate) send_cq: Arc<C>,
    /// Completion queue of receives.
    pub(crate) recv_cq: Arc<C>,
    /// The shared receive queue, in place of a queue of its own.
    pub(crate) srq: Option<Arc<S>>,
    /// Sizes.
    pub(crate) caps: QpCaps,
    /// Whether all sends generate completions.
    pub(crate) signal_all: bool,
    /// Its handle.
    pub(crate) handle: QpHandle,
}

/// The rings of work requests that a program in user space fills.
pub(crate) struct QpRings {
    /// Of send work requests.
    pub(crate) sends: Arc<UserRing>,
    /// Of receive work requests, unless they come from a shared queue.
    pub(crate) receives: Option<Arc<UserRing>>,
}

/// Both rings with their mappings.
pub(super) struct QpMappings {
    pub(super) sends: NewRing,
    pub(super) receives: Option<NewRing>,
}

/// The queue pair that a completion names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QpToken(*mut bindings::ib_qp);

// SAFETY: The pointer is only passed on.
unsafe impl Send for QpToken {}
// SAFETY: As above.
unsafe impl Sync for QpToken {}

impl QpToken {
    /// The value for a pointer.
    #[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
    pub(super) const fn new(qp: *mut bindings::ib_qp) -> Self {
        Self(qp)
    }

    /// The pointer for C.
    pub(super) const fn as_raw(self) -> *mut bindings::ib_qp {
        self.0
    }
}

/// An asynchronous event of a queue pair (RNIC-EVT-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpAsyncEvent {
    /// The first packet arrived before the queue pair was ready to send.
    Established,
    /// The send queue is drained.
    Drained,
    /// The queue pair failed.
    Fatal,
    /// The peer sent an invalid request.
    RequestError,
    /// The peer named memory that it may not access.
    AccessError,
    /// The queue pair failed, and takes nothing from its shared receive queue any longer.
    LastReceive,
}

/// Calls the handler of a queue pair, until it is destroyed.
///
/// # Invariants
///
/// The pointer is valid until the gate is closed.
pub(crate) struct QpHandle {
    qp: NonNull<bindings::ib_qp>,
    gate: ObjectGate,
    /// The rings that a program in user space maps.
    mappings: Option<QpMappings>,
}

// SAFETY: The handler may be called from any thread.
unsafe impl Send for QpHandle {}
// SAFETY: As above.
unsafe impl Sync for QpHandle {}

impl QpHandle {
    /// # Safety
    ///
    /// `qp` must be valid until [`Self::close`] has returned.
    pub(super) unsafe fn new(qp: NonNull<bindings::ib_qp>, mappings: Option<QpMappings>) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            qp,
            gate: ObjectGate::new(),
            mappings,
        }
    }

    /// Whether the queue pair is one of user space.
    pub(super) const fn is_user(&self) -> bool {
        self.mappings.is_some()
    }

    /// The rings of a program in user space, which posts by them only.
    pub(crate) fn rings(&self) -> Option<QpRings> {
        self.mappings.as_ref().map(|mappings| QpRings {
            sends: mappings.sends.ring().clone(),
            receives: mappings.receives.as_ref().map(|ring| ring.ring().clone()),
        })
    }

    /// The value that completions of the queue pair carry. The driver removes them from all queues
    /// before the queue pair is destroyed (RNIC-QPS-09).
    pub(crate) const fn token(&self) -> QpToken {
        QpToken(self.qp.as_ptr())
    }

    /// Reports an event. Context: softirq. The caller holds no lock (RNIC-EVT-02).
    pub(crate) fn dispatch(&self, event: QpAsyncEvent) {
        let kind = match event {
            QpAsyncEvent::Established => bindings::ib_event_type_IB_EVENT_COMM_EST,
            QpAsyncEvent::Drained => bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
            QpAsyncEvent::Fatal => bindings::ib_event_type_IB_EVENT_QP_FATAL,
            QpAsyncEvent::RequestError => bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
            QpAsyncEvent::AccessError => bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
            QpAsyncEvent::LastReceive => bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
        };
        self.gate.enter(|| {
            // SAFETY: By the type invariants, as the gate is open.
            unsafe { bindings::rdma_sock_helper_ibqp_event(self.qp.as_ptr(), kind) }
        });
    }

    /// Whether the queue pair cannot be destroyed: the caller is its handler, or a handler of a queue that it
    /// completes by. Context: any.
    pub(super) fn refuses_end(&self, completes: bool) -> bool {
        self.gate.refuses_end(completes)
    }

    /// Waits for a handler that runs; there are no others. Nothing maps the rings from here on.
    /// Context: may sleep.
    pub(super) fn close(&self) {
        self.gate.close();
        if let Some(mappings) = &self.mappings {
            mappings.sends.mapping.remove();
            if let Some(receives) = &mappings.receives {
                receives.mapping.remove();
            }
        }
    }
}

/// A change of a queue pair.
pub(crate) struct QpChange<'a> {
    attr: &'a bindings::ib_qp_attr,
    mask: u32,
    kind: bindings::ib_qp_type,
}

/// Defines readers of attributes that are there if a bit of the mask says so.
macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $mask:ident, $field:ident;)*) => {
        $(
            $(#[$doc])*
            pub(crate) fn $name(&self) -> Option<$type> {
                self.has(bindings::$mask).then_some(self.attr.$field)
            }
        )*
    };
}

impl<'a> QpChange<'a> {
    /// # Safety
    ///
    /// `attr` must be what the verbs core passes to a driver with `mask`.
    pub(super) unsafe fn new(
        attr: &'a bindings::ib_qp_attr,
        mask: u32,
        kind: bindings::ib_qp_type,
    ) -> Self {
        Self { attr, mask, kind }
    }

    fn has(&self, bit: bindings::ib_qp_attr_mask) -> bool {
        self.mask & bit != 0
    }

    /// The state after the change of a queue pair in state `from`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the standard does not permit the change with these attributes (RNIC-QPS-02).
    pub(crate) fn target(&self, from: IbQpState) -> Result<IbQpState> {
        if self.has(bindings::ib_qp_attr_mask_IB_QP_CUR_STATE)
            && self.attr.cur_qp_state != from.code()
        {
            return Err(EINVAL);
        }
        let to = if self.has(bindings::ib_qp_attr_mask_IB_QP_STATE) {
            IbQpState::new(self.attr.qp_state).ok_or(EINVAL)?
        } else {
            from
        };
        // SAFETY: All arguments are values of their types.
        let permitted =
            unsafe { bindings::ib_modify_qp_is_ok(from.code(), to.code(), self.kind, self.mask) };
        if permitted {
            Ok(to)
        } else {
            Err(EINVAL)
        }
    }

    attributes! {
        /// Code of the path MTU.
        path_mtu: u32 = ib_qp_attr_mask_IB_QP_PATH_MTU, path_mtu;
        /// Key of a queue pair for datagrams.
        qkey: u32 = ib_qp_attr_mask_IB_QP_QKEY, qkey;
        /// PSN of the first packet from the peer.
        rq_psn: u32 = ib_qp_attr_mask_IB_QP_RQ_PSN, rq_psn;
        /// PSN of the first packet to the peer.
        sq_psn: u32 = ib_qp_attr_mask_IB_QP_SQ_PSN, sq_psn;
        /// Queue pair of the peer.
        dest_qp: u32 = ib_qp_attr_mask_IB_QP_DEST_QPN, dest_qp_num;
        /// Index of the partition key.
        pkey_index: u16 = ib_qp_attr_mask_IB_QP_PKEY_INDEX, pkey_index;
        /// READs and atomics in flight to the peer.
        max_rd_atomic: u8 = ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC, max_rd_atomic;
        /// READs and atomics in flight from the peer.
        max_dest_rd_atomic: u8 = ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic;
        /// Code of the time that the peer waits for a receive buffer.
        min_rnr_timer: u8 = ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER, min_rnr_timer;
        /// Port.
        port: u32 = ib_qp_attr_mask_IB_QP_PORT, port_num;
        /// Code of the time until packets are repeated.
        timeout: u8 = ib_qp_attr_mask_IB_QP_TIMEOUT, timeout;
        /// Repetitions.
        retry_cnt: u8 = ib_qp_attr_mask_IB_QP_RETRY_CNT, retry_cnt;
        /// Whether the end of draining is reported.
        drained_event: u8 = ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify;
        /// Repetitions for want of a receive buffer.
        rnr_retry: u8 = ib_qp_attr_mask_IB_QP_RNR_RETRY, rnr_retry;
    }

    /// The rights of the peer.
    ///
    /// # Errors
    ///
    /// `EINVAL` for rights that the device does not know.
    pub(crate) fn access(&self) -> Result<Option<MrAccess>> {
        if !self.has(bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS) {
            return Ok(None);
        }
        // Programs permit it to a queue pair whether memory has that right or not. None has.
        const PERSISTENT: i32 = bindings::ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT as i32;
        MrAccess::new(self.attr.qp_access_flags & !PERSISTENT).map(Some)
    }

    /// The way to the peer.
    ///
    /// # Errors
    ///
    /// Those of [`AddressVector`].
    pub(crate) fn address(&self) -> Result<Option<AddressVector>> {
        if !self.has(bindings::ib_qp_attr_mask_IB_QP_AV) {
            return Ok(None);
        }
        // SAFETY: The verbs core passes the attributes.
        unsafe { AddressVector::new(&self.attr.ah_attr) }.map(Some)
    }
}

/// The attributes that a queue pair was given, for queries.
pub(crate) struct QpRecord(bindings::ib_qp_attr);

// SAFETY: The record has no valid pointer.
unsafe impl Send for QpRecord {}

impl QpRecord {
    /// No attributes.
    pub(crate) fn new() -> Self {
        // SAFETY: All fields are numbers or pointers.
        Self(unsafe { core::mem::zeroed() })
    }

    /// Takes the attributes of a change.
    pub(crate) fn merge(&mut self, change: &QpChange<'_>) {
        let (to, from) = (&mut self.0, change.attr);
        macro_rules! take {
            ($($mask:ident: $field:ident,)*) => {
                $(if change.has(bindings::$mask) { to.$field = from.$field; })*
            };
        }
        take! {
            ib_qp_attr_mask_IB_QP_ACCESS_FLAGS: qp_access_flags,
            ib_qp_attr_mask_IB_QP_PATH_MTU: path_mtu,
            ib_qp_attr_mask_IB_QP_QKEY: qkey,
            ib_qp_attr_mask_IB_QP_DEST_QPN: dest_qp_num,
            ib_qp_attr_mask_IB_QP_PKEY_INDEX: pkey_index,
            ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC: max_rd_atomic,
            ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic,
            ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER: min_rnr_timer,
            ib_qp_attr_mask_IB_QP_PORT: port_num,
            ib_qp_attr_mask_IB_QP_TIMEOUT: timeout,
            ib_qp_attr_mask_IB_QP_RETRY_CNT: retry_cnt,
            ib_qp_attr_mask_IB_QP_RNR_RETRY: rnr_retry,
            ib_qp_attr_mask_IB_QP_RQ_PSN: rq_psn,
            ib_qp_attr_mask_IB_QP_SQ_PSN: sq_psn,
        }
        if change.has(bindings::ib_qp_attr_mask_IB_QP_AV) {
            // SAFETY: The structure has numbers and pointers only, so a copy is as good.
            to.ah_attr = unsafe { core::ptr::read(&from.ah_attr) };
        }
        // The record outlives the caller's reference.
        to.ah_attr.grh.sgid_attr = core::ptr::null();
    }

    /// Fills in the structure of the verbs core.
    pub(super) fn fill(&self, attr: &mut bindings::ib_qp_attr, now: &QpReport) {
        // SAFETY: The structure has numbers and pointers only, so a copy is as good.
        *attr = unsafe { core::ptr::read(&self.0) };
        attr.qp_state = now.state.code();
        attr.cur_qp_state = now.state.code();
        attr.sq_draining = u8::from(now.draining);
        attr.path_mig_state = bindings::ib_mig_state_IB_MIG_MIGRATED;
        if let Some(psn) = now.sq_psn {
            attr.sq_psn = psn;
        }
        if let Some(psn) = now.rq_psn {
            attr.rq_psn = psn;
        }
        now.caps.fill(&mut attr.cap);
    }
}

/// What changes by itself (RNIC-QPS-06).
pub(crate) struct QpReport {
    /// State.
    pub(crate) state: IbQpState,
    /// Whether the send queue is being drained.
    pub(crate) draining: bool,
    /// PSN of the next packet to the peer.
    pub(crate) sq_psn: Option<u32>,
    /// PSN of the next packet from the peer.
    pub(crate) rq_psn: Option<u32>,
    /// Sizes.
    pub(crate) caps: QpCaps,
}
