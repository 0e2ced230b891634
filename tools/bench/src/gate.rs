// SPDX-License-Identifier: GPL-2.0

//! The gate: ratios of a run beside those that are committed, and counts for a message. Times of
//! different runs are never compared, as they depend on the machine. Nor are ratios to TCP and to local
//! sockets: those have no device to wait for, differ from run to run by factors, and by as much then
//! differs what is nothing else than their ratio.

use crate::{
    counters::Transport,
    stats::Summary,
    table::{
        Results,
        Row, //
    },
};
use serde::{
    Deserialize,
    Serialize, //
};
use std::collections::BTreeMap;

/// By how much a ratio may be worse than the committed one if the baseline does not say.
const TOLERANCE: f64 = 0.25;

/// The same for the slowest of a hundred, which in half a second are a handful.
const TAIL_TOLERANCE: f64 = 4.0;

/// A ratio of fewer rounds is not compared: one that stood still for a moment would decide.
const ROUNDS: usize = 3;

/// Those whose ratio says something of ours.
const OTHERS: [Transport; 2] = [Transport::C, Transport::Raw];

/// Workloads whose counts do not depend on the load of the machine: nothing is coalesced in them.
const STEADY: [&str; 3] = ["/pingpong:64", "/pingpong:4096", "/crr:8"];

/// What is counted of ours.
const COUNTS: [&str; 4] = ["smc.tx_writes", "smc.tx_cdc", "smc.tx_posts", "smc.tx_cqes"];

/// A committed ratio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Ours to the other's.
    pub ratio: f64,
    /// Whether less is better.
    pub lower_is_better: bool,
    /// Half of the distance between its rounds, as a part of it.
    pub spread: f64,
}

/// A figure that is worse than the committed one.
#[derive(Clone, Debug, PartialEq)]
pub struct Worse {
    /// Its name in the baseline.
    pub name: String,
    /// What a reader is told.
    pub text: String,
}

impl Worse {
    /// The topology and the workload that measured it, as `wire` and `pingpong:1`. The name of a figure is
    /// the name of a row, `TOPOLOGY/MTU/WORKLOAD`, and one or two further words.
    pub fn measured_by(&self) -> Option<(&str, &str)> {
        let row = self.name.split(' ').next()?;
        let mut parts = row.splitn(3, '/');
        let (topology, _mtu) = (parts.next()?, parts.next()?);
        Some((topology, parts.next()?))
    }
}

/// What is committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// By how much of itself a ratio may be worse, beside its spread.
    pub tolerance: f64,
    /// The same for rows that end in `p99`.
    pub tail_tolerance: f64,
    /// By the row's name and the other transport's, as `namespaces/65535/pingpong:64 /c`.
    pub ratios: BTreeMap<String, Entry>,
    /// Counts of ours for a message, as `namespaces/65535/pingpong:64 smc.tx_cqes`.
    pub counts: BTreeMap<String, f64>,
}

/// The ratios of a row that are compared.
fn compared(row: &Row) -> impl Iterator<Item = (String, &Summary)> {
    OTHERS.into_iter().filter_map(|to| {
        let ratio = row.ratios.get(to.name())?;
        Some((format!("{} /{}", row.name, to.name()), ratio))
    })
}

/// The counts of a run that can be compared with those of another.
fn steady_counts(results: &Results) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::new();
    for (workload, counters) in &results.counts {
        if !STEADY.iter().any(|name| workload.ends_with(name)) {
            continue;
        }
        for counter in COUNTS {
            let by_transport = counters.get(counter);
            if let Some(count) = by_transport.and_then(|by| by.get(Transport::Ours.name())) {
                counts.insert(format!("{workload} {counter}"), *count);
            }
        }
    }
    counts
}

impl Baseline {
    /// The ratios of a run.
    pub fn of(results: &Results) -> Self {
        let mut ratios = BTreeMap::new();
        for row in &results.rows {
            for (name, ratio) in compared(row) {
                ratios.insert(
                    name,
                    Entry {
                        ratio: ratio.median,
                        lower_is_better: row.lower_is_better,
                        spread: ratio.spread(),
                    },
                );
            }
        }
        Self {
            tolerance: TOLERANCE,
            tail_tolerance: TAIL_TOLERANCE,
            ratios,
            counts: steady_counts(results),
        }
    }

    /// This without all figures but those of the names.
    pub fn only(mut self, names: &[String]) -> Self {
        self.ratios.retain(|name, _| names.contains(name));
        self.counts.retain(|name, _| names.contains(name));
        self
    }

    /// What of `results` is worse than this; and how many figures were compared.
    pub fn compare(&self, results: &Results) -> (usize, Vec<Worse>) {
        let mut count = 0;
        let mut worse = Vec::new();
        for row in &results.rows {
            for (name, now) in compared(row) {
                let Some(entry) = self.ratios.get(&name) else {
                    continue;
                };
                if now.rounds < ROUNDS {
                    continue;
                }
                count += 1;
                let bound = self.bound(entry, now, row.name.ends_with(" p99"));
                let bad = match entry.lower_is_better {
                    true => now.median > bound,
                    false => now.median < bound,
                };
                if bad {
                    let text = format!(
                        "{name}: {:.2} is worse than {:.2}; the bound is {bound:.2}",
                        now.median, entry.ratio
                    );
                    worse.push(Worse { name, text });
                }
            }
        }
        for (name, now) in steady_counts(results) {
            let Some(before) = self.counts.get(&name) else {
                continue;
            };
            count += 1;
            let bound = before * (1.0 + self.tolerance);
            if now > bound {
                let text = format!(
                    "{name}: {now:.3} for a message is more than {before:.3}; the bound is {bound:.3}"
                );
                worse.push(Worse { name, text });
            }
        }
        (count, worse)
    }

