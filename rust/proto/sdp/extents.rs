// SPDX-License-Identifier: GPL-2.0

//! Memory of the application that the stream is sent from without a copy, and its keys.
//!
//! ```text
//!           advertised        no longer needed      LOCAL_INV posted      completed
//!   Ready --------------> Out ----------------> Revoked --------> Revoking --------> Spent
//!                          +--- invalidated by the peer --------------------------->
//! ```
//!
//! The engine gives an extent a fresh key when it is `Spent` and may be advertised again
//! (SDP-STAG-06). An extent without a key is sent as Data.

/// Extents at a time.
pub(crate) const MAX_EXTENTS: usize = 8;

/// The key by which the peer reads an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ExtentKey {
    /// Valid as soon as it is registered, and never told.
    Ready(u32),
    /// The peer may use it.
    Out(u32),
    /// The peer has no right to use it any longer, but could.
    Revoked,
    /// The device invalidates it.
    Revoking,
    /// There is none.
    Spent,
}

/// A part of the stream in memory of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Extent {
    /// Stream position of the first octet.
    pub(super) start: u64,
    /// Stream position behind the last octet.
    pub(super) end: u64,
    /// Tagged offset of the first octet.
    va: u64,
    key: ExtentKey,
}

/// The extents, each in its place; in no order, and they do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Extents {
    places: [Option<Extent>; MAX_EXTENTS],
}

impl Extents {
    pub(super) const fn new() -> Self {
        Self {
            places: [None; MAX_EXTENTS],
        }
    }

    /// Whether another one can be lent.
    pub(super) fn has_room(&self) -> bool {
        self.places.iter().any(Option::is_none)
    }

    /// Adds one; gives its place.
    pub(super) fn add(
        &mut self,
        start: u64,
        end: u64,
        va: u64,
        stag: Option<u32>,
    ) -> Option<usize> {
        let place = self.places.iter().position(Option::is_none)?;
        let key = stag.map_or(ExtentKey::Spent, ExtentKey::Ready);
        *self.places.get_mut(place)? = Some(Extent {
            start,
            end,
            va,
            key,
        });
        Some(place)
    }

    /// The extent in a place.
    pub(super) fn get(&self, place: usize) -> Option<&Extent> {
        self.places.get(place)?.as_ref()
    }

    fn get_mut(&mut self, place: usize) -> Option<&mut Extent> {
        self.places.get_mut(place)?.as_mut()
    }

    /// The extent that holds a position, and its place.
    pub(super) fn at(&self, position: u64) -> Option<(usize, &Extent)> {
        self.places.iter().enumerate().find_map(|(place, extent)| {
            let extent = extent.as_ref()?;
            let holds = extent.start <= position && position < extent.end;
            holds.then_some((place, extent))
        })
    }

    /// Where the memory that holds `position` ends, if an extent begins or ends behind it.
    pub(super) fn boundary(&self, position: u64) -> Option<u64> {
        let extents = self.places.iter().flatten();
        extents
            .flat_map(|extent| [extent.start, extent.end])
            .filter(|&at| at > position)
            .min()
    }

    /// The key of an extent that may be advertised, and the tagged offset of a position in it.
    pub(super) fn key_at(&self, place: usize, position: u64) -> Option<(u32, u64)> {
        let extent = self.get(place)?;
        let skip = position.checked_sub(extent.start)?;
        match extent.key {
            ExtentKey::Ready(stag) => Some((stag, extent.va.wrapping_add(skip))),
            _ => None,
        }
    }

    /// The extent is advertised.
    pub(super) fn on_advertised(&mut self, place: usize) {
        if let Some(extent) = self.get_mut(place) {
            if let ExtentKey::Ready(stag) = extent.key {
                extent.key = ExtentKey::Out(stag);
            }
        }
    }

    /// The peer has no right to the extent any longer (SDP-STAG-04).
    pub(super) fn revoke(&mut self, place: usize) {
        if let Some(extent) = self.get_mut(place) {
            if matches!(extent.key, ExtentKey::Out(_)) {
                extent.key = ExtentKey::Revoked;
            }
        }
    }

    /// Whether the peer may read the extent by this key.
    pub(super) fn is_out(&self, place: usize, stag: u32) -> bool {
        self.get(place)
            .is_some_and(|extent| extent.key == ExtentKey::Out(stag))
    }

