// SPDX-License-Identifier: GPL-2.0

//! Which connections a host takes part in, and the number of set-ups that are under way.
//!
//! No SYN of an SDP connection passes a packet filter, so an administrator says which peers and
//! ports there are. A peer that stalls its set-ups must cost neither other clients nor much memory:
//! it has few places, and more only while a listener has many (SDP-SEC-02).

use crate::proto::base::ports::PortRange;

/// What a client does about a host of which nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProbePolicy {
    /// It asks the Port Mapper of the host.
    #[default]
    PortMapper,
    /// It sends the request for the connection at once, for hosts without a Port Mapper.
    Connect,
    /// It uses TCP.
    Nothing,
}

/// The peers that a listener takes connections of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AcceptPolicy {
    /// Those in an IP subnet of the interface that the request came to.
    #[default]
    Subnet,
    /// All.
    Any,
    /// None.
    Off,
}

/// When a socket that may use SDP or another protocol connects by SDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PreferPolicy {
    /// It never does.
    #[default]
    Never,
    /// It does if the host is known to have the service by SDP.
    Known,
}

/// What a socket that may use SDP or another protocol does about a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    /// It connects by SDP.
    Sdp,
    /// It connects by the other protocol.
    Other,
    /// The same, and the Port Mapper of the host is asked, for the sake of later connections.
    OtherAndAsk,
}

impl PreferPolicy {
    /// What becomes of a connection, where `known` says whether the service is there by SDP, if
    /// anything is known.
    pub(crate) fn decide(self, probe: ProbePolicy, known: Option<bool>) -> Preference {
        match (self, known) {
            (Self::Never, _) | (Self::Known, Some(false)) => Preference::Other,
            (Self::Known, Some(true)) => Preference::Sdp,
            (Self::Known, None) if probe == ProbePolicy::PortMapper => Preference::OtherAndAsk,
            (Self::Known, None) => Preference::Other,
        }
    }
}

/// A setting that has one word.
pub(crate) trait Word: Copy + PartialEq + 'static {
    /// All values, with their words.
    const WORDS: &'static [(Self, &'static str)];

    /// The word.
    fn word(self) -> &'static str {
        let mut words = Self::WORDS.iter();
        let found = words.find(|(value, _)| *value == self);
        found.map_or("", |(_, word)| *word)
    }

    /// The value of a word, which white space may surround.
    fn from_text(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        let mut words = Self::WORDS.iter();
        let found = words.find(|(_, word)| word.as_bytes() == text);
        found.map(|(value, _)| *value)
    }
}

impl Word for ProbePolicy {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::PortMapper, "pm"),
        (Self::Connect, "cm"),
        (Self::Nothing, "none"),
    ];
}

impl Word for AcceptPolicy {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Subnet, "subnet"),
        (Self::Any, "any"),
        (Self::Off, "off"),
    ];
}

impl Word for PreferPolicy {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Never, "never"), (Self::Known, "known")];
}

impl AcceptPolicy {
    /// Whether a peer may connect. `in_subnet`: see [`Self::Subnet`].
    pub(crate) fn admits(self, in_subnet: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Subnet => in_subnet(),
            Self::Any => true,
            Self::Off => false,
        }
    }
}

/// Ranges of a [`PortList`], at most.
const RANGES: usize = 32;

/// Ports that listeners serve by SDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortList {
    ranges: [Option<PortRange>; RANGES],
}

impl PortList {
    /// All ports.
    pub(crate) const ALL: Self = {
        let mut ranges = [None; RANGES];
        let [first, ..] = &mut ranges;
        *first = Some(PortRange {
            first: 1,
            last: u16::MAX,
        });
        Self { ranges }
    };

    /// Reads ports and ranges between commas, such as `80,8000-8080`. Nothing is no port.
    ///
    /// `None` for other text, for port 0, and for more than 32 ranges.
    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
        let mut list = Self {
            ranges: [None; RANGES],
        };
        let text = text.trim_ascii();
        if text.is_empty() {
            return Some(list);
        }
        let mut places = list.ranges.iter_mut();
        for word in text.split(|octet| *octet == b',') {
            *places.next()? = Some(PortRange::from_text(word)?);
        }
        Some(list)
    }

    /// Whether a port is one of them.
    pub(crate) fn has(&self, port: u16) -> bool {
        let mut ranges = self.ranges();
        ranges.any(|range| range.has(port))
    }

    /// The ranges, in the order of the text.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = PortRange> + '_ {
        self.ranges.iter().flatten().copied()
    }
}

/// Set-ups of a listener that are under way, at most.
const OF_LISTENER: usize = 64;
/// Those of a namespace.
const OF_NAMESPACE: usize = 1024;
/// Those of a peer, whatever others there are.
const OF_PEER: usize = 8;
/// As long as a listener has fewer, a peer may have more than its own places.
const FEW: usize = OF_LISTENER / 2;

/// Counts the set-ups that are under way, to decide on another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HalfOpens {
    namespace: usize,
    listener: usize,
    peer: usize,
}

