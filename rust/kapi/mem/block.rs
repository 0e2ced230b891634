// SPDX-License-Identifier: GPL-2.0

//! A physically contiguous block of memory that is only copied into and out of.
//!
//! C headers: [`include/linux/gfp.h`](srctree/include/linux/gfp.h),
//! [`include/linux/uio.h`](srctree/include/linux/uio.h)

use super::cgroup::MemCgroup;
use crate::bindings;
use core::{
    mem::size_of,
    ptr::NonNull, //
};
use kernel::{
    iov::{
        IovIterDest,
        IovIterSource, //
    },
    page::PAGE_SIZE,
    prelude::*, //
};

/// Octets that one access moves.
const WORD: usize = size_of::<u64>();

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

// SAFETY: The memory is only accessed through pointers: by C functions, or by volatile accesses of
// at most a word, which are no data race. Concurrent accesses of devices and CPUs mix octets, and
// the type promises no more than that.
unsafe impl Send for Block {}
// SAFETY: As for `Send`.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates a block of at least `bytes` octets, all zero, that is charged to `cgroup`. Does
    /// not try hard: may fail where a smaller block would not. Context: may sleep.
    pub(in crate::kapi) fn zeroed(bytes: usize, cgroup: &MemCgroup) -> Result<Self> {
        Self::allocate(bytes, true, cgroup)
    }

    /// Allocates a block without zeroing it. No octet may leave the kernel before it was written.
    /// Context: may sleep.
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
        let page = unsafe { bindings::rdma_sock_helper_alloc_block(order, zero, cgroup.as_raw()) };
        let page = NonNull::new(page).ok_or(ENOMEM)?;
        // SAFETY: `page` was just allocated. It is not from high memory, so it has an address.
        let addr = unsafe { bindings::rdma_sock_helper_page_address(page.as_ptr()) };
        // INVARIANT: The pages are fresh, and this object is their only user.
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
    /// memory. Context: may sleep.
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

    /// Copies up to `len` octets from `iter` to `off`; returns how many, which is less on a fault
    /// in user memory. Context: may sleep.
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

    /// Copies out into private memory; for small pieces. Context: any.
    pub(in crate::kapi) fn read(&self, off: usize, buf: &mut [u8]) -> Result {
        let from = self.at(off, buf.len())?;
        // SAFETY: `from` is valid for `buf.len()` octets by `at`.
        unsafe { load(from, buf) };
        Ok(())
    }

    /// Copies in from private memory. Context: any.
    pub(in crate::kapi) fn write(&self, off: usize, data: &[u8]) -> Result {
        let to = self.at(off, data.len())?;
        // SAFETY: `to` is valid for `data.len()` octets by `at`.
        unsafe { store(to, data) };
        Ok(())
    }

    /// Zeroes the block. Context: any.
    pub(in crate::kapi) fn zero(&self) {
        for off in (0..self.len()).step_by(WORD) {
            // SAFETY: By the type invariants the memory is valid for `len()` octets, which are
            // whole words on pages of their own.
            unsafe { self.addr.as_ptr().add(off).cast::<u64>().write_volatile(0) };
        }
    }
}

/// Copies memory out that anything may write meanwhile. Each octet is read once.
///
/// # Safety
///
/// `from` is valid for as many octets as `buf` has.
unsafe fn load(mut from: *const u8, buf: &mut [u8]) {
    let odd = from.align_offset(WORD).min(buf.len());
    let (head, rest) = buf.split_at_mut(odd);
    for byte in head {
        // SAFETY: By this function's contract.
        unsafe {
            *byte = from.read_volatile();
            from = from.add(1);
        }
    }
    let mut words = rest.chunks_exact_mut(WORD);
    for word in &mut words {
        // SAFETY: By this function's contract; aligned by what was skipped.
        unsafe {
            word.copy_from_slice(&from.cast::<u64>().read_volatile().to_ne_bytes());
            from = from.add(WORD);
        }
    }
    for byte in words.into_remainder() {
        // SAFETY: By this function's contract.
        unsafe {
            *byte = from.read_volatile();
            from = from.add(1);
        }
    }
}

/// Copies into memory that anything may access meanwhile. Each octet is written once.
///
/// # Safety
///
/// `to` is valid for as many octets as `data` has.
unsafe fn store(mut to: *mut u8, data: &[u8]) {
    let odd = to.align_offset(WORD).min(data.len());
    let (head, mut rest) = data.split_at(odd);
    for byte in head {
        // SAFETY: By this function's contract.
        unsafe {
            to.write_volatile(*byte);
            to = to.add(1);
        }
    }
    while let Some((word, after)) = rest.split_first_chunk::<WORD>() {
        // SAFETY: By this function's contract; aligned by what was skipped.
        unsafe {
            to.cast::<u64>().write_volatile(u64::from_ne_bytes(*word));
            to = to.add(WORD);
        }
        rest = after;
    }
    for byte in rest {
        // SAFETY: By this function's contract.
        unsafe {
            to.write_volatile(*byte);
            to = to.add(1);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the pages are ours and of that order.
        unsafe { bindings::__free_pages(self.page.as_ptr(), self.order) };
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_kapi_block)]
mod tests {
    use super::*;

    #[test]
    fn octets_at_any_offset_and_of_any_length_are_copied() -> Result {
        let block = Block::zeroed(PAGE_SIZE, &MemCgroup::ROOT)?;
        let mut data = [0; 40];
        for (value, byte) in (1u8..).zip(&mut data) {
            *byte = value;
        }
        for off in 0..17 {
            for len in 0..=data.len() {
                block.zero();
                let written = data.get(..len).ok_or(EINVAL)?;
                block.write(16 + off, written)?;
                let mut there = [0xff; 80];
                block.read(0, &mut there)?;
                let (before, rest) = there.split_at(16 + off);
                let (same, after) = rest.split_at(len);
                assert_eq!(same, written);
                assert!([before, after]
                    .iter()
                    .all(|part| part.iter().all(|byte| *byte == 0)));
                let mut part = data;
                let part = part.get_mut(..len).ok_or(EINVAL)?;
                part.fill(0);
                block.read(16 + off, part)?;
                assert_eq!(part, written);
            }
        }
        Ok(())
    }

    #[test]
    fn zero_reaches_the_last_octet() -> Result {
        let block = Block::zeroed(2 * PAGE_SIZE, &MemCgroup::ROOT)?;
        let mut there = [0xff; 9];
        block.write(0, &there)?;
        block.write(block.len() - 9, &there)?;
        block.zero();
        block.read(block.len() - 9, &mut there)?;
        assert_eq!(there, [0; 9]);
        there = [0xff; 9];
        block.read(0, &mut there)?;
        assert_eq!(there, [0; 9]);
        Ok(())
    }
}
