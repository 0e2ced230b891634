// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock accel`: turning the sockets of selected programs, by a BPF program.
//!
//! The program and its maps are pinned in the BPF file system, so they outlive this tool:
//!
//! ```text
//!   bpf/accel.bpf.c   the program; runs in socket(2)
//!   kernel.rs         what the kernel must offer, and where its protocol lists are
//!   selector.rs       which programs: names, processes, cgroups and namespaces, as keys of the maps
//!   pinned.rs         loading, attaching, pinning; reading and writing the maps
//! ```

mod kernel;
mod pinned;
mod selector;

pub(crate) use kernel::check_hook;
pub(crate) use selector::Selector;

use anyhow::{
    bail,
    ensure,
    Context,
    Result, //
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fmt::Write, //
};

use crate::{
    cli::{
        OffArgs,
        OnArgs,
        SelectorArgs, //
    },
    module,
    output::{
        self,
        Table, //
    },
    proto::Proto,
};
use pinned::{
    Counters,
    Pinned,
    Rule, //
};
const SCHEMA_VERSION: u32 = 1;

/// The error of `accel on` if the check of each socket cannot work.
const UNCHECKED: &str = "cannot prepare the check of each socket (--force leaves it out)";

/// What `accel status` tells.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report {
    /// Version of this format.
    schema_version: u32,
    /// The program is attached and decides.
    attached: bool,
    /// Sockets are only turned while the kernel has the protocol.
    guarded: bool,
    /// Sockets turned since acceleration was started.
    sockets_turned: u64,
    /// Sockets of selected programs left as TCP because the kernel did not have the protocol.
    sockets_left_tcp: u64,
    /// The selectors, with the number of their programs' sockets.
    selectors: Vec<SelectorReport>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SelectorReport {
    #[serde(flatten)]
    selector: selector::Description,
    /// What its programs get in place of TCP.
    proto: Proto,
    /// Sockets turned because of this selector.
    sockets: u64,
}

impl Report {
    /// Looks at what is pinned. Needs the privilege to.
    pub(crate) fn collect() -> Result<Self> {
        let Some(pinned) = Pinned::open()? else {
            return Ok(Self {
                schema_version: SCHEMA_VERSION,
                attached: false,
                guarded: true,
                sockets_turned: 0,
                sockets_left_tcp: 0,
                selectors: Vec::new(),
            });
        };
        let Counters {
            turned,
            unregistered,
        } = pinned.counters()?;
        let report = |(selector, rule): (Selector, Rule)| SelectorReport {
            selector: selector.describe(),
            proto: rule.proto,
            sockets: rule.sockets,
        };
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            attached: true,
            guarded: pinned.is_guarded()?,
            sockets_turned: turned,
            sockets_left_tcp: unregistered,
            selectors: pinned.selectors()?.into_iter().map(report).collect(),
        })
    }

    /// Whether the program is attached.
    pub(crate) fn is_on(&self) -> bool {
        self.attached
    }

    /// One line on it.
    pub(crate) fn summary(&self) -> String {
        if !self.attached {
            return "off".into();
        }
        let mut text = format!(
            "on, {}, {} turned into sockets of SMC-R or SDP",
            output::counted(self.selectors.len(), "selector"),
            output::counted(self.sockets_turned, "socket"),
        );
        if self.sockets_left_tcp > 0 {
            let _ = write!(
                text,
                ", {} left as TCP because the module was not loaded",
                self.sockets_left_tcp
            );
        }
        text
    }

    fn table(&self) -> String {
        let mut table = Table::new(&["SELECTOR", "VALUE", "PROTO", "SOCKETS"]);
        for entry in &self.selectors {
            let (kind, value) = entry.selector.words();
            table.row([
                kind,
                value,
                entry.proto.name().into(),
                entry.sockets.to_string(),
            ]);
        }
        table.render()
    }
}

/// `accel on`: attaches the program, or adds selectors to the one that is attached.
pub(crate) fn on(args: &OnArgs) -> Result<()> {
    let mut selectors = selectors(&args.selectors)?;
    for pid in &args.selectors.pid {
        selectors.push(Selector::from_pid(*pid)?);
    }
    if selectors.is_empty() {
        selectors.push(Selector::EVERYTHING);
    }
    add(&selectors, args.proto, args.force)
}

