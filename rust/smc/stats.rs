// SPDX-License-Identifier: GPL-2.0

//! The state of a network namespace: the stack's identity, its connections and counts.
//!
//! Source: RFC 7609 A.2.1 (`SMCR-CLC-12..15`) for the peer ID. A namespace is a stack of its own.

use super::{
    account::Account,
    admin::sysctl::{
        Settings,
        Sysctls, //
    },
    device::Path, //
};
use crate::{
    kapi::{
        base::{
            module::random_u32,
            sync::{
                new_spinlock_bh,
                SpinLockBh, //
            },
        },
        net::proc::SeqFile, //
    },
    proto::{
        smc::wire::{
            Mac,
            PeerId, //
        },
        stream::reason::Reason, //
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

/// Reasons that are counted one by one; every further one adds to the total only.
const MAX_REASONS: usize = 32;

/// The same for the handshakes that ended the connection.
const MAX_ABORT_REASONS: usize = 16;

/// Rules that are counted one by one; as many as there are names.
const MAX_VIOLATIONS: usize = 8;

/// Causes of the end of links that are counted one by one; as many as there are names.
const MAX_LINK_CAUSES: usize = 16;

/// Which end of the TCP connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Active opener, or nothing yet.
    Client,
    /// Passive opener.
    Server,
}

/// Traffic of a connection by RDMA.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traffic {
    /// Bytes written to the peer's element.
    pub(crate) tx_bytes: u64,
    /// Bytes that the program has read.
    pub(crate) rx_bytes: u64,
    /// Bytes of `tx_bytes` that were sent without a copy.
    pub(crate) tx_zerocopy: u64,
    /// RDMA writes posted.
    pub(crate) tx_writes: u64,
    /// CDC messages posted.
    pub(crate) tx_cdc: u64,
    /// CDC messages received.
    pub(crate) rx_cdc: u64,
}

impl Traffic {
    /// Adds another set.
    pub(crate) fn add(&mut self, other: &Self) {
        self.tx_bytes = self.tx_bytes.wrapping_add(other.tx_bytes);
        self.rx_bytes = self.rx_bytes.wrapping_add(other.rx_bytes);
        self.tx_zerocopy = self.tx_zerocopy.wrapping_add(other.tx_zerocopy);
        self.tx_writes = self.tx_writes.wrapping_add(other.tx_writes);
        self.tx_cdc = self.tx_cdc.wrapping_add(other.tx_cdc);
        self.rx_cdc = self.rx_cdc.wrapping_add(other.rx_cdc);
    }
}

/// A connection as the list of its namespace sees it. Context of all methods: any.
pub(crate) trait Listed: Send + Sync {
    /// Its traffic by RDMA.
    fn counters(&self) -> Traffic;

    /// Bytes of payload that went over TCP.
    fn tcp_bytes(&self) -> u64;

    /// Whether data flows by RDMA.
    fn is_smc(&self) -> bool;

    /// Prints its row of `/proc/net/rdma_sock/conns`.
    fn print(&self, m: &SeqFile);
}

/// The engine's side of a network namespace.
#[pin_data]
pub(crate) struct NetState {
    /// Cookie of the namespace.
    pub(crate) cookie: u64,
    /// Settings of the administrator.
    pub(crate) settings: Arc<Settings>,
    /// Octets of buffers.
    pub(crate) buffers: Arc<Account>,
    /// Connections without a file, after their close.
    pub(crate) orphans: Arc<Account>,
    /// Instance number in the peer ID.
    instance: u16,
    /// MAC address in the peer ID; 0 until the first handshake sets it.
    mac: Atomic<u64>,
    /// Connections of the namespace.
    #[pin]
    connections: Mutex<KVec<Arc<dyn Listed>>>,
    /// Counts of ended connections, and of events.
    #[pin]
    totals: SpinLockBh<Totals>,
}

/// The namespaces that have had a socket.
#[pin_data]
pub(crate) struct Nets {
    sysctls: Arc<Sysctls>,
    #[pin]
    list: Mutex<KVec<Arc<NetState>>>,
}

