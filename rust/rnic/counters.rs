// SPDX-License-Identifier: GPL-2.0

//! Counters of a device, which each processor counts for itself (RNIC-STAT-01).
//!
//! The names of the first part are those of `rdma_rxe`, which existing programs read. Counters of
//! aggregates, of congestion notifications and of iWARP come with what they count.

use crate::kapi::{
    base::percpu::PerCpuNumbers,
    ibdev::{
        StatName,
        StatValues, //
    },
};
use kernel::prelude::*;

/// Defines the counters and their names.
macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// A counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(super) enum Counter {
            $($(#[$doc])* $variant,)*
        }

        /// Names of the counters, in the order of their definition.
        pub(super) static COUNTER_NAMES: &[StatName] = &[$(StatName::new($name),)*];
    };
}

counters! {
    /// Packets that the network stack took.
    SentPackets c"sent_pkts",
    /// Packets that arrived for a queue pair of the device.
    ReceivedPackets c"rcvd_pkts",
    /// Request packets that were executed before.
    Duplicates c"duplicate_request",
    /// Request packets behind a missing one.
    OutOfSequence c"out_of_seq_request",
    /// RNR NAKs of peers.
    RnrReceived c"rcvd_rnr_err",
    /// RNR NAKs to peers.
    RnrSent c"send_rnr_err",
    /// Sequence NAKs of peers.
    SequenceReceived c"rcvd_seq_err",
    /// Requests that failed after their last repetition.
    RetriesExceeded c"retry_exceeded_err",
    /// Requests that failed for want of a receive buffer of the peer.
    RnrRetriesExceeded c"retry_rnr_exceeded_err",
    /// Times that a queue pair repeated its packets.
    Repeats c"completer_retry_err",
    /// Packets that found no memory or no route.
    SendErrors c"send_err",
    /// Times that the port went down.
    LinkDowned c"link_downed",
    /// SEND requests that completed.
    Sends c"rdma_sends",
    /// Receive requests that completed.
    Receives c"rdma_recvs",
    /// Octets of the packets that were sent, from the network header on.
    SentOctets c"sent_bytes",
    /// Octets of the packets that arrived, from the network header on.
    ReceivedOctets c"rcvd_bytes",

    /// Runs of packets that the network took together (RNIC-TX-03).
    SentRuns c"sent_runs",
    /// Runs of packets that arrived together, and were handled so (RNIC-RX-01).
    ReceivedRuns c"rcvd_runs",

    /// Packets that left out the network.
    DirectPackets c"direct_pkts",
    /// Octets of these packets, from the transport header on.
    DirectOctets c"direct_bytes",
    /// Runs of these packets whose receiver copied the octets from where the sender had them.
    DirectRuns c"direct_runs",
    /// Packets that proved a way (RNIC-DIR-01).
    DirectProofs c"direct_proofs",
    /// Attempts to prove a way that failed.
    DirectRefused c"direct_refused",

    /// Posts and doorbells where the queue pair has run at once (RNIC-RUN-03).
    InlinePosts c"inline_posts",
    /// Posts and doorbells where the queue pair could not run at once.
    QueuedPosts c"queued_posts",
    /// Those among the latter for which the kernel woke ksoftirqd.
    SoftirqWakes c"ksoftirqd_wakes",
    /// Runs of queue pairs (RNIC-RUN-04).
    Runs c"qp_runs",

    /// Expiries of the retransmission timer.
    Timeouts c"local_ack_timeout_err",
    /// Answers that showed that a response is missing.
    ImpliedNaks c"implied_nak_seq_err",
    /// NAKs of peers for invalid requests.
    InvalidReceived c"rcvd_nak_invalid",
    /// NAKs of peers for access that they do not permit.
    AccessReceived c"rcvd_nak_access",
    /// NAKs of peers that could not complete a request.
    OperationalReceived c"rcvd_nak_operation",
    /// NAKs to peers for missing packets.
    SequenceSent c"send_nak_sequence",
    /// NAKs to peers for invalid requests.
    InvalidSent c"send_nak_invalid",
    /// NAKs to peers for access that this side does not permit.
    AccessSent c"send_nak_access",
    /// NAKs to peers for requests that this side could not complete.
    OperationalSent c"send_nak_operation",
    /// Answers that were older than everything in flight.
    DuplicateAnswers c"duplicate_answer",
    /// Answers to packets that were never sent.
    GhostAnswers c"ghost_answer",

    /// Packets with a wrong invariant CRC (RNIC-ICRC-06).
    DropIcrc c"rx_icrc_encapsulated",
    /// Packets whose headers of the network are not those of RoCE.
    DropNetwork c"drop_network_header",
    /// Packets to a number that no queue pair has.
    DropUnknownQp c"drop_unknown_qp",
    /// Packets that arrived elsewhere than packets for the device (RNIC-IP-08).
    DropNetdev c"drop_netdev",
    /// Packets that found the inbox of their queue pair full (RNIC-LIM-05).
    DropInbox c"drop_inbox_full",
    /// Packets in a state in which the queue pair receives nothing.
    DropState c"drop_qp_state",
    /// Packets from or to other addresses than those of the queue pair (RNIC-IP-06, RNIC-IP-07).
    DropAddress c"drop_address",
    /// Packets with headers that are too short, or padded in a wrong way.
    DropHeader c"drop_transport_header",
    /// Packets of another partition.
    DropPartition c"drop_pkey",
    /// Packets of another service than that of their queue pair.
    DropService c"drop_service",
    /// Packets behind a missing one that the peer knows of.
    DropSequence c"drop_sequence",
    /// Repeated requests that are no longer recorded.
    DropForgotten c"drop_forgotten",
    /// Datagrams with another Q_Key (RNIC-UD-02).
    DropQKey c"drop_qkey",
    /// Datagrams that found no receive buffer.
    DropNoReceive c"drop_no_receive",
    /// Datagrams that are longer than the MTU, or than the receive buffer.
    DropTooLong c"drop_too_long",
}

/// The counters of a device.
pub(super) struct Counters(PerCpuNumbers);

impl Counters {
    /// Counters that are 0. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        PerCpuNumbers::new(COUNTER_NAMES.len()).map(Self)
    }

    /// Fills in all values, in the order of [`COUNTER_NAMES`].
    pub(super) fn read(&self, values: &mut StatValues) {
        for (index, place) in (0_u32..).zip(0..COUNTER_NAMES.len()) {
            values.set(index, self.0.sum(place));
        }
    }

    /// Counts one event. Context: any.
    pub(super) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts events. Context: any.
    pub(super) fn add(&self, counter: Counter, events: u64) {
        // The numbers of the enumeration are those of the names.
        self.0.add(counter as usize, events);
    }

    /// Events so far.
    #[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
    pub(super) fn value(&self, counter: Counter) -> u64 {
        self.0.sum(counter as usize)
    }
}
