// SPDX-License-Identifier: GPL-2.0

//! The table of C functions that call the operations of a device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    attr::{
        GID_TABLE_LEN,
        MAX_MAD,
        PKEY_TABLE_LEN, //
    },
    completion::{
        CqHandle,
        PolledCompletions, //
    },
    device::{
        DeviceShell,
        IbDeviceCall, //
    },
    handles::{
        create_ah_raw,
        create_user_ah_raw,
        destroy_ah_raw,
        modify_ah_raw,
        query_ah_raw,
        AhShell, //
    },
    ops::{
        IbCqOps,
        IbDeviceOps,
        IbQpOps, //
    },
    qp::{
        IbQpType,
        QpCaps,
        QpChange,
        QpHandle,
        QpInit,
        QpMappings, //
    },
    regions::{
        alloc_mr_raw,
        dereg_mr_raw,
        get_dma_mr_raw,
        map_mr_sg_raw,
        reg_user_mr_raw, //
    },
    sgid::protocol_of,
    shell::{
        CoreRef,
        Shell, //
    },
    srq::{
        self,
        SrqShell, //
    },
    stats::{
        self,
        StatValues, //
    },
    user::{
        alloc_ucontext_raw,
        dealloc_ucontext_raw,
        disassociate_ucontext_raw,
        mmap_free_raw,
        mmap_raw,
        CallData, //
    },
    windows,
    wr::{
        RecvWr,
        SendWr, //
    },
};
use crate::{
    bindings,
    kapi::{
        compat::errno::EOPNOTSUPP,
        net::netdev_ref::NetDeviceRef, //
    },
};
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::{
    error::from_result,
    ffi,
    prelude::*, //
};

pub(super) type PdShell<D> = Shell<bindings::ib_pd, <D as IbDeviceOps>::Pd>;
type CqShell<D> = Shell<bindings::ib_cq, <D as IbDeviceOps>::Cq>;
type QpShell<D> = Shell<bindings::ib_qp, <D as IbDeviceOps>::Qp>;

/// Version of `rdma_rxe`'s interface with user space.
const UVERBS_ABI: u32 = 2;

/// A table of operations, which the core copies.
pub(super) struct OpsTable(KBox<bindings::ib_device_ops>);