/// Counts of ended connections and groups, and of events.
#[derive(Clone, Copy, Default)]
pub(crate) struct Totals {
    /// Handshakes that ended in SMC-R: as client, as server.
    pub(crate) smc: [u64; 2],
    /// Connections that fell back.
    pub(crate) fallback: [u64; 2],
    /// Handshakes that ended the connection.
    pub(crate) aborted: [u64; 2],
    /// By RDMA, of connections that are over.
    pub(crate) data: Traffic,
    /// Payload over TCP, of connections that are over.
    pub(crate) tcp_bytes: u64,
    /// Fallback reasons with their counts.
    pub(crate) reasons: [(u32, u64); MAX_REASONS],
    /// Reasons of the handshakes that ended the connection, with their counts.
    pub(crate) abort_reasons: [(u32, u64); MAX_ABORT_REASONS],
    /// Rules that peers broke on connections, with their counts.
    pub(crate) violations: [(&'static str, u64); MAX_VIOLATIONS],
    /// Why links went down, with their counts.
    pub(crate) links_down: [(&'static str, u64); MAX_LINK_CAUSES],
    /// Link groups that ended.
    pub(crate) groups_ended: u64,
}

impl Totals {
    /// All counts zero. Not on the stack, for which they are too large. Context: may sleep.
    pub(crate) fn none() -> Result<KBox<Self>> {
        Ok(KBox::new(Self::default(), GFP_KERNEL)?)
    }
}

const fn index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

fn bump(counts: &mut [u64; 2], side: Side) {
    if let Some(count) = counts.get_mut(index(side)) {
        *count = count.wrapping_add(1);
    }
}

/// Counts something by its name, which gets a row at its first time while there are any.
fn bump_named<N: PartialEq>(rows: &mut [(N, u64)], name: N) {
    let row = rows
        .iter_mut()
        .find(|(known, count)| *known == name || *count == 0);
    if let Some(row) = row {
        *row = (name, row.1.wrapping_add(1));
    }
}

impl Nets {
    /// No namespace has had a socket yet. Context: may sleep.
    pub(super) fn new(sysctls: &Arc<Sysctls>) -> Result<Arc<Self>> {
        let sysctls = sysctls.clone();
        let list = new_mutex!(KVec::new(), "rdma_sock_nets");
        Arc::pin_init(pin_init!(Self { sysctls, list <- list }), GFP_KERNEL)
    }

    /// The state of a namespace, made at its first socket. Context: may sleep.
    pub(crate) fn state(&self, cookie: u64) -> Result<Arc<NetState>> {
        let settings = self.sysctls.of(cookie)?;
        let mut nets = self.list.lock();
        if let Some(net) = nets.iter().find(|net| net.cookie == cookie) {
            return Ok(net.clone());
        }
        let [low, high, ..] = random_u32().to_ne_bytes();
        let (buffers, orphans) = (Account::new()?, Account::new()?);
        let net = Arc::pin_init(
            pin_init!(NetState {
                cookie,
                settings,
                buffers,
                orphans,
                instance: u16::from_ne_bytes([low, high]),
                mac: Atomic::new(0u64),
                connections <- new_mutex!(KVec::new(), "rdma_sock_net_connections"),
                totals <- new_spinlock_bh!(Totals::default(), "rdma_sock_net_totals"),
            }),
            GFP_KERNEL,
        )?;
        nets.push(net.clone(), GFP_KERNEL)?;
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
    }
}

impl NetState {
    /// The identity of this stack: an instance number and the MAC of the first RNIC it used, which
    /// stays when others are used later (`SMCR-CLC-14`). Context: any.
    pub(crate) fn peer_id(&self, path: Option<&Path>) -> PeerId {
        let known = self.mac.load(Relaxed);
        let mac = match path {
            Some(path) if known == 0 => {
                let [a, b, c, d, e, f] = path.mac().get();
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

    /// Enters a connection in the namespace's list. Context: may sleep.
    pub(crate) fn enter(&self, connection: Arc<dyn Listed>) -> Result {
        self.connections.lock().push(connection, GFP_KERNEL)?;
        Ok(())
    }

    /// Takes a connection out of the list. Context: may sleep.
    pub(crate) fn leave(&self, connection: &dyn Listed) {
        let mut connections = self.connections.lock();
        let place = connections
            .iter()
            // The table of methods may exist more than once; the object does not.
            .position(|known| core::ptr::addr_eq(&raw const **known, connection));
        let removed = place.and_then(|place| connections.remove(place).ok());
        drop(connections);
        if removed.is_some() {
            let mut totals = self.totals.lock();
            totals.tcp_bytes = totals.tcp_bytes.wrapping_add(connection.tcp_bytes());
        }
    }

    /// Prints a row for each connection. Context: may sleep.
    pub(crate) fn print_connections(&self, m: &SeqFile) {
        for connection in self.connections.lock().iter() {
            connection.print(m);
        }
    }

    /// Counts a handshake that ended in SMC-R.
    pub(crate) fn count_smc(&self, side: Side) {
        bump(&mut self.totals.lock().smc, side);
    }

    /// Counts a connection that fell back.
    pub(crate) fn count_fallback(&self, side: Side, reason: Reason) {
        let mut totals = self.totals.lock();
        bump(&mut totals.fallback, side);
        bump_named(&mut totals.reasons, reason.code());
    }

    /// Counts a handshake that ended the connection.
    pub(crate) fn count_abort(&self, side: Side, reason: Reason) {
        let mut totals = self.totals.lock();
        bump(&mut totals.aborted, side);
        bump_named(&mut totals.abort_reasons, reason.code());
    }

    /// Counts a connection whose peer broke a rule. Context: any.
    pub(crate) fn count_violation(&self, rule: &'static str) {
        bump_named(&mut self.totals.lock().violations, rule);
    }

    /// Counts a link that went down. Context: any.
    pub(crate) fn count_link_down(&self, cause: &'static str) {
        bump_named(&mut self.totals.lock().links_down, cause);
    }

    /// Counts a link group that ended. Context: any.
    pub(crate) fn count_group_ended(&self) {
        let mut totals = self.totals.lock();
        totals.groups_ended = totals.groups_ended.wrapping_add(1);
    }

    /// Takes the data of a connection that is over by `take`, and adds its traffic to the totals.
    /// Context: may sleep.
    pub(crate) fn end<D>(&self, take: impl FnOnce() -> Option<(D, Traffic)>) -> Option<D> {
        // The list lock keeps `totals` from counting the connection twice or not at all.
        let _list = self.connections.lock();
        let (data, counters) = take()?;
        self.totals.lock().data.add(&counters);
        Some(data)
    }

    /// Everything counted, with the connections that live. Context: may sleep.
    pub(crate) fn totals(&self) -> Result<(KBox<Totals>, usize)> {
        let mut totals = Totals::none()?;
        // The list lock keeps a connection from being counted twice or not at all.
        let connections = self.connections.lock();
        *totals = *self.totals.lock();
        let mut active = 0usize;
        for connection in connections.iter() {
            totals.data.add(&connection.counters());
            totals.tcp_bytes = totals.tcp_bytes.wrapping_add(connection.tcp_bytes());
            if connection.is_smc() {
                active = active.saturating_add(1);
            }
        }
        Ok((totals, active))
    }
}
