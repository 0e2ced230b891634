// SPDX-License-Identifier: GPL-2.0

//! A reliably connected queue pair and the steps of its life.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    config::{
        ConnectionConfig,
        Depth, //
    },
    cq::Cq,
    pd::Pd, //
};
use crate::bindings;
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Number of its queue pair.
    pub(crate) qpn: u32,
    /// Sequence number of its first packet.
    pub(crate) rq_psn: u32,
    /// MTU code of the path: 1 is 256 octets, 5 is 4096.
    pub(crate) mtu_code: u8,
    /// Its GID.
    pub(crate) gid: [u8; 16],
    /// Its Ethernet address, or that of the next hop to it.
    pub(crate) mac: [u8; 6],
}

/// A queue pair. Must be dropped where sleeping is allowed.
///
/// # Invariants
///
/// - `raw` is a queue pair in `pd` on both completion queues, owned by this object, unless `gone`.
/// - Requests were only posted if `initialised`.
pub(super) struct Qp {
    raw: NonNull<bindings::ib_qp>,
    inline: u32,
    /// It has left RESET, where it takes no requests.
    initialised: Atomic<bool>,
    /// [`Self::destroy`] succeeded.
    gone: Atomic<bool>,
    // Freed in this order, after the queue pair.
    send_cq: Arc<Cq>,
    _recv_cq: Arc<Cq>,
    pd: Arc<Pd>,
}

// SAFETY: Queue pairs may be used from any thread.
unsafe impl Send for Qp {}
// SAFETY: As for `Send`.
unsafe impl Sync for Qp {}

