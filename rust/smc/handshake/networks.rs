// SPDX-License-Identifier: GPL-2.0

//! The networks that a connection's interface is attached to, which version 1 of CLC names.
//!
//! Source: RFC 7609 section 3.5.1.2.

use crate::{
    kapi::net::{
        addr::Addr,
        netdev::{
            ipv4_prefix,
            ipv6_prefixes,
            Egress, //
        },
        sock::Sock, //
    },
    proto::smc::clc::{
        Networks,
        Prefix4,
        Prefix6,
        Prefix6List, //
    },
};

/// The networks a connection's interface is attached to.
pub(crate) fn networks(sk: &Sock, egress: &Egress) -> Option<Networks> {
    if egress.loopback {
        return Some(Networks::of_host(sk.local_addr().as_v4().is_some()));
    }
    match sk.local_addr() {
        Addr::V4 { ip, .. } => {
            let (_, len) = ipv4_prefix(&sk.net(), egress.ifindex, ip)?;
            Prefix4::new(ip, len).map(Networks::V4)
        }
        addr @ Addr::V6 { .. } => match addr.as_v4() {
            Some(ip) => {
                let (_, len) = ipv4_prefix(&sk.net(), egress.ifindex, ip)?;
                Prefix4::new(ip, len).map(Networks::V4)
            }
            None => {
                let mut list: Option<Prefix6List> = None;
                for (ip, len) in ipv6_prefixes(&sk.net(), egress.ifindex)?.iter() {
                    let Some(prefix) = Prefix6::new(ip, len) else {
                        continue;
                    };
                    match list.as_mut() {
                        None => list = Some(Prefix6List::new(prefix)),
                        // Eight are all a Proposal holds.
                        Some(list) => drop(list.push(prefix)),
                    }
                }
                list.map(Networks::V6)
            }
        },
    }
}
