// SPDX-License-Identifier: GPL-2.0

//! What the kernel counts while a workload runs, and whether it shows the path that was meant.

use crate::{
    genl::Smc,
    lab::End,
    outcome::Outcome, //
};
use anyhow::{
    Context,
    Result, //
};
use std::{
    collections::BTreeMap,
    fs,
    path::Path, //
};

/// Counters by name.
pub type Counters = BTreeMap<String, f64>;

/// Ticks of a second in `/proc/stat`.
const TICKS: f64 = 100.0;

/// What carries the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Transport {
    /// The kernel's own SMC.
    C,
    /// This project's SMC-R.
    Ours,
    /// This project's SDP.
    Sdp,
    /// TCP.
    Tcp,
    /// A queue pair and nothing above it.
    Raw,
    /// Local sockets: the system calls and copies, and nothing below them.
    Unix,
}

impl Transport {
    /// All, in the order of a round.
    pub const ALL: [Self; 6] = [
        Self::C,
        Self::Ours,
        Self::Sdp,
        Self::Tcp,
        Self::Raw,
        Self::Unix,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Ours => "ours",
            Self::Sdp => "sdp",
            Self::Tcp => "tcp",
            Self::Raw => "raw",
            Self::Unix => "unix",
        }
    }
}

fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or(0.0)
}

/// Two lines of `/proc/net/snmp`, names and values, of one protocol.
fn snmp(text: &str, protocol: &str, found: &mut Counters) {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return;
    };
    for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
        if let "OutSegs" | "InSegs" | "RetransSegs" | "ActiveOpens" = name {
            found.insert(format!("tcp.{name}"), number(value));
        }
    }
}

/// The packets of one device in `/proc/net/dev`.
fn packets(text: &str, device: &str, found: &mut Counters) {
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        let fields: Vec<&str> = rest.split_whitespace().collect();
        if name.trim() == device && fields.len() > 9 {
            found.insert("net.rx_packets".into(), number(fields[1]));
            found.insert("net.tx_packets".into(), number(fields[9]));
        }
    }
}

/// Lines of a name and a number.
fn pairs(text: &str, prefix: &str, found: &mut Counters) {
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(' ') {
            found.insert(format!("{prefix}{name}"), number(value));
        }
    }
}

/// The counters of SDP among those of the module, whose names begin with `sdp_`.
fn sdp_pairs(text: &str, found: &mut Counters) {
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("sdp_") {
            pairs(rest, "sdp.", found);
        }
    }
}

/// The kernel's times and events, of all processors together.
fn machine(text: &str, found: &mut Counters) {
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        match fields.next() {
            Some("cpu") => {
                let ticks: Vec<f64> = fields.map(number).collect();
                // user nice system idle iowait irq softirq steal
                let busy: f64 = [0, 1, 2, 5, 6].iter().filter_map(|n| ticks.get(*n)).sum();
                found.insert("cpu.busy".into(), busy / TICKS);
            }
            Some(name @ ("intr" | "ctxt" | "softirq")) => {
                let total = fields.next().map_or(0.0, number);
                found.insert(format!("cpu.{name}"), total);
            }
            _ => {}
        }
    }
}

/// Everything that is counted at an end.
pub fn of_end(end: &End, transport: Transport) -> Result<Counters> {
    let mut found = Counters::new();
    let folder = format!("/sys/class/infiniband/{}/ports/1/hw_counters", end.rdma);
    for entry in fs::read_dir(&folder).context(folder.clone())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "lifespan" {
            let value = number(&fs::read_to_string(entry.path())?);
            found.insert(format!("rdma.{name}"), value);
        }
    }
    end.within(|| {
        let net = Path::new("/proc/thread-self/net");
        snmp(&fs::read_to_string(net.join("snmp"))?, "Tcp:", &mut found);
        packets(
            &fs::read_to_string(net.join("dev"))?,
            end.netdev,
            &mut found,
        );
        match transport {
            Transport::Ours | Transport::Sdp => {
                let text = fs::read_to_string(net.join("rdma_sock/stat"))
                    .context("the module's counters")?;
                match transport {
                    Transport::Sdp => sdp_pairs(&text, &mut found),
                    _ => pairs(&text, "smc.", &mut found),
                }
            }
            Transport::C => {
                for (name, value) in Smc::open()?.stats()? {
                    found.insert(format!("smc.{name}"), value);
                }
            }
            Transport::Tcp | Transport::Raw | Transport::Unix => {}
        }
        Ok(())
    })?;
    Ok(found)
}

