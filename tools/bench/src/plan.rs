// SPDX-License-Identifier: GPL-2.0

//! What is measured, in which order.

use crate::{
    counters::Transport,
    lab::Topology,
    programs::Program,
    workload::{
        PeerKind,
        Push,
        Workload, //
    },
};

/// The largest MTU of a veth device; soft-RoCE makes packets of 4096 octets of it.
pub const LARGE_MTU: u32 = 65535;

/// That of Ethernet; soft-RoCE makes packets of 1024 octets of it.
pub const SMALL_MTU: u32 = 1500;

/// Connections with a request under way each.
const REQUESTS: [u32; 5] = [1, 16, 64, 200, 400];

/// A choice of workloads and times.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rounds that are measured. One before them counts packets.
    pub rounds: u32,
    /// For one workload, in seconds.
    pub seconds: f64,
    /// Whether it has to be over soon.
    pub quick: bool,
    /// Where the ends are.
    pub topology: Topology,
}

impl Plan {
    /// Whether a transport can do a workload: raw verbs and sockets cannot do the same, and local
    /// sockets have no other kernel, no handshake, and nothing to poll.
    pub fn fits(&self, transport: Transport, workload: Workload) -> bool {
        let sockets = !matches!(transport, Transport::Raw | Transport::Unix);
        match workload {
            _ if transport == Transport::Unix && self.is_wire() => false,
            _ if !self.is_of_devices(transport, workload) => false,
            _ if transport == Transport::Sdp && !self.is_of_sdp(workload) => false,
            Workload::Bulk(_) | Workload::PingPong(_) | Workload::Requests(_) => true,
            Workload::PollPong(_) => transport != Transport::Unix,
            Workload::File(_)
            | Workload::Both(_)
            | Workload::Stream { .. }
            | Workload::Pipe { .. } => transport != Transport::Raw,
            Workload::Program(_) => sockets && !self.is_wire(),
            // The server is started anew, which two kernels cannot agree on.
            Workload::Setup(_) => sockets && !self.is_wire(),
            Workload::First | Workload::Connects(_) | Workload::Idle(_) => sockets,
        }
    }

    /// What SDP is measured by: data, messages and connections. The rest is for SMC-R.
    fn is_of_sdp(&self, workload: Workload) -> bool {
        match workload {
            Workload::Bulk(_) | Workload::PingPong(_) | Workload::Requests(_) => true,
            Workload::First | Workload::Setup(_) | Workload::Connects(_) => true,
            Workload::Both(size) => size == 65536,
            _ => false,
        }
    }

    /// Whether the ends are two kernels.
    fn is_wire(&self) -> bool {
        !self.topology.is_one_kernel()
    }

    /// Whether a topology for comparing devices measures a workload: those of rdma_soft beside TCP and local
    /// sockets, what uses them on those of rdma_rxe, and the packets of raw verbs.
    fn is_of_devices(&self, transport: Transport, workload: Workload) -> bool {
        let on_rxe = match workload {
            Workload::Bulk(size) => matches!(size, 64 | 4096 | 65536 | 1048576),
            Workload::Both(size) => size == 65536,
            Workload::PingPong(size) => matches!(size, 64 | 4096),
            Workload::Requests(count) => matches!(count, 1 | 64 | 200),
            Workload::First => true,
            Workload::Connects(count) => count == 8,
            _ => false,
        };
        let has_target = match workload {
            Workload::File(_) => true,
            Workload::Pipe { push, .. } => push == Push::NoDelay,
            Workload::Requests(count) => count == 400,
            Workload::Connects(count) => count == 32,
            _ => false,
        };
        let uses_device = !matches!(transport, Transport::Tcp | Transport::Unix);
        match self.topology {
            Topology::Namespaces | Topology::Wire => true,
            Topology::Rxe => uses_device && on_rxe,
            Topology::Packets => uses_device && Self::is_of_packets(workload),
            _ if Topology::SLOWER.contains(&self.topology) => {
                let measured = matches!(transport, Transport::Raw | Transport::Ours);
                measured && matches!(workload, Workload::Bulk(65536) | Workload::PingPong(64))
            }
            Topology::WireSoft => {
                let measured = matches!(transport, Transport::Raw | Transport::Ours);
                measured && Self::is_of_packets(workload)
            }
            // What the bound of a round trip is made of.
            Topology::Rsoft if workload == Workload::PollPong(64) => transport == Transport::Raw,
            Topology::Rsoft if uses_device => on_rxe || has_target,
            // What their rates and times are targets for.
            _ => {
                let connects = matches!(workload, Workload::Requests(_) | Workload::Connects(_));
                Self::is_of_packets(workload) || has_target || connects && on_rxe
            }
        }
    }

