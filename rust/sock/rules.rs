// SPDX-License-Identifier: GPL-2.0

//! The administrator's rules of each network namespace, and the connections that they have decided.

use crate::{
    kapi::net::{
        addr::Addr,
        msg::Name,
        sock::Sock, //
    },
    proto::stream::{
        reason::{
            LocalReason,
            Reason, //
        },
        rules::{
            lines,
            Candidate,
            Carrier,
            Direction,
            Rule,
            RuleAction,
            MAX_RULES, //
        },
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

/// A rule of a namespace.
struct CountedRule {
    rule: Rule,
    /// Connections that it has decided.
    hits: u64,
}

/// The rules of a namespace that has some.
struct NetRules {
    cookie: u64,
    rules: KVec<CountedRule>,
}

/// The decisions that are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// All.
    All,
    /// Those for TCP.
    Refusals,
}

/// An IPv4 address out of its mapped form.
fn plain(addr: &Addr) -> IpAddr {
    match addr.as_v4() {
        Some(ip) => IpAddr::from(ip),
        None => IpAddr::from(addr.ip_mapped()),
    }
}

fn client(carrier: Carrier, peer: &Addr) -> Candidate {
    Candidate {
        direction: Direction::Out,
        carrier,
        peer: plain(peer),
        port: peer.port(),
    }
}

/// The rules of all namespaces.
#[pin_data]
pub(crate) struct Rules {
    /// Namespaces that have rules: most hosts have none, and then nothing is locked.
    nets_with_rules: Atomic<usize>,
    #[pin]
    nets: Mutex<KVec<NetRules>>,
}

impl Rules {
    /// No namespace has any. Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let nets = new_mutex!(KVec::new(), "rdma_sock_rules");
        Arc::pin_init(
            pin_init!(Self {
                nets_with_rules: Atomic::new(0usize),
                nets <- nets,
            }),
            GFP_KERNEL,
        )
    }

    /// The reason for TCP, if a rule demands it for the connection that a program asks for. Its
    /// address may change before the SYN, so that only such a rule counts it. Context: may sleep.
    pub(crate) fn judge_call(&self, sk: &Sock, carrier: Carrier, name: &Name) -> Option<Reason> {
        if !self.are_in_use() {
            return None;
        }
        let peer = name.to_owned().ok()?.addr()?;
        self.judge(sk.net_cookie(), client(carrier, &peer), Counts::Refusals)
    }

    /// The same for a connection to the service `peer`. Context: may sleep.
    pub(crate) fn judge_client(&self, sk: &Sock, carrier: Carrier, peer: &Addr) -> Option<Reason> {
        self.judge(sk.net_cookie(), client(carrier, peer), Counts::All)
    }

    /// The same for a connection of `peer` to the service `local`. Context: may sleep.
    pub(crate) fn judge_server(
        &self,
        sk: &Sock,
        carrier: Carrier,
        local: &Addr,
        peer: &Addr,
    ) -> Option<Reason> {
        let candidate = Candidate {
            direction: Direction::In,
            carrier,
            peer: plain(peer),
            port: local.port(),
        };
        self.judge(sk.net_cookie(), candidate, Counts::All)
    }

    fn are_in_use(&self) -> bool {
        self.nets_with_rules.load(Relaxed) != 0
    }

    fn judge(&self, cookie: u64, candidate: Candidate, counts: Counts) -> Option<Reason> {
        if !self.are_in_use() {
            return None;
        }
        let mut nets = self.nets.lock();
        let net = nets.iter_mut().find(|net| net.cookie == cookie)?;
        let decides = |counted: &&mut CountedRule| counted.rule.fits(&candidate);
        let counted = net.rules.iter_mut().find(decides)?;
        let is_tcp = counted.rule.action() == RuleAction::Tcp;
        if is_tcp || counts == Counts::All {
            counted.hits = counted.hits.wrapping_add(1);
        }
        is_tcp.then_some(Reason::Local(LocalReason::Policy))
    }

    /// Replaces the rules of a namespace, for later connections. A rule that was there keeps its
    /// count. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a line that is no rule, `E2BIG` for too many, `ENOMEM`; all rules stay then.
    pub(crate) fn replace(&self, cookie: u64, text: &[u8]) -> Result {
        let mut rules = KVec::new();
        for line in lines(text) {
            let Some(rule) = Rule::from_text(line).map_err(|_| EINVAL)? else {
                continue;
            };
            if rules.len() >= MAX_RULES {
                return Err(E2BIG);
            }
            rules.push(CountedRule { rule, hits: 0 }, GFP_KERNEL)?;
        }
        let mut nets = self.nets.lock();
        nets.reserve(1, GFP_KERNEL)?;
        let found = nets.iter().find(|net| net.cookie == cookie);
        let old = found.map_or(&[][..], |net| &*net.rules);
        for counted in &mut rules {
            let same = old.iter().find(|old| old.rule == counted.rule);
            counted.hits = same.map_or(0, |same| same.hits);
        }
        nets.retain(|net| net.cookie != cookie);
        if !rules.is_empty() {
            nets.push(NetRules { cookie, rules }, GFP_KERNEL)?;
        }
        self.nets_with_rules.store(nets.len(), Relaxed);
        Ok(())
    }

    /// The namespace is gone. Context: may sleep.
    pub(crate) fn forget(&self, cookie: u64) {
        let mut nets = self.nets.lock();
        nets.retain(|net| net.cookie != cookie);
        self.nets_with_rules.store(nets.len(), Relaxed);
    }

    /// Calls `f` with each rule of a namespace and its count, in their order. Context: may sleep.
    pub(crate) fn for_each(&self, cookie: u64, mut f: impl FnMut(&Rule, u64)) {
        let nets = self.nets.lock();
        let found = nets.iter().filter(|net| net.cookie == cookie);
        for counted in found.flat_map(|net| net.rules.iter()) {
            f(&counted.rule, counted.hits);
        }
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_sock_rules)]
mod tests {
    use super::*;

