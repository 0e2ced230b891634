// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock rule`: which connections of this network namespace may use RDMA.
//!
//! The module keeps the rules in `/proc/net/rdma_sock/rules`, one a line, with the connections that
//! each has decided. A write replaces all of them at once.

use anyhow::{
    bail,
    Context as _, //
};
use ipnet::IpNet;
use serde::Serialize;
use std::{
    fmt,
    fs,
    net::IpAddr,
    path::Path,
    str::FromStr, //
};

use crate::{
    cli::{
        RuleAction,
        RuleArgs,
        RuleCommand,
        RuleDirection, //
    },
    module::RDMA_SOCK,
    output::{
        self,
        style, //
    },
    proto::Proto, //
};

const FILE: &str = "/proc/net/rdma_sock/rules";
/// Octets that the kernel takes in a write.
const MOST: usize = 4095;

/// A network of peers; an address is one of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Peer(IpNet);

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = match text.parse::<IpAddr>() {
            Ok(addr) => IpNet::from(addr),
            Err(_) => text
                .parse::<IpNet>()
                .map_err(|_| "takes an address, or a network such as 10.1.0.0/16".to_string())?,
        };
        if network.trunc() != network {
            return Err(format!(
                "has bits behind its prefix; the network is {}",
                network.trunc()
            ));
        }
        Ok(Self(network))
    }
}

/// Ports of services.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Ports {
    first: u16,
    last: u16,
}

impl FromStr for Ports {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let fault = "takes a port, or a range such as 8000-8080";
        let port = |word: &str| match word.parse() {
            Ok(port) if port != 0 => Ok(port),
            _ => Err(fault),
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ports = Self {
            first: port(first)?,
            last: port(last)?,
        };
        if ports.first > ports.last {
            return Err("ends before it begins");
        }
        Ok(ports)
    }
}

impl fmt::Display for RuleArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.action {
            RuleAction::Rdma => "rdma",
            RuleAction::Tcp => "tcp",
        })?;
        f.write_str(match self.direction {
            RuleDirection::In => " in",
            RuleDirection::Out => " out",
            RuleDirection::Any => " any",
        })?;
        match self.proto {
            None | Some(Proto::Auto) => {}
            Some(proto) => write!(f, " proto={}", proto.name())?,
        }
        if let Some(Peer(network)) = self.peer {
            write!(f, " peer={network}")?;
        }
        match self.port {
            None => Ok(()),
            Some(Ports { first, last }) if first == last => write!(f, " port={first}"),
            Some(Ports { first, last }) => write!(f, " port={first}-{last}"),
        }
    }
}

/// A rule as the module lists it.
#[derive(Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Listed {
    /// Its place: the first rule that fits a connection decides.
    number: usize,
    /// The rule, as the module takes it.
    rule: String,
    /// Connections that it has decided.
    hits: u64,
}

/// Reads the module's list.
fn parse(text: &str) -> Vec<Listed> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let listed = lines.zip(1..).map(|(line, number)| {
        let (rule, hits) = line.rsplit_once(" hits=").unwrap_or((line, "0"));
        Listed {
            number,
            rule: rule.to_string(),
            hits: hits.trim().parse().unwrap_or(0),
        }
    });
    listed.collect()
}

/// The present rules, without their counts.
fn read(file: &Path) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(file).map_err(|error| explain(error, "cannot read"))?;
    Ok(parse(&text).into_iter().map(|listed| listed.rule).collect())
}

/// The present rules of this network namespace, in order.
pub(crate) fn present() -> anyhow::Result<Vec<String>> {
    read(Path::new(FILE))
}

/// Replaces all rules of this network namespace at once.
pub(crate) fn replace(rules: &[String]) -> anyhow::Result<()> {
    write(Path::new(FILE), rules)
}

fn explain(error: std::io::Error, what: &str) -> anyhow::Error {
    let advice = match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("the module {RDMA_SOCK} is not loaded, or too old for rules")
        }
        std::io::ErrorKind::PermissionDenied => {
            "this needs CAP_NET_ADMIN in the network namespace".to_string()
        }
        _ => error.to_string(),
    };
    anyhow::anyhow!("{what} the rules: {advice}")
}

fn write(file: &Path, rules: &[String]) -> anyhow::Result<()> {
    // A line at least: the kernel takes no empty write.
    let text = rules.join("\n") + "\n";
    if text.len() > MOST {
        bail!(
            "the rules have {} characters, and {MOST} are the limit",
            text.len()
        );
    }
    fs::write(file, text).map_err(|error| match error.raw_os_error() {
        // EINVAL and E2BIG.
        Some(22) => anyhow::anyhow!(
            "the module takes one of the rules for none: {}",
            rules.join("; ")
        ),
        Some(7) => anyhow::anyhow!(
            "{} rules are more than the module has room for",
            rules.len()
        ),
        _ => explain(error, "cannot write"),
    })
}

/// The rules with another one at a place, which counts from 1.
fn inserted(
    mut rules: Vec<String>,
    rule: String,
    at: Option<usize>,
) -> anyhow::Result<Vec<String>> {
    let end = rules.len() + 1;
    let at = at.unwrap_or(end);
    if at == 0 || at > end {
        bail!("there is no place {at}: the places are 1 to {end}");
    }
    rules.insert(at - 1, rule);
    Ok(rules)
}

/// The rules without one of them.
fn removed(mut rules: Vec<String>, number: usize) -> anyhow::Result<Vec<String>> {
    if number == 0 || number > rules.len() {
        bail!(
            "there is no rule {number}: `rdma-sock rule list` shows {}",
            rules.len()
        );
    }
    rules.remove(number - 1);
    Ok(rules)
}

