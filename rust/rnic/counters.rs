// SPDX-License-Identifier: GPL-2.0

//! Counters of a device (RNIC-STAT-01).
//!
//! The names of the first part are those of `rdma_rxe`, which existing programs read.

use crate::kapi::ibdev::{
    StatName,
    StatValues, //
};
use core::sync::atomic::{
    AtomicU64,
    Ordering, //
};

/// Defines the counters, their names, and where they are kept.
macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident $variant:ident $name:literal,)*) => {
        /// A counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Counter {
            $($(#[$doc])* $variant,)*
        }

        /// The counters of a device.
        pub(super) struct Counters {
            $($(#[$doc])* $field: AtomicU64,)*
        }

        /// Names of the counters.
        pub(super) static COUNTER_NAMES: &[StatName] = &[$(StatName::new($name),)*];

        impl Counters {
            /// Counters that are 0.
            pub(super) const fn new() -> Self {
                Self {
                    $($field: AtomicU64::new(0),)*
                }
            }

            /// The place of a counter.
            const fn place(&self, counter: Counter) -> &AtomicU64 {
                match counter {
                    $(Counter::$variant => &self.$field,)*
                }
            }

            /// Fills in all values, in the order of [`COUNTER_NAMES`].
            pub(super) fn read(&self, values: &mut StatValues) {
                let all = [$(&self.$field,)*];
                for (index, counter) in (0_u32..).zip(all) {
                    values.set(index, counter.load(Ordering::Relaxed));
                }
            }
        }
    };
}

counters! {
    /// Packets that the network stack took.
    sent_packets SentPackets c"sent_pkts",
    /// Packets that arrived for a queue pair of the device.
    received_packets ReceivedPackets c"rcvd_pkts",
    /// Request packets that were executed before.
    duplicates Duplicates c"duplicate_request",
    /// Request packets behind a missing one.
    out_of_sequence OutOfSequence c"out_of_seq_request",
    /// RNR NAKs of peers.
    rnr_received RnrReceived c"rcvd_rnr_err",
    /// RNR NAKs to peers.
    rnr_sent RnrSent c"send_rnr_err",
    /// Sequence NAKs of peers.
    sequence_received SequenceReceived c"rcvd_seq_err",
    /// Requests that failed after their last repetition.
    retries_exceeded RetriesExceeded c"retry_exceeded_err",
    /// Requests that failed for want of a receive buffer of the peer.
    rnr_retries_exceeded RnrRetriesExceeded c"retry_rnr_exceeded_err",
    /// Times that a queue pair repeated its packets.
    repeats Repeats c"completer_retry_err",
    /// Packets that found no memory or no route.
    send_errors SendErrors c"send_err",
    /// Times that the port went down.
    link_downed LinkDowned c"link_downed",
    /// SEND requests that completed.
    sends Sends c"rdma_sends",
    /// Receive requests that completed.
    receives Receives c"rdma_recvs",
    /// Octets of the packets that were sent, from the network header on.
    sent_octets SentOctets c"sent_bytes",
    /// Octets of the packets that arrived, from the network header on.
    received_octets ReceivedOctets c"rcvd_bytes",

    /// Packets that left out the network.
    direct_packets DirectPackets c"direct_pkts",
    /// Octets of these packets, from the transport header on.
    direct_octets DirectOctets c"direct_bytes",
    /// Packets that proved a way (RNIC-DIR-01).
    direct_proofs DirectProofs c"direct_proofs",
    /// Attempts to prove a way that failed.
    direct_refused DirectRefused c"direct_refused",

    /// Posts where the queue pair could not run at once (RNIC-RUN-03).
    queued_posts QueuedPosts c"queued_posts",

    /// Expiries of the retransmission timer.
    timeouts Timeouts c"local_ack_timeout_err",
    /// Answers that showed that a response is missing.
    implied_naks ImpliedNaks c"implied_nak_seq_err",
    /// NAKs to peers that ended the queue pair.
    fatal_naks FatalNaks c"send_fatal_nak",
    /// Answers that were older than everything in flight.
    duplicate_answers DuplicateAnswers c"duplicate_answer",
    /// Answers to packets that were never sent.
    ghost_answers GhostAnswers c"ghost_answer",

    /// Packets with a wrong invariant CRC (RNIC-ICRC-06).
    drop_icrc DropIcrc c"rx_icrc_encapsulated",
    /// Packets whose headers of the network are not those of RoCE.
    drop_network DropNetwork c"drop_network_header",
    /// Packets to a number that no queue pair has.
    drop_unknown_qp DropUnknownQp c"drop_unknown_qp",
    /// Packets that arrived elsewhere than packets for the device (RNIC-IP-08).
    drop_netdev DropNetdev c"drop_netdev",
    /// Packets that found the inbox of their queue pair full (RNIC-LIM-05).
    drop_inbox DropInbox c"drop_inbox_full",
    /// Packets in a state in which the queue pair receives nothing.
    drop_state DropState c"drop_qp_state",
    /// Packets from or to other addresses than those of the queue pair (RNIC-IP-06, RNIC-IP-07).
    drop_address DropAddress c"drop_address",
    /// Packets with headers that are too short, or padded in a wrong way.
    drop_header DropHeader c"drop_transport_header",
    /// Packets of another partition.
    drop_partition DropPartition c"drop_pkey",
    /// Packets of another service than that of their queue pair.
    drop_service DropService c"drop_service",
    /// Packets behind a missing one that the peer knows of.
    drop_sequence DropSequence c"drop_sequence",
    /// Repeated requests that are no longer recorded.
    drop_forgotten DropForgotten c"drop_forgotten",
    /// Datagrams with another Q_Key (RNIC-UD-02).
    drop_qkey DropQKey c"drop_qkey",
    /// Datagrams that found no receive buffer.
    drop_no_receive DropNoReceive c"drop_no_receive",
    /// Datagrams that are longer than the MTU, or than the receive buffer.
    drop_too_long DropTooLong c"drop_too_long",
}

impl Counters {
    /// Counts one event. Context: any.
    pub(super) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts events. Context: any.
    pub(super) fn add(&self, counter: Counter, events: u64) {
        self.place(counter).fetch_add(events, Ordering::Relaxed);
    }
}
