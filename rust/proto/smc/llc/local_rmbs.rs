// SPDX-License-Identifier: GPL-2.0

//! The buffers of this side: where each lies on every link, and what the peer knows of it,
//! RFC 7609, section 3.5.5.2.
//!
//! A buffer is announced on all links, and every later link gets the keys of all buffers
//! (RMB-20). Announcements and new links cross, so that the table notes for each buffer on which
//! links the peer knows it; whatever is missing is announced behind the exchange.

use core::ops::DerefMut;

use super::{
    action::RmbId,
    link::LinkSlot,
    rtoken::{
        Entry,
        MAX_RMBS, //
    },
};
use crate::proto::smc::wire::RToken;

/// There is no room for another buffer, or there is one of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// How far the peer knows a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RmbState {
    /// The place is not used.
    Unused,
    /// The announcement waits for its turn.
    New,
    /// The peer knows it.
    Confirmed,
    /// The peer is to forget it.
    Withdrawn,
}

/// What is known of a buffer of this side besides where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct RmbMark {
    /// The engine's name of it.
    id: RmbId,
    /// How far the peer knows it.
    state: RmbState,
    /// The links on which the peer has been told where it lies.
    told: u8,
    /// It is among those that the running ADD LINK announces.
    listed: bool,
    /// How often the peer has refused.
    tries: u8,
    /// Smaller for what was asked for earlier.
    order: u32,
}

impl RmbMark {
    /// Of a place that is not used.
    pub(super) const UNUSED: Self = Self {
        id: RmbId(0),
        state: RmbState::Unused,
        told: 0,
        listed: false,
        tries: 0,
        order: 0,
    };

    /// A number that changes whenever a place of the peer's table is taken.
    pub(super) const fn order(&self) -> u32 {
        self.order
    }

    /// The place is taken anew.
    pub(super) fn renew(&mut self) {
        self.order = self.order.wrapping_add(1);
    }
}

/// A place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RmbPlace(u8);

/// All buffers of this side in one link group.
pub(super) struct LocalRmbs<S> {
    entries: S,
    order: u32,
}

impl<S: DerefMut<Target = [Entry]>> LocalRmbs<S> {
    /// Makes an empty table with a place for each element of `entries`, at most 255.
    pub(super) fn new(mut entries: S) -> Self {
        entries.fill(Entry::EMPTY);
        Self { entries, order: 0 }
    }

    /// The places in use.
    fn used(&self) -> impl Iterator<Item = (RmbPlace, &Entry)> {
        (0..=u8::MAX)
            .map(RmbPlace)
            .zip(self.entries.iter())
            .filter(|(_, entry)| entry.mark.state != RmbState::Unused)
    }

    /// The buffer in a place.
    pub(super) fn get(&self, place: RmbPlace) -> Option<&Entry> {
        self.entries.get(usize::from(place.0))
    }

    /// The buffer in a place, to change it.
    fn get_mut(&mut self, place: RmbPlace) -> Option<&mut Entry> {
        self.entries.get_mut(usize::from(place.0))
    }

    /// The place of a buffer.
    fn find(&self, id: RmbId) -> Option<RmbPlace> {
        self.used()
            .find(|(_, entry)| entry.mark.id == id)
            .map(|(place, _)| place)
    }

    /// The engine's name of the buffer in a place.
    pub(super) fn id(&self, place: RmbPlace) -> Option<RmbId> {
        self.get(place).map(|entry| entry.mark.id)
    }

    /// How far the peer knows the buffer in a place.
    pub(super) fn state(&self, place: RmbPlace) -> RmbState {
        self.get(place)
            .map_or(RmbState::Unused, |entry| entry.mark.state)
    }

    /// The next number of the order in which things were asked for.
    fn next_order(&mut self) -> u32 {
        self.order = self.order.wrapping_add(1);
        self.order
    }

