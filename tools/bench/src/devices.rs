// SPDX-License-Identifier: GPL-2.0

//! What was measured in turns, beside each other: devices of rdma_soft and those of rdma_rxe, and devices of
//! rdma_soft without one of their fast paths and with all.

use crate::{
    counters::Transport,
    lab::Topology,
    plan::SMALL_MTU,
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
use std::collections::BTreeMap;

/// A figure of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Topology, MTU, workload and metric, as `rsoft/65535/pingpong:64 p99`.
    pub name: String,
    /// By the name of the transport.
    pub transport: String,
    /// Of both figures.
    pub unit: String,
    /// Median on what it is compared with.
    pub other: f64,
    /// Median on what the name says.
    pub own: f64,
    /// The second to the first.
    pub ratio: f64,
    /// Whether less is better.
    pub lower_is_better: bool,
    /// What is wanted of the ratio; none of processor times and tails.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound: Option<f64>,
    /// Where the ratio misses the bound: the ratios of what misses it as well.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub limits: BTreeMap<String, f64>,
}

impl Beside {
    /// Whether the ratio keeps its bound, if it has one.
    pub fn is_met(&self) -> Option<bool> {
        Some(met(self.ratio, self.bound?, self.lower_is_better))
    }
}

/// What is wanted of a workload: that nothing is slower, and that data of raw verbs are several times as
/// fast, with or without the direct path.
fn bound(topology: Topology, mtu: u32, workload: Workload, transport: &str) -> f64 {
    match workload {
        Workload::Bulk(size) if size >= 64 << 10 && transport == Transport::Raw.name() => {
            match topology {
                Topology::Rsoft => 5.0,
                // A packet of Ethernet's size costs its system calls on the host.
                Topology::WireSoft if mtu <= SMALL_MTU => 2.5,
                _ => 4.0,
            }
        }
        _ => 1.0,
    }
}

/// Octets of a packet of RoCE to those of a segment of TCP, on network cards of an MTU.
fn octets_to_segment(mtu: u32) -> f64 {
    // Without the headers of IPv4 and TCP, and its timestamps.
    let segment = mtu.saturating_sub(52).max(1);
    let packet = if mtu <= SMALL_MTU { 1024 } else { 4096 };
    f64::from(packet) / f64::from(segment)
}

/// What is compared with what.
const DEVICES: [(Topology, Topology); 3] = [
    (Topology::Rsoft, Topology::Rxe),
    (Topology::Packets, Topology::Rxe),
    (Topology::WireSoft, Topology::Wire),
];

/// Figures of both kinds of devices, in the order of the rows.
pub fn of_devices(rows: &[Row]) -> Vec<Beside> {
    let pairs = DEVICES.into_iter();
    let pairs = pairs.map(|(own, other)| compare(rows, own, other, true));
    pairs.flatten().collect()
}

/// Figures of devices of rdma_soft without one of their fast paths, and with all, in the order of the rows.
pub fn of_paths(rows: &[Row]) -> Vec<Beside> {
    let slower = Topology::SLOWER.into_iter();
    let slower = slower.map(|own| compare(rows, own, own.with_all_paths(), false));
    slower.flatten().collect()
}

