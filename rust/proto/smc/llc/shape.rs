// SPDX-License-Identifier: GPL-2.0

//! Which ports the links of a group connect, and which links may be beside each other, RFC 7609,
//! section 2.2.1.
//!
//! ```text
//!  single      symmetric     asymmetric: local    peer        parallel
//!  a ──── x    a ──── x           a ─┬─ x      a ─┬─ x       a ════ x
//!              b ──── y              └─ y      b ─┘        (never, LGR-05)
//! ```

use super::link::{
    LinkSlot,
    Port,
    MAX_LINKS, //
};

/// The links of a group seen together (LGR-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// No link is up.
    None,
    /// One link: no other to go on with if it fails.
    Single,
    /// No two links share a port.
    Symmetric,
    /// Two links share a port of this side.
    AsymmetricLocal,
    /// Two links share a port of the peer.
    AsymmetricPeer,
}

impl Shape {
    /// A short name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Single => "single",
            Self::Symmetric => "symmetric",
            Self::AsymmetricLocal => "asymmetric local",
            Self::AsymmetricPeer => "asymmetric peer",
        }
    }
}

/// What tells ports apart: the MAC, as one port has several GIDs (AMB-45). In SMC-Rv2 it is the
/// GID, as the MAC may be that of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortKey {
    Mac([u8; 6]),
    Gid([u8; 16]),
}

/// The ports a link connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    local: PortKey,
    peer: PortKey,
}

impl Ends {
    /// The ends of a link.
    pub(super) const fn new(local: Port, peer: Port, v2: bool) -> Self {
        if v2 {
            Self {
                local: PortKey::Gid(local.gid.get()),
                peer: PortKey::Gid(peer.gid.get()),
            }
        } else {
            Self {
                local: PortKey::Mac(local.mac.get()),
                peer: PortKey::Mac(peer.mac.get()),
            }
        }
    }

    /// Whether both use the same port of this side.
    fn shares_local(self, other: Self) -> bool {
        self.local == other.local
    }

    /// Whether both use the same port of the peer.
    pub(super) fn shares_peer(self, other: Self) -> bool {
        self.peer == other.peer
    }

    /// Whether they have a port in common.
    fn shares(self, other: Self) -> bool {
        self.shares_local(other) || self.shares_peer(other)
    }
}

/// The action for links that share ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShapeVerdict {
    /// Nothing.
    Fine,
    /// The others are symmetric without this one (LLF-52).
    Spare(LinkSlot),
    /// They must not be beside each other (LGR-05, LGR-14).
    Unfit,
}

/// Links with their ends, oldest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    places: [Option<(LinkSlot, Ends)>; MAX_LINKS],
    len: usize,
}

impl Links {
    /// No links.
    pub(super) const fn new() -> Self {
        Self {
            places: [None; MAX_LINKS],
            len: 0,
        }
    }

    /// Adds one that is younger than the others. Says whether there was room.
    pub(super) fn push(&mut self, slot: LinkSlot, ends: Ends) -> bool {
        match self.places.get_mut(self.len) {
            Some(place) => {
                *place = Some((slot, ends));
                self.len = self.len.saturating_add(1);
                true
            }
            None => false,
        }
    }

    /// How many there are.
    #[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// All of them.
    fn iter(&self) -> impl DoubleEndedIterator<Item = (LinkSlot, Ends)> + Clone + '_ {
        self.places.iter().flatten().copied()
    }

    /// All pairs of two different ones.
    fn pairs(&self) -> impl Iterator<Item = (Ends, Ends)> + '_ {
        self.iter().enumerate().flat_map(move |(at, (_, one))| {
            let behind = self.iter().skip(at.saturating_add(1));
            behind.map(move |(_, other)| (one, other))
        })
    }

    /// Whether one uses this port of the peer.
    pub(super) fn has_peer(&self, ends: Ends) -> bool {
        self.iter().any(|(_, other)| ends.shares_peer(other))
    }

    /// What they are together.
    pub(super) fn shape(&self) -> Shape {
        if self.len < 2 {
            return if self.len == 0 {
                Shape::None
            } else {
                Shape::Single
            };
        }
        let mut shape = Shape::Symmetric;
        for (one, other) in self.pairs() {
            if one.shares_local(other) {
                return Shape::AsymmetricLocal;
            }
            if one.shares_peer(other) {
                shape = Shape::AsymmetricPeer;
            }
        }
        shape
    }

    /// How many count for the maximum: an asymmetric one does not (LGR-13).
    pub(super) fn counted(&self) -> usize {
        match self.shape() {
            Shape::AsymmetricLocal | Shape::AsymmetricPeer => self.len.saturating_sub(1),
            _ => self.len,
        }
    }

    /// Whether no two of them share a port, one being left out.
    fn symmetric_without(&self, out: LinkSlot) -> bool {
        let rest = || self.iter().filter(|(slot, _)| *slot != out);
        rest().all(|(slot, one)| {
            rest().all(|(other_slot, other)| slot == other_slot || !one.shares(other))
        })
    }

    /// The action for them.
    pub(super) fn verdict(&self) -> ShapeVerdict {
        let parallel = |(one, other): (Ends, Ends)| one == other;
        if self.pairs().any(parallel) {
            return ShapeVerdict::Unfit;
        }
        let mut pairs = self.pairs();
        if self.len < 3 || !pairs.any(|(one, other)| one.shares(other)) {
            return ShapeVerdict::Fine;
        }
        // The youngest replaces one of the others: the one in the middle of the others if there is
        // such, else the youngest of them, which was the asymmetric one.
        let sharers = |(slot, ends): &(LinkSlot, Ends)| {
            let others = self.iter().filter(|(other, _)| other != slot);
            others.filter(|(_, other)| ends.shares(*other)).count()
        };
        let old = self.len.saturating_sub(1);
        let youngest = self.iter().last().map(|(slot, _)| slot);
        if youngest.is_some_and(|slot| self.symmetric_without(slot)) {
            // It makes an asymmetric one of them.
            return ShapeVerdict::Unfit;
        }
        let candidates = || {
            self.iter()
                .take(old)
                .filter(|(slot, _)| self.symmetric_without(*slot))
        };
        let middle = candidates().find(|link| sharers(link) > 1);
        match middle.or_else(|| candidates().last()) {
            Some((slot, _)) => ShapeVerdict::Spare(slot),
            None => ShapeVerdict::Unfit,
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_shape))]
mod tests {
    use super::*;
    use crate::proto::base::verbs::{
        Gid,
        Mac, //
    };

