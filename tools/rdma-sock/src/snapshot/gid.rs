// SPDX-License-Identifier: GPL-2.0

//! GIDs, the RDMA addresses of a port, from `/sys/class/infiniband`.

use serde::Serialize;
use std::{
    fs,
    net::Ipv6Addr,
    path::Path, //
};

/// The kind of GIDs of RoCE v2, as the kernel writes it.
const ROCE_V2: &str = "RoCE v2";

/// An entry of a port's table of GIDs.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Gid {
    /// Index in the table.
    pub(crate) index: u32,
    /// The GID as an IPv6 address.
    pub(crate) gid: Ipv6Addr,
    /// "RoCE v2", "IB/RoCE v1", or another kind.
    pub(crate) kind: Option<String>,
    /// The network device whose address the GID is.
    pub(crate) netdev: Option<String>,
}

/// Reads the table of a port, without the empty entries. `sys` is `/sys`.
pub(super) fn table(sys: &Path, device: &str, port: u64) -> Vec<Gid> {
    let folder = sys
        .join("class/infiniband")
        .join(device)
        .join("ports")
        .join(port.to_string());
    let Ok(entries) = fs::read_dir(folder.join("gids")) else {
        return Vec::new();
    };
    let read = |name: &str| {
        let text = fs::read_to_string(folder.join("gids").join(name)).ok()?;
        let gid: Ipv6Addr = text.trim().parse().ok()?;
        let attribute = |kind: &str| {
            let text = fs::read_to_string(folder.join("gid_attrs").join(kind).join(name)).ok()?;
            Some(text.trim().to_string()).filter(|text| !text.is_empty())
        };
        (!gid.is_unspecified()).then(|| Gid {
            index: name.parse().unwrap_or(u32::MAX),
            gid,
            kind: attribute("types"),
            netdev: attribute("ndevs"),
        })
    };
    let mut gids: Vec<Gid> = entries
        .flatten()
        .filter_map(|entry| read(entry.file_name().to_str()?))
        .collect();
    gids.sort_by_key(|gid| gid.index);
    gids
}

/// The GID that names the port best: of its own network device, RoCE v2, an IPv4 address, then a
/// global IPv6 address, then a link-local one.
pub(super) fn best<'a>(gids: &'a [Gid], netdev: Option<&str>) -> Option<&'a Gid> {
    gids.iter().min_by_key(|gid| {
        let foreign = netdev.is_some() && gid.netdev.as_deref() != netdev;
        let old = gid.kind.as_deref() != Some(ROCE_V2);
        let scope = match gid.gid {
            gid if gid.to_ipv4_mapped().is_some() => 0,
            gid if gid.is_unicast_link_local() => 2,
            _ => 1,
        };
        (foreign, scope, old, gid.index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn port(root: &Path, device: &str) -> PathBuf {
        root.join("class/infiniband").join(device).join("ports/1")
    }

    fn write(root: &Path, device: &str, index: u32, gid: &str, kind: &str, netdev: &str) {
        let port = port(root, device);
        for (folder, text) in [
            ("gids", gid),
            ("gid_attrs/types", kind),
            ("gid_attrs/ndevs", netdev),
        ] {
            fs::create_dir_all(port.join(folder)).unwrap();
            fs::write(port.join(folder).join(index.to_string()), text).unwrap();
        }
    }

    #[test]
    fn table_is_read_in_its_order_without_empty_entries() {
        let root = tempfile::tempdir().unwrap();
        let linklocal = "fe80:0000:0000:0000:5054:00ff:fe00:0001\n";
        let mapped = "0000:0000:0000:0000:0000:ffff:c0a8:4d01\n";
        let empty = "0000:0000:0000:0000:0000:0000:0000:0000\n";
        write(root.path(), "rxe0", 10, mapped, "RoCE v2\n", "net0\n");
        write(root.path(), "rxe0", 2, linklocal, "RoCE v2\n", "net0\n");
        write(root.path(), "rxe0", 3, empty, "", "");
        let gids = table(root.path(), "rxe0", 1);
        let indexes: Vec<u32> = gids.iter().map(|gid| gid.index).collect();
        assert_eq!(indexes, [2, 10]);
        assert_eq!(gids[1].gid.to_string(), "::ffff:192.168.77.1");
        assert_eq!(gids[1].kind.as_deref(), Some("RoCE v2"));
        assert_eq!(best(&gids, Some("net0")).unwrap().index, 10);
        assert!(table(root.path(), "rxe1", 1).is_empty());
    }

    #[test]
    fn best_gid_is_of_the_own_network_device_and_routable() {
        let gid = |index, gid: &str, kind: &str, netdev: &str| Gid {
            index,
            gid: gid.parse().unwrap(),
            kind: Some(kind.into()),
            netdev: Some(netdev.into()),
        };
        let gids = [
            gid(0, "fe80::1", "RoCE v2", "eth0"),
            gid(1, "2001:db8::1", "IB/RoCE v1", "eth0"),
            gid(2, "2001:db8::1", "RoCE v2", "eth0"),
            gid(3, "::ffff:192.0.2.1", "RoCE v2", "eth0.5"),
        ];
        assert_eq!(best(&gids, Some("eth0")).unwrap().index, 2);
        assert_eq!(best(&gids, None).unwrap().index, 3);
        assert_eq!(best(&[], None), None);
    }
}
