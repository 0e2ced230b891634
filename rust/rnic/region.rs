// SPDX-License-Identifier: GPL-2.0

//! Memory regions (RNIC-MR).
//!
//! The lock of a region is held while octets of one packet are copied, so an invalidation waits for
//! copies under way, and there is none after it (RNIC-MR-06, RNIC-MR-07).

use crate::kapi::{
    base::sync::{
        new_spinlock_bh,
        SpinLockBh, //
    },
    compat::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    ibdev::{
        IbMrOps,
        MrAccess,
        MrKind,
        MrMap,
        WindowBinding,
        WordChange, //
    },
};
use core::mem::{
    replace,
    swap, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A protection domain, as its regions know it: by its identity.
pub(super) struct DomainTag;

/// A queue pair, as windows of type 2 know it: by its identity.
pub(super) struct PairTag;

/// The low bits of a key, which the owner changes from one registration to the next (RNIC-MR-03).
pub(super) const VARIANT: u32 = 0xff;

/// The index of the region that a key names.
pub(super) const fn index_of(key: u32) -> u32 {
    key & !VARIANT
}

/// The right that an access needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// A work request of this side reads.
    LocalRead,
    /// A work request of this side writes.
    LocalWrite,
    /// The peer reads.
    RemoteRead,
    /// The peer writes.
    RemoteWrite,
    /// The peer executes an atomic operation.
    RemoteAtomic,
    /// The peer makes its writes visible.
    RemoteFlush,
}

impl Right {
    /// Whether the peer needs it.
    pub(super) const fn is_remote(self) -> bool {
        matches!(
            self,
            Self::RemoteRead | Self::RemoteWrite | Self::RemoteAtomic | Self::RemoteFlush
        )
    }

    /// Whether `access` gives it.
    pub(super) const fn is_given_by(self, access: &MrAccess) -> bool {
        match self {
            Self::LocalRead => true,
            Self::LocalWrite => access.local_write,
            Self::RemoteRead => access.remote_read,
            Self::RemoteWrite => access.remote_write,
            Self::RemoteAtomic => access.remote_atomic,
            Self::RemoteFlush => access.remote_flush,
        }
    }
}

/// An access to a region.
#[derive(Clone, Copy)]
pub(super) struct RegionAccess<'a> {
    /// The protection domain of the queue pair.
    pub(super) domain: &'a Arc<DomainTag>,
    /// The queue pair, if the peer needs the right.
    pub(super) pair: Option<&'a Arc<PairTag>>,
    /// Key.
    pub(super) key: u32,
    /// The right that it needs.
    pub(super) right: Right,
    /// First octet.
    pub(super) addr: u64,
}

/// The access is not permitted (RNIC-MR-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessDenied;

/// Memory that keys give access to.
pub(super) trait KeyedMemory {
    /// Runs `f` with the memory and the address in it if the access to `len` octets is permitted.
    fn with_access<R>(
        &self,
        access: &RegionAccess<'_>,
        len: u64,
        f: impl FnOnce(&MrMap, u64) -> R,
    ) -> Result<R, AccessDenied>;

    /// Checks an access to `len` octets. Another one may be refused a moment later.
    fn check(&self, access: &RegionAccess<'_>, len: u64) -> Result<(), AccessDenied> {
        self.with_access(access, len, |_, _| ())
    }

    /// Copies octets out.
    fn read(&self, access: &RegionAccess<'_>, to: &mut [u8]) -> Result<(), AccessDenied> {
        let len = u64::try_from(to.len()).map_err(|_| AccessDenied)?;
        self.with_access(access, len, |map, addr| map.read(addr, to))?
            .map_err(|_| AccessDenied)
    }

    /// Copies octets in.
    fn write(&self, access: &RegionAccess<'_>, from: &[u8]) -> Result<(), AccessDenied> {
        let len = u64::try_from(from.len()).map_err(|_| AccessDenied)?;
        self.with_access(access, len, |map, addr| map.write(addr, from))?
            .map_err(|_| AccessDenied)
    }

    /// Changes a word and returns its former value.
    fn change_word(
        &self,
        access: &RegionAccess<'_>,
        change: WordChange,
    ) -> Result<u64, AccessDenied> {
        self.with_access(access, 8, |map, addr| map.change_word(addr, change))?
            .map_err(|_| AccessDenied)
    }
}

/// What is in force.
struct InForce {
    /// Whether the region can be accessed.
    valid: bool,
    /// Key.
    key: u32,
    /// Rights.
    access: MrAccess,
    /// Memory.
    map: MrMap,
    /// Windows that are bound to it. They keep it in force (RNIC-MR-14).
    windows: u32,
}

