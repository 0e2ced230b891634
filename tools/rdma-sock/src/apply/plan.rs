// SPDX-License-Identifier: GPL-2.0

//! The difference between the file and the machine.

use anyhow::{
    anyhow,
    Result, //
};
use std::{
    collections::BTreeMap,
    fmt, //
};

use super::config::{
    Accelerated,
    Config,
    Target, //
};
use crate::{
    accel::Selector,
    proto::Proto, //
};

/// What is known and changed of a machine.
pub(super) trait Machine {
    /// The value of a sysctl; none if there is no such sysctl.
    fn sysctl(&self, name: &str) -> Option<String>;
    /// The enterprise identifiers; none while the module is not loaded.
    fn ueids(&self) -> Option<Vec<String>>;
    /// The rules; none while the module is not loaded.
    fn rules(&self) -> Option<Vec<String>>;
    /// The RDMA device on a network device.
    fn rdma_device(&self, netdev: &str) -> Result<Option<String>>;
    /// The selectors of acceleration.
    fn selectors(&self) -> Result<BTreeMap<Selector, Proto>>;
    /// The selector of a target; none for a service that does not run.
    fn resolve(&self, target: &Target) -> Result<Option<Selector>>;

    /// Makes a change.
    fn make(&mut self, change: &Change) -> Result<()>;
}

/// One difference.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Change {
    Sysctl {
        name: String,
        old: Option<String>,
        new: String,
    },
    Ueids {
        old: Vec<String>,
        new: Vec<String>,
    },
    Device {
        netdev: String,
    },
    Rules {
        old: Vec<String>,
        new: Vec<String>,
    },
    Accelerate {
        target: Target,
        selector: Selector,
        old: Option<Proto>,
        new: Proto,
    },
    Leave {
        selector: Selector,
        old: Proto,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl { name, old, new } => {
                let old = old.as_deref().unwrap_or("(absent)");
                write!(f, "sysctl {name}: {old} -> {new}")
            }
            Self::Ueids { old, new } => {
                write!(f, "ueids: {} -> {}", listed(old, " "), listed(new, " "))
            }
            Self::Device { netdev } => write!(f, "devices: + an RDMA device on {netdev}"),
            Self::Rules { old, new } => {
                write!(f, "rules: {} -> {}", listed(old, "; "), listed(new, "; "))
            }
            Self::Accelerate {
                target,
                old: None,
                new,
                ..
            } => write!(f, "accelerate: + {target} ({})", new.name()),
            Self::Accelerate {
                target,
                old: Some(old),
                new,
                ..
            } => write!(f, "accelerate: {target}: {} -> {}", old.name(), new.name()),
            Self::Leave { selector, old } => {
                let (kind, value) = selector.describe().words();
                write!(f, "accelerate: - {kind} {value} ({})", old.name())
            }
        }
    }
}

fn listed(words: &[String], between: &str) -> String {
    match words {
        [] => "(none)".into(),
        _ => words.join(between),
    }
}

/// The changes in the order in which they are made, and what kept a part from being compared.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) changes: Vec<Change>,
    pub(super) errors: Vec<anyhow::Error>,
}

impl Plan {
    /// Compares.
    pub(super) fn new(config: &Config, machine: &impl Machine) -> Self {
        let mut plan = Self::default();
        plan.sysctls(config, machine);
        plan.ueids(config, machine);
        plan.devices(config, machine);
        plan.rules(config, machine);
        if let Some(entries) = &config.accelerate {
            if let Err(error) = plan.accelerate(entries, machine) {
                plan.errors.push(error.context("accelerate"));
            }
        }
        plan
    }

    fn sysctls(&mut self, config: &Config, machine: &impl Machine) {
        for (name, value) in &config.sysctls {
            let old = machine.sysctl(name);
            if old.as_ref().is_some_and(|old| same_words(old, value)) {
                continue;
            }
            self.changes.push(Change::Sysctl {
                name: name.clone(),
                old,
                new: value.clone(),
            });
        }
    }

    fn ueids(&mut self, config: &Config, machine: &impl Machine) {
        let Some(new) = &config.ueids else {
            return;
        };
        let old = machine.ueids().unwrap_or_default();
        let sorted = |list: &[String]| {
            let mut list = list.to_vec();
            list.sort();
            list
        };
        if sorted(&old) != sorted(new) {
            let new = new.clone();
            self.changes.push(Change::Ueids { old, new });
        }
    }

    fn devices(&mut self, config: &Config, machine: &impl Machine) {
        for netdev in &config.soft_devices {
            match machine.rdma_device(netdev) {
                Ok(Some(_)) => {}
                Ok(None) => self.changes.push(Change::Device {
                    netdev: netdev.clone(),
                }),
                Err(error) => self.errors.push(error.context("devices.soft")),
            }
        }
    }

    /// The first rule that fits a connection decides, so their order counts.
    fn rules(&mut self, config: &Config, machine: &impl Machine) {
        let Some(new) = &config.rules else {
            return;
        };
        let old = machine.rules().unwrap_or_default();
        if old != *new {
            let new = new.clone();
            self.changes.push(Change::Rules { old, new });
        }
    }

