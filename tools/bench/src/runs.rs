// SPDX-License-Identifier: GPL-2.0

//! The targets of several runs beside each other.

use crate::{
    counters::Transport,
    devices::Beside,
    report::read,
    table::{
        grid,
        Results,
        Row,
        Verdict, //
    },
};
use anyhow::{
    Context,
    Result, //
};
use clap::Args;
use std::{
    collections::BTreeMap,
    path::PathBuf, //
};

/// Command line of the targets.
#[derive(Args)]
pub struct TargetsArgs {
    /// Only those of this topology; may be given several times.
    #[arg(long)]
    topology: Vec<String>,
    /// Files written by `report`, one for each run.
    #[arg(required = true)]
    results: Vec<PathBuf>,
}

/// A ratio that something is wanted of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    /// Topology, MTU and workload.
    workload: String,
    /// Which of ours.
    of: String,
    /// To what.
    to: String,
}

/// What a run says of one.
struct Finding {
    /// The bound, with its direction.
    wanted: String,
    ratio: f64,
    met: bool,
    /// What does not keep the bound either.
    limits: BTreeMap<String, f64>,
}

fn of_verdict(row: &Row, verdict: &Verdict) -> (Name, Finding) {
    let sign = if row.lower_is_better { "≤" } else { "≥" };
    let name = Name {
        workload: row.name.clone(),
        of: verdict.of.clone(),
        to: verdict.to.clone(),
    };
    let finding = Finding {
        wanted: format!("{sign}{}", verdict.bound),
        ratio: verdict.ratio,
        met: verdict.met,
        limits: verdict.limits.clone(),
    };
    (name, finding)
}

/// A figure of a device of rdma_soft beside that of rdma_rxe. Sockets only have to be no slower there, which is
/// in the table of the run.
fn of_device(beside: &Beside) -> Option<(Name, Finding)> {
    let bound = beside.bound.filter(|bound| *bound > 1.0)?;
    let name = Name {
        workload: beside.name.clone(),
        of: beside.transport.clone(),
        to: "rxe".into(),
    };
    let finding = Finding {
        wanted: format!("≥{bound}"),
        ratio: beside.ratio,
        met: beside.is_met()?,
        limits: beside.limits.clone(),
    };
    Some((name, finding))
}

fn of_run(results: &Results) -> Vec<(Name, Finding)> {
    let rows = results.rows.iter();
    let verdicts = rows.flat_map(|row| row.targets.iter().map(|verdict| of_verdict(row, verdict)));
    let devices = results.devices.iter().filter_map(of_device);
    devices.chain(verdicts).collect()
}

/// A table: a line for each target, with the ratios of the runs.
fn table(runs: &[Results], topologies: &[String]) -> String {
    let mut names: Vec<Name> = Vec::new();
    let mut found: BTreeMap<(Name, usize), Finding> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        for (name, finding) in of_run(run) {
            let topology = name.workload.split('/').next().unwrap_or_default();
            if !topologies.is_empty() && !topologies.iter().any(|one| one == topology) {
                continue;
            }
            if !names.contains(&name) {
                names.push(name.clone());
            }
            found.insert((name, number), finding);
        }
    }
    let mut header: Vec<String> = ["workload", "ratio", "target"].map(String::from).into();
    header.extend((1..=runs.len()).map(|number| format!("run {number}")));
    header.extend(["met", "limits"].map(String::from));
    let rows = names.iter().map(|name| {
        let of_runs: Vec<Option<&Finding>> = (0..runs.len())
            .map(|number| found.get(&(name.clone(), number)))
            .collect();
        cells(name, &of_runs)
    });
    let mut text = String::new();
    grid(&mut text, &header, &rows.collect::<Vec<_>>());
    text
}

