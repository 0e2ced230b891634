// SPDX-License-Identifier: GPL-2.0

//! How much a network namespace, a peer and the host may have.
//!
//! Limits are numbers of an administrator: those of a namespace, whose administrator may be that of
//! a container, and those of the initial namespace, which bound all.

use super::time::Duration;

/// The values that hold for a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caps {
    /// Octets of buffers of the namespace.
    pub(crate) bytes: u64,
    /// Octets of buffers of all namespaces.
    pub(crate) host_bytes: u64,
    /// Link groups in first contact.
    pub(crate) forming: usize,
    /// Those of them with one peer.
    pub(crate) forming_per_peer: usize,
    /// Connections without a file, after their close.
    pub(crate) orphans: u64,
    /// How long such a connection has to get rid of its data.
    pub(crate) orphan_time: Duration,
}

/// The least of a value of a namespace and that of the initial one, neither of which is negative.
pub(crate) fn lesser(own: i32, initial: i32) -> u32 {
    u32::try_from(core::cmp::min(own, initial)).unwrap_or(0)
}

/// Octets of a number of KiB.
pub(crate) fn kbytes(count: u32) -> u64 {
    u64::from(count).saturating_mul(1024)
}

/// One part in `parts` of a memory of `kbytes` KiB, as the value of a file.
pub(crate) fn part_of_memory(kbytes: u64, parts: u64) -> i32 {
    let part = kbytes.checked_div(parts).unwrap_or(0);
    i32::try_from(part).unwrap_or(i32::MAX)
}

/// How much of a memory cgroup with that limit may be buffers. The rest is for the programs in it,
/// which are killed when there is none, and for connections that use TCP.
pub(crate) fn part_of_cgroup(limit: u64) -> u64 {
    limit / 2
}

/// Whether there may be `more` where `used` are in use.
pub(crate) fn fits(used: u64, more: u64, most: u64) -> bool {
    used.checked_add(more).is_some_and(|sum| sum <= most)
}

/// Whether two addresses count as those of one peer. A host chooses among those of its IPv6 network
/// as it likes; IPv4 addresses are in their mapped form.
pub(crate) fn is_one_peer(one: &[u8; 16], other: &[u8; 16]) -> bool {
    const NETWORK: usize = 8;
    const MAPPED: [u8; NETWORK] = [0; NETWORK];
    let network = one.first_chunk::<NETWORK>();
    let same = network == other.first_chunk();
    match network {
        Some(&MAPPED) => one == other,
        _ => same,
    }
}

/// Counts the link groups in first contact, to decide on another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forming {
    namespace: usize,
    peer: usize,
}

impl Forming {
    /// One of the namespace, perhaps with the peer in question.
    pub(crate) fn count(&mut self, with_peer: bool) {
        self.namespace = self.namespace.saturating_add(1);
        if with_peer {
            self.peer = self.peer.saturating_add(1);
        }
    }

    /// Whether there may be another.
    pub(crate) fn allows_another(self, caps: &Caps) -> bool {
        self.namespace < caps.forming && self.peer < caps.forming_per_peer
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_quota))]
mod tests {
    use super::*;

    const CAPS: Caps = Caps {
        bytes: 0,
        host_bytes: 0,
        forming: 3,
        forming_per_peer: 2,
        orphans: 0,
        orphan_time: Duration::from_secs(0),
    };

    #[test]
    fn limit_is_reached_but_not_exceeded() {
        assert!(fits(0, 10, 10) && fits(9, 1, 10));
        assert!(!fits(0, 11, 10) && !fits(10, 1, 10) && !fits(11, 0, 10));
        assert!(!fits(u64::MAX, 1, u64::MAX));
    }

    #[test]
    fn namespace_lowers_its_limit_but_does_not_raise_it() {
        assert_eq!(lesser(5, 7), 5);
        assert_eq!(lesser(i32::MAX, 7), 7);
        assert_eq!(lesser(-1, 7), 0);
    }

    #[test]
    fn part_of_a_large_memory_is_a_value_of_a_file() {
        assert_eq!(part_of_memory(1 << 20, 4), 1 << 18);
        assert_eq!(part_of_memory(u64::MAX, 4), i32::MAX);
        assert_eq!(part_of_memory(1, 0), 0);
        assert_eq!(kbytes(u32::MAX), 0xffff_ffff << 10);
        assert_eq!(part_of_cgroup(64 << 20), 32 << 20);
    }

    #[test]
    fn groups_in_first_contact_are_limited_for_a_peer_and_for_all() {
        let mut forming = Forming::default();
        assert!(forming.allows_another(&CAPS));
        forming.count(true);
        assert!(forming.allows_another(&CAPS));
        forming.count(true);
        assert!(!forming.allows_another(&CAPS));
        let mut others = Forming::default();
        others.count(false);
        others.count(false);
        assert!(others.allows_another(&CAPS));
        others.count(false);
        assert!(!others.allows_another(&CAPS));
    }

    #[test]
    fn ipv6_network_is_one_peer_and_ipv4_address_too() {
        let mapped = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, last];
        assert!(is_one_peer(&mapped(1), &mapped(1)));
        assert!(!is_one_peer(&mapped(1), &mapped(2)));
        let v6 = |net, last| [0xfd, 0, 0, 0, 0, 0, 0, net, 0, 0, 0, 0, 0, 0, 0, last];
        assert!(is_one_peer(&v6(1, 1), &v6(1, 2)));
        assert!(!is_one_peer(&v6(1, 1), &v6(2, 1)));
        assert!(!is_one_peer(&v6(1, 1), &mapped(1)));
    }
}
