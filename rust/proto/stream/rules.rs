// SPDX-License-Identifier: GPL-2.0

//! Rules of an administrator: which connections may use RDMA, by direction, protocol, peer and port.
//!
//! The first rule that fits a connection decides. Without one, the connection may use RDMA. A rule is a
//! line of text:
//!
//! ```text
//! ACTION DIRECTION [proto=smc|sdp] [peer=PREFIX] [port=FIRST[-LAST]]
//!
//! tcp  any peer=10.9.0.0/16           # plain TCP with these hosts
//! rdma out proto=smc port=5432        # SMC-R to these services
//! tcp  out                            # no RDMA to any other
//! ```
//!
//! The port is that of the service, which the server has. Lists show `hits=N` behind a rule: the
//! connections that it has decided. What was listed can be written again.

use crate::proto::base::{
    network::Prefix,
    ports::PortRange, //
};
use core::{
    fmt,
    net::IpAddr, //
};

/// Rules of a namespace, at most.
pub(crate) const MAX_RULES: usize = 128;

/// The end of a connection that this host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// A program of this host connects.
    Out,
    /// A program of this host accepts.
    In,
}

/// The protocol that would carry a connection by RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// SMC-R.
    Smc,
    /// SDP.
    Sdp,
}

impl Carrier {
    const fn word(self) -> &'static str {
        match self {
            Self::Smc => "smc",
            Self::Sdp => "sdp",
        }
    }
}

/// What a rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleAction {
    /// RDMA, if both hosts can.
    Rdma,
    /// TCP only.
    Tcp,
}

/// A connection that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The end that this host is.
    pub(crate) direction: Direction,
    /// The protocol that would carry it.
    pub(crate) carrier: Carrier,
    /// The address of the peer. An IPv4 address is not in its mapped form.
    pub(crate) peer: IpAddr,
    /// The port of the service.
    pub(crate) port: u16,
}

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// What it allows.
    action: RuleAction,
    /// For one direction only.
    direction: Option<Direction>,
    /// For one protocol only.
    carrier: Option<Carrier>,
    /// For these peers only.
    peer: Option<Prefix>,
    /// For these services only.
    ports: Option<PortRange>,
}

/// The fault of a text that is no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleFault {
    /// The first word is neither `rdma` nor `tcp`.
    Action,
    /// The second word is none of `in`, `out` and `any`.
    Direction,
    /// `proto=` is followed by another word than `smc` and `sdp`.
    Protocol,
    /// `peer=` is not followed by a network, whose bits behind the prefix are 0.
    Peer,
    /// `port=` is not followed by a port or a range of ports.
    Port,
    /// There is no such key.
    Key,
    /// A key is there twice.
    Twice,
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Action => "the first word has to be rdma or tcp",
            Self::Direction => "the second word has to be in, out or any",
            Self::Protocol => "proto= takes smc or sdp",
            Self::Peer => "peer= takes an address or a network, such as 10.1.0.0/16, without bits behind the prefix",
            Self::Port => "port= takes a port or a range, such as 8000-8080",
            Self::Key => "the keys are proto=, peer= and port=",
            Self::Twice => "a key is there twice",
        })
    }
}

/// Sets a field that is not set.
fn once<T>(field: &mut Option<T>, value: T) -> Result<(), RuleFault> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(RuleFault::Twice),
    }
}

impl Rule {
    /// Reads a line. `None` if it has nothing but white space and a comment.
    ///
    /// # Errors
    ///
    /// The first fault of the line.
    pub(crate) fn from_text(line: &[u8]) -> Result<Option<Self>, RuleFault> {
        let line = line
            .split(|octet| *octet == b'#')
            .next()
            .unwrap_or_default();
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let Some(action) = words.next() else {
            return Ok(None);
        };
        let action = match action {
            b"rdma" => RuleAction::Rdma,
            b"tcp" => RuleAction::Tcp,
            _ => return Err(RuleFault::Action),
        };
        let direction = match words.next().unwrap_or_default() {
            b"any" => None,
            b"in" => Some(Direction::In),
            b"out" => Some(Direction::Out),
            _ => return Err(RuleFault::Direction),
        };
        let mut rule = Self {
            action,
            direction,
            carrier: None,
            peer: None,
            ports: None,
        };
        words.try_for_each(|word| rule.take(word))?;
        Ok(Some(rule))
    }

    /// Takes a word behind the first two.
    fn take(&mut self, word: &[u8]) -> Result<(), RuleFault> {
        let mut parts = word.splitn(2, |octet| *octet == b'=');
        let (key, value) = (parts.next().unwrap_or_default(), parts.next());
        let value = value.ok_or(RuleFault::Key)?;
        match key {
            b"proto" => {
                let carrier = match value {
                    b"smc" => Carrier::Smc,
                    b"sdp" => Carrier::Sdp,
                    _ => return Err(RuleFault::Protocol),
                };
                once(&mut self.carrier, carrier)
            }
            b"peer" => {
                let peer = Prefix::from_text(value).ok_or(RuleFault::Peer)?;
                once(&mut self.peer, peer)
            }
            b"port" => {
                let ports = PortRange::from_text(value).ok_or(RuleFault::Port)?;
                once(&mut self.ports, ports)
            }
            // A list that is written again.
            b"hits" => Ok(()),
            _ => Err(RuleFault::Key),
        }
    }

