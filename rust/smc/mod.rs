// SPDX-License-Identifier: GPL-2.0

//! SMC-R sockets: the engine around the protocol core.
//!
//! Source: RFC 7609.
//!
//! # The life of a connection
//!
//! A socket of ours *is* a TCP socket with other operations (`ops.rs`). At `connect` it gets a
//! [`connection::Connection`] and the SYN the SMC option (`option.rs`); nothing else differs from
//! TCP until both sides have shown the option. Then the work item of the connection runs the CLC
//! handshake over the TCP connection (`handshake.rs`), the server's inside a child that accept
//! does not see yet (`listen.rs`). Our end of the deal, made in `prepare.rs`, is a place in a link
//! group (`link_group.rs`), an element of one of its RMBs (`rmb.rs`), a send buffer and a token
//! (`tokens.rs`). A new group brings its link up by LLC messages (`llc.rs`). When the handshake
//! ends well, the connection gets its data side (`data.rs`): `tx.rs` copies user data into the
//! send buffer, from where it goes by RDMA write into the peer's RMBE; `rx.rs` copies what the
//! peer wrote out of ours; CDC messages (`link.rs`) tell how far. Close and abort are decided by
//! the core and performed by the work item of the connection. Whatever goes wrong before that
//! leaves a TCP socket behind.

#![deny(unsafe_code)]

mod accept_queue;
mod account;
mod buffers;
mod connection;
mod contention;
mod data;
mod device;
mod eid;
mod end;
mod failover;
mod flags;
mod handshake;
mod late;
mod lent;
mod lent_pages;
mod link;
mod link_group;
mod links;
mod listed;
mod listen;
mod llc;
mod member;
mod negotiation;
mod networks;
mod ops;
mod option;
mod policy;
mod prepare;
mod print;
mod procfs;
mod quota;
mod reservation;
mod retired;
mod rmb;
mod route;
mod rx;
mod stats;
mod sysctl;
mod tokens;
mod tx;
mod update;
mod version;

use self::{
    account::Account,
    device::SmcClient,
    link_group::LinkGroup,
    ops::SmcOps,
    option::SmcPolicy,
    procfs::ProcDir,
    quota::CgroupAccount,
    stats::NetState,
    sysctl::{
        Files,
        NetSettings,
        Settings, //
    },
};
use crate::{
    kapi::{
        net::{
            family::Registration as Family,
            netns::{
                Net,
                NetOps,
                NetRegistration, //
            },
            option::{
                Backend,
                Kind, //
            },
            proc::NetProc, //
        },
        rdma::{
            client::Registration,
            device::Device, //
        },
        sync::Global,
        time::now_ns,
        work::WorkQueue, //
    },
    proto::{
        clc::EidList,
        time::Instant, //
    },
};
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

/// Address family of SMC sockets.
const AF_SMC: u16 = 43;
/// Protocol number of SMC sockets in the Internet families.
const IPPROTO_SMC: u16 = 256;

/// Least time between two messages about peers.
const LOG_INTERVAL_NS: u64 = 1_000_000_000;

/// What all sockets share.
#[pin_data]
pub(crate) struct Engine {
    /// Runs handshakes and accept queues.
    handshakes: WorkQueue,
    /// Runs timers and ends of connections.
    closings: WorkQueue,
    /// Runs what link groups do: LLC, registrations, ends of links.
    links: WorkQueue,
    #[pin]
    devices: Mutex<KVec<Arc<Device>>>,
    #[pin]
    groups: Mutex<KVec<Arc<LinkGroup>>>,
    #[pin]
    nets: Mutex<KVec<Arc<NetState>>>,
    #[pin]
    settings: Mutex<KVec<NetSettings>>,
    #[pin]
    eids: Mutex<KVec<eid::NetEids>>,
    /// The values of the initial namespace, which bound those of all.
    host: Arc<Settings>,
    /// Octets of buffers of all namespaces.
    buffers: Arc<Account>,
    /// Those of each memory cgroup with a limit.
    #[pin]
    cgroups: Mutex<KVec<CgroupAccount>>,
    groups_made: Atomic<u32>,
    links_made: Atomic<u32>,
    /// When something about a peer was logged last.
    logged: Atomic<u64>,
}

static ENGINE: Global<Engine> = Global::new();

/// The engine, for callbacks that come without context. `None` while the module goes.
fn engine() -> Option<Arc<Engine>> {
    ENGINE.get()
}

