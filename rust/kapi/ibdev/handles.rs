// SPDX-License-Identifier: GPL-2.0

//! Operations of address handles.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    ops::{
        IbAhOps,
        IbDeviceOps, //
    },
    sgid::AddressVector,
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

pub(super) type AhShell<D> = Shell<bindings::ib_ah, <D as IbDeviceOps>::Ah>;

/// `ib_device_ops::create_ah`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
pub(super) unsafe extern "C" fn create_ah_raw<D: IbDeviceOps>(
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

/// `ib_device_ops::create_user_ah`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
pub(super) unsafe extern "C" fn create_user_ah_raw<D: IbDeviceOps>(
    ah: *mut bindings::ib_ah,
    attr: *mut bindings::rdma_ah_init_attr,
    udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes an object of a device of `D` that is being created, valid attributes,
        // and the data of the call.
        unsafe {
            let call = CallData::new(udata);
            call.expect_empty()?;
            let pd = bindings::rdma_sock_helper_ibah_pd(ah);
            let dev = bindings::rdma_sock_helper_ibpd_device(pd);
            let to = AddressVector::new(&*(*attr).ah_attr)?;
            let device = device::<D>(dev);
            let core = device.create_user_ah(&PdShell::<D>::core(pd), to)?;
            if let Err(err) = call.respond_ah(core.number()) {
                device.destroy_ah(&core);
                return Err(err);
            }
            AhShell::<D>::publish(ah, core);
        }
        Ok(0)
    })
}

/// `ib_device_ops::modify_ah`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
pub(super) unsafe extern "C" fn modify_ah_raw<D: IbDeviceOps>(
    ah: *mut bindings::ib_ah,
    attr: *mut bindings::rdma_ah_attr,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The core passes an object of a device of `D`, and valid attributes.
        unsafe {
            let dev = bindings::rdma_sock_helper_ibah_device(ah);
            let to = AddressVector::new(&*attr)?;
            device::<D>(dev).modify_ah(&AhShell::<D>::core(ah), to)?;
        }
        Ok(0)
    })
}

/// `ib_device_ops::query_ah`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
pub(super) unsafe extern "C" fn query_ah_raw<D: IbDeviceOps>(
    ah: *mut bindings::ib_ah,
    attr: *mut bindings::rdma_ah_attr,
) -> ffi::c_int {
    // SAFETY: The core passes an object of a device of `D`, and a structure for the result.
    unsafe {
        let dev = bindings::rdma_sock_helper_ibah_device(ah);
        device::<D>(dev).query_ah(&AhShell::<D>::core(ah), &mut |to| {
            to.fill(&mut *attr);
        });
    }
    0
}

/// `ib_device_ops::destroy_ah`.
///
/// # Safety
///
/// Only for the verbs core, which passes what the documentation of the operation says, for a device of
/// `D`.
pub(super) unsafe extern "C" fn destroy_ah_raw<D: IbDeviceOps>(
    ah: *mut bindings::ib_ah,
    _flags: u32,
) -> ffi::c_int {
    // SAFETY: The core destroys an object that it created, of a device of `D`.
    unsafe {
        let dev = bindings::rdma_sock_helper_ibah_device(ah);
        let core = AhShell::<D>::take(ah);
        device::<D>(dev).destroy_ah(&core);
    }
    0
}
