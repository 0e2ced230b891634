// SPDX-License-Identifier: GPL-2.0

//! Names for the codes that say why a connection fell back to TCP.
//!
//! The table is the module's own, so that both always tell the same.

use serde::Serialize;

#[path = "../../../../rust/proto/stream/reason.rs"]
#[allow(dead_code, reason = "the module uses what this tool does not")]
mod table;

use table::{
    LocalReason,
    Reason, //
};

/// The name of codes that are not in the table.
pub(super) const UNKNOWN: &str = Reason::Unknown(0).name();

/// How often connections fell back for one reason.
#[derive(Debug, Serialize)]
pub(super) struct Count {
    /// The code as text, like `0x03010000`.
    pub(super) code: String,
    pub(super) name: &'static str,
    pub(super) count: u64,
}

impl Count {
    pub(super) fn new(code: u32, count: u64) -> Self {
        Self {
            code: format!("{code:#010x}"),
            name: name(code),
            count,
        }
    }
}

/// The name for a code as text, like `0x03010000`; none for 0, which is no reason.
pub(super) fn describe(code: &str) -> Option<String> {
    let code = u32::from_str_radix(code.strip_prefix("0x")?, 16).ok()?;
    (code != 0).then(|| name(code).into())
}

fn name(code: u32) -> &'static str {
    match LocalReason::ALL.iter().find(|local| local.code() == code) {
        Some(local) => local.name(),
        None => Reason::from_code(code).name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_the_wire_and_local_codes_have_names() {
        assert_eq!(name(0x0301_0000), "peer did not indicate SMC");
        assert_eq!(name(0x7f00_0007), "TCP chosen by policy");
        assert_eq!(name(0xdead_beef), "unknown");
    }

    #[test]
    fn code_is_written_with_all_digits() {
        assert_eq!(Count::new(0x0101_0000, 3).code, "0x01010000");
    }
}
