// SPDX-License-Identifier: GPL-2.0

//! Our client of the verbs core: devices come, change and go.

use super::{
    context::Context,
    device::{
        DeviceList,
        PortUser, //
    },
    engine::engine, //
};
use crate::kapi::{
    base::{
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
    verbs::{
        client::{
            ClientOps,
            Event,
            Slot, //
        },
        device::Device, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Our client of the verbs core.
pub(crate) struct SmcClient;

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
pub(crate) struct SmcDevice {
    /// The device.
    device: Arc<Device>,
    /// Work queues of the engine.
    context: Arc<Context>,
    /// The list that the device is in.
    devices: Arc<DeviceList>,
    /// The user of ports, which gets the events.
    user: Arc<dyn PortUser>,
    /// Events that the work item has yet to handle.
    #[pin]
    news: SpinLockBh<News>,
    /// Handles the events.
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
                context: engine.context.clone(),
                devices: engine.devices.clone(),
                user: engine.groups.clone(),
                news <- new_spinlock_bh!(News::default(), "rdma_sock_device_news"),
                work <- new_deferred!("rdma_sock_device_work"),
            }),
            GFP_KERNEL,
        )?;
        data.devices.add(device)?;
        data.user.ports_added();
        Ok(data)
    }

    fn remove(data: Arc<SmcDevice>) {
        data.work.cancel_sync();
        data.devices.remove(&data.device);
        data.user.device_removed(&data.device);
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
        data.work.kick(data, &data.context.links);
    }
}
