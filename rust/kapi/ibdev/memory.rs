// SPDX-License-Identifier: GPL-2.0

//! Memory that work requests and memory regions name.
//!
//! The values here have addresses of the kernel; [`to_kernel`] makes them of those that programs map
//! memory by. Whether the memory behind an
//! address stays is the promise of the program that named it: for a work request until its
//! completion, for a memory region until its invalidation or deregistration. The engine keeps the
//! values here no longer than that.
//!
//! Peers and programs change the memory at any time, so it is never borrowed, only copied.

use super::dma::to_kernel;
use crate::bindings;
use core::{
    ptr::NonNull,
    sync::atomic::{
        fence,
        Ordering, //
    },
};
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// Scatter/gather elements of a work request.
pub(crate) const MAX_WR_SGE: usize = 16;

/// The local key of devices: valid for all of the kernel's memory, and only in work requests of kernel
/// programs (RNIC-MR-12).
pub(crate) const LOCAL_DMA_KEY: u32 = 1;

/// The address is outside of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfRange;

/// Copies out of memory of the kernel.
///
/// # Safety
///
/// `from` must be valid for reads of `to.len()` octets.
unsafe fn load(from: u64, to: &mut [u8]) {
    // SAFETY: By this function's contract; a Rust buffer cannot overlap memory that others change.
    unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) }
}

/// The octets at the end of a copy that are stored last.
const TAIL: usize = 64;

/// Copies into memory of the kernel. A program that polls the last octets finds all others when it sees
/// them, and finds whole words wherever memory has aligned ones (RNIC-DATA-02).
///
/// # Safety
///
/// `to` must be valid for writes of `from.len()` octets.
unsafe fn store(to: u64, from: &[u8]) {
    let front = from.len().saturating_sub(TAIL);
    // The tail begins with a whole word, if it has one.
    let odd = (to as usize).wrapping_add(front).wrapping_neg() % size_of::<u64>();
    let (front, mut tail) = from.split_at(front.wrapping_add(odd).min(from.len()));
    // SAFETY: As in `load`.
    unsafe { core::ptr::copy_nonoverlapping(front.as_ptr(), to as *mut u8, front.len()) };
    fence(Ordering::Release);
    let mut to = (to as *mut u8).wrapping_add(front.len());
    while let Some((octet, rest)) = tail.split_first() {
        match tail.split_first_chunk() {
            Some((word, rest)) if to.cast::<u64>().is_aligned() => {
                // SAFETY: By this function's contract, and it is aligned.
                unsafe { to.cast::<u64>().write_volatile(u64::from_ne_bytes(*word)) };
                (to, tail) = (to.wrapping_add(word.len()), rest);
            }
            _ => {
                // SAFETY: By this function's contract.
                unsafe { to.write_volatile(*octet) };
                (to, tail) = (to.wrapping_add(1), rest);
            }
        }
    }
}

/// A scatter/gather element of a work request.
///
/// # Invariants
///
/// If `lkey` is [`LOCAL_DMA_KEY`], it came from a work request of a kernel program, and names valid
/// memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrSge {
    addr: u64,
    len: u32,
    lkey: u32,
}

impl WrSge {
    /// No memory.
    pub(crate) const EMPTY: Self = Self {
        addr: 0,
        len: 0,
        lkey: 0,
    };

    /// Copies the octets of an element that has no key yet.
    ///
    /// # Safety
    ///
    /// The element must be one of a request for inline data that a kernel program posts, and `to` must
    /// have its length.
    pub(super) unsafe fn read_inline(raw: &bindings::ib_sge, to: &mut [u8]) {
        // SAFETY: By this function's contract the memory is valid now.
        unsafe { load(raw.addr, to) };
    }

