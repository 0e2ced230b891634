// SPDX-License-Identifier: GPL-2.0

//! The version of SMC-R of a connection and its terms: what this side offers, takes and
//! says.
//!
//! Version 1 needs both ends in one subnet (`SMCR-CLC-126`, `SMCR-CLC-127`). Version 2 needs an
//! enterprise identifier in common (`eid.rs`) and a GID of RoCE version 2, which may be behind a
//! gateway. A server takes version 2 where both are possible.

use super::{
    connection::Connection,
    device::Path,
    networks::networks, //
};
use crate::{
    kapi::{
        base::module::with_hostname,
        net::{
            addr::Addr,
            netdev::Egress,
            route::{
                next_hop,
                NextHop,
                Way, //
            },
        },
    },
    proto::{
        clc::{
            Addition,
            Answer,
            Eid,
            Extension,
            FirstContact,
            GidList,
            Limits,
            Proposal,
            Terms,
            Version,
            RELEASE, //
        },
        reason::Reason,
        wire::Gid, //
    },
};

/// What was chosen for a connection.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    /// The terms, if a new link group is made.
    pub(super) terms: Terms,
    /// The common identifier, in version 2.
    pub(super) eid: Option<Eid>,
    /// Where packets to the peer's port go first.
    pub(super) hop: NextHop,
}

/// What this side wants of a link group.
fn limits(connection: &Connection) -> Limits {
    connection.net.settings.limits()
}

/// Whether a GID can be the address of a port in version 2.
fn is_routable(gid: Gid) -> bool {
    !matches!(gid.get(), [0xfe, second, ..] if second & 0xc0 == 0x80)
}

/// The next hop to a peer's port.
fn hop(connection: &Connection, path: &Path, to: Gid) -> Result<NextHop, Reason> {
    let v4 = |gid: [u8; 16]| {
        let addr = Addr::V6 {
            ip: gid,
            port: 0,
            scope: 0,
        };
        addr.as_v4()
    };
    let way = match (v4(path.gid.gid), v4(to.get())) {
        (Some(from), Some(to)) => Way::V4(from, to),
        (None, None) if is_routable(to) => Way::V6(path.gid.gid, to.get()),
        _ => return Err(Reason::NoRoute),
    };
    next_hop(&connection.sk.net(), way).map_err(|_| Reason::NoRoute)
}

/// This side's offer of version 2, if it can make one. Sleeps.
pub(super) fn extension(connection: &Connection, path: &Path) -> Option<Extension> {
    let eids = connection.engine.eids.of(connection.net.cookie);
    let gid = Gid::new(path.gid.gid);
    if eids.is_empty() || !path.gid.roce_v2 || !is_routable(gid) {
        return None;
    }
    let Limits {
        max_conns,
        max_links,
    } = limits(connection);
    Some(Extension {
        gid,
        release: RELEASE,
        max_conns,
        max_links,
        features: 0,
        eids,
    })
}

/// What the server takes of a client's Proposal. Sleeps.
pub(super) fn choose(
    connection: &Connection,
    path: &Path,
    egress: &Egress,
    proposal: &Proposal,
) -> Result<Choice, Reason> {
    let later = proposal.v2.as_ref().map(|offer| {
        let ours = extension(connection, path).ok_or(Reason::NoUeid)?;
        let eid = offer.eids.common(&ours.eids).ok_or(Reason::NoUeid)?;
        let hop = hop(connection, path, offer.gid)?;
        let terms = Terms::of_offer(offer, limits(connection), hop == NextHop::Host)?;
        Ok(Choice {
            terms,
            eid: Some(eid),
            hop,
        })
    });
    let first = || {
        let theirs = proposal.v1.as_ref().ok_or(Reason::ModeUnsupported)?;
        let ours = networks(&connection.sk, egress).ok_or(Reason::DifferentPrefix)?;
        if !ours.shares_link_with(theirs) {
            return Err(Reason::DifferentPrefix);
        }
        Ok(Choice {
            terms: Terms::v1(limits(connection)),
            eid: None,
            hop: NextHop::Host,
        })
    };
    match later {
        Some(Ok(choice)) => Ok(choice),
        // The reason of the later version says more.
        Some(Err(reason)) => first().map_err(|_| reason),
        None => first(),
    }
}

/// What the server's Accept means for the client. Sleeps.
pub(super) fn accept(
    connection: &Connection,
    path: &Path,
    accept: &Answer,
) -> Result<Choice, Reason> {
    let Some(agreed) = &accept.v2 else {
        return Ok(Choice {
            terms: Terms::v1(limits(connection)),
            eid: None,
            hop: NextHop::Host,
        });
    };
    let (terms, hop) = match &agreed.first {
        // The link exists, and its terms with it.
        None => (
            Terms {
                version: Version::V2,
                ..Terms::v1(limits(connection))
            },
            NextHop::Host,
        ),
        Some(first) if first.direct => {
            let terms = Terms::of_accept(first, limits(connection))?;
            (terms, NextHop::Host)
        }
        Some(first) => {
            let hop = hop(connection, path, accept.endpoint.gid)?;
            if hop == NextHop::Host {
                // The server goes through a gateway, and this side would not.
                return Err(Reason::NoIndirectRoute);
            }
            (Terms::of_accept(first, limits(connection))?, hop)
        }
    };
    Ok(Choice {
        terms,
        eid: Some(agreed.eid),
        hop,
    })
}

/// What this side's Accept or Confirm says besides its end, in version 2. Sleeps.
pub(super) fn addition(choice: &Choice, path: &Path, first_contact: bool) -> Option<Addition> {
    let eid = choice.eid?;
    let first = first_contact.then(|| {
        let mut first = FirstContact {
            direct: choice.hop == NextHop::Host,
            release: choice.terms.release,
            max_conns: choice.terms.max_conns,
            max_links: choice.terms.max_links,
            gids: GidList::EMPTY,
            ..FirstContact::NOTHING
        };
        with_hostname(|name| {
            for (to, from) in first.host.iter_mut().zip(name) {
                *to = *from;
            }
        });
        first.gids.push(Gid::new(path.gid.gid));
        first
    });
    Some(Addition { eid, first })
}
