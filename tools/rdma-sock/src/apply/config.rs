// SPDX-License-Identifier: GPL-2.0

//! The file: its keys, and where in it a mistake is.

use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fmt,
    ops::Range, //
};
use toml::Spanned;

use super::{
    rules::{
        self,
        RuleEntry, //
    },
    setting::Setting,
    unit, //
};
use crate::proto::Proto;

/// Identifiers of a network namespace, and octets of each.
const MOST_UEIDS: usize = 8;
const LONGEST_UEID: usize = 32;

/// `IFNAMSIZ` without the NUL.
const LONGEST_NETDEV: usize = 15;

/// Sysctls that exist from the load of the module on, which is behind sysctl.d.
const SYSCTLS: [&str; 2] = ["net.smc.", "net.rdma_sock."];

/// What the file asks for. A part that is absent leaves the machine as it is.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Config {
    /// Values of sysctls by name.
    pub(super) sysctls: BTreeMap<String, String>,
    /// All enterprise identifiers.
    pub(super) ueids: Option<Vec<String>>,
    /// Network devices that get an RDMA device in software.
    pub(super) soft_devices: Vec<String>,
    /// All rules of the network namespace, in order, as the module takes them.
    pub(super) rules: Option<Vec<String>>,
    /// All selectors of acceleration.
    pub(super) accelerate: Option<Vec<Accelerated>>,
}

/// One way to select programs, and their protocol.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Accelerated {
    pub(super) target: Target,
    pub(super) proto: Proto,
}

/// Programs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Target {
    /// Every program.
    All,
    /// By name, as in `/proc/PID/comm`.
    Program(String),
    /// By cgroup.
    Cgroup(String),
    /// By network namespace.
    Netns(String),
    /// By service of systemd.
    Unit(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("every program"),
            Self::Program(name) => write!(f, "program {name}"),
            Self::Cgroup(path) => write!(f, "cgroup {path}"),
            Self::Netns(name) => write!(f, "netns {name}"),
            Self::Unit(name) => write!(f, "unit {name}"),
        }
    }
}

