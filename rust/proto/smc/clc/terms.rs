// SPDX-License-Identifier: GPL-2.0

//! What client and server of a first contact agree on besides the link: the version of SMC-R and
//! the limits of the link group.
//!
//! Version 1 has nothing to agree on. Version 2 has releases: the server takes the smaller of both
//! sides', and from release 1 ("version 2.1") on also the smaller limits. Its Accept says what was
//! taken, the client's Confirm repeats it.

use super::{
    extension::Extension,
    first_contact::FirstContact, //
};
use crate::proto::stream::reason::Reason;

/// The version of SMC-R a connection uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// RFC 7609.
    V1,
    /// SMC-Rv2: routable addresses, enterprise identifiers.
    V2,
}

/// The latest release of version 2 known here.
pub(crate) const RELEASE: u8 = 1;

/// Release from which on limits are agreed on.
pub(super) const LIMITS_RELEASE: u8 = 1;

/// Least number of connections of a link group that may be agreed on.
const MIN_CONNS: u8 = 16;

/// What this side wants of a link group of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupLimits {
    /// Most connections, at least 16.
    pub(crate) max_conns: u8,
    /// Most links, at least 1.
    pub(crate) max_links: u8,
}

/// What was agreed on for a link group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Version of SMC-R.
    pub(crate) version: Version,
    /// Release of the version; 0 in version 1.
    pub(crate) release: u8,
    /// Most connections of the group.
    pub(crate) max_conns: u8,
    /// Most links of the group; with 1 there is no attempt to add a second one.
    pub(crate) max_links: u8,
    /// No gateway is between the hosts.
    pub(crate) direct: bool,
}

impl Terms {
    /// What version 1 leaves to both sides; here, for a side that wants `limits`.
    pub(crate) const fn v1(limits: GroupLimits) -> Self {
        Self {
            version: Version::V1,
            release: 0,
            max_conns: limits.max_conns,
            max_links: limits.max_links,
            direct: true,
        }
    }

    /// Whether both sides agreed on the limits. If not, they are what this side wants.
    pub(crate) const fn has_limits(&self) -> bool {
        matches!(self.version, Version::V2) && self.release >= LIMITS_RELEASE
    }

    /// What the server takes of the offer of a client that it reaches directly or not.
    ///
    /// # Errors
    ///
    /// The reason for the Decline.
    pub(crate) fn of_offer(
        offer: &Extension,
        own: GroupLimits,
        direct: bool,
    ) -> Result<Self, Reason> {
        let release = offer.release.min(RELEASE);
        let mut terms = Self {
            version: Version::V2,
            release,
            direct,
            ..Self::v1(own)
        };
        if release >= LIMITS_RELEASE {
            terms.max_conns = offer.max_conns.min(own.max_conns);
            terms.max_links = offer.max_links.min(own.max_links);
        }
        terms.check()
    }

    /// What the server's Accept says was taken of this side's offer `own`.
    ///
    /// # Errors
    ///
    /// The reason for the Decline.
    pub(crate) fn of_accept(first: &FirstContact, own: GroupLimits) -> Result<Self, Reason> {
        if first.release > RELEASE {
            return Err(Reason::ReleaseError);
        }
        let mut terms = Self {
            version: Version::V2,
            release: first.release,
            direct: first.direct,
            ..Self::v1(own)
        };
        if first.release >= LIMITS_RELEASE {
            terms.max_conns = first.max_conns;
            terms.max_links = first.max_links;
            // A server takes the smaller ones.
            if first.max_conns > own.max_conns {
                return Err(Reason::MaxConnectionsError);
            }
            if first.max_links > own.max_links {
                return Err(Reason::MaxLinksError);
            }
        }
        terms.check()
    }

    /// Refuses limits no group can have.
    fn check(self) -> Result<Self, Reason> {
        if self.max_conns < MIN_CONNS {
            return Err(Reason::MaxConnectionsError);
        }
        if self.max_links == 0 {
            return Err(Reason::MaxLinksError);
        }
        Ok(self)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_terms))]
mod tests {
    use super::*;
    use crate::proto::{
        base::verbs::Gid,
        smc::clc::EidList, //
    };

    const OWN: GroupLimits = GroupLimits {
        max_conns: 200,
        max_links: 4,
    };

    /// A client's offer.
    const fn offer(release: u8, max_conns: u8, max_links: u8) -> Extension {
        Extension {
            gid: Gid::new([0; 16]),
            release,
            max_conns,
            max_links,
            features: 0,
            eids: EidList::EMPTY,
        }
    }

    /// What an Accept or Confirm says.
    const fn first(release: u8, max_conns: u8, max_links: u8) -> FirstContact {
        FirstContact {
            direct: true,
            release,
            max_conns,
            max_links,
            ..FirstContact::NOTHING
        }
    }

    #[test]
    fn smaller_limits_and_release_count() -> Result<(), Reason> {
        let terms = Terms::of_offer(&offer(1, 255, 2), OWN, true)?;
        assert_eq!(
            (terms.release, terms.max_conns, terms.max_links),
            (1, 200, 2)
        );
        let terms = Terms::of_offer(&offer(9, 16, 8), OWN, true)?;
        assert_eq!(
            (terms.release, terms.max_conns, terms.max_links),
            (1, 16, 4)
        );
        Ok(())
    }

    #[test]
    fn first_release_has_no_limits() -> Result<(), Reason> {
        let terms = Terms::of_offer(&offer(0, 0, 0), OWN, true)?;
        assert_eq!(
            (terms.release, terms.max_conns, terms.max_links),
            (0, 200, 4)
        );
        assert_eq!(Terms::of_accept(&first(0, 0, 0), OWN), Ok(terms));
        Ok(())
    }

    #[test]
    fn impossible_limits_are_declined() {
        let conns = Err(Reason::MaxConnectionsError);
        let links = Err(Reason::MaxLinksError);
        assert_eq!(Terms::of_offer(&offer(1, 15, 2), OWN, true), conns);
        assert_eq!(Terms::of_offer(&offer(1, 16, 0), OWN, true), links);
        assert_eq!(Terms::of_accept(&first(1, 15, 2), OWN), conns);
        assert_eq!(Terms::of_accept(&first(1, 201, 2), OWN), conns);
        assert_eq!(Terms::of_accept(&first(1, 200, 5), OWN), links);
        assert_eq!(Terms::of_accept(&first(1, 200, 0), OWN), links);
        let release = Err(Reason::ReleaseError);
        assert_eq!(Terms::of_accept(&first(2, 200, 2), OWN), release);
    }
}
