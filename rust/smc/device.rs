// SPDX-License-Identifier: GPL-2.0

//! RDMA devices that SMC-R may use, and which of them serves a connection.
//!
//! Source: RFC 7609 section 3.5.1.2; which devices qualify is local policy.

use super::{
    engine,
    link_group::LinkGroup,
    Engine, //
};
use crate::{
    kapi::{
        net::netdev::Egress,
        rdma::{
            client::{
                ClientOps,
                Event,
                Slot, //
            },
            device::{
                Device,
                GidWant,
                LocalGid, //
            },
        },
    },
    proto::wire::Mac, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
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
    /// Whether the port still has the address. Sleeps.
    pub(crate) fn is_current(&self) -> bool {
        self.device.has_gid(self.port, &self.gid)
    }

    /// The MAC address of the path.
    pub(crate) fn mac(&self) -> Mac {
        Mac::new(self.gid.mac)
    }
}

/// Whether a port belongs to a network device of that namespace.
fn serves(device: &Device, port: u32, net_cookie: u64) -> bool {
    device
        .netdev(port)
        .is_some_and(|netdev| netdev.net_cookie == net_cookie)
}

impl Engine {
    /// Whether any device could carry SMC-R for this network namespace. Sleeps.
    pub(crate) fn has_device(&self, net_cookie: u64) -> bool {
        self.devices
            .lock()
            .iter()
            .any(|device| (1..=device.phys_ports()).any(|port| serves(device, port, net_cookie)))
    }

    /// Finds the path for a connection that leaves by `egress` from the address `ip` (IPv4 in
    /// mapped form). Sleeps.
    pub(crate) fn find_path(&self, net_cookie: u64, egress: &Egress, ip: [u8; 16]) -> Option<Path> {
        let want = GidWant {
            v1: true,
            v2: true,
            ip: Some(ip),
            net_cookie: Some(net_cookie),
        };
        let devices = self.devices.lock();
        devices.iter().find_map(|device| {
            let (port, gid) = device.find_port(egress.ifindex, &want)?;
            Some(Path {
                device: device.clone(),
                port,
                gid,
                vlan: egress.vlan,
            })
        })
    }

    /// Finds a port for another link of a group: in the network of `path`, and not one that
    /// `taken` names (`SMCR-LLF-10`, `SMCR-LLF-14`, `SMCR-LLF-20`). Sleeps.
    pub(crate) fn find_other(
        &self,
        net_cookie: u64,
        path: &Path,
        taken: impl Fn(&Arc<Device>, u32) -> bool,
    ) -> Option<Path> {
        let devices = self.devices.lock();
        devices.iter().find_map(|device| {
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

/// Our client of the verbs core. Its data of a device is the device.
pub(crate) struct SmcClient;

/// What the client keeps per device.
pub(crate) struct SmcDevice(Arc<Device>);

impl ClientOps for SmcClient {
    type Data = SmcDevice;

    fn slot() -> &'static Slot {
        static SLOT: Slot = Slot::new();
        &SLOT
    }

    fn add(device: &Arc<Device>) -> Result<Arc<SmcDevice>> {
        let engine = engine().ok_or(ENODEV)?;
        let data = Arc::new(SmcDevice(device.clone()), GFP_KERNEL)?;
        engine.devices.lock().push(device.clone(), GFP_KERNEL)?;
        LinkGroup::suggest_all(&engine);
        Ok(data)
    }

    fn remove(data: Arc<SmcDevice>) {
        let Some(engine) = engine() else { return };
        engine
            .devices
            .lock()
            .retain(|known| !Arc::ptr_eq(known, &data.0));
        LinkGroup::leave_device(&engine, &data.0);
    }

    fn event(data: &SmcDevice, event: Event) {
        let Some(engine) = engine() else { return };
        match event {
            Event::PortError(port) => LinkGroup::doubt_port(&engine, &data.0, port),
            Event::DeviceFatal => LinkGroup::fail_device(&engine, &data.0),
            Event::PortActive(_) => LinkGroup::suggest_all(&engine),
            Event::GidChange(port) => {
                LinkGroup::check_addresses(&engine, &data.0, port);
                LinkGroup::suggest_all(&engine);
            }
        }
    }
}