    /// An element with the local key of devices and without memory gets a key that is never valid.
    ///
    /// # Safety
    ///
    /// The element must be one of a work request that a kernel program posts.
    pub(super) unsafe fn new(raw: &bindings::ib_sge) -> Self {
        let (addr, lkey) = if raw.lkey == LOCAL_DMA_KEY {
            match to_kernel(raw.addr, u64::from(raw.length)) {
                Some(addr) => (addr, LOCAL_DMA_KEY),
                None => (raw.addr, 0),
            }
        } else {
            (raw.addr, raw.lkey)
        };
        // INVARIANT: By this function's contract.
        Self {
            addr,
            len: raw.length,
            lkey,
        }
    }

    /// An element of a work request of user space. The local key of devices becomes one that is never
    /// valid (RNIC-SEC-03).
    pub(crate) const fn of_user(addr: u64, len: u32, lkey: u32) -> Self {
        // INVARIANT: Another key.
        Self {
            addr,
            len,
            lkey: if lkey == LOCAL_DMA_KEY { 0 } else { lkey },
        }
    }

    /// The first octet.
    pub(crate) const fn addr(&self) -> u64 {
        self.addr
    }

    /// Octets.
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// The key.
    pub(crate) const fn lkey(&self) -> u32 {
        self.lkey
    }

    /// The address of a range if it is inside.
    fn range(&self, offset: u32, len: usize) -> Result<u64, OutOfRange> {
        let end = u64::from(offset).saturating_add(len as u64);
        if self.lkey != LOCAL_DMA_KEY || end > u64::from(self.len) {
            return Err(OutOfRange);
        }
        self.addr.checked_add(u64::from(offset)).ok_or(OutOfRange)
    }

    /// Copies octets from `offset` on, if the key is [`LOCAL_DMA_KEY`].
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], also for another key.
    pub(crate) fn read(&self, offset: u32, to: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.range(offset, to.len())?;
        // SAFETY: By the type invariants the element is valid memory, and the range is inside.
        unsafe { load(from, to) };
        Ok(())
    }

    /// Copies octets to `offset`, if the key is [`LOCAL_DMA_KEY`].
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], also for another key.
    pub(crate) fn write(&self, offset: u32, from: &[u8]) -> Result<(), OutOfRange> {
        let to = self.range(offset, from.len())?;
        // SAFETY: As in `read`.
        unsafe { store(to, from) };
        Ok(())
    }
}

/// The change of a word by an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordChange {
    /// Stores the second value if the word is equal to the first.
    CompareSwap(u64, u64),
    /// Adds a number, modulo 2^64.
    FetchAdd(u64),
    /// Stores a value.
    Store(u64),
}

/// What a memory region for fast registrations is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MrKind {
    /// Pages of one size. Only the first one begins, and only the last one ends, within a page.
    Pages,
    /// Pieces of any length.
    Pieces,
}

/// The pages of a memory region.
enum MrPages {
    /// All of the kernel's memory, by its addresses.
    Linear,
    /// Pages of `1 << shift` octets; the region begins at an offset in the first page.
    List {
        pages: KVVec<u64>,
        shift: u32,
        first: u64,
    },
    /// Pieces of any length, none of them empty, in the order of the region.
    Pieces(KVVec<Piece>),
}

/// Memory that is contiguous.
#[derive(Clone, Copy)]
struct Piece {
    /// Where it begins in the region.
    offset: u64,
    /// Address of the first octet.
    addr: u64,
}

/// A range of a task's memory that becomes a region.
pub(super) struct UserRange {
    /// Address in the task.
    pub(super) start: u64,
    /// Octets.
    pub(super) len: u64,
    /// Address for work requests and peers.
    pub(super) iova: u64,
    /// Rights, as the verbs core codes them.
    pub(super) access: i32,
}

/// Pages of a task that stay in memory.
///
/// # Invariants
///
/// The pointer is a pinned range of a device that outlives it.
struct PinnedPages(NonNull<bindings::ib_umem>);

// SAFETY: The range may be released by any task.
unsafe impl Send for PinnedPages {}
// SAFETY: The object is only released.
unsafe impl Sync for PinnedPages {}