impl OpsTable {
    /// The table for devices that are shells of `D`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new<D: IbDeviceOps>() -> Result<Self> {
        let mut ops = KBox::<bindings::ib_device_ops>::new_uninit(GFP_KERNEL)?;
        // SAFETY: All fields are numbers, pointers or optional functions, for which zero is valid.
        let mut ops = unsafe {
            ops.as_mut_ptr().write_bytes(0, 1);
            ops.assume_init()
        };
        // The interface with user space is that of `rdma_rxe` (RNIC-UAPI-02).
        ops.driver_id = bindings::rdma_driver_id_RDMA_DRIVER_RXE;
        ops.uverbs_abi_ver = UVERBS_ABI;
        ops.query_device = Some(query_device_raw::<D>);
        ops.query_port = Some(query_port_raw::<D>);
        ops.get_port_immutable = Some(get_port_immutable_raw::<D>);
        ops.alloc_hw_port_stats = Some(alloc_hw_port_stats_raw::<D>);
        ops.get_hw_stats = Some(get_hw_stats_raw::<D>);
        ops.get_link_layer = Some(get_link_layer_raw);
        ops.get_netdev = Some(get_netdev_raw::<D>);
        ops.query_pkey = Some(query_pkey_raw);
        ops.add_gid = Some(add_gid_raw::<D>);
        ops.del_gid = Some(del_gid_raw::<D>);
        ops.dealloc_driver = Some(dealloc_driver_raw::<D>);
        ops.alloc_ucontext = Some(alloc_ucontext_raw);
        ops.dealloc_ucontext = Some(dealloc_ucontext_raw);
        ops.disassociate_ucontext = Some(disassociate_ucontext_raw);
        ops.mmap = Some(mmap_raw);
        ops.mmap_free = Some(mmap_free_raw);
        ops.alloc_pd = Some(alloc_pd_raw::<D>);
        ops.dealloc_pd = Some(dealloc_pd_raw::<D>);
        ops.create_cq = Some(create_cq_raw::<D>);
        ops.destroy_cq = Some(destroy_cq_raw::<D>);
        ops.resize_user_cq = Some(resize_user_cq_raw::<D>);
        ops.poll_cq = Some(poll_cq_raw::<D>);
        ops.req_notify_cq = Some(req_notify_cq_raw::<D>);
        ops.create_qp = Some(create_qp_raw::<D>);
        ops.modify_qp = Some(modify_qp_raw::<D>);
        ops.query_qp = Some(query_qp_raw::<D>);
        ops.destroy_qp = Some(destroy_qp_raw::<D>);
        srq::install::<D>(&mut ops);
        ops.post_send = Some(post_send_raw::<D>);
        ops.post_recv = Some(post_recv_raw::<D>);
        ops.get_dma_mr = Some(get_dma_mr_raw::<D>);
        ops.reg_user_mr = Some(reg_user_mr_raw::<D>);
        ops.alloc_mr = Some(alloc_mr_raw::<D>);
        ops.map_mr_sg = Some(map_mr_sg_raw::<D>);
        ops.dereg_mr = Some(dereg_mr_raw::<D>);
        windows::install::<D>(&mut ops);
        ops.create_ah = Some(create_ah_raw::<D>);
        ops.create_user_ah = Some(create_user_ah_raw::<D>);
        ops.modify_ah = Some(modify_ah_raw::<D>);
        ops.query_ah = Some(query_ah_raw::<D>);
        ops.destroy_ah = Some(destroy_ah_raw::<D>);
        ops.size_ib_pd = PdShell::<D>::SIZE;
        ops.size_ib_cq = CqShell::<D>::SIZE;
        ops.size_ib_qp = QpShell::<D>::SIZE;
        ops.size_ib_ah = AhShell::<D>::SIZE;
        ops.size_ib_ucontext = size_of::<bindings::ib_ucontext>();
        Ok(Self(ops))
    }

    /// The table for C.
    pub(super) fn as_ptr(&self) -> *const bindings::ib_device_ops {
        &raw const *self.0
    }
}

/// The driver's device of a call.
///
/// # Safety
///
/// `dev` must be the device that the verbs core calls an operation of [`OpsTable::new`] for `D` with.
pub(super) unsafe fn device<'a, D: IbDeviceOps>(dev: *mut bindings::ib_device) -> CoreRef<'a, D> {
    // SAFETY: The table is installed in shells of `D` only, and no operation is called after the
    // device was released.
    unsafe { DeviceShell::core(dev) }
}

/// `ib_device_ops::query_device`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
unsafe extern "C" fn query_device_raw<D: IbDeviceOps>(
    dev: *mut bindings::ib_device,
    attr: *mut bindings::ib_device_attr,
    udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes its device, a zeroed structure for the result, and the data of the call.
        unsafe {
            CallData::new(udata).respond_empty()?;
            device::<D>(dev).query_device().fill(&mut *attr);
        }
        Ok(0)
    })
}

/// `ib_device_ops::query_port`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn query_port_raw<D: IbDeviceOps>(
    dev: *mut bindings::ib_device,
    _port: u32,
    attr: *mut bindings::ib_port_attr,
) -> ffi::c_int {
    // SAFETY: The core passes its device and a structure for the result.
    unsafe {
        let call = IbDeviceCall::new(dev);
        device::<D>(dev).query_port(&call).fill(&mut *attr);
    }
    0
}

/// `ib_device_ops::alloc_hw_port_stats`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn alloc_hw_port_stats_raw<D: IbDeviceOps>(
    _dev: *mut bindings::ib_device,
    _port: u32,
) -> *mut bindings::rdma_hw_stats {
    stats::alloc(D::COUNTERS)
}

