// SPDX-License-Identifier: GPL-2.0

//! One link of a link group as LLC sees it, RFC 7609, sections 2.2 and A.3.8.

use super::{
    action::Cause,
    delete_link::DeleteReason,
    test_link::UserData, //
};
use crate::proto::{
    base::{
        time::{
            earliest,
            Duration,
            Instant, //
        },
        verbs::{
            Gid,
            Mac,
            Qpn, //
        },
    },
    smc::wire::LinkNum, //
};

/// Places for links in a link group: the most symmetric links there may be (LGR-09). An asymmetric
/// one exists only beside few of them.
pub(crate) const MAX_LINKS: usize = 8;

/// The same as a number of slots.
const SLOTS: u8 = 8;

/// A link of a link group, to this side alone: the number on the wire is chosen by the server and
/// not yet known to a client that sets up its first link.
///
/// It is a place in the group and tells apart the links that have it one after the other, so that
/// what was said of an earlier one is not taken for the later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkSlot {
    index: u8,
    serial: u16,
}

impl LinkSlot {
    /// The link that first contact makes.
    pub(crate) const FIRST: Self = Self {
        index: 0,
        serial: 0,
    };

    /// The link with this serial number in a place below [`MAX_LINKS`].
    pub(super) const fn new(index: u8, serial: u16) -> Option<Self> {
        if index < SLOTS {
            Some(Self { index, serial })
        } else {
            None
        }
    }

    /// An index for arrays, below [`MAX_LINKS`].
    pub(crate) fn index(self) -> usize {
        usize::from(self.index)
    }

    /// Tells it from others in the same place; later links have a larger one, until it wraps.
    pub(super) const fn serial(self) -> u16 {
        self.serial
    }

    /// The bit of its place in a set of places.
    pub(super) fn bit(self) -> u8 {
        1_u8.checked_shl(u32::from(self.index)).unwrap_or(0)
    }
}

/// A port of an RDMA device (LNK-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    /// Its address.
    pub(crate) mac: Mac,
    /// Its address.
    pub(crate) gid: Gid,
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

impl LocalLink {
    /// The port.
    pub(super) const fn port(&self) -> Port {
        Port {
            mac: self.mac,
            gid: self.gid,
        }
    }
}

/// The peer's end of a link, as CLC or ADD LINK told it (LNK-01, LLF-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerLink {
    /// The port.
    pub(crate) mac: Mac,
    /// The port.
    pub(crate) gid: Gid,
    /// The queue pair.
    pub(crate) qpn: Qpn,
}

impl PeerLink {
    /// Fills the place of an end that is not known yet.
    pub(super) const UNKNOWN: Self = Self {
        mac: Mac::new([0; 6]),
        gid: Gid::new([0; 16]),
        qpn: Qpn::new(0),
    };

    /// The port.
    pub(super) const fn port(&self) -> Port {
        Port {
            mac: self.mac,
            gid: self.gid,
        }
    }
}

/// How far the end of a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// It is the turn of another exchange, or there is no link to speak of it.
    Queued,
    /// A server has sent DELETE LINK and waits for the reply, a client has sent its notice and
    /// waits for the server's DELETE LINK.
    Asked {
        /// The link that carries the message.
        carrier: LinkSlot,
        /// TMR-22, TMR-25.
        deadline: Instant,
    },
    /// Client: the reply to DELETE LINK was sent (LLF-43).
    Replied {
        /// The link that carries the message.
        carrier: LinkSlot,
        /// When it counts as delivered.
        deadline: Instant,
    },
    /// It is gone, but its connections have nowhere to go yet.
    Gone,
}

