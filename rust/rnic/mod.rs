// SPDX-License-Identifier: GPL-2.0

//! The engine of the software RNIC: RDMA devices on network devices.
//!
//! | Object                | Held by                                              | File         |
//! |-----------------------|------------------------------------------------------|--------------|
//! | [`Rnic`]              | the module                                           | this one     |
//! | [`registry::Registry`] | [`Rnic`], [`REGISTRY`] for callbacks               | [`registry`] |
//! | [`runtime::Runtime`]  | [`registry::Registry`], devices, [`RUNTIME`] for packets | [`runtime`] |
//! | [`device::SoftDevice`] | its `ib_device`, the registry                      | [`device`]   |
//! | [`node::Node`]        | its device, its domains, the runtime                 | [`node`]     |
//! | [`domain::Domain`]    | `ib_pd`, queue pairs, regions, address handles       | [`domain`]   |
//! | [`cq::CompletionQueue`] | `ib_cq`, queue pairs, its queued work item         | [`cq`]       |
//! | [`qp::QueuePair`]     | `ib_qp`, table of numbers, queued work item, timer   | [`qp`]       |
//! | [`srq::SharedQueue`]  | `ib_srq`, queue pairs, its queued work item          | [`srq`]      |
//! | [`region::Region`]    | `ib_mr`, table of keys, work requests, windows       | [`region`]   |
//! | [`window::Window`]    | `ib_mw`, table of keys                               | [`window`]   |
//!
//! | Context                                   | Entry                                      |
//! |-------------------------------------------|--------------------------------------------|
//! | process, `rdma link add`                  | [`link`]: `newlink`                        |
//! | process with the RTNL, network devices    | [`link`]: `event`                          |
//! | process, verbs                            | [`device`]: `IbDeviceOps`                  |
//! | any, posting and polling                  | [`qp`]: `IbQpOps`, [`cq`]: `IbCqOps`       |
//! | packets that arrive, in softirq            | [`ports`]: `receive`                       |
//! | work items and timers, in softirq          | [`qp`], [`cq`]: `run`                      |
//!
//! Teardown, in this order: no new links; each device is unregistered, which waits for its clients and
//! its objects; work items that are left; no notifications of network devices.

#![deny(unsafe_code)]

mod checksum;
mod completions;
mod counters;
mod cq;
mod device;
mod direct_packet;
mod domain;
mod fast_paths;
mod keys;
mod lender;
mod limits;
mod link;
mod loan;
mod memory;
mod node;
mod numbers;
mod packet_head;
mod parameters;
mod path;
mod ports;
mod profile;
mod qp;
mod receives;
mod region;
mod registry;
mod requirements;
mod runtime;
mod shaped_ring;
mod srq;
mod user_queue;
mod window;
mod wire;

pub(crate) use self::parameters::Settings;
use self::{
    checksum::PacketChecksum,
    fast_paths::FastPaths,
    link::RoceLink,
    parameters::flag,
    ports::RocePackets,
    profile::Profile,
    registry::{
        Registry,
        REGISTRY, //
    },
    runtime::{
        Runtime,
        RUNTIME, //
    },
};
use crate::kapi::{
    ibdev::{
        DmaDevice,
        LinkRegistration,
        RoceVersions, //
    },
    net::{
        netdev_events::NetdevRegistration,
        packet_port::EthernetType, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The engine, as long as the module is loaded. The fields are dropped in their order.
pub(crate) struct Rnic {
    /// Makes devices.
    _links: LinkRegistration<RoceLink>,
    /// Unregisters all devices.
    _devices: RegisteredDevices,
    /// Receives packets of RoCE v1 (RNIC-IP-05).
    _ethernet: EthernetType<RocePackets>,
    /// Follows network devices.
    _netdevs: NetdevRegistration<RoceLink>,
    /// What memory is mapped for.
    _dma: Option<DmaDevice>,
}

/// All devices of the module. Dropping it unregisters them.
struct RegisteredDevices(Arc<Registry>);

impl Drop for RegisteredDevices {
    fn drop(&mut self) {
        self.0.unregister_all();
        REGISTRY.clear();
        RUNTIME.clear();
    }
}

impl Rnic {
    /// Starts the engine. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for numbers that a setting does not have, and if checksums are wrong; `EOPNOTSUPP` for a
    /// kernel without DMA that shall have it; `ENOMEM`.
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        const { requirements::check() };
        let versions = match settings.roce {
            1 => RoceVersions::V1,
            2 => RoceVersions::V2,
            3 => RoceVersions::Both,
            _ => return Err(EINVAL),
        };
        let paths = FastPaths::new(settings)?;
        let profile = Profile::new(settings.strict).ok_or(EINVAL)?;
        let dma = if flag(settings.dma)? {
            Some(DmaDevice::new(c"rdma_soft")?)
        } else {
            None
        };
        let checksum = PacketChecksum::choose(paths.own_checksum)?;
        let runtime = Runtime::new(paths, profile, checksum)?;
        let registry = Registry::new(&runtime, versions)?;
        RUNTIME.set(runtime);
        REGISTRY.set(registry.clone());
        // Made first, so that they are dropped if a registration fails.
        let devices = RegisteredDevices(registry);
        let netdevs = NetdevRegistration::new()?;
        let ethernet = EthernetType::new()?;
        Ok(Self {
            _links: LinkRegistration::new()?,
            _devices: devices,
            _ethernet: ethernet,
            _netdevs: netdevs,
            _dma: dma,
        })
    }
}
