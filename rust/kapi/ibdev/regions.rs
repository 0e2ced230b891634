// SPDX-License-Identifier: GPL-2.0

//! Operations of memory regions.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    memory::{
        MrKind,
        MrMap,
        UserRange, //
    },
    ops::{
        IbDeviceOps,
        IbMrOps, //
    },
    qp::MrAccess,
    shell::Shell,
    table::{
        device,
        PdShell, //
    },
    user::CallData, //
};
use crate::{
    bindings,
    kapi::compat::errno::EOPNOTSUPP, //
};
use core::mem;
use kernel::{
    error::from_result,
    ffi,
    prelude::*,
    sync::Arc, //
};

type MrShell<D> = Shell<bindings::ib_mr, <D as IbDeviceOps>::Mr>;

/// Sizes of the blocks of pinned memory, one bit for each power of two.
const BLOCK_SIZES: u64 = 0xffff_f000;

/// The pointer that stands for an error.
fn error_pointer<T>(err: Error) -> *mut T {
    err.to_ptr()
}

/// Makes a region of a device and gives it to the core.
fn new_mr<D: IbDeviceOps>(make: impl FnOnce() -> Result<Arc<D::Mr>>) -> *mut bindings::ib_mr {
    // First, as nothing may fail once a program can name the key.
    let shell = match KBox::<MrShell<D>>::new_uninit(GFP_KERNEL) {
        Ok(shell) => shell,
        Err(err) => return error_pointer(err.into()),
    };
    let core = match make() {
        Ok(core) => core,
        Err(err) => return error_pointer(err),
    };
    let key = core.key();
    // SAFETY: All fields of the structure are numbers or pointers.
    let shell = shell.write(unsafe { MrShell::<D>::with_core(core) });
    let mr = KBox::into_raw(shell).cast::<bindings::ib_mr>();
    // SAFETY: The structure is ours until it is returned.
    unsafe { bindings::rdma_sock_helper_ibmr_set_keys(mr, key, key) };
    mr
}

/// `ib_device_ops::get_dma_mr`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
pub(super) unsafe extern "C" fn get_dma_mr_raw<D: IbDeviceOps>(
    pd: *mut bindings::ib_pd,
    access: ffi::c_int,
) -> *mut bindings::ib_mr {
    // SAFETY: The core passes an object of a device of `D`.
    let (core, dev) = unsafe {
        let dev = bindings::rdma_sock_helper_ibpd_device(pd);
        (PdShell::<D>::core(pd), device::<D>(dev))
    };
    new_mr::<D>(|| dev.linear_mr(&core, MrAccess::new(access)?))
}