/// A mistake, with the number of its line.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {text}")]
pub(super) struct Mistake {
    pub(super) line: usize,
    pub(super) text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    sysctl: BTreeMap<String, Spanned<Setting>>,
    ueids: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    devices: Devices,
    rule: Option<Vec<Spanned<RuleEntry>>>,
    accelerate: Option<Vec<Spanned<Entry>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Devices {
    #[serde(default)]
    soft: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    all: Option<Spanned<bool>>,
    program: Option<Spanned<String>>,
    cgroup: Option<Spanned<String>>,
    netns: Option<Spanned<String>>,
    unit: Option<Spanned<String>>,
    #[serde(default)]
    proto: Proto,
}

/// Reads the text of a file.
pub(super) fn parse(text: &str) -> Result<Config, Mistake> {
    let reader = Reader { text };
    let file: File = toml::from_str(text).map_err(|error| reader.syntax(&error))?;
    let mut config = Config::default();
    for (name, value) in &file.sysctl {
        reader.sysctl(name, value.span(), value.get_ref(), &mut config.sysctls)?;
    }
    if let Some(ueids) = &file.ueids {
        config.ueids = Some(reader.ueids(ueids)?);
    }
    for netdev in &file.devices.soft {
        let name = reader.netdev(netdev)?;
        let known = config.soft_devices.contains(&name);
        reader.ensure(!known, netdev, || {
            format!("devices.soft: {name} is there twice")
        })?;
        config.soft_devices.push(name);
    }
    if let Some(entries) = &file.rule {
        let lines = entries
            .iter()
            .map(|entry| rules::line(&reader, entry.get_ref()));
        config.rules = Some(lines.collect::<Result<_, _>>()?);
    }
    if let Some(entries) = &file.accelerate {
        let mut list: Vec<Accelerated> = Vec::new();
        for entry in entries {
            let entry_of_file = reader.accelerated(entry)?;
            let known = list
                .iter()
                .any(|other| other.target == entry_of_file.target);
            reader.ensure(!known, entry, || {
                format!("accelerate: {} is there twice", entry_of_file.target)
            })?;
            list.push(entry_of_file);
        }
        config.accelerate = Some(list);
    }
    Ok(config)
}

/// Knows the text, for the numbers of lines.
pub(super) struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        let front = self.text.get(..at).unwrap_or(self.text);
        front.matches('\n').count() + 1
    }

    pub(super) fn mistake(&self, span: Range<usize>, text: impl Into<String>) -> Mistake {
        Mistake {
            line: self.line(span.start),
            text: text.into(),
        }
    }

    /// A mistake of the syntax, or a key or type that is not known. The line itself has the key.
    fn syntax(&self, error: &toml::de::Error) -> Mistake {
        let start = error.span().map_or(0, |span| span.start);
        let line = self.line(start);
        let shown = self.text.lines().nth(line - 1).unwrap_or_default().trim();
        let message = error.message().trim().replace('\n', ", ");
        Mistake {
            line,
            text: match shown.is_empty() {
                true => message,
                false => format!("{message} in '{shown}'"),
            },
        }
    }

    fn ensure<T>(
        &self,
        holds: bool,
        value: &Spanned<T>,
        text: impl FnOnce() -> String,
    ) -> Result<(), Mistake> {
        match holds {
            true => Ok(()),
            false => Err(self.mistake(value.span(), text())),
        }
    }

    /// A value, or with names that have dots and no quotes, a table of them.
    fn sysctl(
        &self,
        name: &str,
        span: Range<usize>,
        value: &Setting,
        found: &mut BTreeMap<String, String>,
    ) -> Result<(), Mistake> {
        let text = match value {
            Setting::Table(inner) => {
                for (word, value) in inner {
                    let name = format!("{name}.{word}");
                    self.sysctl(&name, value.span(), value.get_ref(), found)?;
                }
                return Ok(());
            }
            Setting::Text(text) if !text.contains('\n') => text.trim().to_string(),
            _ => {
                let text = format!("sysctl.{name}: neither a number nor a text of one line");
                return Err(self.mistake(span, text));
            }
        };
        let is_word = |word: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            !word.is_empty() && word.bytes().all(plain)
        };
        if !SYSCTLS.iter().any(|prefix| name.starts_with(prefix)) || !name.split('.').all(is_word) {
            let text = format!(
                "sysctl.{name}: not a sysctl of the module, which begin with {}; others belong \
                 into /etc/sysctl.d",
                SYSCTLS.join(" or ")
            );
            return Err(self.mistake(span, text));
        }
        if found.insert(name.to_string(), text).is_some() {
            return Err(self.mistake(span, format!("sysctl.{name}: is there twice")));
        }
        Ok(())
    }

    fn ueids(&self, ueids: &[Spanned<String>]) -> Result<Vec<String>, Mistake> {
        let mut found: Vec<String> = Vec::new();
        for ueid in ueids {
            let text = ueid.get_ref();
            self.ensure(is_ueid(text), ueid, || {
                format!(
                    "ueids: \"{text}\" is not 1 to {LONGEST_UEID} capital letters, digits, dots and \
                     hyphens that begin with a letter or digit"
                )
            })?;
            self.ensure(!found.contains(text), ueid, || {
                format!("ueids: \"{text}\" is there twice")
            })?;
            found.push(text.clone());
            self.ensure(found.len() <= MOST_UEIDS, ueid, || {
                format!("ueids: more than {MOST_UEIDS}")
            })?;
        }
        Ok(found)
    }

    fn netdev(&self, netdev: &Spanned<String>) -> Result<String, Mistake> {
        let name = netdev.get_ref();
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':';
        let fits = (1..=LONGEST_NETDEV).contains(&name.len())
            && name.bytes().all(plain)
            && !name.starts_with('.');
        self.ensure(fits, netdev, || {
            format!("devices.soft: \"{name}\" is not the name of a network device")
        })?;
        Ok(name.clone())
    }

    fn accelerated(&self, entry: &Spanned<Entry>) -> Result<Accelerated, Mistake> {
        let Entry {
            all,
            program,
            cgroup,
            netns,
            unit,
            proto,
        } = entry.get_ref();
        let mut targets = Vec::new();
        if let Some(all) = all {
            self.ensure(*all.get_ref(), all, || {
                "accelerate.all: can only be true; leave the entry out".into()
            })?;
            targets.push(Target::All);
        }
        if let Some(program) = program {
            let name = program.get_ref();
            let fits = !name.is_empty() && !name.contains(['/', '\0']);
            self.ensure(fits, program, || {
                format!(
                    "accelerate.program: \"{name}\" is not the name of a program without its path"
                )
            })?;
            targets.push(Target::Program(name.clone()));
        }
        if let Some(cgroup) = cgroup {
            let path = cgroup.get_ref();
            let fits = !path.is_empty() && !path.contains('\0');
            self.ensure(fits, cgroup, || {
                "accelerate.cgroup: the path is empty".into()
            })?;
            targets.push(Target::Cgroup(path.clone()));
        }
        if let Some(netns) = netns {
            let name = netns.get_ref();
            let fits = !name.is_empty() && !name.contains('\0');
            self.ensure(fits, netns, || "accelerate.netns: the name is empty".into())?;
            targets.push(Target::Netns(name.clone()));
        }
        if let Some(unit) = unit {
            let name = unit.get_ref();
            self.ensure(unit::is_service(name), unit, || {
                format!(
                    "accelerate.unit: \"{name}\" is not the name of a service of systemd, such as \
                     nginx.service"
                )
            })?;
            targets.push(Target::Unit(name.clone()));
        }
        let proto = *proto;
        match <[Target; 1]>::try_from(targets) {
            Ok([target]) => Ok(Accelerated { target, proto }),
            Err(_) => Err(self.mistake(
                entry.span(),
                "accelerate: an entry has one of the keys program, unit, cgroup, netns and all",
            )),
        }
    }
}

