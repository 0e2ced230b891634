// SPDX-License-Identifier: GPL-2.0

//! This machine: sysctls, identifiers, devices, rules and acceleration as they are.

use anyhow::{
    ensure,
    Context,
    Result, //
};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::ErrorKind,
    path::{
        Path,
        PathBuf, //
    },
};

use super::{
    config::Target,
    plan::{
        Change,
        Machine, //
    },
    unit,
};
use crate::{
    accel::{
        self,
        Selector, //
    },
    device,
    proto::Proto,
    rule, //
};

const SYSCTLS: &str = "/proc/sys";
const UEIDS: &str = "/proc/net/rdma_sock/ueids";
const NETDEVS: &str = "/sys/class/net";

/// The machine that this runs on.
pub(super) struct ThisMachine;

fn sysctl_file(name: &str) -> PathBuf {
    Path::new(SYSCTLS).join(name.replace('.', "/"))
}

/// Writes to a file of the kernel, which does not exist while the module is not loaded.
fn write(file: &Path, text: &str) -> Result<()> {
    let failure = match fs::write(file, text) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let hint = match failure.kind() {
        ErrorKind::NotFound => " (is the module rdma_sock loaded?)",
        ErrorKind::PermissionDenied => " (this needs root)",
        ErrorKind::InvalidInput => " (the kernel refuses the value)",
        _ => "",
    };
    Err(failure).with_context(|| format!("cannot write {}{hint}", file.display()))
}

impl Machine for ThisMachine {
    fn sysctl(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(sysctl_file(name)).ok()?;
        Some(text.trim().to_string())
    }

    fn ueids(&self) -> Option<Vec<String>> {
        let text = fs::read_to_string(UEIDS).ok()?;
        Some(text.split_ascii_whitespace().map(str::to_string).collect())
    }

    fn rules(&self) -> Option<Vec<String>> {
        rule::present().ok()
    }

    fn rdma_device(&self, netdev: &str) -> Result<Option<String>> {
        ensure!(
            Path::new(NETDEVS).join(netdev).exists(),
            "no network device {netdev}"
        );
        // Without ib_core there is none.
        let ports = device::list().unwrap_or_default();
        let port = ports
            .into_iter()
            .find(|port| port.netdev.as_deref() == Some(netdev));
        Ok(port.map(|port| port.device))
    }

    fn selectors(&self) -> Result<BTreeMap<Selector, Proto>> {
        accel::present()
    }

    fn resolve(&self, target: &Target) -> Result<Option<Selector>> {
        Ok(Some(match target {
            Target::All => Selector::EVERYTHING,
            Target::Program(name) => Selector::from_comm(OsStr::new(name))?,
            Target::Cgroup(path) => Selector::from_cgroup(Path::new(path))?,
            Target::Netns(name) => Selector::from_netns(Path::new(name))?,
            Target::Unit(name) => match unit::cgroup(name)? {
                Some(path) => Selector::from_cgroup(Path::new(&path))?,
                None => return Ok(None),
            },
        }))
    }

    fn make(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Sysctl { name, new, .. } => write(&sysctl_file(name), new),
            Change::Ueids { new, .. } => write(Path::new(UEIDS), &format!("{}\n", new.join(" "))),
            Change::Rules { new, .. } => rule::replace(new),
            Change::Device { netdev } => device::make(netdev).map(drop),
            Change::Accelerate { selector, new, .. } => accel::add(&[*selector], *new, false),
            Change::Leave { selector, .. } => accel::remove(&[*selector]),
        }
    }
}
