// SPDX-License-Identifier: GPL-2.0

//! RDMA devices that SMC-R may use, and which of them serves a connection.
//!
//! Source: RFC 7609 section 3.5.1.2; which devices qualify is local policy.

use super::{
    engine,
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
        sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
        work::{
            new_deferred,
            Deferred,
            Run, //
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
    /// Copies the list of devices. The caller looks at them without the lock of the list, so that a
    /// slow driver delays no user of another device. Sleeps.
    pub(crate) fn known_devices(&self) -> Result<KVec<Arc<Device>>> {
        let devices = self.devices.lock();
        let mut known = KVec::with_capacity(devices.len(), GFP_KERNEL)?;
        known.extend_from_slice(&devices, GFP_KERNEL)?;
        Ok(known)
    }

    /// Whether any device could carry SMC-R for this network namespace. Sleeps.
    pub(crate) fn has_device(&self, net_cookie: u64) -> bool {
        self.known_devices().is_ok_and(|devices| {
            devices.iter().any(|device| {
                (1..=device.phys_ports()).any(|port| serves(device, port, net_cookie))
            })
        })
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
        self.known_devices().ok()?.iter().find_map(|device| {
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
        self.known_devices().ok()?.iter().find_map(|device| {
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

/// A user of ports, which learns of their changes. Context of all methods: may sleep.
pub(crate) trait PortUser: Send + Sync {
    /// A device or a port has become usable.
    fn ports_added(&self);

    /// A port has failed.
    fn port_failed(&self, device: &Arc<Device>, port: u32);

    /// The addresses of a port have changed.
    fn addresses_changed(&self, device: &Arc<Device>, port: u32);

    /// The device does not work any more, and stays for now.
    fn device_failed(&self, device: &Arc<Device>);

    /// The device goes: on return nothing of the user is on it.
    fn device_removed(&self, device: &Arc<Device>);
}

/// Our client of the verbs core. Its data of a device is the device.
pub(crate) struct SmcClient;

/// What has happened to a device and was not looked at yet.
#[derive(Clone, Copy, Default)]
struct News {
    /// Ports that failed, and ports with other addresses: one bit each.
    failed: u64,
    changed: u64,
    /// The device does not work any more.
    fatal: bool,
}

/// What the client keeps per device.
#[pin_data]
pub(crate) struct SmcDevice {
    device: Arc<Device>,
    engine: Arc<Engine>,
    user: Arc<dyn PortUser>,
    #[pin]
    news: SpinLockBh<News>,
    #[pin]
    work: Deferred<SmcDevice>,
}

/// The bit of a port. All of the ports whose numbers are too large share one.
const fn bit(port: u32) -> u64 {
    match 1u64.checked_shl(port) {
        Some(bit) => bit,
        None => 1 << 63,
    }
}

impl Run<0> for SmcDevice {
    fn run(this: Arc<Self>) {
        let news = core::mem::take(&mut *this.news.lock());
        let (user, device) = (&this.user, &this.device);
        if news.fatal {
            user.device_failed(device);
        }
        for port in 1..=device.phys_ports() {
            if news.failed & bit(port) != 0 {
                user.port_failed(device, port);
            }
            if news.changed & bit(port) != 0 {
                user.addresses_changed(device, port);
            }
        }
        user.ports_added();
    }
}

impl ClientOps for SmcClient {
    type Data = SmcDevice;

    fn slot() -> &'static Slot {
        static SLOT: Slot = Slot::new();
        &SLOT
    }

    fn add(device: &Arc<Device>) -> Result<Arc<SmcDevice>> {
        let engine = engine().ok_or(ENODEV)?;
        let data = Arc::pin_init(
            pin_init!(SmcDevice {
                device: device.clone(),
                user: engine.clone(),
                engine,
                news <- new_spinlock_bh!(News::default(), "rdma_sock_device_news"),
                work <- new_deferred!("rdma_sock_device_work"),
            }),
            GFP_KERNEL,
        )?;
        let engine = &data.engine;
        engine.devices.lock().push(device.clone(), GFP_KERNEL)?;
        data.user.ports_added();
        Ok(data)
    }

    fn remove(data: Arc<SmcDevice>) {
        data.work.cancel_sync();
        let (engine, device) = (&data.engine, &data.device);
        engine
            .devices
            .lock()
            .retain(|known| !Arc::ptr_eq(known, device));
        data.user.device_removed(device);
    }

    fn event(data: &Arc<SmcDevice>, event: Event) {
        {
            let mut news = data.news.lock();
            match event {
                Event::PortError(port) => news.failed |= bit(port),
                Event::GidChange(port) => news.changed |= bit(port),
                Event::DeviceFatal => news.fatal = true,
                // A link may be added, which is tried after any news.
                Event::PortActive(_) => {}
            }
        }
        data.work.kick(data, &data.engine.links);
    }
}
