// SPDX-License-Identifier: GPL-2.0

//! The state of a network namespace: its accounts, settings and counts.

use super::{
    addr::from_pm,
    half_open::HalfOpenTable,
    mail::Mailbox,
    portmap::{
        PortMapParams,
        PortMapServices,
        PortMapping, //
    },
    reach::{
        ReachParams,
        ReachTable, //
    },
    services::{
        ReachUser,
        Services, //
    },
    settings::{
        SdpSettings,
        SdpSysctls, //
    },
};
use crate::{
    fabric::quota::{
        NetAccounts,
        Quotas, //
    },
    kapi::net::netns::Net,
    proto::sdp::{
        admission::AcceptPolicy,
        pm::{
            msg::PmAddr,
            server::PmService, //
        },
    },
    sock::{
        context::Context,
        directory::Directory,
        stats::NetStats, //
    },
};
use core::net::IpAddr;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};

/// The name of the protocol in `/proc`.
pub(super) const NAME: &str = "sdp";
/// The first port that a client has, unless its program has bound one, and how many there are.
const EPHEMERAL: (u16, u16) = (32768, 28232);

/// A mapping of ours lives as long as its listener.
const FOREVER: u8 = u8::MAX;

/// The engine's side of a network namespace.
#[pin_data]
pub(super) struct SdpNet {
    /// Cookie of the namespace.
    cookie: u64,
    /// Counts of buffers and of orphans, of all protocols.
    pub(super) accounts: Arc<NetAccounts>,
    /// Settings of the administrator.
    pub(super) settings: Arc<SdpSettings>,
    /// Set-ups of children that are under way.
    pub(super) half_opens: Arc<HalfOpenTable>,
    /// The connections and their counts.
    pub(super) stats: Arc<NetStats>,
    /// Ports that clients have had.
    ports: Atomic<u32>,
    /// Which hosts and services there are by SDP.
    pub(super) reach: Arc<ReachTable<Mailbox>>,
    /// The Port Mapper, from the first listener on.
    #[pin]
    mapper: Mutex<Option<PortMapping<MappedServices>>>,
    /// The work queues of the engine.
    context: Arc<Context>,
    /// The listeners of all namespaces.
    services: Arc<Services>,
}

/// The listeners of a namespace, as its Port Mapper asks for them.
struct MappedServices {
    cookie: u64,
    services: Arc<Services>,
    settings: Arc<SdpSettings>,
    reach: Arc<ReachTable<Mailbox>>,
}

impl PortMapServices for MappedServices {
    fn find(&self, service: PmAddr) -> Option<PmService> {
        let values = self.settings.values();
        if values.accept == AcceptPolicy::Off || !values.ports.has(service.port) {
            return None;
        }
        let addr = from_pm(service);
        self.services.has(self.cookie, &addr).then_some(PmService {
            at: service,
            time: FOREVER,
        })
    }

    fn asked(&self, host: IpAddr) {
        self.reach.note_asked(host);
    }
}

impl SdpNet {
    /// Serves clients that ask for listeners, if nothing has done so before. Context: may sleep.
    pub(super) fn serve_mapper(&self, net: &Net) {
        let mut mapper = self.mapper.lock();
        if mapper.is_some() {
            return;
        }
        let services = MappedServices {
            cookie: self.cookie,
            services: self.services.clone(),
            settings: self.settings.clone(),
            reach: self.reach.clone(),
        };
        let Ok(services) = Arc::new(services, GFP_KERNEL) else {
            return;
        };
        // Without it, clients that ask use TCP.
        let params = PortMapParams::DEFAULT;
        *mapper = PortMapping::new(net, &self.context, &params, services).ok();
    }

    /// The namespace goes: closes the sockets in it. Context: may sleep.
    fn close(&self) {
        let mapper = self.mapper.lock().take();
        drop(mapper);
        self.reach.close();
    }

    /// A port for a client whose program has bound none. Hello carries it, and nothing else has to
    /// tell connections apart by it. Context: any.
    pub(super) fn next_port(&self) -> u16 {
        let count = self.ports.fetch_add(1u32, Relaxed);
        let (first, most) = EPHEMERAL;
        let offset = count.checked_rem(most.into()).unwrap_or(0);
        first.saturating_add(u16::try_from(offset).unwrap_or(0))
    }
}

/// What the state of each namespace refers to.
pub(super) struct NetParts {
    /// The work queues of the engine.
    pub(super) context: Arc<Context>,
    /// The listeners of all namespaces.
    pub(super) services: Arc<Services>,
    /// The accounts of all namespaces.
    pub(super) quotas: Arc<Quotas>,
    /// The settings of all namespaces.
    pub(super) sysctls: Arc<SdpSysctls>,
}

/// The namespaces that have had a socket.
#[pin_data]
pub(super) struct SdpNets {
    directory: Arc<Directory>,
    parts: NetParts,
    #[pin]
    list: Mutex<KVec<Arc<SdpNet>>>,
}

impl SdpNets {
    /// No namespace has had a socket yet. Context: may sleep.
    pub(super) fn new(directory: &Arc<Directory>, parts: NetParts) -> Result<Arc<Self>> {
        let directory = directory.clone();
        let list = new_mutex!(KVec::new(), "rdma_sock_sdp_nets");
        Arc::pin_init(
            pin_init!(Self {
                directory,
                parts,
                list <- list,
            }),
            GFP_KERNEL,
        )
    }

    /// The state of a namespace, made at its first socket. Context: may sleep.
    pub(super) fn state(&self, net: &Net) -> Result<Arc<SdpNet>> {
        let cookie = net.cookie();
        let mut nets = self.list.lock();
        if let Some(net) = nets.iter().find(|net| net.cookie == cookie) {
            return Ok(net.clone());
        }
        let parts = &self.parts;
        let accounts = parts.quotas.of(cookie)?;
        let settings = parts.sysctls.of(cookie)?;
        let half_opens = HalfOpenTable::new()?;
        let stats = NetStats::new()?;
        let reach = ReachTable::new(net, &parts.context, &ReachParams::DEFAULT)?;
        let (context, services) = (parts.context.clone(), parts.services.clone());
        let net = Arc::pin_init(
            pin_init!(SdpNet {
                cookie,
                accounts,
                settings,
                half_opens,
                stats,
                ports: Atomic::new(0u32),
                reach,
                mapper <- new_mutex!(None, "rdma_sock_sdp_mapper"),
                context,
                services,
            }),
            GFP_KERNEL,
        )?;
        nets.push(net.clone(), GFP_KERNEL)?;
        self.directory.enter(cookie, NAME, &net.stats)?;
        Ok(net)
    }

    /// A namespace is gone. Context: may sleep.
    pub(super) fn forget(&self, cookie: u64) {
        let gone = {
            let mut list = self.list.lock();
            let at = list.iter().position(|net| net.cookie == cookie);
            at.and_then(|at| list.remove(at).ok())
        };
        if let Some(net) = gone {
            net.close();
        }
        self.directory.forget(cookie);
    }
}

impl ReachUser for SdpNets {
    fn forget_hosts(&self) {
        for net in self.list.lock().iter() {
            net.reach.forget_all();
        }
    }
}
