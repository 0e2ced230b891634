// SPDX-License-Identifier: GPL-2.0

//! Packets to a queue pair of this kernel that leave out the network (RNIC-DIR).
//!
//! Such a packet is what the network would carry, without the headers of the network and the checksum:
//! the sender puts it into the inbox of its peer. All else is the same, so that both kinds alternate:
//! windows, acknowledgements, timers, errors.
//!
//! What permits it is [`PathProof`]. A packet that proves the way has its octets in memory of the
//! sender's own. The receiver recognises that memory, which no program and no other namespace can
//! imitate: the network stack hands it on without a copy, or the way is not proven.

use super::pair::{
    Core,
    QueuePair, //
};
use crate::{
    kapi::{
        base::{module::is_direct, time::now_ns},
        ibdev::IbQpType,
        net::packet::RxPacket,
    },
    proto::{
        base::{
            time::Instant,
            verbs::Qpn, //
        },
        roce::proof::{
            Lane,
            PathProof, //
        },
    },
    rnic::{
        counters::Counter,
        numbers::PacketReceiver,
        wire::Outlet, //
    },
};
use kernel::sync::Arc;

/// What a run may send, and how.
pub(super) enum Way {
    /// By the network.
    Network,
    /// One packet by the network, which proves the way.
    Prove,
    /// Nothing.
    Hold,
    /// To the queue pair itself.
    Direct(Arc<dyn PacketReceiver>),
}

impl Way {
    /// Packets that a run may send, of at most `most`.
    pub(super) const fn room(&self, most: u32) -> u32 {
        match self {
            Self::Network | Self::Direct(_) => most,
            Self::Prove => 1,
            Self::Hold => 0,
        }
    }

    /// How a packet of a queue pair goes.
    pub(super) fn outlet<'a>(&'a self, pair: &'a QueuePair, now: Instant) -> Outlet<'a> {
        match self {
            Self::Network | Self::Hold => Outlet::Network,
            Self::Prove => Outlet::Proof {
                path: &pair.path,
                now,
                epoch: pair.domain.node.runtime().epoch(),
            },
            Self::Direct(peer) => Outlet::Direct(&**peer),
        }
    }
}

impl QueuePair {
    /// The way of what this run sends.
    pub(super) fn choose_way(&self, core: &mut Core, now: Instant) -> Way {
        core.held = None;
        let runtime = self.domain.node.runtime();
        if !is_direct() || self.kind != IbQpType::Rc || core.to.is_none() {
            return Way::Network;
        }
        let Some(peer) = runtime.numbers().find(core.peer.get()) else {
            return Way::Network;
        };
        let mut path = self.path.lock();
        let was_waiting = path.proof.is_waiting();
        let lane = path.proof.next(now, core.peer, runtime.epoch());
        let refused = was_waiting && !path.proof.is_waiting();
        drop(path);
        if refused {
            self.count(Counter::DirectRefused);
        }
        match lane {
            Lane::Network => Way::Network,
            Lane::Prove => Way::Prove,
            Lane::Wait(until) => {
                core.held = Some(until);
                Way::Hold
            }
            Lane::Direct => Way::Direct(peer),
        }
    }

    /// The run has sent a packet to prove the way.
    pub(super) fn note_proof(&self, core: &mut Core, now: Instant) {
        let mut path = self.path.lock();
        if path.take_made() {
            core.held = Some(now.saturating_add(PathProof::PATIENCE));
        } else {
            // There was no memory for it, and it was an ordinary one.
            path.proof.fail(now);
        }
    }

    /// A packet that this queue pair may have sent has arrived at `at`. Returns whether it is the one
    /// that proves the way, and something may wait for that.
    pub(super) fn confirm(&self, packet: &RxPacket, at: Qpn) -> bool {
        let runtime = self.domain.node.runtime();
        let mut path = self.path.lock();
        if !path.is_of(packet) {
            return false;
        }
        let now = Instant::from_nanos(now_ns());
        let arrived = path.proof.on_arrived(now, at, runtime.epoch());
        drop(path);
        if arrived {
            self.count(Counter::DirectProofs);
        }
        arrived
    }
}