impl PinnedPages {
    /// # Safety
    ///
    /// `dev` must be the device of the call.
    unsafe fn new(dev: *mut bindings::ib_device, range: &UserRange) -> Result<Self> {
        // SAFETY: By this function's contract. The core checks the range.
        let umem = unsafe {
            bindings::rdma_sock_helper_umem_pin(dev, range.start, range.len, range.access)
        };
        let umem = from_err_ptr(umem)?;
        // INVARIANT: Just pinned.
        NonNull::new(umem).map(Self).ok_or(ENOMEM)
    }
}

impl Drop for PinnedPages {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_umem_release(self.0.as_ptr()) }
    }
}

/// The address in the kernel of a range that all of its memory has, or `None`.
fn linear(addr: u64, len: u64) -> Option<u64> {
    let addr = to_kernel(addr, len)?;
    // SAFETY: The function looks at no memory behind the address.
    unsafe { bindings::rdma_sock_helper_is_linear(addr, len) }.then_some(addr)
}

/// The memory of a memory region.
///
/// # Invariants
///
/// The pages came from a scatter list that the owner of the region mapped, or from `_pinned`, and they
/// cover the region.
pub(crate) struct MrMap {
    pages: MrPages,
    /// What keeps the pages of user space in memory.
    _pinned: Option<PinnedPages>,
    /// The address of the first octet, as work requests and peers name it.
    iova: u64,
    /// Octets.
    len: u64,
}

impl MrMap {
    /// The map of all of the kernel's memory.
    pub(crate) const fn linear() -> Self {
        Self {
            pages: MrPages::Linear,
            _pinned: None,
            iova: 0,
            len: u64::MAX,
        }
    }

    /// A map of nothing.
    pub(crate) const fn empty() -> Self {
        Self {
            pages: MrPages::List {
                pages: KVVec::new(),
                shift: 12,
                first: 0,
            },
            _pinned: None,
            iova: 0,
            len: 0,
        }
    }

    /// The map of a range of the calling task's memory, which is pinned until the map is dropped, also
    /// where the caller may sleep (RNIC-MR-10). Work requests and peers name its first octet by `iova`.
    /// `sizes` has a bit for each size of blocks. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that no block size fits, `ENOMEM`, also beyond the limit of locked memory,
    /// `EFAULT` for a range without memory.
    ///
    /// # Safety
    ///
    /// `dev` must be the device of the call.
    pub(super) unsafe fn pin(
        dev: *mut bindings::ib_device,
        range: &UserRange,
        sizes: u64,
    ) -> Result<Self> {
        if range.len == 0 {
            // No octets, and an address that accesses without octets may name.
            let mut map = Self::empty();
            map.rename(range.iova);
            return Ok(map);
        }
        // SAFETY: By this function's contract.
        let pinned = unsafe { PinnedPages::new(dev, range)? };
        let mut size = 0;
        // SAFETY: The object is valid, and the result is.
        let count = unsafe {
            bindings::rdma_sock_helper_umem_blocks(pinned.0.as_ptr(), range.iova, sizes, &mut size)
        };
        let page_size = u32::try_from(size)?;
        if count == 0 {
            return Err(EINVAL);
        }
        let mut pages = KVVec::<u64>::new();
        pages.resize(count, 0, GFP_KERNEL_ACCOUNT)?;
        // SAFETY: As above, and there is room for that number of addresses.
        let listed = unsafe {
            bindings::rdma_sock_helper_umem_list(pinned.0.as_ptr(), size, pages.as_mut_ptr(), count)
        };
        if listed != count {
            return Err(EINVAL);
        }
        for page in &mut pages {
            *page = to_kernel(*page, size).ok_or(EINVAL)?;
        }
        let mut map = Self::empty();
        map.pages = MrPages::List {
            pages,
            shift: 12,
            first: 0,
        };
        // INVARIANT: The blocks cover the range.
        map._pinned = Some(pinned);
        map.finish(range.iova, range.len, page_size);
        Ok(map)
    }