    /// The peer has invalidated the key itself (SDP-STAG-01).
    pub(super) fn on_remote_invalidate(&mut self, place: usize) {
        if let Some(extent) = self.get_mut(place) {
            extent.key = ExtentKey::Spent;
        }
    }

    /// An extent whose key the engine is to invalidate now.
    pub(super) fn poll_invalidate(&mut self) -> Option<usize> {
        let place = self.places.iter().position(|extent| {
            extent
                .as_ref()
                .is_some_and(|extent| extent.key == ExtentKey::Revoked)
        })?;
        self.get_mut(place)?.key = ExtentKey::Revoking;
        Some(place)
    }

    /// The device has invalidated the key.
    pub(super) fn on_invalidated(&mut self, place: usize) {
        if let Some(extent) = self.get_mut(place) {
            if extent.key == ExtentKey::Revoking {
                extent.key = ExtentKey::Spent;
            }
        }
    }

    /// Gives a fresh key to an extent without one; `false` if it cannot have it.
    pub(super) fn rekey(&mut self, place: usize, stag: u32) -> bool {
        match self.get_mut(place) {
            Some(extent) if extent.key == ExtentKey::Spent => {
                extent.key = ExtentKey::Ready(stag);
                true
            }
            _ => false,
        }
    }

    /// An extent that neither the peer nor the device uses, as all up to `freed` is done with.
    pub(super) fn poll_release(&mut self, freed: u64) -> Option<usize> {
        let place = self.places.iter().position(|extent| {
            extent.as_ref().is_some_and(|extent| {
                let is_idle = matches!(extent.key, ExtentKey::Ready(_) | ExtentKey::Spent);
                is_idle && (extent.end <= freed || extent.end == extent.start)
            })
        })?;
        *self.places.get_mut(place)? = None;
        Some(place)
    }

    /// Cuts an extent off at `end`, which lies in it.
    pub(super) fn cut(&mut self, place: usize, end: u64) {
        if let Some(extent) = self.get_mut(place) {
            extent.end = end;
        }
    }

    /// The link is gone, and every key with it.
    pub(super) fn on_link_down(&mut self) {
        for extent in self.places.iter_mut().flatten() {
            extent.key = ExtentKey::Spent;
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.places.iter().all(Option::is_none)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_extents))]
mod tests {
    use super::*;

    // SDP-STAG-02, SDP-STAG-04, SDP-RZS-09.
    #[test]
    fn extent_is_released_only_without_a_key_in_use() {
        let mut extents = Extents::new();
        assert_eq!(extents.add(10, 20, 0x1000, Some(7)), Some(0));
        assert_eq!(extents.key_at(0, 12), Some((7, 0x1002)));
        extents.on_advertised(0);
        assert!(extents.is_out(0, 7) && !extents.is_out(0, 8));
        assert_eq!(extents.key_at(0, 12), None);
        assert_eq!(extents.poll_release(20), None);
        extents.revoke(0);
        assert_eq!(extents.poll_release(20), None);
        assert_eq!(extents.poll_invalidate(), Some(0));
        assert_eq!(extents.poll_invalidate(), None);
        assert_eq!(extents.poll_release(20), None);
        extents.on_invalidated(0);
        assert_eq!(extents.poll_release(19), None);
        assert_eq!(extents.poll_release(20), Some(0));
        assert!(extents.is_empty());
    }

    // SDP-STAG-06.
    #[test]
    fn extent_gets_a_fresh_key_only_when_it_has_none() {
        let mut extents = Extents::new();
        extents.add(0, 8, 0, Some(1));
        assert!(!extents.rekey(0, 2));
        extents.on_advertised(0);
        assert!(!extents.rekey(0, 2));
        extents.on_remote_invalidate(0);
        assert!(extents.rekey(0, 2));
        assert_eq!(extents.key_at(0, 0), Some((2, 0)));
        assert!(!extents.rekey(5, 2));
    }

    #[test]
    fn boundaries_are_those_of_the_nearest_extent() {
        let mut extents = Extents::new();
        extents.add(10, 20, 0, None);
        extents.add(20, 30, 0, None);
        for (at, boundary, place) in [
            (0, Some(10), None),
            (10, Some(20), Some(0)),
            (20, Some(30), Some(1)),
            (30, None, None),
        ] {
            assert_eq!(extents.boundary(at), boundary);
            assert_eq!(extents.at(at).map(|(place, _)| place), place);
        }
    }
}
