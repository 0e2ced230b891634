// SPDX-License-Identifier: GPL-2.0

//! The peer's buffers: for each, where it lies on every link, RFC 7609, sections 2.1 and 3.5.5.2.
//!
//! Both sides keep such a table of the other's remote memory buffers (RMBs) and change it by
//! CONFIRM RKEY and DELETE RKEY (LLF-71). The storage is the caller's, because it is too large for
//! a stack.

use core::ops::DerefMut;

use super::link::{Slot, MAX_LINKS};
use crate::proto::wire::{RKey, RToken};

/// Most buffers a peer has in one link group (RMB-03).
const MAX_RMBS: usize = 255;

/// One of the peer's buffers: a number below 255 that no other one has at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerRmbId(u8);

/// The peer has more buffers than there is room for (RMB-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

/// A place for one buffer of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Where it starts, by link.
    vaddrs: [u64; MAX_LINKS],
    /// Its keys, by link; `None` where it is not known, everywhere in an unused place.
    keys: [Option<RKey>; MAX_LINKS],
}

impl Entry {
    /// A place that is not used.
    pub(crate) const EMPTY: Self = Self {
        vaddrs: [0; MAX_LINKS],
        keys: [None; MAX_LINKS],
    };

    /// The key on a link.
    fn key(&self, slot: Slot) -> Option<RKey> {
        self.keys.get(slot.index()).copied().flatten()
    }

    /// Whether the place is not used.
    fn is_empty(&self) -> bool {
        self.keys.iter().all(Option::is_none)
    }

    /// Where the buffer lies on a link.
    pub(super) fn token(&self, slot: Slot) -> Option<RToken> {
        Some(RToken {
            rkey: self.key(slot)?,
            vaddr: *self.vaddrs.get(slot.index())?,
        })
    }

    /// Enters where the buffer lies on a link.
    pub(super) fn set(&mut self, slot: Slot, token: RToken) {
        if let (Some(vaddr), Some(key)) = (
            self.vaddrs.get_mut(slot.index()),
            self.keys.get_mut(slot.index()),
        ) {
            *vaddr = token.vaddr;
            *key = Some(token.rkey);
        }
    }
}

/// All buffers of the peer in one link group.
pub(super) struct Table<S> {
    entries: S,
}

impl<S: DerefMut<Target = [Entry]>> Table<S> {
    /// Makes an empty table with a place for each element of `entries`, at most 255.
    pub(super) fn new(mut entries: S) -> Self {
        entries.fill(Entry::EMPTY);
        Self { entries }
    }

    /// The places in use with their names.
    fn used(&self) -> impl Iterator<Item = (PeerRmbId, &Entry)> {
        (0..=u8::MAX)
            .map(PeerRmbId)
            .zip(self.entries.iter())
            .filter(|(_, entry)| !entry.is_empty())
    }

    /// The buffer that has `rkey` on a link. Keys are unique on a link (AMB-49).
    pub(super) fn find(&self, slot: Slot, rkey: RKey) -> Option<PeerRmbId> {
        self.used()
            .find(|(_, entry)| entry.key(slot) == Some(rkey))
            .map(|(id, _)| id)
    }

    /// Where a buffer lies on a link.
    pub(super) fn get(&self, id: PeerRmbId, slot: Slot) -> Option<RToken> {
        self.entries.get(usize::from(id.0))?.token(slot)
    }

    /// Enters a buffer by its token on one link, or the new address of one that is known.
    ///
    /// # Errors
    ///
    /// `TableFull` if it is unknown and there is no room.
    pub(super) fn insert(&mut self, slot: Slot, token: RToken) -> Result<PeerRmbId, TableFull> {
        let known = self.find(slot, token.rkey);
        let free = || {
            (0..=u8::MAX)
                .map(PeerRmbId)
                .zip(self.entries.iter())
                .take(MAX_RMBS)
                .find(|(_, entry)| entry.is_empty())
                .map(|(id, _)| id)
        };
        let id = known.or_else(free).ok_or(TableFull)?;
        self.set(id, slot, token);
        Ok(id)
    }