impl HalfOpens {
    /// One of the namespace, perhaps of the listener or the peer in question.
    pub(crate) fn count(&mut self, of_listener: bool, of_peer: bool) {
        self.namespace = self.namespace.saturating_add(1);
        self.listener = self.listener.saturating_add(usize::from(of_listener));
        self.peer = self.peer.saturating_add(usize::from(of_peer));
    }

    /// Whether there may be another.
    pub(crate) fn allows_another(self) -> bool {
        let is_peer_within = self.peer < OF_PEER || self.listener < FEW;
        self.namespace < OF_NAMESPACE && self.listener < OF_LISTENER && is_peer_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<W: Word + core::fmt::Debug>() {
        for (value, word) in W::WORDS {
            assert_eq!(value.word(), *word);
            assert_eq!(W::from_text(word.as_bytes()), Some(*value));
            let line = format!(" {word}\n");
            assert_eq!(W::from_text(line.as_bytes()), Some(*value));
            let longer = format!("{word}x");
            assert_eq!(W::from_text(longer.as_bytes()), None);
        }
        assert_eq!(W::from_text(b""), None);
    }

    #[test]
    fn policy_has_one_word_each() {
        words::<ProbePolicy>();
        words::<AcceptPolicy>();
        words::<PreferPolicy>();
        assert_eq!(ProbePolicy::default().word(), "pm");
        assert_eq!(AcceptPolicy::default().word(), "subnet");
        assert_eq!(PreferPolicy::default().word(), "never");
    }

    #[test]
    fn sdp_is_preferred_for_known_services_only() {
        let policy = PreferPolicy::Known;
        for probe in [
            ProbePolicy::PortMapper,
            ProbePolicy::Connect,
            ProbePolicy::Nothing,
        ] {
            assert_eq!(policy.decide(probe, Some(true)), Preference::Sdp);
            assert_eq!(policy.decide(probe, Some(false)), Preference::Other);
            for known in [None, Some(false), Some(true)] {
                let never = PreferPolicy::Never.decide(probe, known);
                assert_eq!(never, Preference::Other);
            }
        }
    }

    #[test]
    fn unknown_host_is_asked_for_later_if_the_policy_asks_port_mappers() {
        let unknown = |probe| PreferPolicy::Known.decide(probe, None);
        assert_eq!(unknown(ProbePolicy::PortMapper), Preference::OtherAndAsk);
        assert_eq!(unknown(ProbePolicy::Connect), Preference::Other);
        assert_eq!(unknown(ProbePolicy::Nothing), Preference::Other);
    }

    #[test]
    fn peer_is_admitted_by_policy() {
        assert!(AcceptPolicy::Any.admits(|| false));
        assert!(!AcceptPolicy::Off.admits(|| true));
        assert!(AcceptPolicy::Subnet.admits(|| true) && !AcceptPolicy::Subnet.admits(|| false));
    }

    fn has(text: &str, port: u16) -> Option<bool> {
        PortList::from_text(text.as_bytes()).map(|list| list.has(port))
    }

    #[test]
    fn port_list_has_its_ports_and_no_others() {
        let text = "80, 443,8000-8080\n";
        for port in [80, 443, 8000, 8040, 8080] {
            assert_eq!(has(text, port), Some(true));
        }
        for port in [1, 79, 81, 442, 7999, 8081, 65535] {
            assert_eq!(has(text, port), Some(false));
        }
        for port in [1, 80, 65535] {
            assert!(PortList::ALL.has(port));
            assert_eq!(has("\n", port), Some(false));
        }
    }

    #[test]
    fn text_that_is_no_port_list_is_refused() {
        for text in [
            "0", "0-9", "65536", "9-8", "a", "80,", ",80", "80 443", "-80", "80-", "+80", "1-2-3",
        ] {
            assert_eq!(has(text, 80), None, "{text}");
        }
        let most = ["7"; RANGES].join(",");
        assert_eq!(has(&most, 7), Some(true));
        assert_eq!(has(&format!("{most},8"), 7), None);
    }

    fn half_opens(namespace: usize, listener: usize, peer: usize) -> HalfOpens {
        let mut found = HalfOpens::default();
        for number in 0..namespace {
            found.count(number < listener, number < peer);
        }
        found
    }

    // SDP-SEC-02.
    #[test]
    fn stalling_peer_leaves_half_of_the_places_to_others() {
        assert!(half_opens(31, 31, 31).allows_another());
        assert!(!half_opens(32, 32, 32).allows_another());
        assert!(half_opens(32, 32, 0).allows_another());
        assert!(half_opens(63, 63, 7).allows_another());
        assert!(!half_opens(63, 63, 8).allows_another());
    }

    #[test]
    fn set_ups_of_listener_and_namespace_are_bounded() {
        assert!(!half_opens(64, 64, 0).allows_another());
        assert!(half_opens(1023, 0, 0).allows_another());
        assert!(!half_opens(1024, 0, 0).allows_another());
    }
}
