// SPDX-License-Identifier: GPL-2.0

//! Networks of IP addresses.

use core::{
    fmt,
    net::IpAddr, //
};

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

/// A network, by its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// An address in it, whose bits behind the prefix are 0.
    addr: IpAddr,
    /// Bits of the prefix.
    bits: u8,
}

impl Prefix {
    /// Reads a network such as `10.1.0.0/16` or `fd00::/8`, or an address, which is one of its own.
    ///
    /// `None` for other text, and if a bit behind the prefix is set: that is a mistake as a rule.
    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        let (addr, bits) = match text.split_once('/') {
            Some((addr, bits)) => (addr, Some(bits)),
            None => (text, None),
        };
        let addr = addr.parse::<IpAddr>().ok()?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => {
                // The parser of numbers takes a sign.
                let is_number = bits.bytes().all(|octet| octet.is_ascii_digit());
                let bits = bits.parse::<u8>().ok().filter(|_| is_number)?;
                (bits <= most).then_some(bits)?
            }
            None => most,
        };
        let prefix = Self { addr, bits };
        prefix.is_clear().then_some(prefix)
    }

    /// Whether no bit behind the prefix is set.
    fn is_clear(&self) -> bool {
        let behind = match self.addr {
            IpAddr::V4(addr) => {
                u32::MAX.checked_shr(self.bits.into()).unwrap_or(0) & addr.to_bits() != 0
            }
            IpAddr::V6(addr) => {
                u128::MAX.checked_shr(self.bits.into()).unwrap_or(0) & addr.to_bits() != 0
            }
        };
        !behind
    }

    /// Whether an address is in the network.
    pub(crate) fn has(&self, addr: IpAddr) -> bool {
        match (self.addr, addr) {
            (IpAddr::V4(network), IpAddr::V4(addr)) => {
                is_in_network(&network.octets(), self.bits, &addr.octets())
            }
            (IpAddr::V6(network), IpAddr::V6(addr)) => {
                is_in_network(&network.octets(), self.bits, &addr.octets())
            }
            _ => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.bits)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_base_network))]
mod tests {
    use super::*;

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

    fn has(prefix: &str, addr: &str) -> Option<bool> {
        let prefix = Prefix::from_text(prefix.as_bytes())?;
        Some(prefix.has(addr.parse().unwrap()))
    }

    #[test]
    fn prefix_has_the_addresses_of_its_network_and_family() {
        assert_eq!(has("10.1.0.0/16", "10.1.255.9"), Some(true));
        assert_eq!(has("10.1.0.0/16", "10.2.0.1"), Some(false));
        assert_eq!(has("10.1.0.0/16", "::ffff:10.1.0.1"), Some(false));
        assert_eq!(has("0.0.0.0/0", "1.2.3.4"), Some(true));
        assert_eq!(has("0.0.0.0/0", "::1"), Some(false));
        assert_eq!(has("fd00::/8", "fdff::1"), Some(true));
        assert_eq!(has("::/0", "fe80::1"), Some(true));
        assert_eq!(has("fd00::1", "fd00::1"), Some(true));
        assert_eq!(has("fd00::1", "fd00::2"), Some(false));
        assert_eq!(has("192.0.2.1/32", "192.0.2.1"), Some(true));
    }

    #[test]
    fn text_that_is_no_network_is_refused() {
        for text in [
            "",
            "/",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "10.0.0/8",
            "::/129",
            "10.1.0.0/8",
            "fd00::1/64",
            "name",
            "10.0.0.0/-1",
            "/8",
        ] {
            assert_eq!(Prefix::from_text(text.as_bytes()), None);
        }
        assert_eq!(Prefix::from_text(b"\xff"), None);
    }
}
