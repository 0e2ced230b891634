// SPDX-License-Identifier: GPL-2.0

//! Registrations of a program's pages, which a peer reads or writes for one operation.
//!
//! The types carry the state. A [`FastMr`] has a key that no access is possible by. Together with
//! [`UserPages`] it becomes a [`UserRegion`], which the peer may use; [`Channel::invalidate`] gives both
//! back after the key is dead. A region that is dropped instead deregisters the key first. So pages
//! never go back to their program while a peer can reach them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    channel::{
        Channel,
        ChannelOps, //
    },
    mr::Access,
    pd::Pd,
    user_pages::UserPages, //
};
use crate::bindings;
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// A memory region that may cover pages, one set after another. Must be dropped where sleeping is
/// allowed.
///
/// # Invariants
///
/// `raw` is a memory region in `pd` of at most `pages` pages, owned by this object. No request can use its
/// key, unless it is part of a [`UserRegion`].
pub(crate) struct FastMr {
    raw: NonNull<bindings::ib_mr>,
    pages: usize,
    pd: Arc<Pd>,
}

// SAFETY: Memory regions may be used from any thread.
unsafe impl Send for FastMr {}
// SAFETY: As for `Send`.
unsafe impl Sync for FastMr {}

#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
)]
impl FastMr {
    /// Allocates a region for up to `pages` pages. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the device cannot cover that much with one region.
    pub(crate) fn new(pd: &Arc<Pd>, pages: usize) -> Result<Self> {
        let dev = pd.device();
        let bytes = pages.checked_mul(PAGE_SIZE).ok_or(EMSGSIZE)?;
        if bytes > dev.max_region_bytes() || !dev.can_register() {
            return Err(EMSGSIZE);
        }
        let count = u32::try_from(pages).map_err(|_| EMSGSIZE)?;
        // SAFETY: The protection domain is valid.
        let raw = from_err_ptr(unsafe {
            bindings::ib_alloc_mr(pd.as_raw(), bindings::ib_mr_type_IB_MR_TYPE_MEM_REG, count)
        })?;
        // INVARIANT: Just allocated; a key that was never registered allows nothing.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            pages,
            pd: pd.clone(),
        })
    }

    /// Makes the region cover `pages`, under a key that it did not have the last time. Context: may
    /// sleep.
    fn cover(&self, pages: &UserPages) -> Result {
        let parts = pages.mapping().parts();
        if parts.len() > self.pages || !Arc::ptr_eq(pages.mapping().device(), self.pd.device()) {
            return Err(EINVAL);
        }
        let count = u32::try_from(parts.len()).map_err(|_| EINVAL)?;
        let mut list = KVec::<bindings::scatterlist>::with_capacity(parts.len(), GFP_KERNEL)?;
        let list = list.as_mut_ptr();
        // SAFETY: There is room for `count` entries.
        unsafe { bindings::sg_init_table(list, count) };
        for (at, (&(addr, len), page)) in parts.iter().zip(pages.raw_pages()).enumerate() {
            // SAFETY: `at` is less than `count`, the entry is initialised, and the part of the page is
            // mapped at that address.
            unsafe { bindings::rdma_sock_helper_sg_set_mapped(list.add(at), page, len, addr) };
        }
        let count = i32::try_from(count).map_err(|_| EINVAL)?;
        let page_size = u32::try_from(PAGE_SIZE).map_err(|_| EINVAL)?;
        // SAFETY: The region is ours and cannot be used, and the list has `count` mapped entries. The
        // list is not used after the call.
        let done = unsafe {
            bindings::rdma_sock_helper_ib_map_mr_sg_offset(
                self.raw.as_ptr(),
                list,
                count,
                page_size,
            )
        };
        if done < 0 {
            return Err(Error::from_errno(done));
        }
        // Pieces that begin or end within a page have no place but the ends.
        if done < count {
            return Err(EMSGSIZE);
        }
        // SAFETY: The region is ours and cannot be used.
        unsafe { bindings::rdma_sock_helper_ib_mr_next_key(self.raw.as_ptr()) };
        Ok(())
    }

    fn rkey(&self) -> u32 {
        // SAFETY: Valid by the type invariants; reads a field.
        unsafe { bindings::rdma_sock_helper_ib_mr_rkey(self.raw.as_ptr()) }
    }

    /// Deregisters the region. Returns whether the device did so.
    ///
    /// # Safety
    ///
    /// Called once, and the region is not used again.
    unsafe fn deregister(&self) -> bool {
        // SAFETY: By the type invariants it is ours, and by this function's contract.
        let ret = unsafe { bindings::rdma_sock_helper_ib_dereg_mr(self.raw.as_ptr()) };
        if ret != 0 {
            pr_err!("memory region could not be deregistered ({})\n", ret);
        }
        ret == 0
    }
}

