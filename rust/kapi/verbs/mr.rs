// SPDX-License-Identifier: GPL-2.0

//! A registration that lets a peer write memory.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    chunk_mapping::ChunkMapping,
    pd::Pd, //
};
use crate::{
    bindings,
    kapi::mem::{
        chunks::Chunks,
        region::PeerMemory, //
    },
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    },
};

/// What a peer may do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Write it.
    Write,
    /// Read it.
    #[cfg_attr(
        not(CONFIG_RDMA_SOCK_KUNIT_TEST),
        expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
    )]
    Read,
}

impl Access {
    /// As work requests name it.
    pub(super) fn flags(self) -> Result<i32> {
        let flags = match self {
            Self::Write => {
                bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
                    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
            }
            Self::Read => bindings::ib_access_flags_IB_ACCESS_REMOTE_READ,
        };
        i32::try_from(flags).map_err(|_| EINVAL)
    }
}

/// A memory region over all elements of a [`PeerMemory`], which appear to the peer one after another.
///
/// Its key is known at once, but the peer may use it only after
/// [`Channel::activate`](super::channel::Channel::activate). It serves all channels of its protection
/// domain. Must be dropped where sleeping is allowed; after that no peer can write the memory.
///
/// # Invariants
///
/// `raw` is a memory region in `pd`, owned by this object, that covers nothing but the memory that
/// `mappings` map, from address 0 on.
pub(crate) struct Mr {
    raw: NonNull<bindings::ib_mr>,
    active: Atomic<bool>,
    access: Access,
    // Given up in this order, after the region.
    backing: ManuallyDrop<(KVec<ChunkMapping>, Arc<PeerMemory>)>,
    pd: Arc<Pd>,
}

// SAFETY: Memory regions may be used from any thread.
unsafe impl Send for Mr {}
// SAFETY: As for `Send`.
unsafe impl Sync for Mr {}

impl Mr {
    /// As [`Self::with_access`], for writing.
    pub(crate) fn new(pd: &Arc<Pd>, memory: Arc<PeerMemory>) -> Result<Self> {
        Self::with_access(pd, memory, Access::Write)
    }

