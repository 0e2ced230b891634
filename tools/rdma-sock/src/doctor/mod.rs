// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock doctor`: checks whether this machine can use RDMA, with a fix for each finding.
//!
//! ```text
//!   machine.rs    kernel, modules, acceleration
//!   device.rs     RDMA devices, GIDs, MTU, UDP port 4791
//!   firewall.rs   rules of nftables
//!   settings.rs   sysctls and limits
//!   finding.rs    the result of a check
//! ```

mod device;
mod finding;
mod firewall;
mod machine;
mod settings;

use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;

use crate::{
    cli::JsonArgs,
    explain,
    output::{
        self,
        counted, //
    },
    snapshot::{
        ReasonCount,
        Snapshot,
        Sources, //
    },
};
use finding::{
    Finding,
    Level, //
};

const SCHEMA_VERSION: u32 = 1;

/// The exit status if there are warnings only.
const WARNINGS: u8 = 3;

/// Everything that `doctor --json` prints. `Documentation/schema/doctor.json` is its schema.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Report {
    /// Version of this format.
    schema_version: u32,
    /// The worst level of the findings.
    level: Level,
    /// The results of the checks.
    findings: Vec<Finding>,
}

impl Report {
    fn collect(sources: &Sources) -> Result<Self> {
        let snapshot = Snapshot::take_without_programs(sources)?;
        let release = machine::release();
        let mut findings = vec![
            machine::kernel(&release),
            machine::module(sources, &snapshot.module, &release),
        ];
        findings.extend(device::check(sources, &snapshot));
        findings.push(firewall::check());
        findings.extend(settings::check(sources, &snapshot));
        findings.push(machine::acceleration());
        findings.extend(frequent_reason(&snapshot.statistics.fallback_reasons));
        Ok(Self::new(findings))
    }

    fn new(findings: Vec<Finding>) -> Self {
        let levels = findings.iter().map(|finding| finding.level);
        Self {
            schema_version: SCHEMA_VERSION,
            level: levels.max().unwrap_or(Level::Good),
            findings,
        }
    }

    fn text(&self) -> String {
        let mut text: String = self.findings.iter().map(Finding::text).collect();
        let count = |level| {
            let of = self
                .findings
                .iter()
                .filter(|finding| finding.level == level);
            of.count()
        };
        text.push_str(&format!(
            "{}, {}\n",
            counted(count(Level::Failure), "failure"),
            counted(count(Level::Warning), "warning")
        ));
        text
    }

    fn status(&self) -> ExitCode {
        match self.level {
            Level::Good | Level::Unknown => ExitCode::SUCCESS,
            Level::Warning => ExitCode::from(WARNINGS),
            Level::Failure => ExitCode::FAILURE,
        }
    }
}

/// The reason that most connections fell back for.
fn frequent_reason(reasons: &[ReasonCount]) -> Option<Finding> {
    let most = reasons.iter().max_by_key(|reason| reason.count)?;
    let text = format!(
        "{} fell back to TCP: {} ({})",
        counted(most.count, "connection"),
        most.name,
        most.code
    );
    let fix = explain::first_advice(&most.code);
    Some(Finding::warning("fallbacks", text, fix))
}

/// The findings as rows: level, subject, text and fix.
pub(crate) fn rows(sources: &Sources) -> Result<Vec<[String; 4]>> {
    let row = |finding: Finding| {
        let level = match finding.level {
            Level::Good => "good",
            Level::Unknown => "unknown",
            Level::Warning => "warning",
            Level::Failure => "failure",
        };
        let fix = finding.fix.unwrap_or_default();
        [level.into(), finding.subject.into(), finding.text, fix]
    };
    let findings = Report::collect(sources)?.findings;
    Ok(findings.into_iter().map(row).collect())
}

/// Prints the findings; the exit status says how bad they are.
pub(crate) fn run(args: &JsonArgs) -> Result<ExitCode> {
    let report = Report::collect(&Sources::of_this_machine())?;
    match args.json {
        true => output::print_json(&report)?,
        false => output::print(&report.text())?,
    }
    Ok(report.status())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        schema,
        snapshot::sample, //
    };

    #[test]
    fn worst_finding_decides() {
        let good = Finding::good("a", "fine");
        let unknown = Finding::unknown("b", "hidden");
        let warning = Finding::warning("c", "slow", "hurry");
        let failure = Finding::failure("d", "broken", "mend it");
        let level =
            |findings: &[&Finding]| Report::new(findings.iter().copied().cloned().collect()).level;
        assert_eq!(level(&[]), Level::Good);
        assert_eq!(level(&[&unknown, &good]), Level::Unknown);
        assert_eq!(level(&[&warning, &unknown]), Level::Warning);
        assert_eq!(level(&[&good, &failure, &warning]), Level::Failure);
        let report = Report::new(vec![good, warning, failure]);
        let expected = "\
ok       a             fine
warning  c             slow
                       fix: hurry
FAILURE  d             broken
                       fix: mend it
1 failure, 1 warning
";
        assert_eq!(output::plain(&report.text()), expected);
    }

    #[test]
    fn most_frequent_reason_is_reported_with_its_advice() {
        let reasons = sample::snapshot().statistics.fallback_reasons;
        let finding = frequent_reason(&reasons).unwrap();
        assert!(finding.text.starts_with("4 connections fell back"));
        assert_eq!(finding.fix.as_deref(), Some("Load the module on the peer."));
        assert_eq!(frequent_reason(&[]), None);
    }

    #[test]
    fn json_has_the_schema_of_the_documentation() {
        let root = tempfile::tempdir().unwrap();
        let report = Report::collect(&sample::write(root.path())).unwrap();
        let json = serde_json::to_value(&report).unwrap();
        schema::check::<Report>("doctor", &[json]);
    }
}