    /// New selectors come first, so that a program that one replaces goes on being selected.
    fn accelerate(&mut self, entries: &[Accelerated], machine: &impl Machine) -> Result<()> {
        let present = machine.selectors()?;
        let mut wanted = Vec::new();
        // A selector whose entry cannot be looked up is not known, so all are kept.
        let mut all_known = true;
        for Accelerated { target, proto } in entries {
            let selector = match machine.resolve(target) {
                Ok(Some(selector)) => selector,
                Ok(None) => continue,
                Err(error) => {
                    all_known = false;
                    self.errors.push(error.context("accelerate"));
                    continue;
                }
            };
            if wanted.contains(&selector) {
                let error = anyhow!("{target} selects the programs of another entry");
                self.errors.push(error.context("accelerate"));
                continue;
            }
            wanted.push(selector);
            let old = present.get(&selector).copied();
            if old != Some(*proto) {
                self.changes.push(Change::Accelerate {
                    target: target.clone(),
                    selector,
                    old,
                    new: *proto,
                });
            }
        }
        for (&selector, &old) in &present {
            if all_known && !wanted.contains(&selector) {
                self.changes.push(Change::Leave { selector, old });
            }
        }
        Ok(())
    }
}

/// A sysctl with several numbers separates them by tabulators.
fn same_words(a: &str, b: &str) -> bool {
    a.split_ascii_whitespace().eq(b.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::config;
    use anyhow::bail;
    use std::ffi::OsStr;

    /// A machine of tables.
    #[derive(Clone, Debug, Default)]
    struct Fake {
        sysctls: BTreeMap<String, String>,
        ueids: Option<Vec<String>>,
        rules: Option<Vec<String>>,
        devices: BTreeMap<String, Option<String>>,
        selectors: BTreeMap<Selector, Proto>,
        units: BTreeMap<String, u64>,
    }

    impl Machine for Fake {
        fn sysctl(&self, name: &str) -> Option<String> {
            self.sysctls.get(name).cloned()
        }

        fn ueids(&self) -> Option<Vec<String>> {
            self.ueids.clone()
        }

        fn rules(&self) -> Option<Vec<String>> {
            self.rules.clone()
        }

        fn rdma_device(&self, netdev: &str) -> Result<Option<String>> {
            match self.devices.get(netdev) {
                Some(device) => Ok(device.clone()),
                None => bail!("no network device {netdev}"),
            }
        }

        fn selectors(&self) -> Result<BTreeMap<Selector, Proto>> {
            Ok(self.selectors.clone())
        }

        fn resolve(&self, target: &Target) -> Result<Option<Selector>> {
            match target {
                Target::All => Ok(Some(Selector::EVERYTHING)),
                Target::Program(name) => Selector::from_comm(OsStr::new(name)).map(Some),
                Target::Unit(name) => Ok(self.units.get(name).copied().map(Selector::Cgroup)),
                Target::Cgroup(path) => bail!("no cgroup {path}"),
                Target::Netns(_) => Ok(Some(Selector::Netns(7))),
            }
        }

        fn make(&mut self, change: &Change) -> Result<()> {
            match change.clone() {
                Change::Sysctl { name, new, .. } => drop(self.sysctls.insert(name, new)),
                Change::Ueids { new, .. } => self.ueids = Some(new),
                Change::Rules { new, .. } => self.rules = Some(new),
                Change::Device { netdev } => {
                    self.devices.insert(netdev, Some("rsoft".into()));
                }
                Change::Accelerate { selector, new, .. } => {
                    self.selectors.insert(selector, new);
                }
                Change::Leave { selector, .. } => drop(self.selectors.remove(&selector)),
            }
            Ok(())
        }
    }

    /// The changes in words, after which the same file has none.
    fn applied(text: &str, machine: &mut Fake) -> Vec<String> {
        let config = config::parse(text).unwrap();
        let plan = Plan::new(&config, machine);
        assert!(plan.errors.is_empty(), "{:?}", plan.errors);
        for change in &plan.changes {
            machine.make(change).unwrap();
        }
        let again = Plan::new(&config, machine);
        assert!(again.changes.is_empty(), "{:?}", again.changes);
        plan.changes.iter().map(Change::to_string).collect()
    }

    fn comm(name: &str) -> Selector {
        Selector::from_comm(OsStr::new(name)).unwrap()
    }

    #[test]
    fn machine_that_is_as_the_file_says_is_not_changed() {
        let mut machine = Fake {
            sysctls: [("net.smc.wmem".into(), "262144".into())].into(),
            ueids: Some(vec!["B".into(), "A".into()]),
            devices: [("eth0".into(), Some("mlx5_0".into()))].into(),
            selectors: [(comm("nginx"), Proto::Smc)].into(),
            ..Fake::default()
        };
        let text =
            "ueids = [\"A\", \"B\"]\nsysctl.net.smc.wmem = 262144\ndevices.soft = [\"eth0\"]\n\
                    [[accelerate]]\nprogram = \"nginx\"\n";
        assert!(applied(text, &mut machine).is_empty());
    }

    #[test]
    fn empty_file_changes_nothing() {
        let mut machine = Fake {
            ueids: Some(vec!["A".into()]),
            selectors: [(comm("nginx"), Proto::Smc)].into(),
            ..Fake::default()
        };
        assert!(applied("", &mut machine).is_empty());
        assert_eq!(machine.selectors.len(), 1);
    }

    #[test]
    fn differences_are_told_and_made_once() {
        let mut machine = Fake {
            sysctls: [("net.smc.wmem".into(), "131072".into())].into(),
            devices: [("eth0".into(), None)].into(),
            selectors: [(comm("curl"), Proto::Smc), (comm("nginx"), Proto::Smc)].into(),
            ..Fake::default()
        };
        let text = "ueids = [\"A\"]\n[sysctl]\nnet.smc.wmem = 262144\nnet.smc.rmem = 262144\n\
                    [devices]\nsoft = [\"eth0\"]\n[[accelerate]]\nprogram = \"nginx\"\nproto = \"sdp\"\n\
                    [[accelerate]]\nall = true\n";
        assert_eq!(
            applied(text, &mut machine),
            [
                "sysctl net.smc.rmem: (absent) -> 262144",
                "sysctl net.smc.wmem: 131072 -> 262144",
                "ueids: (none) -> A",
                "devices: + an RDMA device on eth0",
                "accelerate: program nginx: smc -> sdp",
                "accelerate: + every program (smc)",
                "accelerate: - comm curl (smc)",
            ]
        );
    }

    #[test]
    fn empty_lists_remove_what_is_there() {
        let mut machine = Fake {
            ueids: Some(vec!["A".into()]),
            selectors: [(comm("curl"), Proto::Smc)].into(),
            ..Fake::default()
        };
        assert_eq!(
            applied("ueids = []\naccelerate = []\n", &mut machine),
            ["ueids: A -> (none)", "accelerate: - comm curl (smc)"]
        );
    }

    #[test]
    fn order_of_the_rules_is_a_difference() {
        let mut machine = Fake::default();
        let rule = |action: &str, port: u16| {
            format!("[[rule]]\naction = \"{action}\"\ndirection = \"any\"\nport = {port}\n")
        };
        let (one, other) = (rule("tcp", 22), rule("rdma", 80));
        assert_eq!(
            applied(&format!("{one}{other}"), &mut machine),
            ["rules: (none) -> tcp any port=22; rdma any port=80"]
        );
        assert_eq!(
            applied(&format!("{other}{one}"), &mut machine),
            ["rules: tcp any port=22; rdma any port=80 -> rdma any port=80; tcp any port=22"]
        );
        assert!(applied("", &mut machine).is_empty());
        assert_eq!(
            applied("rule = []\n", &mut machine),
            ["rules: rdma any port=80; tcp any port=22 -> (none)"]
        );
    }

    #[test]
    fn service_is_selected_while_it_runs() {
        let text = "[[accelerate]]\nunit = \"redis.service\"\n";
        let mut machine = Fake::default();
        assert!(applied(text, &mut machine).is_empty());
        machine.units.insert("redis.service".into(), 77);
        let told = applied(text, &mut machine);
        assert_eq!(told, ["accelerate: + unit redis.service (smc)"]);
        // Started again, it has another cgroup.
        machine.units.insert("redis.service".into(), 78);
        assert_eq!(applied(text, &mut machine).len(), 2);
        assert_eq!(
            machine.selectors,
            [(Selector::Cgroup(78), Proto::Smc)].into()
        );
    }

    #[test]
    fn part_that_cannot_be_compared_keeps_no_other_part_from_it() {
        let text = "ueids = [\"A\"]\n[devices]\nsoft = [\"eth9\", \"eth0\"]\n\
                    [[accelerate]]\ncgroup = \"gone.slice\"\n[[accelerate]]\nprogram = \"nginx\"\n";
        let machine = Fake {
            devices: [("eth0".into(), None)].into(),
            selectors: [(comm("curl"), Proto::Smc)].into(),
            ..Fake::default()
        };
        let plan = Plan::new(&config::parse(text).unwrap(), &machine);
        let errors: Vec<String> = plan
            .errors
            .iter()
            .map(|error| format!("{error:#}"))
            .collect();
        assert_eq!(
            errors,
            [
                "devices.soft: no network device eth9",
                "accelerate: no cgroup gone.slice"
            ]
        );
        let told: Vec<String> = plan.changes.iter().map(Change::to_string).collect();
        assert_eq!(
            told,
            [
                "ueids: (none) -> A",
                "devices: + an RDMA device on eth0",
                "accelerate: + program nginx (smc)",
            ]
        );
    }

    #[test]
    fn numbers_of_a_sysctl_are_compared_as_words() {
        assert!(same_words("1\t2\t3", "1 2 3"));
        assert!(!same_words("1 2", "12"));
    }
}
