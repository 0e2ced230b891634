// SPDX-License-Identifier: GPL-2.0

//! Keys of memory regions and windows (RNIC-MR-03).

use super::{
    limits,
    region::{
        index_of,
        AccessDenied,
        DomainTag,
        KeyedMemory,
        PairTag,
        Region,
        RegionAccess, //
    },
    window::Window, //
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
        MrMap,
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

/// What a key stands for.
#[derive(Clone)]
pub(super) enum KeyHolder {
    /// A memory region.
    Region(Arc<Region>),
    /// A memory window, for the peer only.
    Window(Arc<Window>),
}

impl From<Arc<Region>> for KeyHolder {
    fn from(region: Arc<Region>) -> Self {
        Self::Region(region)
    }
}

impl From<Arc<Window>> for KeyHolder {
    fn from(window: Arc<Window>) -> Self {
        Self::Window(window)
    }
}

/// Regions and windows by the index in their key.
struct Indices {
    /// `None` while the owner of an index makes its region or window.
    holders: RBTree<u32, Option<KeyHolder>>,
    /// Regions and windows.
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
    /// A table without keys.
    pub(super) fn new() -> impl PinInit<Self> {
        let indices = Indices {
            holders: RBTree::new(),
            count: 0,
            next: random_u32(),
        };
        pin_init!(Self {
            indices <- new_spinlock_bh!(indices, "rdma_soft_keys"),
        })
    }

    /// Makes a region or a window with a key of its own. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if there are too many; those of `make`.
    pub(super) fn add<T>(&self, make: impl FnOnce(u32) -> Result<Arc<T>>) -> Result<Arc<T>>
    where
        KeyHolder: From<Arc<T>>,
    {
        let reservation = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let key = self.reserve(reservation)?;
        match make(key) {
            Ok(holder) => {
                let mut indices = self.indices.lock();
                if let Some(place) = indices.holders.get_mut(&index_of(key)) {
                    *place = Some(holder.clone().into());
                }
                Ok(holder)
            }
            Err(err) => {
                self.remove(key);
                Err(err)
            }
        }
    }

    /// Takes an unused index.
    fn reserve(&self, reservation: RBTreeNodeReservation<u32, Option<KeyHolder>>) -> Result<u32> {
        let mut indices = self.indices.lock();
        if indices.count >= limits::MAX_KEYS {
            return Err(ENOMEM);
        }
        // Ends, as there are fewer keys than indices.
        loop {
            let index = index_of(indices.next);
            indices.next = index.wrapping_add(STEP);
            if index != index_of(LOCAL_DMA_KEY) && indices.holders.get(&index).is_none() {
                indices.holders.insert(reservation.into_node(index, None));
                indices.count = indices.count.saturating_add(1);
                return Ok(index | (random_u32() & 0xff));
            }
        }
    }

    /// Removes the region or window of a key.
    pub(super) fn remove(&self, key: u32) {
        let mut indices = self.indices.lock();
        let removed = indices.holders.remove_node(&index_of(key));
        if removed.is_some() {
            indices.count = indices.count.saturating_sub(1);
        }
        drop(indices);
        // The region must not be freed with the lock.
        drop(removed);
    }

    /// What a key names, which may have another key by now.
    fn find(&self, key: u32) -> Option<KeyHolder> {
        let indices = self.indices.lock();
        indices.holders.get(&index_of(key))?.clone()
    }

    /// The region that a key names, as [`Self::find`].
    pub(super) fn find_region(&self, key: u32) -> Option<Arc<Region>> {
        match self.find(key)? {
            KeyHolder::Region(region) => Some(region),
            KeyHolder::Window(_) => None,
        }
    }

    /// The window that a key names, as [`Self::find`].
    pub(super) fn find_window(&self, key: u32) -> Option<Arc<Window>> {
        match self.find(key)? {
            KeyHolder::Region(_) => None,
            KeyHolder::Window(window) => Some(window),
        }
    }

    /// Ends all access by a key (RNIC-MR-08); `peer` is the queue pair whose peer asks for it.
    pub(super) fn invalidate(
        &self,
        domain: &Arc<DomainTag>,
        key: u32,
        peer: Option<&Arc<PairTag>>,
    ) -> Result<(), AccessDenied> {
        match self.find(key).ok_or(AccessDenied)? {
            KeyHolder::Region(region) => region.invalidate(domain, key, peer.is_some()),
            KeyHolder::Window(window) => window.invalidate(domain, key, peer),
        }
    }
}

impl KeyedMemory for KeyTable {
    fn with_access<R>(
        &self,
        access: &RegionAccess<'_>,
        len: u64,
        f: impl FnOnce(&MrMap, u64) -> R,
    ) -> Result<R, AccessDenied> {
        match self.find(access.key).ok_or(AccessDenied)? {
            KeyHolder::Region(region) => region.with_access(access, len, f),
            KeyHolder::Window(window) => window.with_access(access, len, f),
        }
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_keys)]
mod tests {
    use super::*;
    use crate::kapi::ibdev::MrKind;

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
                Region::fast(&domain, key, MrKind::Pages, 1)
            })?;
            assert!(table
                .find_region(made ^ 1)
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
        let result = table.add::<Region>(|key| {
            made = key;
            Err(ENOMEM)
        });
        assert!(result.is_err());
        assert!(table.find(made).is_none());
        Ok(())
    }
}