    /// An empty map with room for that number of pages or pieces. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn with_capacity(kind: MrKind, entries: usize) -> Result<Self> {
        let mut map = Self::empty();
        map.pages = match kind {
            MrKind::Pages => MrPages::List {
                pages: KVVec::with_capacity(entries, GFP_KERNEL)?,
                shift: 12,
                first: 0,
            },
            MrKind::Pieces => MrPages::Pieces(KVVec::with_capacity(entries, GFP_KERNEL)?),
        };
        Ok(map)
    }

    /// Forgets all pages or pieces, and returns which of them it takes.
    pub(super) fn clear(&mut self) -> MrKind {
        self.len = 0;
        match &mut self.pages {
            MrPages::List { pages, .. } => pages.clear(),
            MrPages::Linear => {}
            MrPages::Pieces(pieces) => {
                pieces.clear();
                return MrKind::Pieces;
            }
        }
        MrKind::Pages
    }

    /// Appends a page.
    ///
    /// # Safety
    ///
    /// It must be one of a scatter list that the owner of the region maps.
    pub(super) unsafe fn push(&mut self, page: u64) -> Result {
        match &mut self.pages {
            MrPages::List { pages, .. } => {
                let page = to_kernel(page, 1).ok_or(EINVAL)?;
                pages.push_within_capacity(page).map_err(|_| ENOMEM)
            }
            MrPages::Linear | MrPages::Pieces(_) => Err(EINVAL),
        }
    }

    /// Appends a piece. One that goes on where the last one ends needs no entry.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no entry.
    ///
    /// # Safety
    ///
    /// It must be an element of a scatter list that the owner of the region maps.
    pub(super) unsafe fn push_piece(&mut self, addr: u64, len: u32) -> Result {
        let MrPages::Pieces(pieces) = &mut self.pages else {
            return Err(EINVAL);
        };
        let addr = to_kernel(addr, u64::from(len)).ok_or(EINVAL)?;
        let offset = self.len;
        let ends_at = |piece: &Piece| piece.addr.wrapping_add(offset - piece.offset);
        if len > 0 && pieces.last().map(ends_at) != Some(addr) {
            let piece = Piece { offset, addr };
            pieces.push_within_capacity(piece).map_err(|_| ENOMEM)?;
        }
        // INVARIANT: The pieces cover the element, too.
        self.len = offset + u64::from(len);
        Ok(())
    }

    /// Sets the extent of the region: only what its pages cover.
    pub(super) fn finish(&mut self, iova: u64, len: u64, page_size: u32) {
        let MrPages::List {
            pages,
            shift,
            first,
        } = &mut self.pages
        else {
            return;
        };
        let bits = page_size.trailing_zeros().min(31);
        let room = (pages.len() as u64) << bits;
        // INVARIANT: The region ends within the last page.
        *shift = bits;
        *first = iova & ((1 << bits) - 1);
        self.iova = iova;
        self.len = len.min(room.saturating_sub(*first));
    }

    /// Changes the address of the first octet, as work requests and peers name it.
    pub(crate) fn rename(&mut self, iova: u64) {
        if !matches!(self.pages, MrPages::Linear) {
            self.iova = iova;
        }
    }

    /// Whether a range is inside.
    pub(crate) fn contains(&self, addr: u64, len: u64) -> bool {
        let offset = addr.wrapping_sub(self.iova);
        let inside =
            addr >= self.iova && offset.checked_add(len).is_some_and(|end| end <= self.len);
        match self.pages {
            MrPages::List { .. } | MrPages::Pieces(_) => inside,
            MrPages::Linear => inside && linear(addr, len).is_some(),
        }
    }

    /// Runs `f` for the pieces of a range, with address and offset of each.
    fn for_each(
        &self,
        addr: u64,
        len: usize,
        mut f: impl FnMut(u64, core::ops::Range<usize>),
    ) -> Result<(), OutOfRange> {
        if !self.contains(addr, len as u64) {
            return Err(OutOfRange);
        }
        match &self.pages {
            MrPages::Linear => f(linear(addr, len as u64).ok_or(OutOfRange)?, 0..len),
            MrPages::List {
                pages,
                shift,
                first,
            } => {
                let size = 1_u64 << shift;
                let mut at = addr.wrapping_sub(self.iova).wrapping_add(*first);
                let mut done = 0;
                while done < len {
                    let page = pages.get((at >> shift) as usize).ok_or(OutOfRange)?;
                    let within = at & (size - 1);
                    let piece = ((size - within) as usize).min(len - done);
                    f(page.wrapping_add(within), done..done + piece);
                    done += piece;
                    at += piece as u64;
                }
            }
            MrPages::Pieces(pieces) => {
                let mut at = addr.wrapping_sub(self.iova);
                let mut next = pieces.partition_point(|piece| piece.offset <= at);
                let mut done = 0;
                while done < len {
                    let piece = next.checked_sub(1).and_then(|last| pieces.get(last));
                    let piece = piece.ok_or(OutOfRange)?;
                    let end = pieces.get(next).map_or(self.len, |after| after.offset);
                    let count = ((end - at) as usize).min(len - done);
                    f(
                        piece.addr.wrapping_add(at - piece.offset),
                        done..done + count,
                    );
                    done += count;
                    at += count as u64;
                    next += 1;
                }
            }
        }
        Ok(())
    }

    /// Copies octets of the region. Context: any.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`].
    pub(crate) fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), OutOfRange> {
        self.for_each(addr, to.len(), |from, range| {
            if let Some(piece) = to.get_mut(range) {
                // SAFETY: By the type invariants, and the pieces are inside of the region.
                unsafe { load(from, piece) };
            }
        })
    }

    /// Copies octets into the region. Context: any.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`].
    pub(crate) fn write(&self, addr: u64, from: &[u8]) -> Result<(), OutOfRange> {
        self.for_each(addr, from.len(), |to, range| {
            if let Some(piece) = from.get(range) {
                // SAFETY: As in `read`.
                unsafe { store(to, piece) };
            }
        })
    }

    /// Changes an aligned word and returns its former value. Atomic with respect to all processors
    /// (RNIC-RDA-07). Context: any.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], also if the word is not aligned in memory.
    pub(crate) fn change_word(&self, addr: u64, change: WordChange) -> Result<u64, OutOfRange> {
        let mut found = None;
        self.for_each(addr, 8, |at, range| {
            if range.len() == 8 && at % 8 == 0 {
                found = Some(at);
            }
        })?;
        let word = found.ok_or(OutOfRange)? as *mut u64;
        // SAFETY: The word is aligned and inside of the region, so by the type invariants it is valid.
        // Others access it by the processor's own atomic operations, or by stores of whole words.
        let word = unsafe { core::sync::atomic::AtomicU64::from_ptr(word) };
        Ok(match change {
            WordChange::CompareSwap(compare, swap) => word
                .compare_exchange(
                    compare,
                    swap,
                    core::sync::atomic::Ordering::SeqCst,
                    core::sync::atomic::Ordering::SeqCst,
                )
                .unwrap_or_else(|current| current),
            WordChange::FetchAdd(add) => word.fetch_add(add, core::sync::atomic::Ordering::SeqCst),
            WordChange::Store(value) => word.swap(value, core::sync::atomic::Ordering::SeqCst),
        })
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_kapi_memory)]
mod tests {
    use super::*;