/// `ib_device_ops::get_hw_stats`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn get_hw_stats_raw<D: IbDeviceOps>(
    dev: *mut bindings::ib_device,
    values: *mut bindings::rdma_hw_stats,
    _port: u32,
    _index: ffi::c_int,
) -> ffi::c_int {
    // SAFETY: The core passes its device, and what `alloc_hw_port_stats_raw` made.
    unsafe { device::<D>(dev).read_counters(&mut StatValues::new(values)) };
    ffi::c_int::try_from(D::COUNTERS.len()).unwrap_or(0)
}

/// `ib_device_ops::get_port_immutable`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn get_port_immutable_raw<D: IbDeviceOps>(
    dev: *mut bindings::ib_device,
    _port: u32,
    immutable: *mut bindings::ib_port_immutable,
) -> ffi::c_int {
    // SAFETY: The core passes its device and a structure for the result.
    let (core, immutable) = unsafe { (device::<D>(dev), &mut *immutable) };
    immutable.pkey_tbl_len = ffi::c_int::from(PKEY_TABLE_LEN);
    immutable.gid_tbl_len = GID_TABLE_LEN;
    immutable.core_cap_flags = core.versions().core_caps();
    immutable.max_mad_size = MAX_MAD;
    0
}

/// `ib_device_ops::get_link_layer`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn get_link_layer_raw(
    _dev: *mut bindings::ib_device,
    _port: u32,
) -> bindings::rdma_link_layer {
    bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET
}

/// `ib_device_ops::get_netdev`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn get_netdev_raw<D: IbDeviceOps>(
    dev: *mut bindings::ib_device,
    _port: u32,
) -> *mut bindings::net_device {
    // SAFETY: The core passes its device.
    let netdev = unsafe { device::<D>(dev) }.netdev();
    netdev.map_or(null_mut(), NetDeviceRef::into_raw)
}

/// `ib_device_ops::query_pkey`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn query_pkey_raw(
    _dev: *mut bindings::ib_device,
    _port: u32,
    index: u16,
    pkey: *mut u16,
) -> ffi::c_int {
    /// The default partition, with full membership.
    const DEFAULT: u16 = 0xffff;

    if index >= PKEY_TABLE_LEN {
        return EINVAL.to_errno();
    }
    // SAFETY: The core passes a place for the result.
    unsafe { *pkey = DEFAULT };
    0
}

/// `ib_device_ops::add_gid`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn add_gid_raw<D: IbDeviceOps>(
    attr: *const bindings::ib_gid_attr,
    _context: *mut *mut ffi::c_void,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes an entry of its device.
        unsafe {
            let attr = &*attr;
            let (gid, protocol) = protocol_of(attr);
            device::<D>(attr.device).add_address(attr.index, gid, protocol)?;
        }
        Ok(0)
    })
}

/// `ib_device_ops::del_gid`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn del_gid_raw<D: IbDeviceOps>(
    attr: *const bindings::ib_gid_attr,
    _context: *mut *mut ffi::c_void,
) -> ffi::c_int {
    // SAFETY: The core passes an entry of its device.
    unsafe { device::<D>((*attr).device).remove_address((*attr).index) };
    0
}

/// `ib_device_ops::dealloc_driver`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn dealloc_driver_raw<D: IbDeviceOps>(dev: *mut bindings::ib_device) {
    // SAFETY: The core calls this once, when no other operation is called any longer; a failed
    // registration calls it once, too.
    let core = unsafe { DeviceShell::<D>::take(dev) };
    D::released(&core);
}

/// `ib_device_ops::alloc_pd`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn alloc_pd_raw<D: IbDeviceOps>(
    pd: *mut bindings::ib_pd,
    udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes an object of a device of `D` that is being created, and the data of the
        // call.
        unsafe {
            CallData::new(udata).respond_empty()?;
            let dev = bindings::rdma_sock_helper_ibpd_device(pd);
            PdShell::<D>::publish(pd, device::<D>(dev).alloc_pd()?);
        }
        Ok(0)
    })
}

