// SPDX-License-Identifier: GPL-2.0

//! The engine: the registries that all SDP sockets share.

use super::{
    net::{
        NetParts,
        SdpNets, //
    },
    services::Services,
    settings::SdpSysctls, //
};
use crate::{
    fabric::{
        client::Fabric,
        quota::Quotas, //
    },
    kapi::base::sync::Global,
    sock::{
        context::Context,
        directory::Directory,
        rules::Rules, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The registries that all SDP sockets share.
pub(super) struct SdpEngine {
    /// Work queues and the log limit of sockets.
    pub(super) context: Arc<Context>,
    /// RDMA devices that can be used.
    pub(super) fabric: Arc<Fabric>,
    /// Network namespaces that have had a socket.
    pub(super) nets: Arc<SdpNets>,
    /// Ports that listeners have, with the listeners of the connection managers.
    pub(super) services: Arc<Services>,
    /// Buffer memory of the host, and its limits, for all protocols.
    pub(super) quotas: Arc<Quotas>,
    /// Rules of administrators, for all protocols.
    pub(super) rules: Arc<Rules>,
    /// Settings, by namespace.
    pub(super) sysctls: Arc<SdpSysctls>,
}

static ENGINE: Global<SdpEngine> = Global::new();

/// The engine, for callbacks that come without context. `None` while the module goes.
pub(super) fn engine() -> Option<Arc<SdpEngine>> {
    ENGINE.get()
}

impl SdpEngine {
    /// The parts, without a device or a namespace. Context: may sleep.
    pub(super) fn new(
        fabric: &Arc<Fabric>,
        directory: &Arc<Directory>,
        rules: &Arc<Rules>,
    ) -> Result<Arc<Self>> {
        let context = Context::new(c"rdma_sock_sdp", c"rdma_sock_sdp_end")?;
        let services = Services::new(&fabric.devices)?;
        let (quotas, sysctls) = (fabric.quotas.clone(), SdpSysctls::new()?);
        let parts = NetParts {
            context: context.clone(),
            services: services.clone(),
            quotas: quotas.clone(),
            sysctls: sysctls.clone(),
        };
        let nets = SdpNets::new(directory, parts)?;
        let engine = Self {
            context,
            fabric: fabric.clone(),
            nets,
            services,
            quotas,
            rules: rules.clone(),
            sysctls,
        };
        Ok(Arc::new(engine, GFP_KERNEL)?)
    }
}

/// Makes the engine findable until it is dropped.
pub(super) struct PublishedSdp(Arc<SdpEngine>);

impl PublishedSdp {
    /// Callbacks find `engine` from now on.
    pub(super) fn new(engine: &Arc<SdpEngine>) -> Self {
        ENGINE.set(engine.clone());
        Self(engine.clone())
    }
}

impl Drop for PublishedSdp {
    fn drop(&mut self) {
        // Work that runs still may use the engine.
        self.0.context.flush();
        ENGINE.clear();
    }
}