/// The figures that rows of two topologies have. `targets` says whether something is wanted of them.
fn compare(rows: &[Row], own: Topology, other: Topology, targets: bool) -> Vec<Beside> {
    let mut found = Vec::new();
    for row in rows {
        let Some(name) = row.name.strip_prefix(&format!("{}/", own.name())) else {
            continue;
        };
        let beside = format!("{}/{name}", other.name());
        let Some(beside) = rows.iter().find(|row| row.name == beside) else {
            continue;
        };
        let parts = name.split_once('/').filter(|_| targets);
        let workload = parts.and_then(|(_, text)| text.parse().ok());
        let mtu = parts.and_then(|(mtu, _)| mtu.parse().ok()).unwrap_or(0);
        for (transport, on_own) in &row.figures {
            let on_other = beside.figures.get(transport);
            let Some(on_other) = on_other.filter(|figure| figure.median > 0.0) else {
                continue;
            };
            let ratio = on_own.median / on_other.median;
            let bound = workload.map(|workload| bound(own, mtu, workload, transport));
            let misses = |ratio| {
                bound.is_some_and(|bound| bound > 1.0 && !met(ratio, bound, row.lower_is_better))
            };
            // Packets that pass the network as fast as those of TCP, which needs no device.
            let tcp = beside.figures.get(Transport::Tcp.name());
            let packets = tcp.map(|tcp| tcp.median * octets_to_segment(mtu) / on_other.median);
            let packets = packets.filter(|packets| misses(ratio) && misses(*packets));
            found.push(Beside {
                name: row.name.clone(),
                transport: transport.clone(),
                unit: row.unit.clone(),
                other: on_other.median,
                own: on_own.median,
                ratio,
                lower_is_better: row.lower_is_better,
                bound,
                limits: packets
                    .map(|packets| ("tcp-packets".into(), packets))
                    .into_iter()
                    .collect(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;

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
                "rxe/1500/bulk:65536",
                false,
                &[("raw", 100.0), ("tcp", 900.0)],
            ),
            row(
                "rsoft/1500/bulk:65536",
                false,
                &[("raw", 550.0), ("c", 5.0)],
            ),
            row("packets/1500/bulk:65536", false, &[("raw", 390.0)]),
        ];
        let found = of_devices(&rows);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].name.as_str(), found[0].ratio),
            ("rsoft/1500/bulk:65536", 5.5)
        );
        assert_eq!((found[0].bound, found[0].is_met()), (Some(5.0), Some(true)));
        assert_eq!(
            (found[1].name.as_str(), found[1].bound, found[1].is_met()),
            ("packets/1500/bulk:65536", Some(4.0), Some(false))
        );
    }

    #[test]
    fn wire_has_targets_by_the_mtu() {
        let rows = [
            row("wire/1500/bulk:65536", false, &[("raw", 100.0)]),
            row("wire-soft/1500/bulk:65536", false, &[("raw", 300.0)]),
            row("wire/4200/bulk:65536", false, &[("raw", 100.0)]),
            row("wire-soft/4200/bulk:65536", false, &[("raw", 300.0)]),
        ];
        let met: Vec<_> = of_devices(&rows).iter().map(Beside::is_met).collect();
        assert_eq!(met, [Some(true), Some(false)]);
    }

    #[test]
    fn target_beyond_the_packets_of_tcp_has_their_ratio() {
        let packets = |own, tcp| {
            let rows = [
                row(
                    "wire/1500/bulk:65536",
                    false,
                    &[("raw", 100.0), ("tcp", tcp)],
                ),
                row("wire-soft/1500/bulk:65536", false, &[("raw", own)]),
            ];
            of_devices(&rows)[0].limits.get("tcp-packets").copied()
        };
        // A segment has 1448 octets, a packet 1024.
        assert_eq!(packets(200.0, 144.8), Some(1.024));
        assert_eq!(packets(200.0, 362.0), None);
        assert_eq!(packets(250.0, 144.8), None);
    }

    #[test]
    fn slower_messages_miss_the_target() {
        let rows = [
            row("rxe/1500/pingpong:64", true, &[("ours", 20.0)]),
            row("rsoft/1500/pingpong:64", true, &[("ours", 22.0)]),
        ];
        assert_eq!(of_devices(&rows)[0].is_met(), Some(false));
    }

    #[test]
    fn tails_have_no_target() {
        let rows = [
            row("rxe/1500/pingpong:64 p99", true, &[("ours", 20.0)]),
            row("rsoft/1500/pingpong:64 p99", true, &[("ours", 22.0)]),
        ];
        assert_eq!(of_devices(&rows)[0].is_met(), None);
    }

    #[test]
    fn path_that_is_off_is_compared_with_all_paths() {
        let rows = [
            row("packets/65535/bulk:65536", false, &[("raw", 400.0)]),
            row("by-udp/65535/bulk:65536", false, &[("raw", 300.0)]),
            row("wire-soft/1500/bulk:65536", false, &[("raw", 160.0)]),
            row("not-joined/1500/bulk:65536", false, &[("raw", 80.0)]),
        ];
        let found = of_paths(&rows);
        assert_eq!((found[0].ratio, found[0].bound), (0.75, None));
        assert_eq!((found[1].ratio, found[1].bound), (0.5, None));
        assert!(of_devices(&rows).is_empty());
    }

    #[test]
    fn figures_on_one_device_are_left_out() {
        let rows = [row("rsoft/1500/pingpong:64", true, &[("ours", 22.0)])];
        assert!(of_devices(&rows).is_empty());
    }
}
