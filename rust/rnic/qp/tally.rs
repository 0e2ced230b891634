// SPDX-License-Identifier: GPL-2.0

//! Counters of the device that follow those of the protocol, and reasons to drop packets
//! (RNIC-STAT-01).

use super::pair::{
    Core,
    QueuePair, //
};
use crate::{
    proto::roce::{
        datagram::DatagramDrop,
        packet::PacketError,
        responder::DropReason, //
    },
    rnic::counters::Counter,
};

impl QueuePair {
    /// Counts an event of the device. Context: any.
    pub(super) fn count(&self, counter: Counter) {
        self.domain.node.counters().count(counter);
    }

    /// Counts what both halves have seen since the last call.
    pub(super) fn count_events(&self, core: &mut Core) {
        let counters = self.domain.node.counters();
        let add = |counter, events| {
            if events != 0 {
                counters.add(counter, events);
            }
        };
        if let Some(half) = &mut core.requester {
            let stats = half.take_stats();
            add(Counter::DuplicateAnswers, stats.duplicate_answers);
            add(Counter::GhostAnswers, stats.ghost_answers);
            add(Counter::SequenceReceived, stats.naks.sequence);
            add(Counter::InvalidReceived, stats.naks.invalid);
            add(Counter::AccessReceived, stats.naks.access);
            add(Counter::OperationalReceived, stats.naks.operational);
            add(Counter::ImpliedNaks, stats.implied_naks);
            add(Counter::RnrReceived, stats.rnr_naks);
            add(Counter::Timeouts, stats.timeouts);
            add(Counter::Repeats, stats.repeats);
        }
        if let Some(half) = &mut core.responder {
            let stats = half.take_stats();
            add(Counter::Duplicates, stats.duplicates);
            add(Counter::OutOfSequence, stats.out_of_sequence);
            add(Counter::RnrSent, stats.rnr_naks);
            add(Counter::SequenceSent, stats.naks.sequence);
            add(Counter::InvalidSent, stats.naks.invalid);
            add(Counter::AccessSent, stats.naks.access);
            add(Counter::OperationalSent, stats.naks.operational);
        }
    }

    /// Counts a packet that is none.
    pub(super) fn count_malformed(&self, error: PacketError) {
        self.count(match error {
            PacketError::Partition => Counter::DropPartition,
            PacketError::Opcode(_) => Counter::DropService,
            PacketError::Truncated | PacketError::Version | PacketError::Padding => {
                Counter::DropHeader
            }
        });
    }

    /// Counts a request without an effect.
    pub(super) fn count_dropped(&self, reason: DropReason) {
        self.count(match reason {
            DropReason::Closed | DropReason::Idle | DropReason::SourceGone => Counter::DropState,
            DropReason::Service => Counter::DropService,
            DropReason::Sequence | DropReason::Incomplete => Counter::DropSequence,
            DropReason::Forgotten => Counter::DropForgotten,
        });
    }

    /// Counts a datagram without an effect.
    pub(super) fn count_lost_datagram(&self, reason: DatagramDrop) {
        self.count(match reason {
            DatagramDrop::Service => Counter::DropService,
            DatagramDrop::QKey => Counter::DropQKey,
            DatagramDrop::NoReceive => Counter::DropNoReceive,
            DatagramDrop::Mtu | DatagramDrop::TooLong => Counter::DropTooLong,
        });
    }
}
