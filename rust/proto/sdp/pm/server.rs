// SPDX-License-Identifier: GPL-2.0

//! The transactions of a Port Mapper server, draft 7.5.2 (SDP-PMS-*, SDP-PMSS-*).
//!
//! A mapping of ours lives as long as its listener, so that an entry holds nothing but the state of
//! its transaction, and serves to recognise duplicates for ten seconds after its last message. The
//! table is small: the oldest entry makes room for a new one, and a single sender has a share of it
//! only. A sender is the source address of datagrams, as the client that a message names costs its
//! author nothing.

use super::msg::{
    PmAddr,
    PmKind,
    PmMessage, //
};
use crate::proto::base::time::{
    Duration,
    Instant, //
};
use core::{
    net::IpAddr,
    ops::DerefMut, //
};

/// How long PMAck may take (SDP-TMR-2).
const PATIENCE: Duration = Duration::from_secs(10);

/// Entries of one sender, at most.
const SHARE: usize = 16;

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PmState {
    /// PMAccept was sent.
    Accepted,
    /// PMAck or a connection has come.
    Confirmed,
}

/// A transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PmTransaction {
    /// Service, client and handle as they were asked (SDP-PMS-02).
    request: PmMessage,
    /// Where the request came from.
    sender: IpAddr,
    state: PmState,
    /// When the entry came in or was used.
    since: Instant,
    /// When it is dropped.
    until: Instant,
}

impl PmTransaction {
    /// Whether both ends and their ports are the same (SDP-PMS-10).
    fn has_ends(&self, message: &PmMessage) -> bool {
        self.request.service == message.service && self.request.client == message.client
    }
}

/// Where a service is, as the engine knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PmService {
    /// Where to connect to (SDP-PM-10, SDP-PM-11).
    pub(crate) at: PmAddr,
    /// Coded lifetime of that (SDP-PMT-16).
    pub(crate) time: u8,
}

/// The table, in the memory of the caller.
#[derive(Clone, Debug)]
pub(crate) struct PmServer<S> {
    table: S,
}

impl<S: DerefMut<Target = [Option<PmTransaction>]>> PmServer<S> {
    /// A table with as many transactions as `table` has room for.
    pub(crate) const fn new(table: S) -> Self {
        Self { table }
    }

    fn find(&self, is_it: impl Fn(&PmTransaction) -> bool) -> Option<usize> {
        self.table
            .iter()
            .position(|entry| entry.as_ref().is_some_and(&is_it))
    }

    /// Where a new transaction goes: a free entry, or the oldest one of its sender if that has its
    /// share, or the oldest of all.
    fn place(&self, sender: IpAddr) -> Option<usize> {
        let is_same = |entry: &&PmTransaction| entry.sender == sender;
        let share = self.table.iter().flatten().filter(is_same).count();
        if share < SHARE {
            let free = self.table.iter().position(Option::is_none);
            if free.is_some() {
                return free;
            }
        }
        let entries = self.table.iter().enumerate();
        let entries = entries.filter_map(|(at, entry)| Some((at, entry.as_ref()?)));
        let mut candidates = entries.filter(|(_, entry)| share < SHARE || is_same(entry));
        let first = candidates.next()?;
        let (at, _) = candidates.fold(
            first,
            |old, new| if new.1.since < old.1.since { new } else { old },
        );
        Some(at)
    }

    /// A datagram has come from `sender`; gives the answer, which goes back there (SDP-PMF-21). It
    /// is never longer than the request. `service` says whether the service is there now, so that a
    /// duplicate gets the latest state (SDP-PMS-09).
    pub(crate) fn handle_message(
        &mut self,
        now: Instant,
        sender: IpAddr,
        message: &PmMessage,
        service: Option<PmService>,
    ) -> Option<PmMessage> {
        self.expire(now);
        match message.kind {
            PmKind::Req => Some(self.handle_request(now, sender, message, service)),
            PmKind::Ack => {
                self.handle_ack(now, message);
                None
            }
            PmKind::Accept | PmKind::Deny => None,
        }
    }

