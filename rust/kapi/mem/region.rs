// SPDX-License-Identifier: GPL-2.0

//! Memory that a peer writes by RDMA.

use super::{
    block::Block,
    cgroup::MemCgroup,
    OnFree, //
};
use kernel::{
    iov::IovIterDest,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// Equal elements, each contiguous, that are the target of RDMA writes once registered as an
/// [`Mr`](crate::kapi::verbs::mr::Mr).
///
/// Dropped in any context. A registration holds a reference, so the memory outlives every right of
/// a peer to write it.
///
/// # Invariants
///
/// There is at least one block, and all have the size `element_bytes`.
pub(crate) struct PeerMemory {
    blocks: KVec<Block>,
    element_bytes: usize,
    // Behind the memory: fields are dropped in order.
    _on_free: Option<OnFree>,
}

impl PeerMemory {
    /// Allocates memory that is charged to the root cgroup, for tests. Context: may sleep.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(crate) fn new(elements: usize, element_bytes: usize) -> Result<Arc<Self>> {
        Self::charged(elements, element_bytes, &MemCgroup::ROOT, None)
    }

    /// Allocates zeroed memory that is charged to `cgroup`: `elements` of `element_bytes`, which is
    /// a power of two of at least a page. `on_free` is dropped when the memory is free.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM` early, so that the caller may ask for less; also above the limit of the cgroup.
    pub(crate) fn charged(
        elements: usize,
        element_bytes: usize,
        cgroup: &MemCgroup,
        on_free: Option<OnFree>,
    ) -> Result<Arc<Self>> {
        if elements == 0 || element_bytes < PAGE_SIZE || !element_bytes.is_power_of_two() {
            return Err(EINVAL);
        }
        elements.checked_mul(element_bytes).ok_or(EINVAL)?;
        let mut blocks = KVec::with_capacity(elements, GFP_KERNEL)?;
        for _ in 0..elements {
            blocks.push(Block::zeroed(element_bytes, cgroup)?, GFP_KERNEL)?;
        }
        // INVARIANT: `element_bytes` is a power of two of whole pages, so the blocks are not
        // larger.
        Ok(Arc::new(
            Self {
                blocks,
                element_bytes,
                _on_free: on_free,
            },
            GFP_KERNEL,
        )?)
    }

    /// Number of elements.
    pub(crate) fn elements(&self) -> usize {
        self.blocks.len()
    }

    /// Size of each element in octets.
    pub(crate) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Size of all elements in octets.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len().saturating_mul(self.element_bytes)
    }

    /// The block of an element, for mapping and access.
    fn block(&self, element: usize) -> Result<&Block> {
        self.blocks.get(element).ok_or(EINVAL)
    }

    /// First page and address of an element, for mapping.
    pub(in crate::kapi) fn backing(
        &self,
        element: usize,
    ) -> Result<(*mut crate::bindings::page, *mut u8)> {
        let block = self.block(element)?;
        Ok((block.page(), block.addr()))
    }

    /// Copies `len` octets at `off` of an element to `iter`.
    ///
    /// Returns the number copied, which is less than `len` when `iter` is full or faults.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is not within the element; `EFAULT` if nothing could be copied.
    pub(crate) fn copy_to_iter(
        &self,
        element: usize,
        off: usize,
        len: usize,
        iter: &mut IovIterDest<'_>,
    ) -> Result<usize> {
        self.block(element)?.copy_to_iter(off, len, iter)
    }

    /// Copies out into private memory; for small pieces. Context: any.
    pub(crate) fn read(&self, element: usize, off: usize, buf: &mut [u8]) -> Result {
        self.block(element)?.read(off, buf)
    }

    /// Copies in from private memory; for small pieces. Context: any.
    pub(crate) fn write(&self, element: usize, off: usize, data: &[u8]) -> Result {
        self.block(element)?.write(off, data)
    }

    /// Zeroes an element, for a new user of it. Context: any.
    pub(crate) fn zero(&self, element: usize) -> Result {
        self.block(element)?.zero();
        Ok(())
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_kapi_region)]
mod tests {
    use super::*;

    // RMB-01.
    #[test]
    fn sizes_that_are_no_power_of_two_pages_are_refused() {
        assert!(PeerMemory::new(0, PAGE_SIZE).is_err());
        assert!(PeerMemory::new(1, PAGE_SIZE / 2).is_err());
        assert!(PeerMemory::new(1, 3 * PAGE_SIZE).is_err());
        assert!(PeerMemory::new(2, usize::MAX / 2 + 1).is_err());
    }

    // RMB-01, RMB-15.
    #[test]
    fn elements_start_zeroed_and_are_separate() -> Result {
        let mem = PeerMemory::new(3, 4 * PAGE_SIZE)?;
        assert_eq!(mem.elements(), 3);
        assert_eq!(mem.bytes(), 12 * PAGE_SIZE);
        mem.write(1, 4 * PAGE_SIZE - 4, &[1, 2, 3, 4])?;
        let mut buf = [9; 4];
        mem.read(2, 0, &mut buf)?;
        assert_eq!(buf, [0; 4]);
        mem.read(1, 4 * PAGE_SIZE - 4, &mut buf)?;
        assert_eq!(buf, [1, 2, 3, 4]);
        mem.zero(1)?;
        mem.read(1, 4 * PAGE_SIZE - 4, &mut buf)?;
        assert_eq!(buf, [0; 4]);
        Ok(())
    }

    #[test]
    fn access_outside_of_an_element_is_refused() -> Result {
        let mem = PeerMemory::new(1, PAGE_SIZE)?;
        let mut buf = [0; 2];
        assert_eq!(mem.read(1, 0, &mut buf).is_err(), true);
        assert_eq!(mem.read(0, PAGE_SIZE - 1, &mut buf).is_err(), true);
        assert_eq!(mem.read(0, usize::MAX, &mut buf).is_err(), true);
        assert_eq!(mem.write(0, PAGE_SIZE, &[0]).is_err(), true);
        Ok(())
    }
}
