// SPDX-License-Identifier: GPL-2.0

//! Rules in the file: which connections may use RDMA.

use clap::ValueEnum;
use serde::Deserialize;
use std::{
    fmt,
    str::FromStr, //
};
use toml::Spanned;

use super::{
    config::{
        Mistake,
        Reader, //
    },
    setting::Setting,
};
use crate::{
    cli::RuleArgs,
    proto::Proto, //
};

/// One rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleEntry {
    action: Spanned<String>,
    direction: Spanned<String>,
    proto: Option<Spanned<Proto>>,
    peer: Option<Spanned<String>>,
    port: Option<Spanned<Setting>>,
}

/// The value of a key that takes one of a few words.
fn word<T: ValueEnum>(
    reader: &Reader<'_>,
    key: &str,
    value: &Spanned<String>,
) -> Result<T, Mistake> {
    T::from_str(value.get_ref(), false).map_err(|_| {
        let names = T::value_variants().iter();
        let names =
            names.filter_map(|variant| Some(variant.to_possible_value()?.get_name().to_string()));
        let names: Vec<String> = names.collect();
        let text = format!(
            "rule.{key}: \"{}\" is none of {}",
            value.get_ref(),
            names.join(", ")
        );
        reader.mistake(value.span(), text)
    })
}

/// The value of a key that has a notation of its own.
fn notation<T, U>(
    reader: &Reader<'_>,
    key: &str,
    text: &str,
    value: &Spanned<U>,
) -> Result<T, Mistake>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    text.parse()
        .map_err(|error| reader.mistake(value.span(), format!("rule.{key}: \"{text}\" {error}")))
}

/// The rule as the module takes it.
pub(super) fn line(reader: &Reader<'_>, entry: &RuleEntry) -> Result<String, Mistake> {
    let proto = entry.proto.as_ref();
    if let Some(auto) = proto.filter(|proto| *proto.get_ref() == Proto::Auto) {
        let text = "rule.proto: takes smc or sdp; a rule for both has no proto";
        return Err(reader.mistake(auto.span(), text));
    }
    let peer = entry.peer.as_ref();
    let peer = peer.map(|peer| notation(reader, "peer", peer.get_ref(), peer));
    let port = entry.port.as_ref().map(|port| match port.get_ref() {
        Setting::Text(text) => notation(reader, "port", text, port),
        _ => Err(reader.mistake(port.span(), "rule.port: neither a port nor a range")),
    });
    let rule = RuleArgs {
        action: word(reader, "action", &entry.action)?,
        direction: word(reader, "direction", &entry.direction)?,
        proto: proto.map(|proto| *proto.get_ref()),
        peer: peer.transpose()?,
        port: port.transpose()?,
        at: None,
    };
    Ok(rule.to_string())
}

#[cfg(test)]
mod tests {
    use crate::apply::config::parse;

    fn mistake(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn rules_are_those_of_the_module_in_the_order_of_the_file() {
        let config = parse(
            r#"
[[rule]]
action = "rdma"
direction = "out"
peer = "10.1.0.0/16"
proto = "sdp"
[[rule]]
action = "tcp"
direction = "any"
port = 22
[[rule]]
action = "tcp"
direction = "in"
port = "8000-8080"
peer = "fd00::1"
"#,
        );
        assert_eq!(
            config.unwrap().rules.unwrap(),
            [
                "rdma out proto=sdp peer=10.1.0.0/16",
                "tcp any port=22",
                "tcp in peer=fd00::1/128 port=8000-8080",
            ]
        );
        assert_eq!(parse("rule = []\n").unwrap().rules, Some(Vec::new()));
    }

    #[test]
    fn value_that_the_module_refuses_is_refused_with_its_line() {
        let rule = "[[rule]]\naction = \"tcp\"\ndirection = \"out\"\n";
        for (more, want) in [
            (
                "peer = \"10.1.0.1/16\"",
                "line 4: rule.peer: \"10.1.0.1/16\" has bits",
            ),
            (
                "peer = \"host\"",
                "line 4: rule.peer: \"host\" takes an address",
            ),
            ("port = 0", "line 4: rule.port: \"0\" takes a port"),
            ("port = \"9-8\"", "line 4: rule.port: \"9-8\" ends before"),
            ("port = [80]", "line 4: rule.port: neither"),
            ("proto = \"auto\"", "line 4: rule.proto: takes smc or sdp"),
        ] {
            let text = mistake(&format!("{rule}{more}\n"));
            assert!(text.starts_with(want), "{text}");
        }
        let text = mistake("[[rule]]\naction = \"deny\"\ndirection = \"out\"\n");
        assert_eq!(text, "line 2: rule.action: \"deny\" is none of rdma, tcp");
        let text = mistake("[[rule]]\naction = \"tcp\"\ndirection = \"both\"\n");
        assert_eq!(
            text,
            "line 3: rule.direction: \"both\" is none of in, out, any"
        );
        assert!(mistake("[[rule]]\naction = \"tcp\"\n").contains("direction"));
    }
}