/// Processor time in seconds of a process, by its number or `self`.
pub fn process_time(process: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat_time(&text)
}

/// User's and system's time; the fields are counted behind the name, which is in parentheses.
fn stat_time(text: &str) -> f64 {
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: f64 = rest.split_whitespace().skip(11).take(2).map(number).sum();
    ticks / TICKS
}

/// The machine's counters.
pub fn of_machine() -> Result<Counters> {
    let mut found = Counters::new();
    machine(&fs::read_to_string("/proc/stat")?, &mut found);
    Ok(found)
}

/// What has come to `before` until `after`. What was not known before has come from nothing.
pub fn delta(before: &Counters, after: &Counters) -> Counters {
    after
        .iter()
        .map(|(name, value)| {
            let old = before.get(name).copied().unwrap_or(0.0);
            (name.clone(), value - old)
        })
        .collect()
}

/// Connections per fallback below which a measurement is in doubt.
const PER_FALLBACK: u64 = 100;

/// Fallbacks by their reason, as text.
fn reasons(counters: &Counters) -> String {
    let words: Vec<String> = counters
        .iter()
        .filter(|(name, count)| name.contains("fallback_") && **count > 0.0)
        .map(|(name, count)| format!(" {name} {count}"))
        .collect();
    words.concat()
}