    /// Maps `memory` for the device and allocates a region with a key for it, by which a peer has
    /// `access`. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the device cannot cover that much with one region.
    pub(crate) fn with_access(
        pd: &Arc<Pd>,
        memory: Arc<PeerMemory>,
        access: Access,
    ) -> Result<Self> {
        let dev = pd.device();
        if memory.bytes() > dev.max_region_bytes() || !dev.can_register() {
            return Err(EMSGSIZE);
        }
        let mut mappings = KVec::with_capacity(memory.elements(), GFP_KERNEL)?;
        for chunks in memory.chunks() {
            // SAFETY: The mappings are dropped before the reference to the memory.
            let mapping = unsafe { ChunkMapping::both_ways(dev, chunks)? };
            mappings.push(mapping, GFP_KERNEL)?;
        }

        let pages = u32::try_from(memory.bytes() / PAGE_SIZE).map_err(|_| EMSGSIZE)?;
        // SAFETY: The protection domain is valid.
        let raw = from_err_ptr(unsafe {
            bindings::ib_alloc_mr(pd.as_raw(), bindings::ib_mr_type_IB_MR_TYPE_MEM_REG, pages)
        })?;
        // INVARIANT: Just allocated; it covers nothing yet.
        let this = Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            active: Atomic::new(false),
            access,
            backing: ManuallyDrop::new((mappings, memory)),
            pd: pd.clone(),
        };
        this.cover()?;
        Ok(this)
    }

    /// Tells the region what it covers, from address 0 on.
    fn cover(&self) -> Result {
        let (mappings, memory) = &*self.backing;
        let blocks = || memory.chunks().iter().flat_map(Chunks::blocks);
        let count = blocks().count();
        let mut list = KVec::<bindings::scatterlist>::with_capacity(count, GFP_KERNEL)?;
        let list = list.as_mut_ptr();
        let entries = u32::try_from(count).map_err(|_| EINVAL)?;
        // SAFETY: There is room for `count` entries.
        unsafe { bindings::sg_init_table(list, entries) };
        let mapped = mappings.iter().flat_map(ChunkMapping::of_each);
        for (at, (block, mapping)) in blocks().zip(mapped).enumerate() {
            let len = u32::try_from(block.len()).map_err(|_| EINVAL)?;
            // SAFETY: `at` is less than `count`, the entry is initialised, and the block is mapped at
            // that address.
            unsafe {
                bindings::rdma_sock_helper_sg_set_mapped(
                    list.add(at),
                    block.page(),
                    len,
                    mapping.addr(0)?,
                )
            };
        }
        let count = i32::try_from(count).map_err(|_| EINVAL)?;
        let page_size = u32::try_from(PAGE_SIZE).map_err(|_| EINVAL)?;
        // SAFETY: The region is ours, and the list has `count` mapped entries. The list is not used
        // after the call.
        let done = unsafe {
            bindings::rdma_sock_helper_ib_map_mr_sg_zbva(self.as_raw(), list, count, page_size)
        };
        if done < 0 {
            Err(Error::from_errno(done))
        } else if done < count {
            Err(EMSGSIZE)
        } else {
            Ok(())
        }
    }

    /// The C object.
    pub(super) fn as_raw(&self) -> *mut bindings::ib_mr {
        self.raw.as_ptr()
    }

    /// What a peer may do with it.
    pub(super) fn access(&self) -> Access {
        self.access
    }

    /// The protection domain.
    pub(super) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// The memory.
    pub(crate) fn memory(&self) -> &Arc<PeerMemory> {
        &self.backing.1
    }

    /// The key a peer needs for writing. Any context.
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: Valid by the type invariants; reads a field.
        unsafe { bindings::rdma_sock_helper_ib_mr_rkey(self.as_raw()) }
    }

    /// The address of an element for the peer: the region is contiguous there, and begins at 0.
    /// Addresses of the kernel or the bus are not for peers. Any context.
    pub(crate) fn iova(&self, element: usize) -> Result<u64> {
        if element >= self.memory().elements() {
            return Err(EINVAL);
        }
        element
            .checked_mul(self.memory().element_bytes())
            .and_then(|off| u64::try_from(off).ok())
            .ok_or(EINVAL)
    }

    /// In which direction an element is mapped.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) fn direction(&self, element: usize) -> Result<bindings::dma_data_direction> {
        let (mappings, _) = &*self.backing;
        let mappings = mappings.get(element).ok_or(EINVAL)?.of_each();
        Ok(mappings.first().ok_or(EINVAL)?.direction())
    }

    /// May peers use it? Any context.
    pub(crate) fn is_active(&self) -> bool {
        // Pairs with `set_active`.
        self.active.load(Acquire)
    }

    /// Peers may use it now.
    pub(super) fn set_active(&self) {
        // Pairs with `is_active`.
        self.active.store(true, Release);
    }

    /// Makes what peers wrote into an element visible to the CPU; to be called before copying it
    /// out. Any context.
    pub(crate) fn sync_for_cpu(&self, element: usize, off: usize, len: usize) -> Result {
        let (mappings, _) = &*self.backing;
        mappings.get(element).ok_or(EINVAL)?.sync_for_cpu(off, len)
    }

    /// Makes what the CPU wrote into an element visible to the device. Any context.
    pub(crate) fn sync_for_device(&self, element: usize, off: usize, len: usize) -> Result {
        let (mappings, _) = &*self.backing;
        mappings
            .get(element)
            .ok_or(EINVAL)?
            .sync_for_device(off, len)
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: By the type invariants it is ours.
        let ret = unsafe { bindings::rdma_sock_helper_ib_dereg_mr(self.as_raw()) };
        if ret != 0 {
            // A peer may still write the memory, so it must never be used for anything else.
            pr_err!("memory region could not be deregistered ({})\n", ret);
            return;
        }
        // SAFETY: Dropped only here, and not used again.
        unsafe { ManuallyDrop::drop(&mut self.backing) };
    }
}
