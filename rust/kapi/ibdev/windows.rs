// SPDX-License-Identifier: GPL-2.0

//! Operations of memory windows.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    ops::{
        IbDeviceOps,
        IbMwOps,
        MwKind, //
    },
    shell::Shell,
    table::{
        device,
        PdShell, //
    },
    user::CallData, //
};
use crate::bindings;
use kernel::{
    error::from_result,
    ffi, //
};

type MwShell<D> = Shell<bindings::ib_mw, <D as IbDeviceOps>::Mw>;

/// Enters the operations into a table for devices of `D`.
pub(super) fn install<D: IbDeviceOps>(ops: &mut bindings::ib_device_ops) {
    ops.alloc_mw = Some(alloc_mw_raw::<D>);
    ops.dealloc_mw = Some(dealloc_mw_raw::<D>);
    ops.size_ib_mw = MwShell::<D>::SIZE;
}

/// `ib_device_ops::alloc_mw`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
unsafe extern "C" fn alloc_mw_raw<D: IbDeviceOps>(
    mw: *mut bindings::ib_mw,
    udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes an object of a device of `D` that is being created, and the data of the
        // call.
        unsafe {
            CallData::new(udata).respond_empty()?;
            let kind = if bindings::rdma_sock_helper_ibmw_is_type_2(mw) {
                MwKind::Two
            } else {
                MwKind::One
            };
            let pd = PdShell::<D>::core(bindings::rdma_sock_helper_ibmw_pd(mw));
            let dev = bindings::rdma_sock_helper_ibmw_device(mw);
            let core = device::<D>(dev).alloc_mw(&pd, kind)?;
            bindings::rdma_sock_helper_ibmw_set_key(mw, core.key());
            MwShell::<D>::publish(mw, core);
        }
        Ok(0)
    })
}

/// `ib_device_ops::dealloc_mw`.
///
/// # Safety
///
/// As for [`alloc_mw_raw`].
unsafe extern "C" fn dealloc_mw_raw<D: IbDeviceOps>(mw: *mut bindings::ib_mw) -> ffi::c_int {
    // SAFETY: The core destroys an object that it created.
    unsafe {
        let dev = bindings::rdma_sock_helper_ibmw_device(mw);
        let core = MwShell::<D>::take(mw);
        device::<D>(dev).dealloc_mw(&core);
    }
    0
}
