// SPDX-License-Identifier: GPL-2.0

//! RDMA devices of the host, and which of their ports serves a connection.

use crate::kapi::{
    net::netdev::Egress,
    verbs::device::{
        Device,
        GidWant,
        LocalGid,
        NetdevId, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A port of a device and the address it has in the network of a connection.
#[derive(Clone)]
pub(crate) struct Path {
    /// The device.
    pub(crate) device: Arc<Device>,
    /// Its port, counted from 1.
    pub(crate) port: u32,
    /// The GID to use, with the MAC behind it.
    pub(crate) gid: LocalGid,
    /// The VLAN of the IP connection (`SMCR-LGR-24`).
    pub(crate) vlan: Option<u16>,
}

impl Path {
    /// Whether the port still has the address. Context: may sleep.
    pub(crate) fn is_current(&self) -> bool {
        self.device.has_gid(self.port, &self.gid)
    }

    /// The MAC address of the path.
    pub(crate) fn mac(&self) -> [u8; 6] {
        self.gid.mac
    }
}

/// Whether a port belongs to a network device of that namespace.
fn serves(device: &Device, port: u32, net_cookie: u64) -> bool {
    device
        .netdev(port)
        .is_some_and(|netdev| netdev.net_cookie == net_cookie)
}

/// The RDMA devices of the host.
#[pin_data]
pub(crate) struct DeviceList {
    #[pin]
    list: Mutex<KVec<Arc<Device>>>,
}

impl DeviceList {
    /// No device yet. Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let list = new_mutex!(KVec::new(), "rdma_sock_devices");
        Arc::pin_init(pin_init!(Self { list <- list }), GFP_KERNEL)
    }

    /// Enters a device. Context: may sleep.
    pub(crate) fn add(&self, device: &Arc<Device>) -> Result {
        Ok(self.list.lock().push(device.clone(), GFP_KERNEL)?)
    }

    /// Takes a device out. Context: may sleep.
    pub(crate) fn remove(&self, device: &Arc<Device>) {
        self.list.lock().retain(|known| !Arc::ptr_eq(known, device));
    }

    /// Copies the list of devices. The caller looks at them without the lock of the list, so that a
    /// slow driver delays no user of another device. Context: may sleep.
    pub(crate) fn known(&self) -> Result<KVec<Arc<Device>>> {
        let devices = self.list.lock();
        let mut known = KVec::with_capacity(devices.len(), GFP_KERNEL)?;
        known.extend_from_slice(&devices, GFP_KERNEL)?;
        Ok(known)
    }

    /// Whether any device serves this network namespace. Context: may sleep.
    pub(crate) fn serve(&self, net_cookie: u64) -> bool {
        self.known().is_ok_and(|devices| {
            devices.iter().any(|device| {
                (1..=device.phys_ports()).any(|port| serves(device, port, net_cookie))
            })
        })
    }

    /// Finds the path for a connection that leaves by `egress` from the address `ip` (IPv4 in
    /// mapped form). A device of that very interface comes before one of a card below, which has
    /// the address as well, but may not get the packets for it. Context: may sleep.
    pub(crate) fn find_path(&self, net_cookie: u64, egress: &Egress, ip: [u8; 16]) -> Option<Path> {
        let want = GidWant {
            v1: true,
            v2: true,
            ip: Some(ip),
            net_cookie: Some(net_cookie),
        };
        let own = NetdevId {
            ifindex: egress.ifindex,
            net_cookie,
        };
        let mut below = None;
        for device in &self.known().ok()? {
            let Some((port, gid)) = device.find_port(egress.ifindex, &want) else {
                continue;
            };
            let path = Path {
                device: device.clone(),
                port,
                gid,
                vlan: egress.vlan,
            };
            if device.netdev(port) == Some(own) {
                return Some(path);
            }
            below = below.or(Some(path));
        }
        below
    }

    /// Finds the address that `rank` gives most, the first of those, on a port that `may_use` allows
    /// and that the namespace can use. `rank` is told whether the network device of the address has
    /// `near` in a subnet. Context: may sleep.
    pub(crate) fn find_ranked(
        &self,
        net_cookie: u64,
        near: &[u8; 16],
        may_use: impl Fn(&Arc<Device>, u32) -> bool,
        rank: impl Fn(&LocalGid, bool) -> Option<u8>,
    ) -> Option<Path> {
        let mut best: Option<(u8, Path)> = None;
        for device in &self.known().ok()? {
            if !device.allows(net_cookie) {
                continue;
            }
            for port in (1..=device.phys_ports()).filter(|port| may_use(device, *port)) {
                let Some((rank, gid)) = device.best_gid(port, near, &rank) else {
                    continue;
                };
                if best.as_ref().is_none_or(|(known, _)| rank > *known) {
                    let path = Path {
                        device: device.clone(),
                        port,
                        gid,
                        vlan: gid.vlan,
                    };
                    best = Some((rank, path));
                }
            }
        }
        best.map(|(_, path)| path)
    }

    /// Finds a port for another link of a group: in the network of `path`, and not one that
    /// `taken` names (`SMCR-LLF-10`, `SMCR-LLF-14`, `SMCR-LLF-20`). Context: may sleep.
    pub(crate) fn find_other(
        &self,
        net_cookie: u64,
        path: &Path,
        taken: impl Fn(&Arc<Device>, u32) -> bool,
    ) -> Option<Path> {
        self.known().ok()?.iter().find_map(|device| {
            let (port, gid) =
                device.find_neighbour(&path.gid, net_cookie, |port| taken(device, port))?;
            Some(Path {
                device: device.clone(),
                port,
                gid,
                vlan: path.vlan,
            })
        })
    }
}

/// A user of ports, notified of their changes. Context: may sleep.
pub(crate) trait PortUser: Send + Sync {
    /// A device or a port has become usable.
    fn ports_added(&self);

    /// A port has failed.
    fn port_failed(&self, device: &Arc<Device>, port: u32);

    /// The addresses of a port have changed.
    fn addresses_changed(&self, device: &Arc<Device>, port: u32);

    /// The device has failed, and stays for now.
    fn device_failed(&self, device: &Arc<Device>);

    /// The device goes: on return the user has no object on it.
    fn device_removed(&self, device: &Arc<Device>);
}
