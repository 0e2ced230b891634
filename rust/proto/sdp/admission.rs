// SPDX-License-Identifier: GPL-2.0

//! Which connections a host takes part in, and the number of set-ups that are under way.
//!
//! No SYN of an SDP connection passes a packet filter, so an administrator says which peers and
//! ports there are. A peer that stalls its set-ups must cost neither other clients nor much memory:
//! it has few places, and more only while a listener has many (SDP-SEC-02).

use core::str::FromStr;

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

/// Whether an address is in a network, of which `bits` bits count.
pub(crate) fn is_in_network(network: &[u8], bits: u8, addr: &[u8]) -> bool {
    let (whole, rest) = (usize::from(bits / 8), bits % 8);
    let (Some(network_head), Some(addr_head)) = (network.get(..whole), addr.get(..whole)) else {
        return false;
    };
    if network_head != addr_head {
        return false;
    }
    // The bits of the last octet that count.
    let mask = u8::MAX
        .checked_shl(8u32.saturating_sub(rest.into()))
        .unwrap_or(0);
    match (network.get(whole), addr.get(whole)) {
        (Some(network), Some(addr)) => network & mask == addr & mask,
        _ => rest == 0,
    }
}

/// Ranges of a [`PortList`], at most.
const RANGES: usize = 32;

/// A range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    /// The first port, which is not 0.
    pub(crate) first: u16,
    /// The last port.
    pub(crate) last: u16,
}

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
            *places.next()? = Some(range(word)?);
        }
        Some(list)
    }

    /// Whether a port is one of them.
    pub(crate) fn has(&self, port: u16) -> bool {
        let mut ranges = self.ranges();
        ranges.any(|range| range.first <= port && port <= range.last)
    }

    /// The ranges, in the order of the text.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = PortRange> + '_ {
        self.ranges.iter().flatten().copied()
    }
}

/// Reads a port or a range.
fn range(word: &[u8]) -> Option<PortRange> {
    let mut ends = word.splitn(2, |octet| *octet == b'-');
    let first = port(ends.next()?)?;
    let last = match ends.next() {
        Some(last) => port(last)?,
        None => first,
    };
    (first <= last).then_some(PortRange { first, last })
}

/// Reads a port.
fn port(word: &[u8]) -> Option<u16> {
    let word = core::str::from_utf8(word.trim_ascii()).ok()?;
    // The parser of numbers takes a sign.
    let is_number = word.bytes().all(|octet| octet.is_ascii_digit());
    let port = u16::from_str(word).ok().filter(|_| is_number)?;
    (port != 0).then_some(port)
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
        assert_eq!(ProbePolicy::default().word(), "pm");
        assert_eq!(AcceptPolicy::default().word(), "subnet");
    }

    #[test]
    fn peer_is_admitted_by_policy() {
        assert!(AcceptPolicy::Any.admits(|| false));
        assert!(!AcceptPolicy::Off.admits(|| true));
        assert!(AcceptPolicy::Subnet.admits(|| true) && !AcceptPolicy::Subnet.admits(|| false));
    }

    #[test]
    fn address_in_a_network_has_its_first_bits() {
        let is_in = |bits, addr: [u8; 4]| is_in_network(&[10, 9, 128, 0], bits, &addr);
        assert!(is_in(24, [10, 9, 128, 77]) && !is_in(24, [10, 9, 129, 77]));
        assert!(is_in(17, [10, 9, 255, 1]) && !is_in(17, [10, 9, 127, 1]));
        assert!(is_in(32, [10, 9, 128, 0]) && !is_in(32, [10, 9, 128, 1]));
        assert!(is_in(0, [192, 168, 0, 1]));
        assert!(!is_in(33, [10, 9, 128, 0]) && !is_in(255, [10, 9, 128, 0]));
        // fe80::/10 by its first octets.
        assert!(is_in_network(&[0xfe, 0x80], 10, &[0xfe, 0xbf, 1]));
        assert!(!is_in_network(&[0xfe, 0x80], 10, &[0xfe, 0xc0, 1]));
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
