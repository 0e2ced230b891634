// SPDX-License-Identifier: GPL-2.0

//! Ranges of ports, as an administrator writes them.

use core::{
    fmt,
    str::FromStr, //
};

/// A range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    /// The first port, which is not 0.
    pub(crate) first: u16,
    /// The last port.
    pub(crate) last: u16,
}

impl PortRange {
    /// Reads a port or a range such as `8000-8080`. White space may surround each port.
    ///
    /// `None` for other text, for port 0, and for a range that ends before it begins.
    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
        let mut ends = text.splitn(2, |octet| *octet == b'-');
        let first = port(ends.next()?)?;
        let last = match ends.next() {
            Some(last) => port(last)?,
            None => first,
        };
        (first <= last).then_some(Self { first, last })
    }

    /// Whether a port is in the range.
    pub(crate) const fn has(&self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.first != self.last {
            write!(f, "-{}", self.last)?;
        }
        Ok(())
    }
}

/// Reads a port.
fn port(word: &[u8]) -> Option<u16> {
    let word = core::str::from_utf8(word.trim_ascii()).ok()?;
    // The parser of numbers takes a sign.
    let is_number = word.bytes().all(|octet| octet.is_ascii_digit());
    let port = u16::from_str(word).ok().filter(|_| is_number)?;
    (port != 0).then_some(port)
}