impl Qp {
    /// Creates a queue pair; if the device does not take data inline, without. Sleeps.
    pub(super) fn new(
        pd: &Arc<Pd>,
        send_cq: Arc<Cq>,
        recv_cq: Arc<Cq>,
        depth: Depth,
    ) -> Result<Arc<Self>> {
        let cap = |inline| bindings::ib_qp_cap {
            max_send_wr: depth.send,
            max_recv_wr: depth.recv,
            max_send_sge: depth.send_sges,
            max_recv_sge: depth.recv_sges,
            max_inline_data: inline,
            max_rdma_ctxs: 0,
        };
        let mut attr = bindings::ib_qp_init_attr {
            send_cq: send_cq.as_raw(),
            recv_cq: recv_cq.as_raw(),
            sq_sig_type: bindings::ib_sig_type_IB_SIGNAL_REQ_WR,
            qp_type: bindings::ib_qp_type_IB_QPT_RC,
            cap: cap(depth.inline),
            ..Default::default()
        };
        // SAFETY: The protection domain and the queues are valid and `attr` is complete.
        let raw = from_err_ptr(unsafe {
            bindings::rdma_sock_helper_ib_create_qp(pd.as_raw(), &mut attr)
        })
        .or_else(|_| {
            attr.cap = cap(0);
            // SAFETY: As above.
            from_err_ptr(unsafe { bindings::rdma_sock_helper_ib_create_qp(pd.as_raw(), &mut attr) })
        })?;
        // INVARIANT: Just created, and handed to nobody else.
        let this = Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            inline: attr.cap.max_inline_data,
            initialised: Atomic::new(false),
            gone: Atomic::new(false),
            send_cq,
            _recv_cq: recv_cq,
            pd: pd.clone(),
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// Takes over a queue pair that a test made with other attributes.
    ///
    /// # Safety
    ///
    /// `raw` is a queue pair in `pd` on `cq` alone, in state RESET, and the caller gives it away.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) unsafe fn from_raw(
        raw: NonNull<bindings::ib_qp>,
        pd: &Arc<Pd>,
        cq: &Arc<Cq>,
    ) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            raw,
            inline: 0,
            initialised: Atomic::new(false),
            gone: Atomic::new(false),
            send_cq: cq.clone(),
            _recv_cq: cq.clone(),
            pd: pd.clone(),
        }
    }

    /// The C object.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) fn as_raw(&self) -> *mut bindings::ib_qp {
        self.raw.as_ptr()
    }

    /// The protection domain.
    pub(super) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Can requests carry `len` octets inline?
    pub(super) fn can_inline(&self, len: u32) -> bool {
        len <= self.inline
    }

    /// The number that names it on the wire.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: Valid by the type invariants; reads a field.
        unsafe { bindings::rdma_sock_helper_ib_qp_num(self.raw.as_ptr()) }
    }

    /// Makes the verbs core refuse to destroy the queue pair, as if it were attached to something.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) fn hold(&self, hold: bool) {
        // SAFETY: Valid by the type invariants. Queue pairs of this kind are attached to nothing, so
        // that only the test changes the count.
        unsafe { bindings::rdma_sock_helper_ib_qp_set_usecnt(self.raw.as_ptr(), i32::from(hold)) };
    }

    /// Changes what `mask` names. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that the device has not; those of the driver.
    pub(super) fn modify(
        &self,
        attr: &mut bindings::ib_qp_attr,
        mask: bindings::ib_qp_attr_mask,
    ) -> Result {
        if mask & bindings::ib_qp_attr_mask_IB_QP_PORT != 0 {
            // SAFETY: Valid by the type invariants.
            let known = unsafe {
                bindings::rdma_sock_helper_ib_qp_has_port(self.raw.as_ptr(), attr.port_num)
            };
            // The verbs core takes it for the index of a table.
            if !known {
                return Err(EINVAL);
            }
        }
        let mask = i32::try_from(mask).map_err(|_| EINVAL)?;
        // SAFETY: Valid by the type invariants; `attr` is valid for what `mask` names, and its port exists.
        to_result(unsafe { bindings::ib_modify_qp(self.raw.as_ptr(), attr, mask) })
    }

    /// From RESET to INIT: receive requests may be posted. The peer may write registered memory, and
    /// read it if `peer_reads`. Context: may sleep.
    #[inline(never)]
    pub(super) fn to_init(&self, port: u32, peer_reads: bool) -> Result {
        let mut access = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
        if peer_reads {
            access |= bindings::ib_access_flags_IB_ACCESS_REMOTE_READ;
        }
        let mut attr = bindings::ib_qp_attr {
            qp_state: bindings::ib_qp_state_IB_QPS_INIT,
            port_num: port,
            qp_access_flags: i32::try_from(access).map_err(|_| EINVAL)?,
            ..Default::default()
        };
        self.modify(
            &mut attr,
            bindings::ib_qp_attr_mask_IB_QP_STATE
                | bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX
                | bindings::ib_qp_attr_mask_IB_QP_PORT
                | bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS,
        )?;
        // Posting and draining follow in the order that the locks of the channel give.
        self.initialised.store(true, Relaxed);
        Ok(())
    }

    /// From INIT to RTR: messages are received. Sleeps.
    #[inline(never)]
    pub(super) fn to_rtr(
        &self,
        port: u32,
        gid_index: u8,
        peer: &Peer,
        config: &ConnectionConfig,
    ) -> Result {
        let mut ah = bindings::rdma_ah_attr {
            type_: bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE,
            port_num: port,
            ah_flags: u8::try_from(bindings::ib_ah_flags_IB_AH_GRH).map_err(|_| EINVAL)?,
            grh: bindings::ib_global_route {
                dgid: bindings::ib_gid {
                    raw: ManuallyDrop::new(peer.gid),
                },
                sgid_index: gid_index,
                hop_limit: config.hop_limit,
                ..Default::default()
            },
            ..Default::default()
        };
        ah.__bindgen_anon_1.roce = ManuallyDrop::new(bindings::roce_ah_attr { dmac: peer.mac });
        let mut attr = bindings::ib_qp_attr {
            qp_state: bindings::ib_qp_state_IB_QPS_RTR,
            path_mtu: peer.mtu_code.into(),
            dest_qp_num: peer.qpn,
            rq_psn: peer.rq_psn,
            max_dest_rd_atomic: config.max_dest_rd_atomic,
            min_rnr_timer: config.min_rnr_timer,
            ah_attr: ah,
            ..Default::default()
        };
        self.modify(
            &mut attr,
            bindings::ib_qp_attr_mask_IB_QP_STATE
                | bindings::ib_qp_attr_mask_IB_QP_AV
                | bindings::ib_qp_attr_mask_IB_QP_PATH_MTU
                | bindings::ib_qp_attr_mask_IB_QP_DEST_QPN
                | bindings::ib_qp_attr_mask_IB_QP_RQ_PSN
                | bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC
                | bindings::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER,
        )
    }

    /// From RTR to RTS: send requests may be posted. Sleeps.
    #[inline(never)]
    pub(super) fn to_rts(&self, sq_psn: u32, config: &ConnectionConfig) -> Result {
        let mut attr = bindings::ib_qp_attr {
            qp_state: bindings::ib_qp_state_IB_QPS_RTS,
            timeout: config.ack_timeout,
            retry_cnt: config.retries,
            rnr_retry: config.rnr_retries,
            sq_psn,
            max_rd_atomic: config.max_rd_atomic,
            ..Default::default()
        };
        self.modify(
            &mut attr,
            bindings::ib_qp_attr_mask_IB_QP_STATE
                | bindings::ib_qp_attr_mask_IB_QP_TIMEOUT
                | bindings::ib_qp_attr_mask_IB_QP_RETRY_CNT
                | bindings::ib_qp_attr_mask_IB_QP_RNR_RETRY
                | bindings::ib_qp_attr_mask_IB_QP_SQ_PSN
                | bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC,
        )
    }

    /// To the error state: all requests are flushed. Sleeps.
    #[inline(never)]
    pub(super) fn to_error(&self) -> Result {
        let mut attr = bindings::ib_qp_attr {
            qp_state: bindings::ib_qp_state_IB_QPS_ERR,
            ..Default::default()
        };
        self.modify(&mut attr, bindings::ib_qp_attr_mask_IB_QP_STATE)
    }

    /// To the error state, and waits until the handlers of all requests have run. Sleeps.
    ///
    /// The caller makes sure that nothing is posted meanwhile.
    pub(super) fn drain(&self) {
        if !self.initialised.load(Relaxed) {
            // From RESET there is no way to the error state, and by the type invariants nothing was
            // posted.
            return;
        }
        // SAFETY: Valid by the type invariants. The queues were made by `ib_alloc_cq`, and users of
        // this file leave room for the requests of draining.
        unsafe { bindings::ib_drain_qp(self.raw.as_ptr()) };
    }

    /// Posts a chain of send requests. Any context.
    ///
    /// Returns the error and whether some requests at the front of the chain were posted anyway.
    ///
    /// # Safety
    ///
    /// - `wr` is a valid chain of requests, of which each names a `ib_cqe` with a handler.
    /// - The `ib_cqe`s and all memory the requests name stay valid until their handler has run, or
    ///   the queue pair is destroyed.
    pub(super) unsafe fn post_send(
        &self,
        wr: *const bindings::ib_send_wr,
    ) -> Result<(), (Error, bool)> {
        let mut bad = wr;
        // SAFETY: By the type invariants and this function's contract.
        let ret =
            unsafe { bindings::rdma_sock_helper_ib_post_send(self.raw.as_ptr(), wr, &mut bad) };
        to_result(ret).map_err(|err| (err, bad != wr && !bad.is_null()))
    }

    /// Posts a chain of receive requests. Any context.
    ///
    /// Returns the error and how many requests at the front of the chain were posted anyway.
    ///
    /// # Safety
    ///
    /// As for [`Self::post_send`].
    pub(super) unsafe fn post_recv(
        &self,
        wr: *const bindings::ib_recv_wr,
    ) -> Result<(), (Error, usize)> {
        let mut bad = wr;
        // SAFETY: By the type invariants and this function's contract.
        to_result(unsafe {
            bindings::rdma_sock_helper_ib_post_recv(self.raw.as_ptr(), wr, &mut bad)
        })
        .map_err(|error| {
            // SAFETY: The chain is valid by this function's contract: drivers do not change requests.
            (error, unsafe { count_before(wr, bad) })
        })
    }
}

