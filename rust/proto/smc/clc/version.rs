// SPDX-License-Identifier: GPL-2.0

//! Chooses the version of SMC-R of a connection and its terms.
//!
//! Version 1 needs both ends in one subnet (`SMCR-CLC-126`, `SMCR-CLC-127`). Version 2 needs an
//! enterprise identifier in common and a GID of RoCE version 2, which may be behind a gateway. A
//! server takes version 2 where both are possible.

use super::{
    answer::{
        Addition,
        Answer, //
    },
    eid::Eid,
    extension::Extension,
    first_contact::{
        FirstContact,
        GidList, //
    },
    networks::Networks,
    proposal::Proposal,
    terms::{
        GroupLimits,
        Terms,
        Version, //
    },
};
use crate::proto::{
    base::verbs::{
        Gid,
        Mac, //
    },
    stream::reason::Reason, //
};

/// The first hop of packets to the port of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    /// The peer itself.
    Host,
    /// A gateway with this Ethernet address.
    Gateway(Mac),
}

/// What the choice needs to know of this side; the engine looks it up when it is asked.
pub(crate) trait Site {
    /// Limits of a link group that the administrator has set.
    fn limits(&self) -> GroupLimits;

    /// This side's offer of version 2; `None` if it has no identifier or no GID for it.
    fn offer(&self) -> Option<Extension>;

    /// The first hop to a port.
    ///
    /// # Errors
    ///
    /// The reason for the Decline if no route leads there.
    fn hop(&self, to: Gid) -> Result<Hop, Reason>;

    /// The subnets of this side's address; `None` if it has none that version 1 can use.
    fn networks(&self) -> Option<Networks>;
}

/// The version and terms chosen for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Terms of a new link group.
    pub(crate) terms: Terms,
    /// The common identifier, in version 2.
    pub(crate) eid: Option<Eid>,
    /// The first hop to the peer's port.
    pub(crate) hop: Hop,
}

impl Choice {
    /// Version 1.
    fn first(limits: GroupLimits) -> Self {
        Self {
            terms: Terms::v1(limits),
            eid: None,
            hop: Hop::Host,
        }
    }

    /// The server's choice for a client's Proposal.
    ///
    /// # Errors
    ///
    /// The reason for the Decline; that of version 2 if both are impossible.
    pub(crate) fn of_proposal(site: &impl Site, proposal: &Proposal) -> Result<Self, Reason> {
        let second = proposal
            .v2
            .as_ref()
            .map(|theirs| Self::of_extension(site, theirs));
        match second {
            Some(Ok(choice)) => Ok(choice),
            Some(Err(reason)) => Self::of_networks(site, proposal).map_err(|_| reason),
            None => Self::of_networks(site, proposal),
        }
    }

    fn of_extension(site: &impl Site, theirs: &Extension) -> Result<Self, Reason> {
        let ours = site.offer().ok_or(Reason::NoUeid)?;
        let eid = theirs.eids.common(&ours.eids).ok_or(Reason::NoUeid)?;
        let hop = site.hop(theirs.gid)?;
        Ok(Self {
            terms: Terms::of_offer(theirs, site.limits(), hop == Hop::Host)?,
            eid: Some(eid),
            hop,
        })
    }

    fn of_networks(site: &impl Site, proposal: &Proposal) -> Result<Self, Reason> {
        let theirs = proposal.v1.as_ref().ok_or(Reason::ModeUnsupported)?;
        let ours = site.networks().ok_or(Reason::DifferentPrefix)?;
        if !ours.shares_link_with(theirs) {
            return Err(Reason::DifferentPrefix);
        }
        Ok(Self::first(site.limits()))
    }

