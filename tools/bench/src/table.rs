// SPDX-License-Identifier: GPL-2.0

//! Measurements brought together: one row for each workload and what is measured of it, with a figure
//! for each implementation and the ratios between them.

use crate::{
    bounds::Place,
    counters::Transport,
    devices::{
        self,
        Beside, //
    },
    drive::Sample,
    stats::{
        paired_ratio,
        Summary, //
    },
    targets::{
        self,
        Target, //
    },
    workload::{
        Better,
        Workload, //
    },
};
use anyhow::Result;
use serde::{
    Deserialize,
    Serialize, //
};
use std::{
    collections::BTreeMap,
    fmt::Write, //
};

/// What of a workload is in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Its value.
    Value,
    /// The time that 99 of 100 round trips are not slower than.
    P99,
    /// Processor time of the machine, for an amount of work.
    Cpu,
    /// Time of a system call that does nothing.
    Call,
}

impl Metric {
    const ALL: [Self; 4] = [Self::Value, Self::P99, Self::Cpu, Self::Call];

    /// What a name of a row ends in.
    fn suffix(self) -> &'static str {
        match self {
            Self::Value => "",
            Self::P99 => " p99",
            Self::Cpu => " cpu",
            Self::Call => " call",
        }
    }

    fn unit(self, workload: Workload) -> &'static str {
        match (self, workload) {
            (Self::Value, _) => workload.unit(),
            (Self::P99 | Self::Call, _) => "us",
            (Self::Cpu, _) if workload.moves_data() => "s/GiB",
            (Self::Cpu, _) => "s/100k",
        }
    }

    fn better(self, workload: Workload) -> Better {
        match self {
            Self::Value => workload.better(),
            Self::P99 | Self::Cpu | Self::Call => Better::Lower,
        }
    }

    /// The figure in a sample, if it has one.
    fn of(self, workload: Workload, sample: &Sample) -> Option<f64> {
        let outcome = &sample.outcome;
        match self {
            Self::Value => Some(outcome.value),
            Self::P99 => outcome.p99,
            Self::Call => outcome.call,
            Self::Cpu => {
                let work = match workload {
                    _ if workload.moves_data() => {
                        (outcome.sent + outcome.received) as f64 / f64::from(1 << 30)
                    }
                    Workload::First | Workload::Idle(_) => return None,
                    _ => outcome.messages as f64 / 1e5,
                };
                let busy = sample.machine.get("cpu.busy")?;
                (work > 0.0).then(|| busy / work)
            }
        }
    }
}

/// A figure of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Topology, MTU, workload and metric, as `namespaces/65535/pingpong:64 p99`.
    pub name: String,
    /// Of the figures.
    pub unit: String,
    /// Whether less is better.
    pub lower_is_better: bool,
    /// By the transport's name.
    pub figures: BTreeMap<String, Summary>,
    /// Ours to that of the named transport, in the same round.
    pub ratios: BTreeMap<String, Summary>,
    /// What is wanted of the ratios.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub targets: Vec<Verdict>,
}

/// A target and whether it is met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which of ours.
    #[serde(default = "smc_r")]
    pub of: String,
    /// To which transport.
    pub to: String,
    /// The bound of the ratio.
    pub bound: f64,
    /// The median of the ratio.
    pub ratio: f64,
    /// Whether it is kept.
    pub met: bool,
    /// If not: the same ratio of those that have less to do and do not keep it either. That of several together
    /// is the ratio of the processor time.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub limits: BTreeMap<String, f64>,
}

/// What the targets of files without the name of ours are for.
fn smc_r() -> String {
    Transport::Ours.name().into()
}

/// Everything that a run gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// One for each figure.
    pub rows: Vec<Row>,
    /// Counts for one message, by workload, transport and name.
    pub counts: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
    /// The two kinds of devices beside each other.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub devices: Vec<Beside>,
    /// Devices of rdma_soft without one of their fast paths beside those with all.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub paths: Vec<Beside>,
    /// Measurements that are not in the rows, as they did not go the way that was meant.
    pub doubtful: Vec<String>,
}