impl Qp {
    /// Destroys the queue pair. Sleeps.
    ///
    /// # Errors
    ///
    /// That of the driver. The queue pair is still there then, and its handlers may run.
    ///
    /// # Safety
    ///
    /// Nothing else uses the queue pair during this call. After it succeeded the object is only
    /// dropped.
    pub(super) unsafe fn destroy(&self) -> Result {
        if self.gone.load(Relaxed) {
            return Ok(());
        }
        // SAFETY: By the type invariants it is ours, and by this function's contract unused.
        to_result(unsafe { bindings::rdma_sock_helper_ib_destroy_qp(self.raw.as_ptr()) })?;
        // INVARIANT: It is gone.
        self.gone.store(true, Relaxed);
        Ok(())
    }
}

/// How many requests of the chain `wr` come before `bad`: all, if that is not part of it.
///
/// # Safety
///
/// `wr` is a valid chain of requests.
unsafe fn count_before(
    mut wr: *const bindings::ib_recv_wr,
    bad: *const bindings::ib_recv_wr,
) -> usize {
    let mut count = 0;
    while !wr.is_null() && wr != bad {
        count += 1;
        // SAFETY: Part of the chain, which is valid by this function's contract.
        wr = unsafe { (*wr).next };
    }
    count
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: The last reference is ours alone.
        if let Err(err) = unsafe { self.destroy() } {
            // The driver still uses the completion queues: keep them and what they hold.
            pr_err!("queue pair could not be destroyed ({})\n", err.to_errno());
            core::mem::forget(self.send_cq.clone());
            core::mem::forget(self._recv_cq.clone());
        }
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_qp)]
mod tests {
    use super::*;
    use core::ptr::null;

    #[test]
    fn requests_before_the_bad_one_are_counted() {
        let mut third = bindings::ib_recv_wr::default();
        let mut second = bindings::ib_recv_wr {
            next: &raw mut third,
            ..Default::default()
        };
        let first = bindings::ib_recv_wr {
            next: &raw mut second,
            ..Default::default()
        };
        let first = &raw const first;
        let bad: [(*const bindings::ib_recv_wr, usize); 4] = [
            (first, 0),
            (&raw const second, 1),
            (&raw const third, 2),
            (null(), 3),
        ];
        for (bad, count) in bad {
            // SAFETY: A chain of three requests, the last of which has no successor.
            assert_eq!(unsafe { count_before(first, bad) }, count);
        }
    }
}
