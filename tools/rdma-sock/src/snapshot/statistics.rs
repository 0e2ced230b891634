// SPDX-License-Identifier: GPL-2.0

//! Counters of the module: the file `stat`.

use serde::Serialize;
use serde_json::{
    Map,
    Value, //
};

use super::reason;

/// What the counters of SDP begin with.
const SDP: &str = "sdp_";

/// How often one reason was counted.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ReasonCount {
    /// The protocol that the program asked for: "smc" or "sdp".
    pub(crate) proto: &'static str,
    /// The code, like "0x03010000".
    pub(crate) code: String,
    /// Name of the reason.
    pub(crate) name: &'static str,
    /// Number of connections.
    pub(crate) count: u64,
}

/// The file `stat`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    /// In the order of the file; a value that is no number stays text.
    pub(crate) counters: Map<String, Value>,
    /// Fallbacks to TCP by their reason.
    pub(crate) fallback_reasons: Vec<ReasonCount>,
    /// Handshakes that ended in a reset, by their reason.
    pub(crate) aborted_reasons: Vec<ReasonCount>,
}

impl Statistics {
    /// Reads the file.
    pub(super) fn parse(text: &str) -> Self {
        let mut parsed = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.trim().split_once(' ') else {
                continue;
            };
            match value.trim().parse::<u64>() {
                Ok(count) => parsed.add(name, count),
                Err(_) => {
                    parsed.counters.insert(name.into(), value.trim().into());
                }
            }
        }
        parsed
    }

    fn add(&mut self, name: &str, count: u64) {
        let (proto, rest) = match name.strip_prefix(SDP) {
            Some(rest) => ("sdp", rest),
            None => ("smc", name),
        };
        let code = |prefix: &str| {
            let code = rest.strip_prefix(prefix)?;
            u32::from_str_radix(code, 16).ok()
        };
        let entry = |code: u32| ReasonCount {
            proto,
            code: reason::text(code),
            name: reason::name(code),
            count,
        };
        if let Some(code) = code("fallback_reason_") {
            self.fallback_reasons.push(entry(code));
        } else if let Some(code) = code("aborted_reason_") {
            self.aborted_reasons.push(entry(code));
        } else {
            self.counters.insert(name.into(), count.into());
        }
    }

    /// The value of a counter; 0 if the module does not have it.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.counters
            .get(name)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_apart_from_counters() {
        let parsed = Statistics::parse(
            "tx_bytes 5\nfallback_reason_03010000 2\nfallback_reason_x 1\nnote hello\nodd\n\
             aborted_reason_7f000003 4\nsdp_fallback_reason_7f000108 3\nsdp_tx_bytes 9\n",
        );
        assert_eq!(parsed.count("tx_bytes"), 5);
        assert_eq!(parsed.count("sdp_tx_bytes"), 9);
        assert_eq!(parsed.count("fallback_reason_x"), 1);
        assert_eq!(parsed.count("absent"), 0);
        assert_eq!(parsed.counters.get("note"), Some(&Value::from("hello")));
        let seen = |reasons: &[ReasonCount]| -> Vec<(&str, String, u64)> {
            let fields = |reason: &ReasonCount| (reason.proto, reason.code.clone(), reason.count);
            reasons.iter().map(fields).collect()
        };
        assert_eq!(
            seen(&parsed.fallback_reasons),
            [
                ("smc", "0x03010000".into(), 2),
                ("sdp", "0x7f000108".into(), 3)
            ]
        );
        assert_eq!(
            seen(&parsed.aborted_reasons),
            [("smc", "0x7f000003".into(), 4)]
        );
        assert_eq!(parsed.fallback_reasons[0].name, "peer did not indicate SMC");
    }
}
