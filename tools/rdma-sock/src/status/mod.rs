// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock status`: what the module is doing in this network namespace.

mod proc;
mod reason;
#[cfg(test)]
mod sample;

use anyhow::Result;
use serde::Serialize;
use serde_json::{
    Map,
    Value, //
};

use crate::{
    accel, device,
    module::{
        self,
        Module, //
    },
    output::{
        self,
        bytes,
        Table, //
    },
};
use proc::{
    Connection,
    Device,
    Link,
    Statistics, //
};

const SCHEMA_VERSION: u32 = 1;

/// Everything that `status --json` tells. The manual page documents it.
#[derive(Debug, Serialize)]
struct Report {
    /// Version of this format.
    schema_version: u32,
    /// The kernel module.
    module: Module,
    /// None if this user may not see it.
    acceleration: Option<accel::Report>,
    /// Ports of RDMA devices.
    devices: Vec<Device>,
    /// Connections of this network namespace.
    connections: Vec<Connection>,
    /// Links of its link groups.
    link_groups: Vec<Link>,
    /// Counters of the module, by name.
    counters: Map<String, Value>,
    /// Fallbacks by their reason.
    fallback_reasons: Vec<reason::Count>,
}

impl Report {
    fn collect() -> Result<Self> {
        let module = Module::find();
        let files = proc::Files::in_this_namespace();
        let Statistics {
            counters,
            fallback_reasons,
        } = files.statistics()?;
        let devices = match files.devices()? {
            Some(devices) => devices,
            // Without the module: what it would find. A machine without RDMA has none.
            None => device::list()
                .unwrap_or_default()
                .into_iter()
                .map(Device::from)
                .collect(),
        };
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            module,
            acceleration: accel::Report::collect().ok(),
            devices,
            connections: files.connections()?,
            link_groups: files.links()?,
            counters,
            fallback_reasons,
        })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut section = |title: &str, summary: String, table: Option<Table>| {
            text.push_str(format!("{title:<13} {summary}").trim_end());
            text.push('\n');
            if let Some(table) = table {
                text.push_str(&table.render());
            }
        };
        section("Module", self.module_summary(), None);
        let accel = self.acceleration.as_ref().map(accel::Report::summary);
        section(
            "Acceleration",
            accel.unwrap_or_else(|| "shown to root only".into()),
            None,
        );
        let (summary, table) = self.devices_text();
        section("RDMA devices", summary, table);
        let (summary, table) = self.connections_text();
        section("Connections", summary, table);
        if !self.link_groups.is_empty() {
            section(
                "Link groups",
                self.link_groups.len().to_string(),
                Some(self.links_table()),
            );
        }
        if !self.counters.is_empty() {
            section("Counters", String::new(), Some(self.counters_table()));
        }
        if !self.fallback_reasons.is_empty() {
            section("Fallbacks", String::new(), Some(self.reasons_table()));
        }
        text
    }

    fn module_summary(&self) -> String {
        match (&self.module.version, self.module.loaded) {
            (_, false) => format!(
                "{} is not loaded: all sockets are plain TCP",
                module::RDMA_SOCK
            ),
            (None, true) => format!("{} is loaded", module::RDMA_SOCK),
            (Some(version), true) => format!("{} {version} is loaded", module::RDMA_SOCK),
        }
    }

    fn devices_text(&self) -> (String, Option<Table>) {
        if self.devices.is_empty() {
            return (
                "none (`rdma-sock device add` makes one in software)".into(),
                None,
            );
        }
        let mut table = Table::new(&["DEVICE", "PORT", "NETDEV", "STATE", "USABLE", "GID"]);
        for device in &self.devices {
            let usable = match device.usable {
                Some(true) => "yes",
                Some(false) => "no",
                None => "",
            };
            table.row([
                device.dev.clone().unwrap_or_default(),
                device.port.map(|port| port.to_string()).unwrap_or_default(),
                device.netdev.clone().unwrap_or_default(),
                device.state.clone().unwrap_or_default(),
                usable.into(),
                device.gid.clone().unwrap_or_default(),
            ]);
        }
        let usable = self
            .devices
            .iter()
            .filter(|device| device.usable == Some(true))
            .count();
        let summary = match self.devices.iter().any(|device| device.usable.is_some()) {
            true => format!(
                "{usable} of {} usable",
                output::counted(self.devices.len(), "port")
            ),
            false => output::counted(self.devices.len(), "port"),
        };
        (summary, Some(table))
    }

    fn connections_text(&self) -> (String, Option<Table>) {
        let count = |mode| {
            let in_mode = |conn: &&Connection| conn.mode.as_deref() == Some(mode);
            self.connections.iter().filter(in_mode).count()
        };
        let summary = format!(
            "{} over RDMA, {} over TCP, {} in the handshake",
            count("smc") + count("sdp"),
            count("tcp"),
            count("pending")
        );
        if self.connections.is_empty() {
            return (summary, None);
        }
        let mut table = Table::new(&[
            "MODE", "ROLE", "STATE", "LOCAL", "PEER", "SENT", "RECEIVED", "BY TCP", "DEVICE",
            "WHY TCP",
        ]);
        for conn in &self.connections {
            table.row([
                conn.mode.clone().unwrap_or_default(),
                conn.role.clone().unwrap_or_default(),
                conn.state.clone().unwrap_or_default(),
                conn.local.clone().unwrap_or_default(),
                conn.peer.clone().unwrap_or_default(),
                conn.tx_bytes.map(bytes).unwrap_or_default(),
                conn.rx_bytes.map(bytes).unwrap_or_default(),
                conn.tcp_bytes.map(bytes).unwrap_or_default(),
                conn.dev.clone().unwrap_or_default(),
                conn.why_tcp(),
            ]);
        }
        (summary, Some(table))
    }

    fn links_table(&self) -> Table {
        let mut table = Table::new(&["GROUP", "ROLE", "PEER", "DEVICE", "STATE", "CONNS", "RMBS"]);
        for link in &self.link_groups {
            table.row([
                link.lgr.clone().unwrap_or_default(),
                link.role.clone().unwrap_or_default(),
                link.peer
                    .clone()
                    .or_else(|| link.peer_gid.clone())
                    .unwrap_or_default(),
                link.dev.clone().unwrap_or_default(),
                link.state.clone().unwrap_or_default(),
                link.conns
                    .map(|conns| conns.to_string())
                    .unwrap_or_default(),
                link.rmbs.map(|rmbs| rmbs.to_string()).unwrap_or_default(),
            ]);
        }
        table
    }

    fn counters_table(&self) -> Table {
        let mut table = Table::new(&["NAME", "VALUE"]);
        for (name, value) in &self.counters {
            let text = match (value.as_u64(), value.as_str()) {
                (Some(count), _) if name.ends_with("_bytes") && count >= 1024 => {
                    format!("{count} ({})", bytes(count))
                }
                (_, Some(text)) => text.to_string(),
                _ => value.to_string(),
            };
            table.row([name.clone(), text]);
        }
        table
    }

    fn reasons_table(&self) -> Table {
        let mut table = Table::new(&["REASON", "NAME", "COUNT"]);
        for count in &self.fallback_reasons {
            table.row([
                count.code.clone(),
                count.name.to_string(),
                count.count.to_string(),
            ]);
        }
        table
    }
}

