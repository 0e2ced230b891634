// SPDX-License-Identifier: GPL-2.0

//! The devices of the module.
//!
//! A device is listed from before its registration until the verbs core releases it, so unloading
//! the module finds each, and so does the removal of a network device.

use super::{
    device::{
        DeviceOwner,
        SoftDevice, //
    },
    node::Node,
    ports::{
        NetPorts,
        PortTable, //
    },
    runtime::{
        GsiLookup,
        Runtime, //
    },
};
use crate::kapi::{
    base::sync::Global,
    ibdev::{
        IbDevice,
        IbDeviceSetup,
        RoceVersions,
        LOCAL_DMA_KEY, //
    },
    net::netdev_ref::{
        NetDevice,
        NetdevKind,
        Rtnl, //
    },
};
use core::sync::atomic::{
    AtomicBool,
    Ordering, //
};
use kernel::{
    new_condvar, new_mutex,
    prelude::*,
    sync::{
        Arc,
        CondVar,
        Mutex, //
    },
};

/// The registry, for callbacks that the kernel gives no context.
pub(super) static REGISTRY: Global<Registry> = Global::new();

/// A device that exists.
struct ListedDevice {
    device: Arc<SoftDevice>,
    /// The registration, once it succeeded.
    registered: Option<IbDevice<SoftDevice>>,
    /// Whether the verbs core has released it. It may still be about to leave this module.
    released: bool,
}

/// All devices.
#[pin_data]
pub(super) struct Registry {
    /// Taken below the RTNL. No operation of the verbs core that waits is called with it.
    #[pin]
    devices: Mutex<KVec<ListedDevice>>,
    /// A device was released, or registered.
    #[pin]
    changed: CondVar,
    /// What all devices share.
    runtime: Arc<Runtime>,
    /// UDP ports.
    ports: Arc<PortTable>,
    /// Versions of RoCE of new devices.
    versions: RoceVersions,
    /// Whether the module is being unloaded.
    ending: AtomicBool,
}