/// `ib_device_ops::dealloc_pd`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn dealloc_pd_raw<D: IbDeviceOps>(
    pd: *mut bindings::ib_pd,
    _udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    // SAFETY: The core destroys an object that it created.
    drop(unsafe { PdShell::<D>::take(pd) });
    0
}

/// `ib_device_ops::create_cq`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn create_cq_raw<D: IbDeviceOps>(
    cq: *mut bindings::ib_cq,
    attr: *const bindings::ib_cq_init_attr,
    attrs: *mut bindings::uverbs_attr_bundle,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes valid attributes.
        let (mut entries, flags) = unsafe { ((*attr).cqe, (*attr).flags) };
        if flags != 0 {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: The core passes the attributes of the call.
        let call = unsafe { CallData::of_bundle(attrs) };
        let new = if call.is_user() {
            call.expect_empty()?;
            // SAFETY: The core passes an object of a device of `D`.
            let device = unsafe { device::<D>(bindings::rdma_sock_helper_ibcq_device(cq)) };
            let sizes = device.user_cq_sizes(entries)?;
            entries = sizes.entries;
            let new = call.new_ring(sizes.ring)?;
            call.respond_cq(&new)?;
            Some(new)
        } else {
            None
        };
        // SAFETY: The core passes an object of a device of `D` that is being created. It stays until
        // `destroy_cq_raw` returns, which closes the handle; a core that is not created drops it.
        unsafe {
            let dev = bindings::rdma_sock_helper_ibcq_device(cq);
            let ring = new.as_ref().map(|new| new.ring().clone());
            let mapping = new.map(|new| new.mapping);
            let handle = CqHandle::new(NonNull::new(cq).ok_or(EINVAL)?, mapping);
            let core = device::<D>(dev).create_cq(entries, handle, ring.as_ref())?;
            CqShell::<D>::publish(cq, core);
            bindings::rdma_sock_helper_ibcq_set_entries(cq, entries);
        }
        Ok(0)
    })
}

/// `ib_device_ops::destroy_cq`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn destroy_cq_raw<D: IbDeviceOps>(
    cq: *mut bindings::ib_cq,
    _udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    // SAFETY: The core destroys an object that it created.
    if unsafe { CqShell::<D>::core(cq) }.handle().refuses_end() {
        return EBUSY.to_errno();
    }
    // SAFETY: As above.
    let core = unsafe { CqShell::<D>::take(cq) };
    core.destroy();
    core.handle().close();
    0
}

/// `ib_device_ops::resize_user_cq`. The verbs core has no such call for kernel programs.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn resize_user_cq_raw<D: IbDeviceOps>(
    cq: *mut bindings::ib_cq,
    entries: ffi::c_uint,
    udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes an object of a device of `D`, and the data of the call.
        let (core, device, call) = unsafe {
            let dev = bindings::rdma_sock_helper_ibcq_device(cq);
            (
                CqShell::<D>::core(cq),
                device::<D>(dev),
                CallData::new(udata),
            )
        };
        call.expect_empty()?;
        let sizes = device.user_cq_sizes(entries)?;
        let new = call.new_ring(sizes.ring)?;
        call.respond_cq(&new)?;
        core.resize(entries, &new)?;
        // SAFETY: The object is valid.
        unsafe { bindings::rdma_sock_helper_ibcq_set_entries(cq, sizes.entries) };
        Ok(0)
    })
}

/// `ib_device_ops::poll_cq`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn poll_cq_raw<D: IbDeviceOps>(
    cq: *mut bindings::ib_cq,
    count: ffi::c_int,
    wc: *mut bindings::ib_wc,
) -> ffi::c_int {
    let Ok(count) = u32::try_from(count) else {
        return EINVAL.to_errno();
    };
    // SAFETY: The program passes its queue, and room for that number of completions.
    unsafe {
        let mut polled = PolledCompletions::new(wc, count);
        CqShell::<D>::core(cq).poll(&mut polled);
        polled.used() as ffi::c_int
    }
}

