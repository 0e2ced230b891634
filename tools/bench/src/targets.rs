// SPDX-License-Identifier: GPL-2.0

//! What is wanted of the ratios.

use crate::{
    counters::Transport,
    workload::Workload, //
};

/// A bound for the ratio of ours to another, which way depends on the workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Ours: SMC-R or SDP.
    pub of: Transport,
    /// The other.
    pub to: Transport,
    /// The bound.
    pub bound: f64,
    /// Those that have less to do. Where they miss it as well, it is out of reach.
    pub limits: &'static [Transport],
}

/// The targets of a workload.
pub fn of(workload: Workload) -> Vec<Target> {
    // Raw verbs have the same device, local sockets the same system calls; and before there is an
    // SMC connection there is one of TCP.
    let limits: &[Transport] = match workload {
        Workload::Bulk(64) | Workload::Stream { .. } | Workload::Pipe { .. } => &[Transport::Unix],
        Workload::Connects(_) => &[Transport::Tcp],
        _ => &[Transport::Raw, Transport::Unix],
    };
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
    fn they_depend_on_the_size() {
        assert_eq!(of(Workload::Bulk(1 << 20)).len(), 3);
        assert_eq!(of(Workload::Bulk(64)).len(), 1);
        assert!(of(Workload::Bulk(4096)).is_empty());
        assert!(of(Workload::PingPong(65536)).is_empty());
        assert_eq!(of(Workload::Connects(8))[0].bound, 3.0);
        let first = of(Workload::First);
        assert!(first.iter().any(|target| target.of == Transport::Sdp));
    }
}