/// The values of rounds, without their numbers.
pub fn ordered(values: &[(u32, f64)]) -> Vec<f64> {
    values.iter().map(|(_, value)| *value).collect()
}

impl Results {
    /// Of all samples of a run.
    pub fn of(samples: &[Sample]) -> Result<Self> {
        let mut results = Self::default();
        // In the order of the run.
        let mut workloads: Vec<(String, u32, Workload)> = Vec::new();
        for sample in samples {
            let workload = sample.workload.parse()?;
            let key = (sample.topology.clone(), sample.mtu, workload);
            if !workloads.contains(&key) {
                workloads.push(key);
            }
            if !sample.doubt.is_empty() {
                results.doubtful.push(format!(
                    "{}/{}/{} {} round {}: {}",
                    sample.topology,
                    sample.mtu,
                    sample.workload,
                    sample.transport,
                    sample.round,
                    sample.doubt
                ));
            }
        }
        for metric in Metric::ALL {
            for (topology, mtu, workload) in &workloads {
                let place = Place {
                    samples,
                    topology,
                    mtu: *mtu,
                    workload: *workload,
                };
                let of_workload = of_workload(samples, topology, *mtu, *workload);
                let name = format!("{topology}/{mtu}/{workload}{}", metric.suffix());
                let wanted = match metric {
                    Metric::Value => targets::of(topology, *workload),
                    Metric::P99 | Metric::Cpu | Metric::Call => Vec::new(),
                };
                results.add_row(name, metric, &place, &of_workload, wanted);
                if metric == Metric::Value {
                    results.add_counts(&format!("{topology}/{mtu}/{workload}"), &of_workload);
                }
            }
        }
        results.devices = devices::of_devices(&results.rows);
        results.paths = devices::of_paths(&results.rows);
        Ok(results)
    }

    fn add_row(
        &mut self,
        name: String,
        metric: Metric,
        place: &Place<'_>,
        samples: &[&Sample],
        wanted: Vec<Target>,
    ) {
        let workload = place.workload;
        let values = values_of(metric, workload, samples);
        let mut row = Row {
            name,
            unit: metric.unit(workload).into(),
            lower_is_better: metric.better(workload) == Better::Lower,
            figures: BTreeMap::new(),
            ratios: BTreeMap::new(),
            targets: Vec::new(),
        };
        let ours = values.get(Transport::Ours.name());
        for (transport, of_transport) in &values {
            if let Some(summary) = Summary::of(&ordered(of_transport)) {
                row.figures.insert((*transport).into(), summary);
            }
            let ratio = ours.and_then(|ours| paired_ratio(ours, of_transport));
            if let (Some(ratio), true) = (ratio, *transport != Transport::Ours.name()) {
                row.ratios.insert((*transport).into(), ratio);
            }
        }
        for target in wanted {
            let Target {
                of,
                to,
                bound,
                limits,
            } = target;
            let pair = values.get(of.name()).zip(values.get(to.name()));
            let Some(ratio) = pair.and_then(|(of, to)| paired_ratio(of, to)) else {
                continue;
            };
            let met = |ratio: f64| met(ratio, bound, row.lower_is_better);
            let mut verdict = Verdict {
                of: of.name().into(),
                to: to.name().into(),
                bound,
                ratio: ratio.median,
                met: met(ratio.median),
                limits: BTreeMap::new(),
            };
            for limit in limits.iter().filter(|limit| **limit != to && !verdict.met) {
                let theirs = values.get(limit.name()).zip(values.get(to.name()));
                let ratio = theirs.and_then(|(limit, to)| paired_ratio(limit, to));
                if let Some(ratio) = ratio.filter(|ratio| !met(ratio.median)) {
                    verdict.limits.insert(limit.name().into(), ratio.median);
                }
            }
            if !verdict.met {
                let bound = place.bound(to, limits);
                verdict
                    .limits
                    .extend(bound.filter(|(_, ratio)| !met(*ratio)));
            }
            row.targets.push(verdict);
        }
        if !row.figures.is_empty() {
            self.rows.push(row);
        }
    }

