// SPDX-License-Identifier: GPL-2.0

//! Which hosts a link group is known to be with.
//!
//! Every host that connects gets peer ID, GID, MAC and queue pair number, so a host
//! that names those of another proves nothing. Two addresses are better: the one at the other end
//! of the TCP connection that made the group, since the peer behind its link has answered the
//! handshake made there; and the one in the GID of the link, if that is an IP address, since
//! packets to it reach that peer.
//!
//! Addresses are IPv6 addresses, those of IPv4 in their mapped form, as in a GID of RoCEv2.

use crate::proto::base::{
    quota::is_one_peer,
    time::{
        Duration,
        Instant, //
    },
    verbs::Gid, //
};

/// How long the client of a first contact may take to confirm before other handshakes with its host
/// go their own way: a program there can hold up its own handshake as long as it likes.
const PATIENCE: Duration = Duration::from_secs(1);

/// Until when a handshake waits that began to wait for the first contact of another one at `since`.
pub(crate) const fn waits_until(since: Instant) -> Instant {
    since.saturating_add(PATIENCE)
}

/// The addresses that belong to the peer of a link group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    founder: [u8; 16],
    gid: Option<Gid>,
    /// Until when the client of the first contact is to confirm; `None` when it has.
    confirm_by: Option<Instant>,
}

impl Hosts {
    /// Those of a group that a TCP connection to or from `founder` makes now.
    pub(crate) const fn new(founder: [u8; 16], now: Instant) -> Self {
        Self {
            founder,
            gid: None,
            confirm_by: Some(waits_until(now)),
        }
    }

    /// The client of the first contact has confirmed: the rest takes no program.
    pub(crate) fn set_confirmed(&mut self) {
        self.confirm_by = None;
    }

    /// Whether a handshake with this host, which began to wait at `since`, waits for the first
    /// contact of the group.
    pub(crate) fn is_waited_for(&self, host: &[u8; 16], since: Instant, now: Instant) -> bool {
        let in_time = |by: Instant| now < by && now < waits_until(since);
        self.is_founder(host) && self.confirm_by.is_none_or(in_time)
    }

    /// The GID of the peer on the first link is known.
    pub(crate) fn set_gid(&mut self, gid: Gid) {
        self.gid = Some(gid);
    }

    /// Whether the group was made by this host. Before its link is proven, nothing else counts.
    fn is_founder(&self, host: &[u8; 16]) -> bool {
        self.founder == *host
    }

    /// Whether the group was made by this host or one that counts as the same peer.
    pub(crate) fn is_of_peer(&self, host: &[u8; 16]) -> bool {
        is_one_peer(&self.founder, host)
    }

    /// Whether the group, whose link is proven, is with this host.
    pub(crate) fn includes(&self, host: &[u8; 16]) -> bool {
        self.is_founder(host) || self.gid.is_some_and(|gid| gid.get() == *host)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_hosts))]
mod tests {
    use super::*;

    const T0: Instant = Instant::from_nanos(5);

    const fn mapped(last: u8) -> [u8; 16] {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, last]
    }

    #[test]
    fn founder_is_included_before_and_after_the_gid_is_known() {
        let mut hosts = Hosts::new(mapped(1), T0);
        assert!(hosts.is_founder(&mapped(1)) && hosts.includes(&mapped(1)));
        hosts.set_gid(Gid::new(mapped(2)));
        assert!(hosts.includes(&mapped(1)));
    }

    #[test]
    fn address_in_the_gid_is_included_but_no_founder() {
        let mut hosts = Hosts::new(mapped(1), T0);
        assert!(!hosts.includes(&mapped(2)));
        hosts.set_gid(Gid::new(mapped(2)));
        assert!(hosts.includes(&mapped(2)) && !hosts.is_founder(&mapped(2)));
    }

    #[test]
    fn third_host_is_not_included() {
        let mut hosts = Hosts::new(mapped(1), T0);
        hosts.set_gid(Gid::new(mapped(2)));
        assert!(!hosts.includes(&mapped(3)) && !hosts.includes(&[0; 16]));
    }
    #[test]
    fn handshake_behind_a_founder_that_does_not_confirm_stops_waiting() {
        let hosts = Hosts::new(mapped(1), T0);
        let late = T0.saturating_add(PATIENCE);
        let just = Instant::from_nanos(late.as_nanos() - 1);
        assert!(hosts.is_waited_for(&mapped(1), T0, T0));
        assert!(hosts.is_waited_for(&mapped(1), just, just));
        assert!(!hosts.is_waited_for(&mapped(1), late, late));
        assert!(!hosts.is_waited_for(&mapped(2), T0, T0));
    }

    #[test]
    fn handshake_that_has_waited_before_does_not_wait_as_long_again() {
        let later = T0.saturating_add(PATIENCE);
        let hosts = Hosts::new(mapped(1), later);
        assert!(hosts.is_waited_for(&mapped(1), later, later));
        assert!(!hosts.is_waited_for(&mapped(1), T0, later));
    }

    #[test]
    fn handshake_behind_a_founder_that_has_confirmed_waits_for_the_link() {
        let mut hosts = Hosts::new(mapped(1), T0);
        hosts.set_confirmed();
        let late = T0.saturating_add(Duration::from_secs(100));
        assert!(hosts.is_waited_for(&mapped(1), T0, late));
        assert!(!hosts.is_waited_for(&mapped(2), T0, T0));
    }
}
