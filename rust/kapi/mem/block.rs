// SPDX-License-Identifier: GPL-2.0

//! A physically contiguous block of memory that is only copied into and out of.
//!
//! C headers: [`include/linux/gfp.h`](srctree/include/linux/gfp.h),
//! [`include/linux/uio.h`](srctree/include/linux/uio.h)

use super::cgroup::MemCgroup;
use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    iov::{
        IovIterDest,
        IovIterSource, //
    },
    page::PAGE_SIZE,
    prelude::*, //
};

/// A block of whole pages, a power of two of them, contiguous for the CPU and for devices.
///
/// Dropped in any context.
///
/// # Invariants
///
/// - `page` is the first of `1 << order` contiguous pages that are owned by this object.
/// - `addr` is the address of that memory in the kernel's linear map.
/// - No Rust reference to that memory exists: devices and peers may change it at any time.
pub(in crate::kapi) struct Block {
    page: NonNull<bindings::page>,
    addr: NonNull<u8>,
    order: u32,
}

// SAFETY: The memory is only accessed by copying through pointers; concurrent accesses of devices and
// CPUs mix octets, which is all that is promised.
unsafe impl Send for Block {}
// SAFETY: As for `Send`.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates a block of at least `bytes` octets, all zero, that is charged to `cgroup`. Does not
    /// try hard: may fail where a smaller block would not. May sleep.
    pub(in crate::kapi) fn zeroed(bytes: usize, cgroup: &MemCgroup) -> Result<Self> {
        Self::allocate(bytes, true, cgroup)
    }

    /// The same with whatever was there before, for memory of which nothing is shown to anybody
    /// before it was written. May sleep.
    pub(in crate::kapi) fn unset(bytes: usize, cgroup: &MemCgroup) -> Result<Self> {
        Self::allocate(bytes, false, cgroup)
    }

    fn allocate(bytes: usize, zero: bool, cgroup: &MemCgroup) -> Result<Self> {
        if bytes == 0 {
            return Err(EINVAL);
        }
        let order = bytes
            .div_ceil(PAGE_SIZE)
            .checked_next_power_of_two()
            .ok_or(ENOMEM)?
            .trailing_zeros();
        // SAFETY: The cgroup is valid or null. An order that is too large makes it fail.
        let page =
            unsafe { bindings::rdma_sock_helper_alloc_block(order, zero, cgroup.as_raw()) };
        let page = NonNull::new(page).ok_or(ENOMEM)?;
        // SAFETY: `page` was just allocated. It is not from high memory, so it has an address.
        let addr = unsafe { bindings::rdma_sock_helper_page_address(page.as_ptr()) };
        // INVARIANT: The pages are fresh and handed to nobody else.
        Ok(Self {
            page,
            addr: NonNull::new(addr.cast()).ok_or(ENOMEM)?,
            order,
        })
    }

    /// Size in octets.
    pub(in crate::kapi) fn len(&self) -> usize {
        PAGE_SIZE << self.order
    }

    /// The first page, for mapping.
    pub(in crate::kapi) fn page(&self) -> *mut bindings::page {
        self.page.as_ptr()
    }

    /// The address, for mapping.
    pub(in crate::kapi) fn addr(&self) -> *mut u8 {
        self.addr.as_ptr()
    }

    /// Returns the address of `off` if `len` octets are there.
    fn at(&self, off: usize, len: usize) -> Result<*mut u8> {
        let end = off.checked_add(len).ok_or(EINVAL)?;
        if end > self.len() {
            return Err(EINVAL);
        }
        // SAFETY: `off` is at most the size of the allocation by the check above.
        Ok(unsafe { self.addr.as_ptr().add(off) })
    }

    /// Copies `len` octets at `off` to `iter`; returns how many, which is less on a fault in user
    /// memory. May sleep.
    pub(in crate::kapi) fn copy_to_iter(
        &self,
        off: usize,
        len: usize,
        iter: &mut IovIterDest<'_>,
    ) -> Result<usize> {
        let from = self.at(off, len)?;
        // SAFETY: `from` is valid for `len` octets by `at`, and `iter` is valid by its invariants.
        let done = unsafe { bindings::_copy_to_iter(from.cast(), len, iter.as_raw()) };
        if done == 0 && len > 0 && !iter.is_empty() {
            return Err(EFAULT);
        }
        Ok(done)
    }

    /// Copies up to `len` octets from `iter` to `off`; returns how many, which is less on a fault in
    /// user memory. May sleep.
    pub(in crate::kapi) fn copy_from_iter(
        &self,
        off: usize,
        len: usize,
        iter: &mut IovIterSource<'_>,
    ) -> Result<usize> {
        let to = self.at(off, len)?;
        // SAFETY: `to` is valid for `len` octets by `at`, and `iter` is valid by its invariants.
        let done = unsafe { bindings::_copy_from_iter(to.cast(), len, iter.as_raw()) };
        if done == 0 && len > 0 && !iter.is_empty() {
            return Err(EFAULT);
        }
        Ok(done)
    }

    /// Copies out into private memory; for small pieces. Any context.
    pub(in crate::kapi) fn read(&self, off: usize, buf: &mut [u8]) -> Result {
        let from = self.at(off, buf.len())?;
        for (i, byte) in buf.iter_mut().enumerate() {
            // SAFETY: `from + i` is within the block by `at`. Volatile, so that the value in `buf` is
            // read once, whatever a peer does to the memory meanwhile.
            *byte = unsafe { from.add(i).read_volatile() };
        }
        Ok(())
    }

    /// Copies in from private memory. Any context.
    pub(in crate::kapi) fn write(&self, off: usize, data: &[u8]) -> Result {
        let to = self.at(off, data.len())?;
        // SAFETY: `to` is valid for `data.len()` octets by `at`, and `data` is memory of somebody
        // else, so they do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
        Ok(())
    }

    /// Zeroes the block. Any context.
    pub(in crate::kapi) fn zero(&self) {
        // SAFETY: By the type invariants the memory is valid for `len()` octets.
        unsafe { core::ptr::write_bytes(self.addr.as_ptr(), 0, self.len()) };
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the pages are ours and of that order.
        unsafe { bindings::__free_pages(self.page.as_ptr(), self.order) };
    }
}
