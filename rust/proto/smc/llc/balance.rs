// SPDX-License-Identifier: GPL-2.0

//! Which link a connection writes by, and which connections an added link takes over.
//!
//! Source: RFC 7609 sections 2.2 and 3.5.5.1 (`SMCR-LGR-04`, `SMCR-FOV-03`).

use super::link::LinkSlot;

/// A set of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkSet(u8);

impl LinkSet {
    /// Adds a link.
    pub(crate) fn add(&mut self, slot: LinkSlot) {
        self.0 |= slot.bit();
    }

    /// Whether a link is in the set.
    pub(crate) fn contains(self, slot: LinkSlot) -> bool {
        self.0 & slot.bit() != 0
    }
}

/// The link by which the fewest connections write, out of pairs of a link and their number. The first
/// of equal links.
pub(crate) fn least_used(links: impl Iterator<Item = (LinkSlot, i32)>) -> Option<LinkSlot> {
    links.min_by_key(|(_, uses)| *uses).map(|(slot, _)| slot)
}

/// The share of the connections that each link of a group is to carry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkShare(i32);

impl LinkShare {
    /// The share for a number of connections and of links that connections may use.
    pub(crate) fn new(connections: usize, links: usize) -> Self {
        let share = connections.checked_div(links).unwrap_or(0);
        Self(i32::try_from(share).unwrap_or(i32::MAX))
    }

    /// Whether the added link, by which `to` connections write, takes over one of another link, by
    /// which `from` write.
    pub(crate) const fn moves(self, to: i32, from: i32) -> bool {
        to < self.0 && from > self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::smc::llc::testing::SECOND;

    #[test]
    fn least_used_link_is_the_first_of_equal_ones() {
        assert_eq!(least_used(core::iter::empty()), None);
        let links = [(LinkSlot::FIRST, 3), (SECOND, 2)];
        assert_eq!(least_used(links.into_iter()), Some(SECOND));
        let links = [(LinkSlot::FIRST, 2), (SECOND, 2)];
        assert_eq!(least_used(links.into_iter()), Some(LinkSlot::FIRST));
    }

    #[test]
    fn set_contains_only_what_was_added() {
        let mut set = LinkSet::default();
        assert!(!set.contains(SECOND));
        set.add(SECOND);
        set.add(SECOND);
        assert!(set.contains(SECOND) && !set.contains(LinkSlot::FIRST));
    }

    // FOV-03.
    #[test]
    fn added_link_takes_its_share_and_no_more() {
        for (connections, links) in [(0i32, 2i32), (1, 2), (7, 2), (10, 2), (10, 3), (255, 8)] {
            let share = LinkShare::new(connections as usize, links as usize);
            // The other links have as equal numbers as can be.
            let mut uses: Vec<i32> = (0..links - 1)
                .map(|n| connections / (links - 1) + i32::from(n < connections % (links - 1)))
                .collect();
            let mut to = 0;
            for from in &mut uses {
                while share.moves(to, *from) {
                    *from -= 1;
                    to += 1;
                }
            }
            assert_eq!(to, connections / links, "{connections} over {links}");
            assert!(uses.iter().all(|from| *from >= connections / links));
        }
    }

    #[test]
    fn share_without_links_moves_nothing() {
        assert!(!LinkShare::new(5, 0).moves(0, 5));
    }
}