/// An identifier that the module accepts.
fn is_ueid(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let plain = |byte: u8| letter(byte) || byte == b'.' || byte == b'-';
    text.len() <= LONGEST_UEID && text.bytes().next().is_some_and(letter) && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> (usize, String) {
        let mistake = parse(text).unwrap_err();
        (mistake.line, mistake.text)
    }

    #[test]
    fn empty_file_asks_for_nothing() {
        assert_eq!(parse("").unwrap(), Config::default());
        assert_eq!(parse("# a comment\n").unwrap(), Config::default());
    }

    #[test]
    fn example_of_the_package_asks_for_nothing_and_is_valid_without_its_marks() {
        let example = include_str!("../../rdma-sock.toml");
        assert_eq!(parse(example).unwrap(), Config::default());
        let lines = example.lines().map(|line| {
            let entry = line.strip_prefix('#');
            entry
                .filter(|rest| !rest.starts_with([' ', '#']))
                .unwrap_or_default()
        });
        let whole = lines.collect::<Vec<_>>().join("\n");
        let config = parse(&whole).unwrap();
        assert!(!config.sysctls.is_empty() && !config.soft_devices.is_empty());
        assert!(config.ueids.is_some_and(|ueids| !ueids.is_empty()));
        assert_eq!(config.rules.map_or(0, |rules| rules.len()), 2);
        assert_eq!(config.accelerate.map_or(0, |list| list.len()), 5);
    }

    #[test]
    fn every_key_is_read() {
        let config = parse(
            r#"
ueids = ["LAB.ONE", "LAB-2"]
[sysctl]
net.smc.wmem = 262144
"net.rdma_sock.sdp_probe" = "cm"
[devices]
soft = ["eth0"]
[[accelerate]]
program = "nginx"
[[accelerate]]
unit = "redis.service"
proto = "sdp"
[[accelerate]]
cgroup = "user.slice"
proto = "auto"
[[accelerate]]
all = true
"#,
        )
        .unwrap();
        let sysctls: Vec<_> = config.sysctls.into_iter().collect();
        let sysctl = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(
            sysctls,
            [
                sysctl("net.rdma_sock.sdp_probe", "cm"),
                sysctl("net.smc.wmem", "262144")
            ]
        );
        assert_eq!(config.ueids.unwrap(), ["LAB.ONE", "LAB-2"]);
        assert_eq!(config.soft_devices, ["eth0"]);
        let entry = |target, proto| Accelerated { target, proto };
        assert_eq!(
            config.accelerate.unwrap(),
            [
                entry(Target::Program("nginx".into()), Proto::Smc),
                entry(Target::Unit("redis.service".into()), Proto::Sdp),
                entry(Target::Cgroup("user.slice".into()), Proto::Auto),
                entry(Target::All, Proto::Smc),
            ]
        );
    }

    #[test]
    fn unknown_key_is_refused_with_its_line_and_name() {
        for (text, line, key) in [
            ("\nueid = []\n", 2, "ueid"),
            ("[devices]\nhard = []\n", 2, "hard"),
            ("[[accelerate]]\nall = true\nport = 80\n", 3, "port"),
            ("\n\n[rules]\n", 3, "rules"),
        ] {
            let (found, message) = mistake(text);
            assert_eq!(found, line, "{text}: {message}");
            assert!(message.contains(&format!("`{key}`")), "{message}");
        }
    }

    #[test]
    fn wrong_type_is_refused_with_its_line_and_text() {
        let (line, message) = mistake("[devices]\nsoft = \"eth0\"\n");
        assert_eq!(line, 2);
        assert!(message.contains("soft = \"eth0\""), "{message}");
        let (line, message) = mistake("[[accelerate]]\nall = true\nproto = \"tcp\"\n");
        assert_eq!(line, 3);
        assert!(message.contains("tcp"), "{message}");
        assert_eq!(mistake("ueids = [\n").0, 1);
    }

    #[test]
    fn sysctl_of_another_part_of_the_kernel_is_refused() {
        let (line, message) = mistake("[sysctl]\nnet.smc.wmem = 1\n\"net.core.wmem_max\" = 1\n");
        assert_eq!(line, 3);
        assert!(
            message.starts_with("sysctl.net.core.wmem_max: "),
            "{message}"
        );
        for name in ["net.smc.", "net.smc..wmem", "net.smc.a/b", "net.smc.x y"] {
            let (_, message) = mistake(&format!("[sysctl]\n\"{name}\" = 1\n"));
            assert!(message.contains("not a sysctl of the module"), "{message}");
        }
        let (line, message) = mistake("[sysctl]\n\"net.smc.wmem\" = [1]\n");
        assert_eq!(line, 2);
        assert!(message.starts_with("sysctl.net.smc.wmem: "), "{message}");
        let (_, message) = mistake("[sysctl]\n\"net.smc.wmem\" = 1\nnet.smc.wmem = 2\n");
        assert!(message.contains("twice"), "{message}");
    }

    #[test]
    fn identifier_that_the_module_refuses_is_refused() {
        for text in ["", "lab", "-A", "A B", "A\u{df}", &"A".repeat(33)] {
            let (line, message) = mistake(&format!("ueids = [\n\"A\",\n\"{text}\"]\n"));
            assert_eq!(line, 3);
            assert!(message.starts_with("ueids: "), "{message}");
        }
        let nine: Vec<String> = (0..9).map(|number| format!("\"A{number}\"")).collect();
        let (_, message) = mistake(&format!("ueids = [{}]", nine.join(",")));
        assert_eq!(message, "ueids: more than 8");
        assert_eq!(
            mistake("ueids = [\"A\", \"A\"]").1,
            "ueids: \"A\" is there twice"
        );
    }

    #[test]
    fn name_that_no_network_device_has_is_refused() {
        for name in ["", ".", "..", "a/b", "a b", "abcdefghijklmnop"] {
            let (line, message) = mistake(&format!("[devices]\nsoft = [\"{name}\"]\n"));
            assert_eq!(line, 2);
            assert!(message.starts_with("devices.soft: "), "{message}");
        }
    }

    #[test]
    fn entry_without_one_target_is_refused() {
        for entry in [
            "",
            "proto = \"sdp\"",
            "all = true\nprogram = \"x\"",
            "all = false",
        ] {
            let (line, message) = mistake(&format!("\n[[accelerate]]\n{entry}\n"));
            assert!(line == 2 || entry == "all = false", "{line}: {message}");
            assert!(message.starts_with("accelerate"), "{message}");
        }
        for entry in [
            "program = \"/usr/bin/x\"",
            "program = \"\"",
            "cgroup = \"\"",
            "unit = \"nginx\"",
            "unit = \"a@.service\"",
        ] {
            let (line, message) = mistake(&format!("[[accelerate]]\n{entry}\n"));
            assert_eq!(line, 2, "{message}");
            assert!(message.starts_with("accelerate."), "{message}");
        }
        let twice = "[[accelerate]]\nall = true\n[[accelerate]]\nall = true\nproto = \"sdp\"\n";
        assert_eq!(
            mistake(twice),
            (3, "accelerate: every program is there twice".into())
        );
    }
}
