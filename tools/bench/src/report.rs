// SPDX-License-Identifier: GPL-2.0

//! On the host: what the guests left becomes a table, a file, and plots; and the gate.

use crate::{
    drive::Sample,
    gate::{
        Baseline,
        Worse, //
    },
    plot,
    table::Results, //
};
use anyhow::{
    bail,
    Context,
    Result, //
};
use clap::Args;
use std::{
    fs,
    path::{
        Path,
        PathBuf, //
    },
};

/// Command line of the report.
#[derive(Args)]
pub struct ReportArgs {
    /// Output file for the results.
    #[arg(long)]
    json: PathBuf,
    /// Output file for the table, which is also printed.
    #[arg(long)]
    table: PathBuf,
    /// Output folder for the plots.
    #[arg(long)]
    plots: PathBuf,
    /// Files written by `drive`; several files of one topology are several runs.
    #[arg(required = true)]
    samples: Vec<PathBuf>,
}

/// Command line of the gate.
#[derive(Args)]
pub struct CheckArgs {
    /// Results of the run.
    #[arg(long)]
    json: PathBuf,
    /// The committed baseline.
    #[arg(long)]
    baseline: PathBuf,
    /// Write the baseline, without a comparison.
    #[arg(long)]
    write: bool,
    /// Write only the counts, which do not depend on the load of the machine.
    #[arg(long, requires = "write")]
    counts: bool,
    /// Compare only the figures that this file names, one a line, in the form of `--worse`.
    #[arg(long)]
    only: Option<PathBuf>,
    /// Write what is worse: a line of topology, workload and name for each, with tabs between them.
    #[arg(long)]
    worse: Option<PathBuf>,
}

pub fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| file.display().to_string())
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| file.display().to_string())
}

/// Numbers the rounds of a further run on from those `before` of its topology, because only figures of
/// one round are compared with each other. The rounds that count packets all have the number 0.
fn number_on(before: &[Sample], run: &mut [Sample]) {
    for sample in run.iter_mut().filter(|sample| sample.round > 0) {
        let same = before
            .iter()
            .filter(|other| other.topology == sample.topology);
        sample.round += same.map(|other| other.round).max().unwrap_or(0);
    }
}

/// The lines of a file of figures that are worse.
fn lines(worse: &[Worse]) -> String {
    let line = |figure: &Worse| {
        let (topology, workload) = figure.measured_by()?;
        Some(format!("{topology}\t{workload}\t{}\n", figure.name))
    };
    worse.iter().filter_map(line).collect()
}

/// The names in such a file.
fn names(lines: &str) -> Vec<String> {
    let name = |line: &str| line.splitn(3, '\t').nth(2).map(str::to_string);
    lines.lines().filter_map(name).collect()
}

/// Makes the report. Fails if most of the measurements did not go the way that was meant.
pub fn report(args: &ReportArgs) -> Result<()> {
    let mut samples: Vec<Sample> = Vec::new();
    for file in &args.samples {
        let run = read(file)?;
        let run = run.lines().map(serde_json::from_str);
        let mut run: Vec<Sample> = run
            .collect::<Result<_, _>>()
            .with_context(|| file.display().to_string())?;
        number_on(&samples, &mut run);
        samples.append(&mut run);
    }
    let results = Results::of(&samples)?;
    write(
        &args.json,
        &(serde_json::to_string_pretty(&results)? + "\n"),
    )?;
    let table = results.table();
    write(&args.table, &table)?;
    let plots = plot::write(&results, &args.plots)?;
    print!("{table}");
    println!(
        "\nbench: {} measurements, {} doubtful, {} plots; {}",
        samples.len(),
        results.doubtful.len(),
        plots.len(),
        args.json.display()
    );
    if results.doubtful.len() * 2 > samples.len() {
        bail!("most of the payload did not go the way that was meant");
    }
    Ok(())
}

/// Compares with the baseline, or writes it.
pub fn check(args: &CheckArgs) -> Result<()> {
    let text = read(&args.json)?;
    let results: Results = serde_json::from_str(&text).context("results")?;
    if args.write {
        let mut baseline = Baseline::of(&results);
        if args.counts {
            baseline.ratios.clear();
        }
        let text = serde_json::to_string_pretty(&baseline)? + "\n";
        return write(&args.baseline, &text);
    }
    let baseline: Baseline = serde_json::from_str(&read(&args.baseline)?).context("baseline")?;
    let only = match &args.only {
        Some(file) => Some(names(&read(file)?)),
        None => None,
    };
    let wanted = |name: &str| match &only {
        Some(names) => names.iter().any(|known| known == name),
        None => true,
    };
    let (compared, worse) = baseline.compare(&results, wanted);
    for figure in &worse {
        println!("{}", figure.text);
    }
    if let Some(file) = &args.worse {
        write(file, &lines(&worse))?;
    }
    println!(
        "bench-check: {compared} ratios compared, {} worse",
        worse.len()
    );
    if compared == 0 {
        bail!("nothing was compared");
    }
    if only.is_some_and(|names| names.len() != compared) {
        bail!("not all of the figures were measured again");
    }
    if !worse.is_empty() {
        bail!("worse than the baseline");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_worse_figures_survive_the_file() {
        let name = "wire/1500/pingpong:1 cpu /c";
        let worse = Worse {
            name: name.into(),
            text: String::new(),
        };
        let lines = lines(&[worse]);
        assert_eq!(lines, format!("wire\tpingpong:1\t{name}\n"));
        assert_eq!(names(&lines), [name]);
    }

    #[test]
    fn rounds_of_runs_are_told_apart() {
        let run = |topology: &str| {
            let sample = |round| Sample {
                topology: topology.into(),
                round,
                ..Sample::default()
            };
            vec![sample(0), sample(1), sample(2)]
        };
        let mut samples = run("wire");
        for (topology, rounds) in [
            ("namespaces", [0, 1, 2]),
            ("wire", [0, 3, 4]),
            ("wire", [0, 5, 6]),
        ] {
            let mut next = run(topology);
            number_on(&samples, &mut next);
            assert!(next.iter().map(|sample| sample.round).eq(rounds));
            samples.append(&mut next);
        }
    }
}