/// Prints the report.
pub(crate) fn print(json: bool) -> Result<()> {
    let report = Report::collect()?;
    match json {
        true => output::print_json(&report),
        false => output::print(&report.text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn sample() -> Report {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("stat", sample::STAT),
            ("conns", sample::CONNS),
            ("devices", sample::DEVICES),
            ("links", sample::LINKS),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let files = proc::Files::below(folder.path());
        let Statistics {
            counters,
            fallback_reasons,
        } = files.statistics().unwrap();
        Report {
            schema_version: SCHEMA_VERSION,
            module: Module {
                loaded: true,
                version: Some("0.1.0".into()),
            },
            acceleration: None,
            devices: files.devices().unwrap().unwrap(),
            connections: files.connections().unwrap(),
            link_groups: files.links().unwrap(),
            counters,
            fallback_reasons,
        }
    }

    #[test]
    fn json_of_the_samples_is_as_documented() {
        let expected: Value = serde_json::from_str(sample::JSON).unwrap();
        assert_eq!(serde_json::to_value(sample()).unwrap(), expected);
    }

    #[test]
    fn text_of_the_samples_is_as_kept() {
        assert_eq!(sample().text(), sample::TEXT);
    }

    #[test]
    fn text_without_module_says_so() {
        let report = Report {
            module: Module::default(),
            devices: Vec::new(),
            connections: Vec::new(),
            link_groups: Vec::new(),
            counters: Map::new(),
            fallback_reasons: Vec::new(),
            ..sample()
        };
        let text = report.text();
        assert!(text.contains("rdma_sock is not loaded"));
        assert!(text.contains("0 over RDMA, 0 over TCP"));
    }
}
