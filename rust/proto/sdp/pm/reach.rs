// SPDX-License-Identifier: GPL-2.0

//! What is known of hosts and their services, so that a connection waits for the Port Mapper only
//! when it must (SDP-PMT-10 to SDP-PMT-15).
//!
//! A host is known to speak SDP, or not to; a service has an address by SDP for as long as its
//! PMAccept says. Both are caches in memory of the caller, where the oldest entry makes room.

use super::{
    client::PmOutcome,
    msg::{
        lifetime,
        PmAddr,
        PmLifetime, //
    },
};
use crate::proto::base::{
    retry::Backoff,
    time::{
        Duration,
        Instant, //
    },
};
use core::{
    net::IpAddr,
    ops::DerefMut, //
};

/// How long a host is known to speak SDP after its last sign of that.
const SPEAKS: Duration = Duration::from_secs(600);

/// How long a host is known not to, doubling with each time in a row.
const SILENCE: Backoff = Backoff {
    first: Duration::from_secs(30),
    most: Duration::from_secs(600),
};

/// What a client does about a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReachAdvice {
    /// Connect there by SDP (SDP-PMCS-1).
    Connect(PmAddr),
    /// Ask the Port Mapper, and wait for its answer.
    Ask,
    /// Use TCP at once.
    Tcp,
}

/// What is known of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostState {
    /// It speaks SDP.
    Speaks,
    /// It does not, or did not answer, this number of times in a row.
    Silent { times: u32 },
}

/// A host, in the memory of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostEntry {
    ip: IpAddr,
    state: HostState,
    since: Instant,
    until: Instant,
}

/// A service, in the memory of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServiceEntry {
    service: PmAddr,
    /// Where it is by SDP; `None`: it is not.
    at: Option<PmAddr>,
    /// `None`: without limit.
    until: Option<Instant>,
    since: Instant,
}

/// The caches.
#[derive(Clone, Debug)]
pub(crate) struct Reach<H, S> {
    hosts: H,
    services: S,
}

/// Where a new entry goes: where the old one of its key is, to a free place, or to the oldest.
fn place<T>(
    slots: &[Option<T>],
    is_same: impl Fn(&T) -> bool,
    age: impl Fn(&T) -> Instant,
) -> Option<usize> {
    let same = slots
        .iter()
        .position(|slot| slot.as_ref().is_some_and(&is_same));
    let free = || slots.iter().position(Option::is_none);
    let oldest = || {
        let ages = slots.iter().enumerate();
        let ages = ages.filter_map(|(at, slot)| Some((age(slot.as_ref()?), at)));
        ages.min().map(|(_, at)| at)
    };
    same.or_else(free).or_else(oldest)
}

