// SPDX-License-Identifier: GPL-2.0

//! The state of a network namespace: the stack's identity, its settings, accounts and counts.
//!
//! Source: RFC 7609 A.2.1 (`SMCR-CLC-12..15`) for the peer ID. A namespace is a stack of its own.

use super::admin::sysctl::{
    Settings,
    Sysctls, //
};
use crate::{
    fabric::{
        ports::Path,
        quota::{
            NetAccounts,
            QuotaLimits,
            Quotas, //
        },
    },
    kapi::base::{
        module::random_u32,
        sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
    },
    proto::{
        base::{
            quota::Caps,
            verbs::Mac, //
        },
        smc::{
            clc::Version,
            wire::PeerId, //
        },
        stream::sizes::{
            class_of,
            CLASSES, //
        },
    },
    sock::{
        directory::Directory,
        stats::{
            bump_named,
            NetStats,
            Side, //
        },
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

/// The name of the protocol in `/proc`.
pub(crate) const NAME: &str = "smc";
/// Causes of the end of links that are counted one by one; as many as there are names.
const MAX_LINK_CAUSES: usize = 16;

/// A buffer that a connection gets.
#[derive(Clone, Copy)]
pub(crate) struct GivenBuffer {
    /// Its size.
    pub(crate) octets: u32,
    /// Another connection has had it.
    pub(crate) is_reused: bool,
    /// It is smaller than wanted.
    pub(crate) is_smaller: bool,
}

/// Counts of buffers that connections got.
#[derive(Clone, Copy, Default)]
pub(crate) struct BufferTotals {
    /// By class of size.
    pub(crate) sizes: [u64; CLASSES],
    /// Those that another connection has had.
    pub(crate) reused: u64,
    /// New ones.
    pub(crate) made: u64,
    /// Those smaller than wanted.
    pub(crate) smaller: u64,
}

impl BufferTotals {
    fn count(&mut self, buffer: &GivenBuffer) {
        let class = class_of(buffer.octets.into());
        let sizes = class.and_then(|class| self.sizes.get_mut(class));
        let kind = if buffer.is_reused {
            &mut self.reused
        } else {
            &mut self.made
        };
        let smaller = buffer.is_smaller.then_some(&mut self.smaller);
        for count in [sizes, Some(kind), smaller].into_iter().flatten() {
            *count = count.wrapping_add(1);
        }
    }
}

/// Counts of link groups and their links.
#[derive(Clone, Copy, Default)]
pub(crate) struct GroupTotals {
    /// Why links went down, with their counts.
    pub(crate) links_down: [(&'static str, u64); MAX_LINK_CAUSES],
    /// Link groups that ended.
    pub(crate) groups_ended: u64,
    /// Connections as client and as server: of version 1, of version 2.
    pub(crate) established: [[u64; 2]; 2],
    /// Buffers of connections, to receive and to send.
    pub(crate) buffers: [BufferTotals; 2],
}

/// The engine's side of a network namespace.
#[pin_data]
pub(crate) struct NetState {
    /// Cookie of the namespace.
    pub(crate) cookie: u64,
    /// Settings of the administrator.
    pub(crate) settings: Arc<Settings>,
    /// Counts of buffers and of orphans.
    pub(crate) accounts: Arc<NetAccounts>,
    /// The connections and their counts.
    pub(crate) stats: Arc<NetStats>,
    /// Instance number in the peer ID.
    instance: u16,
    /// MAC address in the peer ID; 0 until the first handshake sets it.
    mac: Atomic<u64>,
    /// Counts of link groups.
    #[pin]
    groups: SpinLockBh<GroupTotals>,
}

/// The limits of a namespace, of which those of the initial one are upper bounds.
pub(super) struct NetLimits {
    /// Settings of the namespace.
    pub(super) own: Arc<Settings>,
    /// Settings of the initial namespace.
    pub(super) host: Arc<Settings>,
}

impl QuotaLimits for NetLimits {
    fn caps(&self) -> Caps {
        self.own.caps(&self.host)
    }
}

/// The namespaces that have had a socket.
#[pin_data]
pub(crate) struct Nets {
    sysctls: Arc<Sysctls>,
    directory: Arc<Directory>,
    quotas: Arc<Quotas>,
    #[pin]
    list: Mutex<KVec<Arc<NetState>>>,
}

impl Nets {
    /// No namespace has had a socket yet. Context: may sleep.
    pub(crate) fn new(
        sysctls: &Arc<Sysctls>,
        directory: &Arc<Directory>,
        quotas: &Arc<Quotas>,
    ) -> Result<Arc<Self>> {
        let (sysctls, directory) = (sysctls.clone(), directory.clone());
        let quotas = quotas.clone();
        let list = new_mutex!(KVec::new(), "rdma_sock_nets");
        Arc::pin_init(
            pin_init!(Self {
                sysctls,
                directory,
                quotas,
                list <- list,
            }),
            GFP_KERNEL,
        )
    }

    /// The state of a namespace, made at its first socket. Context: may sleep.
    pub(crate) fn state(&self, cookie: u64) -> Result<Arc<NetState>> {
        let settings = self.sysctls.of(cookie)?;
        let mut nets = self.list.lock();
        if let Some(net) = nets.iter().find(|net| net.cookie == cookie) {
            return Ok(net.clone());
        }
        let [low, high, ..] = random_u32().to_ne_bytes();
        let accounts = self.quotas.of(cookie)?;
        let stats = NetStats::new()?;
        let net = Arc::pin_init(
            pin_init!(NetState {
                cookie,
                settings,
                accounts,
                stats,
                instance: u16::from_ne_bytes([low, high]),
                mac: Atomic::new(0u64),
                groups <- new_spinlock_bh!(GroupTotals::default(), "rdma_sock_net_groups"),
            }),
            GFP_KERNEL,
        )?;
        nets.push(net.clone(), GFP_KERNEL)?;
        self.directory.enter(cookie, NAME, &net.stats)?;
        Ok(net)
    }

    /// The state of a namespace that has had a socket of ours. Context: may sleep.
    pub(crate) fn find(&self, cookie: u64) -> Option<Arc<NetState>> {
        let nets = self.list.lock();
        nets.iter().find(|net| net.cookie == cookie).cloned()
    }

    /// A namespace is gone. Context: may sleep.
    pub(crate) fn forget(&self, cookie: u64) {
        self.list.lock().retain(|net| net.cookie != cookie);
        self.directory.forget(cookie);
    }
}

impl NetState {
    /// The identity of this stack: an instance number and the MAC of the first RNIC it used, which
    /// stays when others are used later (`SMCR-CLC-14`). Context: any.
    pub(crate) fn peer_id(&self, path: Option<&Path>) -> PeerId {
        let known = self.mac.load(Relaxed);
        let mac = match path {
            Some(path) if known == 0 => {
                let [a, b, c, d, e, f] = path.mac();
                let fresh = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
                // The first connection decides.
                match self.mac.cmpxchg(0, fresh, Relaxed) {
                    Ok(_) => fresh,
                    Err(other) => other,
                }
            }
            _ => known,
        };
        let [_, _, mac @ ..] = mac.to_be_bytes();
        PeerId::from_parts(self.instance, Mac::new(mac))
    }

    /// Counts a link that went down. Context: any.
    pub(crate) fn count_link_down(&self, cause: &'static str) {
        bump_named(&mut self.groups.lock().links_down, cause);
    }

    /// Counts a connection that was established. Context: any.
    pub(crate) fn count_version(&self, side: Side, version: Version) {
        let mut groups = self.groups.lock();
        let [client, server] = &mut groups.established;
        let [first, second] = match side {
            Side::Client => client,
            Side::Server => server,
        };
        let count = match version {
            Version::V1 => first,
            Version::V2 => second,
        };
        *count = count.wrapping_add(1);
    }

    /// Counts the buffers of a connection, to receive and to send. Context: any.
    pub(crate) fn count_buffers(&self, given: &[GivenBuffer; 2]) {
        let mut groups = self.groups.lock();
        for (totals, buffer) in groups.buffers.iter_mut().zip(given) {
            totals.count(buffer);
        }
    }

    /// Counts a link group that ended. Context: any.
    pub(crate) fn count_group_ended(&self) {
        let mut groups = self.groups.lock();
        groups.groups_ended = groups.groups_ended.wrapping_add(1);
    }

    /// Counts of link groups. Context: any.
    pub(crate) fn group_totals(&self) -> GroupTotals {
        *self.groups.lock()
    }
}