    /// The client's reading of the server's Accept.
    ///
    /// # Errors
    ///
    /// The reason for the Decline.
    pub(crate) fn of_accept(site: &impl Site, accept: &Answer) -> Result<Self, Reason> {
        let Some(agreed) = &accept.v2 else {
            return Ok(Self::first(site.limits()));
        };
        let Some(first) = &agreed.first else {
            // The link exists, and its terms with it.
            let mut choice = Self::first(site.limits());
            choice.terms.version = Version::V2;
            choice.eid = Some(agreed.eid);
            return Ok(choice);
        };
        let hop = if first.direct {
            Hop::Host
        } else {
            site.hop(accept.endpoint.gid)?
        };
        if !first.direct && hop == Hop::Host {
            // The server's packets pass a gateway, and this side's would not.
            return Err(Reason::NoIndirectRoute);
        }
        Ok(Self {
            terms: Terms::of_accept(first, site.limits())?,
            eid: Some(agreed.eid),
            hop,
        })
    }

    /// The part of version 2 of this side's Accept or Confirm, from a port with this GID; in first
    /// contact with the terms and the name of the `host`.
    pub(crate) fn addition(
        &self,
        gid: Gid,
        first_contact: bool,
        host: impl FnOnce(&mut FirstContact),
    ) -> Option<Addition> {
        let eid = self.eid?;
        let first = first_contact.then(|| {
            let mut first = FirstContact {
                direct: self.hop == Hop::Host,
                release: self.terms.release,
                max_conns: self.terms.max_conns,
                max_links: self.terms.max_links,
                gids: GidList::EMPTY,
                ..FirstContact::NOTHING
            };
            host(&mut first);
            first.gids.push(gid);
            first
        });
        Some(Addition { eid, first })
    }
}

