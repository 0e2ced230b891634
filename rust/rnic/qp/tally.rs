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
        let add = |counter, now: u64, before: u64| {
            let events = now.wrapping_sub(before);
            if events != 0 {
                counters.add(counter, events);
            }
        };
        if let Some(half) = &core.requester {
            let (now, before) = (*half.stats(), core.counted.requester);
            let (duplicates, known) = (now.duplicate_answers, before.duplicate_answers);
            add(Counter::DuplicateAnswers, duplicates, known);
            add(
                Counter::GhostAnswers,
                now.ghost_answers,
                before.ghost_answers,
            );
            add(
                Counter::SequenceReceived,
                now.sequence_naks,
                before.sequence_naks,
            );
            add(Counter::ImpliedNaks, now.implied_naks, before.implied_naks);
            add(Counter::RnrReceived, now.rnr_naks, before.rnr_naks);
            add(Counter::Timeouts, now.timeouts, before.timeouts);
            add(Counter::Repeats, now.repeats, before.repeats);
            core.counted.requester = now;
        }
        if let Some(half) = &core.responder {
            let (now, before) = (*half.stats(), core.counted.responder);
            add(Counter::Duplicates, now.duplicates, before.duplicates);
            add(
                Counter::OutOfSequence,
                now.out_of_sequence,
                before.out_of_sequence,
            );
            add(Counter::RnrSent, now.rnr_naks, before.rnr_naks);
            add(Counter::FatalNaks, now.fatal_naks, before.fatal_naks);
            core.counted.responder = now;
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
            DropReason::Closed | DropReason::Busy | DropReason::Idle => Counter::DropState,
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