impl InForce {
    /// Whether key and right permit an access, wherever it is.
    fn permits(&self, access: &RegionAccess<'_>) -> bool {
        self.valid && self.key == access.key && access.right.is_given_by(&self.access)
    }
}

/// What the next registration puts in force.
struct Pending {
    /// Memory.
    map: MrMap,
    /// Whether it was mapped since the last registration.
    fresh: bool,
}

/// A memory region.
#[pin_data]
pub(crate) struct Region {
    domain: Arc<DomainTag>,
    /// The key that it was made with.
    key: u32,
    /// Whether it is made once: for all of the kernel's memory, or for that of user space.
    fixed: bool,
    #[pin]
    in_force: SpinLockBh<InForce>,
    /// Programs map with interrupts off.
    #[pin]
    pending: SpinLockIrq<Pending>,
}

impl Region {
    /// Makes a region of all of the kernel's memory. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn linear(domain: &Arc<DomainTag>, key: u32, access: MrAccess) -> Result<Arc<Self>> {
        let in_force = InForce {
            valid: true,
            key,
            access,
            map: MrMap::linear(),
            windows: 0,
        };
        Self::new(domain, key, true, in_force, MrMap::empty())
    }

    /// Makes a region of pinned memory of user space. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn pinned(
        domain: &Arc<DomainTag>,
        key: u32,
        access: MrAccess,
        map: MrMap,
    ) -> Result<Arc<Self>> {
        let in_force = InForce {
            valid: true,
            key,
            access,
            map,
            windows: 0,
        };
        Self::new(domain, key, true, in_force, MrMap::empty())
    }

    /// Makes a region for fast registrations, which is invalid. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn fast(
        domain: &Arc<DomainTag>,
        key: u32,
        kind: MrKind,
        entries: usize,
    ) -> Result<Arc<Self>> {
        let in_force = InForce {
            valid: false,
            key,
            access: MrAccess::default(),
            map: MrMap::with_capacity(kind, entries)?,
            windows: 0,
        };
        let pending = MrMap::with_capacity(kind, entries)?;
        Self::new(domain, key, false, in_force, pending)
    }

    fn new(
        domain: &Arc<DomainTag>,
        key: u32,
        fixed: bool,
        in_force: InForce,
        map: MrMap,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                domain: domain.clone(),
                key,
                fixed,
                in_force <- new_spinlock_bh!(in_force, "rdma_soft_region"),
                pending <- new_spinlock_irq!(
                    Pending { map, fresh: false },
                    "rdma_soft_region_pending"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Whether it is of that protection domain.
    pub(super) fn is_of(&self, domain: &Arc<DomainTag>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }

    /// Puts the mapped memory in force (RNIC-REQ-12).
    pub(super) fn register(
        &self,
        domain: &Arc<DomainTag>,
        key: u32,
        access: MrAccess,
        iova: u64,
    ) -> Result<(), AccessDenied> {
        let mut state = self.in_force.lock();
        if self.fixed || state.valid || !self.is_of(domain) || index_of(key) != index_of(self.key) {
            return Err(AccessDenied);
        }
        let mut pending = self.pending.lock();
        if pending.fresh {
            pending.fresh = false;
            swap(&mut state.map, &mut pending.map);
        }
        drop(pending);
        state.map.rename(iova);
        state.key = key;
        state.access = access;
        state.valid = true;
        Ok(())
    }

    /// Binds a window to a range (RNIC-MR-14).
    pub(super) fn bind(
        &self,
        domain: &Arc<DomainTag>,
        binding: &WindowBinding,
        rights: &MrAccess,
    ) -> Result<(), AccessDenied> {
        let mut state = self.in_force.lock();
        let writes = rights.remote_write || rights.remote_atomic;
        let permitted = state.valid
            && state.key == binding.lkey
            && self.is_of(domain)
            && state.access.window_bind
            && (state.access.local_write || !writes)
            && state.map.contains(binding.addr, binding.len);
        if !permitted {
            return Err(AccessDenied);
        }
        state.windows = state.windows.checked_add(1).ok_or(AccessDenied)?;
        Ok(())
    }

    /// A window that was bound is bound no longer.
    pub(super) fn unbind(&self) {
        let mut state = self.in_force.lock();
        state.windows = state.windows.saturating_sub(1);
    }

    /// Runs `f` with the memory for a window that is bound to it, and has checked the access.
    pub(super) fn with_window<R>(
        &self,
        addr: u64,
        len: u64,
        f: impl FnOnce(&MrMap) -> R,
    ) -> Result<R, AccessDenied> {
        let state = self.in_force.lock();
        if state.valid && state.map.contains(addr, len) {
            Ok(f(&state.map))
        } else {
            Err(AccessDenied)
        }
    }

    /// Ends all access for good, and drops the memory (RNIC-MR-07). Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` while windows are bound to it.
    pub(super) fn end(&self) -> Result {
        let mut state = self.in_force.lock();
        if state.windows > 0 {
            return Err(EINVAL);
        }
        state.valid = false;
        let map = replace(&mut state.map, MrMap::empty());
        drop(state);
        // Pages of user space are released without the lock.
        drop(map);
        Ok(())
    }

    /// Whether an access to all of the region is permitted, whatever range it names (RNIC-RDA-10).
    pub(super) fn check_whole(&self, access: &RegionAccess<'_>) -> Result<(), AccessDenied> {
        let state = self.in_force.lock();
        let permitted = state.permits(access) && self.is_of(access.domain);
        permitted.then_some(()).ok_or(AccessDenied)
    }

    /// Ends all access by the key (RNIC-MR-08); `remote` if the peer asks for it.
    pub(super) fn invalidate(
        &self,
        domain: &Arc<DomainTag>,
        key: u32,
        remote: bool,
    ) -> Result<(), AccessDenied> {
        let mut state = self.in_force.lock();
        let access = &state.access;
        let exposed = access.remote_read || access.remote_write || access.remote_atomic;
        if self.fixed
            || state.key != key
            || !self.is_of(domain)
            || state.windows > 0
            || remote && !(state.valid && exposed)
        {
            return Err(AccessDenied);
        }
        state.valid = false;
        Ok(())
    }
}

impl KeyedMemory for Region {
    fn with_access<R>(
        &self,
        access: &RegionAccess<'_>,
        len: u64,
        f: impl FnOnce(&MrMap, u64) -> R,
    ) -> Result<R, AccessDenied> {
        let state = self.in_force.lock();
        let permitted = state.permits(access)
            && self.is_of(access.domain)
            && state.map.contains(access.addr, len);
        if permitted {
            Ok(f(&state.map, access.addr))
        } else {
            Err(AccessDenied)
        }
    }
}

impl IbMrOps for Region {
    fn key(&self) -> u32 {
        self.key
    }

    fn update_map<R>(&self, f: impl FnOnce(&mut MrMap) -> R) -> R {
        let mut pending = self.pending.lock();
        pending.fresh = true;
        f(&mut pending.map)
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_region)]
mod tests {
    use super::*;
    use core::sync::atomic::{
        AtomicU64,
        Ordering, //
    };

    /// A key; the low bits are the variant.
    const KEY: u32 = 0x1234_5600;
    /// The first address of the regions.
    const IOVA: u64 = 0x7000;

    /// Rights of this side alone.
    const LOCAL: MrAccess = MrAccess {
        local_write: true,
        remote_write: false,
        remote_read: false,
        remote_atomic: false,
        window_bind: false,
        remote_flush: false,
    };
    /// All rights.
    const ALL: MrAccess = MrAccess {
        local_write: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        window_bind: true,
        remote_flush: true,
    };

    fn domain() -> Result<Arc<DomainTag>> {
        Ok(Arc::new(DomainTag, GFP_KERNEL)?)
    }

    /// A region of no octets that is not registered.
    fn empty(domain: &Arc<DomainTag>) -> Result<Arc<Region>> {
        Region::fast(domain, KEY, MrKind::Pages, 1)
    }

    /// Whether an access to no octets is permitted.
    fn permits(region: &Region, domain: &Arc<DomainTag>, key: u32, right: Right) -> bool {
        let access = RegionAccess {
            domain,
            pair: None,
            key,
            right,
            addr: IOVA,
        };
        region.check(&access, 0).is_ok()
    }

    /// RNIC-MR-05, RNIC-REQ-12.
    #[test]
    fn registration_needs_an_invalid_region_of_its_domain() -> Result {
        let (own, other) = (domain()?, domain()?);
        let region = empty(&own)?;
        assert!(!permits(&region, &own, KEY, Right::LocalRead));
        assert!(region.register(&other, KEY, ALL, IOVA).is_err());
        assert!(region.register(&own, KEY + 0x100, ALL, IOVA).is_err());
        assert!(region.register(&own, KEY + 1, ALL, IOVA).is_ok());
        assert!(permits(&region, &own, KEY + 1, Right::RemoteWrite));
        assert!(!permits(&region, &own, KEY, Right::RemoteWrite));
        assert!(!permits(&region, &other, KEY + 1, Right::RemoteWrite));
        // One that is valid.
        assert!(region.register(&own, KEY + 2, ALL, IOVA).is_err());
        assert!(region.invalidate(&own, KEY + 1, false).is_ok());
        assert!(!permits(&region, &own, KEY + 1, Right::LocalRead));
        assert!(region.register(&own, KEY + 2, LOCAL, IOVA).is_ok());
        assert!(permits(&region, &own, KEY + 2, Right::LocalWrite));
        for right in [Right::RemoteWrite, Right::RemoteRead, Right::RemoteAtomic] {
            assert!(!permits(&region, &own, KEY + 2, right));
        }
        region.end()?;
        assert!(!permits(&region, &own, KEY + 2, Right::LocalRead));
        Ok(())
    }

    /// RNIC-MR-06: what ends the access of others needs the lock, and finds it taken.
    #[test]
    fn invalidation_cannot_begin_during_an_access() -> Result {
        let own = domain()?;
        let region = empty(&own)?;
        assert!(region.register(&own, KEY, ALL, IOVA).is_ok());
        let access = RegionAccess {
            domain: &own,
            pair: None,
            key: KEY,
            right: Right::RemoteWrite,
            addr: IOVA,
        };
        let taken = region.with_access(&access, 0, |_, _| region.in_force.try_lock().is_none());
        assert_eq!(taken, Ok(true));
        assert!(region.in_force.try_lock().is_some());
        assert!(region.invalidate(&own, KEY, true).is_ok());
        assert!(region.with_access(&access, 0, |_, _| ()).is_err());
        Ok(())
    }

    /// RNIC-MR-08.
    #[test]
    fn invalidation_needs_key_domain_and_right() -> Result {
        let (own, other) = (domain()?, domain()?);
        let region = empty(&own)?;
        assert!(region.register(&own, KEY, LOCAL, IOVA).is_ok());
        assert!(region.invalidate(&other, KEY, false).is_err());
        assert!(region.invalidate(&own, KEY + 1, false).is_err());
        // The peer may not access it.
        assert!(region.invalidate(&own, KEY, true).is_err());
        assert!(permits(&region, &own, KEY, Right::LocalWrite));
        assert!(region.invalidate(&own, KEY, false).is_ok());
        assert!(region.register(&own, KEY, ALL, IOVA).is_ok());
        assert!(region.invalidate(&own, KEY, true).is_ok());
        assert!(region.invalidate(&own, KEY, true).is_err());
        let linear = Region::linear(&own, KEY, ALL)?;
        assert!(linear.invalidate(&own, KEY, true).is_err());
        assert!(linear.invalidate(&own, KEY, false).is_err());
        assert!(linear.register(&own, KEY, ALL, 0).is_err());
        Ok(())
    }

    /// RNIC-RDA-10.
    #[test]
    fn access_to_a_whole_region_needs_key_domain_and_right() -> Result {
        let (own, other) = (domain()?, domain()?);
        let region = empty(&own)?;
        let permitted = |domain, key, right| {
            let access = RegionAccess {
                domain,
                pair: None,
                key,
                right,
                // The range does not matter.
                addr: u64::MAX,
            };
            region.check_whole(&access).is_ok()
        };
        assert!(!permitted(&own, KEY, Right::RemoteFlush));
        assert!(region.register(&own, KEY, ALL, IOVA).is_ok());
        assert!(permitted(&own, KEY, Right::RemoteFlush));
        assert!(!permitted(&other, KEY, Right::RemoteFlush));
        assert!(!permitted(&own, KEY + 1, Right::RemoteFlush));
        assert!(region.invalidate(&own, KEY, false).is_ok());
        assert!(region.register(&own, KEY, LOCAL, IOVA).is_ok());
        assert!(!permitted(&own, KEY, Right::RemoteFlush));
        Ok(())
    }

    /// RNIC-MR-11.
    #[test]
    fn region_of_all_memory_has_no_other_addresses() -> Result {
        let own = domain()?;
        let region = Region::linear(&own, KEY, ALL)?;
        let word = KBox::new(AtomicU64::new(0), GFP_KERNEL)?;
        let addr = u64::try_from((&raw const *word).addr())?;
        let access = |addr| RegionAccess {
            domain: &own,
            pair: None,
            key: KEY,
            right: Right::RemoteWrite,
            addr,
        };
        assert!(region.write(&access(addr), &[1; 8]).is_ok());
        assert_eq!(word.load(Ordering::Relaxed), 0x0101_0101_0101_0101);
        for bad in [0, 8, 0x1000, u64::MAX, u64::MAX - 7, 1 << 62] {
            assert!(region.write(&access(bad), &[2; 8]).is_err());
            assert!(region.read(&access(bad), &mut [0; 8]).is_err());
        }
        // A range that is too long, or over the end.
        assert!(region.check(&access(addr), u64::MAX - addr + 2).is_err());
        assert!(region.check(&access(addr), 1 << 60).is_err());
        assert_eq!(word.load(Ordering::Relaxed), 0x0101_0101_0101_0101);
        Ok(())
    }
}