/// The present, as the protocol core counts it.
fn now() -> Instant {
    Instant::from_nanos(now_ns())
}

impl Engine {
    fn new() -> Result<Arc<Self>> {
        let handshakes = WorkQueue::new(c"rdma_sock_clc")?;
        let closings = WorkQueue::new(c"rdma_sock_end")?;
        let links = WorkQueue::new(c"rdma_sock_llc")?;
        let host = Settings::new()?;
        let buffers = Account::new()?;
        Arc::pin_init(
            pin_init!(Self {
                handshakes,
                closings,
                links,
                devices <- new_mutex!(KVec::new(), "rdma_sock_devices"),
                groups <- new_mutex!(KVec::new(), "rdma_sock_groups"),
                nets <- new_mutex!(KVec::new(), "rdma_sock_nets"),
                settings <- new_mutex!(KVec::new(), "rdma_sock_settings"),
                eids <- new_mutex!(KVec::new(), "rdma_sock_eids"),
                host,
                buffers,
                cgroups <- new_mutex!(KVec::new(), "rdma_sock_cgroups"),
                groups_made: Atomic::new(0u32),
                links_made: Atomic::new(0u32),
                logged: Atomic::new(0u64),
            }),
            GFP_KERNEL,
        )
    }

    /// Whether a message about a peer's behaviour may be logged: one a second, whoever causes it.
    fn may_log(&self, now: Instant) -> bool {
        let now = now.as_nanos();
        let last = self.logged.load(Relaxed);
        now.saturating_sub(last) >= LOG_INTERVAL_NS
            && self.logged.cmpxchg(last, now, Relaxed).is_ok()
    }

    fn next_group_id(&self) -> u32 {
        self.groups_made.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// A name for a link, unlike that of any other (`SMCR-LNK-03`).
    fn next_link_id(&self) -> u32 {
        self.links_made.fetch_add(1, Relaxed).wrapping_add(1)
    }
}

/// SMC-R, registered. Dropping it takes the fields down in their order: first no new sockets, then
/// the link groups, then the devices, last the engine.
pub(crate) struct Smc {
    _files: NetRegistration<Files>,
    _family: Family<SmcOps>,
    _option: Backend<SmcPolicy>,
    _proc: NetProc<ProcDir>,
    _groups: Groups,
    _nets: NetRegistration<Namespaces>,
    _client: Registration<SmcClient>,
    _engine: Published,
}

/// Follows network namespaces.
struct Namespaces;

impl NetOps for Namespaces {
    fn init(net: &Net) -> Result {
        // The rest of the state is made by the first socket.
        engine().ok_or(ENODEV)?.add_settings(net)
    }

    fn exit(net: &Net) {
        // No socket of the namespace is left; its idle link groups go with it.
        if let Some(engine) = engine() {
            let cookie = net.cookie();
            LinkGroup::terminate_all(&engine, |group| group.key.net == cookie);
            engine.forget_net(cookie);
            engine.remove_settings(cookie);
            // Removing needs no memory.
            let _ = engine.set_eids(cookie, EidList::EMPTY);
        }
    }
}

/// Ends the link groups politely.
struct Groups(Arc<Engine>);

impl Drop for Groups {
    fn drop(&mut self) {
        // No socket is left, or the module could not be unloaded.
        LinkGroup::dismiss_all(&self.0, |_| true);
    }
}

/// Makes the engine findable.
struct Published(Arc<Engine>);

impl Drop for Published {
    fn drop(&mut self) {
        // Work that runs still may use the engine. What ends a connection may kick its link group.
        self.0.handshakes.flush();
        self.0.closings.flush();
        self.0.links.flush();
        ENGINE.clear();
    }
}

impl Smc {
    /// Registers everything. Sleeps.
    pub(crate) fn new(backend: Kind) -> Result<Self> {
        let engine = Engine::new()?;
        ENGINE.set(engine.clone());
        let published = Published(engine.clone());
        let client = Registration::new(c"rdma_sock")?;
        let groups = Groups(engine);
        let nets = NetRegistration::new()?;
        let proc = NetProc::new()?;
        let option = Backend::register(backend)?;
        let family = Family::new(AF_SMC, IPPROTO_SMC)?;
        let files = NetRegistration::new()?;
        Ok(Self {
            _files: files,
            _family: family,
            _option: option,
            _proc: proc,
            _nets: nets,
            _groups: groups,
            _client: client,
            _engine: published,
        })
    }
}
