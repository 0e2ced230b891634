// SPDX-License-Identifier: GPL-2.0

//! The devices beside each other: what was measured on those of rdma_soft, to the same on those of
//! rdma_rxe.

use crate::{
    counters::Transport,
    lab::Topology,
    table::{
        met,
        Row, //
    },
    workload::Workload,
};
use serde::{
    Deserialize,
    Serialize, //
};

/// A figure on both devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// MTU, workload and metric, as `65535/pingpong:64 p99`.
    pub name: String,
    /// By the name of the transport.
    pub transport: String,
    /// Of both figures.
    pub unit: String,
    /// Median on devices of rdma_rxe.
    pub rxe: f64,
    /// Median on devices of rdma_soft.
    pub rsoft: f64,
    /// The second to the first.
    pub ratio: f64,
    /// Whether less is better.
    pub lower_is_better: bool,
    /// What is wanted of the ratio; none of processor times and tails.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound: Option<f64>,
}

impl Beside {
    /// Whether the ratio keeps its bound, if it has one.
    pub fn is_met(&self) -> Option<bool> {
        Some(met(self.ratio, self.bound?, self.lower_is_better))
    }
}

/// What is wanted of a workload: that nothing is slower, and that data of raw verbs are faster.
fn bound(workload: Workload, transport: &str) -> f64 {
    match workload {
        Workload::Bulk(size) if size >= 64 << 10 && transport == Transport::Raw.name() => 1.5,
        _ => 1.0,
    }
}

/// The figures that rows of both devices have, in the order of the rows.
pub fn of(rows: &[Row]) -> Vec<Beside> {
    let prefix = |topology: Topology| format!("{}/", topology.name());
    let (rxe, rsoft) = (prefix(Topology::Namespaces), prefix(Topology::Rsoft));
    let mut found = Vec::new();
    for row in rows {
        let Some(name) = row.name.strip_prefix(&rsoft) else {
            continue;
        };
        let Some(other) = rows
            .iter()
            .find(|other| other.name.strip_prefix(&rxe) == Some(name))
        else {
            continue;
        };
        let workload = name.split_once('/').and_then(|(_, text)| text.parse().ok());
        for (transport, on_rsoft) in &row.figures {
            let Some(on_rxe) = other.figures.get(transport) else {
                continue;
            };
            if on_rxe.median > 0.0 {
                found.push(Beside {
                    name: name.to_string(),
                    transport: transport.clone(),
                    unit: row.unit.clone(),
                    rxe: on_rxe.median,
                    rsoft: on_rsoft.median,
                    ratio: on_rsoft.median / on_rxe.median,
                    lower_is_better: row.lower_is_better,
                    bound: workload.map(|workload| bound(workload, transport)),
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;
    use std::collections::BTreeMap;

    fn row(name: &str, lower_is_better: bool, figures: &[(&str, f64)]) -> Row {
        let figures = figures.iter().map(|(transport, value)| {
            let summary = Summary::of(&[*value; 3]).unwrap();
            (transport.to_string(), summary)
        });
        Row {
            name: name.into(),
            unit: "x".into(),
            lower_is_better,
            figures: figures.collect(),
            ratios: BTreeMap::new(),
            targets: Vec::new(),
        }
    }

    #[test]
    fn figures_on_both_devices_are_compared() {
        let rows = [
            row(
                "namespaces/1500/bulk:65536",
                false,
                &[("raw", 100.0), ("tcp", 900.0)],
            ),
            row(
                "rsoft/1500/bulk:65536",
                false,
                &[("raw", 160.0), ("c", 5.0)],
            ),
        ];
        let found = of(&rows);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].name.as_str(), found[0].ratio),
            ("1500/bulk:65536", 1.6)
        );
        assert_eq!((found[0].bound, found[0].is_met()), (Some(1.5), Some(true)));
    }

    #[test]
    fn slower_messages_miss_the_target() {
        let rows = [
            row("namespaces/1500/pingpong:64", true, &[("ours", 20.0)]),
            row("rsoft/1500/pingpong:64", true, &[("ours", 22.0)]),
        ];
        assert_eq!(of(&rows)[0].is_met(), Some(false));
    }

    #[test]
    fn tails_have_no_target() {
        let rows = [
            row("namespaces/1500/pingpong:64 p99", true, &[("ours", 20.0)]),
            row("rsoft/1500/pingpong:64 p99", true, &[("ours", 22.0)]),
        ];
        assert_eq!(of(&rows)[0].is_met(), None);
    }

    #[test]
    fn figures_on_one_device_are_left_out() {
        let rows = [row("rsoft/1500/pingpong:64", true, &[("ours", 22.0)])];
        assert!(of(&rows).is_empty());
    }
}
