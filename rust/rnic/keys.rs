// SPDX-License-Identifier: GPL-2.0

//! Keys of memory regions (RNIC-MR-03).

use super::{
    limits,
    region::{
        index_of,
        AccessDenied,
        Region, //
        RegionAccess,
    },
};
use crate::kapi::{
    base::{
        module::random_u32,
        sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
    },
    ibdev::{
        WordChange,
        LOCAL_DMA_KEY, //
    },
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::Arc, //
};

/// The distance of two indices.
const STEP: u32 = 0x100;

/// The regions by the index in their key.
struct Indices {
    /// `None` while the owner of an index makes its region.
    regions: RBTree<u32, Option<Arc<Region>>>,
    /// Regions.
    count: u32,
    /// Where the search for an unused index begins: no index is used again at once.
    next: u32,
}

/// The keys of a device.
#[pin_data]
pub(super) struct KeyTable {
    #[pin]
    indices: SpinLockBh<Indices>,
}

impl KeyTable {
    /// A table without regions.
    pub(super) fn new() -> impl PinInit<Self> {
        let indices = Indices {
            regions: RBTree::new(),
            count: 0,
            next: random_u32(),
        };
        pin_init!(Self {
            indices <- new_spinlock_bh!(indices, "rdma_soft_keys"),
        })
    }

    /// Makes a region with a key of its own. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if there are too many; those of `make`.
    pub(super) fn add(&self, make: impl FnOnce(u32) -> Result<Arc<Region>>) -> Result<Arc<Region>> {
        let reservation = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let key = self.reserve(reservation)?;
        match make(key) {
            Ok(region) => {
                let mut indices = self.indices.lock();
                if let Some(place) = indices.regions.get_mut(&index_of(key)) {
                    *place = Some(region.clone());
                }
                Ok(region)
            }
            Err(err) => {
                self.remove(key);
                Err(err)
            }
        }
    }

    /// Takes an unused index.
    fn reserve(&self, reservation: RBTreeNodeReservation<u32, Option<Arc<Region>>>) -> Result<u32> {
        let mut indices = self.indices.lock();
        if indices.count >= limits::MAX_MR {
            return Err(ENOMEM);
        }
        // Ends, as there are fewer regions than indices.
        loop {
            let index = index_of(indices.next);
            indices.next = index.wrapping_add(STEP);
            if index != index_of(LOCAL_DMA_KEY) && indices.regions.get(&index).is_none() {
                indices.regions.insert(reservation.into_node(index, None));
                indices.count = indices.count.saturating_add(1);
                return Ok(index | (random_u32() & 0xff));
            }
        }
    }

    /// Removes the region of a key.
    pub(super) fn remove(&self, key: u32) {
        let mut indices = self.indices.lock();
        let removed = indices.regions.remove_node(&index_of(key));
        if removed.is_some() {
            indices.count = indices.count.saturating_sub(1);
        }
        drop(indices);
        // The region must not be freed with the lock.
        drop(removed);
    }

    /// The region that a key names, which may have another key by now.
    pub(super) fn find(&self, key: u32) -> Option<Arc<Region>> {
        let indices = self.indices.lock();
        indices.regions.get(&index_of(key))?.clone()
    }

    /// Checks an access to `len` octets.
    pub(super) fn check(&self, access: &RegionAccess<'_>, len: u64) -> Result<(), AccessDenied> {
        self.find(access.key)
            .ok_or(AccessDenied)?
            .check(access, len)
    }

    /// Copies octets out of the region that the access names.
    pub(super) fn read(
        &self,
        access: &RegionAccess<'_>,
        to: &mut [u8],
    ) -> Result<(), AccessDenied> {
        self.find(access.key).ok_or(AccessDenied)?.read(access, to)
    }

    /// Copies octets into the region that the access names.
    pub(super) fn write(&self, access: &RegionAccess<'_>, from: &[u8]) -> Result<(), AccessDenied> {
        self.find(access.key)
            .ok_or(AccessDenied)?
            .write(access, from)
    }

    /// Changes a word of the region that the access names, and returns its former value.
    pub(super) fn change_word(
        &self,
        access: &RegionAccess<'_>,
        change: WordChange,
    ) -> Result<u64, AccessDenied> {
        self.find(access.key)
            .ok_or(AccessDenied)?
            .change_word(access, change)
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_keys)]
mod tests {
    use super::*;
    use crate::rnic::region::DomainTag;

    /// RNIC-MR-03, RNIC-MR-12.
    #[test]
    fn index_of_a_region_is_not_used_again_at_once() -> Result {
        let domain = Arc::new(DomainTag, GFP_KERNEL)?;
        let table = KBox::pin_init(KeyTable::new(), GFP_KERNEL)?;
        let mut keys = KVec::new();
        for _ in 0..4 {
            let mut made = 0;
            let region = table.add(|key| {
                made = key;
                Region::fast(&domain, key, 1)
            })?;
            assert!(table
                .find(made ^ 1)
                .is_some_and(|found| Arc::ptr_eq(&found, &region)));
            assert!(index_of(made) != index_of(LOCAL_DMA_KEY));
            assert!(!keys.contains(&index_of(made)));
            keys.push(index_of(made), GFP_KERNEL)?;
            table.remove(made);
            assert!(table.find(made).is_none());
        }
        assert!(table.find(LOCAL_DMA_KEY).is_none());
        Ok(())
    }

    #[test]
    fn failed_region_leaves_no_key() -> Result {
        let table = KBox::pin_init(KeyTable::new(), GFP_KERNEL)?;
        let mut made = 0;
        let result = table.add(|key| {
            made = key;
            Err(ENOMEM)
        });
        assert!(result.is_err());
        assert!(table.find(made).is_none());
        Ok(())
    }
}
