// SPDX-License-Identifier: GPL-2.0

//! The peer's buffers: for each, where it lies on every link, RFC 7609, sections 2.1 and 3.5.5.2.
//!
//! Both sides keep such a table of the other's remote memory buffers (RMBs) and change it by
//! CONFIRM RKEY and DELETE RKEY (LLF-71). The storage is the caller's, because it is too large for
//! a stack.

use core::ops::DerefMut;

use super::{
    link::{
        LinkSlot,
        MAX_LINKS, //
    },
    local_rmbs::RmbMark, //
};
use crate::proto::{
    base::verbs::RKey,
    smc::wire::RToken, //
};

/// Most buffers a peer has in one link group (RMB-03).
pub(crate) const MAX_RMBS: usize = 255;

/// One of the peer's buffers. It means nothing once the buffer is gone, even if another
/// one has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerRmbId {
    place: u8,
    generation: u32,
}

/// The peer has more buffers than there is room for (RMB-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

/// A place for one buffer, of the peer or of this side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Where it starts, by link.
    vaddrs: [u64; MAX_LINKS],
    /// Its keys, by link.
    keys: [RKey; MAX_LINKS],
    /// The links for which these are known; none in an unused place of the peer's table.
    known: u8,
    /// What else is known of a buffer of this side.
    pub(super) mark: RmbMark,
}

impl Entry {
    /// A place that is not used.
    pub(crate) const EMPTY: Self = Self {
        vaddrs: [0; MAX_LINKS],
        keys: [RKey::new(0); MAX_LINKS],
        known: 0,
        mark: RmbMark::UNUSED,
    };

    /// The key on a link.
    fn key(&self, slot: LinkSlot) -> Option<RKey> {
        let known = self.known & slot.bit() != 0;
        self.keys.get(slot.index()).copied().filter(|_| known)
    }

    /// The name of the peer's buffer in this place.
    const fn peer_id(&self, place: u8) -> PeerRmbId {
        PeerRmbId {
            place,
            generation: self.mark.order(),
        }
    }

    /// Whether it is known on no link.
    fn is_empty(&self) -> bool {
        self.known == 0
    }

    /// Where the buffer lies on a link.
    pub(super) fn token(&self, slot: LinkSlot) -> Option<RToken> {
        Some(RToken {
            rkey: self.key(slot)?,
            vaddr: *self.vaddrs.get(slot.index())?,
        })
    }

    /// Enters where the buffer lies on a link.
    pub(super) fn set(&mut self, slot: LinkSlot, token: RToken) {
        if let (Some(vaddr), Some(key)) = (
            self.vaddrs.get_mut(slot.index()),
            self.keys.get_mut(slot.index()),
        ) {
            *vaddr = token.vaddr;
            *key = token.rkey;
            self.known |= slot.bit();
        }
    }

    /// The links on which it is known where it lies.
    pub(super) const fn known(&self) -> u8 {
        self.known
    }

    /// Drops where the buffer lies on a link.
    pub(super) fn forget(&mut self, slot: LinkSlot) {
        self.known &= !slot.bit();
    }
}

/// All buffers of the peer in one link group.
pub(super) struct RTokenTable<S> {
    entries: S,
}

impl<S: DerefMut<Target = [Entry]>> RTokenTable<S> {
    /// Makes an empty table with a place for each element of `entries`, at most 255.
    pub(super) fn new(mut entries: S) -> Self {
        entries.fill(Entry::EMPTY);
        Self { entries }
    }

    /// The places in use with their names.
    fn used(&self) -> impl Iterator<Item = (PeerRmbId, &Entry)> {
        (0..=u8::MAX)
            .zip(self.entries.iter())
            .filter(|(_, entry)| !entry.is_empty())
            .map(|(place, entry)| (entry.peer_id(place), entry))
    }

    /// A buffer that is still there.
    fn entry_mut(&mut self, id: PeerRmbId) -> Option<&mut Entry> {
        self.entries
            .get_mut(usize::from(id.place))
            .filter(|entry| entry.peer_id(id.place) == id)
    }

    /// The buffer that has `rkey` on a link. Keys are unique on a link (AMB-49).
    pub(super) fn find(&self, slot: LinkSlot, rkey: RKey) -> Option<PeerRmbId> {
        self.used()
            .find(|(_, entry)| entry.key(slot) == Some(rkey))
            .map(|(id, _)| id)
    }

    /// Where a buffer lies on a link.
    pub(super) fn get(&self, id: PeerRmbId, slot: LinkSlot) -> Option<RToken> {
        let entry = self.entries.get(usize::from(id.place))?;
        entry.token(slot).filter(|_| entry.peer_id(id.place) == id)
    }

    /// Enters a buffer by its token on one link, or the new address of one that is known.
    ///
    /// # Errors
    ///
    /// `TableFull` if it is unknown and there is no room.
    pub(super) fn insert(&mut self, slot: LinkSlot, token: RToken) -> Result<PeerRmbId, TableFull> {
        if let Some(id) = self.find(slot, token.rkey) {
            self.set(id, slot, token);
            return Ok(id);
        }
        let places = (0..=u8::MAX).zip(self.entries.iter_mut()).take(MAX_RMBS);
        for (place, entry) in places {
            if entry.is_empty() {
                entry.mark.renew();
                entry.set(slot, token);
                return Ok(entry.peer_id(place));
            }
        }
        Err(TableFull)
    }