    /// Counts for a message: packets from the round that counts them, the rest from all.
    fn add_counts(&mut self, name: &str, samples: &[&Sample]) {
        let mut of_workload: BTreeMap<String, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
        for sample in samples.iter().filter(|sample| sample.outcome.messages > 0) {
            let messages = sample.outcome.messages as f64;
            let of_transport = of_workload.entry(sample.transport.clone()).or_default();
            let near = &sample.near;
            if let (Some(sent), Some(lent)) =
                (near.get("smc.tx_bytes"), near.get("smc.tx_zerocopy_bytes"))
            {
                let copies = of_transport.entry(COPIES.into()).or_default();
                copies.extend((*sent > 0.0).then(|| 1.0 - lent / sent));
            }
            for (counter, value) in near.iter().chain(&sample.machine) {
                if COUNTED.contains(&counter.as_str()) {
                    let values = of_transport.entry(counter.clone()).or_default();
                    values.push(value / messages);
                }
            }
        }
        for (transport, counters) in of_workload {
            for (counter, values) in counters {
                if let Some(summary) = Summary::of(&values) {
                    self.counts
                        .entry(name.to_string())
                        .or_default()
                        .entry(counter)
                        .or_default()
                        .insert(transport.clone(), summary.median);
                }
            }
        }
    }

    /// As text, in tables of reStructuredText.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let header = [
            "workload", "unit", "C", "ours", "SDP", "TCP", "raw", "unix", "/C", "/SDP", "/TCP",
            "/raw", "/unix", "target",
        ];
        let rows: Vec<Vec<String>> = self.rows.iter().map(Row::cells).collect();
        grid(&mut text, &header.map(String::from), &rows);
        text += "\nCounts for one message, at the client's end\n\n";
        let mut rows = Vec::new();
        for (workload, counters) in &self.counts {
            // Those whose packets were counted; the file has all.
            let shown = counters.keys().any(|counter| counter.starts_with("wire."));
            for (counter, by) in counters {
                let worth = match counter.as_str() {
                    COPIES => shown || by.values().any(|count| *count < 0.995),
                    // What did not happen is not worth a line.
                    _ => shown && by.values().any(|count| *count >= 0.0005),
                };
                if !worth {
                    continue;
                }
                let mut row = vec![workload.clone(), counter.clone()];
                for transport in Transport::ALL {
                    let count = by.get(transport.name());
                    row.push(count.map_or("-".into(), |count| format!("{count:.3}")));
                }
                rows.push(row);
            }
        }
        let header = [
            "workload", "count", "C", "ours", "SDP", "TCP", "raw", "unix",
        ];
        grid(&mut text, &header.map(String::from), &rows);
        beside_table(
            &mut text,
            "Devices of rdma_soft to those of rdma_rxe, in turns",
            ["rxe", "rdma_soft"],
            &self.devices,
        );
        beside_table(
            &mut text,
            "Packets of rdma_soft without one of the fast paths, in turns with all paths",
            ["all", "without"],
            &self.paths,
        );
        if !self.doubtful.is_empty() {
            text += "\nNot counted, as the payload did not go the way that was meant\n\n";
            for line in &self.doubtful {
                text += &format!("- {line}\n");
            }
        }
        text
    }
}

/// How often the sender copies an octet, of ours. A receiver copies each once.
const COPIES: &str = "smc.tx_copies";

