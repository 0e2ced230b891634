// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: attributes, the handle of a queue, and the operations of a device for them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    ops::IbDeviceOps,
    shell::{
        ObjectGate,
        Shell, //
    },
    table::{
        device,
        PdShell, //
    },
    user::{
        CallData,
        NewRing,
        RingMapping, //
    },
    wr::RecvWr, //
};
use crate::{
    bindings,
    kapi::compat::errno::EOPNOTSUPP, //
};
use core::ptr::NonNull;
use kernel::{
    error::from_result,
    ffi,
    prelude::*, //
};

/// The C structure of a shared receive queue with the driver's.
pub(super) type SrqShell<D> = Shell<bindings::ib_srq, <D as IbDeviceOps>::Srq>;

/// The attributes of a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SrqAttr {
    /// Work requests.
    pub(crate) max_wr: u32,
    /// Elements of a work request.
    pub(crate) max_sge: u32,
    /// Work requests below which an event is reported; 0 if none is.
    pub(crate) limit: u32,
}

impl SrqAttr {
    /// Reads the structure of the verbs core.
    fn new(raw: &bindings::ib_srq_attr) -> Self {
        Self {
            max_wr: raw.max_wr,
            max_sge: raw.max_sge,
            limit: raw.srq_limit,
        }
    }

    /// Fills in the structure of the verbs core.
    fn fill(&self, raw: &mut bindings::ib_srq_attr) {
        raw.max_wr = self.max_wr;
        raw.max_sge = self.max_sge;
        raw.srq_limit = self.limit;
    }
}

/// The sizes of a shared receive queue of user space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserSrqSizes {
    /// What the program is told.
    pub(crate) attr: SrqAttr,
    /// Octets of the ring.
    pub(crate) ring: usize,
}

/// A change of a shared receive queue. An attribute that is absent stays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SrqChange {
    /// Work requests.
    pub(crate) max_wr: Option<u32>,
    /// The limit to arm.
    pub(crate) limit: Option<u32>,
}

/// A shared receive queue.
pub(crate) trait IbSrqOps: Send + Sync + 'static {
    /// The handle that it was made with.
    fn handle(&self) -> &SrqHandle;

    /// Its attributes now. Context: any.
    fn attr(&self) -> SrqAttr;

    /// Changes attributes. With another number of work requests, a queue of user space goes on with the
    /// new ring, and its handle adopts it.
    fn modify(&self, change: SrqChange, ring: Option<&NewRing>) -> Result;

    /// Queues a receive work request of a kernel program. Context: any. The program may hold locks, so
    /// nothing calls it back.
    fn post(&self, wr: RecvWr) -> Result;

    /// No queue pair uses it any longer. On return no handler is called.
    fn destroy(&self);
}

/// Calls the handler of a shared receive queue, until it is destroyed.
///
/// # Invariants
///
/// The pointer is valid until the gate is closed.
pub(crate) struct SrqHandle {
    srq: NonNull<bindings::ib_srq>,
    gate: ObjectGate,
    /// That of the ring that a program in user space maps.
    mapping: Option<RingMapping>,
}

// SAFETY: The handler may be called from any thread.
unsafe impl Send for SrqHandle {}
// SAFETY: As above.
unsafe impl Sync for SrqHandle {}

impl SrqHandle {
    /// # Safety
    ///
    /// `srq` must be valid until [`Self::close`] has returned.
    unsafe fn new(srq: NonNull<bindings::ib_srq>, mapping: Option<RingMapping>) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            srq,
            gate: ObjectGate::new(),
            mapping,
        }
    }

    /// Whether the queue is one of user space.
    fn is_user(&self) -> bool {
        self.mapping.is_some()
    }

    /// The program maps another ring in place of the former one. Context: may sleep.
    pub(crate) fn adopt(&self, ring: &NewRing) {
        if let Some(mapping) = &self.mapping {
            mapping.adopt(&ring.mapping);
        }
    }

    /// Reports that there are fewer work requests than the limit. Context: softirq. The caller holds no
    /// lock (RNIC-EVT-02).
    pub(crate) fn limit_reached(&self) {
        self.gate.enter(|| {
            // SAFETY: By the type invariants, as the gate is open.
            unsafe { bindings::rdma_sock_helper_ibsrq_limit_reached(self.srq.as_ptr()) }
        });
    }

    /// Waits for a handler that runs; there are no others. Nothing maps the ring from here on. Context:
    /// may sleep.
    fn close(&self) {
        self.gate.close();
        if let Some(mapping) = &self.mapping {
            mapping.remove();
        }
    }
}

/// Enters the operations into a table for devices of `D`.
pub(super) fn install<D: IbDeviceOps>(ops: &mut bindings::ib_device_ops) {
    ops.create_srq = Some(create_srq_raw::<D>);
    ops.modify_srq = Some(modify_srq_raw::<D>);
    ops.query_srq = Some(query_srq_raw::<D>);
    ops.destroy_srq = Some(destroy_srq_raw::<D>);
    ops.post_srq_recv = Some(post_srq_recv_raw::<D>);
    ops.size_ib_srq = SrqShell::<D>::SIZE;
}