    /// The worst ratio that passes. What scatters more may be off by more, but not by any amount. A tail
    /// that is no longer than the other's passes: if it was far shorter once, the other stood still.
    fn bound(&self, entry: &Entry, now: &Summary, tail: bool) -> f64 {
        let spread = entry.spread.max(now.spread()).clamp(0.0, 0.5);
        let slack = 1.0 + spread;
        match (tail, entry.lower_is_better) {
            (true, _) => {
                let bound = entry.ratio * (slack + self.tail_tolerance);
                bound.max(1.0 + self.tolerance)
            }
            (false, true) => entry.ratio * (slack + self.tolerance),
            (false, false) => entry.ratio / (slack + self.tolerance),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(ratio: f64, lower_is_better: bool) -> Results {
        let summary = Summary::of(&[ratio; ROUNDS]).unwrap();
        Results {
            rows: vec![Row {
                name: "namespaces/1500/x".into(),
                unit: "us".into(),
                lower_is_better,
                figures: BTreeMap::new(),
                ratios: [("c".to_string(), summary)].into(),
                targets: Vec::new(),
            }],
            ..Results::default()
        }
    }

    #[test]
    fn the_same_passes() {
        let results = results(0.8, true);
        let baseline = Baseline::of(&results);
        assert_eq!(baseline.compare(&results), (1, vec![]));
    }

    #[test]
    fn worse_is_found_in_both_directions() {
        let times = Baseline::of(&results(0.8, true));
        assert_eq!(times.compare(&results(0.9, true)).1.len(), 0);
        assert_eq!(times.compare(&results(1.1, true)).1.len(), 1);
        assert_eq!(times.compare(&results(0.1, true)).1.len(), 0);
        let rates = Baseline::of(&results(2.0, false));
        assert_eq!(rates.compare(&results(1.7, false)).1.len(), 0);
        assert_eq!(rates.compare(&results(1.5, false)).1.len(), 1);
        assert_eq!(rates.compare(&results(9.0, false)).1.len(), 0);
    }

    #[test]
    fn a_tail_has_to_be_much_worse() {
        let tail = |ratio| {
            let mut results = results(ratio, true);
            results.rows[0].name += " p99";
            results
        };
        let baseline = Baseline::of(&tail(0.5));
        assert_eq!(baseline.compare(&tail(2.0)), (1, vec![]));
        assert_eq!(baseline.compare(&tail(3.0)).1.len(), 1);
        let once = Baseline::of(&tail(0.1));
        assert_eq!(once.compare(&tail(1.1)), (1, vec![]));
        assert_eq!(once.compare(&tail(1.5)).1.len(), 1);
    }

    #[test]
    fn others_than_c_and_the_device_are_not_compared() {
        let mut results = results(1.0, true);
        let summary = Summary::of(&[1.0]).unwrap();
        results.rows[0].ratios = [("tcp".to_string(), summary)].into();
        assert!(Baseline::of(&results).ratios.is_empty());
    }

    #[test]
    fn more_for_a_message_is_found() {
        let counted = |count: f64| {
            let by: BTreeMap<String, f64> = [("ours".to_string(), count)].into();
            let counters = [("smc.tx_cqes".to_string(), by)].into();
            Results {
                counts: [("namespaces/65535/pingpong:64".to_string(), counters)].into(),
                ..Results::default()
            }
        };
        let baseline = Baseline::of(&counted(2.0));
        assert_eq!(baseline.compare(&counted(2.1)), (1, vec![]));
        assert_eq!(baseline.compare(&counted(0.5)), (1, vec![]));
        assert_eq!(baseline.compare(&counted(3.0)).1.len(), 1);
    }

    #[test]
    fn worse_figure_names_the_workload_that_measured_it() {
        let named = |name: &str| Worse {
            name: name.into(),
            text: String::new(),
        };
        for (name, by) in [
            ("wire/1500/pingpong:1 cpu /c", ("wire", "pingpong:1")),
            ("namespaces/65535/first /raw", ("namespaces", "first")),
            ("rsoft/1500/pipe:64:16 p99 /c", ("rsoft", "pipe:64:16")),
            ("wire/1500/crr:8 smc.tx_cqes", ("wire", "crr:8")),
        ] {
            assert_eq!(named(name).measured_by(), Some(by));
        }
        assert_eq!(named("wire").measured_by(), None);
    }

    #[test]
    fn baseline_of_some_names_compares_only_those() {
        let baseline = Baseline::of(&results(0.8, true));
        let bad = results(9.0, true);
        let name = "namespaces/1500/x /c".to_string();
        assert_eq!(baseline.clone().only(&[name]).compare(&bad).1.len(), 1);
        assert_eq!(baseline.only(&["y /c".into()]).compare(&bad), (0, vec![]));
    }

    #[test]
    fn two_rounds_are_not_compared() {
        let baseline = Baseline::of(&results(1.0, true));
        let mut few = results(9.0, true);
        few.rows[0].ratios = [("c".to_string(), Summary::of(&[9.0; 2]).unwrap())].into();
        assert_eq!(baseline.compare(&few), (0, vec![]));
    }

    #[test]
    fn the_unknown_is_not_compared() {
        let mut baseline = Baseline::of(&results(1.0, true));
        baseline.ratios.clear();
        assert_eq!(baseline.compare(&results(9.0, true)), (0, vec![]));
    }
}
