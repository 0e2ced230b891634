// SPDX-License-Identifier: GPL-2.0

//! Memory mapped for an RDMA device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::device::{
    Device,
    Lease, //
};
use crate::{
    bindings,
    kapi::compat::enums::{
        DMA_BIDIRECTIONAL,
        DMA_FROM_DEVICE,
        DMA_TO_DEVICE, //
    },
};
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
        unsafe { Self::new(dev, memory, len, DMA_TO_DEVICE) }
    }

    /// Maps memory that the device writes, and the CPU only reads. Any context.
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
        unsafe { Self::new(dev, memory, len, DMA_FROM_DEVICE) }
    }

    /// Maps memory that the device and the CPU write. Any context.
    ///
    /// # Safety
    ///
    /// As for [`Self::to_device`].
    pub(in crate::kapi) unsafe fn both_ways(
        dev: &Arc<Device>,
        memory: *mut u8,
        len: usize,
    ) -> Result<Self> {
        // SAFETY: By this function's contract.
        unsafe { Self::new(dev, memory, len, DMA_BIDIRECTIONAL) }
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

    /// The direction.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) fn direction(&self) -> bindings::dma_data_direction {
        self.dir
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

/// Parts of pages mapped for a device that reads them, or writes them. Dropped in any context.
///
/// # Invariants
///
/// Each of `parts` is an address and a size, mapped for the leased device in the direction `dir`.
pub(in crate::kapi) struct PageMapping {
    lease: Lease,
    dir: bindings::dma_data_direction,
    parts: KVec<(u64, u32)>,
}

impl PageMapping {
    /// A mapping of nothing, with room for `parts` parts. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed.
    pub(in crate::kapi) fn to_device(dev: &Arc<Device>, parts: usize) -> Result<Self> {
        Self::new(dev, parts, DMA_TO_DEVICE)
    }

    /// As [`Self::to_device`], for a device that writes.
    pub(in crate::kapi) fn from_device(dev: &Arc<Device>, parts: usize) -> Result<Self> {
        Self::new(dev, parts, DMA_FROM_DEVICE)
    }

    fn new(dev: &Arc<Device>, parts: usize, dir: bindings::dma_data_direction) -> Result<Self> {
        // INVARIANT: Nothing is mapped.
        Ok(Self {
            lease: dev.lease()?,
            dir,
            parts: KVec::with_capacity(parts, GFP_KERNEL)?,
        })
    }

    /// Adds `len` octets at `offset` of a page. May sleep.
    ///
    /// # Safety
    ///
    /// The page stays until the mapping is dropped.
    pub(in crate::kapi) unsafe fn add(
        &mut self,
        page: *mut bindings::page,
        offset: usize,
        len: usize,
    ) -> Result {
        let size = u32::try_from(len)?;
        self.parts.reserve(1, GFP_KERNEL)?;
        let (dev, dir) = (self.lease.as_raw(), self.dir);
        // SAFETY: The driver is there, and the page by this function's contract.
        let addr =
            unsafe { bindings::rdma_sock_helper_ib_dma_map_page(dev, page, offset, len, dir) };
        // SAFETY: `addr` is the result of mapping for this device.
        to_result(unsafe { bindings::rdma_sock_helper_ib_dma_mapping_error(dev, addr) })?;
        // INVARIANT: Mapped just now.
        self.parts.push((addr, size), GFP_KERNEL)?;
        Ok(())
    }

    /// The device.
    pub(in crate::kapi) fn device(&self) -> &Arc<Device> {
        self.lease.device()
    }

    /// The parts: address for the device and size.
    pub(in crate::kapi) fn parts(&self) -> &[(u64, u32)] {
        &self.parts
    }

    /// Calls `f` with the address for the device and the size of each piece of the `len` octets at
    /// `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are not so many, and those of `f`.
    pub(in crate::kapi) fn for_range(
        &self,
        off: usize,
        len: usize,
        mut f: impl FnMut(u64, u32) -> Result,
    ) -> Result {
        let mut skip = u32::try_from(off)?;
        let mut rest = u32::try_from(len)?;
        for &(addr, size) in &self.parts {
            if rest == 0 {
                break;
            }
            match size.checked_sub(skip) {
                None | Some(0) => skip = skip.saturating_sub(size),
                Some(left) => {
                    let count = left.min(rest);
                    f(addr.checked_add(skip.into()).ok_or(EINVAL)?, count)?;
                    rest -= count;
                    skip = 0;
                }
            }
        }
        match rest {
            0 => Ok(()),
            _ => Err(EINVAL),
        }
    }
}

impl Drop for PageMapping {
    fn drop(&mut self) {
        for &(addr, size) in &self.parts {
            // SAFETY: Mapped like this by the type invariants.
            unsafe {
                bindings::rdma_sock_helper_ib_dma_unmap_page(
                    self.lease.as_raw(),
                    addr,
                    size as usize,
                    self.dir,
                )
            };
        }
    }
}