    /// What the packets of a device are measured by.
    fn is_of_packets(workload: Workload) -> bool {
        matches!(
            workload,
            Workload::Bulk(65536 | 1048576) | Workload::PingPong(64)
        )
    }

    /// The workloads of a round. What depends on a fresh module comes first; connections that do
    /// nothing are counted before buffers of others lie around.
    pub fn workloads(&self, transport: Transport, mtu: u32) -> Vec<Workload> {
        // Two kernels have one MTU only.
        let full = mtu == LARGE_MTU || (self.is_wire() && !self.quick);
        let mut plan = Vec::new();
        let sizes = |quick: &[u32], more: &[u32]| {
            let mut sizes = quick.to_vec();
            if !self.quick {
                sizes.extend(more);
                sizes.sort_unstable();
            }
            sizes
        };
        let bulk = if full {
            sizes(&[64, 4096, 65536, 1 << 20], &[256, 1024, 16384, 262144])
        } else {
            vec![65536, 1 << 20]
        };
        let pingpong = if full {
            sizes(&[1, 64, 4096, 65536], &[1024, 16384])
        } else {
            vec![64, 4096]
        };
        plan.push(Workload::First);
        if full && !self.is_wire() {
            plan.extend(PeerKind::ALL.map(Workload::Setup));
        }
        if full {
            let idle = if self.quick { 200 } else { 1000 };
            plan.push(Workload::Idle(idle));
        }
        plan.extend(bulk.into_iter().map(Workload::Bulk));
        let both = if full {
            sizes(&[65536], &[4096, 1 << 20])
        } else {
            vec![65536]
        };
        if full {
            plan.push(Workload::File(1 << 20));
        }
        plan.extend(both.into_iter().map(Workload::Both));
        plan.extend(pingpong.into_iter().map(Workload::PingPong));
        if full {
            plan.extend(self.messages());
        } else if self.topology == Topology::Rsoft {
            plan.push(Workload::PollPong(64));
        }
        // What has no packets is the same with packets of any size.
        plan.retain(|workload| self.fits(transport, *workload));
        if transport == Transport::Unix && !full {
            plan.clear();
        }
        plan
    }

    /// Those of `wanted` that a transport can do, in the order of a full round, and the others behind them.
    pub fn some(&self, transport: Transport, mtu: u32, wanted: &[Workload]) -> Vec<Workload> {
        let planned = self.workloads(transport, mtu);
        let place = |workload: &Workload| {
            let at = planned.iter().position(|known| known == workload);
            at.unwrap_or(planned.len())
        };
        let fits = |workload: &Workload| self.fits(transport, *workload);
        let mut some: Vec<Workload> = wanted.iter().copied().filter(fits).collect();
        some.sort_by_key(place);
        some
    }

    /// Small messages, many connections, and programs.
    fn messages(&self) -> Vec<Workload> {
        let mut plan = Vec::new();
        if !self.is_wire() {
            plan.push(Workload::PollPong(64));
        }
        for push in [Push::Default, Push::NoDelay, Push::Cork] {
            if push != Push::Default {
                plan.push(Workload::Stream { size: 64, push });
            }
            plan.push(Workload::Pipe {
                size: 64,
                depth: 16,
                push,
            });
        }
        plan.extend(REQUESTS.map(Workload::Requests));
        plan.extend([1, 8, 32].map(Workload::Connects));
        if !self.is_wire() {
            plan.extend(self.programs().into_iter().map(Workload::Program));
        }
        plan
    }

    /// Programs that are not ours, at least a second each.
    fn programs(&self) -> Vec<Program> {
        if self.quick {
            return vec![
                Program::RedisGet(200),
                Program::WrkClose(32),
                Program::Iperf3,
            ];
        }
        vec![
            Program::RedisGet(16),
            Program::RedisGet(200),
            Program::RedisSet(16),
            Program::RedisSet(200),
            Program::Wrk(16),
            Program::Wrk(200),
            Program::WrkClose(8),
            Program::WrkClose(32),
            Program::Iperf3,
            Program::Sockperf(64),
            Program::Sockperf(4096),
        ]
    }

