// SPDX-License-Identifier: GPL-2.0

//! Memory that a peer writes by RDMA.

use super::{
    cgroup::MemCgroup,
    chunks::Chunks,
    OnFree, //
};
use kernel::{
    iov::IovIterDest,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// Equal elements that are the target of RDMA writes once registered as an
/// [`Mr`](crate::kapi::verbs::mr::Mr).
///
/// Dropped in any context. A registration holds a reference, so the memory outlives every right of
/// a peer to write it.
///
/// # Invariants
///
/// There is at least one element, and all have the size `element_bytes`.
pub(crate) struct PeerMemory {
    elements: KVec<Chunks>,
    element_bytes: usize,
    // Behind the memory: fields are dropped in order.
    _on_free: Option<OnFree>,
}

impl PeerMemory {
    /// Allocates memory with contiguous elements that is charged to the root cgroup, for tests.
    /// Context: may sleep.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(crate) fn new(elements: usize, element_bytes: usize) -> Result<Arc<Self>> {
        Self::charged(
            elements,
            element_bytes,
            element_bytes,
            &MemCgroup::ROOT,
            None,
        )
    }

    /// Allocates zeroed memory that is charged to `cgroup`: `elements` of `element_bytes`, of pieces that
    /// are contiguous, of `piece_bytes` each. Both sizes are powers of two of at least a page. `on_free`
    /// is dropped when the memory is free. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM` early, so that the caller may ask for less; also above the limit of the cgroup.
    pub(crate) fn charged(
        elements: usize,
        element_bytes: usize,
        piece_bytes: usize,
        cgroup: &MemCgroup,
        on_free: Option<OnFree>,
    ) -> Result<Arc<Self>> {
        let is_size = |bytes: usize| bytes >= PAGE_SIZE && bytes.is_power_of_two();
        if elements == 0 || !is_size(element_bytes) || !is_size(piece_bytes) {
            return Err(EINVAL);
        }
        elements.checked_mul(element_bytes).ok_or(EINVAL)?;
        let piece_bytes = piece_bytes.min(element_bytes);
        let mut all = KVec::with_capacity(elements, GFP_KERNEL)?;
        for _ in 0..elements {
            let element = Chunks::zeroed(element_bytes, piece_bytes, cgroup)?;
            all.push(element, GFP_KERNEL)?;
        }
        // INVARIANT: Both sizes are powers of two of whole pages, so the pieces are not larger, and an
        // element has a whole number of them.
        Ok(Arc::new(
            Self {
                elements: all,
                element_bytes,
                _on_free: on_free,
            },
            GFP_KERNEL,
        )?)
    }

    /// Number of elements.
    pub(crate) fn elements(&self) -> usize {
        self.elements.len()
    }

    /// Size of each element in octets.
    pub(crate) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Size of all elements in octets.
    pub(crate) fn bytes(&self) -> usize {
        self.elements.len().saturating_mul(self.element_bytes)
    }

    /// The memory of an element.
    fn element(&self, element: usize) -> Result<&Chunks> {
        self.elements.get(element).ok_or(EINVAL)
    }

    /// The memory of all elements, for mapping.
    pub(in crate::kapi) fn chunks(&self) -> &[Chunks] {
        &self.elements
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
        self.element(element)?.copy_to_iter(off, len, iter)
    }

    /// Copies out into private memory; for small pieces. Context: any.
    pub(crate) fn read(&self, element: usize, off: usize, buf: &mut [u8]) -> Result {
        self.element(element)?.read(off, buf)
    }

    /// Copies in from private memory; for small pieces. Context: any.
    pub(crate) fn write(&self, element: usize, off: usize, data: &[u8]) -> Result {
        self.element(element)?.write(off, data)
    }

    /// Zeroes an element, for a new user of it. Context: any.
    pub(crate) fn zero(&self, element: usize) -> Result {
        self.element(element)?.zero();
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
        let odd = PeerMemory::charged(1, 4 * PAGE_SIZE, 3 * PAGE_SIZE, &MemCgroup::ROOT, None);
        assert!(odd.is_err());
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
    fn element_in_pieces_is_one_range() -> Result {
        let mem = PeerMemory::charged(2, 4 * PAGE_SIZE, PAGE_SIZE, &MemCgroup::ROOT, None)?;
        assert_eq!((mem.elements(), mem.bytes()), (2, 8 * PAGE_SIZE));
        mem.write(1, 2 * PAGE_SIZE - 2, &[1, 2, 3, 4])?;
        let mut buf = [9; 6];
        mem.read(1, 2 * PAGE_SIZE - 3, &mut buf)?;
        assert_eq!(buf, [0, 1, 2, 3, 4, 0]);
        mem.read(0, 2 * PAGE_SIZE - 3, &mut buf)?;
        assert_eq!(buf, [0; 6]);
        mem.zero(1)?;
        mem.read(1, 2 * PAGE_SIZE - 3, &mut buf)?;
        assert_eq!(buf, [0; 6]);
        assert!(mem.read(1, 4 * PAGE_SIZE - 5, &mut buf).is_err());
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
