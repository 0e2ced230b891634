// SPDX-License-Identifier: GPL-2.0

//! Memory windows: keys for the peer to a part of a memory region (RNIC-MR-14).
//!
//! The lock of a window is held while octets of one packet are copied, with that of its region inside.
//! So the end of a binding waits for copies under way, as that of a region does (RNIC-MR-07).

use super::region::{
    index_of,
    AccessDenied,
    DomainTag,
    KeyedMemory,
    PairTag,
    Region,
    RegionAccess,
    VARIANT, //
};
use crate::kapi::{
    base::sync::{
        new_spinlock_bh,
        SpinLockBh, //
    },
    ibdev::{
        IbMwOps,
        MrAccess,
        MrMap,
        MwKind,
        WindowAccess,
        WindowBinding, //
    },
};
use core::mem::replace;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What a window is bound to.
struct Bound {
    /// The region, which counts the window.
    region: Arc<Region>,
    /// Rights of the peer.
    rights: MrAccess,
    /// First octet, as the peer names it.
    first: u64,
    /// First octet, as the region names it.
    base: u64,
    /// Octets.
    len: u64,
    /// The queue pair of a window of type 2.
    pair: Option<Arc<PairTag>>,
}

impl Bound {
    /// The address of a range for the region, if the window permits the access.
    fn address(&self, access: &RegionAccess<'_>, len: u64) -> Option<u64> {
        let tied = self.pair.as_ref();
        let from_pair =
            tied.is_none_or(|own| access.pair.is_some_and(|pair| Arc::ptr_eq(own, pair)));
        let offset = access.addr.checked_sub(self.first)?;
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if !from_pair || !inside || !access.right.is_given_by(&self.rights) {
            return None;
        }
        self.base.checked_add(offset)
    }
}

/// The state of a window.
struct WindowState {
    /// Its key now.
    key: u32,
    /// What it is bound to.
    bound: Option<Bound>,
    /// Whether it is never bound again.
    ended: bool,
}

/// A memory window.
#[pin_data]
pub(crate) struct Window {
    domain: Arc<DomainTag>,
    /// The key that it was made with.
    key: u32,
    kind: MwKind,
    #[pin]
    state: SpinLockBh<WindowState>,
}

impl Window {
    /// Makes a window that is bound to nothing. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(domain: &Arc<DomainTag>, key: u32, kind: MwKind) -> Result<Arc<Self>> {
        let state = WindowState {
            key,
            bound: None,
            ended: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                domain: domain.clone(),
                key,
                kind,
                state <- new_spinlock_bh!(state, "rdma_soft_window"),
            }),
            GFP_KERNEL,
        )
    }

    /// Binds the window to a region, or ends what it is bound to if there is none. `pair` is the queue
    /// pair that executes the request.
    pub(super) fn bind(
        &self,
        domain: &Arc<DomainTag>,
        pair: &Arc<PairTag>,
        binding: &WindowBinding,
        region: Option<Arc<Region>>,
    ) -> Result<(), AccessDenied> {
        let access = WindowAccess::new(binding.access).map_err(|_| AccessDenied)?;
        let mut state = self.state.lock();
        let possible = match self.kind {
            MwKind::One => !access.zero_based,
            // It must be invalidated first.
            MwKind::Two => state.bound.is_none() && region.is_some(),
        };
        if !possible
            || state.ended
            || state.key != binding.window
            || !Arc::ptr_eq(&self.domain, domain)
        {
            return Err(AccessDenied);
        }
        let next = match region {
            Some(region) => {
                region.bind(domain, binding, &access.rights)?;
                Some(Bound {
                    region,
                    rights: access.rights,
                    first: if access.zero_based { 0 } else { binding.addr },
                    base: binding.addr,
                    len: binding.len,
                    pair: (self.kind == MwKind::Two).then(|| pair.clone()),
                })
            }
            None => None,
        };
        state.key = index_of(self.key) | (binding.key & VARIANT);
        let former = replace(&mut state.bound, next);
        drop(state);
        release(former);
        Ok(())
    }

    /// Ends all access by the key (RNIC-MR-08); `peer` is the queue pair whose peer asks for it.
    pub(super) fn invalidate(
        &self,
        domain: &Arc<DomainTag>,
        key: u32,
        peer: Option<&Arc<PairTag>>,
    ) -> Result<(), AccessDenied> {
        let mut state = self.state.lock();
        let tied = state.bound.as_ref().and_then(|bound| bound.pair.as_ref());
        let possible = self.kind == MwKind::Two
            && state.key == key
            && Arc::ptr_eq(&self.domain, domain)
            && tied.is_some_and(|own| peer.is_none_or(|peer| Arc::ptr_eq(own, peer)));
        if !possible {
            return Err(AccessDenied);
        }
        let former = state.bound.take();
        drop(state);
        release(former);
        Ok(())
    }

    /// Ends all access for good.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        let former = state.bound.take();
        drop(state);
        release(former);
    }
}