    /// PMReq (SDP-PMS-02, SDP-PMS-06 to SDP-PMS-11, SDP-PMSS-1, SDP-PMSS-2, SDP-PMSS-4 to
    /// SDP-PMSS-6, SDP-PMSS-10).
    fn handle_request(
        &mut self,
        now: Instant,
        sender: IpAddr,
        message: &PmMessage,
        service: Option<PmService>,
    ) -> PmMessage {
        // The same ends with another handle are of a client that has started again.
        let known = self.find(|entry| entry.has_ends(message));
        let is_duplicate = known.is_some_and(|at| {
            let entry = self.table.get(at).and_then(Option::as_ref);
            entry.is_some_and(|entry| entry.request.handle == message.handle)
        });
        let Some(service) = service else {
            if let Some(entry) = known.and_then(|at| self.table.get_mut(at)) {
                *entry = None;
            }
            // The port is echoed, as `iwpmd` does it (SDP-PMF-19, SDP-PMF-27, AMB-41).
            return PmMessage {
                kind: PmKind::Deny,
                ..*message
            };
        };
        let at = known.or_else(|| self.place(sender));
        if let Some(entry) = at.and_then(|at| self.table.get_mut(at)) {
            let was = entry.filter(|_| is_duplicate).map(|entry| entry.state);
            let state = was.unwrap_or(PmState::Accepted);
            *entry = Some(PmTransaction {
                request: *message,
                sender,
                state,
                since: now,
                until: now.saturating_add(PATIENCE),
            });
        }
        PmMessage {
            kind: PmKind::Accept,
            time: service.time,
            service: service.at,
            ..*message
        }
    }

    /// PMAck, whose service is that of PMAccept (SDP-PMS-03, SDP-PMS-08, SDP-PMSS-3, SDP-PMSS-7).
    fn handle_ack(&mut self, now: Instant, message: &PmMessage) {
        let at = self.find(|entry| message.is_answer_to(&entry.request));
        if let Some(at) = at {
            self.confirm(now, at);
        }
    }

    /// A connection from `client` to the address of a mapping stands for a lost PMAck (SDP-PMS-03,
    /// SDP-PMSS-7, AMB-70).
    pub(crate) fn handle_connect(&mut self, now: Instant, client: PmAddr) {
        let at = self.find(|entry| entry.request.client == client);
        if let Some(at) = at {
            self.confirm(now, at);
        }
    }

    fn confirm(&mut self, now: Instant, at: usize) {
        if let Some(entry) = self.table.get_mut(at).and_then(Option::as_mut) {
            entry.state = PmState::Confirmed;
            entry.since = now;
            entry.until = now.saturating_add(PATIENCE);
        }
    }

    /// Drops what has had its time (SDP-PMS-04, SDP-PMS-05, SDP-PMSS-8, SDP-PMSS-9).
    fn expire(&mut self, now: Instant) {
        for entry in self.table.iter_mut() {
            if entry.as_ref().is_some_and(|entry| entry.until <= now) {
                *entry = None;
            }
        }
    }