    /// Enters a buffer with where it lies; `known` are the links on which the peer knows it
    /// already.
    ///
    /// # Errors
    ///
    /// `Busy` when there is no room, or one of that name (RMB-03).
    pub(super) fn add(
        &mut self,
        id: RmbId,
        tokens: &[(LinkSlot, RToken)],
        known: Option<LinkSlot>,
    ) -> Result<(), Busy> {
        if self.find(id).is_some() {
            return Err(Busy);
        }
        let order = self.next_order();
        let unused = |entry: &&mut Entry| entry.mark.state == RmbState::Unused;
        let mut places = self.entries.iter_mut().take(MAX_RMBS);
        let entry = places.find(unused).ok_or(Busy)?;
        *entry = Entry::EMPTY;
        for (slot, token) in tokens {
            entry.set(*slot, *token);
        }
        entry.mark = RmbMark {
            id,
            state: match known {
                Some(_) => RmbState::Confirmed,
                None => RmbState::New,
            },
            told: known.map_or(0, LinkSlot::bit),
            order,
            ..RmbMark::UNUSED
        };
        Ok(())
    }

    /// Enters where a buffer lies on a further link.
    pub(super) fn set(&mut self, id: RmbId, slot: LinkSlot, token: RToken) {
        let place = self.find(id);
        if let Some(entry) = place.and_then(|place| self.get_mut(place)) {
            entry.set(slot, token);
            entry.mark.told &= !slot.bit();
        }
    }

    /// Notes that the peer is to forget a buffer. Says whether there is one of that name.
    pub(super) fn withdraw(&mut self, id: RmbId) -> bool {
        let order = self.next_order();
        let Some(entry) = self.find(id).and_then(|place| self.get_mut(place)) else {
            return false;
        };
        if entry.mark.state != RmbState::Withdrawn {
            entry.mark.state = RmbState::Withdrawn;
            entry.mark.tries = 0;
            entry.mark.order = order;
        }
        true
    }

    /// Drops a buffer.
    pub(super) fn remove(&mut self, place: RmbPlace) {
        if let Some(entry) = self.get_mut(place) {
            *entry = Entry::EMPTY;
        }
    }

    /// The earliest buffer with a pending announcement: it is new, or withdrawn, or not known on
    /// all of the links `active` on which it lies.
    pub(super) fn next_work(&self, active: u8) -> Option<RmbPlace> {
        self.used()
            .filter(|(_, entry)| match entry.mark.state {
                RmbState::New | RmbState::Withdrawn => true,
                RmbState::Confirmed => entry.known() & active & !entry.mark.told != 0,
                RmbState::Unused => false,
            })
            .min_by_key(|(_, entry)| entry.mark.order)
            .map(|(place, _)| place)
    }

    /// Whether the peer knows the buffer on a link.
    pub(super) fn is_told(&self, place: RmbPlace, slot: LinkSlot) -> bool {
        self.get(place)
            .is_some_and(|entry| entry.mark.told & slot.bit() != 0)
    }

    /// The peer has learnt where a buffer lies on these links. Says whether it is the first time
    /// it hears of it.
    pub(super) fn set_told(&mut self, place: RmbPlace, links: u8) -> bool {
        let Some(entry) = self.get_mut(place) else {
            return false;
        };
        // Not on one that has gone meanwhile.
        entry.mark.told |= links & entry.known();
        entry.mark.tries = 0;
        let first = entry.mark.state == RmbState::New;
        if first {
            entry.mark.state = RmbState::Confirmed;
        }
        first
    }

    /// The peer has refused again. Returns the number of refusals.
    pub(super) fn count_refusal(&mut self, place: RmbPlace) -> u8 {
        self.get_mut(place).map_or(0, |entry| {
            entry.mark.tries = entry.mark.tries.saturating_add(1);
            entry.mark.tries
        })
    }

    /// Whether all buffers lie on a link, so that it can be offered (LLF-11, LLF-15).
    pub(super) fn all_on(&self, slot: LinkSlot) -> bool {
        self.used().all(|(_, entry)| {
            entry.mark.state == RmbState::Withdrawn || entry.known() & slot.bit() != 0
        })
    }

    /// Chooses the buffers for ADD LINK: those that the peer knows on the link `carrier`.
    /// Gives their number.
    pub(super) fn list(&mut self, carrier: LinkSlot, slot: LinkSlot) -> u8 {
        let mut count = 0_u8;
        for entry in self.entries.iter_mut() {
            let on_both = carrier.bit() | slot.bit();
            entry.mark.listed = entry.mark.state == RmbState::Confirmed
                && entry.mark.told & carrier.bit() != 0
                && entry.known() & on_both == on_both;
            if entry.mark.listed {
                count = count.saturating_add(1);
            }
        }
        count
    }