impl KeyedMemory for Window {
    fn with_access<R>(
        &self,
        access: &RegionAccess<'_>,
        len: u64,
        f: impl FnOnce(&MrMap, u64) -> R,
    ) -> Result<R, AccessDenied> {
        let state = self.state.lock();
        let known = state.key == access.key
            && access.right.is_remote()
            && Arc::ptr_eq(&self.domain, access.domain);
        let bound = state.bound.as_ref().filter(|_| known).ok_or(AccessDenied)?;
        let addr = bound.address(access, len).ok_or(AccessDenied)?;
        bound.region.with_window(addr, len, |map| f(map, addr))
    }
}

/// Gives a region back that a window was bound to.
fn release(bound: Option<Bound>) {
    if let Some(bound) = bound {
        bound.region.unbind();
    }
}

impl IbMwOps for Window {
    fn key(&self) -> u32 {
        self.key
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_window)]
mod tests {
    use super::*;
    use crate::rnic::region::Right;
    use core::sync::atomic::{
        AtomicU64,
        Ordering, //
    };

    /// Keys of the window and of its region.
    const KEY: u32 = 0x1100;
    const LKEY: u32 = 0x2200;

    /// Rights as programs code them.
    const WRITE: u32 = 2;
    const READ: u32 = 4;
    const ZERO_BASED: u32 = 32;

    /// Two words of memory, with a region of all memory and a window.
    struct Setup {
        words: KBox<[AtomicU64; 2]>,
        domain: Arc<DomainTag>,
        pair: Arc<PairTag>,
        region: Arc<Region>,
        window: Arc<Window>,
    }

    impl Setup {
        fn new(kind: MwKind) -> Result<Self> {
            let domain = Arc::new(DomainTag, GFP_KERNEL)?;
            let access = MrAccess {
                local_write: true,
                window_bind: true,
                remote_flush: true,
                ..MrAccess::default()
            };
            Ok(Self {
                words: KBox::new([AtomicU64::new(0), AtomicU64::new(0)], GFP_KERNEL)?,
                region: Region::linear(&domain, LKEY, access)?,
                window: Window::new(&domain, KEY, kind)?,
                pair: Arc::new(PairTag, GFP_KERNEL)?,
                domain,
            })
        }

        /// The address of the second word.
        fn word(&self) -> u64 {
            u64::try_from((&raw const *self.words).addr()).unwrap_or(0) + 8
        }

        /// A request for the second word.
        fn binding(&self, access: u32) -> WindowBinding {
            WindowBinding {
                window: KEY,
                key: KEY + 1,
                lkey: LKEY,
                addr: self.word(),
                len: 8,
                access,
            }
        }

        fn bind(&self, binding: &WindowBinding) -> Result<(), AccessDenied> {
            let region = (binding.len > 0).then(|| self.region.clone());
            self.window.bind(&self.domain, &self.pair, binding, region)
        }

        /// Whether the peer of a queue pair may write eight octets.
        fn writes(&self, key: u32, addr: u64, pair: &Arc<PairTag>) -> bool {
            self.permits(key, addr, pair, Right::RemoteWrite)
        }

        fn permits(&self, key: u32, addr: u64, pair: &Arc<PairTag>, right: Right) -> bool {
            let access = RegionAccess {
                domain: &self.domain,
                pair: Some(pair),
                key,
                right,
                addr,
            };
            self.window.check(&access, 8).is_ok()
        }
    }

    /// RNIC-MR-14.
    #[test]
    fn window_gives_its_range_by_its_next_key() -> Result {
        let setup = Setup::new(MwKind::One)?;
        let other = Arc::new(PairTag, GFP_KERNEL)?;
        assert!(!setup.writes(KEY, setup.word(), &setup.pair));
        assert!(setup.bind(&setup.binding(WRITE)).is_ok());
        assert!(setup.writes(KEY + 1, setup.word(), &setup.pair));
        // Type 1 is for all queue pairs of the domain.
        assert!(setup.writes(KEY + 1, setup.word(), &other));
        assert!(!setup.writes(KEY, setup.word(), &setup.pair));
        for addr in [0, setup.word() - 8, setup.word() + 1, u64::MAX] {
            assert!(!setup.writes(KEY + 1, addr, &setup.pair));
        }
        for right in [
            Right::RemoteRead,
            Right::RemoteAtomic,
            Right::LocalRead,
            Right::LocalWrite,
        ] {
            assert!(!setup.permits(KEY + 1, setup.word(), &setup.pair, right));
        }
        let access = RegionAccess {
            domain: &setup.domain,
            pair: Some(&setup.pair),
            key: KEY + 1,
            right: Right::RemoteWrite,
            addr: setup.word(),
        };
        assert!(setup.window.write(&access, &[1; 8]).is_ok());
        assert!(setup.window.write(&access, &[2; 9]).is_err());
        let [first, second] = &*setup.words;
        assert_eq!(first.load(Ordering::Relaxed), 0);
        assert_eq!(second.load(Ordering::Relaxed), 0x0101_0101_0101_0101);
        Ok(())
    }

