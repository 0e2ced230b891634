// SPDX-License-Identifier: GPL-2.0

//! The connections of a network namespace, and their counts.

use super::calls::Calls;
use crate::{
    kapi::{
        base::sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
        net::proc::SeqFile, //
    },
    proto::stream::reason::Reason, //
};
use core::any::Any;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// Reasons that are counted one by one; every further one adds to the total only.
const MAX_REASONS: usize = 32;

/// The same for the set-ups that ended the connection.
const MAX_ABORT_REASONS: usize = 16;

/// Rules that are counted one by one; as many as there are names.
const MAX_VIOLATIONS: usize = 8;

/// Which end of the TCP connection this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Side {
    /// Active opener, or nothing yet.
    #[default]
    Client,
    /// Passive opener.
    Server,
}

/// Traffic of a connection by RDMA.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traffic {
    /// Bytes sent.
    pub(crate) tx_bytes: u64,
    /// Bytes that the program has read.
    pub(crate) rx_bytes: u64,
    /// Bytes of `tx_bytes` that were sent without a copy.
    pub(crate) tx_zerocopy: u64,
    /// RDMA writes posted.
    pub(crate) tx_writes: u64,
    /// Messages of the protocol posted.
    pub(crate) tx_messages: u64,
    /// Messages of the protocol received.
    pub(crate) rx_messages: u64,
}

impl Traffic {
    /// Adds another set.
    pub(crate) fn add(&mut self, other: &Self) {
        self.tx_bytes = self.tx_bytes.wrapping_add(other.tx_bytes);
        self.rx_bytes = self.rx_bytes.wrapping_add(other.rx_bytes);
        self.tx_zerocopy = self.tx_zerocopy.wrapping_add(other.tx_zerocopy);
        self.tx_writes = self.tx_writes.wrapping_add(other.tx_writes);
        self.tx_messages = self.tx_messages.wrapping_add(other.tx_messages);
        self.rx_messages = self.rx_messages.wrapping_add(other.rx_messages);
    }
}

/// A connection as the list of its namespace sees it. Context of all methods: any.
pub(crate) trait Listed: Send + Sync {
    /// The connection, for code that knows its protocol.
    fn as_any(&self) -> &dyn Any;

    /// Its traffic by RDMA.
    fn traffic(&self) -> Traffic;

    /// Bytes of payload that went over TCP.
    fn tcp_bytes(&self) -> u64;

    /// Its calls by RDMA.
    fn calls(&self) -> Calls;

    /// Whether data flows by RDMA.
    fn is_stream(&self) -> bool;

    /// Prints its row of `/proc/net/rdma_sock/conns`.
    fn print(&self, m: &SeqFile);
}

/// A list of connections, in the order of their numbers.
struct Connections {
    /// The number of the last one, from 1.
    last: u64,
    list: KVec<(u64, Arc<dyn Listed>)>,
}

/// The connections of a protocol in a network namespace, and what they have counted.
#[pin_data]
pub(crate) struct NetStats {
    /// Connections of the namespace.
    #[pin]
    connections: Mutex<Connections>,
    /// Counts of ended connections, and of events.
    #[pin]
    totals: SpinLockBh<Totals>,
}

/// Why connections fell back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The code of the reason.
    pub(crate) code: u32,
    /// Their end.
    pub(crate) side: Side,
    /// The peer has asked for it.
    pub(crate) by_peer: bool,
}

/// Counts of ended connections, and of events.
#[derive(Clone, Copy, Default)]
pub(crate) struct Totals {
    /// Set-ups that ended well: as client, as server.
    pub(crate) established: [u64; 2],
    /// Connections that fell back.
    pub(crate) fallback: [u64; 2],
    /// Set-ups that ended the connection.
    pub(crate) aborted: [u64; 2],
    /// By RDMA, of connections that are over.
    pub(crate) traffic: Traffic,
    /// Payload over TCP, of connections that are over.
    pub(crate) tcp_bytes: u64,
    /// Calls by RDMA, of connections that are over.
    pub(crate) calls: Calls,
    /// Fallback reasons with their counts.
    pub(crate) reasons: [(Cause, u64); MAX_REASONS],
    /// Reasons of the set-ups that ended the connection, with their counts.
    pub(crate) abort_reasons: [(u32, u64); MAX_ABORT_REASONS],
    /// Rules that peers broke on connections, with their counts.
    pub(crate) violations: [(&'static str, u64); MAX_VIOLATIONS],
}

impl Totals {
    /// All counts zero. Not on the stack, for which they are too large. Context: may sleep.
    pub(crate) fn none() -> Result<KBox<Self>> {
        Ok(KBox::new(Self::default(), GFP_KERNEL)?)
    }

    /// The codes of fallback reasons, each with its count.
    pub(crate) fn codes(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let used = || self.reasons.iter().filter(|(_, count)| *count != 0);
        used().enumerate().filter_map(move |(row, (cause, _))| {
            let same = move |(other, _): &&(Cause, u64)| other.code == cause.code;
            if used().take(row).any(|other| same(&other)) {
                return None;
            }
            let counts = used().filter(same).map(|(_, count)| *count);
            Some((cause.code, counts.fold(0, u64::wrapping_add)))
        })
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
pub(crate) fn bump_named<N: PartialEq>(rows: &mut [(N, u64)], name: N) {
    let row = rows
        .iter_mut()
        .find(|(known, count)| *known == name || *count == 0);
    if let Some(row) = row {
        *row = (name, row.1.wrapping_add(1));
    }
}

impl NetStats {
    /// No connection yet. Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let none = Connections {
            last: 0,
            list: KVec::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                connections <- new_mutex!(none, "rdma_sock_net_connections"),
                totals <- new_spinlock_bh!(Totals::default(), "rdma_sock_net_totals"),
            }),
            GFP_KERNEL,
        )
    }

