// SPDX-License-Identifier: GPL-2.0

//! When packets to a queue pair of the same host may leave out the network (RNIC-DIR-01, RNIC-DIR-08).
//!
//! Addresses prove nothing: isolated parts of a host may have the same ones. So a packet goes by the
//! network in memory that its sender owns, and the receiver reports to the sender that this very memory
//! has arrived. The way is proven from then on, for a second, or until something about the way may have
//! changed. While the packet is in flight nothing else is sent: all earlier packets have arrived
//! before it, so that later ones overtake none (RNIC-DIR-02).

use crate::proto::base::{
    time::{
        Duration,
        Instant, //
    },
    verbs::Qpn, //
};

/// The way of the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The network.
    Network,
    /// The network, and the packet proves the way. No other packet follows it.
    Prove,
    /// No packet is sent until the proof, or until this time.
    Wait(Instant),
    /// Memory.
    Direct,
}

/// What is known of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing. The next attempt comes at this time.
    Unproven(Instant),
    /// The packet is in flight.
    Waiting { sent: Instant, epoch: u64 },
    /// The packet has arrived.
    Proven { until: Instant, epoch: u64 },
}

/// The proof of the way from a queue pair to its peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathProof {
    phase: Phase,
    /// The peer.
    target: Qpn,
    /// Time from a failed attempt to the next one.
    pause: Duration,
}

impl PathProof {
    /// Time that a proof holds.
    pub(crate) const VALID: Duration = Duration::from_millis(1_000);
    /// Time that a packet may be in flight.
    pub(crate) const PATIENCE: Duration = Duration::from_millis(20);
    /// Time from the first failed attempt to the next one. It doubles up to [`Self::LONG_PAUSE`].
    const PAUSE: Duration = Duration::from_millis(1_000);
    /// The longest time from a failed attempt to the next one.
    const LONG_PAUSE: Duration = Duration::from_millis(64_000);

    /// Nothing is known.
    pub(crate) const fn new() -> Self {
        Self {
            phase: Phase::Unproven(Instant::from_nanos(0)),
            target: Qpn::new(0),
            pause: Self::PAUSE,
        }
    }

    /// The way of the next packet to `target`. `epoch` changes with anything that the way depends on.
    pub(crate) fn next(&mut self, now: Instant, target: Qpn, epoch: u64) -> Lane {
        if target != self.target {
            *self = Self {
                target,
                ..Self::new()
            };
        }
        match self.phase {
            Phase::Proven { until, epoch: then } if now < until && then == epoch => Lane::Direct,
            Phase::Waiting { sent, .. } if now < sent.saturating_add(Self::PATIENCE) => {
                Lane::Wait(sent.saturating_add(Self::PATIENCE))
            }
            Phase::Waiting { .. } => {
                self.fail(now);
                Lane::Network
            }
            Phase::Unproven(next) if now < next => Lane::Network,
            Phase::Proven { .. } | Phase::Unproven(_) => Lane::Prove,
        }
    }

    /// The packet that proves the way was sent.
    pub(crate) fn on_sent(&mut self, now: Instant, epoch: u64) {
        self.phase = Phase::Waiting { sent: now, epoch };
    }

    /// The packet did not arrive in time, or could not be made.
    pub(crate) fn fail(&mut self, now: Instant) {
        self.phase = Phase::Unproven(now.saturating_add(self.pause));
        self.pause = self.pause.saturating_mul(2).min(Self::LONG_PAUSE);
    }

    /// Whether the packet is in flight.
    pub(crate) const fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. })
    }

    /// The packet has arrived at `target`. Returns whether it was in flight and is in time, so that packets
    /// go on. A late one proves nothing, however late the queue pair notices that.
    pub(crate) fn on_arrived(&mut self, now: Instant, target: Qpn, epoch: u64) -> bool {
        let Phase::Waiting { sent, epoch: then } = self.phase else {
            return false;
        };
        if target != self.target || now >= sent.saturating_add(Self::PATIENCE) {
            return false;
        }
        self.phase = if then == epoch {
            self.pause = Self::PAUSE;
            Phase::Proven {
                until: sent.saturating_add(Self::VALID),
                epoch,
            }
        } else {
            // Something changed while it was in flight.
            Phase::Unproven(now)
        };
        true
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_proof))]
mod tests {
    use super::*;

