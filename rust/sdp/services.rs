// SPDX-License-Identifier: GPL-2.0

//! The ports that SDP listens on, and the requests for them.
//!
//! A service is a port of a namespace with a listener. The connection managers know service ids,
//! which are ports of the host: one listener there is for the services of all namespaces.

use super::{
    links::SdpLinks,
    offer::SERVICE, //
};
use crate::{
    fabric::ports::{
        DeviceList,
        PortUser, //
    },
    kapi::{
        net::{
            addr::Addr,
            sock::Sock, //
        },
        verbs::{
            cm::{
                CmListenOps,
                CmListener,
                CmRequest,
                RejectReason, //
            },
            device::Device,
        },
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

/// Requests of a service id that are not established, at most. Listeners of all namespaces share it, each
/// of which has a limit of its own.
const HALF_OPEN: u32 = 4096;

/// A socket that listens.
pub(super) trait ServiceListener: Send + Sync {
    /// Its sock. Context: any.
    fn sk(&self) -> &Sock;

    /// Answers a request for the address `local` that came to `device`. Context: may sleep.
    fn serve(self: Arc<Self>, request: CmRequest<'_>, device: &Arc<Device>, local: &Addr);
}

/// A port of a namespace with a listener.
struct Service {
    cookie: u64,
    port: u16,
    listener: Arc<dyn ServiceListener>,
}

impl Service {
    fn is(&self, listener: &dyn ServiceListener) -> bool {
        // The table of methods may exist more than once; the object does not.
        core::ptr::addr_eq(&raw const *self.listener, listener)
    }
}

/// A listener of a connection manager.
struct CmService {
    device: Arc<Device>,
    port: u16,
    /// Dropped without the lock of the list: that waits for the handler, which takes the lock.
    _listener: CmListener<ServiceRequests>,
}

/// What is listened on.
struct ServiceList {
    services: KVec<Service>,
    listeners: KVec<CmService>,
}

/// The services of all namespaces.
#[pin_data]
pub(super) struct Services {
    devices: Arc<DeviceList>,
    /// Connections that have something on a device.
    pub(super) links: Arc<SdpLinks>,
    /// Serialises changes. Taken before `list`, and never by a handler.
    #[pin]
    changes: Mutex<()>,
    #[pin]
    list: Mutex<ServiceList>,
}

/// Handles the requests for a port that come to a device.
struct ServiceRequests {
    services: Arc<Services>,
    device: Arc<Device>,
    port: u16,
}

impl Services {
    /// No service so far. Context: may sleep.
    pub(super) fn new(devices: &Arc<DeviceList>) -> Result<Arc<Self>> {
        let devices = devices.clone();
        let links = SdpLinks::new()?;
        let empty = ServiceList {
            services: KVec::new(),
            listeners: KVec::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                devices,
                links,
                changes <- new_mutex!((), "rdma_sock_sdp_changes"),
                list <- new_mutex!(empty, "rdma_sock_sdp_services"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds the service of a listener. Context: may sleep.
    pub(super) fn add(self: &Arc<Self>, listener: Arc<dyn ServiceListener>) -> Result {
        let service = Service {
            cookie: listener.sk().net_cookie(),
            port: listener.sk().bound_port(),
            listener,
        };
        let _changes = self.changes.lock();
        {
            let mut list = self.list.lock();
            list.services.push(service, GFP_KERNEL)?;
        }
        self.complete();
        Ok(())
    }

    /// Takes the service of a listener out, if it is there. Waits for handlers that run.
    /// Context: may sleep.
    pub(super) fn remove(&self, listener: &dyn ServiceListener) {
        let _changes = self.changes.lock();
        let ended = {
            let mut list = self.list.lock();
            let at = list.services.iter().position(|known| known.is(listener));
            at.and_then(|at| list.services.remove(at).ok())
        };
        drop(ended);
        self.end_listeners(|known, services| {
            !services.iter().any(|service| service.port == known.port)
        });
    }

    /// Ends the listeners of connection managers for which `ends` is true. The caller has the lock of
    /// changes. Context: may sleep.
    fn end_listeners(&self, ends: impl Fn(&CmService, &[Service]) -> bool) {
        loop {
            let ended = {
                let mut list = self.list.lock();
                let mut known = list.listeners.iter();
                let at = known.position(|known| ends(known, &list.services));
                at.and_then(|at| list.listeners.remove(at).ok())
            };
            // Without the lock of the list, for which its handler may wait.
            if ended.is_none() {
                return;
            }
        }
    }

    /// The device goes: on return no listener and no connection has anything on it.
    /// Context: may sleep.
    fn lose_device(&self, device: &Arc<Device>) {
        {
            let _changes = self.changes.lock();
            self.end_listeners(|known, _| Arc::ptr_eq(&known.device, device));
        }
        self.links.end_all(device);
    }

    /// Makes the listeners that are missing, on devices that have come. Context: may sleep.
    fn extend(self: &Arc<Self>) {
        let _changes = self.changes.lock();
        self.complete();
    }

    /// Makes the listeners that are missing. The caller has the lock of changes.
    fn complete(self: &Arc<Self>) {
        let Ok(devices) = self.devices.known() else {
            return;
        };
        for device in &devices {
            while let Some(port) = self.missing(device) {
                // Without memory, or a device that goes: clients use TCP.
                if self.listen(device, port).is_err() {
                    break;
                }
            }
        }
    }

    /// A port of a service that has no listener on the device.
    fn missing(&self, device: &Arc<Device>) -> Option<u16> {
        let list = self.list.lock();
        let has_listener = |port| {
            let mut known = list.listeners.iter();
            known.any(|known| known.port == port && Arc::ptr_eq(&known.device, device))
        };
        let mut ports = list.services.iter().map(|service| service.port);
        ports.find(|port| !has_listener(*port))
    }

    fn listen(self: &Arc<Self>, device: &Arc<Device>, port: u16) -> Result {
        let requests = ServiceRequests {
            services: self.clone(),
            device: device.clone(),
            port,
        };
        let service = SERVICE.saturating_add(port.into());
        let requests = Arc::new(requests, GFP_KERNEL)?;
        let listener = CmListener::new(device, service, HALF_OPEN, requests)?;
        let known = CmService {
            device: device.clone(),
            port,
            _listener: listener,
        };
        Ok(self.list.lock().listeners.push(known, GFP_KERNEL)?)
    }

    /// Whether there is a service with this address, and a device for it. Context: may sleep.
    pub(super) fn has(&self, cookie: u64, local: &Addr) -> bool {
        self.devices.serve(cookie) && self.find(cookie, local).is_some()
    }

    /// The listener of a service with this address.
    fn find(&self, cookie: u64, local: &Addr) -> Option<Arc<dyn ServiceListener>> {
        let list = self.list.lock();
        let fits = |service: &&Service| {
            service.cookie == cookie && service.port == local.port() && {
                let bound = service.listener.sk().local_addr();
                match bound {
                    Addr::V4 { ip, .. } if ip == [0; 4] => local.as_v4().is_some(),
                    Addr::V6 { ip, .. } if ip == [0; 16] => {
                        local.as_v4().is_none() || service.listener.sk().takes_ipv4()
                    }
                    _ => bound.ip_mapped() == local.ip_mapped(),
                }
            }
        };
        let found = list.services.iter().find(fits);
        found.map(|service| service.listener.clone())
    }
}

/// What is known of other hosts by way of the ports of this one.
pub(super) trait ReachUser: Send + Sync {
    /// Ports or their addresses have changed. Context: may sleep.
    fn forget_hosts(&self);
}

/// The changes of devices, for the services.
pub(super) struct DeviceChanges {
    /// The services.
    pub(super) services: Arc<Services>,
    /// What is known of other hosts.
    pub(super) reach: Arc<dyn ReachUser>,
}

impl PortUser for DeviceChanges {
    fn ports_added(&self) {
        self.services.extend();
        self.reach.forget_hosts();
    }

    fn port_failed(&self, _device: &Arc<Device>, _port: u32) {}

    fn addresses_changed(&self, _device: &Arc<Device>, _port: u32) {
        self.reach.forget_hosts();
    }

    fn device_failed(&self, _device: &Arc<Device>) {}

    fn device_removed(&self, device: &Arc<Device>) {
        self.services.lose_device(device);
    }
}

impl CmListenOps for ServiceRequests {
    fn on_request(self: &Arc<Self>, request: CmRequest<'_>) {
        let info = request.info();
        let Some(netdev) = info.netdev else {
            let _ = request.reject(RejectReason::CONSUMER_DEFINED, &[]);
            return;
        };
        let local = gid_addr(info.local_gid, self.port, netdev.ifindex);
        match self.services.find(netdev.net_cookie, &local) {
            Some(listener) => listener.serve(request, &self.device, &local),
            None => drop(request.reject(RejectReason::INVALID_SERVICE_ID, &[])),
        }
    }
}

/// The address that a GID is made of.
pub(super) fn gid_addr(gid: [u8; 16], port: u16, ifindex: u32) -> Addr {
    let is_v4 = Addr::from_mapped(gid, port, 0, false).as_v4().is_some();
    Addr::from_mapped(gid, port, ifindex, is_v4)
}