/// Whether the client's counters show that the payload went by `transport`. Says what does not fit.
pub fn proves(transport: Transport, outcome: &Outcome, counters: &Counters) -> Result<(), String> {
    let of = |name: &str| counters.get(name).copied().unwrap_or(0.0);
    let wanted = |name: &str, least: f64| {
        if of(name) < least {
            return Err(format!("{name} is {}, not {least} or more", of(name)));
        }
        Ok(())
    };
    let bound = |name: &str, most: f64| {
        if of(name) > most {
            let reasons = reasons(counters);
            return Err(format!(
                "{name} is {}, not {most} or less{reasons}",
                of(name)
            ));
        }
        Ok(())
    };
    let connections = outcome.connections as f64;
    let sent = outcome.sent as f64;
    // What the connections that may be missing would have sent.
    let fallbacks = (outcome.connections / PER_FALLBACK) as f64;
    let by_rdma = sent * (1.0 - fallbacks / connections.max(1.0));
    match transport {
        Transport::Tcp => {
            bound("rdma.sent_pkts", 0.0)?;
            wanted("tcp.ActiveOpens", connections)?;
            wanted("tcp.OutSegs", connections)
        }
        Transport::Raw => wanted("rdma.sent_bytes", sent),
        Transport::Unix => {
            bound("rdma.sent_pkts", 0.0)?;
            bound("tcp.ActiveOpens", 0.0)
        }
        Transport::Ours => {
            bound("smc.fallback_clnt", fallbacks)?;
            bound("smc.aborted_clnt", 0.0)?;
            wanted("smc.smc_clnt_conns", connections - fallbacks)?;
            wanted("smc.tx_bytes", by_rdma)?;
            wanted("rdma.sent_bytes", by_rdma)
        }
        Transport::Sdp => {
            bound("sdp.fallback_clnt", fallbacks)?;
            wanted("sdp.clnt_conns", connections - fallbacks)?;
            wanted("sdp.tx_bytes", by_rdma)?;
            wanted("rdma.sent_bytes", by_rdma)?;
            // A connection of SDP has none of TCP.
            bound("tcp.ActiveOpens", fallbacks)
        }
        Transport::C => {
            bound("smc.fallbacks", fallbacks)?;
            bound("smc.clnt_errors", 0.0)?;
            let made = of("smc.clnt_v1") + of("smc.clnt_v2");
            if made < connections - fallbacks {
                return Err(format!("{made} connections of {connections} are SMC-R"));
            }
            wanted("smc.tx_bytes", by_rdma)?;
            wanted("rdma.sent_bytes", by_rdma)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        let mut found = Counters::new();
        snmp(
            "Ip: A B\nIp: 1 2\nTcp: RtoMin ActiveOpens OutSegs\nTcp: 200 3 44\n",
            "Tcp:",
            &mut found,
        );
        packets(
            "head\n lo: 1 2 0 0 0 0 0 0 3 4 0\n  ba: 10 20 0 0 0 0 0 0 30 40 0 0\n",
            "ba",
            &mut found,
        );
        pairs("tx_bytes 5\nactive_conns 0\n", "smc.", &mut found);
        sdp_pairs("tx_bytes 5\nsdp_tx_bytes 6\nother 7\n", &mut found);
        machine(
            "cpu  100 0 50 9 9 1 49 0 0 0\nctxt 77\nsoftirq 8 1 7\n",
            &mut found,
        );
        let expected = [
            ("cpu.busy", 2.0),
            ("cpu.ctxt", 77.0),
            ("cpu.softirq", 8.0),
            ("net.rx_packets", 20.0),
            ("net.tx_packets", 40.0),
            ("sdp.tx_bytes", 6.0),
            ("smc.active_conns", 0.0),
            ("smc.tx_bytes", 5.0),
            ("tcp.ActiveOpens", 3.0),
            ("tcp.OutSegs", 44.0),
        ];
        let expected: Counters = expected.map(|(k, v)| (k.to_string(), v)).into();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_path_has_to_be_shown() {
        let outcome = Outcome {
            connections: 1,
            sent: 1000,
            ..Outcome::default()
        };
        let mut counters: Counters = [
            ("rdma.sent_bytes", 1500.0),
            ("smc.tx_bytes", 1000.0),
            ("smc.smc_clnt_conns", 1.0),
            ("smc.clnt_v2", 1.0),
            ("tcp.ActiveOpens", 1.0),
            ("tcp.OutSegs", 12.0),
        ]
        .map(|(k, v)| (k.to_string(), v))
        .into();
        for transport in [
            Transport::C,
            Transport::Ours,
            Transport::Tcp,
            Transport::Raw,
        ] {
            assert_eq!(
                proves(transport, &outcome, &counters),
                Ok(()),
                "{transport:?}"
            );
        }
        assert!(proves(Transport::Sdp, &outcome, &counters).is_err());
        let mut by_sdp: Counters = [
            ("rdma.sent_bytes", 1500.0),
            ("sdp.tx_bytes", 1000.0),
            ("sdp.clnt_conns", 1.0),
        ]
        .map(|(k, v)| (k.to_string(), v))
        .into();
        assert_eq!(proves(Transport::Sdp, &outcome, &by_sdp), Ok(()));
        by_sdp.insert("tcp.ActiveOpens".into(), 1.0);
        assert!(proves(Transport::Sdp, &outcome, &by_sdp).is_err());
        assert!(proves(Transport::Unix, &outcome, &counters).is_err());
        assert_eq!(proves(Transport::Unix, &outcome, &Counters::new()), Ok(()));
        counters.insert("smc.fallback_clnt".into(), 1.0);
        assert!(proves(Transport::Ours, &outcome, &counters).is_err());
        counters.insert("smc.fallbacks".into(), 1.0);
        assert!(proves(Transport::C, &outcome, &counters).is_err());
        let many = Outcome {
            connections: 100,
            sent: 1000,
            ..Outcome::default()
        };
        counters.insert("smc.clnt_v2".into(), 99.0);
        assert_eq!(proves(Transport::C, &many, &counters), Ok(()));
        counters.insert("rdma.sent_pkts".into(), 3.0);
        assert!(proves(Transport::Tcp, &outcome, &counters).is_err());
        counters.insert("rdma.sent_bytes".into(), 3.0);
        assert!(proves(Transport::Raw, &outcome, &counters).is_err());
    }

    #[test]
    fn a_process_has_times() {
        let text = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 150 50 3 4 20 0 1 0\n";
        assert_eq!(stat_time(text), 2.0);
        assert_eq!(stat_time(""), 0.0);
    }

    #[test]
    fn differences() {
        let before: Counters = [("a".to_string(), 1.0)].into();
        let after: Counters = [("a".to_string(), 4.0), ("b".to_string(), 2.0)].into();
        let delta = delta(&before, &after);
        assert_eq!(delta["a"], 3.0);
        assert_eq!(delta["b"], 2.0);
    }
}