/// Counters that make sense for a message.
const COUNTED: [&str; 28] = [
    "wire.tx_write_msg",
    "wire.tx_write_rest",
    "wire.tx_send_msg",
    "wire.tx_ack",
    "wire.tx_tcp",
    "wire.rx_write_msg",
    "wire.rx_send_msg",
    "wire.rx_ack",
    "wire.rx_tcp",
    "net.tx_packets",
    "net.rx_packets",
    "rdma.sent_pkts",
    "rdma.rcvd_pkts",
    "rdma.rdma_sends",
    "rdma.rdma_recvs",
    "rdma.rcvd_rnr_err",
    "rdma.send_rnr_err",
    "rdma.completer_retry_err",
    "smc.tx_writes",
    "smc.tx_cdc",
    "smc.rx_cdc",
    "smc.tx_posts",
    "smc.tx_cqes",
    "sdp.tx_messages",
    "sdp.rx_messages",
    "cpu.ctxt",
    "cpu.softirq",
    "cpu.intr",
];

/// The samples of a workload in a topology that went the way that was meant.
pub fn of_workload<'a>(
    samples: &'a [Sample],
    topology: &str,
    mtu: u32,
    workload: Workload,
) -> Vec<&'a Sample> {
    let name = workload.to_string();
    let of_workload = samples.iter().filter(|sample| {
        sample.topology == topology
            && sample.mtu == mtu
            && sample.workload == name
            && sample.doubt.is_empty()
    });
    of_workload.collect()
}

/// The figures of a metric in the measured rounds, by the transport's name.
pub fn values_of<'a>(
    metric: Metric,
    workload: Workload,
    samples: &[&'a Sample],
) -> BTreeMap<&'a str, Vec<(u32, f64)>> {
    let mut values: BTreeMap<&str, Vec<(u32, f64)>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.round > 0) {
        if let Some(value) = metric.of(workload, sample) {
            let of_transport = values.entry(&sample.transport).or_default();
            of_transport.push((sample.round, value));
        }
    }
    values
}

/// Whether a ratio keeps a bound.
pub fn met(ratio: f64, bound: f64, lower_is_better: bool) -> bool {
    match lower_is_better {
        true => ratio <= bound,
        false => ratio >= bound,
    }
}

fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.name.clone(), self.unit.clone()];
        for transport in Transport::ALL {
            let figure = self.figures.get(transport.name()).map(|summary| {
                let spread = 100.0 * summary.spread();
                format!("{} ±{spread:.0}%", figure(summary.median))
            });
            cells.push(figure.unwrap_or("-".into()));
        }
        for transport in Transport::ALL {
            if transport == Transport::Ours {
                continue;
            }
            let ratio = self.ratios.get(transport.name());
            cells.push(ratio.map_or("-".into(), |ratio| format!("{:.2}", ratio.median)));
        }
        let mut targets = String::new();
        let sign = if self.lower_is_better { "≤" } else { "≥" };
        for verdict in &self.targets {
            let word = if verdict.met { "met" } else { "missed" };
            if verdict.of != Transport::Ours.name() {
                targets += &format!("{} ", verdict.of);
            }
            // Writing to a string does not fail.
            let _ = write!(targets, "{sign}{} {} {word} ", verdict.bound, verdict.to);
            for (limit, ratio) in &verdict.limits {
                let _ = write!(targets, "({limit} {ratio:.2}) ");
            }
        }
        cells.push(match targets.trim() {
            "" => "-".into(),
            targets => targets.into(),
        });
        cells
    }
}

/// A table of figures beside others, unless there are none.
fn beside_table(text: &mut String, title: &str, names: [&str; 2], rows: &[Beside]) {
    if rows.is_empty() {
        return;
    }
    *text += &format!("\n{title}\n\n");
    let [other, own] = names;
    let header = [
        "workload",
        "unit",
        "transport",
        other,
        own,
        "ratio",
        "target",
    ];
    let rows: Vec<Vec<String>> = rows.iter().map(beside_cells).collect();
    grid(text, &header.map(String::from), &rows);
}

