// SPDX-License-Identifier: GPL-2.0

//! Our client of the verbs core: devices come, change and go, and the users of ports learn of it.

use super::{
    ports::{
        DeviceList,
        PortUser, //
    },
    quota::Quotas, //
};
use crate::kapi::{
    base::{
        sync::{
            new_spinlock_bh,
            Global,
            SpinLockBh, //
        },
        work::{
            new_deferred,
            Deferred,
            Run,
            WorkQueue, //
        },
    },
    verbs::{
        client::{
            ClientOps,
            ClientRegistration,
            ClientSlot,
            PortEvent, //
        },
        device::Device, //
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

/// Users of ports: one for each protocol.
const MAX_USERS: usize = 2;

/// The users of ports, in the order in which they came.
type Users = [Option<Arc<dyn PortUser>>; MAX_USERS];

/// The devices of the host, with the users of their ports.
#[pin_data]
pub(crate) struct Fabric {
    /// RDMA devices that can be used.
    pub(crate) devices: Arc<DeviceList>,
    /// Buffer memory of all protocols, and its limits.
    pub(crate) quotas: Arc<Quotas>,
    /// The users of ports, which get their events.
    #[pin]
    users: Mutex<Users>,
    /// Runs the work items of devices.
    queue: WorkQueue,
}

/// The fabric, for callbacks that come without context. `None` while the module goes.
static FABRIC: Global<Fabric> = Global::new();

impl Fabric {
    /// Copies the users. The caller calls them without the lock. Context: may sleep.
    fn users(&self) -> Users {
        self.users.lock().clone()
    }

    /// Calls `f` for each user. Context: may sleep.
    fn for_each_user(&self, f: impl Fn(&dyn PortUser)) {
        for user in self.users().iter().flatten() {
            f(&**user);
        }
    }
}

/// The registered fabric. Dropping it takes all devices out.
pub(crate) struct FabricRegistration {
    /// The client of the verbs core.
    client: Option<ClientRegistration<PortClient>>,
    /// The fabric.
    pub(crate) fabric: Arc<Fabric>,
}

impl FabricRegistration {
    /// Finds the devices of the host. Context: may sleep.
    pub(crate) fn new() -> Result<Self> {
        let fabric = Arc::pin_init(
            pin_init!(Fabric {
                devices: DeviceList::new()?,
                quotas: Quotas::new()?,
                users <- new_mutex!([const { None }; MAX_USERS], "rdma_sock_port_users"),
                queue: WorkQueue::new(c"rdma_sock_port")?,
            }? Error),
            GFP_KERNEL,
        )?;
        FABRIC.set(fabric.clone());
        let mut this = Self {
            client: None,
            fabric,
        };
        this.client = Some(ClientRegistration::new(c"rdma_sock")?);
        Ok(this)
    }
}

impl Drop for FabricRegistration {
    fn drop(&mut self) {
        drop(self.client.take());
        // A work item that still runs may use the fabric.
        self.fabric.queue.flush();
        FABRIC.clear();
    }
}

/// A registered user of ports, which hears no more events once this is dropped.
pub(crate) struct UserRegistration {
    fabric: Arc<Fabric>,
    user: Arc<dyn PortUser>,
}

impl UserRegistration {
    /// Adds a user. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are too many.
    pub(crate) fn new(fabric: &Arc<Fabric>, user: Arc<dyn PortUser>) -> Result<Self> {
        {
            let mut users = fabric.users.lock();
            let place = users.iter_mut().find(|place| place.is_none());
            *place.ok_or(ENOSPC)? = Some(user.clone());
        }
        // Ports that were there before.
        user.ports_added();
        Ok(Self {
            fabric: fabric.clone(),
            user,
        })
    }
}

impl Drop for UserRegistration {
    fn drop(&mut self) {
        // The table of methods may exist more than once; the object does not.
        let is_this =
            |user: &Arc<dyn PortUser>| core::ptr::addr_eq(&raw const **user, &raw const *self.user);
        let mut users = self.fabric.users.lock();
        for place in users.iter_mut() {
            if place.as_ref().is_some_and(is_this) {
                *place = None;
            }
        }
        drop(users);
        self.fabric.queue.flush();
    }
}

/// Our client of the verbs core.
pub(crate) struct PortClient;

/// Events of a device that the work item has yet to handle.
#[derive(Clone, Copy, Default)]
struct News {
    /// Ports that failed, and ports with other addresses: one bit each.
    failed: u64,
    changed: u64,
    /// The device has failed.
    fatal: bool,
}

/// The state of the client for one device.
#[pin_data]
pub(crate) struct PortDevice {
    /// The device.
    device: Arc<Device>,
    /// The list that the device is in, and the users of its ports.
    fabric: Arc<Fabric>,
    /// Events that the work item has yet to handle.
    #[pin]
    news: SpinLockBh<News>,
    /// Handles the events.
    #[pin]
    work: Deferred<PortDevice>,
}

/// The bit of a port. All of the ports whose numbers are too large share one.
const fn bit(port: u32) -> u64 {
    match 1u64.checked_shl(port) {
        Some(bit) => bit,
        None => 1 << 63,
    }
}

impl Run<0> for PortDevice {
    fn run(this: Arc<Self>) {
        let news = core::mem::take(&mut *this.news.lock());
        let device = &this.device;
        this.fabric.for_each_user(|user| {
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
        });
    }
}

impl ClientOps for PortClient {
    type Data = PortDevice;

    fn slot() -> &'static ClientSlot {
        static SLOT: ClientSlot = ClientSlot::new();
        &SLOT
    }

    fn add(device: &Arc<Device>) -> Result<Arc<PortDevice>> {
        let fabric = FABRIC.get().ok_or(ENODEV)?;
        let (its_device, its_fabric) = (device.clone(), fabric.clone());
        let data = Arc::pin_init(
            pin_init!(PortDevice {
                device: its_device,
                fabric: its_fabric,
                news <- new_spinlock_bh!(News::default(), "rdma_sock_device_news"),
                work <- new_deferred!("rdma_sock_device_work"),
            }),
            GFP_KERNEL,
        )?;
        fabric.devices.add(device)?;
        fabric.for_each_user(|user| user.ports_added());
        Ok(data)
    }

    fn remove(data: Arc<PortDevice>) {
        data.work.cancel_sync();
        data.fabric.devices.remove(&data.device);
        data.fabric
            .for_each_user(|user| user.device_removed(&data.device));
    }

    fn event(data: &Arc<PortDevice>, event: PortEvent) {
        {
            let mut news = data.news.lock();
            match event {
                PortEvent::PortError(port) => news.failed |= bit(port),
                PortEvent::GidChange(port) => news.changed |= bit(port),
                PortEvent::DeviceFatal => news.fatal = true,
                // A link may be added, which is tried after any news.
                PortEvent::PortActive(_) => {}
            }
        }
        data.work.kick(data, &data.fabric.queue);
    }
}
