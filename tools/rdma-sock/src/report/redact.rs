// SPDX-License-Identifier: GPL-2.0

//! Placeholders in place of addresses.
//!
//! An address is found in any text, also inside of a word. What only looks like one is replaced too:
//! a report must not tell an address, and a version number is no great loss.

use std::{
    collections::HashMap,
    net::IpAddr, //
};

/// Longest text of an IP address.
const LONGEST: usize = 45;

/// Octets of a MAC address and of a GUID in text.
const MAC: (usize, usize) = (6, 2);
const GUID: (usize, usize) = (4, 4);

/// An address in a text.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Address {
    Ip(IpAddr),
    /// A MAC address, or the GUID of a device, which has one inside.
    Hardware(String),
}

impl Address {
    /// Reads a text that is an address as a whole.
    fn parse(text: &str) -> Option<Self> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Some(Self::Ip(ip.to_canonical()));
        }
        let is = |(groups, digits): (usize, usize)| {
            let parts: Vec<&str> = text.split(':').collect();
            let hexadecimal = |part: &&str| {
                part.len() == digits && part.chars().all(|digit| digit.is_ascii_hexdigit())
            };
            parts.len() == groups && parts.iter().all(hexadecimal)
        };
        (is(MAC) || is(GUID)).then(|| Self::Hardware(text.to_ascii_lowercase()))
    }

    /// Whether it says nothing about a host.
    fn is_harmless(&self) -> bool {
        matches!(self, Self::Ip(ip) if ip.is_loopback() || ip.is_unspecified())
    }

    /// What its placeholder begins with.
    fn kind(&self) -> &'static str {
        match self {
            Self::Ip(IpAddr::V4(_)) => "IPv4",
            Self::Ip(IpAddr::V6(_)) => "IPv6",
            Self::Hardware(_) => "MAC",
        }
    }
}

/// A part of a text: either an address with its text, or a character.
enum Part<'a> {
    Address(Address, &'a str),
    Character(char),
}

/// Splits a text. Of several readings, the address that begins first counts, and of these the longest.
fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let run = rest
            .find(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.')
            .unwrap_or(rest.len());
        for length in (2..=run.min(LONGEST)).rev() {
            let (candidate, behind) = rest.split_at(length);
            if let Some(address) = Address::parse(candidate) {
                rest = behind;
                return Some(Part::Address(address, candidate));
            }
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
        Some(Part::Character(first))
    })
}

/// The addresses in a text, without those of loopback.
#[cfg(test)]
pub(super) fn addresses(text: &str) -> Vec<String> {
    let address = |part| match part {
        Part::Address(address, text) if !address.is_harmless() => Some(text.to_string()),
        _ => None,
    };
    parts(text).filter_map(address).collect()
}

/// Replaces addresses and some words, or nothing at all.
pub(super) struct Redactor {
    on: bool,
    words: Vec<(String, String)>,
    known: HashMap<Address, String>,
    counts: HashMap<&'static str, u32>,
}

impl Redactor {
    /// Makes one that replaces addresses if it is `on`.
    pub(super) fn new(on: bool) -> Self {
        Self {
            on,
            words: Vec::new(),
            known: HashMap::new(),
            counts: HashMap::new(),
        }
    }

    /// Lets a placeholder stand for a word.
    pub(super) fn hide(&mut self, word: &str, placeholder: &str) {
        if !word.is_empty() {
            self.words.push((word.into(), placeholder.into()));
        }
    }

    /// The text with placeholders.
    pub(super) fn apply(&mut self, text: &str) -> String {
        if !self.on {
            return text.into();
        }
        let mut text = text.to_string();
        for (word, placeholder) in &self.words {
            text = replace_word(&text, word, placeholder);
        }
        let mut redacted = String::new();
        for part in parts(&text) {
            match part {
                Part::Character(c) => redacted.push(c),
                Part::Address(address, text) if address.is_harmless() => redacted.push_str(text),
                Part::Address(address, _) => redacted.push_str(&self.placeholder(address)),
            }
        }
        redacted
    }

    fn placeholder(&mut self, address: Address) -> String {
        let kind = address.kind();
        let counts = &mut self.counts;
        let new = || {
            let count = counts.entry(kind).or_default();
            *count = count.saturating_add(1);
            format!("{kind}-{count}")
        };
        self.known.entry(address).or_insert_with(new).clone()
    }
}

/// Replaces a word where no letter or digit is beside it.
fn replace_word(text: &str, word: &str, placeholder: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(word) {
        let beside = [before.chars().next_back(), behind.chars().next()];
        let inside = beside.into_iter().flatten().any(char::is_alphanumeric);
        replaced.push_str(before);
        replaced.push_str(if inside { word } else { placeholder });
        rest = behind;
    }
    replaced.push_str(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(texts: &[&str]) -> Vec<String> {
        let mut redactor = Redactor::new(true);
        redactor.hide("db1", "HOST");
        texts.iter().map(|text| redactor.apply(text)).collect()
    }

    #[test]
    fn forms_of_one_address_get_one_placeholder() {
        let forms = [
            "10.9.0.2:80",
            "::ffff:10.9.0.2",
            "0:0:0:0:0:ffff:a09:2",
            "[0000:0000:0000:0000:0000:ffff:0a09:0002]:1",
            "saddr 10.9.0.2 drop",
            "peer10.9.0.2x",
            "e4:10.9.0.2",
            "10.9.0.2.",
        ];
        let expected = [
            "IPv4-1:80",
            "IPv4-1",
            "IPv4-1",
            "[IPv4-1]:1",
            "saddr IPv4-1 drop",
            "peerIPv4-1x",
            "e4:IPv4-1",
            "IPv4-1.",
        ];
        assert_eq!(redacted(&forms), expected);
    }

    #[test]
    fn kinds_are_counted_apart() {
        let texts = [
            "fd09::1 fd09::2 fd09:0:0:0:0:0:0:1 10.0.0.1/8",
            "52:54:00:AB:cd:01, 52:54:00:ab:cd:01",
            "fe80::5054:ff:fe00:1%eth0 5054:00ff:fe12:3456",
        ];
        let expected = [
            "IPv6-1 IPv6-2 IPv6-1 IPv4-1/8",
            "MAC-1, MAC-1",
            "IPv6-3%eth0 MAC-2",
        ];
        assert_eq!(redacted(&texts), expected);
    }

    #[test]
    fn other_text_stays() {
        for text in [
            "17:23:11.004711Z",
            "Linux 7.3.4+deb13-amd64",
            "127.0.0.1:80 ::1 [::]:0 0.0.0.0 [0:0:0:0:0:0:0:0]:80",
            "0x03010000 deadbeef a:b 1.2.3",
            "ä:ö é.",
            "",
        ] {
            assert_eq!(redacted(&[text]), [text]);
            assert_eq!(addresses(text), Vec::<String>::new());
        }
    }

    #[test]
    fn name_of_the_host_is_replaced_as_a_word() {
        assert_eq!(
            redacted(&["db1 db1.example db12 xdb1 (db1)"]),
            ["HOST HOST.example db12 xdb1 (HOST)"]
        );
    }

    #[test]
    fn nothing_is_replaced_without_being_asked() {
        let text = "db1 10.9.0.2";
        let mut redactor = Redactor::new(false);
        redactor.hide("db1", "HOST");
        assert_eq!(redactor.apply(text), text);
    }
}