    /// What was chosen, from a place on.
    pub(super) fn listed(&self) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(|entry| entry.mark.state != RmbState::Unused && entry.mark.listed)
    }

    /// The new link is up, and the peer knows what was chosen on it.
    pub(super) fn listed_told(&mut self, slot: LinkSlot) {
        for entry in self.entries.iter_mut() {
            if core::mem::take(&mut entry.mark.listed) {
                entry.mark.told |= slot.bit();
            }
        }
    }

    /// Drops all that is known of a link that is gone.
    pub(super) fn forget_link(&mut self, slot: LinkSlot) {
        for entry in self.entries.iter_mut() {
            entry.forget(slot);
            entry.mark.told &= !slot.bit();
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_own))]
mod tests {
    use super::*;
    use crate::proto::base::verbs::RKey;

    const A: LinkSlot = LinkSlot::FIRST;

    /// The link that is not the first.
    const B: LinkSlot = match LinkSlot::new(1, 1) {
        Some(slot) => slot,
        None => LinkSlot::FIRST,
    };

    /// A token.
    const fn token(rkey: u32) -> RToken {
        RToken {
            rkey: RKey::new(rkey),
            vaddr: 0,
        }
    }

    /// RMB-20, LLF-71: what the peer misses on some link is work.
    #[test]
    fn later_links_make_work() {
        let mut places = [Entry::EMPTY; 3];
        let mut own = LocalRmbs::new(&mut places[..]);
        assert_eq!(own.add(RmbId(1), &[(A, token(1))], Some(A)), Ok(()));
        assert_eq!(own.add(RmbId(1), &[], None), Err(Busy));
        assert_eq!(own.next_work(A.bit()), None);
        assert!(!own.all_on(B));
        own.set(RmbId(1), B, token(2));
        assert!(own.all_on(B));
        assert_eq!(own.next_work(A.bit()), None);
        let work = own.next_work(A.bit() | B.bit());
        assert!(work.is_some());
        if let Some(place) = work {
            assert!(!own.set_told(place, B.bit()));
            assert_eq!(own.next_work(A.bit() | B.bit()), None);
            own.forget_link(B);
            assert!(own.is_told(place, A) && !own.is_told(place, B));
            assert_eq!(own.next_work(A.bit() | B.bit()), None);
        }
    }

    /// Work is done in the order it was asked for.
    #[test]
    fn work_has_an_order() {
        let mut places = [Entry::EMPTY; 2];
        let mut own = LocalRmbs::new(&mut places[..]);
        assert_eq!(own.add(RmbId(8), &[(A, token(1))], Some(A)), Ok(()));
        assert_eq!(own.add(RmbId(7), &[(A, token(2))], None), Ok(()));
        assert_eq!(own.add(RmbId(6), &[], None), Err(Busy));
        assert!(own.withdraw(RmbId(8)));
        assert!(!own.withdraw(RmbId(9)));
        let first = own.next_work(A.bit());
        assert_eq!(first.and_then(|place| own.id(place)), Some(RmbId(7)));
        if let Some(place) = first {
            assert_eq!(own.state(place), RmbState::New);
            assert!(own.set_told(place, A.bit()));
        }
        let second = own.next_work(A.bit());
        assert_eq!(second.and_then(|place| own.id(place)), Some(RmbId(8)));
        if let Some(place) = second {
            own.remove(place);
        }
        assert_eq!(own.next_work(A.bit()), None);
    }

    /// LLF-31, LLF-32: a new link gets the keys that can be named on the old one.
    #[test]
    fn list_holds_what_the_peer_knows() {
        let mut places = [Entry::EMPTY; 3];
        let mut own = LocalRmbs::new(&mut places[..]);
        let both = [(A, token(1)), (B, token(2))];
        assert_eq!(own.add(RmbId(1), &both, Some(A)), Ok(()));
        assert_eq!(own.add(RmbId(2), &both, None), Ok(()));
        assert_eq!(own.add(RmbId(3), &both, Some(A)), Ok(()));
        assert!(own.withdraw(RmbId(3)));
        assert_eq!(own.list(A, B), 1);
        assert_eq!(own.listed().count(), 1);
        own.listed_told(B);
        assert_eq!(own.listed().count(), 0);
        assert_eq!(own.list(B, A), 1);
        assert_eq!(own.list(B, B), 1);
    }
}