    /// The ports that links connect, by their numbers.
    type Ports = &'static [(u8, u8)];

    /// A port by its number.
    const fn port(number: u8) -> Port {
        Port {
            mac: Mac::new([2, 0, 0, 0, 0, number]),
            gid: Gid::new([number; 16]),
        }
    }

    /// A slot by its index.
    fn slot(index: u8) -> LinkSlot {
        LinkSlot::new(index, 0).unwrap_or(LinkSlot::FIRST)
    }

    /// Links between ports of both sides.
    fn links(ends: &[(u8, u8)]) -> Links {
        let mut links = Links::new();
        for (index, (local, peer)) in (0..).zip(ends) {
            assert!(links.push(slot(index), Ends::new(port(*local), port(*peer), false)));
        }
        links
    }

    /// LGR-04, LGR-13, TST-004, TST-005.
    #[test]
    fn shapes_are_those_of_the_rfc() {
        let rows: [(Ports, Shape, usize); 7] = [
            (&[], Shape::None, 0),
            (&[(1, 1)], Shape::Single, 1),
            (&[(1, 1), (2, 2)], Shape::Symmetric, 2),
            (&[(1, 1), (2, 2), (3, 3)], Shape::Symmetric, 3),
            (&[(1, 1), (1, 2)], Shape::AsymmetricLocal, 1),
            (&[(1, 1), (2, 1)], Shape::AsymmetricPeer, 1),
            (&[(1, 1), (1, 2), (2, 2)], Shape::AsymmetricLocal, 2),
        ];
        for (ends, shape, counted) in rows {
            assert_eq!(links(ends).shape(), shape);
            assert_eq!(links(ends).counted(), counted);
        }
    }

    /// LGR-05, LGR-14, LLF-21, LLF-52, AMB-48.
    // LGR-05, LGR-13, LGR-14, ERR-32.
    #[test]
    fn links_that_may_be_beside_each_other() {
        let rows: [(Ports, ShapeVerdict); 13] = [
            (&[(1, 1)], ShapeVerdict::Fine),
            (&[(1, 1), (1, 1)], ShapeVerdict::Unfit),
            (&[(1, 1), (1, 2)], ShapeVerdict::Fine),
            (&[(1, 1), (2, 1)], ShapeVerdict::Fine),
            (&[(1, 1), (2, 2)], ShapeVerdict::Fine),
            (&[(1, 1), (2, 2), (3, 3)], ShapeVerdict::Fine),
            // The symmetric link replaces the one in the middle.
            (&[(1, 1), (1, 2), (2, 2)], ShapeVerdict::Spare(slot(1))),
            (&[(1, 1), (1, 2), (2, 1)], ShapeVerdict::Spare(slot(0))),
            (&[(1, 1), (2, 1), (2, 2)], ShapeVerdict::Spare(slot(1))),
            // Or the asymmetric one, if it has nothing to do with the new one.
            (&[(1, 1), (1, 2), (2, 3)], ShapeVerdict::Spare(slot(1))),
            // A second asymmetric one never is.
            (&[(1, 1), (1, 2), (1, 3)], ShapeVerdict::Unfit),
            (&[(1, 1), (2, 2), (2, 3)], ShapeVerdict::Unfit),
            (&[(1, 1), (2, 2), (2, 1)], ShapeVerdict::Unfit),
        ];
        for (ends, verdict) in rows {
            assert_eq!(links(ends).verdict(), verdict);
        }
    }

    /// AMB-45, and SMC-Rv2.
    #[test]
    fn version_decides_what_tells_ports_apart() {
        let (one, mut other) = (port(1), port(1));
        other.gid = port(2).gid;
        assert!(Ends::new(one, one, false) == Ends::new(other, other, false));
        assert!(Ends::new(one, one, true) != Ends::new(other, other, true));
    }

    // LGR-09.
    #[test]
    fn no_more_links_than_places() {
        let mut all = links(&[
            (1, 1),
            (2, 2),
            (3, 3),
            (4, 4),
            (5, 5),
            (6, 6),
            (7, 7),
            (8, 8),
        ]);
        assert_eq!(all.len(), MAX_LINKS);
        assert!(!all.push(slot(0), Ends::new(port(9), port(9), false)));
        assert_eq!(all.verdict(), ShapeVerdict::Fine);
    }
}