    /// Enters a connection in the list. Context: may sleep.
    pub(crate) fn enter(&self, connection: Arc<dyn Listed>) -> Result {
        let mut connections = self.connections.lock();
        let number = connections.last.wrapping_add(1);
        connections.list.push((number, connection), GFP_KERNEL)?;
        connections.last = number;
        Ok(())
    }

    /// Takes a connection out of the list. Context: may sleep.
    pub(crate) fn leave(&self, connection: &dyn Listed) {
        let mut connections = self.connections.lock();
        let place = connections
            .list
            .iter()
            // The table of methods may exist more than once; the object does not.
            .position(|(_, known)| core::ptr::addr_eq(&raw const **known, connection));
        let removed = place.and_then(|place| connections.list.remove(place).ok());
        drop(connections);
        if removed.is_some() {
            let mut totals = self.totals.lock();
            totals.tcp_bytes = totals.tcp_bytes.wrapping_add(connection.tcp_bytes());
            totals.calls.add(&connection.calls());
        }
    }

    /// Prints a row for each connection. Context: may sleep.
    pub(crate) fn print_connections(&self, m: &SeqFile) {
        for (_, connection) in self.connections.lock().list.iter() {
            connection.print(m);
        }
    }

    /// The first connection with a greater number than that. Context: may sleep.
    pub(crate) fn after(&self, number: u64) -> Option<(u64, Arc<dyn Listed>)> {
        let connections = self.connections.lock();
        let place = connections
            .list
            .partition_point(|(known, _)| *known <= number);
        connections.list.get(place).cloned()
    }

    /// Counts a set-up that ended well. Context: any.
    pub(crate) fn count_established(&self, side: Side) {
        bump(&mut self.totals.lock().established, side);
    }

    /// Counts a connection that fell back. Context: any.
    pub(crate) fn count_fallback(&self, side: Side, reason: Reason, by_peer: bool) {
        let cause = Cause {
            code: reason.code(),
            side,
            by_peer,
        };
        let mut totals = self.totals.lock();
        bump(&mut totals.fallback, side);
        bump_named(&mut totals.reasons, cause);
    }

    /// Counts a set-up that ended the connection. Context: any.
    pub(crate) fn count_abort(&self, side: Side, reason: Reason) {
        let mut totals = self.totals.lock();
        bump(&mut totals.aborted, side);
        bump_named(&mut totals.abort_reasons, reason.code());
    }

    /// Counts a connection whose peer broke a rule. Context: any.
    pub(crate) fn count_violation(&self, rule: &'static str) {
        bump_named(&mut self.totals.lock().violations, rule);
    }

    /// Takes the stream of a connection that is over by `take`, and adds its traffic to the totals.
    /// Context: may sleep.
    pub(crate) fn end<D>(&self, take: impl FnOnce() -> Option<(D, Traffic)>) -> Option<D> {
        // The list lock keeps `totals` from counting the connection twice or not at all.
        let _list = self.connections.lock();
        let (stream, traffic) = take()?;
        self.totals.lock().traffic.add(&traffic);
        Some(stream)
    }

    /// Everything counted, with the connections that live, and the number of those that use RDMA.
    /// Context: may sleep.
    pub(crate) fn totals(&self) -> Result<(KBox<Totals>, usize)> {
        let mut totals = Totals::none()?;
        // The list lock keeps a connection from being counted twice or not at all.
        let connections = self.connections.lock();
        *totals = *self.totals.lock();
        let mut active = 0usize;
        for (_, connection) in connections.list.iter() {
            totals.traffic.add(&connection.traffic());
            totals.tcp_bytes = totals.tcp_bytes.wrapping_add(connection.tcp_bytes());
            totals.calls.add(&connection.calls());
            if connection.is_stream() {
                active = active.saturating_add(1);
            }
        }
        Ok((totals, active))
    }
}
