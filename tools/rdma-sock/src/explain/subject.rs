// SPDX-License-Identifier: GPL-2.0

//! The argument of `explain`: a process, a port or a reason.

use anyhow::{
    bail,
    Result, //
};
use std::str::FromStr;

use super::table::TABLE;
use crate::snapshot::reason;

/// Number of hexadecimal digits of a code, more than a PID or a port has.
const CODE_DIGITS: usize = 8;

/// What the user asks about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Subject {
    /// A number that can be a PID, a port or both.
    Number(u32),
    /// A process.
    Pid(u32),
    /// A port of either side.
    Port(u16),
    /// The code of a reason.
    Reason(u32),
}

impl FromStr for Subject {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        if let Some(pid) = text.strip_prefix("pid:") {
            return match pid.parse() {
                Ok(pid) => Ok(Self::Pid(pid)),
                Err(_) => bail!("no PID: '{pid}'"),
            };
        }
        if let Some(port) = text.strip_prefix("port:") {
            return match port.parse() {
                Ok(port) => Ok(Self::Port(port)),
                Err(_) => bail!("no port from 0 to 65535: '{port}'"),
            };
        }
        let hexadecimal = text.chars().all(|digit| digit.is_ascii_hexdigit());
        if text.len() == CODE_DIGITS && hexadecimal {
            return Ok(Self::Reason(u32::from_str_radix(text, 16)?));
        }
        if text.starts_with("0x") {
            return match reason::parse_code(text) {
                Some(code) => Ok(Self::Reason(code)),
                None => bail!("no code of a reason: '{text}'; one is like 0x03010000"),
            };
        }
        match text.parse() {
            Ok(number) => Ok(Self::Number(number)),
            Err(_) => by_name(text),
        }
    }
}

/// Finds a reason by its name, or by a part that no other name has.
fn by_name(text: &str) -> Result<Subject> {
    let wanted = text.to_lowercase().replace(['-', '_'], " ");
    let fits = |name: &str| name.to_lowercase().replace('-', " ").contains(&wanted);
    let found: Vec<_> = TABLE
        .iter()
        .map(|words| words.reason)
        .filter(|reason| !wanted.is_empty() && fits(reason.name()))
        .collect();
    let same = |name: &str| name.to_lowercase().replace('-', " ") == wanted;
    let exact = found.iter().find(|reason| same(reason.name()));
    match (exact, found.as_slice()) {
        (Some(reason), _) | (None, [reason]) => Ok(Subject::Reason(reason.code())),
        (None, []) => bail!(
            "'{text}' is no PID, no port and no reason: `rdma-sock explain --list` prints the \
             reasons"
        ),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|reason| reason.name()).collect();
            bail!("several reasons have '{text}': {}", names.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_is_read_from_its_form() {
        for (text, subject) in [
            ("80", Subject::Number(80)),
            ("4194303", Subject::Number(4_194_303)),
            ("pid:80", Subject::Pid(80)),
            ("port:80", Subject::Port(80)),
            ("0x03010000", Subject::Reason(0x0301_0000)),
            ("03010000", Subject::Reason(0x0301_0000)),
            ("7f000108", Subject::Reason(0x7f00_0108)),
            ("peer-did-not-indicate-SMC", Subject::Reason(0x0301_0000)),
            ("out of memory", Subject::Reason(0x0101_0000)),
            ("IPsec", Subject::Reason(0x0302_0000)),
            ("peer declined", Subject::Reason(0x0500_0000)),
        ] {
            assert_eq!(text.parse::<Subject>().unwrap(), subject, "{text}");
        }
    }

    #[test]
    fn mistake_gets_an_error_with_the_way_out() {
        let error = |text: &str| text.parse::<Subject>().unwrap_err().to_string();
        assert!(error("nginx").contains("--list"));
        assert!(error("").contains("--list"));
        assert!(error("peer").contains("several reasons"));
        assert!(error("port:70000").contains("65535"));
        assert!(error("pid:x").contains("no PID"));
        assert!(error("0xzz").contains("0x03010000"));
    }
}
