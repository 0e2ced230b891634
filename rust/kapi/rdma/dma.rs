// SPDX-License-Identifier: GPL-2.0

//! Memory mapped for an RDMA device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::device::{
    Device,
    Lease, //
};
use crate::bindings;
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// A mapping of contiguous memory. Dropped in any context.
///
/// # Invariants
///
/// `len` octets are mapped for the leased device at `addr` in the direction `dir`.
pub(in crate::kapi) struct Mapping {
    lease: Lease,
    addr: u64,
    len: usize,
    dir: bindings::dma_data_direction,
}

impl Mapping {
    /// Maps memory that the device reads. Any context.
    ///
    /// # Safety
    ///
    /// `memory` is valid for `len` octets, contiguous and in the linear map, until the mapping is
    /// dropped.
    pub(in crate::kapi) unsafe fn to_device(
        dev: &Arc<Device>,
        memory: *mut u8,
        len: usize,
    ) -> Result<Self> {
        // SAFETY: By this function's contract.
        unsafe {
            Self::new(
                dev,
                memory,
                len,
                bindings::dma_data_direction::DMA_TO_DEVICE,
            )
        }
    }

    /// Maps memory that the device writes. Any context.
    ///
    /// # Safety
    ///
    /// As for [`Self::to_device`].
    pub(in crate::kapi) unsafe fn from_device(
        dev: &Arc<Device>,
        memory: *mut u8,
        len: usize,
    ) -> Result<Self> {
        // SAFETY: By this function's contract.
        unsafe {
            Self::new(
                dev,
                memory,
                len,
                bindings::dma_data_direction::DMA_FROM_DEVICE,
            )
        }
    }

    /// # Safety
    ///
    /// As for [`Self::to_device`].
    unsafe fn new(
        dev: &Arc<Device>,
        memory: *mut u8,
        len: usize,
        dir: bindings::dma_data_direction,
    ) -> Result<Self> {
        let lease = dev.lease()?;
        // SAFETY: The driver is there, and the memory is good by this function's contract.
        let addr = unsafe {
            bindings::rdma_sock_helper_ib_dma_map_single(lease.as_raw(), memory.cast(), len, dir)
        };
        // SAFETY: `addr` is the result of mapping for this device.
        to_result(unsafe {
            bindings::rdma_sock_helper_ib_dma_mapping_error(lease.as_raw(), addr)
        })?;
        // INVARIANT: Mapped just now.
        Ok(Self {
            lease,
            addr,
            len,
            dir,
        })
    }

    /// The device.
    pub(in crate::kapi) fn device(&self) -> &Arc<Device> {
        self.lease.device()
    }

    /// The address of `off` for the device.
    pub(in crate::kapi) fn addr(&self, off: usize) -> Result<u64> {
        let off = u64::try_from(off).map_err(|_| EINVAL)?;
        self.addr.checked_add(off).ok_or(EINVAL)
    }

    fn check(&self, off: usize, len: usize) -> Result<u64> {
        match off.checked_add(len) {
            Some(end) if end <= self.len => self.addr(off),
            _ => Err(EINVAL),
        }
    }

    /// Makes what the device wrote visible to the CPU. Any context.
    pub(in crate::kapi) fn sync_for_cpu(&self, off: usize, len: usize) -> Result {
        let addr = self.check(off, len)?;
        // SAFETY: The range is mapped by the type invariants and the check.
        unsafe {
            bindings::rdma_sock_helper_ib_dma_sync_single_for_cpu(
                self.lease.as_raw(),
                addr,
                len,
                self.dir,
            )
        };
        Ok(())
    }

    /// Makes what the CPU wrote visible to the device. Any context.
    pub(in crate::kapi) fn sync_for_device(&self, off: usize, len: usize) -> Result {
        let addr = self.check(off, len)?;
        // SAFETY: The range is mapped by the type invariants and the check.
        unsafe {
            bindings::rdma_sock_helper_ib_dma_sync_single_for_device(
                self.lease.as_raw(),
                addr,
                len,
                self.dir,
            )
        };
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: Mapped like this by the type invariants.
        unsafe {
            bindings::rdma_sock_helper_ib_dma_unmap_single(
                self.lease.as_raw(),
                self.addr,
                self.len,
                self.dir,
            )
        };
    }
}
