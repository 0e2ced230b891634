// SPDX-License-Identifier: GPL-2.0

//! What a report says, read from the machine.

use anyhow::Result;
use rustix::system::uname;
use serde_json::Value;
use std::{
    fs,
    path::Path,
    thread, //
};

use super::{
    page::{
        Block,
        Page,
        Section, //
    },
    plot::{
        self,
        Curve, //
    },
    samples::Samples,
};
use crate::{
    accel,
    clock::Utc,
    doctor, explain, module,
    output::{
        bytes,
        counted, //
    },
    snapshot::{
        reason,
        Connection,
        Device,
        Link,
        ReasonCount,
        Snapshot,
        Sources, //
    },
};

/// Settings beside those of the module that decide about buffers and handshakes.
const SETTINGS: [&str; 6] = [
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_syncookies",
    "kernel/kptr_restrict",
];

/// Folders of the settings of the module.
const SETTING_FOLDERS: [&str; 2] = ["net/smc", "net/rdma_sock"];

/// Modules that take part, with the users of the second.
const MODULES: [&str; 4] = ["rdma_sock", "ib_core", "rdma_soft", "smc"];

/// This machine.
pub(super) struct Host {
    /// Its name.
    pub(super) name: String,
    /// Enterprise identifiers of the network namespace.
    pub(super) eids: Vec<String>,
    /// Names and values.
    pub(super) facts: Vec<(&'static str, String)>,
}

impl Host {
    /// Reads it.
    pub(super) fn find(sources: &Sources) -> Self {
        let names = uname();
        let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let release = read(Path::new("/etc/os-release"));
        let pretty = release
            .lines()
            .find_map(|line| line.strip_prefix("PRETTY_NAME="))
            .map(|name| name.trim_matches('"').to_string());
        let memory = read(&sources.proc.join("meminfo"));
        let memory = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))
            .map(|size| size.trim().to_string());
        let uptime = read(&sources.proc.join("uptime"));
        let uptime = uptime.split_whitespace().next().map(|s| format!("{s} s"));
        let processors = thread::available_parallelism().map(|count| count.to_string());
        let facts = vec![
            ("kernel", text(names.release())),
            ("build of the kernel", text(names.version())),
            ("architecture", text(names.machine())),
            ("system", pretty.unwrap_or_default()),
            ("processors", processors.unwrap_or_default()),
            ("memory", memory.unwrap_or_default()),
            ("uptime", uptime.unwrap_or_default()),
        ];
        let eids = read(&sources.proc.join("net/rdma_sock/ueids"));
        Self {
            name: text(names.nodename()),
            eids: eids.split_whitespace().map(str::to_string).collect(),
            facts,
        }
    }

    fn section(&self, snapshot: &Snapshot) -> Section {
        let mut facts = vec![
            fact("time", Utc::now().to_string()),
            fact("host", &self.name),
        ];
        facts.extend(self.facts.iter().map(|(name, value)| fact(name, value)));
        let version = snapshot.module.version.as_deref().unwrap_or_default();
        let state = match snapshot.module.loaded {
            true => format!("{version} is loaded"),
            false => "is not loaded".into(),
        };
        facts.push(fact("rdma-sock", env!("CARGO_PKG_VERSION")));
        facts.push(fact(module::RDMA_SOCK, state));
        let acceleration = accel::Report::collect().map(|report| report.summary());
        let hidden = |_| "shown to root only".to_string();
        facts.push(fact("acceleration", acceleration.unwrap_or_else(hidden)));
        facts.push(fact("enterprise identifiers", self.eids.join(" ")));
        section("Host", vec![Block::Facts(facts)])
    }
}

fn fact(name: &str, value: impl Into<String>) -> (String, String) {
    (name.into(), value.into())
}

fn section(title: &'static str, blocks: Vec<Block>) -> Section {
    Section { title, blocks }
}

fn text(value: &Option<String>) -> String {
    value.clone().unwrap_or_default()
}