impl<H, S> Reach<H, S>
where
    H: DerefMut<Target = [Option<HostEntry>]>,
    S: DerefMut<Target = [Option<ServiceEntry>]>,
{
    /// Nothing is known, if all entries are `None`. There is room for as many hosts and services as
    /// there are entries.
    pub(crate) const fn new(hosts: H, services: S) -> Self {
        Self { hosts, services }
    }

    /// What to do about a service now. `maps`: SDP has other ports than TCP, as over iWARP. If not,
    /// a host that speaks SDP needs not be asked.
    pub(crate) fn advise(&self, now: Instant, service: PmAddr, maps: bool) -> ReachAdvice {
        let host = self.host(now, service.ip);
        // A host that is known not to answer is not asked, whatever it has said before.
        if matches!(host, Some(HostState::Silent { .. })) {
            return ReachAdvice::Tcp;
        }
        let known =
            self.services.iter().flatten().find(|entry| {
                entry.service == service && entry.until.is_none_or(|until| now < until)
            });
        match known.map(|entry| entry.at) {
            Some(Some(at)) => ReachAdvice::Connect(at),
            // A connection manager refuses a service that is not there as quickly as a Port Mapper,
            // and the service may be there by now.
            _ if host == Some(HostState::Speaks) && !maps => ReachAdvice::Connect(service),
            Some(None) => ReachAdvice::Tcp,
            None => ReachAdvice::Ask,
        }
    }

    /// Whether the host is known to speak SDP.
    pub(crate) fn is_speaking(&self, now: Instant, ip: IpAddr) -> bool {
        self.host(now, ip) == Some(HostState::Speaks)
    }

    /// The last time that the host gave a sign of SDP, if it is known to speak it.
    pub(crate) fn last_sign(&self, ip: IpAddr) -> Option<Instant> {
        let mut hosts = self.hosts.iter().flatten();
        let is_it = |entry: &&HostEntry| entry.ip == ip && entry.state == HostState::Speaks;
        hosts.find(is_it).map(|entry| entry.since)
    }

    fn host(&self, now: Instant, ip: IpAddr) -> Option<HostState> {
        let mut hosts = self.hosts.iter().flatten();
        let entry = hosts.find(|entry| entry.ip == ip && now < entry.until)?;
        Some(entry.state)
    }

    /// The Port Mapper was asked.
    pub(crate) fn handle_outcome(&mut self, now: Instant, service: PmAddr, outcome: &PmOutcome) {
        match *outcome {
            PmOutcome::Found { at, time } => {
                self.note(now, service.ip, HostState::Speaks);
                // What is of PmTime 0 is not kept (SDP-PMT-13).
                match lifetime(time) {
                    Some(lifetime) => self.keep(now, service, Some(at), lifetime),
                    None => self.forget_service(service),
                }
            }
            // It has a Port Mapper, and no such service: the next one may be there.
            PmOutcome::Denied => {
                self.note(now, service.ip, HostState::Speaks);
                self.keep(now, service, None, PmLifetime::Span(SILENCE.delay(0)));
            }
            PmOutcome::Absent | PmOutcome::Silent => self.note_silence(now, service.ip),
            PmOutcome::Unsent => {}
        }
    }

    /// A connection by SDP came about.
    pub(crate) fn handle_sign_of_life(&mut self, now: Instant, ip: IpAddr) {
        self.note(now, ip, HostState::Speaks);
    }

    /// The host has asked our Port Mapper. A datagram may be forged, so this makes it worth asking,
    /// and no more.
    pub(crate) fn handle_asked(&mut self, ip: IpAddr) {
        for slot in self.hosts.iter_mut() {
            let is_silent = |entry: &HostEntry| matches!(entry.state, HostState::Silent { .. });
            if slot
                .as_ref()
                .is_some_and(|entry| entry.ip == ip && is_silent(entry))
            {
                *slot = None;
            }
        }
    }

    /// A connection by SDP failed (SDP-PMC-10, SDP-PMCS-9).
    pub(crate) fn handle_failure(&mut self, now: Instant, service: PmAddr) {
        self.forget_service(service);
        self.note_silence(now, service.ip);
    }

    /// Addresses or devices of this host have changed.
    pub(crate) fn forget_all(&mut self) {
        self.hosts.fill(None);
        self.services.fill(None);
    }

    /// A host did not answer. What began before the host was known as silent says nothing new: many
    /// connections at a time fail for one reason.
    fn note_silence(&mut self, now: Instant, ip: IpAddr) {
        if matches!(self.host(now, ip), Some(HostState::Silent { .. })) {
            return;
        }
        // Also an entry whose time is over says how often.
        let mut hosts = self.hosts.iter().flatten();
        let times = match hosts.find(|entry| entry.ip == ip).map(|entry| entry.state) {
            Some(HostState::Silent { times }) => times.saturating_add(1),
            Some(HostState::Speaks) | None => 0,
        };
        self.note(now, ip, HostState::Silent { times });
    }

    fn note(&mut self, now: Instant, ip: IpAddr, state: HostState) {
        let span = match state {
            HostState::Speaks => SPEAKS,
            HostState::Silent { times } => SILENCE.delay(times),
        };
        let place = place(&self.hosts, |entry| entry.ip == ip, |entry| entry.until);
        if let Some(slot) = place.and_then(|at| self.hosts.get_mut(at)) {
            *slot = Some(HostEntry {
                ip,
                state,
                since: now,
                until: now.saturating_add(span),
            });
        }
    }

    /// Keeps an answer for its time.
    fn keep(&mut self, now: Instant, service: PmAddr, at: Option<PmAddr>, lifetime: PmLifetime) {
        let until = match lifetime {
            PmLifetime::Span(span) => Some(now.saturating_add(span)),
            PmLifetime::Unlimited => None,
        };
        let is_same = |entry: &ServiceEntry| entry.service == service;
        let place = place(&self.services, is_same, |entry| entry.since);
        if let Some(slot) = place.and_then(|at| self.services.get_mut(at)) {
            *slot = Some(ServiceEntry {
                service,
                at,
                until,
                since: now,
            });
        }
    }

    fn forget_service(&mut self, service: PmAddr) {
        for slot in self.services.iter_mut() {
            if slot.as_ref().is_some_and(|entry| entry.service == service) {
                *slot = None;
            }
        }
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

    fn found(time: u8) -> PmOutcome {
        PmOutcome::Found {
            at: addr(2, 5000),
            time,
        }
    }

    type VecReach = Reach<Vec<Option<HostEntry>>, Vec<Option<ServiceEntry>>>;

    fn reach(room: usize) -> VecReach {
        Reach::new(vec![None; room], vec![None; room])
    }

    const THERE: fn() -> ReachAdvice = || ReachAdvice::Connect(addr(2, 5000));

    #[test]
    fn unknown_host_is_asked() {
        let reach = reach(4);
        assert_eq!(reach.advise(at(1), addr(2, 80), true), ReachAdvice::Ask);
    }

    // SDP-PMT-10 to SDP-PMT-15, SDP-PMCS-1, SDP-PMCS-10.
    #[test]
    fn answer_is_used_for_as_long_as_it_says() {
        for (time, last) in [(120, 30), (128, 128)] {
            let mut reach = reach(4);
            reach.handle_outcome(at(0), addr(2, 80), &found(time));
            assert_eq!(reach.advise(at(last - 1), addr(2, 80), true), THERE());
            assert_eq!(reach.advise(at(last), addr(2, 80), true), ReachAdvice::Ask);
            assert_eq!(reach.advise(at(1), addr(2, 81), true), ReachAdvice::Ask);
        }
        let mut reach = reach(4);
        reach.handle_outcome(at(0), addr(2, 80), &found(255));
        assert_eq!(reach.advise(at(100_000), addr(2, 80), true), THERE());
        reach.handle_outcome(at(0), addr(2, 80), &found(0));
        assert_eq!(reach.advise(at(1), addr(2, 80), true), ReachAdvice::Ask);
    }

    #[test]
    fn host_without_sdp_costs_nothing_for_twice_as_long_each_time() {
        let mut reach = reach(4);
        let mut now = 0;
        for span in [30, 60, 120, 240, 480, 600, 600] {
            let outcome = match span {
                30 => PmOutcome::Absent,
                _ => PmOutcome::Silent,
            };
            reach.handle_outcome(at(now), addr(2, 80), &outcome);
            let advice = |secs| reach.advise(at(secs), addr(2, 99), true);
            assert_eq!(advice(now + span - 1), ReachAdvice::Tcp);
            assert_eq!(advice(now + span), ReachAdvice::Ask);
            now += span;
        }
        reach.handle_sign_of_life(at(now), addr(2, 0).ip);
        reach.handle_outcome(at(now), addr(2, 80), &PmOutcome::Silent);
        assert_eq!(
            reach.advise(at(now + 30), addr(2, 80), true),
            ReachAdvice::Ask
        );
    }

    #[test]
    fn silent_host_that_asks_us_is_worth_asking() {
        let mut reach = reach(4);
        for last in [2, 3] {
            reach.handle_outcome(at(0), addr(last, 80), &PmOutcome::Silent);
        }
        reach.handle_asked(addr(2, 0).ip);
        assert_eq!(reach.advise(at(1), addr(2, 80), false), ReachAdvice::Ask);
        assert_eq!(reach.advise(at(1), addr(3, 80), false), ReachAdvice::Tcp);
        assert!(!reach.is_speaking(at(1), addr(2, 0).ip));
        reach.handle_sign_of_life(at(1), addr(2, 0).ip);
        reach.handle_asked(addr(2, 0).ip);
        assert!(reach.is_speaking(at(2), addr(2, 0).ip));
    }

    #[test]
    fn request_that_was_not_sent_says_nothing_about_the_host() {
        let mut reach = reach(4);
        reach.handle_outcome(at(0), addr(2, 80), &PmOutcome::Unsent);
        assert_eq!(reach.advise(at(0), addr(2, 80), false), ReachAdvice::Ask);
    }

    // SDP-PMC-10, SDP-PMCS-9.
    #[test]
    fn failed_connection_drops_its_answer_and_prefers_tcp_for_a_while() {
        let mut reach = reach(4);
        reach.handle_outcome(at(0), addr(2, 80), &found(255));
        reach.handle_failure(at(1), addr(2, 80));
        assert_eq!(reach.advise(at(30), addr(2, 80), true), ReachAdvice::Tcp);
        assert_eq!(reach.advise(at(31), addr(2, 80), true), ReachAdvice::Ask);
    }

    #[test]
    fn failures_of_connections_at_a_time_count_once() {
        let mut reach = reach(2);
        for late in 0..20 {
            reach.handle_failure(at(late), addr(2, 80));
        }
        assert_eq!(reach.advise(at(29), addr(2, 80), true), ReachAdvice::Tcp);
        assert_eq!(reach.advise(at(30), addr(2, 80), true), ReachAdvice::Ask);
        // The next one in a row does count.
        reach.handle_failure(at(30), addr(2, 80));
        assert_eq!(reach.advise(at(89), addr(2, 80), true), ReachAdvice::Tcp);
        assert_eq!(reach.advise(at(90), addr(2, 80), true), ReachAdvice::Ask);
    }

    #[test]
    fn last_sign_is_that_of_a_host_that_speaks() {
        let mut reach = reach(4);
        let ip = addr(2, 0).ip;
        assert_eq!(reach.last_sign(ip), None);
        for secs in [1, 3] {
            reach.handle_sign_of_life(at(secs), ip);
            assert_eq!(reach.last_sign(ip), Some(at(secs)));
        }
        assert_eq!(reach.last_sign(addr(3, 0).ip), None);
        reach.handle_failure(at(4), addr(2, 80));
        assert_eq!(reach.last_sign(ip), None);
    }

    #[test]
    fn denied_service_says_nothing_about_the_others() {
        let mut reach = reach(4);
        reach.handle_outcome(at(0), addr(2, 80), &found(255));
        reach.handle_outcome(at(1), addr(2, 80), &PmOutcome::Denied);
        assert_eq!(reach.advise(at(2), addr(2, 80), true), ReachAdvice::Tcp);
        assert_eq!(reach.advise(at(31), addr(2, 80), true), ReachAdvice::Ask);
        assert_eq!(reach.advise(at(2), addr(2, 81), true), ReachAdvice::Ask);
    }

    // SDP-PM-11: the port of the service is that of SDP.
    #[test]
    fn host_that_speaks_is_not_asked_where_ports_are_not_mapped() {
        let mut reach = reach(4);
        let advice = |reach: &VecReach, secs| reach.advise(at(secs), addr(2, 81), false);
        assert_eq!(advice(&reach, 0), ReachAdvice::Ask);
        reach.handle_sign_of_life(at(0), addr(2, 0).ip);
        assert_eq!(advice(&reach, 599), ReachAdvice::Connect(addr(2, 81)));
        assert_eq!(advice(&reach, 600), ReachAdvice::Ask);
        // A service that was not there may have come.
        reach.handle_outcome(at(600), addr(2, 81), &PmOutcome::Denied);
        assert_eq!(advice(&reach, 601), ReachAdvice::Connect(addr(2, 81)));
    }

    #[test]
    fn full_cache_drops_its_oldest_entry() {
        let mut reach = reach(2);
        for last in 1..=3 {
            reach.handle_outcome(at(u64::from(last)), addr(last, 80), &found(255));
        }
        assert_eq!(reach.advise(at(4), addr(1, 80), true), ReachAdvice::Ask);
        for last in 2..=3 {
            assert_eq!(reach.advise(at(4), addr(last, 80), true), THERE());
        }
        reach.forget_all();
        assert_eq!(reach.advise(at(4), addr(3, 80), true), ReachAdvice::Ask);
    }
}