    /// Those whose packets are counted, in a round that is not measured.
    pub fn counted(&self, transport: Transport, mtu: u32) -> Vec<Workload> {
        if mtu != LARGE_MTU && !self.is_wire() {
            return Vec::new();
        }
        let wanted = [
            Workload::Bulk(65536),
            Workload::Bulk(64),
            Workload::PingPong(64),
            Workload::Pipe {
                size: 64,
                depth: 16,
                push: Push::NoDelay,
            },
            Workload::Requests(64),
            Workload::Connects(8),
        ];
        let planned = self.workloads(transport, mtu);
        wanted
            .into_iter()
            .filter(|workload| planned.contains(workload))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_workloads_are_in_the_order_of_all() {
        let plan = Plan {
            rounds: 1,
            seconds: 1.0,
            quick: false,
            topology: Topology::Wire,
        };
        let wanted = ["bulk:77", "bulk:64", "first", "iperf3"].map(|name| name.parse().unwrap());
        let some = plan.some(Transport::C, SMALL_MTU, &wanted);
        let names: Vec<String> = some.iter().map(Workload::to_string).collect();
        assert_eq!(names, ["first", "bulk:64", "bulk:77"]);
    }

    #[test]
    fn the_same_for_all_sockets() {
        for quick in [true, false] {
            let plan = Plan {
                rounds: 3,
                seconds: 1.0,
                quick,
                topology: Topology::Namespaces,
            };
            for mtu in [LARGE_MTU, SMALL_MTU] {
                let c = plan.workloads(Transport::C, mtu);
                assert_eq!(c, plan.workloads(Transport::Ours, mtu));
                assert_eq!(c, plan.workloads(Transport::Tcp, mtu));
                assert_eq!(c.first(), Some(&Workload::First));
                let sdp = plan.workloads(Transport::Sdp, mtu);
                assert!(sdp.iter().all(|workload| c.contains(workload)));
                assert!(sdp.contains(&Workload::Bulk(65536)));
                assert_eq!(
                    sdp.contains(&Workload::Setup(PeerKind::TcpOnly)),
                    mtu == LARGE_MTU
                );
                assert!(!sdp.contains(&Workload::Idle(200)));
                let raw = plan.workloads(Transport::Raw, mtu);
                assert!(raw.contains(&Workload::Bulk(65536)));
                let programs = |workload: &Workload| matches!(workload, Workload::Program(_));
                assert_eq!(c.iter().any(programs), mtu == LARGE_MTU);
                assert!(!raw.iter().any(programs));
                let unix = plan.workloads(Transport::Unix, mtu);
                assert_eq!(unix.contains(&Workload::Bulk(64)), mtu == LARGE_MTU);
                assert!(!unix.contains(&Workload::First));
            }
            assert_eq!(plan.counted(Transport::Ours, LARGE_MTU).len(), 6);
            let wire = Plan {
                topology: Topology::Wire,
                ..plan.clone()
            };
            let crr = Workload::Connects(8);
            let planned = wire.workloads(Transport::C, SMALL_MTU);
            assert_eq!(planned.contains(&crr), !quick);
            assert!(!planned.contains(&Workload::Program(Program::Iperf3)));
            assert!(!planned.contains(&Workload::Setup(PeerKind::Known)));
            assert!(plan.counted(Transport::Ours, SMALL_MTU).is_empty());
            assert!(wire.workloads(Transport::Unix, SMALL_MTU).is_empty());
            let of = |topology, transport, mtu| {
                let plan = Plan {
                    topology,
                    ..plan.clone()
                };
                plan.workloads(transport, mtu)
            };
            for mtu in [LARGE_MTU, SMALL_MTU] {
                let raw = of(Topology::Rsoft, Transport::Raw, mtu);
                assert!(raw.contains(&Workload::Bulk(65536)));
                // Each of these has its counterpart on rdma_soft.
                for transport in [
                    Transport::C,
                    Transport::Ours,
                    Transport::Sdp,
                    Transport::Raw,
                ] {
                    let soft = of(Topology::Rsoft, transport, mtu);
                    for other in [Topology::Rxe, Topology::Packets] {
                        let theirs = of(other, transport, mtu);
                        assert!(theirs.iter().all(|workload| soft.contains(workload)));
                        assert!(theirs.contains(&Workload::PingPong(64)));
                    }
                }
                for slower in Topology::SLOWER {
                    let packets = of(Topology::Packets, Transport::Raw, mtu);
                    let planned = of(slower, Transport::Raw, mtu);
                    assert_eq!(planned.len(), 2);
                    assert!(planned.iter().all(|workload| packets.contains(workload)));
                    assert!(of(slower, Transport::C, mtu).is_empty());
                }
                assert!(of(Topology::Rxe, Transport::Tcp, mtu).is_empty());
                let tcp = of(Topology::Rsoft, Transport::Tcp, mtu);
                assert!(tcp.contains(&Workload::Bulk(65536)) && !tcp.contains(&Workload::First));
                let pipes = |transport| {
                    let planned = of(Topology::Rsoft, transport, mtu);
                    let is_pipe = |workload: &&Workload| matches!(workload, Workload::Pipe { .. });
                    planned.iter().filter(is_pipe).count()
                };
                // The target of ours is to C, and local sockets may miss it as well.
                let all = usize::from(mtu == LARGE_MTU);
                for transport in [Transport::Ours, Transport::Tcp, Transport::Unix] {
                    assert_eq!(pipes(transport), all);
                }
            }
        }
    }
}