    /// Enters where a buffer lies on a further link.
    pub(super) fn set(&mut self, id: PeerRmbId, slot: LinkSlot, token: RToken) {
        if let Some(entry) = self.entry_mut(id) {
            entry.set(slot, token);
        }
    }

    /// Drops the buffer that has `rkey` on a link, on all links (LLF-69). Says whether there was
    /// one.
    pub(super) fn remove(&mut self, slot: LinkSlot, rkey: RKey) -> bool {
        let id = self.find(slot, rkey);
        match id.and_then(|id| self.entry_mut(id)) {
            Some(entry) => {
                entry.known = 0;
                true
            }
            None => false,
        }
    }

    /// Drops all that is known of a link that is gone.
    pub(super) fn forget_link(&mut self, slot: LinkSlot) {
        for entry in self.entries.iter_mut() {
            entry.forget(slot);
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_rtoken))]
mod tests {
    use super::*;

    /// A token.
    const fn token(rkey: u32, vaddr: u64) -> RToken {
        RToken {
            rkey: RKey::new(rkey),
            vaddr,
        }
    }

    /// The link that is not the first.
    const SECOND: LinkSlot = match LinkSlot::new(1, 1) {
        Some(slot) => slot,
        None => LinkSlot::FIRST,
    };

    /// LLF-71.
    #[test]
    fn known_buffer_keeps_its_name() {
        let mut places = [Entry::EMPTY; 3];
        let mut table = RTokenTable::new(&mut places[..]);
        let first = table.insert(LinkSlot::FIRST, token(1, 0x1000));
        let second = table.insert(LinkSlot::FIRST, token(2, 0x2000));
        assert!(first.is_ok() && second.is_ok() && first != second);
        assert_eq!(table.insert(LinkSlot::FIRST, token(1, 0x1000)), first);
        assert_eq!(table.find(LinkSlot::FIRST, RKey::new(2)), second.ok());
        assert_eq!(table.find(LinkSlot::FIRST, RKey::new(3)), None);
    }

    /// RMB-20: a buffer lies elsewhere on each link.
    #[test]
    fn each_link_has_its_token() {
        let mut places = [Entry::EMPTY; 2];
        let mut table = RTokenTable::new(&mut places[..]);
        let id = table.insert(LinkSlot::FIRST, token(1, 0x1000));
        assert!(id.is_ok());
        if let Ok(id) = id {
            assert_eq!(table.get(id, SECOND), None);
            table.set(id, SECOND, token(9, 0x9000));
            assert_eq!(table.get(id, SECOND), Some(token(9, 0x9000)));
            assert_eq!(table.get(id, LinkSlot::FIRST), Some(token(1, 0x1000)));
            // The key of one link means nothing on the other.
            assert_eq!(table.find(SECOND, RKey::new(1)), None);
            table.forget_link(LinkSlot::FIRST);
            assert_eq!(table.get(id, LinkSlot::FIRST), None);
            assert_eq!(table.find(SECOND, RKey::new(9)), Some(id));
        }
    }

    /// What was said of a buffer that is gone is not taken for the next one in its place.
    #[test]
    fn names_are_not_used_again() {
        let mut places = [Entry::EMPTY; 1];
        let mut table = RTokenTable::new(&mut places[..]);
        let first = table.insert(LinkSlot::FIRST, token(1, 0x1000));
        assert!(table.remove(LinkSlot::FIRST, RKey::new(1)));
        let second = table.insert(LinkSlot::FIRST, token(1, 0x1000));
        assert!(first.is_ok() && second.is_ok() && first != second);
        if let (Ok(first), Ok(second)) = (first, second) {
            table.set(first, SECOND, token(2, 0));
            assert_eq!(table.get(second, SECOND), None);
            assert_eq!(table.get(first, LinkSlot::FIRST), None);
            assert_eq!(table.get(second, LinkSlot::FIRST), Some(token(1, 0x1000)));
        }
    }

    /// RMB-03, LLF-69.
    #[test]
    fn full_table_takes_more_after_a_removal() {
        let mut places = [Entry::EMPTY; 2];
        let mut table = RTokenTable::new(&mut places[..]);
        assert!(table.insert(LinkSlot::FIRST, token(1, 0)).is_ok());
        assert!(table.insert(LinkSlot::FIRST, token(2, 0)).is_ok());
        assert_eq!(table.insert(LinkSlot::FIRST, token(3, 0)), Err(TableFull));
        assert!(table.remove(LinkSlot::FIRST, RKey::new(1)));
        assert!(!table.remove(LinkSlot::FIRST, RKey::new(1)));
        assert!(table.insert(LinkSlot::FIRST, token(3, 0)).is_ok());
        assert!(table.find(LinkSlot::FIRST, RKey::new(1)).is_none());
    }
}

/// A table of full size does not fit on the stack of a kernel test.
#[cfg(test)]
mod host {
    use super::*;

    /// RMB-03: however many places there are.
    #[test]
    fn peer_has_at_most_255_buffers() {
        let mut table = RTokenTable::new(vec![Entry::EMPTY; 300]);
        for rkey in 0..255 {
            assert!(table.insert(LinkSlot::FIRST, token(rkey)).is_ok());
        }
        assert_eq!(table.insert(LinkSlot::FIRST, token(255)), Err(TableFull));
        assert_eq!(table.used().count(), 255);
    }

    /// A token.
    const fn token(rkey: u32) -> RToken {
        RToken {
            rkey: RKey::new(rkey),
            vaddr: 0,
        }
    }
}