    /// Enters where a buffer lies on a further link.
    pub(super) fn set(&mut self, id: PeerRmbId, slot: Slot, token: RToken) {
        if let Some(entry) = self.entries.get_mut(usize::from(id.0)) {
            entry.set(slot, token);
        }
    }

    /// Drops the buffer that has `rkey` on a link, on all links (LLF-69). Says whether there was
    /// one.
    pub(super) fn remove(&mut self, slot: Slot, rkey: RKey) -> bool {
        let Some(id) = self.find(slot, rkey) else {
            return false;
        };
        if let Some(entry) = self.entries.get_mut(usize::from(id.0)) {
            *entry = Entry::EMPTY;
        }
        true
    }

    /// Drops all that is known of a link that is gone.
    pub(super) fn forget_link(&mut self, slot: Slot) {
        for entry in self.entries.iter_mut() {
            if let Some(key) = entry.keys.get_mut(slot.index()) {
                *key = None;
            }
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
    const SECOND: Slot = match Slot::new(1) {
        Some(slot) => slot,
        None => Slot::FIRST,
    };

    /// LLF-71.
    #[test]
    fn known_buffer_keeps_its_name() {
        let mut places = [Entry::EMPTY; 3];
        let mut table = Table::new(&mut places[..]);
        let first = table.insert(Slot::FIRST, token(1, 0x1000));
        let second = table.insert(Slot::FIRST, token(2, 0x2000));
        assert!(first.is_ok() && second.is_ok() && first != second);
        assert_eq!(table.insert(Slot::FIRST, token(1, 0x1000)), first);
        assert_eq!(table.find(Slot::FIRST, RKey::new(2)), second.ok());
        assert_eq!(table.find(Slot::FIRST, RKey::new(3)), None);
    }

    /// RMB-20: a buffer lies elsewhere on each link.
    #[test]
    fn each_link_has_its_token() {
        let mut places = [Entry::EMPTY; 2];
        let mut table = Table::new(&mut places[..]);
        let id = table.insert(Slot::FIRST, token(1, 0x1000));
        assert!(id.is_ok());
        if let Ok(id) = id {
            assert_eq!(table.get(id, SECOND), None);
            table.set(id, SECOND, token(9, 0x9000));
            assert_eq!(table.get(id, SECOND), Some(token(9, 0x9000)));
            assert_eq!(table.get(id, Slot::FIRST), Some(token(1, 0x1000)));
            // The key of one link means nothing on the other.
            assert_eq!(table.find(SECOND, RKey::new(1)), None);
            table.forget_link(Slot::FIRST);
            assert_eq!(table.get(id, Slot::FIRST), None);
            assert_eq!(table.find(SECOND, RKey::new(9)), Some(id));
        }
    }

    /// RMB-03, LLF-69.
    #[test]
    fn full_table_takes_more_after_a_removal() {
        let mut places = [Entry::EMPTY; 2];
        let mut table = Table::new(&mut places[..]);
        assert!(table.insert(Slot::FIRST, token(1, 0)).is_ok());
        assert!(table.insert(Slot::FIRST, token(2, 0)).is_ok());
        assert_eq!(table.insert(Slot::FIRST, token(3, 0)), Err(TableFull));
        assert!(table.remove(Slot::FIRST, RKey::new(1)));
        assert!(!table.remove(Slot::FIRST, RKey::new(1)));
        assert!(table.insert(Slot::FIRST, token(3, 0)).is_ok());
        assert!(table.find(Slot::FIRST, RKey::new(1)).is_none());
    }
}

/// A table of full size does not fit on the stack of a kernel test.
#[cfg(test)]
mod host {
    use super::*;

    /// RMB-03: however many places there are.
    #[test]
    fn peer_has_at_most_255_buffers() {
        let mut table = Table::new(vec![Entry::EMPTY; 300]);
        for rkey in 0..255 {
            assert!(table.insert(Slot::FIRST, token(rkey)).is_ok());
        }
        assert_eq!(table.insert(Slot::FIRST, token(255)), Err(TableFull));
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
