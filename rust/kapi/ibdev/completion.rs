// SPDX-License-Identifier: GPL-2.0

//! Completions, and the handle of a completion queue.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    qp::QpToken,
    shell::ObjectGate,
    user::{
        NewRing,
        RingMapping, //
    },
};
use crate::bindings;
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
use super::test_cq::TestMemory;
#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
use kernel::sync::Arc;

/// The status of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionStatus {
    /// Success.
    Success,
    /// Local length error.
    LocalLength,
    /// Local protection error.
    LocalProtection,
    /// Local queue pair operation error.
    LocalQpOperation,
    /// Memory window bind error.
    WindowBind,
    /// Bad response.
    BadResponse,
    /// Remote invalid request.
    RemoteInvalidRequest,
    /// Remote access error.
    RemoteAccess,
    /// Remote operation error.
    RemoteOperation,
    /// Transport retry counter exceeded.
    RetryExceeded,
    /// RNR retry counter exceeded.
    RnrRetryExceeded,
    /// Flushed.
    Flushed,
}

impl CompletionStatus {
    /// The code of the verbs core.
    pub(crate) const fn code(self) -> bindings::ib_wc_status {
        match self {
            Self::Success => bindings::ib_wc_status_IB_WC_SUCCESS,
            Self::LocalLength => bindings::ib_wc_status_IB_WC_LOC_LEN_ERR,
            Self::LocalProtection => bindings::ib_wc_status_IB_WC_LOC_PROT_ERR,
            Self::LocalQpOperation => bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR,
            Self::WindowBind => bindings::ib_wc_status_IB_WC_MW_BIND_ERR,
            Self::BadResponse => bindings::ib_wc_status_IB_WC_BAD_RESP_ERR,
            Self::RemoteInvalidRequest => bindings::ib_wc_status_IB_WC_REM_INV_REQ_ERR,
            Self::RemoteAccess => bindings::ib_wc_status_IB_WC_REM_ACCESS_ERR,
            Self::RemoteOperation => bindings::ib_wc_status_IB_WC_REM_OP_ERR,
            Self::RetryExceeded => bindings::ib_wc_status_IB_WC_RETRY_EXC_ERR,
            Self::RnrRetryExceeded => bindings::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR,
            Self::Flushed => bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR,
        }
    }
}

/// The operation that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletedOp {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// Registration.
    RegMr,
    /// Local invalidation.
    LocalInv,
    /// Binding of a memory window.
    BindMw,
    /// ATOMIC WRITE.
    AtomicWrite,
    /// FLUSH.
    Flush,
    /// A received SEND.
    Receive,
    /// A received WRITE with immediate data.
    ReceiveWrite,
}

impl CompletedOp {
    /// The code of the verbs core.
    pub(super) const fn code(self) -> bindings::ib_wc_opcode {
        match self {
            Self::Send => bindings::ib_wc_opcode_IB_WC_SEND,
            Self::Write => bindings::ib_wc_opcode_IB_WC_RDMA_WRITE,
            Self::BindMw => bindings::ib_wc_opcode_IB_WC_BIND_MW,
            Self::AtomicWrite => bindings::ib_wc_opcode_IB_WC_ATOMIC_WRITE,
            Self::Flush => bindings::ib_wc_opcode_IB_WC_FLUSH,
            Self::Read => bindings::ib_wc_opcode_IB_WC_RDMA_READ,
            Self::CompareSwap => bindings::ib_wc_opcode_IB_WC_COMP_SWAP,
            Self::FetchAdd => bindings::ib_wc_opcode_IB_WC_FETCH_ADD,
            Self::RegMr => bindings::ib_wc_opcode_IB_WC_REG_MR,
            Self::LocalInv => bindings::ib_wc_opcode_IB_WC_LOCAL_INV,
            Self::Receive => bindings::ib_wc_opcode_IB_WC_RECV,
            Self::ReceiveWrite => bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM,
        }
    }
}

/// The protocol of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramProtocol {
    /// RoCE v1.
    RoceV1,
    /// RoCE v2 over IPv4.
    Ipv4,
    /// RoCE v2 over IPv6.
    Ipv6,
}

impl DatagramProtocol {
    /// The code of the verbs core.
    const fn code(self) -> u8 {
        match self {
            Self::RoceV1 => bindings::rdma_network_type_RDMA_NETWORK_ROCE_V1 as u8,
            Self::Ipv4 => bindings::rdma_network_type_RDMA_NETWORK_IPV4 as u8,
            Self::Ipv6 => bindings::rdma_network_type_RDMA_NETWORK_IPV6 as u8,
        }
    }
}

/// A completion.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    /// Number of the work request.
    pub(crate) id: u64,
    /// Status. With an error, only number, status, reason and queue pair are valid (RNIC-ERR-04).
    pub(crate) status: CompletionStatus,
    /// Code of the reason of an error, 0 for success.
    pub(crate) reason: u32,
    /// Operation.
    pub(crate) op: CompletedOp,
    /// Octets.
    pub(crate) len: u32,
    /// Queue pair.
    pub(crate) qp: QpToken,
    /// Its number.
    pub(crate) qpn: u32,
    /// Immediate data, in the order of the wire.
    pub(crate) imm: Option<[u8; 4]>,
    /// Key that the peer invalidated.
    pub(crate) invalidated: Option<u32>,
    /// Sender and protocol of a datagram.
    pub(crate) datagram: Option<(u32, DatagramProtocol)>,
}

