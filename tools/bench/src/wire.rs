// SPDX-License-Identifier: GPL-2.0

//! Counts the packets of an end by their RoCEv2 opcode, with counters of nftables. They are only there
//! in the round that is not measured.

use crate::{
    counters::Counters,
    lab::End, //
};
use anyhow::{
    Context,
    Result, //
};
use serde_json::Value;
use std::{
    io::Write,
    process::{
        Command,
        Stdio, //
    },
};

/// Opcodes of reliable connections by what they count as. A message of one packet is "only".
const OPCODES: [(&str, &str); 6] = [
    // A first packet, or one with everything; with an immediate value as well.
    ("write_msg", "{ 0x06, 0x0a, 0x0b }"),
    ("write_rest", "{ 0x07, 0x08, 0x09 }"),
    ("send_msg", "{ 0x00, 0x04, 0x05, 0x17 }"),
    ("send_rest", "{ 0x01, 0x02, 0x03, 0x16 }"),
    ("ack", "0x11"),
    ("other", "0x0c-0x10"),
];

const WAYS: [(&str, &str); 2] = [("tx", "output"), ("rx", "input")];

fn rules() -> String {
    let mut text = String::from("table inet bench {\n");
    for (way, hook) in WAYS {
        for (name, _) in OPCODES {
            text += &format!("\tcounter {way}_{name} {{ }}\n");
        }
        text += &format!("\tcounter {way}_tcp {{ }}\n");
        text += &format!("\tchain {way} {{\n\t\ttype filter hook {hook} priority 0\n");
        for (name, opcodes) in OPCODES {
            // The opcode is the first octet behind the header of UDP.
            text += &format!("\t\tudp dport 4791 @th,64,8 {opcodes} counter name {way}_{name}\n");
        }
        text += &format!("\t\tmeta l4proto tcp counter name {way}_tcp\n\t}}\n");
    }
    text + "}\n"
}

/// Puts the counters in place.
pub fn install(end: &End) -> Result<()> {
    end.within(|| {
        let mut nft = Command::new("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .context("nft")?;
        nft.stdin
            .take()
            .context("a pipe")?
            .write_all(rules().as_bytes())?;
        anyhow::ensure!(nft.wait()?.success(), "nft does not take the rules");
        Ok(())
    })
}

/// Takes them away.
pub fn remove(end: &End) -> Result<()> {
    end.within(|| crate::lab::run("nft delete table inet bench").map(drop))
}

/// What they have counted.
pub fn read(end: &End) -> Result<Counters> {
    let text = end.within(|| crate::lab::run("nft -j list counters table inet bench"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Counters> {
    let listing: Value = serde_json::from_str(text)?;
    let items = listing["nftables"].as_array().context("nft's listing")?;
    let mut found = Counters::new();
    for counter in items.iter().filter_map(|item| item.get("counter")) {
        if let (Some(name), Some(packets)) = (counter["name"].as_str(), counter["packets"].as_f64())
        {
            found.insert(format!("wire.{name}"), packets);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read() {
        let text = r#"{"nftables": [{"metainfo": {}}, {"counter": {"name": "tx_ack",
            "packets": 3, "bytes": 9}}, {"counter": {"name": "rx_tcp", "packets": 1}}]}"#;
        let found = parse(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found["wire.tx_ack"], 3.0);
        assert!(parse("{}").is_err());
    }

    #[test]
    fn each_way_has_its_counters() {
        let rules = rules();
        assert_eq!(rules.matches("\tcounter tx_").count(), OPCODES.len() + 1);
        assert_eq!(rules.matches("@th,64,8").count(), 2 * OPCODES.len());
    }
}