/// `ib_device_ops::reg_user_mr`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
pub(super) unsafe extern "C" fn reg_user_mr_raw<D: IbDeviceOps>(
    pd: *mut bindings::ib_pd,
    start: u64,
    len: u64,
    iova: u64,
    access: ffi::c_int,
    hints: *mut bindings::ib_dmah,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_mr {
    if !hints.is_null() {
        return error_pointer(EOPNOTSUPP);
    }
    // SAFETY: The core passes an object of a device of `D`, and the data of the call.
    let (dev, core, device, call) = unsafe {
        let dev = bindings::rdma_sock_helper_ibpd_device(pd);
        let call = CallData::new(udata);
        (dev, PdShell::<D>::core(pd), device::<D>(dev), call)
    };
    let range = UserRange {
        start,
        len,
        iova,
        access,
    };
    let region = || {
        call.respond_empty()?;
        let rights = MrAccess::new(access)?;
        // SAFETY: The device is that of the call.
        let map = unsafe { MrMap::pin(dev, &range, BLOCK_SIZES)? };
        device.user_mr(&core, rights, map)
    };
    new_mr::<D>(region)
}

/// `ib_device_ops::alloc_mr`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
pub(super) unsafe extern "C" fn alloc_mr_raw<D: IbDeviceOps>(
    pd: *mut bindings::ib_pd,
    kind: bindings::ib_mr_type,
    entries: u32,
) -> *mut bindings::ib_mr {
    let kind = match kind {
        bindings::ib_mr_type_IB_MR_TYPE_MEM_REG => MrKind::Pages,
        bindings::ib_mr_type_IB_MR_TYPE_SG_GAPS => MrKind::Pieces,
        _ => return error_pointer(EOPNOTSUPP),
    };
    // SAFETY: The core passes an object of a device of `D`.
    let (core, dev) = unsafe {
        let dev = bindings::rdma_sock_helper_ibpd_device(pd);
        (PdShell::<D>::core(pd), device::<D>(dev))
    };
    new_mr::<D>(|| dev.alloc_mr(&core, kind, entries))
}

/// `ib_device_ops::map_mr_sg`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
pub(super) unsafe extern "C" fn map_mr_sg_raw<D: IbDeviceOps>(
    mr: *mut bindings::ib_mr,
    list: *mut bindings::scatterlist,
    count: ffi::c_int,
    offset: *mut ffi::c_uint,
) -> ffi::c_int {
    // SAFETY: The program passes its region.
    let core = unsafe { MrShell::<D>::core(mr) };
    if core.update_map(|map| map.clear()) == MrKind::Pieces {
        // SAFETY: As below.
        let mapped = unsafe { map_pieces::<D::Mr>(mr, &core, list, count, offset) };
        return from_result(|| mapped);
    }
    // SAFETY: The program passes a list that is mapped for the device, and which it leaves mapped while
    // the region is registered.
    let mapped =
        unsafe { bindings::ib_sg_to_pages(mr, list, count, offset, Some(set_page_raw::<D>)) };
    let (mut iova, mut len, mut page_size) = (0, 0, 0);
    // SAFETY: The region is valid, and all results are.
    unsafe { bindings::rdma_sock_helper_ibmr_extent(mr, &mut iova, &mut len, &mut page_size) };
    core.update_map(|map| map.finish(iova, len, page_size));
    mapped
}

/// Maps elements of a list as pieces, as many as there is room for. Returns their number.
///
/// # Safety
///
/// As [`map_mr_sg_raw`], for the region `core` of `mr`.
unsafe fn map_pieces<M: IbMrOps>(
    mr: *mut bindings::ib_mr,
    core: &M,
    list: *mut bindings::scatterlist,
    count: ffi::c_int,
    offset: *mut ffi::c_uint,
) -> Result<ffi::c_int> {
    // SAFETY: The program passes a valid pointer, or none.
    let mut skip = unsafe { offset.as_mut() }.map_or(0, mem::take);
    let mut next = list;
    let mut mapped = 0;
    let mut extent = (0, 0);
    while mapped < count && !next.is_null() {
        let (mut addr, mut len) = (0, 0);
        // SAFETY: The element is one of the list.
        next = unsafe { bindings::rdma_sock_helper_sg_mapped(next, &mut addr, &mut len) };
        let len = len.checked_sub(skip).ok_or(EINVAL)?;
        let addr = addr.wrapping_add(u64::from(skip));
        skip = 0;
        // SAFETY: By this function's contract, the list is one that the owner of the region maps.
        let pushed = core.update_map(|map| unsafe { map.push_piece(addr, len) });
        if pushed.is_err() {
            break;
        }
        if mapped == 0 {
            extent.0 = addr;
        }
        extent.1 += u64::from(len);
        mapped += 1;
    }
    if mapped == 0 {
        return Err(EINVAL);
    }
    // SAFETY: The region is valid.
    unsafe { bindings::rdma_sock_helper_ibmr_set_extent(mr, extent.0, extent.1) };
    core.update_map(|map| map.rename(extent.0));
    Ok(mapped)
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
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
pub(super) unsafe extern "C" fn dereg_mr_raw<D: IbDeviceOps>(
    mr: *mut bindings::ib_mr,
    _udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core gives back what `new_mr` made; it stays the core's if there is an error.
        unsafe {
            let dev = bindings::rdma_sock_helper_ibmr_device(mr);
            device::<D>(dev).dereg_mr(&MrShell::<D>::core(mr))?;
            drop(MrShell::<D>::take(mr));
            drop(KBox::from_raw(mr.cast::<MrShell<D>>()));
        }
        Ok(0)
    })
}