/// `ib_device_ops::create_srq`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
unsafe extern "C" fn create_srq_raw<D: IbDeviceOps>(
    srq: *mut bindings::ib_srq,
    init: *mut bindings::ib_srq_init_attr,
    udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes valid attributes, and the data of the call.
        let (init, call) = unsafe { (&mut *init, CallData::new(udata)) };
        if init.srq_type != bindings::ib_srq_type_IB_SRQT_BASIC {
            return Err(EOPNOTSUPP);
        }
        let mut attr = SrqAttr::new(&init.attr);
        let new = if call.is_user() {
            call.expect_empty()?;
            // SAFETY: The core passes an object of a device of `D`.
            let device = unsafe {
                let pd = bindings::rdma_sock_helper_ibsrq_pd(srq);
                device::<D>(bindings::rdma_sock_helper_ibpd_device(pd))
            };
            let sizes = device.user_srq_sizes(attr)?;
            attr = sizes.attr;
            let new = call.new_ring(sizes.ring)?;
            call.respond_srq(&new)?;
            Some(new)
        } else {
            None
        };
        let ring = new.as_ref().map(|new| new.ring().clone());
        let mapping = new.map(|new| new.mapping);
        // SAFETY: The core passes an object of a device of `D` that is being created, with a protection
        // domain that outlives it. It stays until `destroy_srq_raw` returns, which closes the handle; a
        // core that is not created drops it.
        unsafe {
            let pd = bindings::rdma_sock_helper_ibsrq_pd(srq);
            let dev = bindings::rdma_sock_helper_ibpd_device(pd);
            let handle = SrqHandle::new(NonNull::new(srq).ok_or(EINVAL)?, mapping);
            let pd = PdShell::<D>::core(pd);
            let core = device::<D>(dev).create_srq(&pd, attr, handle, ring.as_ref())?;
            core.attr().fill(&mut init.attr);
            SrqShell::<D>::publish(srq, core);
        }
        Ok(0)
    })
}

/// `ib_device_ops::modify_srq`.
///
/// # Safety
///
/// As for [`create_srq_raw`].
unsafe extern "C" fn modify_srq_raw<D: IbDeviceOps>(
    srq: *mut bindings::ib_srq,
    attr: *mut bindings::ib_srq_attr,
    mask: bindings::ib_srq_attr_mask,
    udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    let has = |bit| mask & bit != 0;
    from_result(|| {
        // SAFETY: The core passes an object of a device of `D`, valid attributes, and the data of the
        // call.
        let (core, change, call) = unsafe {
            let change = SrqChange {
                max_wr: has(bindings::ib_srq_attr_mask_IB_SRQ_MAX_WR).then_some((*attr).max_wr),
                limit: has(bindings::ib_srq_attr_mask_IB_SRQ_LIMIT).then_some((*attr).srq_limit),
            };
            (SrqShell::<D>::core(srq), change, CallData::new(udata))
        };
        let mut new = None;
        if call.is_user() {
            let place = call.ring_place()?;
            if let Some(max_wr) = change.max_wr {
                // SAFETY: The core passes an object of a device of `D`.
                let device = unsafe {
                    let pd = bindings::rdma_sock_helper_ibsrq_pd(srq);
                    device::<D>(bindings::rdma_sock_helper_ibpd_device(pd))
                };
                let attr = SrqAttr {
                    max_wr,
                    ..core.attr()
                };
                let ring = call.new_ring(device.user_srq_sizes(attr)?.ring)?;
                place.store(&ring)?;
                new = Some(ring);
            }
        }
        core.modify(change, new.as_ref()).map(|()| 0)
    })
}

/// `ib_device_ops::query_srq`.
///
/// # Safety
///
/// As for [`create_srq_raw`].
unsafe extern "C" fn query_srq_raw<D: IbDeviceOps>(
    srq: *mut bindings::ib_srq,
    attr: *mut bindings::ib_srq_attr,
) -> ffi::c_int {
    // SAFETY: The core passes an object of a device of `D`, and a structure for the result.
    unsafe { SrqShell::<D>::core(srq).attr().fill(&mut *attr) };
    0
}

/// `ib_device_ops::destroy_srq`.
///
/// # Safety
///
/// As for [`create_srq_raw`].
unsafe extern "C" fn destroy_srq_raw<D: IbDeviceOps>(
    srq: *mut bindings::ib_srq,
    _udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    // SAFETY: The core destroys an object that it created.
    if unsafe { SrqShell::<D>::core(srq) }
        .handle()
        .gate
        .refuses_end(false)
    {
        return EBUSY.to_errno();
    }
    // SAFETY: As above.
    let core = unsafe { SrqShell::<D>::take(srq) };
    core.destroy();
    core.handle().close();
    0
}

/// `ib_device_ops::post_srq_recv`.
///
/// # Safety
///
/// As for [`create_srq_raw`].
unsafe extern "C" fn post_srq_recv_raw<D: IbDeviceOps>(
    srq: *mut bindings::ib_srq,
    wr: *const bindings::ib_recv_wr,
    bad: *mut *const bindings::ib_recv_wr,
) -> ffi::c_int {
    // SAFETY: The program passes its queue.
    let core = unsafe { SrqShell::<D>::core(srq) };
    let mut next = wr;
    let result = from_result(|| {
        // Only the ring of user space counts.
        if core.handle().is_user() {
            return Err(EINVAL);
        }
        while !next.is_null() {
            // SAFETY: The program passes a list of work requests.
            unsafe {
                core.post(RecvWr::new(&*next)?)?;
                next = (*next).next;
            }
        }
        Ok(0)
    });
    if result != 0 {
        // SAFETY: The program passes a place for the request that was refused.
        unsafe { *bad = next };
    }
    result
}