    /// Octets of a page of the tests.
    const PAGE: usize = 4_096;

    /// Two pages that are not neighbours, the later one first, and the map of a region that begins
    /// `first` octets into the first page.
    fn region(memory: &mut KVVec<u64>, first: u64, len: u64) -> Result<MrMap> {
        memory.resize(4 * PAGE / 8, 0, GFP_KERNEL)?;
        let base = (memory.as_ptr() as u64).next_multiple_of(PAGE as u64);
        let mut map = MrMap::with_capacity(MrKind::Pages, 2)?;
        // SAFETY: The pages are in the memory, which outlives the map.
        unsafe {
            map.push(base + PAGE as u64)?;
            map.push(base)?;
        }
        map.finish(0x7000_0000 + first, len, PAGE as u32);
        Ok(map)
    }

    /// RNIC-MR-02.
    #[test]
    fn range_across_pages_comes_back_in_order() -> Result {
        let mut memory = KVVec::new();
        let map = region(&mut memory, 4_000, 200)?;
        let mut octets = [0_u8; 200];
        for (number, octet) in octets.iter_mut().enumerate() {
            *octet = number as u8;
        }
        assert_eq!(map.write(0x7000_0000 + 4_000, &octets), Ok(()));
        let mut back = [0_u8; 100];
        assert_eq!(map.read(0x7000_0000 + 4_050, &mut back), Ok(()));
        assert!(back.iter().eq(octets.iter().skip(50).take(100)));
        Ok(())
    }

