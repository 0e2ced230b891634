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

/// A ratio that scattered more than this in the baseline does not decide alone.
const UNSTEADY: f64 = 0.5;

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

    /// What of `results` is worse than this, of the figures that are `wanted`; and how many figures were
    /// compared.
    pub fn compare(&self, results: &Results, wanted: impl Fn(&str) -> bool) -> (usize, Vec<Worse>) {
        let mut count = 0;
        let mut worse = Vec::new();
        for row in &results.rows {
            for (name, now) in compared(row).filter(|(name, _)| wanted(name)) {
                let Some(entry) = self.ratios.get(&name) else {
                    continue;
                };
                if now.rounds < ROUNDS {
                    continue;
                }
                count += 1;
                if self.passes(row, entry, now) || self.is_excused(row, entry) {
                    continue;
                }
                let text = format!(
                    "{name}: {:.2} is worse than {:.2}; the bound is {:.2}",
                    now.median,
                    entry.ratio,
                    self.bound(row, entry, now)
                );
                worse.push(Worse { name, text });
            }
        }
        let counts = steady_counts(results).into_iter();
        for (name, now) in counts.filter(|(name, _)| wanted(name)) {
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

    /// Whether a ratio of a row is within its bound.
    fn passes(&self, row: &Row, entry: &Entry, now: &Summary) -> bool {
        let bound = self.bound(row, entry, now);
        match entry.lower_is_better {
            true => now.median <= bound,
            false => now.median >= bound,
        }
    }

    /// Whether a ratio proves nothing: the baseline's rounds of C differ by factors, and ours is to raw
    /// verbs what it was. Raw verbs share the device and the machine, and have no state of their own.
    fn is_excused(&self, row: &Row, entry: &Entry) -> bool {
        let raw = Transport::Raw.name();
        let Some(now) = row.ratios.get(raw) else {
            return false;
        };
        let Some(to_raw) = self.ratios.get(&format!("{} /{raw}", row.name)) else {
            return false;
        };
        entry.spread > UNSTEADY && now.rounds >= ROUNDS && self.passes(row, to_raw, now)
    }

    /// The worst ratio that passes. What scatters more may be off by more, but not by any amount. A tail
    /// that is no longer than the other's passes: if it was far shorter once, the other stood still.
    fn bound(&self, row: &Row, entry: &Entry, now: &Summary) -> f64 {
        let spread = entry.spread.max(now.spread()).clamp(0.0, UNSTEADY);
        let slack = 1.0 + spread;
        match (row.name.ends_with(" p99"), entry.lower_is_better) {
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

    fn all(_: &str) -> bool {
        true
    }

    #[test]
    fn the_same_passes() {
        let results = results(0.8, true);
        let baseline = Baseline::of(&results);
        assert_eq!(baseline.compare(&results, all), (1, vec![]));
    }

    #[test]
    fn worse_is_found_in_both_directions() {
        let times = Baseline::of(&results(0.8, true));
        assert_eq!(times.compare(&results(0.9, true), all).1.len(), 0);
        assert_eq!(times.compare(&results(1.1, true), all).1.len(), 1);
        assert_eq!(times.compare(&results(0.1, true), all).1.len(), 0);
        let rates = Baseline::of(&results(2.0, false));
        assert_eq!(rates.compare(&results(1.7, false), all).1.len(), 0);
        assert_eq!(rates.compare(&results(1.5, false), all).1.len(), 1);
        assert_eq!(rates.compare(&results(9.0, false), all).1.len(), 0);
    }

    #[test]
    fn a_tail_has_to_be_much_worse() {
        let tail = |ratio| {
            let mut results = results(ratio, true);
            results.rows[0].name += " p99";
            results
        };
        let baseline = Baseline::of(&tail(0.5));
        assert_eq!(baseline.compare(&tail(2.0), all), (1, vec![]));
        assert_eq!(baseline.compare(&tail(3.0), all).1.len(), 1);
        let once = Baseline::of(&tail(0.1));
        assert_eq!(once.compare(&tail(1.1), all), (1, vec![]));
        assert_eq!(once.compare(&tail(1.5), all).1.len(), 1);
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
        assert_eq!(baseline.compare(&counted(2.1), all), (1, vec![]));
        assert_eq!(baseline.compare(&counted(0.5), all), (1, vec![]));
        assert_eq!(baseline.compare(&counted(3.0), all).1.len(), 1);
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
    fn only_wanted_figures_are_compared() {
        let baseline = Baseline::of(&results(0.8, true));
        let bad = results(9.0, true);
        let wanted = |known: &'static str| move |name: &str| name == known;
        let (count, worse) = baseline.compare(&bad, wanted("namespaces/1500/x /c"));
        assert_eq!((count, worse.len()), (1, 1));
        assert_eq!(baseline.compare(&bad, wanted("y /c")), (0, vec![]));
    }

    /// Results with these ratios to C in the rounds, and this one to raw verbs in all.
    fn beside_raw(to_c: [f64; ROUNDS], to_raw: f64) -> Results {
        let mut results = results(1.0, false);
        results.rows[0].ratios = [
            ("c".to_string(), Summary::of(&to_c).unwrap()),
            ("raw".to_string(), Summary::of(&[to_raw; ROUNDS]).unwrap()),
        ]
        .into();
        results
    }

    #[test]
    fn raw_verbs_decide_where_c_scattered() {
        let baseline = Baseline::of(&beside_raw([2.0, 4.0, 20.0], 2.0));
        let slow_again = beside_raw([1.0; ROUNDS], 2.0);
        assert_eq!(baseline.compare(&slow_again, all), (2, vec![]));
        // Ours is slower.
        let worse = beside_raw([1.0; ROUNDS], 1.0);
        assert_eq!(baseline.compare(&worse, all).1.len(), 2);
        // Nothing else decides.
        let mut alone = beside_raw([1.0; ROUNDS], 2.0);
        alone.rows[0].ratios.remove("raw");
        assert_eq!(baseline.compare(&alone, all).1.len(), 1);
    }

    #[test]
    fn raw_verbs_do_not_excuse_a_steady_ratio() {
        let baseline = Baseline::of(&beside_raw([4.0; ROUNDS], 2.0));
        let worse = beside_raw([1.0; ROUNDS], 2.0);
        assert_eq!(baseline.compare(&worse, all).1.len(), 1);
    }

    #[test]
    fn two_rounds_are_not_compared() {
        let baseline = Baseline::of(&results(1.0, true));
        let mut few = results(9.0, true);
        few.rows[0].ratios = [("c".to_string(), Summary::of(&[9.0; 2]).unwrap())].into();
        assert_eq!(baseline.compare(&few, all), (0, vec![]));
    }

    #[test]
    fn the_unknown_is_not_compared() {
        let mut baseline = Baseline::of(&results(1.0, true));
        baseline.ratios.clear();
        assert_eq!(baseline.compare(&results(9.0, true), all), (0, vec![]));
    }
}