    /// A timer may have expired.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.expire(now);
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let entries = self.table.iter().flatten();
        entries.map(|entry| entry.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn at(secs: u64) -> Instant {
        Instant::from_nanos(0).saturating_add(Duration::from_secs(secs))
    }

    fn addr(last: u8, port: u16) -> PmAddr {
        PmAddr {
            ip: Ipv4Addr::new(10, 0, 0, last).into(),
            port,
        }
    }

    fn request(client: PmAddr, handle: u64) -> PmMessage {
        PmMessage {
            kind: PmKind::Req,
            time: 0,
            service: addr(2, 80),
            client,
            handle,
        }
    }

    const HERE: Option<PmService> = Some(PmService {
        at: PmAddr {
            ip: std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)),
            port: 5000,
        },
        time: 120,
    });

    type VecServer = PmServer<Vec<Option<PmTransaction>>>;

    fn server(room: usize) -> VecServer {
        PmServer::new(vec![None; room])
    }

    /// Handles a message that the client has sent itself.
    fn handle(
        server: &mut VecServer,
        secs: u64,
        message: &PmMessage,
        service: Option<PmService>,
    ) -> Option<PmMessage> {
        server.handle_message(at(secs), message.client.ip, message, service)
    }

    fn states(server: &VecServer) -> Vec<(u64, PmState)> {
        let entries = server.table.iter().flatten();
        entries
            .map(|entry| (entry.request.handle, entry.state))
            .collect()
    }

    // SDP-PMX-02, SDP-PMF-16, SDP-PMF-17, SDP-PMS-03, SDP-PMSS-1, SDP-PMSS-7.
    #[test]
    fn request_for_a_service_is_accepted_and_confirmed() {
        let mut server = server(4);
        let request = request(addr(1, 4000), 7);
        let accept = PmMessage {
            kind: PmKind::Accept,
            time: 120,
            service: addr(3, 5000),
            ..request
        };
        assert_eq!(handle(&mut server, 1, &request, HERE), Some(accept));
        assert_eq!(states(&server), [(7, PmState::Accepted)]);
        let ack = PmMessage {
            kind: PmKind::Ack,
            ..accept
        };
        assert_eq!(handle(&mut server, 2, &ack, HERE), None);
        assert_eq!(states(&server), [(7, PmState::Confirmed)]);
        assert_eq!(server.poll_timeout(), Some(at(12)));
        server.handle_timeout(at(11));
        assert_eq!(states(&server).len(), 1);
        server.handle_timeout(at(12));
        assert_eq!(states(&server), []);
    }

    // SDP-PMX-04, SDP-PMF-11, SDP-PMF-19, SDP-PMF-27, SDP-PMSS-2, AMB-41.
    #[test]
    fn request_for_no_service_is_denied_without_state() {
        let mut server = server(4);
        let request = request(addr(1, 4000), 7);
        let deny = PmMessage {
            kind: PmKind::Deny,
            ..request
        };
        assert_eq!(handle(&mut server, 1, &request, None), Some(deny));
        assert_eq!(states(&server), []);
    }

    // SDP-PMS-02, SDP-PMS-06, SDP-PMS-07, SDP-PMS-09, SDP-PMSS-4, SDP-PMSS-5, SDP-PMSS-10.
    #[test]
    fn duplicate_is_answered_by_the_latest_state() {
        let mut server = server(4);
        let request = request(addr(1, 4000), 7);
        let first = handle(&mut server, 1, &request, HERE);
        assert_eq!(handle(&mut server, 5, &request, HERE), first);
        assert_eq!(states(&server), [(7, PmState::Accepted)]);
        assert_eq!(server.poll_timeout(), Some(at(15)));
        server.handle_connect(at(6), addr(1, 4000));
        assert_eq!(handle(&mut server, 7, &request, HERE), first);
        assert_eq!(states(&server), [(7, PmState::Confirmed)]);
        let deny = handle(&mut server, 8, &request, None);
        assert_eq!(deny.map(|message| message.kind), Some(PmKind::Deny));
        assert_eq!(states(&server), []);
    }

    // SDP-PMS-01, SDP-PMS-04, SDP-PMS-07, SDP-PMS-11, SDP-PMSS-8, TST-284.
    #[test]
    fn accepted_request_without_confirmation_leaves_nothing_behind() {
        let mut server = server(4);
        let request = request(addr(1, 4000), 7);
        handle(&mut server, 1, &request, HERE);
        handle(&mut server, 4, &request, HERE);
        server.handle_timeout(at(13));
        assert_eq!(states(&server), [(7, PmState::Accepted)]);
        server.handle_timeout(at(14));
        assert_eq!((states(&server), server.poll_timeout()), (vec![], None));
        // What comes afterwards is a new request.
        handle(&mut server, 15, &request, HERE);
        assert_eq!(states(&server), [(7, PmState::Accepted)]);
    }

    // SDP-PMS-10, SDP-PMS-13, SDP-PMSS-6.
    #[test]
    fn same_ends_with_another_handle_start_again() {
        let mut server = server(4);
        handle(&mut server, 1, &request(addr(1, 4000), 7), HERE);
        server.handle_connect(at(1), addr(1, 4000));
        handle(&mut server, 2, &request(addr(1, 4000), 8), HERE);
        assert_eq!(states(&server), [(8, PmState::Accepted)]);
    }

    // SDP-PMS-08, SDP-PMSS-3: and a server has no use for what servers send.
    #[test]
    fn message_without_state_is_dropped() {
        let mut server = server(4);
        for kind in [PmKind::Ack, PmKind::Accept, PmKind::Deny] {
            let message = PmMessage {
                kind,
                ..request(addr(1, 4000), 7)
            };
            assert_eq!(handle(&mut server, 1, &message, HERE), None);
        }
        server.handle_connect(at(1), addr(1, 4000));
        assert_eq!(states(&server), []);
    }

    #[test]
    fn full_table_drops_its_oldest_entry() {
        let mut server = server(3);
        for number in 1..=5 {
            let client = addr(10 + number as u8, 1);
            handle(&mut server, number, &request(client, number), HERE);
        }
        let mut handles: Vec<_> = states(&server).iter().map(|state| state.0).collect();
        handles.sort();
        assert_eq!(handles, [3, 4, 5]);
    }

    // SDP-SEC-07, TST-294: a flood from one address leaves room for the others, also if it names many
    // clients.
    #[test]
    fn sender_has_its_share_only() {
        let mut server = server(32);
        handle(&mut server, 1, &request(addr(9, 1), 1000), HERE);
        for number in 0..40 {
            let request = request(addr(100 + number, 1), u64::from(number));
            let answer = server.handle_message(at(2), addr(1, 0).ip, &request, HERE);
            assert!(answer.is_some_and(|answer| answer.kind == PmKind::Accept));
        }
        assert_eq!(states(&server).len(), SHARE + 1);
        assert!(states(&server).contains(&(1000, PmState::Accepted)));
    }
}
