// SPDX-License-Identifier: GPL-2.0

//! Memory of a program that devices use without a copy.
//!
//! C headers: [`include/linux/uio.h`](srctree/include/linux/uio.h),
//! [`include/linux/mm.h`](srctree/include/linux/mm.h)

use super::{
    device::Device,
    dma::PageMapping,
    sendbuf::SendBuffer, //
};
use crate::{
    bindings,
    kapi::net::msg::{
        Notice,
        SendMsg, //
    },
};
use core::{
    mem::MaybeUninit,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    iov::{
        IovIterDest,
        IovIterSource, //
    },
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// Most pieces that are lent as one.
pub(crate) const MAX_PIECES: usize = 17;

/// A part of a page.
#[derive(Clone, Copy)]
struct Piece {
    page: NonNull<bindings::page>,
    offset: usize,
    len: usize,
}

/// An iterator over memory, in either direction.
trait RawIter {
    /// The C object, which is valid.
    fn raw(&mut self) -> *mut bindings::iov_iter;

    /// Whether nothing is left.
    fn is_used_up(&self) -> bool;
}

impl RawIter for IovIterSource<'_> {
    fn raw(&mut self) -> *mut bindings::iov_iter {
        self.as_raw()
    }

    fn is_used_up(&self) -> bool {
        self.is_empty()
    }
}

impl RawIter for IovIterDest<'_> {
    fn raw(&mut self) -> *mut bindings::iov_iter {
        self.as_raw()
    }

    fn is_used_up(&self) -> bool {
        self.is_empty()
    }
}

/// Pages that are held on to.
///
/// # Invariants
///
/// Each page is pinned, if `pinned`, or else referenced, for this object.
struct Pages {
    pieces: KVec<Piece>,
    pinned: bool,
    /// A device may have written them.
    written: bool,
    len: usize,
}

// SAFETY: Pages may be given back from any thread, and are only read by copying.
unsafe impl Send for Pages {}
// SAFETY: As for `Send`.
unsafe impl Sync for Pages {}