fn cells(name: &Name, of_runs: &[Option<&Finding>]) -> Vec<String> {
    let findings: Vec<&Finding> = of_runs.iter().copied().flatten().collect();
    let of = match name.of.as_str() {
        of if of == Transport::Ours.name() => "SMC-R",
        of => of,
    };
    let mut cells = vec![
        name.workload.clone(),
        format!("{of} / {}", name.to),
        findings
            .first()
            .map_or("-".into(), |finding| finding.wanted.clone()),
    ];
    cells.extend(of_runs.iter().map(|finding| match finding {
        Some(finding) => format!("{:.2}", finding.ratio),
        None => "-".into(),
    }));
    let met = findings.iter().filter(|finding| finding.met).count();
    cells.push(format!("{met} of {}", findings.len()));
    let mut limits: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (limit, ratio) in findings.iter().flat_map(|finding| &finding.limits) {
        limits.entry(limit).or_default().push(*ratio);
    }
    let limits = limits.iter().map(|(limit, ratios)| {
        let ratios: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        format!("{limit} {}", ratios.join(" "))
    });
    let limits: Vec<String> = limits.collect();
    cells.push(match limits.join(", ") {
        none if none.is_empty() => "-".into(),
        limits => limits,
    });
    cells
}

/// Prints the targets of all runs.
pub fn targets(args: &TargetsArgs) -> Result<()> {
    let runs = args.results.iter().map(|file| {
        let text = read(file)?;
        serde_json::from_str(&text).with_context(|| file.display().to_string())
    });
    let runs: Vec<Results> = runs.collect::<Result<_>>()?;
    print!("{}", table(&runs, &args.topology));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(topology: &str, ratio: f64, limits: &[(&str, f64)]) -> Results {
        let verdict = Verdict {
            of: "ours".into(),
            to: "tcp".into(),
            bound: 0.75,
            ratio,
            met: ratio >= 0.75,
            limits: limits
                .iter()
                .map(|(name, ratio)| (name.to_string(), *ratio))
                .collect(),
        };
        let row = Row {
            name: format!("{topology}/65535/bulk:65536"),
            unit: "MiB/s".into(),
            lower_is_better: false,
            figures: BTreeMap::new(),
            ratios: BTreeMap::new(),
            targets: vec![verdict],
        };
        let beside = |transport: &str, bound| Beside {
            name: format!("{topology}/65535/bulk:65536"),
            transport: transport.into(),
            unit: "MiB/s".into(),
            other: 100.0,
            own: 450.0,
            ratio: 4.5,
            lower_is_better: false,
            bound: Some(bound),
            limits: match transport {
                "raw" => [("tcp-packets".into(), 4.25)].into(),
                _ => BTreeMap::new(),
            },
        };
        Results {
            rows: vec![row],
            devices: vec![beside("raw", 5.0), beside("ours", 1.0)],
            ..Results::default()
        }
    }

    #[test]
    fn runs_stand_beside_each_other() {
        let runs = [
            run("rsoft", 0.7, &[("unix", 0.72), ("raw+unix", 0.6)]),
            run("rsoft", 0.8, &[]),
            run("rsoft", 0.6, &[("raw+unix", 0.61)]),
        ];
        let text = table(&runs, &[]);
        assert_eq!(text.lines().count(), 6, "{text}");
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(
            lines[3],
            [
                "rsoft/65535/bulk:65536",
                "raw / rxe",
                "≥5",
                "4.50",
                "4.50",
                "4.50",
                "0 of 3",
                "tcp-packets 4.25 4.25 4.25"
            ]
        );
        assert_eq!(
            lines[4],
            [
                "rsoft/65535/bulk:65536",
                "SMC-R / tcp",
                "≥0.75",
                "0.70",
                "0.80",
                "0.60",
                "1 of 3",
                "raw+unix 0.60 0.61, unix 0.72"
            ]
        );
    }

    #[test]
    fn run_without_a_row_leaves_a_gap() {
        let runs = [run("wire", 0.8, &[]), run("rsoft", 0.9, &[])];
        let text = table(&runs, &["rsoft".into()]);
        let line = text.lines().nth(4).unwrap();
        assert!(line.contains("-      0.90   1 of 1"), "{text}");
        assert!(!text.contains("wire"));
    }
}