/// How far a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordState {
    /// Not proven yet by CONFIRM LINK (LLF-01).
    Pending,
    /// In use.
    Active,
    /// On its way out: nothing new is sent on it.
    Leaving {
        /// How far that is.
        stage: Leave,
        /// Why it goes.
        cause: Cause,
        /// The reason in DELETE LINK.
        reason: DeleteReason,
        /// Whether it still works.
        orderly: bool,
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
pub(super) struct LinkRecord {
    /// Tells it from others in the same place.
    pub(super) slot: LinkSlot,
    /// This side's end.
    pub(super) local: LocalLink,
    /// The peer's end.
    pub(super) peer: PeerLink,
    /// The number on the wire. A client learns it from CONFIRM LINK or ADD LINK.
    pub(super) number: LinkNum,
    /// The peer's name of the link, once it is confirmed.
    pub(super) peer_uid: Option<u32>,
    /// How far it is.
    pub(super) state: RecordState,
    /// When it was proven.
    pub(super) since: Instant,
    /// When the link was last seen to work (KAL-01).
    pub(super) last_seen: Instant,
    /// The test that is running.
    pub(super) test: Option<Test>,
    /// Since when a reply has been late on it.
    pub(super) late: Option<Instant>,
    /// Its connections were told to leave it.
    pub(super) moved: bool,
    /// How often a client has asked for its end.
    pub(super) notices: u8,
}

impl LinkRecord {
    /// Makes a link that is not proven yet.
    pub(super) const fn new(
        slot: LinkSlot,
        local: LocalLink,
        peer: PeerLink,
        number: LinkNum,
    ) -> Self {
        Self {
            slot,
            local,
            peer,
            number,
            peer_uid: None,
            state: RecordState::Pending,
            since: Instant::from_nanos(0),
            last_seen: Instant::from_nanos(0),
            test: None,
            late: None,
            moved: false,
            notices: 0,
        }
    }

    /// Whether requests may be sent on it.
    pub(super) const fn is_active(&self) -> bool {
        matches!(self.state, RecordState::Active)
    }

    /// Whether it is not proven yet.
    pub(super) const fn is_pending(&self) -> bool {
        matches!(self.state, RecordState::Pending)
    }

    /// Whether the group is ending the link.
    pub(super) const fn is_leaving(&self) -> bool {
        matches!(self.state, RecordState::Leaving { .. })
    }

    /// Whether its end was asked for, and not by the peer.
    pub(super) const fn is_given_up(&self) -> bool {
        matches!(
            self.state,
            RecordState::Leaving {
                stage: Leave::Asked { .. },
                ..
            }
        )
    }

    /// Whether messages still get through.
    pub(super) const fn works(&self) -> bool {
        match self.state {
            RecordState::Active => true,
            RecordState::Leaving { stage, orderly, .. } => orderly && !matches!(stage, Leave::Gone),
            RecordState::Pending => false,
        }
    }

    /// When to test an idle link, unless `idle` is zero (KAL-02).
    pub(super) fn idle_deadline(&self, idle: Duration) -> Option<Instant> {
        let wanted = self.is_active() && self.test.is_none() && idle > Duration::ZERO;
        wanted.then(|| self.last_seen.saturating_add(idle))
    }

    /// When something has to happen on this link.
    pub(super) fn deadline(&self, idle: Duration) -> Option<Instant> {
        match self.state {
            RecordState::Leaving {
                stage: Leave::Asked { deadline, .. } | Leave::Replied { deadline, .. },
                ..
            } => Some(deadline),
            RecordState::Leaving { .. } => None,
            RecordState::Pending | RecordState::Active => {
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
        for index in 0..=u8::MAX {
            let slot = LinkSlot::new(index, 0);
            assert_eq!(slot.is_some(), usize::from(index) < MAX_LINKS);
            if let Some(slot) = slot {
                assert_eq!(slot.index(), usize::from(index));
                assert_eq!(slot.bit().count_ones(), 1);
            }
        }
        assert_eq!(LinkSlot::new(0, 0), Some(LinkSlot::FIRST));
        assert!(LinkSlot::new(0, 1) != Some(LinkSlot::FIRST));
    }
}
