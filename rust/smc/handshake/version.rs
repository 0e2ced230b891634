// SPDX-License-Identifier: GPL-2.0

//! Looks up what the choice of the version of SMC-R needs: limits, identifiers, routes, subnets.
//!
//! `proto::clc::version` chooses.

use super::networks::networks;
use crate::{
    fabric::ports::Path,
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
        base::verbs::{
            Gid,
            Mac, //
        },
        smc::clc::{
            version::{
                is_routable,
                Choice,
                Hop,
                Site, //
            },
            Addition,
            Extension,
            GroupLimits,
            Networks,
            RELEASE, //
        },
        stream::reason::Reason, //
    },
    smc::setup::SmcConnection, //
};

/// This side of a connection. The methods sleep.
pub(crate) struct LocalSite<'a> {
    pub(crate) connection: &'a SmcConnection,
    /// Device, port and GID that the connection would use.
    pub(crate) path: &'a Path,
    /// Where packets to the peer leave; a client that reads an Accept needs none.
    pub(crate) egress: Option<&'a Egress>,
}

impl Site for LocalSite<'_> {
    fn limits(&self) -> GroupLimits {
        self.connection.protocol.net.settings.limits()
    }

    fn offer(&self) -> Option<Extension> {
        let gid = Gid::new(self.path.gid.gid);
        let eids = self
            .connection
            .protocol
            .engine
            .eids
            .of(self.connection.protocol.net.cookie);
        if eids.is_empty() || !self.path.gid.roce_v2 || !is_routable(gid) {
            return None;
        }
        let limits = self.limits();
        Some(Extension {
            gid,
            release: RELEASE,
            max_conns: limits.max_conns,
            max_links: limits.max_links,
            features: 0,
            eids,
        })
    }

    fn hop(&self, to: Gid) -> Result<Hop, Reason> {
        let v4 = |gid: [u8; 16]| {
            let addr = Addr::V6 {
                ip: gid,
                port: 0,
                scope: 0,
            };
            addr.as_v4()
        };
        let from = self.path.gid.gid;
        let way = match (v4(from), v4(to.get())) {
            (Some(from), Some(to)) => Way::V4(from, to),
            (None, None) if is_routable(to) => Way::V6(from, to.get()),
            _ => return Err(Reason::NoRoute),
        };
        // A port that a name has chosen may be in another namespace.
        let net = self.path.device.net_of(self.path.port, &self.path.gid);
        match next_hop(&net.ok_or(Reason::NoRoute)?, way) {
            Ok(NextHop::Host) => Ok(Hop::Host),
            Ok(NextHop::Gateway(mac)) => Ok(Hop::Gateway(Mac::new(mac))),
            Err(_) => Err(Reason::NoRoute),
        }
    }

    fn networks(&self) -> Option<Networks> {
        networks(&self.connection.sk, self.egress?)
    }
}

/// The part of version 2 of this side's Accept or Confirm. Context: any.
pub(crate) fn addition(choice: &Choice, path: &Path, first_contact: bool) -> Option<Addition> {
    choice.addition(Gid::new(path.gid.gid), first_contact, |first| {
        with_hostname(|name| {
            for (to, from) in first.host.iter_mut().zip(name) {
                *to = *from;
            }
        });
    })
}