/// The rules in the text of a file: comments and empty lines are left out.
fn of_text(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let rules = lines.filter(|line| !line.is_empty());
    rules.map(|rule| parse(rule).remove(0).rule).collect()
}

fn table(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return "no rules: each connection may use RDMA\n".to_string();
    }
    let rule = listed.iter().map(|row| row.rule.len()).max().unwrap_or(0);
    let head = format!("{:>3}  {:rule$}  {:>10}", "", "rule", "decided");
    let mut text = output::paint(style::HEADING, head) + "\n";
    for row in listed {
        text += &format!("{:>3}  {:rule$}  {:>10}\n", row.number, row.rule, row.hits);
    }
    text
}

/// Executes a command.
pub(crate) fn execute(command: &RuleCommand) -> anyhow::Result<()> {
    let file = Path::new(FILE);
    match command {
        RuleCommand::List(args) => {
            let text = fs::read_to_string(file).map_err(|error| explain(error, "cannot read"))?;
            let listed = parse(&text);
            match args.json {
                true => output::print_json(&listed),
                false => output::print(&table(&listed)),
            }
        }
        RuleCommand::Add(args) => write(file, &inserted(read(file)?, args.to_string(), args.at)?),
        RuleCommand::Delete { number } => write(file, &removed(read(file)?, *number)?),
        RuleCommand::Flush => write(file, &[]),
        RuleCommand::Load { file: from } => {
            let text = match from.as_os_str().as_encoded_bytes() {
                b"-" => std::io::read_to_string(std::io::stdin()),
                _ => fs::read_to_string(from),
            };
            let text = text.with_context(|| format!("cannot read {}", from.display()))?;
            write(file, &of_text(&text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::{
            Cli,
            Command, //
        },
        schema, //
    };
    use clap::Parser;

    fn rule(words: &str) -> Result<String, String> {
        let words = format!("rdma-sock rule add {words}");
        match Cli::try_parse_from(words.split(' ')) {
            Ok(Cli {
                command: Command::Rule(RuleCommand::Add(args)),
                ..
            }) => Ok(args.to_string()),
            Ok(_) => panic!("not rule add"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn options_make_the_line_that_the_module_takes() {
        for (words, want) in [
            ("tcp any", "tcp any"),
            ("tcp out --peer 10.9.0.2", "tcp out peer=10.9.0.2/32"),
            ("rdma in --port 80", "rdma in port=80"),
            (
                "tcp out --proto sdp --peer fd00::/8 --port 8000-8080",
                "tcp out proto=sdp peer=fd00::/8 port=8000-8080",
            ),
        ] {
            assert_eq!(rule(words).as_deref(), Ok(want));
        }
    }

    #[test]
    fn bad_option_is_named() {
        for (words, want) in [
            ("deny any", "possible values: rdma, tcp"),
            ("tcp both", "possible values: in, out, any"),
            ("tcp out --peer 10.9.0.1/24", "the network is 10.9.0.0/24"),
            ("tcp out --peer host", "such as 10.1.0.0/16"),
            ("tcp out --port 0", "a range such as"),
            ("tcp out --port 9-8", "ends before it begins"),
        ] {
            let error = rule(words).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }

    fn rules(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn rule_goes_to_its_place() {
        let old = || rules(&["tcp out", "tcp in"]);
        let with = |at| inserted(old(), "rdma out".to_string(), at);
        assert_eq!(with(None).unwrap(), ["tcp out", "tcp in", "rdma out"]);
        assert_eq!(with(Some(1)).unwrap(), ["rdma out", "tcp out", "tcp in"]);
        assert_eq!(with(Some(3)).unwrap(), ["tcp out", "tcp in", "rdma out"]);
        for at in [0, 4] {
            assert!(with(Some(at)).unwrap_err().to_string().contains("1 to 3"));
        }
        assert_eq!(removed(old(), 1).unwrap(), ["tcp in"]);
        for number in [0, 3] {
            assert!(removed(old(), number).is_err());
        }
    }

    #[test]
    fn list_of_the_module_is_read_and_shown() {
        let listed = parse("tcp out peer=10.9.0.0/16 hits=7\nrdma any hits=0\n");
        assert_eq!(listed[0].rule, "tcp out peer=10.9.0.0/16");
        assert_eq!((listed[0].hits, listed[1].number), (7, 2));
        let text = table(&listed);
        assert!(text.contains("  1  tcp out peer=10.9.0.0/16"), "{text}");
        assert!(table(&[]).contains("may use RDMA"));
        schema::check::<Vec<Listed>>("rules", &[serde_json::to_value(&listed).unwrap()]);
    }

    #[test]
    fn file_may_have_comments_and_counts() {
        let text = "# hosts\n\ntcp out port=80 hits=3\n  rdma any # all\n";
        assert_eq!(of_text(text), ["tcp out port=80", "rdma any"]);
    }

    #[test]
    fn rules_are_replaced_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules");
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("not loaded"), "{error}");
        write(&file, &rules(&["tcp out", "rdma any"])).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "tcp out\nrdma any\n");
        assert_eq!(read(&file).unwrap(), ["tcp out", "rdma any"]);
        write(&file, &[]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "\n");
        let many = vec!["tcp out".to_string(); 1000];
        assert!(write(&file, &many)
            .unwrap_err()
            .to_string()
            .contains("4095"));
    }
}