/// Whether a GID can be the address of a port in version 2: not if it is link-local.
pub(crate) fn is_routable(gid: Gid) -> bool {
    !matches!(gid.get(), [0xfe, second, ..] if second & 0xc0 == 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::smc::clc::{
        handshake::examples,
        Eid,
        EidList,
        Prefix6,
        Prefix6List,
        RELEASE, //
    };

    const LIMITS: GroupLimits = GroupLimits {
        max_conns: 200,
        max_links: 2,
    };
    const GATEWAY: Hop = Hop::Gateway(Mac::new([2; 6]));

    fn eids(names: &[&[u8]]) -> EidList {
        let mut list = EidList::EMPTY;
        for name in names {
            list.push(Eid::new(name).unwrap()).unwrap();
        }
        list
    }

    fn offer(names: &[&[u8]]) -> Extension {
        Extension {
            gid: Gid::new([9; 16]),
            release: RELEASE,
            max_conns: 100,
            max_links: 8,
            features: 0,
            eids: eids(names),
        }
    }

    struct Here {
        offer: Option<Extension>,
        hop: Result<Hop, Reason>,
        networks: Option<Networks>,
    }

    impl Site for Here {
        fn limits(&self) -> GroupLimits {
            LIMITS
        }

        fn offer(&self) -> Option<Extension> {
            self.offer
        }

        fn hop(&self, _: Gid) -> Result<Hop, Reason> {
            self.hop
        }

        fn networks(&self) -> Option<Networks> {
            self.networks
        }
    }

    fn here() -> Here {
        Here {
            offer: Some(offer(&[b"OURS", b"COMMON"])),
            hop: Ok(Hop::Host),
            networks: Some(Networks::V6(Prefix6List::new(Prefix6::ANY))),
        }
    }

    fn both() -> Proposal {
        Proposal {
            v2: Some(offer(&[b"THEIRS", b"COMMON"])),
            ..examples::proposal()
        }
    }

    #[test]
    fn server_takes_version_2_where_both_are_possible() {
        let choice = Choice::of_proposal(&here(), &both()).unwrap();
        assert_eq!(choice.eid, Eid::new(b"COMMON"));
        assert_eq!(choice.hop, Hop::Host);
        assert_eq!(choice.terms.version, Version::V2);
        assert_eq!((choice.terms.max_conns, choice.terms.max_links), (100, 2));
        assert!(choice.terms.direct);
    }

    #[test]
    fn server_behind_a_gateway_says_so() {
        let site = Here {
            hop: Ok(GATEWAY),
            ..here()
        };
        let choice = Choice::of_proposal(&site, &both()).unwrap();
        assert_eq!(choice.hop, GATEWAY);
        assert!(!choice.terms.direct);
        let addition = choice.addition(Gid::new([7; 16]), true, |_| ()).unwrap();
        assert!(!addition.first.unwrap().direct);
    }

    #[test]
    fn server_falls_back_to_version_1() {
        let cases = [
            Here {
                offer: None,
                ..here()
            },
            Here {
                offer: Some(offer(&[b"OTHER"])),
                ..here()
            },
            Here {
                hop: Err(Reason::NoRoute),
                ..here()
            },
        ];
        for site in cases {
            let choice = Choice::of_proposal(&site, &both()).unwrap();
            assert_eq!((choice.terms.version, choice.eid), (Version::V1, None));
            assert!(choice.addition(Gid::new([7; 16]), true, |_| ()).is_none());
        }
    }

    #[test]
    fn decline_gives_the_reason_of_version_2() {
        let site = Here {
            networks: None,
            hop: Err(Reason::NoRoute),
            ..here()
        };
        assert_eq!(Choice::of_proposal(&site, &both()), Err(Reason::NoRoute));
        let only_v1 = Proposal { v2: None, ..both() };
        let reason = Err(Reason::DifferentPrefix);
        assert_eq!(Choice::of_proposal(&site, &only_v1), reason);
        let only_v2 = Proposal { v1: None, ..both() };
        let site = Here {
            offer: None,
            ..here()
        };
        assert_eq!(Choice::of_proposal(&site, &only_v2), Err(Reason::NoUeid));
        let neither = Proposal {
            v1: None,
            v2: None,
            ..both()
        };
        let reason = Err(Reason::ModeUnsupported);
        assert_eq!(Choice::of_proposal(&site, &neither), reason);
    }

    fn accepted(direct: bool, first_contact: bool) -> Answer {
        let first = FirstContact {
            direct,
            release: RELEASE,
            max_conns: 100,
            max_links: 2,
            ..FirstContact::NOTHING
        };
        Answer {
            v2: Some(Addition {
                eid: Eid::new(b"COMMON").unwrap(),
                first: first_contact.then_some(first),
            }),
            ..examples::accept(first_contact, true)
        }
    }

    #[test]
    fn client_goes_the_way_of_the_server() {
        for (direct, hop, wanted) in [
            // A client does not look up the route to a server that reaches it directly.
            (true, Err(Reason::NoRoute), Ok(Hop::Host)),
            (false, Ok(GATEWAY), Ok(GATEWAY)),
            (false, Ok(Hop::Host), Err(Reason::NoIndirectRoute)),
            (false, Err(Reason::NoRoute), Err(Reason::NoRoute)),
        ] {
            let site = Here { hop, ..here() };
            let choice = Choice::of_accept(&site, &accepted(direct, true));
            assert_eq!(choice.map(|choice| choice.hop), wanted);
        }
    }

    #[test]
    fn accept_of_an_existing_link_has_no_terms() {
        let choice = Choice::of_accept(&here(), &accepted(true, false)).unwrap();
        assert_eq!(choice.terms.version, Version::V2);
        assert_eq!(choice.eid, Eid::new(b"COMMON"));
        let choice = Choice::of_accept(&here(), &examples::accept(true, true)).unwrap();
        assert_eq!((choice.terms.version, choice.eid), (Version::V1, None));
    }

    #[test]
    fn link_local_gid_is_not_routable() {
        let gid = |first, second| {
            let mut octets = [1; 16];
            (octets[0], octets[1]) = (first, second);
            Gid::new(octets)
        };
        assert!(!is_routable(gid(0xfe, 0x80)) && !is_routable(gid(0xfe, 0xbf)));
        assert!(is_routable(gid(0xfe, 0xc0)) && is_routable(gid(0x20, 0x80)));
    }
}