fn number(value: Option<u64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Makes the page.
pub(super) fn page(sources: &Sources, host: &Host, samples: &Samples) -> Result<Page> {
    let snapshot = Snapshot::take(sources)?;
    let statistics = &snapshot.statistics;
    let sections = vec![
        host.section(&snapshot),
        section("Findings of the doctor", vec![findings(sources)?]),
        section("Traffic", plots(samples)?),
        section("Connections", connections(&snapshot)),
        section("Links", vec![links(&snapshot.links)]),
        section("RDMA devices", devices(&snapshot.devices)),
        section("Fallbacks", vec![reasons(&statistics.fallback_reasons)]),
        section("Aborted", vec![reasons(&statistics.aborted_reasons)]),
        section("Counters", counters(samples)),
        section("Settings", vec![settings(sources)]),
        section("Modules", modules(sources)),
    ];
    Ok(Page {
        title: "rdma-sock report",
        sections,
    })
}

fn findings(sources: &Sources) -> Result<Block> {
    let rows = doctor::rows(sources)?;
    let rows = rows.into_iter().map(|row| row.to_vec()).collect();
    Ok(Block::table(&["LEVEL", "SUBJECT", "FINDING", "FIX"], rows))
}

fn plots(samples: &Samples) -> Result<Vec<Block>> {
    let rate = |name, counters: &[&str]| Curve {
        name,
        points: samples.rates(counters),
    };
    let value = |name, counter: &str| Curve {
        name,
        points: samples.values(counter),
    };
    let payload = [
        rate("sent by RDMA", &["tx_bytes", "sdp_tx_bytes"]),
        rate("received by RDMA", &["rx_bytes", "sdp_rx_bytes"]),
        rate("over TCP", &["tcp_payload_bytes", "sdp_tcp_payload_bytes"]),
    ];
    let new = [
        rate(
            "over RDMA",
            &[
                "smc_clnt_conns",
                "smc_srv_conns",
                "sdp_clnt_conns",
                "sdp_srv_conns",
            ],
        ),
        rate(
            "fallbacks",
            &[
                "fallback_clnt",
                "fallback_srv",
                "sdp_fallback_clnt",
                "sdp_fallback_srv",
            ],
        ),
    ];
    let present = [
        value("connections over RDMA", "active_conns"),
        value("link groups", "link_groups"),
        value("orphans", "orphans"),
    ];
    Ok(vec![
        Block::Plot(plot::draw("Payload", "bytes in a second", &payload)?),
        Block::Plot(plot::draw("New connections", "in a second", &new)?),
        Block::Plot(plot::draw("Present, of SMC-R", "number", &present)?),
        Block::Plot(plot::draw(
            "Buffers",
            "bytes",
            &[value("buffers", "buffer_bytes")],
        )?),
    ])
}

fn connections(snapshot: &Snapshot) -> Vec<Block> {
    let count = |mode| snapshot.count(mode);
    let summary = format!(
        "{} over SMC-R, {} over SDP, {} over TCP, {} in the handshake, {} listening",
        count("smc"),
        count("sdp"),
        count("tcp"),
        count("pending"),
        count("listen")
    );
    let row = |conn: &Connection| {
        vec![
            text(&conn.mode),
            conn.pid_text(),
            conn.program().to_string(),
            text(&conn.role),
            text(&conn.state),
            text(&conn.local),
            text(&conn.peer),
            number(conn.tx_bytes),
            number(conn.rx_bytes),
            number(conn.tcp_bytes),
            text(&conn.dev),
            text(&conn.lgr),
            text(&conn.reason),
            conn.why_tcp(),
        ]
    };
    let rows = snapshot.connections.iter().map(row).collect();
    let headings = &[
        "MODE", "PID", "PROGRAM", "ROLE", "STATE", "LOCAL", "PEER", "SENT", "RECEIVED", "BY TCP",
        "DEVICE", "GROUP", "REASON", "WHY TCP",
    ];
    vec![Block::Paragraph(summary), Block::table(headings, rows)]
}

fn links(links: &[Link]) -> Block {
    let row = |link: &Link| {
        let other = |name: &str| {
            let value = link.other.get(name).map(Value::to_string);
            value.unwrap_or_default()
        };
        vec![
            text(&link.lgr),
            text(&link.role),
            number(link.version),
            text(&link.state),
            text(&link.dev),
            link.peer_text(),
            number(link.link),
            text(&link.kind),
            number(link.conns),
            number(link.rmbs),
            number(link.write_bytes),
            text(&link.qpn),
            text(&link.peer_qpn),
            other("posts"),
            other("cqes"),
            other("recvs"),
        ]
    };
    let headings = &[
        "GROUP", "ROLE", "VERSION", "STATE", "DEVICE", "PEER", "LINK", "TYPE", "CONNS", "RMBS",
        "WRITTEN", "QPN", "PEER QPN", "POSTS", "CQES", "RECVS",
    ];
    Block::table(headings, links.iter().map(row).collect())
}

fn devices(devices: &[Device]) -> Vec<Block> {
    let row = |device: &Device| {
        let usable = match device.usable {
            Some(true) => "yes",
            Some(false) => "no",
            None => "",
        };
        vec![
            text(&device.dev),
            number(device.port),
            text(&device.netdev),
            text(&device.state),
            usable.to_string(),
            text(&device.mac),
            text(&device.gid),
        ]
    };
    let gids = devices.iter().flat_map(|device| {
        device.gids.iter().map(|gid| {
            vec![
                text(&device.dev),
                number(device.port),
                gid.index.to_string(),
                gid.gid.to_string(),
                text(&gid.kind),
                text(&gid.netdev),
            ]
        })
    });
    vec![
        Block::table(
            &["DEVICE", "PORT", "NETDEV", "STATE", "USABLE", "MAC", "GID"],
            devices.iter().map(row).collect(),
        ),
        Block::Paragraph("All GIDs:".into()),
        Block::table(
            &["DEVICE", "PORT", "INDEX", "GID", "KIND", "NETDEV"],
            gids.collect(),
        ),
    ]
}

fn reasons(reasons: &[ReasonCount]) -> Block {
    let row = |entry: &ReasonCount| {
        let code = reason::parse_code(&entry.code).unwrap_or_default();
        vec![
            entry.proto.to_string(),
            entry.code.clone(),
            entry.name.to_string(),
            entry.count.to_string(),
            explain::meaning(code).to_string(),
            explain::first_advice(&entry.code).to_string(),
        ]
    };
    let headings = &["PROTO", "REASON", "NAME", "COUNT", "MEANING", "ADVICE"];
    Block::table(headings, reasons.iter().map(row).collect())
}

fn counters(samples: &Samples) -> Vec<Block> {
    let last = samples.last();
    let seconds = last.at.as_secs_f64();
    let row = |(name, value): (&String, &Value)| {
        let (before, after) = (
            samples.first.statistics.count(name),
            last.statistics.count(name),
        );
        if value.as_u64().is_none() {
            return vec![
                name.clone(),
                value.to_string(),
                String::new(),
                String::new(),
            ];
        }
        let growth = i128::from(after).saturating_sub(i128::from(before));
        let readable = match name.ends_with("_bytes") && after >= 1024 {
            true => format!("{after} ({})", bytes(after)),
            false => after.to_string(),
        };
        vec![
            name.clone(),
            readable,
            growth.to_string(),
            format!("{:.1}", growth as f64 / seconds.max(f64::MIN_POSITIVE)),
        ]
    };
    let rows = last.statistics.counters.iter().map(row).collect();
    vec![
        Block::Paragraph(format!(
            "Over {seconds:.1} s, in {}",
            counted(samples.others.len(), "interval")
        )),
        Block::table(&["NAME", "VALUE", "GROWTH", "IN A SECOND"], rows),
    ]
}

fn settings(sources: &Sources) -> Block {
    let root = sources.proc.join("sys");
    let mut files: Vec<String> = Vec::new();
    for folder in SETTING_FOLDERS {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten();
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| format!("{folder}/{}", entry.file_name().to_string_lossy()))
            .collect();
        names.sort();
        files.extend(names);
    }
    files.extend(SETTINGS.map(str::to_string));
    let rows = files.iter().filter_map(|file| {
        let value = fs::read_to_string(root.join(file)).ok()?;
        let value = value.trim().replace('\t', " ");
        Some(vec![file.replace('/', "."), value])
    });
    Block::table(&["NAME", "VALUE"], rows.collect())
}

