// SPDX-License-Identifier: GPL-2.0

//! Ports of RDMA devices: the lines of the file `devices`, with what sysfs adds.

use rustix::net;
use serde::Serialize;
use std::{
    fs,
    path::Path, //
};

use super::{
    gid::{
        self,
        Gid, //
    },
    record::{
        Other,
        Record, //
    },
};
use crate::device::Port;

/// One line of `devices`: a port of an RDMA device.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Device {
    /// Name of the RDMA device.
    pub(crate) dev: Option<String>,
    /// Number of the port, from 1.
    pub(crate) port: Option<u64>,
    /// Index of the network device.
    pub(crate) ifindex: Option<u64>,
    /// Name of the network device.
    pub(crate) netdev: Option<String>,
    /// State of the port.
    pub(crate) state: Option<String>,
    /// The GID of the port that names it best.
    pub(crate) gid: Option<String>,
    /// All GIDs of the port.
    pub(crate) gids: Vec<Gid>,
    /// Ethernet address of the network device.
    pub(crate) mac: Option<String>,
    /// Whether the module can use the port; null if the module is not loaded.
    pub(crate) usable: Option<bool>,
    /// Words that this version of the program does not know.
    #[serde(flatten)]
    pub(crate) other: Other,
}

impl From<Record> for Device {
    fn from(mut record: Record) -> Self {
        let ifindex = record.number("ifindex");
        Self {
            dev: record.text("dev"),
            port: record.number("port"),
            ifindex,
            netdev: record.text("netdev").or_else(|| netdev_name(ifindex?)),
            state: record.text("state"),
            gid: record.text("gid"),
            gids: Vec::new(),
            mac: record.text("mac"),
            usable: record.flag("usable"),
            other: record.other(),
        }
    }
}

impl From<Port> for Device {
    fn from(port: Port) -> Self {
        Self {
            dev: Some(port.device),
            port: Some(port.port.into()),
            netdev: port.netdev,
            state: Some(port.state.to_string()),
            ..Self::default()
        }
    }
}

impl Device {
    /// Adds the GIDs and the Ethernet address from sysfs. `sys` is `/sys`.
    pub(super) fn complete(mut self, sys: &Path) -> Self {
        if let (Some(dev), Some(port)) = (&self.dev, self.port) {
            self.gids = gid::table(sys, dev, port);
            let best = gid::best(&self.gids, self.netdev.as_deref());
            self.gid = self.gid.or_else(|| Some(best?.gid.to_string()));
        }
        if let (None, Some(netdev)) = (&self.mac, &self.netdev) {
            let file = sys.join("class/net").join(netdev).join("address");
            let text = fs::read_to_string(file).unwrap_or_default();
            self.mac = Some(text.trim().to_string()).filter(|text| !text.is_empty());
        }
        self
    }
}

/// The name of a network device of this namespace.
fn netdev_name(ifindex: u64) -> Option<String> {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::DGRAM, None).ok()?;
    net::netdevice::index_to_name(socket, ifindex.try_into().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_device_is_named_by_its_number() {
        let device = Device::from(Record::parse("dev=rxe0 ifindex=1 usable=1"));
        assert_eq!(device.ifindex, Some(1));
        assert_eq!(device.netdev.as_deref(), Some("lo"));
    }

    #[test]
    fn sysfs_adds_gid_and_ethernet_address() {
        let root = tempfile::tempdir().unwrap();
        let gids = root.path().join("class/infiniband/rxe0/ports/1/gids");
        fs::create_dir_all(&gids).unwrap();
        fs::write(gids.join("1"), "0000:0000:0000:0000:0000:ffff:c000:0201\n").unwrap();
        let eth0 = root.path().join("class/net/eth0");
        fs::create_dir_all(&eth0).unwrap();
        fs::write(eth0.join("address"), "52:54:00:00:00:01\n").unwrap();
        let record = Record::parse("dev=rxe0 port=1 netdev=eth0");
        let device = Device::from(record).complete(root.path());
        assert_eq!(device.gid.as_deref(), Some("::ffff:192.0.2.1"));
        assert_eq!(device.gids.len(), 1);
        assert_eq!(device.mac.as_deref(), Some("52:54:00:00:00:01"));
    }
}
