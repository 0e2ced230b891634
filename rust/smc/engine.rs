// SPDX-License-Identifier: GPL-2.0

//! The engine: the registries that all sockets share.

use super::{
    admin::{
        eid::Eids,
        pnets::Pnets,
        sysctl::Sysctls, //
    },
    group::{
        context::GroupContext,
        link_group::LinkGroups, //
    },
    net::Nets, //
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

/// The registries that all sockets share.
pub(crate) struct Engine {
    /// Work queues and the log limit of sockets.
    pub(super) context: Arc<Context>,
    /// RDMA devices that can be used.
    pub(super) fabric: Arc<Fabric>,
    /// Link groups of the host.
    pub(super) groups: Arc<LinkGroups>,
    /// Network namespaces that have had a socket.
    pub(super) nets: Arc<Nets>,
    /// Connections and counts of all protocols.
    pub(super) directory: Arc<Directory>,
    /// Rules of administrators, for all protocols.
    pub(super) rules: Arc<Rules>,
    /// Settings, by namespace.
    pub(super) sysctls: Arc<Sysctls>,
    /// Enterprise identifiers, by namespace.
    pub(super) eids: Arc<Eids>,
    /// The physical networks of network devices and ports.
    pub(super) pnets: Arc<Pnets>,
    /// Buffer memory of the host, and its limits, for all protocols.
    pub(super) quotas: Arc<Quotas>,
}

static ENGINE: Global<Engine> = Global::new();

/// The engine, for callbacks that come without context. `None` while the module goes.
pub(super) fn engine() -> Option<Arc<Engine>> {
    ENGINE.get()
}

impl Engine {
    /// The parts, without a device, a namespace or a group. Context: may sleep.
    pub(super) fn new(
        fabric: &Arc<Fabric>,
        directory: &Arc<Directory>,
        rules: &Arc<Rules>,
    ) -> Result<Arc<Self>> {
        let context = Context::new(c"rdma_sock_clc", c"rdma_sock_end")?;
        let sysctls = Sysctls::new()?;
        let quotas = fabric.quotas.clone();
        let nets = Nets::new(&sysctls, directory, &quotas)?;
        let pnets = Pnets::new(&fabric.devices)?;
        let groups = LinkGroups::make(&GroupContext::new(&context)?, &pnets, &nets)?;
        let engine = Self {
            context,
            fabric: fabric.clone(),
            groups,
            nets,
            directory: directory.clone(),
            rules: rules.clone(),
            sysctls,
            eids: Eids::new()?,
            pnets,
            quotas,
        };
        Ok(Arc::new(engine, GFP_KERNEL)?)
    }
}

/// Makes the engine findable until it is dropped.
pub(super) struct Published(Arc<Engine>);

impl Published {
    /// Callbacks find `engine` from now on.
    pub(super) fn new(engine: &Arc<Engine>) -> Self {
        ENGINE.set(engine.clone());
        Self(engine.clone())
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // Work that runs still may use the engine.
        self.0.context.flush();
        // The end of a connection may kick its link group.
        self.0.groups.context.links.flush();
        ENGINE.clear();
    }
}