fn modules(sources: &Sources) -> Vec<Block> {
    let text = fs::read_to_string(sources.proc.join("modules")).unwrap_or_default();
    let loaded = relevant_modules(&text);
    let mut parameters = Vec::new();
    for name in MODULES {
        let folder = sources.sys.join("module").join(name).join("parameters");
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            let value = fs::read_to_string(entry.path()).unwrap_or_default();
            let parameter = entry.file_name().to_string_lossy().into_owned();
            parameters.push(vec![name.to_string(), parameter, value.trim().to_string()]);
        }
    }
    parameters.sort();
    vec![
        Block::table(&["MODULE", "SIZE", "USES", "USED BY", "STATE"], loaded),
        Block::Paragraph("Parameters:".into()),
        Block::table(&["MODULE", "PARAMETER", "VALUE"], parameters),
    ]
}

/// The modules that take part, from `/proc/modules`, without their addresses.
fn relevant_modules(text: &str) -> Vec<Vec<String>> {
    let rows: Vec<Vec<String>> = text
        .lines()
        .map(|line| line.split_whitespace().map(str::to_string).collect())
        .map(|row: Vec<String>| row.into_iter().take(5).collect())
        .filter(|row: &Vec<String>| row.len() == 5)
        .collect();
    let name = |row: &Vec<String>| row.first().cloned().unwrap_or_default();
    let users: Vec<String> = rows
        .iter()
        .filter(|row| name(row) == "ib_core")
        .filter_map(|row| row.get(3))
        .flat_map(|users| users.split(',').map(str::to_string))
        .collect();
    let takes_part = |row: &Vec<String>| {
        let name = name(row);
        MODULES.contains(&name.as_str()) || users.contains(&name)
    };
    rows.into_iter().filter(takes_part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_use_the_rdma_core_take_part() {
        let text = "\
rdma_sock 500 0 - Live 0xffffffffc0000000 (O)
mlx5_ib 300 0 - Live 0x0
ext4 900 1 - Live 0x0
ib_core 400 3 rdma_sock,mlx5_ib,rdma_cm, Live 0x0
odd
";
        let rows = relevant_modules(text);
        let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(names, ["rdma_sock", "mlx5_ib", "ib_core"]);
        assert!(rows.iter().all(|row| row.len() == 5), "no addresses");
    }

    #[test]
    fn settings_of_the_module_come_with_those_of_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        let sources = Sources::below(root.path());
        for (name, value) in [
            ("net/smc/wmem", "131072\n"),
            ("net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ] {
            let file = sources.proc.join("sys").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, value).unwrap();
        }
        let Block::Table { rows, .. } = settings(&sources) else {
            panic!("no table");
        };
        let expected = [
            ["net.smc.wmem", "131072"],
            ["net.ipv4.tcp_rmem", "4096 131072 6291456"],
        ];
        assert_eq!(rows, expected);
    }
}