/// Attaches the program with these selectors, or adds them to the one that is attached. `force` leaves out
/// the check of each socket.
pub(crate) fn add(selectors: &[Selector], proto: Proto, force: bool) -> Result<()> {
    let _lock = kernel::lock_bpf_fs()?;
    let protocols = match force {
        true => None,
        false => Some(kernel::protocol_lists().context(UNCHECKED)?),
    };
    let load_error = module::load(module::RDMA_SOCK, &[]).err();

    match Pinned::open()? {
        Some(pinned) => pinned.update(protocols, selectors, proto)?,
        None => {
            check_hook()?;
            Pinned::attach(protocols, selectors, proto)?;
        }
    }
    if !module::offers(proto) {
        let reason = load_error
            .map(|text| format!(" ({text})"))
            .unwrap_or_default();
        let what = match protocols {
            Some(_) => "selected programs get plain TCP until it is",
            None => "socket(2) fails in selected programs until it is",
        };
        output::note(&format!(
            "{} is not loaded{reason}: {what}",
            module::RDMA_SOCK
        ));
    }
    Ok(())
}

/// `accel off`: removes selectors; with none given or none left, all of it.
pub(crate) fn off(args: &OffArgs) -> Result<()> {
    let mut selectors = selectors(&args.selectors)?;
    for pid in &args.selectors.pid {
        // The process may have ended.
        let known = present()?.into_keys();
        let of_pid: Vec<_> = known.filter(|known| known.is_of_pid(*pid)).collect();
        ensure!(!of_pid.is_empty(), "no selector pid {pid}");
        selectors.extend(of_pid);
    }
    if selectors.is_empty() {
        let _lock = kernel::lock_bpf_fs()?;
        // Also clears what an interrupted `on` or another version left behind.
        return pinned::remove();
    }
    remove(&selectors)
}

/// The selectors with their protocols; none if no program is attached.
pub(crate) fn present() -> Result<BTreeMap<Selector, Proto>> {
    kernel::check_bpf_fs()?;
    let Some(pinned) = Pinned::open()? else {
        return Ok(BTreeMap::new());
    };
    let selectors = pinned.selectors()?.into_iter();
    Ok(selectors
        .map(|(selector, rule)| (selector, rule.proto))
        .collect())
}

/// Removes selectors; with none left, the program as well.
pub(crate) fn remove(selectors: &[Selector]) -> Result<()> {
    let _lock = kernel::lock_bpf_fs()?;
    let pinned = Pinned::open()?.context("acceleration is off, so there is no selector")?;
    for selector in selectors {
        if !pinned.delete(selector)? {
            let (kind, value) = selector.describe().words();
            bail!("no selector {kind} {value}");
        }
    }
    if pinned.selectors()?.is_empty() {
        pinned::remove()?;
    }
    Ok(())
}

/// `accel status`.
pub(crate) fn print_status(json: bool) -> Result<()> {
    kernel::check_bpf_fs()?;
    let report = Report::collect()?;
    if json {
        return output::print_json(&report);
    }
    let mut text = format!("acceleration: {}\n", report.summary());
    if report.attached {
        if !report.guarded {
            text.push_str(
                "started with --force: without the module, socket(2) fails in selected programs\n",
            );
        }
        text.push_str(&report.table());
    }
    output::print(&text)
}

/// The selectors of the command line but those by process.
fn selectors(args: &SelectorArgs) -> Result<Vec<Selector>> {
    if !args.port.is_empty() {
        bail!(
            "--port cannot select a program: socket(2) sets the protocol before bind(2) or \
             connect(2) sets the port; use --comm, --pid, --cgroup or --netns"
        );
    }
    let comms = args.comm.iter().map(|name| Selector::from_comm(name));
    let cgroups = args.cgroup.iter().map(|path| Selector::from_cgroup(path));
    let namespaces = args.netns.iter().map(|name| Selector::from_netns(name));
    comms.chain(cgroups).chain(namespaces).collect()
}
