// SPDX-License-Identifier: GPL-2.0

//! Links of link groups: the lines of the file `links`.

use serde::Serialize;

use super::record::{
    Other,
    Record, //
};

/// One line of `links`.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Link {
    /// Number of the link group.
    pub(crate) lgr: Option<String>,
    /// Role of this host in the group: "client" or "server".
    pub(crate) role: Option<String>,
    /// Version of SMC-R: 1 or 2.
    pub(crate) version: Option<u64>,
    /// Peer ID, if the module prints it.
    pub(crate) peer: Option<String>,
    /// GID of the peer's port.
    pub(crate) peer_gid: Option<String>,
    /// RDMA device.
    pub(crate) dev: Option<String>,
    /// State of the link: "forming", "active", "inactive" or "dead".
    pub(crate) state: Option<String>,
    /// Number of the link, the same on both hosts.
    pub(crate) link: Option<u64>,
    /// Redundancy of the link group.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    /// Connections that write by the link.
    pub(crate) conns: Option<u64>,
    /// RMBs of the group.
    pub(crate) rmbs: Option<u64>,
    /// Bytes in RDMA writes on the link.
    pub(crate) write_bytes: Option<u64>,
    /// Number of the queue pair.
    pub(crate) qpn: Option<String>,
    /// Number of the peer's queue pair.
    pub(crate) peer_qpn: Option<String>,
    /// Words that this version of the program does not know.
    #[serde(flatten)]
    pub(crate) other: Other,
}

impl From<Record> for Link {
    fn from(mut record: Record) -> Self {
        Self {
            lgr: record.text("lgr"),
            role: record.text("role"),
            version: record.number("version"),
            peer: record.text("peer"),
            peer_gid: record.text("peer_gid"),
            dev: record.text("dev"),
            state: record.text("state"),
            link: record.number("link"),
            kind: record.text("type"),
            conns: record.number("conns"),
            rmbs: record.number("rmbs"),
            write_bytes: record.number("write_bytes"),
            qpn: record.text("qpn"),
            peer_qpn: record.text("peer_qpn"),
            other: record.other(),
        }
    }
}

impl Link {
    /// The peer as people know it: its GID as an address, IPv4 where it stands for one.
    pub(crate) fn peer_text(&self) -> String {
        let Some(gid) = self.peer.as_ref().or(self.peer_gid.as_ref()) else {
            return String::new();
        };
        match gid.parse::<std::net::Ipv6Addr>() {
            Ok(address) => address.to_string(),
            Err(_) => gid.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_is_written_as_an_address() {
        let link = |gid: &str| Link {
            peer_gid: Some(gid.into()),
            ..Link::default()
        };
        let mapped = link("0:0:0:0:0:ffff:c0a8:4d02");
        assert_eq!(mapped.peer_text(), "::ffff:192.168.77.2");
        assert_eq!(link("fd77:0:0:0:0:0:0:2").peer_text(), "fd77::2");
        assert_eq!(link("odd").peer_text(), "odd");
        assert_eq!(Link::default().peer_text(), "");
    }
}