    const PEER: Qpn = Qpn::new(7);
    const T0: Instant = Instant::from_nanos(0);

    fn at(millis: u64) -> Instant {
        T0.saturating_add(Duration::from_millis(millis))
    }

    /// RNIC-DIR-02: nothing follows the packet on the network while others might overtake it.
    #[test]
    fn proven_way_is_direct_for_a_second() {
        let mut proof = PathProof::new();
        assert_eq!(proof.next(T0, PEER, 1), Lane::Prove);
        proof.on_sent(T0, 1);
        assert_eq!(proof.next(at(1), PEER, 1), Lane::Wait(at(20)));
        assert!(proof.on_arrived(at(2), PEER, 1));
        assert_eq!(proof.next(at(3), PEER, 1), Lane::Direct);
        assert_eq!(proof.next(at(999), PEER, 1), Lane::Direct);
        assert_eq!(proof.next(at(1_000), PEER, 1), Lane::Prove);
    }

    #[test]
    fn change_of_the_way_ends_the_proof() {
        let mut proof = PathProof::new();
        proof.on_sent(T0, 1);
        assert_eq!(proof.next(T0, PEER, 1), Lane::Prove);
        proof.on_sent(T0, 1);
        assert!(proof.on_arrived(T0, PEER, 1));
        assert_eq!(proof.next(at(1), PEER, 2), Lane::Prove);
        // It changes while the packet is in flight.
        proof.on_sent(at(1), 2);
        assert!(proof.on_arrived(at(2), PEER, 3));
        assert_eq!(proof.next(at(2), PEER, 3), Lane::Prove);
    }

    #[test]
    fn missing_packet_leaves_the_network_with_longer_pauses() {
        let mut proof = PathProof::new();
        assert_eq!(proof.next(T0, PEER, 1), Lane::Prove);
        let mut now = 0;
        for pause in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 64_000] {
            proof.on_sent(at(now), 1);
            assert!(proof.is_waiting());
            assert_eq!(proof.next(at(now + 20), PEER, 1), Lane::Network);
            assert!(!proof.is_waiting());
            // It comes too late: others have followed it.
            assert!(!proof.on_arrived(at(now + 21), PEER, 1));
            assert_eq!(proof.next(at(now + 19 + pause), PEER, 1), Lane::Network);
            now += 20 + pause;
            assert_eq!(proof.next(at(now), PEER, 1), Lane::Prove);
        }
        // A success begins with the short pause again.
        proof.on_sent(at(now), 1);
        assert!(proof.on_arrived(at(now), PEER, 1));
        proof.on_sent(at(now), 1);
        assert_eq!(proof.next(at(now + 20), PEER, 1), Lane::Network);
        assert_eq!(proof.next(at(now + 1_020), PEER, 1), Lane::Prove);
    }

    #[test]
    fn late_packet_before_its_time_limit_is_noticed_proves_nothing() {
        let mut proof = PathProof::new();
        assert_eq!(proof.next(T0, PEER, 1), Lane::Prove);
        proof.on_sent(T0, 1);
        assert!(!proof.on_arrived(at(20), PEER, 1));
        assert_eq!(proof.next(at(21), PEER, 1), Lane::Network);
        assert_eq!(proof.next(at(22), PEER, 1), Lane::Network);
        assert!(!proof.is_waiting());
    }

    #[test]
    fn other_peer_needs_a_proof_of_its_own() {
        let mut proof = PathProof::new();
        assert_eq!(proof.next(T0, PEER, 1), Lane::Prove);
        proof.on_sent(T0, 1);
        assert!(!proof.on_arrived(T0, Qpn::new(8), 1));
        assert!(proof.on_arrived(T0, PEER, 1));
        assert_eq!(proof.next(T0, Qpn::new(8), 1), Lane::Prove);
        assert_eq!(proof.next(T0, PEER, 1), Lane::Prove);
    }
}