impl Registry {
    /// An empty registry. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(runtime: &Arc<Runtime>, versions: RoceVersions) -> Result<Arc<Self>> {
        let ports = PortTable::new(runtime.paths().arrival())?;
        Arc::pin_init(
            pin_init!(Self {
                devices <- new_mutex!(KVec::new(), "rdma_soft_devices"),
                changed <- new_condvar!("rdma_soft_devices_changed"),
                runtime: runtime.clone(),
                ports,
                versions,
                ending: AtomicBool::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// What all devices share.
    pub(super) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Makes a device on a network device (RNIC-NET-01). Context: may sleep. The caller
    /// does not hold the RTNL.
    ///
    /// # Errors
    ///
    /// `EPERM` for a network device that carries no RoCE; `EEXIST` if it has a device; `ENODEV` if it
    /// is being removed; those of [`IbDevice::register`].
    pub(super) fn add(self: &Arc<Self>, name: &CStr, netdev: &NetDevice) -> Result {
        if netdev.kind() == NetdevKind::Other {
            return Err(EPERM);
        }
        self.forget_released();
        let device = self.list(netdev)?;
        let setup = IbDeviceSetup {
            description: c"rdma_soft",
            node_guid: device.guid(),
            local_dma_lkey: LOCAL_DMA_KEY,
        };
        // If it fails, `released` was called.
        let registered = IbDevice::register(device.clone(), name, &setup)?;
        let mut devices = self.devices.lock();
        let listed = devices.iter_mut().find(|listed| listed.is(&device));
        let gone = listed.is_none();
        if let Some(listed) = listed {
            listed.registered = Some(registered.clone());
        }
        drop(devices);
        self.changed.notify_all();
        if gone {
            // Another task has released it already, and may be about to leave this module.
            registered.unregister();
            return Ok(());
        }
        // The network device may have begun to go away in between; its notification found no
        // registration.
        if !device.node().is_on(netdev) {
            registered.unregister_later();
        }
        Ok(())
    }

    /// Lists a new device, unless the network device has one or is being removed.
    fn list(self: &Arc<Self>, netdev: &NetDevice) -> Result<Arc<SoftDevice>> {
        // The notification of a removal comes with the RTNL.
        let rtnl = Rtnl::lock();
        if !netdev.is_registered(&rtnl) {
            return Err(ENODEV);
        }
        if self.find(netdev).is_some() {
            return Err(EEXIST);
        }
        let ports = NetPorts::open(&self.ports, &netdev.net(&rtnl))?;
        let node = Node::new(&self.runtime, netdev.hold(), ports)?;
        let device = SoftDevice::new(self.clone(), node.clone(), self.versions)?;
        let mut devices = self.devices.lock();
        devices.reserve(1, GFP_KERNEL)?;
        self.runtime.add(node)?;
        devices.push(
            ListedDevice {
                device: device.clone(),
                registered: None,
                released: false,
            },
            GFP_KERNEL,
        )?;
        Ok(device)
    }

    /// The registration of the device on a network device, and that device.
    fn find(&self, netdev: &NetDevice) -> Option<(Arc<SoftDevice>, Option<IbDevice<SoftDevice>>)> {
        let devices = self.devices.lock();
        let listed = devices
            .iter()
            .find(|listed| listed.device.node().is_on(netdev))?;
        Some((listed.device.clone(), listed.registered.clone()))
    }

    /// A network device is removed: its device gives it up and is unregistered. Context: may
    /// sleep. The caller holds the RTNL.
    pub(super) fn netdev_gone(&self, netdev: &NetDevice) {
        if let Some((device, registered)) = self.find(netdev) {
            device.node().leave_netdev();
            if let Some(registered) = registered {
                registered.unregister_later();
            }
        }
    }

    /// The state of a network device may have changed (RNIC-NET-05). Context: may sleep. The
    /// caller holds the RTNL.
    pub(super) fn netdev_state(&self, netdev: &NetDevice) {
        if let Some((device, Some(registered))) = self.find(netdev) {
            device.node().note_state(netdev.is_active());
            registered.dispatch_port_state(netdev);
        }
    }

    /// Forgets devices that were released, once the task that released them has left this module.
    /// Context: may sleep. The caller holds no lock that the operations of a device take.
    fn forget_released(&self) {
        loop {
            let mut devices = self.devices.lock();
            let index = devices.iter().position(|listed| listed.released);
            let removed = index.and_then(|index| devices.remove(index).ok());
            drop(devices);
            let Some(removed) = removed else {
                return;
            };
            if let Some(registered) = removed.registered {
                registered.unregister();
            }
        }
    }

    /// Unregisters all devices and waits until the last one has left this module. Context: may sleep. No
    /// device may be added meanwhile.
    pub(super) fn unregister_all(&self) {
        self.ending.store(true, Ordering::Relaxed);
        loop {
            self.forget_released();
            let mut devices = self.devices.lock();
            if devices.is_empty() {
                break;
            }
            let registered = devices
                .iter()
                .find(|listed| !listed.released)
                .map(|listed| listed.registered.clone());
            match registered {
                Some(Some(registered)) => {
                    drop(devices);
                    // On return the device was released, also if another task unregistered it.
                    registered.unregister();
                }
                // A registration is failing.
                Some(None) => self.changed.wait(&mut devices),
                None => {}
            }
        }
        // Work items of destroyed objects may still run, and keep them. The end of the last queue pair closes
        // its sender by a work item.
        self.runtime.timers().flush();
        self.runtime.runs().flush();
        self.runtime.timers().flush();
    }
}

impl DeviceOwner for Registry {
    fn released(&self, device: &Arc<SoftDevice>) {
        let mut devices = self.devices.lock();
        let index = devices.iter().position(|listed| listed.is(device));
        let listed = index.and_then(|index| devices.get_mut(index));
        let removed = match (index, listed) {
            // Another task runs this, which unloading the module has to wait for.
            (_, Some(listed)) if listed.registered.is_some() => {
                listed.released = true;
                None
            }
            (Some(index), _) => devices.remove(index).ok(),
            (None, _) => None,
        };
        drop(devices);
        // Its references must not be dropped with the lock; the caller has one.
        drop(removed);
        // A removal that neither the network device nor this module asked for (RNIC-LIFE-08).
        if device.node().netdev().is_some() && !self.ending.load(Ordering::Relaxed) {
            let guid = u64::from_be_bytes(device.guid());
            pr_info!("device {guid:016x} removed by ib_core\n");
        }
        let node: Arc<dyn GsiLookup> = device.node().clone();
        self.runtime.remove(&node);
        device.node().leave_netdev();
        self.changed.notify_all();
    }
}

impl ListedDevice {
    /// Whether it is this device.
    fn is(&self, device: &Arc<SoftDevice>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }
}