    const TCP: Option<Reason> = Some(Reason::Local(LocalReason::Policy));

    fn judged(rules: &Rules, cookie: u64, port: u16) -> Option<Reason> {
        let peer = Addr::V4 {
            ip: [10, 9, 0, 2],
            port,
        };
        rules.judge(cookie, client(Carrier::Smc, &peer), Counts::All)
    }

    fn hits(rules: &Rules, cookie: u64) -> Result<KVec<u64>> {
        let mut found = KVec::new();
        let mut result = Ok(());
        rules.for_each(cookie, |_, hits| {
            result = result.and(found.push(hits, GFP_KERNEL).map_err(Error::from));
        });
        result.map(|()| found)
    }

    #[test]
    fn first_rule_that_fits_decides_and_counts() -> Result {
        let rules = Rules::new()?;
        assert_eq!(judged(&rules, 1, 80), None);
        rules.replace(1, b"rdma out port=80\ntcp any peer=10.9.0.0/24\n")?;
        assert_eq!(judged(&rules, 1, 80), None);
        assert_eq!(judged(&rules, 1, 81), TCP);
        assert_eq!(judged(&rules, 1, 82), TCP);
        assert_eq!(judged(&rules, 2, 81), None);
        assert!(*hits(&rules, 1)? == [1, 2]);
        Ok(())
    }

    #[test]
    fn rule_that_stays_keeps_its_count() -> Result {
        let rules = Rules::new()?;
        rules.replace(1, b"tcp out")?;
        assert_eq!(judged(&rules, 1, 80), TCP);
        rules.replace(1, b"rdma out port=80\ntcp out")?;
        assert!(*hits(&rules, 1)? == [0, 1]);
        rules.replace(1, b"")?;
        assert!(hits(&rules, 1)?.is_empty());
        assert_eq!(judged(&rules, 1, 80), None);
        Ok(())
    }

    #[test]
    fn bad_text_leaves_the_rules_as_they_are() -> Result {
        let rules = Rules::new()?;
        rules.replace(1, b"tcp out")?;
        assert_eq!(rules.replace(1, b"rdma out\ndeny in"), Err(EINVAL));
        let mut text = KVec::new();
        for _ in 0..=MAX_RULES {
            text.extend_from_slice(b"tcp out;", GFP_KERNEL)?;
        }
        assert_eq!(rules.replace(1, &text), Err(E2BIG));
        assert_eq!(judged(&rules, 1, 80), TCP);
        rules.forget(1);
        assert_eq!(judged(&rules, 1, 80), None);
        Ok(())
    }
}
