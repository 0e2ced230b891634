// SPDX-License-Identifier: GPL-2.0

//! The network devices of this namespace, from sysfs.

use anyhow::{
    Context,
    Result, //
};
use std::{
    fs,
    path::Path, //
};

pub(super) const FOLDER: &str = "/sys/class/net";

/// `ARPHRD_ETHER`.
const TYPE_ETHERNET: u32 = 1;
/// `IFF_UP`.
const FLAG_UP: u32 = 1;

/// A network device.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Netdev {
    pub(super) name: String,
    kind: u32,
    flags: u32,
    is_vlan: bool,
}

impl Netdev {
    /// Is it up, and of a kind that soft-RoCE can use?
    pub(super) fn is_up_ethernet(&self) -> bool {
        self.kind == TYPE_ETHERNET && self.flags & FLAG_UP != 0 && !self.is_vlan
    }
}

/// Reads the devices, in the order of their names. One that goes away meanwhile is left out.
pub(super) fn list(folder: &Path) -> Result<Vec<Netdev>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut netdevs: Vec<Netdev> = entries
        .flatten()
        .filter_map(|entry| read(&entry.path()))
        .collect();
    netdevs.sort();
    Ok(netdevs)
}

fn read(dir: &Path) -> Option<Netdev> {
    let text = |file| fs::read_to_string(dir.join(file)).ok();
    Some(Netdev {
        name: dir.file_name()?.to_str()?.to_string(),
        kind: text("type")?.trim().parse().ok()?,
        flags: u32::from_str_radix(text("flags")?.trim().strip_prefix("0x")?, 16).ok()?,
        is_vlan: text("uevent")?.lines().any(|line| line == "DEVTYPE=vlan"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ethernet_devices_that_are_up_and_no_vlan_qualify() {
        let root = tempfile::tempdir().unwrap();
        for (name, kind, flags, uevent) in [
            ("eth0", "1\n", "0x1003\n", "INTERFACE=eth0\n"),
            ("eth1", "1\n", "0x1002\n", "INTERFACE=eth1\n"),
            (
                "eth0.5",
                "1\n",
                "0x1003\n",
                "DEVTYPE=vlan\nINTERFACE=eth0.5\n",
            ),
            ("lo", "772\n", "0x9\n", "INTERFACE=lo\n"),
        ] {
            let dir = root.path().join(name);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("type"), kind).unwrap();
            fs::write(dir.join("flags"), flags).unwrap();
            fs::write(dir.join("uevent"), uevent).unwrap();
        }
        // Not a device: sysfs has such a file where bonding is loaded.
        fs::write(root.path().join("bonding_masters"), "").unwrap();
        let netdevs = list(root.path()).unwrap();
        assert_eq!(netdevs.len(), 4);
        let names: Vec<&str> = netdevs
            .iter()
            .filter(|dev| dev.is_up_ethernet())
            .map(|dev| dev.name.as_str())
            .collect();
        assert_eq!(names, ["eth0"]);
    }
}