/// `ib_device_ops::req_notify_cq`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn req_notify_cq_raw<D: IbDeviceOps>(
    cq: *mut bindings::ib_cq,
    flags: bindings::ib_cq_notify_flags,
) -> ffi::c_int {
    let kind = flags & bindings::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK;
    let solicited = kind == bindings::ib_cq_notify_flags_IB_CQ_SOLICITED;
    // SAFETY: The program passes its queue.
    let pending = unsafe { CqShell::<D>::core(cq) }.request_notify(solicited);
    let report = flags & bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
    ffi::c_int::from(report && pending)
}

/// The kind of a queue pair to be created.
///
/// # Errors
///
/// `EOPNOTSUPP` for attributes that no device here has, `EINVAL` without completion queues.
fn qp_kind(attr: &bindings::ib_qp_init_attr) -> Result<IbQpType> {
    let kind = match attr.qp_type {
        bindings::ib_qp_type_IB_QPT_RC => IbQpType::Rc,
        bindings::ib_qp_type_IB_QPT_UC => IbQpType::Uc,
        bindings::ib_qp_type_IB_QPT_UD => IbQpType::Ud,
        bindings::ib_qp_type_IB_QPT_GSI => IbQpType::Gsi,
        _ => return Err(EOPNOTSUPP),
    };
    let shares = !attr.srq.is_null();
    let shares_gsi = shares && kind == IbQpType::Gsi;
    if attr.create_flags != 0 || !attr.rwq_ind_tbl.is_null() || shares_gsi {
        return Err(EOPNOTSUPP);
    }
    if attr.send_cq.is_null() || attr.recv_cq.is_null() {
        return Err(EINVAL);
    }
    Ok(kind)
}

/// `ib_device_ops::create_qp`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn create_qp_raw<D: IbDeviceOps>(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_init_attr,
    udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes valid attributes, and the data of the call.
        let (attr, call) = unsafe { (&mut *attr, CallData::new(udata)) };
        let kind = qp_kind(attr)?;
        let shares = !attr.srq.is_null();
        let mut caps = QpCaps::new(&attr.cap);
        // SAFETY: The core passes an object of a device of `D`.
        let pd = unsafe { bindings::rdma_sock_helper_ibqp_pd(qp) };
        let mappings = if call.is_user() {
            call.expect_empty()?;
            // SAFETY: As above.
            let device = unsafe { device::<D>(bindings::rdma_sock_helper_ibpd_device(pd)) };
            let sizes = device.user_qp_sizes(caps, shares)?;
            caps = sizes.caps;
            let receives = match sizes.receives {
                Some(octets) => Some(call.new_ring(octets)?),
                None => None,
            };
            let mappings = QpMappings {
                sends: call.new_ring(sizes.sends)?,
                receives,
            };
            call.respond_qp(&mappings.sends, mappings.receives.as_ref())?;
            Some(mappings)
        } else {
            None
        };
        // SAFETY: The core passes an object of a device of `D` that is being created, with objects of
        // the same device that outlive it. It stays until `destroy_qp_raw` returns, which closes the
        // handle; a core that is not created drops it.
        unsafe {
            let dev = bindings::rdma_sock_helper_ibpd_device(pd);
            let init = QpInit {
                kind,
                pd: PdShell::<D>::core(pd).clone(),
                send_cq: CqShell::<D>::core(attr.send_cq).clone(),
                recv_cq: CqShell::<D>::core(attr.recv_cq).clone(),
                srq: shares.then(|| SrqShell::<D>::core(attr.srq).clone()),
                caps,
                signal_all: attr.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
                handle: QpHandle::new(NonNull::new(qp).ok_or(EINVAL)?, mappings),
            };
            let (core, number) = device::<D>(dev).create_qp(init)?;
            core.caps().fill(&mut attr.cap);
            bindings::rdma_sock_helper_ibqp_set_number(qp, number);
            QpShell::<D>::publish(qp, core);
        }
        Ok(0)
    })
}

