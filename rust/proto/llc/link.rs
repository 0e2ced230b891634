// SPDX-License-Identifier: GPL-2.0

//! One link of a link group as LLC sees it, RFC 7609, sections 2.2 and A.3.8.

use super::{
    action::Cause,
    test_link::UserData, //
};
use crate::proto::{
    time::{earliest, Duration, Instant},
    wire::{Gid, LinkNum, Mac, Qpn},
};

/// Places for links in a link group. Linux has as many, and its CONFIRM RKEY cannot tell of more
/// (DEP-5, DEP-6).
pub(crate) const MAX_LINKS: usize = 3;

/// The same as a number of slots.
const SLOTS: u8 = 3;

/// A link of a link group, to this side alone: the number on the wire is chosen by the server and
/// not yet known to a client that sets up its first link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u8);

impl Slot {
    /// The link that first contact makes.
    pub(crate) const FIRST: Self = Self(0);

    /// The slot of an index below [`MAX_LINKS`].
    pub(crate) const fn new(index: u8) -> Option<Self> {
        if index < SLOTS {
            Some(Self(index))
        } else {
            None
        }
    }

    /// An index for arrays, below [`MAX_LINKS`].
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// All slots.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map_while(Self::new)
    }
}

/// This side's end of a link (LNK-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalLink {
    /// The port.
    pub(crate) mac: Mac,
    /// The port.
    pub(crate) gid: Gid,
    /// The queue pair.
    pub(crate) qpn: Qpn,
    /// Name of the link for people, unlike that of any other link of this side (LNK-03).
    pub(crate) uid: u32,
}

/// The peer's end of a link, as CLC told it (LNK-01, LLF-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerLink {
    /// The port.
    pub(crate) mac: Mac,
    /// The port.
    pub(crate) gid: Gid,
    /// The queue pair.
    pub(crate) qpn: Qpn,
}

/// How far a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not proven yet by CONFIRM LINK (LLF-01).
    Activating,
    /// In use.
    Active,
    /// DELETE LINK is under way: the server waits for the reply, the client for its delivery
    /// (LLF-43).
    Deleting {
        /// When waiting ends.
        deadline: Instant,
        /// Why the link is deleted.
        cause: Cause,
    },
}

/// A TEST LINK that waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// What the reply has to carry (ERR-39).
    pub(super) user_data: UserData,
    /// When the link counts as down (LLF-82).
    pub(super) deadline: Instant,
}

/// A link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// This side's end.
    pub(super) local: LocalLink,
    /// The peer's end.
    pub(super) peer: PeerLink,
    /// The number on the wire. A client learns it from CONFIRM LINK.
    pub(super) number: LinkNum,
    /// The peer's name of the link, once it is confirmed.
    pub(super) peer_uid: Option<u32>,
    /// How far it is.
    pub(super) state: State,
    /// When the link was last seen to work (KAL-01).
    pub(super) last_seen: Instant,
    /// The test that is running.
    pub(super) test: Option<Test>,
}

impl Link {
    /// Makes a link that is not proven yet.
    pub(super) const fn new(local: LocalLink, peer: PeerLink, number: LinkNum) -> Self {
        Self {
            local,
            peer,
            number,
            peer_uid: None,
            state: State::Activating,
            last_seen: Instant::from_nanos(0),
            test: None,
        }
    }

    /// Whether requests may be sent on it.
    pub(super) const fn is_active(&self) -> bool {
        matches!(self.state, State::Active)
    }

    /// Whether DELETE LINK is under way.
    pub(super) const fn is_deleting(&self) -> bool {
        matches!(self.state, State::Deleting { .. })
    }

    /// When an idle link is to be tested, unless `idle` is zero (KAL-02).
    pub(super) fn idle_deadline(&self, idle: Duration) -> Option<Instant> {
        let wanted = self.is_active() && self.test.is_none() && idle > Duration::ZERO;
        wanted.then(|| self.last_seen.saturating_add(idle))
    }

    /// When something has to happen on this link.
    pub(super) fn deadline(&self, idle: Duration) -> Option<Instant> {
        match self.state {
            State::Deleting { deadline, .. } => Some(deadline),
            State::Activating | State::Active => {
                let test = self.test.map(|test| test.deadline);
                earliest(test, self.idle_deadline(idle))
            }
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_link))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_the_indices_of_links() {
        assert!(Slot::all().map(Slot::index).eq(0..MAX_LINKS));
        assert_eq!(Slot::all().next(), Some(Slot::FIRST));
        assert_eq!(Slot::new(u8::MAX), None);
    }
}
