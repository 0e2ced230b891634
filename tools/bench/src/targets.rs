// SPDX-License-Identifier: GPL-2.0

//! What is wanted of the ratios.

use crate::{
    counters::Transport,
    lab::Topology,
    workload::{
        Push,
        Workload, //
    },
};

/// A bound for the ratio of ours to another, which way depends on the workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Ours: SMC-R, SDP, or raw verbs on devices of rdma_soft.
    pub of: Transport,
    /// The other.
    pub to: Transport,
    /// The bound.
    pub bound: f64,
    /// Those that have less to do. Where they miss it as well, it is out of reach.
    pub limits: &'static [Transport],
}

/// The targets of a workload in a topology.
pub fn of(topology: &str, workload: Workload) -> Vec<Target> {
    match topology {
        _ if topology == Topology::Rsoft.name() => of_rsoft(workload),
        // What they are for is the ratio of the devices.
        _ if [Topology::Rxe, Topology::Packets, Topology::WireSoft]
            .iter()
            .chain(&Topology::SLOWER)
            .any(|other| other.name() == topology) =>
        {
            Vec::new()
        }
        _ => of_rxe(workload),
    }
}

/// What has less to do in a workload than ours: raw verbs have the same device, local sockets the same system
/// calls; and before there is an SMC connection there is one of TCP.
fn limits(workload: Workload) -> &'static [Transport] {
    match workload {
        Workload::Bulk(64) | Workload::Stream { .. } | Workload::Pipe { .. } => &[Transport::Unix],
        Workload::Connects(_) => &[Transport::Tcp],
        // Programs of local sockets sleep, where those of ours may spin.
        Workload::PingPong(_) | Workload::PollPong(_) => &[Transport::Raw],
        _ => &[Transport::Raw, Transport::Unix],
    }
}

/// Those on devices of rdma_soft: to TCP in the same kernel, and to the C implementation.
fn of_rsoft(workload: Workload) -> Vec<Target> {
    let limits = limits(workload);
    let target = |of, to, bound| Target {
        of,
        to,
        bound,
        limits,
    };
    let tcp = |bound| target(Transport::Ours, Transport::Tcp, bound);
    let c = |bound| target(Transport::Ours, Transport::C, bound);
    match workload {
        Workload::Bulk(size) if size >= 64 << 10 => vec![tcp(0.75)],
        // The sender lends the pages of the file.
        Workload::File(size) if size >= 64 << 10 => vec![tcp(1.0)],
        Workload::PingPong(64) => vec![
            tcp(1.0),
            c(0.75),
            target(Transport::Raw, Transport::Tcp, 1.0),
        ],
        Workload::Pipe {
            push: Push::NoDelay,
            ..
        } => vec![c(1.5)],
        Workload::Requests(200 | 400) => vec![tcp(1.0), c(2.0)],
        Workload::Requests(_) => vec![tcp(1.0)],
        Workload::Connects(8) => vec![tcp(0.6)],
        Workload::Connects(32) => vec![tcp(0.6), c(3.0)],
        _ => Vec::new(),
    }
}

/// Those on devices of rdma_rxe.
fn of_rxe(workload: Workload) -> Vec<Target> {
    let limits = limits(workload);
    let to = |to, bound| Target {
        of: Transport::Ours,
        to,
        bound,
        limits,
    };
    let c = |bound| to(Transport::C, bound);
    // SDP has one message where SMC-R has a write and a message, and no first contact.
    let sdp = |bound| Target {
        of: Transport::Sdp,
        to: Transport::Ours,
        bound,
        limits: &[Transport::Raw],
    };
    let mut targets = match workload {
        Workload::Bulk(size) if size >= 64 << 10 => vec![c(1.05), to(Transport::Raw, 0.97)],
        Workload::Both(size) | Workload::File(size) if size >= 64 << 10 => vec![c(1.05)],
        Workload::PingPong(size) if size <= 4096 => vec![c(0.75)],
        Workload::PollPong(_) => vec![c(0.6)],
        Workload::Bulk(64) | Workload::Stream { .. } | Workload::Pipe { .. } => vec![c(1.5)],
        Workload::Requests(200 | 400) => vec![c(2.0)],
        Workload::Connects(8 | 32) => vec![c(3.0)],
        Workload::First => vec![c(0.7)],
        Workload::Idle(_) => vec![c(0.5)],
        _ => Vec::new(),
    };
    match workload {
        Workload::Bulk(size) if size >= 64 << 10 => targets.push(sdp(1.0)),
        Workload::PingPong(size) if size <= 4096 => targets.push(sdp(0.8)),
        Workload::First => targets.push(sdp(0.5)),
        _ => {}
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_depend_on_the_size() {
        let of = |workload| of("namespaces", workload);
        assert_eq!(of(Workload::Bulk(1 << 20)).len(), 3);
        assert_eq!(of(Workload::Bulk(64)).len(), 1);
        assert!(of(Workload::Bulk(4096)).is_empty());
        assert!(of(Workload::PingPong(65536)).is_empty());
        assert_eq!(of(Workload::Connects(8))[0].bound, 3.0);
        let first = of(Workload::First);
        assert!(first.iter().any(|target| target.of == Transport::Sdp));
    }

    #[test]
    fn devices_of_rdma_soft_are_measured_by_tcp() {
        let bulk = of("rsoft", Workload::Bulk(65536));
        assert_eq!(bulk.len(), 1);
        assert_eq!((bulk[0].to, bulk[0].bound), (Transport::Tcp, 0.75));
        let pingpong = of("rsoft", Workload::PingPong(64));
        assert!(pingpong.iter().any(|target| target.of == Transport::Raw));
        for topology in ["rxe", "packets", "wire-soft", "in-tasks", "not-joined"] {
            assert!(of(topology, Workload::Bulk(65536)).is_empty());
        }
    }
}