impl Pages {
    /// Takes up to `most` octets off the front of an iterator. There may be none, if its memory is of
    /// another kind. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` if there is no memory at the first address, `ENOMEM`.
    fn take(iter: &mut impl RawIter, most: usize, pieces: usize, written: bool) -> Result<Self> {
        // SAFETY: The iterator is valid by its invariants.
        let pinned = unsafe { bindings::rdma_sock_helper_extract_will_pin(iter.raw()) };
        // INVARIANT: There are no pages yet.
        let mut this = Self {
            pieces: KVec::with_capacity(pieces, GFP_KERNEL)?,
            pinned,
            written,
            len: 0,
        };
        while this.len < most && this.pieces.len() < pieces && !iter.is_used_up() {
            match this.extend(iter, most - this.len, pieces - this.pieces.len()) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if this.len == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(this)
    }

    /// Takes up to `most` octets more in up to `free` pieces, for which there is room; returns how
    /// much.
    fn extend(&mut self, iter: &mut impl RawIter, most: usize, free: usize) -> Result<usize> {
        let mut pages = [null_mut(); MAX_PIECES];
        let free = free.min(MAX_PIECES);
        let mut offset = 0;
        // SAFETY: The iterator is valid by its invariants, and `pages` has room for `free` pages.
        let got = unsafe {
            bindings::rdma_sock_helper_extract_pages(
                iter.raw(),
                pages.as_mut_ptr(),
                most,
                u32::try_from(free)?,
                &mut offset,
            )
        };
        let got = match usize::try_from(got) {
            Ok(got) => got,
            Err(_) if got == -(bindings::EOPNOTSUPP as isize) => return Ok(0),
            Err(_) => return Err(EFAULT),
        };
        let mut rest = got;
        for page in pages.iter().filter_map(|&page| NonNull::new(page)) {
            if rest == 0 {
                break;
            }
            // SAFETY: The iterator listed the page, so it is there until the end of the call.
            let held = self.pinned || unsafe { bindings::rdma_sock_helper_get_page(page.as_ptr()) };
            if !held {
                break;
            }
            let len = rest.min(PAGE_SIZE - offset);
            let piece = Piece { page, offset, len };
            // INVARIANT: Just pinned or referenced. There is room: no more than `free` are listed.
            let fits = self.pieces.push_within_capacity(piece).is_ok();
            debug_assert!(fits);
            self.len += len;
            rest -= len;
            offset = 0;
        }
        if rest > 0 {
            // SAFETY: So much was taken off the iterator.
            unsafe { bindings::rdma_sock_helper_iter_revert(iter.raw(), rest) };
        }
        Ok(got - rest)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        for piece in &self.pieces {
            // SAFETY: By the type invariants.
            unsafe {
                if self.pinned && self.written {
                    let mut page = piece.page.as_ptr();
                    bindings::unpin_user_pages_dirty_lock(&mut page, 1, true);
                } else if self.pinned {
                    bindings::rdma_sock_helper_unpin_page(piece.page.as_ptr());
                } else {
                    bindings::rdma_sock_helper_put_page(piece.page.as_ptr());
                }
            }
        }
    }
}

/// Pages of a program, mapped for a device, for a registration by
/// [`Channel::register`](crate::kapi::verbs::channel::Channel::register).
///
/// Must be dropped where sleeping is allowed: pages that were written are marked dirty under a lock.
pub(crate) struct UserPages {
    // The order matters: unmapped, then given back.
    mapping: PageMapping,
    pages: Pages,
}

#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
)]
impl UserPages {
    /// Takes up to `most` octets in up to `pieces` pages off the front of `iter`, for a device to read.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` if there is no memory of a program, `ENODEV` if the device is being removed, `ENOMEM`.
    pub(crate) fn for_reading(
        dev: &Arc<Device>,
        iter: &mut IovIterSource<'_>,
        most: usize,
        pieces: usize,
    ) -> Result<Self> {
        let mapping = PageMapping::to_device(dev, pieces)?;
        Self::new(mapping, Pages::take(iter, most, pieces, false)?)
    }

    /// The same for a device to write.
    pub(crate) fn for_writing(
        dev: &Arc<Device>,
        iter: &mut IovIterDest<'_>,
        most: usize,
        pieces: usize,
    ) -> Result<Self> {
        let mapping = PageMapping::from_device(dev, pieces)?;
        Self::new(mapping, Pages::take(iter, most, pieces, true)?)
    }

    fn new(mut mapping: PageMapping, pages: Pages) -> Result<Self> {
        if pages.len == 0 {
            return Err(EFAULT);
        }
        for piece in &pages.pieces {
            // SAFETY: The page stays until after the mapping is dropped.
            unsafe { mapping.add(piece.page.as_ptr(), piece.offset, piece.len)? };
        }
        Ok(Self { mapping, pages })
    }

    /// Octets of the pages.
    pub(crate) fn len(&self) -> usize {
        self.pages.len
    }

    /// Whether the device may write them.
    pub(in crate::kapi) fn is_for_writing(&self) -> bool {
        self.pages.written
    }

    /// The mapping, of as many parts as there are pieces.
    pub(in crate::kapi) fn mapping(&self) -> &PageMapping {
        &self.mapping
    }

    /// The first page of each piece.
    pub(in crate::kapi) fn raw_pages(&self) -> impl Iterator<Item = *mut bindings::page> + '_ {
        self.pages.pieces.iter().map(|piece| piece.page.as_ptr())
    }
}

/// Memory that a program has lent until its octets have arrived.
///
/// Writes posted from it hold a reference until they are complete. The drop of the last reference
/// notifies the program by the error queue, if it asked for that. Dropped in any context, but not
/// with a lock that a wake-up may take.
pub(crate) struct LentMemory {
    // The drop order matters: unmap, release the pages, notify the program.
    mapping: PageMapping,
    pages: Pages,
    _notice: Option<Notice>,
}