    /// What the rule allows.
    pub(crate) const fn action(&self) -> RuleAction {
        self.action
    }

    /// Whether the rule decides a connection.
    pub(crate) fn fits(&self, candidate: &Candidate) -> bool {
        self.direction
            .is_none_or(|only| only == candidate.direction)
            && self.carrier.is_none_or(|only| only == candidate.carrier)
            && self.peer.is_none_or(|only| only.has(candidate.peer))
            && self.ports.is_none_or(|only| only.has(candidate.port))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.action {
            RuleAction::Rdma => "rdma",
            RuleAction::Tcp => "tcp",
        })?;
        f.write_str(match self.direction {
            None => " any",
            Some(Direction::In) => " in",
            Some(Direction::Out) => " out",
        })?;
        if let Some(carrier) = self.carrier {
            write!(f, " proto={}", carrier.word())?;
        }
        if let Some(peer) = self.peer {
            write!(f, " peer={peer}")?;
        }
        if let Some(ports) = self.ports {
            write!(f, " port={ports}")?;
        }
        Ok(())
    }
}

/// The lines of a text, which a semicolon may end too.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|octet| matches!(*octet, b'\n' | b';'))
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_rules))]
mod tests {
    use super::*;

    fn rule(line: &str) -> Rule {
        Rule::from_text(line.as_bytes()).unwrap().unwrap()
    }

    fn fault(line: &str) -> Option<RuleFault> {
        Rule::from_text(line.as_bytes()).err()
    }

    const WEB: Candidate = Candidate {
        direction: Direction::Out,
        carrier: Carrier::Smc,
        peer: IpAddr::V4(core::net::Ipv4Addr::new(10, 9, 0, 2)),
        port: 443,
    };

    #[test]
    fn rule_fits_only_what_each_of_its_words_allows() {
        for line in [
            "tcp any",
            "tcp out",
            "tcp any proto=smc",
            "tcp any peer=10.9.0.0/24",
            "tcp any port=443",
            "tcp out port=400-500 peer=10.9.0.2 proto=smc",
        ] {
            assert!(rule(line).fits(&WEB));
        }
        for line in [
            "tcp in",
            "tcp any proto=sdp",
            "tcp any peer=10.9.1.0/24",
            "tcp any peer=::/0",
            "tcp any port=444-500",
            "tcp in port=400-500 peer=10.9.0.2 proto=smc",
        ] {
            assert!(!rule(line).fits(&WEB));
        }
    }

    #[test]
    fn line_without_a_rule_is_none() {
        for line in ["", " \t", "# tcp out", "  # note"] {
            assert_eq!(Rule::from_text(line.as_bytes()), Ok(None));
        }
        assert_eq!(rule("tcp out # note").action(), RuleAction::Tcp);
    }

    #[test]
    fn line_that_is_no_rule_names_its_fault() {
        for (line, want) in [
            ("deny out", RuleFault::Action),
            ("tcp", RuleFault::Direction),
            ("tcp both", RuleFault::Direction),
            ("tcp out proto=tcp", RuleFault::Protocol),
            ("tcp out peer=10.9.0.1/24", RuleFault::Peer),
            ("tcp out peer=", RuleFault::Peer),
            ("tcp out port=0", RuleFault::Port),
            ("tcp out port=9-8", RuleFault::Port),
            ("tcp out 443", RuleFault::Key),
            ("tcp out ports=443", RuleFault::Key),
            ("tcp out port=443 port=443", RuleFault::Twice),
        ] {
            assert_eq!(fault(line), Some(want));
        }
        assert_eq!(Rule::from_text(b"tcp out peer=\xff"), Err(RuleFault::Peer));
    }

    #[test]
    fn text_has_a_rule_on_each_line() {
        let text = b"tcp out;rdma in\n\n# end";
        let found = lines(text).filter_map(|line| Rule::from_text(line).unwrap());
        assert!(found.eq([rule("tcp out"), rule("rdma in")]));
    }

    #[cfg(test)]
    #[test]
    fn rule_that_was_shown_is_read_again() {
        for line in [
            "tcp any",
            "rdma in proto=sdp peer=fd00::/8 port=80",
            "tcp out proto=smc peer=10.9.0.2/32 port=400-500",
        ] {
            assert_eq!(rule(line).to_string(), line);
            assert_eq!(rule(&std::format!("{line} hits=7")), rule(line));
        }
    }
}