    /// RNIC-MR-04.
    #[test]
    fn range_outside_is_refused() -> Result {
        let mut memory = KVVec::new();
        let map = region(&mut memory, 8, 100)?;
        let base = 0x7000_0008;
        let mut octets = [0_u8; 10];
        assert_eq!(map.read(base + 90, &mut octets), Ok(()));
        assert_eq!(map.read(base + 91, &mut octets), Err(OutOfRange));
        assert_eq!(map.read(base - 1, &mut octets), Err(OutOfRange));
        assert_eq!(map.read(u64::MAX, &mut octets), Err(OutOfRange));
        assert!(map.contains(base + 100, 0));
        assert!(!map.contains(base, u64::MAX));
        Ok(())
    }

    /// RNIC-DATA-02: whatever the lengths and the addresses of a copy, each octet is stored once.
    #[test]
    fn copy_of_any_length_to_any_address_changes_only_its_octets() -> Result {
        let mut memory = KVVec::new();
        let map = region(&mut memory, 0, 400)?;
        let mut octets = [0_u8; 160];
        for (number, octet) in (1_u8..).zip(&mut octets) {
            *octet = number;
        }
        let lengths = [0, 1, 7, 8, 9, 15, 63, 64, 65, 71, 72, 73, 128, 160];
        for first in 0..9_usize {
            for len in lengths {
                let mut all = [0xee_u8; 200];
                assert_eq!(map.write(0x7000_0000, &all), Ok(()));
                let to = 0x7000_0010 + first as u64;
                assert_eq!(map.write(to, &octets[..len]), Ok(()));
                assert_eq!(map.read(0x7000_0000, &mut all), Ok(()));
                let (front, rest) = all.split_at(16 + first);
                let (copied, behind) = rest.split_at(len);
                let around = [front, behind];
                assert!(around
                    .iter()
                    .all(|part| part.iter().all(|octet| *octet == 0xee)));
                assert!(copied == &octets[..len]);
            }
        }
        Ok(())
    }

    #[test]
    fn region_longer_than_its_pages_is_cut() -> Result {
        let mut memory = KVVec::new();
        let map = region(&mut memory, 96, u64::MAX)?;
        assert!(map.contains(0x7000_0060, 8_096));
        assert!(!map.contains(0x7000_0060, 8_097));
        Ok(())
    }