impl Completion {
    /// Fills in the structure of the verbs core.
    fn fill(&self, wc: &mut bindings::ib_wc) {
        // SAFETY: All fields are numbers or pointers.
        *wc = unsafe { core::mem::zeroed() };
        wc.__bindgen_anon_1.wr_id = ManuallyDrop::new(self.id);
        wc.status = self.status.code();
        wc.opcode = self.op.code();
        wc.vendor_err = self.reason;
        wc.byte_len = self.len;
        wc.qp = self.qp.as_raw();
        let mut flags = 0;
        if let Some(imm) = self.imm {
            wc.ex.imm_data = ManuallyDrop::new(u32::from_ne_bytes(imm));
            flags |= bindings::ib_wc_flags_IB_WC_WITH_IMM;
        }
        if let Some(key) = self.invalidated {
            wc.ex.invalidate_rkey = ManuallyDrop::new(key);
            flags |= bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE;
        }
        if let Some((src_qp, protocol)) = self.datagram {
            wc.src_qp = src_qp;
            wc.network_hdr_type = protocol.code();
            flags |=
                bindings::ib_wc_flags_IB_WC_GRH | bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE;
        }
        wc.port_num = 1;
        wc.wc_flags = flags as i32;
    }
}

/// Room for completions that a program polls.
///
/// # Invariants
///
/// `next` is valid for writes of `room` structures.
pub(crate) struct PolledCompletions {
    next: *mut bindings::ib_wc,
    room: u32,
    used: u32,
}

impl PolledCompletions {
    /// # Safety
    ///
    /// `first` must be valid for writes of `room` structures as long as the result is used.
    pub(super) unsafe fn new(first: *mut bindings::ib_wc, room: u32) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            next: first,
            room,
            used: 0,
        }
    }

    /// Whether there is no room.
    pub(crate) const fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Adds a completion, if there is room.
    pub(crate) fn push(&mut self, completion: &Completion) {
        if self.room > 0 {
            // INVARIANT: One structure less, and behind the used one.
            // SAFETY: By the type invariants.
            unsafe {
                completion.fill(&mut *self.next);
                self.next = self.next.add(1);
            }
            self.room -= 1;
            self.used += 1;
        }
    }

    /// Completions so far.
    pub(super) const fn used(&self) -> u32 {
        self.used
    }
}

/// Calls the handlers of a completion queue, until it is destroyed.
///
/// # Invariants
///
/// The pointer is valid until the gate is closed.
pub(crate) struct CqHandle {
    cq: NonNull<bindings::ib_cq>,
    gate: ObjectGate,
    /// That of the ring that a program in user space maps.
    mapping: Option<RingMapping>,
    /// The queue, if it is one for tests.
    #[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
    _test: Option<Arc<dyn TestMemory>>,
}

// SAFETY: The handlers may be called from any thread.
unsafe impl Send for CqHandle {}
// SAFETY: As above.
unsafe impl Sync for CqHandle {}

impl CqHandle {
    /// # Safety
    ///
    /// `cq` must be valid until [`Self::close`] has returned.
    pub(super) unsafe fn new(cq: NonNull<bindings::ib_cq>, mapping: Option<RingMapping>) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            cq,
            gate: ObjectGate::new(),
            mapping,
            #[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
            _test: None,
        }
    }

    /// # Safety
    ///
    /// `cq` must be valid as long as there is a reference to `memory`.
    #[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
    pub(super) unsafe fn of_test(
        cq: NonNull<bindings::ib_cq>,
        memory: Arc<dyn TestMemory>,
    ) -> Self {
        // INVARIANT: The handle keeps the queue.
        Self {
            cq,
            gate: ObjectGate::new(),
            mapping: None,
            _test: Some(memory),
        }
    }

    /// The program maps another ring in place of the former one (RNIC-CQ-10). Context: may sleep.
    pub(crate) fn adopt(&self, ring: &NewRing) {
        if let Some(mapping) = &self.mapping {
            mapping.adopt(&ring.mapping);
        }
    }

    /// Calls the completion handler. Context: softirq. The caller holds no
    /// lock (RNIC-CQ-07).
    pub(crate) fn complete(&self) {
        self.gate.enter(|| {
            // SAFETY: By the type invariants, as the gate is open.
            unsafe { bindings::rdma_sock_helper_ibcq_complete(self.cq.as_ptr()) }
        });
    }

    /// Reports that the queue overflowed. Context: softirq. The caller holds no lock.
    pub(crate) fn overflow(&self) {
        self.gate.enter(|| {
            // SAFETY: As above.
            unsafe { bindings::rdma_sock_helper_ibcq_error(self.cq.as_ptr()) }
        });
    }

    /// Whether the caller is a handler of the queue. Context: any.
    pub(crate) fn is_calling(&self) -> bool {
        self.gate.is_inside()
    }

    /// Whether the queue cannot be destroyed: the caller is its handler. Context: any.
    pub(super) fn refuses_end(&self) -> bool {
        self.gate.refuses_end(false)
    }

    /// Waits for handlers that run; there are no others. Nothing maps the ring from here on. Context:
    /// may sleep.
    pub(super) fn close(&self) {
        self.gate.close();
        if let Some(mapping) = &self.mapping {
            mapping.remove();
        }
    }
}