/// `ib_device_ops::modify_qp`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn modify_qp_raw<D: IbDeviceOps>(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    mask: ffi::c_int,
    udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes an object of a device of `D`, valid attributes, and the data of the
        // call.
        unsafe {
            CallData::new(udata).respond_empty()?;
            let kind = bindings::rdma_sock_helper_ibqp_type(qp);
            let change = QpChange::new(&*attr, mask as u32, kind);
            QpShell::<D>::core(qp).modify(&change)?;
        }
        Ok(0)
    })
}

/// `ib_device_ops::query_qp`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn query_qp_raw<D: IbDeviceOps>(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    _mask: ffi::c_int,
    init: *mut bindings::ib_qp_init_attr,
) -> ffi::c_int {
    // SAFETY: The core passes an object of a device of `D`, and structures for the results.
    let (core, attr, init) = unsafe { (QpShell::<D>::core(qp), &mut *attr, &mut *init) };
    core.query(&mut |record, report| record.fill(attr, report));
    core.caps().fill(&mut init.cap);
    // SAFETY: The object is valid.
    unsafe { bindings::rdma_sock_helper_ibqp_fill_init(qp, init) };
    0
}

/// `ib_device_ops::destroy_qp`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn destroy_qp_raw<D: IbDeviceOps>(
    qp: *mut bindings::ib_qp,
    _udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    // SAFETY: The core destroys an object that it created.
    let core = unsafe { QpShell::<D>::core(qp) };
    if core.handle().refuses_end(core.is_completing()) {
        return EBUSY.to_errno();
    }
    // SAFETY: As above. The borrow is not used again.
    let core = unsafe { QpShell::<D>::take(qp) };
    core.destroy();
    core.handle().close();
    0
}

/// `ib_device_ops::post_send`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn post_send_raw<D: IbDeviceOps>(
    qp: *mut bindings::ib_qp,
    wr: *const bindings::ib_send_wr,
    bad: *mut *const bindings::ib_send_wr,
) -> ffi::c_int {
    // SAFETY: The program passes its queue pair.
    let core = unsafe { QpShell::<D>::core(qp) };
    let datagram = core.takes_datagrams();
    let mut next = wr;
    let result = from_result(|| {
        if core.handle().is_user() {
            // A request that the core has built names memory of user space: only rings count.
            return if wr.is_null() {
                core.doorbell().map(|()| 0)
            } else {
                Err(EINVAL)
            };
        }
        while !next.is_null() {
            // SAFETY: The program passes a list of work requests.
            unsafe {
                core.post_send(SendWr::new(next, datagram)?)?;
                next = (*next).next;
            }
        }
        Ok(0)
    });
    if result != 0 {
        // SAFETY: The program passes a place for the request that was refused.
        unsafe { *bad = next };
    }
    core.posted();
    result
}

/// `ib_device_ops::post_recv`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn post_recv_raw<D: IbDeviceOps>(
    qp: *mut bindings::ib_qp,
    wr: *const bindings::ib_recv_wr,
    bad: *mut *const bindings::ib_recv_wr,
) -> ffi::c_int {
    // SAFETY: The program passes its queue pair.
    let core = unsafe { QpShell::<D>::core(qp) };
    let mut next = wr;
    let result = from_result(|| {
        if core.handle().is_user() {
            return Err(EINVAL);
        }
        while !next.is_null() {
            // SAFETY: The program passes a list of work requests.
            unsafe {
                core.post_recv(RecvWr::new(&*next)?)?;
                next = (*next).next;
            }
        }
        Ok(0)
    });
    if result != 0 {
        // SAFETY: The program passes a place for the request that was refused.
        unsafe { *bad = next };
    }
    core.posted();
    result
}
