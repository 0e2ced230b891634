// SPDX-License-Identifier: GPL-2.0

//! Names for the codes that say why a connection fell back to TCP.
//!
//! The table is the module's own, so that both always print the same.

#[path = "../../../../rust/proto/stream/reason.rs"]
#[allow(dead_code, reason = "the module uses what this tool does not")]
mod table;

pub(crate) use table::{
    LocalReason,
    Reason, //
};

/// The name of codes that are not in the table.
pub(super) const UNKNOWN: &str = Reason::Unknown(0).name();

/// Reads a code as the module prints it, like `0x03010000`.
pub(crate) fn parse_code(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Writes a code like `0x03010000`.
pub(crate) fn text(code: u32) -> String {
    format!("{code:#010x}")
}

/// The name for a code.
pub(crate) fn name(code: u32) -> &'static str {
    Reason::from_stored(code).name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_the_wire_and_local_codes_have_names() {
        assert_eq!(name(0x0301_0000), "peer did not indicate SMC");
        assert_eq!(name(0x7f00_0007), "TCP chosen by policy");
        assert_eq!(name(0xdead_beef), UNKNOWN);
    }

    #[test]
    fn code_is_written_with_all_digits_and_read_back() {
        assert_eq!(text(0x0101_0000), "0x01010000");
        assert_eq!(parse_code("0x01010000"), Some(0x0101_0000));
        assert_eq!(parse_code("01010000"), None);
    }
}
