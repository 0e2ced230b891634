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
    ops::{
        IbCqOps,
        IbDeviceOps,
        IbMrOps,
        IbQpOps, //
    },
    qp::{
        IbQpType,
        MrAccess,
        QpCaps,
        QpChange,
        QpHandle,
        QpInit, //
    },
    sgid::{
        protocol_of,
        AddressVector, //
    },
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
    prelude::*,
    sync::Arc, //
};

pub(super) type PdShell<D> = Shell<bindings::ib_pd, <D as IbDeviceOps>::Pd>;
type CqShell<D> = Shell<bindings::ib_cq, <D as IbDeviceOps>::Cq>;
type QpShell<D> = Shell<bindings::ib_qp, <D as IbDeviceOps>::Qp>;
type MrShell<D> = Shell<bindings::ib_mr, <D as IbDeviceOps>::Mr>;
type AhShell<D> = Shell<bindings::ib_ah, <D as IbDeviceOps>::Ah>;

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
        // A number of its own belongs to an interface with user space, which there is none of.
        ops.driver_id = bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN;
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
        ops.alloc_pd = Some(alloc_pd_raw::<D>);
        ops.dealloc_pd = Some(dealloc_pd_raw::<D>);
        ops.create_cq = Some(create_cq_raw::<D>);
        ops.destroy_cq = Some(destroy_cq_raw::<D>);
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
        ops.reg_user_mr = Some(reg_user_mr_raw);
        ops.alloc_mr = Some(alloc_mr_raw::<D>);
        ops.map_mr_sg = Some(map_mr_sg_raw::<D>);
        ops.dereg_mr = Some(dereg_mr_raw::<D>);
        ops.create_ah = Some(create_ah_raw::<D>);
        ops.destroy_ah = Some(destroy_ah_raw::<D>);
        ops.size_ib_pd = PdShell::<D>::SIZE;
        ops.size_ib_cq = CqShell::<D>::SIZE;
        ops.size_ib_qp = QpShell::<D>::SIZE;
        ops.size_ib_ah = AhShell::<D>::SIZE;
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
    _udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    // SAFETY: The core passes its device and a zeroed structure for the result.
    unsafe { device::<D>(dev).query_device().fill(&mut *attr) };
    0
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
    _udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes an object of a device of `D` that is being created.
        unsafe {
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
    _attrs: *mut bindings::uverbs_attr_bundle,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes valid attributes.
        let (entries, flags) = unsafe { ((*attr).cqe, (*attr).flags) };
        if flags != 0 {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: The core passes an object of a device of `D` that is being created. It stays until
        // `destroy_cq_raw` returns, which closes the handle; a core that is not created drops it.
        unsafe {
            let dev = bindings::rdma_sock_helper_ibcq_device(cq);
            let handle = CqHandle::new(NonNull::new(cq).ok_or(EINVAL)?);
            CqShell::<D>::publish(cq, device::<D>(dev).create_cq(entries, handle)?);
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
    let core = unsafe { CqShell::<D>::take(cq) };
    core.destroy();
    core.handle().close();
    0
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

/// `ib_device_ops::create_qp`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn create_qp_raw<D: IbDeviceOps>(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_init_attr,
    _udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes valid attributes.
        let attr = unsafe { &mut *attr };
        let kind = match attr.qp_type {
            bindings::ib_qp_type_IB_QPT_RC => IbQpType::Rc,
            bindings::ib_qp_type_IB_QPT_UD => IbQpType::Ud,
            bindings::ib_qp_type_IB_QPT_GSI => IbQpType::Gsi,
            _ => return Err(EOPNOTSUPP),
        };
        let shares = !attr.srq.is_null();
        if attr.create_flags != 0
            || !attr.rwq_ind_tbl.is_null()
            || (shares && kind == IbQpType::Gsi)
        {
            return Err(EOPNOTSUPP);
        }
        if attr.send_cq.is_null() || attr.recv_cq.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: The core passes an object of a device of `D` that is being created, with objects of
        // the same device that outlive it. It stays until `destroy_qp_raw` returns, which closes the
        // handle; a core that is not created drops it.
        unsafe {
            let pd = bindings::rdma_sock_helper_ibqp_pd(qp);
            let dev = bindings::rdma_sock_helper_ibpd_device(pd);
            let init = QpInit {
                kind,
                pd: PdShell::<D>::core(pd).clone(),
                send_cq: CqShell::<D>::core(attr.send_cq).clone(),
                recv_cq: CqShell::<D>::core(attr.recv_cq).clone(),
                srq: shares.then(|| SrqShell::<D>::core(attr.srq).clone()),
                caps: QpCaps::new(&attr.cap),
                signal_all: attr.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
                handle: QpHandle::new(NonNull::new(qp).ok_or(EINVAL)?),
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
    _udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes an object of a device of `D`, and valid attributes.
        unsafe {
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

/// The pointer that stands for an error.
fn error_pointer<T>(err: Error) -> *mut T {
    err.to_ptr()
}

/// Gives a region of a device to the core.
fn new_mr<D: IbDeviceOps>(dev: &Arc<D>, core: Result<Arc<D::Mr>>) -> *mut bindings::ib_mr {
    let core = match core {
        Ok(core) => core,
        Err(err) => return error_pointer(err),
    };
    match KBox::<MrShell<D>>::new_uninit(GFP_KERNEL) {
        Ok(shell) => {
            let key = core.key();
            // SAFETY: All fields of the structure are numbers or pointers.
            let shell = shell.write(unsafe { MrShell::<D>::with_core(core) });
            let mr = KBox::into_raw(shell).cast::<bindings::ib_mr>();
            // SAFETY: The structure is ours until it is returned.
            unsafe { bindings::rdma_sock_helper_ibmr_set_keys(mr, key, key) };
            mr
        }
        Err(err) => {
            dev.dereg_mr(&core);
            error_pointer(err.into())
        }
    }
}

/// `ib_device_ops::get_dma_mr`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn get_dma_mr_raw<D: IbDeviceOps>(
    pd: *mut bindings::ib_pd,
    access: ffi::c_int,
) -> *mut bindings::ib_mr {
    // SAFETY: The core passes an object of a device of `D`.
    let (core, dev) = unsafe {
        let dev = bindings::rdma_sock_helper_ibpd_device(pd);
        (PdShell::<D>::core(pd), device::<D>(dev))
    };
    new_mr::<D>(
        &dev,
        MrAccess::new(access).and_then(|access| dev.linear_mr(&core, access)),
    )
}

/// `ib_device_ops::reg_user_mr`, without which the core takes the device for one that kernel programs
/// cannot use. There are no contexts of user space that could call it.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn reg_user_mr_raw(
    _pd: *mut bindings::ib_pd,
    _start: u64,
    _len: u64,
    _addr: u64,
    _access: ffi::c_int,
    _hints: *mut bindings::ib_dmah,
    _udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_mr {
    error_pointer(EOPNOTSUPP)
}

/// `ib_device_ops::alloc_mr`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn alloc_mr_raw<D: IbDeviceOps>(
    pd: *mut bindings::ib_pd,
    kind: bindings::ib_mr_type,
    pages: u32,
) -> *mut bindings::ib_mr {
    if kind != bindings::ib_mr_type_IB_MR_TYPE_MEM_REG {
        return error_pointer(EOPNOTSUPP);
    }
    // SAFETY: The core passes an object of a device of `D`.
    let (core, dev) = unsafe {
        let dev = bindings::rdma_sock_helper_ibpd_device(pd);
        (PdShell::<D>::core(pd), device::<D>(dev))
    };
    new_mr::<D>(&dev, dev.alloc_mr(&core, pages))
}

/// `ib_device_ops::map_mr_sg`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn map_mr_sg_raw<D: IbDeviceOps>(
    mr: *mut bindings::ib_mr,
    list: *mut bindings::scatterlist,
    count: ffi::c_int,
    offset: *mut ffi::c_uint,
) -> ffi::c_int {
    // SAFETY: The program passes its region.
    let core = unsafe { MrShell::<D>::core(mr) };
    core.update_map(|map| map.clear());
    // SAFETY: The program passes a list that is mapped for the device, whose addresses are those of the
    // kernel, and which it leaves mapped while the region is registered.
    let mapped =
        unsafe { bindings::ib_sg_to_pages(mr, list, count, offset, Some(set_page_raw::<D>)) };
    let (mut iova, mut len, mut page_size) = (0, 0, 0);
    // SAFETY: The region is valid, and all results are.
    unsafe { bindings::rdma_sock_helper_ibmr_extent(mr, &mut iova, &mut len, &mut page_size) };
    core.update_map(|map| map.finish(iova, len, page_size));
    mapped
}

/// The function that [`map_mr_sg_raw`] gives to the core.
///
/// # Safety
///
/// Only for `ib_sg_to_pages`, with a region of a device of `D` and one of its pages.
unsafe extern "C" fn set_page_raw<D: IbDeviceOps>(
    mr: *mut bindings::ib_mr,
    page: u64,
) -> ffi::c_int {
    // SAFETY: By this function's contract.
    let pushed = unsafe { MrShell::<D>::core(mr) }.update_map(|map| unsafe { map.push(page) });
    from_result(|| pushed.map(|()| 0))
}

/// `ib_device_ops::dereg_mr`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn dereg_mr_raw<D: IbDeviceOps>(
    mr: *mut bindings::ib_mr,
    _udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    // SAFETY: The core gives back what `new_mr` made.
    unsafe {
        let dev = bindings::rdma_sock_helper_ibmr_device(mr);
        let core = MrShell::<D>::take(mr);
        device::<D>(dev).dereg_mr(&core);
        drop(KBox::from_raw(mr.cast::<MrShell<D>>()));
    }
    0
}

/// `ib_device_ops::create_ah`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn create_ah_raw<D: IbDeviceOps>(
    ah: *mut bindings::ib_ah,
    attr: *mut bindings::rdma_ah_init_attr,
    _udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes an object of a device of `D` that is being created, and valid
        // attributes.
        unsafe {
            let pd = bindings::rdma_sock_helper_ibah_pd(ah);
            let dev = bindings::rdma_sock_helper_ibpd_device(pd);
            let to = AddressVector::new(&*(*attr).ah_attr)?;
            let core = device::<D>(dev).create_ah(&PdShell::<D>::core(pd), to)?;
            AhShell::<D>::publish(ah, core);
        }
        Ok(0)
    })
}

/// `ib_device_ops::destroy_ah`.
///
/// # Safety
///
/// As for [`query_device_raw`].
unsafe extern "C" fn destroy_ah_raw<D: IbDeviceOps>(
    ah: *mut bindings::ib_ah,
    _flags: u32,
) -> ffi::c_int {
    // SAFETY: The core destroys an object that it created.
    drop(unsafe { AhShell::<D>::take(ah) });
    0
}