    /// RNIC-MR-02.
    #[test]
    fn region_of_pieces_has_their_octets_in_order() -> Result {
        let mut memory = KVVec::<u64>::new();
        memory.resize(8, 0, GFP_KERNEL)?;
        let base = memory.as_ptr() as u64;
        let mut numbers = [0_u8; 64];
        for (number, octet) in numbers.iter_mut().enumerate() {
            *octet = number as u8;
        }
        let mut whole = MrMap::with_capacity(MrKind::Pieces, 1)?;
        let mut map = MrMap::with_capacity(MrKind::Pieces, 3)?;
        // SAFETY: The pieces are in the memory, which outlives the maps.
        unsafe {
            whole.push_piece(base, 64)?;
            map.push_piece(base + 40, 5)?;
            map.push_piece(base + 45, 0)?;
            // Goes on where the first one ends.
            map.push_piece(base + 45, 3)?;
            map.push_piece(base + 1, 1)?;
            map.push_piece(base + 8, 16)?;
            assert_eq!(map.push_piece(base, 1), Err(ENOMEM));
        }
        assert_eq!(whole.write(0, &numbers), Ok(()));
        map.rename(0x7000_0001);
        let want = [40, 41, 42, 43, 44, 45, 46, 47, 1];
        let mut all = [0_u8; 25];
        assert_eq!(map.read(0x7000_0001, &mut all), Ok(()));
        assert!(all.iter().copied().take(9).eq(want));
        assert!(all.iter().copied().skip(9).eq(8..24));
        let mut some = [0_u8; 4];
        assert_eq!(map.read(0x7000_0001 + 7, &mut some), Ok(()));
        assert_eq!(some, [47, 1, 8, 9]);
        assert_eq!(map.read(0x7000_0001 + 22, &mut some), Err(OutOfRange));
        assert_eq!(map.read(0x7000_0000, &mut some), Err(OutOfRange));
        assert!(map.contains(0x7000_0001 + 25, 0));
        assert_eq!(map.write(0x7000_0001 + 7, &[201, 202, 203]), Ok(()));
        for (at, octet) in numbers.iter_mut().enumerate() {
            match at {
                47 => *octet = 201,
                1 => *octet = 202,
                8 => *octet = 203,
                _ => {}
            }
        }
        let mut back = [0_u8; 64];
        assert_eq!(whole.read(0, &mut back), Ok(()));
        assert_eq!(back, numbers);
        // The next registration begins anew.
        assert_eq!(map.clear(), MrKind::Pieces);
        assert!(!map.contains(0x7000_0001, 1));
        // SAFETY: As above.
        unsafe { map.push_piece(base + 60, 4)? };
        assert_eq!(map.read(0x7000_0001, &mut some), Ok(()));
        assert_eq!(some, [60, 61, 62, 63]);
        Ok(())
    }

    #[test]
    fn renamed_region_has_the_same_memory() -> Result {
        let mut memory = KVVec::new();
        let mut map = region(&mut memory, 16, 64)?;
        assert_eq!(map.write(0x7000_0010, &[7; 4]), Ok(()));
        map.rename(0);
        let mut octets = [0_u8; 4];
        assert_eq!(map.read(0, &mut octets), Ok(()));
        assert_eq!(octets, [7; 4]);
        assert_eq!(map.read(0x7000_0010, &mut octets), Err(OutOfRange));
        Ok(())
    }

    /// RNIC-RDA-07.
    #[test]
    fn word_changes_return_its_former_value() -> Result {
        let mut memory = KVVec::new();
        let map = region(&mut memory, 0, 64)?;
        let at = 0x7000_0008;
        assert_eq!(map.change_word(at, WordChange::Store(5)), Ok(0));
        assert_eq!(map.change_word(at, WordChange::FetchAdd(u64::MAX)), Ok(5));
        assert_eq!(map.change_word(at, WordChange::CompareSwap(4, 9)), Ok(4));
        assert_eq!(map.change_word(at, WordChange::CompareSwap(4, 1)), Ok(9));
        assert_eq!(map.change_word(at, WordChange::FetchAdd(0)), Ok(9));
        assert_eq!(
            map.change_word(at + 4, WordChange::Store(1)),
            Err(OutOfRange)
        );
        assert_eq!(
            map.change_word(at + 56, WordChange::Store(1)),
            Err(OutOfRange)
        );
        Ok(())
    }
}