fn beside_cells(beside: &Beside) -> Vec<String> {
    let sign = if beside.lower_is_better { "≤" } else { "≥" };
    let target = beside.bound.zip(beside.is_met()).map(|(bound, met)| {
        let word = if met { "met" } else { "missed" };
        let limits = beside.limits.iter();
        let limits = limits.map(|(limit, ratio)| format!(" ({limit} {ratio:.2})"));
        format!("{sign}{bound} {word}{}", limits.collect::<String>())
    });
    vec![
        beside.name.clone(),
        beside.unit.clone(),
        beside.transport.clone(),
        figure(beside.other),
        figure(beside.own),
        format!("{:.2}", beside.ratio),
        target.unwrap_or("-".into()),
    ]
}

/// A simple table of reStructuredText.
pub fn grid(text: &mut String, header: &[String], rows: &[Vec<String>]) {
    let widths: Vec<usize> = (0..header.len())
        .map(|n| {
            let cells = rows.iter().filter_map(|row| row.get(n));
            let all = cells.chain(header.get(n)).map(|cell| cell.chars().count());
            all.max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.chars().count())))
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let rule: Vec<String> = widths.iter().map(|width| "=".repeat(*width)).collect();
    *text += &line(&rule);
    *text += &line(header);
    *text += &line(&rule);
    for row in rows {
        *text += &line(row);
    }
    *text += &line(&rule);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    fn sample(transport: &str, round: u32, value: f64) -> Sample {
        Sample {
            topology: "namespaces".into(),
            mtu: 1500,
            round,
            transport: transport.into(),
            workload: "pingpong:64".into(),
            outcome: Outcome {
                value,
                messages: 10,
                p99: Some(2.0 * value),
                ..Outcome::default()
            },
            doubt: String::new(),
            near: [("smc.tx_cdc".to_string(), 20.0)].into(),
            far: BTreeMap::new(),
            machine: [("cpu.busy".to_string(), 1.0)].into(),
        }
    }

    fn some() -> Vec<Sample> {
        let mut samples = vec![sample("c", 0, 999.0), sample("ours", 0, 999.0)];
        for round in 1..=3 {
            let drift = f64::from(round);
            samples.push(sample("c", round, 20.0 * drift));
            samples.push(sample("ours", round, 10.0 * drift));
        }
        samples
    }

    #[test]
    fn rows_have_medians_and_ratios() {
        let results = Results::of(&some()).unwrap();
        let names: Vec<&str> = results.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "namespaces/1500/pingpong:64",
                "namespaces/1500/pingpong:64 p99",
                "namespaces/1500/pingpong:64 cpu"
            ]
        );
        let row = &results.rows[0];
        assert_eq!(row.figures["c"].median, 40.0);
        assert_eq!(row.figures["ours"].rounds, 3);
        assert_eq!(row.ratios["c"].median, 0.5);
        assert!(row.lower_is_better);
        assert!(row
            .targets
            .iter()
            .any(|target| target.to == "c" && target.met));
        assert_eq!(results.rows[2].figures["c"].median, 10_000.0);
    }

    #[test]
    fn missed_target_names_the_others_that_miss_it() {
        let mut samples = Vec::new();
        for (transport, value) in [("c", 20.0), ("ours", 18.0), ("raw", 16.0), ("unix", 14.0)] {
            samples.push(sample(transport, 1, value));
        }
        let results = Results::of(&samples).unwrap();
        let verdict = &results.rows[0].targets[0];
        assert!(!verdict.met);
        assert_eq!(verdict.limits, [("raw".to_string(), 0.8)].into());
        assert!(results.table().contains("≤0.75 c missed (raw 0.80)"));
    }

    #[test]
    fn missed_rate_names_what_both_bounds_allow_together() {
        let bulk = |transport, value, busy| {
            let mut sample = sample(transport, 1, value);
            sample.topology = "rsoft".into();
            sample.workload = "bulk:65536".into();
            sample.outcome.received = 1 << 30;
            sample.machine = [("cpu.busy".to_string(), busy)].into();
            sample
        };
        let mut samples = vec![
            bulk("tcp", 100.0, 0.7),
            bulk("ours", 60.0, 1.2),
            bulk("raw", 90.0, 0.5),
            bulk("unix", 120.0, 0.5),
        ];
        let verdict = |samples: &[Sample]| Results::of(samples).unwrap().rows[0].targets[0].clone();
        assert_eq!(
            verdict(&samples).limits,
            [("raw+unix".to_string(), 0.7)].into()
        );
        // Neither where they keep the bound together, nor where one was not measured.
        samples[3] = bulk("unix", 120.0, 0.4);
        assert!(verdict(&samples).limits.is_empty());
        samples.pop();
        assert!(verdict(&samples).limits.is_empty());
    }

    #[test]
    fn target_of_sdp_is_to_smc_r() {
        let mut samples = Vec::new();
        for (transport, value) in [("ours", 20.0), ("sdp", 15.0), ("raw", 12.0)] {
            samples.push(sample(transport, 1, value));
        }
        let results = Results::of(&samples).unwrap();
        assert_eq!(results.rows[0].figures["sdp"].median, 15.0);
        assert!(results.table().contains("sdp ≤0.8 ours met"));
        samples[1].outcome.value = 18.0;
        samples[2].outcome.value = 17.0;
        let table = Results::of(&samples).unwrap().table();
        assert!(table.contains("sdp ≤0.8 ours missed (raw 0.85)"));
    }

    #[test]
    fn counts_are_for_a_message() {
        let results = Results::of(&some()).unwrap();
        let counts = &results.counts["namespaces/1500/pingpong:64"];
        assert_eq!(counts["smc.tx_cdc"]["ours"], 2.0);
        assert!(!counts.contains_key(COPIES));
    }

    #[test]
    fn lent_data_is_not_counted_as_copied() {
        let mut samples = some();
        for sample in &mut samples {
            sample.near = [
                ("smc.tx_bytes".to_string(), 80.0),
                ("smc.tx_zerocopy_bytes".to_string(), 60.0),
            ]
            .into();
        }
        let results = Results::of(&samples).unwrap();
        let counts = &results.counts["namespaces/1500/pingpong:64"];
        assert_eq!(counts[COPIES]["ours"], 0.25);
        assert!(results.table().contains(COPIES));
    }

    #[test]
    fn sample_of_another_transport_is_left_out() {
        let mut samples = some();
        samples[3].doubt = "by TCP".into();
        let results = Results::of(&samples).unwrap();
        assert_eq!(results.rows[0].figures["ours"].rounds, 2);
        assert_eq!(results.rows[0].ratios["c"].rounds, 2);
        assert_eq!(results.doubtful.len(), 1);
        assert!(results.table().contains("by TCP"));
    }

    #[test]
    fn a_table_has_straight_columns() {
        let mut text = String::new();
        let header = ["a".to_string(), "b".to_string()];
        grid(&mut text, &header, &[vec!["±1%".into(), "long".into()]]);
        assert_eq!(text, "===  ====\na    b\n===  ====\n±1%  long\n===  ====\n");
        assert_eq!(figure(1234.5), "1234");
        assert_eq!(figure(12.34), "12.3");
        assert_eq!(figure(0.123), "0.12");
    }

    #[test]
    fn devices_have_a_table_of_their_own() {
        let mut samples = Vec::new();
        for topology in ["rxe", "rsoft", "packets"] {
            samples.extend(some().into_iter().map(|sample| Sample {
                topology: topology.into(),
                ..sample
            }));
        }
        let results = Results::of(&samples).unwrap();
        assert_eq!(results.devices.len(), 12);
        assert!(results.table().contains("40.0       1.00   ≤1 met"));
    }

    #[test]
    fn results_are_read_back() {
        let results = Results::of(&some()).unwrap();
        let text = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
    }
}