impl LentMemory {
    /// Takes up to `most` octets off the front of a message, in at most `pieces` pages, for a
    /// device to read. Returns `None` if it cannot take at least `least` octets: the caller copies
    /// them then. Context: may sleep.
    pub(crate) fn take(
        dev: &Arc<Device>,
        msg: &mut SendMsg<'_>,
        (least, most): (usize, usize),
        pieces: usize,
        notice: Option<&Notice>,
    ) -> Option<Arc<Self>> {
        let pages = Pages::take(msg.iter(), most, pieces.min(MAX_PIECES), false).ok()?;
        let len = pages.len;
        let lent = if len >= least {
            Self::map(dev, pages, notice)
        } else {
            Err(EINVAL)
        };
        if lent.is_err() {
            // SAFETY: Just taken off it.
            unsafe { msg.give_back(len) };
        }
        lent.ok()
    }

    /// Takes all octets of an iterator, in at most `pieces` pages. Context: may sleep.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) fn of_iter(
        dev: &Arc<Device>,
        iter: &mut IovIterSource<'_>,
        pieces: usize,
    ) -> Result<Arc<Self>> {
        Self::map(dev, Pages::take(iter, usize::MAX, pieces, false)?, None)
    }

    fn map(dev: &Arc<Device>, pages: Pages, notice: Option<&Notice>) -> Result<Arc<Self>> {
        let mut mapping = PageMapping::to_device(dev, pages.pieces.len())?;
        for piece in &pages.pieces {
            // SAFETY: The page stays until after the mapping is dropped.
            unsafe { mapping.add(piece.page.as_ptr(), piece.offset, piece.len)? };
        }
        let this = Self {
            mapping,
            pages,
            _notice: notice.cloned(),
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// Octets that are lent.
    pub(crate) fn len(&self) -> usize {
        self.pages.len
    }

    /// Copies the octets from `skip` on to `off` of a buffer, `len` of them. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are fewer than `skip` + `len` octets, or they do not fit.
    pub(crate) fn copy_to(
        &self,
        mut skip: usize,
        buffer: &SendBuffer,
        mut off: usize,
        mut len: usize,
    ) -> Result {
        for piece in &self.pages.pieces {
            let Some(left) = piece.len.checked_sub(skip).filter(|&left| left > 0) else {
                skip -= piece.len;
                continue;
            };
            let count = left.min(len);
            if count == 0 {
                break;
            }
            let mut vec = MaybeUninit::uninit();
            let mut iter = MaybeUninit::uninit();
            // SAFETY: Both are set up by this. The part lies in the page, which is ours.
            unsafe {
                bindings::rdma_sock_helper_page_iter(
                    iter.as_mut_ptr(),
                    vec.as_mut_ptr(),
                    piece.page.as_ptr(),
                    u32::try_from(piece.offset + skip)?,
                    u32::try_from(count)?,
                )
            };
            // SAFETY: A source that was just set up; `vec` and the page outlive it.
            let iter = unsafe { IovIterSource::from_raw(iter.as_mut_ptr()) };
            if buffer.copy_from_iter(off, count, iter)? != count {
                return Err(EFAULT);
            }
            skip = 0;
            off += count;
            len -= count;
        }
        match len {
            0 => Ok(()),
            _ => Err(EINVAL),
        }
    }

    /// Calls `f` with the addresses and sizes of the pieces that hold the `len` octets at `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if this is not mapped for `dev` or has fewer than `off` + `len` octets, and those
    /// of `f`.
    pub(in crate::kapi) fn for_device(
        &self,
        dev: &Arc<Device>,
        off: usize,
        len: usize,
        f: impl FnMut(u64, u32) -> Result,
    ) -> Result {
        if !Arc::ptr_eq(dev, self.mapping.device()) {
            return Err(EINVAL);
        }
        self.mapping.for_range(off, len, f)
    }
}
