// SPDX-License-Identifier: GPL-2.0

//! Check of the packet filter: whether it may drop RDMA packets.
//!
//! The rules come from `nft -j list ruleset`. A program cannot tell in general what a rule set does
//! to a packet; this one looks for the two usual mistakes.

use rustix::process::geteuid;
use serde_json::Value;
use std::process::{
    Command,
    Stdio, //
};

use super::finding::Finding;

const SUBJECT: &str = "firewall";
/// The UDP port of RoCE v2.
const ROCE_PORT: u64 = 4791;

/// Reads the rules and checks them.
pub(super) fn check() -> Finding {
    if !geteuid().is_root() {
        return Finding::unknown(SUBJECT, "only root may read the rules");
    }
    let output = Command::new("nft")
        .args(["-j", "list", "ruleset"])
        .stdin(Stdio::null())
        .output();
    match output {
        Err(error) => Finding::unknown(SUBJECT, format!("cannot run nft: {error}")),
        Ok(output) if !output.status.success() => {
            let text = String::from_utf8_lossy(&output.stderr);
            let first = text.lines().next().unwrap_or_default();
            Finding::unknown(SUBJECT, format!("nft failed: {first}"))
        }
        Ok(output) => match serde_json::from_slice(&output.stdout) {
            Ok(rules) => judge(&rules),
            Err(error) => Finding::unknown(SUBJECT, format!("nft printed no JSON: {error}")),
        },
    }
}

/// A chain of the rule set, by its family, table and name.
type ChainName = [String; 3];

fn judge(rules: &Value) -> Finding {
    let entries = rules["nftables"].as_array().map_or(&[][..], Vec::as_slice);
    let name = |object: &Value, chain: &str| {
        ["family", "table", chain].map(|key| object[key].as_str().unwrap_or_default().to_string())
    };
    let closed: Vec<ChainName> = entries
        .iter()
        .map(|entry| &entry["chain"])
        .filter(|chain| chain["policy"] == "drop" && filters_packets(chain))
        .map(|chain| name(chain, "name"))
        .collect();
    let rules: Vec<(ChainName, &Value)> = entries
        .iter()
        .map(|entry| &entry["rule"])
        .filter(|rule| rule["expr"].is_array())
        .map(|rule| (name(rule, "chain"), &rule["expr"]))
        .collect();
    let of_roce = || rules.iter().filter(|(_, expr)| names_port(expr, ROCE_PORT));
    if let Some((chain, _)) = of_roce().find(|(_, expr)| ends_in(expr, &["drop", "reject"])) {
        return Finding::failure(
            SUBJECT,
            format!(
                "a rule of the chain {} drops UDP port {ROCE_PORT}",
                chain.join(" ")
            ),
            format!(
                "delete it: `nft -a list chain {}` shows its handle",
                chain.join(" ")
            ),
        );
    }
    let open = |closed: &ChainName| {
        of_roce().any(|(chain, expr)| chain[..2] == closed[..2] && ends_in(expr, &["accept"]))
    };
    match closed.iter().find(|chain| !open(chain)) {
        Some(chain) => Finding::warning(
            SUBJECT,
            format!(
                "the chain {} drops what no rule accepts, and none names UDP port {ROCE_PORT}",
                chain.join(" ")
            ),
            format!(
                "nft insert rule {} udp dport {ROCE_PORT} accept",
                chain.join(" ")
            ),
        ),
        None => Finding::good(SUBJECT, format!("no rule drops UDP port {ROCE_PORT}")),
    }
}

/// Whether the chain sees packets of this host.
fn filters_packets(chain: &Value) -> bool {
    let hook = chain["hook"].as_str().unwrap_or_default();
    matches!(
        hook,
        "input" | "output" | "prerouting" | "postrouting" | "ingress"
    )
}

/// Whether a rule compares with the port, alone or in a set or range.
fn names_port(expr: &Value, port: u64) -> bool {
    match expr {
        Value::Number(number) => number.as_u64() == Some(port),
        Value::Array(list) => list.iter().any(|part| names_port(part, port)),
        Value::Object(object) => match object.get("range").and_then(Value::as_array) {
            Some(range) => match range.as_slice() {
                [first, last] => {
                    let bound = |value: &Value| value.as_u64();
                    bound(first) <= Some(port) && Some(port) <= bound(last)
                }
                _ => false,
            },
            // Counters and limits have numbers that are no ports.
            None => object
                .iter()
                .filter(|(key, _)| !matches!(key.as_str(), "counter" | "limit" | "quota" | "log"))
                .any(|(_, part)| names_port(part, port)),
        },
        _ => false,
    }
}

/// Whether a rule ends in one of these verdicts.
fn ends_in(expr: &Value, verdicts: &[&str]) -> bool {
    let parts = expr.as_array().map_or(&[][..], Vec::as_slice);
    parts
        .iter()
        .any(|part| verdicts.iter().any(|verdict| part.get(*verdict).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use serde_json::json;

    fn chain(policy: &str) -> Value {
        json!({"chain": {"family": "inet", "table": "filter", "name": "input", "handle": 1,
               "type": "filter", "hook": "input", "prio": 0, "policy": policy}})
    }

    fn rule(port: Value, verdict: &str) -> Value {
        json!({"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 4, "expr": [
            {"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}},
             "right": port}},
            {"counter": {"packets": 4791, "bytes": 0}},
            {(verdict): null}]}})
    }

    fn level(entries: &[Value]) -> Level {
        judge(&json!({"nftables": entries})).level
    }

    #[test]
    fn open_filters_are_good() {
        assert_eq!(judge(&json!({"nftables": []})).level, Level::Good);
        assert_eq!(
            level(&[chain("accept"), rule(json!(22), "drop")]),
            Level::Good
        );
    }

    #[test]
    fn rule_that_drops_the_port_is_a_failure() {
        let dropped = [chain("accept"), rule(json!(4791), "drop")];
        assert_eq!(level(&dropped), Level::Failure);
        let set = json!({"set": [53, {"range": [4000, 5000]}]});
        assert_eq!(
            level(&[chain("accept"), rule(set, "reject")]),
            Level::Failure
        );
    }

    #[test]
    fn closed_chain_needs_a_rule_for_the_port() {
        assert_eq!(level(&[chain("drop")]), Level::Warning);
        assert_eq!(
            level(&[chain("drop"), rule(json!(22), "accept")]),
            Level::Warning
        );
        assert_eq!(
            level(&[chain("drop"), rule(json!(4791), "accept")]),
            Level::Good
        );
        let fix = judge(&json!({"nftables": [chain("drop")]})).fix.unwrap();
        assert_eq!(
            fix,
            "nft insert rule inet filter input udp dport 4791 accept"
        );
    }
}
