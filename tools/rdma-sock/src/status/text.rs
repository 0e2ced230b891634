// SPDX-License-Identifier: GPL-2.0

//! The report for people.

use anstyle::Style;
use rustix::process::geteuid;

use super::Report;
use crate::{
    accel, module,
    output::{
        self,
        bytes,
        paint,
        style,
        Cell,
        Table, //
    },
    snapshot::{
        Connection,
        ReasonCount, //
    },
};

impl Report {
    /// The whole text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut section = |title: &str, summary: String, body: String| {
            text.push_str(&paint(style::HEADING, title));
            if !summary.is_empty() {
                let gap = 14usize.saturating_sub(title.len());
                text.push_str(&format!("{:gap$}{summary}", ""));
            }
            text.push('\n');
            text.push_str(&body);
        };
        section("Module", self.module_summary(), String::new());
        let accel = self.acceleration.as_ref().map(accel::Report::summary);
        section(
            "Acceleration",
            accel.unwrap_or_else(|| "shown to root only".into()),
            String::new(),
        );
        let (summary, body) = self.devices_text();
        section("RDMA devices", summary, body);
        let (summary, body) = self.connections_text();
        section("Connections", summary, body);
        if !self.link_groups.is_empty() {
            let summary = output::counted(self.link_groups.len(), "link");
            section("Link groups", summary, self.links_table().render());
        }
        if !self.counters.is_empty() {
            section("Counters", String::new(), self.counters_table().render());
        }
        for (title, reasons) in [
            ("Fallbacks", &self.fallback_reasons),
            ("Aborted", &self.aborted_reasons),
        ] {
            if !reasons.is_empty() {
                section(title, String::new(), reasons_table(reasons).render());
            }
        }
        text
    }

    fn module_summary(&self) -> String {
        let name = module::RDMA_SOCK;
        match (&self.module.version, self.module.loaded) {
            (_, false) => paint(
                style::BAD,
                format_args!("{name} is not loaded: all sockets are plain TCP"),
            ),
            (None, true) => format!("{name} is {}", paint(style::GOOD, "loaded")),
            (Some(version), true) => {
                format!("{name} {version} is {}", paint(style::GOOD, "loaded"))
            }
        }
    }

    fn devices_text(&self) -> (String, String) {
        if self.devices.is_empty() {
            return (
                "none (`rdma-sock device add` makes one in software)".into(),
                String::new(),
            );
        }
        let mut table = Table::new(&["DEVICE", "PORT", "NETDEV", "STATE", "USABLE", "GID"]);
        for device in &self.devices {
            let usable = match device.usable {
                Some(true) => Cell::new("yes", style::GOOD),
                Some(false) => Cell::new("no", style::BAD),
                None => "".into(),
            };
            table.row([
                text_of(&device.dev),
                number_of(device.port),
                text_of(&device.netdev),
                text_of(&device.state),
                usable,
                text_of(&device.gid),
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
        (summary, table.render())
    }

    fn connections_text(&self) -> (String, String) {
        let count = |mode| self.connections.iter().filter(|conn| conn.is(mode)).count();
        let tcp = count("tcp");
        let mut summary = format!(
            "{} over RDMA, {tcp} over TCP, {} in the handshake",
            count("smc") + count("sdp"),
            count("pending")
        );
        if count("listen") > 0 {
            summary.push_str(&format!(", {} listening", count("listen")));
        }
        if self.connections.is_empty() {
            return (summary, String::new());
        }
        let mut table = Table::new(&[
            "PID", "PROGRAM", "MODE", "ROLE", "STATE", "LOCAL", "PEER", "SENT", "RECEIVED",
            "BY TCP", "DEVICE", "WHY TCP",
        ]);
        for conn in &self.connections {
            table.row([
                conn.pid_text().into(),
                conn.program().into(),
                Cell::new(conn.mode.clone().unwrap_or_default(), mode_style(conn)),
                text_of(&conn.role),
                text_of(&conn.state),
                text_of(&conn.local),
                text_of(&conn.peer),
                conn.tx_bytes.map(bytes).unwrap_or_default().into(),
                conn.rx_bytes.map(bytes).unwrap_or_default().into(),
                conn.tcp_bytes.map(bytes).unwrap_or_default().into(),
                text_of(&conn.dev),
                Cell::new(conn.why_tcp(), style::WARNING),
            ]);
        }
        let mut body = table.render();
        let mut hint = |text: &str| body.push_str(&format!("  {}\n", paint(style::DIM, text)));
        if self
            .connections
            .iter()
            .any(|conn| conn.processes.is_empty())
            && !geteuid().is_root()
        {
            hint("the programs of other users are shown to root only");
        }
        if tcp > 0 {
            hint("`rdma-sock explain` says what to do about connections over TCP");
        }
        (summary, body)
    }

    fn links_table(&self) -> Table {
        let mut table = Table::new(&[
            "GROUP", "ROLE", "PEER", "DEVICE", "STATE", "TYPE", "CONNS", "RMBS", "WRITTEN",
        ]);
        for link in &self.link_groups {
            let style = match link.state.as_deref() {
                Some("active") => style::GOOD,
                Some("dead") => style::BAD,
                _ => style::WARNING,
            };
            table.row([
                text_of(&link.lgr),
                text_of(&link.role),
                link.peer_text().into(),
                text_of(&link.dev),
                Cell::new(link.state.clone().unwrap_or_default(), style),
                text_of(&link.kind),
                number_of(link.conns),
                number_of(link.rmbs),
                link.write_bytes.map(bytes).unwrap_or_default().into(),
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
}

fn reasons_table(reasons: &[ReasonCount]) -> Table {
    let mut table = Table::new(&["PROTO", "REASON", "NAME", "COUNT"]);
    for reason in reasons {
        table.row([
            reason.proto.to_string(),
            reason.code.clone(),
            reason.name.to_string(),
            reason.count.to_string(),
        ]);
    }
    table
}

/// The colour of a connection's mode.
fn mode_style(conn: &Connection) -> Style {
    match conn.mode.as_deref() {
        Some("smc" | "sdp") => style::GOOD,
        Some("tcp") => style::WARNING,
        _ => style::PLAIN,
    }
}

fn text_of(text: &Option<String>) -> Cell {
    text.clone().unwrap_or_default().into()
}

fn number_of(number: Option<u64>) -> Cell {
    number
        .map(|number| number.to_string())
        .unwrap_or_default()
        .into()
}
