// SPDX-License-Identifier: GPL-2.0

//! Settings, steps and results of a [`Requester`](super::Requester).

use super::retry::RetryLimits;
use crate::proto::{
    base::verbs::{
        Mtu,
        Psn, //
    },
    roce::{
        aeth::NakCounts,
        opcode::{
            Companion,
            Service, //
        },
        plan::{
            MessagePlan,
            PlannedPacket, //
        },
        reason::Reason,
        work::{
            MsgId,
            Work,
            WorkStatus, //
        },
    },
};

/// The settings of a requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequesterConfig {
    /// Service of the queue pair.
    pub(crate) service: Service,
    /// Path MTU.
    pub(crate) mtu: Mtu,
    /// PSN of the first packet (RNIC-PSN-06).
    pub(crate) first_psn: Psn,
    /// Most READs and the like in flight (RNIC-REQ-15).
    pub(crate) max_rd_atomic: u32,
    /// Timers and counters.
    pub(crate) retry: RetryLimits,
    /// Most request packets in flight, READs and the like aside (RNIC-PSN-04).
    pub(crate) window_packets: u32,
    /// Most octets of full packets in flight; one packet is always permitted.
    pub(crate) window_octets: u32,
}

/// Packets to send, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    /// The message they are of.
    pub(crate) msg: MsgId,
    /// Its kind and flags.
    pub(crate) work: Work,
    /// Opcodes, offsets and lengths of its packets.
    pub(crate) plan: MessagePlan,
    /// The first packet of the plan. The request of a READ is a single packet.
    pub(crate) index: u32,
    /// Number of packets.
    pub(crate) packets: u32,
    /// PSN of the first packet.
    pub(crate) psn: Psn,
    /// Offset in the message: of the payload, or of the part that a READ asks for.
    pub(crate) offset: u32,
    /// Octets from there to the end of the message.
    pub(crate) rest: u32,
    /// AckReq of the last packet (RNIC-REQ-02); all others have none.
    pub(crate) ack_req: bool,
}

/// The next step of the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendStep {
    /// Send packets. If their payload cannot be read: [`fail`](super::Requester::fail).
    Packets(Burst),
    /// Execute a local request (RNIC-REQ-11), then call
    /// [`local_done`](super::Requester::local_done).
    Local(MsgId),
}

/// A completed work request. Its place in the queue is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendCompletion {
    /// The request.
    pub(crate) msg: MsgId,
    /// Success, or why it failed.
    pub(crate) result: Result<(), Reason>,
    /// Whether the application gets an entry in its completion queue (RNIC-REQ-06).
    pub(crate) reported: bool,
}

/// Payload of a READ response, and the place for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// The READ. If its memory cannot be written: [`fail`](super::Requester::fail) before
    /// [`poll_complete`](super::Requester::poll_complete).
    pub(crate) msg: MsgId,
    /// Offset in the message.
    pub(crate) offset: u32,
    /// Octets.
    pub(crate) len: u32,
    /// Whether the message ends here.
    pub(crate) last: bool,
}

/// The effect of an answer of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerEffect {
    /// Older than everything in flight (RNIC-REQ-05).
    Duplicate,
    /// For a packet that was never sent (RNIC-REQ-05).
    Ghost,
    /// Nothing new.
    Nothing,
    /// New PSNs are acknowledged.
    Progress,
    /// Packets are repeated.
    Repeat,
    /// The requester waits for a receive buffer of the peer.
    Wait,
    /// A request failed.
    Failure,
}

/// Why work is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostError {
    /// All places of the queue are taken.
    Full,
}

/// Events for statistics (RNIC-STAT-01).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequesterStats {
    /// Answers that were older than everything in flight.
    pub(crate) duplicate_answers: u64,
    /// Answers to packets that were never sent.
    pub(crate) ghost_answers: u64,
    /// NAKs received, other than for want of a receive buffer.
    pub(crate) naks: NakCounts,
    /// Answers that showed that a response is missing.
    pub(crate) implied_naks: u64,
    /// RNR NAKs received.
    pub(crate) rnr_naks: u64,
    /// Expiries of the retransmission timer.
    pub(crate) timeouts: u64,
    /// Times that the cursor moved back.
    pub(crate) repeats: u64,
}

impl SendCompletion {
    /// The status (RNIC-ERR-03).
    pub(crate) const fn status(&self) -> WorkStatus {
        WorkStatus::of(self.result)
    }
}

impl Burst {
    /// Whether the last packet of the burst is the last of the message, which carries the companion
    /// value.
    pub(crate) fn ends_message(&self) -> bool {
        self.index.saturating_add(self.packets) >= self.plan.packets()
    }

    /// Whether the last packet of the burst asks for a solicited completion: that of a message for which
    /// the receiver has one (RNIC-HDR-06).
    pub(crate) fn solicits(&self) -> bool {
        self.work.solicited && self.work.kind.completes_receive() && self.ends_message()
    }

    /// All packets of the burst as a single one (RNIC-DIR-03).
    pub(crate) fn run(&self) -> Option<PlannedPacket> {
        self.plan.run(self.index, self.packets)
    }

    /// The companion value of the message.
    pub(crate) const fn companion(&self) -> Companion {
        self.plan.companion
    }
}