    /// RNIC-MR-14, RNIC-MR-09.
    #[test]
    fn binding_needs_range_rights_and_domain() -> Result {
        let setup = Setup::new(MwKind::One)?;
        let good = setup.binding(WRITE);
        for bad in [
            WindowBinding {
                window: KEY + 1,
                ..good
            },
            WindowBinding {
                lkey: LKEY + 1,
                ..good
            },
            WindowBinding {
                addr: 0x1000,
                ..good
            },
            WindowBinding {
                len: u64::MAX,
                ..good
            },
            WindowBinding { access: 16, ..good },
            WindowBinding {
                access: 1 << 31,
                ..good
            },
            WindowBinding {
                access: WRITE | ZERO_BASED,
                ..good
            },
        ] {
            assert!(setup.bind(&bad).is_err());
        }
        let region = Some(setup.region.clone());
        let other = Arc::new(DomainTag, GFP_KERNEL)?;
        assert!(setup
            .window
            .bind(&other, &setup.pair, &good, region)
            .is_err());
        for access in [
            MrAccess {
                local_write: true,
                ..MrAccess::default()
            },
            MrAccess {
                window_bind: true,
                remote_flush: true,
                ..MrAccess::default()
            },
        ] {
            let region = Some(Region::linear(&setup.domain, LKEY, access)?);
            let result = setup.window.bind(&setup.domain, &setup.pair, &good, region);
            assert!(result.is_err());
        }
        // Nothing is counted that was refused.
        setup.region.end()
    }

    /// RNIC-MR-14.
    #[test]
    fn region_with_a_window_stays_until_the_window_ends() -> Result {
        let setup = Setup::new(MwKind::One)?;
        assert!(setup.bind(&setup.binding(READ)).is_ok());
        assert!(setup.region.end().is_err());
        // Bound again, with the key that is valid now.
        let again = WindowBinding {
            window: KEY + 1,
            key: 7,
            ..setup.binding(READ)
        };
        assert!(setup.bind(&again).is_ok());
        assert!(setup.region.end().is_err());
        assert!(setup
            .window
            .invalidate(&setup.domain, KEY + 7, None)
            .is_err());
        let nothing = WindowBinding {
            window: KEY + 7,
            len: 0,
            ..again
        };
        assert!(setup.bind(&nothing).is_ok());
        assert!(!setup.permits(KEY + 7, setup.word(), &setup.pair, Right::RemoteRead));
        assert!(setup
            .bind(&WindowBinding {
                window: KEY + 7,
                ..again
            })
            .is_ok());
        setup.window.end();
        assert!(setup
            .bind(&WindowBinding {
                window: KEY + 7,
                ..again
            })
            .is_err());
        setup.region.end()
    }

    /// RNIC-MR-14, RNIC-MR-08.
    #[test]
    fn window_of_type_2_is_for_one_queue_pair_and_one_binding() -> Result {
        let setup = Setup::new(MwKind::Two)?;
        let other = Arc::new(PairTag, GFP_KERNEL)?;
        let binding = setup.binding(WRITE | ZERO_BASED);
        assert!(setup.bind(&WindowBinding { len: 0, ..binding }).is_err());
        assert!(setup.bind(&binding).is_ok());
        assert!(setup.writes(KEY + 1, 0, &setup.pair));
        assert!(!setup.writes(KEY + 1, 1, &setup.pair));
        assert!(!setup.writes(KEY + 1, setup.word(), &setup.pair));
        assert!(!setup.writes(KEY + 1, 0, &other));
        let again = WindowBinding {
            window: KEY + 1,
            ..binding
        };
        assert!(setup.bind(&again).is_err());
        let invalidate = |key, peer| setup.window.invalidate(&setup.domain, key, peer);
        assert!(invalidate(KEY, None).is_err());
        assert!(invalidate(KEY + 1, Some(&other)).is_err());
        assert!(invalidate(KEY + 1, Some(&setup.pair)).is_ok());
        assert!(invalidate(KEY + 1, None).is_err());
        assert!(!setup.writes(KEY + 1, 0, &setup.pair));
        assert!(setup.bind(&again).is_ok());
        assert!(invalidate(KEY + 1, None).is_ok());
        setup.region.end()
    }
}