impl Drop for FastMr {
    fn drop(&mut self) {
        // SAFETY: This is the end of the region, which no request can use.
        unsafe { self.deregister() };
    }
}

/// Pages of a program that a peer may read or write. Must be dropped where sleeping is allowed; after
/// that no peer reaches them.
///
/// # Invariants
///
/// `mr` covers `pages` and nothing else. Both are there until the drop.
pub(crate) struct UserRegion {
    mr: ManuallyDrop<FastMr>,
    pages: ManuallyDrop<UserPages>,
    addr: u64,
}

#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
)]
impl UserRegion {
    /// The key that the peer needs. Context: any.
    pub(crate) fn rkey(&self) -> u32 {
        self.mr.rkey()
    }

    /// The address of the first octet for the peer: its place in its page. Addresses of the kernel, the
    /// program or the bus are not for peers. Context: any.
    pub(crate) fn addr(&self) -> u64 {
        self.addr
    }

    /// Octets of the region. Context: any.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Takes the region apart.
    ///
    /// # Safety
    ///
    /// No request can use the key.
    unsafe fn into_parts(self) -> (FastMr, UserPages) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither dropped nor used again, so each is taken once.
        unsafe {
            (
                ManuallyDrop::take(&mut this.mr),
                ManuallyDrop::take(&mut this.pages),
            )
        }
    }
}

impl Drop for UserRegion {
    fn drop(&mut self) {
        // SAFETY: Only here, and `mr` is forgotten but for its protection domain, which is dropped below.
        let gone = unsafe { self.mr.deregister() };
        // SAFETY: Dropped only here, and not used again.
        let pd = unsafe { core::ptr::read(&self.mr.pd) };
        // If the device did not give the key up, a peer may still reach the pages: they stay pinned.
        if gone {
            // SAFETY: Dropped only here, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.pages) };
        }
        drop(pd);
    }
}

#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
)]
impl<T: ChannelOps> Channel<T> {
    /// Lets the peer have `access` to `pages`, and waits until the device knows. The channel must be
    /// able to send. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the pages are mapped for another device or direction, or more than `mr` covers, or
    /// `mr` is of another protection domain; `EMSGSIZE` if they are not contiguous for the device;
    /// `ESHUTDOWN` after a shutdown; `EIO` or `ETIMEDOUT` if the device failed, and the channel with it.
    /// The region and the pages are given up then.
    pub(crate) fn register(
        &self,
        mr: FastMr,
        pages: UserPages,
        access: Access,
    ) -> Result<UserRegion> {
        if pages.is_for_writing() != (access == Access::Write) {
            return Err(EINVAL);
        }
        mr.cover(&pages)?;
        // SAFETY: Valid by the type invariants; reads a field.
        let addr = unsafe { bindings::rdma_sock_helper_ib_mr_iova(mr.raw.as_ptr()) };
        // INVARIANT: Covered just now. From here on the key may be used.
        let region = UserRegion {
            mr: ManuallyDrop::new(mr),
            pages: ManuallyDrop::new(pages),
            addr,
        };
        let mut wr = bindings::ib_reg_wr {
            mr: region.mr.raw.as_ptr(),
            key: region.rkey(),
            access: access.flags()?,
            ..Default::default()
        };
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
        self.run_on(&region, &raw mut wr.wr)?;
        Ok(region)
    }

    /// Ends the peer's access to the region, and returns its parts after the device has confirmed that.
    /// Requests that were posted before are complete then. Context: may sleep.
    ///
    /// # Errors
    ///
    /// As of [`Self::register`]. The region is deregistered then, and the pages are given up.
    pub(crate) fn invalidate(&self, region: UserRegion) -> Result<(FastMr, UserPages)> {
        let mut wr = bindings::ib_send_wr {
            opcode: bindings::ib_wr_opcode_IB_WR_LOCAL_INV,
            ..Default::default()
        };
        wr.ex.invalidate_rkey = ManuallyDrop::new(region.rkey());
        self.run_on(&region, &raw mut wr)?;
        // SAFETY: The device has invalidated the key.
        Ok(unsafe { region.into_parts() })
    }

    /// Posts a request on the region and waits for its end.
    fn run_on(&self, region: &UserRegion, wr: *mut bindings::ib_send_wr) -> Result {
        self.fast_reg().run(
            wr,
            |wr| {
                // SAFETY: One request with a handler. `run` waits for it, with the region and what the
                // request names.
                unsafe { self.post_alone(&region.mr.pd, wr) }
            },
            || self.fail(),
        )
    }
}
